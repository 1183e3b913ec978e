#!/usr/bin/env python3
"""The image `full`, live: what it adds to slim is there and works in a sandbox's confinement, with
a read-only root and without a network. Skipped where the engine has no such image: building it
takes minutes (bailey image build full)."""

import base64
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402
from sandbox import Sandbox  # noqa: E402
from tree import Tree, engine, for_users  # noqa: E402

IMAGE = os.environ.get("BAILEY_IMAGE_FULL", "bailey/sandbox:full")
PLOT = """
import warnings; warnings.simplefilter("error")
import os, numpy, pandas, matplotlib
import matplotlib.pyplot as plt
frame = pandas.DataFrame({"x": numpy.arange(50), "y": numpy.random.default_rng(1).normal(size=50).cumsum()})
print(matplotlib.get_backend().lower(), frame.y.describe().loc["count"], (numpy.ones((64, 64)) @ numpy.ones((64, 64)))[0, 0])
frame.plot(x="x", y="y", title="A walk")
os.makedirs("artifacts")
plt.savefig("artifacts/walk.png", dpi=60)
"""

FIGURES = """
import matplotlib.pyplot as plt
plt.plot([1, 4, 9])
plt.show()
_, axes = plt.subplots()
axes.bar(["a", "b"], [1, 2])
len(plt.get_fignums())
"""
NOISE = """
import os, numpy, PIL.Image
os.makedirs("artifacts", exist_ok=True)
noise = PIL.Image.fromarray(numpy.random.default_rng(1).integers(0, 255, (1300, 1300, 3), dtype="uint8"))
noise.save("n.png"); noise.save("n.jpg", quality=95); noise.save("n.gif"); noise.save("n.webp", lossless=True)
"""
BOMBS = """
import os, struct, zlib
os.makedirs("artifacts", exist_ok=True)
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
def png(name, width, height, rows):
    data = zlib.compressobj(9)
    body = b"".join(data.compress(bytes(width * 4 + 1)) for _ in range(rows)) + data.flush()
    with open("artifacts/" + name, "wb") as file:
        file.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)))
        file.write(chunk(b"prVt", bytes(900000)) + chunk(b"IDAT", body) + chunk(b"IEND", b""))
png("1.png", 60000, 60000, 10)
png("2.png", 4800, 4900, 4900)  # 23.5 million pixels: 94 MB in a box of 128
png("3.png", 4000, 4000, 1)     # less than it says
for n, start in ((4, b"GIF89a" + struct.pack("<HH", 65535, 65535)), (5, b"\\xff\\xd8\\xff")):
    with open(f"artifacts/{n}." + ("gif" if n == 4 else "jpg"), "wb") as file:
        file.write(start + os.urandom(900000))
"""


