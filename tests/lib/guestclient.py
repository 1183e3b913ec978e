"""A host for one guest-init: starts the real program in a real container and speaks the guest
stream with it over the attach connection, without any other part of the project.

    with Box(box_class=PYTHON) as box:
        run = box.run(PYTHON_CODE, "print(1)")
        run.exit["exit_code"], run.stdout

The engine is the one at DOCKER_HOST; the image BAILEY_TEST_IMAGE or bailey/sandbox:slim. The
frame numbers and payloads come from ipc/guest.def, read here, so that the two cannot differ.
"""

import http.client
import json
import os
import re
import select
import socket
import struct
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHELL, PYTHON, NODE, NOTHING = 0, 1, 2, 3
PYTHON_CODE, NODE_CODE, BASH_CODE, COMMAND, ARGV = 1, 2, 3, 4, 5
EVAL_PYTHON, EVAL_NODE, EVAL_BASH, FILE_READ, FILE_WRITE, FILE_LIST = 6, 7, 8, 9, 10, 11
SPEC_STDIN, SPEC_LIVE, SPEC_APPEND, SPEC_TRUNCATE = 1, 2, 4, 8
EXITED, SIGNALED, NOT_STARTED = 1, 2, 3
TIMED_OUT, ENDED, WORKSPACE_FULL, TMP_FULL, OUTPUT_LIMIT, FORK_FAILED = 1, 2, 4, 8, 16, 32
WARM, LIVE = 1, 2
WINDOW = 262144
RUNS_MAX = 16
HEADER = struct.Struct("<BBHIQ")


def read_version():
    with open(os.path.join(ROOT, "ipc", "guest_stream.h"), encoding="utf-8") as handle:
        return int(re.search(r"^#define GUEST_VERSION (\d+)u", handle.read(), re.M).group(1))


VERSION = read_version()


def read_table():
    """guest.def: name -> (number, direction, sequenced), and the fields of each."""
    with open(os.path.join(ROOT, "ipc", "guest.def"), encoding="utf-8") as handle:
        text = re.sub(r"/\*.*?\*/", "", handle.read(), flags=re.DOTALL)
    frames, fields = {}, {}
    for name, number, direction, seq in re.findall(
            r"GUEST_FRAME\((\w+), (0x[0-9a-f]+), (\w+), \d+, \d+, (\d),", text):
        frames[name] = (int(number, 16), direction, seq == "1")
        fields[name] = []
    for name, kind, field, size in re.findall(r"GUEST_FIELD\((\w+), (\w+), (\w+), (\d+)\)", text):
        fields[name].append((field, {"u32": "I", "u64": "Q", "raw": f"{size}s"}[kind]))
    return frames, fields


FRAMES, FIELDS = read_table()
NAMES = {number: name for name, (number, _, _) in FRAMES.items()}


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def pack_fields(name, values):
    return b"".join(struct.pack("<" + kind, values[field]) for field, kind in FIELDS[name])


def unpack_fields(name, payload):
    layout = FIELDS[name]
    found = struct.unpack("<" + "".join(kind for _, kind in layout), payload)
    return dict(zip((field for field, _ in layout), found))


# ---- the part of msgpack a specification uses ----

def _uint(value):
    return b"\xcf" + struct.pack(">Q", value) if value > 127 else bytes([value])


def _str(value):
    data = os.fsencode(value)
    return b"\xdb" + struct.pack(">I", len(data)) + data


def _array(items):
    return b"\xdd" + struct.pack(">I", len(items)) + b"".join(items)


def encode_spec(kind, code, args=(), env=(), flags=0, timeout_ms=10000, output_limit=0, cwd="",
                offset=0, length=0, mode=0):
    data = code.encode("utf-8", "surrogateescape") if isinstance(code, str) else code
    items = [_uint(kind), _uint(flags), _uint(timeout_ms), _uint(output_limit), _str(cwd),
             b"\xc6" + struct.pack(">I", len(data)) + data,
             _array([_str(a) for a in args]), _array([_str(e) for e in env]),
             _uint(offset), _uint(length), _uint(mode)]
    return bytes([0x90 | len(items)]) + b"".join(items)


# ---- the engine ----

def engine_path():
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    return host[len("unix://"):] if host.startswith("unix://") else None


def build_dir():
    return os.environ.get("BAILEY_BUILD") or os.path.join(ROOT, "build", "dev")


def image():
    return os.environ.get("BAILEY_TEST_IMAGE", "bailey/sandbox:slim")


