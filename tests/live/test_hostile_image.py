#!/usr/bin/env python3
"""An image that tries to decide something, and secrets that must not show anywhere.

The image is the usual one with another configuration (committed from a container, so nothing is
built); the runs must be those of the usual image, or refused with words.
"""

import json
import os
import pathlib
import sys
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from sandbox import until  # noqa: E402
from tree import Tree, engine, for_users  # noqa: E402

IMAGE = os.environ.get("SANDBOX_IMAGE", "bailey/sandbox:slim")
HOSTILE = {
    "Entrypoint": ["/bin/sh", "-c", "touch /workspace/entrypoint; sleep 60"],
    "Cmd": ["evil"],
    "User": "0:0",
    "WorkingDir": "/proc/self/fd/7",
    "Env": ["PATH=/evil", "LD_PRELOAD=/evil.so", "PYTHONSTARTUP=/evil.py", "HOME=/root", "BASH_ENV=/evil.sh", "NODE_OPTIONS=--evil"],
    "Healthcheck": {"Test": ["CMD-SHELL", "touch /workspace/health"], "Interval": 1000000000},
    "Labels": {
        "io.bailey.product": "other",
        "io.bailey.user": "0" * 32,
        "io.bailey.box": "1",
        "io.bailey.more": "x" * 10000,
        "volumes": "/:/host",
        "\u202e\u001b[31m": "\u0007",
    },
    "ExposedPorts": {"80/tcp": {}},
    "OnBuild": ["RUN evil"],
    "StopSignal": "SIGUSR1",
}


def commit(name, config):
    status, made = engine.request("POST", "/containers/create", {"Image": IMAGE, "Cmd": ["/bin/true"]})
    assert status == 201, made
    status, answer = engine.request(
        "POST", f"/commit?container={made['Id']}&repo=bailey-test/{name}&tag=1&pause=false", config
    )
    engine.request("DELETE", f"/containers/{made['Id']}?force=1")
    assert status == 201, answer
    return f"bailey-test/{name}:1"


def changed(name, command):
    """The usual image after root ran that command in it."""
    status, made = engine.request(
        "POST", "/containers/create", {"Image": IMAGE, "User": "0", "Entrypoint": ["/bin/sh", "-ec", command]})
    assert status == 201, made
    try:
        assert engine.request("POST", f"/containers/{made['Id']}/start")[0] == 204
        status, ended = engine.request("POST", f"/containers/{made['Id']}/wait")
        assert ended["StatusCode"] == 0, ended
        status, answer = engine.request(
            "POST", f"/commit?container={made['Id']}&repo=bailey-test/{name}&tag=1&pause=false", {})
        assert status == 201, answer
    finally:
        engine.request("DELETE", f"/containers/{made['Id']}?force=1")
    return f"bailey-test/{name}:1"


class OddPrograms(unittest.TestCase):
    """Images whose python3, node or bash are not what their names say."""

    def image(self, name, command):
        image = changed(name, command)
        self.addCleanup(engine.request, "DELETE", f"/images/{image}?force=1")
        return image

    def test_a_bash_that_never_waits_keeps_no_pool_empty(self):
        """It reads its input first: until a run has one, that does not come."""
        image = self.image(
            "reading", "mv /usr/bin/bash /usr/bin/real; printf '#!/bin/sh\\nread x\\nexec real \"$@\"\\n' >/usr/bin/bash;"
            " chmod 755 /usr/bin/bash")

        def body(user):
            with Tree(user=user, env={"SANDBOX_IMAGE": image}) as tree:
                tree.health()
                tree.request("tools/list")

                def ready():
                    return {row["box_class"]: row["ready"] for row in tree.health()["pool"]}

                until(lambda: ready()["shell"] and ready()["python"], 14)
                r = tree.run("bash", "echo x")
                self.assertEqual((r["status"], r["stdout"], r["start"]), ("ok", "x\n", "warm"), r)

        for_users(self, body)

    def test_a_directory_is_no_program(self):
        image = self.image("directories", "cd /usr/local/bin; mkdir bash python3 node")
        with Tree(env={"SANDBOX_IMAGE": image}) as tree:
            for language, code in (("bash", "echo x"), ("python", "print('x')"), ("node", "console.log('x')")):
                r = tree.run(language, code)
                self.assertEqual((r["status"], r["stdout"]), ("ok", "x\n"), r)

    def test_why_no_container_of_it_starts_is_told(self):
        image = self.image("file", "rm -r /tmp; touch /tmp")
        with Tree(env={"SANDBOX_IMAGE": image}) as tree:
            for _ in range(6):
                r = tree.run("bash", "echo x")
                self.assertNotEqual(r["status"], "ok", r)
                self.assertRegex(r["message"], "/tmp.*not a directory")
            until(lambda: not tree.boxes(), 10)

    def test_a_missing_program_is_told(self):
        image = self.image("missing", "rm /usr/bin/python3 /usr/bin/node /usr/bin/bash")
        with Tree(env={"SANDBOX_IMAGE": image}) as tree:
            for language in ("bash", "python", "node"):
                r = tree.run(language, "")
                self.assertEqual(r["status"], "denied", r)
                self.assertIn("image has the program", r["message"])


