"""A server that needs no engine, as root starts it and as a plain user does: what its test cases share."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

from test_tree import BUILD

BAILEY = str(BUILD / "bin" / "bailey")
# what the pass "perturb" sets is for these processes
MALLOC = {name: value for name, value in os.environ.items() if name.startswith(("GLIBC_", "MALLOC_"))}


class ServerCase:
    user = None

    def setUp(self):
        if not os.path.exists(BAILEY):
            self.skipTest(f"no programs in {BUILD}")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="bailey-server."))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.dir.chmod(0o755)
        self.as_user = {}
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(self.dir, entry.pw_uid, entry.pw_gid)
            self.as_user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.server = None

    def start(self, *words):
        """What it said on stdout once it listens."""
        self.server = subprocess.Popen(
            [BAILEY, "serve", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=open(self.dir / "log", "wb"), cwd="/",
            env={"PATH": "/usr/bin:/bin", "DOCKER_HOST": f"unix://{self.dir}/no-engine.sock", **MALLOC}, **self.as_user)
        self.addCleanup(self.stop)
        return self.server.stdout.read().decode()


class AsRoot:
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        super().setUp()


class AsUser:
    user = os.environ.get("BAILEY_TEST_USER")

    def setUp(self):
        if os.geteuid() == 0 and not self.user:
            self.skipTest("BAILEY_TEST_USER names no plain user")
        if os.geteuid() != 0:
            type(self).user = None
        super().setUp()
