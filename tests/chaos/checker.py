#!/usr/bin/env python3
"""Reads a recorded history (see history.py) and names each violation by its invariant.

    tests/chaos/checker.py HISTORY

Prints "I1 at 12.345: words" per violation; exit 0 if there is none. The invariants are those of
ARCHITECTURE.md; three more rules stand for promises made there: kept (sandboxes that must survive a
fault do), back (after a fault the next calls are served), true (an ending says what happened).
"""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import history  # noqa: E402

LATE = 2.0  # I1: seconds after its time a run's processes may live
KILLED = 10.0  # I1: seconds a box may run after its client left or its tree was killed
REMOVED = 60.0  # I2: seconds until what ended is removed, the engine healthy
BACK = 15.0  # seconds until a call is served after a fault is over
FDS = 4  # I6: open files a process may have more than at its first rest
FDS_A_BOX = {"bailey-reaper": 7, "bailey-broker": 1, "dockerd": 12}
KB = 4096  # I6: memory, the same way
OTHERS_KB = 8192  # the same beside another tree, which may keep less output
# Of the engine's daemons, whose memory and threads are what Go keeps of a burst; a leak is more.
DAEMONS = {"dockerd": (65536, 192), "containerd": (32768, 64)}  # KB, threads
SEEN_LATE = 0.5  # I5: seconds the recorder may be behind the engine
REAPER_AFTER = 0.5  # seconds after a run's time at which the reaper ends its box, if no end was told
TAKEN_OVER = 2.0  # seconds after a fault until a new broker knows how its runs ended
OUTAGE = 5.0  # seconds a sandbox that stays must live through without one of its keepers

# (target, how): for how many seconds of it a sandbox must survive. Missing: it need not.
SURVIVES = {
    ("supervisor", "stop"): OUTAGE, ("frontend", "stop"): OUTAGE, ("broker", "stop"): OUTAGE,
    ("reaper", "stop"): OUTAGE, ("reaper", "kill"): OUTAGE, ("reaper", "term"): OUTAGE,
    ("guest", "stop"): OUTAGE, ("shim", "stop"): OUTAGE, ("dockerd", "stop"): OUTAGE,
    ("containerd", "stop"): OUTAGE, ("client", "cancel"): OUTAGE, ("frontend", "term"): OUTAGE, ("broker", "term"): OUTAGE,
    ("broker", "kill"): OUTAGE,
}  # fmt: skip
# Whom the reaper cannot hear of a run's end through while they stand still or are away.
WORD_COMES_BY = {"guest", "shim", "dockerd", "broker"}
# What a call may end as where a fault came in between, besides what it wanted.
SICK = {"lost", "engine_unavailable", "queue_timeout", "start_timeout", "not_found", "cancelled", "timed_out", "busy"}


