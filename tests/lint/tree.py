"""What the lint programs share: which files there are, how a room is told, how C is stripped
of comments, and how a list of findings becomes TAP."""

import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))

# Every directory with C of ours.
ROOMS = ["base", "ipc", "sandbox-profiles", "supervisor", "frontend", "broker", "reaper",
         "guest", "cli"]


def files():
    """Paths relative to the top: tracked files, and new ones that are not ignored."""
    try:
        out = subprocess.run(["git", "-c", f"safe.directory={TOP}", "-C", TOP, "ls-files", "-co",
                              "--exclude-standard", "-z"],
                             capture_output=True, check=True).stdout
        names = [name.decode() for name in out.split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        # A tree unpacked from a tarball: everything but what a build makes.
        names = []
        for path, dirs, entries in os.walk(TOP):
            dirs[:] = [d for d in dirs if d not in (".git", "build", "node_modules", "__pycache__")]
            names += [os.path.relpath(os.path.join(path, entry), TOP) for entry in entries]
    return sorted({name for name in names if os.path.isfile(os.path.join(TOP, name))})


def room_of(name):
    """frontend/stdio.c -> frontend; None for what is in no room (or only data of one)."""
    first = name.split("/", 1)[0]
    return first if first in ROOMS else None


def c_files(rooms_only=True):
    return [name for name in files() if name.endswith((".c", ".h"))
            and (room_of(name) or not rooms_only)]


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8", errors="replace") as handle:
        return handle.read()


TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def strip_c(text, strings=True):
    """C without comments (and string contents); line numbers stay right."""
    def blank(match):
        found = match.group(0)
        if found[0] == "/":
            return re.sub(r"[^\n]", " ", found)
        return found[0] + found[0] if strings else found
    return TOKEN.sub(blank, text)


class Lint:
    """One point per check; findings are its diagnostics."""

    def __init__(self):
        self.number = 0
        self.failed = False

    def check(self, name, findings):
        findings = list(findings)
        self.number += 1
        self.failed = self.failed or bool(findings)
        print(f"{'not ok' if findings else 'ok'} {self.number} - {name}")
        for finding in findings[:60]:
            print(f"# {finding}")
        if len(findings) > 60:
            print(f"# and {len(findings) - 60} more")

    def skip(self, name, reason):
        self.number += 1
        print(f"ok {self.number} - {name} # SKIP {reason}")

    def done(self):
        print(f"1..{self.number}")
        sys.exit(1 if self.failed else 0)
