#!/usr/bin/env python3
"""The commands a person types, whole: `bailey run` passes code, input, arguments and exit code
through, `bailey image build` knows the image that is there, `bailey bench` measures, and each
command has its page."""

import json
import os
import pathlib
import pwd
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import tap  # noqa: E402
import tree  # noqa: E402

BAILEY = str((tree.BUILD / "bin" / "bailey").resolve())
COMMANDS = (["mcp"], ["serve"], ["status"], ["config"], ["run"], ["image"], ["image", "build"], ["token"],
            ["token", "add"], ["bench"])


def bailey(*words, user=None, stdin=b"", env=None, timeout=60):
    extra = {}
    if user:
        entry = pwd.getpwnam(user)
        extra = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist(user, entry.pw_gid)}
    return subprocess.run([BAILEY, *words], input=stdin, capture_output=True, timeout=timeout, check=False, cwd="/",
                          env={**os.environ, **(env or {})}, **extra)


class Run(unittest.TestCase):
    def case(self, want, *words, user, stdin=b"", env=None):
        done = bailey("run", *words, user=user, stdin=stdin, env=env)
        self.assertEqual((done.returncode, done.stdout), want, done.stderr)
        return done.stderr

    def test_everything_is_passed_through(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            files = {"a.py": "import sys\nprint(sys.argv[1:], sys.stdin.read())\nprint('e', file=sys.stderr)\nsys.exit(7)\n",
                     "b.sh": 'echo "$1"; kill -9 $$\n', "c.mjs": "import os from 'os'; console.log(await 5)\n"}
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")

            def body(user):
                at = {name: os.path.join(folder, name) for name in files}
                err = self.case((7, "['x', '--help'] in \u00fc\n".encode()), at["a.py"], "x", "--help", user=user,
                                stdin="in \u00fc".encode())
                self.assertEqual(err, b"e\n")
                self.case((137, b"w\n"), at["b.sh"], "w", user=user)
                self.case((0, b"5\n"), at["c.mjs"], user=user)
                self.case((0, b"2\n"), "-l", "node", "-", user=user, stdin=b"console.log(1 + 1)")
                self.case((3, b"\\ \x1b[1m\x00\n"), "-l", "bash", "-", user=user, stdin=rb"printf '\\ \033[1m\0\n'; exit 3")
                err = self.case((5, b"\xff\n"), "-l", "bash", "-", user=user, stdin=rb"printf '\xff\n'; cat /dev/zero >big 2>&-; exit 5")
                self.assertIn(b"disk_full", err)
                err = self.case((124, b"begun\n"), "-l", "bash", "-t", "1", "-m", "64", "-", user=user,
                                stdin=b"echo begun; sleep 60")
                self.assertIn(b"timed_out", err)
            tree.for_users(self, body)

    def test_what_cannot_be_run(self):
        none = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}
        self.assertIn(b"engine_unavailable", self.case((125, b""), "-", user=None, stdin=b"1", env=none))
        self.assertIn(b"cannot open /nonexistent", self.case((125, b""), "/nonexistent", user=None))
        self.assertIn(b"not UTF-8", self.case((125, b""), "-", user=None, stdin=b"\xff"))
        self.assertIn(b"-t takes", self.case((2, b""), "-t", "0", "-", user=None))


class Others(unittest.TestCase):
    def test_pages(self):
        for words in COMMANDS:
            done = bailey(*words, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, b""), words)
            self.assertTrue(done.stdout.startswith(b"Usage: bailey " + words[0].encode()), words)
        overview = bailey("--help")
        self.assertEqual((overview.returncode, overview.stderr), (0, b""))
        for words in COMMANDS:
            self.assertIn(b"  bailey " + words[0].encode(), overview.stdout)
        self.assertRegex(bailey("--version").stdout, rb"^bailey \d+\.\d+\.\d+\n$")
        for words in ((), ("nothing",), ("image",), ("token",), ("bench", "--only", "nothing")):
            self.assertEqual(bailey(*words).returncode, 2, words)

    def test_image_that_is_there(self):
        done = bailey("image", "build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rb"^image: bailey/sandbox:slim is there \(recipe [0-9a-f]{32}\)\n$")
        self.assertIn(b"known: slim, full", bailey("image", "build", "fat").stderr)

    def test_a_part_of_the_bench(self):
        done = bailey("bench", "--json", "--quick", "--only", "cold", timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        measured = {row["figure"]: row for row in report["figures"] if row["value"] is not None}
        self.assertEqual(sorted(measured), ["cold / raw engine create+start+attach", "idle PSS of all host processes"])
        for row in measured.values():
            self.assertGreater(row["value"], 0)
            self.assertIsInstance(row["reached"], bool)
        self.assertIn("cores", report["machine"])


if __name__ == "__main__":
    tap.main()
