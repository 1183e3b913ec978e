#!/usr/bin/env python3
"""`bailey serve` and the real engine: many connections to one unix socket, whom a sandbox belongs to,
what a connection's end ends, `bailey mcp` as a bridge, 1000 idle connections, and stunnel in front."""

import http.client
import json
import os
import pathlib
import pwd
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from serve import MODERN, free_port  # noqa: E402
from tree import BUILD, Tree, engine, users  # noqa: E402


class Served:
    """`bailey serve` with the words given, as a user; its socket in a directory of that user."""

    def __init__(self, test, user=None, env=None, words=()):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="bailey-live."))
        test.addCleanup(shutil.rmtree, self.dir, True)
        self.path = str(self.dir / "mcp.sock")
        environment = {**os.environ, **(env or {})}
        environment.pop("BAILEY_TEST_USER", None)
        extra = {}
        if user:
            entry = pwd.getpwnam(user)
            os.chown(self.dir, entry.pw_uid, entry.pw_gid)
            extra = {"user": entry.pw_uid, "group": entry.pw_gid,
                     "extra_groups": os.getgrouplist(user, entry.pw_gid)}
        words = [word.replace("DIR", str(self.dir)) for word in words] or ["--socket", self.path]
        self.process = subprocess.Popen(
            [str(BUILD / "bin" / "bailey"), "serve", *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=open(self.dir / "log", "wb"), env=environment, **extra)
        test.addCleanup(self.close)
        self.said = self.process.stdout.read().decode().splitlines()
        if not self.said:
            raise AssertionError(self.log())

    def log(self):
        return (self.dir / "log").read_text(encoding="utf-8", errors="replace")

    def children(self, part):
        me = self.process.pid
        found = []
        for word in pathlib.Path(f"/proc/{me}/task/{me}/children").read_text().split():
            try:
                if part in pathlib.Path(f"/proc/{word}/comm").read_text():
                    found.append(int(word))
            except OSError:
                continue
        return found

    def boxes(self):
        return [box for box in engine.boxes(running=True)
                if box["Labels"].get("io.bailey.tree-pid") == str(self.process.pid)]

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        return self.process.returncode


class Raw:
    """JSON-RPC lines on a unix socket, nothing between."""

    def __init__(self, path, initialize=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")
        self.answers = {}  # they may come in any order
        if initialize:
            self.send("initialize", 0, protocolVersion="2025-11-25", capabilities={},
                      clientInfo={"name": "t", "version": "1"})
            assert self.answer(0)["result"]["protocolVersion"] == "2025-11-25"

    def send(self, method, number=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def call(self, number, tool, **arguments):
        self.send("tools/call", number, name=tool, arguments=arguments)

    def answer(self, number):
        while number not in self.answers:
            line = self.lines.readline()
            if not line:
                raise AssertionError("the connection ended")
            message = json.loads(line)
            if "id" in message:
                self.answers[message["id"]] = message
        return self.answers.pop(number)

    def result(self, number):
        return self.answer(number)["result"]["structuredContent"]

    def close(self):
        self.lines.close()
        self.socket.close()


class UnixSocket(unittest.TestCase):
    def test_the_same_ids_at_once(self):
        server = Served(self)
        clients = [Raw(server.path) for _ in range(4)]
        for turn in range(3):
            for who, client in enumerate(clients):
                client.call(7, "execute_code", language="bash", code=f"echo {turn}-{who}")
            for who, client in enumerate(clients):
                self.assertEqual(client.result(7)["stdout"], f"{turn}-{who}\n")
        for client in clients:
            client.close()

    def test_the_end_of_a_connection_is_the_end_of_its_runs(self):
        server = Served(self, env={"BAILEY_POOL": "0"})
        leaving, staying = Raw(server.path), Raw(server.path)
        leaving.call(1, "execute_code", language="bash", code="sleep 60")
        staying.call(1, "execute_code", language="bash", code="sleep 4; echo done")
        until(lambda: len(server.boxes()) == 2, 10)
        time.sleep(0.3)
        leaving.close()
        until(lambda: len(server.boxes()) < 2, 3)  # which of them tells the other's answer
        self.assertEqual(staying.result(1)["stdout"], "done\n")
        staying.close()
        until(lambda: not server.boxes(), 10)

    def test_a_sandbox_follows_its_connection_unless_kept(self):
        server = Served(self)
        first, second = Raw(server.path), Raw(server.path)
        first.call(1, "container_create_sandbox")
        first.call(2, "container_create_sandbox", keep=True)
        gone, kept = first.result(1)["sandbox_id"], first.result(2)["sandbox_id"]
        # one user: both connections see both
        second.call(3, "container_exec_command", sandbox_id=gone, command="echo here")
        self.assertEqual(second.result(3)["stdout"], "here\n")
        first.close()

        def status(number, sandbox):
            second.call(number, "container_exec_command", sandbox_id=sandbox, command="true")
            return second.result(number)["status"]

        until(lambda: status(4, gone) == "not_found", 5)
        self.assertEqual(status(5, kept), "ok")
        second.close()

    def test_a_killed_frontend_costs_its_connection_alone(self):
        server = Served(self)
        first = Raw(server.path)
        first.call(1, "execute_code", language="bash", code="sleep 20")
        victim = until(lambda: server.children("bailey-front"), 3)
        second = Raw(server.path)
        os.kill(victim[0], signal.SIGKILL)
        self.assertEqual(first.lines.readline(), b"")
        second.call(1, "execute_code", language="bash", code="echo fine")
        self.assertEqual(second.result(1)["stdout"], "fine\n")
        first.close()
        second.close()

    def test_a_killed_broker_is_wired_to_every_connection(self):
        server = Served(self)
        clients = [Raw(server.path) for _ in range(5)]
        os.kill(until(lambda: server.children("bailey-broker"), 3)[0], signal.SIGKILL)
        for who, client in enumerate(clients):
            client.call(1, "execute_code", language="bash", code=f"echo {who}")
        for who, client in enumerate(clients):
            self.assertEqual(client.result(1)["stdout"], f"{who}\n")
            client.close()

    def test_what_a_killed_broker_lost_is_logged_and_counted(self):
        """By the next broker and by the reaper, each run and each box once."""
        server = Served(self)
        client = Raw(server.path)
        client.call(1, "execute_code", language="bash", code="sleep 20")
        client.call(2, "container_create_sandbox")
        client.result(2)
        until(lambda: "event=box_warm" in server.log(), 20)
        boxes = {box["Names"][0].rsplit("-", 1)[-1] for box in server.boxes()}
        until(lambda: self.status(server)["load"]["in_flight"] == 1, 5)
        os.kill(server.children("bailey-broker")[0], signal.SIGKILL)
        lost = client.result(1)
        self.assertEqual(lost["status"], "lost")
        lines = until(lambda: re.findall("event=run_ended run=(.*) box=([1-9].*) status=lost", server.log()), 10)
        self.assertEqual([run for run, _ in lines], [lost["run_id"]])
        until(lambda: f"event=box_gone box={lines[0][1]} cause=broker_gone" in server.log(), 10)
        client.call(3, "container_list_sandboxes")
        self.assertEqual(len(client.result(3)["sandboxes"]), 1)
        until(lambda: server.log().count("cause=broker_gone") >= len(boxes) - 1, 10)
        gone = re.findall("event=box_gone box=(.*) cause=broker_gone", server.log())
        self.assertEqual(len(gone), len(set(gone)))
        counters = until(lambda: self.counted(server, ended_broker_gone=len(gone), runs_lost=1), 5)
        self.assertEqual(counters["ended_died"], 0)
        client.close()

    def test_what_a_stop_ends_is_logged_as_that(self):
        """Waiting sandboxes, one that stays and one with a run, each once; about 3 s."""
        server = Served(self)
        client = Raw(server.path)
        client.call(1, "container_create_sandbox")
        sandbox = client.result(1)["sandbox_id"]
        client.call(2, "container_create_sandbox", keep=True)
        client.result(2)
        client.call(3, "execute_code", language="bash", code="sleep 20")
        until(lambda: (load := self.status(server)["load"])["in_flight"] == 1 and load["boxes"] > 3, 20)
        boxes = self.status(server)["load"]["boxes"]
        self.assertEqual(server.close(), 0)
        self.assertEqual(client.result(3)["status"], "cancelled")
        client.close()
        self.assertIn(f"event=sandbox_ended sandbox={sandbox} ", server.log())
        causes = re.findall("event=(box_gone|sandbox_ended) .*cause=([^ ]*)", server.log())
        self.assertEqual(sorted(set(causes)), [("box_gone", "stopped"), ("sandbox_ended", "stopped")], server.log())
        self.assertGreaterEqual(len(causes), boxes + 2)

    def status(self, server):
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(server.path + ".status")
            return json.load(asked.makefile())

    def counted(self, server, **numbers):
        counters = self.status(server)["counters"]
        return counters if all(counters[name] == n for name, n in numbers.items()) else None

    @unittest.skipUnless(os.geteuid() == 0 and os.environ.get("BAILEY_TEST_USER"),
                         "needs root and BAILEY_TEST_USER")
    def test_owners_are_the_users_at_the_other_end(self):
        user = os.environ["BAILEY_TEST_USER"]
        server = Served(self, user)
        words = ("--socket", server.path)
        with Tree(user=user, arguments=words) as theirs, Tree(arguments=words) as ours:
            box = Sandbox(theirs)
            self.assertEqual(box.run("echo x")["stdout"], "x\n")
            # root may open the socket, and owns nothing in there
            self.assertEqual(ours.call("container_list_sandboxes", {})["sandboxes"], [])
            foreign = ours.call("container_exec_command", {"sandbox_id": box.id, "command": "true"})
            self.assertEqual(foreign["status"], "not_found")
            self.assertEqual(len(theirs.call("container_list_sandboxes", {})["sandboxes"]), 1)
        # and a socket of root's is not for others
        server = Served(self)
        server.dir.chmod(0o755)
        done = subprocess.run([str(BUILD / "bin" / "bailey"), "mcp", "--socket", server.path],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False,
                              user=pwd.getpwnam(user).pw_uid, group=pwd.getpwnam(user).pw_gid)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"is not open to this user", done.stderr)

    def test_one_owner_leaves_memory_to_the_others(self):
        user = os.environ["BAILEY_TEST_USER"]
        server = Served(self, user)
        words = ("--socket", server.path)
        with Tree(user=user, arguments=words) as theirs, Tree(arguments=words) as ours:
            health = theirs.health()
            usage, most = health["usage"], health["limits"]["memory_max_bytes"]
            self.assertEqual(usage["own_memory_max_bytes"], usage["memory_max_bytes"] // 2)
            room = usage["own_memory_max_bytes"] // most
            if room >= usage["sandboxes_max"]:
                self.skipTest("this host's memory is more than one owner's sandboxes can hold")
            for _ in range(room):
                Sandbox(theirs, memory_mb=most >> 20)
            refused = theirs.call("container_create_sandbox", {"memory_mb": most >> 20})
            self.assertEqual(refused["status"], "busy")
            self.assertIn("Your sandboxes that stay", refused["message"])
            self.assertGreater(refused["retry_after_ms"], 0)
            self.assertEqual(theirs.health()["usage"]["own_memory_bytes"], room * most)
            self.assertEqual(ours.health()["usage"]["own_memory_bytes"], 0)
            Sandbox(ours, memory_mb=most >> 20)

    @unittest.skipUnless(os.geteuid() == 0, "needs root: memory of undumpable processes")
    def test_a_thousand_idle_connections(self):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most), most))
        server = Served(self, env={"BAILEY_CONNECTIONS_USER": "1024"})
        idle = []
        end = time.monotonic() + 60
        while len(idle) < 1000:
            client = Raw(server.path, initialize=False)
            try:
                client.send("ping", 1)
                client.answer(1)
                idle.append(client)
            except (AssertionError, OSError):  # faster than they are taken
                client.close()
                self.assertLess(time.monotonic(), end, len(idle))
                time.sleep(0.5)
        frontends = server.children("bailey-front")
        self.assertEqual(len(frontends), 1000)
        total = sum(self.pss_kib(pid) for pid in frontends)
        print(f"1000 idle frontends: {total // 1024} MiB; supervisor: "
              f"{self.pss_kib(server.process.pid)} KiB")
        self.assertLess(total, 512 * 1024)
        self.assertLess(self.pss_kib(server.process.pid), 8 * 1024)
        # work goes on beside them, and a new broker is wired to each
        os.kill(server.children("bailey-broker")[0], signal.SIGKILL)
        for number in (0, 500, 999):
            idle[number].call(2, "execute_code", language="bash", code="echo beside")
            self.assertEqual(idle[number].result(2)["stdout"], "beside\n")
        self.assertEqual(server.children("bailey-front"), frontends)
        for client in idle:
            client.close()
        until(lambda: not server.children("bailey-front"), 5)

    @staticmethod
    def pss_kib(pid):
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE).group(1))


