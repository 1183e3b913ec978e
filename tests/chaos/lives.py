"""The lives that faults come into: a single-use run and a sandbox that stays, step by step.

    life = SingleUse(tree, "running", rng); life.reach()     # its calls are under way at that step
    … the fault …
    life.finish(fault)                                       # waits for the endings
"""

import contextlib
import time

from tree import Gone

CHILDREN = "sleep 60 & (sleep 60 & sleep 60 & wait) & setsid sleep 60 & wait; sleep 60"
CODES = {
    "running": ("bash", "echo begun $EPOCHREALTIME; " + CHILDREN),
    "python": ("python", "import subprocess, time\nprint('begun', time.time(), flush=True)\n"
                         "for p in [subprocess.Popen(['sleep', '60']) for _ in range(3)]: p.wait()"),
    "flowing": ("bash", "echo begun $EPOCHREALTIME; yes $CHAOS_WORD | head -c 1500000; while sleep 0.01; do echo $CHAOS_WORD; done"),
    "ending": ("bash", "echo begun $EPOCHREALTIME; sleep 0.1; echo $CHAOS_WORD"),
    "sleep": ("bash", "sleep 60"),
    "echo": ("bash", "echo $CHAOS_WORD"),
}  # fmt: skip
EVAL = "import subprocess\nprint('begun', __import__('time').time(), flush=True)\nsubprocess.run(['sleep', '60'])"
FILE = "x" * 400_000
BEGIN_WITHIN = 20.0
COLD_MB = 64  # less than twice the default file systems: always a box of its own


class Life:
    def __init__(self, tree, step, rng, runs):
        self.tree, self.step, self.rng, self.runs = tree, step, rng, runs
        self.calls = []  # [call, word]
        self.box = None

    def submit(self, kind, want, timeout, **more):
        language, code = CODES[kind]
        call, word = self.tree.run_word(code, language, want, timeout_seconds=timeout, **more)
        self.calls.append((call, word))
        return call, word

    def begin(self, kind, want, timeout, **more):
        """A run whose processes are known and watched."""
        call, word = self.submit(kind, want, timeout, **more)
        if self.tree.wait_begun(call, word, timeout, BEGIN_WITHIN):
            time.sleep(0.03)
            self.runs.look(word)
        return call, word

    def find_box(self):
        """The box of the newest run, else any of the tree's."""
        boxes = self.tree.engine_used.watch.of(self.tree.key)
        for _, word in reversed(self.calls):
            for box in self.runs.boxes_of(word):
                if box in boxes:
                    return box, boxes[box]
        return next(iter(boxes.items()), None)

    def finish(self, fault):
        for call, word in self.calls:
            self.tree.answer(call, 70)
            self.runs.wait_dead(word, 3)


