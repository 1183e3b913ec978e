"""A real `bailey mcp` tree and the real engine, for live tests.

    with Tree() as tree:                  # user="name" runs it as that account
        r = tree.run("python", "print(1)")    # structuredContent
        call = tree.start("execute_code", {...}); r = tree.wait(call)

engine.* asks the engine behind DOCKER_HOST about containers by Bailey's label.
"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import pwd
import queue
import re
import signal
import socket
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BAILEY_BUILD") or ROOT / "build" / "dev").resolve()
LABEL = "io.bailey.product=bailey"

KEPT_KB = 66 * 1024  # the memory of kept output: index and blocks, shared with the supervisor


def rss_kb(pid):
    """Resident memory of a process without the kept output, which has a bound of its own."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    kb = {m[1]: int(m[2]) for m in re.finditer(r"^(Rss\w+):\s+(\d+) kB", text, re.M)}
    if kb["RssShmem"] > KEPT_KB:
        raise AssertionError(f"{kb['RssShmem']} kB of shared memory in {pid}")
    return kb["RssAnon"] + kb["RssFile"]


class Engine:
    """The engine's API with this test's own rights."""

    def __init__(self):
        host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        self.path = host.removeprefix("unix://")

    def request(self, method, url, body=None):
        connection = http.client.HTTPConnection("engine", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(60)
        connection.sock.connect(self.path)
        data = None if body is None else json.dumps(body)
        connection.request(method, "/v1.41" + url, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, (json.loads(text) if text[:1] in b"[{" and text else None)

    def boxes(self, instance=None, running=False):
        """Labelled containers; of one tree when instance is given."""
        filters = {"label": [LABEL]}
        if instance:
            filters["label"].append(f"io.bailey.instance={instance}")
        if running:
            filters["status"] = ["running"]
        query = json.dumps(filters).replace('"', "%22").replace(" ", "")
        status, found = self.request("GET", f"/containers/json?all=1&filters={query}")
        assert status == 200, (status, found)
        return found or []


engine = Engine()


class Gone(Exception):
    """The server closed its output."""


class Tree:
    """One `bailey mcp` process and a thread that reads its answers."""

    def __init__(self, user=None, env=None, initialize=True, cwd="/", arguments=(), stderr=None, preexec=None):
        self.user = user
        self.env = dict(os.environ, **(env or {}))
        self.env.pop("BAILEY_TEST_USER", None)
        extra = {}
        if user:
            entry = pwd.getpwnam(user)
            groups = os.getgrouplist(user, entry.pw_gid)
            extra = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}
            self.env["HOME"] = entry.pw_dir
        self.stderr = stderr or open(os.environ.get("BAILEY_TEST_LOG", "/dev/null"), "ab")
        self.process = subprocess.Popen(
            [str(BUILD / "bin" / "bailey"), "mcp", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=self.env,
            cwd=cwd,
            preexec_fn=preexec,
            **extra,
        )
        self.lock = threading.Lock()
        self.next_id = 0
        self.waiting = {}
        self.notes = queue.Queue()
        self.closed = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if initialize:
            self.initialize()

    def initialize(self, version="2025-11-25"):
        result = self.request(
            "initialize",
            {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def _read(self):
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break  # cut off: the server ended while it wrote
            message = json.loads(line)
            if "id" in message and message["id"] in self.waiting:
                self.waiting[message["id"]].put((time.monotonic(), message))
            else:
                self.notes.put((time.monotonic(), message))
        self.closed.set()
        for waiter in list(self.waiting.values()):
            waiter.put((time.monotonic(), None))

    def send_line(self, line):
        with self.lock:
            self.process.stdin.write(line if line.endswith(b"\n") else line + b"\n")
            self.process.stdin.flush()

    def send(self, message):
        self.send_line(json.dumps(message).encode())

    def begin(self, method, params=None):
        """Sends a request; its id."""
        with self.lock:
            self.next_id += 1
            number = self.next_id
            self.waiting[number] = queue.Queue()
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        return number

    def finish(self, number, timeout=60):
        """The whole answer message of a begun request."""
        when, message = self.waiting[number].get(timeout=timeout)
        del self.waiting[number]
        if message is None:
            raise Gone()
        message["_at"] = when
        return message

    def request(self, method, params=None, timeout=60):
        return self.finish(self.begin(method, params), timeout)

    def start(self, tool, arguments, token=None):
        params = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.begin("tools/call", params)

    def wait(self, number, timeout=60):
        """structuredContent of a started call."""
        answer = self.finish(number, timeout)
        assert "result" in answer, answer
        content = answer["result"].get("structuredContent")
        if content is None:  # an argument was refused: there is no run to tell of
            assert answer["result"]["isError"], answer
            text = answer["result"]["content"][0]["text"]
            return {"status": None, "message": text, "_isError": True, "_at": answer["_at"]}
        assert json.loads(answer["result"]["content"][0]["text"]) == content
        content["_isError"] = answer["result"].get("isError", False)
        content["_at"] = answer["_at"]
        return content

    def call(self, tool, arguments, timeout=60):
        return self.wait(self.start(tool, arguments), timeout)

    def run(self, language, code, timeout=60, **arguments):
        return self.call("execute_code", {"language": language, "code": code, **arguments}, timeout)

    def command(self, command, timeout=60, **arguments):
        return self.call("execute_sandboxed_command", {"command": command, **arguments}, timeout)

    def health(self):
        return self.call("check_sandbox_health", {})

    def wait_ready(self, box_class="python", seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pool = {row["box_class"]: row for row in self.health()["pool"]}
            row = pool[box_class]
            if row["target"] >= 1 and row["ready"] >= row["target"]:
                return
            time.sleep(0.1)
        raise AssertionError(f"the {box_class} pool did not fill")

    def pids(self):
        """{program name: pid} of the supervisor and its children."""
        found = {"baileyd": self.process.pid}
        me = self.process.pid
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as children:
            for word in children.read().split():
                try:
                    with open(f"/proc/{word}/comm", encoding="ascii") as comm:
                        found[comm.read().strip()] = int(word)
                except FileNotFoundError:
                    continue
        return found

    def kill(self, program, seconds=8):
        """kill -9 of one process of the tree by its (possibly cut) name; its pid.

        Waits for it to be there: the frontend answers before the others are started, and a
        restart takes its backoff.
        """
        end = time.monotonic() + seconds
        while True:
            pids = self.pids()
            for name, pid in pids.items():
                if name == program or name == program[:15]:
                    os.kill(pid, signal.SIGKILL)
                    return pid
            if time.monotonic() >= end:
                raise AssertionError(f"no {program} in {pids}")
            time.sleep(0.01)

    def kill_all(self):
        pids = list(self.pids().values())
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(10)
        return pids

    def instance(self):
        """This tree's label value, from any box that names its supervisor."""
        for box in engine.boxes():
            if box["Labels"].get("io.bailey.tree-pid") == str(self.process.pid):
                return box["Labels"]["io.bailey.instance"]
        return None

    def boxes(self, running=False):
        return [
            box
            for box in engine.boxes(running=running)
            if box["Labels"].get("io.bailey.tree-pid") == str(self.process.pid)
        ]

    def close(self, timeout=10):
        """EOF, as a client that ends; the exit code."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        return self.process.wait(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            try:
                self.close()
            except subprocess.TimeoutExpired:
                self.kill_all()
                raise
        self.stderr.close()


def gone_within(pid, seconds):
    """True when no process has that pid any more (zombies of other parents count as gone)."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def no_boxes_within(tree_pid, seconds, running=True):
    """True when the engine shows no (running) box of that tree."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        boxes = engine.boxes(running=running)
        if not any(b["Labels"].get("io.bailey.tree-pid") == str(tree_pid) for b in boxes):
            return True
        time.sleep(0.1)
    return False


def users():
    """Accounts the live tests run as: root itself and, where given, the plain user."""
    plain = os.environ.get("BAILEY_TEST_USER")
    return [None, plain] if plain and os.geteuid() == 0 else [None]


def for_users(test, body):
    """body(user) for every account at the same time; each is a subTest of its own."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        started = [(user, pool.submit(body, user)) for user in users()]
        for user, future in started:
            with test.subTest(user=user or "self"):
                future.result()
