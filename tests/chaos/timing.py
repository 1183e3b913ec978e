"""How long a tree of processes outlives its deadline, a cancel, its client: without other faults.

Samples are runs with children of their own, four at a time in sandboxes that stay; the history gets
    timed  word, what, since        the end of the tree is the run's "dead"
A deadline is counted from before its call was sent: the figures hold all of the call's way as well.
"""

import concurrent.futures
import contextlib
import os
import signal
import time

from lives import CHILDREN
from tree import users

CODE = "echo begun $EPOCHREALTIME; " + CHILDREN
PROCESSES = 5  # at least, of CODE
TRIES = 5
AT_ONCE = 4
FROZEN = 3.5  # seconds the engine stands still, less than a box bears


class Samples:
    def __init__(self, chaos, tree):
        self.chaos, self.tree, self.history = chaos, tree, chaos.history
        r = tree.answer(tree.start("container_create_sandbox", {}), 60)
        self.sandbox = r["sandbox_id"]

    def begin(self, timeout, want=("timed_out",)):
        """A run whose processes are all known in time; on a busy machine that may take some tries.
        (call, word, when it was asked for)"""
        for _ in range(TRIES):
            asked = time.monotonic()
            call, word = self.tree.run_word(CODE, None, want, "container_exec_command", sandbox_id=self.sandbox, timeout_seconds=timeout)
            if self.tree.wait_begun(call, word, timeout, 20):
                time.sleep(0.05)
                if self.chaos.runs.look(word) >= PROCESSES:
                    return call, word, asked
            self.tree.cancel(call)
        raise AssertionError("the processes of a run were not found")

    def timed(self, word, what, since):
        self.history.add("timed", word=word, what=what, since=since)

    def deadline(self, what="deadline to tree dead, engine healthy", timeout=0.6):
        call, word, asked = self.begin(timeout)
        self.timed(word, what, asked + timeout)
        self.chaos.runs.wait_dead(word, 5)
        self.tree.answer(call, 30)

    def cancel(self):
        call, word, _ = self.begin(20, ("cancelled",))
        self.timed(word, "cancel to tree dead", time.monotonic())
        self.tree.cancel(call)
        self.chaos.runs.wait_dead(word, 5)


def client_gone(chaos, engine, user):
    tree = chaos.tree(engine, user, "0")
    samples = Samples(chaos, tree)
    words = [samples.begin(20, ("cancelled", "lost"))[1] for _ in range(2)]
    call, word = tree.run_word(CODE, want=("cancelled", "lost"), timeout_seconds=20)
    if tree.wait_begun(call, word, 20, 20):
        time.sleep(0.05)
        chaos.runs.look(word)
        words.append(word)
    for word in words:
        samples.timed(word, "client gone to tree dead", time.monotonic())
    tree.leave("gone")
    with contextlib.suppress(OSError):
        tree.process.stdin.close()
    for word in words:
        chaos.runs.wait_dead(word, 5)
    tree.gone()


def frozen(engine, samples, pool, count):
    """Deadlines that fall while the engine stands still."""
    begun = [pool.submit(one.deadline, "deadline to tree dead, engine stopped", 1.5) for one in samples for _ in range(count)]
    time.sleep(1.0)
    engine.state("stopped")
    os.kill(engine.pid("dockerd"), signal.SIGSTOP)
    time.sleep(FROZEN)
    os.kill(engine.pid("dockerd"), signal.SIGCONT)
    engine.state("up")
    for one in begun:
        one.result()


def measure(chaos, calm, sick, count):
    """count samples of each kind; those of a stopped engine on the one that may be stopped."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        trees = [chaos.tree(calm, user, "0") for user in users()]
        samples = [Samples(chaos, tree) for tree in trees]
        list(pool.map(lambda n: samples[n % len(samples)].deadline(), range(count)))
        list(pool.map(lambda n: samples[n % len(samples)].cancel(), range(count)))
        for tree in trees:
            tree.end()
        for n in range(max(1, count // 6)):
            client_gone(chaos, calm, users()[n % len(users())])
        for _ in range(max(1, count // 40)):
            trees = [chaos.tree(sick, user, "0") for user in users()]
            frozen(sick, [Samples(chaos, tree) for tree in trees], pool, AT_ONCE // len(trees))
            for tree in trees:
                tree.end()
