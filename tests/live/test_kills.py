#!/usr/bin/env python3
"""kill -9 of each process of a tree, of its guests and of all at once; signals; clients that leave.

Whatever ends how: calls are told the truth, nothing of the tree runs ten seconds later, and what
was only created is removed by the next tree of that user. Trees whose boxes end by their own
dead-man's switch are killed together, so that the eight seconds are waited for once.
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
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from tree import BUILD, Gone, Tree, engine, for_users, gone_within, no_boxes_within, users  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
LATEST_END = 10.0  # seconds: dead-man's switch and removal
SLEEP = {"language": "bash", "code": "echo begun; sleep 60", "timeout_seconds": 100}


def state_of(pid):
    """Letter of the process' state; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def start_time(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[19])


def orphans(seconds=2.0):
    """Bailey processes that outlived their tree: as subreaper this program inherits them."""
    end = time.monotonic() + seconds
    while True:
        left = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                head, tail = (entry / "stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)
                state, parent = tail.split()[:2]
                if int(parent) == os.getpid() and state != "Z" and "(bailey" in head:
                    left.append((head, state))
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def begun(tree, token=7):
    """A run that certainly goes on: its first output has come."""
    call = tree.start("execute_code", SLEEP, token=token)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            _, note = tree.notes.get(timeout=0.5)
        except queue.Empty:
            continue
        if note.get("method") == "notifications/progress" and "begun" in note["params"].get("message", ""):
            return call
    raise AssertionError("the run did not begin")


def box_pid(box):
    status, found = engine.request("GET", f"/containers/{box['Id']}/json")
    return found["State"]["Pid"] if status == 200 else 0


def new_pid(tree, program, old, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid = tree.pids().get(program[:15])
        if pid not in (None, old):
            return pid
        time.sleep(0.02)
    raise AssertionError(f"{program} was not started again")


def outcome(tree, call, timeout=30):
    """The status a call ended with; "closed" when the server went without an answer."""
    try:
        return tree.wait(call, timeout)["status"]
    except Gone:
        return "closed"


def idle(tree):
    """Pool full, nothing in flight."""
    tree.wait_ready("python")
    tree.wait_ready("shell")
    return None


def in_run(tree):
    tree.wait_ready("shell")
    return begun(tree)


def in_create(tree):
    """A cold call whose container the engine has at most just created."""
    tree.request("tools/list")
    call = tree.start("execute_code", SLEEP)
    end = time.monotonic() + 5
    while not tree.boxes() and time.monotonic() < end:
        pass
    return call


PHASES = {"idle": (idle, {}), "run": (in_run, {}), "create": (in_create, {"BAILEY_POOL": "0"})}


class Case(unittest.TestCase):
    def none_left(self, tree_pid, seconds, running=True):
        """The engine shows no (running) box of that tree after so many seconds."""
        if not no_boxes_within(tree_pid, seconds, running):
            left = [
                (box["State"], box["Status"], box["Names"])
                for box in engine.boxes()
                if box["Labels"].get("io.bailey.tree-pid") == str(tree_pid)
            ]
            self.fail(f"left behind: {left}")


class Kills(Case):
    def tearDown(self):
        self.assertEqual(orphans(), [])

    def restarted(self, program, phase, expected):
        """Kills a program that is started again; the same connection goes on."""
        prepare, env = PHASES[phase]
        def body(user):
            with Tree(user=user, env=env) as tree:
                call = prepare(tree)
                before = {box["Id"] for box in tree.boxes()}
                old = tree.kill(program)
                measure = pace.Measure()
                killed = time.monotonic()
                if call and expected == "again":
                    # It was resubmitted, so it runs now; end it by its connection's next cancel.
                    self.assertEqual(tree.run("bash", "echo next")["stdout"], "next\n")
                    self.assertTrue(tree.waiting[call].empty())
                    tree.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})
                elif call and expected:
                    self.assertEqual(outcome(tree, call), expected)
                    self.assertLess(measure.ours(), 3, measure)
                r = tree.run("bash", "echo next")
                self.assertEqual((r["status"], r["stdout"]), ("ok", "next\n"), r)
                self.assertLess(measure.ours(), 8, measure)
                new_pid(tree, program, old)
                if program == "bailey-broker":  # its boxes die with it, well before their own switch
                    self.gone_of(before, killed + 3)
                elif call:
                    self.assertTrue(tree.waiting[call].empty())
                self.assertIn("restarts", str(tree.health()))
                pid = tree.process.pid
                self.assertEqual(tree.close(), 0)
                self.none_left(pid, 3, running=False)

        for_users(self, body)

    def gone_of(self, ids, until):
        left = ids
        while left:
            left = ids & {box["Id"] for box in engine.boxes(running=True)}
            if not left:
                return
            self.assertLess(time.monotonic(), until, f"still running: {left}")
            time.sleep(0.1)

    def test_broker_idle(self):
        self.restarted("bailey-broker", "idle", None)

    def test_broker_during_a_run_which_is_lost(self):
        self.restarted("bailey-broker", "run", "lost")

    def test_broker_during_a_cold_create_which_is_submitted_again(self):
        self.restarted("bailey-broker", "create", "again")

    def test_reaper_idle(self):
        self.restarted("bailey-reaper", "idle", None)

    def test_reaper_during_a_run_which_goes_on(self):
        self.restarted("bailey-reaper", "run", None)

    def test_reaper_during_a_cold_create(self):
        self.restarted("bailey-reaper", "create", None)

    def test_reaper_gone_still_ends_a_run_at_its_limit(self):
        def body(user):
            with Tree(user=user) as tree:
                tree.wait_ready("shell")
                call = tree.start("execute_code", {"language": "bash", "code": "sleep 60", "timeout_seconds": 2})
                time.sleep(0.3)
                old = tree.kill("bailey-reaper")
                self.assertEqual(outcome(tree, call), "timed_out")
                new_pid(tree, "bailey-reaper", old)
                self.assertEqual(tree.run("bash", "echo x")["status"], "ok")

        for_users(self, body)

    def test_broker_and_reaper_together(self):
        def body(user):
            with Tree(user=user) as tree:
                call = in_run(tree)
                before = {box["Id"] for box in tree.boxes()}
                for program in ("bailey-broker", "bailey-reaper"):
                    tree.kill(program)
                self.assertEqual(outcome(tree, call), "lost")
                self.assertEqual(tree.run("bash", "echo x")["status"], "ok")
                self.gone_of(before, time.monotonic() + LATEST_END)

        for_users(self, body)

    def test_broker_again_and_again(self):
        def body(user):
            with Tree(user=user) as tree:
                for number in range(4):
                    tree.kill("bailey-broker")
                    r = tree.run("bash", f"echo {number}")
                    self.assertIn(r["status"], ("ok", "engine_unavailable"), r)
                    time.sleep(0.2)
                deadline = time.monotonic() + 8
                while tree.run("bash", "echo x")["status"] != "ok":
                    self.assertLess(time.monotonic(), deadline)

        for_users(self, body)

    def test_what_the_engine_still_creates_for_a_dead_broker(self):
        """It goes on with a create whose asker is gone; the next broker must not miss the result."""

        def body(user):
            with Tree(user=user, env={"BAILEY_POOL": "0"}) as tree:
                tree.run("bash", "echo x")
                for step in range(4):
                    # several at once, so that the engine is slow
                    calls = [tree.start("execute_code", {"language": "bash", "code": "echo x"}) for _ in range(6)]
                    time.sleep(0.01 * step)
                    old = tree.kill("bailey-broker")
                    for call in calls:
                        self.assertIn(outcome(tree, call), ("ok", "lost"))
                    new_pid(tree, "bailey-broker", old)
                self.none_left(tree.process.pid, 5, running=False)

        for_users(self, body)

    def test_guest_init_of_a_run_which_is_lost(self):
        def body(user):
            with Tree(user=user) as tree:
                idle(tree)
                waiting = {box["Id"] for box in tree.boxes()}
                call = begun(tree)
                for box in tree.boxes(running=True):
                    if box["Id"] in waiting:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(box_pid(box) or 1 << 22, signal.SIGKILL)
                self.assertEqual(outcome(tree, call), "lost")
                # The rest of the pool was killed too: none of the dead is handed out.
                for language, code in (("bash", "echo x"), ("python", "print('x')")):
                    r = tree.run(language, code)
                    self.assertEqual((r["status"], r["stdout"]), ("ok", "x\n"), r)

        for_users(self, body)

    def test_guest_init_of_a_cold_create(self):
        """A call that had not begun in the box that died begins in another one; any other is told."""
        def body(user):
            with Tree(user=user, env={"BAILEY_POOL": "0"}) as tree:
                call = tree.start("execute_code", {"language": "bash", "code": "sleep 3; echo whole"})
                pid = 0
                while not pid and tree.waiting[call].empty():
                    for box in tree.boxes():
                        pid = pid or box_pid(box)
                self.assertGreater(pid, 0, "the call ended before its box was seen")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                r = tree.wait(call, 30)
                self.assertIn(r["status"], ("lost", "engine_unavailable", "start_timeout", "internal", "ok"))
                self.assertEqual(r["stdout"], "whole\n" if r["status"] == "ok" else "")
                self.assertEqual(tree.run("bash", "echo x")["status"], "ok")

        for_users(self, body)

    def test_guest_init_stopped_in_the_pool(self):
        """SIGSTOP of a waiting guest: the pool throws it away, no call waits for it long."""
        def body(user):
            with Tree(user=user) as tree:
                idle(tree)
                stopped = tree.boxes(running=True)
                pids = [box_pid(box) for box in stopped]
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                try:
                    time.sleep(7)
                    r = tree.run("bash", "echo x", timeout_seconds=5)
                    self.assertEqual((r["status"], r["stdout"]), ("ok", "x\n"), r)
                    self.gone_of({box["Id"] for box in stopped}, time.monotonic() + 5)
                finally:
                    for pid in pids:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGCONT)

        for_users(self, body)

    def begin_all(self, stack):
        """A tree in every phase for every user: (name, tree, its processes)."""
        trees = []
        for user in users():
            for phase, (prepare, env) in PHASES.items():
                tree = stack.enter_context(Tree(user=user, env=env))
                trees.append((f"{user or 'self'}, {phase}", prepare, tree))
        for late in (False, True):  # what is being created is not left alone for long
            for _, prepare, tree in trees:
                if (prepare is in_create) == late:
                    prepare(tree)
        return [(name, tree, list(tree.pids().values())) for name, _, tree in trees]

    def killed_together(self, *kills):
        """Each (word, kill, exit codes) in every phase, for every user, at the same time; nothing may
        be left. What the first leaves to its own switch ends while the next ones are prepared."""
        with contextlib.ExitStack() as stack:
            dead = []
            for word, kill, exits in kills:
                trees = self.begin_all(stack)
                for _, tree, _ in trees:
                    kill(tree)
                killed = time.monotonic()
                dead += [(f"{word}: {name}", tree, killed) for name, tree, _ in trees]
                for _, tree, _ in trees:
                    self.assertIn(tree.process.wait(4), exits)
                for name, tree, own in trees:
                    with self.subTest(f"{word}: {name}, processes"):
                        self.assertEqual([pid for pid in own if not gone_within(pid, 2)], [])
                        self.assertTrue(tree.closed.wait(2))
            for name, tree, killed in dead:
                with self.subTest(name):
                    self.assertTrue(
                        no_boxes_within(tree.process.pid, killed + LATEST_END - time.monotonic()), tree.boxes()
                    )
        self.assertEqual(orphans(), [])

    def test_frontend(self):
        self.killed_together(("frontend", lambda tree: tree.kill("bailey-frontend"), range(1, 256)))

    def test_supervisor_and_all_at_once(self):
        self.killed_together(
            ("supervisor", lambda tree: tree.process.kill(), [-signal.SIGKILL]),
            ("all", lambda tree: tree.kill_all(), [-signal.SIGKILL]),
        )

    def test_what_a_killed_tree_created_is_removed_by_the_next(self):
        """After kill -9 of all during creates nothing may survive the next tree's first listing."""
        def body(user):
            dead = []
            for delay in (0.0, 0.005, 0.01, 0.02, 0.05):
                with Tree(user=user, env={"BAILEY_POOL": "0"}) as tree:
                    for _ in range(4):
                        tree.start("execute_code", SLEEP)
                    while not tree.boxes():
                        pass
                    time.sleep(delay)
                    tree.kill_all()
                    dead.append(tree.process.pid)
            with Tree(user=user) as tree:
                tree.request("tools/list")
                for pid in dead:
                    self.none_left(pid, LATEST_END, running=False)

        for_users(self, body)