class Full(unittest.TestCase):
    def each(self, body):
        def one(user):
            with Tree(user=user, env={"SANDBOX_IMAGE": IMAGE}) as tree:
                body(tree)

        for_users(self, one)

    def test_numpy_pandas_and_a_plot_without_a_warning(self):
        def body(tree):
            answer = tree.finish(tree.start("execute_code", {"language": "python", "code": PLOT, "timeout_seconds": 60, "artifacts": ["artifacts"]}), 90)
            r = answer["result"]["structuredContent"]
            self.assertEqual((r["status"], r["stdout"], r["stderr"]), ("ok", "agg 50.0 64.0\n", ""), r)
            images = [c for c in answer["result"]["content"] if c["type"] == "image"]
            self.assertEqual(len(images), 1)
            r = tree.run("python", PLOT + "print(sorted(os.listdir()))", timeout_seconds=60)
            self.assertIn("['artifacts', 'main.py']", r["stdout"])  # and nothing of matplotlib's own
            self.assertTrue(base64.b64decode(images[0]["data"]).startswith(b"\x89PNG"))

        self.each(body)

    def test_figures_of_an_evaluation(self):
        """Shown or left open: each comes back once, and is closed."""

        def body(tree):
            box = Sandbox(tree)
            for code, count in ((FIGURES, 2), ("len(plt.get_fignums())", 0)):
                call = {"sandbox_id": box.id, "language": "python", "code": code, "timeout_seconds": 60}
                answer = tree.finish(tree.start("sandbox_eval", call), 90)["result"]
                r = answer["structuredContent"]
                self.assertEqual((r["status"], r["value"], r["stderr"]), ("ok", str(count), ""), r)
                images = [base64.b64decode(c["data"])[:8] for c in answer["content"] if c["type"] == "image"]
                self.assertEqual(images, [b"\x89PNG\r\n\x1a\n"] * count)

        self.each(body)

    def test_images_too_large_come_back_smaller(self):
        """Noise in four formats, each past the budget; the files stay as they are."""

        def body(tree):
            box = Sandbox(tree, memory_mb=512)
            r = box.call("sandbox_eval", language="python", code=NOISE, timeout_seconds=60)
            self.assertEqual(r["status"], "ok", r)
            for name, kind in (("n.png", "image/png"), ("n.jpg", "image/jpeg"), ("n.gif", "image/png"), ("n.webp", "image/png")):
                run = {"language": "python", "code": NOISE + "os.rename(%r, 'artifacts/%s')" % (name, name), "artifacts": ["artifacts"], "timeout_seconds": 60}
                answer = tree.finish(tree.start("execute_code", run), 90)["result"]
                [entry] = answer["structuredContent"]["artifacts"]
                self.assertEqual((entry["encoding"], entry["mime_type"]), ("image", kind), entry)
                self.assertGreater(entry["size"], 750000)
                [image] = [c for c in answer["content"] if c["type"] == "image"]
                self.assertEqual(image["mimeType"], kind)
                self.assertLess(len(image["data"]), 1000000)
                self.assertGreater(len(image["data"]), 200000)

        self.each(body)

    def test_images_that_are_bombs(self):
        """Few bytes that say they are many pixels, and what is no image behind its first bytes: links, soon,
        and nothing of the sandbox's own is killed for them."""

        def body(tree):
            box = Sandbox(tree, memory_mb=128)
            box.call("sandbox_eval", language="python", code="kept = 1")
            r = box.call("sandbox_eval", language="python", code=BOMBS, timeout_seconds=30)
            self.assertEqual(r["status"], "ok", r)
            self.assertEqual([e["encoding"] for e in r["images"]], ["link"] * 5, r)
            self.assertEqual(box.call("sandbox_eval", language="python", code="kept")["value"], "1")
            self.assertEqual(box.run("ls artifacts | wc -l")["stdout"].strip(), "5")
            self.assertEqual(box.call("inspect_logs")["data"].strip(), "5")  # not one of ours in between

        self.each(body)

    def test_tools_to_build_with(self):
        def body(tree):
            r = tree.command(
                "set -e; git init -q p; cd p; git config user.email a@b; git config user.name n\n"
                "printf '#include <iostream>\\nint main() { std::cout << 42 << std::endl; }\\n' >m.cc\n"
                "printf 'm: m.cc\\n\\tg++ -o m m.cc\\n' >Makefile; make -s; ./m; git add -A; git commit -qm one; git log --oneline | wc -l\n"
                "python3 -m venv --without-pip v; v/bin/python -c 'print(7)'; pip --version | cut -d' ' -f1; curl --version | cut -d' ' -f1 | head -n 1",
                timeout_seconds=60, memory_mb=1024)
            self.assertEqual(r["stdout"].split(), ["42", "1", "7", "pip", "curl"], r)

        self.each(body)

    def test_pip_without_a_network_gives_up_soon(self):
        def body(tree):
            for command in ("pip install nosuchthing", "python3 -m venv v && v/bin/pip install nosuchthing"):
                tree.command("pip --version")  # read from the disk before
                with pace.within(self, 8 if "venv" in command else 3, command):
                    r = tree.command(command, timeout_seconds=60, memory_mb=1024)
                self.assertEqual((r["status"], r["exit_code"]), ("nonzero", 1), r)
                self.assertNotIn("Retrying", r["stderr"])
                self.assertIn("No matching distribution", r["stderr"])

        self.each(body)

    def test_python_starts_without_site_customisation(self):
        def body(tree):
            r = tree.command("ls /usr/lib/python3/dist-packages/*.pth 2>&1 | head -n 1; find / -xdev -perm /6000 2>/dev/null | head -n 3; "
                             "python3 -X importtime -c pass 2>&1 | grep -c distutils; ls /usr/lib/python3*/sitecustomize.py 2>/dev/null")
            self.assertIn("No such file", r["stdout"].splitlines()[0])
            self.assertEqual(r["stdout"].splitlines()[1:], ["0"], r)

        self.each(body)


if __name__ == "__main__":
    if engine.request("GET", f"/images/{IMAGE}/json")[0] != 200:
        tap.skip_all(f"the engine has no {IMAGE}: bailey image build full")
    tap.main()
