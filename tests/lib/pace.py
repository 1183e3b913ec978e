"""What a time that was measured owes to the machine and not to us.

    with pace.within(self, 0.3, "the end of input"):
        …

fails when the body took longer than that on a machine that runs what is ready to run. How far this
one is from that is measured while the body runs: a process beside it works for a moment, sleeps
for a moment, and adds up by how much the two took too long. On a quiet machine that is next to
nothing and the figure stands as it is written; where others have the processors, the body is
forgiven as much as that process had to wait, no more.
"""

import contextlib
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time

# Lateness below a step's jitter is nobody's; what the probe costs is a twentieth of a processor.
PROBE = """
import mmap, os, struct, sys, time
WORK, SLEEP, JITTER = 0.0002, 0.004, 0.0005
page = mmap.mmap(int(sys.argv[1]), 16)
late = 0.0
last = time.monotonic()
parent = int(sys.argv[2])
while os.getppid() == parent:
    struct.pack_into("dd", page, 0, late, last)
    done = time.thread_time() + WORK
    while time.thread_time() < done:
        pass
    time.sleep(SLEEP)
    now = time.monotonic()
    late += max(0.0, now - last - WORK - SLEEP - JITTER)
    last = now
"""
STEP = 0.005
_page = None


def _start():
    global _page
    with tempfile.TemporaryFile() as file:
        file.write(b"\0" * 16)
        file.flush()
        page = mmap.mmap(file.fileno(), 16)
        # it ends with this process, however that ends
        subprocess.Popen([sys.executable, "-S", "-c", PROBE, str(file.fileno()), str(os.getpid())],
                         pass_fds=[file.fileno()], stdin=subprocess.DEVNULL)
    while struct.unpack_from("dd", page)[1] == 0:
        time.sleep(0.001)
    _page = page


def late():
    """Seconds by which the machine was late, since some moment."""
    if _page is None:
        _start()
    total, last = struct.unpack_from("dd", _page)
    return total + max(0.0, time.monotonic() - last - STEP)


class Measure:
    """Seconds since it began, and how many of them are the machine's."""

    def __init__(self):
        self.before = late()
        self.begin = time.monotonic()

    def took(self):
        return time.monotonic() - self.begin

    def late(self):
        return max(0.0, late() - self.before)

    def ours(self):
        return self.took() - self.late()

    def __str__(self):
        return f"{self.took():.3f} s, of which the machine was late {self.late():.3f} s"


@contextlib.contextmanager
def within(case, seconds, what=""):
    measure = Measure()
    yield measure
    case.assertLess(measure.ours(), seconds, f"{what}: {measure}")


def until(condition, seconds, pause=0.005):
    """Polls for what has to be so within that time, forgiven as above: its value, or what it was last."""
    measure = Measure()
    while not (value := condition()) and measure.ours() < seconds:
        time.sleep(pause)
    return value


def spend(seconds):
    """Sleeps for that long, and as much longer as the machine was late."""
    until(lambda: False, seconds)
