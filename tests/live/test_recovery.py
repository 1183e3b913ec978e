#!/usr/bin/env python3
"""kill -9 of the broker under sandboxes that stay: files, interpreter state, running commands and all
output are kept, each line once; streams cut at a random byte in either direction; outages of five
and of more than eight seconds.

BAILEY_RECOVERY_REPEATS=10 is the long form: ten times twenty sandboxes, ten cuts each way.
"""

import os
import pathlib
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from serve import Http, Serve  # noqa: E402
from tree import Tree, engine  # noqa: E402

REPEATS = int(os.environ.get("BAILEY_RECOVERY_REPEATS", "1"))
SEED = int(os.environ.get("BAILEY_RECOVERY_SEED", random.SystemRandom().randrange(1 << 32)))
LINES = 40
# read -t waits without a process of its own
PRINTER = f"mkfifo /tmp/f.$$; exec 3<>/tmp/f.$$; for i in {{1..{LINES}}}; do echo line $i; read -rt 0.1 -u 3; done; true"
WANT = "".join(f"line {i}\n" for i in range(1, LINES + 1))


def whole_log(client, run_id):
    """status and all of stdout, once the run has ended."""
    def ended():
        log = client.call("inspect_logs", {"run_id": run_id, "limit": 1 << 20})
        return log if log["status"] != "running" else None

    log = until(ended, 30)
    return log["status"], log["data"]


def kill_broker(pids):
    pid = next(pid for name, pid in pids if name == "bailey-broker")
    os.kill(pid, signal.SIGKILL)


class Life:
    """What goes on in a sandbox while the broker dies, and what must be there afterwards."""

    def __init__(self, client, mark):
        self.client, self.mark = client, mark
        self.box = Sandbox(client, keep=True, memory_mb=64)
        self.box.call("container_write_file", path="kept", content=mark)
        r = self.box.evaluate("python", f"state = {mark!r}; n = 0")
        assert r["status"] == "ok", r

    def begin(self):
        r = self.box.run(PRINTER, background=True)
        assert r["status"] == "running", r
        self.background = r["run_id"]
        self.foreground = self.box.start(PRINTER + "; cat kept")

    def check(self, test):
        r = self.client.wait(self.foreground, 60)
        test.assertEqual((r["status"], r.get("stdout")), ("ok", WANT + self.mark), r)
        r = self.box.evaluate("python", "n += 1; (state, n)")
        test.assertEqual((r["status"], r["value"]), ("ok", repr((self.mark, 1))), r)
        r = self.box.call("container_read_file", path="kept")
        test.assertEqual((r["status"], r["content"]), ("ok", self.mark), r)
        test.assertEqual(whole_log(self.client, self.background), ("ok", WANT))


