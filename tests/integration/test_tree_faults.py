#!/usr/bin/env python3
"""The whole tree against a scripted engine: a fault at every step of a sandbox's life. The call
ends once, in bounded time, with a status and words that fit; the next call works; nothing is left
on the engine, not even what it made without telling us."""

import concurrent.futures
import datetime
import os
import pathlib
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "fakes")]

import pace  # noqa: E402
import tap  # noqa: E402
from fake_dockerd import FakeDockerd, can_run_init  # noqa: E402
from tree import Tree  # noqa: E402

AWAY = {"engine_unavailable"}
HUNG = {"engine_unavailable", "start_timeout"}
PROBES = {"ping", "version", "info", "image"}
# what fails, how, and how the call may end
CASES = [
    ("ping", "hang", AWAY), ("ping", "rst", AWAY), ("ping", "garbage", AWAY), ("ping", "status:500", AWAY),
    ("version", "badjson", AWAY), ("info", "hang", AWAY), ("info", "types", AWAY | {"ok"}),
    ("image", "status:404", {"image_unavailable"}), ("image", "status:500", AWAY),
    ("list", "hang", {"ok"}), ("list", "badjson", {"ok"}), ("list", "huge", {"ok"}),
    ("events", "eof", {"ok"}), ("events", "garbage", {"ok"}), ("events", "status:500", {"ok"}),
    ("create", "hang", HUNG), ("create", "lost", AWAY), ("create", "rst", AWAY),
    ("create", "status:500", AWAY), ("create", "status:409", {"internal"} | AWAY),
    ("create", "badjson", AWAY), ("create", "slow:0.005", {"ok"}),
    ("inspect", "hang", HUNG), ("inspect", "lost", AWAY | {"ok"}), ("inspect", "deep", AWAY),
    ("inspect", "always lie:HostConfig.Privileged=true", {"internal"}),
    ("inspect", "always lie:HostConfig.NetworkMode=\"bridge\"", {"internal"}),
    ("inspect", "lie:HostConfig.AutoRemove=false", {"ok"}),  # somebody restarts it: replaced, once
    ("attach", "hang", HUNG), ("attach", "status:500", AWAY), ("attach", "body", AWAY),
    ("attach", "noise", {"ok"}), ("attach", "type", {"ok"}),  # one that dies starting is replaced, once
    ("attach", "cut:60", {"internal", "lost", "ok"} | AWAY), ("attach", "mute", HUNG | {"lost"}),
    # nobody hears that one speak, so it hears nothing either, and ends: replaced as well
    ("attach", "deaf", {"ok"}), ("attach", "bytewise", {"ok"}),
    ("start", "hang", HUNG), ("start", "lost", AWAY | {"ok"}), ("start", "status:500", AWAY),
    ("start", "status:404", {"ok"}),  # likewise
    ("remove", "status:500", {"ok"}), ("remove", "hang", {"ok"}), ("remove", "rst", {"ok"}),
    ("remove", "status:409", {"ok"}),
]

# The rest of the matrix: what fails first, in every way there is, with one rule for all of them.
CALLS = ["ping", "version", "info", "image", "list", "create", "inspect", "attach", "start", "update",
         "kill", "remove", "events"]
FAULTS = ["hang", "delay:0.3", "rst", "eof", "redirect", "notjson", "status:400", "status:404",
          "status:409", "status:500", "status:503", "lost", "half", "garbage", "slow:0.005", "torn",
          "badchunk", "headers", "huge", "length", "badjson", "empty", "types", "deep", "nul"]
ATTACH = ["hang", "delay:0.3", "rst", "eof", "redirect", "notjson", "status:400", "status:404",
          "status:409", "status:500", "status:503", "half", "garbage", "headers", "upgrade",
          "upgrade200", "body", "noise", "type", "length", "error", "bytewise", "cut:1", "cut:200",
          "mute", "deaf"]
EVENTS = ["hang", "delay:0.3", "rst", "eof", "redirect", "notjson", "status:400", "status:404",
          "status:500", "status:503", "lost", "half", "garbage", "badjson", "huge", "badchunk"]
