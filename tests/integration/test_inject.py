#!/usr/bin/env python3
"""Failing calls, the short form: a sample of the places that tests/chaos/inject tries all of. Which
ones changes with the day, and is printed; BAILEY_INJECT_FROM=N repeats one."""

import concurrent.futures
import datetime
import os
import pathlib
import resource
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "fakes")]

import inject  # noqa: E402
import injected  # noqa: E402
import tap  # noqa: E402
from fake_dockerd import can_run_init  # noqa: E402

DEPTH = 8
SAMPLE = {"baileyd": 8, "bailey-frontend": 20, "bailey-broker": 20, "bailey-reaper": 8}


@unittest.skipUnless(can_run_init(), "guest-init cannot run in namespaces here")
class Inject(unittest.TestCase):
    def setUp(self):
        day = datetime.date.today().toordinal()
        self.start = int(os.environ.get("BAILEY_INJECT_FROM", day))
        print(f"BAILEY_INJECT_FROM={self.start}", flush=True)

    def check(self, out, program, op):
        where = " < ".join(inject.names(program, out.stack))
        asked = "\n".join(f"{method} {target[:120]}" for _, method, target in out.requests[-80:])
        self.assertEqual(out.violations, [], f"{op} at {where}, {out.fired} failed\n{out.answers}\n"
                                             f"{out.log[-6000:]}\n{asked}")

    def test_places(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
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
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            started = [(program, op, pool.submit(injected.run, program, op, nth=nth, lasting=True))
                       for program, op, nth in [("bailey-broker", "connect", 1),
                                                ("bailey-broker", "socket", 1),
                                                ("baileyd", "fork", 1),
                                                ("baileyd", "fork", 3),  # only the frontend is there
                                                ("baileyd", "socket", 1)]]
            for program, op, done in started:
                with self.subTest(program=program, op=op):
                    self.check(done.result(), program, op)

    def test_few_descriptors(self):
        """Told at the start, with the limit's name; where it is enough to start, it is enough."""
        def limit(number):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))

        numbers = (8, 20, 63, 64)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            good = injected.run("none").answers
            started = [(n, pool.submit(injected.run, "none", preexec=limit(n))) for n in numbers]
            for number, done in started:
                with self.subTest(descriptors=number):
                    out = done.result()
                    if number < 64:
                        self.assertEqual(out.answers, [("connection", "closed")])
                        self.assertIn(f"ulimit -n allows {number}", out.log)
                        self.assertLess(out.seconds, 10)
                    else:
                        self.check(out, "none", "descriptors")
                        self.assertEqual(out.answers, good)

    def test_wall_clock(self):
        """A year forward or back, at once or in the middle: nothing depends on it."""
        year = 366 * 24 * 3600
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            good = injected.run("none").answers
            started = [(program, jump, pool.submit(injected.run, program, clock_jump=jump,
                                                   clock_at=at))
                       for program, jump, at in (("baileyd", year, 40), ("bailey-frontend", -year, 40),
                                                 ("bailey-broker", year, 40), ("bailey-broker", -year, 0),
                                                 ("bailey-reaper", year, 40))]
            for program, jump, done in started:
                with self.subTest(program=program, jump=jump):
                    out = done.result()
                    self.check(out, program, "clock")
                    self.assertEqual(out.answers, good)
                    print(f"{program}: {out.realtime_reads} readings of the wall clock", flush=True)


if __name__ == "__main__":
    tap.main()
