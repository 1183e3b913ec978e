#!/usr/bin/env python3
"""What the environment of `bailey mcp` sets, live: SANDBOX_IMAGE, MAX_CPU_CORES, MAX_MEMORY_MB,
EXEC_TIMEOUT_SEC; each as the table of options says, and no further than its maximum. Several images,
and both built-in profiles, at once."""

import contextlib
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import until  # noqa: E402
from tree import Tree, engine, for_users  # noqa: E402

MIB = 1 << 20
SLIM = os.environ.get("BAILEY_IMAGE", "bailey/sandbox:slim")


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

    def test_a_maximum_beyond_the_profile_s(self):
        def body(tree):
            r = tree.run("bash", "echo x", memory_mb=2100)
            self.assertEqual((r["status"], r["limits"]["memory_bytes"]), ("ok", 2100 * MIB), r)
            self.assertEqual(tree.health()["limits"]["memory_max_bytes"], 2100 * MIB)

        self.with_env({"MAX_MEMORY_MB": "2100"}, body)

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

    def test_a_cap_over_all_sandboxes_or_a_word_that_there_is_none(self):
        def body(user):
            with Tree(user=user) as tree:
                tree.wait_ready("shell")
                box = tree.boxes(running=True)[0]["Id"]
                pid = engine.request("GET", f"/containers/{box}/json")[1]["State"]["Pid"]
                capped = f"/bailey/{box}" in pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii")
                told = any(line.startswith("No common cgroup") for line in tree.health()["warnings"])
                self.assertNotEqual(capped, told)
                self.assertFalse(capped and (user or os.geteuid() != 0))
                if capped:
                    files = ("memory/bailey/memory.limit_in_bytes", "bailey/memory.max")
                    [limit] = [int(at.read_text()) for at in map(pathlib.Path("/sys/fs/cgroup").joinpath, files) if at.exists()]
                    self.assertAlmostEqual(limit / (os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")), 0.75, 2)

        for_users(self, body)

    def test_sandbox_image(self):
        with another_image() as other:
            def body(tree):
                self.assertEqual(tree.run("bash", "echo x")["stdout"], "x\n")
                self.assertEqual(tree.health()["image"]["name"], other)
                self.assertEqual({b["Image"] for b in tree.boxes()} - {other, engine_id(SLIM)}, set())

            self.with_env({"SANDBOX_IMAGE": other}, body)

    def test_trees_with_images_of_their_own_at_once(self):
        with another_image() as other, Tree() as slim, Tree(env={"SANDBOX_IMAGE": other}) as tree, \
                Tree(env={"SANDBOX_IMAGE": "bailey/none:such"}) as none:
            self.assertEqual(none.run("bash", "echo x")["status"], "image_unavailable")
            for one, image in ((slim, SLIM), (tree, other)):
                one.wait_ready()
                self.assertEqual([one.run("python", "print('x')")[k] for k in ("stdout", "start")], ["x\n", "warm"])
                self.assertEqual((one.health()["status"], one.health()["image"]["name"]), ("ok", image))

    def test_two_profiles_at_once_each_with_a_pool(self):
        def body(tree):
            r = tree.run("bash", "nproc; df -m /workspace | awk 'END { print $2 }'", profile="build")
            self.assertEqual(r["stdout"], f"{min(2, os.cpu_count())}\n768\n", r)
            self.assertEqual((r["limits"]["timeout_ms"], r["limits"]["memory_bytes"], r["limits"]["pids"]), (30000, 2048 * MIB, 128))
            until(lambda: tree.run("bash", ":", profile="build")["start"] == "warm", 20, 0.5)
            until(lambda: tree.run("bash", ":")["start"] == "warm", 20, 0.5)
            box = tree.call("container_create_sandbox", {"profile": "build"})
            [row] = tree.call("container_list_sandboxes", {})["sandboxes"]
            self.assertEqual((box["limits"]["memory_bytes"], row["profile"]), (2048 * MIB, "build"))
            r = tree.run("bash", ":", profile="nosuch")
            self.assertEqual(r["status"], "denied", r)
            self.assertIn("default, build", r["message"])

        self.with_env({}, body)


@contextlib.contextmanager
def another_image():
    """The same image by another name, as far as anybody is concerned another image."""
    other = "bailey/sandbox:live-test-other"
    repo, tag = other.split(":")
    status, _ = engine.request("POST", f"/images/{SLIM}/tag?repo={repo.replace('/', '%2F')}&tag={tag}")
    assert status == 201, status
    try:
        yield other
    finally:
        engine.request("DELETE", f"/images/{other}")


def engine_id(name):
    """Where the engine lists a container by its image's identity."""
    status, found = engine.request("GET", f"/images/{name}/json")
    assert status == 200
    return found["Id"]


if __name__ == "__main__":
    tap.main()
