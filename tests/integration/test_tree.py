#!/usr/bin/env python3
"""The process tree: start, rights, the end of each process, and that nothing stays behind.

baileyd and bailey-reaper are the real ones; frontend and broker are tests/fakes/fake_child.c,
so no engine is needed. Everything runs once as root, with ids of its own for each process, and
once as the plain user named by BAILEY_TEST_USER (or as whoever runs the test).
"""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import pace  # noqa: E402
import tap  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BAILEY_BUILD", "build/dev"))
CAP_KILL = 1 << 5


def wait_for(what, seconds, message):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.005)
    raise AssertionError(message)


def status_of(pid):
    fields = {}
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        for line in lines:
            key, _, value = line.partition(":")
            fields[key] = value.strip()
    return fields


class Tree:
    """One baileyd in a directory of its own, spoken to as its client would."""

    def __init__(self, directory, user=None, env=None, **popen):
        self.bin = directory / "bin"
        words = [str(self.bin / "baileyd"), "--private", "--stdio"]
        self.log_path = directory / f"log-{time.monotonic_ns()}"
        if user is not None:
            entry = pwd.getpwnam(user)
            popen.update(user=entry.pw_uid, group=entry.pw_gid, extra_groups=[])
        clean = {"PATH": "/usr/bin:/bin", "DOCKER_HOST": "unix:///nowhere/docker.sock"}
        # what the pass "perturb" sets is for these processes
        clean.update((k, v) for k, v in os.environ.items() if k.startswith(("GLIBC_", "MALLOC_")))
        clean.update(env or {})
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, env=clean, cwd="/", **popen)

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self):
        """The next line that is not about a replaced link."""
        while True:
            line = self.process.stdout.readline().decode().strip()
            if line != "peer":
                return line

    def ask(self, number, seconds=5):
        """Round trip client - frontend - broker - reaper and back; a question that was under
        way when a process died is lost, so it is asked again."""
        os.set_blocking(self.process.stdout.fileno(), False)
        try:
            text = b""
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self.say(f"ask {number}")
                time.sleep(0.02)
                text += self.process.stdout.read() or b""
                if f"answered {number}\n".encode() in text:
                    return text
            raise AssertionError(f"no answer: {text!r}\n{self.log()}")
        finally:
            os.set_blocking(self.process.stdout.fileno(), True)

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def processes(self):
        """Every process that runs a program of this tree: {name: [pid]}."""
        found = {}
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                path = os.readlink(f"/proc/{entry}/exe")
                state = pathlib.Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if path.startswith(str(self.bin) + "/") and state != "Z":
                found.setdefault(os.path.basename(path), []).append(int(entry))
        return found

    def pid(self, name, old=None):
        def one():
            pids = [p for p in self.processes().get(name, []) if p != old]
            return pids[0] if pids else None
        return wait_for(one, 8, f"no {name}:\n{self.log()}")

    def fds(self, name):
        return len(os.listdir(f"/proc/{self.pid(name)}/fd"))

    def nothing_left(self, seconds):
        if not pace.until(lambda: not self.processes(), seconds):
            raise AssertionError(f"left: {self.processes()}\n{self.log()}")

    def ended(self, seconds=3):
        """The exit code; that long is forgiven what the machine was late."""
        if pace.until(lambda: self.process.poll() is not None, seconds):
            return self.process.returncode
        raise AssertionError(f"does not end:\n{self.log()}")

    def end(self, seconds=3):
        """The client closes its end; the exit code."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            code = self.ended(seconds)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        return code


def installed(case, prefix):
    """The directory of an installation with fake_child for frontend and broker; it goes with the case."""
    if not (BUILD / "bin" / "baileyd").exists():
        case.skipTest(f"no programs in {BUILD}")
    directory = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    case.addCleanup(shutil.rmtree, directory)
    (directory / "bin").mkdir()
    (directory / "share" / "box").mkdir(parents=True)
    (directory / "share" / "box" / "init").touch(mode=0o755)
    for name in ("baileyd", "bailey-reaper"):
        shutil.copy(BUILD / "bin" / name, directory / "bin" / name)
    for name in ("bailey-frontend", "bailey-broker"):
        shutil.copy(BUILD / "tests" / "fake_child", directory / "bin" / name)
    return directory


class TreeCase:
    """What holds for both ways to run; the two classes below choose the user."""

    user = None

    def setUp(self):
        self.directory = installed(self, "bailey-tree.")
        if self.user is not None:
            subprocess.run(["chmod", "-R", "a+rX", str(self.directory)], check=True)

    def start(self, env=None):
        tree = Tree(self.directory, self.user, env)
        self.addCleanup(tree.process.kill)
        self.tree = tree
        return tree

    def sanitized(self):
        """Sanitizer builds come without filters."""
        return b"__asan_init" in (self.directory / "bin" / "baileyd").read_bytes()

    def started(self, env=None):
        tree = self.start(env)
        tree.ask(1)
        return tree

    def test_first_answer_comes_at_once(self):
        with pace.within(self, 1.0, "the first answer"):
            tree = self.start()
            tree.say("ping")
            self.assertEqual(tree.hear(), "pong")
        self.assertEqual(tree.end(), 0)
        tree.nothing_left(1)

    def test_every_link_works(self):
        tree = self.started()
        self.assertEqual(tree.end(), 0)
        tree.nothing_left(1)

    def test_client_descriptors_belong_to_the_frontend(self):
        tree = self.started()
        pipes = {os.readlink(f"/proc/self/fd/{f.fileno()}")
                 for f in (tree.process.stdin, tree.process.stdout)}
        for name, (pid,) in tree.processes().items():
            held = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            self.assertEqual(pipes <= held, name == "bailey-frontend", f"{name}: {held}")
            self.assertFalse(name != "bailey-frontend" and pipes & held, f"{name}: {held}")
        tree.end()

    def test_every_process_is_confined(self):
        tree = self.started()
        for name, (pid,) in tree.processes().items():
            with self.subTest(name=name):
                fields = status_of(pid)
                self.assertEqual(fields["NoNewPrivs"], "1")
                self.assertEqual(fields["Seccomp"], "0" if self.sanitized() else "2")
                self.assertEqual(fields["CapAmb"].strip("0"), "")
                self.check_ids(name, fields)
        tree.end()

    def test_broker_killed(self):
        tree = self.started()
        frontend = tree.pid("bailey-frontend")
        others = ("baileyd", "bailey-frontend", "bailey-reaper")
        before = [tree.fds(name) for name in others]
        old = None
        for number in range(2, 6):
            old = tree.pid("bailey-broker", old)
            os.kill(old, signal.SIGKILL)
            tree.ask(number)
        self.assertEqual(tree.pid("bailey-frontend"), frontend)
        self.assertEqual([tree.fds(name) for name in others], before)
        self.assertEqual(tree.end(), 0)
        tree.nothing_left(1)

    def test_reaper_killed(self):
        tree = self.started()
        broker = tree.pid("bailey-broker")
        others = ("baileyd", "bailey-frontend", "bailey-broker")
        before = [tree.fds(name) for name in others]
        old = None
        for number in range(2, 6):
            old = tree.pid("bailey-reaper", old)
            os.kill(old, signal.SIGKILL)
            tree.ask(number)
        self.assertEqual(tree.pid("bailey-broker"), broker)
        self.assertEqual([tree.fds(name) for name in others], before)
        self.assertEqual(tree.end(), 0)
        tree.nothing_left(1)

    def test_broker_and_reaper_killed_together(self):
        tree = self.started()
        for number in range(2, 5):
            for name in ("bailey-broker", "bailey-reaper"):
                os.kill(tree.pid(name), signal.SIGKILL)
            tree.ask(number)
        self.assertEqual(tree.end(), 0)
        tree.nothing_left(1)

    def test_frontend_killed_ends_the_tree(self):
        tree = self.started()
        os.kill(tree.pid("bailey-frontend"), signal.SIGKILL)
        self.assertEqual(tree.ended(), 128 + signal.SIGKILL)
        tree.nothing_left(1)
        tree.end()

    def test_supervisor_killed_ends_everything(self):
        tree = self.started()
        os.kill(tree.process.pid, signal.SIGKILL)
        tree.nothing_left(1)
        tree.end()

    def test_all_killed_at_once(self):
        tree = self.started()
        for pids in tree.processes().values():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        tree.nothing_left(1)
        tree.end()

    def test_killed_right_after_its_start(self):
        for delay_ms in (0, 1, 2, 3, 5, 8, 12, 20, 20, 20, 30):
            with self.subTest(delay_ms=delay_ms):
                tree = self.start()
                time.sleep(delay_ms / 1000)
                os.kill(tree.process.pid, signal.SIGKILL)
                tree.nothing_left(1)
                tree.end()

    def test_asked_to_end(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number.name):
                tree = self.started()
                os.kill(tree.process.pid, number)
                self.assertEqual(tree.ended(), 0)
                tree.nothing_left(1)
                tree.end()

    def test_exit_code_is_never_mistaken(self):
        """A process that ends closes its link before its exit is seen."""
        for _ in range(30):
            tree = self.start()
            tree.say("exit 5")
            self.assertEqual(tree.ended(), 5, tree.log())
            tree.end()

    def test_exit_code_of_the_frontend(self):
        tree = self.started()
        tree.say("exit 7")
        self.assertEqual(tree.ended(), 7)
        tree.nothing_left(1)
        tree.end()

    def test_child_that_does_not_stop_is_killed(self):
        tree = self.started()
        os.kill(tree.pid("bailey-broker"), signal.SIGSTOP)
        with pace.within(self, 2.5, "the end"):
            self.assertEqual(tree.end(), 0)
        tree.nothing_left(1)

    def test_broker_that_cannot_start_is_tried_with_pauses(self):
        shutil.copy("/bin/false", self.directory / "bin" / "bailey-broker")
        began = time.monotonic()
        tree = self.start()
        tree.say("ping")
        self.assertEqual(tree.hear(), "pong")

        def tries():
            return tree.log().count("event=child_ended process=bailey-broker ")

        # two at once, then with 0.1, 0.2, 0.4, 0.8 s between them: the fifth comes after 0.7 s
        wait_for(lambda: tries() >= 5, 30, "not tried again")
        self.assertGreater(time.monotonic() - began, 0.7)
        seen = tries()
        self.assertTrue(seen == 5 or time.monotonic() - began > 1.5, seen)
        self.assertEqual(tree.end(), 0)
        tree.nothing_left(1)

    def test_settings_reach_the_children(self):
        tree = self.started({"SANDBOX_IMAGE": "my/image:1", "MAX_CPU_CORES": "1.5",
                             "MAX_MEMORY_MB": "256", "EXEC_TIMEOUT_SEC": "20",
                             "DOCKER_HOST": "tcp://127.0.0.1:1"})
        log = tree.log()
        self.assertIn("settings image=my/image:1 cpus=1500 memory=268435456 timeout=20000", log)
        self.assertIn("engine kind=2 path= host=127.0.0.1 address=127.0.0.1 port=1 pem=0", log)
        self.assertEqual(tree.end(), 0)

    def test_bad_environment(self):
        rows = {
            "SANDBOX_IMAGE": ["-x", "a b", "x" * 300, "/etc"],
            "MAX_CPU_CORES": ["0", "x", "-1", "1.0000", "1e3", "513", "0.05", "."],
            "MAX_MEMORY_MB": ["31", "", "1.5", "99999999999999999999", "4g"],
            "EXEC_TIMEOUT_SEC": ["0", "301", "ten", "+5"],
            "DOCKER_HOST": ["ssh://host", "unix://docker.sock", "tcp://", "tcp://a b:1",
                            "tcp://host:70000", "unix:///" + "x" * 200],
            "BAILEY_POOL": ["2", "yes"],
            "BAILEY_SHARE_DIR": ["relative"],
        }
        for name, values in rows.items():
            for value in values:
                if value == "":
                    continue
                with self.subTest(name=name, value=value[:20]):
                    tree = self.start({name: value})
                    self.assertEqual(tree.ended(), 2)
                    lines = tree.log().splitlines()
                    self.assertEqual(len(lines), 1, lines)
                    self.assertIn(name, lines[0])
                    self.assertIn("must be", lines[0] if name != "DOCKER_HOST" else "must be")
                    tree.end()

    def test_program_missing(self):
        (self.directory / "bin" / "bailey-reaper").unlink()
        tree = self.start()
        self.assertEqual(tree.ended(), 1)
        self.assertIn("bailey-reaper", tree.log())
        self.assertEqual(len(tree.log().splitlines()), 1)
        tree.end()

    def test_tls_files(self):
        certs = self.directory / "certs"
        certs.mkdir()
        env = {"DOCKER_HOST": "tcp://127.0.0.1", "DOCKER_TLS_VERIFY": "1",
               "DOCKER_CERT_PATH": str(certs)}
        tree = self.start(env)
        self.assertEqual(tree.ended(), 2)
        self.assertIn("ca.pem", tree.log())
        tree.end()
        for name in ("ca.pem", "cert.pem", "key.pem"):
            (certs / name).write_bytes(b"x" * (40000 if name == "ca.pem" else 100))
            (certs / name).chmod(0o644)
        certs.chmod(0o755)
        tree = self.started(env)
        log = tree.log()
        self.assertIn("engine kind=3 path= host=127.0.0.1 address=127.0.0.1 port=2376 pem=4", log)
        for part in ("which=1 bytes=32768", "which=1 bytes=7232", "which=2 bytes=100",
                     "which=3 bytes=100"):
            self.assertIn("pem " + part, log)
        self.assertEqual(tree.end(), 0)


@unittest.skipIf(os.geteuid() != 0, "needs root")
class RootTree(TreeCase, unittest.TestCase):

    def check_ids(self, name, fields):
        uids = fields["Uid"].split()
        self.assertEqual(len(set(uids)), 1)
        self.assertNotEqual(uids[0], "0")
        self.assertNotIn("0", fields["Gid"].split())
        caps = int(fields["CapPrm"], 16)
        expected = {"baileyd": 0xe0, "bailey-reaper": CAP_KILL}.get(name, 0)
        self.assertEqual(caps, expected)
        if name != "bailey-broker":
            self.assertEqual(fields["Groups"], "")

    def test_ids_are_all_different(self):
        tree = self.started()
        seen = [status_of(pid)["Uid"].split()[0] for (pid,) in tree.processes().values()]
        self.assertEqual(len(set(seen)), 4, seen)
        tree.end()

    def test_broker_has_the_socket_group(self):
        import socket
        path = self.directory / "engine.sock"
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(str(path))
        os.chown(path, 0, 4242)
        tree = self.started({"DOCKER_HOST": f"unix://{path}"})
        self.assertEqual(status_of(tree.pid("bailey-broker"))["Groups"], "4242")
        self.assertEqual(status_of(tree.pid("bailey-frontend"))["Groups"], "")
        tree.end()


class PlainTree(TreeCase, unittest.TestCase):

    def setUp(self):
        if os.geteuid() == 0:
            self.user = os.environ.get("BAILEY_TEST_USER")
            if not self.user:
                self.skipTest("BAILEY_TEST_USER is not set")
        super().setUp()

    def check_ids(self, name, fields):
        self.assertEqual(int(fields["CapPrm"], 16), 0)
        self.assertNotIn("0", fields["Uid"].split())

    def test_layers_are_reported(self):
        tree = self.started()
        wait_for(lambda: tree.log().count("layers role=") >= 4, 3, tree.log())
        tree.end()


if __name__ == "__main__":
    tap.main()
