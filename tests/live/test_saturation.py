#!/usr/bin/env python3
"""A host without a free processor, and with memory that is fought for: what controls goes on.

Four busy processes for each processor, and one that writes over more memory than its own cgroup
allows, again and again. A cancel, a list, a health report, a deadline and a removal are told in
their time, less what the machine was late (pace.py).
"""

import contextlib
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from tree import Tree, for_users, users  # noqa: E402

BURNERS = 4 * (os.cpu_count() or 2)
CONTROL_S = 0.5  # a list, a health report, an answer that needs no engine
END_S = 1.0      # a deadline or a cancel, with the death of what ran
HOG_MB = 256
HOG = f"b = bytearray({HOG_MB * 2} << 20)\nwhile True:\n for i in range(0, len(b), 4096): b[i] = (b[i] + 1) % 256\n"
V2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")
TOP = V2.parent if V2.exists() else V2.parent / "memory"


@contextlib.contextmanager
def hog():
    """Where nothing may limit memory, the processors alone have to do."""
    group = TOP / f"bailey-hog-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.max" if V2.exists() else "memory.limit_in_bytes")).write_text(str(HOG_MB << 20))
    except OSError as error:
        print(f"no memory hog: {error}", file=sys.stderr)
        yield None
        return
    # It is killed at its limit where there is no swap, and begins again: the reclaim is what counts.
    script = f"echo 0 > {group}/cgroup.procs; while :; do {sys.executable} -S -c '{HOG}'; done"
    process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for word in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(word), 9)
        until(lambda: not (group / "cgroup.procs").read_text(), 10)
        group.rmdir()


@contextlib.contextmanager
def saturated():
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL) for _ in range(BURNERS)]
    try:
        with hog():
            yield
    finally:
        for burner in burners:
            burner.kill()
        for burner in burners:
            burner.wait()


class Saturation(unittest.TestCase):
    def timed(self, seconds, what, body):
        with pace.within(self, seconds, what) as measure:
            value = body()
            print(f"{what}: {measure}", file=sys.stderr)
        return value

    def cancelled(self, tree, box):
        call = box.start("sleep 600", timeout_seconds=60)
        until(lambda: box.call("inspect_logs")["status"] == "running", 20)
        tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
        with contextlib.suppress(queue.Empty):
            self.fail(tree.waiting[call].get(timeout=0.2))  # nothing may be said to it
        until(lambda: box.call("inspect_logs")["status"] != "running", 20, pause=0.01)

    def one(self, name, tree, box):
        for _ in range(5):
            r = self.timed(CONTROL_S, f"{name}: list", lambda: tree.call("container_list_sandboxes", {}))
            self.assertIn("sandboxes", r)
            r = self.timed(CONTROL_S, f"{name}: health", tree.health)
            self.assertEqual(r["status"], "ok", r)
        r = self.timed(1 + END_S, f"{name}: deadline", lambda: box.run("sleep 600 & sleep 600", timeout_seconds=1))
        self.assertEqual(r["status"], "timed_out", r)
        self.timed(END_S + 0.5, f"{name}: cancel", lambda: self.cancelled(tree, box))
        r = self.timed(END_S, f"{name}: command", lambda: box.run("echo x"))
        self.assertEqual(r["stdout"], "x\n", r)
        r = self.timed(END_S, f"{name}: destroy", box.destroy)
        self.assertFalse(r["_isError"], r)

    def test_control_calls(self):
        pace.late()  # its process is there before the others
        everybody = threading.Barrier(len(users()) + 1)

        def body(user):
            with Tree(user=user, env={"BAILEY_POOL": "0"}) as tree:
                box = Sandbox(tree)
                box.run("true")
                everybody.wait(60)  # all are ready
                everybody.wait(60)  # the load is there
                self.one(user or "self", tree, box)

        def load():
            everybody.wait(60)
            with saturated():
                time.sleep(0.5)
                everybody.wait(60)
                done.wait(120)

        done = threading.Event()
        thread = threading.Thread(target=load)
        thread.start()
        try:
            for_users(self, body)
        finally:
            done.set()
            everybody.abort()
            thread.join()


if __name__ == "__main__":
    tap.main()