class Index:
    """The history by tree, call, box, run and engine."""

    def __init__(self, events):
        self.events = events
        self.last = events[-1]["t"] if events else 0
        self.complete = bool(events) and events[-1]["e"] == "end"
        self.trees, self.calls, self.boxes, self.runs = {}, {}, {}, {}
        self.of_key = {}
        self.faults = []
        self.sick = collections.defaultdict(list)  # engine: [[from, to]]
        self.owner = {}  # word: call
        self.dues = collections.defaultdict(list)  # tree: when its runs' times are up
        self.served = {}  # (fault, tree): when a call was served after it
        for event in events:
            take = getattr(self, "on_" + event["e"], None)
            if take:
                take(event)
        for spans in self.sick.values():
            for span in spans:
                span[1] = self.last if span[1] is None else span[1]

    def run(self, word):
        return self.runs.setdefault(word, {"word": word, "due": None, "seen": [], "dead": None, "boxes": set()})

    def box(self, name):
        return self.boxes.setdefault(name, {"box": name, "key": None, "engine": None})

    def on_tree(self, e):
        self.trees[e["tree"]] = dict(e, end=None, left=None, how=None, closed=None)
        self.of_key[e["key"]] = e["tree"]

    def on_leaving(self, e):
        tree = self.trees[e["tree"]]
        if tree["left"] is None:
            tree["left"], tree["how"] = e["t"], e["how"]

    def on_tree_end(self, e):
        self.trees[e["tree"]]["end"] = e["t"]

    def on_closed(self, e):
        self.trees[e["tree"]]["closed"] = e["t"]

    def on_asked(self, e):
        self.calls[e["call"]] = dict(e, answers=[], cancel=None, hung_up=None)
        if e.get("word"):
            self.owner[e["word"]] = e["call"]

    def on_cancel(self, e):
        self.calls[e["call"]]["cancel"] = e["t"]

    def on_hung_up(self, e):
        self.calls[e["call"]]["hung_up"] = e["t"]

    def on_answered(self, e):
        if e["call"] in self.calls:
            self.calls[e["call"]]["answers"].append(e)

    def on_begun(self, e):
        if e["word"]:
            self.run(e["word"])["due"] = e["due"]
        self.dues[e.get("call", "").split("/")[0]].append(e["due"])

    def on_seen(self, e):
        run = self.run(e["word"])
        run["seen"].append(e)
        run["boxes"].update(e["boxes"])

    def on_dead(self, e):
        self.run(e["word"])["dead"] = e["t"]

    def on_box(self, e):
        box = self.box(e["box"])
        box["key"], box["engine"] = e["key"], e["engine"]
        box.setdefault(e["what"], e["t"])
        if e["what"] == "destroy":
            box["removed"] = e.get("was") or e["t"]

    def on_init(self, e):
        self.box(e["box"])["init"] = e["t"]

    def on_init_dead(self, e):
        self.box(e["box"])["init_dead"] = e["t"]

    def on_engine(self, e):
        spans = self.sick[e["engine"]]
        if e["state"] == "up":
            if spans and spans[-1][1] is None:
                spans[-1][1] = e["t"]
        elif not spans or spans[-1][1] is not None:
            spans.append([e["t"], None])

    def on_fault(self, e):
        self.faults.append(dict(e, over=None))

    def on_fault_over(self, e):
        for fault in self.faults:
            if fault["n"] == e["n"] and fault["over"] is None:
                fault["over"] = e["t"]

    def on_recovered(self, e):
        if e["n"] >= 0:
            self.served.setdefault((e["n"], e["tree"]), e["t"])

    def sick_time(self, engine, since, until):
        """Seconds of a span in which the engine was not there."""
        return sum(max(0, min(until, to) - max(since, at)) for at, to in self.sick[engine])

    def left(self, tree, at):
        """True where the tree's client had left by then."""
        left = self.trees[tree]["left"]
        return left is not None and left <= at

    def faulty(self, tree, since, until, what_stays=False):
        """Faults that a tree may have felt in a span; their echo lasts some seconds, for what is asked anew only until
        the next call was served."""
        engine = self.trees[tree]["engine"]

        def heard(fault):
            if what_stays or (fault["n"], tree) not in self.served:
                return (fault["over"] or self.last) + BACK
            return self.served[fault["n"], tree]

        return [
            f for f in self.faults
            if (f["tree"] == tree or (f["tree"] is None and f["engine"] == engine)) and f["t"] <= until and heard(f) >= since
        ]  # fmt: skip

    def owed(self, call):
        """True where its answer had to come before the connection's end: that came late, or its client, which waits for
        all it asked, closed it by itself."""
        tree = self.trees[call["tree"]]
        closed = tree["closed"]
        if closed is None:
            return self.complete or self.last > call["t"] + call["bound"]
        waited = tree["how"] == "closed" and tree["left"] <= closed
        return closed > call["t"] + call["bound"] or waited and call["t"] < tree["left"]


def engines_own(row):
    """runc's own process, which an engine that ended between create and start leaves: nothing of ours
    has run in it, and no program of ours ever heard of it."""
    return str(row[1]).startswith("runc")


def i1(x):
    """Nothing runs past its time."""
    for run in x.runs.values():
        if run["due"] is None or not run["seen"]:
            continue
        died = run["dead"] if run["dead"] is not None else x.last
        if died > run["due"] + LATE:
            yield died, f"run {run['word']} lived {died - run['due']:.2f} s past its time"
    for box in x.boxes.values():
        tree = x.trees.get(x.of_key.get(box["key"]))
        if not tree or tree["left"] is None or "start" not in box and "init" not in box:
            continue
        died = min((box[k] for k in ("init_dead", "die", "destroy") if k in box), default=x.last)
        began = max(tree["left"], box.get("start", 0))
        if died > began + KILLED:
            yield died, f"box {box['box']} ran {died - began:.2f} s after the end of {tree['tree']}"
    for e in x.events:
        if e["e"] == "leftover" and (ours := [row for row in e["pids"] if not engines_own(row)]):
            yield e["t"], f"processes in boxes after everything: {ours}"
        if e["e"] == "mass" and (e["running"] or e["processes"]):
            yield e["t"], f"{e['running']} boxes and {e['processes']} processes of {e['trees']} killed trees run on"