class Ends(Case):
    """The client leaves, or somebody asks the tree to end."""

    def tearDown(self):
        self.assertEqual(orphans(), [])

    def ends(self, leave, answers, limit=1.0):
        def body(user):
            with Tree(user=user) as tree:
                idle(tree)
                call = begun(tree)
                pids = list(tree.pids().values())
                guests = [pid for pid in map(box_pid, tree.boxes(running=True)) if pid]
                left = time.monotonic()
                leave(tree)
                for pid in guests:
                    self.assertTrue(gone_within(pid, left + limit - time.monotonic()), "a box lives on")
                self.assertEqual(tree.process.wait(left + limit - time.monotonic()), 0)
                self.assertEqual([pid for pid in pids if not gone_within(pid, 0.2)], [])
                self.assertIn(outcome(tree, call, 1), answers)
                self.none_left(tree.process.pid, 2, running=False)

        for_users(self, body)

    def test_stdin_closed_during_a_run(self):
        self.ends(lambda tree: tree.process.stdin.close(), ("closed", "cancelled"))

    def test_sigterm(self):
        self.ends(lambda tree: tree.process.terminate(), ("closed", "cancelled"))

    def test_sigint(self):
        self.ends(lambda tree: tree.process.send_signal(signal.SIGINT), ("closed", "cancelled"))

    def test_sighup(self):
        self.ends(lambda tree: tree.process.send_signal(signal.SIGHUP), ("closed", "cancelled"))

    def test_a_client_killed_at_both_ends_of_its_pipes(self):
        def leave(tree):
            # stdout first: the reader thread holds it, so shut the descriptor itself
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, tree.process.stdout.fileno())
            os.close(null)
            tree.process.stdin.close()

        self.ends(leave, ("closed",))

    def test_stdin_closed_at_every_moment_of_a_cold_call(self):
        def body(user):
            dead = []
            for step in range(8):
                with Tree(user=user, env={"BAILEY_POOL": "0"}) as tree:
                    tree.start("execute_code", SLEEP)
                    time.sleep(0.03 * step)
                    pids = list(tree.pids().values())
                    measure = pace.Measure()
                    self.assertEqual(tree.close(3), 0)
                    self.assertLess(measure.ours(), 2.2, measure)
                    self.assertEqual([pid for pid in pids if not gone_within(pid, 0.2)], [])
                    dead.append(tree.process.pid)
            for pid in dead:
                self.none_left(pid, 2, running=False)

        for_users(self, body)

    def test_killed_20_ms_after_its_start(self):
        def body(user):
            pids = []
            for number in range(20):
                tree = Tree(user=user, initialize=False)
                began = time.monotonic()
                if number % 2:
                    with contextlib.suppress(BrokenPipeError):
                        tree.begin("tools/list")
                time.sleep(max(0, began + 0.02 - time.monotonic()))
                pids += tree.pids().values()
                tree.process.kill()
                tree.process.wait(2)
                with contextlib.suppress(BrokenPipeError):
                    tree.process.stdin.close()
                pids.append(tree.process.pid)
            self.assertEqual([pid for pid in pids if not gone_within(pid, 1)], [])
            self.assertEqual(orphans(), [])
            for pid in pids:
                self.none_left(pid, LATEST_END)
            with Tree(user=user) as tree:
                tree.request("tools/list")
                for pid in pids:
                    self.none_left(pid, 5, running=False)

        for_users(self, body)


