#!/usr/bin/env python3
"""What a client may hand down to the server it starts: signals, descriptors, limits, variables.

A tree must work with all of it or say in words why it cannot, and always end.
"""

import contextlib
import json
import os
import pathlib
import pwd
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from tree import BUILD, for_users  # noqa: E402

BAILEY = str((BUILD / "bin" / "bailey").resolve())
LINES = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code",'
    b'"arguments":{"language":"bash","code":"echo hi"}}}\n'
)
ENGINE = {key: value for key, value in os.environ.items() if key.startswith("DOCKER_") or key == "SANDBOX_IMAGE"}


def limit(what, value):
    return lambda: resource.setrlimit(what, (value, value))


def ignore_all():
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


WORKS = {
    "SIGCHLD ignored": {"pre": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)},
    "signals ignored": {"pre": ignore_all},
    "signals blocked": {"pre": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())},
    "64 descriptors": {"pre": limit(resource.RLIMIT_NOFILE, 64)},
    "a file limit of 0 that may be raised": {"pre": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))},
    "one second of processor": {"pre": limit(resource.RLIMIT_CPU, 1)},
    "small stack": {"pre": limit(resource.RLIMIT_STACK, 128 << 10)},
    "umask 777": {"pre": lambda: os.umask(0o777)},
    "no environment": {"env": {}},
    "proxies": {"env": {key: "http://127.0.0.1:9" for key in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy")}},
    "libevent switches": {"env": {"EVENT_NOEPOLL": "1", "EVENT_NOTIMERFD": "1"}},
    "malloc switches": {"env": {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.check=3"}},
    "locale": {"env": {"LC_ALL": "tr_TR.UTF-8", "LANG": "xx"}},
}
# Cannot work; one line of words each, and the exit of a command line that is wrong.
REFUSED = {
    "a file limit of 0": ({"pre": limit(resource.RLIMIT_FSIZE, 0)}, "75 MiB of memory that outlives a process: File too large; ulimit -f allows 0 KiB"),
    "7 descriptors": ({"pre": limit(resource.RLIMIT_NOFILE, 7)}, "file descriptors are needed"),
    "DOCKER_HOST of another kind": ({"env": {"DOCKER_HOST": "ssh://host"}}, "DOCKER_HOST"),
    "DOCKER_HOST too long": ({"env": {"DOCKER_HOST": "unix://" + "/a" * 200}}, "DOCKER_HOST"),
    "an image like an option": ({"env": {"SANDBOX_IMAGE": "--privileged"}}, "SANDBOX_IMAGE"),
    "a limit that is none": ({"env": {"MAX_MEMORY_MB": "-1"}}, "MAX_MEMORY_MB"),
    "a timeout that is none": ({"env": {"EXEC_TIMEOUT_SEC": "1e3"}}, "EXEC_TIMEOUT_SEC"),
}


class Server:
    """`bailey mcp` with surroundings; status and err are known once it has ended."""

    def __init__(self, user, pre=None, env=None, close_fds=True, look=None):
        extra = {}
        if user:
            entry = pwd.getpwnam(user)
            extra = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist(user, entry.pw_gid)}
        self.process = subprocess.Popen(
            [BAILEY, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
            env=os.environ if env is None else {**ENGINE, **env}, preexec_fn=pre, close_fds=close_fds, **extra,
        )
        self.lines, self.err = [], b""
        readers = [threading.Thread(target=self.read_out), threading.Thread(target=self.read_err)]
        for reader in readers:
            reader.start()
        self.write()
        self.seen = look(self.process.pid) if look else None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.code = "it did not end"
            self.process.kill()
        for reader in readers:
            reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()

    def write(self):
        try:
            self.process.stdin.write(LINES)
            self.process.stdin.flush()
        except BrokenPipeError:
            return
        end = time.monotonic() + 20
        while len(self.lines) < 2 and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)

    def read_out(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def read_err(self):
        self.err = self.process.stderr.read()


def look_for(inode):
    """Which processes of a tree hold that file."""

    def look(pid):
        held = []
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        for one in [str(pid), *children]:
            for fd in pathlib.Path(f"/proc/{one}/fd").iterdir():
                if os.stat(fd).st_ino == inode:
                    held.append(pathlib.Path(f"/proc/{one}/comm").read_text(encoding="ascii").strip())
        return held, len(children)

    return look


class Surroundings(unittest.TestCase):
    def test_works_with(self):
        def body(user):
            for name, how in WORKS.items():
                s = Server(user, **how)
                self.assertEqual(s.code, 0, (name, s.err))
                self.assertEqual(len(s.lines), 2, (name, s.err))
                r = s.lines[1]["result"]["structuredContent"]
                self.assertEqual((r["status"], r["stdout"]), ("ok", "hi\n"), (name, r, s.err))

        for_users(self, body)

    def test_refuses_with_words(self):
        def body(user):
            for name, (how, word) in REFUSED.items():
                s = Server(user, **how)
                self.assertEqual(s.lines, [], name)
                self.assertIn(s.code, (1, 2, 70), (name, s.err))
                self.assertIn(word, s.err.decode(), name)
                self.assertLess(s.err.count(b"\n"), 4, s.err)

        for_users(self, body)

    def test_descriptors_of_the_client_go_no_further(self):
        """A client that leaks what it has open must find none of it in any process of the tree."""
        secret = os.open("/", os.O_TMPFILE | os.O_RDWR) if os.access("/", os.W_OK) else os.memfd_create("secret")

        def leak():
            for number in (3, 4, 5, 6, 7, 9, 50, 200):
                os.dup2(secret, number, inheritable=True)

        def body(user):
            s = Server(user, pre=leak, close_fds=False, look=look_for(os.fstat(secret).st_ino))
            self.assertEqual((s.code, s.lines[1]["result"]["structuredContent"]["status"]), (0, "ok"), s.err)
            self.assertEqual(s.seen, ([], 3))

        for_users(self, body)


if __name__ == "__main__":
    tap.main()
