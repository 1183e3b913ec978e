#!/usr/bin/env python3
"""packaging/quickstart, whole, in a copy of this clone and on the engine the tests have: it builds,
runs the three languages and prints configuration that a client can start; once more, it takes
seconds. What it says where something is missing: packaging/setup."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import tap  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS = 6
SECONDS_AGAIN = 30
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).encode()


class Quickstart(unittest.TestCase):
    def run_it(self, clone, **more):
        env = {**os.environ, "CCACHE_BASEDIR": str(clone), "CCACHE_NOHASHDIR": "1", **more}
        if shutil.which("ccache"):
            env["CMAKE_C_COMPILER_LAUNCHER"] = "ccache"
        begin = time.monotonic()
        done = subprocess.run([clone / "packaging" / "quickstart"], env=env, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=500, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(re.findall(r"^\[(\d)/(\d)\] ", done.stdout, re.M), [(str(n), str(STEPS)) for n in range(1, STEPS + 1)])
        self.assertRegex(done.stdout, r"\nDone in \d+\.\d s\.\n$")
        return done.stdout, time.monotonic() - begin

    def check_demo(self, text):
        for language in ("python", "bash", "node"):
            self.assertRegex(text, rf"(?m)^      {language}: \S")
            first, later, host = re.search(rf"(?m)^      {language} +([\d.]+) +([\d.]+) (?:warm|cold) +([\d.]+)$", text).groups()
            self.assertTrue(float(first) > 0 and float(later) > 0 and float(host) > 0, text)

    def check_configuration(self, text, program):
        """Started as a client would, with nothing in the environment but what is written there."""
        blocks = re.findall(r"^(claude-code|cursor|vscode): into (\S.*)\n\n(\{\n(?:\t.*\n)+\})$", text, re.M)
        self.assertEqual([name for name, _, _ in blocks], ["claude-code", "cursor", "vscode"], text)
        for name, _, block in blocks:
            config = json.loads(block)
            server = (config.get("mcpServers") or config["servers"])["bailey"]
            self.assertEqual((server["command"], server["args"]), (str(program), ["mcp"]), name)
            self.assertEqual(server["env"]["DOCKER_HOST"], os.environ["DOCKER_HOST"], name)
            done = subprocess.run([server["command"], *server["args"]], env=server["env"], input=INITIALIZE + b"\n",
                                  capture_output=True, timeout=30, check=True)
            self.assertEqual(json.loads(done.stdout)["result"]["serverInfo"]["name"], "bailey", name)

    def check_release(self, program):
        """No variable takes the filters of what is shipped away."""
        done = subprocess.run([program, "--private", "--stdio"], env={**os.environ, "BAILEY_CONFINE": "log"},
                              stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=30, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("BAILEY_CONFINE=log: must be empty", done.stderr)

    def test_first_and_again(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            clone = pathlib.Path(folder) / "bailey"
            shutil.copytree(TOP, clone, symlinks=True,
                            ignore=lambda at, names: {"build", ".git"} & set(names) if at == str(TOP) else ())
            text, _ = self.run_it(clone)
            self.check_demo(text)
            self.check_configuration(text, clone / "build" / "release" / "bin" / "bailey")
            self.check_release(clone / "build" / "release" / "bin" / "baileyd")
            again, seconds = self.run_it(clone, SUDO_USER="nobody")
            self.check_demo(again)
            self.assertLess(seconds, SECONDS_AGAIN)
            self.assertIn("nobody may not use the engine's socket yet: run 'usermod -aG ", again)


if __name__ == "__main__":
    if os.geteuid() != 0:
        tap.skip_all("quickstart needs root")
    if not os.environ.get("DOCKER_HOST", "").startswith("unix://"):
        tap.skip_all("no engine at a unix socket of this machine")
    tap.main()