def i2(x):
    """What ended is removed."""
    for box in x.boxes.values():
        tree = x.trees.get(x.of_key.get(box["key"]))
        if not tree or tree["end"] is None or "create" not in box:
            continue
        ended = max(tree["end"], box["create"])
        gone = box.get("destroy", x.last)
        wait = gone - ended - x.sick_time(box["engine"], ended, gone)
        if wait > REMOVED:
            yield gone, f"box {box['box']} was there {wait:.1f} s after the end of {tree['tree']}"
    for e in x.events:
        if e["e"] == "end":
            for engine, boxes in e["left"].items():
                for box in boxes:
                    yield e["t"], f"left on engine {engine}: {box}"
        if e["e"] == "mass" and e["created"] > e["creating"]:
            yield e["t"], f"{e['created']} boxes were left unstarted, {e['creating']} creates were under way"
        if e["e"] == "mass" and e["left"]:
            yield e["t"], f"left of killed trees after the next ones' first call: {e['left']}"


def i3(x):
    """One final answer for each call, or a closed connection."""
    for call in x.calls.values():
        answers = call["answers"]
        closed = call["hung_up"] or x.trees[call["tree"]]["closed"]
        if len(answers) > 1:
            yield answers[1]["t"], f"{call['call']} was answered {len(answers)} times"
        if closed and answers and answers[0]["t"] > closed:
            yield answers[0]["t"], f"{call['call']} was answered after the connection was closed"
        if not answers and not call["hung_up"] and call["cancel"] is None and x.owed(call):
            yield x.last, f"{call['call']} ({call['tool']}) has no answer"
        if answers and answers[0]["t"] > call["t"] + call["bound"]:
            yield answers[0]["t"], f"{call['call']} was answered after {answers[0]['t'] - call['t']:.1f} s"
    for e in x.events:
        if e["e"] == "answered" and e["call"] not in x.calls:
            yield e["t"], f"an answer to what nobody asked: {e['call']}"


def owner_of(e):
    return e.get("tree"), e.get("owner")


def i4(x):
    """What one owner's code says reaches that owner alone."""
    for e in x.events:
        if e["e"] not in ("answered", "said"):
            continue
        who = owner_of(x.calls[e["call"]] if e["e"] == "answered" and e["call"] in x.calls else e)
        for word in e["said"]:
            if word not in x.owner:
                yield e["t"], f"{who} was told {word}, which nobody's code says"
            elif owner_of(x.calls[x.owner[word]]) != who:
                yield e["t"], f"{who} was told {word} of {x.owner[word]}"


def i5(x):
    """What exists was meant to, and its end is recorded."""
    for e in x.events:
        if e["e"] == "ledger" and e["state"] is None:
            if x.boxes[e["box"]].get("removed", x.last) < e["t"] + SEEN_LATE:
                continue  # it came and went before its event was read
            tree = x.trees.get(x.of_key.get(e["key"]))
            if tree and (tree["left"] is None or tree["left"] > e["t"] + 1):
                yield e["t"], f"box {e['box']} of {tree['tree']} is in no ledger"
        if e["e"] == "quiet" and sorted(e["ledger"]) != sorted(e["boxes"]):
            yield e["t"], f"{e['tree']} rests: ledger {sorted(e['ledger'])}, engine {sorted(e['boxes'])}"
    for box in x.boxes.values():
        if x.complete and "start" in box and "destroy" not in box and box["key"] in x.of_key:
            yield x.last, f"box {box['box']} started, and no end of it was told"


def grown(name, then, now, boxes, kb=KB):
    kb, threads = DAEMONS.get(name, (kb, 0))
    if now["fds"] > then["fds"] + FDS + max(0, boxes) * FDS_A_BOX.get(name, 0):
        yield f"{name} has {now['fds']} open files, had {then['fds']}"
    if now["threads"] > then["threads"] + threads:
        yield f"{name} has {now['threads']} threads, had {then['threads']}"
    if now["kb"] > then["kb"] + kb:
        yield f"{name} has {now['kb']} KB, had {then['kb']}"


def i6(x):
    """Files, memory and threads come back to where they were. Most trees of faults rest only once: then beside the others
    of its engine that rest with as many boxes."""
    first, least = {}, {}
    for e in x.events:
        for name, now in e["procs"].items() if e["e"] == "quiet" else ():
            like = least.setdefault((x.trees[e["tree"]]["engine"], len(e["boxes"]), name), dict(now))
            like.update({key: min(like[key], now[key]) for key in ("fds", "threads", "kb")})
    for e in x.events:
        if e["e"] == "quiet":
            count = len(e["boxes"])
            for name, now in e["procs"].items():
                then, boxes = first.setdefault((e["tree"], name), (now, count))
                for words in grown(name, then, now, count - boxes):
                    yield e["t"], f"{e['tree']}: {words}"
                like = least[x.trees[e["tree"]]["engine"], count, name]
                for words in grown(name, like, now, 0, OTHERS_KB):
                    yield e["t"], f"{e['tree']} beside others: {words}"
        if e["e"] == "host":
            then = first.setdefault(("host", e["engine"]), e["figures"])
            for name, value in e["figures"].items():
                if isinstance(value, dict):
                    for words in grown(name, then[name], value, 0):
                        yield e["t"], f"engine {e['engine']}: {words}"
                elif value > then[name]:
                    yield e["t"], f"engine {e['engine']}: {name} {value}, were {then[name]}"


