#!/usr/bin/env python3
"""How each run ended is told as it was: one table of ordinary and hostile endings, for a run of its
own, a command in a sandbox and an evaluation.

Each row is Python code and what is to be told of it. In a sandbox a command is run after each row:
what one run did to itself is not to be another one's ending.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from tree import Tree, engine, for_users  # noqa: E402

EVERYWHERE = ("single", "command", "eval")
PROGRAM = ("single", "command")  # an evaluation's exit is not its interpreter's

HOG = "b = []\nwhile True: b.append(bytearray(b'x') * (1 << 20))\n"
CHILD_HOGS = (
    "import os, sys\n"
    "pid = os.fork()\n"
    "if pid == 0:\n    b = []\n    while True: b.append(bytearray(b'x') * (1 << 20))\n"
    "print(os.waitpid(pid, 0)[1])\n"
)
FORKS = "import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(20)\n"
FORKS_CAUGHT = (
    "import os, signal, sys, time\n"
    "kids = []\n"
    "try:\n"
    "    while True:\n"
    "        pid = os.fork()\n"
    "        if pid == 0: time.sleep(20); os._exit(0)\n"
    "        kids.append(pid)\n"
    "except OSError as error: print(error.errno)\n"
    "for pid in kids: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)\n"
)
FILL = "f = open('{}/big', 'wb', buffering=0)\nwhile f.write(b'x' * 65536): pass\n"
FILL_CAUGHT = "import os, sys\ntry:\n    f = open('/workspace/big', 'wb', buffering=0)\n    while f.write(b'x' * 65536): pass\nexcept OSError as error: print(error.errno)\n"
FILES = "n = 0\nwhile True:\n    open(f'/tmp/n{n}', 'w').close()\n    n += 1\n"

# name, code, where, status, exit code or -signal (None: any), words of the message, stdout
ROWS = (
    ("the end", "print(1)", EVERYWHERE, "ok", 0, "", "1\n"),
    ("exit 3", "import sys; sys.exit(3)", EVERYWHERE, "nonzero", 3, "", ""),
    ("exit 137 of its own", "import sys; sys.exit(137)", EVERYWHERE, "nonzero", 137, "", ""),
    ("exit 139 of its own", "import sys; sys.exit(139)", EVERYWHERE, "nonzero", 139, "", ""),
    ("an exception", "1 / 0", EVERYWHERE, "nonzero", 1, "", ""),
    ("kill -9 of itself", "import os; os.kill(os.getpid(), 9)", EVERYWHERE, "signaled", -9, "", ""),
    ("SIGSEGV", "import os; os.kill(os.getpid(), 11)", EVERYWHERE, "signaled", -11, "", ""),
    ("abort", "import os; os.abort()", EVERYWHERE, "signaled", -6, "", ""),
    ("a child killed", "import subprocess; print(subprocess.run(['sh', '-c', 'kill -9 $$']).returncode)", EVERYWHERE, "ok", 0, "", "-9\n"),
    ("out of memory", HOG, EVERYWHERE, "oom_killed", -9, "limit of 192 MiB", ""),
    ("a child out of memory, well", CHILD_HOGS, EVERYWHERE, "ok", 0, "", "9\n"),
    ("a child out of memory, ill", CHILD_HOGS + "sys.exit(1)", EVERYWHERE, "oom_killed", 1, "limit of 192 MiB", "9\n"),
    ("MemoryError caught", "try: bytearray(1 << 45)\nexcept MemoryError: print('caught')", EVERYWHERE, "ok", 0, "", "caught\n"),
    ("MemoryError", "bytearray(1 << 45)", EVERYWHERE, "nonzero", 1, "", ""),
    ("forks", FORKS, PROGRAM, "pids_limit", 1, "limit of 64 processes", ""),
    ("forks caught", FORKS_CAUGHT, EVERYWHERE, "ok", 0, "", "11\n"),
    ("forks caught, ill", FORKS_CAUGHT + "sys.exit(5)", EVERYWHERE, "pids_limit", 5, "limit of 64 processes", "11\n"),
    ("full disk", FILL.format("/workspace"), EVERYWHERE, "disk_full", 1, "/workspace is full", ""),
    ("full disk caught", FILL_CAUGHT, EVERYWHERE, "ok", 0, "", "28\n"),
    ("full disk emptied", FILL_CAUGHT + "f.close(); os.unlink('/workspace/big'); sys.exit(3)", EVERYWHERE, "nonzero", 3, "", "28\n"),
    ("full /tmp", FILL.format("/tmp"), EVERYWHERE, "disk_full", 1, "/tmp is full", ""),
    ("too many files", FILES, EVERYWHERE, "disk_full", 1, "as many files as it may", ""),
    ("too long", "import time; time.sleep(60)", EVERYWHERE, "timed_out", -9, "limit of 0.7 s", ""),
    ("too long and loud", "while True: print('x' * 10000)", EVERYWHERE, "timed_out", -9, "limit of 0.7 s", None),
    ("too long in a child", "import os, time\nos.fork()\nos.setsid() if os.getpid() != 1 and not os.getpgid(0) == os.getpid() else None\ntime.sleep(60)", PROGRAM, "timed_out", -9, "limit of 0.7 s", ""),
)
NOT_ERRORS = {"ok", "nonzero", "signaled"}
SHORT = {"timed_out": 0.7}


def sleepers(mark):
    found = 0
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += entry.read_bytes() == f"sleep\0{mark}\0".encode()
    return found


class Endings(unittest.TestCase):
    def check(self, row, mode, r):
        name, _, _, status, ending, words, out = row
        where = (name, mode, r)
        self.assertEqual(r["status"], status, where)
        self.assertEqual(r["_isError"], status not in NOT_ERRORS, where)
        self.assertIn(words, r["message"], where)
        self.assertEqual(r["timed_out"], status == "timed_out", where)
        if ending >= 0:
            self.assertEqual(r["exit_code"], ending, where)
        else:
            self.assertIsNone(r["exit_code"], where)
            if mode != "eval":
                self.assertEqual(r["signal"], -ending, where)
        if out is not None:
            self.assertEqual(r["stdout"], out, where)
        if mode == "single" and status == "oom_killed":
            # The host's own figure, and nothing but the limit can be the peak.
            self.assertGreater(r["peak_memory_bytes"], 0.97 * r["limits"]["memory_bytes"], where)
            self.assertIn("(peak 19", r["message"], where)

    def singles(self, tree, rows):
        for row in rows:
            r = tree.run("python", row[1], memory_mb=192, timeout_seconds=SHORT.get(row[3], 20))
            self.check(row, "single", r)

    def within(self, tree, mode):
        box = Sandbox(tree, memory_mb=192)
        for row in ROWS:
            if mode not in row[2]:
                continue
            seconds = SHORT.get(row[3], 20)
            if mode == "eval":
                r = box.evaluate("python", row[1], timeout_seconds=seconds)
            else:
                r = box.call("container_exec_command", argv=["python3", "-c", row[1]], timeout_seconds=seconds)
            self.check(row, mode, r)
            r = box.run(": > /workspace/big; : > /tmp/big; rm -f /workspace/big /tmp/big; cd /tmp && ls | grep '^n' | xargs rm -f; echo fine")
            self.assertEqual((r["status"], r["stdout"]), ("ok", "fine\n"), (row[0], mode, r))
            r = box.run("exit 4")  # nothing of the row's is left in the counters
            self.assertEqual((r["status"], r["exit_code"]), ("nonzero", 4), (row[0], mode, r))

    def test_the_table(self):
        def body(user):
            singles = [row for row in ROWS if "single" in row[2]]
            with Tree(user=user) as tree, concurrent.futures.ThreadPoolExecutor() as pool:
                began = [pool.submit(self.singles, tree, singles[half::2]) for half in range(2)]
                began += [pool.submit(self.within, tree, mode) for mode in ("command", "eval")]
                for one in began:
                    one.result()

        for_users(self, body)

    def test_runs_at_once_in_a_sandbox(self):
        """Whose memory bomb it was is known by its end; the other's own exit stays its own."""

        def body(user):
            with Tree(user=user) as tree:
                box = Sandbox(tree, memory_mb=128)
                other = box.start("sleep 1.5; exit 3")
                bomb = box.call("container_exec_command", argv=["python3", "-c", HOG], timeout_seconds=20)
                self.assertEqual(bomb["status"], "oom_killed", bomb)
                r = tree.wait(other)
                self.assertEqual((r["status"], r["exit_code"]), ("nonzero", 3), r)
                self.assertIn("several runs", r["message"])
                self.assertIsNone(r["cpu_ms"])
                self.assertIsNotNone(r["guest"]["cpu_ms"])

        for_users(self, body)

    def test_ended_from_outside(self):
        """Cancelled, destroyed, killed through the engine, its interpreter killed by another run."""

        def body(user):
            with Tree(user=user) as tree:
                box = Sandbox(tree)
                call = box.start("sleep 30")
                time.sleep(0.3)
                measure = pace.Measure()
                tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
                r = box.run("echo next")  # beside it or after it, and at once
                self.assertEqual((r["status"], r["stdout"]), ("ok", "next\n"), r)
                self.assertLess(measure.ours(), 3, measure)
                box.evaluate("python", "x = 1")
                box.run("pkill -9 -f eval.py || kill -9 $(pgrep -f eval)")
                r = box.evaluate("python", "print('x' in globals())")
                if r["status"] == "signaled":  # handed to it before its death was heard of: said, and once
                    self.assertIn("state are gone", r["message"])
                    r = box.evaluate("python", "print('x' in globals())")
                self.assertEqual((r["status"], r["stdout"]), ("ok", "False\n"), r)
                call = box.start("sleep 30")
                time.sleep(0.3)
                self.assertEqual(box.destroy()["status"], "ok")
                r = tree.wait(call)
                self.assertEqual(r["status"], "lost", r)
                self.assertIn("destroyed", r["message"])
                r = box.run("echo x")
                self.assertEqual(r["status"], "not_found", r)
                self.assertIn("destroyed", r["message"])
                box = Sandbox(tree)
                mark = f"31.{os.getpid()}{1 if user else 0}"
                call = box.start(f"sleep {mark}")
                single = tree.start("execute_code", {"language": "bash", "code": f"sleep {mark}", "timeout_seconds": 40})
                until(lambda: sleepers(mark) == 2, 20)
                for one in tree.boxes(running=True):
                    engine.request("POST", f"/containers/{one['Id']}/kill?signal=SIGKILL")
                for number in (call, single):
                    r = tree.wait(number, 10)
                    self.assertEqual(r["status"], "lost", r)
                    self.assertTrue(r["_isError"] and r["message"])
                r = box.run("echo x")
                self.assertEqual(r["status"], "not_found", r)
                self.assertIn("ended by itself", r["message"])

        for_users(self, body)


if __name__ == "__main__":
    tap.main()
