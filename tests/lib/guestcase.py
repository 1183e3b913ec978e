"""What tests of guest-init in real containers share: boxes that end with their test."""

import unittest

import guestclient
from guestclient import COMMAND, EXITED, Box


class Case(unittest.TestCase):
    maxDiff = 2000

    def box(self, *args, **options):
        box = Box(*args, **options)
        self.addCleanup(box.close)
        box.wait_frame("g_hello")
        return box

    def ready(self, box_class, **options):
        return self.box(box_class, **options).wait_ready()

    def shell(self, command, **spec):
        return self.box().run(COMMAND, command, **spec)

    def assertEnded(self, run, code=0):
        self.assertEqual((run.exit["how"], run.exit["exit_code"], run.exit["signal"], run.exit["flags"]),
                         (EXITED, code, 0, 0), (run.stdout[-300:], run.stderr[-300:]))

    def inside(self, box):
        """Processes of a container, as the engine's host sees them."""
        state = guestclient.engine("GET", f"/containers/{box.id}/top")
        return state["Processes"]

    def left(self, box):
        """Commands of a container's processes that are neither PID 1 nor a runner of its own."""
        state = guestclient.engine("GET", f"/containers/{box.id}/top?ps_args=-eo%20pid,args")
        return [line[-1] for line in state["Processes"] if not line[-1].startswith("/.bailey/init")]
