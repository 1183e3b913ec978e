"""tests/sdk/wire.py - every message Bailey writes on stdio or over HTTP, of each revision, against
the types the official Python package has of that revision's schema: answers, errors, notifications,
and requests of its own. Prints TAP.

    python wire.py stdio|http       (BAILEY_BUILD)

Bailey as shipped asks its clients nothing: for its requests, and for results that ask, there is a
second session with the programs that have the conformance suite's tools.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

from mcp_types import methods
from mcp_types.jsonrpc import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import TypeAdapter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serve import Http, Serve  # noqa: E402
from tree import BUILD  # noqa: E402

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


CAPABILITIES = {"sampling": {}, "elicitation": {}, "roots": {}}
ANSWERS = {
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m"},
    "elicitation/create": {"action": "decline"},
    "roots/list": {"roots": []},
}


class Client:
    """What came, checked. Subclasses carry it: send(message, number) -> the messages up to the answer."""

    def __init__(self, revision):
        self.revision = revision
        self.modern = revision == MODERN
        self.number = 0
        self.faults = []
        self.seen = 0
        self.kinds = set()

    def request(self, method, params=None, meta=None):
        """The answer; every message up to it is checked."""
        self.number += 1
        params = dict(params or {})
        meta = dict(meta or {})
        if self.modern:
            meta |= {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
                     "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"}}
        if meta:
            params["_meta"] = meta
        for message in self.exchange({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}):
            self.check(method, message)
            if "method" in message and "id" in message:
                self.tell({"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]})
            if message.get("id") == self.number and "method" not in message:
                return message
        raise AssertionError(f"{method}: no answer")

    def check(self, method, message, unread=False):
        self.seen += 1
        try:
            self.kinds.add(message.get("method") or ("error" if "error" in message else "result"))
            if "method" in message and "id" in message:
                JSONRPCRequest.model_validate(message)
                self.exact(methods.SERVER_REQUESTS[(message["method"], self.revision)], message, message)
            elif "method" in message:
                JSONRPCNotification.model_validate(message)
                self.exact(methods.SERVER_NOTIFICATIONS[(message["method"], self.revision)], message, message)
            elif "error" in message:
                # Where the request's id could not be read the newer schemas have none; the package's type is
                # stricter than they are. The older ones know no such answer: JSON-RPC's own is null, and none where
                # HTTP refuses what was not read ("a JSON-RPC error response that has no id").
                bare = "id" not in message and (unread or self.revision >= "2025-11-25")
                JSONRPCError.model_validate({**message, "id": 0} if bare else message)
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


class Stdio(Client):
    def __init__(self, revision, programs):
        super().__init__(revision)
        command = [str(BUILD / programs / "bailey"), "mcp"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))

    def tell(self, message):
        self.write(json.dumps(message).encode())

    def write(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def exchange(self, message):
        self.tell(message)
        for line in self.process.stdout:
            yield json.loads(line)

    def broken(self, body):
        """What no request is, and the one answer to it."""
        self.write(body)
        self.check(None, json.loads(self.process.stdout.readline()))

    def close(self):
        self.process.stdin.close()
        return self.process.wait(10)


class Streamable(Client):
    def __init__(self, revision, programs):
        super().__init__(revision)
        self.server = Serve(http=True, conformance=programs != "bin")
        self.http = Http(self.server, modern=self.modern, initialize=False, revision=revision)

    def post(self, message):
        params = message.get("params", {})
        name = params.get("uri" if message.get("method") == "resources/read" else "name")
        stream = self.http.send(message, self.http.headers(message.get("method"), name))
        self.http.session = stream.headers.get("Mcp-Session-Id") or self.http.session
        return stream

    def tell(self, message):
        stream = self.post(message)
        assert stream.status == 202, stream.status
        stream.connection.close()

    def exchange(self, message):
        stream = self.post(message)
        yield from stream.messages()
        stream.connection.close()

    def broken(self, body):
        for message in self.http.send(body, self.http.headers("x")).messages():
            self.check(None, message)

    def close(self):
        """What is refused before anything is read of it says so in the same form."""
        refused = [("POST", "/mcp", {"Authorization": "Bearer none"}), ("POST", "/mcp", {"Host": "example.org"}),
                   ("POST", "/mcp", {"Content-Type": "text/plain"}), ("POST", "/mcp", {"MCP-Protocol-Version": "1999-01-01"}),
                   ("POST", "/mcp", {"Mcp-Session-Id": "none such"}), ("PUT", "/mcp", {}), ("POST", "/elsewhere", {})]
        for verb, path, headers in refused:
            stream = self.http.send({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {**self.http.headers("ping"), **headers}, verb, path)
            assert stream.status >= 400, (verb, path, headers, stream.status)
            for message in stream.messages():
                if "jsonrpc" in message:
                    self.check(None, message, unread=True)
        return self.server.close()


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


def opened(server):
    if server.modern:
        server.request("server/discover")
        return {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    can = {name: c for name, c in CAPABILITIES.items() if name != "elicitation" or server.revision >= "2025-06-18"}
    server.request("initialize", {"protocolVersion": server.revision, "capabilities": can, "clientInfo": {"name": "t", "version": "1"}})
    server.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    server.request("ping")
    server.request("logging/setLevel", {"level": "debug"})
    return {"progressToken": 7}


def asking(server):
    """Tools that ask the client, each in the way of its era; and those that tell it something."""
    meta = opened(server)
    for tool in server.request("tools/list")["result"]["tools"]:
        if tool["name"].startswith("test_"):
            arguments = {n: "x" for n, s in tool["inputSchema"].get("properties", {}).items() if s.get("type") == "string"}
            server.request("tools/call", {"name": tool["name"], "arguments": arguments}, meta)
    server.request("tools/call", {"name": "no_such_tool"})
    for prompt in server.request("prompts/list")["result"]["prompts"]:
        server.request("prompts/get", {"name": prompt["name"], "arguments": {a["name"]: "x" for a in prompt.get("arguments", [])}})
    for resource in server.request("resources/list")["result"]["resources"]:
        server.request("resources/read", {"uri": resource["uri"]})


def session(server):
    """A walk through everything there is to answer."""
    call = lambda name, arguments, meta=None: server.request("tools/call", {"name": name, "arguments": arguments}, meta)  # noqa: E731
    meta = opened(server)
    for body in (b"{", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":1}'):
        server.broken(body)
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


def one(way, revision, programs, walk):
    server = (Stdio if way == "stdio" else Streamable)(revision, programs)
    wanted = {"result", "error", "notifications/progress", "notifications/message"}
    if walk is asking and not server.modern:
        wanted |= {"sampling/createMessage"} | ({"elicitation/create"} if revision >= "2025-06-18" else set())
    try:
        walk(server)
        if not wanted <= server.kinds:
            server.faults.append(f"never came: {sorted(wanted - server.kinds)}")
    except Exception as e:
        server.faults.append(f"the session ended: {type(e).__name__}: {e}")
    code = server.close()
    if code != 0:
        server.faults.append(f"it ended with {code}")
    return server


def main():
    way, failed, number = sys.argv[1], 0, 0
    sessions = [(way, revision, *kind) for kind in (("bin", session), ("conformance/bin", asking)) for revision in [*LEGACY, MODERN]]
    with concurrent.futures.ThreadPoolExecutor(4) as side_by_side:
        for number, server in enumerate(side_by_side.map(lambda s: one(*s), sessions), 1):
            failed += bool(server.faults)
            print(f"{'not ok' if server.faults else 'ok'} {number} - {way} {server.revision}, {sessions[number - 1][3].__name__}: "
                  f"{server.seen} messages are what its schema says")
            for fault in server.faults:
                print("# " + fault.replace("\n", " "))
    print(f"1..{number}")
    return 1 if failed else 0


sys.exit(main())
