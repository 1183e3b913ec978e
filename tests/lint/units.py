#!/usr/bin/env python3
"""Every .c file of a room has its unit test: tests/unit/test_<room>_<file>.c."""

import os

import tree

# A main.c only opens, confines and loops: the integration tests run it whole.
PROGRAM = "main.c"

# file -> why it has no unit test of its own.
EXEMPT = {}


def main():
    lint = tree.Lint()
    names = set(tree.files())
    missing = []
    for name in sorted(names):
        room = tree.room_of(name)
        if not room or not name.endswith(".c") or name in EXEMPT or name.endswith("/" + PROGRAM):
            continue
        stem = os.path.splitext(os.path.basename(name))[0]
        rooms = {room, room.replace("-", "_"), room.split("-")[-1]}
        if room == "sandbox-profiles":
            rooms |= {"confine"}
        wanted = {f"tests/unit/test_{r}_{stem}.c" for r in rooms} | {f"tests/unit/test_{stem}.c"}
        if not wanted & names:
            missing.append(f"{name}: no tests/unit/test_{room}_{stem}.c")
    lint.check("every .c file has a unit test", missing)
    lint.check("no exemption is stale", [name for name in EXEMPT if name not in names])
    lint.done()


if __name__ == "__main__":
    main()
