#!/usr/bin/env python3
"""Functions no room may call, and the header every C file starts with."""

import re

import tree

BANNED = {
    "sprintf vsprintf strcpy stpcpy strcat strncpy strncat gets": "unbounded or silently cut copies: snprintf, memcpy",
    "strtok strtok_r": "changes its input",
    "strtol strtoul strtoll strtoull strtod atoi atol atoll atof sscanf fscanf scanf": "parse_u64 and friends check ranges",
    "system popen": "a shell: posix_spawn or fork and execve with an argv",
    "alloca": "unbounded stack",
    "mktemp tmpnam tempnam": "races",
    "dprintf vdprintf": "calls fstat and lseek, which filters kill: vsnprintf and write",
    "setjmp longjmp sigsetjmp siglongjmp": "",
    "signal sigaction": "signals are blocked and read from a signalfd",
    "sleep usleep": "deadlines are timers",
    "gethostbyname getaddrinfo": "only the supervisor resolves names",
    "rand srand random": "getrandom",
}
# file pattern -> names it may use although they are banned, each with its reason.
ALLOWED = [
    (r"supervisor/", {"getaddrinfo"}),       # the one resolver, before the filter
    (r"cli/", {"getaddrinfo"}),              # the caller's own rights, outside the tree
    (r"guest/", {"sigaction"}),              # PID 1 sets SIGPIPE and SIGTERM dispositions
    (r"(base|supervisor|frontend|broker|reaper|cli)/", {"sigaction"}),  # SIGPIPE ignored, defaults before exec
]
HEADER_LINES = 25
# No handlers: but ignoring SIGPIPE, and defaults before an exec, are not handlers.
DISPOSITION = re.compile(r"signal\(\w+, SIG_(IGN|DFL)\)")


def main():
    lint = tree.Lint()
    why = {word: reason for words, reason in BANNED.items() for word in words.split()}
    call = re.compile(r"(?<![\w.>])(" + "|".join(sorted(why)) + r")\s*\(")
    found = []
    headers = []
    for name in tree.c_files():
        text = tree.read(name)
        allowed = set().union(*[words for pattern, words in ALLOWED if re.match(pattern, name)])
        for number, line in enumerate(tree.strip_c(text).split("\n"), 1):
            for match in call.finditer(line):
                word = match.group(1)
                if word == "signal" and DISPOSITION.search(line):
                    continue
                if word not in allowed:
                    found.append(f"{name}:{number}: {word}{': ' + why[word] if why[word] else ''}")
        if name.endswith(".c"):
            headers += [f"{name}: {fault}" for fault in header_faults(name, text)]
    lint.check("no banned function", found)
    lint.check("every .c file says what it is, where it runs, what comes in, what it owns", headers)
    lint.done()


def header_faults(name, text):
    head = "\n".join(text.split("\n")[:HEADER_LINES])
    if not head.lstrip().startswith("/*"):
        yield "does not start with a comment"
        return
    comment = head.split("*/", 1)[0]
    if name not in comment:
        yield "the header does not name the file's path"
    for field in ("Runs in:", "Input:", "Owns:"):
        if field not in comment:
            yield f"the header has no \"{field}\""


if __name__ == "__main__":
    main()
