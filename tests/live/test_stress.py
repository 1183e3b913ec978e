#!/usr/bin/env python3
"""Random calls, cancels and kills of broker and reaper for a while; then everything must add up.

BAILEY_STRESS_SECONDS (30) is how long; BAILEY_STRESS_SEED repeats the choices of a run, as far as
threads and an engine can be repeated. Each account has its tree, at the same time.
"""

import contextlib
import os
import pathlib
import queue
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from tree import Gone, Tree, for_users, no_boxes_within, rss_kb  # noqa: E402

SECONDS = float(os.environ.get("BAILEY_STRESS_SECONDS", "15"))
SEED = int(os.environ.get("BAILEY_STRESS_SEED", str(random.randrange(1 << 30))))
CALLERS = 5
SICK = {"lost", "engine_unavailable", "busy", "queue_timeout", "start_timeout"}


def measure(tree):
    return {
        name: {"fds": len(os.listdir(f"/proc/{pid}/fd")), "rss_kb": rss_kb(pid), "threads": len(os.listdir(f"/proc/{pid}/task"))}
        for name, pid in tree.pids().items()
    }


# Each box costs the reaper a pidfd and its counters, the broker a connection and the same counters.
FDS_A_BOX = {"bailey-reaper": 6, "bailey-broker": 6}
KILLS_MAX = 9  # of each: after ten failures without half a minute of peace a restart takes a minute


def settle(tree, seconds=30):
    """Until the tree's boxes are exactly those its pools hold ready."""
    end = time.monotonic() + seconds
    while True:
        health = tree.health()
        ready = sum(row["ready"] for row in health["pool"])
        if health["status"] == "ok" and ready == len(tree.boxes()) and not health["usage"]["sandboxes"]:
            if ready >= 3:
                return health
        if time.monotonic() > end:
            raise AssertionError(f"not settled: {health} {[(b['State'], b['Status']) for b in tree.boxes()]}")
        time.sleep(0.2)


def too_many_fds(tree, before, boxes, seconds=10):
    """{program: (now, most)} where descriptors are not back to what they were, boxes more or less
    reckoned with. The engine forgets a box a moment before the reaper hears that it is gone and lets go
    of it, so this waits; what is leaked stays."""
    end = time.monotonic() + seconds
    while True:
        more, now = max(0, len(tree.boxes()) - boxes), measure(tree)
        most = {name: then["fds"] + more * FDS_A_BOX.get(name, 0) + 3 for name, then in before.items()}
        found = {name: (row["fds"], most.get(name)) for name, row in now.items() if row["fds"] > most.get(name, 0)}
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.1)


class Caller(threading.Thread):
    """Calls one after another, each with a word of its own that must come back."""

    def __init__(self, tree, number, until):
        super().__init__()
        self.tree, self.number, self.until = tree, number, until
        self.rng = random.Random(SEED * 100 + number)
        self.problems, self.endings, self.cancelled, self.asked = [], {}, [], 0

    def run(self):
        try:
            while time.monotonic() < self.until and not self.problems:
                self.asked += 1
                self.one(f"w{self.number}-{self.asked}")
        except Gone:
            self.problems.append("the server closed")
        except queue.Empty:
            self.problems.append(f"caller {self.number}: call {self.asked} was not answered")

    def expect(self, r, wanted, said=None):
        status = r["status"]
        self.endings[status] = self.endings.get(status, 0) + 1
        if status in SICK:
            if not r["message"]:
                self.problems.append(f"{status} without a word")
        elif status not in wanted or (said is not None and status in ("ok", "nonzero") and r["stdout"] != said):
            self.problems.append(f"wanted {wanted} {said}, got {r}")

    def one(self, word):
        tree, rng = self.tree, self.rng
        kind = rng.choices(("echo", "python", "node", "sleep", "flood", "stdin", "fail", "cancel", "bad", "health"),
                           (30, 10, 3, 4, 4, 6, 6, 12, 4, 4))[0]
        if kind == "echo":
            self.expect(tree.run("bash", f"echo {word}"), {"ok"}, word + "\n")
        elif kind == "python":
            self.expect(tree.run("python", f"print('{word}')"), {"ok"}, word + "\n")
        elif kind == "node":
            self.expect(tree.run("node", f"console.log('{word}')"), {"ok"}, word + "\n")
        elif kind == "sleep":
            self.expect(tree.run("bash", "sleep 9", timeout_seconds=0.3), {"timed_out"})
        elif kind == "flood":
            r = tree.run("bash", "head -c 3000000 /dev/zero | tr '\\0' y; echo " + word)
            self.expect(r, {"ok"})
            if r["status"] == "ok" and not (r["stdout_truncated"] and r["stdout_tail"].endswith(word + "\n")):
                self.problems.append(f"flood: {r['stdout_bytes']} {r.get('stdout_tail', '')[-40:]}")
        elif kind == "stdin":
            text = word * rng.randrange(1, 60000)
            self.expect(tree.run("bash", "wc -c", stdin=text), {"ok"}, f"{len(text)}\n")
        elif kind == "fail":
            self.expect(tree.run("bash", f"echo {word}; exit 3"), {"nonzero"}, word + "\n")
        elif kind == "cancel":
            call = tree.start("execute_code", {"language": "bash", "code": "sleep 30; echo " + word, "timeout_seconds": 40})
            time.sleep(rng.choice((0, 0.001, 0.01, 0.1, 0.3)))
            tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
            self.cancelled.append(call)
        elif kind == "bad":
            if not tree.run("bash", "echo x", memory_mb=1)["_isError"]:
                self.problems.append("a bad limit was taken")
        else:
            self.expect(tree.health(), {"ok"})


