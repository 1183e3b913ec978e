#!/usr/bin/env python3
"""A tree that many clients connect to: a frontend for each connection, whom it is told to serve,
what the limits do, and that a broker which is started again is wired to every connection.

baileyd and bailey-reaper are the real ones; frontend and broker are tests/fakes/fake_child.c.
Everything runs once as root, with ids of its own for each process, and once as a plain user.
"""

import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "integration")]
import tap  # noqa: E402
from test_tree import Tree, installed, wait_for  # noqa: E402

TOKENS = "ann " + "ab" * 32 + "\n"


class Server(Tree):
    """One baileyd with listeners; what it says on stdout is in .said."""

    def __init__(self, directory, words, user=None, env=None):
        self.bin = directory / "bin"
        self.log_path = directory / f"log-{time.monotonic_ns()}"
        clean = {"PATH": "/usr/bin:/bin", "DOCKER_HOST": "unix:///nowhere/docker.sock"}
        clean.update(env or {})
        popen = {}
        if user is not None:
            entry = pwd.getpwnam(user)
            popen.update(user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [str(self.bin / "baileyd"), "--private", *words], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, env=clean, cwd="/", **popen)
        # stdout is given up once everything listens
        self.said = self.process.stdout.read().decode().splitlines()

    def frontends(self):
        return self.processes().get("bailey-frontend", [])

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        try:
            return self.ended(4)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class Client:
    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(5)
        self.socket.connect(address)
        self.text = b""
        self.answered = set()  # questions repeated on a slow machine are answered more than once

    def say(self, line):
        self.socket.sendall(line.encode() + b"\n")

    def hear(self):
        """The next line that is not about a replaced link, nor an answer heard before; None at the end."""
        while True:
            line, newline, rest = self.text.partition(b"\n")
            if newline:
                self.text = rest
                if line != b"peer" and line not in self.answered:
                    return line.decode()
                continue
            try:
                got = self.socket.recv(4096)
            except ConnectionResetError:
                got = b""
            if not got:
                return None
            self.text += got

    def ask(self, number):
        """Round trip client - frontend - broker - reaper and back."""
        self.answered.discard(b"answered %d" % number)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self.say(f"ask {number}")
            self.socket.settimeout(0.2)
            try:
                while True:
                    heard = self.hear()
                    if heard == f"answered {number}":
                        self.answered.add(heard.encode())
                        return
                    if heard is None:
                        raise AssertionError("the connection ended")
            except TimeoutError:
                continue
            finally:
                self.socket.settimeout(5)
        raise AssertionError("no answer")

    def close(self):
        self.socket.close()


