#!/usr/bin/env python3
"""Every test that tests/README.md names exists: label/file.case, label/file.* or a test program.
Every setting has its line in a page."""

import re

import tree

NAME = re.compile(r"`(unit|live|integration|confine|lint|sdk|conformance)/(\w+)(?:\.(\w+|\*))?`")


def exists(names, label, program, case):
    paths = [f"tests/{label}/test_{program}.{ext}" for ext in ("py", "c")]
    if label == "confine" and program.startswith("filter_"):
        paths, case = ["tests/confine/test_filters.c"], None
    elif label in ("lint", "sdk", "conformance") or program == "container_profile":
        paths = [name for name in names if name.startswith(f"tests/{label}/")
                 or name.startswith("tests/confine/")]
        case = None
    found = [path for path in paths if path in names]
    if not found:
        return False
    return case in (None, "*") or any(
        re.search(rf"\btest_{case}\b", tree.read(path)) for path in found)


def main():
    lint = tree.Lint()
    names = set(tree.files())
    text = tree.read("tests/README.md")
    lint.check("every test named in tests/README.md exists",
               [f"{label}/{program}.{case}" for label, program, case in NAME.findall(text)
                if not exists(names, label, program, case or None)])
    wanted = {f"C{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 18, 19, 21, 22, 23, 24,
                                25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 36, 38, 39, 41, 42, 43, 44,
                                45, 46, 47, 48, 49, 50, 51, 52, 53, 55, 56, 58, 59, 60, 61, 62, 63,
                                64, 65, 66, 67, 68, 70, 71, 72, 73, 74, 75, 77, 78, 79, 80, 81, 82,
                                83, 84, 85, 86)} | {f"D{n}" for n in range(1, 11)}
    pages = tree.read("README.md") + tree.read("sandbox-profiles/README.md")
    settings = re.findall(r"^OPTION\((\w+),", tree.read("supervisor/options.def"), re.M)
    lint.check("settings were found", [] if settings else ["none"])
    lint.check("every setting is in README.md or sandbox-profiles/README.md",
               [name for name in settings if not re.search(rf"`{name}\b", pages)])
    lint.check("every check has a row", sorted(wanted - set(re.findall(r"\b[CD]\d+\b", text))))
    lint.done()


if __name__ == "__main__":
    main()
