#!/usr/bin/env python3
"""A run ends at its time limit: when the host says so, when its last process is dead, and when the
client hears of it. Each run leaves a family of processes, some in sessions of their own.
"""

import concurrent.futures
import os
import pathlib
import select
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from tree import Tree, for_users  # noqa: E402

LIMITS = [0.3] * 12 + [0.5] * 8 + [1] * 7 + [2] * 3 + [3] * 2
AT_ONCE = 4
ACCURACY_MS = 100
TREE_DEAD_MS = 150
CANCEL_DEAD_MS = 250
FAMILY = 6
# One ignores signals, one is a daemon's child, the others plain ones; each is told by its number.
CODE = (
    "trap '' TERM HUP INT; sleep {0}.1 & setsid sleep {0}.2 & (setsid sh -c 'trap \"\" TERM; sleep {0}.3' &) ; "
    "sleep {0}.4 & sleep {0}.5 & sleep {0}.6"
)


class Family:
    """The processes of one run, found on the host by a number in their command lines."""

    def __init__(self, number):
        self.number = number
        self.pidfds = []

    def find(self):
        mark = f"sleep\0{self.number}.".encode()
        found = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    if pathlib.Path(entry.path, "cmdline").read_bytes().startswith(mark):
                        found.append(int(entry.name))
                except OSError:
                    continue
        if len(found) < FAMILY:
            return False
        for pid in found:
            try:
                self.pidfds.append(os.pidfd_open(pid))
            except ProcessLookupError:
                continue
        return True

    def dead(self, seconds):
        """When the last of them was dead."""
        poller = select.poll()
        for fd in self.pidfds:
            poller.register(fd, select.POLLIN)
        end = time.monotonic() + seconds
        left = set(self.pidfds)
        while left:
            ready = poller.poll(max(0, end - time.monotonic()) * 1000)
            if not ready:
                raise AssertionError(f"{len(left)} processes live on")
            for fd, _ in ready:
                poller.unregister(fd)
                left.discard(fd)
        when = time.monotonic()
        for fd in self.pidfds:
            os.close(fd)
        return when


def spread(values):
    values = sorted(values)
    return f"median {values[len(values) // 2]:.0f} ms, most {values[-1]:.0f} ms of {len(values)}"


class Deadlines(unittest.TestCase):
    def one(self, tree, box, number, seconds):
        """How late: the host's figure, the last death, the answer; in milliseconds."""
        family = Family(number)
        code = CODE.format(number)
        began = time.monotonic()
        if box is not None:
            call = box.start(code, timeout_seconds=seconds)
        else:
            call = tree.start("execute_code", {"language": "bash", "code": code, "timeout_seconds": seconds})
        # On a busy machine a family may be gone before all of it was seen: its run counts for the rest.
        until(lambda: family.find() or not tree.waiting[call].empty(), 10, pause=0.01)
        time.sleep(max(0, began + seconds - time.monotonic()))
        measure = pace.Measure()  # what the machine is late from the limit on is not ours
        dead = family.dead(seconds + 5) if family.pidfds else None
        r = tree.wait(call, 20)
        self.assertEqual(r["status"], "timed_out", r)
        waited = r["queue_ms"] / 1000
        excused = measure.late()
        late = r["duration_ms"] - seconds * 1000
        self.assertGreater(late, -2, r)
        # Until the run began it waited in the queue or for its sandbox: counted from its end.
        begun = began + waited if box is not None else r["_at"] - r["duration_ms"] / 1000
        begun += seconds + excused
        return late - excused * 1000, dead and (dead - begun) * 1000, (r["_at"] - begun) * 1000

    def measure(self, tree, box, first, limits):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [pool.submit(self.one, tree, box, first + number, seconds) for number, seconds in enumerate(limits)]
            late, dead, heard = zip(*[job.result() for job in jobs])
            dead = [one for one in dead if one is not None]
            self.assertGreaterEqual(len(dead), len(limits) // 2)
            return late, dead, heard

    def within_limits(self, tree, box, first, limits, title):
        """A second round where the machine was busy in the first one."""
        for attempt in range(2):
            late, dead, heard = self.measure(tree, box, first + attempt * len(limits), limits)
            print(f"{title}: late {spread(late)}; dead {spread(dead)}; heard {spread(heard)}", file=sys.stderr)
            if max(late) <= ACCURACY_MS and max(dead) <= TREE_DEAD_MS:
                return
        self.assertLessEqual(max(late), ACCURACY_MS)
        self.assertLessEqual(max(dead), TREE_DEAD_MS)

    def test_at_the_limit(self):
        def body(user):
            with Tree(user=user) as tree:
                base = 100000 + os.getpid() % 1000 * 1000 + (500 if user else 0)
                box = Sandbox(tree)
                self.within_limits(tree, box, base, LIMITS, user or "self")
                self.within_limits(tree, None, base + 200, [0.5] * AT_ONCE, f"{user or 'self'}, single use")
                r = box.run("echo next")
                self.assertEqual((r["status"], r["stdout"]), ("ok", "next\n"), r)

        for_users(self, body)

    def test_cancelled(self):
        """The last process is dead soon after the client's word, and the sandbox goes on."""

        def body(user):
            with Tree(user=user) as tree:
                base = 2000000 + os.getpid() % 1000 * 100 + (50 if user else 0)
                box = Sandbox(tree)
                late = []
                for number in range(base, base + 10):
                    family = Family(number)
                    call = box.start(CODE.format(number), timeout_seconds=30)
                    until(family.find, 10, pause=0.01)
                    measure = pace.Measure()
                    tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
                    dead = family.dead(5)
                    late.append((dead - measure.begin - measure.late()) * 1000)
                    r = box.run("echo next")
                    self.assertEqual((r["status"], r["stdout"]), ("ok", "next\n"), r)
                print(f"{user or 'self'}: cancelled, dead after {spread(late)}", file=sys.stderr)
                self.assertLessEqual(max(late), CANCEL_DEAD_MS)

        for_users(self, body)


if __name__ == "__main__":
    tap.main()
