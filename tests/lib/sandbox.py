"""A sandbox that stays, for live tests.

    box = Sandbox(tree, memory_mb=256)      # any client with call() and start()
    box.run("echo x")["stdout"]             # container_exec_command
    box.call("container_read_file", path="f")
"""

import re
import time


class Sandbox:
    def __init__(self, tree, **arguments):
        self.tree = tree
        self.created = tree.call("container_create_sandbox", arguments)
        assert not self.created["_isError"], self.created
        self.id = self.created["sandbox_id"]

    def call(self, tool, timeout=60, **arguments):
        return self.tree.call(tool, {"sandbox_id": self.id, **arguments}, timeout)

    def start(self, command, **arguments):
        return self.tree.start("container_exec_command", {"sandbox_id": self.id, "command": command, **arguments})

    def run(self, command, **arguments):
        return self.tree.wait(self.start(command, **arguments))

    def evaluate(self, language, code, **arguments):
        return self.call("sandbox_eval", language=language, code=code, **arguments)

    def destroy(self):
        return self.call("container_destroy_sandbox")


def until(condition, seconds, pause=0.05):
    """Waits for a condition to hold; fails with its last value when it does not in time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"not so within {seconds} s: {value!r}")
        time.sleep(pause)


def status_kib(pid, field):
    """0 for a process that has just ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            found = re.search(field + r":\s+(\d+)", status.read())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found.group(1)) if found else 0


def peak_kib(pid):
    """Most memory a process ever held."""
    return status_kib(pid, "VmHWM")


def now_kib(pid):
    """Memory of a process' own, without what it shares."""
    return status_kib(pid, "RssAnon")
