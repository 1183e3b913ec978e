#!/usr/bin/env python3
"""sandbox_eval, live: an interpreter per language and sandbox that keeps its state."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from tree import Tree, for_users  # noqa: E402


class Eval(unittest.TestCase):
    def each(self, body):
        def one(user):
            with Tree(user=user) as tree:
                body(tree, Sandbox(tree))

        for_users(self, one)

    def good(self, box, language, code, **more):
        r = box.evaluate(language, code, **more)
        self.assertEqual((r["status"], r["_isError"]), ("ok", False), r)
        return r

    def test_state_is_kept(self):
        def body(tree, box):
            self.good(box, "python", "import math\nx = 20\ndef double(n):\n    return 2 * n")
            self.assertEqual(self.good(box, "python", "double(x) + int(math.sqrt(4))")["value"], "42")
            self.good(box, "node", "const y = 20; let z = 1; function twice(n) { return 2 * n }")
            self.assertEqual(self.good(box, "node", "twice(y) + z + 1")["value"], "42")
            self.good(box, "bash", "v=40; f() { echo $((v + $1)); }; cd /tmp")
            self.assertEqual(self.good(box, "bash", "f 2; pwd")["stdout"], "42\n/tmp\n")

        self.each(body)

    def test_the_value_is_that_of_the_last_expression(self):
        def body(tree, box):
            for code, value in (("1 + 1", "2"), ("'a\\'b'", '"a\'b"'), ("x = 5", None), ("None", None), ("[1, 'two']", "[1, 'two']"),
                                ("y = 1\ny + 1", "2"), ("for i in range(3): pass", None), ("{'k': b'\\xff'}", "{'k': b'\\xff'}")):
                self.assertEqual(self.good(box, "python", code)["value"], value, code)
            for code, value in (("1 + 1", "2"), ("'a'", "'a'"), ("const q = 5", None), ("({a: [1, 2]})", "{ a: [ 1, 2 ] }"),
                                ("await Promise.resolve(7)", "7")):
                self.assertEqual(self.good(box, "node", code)["value"], value, code)
            r = self.good(box, "python", "print('out'); import sys; print('err', file=sys.stderr); 3")
            self.assertEqual((r["stdout"], r["stderr"], r["value"]), ("out\n", "err\n", "3"))

        self.each(body)

    def test_an_error_is_told_with_its_lines_and_loses_nothing(self):
        def body(tree, box):
            self.good(box, "python", "kept = 'still here'")
            r = box.evaluate("python", "def f():\n    return 1 / 0\nf()")
            self.assertEqual((r["status"], r["exit_code"], r["value"]), ("nonzero", 1, None), r)
            self.assertIn("ZeroDivisionError: division by zero", r["stderr"])
            self.assertIn("return 1 / 0", r["stderr"])
            self.assertIn("SyntaxError", box.evaluate("python", "def (")["stderr"])
            self.assertEqual(self.good(box, "python", "kept")["value"], "'still here'")
            self.good(box, "node", "let keptn = 7")
            r = box.evaluate("node", "throw new TypeError('no such luck')")
            self.assertEqual((r["status"], r["exit_code"]), ("nonzero", 1), r)
            self.assertIn("TypeError: no such luck", r["stderr"])
            self.assertEqual(self.good(box, "node", "keptn")["value"], "7")
            r = box.evaluate("bash", "false")
            self.assertEqual((r["status"], r["exit_code"]), ("nonzero", 1), r)

        self.each(body)

    def test_a_crash_loses_only_that_interpreter(self):
        def body(tree, box):
            self.good(box, "python", "p = 1")
            self.good(box, "node", "globalThis.n = 2")
            background = box.run("sleep 621", background=True)
            r = box.evaluate("python", "import os, signal\nprint('last words', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)")
            self.assertNotEqual(r["status"], "ok", r)
            self.assertEqual(r["stdout"], "last words\n", r)
            self.assertRegex(r["message"], "interpreter|state")
            self.assertIn("NameError", box.evaluate("python", "p")["stderr"])
            self.assertEqual(self.good(box, "node", "n")["value"], "2")
            self.assertEqual(tree.call("inspect_logs", {"run_id": background["run_id"]})["status"], "running")
            r = box.evaluate("python", "import os; os._exit(3)")
            self.assertNotEqual(r["status"], "ok", r)
            self.assertEqual(self.good(box, "python", "1 + 1")["value"], "2")

        self.each(body)

    def test_killed_from_outside_while_it_waits_or_works(self):
        def body(tree, box):
            self.good(box, "python", "p = 1")
            call = tree.start("sandbox_eval", {"sandbox_id": box.id, "language": "python", "code": "import time; time.sleep(60)", "timeout_seconds": 60})
            time.sleep(0.5)
            box.run("pkill -9 python3")
            r = tree.wait(call)
            self.assertNotEqual(r["status"], "ok", r)
            self.assertEqual(self.good(box, "python", "2")["value"], "2")
            box.run("pkill -9 python3")
            until(lambda: box.evaluate("python", "3")["value"] == "3", 3)

        self.each(body)

    def test_a_time_limit_loses_only_that_interpreter(self):
        def body(tree, box):
            self.good(box, "python", "p = 1")
            self.good(box, "bash", "b=2")
            measure = pace.Measure()
            r = box.evaluate("python", "print('before', flush=True)\nimport subprocess\nsubprocess.run(['sleep', '622'])", timeout_seconds=1)
            self.assertEqual((r["status"], r["stdout"]), ("timed_out", "before\n"), r)
            self.assertLess(measure.ours(), 2, measure)
            self.assertEqual(box.run("ps ax | grep -c '[s]leep 622'")["stdout"], "0\n")
            self.assertIn("NameError", box.evaluate("python", "p")["stderr"])
            self.assertEqual(self.good(box, "bash", "echo $b")["stdout"], "2\n")

        self.each(body)

    def test_cancel(self):
        def body(tree, box):
            call = tree.start("sandbox_eval", {"sandbox_id": box.id, "language": "python", "code": "import time\nwhile True: time.sleep(1)", "timeout_seconds": 60})
            time.sleep(0.5)
            tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
            self.assertEqual(self.good(box, "python", "1 + 1", timeout=10)["value"], "2")
            self.assertTrue(tree.waiting[call].empty())

        self.each(body)

    def test_turns_are_waited_for(self):
        def body(tree, box):
            self.good(box, "python", "seen = []")
            calls = [tree.start("sandbox_eval", {"sandbox_id": box.id, "language": "python", "code": f"import time; time.sleep(0.1); seen.append({i}); {i}"})
                     for i in range(5)]
            self.assertEqual([tree.wait(c)["value"] for c in calls], ["0", "1", "2", "3", "4"])
            self.assertEqual(self.good(box, "python", "seen")["value"], "[0, 1, 2, 3, 4]")
            calls = [tree.start("sandbox_eval", {"sandbox_id": box.id, "language": "python", "code": "import time; time.sleep(0.3)"}) for _ in range(16)]
            told = [tree.wait(c) for c in calls]
            states = [r["status"] for r in told]
            self.assertIn("busy", states)
            self.assertEqual([r["message"] for r in told if "All sandboxes" in r["message"]], [])
            self.assertGreaterEqual(states.count("ok"), 8)

        self.each(body)

    def test_output_that_would_look_like_ours(self):
        def body(tree, box):
            fake = "\x01v99\x00\x00e0\x00"
            r = self.good(box, "python", f"import sys; sys.stdout.write({fake!r}); sys.stdout.flush()\n5")
            self.assertEqual(r["value"], "5")
            self.assertEqual(r["stdout_encoding"], "escaped")

        self.each(body)

    def test_reading_input_finds_its_end(self):
        def body(tree, box):
            r = box.evaluate("python", "input()", timeout_seconds=5)
            self.assertEqual(r["status"], "nonzero", r)
            self.assertIn("EOFError", r["stderr"])
            self.assertEqual(self.good(box, "python", "8")["value"], "8")
            r = box.evaluate("bash", "read x; echo \"[$x]\"", timeout_seconds=5)
            self.assertEqual(r["stdout"], "[]\n", r)
            self.assertEqual(self.good(box, "bash", "echo y")["stdout"], "y\n")

        self.each(body)

    def test_threads_and_children_of_an_evaluation(self):
        def body(tree, box):
            self.good(box, "python", "import subprocess; p = subprocess.Popen(['sleep', '623'])")
            self.assertEqual(self.good(box, "python", "p.poll()")["value"], None)
            self.assertEqual(box.run("ps ax | grep -c '[s]leep 623'")["stdout"], "1\n")

        self.each(body)

    def test_large_code_and_value(self):
        def body(tree, box):
            self.good(box, "python", "#" * 900000 + "\nbig = 1")
            r = self.good(box, "python", "'x' * 1000000")
            self.assertTrue(r["value"].startswith("'xxx"))
            self.assertLess(len(r["value"]), 1 << 20)
            self.assertEqual(self.good(box, "python", "big")["value"], "1")

        self.each(body)


if __name__ == "__main__":
    tap.main()
