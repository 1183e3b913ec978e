#!/usr/bin/env python3
"""inspect_logs, live: output of running and finished runs by offset and from the end, in bounded
memory; how each ended; whose it is; and what is left when the broker is killed."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from sandbox import Sandbox, peak_kib, until  # noqa: E402
from tree import Tree, for_users  # noqa: E402


class Logs(unittest.TestCase):
    def each(self, body):
        def one(user):
            with Tree(user=user) as tree:
                body(tree)

        for_users(self, one)

    @staticmethod
    def log(tree, run_id, **more):
        return tree.call("inspect_logs", {"run_id": run_id, **more})

    def test_of_a_single_use_run(self):
        def body(tree):
            r = tree.run("bash", "seq 1 1000; echo err >&2; exit 5")
            log = self.log(tree, r["run_id"])
            self.assertEqual((log["status"], log["exit_code"]), ("nonzero", 5), log)
            whole = "".join(f"{i}\n" for i in range(1, 1001))
            self.assertEqual(log["data"], whole)
            self.assertEqual(log["total_bytes"], len(whole))
            self.assertEqual(self.log(tree, r["run_id"], stream="stderr")["data"], "err\n")
            self.assertEqual(self.log(tree, r["run_id"], offset=2, limit=6)["data"], whole[2:8])
            self.assertEqual(self.log(tree, r["run_id"], offset=-5)["data"], "1000\n")
            self.assertEqual(self.log(tree, r["run_id"], offset=len(whole) + 5)["data"], "")

        self.each(body)

    def test_of_a_sandbox_its_newest_run(self):
        def body(tree):
            box = Sandbox(tree)
            box.run("echo older")
            newest = box.run("echo newest")
            log = tree.call("inspect_logs", {"sandbox_id": box.id})
            self.assertEqual((log["data"], log["run_id"]), ("newest\n", newest["run_id"]), log)

        self.each(body)

    def test_while_it_runs(self):
        def body(tree):
            box = Sandbox(tree)
            r = box.run("for i in $(seq 100); do echo tick $i; sleep 0.05; done", background=True)
            seen, offset = "", 0
            end = time.monotonic() + 60
            while time.monotonic() < end:
                log = self.log(tree, r["run_id"], offset=offset)
                seen += log["data"]
                offset += len(log["data"])
                if log["status"] != "running":
                    break
                time.sleep(0.1)
            self.assertEqual(seen, "".join(f"tick {i}\n" for i in range(1, 101)))

        self.each(body)

    def test_of_much_output_head_and_tail_are_kept(self):
        def body(tree):
            box = Sandbox(tree)
            r = box.run("echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last", background=True)
            until(lambda: self.log(tree, r["run_id"], limit=16)["status"] == "ok", 30)
            log = self.log(tree, r["run_id"], limit=16)
            self.assertEqual(log["total_bytes"], 50000000 + len("first\n\nlast\n"))
            self.assertTrue(log["data"].startswith("first\n"))
            self.assertEqual(self.log(tree, r["run_id"], offset=-6)["data"], "\nlast\n")
            middle = self.log(tree, r["run_id"], offset=25000000, limit=1000)
            self.assertTrue(middle["data"] == "" or middle["offset"] > 25000000, middle["offset"])
            for name, pid in tree.pids().items():
                if "front" in name:
                    self.assertLess(peak_kib(pid), 64 * 1024, name)

        self.each(body)

    def test_output_that_is_not_what_it_seems(self):
        fake = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n'
        kinds = [(r"printf 'a\377\000b'", "base64", "Yf8AYg=="), (r"printf '\033[2Ja\342\200\256b\\'", "escaped", "\\u{1B}[2Ja\\u{202E}b\\\\"),
                 (f"printf '%s' '{fake}'", "utf-8", fake)]

        def body(tree):
            box = Sandbox(tree)
            for code, encoding, text in kinds:
                for r in (tree.run("bash", code), box.run(code)):
                    self.assertEqual((r["stdout_encoding"], r["stdout"]), (encoding, text))
                    log = self.log(tree, r["run_id"])
                    self.assertEqual((log["data_encoding"], log["data"]), (encoding, text))
                r = box.evaluate("bash", code)
                self.assertEqual((r["stdout_encoding"], r["stdout"]), (encoding, text))
            r = box.evaluate("python", "'a\\x1b[2J\\u202e'")
            self.assertEqual((r["status"], r["value"]), ("ok", "'a\\x1b[2J\\u202e'"))
            box.run(r"touch $'x\u202e\e[2J'")
            for entry in box.call("container_list_files", path=".")["entries"]:
                self.assertFalse(set("\x1b\u202e") & set(entry["path"]), entry)

        self.each(body)

    def test_how_it_ended(self):
        def body(tree):
            for arguments, status in (({"code": "sleep 60", "timeout_seconds": 1}, "timed_out"), ({"code": "kill -9 $$"}, "signaled"),
                                      ({"code": ":"}, "ok")):
                r = tree.call("execute_code", {"language": "bash", **arguments})
                log = self.log(tree, r["run_id"])
                self.assertEqual((r["status"], log["status"]), (status, status), log)
            box = Sandbox(tree)
            r = box.run("echo begun; sleep 600", background=True)
            until(lambda: self.log(tree, r["run_id"])["data"] == "begun\n", 5)
            # another's ending, which is not this one's
            self.assertEqual(box.run("python3 -c 'b = bytearray(1 << 30)'")["status"], "oom_killed")
            box.destroy()
            log = self.log(tree, r["run_id"])
            self.assertEqual(log["status"], "lost", log)
            self.assertEqual(log["data"], "begun\n")
            self.assertIn("destroy", str(log))

        self.each(body)

    def test_of_others_and_of_none(self):
        def body(tree):
            with Tree() as other:
                theirs = other.run("bash", "echo secret")
                answers = set()
                for word in (theirs["run_id"], "0" * 32, "0x", "F" * 32, "../x"):
                    log = tree.call("inspect_logs", {"run_id": word})
                    self.assertTrue(log["_isError"], log)
                    self.assertNotIn("secret", str(log))
                    answers.add((log["status"], log["message"]))
                self.assertEqual(len(answers), 1, answers)
                self.assertEqual(answers.pop()[0], "not_found")
            r = tree.call("inspect_logs", {})
            self.assertTrue(r["_isError"])

        self.each(body)

    def test_a_killed_broker_loses_no_kept_output(self):
        with Tree() as tree:
            r = tree.run("bash", "echo before the fall")
            tree.kill("bailey-broker")
            until(lambda: tree.health()["status"] == "ok", 15, 0.2)
            self.assertEqual(self.log(tree, r["run_id"])["data"], "before the fall\n")


if __name__ == "__main__":
    tap.main()
