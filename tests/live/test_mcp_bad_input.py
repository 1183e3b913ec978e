#!/usr/bin/env python3
"""Bad input through a whole tree: refused with words, and the tree goes on, no bigger than before.

What each kind of bad line is answered with is tests/integration/test_mcp_stdio.py; here is what only
a whole tree shows: other runs are not disturbed, nothing reaches the engine, memory comes back.
"""

import json
import pathlib
import queue
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from tree import Tree, for_users, rss_kb  # noqa: E402

MIB = 1 << 20


def open_fds(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


FDS_OF_A_BOX = 6  # in the reaper: a pidfd and five counters


def at_rest(tree):
    """Waits until for a second no box starts or is being removed; the boxes that are left."""
    end = time.monotonic() + 30
    calm_since, last = time.monotonic(), None
    while time.monotonic() < end:
        pool = tree.health()["pool"]
        ready = sum(row["ready"] for row in pool)
        settled = all(row["starting"] == 0 for row in pool) and len(tree.boxes()) == ready
        if not settled or ready != last:
            calm_since, last = time.monotonic(), ready
        elif time.monotonic() - calm_since >= 1:
            return ready
        time.sleep(0.1)
    raise AssertionError(f"the pools did not come to rest: {pool}, {len(tree.boxes())} boxes")


def sizes(tree):
    """A frontend gives the memory of big messages back after a second without one."""
    time.sleep(1.6)
    return sizes_now(tree)


def sizes_now(tree):
    return {name: (rss_kb(pid), open_fds(pid)) for name, pid in tree.pids().items()}


def call_line(number, tool, arguments, **more):
    params = {"name": tool, "arguments": arguments, **more}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def raw_call(number, body):
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"execute_code","arguments":' % number
    return head + body + b"}}"


BASH = b'{"language":"bash","code":"echo x > /tmp/ran; echo ran"'
# Lines none of which may ever run anything.
REFUSED = {
    "cut off": raw_call(9001, BASH),
    "two values": raw_call(9001, BASH + b"}") + b" {}",
    "duplicate key": raw_call(9001, BASH + b',"code":"echo other"}'),
    "duplicate key, escaped": raw_call(9001, BASH + b',"c\\u006fde":"echo other"}'),
    "key of another case": raw_call(9001, BASH + b',"Code":"echo other"}'),
    "NUL": raw_call(9001, b'{"language":"bash","code":"echo \\u0000"}'),
    "raw NUL": raw_call(9001, b'{"language":"bash","code":"echo \x00"}'),
    "lone surrogate": raw_call(9001, b'{"language":"bash","code":"echo \\ud800"}'),
    "reversed surrogates": raw_call(9001, b'{"language":"bash","code":"echo \\udc00\\ud800"}'),
    "surrogate in UTF-8": raw_call(9001, b'{"language":"bash","code":"echo \xed\xa0\x80"}'),
    "overlong": raw_call(9001, b'{"language":"bash","code":"echo \xc0\xaf"}'),
    "past the last character": raw_call(9001, b'{"language":"bash","code":"echo \xf4\x90\x80\x80"}'),
    "byte order mark": b"\xef\xbb\xbf" + raw_call(9001, BASH + b"}"),
    "UTF-16": raw_call(9001, BASH + b"}").decode().encode("utf-16"),
    "1e999": raw_call(9001, BASH + b',"timeout_seconds":1e999}'),
    "NaN": raw_call(9001, BASH + b',"timeout_seconds":NaN}'),
    "minus zero memory": raw_call(9001, BASH + b',"memory_mb":-0}'),
    "2^63": raw_call(9001, BASH + b',"memory_mb":9223372036854775808}'),
    "2^64 + 512": raw_call(9001, BASH + b',"memory_mb":18446744073709552128}'),
    "wrong type": raw_call(9001, b'{"language":"bash","code":["echo ran"]}'),
    "unknown parameter": raw_call(9001, BASH + b',"privileged":true}'),
    "a mount": raw_call(9001, BASH + b',"mounts":[{"source":"/","target":"/mnt"}]}'),
    "another image": call_line(9001, "docker_run", {"command": "echo ran", "image": "alpine"}),
    "unknown profile": raw_call(9001, BASH + b',"profile":"../default"}'),
    "unknown tool": call_line(9001, "execute_code ", {"language": "bash", "code": "echo ran"}),
    "sandbox that is none": call_line(9001, "container_exec_command", {"sandbox_id": "x", "command": "echo ran"}),
    "notification": raw_call(9001, BASH + b"}").replace(b'"id":9001,', b""),
    "PYTHON in another shape": raw_call(9001, b'{"language":"BASH","code":"echo ran"}'),
    "env with =": raw_call(9001, BASH + b',"env":{"A=B":"1"}}'),
    "depth 10000": b'{"jsonrpc":"2.0","id":9001,"method":"tools/call","params":' + b"[" * 10000 + b"]" * 10000 + b"}",
    "depth of objects": b'{"a":' * 100000,
    "10 MB": raw_call(9001, b'{"language":"bash","code":"' + b"#" * (10 * MIB) + b'"}'),
    "10 MB of keys": raw_call(9001, b"{" + b",".join(b'"k%d":0' % i for i in range(900000)) + b"}"),
    "10 MB of spaces": b" " * (10 * MIB) + raw_call(9001, BASH + b"}"),
    "7 MB of brackets": b"[" * (7 * MIB),
    "7 MB of escapes": raw_call(9001, b'{"language":"bash","code":"' + b"\\u0041" * (MIB + 1) + b'"}'),
}
BATCHES = {
    "of calls": b"[" + b",".join(raw_call(9100 + i, BASH + b"}") for i in range(20)) + b"]",
    "of 10000": b"[" + b",".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % i for i in range(9500, 19500)) + b"]",
    "empty": b"[]",
    "nested": b"[[[]]]",
}


