#!/usr/bin/env python3
"""The engine layer against a scripted engine: every fault at every call. Each ends in bounded
time, with exactly one answer, the right error and a message a person can read; the next call
works. The driver's own exit checks that nothing is left (ASan builds: no leak either)."""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "lib"), os.path.join(ROOT, "tests", "fakes")]

import tap  # noqa: E402
from fake_dockerd import FakeDockerd  # noqa: E402

BUILD = os.environ.get("BAILEY_BUILD") or os.path.join(ROOT, "build", "dev")
DRIVER = os.path.join(BUILD, "tests", "engine_driver")
ID = "ab" * 32

ENOENT, EIO, EBUSY, EEXIST, EINVAL, EPERM = -2, -5, -16, -17, -22, -1
EPROTO, ETIMEDOUT, ENOTCONN, ECONNRESET = -71, -110, -107, -104

# The steps before the call in question, and the step that makes it.
READY = ["probe", "image=bailey/sandbox:slim"]
CALLS = {
    "ping": ([], "probe"),
    "version": ([], "probe"),
    "info": ([], "probe"),
    "image": (["probe"], "image=bailey/sandbox:slim"),
    "list": (["probe"], "list=enginedriver"),
    "create": (READY, "create"),
    "inspect": (READY + ["create"], "check"),
    "start": (READY + ["create"], "start"),
    "update": (READY + ["create"], "update=268435456:500"),
    "kill": (READY + ["create", "start"], "kill"),
    "remove": (READY + ["create"], "remove"),
}
PARSED = {"version", "info", "image", "list", "create", "inspect"}  # replies that are taken apart
GETS = {"version", "info", "image", "list", "inspect"}
RESET = {ECONNRESET}
# fault → errors it may end in
FAULTS = {
    "hang": {ETIMEDOUT},
    "rst": RESET, "eof": RESET, "lost": RESET,
    "half": RESET,
    "status:500": {EIO},
    "status:503": {EBUSY},
    "status:409": {EEXIST},
    "status:400": {EINVAL},
    "status:418": {EINVAL},
    "redirect": {EPROTO},
    "garbage": {EPROTO},
    "headers": {EPROTO},
    "huge": {EPROTO},
    "length": {EPROTO},
    "badchunk": {EPROTO, ECONNRESET},
    "notjson": {EPROTO, 0},
    "badjson": {EPROTO},
    "empty": {EPROTO},
    "types": {EPROTO, EPERM},
    "deep": {EPROTO},
    "nul": {EPROTO},
    "torn": {0},
    "slow:0.005": {0},
    "delay:0.3": {0},
}
JSON_ONLY = {"badjson", "empty", "types", "deep", "nul", "notjson"}
# A reply without a body cannot be cut in the middle or have a broken chunk.
BODY_ONLY = {"half", "huge", "length", "badchunk", "torn"}


def drive(path, *steps, timeout=60):
    done = subprocess.run([DRIVER, "unix," + path, *steps], capture_output=True, text=True,
                          timeout=timeout, check=False)
    lines = []
    for line in done.stdout.splitlines():
        found = re.fullmatch(r"(\S+) (-?\d+) (\d+) ?(.*)", line)
        lines.append((found[1], int(found[2]), int(found[3]), found[4]) if found else line)
    return done.returncode, lines, done.stderr


