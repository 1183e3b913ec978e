"""Drives the real bailey-frontend over HTTP: one rig is one TCP connection, its supervisor and its
broker. Token and session questions are answered by the rig itself; TOKENS and the sessions are
shared by all rigs of a test program, as the broker's are.

    with HttpRig() as rig:
        session = rig.initialize()
        answer = rig.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, session=session)
        answer.status, answer.json
"""

import json
import secrets
import select
import socket
import time

import ipcrows
from frontend_rig import ENVELOPE, Gone, Rig, WAIT

TOKEN = "good-token"
TOKENS = {TOKEN: "alice", "other-token": "bob"}
PORT = 8080
HOSTS = f"127.0.0.1:{PORT},localhost:{PORT}"
ORIGINS = f"http://127.0.0.1:{PORT},http://localhost:{PORT}"
MODERN = "2026-07-28"
ANSWERED = ("token_check", "session_open", "session_check")
sessions = {}  # id -> (principal, rev)


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return mine, theirs


class Answer:
    """One HTTP answer: status, headers (lower case), body; events of a stream."""

    def __init__(self, status, headers):
        self.status, self.headers, self.body, self.events = status, headers, b"", []

    @property
    def json(self):
        """The body, or the last event."""
        return self.events[-1] if self.events else json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]["code"]


def header_lines(headers):
    return b"".join(f"{k}: {v}\r\n".encode() for k, v in headers)