class EngineError(Exception):
    pass


class _Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(engine_path())


def engine(method, path, body=None, ok=(200, 201, 204)):
    connection = _Connection("engine")
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, "/v1.40" + path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status not in ok:
        raise EngineError(f"{method} {path}: {answer.status} {text[:300]!r}")
    return json.loads(text) if text.strip().startswith((b"{", b"[")) else text


def unavailable():
    """Why these tests cannot run here, or None."""
    path = engine_path()
    if path is None or not os.path.exists(path):
        return "no engine at DOCKER_HOST"
    if not os.path.exists(os.path.join(build_dir(), "share", "box", "init")):
        return "guest-init is not built"
    try:
        engine("GET", f"/images/{image()}/json")
    except (OSError, EngineError) as error:
        return f"no image {image()}: {error}"
    return None


class Run:
    """What one run sent, and how much of either side's bytes may be on the way."""

    def __init__(self, number=0):
        self.number = number
        self.out = {1: bytearray(), 2: bytearray(), 3: bytearray()}
        self.tail = {1: bytearray(), 2: bytearray(), 3: bytearray()}
        self.limit = {1: WINDOW, 2: WINDOW, 3: WINDOW}
        self.stdin_limit = WINDOW
        self.exit = None
        self.started = time.perf_counter()
        self.first_output = self.ended = None

    stdout = property(lambda self: bytes(self.out[1]))
    stderr = property(lambda self: bytes(self.out[2]))
    values = property(lambda self: bytes(self.out[3]))


