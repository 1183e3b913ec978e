#!/usr/bin/env python3
"""More calls than there is room for: each ends as ok or, at once and with a hint, as busy.

BAILEY_ADMISSION_OWNERS (2) is over how many principals the 200 calls are spread; of two a fifth is
more than may wait, of four none is.
"""

import collections
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import until  # noqa: E402
from serve import Http, Serve  # noqa: E402
from tree import Tree, for_users, no_boxes_within  # noqa: E402

CALLS = 200
OWNERS = int(os.environ.get("BAILEY_ADMISSION_OWNERS", "2"))
OWNER_MAX = 16  # sandboxes of one owner
QUEUE_MAX = 64  # calls of one owner that wait


class Admission(unittest.TestCase):
    def test_200_calls_at_once(self):
        """Several connections of several owners; nothing but ok and busy, and nothing is left."""
        names = [f"owner{number}" for number in range(OWNERS)]
        with Serve(http=True, principals=names) as server:
            clients = [Http(server, name) for name in names]
            for client in clients:
                self.assertEqual(client.call("execute_code", {"language": "bash", "code": "echo x"})["status"], "ok")
            began = time.monotonic()
            calls = []
            for number in range(CALLS):
                client = clients[number % OWNERS]
                code = {"python": f"print({number})", "bash": f"echo {number}"}
                language = ("python", "bash")[number // OWNERS % 2]
                calls.append((number, client, client.start("execute_code", {"language": language, "code": code[language]})))
            ends = collections.Counter()
            for number, client, call in calls:
                r = client.wait(call, 90)
                ends[r["status"]] += 1
                self.assertIn(r["status"], ("ok", "busy"), r)
                if r["status"] == "ok":
                    self.assertEqual(r["stdout"], f"{number}\n")
                else:
                    self.assertGreater(r["retry_after_ms"], 0, r)
                    self.assertIn(str(QUEUE_MAX), r["message"])
            print(f"{CALLS} calls of {OWNERS} owners: {dict(ends)} in {time.monotonic() - began:.1f} s", file=sys.stderr)
            # What is admitted is at least what may run and wait.
            self.assertGreaterEqual(ends["ok"], min(CALLS, OWNERS * QUEUE_MAX), ends)
            for client in clients:
                until(lambda c=client: c.call("check_sandbox_health", {})["usage"]["sandboxes"] == 0, 20)
                self.assertEqual(client.call("check_sandbox_health", {})["usage"]["queued"], 0)
            pid = server.process.pid
        self.assertTrue(no_boxes_within(pid, 10, running=False))

    def test_more_sandboxes_than_may_be(self):
        """Of twenty creates at once the last four are busy at once; a place given up can be had again."""

        def body(user):
            with Tree(user=user) as tree:
                tree.wait_ready("shell") if tree.request("tools/list") else None
                began = time.monotonic()
                calls = [tree.start("container_create_sandbox", {"memory_mb": 64}) for _ in range(OWNER_MAX + 4)]
                for call in calls[OWNER_MAX:]:
                    r = tree.wait(call, 10)
                    self.assertEqual(r["status"], "busy", r)
                    self.assertIn(f"{OWNER_MAX} sandboxes", r["message"])
                    self.assertGreater(r["retry_after_ms"], 0)
                    self.assertLess(r["_at"] - began, 1.5)
                made = [tree.wait(call, 40) for call in calls[:OWNER_MAX]]
                self.assertEqual([r["status"] for r in made], ["ok"] * OWNER_MAX, made)
                measure = pace.Measure()
                r = tree.run("bash", "echo x")  # no sandbox of theirs ends by itself: waiting is no use
                self.assertEqual(r["status"], "busy", r)
                self.assertLess(measure.ours(), 1, measure)
                one = made[3]["sandbox_id"]
                self.assertEqual(tree.call("container_destroy_sandbox", {"sandbox_id": one})["status"], "ok")
                r = tree.run("bash", "echo x")
                self.assertEqual((r["status"], r["stdout"]), ("ok", "x\n"), r)
                pid = tree.process.pid
            self.assertTrue(no_boxes_within(pid, 15, running=False))

        for_users(self, body)


if __name__ == "__main__":
    tap.main()
