#!/usr/bin/env python3
"""Room rules: which room may include whose headers, and which library's. A room whose rule
changes is changed here in the same commit, with the reason."""

import os
import re

import tree

FLOOR = {"base", "ipc", "sandbox-profiles"}
MAY_INCLUDE = {
    "base": {"base"},
    "ipc": {"base", "ipc"},
    "sandbox-profiles": {"base", "sandbox-profiles"},
    "supervisor": FLOOR | {"supervisor"},
    "frontend": FLOOR | {"frontend"},
    "broker": FLOOR | {"broker"},
    "reaper": FLOOR | {"reaper"},
    # Static, inside the sandbox: the floor and the frame codec at most.
    "guest": {"base", "ipc", "guest"},
    "cli": FLOOR | {"cli"},
}

# File -> rooms it may include beyond its own, each with its reason.
EXCEPTIONS = {
    # bench times a raw engine loop with the very body the broker creates sandboxes with.
    "cli/bench_body.c": {"broker"},
}

# Library header (a pattern) -> files that may include it (patterns of paths).
LIBRARIES = [
    (r"cjson/|cJSON", [r"frontend/", r"broker/docker_[a-z]+\.[ch]", r"cli/"]),
    (r"curl/", [r"broker/http_parts\.h"]),
    (r"msgpack", [r"ipc/pack\.c"]),
    (r"seccomp\.h", [r"sandbox-profiles/(confine|foreign)\.c"]),
    (r"event2?/|event\.h", [r"ipc/(link|loop)\.c", r"supervisor/", r"frontend/", r"broker/",
                            r"reaper/"]),
    # Name services open files and sockets behind our back: only where they are allowed.
    (r"netdb\.h|resolv\.h", [r"supervisor/"]),
    (r"pwd\.h|grp\.h", [r"supervisor/"]),
    (r"pthread\.h|threads\.h|setjmp\.h|wordexp\.h", []),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def headers_by_name(names):
    """header's base name -> rooms that have one of that name."""
    rooms = {}
    for name in names:
        if name.endswith((".h", ".def")):
            rooms.setdefault(os.path.basename(name), set()).add(tree.room_of(name))
    return rooms


def main():
    lint = tree.Lint()
    names = [name for name in tree.files() if tree.room_of(name)]
    owners = headers_by_name(names)
    sources = [name for name in names if name.endswith((".c", ".h", ".def"))]
    across = []
    libraries = []
    relative = []
    for name in sources:
        room = tree.room_of(name)
        for number, line in enumerate(tree.strip_c(tree.read(name), strings=False).split("\n"), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            kind, header = match.groups()
            where = f"{name}:{number}"
            if kind == '"':
                if ".." in header.split("/"):
                    relative.append(f"{where}: \"{header}\" climbs out of its directory")
                found = owners.get(os.path.basename(header), set())
                first = header.split("/", 1)[0]
                if "/" in header and first in tree.ROOMS:
                    found = {first}
                if found and not found & (MAY_INCLUDE[room] | EXCEPTIONS.get(name, set())):
                    across.append(f"{where}: {room} may not include {header} of {', '.join(sorted(found))}")
            for pattern, allowed in LIBRARIES:
                if re.match(pattern, header) and not any(re.match(p, name) for p in allowed):
                    libraries.append(f"{where}: {header} is not for this file")
    lint.check("no room includes another room's headers", across)
    lint.check("libraries are used where they belong", libraries)
    lint.check("no include path climbs", relative)
    lint.done()


if __name__ == "__main__":
    main()
