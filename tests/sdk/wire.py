"""tests/sdk/wire.py - every message Bailey writes on stdio, of each revision, against the types the
official Python package has of that revision's schema. Prints TAP.

    python wire.py COMMAND [ARG…]
"""

import json
import os
import re
import subprocess
import sys

from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCResponse
from pydantic import TypeAdapter

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
# What a revision does not know yet, wherever it stands in a message.
LATER = {
    "2024-11-05": {"annotations", "title", "outputSchema", "structuredContent", "resource_link", "execution", "icons"},
    "2025-03-26": {"title", "outputSchema", "structuredContent", "resource_link", "execution", "icons"},
    "2025-06-18": {"execution", "icons"},
    "2025-11-25": {"resultType", "ttlMs", "cacheScope"},
}


class Server:
    def __init__(self, revision):
        self.revision = revision
        self.modern = revision == MODERN
        self.process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))
        self.number = 0
        self.faults = []
        self.seen = 0

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params=None, meta=None):
        """The answer; every message up to it is checked."""
        self.number += 1
        params = dict(params or {})
        meta = dict(meta or {})
        if self.modern:
            meta |= {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
                     "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}}
        if meta:
            params["_meta"] = meta
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"{method}: no answer")
            message = json.loads(line)
            self.check(method, message)
            if message.get("id") == self.number:
                return message

    def check(self, method, message):
        self.seen += 1
        try:
            if "method" in message:
                JSONRPCNotification.model_validate(message)
                self.exact(methods.SERVER_NOTIFICATIONS[(message["method"], self.revision)], message, message)
            elif "error" in message:
                JSONRPCError.model_validate(message)
            else:
                JSONRPCResponse.model_validate(message)
                self.exact(methods.SERVER_RESULTS[(method, self.revision)], message["result"], message)
        except Exception as e:  # whatever the validator says
            self.faults.append(f"{method}: {type(e).__name__}: {str(e)[:300]} in {json.dumps(message)[:400]}")

    def exact(self, kind, value, message):
        """The value is of that type, and the type knows each of its members."""
        adapter = TypeAdapter(kind)
        back = adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True, exclude_unset=True)
        lost = missing(value, back)
        if lost:
            raise AssertionError(f"{lost} is not of this revision")
        later = LATER.get(self.revision, set()) & names(message)
        if later:
            raise AssertionError(f"{sorted(later)} is of a later revision")

    def close(self):
        self.process.stdin.close()
        return self.process.wait(10)


def missing(value, back, at="$"):
    """The first member of value that back has lost."""
    if isinstance(value, dict) and isinstance(back, dict):
        for key, item in value.items():
            if key not in back:
                return f"{at}.{key}"
            lost = missing(item, back[key], f"{at}.{key}")
            if lost:
                return lost
    if isinstance(value, list) and isinstance(back, list):
        for i, (item, other) in enumerate(zip(value, back)):
            lost = missing(item, other, f"{at}[{i}]")
            if lost:
                return lost
    return None


def names(value, inside=None):
    """Member names of a message, and its content types; what a schema or a result's own data hold
    is none of the protocol's."""
    found = set()
    if isinstance(value, dict):
        for key, item in value.items():
            found.add(key)
            if key == "type" and isinstance(item, str):
                found.add(item)
            if key not in ("inputSchema", "outputSchema", "structuredContent", "_meta", "text", "annotations"):
                found |= names(item)
    elif isinstance(value, list):
        for item in value:
            found |= names(item)
    return found


def session(server):
    """A walk through everything there is to answer."""
    call = lambda name, arguments, meta=None: server.request("tools/call", {"name": name, "arguments": arguments}, meta)  # noqa: E731
    if server.modern:
        server.request("server/discover")
        meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    else:
        server.request("initialize", {"protocolVersion": server.revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        server.request("ping")
        server.request("logging/setLevel", {"level": "debug"})
        meta = {"progressToken": 7}
    server.request("tools/list")
    server.request("tools/list", {"cursor": "none such"})
    server.request("prompts/list")
    server.request("resources/list")
    templates = server.request("resources/templates/list")["result"]["resourceTemplates"]
    for prompt in server.request("prompts/list")["result"]["prompts"]:
        server.request("prompts/get", {"name": prompt["name"]})
        server.request("completion/complete", {"ref": {"type": "ref/prompt", "name": prompt["name"]}, "argument": {"name": "x", "value": ""}})
    server.request("prompts/get", {"name": "none such"})
    server.request("nothing/known")
    call("no_such_tool", {})
    call("execute_code", {"language": "cobol", "code": ""})
    run = call("execute_code", {"language": "bash", "code": "echo one; sleep 0.3; echo two >&2; exit 3"}, meta)
    call("execute_code", {"language": "bash", "code": "mkdir artifacts; base64 -d >artifacts/dot.png; head -c 3000000 /dev/zero >artifacts/big.bin",
                          "stdin": PNG, "artifacts": ["artifacts"]}, meta)
    call("execute_code", {"language": "bash", "code": "sleep 9", "timeout_seconds": 0.2})
    call("execute_sandboxed_command", {"command": "printf 'a\\377b\\000'"})
    call("check_sandbox_health", {})
    text = run["result"]["content"][0]["text"]
    run_id = json.loads(text)["run_id"]
    call("inspect_logs", {"run_id": run_id})
    box = {"sandbox_id": json.loads(call("container_create_sandbox", {})["result"]["content"][0]["text"])["sandbox_id"]}
    for name, arguments in (
        ("container_write_file", {"path": "d/f", "content": "text\n"}), ("container_read_file", {"path": "d/f"}),
        ("container_read_file", {"path": "none"}), ("container_list_files", {"path": "."}), ("container_exec_command", {"command": "cat d/f"}),
        ("container_exec_command", {"command": "sleep 1", "background": True}), ("sandbox_eval", {"language": "python", "code": "1 + 1"}),
        ("sandbox_eval", {"language": "python", "code": "1 / 0"})):
        call(name, {**box, **arguments}, meta)
    call("container_list_sandboxes", {})
    server.request("resources/list")
    for template in templates:
        uri = template["uriTemplate"].replace("{run_id}", run_id).replace("{sandbox_id}", box["sandbox_id"])
        server.request("resources/read", {"uri": re.sub(r"\{[^}]*path[^}]*\}", "d/f", uri).replace("{stream}", "stdout")})
    server.request("resources/read", {"uri": "bailey://none/such"})
    call("container_destroy_sandbox", box)
    call("container_destroy_sandbox", box)


def main():
    failed = 0
    for number, revision in enumerate([*LEGACY, MODERN], 1):
        server = Server(revision)
        try:
            session(server)
        except Exception as e:
            server.faults.append(f"the session ended: {type(e).__name__}: {e}")
        code = server.close()
        good = not server.faults and code == 0
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {revision}: {server.seen} messages are what its schema says")
        for fault in server.faults:
            print("# " + fault.replace("\n", " "))
    print(f"1..{len(LEGACY) + 1}")
    return 1 if failed else 0


sys.exit(main())
