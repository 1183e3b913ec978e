#!/usr/bin/env python3
"""What people get wrong at first, and what they are told: each mistake ends at once, with the exit code it should have
and with words that say what to do instead, in the words that were typed. No engine is needed.
"""

import os
import pathlib
import pty
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from serve import free_port  # noqa: E402
from tree import BUILD  # noqa: E402

BAILEY = str(BUILD / "bin" / "bailey")
ENGINE = {"DOCKER_HOST": "unix:///nonesuch/docker.sock"}

# words, environment beside the engine's, exit code, what stderr says (patterns)
MISTAKES = [
    (["rum"], {}, 2, ['unknown command "rum"', "bailey --help"]),
    (["run", "--timeout", "5", "-"], {}, 2, ['unknown option "--timeout"', "bailey run --help"]),
    (["run", "-x", "-"], {}, 2, ['unknown option "-x"', "bailey run --help"]),
    (["run", "-l"], {}, 2, ['"-l" needs a value', "bailey run --help"]),
    (["run", "-t", "soon", "-"], {}, 2, ['-t takes whole seconds from 1, not "soon"']),
    (["run", "gone.py"], {}, 125, ["cannot open gone.py: No such file"]),
    (["run", "script.rb"], {}, 2, ["script.rb", "-l python, -l bash or -l node"]),
    (["run", "-l", "ruby", "-"], {}, 125, ["must be one of: python, bash, node"]),
    (["run", "-"], {}, 125, ["at unix:/nonesuch/docker.sock: No such file or directory", "Check that it runs, that DOCKER_HOST names it"]),
    (["run", "-"], {"DOCKER_HOST": "/var/run/docker.sock"}, 125, ["must be unix:///absolute/path", "did not start; its words are above"]),
    (["run", "-"], {"MAX_MEMORY_MB": "2G"}, 125, ["MAX_MEMORY_MB=2G: must be a whole number", "did not start; its words are above"]),
    (["config", "emacs"], {}, 2, ["claude-code claude-desktop cursor vscode windsurf"]),
    (["image", "build", "huge"], {}, 2, ["known: slim, full"]),
    (["serve"], {}, 2, ["--socket PATH", "--http ADDRESS:PORT"]),
    (["serve", "--socket", "mcp.sock"], {}, 1, ["--socket: mcp.sock is not the absolute path"]),
    (["serve", "--http", "127.0.0.1:0"], {"HOME": "/nonesuch"}, 2, ["bailey token add NAME"]),
    (["status", "--socket", "/nonesuch/mcp.sock"], {}, 1, ["no server runs with that socket"]),
    (["mcp", "--socket", "/nonesuch/mcp.sock"], {}, 1, ["no daemon answers", "bailey mcp --private"]),
]


def bailey(words, env=None, **more):
    return subprocess.run([BAILEY, *words], env={"PATH": "/usr/bin:/bin", **ENGINE, **(env or {})}, capture_output=True, text=True,
                          timeout=30, check=False, **({"input": ""} if "stdin" not in more else {}), **more)


