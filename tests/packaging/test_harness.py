#!/usr/bin/env python3
"""The counters are counted: tap-run and report.py, so that "0 failed" can be believed; and what tests
stand on stands: the fake engine's boxes outlive the connection that started them."""

import importlib.machinery
import importlib.util
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(TOP, "tests", part) for part in ("lib", "fakes")]
import tap  # noqa: E402
from fake_dockerd import FakeDockerd  # noqa: E402

TAP_RUN = os.path.join(TOP, "tests", "tap-run")

# script, options -> exit status, passed, failed, skipped, a note (part of it)
CASES = [
    ("echo 1..2; echo ok 1 - a; echo ok 2", [], (0, 2, 0, 0), ""),
    ("echo ok 1 - a; echo 1..1", [], (0, 1, 0, 0), ""),
    ("echo 1..1; echo ok 1; echo 1..1; echo ok 1", [], (0, 2, 0, 0), ""),
    ("echo 1..1; echo 'not ok 1 - bad'; exit 1", [], (1, 0, 1, 0), "bad"),
    ("echo 1..1; echo 'not ok 1 - bad'", [], (1, 0, 1, 0), "bad"),
    ("echo 1..2; echo ok; echo 'ok 2 - b # SKIP no engine'", [], (0, 1, 0, 1), "b: no engine"),
    ("echo 1..2; echo '# skip: as a user'; echo 'not ok 1 # SKIP test_a'; echo ok 2", [], (0, 1, 0, 1),
     "test_a: as a user"),
    ("echo 1..2; echo '# skip: of another'; echo 'ok 1'; echo 'ok 2 # SKIP test_b'", [], (0, 1, 0, 1), "\ttest_b"),
    ("echo '1..0 # SKIP not here'", [], (0, 0, 0, 1), "not here"),
    ("echo why; exit 77", [], (0, 0, 0, 1), "why"),
    ("true", [], (1, 0, 1, 0), "no test point"),
    ("echo ok 1", [], (1, 1, 1, 0), "no plan"),
    ("echo 1..3; echo ok 1", [], (1, 1, 1, 0), "3 points planned, 1 seen"),
    ("echo 1..1; echo ok 1; exit 3", [], (1, 1, 1, 0), "exit code 3"),
    ("echo 1..1; echo ok 1; kill -SEGV $$", [], (1, 1, 1, 0), "SIGSEGV"),
    ("echo 1..1; echo ok 1; exit 77", [], (1, 1, 1, 0), "exit code 77"),
    ("echo 1..1; sleep 20; echo ok 1", ["-t", "0.5"], (1, 0, 1, 0), "timed out"),
    ("trap '' TERM; echo 1..1; while :; do sleep 1; done", ["-t", "0.5"], (1, 0, 1, 0), "timed out"),
    ("echo 'Bail out! no disk'; exit 1", [], (1, 0, 2, 0), "no disk"),
    ("echo okay; echo 'not okay'; echo 1..1; echo ok 1", [], (0, 1, 0, 0), ""),
    ("echo 1..1; echo ok 1; sleep 9 &", [], (1, 1, 1, 0), "left behind"),
    ("printf '1..1\\nok 1 - \\377\\376\\n'", [], (0, 1, 0, 0), ""),
]


class FakeEngine(unittest.TestCase):
    def post(self, path, target, body=b""):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            sock.sendall(b"POST %s HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n" % (target.encode(), len(body)) + body)
            return sock.recv(65536)

    def test_a_box_outlives_the_connection_that_started_it(self):
        with tempfile.TemporaryDirectory() as folder:
            with FakeDockerd(os.path.join(folder, "e.sock"), box=["sleep", "60"]) as fake:
                made = self.post(fake.path, "/v1.41/containers/create?name=one",
                                 json.dumps({"Image": "bailey/sandbox:slim"}).encode())
                self.assertIn(b" 201 ", made)
                self.assertIn(b" 204 ", self.post(fake.path, "/v1.41/containers/one/start"))
                time.sleep(0.5)
                self.assertEqual([c.state for c in fake.containers.values()], ["running"])


class TapRun(unittest.TestCase):
    def run_case(self, argv):
        with tempfile.TemporaryDirectory() as work:
            results = os.path.join(work, "results")
            env = dict(os.environ, BAILEY_TAP_RESULTS=results, BAILEY_TAP_PASS="p:")
            env.pop("BAILEY_TAP_TIMEOUT", None)
            done = subprocess.run([sys.executable, TAP_RUN] + argv, env=env, check=False,
                                  capture_output=True, timeout=60)
            notes = ""
            if os.path.exists(results + ".notes"):
                with open(results + ".notes", encoding="utf-8") as handle:
                    notes = handle.read()
            with open(results, encoding="utf-8") as handle:
                return done, handle.read().split(), notes

    def test_counts(self):
        for script, options, wanted, note in CASES:
            with self.subTest(script=script[:60]):
                done, row, notes = self.run_case(options + ["n/x", "bash", "-c", script])
                self.assertEqual((done.returncode, *map(int, row[1:])), wanted)
                self.assertEqual(row[0], "p:n/x")
                self.assertIn(note, notes)

    def test_command_missing(self):
        done, row, notes = self.run_case(["x", "/nonexistent/program"])
        self.assertEqual((done.returncode, row[1:]), (1, ["0", "1", "0"]))
        self.assertIn("cannot run", notes)

    def test_output_passes_through(self):
        done, _, _ = self.run_case(["x", "sh", "-c", "echo 1..1; echo ok 1 - hello; echo '# more'"])
        self.assertEqual(done.stdout, b"1..1\nok 1 - hello\n# more\n")

    def test_stdin_is_empty(self):
        done, _, _ = self.run_case(["x", "sh", "-c", "echo 1..1; cat; echo ok 1"])
        self.assertEqual(done.returncode, 0)

    def test_usage(self):
        done = subprocess.run([sys.executable, TAP_RUN, "x"], check=False, capture_output=True)
        self.assertEqual(done.returncode, 2)


