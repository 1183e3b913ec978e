#!/usr/bin/env python3
"""Adds up what a tests/run left in its work directory and prints the last lines.

    report.py DIRECTORY

DIRECTORY/results and results.notes are written by tests/tap-run, junit-PASS.xml by ctest. A
ctest test without a line in results never came to its end (killed at ctest's time limit, or
not built): ctest's verdict counts for it. Exit 1 if anything failed or nothing ran.
"""

import collections
import os
import sys
import xml.etree.ElementTree as xml


def read_results(path):
    totals = collections.OrderedDict()
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.rsplit(None, 3)
            if len(words) == 4:
                passed, failed, skipped = totals.get(words[0], (0, 0, 0))
                totals[words[0]] = (passed + int(words[1]), failed + int(words[2]),
                                    skipped + int(words[3]))
    return totals


def read_notes(path):
    notes = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t", 2)
            if len(fields) == 3:
                notes.append(fields)
    return notes


def add_junit(path, prefix, totals, notes):
    try:
        cases = xml.parse(path).getroot().iter("testcase")
    except (OSError, xml.ParseError) as error:
        totals[f"{prefix}ctest"] = (0, 1, 0)
        notes.append(["fail", f"{prefix}ctest", f"no readable result: {error}"])
        return
    for case in cases:
        name = prefix + case.get("name", "?")
        status = case.get("status", "")
        if name in totals:
            # ctest saw a failure the wrapper did not count, such as its own time limit.
            if status == "fail" and totals[name][1] == 0:
                passed, _, skipped = totals[name]
                totals[name] = (passed, 1, skipped)
                notes.append(["fail", name, "failed according to ctest"])
            continue
        if status == "run":
            totals[name] = (1, 0, 0)
        elif status == "disabled":
            totals[name] = (0, 0, 1)
            notes.append(["skip", name, "disabled in CMake"])
        else:
            reason = case.find("failure")
            why = reason.get("message", "") if reason is not None else ""
            totals[name] = (0, 1, 0)
            notes.append(["fail", name, f"ended without a result: {why or 'time limit of ctest, or never started'}"])


def table(title, rows):
    print(f"\n{title}")
    for name, text in rows:
        print(f"  {name:<34} {text}")


def main():
    work = sys.argv[1]
    totals = read_results(os.path.join(work, "results"))
    notes = read_notes(os.path.join(work, "results.notes"))
    for entry in sorted(os.listdir(work)):
        if entry.startswith("junit-") and entry.endswith(".xml"):
            name = entry[len("junit-"):-len(".xml")]
            add_junit(os.path.join(work, entry), f"{name}:" if name else "", totals, notes)
    skips = [(name, text) for kind, name, text in notes if kind == "skip"]
    fails = [(name, text) for kind, name, text in notes if kind == "fail"]
    if skips:
        table("skipped", skips)
    if fails:
        table("failed", fails)
    passed, failed, skipped = (sum(row[i] for row in totals.values()) for i in range(3))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
