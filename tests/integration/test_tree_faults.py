#!/usr/bin/env python3
"""The whole tree against a scripted engine: a fault at every step of a sandbox's life. The call
ends once, in bounded time, with a status and words that fit; the next call works; nothing is left
on the engine, not even what it made without telling us."""

import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "fakes")]

import tap  # noqa: E402
from fake_dockerd import FakeDockerd, can_run_init  # noqa: E402
from tree import Tree  # noqa: E402

AWAY = {"engine_unavailable"}
HUNG = {"engine_unavailable", "start_timeout"}
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
    ("inspect", "lie:HostConfig.Privileged=true", {"internal"}),
    ("inspect", "lie:HostConfig.NetworkMode=\"bridge\"", {"internal"}),
    ("attach", "hang", HUNG), ("attach", "status:500", AWAY), ("attach", "body", AWAY),
    ("attach", "noise", {"internal", "lost"} | AWAY), ("attach", "type", {"internal", "lost"} | AWAY),
    ("attach", "cut:60", {"internal", "lost", "ok"} | AWAY), ("attach", "mute", HUNG | {"lost"}),
    ("attach", "deaf", {"start_timeout"}), ("attach", "bytewise", {"ok"}),
    ("start", "hang", HUNG), ("start", "lost", AWAY | {"ok"}), ("start", "status:500", AWAY),
    ("start", "status:404", {"internal"}),
    ("remove", "status:500", {"ok"}), ("remove", "hang", {"ok"}), ("remove", "rst", {"ok"}),
    ("remove", "status:409", {"ok"}),
]


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
            fake.faults[call] = [fault]
            environment = {"DOCKER_HOST": "unix://" + fake.path, "BAILEY_POOL": "0"}
            with Tree(env=environment) as tree:
                before = time.monotonic()
                first = tree.run("bash", "echo first")
                took = time.monotonic() - before
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


if __name__ == "__main__":
    tap.main()
