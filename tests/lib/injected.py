"""One tree, one script of calls, one injected fault, and what must hold whatever fails.

The script goes through a sandbox's life: health, a run, a sandbox that stays with a command, a file
and an evaluation, its end, and the tree's. Each call may answer what it answers on a good day, or
say truthfully that it could not; nothing may crash, hang, lie, or be left behind.
"""

import collections
import os
import pathlib
import queue
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "fakes")]

import inject  # noqa: E402
from fake_dockerd import FakeDockerd  # noqa: E402
from tree import Gone, Tree, gone_within  # noqa: E402

PROGRAMS = ["baileyd", "bailey-frontend", "bailey-broker", "bailey-reaper"]
# What a call may say instead of its result.
TRUTHFUL = {"busy", "lost", "engine_unavailable", "internal", "start_timeout", "queue_timeout",
            "image_unavailable", "not_found", "denied", "cancelled"}
CALL_S = 30  # also where no broker ever comes, and no engine answers
SLOW_S = 22  # longer than any start is waited for
WORDS_MIN = 12
# libc's name services assert that there is memory; they run in a helper that answers for nothing else.
BAD_SIGNAL = re.compile(r"ended by signal (?!9\b|15\b)\d+.*|^(?!.*nss_).*[Aa]ssertion.*", re.M)


class Outcome:
    def __init__(self):
        self.answers = []      # (step, status)
        self.violations = []
        self.fired = 0
        self.stack = []
        self.requests = []     # what the engine was asked: (call, method, target)
        self.descriptors = {}
        self.seconds = 0.0

    def wrong(self, text):
        self.violations.append(text)


def descriptors(pids):
    """{program: sorted kinds of open descriptors}."""
    found = {}
    for name, pid in pids.items():
        kinds = []
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{number}")
                kinds.append(re.sub(r"[:(].*", "", target))
        except OSError:
            continue
        found[name] = sorted(kinds)
    return found


class Script:
    """The calls. A step that needs what an earlier one did not get is left out."""

    def __init__(self, tree, out, lasting):
        self.tree, self.out, self.lasting = tree, out, lasting

    def step(self, name, tool, arguments, good):
        """structuredContent when the call did what it is for, else None."""
        before = time.monotonic()
        try:
            answer = self.tree.finish(self.tree.start(tool, arguments), CALL_S)
        except queue.Empty:
            self.out.wrong(f"{name}: no answer in {CALL_S} s")
            raise Gone from None
        took = time.monotonic() - before
        if took > SLOW_S and not self.lasting:
            self.out.wrong(f"{name}: took {took:.1f} s")
        if "error" in answer:
            self.out.answers.append((name, f"error {answer['error']['code']}"))
            if len(answer["error"].get("message", "")) < WORDS_MIN:
                self.out.wrong(f"{name}: {answer['error']}")
            return None
        result = answer["result"]
        content = result.get("structuredContent") or {}
        status = content.get("status")
        told = " ".join(part.get("text", "") for part in result["content"])
        self.out.answers.append((name, status or ("refused" if result.get("isError") else "ok")))
        if not result.get("isError"):
            if not good(content):
                self.out.wrong(f"{name}: a wrong answer without an error: {told[:300]}")
            return content
        if status is not None and status not in TRUTHFUL:
            self.out.wrong(f"{name}: {status}: {told[:300]}")
        if len(content.get("message") or told) < WORDS_MIN:
            self.out.wrong(f"{name}: {status} says nothing: {told[:300]}")
        return None

    def all(self):
        # Health is an answer also where it has nothing good to tell.
        self.step("health", "check_sandbox_health", {},
                  lambda c: c["engine"] or (c["status"] in TRUTHFUL and c["message"]))
        self.step("run", "execute_code", {"language": "bash", "code": "cat; echo two >&2; exit 3",
                                          "stdin": "one"},
                  lambda c: (c["status"], c["exit_code"], c["stdout"], c["stderr"]) ==
                  ("nonzero", 3, "one", "two\n"))
        made = self.step("create", "container_create_sandbox", {}, lambda c: c["sandbox_id"])
        if made is not None:
            self.sandbox({"sandbox_id": made["sandbox_id"]})
        self.step("again", "execute_sandboxed_command", {"command": "echo again"},
                  lambda c: (c["status"], c["stdout"]) == ("ok", "again\n"))

    def sandbox(self, box):
        self.step("exec", "container_exec_command", {**box, "command": "echo x > f; seq 3"},
                  lambda c: (c["status"], c["stdout"]) == ("ok", "1\n2\n3\n"))
        wrote = self.step("write", "container_write_file",
                          {**box, "path": "/workspace/g", "content": "hello\n" * 20000},
                          lambda c: c["size"] == 120000)
        if wrote is not None:
            self.step("read", "container_read_file", {**box, "path": "/workspace/g"},
                      lambda c: c["content"].startswith("hello\nhello\n"))
        self.step("files", "container_list_files", {**box, "path": "/workspace"},
                  lambda c: isinstance(c["entries"], list))
        self.step("eval", "sandbox_eval", {**box, "language": "bash", "code": "x=7; echo $x"},
                  lambda c: (c["status"], c["stdout"]) == ("ok", "7\n"))
        self.step("logs", "inspect_logs", {**box, "limit": 10}, lambda c: True)
        self.step("list", "container_list_sandboxes", {}, lambda c: isinstance(c["sandboxes"], list))
        self.step("destroy", "container_destroy_sandbox", box, lambda c: True)


