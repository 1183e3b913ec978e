#!/usr/bin/env python3
"""Failing calls, the short form: a sample of the places that tests/chaos/inject tries all of. Which
ones changes with the day, and is printed; BAILEY_INJECT_FROM=N repeats one."""

import concurrent.futures
import datetime
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "fakes")]

import inject  # noqa: E402
import injected  # noqa: E402
import tap  # noqa: E402
from fake_dockerd import can_run_init  # noqa: E402

DEPTH = 8
SAMPLE = {"baileyd": 6, "bailey-frontend": 12, "bailey-broker": 12, "bailey-reaper": 6}


@unittest.skipUnless(can_run_init(), "guest-init cannot run in namespaces here")
class Inject(unittest.TestCase):
    def setUp(self):
        day = datetime.date.today().toordinal()
        self.start = int(os.environ.get("BAILEY_INJECT_FROM", day))
        print(f"BAILEY_INJECT_FROM={self.start}", flush=True)

    def check(self, out, program, op):
        where = " < ".join(inject.names(program, out.stack))
        self.assertEqual(out.violations, [], f"{op} at {where}\n{out.answers}\n{out.log[-2000:]}")

    def test_places(self):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            started = []
            for program, wanted in SAMPLE.items():
                least, sites = injected.good_day(program, DEPTH)
                stride = max(1, len(sites) // wanted)
                for op, _, stack, _ in sites[self.start % stride::stride]:
                    started.append((program, op, pool.submit(
                        injected.run, program, op, least, stack=stack, depth=DEPTH)))
            for number, (program, op, done) in enumerate(started):
                with self.subTest(program=program, op=op, number=number):
                    self.check(done.result(), program, op)

    def test_lasting(self):
        """From one call on nothing of the kind works any more, in every process that is started."""
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            started = [(program, op, pool.submit(injected.run, program, op, nth=1, lasting=True))
                       for program, op in [("bailey-broker", "connect"), ("bailey-broker", "socket"),
                                           ("baileyd", "fork"), ("baileyd", "socket")]]
            for program, op, done in started:
                with self.subTest(program=program, op=op):
                    self.check(done.result(), program, op)


if __name__ == "__main__":
    tap.main()
