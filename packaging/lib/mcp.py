#!/usr/bin/env python3
"""A small MCP client over stdio, and the demonstration quickstart ends with.

    mcp.py demo --bailey PROGRAM [--root DIR] [--calls N]

Each snippet goes through the MCP server N times ("tools/call" with execute_code, from the
line written to the answer parsed) and is run as often on the host: the same interpreter, in
the image's root directory by chroot where --root names it, else the machine's own, with an
empty environment either way.
"""

import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SNIPPETS = [
    ("python", "import sys, os\nprint('hello from python', sys.version.split()[0], 'as uid', os.getuid())\n"),
    ("bash", "echo hello from bash \"$BASH_VERSION\" as uid \"$UID\"\n"),
    ("node", "console.log('hello from node', process.version, 'as uid', process.getuid())\n"),
]
HOST_ARGV = {"python": ["python3", "-c"], "bash": ["bash", "-c"], "node": ["node", "-e"]}
# What a class of sandboxes is called in the pool's figures.
POOL = {"python": "python", "bash": "shell", "node": "node"}
# Between two calls the pool makes the next sandbox; how long that takes is the machine's affair.
POOL_WAIT_S = 10


class McpError(Exception):
    """The server answered with an error, or not at all."""


class Client:
    """One MCP server as a child process; requests are made one at a time."""

    def __init__(self, argv, env=None, timeout=60.0, log=None):
        self.timeout = timeout
        self.buffer = b""
        self.number = 0
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
                                      stderr=log)

    def initialize(self):
        result = self.request("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "bailey-quickstart", "version": "1"}})
        self.notify("notifications/initialized")
        return result

    def call(self, tool, arguments):
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def notify(self, method, params=None):
        self.write({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def request(self, method, params):
        self.number += 1
        self.write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        end = time.monotonic() + self.timeout
        while True:
            message = self.read(end)
            if message.get("id") != self.number or "method" in message:
                continue
            if "error" in message:
                raise McpError(f"{method}: {message['error'].get('message')}")
            return message["result"]

    def write(self, message):
        try:
            self.child.stdin.write(json.dumps(message).encode() + b"\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            raise McpError(f"the server ended (status {self.child.wait()})") from None

    def read(self, end):
        fd = self.child.stdout.fileno()
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise McpError(f"no answer within {self.timeout:.0f} s")
            data = os.read(fd, 1 << 16)
            if not data:
                raise McpError(f"the server closed its output (status {self.child.wait()})")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        self.child.stdin.close()
        try:
            return self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait()


def host_run(language, code, root):
    """Seconds from start to exit, and the output, of a snippet on the host; None where the
    interpreter is missing."""
    program, flag = HOST_ARGV[language]
    # env's own exec would be measured too, so the path is resolved here.
    if root:
        path = f"/usr/bin/{program}"
    else:
        path = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
        if path is None:
            return None

    def enter():
        os.chroot(root)
        os.chdir("/")

    begin = time.monotonic()
    done = subprocess.run([path, flag, code], env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          preexec_fn=enter if root else None, close_fds=False)
    return time.monotonic() - begin, done.stdout.decode("utf-8", "replace").strip()


def wait_for_pool(client, box_class):
    """Until a sandbox of that class waits ready and none is being started."""
    end = time.monotonic() + POOL_WAIT_S
    while time.monotonic() < end:
        pool = client.call("check_sandbox_health", {}).get("structuredContent", {}).get("pool", [])
        mine = [row for row in pool if row["box_class"] == box_class]
        if not mine or not mine[0]["target"]:
            return
        if mine[0]["ready"] and not any(row["starting"] for row in pool):
            # The engine is still busy with the last one's removal.
            time.sleep(0.1)
            return
        time.sleep(0.05)


def demo(options):
    """What the server logs is shown only when something went wrong."""
    with tempfile.TemporaryFile() as log:
        try:
            failed = demo_calls(options, Client([options.bailey, "mcp"], log=log))
        except (McpError, OSError, ValueError, KeyError) as error:
            print(f"      MCP: {type(error).__name__}: {error}", file=sys.stderr)
            failed = 1
        if failed:
            log.seek(0)
            for line in log.read().decode("utf-8", "replace").splitlines()[-25:]:
                print(f"      | {line[:300]}", file=sys.stderr)
        return failed


def demo_calls(options, client):
    info = client.initialize()["serverInfo"]
    tools = [tool["name"] for tool in client.request("tools/list", {})["tools"]]
    print(f"      {info['name']} {info.get('version', '')}, tools: {', '.join(tools)}")
    failed = 0
    rows = []
    for language, code in SNIPPETS:
        times = {}
        first = None
        text = ""
        for number in range(options.calls):
            begin = time.monotonic()
            result = client.call("execute_code", {"language": language, "code": code})
            took = time.monotonic() - begin
            data = result.get("structuredContent", {})
            if result.get("isError") or data.get("status") != "ok":
                why = data.get("message") or (result.get("content") or [{}])[0].get("text", "")
                print(f"      {language}: failed: {data.get('status', '?')} {why[:300]}")
                failed = 1
                break
            first = took if number == 0 else first
            text = data["stdout"].strip()
            start = data.get("start", "?")
            times.setdefault(start, []).append(took)
            wait_for_pool(client, POOL[language])
        if not times:
            continue
        print(f"      {language}: {text}")
        host = [host_run(language, code, options.root) for _ in range(options.calls)]
        host = [run[0] for run in host if run]
        later = times.get("warm") or [took for rest in times.values() for took in rest][1:]
        rows.append((language, first, later, "warm" if "warm" in times else "cold", host))
    print()
    print(f"      {'':8} {'first call':>12} {'next calls':>12} {'':6} {'on the host':>12}   (milliseconds, median)")
    for language, first, later, start, host in rows:
        print(f"      {language:8} {ms([first]):>12} {ms(later):>12} {start:6} {ms(host):>12}")
    where = "the same interpreters without a sandbox, by chroot into the image" if options.root \
        else "this machine's own interpreters"
    print(f"      on the host: {where}, empty environment, start to exit")
    print("      sandboxed: one MCP call over stdio, request written to answer parsed; each in its own container")
    client.close()
    return failed


def ms(seconds):
    return f"{statistics.median(seconds) * 1000:.1f}" if seconds else "-"


def main():
    parser = argparse.ArgumentParser(description="MCP demonstration client")
    parser.add_argument("command", choices=["demo"])
    parser.add_argument("--bailey", required=True)
    parser.add_argument("--root", default="")
    parser.add_argument("--calls", type=int, default=5)
    return demo(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
