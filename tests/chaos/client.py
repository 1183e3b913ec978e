"""A `bailey mcp` tree whose every call and answer goes into the history."""

import contextlib
import json
import queue
import re
import signal
import subprocess
import threading
import time
import uuid

from tree import Gone, Tree
from watch import key_of, ledger, process_figures

WORD = re.compile(r"w[0-9a-f]{16}")
BEGUN = re.compile(r"begun (\d+\.\d+)")
BACK = 25.0  # seconds after which a tree that serves no call is given up
MIB = 1 << 20
POOL_BYTES = 512 * MIB
POOL_CAP = 4  # boxes of a private tree's pool, all classes


def new_word():
    return "w" + uuid.uuid4().hex[:16]


class Client(Tree):
    def __init__(self, history, name, engine, user=None, env=None):
        self.history, self.name, self.engine_used = history, name, engine
        self.asked, self.begun, self.told, self.cancelled = {}, {}, set(), set()
        self.faults = 0
        self.began = threading.Condition()
        super().__init__(user=user, env={"DOCKER_HOST": engine.host, **(env or {})}, initialize=False)
        self.key = key_of(self.process.pid)
        engine.watch.supervisors[self.key] = self.process.pid
        history.add("tree", tree=name, key=self.key, engine=engine.name, user=user or "self", pid=self.process.pid)
        self.initialize()

    def _read(self):
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                self._take(time.monotonic(), line.decode())
        while not hasattr(self, "key"):
            time.sleep(0.01)
        self.history.add("closed", tree=self.name)
        self.closed.set()
        for waiter in list(self.waiting.values()):
            waiter.put((time.monotonic(), None))

    def _take(self, at, line):
        message = json.loads(line)
        said = sorted(set(WORD.findall(line)))
        number = message.get("id")
        if number in self.asked:
            result = message.get("result", {})
            status = result.get("structuredContent", {}).get("status", "refused")
            self.history.add("answered", at, call=self.asked[number], status=status, error=result.get("isError", False), said=said,
                             words=(result.get("structuredContent") or {}).get("message", str(message)[:200]))
        elif not self.told.issuperset(said):
            self.told.update(said)
            self.history.add("said", at, tree=self.name, said=said)
        if number in self.waiting:
            self.waiting[number].put((at, message))
        elif found := BEGUN.search(line):
            with self.began:
                self.begun.setdefault(message.get("params", {}).get("progressToken"), float(found[1]))
                self.began.notify_all()

    def start(self, tool, arguments, token=None, want=("ok",), word=None, bound=None):
        with self.lock:
            self.next_id += 1
            number = self.next_id
            self.waiting[number] = queue.Queue()
        timeout = arguments.get("timeout_seconds")
        self.asked[number] = f"{self.name}/{number}"
        self.history.add("asked", call=self.asked[number], tree=self.name, tool=tool, word=word, timeout=timeout,
                         bound=bound or (timeout or 10) + 50, want=list(want))
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": number}}
        try:
            self.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        except (BrokenPipeError, ValueError):
            raise Gone() from None
        return number

    def run_word(self, code, language="bash", want=("ok",), tool="execute_code", **arguments):
        """A run that carries a word of its own: (call, word)."""
        word = new_word()
        arguments |= {"code": code, "language": language, "env": {"CHAOS_WORD": word}}
        if tool == "container_exec_command":
            arguments["command"] = arguments.pop("code")
            del arguments["language"]
        return self.start(tool, arguments, want=want, word=word), word

    def wait_begun(self, call, word, timeout, seconds):
        """Waits for the run's first output, notes when its time will be up."""
        end = time.monotonic() + seconds
        with self.began:
            while call not in self.begun and time.monotonic() < end and self.waiting[call].empty():
                self.began.wait(0.05)
        if call not in self.begun:
            return False
        at = self.begun[call] - time.time() + time.monotonic()
        self.history.add("begun", word=word, due=round(at + timeout, 6), call=self.asked[call])
        return True

    def cancel(self, call):
        self.cancelled.add(call)
        self.history.add("cancel", call=self.asked[call])
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}})

    def answer(self, call, seconds):
        """structuredContent of the answer; without a status where the connection or the time ended."""
        try:
            return self.wait(call, 0.2 if call in self.cancelled else seconds)  # no answer is owed then
        except Exception as error:  # noqa: BLE001  (queue.Empty, Gone, AssertionError: the history tells)
            return {"status": None, "message": repr(error)}

    def leave(self, how):
        self.history.add("leaving", tree=self.name, how=how)

    def gone(self, seconds=15.0):
        """Waits for the end of a tree that must end; False when it had to be killed."""
        good = True
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            good = False
            self.kill_all()
        self.closed.wait(5)
        self.history.add("tree_end", tree=self.name)
        self.engine_used.watch.supervisors.pop(self.key, None)
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.stderr.close()
        if not good:
            self.history.add("stuck", n=self.faults, tree=self.name, last="the tree does not end")
        return good

    def end(self):
        if self.process.poll() is None:
            self.leave("closed")
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        return self.gone()

    def terminate(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def recover(self, n):
        """The next calls after a fault, until one is served."""
        began = time.monotonic()
        last = ""
        while time.monotonic() < began + BACK:
            call, _ = self.run_word("echo $CHAOS_WORD")
            r = self.answer(call, 60)
            if r["status"] == "ok":
                self.history.add("recovered", n=n, tree=self.name, after=round(time.monotonic() - began, 3))
                return True
            last = f"{r['status']}: {r['message']}"
            if self.closed.is_set():
                break
            time.sleep(0.2)
        self.history.add("stuck", n=n, tree=self.name, last=last)
        return False

    def rest(self, seconds=30.0):
        """Waits until only the pool is there, and notes what the tree holds then."""
        end = time.monotonic() + seconds
        calm = 0
        while calm < 3:
            health = self.answer(self.start("check_sandbox_health", {}), 30)
            boxes = {b["name"] for b in list(self.engine_used.watch.boxes.values()) if b["key"] == self.key}
            pool = health.get("pool", [])
            ready = sum(row["ready"] for row in pool)
            still = pool and not any(row["starting"] for row in pool) and not health["usage"]["sandboxes"]
            held = ledger(self.process.pid) or {}  # what may still come of a create that broke off stays in it for a while
            still = still and sorted(held) == sorted(boxes)
            calm = calm + 1 if still and ready == len(boxes) and ready >= min(POOL_CAP, sum(row["target"] for row in pool)) else 0
            if self.closed.is_set() or not pool and time.monotonic() > end:
                self.history.add("stuck", n=self.faults, tree=self.name, last=f"it does not come to rest: {health}")
                return
            if time.monotonic() > end:
                break
            time.sleep(0.1)
        time.sleep(0.05)  # for what a last box leaves to be closed
        held = ledger(self.process.pid)
        boxes = {b["name"] for b in list(self.engine_used.watch.boxes.values()) if b["key"] == self.key}
        procs = {name: process_figures(pid) | {"pid": pid} for name, pid in self.pids().items() if process_figures(pid)}
        self.history.add("quiet", tree=self.name, usage=health["usage"], pool=ready * POOL_BYTES, boxes=sorted(boxes),
                         ledger=sorted(held or {}), procs=procs)
