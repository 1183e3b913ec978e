#!/usr/bin/env python3
"""A real limit of processes over a tree of our own: a process that has to be started again cannot be.

Calls say what is missing, what needs it not goes on, and all works again once there is room, on the
same connection, with the sandboxes there were.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from tree import Gone, Tree, for_users, no_boxes_within  # noqa: E402

HINT = "the pids limit of its cgroup"
V2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers")
TOP = V2.parent if V2.exists() else V2.parent / "pids"


class Group:
    """A cgroup with a limit of processes; a tree started with preexec=group.join is born in it."""

    def __init__(self, name):
        self.path = TOP / f"bailey-pids-{os.getpid()}-{name}"

    def __enter__(self):
        self.path.mkdir()
        self.procs = os.open(self.path / "cgroup.procs", os.O_WRONLY)
        return self

    def __exit__(self, *unused):
        os.close(self.procs)
        until(lambda: not (self.path / "cgroup.procs").read_text(), 10)
        self.path.rmdir()

    def join(self):
        os.write(self.procs, b"0")  # opened by root, which is what the kernel asks for

    def most(self, number):
        (self.path / "pids.max").write_text(str(number))

    def full(self):
        """Whoever is there may stay, and nobody take the place of one who goes."""
        self.most(int((self.path / "pids.current").read_text()) - 1)


@unittest.skipUnless(os.geteuid() == 0 and (TOP / "cgroup.procs").exists() and
                     (not V2.exists() or "pids" in (TOP / "cgroup.subtree_control").read_text()),
                     "needs root and a pids controller")
class PidsLimit(unittest.TestCase):
    @contextlib.contextmanager
    def limited(self, user, most="max", **arguments):
        with tempfile.TemporaryFile() as log, Group(user or "self") as group:
            group.most(most)
            with Tree(user=user, stderr=os.fdopen(os.dup(log.fileno()), "wb"), preexec=group.join, **arguments) as tree:
                def said():
                    log.seek(0)
                    return log.read().decode()
                yield tree, group, said

    def works(self, tree, seconds):
        """An ok in that time, and nothing but the truth before."""
        end = time.monotonic() + seconds
        while (r := tree.run("bash", "echo x"))["status"] != "ok":
            self.assertIn(r["status"], ("engine_unavailable", "start_timeout", "queue_timeout"), r)
            self.assertLess(time.monotonic(), end, r)
        self.assertEqual(r["stdout"], "x\n")

    def ends(self, tree):
        """As its client wants it, and with nothing left."""
        self.assertEqual(tree.close(), 0)
        self.assertTrue(no_boxes_within(tree.process.pid, 5, running=False))

    def test_broker(self):
        """Gone for less long than its sandboxes wait for the next one: nothing is lost."""

        def body(user):
            with self.limited(user) as (tree, group, said):
                box = Sandbox(tree)
                self.assertEqual(box.run("echo kept > f; cat f")["stdout"], "kept\n")
                going = box.start("sleep 2; echo through", timeout_seconds=20)
                box.run("true")
                group.full()
                tree.kill("bailey-broker")
                until(lambda: HINT in said(), 5)
                time.sleep(1.5)  # several attempts fail
                health = tree.health()
                self.assertEqual(health["status"], "engine_unavailable", health)
                self.assertIn("broker", health["message"])
                group.most("max")
                self.works(tree, 15)
                self.assertEqual(box.run("cat f")["stdout"], "kept\n")
                r = tree.wait(going)
                self.assertEqual((r["status"], r["stdout"]), ("ok", "through\n"), r)
                self.assertIn("bailey-broker cannot be started", said())
                self.ends(tree)

        for_users(self, body)

    def test_reaper(self):
        """No new sandbox, as nobody could end it; those there are go on, past the deadline of a run that ended meanwhile."""

        def body(user):
            with self.limited(user, env={"BAILEY_POOL": "0"}) as (tree, group, said):
                box = Sandbox(tree)
                self.assertEqual(box.run("echo kept > f; cat f")["stdout"], "kept\n")
                going = box.start("sleep 1; echo through", timeout_seconds=4)
                box.run("true")
                group.full()
                begun = time.monotonic()
                tree.kill("bailey-reaper")
                self.assertEqual(tree.wait(going)["stdout"], "through\n")
                until(lambda: any("reaper" in text and "not running" in text for text in tree.health()["warnings"]), 10)
                refused = tree.start("execute_code", {"language": "bash", "code": "echo x"})
                time.sleep(max(0, begun + 5 - time.monotonic()))
                self.assertEqual(box.run("cat f")["stdout"], "kept\n")
                self.assertIn("bailey-reaper cannot be started", said())
                self.assertIn(HINT, said())
                group.most("max")
                self.works(tree, 15)  # the next attempt is at most five seconds away
                time.sleep(0.5)
                self.assertEqual(box.run("cat f")["stdout"], "kept\n")
                self.assertEqual(tree.wait(refused)["status"], "ok")  # it waited, and then ran
                self.ends(tree)

        for_users(self, body)

    def test_from_the_start(self):
        """Room for the supervisor alone: it says so and ends. For the frontend too: it answers, and all works later."""

        def body(user):
            with self.limited(user, most=1, initialize=False) as (tree, _, said):
                with pace.within(self, 5, "to the end"), contextlib.suppress(Gone, BrokenPipeError):
                    tree.initialize()
                self.assertNotEqual(tree.process.wait(5), 0)
                self.assertIn("Resource temporarily unavailable", said())
                self.assertIn(HINT, said())
            with self.limited(user, most=2) as (tree, group, said):
                until(lambda: "bailey-broker cannot be started" in said(), 5)
                self.assertEqual({tool["name"] for tool in tree.request("tools/list")["result"]["tools"]} > {"execute_code"}, True)
                group.most("max")
                self.works(tree, 15)

        for_users(self, body)


if __name__ == "__main__":
    tap.main()
