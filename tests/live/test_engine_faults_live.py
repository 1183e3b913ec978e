#!/usr/bin/env python3
"""The real engine absent, stopped, killed and frozen under running trees.

A second engine with its own directories (packaging/engine) is what suffers; the one behind
DOCKER_HOST only lends the image. One tree per account goes through everything on one client
connection, so that each recovery is the start of the next fault.
"""

import contextlib
import ctypes
import os
import pathlib
import queue
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from tree import Engine, Gone, Tree, gone_within, users  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = pathlib.Path(f"/run/bailey-faults-{os.getpid()}")
DATA = pathlib.Path(f"/var/lib/bailey-faults-{os.getpid()}")
HOST = f"unix://{RUN}/docker.sock"
IMAGE = os.environ.get("SANDBOX_IMAGE", "bailey/sandbox:slim")
DEADMAN = 8.0
SLEEP = {"language": "bash", "code": "echo begun; sleep 60", "timeout_seconds": 100}


def engine_program(word, *more):
    env = dict(os.environ, BAILEY_ENGINE_RUN=str(RUN), BAILEY_ENGINE_DATA=str(DATA), BAILEY_ENGINE_GROUP="docker")
    done = subprocess.run(
        [str(ROOT / "packaging" / "engine"), word, *more], env=env, capture_output=True, text=True, timeout=120
    )
    if done.returncode != 0:
        raise AssertionError(f"packaging/engine {word}: {done.stdout}{done.stderr}")


def load_image():
    save = subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE)
    load = subprocess.run(["docker", "-H", HOST, "load", "-q"], stdin=save.stdout, capture_output=True, timeout=120)
    save.stdout.close()
    if save.wait(10) != 0 or load.returncode != 0:
        raise AssertionError(f"the image could not be copied: {load.stderr.decode()}")


def dockerd():
    return int((RUN / "dockerd.pid").read_text(encoding="ascii"))


def parent_of(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rsplit(")", 1)[1].split()[1])


