"""kill -9 of all processes of many trees at once: nothing of them may run ten seconds later.

Every tree is at another step. What was only created stays until a next tree of that user first
uses the engine; there can be at most as many of these as creates were under way. The history gets
    mass  n, trees, running, created, creating, processes, left
running, created and processes are counted 10 s later, left after the next trees' first call.
"""

import concurrent.futures
import contextlib
import os
import signal
import time

from lives import LIVES
from tree import Gone, users
from watch import ledger_file, records

AFTER = 10.0
REMOVED = 6.0  # seconds
UNSTARTED = (1, 2)  # reaper/reaper.h: BOX_INTENDED, BOX_CREATED


def alive(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def kill_all(chaos, engine, number, count, rng):
    accounts = users()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        trees = list(pool.map(lambda n: chaos.tree(engine, accounts[n % len(accounts)], rng.choice("10")), range(count)))
        lives = []
        for tree in trees:
            kind = rng.choice(list(LIVES))
            lives.append(LIVES[kind](tree, rng.choice(LIVES[kind].STEPS), rng, chaos.runs))

        def reach(life):
            with contextlib.suppress(Gone):
                life.reach()

        started = [pool.submit(reach, life) for life in lives]
        time.sleep(rng.uniform(0.5, 4))
        pids = [pid for tree in trees for pid in tree.pids().values()]
        for tree in trees:
            tree.leave("killed")
        kept = [ledger_file(tree.process.pid) for tree in trees]  # what stood in them is read when nobody writes any more
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        for one in started:
            one.result()
        for tree in trees:
            tree.gone()
        creating = sum(state in UNSTARTED for file in kept if file for state in records(file).values())
        for file in filter(None, kept):
            file.close()
    time.sleep(max(0, killed + AFTER - time.monotonic()))
    keys = {tree.key for tree in trees}
    states = [state for _, key, state in engine.watch.listing() if key in keys]
    left = visited(chaos, engine, keys)
    chaos.history.add("mass", n=number, trees=count, running=states.count("running"), created=states.count("created"),
                      creating=creating, processes=sum(alive(pid) for pid in pids), left=left)  # fmt: skip


def visited(chaos, engine, keys):
    """Of each account one tree and one call: what is left of the dead trees a moment later."""
    visitors = [chaos.tree(engine, user, "0") for user in users()]
    for tree in visitors:
        tree.recover(-1)
    end = time.monotonic() + REMOVED
    while (left := [row for row in engine.watch.listing() if row[1] in keys]) and time.monotonic() < end:
        time.sleep(0.1)
    for tree in visitors:
        tree.end()
    return left
