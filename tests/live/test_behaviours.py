#!/usr/bin/env python3
"""Python, Node and Bash runs behave as `python3 main.py`, `node main.js` and `bash main.sh` do: every row of the
tables is run both ways, in the same image with the same limits, and compared: stdout, stderr,
how it ended. One way is the interpreter that waited in its sandbox; the other is started by a
shell, without any file of ours near it."""

import base64
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import unittest
from concurrent.futures import ThreadPoolExecutor

import behaviours_bash
import behaviours_node
import behaviours_python
import guestclient
import tap

# The shell writes the file and becomes the interpreter; env takes back what a shell adds.
PLAIN = ('printf %s "$1" | base64 -d >"$2"; shift; file=$1; shift; program=$1; shift; '
         'exec env -u PWD -u OLDPWD -u SHLVL -u _ "$program" "$file" "$@"')


def plain(language, code, args=(), env=(), stdin=None):
    data = code.encode() if isinstance(code, str) else code
    file, program = {"python": ("main.py", "python3"), "node": ("main.js", "node"),
                     "bash": ("main.sh", "bash")}[language]
    with guestclient.Box(guestclient.SHELL) as box:
        run = box.run(guestclient.COMMAND, PLAIN, stdin=stdin, env=env,
                      args=[base64.b64encode(data).decode(), file, program, *args])
        return outcome(run)


def waiting(case, language, code, args=(), env=(), stdin=None):
    box_class, kind = {"python": (guestclient.PYTHON, guestclient.PYTHON_CODE),
                       "node": (guestclient.NODE, guestclient.NODE_CODE),
                       "bash": (guestclient.SHELL, guestclient.BASH_CODE)}[language]
    with guestclient.Box(box_class) as box:
        box.wait_ready()
        run = box.run(kind, code, stdin=stdin, args=args, env=env)
        case.assertEqual(run.exit["start"], guestclient.WARM, "the waiting interpreter was not used")
        return outcome(run)


# Numbers of processes and addresses in messages of node itself; how long unittest took.
VARIES = ((re.compile(rb"\(node:\d+\)"), b"(node:PID)"), (re.compile(rb"0x[0-9a-f]{6,}"), b"0xADDRESS"),
          (re.compile(rb"^(Ran \d+ tests? in) [0-9.]+s$", re.MULTILINE), rb"\1 SECONDS"))


def steady(text):
    for pattern, word in VARIES:
        text = pattern.sub(word, text)
    return text


def outcome(run):
    return {"stdout": run.stdout, "stderr": steady(run.stderr),
            "end": (run.exit["how"], run.exit["exit_code"], run.exit["signal"])}


def both(case, language, code, options):
    """The two outcomes; their containers are made side by side."""
    with ThreadPoolExecutor(2) as pool:
        ways = pool.submit(waiting, case, language, code, **options), pool.submit(plain, language, code, **options)
        return [way.result() for way in ways]


AGE = 3  # seconds: longer than any start takes
ROWS_AT_ONCE = 4  # the engine makes eight containers twice as fast as two after each other


def options_of(row):
    return (row[0], row[1]) if isinstance(row, tuple) else (row, {})


class Behaviours(unittest.TestCase):
    maxDiff = 4000

    def outcomes(self, rows):
        """(name, future of the two outcomes) of (name, language, code, options), in their order."""
        with ThreadPoolExecutor(ROWS_AT_ONCE) as pool:
            yield from [(name, pool.submit(both, self, *row)) for name, *row in rows]

    def compare(self, language, cases):
        only = os.environ.get("BAILEY_TEST_ONLY", "")
        rows = [(language + ": " + name, language, *options_of(row)) for name, row in cases.items() if only in name]
        for name, ways in self.outcomes(rows):
            with self.subTest(name):
                self.assertEqual(*ways.result())

    def test_python(self):
        self.compare("python", behaviours_python.CASES)

    def test_node(self):
        self.compare("node", behaviours_node.CASES)

    def test_bash(self):
        self.compare("bash", behaviours_bash.CASES)

    def test_the_time_it_waited_is_not_the_runs(self):
        """performance of node alone counts it: marks and events inside node do, and now() has to agree with them."""
        rows = ((guestclient.NODE, guestclient.NODE_CODE,
                 "console.log(process.uptime() < AGE, process.uptime.name, performance.now() < AGE * 1000)", b"true uptime false\n"),
                (guestclient.PYTHON, guestclient.PYTHON_CODE, "import time; print(time.process_time() < AGE)", b"True\n"),
                (guestclient.SHELL, guestclient.BASH_CODE,
                 "printf -v began '%(%s)T' -2; printf -v now '%(%s)T'; echo $((SECONDS < AGE)) $((now - began < AGE))", b"1 1\n"))

        def aged(row):
            with guestclient.Box(row[0]) as box:
                box.wait_ready()
                box.wait(lambda: False, AGE)
                return box.run(row[1], row[2].replace("AGE", str(AGE))).stdout

        with ThreadPoolExecutor() as pool:
            for row, stdout in zip(rows, pool.map(aged, rows)):
                self.assertEqual(stdout, row[3], row[2])

    def test_known_differences(self):
        """A difference that has gone should leave the table."""
        tables = (("python", behaviours_python.DIFFERENT), ("node", behaviours_node.DIFFERENT),
                  ("bash", behaviours_bash.DIFFERENT))
        rows = [(language + ": " + name, language, row[0], row[2] if len(row) > 2 else {})
                for language, table in tables for name, row in table.items()]
        for name, ways in self.outcomes(rows):
            with self.subTest(name):
                self.assertNotEqual(*ways.result())


if __name__ == "__main__":
    why = guestclient.unavailable()
    if why:
        tap.skip_all(why)
    tap.main()