class HttpRig(Rig):
    answers_itself = True

    def __init__(self, configure=True, hosts=HOSTS, origins=ORIGINS, **more):
        self.sock, theirs = tcp_pair()
        self.hosts, self.origins = hosts, origins
        self.input = b""
        self.over = False
        self.rows = []
        self.principal = None
        fd = theirs.detach()
        super().__init__(configure=configure, stdin=fd, stdout=socket.dup(fd), **more)

    def connect(self):
        self._supervise("client", kind=3, hosts=self.hosts, origins=self.origins)

    # ---- the broker ----

    def _answer(self, name, row):
        if name == "token_check":
            principal = TOKENS.get(row["token"].decode())
            ok = principal is not None and self.principal in (None, principal)
            if ok:
                self.principal = principal
            self.tell("auth_end", call=row["call"], ok=int(ok), principal=principal or "")
            return
        if name == "session_open":
            session = secrets.token_hex(24)
            sessions[session] = (self.principal, row["rev"])
        else:
            session = row["session"]
        principal, rev = sessions.get(session, (None, 0))
        ok = principal is not None and principal == self.principal
        if ok and row.get("close"):
            del sessions[session]
            ok = False
        self.tell("session_row", call=row["call"], ok=int(ok), session=session if ok else "",
                  rev=rev if ok else 0)

    def _take_row(self):
        packet = self.broker.recv(1 << 17)
        if not packet:
            raise Gone()
        name, row = ipcrows.decode(packet)
        if self.answers_itself and name in ANSWERED:
            self._answer(name, row)
        else:
            self.rows.append((name, row))

    def broker_row(self, *names, timeout=WAIT):
        end = time.monotonic() + timeout
        while True:
            while self.rows:
                name, row = self.rows.pop(0)
                if not names or name in names:
                    return name, row
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.broker], [], [], left)[0]:
                raise TimeoutError("no row from the frontend")
            self._take_row()

    def broker_silent(self, seconds=0.2):
        if select.select([self.broker], [], [], seconds)[0]:
            self._take_row()
        return not self.rows

    def new_broker(self):
        super().new_broker()
        self.principal = None

    # ---- the client ----

    def send_raw(self, data):
        self.sock.sendall(data)

    def _more(self, end):
        """More of the input; the broker's questions are answered meanwhile."""
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer from the frontend")
            ready = select.select([self.sock, self.broker], [], [], left)[0]
            if self.broker in ready and self.sock not in ready:
                self._take_row()
            if self.sock in ready:
                try:
                    data = self.sock.recv(1 << 20)
                except ConnectionResetError:
                    data = b""
                if not data:
                    self.over = True
                    raise Gone()
                self.input += data
                return

    def _until(self, mark, end):
        while mark not in self.input:
            self._more(end)
        part, self.input = self.input.split(mark, 1)
        return part

    def _exactly(self, n, end):
        while len(self.input) < n:
            self._more(end)
        part, self.input = self.input[:n], self.input[n:]
        return part

    def head(self, timeout=WAIT):
        lines = self._until(b"\r\n\r\n", time.monotonic() + timeout).decode().split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1", lines[0]
        return Answer(int(status), {k.lower(): v.strip() for k, v in
                                    (line.split(":", 1) for line in lines[1:])})

    def event(self, answer, timeout=WAIT):
        """The next event of a stream: its message, "" for a comment, None at the end."""
        end = time.monotonic() + timeout
        size = int(self._until(b"\r\n", end), 16)
        chunk = self._exactly(size, end)
        assert self._exactly(2, end) == b"\r\n"
        if size == 0:
            return None
        if chunk == b":\n\n":
            return ""
        kind, data, blank, rest = chunk.decode().split("\n")
        assert (kind, blank, rest) == ("event: message", "", ""), chunk
        assert data.startswith("data: "), chunk
        answer.events.append(json.loads(data[6:]))
        return answer.events[-1]

    def answer(self, timeout=WAIT):
        """One whole answer."""
        answer = self.head(timeout)
        if answer.headers.get("content-type") == "text/event-stream":
            while self.event(answer, timeout) is not None:
                pass
        else:
            answer.body = self._exactly(int(answer.headers["content-length"]),
                                        time.monotonic() + timeout)
        return answer

    def closed(self, timeout=WAIT):
        """The frontend ended the connection, and sent nothing more."""
        try:
            self._more(time.monotonic() + timeout)
        except Gone:
            return not self.input
        except TimeoutError:
            return False
        return False

    def quiet(self, seconds=0.2):
        try:
            self._more(time.monotonic() + seconds)
        except TimeoutError:
            return not self.input
        except Gone:
            return False
        return False

    def raw_head(self, method="POST", target="/mcp", token=TOKEN, session=None, version=None,
                 length=None, headers=(), drop=()):
        lines = [("Host", f"127.0.0.1:{PORT}"), ("Content-Type", "application/json"),
                 ("Accept", "application/json, text/event-stream")]
        if token is not None:
            lines.append(("Authorization", f"Bearer {token}"))
        if session is not None:
            lines.append(("Mcp-Session-Id", session))
        if version is not None:
            lines.append(("MCP-Protocol-Version", version))
        if length is not None:
            lines.append(("Content-Length", length))
        given = {k.lower() for k, _ in headers} | {k.lower() for k in drop}
        lines = [(k, v) for k, v in lines if k.lower() not in given] + list(headers)
        return f"{method} {target} HTTP/1.1\r\n".encode() + header_lines(lines) + b"\r\n"

    def begin(self, message, **head):
        """Sends a request; its answer is not awaited."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.send_raw(self.raw_head(length=len(body), **head) + body)

    def post(self, message, timeout=WAIT, **head):
        self.begin(message, **head)
        return self.answer(timeout)

    def begin_modern(self, method, params=None, id=1, headers=(), **head):
        params = dict(params or {})
        params["_meta"] = dict(ENVELOPE, **params.get("_meta", {}))
        lines = [("Mcp-Method", method)]
        name = params.get("uri" if method == "resources/read" else "name")
        if name is not None:
            lines.append(("Mcp-Name", name))
        given = {k.lower() for k, _ in headers}
        lines = [(k, v) for k, v in lines if k.lower() not in given] + list(headers)
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.begin(message, headers=lines, **dict({"version": MODERN}, **head))

    def post_modern(self, method, params=None, timeout=WAIT, **more):
        self.begin_modern(method, params, **more)
        return self.answer(timeout)

    def initialize(self, revision="2025-11-25", id=0, **head):
        """Opens a session; its id."""
        answer = self.post({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}, **head)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.headers["mcp-session-id"]

    def close(self):
        self.sock.close()
        super().close()
