#!/usr/bin/env python3
"""docs/example-session.md is run as it stands: each call is made, and what its result block shows
must be what the server answered."""

import base64
import json
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from tree import Tree  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/example-session.md"
BLOCK = re.compile(r"^```(call|result)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Names(dict):
    """Upper-case words of the page -> what the server gave."""

    def put_in(self, text):
        for word, value in self.items():
            text = text.replace(f'"{word}"', json.dumps(value))
        return text


def matches(shown, got, names):
    """true when got is what is shown; a new upper-case word takes its value."""
    if isinstance(shown, dict):
        return isinstance(got, dict) and all(k in got and matches(v, got[k], names) for k, v in shown.items())
    if isinstance(shown, list):
        return isinstance(got, list) and len(got) == len(shown) and all(matches(s, g, names) for s, g in zip(shown, got))
    if isinstance(shown, str) and re.fullmatch(r"[A-Z]+", shown):
        names[shown] = got
        return re.fullmatch(r"[0-9a-f]{32}", got) is not None
    if isinstance(shown, str) and "…" in shown:
        pattern = ".*".join(re.escape(part) for part in shown.split("…"))
        return isinstance(got, str) and re.fullmatch(pattern, got, re.DOTALL) is not None
    return shown == got


def content_matches(shown, result, options, names):
    if ("error" in options.split()) != bool(result.get("isError")):
        return False
    images = [c for c in result["content"] if c["type"] == "image"]
    wanted = [w for w in options.split() if "/" in w]
    if [c["mimeType"] for c in images] != wanted or not all(base64.b64decode(c["data"]) for c in images):
        return False
    return matches(json.loads(names.put_in(shown)), result["structuredContent"], names)


class ExampleSession(unittest.TestCase):
    def test_the_page(self):
        blocks = [m.groups() for m in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
        self.assertGreaterEqual(len(blocks), 20)
        self.assertEqual([b[0] for b in blocks], ["call", "result"] * (len(blocks) // 2))
        names = Names()
        with Tree() as tree:
            for (_, options, call), (_, wanted, shown) in zip(blocks[::2], blocks[1::2]):
                tool, arguments = call.split("\n", 1)
                arguments = json.loads(names.put_in(arguments))
                until = json.loads(options.strip().removeprefix("until ")) if options.strip() else {}
                end = time.monotonic() + 30
                while True:
                    answer = tree.finish(tree.start(tool, arguments))
                    self.assertIn("result", answer, answer)
                    content = answer["result"]["structuredContent"]
                    if all(content.get(k) == v for k, v in until.items()) or time.monotonic() > end:
                        break
                    time.sleep(0.1)
                with self.subTest(tool=tool):
                    self.assertTrue(content_matches(shown, answer["result"], wanted, names),
                                    f"shown: {shown}\nanswered: {json.dumps(answer['result'], ensure_ascii=False)[:3000]}")


if __name__ == "__main__":
    tap.main()
