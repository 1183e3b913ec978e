#!/usr/bin/env python3
"""The checker finds what it is there to find: hand-made bad histories, one or more per invariant.

Each case is a good history with one thing made wrong; the good one itself has no violation.
"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]
import checker  # noqa: E402
import tap  # noqa: E402

ALICE, BOB = "w" + "a" * 16, "w" + "b" * 16
USAGE = {"sandboxes": 0, "queued": 0, "memory_bytes": 100}
PROCS = {"bailey-broker": {"fds": 10, "threads": 1, "kb": 2000}}
HOST = {"dockerd": {"fds": 20, "threads": 30, "kb": 50000}, "networks": 2, "volumes": 0}


def good():
    """Two trees; a run that ends, one that times out, a fault that a sandbox survives."""
    rows = [
        (0, "plan", {"seed": 1, "faults": 1}),
        (0, "host", {"engine": "calm", "when": "before", "figures": HOST}),
        (1, "tree", {"tree": "a", "key": "1.1", "engine": "calm", "user": "self"}),
        (1, "tree", {"tree": "b", "key": "2.2", "engine": "calm", "user": "other"}),
        (2, "box", {"what": "create", "box": "c1", "key": "1.1", "engine": "calm"}),
        (2, "ledger", {"box": "c1", "key": "1.1", "state": 1}),
        (2, "box", {"what": "start", "box": "c1", "key": "1.1", "engine": "calm"}),
        (2, "init", {"box": "c1", "pid": 77}),
        (3, "quiet", {"tree": "a", "usage": USAGE, "pool": 100, "boxes": ["c1"], "ledger": ["c1"], "procs": PROCS}),
        (4, "asked", {"call": "a/1", "tree": "a", "tool": "execute_code", "word": ALICE, "timeout": 1, "bound": 60, "want": ["timed_out"]}),
        (4, "begun", {"word": ALICE, "due": 5.0}),
        (4, "seen", {"word": ALICE, "boxes": ["c1"], "pids": [78], "outside": []}),
        (4, "asked", {"call": "b/1", "tree": "b", "tool": "execute_code", "word": BOB, "timeout": None, "bound": 60, "want": ["ok"]}),
        (4.5, "said", {"tree": "b", "said": [BOB]}),
        (4.6, "answered", {"call": "b/1", "status": "ok", "error": False, "said": [BOB]}),
        (5.01, "dead", {"word": ALICE}),
        (5.02, "answered", {"call": "a/1", "status": "timed_out", "error": True, "said": [ALICE]}),
        (6, "fault", {"n": 0, "target": "reaper", "how": "kill", "step": "idle", "tree": "a", "engine": "calm", "seconds": 0}),
        (6, "fault_over", {"n": 0}),
        (6.5, "recovered", {"n": 0, "tree": "a", "after": 0.5}),
        (6.6, "kept", {"sandbox": "s", "tree": "a", "kept": True, "fault": 0}),
        (7, "quiet", {"tree": "a", "usage": USAGE, "pool": 100, "boxes": ["c1"], "ledger": ["c1"], "procs": PROCS}),
        (8, "leaving", {"tree": "a", "how": "closed"}),
        (8.1, "init_dead", {"box": "c1"}),
        (8.1, "box", {"what": "die", "box": "c1", "key": "1.1", "engine": "calm"}),
        (8.2, "box", {"what": "destroy", "box": "c1", "key": "1.1", "engine": "calm"}),
        (8.2, "closed", {"tree": "a"}),
        (8.3, "tree_end", {"tree": "a"}),
        (9, "leaving", {"tree": "b", "how": "closed"}),
        (9, "closed", {"tree": "b"}),
        (9, "tree_end", {"tree": "b"}),
        (80, "mass", {"n": 0, "trees": 20, "running": 0, "created": 2, "creating": 3, "processes": 0, "left": []}),
        (90, "leftover", {"engine": "calm", "pids": []}),
        (90, "host", {"engine": "calm", "when": "after", "figures": HOST}),
        (90, "end", {"left": {"calm": []}}),
    ]  # fmt: skip
    return [{"t": t, "e": e, **copy.deepcopy(fields)} for t, e, fields in rows]


def at(events, kind, **fields):
    """The first event of a kind with these fields."""
    for event in events:
        if event["e"] == kind and all(event.get(k) == v for k, v in fields.items()):
            return event
    raise KeyError((kind, fields))


def put(events, t, kind, **fields):
    events.append({"t": t, "e": kind, **fields})
    events.sort(key=lambda e: e["t"])


def drop(events, kind, **fields):
    events.remove(at(events, kind, **fields))


def late(events, kind, t, **fields):
    at(events, kind, **fields)["t"] = t
    events.sort(key=lambda e: e["t"])


# What goes wrong: (the rule that must name it, what is told, how).
BAD = {
    "a run lives on after its time": ("I1", "past its time", lambda h: late(h, "dead", 7.2)),
    "a run never dies": ("I1", "past its time", lambda h: drop(h, "dead")),
    "a box runs on after its client left": ("I1", "after the end of a", lambda h: (
        late(h, "init_dead", 19), late(h, "box", 19, what="die"), late(h, "box", 19, what="destroy"))),
    "a killed tree's box never stops": ("I1", "after the end of a", lambda h: (
        drop(h, "init_dead"), drop(h, "box", what="die"), drop(h, "box", what="destroy"))),
    "processes are left in a box": ("I1", "after everything", lambda h: at(h, "leftover").update(pids=[[5, "sleep", "S", "c1"]])),
    "killed trees' boxes run on": ("I1", "run on", lambda h: at(h, "mass").update(running=1)),
    "killed trees' processes run on": ("I1", "run on", lambda h: at(h, "mass").update(processes=1)),
    "more unstarted boxes than creates": ("I2", "unstarted", lambda h: at(h, "mass").update(created=4)),
    "the next trees remove nothing": ("I2", "next ones", lambda h: at(h, "mass").update(left=[["c1", "1.1", "created"]])),
    "a dead box is not removed": ("I2", "was there", lambda h: late(h, "box", 80, what="destroy")),
    "a box is left at the end": ("I2", "left on engine", lambda h: at(h, "end").update(left={"calm": [["c1", "1.1", "created"]]})),
    "a call has no answer": ("I3", "has no answer", lambda h: (drop(h, "answered", call="b/1"), drop(h, "closed", tree="b"))),
    "a call has no answer, and its client leaves": ("I3", "has no answer", lambda h: drop(h, "answered", call="b/1")),
    "a call has no answer, and its connection ends late": ("I3", "has no answer", lambda h: (
        drop(h, "answered", call="a/1"), at(h, "leaving", tree="a").update(how="gone"), late(h, "closed", 65, tree="a"))),
    "a call is answered twice": ("I3", "2 times", lambda h: put(h, 7, "answered", call="b/1", status="ok", error=False, said=[BOB])),
    "an answer comes after the end": ("I3", "after the connection", lambda h: late(h, "answered", 9.5, call="b/1")),
    "an answer comes far too late": ("I3", "was answered after", lambda h: (
        late(h, "answered", 80, call="b/1"), late(h, "closed", 81, tree="b"))),
    "an answer nobody asked for": ("I3", "nobody asked", lambda h: put(h, 7, "answered", call="b/9", status="ok", error=False, said=[])),
    "another owner's output in an answer": ("I4", "was told", lambda h: at(h, "answered", call="b/1").update(said=[BOB, ALICE])),
    "another owner's output in a notification": ("I4", "was told", lambda h: at(h, "said").update(said=[ALICE])),
    "output of another owner of the same tree": ("I4", "was told", lambda h: (
        put(h, 3, "asked", call="b/2", tree="b", owner="eve", tool="inspect_logs", word=None, timeout=None, bound=60, want=["ok"]),
        put(h, 5, "answered", call="b/2", status="ok", error=False, said=[BOB]))),
    "output of nobody's code": ("I4", "nobody's code", lambda h: at(h, "said").update(said=["w" + "c" * 16])),
    "a container that was never meant": ("I5", "in no ledger", lambda h: at(h, "ledger").update(state=None)),
    "a ledger that kept a removed box": ("I5", "rests", lambda h: at(h, "quiet").update(ledger=["c0", "c1"])),
    "a start without an end": ("I5", "no end of it", lambda h: drop(h, "box", what="destroy")),
    "open files are lost": ("I6", "open files", lambda h: at(h, "quiet", t=7)["procs"]["bailey-broker"].update(fds=15)),
    "memory grows": ("I6", "KB", lambda h: at(h, "quiet", t=7)["procs"]["bailey-broker"].update(kb=9000)),
    "a thread stays": ("I6", "threads", lambda h: at(h, "quiet", t=7)["procs"]["bailey-broker"].update(threads=2)),
    "open files are lost in a tree that rests once": ("I6", "open files", lambda h: put(
        h, 7, "quiet", tree="b", usage=USAGE, pool=100, boxes=["c1"], ledger=["c1"],
        procs={"bailey-broker": {"fds": 15, "threads": 1, "kb": 2000}})),
    "the engine keeps memory": ("I6", "KB", lambda h: h[-2]["figures"]["dockerd"].update(kb=150000)),
    "the engine keeps threads": ("I6", "threads", lambda h: h[-2]["figures"]["dockerd"].update(threads=300)),
    "the engine keeps open files": ("I6", "dockerd", lambda h: h[-2]["figures"]["dockerd"].update(fds=40)),
    "a network is left": ("I6", "networks", lambda h: h[-2]["figures"].update(networks=3)),
    "a process outside its box": ("I7", "outside any box", lambda h: at(h, "seen").update(outside=[78])),
    "one run in two boxes": ("I7", "2 boxes", lambda h: put(h, 4.2, "seen", word=ALICE, boxes=["c2"], pids=[9], outside=[])),
    "a sandbox stays counted": ("I8", "1 sandboxes", lambda h: at(h, "quiet").update(usage={**USAGE, "sandboxes": 1})),
    "a queue place stays counted": ("I8", "1 queued", lambda h: at(h, "quiet").update(usage={**USAGE, "queued": 1})),
    "memory stays counted": ("I8", "bytes counted", lambda h: at(h, "quiet").update(pool=50)),
    "a sandbox does not survive the reaper": ("kept", "did not survive", lambda h: at(h, "kept").update(kept=False)),
    "nor one whose run's time is up, which the broker can tell": ("kept", "did not survive", lambda h: (
        at(h, "kept").update(kept=False), put(h, 5.9, "begun", word=None, call="a/7", due=6.3))),
    "no call is served after a fault": ("back", "serves no call", lambda h: put(h, 7, "stuck", n=0, tree="a", last="lost")),
    "calls are served only late": ("back", "only", lambda h: at(h, "recovered").update(after=20.0)),
    "ok without the output": ("true", "without its output", lambda h: at(h, "answered", call="b/1").update(said=[])),
    "timed out before its time": ("true", "timed out after", lambda h: late(h, "answered", 4.7, call="a/1")),
    "lost without a fault": ("true", "without a fault", lambda h: at(h, "answered", call="b/1").update(status="lost")),
    "lost after the next call was served": ("true", "without a fault", lambda h: (
        put(h, 6.7, "asked", call="a/2", tree="a", tool="execute_code", word=None, timeout=None, bound=60, want=["ok"]),
        put(h, 6.8, "answered", call="a/2", status="lost", error=True, said=[]))),
    "an internal error": ("true", "internal", lambda h: at(h, "answered", call="a/1").update(status="internal")),
    "cancelled by nobody": ("true", "cancelled", lambda h: at(h, "answered", call="b/1").update(status="cancelled")),
}  # fmt: skip


class Checker(unittest.TestCase):
    def test_a_good_history_has_no_violation(self):
        self.assertEqual(checker.check(good()), [])

    def test_each_wrong_is_named(self):
        for name, (rule, told, spoil) in BAD.items():
            with self.subTest(name):
                events = good()
                spoil(events)
                found = [(r, words) for r, _, words in checker.check(events)]
                self.assertTrue(any(r == rule and told in words for r, words in found), found)

    def test_every_rule_has_a_bad_history(self):
        self.assertEqual({rule for rule, _, _ in BAD.values()}, set(checker.RULES))

    def test_what_a_fault_excuses(self):
        events = good()
        at(events, "answered", call="a/1").update(status="lost")
        put(events, 4.9, "fault", n=1, target="broker", how="kill", step="running", tree="a", engine="calm", seconds=0)
        put(events, 4.9, "fault_over", n=1)
        self.assertEqual(checker.check(events), [])

    def test_a_fault_elsewhere_excuses_nothing(self):
        events = good()
        at(events, "answered", call="b/1").update(status="lost")
        put(events, 4.2, "fault", n=1, target="broker", how="kill", step="running", tree="a", engine="calm", seconds=0)
        self.assertTrue(any(rule == "true" for rule, _, _ in checker.check(events)))

    def test_a_run_that_is_due_while_its_end_cannot_be_told_costs_the_sandbox(self):
        for due, found in ((6.3, 0), (60.0, 1)):
            events = good()
            at(events, "fault").update(target="broker", how="stop", seconds=1.0)
            late(events, "fault_over", 7.0)
            late(events, "recovered", 7.1)
            at(events, "kept").update(kept=False, t=7.2)
            put(events, 5.9, "begun", word=None, call="a/7", due=due)
            self.assertEqual(len([f for f in checker.check(events) if f[0] == "kept"]), found)

    def test_a_box_that_was_gone_when_the_recorder_heard_of_it(self):
        h = good()
        at(h, "ledger").update(state=None)
        at(h, "box", what="destroy").update(was=at(h, "ledger")["t"] - 0.1)
        self.assertEqual(checker.check(h), [])
        at(h, "box", what="destroy").update(was=at(h, "ledger")["t"] + 1)
        self.assertEqual([name for name, *_ in checker.check(h)], ["I5"])

    def test_runc_itself_is_the_engines(self):
        events = good()
        at(events, "leftover").update(pids=[[5, "runc:[2:INIT]", "S", "c1"]])
        self.assertEqual(checker.check(events), [])

    def test_a_tree_of_another_engine_is_no_measure(self):
        """A fake one's boxes are no processes, and nobody holds files for them."""
        events = good()
        at(events, "tree", tree="b").update(engine="fake")
        put(events, 7, "quiet", tree="b", usage=USAGE, pool=100, boxes=["c1"], ledger=["c1"],
            procs={"bailey-broker": {"fds": 5, "threads": 1, "kb": 2000}})  # fmt: skip
        self.assertEqual([f for f in checker.check(events) if f[0] == "I6"], [])

    def test_time_without_an_engine_does_not_count(self):
        events = good()
        late(events, "box", 75, what="destroy")
        put(events, 9.5, "engine", engine="calm", state="down")
        put(events, 40, "engine", engine="calm", state="up")
        self.assertEqual([f for f in checker.check(events) if f[0] == "I2"], [])

    def test_the_program(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for spoil, code in ((None, 0), (BAD["a call has no answer"][2], 1), (list.clear, 1)):
                events = good()
                if spoil:
                    spoil(events)
                file.seek(0)
                file.truncate()
                file.writelines(json.dumps(event) + "\n" for event in events)
                file.flush()
                done = subprocess.run([sys.executable, str(HERE / "checker.py"), file.name], capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertEqual("I3 at" in done.stdout, bool(spoil and events), done.stdout)


if __name__ == "__main__":
    tap.main()