class BadInput(unittest.TestCase):
    def answer(self, tree, timeout=5):
        _, message = tree.notes.get(timeout=timeout)
        return message

    def refused(self, tree, name, line):
        tree.send_line(line)
        if name == "notification":
            return
        message = self.answer(tree)
        error = message.get("error") or message["result"]
        self.assertTrue(error.get("message") or error["isError"], (name, message))
        text = json.dumps(message)
        self.assertLess(len(text), 4096, name)
        self.assertNotIn("ran\\n", text, name)

    def test_every_kind_beside_a_run_that_goes_on(self):
        def body(user):
            with Tree(user=user) as tree:
                tree.wait_ready("shell")
                boxes = {box["Id"] for box in tree.boxes()}
                beside = tree.start("execute_code", {"language": "bash", "code": "sleep 6; echo still", "timeout_seconds": 60})
                for name, line in REFUSED.items():
                    self.refused(tree, name, line)
                self.assertEqual(tree.request("ping", timeout=2)["result"], {})
                r = tree.wait(beside)
                self.assertEqual((r["status"], r["stdout"]), ("ok", "still\n"), r)
                self.assertTrue(tree.notes.empty())
                # one run, so at most one box was taken and its place filled again
                self.assertGreaterEqual(len({box["Id"] for box in tree.boxes()} & boxes), len(boxes) - 1)

        for_users(self, body)

    def test_batches(self):
        def body(user):
            with Tree(user=user) as tree:  # 2025-11-25 knows no batches
                for name, line in BATCHES.items():
                    tree.send_line(line)
                    self.assertIn("error", self.answer(tree), name)
                    with self.assertRaises(queue.Empty):
                        self.answer(tree, 0.05)
            with Tree(user=user, initialize=False) as tree:
                tree.initialize("2025-03-26")
                for name, line in BATCHES.items():
                    reader = tree.notes
                    tree.send_line(line)
                    message = reader.get(timeout=60)[1]
                    if name == "of calls":
                        self.assertEqual(sorted(one["id"] for one in message), list(range(9100, 9120)))
                        for one in message:
                            told = json.loads(one["result"]["content"][0]["text"])
                            self.assertIn(told["status"], ("ok", "busy"))
                    elif name == "of 10000":
                        self.assertTrue("error" in message or len(message) == 10000, str(message)[:200])
                    else:
                        self.assertTrue("error" in message or "error" in message[0], message)
                self.assertEqual(tree.request("ping", timeout=2)["result"], {})

        for_users(self, body)

    def test_memory_comes_back(self):
        def body(user):
            with Tree(user=user) as tree:
                tree.wait_ready("shell")
                self.everything(tree)
                boxes = at_rest(tree)
                before = sizes(tree)
                for _ in range(3):
                    self.everything(tree)
                # Demand may have made a pool larger by then: what its boxes hold is no leak.
                more = max(0, at_rest(tree) - boxes)

                def back(now):
                    return all(name in now and now[name][0] < kb + 2048 and now[name][1] <= fds + 2 + more * FDS_OF_A_BOX
                               for name, (kb, fds) in before.items())

                # The reaper lets go of a box a moment after the engine forgot it; what is leaked stays.
                end = time.monotonic() + 15
                while not back(after := sizes_now(tree)) and time.monotonic() < end:
                    time.sleep(0.1)
                self.assertEqual(set(before), set(after))
                for name, (kb, fds) in after.items():
                    self.assertLess(kb, before[name][0] + 2048, (name, before, after))
                    allowed = before[name][1] + 2 + more * FDS_OF_A_BOX
                    self.assertLessEqual(fds, allowed, (name, more, before, after))
                    self.assertLess(kb, 24 * 1024, (name, after))

        for_users(self, body)

    def everything(self, tree):
        for name, line in REFUSED.items():
            self.refused(tree, name, line)
        code = "#" * (MIB - 10) + "\necho x"
        self.assertEqual(tree.run("bash", code[-MIB:])["stdout"], "x\n")
        self.assertEqual(tree.run("bash", "wc -c", stdin="x" * 4 * MIB)["status"], "ok")
        self.assertEqual(tree.run("bash", "head -c 20000000 /dev/zero")["stdout_bytes"], 20000000)

    def test_noise_with_calls_between(self):
        """Mutated calls: each id is answered at most once, real calls exactly once and truly."""

        def body(user):
            seed = random.randrange(1 << 30)
            rng = random.Random(seed)
            with Tree(user=user) as tree:
                tree.wait_ready("shell")
                for number in range(300):
                    line = bytearray(raw_call(20000 + number, BASH + b',"args":["a","b"],"env":{"K":"v"}}'))
                    for _ in range(rng.randrange(1, 6)):
                        at = rng.randrange(len(line))
                        kind = rng.randrange(3)
                        if kind == 0:
                            line[at] = rng.randrange(256)
                        elif kind == 1:
                            del line[at : at + rng.randrange(1, 20)]
                        else:
                            line[at:at] = rng.choice([b"{", b"}", b'"', b"\\", b"\xff", b"[", b",", b"null", b"\\ud800"])
                    # a line break inside makes two lines, which is fine; runs cost time, so spoil the code as well
                    tree.send_line(bytes(line).replace(b"echo ran", b":"))
                    if number % 50 == 0:
                        r = tree.run("bash", f"echo {number}")
                        self.assertEqual((r["status"], r["stdout"]), ("ok", f"{number}\n"), f"seed {seed}: {r}")
                self.assertEqual(tree.request("ping", timeout=60)["result"], {})
                r = tree.run("bash", "echo end")
                self.assertEqual(r["status"], "ok", f"seed {seed}: {r}")
                ids = []
                while not tree.notes.empty():
                    message = tree.notes.get()[1]
                    if message.get("id") is not None:
                        ids.append(json.dumps(message["id"]))
                    self.assertEqual(message["jsonrpc"], "2.0")
                self.assertEqual(len([i for i in ids if i.isdigit()]), len({i for i in ids if i.isdigit()}), f"seed {seed}")
                restarts = {row["name"]: row["restarts"] for row in tree.health()["processes"]}
                self.assertEqual(set(restarts.values()), {0}, f"seed {seed}: {restarts}")

        for_users(self, body)

    def test_metacharacters_stay_inside(self):
        """Strings are passed as they are; none is looked at by a shell on the way."""

        def body(user):
            words = ["$(touch /tmp/x)", "`id`", "; rm -rf /", "-rf", "--", "a\nb", "&&", "*", "~", "\\", "'", '"', "%n%s", "\u202e"]
            with Tree(user=user) as tree:
                r = tree.run("python", "import sys, json; print(json.dumps(sys.argv[1:]))", args=words)
                self.assertEqual(json.loads(r["stdout"]), words, r)
                code = "import os, json; print(json.dumps([os.environ[f'W{i}'] for i in range(%d)]))" % len(words)
                r = tree.run("python", code, env={f"W{i}": word for i, word in enumerate(words)})
                self.assertEqual(json.loads(r["stdout"]), words, r)
                for where in ("/proc/self/fd/7", "../..", "/nowhere", "a\nb", "/workspace/$(id)", "~"):
                    r = tree.command("pwd", working_dir=where)
                    self.assertNotEqual(r["status"], "internal", (where, r))
                    if r["status"] == "ok":
                        self.assertTrue(r["stdout"].startswith("/"), (where, r))

        for_users(self, body)


if __name__ == "__main__":
    tap.main()
