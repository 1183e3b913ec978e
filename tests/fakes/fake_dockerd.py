#!/usr/bin/env python3
"""A scriptable engine on a unix socket: answers the calls the broker makes, well or badly.

In a test:

    with FakeDockerd(path, box="init") as fake:      # path: where the socket shall be
        fake.faults["create"] = ["hang"]               # the next create is never answered
        fake.faults["start"] = ["status:500", None]    # one 500, then one good answer
        fake.always["events"] = "eof"                  # every one
        …
        fake.log            # [(call, method, path)] of everything asked for, in order
        fake.containers     # id -> Container, those not removed

By hand: fake_dockerd.py SOCKET [--box init|echo|silent|-- COMMAND…] [--faults JSON]; it then takes
POST /_fake/faults {"create": ["rst"]} and GET /_fake/log, /_fake/containers on the same socket.

Calls: ping version info image list create inspect start attach update kill remove events other.

Boxes: what a container's process is.
    silent   no process: attach opens, nothing is ever said
    echo     every byte of stdin comes back on stdout
    init     the real guest-init as PID 1 of new namespaces (util-linux unshare), with the host's
             /usr read-only and share/box at /.bailey; can_run_init() says whether that works here
    [words]  any program; BAILEY_FAKE_ID tells it the container

Faults, before the answer:
    hang         never answers (until close())        delay:S     answers after S seconds
    rst, eof     drops the connection                 status:N    that status and a JSON message
    redirect     301 to another place                 notjson     200 and text
Faults of the answer itself (the call is carried out first, as a dying engine would):
    lost         done, but the connection drops       half        the connection drops in the middle
    garbage      bytes that are not HTTP              slow:S      one byte every S seconds
    torn         chunked, cut at odd places: legal    badchunk    a broken chunk size
    headers      endless headers                      huge        endless body
    length       an impossible Content-Length         badjson     JSON cut off
    empty        no body                              types       every value of the wrong type
    deep         a nest of 100000 arrays              nul         a NUL in the JSON
    lie:PATH=JSON  (inspect) changes a value: lie:HostConfig.Privileged=true; repeat with " lie:"
Faults of attach, once it was accepted:
    upgrade      101 to another protocol              upgrade200  the old 200 answer: legal
    body         200 with a Content-Length            noise       no stdcopy frames at all
    type, length a frame of type 9, of 4 GiB          error       the engine's own type 3 frame
    bytewise     one byte at a time: legal            cut:N       drops the connection after N bytes
    mute         reads nothing of stdin               deaf        never shows the box's output
"""

import argparse
import concurrent.futures
import json
import os
import secrets
import signal
import socket
import struct
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_box import IMAGE_ID, Attach, Container, can_run_init, share_dir  # noqa: E402

__all__ = ["FakeDockerd", "can_run_init"]


class Drop(Exception):
    """The connection is to be closed without another word."""