class Faults(unittest.TestCase):
    def setUp(self):
        # /tmp rather than the build: a socket's path is short
        self.folder = tempfile.TemporaryDirectory(prefix="bailey-fake.")
        self.addCleanup(self.folder.cleanup)
        self.count = 0

    def fake(self, **words):
        self.count += 1
        fake = FakeDockerd(os.path.join(self.folder.name, f"{self.count}.sock"), **words)
        self.addCleanup(fake.close)
        return fake

    def one(self, fake, call, fault):
        before, step = CALLS[call]
        fake.faults[call] = [fault]
        # the same call again afterwards: nothing of the fault may stick
        return drive(fake.path, *before, step, "probe")

    def test_every_fault_at_every_call(self):
        cases = []
        for call in CALLS:
            for fault in FAULTS:
                if fault in JSON_ONLY and call not in PARSED:
                    continue
                if fault in BODY_ONLY and call in ("start", "kill", "remove"):
                    continue
                cases.append((self.fake(), call, fault))
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            results = [pool.submit(self.one, *case) for case in cases]
        for (_, call, fault), result in zip(cases, results):
            with self.subTest(call=call, fault=fault):
                status, lines, errors = result.result()
                self.assertEqual(status, 0, errors)
                self.assertNotIn("Sanitizer", errors)
                wanted = FAULTS[fault]
                if call == "ping" and fault in ("notjson", "empty"):
                    wanted = wanted | {0}
                if wanted is RESET and call in GETS:
                    wanted = RESET | {0}  # on a kept connection curl asks again
                answer, again = lines[-2], lines[-1]
                self.assertIn(answer[1], wanted, answer)
                if answer[1] != 0:
                    self.assertRegex(answer[3], r"^[ -~]{10,200}$")
                self.assertEqual(again[1], 0, again)

    def test_missing(self):
        fake = self.fake()
        _, lines, _ = drive(fake.path, "probe", "image=nonesuch", "id=" + ID, "check", "start",
                            "kill", "remove", "remove=bailey-0-7", "attach")
        self.assertEqual([line[1] for line in lines[1:]],
                         [ENOENT, ENOENT, ENOENT, ENOENT, 0, 0, ENOENT])

    def test_names_that_never_become_a_path(self):
        fake = self.fake()
        _, lines, _ = drive(fake.path, "probe", "image=../../info", "image=a//b", "image=a?b=c",
                            "image=-a", "id=" + ID[:-1], "check", "start", "kill", "attach",
                            "remove=a/../b", "remove=", "list=a%22", "spec:name=a b",
                            "spec:image=x", "create")
        self.assertEqual({line[1] for line in lines[1:]}, {EINVAL}, lines)
        self.assertEqual(len(lines), 13)
        self.assertEqual({call for call, _, _ in fake.calls()}, {"ping", "version", "info"})

    def test_old_engine(self):
        fake = self.fake(api="1.39")
        _, lines, _ = drive(fake.path, "probe")
        self.assertEqual(lines[0][1], -93)
        self.assertRegex(lines[0][3], r"speaks API 1\.39; 1\.40 or newer is needed")

    def test_api_version_is_negotiated(self):
        for offered, used in (("1.40", "1.40"), ("1.41", "1.41"), ("1.52", "1.45")):
            with self.subTest(offered=offered):
                fake = self.fake(api=offered)
                _, lines, _ = drive(fake.path, *READY, "create", "check")
                self.assertEqual([line[1] for line in lines], [0, 0, 0, 0], lines)
                self.assertIn(f"api={used}", lines[0][3])
                self.assertIn(f"/v{used}/containers/create", fake.calls("create")[0][2])
        for offered in ("", "2.0", "1.x", "1.41 ", "1.99999", "v1.41"):
            with self.subTest(offered=offered):
                _, lines, _ = drive(self.fake(api=offered).path, "probe")
                self.assertIn(lines[0][1], (EPROTO, 0) if offered == "1.41 " else (EPROTO,))

    def test_lies_about_the_container(self):
        lies = {
            "HostConfig.Privileged": "true",
            "HostConfig.CapAdd": '["SYS_ADMIN"]',
            "HostConfig.CapDrop": "[]",
            "HostConfig.CapDrop.0": '"NET_RAW"',
            "HostConfig.SecurityOpt.0": '"label=disable"',
            "HostConfig.SecurityOpt.1": '"seccomp=unconfined"',
            "HostConfig.NetworkMode": '"bridge"',
            "HostConfig.PidMode": '"host"',
            "HostConfig.Binds": '["/:/host"]',
            "HostConfig.Mounts.0.ReadOnly": "false",
            "HostConfig.Mounts.0.Source": '"/"',
            "HostConfig.Mounts.0.BindOptions.NonRecursive": "false",
            "HostConfig.Mounts.0.BindOptions.Propagation": '"rshared"',
            "HostConfig.Tmpfs": '{"/workspace":"rw"}',
            "HostConfig.Devices": '[{"PathOnHost":"/dev/sda"}]',
            "HostConfig.MaskedPaths": "[]",
            "HostConfig.ReadonlyPaths.0": '"/nonesuch"',
            "HostConfig.ReadonlyRootfs": "false",
            "HostConfig.Memory": "0",
            "HostConfig.MemorySwap": "-1",
            "HostConfig.PidsLimit": "0",
            "HostConfig.NanoCpus": "0",
            "HostConfig.Ulimits.0.Hard": "1048576",
            "HostConfig.AutoRemove": "false",
            "HostConfig.LogConfig.Type": '"json-file"',
            "HostConfig.RestartPolicy.Name": '"always"',
            "HostConfig.Runtime": '"other"',
            "HostConfig.CgroupParent": '"/elsewhere"',
            "HostConfig.OomKillDisable": "true",
            "HostConfig.UsernsMode": '"host"',
            "HostConfig.Sysctls": '{"net.ipv4.ip_forward":"1"}',
            "Config.User": '""',
            "Config.Tty": "true",
            "Config.StdinOnce": "true",
            "Config.Entrypoint": '["/bin/sh"]',
            "Config.Cmd": '["-c","x"]',
            "Config.WorkingDir": '"/proc/self/fd/7"',
            "Config.Volumes": '{"/data":{}}',
            "Config.Env.0": '"LD_PRELOAD=/x.so"',
            "Config.Healthcheck": '{"Test":["CMD","x"]}',
            "Config.Labels": "{}",
            "Path": '"/bin/sh"',
            "Args": '["x"]',
            "Image": '"sha256:00"',
            "Mounts": '[]',
            "Mounts.0.RW": "true",
            "Mounts.0.Type": '"volume"',
        }
        fake = self.fake()
        for path, value in lies.items():
            with self.subTest(path=path):
                fake.faults["inspect"] = [f"lie:{path}={value}"]
                status, lines, errors = drive(fake.path, *READY, "spec:share=/s", "create", "check",
                                              "remove")
                self.assertEqual(status, 0, errors)
                self.assertEqual(lines[-2][1], EPERM, lines[-2])
                field = re.split(r"\.\d", path)[0]
                self.assertIn(" " + ".".join(field.split(".")[:2]) + " ", lines[-2][3])

    def test_attach(self):
        after = {
            "": (0, 0), "upgrade200": (0, 0), "bytewise": (0, 0),
            "upgrade": (EPROTO, None), "body": (EPROTO, None), "garbage": (EPROTO, None),
            "headers": (EPROTO, None), "half": (ECONNRESET, None), "eof": (ECONNRESET, None),
            "rst": (ECONNRESET, None), "status:500": (EIO, None), "status:409": (EEXIST, None),
            "redirect": (EPROTO, None), "hang": (ETIMEDOUT, None),
            "noise": (0, EPROTO), "type": (0, EPROTO), "length": (0, EPROTO), "error": (0, EIO),
        }
        cases = [(self.fake(box="echo"), fault) for fault in after]
        for fake, fault in cases:
            fake.faults["attach"] = [fault]

        def one(fake, opened, closed):
            steps = [*READY, "create", "attach"]
            if opened == 0 and closed == 0:
                steps += ["send=hello", "start", "expect=hello", "kill", "closed"]
            elif opened == 0:
                steps += ["closed"]
            return drive(fake.path, *steps)

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            results = [pool.submit(one, fake, *after[fault]) for fake, fault in cases]
        for (_, fault), result in zip(cases, results):
            with self.subTest(fault=fault or "none"):
                status, lines, errors = result.result()
                self.assertEqual(status, 0, errors)
                opened, closed = after[fault]
                self.assertEqual(lines[3][1], opened, lines[3])
                if opened != 0:
                    self.assertRegex(lines[3][3], r"^[ -~]{10,200}$")
                else:
                    self.assertEqual(lines[-1][:2], ("closed", closed), lines)

    def test_attach_cut_anywhere(self):
        # one frame of header 8 and payload 10, or two: the end comes at every byte of them
        for at in range(18):
            with self.subTest(at=at):
                fake = self.fake(box="echo")
                fake.faults["attach"] = [f"cut:{at}"]
                status, lines, errors = drive(fake.path, *READY, "create", "attach", "start",
                                              "send=hello", "send=world", "closed")
                self.assertEqual((status, lines[-1][0]), (0, "closed"), errors)

    def test_attach_that_reads_nothing(self):
        fake = self.fake(box="echo")
        fake.faults["attach"] = ["mute"]
        # socket buffers, then the 4 MiB queue, then a clear refusal; nothing blocks
        _, lines, _ = drive(fake.path, *READY, "create", "attach", "start", "flood=3000000", "probe",
                            "detach", "kill")
        self.assertEqual([line[1] for line in lines], [0] * len(lines), lines)

    def test_events(self):
        """A stream that stood, a drop, the fault, then a stream that stands again."""
        for fault in ("eof", "rst", "half", "lost", "badjson", "huge", "badchunk", "status:500",
                      "redirect", "notjson"):
            with self.subTest(fault=fault):
                fake = self.fake()
                fake.faults["events"] = [None, fault]
                driver = subprocess.Popen(
                    [DRIVER, "unix," + fake.path, "probe", "image=bailey/sandbox:slim", "events",
                     "create", "gap", "event=start", "event=destroy"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.until(lambda: fake.listeners and fake.calls("create"), driver)
                fake.drop_events()
                self.until(lambda: len(fake.calls("events")) >= 3 and fake.listeners, driver)
                container = next(iter(fake.containers.values()))
                fake.event("start", container)
                fake.remove(container)
                out, errors = driver.communicate(timeout=60)
                self.assertEqual(driver.returncode, 0, out + errors)
                self.assertTrue(out.endswith("event=destroy 0 0 destroy\n"), out)

    def until(self, condition, driver):
        end = time.monotonic() + 20
        while not condition():
            self.assertIsNone(driver.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_free_with_everything_pending(self):
        fake = self.fake()
        for call in ("ping", "image", "list", "inspect", "start", "update", "kill", "remove",
                     "create", "attach", "events"):
            fake.always[call] = "hang"
        status, lines, errors = drive(
            fake.path, "events", "id=" + ID, "begin=probe", "begin=image=a", "begin=list=u",
            "begin=create", "begin=check", "begin=attach", "begin=start", "begin=update=1:1",
            "begin=kill", "begin=remove", "begin=image=..", "begin=remove=..", "sleep=200",
            "free")
        self.assertEqual((status, lines[-1][:2]), (0, ("free", 0)), errors)
        # and without a turn of the loop in between
        status, lines, errors = drive(fake.path, "events", "id=" + ID, "begin=probe",
                                      "begin=attach", "begin=image=..", "free")
        self.assertEqual((status, lines[-1][:2]), (0, ("free", 0)), errors)

    def test_no_engine(self):
        folder = self.folder.name
        with open(os.path.join(folder, "plain"), "w", encoding="ascii"):
            pass
        for path, words in ((os.path.join(folder, "absent"), "No such file or directory"),
                            (os.path.join(folder, "plain"), "Connection refused")):
            status, lines, errors = drive(path, "probe", "spec:image=x", "create", "id=" + ID,
                                          "attach", "events",
                                          "sleep=300")
            self.assertEqual(status, 0, errors)
            self.assertEqual({line[1] for line in lines}, {ENOTCONN}, lines)
            self.assertIn(words, lines[0][3])

    def test_calls_never_wait_for_each_other(self):
        fake = self.fake()
        fake.always["list"] = "hang"
        status, lines, errors = drive(fake.path, "probe", *["begin=list=u"] * 20,
                                      "image=bailey/sandbox:slim", timeout=10)
        self.assertEqual((status, lines[-1][:2]), (0, ("image=bailey/sandbox:slim", 0)), errors)


if __name__ == "__main__":
    if not os.access(DRIVER, os.X_OK):
        tap.skip_all("engine_driver is not built")
    tap.main()
