#!/usr/bin/env python3
"""What a run may do, and how each kind of ending is told: the bad-input and fault table, live.

Every case runs once as root (role uids) and once as the plain user named by BAILEY_TEST_USER.
"""

import base64
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from tree import Tree, engine, no_boxes_within, users  # noqa: E402

MIB = 1 << 20


class Runs(unittest.TestCase):
    def each(self):
        for user in users():
            with self.subTest(user=user or "self"), Tree(user=user) as tree:
                yield tree

    def test_the_three_languages(self):
        for tree in self.each():
            for language, code in (("python", "print(6*7)"), ("node", "console.log(6*7)"), ("bash", "echo $((6*7))")):
                r = tree.run(language, code)
                self.assertEqual((r["status"], r["stdout"], r["exit_code"]), ("ok", "42\n", 0), r)

    def test_exit_codes_and_signals(self):
        for tree in self.each():
            r = tree.run("python", "import sys; sys.exit(7)")
            self.assertEqual((r["status"], r["exit_code"]), ("nonzero", 7))
            self.assertFalse(r["_isError"])
            r = tree.run("bash", "kill -SEGV $$")
            self.assertEqual((r["status"], r["signal"]), ("signaled", 11), r)
            self.assertIsNone(r["exit_code"])

    def test_code_of_nothing_and_of_a_mebibyte(self):
        for tree in self.each():
            self.assertEqual(tree.run("python", "")["status"], "ok")
            line = "print('end')\n"
            code = "#" * (MIB - len(line) - 1) + "\n" + line
            self.assertEqual(len(code), MIB)
            self.assertEqual(tree.run("python", code)["stdout"], "end\n")
            r = tree.run("python", code + "#")
            self.assertTrue(r["_isError"])
            self.assertIn("code", r["message"])

    def test_output_of_nothing(self):
        for tree in self.each():
            r = tree.run("bash", ":")
            self.assertEqual((r["stdout"], r["stdout_bytes"], r["stdout_truncated"]), ("", 0, False))

    def test_output_of_100_mb_keeps_head_and_tail(self):
        for tree in self.each():
            r = tree.run("bash", "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last", timeout_seconds=60)
            self.assertEqual(r["status"], "ok", r["message"])
            self.assertEqual(r["stdout_bytes"], 100000000 + len("first\n\nlast\n"))
            self.assertTrue(r["stdout_truncated"])
            self.assertTrue(r["stdout"].startswith("first\n"))
            self.assertTrue(r["stdout_tail"].endswith("last\n"))
            kept = len(r["stdout"]) + len(r["stdout_tail"])
            self.assertEqual(r["stdout_omitted_bytes"], r["stdout_bytes"] - kept)

    def test_output_that_is_not_text(self):
        for tree in self.each():
            r = tree.run("bash", r"printf 'a\xff\xfeb'")
            self.assertEqual(r["stdout_encoding"], "base64")
            self.assertEqual(base64.b64decode(r["stdout"]), b"a\xff\xfeb")
            r = tree.run("bash", r"printf 'a\0b\033[31m\\'")
            self.assertEqual(r["stdout_encoding"], "escaped")
            self.assertEqual(r["stdout"], "a\\u{0}b\\u{1B}[31m\\\\")

    def test_endless_output_ends_at_the_time_limit(self):
        for tree in self.each():
            measure = pace.Measure()
            r = tree.run("bash", "yes", timeout_seconds=1)
            self.assertEqual(r["status"], "timed_out")
            self.assertTrue(r["_isError"] and r["timed_out"])
            self.assertGreater(r["stdout_bytes"], MIB)
            self.assertLess(measure.ours(), 3, measure)

    def test_sleep_past_the_time_limit(self):
        for tree in self.each():
            tree.wait_ready("python")
            measure = pace.Measure()
            r = tree.run("python", "import time; print('before', flush=True); time.sleep(60)", timeout_seconds=1)
            self.assertEqual((r["status"], r["stdout"]), ("timed_out", "before\n"))
            self.assertGreater(r["duration_ms"], 900)
            self.assertLess(r["duration_ms"] - measure.late() * 1000, 1100, measure)
            self.assertIn("timeout_seconds", r["message"])

    def test_a_trap_does_not_save_a_run_from_its_limit(self):
        for tree in self.each():
            r = tree.run("bash", "trap '' TERM INT HUP; setsid sleep 600 & while :; do sleep 1; done", timeout_seconds=1)
            self.assertEqual(r["status"], "timed_out")

    def test_a_run_that_stops_its_parent_still_ends(self):
        for tree in self.each():
            r = tree.run("bash", "kill -STOP $PPID; echo done", timeout_seconds=5)
            self.assertEqual((r["status"], r["stdout"]), ("ok", "done\n"), r)

    def test_a_run_cannot_end_its_sandbox_by_a_forged_sender(self):
        # rt_sigqueueinfo(1, SIGTERM, {si_code SI_QUEUE, si_pid 0}), as if from outside
        code = ("import ctypes, struct, time\n"
                "info = bytearray(128)\n"
                "struct.pack_into('iii', info, 0, 15, 0, -1)\n"
                "libc = ctypes.CDLL(None)\n"
                "print(libc.syscall(129, 1, 15, (ctypes.c_char * 128).from_buffer(info)), flush=True)\n"
                "time.sleep(0.3)\n"
                "print('alive')\n")
        for tree in self.each():
            r = tree.run("python", code)
            self.assertEqual((r["status"], r["stdout"]), ("ok", "0\nalive\n"), r)

    def test_a_fork_bomb_is_told_as_pids_limit(self):
        for tree in self.each():
            r = tree.run("bash", "f() { f | f & }; f; sleep 2; exit 1", timeout_seconds=10)
            self.assertIn(r["status"], ("pids_limit", "timed_out"), r)
            r = tree.run("python", "import os\nwhile True: os.fork()", timeout_seconds=60)
            self.assertEqual(r["status"], "pids_limit", r)
            self.assertIn("process", r["message"])
            self.assertEqual(tree.run("bash", "echo fine")["stdout"], "fine\n")

    def test_a_memory_bomb_is_told_as_oom_killed(self):
        for tree in self.each():
            r = tree.run("python", "b = bytearray(1 << 30)\nfor i in range(0, len(b), 4096): b[i] = 1", timeout_seconds=20)
            self.assertEqual(r["status"], "oom_killed", r)
            self.assertIn("memory_mb", r["message"])
            self.assertTrue(r["_isError"])

    def test_a_full_disk_is_told_as_disk_full(self):
        for tree in self.each():
            r = tree.run("bash", "head -c 400000000 /dev/zero > big", timeout_seconds=30)
            self.assertEqual(r["status"], "disk_full", r)

    def test_daemonised_grandchildren_end_with_the_run(self):
        for tree in self.each():
            code = "setsid sh -c 'while :; do sleep 0.1; done' >/dev/null 2>&1 & (nohup sleep 600 >/dev/null 2>&1 &); echo started"
            r = tree.run("bash", code)
            self.assertEqual((r["status"], r["stdout"]), ("ok", "started\n"), r)
            self.assertLess(r["duration_ms"], 5000)

    def test_a_grandchild_that_holds_the_output_does_not_hold_the_answer(self):
        for tree in self.each():
            measure = pace.Measure()
            r = tree.run("bash", "sleep 600 & echo out", timeout_seconds=20)
            self.assertEqual((r["status"], r["stdout"]), ("ok", "out\n"), r)
            self.assertLess(measure.ours(), 5, measure)

    def test_reading_stdin_that_never_comes(self):
        for tree in self.each():
            r = tree.run("python", "import sys; print(repr(sys.stdin.read()))")
            self.assertEqual((r["status"], r["stdout"]), ("ok", "''\n"))
            r = tree.run("bash", "read x; echo \"[$x] $?\"")
            self.assertEqual(r["stdout"], "[] 1\n")

    def test_stdin_of_4_mib_arrives_whole(self):
        for tree in self.each():
            r = tree.run("python", "import sys; d = sys.stdin.read(); print(len(d), d[-3:])", stdin="x" * (4 * MIB - 3) + "end")
            self.assertEqual(r["stdout"], f"{4 * MIB} end\n", r)

    def test_arguments_and_environment(self):
        for tree in self.each():
            code = "import sys, os; print(sys.argv[1:], os.environ['GREETING'], os.getcwd(), os.cpu_count())"
            r = tree.run("python", code, args=["a b", "-x", ""], env={"GREETING": "hé"})
            self.assertEqual(r["stdout"], "['a b', '-x', ''] hé /workspace 1\n", r)
            self.assertEqual(r["start"] in ("warm", "cold"), True)
            r = tree.run("python", "import os; print(os.environ['PYTHONHASHSEED'])", env={"PYTHONHASHSEED": "0"})
            self.assertEqual((r["stdout"], r["start"] in ("live", "cold")), ("0\n", True), r)

    def test_limits_a_request_may_set(self):
        for tree in self.each():
            r = tree.run("bash", "echo x", memory_mb=1024, cpus=2, timeout_seconds=3)
            self.assertEqual(r["status"], "ok", r)
            self.assertEqual(r["limits"]["memory_bytes"], 1024 * MIB)
            self.assertEqual(r["limits"]["cpus"], 2)
            self.assertEqual(r["limits"]["timeout_ms"], 3000)
            r = tree.run("bash", "echo x", memory_mb=128)
            self.assertEqual((r["status"], r["stdout"]), ("ok", "x\n"), r)
            for bad in ({"memory_mb": 1 << 20}, {"cpus": 64}, {"timeout_seconds": 9999}):
                r = tree.run("bash", "echo x", **bad)
                self.assertTrue(r["_isError"], (bad, r))
                self.assertIn(next(iter(bad)), r["message"])

    def test_a_wider_memory_limit_is_real(self):
        for tree in self.each():
            r = tree.run("python", "b = bytearray(700 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('held')", memory_mb=1024, timeout_seconds=20)
            self.assertEqual((r["status"], r["stdout"]), ("ok", "held\n"), r)

    def test_nothing_of_ours_shows_inside(self):
        for tree in self.each():
            r = tree.command("cat /proc/self/environ | tr '\\0' '\\n'; ls -l /proc/self/fd; cat /proc/1/environ 2>&1; ip addr 2>/dev/null; cat /proc/net/dev | tail -n +3")
            self.assertNotIn("BAILEY", r["stdout"].replace("/.bailey", ""))
            self.assertNotIn("eth0", r["stdout"])
            for line in r["stdout"].splitlines():
                if " -> " in line:
                    self.assertNotIn("socket:", line)

    def test_an_image_that_is_missing(self):
        for user in users():
            with self.subTest(user=user or "self"), Tree(user=user, env={"SANDBOX_IMAGE": "bailey/none:such"}) as tree:
                r = tree.run("bash", "echo x")
                self.assertEqual(r["status"], "image_unavailable", r)
                self.assertIn("image build", r["message"])
                self.assertEqual(tree.health()["status"], "image_unavailable")

    def test_a_box_is_gone_after_its_run(self):
        for tree in self.each():
            tree.run("bash", "echo x")
            pid = tree.process.pid
            self.assertEqual(tree.close(), 0)
            self.assertTrue(no_boxes_within(pid, 5, running=False), engine.boxes())

    def test_too_many_calls_are_answered_busy_and_none_is_lost(self):
        for tree in self.each():
            calls = [tree.start("execute_code", {"language": "bash", "code": "sleep 0.2; echo x"}) for _ in range(100)]
            states = [tree.wait(c, 120)["status"] for c in calls]
            self.assertEqual(set(states) - {"ok", "busy"}, set(), states)
            self.assertGreaterEqual(states.count("ok"), 64)
            r = tree.run("bash", "echo x")
            self.assertEqual(r["status"], "ok", r)

    def test_cancel_kills_and_stays_silent(self):
        for tree in self.each():
            tree.wait_ready("python")
            call = tree.start("execute_code", {"language": "python", "code": "import time\ntime.sleep(60)"})
            time.sleep(0.5)
            before = {b["Id"] for b in tree.boxes(running=True)}
            tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
            self.assertTrue(pace.until(lambda: before - {b["Id"] for b in tree.boxes(running=True)}, 0.25))
            self.assertEqual(tree.run("bash", "echo x")["stdout"], "x\n")
            self.assertTrue(tree.waiting[call].empty())

    def test_progress_carries_output_while_the_run_goes_on(self):
        for tree in self.each():
            call = tree.start("execute_code", {"language": "bash", "code": "for i in 1 2 3; do echo tick$i; sleep 0.3; done"}, token=99)
            r = tree.wait(call)
            self.assertEqual(r["status"], "ok")
            seen = []
            while not tree.notes.empty():
                when, note = tree.notes.get()
                if note["method"] == "notifications/progress":
                    self.assertEqual(note["params"]["progressToken"], 99)
                    self.assertLess(when, r["_at"])
                    seen.append(note["params"])
            self.assertGreaterEqual(len(seen), 2)
            values = [p["progress"] for p in seen]
            self.assertEqual(values, sorted(set(values)))
            self.assertIn("tick1", seen[0]["message"])


if __name__ == "__main__":
    tap.main()