def settled_descriptors(tree, least, seconds=3.0):
    """Descriptors once they are no more than `least` says, or after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        now = descriptors(tree.pids())
        if all(len(kinds) <= least.get(name, 10 ** 6) for name, kinds in now.items()):
            return now
        if time.monotonic() > end:
            return now
        time.sleep(0.05)


def check_end(out, fake, pids, log):
    for name, pid in pids.items():
        if not gone_within(pid, 6):
            out.wrong(f"{name} outlives its tree")
    end = time.monotonic() + 12
    while fake.containers and time.monotonic() < end:
        time.sleep(0.05)
    for box in list(fake.containers.values()):
        out.wrong(f"a container is left: {box.name} {box.state}")
    text = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    for found in BAD_SIGNAL.findall(text):
        out.wrong(found)


def play(tree, fake, control, least, out, log):
    pids = {"baileyd": tree.process.pid}
    try:
        tree.initialize()
        Script(tree, out, control.lasting).all()
        pids.update(tree.pids())
        out.descriptors = settled_descriptors(tree, least)
        for name, kinds in out.descriptors.items():
            if len(kinds) > least.get(name, 10 ** 6):
                out.wrong(f"{name}: {len(kinds)} descriptors, {least[name]} on a good day: {kinds}")
    except (Gone, BrokenPipeError, queue.Empty):
        out.answers.append(("connection", "closed"))
        if control.fired() == 0:
            out.wrong("the connection closed without a fault")
    try:
        code = tree.close(10)
        if code < 0 and code not in (-9, -15):
            out.wrong(f"baileyd ended by signal {-code}")
        if code > 128 and code - 128 not in (9, 15):
            out.wrong(f"baileyd ended with {code}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        out.wrong(f"the tree does not end: {error!r}")
        pids.update(tree.pids())
        tree.kill_all()
    check_end(out, fake, pids, log)


def run(program, op=None, least=None, environment=None, preexec=None, **fault):
    """The script with one fault; what came of it. `preexec()` may limit the tree's processes."""
    out = Outcome()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bailey-inject.") as folder:
        os.chmod(folder, 0o711)
        log = os.path.join(folder, "log")
        with FakeDockerd(os.path.join(folder, "e.sock"), box="init") as fake, \
                inject.Control(folder, program, op, **fault) as control:
            os.chmod(fake.path, 0o666)
            env = {"DOCKER_HOST": "unix://" + fake.path, "BAILEY_POOL": "0",
                   **control.environment(), **(environment or {})}
            with open(log, "wb") as stderr:
                tree = Tree(env=env, initialize=False, stderr=stderr,
                            preexec=preexec)
                play(tree, fake, control, least or {}, out, log)
            out.fired = control.fired()
            out.requests = list(fake.log)
            out.stack = control.stack()
            out.realtime_reads = control.realtime_reads()
            out.calls = {name: control.calls(name) for name in inject.OPS}
            out.sites = control.sites() if fault.get("record") else []
            out.log = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    out.seconds = time.monotonic() - started
    return out


def good_day(program, depth):
    """({program: descriptors}, the places) of a run without a fault; two, for what varies."""
    least, sites = collections.Counter(), {}
    for _ in range(2):
        out = run(program, record=True, depth=depth)
        if out.violations:
            raise AssertionError(f"not even without a fault: {out.violations}\n{out.log}")
        for name, kinds in out.descriptors.items():
            least[name] = max(least[name], len(kinds))
        for op, nth, stack, frames in out.sites:
            sites.setdefault((op, stack), (nth, frames))
    return dict(least), [(op, nth, stack, frames) for (op, stack), (nth, frames)
                         in sorted(sites.items(), key=lambda item: (item[0][0], item[1][0]))]
