#!/usr/bin/env python3
"""The short forms of the fault harness and of the soak: no violation in 60 faults and in some runs.

Their reports go to stderr. Takes about 45 and 30 seconds.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import tap  # noqa: E402


class Short(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to start engines of its own")

    def none_violated(self, program, *arguments):
        with tempfile.TemporaryDirectory() as where:
            done = subprocess.run([str(HERE / program), *arguments, "--history", f"{where}/history"],
                                  stdout=subprocess.PIPE, text=True, timeout=280)  # fmt: skip
        print(done.stdout, file=sys.stderr)
        self.assertEqual(done.returncode, 0, "\n".join(done.stdout.splitlines()[-12:]))

    def test_60_faults(self):
        self.none_violated("run", "--faults", "60")

    def test_soak(self):
        self.none_violated("soak", "--execs", "200", "--fake", "60", "--containers", "15", "--at-once", "90", "--patience", "0")


if __name__ == "__main__":
    tap.main()
