#!/usr/bin/env python3
"""The guest stream, spoken with guest-init in real containers: rules, torn frames, new sessions,
and each reason for which a sandbox ends itself."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import struct
import threading
import time

import guestclient
import pace
import tap
from guestcase import Case
from guestclient import COMMAND, Box


class Stream(Case):
    def waiting_for_code(self, box):
        """Asks for the exit code of PID 1; before its end, because the container goes with it."""
        box.code = None

        def ask():
            answer = guestclient.engine("POST", f"/containers/{box.id}/wait?condition=removed", ok=(200, 404))
            box.code = answer.get("StatusCode") if isinstance(answer, dict) else None
        thread = threading.Thread(target=ask)
        thread.start()
        self.addCleanup(thread.join, 10)
        time.sleep(0.05)
        return thread

    def assertCode(self, box, code, act, within=5, ping=False):
        """act makes PID 1 end with that code, in at most that many seconds."""
        thread = self.waiting_for_code(box)
        measure = pace.Measure()
        try:
            act()
        except OSError:
            pass
        box.wait_gone(within + 3, ping=ping)
        thread.join(10)
        self.assertLess(measure.ours(), within, measure)
        self.assertEqual(box.code, code)

    def test_no_hello(self):
        box = Box(hello=False)
        self.addCleanup(box.close)
        self.assertCode(box, 82, lambda: None, within=8)

    def test_silence(self):
        box = self.box(deadman_ms=1000)
        self.assertCode(box, 81, lambda: box.start_run(COMMAND, "sleep 30"))

    def test_silence_after_hello(self):
        """A hello that came with the start is of a broker that may be dead: less is borne then."""
        box = Box(deadman_ms=8000)
        self.addCleanup(box.close)
        box.greets = False
        self.assertCode(box, 81, lambda: None, within=6.5)

    def test_pings_keep_it_alive(self):
        box = self.box(deadman_ms=1500)
        self.assertFalse(box.wait_gone(3, ping=True))

    def test_lifetime(self):
        box = self.box(lifetime_s=1)
        self.assertCode(box, 83, lambda: None, ping=True)

    def test_stop_by_the_engine(self):
        box = self.box()
        run = lambda: (box.start_run(COMMAND, "sleep 30"), time.sleep(0.1),
                       guestclient.engine("POST", f"/containers/{box.id}/kill?signal=SIGTERM"))
        self.assertCode(box, 0, run)

    def test_frozen_and_thawed(self):
        """Time it was not running is not silence, when the pings are there after it."""
        box = self.box(deadman_ms=2000)
        guestclient.engine("POST", f"/containers/{box.id}/pause")
        for _ in range(25):
            box.send("h_ping")
            time.sleep(0.1)
        guestclient.engine("POST", f"/containers/{box.id}/unpause")
        self.assertFalse(box.wait_gone(1, ping=True))
        self.assertEqual(box.run(COMMAND, "echo on").stdout, b"on\n")

    def test_broken_rules(self):
        hello = lambda box: guestclient.pack_fields("h_hello", box.values)
        tries = {
            "second hello": lambda box: box.send("h_hello", hello(box)),
            "hole in the sequence": lambda box: box.send("h_spec", b"x", 1, seq=7),
            "repeated sequence": lambda box: (box.send("h_spec", b"x", 1, seq=1), box.send("h_spec", b"x", 1, seq=1)),
            "run zero": lambda box: box.send("h_spec", b"x", 0),
            "a part for a run that goes on": lambda box: (box.start_run(COMMAND, "sleep 9"), box.send("h_spec", b"x", 1)),
            "stdin before its run": lambda box: (box.send("h_spec", b"x", 1), box.send("h_stdin", b"x", 1)),
            "acknowledged what was not sent": lambda box: box.send("h_ack", struct.pack("<Q", 9)),
            "credit for stdin": lambda box: box.send("h_credit", struct.pack("<Q", 9), 0, 0),
            "sync with a wrong secret": lambda box: box.sync(secret=bytes(32)),
            "sync from the future": lambda box: box.sync(last_guest_seq=5),
        }
        for name, act in tries.items():
            with self.subTest(name):
                box = self.box()
                self.assertCode(box, 84, lambda: act(box))

    def test_first_frame_must_be_the_hello(self):
        for name in ("h_ping", "h_stdin_eof"):
            box = Box(hello=False)
            self.addCleanup(box.close)
            self.assertCode(box, 84, lambda: box.send(name, b"", 1 if name != "h_ping" else 0))

    def test_hello_of_another_version(self):
        box = Box(hello=False)
        self.addCleanup(box.close)
        box.values["version"] = 99
        self.assertCode(box, 84, lambda: box.send("h_hello", guestclient.pack_fields("h_hello", box.values)))

    def test_hello_of_a_class_that_is_none(self):
        box = Box(hello=False)
        self.addCleanup(box.close)
        box.values["box_class"] = 4
        self.assertCode(box, 84, lambda: box.send("h_hello", guestclient.pack_fields("h_hello", box.values)))

    def test_torn_frame_then_sync(self):
        """At whatever byte a broker died: padding, SYNC, and the stream goes on."""
        for cut in (1, 2, 3, 4, 8, 15, 16, 17, 20, 500, 1015, 1019):
            with self.subTest(cut):
                box = self.box()
                whole = box.frame("h_spec", b"\x01" * 1000, 1, seq=1)
                box.sock.sendall(whole[:cut])
                nonce = box.sync()
                frame = box.wait_frame("g_sync_ack")
                self.assertEqual(guestclient.unpack_fields("g_sync_ack", frame[4]),
                                 {"nonce": nonce, "last_host_seq": 0})
                self.assertEqual(box.run(COMMAND, "echo on").stdout, b"on\n")

    def test_wrong_checksum_is_not_acted_on(self):
        box = self.box()
        data = guestclient.encode_spec(COMMAND, "touch /tmp/acted")
        bad = bytearray(box.frame("h_run", data, 1, seq=1))
        bad[-1] ^= 1
        box.sock.sendall(bad)
        box.sync(padding=False)
        box.wait_frame("g_sync_ack")
        self.assertEqual(box.run(COMMAND, "ls /tmp").stdout, b"")

    def test_after_a_torn_frame_only_sync_is_read(self):
        for name, act in {"ping": lambda box: box.send("h_ping"), "garbage": lambda box: box.sock.sendall(b"\x7f" * 40),
                          "wrong secret": lambda box: box.sync(secret=bytes(32))}.items():
            with self.subTest(name):
                box = self.box()
                bad = bytearray(box.frame("h_ping"))
                bad[-1] ^= 1

                def both():
                    box.sock.sendall(bad)
                    act(box)
                self.assertCode(box, 84, both)

    def test_padding_between_frames(self):
        box = self.box()  # its hello was answered by a ping as well
        for n in (1, 3, 16, 70000):
            box.sock.sendall(bytes(n) + box.frame("h_ping"))
        self.assertTrue(box.wait(lambda: sum(f[0] == "g_pong" for f in box.frames) == 4 + 1, 5))

    def test_new_session_gets_what_was_lost(self):
        """The connection breaks while output flows; the next one asks from where it has it."""
        box = self.box()
        run = box.start_run(COMMAND, "for i in {1..40000}; do echo $i; done; exit 6", timeout_ms=20000)
        box.auto_ack = False
        box.wait(lambda: len(run.stdout) > 20000)
        seq, have = box.guest_seq, len(run.stdout)
        box.reattach()
        nonce = box.sync(last_guest_seq=seq)
        end = time.monotonic() + 10
        while box.inbox[16:32] != nonce and time.monotonic() < end:
            # Anything may come before the answer: a broker looks for nothing else.
            data = box.sock.recv(1 << 20)
            box._feed(data)
            at = box.inbox.find(nonce)
            if at >= 16:
                del box.inbox[:at - 16]
        box.auto_ack = True
        box.wait(lambda: run.exit is not None, 15)
        self.assertEqual(run.stdout[:have + 100], b"".join(b"%d\n" % i for i in range(1, 40001))[:have + 100])
        self.assertEqual(run.stdout, b"".join(b"%d\n" % i for i in range(1, 40001)))
        self.assertEqual(run.exit["exit_code"], 6)

    def test_sync_in_a_whole_session(self):
        box = self.box()
        box.run(COMMAND, "echo hi")
        box.sync()
        frame = box.wait_frame("g_sync_ack")
        self.assertEqual(guestclient.unpack_fields("g_sync_ack", frame[4])["last_host_seq"], 1)

    def test_host_frames_are_acknowledged(self):
        box = self.box()
        box.run(COMMAND, "echo hi")
        acks = lambda: [struct.unpack("<Q", f[4])[0] for f in box.frames if f[0] == "g_ack"]
        self.assertTrue(box.wait(lambda: acks() and acks()[-1] == 1, 2))

    def test_byte_by_byte(self):
        box = self.box()
        box.current, box.run_number = guestclient.Run(1), 1
        for byte in box.frame("h_run", guestclient.encode_spec(COMMAND, "echo slow"), 1):
            box.sock.sendall(bytes([byte]))
        self.assertEqual(box.wait_exit().stdout, b"slow\n")


if __name__ == "__main__":
    why = guestclient.unavailable()
    if why:
        tap.skip_all(why)
    tap.main()
