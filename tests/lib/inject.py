"""The other end of tests/chaos/inject.c: which call of which program fails, and what was seen.

    with Control(folder, "bailey-broker", "malloc", nth=17) as control:
        Tree(env=control.environment())
        …
        control.fired(), control.calls("malloc"), control.stack()
"""

import mmap
import os
import pathlib
import re
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BAILEY_BUILD") or ROOT / "build" / "dev").resolve()
LIBRARY = BUILD / "tests" / "inject.so"
OPS = re.findall(r"^INJECT_OP\((\w+),", (ROOT / "tests/chaos/inject.def").read_text(), re.M)

DEPTH, SITES = 12, 16384
ASKED = struct.Struct("=32sIIQQIIqQ")
SEEN = struct.Struct("=32QIIIIQQ12Q")
SITE = struct.Struct("=QQII12Q")
SIZE = ASKED.size + SEEN.size + SITES * SITE.size


class Control:
    def __init__(self, folder, program, op=None, nth=0, stack=0, lasting=False, record=False,
                 depth=DEPTH, clock_jump=0, clock_at=0):
        self.lasting = lasting
        self.path = os.path.join(folder, "inject")
        with open(self.path, "wb") as file:
            file.truncate(SIZE)
            os.fchmod(file.fileno(), 0o666)  # the processes have uids of their own
        self.file = open(self.path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), SIZE)
        self.map[:ASKED.size] = ASKED.pack(program.encode(), OPS.index(op) if op else len(OPS),
                                           lasting, nth, stack, record, depth, clock_jump, clock_at)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.map.close()
        self.file.close()

    def environment(self):
        return {"LD_PRELOAD": str(LIBRARY), "BAILEY_INJECT": self.path}

    def seen(self):
        return SEEN.unpack(self.map[ASKED.size:ASKED.size + SEEN.size])

    def calls(self, op):
        return self.seen()[OPS.index(op)]

    def fired(self):
        return self.seen()[32]

    def stack(self):
        return [address for address in self.seen()[38:] if address]

    def realtime_reads(self):
        return self.seen()[37]

    def sites(self):
        """(op, number of the first call, hash, stack) of every stack that was recorded."""
        found = []
        for i in range(SITES):
            at = ASKED.size + SEEN.size + i * SITE.size
            fields = SITE.unpack(self.map[at:at + SITE.size])
            if fields[0]:
                found.append((OPS[fields[2]], fields[1], fields[0], [a for a in fields[4:] if a]))
        return sorted(found)


def names(program, stack):
    """The functions of a program that a recorded stack goes through, innermost first."""
    if not stack:
        return []
    done = subprocess.run(["addr2line", "-f", "-s", "-e", str(BUILD / "bin" / program),
                           *[hex(address - 1) for address in stack]],
                          capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return [f"{name}({place})" for name, place in zip(lines[::2], lines[1::2])]
