#!/usr/bin/env python3
"""`bailey status` and the programs as they are: who may ask, what a killed broker and reaper leave in
it, the engine that is not there, and wrong sockets. Once as root, once as a plain user. No engine is
needed. About 6 s."""

import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import server_case  # noqa: E402
import pace  # noqa: E402
import tap  # noqa: E402
from server_case import BAILEY  # noqa: E402
from test_tree import wait_for  # noqa: E402


class Status(server_case.ServerCase):
    def setUp(self):
        super().setUp()
        self.socket = str(self.dir / "mcp.sock")

    def serve(self, *words):
        said = self.start(*(words or ("--socket", self.socket)))
        self.assertIn("listening", said, (self.dir / "log").read_text())

    def stop(self):
        if self.server.poll() is None:
            self.server.terminate()
            self.server.wait(5)
        self.server.stdout.close()

    def ask(self, *words, **popen):
        return subprocess.run([BAILEY, "status", *(words or ("--socket", self.socket))], capture_output=True, text=True,
                              timeout=30, cwd="/", **popen)

    def document(self, **words):
        done = self.ask("--json", "--socket", self.socket, **words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def process(self, name):
        return next(p for p in self.document()["processes"] if p["name"] == name)

    def until(self, name, restarts):
        return wait_for(lambda: (p := self.process(name))["restarts"] == restarts and p["answered"] and p, 30, name)

    def test_killed_broker_and_reaper(self):
        self.serve()
        first = self.until("bailey-broker", 0)
        self.assertIsNone(first["last_end"])
        killed = time.monotonic()
        os.kill(first["pid"], signal.SIGKILL)
        again = self.until("bailey-broker", 1)
        self.assertEqual(again["last_end"]["text"], "signal 9")
        self.assertLessEqual(again["last_end"]["ago_ms"], (time.monotonic() - killed) * 1000 + 1)
        self.assertNotEqual(again["pid"], first["pid"])
        os.kill(self.process("bailey-reaper")["pid"], signal.SIGKILL)
        self.assertEqual(self.until("bailey-reaper", 1)["last_end"]["text"], "signal 9")
        counters = self.document()["counters"]
        self.assertEqual((counters["broker_restarts"], counters["reaper_restarts"]), (1, 1))
        self.assertGreaterEqual(counters["rewirings"], 2)
        text = self.ask().stdout
        self.assertIn("last end: signal 9", text)
        self.assertIn("event=child_ended process=bailey-reaper ", json.dumps(self.process("baileyd")) + text)

    def test_stopped_reaper_is_named(self):
        self.serve()
        reaper = self.until("bailey-reaper", 0)
        os.kill(reaper["pid"], signal.SIGSTOP)
        with pace.within(self, 3, "a status without the reaper's"):
            text = self.ask().stdout
        self.assertIn("DOES NOT ANSWER", text)
        os.kill(reaper["pid"], signal.SIGCONT)
        self.assertTrue(self.process("bailey-reaper")["answered"])

    def test_engine_that_is_not_there(self):
        self.serve()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.socket)
            meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "execute_code", "arguments": {"language": "bash", "code": ":"}, "_meta": meta}}
            client.settimeout(10)
            client.sendall(json.dumps(call).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                answer += client.recv(65536)
            self.assertIn(b"engine_unavailable", answer)
            document = self.document()
            self.assertEqual(document["connections"]["open"], 1)
            self.assertEqual(document["engine"]["state"], "unusable")
            self.assertIn("engine cannot be used", document["engine"]["last_error"]["text"])
            # what was counted stays when the broker is gone
            count = document["counters"]
            self.assertGreaterEqual(count["engine_errors"], 1)
            self.assertEqual(count["runs_engine_unavailable"], 1)
            os.kill(self.process("bailey-broker")["pid"], signal.SIGKILL)
            self.until("bailey-broker", 1)
            after = self.document()["counters"]
            for name, value in count.items():
                self.assertGreaterEqual(after[name], value, name)

    def test_who_may_ask(self):
        self.serve()
        self.until("bailey-broker", 0)
        path = self.socket + ".status"
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        nobody = pwd.getpwnam("nobody").pw_uid
        other = self.ask(user=nobody, group=65534, extra_groups=[])
        self.assertEqual(other.returncode, 1)
        self.assertIn("is not open to this user", other.stderr)
        # and when the file's mode is gone, the kernel's word remains
        os.chmod(path, 0o666)
        other = self.ask("--json", "--socket", self.socket, user=nobody, group=65534, extra_groups=[])
        self.assertEqual((other.returncode, other.stdout), (1, ""))
        self.assertIn("its server is not yours", other.stderr)
        self.assertEqual(self.document()["counters"]["status_refused"], 1)

    def test_wrong_sockets(self):
        gone = self.ask()
        self.assertEqual(gone.returncode, 1)
        self.assertIn("no server runs with that socket", gone.stderr)
        self.serve()
        mcp = self.ask("--status", self.socket)
        self.assertEqual(mcp.returncode, 1)
        self.assertIn("it is no status socket", mcp.stderr)
        self.stop()
        left = self.ask()
        self.assertEqual(left.returncode, 1)
        self.assertIn("left over from a server that has ended", left.stderr)
        self.assertEqual(self.ask("--socket").returncode, 2)
        self.assertEqual(self.ask("--socket", "/" + "x" * 200).returncode, 1)

    def test_a_socket_of_its_own(self):
        path = str(self.dir / "here")
        self.serve("--socket", self.socket, "--status", path)
        self.assertFalse(os.path.exists(self.socket + ".status"))
        self.assertIn("bailey-reaper", self.ask("--status", path).stdout)
        second = subprocess.run([BAILEY, "serve", "--socket", self.socket + "2", "--status", path], cwd="/",
                                capture_output=True, text=True, timeout=10, **self.as_user)
        self.assertEqual(second.returncode, 1)
        self.assertIn("--status: a running program serves", second.stderr)

    def test_a_long_path_has_none_beside_it(self):
        path = str(self.dir / ("s" * (104 - len(str(self.dir)))))  # clients can come in, ".status" does not fit
        self.serve("--socket", path)
        self.assertTrue(os.path.exists(path))
        self.assertEqual([name for name in os.listdir(self.dir) if name.endswith(".status")], [])


class AsRoot(server_case.AsRoot, Status, unittest.TestCase):
    pass


class AsUser(server_case.AsUser, Status, unittest.TestCase):
    pass


if __name__ == "__main__":
    tap.main()