class FakeDockerd:
    def __init__(self, path, box="silent", faults=None, api="1.41", share=None):
        self.path = path
        self.folder = os.path.dirname(os.path.abspath(path))
        self.box = box
        self.api = api
        self.share = share or share_dir()
        self.faults = {key: list(value) for key, value in (faults or {}).items()}
        self.always = {}
        self.images = {"bailey/sandbox:slim", IMAGE_ID}
        self.log = []
        self.containers = {}
        self.listeners = []
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.sockets = set()
        # What it starts dies with the thread that started it: not with a connection's.
        self.starter = concurrent.futures.ThreadPoolExecutor(1)
        if os.path.exists(path):
            os.unlink(path)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        os.chmod(path, 0o660)  # as the real one: the broker comes by the group
        self.server.listen(256)
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """As an engine that dies: connections drop, boxes are killed, the socket goes."""
        self.closing.set()
        self.server.close()
        for container in list(self.containers.values()):
            container.kill()
        self.starter.shutdown(wait=False)
        with self.lock:
            for sock in list(self.sockets):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        if os.path.exists(self.path):
            os.unlink(self.path)

    def calls(self, name=None):
        with self.lock:
            return [entry for entry in self.log if name in (None, entry[0])]

    # ---- connections ----

    def accept(self):
        while not self.closing.is_set():
            try:
                sock, _ = self.server.accept()
            except OSError:
                return
            with self.lock:
                self.sockets.add(sock)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            with sock.makefile("rb") as stream:
                while self.request(sock, stream):
                    pass
        except (OSError, Drop, ValueError):
            pass
        finally:
            with self.lock:
                self.sockets.discard(sock)
            sock.close()

    def request(self, sock, stream):
        line = stream.readline(65537).decode("latin-1").split()
        if len(line) != 3:
            return False
        method, target, _ = line
        headers = {}
        while True:
            text = stream.readline(65537).decode("latin-1").rstrip("\r\n")
            if not text:
                break
            key, _, value = text.partition(":")
            headers[key.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = [part for part in url.path.split("/") if part]
        if parts and parts[0].startswith("v1."):
            parts = parts[1:]
        call = self.name_of(method, parts)
        if call == "fake":
            return self.fake_call(sock, parts, body)
        with self.lock:
            self.log.append((call, method, target))
            queue = self.faults.get(call)
            fault = queue.pop(0) if queue else self.always.get(call)
        self.answer(sock, stream, call, fault or "", parts, query, body)
        return True

    @staticmethod
    def name_of(method, parts):
        if parts[:1] == ["_fake"]:
            return "fake"
        if parts[:1] == ["images"] and parts[-1:] == ["json"] and method == "GET":
            return "image"
        shapes = {("GET", "_ping"): "ping", ("GET", "version"): "version", ("GET", "info"): "info",
                  ("GET", "events"): "events", ("GET", "containers/json"): "list",
                  ("POST", "containers/create"): "create"}
        name = shapes.get((method, "/".join(parts)))
        if name is None and parts[:1] == ["containers"]:
            if len(parts) == 2 and method == "DELETE":
                name = "remove"
            elif len(parts) == 3:
                name = {("GET", "json"): "inspect", ("POST", "start"): "start",
                        ("POST", "attach"): "attach", ("POST", "update"): "update",
                        ("POST", "kill"): "kill"}.get((method, parts[2]))
        return name or "other"

    def fake_call(self, sock, parts, body):
        if parts[1:] == ["faults"]:
            self.faults = json.loads(body)
            reply = {}
        elif parts[1:] == ["log"]:
            reply = self.calls()
        else:
            reply = [c.listed() for c in list(self.containers.values())]
        self.send(sock, 200, json.dumps(reply).encode())
        return True

    # ---- answers ----

    @staticmethod
    def send(sock, status, body, extra=""):
        head = (f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}"
                f"Content-Length: {len(body)}\r\n\r\n")
        if status in (204, 304):
            head = f"HTTP/1.1 {status} X\r\n{extra}\r\n"
        sock.sendall(head.encode() + body)

    def error(self, sock, status, message):
        self.send(sock, status, json.dumps({"message": message}).encode())

    def answer(self, sock, stream, call, fault, parts, query, body):
        word, _, value = fault.partition(":")
        if word == "hang":
            self.closing.wait()
            raise Drop
        if word == "delay":
            self.closing.wait(float(value))
            word = ""
        if word == "rst":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise Drop
        if word == "eof":
            raise Drop
        if word == "status":
            self.error(sock, int(value), f"scripted answer {value}")
            return
        if word == "redirect":
            self.send(sock, 301, b"", "Location: http://127.0.0.1:1/\r\n")
            return
        if word == "notjson":
            self.send(sock, 201 if call == "create" else 200, b"this is text")
            return
        if call == "events":
            self.stream_events(sock, word)
            return
        if call == "attach":
            self.attach(sock, stream, fault, parts)
            return
        status, reply = self.carry_out(call, parts, query, body)
        if word == "lie":
            for lie in fault.split(" "):
                path, _, text = lie.partition(":")[2].partition("=")
                self.lie(reply, path.split("."), json.loads(text))
        data = b"" if reply is None else b"OK" if reply == "OK" else json.dumps(reply).encode()
        self.spoil(sock, word, value, status, data)

    @staticmethod
    def lie(reply, keys, value):
        for key in keys[:-1]:
            reply = reply[int(key) if isinstance(reply, list) else key]
        reply[int(keys[-1]) if isinstance(reply, list) else keys[-1]] = value

    def spoil(self, sock, word, value, status, data):
        api = f"Api-Version: {self.api}\r\n"
        good = (f"HTTP/1.1 {status} X\r\n{api}Content-Type: application/json\r\n"
                f"Content-Length: {len(data)}\r\n\r\n").encode() + data
        chunked = f"HTTP/1.1 {status} X\r\n{api}Transfer-Encoding: chunked\r\n\r\n".encode()
        if word == "lost":
            raise Drop
        if word == "half":
            sock.sendall(good[:-max(1, len(data) // 2)])
            raise Drop
        if word == "garbage":
            sock.sendall(b"\x16\x03\x01" + secrets.token_bytes(300) + b"\r\n\r\n")
            raise Drop
        if word == "slow":
            size = len(good) // 100 + 1
            for at in range(0, len(good), size):
                sock.sendall(good[at:at + size])
                if self.closing.wait(float(value)):
                    raise Drop
        elif word == "torn":
            sock.sendall(chunked)
            at, size = 0, 1
            while at < len(data):
                piece = data[at:at + size]
                for part in (f"{len(piece):x}\r\n".encode(), piece, b"\r\n"):
                    sock.sendall(part)
                at, size = at + size, size * 3 + 1
            sock.sendall(b"0\r\n\r\n")
        elif word == "badchunk":
            sock.sendall(chunked + b"zz\r\n" + data)
            raise Drop
        elif word == "headers":
            sock.sendall(f"HTTP/1.1 {status} X\r\n".encode())
            while True:
                sock.sendall(b"X-More: " + b"a" * 1000 + b"\r\n")
        elif word == "huge":
            sock.sendall(chunked)
            while True:
                sock.sendall(b"4000\r\n" + b" " * 16384 + b"\r\n")
        elif word == "length":
            sock.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {10 ** 13}\r\n\r\n".encode())
            while True:
                sock.sendall(b" " * 16384)
        else:
            data = {"badjson": data[:len(data) // 2], "empty": b"", "deep": b"[" * 100000,
                    "types": self.wrong_types(data), "nul": b'{"Id":"a\\u0000b","x":"\x00"}',
                    }.get(word, data)
            self.send(sock, status, data, api)

    @staticmethod
    def wrong_types(data):
        def flip(value):
            if isinstance(value, dict):
                return {key: flip(item) for key, item in value.items()}
            if isinstance(value, list):
                return {"0": [flip(item) for item in value]}
            return 1 if isinstance(value, str) else "1"

        try:
            return json.dumps(flip(json.loads(data))).encode()
        except ValueError:
            return b"[]"

    # ---- what the calls do ----

    def find(self, word):
        with self.lock:
            for container in self.containers.values():
                if word in (container.id, container.name):
                    return container
        return None

    def carry_out(self, call, parts, query, body):
        if call in ("ping", "version", "info"):
            return 200, {"ping": "OK", "version": self.version(), "info": self.info()}[call]
        if call == "image":
            name = "/".join(parts[1:-1])
            if name not in self.images:
                return 404, {"message": "No such image: " + name}
            return 200, {"Id": IMAGE_ID, "Os": "linux"}
        if call == "list":
            wanted = json.loads(query.get("filters", "{}")).get("label", [])
            pairs = [tuple(label.split("=", 1)) for label in wanted]
            with self.lock:
                return 200, [c.listed() for c in self.containers.values()
                             if all(c.labels().get(k) == v for k, v in pairs)]
        if call == "create":
            return self.create(query.get("name", ""), json.loads(body))
        if call == "other":
            return 404, {"message": "page not found"}
        container = self.find(parts[1])
        if container is None:
            return 404, {"message": "No such container: " + parts[1]}
        return self.on_container(call, container, body)

    def create(self, name, body):
        if body.get("Image") not in self.images:
            return 404, {"message": "No such image: " + str(body.get("Image"))}
        with self.lock:
            if self.find(name):
                return 409, {"message": f'The container name "/{name}" is already in use'}
            container = Container(self, name, body)
            self.containers[container.id] = container
        return 201, {"Id": container.id, "Warnings": []}

    def on_container(self, call, container, body):
        if call == "inspect":
            return 200, container.inspect()
        if call == "start":
            if container.state == "running":
                return 304, None
            container.start()
            self.event("start", container)
            return 204, None
        if call == "update":
            container.body.setdefault("HostConfig", {}).update(json.loads(body))
            return 200, {"Warnings": None}
        if call == "kill":
            if container.state != "running":
                return 409, {"message": f"Container {container.id} is not running"}
            container.kill()
            return 204, None
        if container.state == "running":
            container.kill()
        else:
            self.remove(container)
        return 204, None

    def remove(self, container):
        with self.lock:
            known = self.containers.pop(container.id, None)
        container.state = "removed"
        container.stdin_ready.set()
        if known:
            self.event("destroy", container)

    def version(self):
        return {"Platform": {"Name": "Fake Engine"},
                "Components": [{"Name": "Engine", "Version": "99.0"}], "Version": "99.0",
                "ApiVersion": self.api, "MinAPIVersion": "1.12", "Os": "linux"}

    @staticmethod
    def info():
        return {"NCPU": os.cpu_count(), "MemTotal": 8 << 30, "CgroupVersion": "1",
                "CgroupDriver": "cgroupfs", "CpuCfsPeriod": True, "CpuCfsQuota": True,
                "PidsLimit": True, "MemoryLimit": True, "SwapLimit": True,
                "DefaultRuntime": "runc", "Runtimes": {"runc": {"path": "runc"}},
                "SecurityOptions": ["name=seccomp,profile=default"], "ServerVersion": "99.0"}

    # ---- events ----

    def event(self, action, container):
        attributes = dict(container.labels(), name=container.name)
        if action == "die":
            attributes["exitCode"] = str(container.exit_code)
        line = json.dumps({"Type": "container", "Action": action, "time": int(time.time()),
                           "Actor": {"ID": container.id, "Attributes": attributes}})
        with self.lock:
            listeners = list(self.listeners)
        for sock in listeners:
            self.event_line(sock, line.encode() + b"\n")

    @staticmethod
    def event_line(sock, line):
        try:
            sock.sendall(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        except OSError:
            pass

    def stream_events(self, sock, word):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        if word in ("half", "lost"):
            sock.sendall(b'20\r\n{"Type":"conta')
            raise Drop
        if word in ("badjson", "garbage"):
            self.event_line(sock, b"neither this\n")
        if word == "huge":
            while True:
                self.event_line(sock, b"x" * 16384)
        if word == "badchunk":
            sock.sendall(b"zz\r\n")
        with self.lock:
            self.listeners.append(sock)
        try:
            while sock.recv(4096):
                pass
        finally:
            with self.lock:
                self.listeners.remove(sock)
        raise Drop

    def drop_events(self):
        """Ends the streams of events there are."""
        with self.lock:
            for sock in self.listeners:
                sock.shutdown(socket.SHUT_RDWR)

    # ---- attach ----

    def attach(self, sock, stream, fault, parts):
        container = self.find(parts[1])
        if container is None:
            self.error(sock, 404, "No such container: " + parts[1])
            return
        heads = {
            "upgrade": b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
            "upgrade200": b"HTTP/1.1 200 OK\r\n"
                          b"Content-Type: application/vnd.docker.raw-stream\r\n\r\n",
            "body": b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
                    b"Content-Length: 5\r\n\r\nhello",
            "garbage": b"\x15\x03\x01\x00\x02\x02\x0a" * 50 + b"\r\n\r\n",
            "headers": b"HTTP/1.1 101 UPGRADED\r\n" + b"X-More: a\r\n" * 2000,
            "half": b"HTTP/1.1 101 UPGRA",
        }
        good = (b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
                b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        word = fault.partition(":")[0]
        sock.sendall(heads.get(word, good))
        if word == "half":
            raise Drop
        attach = Attach(sock, fault)
        spoilt = {"noise": b"\x00\x07noise" * 20, "type": struct.pack(">BxxxI", 9, 4) + b"abcd",
                  "length": struct.pack(">BxxxI", 1, 0xffffffff),
                  "error": struct.pack(">BxxxI", 3, 5) + b"sorry"}
        if word in spoilt:
            attach.send(spoilt[word])
        with container.lock:
            container.attaches.append(attach)
        if word == "mute":
            self.closing.wait()
            raise Drop
        while True:
            data = stream.read1(65536)
            if not data:
                break
            container.feed(data)
        with container.lock:
            if attach in container.attaches:
                container.attaches.remove(attach)
        raise Drop


def main():
    parser = argparse.ArgumentParser(description="a scriptable engine")
    parser.add_argument("socket")
    parser.add_argument("--box", default="silent")
    parser.add_argument("--faults", default="{}", help='JSON: {"create": ["hang"]}')
    parser.add_argument("--api", default="1.41")
    parser.add_argument("--share")
    parser.add_argument("command", nargs="*", help="the boxes' program, after --")
    args = parser.parse_args()
    fake = FakeDockerd(args.socket, box=args.command or args.box, share=args.share,
                       faults=json.loads(args.faults), api=args.api)
    print("ready", flush=True)
    try:
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        fake.close()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main())