class Leftovers(Case):
    """Containers with our labels that are not ours, or nobody's any more."""

    def setUp(self):
        self.made = []

    def tearDown(self):
        for made in self.made:
            engine.request("DELETE", f"/containers/{made}?force=1")

    def labels_of(self, tree):
        tree.run("bash", "echo x")
        tree.wait_ready("shell")
        found = dict(tree.boxes()[0]["Labels"])
        return {key: value for key, value in found.items() if key.startswith("io.bailey.")}

    def create(self, labels, start=False, **changes):
        mark = dict(labels, **{"io.bailey.test": "1"}, **{f"io.bailey.{k.replace('_', '-')}": v for k, v in changes.items()})
        body = {
            "Image": "bailey/sandbox:slim",
            "Entrypoint": ["/usr/bin/sleep", "600"],
            "NetworkDisabled": True,
            "Labels": {key: value for key, value in mark.items() if value is not None},
        }
        status, answer = engine.request("POST", "/containers/create", body)
        self.assertEqual(status, 201, answer)
        self.made.append(answer["Id"])
        if start:
            self.assertEqual(engine.request("POST", f"/containers/{answer['Id']}/start")[0], 204)
        return answer["Id"]

    def test_only_what_a_dead_tree_left_is_removed(self):
        me, mine = str(os.getpid()), str(start_time(os.getpid()))
        child = subprocess.Popen(["/bin/true"])
        dead = str(child.pid)
        child.wait()
        def body(user):
            with Tree(user=user) as first:
                labels = self.labels_of(first)
            labels["io.bailey.instance"] = uuid.uuid4().hex
            removed = {
                "dead tree": self.create(labels, tree_pid=dead, tree_start="77"),
                "dead tree, running": self.create(labels, tree_pid=dead, tree_start="77", start=True),
                "pid used again": self.create(labels, tree_pid=me, tree_start="77"),
                "former boot": self.create(labels, tree_pid=me, tree_start=mine, boot=str(uuid.uuid4())),
            }
            kept = {
                "live tree": self.create(labels, tree_pid=me, tree_start=mine),
                "live tree, running": self.create(labels, tree_pid=me, tree_start=mine, start=True),
                "another user's": self.create(labels, tree_pid=dead, tree_start="77", user="0" * 16),
                "other pid namespace": self.create(labels, tree_pid=dead, tree_start="77", pid_ns="4026531999"),
                "no user": self.create(labels, tree_pid=dead, user=None),
                "another product": self.create(labels, tree_pid=dead, product="other"),
            }
            odd = [
                self.create(labels, tree_pid="-1", tree_start="x"),
                self.create(labels, tree_pid="99999999999999999999", tree_start="1" * 400),
                self.create(labels, tree_pid="../../self", pid_ns="\u202e", box="NaN", boot="x" * 5000),
                self.create(labels, tree_pid=None, tree_start=None, pid_ns=None, box=None, boot=None, instance=None),
                self.create(labels, instance="\n\0001\x1b[31m".replace("\0", ""), tree_pid=""),
            ]
            with Tree(user=user) as tree:
                tree.request("tools/list")
                end = time.monotonic() + 8
                left = set(removed.values())
                while left and time.monotonic() < end:
                    left = {box["Id"] for box in engine.boxes()} & set(removed.values())
                    time.sleep(0.1)
                self.assertEqual([name for name, value in removed.items() if value in left], [])
                self.assertEqual(tree.run("bash", "echo x")["status"], "ok")
                for name, value in kept.items():
                    self.assertEqual(engine.request("GET", f"/containers/{value}/json")[0], 200, name)
                restarts = {row["name"]: row["restarts"] for row in tree.health()["processes"]}
                self.assertEqual(set(restarts.values()), {0}, "an odd label broke a process")
            self.assertEqual(len(odd), 5)

        for_users(self, body)

    def test_a_live_tree_beside_it_keeps_its_boxes(self):
        def body(user):
            with Tree(user=user) as one:
                one.wait_ready("shell")
                call = begun(one)
                before = {box["Id"] for box in one.boxes()}
                with Tree(user=user) as other:
                    self.assertEqual(other.run("bash", "echo x")["status"], "ok")
                    other.wait_ready("python")
                    other.kill("bailey-broker")  # its sweep after the restart must spare them too
                    self.assertEqual(other.run("bash", "echo x")["status"], "ok")
                    self.assertLessEqual(before, {box["Id"] for box in one.boxes()})
                self.assertTrue(one.waiting[call].empty())

        for_users(self, body)

    def test_labels_that_claim_to_be_this_tree(self):
        """Somebody who may use the engine labels a container of his as ours: his loss at most."""
        def body(user):
            with Tree(user=user) as tree:
                labels = self.labels_of(tree)
                ahead = str(int(labels["io.bailey.box"]) + 1000000)
                self.create(labels, box="1", start=True)
                self.create(labels, box=ahead, start=True)
                self.create(labels, start=True)
                old = tree.kill("bailey-broker")
                new_pid(tree, "bailey-broker", old)
                for _ in range(5):
                    self.assertEqual(tree.run("bash", "echo x")["status"], "ok")

        for_users(self, body)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    assert (BUILD / "bin" / "bailey").exists(), BUILD
    tap.main()
