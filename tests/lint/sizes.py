#!/usr/bin/env python3
"""Sizes a reader can hold: files up to 600 lines, headers up to 300, functions up to 60.

A function of 61 to 80 lines is let through where it is a table or a flat switch and says so:
the comment right above it holds the words "flat switch" or "flat table". """

import re

import tree

FILE_MAX = 600
HEADER_MAX = 300
FUNCTION_MAX = 60
FLAT_MAX = 80
SCRIPTS = (".py", ".sh", ".js", ".mjs", ".cmake")


def functions(text):
    """(name, first line, length, comment above) of each function: by our format a body is the
    only thing that starts and ends with a brace in the first column."""
    lines = tree.strip_c(text).split("\n")
    raw = text.split("\n")
    start = None
    for number, line in enumerate(lines):
        if line.rstrip() == "{" and start is None:
            start = number
        elif line.startswith("}") and start is not None:
            head = start - 1
            while head > 0 and lines[head].strip() and not lines[head].startswith(("}", "#")):
                head -= 1
            comment = ""
            above = head
            while above >= 0 and (raw[above].strip().startswith(("*", "/*")) or raw[above].rstrip().endswith("*/")):
                comment = raw[above] + comment
                above -= 1
            names = re.findall(r"([A-Za-z_]\w*)\s*\(", " ".join(lines[head:start]))
            names = [n for n in names if not n.startswith("__")] or ["?"]
            yield names[0], head + 2, number - start + 1, comment
            start = None


def main():
    lint = tree.Lint()
    long_files = []
    long_functions = []
    every = [n for n in tree.files() if not n.startswith("tests/fuzz/corpus/")]
    for name in every:
        if name.endswith((".c", ".h") + SCRIPTS) or name.startswith(("packaging/", "tests/run")):
            limit = HEADER_MAX if name.endswith(".h") else FILE_MAX
            lines = tree.read(name).count("\n")
            if lines > limit:
                long_files.append(f"{name}: {lines} lines, {limit} allowed")
        if name.endswith((".c", ".h")):
            for function, line, length, comment in functions(tree.read(name)):
                flat = re.search(r"flat (switch|table)", comment)
                # A test reads from top to bottom, as a flat switch does.
                limit = FLAT_MAX if flat or name.startswith("tests/") else FUNCTION_MAX
                if length > limit:
                    long_functions.append(f"{name}:{line}: {function}: {length} lines, {limit} allowed")
    lint.check(f"files up to {FILE_MAX} lines, headers up to {HEADER_MAX}", long_files)
    lint.check(f"functions up to {FUNCTION_MAX} lines", long_functions)
    lint.done()


if __name__ == "__main__":
    main()