def sleepers(seconds):
    """Processes that sleep for so long, in whatever container."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if entry.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(int(entry.parent.name))
    return found


def begun(tree, arguments=None):
    """A run that certainly goes on: its first output has come."""
    while not tree.notes.empty():
        tree.notes.get()
    call = tree.start("execute_code", arguments or SLEEP, token=7)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(queue.Empty):
            _, note = tree.notes.get(timeout=0.2)
            if "begun" in note.get("params", {}).get("message", ""):
                return call
        if not tree.waiting[call].empty():
            break
    raise AssertionError(f"the run did not begin: {tree.wait(call, 0.1)}")


class EngineFaults(unittest.TestCase):
    """One story, told in the order of the names."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root to start an engine of its own")
        cls.engine = Engine()
        cls.engine.path = f"{RUN}/docker.sock"
        cls.trees = []

    @classmethod
    def tearDownClass(cls):
        for tree in cls.trees:
            with contextlib.suppress(Exception):
                tree.__exit__()
        if RUN.exists():
            with contextlib.suppress(Exception):
                os.kill(dockerd(), signal.SIGCONT)
            engine_program("stop", "--purge")

    def each(self):
        for tree in self.trees:
            with self.subTest(user=tree.user or "self"):
                yield tree

    def unavailable(self, tree, seconds):
        """A call ends as engine_unavailable in that time; the words name the engine."""
        measure = pace.Measure()
        r = tree.run("bash", "echo x")
        self.assertEqual(r["status"], "engine_unavailable", r)
        self.assertLess(measure.ours(), seconds, r["message"])
        self.assertIn("engine", r["message"])
        self.assertTrue(r["_isError"])
        self.assertEqual(tree.request("ping", timeout=1)["result"], {})

    def works_again(self, tree, seconds=8):
        """The same connection runs code; the first tries may still meet the old connection."""
        end = time.monotonic() + seconds
        while True:
            r = tree.run("bash", "echo x")
            if r["status"] == "ok":
                break
            self.assertIn(r["status"], ("engine_unavailable", "lost"), r)
            self.assertLess(time.monotonic(), end, r)
            time.sleep(0.2)
        r = tree.run("python", "print(1)")
        self.assertEqual((r["status"], r["stdout"]), ("ok", "1\n"), r)

    def settled(self):
        """What is left is exactly what the pools say they hold, and hardly a process was lost."""
        end = time.monotonic() + 15
        while True:
            boxes = self.engine.boxes()
            pools = [row for tree in self.trees for row in tree.health()["pool"]]
            held = sum(row["ready"] for row in pools)
            if held == len(boxes) >= 3 * len(self.trees) and {box["State"] for box in boxes} == {"running"}:
                break
            self.assertLess(time.monotonic(), end, ([box["Status"] for box in boxes], pools))
            time.sleep(0.2)
        for tree in self.trees:
            restarts = {row["name"]: row["restarts"] for row in tree.health()["processes"]}
            # A removal that nobody confirms for half a minute may cost the broker its life.
            self.assertLessEqual(restarts.pop("broker"), 1)
            self.assertEqual(set(restarts.values()), {0}, (tree.user, restarts))

    def guests(self):
        found = []
        for box in self.engine.boxes(running=True):
            status, answer = self.engine.request("GET", f"/containers/{box['Id']}/json")
            if status == 200 and answer["State"]["Pid"]:
                found.append(answer["State"]["Pid"])
        return found

    def ended(self, tree, call, statuses, seconds):
        began = time.monotonic()
        try:
            r = tree.wait(call, seconds)
        except Gone:
            self.fail("the server went")
        except queue.Empty:
            self.fail(f"no answer within {seconds} s")
        self.assertIn(r["status"], statuses, r)
        self.assertTrue(r["message"])
        return r, time.monotonic() - began

    def test_1_absent_at_start_then_there(self):
        for user in users():
            self.trees.append(Tree(user=user, env={"DOCKER_HOST": HOST}))
        for tree in self.each():
            tree.request("tools/list", timeout=1)
            self.unavailable(tree, 1)
            health = tree.health()
            self.assertEqual(health["status"], "engine_unavailable", health)
            self.assertIn("docker.sock", health["message"])
        engine_program("start")
        load_image()
        for tree in self.each():
            r = tree.run("bash", "echo x")  # the very next call
            self.assertEqual((r["status"], r["stdout"]), ("ok", "x\n"), r)
        self.settled()

    def test_2_sigterm_during_a_run(self):
        stays = {tree: tree.call("container_create_sandbox", {})["sandbox_id"] for tree in self.trees}
        calls = [begun(tree) for tree in self.trees]
        os.kill(dockerd(), signal.SIGTERM)
        for tree, call in zip(self.trees, calls):
            with self.subTest(user=tree.user or "self"):
                self.ended(tree, call, ("lost",), 4)
        self.assertTrue(gone_within(dockerd(), 15) if (RUN / "dockerd.pid").exists() else True)
        for tree in self.each():
            self.unavailable(tree, 1)
        engine_program("start")
        for tree in self.each():
            self.works_again(tree)
            r = tree.call("container_exec_command", {"sandbox_id": stays[tree], "command": "true"})
            self.assertEqual(r["status"], "not_found", r)
            self.assertIn("its engine was stopped or restarted", r["message"])
        self.settled()

    def test_3_sigkill_during_a_run(self):
        calls = [begun(tree) for tree in self.trees]
        guests = self.guests()
        os.kill(dockerd(), signal.SIGKILL)
        killed = time.monotonic()
        for tree, call in zip(self.trees, calls):
            with self.subTest(user=tree.user or "self"):
                self.ended(tree, call, ("lost",), 4)
                self.unavailable(tree, 1)
        # The engine cannot end them now: a reaper does that may signal, else their own switch.
        self.assertGreaterEqual(len(guests), len(calls))
        for pid in guests:
            self.assertTrue(gone_within(pid, killed + DEADMAN + 1.5 - time.monotonic()), "a box lives on")
        engine_program("start")
        for tree in self.each():
            self.works_again(tree)
        self.settled()

    def test_4_shims_and_containerd_killed(self):
        """What keeps the containers dies: their runs are lost, and no process of them is left."""
        calls = [begun(tree) for tree in self.trees]
        guests = self.guests()
        for pid in guests:
            with contextlib.suppress(ProcessLookupError):
                os.kill(parent_of(pid), signal.SIGKILL)
        for tree, call in zip(self.trees, calls):
            with self.subTest(user=tree.user or "self", killed="shims"):
                self.ended(tree, call, ("lost",), DEADMAN + 2)
                self.works_again(tree)
        for pid in guests:
            self.assertTrue(gone_within(pid, DEADMAN + 1.5), "a box lives on")
        calls = [begun(tree) for tree in self.trees]
        guests = self.guests()
        os.kill(int((RUN / "containerd.pid").read_text(encoding="ascii")), signal.SIGKILL)
        for tree in self.trees:
            with self.subTest(user=tree.user or "self", killed="containerd"):
                r = tree.run("node", "console.log(1)", timeout=40)
                self.assertIn(r["status"], ("ok", "engine_unavailable", "internal", "start_timeout"), r)
                self.assertTrue(r["status"] == "ok" or r["message"], r)
        os.kill(dockerd(), signal.SIGKILL)  # its own way to stop waits long for the dead
        for tree, call in zip(self.trees, calls):
            with self.subTest(user=tree.user or "self", killed="containerd"):
                self.ended(tree, call, ("lost",), 5)
        for pid in guests:
            self.assertTrue(gone_within(pid, DEADMAN + 1.5), "a box lives on")
        engine_program("start")
        for tree in self.each():
            self.works_again(tree)
        self.settled()

    def test_5_frozen_during_runs(self):
        limit = 2
        short = {"language": "bash", "code": "echo begun; (setsid sleep 61.07 &); sleep 61.07", "timeout_seconds": limit}
        for number, tree in enumerate(self.trees):  # without old removals that may grow stale meanwhile
            self.assertEqual(tree.close(), 0)
            self.trees[number] = Tree(user=tree.user, env={"DOCKER_HOST": HOST})
        runs = [(tree, begun(tree, short), begun(tree)) for tree in self.trees]
        guests, limited = self.guests(), sleepers(61.07)
        os.kill(dockerd(), signal.SIGSTOP)
        frozen = time.monotonic()
        try:
            fresh = [(tree, tree.start("execute_code", {"language": "node", "code": "1"})) for tree in self.trees]
            # Into a waiting sandbox, where there is one: it never gets there, so it used up no time.
            written = [(tree, tree.start("execute_code", {"language": "python", "code": "1", "timeout_seconds": 1})) for tree in self.trees]
            self.assertEqual(len(limited), 2 * len(self.trees))
            for pid in limited:  # ended by who needs no engine for it
                self.assertTrue(gone_within(pid, frozen + limit + 2 - time.monotonic()), "past its limit")
            for tree, call, _ in runs:
                with self.subTest(user=tree.user or "self", run="limited"):
                    # guest-init ended it in time; its word cannot come through
                    self.ended(tree, call, ("timed_out",), 6)
                    self.assertEqual(tree.request("ping", timeout=1)["result"], {})
            for pid in guests:
                self.assertTrue(gone_within(pid, frozen + DEADMAN + 1.5 - time.monotonic()), "a box lives on")
            for tree, call in written:
                with self.subTest(user=tree.user or "self", run="written"):
                    self.ended(tree, call, ("lost", "engine_unavailable", "start_timeout"), 20)
            for tree, call in fresh:
                with self.subTest(user=tree.user or "self", run="new"):
                    self.ended(tree, call, ("engine_unavailable", "start_timeout"), 20)
                    self.unavailable(tree, 4)
        finally:
            os.kill(dockerd(), signal.SIGCONT)
        for tree, _, sleeping in runs:
            with self.subTest(user=tree.user or "self", run="sleeping"):
                self.ended(tree, sleeping, ("lost",), 5)
                self.works_again(tree)
        self.settled()

    def test_6_trees_end_beside_a_dead_engine(self):
        for tree in self.trees:
            begun(tree)
        os.kill(dockerd(), signal.SIGSTOP)
        try:
            for tree in self.each():
                measure = pace.Measure()
                self.assertEqual(tree.close(), 0)
                self.assertLess(measure.ours(), 2.5, measure)
        finally:
            os.kill(dockerd(), signal.SIGCONT)
        end = time.monotonic() + DEADMAN + 2
        while self.engine.boxes(running=True):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: daemons end with this program
    tap.main()