class Stress(unittest.TestCase):
    def test_everything_adds_up(self):
        print(f"BAILEY_STRESS_SEED={SEED}", file=sys.stderr)
        for_users(self, self.stress)

    def stress(self, user):
        with Tree(user=user) as tree:
            for language in ("bash", "python", "node"):
                tree.run(language, "")
            tree.run("bash", "head -c 3000000 /dev/zero")
            settle(tree)
            before, boxes = measure(tree), len(tree.boxes())
            until = time.monotonic() + SECONDS
            callers = [Caller(tree, number, until) for number in range(CALLERS)]
            for caller in callers:
                caller.start()
            kills = self.kills(tree, until)
            for caller in callers:
                caller.join(120)
            where = f"seed {SEED}, {kills} kills"
            self.assertEqual([c.number for c in callers if c.is_alive()], [], where)
            self.assertEqual([problem for c in callers for problem in c.problems], [], where)
            self.told_once(tree, callers, where)
            settle(tree)
            self.assertEqual(too_many_fds(tree, before, boxes), {}, where)
            after = measure(tree)
            self.assertEqual(set(before), set(after), where)
            for name, now in after.items():
                then = before[name]
                # The broker and the reaper are younger than at the first look; none may be bigger.
                self.assertLess(now["rss_kb"], then["rss_kb"] + 3072, (name, before, after))
                self.assertEqual(now["threads"], 1, name)
            endings = {}
            for caller in callers:
                for status, count in caller.endings.items():
                    endings[status] = endings.get(status, 0) + count
            print(f"{user or 'self'}: {kills} kills, {endings}", file=sys.stderr)
            self.assertGreater(endings.get("ok", 0), SECONDS / 2)
            pid = tree.process.pid
            self.assertEqual(tree.close(), 0)
            self.assertTrue(no_boxes_within(pid, 5, running=False), where)

    def kills(self, tree, until):
        rng = random.Random(SEED)
        count = {"bailey-broker": 0, "bailey-reaper": 0}
        time.sleep(2)
        while time.monotonic() < until - 3:
            program = rng.choice(list(count))
            if count[program] < KILLS_MAX:
                with contextlib.suppress(AssertionError, ProcessLookupError):  # it may just be starting again
                    tree.kill(program)
                    count[program] += 1
            time.sleep(rng.uniform(2, 6))
        return sum(count.values())

    def told_once(self, tree, callers, where):
        """No second answer, no answer to what nobody asked; a cancelled call at most one."""
        cancelled = {call for caller in callers for call in caller.cancelled}
        end = time.monotonic() + 1
        while time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                _, message = tree.notes.get(timeout=0.1)
                self.assertNotIn("id", message, where)
        self.assertEqual(set(tree.waiting) - cancelled, set(), where)
        for call in cancelled:
            self.assertLessEqual(tree.waiting[call].qsize(), 1, where)


if __name__ == "__main__":
    tap.main()
