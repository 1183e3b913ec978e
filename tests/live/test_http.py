#!/usr/bin/env python3
"""Streamable HTTP, live: both eras on one endpoint, tokens, sessions, principals, cancel, and what
a hostile or absent peer may not do; a slow one is in test_http_slow."""

import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox, peak_kib, until  # noqa: E402
from serve import LEGACY, Http, Serve  # noqa: E402
from tree import BUILD  # noqa: E402

INIT = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}


def sleepers(number):
    """pidfds of both processes that sleep for so long; none before there are two."""
    word = f"sleep\0{number}\0".encode()
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and pathlib.Path(entry.path, "cmdline").read_bytes() == word:
                found.append(os.pidfd_open(int(entry.name)))
    if len(found) == 2:
        return found
    for fd in found:
        os.close(fd)
    return []


class Http_(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Serve(http=True, principals=("first", "second"))

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def raw(self, data, seconds=10, half_close=False):
        """What the server answers to these bytes until it closes."""
        with socket.create_connection(("127.0.0.1", self.server.port), seconds) as s:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
            got = b""
            try:
                while True:
                    part = s.recv(65536)
                    if not part:
                        return got
                    got += part
            except (TimeoutError, ConnectionResetError):
                return got

    def head(self, *more, verb="POST", path="/mcp", without=(), version="HTTP/1.1", length=None):
        lines = {"Host": f"127.0.0.1:{self.server.port}", "Content-Type": "application/json",
                 "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self.server.token_for['first']}"}
        for name in without:
            del lines[name]
        text = f"{verb} {path} {version}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
        text += "".join(f"{line}\r\n" for line in more)
        if length is not None:
            text += f"Content-Length: {length}\r\n"
        return (text + "\r\n").encode()

    def status(self, data, **how):
        answer = self.raw(data, **how)
        return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None

    def post(self, *more, body=None, **how):
        data = json.dumps(INIT if body is None else body).encode()
        return self.status(self.head(*more, "Connection: close", length=len(data), **how) + data)


class Serving(Http_):
    def test_both_eras_and_every_kind_of_tool(self):
        for modern in (True, False):
            with self.subTest(modern=modern):
                client = Http(self.server, modern=modern)
                tools = client.request("tools/list")["result"]["tools"]
                self.assertEqual(len(tools), 12)
                r = client.call("execute_code", {"language": "python", "code": "print(6 * 7)"})
                self.assertEqual((r["status"], r["stdout"]), ("ok", "42\n"))
                box = Sandbox(client)
                box.call("container_write_file", path="f", content="by http")
                self.assertEqual(box.run("cat f")["stdout"], "by http")
                self.assertEqual(box.evaluate("python", "open('f').read()")["value"], "'by http'")
                self.assertEqual(box.destroy()["status"], "ok")

    def test_a_sandbox_outlives_its_connection_and_belongs_to_its_principal(self):
        box = Sandbox(Http(self.server))
        again = Http(self.server, modern=False)
        self.assertEqual(again.call("container_exec_command", {"sandbox_id": box.id, "command": "echo mine"})["stdout"], "mine\n")
        other = Http(self.server, "second")
        theirs = other.call("container_exec_command", {"sandbox_id": box.id, "command": "echo theirs"})
        none = other.call("container_exec_command", {"sandbox_id": "0" * 32, "command": "echo theirs"})
        self.assertEqual((theirs["status"], theirs["message"]), (none["status"], none["message"]))
        self.assertEqual(other.call("container_list_sandboxes", {})["sandboxes"], [])
        box.destroy()

    def test_progress_comes_on_the_request_s_own_stream(self):
        for modern in (True, False):
            with self.subTest(modern=modern):
                client = Http(self.server, modern=modern)
                started = client.start("execute_code", {"language": "bash", "code": "for i in 1 2 3; do echo tick$i; sleep 0.3; done"}, token="t")
                self.assertEqual(client.wait(started)["status"], "ok")
                notes = [n for _, n in client.notes.queue if n["method"] == "notifications/progress"]
                self.assertGreaterEqual(len(notes), 2)
                self.assertTrue(all(n["params"]["progressToken"] == "t" for n in notes))

    def test_the_same_ids_of_two_clients_at_once(self):
        def one(i):
            client = Http(self.server, ("first", "second")[i % 2])
            wanted = [f"{i}-{n}\n" for n in range(6)]
            return wanted == [client.call("execute_code", {"language": "bash", "code": f"echo {i}-{n}"})["stdout"] for n in range(6)]

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            self.assertTrue(all(pool.map(one, range(6))))

    def test_cancel(self):
        """Gone within 250 ms, seen from the host."""
        box = Sandbox(Http(self.server))
        for modern in (True, False):
            with self.subTest(modern=modern):
                took = [self.cancelled(box, modern, f"{os.getpid()}.{modern:d}{i}") for i in range(3)]
                self.assertLess(max(took), 0.25, took)
        box.destroy()

    def cancelled(self, box, modern, number):
        """Seconds from the client's word to the death of what its call runs."""
        client = Http(self.server, modern=modern)
        data = client.message("tools/call", {"name": "container_exec_command",
                                             "arguments": {"sandbox_id": box.id, "command": f"setsid sleep {number} & sleep {number}"}}, 77)
        body = json.dumps(data).encode()
        head = "".join(f"{k}: {v}\r\n" for k, v in client.headers("tools/call", "container_exec_command").items())
        s = socket.create_connection(("127.0.0.1", self.server.port), 20)
        s.sendall(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        pidfds = until(lambda: sleepers(number), 5, 0.01)
        measure = pace.Measure()
        if modern:
            s.close()
        else:
            done = client.send(client.message("notifications/cancelled", {"requestId": 77}), client.headers("notifications/cancelled"))
            self.assertEqual(done.status, 202)
        for fd in pidfds:
            self.assertTrue(select.select([fd], [], [], 5)[0])
            os.close(fd)
        took = measure.ours()
        s.close()
        return took

    def test_a_client_that_never_reads_costs_itself_alone(self):
        client = Http(self.server)
        body = json.dumps(client.message("tools/call", {"name": "execute_code", "_meta": {"progressToken": 1},
                                                        "arguments": {"language": "bash", "code": "yes | head -c 60000000", "timeout_seconds": 30}}, 5)).encode()
        head = "".join(f"{k}: {v}\r\n" for k, v in client.headers("tools/call", "execute_code").items())
        stuck = []
        for _ in range(3):
            s = socket.create_connection(("127.0.0.1", self.server.port), 20)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            stuck.append(s)
        times = []
        for _ in range(10):
            began = time.monotonic()
            self.assertEqual(client.call("execute_code", {"language": "bash", "code": "echo x"})["stdout"], "x\n")
            times.append(time.monotonic() - began)
        self.assertLess(sorted(times)[5], 1.5, times)
        for s in stuck:
            s.close()
        for name, pid in self.server.pids():
            self.assertLess(peak_kib(pid), 96 * 1024, name)

    def test_large_messages(self):
        client = Http(self.server)
        r = client.call("execute_code", {"language": "bash", "code": "wc -c", "stdin": "x" * (4 << 20)})
        self.assertEqual(r["stdout"].strip(), str(4 << 20))
        box = Sandbox(client)
        data = base64.b64encode(b"\xff" * (3 << 20)).decode()
        self.assertEqual(box.call("container_write_file", path="b", content=data, encoding="base64")["bytes"], 3 << 20)
        self.assertEqual(box.call("container_read_file", path="b", length=1 << 20, encoding="base64")["bytes"], 1 << 20)
        box.destroy()


class Rules(Http_):
    """Each refusal has its own status, and a good request still passes."""

    def tearDown(self):
        self.assertEqual(self.post(), 200)

    def test_names_of_the_server(self):
        port = self.server.port
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            self.assertEqual(self.post(f"Host: {host}", without=["Host"]), 200, host)
        for host in ("evil.example.com", f"evil.example.com:{port}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example.com:{port}",
                     f"localhost:{port}x", ""):
            self.assertIn(self.post(f"Host: {host}", without=["Host"]), (400, 403), host)
        self.assertEqual(self.post(without=["Host"]), 400)
        self.assertEqual(self.post(f"Host: 127.0.0.1:{port}"), 400)  # twice

    def test_origins(self):
        port = self.server.port
        self.assertEqual(self.post(f"Origin: http://127.0.0.1:{port}"), 200)
        for origin in ("http://evil.example.com", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}.evil.example.com",
                       f"http://127.0.0.1:{port + 1}", "http://127.0.0.1"):
            self.assertEqual(self.post(f"Origin: {origin}"), 403, origin)
            for verb in ("GET", "DELETE"):
                self.assertEqual(self.status(self.head(f"Origin: {origin}", "Connection: close", verb=verb)), 403, (origin, verb))

    def test_tokens(self):
        good = self.server.token_for["first"]
        for value in ("", "Bearer", "Bearer ", f"Bearer {good}x", f"Bearer {good[:-1]}", f"Basic {good}", good, "Bearer " + "0" * 64,
                      "Bearer " + "x" * 4000, f"Bearer {good} {good}"):
            status = self.post(f"Authorization: {value}", without=["Authorization"])
            self.assertEqual(status, 401, value[:60])
        self.assertEqual(self.post(without=["Authorization"]), 401)
        self.assertEqual(self.status(self.head(without=["Authorization"], path=f"/mcp?token={good}", length=0)), 404)
        answer = self.raw(self.head("Connection: close", without=["Authorization"], length=0))
        self.assertIn(b"WWW-Authenticate: Bearer", answer)
        self.assertNotIn(b"resource_metadata", answer)

    def test_one_connection_has_one_principal(self):
        body = json.dumps(INIT).encode()
        first = self.head(length=len(body)) + body
        second = first.replace(self.server.token_for["first"].encode(), self.server.token_for["second"].encode())
        answer = self.raw(first + second)
        self.assertEqual(answer.count(b"HTTP/1.1 "), 2)
        self.assertIn(b"HTTP/1.1 401 ", answer)
        self.assertEqual(self.raw(first + first, seconds=2).count(b"HTTP/1.1 200"), 2)

    def test_sessions(self):
        one = Http(self.server, modern=False)
        self.assertRegex(one.session, r"^[0-9a-f]{48}$")
        self.assertNotEqual(one.session, Http(self.server, modern=False).session)
        other = Http(self.server, "second", modern=False)
        for session in ("0" * 48, "x", one.session + "0", other.session):
            one.session, kept = session, one.session
            stream = one.send(one.message("ping", None, 1), one.headers("ping"))
            self.assertEqual(stream.status, 404, session)
            one.session = kept
        self.assertEqual(one.request("ping")["result"], {})
        self.assertEqual(one.send(None, one.headers("x"), verb="DELETE").status in (200, 204), True)
        self.assertEqual(one.send(one.message("ping", None, 1), one.headers("ping")).status, 404)
        self.assertEqual(other.request("ping")["result"], {})

    def test_modern_headers(self):
        client = Http(self.server)
        body = client.message("tools/call", {"name": "check_sandbox_health", "arguments": {}}, 1)
        good = client.headers("tools/call", "check_sandbox_health")
        self.assertEqual(client.send(body, good).status, 200)
        for change in ({"Mcp-Method": "tools/list"}, {"Mcp-Method": None}, {"Mcp-Name": "execute_code"}, {"Mcp-Name": None},
                       {"MCP-Protocol-Version": LEGACY}, {"Mcp-Name": "=?base64?!!?="}):
            headers = {k: v for k, v in {**good, **change}.items() if v is not None}
            stream = client.send(body, headers)
            answer = list(stream.messages())
            self.assertEqual((stream.status, answer[-1]["error"]["code"]), (400, -32020), change)
        coded = "=?base64?" + base64.b64encode(b"check_sandbox_health").decode() + "?="
        self.assertEqual(client.send(body, {**good, "Mcp-Name": coded}).status, 200)
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
        stream = client.send(body, {**good, "MCP-Protocol-Version": "2099-01-01"})
        self.assertEqual((stream.status, list(stream.messages())[-1]["error"]["code"]), (400, -32022))
        stream = client.send(client.message("no/such", {}, 2), client.headers("no/such"))
        self.assertEqual((stream.status, list(stream.messages())[-1]["error"]["code"]), (404, -32601))

    def test_paths_and_methods(self):
        for path in ("/", "/mcp/", "/MCP", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/register", "/sse"):
            answer = self.raw(self.head("Connection: close", path=path, length=0))
            self.assertIn(b"HTTP/1.1 404 ", answer, path)
            self.assertIn(b"application/json", answer, path)
            json.loads(answer.split(b"\r\n\r\n", 1)[1])
        self.assertEqual(self.status(self.head("Connection: close", verb="GET")), 405)
        for verb in ("PUT", "PATCH", "HEAD", "TRACE", "CONNECT", "BREW"):
            self.assertIn(self.status(self.head("Connection: close", verb=verb, length=0)), (400, 405, 501), verb)

    def test_types(self):
        for kind in ("text/plain", "application/jsonx", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            self.assertEqual(self.post(f"Content-Type: {kind}", without=["Content-Type"]), 415, kind)
        self.assertEqual(self.post("Content-Type: application/json; charset=utf-8", without=["Content-Type"]), 200)
        self.assertEqual(self.post("Accept: text/html", without=["Accept"]), 406)
        self.assertEqual(self.post("Content-Encoding: gzip"), 415)

    def test_framing(self):
        body = json.dumps(INIT).encode()
        n = len(body)
        for name, data in {
            "two lengths": self.head(f"Content-Length: {n}", f"Content-Length: {n}") + body,
            "two that differ": self.head(f"Content-Length: {n}", "Content-Length: 5") + body,
            "length and chunks": self.head(f"Content-Length: {n}", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
            "negative": self.head("Content-Length: -1") + body,
            "plus": self.head(f"Content-Length: +{n}") + body,
            "hex": self.head("Content-Length: 0x10") + body,
            "huge": self.head("Content-Length: 99999999999999999999") + body,
            "list": self.head(f"Content-Length: {n}, {n}") + body,
            "bare LF": self.head(length=n).replace(b"\r\n", b"\n") + body,
            "space before colon": self.head("X-A : b", length=n) + body,
            "folded": self.head("X-A: b", " c", length=n) + body,
            "no name": self.head(": b", length=n) + body,
            "NUL": self.head("X-A: \0", length=n) + body,
            "lone CR": self.head("X-A: a\rb", length=n) + body,
            "two tokens": self.head(f"Authorization: Bearer {self.server.token_for['second']}", length=n) + body,
            "chunk size": self.head("Transfer-Encoding: chunked") + b"zz\r\n" + body,
            "chunk overflow": self.head("Transfer-Encoding: chunked") + b"fffffffffffffffff\r\n" + body,
            "no version": self.head(version="", length=n) + body,
            "old": self.head(version="HTTP/0.9", length=n) + body,
            "next": self.head(version="HTTP/2.0", length=n) + body,
            "garbage": b"\x16\x03\x01\x02\x00\x01\x00" + b"x" * 64 + b"\r\n\r\n",
            "no host of its own": b"GET http://evil.example.com/ HTTP/1.1\r\n\r\n",
        }.items():
            with self.subTest(kind=name):
                answer = self.raw(data)
                self.assertRegex(answer, rb"^HTTP/1.1 (4\d\d|505) ")
                self.assertEqual(len(re.findall(rb"HTTP/1.1 \d", answer)), 1, answer)

    def test_sizes(self):
        self.assertEqual(self.status(self.head(f"X-A: {'x' * 70000}", length=0)), 431)
        self.assertEqual(self.status(self.head(*[f"X-{i}: y" for i in range(3000)], length=0)), 431)
        self.assertIn(self.status(self.head(path="/" + "x" * 20000, length=0)), (414, 431))
        self.assertEqual(self.status(self.head(length=9 << 20) + b"x" * 1000), 413)

    def test_bodies(self):
        for body, code in ((b"{", -32700), (b"", None), (b"[]", -32600), (b"[1]", -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', None), (b"\xff\xfe", -32700)):
            answer = self.raw(self.head("Connection: close", length=len(body)) + body)
            self.assertIn(b"HTTP/1.1 400 ", answer, body)
            if code is not None:
                self.assertEqual(json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["code"], code, body)


class Peers(unittest.TestCase):
    """Peers that are slow, many or gone; a server of its own, because they fill it."""

    def test_a_thousand_connections_that_say_nothing(self):
        with Serve(http=True) as server:
            client = Http(server)
            self.assertEqual(client.call("check_sandbox_health", {})["status"], "ok")
            many = []
            try:
                for _ in range(1000):
                    s = socket.socket()
                    s.settimeout(5)
                    try:
                        s.connect(("127.0.0.1", server.port))
                    except OSError:
                        s.close()
                        break
                    many.append(s)
                measure = pace.Measure()
                began = time.monotonic()
                answer = None
                while answer is None and time.monotonic() - began < 20:
                    try:
                        answer = client.call("execute_code", {"language": "bash", "code": "echo x"})
                    except (OSError, AssertionError, ValueError):
                        time.sleep(0.5)
                self.assertEqual(answer["stdout"], "x\n")
                self.assertLess(measure.ours(), 15, measure)
            finally:
                for s in many:
                    s.close()
            until(lambda: len(server.pids()) < 16, 20)
            self.assertEqual(client.call("execute_code", {"language": "bash", "code": "echo x"})["stdout"], "x\n")

    def test_a_killed_frontend_ends_its_connection_alone(self):
        with Serve(http=True) as server:
            client = Http(server)
            box = Sandbox(client)
            started = client.start("container_exec_command", {"sandbox_id": box.id, "command": "echo begun; sleep 30"}, token="t")
            self.assertIn("begun", json.dumps(client.notes.get(timeout=10)[1]))  # a frontend of an older connection may still be there
            for name, pid in server.pids():
                if "front" in name:
                    os.kill(pid, signal.SIGKILL)
            started[0].join(10)
            self.assertEqual(started[1], [])
            self.assertEqual(box.run("echo still")["stdout"], "still\n")

    def test_a_bind_that_others_could_reach_is_refused(self):
        with Serve(http=True) as server:
            for where in ("0.0.0.0:0", "[::]:8080", "192.0.2.1:8080"):
                done = subprocess.run([str(BUILD / "bin/bailey"), "serve", "--http", where, "--tokens", str(server.tokens)],
                                      capture_output=True, timeout=20, check=False)
                self.assertNotEqual(done.returncode, 0, where)
                self.assertIn("loopback", done.stderr.decode())
            server.tokens.chmod(0o644)
            done = subprocess.run([str(BUILD / "bin/bailey"), "serve", "--http", "127.0.0.1:1", "--tokens", str(server.tokens)],
                                  capture_output=True, timeout=20, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("600", done.stderr.decode())


if __name__ == "__main__":
    tap.main()
