"""Drives the real bailey-frontend: the test is its client, its supervisor and its broker.

    with Rig() as rig:
        rig.initialize("2025-11-25")
        rig.call("execute_code", {"language": "bash", "code": "echo hi"}, id=1)
        name, row = rig.broker_row()          # call_submit
        rig.grant(row["call"])
        …
        rig.message(id=1)

kind says what the client's ends are: "pipe", "socket" (a socket pair a side), or "file".
"""

import fcntl
import json
import os
import select
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ipcrows  # noqa: E402

BUILD = os.environ.get("BAILEY_BUILD", "build/dev")
PROGRAM = os.path.join(BUILD, "bin", "bailey-frontend")
WAIT = 10.0
# A confined process cannot look into itself for leaks; without a sanitizer it means nothing.
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0"}
ENVIRONMENT.update((k, v) for k, v in os.environ.items() if k in ("GLIBC_TUNABLES", "MALLOC_PERTURB_"))
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}


def _high(fd):
    """Out of the way of the fixed numbers 0..4."""
    new = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 60)
    os.close(fd)
    return new


def seqpacket():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for s in (a, b):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return a, b


class Gone(Exception):
    """The frontend closed its output."""


class Rig:
    def __init__(self, kind="pipe", configure=True, stdin=None, stdout=None, env=None):
        self.buffer = b""
        self.pending = []
        self.early = {}
        self.supervisor, sup = seqpacket()
        self.broker, brk = seqpacket()
        if kind == "socket":
            mine_in, theirs_in = socket.socketpair()
            mine_out, theirs_out = socket.socketpair()
            self.to, theirs_in = mine_in.detach(), theirs_in.detach()
            self.out, theirs_out = mine_out.detach(), theirs_out.detach()
        else:
            theirs_in, self.to = os.pipe()
            self.out, theirs_out = os.pipe()
        if stdin is not None:
            os.close(theirs_in)
            theirs_in = stdin
        if stdout is not None:
            os.close(theirs_out)
            theirs_out = stdout
        self.log, theirs_log = os.pipe()
        theirs = [_high(fd) for fd in (theirs_in, theirs_out, theirs_log, sup.detach(),
                                       brk.detach())]
        actions = [(os.POSIX_SPAWN_DUP2, fd, i) for i, fd in enumerate(theirs)]
        self.pid = os.posix_spawn(PROGRAM, [PROGRAM, f"parent={os.getpid()}"],
                                  dict(ENVIRONMENT, **(env or {})), file_actions=actions)
        for fd in theirs:
            os.close(fd)
        self.status = None
        name, self.ready = self.supervisor_row()
        assert name == "ready", name
        self.connect()
        if configure:
            self.configure()

    def connect(self):
        """How the client is connected; the frontend reads from now on."""
        self._supervise("client", kind=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- the client ----

    def send_bytes(self, data):
        view = memoryview(data)
        end = time.monotonic() + WAIT
        os.set_blocking(self.to, False)
        while view:
            try:
                view = view[os.write(self.to, view):]
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError("the frontend does not read") from None
                select.select([], [self.to], [], 0.1)

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def request(self, method, params=None, id=1, modern=False, **extra):
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if modern:
            params = dict(params or {})
            params["_meta"] = dict(ENVELOPE, **params.get("_meta", {}))
        if params is not None:
            message["params"] = params
        message.update(extra)
        self.send(message)

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def call(self, tool, arguments, id=1, token=None, modern=False):
        params = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        self.request("tools/call", params, id=id, modern=modern)

    def line(self, timeout=WAIT):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.out], [], [], left)[0]:
                raise TimeoutError("no line from the frontend")
            try:
                data = os.read(self.out, 1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Gone()
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def any_message(self, timeout=WAIT):
        if self.pending:
            return self.pending.pop(0)
        return json.loads(self.line(timeout))

    def message(self, id=None, timeout=WAIT):
        """The answer with this id; other messages stay for later."""
        for i, m in enumerate(self.pending):
            if isinstance(m, dict) and m.get("id") == id and "method" not in m:
                return self.pending.pop(i)
        end = time.monotonic() + timeout
        while True:
            m = json.loads(self.line(max(0.0, end - time.monotonic())))
            if isinstance(m, dict) and m.get("id") == id and "method" not in m:
                return m
            self.pending.append(m)

    def ask(self, method, params=None, id=1, modern=False, **extra):
        self.request(method, params, id, modern, **extra)
        return self.message(id)

    def silent(self, seconds=0.2):
        """Nothing is sent for that long."""
        if self.pending or b"\n" in self.buffer:
            return False
        return not select.select([self.out], [], [], seconds)[0]

    def initialize(self, revision="2025-11-25", id=0):
        answer = self.ask("initialize", {"protocolVersion": revision, "capabilities": {},
                                         "clientInfo": {"name": "test", "version": "1"}}, id=id)
        self.notify("notifications/initialized")
        return answer["result"]

    def close_input(self):
        os.close(self.to)
        self.to = None

    # ---- supervisor and broker ----

    def _row(self, sock, timeout):
        if not select.select([sock], [], [], timeout)[0]:
            raise TimeoutError("no row from the frontend")
        packet = sock.recv(1 << 17)
        if not packet:
            raise Gone()
        return ipcrows.decode(packet)

    def supervisor_row(self, timeout=WAIT):
        return self._row(self.supervisor, timeout)

    def broker_row(self, *names, timeout=WAIT):
        """The next row; with names, others are left out."""
        while True:
            name, row = self._row(self.broker, timeout)
            if not names or name in names:
                return name, row

    def broker_silent(self, seconds=0.2):
        return not select.select([self.broker], [], [], seconds)[0]

    def _supervise(self, name, **values):
        try:
            self.supervisor.send(ipcrows.encode(name, **values))
        except BrokenPipeError:
            pass  # its input was over at once

    def configure(self):
        self._supervise("settings")
        self._supervise("configured")

    def tell(self, name, **values):
        self.broker.send(ipcrows.encode(name, **values))

    def new_broker(self):
        """What the supervisor does after a broker's restart."""
        self.broker, theirs = seqpacket()
        packet = ipcrows.encode("peer", role=4)
        socket.send_fds(self.supervisor, [packet], [theirs.fileno()])
        theirs.close()

    def submitted(self, timeout=WAIT):
        """The next submission; a specification that came with it is kept for spec()."""
        row = self.broker_row("call_submit", timeout=timeout)[1]
        self.early[row["call"]] = row["spec"]
        return row

    def grant(self, call, start=1, timeout_ms=10000, **values):
        figures = {"run_id": "%032x" % call, "queue_ms": 0, "memory_bytes": 512 << 20,
                   "cpus_milli": 1000, "pids": 64, "workspace_bytes": 192 << 20,
                   "tmp_bytes": 64 << 20}
        figures.update(values)
        self.tell("call_granted", call=call, start=start, timeout_ms=timeout_ms, **figures)

    def spec(self, call):
        """The specification: what came with the submission, else its frames."""
        data = self.early.pop(call, b"")
        if data:
            return ipcrows.spec_read(data)
        while True:
            _, row = self.broker_row("call_frame")
            assert row["call"] == call, row
            data += row["data"]
            if row["type"] == ipcrows.GUEST["h_run"]:
                return ipcrows.spec_read(data)
            assert row["type"] == ipcrows.GUEST["h_spec"], row

    def output(self, call, data, stream=1, frame="g_out"):
        for at in range(0, len(data), 32768):
            self.tell("run_frame", call=call, type=ipcrows.GUEST[frame], stream=stream,
                      data=data[at:at + 32768])

    def end(self, call, status="ok", exit_code=0, guest=None, **values):
        payload = b""
        if guest is not None:
            payload = ipcrows.guest_payload("g_exit", **dict({"how": 1, "start": 1}, **guest))
        values.setdefault("duration_us", 3072)
        self.tell("call_ended", call=call, status=ipcrows.STATUS[status], exit_code=exit_code,
                  guest=payload, **values)

    def run(self, tool, arguments, id=1, out=b"", err=b"", status="ok", exit_code=0, **more):
        """A whole call; the answer's result."""
        self.call(tool, arguments, id=id)
        call = self.submitted()["call"]
        self.grant(call)
        self.spec(call)
        self.output(call, out, 1)
        self.output(call, err, 2)
        self.end(call, status, exit_code, guest={"stdout_bytes": len(out),
                                                 "stderr_bytes": len(err)}, **more)
        return self.message(id)["result"]

    # ---- the end ----

    def wait(self, timeout=WAIT):
        """Exit code, negative for a signal."""
        end = time.monotonic() + timeout
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise TimeoutError("the frontend does not end")
            else:
                time.sleep(0.005)
        return self.status

    def wait_alive(self):
        """Still there."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = os.waitstatus_to_exitcode(status)
        return pid == 0

    def _kb(self, path, field):
        with open(f"/proc/{self.pid}/{path}", encoding="ascii") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise LookupError(field)

    def filtered(self):
        """false in sanitizer builds: no filter, and memory figures that are not ours"""
        return self.ready["layers"] & 32 != 0

    def rss_kb(self):
        return self._kb("status", "VmRSS")

    def pss_kb(self):
        return self._kb("smaps_rollup", "Pss")

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                self.wait()
            except ChildProcessError:
                pass
        for fd in (self.to, self.out, self.log):
            if fd is not None:
                os.close(fd)
        self.to = self.out = self.log = None
        self.supervisor.close()
        self.broker.close()


def tool_schemas(rig, modern=True):
    tools = rig.ask("tools/list", id="schemas", modern=modern)["result"]["tools"]
    return {t["name"]: t for t in tools}
