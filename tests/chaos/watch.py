"""What is seen from outside: the engine's events and listings, processes, the ledger.

    watch = EngineWatch(history, "calm", "/run/x/docker.sock"); watch.start()
    watch.wait_box(key, "create", 0.3)      # box of that tree, once the engine told of it
    runs = RunWatch(history); runs.look(word)       # its processes, until the last one is gone
"""

import collections
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import select
import socket
import struct
import threading
import time
import urllib.parse

from tree import LABEL, Engine

BOX = re.compile(r"[0-9a-f]{64}")
HOST_PIDS = os.readlink("/proc/self/ns/pid")
CGROUPS = [pathlib.Path("/sys/fs/cgroup") / part for part in
           ("memory/bailey", "memory/docker", "bailey", "docker", "memory/system.slice", "system.slice")]  # fmt: skip
RECORD = struct.Struct("<4Q4I72s72s")  # reaper/reaper.h: struct record, as far as it is read here
SLOT = 512
GONE = 6


def text(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def start_time(pid):
    stat = text(f"/proc/{pid}/stat")
    return int(stat.rsplit(")", 1)[1].split()[19]) if stat else 0


def parent_of(pid):
    stat = text(f"/proc/{pid}/stat")
    return int(stat.rsplit(")", 1)[1].split()[1]) if stat else 0


def runs_on(pid):
    stat = text(f"/proc/{pid}/stat")
    return bool(stat) and stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def key_of(pid):
    """How the labels of its boxes name the tree of that supervisor."""
    return f"{pid}.{start_time(pid)}"


def box_key(labels):
    return f"{labels.get('io.bailey.tree-pid')}.{labels.get('io.bailey.tree-start')}"


def init_of(box):
    """The host's pid of a running box's PID 1; 0 when there is none."""
    for base in CGROUPS:
        for name in (box, f"docker-{box}.scope"):
            for pid in text(base / name / "cgroup.procs").split():
                inside = re.search(r"^NSpid:.*\s1$", text(f"/proc/{pid}/status"), re.MULTILINE)
                if inside:
                    return int(pid)
    return 0


def ledger_file(supervisor):
    """The memory its supervisor keeps, open; None when it cannot be had."""
    for fd in pathlib.Path(f"/proc/{supervisor}/fd").glob("*"):
        with contextlib.suppress(OSError):
            if "bailey-ledger" in os.readlink(fd):
                return open(fd, "rb")
    return None


def records(file):
    """{box name: state} of a ledger."""
    found = {}
    data = file.read()
    for at in range(0, len(data), SLOT):
        if data[at : at + 8] == data[at + 256 : at + 264] == b"\0" * 8:
            continue
        pair = [RECORD.unpack_from(data, at + half) for half in (0, 256)]
        record = max(pair, key=lambda r: r[0])
        if record[0] and 0 < record[5] < GONE:
            found[record[8].rstrip(b"\0").decode()] = record[5]
    return found


def ledger(supervisor):
    """{box name: state} of the memory its supervisor keeps; None when it cannot be read."""
    with contextlib.suppress(OSError):
        file = ledger_file(supervisor)
        if file:
            with file:
                return records(file)
    return None


def process_figures(pid):
    rollup = text(f"/proc/{pid}/smaps_rollup")
    kb = sum(int(n) for n in re.findall(r"^Pss_(?:Anon|File):\s+(\d+)", rollup, re.MULTILINE))
    with contextlib.suppress(OSError):
        return {"fds": len(os.listdir(f"/proc/{pid}/fd")), "threads": len(os.listdir(f"/proc/{pid}/task")), "kb": kb}
    return None


def sockets_of(pid):
    """Copies of a process' sockets."""
    libc = ctypes.CDLL(None, use_errno=True)
    with contextlib.suppress(OSError), os.fdopen(os.pidfd_open(pid), "rb") as process:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
                    copy = libc.syscall(438, process.fileno(), int(fd), 0)  # pidfd_getfd
                    if copy >= 0:
                        yield socket.socket(fileno=copy)


def given_up(pid):
    """Sockets that dockerd has forgotten: attached connections whose client is gone, and netlink ones of namespaces that
    are no more. No goroutine of it knows them; Go's collector closes them when it next runs, two minutes later at most."""
    count = 0
    for one in sockets_of(pid):
        with one:
            poll = select.poll()
            poll.register(one, 0)
            count += one.family == socket.AF_NETLINK or one.family == socket.AF_UNIX and any(e & select.POLLHUP for _, e in poll.poll(0))
    return count


def daemon_figures(pid):
    """process_figures of one of the engine's daemons, with what it only has not collected yet counted apart."""
    found = process_figures(pid) or {"fds": 0, "threads": 0, "kb": 0}
    lost = given_up(pid)
    return found | {"fds": found["fds"] - lost, "given_up": lost}


class Ends:
    """Calls back when a process has ended, by its pidfd."""

    def __init__(self):
        self.epoll = select.epoll()
        self.waiting = {}
        threading.Thread(target=self._loop, daemon=True).start()

    def watch(self, pid, then):
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            then()
            return
        self.waiting[fd] = then
        self.epoll.register(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def _loop(self):
        while True:
            for fd, _ in self.epoll.poll():
                then = self.waiting.pop(fd)
                self.epoll.unregister(fd)
                os.close(fd)
                then()


class RunWatch:
    """The processes of runs, known by a word in their environment."""

    def __init__(self, history):
        self.history = history
        self.ends = Ends()
        self.lock = threading.Lock()
        self.left = {}  # word: pids that live
        self.boxes = {}  # word: boxes they were seen in

    def carriers(self, word):
        mark = word.encode()
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as environ:
                    if mark in environ.read():
                        yield int(entry)

    def look(self, word):
        """Notes who carries the word now, and the end of the last of them; how many there are."""
        pids, boxes, outside = [], set(), []
        for pid in self.carriers(word):
            inside = BOX.search(text(f"/proc/{pid}/cgroup"))
            with contextlib.suppress(OSError):
                if inside and os.readlink(f"/proc/{pid}/ns/pid") != HOST_PIDS:
                    boxes.add(inside[0][:12])
                elif runs_on(pid):
                    outside.append(pid)
                pids.append(pid)
        with self.lock:
            known = self.left.setdefault(word, set())
            self.boxes.setdefault(word, set()).update(boxes)
            fresh = [pid for pid in pids if pid not in known]
            known.update(fresh)
        if pids:
            self.history.add("seen", word=word, boxes=sorted(boxes), pids=pids, outside=outside)
        for pid in fresh:
            self.ends.watch(pid, lambda pid=pid: self._ended(word, pid))
        return len(pids)

    def _ended(self, word, pid):
        at = time.monotonic()
        with self.lock:
            self.left[word].discard(pid)
            last = not self.left[word]
        if last and not self.look(word):  # it may have had children since
            self.history.add("dead", at=at, word=word)

    def boxes_of(self, word):
        return list(self.boxes.get(word, ()))

    def wait_dead(self, word, seconds):
        end = time.monotonic() + seconds
        while self.left.get(word) and time.monotonic() < end:
            time.sleep(0.01)
        return not self.left.get(word)


class EngineWatch(threading.Thread):
    """One engine's labelled containers: events as they come, a listing at each new connection."""

    def __init__(self, history, name, path):
        super().__init__(daemon=True)
        self.history, self.name = history, name
        self.engine = Engine()
        self.engine.path = path
        self.condition = threading.Condition()
        self.boxes = {}  # box: {"key", "name", "state", "pid"}
        self.seen = {}  # the same, of all times
        self.ends = Ends()
        self.supervisors = {}  # key: pid, while it lives
        self.over = False
        self.connected = threading.Event()
        self.engine_pid = lambda: 0

    def run(self):
        while not self.over:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                self._follow()
            self.connected.clear()
            time.sleep(0.1)

    def _follow(self):
        filters = urllib.parse.quote(json.dumps({"label": [LABEL], "type": ["container"]}))
        connection = http.client.HTTPConnection("engine", timeout=3600)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.engine.path)
        connection.request("GET", f"/v1.41/events?filters={filters}")
        answer = connection.getresponse()
        self.listing()
        self.connected.set()
        while line := answer.readline():
            if line.strip():
                self._event(json.loads(line))
        connection.close()

    def _event(self, event):
        what = event["Action"]
        if what not in ("create", "start", "die", "destroy"):
            return
        labels = event["Actor"]["Attributes"]
        was = event["timeNano"] / 1e9 - time.time() + time.monotonic() if "timeNano" in event else None
        self._note(what, event["Actor"]["ID"], box_key(labels), labels.get("name", ""), was)

    def _note(self, what, box, key, name, was=None):
        short = box[:12]
        if self.seen.get(short, {}).get("state") == "destroy":
            return  # an event that was overtaken by the end
        with self.condition:
            known = self.boxes.setdefault(short, {"id": box, "key": key, "name": name, "state": what, "pid": 0})
            known["state"] = what
            self.seen[short] = known
            if what == "destroy":
                del self.boxes[short]
        self.history.add("box", what=what, box=short, key=key, engine=self.name, was=was)
        if what == "create":
            supervisor = self.supervisors.get(key)
            held = ledger(supervisor) if supervisor else None
            if held is not None:
                self.history.add("ledger", box=short, key=key, state=held.get(name))
        if what == "start":
            known["pid"] = pid = init_of(box)
            if pid:
                self.history.add("init", box=short, pid=pid)
                self.ends.watch(pid, lambda: self.history.add("init_dead", box=short))
        with self.condition:
            self.condition.notify_all()

    def listing(self):
        """What the engine has now; events missed while it was away are made up for."""
        found = {box["Id"]: box for box in self.engine.boxes() if not self._ghost(box)}
        rows = [[i[:12], box_key(b["Labels"]), b["State"]] for i, b in found.items()]
        self.history.add("listing", engine=self.name, boxes=rows)
        for box, row in found.items():
            known = self.boxes.get(box[:12])
            key, name = box_key(row["Labels"]), (row["Names"] or [""])[0].lstrip("/")
            if known is None:
                self._note("create", box, key, name)
            if row["State"] == "running" and (known is None or known["state"] == "create"):
                self._note("start", box, key, name)
        for short in [short for short, known in list(self.boxes.items()) if known["id"] not in found]:
            known = self.boxes.get(short)
            if known:
                self._note("destroy", known["id"], known["key"], known["name"])
        return rows

    def _ghost(self, box):
        """The engine sometimes lists for ever what it has removed: it knows it by no other call."""
        if box["State"] not in ("removing", "dead"):
            return False
        ghost = self.engine.request("GET", f"/containers/{box['Id']}/json")[0] == 404
        if ghost:
            self.history.add("ghost", engine=self.name, box=box["Id"][:12])
        return ghost

    def of(self, key, state="start"):
        return {short: box for short, box in list(self.boxes.items()) if box["key"] == key and box["state"] == state}

    def wait_box(self, key, state, seconds, but=()):
        """A box of that tree in that state, None after so many seconds."""
        end = time.monotonic() + seconds
        with self.condition:
            while True:
                for short, box in self.of(key, state).items():
                    if short not in but:
                        return short, box
                if not self.condition.wait(max(0.0, min(0.05, end - time.monotonic()))) and time.monotonic() >= end:
                    return None


def figures(watch, dockerd, containerd):
    """What an engine and its host hold, to be the same before and after."""
    found = collections.OrderedDict(dockerd=daemon_figures(dockerd), containerd=daemon_figures(containerd))
    found["networks"] = len(watch.engine.request("GET", "/networks")[1] or [])
    found["volumes"] = len((watch.engine.request("GET", "/volumes")[1] or {}).get("Volumes") or [])
    found["containers"] = len(watch.listing())
    found["cgroups"] = sum((base / box["id"]).exists() for box in watch.seen.values() for base in CGROUPS)
    found["shims"] = sum(watch.engine.path.rsplit("/", 1)[0] in text(f"/proc/{pid}/cmdline") and "shim" in text(f"/proc/{pid}/comm")
                         for pid in os.listdir("/proc") if pid.isdigit())  # fmt: skip
    return found
