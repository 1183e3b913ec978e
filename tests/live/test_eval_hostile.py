#!/usr/bin/env python3
"""Code that is evaluated and means ill, or does not look: whatever it does to its interpreter, the
control of it or guest-init's processes, it loses its own state and nothing else."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox  # noqa: E402
from tree import Tree  # noqa: E402

CONTROL = "import os, time\nfd = max(int(n) for n in os.listdir('/proc/self/fd'))\n"


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = Tree().__enter__()
        cls.addClassCleanup(cls.tree.__exit__, None, None, None)
        cls.box = Sandbox(cls.tree)

    def setUp(self):
        self.box.evaluate("bash", "kept=here")
        self.python("kept = 1")

    def python(self, code, **more):
        return self.box.evaluate("python", code, **more)

    def works(self, lost):
        """The next evaluation is right, in the old interpreter or a new one; others never felt it."""
        measure = pace.Measure()
        r = self.python("print('on'); 6 * 7", timeout_seconds=10)
        self.assertEqual((r["status"], r["value"]), ("ok", "42"), r)
        self.assertTrue(r["stdout"].endswith("on\n"), r["stdout"][-200:])
        self.assertEqual(self.python("'kept' in globals()")["value"], str(not lost))
        self.assertEqual(self.box.evaluate("bash", "echo $kept")["stdout"], "here\n")
        self.assertEqual(self.box.run("echo run")["stdout"], "run\n")
        self.assertLess(measure.ours(), 3, measure)

    def test_an_end_of_its_own(self):
        self.assertEqual(self.python(CONTROL + "os.write(fd, b'v99\\0e7\\0')\ntime.sleep(0.3)")["exit_code"], 7)
        time.sleep(0.6)
        self.works(lost=True)

    def test_what_is_no_record(self):
        for data in ("b'z\\0'", "b'e999\\0'", "b'v' * 200000", "b'e0\\0e0\\0'", "b'\\0' * 5"):
            r = self.python(CONTROL + f"os.write(fd, {data})\ntime.sleep(5)")
            self.assertNotEqual(r["status"], "ok", (data, r))
            self.assertLess(r["duration_ms"], 3000)
            self.python("kept = 1")
        self.works(lost=False)

    def test_a_flood_of_records(self):
        call = self.tree.start("sandbox_eval", {"sandbox_id": self.box.id, "language": "python", "timeout_seconds": 2,
                                                "code": CONTROL + "while True: os.write(fd, b'vx\\0' * 10000)"})
        time.sleep(0.5)
        measure = pace.Measure()
        self.assertEqual(self.box.run("echo beside")["stdout"], "beside\n")
        self.assertLess(measure.ours(), 1, measure)
        self.assertEqual(self.tree.wait(call)["status"], "timed_out")
        self.works(lost=True)

    def test_a_child_that_never_stops_writing(self):
        r = self.python("import subprocess\nchild = subprocess.Popen(['yes'])")
        self.assertEqual(r["status"], "ok", r)
        time.sleep(0.3)
        r = self.python("5")
        self.assertEqual((r["status"], r["value"]), ("ok", "5"))
        self.assertTrue(r["stdout"].startswith("y\n"), r["stdout"][:50])
        self.python("child.kill(); child.wait()")
        self.python("pass")
        self.works(lost=False)

    def test_every_descriptor_closed(self):
        r = self.python("import os\nos.closerange(3, 4096)")
        self.assertRegex(r["message"], "interpreter")
        self.works(lost=True)

    def test_its_runner_killed_while_it_works(self):
        r = self.python("import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(5)")
        self.assertNotEqual(r["status"], "ok", r)
        self.assertLess(r["duration_ms"], 3000)
        self.works(lost=True)

    def test_its_runner_killed_while_it_rests(self):
        self.python("import os, threading\nthreading.Timer(0.2, os.kill, [os.getppid(), 9]).start()")
        time.sleep(0.7)
        self.works(lost=True)

    def test_stopped(self):
        self.assertEqual(self.python("import os\nos.kill(os.getpid(), 19)", timeout_seconds=1)["status"], "timed_out")
        self.works(lost=True)

    def test_stopped_while_it_rests(self):
        """By another run, or by itself a moment after its answer: the next evaluation finds it awake."""
        for stop in (lambda: self.box.run("kill -STOP -1"),
                     lambda: self.python("import os, threading\nthreading.Timer(0.1, os.kill, [os.getpid(), 19]).start()") and time.sleep(0.4)):
            stop()
            self.works(lost=False)

    def test_processes_it_leaves_when_it_is_ended(self):
        r = self.python("import os, time\nfor _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
                        "            os.execvp('sleep', ['sleep', '631'])\n        os._exit(0)\ntime.sleep(60)", timeout_seconds=1)
        self.assertEqual(r["status"], "timed_out", r)
        self.assertEqual(self.box.run("ps ax | grep -c '[s]leep 631'")["stdout"], "0\n")
        self.works(lost=True)

    def begin(self, code, timeout):
        return self.tree.start("sandbox_eval", {"sandbox_id": self.box.id, "language": "python", "code": code, "timeout_seconds": timeout})

    def test_a_turn_that_comes_later_than_its_time_limit(self):
        first, second, third = self.begin("import time; time.sleep(3); 'a'", 30), self.begin("'b'", 1), self.begin("kept", 1)
        self.assertEqual([self.tree.wait(call)["value"] for call in (first, second, third)], ["'a'", "'b'", "1"])
        self.works(lost=False)

    def test_one_that_is_cancelled_before_its_turn(self):
        first, second, third = self.begin("import time; time.sleep(1.5); seen = []", 30), self.begin("seen.append(2)", 30), self.begin("seen", 30)
        time.sleep(0.3)
        self.tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": second}})
        self.assertEqual(self.tree.wait(first)["status"], "ok")
        self.assertEqual(self.tree.wait(third)["value"], "[]")
        self.works(lost=False)

    def test_bash_that_ends_without_meaning_to(self):
        for code in ("set -u\necho $nothing", "exit 0", "exec true", "kill -9 $$", "exec 199>&-; exec 10>&-; exit"):
            r = self.box.evaluate("bash", code, timeout_seconds=5)
            self.assertRegex(r["message"] or "", "interpreter", (code, r))
            self.assertEqual(self.box.evaluate("bash", "echo on")["stdout"], "on\n")

    def test_node_that_ends_without_meaning_to(self):
        self.box.evaluate("node", "let kept = 1")
        for code in ("process.exit(0)", "process.abort()", "while (true) {}", "process.kill(process.pid, 'SIGKILL')"):
            r = self.box.evaluate("node", code, timeout_seconds=1)
            self.assertRegex(r["message"] or "", "interpreter", (code, r))
            self.assertEqual(self.box.evaluate("node", "typeof kept")["value"], "'undefined'", code)


if __name__ == "__main__":
    tap.main()
