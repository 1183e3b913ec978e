"""tests/sdk/client.py - Bailey driven by the official Python client. Prints TAP.

    python client.py legacy|auto|2026-07-28 stdio COMMAND [ARG…]
    python client.py legacy|auto|2026-07-28 http URL            (BAILEY_TOKEN)
"""

import json
import os
import sys
import traceback

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

MODE = sys.argv[1]
WAY = sys.argv[2]
TOOLS = ["check_sandbox_health", "container_create_sandbox", "container_destroy_sandbox", "container_exec_command",
         "container_list_files", "container_list_sandboxes", "container_read_file", "container_write_file", "execute_code",
         "execute_sandboxed_command", "inspect_logs", "sandbox_eval"]
count = 0
failed = 0


async def check(name, fn):
    global count, failed
    count += 1
    try:
        await fn()
        print(f"ok {count} - python {MODE} {WAY}: {name}", flush=True)
    except Exception:
        failed += 1
        print(f"not ok {count} - python {MODE} {WAY}: {name}")
        print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)


def content(result):
    return result.structured_content


async def main():
    if WAY == "stdio":
        server = StdioServerParameters(command=sys.argv[3], args=sys.argv[4:], env=dict(os.environ))
    else:
        headers = {"Authorization": "Bearer " + os.environ["BAILEY_TOKEN"]}
        server = streamable_http_client(sys.argv[3], http_client=create_mcp_http_client(headers=headers))
    called = set()  # tools that have done something

    class Recorder(Client):
        async def call_tool(self, name, *arguments, **more):
            r = await super().call_tool(name, *arguments, **more)
            if not r.is_error:
                called.add(name)
            return r

    async with Recorder(server, mode=MODE) as client:

        async def listed():
            tools = (await client.list_tools()).tools
            names = sorted(t.name for t in tools)
            assert names == TOOLS, names
            assert all(t.output_schema["type"] == "object" for t in tools)

        async def runs():
            for language, code in (
                ("python", "print(6 * 7)"),
                ("node", "console.log(6 * 7)"),
                ("bash", "echo $((6 * 7))"),
            ):
                r = await client.call_tool("execute_code", {"language": language, "code": code})
                assert content(r)["status"] == "ok", content(r)
                assert content(r)["stdout"] == "42\n", content(r)
                assert json.loads(r.content[0].text) == content(r)

        async def command():
            r = await client.call_tool("execute_sandboxed_command", {"command": "echo oops >&2; exit 3"})
            assert content(r)["exit_code"] == 3 and not r.is_error, content(r)
            assert content(r)["stderr"] == "oops\n"

        async def health():
            r = await client.call_tool("check_sandbox_health", {})
            assert content(r)["status"] == "ok", content(r)

        async def good(name, arguments):
            r = await client.call_tool(name, arguments)
            assert not r.is_error, r
            return content(r)

        async def stays():
            box = {"sandbox_id": (await good("container_create_sandbox", {}))["sandbox_id"]}
            await good("container_write_file", {**box, "path": "d/f", "content": "AAEC/w==", "encoding": "base64"})
            r = await good("container_read_file", {**box, "path": "d/f"})
            assert (r["content"], r["encoding"]) == ("AAEC/w==", "base64"), r
            r = await good("container_list_files", {**box, "path": "d"})
            assert [e["path"] for e in r["entries"]] == ["f"], r
            r = await good("container_exec_command", {**box, "command": "wc -c <d/f"})
            assert r["stdout"].strip() == "4", r
            await good("sandbox_eval", {**box, "language": "node", "code": "let x = 41"})
            r = await good("sandbox_eval", {**box, "language": "node", "code": "x + 1"})
            assert r["value"] == "42", r
            run = await good("container_exec_command", {**box, "argv": ["echo", "behind"], "background": True})
            log = {"status": "running"}
            while log["status"] == "running":
                log = await good("inspect_logs", {"run_id": run["run_id"]})
            assert log["data"] == "behind\n", log
            r = await good("container_list_sandboxes", {})
            assert box["sandbox_id"] in [s["sandbox_id"] for s in r["sandboxes"]], r
            r = await good("docker_exec", {"container": box["sandbox_id"], "command": "ls d"})
            assert r["stdout"] == "f\n", r
            await good("container_destroy_sandbox", box)
            r = await client.call_tool("container_exec_command", {**box, "command": "true"})
            assert r.is_error and content(r)["status"] == "not_found", r

        async def every_tool():
            assert (await good("execute_python_code", {"code_string": "print(7)"}))["stdout"] == "7\n"
            assert (await good("docker_run", {"command": "echo 8"}))["stdout"] == "8\n"
            assert called == {*TOOLS, "docker_exec", "docker_run", "execute_python_code"}, called

        async def resources_and_prompts():
            assert len((await client.list_resource_templates()).resource_templates) >= 2
            prompts = (await client.list_prompts()).prompts
            r = await client.get_prompt(prompts[0].name)
            assert len(r.messages[0].content.text) > 100, r

        async def bad_argument():
            r = await client.call_tool("execute_code", {"language": "python", "code": "", "timeout_seconds": -1})
            assert r.is_error and "timeout_seconds" in r.content[0].text, r

        async def progress():
            seen = []

            async def on_progress(done, total, message):
                seen.append(message or "")

            code = "print('early', flush=True)\nimport time\ntime.sleep(0.4)"
            r = await client.call_tool(
                "execute_code", {"language": "python", "code": code}, progress_callback=on_progress
            )
            assert content(r)["status"] == "ok", content(r)
            assert any("early" in m for m in seen), seen

        async def cancelled():
            with anyio.move_on_after(0.3):
                await client.call_tool("execute_code", {"language": "bash", "code": "sleep 30"})
            r = await client.call_tool("execute_code", {"language": "bash", "code": "echo next"})
            assert content(r)["stdout"] == "next\n", content(r)

        await check("every tool is listed with schemas", listed)
        await check("execute_code in three languages", runs)
        await check("execute_sandboxed_command", command)
        await check("check_sandbox_health", health)
        await check("a sandbox that stays: every tool", stays)
        await check("resources and prompts", resources_and_prompts)
        await check("a bad argument is a tool error that names it", bad_argument)
        await check("progress arrives", progress)
        await check("a cancelled call frees the client and the next works", cancelled)
        await check("every tool was called, by its other names too", every_tool)
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(anyio.run(main))