class Box:
    """One container and its stream. Options are fields of h_hello, and limits."""

    def __init__(self, box_class=SHELL, deadman_ms=8000, lifetime_s=120, cpus=1, affinity=0,
                 memory_mb=512, pids=64, workspace_mb=192, tmp_mb=64, hello=True, uid=10001,
                 share=None, inodes=16384, nano_cpus=0):
        self.secret = os.urandom(32)
        self.values = {"version": VERSION, "box_class": box_class, "deadman_ms": deadman_ms,
                       "lifetime_s": lifetime_s, "secret": self.secret, "cpus": cpus, "flags": 0,
                       "affinity": affinity}
        self.seq = 0
        self.guest_seq = 0
        self.inbox = bytearray()
        self.raw = bytearray()
        self.stderr_bytes = bytearray()
        self.frames = []
        self.ended = None
        self.auto_credit = self.auto_ack = True
        self.greets = hello
        self.current = Run()
        self.runs = {}
        self.run_number = 0
        self.id = self._create(memory_mb, pids, workspace_mb, tmp_mb, uid, share, cpus, inodes, nano_cpus)
        self.sock = self._attach()
        if hello:
            self.send("h_hello", pack_fields("h_hello", self.values))
        engine("POST", f"/containers/{self.id}/start")

    limit = property(lambda self: self.current.limit)
    stdin_limit = property(lambda self: self.current.stdin_limit)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _create(self, memory_mb, pids, workspace_mb, tmp_mb, uid, share, cpus, inodes, nano_cpus):
        share = share or os.path.join(build_dir(), "share")
        mount = lambda source, target: {"Type": "bind", "Source": os.path.join(share, source),
                                        "Target": target, "ReadOnly": True}
        tmpfs = f"rw,exec,nosuid,nodev,uid={uid},gid={uid},nr_inodes={inodes},mode=0700"
        body = {
            "Image": image(), "User": f"{uid}:{uid}", "Entrypoint": ["/.bailey/init"], "Cmd": [],
            "WorkingDir": "/workspace", "OpenStdin": True, "StdinOnce": False, "Tty": False,
            "AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "StopSignal": "SIGKILL",
            "NetworkDisabled": True, "Healthcheck": {"Test": ["NONE"]},
            "Labels": {"io.bailey.test": "guest"},
            "HostConfig": {
                "AutoRemove": True, "NetworkMode": "none", "LogConfig": {"Type": "none"},
                "ReadonlyRootfs": True, "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges", *self._seccomp(share)],
                "Memory": memory_mb << 20, "MemorySwap": memory_mb << 20, "PidsLimit": pids,
                "NanoCpus": nano_cpus, "IpcMode": "private",
                "Tmpfs": {"/workspace": f"{tmpfs},size={workspace_mb}m",
                          "/tmp": f"{tmpfs},size={tmp_mb}m"},
                "Mounts": [mount("box", "/.bailey"), mount("passwd", "/etc/passwd"),
                           mount("group", "/etc/group"),
                           mount(f"cpu/online-{cpus}", "/sys/devices/system/cpu/online"),
                           mount(f"cpu/stat-{cpus}", "/proc/stat")],
            },
        }
        return engine("POST", "/containers/create", body)["Id"]

    @staticmethod
    def _seccomp(share):
        """The profile every sandbox gets, where the build has made it."""
        try:
            with open(os.path.join(share, "seccomp.json"), encoding="ascii") as handle:
                return ["seccomp=" + handle.read()]
        except FileNotFoundError:
            return []

    def _attach(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(engine_path())
        sock.settimeout(30)
        sock.sendall(f"POST /v1.40/containers/{self.id}/attach?stream=1&stdin=1&stdout=1&stderr=1 "
                     "HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
                     "Content-Length: 0\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = sock.recv(1)
            if not part:
                raise EngineError(f"attach: {head!r}")
            head += part
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise EngineError(f"attach: {head!r}")
        return sock

    def reattach(self):
        """A new connection, as a new broker would have; what was on the way is lost."""
        self.sock.close()
        self.raw.clear()
        self.inbox.clear()
        self.sock = self._attach()

    def close(self):
        self.sock.close()
        try:
            engine("DELETE", f"/containers/{self.id}?force=1", ok=(200, 204, 404, 409))
        except (OSError, EngineError):
            pass

    # ---- sending ----

    def frame(self, name, payload=b"", run=0, stream=0, seq=None):
        number, _, sequenced = FRAMES[name]
        if seq is None:
            if sequenced:
                self.seq += 1
            seq = self.seq if sequenced else 0
        data = HEADER.pack(number, stream, len(payload), run, seq) + payload
        return data + struct.pack("<I", crc32c(data))

    def send(self, name, payload=b"", run=0, stream=0, seq=None):
        self.sock.sendall(self.frame(name, payload, run, stream, seq))

    def sync(self, secret=None, last_guest_seq=None, padding=True, nonce=None):
        nonce = nonce or os.urandom(16)
        data = bytes(16 + 32768 + 4) if padding else b""
        self.sock.sendall(data + self.frame("h_sync", pack_fields("h_sync", {
            "secret": secret or self.secret, "nonce": nonce,
            "last_guest_seq": self.guest_seq if last_guest_seq is None else last_guest_seq})))
        return nonce

    def start_run(self, kind, code, **spec):
        """Sends the specification; output and end arrive in the run returned, self.current."""
        self.run_number += 1
        self.current = self.runs[self.run_number] = Run(self.run_number)
        data = encode_spec(kind, code, **spec)
        parts = [data[i:i + 32768] for i in range(0, len(data), 32768)]
        frames = [self.frame("h_spec", part, self.run_number) for part in parts[:-1]]
        frames.append(self.frame("h_run", parts[-1], self.run_number))
        self.current.started = time.perf_counter()
        self.sock.sendall(b"".join(frames))
        return self.current

    def send_stdin(self, data, run=None):
        for i in range(0, len(data), 32768):
            self.send("h_stdin", data[i:i + 32768], (run or self.current).number)

    def end_stdin(self, run=None):
        self.send("h_stdin_eof", b"", (run or self.current).number)

    def end_run(self, run=None, cause=2):
        self.send("h_end", struct.pack("<I", cause), (run or self.current).number)

    # ---- receiving ----

    def _feed(self, data):
        """Engine framing: stream number, length, bytes."""
        self.raw += data
        while len(self.raw) >= 8:
            kind, size = self.raw[0], struct.unpack(">I", self.raw[4:8])[0]
            if len(self.raw) < 8 + size:
                return
            part = bytes(self.raw[8:8 + size])
            del self.raw[:8 + size]
            if kind == 1:
                self.inbox += part
            else:
                self.stderr_bytes += part

    def _take_frame(self):
        if len(self.inbox) < 16:
            return None
        number, stream, size, run, seq = HEADER.unpack(self.inbox[:16])
        if len(self.inbox) < 20 + size:
            return None
        whole = bytes(self.inbox[:16 + size])
        sum_ = struct.unpack("<I", self.inbox[16 + size:20 + size])[0]
        del self.inbox[:20 + size]
        if size < 4096 and sum_ != crc32c(whole):
            raise AssertionError(f"bad checksum in frame {number:#x}")
        if number not in NAMES or FRAMES[NAMES[number]][1] != "G2H":
            raise AssertionError(f"the guest sent frame {number:#x}")
        return NAMES[number], stream, run, seq, whole[16:]

    def _on_frame(self, name, stream, run, seq, payload):
        if FRAMES[name][2]:
            if seq != self.guest_seq + 1:
                raise AssertionError(f"{name}: sequence {seq} after {self.guest_seq}")
            self.guest_seq = seq
            if self.auto_ack:
                self.send("h_ack", struct.pack("<Q", seq))
        elif seq != 0:
            raise AssertionError(f"{name}: sequence {seq} on an unsequenced frame")
        if name == "g_hello" and self.greets:
            self.send("h_ping")  # as a broker does
        if run != 0:
            self._on_run_frame(self.runs.setdefault(run, self.current), name, stream, payload)
        self.frames.append((name, stream, run, seq, payload))

    def _on_run_frame(self, run, name, stream, payload):
        if run.exit is not None:
            raise AssertionError(f"{name} after the end of run {run.number}")
        if name == "g_out":
            if run.first_output is None:
                run.first_output = time.perf_counter() - run.started
            run.out[stream] += payload
            total = len(run.out[stream])
            if total > run.limit[stream]:
                raise AssertionError("more output than credit")
            if self.auto_credit and run.limit[stream] - total < WINDOW // 2:
                run.limit[stream] = total + WINDOW
                self.send("h_credit", struct.pack("<Q", run.limit[stream]), run.number, stream)
        elif name == "g_tail":
            run.tail[stream] += payload
        elif name == "g_credit":
            run.stdin_limit = unpack_fields(name, payload)["limit"]
        elif name == "g_exit":
            run.ended = time.perf_counter() - run.started
            run.exit = unpack_fields(name, payload)

    def pump(self, timeout):
        """Reads once; False at the time limit or when the guest is gone."""
        ready, _, _ = select.select([self.sock], [], [], max(timeout, 0))
        if not ready:
            return False
        try:
            data = self.sock.recv(1 << 20)
        except ConnectionResetError:  # it ended with something of ours unread
            data = b""
        if not data:
            self.ended = time.monotonic()
            return False
        self._feed(data)
        while True:
            frame = self._take_frame()
            if frame is None:
                return True
            self._on_frame(*frame)

    def wait(self, done, timeout=15, ping=True):
        """Pumps until done() holds; pings as a broker does."""
        end = time.monotonic() + timeout
        next_ping = time.monotonic() + 1
        while not done():
            now = time.monotonic()
            if now >= end or self.ended is not None:
                return False
            if ping and now >= next_ping:
                self.send("h_ping")
                next_ping = now + 1
            self.pump(min(end, next_ping) - now)
        return True

    def wait_frame(self, name, timeout=15, **more):
        found = lambda: any(frame[0] == name for frame in self.frames)
        if not self.wait(found, timeout, **more):
            raise AssertionError(f"no {name} within {timeout} s; had "
                                 f"{[frame[0] for frame in self.frames]}, stderr {bytes(self.stderr_bytes)!r}")
        return next(frame for frame in self.frames if frame[0] == name)

    def wait_ready(self):
        self.wait_frame("g_ready")
        return self

    def wait_exit(self, timeout=15, run=None):
        run = run or self.current
        if not self.wait(lambda: run.exit is not None, timeout):
            raise AssertionError(f"no g_exit within {timeout} s; had "
                                 f"{[frame[0] for frame in self.frames][-20:]}, "
                                 f"stdout {run.stdout[-500:]!r}, guest gone: {self.ended is not None}")
        return run

    def wait_gone(self, timeout=15, ping=False):
        """Until the attach connection ends, which the guest's death does."""
        self.wait(lambda: False, timeout, ping=ping)
        return self.ended is not None

    def run(self, kind, code, stdin=None, timeout=15, **spec):
        """One run from beginning to end."""
        if stdin is not None:
            spec["flags"] = spec.get("flags", 0) | SPEC_STDIN
        run = self.start_run(kind, code, **spec)
        sent = 0
        while stdin is not None and sent < len(stdin) and run.exit is None:
            part = stdin[sent:min(len(stdin), run.stdin_limit)]
            if not part:
                if not self.wait(lambda: run.stdin_limit > sent or run.exit is not None, timeout):
                    break
                continue
            self.send_stdin(part, run)
            sent += len(part)
            self.pump(0)
        if stdin is not None and run.exit is None:
            self.end_stdin(run)
        return self.wait_exit(timeout, run)
