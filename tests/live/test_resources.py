#!/usr/bin/env python3
"""Resources, live: run output and sandbox files under their URIs, and whose they are."""

import base64
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from sandbox import Sandbox  # noqa: E402
from tree import Tree, for_users  # noqa: E402

NOT_FOUND = -32002


class Resources(unittest.TestCase):
    def read(self, tree, uri):
        return tree.request("resources/read", {"uri": uri})

    def test_files_and_output(self):
        def body(user):
            with Tree(user=user) as tree:
                box = Sandbox(tree)
                r = box.run("printf hello; printf '\\377\\0' >bytes; mkdir d; echo x >'d/a b'")
                listed = [e["uri"] for e in tree.request("resources/list", {})["result"]["resources"]]
                self.assertIn(f"bailey://sandboxes/{box.id}/files//workspace", listed)
                for uri, want in ((f"bailey://runs/{r['run_id']}/stdout", "hello"),
                                  (f"bailey://runs/{box.id}/stdout", "hello"),
                                  (f"bailey://sandboxes/{box.id}/files/d/a%20b", "x\n"),
                                  (f"bailey://sandboxes/{box.id}/files//workspace/d", "f 2 a b\n")):
                    content, = self.read(tree, uri)["result"]["contents"]
                    self.assertEqual((content["uri"], content["text"]), (uri, want))
                content, = self.read(tree, f"bailey://sandboxes/{box.id}/files/bytes")["result"]["contents"]
                self.assertEqual(base64.b64decode(content["blob"]), b"\xff\0")
                for uri in (f"bailey://sandboxes/{box.id}/files/none", f"bailey://runs/{'0' * 32}/stdout",
                            f"bailey://sandboxes/{'0' * 32}/files/d", "file:///etc/passwd"):
                    self.assertEqual(self.read(tree, uri)["error"]["code"], NOT_FOUND, uri)
                for path in ("/etc/passwd", "../etc/passwd", "%2e%2e/etc/passwd"):
                    answer = self.read(tree, f"bailey://sandboxes/{box.id}/files/{path}")
                    self.assertIn("error", answer)
                    self.assertNotIn("root:", str(answer))

        for_users(self, body)

    def test_what_is_not_kept_is_told(self):
        """Of a long output the first part and the last 8 KiB, and between them how much is missing."""
        with Tree() as tree:
            r = Sandbox(tree).run("seq 1 400000")
            content, = self.read(tree, f"bailey://runs/{r['run_id']}/stdout")["result"]["contents"]
            whole = "".join(f"{n}\n" for n in range(1, 400001))
            head, missing, tail = re.fullmatch(r"(1\n.*)\n\[(\d+) bytes are missing here: they were not kept\]\n(.*)", content["text"], re.S).groups()
            self.assertEqual((head, tail, int(missing)), (whole[:len(head)], whole[-8192:], len(whole) - len(head) - 8192))

    def test_of_others(self):
        with Tree() as tree, Tree() as other:
            theirs = Sandbox(other)
            r = theirs.run("echo secret | tee f")
            self.assertEqual(tree.request("resources/list", {})["result"]["resources"], [])
            for uri in (f"bailey://runs/{r['run_id']}/stdout", f"bailey://runs/{theirs.id}/stdout",
                        f"bailey://sandboxes/{theirs.id}/files/f"):
                self.assertEqual(self.read(tree, uri)["error"]["code"], NOT_FOUND, uri)

    def test_an_artifact_too_large_for_the_answer_is_read_by_its_link(self):
        with Tree() as tree:
            r = tree.run("python", "open('big', 'w').write('x' * 300000)", artifacts=["big"])
            self.assertEqual(r["artifacts"][0]["encoding"], "link", r["artifacts"])
            content, = self.read(tree, r["artifacts"][0]["uri"])["result"]["contents"]
            self.assertEqual(content["text"], "x" * 300000)


if __name__ == "__main__":
    tap.main()
