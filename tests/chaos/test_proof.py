#!/usr/bin/env python3
"""What the proof says of outputs and histories that are good, and of such that are not."""

import importlib.machinery
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]
import tap  # noqa: E402
import watch  # noqa: E402

sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("proof", str(HERE / "proof"))
proof = importlib.util.module_from_spec(importlib.util.spec_from_loader("proof", LOADER))
LOADER.exec_module(proof)

FLOOD = "self: 10000 MB in 92.3 s; broker 4000 kB, at most {0}, after 4100; disk at most {1} bytes a container\n"
RECOVERY = "# BAILEY_RECOVERY_SEED=7\n" + "".join(f"# twenty kept, round {n}\n" for n in range(1, 11)) + "# cut at byte 17, in\n"


def held(found):
    return [good for *_, good in found]


def mass(**more):
    return [dict({"t": 0, "e": "mass", "trees": 20, "running": 0, "created": 1, "creating": 2, "processes": 0, "left": []}, **more)]


def ends(milliseconds):
    what = "cancel to tree dead"
    return [{"t": 1, "e": "timed", "word": "w", "what": what, "since": 1}, {"t": 1 + milliseconds / 1000, "e": "dead", "word": "w"}]


class Proof(unittest.TestCase):
    def test_killed_trees(self):
        self.assertEqual(held(proof.of_faults(mass(), [], "")), [True] * 3)
        for more in ({"running": 1}, {"processes": 1}, {"created": 3}, {"left": [["b", "k", "created"]]}):
            self.assertEqual(held(proof.of_faults(mass(**more), [], "")).count(False), 1, more)
        self.assertFalse(held(proof.of_faults([], [("I1", 0, "x")], ""))[0])

    def test_faults_that_hit_nobody_do_not_count(self):
        rounds = [{"t": 0, "e": "plan", "seed": n} for n in range(8)]
        hit = [{"t": 1, "e": "fault", "n": n} for n in range(1999)]
        self.assertEqual(held(proof.of_faults(rounds + hit, [], "")), [False])
        self.assertEqual(held(proof.of_faults(rounds + [{"t": 1, "e": "fault", "n": 1999}] + hit, [], "")), [True])
        self.assertEqual(held(proof.of_faults(rounds[:1] + hit[:57], [], "")), [True])

    def test_times(self):
        self.assertEqual(held(proof.of_times(ends(249), [], "")), [True])
        self.assertEqual(held(proof.of_times(ends(251), [], "")), [False])
        self.assertEqual(held(proof.of_times(ends(1), [("true", 0, "x")], "")), [True, False])

    def test_soak(self):
        soaked = [{"t": 0, "e": "soaked", "endings": [["runs", "ok", 9], ["runs", "busy", 1]]}]
        self.assertEqual(held(proof.of_soak(soaked, [], "")), [True, True])
        soaked[0]["endings"].append(["runs", None, 1])
        self.assertEqual(held(proof.of_soak(soaked, [("I6", 0, "x")], "")), [False, False])

    def test_flood(self):
        self.assertEqual(held(proof.of_flood([], [], FLOOD.format(4200, 12288) * 2)), [True, True])
        self.assertEqual(held(proof.of_flood([], [], FLOOD.format(4200, 12288) + FLOOD.format(8100, 1 << 20))), [False, False])

    def test_recovery(self):
        found = list(proof.of_recovery([], [], RECOVERY + "ok 1 - a\nok 2 - b\n"))
        self.assertIn("10 times", found[0][0])
        self.assertIn("1 cuts (seed 7)", found[0][0])
        self.assertEqual(held(found), [True])
        self.assertEqual(held(proof.of_recovery([], [], RECOVERY + "ok 1 - a\nnot ok 2 - b\n")), [False])

    def test_pool(self):
        words = "133 boxes of the pool handed out, 2383 containers made\n"
        self.assertEqual(held(proof.of_pool([], [], words)), [True])
        self.assertEqual(held(proof.of_pool([], [], words + "[  FAILED  ]")), [False])
        self.assertEqual(held(proof.of_pool([], [], "")), [False])

    def test_a_process_that_ends_while_it_is_looked_at(self):
        child = subprocess.Popen(["true"])
        child.wait()
        runs = watch.RunWatch(unittest.mock.Mock())
        runs.carriers = unittest.mock.Mock(side_effect=[[child.pid], []])
        self.assertEqual(runs.look("w"), 1)
        self.assertEqual(runs.history.add.call_args_list[0].kwargs["outside"], [])

    def test_an_event_after_the_end_brings_no_box_back(self):
        engine = watch.EngineWatch(unittest.mock.Mock(), "calm", "/nowhere")
        for what in ("create", "destroy", "start"):
            engine._note(what, "ab" * 32, "1.1", "n")
        self.assertEqual(engine.boxes, {})

    def test_sockets_given_up_are_those_whose_other_end_is_closed(self):
        me = os.getpid()
        before = watch.given_up(me)
        left, right = socket.socketpair()
        with left, socket.socket(socket.AF_UNIX) as listening:
            listening.bind("")
            listening.listen()
            self.assertEqual(watch.given_up(me), before)
            right.close()
            self.assertEqual(watch.given_up(me), before + 1)
        self.assertEqual(watch.given_up(me), before)


if __name__ == "__main__":
    tap.main()
