#!/usr/bin/env python3
"""What is tried inside the virtual machine, started by systemd when its engine is up: First at the first
boot, Second after the power was cut under live sandboxes (boots.py). Everything takes seconds here,
so limits are wide; what is short on a real machine is tested there.
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import tap  # noqa: E402
from sandbox import Sandbox, until  # noqa: E402
from tree import Tree, engine  # noqa: E402

IMAGE_TAR = pathlib.Path("/opt/bailey/image.tar")
BEFORE = pathlib.Path("/var/lib/bailey-vm.json")  # what the first boot left, for the second
SLOW = 300  # seconds a call may take here
FOREIGN = "bailey-vm-foreign"
LEFT = "bailey-vm-left"
LIVE = 3
PLAIN = "bailey-plain"


def words(name):
    with open("/proc/cmdline", encoding="ascii") as line:
        return [word.split("=", 1)[1] for word in line.read().split() if word.startswith(name + "=")]


def docker(*arguments):
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=SLOW, check=False)
    if done.returncode != 0:
        raise AssertionError(f"docker {arguments}: {done.stderr}")
    return done.stdout.strip()


def pid_of(box):
    return engine.request("GET", f"/containers/{box['Id']}/json")[1]["State"]["Pid"]


class First(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = Tree(env={"BAILEY_POOL": "0"})

    @classmethod
    def tearDownClass(cls):
        cls.tree.close(SLOW)

    def run_python(self, code, **arguments):
        return self.tree.run("python", code, timeout=SLOW, **{"timeout_seconds": 120, **arguments})

    def test_surroundings(self):
        """Else the rest proves less than it says."""
        self.assertTrue(pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists())
        self.assertEqual(pathlib.Path("/sys/module/apparmor/parameters/enabled").read_text().strip(), "Y")
        info = engine.request("GET", "/info")[1]
        self.assertEqual((info["CgroupVersion"], info["CgroupDriver"]), ("2", "systemd"), info)
        self.assertIn("name=apparmor", info["SecurityOptions"])
        print("engine", info["ServerVersion"], "kernel", info["KernelVersion"])

    def test_three_languages(self):
        for language, code in (("python", "print(6 * 7)"), ("bash", "echo $((6 * 7))"), ("node", "console.log(6 * 7)")):
            with self.subTest(language=language):
                r = self.tree.run(language, code, timeout=SLOW, timeout_seconds=120)
                self.assertEqual((r["status"], r["stdout"], r["stderr"]), ("ok", "42\n", ""), r)

    def test_counters(self):
        """The kernel's own figures, from cgroup v2's files."""
        r = self.run_python("import time\nb = bytearray(b'x') * (96 << 20)\nwhile time.process_time() < 1: pass\nprint(len(b))")
        self.assertEqual(r["status"], "ok", r)
        self.assertGreater(r["peak_memory_bytes"], 96 << 20, r)
        self.assertLess(r["peak_memory_bytes"], 512 << 20, r)
        self.assertGreater(r["cpu_ms"], 900, r)

    def test_oom_killed(self):
        r = self.run_python("b = bytearray(b'x') * (1 << 30)", memory_mb=128)
        self.assertEqual(r["status"], "oom_killed", r)
        self.assertIn("memory_mb", r["message"])

    def test_pids_limit(self):
        r = self.run_python("import os, time\nwhile True:\n    if os.fork() == 0: time.sleep(60)\n")
        self.assertEqual(r["status"], "pids_limit", r)

    def test_disk_full(self):
        r = self.tree.run("bash", "head -c 400000000 /dev/zero > big", timeout=SLOW, timeout_seconds=120)
        self.assertEqual(r["status"], "disk_full", r)

    def test_deadline(self):
        """Late by little, counted on the host from where the run began."""
        r = self.tree.run("bash", "sleep 1000 & sleep 1000", timeout=SLOW, timeout_seconds=4)
        self.assertEqual(r["status"], "timed_out", r)
        self.assertGreaterEqual(r["duration_ms"], 3990, r)
        self.assertLess(r["duration_ms"], 10000, r)

    def test_a_sandbox_that_stays(self):
        box = Sandbox(self.tree)
        self.assertEqual(box.call("container_exec_command", SLOW, command="echo one > f; cat f", timeout_seconds=60)["stdout"], "one\n")
        r = box.call("sandbox_eval", SLOW, language="python", code="x = 6\nx * 7", timeout_seconds=120)
        self.assertEqual((r["status"], r["value"]), ("ok", "42"), r)
        self.assertEqual(box.call("container_read_file", SLOW, path="f")["content"], "one\n")
        self.assertEqual(box.call("container_destroy_sandbox", SLOW)["status"], "ok")

    def test_the_box_as_the_host_sees_it(self):
        """AppArmor's profile in force, limits in the files of cgroup v2, none of the host's cgroups inside."""
        others = {b["Id"] for b in self.tree.boxes()}
        box = Sandbox(self.tree, memory_mb=256)
        [pid] = [pid_of(b) for b in self.tree.boxes(running=True) if b["Id"] not in others]
        self.assertEqual(pathlib.Path(f"/proc/{pid}/attr/current").read_text().strip(), "docker-default (enforce)")
        group = pathlib.Path("/sys/fs/cgroup" + pathlib.Path(f"/proc/{pid}/cgroup").read_text().strip().split("::", 1)[1])
        self.assertEqual((group / "memory.max").read_text().strip(), str(256 << 20))
        self.assertEqual((group / "pids.max").read_text().strip(), "64")
        self.assertRegex((group / "cpu.max").read_text(), r"^\d+ \d+$")
        r = box.call("container_exec_command", SLOW, command="cat /proc/self/cgroup; ls /sys/fs/cgroup | head -n 3; mount | grep -c cgroup",
                     timeout_seconds=60)
        self.assertNotIn("docker", r["stdout"], r)
        box.call("container_destroy_sandbox", SLOW)

    def test_plain_user_without_user_namespaces(self):
        """Where the host allows none, the same calls are answered, with a layer less; both are told."""
        subprocess.run(["useradd", "-G", "docker", "-M", "-d", "/tmp", PLAIN], check=True)
        most = pathlib.Path("/proc/sys/user/max_user_namespaces")
        allowed = most.read_text()
        layers = {}
        try:
            for number in (allowed, "0"):
                most.write_text(number)
                with Tree(user=PLAIN, env={"BAILEY_POOL": "0"}) as tree:
                    r = tree.run("bash", "echo x", timeout=SLOW, timeout_seconds=60)
                    self.assertEqual((r["status"], r["stdout"]), ("ok", "x\n"), r)
                    rows = tree.call("check_sandbox_health", {}, SLOW)["processes"]
                    layers[number] = {row["name"]: row["layers"] for row in rows}
                    tree.close(SLOW)
        finally:
            most.write_text(allowed)
        print(json.dumps(layers))
        self.assertIn("namespaces", layers[allowed]["broker"])
        self.assertNotIn("namespaces", layers["0"]["broker"])
        self.assertIn("seccomp", layers["0"]["broker"])

    def test_health(self):
        health = self.tree.call("check_sandbox_health", {}, SLOW)
        self.assertEqual((health["status"], health["engine"]["cgroup_version"]), ("ok", 2), health)
        self.assertFalse([w for w in health["warnings"] if "AppArmor" in w], health)
        print(json.dumps(health["warnings"]), json.dumps(health["processes"]))


def leave_live():
    """Sandboxes with a command each, one with their labels that the engine will not remove by itself when it
    starts, and a container that is not ours. Written out to the disk: a cut that takes the engine's memory
    of them too would leave nothing to look for."""
    tree = Tree(env={"BAILEY_POOL": "0"})
    boxes = [Sandbox(tree, memory_mb=256) for _ in range(LIVE)]
    for box in boxes:
        box.start("echo begun > f; sleep 1000", timeout_seconds=300)
        until(lambda: box.call("container_read_file", SLOW, path="f").get("content") == "begun\n", SLOW)
    docker("create", "--name", FOREIGN, "bailey/sandbox:slim", "true")
    until(lambda: len(tree.boxes(running=True)) == LIVE, SLOW)
    live = tree.boxes()
    status, left = engine.request("POST", f"/containers/create?name={LEFT}", {"Image": "bailey/sandbox:slim", "Cmd": ["true"], "Labels": live[0]["Labels"]})
    assert status == 201, left
    BEFORE.write_text(json.dumps({"live": [box["Id"] for box in live], "left": left["Id"]}))
    os.sync()
    print("# live, cut the power", flush=True)
    time.sleep(1000)  # for the cut


class Second(unittest.TestCase):
    def test_what_the_former_boot_left(self):
        """Nothing of it runs, and what the engine did not remove itself goes by its label at the first call;
        what is not ours stays."""
        before = json.loads(BEFORE.read_text())
        self.assertEqual(len(before["live"]), LIVE)
        self.assertEqual(engine.boxes(running=True), [])
        self.assertIn(before["left"], {box["Id"] for box in engine.boxes()})
        with Tree(env={"BAILEY_POOL": "0"}) as tree:
            r = tree.run("bash", "echo again", timeout=SLOW, timeout_seconds=120)
            self.assertEqual((r["status"], r["stdout"]), ("ok", "again\n"), r)
            until(lambda: not engine.boxes(), 60)
            tree.close(SLOW)
        self.assertEqual(docker("ps", "-a", "--format", "{{.Names}}"), FOREIGN)


def main():
    boot = int(words("bailey.boot")[0])
    if boot == 1:
        docker("load", "-i", str(IMAGE_TAR))
        IMAGE_TAR.unlink()
    pid = os.fork()
    if pid == 0:
        case = "First" if boot == 1 else "Second"
        sys.argv[1:] = [f"{case}.test_{word}" for word in words("bailey.test")] or [case + "."]
        tap.main()
    os.waitpid(pid, 0)
    if boot == 1:
        leave_live()
    print("# done", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception:
        print("".join("# " + line for line in traceback.format_exc().splitlines(True)), flush=True)
    finally:
        print("# over", flush=True)
        time.sleep(1000)