def i7(x):
    """What a run starts stays in its box."""
    for e in x.events:
        if e["e"] == "seen":
            if e["outside"]:
                yield e["t"], f"processes of {e['word']} outside any box: {e['outside']}"
            run = x.runs[e["word"]]
            if len(run["boxes"]) > 1:
                yield e["t"], f"{e['word']} ran in {len(run['boxes'])} boxes: {sorted(run['boxes'])}"


def i8(x):
    """What was counted is counted down."""
    for e in x.events:
        if e["e"] == "quiet":
            usage = e["usage"]
            if usage["sandboxes"] or usage["queued"]:
                yield e["t"], f"{e['tree']} rests with {usage['sandboxes']} sandboxes and {usage['queued']} queued"
            if usage["memory_bytes"] != e["pool"]:
                yield e["t"], f"{e['tree']} rests with {usage['memory_bytes']} bytes counted, its pool has {e['pool']}"


def kept(x):
    """A sandbox that stays survives what it was promised to."""
    faults = {f["n"]: f for f in x.faults}
    for e in x.events:
        if e["e"] == "kept" and not e["kept"]:
            fault = faults.get(e["fault"])
            least = SURVIVES.get((fault["target"], fault["how"])) if fault else float("inf")
            if fault and fault["target"] in WORD_COMES_BY and any(fault["t"] - REAPER_AFTER <= due + REAPER_AFTER <= (fault["over"] or x.last) + TAKEN_OVER
                             for due in x.dues[e["tree"]]):  # fmt: skip
                continue  # a run's time was up and its end could not be told: the reaper ended the box
            if least is not None and (not fault or fault["seconds"] <= least):
                told = f"{fault['target']} {fault['how']} of {fault['seconds']:.2f} s" if fault else "no fault"
                yield e["t"], f"sandbox of {e['tree']} did not survive {told} (fault {e['fault']})"


def back(x):
    """After a fault the next calls are served."""
    for e in x.events:
        if e["e"] == "stuck":
            yield e["t"], f"{e['tree']} serves no call after fault {e['n']}: {e['last']}"
        if e["e"] == "recovered" and e["after"] > BACK:
            yield e["t"], f"{e['tree']} served a call only {e['after']:.1f} s after fault {e['n']}"


def true(x):
    """An ending says what happened."""
    for call in x.calls.values():
        for answer in call["answers"][:1]:
            status = answer["status"]
            took = answer["t"] - call["t"]
            if status in call["want"]:
                if status == "ok" and call.get("word") and call["word"] not in answer["said"]:
                    yield answer["t"], f"{call['call']} is ok without its output"
                if status == "timed_out" and call["timeout"] and took < call["timeout"]:
                    yield answer["t"], f"{call['call']} timed out after {took:.3f} of {call['timeout']} s"
            elif status == "cancelled" and call["cancel"] is not None:
                pass
            elif status not in SICK:
                yield answer["t"], f"{call['call']} ({call['tool']}) ended as {status}, wanted {call['want']}"
            elif not x.left(call["tree"], answer["t"]) and not x.faulty(call["tree"], call["t"], answer["t"], status == "not_found"):
                yield answer["t"], f"{call['call']} ({call['tool']}) ended as {status} without a fault"


RULES = {"I1": i1, "I2": i2, "I3": i3, "I4": i4, "I5": i5, "I6": i6, "I7": i7, "I8": i8,
         "kept": kept, "back": back, "true": true}  # fmt: skip


def check(events):
    """[(rule, time, words)]"""
    index = Index(events)
    return [(name, at, words) for name, rule in RULES.items() for at, words in rule(index)]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    events = history.load(sys.argv[1])
    found = check(events)
    start = events[0]["t"] if events else 0
    for name, at, words in found:
        print(f"{name} at {at - start:.3f}: {words}")
    print(f"{len(events)} events, {len(found)} violations")
    return 1 if found or not events else 0


if __name__ == "__main__":
    sys.exit(main())
