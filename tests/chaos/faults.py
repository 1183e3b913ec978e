"""The faults: whom they hit, how, and at which step of which life. All of it follows from a seed.

Fault number i of seed s is always the same, whoever runs it and whatever went before.
"""

import contextlib
import os
import random
import signal
import time

from lives import LIVES

# target: (ways, weight). Of the tree's own world, then of the engine's.
TREE = {
    "supervisor": (("kill", "stop", "term"), 2),
    "frontend": (("kill", "stop", "term"), 2),
    "broker": (("kill", "stop", "term"), 3),
    "reaper": (("kill", "stop", "term"), 3),
    "guest": (("kill", "stop", "restart"), 3),
    "shim": (("kill", "stop"), 2),
    "all": (("kill",), 1),
    "client": (("gone", "cancel"), 2),
}
ENGINE = {"dockerd": (("kill", "stop", "term"), 2), "containerd": (("kill", "stop", "term"), 1)}
ENGINE_SHARE = 0.1
# Frontend, broker and reaper end with their supervisor and leave SIGTERM alone: it must do no harm.
ENDS_TREE = {("supervisor", "kill"), ("supervisor", "term"), ("frontend", "kill"), ("all", "kill"), ("client", "gone")}
SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM}


def chosen(rng, table):
    target = rng.choices(list(table), [weight for _, weight in table.values()])[0]
    return target, rng.choice(table[target][0])


def plan(seed, count, long_stops):
    """Every fault as a dict; "rng" makes what is left to choose."""
    faults = []
    for n in range(count):
        rng = random.Random(f"{seed}/{n}")
        of_engine = n % round(1 / ENGINE_SHARE) == 0
        target, how = chosen(rng, ENGINE if of_engine else TREE)
        life = rng.choice(list(LIVES))
        # Beyond eight seconds a box gives its engine and its broker up.
        seconds = rng.choice((rng.uniform(0.02, 0.3), rng.uniform(0.3, 1.2)))
        if long_stops and rng.random() < 0.05:
            seconds = rng.uniform(5, 12)
        faults.append({
            "n": n, "target": target, "how": how, "life": life, "step": rng.choice(LIVES[life].STEPS),
            "seconds": round(seconds, 3) if how == "stop" or of_engine else 0.0, "pool": rng.choice(("1", "1", "0")),
            "of_engine": of_engine, "rng": rng,
        })  # fmt: skip
    return faults


def pid_of(tree, program, seconds=2.0):
    """A process of the tree, which may just be starting again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            pid = tree.pids().get(("bailey-" + program)[:15])
            if pid:
                return pid
        time.sleep(0.01)
    return None


def box_of(tree, life):
    end = time.monotonic() + 1.0
    while True:
        found = life.find_box()
        if found and found[1]["pid"] or time.monotonic() > end:
            return found
        time.sleep(0.01)


def find(fault, tree, life):
    """(pids to signal, box to restart); ([], None) where there is nobody to hit."""
    target = fault["target"]
    if target == "supervisor":
        return [tree.process.pid], None
    if target == "all":
        return list(tree.pids().values()), None
    if target in ("guest", "shim"):
        found = box_of(tree, life)
        if not found:
            return [], None
        if target == "guest":
            return [found[1]["pid"]] if found[1]["pid"] else [], found[1]["id"]
        shim = tree.engine_used.shims().get(found[0])
        return [shim] if shim else [], None
    pid = pid_of(tree, target)
    return [pid] if pid else [], None


def note(history, fault, tree, engine, step):
    history.add("fault", n=fault["n"], target=fault["target"], how=fault["how"], step=step, life=fault["life"], engine=engine.name,
                tree=tree.name if tree else None, seconds=fault["seconds"])  # fmt: skip


def strike(history, fault, tree, life):
    """Does what the fault says to that tree; False when there was nobody to do it to."""
    engine = tree.engine_used
    how = fault["how"]
    pids, box = ([tree.process.pid], None) if fault["target"] == "client" else find(fault, tree, life)
    if not pids and not (how == "restart" and box):
        history.add("missed", n=fault["n"], target=fault["target"], step=fault["step"])
        return False
    note(history, fault, tree, engine, f"{fault['life']}: {fault['step']}")
    if (fault["target"], how) in ENDS_TREE:
        tree.leave("killed" if fault["target"] in ("supervisor", "all") else "gone")
    if how == "stop":
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(fault["seconds"])
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    elif how == "restart":
        with contextlib.suppress(OSError):
            engine.watch.engine.request("POST", f"/containers/{box}/restart?t=0")
    elif how == "gone":
        with contextlib.suppress(OSError):
            tree.process.stdin.close()
    elif how == "cancel":
        for call, _ in life.calls[-1:]:
            tree.cancel(call)
    else:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, SIGNALS[how])
    history.add("fault_over", n=fault["n"])
    return True


def strike_engine(history, fault, engine, step):
    note(history, fault, None, engine, step)
    if fault["how"] == "stop":
        engine.freeze(fault["target"], fault["seconds"])
    else:
        engine.end(fault["target"], SIGNALS[fault["how"]], fault["seconds"])
    history.add("fault_over", n=fault["n"])