class HostileImage(unittest.TestCase):
    images = []

    @classmethod
    def setUpClass(cls):
        cls.hostile = commit("hostile", HOSTILE)
        cls.volume = commit("volume", {"Volumes": {"/data": {}, "/workspace": {}}})

    @classmethod
    def tearDownClass(cls):
        for image in (cls.hostile, cls.volume):
            engine.request("DELETE", f"/images/{image}?force=1")

    def test_decides_nothing(self):
        probe = (
            "import json, os, sys\n"
            "print(json.dumps([os.getuid(), os.getgid(), os.getcwd(), sorted(os.environ.items()), os.listdir('/workspace'),"
            " open('/proc/1/comm').read().strip()]))"
        )

        def told(tree, language="python"):
            r = tree.run(language, probe if language == "python" else "id; pwd; env | sort")
            self.assertEqual(r["status"], "ok", r)
            return r["start"], r["stdout"]

        def body(user):
            with Tree(user=user) as plain, Tree(user=user, env={"SANDBOX_IMAGE": self.hostile}) as tree:
                for one in (plain, tree):
                    one.wait_ready("python")
                    one.wait_ready("shell")
                self.assertEqual(told(tree), told(plain))
                self.assertEqual(told(tree, "bash"), told(plain, "bash"))
                uid, gid, cwd, env, files, init = json.loads(told(tree)[1])
                self.assertEqual((uid, gid, cwd, init), (10001, 10001, "/workspace", "init"))
                self.assertEqual(files, ["main.py"])
                self.assertNotIn("evil", json.dumps(env))
                r = tree.run("node", "console.log(process.execArgv.length, process.env.NODE_OPTIONS)")
                self.assertEqual(r["stdout"], "0 undefined\n", r)
                boxes = tree.boxes()
                self.assertTrue(boxes)
                for box in boxes:
                    self.assertEqual(box["Labels"]["io.bailey.product"], "bailey")
                pid = tree.process.pid
                self.assertEqual(tree.close(), 0)
                self.assertEqual([b for b in engine.boxes() if b["Labels"].get("io.bailey.tree-pid") == str(pid)], [])

        for_users(self, body)

    def test_volumes_are_refused_and_none_is_left(self):
        def volumes():
            return {one["Name"] for one in engine.request("GET", "/volumes")[1]["Volumes"] or []}

        before = volumes()

        def body(user):
            with Tree(user=user, env={"SANDBOX_IMAGE": self.volume}) as tree:
                r = tree.run("bash", "echo x")
                self.assertNotEqual(r["status"], "ok", r)
                self.assertRegex(r["message"], "olume|Mounts")

        for_users(self, body)
        self.assertEqual(volumes() - before, set())


class Secrets(unittest.TestCase):
    def test_show_nowhere(self):
        """What is in the server's environment, and what is given to one run, stay where they are."""
        of_server, of_run, of_code = (f"canary-{uuid.uuid4().hex}" for _ in range(3))
        look = (
            "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; mount; env; set;"
            " grep -rs canary /proc/1/ /run /tmp /dev/shm /.bailey /etc 2>/dev/null; ls -laR /workspace /tmp /dev/shm"
        )

        def body(user):
            with Tree(user=user, env={"API_TOKEN": of_server, "AWS_SECRET": of_server}) as tree:
                tree.wait_ready("shell")
                call = tree.start("execute_code", {
                    "language": "bash", "code": f": {of_code}; sleep 2; echo $TOKEN", "env": {"TOKEN": of_run},
                    "args": [of_run], "stdin": of_run})
                r = tree.command(look)
                self.assertIn(r["status"], ("ok", "nonzero"), r)
                for secret in (of_server, of_run, of_code):
                    self.assertNotIn(secret, json.dumps(r))
                for box in engine.boxes():
                    status, inspected = engine.request("GET", f"/containers/{box['Id']}/json")
                    if status == 200:
                        for secret in (of_server, of_run, of_code):
                            self.assertNotIn(secret, json.dumps(inspected))
                self.assertNotIn(of_server, json.dumps(tree.health()))
                for name, pid in tree.pids().items():
                    line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                    for secret in (of_server, of_run, of_code):
                        self.assertNotIn(secret.encode(), line)
                        if name != "baileyd":  # the supervisor is what the client started
                            self.assertNotIn(secret.encode(), environ, name)
                r = tree.wait(call)
                self.assertEqual(r["stdout"], of_run + "\n", r)
                # the next run in the same kind of box sees nothing of the one before
                r = tree.command(look)
                for secret in (of_run, of_code):
                    self.assertNotIn(secret, json.dumps(r))

        for_users(self, body)


if __name__ == "__main__":
    tap.main()
