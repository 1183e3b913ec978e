"""What a container of fake_dockerd.py is: its state, its process, its attaches. The process of box
"init" is the real guest-init as PID 1 of namespaces of its own, made with util-linux's unshare."""

import ctypes
import os
import secrets
import signal
import socket
import struct
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IMAGE_ID = "sha256:" + "1a" * 32
EMPTY_HOST = ["Binds", "PortBindings", "VolumesFrom", "CapAdd", "GroupAdd", "ExtraHosts", "Links",
              "Devices", "DeviceRequests", "DeviceCgroupRules"]
EMPTY_TEXT = ["VolumeDriver", "PidMode", "UTSMode", "UsernsMode", "Cgroup", "Isolation",
              "ContainerIDFile", "CpusetCpus", "CpusetMems"]


def share_dir():
    build = os.environ.get("BAILEY_BUILD") or os.path.join(ROOT, "build", "dev")
    return os.path.join(build, "share")


# $1 an empty directory, $2 share/, $3 uid, $4 gid. A pivoted root, not chroot: the second unshare,
# which gives the box its uid, is refused in a chroot.
INIT_ROOT = r"""
set -e
mount -t tmpfs -o size=64m,mode=755 tmpfs "$1"
cd "$1"
mkdir -p usr etc proc dev .bailey workspace tmp old
for d in bin lib lib64 sbin; do [ ! -L /$d ] || cp -P /$d .; done
mount --rbind -o ro /usr usr
mount --bind -o ro "$2/box" .bailey
mount --rbind /dev dev
mount -t proc proc proc
mount -t tmpfs -o size=192m,mode=777 tmpfs workspace
mount -t tmpfs -o size=64m,mode=1777 tmpfs tmp
cp "$2/passwd" "$2/group" etc/
/usr/sbin/pivot_root . old
cd /workspace
umount -l /old
exec env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/workspace LANG=C.UTF-8 \
	/usr/bin/unshare --user --map-user="$3" --map-group="$4" /.bailey/init
"""


def init_command(root, share, user):
    uid, _, gid = user.partition(":")
    return ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount",
            "--net", "--ipc", "--uts", "sh", "-c", INIT_ROOT, "sh", root, share, uid, gid]


def can_run_init(share=None):
    if not os.access(os.path.join(share or share_dir(), "box", "init"), os.X_OK):
        return False
    probe = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net", "true"]
    try:
        return subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Container:
    def __init__(self, fake, name, body):
        self.fake = fake
        self.id = secrets.token_hex(32)
        self.name = name
        self.body = body
        self.state = "created"
        self.created = int(time.time())
        self.process = None
        self.pid = 0
        self.exit_code = 0
        self.root = None         # where box "init" mounts its own
        self.attaches = []       # sockets that get the output
        self.lock = threading.Lock()
        self.stdin_ready = threading.Event()

    def labels(self):
        return self.body.get("Labels") or {}

    def start(self):
        box = self.fake.box
        self.state = "running"
        if box in ("silent", "echo"):
            self.pid = os.getpid()
            self.stdin_ready.set()
            return
        command = box
        if box == "init":
            self.root = os.path.join(self.fake.folder, self.id[:12])
            os.makedirs(self.root, exist_ok=True)
            command = init_command(self.root, self.fake.share, self.body.get("User", "10001:10001"))
        self.process = self.fake.starter.submit(
            subprocess.Popen, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            bufsize=0, preexec_fn=die_with_parent, start_new_session=True,
            env={**os.environ, "BAILEY_FAKE_ID": self.id}).result()
        self.pid = self.process.pid
        for number, pipe in ((1, self.process.stdout), (2, self.process.stderr)):
            threading.Thread(target=self.pump, args=(number, pipe), daemon=True).start()
        threading.Thread(target=self.wait, daemon=True).start()
        self.stdin_ready.set()

    def pump(self, number, pipe):
        while True:
            data = os.read(pipe.fileno(), 32768)
            if not data:
                return
            self.output(number, data)

    def output(self, number, data):
        frame = struct.pack(">BxxxI", number, len(data)) + data
        with self.lock:
            for attach in list(self.attaches):
                attach.send(frame)

    def feed(self, data):
        """What an attach sent to stdin. A created container keeps it until its start."""
        self.stdin_ready.wait()
        if self.fake.box == "echo":
            self.output(1, data)
        elif self.process is not None:
            try:
                view = memoryview(data)
                while view:
                    view = view[self.process.stdin.write(view):]
            except (OSError, ValueError):
                pass

    def wait(self):
        code = self.process.wait()
        self.ended(128 - code if code < 0 else code)

    def ended(self, code):
        with self.lock:
            if self.state in ("exited", "removed"):
                return
            self.state = "exited"
            self.exit_code = code
            attaches, self.attaches = self.attaches, []
        self.stdin_ready.set()
        if self.root:
            os.rmdir(self.root)
        for attach in attaches:
            attach.close()
        self.fake.event("die", self)
        self.fake.remove(self)   # every box is made with AutoRemove

    def kill(self):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
        self.ended(137)

    def inspect(self):
        host = {key: None for key in EMPTY_HOST}
        host.update({key: "" for key in EMPTY_TEXT})
        host.update({"CpuPeriod": 0, "CpuQuota": 0, "PublishAllPorts": False,
                     "ConsoleSize": [0, 0]})
        host.update(self.body.get("HostConfig") or {})
        config = {key: value for key, value in self.body.items() if key != "HostConfig"}
        config.setdefault("Volumes", None)
        config["Env"] = list(config.get("Env") or []) + ["IMAGE_SAYS=hello"]
        mounts = [{"Type": m["Type"], "Source": m["Source"], "Destination": m["Target"],
                   "Mode": "", "RW": not m["ReadOnly"], "Propagation": "rprivate"}
                  for m in host.get("Mounts") or []]
        entry = config.get("Entrypoint") or [""]
        return {"Id": self.id, "Created": "2026-01-01T00:00:00Z", "Path": entry[0],
                "Args": entry[1:], "Image": IMAGE_ID, "Name": "/" + self.name,
                "AppArmorProfile": "", "ExecIDs": None, "HostConfig": host, "Config": config,
                "Mounts": mounts,
                "State": {"Status": self.state, "Running": self.state == "running",
                          "Pid": self.pid if self.state == "running" else 0,
                          "ExitCode": self.exit_code, "OOMKilled": False}}

    def listed(self):
        return {"Id": self.id, "Names": ["/" + self.name], "Image": self.body.get("Image"),
                "Created": self.created, "Labels": self.labels(), "State": self.state}


class Attach:
    """One accepted attach: writes frames, with a fault of its own."""

    def __init__(self, sock, fault):
        self.sock = sock
        self.fault = fault
        self.lock = threading.Lock()
        self.left = int(fault[4:]) if fault.startswith("cut:") else None

    def send(self, data):
        if self.fault == "deaf":
            return
        try:
            with self.lock:
                if self.left is not None:
                    data, self.left = data[:self.left], self.left - len(data)
                if self.fault == "bytewise":
                    for at in range(len(data)):
                        self.sock.sendall(data[at:at + 1])
                else:
                    self.sock.sendall(data)
            if self.left is not None and self.left <= 0:
                self.close()
        except OSError:
            pass

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
