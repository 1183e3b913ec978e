#!/usr/bin/env python3
"""The engine layer against a real engine, over its unix socket, plain TCP and TLS: the whole life
of a box, an altered description refused, an engine's own words for what is missing. Nothing may
be left afterwards."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from http.client import HTTPConnection
from urllib.parse import quote

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))

import tap  # noqa: E402
import tlsproxy  # noqa: E402

BUILD = os.environ.get("BAILEY_BUILD") or os.path.join(ROOT, "build", "dev")
DRIVER = os.path.join(BUILD, "tests", "engine_driver")
IMAGE = os.environ.get("BAILEY_TEST_IMAGE", "bailey/sandbox:slim")
HOST = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
SOCKET = HOST[len("unix://"):] if HOST.startswith("unix://") else ""

# Says hello on both streams, gives every line back, ends with 7 at "quit".
PROGRAM = r"""
#include <string.h>
#include <unistd.h>
int main(void)
{
	static char b[65536];
	ssize_t n;

	if (write(1, "HELLO out\n", 10) != 10 || write(2, "err\n", 4) != 4)
		return 1;
	while ((n = read(0, b, sizeof(b))) > 0) {
		if (n >= 4 && memcmp(b, "quit", 4) == 0)
			return 7;
		for (ssize_t at = 0, w; at < n; at += w) {
			w = write(1, b + at, (size_t)(n - at));
			if (w <= 0)
				return 1;
		}
	}
	return 0;
}
"""
LIFE = ["probe", f"image={IMAGE}", "events", "create", "check", "attach", "send=early", "start",
        "event=start", "expect=HELLO", "expect=early", "check", "flood=20000000", "bytes=20000000",
        "update=268435456:500", "kill", "closed", "event=die", "event=destroy", "remove"]


class UnixConnection(HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def engine(method, path):
    connection = UnixConnection("engine")
    connection.request(method, path)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, json.loads(body) if body else None


class Engine(unittest.TestCase):
    number = 0

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="bailey-engine.")
        os.chmod(cls.folder, 0o755)
        share = cls.share = os.path.join(cls.folder, "share")
        os.makedirs(os.path.join(share, "box"))
        source = os.path.join(cls.folder, "program.c")
        with open(source, "w", encoding="ascii") as handle:
            handle.write(PROGRAM)
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-static", "-o",
                        os.path.join(share, "box", "init"), source], check=True)
        built = os.path.join(BUILD, "share")
        for name in ("passwd", "group", "cpu"):
            path = os.path.join(built, name)
            copy = shutil.copytree if os.path.isdir(path) else shutil.copy
            copy(path, os.path.join(share, name))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def tearDown(self):
        filters = quote(json.dumps({"label": ["io.bailey.user=" + self.user()]}))
        end = time.monotonic() + 10  # for a removal under way
        left = True
        while left and time.monotonic() < end:
            _, left = engine("GET", f"/v1.40/containers/json?all=1&filters={filters}")
            time.sleep(0.05)
        for container in left:
            engine("DELETE", f"/v1.40/containers/{container['Id']}?force=1")
        self.assertEqual(left, [])

    @staticmethod
    def user():
        return f"test{os.getpid()}"

    def drive(self, *steps, address="unix," + SOCKET):
        Engine.number += 1
        done = subprocess.run(
            [DRIVER, address, "spec:share=" + self.share, "spec:shown=1",
             "spec:user_hash=" + self.user(), f"spec:name=bailey-test-{os.getpid()}-{self.number}",
             *steps], capture_output=True, text=True, timeout=120, check=False)
        lines = [re.fullmatch(r"(\S+) (-?\d+) (\d+) ?(.*)", text) for text in
                 done.stdout.splitlines()]
        self.assertNotIn(None, lines, done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [(m[1], int(m[2]), int(m[3]), m[4]) for m in lines]

    def life(self, address):
        lines = self.drive(*LIFE, address=address)
        # However the connection ends, and whether the engine has done removing by now.
        may = {"closed": (0, -32), "remove": (0, -17)}
        for line in lines:
            self.assertIn(line[1], may.get(line[0], (0,)), lines)
        self.assertRegex(lines[0][3], r"api=1\.4[0-5] cgroup=[12] ")
        self.assertEqual(lines[3][3], "pid=0")
        self.assertRegex([line for line in lines if line[0] == "check"][1][3], r"^pid=[1-9]")

    def test_unix(self):
        self.life("unix," + SOCKET)

    def test_tcp_and_tls(self):
        certificates = os.path.join(self.folder, "tls")
        os.makedirs(certificates)
        tlsproxy.make_certificates(certificates)
        tls = tlsproxy.TlsProxy(SOCKET, certificates)
        plain = tlsproxy.TlsProxy(SOCKET, plain=True)
        self.addCleanup(tls.close)
        self.addCleanup(plain.close)

        def pem(*names):
            return ",".join([""] + [os.path.join(certificates, name) for name in names])

        mutual = pem("ca.pem", "client.pem", "client.key")
        good = {
            "tcp by address": f"tcp,127.0.0.1,127.0.0.1,{plain.port}",
            "tcp by name": f"tcp,engine.test,127.0.0.1,{plain.port}",
            "tls by address": f"tls,127.0.0.1,127.0.0.1,{tls.port}{mutual}",
            "tls by name": f"tls,engine.test,127.0.0.1,{tls.port}{mutual}",
        }
        for name, address in good.items():
            with self.subTest(name):
                self.life(address)
        other_ca = pem("other-ca.pem", "client.pem", "client.key")
        wrong_key = pem("ca.pem", "client.pem", "server.key")
        bad = {
            "another ca": (f"tls,engine.test,127.0.0.1,{tls.port}{other_ca}", "does not verify"),
            "no ca": (f"tls,engine.test,127.0.0.1,{tls.port}", "does not verify"),
            "another name": (f"tls,wrong.test,127.0.0.1,{tls.port}{mutual}", "does not verify"),
            "key of another": (f"tls,engine.test,127.0.0.1,{tls.port}{wrong_key}",
                               "bad client certificate or key"),
            "no tls there": (f"tls,engine.test,127.0.0.1,{plain.port}{mutual}", "TLS handshake"),
            "tls there": (f"tcp,engine.test,127.0.0.1,{tls.port}", "the engine at"),
            "no client certificate": (f"tls,engine.test,127.0.0.1,{tls.port}{pem('ca.pem')}",
                                      "client certificate"),
            "nobody": ("tcp,engine.test,127.0.0.1,1", "Connection refused"),
        }
        for name, (address, words) in bad.items():
            with self.subTest(name):
                lines = self.drive("probe", "id=" + "ab" * 32, "attach", address=address)
                self.assertEqual({line[1] for line in lines} - {-107, -104}, set(), lines)
                self.assertIn(words, lines[0][3])

    def test_altered_description_is_refused(self):
        changes = {
            "pids=65": "HostConfig.PidsLimit", "memory=536870913": "HostConfig.Memory",
            "cpus=2000": "HostConfig.NanoCpus", "uid=0": "Config.User",
            "share=/": "HostConfig.Mounts", "workspace=1048576": "HostConfig.Tmpfs",
            "seccomp={}": "HostConfig.SecurityOpt", "runtime=other": "HostConfig.Runtime",
            "bind=0": "Mounts", "box=8": "Config.Labels", "shown=2": "HostConfig.Mounts",
            "cgroup_parent=/elsewhere": "HostConfig.CgroupParent",
        }
        for change, field in changes.items():
            with self.subTest(change=change):
                lines = self.drive("probe", f"image={IMAGE}", "create", "check", "spec:" + change,
                                   "check", "remove")
                self.assertEqual([line[1] for line in lines], [0, 0, 0, 0, -1, 0], lines)
                self.assertIn(f" {field} ", lines[4][3])

    def test_list(self):
        lines = self.drive("probe", f"image={IMAGE}", "spec:box=77", "create",
                           "list=" + self.user(), "start", "list=" + self.user(), "remove",
                           "list=" + self.user())
        self.assertRegex(lines[3][3], r"^n=1 first=[0-9a-f]{64} box=77 running=0$")
        self.assertRegex(lines[5][3], r"box=77 running=1$")
        self.assertRegex(lines[7][3], r"^n=0 ")

    def test_what_is_not_there(self):
        lines = self.drive("probe", "image=bailey/nonesuch:1", "id=" + "ab" * 32, "check", "attach",
                           "start", "update=67108864:100", "kill", "remove",
                           "spec:image=bailey/nonesuch:1", "create")
        self.assertEqual([line[1] for line in lines], [0, -2, -2, -2, -2, -2, -2, 0, -2], lines)
        for line in lines[1:7]:
            self.assertRegex(line[3], r"[Nn]o such (image|container)")

    def test_states(self):
        lines = self.drive("probe", f"image={IMAGE}", "create", "create", "kill", "attach", "start",
                           "start", "expect=HELLO", "send=quit", "closed", "remove")
        wanted = {"create": [0, -17], "kill": [-17], "start": [0, 0], "closed": [0]}
        for step, results in wanted.items():
            self.assertEqual([line[1] for line in lines if line[0] == step], results, lines)
        # The engine may already be removing it: both answers mean "gone, or soon".
        self.assertIn(lines[-1][1], (0, -17))
        if lines[-1][1] == -17:
            self.assertIn("already in progress", lines[-1][3])
            self.drive("probe", "sleep=500")

    def test_a_runtime_the_engine_lacks(self):
        lines = self.drive("probe", f"image={IMAGE}", "spec:runtime=nonesuch", "create")
        self.assertEqual(lines[-1][1], -22)
        self.assertIn("nonesuch", lines[-1][3])


if __name__ == "__main__":
    if not os.access(DRIVER, os.X_OK):
        tap.skip_all("engine_driver is not built")
    if not SOCKET or not os.path.exists(SOCKET):
        tap.skip_all("no engine on a unix socket at DOCKER_HOST")
    if engine("GET", f"/v1.40/images/{IMAGE}/json")[0] != 200:
        tap.skip_all(f"the engine has no image {IMAGE}")
    tap.main()
