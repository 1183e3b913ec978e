"""tests/sdk/client.py - Bailey driven by the official Python client. Prints TAP.

    python client.py legacy|auto|2026-07-28 COMMAND [ARG…]
"""

import json
import os
import sys
import traceback

import anyio
from mcp import Client, StdioServerParameters

MODE = sys.argv[1]
count = 0
failed = 0


async def check(name, fn):
    global count, failed
    count += 1
    try:
        await fn()
        print(f"ok {count} - python {MODE}: {name}", flush=True)
    except Exception:
        failed += 1
        print(f"not ok {count} - python {MODE}: {name}")
        print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)


def content(result):
    return result.structured_content


async def main():
    server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))
    async with Client(server, mode=MODE) as client:

        async def listed():
            tools = (await client.list_tools()).tools
            names = sorted(t.name for t in tools)
            assert names == ["check_sandbox_health", "execute_code", "execute_sandboxed_command"], names
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

        await check("the three tools are listed with schemas", listed)
        await check("execute_code in three languages", runs)
        await check("execute_sandboxed_command", command)
        await check("check_sandbox_health", health)
        await check("a bad argument is a tool error that names it", bad_argument)
        await check("progress arrives", progress)
        await check("a cancelled call frees the client and the next works", cancelled)
    print(f"1..{count}")
    return 1 if failed else 0


sys.exit(anyio.run(main))
