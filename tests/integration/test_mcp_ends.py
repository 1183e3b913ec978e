#!/usr/bin/env python3
"""bailey-frontend over stdio: cancel, progress, loss of the broker, and every way to end.

The client, the supervisor and the broker are this test (lib/frontend_rig.py).
"""

import json
import os
import pty
import random
import re
import sys
import tempfile
import threading
import time
import tty
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import ipcrows  # noqa: E402
import pace  # noqa: E402
import tap  # noqa: E402
from frontend_rig import Gone, Rig  # noqa: E402

BASH = {"language": "bash", "code": "echo hi"}


class Cancel(unittest.TestCase):
    def test_in_each_state(self):
        with Rig() as rig:
            rig.initialize()
            for granted in (False, True):
                with self.subTest(granted=granted):
                    rig.call("execute_code", BASH, id="x", token="t")
                    call = rig.submitted()["call"]
                    if granted:
                        rig.grant(call)
                        rig.spec(call)
                    rig.notify("notifications/cancelled", {"requestId": "x", "reason": "r"})
                    self.assertEqual(rig.broker_row("call_cancel")[1]["call"], call)
                    rig.output(call, b"late")
                    self.assertTrue(rig.silent())
                    rig.call("execute_code", BASH, id="x")
                    second = rig.submitted()["call"]
                    self.assertNotEqual(second, call)
                    rig.end(call, "cancelled")
                    self.assertTrue(rig.silent(0.05))
                    rig.end(second, guest={})
                    self.assertIn("result", rig.message("x"))

    def test_before_there_is_a_broker(self):
        with Rig(configure=False) as rig:
            rig.call("execute_code", BASH, id=5)
            rig.notify("notifications/cancelled", {"requestId": 5})
            rig.ask("ping", id=6)
            rig.configure()
            self.assertEqual(rig.broker_row()[0], "warm_hint")
            self.assertTrue(rig.broker_silent())
            self.assertTrue(rig.silent())

    def test_health(self):
        with Rig() as rig:
            rig.call("check_sandbox_health", {}, id=5)
            call = rig.broker_row("health_query")[1]["call"]
            rig.notify("notifications/cancelled", {"requestId": 5})
            rig.ask("ping", id=6)
            rig.tell("health_engine", call=call, status=1)
            rig.tell("health_end", call=call)
            self.assertTrue(rig.silent())

    def test_unknown_ids_are_ignored(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            call = rig.submitted()["call"]
            for params in ({"requestId": "1"}, {"requestId": 2}, {"requestId": None}, {}, None,
                           {"requestId": {}}):
                rig.notify("notifications/cancelled", params)
            self.assertTrue(rig.broker_silent())
            rig.end(call, guest={})
            self.assertIn("result", rig.message(1))

    def test_modern(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1, modern=True)
            call = rig.submitted()["call"]
            rig.notify("notifications/cancelled", {"requestId": 1})
            self.assertEqual(rig.broker_row("call_cancel")[1]["call"], call)


class Progress(unittest.TestCase):
    def start(self, rig, token, timeout_ms=60000):
        rig.call("execute_code", BASH, id=1, token=token)
        call = rig.submitted()["call"]
        rig.grant(call, timeout_ms=timeout_ms)
        rig.spec(call)
        return call

    def test_first_output_at_once_then_limited(self):
        for token in ("t", 7):
            with self.subTest(token=token), Rig() as rig:
                rig.initialize()
                call = self.start(rig, token)
                begin = time.monotonic()
                with pace.within(self, 0.05, "the first output"):
                    rig.output(call, b"first\n")
                    note = rig.any_message()
                self.assertEqual(note["method"], "notifications/progress")
                self.assertEqual(note["params"]["progressToken"], token)
                self.assertEqual(note["params"]["message"], "first\n")
                notes = [note]
                for i in range(50):
                    rig.output(call, b"line %d\n" % i, 1 + i % 2)
                    time.sleep(0.01)
                while "line 49\n" not in notes[-1]["params"]["message"]:
                    notes.append(rig.any_message())
                rig.end(call, guest={})
                rig.message(1)
                notes += rig.pending
                rig.pending = []
                took = time.monotonic() - begin
                self.assertLessEqual(len(notes), took / 0.1 + 2)
                values = [n["params"]["progress"] for n in notes]
                self.assertEqual(values, sorted(set(values)))
                text = "".join(n["params"]["message"] for n in notes)
                self.assertEqual(text, "first\n" + "".join(f"line {i}\n" for i in range(50)))
                self.assertTrue(rig.silent(0.15))

    def test_text_is_made_visible_and_bounded(self):
        with Rig() as rig:
            call = self.start(rig, "t")
            rig.output(call, b"\x1b[1m\xff\n")
            self.assertEqual(rig.any_message()["params"]["message"], "\\u{1B}[1m\ufffd\n")
            rig.output(call, b"x" * 200000)
            time.sleep(0.15)
            self.assertEqual(len(rig.any_message()["params"]["message"]), 4096)

    def test_none_without_a_token(self):
        with Rig() as rig:
            call = self.start(rig, None)
            rig.output(call, b"x\n")
            self.assertTrue(rig.silent())

    def test_no_message_in_the_oldest_revision(self):
        with Rig() as rig:
            rig.initialize("2024-11-05")
            call = self.start(rig, "t")
            rig.output(call, b"x\n")
            self.assertEqual(set(rig.any_message()["params"]), {"progressToken", "progress"})

    def test_sign_of_life(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1, token="t")
            call = rig.submitted()["call"]
            note = rig.any_message(timeout=6)
            self.assertIn("waiting", note["params"]["message"])
            rig.grant(call, timeout_ms=60000)
            note = rig.any_message(timeout=6)
            self.assertIn("running", note["params"]["message"])


class BrokerLoss(unittest.TestCase):
    def test_before_the_grant_it_is_submitted_again(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            rig.call("check_sandbox_health", {}, id=2)
            first = rig.submitted()
            rig.broker.close()
            time.sleep(0.3)
            rig.new_broker()
            again = rig.broker_row()
            self.assertEqual(again[0], "warm_hint")
            rows = dict([rig.broker_row(), rig.broker_row()])
            self.assertEqual(rows["call_submit"], first)
            call = rows["call_submit"]["call"]
            rig.grant(call)
            rig.end(call, guest={})
            self.assertEqual(rig.message(1)["result"]["structuredContent"]["status"], "ok")
            rig.tell("health_engine", call=rows["health_query"]["call"], status=1)
            rig.tell("health_end", call=rows["health_query"]["call"])
            self.assertEqual(rig.message(2)["result"]["structuredContent"]["status"], "ok")

    def test_an_early_specification_is_sent_again(self):
        with Rig() as rig:
            rig.call("execute_code", dict(BASH, timeout_seconds=1), id=1)
            first = rig.submitted()
            self.assertEqual(ipcrows.spec_read(first["spec"])[2], 1000)
            rig.broker.close()
            rig.new_broker()
            self.assertEqual(rig.submitted(), first)
            call = first["call"]
            rig.grant(call, timeout_ms=1000)
            self.assertTrue(rig.broker_silent(0.05))
            rig.end(call, guest={})
            self.assertIn("result", rig.message(1))

    def test_only_once(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            for _ in range(2):
                rig.submitted()
                rig.broker.close()
                rig.new_broker()
            result = rig.message(1)["result"]
            self.assertEqual(result["structuredContent"]["status"], "engine_unavailable")

    def test_no_new_broker_in_time(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            rig.submitted()
            with pace.within(self, 2.5, "no broker") as measure:
                rig.broker.close()
                result = rig.message(1)["result"]
            self.assertEqual(result["structuredContent"]["status"], "engine_unavailable")
            self.assertGreater(measure.took(), 1.8)
            with pace.within(self, 2.5, "still no broker"):
                rig.call("execute_code", BASH, id=2)
                result = rig.message(2)["result"]
            self.assertEqual(result["structuredContent"]["status"], "engine_unavailable")

    def test_after_the_grant_it_is_lost(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            call = rig.submitted()["call"]
            rig.grant(call)
            rig.spec(call)
            rig.output(call, b"so far")
            rig.broker.close()
            result = rig.message(1)["result"]
            content = result["structuredContent"]
            self.assertEqual((content["status"], content["stdout"]), ("lost", "so far"))
            self.assertIsNone(content["exit_code"])
            self.assertTrue(result["isError"])
            rig.new_broker()
            self.assertEqual(rig.broker_row()[0], "warm_hint")
            self.assertTrue(rig.broker_silent())
            self.assertEqual(rig.run("execute_code", BASH, id=2)["structuredContent"]["status"],
                             "ok")

    def test_a_new_link_before_the_old_ones_end(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            rig.submitted()
            old = rig.broker
            rig.new_broker()
            call = rig.submitted()["call"]
            rig.end(call, guest={})
            self.assertIn("result", rig.message(1))
            old.close()
            self.assertEqual(rig.ask("ping", id=2)["result"], {})

    def test_a_broker_that_breaks_the_rules_is_dropped(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            rig.submitted()
            rig.broker.send(b"\xff\xff")
            rig.new_broker()
            call = rig.submitted()["call"]
            rig.end(call, guest={})
            self.assertIn("result", rig.message(1))

    def test_the_order_of_calls_is_kept(self):
        """The broker takes numbers that grow; anything else ends the link."""
        with Rig(configure=False) as rig:
            for number in (1, 2, 3):
                rig.call("execute_code", BASH, id=number)
            rig.ask("ping", id=9)
            rig.configure()
            for _ in range(2):
                self.assertEqual(rig.broker_row()[0], "warm_hint")
                calls = [rig.submitted()["call"] for _ in range(3)]
                self.assertEqual(calls, sorted(calls))
                rig.broker.close()
                rig.new_broker()

    def test_calls_wait_for_the_start(self):
        with Rig(configure=False) as rig:
            rig.call("execute_code", BASH, id=1)
            rig.ask("ping", id=2)
            self.assertTrue(rig.broker_silent())
            rig.configure()
            self.assertEqual(rig.broker_row()[0], "warm_hint")
            rig.end(rig.submitted()["call"], guest={})
            self.assertIn("result", rig.message(1))


class Random(unittest.TestCase):
    """Calls that start, end, are cancelled and lose their broker in any order: each one that was
    not cancelled gets exactly one answer, its own, and a cancelled one none."""

    def step(self, rig, rnd, state):
        open_ids, granted, cancelled = state["open"], state["granted"], state["cancelled"]
        what = rnd.random()
        if what < 0.4 and len(open_ids) < 100:
            state["next"] += 1
            tag = f"t{state['next']}"
            rig.call("execute_code", {"language": "bash", "code": tag}, id=tag,
                     token=tag if rnd.random() < 0.3 else None)
            open_ids[rig.submitted()["call"]] = tag
        elif what < 0.6 and open_ids:
            call = rnd.choice(list(open_ids))
            if call not in granted:
                rig.grant(call)
                granted.add(call)
            rig.output(call, open_ids[call].encode())
        elif what < 0.7 and open_ids:
            call = rnd.choice(list(open_ids))
            tag = open_ids.pop(call)
            cancelled.add(tag)
            rig.notify("notifications/cancelled", {"requestId": tag})
            rig.broker_row("call_cancel")
            rig.end(call, "cancelled")
        elif what < 0.99 and granted & set(open_ids):
            call = rnd.choice(sorted(granted & set(open_ids)))
            state["done"][open_ids.pop(call)] = "ok"
            rig.end(call, guest={})
        elif what >= 0.99:
            lost = set(open_ids) & granted
            rig.broker.close()
            rig.new_broker()
            for call in lost:
                state["done"][open_ids.pop(call)] = "lost"
            again = {rig.submitted()["call"] for _ in range(len(open_ids))}
            self.assertEqual(again, set(open_ids))
            # a second loss would end these: grant them now
            for call in again:
                rig.grant(call)
                granted.add(call)

    def test_interleavings(self):
        for seed in range(4):
            with self.subTest(seed=seed), Rig() as rig:
                rnd = random.Random(seed)
                state = {"open": {}, "granted": set(), "cancelled": set(), "done": {}, "next": 0}
                for _ in range(600):
                    self.step(rig, rnd, state)
                for call, tag in list(state["open"].items()):
                    rig.end(call, "internal")
                    state["done"][tag] = "internal"
                answers = [rig.message(tag) for tag in state["done"]]
                rig.ask("ping", id="last")
                answers += [m for m in rig.pending if "method" not in m]
                self.assertEqual(sorted(m["id"] for m in answers), sorted(state["done"]))
                for m in answers:
                    content = m["result"]["structuredContent"]
                    self.assertEqual(content["status"], state["done"][m["id"]])
                    self.assertEqual(content["stdout"].replace(m["id"], ""), "")
                rig.close_input()
                self.assertEqual(rig.wait(), 0)


class End(unittest.TestCase):
    def test_end_of_input(self):
        for kind in ("pipe", "socket"):
            for running in (False, True):
                with self.subTest(kind=kind, running=running), Rig(kind) as rig:
                    if running:
                        rig.call("execute_code", BASH, id=1)
                        call = rig.submitted()["call"]
                        rig.grant(call)
                        rig.spec(call)
                    with pace.within(self, 0.3, "the end"):
                        rig.close_input()
                        self.assertEqual(rig.wait(), 0)
                    if running:
                        self.assertEqual(rig.broker_row(), ("call_cancel", {"call": call}))
                    with self.assertRaises(Gone):
                        rig.broker_row()
                    with self.assertRaises(Gone):
                        rig.line()

    def test_answers_before_the_end_are_sent(self):
        with Rig() as rig:
            rig.request("tools/list", id=1)
            rig.request("ping", id=2)
            rig.close_input()
            self.assertIn("result", rig.message(1))
            self.assertIn("result", rig.message(2))
            self.assertEqual(rig.wait(), 0)

    def test_a_line_without_its_end_is_not_taken(self):
        with Rig() as rig:
            rig.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
            rig.close_input()
            with self.assertRaises(Gone):
                rig.line()
            self.assertEqual(rig.wait(), 0)

    def test_client_that_closes_its_output(self):
        with Rig() as rig:
            os.close(rig.out)
            rig.out = None
            rig.request("ping")
            self.assertEqual(rig.wait(), 0)

    def test_client_that_never_reads(self):
        with Rig() as rig:
            stop, full = threading.Event(), threading.Event()

            def pour():
                refused = 0
                line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' * 200
                os.set_blocking(rig.to, False)
                while not stop.is_set():
                    try:
                        os.write(rig.to, line)
                        refused = 0
                    except BlockingIOError:
                        refused += 1
                        if refused == 50:
                            full.set()
                        time.sleep(0.01)
                    except BrokenPipeError:
                        return

            thread = threading.Thread(target=pour)
            thread.start()
            self.assertTrue(full.wait(60))
            if rig.filtered():
                self.assertLess(rig.rss_kb(), 40000)
            self.assertTrue(rig.wait_alive())
            stop.set()
            thread.join()
            # it goes on where it stopped as soon as the client reads
            count = 0
            try:
                while True:
                    json.loads(rig.line(1.0))
                    count += 1
            except TimeoutError:
                pass
            self.assertGreater(count, 400)
            rig.close_input()
            self.assertEqual(rig.wait(), 0)

    def test_input_from_a_file(self):
        lines = [{"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                 {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                  "params": {"name": "execute_code", "arguments": BASH}}]
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
            source.write(b"".join(json.dumps(m).encode() + b"\n" for m in lines))
            source.flush()
            source.seek(0)
            with Rig(stdin=os.dup(source.fileno()), stdout=os.dup(sink.fileno())) as rig:
                # the end of a file is no hang-up: what it asked for is finished first
                call = rig.submitted()["call"]
                rig.grant(call)
                time.sleep(0.1)
                rig.end(call, guest={})
                self.assertEqual(rig.wait(), 0)
            sink.seek(0)
            answers = [json.loads(line) for line in sink.read().splitlines()]
            self.assertEqual([a["id"] for a in answers], [1, 2])

    def test_input_from_dev_null(self):
        with Rig(stdin=os.open("/dev/null", os.O_RDONLY)) as rig:
            self.assertEqual(rig.wait(), 0)

    def test_terminal(self):
        master, slave = pty.openpty()
        tty.setraw(slave)
        with Rig(stdin=os.dup(slave), stdout=os.dup(slave)) as rig:
            os.close(slave)
            os.write(master, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n')
            text = b""
            while not text.endswith(b"\n"):
                text += os.read(master, 65536)
            self.assertEqual(len(json.loads(text)["result"]["tools"]), 12)
            os.close(master)
            self.assertEqual(rig.wait(), 0)

    def test_pipe_flags_are_put_back(self):
        read_end, write_end = os.pipe()
        with Rig(stdout=os.dup(write_end)) as rig:
            rig.request("ping")
            self.assertTrue(os.read(read_end, 4096))
            rig.close_input()
            self.assertEqual(rig.wait(), 0)
        self.assertTrue(os.get_blocking(write_end))
        os.close(read_end)
        os.close(write_end)

    def test_stop_answers_first(self):
        with Rig() as rig:
            rig.call("execute_code", BASH, id=1)
            call = rig.submitted()["call"]
            rig.grant(call)
            rig.spec(call)
            rig.supervisor.send(ipcrows.encode("stop", grace_ms=1000))
            result = rig.message(1)["result"]
            self.assertEqual(result["structuredContent"]["status"], "cancelled")
            self.assertEqual(rig.broker_row("call_cancel")[1]["call"], call)
            self.assertEqual(rig.wait(), 0)

    def test_supervisor_gone(self):
        with Rig() as rig:
            rig.supervisor.close()
            self.assertNotEqual(rig.wait(), 0)

    def test_killed_early_leaves_nothing(self):
        for delay in (0, 0.002, 0.02):
            rig = Rig()
            time.sleep(delay)
            rig.close()
            self.assertEqual(rig.status, -9)


class Confined(unittest.TestCase):
    def test_layers(self):
        with Rig() as rig:
            if not rig.filtered():
                self.skipTest("a build without filters")
            self.assertTrue(rig.ready["layers"] & 4, "no no_new_privs")
            with open(f"/proc/{rig.pid}/status", encoding="ascii") as f:
                status = dict(re.findall(r"^(\w+):\s+(.*)$", f.read(), flags=re.M))
            self.assertEqual(status["Seccomp"], "2")
            self.assertEqual(status["NoNewPrivs"], "1")
            self.assertEqual(int(status["CapEff"], 16), 0)

    def test_small_when_idle(self):
        with Rig() as rig:
            rig.initialize()
            rig.ask("tools/list", id=2)
            if not rig.filtered():
                self.skipTest("a build with a sanitizer's memory")
            self.assertLess(rig.pss_kb(), 2500)


if __name__ == "__main__":
    tap.main()