def on_terminal(words, typed, until, seconds=30):
    """What a terminal shows of a command, with typed sent once `until` stands there, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(BAILEY, [BAILEY, *words], {"PATH": "/usr/bin:/bin", **ENGINE})
    shown, sent, end = "", False, time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            piece = os.read(terminal, 4096)
            if not piece:
                break
            shown += piece.decode(errors="replace")
            if not sent and until in shown:
                os.write(terminal, typed)
                sent = True
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(terminal)
        if not sent:
            os.kill(pid, 9)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return shown, status


class Mistakes(unittest.TestCase):
    def test_each_is_told_what_to_do(self):
        with tempfile.TemporaryDirectory() as work:
            (pathlib.Path(work) / "script.rb").write_text("puts 1\n", encoding="utf-8")
            for words, env, code, patterns in MISTAKES:
                with self.subTest(" ".join([*words, *env])):
                    done = bailey(words, env, cwd=work)
                    for pattern in patterns:
                        self.assertIn(pattern, done.stderr)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertNotIn("Broken pipe", done.stderr)

    def test_a_refusal_is_all_that_is_said(self):
        """The tree ends while it still starts: no process of it takes that for trouble."""
        for _ in range(20):
            done = bailey(["run", "-m", "1000000", "-"])
            self.assertEqual(done.returncode, 125)
            self.assertIn("bailey: denied: memory_mb 1000000 is outside what", done.stderr)
            warnings = re.findall("^<[0-4]>.*", done.stderr, re.M)
            self.assertEqual([line for line in warnings if "event=engine_unusable" not in line], [])

    def test_a_second_server_names_the_socket_that_was_typed(self):
        with tempfile.TemporaryDirectory() as work:
            path = work + "/mcp.sock"
            first = subprocess.Popen([BAILEY, "serve", "--socket", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                     env={"PATH": "/usr/bin:/bin", **ENGINE})
            try:
                self.assertEqual(first.stdout.readline(), f"listening on unix:{path}\n")
                done = bailey(["serve", "--socket", path])
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"a running program serves {path};", done.stderr)
            finally:
                first.terminate()
                first.wait(30)
                first.stdout.close()

    def test_a_port_in_use(self):
        with tempfile.TemporaryDirectory() as work, socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            tokens = work + "/tokens"
            self.assertEqual(bailey(["token", "add", "me", "--tokens", tokens]).returncode, 0)
            done = bailey(["serve", "--http", f"127.0.0.1:{other.getsockname()[1]}", "--tokens", tokens])
            self.assertEqual(done.returncode, 1)
            self.assertIn("Address already in use; stop what listens there or name another port", done.stderr)

    def test_tls_that_does_not_come_up(self):
        """No address is told that nobody serves, and no proxy is started again and again for it."""
        with tempfile.TemporaryDirectory() as work, socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken, cert, key = f"127.0.0.1:{other.getsockname()[1]}", work + "/cert.pem", work + "/key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                            "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
            os.chmod(key, 0o600)
            self.assertEqual(bailey(["token", "add", "me", "--tokens", work + "/tokens"]).returncode, 0)
            (pathlib.Path(work) / "none.pem").write_text("no certificate\n", encoding="utf-8")
            for pem, at, words in ((cert, taken, [f"--tls-listen: {taken}: Address already in use; stop what listens there"]),
                                   (work + "/none.pem", f"127.0.0.1:{free_port()}", ["stunnel ended, its words are above", "none.pem must be"])):
                done = bailey(["serve", "--http", "127.0.0.1:0", "--tokens", work + "/tokens", "--tls", pem, key, "--tls-listen", at])
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                for part in words:
                    self.assertIn(part, done.stderr)
                self.assertLess(done.stderr.count("is started again"), 2)

    def test_who_waits_at_a_terminal_is_told_for_what(self):
        shown, code = on_terminal(["run"], b"\x03", "end it with Ctrl-D")
        self.assertIn("from the terminal", shown)
        self.assertEqual(code, -2)
        shown, code = on_terminal(["mcp", "--private"], b"\x04", "bailey config")
        self.assertEqual(code, 0, shown)


class Config(unittest.TestCase):
    def test_every_setting_is_written_down(self):
        """What `baileyd -T` lists, but for what only a server reads and what shipped builds refuse."""
        tables = subprocess.run([str(BUILD / "bin" / "baileyd"), "-T"], capture_output=True, text=True, timeout=30, check=True).stdout
        names = re.findall(r"^([A-Z][A-Z_]+) ", tables.split("\n\n", 1)[0], re.MULTILINE)
        self.assertIn("BAILEY_SHARE_DIR", names)
        wanted = {name for name in names if not name.startswith("BAILEY_CON")}
        done = bailey(["config", "cursor"], {name: "1" for name in names})
        for name in sorted(wanted):
            self.assertIn(f'"{name}":', done.stdout)
        self.assertNotIn("BAILEY_CON", done.stdout)

    def test_the_path_of_an_address_may_be_left_out(self):
        for given in ("https://box.example.org:8443", "https://box.example.org:8443/", "https://box.example.org:8443/mcp"):
            self.assertIn('"https://box.example.org:8443/mcp"', bailey(["config", "cursor", "--http", given]).stdout, given)
        self.assertIn('"https://example.org/sandbox/mcp"', bailey(["config", "cursor", "--http", "https://example.org/sandbox/mcp"]).stdout)

    def test_where_the_token_goes_is_said(self):
        for name, words in {"claude-code": "BAILEY_TOKEN", "cursor": "BAILEY_TOKEN", "windsurf": "BAILEY_TOKEN", "vscode": "asks for the token",
                            "claude-desktop": "in place of YOUR_TOKEN"}.items():
            told = bailey(["config", name, "--http"]).stderr
            self.assertIn(words, told)
            self.assertIn("bailey token add", told)


if __name__ == "__main__":
    tap.main()