class ServeCase:
    user = None

    def setUp(self):
        self.directory = installed(self, "bailey-serve.")
        self.run_dir = self.directory / "run"
        self.run_dir.mkdir(mode=0o700)
        self.path = str(self.run_dir / "mcp.sock")
        self.tokens = self.run_dir / "tokens"
        self.tokens.write_text(TOKENS)
        self.tokens.chmod(0o600)
        self.uid = os.geteuid()
        if self.user is not None:
            subprocess.run(["chmod", "-R", "a+rX", str(self.directory / "bin"),
                            str(self.directory / "share")], check=True)
            self.directory.chmod(0o755)
            entry = pwd.getpwnam(self.user)
            self.uid = entry.pw_uid
            for path in (self.run_dir, self.tokens):
                os.chown(path, entry.pw_uid, entry.pw_gid)

    def serve(self, *words, env=None):
        server = Server(self.directory, words or ("--socket", self.path), self.user, env)
        self.addCleanup(server.process.kill)
        return server

    def client(self, address=None):
        client = Client(address or self.path)
        self.addCleanup(client.close)
        return client

    def refused(self, *words):
        """A start that ends at once: its exit code and its one line."""
        server = self.serve(*words)
        code = server.ended(5)
        server.process.stdout.close()
        self.assertEqual(server.said, [])
        return code, server.log()

    def test_each_connection_has_a_frontend(self):
        server = self.serve()
        self.assertEqual(server.said, [f"listening on unix:{self.path}"])
        self.assertEqual(server.frontends(), [])
        first, second = self.client(), self.client()
        for number, client in enumerate((first, second), 1):
            client.say("ping")
            self.assertEqual(client.hear(), "pong")
            client.ask(number)
        self.assertEqual(len(server.frontends()), 2)
        first.close()
        wait_for(lambda: len(server.frontends()) == 1, 2, "a frontend outlives its connection")
        second.ask(3)
        self.assertEqual(server.stop(), 0)
        self.assertIsNone(second.hear())
        server.nothing_left(1)

    def test_whom_a_connection_belongs_to(self):
        server = self.serve("--socket", self.path, "--http", "127.0.0.1:0", "--tokens",
                            str(self.tokens))
        port = int(server.said[1].removeprefix("listening on http://127.0.0.1:").removesuffix("/mcp"))
        # root may open the user's socket, and is itself all the same
        self.client().ask(1)
        self.client(("127.0.0.1", port)).ask(2)
        log = server.log()
        self.assertIn(f"peer frontend id=1 owner=2:{os.geteuid()}\n", log)
        self.assertIn("peer frontend id=2 owner=3:0\n", log)
        self.assertIn("client kind=2 hosts= origins=\n", log)
        self.assertIn(f"client kind=3 hosts=127.0.0.1:{port},localhost:{port},[::1]:{port} "
                      f"origins=http://127.0.0.1:{port},http://localhost:{port},"
                      f"http://[::1]:{port}\n", log)
        self.assertIn("token of ann\n", log)
        self.assertEqual(server.stop(), 0)
        server.nothing_left(1)

    def test_frontend_that_fails_costs_its_connection_alone(self):
        server = self.serve()
        first, second = self.client(), self.client()
        first.ask(1)
        second.ask(2)
        first.say("exit 3")
        self.assertIsNone(first.hear())
        second.ask(3)
        os.kill(server.frontends()[0], signal.SIGKILL)
        self.assertIsNone(second.hear())
        self.client().ask(4)
        self.assertEqual(server.stop(), 0)

    def test_broker_that_dies_is_wired_to_all_again(self):
        server = self.serve()
        clients = [self.client() for _ in range(20)]
        for number, client in enumerate(clients, 1):
            client.ask(number)
        frontends = sorted(server.frontends())
        before = server.fds("baileyd")
        old = None
        for turn in range(3):
            old = server.pid("bailey-broker", old)
            os.kill(old, signal.SIGKILL)
            for number, client in enumerate(clients, 100 * (turn + 1)):
                client.ask(number)
        self.assertEqual(sorted(server.frontends()), frontends)
        self.assertEqual(server.fds("baileyd"), before)
        self.assertEqual(server.stop(), 0)
        server.nothing_left(1)

    def test_supervisor_keeps_no_connection(self):
        server = self.serve()
        first = self.client()
        first.ask(1)
        before = server.fds("baileyd")
        client = self.client()
        client.ask(2)
        self.assertEqual(server.fds("baileyd"), before + 1)  # its link
        client.close()
        wait_for(lambda: server.fds("baileyd") == before, 2, "a descriptor is kept")
        self.assertEqual(server.stop(), 0)

    def test_limits(self):
        server = self.serve(env={"BAILEY_CONNECTIONS": "4", "BAILEY_CONNECTIONS_USER": "3"})
        kept = [self.client() for _ in range(3)]
        for client in kept:
            client.say("ping")
            self.assertEqual(client.hear(), "pong")
        fourth = self.client()
        self.assertIsNone(fourth.hear())
        self.assertIn("BAILEY_CONNECTIONS_USER", server.log())
        kept[0].close()
        wait_for(lambda: len(server.frontends()) == 2, 2, "a frontend stays")
        # The supervisor hears of that end a moment later than this process sees it.
        wait_for(self.served_again, 2, "its place is not free")
        self.assertEqual(server.stop(), 0)

    def served_again(self):
        again = self.client()
        try:
            again.say("ping")
            return again.hear() == "pong"
        except (BrokenPipeError, ConnectionResetError):
            return False

    def test_at_the_limit_of_all_a_connection_waits(self):
        server = self.serve(env={"BAILEY_CONNECTIONS": "2", "BAILEY_CONNECTIONS_USER": "9"})
        kept = [self.client(), self.client()]
        for client in kept:
            client.say("ping")
            self.assertEqual(client.hear(), "pong")
        third = self.client()
        third.say("ping")
        third.socket.settimeout(0.3)
        with self.assertRaises(TimeoutError):
            third.hear()
        kept[0].close()
        third.socket.settimeout(5)
        self.assertEqual(third.hear(), "pong")
        self.assertEqual(server.stop(), 0)

    def test_socket_left_by_a_dead_tree(self):
        server = self.serve()
        self.client().ask(1)
        code, log = self.refused("--socket", self.path)
        self.assertEqual(code, 1)
        self.assertIn("a running program serves", log)
        self.client().ask(2)
        os.kill(server.process.pid, signal.SIGKILL)
        server.nothing_left(2)
        server.process.wait()
        server.process.stdout.close()
        again = self.serve()
        self.client().ask(3)
        self.assertEqual(os.stat(self.path).st_mode & 0o7777, 0o600)
        self.assertEqual(again.stop(), 0)

    def test_refusals(self):
        free = str(self.run_dir / "x.sock")
        rows = [
            (2, ["--http", "127.0.0.1:0"], "--http needs --tokens"),
            (1, ["--http", "0.0.0.0:0", "--tokens", str(self.tokens)], "--tls"),
            (1, ["--socket", free, "--http", "0.0.0.0:0", "--tokens", str(self.tokens)], "loopback"),
            (1, ["--http", "nonsense", "--tokens", str(self.tokens)], "ADDRESS:PORT"),
            (1, ["--http", "127.0.0.1:0", "--tokens", free], "x.sock"),
            (1, ["--socket", "/nowhere/at/all"], "/nowhere/at"),
            (2, ["--socket", free, "--stdio"], "neither"),
            (2, [], "nothing to serve"),
        ]
        for wanted, words, part in rows:
            with self.subTest(says=part):
                server = Server(self.directory, words, self.user)
                self.assertEqual(server.ended(5), wanted)
                server.process.stdout.close()
                self.assertEqual(server.said, [])
                first = server.log().splitlines()[0]
                self.assertIn(part, first)
                server.nothing_left(1)
        self.tokens.chmod(0o644)
        code, log = self.refused("--http", "127.0.0.1:0", "--tokens", str(self.tokens))
        self.assertEqual(code, 1)
        self.assertIn(str(self.tokens), log)

    def test_supervisor_killed_ends_every_connection(self):
        server = self.serve()
        clients = [self.client() for _ in range(5)]
        for number, client in enumerate(clients, 1):
            client.ask(number)
        os.kill(server.process.pid, signal.SIGKILL)
        for client in clients:
            self.assertIsNone(client.hear())
        server.nothing_left(1)
        server.process.wait()
        server.process.stdout.close()


class AsSelf(ServeCase, unittest.TestCase):
    """As whoever runs the test: root, where the suite runs as root."""


class AsPlainUser(ServeCase, unittest.TestCase):
    user = os.environ.get("BAILEY_TEST_USER")

    def setUp(self):
        if os.geteuid() != 0 or not self.user:
            self.skipTest("needs root and BAILEY_TEST_USER")
        super().setUp()


if __name__ == "__main__":
    tap.main()
