"""A recorded history: one JSON object a line, in the order it was noted.

Every line has "t" (CLOCK_MONOTONIC, seconds) and "e", what happened:

    plan      seed, faults                    a run of the harness begins
    tree      tree, key, engine, user         a tree of ours was started; key: pid.starttime as its labels tell
    leaving   tree, how                       its client left, or it was killed ("killed": nobody of it is left)
    tree_end  tree                            its supervisor is gone
    asked     call, tree, tool, word, timeout, bound, want    a call; word is what its output will hold; owner, where a tree has several
    hung_up   call                            its own connection ended without an answer
    cancel    call
    answered  call, status, error, said       said: the words of any call that the answer holds
    said      tree, said                      the same of a notification
    closed    tree                            the server closed the connection
    sandbox   sandbox, call                   one that stays was made; destroyed: sandbox
    kept      sandbox, tree, kept, fault      whether it was still there with its file after that fault
    begun     word, due                       the run's first output; due: when its time is up
    seen      word, boxes, pids, outside      processes that carry the word; outside: those in no box
    dead      word                            all of them are gone
    box       what, box, key, engine, was     the engine's word: create start die destroy; was: its own time of it
    init      box, pid; init_dead: box        PID 1 of the box, and its end
    ledger    box, key, state                 the ledger's record at the create event; null: none
    listing   engine, boxes                   [[box, key, state]]
    engine    engine, state                   up, down or stopped, as the harness made it or met it
    fault     n, target, how, step, tree, engine, seconds     and fault_over: n
    recovered n, tree, after                  the next call was served; stuck: n, tree, last
    quiet     tree, usage, pool, boxes, ledger, procs         nothing goes on in the tree
    host      engine, when, figures           of dockerd and the host: before anything and after all
    timed     word, what, since               see timing.py; mass: see mass.py
    soaked    endings                         [[what, status, count]] of a soak
    leftover  engine, pids                    processes still in boxes after everything
    end       left                            {engine: [[box, key, state]]} the last listing
"""

import json
import threading
import time


class History:
    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.file = open(path, "w", encoding="utf-8")

    def add(self, event, at=None, **fields):
        line = json.dumps({"t": round(time.monotonic() if at is None else at, 6), "e": event, **fields})
        with self.lock:
            self.file.write(line + "\n")

    def close(self):
        with self.lock:
            self.file.close()


def load(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]
