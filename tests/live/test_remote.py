#!/usr/bin/env python3
"""The whole tree with an engine at the end of a TCP connection, plain and with TLS both ways: an
image that carries the guest itself, the second syscall table, names resolved by the supervisor,
kills through the engine."""

import io
import os
import pathlib
import shutil
import socket
import sys
import tarfile
import tempfile
import unittest
from http.client import HTTPConnection

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

import tap  # noqa: E402
import tlsproxy  # noqa: E402
import tree  # noqa: E402

SHARE = pathlib.Path(os.environ.get("BAILEY_BUILD") or ROOT / "build" / "dev") / "share"
BASE = os.environ.get("BAILEY_TEST_IMAGE", "bailey/sandbox:slim")
IMAGE = f"bailey/test-remote:{os.getpid()}"
HOST = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
SOCKET = HOST.removeprefix("unix://")


def build_image():
    """The base image with share/box and the account files in it."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        recipe = f"FROM {BASE}\nCOPY box /.bailey\nCOPY passwd group /etc/\n".encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(recipe)
        tar.addfile(entry, io.BytesIO(recipe))
        for name in ("box", "passwd", "group"):
            tar.add(SHARE / name, name)
    connection = HTTPConnection("engine", timeout=120)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(SOCKET)
    connection.request("POST", f"/v1.40/build?t={IMAGE}&version=1", context.getvalue(),
                       {"Content-Type": "application/x-tar"})
    reply = connection.getresponse()
    text = reply.read().decode("utf-8", "replace")
    connection.close()
    if reply.status != 200 or "Successfully tagged" not in text:
        raise RuntimeError(text[-500:])


class Remote(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build_image()
        cls.folder = tempfile.mkdtemp(prefix="bailey-remote.")
        tlsproxy.make_certificates(cls.folder, name="localhost")
        for ours, docker in (("client.pem", "cert.pem"), ("client.key", "key.pem")):
            shutil.copy(os.path.join(cls.folder, ours), os.path.join(cls.folder, docker))
        cls.tls = tlsproxy.TlsProxy(SOCKET, cls.folder)
        cls.plain = tlsproxy.TlsProxy(SOCKET, plain=True)

    @classmethod
    def tearDownClass(cls):
        cls.tls.close()
        cls.plain.close()
        shutil.rmtree(cls.folder)
        tree.engine.request("DELETE", f"/images/{IMAGE}")

    def tree(self, **env):
        made = tree.Tree(env={"SANDBOX_IMAGE": IMAGE, **env})
        self.addCleanup(made.__exit__, None, None, None)
        return made.__enter__()

    def runs(self, **env):
        server = self.tree(**env)
        for language, code in (("bash", "echo 42"), ("python", "print(6 * 7)"),
                               ("node", "console.log(6 * 7)")):
            with self.subTest(language):
                result = server.run(language, code)
                self.assertEqual((result["status"], result["stdout"]), ("ok", "42\n"), result)
        self.assertIn("The engine is remote: processor files are not bound", "\n".join(server.health()["warnings"]))
        result = server.run("bash", "sleep 60", timeout_seconds=1)
        self.assertEqual(result["status"], "timed_out", result)

    def test_plain(self):
        self.runs(DOCKER_HOST=f"tcp://127.0.0.1:{self.plain.port}")

    def test_tls_by_name(self):
        self.runs(DOCKER_HOST=f"tcp://localhost:{self.tls.port}", DOCKER_TLS_VERIFY="1",
                  DOCKER_CERT_PATH=self.folder)

    def test_tls_with_another_ca(self):
        other = os.path.join(self.folder, "other")
        os.makedirs(other)
        for name in ("cert.pem", "key.pem"):
            shutil.copy(os.path.join(self.folder, name), other)
        shutil.copy(os.path.join(self.folder, "other-ca.pem"), os.path.join(other, "ca.pem"))
        server = self.tree(DOCKER_HOST=f"tcp://localhost:{self.tls.port}", DOCKER_TLS_VERIFY="1",
                           DOCKER_CERT_PATH=other)
        result = server.run("bash", "echo never")
        self.assertEqual(result["status"], "engine_unavailable", result)
        self.assertIn("does not verify", result["message"])


if __name__ == "__main__":
    if not HOST.startswith("unix://") or not os.path.exists(SOCKET):
        tap.skip_all("no engine on a unix socket at DOCKER_HOST")
    tap.main()
