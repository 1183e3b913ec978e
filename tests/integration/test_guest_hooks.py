#!/usr/bin/env python3
"""The hooks of waiting interpreters, with this machine's python3 and node and no sandbox: what
the live tests' image cannot show (a sitecustomize of its own, no run at all, pieces)."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUEST = os.path.join(ROOT, "guest")


def message(args=(), env=()):
    items = b"".join(item.encode() + b"\0" for item in [str(len(args)), *args, *env])
    return struct.pack("<I", len(items)) + items


class Hook(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="bailey-hook-")
        self.addCleanup(shutil.rmtree, self.dir)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return path

    def wait(self, words, env):
        """Starts the interpreter up to its ready byte, with the other end as descriptor 3."""
        self.here, there = socket.socketpair()
        self.addCleanup(self.here.close)
        self.here.settimeout(20)
        shell = ["/bin/sh", "-c", 'exec "$@" 3<&"$0"', str(there.fileno()), *words]
        child = subprocess.Popen(shell, cwd=self.dir, env={"PATH": os.environ["PATH"], **env},
                                 pass_fds=[there.fileno()], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        there.close()
        self.addCleanup(child.kill)
        self.assertEqual(self.here.recv(1), b"r")
        return child

    def finish(self, child):
        out, err = child.communicate(timeout=20)
        return out.decode(), err.decode(), child.returncode


class Python(Hook):
    PROGRAM = os.path.realpath(sys.executable)

    def start(self, *more):
        path = os.pathsep.join([os.path.join(GUEST, "python"), *more])
        return self.wait([self.PROGRAM, "main.py"], {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"})

    def run_code(self, code, *more, **told):
        child = self.start(*more)
        self.write("main.py", code)
        self.here.sendall(message(**told))
        return self.finish(child)

    def test_the_file_is_read_after_the_wait(self):
        self.assertEqual(self.run_code("import sys; print(sys.argv)", args=["a", ""]),
                         ("['main.py', 'a', '']\n", "", 0))

    def test_environment(self):
        code = "import os; print(os.environ['A'], os.environ['B'], os.environ.get('PYTHONPATH'))"
        self.assertEqual(self.run_code(code, env=["A=x=y", "B="]), ("x=y  None\n", "", 0))

    def test_own_sitecustomize_is_kept(self):
        self.write("site/sitecustomize.py", "import sys\nprint('customized')\nvalue = 5\n")
        code = "import sys, sitecustomize; print(sitecustomize.value, sitecustomize.__file__.endswith('site/sitecustomize.py'))"
        self.assertEqual(self.run_code(code, os.path.join(self.dir, "site")), ("customized\n5 True\n", "", 0))

    def test_own_sitecustomize_that_fails(self):
        for text, told in (("raise ValueError('broken')", "ValueError: broken"),
                           ("import nothing_of_that_name", "No module named 'nothing_of_that_name'")):
            self.write("site/sitecustomize.py", text)
            out, err, code = self.run_code("print('on')", os.path.join(self.dir, "site"))
            self.assertEqual((out, code), ("on\n", 0))
            self.assertIn(told, err)
            self.assertTrue(err.startswith("Error in sitecustomize; set PYTHONVERBOSE for traceback:"), err)

    def test_a_message_in_pieces(self):
        child = self.start()
        self.write("main.py", "import sys; print(len(sys.argv[1]))")
        data = message(args=["x" * 60000])
        for part in (data[:1], data[1:3], data[3:4], data[4:5], data[5:30000], data[30000:]):
            self.here.sendall(part)
        self.assertEqual(self.finish(child), ("60000\n", "", 0))

    def test_no_run_comes(self):
        child = self.start()
        self.here.close()
        self.assertEqual(self.finish(child), ("", "", 0))

    def test_descriptor_three_is_free_again(self):
        self.assertEqual(self.run_code("print(open('/dev/null').fileno())")[0], "3\n")


@unittest.skipUnless(shutil.which("node"), "no node on this machine")
class Node(Hook):
    def start(self):
        return self.wait(["node", "--require", os.path.join(GUEST, "node", "wait.js"), "main.js"], {})

    def test_the_file_is_read_after_the_wait(self):
        child = self.start()
        self.write("main.js", "console.log(process.argv.slice(2), process.execArgv, process.env.A, Object.keys(require.cache).length)")
        self.here.sendall(message(args=["a", ""], env=["A=x=y"]))
        self.assertEqual(self.finish(child), ("[ 'a', '' ] [] x=y 1\n", "", 0))

    def test_a_message_in_pieces(self):
        child = self.start()
        self.write("main.js", "console.log(process.argv[2].length)")
        data = message(args=["\u00fc" * 30000])
        for part in (data[:2], data[2:4], data[4:40001], data[40001:]):
            self.here.sendall(part)
        self.assertEqual(self.finish(child), ("30000\n", "", 0))

    def test_no_run_comes(self):
        child = self.start()
        self.here.close()
        self.assertEqual(self.finish(child), ("", "", 0))


if __name__ == "__main__":
    tap.main()
