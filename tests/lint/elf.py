#!/usr/bin/env python3
"""The programs as built: libraries each may need, hardening flags, symbols a frontend must
not even refer to. Argument, or BAILEY_BUILD: the build directory."""

import os
import re
import subprocess
import sys

import tree

BASE = {"libc", "libevent_core-2.1", "libmsgpackc", "libmsgpack-c", "libseccomp", "ld-linux-x86-64",
        "ld-linux-aarch64"}
# program -> libraries it may need.
NEEDED = {
    "baileyd": BASE,
    "bailey-frontend": BASE | {"libcjson"},
    "bailey-broker": BASE | {"libcjson", "libcurl"},
    "bailey-reaper": BASE,
    # It runs with the caller's own rights, outside the tree.
    "bailey": BASE | {"libcjson", "libcurl", "libm"},
}
FORBIDDEN = {
    "frontend": r"socket|socketpair|connect|bind|listen|accept4?|open(at)?(64)?|creat|fopen(64)?|opendir|"
                r"exec[lv]p?e?|execvpe|fexecve|posix_spawnp?|v?fork|clone|popen|system|dlopen|getaddrinfo|getpw\w+",
    "broker": r"exec[lv]p?e?|execvpe|fexecve|posix_spawnp?|v?fork|clone|popen|system|dlopen|getaddrinfo|"
              r"gethostby\w+|getpw\w+|getgr\w+",
    "reaper": r"socket|connect|bind|listen|accept4?|exec[lv]p?e?|execvpe|fexecve|posix_spawnp?|v?fork|clone|"
              r"popen|system|dlopen|getaddrinfo|getpw\w+",
}


def output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def needed(path):
    names = re.findall(r"\(NEEDED\).*\[([^]]+)\]", output("readelf", "-dW", path))
    return {re.sub(r"\.so.*", "", name) for name in names}


def hardening_faults(path, static):
    header = output("readelf", "-hW", path)
    segments = output("readelf", "-lW", path)
    dynamic = output("readelf", "-dW", path)
    stack = re.search(r"GNU_STACK\s+(?:\S+\s+){5}(\S+)", segments)
    if not stack or "E" in stack.group(1):
        yield "executable stack"
    for flags in re.findall(r"LOAD\s+(?:0x\S+\s+){5}(R?\s?W?\s?E?)\s", segments):
        if "W" in flags and "E" in flags:
            yield "a segment both writable and executable"
    if static:
        return
    if "DYN" not in header or "INTERP" not in segments:
        yield "not a position-independent executable"
    if "GNU_RELRO" not in segments:
        yield "no RELRO"
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*\bNOW\b", dynamic):
        yield "no BIND_NOW"
    if "RUNPATH" in dynamic or "RPATH" in dynamic:
        yield "has a library search path"
    if "__stack_chk_fail" not in output("nm", "-D", path):
        yield "no stack protector"


def objects(build, room):
    """The object files of a room's own sources, tests aside."""
    wanted = {os.path.basename(name) for name in tree.files()
              if name.startswith(room + "/") and name.endswith(".c")}
    base = os.path.join(build, room)
    for path, _, names in os.walk(base):
        for name in names:
            if name.endswith(".o") and name[:-2] in wanted:
                yield os.path.join(path, name)


def undefined(path):
    # Fortified and large-file variants are the same call under another name.
    for line in output("nm", "-u", path).split("\n"):
        word = line.split()[-1] if line.split() else ""
        word = word.split("@")[0]
        yield re.sub(r"^__(.*)_chk$", r"\1", re.sub(r"^__(open(at)?(64)?)_2$", r"\1", word))


def main():
    lint = tree.Lint()
    build = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BAILEY_BUILD", "")
    cache = os.path.join(build, "CMakeCache.txt")
    if not build or not os.path.exists(cache):
        lint.skip("programs", "there is no build directory")
        lint.done()
    with open(cache, encoding="utf-8") as handle:
        text = handle.read()
    if re.search(r"^BAILEY_(SANITIZE|FUZZ|COVERAGE):\w+=(ON|1|TRUE)$", text, re.MULTILINE):
        lint.skip("programs", "a build with sanitizers or coverage is another program")
        lint.done()
    for program, allowed in sorted(NEEDED.items()):
        path = os.path.join(build, "bin", program)
        if not os.path.exists(path):
            lint.skip(program, "is not built")
            continue
        lint.check(f"{program} needs only its libraries", sorted(needed(path) - allowed))
        lint.check(f"{program} is hardened", hardening_faults(path, static=False))
    guest = os.path.join(build, "share", "box", "init")
    if os.path.exists(guest):
        lint.check("guest-init is static", sorted(needed(guest)) +
                   (["has an interpreter"] if "INTERP" in output("readelf", "-lW", guest) else []))
        lint.check("guest-init is hardened", hardening_faults(guest, static=True))
    else:
        lint.skip("guest-init", "is not built")
    for room, pattern in FORBIDDEN.items():
        name = f"{room} refers to no forbidden function"
        found = list(objects(build, room))
        if not found:
            lint.skip(name, "no objects are built")
            continue
        lint.check(name, [f"{os.path.relpath(path, build)}: {word}" for path in found
                          for word in undefined(path) if re.fullmatch(pattern, word)])
    lint.done()


if __name__ == "__main__":
    main()
