#!/usr/bin/env python3
"""A run that writes without end: the broker does not grow, nor does the host's disk, and beside the
short calls of another connection it pauses.

BAILEY_FLOOD_GB (1) is how much it writes; 10 is the long form.
"""

import os
import pathlib
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from test_serve import Raw, Served  # noqa: E402
from tree import Tree, engine, for_users  # noqa: E402

BYTES = int(os.environ.get("BAILEY_FLOOD_GB", "1")) * 1000000000
BROKER_KB = 4 * 1024
DISK_BYTES = 1 << 20
FLOOD = f"head -c {BYTES} /dev/zero | tr '\\0' x; echo; echo the end"


def pss_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        return int(re.search(r"^Pss:\s+(\d+) kB", rollup.read(), re.M).group(1))


def used(path):
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


class Watch(threading.Thread):
    """The most memory of the broker, and the most disk of the tree's containers, while it goes on."""

    def __init__(self, tree):
        super().__init__(daemon=True)
        self.tree, self.broker = tree, tree.pids()["bailey-broker"]
        self.root = engine.request("GET", "/info")[1]["DockerRootDir"]
        self.pss, self.disk, self.seen, self.stop = 0, 0, set(), threading.Event()

    def folders(self, box):
        status, found = engine.request("GET", f"/containers/{box['Id']}/json")
        upper = (found.get("GraphDriver") or {}).get("Data") or {} if status == 200 else {}
        return [f"{self.root}/containers/{box['Id']}", upper.get("UpperDir", "/nonexistent")]

    def run(self):
        while not self.stop.is_set():
            self.pss = max(self.pss, pss_kb(self.broker))
            for box in self.tree.boxes():
                self.seen.add(box["Id"])
                self.disk = max(self.disk, sum(used(path) for path in self.folders(box)))
            time.sleep(0.2)


class Flood(unittest.TestCase):
    def test_neither_memory_nor_disk(self):
        def body(user):
            with Tree(user=user) as tree:
                tree.run("bash", "head -c 3000000 /dev/zero")  # what is kept has its memory
                tree.wait_ready("shell")
                before = pss_kb(tree.pids()["bailey-broker"])
                watch = Watch(tree)
                watch.start()
                began = time.monotonic()
                r = tree.run("bash", FLOOD, timeout_seconds=280, timeout=290)
                took = time.monotonic() - began
                watch.stop.set()
                watch.join(10)
                after = pss_kb(watch.broker)
                self.assertEqual(r["status"], "ok", r["message"])
                self.assertEqual(r["stdout_bytes"], BYTES + len("\nthe end\n"))
                self.assertTrue(r["stdout_truncated"] and r["stdout_tail"].endswith("x\nthe end\n"))
                print(f"{user or 'self'}: {BYTES // 1000000} MB in {took:.1f} s; broker {before} kB, at most {watch.pss}, after {after}; "
                      f"disk at most {watch.disk} bytes a container", file=sys.stderr)
                self.assertTrue(watch.seen)
                self.assertLess(watch.pss - before, BROKER_KB)
                self.assertLess(after - before, BROKER_KB)
                self.assertLess(watch.disk, DISK_BYTES)

        for_users(self, body)


class Calls(threading.Thread):
    """Short calls of one connection, one after the other."""

    def __init__(self, client, sandbox):
        super().__init__(daemon=True)
        self.client, self.sandbox, self.done, self.stop = client, sandbox, 0, threading.Event()

    def run(self):
        while not self.stop.is_set():
            self.client.call(1000 + self.done, "container_exec_command", sandbox_id=self.sandbox, command=":")
            if self.client.result(1000 + self.done)["status"] != "ok":
                return
            self.done += 1


class BesideOthers(unittest.TestCase):
    def flood(self, command, **arguments):
        self.number += 1
        began = time.monotonic()
        self.us.call(self.number, "container_exec_command", sandbox_id=self.ours, command=command, **arguments)
        return self.us.result(self.number), time.monotonic() - began

    def megabyte(self):
        r, took = self.flood("head -c 1000000 /dev/zero | tr '\\0' x")
        self.assertEqual((r["status"], r["stdout_bytes"]), ("ok", 1000000), r)
        self.assertTrue(r["stdout_tail"].endswith("x" * 8000))
        return took

    def test_pauses_and_loses_nothing(self):
        # 64 KiB at once, then a piece each 32 ms, by so many processors
        least = (1000000 - 65536 - 2 * 32748) / 32748 * 0.032 / os.cpu_count()
        server, self.number = Served(self), 1
        self.us, them = Raw(server.path), Raw(server.path)
        ids = []
        for client in (self.us, them):
            client.call(1, "container_create_sandbox")
            ids.append(client.result(1)["sandbox_id"])
        self.ours = ids[0]
        time.sleep(0.3)
        alone = min(self.megabyte() for _ in range(3))
        calls = Calls(them, ids[1])
        calls.start()
        time.sleep(0.1)
        beside = [self.megabyte() for _ in range(3)]
        ended, took = self.flood("exec cat /dev/zero", timeout_seconds=1)
        still, _ = self.flood("echo still here")
        calls.stop.set()
        calls.join(10)
        time.sleep(1.3)
        after = min(self.megabyte() for _ in range(3))
        print(f"alone {alone * 1000:.0f} ms, beside {calls.done} calls {beside[0] * 1000:.0f} ms, after {after * 1000:.0f} ms; "
              f"without end {took:.2f} s of 1", file=sys.stderr)
        self.assertFalse(calls.is_alive())
        self.assertGreater(min(beside), least)
        self.assertEqual(ended["status"], "timed_out", ended)
        self.assertEqual((still["status"], still["stdout"]), ("ok", "still here\n"), still)
        self.assertLess(after, least)


if __name__ == "__main__":
    tap.main()
