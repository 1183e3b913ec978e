"""An engine of the harness' own, to be hurt: packaging/engine with its own directories.

    with OwnEngine("calm", history) as engine:
        engine.host                     # for DOCKER_HOST
        engine.stop(seconds); engine.kill("dockerd"); engine.revive()
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

from watch import BOX, EngineWatch, figures, text

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGE = os.environ.get("SANDBOX_IMAGE", "bailey/sandbox:slim")
EMPTY_WITHIN = 70.0  # seconds
SETTLED_WITHIN = 10.0  # seconds
# What the harness inherits as subreaper and nobody else waits for.
ORPHANS = ("containerd", "dockerd", "runc", "bailey-", "init")


class OwnEngine:
    def __init__(self, name, history):
        self.name, self.history = name, history
        self.run = pathlib.Path(f"/run/bailey-chaos-{name}-{os.getpid()}")
        self.data = pathlib.Path(f"/var/lib/bailey-chaos-{name}-{os.getpid()}")
        self.host = f"unix://{self.run}/docker.sock"
        self.watch = EngineWatch(history, name, f"{self.run}/docker.sock")
        self.lock = threading.Lock()

    def program(self, *words):
        env = dict(os.environ, BAILEY_ENGINE_RUN=str(self.run), BAILEY_ENGINE_DATA=str(self.data), BAILEY_ENGINE_GROUP="docker")
        done = subprocess.run([str(ROOT / "packaging" / "engine"), *words], env=env, capture_output=True, text=True, timeout=150)
        if done.returncode != 0:
            raise AssertionError(f"packaging/engine {words}: {done.stdout}{done.stderr}")

    def __enter__(self):
        try:
            self.program("start")
            save = subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE)
            load = subprocess.run(["docker", "-H", self.host, "load", "-q"], stdin=save.stdout, capture_output=True, timeout=120)
            save.stdout.close()
            if save.wait(10) != 0 or load.returncode != 0:
                raise AssertionError(f"the image could not be copied: {load.stderr.decode()}")
            self.watch.start()
            if not self.watch.connected.wait(10):
                raise AssertionError("the engine's events cannot be read")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self.watch.over = True
        for program in ("dockerd", "containerd"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(self.pid(program), signal.SIGCONT)
        if keep := os.environ.get("BAILEY_CHAOS_KEEP"):
            with contextlib.suppress(OSError):
                shutil.copy(self.run / "dockerd.log", f"{keep}.{self.name}.dockerd.log")
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.program("stop", "--purge")

    def pid(self, program):
        return int((self.run / f"{program}.pid").read_text(encoding="ascii"))

    def shims(self):
        """{box: pid of its shim}"""
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit() and text(f"/proc/{entry}/comm").startswith("containerd-shim"):
                words = text(f"/proc/{entry}/cmdline").split("\0")
                if str(self.run) in " ".join(words) and "-id" in words:
                    found[words[words.index("-id") + 1][:12]] = int(entry)
        return found

    def state(self, state):
        self.history.add("engine", engine=self.name, state=state)

    def freeze(self, program, seconds):
        pid = self.pid(program)
        self.state("stopped")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.state("up")

    def end(self, program, number, seconds):
        """A signal, the wait for the end, a pause, and a new one beside what is left of the old."""
        pid = self.pid(program)
        self.state("down")
        os.kill(pid, number)
        wait_end(pid, 40)
        time.sleep(seconds)
        self.program("revive")
        self.state("up")


def host(engine, when, before=None, patience=0):
    """Notes what engine and host hold; afterwards once it is no more than before, what was given up not counted before
    patience is over."""
    end = time.monotonic() + SETTLED_WITHIN
    given_up = time.monotonic() + patience
    while True:
        found = figures(engine.watch, engine.pid("dockerd"), engine.pid("containerd"))
        dockerd = found["dockerd"]
        more = [key for key in ("fds", "given_up") if before and dockerd[key] > before["dockerd"][key]]
        if time.monotonic() > max(end if "fds" in more else 0, given_up if "given_up" in more else 0):
            break
        time.sleep(0.5)
    engine.history.add("host", engine=engine.name, when=when, figures=found)
    return found


def empty(engine):
    """Waits until nothing is left on an engine everybody left; what is, in the end."""
    end = time.monotonic() + EMPTY_WITHIN
    while (rows := engine.watch.listing()) and time.monotonic() < end:
        time.sleep(0.5)
    return rows


def leftover(engine):
    """Processes in any box that engine ever had."""
    ids = {box["id"] for box in engine.watch.seen.values()}
    found = []
    for entry in os.listdir("/proc"):
        inside = BOX.search(text(f"/proc/{entry}/cgroup")) if entry.isdigit() else None
        if inside and inside[0] in ids:
            name, rest = text(f"/proc/{entry}/stat").partition("(")[2].rpartition(") ")[::2]
            if rest and rest[0] != "Z":
                found.append([int(entry), name, rest[0], inside[0][:12]])
    return found


def wait_end(pid, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stat = text(f"/proc/{pid}/stat")
        if not stat or stat.rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)


def reap_orphans():
    """Waits for dead children that are no Popen's; as subreaper this program gets every one."""
    for pid in text("/proc/self/task/%d/children" % os.getpid()).split():
        if text(f"/proc/{pid}/comm").startswith(ORPHANS):
            with contextlib.suppress(OSError):
                os.waitpid(int(pid), os.WNOHANG)


def reap_always():
    def loop():
        while True:
            reap_orphans()
            time.sleep(0.5)

    threading.Thread(target=loop, daemon=True).start()