class Bridge(unittest.TestCase):
    def test_what_was_asked_before_the_end_of_input_is_not_cut(self):
        server = Served(self)
        bridge = subprocess.Popen([str(BUILD / "bin" / "bailey"), "mcp", "--socket", server.path],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        bridge.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        bridge.stdin.flush()
        self.assertEqual(json.loads(bridge.stdout.readline()),
                         {"jsonrpc": "2.0", "id": 1, "result": {}})
        bridge.stdin.close()
        self.assertEqual(bridge.wait(5), 0)
        bridge.stdout.close()
        until(lambda: not server.children("bailey-front"), 2)

    def test_the_end_of_the_daemon(self):
        server = Served(self)
        bridge = subprocess.Popen([str(BUILD / "bin" / "bailey"), "mcp", "--socket", server.path],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        bridge.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        bridge.stdin.flush()
        bridge.stdout.readline()
        self.assertEqual(server.close(), 0)
        self.assertEqual(bridge.wait(5), 1)
        self.assertIn(b"the daemon closed the connection", bridge.stderr.read())
        for end in (bridge.stdin, bridge.stdout, bridge.stderr):
            end.close()

    def test_large_messages_both_ways(self):
        server = Served(self)
        with Tree(arguments=("--socket", server.path)) as tree:
            text = "x" * 1_000_000
            done = tree.run("python", "import sys; d = sys.stdin.read(); print(len(d)); print(d[:20000])",
                            stdin=text)
            self.assertEqual(done["stdout"], "1000000\n" + text[:20000] + "\n")


@unittest.skipUnless(os.geteuid() == 0, "needs root: /run/bailey in a mount namespace of its own")
class InstalledDaemon(unittest.TestCase):
    """/run/bailey/mcp.sock is there: nothing private is started beside it."""

    def alone(self, script):
        """Runs a shell script that sees a /run/bailey of its own; $1 is bailey."""
        made = not os.path.isdir("/run/bailey")
        if made:
            os.mkdir("/run/bailey", 0o755)
        try:
            return subprocess.run(
                ["unshare", "--mount", "sh", "-ec", "mount -t tmpfs -o mode=0755 none /run/bailey\n" + script,
                 "sh", str(BUILD / "bin" / "bailey")], capture_output=True, text=True, timeout=60, check=False,
                stdin=subprocess.DEVNULL)
        finally:
            if made:
                os.rmdir("/run/bailey")

    def test_that_runs(self):
        done = self.alone("""
            "$1" serve --socket /run/bailey/mcp.sock >/run/bailey/said &
            until grep -q listening /run/bailey/said; do sleep 0.05; done
            echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | "$1" mcp
            echo 'echo ran' | "$1" run -l bash -
            kill $!
            wait $!
        """)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('{"jsonrpc":"2.0","id":1,"result":{}}\nran\n', done.stdout)

    def test_that_does_not_answer(self):
        done = self.alone("""
            "$1" serve --socket /run/bailey/mcp.sock >/run/bailey/said &
            until grep -q listening /run/bailey/said; do sleep 0.05; done
            kill -9 $!
            wait $! || true
            echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | "$1" mcp && exit 9
            echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | "$1" mcp --private
        """)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no daemon answers at /run/bailey/mcp.sock", done.stderr)
        # and the one that was asked for by name is the only answer
        self.assertEqual(done.stdout, '{"jsonrpc":"2.0","id":1,"result":{}}\n')


class Tls(unittest.TestCase):
    @unittest.skipUnless(any(os.access(p, os.X_OK) for p in ("/usr/bin/stunnel4", "/usr/bin/stunnel")),
                         "stunnel4 is not installed")
    @unittest.skipUnless(os.geteuid() == 0, "needs root: children of undumpable processes")
    def test_stunnel_in_front(self):
        for user in users():
            with self.subTest(user=user or "self"):
                self.in_front(user)

    def in_front(self, user):
        certs = pathlib.Path(tempfile.mkdtemp(prefix="bailey-certs."))
        self.addCleanup(shutil.rmtree, certs)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out",
                        "cert.pem"], check=True, cwd=certs, capture_output=True)
        (certs / "key.pem").chmod(0o600)
        made = subprocess.run([str(BUILD / "bin" / "bailey"), "token", "add", "ann", "--tokens",
                               str(certs / "tokens")], check=True, capture_output=True, text=True)
        token = made.stdout.strip().splitlines()[-1].strip()
        if user:
            subprocess.run(["chown", "-R", user, str(certs)], check=True)
        port = free_port()
        server = Served(self, user, words=("--http", "127.0.0.1:0", "--tokens", str(certs / "tokens"),
                                     "--tls", str(certs / "cert.pem"), str(certs / "key.pem"),
                                     "--tls-listen", f"127.0.0.1:{port}"))
        self.assertEqual(server.said[1], f"listening on https://127.0.0.1:{port}/mcp")
        context = ssl.create_default_context(cafile=str(certs / "cert.pem"))

        def ask():
            connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                    "params": {"name": "execute_code", "arguments": {"language": "bash", "code": "echo tls"},
                               "_meta": {"io.modelcontextprotocol/protocolVersion": MODERN,
                                         "io.modelcontextprotocol/clientCapabilities": {}}}}
            connection.request("POST", "/mcp", json.dumps(body), {
                "Authorization": f"Bearer {token}", "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN,
                "Mcp-Method": "tools/call", "Mcp-Name": "execute_code"})
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            return answer.status, text

        def answered():
            try:
                return ask()
            except OSError:
                return None

        status, text = until(answered, 10)
        self.assertEqual(status, 200, text)
        self.assertIn("tls\\n", text)
        # stunnel alone holds the key, as a user of its own; what ends it starts it again
        keeper = pathlib.Path(f"/proc/{self.keeper(server)}/task/{self.keeper(server)}/children")
        pid = int(keeper.read_text().split()[0])
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        self.assertNotIn("0", status["Uid"].split())
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16), int(status["CapPrm"], 16)),
                         ("1", "2", 0, 0))
        secret = self.private_key(certs / "key.pem")
        self.assertTrue(self.holds(pid, secret))
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost"):
            until(lambda: len(server.children("bailey-front")) == 1, 5)
            for ours in {server.process.pid, self.keeper(server), *server.children("bailey")}:
                self.assertFalse(self.holds(ours, secret), ours)
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        self.assertRegex(limits, r"Max core file size +0 +0")
        self.assertRegex(limits, r"Max open files +4096 +4096")
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(until(answered, 10)[0], 200)
        again = int(keeper.read_text().split()[0])
        self.assertNotEqual(again, pid)
        # a supervisor that is killed takes it along
        server.process.kill()
        until(lambda: not os.path.exists(f"/proc/{again}"), 3)

    @staticmethod
    def private_key(path):
        """Forms in which a process can hold the key: of the file, of the number in either order."""
        text = subprocess.run(["openssl", "ec", "-in", str(path), "-text", "-noout"], check=True, capture_output=True, text=True).stdout
        number = bytes.fromhex(re.sub(r"[\s:]", "", text.split("priv:")[1].split("pub:")[0])).lstrip(b"\0")
        return [path.read_bytes().splitlines()[1], number, number[::-1]]

    @staticmethod
    def holds(pid, secret):
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                if line.split()[1].startswith("rw"):
                    try:
                        memory.seek(start)
                        data = memory.read(end - start)
                    except OSError:
                        continue
                    if any(form in data for form in secret):
                        return True
        return False

    @staticmethod
    def keeper(server):
        """The child that runs the supervisor's own program."""
        me = server.process.pid
        mine = os.readlink(f"/proc/{me}/exe")
        for word in pathlib.Path(f"/proc/{me}/task/{me}/children").read_text().split():
            if os.readlink(f"/proc/{word}/exe") == mine:
                return int(word)
        raise AssertionError("no keeper")


if __name__ == "__main__":
    tap.main()
