#!/usr/bin/env python3
"""Files of a sandbox, live: round trips, paths that must go nowhere, what a hostile workload puts
in their way, quota; files[] and artifacts[] of the execute tools."""

import base64
import hashlib
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from sandbox import Sandbox, peak_kib  # noqa: E402
from tree import Tree, for_users  # noqa: E402

MIB = 1 << 20
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")


def b64(data):
    return base64.b64encode(data).decode()


class Files(unittest.TestCase):
    def each(self, body):
        def one(user):
            with Tree(user=user) as tree:
                body(tree, Sandbox(tree))

        for_users(self, one)

    def write(self, box, path, data, **more):
        if isinstance(data, bytes):
            more["encoding"] = "base64"
            data = b64(data)
        r = box.call("container_write_file", path=path, content=data, **more)
        self.assertFalse(r["_isError"], r)
        return r

    def read(self, box, path, **more):
        r = box.call("container_read_file", path=path, encoding="base64", **more)
        self.assertFalse(r["_isError"], r)
        return base64.b64decode(r["content"])

    def refused(self, box, tool, path, **more):
        r = box.call(tool, path=path, **more)
        self.assertTrue(r["_isError"], (tool, path[:80], r))
        self.assertTrue(r["message"], r)
        return r

    def test_text(self):
        def body(tree, box):
            text = "erste Zeile\nzweite: ä ∑ 🦉\n\ttab\n"
            self.write(box, "notes.txt", text)
            r = box.call("container_read_file", path="notes.txt")
            self.assertEqual((r["content"], r["encoding"], r["size"]), (text, "utf8", len(text.encode())), r)
            self.assertEqual(box.run("cat notes.txt")["stdout"], text)
            self.write(box, "notes.txt", "short")
            self.assertEqual(self.read(box, "notes.txt"), b"short")
            self.write(box, "notes.txt", " and more", append=True)
            self.assertEqual(self.read(box, "/workspace/notes.txt"), b"short and more")
            self.write(box, "empty", "")
            self.assertEqual(self.read(box, "empty"), b"")
            self.write(box, "/tmp/other", "in tmp")
            self.assertEqual(box.run("cat /tmp/other")["stdout"], "in tmp")

        self.each(body)

    def test_bytes_of_every_kind(self):
        def body(tree, box):
            every = bytes(range(256)) * 4
            self.write(box, "every", every)
            self.assertEqual(self.read(box, "every"), every)
            self.assertEqual(box.run("sha256sum <every")["stdout"].split()[0], hashlib.sha256(every).hexdigest())
            r = box.call("container_read_file", path="every")
            self.assertEqual(r["encoding"], "base64", r)
            self.assertEqual(base64.b64decode(r["content"]), every)
            for bad in ("@@@@", "abc", "YQ==YQ==", "YWJj\n!"):
                r = box.call("container_write_file", path="bad", content=bad, encoding="base64")
                self.assertTrue(r["_isError"], (bad, r))
                self.assertIn("base64", r["message"])

        self.each(body)

    def test_large_reads_at_once(self):
        def body(tree, box):
            box.run("truncate -s 4M big")
            for _ in range(3):
                calls = [tree.start("container_read_file", {"sandbox_id": box.id, "path": "big", "length": 2 * MIB}) for _ in range(8)]
                told = [tree.wait(call) for call in calls]
                self.assertTrue({r["status"] for r in told} <= {"ok", "busy"}, [r["status"] for r in told])
                self.assertEqual(told[0]["bytes"], 2 * MIB, told[0]["message"])
            self.assertEqual(box.run("echo here")["stdout"], "here\n")

        self.each(body)

    def test_offset_and_length(self):
        def body(tree, box):
            data = bytes(random.Random(1).randbytes(100000))
            self.write(box, "data", data)
            for offset, length in ((0, 1), (99999, 1), (50000, 1000), (99990, 500), (100000, 10), (200000, 10)):
                got = self.read(box, "data", offset=offset, length=length)
                self.assertEqual(got, data[offset:offset + length], (offset, length))
            self.refused(box, "container_read_file", "data", length=0)
            r = box.call("container_read_file", path="data", offset=99990, length=5, encoding="base64")
            self.assertEqual(r["size"], 100000, r)

        self.each(body)

    def test_modes_and_directories(self):
        def body(tree, box):
            self.write(box, "a/b/c/run.sh", "#!/bin/sh\necho ran\n", mode="0755")
            self.assertEqual(box.run("a/b/c/run.sh")["stdout"], "ran\n")
            self.assertEqual(box.run("stat -c %a a/b/c/run.sh")["stdout"], "755\n")
            self.write(box, "plain", "x")
            self.assertEqual(box.run("stat -c %a plain")["stdout"], "644\n")
            r = box.call("container_write_file", path="suid", content="x", mode="4755")
            if not r["_isError"]:
                self.assertEqual(box.run("stat -c %a suid")["stdout"], "755\n")

        self.each(body)

    def test_list(self):
        def body(tree, box):
            box.run("mkdir -p d/e/f; echo 12345 >d/five; ln -s five d/link; mkfifo d/pipe; touch 'd/a b' \"d/$(printf 'n\\nl')\"")
            entries = self.listed(box, "d")
            self.assertEqual(set(entries), {"e", "five", "link", "pipe", "a b", "n\nl"}, entries)
            self.assertEqual((entries["five"]["type"], entries["five"]["size"]), ("file", 6))
            self.assertEqual({n: entries[n]["type"] for n in ("e", "link", "pipe")},
                             {"e": "directory", "link": "symlink", "pipe": "other"})
            deep = self.listed(box, ".", depth=3)
            self.assertIn("d/e/f", deep)
            self.refused(box, "container_list_files", "nowhere")
            box.run("mkdir many; cd many; seq 3000 | xargs touch")
            r = box.call("container_list_files", path="many")
            self.assertTrue(r["truncated"], r)
            self.assertGreaterEqual(len(r["entries"]), 500)

        self.each(body)

    def listed(self, box, path, **more):
        r = box.call("container_list_files", path=path, **more)
        self.assertFalse(r["_isError"], r)
        return {row["path"]: row for row in r["entries"]}

    def test_100_mb_there_and_back_in_bounded_memory(self):
        def body(tree, box):
            size, chunk, got_chunk = 100 * 1000 * 1000, 3 * MIB, MIB
            block = random.Random(2).randbytes(chunk)
            there, back = hashlib.sha256(), hashlib.sha256()
            left = size
            while left > 0:
                # Each chunk differs from the one before.
                part = (block[left % 977:] + block[:left % 977])[:left]
                there.update(part)
                self.write(box, "big", part, append=left != size)
                left -= len(part)
            self.assertEqual(box.run("sha256sum <big", timeout_seconds=30)["stdout"].split()[0], there.hexdigest())
            offset = 0
            while offset < size:
                part = self.read(box, "big", offset=offset, length=got_chunk)
                self.assertTrue(part)
                back.update(part)
                offset += len(part)
            self.assertEqual(back.hexdigest(), there.hexdigest())
            for name, pid in tree.pids().items():
                self.assertLess(peak_kib(pid), 96 * 1024, name)
            inside = box.run("sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\) kB/\\1/p' /proc/1/status")["stdout"]
            self.assertLess(int(inside), 8 * 1024)

        self.each(body)

    def test_paths_that_leave_the_writable_places(self):
        def body(tree, box):
            box.call("container_write_file", path="//workspace/./d//f", content="x")
            self.assertEqual(box.call("container_read_file", path="/.//workspace/d/./f")["content"], "x")
            self.assertEqual([e["path"] for e in box.call("container_list_files", path="//workspace//d/")["entries"]], ["f"])
            box.run("rm -r d")
            for path in ("//etc/passwd", "/./etc/passwd", "//workspace/../etc/passwd", "/../workspace/d/f",
                         "../etc/passwd", "/etc/passwd", "a/../../etc/passwd", "/workspace/../etc/passwd", "/proc/1/mem",
                         "/proc/self/root/etc/passwd", "/dev/zero", "/sys/kernel", "/.bailey/guest-init", "/", "..",
                         "/tmp/../workspace/../etc/shadow", "/workspacex/f", "//etc//passwd", "", "./../x"):
                for tool, more in (("container_read_file", {}), ("container_write_file", {"content": "x"})):
                    self.refused(box, tool, path, **more)
            for path in ("/etc", "..", "/", "/proc/self/fd", "/tmp/.."):
                self.refused(box, "container_list_files", path)
            self.refused(box, "container_read_file", "x" * 5000)
            self.refused(box, "container_read_file", "a/" * 2400)
            self.refused(box, "container_write_file", "y" * 300, content="x")
            # NUL never gets through the JSON gate: a protocol error, not a run.
            answer = tree.request("tools/call", {"name": "container_read_file",
                                                 "arguments": {"sandbox_id": box.id, "path": "a\0b"}})
            self.assertIn("error", answer)
            self.assertEqual(box.run("ls -A")["stdout"], "")

        self.each(body)

    def test_links_planted_by_the_workload_lead_nowhere(self):
        def body(tree, box):
            box.run("ln -s /etc/passwd abs; ln -s ../etc/passwd rel; ln -s / root; ln -s /proc/self/exe magic; "
                    "ln -s loop loop; ln -s /tmp/new dangling; mkdir d; ln -s ../../etc d/up; ln -s /dev/zero zero")
            for path in ("abs", "rel", "root/etc/passwd", "magic", "loop", "d/up/passwd", "zero"):
                r = self.refused(box, "container_read_file", path)
                self.assertNotIn("root:", str(r))
            for path in ("abs", "root/tmp/x", "dangling", "d/up/x"):
                self.refused(box, "container_write_file", path, content="x")
            for path in ("root", "d/up"):
                self.refused(box, "container_list_files", path)
            self.assertEqual(box.run("ls /tmp")["stdout"], "")

        self.each(body)

    def test_links_that_come_and_go_lead_nowhere(self):
        def body(tree, box):
            box.run("mkdir real; echo mine >real/passwd; echo mine >f; "
                    "python3 -c 'import os\n"
                    "while True:\n"
                    "    os.symlink(\"/etc\", \"t\"); os.rename(\"t\", \"s\"); os.unlink(\"s\")\n"
                    "    os.rename(\"real\", \"s\"); os.rename(\"s\", \"real\")\n"
                    "    os.symlink(\"/etc/passwd\", \"t\"); os.rename(\"t\", \"g\"); os.link(\"f\", \"t\"); os.rename(\"t\", \"g\")'",
                    background=True)
            for _ in range(150):
                for path in ("s/passwd", "g"):
                    r = box.call("container_read_file", path=path)
                    if not r["_isError"]:
                        self.assertEqual(r["content"], "mine\n", r)

        self.each(body)

    def test_what_is_no_file_is_refused_at_once(self):
        def body(tree, box):
            box.run("mkfifo pipe; mkdir dir; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
            for path in ("pipe", "dir", "sock"):
                self.refused(box, "container_read_file", path)
                self.refused(box, "container_write_file", path, content="x")
            self.refused(box, "container_read_file", "missing")
            self.assertEqual(box.run("echo fine")["stdout"], "fine\n")

        self.each(body)

    def test_a_file_past_the_quota(self):
        def body(tree, box):
            box.run("head -c 190M /dev/zero >fill")
            r = {}
            for i in range(10):
                r = box.call("container_write_file", path="more", content=b64(b"x" * (2 * MIB)), encoding="base64", append=i > 0)
                if r["_isError"]:
                    break
            self.assertEqual((r["_isError"], r["status"]), (True, "disk_full"), r)
            box.run("rm fill more")
            self.write(box, "again", "x")

        self.each(body)

    def test_chunks_have_a_limit(self):
        def body(tree, box):
            r = box.call("container_write_file", path="f", content="x" * (4 * MIB + 1))
            self.assertTrue(r["_isError"])
            self.assertIn("content", r["message"])
            self.write(box, "f", "x" * (4 * MIB))
            r = box.call("container_read_file", path="f", length=4 * MIB)
            if not r["_isError"]:
                self.assertLessEqual(len(r["content"]), 2 * MIB)

        self.each(body)


class Given(unittest.TestCase):
    """files[] and artifacts[] of execute_code and execute_sandboxed_command."""

    def test_files_are_there_when_the_code_runs(self):
        def one(user):
            with Tree(user=user) as tree:
                files = [{"path": "in/a.txt", "content": "hello"},
                         {"path": "b.bin", "content": b64(b"\0\xff\x01"), "encoding": "base64"}]
                r = tree.run("python", "print(open('in/a.txt').read(), open('b.bin', 'rb').read())", files=files)
                self.assertEqual((r["status"], r["stdout"]), ("ok", "hello b'\\x00\\xff\\x01'\n"), r)
                r = tree.command("cat in/a.txt; wc -c <b.bin", files=files)
                self.assertEqual(r["stdout"].split(), ["hello3"], r)
                for bad in ([{"path": "../x", "content": "x"}], [{"path": "/etc/x", "content": "x"}], [{"content": "x"}],
                            [{"path": "x", "content": "@", "encoding": "base64"}], "x", [1]):
                    r = tree.run("bash", "echo x", files=bad)
                    self.assertTrue(r["_isError"], (bad, r))

        for_users(self, one)

    def test_images_come_back_to_be_looked_at(self):
        def one(user):
            with Tree(user=user) as tree:
                code = f"import os, base64\nos.makedirs('artifacts')\nopen('artifacts/dot.png', 'wb').write(base64.b64decode('{b64(PNG)}'))\nprint('made')"
                answer = tree.finish(tree.start("execute_code", {"language": "python", "code": code, "artifacts": ["artifacts"]}))
                result = answer["result"]
                self.assertEqual(result["structuredContent"]["stdout"], "made\n")
                images = [c for c in result["content"] if c["type"] == "image"]
                self.assertEqual([(c["mimeType"], base64.b64decode(c["data"])) for c in images], [("image/png", PNG)], result)
                self.assertEqual([a["path"] for a in result["structuredContent"]["artifacts"]], ["artifacts/dot.png"])

        for_users(self, one)

    def test_an_image_that_is_too_large(self):
        """In an image without Pillow nothing makes it smaller: it is a link to all of it."""

        def one(user):
            with Tree(user=user) as tree:
                code = "printf '\\211PNG\\r\\n\\032\\n' >big.png; head -c 900000 /dev/zero >>big.png; cp big.png two.png"
                answer = tree.finish(tree.start("execute_code", {"language": "bash", "code": code, "artifacts": ["big.png", "two.png"]}))
                forms = [(a["encoding"], a["mime_type"]) for a in answer["result"]["structuredContent"]["artifacts"]]
                self.assertEqual(forms, [("link", "image/png")] * 2, answer["result"]["structuredContent"])
                uri = answer["result"]["structuredContent"]["artifacts"][0]["uri"]
                blob = tree.request("resources/read", {"uri": uri})["result"]["contents"][0]["blob"]
                self.assertEqual(len(base64.b64decode(blob)), 900008)

        for_users(self, one)


if __name__ == "__main__":
    tap.main()
