"""An engine of tests/fakes in a process of its own: thousands of containers without a real one's seconds.

    with FakeEngine("fake", history) as engine:     # .host and .watch as OwnEngine has them
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from watch import EngineWatch

FAKE = pathlib.Path(__file__).resolve().parents[1] / "fakes" / "fake_dockerd.py"


class FakeEngine:
    def __init__(self, name, history):
        self.name, self.history = name, history

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="bailey-fake-engine.")
        os.chmod(self.folder.name, 0o755)
        path = f"{self.folder.name}/docker.sock"
        self.host = f"unix://{path}"
        self.process = subprocess.Popen([sys.executable, str(FAKE), path, "--box", "init"], stdout=subprocess.PIPE)
        if b"ready" not in self.process.stdout.readline():
            raise AssertionError("the fake engine does not start")
        os.chmod(path, 0o666)
        self.watch = EngineWatch(self.history, self.name, path)
        self.watch.start()
        if not self.watch.connected.wait(10):
            raise AssertionError("the fake engine's events cannot be read")
        return self

    def __exit__(self, *unused):
        self.watch.over = True
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()
        self.folder.cleanup()
