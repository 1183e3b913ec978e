#!/usr/bin/env python3
"""What README shows to paste into each client is what `bailey config` prints, and it works: the
command it starts, or the address it calls, answers initialize. No engine is needed for that.
"""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from serve import LEGACY, Serve  # noqa: E402
from tree import BUILD  # noqa: E402

BAILEY = str(BUILD / "bin" / "bailey")
README = pathlib.Path(__file__).resolve().parent.parent.parent / "README.md"
CLIENTS = ["claude-code", "claude-desktop", "cursor", "vscode", "windsurf"]
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}).encode()


def shown():
    """{(client, with http): configuration} of README."""
    blocks = re.findall(r"^`bailey config ([a-z-]+)( --http)?`\n```json\n(.*?)\n```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return {(name, bool(way)): json.loads(text) for name, way, text in blocks}


def printed(*arguments):
    done = subprocess.run([BAILEY, "config", *arguments], env={}, capture_output=True, text=True, timeout=20, check=True)
    return json.loads(done.stdout.replace(BAILEY, "/usr/bin/bailey"))


def server_of(config):
    """The one server of a configuration, by whatever key the client has for servers."""
    [servers] = [config[key] for key in ("mcpServers", "servers") if key in config]
    return servers["bailey"]


class Config(unittest.TestCase):
    def test_readme_shows_what_is_printed(self):
        blocks = shown()
        self.assertEqual(sorted(blocks), sorted((name, way) for name in CLIENTS for way in (False, True)))
        for (name, way), config in blocks.items():
            self.assertEqual(config, printed(name, *(["--http"] if way else [])), (name, way))

    def test_what_a_client_starts_answers(self):
        for name in CLIENTS:
            server = server_of(shown()[name, False])
            self.assertEqual(server["command"], "/usr/bin/bailey")
            done = subprocess.run([BAILEY, *server["args"]], env={**os.environ, **server.get("env", {})}, input=INITIALIZE + b"\n",
                                  capture_output=True, timeout=30, check=True)
            self.assertEqual(json.loads(done.stdout)["result"]["protocolVersion"], LEGACY, (name, done.stderr))

    def test_the_service_of_readme(self):
        """Its command, with another program's path, port and status socket, serves; its reload reads the tokens again."""
        [unit] = re.findall(r"^```ini\n(.*?)\n```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        setting = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
        program, *words = setting["ExecStart"].split()
        self.assertTrue(program.endswith("/build/release/bin/bailey"))
        self.assertEqual(setting["ExecReload"], "/bin/kill -HUP $MAINPID")
        with tempfile.TemporaryDirectory() as work:
            self.assertTrue(words[-1].startswith(f"/run/{setting['RuntimeDirectory']}/"))
            words = [{"127.0.0.1:8900": "127.0.0.1:0", words[-1]: work + "/status"}.get(word, word) for word in words]
            subprocess.run([BAILEY, "token", "add", "me", "--tokens", work + "/tokens"], capture_output=True, timeout=20, check=True)
            server = subprocess.Popen([BAILEY, *words, "--tokens", work + "/tokens"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                self.assertTrue(server.stdout.readline().startswith("listening on http://127.0.0.1:"))
                server.send_signal(signal.SIGHUP)  # at once: who was told that it listens may ask for a reload
                self.assertIn("event=tokens_read count=1", server.stderr.readline())
                told = subprocess.run([BAILEY, "status", "--status", work + "/status"], capture_output=True, text=True, timeout=20, check=True)
                self.assertIn("bailey-broker", told.stdout)
            finally:
                server.terminate()
                server.communicate(timeout=30)
            self.assertEqual(server.returncode, 0)

    def test_what_a_client_calls_answers(self):
        with Serve(http=True) as serve:
            token = serve.token_for["first"]
            for name in CLIENTS:
                server = server_of(printed(name, "--http", serve.url))
                if "command" in server:  # a bridge's words: the address, and the header by way of its environment
                    self.assertIn(serve.url, server["args"])
                    key, value = server["args"][-1].split(":", 1)
                    headers = {key: re.sub(r"\$\{(\w+)\}", lambda m: server["env"][m[1]], value).replace("YOUR_TOKEN", token)}
                    url = serve.url
                else:
                    url = server.get("url") or server["serverUrl"]
                    headers = {key: re.sub(r"\$\{(env:BAILEY_TOKEN|BAILEY_TOKEN|input:bailey-token)\}", token, value)
                               for key, value in server["headers"].items()}
                self.assertIn(token, headers["Authorization"], server)
                at = urllib.parse.urlparse(url)
                connection = http.client.HTTPConnection(at.hostname, at.port, timeout=20)
                connection.request("POST", at.path, INITIALIZE, {
                    **headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
                response = connection.getresponse()
                body = response.read()
                connection.close()
                self.assertEqual(response.status, 200, (name, body))
                self.assertIn(b'"protocolVersion":"' + LEGACY.encode() + b'"', body)


if __name__ == "__main__":
    tap.main()
