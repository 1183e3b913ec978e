#!/usr/bin/env python3
"""bailey-frontend over stdio: runs, their specification and results, and health.

The client, the supervisor and the broker are this test (lib/frontend_rig.py).
"""

import base64
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import ipcrows  # noqa: E402
import schema_check  # noqa: E402
import tap  # noqa: E402
from frontend_rig import Rig, tool_schemas  # noqa: E402

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
BASH = {"language": "bash", "code": "echo hi"}

WHOLE_PIECE = 32768 - 16 - 4  # what fills a piece the engine copies, header and checksum included


class Runs(unittest.TestCase):
    def check(self, rig, tool, result):
        schema_check.validate(result["structuredContent"], self.schemas[tool]["outputSchema"])
        self.assertEqual(json.loads(result["content"][0]["text"]), result["structuredContent"])
        return result["structuredContent"]

    def setUp(self):
        self.rig = Rig()
        self.addCleanup(self.rig.close)
        self.schemas = tool_schemas(self.rig)
        self.rig.initialize()
        self.rig.broker_row("warm_hint")

    def test_the_specification(self):
        rig = self.rig
        kinds = {"python": (1, 1), "node": (2, 2), "bash": (3, 0)}
        for language, (kind, box) in kinds.items():
            with self.subTest(language=language):
                rig.call("execute_code", {"language": language, "code": "c\u00f6de", "args": ["a", ""],
                                          "env": {"A": "1", "B": "x=y"}, "stdin": "in",
                                          "timeout_seconds": 1.2345, "memory_mb": 64, "cpus": 0.5,
                                          "profile": "build"})
                row = rig.submitted()
                self.assertEqual((row["box_class"], row["profile"], row["timeout_ms"]),
                                 (box, "build", 1235))
                self.assertEqual((row["memory_bytes"], row["cpus_milli"], row["flags"]),
                                 (64 << 20, 500, 0))
                rig.grant(row["call"], timeout_ms=1235)
                self.assertEqual(rig.spec(row["call"]),
                                 [kind, 1, 1235, 0, "", "c\u00f6de".encode(), ["a", ""],
                                  ["A=1", "B=x=y"], 0, 0, 0])
                frames = [rig.broker_row("call_frame")[1] for _ in range(2)]
                self.assertEqual([f["type"] for f in frames], [0x12, 0x13])
                self.assertEqual(frames[0]["data"], b"in")
                rig.end(row["call"], guest={})
                self.check(rig, "execute_code", rig.message(1)["result"])

    def test_command_and_aliases(self):
        rig = self.rig
        cases = [("execute_sandboxed_command", {"command": "ls", "working_dir": "sub"},
                  [4, "/workspace/sub", b"ls"], ""),
                 ("execute_sandboxed_command", {"command": "ls", "working_dir": "/tmp"},
                  [4, "/tmp", b"ls"], ""),
                 ("execute_python_code", {"code_string": "1"}, [1, "", b"1"], ""),
                 ("docker_run", {"command": "id", "image": "bailey/sandbox:slim"}, [4, "", b"id"],
                  "bailey/sandbox:slim")]
        for tool, arguments, want, image in cases:
            with self.subTest(tool=tool, want=want):
                rig.call(tool, arguments)
                row = rig.submitted()
                self.assertEqual(row["image"], image)
                rig.grant(row["call"])
                spec = rig.spec(row["call"])
                self.assertEqual([spec[0], spec[4], spec[5]], want)
                rig.end(row["call"], guest={})
                rig.message(1)

    def test_live_environment(self):
        rig = self.rig
        for name, live in (("PYTHONPATH", 1), ("NODE_OPTIONS", 1), ("LD_PRELOAD", 1), ("LC_ALL", 1),
                           ("LANG", 1), ("TZ", 1), ("MALLOC_ARENA_MAX", 1), ("GLIBC_TUNABLES", 1),
                           ("UV_THREADPOOL_SIZE", 1), ("LANGUAGE", 0), ("TZX", 0), ("PATH", 0),
                           ("python", 0), ("XPYTHON", 0)):
            with self.subTest(name=name):
                rig.call("execute_code", {"language": "python", "code": "", "env": {name: "x"}})
                row = rig.submitted()
                self.assertEqual(row["flags"], live)
                rig.grant(row["call"])
                self.assertEqual(rig.spec(row["call"])[1], 2 if live else 0)
                rig.end(row["call"], guest={})
                rig.message(1)

    def test_a_box_that_is_not_warm_is_told_so(self):
        self.rig.call("execute_code", {"language": "python", "code": ""})
        call = self.rig.submitted()["call"]
        self.rig.grant(call, start=3)
        self.assertEqual(self.rig.spec(call)[1], 2)
        self.rig.end(call, guest={"start": 2})
        self.assertEqual(self.rig.message(1)["result"]["structuredContent"]["start"], "cold")

    def test_a_short_specification_needs_no_grant(self):
        """It comes with the submission once its timeout is known, and only then."""
        rig = self.rig
        cases = [({}, False), ({}, True), ({"timeout_seconds": 2}, True), ({"profile": "p"}, False),
                 ({"memory_mb": 64}, False), ({"stdin": "x"}, True),
                 ({"code": "x" * 40000}, False), ({"env": {"TZ": "UTC"}}, True)]
        for more, early in cases:
            with self.subTest(more=str(more)[:40], early=early):
                rig.call("execute_code", dict({"language": "python", "code": "1"}, **more))
                submitted = rig.submitted()
                call = submitted["call"]
                self.assertEqual(submitted["spec"] != b"", early)
                if early:
                    spec = ipcrows.spec_read(submitted["spec"])
                    self.assertEqual(spec[2], 2000 if "timeout_seconds" in more else 10000)
                self.assertTrue(rig.broker_silent(0.02))
                rig.grant(call)
                if not early:
                    rig.spec(call)
                if "stdin" in more:
                    self.assertEqual(rig.broker_row()[1]["type"], ipcrows.GUEST["h_stdin"])
                    rig.broker_row()
                self.assertTrue(rig.broker_silent(0.02))
                rig.end(call, guest={})
                rig.message(1)

    def test_code_sizes(self):
        rig = self.rig
        for size in (0, 1, 32700, 32768, 40000, 1 << 20):
            with self.subTest(size=size):
                rig.call("execute_code", {"language": "python", "code": "\n" * size})
                call = rig.submitted()["call"]
                rig.grant(call)
                self.assertEqual(rig.spec(call)[5], b"\n" * size)
                rig.end(call, guest={})
                rig.message(1)

    def test_stdin_follows_the_credit(self):
        rig = self.rig
        text = "0123456789abcdef" * (4 << 16)
        rig.call("execute_code", {"language": "bash", "code": "cat", "stdin": text})
        call = rig.submitted()["call"]
        rig.grant(call)
        rig.spec(call)
        data, limit = b"", 256 << 10
        while len(data) < len(text):
            _, row = rig.broker_row("call_frame")
            self.assertEqual(row["type"], 0x12)
            data += row["data"]
            self.assertLessEqual(len(data), limit)
            if limit - len(data) < WHOLE_PIECE and len(data) < len(text) and limit < len(text):
                self.assertTrue(rig.broker_silent(0.01))  # less than a piece waits for more credit
                limit += 100001
                rig.tell("run_frame", call=call, type=ipcrows.GUEST["g_credit"], stream=0,
                         data=ipcrows.guest_payload("g_credit", limit=limit))
                limit = min(limit, len(text))
        self.assertEqual(data.decode(), text)
        self.assertEqual(rig.broker_row("call_frame")[1]["type"], 0x13)
        rig.end(call, guest={})
        rig.message(1)

    def test_statuses(self):
        rig = self.rig
        fine = {"running", "ok", "nonzero", "signaled"}
        for status in ipcrows.STATUS:
            with self.subTest(status=status):
                # the broker alone knows when it makes sense, and says so with these two
                retry = 700 if status in ("busy", "queue_timeout") else 0
                result = rig.run("execute_code", BASH, status=status, retry_ms=retry)
                content = self.check(rig, "execute_code", result)
                self.assertEqual(content["status"], status)
                self.assertEqual(result["isError"], status not in fine)
                self.assertEqual(bool(content["message"]), status not in fine)
                self.assertEqual(content["timed_out"], status == "timed_out")
                self.assertEqual(content.get("retry_after_ms"), retry or None)

    def test_a_status_this_program_does_not_know(self):
        self.rig.call("execute_code", BASH)
        call = self.rig.submitted()["call"]
        self.rig.tell("call_ended", call=call, status=200)
        result = self.rig.message(1)["result"]
        self.assertEqual(self.check(self.rig, "execute_code", result)["status"], "internal")
        self.assertTrue(result["isError"])

    def test_refused_before_the_grant(self):
        self.rig.call("execute_code", BASH)
        call = self.rig.submitted()["call"]
        self.rig.tell("call_ended", call=call, status=ipcrows.STATUS["denied"],
                      message="memory_mb: at most 2048\x1b[1m")
        content = self.check(self.rig, "execute_code", self.rig.message(1)["result"])
        self.assertEqual(content["message"], "memory_mb: at most 2048\\u{1B}[1m")
        for name in ("exit_code", "signal", "duration_ms", "queue_ms", "start", "limits", "run_id",
                     "guest", "cpu_ms", "peak_memory_bytes", "baseline_bytes"):
            self.assertIsNone(content[name], name)

    def test_exit_and_figures(self):
        rig = self.rig
        guest = {"cpu_us": 1500, "max_rss_bytes": 9 << 20}
        for values, want in [
                ({"exit_code": 3, "status": "nonzero"}, (3, None, None)),
                ({"signal": 11, "status": "signaled"}, (None, 11, "SIGSEGV")),
                ({"signal": 34, "status": "signaled"}, (None, 34, None)),
                ({"signal": 9, "status": "timed_out"}, (None, 9, "SIGKILL"))]:
            with self.subTest(want=want):
                rig.call("execute_code", BASH)
                call = rig.submitted()["call"]
                rig.grant(call, queue_ms=12, cpus_milli=1500)
                how = 2 if "signal" in values else 1
                rig.end(call, guest=dict(guest, how=how), have=7, cpu_us=2001, peak_bytes=1 << 33,
                        baseline_bytes=4096, duration_us=1234567, **values)
                content = self.check(rig, "execute_code", rig.message(1)["result"])
                self.assertEqual((content["exit_code"], content["signal"], content["signal_name"]),
                                 want)
                self.assertEqual(content["guest"], {"cpu_ms": 1.5, "max_rss_bytes": 9 << 20})
                self.assertEqual((content["cpu_ms"], content["peak_memory_bytes"],
                                  content["baseline_bytes"]), (2.001, 1 << 33, 4096))
                self.assertEqual((content["duration_ms"], content["queue_ms"]), (1234.567, 12))
                self.assertEqual(content["limits"]["cpus"], 1.5)

    def test_output_forms(self):
        cases = [
            (b"", "", "utf-8"),
            (b"plain\n\ttext \\ \"quoted\"\n", "plain\n\ttext \\ \"quoted\"\n", "utf-8"),
            ("\u00e9\u4e2d\U0001f600\n".encode(), "\u00e9\u4e2d\U0001f600\n", "utf-8"),
            (b"a\x1b[31mred\\\n", "a\\u{1B}[31mred\\\\\n", "escaped"),
            (b"a\0b", "a\\u{0}b", "escaped"),
            (b"50%\r100%\r\n", "50%\\u{D}100%\\u{D}\n", "escaped"),
            ("\u202eevil\u2066".encode(), "\\u{202E}evil\\u{2066}", "escaped"),
            ("\u200b\u200d\ufeff\u0085".encode(), "\\u{200B}\\u{200D}\\u{FEFF}\\u{85}", "escaped"),
            ("\U000e0041\U000e007f".encode(), "\\u{E0041}\\u{E007F}", "escaped"),
            (b"\x1b]8;;http://x\x1b\\", "\\u{1B}]8;;http://x\\u{1B}\\\\", "escaped"),
            (b"\x7f", "\\u{7F}", "escaped"),
            (b"\xff\xfe\0", base64.b64encode(b"\xff\xfe\0").decode(), "base64"),
            (b"abc\xc3", base64.b64encode(b"abc\xc3").decode(), "base64"),
            (b"\xed\xa0\x80", base64.b64encode(b"\xed\xa0\x80").decode(), "base64"),
        ]
        for data, want, form in cases:
            with self.subTest(data=data[:20]):
                result = self.rig.run("execute_code", BASH, out=data, err=data)
                content = self.check(self.rig, "execute_code", result)
                for stream in ("stdout", "stderr"):
                    self.assertEqual(content[stream], want)
                    self.assertEqual(content[stream + "_encoding"], form)
                    self.assertEqual(content[stream + "_bytes"], len(data))
                    self.assertIs(content[stream + "_truncated"], False)
                    self.assertNotIn(stream + "_tail", content)

    def test_output_whole_up_to_head_and_tail(self):
        for size in (24576, 24577, 32768):
            with self.subTest(size=size):
                data = bytes(33 + i % 90 for i in range(size))
                content = self.check(self.rig, "execute_code",
                                     self.rig.run("execute_code", BASH, out=data))
                self.assertEqual(content["stdout"].encode(), data)
                self.assertIs(content["stdout_truncated"], False)

    def test_output_cut(self):
        for size in (32769, 50000, 300000, 1 << 20):
            with self.subTest(size=size):
                data = bytes(33 + i % 90 for i in range(size))
                content = self.check(self.rig, "execute_code",
                                     self.rig.run("execute_code", BASH, out=data))
                self.assertEqual(content["stdout"].encode(), data[:24576])
                self.assertEqual(content["stdout_tail"].encode(), data[-8192:])
                self.assertEqual(content["stdout_bytes"], size)
                self.assertEqual(content["stdout_omitted_bytes"], size - 32768)
                self.assertIs(content["stdout_truncated"], True)

    def test_output_cut_between_code_points(self):
        for shift in range(4):
            for char in ("\u00e9", "\u4e2d", "\U0001f600"):
                with self.subTest(shift=shift, char=char):
                    data = b"x" * shift + char.encode() * 20000
                    content = self.check(self.rig, "execute_code",
                                         self.rig.run("execute_code", BASH, out=data))
                    self.assertEqual(content["stdout_encoding"], "utf-8")
                    head, tail = content["stdout"].encode(), content["stdout_tail"].encode()
                    self.assertTrue(data.startswith(head) and data.endswith(tail))
                    self.assertGreater(len(head), 24576 - 4)
                    self.assertGreater(len(tail), 8192 - 4)
                    self.assertEqual(content["stdout_omitted_bytes"],
                                     len(data) - len(head) - len(tail))

    def test_output_that_the_guest_cut(self):
        rig = self.rig
        total = 100 * 1000 * 1000
        rig.call("execute_code", BASH)
        call = rig.submitted()["call"]
        rig.grant(call)
        rig.spec(call)
        rig.output(call, b"h" * 65536)
        rig.output(call, b"t" * 100, frame="g_tail")
        rig.end(call, guest={"stdout_bytes": total, "stdout_dropped": total - 65636})
        content = self.check(rig, "execute_code", rig.message(1)["result"])
        self.assertEqual(content["stdout"], "h" * 24576)
        self.assertEqual(content["stdout_tail"], "t" * 100)
        self.assertEqual(content["stdout_bytes"], total)
        self.assertEqual(content["stdout_omitted_bytes"], total - 24576 - 100)

    def test_output_of_controls_is_bounded(self):
        self.rig.call("execute_code", BASH)
        call = self.rig.submitted()["call"]
        self.rig.grant(call)
        self.rig.output(call, b"\x1b" * 100000, 1)
        self.rig.output(call, "\U000e0001".encode() * 25000, 2)
        self.rig.end(call, guest={})
        line = self.rig.line()
        self.assertLess(len(line), 2 << 20)
        content = json.loads(line)["result"]["structuredContent"]
        self.assertEqual(content["stdout"], "\\u{1B}" * 24576)

    def test_credit_is_granted_as_output_comes(self):
        rig = self.rig
        rig.call("execute_code", BASH)
        call = rig.submitted()["call"]
        rig.grant(call)
        rig.spec(call)
        sent, limit = 0, 256 << 10
        while sent < 3 << 20:
            while sent + 32768 <= limit:
                rig.output(call, b"x" * 32768)
                sent += 32768
            row = rig.broker_row("call_frame")[1]
            self.assertEqual((row["type"], row["stream"]), (ipcrows.GUEST["h_credit"], 1))
            got = ipcrows.guest_read("h_credit", row["data"])["limit"]
            self.assertGreater(got, limit)
            self.assertLessEqual(got, sent + (256 << 10))
            limit = got
        rig.end(call, guest={"stdout_bytes": sent})
        self.assertEqual(rig.message(1)["result"]["structuredContent"]["stdout_bytes"], sent)

    def test_many_at_once_answer_their_own(self):
        rig = self.rig
        for i in range(60):
            rig.call("execute_code", {"language": "bash", "code": f"echo {i}"}, id=f"c{i}")
        calls = [rig.submitted()["call"] for _ in range(60)]
        for call in calls:
            rig.grant(call)
        code = {call: rig.spec(call)[5] for call in calls}
        for call in reversed(calls):
            rig.output(call, code[call])
            rig.end(call, guest={})
        for i in range(60):
            self.assertEqual(rig.message(f"c{i}")["result"]["structuredContent"]["stdout"],
                             f"echo {i}")

    def test_too_many_in_flight(self):
        rig = self.rig
        for i in range(129):
            rig.call("execute_code", BASH, id=i)
        content = self.check(rig, "execute_code", rig.message(128)["result"])
        self.assertEqual(content["status"], "busy")
        self.assertGreater(content["retry_after_ms"], 0)

    def test_too_much_in_flight(self):
        rig = self.rig
        for i in range(4):
            rig.call("execute_code", dict(BASH, stdin="x" * (4 << 20)), id=i)
        # three times 4 MiB and their code fit under 16 MiB, a fourth does not
        self.assertEqual(rig.message(3)["result"]["structuredContent"]["status"], "busy")
        rig.end(rig.submitted()["call"], "busy")
        rig.message(0)
        rig.call("execute_code", dict(BASH, stdin="x" * (4 << 20)), id=9)
        for _ in range(3):
            last = rig.submitted()
        rig.end(last["call"], guest={})
        self.assertEqual(rig.message(9)["result"]["structuredContent"]["status"], "ok")

    def test_an_id_in_flight_is_not_taken_again(self):
        rig = self.rig
        rig.call("execute_code", BASH, id=1)
        call = rig.submitted()["call"]
        rig.call("execute_code", BASH, id=1)
        self.assertEqual(rig.message(1)["error"]["code"], -32600)
        rig.call("execute_code", BASH, id="1")
        rig.end(rig.submitted()["call"], guest={})
        self.assertIn("result", rig.message("1"))
        rig.end(call, guest={})
        self.assertIn("result", rig.message(1))

    def test_results_by_revision(self):
        for revision in LEGACY + (MODERN,):
            with self.subTest(revision=revision), Rig() as rig:
                modern = revision == MODERN
                if not modern:
                    rig.initialize(revision)
                rig.call("execute_code", BASH, modern=modern)
                call = rig.submitted()["call"]
                rig.grant(call)
                rig.end(call, guest={})
                result = rig.message(1)["result"]
                self.assertEqual("structuredContent" in result, revision >= "2025-06-18")
                self.assertEqual("resultType" in result, modern)
                self.assertEqual(json.loads(result["content"][0]["text"])["status"], "ok")

    def test_nonsense_from_the_broker_is_survived(self):
        rig = self.rig
        rig.call("execute_code", BASH)
        call = rig.submitted()["call"]
        rig.output(call, b"early")
        rig.tell("run_frame", call=99, type=0x50, stream=1, data=b"x")
        rig.tell("call_ended", call=99)
        rig.grant(98)
        rig.grant(call)
        rig.grant(call)
        rig.tell("run_frame", call=call, type=0x50, stream=7, data=b"x")
        rig.tell("run_frame", call=call, type=0x99, stream=1, data=b"x")
        rig.tell("run_frame", call=call, type=ipcrows.GUEST["g_credit"], data=b"x")
        rig.tell("health_end", call=call)
        rig.output(call, b"ok")
        rig.tell("call_ended", call=call, status=1, guest=b"short")
        content = self.check(rig, "execute_code", rig.message(1)["result"])
        self.assertEqual(content["stdout"], "ok")
        self.assertIsNone(content["guest"])


