"""Two owners on one server, side by side, while its broker is killed: neither hears of the other.

Each has runs that say words of its own, in single-use boxes and in a sandbox that stays, and asks for the
other's sandbox and kept output as well.
"""

import concurrent.futures
import json
import os
import signal
import time

from client import WORD, new_word
from serve import Http, Serve
from watch import key_of

OWNERS = ("alice", "bob")
AT_ONCE = 3
FOREIGN = ("not_found",)  # what the other's things are


class Owner:
    def __init__(self, chaos, server, tree, name):
        self.history, self.tree, self.name = chaos.history, tree, name
        self.client = Http(server, name)
        self.runs = []
        self.count = 0

    def ask(self, tool, arguments, word=None, want=("ok",)):
        self.count += 1
        call = f"{self.tree}/{self.name}/{self.count}/{new_word()[-4:]}"
        self.history.add("asked", call=call, tree=self.tree, owner=self.name, tool=tool, word=word, timeout=None, bound=60, want=list(want))
        try:
            answer = self.client.request("tools/call", {"name": tool, "arguments": arguments}, 60)
        except (OSError, AssertionError):
            self.history.add("hung_up", call=call)
            return {"status": None}
        content = answer.get("result", {}).get("structuredContent", {})
        self.history.add("answered", call=call, status=content.get("status", "refused"), error=False,
                         said=sorted(set(WORD.findall(json.dumps(answer)))))
        return content

    def run(self, sandbox=None):
        word = new_word()
        code = "for i in 1 2 3; do echo $CHAOS_WORD; sleep 0.05; done"
        if sandbox:
            r = self.ask("container_exec_command", {"sandbox_id": sandbox, "command": code, "env": {"CHAOS_WORD": word}}, word)
        else:
            r = self.ask("execute_code", {"language": "bash", "code": code, "env": {"CHAOS_WORD": word}}, word)
        if r.get("run_id"):
            self.runs.append(r["run_id"])

    def pry(self, other, sandbox):
        """Asks for what is the other's."""
        for run in other.runs[-3:]:
            self.ask("inspect_logs", {"run_id": run}, want=FOREIGN)
        if sandbox:
            for tool, more in (("container_exec_command", {"command": "cat /workspace/*"}), ("container_list_files", {"path": "."}),
                               ("container_destroy_sandbox", {})):  # fmt: skip
                self.ask(tool, {"sandbox_id": sandbox, **more}, want=FOREIGN)


def measure(chaos, engine, name, rounds):
    with Serve(http=True, principals=OWNERS, env={"DOCKER_HOST": engine.host}) as server:
        key = key_of(server.process.pid)
        engine.watch.supervisors[key] = server.process.pid
        chaos.history.add("tree", tree=name, key=key, engine=engine.name, user="self", pid=server.process.pid)
        owners = [Owner(chaos, server, name, owner) for owner in OWNERS]
        with concurrent.futures.ThreadPoolExecutor(2 * AT_ONCE) as pool:
            for number in range(rounds):
                boxes = [owner.ask("container_create_sandbox", {}).get("sandbox_id") for owner in owners]
                work = [pool.submit(owner.run, box if n % 2 else None) for n in range(AT_ONCE) for owner, box in zip(owners, boxes)]
                if number % 2:
                    time.sleep(0.1)
                    chaos.history.add("fault", n=-1, target="broker", how="kill", step="two owners", life="both", engine=engine.name,
                                      tree=name, seconds=0)
                    for program, pid in server.pids():
                        if program == "bailey-broker":
                            os.kill(pid, signal.SIGKILL)
                    chaos.history.add("fault_over", n=-1)
                for one in work:
                    one.result()
                owners[0].pry(owners[1], boxes[1])
                owners[1].pry(owners[0], boxes[0])
                for owner, box in zip(owners, boxes):
                    owner.ask("container_destroy_sandbox", {"sandbox_id": box}, want=("ok", "not_found"))
        chaos.history.add("leaving", tree=name, how="closed")
    engine.watch.supervisors.pop(key, None)
    chaos.history.add("tree_end", tree=name)
