#!/usr/bin/env python3
"""bailey-frontend over stdio: revisions, eras, schemas, batches, bad input.

The client, the supervisor and the broker are this test (lib/frontend_rig.py).
"""

import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import schema_check  # noqa: E402
import pace  # noqa: E402
import tap  # noqa: E402
from frontend_rig import ENVELOPE, Rig, tool_schemas  # noqa: E402

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
TOOLS = ["execute_code", "execute_sandboxed_command", "container_create_sandbox",
         "container_exec_command", "container_list_sandboxes", "container_destroy_sandbox",
         "container_read_file", "container_write_file", "container_list_files", "sandbox_eval",
         "inspect_logs", "check_sandbox_health"]
BASH = {"language": "bash", "code": "echo hi"}


class Revisions(unittest.TestCase):
    def test_initialize(self):
        for asked, given in [(r, r) for r in LEGACY] + [("2099-01-01", "2025-11-25"),
                                                        (MODERN, "2025-11-25"), ("", "2025-11-25")]:
            with self.subTest(asked=asked), Rig() as rig:
                result = rig.initialize(asked)
                self.assertEqual(result["protocolVersion"], given)
                want = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
                if result["protocolVersion"] >= "2025-03-26":
                    want["completions"] = {}
                self.assertEqual(result["capabilities"], want)
                self.assertEqual(result["serverInfo"]["name"], "bailey")
                self.assertEqual("title" in result["serverInfo"], given >= "2025-06-18")
                self.assertNotIn("resultType", result)

    def test_initialize_needs_a_version(self):
        with Rig() as rig:
            self.assertEqual(rig.ask("initialize", {})["error"]["code"], -32602)
            self.assertEqual(rig.ask("initialize", {"protocolVersion": 5})["error"]["code"], -32602)

    def test_initialize_before_configured_and_without_upcalls(self):
        with Rig(configure=False) as rig:
            self.assertEqual(rig.initialize()["protocolVersion"], "2025-11-25")
            self.assertEqual(rig.ask("ping", id=5)["result"], {})
            self.assertTrue(rig.broker_silent())
            rig.configure()
            self.assertTrue(rig.broker_silent())

    def test_discover(self):
        with Rig() as rig:
            result = rig.ask("server/discover", modern=True)["result"]
            self.assertEqual(result["supportedVersions"], [MODERN])
            self.assertEqual(result["resultType"], "complete")
            self.assertIsInstance(result["ttlMs"], int)
            self.assertIn(result["cacheScope"], ("public", "private"))
            self.assertEqual(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
                             "bailey")
            self.assertTrue(rig.broker_silent())
            # a probe may be followed by initialize on the same pipe, and the other way round
            self.assertEqual(rig.initialize()["protocolVersion"], "2025-11-25")
            self.assertIn("result", rig.ask("server/discover", id=3, modern=True))

    def test_envelope(self):
        version = "io.modelcontextprotocol/protocolVersion"
        caps = "io.modelcontextprotocol/clientCapabilities"
        cases = [({version: "2027-01-01", caps: {}}, -32022),
                 ({version: "2025-11-25", caps: {}}, -32022),
                 ({version: MODERN}, -32602),
                 ({version: MODERN, caps: []}, -32602),
                 ({version: 7, caps: {}}, -32602),
                 ({version: None, caps: {}}, -32602)]
        with Rig() as rig:
            for meta, code in cases:
                with self.subTest(meta=meta):
                    error = rig.ask("tools/list", {"_meta": meta})["error"]
                    self.assertEqual(error["code"], code)
                    if code == -32022:
                        self.assertEqual(error["data"], {"supported": [MODERN],
                                                         "requested": meta[version]})

    @staticmethod
    def listed(rig, method, modern=False):
        """A listing; that of resources asks the broker, which knows of no sandbox here."""
        rig.request(method, modern=modern)
        if method == "resources/list":
            rig.tell("list_end", call=rig.broker_row("sandbox_list")[1]["call"])
        return rig.message(1)

    def test_methods_by_era(self):
        lists = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
        with Rig() as rig:
            rig.initialize()
            for method in ["ping", "logging/setLevel"]:
                params = {"level": "info"} if "log" in method else None
                with self.subTest(method=method):
                    self.assertEqual(rig.ask(method, params)["result"], {})
                    self.assertEqual(rig.ask(method, params, modern=True)["error"]["code"], -32601)
            with self.subTest(method="initialize in an envelope"):
                self.assertEqual(rig.ask("initialize", {"protocolVersion": MODERN},
                                         modern=True)["error"]["code"], -32601)
            with self.subTest(method="discover without an envelope"):
                self.assertEqual(rig.ask("server/discover")["error"]["code"], -32601)
            for method in lists:
                with self.subTest(method=method):
                    old, new = self.listed(rig, method), self.listed(rig, method, modern=True)
                    self.assertNotIn("resultType", old["result"])
                    self.assertNotIn("ttlMs", old["result"])
                    self.assertEqual(new["result"]["resultType"], "complete")
                    self.assertGreaterEqual(new["result"]["ttlMs"], 0)
                    self.assertNotIn("nextCursor", new["result"])
                    self.assertEqual(rig.ask(method, {"cursor": "x"})["error"]["code"], -32602)
            with self.subTest(method="completion/complete"):
                for modern in (False, True):
                    params = {"ref": {"type": "ref/prompt", "name": "use_sandbox"},
                              "argument": {"name": "task", "value": ""}}
                    result = rig.ask("completion/complete", params, modern=modern)["result"]
                    self.assertEqual(result["completion"], {"values": []})
            for method in ["tools/cal", "resources/rea", "", "subscriptions/listen"]:
                with self.subTest(method=method or "empty"):
                    self.assertEqual(rig.ask(method)["error"]["code"], -32601)

    def test_set_level_checks_the_level(self):
        with Rig() as rig:
            for params in [{}, {"level": "loud"}, {"level": 3}, None]:
                with self.subTest(params=params):
                    self.assertEqual(rig.ask("logging/setLevel", params)["error"]["code"], -32602)

    def test_tools_list_fields_by_revision(self):
        base = {"name", "description", "inputSchema"}
        for revision in LEGACY:
            with self.subTest(revision=revision), Rig() as rig:
                rig.initialize(revision)
                want = set(base)
                if revision >= "2025-03-26":
                    want |= {"annotations"}
                if revision >= "2025-06-18":
                    want |= {"title", "outputSchema"}
                tools = rig.ask("tools/list")["result"]["tools"]
                self.assertEqual([t["name"] for t in tools], TOOLS)
                for tool in tools:
                    self.assertEqual(set(tool), want)

    def test_legacy_request_before_initialize(self):
        with Rig() as rig:
            self.assertEqual(len(rig.ask("tools/list")["result"]["tools"]), len(TOOLS))

    def test_unknown_notifications_and_responses_are_ignored(self):
        with Rig() as rig:
            rig.initialize()
            rig.notify("notifications/roots/list_changed")
            rig.notify("no/such/thing", {"x": 1})
            rig.send({"jsonrpc": "2.0", "id": 77, "result": {}})
            rig.send({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": ""}})
            self.assertTrue(rig.silent())
            self.assertEqual(rig.ask("ping", id=9)["result"], {})


class Schemas(unittest.TestCase):
    def test_what_strict_clients_need(self):
        with Rig() as rig:
            for name, tool in tool_schemas(rig).items():
                with self.subTest(tool=name):
                    self.assertRegex(name, r"^[a-z0-9_]{1,40}$")
                    self.assertLess(len(tool["description"].encode()), 2048)
                    self.assertTrue(tool["title"])
                    self.assertEqual(set(tool["annotations"]),
                                     {"title", "readOnlyHint", "destructiveHint", "idempotentHint",
                                      "openWorldHint"})
                    for schema in (tool["inputSchema"], tool["outputSchema"]):
                        self.assertEqual(schema["type"], "object")
                        self.assertIs(schema["additionalProperties"], False)
                        schema_check.strict(schema)
                    for prop in tool["inputSchema"]["properties"].values():
                        self.assertIn(prop["type"], ("string", "number", "integer", "boolean", "array",
                                                     "object"))

    def test_inputs_flat(self):
        with Rig() as rig:
            text = json.dumps([t["inputSchema"] for t in tool_schemas(rig).values()])
            for word in ("$ref", "anyOf", "oneOf", "allOf", "$schema", "null"):
                self.assertNotIn(word, text)


class Batches(unittest.TestCase):
    def test_by_revision(self):
        for revision in LEGACY:
            with self.subTest(revision=revision), Rig() as rig:
                rig.initialize(revision)
                rig.send([{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(3)])
                answer = rig.any_message()
                if revision <= "2025-03-26":
                    self.assertEqual(sorted(a["id"] for a in answer), [0, 1, 2])
                else:
                    self.assertEqual(answer["error"]["code"], -32600)

    def test_elements(self):
        with Rig() as rig:
            rig.initialize("2025-03-26")
            rig.send([])
            self.assertEqual(rig.any_message()["error"]["code"], -32600)
            rig.send([{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(65)])
            self.assertEqual(rig.any_message()["error"]["code"], -32600)
            rig.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
            self.assertTrue(rig.silent())
            rig.send([1, {"jsonrpc": "2.0", "id": 5, "method": "ping"}, [],
                      {"jsonrpc": "2.0", "method": "x"},
                      {"jsonrpc": "2.0", "id": 6, "method": "tools/list",
                       "params": {"_meta": ENVELOPE}}])
            answer = rig.any_message()
            self.assertEqual(len(answer), 4)
            self.assertEqual(sorted(a["error"]["code"] for a in answer if "error" in a),
                             [-32600, -32600, -32600])

    def test_calls_in_a_batch_answer_together(self):
        with Rig() as rig:
            rig.initialize("2025-03-26")
            call = {"name": "execute_code", "arguments": BASH}
            rig.send([{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": call}
                      for i in (1, 2, 3)])
            calls = [rig.submitted()["call"] for _ in range(3)]
            for c in calls[:2]:
                rig.grant(c)
                rig.end(c, guest={})
            self.assertTrue(rig.silent())
            rig.notify("notifications/cancelled", {"requestId": 3})
            answer = rig.any_message()
            self.assertEqual(sorted(a["id"] for a in answer), [1, 2])


# line, code, id of the error (... = absent)
BAD_LINES = [
    ("not json", b"hello", -32700, ...),
    ("cut", b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, ...),
    ("trailing comma", b'{"jsonrpc":"2.0","id":1,"method":"ping",}', -32700, ...),
    ("two values", b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', -32700, ...),
    ("raw NUL", b'{"jsonrpc":"2.0","id":1,"method":"pi\0ng"}', -32700, ...),
    ("raw tab", b'{"jsonrpc":"2.0","id":1,"method":"pi\tng"}', -32700, ...),
    ("not UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, ...),
    ("overlong UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}', -32700, ...),
    ("raw surrogate", b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}', -32700, ...),
    ("leading zero", b'{"jsonrpc":"2.0","id":01,"method":"ping"}', -32700, ...),
    ("NaN", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700, ...),
    ("depth bomb", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 10000, -32700,
     ...),
    ("depth 33", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 32 + b"1" +
     b"}" * 33, -32700, ...),
    ("NUL escape", b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"\\u0000"}}', -32602,
     "a"),
    ("NUL escape, id last", b'{"method":"ping","params":{"x":"\\u0000"},"jsonrpc":"2.0","id":7}',
     -32602, 7),
    ("NUL escape in the id", b'{"jsonrpc":"2.0","id":"a\\u0000","method":"ping"}', -32700, ...),
    ("lone high surrogate", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
     -32602, 1),
    ("lone low surrogate", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\udc00x"}}',
     -32602, 1),
    ("swapped surrogates", b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"x":"\\udc00\\ud800"}}',
     -32602, 1),
    ("duplicate key", b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', -32602,
     1),
    ("duplicate key escaped", b'{"jsonrpc":"2.0","id":1,"method":"ping","\\u006dethod":"x"}',
     -32602, 1),
    ("duplicate key deep", b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"a":[{"b":1,"b":2}]}}',
     -32602, 1),
    ("duplicate id", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700, ...),
    ("1e999", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}', -32602, 1),
    ("too many digits", b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"x":' + b"9" * 65 + b"}}",
     -32602, 1),
    ("long key", b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"' + b"k" * 300 + b'":1}}',
     -32602, 1),
    ("many keys", b'{"jsonrpc":"2.0","id":1,"method":"p","params":{' +
     b",".join(b'"k%d":1' % i for i in range(9000)) + b"}}", -32602, 1),
    ("many values", b'{"jsonrpc":"2.0","id":1,"method":"p","params":{"x":[' +
     b",".join([b"0"] * 70000) + b"]}}", -32602, 1),
    ("null id", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, ...),
    ("object id", b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, ...),
    ("fraction id", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, ...),
    ("huge id", b'{"jsonrpc":"2.0","id":9007199254740993000,"method":"ping"}', -32600, ...),
    ("id past 2^53", b'{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', -32600, ...),
    ("2^63 id", b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}', -32600, ...),
    ("long id", b'{"jsonrpc":"2.0","id":"' + b"i" * 129 + b'","method":"ping"}', -32600, ...),
    ("no version", b'{"id":1,"method":"ping"}', -32600, 1),
    ("wrong version", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
    ("no method", b'{"jsonrpc":"2.0","id":1}', -32600, 1),
    ("method not a string", b'{"jsonrpc":"2.0","id":1,"method":1}', -32600, 1),
    ("params not an object", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602, 1),
    ("a number", b"42", -32600, ...),
    ("a string", b'"ping"', -32600, ...),
    ("batch", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, ...),
    ("empty batch", b"[]", -32600, ...),
    ("name not a string", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":3}}',
     -32602, 1),
    ("no params", b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602, 1),
    ("arguments not an object",
     b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code",'
     b'"arguments":[]}}', -32602, 1),
    ("unknown tool",
     b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm","arguments":{}}}',
     -32602, 1),
    ("bad token", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code",'
     b'"arguments":{"language":"bash","code":""},"_meta":{"progressToken":{}}}}', -32602, 1),
]


class BadInput(unittest.TestCase):
    def test_lines(self):
        with Rig() as rig:
            rig.initialize("2025-11-25")
            for name, line, code, rpc_id in BAD_LINES:
                with self.subTest(line=name):
                    rig.send_bytes(line + b"\n")
                    answer = rig.any_message()
                    self.assertEqual(answer["error"]["code"], code)
                    self.assertTrue(answer["error"]["message"])
                    self.assertEqual(answer.get("id", ...), rpc_id)
                    self.assertEqual(answer["jsonrpc"], "2.0")
            self.assertEqual(rig.ask("ping", id=4)["result"], {})
            self.assertEqual(rig.wait_alive(), True)

    def test_unreadable_id_is_null_before_2025_11_25(self):
        for revision in LEGACY:
            with self.subTest(revision=revision), Rig() as rig:
                rig.initialize(revision)
                rig.send_bytes(b"{\n")
                self.assertEqual(rig.any_message().get("id", ...),
                                 ... if revision >= "2025-11-25" else None)

    def test_long_lines(self):
        with Rig() as rig:
            rig.initialize()
            big = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"a" * (10 << 20)
            for name, line in (("10 MB", big + b'"}}'), ("30 MB", big * 3)):
                with self.subTest(line=name):
                    rig.send_bytes(line + b"\n")
                    self.assertEqual(rig.any_message()["error"]["code"], -32700)
            with self.subTest(line="just 8 MiB"):
                head = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"'
                rig.send_bytes(head + b"a" * ((8 << 20) - len(head) - 3) + b'"}}\n')
                self.assertEqual(rig.any_message(), {"jsonrpc": "2.0", "id": 1, "result": {}})
            with self.subTest(line="one byte more"):
                rig.send_bytes(head + b"a" * ((8 << 20) - len(head) - 2) + b'"}}\n')
                self.assertEqual(rig.any_message()["error"]["code"], -32700)
            with self.subTest(line="memory is given back"):
                if not rig.filtered():
                    self.skipTest("a build with a sanitizer's memory")
                # kept for the next one, then given back
                self.assertTrue(pace.until(lambda: rig.rss_kb() < 12000, 3), rig.rss_kb())
            self.assertEqual(rig.ask("ping", id=2)["result"], {})

    def test_framing(self):
        cases = [(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n', 1),
                 (b'\n\r\n\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n\n', 1),
                 (b' \t{"jsonrpc" : "2.0", "id": 1, "method": "ping"} \n', 1),
                 (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 50, 50)]
        for kind in ("pipe", "socket"):
            with Rig(kind) as rig:
                for text, count in cases:
                    with self.subTest(kind=kind, text=text[:20]):
                        rig.send_bytes(text)
                        for _ in range(count):
                            self.assertEqual(rig.any_message()["result"], {})
                        self.assertTrue(rig.silent(0.02))
                with self.subTest(kind=kind, text="byte by byte"):
                    for byte in b'{"jsonrpc":"2.0","id":"\xc3\xa9","method":"ping"}\n':
                        rig.send_bytes(bytes([byte]))
                    self.assertEqual(rig.any_message()["id"], "\u00e9")

    def test_ids_come_back_exactly(self):
        ids = [0, -1, 1, 9007199254740991, -9007199254740991, "", "0", "a b", "\u00e9\u4e2d",
               "\U0001f600", "\\\"\n", "x" * 128]
        with Rig() as rig:
            for rpc_id in ids:
                with self.subTest(id=repr(rpc_id)[:40]):
                    answer = rig.ask("ping", id=rpc_id)
                    self.assertEqual(answer["id"], rpc_id)
                    self.assertIs(type(answer["id"]), type(rpc_id))

    def test_arguments(self):
        code = {"language": "bash", "code": "true"}
        cases = [
            ("execute_code", {}, "language"),
            ("execute_code", {"language": "bash"}, "code"),
            ("execute_code", {"language": "ruby", "code": ""}, "python, bash, node"),
            ("execute_code", {"language": 1, "code": ""}, "python, bash, node"),
            ("execute_code", dict(code, privileged=True), "privileged"),
            ("execute_code", dict(code, HostConfig={}), "HostConfig"),
            ("execute_code", dict(code, code=5), "must be a string, not a number"),
            ("execute_code", dict(code, code="x" * ((1 << 20) + 1)), "1048576"),
            ("execute_code", dict(code, stdin="x" * ((4 << 20) + 1)), "4194304"),
            ("execute_code", dict(code, stdin=None), "not null"),
            ("execute_code", dict(code, args="x"), "an array of strings"),
            ("execute_code", dict(code, args=[1]), "must be a string"),
            ("execute_code", dict(code, args=["x"] * 1025), "1024"),
            ("execute_code", dict(code, args=["x" * 131072]), "131071"),
            ("execute_code", dict(code, args=["x" * 131071] * 20), "2 MiB together"),
            ("execute_code", dict(code, env=["A=1"]), "an object of strings"),
            ("execute_code", dict(code, env={"A": 1}), "must be a string"),
            ("execute_code", dict(code, env={"1A": "x"}), "1A"),
            ("execute_code", dict(code, env={"A=B": "x"}), "names must match"),
            ("execute_code", dict(code, env={"": "x"}), "names must match"),
            ("execute_code", dict(code, env={"\u202e\x1b": "x"}), "\\u{202E}\\u{1B}"),
            ("execute_code", dict(code, env={f"A{i}": "" for i in range(513)}), "512"),
            ("execute_code", dict(code, timeout_seconds=0.05), "between 0.1 and 300"),
            ("execute_code", dict(code, timeout_seconds=301), "between 0.1 and 300"),
            ("execute_code", dict(code, timeout_seconds=-1), "between 0.1 and 300"),
            ("execute_code", dict(code, timeout_seconds=1e30), "between 0.1 and 300"),
            ("execute_code", dict(code, timeout_seconds="5"), "must be a number, not a string"),
            ("execute_code", dict(code, timeout_seconds=True), "must be a number, not a boolean"),
            ("execute_code", dict(code, memory_mb=31), "between 32"),
            ("execute_code", dict(code, memory_mb=64.5), "whole number"),
            ("execute_code", dict(code, memory_mb=2 ** 63), "between 32"),
            ("execute_code", dict(code, cpus=0), "between 0.01"),
            ("execute_code", dict(code, profile=""), "must not be empty"),
            ("execute_code", dict(code, profile="p" * 65), "64"),
            ("execute_sandboxed_command", {"command": ""}, "must not be empty"),
            ("execute_sandboxed_command", {"command": "x" * 131072}, "131071"),
            ("execute_sandboxed_command", {"command": ":", "language": "bash"}, "language"),
            ("execute_sandboxed_command", {"command": ["ls"]}, "not an array"),
            ("check_sandbox_health", {"x": 1}, "no arguments"),
            ("execute_python_code", {"code": "1"}, "code_string"),
            ("docker_run", {"image": "x"}, "command"),
        ]
        with Rig() as rig:
            rig.initialize()
            for i, (tool, arguments, words) in enumerate(cases):
                with self.subTest(case=i, words=words):
                    rig.call(tool, arguments, id=i)
                    result = rig.message(i)["result"]
                    self.assertIs(result["isError"], True)
                    self.assertIn(words, result["content"][0]["text"])
                    self.assertNotIn("structuredContent", result)
            rig.broker_row("warm_hint")
            self.assertTrue(rig.broker_silent())

    def test_unknown_tool_names_it_visibly(self):
        with Rig() as rig:
            rig.call("\x1b[31m\u202e" + "n" * 500, {})
            message = rig.message(1)["error"]["message"]
            self.assertIn("\\u{1B}[31m\\u{202E}", message)
            self.assertLess(len(message), 200)

    def test_random_bytes(self):
        rnd = random.Random(7)
        with Rig() as rig:
            seed = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code",' \
                   b'"arguments":{"language":"bash","code":"\\u00e9"}}}'
            for _ in range(2000):
                line = bytearray(seed)
                for _ in range(rnd.randrange(1, 6)):
                    line[rnd.randrange(len(line))] = rnd.randrange(256)
                rig.send_bytes(bytes(line).replace(b"\n", b" ") + b"\n")
                while True:
                    try:
                        rig.line(0.0)
                    except TimeoutError:
                        break
                while not rig.broker_silent(0):
                    name, row = rig.broker_row()
                    if name == "call_submit":
                        rig.end(row["call"], "internal")
            rig.ask("ping", id="end")
            self.assertTrue(rig.wait_alive())


if __name__ == "__main__":
    tap.main()