class Report(unittest.TestCase):
    def report(self, results, notes="", junit=None):
        with tempfile.TemporaryDirectory() as work:
            for name, text in (("results", results), ("results.notes", notes)):
                with open(os.path.join(work, name), "w", encoding="utf-8") as handle:
                    handle.write(text)
            if junit is not None:
                with open(os.path.join(work, "junit-.xml"), "w", encoding="utf-8") as handle:
                    handle.write(junit)
            done = subprocess.run([sys.executable, os.path.join(TOP, "tests/lib/report.py"), work],
                                  check=False, capture_output=True, text=True)
            return done.returncode, done.stdout.rstrip("\n").split("\n")[-1], done.stdout

    def test_sum(self):
        code, last, _ = self.report("a 2 0 1\nb 3 0 0\n", "skip\ta\tno engine\n")
        self.assertEqual((code, last), (0, "5 passed, 0 failed, 1 skipped"))

    def test_failure(self):
        code, last, out = self.report("a 2 1 0\n", "fail\ta\tpoint one\n")
        self.assertEqual((code, last), (1, "2 passed, 1 failed, 0 skipped"))
        self.assertIn("point one", out)

    def test_nothing_ran(self):
        self.assertEqual(self.report("")[:2], (1, "0 passed, 0 failed, 0 skipped"))

    def test_only_skips_is_not_success(self):
        self.assertEqual(self.report("a 0 0 4\n")[0], 1)

    def test_ctest_knows_more(self):
        junit = ('<testsuite><testcase name="a" status="run"/><testcase name="late" status="fail">'
                 '<failure message="Timeout"/></testcase><testcase name="a2" status="fail"/></testsuite>')
        code, last, out = self.report("a 1 0 0\na2 1 0 0\n", junit=junit)
        self.assertEqual((code, last), (1, "2 passed, 2 failed, 0 skipped"))
        self.assertIn("Timeout", out)

    def test_broken_junit(self):
        self.assertEqual(self.report("a 1 0 0\n", junit="<no")[:2], (1, "1 passed, 1 failed, 0 skipped"))


class Coverage(unittest.TestCase):
    def test_sum(self):
        loader = importlib.machinery.SourceFileLoader("coverage_figure", os.path.join(TOP, "tests", "coverage"))
        figure = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(figure)

        def document(name, *counts):
            lines = [{"line_number": number, "count": count} for number, count in enumerate(counts, 1)]
            return json.dumps({"files": [{"file": name, "lines": lines}]})

        seen = {}
        # the same file in two programs; absolute, and as a compiler cache names it; no room's file; a header
        figure.add(seen, document(os.path.join(TOP, "base/buf.c"), 1, 0, 0, 0) + "\n" + document("../../base/buf.c", 0, 2, 0, 0))
        figure.add(seen, document("../../cli/run.c", 0, 0) + "\n" + document("../../tests/x.c", 1) + "\n" + document("../../base/base.h", 1))
        self.assertEqual(list(figure.report(seen, False)), [" 50.0 %  base", "  0.0 %  cli", "2 of 6 lines, 33.3 %"])
        self.assertIn("         50.0 %  base/buf.c", list(figure.report(seen, True)))
        self.assertEqual(list(figure.report({}, False)), ["0 of 0 lines, 0.0 %"])


class Conformance(unittest.TestCase):
    """The baselines of tests/conformance/run.py: neither a new failure nor a stale entry passes."""

    FOUND = {"a": {"one": ("SUCCESS", ""), "two": ("FAILURE", "why")}, "b": {"three": ("WARNING", "so")},
             "c": {"four": ("SKIPPED", ""), "five": ("INFO", "")}}

    def failed(self, expected):
        sys.path.insert(0, os.path.join(TOP, "tests", "conformance"))
        import run
        points = run.Tap()
        out, sys.stdout = sys.stdout, io.StringIO()
        try:
            failing = run.compare(points, "x", self.FOUND, set(expected))
            text = sys.stdout.getvalue()
        finally:
            sys.stdout = out
        self.assertEqual(set(failing), {"a:two", "b:three"})
        return points.failed, text

    def test_as_listed(self):
        self.assertEqual(self.failed(["a:two", "b:three"])[0], 0)

    def test_not_listed(self):
        failed, text = self.failed(["a:two"])
        self.assertEqual(failed, 1)
        self.assertIn("b:three: WARNING: so", text)

    def test_listed_but_passes_or_is_gone(self):
        for entry in ("a:one", "c:four", "d:six"):
            failed, text = self.failed(["a:two", "b:three", entry])
            self.assertEqual(failed, 1)
            self.assertIn(entry, text)


if __name__ == "__main__":
    tap.main()
