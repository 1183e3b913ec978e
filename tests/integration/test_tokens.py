#!/usr/bin/env python3
"""SIGHUP to a server on HTTP: a new token is good, one that was taken out closes what it opened, a bad
file changes nothing, and none of it needs a restart. As root (the server gave its rights up and reads a
file of root's) and as a plain user. No engine is needed. About 4 s."""

import http.client
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import server_case  # noqa: E402
import tap  # noqa: E402
from server_case import BAILEY  # noqa: E402
from test_tree import wait_for  # noqa: E402
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}}


class Tokens(server_case.ServerCase):
    def setUp(self):
        super().setUp()
        self.file = self.dir / "tokens"
        self.status = str(self.dir / "status")
        self.ann, self.bob = self.add("ann"), self.add("bob")
        said = self.start("--http", "127.0.0.1:0", "--tokens", str(self.file), "--status", self.status)
        self.port = int(said.split("127.0.0.1:")[1].split("/")[0])

    def stop(self):
        self.server.terminate()
        self.assertEqual(self.server.wait(5), 0)
        self.server.stdout.close()

    def add(self, name):
        done = subprocess.run([BAILEY, "token", "add", name, "--tokens", str(self.file)], capture_output=True, text=True,
                              check=True, timeout=10, cwd="/", **self.as_user)
        return done.stdout.strip()

    def write(self, text):
        # by another name first, as editors do: the server must open the name, not keep a descriptor
        fresh = self.dir / "fresh"
        fresh.write_text(text)
        fresh.chmod(0o600)
        if self.user:
            os.chown(fresh, self.as_user["user"], self.as_user["group"])
        fresh.rename(self.file)

    def count(self, name):
        done = subprocess.run([BAILEY, "status", "--json", "--status", self.status], capture_output=True, text=True, timeout=10)
        return json.loads(done.stdout)["counters"][name]

    def hup(self, counter="tokens_read"):
        before = self.count(counter)
        self.server.send_signal(signal.SIGHUP)
        wait_for(lambda: self.count(counter) == before + 1, 5, (self.dir / "log").read_text())

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.connect()
        self.addCleanup(connection.close)
        return connection

    def ask(self, connection, token):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
        connection.request("POST", "/mcp", body, {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"})
        response = connection.getresponse()
        response.read()
        return response.status

    def is_closed(self, connection):
        connection.sock.settimeout(5)
        try:
            return connection.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def test_added_and_revoked(self):
        of_ann, of_bob = self.connect(), self.connect()
        self.assertEqual(self.ask(of_ann, self.ann), 200)
        self.assertEqual(self.ask(of_bob, self.bob), 200)
        cy = self.add("cy")
        self.assertEqual(self.ask(self.connect(), cy), 401)
        self.hup()
        self.assertEqual(self.ask(self.connect(), cy), 200)
        self.assertEqual(self.ask(of_ann, self.ann), 200)
        self.write("".join(line for line in self.file.read_text().splitlines(True) if not line.startswith("ann ")))
        self.hup()
        self.assertTrue(self.is_closed(of_ann))
        self.assertEqual(self.ask(self.connect(), self.ann), 401)
        self.assertEqual(self.ask(of_bob, self.bob), 200)
        self.assertIsNone(self.server.poll())

    def test_the_last_one_is_revoked_too(self):
        of_ann = self.connect()
        self.assertEqual(self.ask(of_ann, self.ann), 200)
        good = self.file.read_text()
        self.write("# nobody\n")
        self.hup()
        self.assertTrue(self.is_closed(of_ann))
        for token in (self.ann, self.bob):
            self.assertEqual(self.ask(self.connect(), token), 401)
        self.write(good)
        self.hup()
        self.assertEqual(self.ask(self.connect(), self.ann), 200)

    def test_a_file_limit_leaves_no_half_line(self):
        before = self.file.read_bytes()
        size = len(before) + 10
        done = subprocess.run([BAILEY, "token", "add", "cy", "--tokens", str(self.file)], capture_output=True, text=True, timeout=10,
                              cwd="/", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)), **self.as_user)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("File too large", done.stderr)
        self.assertEqual(self.file.read_bytes(), before)

    def test_bad_file_changes_nothing(self):
        of_ann = self.connect()
        self.assertEqual(self.ask(of_ann, self.ann), 200)
        good = self.file.read_text()
        self.write("ann and then no hash\n")
        self.hup("tokens_kept")
        self.assertIn("the tokens stay as they were", (self.dir / "log").read_text())
        self.assertIn("line 1", (self.dir / "log").read_text())
        self.assertEqual(self.ask(of_ann, self.ann), 200)
        self.file.unlink()
        self.hup("tokens_kept")
        self.assertEqual(self.ask(self.connect(), self.bob), 200)
        # a broker that is started again has the tokens that were good last
        self.write(good.replace("bob ", "rob "))
        self.hup()
        children = pathlib.Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text().split()
        broker = next(int(p) for p in children if "broker" in pathlib.Path(f"/proc/{p}/comm").read_text())
        os.kill(broker, signal.SIGKILL)
        wait_for(lambda: self.ask(self.connect(), self.bob) == 200, 5, "no broker")


class AsRoot(server_case.AsRoot, Tokens, unittest.TestCase):
    pass


class AsUser(server_case.AsUser, Tokens, unittest.TestCase):
    pass


if __name__ == "__main__":
    tap.main()
