#!/usr/bin/env python3
"""What the environment of `bailey mcp` sets, live: SANDBOX_IMAGE, MAX_CPU_CORES, MAX_MEMORY_MB,
EXEC_TIMEOUT_SEC; each as the table of options says, and no further than its maximum."""

import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from tree import Tree, engine, for_users  # noqa: E402

MIB = 1 << 20


class PrivateMode(unittest.TestCase):
    def with_env(self, env, body):
        def one(user):
            with Tree(user=user, env=env) as tree:
                body(tree)

        for_users(self, one)

    def test_exec_timeout_sec_is_the_default_and_not_the_maximum(self):
        def body(tree):
            measure = pace.Measure()
            r = tree.run("bash", "sleep 60")
            self.assertEqual((r["status"], r["limits"]["timeout_ms"]), ("timed_out", 2000), r)
            self.assertLess(measure.ours(), 8, measure)
            r = tree.run("bash", "sleep 2.5; echo slept", timeout_seconds=5)
            self.assertEqual(r["stdout"], "slept\n", r)
            self.assertEqual(tree.health()["limits"]["timeout_ms"], 2000)

        self.with_env({"EXEC_TIMEOUT_SEC": "2"}, body)

    def test_max_memory_mb(self):
        def body(tree):
            r = tree.run("bash", "echo x", memory_mb=300)
            self.assertEqual((r["status"], r["limits"]["memory_bytes"]), ("ok", 300 * MIB), r)
            r = tree.run("bash", "echo x", memory_mb=301)
            self.assertTrue(r["_isError"], r)
            self.assertIn("300", r["message"])
            r = tree.run("bash", "echo x")
            self.assertLessEqual(r["limits"]["memory_bytes"], 300 * MIB, r)
            self.assertEqual(tree.health()["limits"]["memory_max_bytes"], 300 * MIB)
            r = tree.run("python", "b = bytearray(400 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1", timeout_seconds=20)
            self.assertEqual(r["status"], "oom_killed", r)

        self.with_env({"MAX_MEMORY_MB": "300"}, body)

    def test_max_cpu_cores(self):
        def body(tree):
            r = tree.run("bash", "echo x", cpus=0.5)
            self.assertEqual((r["status"], r["limits"]["cpus"]), ("ok", 0.5), r)
            r = tree.run("bash", "echo x", cpus=0.6)
            self.assertTrue(r["_isError"], r)
            self.assertIn("0.5", r["message"])
            r = tree.run("bash", "echo x")
            self.assertLessEqual(r["limits"]["cpus"], 0.5, r)
            self.assertEqual(tree.health()["limits"]["cpus_max"], 0.5)

        self.with_env({"MAX_CPU_CORES": "0.5"}, body)

    def test_sandbox_image(self):
        name = os.environ.get("BAILEY_IMAGE", "bailey/sandbox:slim")
        other = "bailey/sandbox:live-test-other"
        repo, tag = other.split(":")
        status, _ = engine.request("POST", f"/images/{name}/tag?repo={repo.replace('/', '%2F')}&tag={tag}")
        self.assertEqual(status, 201)
        try:
            def body(tree):
                self.assertEqual(tree.run("bash", "echo x")["stdout"], "x\n")
                self.assertEqual(tree.health()["image"]["name"], other)
                self.assertEqual({b["Image"] for b in tree.boxes()} - {other, engine_id(name)}, set())

            self.with_env({"SANDBOX_IMAGE": other}, body)
        finally:
            engine.request("DELETE", f"/images/{other}")

    def test_two_trees_with_two_images_at_once(self):
        with Tree() as slim, Tree(env={"SANDBOX_IMAGE": "bailey/none:such"}) as none:
            self.assertEqual(none.run("bash", "echo x")["status"], "image_unavailable")
            self.assertEqual(slim.run("bash", "echo x")["stdout"], "x\n")
            self.assertEqual(slim.health()["status"], "ok")


def engine_id(name):
    """Where the engine lists a container by its image's identity."""
    status, found = engine.request("GET", f"/images/{name}/json")
    assert status == 200
    return found["Id"]


if __name__ == "__main__":
    tap.main()