class SingleUse(Life):
    STEPS = ("before submit", "queued", "starting", "running", "flowing", "ending", "clean-up")

    def reach(self):
        rng, step = self.rng, self.step
        self.later = None
        if step == "before submit":
            self.later = lambda: self.submit("echo", ("ok",), 10)
        elif step == "queued":
            self.fill()
        elif step == "starting":
            self.submit("echo", ("ok",), 10, memory_mb=COLD_MB)
            time.sleep(rng.uniform(0, 0.2))
        elif step in ("running", "flowing"):
            kind = "python" if step == "running" and rng.random() < 0.3 else step
            self.begin(kind, ("timed_out",), round(rng.uniform(0.5, 1.5), 3))
            time.sleep(rng.uniform(0, 0.1))
        elif step == "ending":
            call, word = self.submit("ending", ("ok",), 10)
            self.tree.wait_begun(call, word, 10, BEGIN_WITHIN)
            time.sleep(rng.uniform(0.08, 0.12))
        elif step == "clean-up":
            call, _ = self.submit("echo", ("ok",), 10)
            self.tree.answer(call, 70)
            self.calls.pop()
            time.sleep(rng.uniform(0, 0.02))

    def fill(self):
        """As many runs as fit, each of the greatest memory, and one more."""
        health = self.tree.health()
        most = health["limits"]["memory_max_bytes"]
        usage = health["usage"]
        fillers = [self.submit("sleep", ("timed_out",), 20, memory_mb=most >> 20)[0]
                   for _ in range(min(usage["sandboxes_max"], usage["own_memory_max_bytes"] // most))]  # fmt: skip
        self.submit("echo", ("ok",), 10, memory_mb=most >> 20)
        self.later = lambda: [self.tree.cancel(call) for call in fillers]
        time.sleep(self.rng.uniform(0, 0.5))

    def finish(self, fault):
        with contextlib.suppress(Gone):
            if self.later:
                self.later()
        super().finish(fault)


class Stays(Life):
    STEPS = ("create", "exec", "eval", "write", "idle", "destroy")

    def reach(self):
        rng, step = self.rng, self.step
        self.kept_word = self.sandbox = None
        if step == "create":
            self.create(rng.choice(({}, {"memory_mb": COLD_MB})))
            time.sleep(rng.uniform(0, 0.1))
            return
        self.create({})
        self.created()
        if not self.sandbox:
            return
        if step == "exec":
            self.begin_in("container_exec_command", CODES["running"][1])
        elif step == "eval":
            call = self.ask("sandbox_eval", ("timed_out", "ok"), language="python", code=EVAL, timeout_seconds=1)
            self.tree.wait_begun(call, None, 1, 3)
        elif step == "write":
            self.ask("container_write_file", ("ok",), path="big", content=FILE)
            time.sleep(rng.uniform(0, 0.02))
        elif step == "destroy":
            self.ask("container_destroy_sandbox", ("ok",))
            self.sandbox = None
            time.sleep(rng.uniform(0, 0.02))

    def ask(self, tool, want, **arguments):
        call = self.tree.start(tool, {"sandbox_id": self.sandbox, **arguments}, want=want)
        self.calls.append((call, None))
        return call

    def begin_in(self, tool, code):
        timeout = round(self.rng.uniform(0.5, 1.5), 3)
        call, word = self.tree.run_word(code, None, ("timed_out",), tool, sandbox_id=self.sandbox, timeout_seconds=timeout)
        self.calls.append((call, word))
        if self.tree.wait_begun(call, word, timeout, BEGIN_WITHIN):
            time.sleep(0.03)
            self.runs.look(word)

    def create(self, arguments):
        self.creating = self.tree.start("container_create_sandbox", arguments)

    def created(self):
        r = self.tree.answer(self.creating, 70)
        self.creating = None
        if r["status"] != "ok":
            return
        self.sandbox = r["sandbox_id"]
        self.tree.history.add("sandbox", sandbox=self.sandbox, tree=self.tree.name)
        call, word = self.tree.run_word("echo $CHAOS_WORD | tee kept", None, ("ok",), "container_exec_command",
                                        sandbox_id=self.sandbox)  # fmt: skip
        if self.tree.answer(call, 70)["status"] == "ok":
            self.kept_word = word

    def finish(self, fault):
        super().finish(fault)
        if self.creating:
            self.created()
        if not self.sandbox or self.tree.closed.is_set() or not self.tree.recover(fault["n"]):
            return
        with contextlib.suppress(Gone):
            if self.kept_word:
                call = self.tree.start("container_exec_command", {"sandbox_id": self.sandbox, "command": "cat kept"},
                                       want=("ok",))  # fmt: skip
                r = self.tree.answer(call, 70)
                kept = r["status"] == "ok" and r.get("stdout", "").strip() == self.kept_word
                self.tree.history.add("kept", sandbox=self.sandbox, tree=self.tree.name, kept=kept, fault=fault["n"],
                                      told=[r["status"], r["message"]])
            call = self.tree.start("container_destroy_sandbox", {"sandbox_id": self.sandbox}, want=("ok", "not_found"))
            self.tree.answer(call, 70)
            self.tree.history.add("destroyed", sandbox=self.sandbox)


LIVES = {"single": SingleUse, "stays": Stays}