class Health(unittest.TestCase):
    def test_report(self):
        with Rig() as rig:
            schema = tool_schemas(rig)["check_sandbox_health"]["outputSchema"]
            rig.call("check_sandbox_health", {})
            call = rig.broker_row("health_query")[1]["call"]
            rig.tell("health_engine", call=call, status=1, engine="Docker\x1b", version="20.10.24",
                     api="1.41", image="bailey/sandbox:slim", image_id="sha256:1", runtimes="runc",
                     cgroup=1)
            for box in range(4):
                rig.tell("health_pool", call=call, box_class=box, target=2, ready=1, starting=1)
            rig.tell("health_usage", call=call, boxes=1, boxes_max=16, memory_bytes=1 << 40,
                     cpus_milli=1000, cpus_max_milli=2500)
            rig.tell("health_layers", call=call, role=2, layers=0x34, restarts=0)
            rig.tell("health_layers", call=call, role=99, layers=0xffffffff)
            rig.tell("health_note", call=call, text="old runc\u202e")
            rig.tell("health_end", call=call)
            result = rig.message(1)["result"]
            report = result["structuredContent"]
            schema_check.validate(report, schema)
            self.assertEqual(json.loads(result["content"][0]["text"]), report)
            self.assertEqual(report["status"], "ok")
            self.assertEqual(report["engine"]["name"], "Docker\\u{1B}")
            self.assertEqual([p["box_class"] for p in report["pool"]], ["shell", "python", "node"])
            self.assertEqual(report["usage"]["memory_bytes"], 1 << 40)
            self.assertEqual(report["limits"]["cpus_max"], 2.5)
            self.assertEqual(report["warnings"], ["old runc\\u{202E}"])
            self.assertEqual([p["name"] for p in report["processes"]], ["frontend"])
            self.assertGreater(len(report["processes"][0]["layers"]), 1)

    def test_without_an_engine_or_a_broker(self):
        with Rig() as rig:
            schema = tool_schemas(rig)["check_sandbox_health"]["outputSchema"]
            rig.call("check_sandbox_health", {}, id=1)
            call = rig.broker_row("health_query")[1]["call"]
            rig.tell("health_engine", call=call, status=ipcrows.STATUS["engine_unavailable"],
                     message="no socket at /run/x.sock")
            rig.tell("health_end", call=call)
            report = rig.message(1)["result"]
            schema_check.validate(report["structuredContent"], schema)
            self.assertIs(report["isError"], False)
            self.assertEqual(report["structuredContent"]["status"], "engine_unavailable")
            self.assertIn("/run/x.sock", report["structuredContent"]["message"])
            rig.call("check_sandbox_health", {}, id=2)
            rig.broker_row("health_query")
            rig.broker.close()
            report = rig.message(2)["result"]["structuredContent"]
            schema_check.validate(report, schema)
            self.assertEqual(report["status"], "engine_unavailable")


if __name__ == "__main__":
    tap.main()
