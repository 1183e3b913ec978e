"""An interpreter that stays, without guest-init: the real script with descriptor 3 and pipes as
guest/eval.c would have them, with this machine's python3, node and bash."""

import fcntl
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUEST = os.path.join(ROOT, "guest")


def launch_words(language):
    """The last word guest/launch.c starts this language's interpreter with."""
    with open(os.path.join(GUEST, "launch.c"), encoding="utf-8") as handle:
        row = handle.read().split("{RUN_EVAL_%s,\n" % language)[1].split("}},")[0]
    text = row.split('"-c", ')[1].replace("BOX_DIR", '"/.bailey"')
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text)).replace('\\"', '"')


class Answer:
    def __init__(self):
        self.records, self.code, self.out, self.err = [], None, b"", b""

    value = property(lambda self: next((r[1:].decode() for r in self.records if r[:1] == b"v"), None))
    images = property(lambda self: [r[1:].decode() for r in self.records if r[:1] == b"i"])
    stdout = property(lambda self: self.out.decode())
    stderr = property(lambda self: self.err.decode())

    def __repr__(self):
        return f"code {self.code}, {self.records}, out {self.out!r}, err {self.err!r}"


class Gone(Exception):
    pass


class Interpreter:
    """What guest/eval.c does: descriptor 3, pipes for 1 and 2, an input that has ended."""

    def __init__(self, words, cwd, env=None):
        self.here, there = socket.socketpair()
        number = fcntl.fcntl(there.fileno(), fcntl.F_DUPFD, 20)
        there.close()
        shell = ["bash", "-c", f'exec "$@" 3<&{number} {number}<&-', "bash", *words]
        given, ended = os.pipe()
        os.close(ended)
        self.child = subprocess.Popen(shell, cwd=cwd, pass_fds=[number], stdin=given,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                                      env={"PATH": os.environ["PATH"], "HOME": cwd, "LANG": "C.UTF-8", **(env or {})})
        os.close(given)
        os.close(number)
        self.left = b""

    def close(self):
        self.child.kill()
        self.child.wait()
        for handle in (self.here, self.child.stdout, self.child.stderr):
            handle.close()

    def _drain(self, answer):
        """What the pipes hold at this moment."""
        for handle, name in ((self.child.stdout, "out"), (self.child.stderr, "err")):
            while select.select([handle], [], [], 0)[0]:
                part = os.read(handle.fileno(), 1 << 20)
                if not part:
                    break
                setattr(answer, name, getattr(answer, name) + part)

    def send(self, code):
        data = code.encode() if isinstance(code, str) else code
        self.pending = b"%010d" % len(data) + data

    def run(self, code, timeout=20):
        self.send(code)
        return self.wait(timeout)

    def wait(self, timeout=20):
        answer = Answer()
        end = time.monotonic() + timeout
        pipes = [self.child.stdout, self.child.stderr]
        while True:
            readable, writable, _ = select.select([self.here, *pipes], [self.here] if self.pending else [], [],
                                                  max(0, end - time.monotonic()))
            if not readable and not writable:
                raise AssertionError(f"no answer within {timeout} s: {answer}")
            for handle in readable:
                if handle is self.here:
                    try:
                        part = self.here.recv(65536)
                    except ConnectionError:
                        part = b""
                    if not part:
                        code = self.child.wait(timeout=20)
                        self._drain(answer)
                        raise Gone(answer, code)
                    self.left += part
                else:
                    part = os.read(handle.fileno(), 65536)
                    if not part:
                        pipes.remove(handle)
                    elif handle is self.child.stdout:
                        answer.out += part
                    else:
                        answer.err += part
            if writable:
                try:
                    self.pending = self.pending[self.here.send(self.pending, socket.MSG_DONTWAIT):]
                except (BlockingIOError, ConnectionError):
                    pass
            while b"\0" in self.left:
                record, self.left = self.left.split(b"\0", 1)
                if record[:1] == b"e":
                    answer.code = int(record[1:])
                    self._drain(answer)
                    return answer
                answer.records.append(record)


class Case(unittest.TestCase):
    words, env = None, None

    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="bailey-eval-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.box = Interpreter(self.words, self.dir, self.env)
        self.addCleanup(self.box.close)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return path

    def good(self, code):
        answer = self.box.run(code)
        self.assertEqual((answer.code, answer.stderr), (0, ""), (code, answer))
        return answer

    def value(self, code):
        return self.good(code).value

    def bad(self, code, exit_code=1):
        answer = self.box.run(code)
        self.assertEqual((answer.code, answer.records), (exit_code, []), answer)
        return answer.stderr

    def lost(self, code):
        """The interpreter ends: what it said, and how."""
        with self.assertRaises(Gone) as caught:
            self.box.run(code)
        return caught.exception.args


class Ends:
    busy = None

    def test_nobody_sends_any_more(self):
        self.good(self.busy)
        self.box.here.shutdown(socket.SHUT_WR)
        self.assertEqual(self.box.child.wait(timeout=20), 0)