OWN = {"attach": ATTACH, "events": EVENTS}
TRUTHFUL = {"ok", "engine_unavailable", "image_unavailable", "start_timeout", "internal", "lost", "busy"}
SAMPLE = 24


def matrix():
    """The cells in the day's order: a sample of them, or with BAILEY_FAULTS=all every one."""
    known = {(call, fault) for call, fault, _ in CASES}
    cells = [(call, fault) for call in CALLS for fault in OWN.get(call, FAULTS)
             if (call, fault) not in known]
    if os.environ.get("BAILEY_FAULTS") == "all":
        return cells
    start = int(os.environ.get("BAILEY_FAULTS_FROM", datetime.date.today().toordinal()))
    print(f"BAILEY_FAULTS_FROM={start}", file=sys.stderr, flush=True)
    stride = len(cells) // SAMPLE
    return cells[start % stride::stride]


def emptied(fake, seconds):
    end = time.monotonic() + seconds
    while fake.containers and time.monotonic() < end:
        time.sleep(0.05)
    return [c.state for c in list(fake.containers.values())]


@unittest.skipUnless(can_run_init(), "guest-init cannot run in namespaces here")
class Faults(unittest.TestCase):
    def one(self, folder, number, call, fault):
        with FakeDockerd(os.path.join(folder, f"{number}.sock"), box="init") as fake:
            os.chmod(fake.path, 0o666)  # the broker has a uid of its own
            always = fault.removeprefix("always ")
            if always != fault:
                fake.always[call] = always
            elif call in PROBES:  # the hint ahead of a call may be told by itself: the call asks anew
                fake.always[call] = fault
            else:
                fake.faults[call] = [fault]
            environment = {"DOCKER_HOST": "unix://" + fake.path, "BAILEY_POOL": "0"}
            limits = {}
            if call == "update":  # asked for where a waiting box is to have other limits
                del environment["BAILEY_POOL"]
                limits = {"memory_mb": 300}
            with Tree(env=environment) as tree:
                if call == "update":
                    tree.wait_ready("shell")
                measure = pace.Measure()
                first = tree.run("bash", "echo first", **limits)
                took = measure.ours()
                fake.always.clear()
                second = tree.run("bash", "echo second")
            return first, took, second, emptied(fake, 10)

    def test_every_step(self):
        with tempfile.TemporaryDirectory(prefix="bailey-fake.") as folder, \
                concurrent.futures.ThreadPoolExecutor(6) as pool:
            os.chmod(folder, 0o711)
            started = [(call, fault, wanted, pool.submit(self.one, folder, number, call, fault))
                       for number, (call, fault, wanted) in enumerate(CASES)]
            for call, fault, wanted, future in started:
                with self.subTest(call=call, fault=fault):
                    first, took, second, left = future.result()
                    self.assertIn(first["status"], wanted, first["message"])
                    if first["status"] != "ok":
                        self.assertGreater(len(first["message"]), 20)
                    self.assertLess(took, 20)
                    self.assertEqual((second["status"], second["stdout"]), ("ok", "second\n"),
                                     second["message"])
                    self.assertEqual(left, [])

    def test_matrix(self):
        with tempfile.TemporaryDirectory(prefix="bailey-fake.") as folder, \
                concurrent.futures.ThreadPoolExecutor(6) as pool:
            os.chmod(folder, 0o711)
            started = [(call, fault, pool.submit(self.one, folder, number, call, fault))
                       for number, (call, fault) in enumerate(matrix())]
            for call, fault, future in started:
                with self.subTest(call=call, fault=fault):
                    first, took, second, left = future.result()
                    self.assertIn(first["status"], TRUTHFUL, first["message"])
                    if first["status"] == "ok":
                        self.assertEqual(first["stdout"], "first\n")
                    else:
                        self.assertGreater(len(first["message"]), 20)
                    self.assertLess(took, 20)
                    self.assertEqual((second["status"], second["stdout"]), ("ok", "second\n"),
                                     second["message"])
                    self.assertEqual(left, [])


if __name__ == "__main__":
    tap.main()