class Relay:
    """Between broker and engine: forwards everything until one byte of the attached streams, then
    kills the broker and drops the rest. Every other stream of then ends at a byte of its own."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "engine.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(64)
        self.lock = threading.Lock()
        self.armed = None  # [direction, bytes left, what to do]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, direction, after, act):
        with self.lock:
            self.armed = [direction, after, act]

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(engine.path)
            kind = {"attach": False, "cuts": self.cuts}
            for pair in ((client, server, "in"), (server, client, "out")):
                threading.Thread(target=self._pump, args=(*pair, kind), daemon=True).start()

    def _pump(self, source, sink, direction, kind):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if direction == "in" and b"/attach?" in data[:300]:
                    kind["attach"] = True
                elif kind["attach"]:
                    cut = self._maybe_cut(data, direction, kind["cuts"])
                    if cut is not None:
                        sink.sendall(cut)
                        break  # what else came is lost
                sink.sendall(data)
        except OSError:
            pass
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _maybe_cut(self, data, direction, cuts):
        """What still passes, or None: all of it."""
        with self.lock:
            if cuts != self.cuts:
                return data[: random.randrange(len(data))]
            if not self.armed or self.armed[0] != direction:
                return None
            if self.armed[1] >= len(data):
                self.armed[1] -= len(data)
                return None
            data = data[: self.armed[1]]
            act, self.armed = self.armed[2], None
        act()
        with self.lock:
            self.cuts += 1  # a broker that lived would see its streams break
        return data


class Recovery(unittest.TestCase):
    def test_twenty_sandboxes_outlive_their_broker(self):
        """Of two owners, ten each; a frame of one of them is cut in the one or the other direction, and
        what else was on its way as well. Their calls go on, and nobody ends."""
        rnd = random.Random(SEED)
        with tempfile.TemporaryDirectory(prefix="bailey-relay.") as directory:
            os.chmod(directory, 0o755)
            relay = Relay(directory)
            for repeat in range(REPEATS):
                direction, byte = ("in", "out")[(SEED + repeat) % 2], rnd.randrange(800)
                with self.subTest(repeat, direction=direction, byte=byte):
                    self.twenty(relay, direction, byte)
                    print(f"# twenty kept, round {repeat + 1}: cut after {byte} bytes, {direction}", flush=True)

    def twenty(self, relay, direction, byte):
        with Serve(http=True, principals=("alice", "bob"), env={"DOCKER_HOST": "unix://" + relay.path}) as server:
            clients = [Http(server, name) for name in ("alice", "bob")]
            lives = [Life(client, f"mark-{i}") for i in range(10) for client in clients]
            for life in lives:
                life.begin()
            killed = threading.Event()

            def act():
                kill_broker(server.pids())
                killed.set()

            time.sleep(0.3)
            relay.cut(direction, byte, act)
            self.assertTrue(killed.wait(10))
            for life in lives:
                life.check(self)
            for client in clients:
                rows = client.call("container_list_sandboxes", {})["sandboxes"]
                self.assertEqual([row["status"] for row in rows], ["running"] * 10)

    def test_streams_cut_at_any_byte(self):
        """Input and output of some hundred KiB each, cut where the seed says, the broker killed at
        that byte; then once more in the other direction."""
        print(f"# BAILEY_RECOVERY_SEED={SEED}", flush=True)
        rnd = random.Random(SEED)
        with tempfile.TemporaryDirectory(prefix="bailey-relay.") as directory:
            os.chmod(directory, 0o755)
            relay = Relay(directory)
            for _ in range(max(1, REPEATS // 4)):
                with Tree(env={"DOCKER_HOST": "unix://" + relay.path}) as tree:
                    for _ in range(min(REPEATS, 4)):
                        for direction in ("in", "out"):
                            self.cut(tree, relay, direction, rnd.randrange(250000))

    def cut(self, tree, relay, direction, byte):
        with self.subTest(direction=direction, byte=byte):
            box = Sandbox(tree, keep=True)
            text = "".join(f"{i}\n" for i in range(1, 60001))  # 350 KB
            killed = threading.Event()

            def act():
                tree.kill("bailey-broker")
                killed.set()

            box.run("mkdir d")
            relay.cut(direction, byte, act)
            if direction == "out":
                log = box.run("seq 60000", background=True)["run_id"]
            call = tree.start("container_write_file", {"sandbox_id": box.id, "path": "d/f", "content": text})
            self.assertTrue(killed.wait(20))
            r = tree.wait(call)
            self.assertEqual((r["status"], r.get("bytes")), ("ok", len(text)), r)
            r = box.run("cmp d/f <(seq 60000) && cat d/f | md5sum")
            self.assertEqual(r["status"], "ok", r)
            if direction == "out":
                self.assertEqual(whole_log(tree, log), ("ok", text))
            r = box.run("wc -c", stdin=text)
            self.assertEqual((r["status"], r["stdout"].strip()), ("ok", str(len(text))), r)
            box.destroy()
            print(f"# cut at byte {byte}, {direction}", flush=True)

    def test_outages(self):
        """Five seconds are outlived; more than eight are not, and that is what is said. Side by
        side, for the seconds it takes."""
        with Tree() as short, Tree() as long, Tree() as stopped:
            life = Life(short, "m")
            lost = [[Sandbox(tree, keep=True) for _ in range(2)] for tree in (long, stopped)]
            ended = Sandbox(short, keep=True)
            ended.destroy()
            life.begin()
            calls = [boxes[0].start("sleep 60") for boxes in lost]
            time.sleep(0.5)
            began = time.monotonic()
            for tree in (short, long):  # whoever would start it again stands still meanwhile
                os.kill(tree.pids()["baileyd"], signal.SIGSTOP)
                tree.kill("bailey-broker")
            broker = stopped.pids()["bailey-broker"]
            os.kill(broker, signal.SIGSTOP)
            time.sleep(5 - (time.monotonic() - began))
            os.kill(short.process.pid, signal.SIGCONT)
            time.sleep(9.7 - (time.monotonic() - began))
            os.kill(long.process.pid, signal.SIGCONT)
            os.kill(broker, signal.SIGCONT)
            life.check(self)
            r = ended.run("true")
            self.assertEqual(r["status"], "not_found", r)
            self.assertIn("it was destroyed", r["message"])
            for boxes, call in zip(lost, calls):
                r = boxes[0].tree.wait(call, 30)
                self.assertEqual(r["status"], "lost", r)
                self.assertRegex(r["message"], r"broker was silent for (9|1\d) s")
                for box in boxes:
                    r = until(lambda: self.ending(box), 10)
                    self.assertRegex(r["message"], r"ended \d+ seconds ago because the broker was silent for (9|1\d) s")

    def ending(self, box):
        r = box.run("true")
        return r if r["status"] == "not_found" else None


if __name__ == "__main__":
    tap.main()
