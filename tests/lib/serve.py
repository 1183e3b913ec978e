"""`bailey serve` as a test starts it, and clients that speak to it.

    with Serve(http=True, principals=("alice", "bob")) as server:      # Serve(): a unix socket
        client = Http(server, "alice")        # call(), start(), wait() as a Tree has them
"""

import http.client
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from tree import BUILD

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Serve:
    """One `bailey serve` tree."""

    def __init__(self, http=False, socket_too=False, env=None, arguments=(), conformance=False, principals=("first",)):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="bailey-serve."))
        self.dir.chmod(0o755)
        self.tokens = self.dir / "tokens"
        self.port = free_port() if http else None
        self.path = self.dir / "mcp.sock" if socket_too or not http else None
        self.bailey = str(BUILD / ("conformance/bin" if conformance else "bin") / "bailey")
        self.command = [self.bailey, "serve", *arguments]
        if http:
            self.token_for = {name: self.token(name) for name in principals}
            self.command += ["--http", f"127.0.0.1:{self.port}", "--tokens", str(self.tokens)]
        if self.path:
            self.command += ["--socket", str(self.path)]
        self.stderr = open(os.environ.get("BAILEY_TEST_LOG", self.dir / "log"), "ab")
        self.env = {**os.environ, **(env or {})}
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.stderr, stderr=self.stderr, env=self.env)
        self.wait_listening()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def token(self, principal):
        """A new token of a principal, put into the token file."""
        done = subprocess.run([self.bailey, "token", "add", principal, "--tokens", str(self.tokens)],
                              capture_output=True, text=True, check=True, timeout=20)
        return done.stdout.strip().splitlines()[-1].strip()

    def wait_listening(self, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                if self.path:
                    with socket.socket(socket.AF_UNIX) as probe:
                        probe.connect(str(self.path))
                if self.port:
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"{self.command} does not listen: {self.log()}")

    def log(self):
        try:
            return (self.dir / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
        except OSError:
            return ""

    def pids(self):
        """[(program, pid)] of the supervisor and its children."""
        found = [("baileyd", self.process.pid)]
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
            for word in children.read().split():
                try:
                    with open(f"/proc/{word}/comm", encoding="ascii") as comm:
                        found.append((comm.read().strip(), int(word)))
                except (FileNotFoundError, ProcessLookupError):
                    continue
        return found

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                raise
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        try:
            self.close()
        finally:
            self.stderr.close()
            shutil.rmtree(self.dir, ignore_errors=True)


class Stream:
    """The answer to one POST, read as it comes: JSON, or server-sent events."""

    def __init__(self, connection):
        self.connection = connection
        self.response = connection.getresponse()
        self.status = self.response.status
        self.headers = self.response.headers
        self.type = self.headers.get("Content-Type", "").split(";")[0]

    def messages(self):
        if self.type == "text/event-stream":
            data = []
            for line in self.response:
                line = line.decode().rstrip("\r\n")
                if line.startswith("data:"):
                    data.append(line[5:].lstrip(" "))
                elif line == "" and data:
                    text = "\n".join(data)
                    data = []
                    if text:
                        yield json.loads(text)
        else:
            body = self.response.read()
            if body:
                yield json.loads(body)

    def close(self):
        """Closes the connection whatever is still to come."""
        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Http:
    """A client of one principal; each of its requests has a connection of its own."""

    def __init__(self, server, principal="first", modern=True, initialize=True, revision=LEGACY):
        self.server = server
        self.token = server.token_for[principal]
        self.modern = modern
        self.revision = MODERN if modern else revision
        self.session = None
        self.lock = threading.Lock()
        self.next_id = 0
        self.notes = queue.Queue()
        if not modern and initialize:
            self.initialize()

    def headers(self, method, name=None):
        h = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
             "Authorization": f"Bearer {self.token}"}
        if self.modern:
            h |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            if name is not None:
                h["Mcp-Name"] = name
        elif self.session:
            h |= {"MCP-Protocol-Version": self.revision, "Mcp-Session-Id": self.session}
        return h

    def message(self, method, params=None, number=None):
        params = dict(params or {})
        if self.modern:
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
                               "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}, **params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        return body if number is None else {**body, "id": number}

    def send(self, body, headers, verb="POST", path="/mcp", timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=timeout)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(verb, path, data, headers)
        return Stream(connection)

    def open(self, method, params=None, timeout=60):
        """A request on its way: its number and its stream."""
        with self.lock:
            self.next_id += 1
            number = self.next_id
        name = (params or {}).get("uri" if method == "resources/read" else "name")
        stream = self.send(self.message(method, params, number), self.headers(method, name), timeout=timeout)
        return number, stream

    def request(self, method, params=None, timeout=60):
        number, stream = self.open(method, params, timeout)
        answer = None
        for message in stream.messages():
            if message.get("id") == number:
                answer = message
            else:
                self.notes.put((time.monotonic(), message))
        stream.connection.close()
        assert answer is not None, (stream.status, method)
        answer["_status"] = stream.status
        answer["_at"] = time.monotonic()
        return answer

    def initialize(self):
        number, stream = self.open("initialize", {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        answer = list(stream.messages())[-1]
        assert answer["id"] == number and "result" in answer, answer
        self.session = stream.headers.get("Mcp-Session-Id")
        stream.connection.close()
        done = self.send(self.message("notifications/initialized"), self.headers("notifications/initialized"))
        assert done.status == 202, done.status
        return answer["result"]

    def start(self, tool, arguments, token=None):
        params = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        holder = []

        def ask():
            try:
                holder.append(self.request("tools/call", params, 120))
            except (OSError, http.client.HTTPException):
                pass  # no answer, or a part of one: wait() tells

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        return thread, holder

    def wait(self, started, timeout=60):
        thread, holder = started
        thread.join(timeout)
        assert holder, "no answer"
        return structured(holder[0])

    def call(self, tool, arguments, timeout=60):
        return structured(self.request("tools/call", {"name": tool, "arguments": arguments}, timeout))


def structured(answer):
    """structuredContent of a tool's answer, as Tree.wait gives it."""
    assert "result" in answer, answer
    result = answer["result"]
    content = result.get("structuredContent")
    if content is None:
        assert result["isError"], answer
        return {"status": None, "message": result["content"][0]["text"], "_isError": True}
    return {**content, "_isError": result.get("isError", False), "_at": answer.get("_at")}
