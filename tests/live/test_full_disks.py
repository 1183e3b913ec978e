#!/usr/bin/env python3
"""Disks without a free block: the engine's data, the log, the token file. Calls say what is wrong,
what needs no disk goes on, and all works again once there is room, without a restart."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "lib")]
import pace  # noqa: E402
import tap  # noqa: E402
from tree import BUILD, Engine, Tree, for_users, no_boxes_within  # noqa: E402

RUN = pathlib.Path(f"/run/bailey-full-{os.getpid()}")
DATA = pathlib.Path(f"/var/lib/bailey-full-{os.getpid()}")
IMAGE = os.environ.get("SANDBOX_IMAGE", "bailey/sandbox:slim")
ROOM_MB = 112  # a journal, tables of inodes, and what runs


def engine_program(word):
    env = dict(os.environ, BAILEY_ENGINE_RUN=str(RUN), BAILEY_ENGINE_DATA=str(DATA), BAILEY_ENGINE_GROUP="docker", BAILEY_ENGINE_MB="1")
    done = subprocess.run([str(ROOT / "packaging" / "engine"), word], env=env, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"packaging/engine {word}: {done.stdout}{done.stderr}")


def image_mb():
    out = subprocess.run(["docker", "image", "inspect", "-f", "{{.Size}}", IMAGE], capture_output=True, text=True, check=True)
    return int(out.stdout) // 1000000


@contextlib.contextmanager
def small_disk(path, kilobytes, inodes=64):
    """A file system of its own in a file; where the kernel has no loop devices, in memory."""
    path.mkdir(parents=True)
    disk = path.with_name(path.name + ".disk")
    with open(disk, "wb") as file:
        file.truncate(kilobytes * 1024)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-N", str(inodes), str(disk)], capture_output=True, check=True)
    looped = subprocess.run(["mount", "-o", "loop", str(disk), str(path)], capture_output=True, text=True, check=False)
    if looped.returncode != 0:
        print(f"# no loop device ({looped.stderr.strip()}): a disk in memory", flush=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,nr_inodes={inodes},mode=755", "tmpfs", str(path)], check=True)
    else:
        (path / "lost+found").rmdir()
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
        path.rmdir()
        disk.unlink()


@contextlib.contextmanager
def filled(folder):
    """Not a byte is free while this lasts."""
    path = folder / "filler"
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
        try:
            while True:
                file.write(bytes(1))
        except OSError:
            pass
    try:
        yield
    finally:
        path.unlink()


@unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
class FullDisks(unittest.TestCase):
    def works(self, tree, seconds=10):
        end = time.monotonic() + seconds
        while True:
            r = tree.run("bash", "echo x")
            if r["status"] == "ok":
                return
            self.assertLess(time.monotonic(), end, r)
            time.sleep(0.2)

    def one_user(self, user, fill):
        with Tree(user=user, env={"DOCKER_HOST": f"unix://{RUN}/docker.sock", "BAILEY_POOL": "0"}) as tree:
            self.works(tree)
            box = {"sandbox_id": tree.call("container_create_sandbox", {})["sandbox_id"]}
            fill.wait()
            for code in ("echo x", "echo y"):
                measure = pace.Measure()
                r = tree.run("bash", code)
                self.assertIn(r["status"], ("engine_unavailable", "internal"), r)
                self.assertIn("no space left", r["message"], r)
                self.assertLess(measure.ours(), 15, r)
            r = tree.call("container_exec_command", {**box, "command": "echo z > f; cat f"})
            self.assertEqual((r["status"], r["stdout"]), ("ok", "z\n"), r)
            fill.done()
            self.works(tree)
            r = tree.call("container_exec_command", {**box, "command": "cat f"})
            self.assertEqual((r["status"], r["stdout"]), ("ok", "z\n"), r)
            tree.call("container_destroy_sandbox", box)
            pid = tree.process.pid
        self.assertTrue(no_boxes_within(pid, 10, running=False))

    def test_engine_data(self):
        class Fill:  # one user after the other: the disk is one
            def wait(self):
                self.stack = contextlib.ExitStack()
                self.stack.enter_context(filled(DATA))

            def done(self):
                self.stack.close()

        engine = Engine()
        with small_disk(DATA, (2 * image_mb() + ROOM_MB) * 1024, 100000):
            try:
                engine_program("start")
                engine.path = f"{RUN}/docker.sock"
                save = subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE)
                load = subprocess.run(["docker", "-H", f"unix://{RUN}/docker.sock", "load", "-q"], stdin=save.stdout, capture_output=True, timeout=120)
                self.assertEqual((save.wait(10), load.returncode), (0, 0), load.stderr)
                plain = os.environ.get("BAILEY_TEST_USER")
                for user in [None, plain] if plain else [None]:
                    with self.subTest(user=user or "self"):
                        self.one_user(user, Fill())
                        self.assertEqual(engine.boxes(), [])
            finally:
                engine_program("stop")

    def test_log(self):
        def body(user):
            with tempfile.TemporaryDirectory(prefix="bailey-full.") as folder, small_disk(pathlib.Path(folder) / "d", 1024) as disk:
                with open(disk / "log", "wb") as log, filled(disk):
                    with Tree(user=user, env={"BAILEY_DEBUG": "1", "BAILEY_POOL": "0"}, stderr=log) as tree:
                        self.works(tree)

        for_users(self, body)

    def test_token_file(self):
        with tempfile.TemporaryDirectory(prefix="bailey-full.") as folder, small_disk(pathlib.Path(folder) / "d", 1024) as disk:
            tokens = disk / "tokens"
            add = [str(BUILD / "bin" / "bailey"), "token", "add"]
            first = subprocess.run([*add, "one", "--tokens", str(tokens)], capture_output=True, text=True, check=False)
            self.assertEqual(first.returncode, 0, first.stderr)
            kept = tokens.read_bytes()
            # The next line begins in the last page there is and ends in one there is not.
            kept += b"#" * (4096 - 40 - len(kept)) + b"\n"
            tokens.write_bytes(kept)
            with filled(disk):
                second = subprocess.run([*add, "two", "--tokens", str(tokens)], capture_output=True, text=True, check=False)
                self.assertNotEqual(second.returncode, 0)
                self.assertIn("No space left", second.stderr)
                self.assertEqual(second.stdout, "")
                self.assertEqual(tokens.read_bytes(), kept)
            third = subprocess.run([*add, "two", "--tokens", str(tokens)], capture_output=True, text=True, check=False)
            self.assertEqual(third.returncode, 0, third.stderr)
            self.assertTrue(tokens.read_bytes().startswith(kept))
            self.assertEqual(sorted(os.listdir(disk)), ["tokens"])


if __name__ == "__main__":
    tap.main()
