#!/usr/bin/env python3
"""guest-init with many runs: at once, one after the other, and files; in real containers."""

import hashlib
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import guestclient
import tap
from guestcase import Case
from guestclient import (ARGV, BASH_CODE, COMMAND, ENDED, EXITED, FILE_LIST, FILE_READ, FILE_WRITE,
                         FORK_FAILED, NOT_STARTED, PYTHON, PYTHON_CODE, RUNS_MAX, SIGNALED,
                         SPEC_APPEND, SPEC_LIVE, SPEC_STDIN, SPEC_TRUNCATE, TIMED_OUT, WARM, WINDOW)

MIB = 1 << 20
ENOENT, EAGAIN, EACCES, EBUSY, EISDIR, EINVAL, ENOSPC, EXDEV = 2, 11, 13, 16, 21, 22, 28, 18


class Many(Case):
    def test_one_after_the_other(self):
        box = self.box()
        for i in range(20):
            run = box.run(COMMAND, f"echo {i}; echo e{i} >&2; exit {i}")
            self.assertEqual((run.stdout, run.stderr), (b"%d\n" % i, b"e%d\n" % i))
            self.assertEnded(run, i)
        self.assertEqual(self.left(box), [])

    def test_state_stays(self):
        box = self.box()
        box.run(COMMAND, "echo kept > /workspace/file; cd /tmp; export A=1")
        run = box.run(COMMAND, "cat file; pwd; echo [$A]")
        self.assertEqual(run.stdout, b"kept\n/workspace\n[]\n")

    def test_all_at_once(self):
        box = self.box()
        runs = [box.start_run(COMMAND, f"read x; echo $x; sleep 0.2; exit {i}", flags=SPEC_STDIN)
                for i in range(RUNS_MAX)]
        refused = box.start_run(COMMAND, "echo no")
        box.wait_exit(run=refused)
        self.assertEqual((refused.exit["how"], refused.exit["exit_code"], refused.exit["flags"]),
                         (NOT_STARTED, EBUSY, FORK_FAILED))
        for i, run in reversed(list(enumerate(runs))):
            box.send_stdin(b"%d\n" % i, run)
            box.end_stdin(run)
        for i, run in enumerate(runs):
            self.assertEnded(box.wait_exit(run=run), i)
            self.assertEqual(run.stdout, b"%d\n" % i)
        self.assertEnded(box.run(COMMAND, "exit 3"), 3)
        self.assertEqual(self.left(box), [])

    def test_input_of_one_is_not_held_by_another(self):
        """cat ends when its input does, whatever was forked meanwhile."""
        box = self.box()
        first = box.start_run(COMMAND, "cat", flags=SPEC_STDIN)
        others = [box.start_run(COMMAND, "sleep 2") for _ in range(3)]
        box.end_stdin(first)
        self.assertEnded(box.wait_exit(2, first))
        self.assertIsNone(others[0].exit)

    def test_each_ends_alone(self):
        box = self.box()
        stays = box.start_run(COMMAND, "trap 'echo x' TERM; echo on; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; echo done")
        box.wait(lambda: stays.stdout)
        timed = box.start_run(COMMAND, "(setsid sleep 30 &); sleep 30", timeout_ms=200)
        asked = box.start_run(COMMAND, "sleep 30 & sleep 30")
        killed = box.start_run(COMMAND, "(setsid sleep 30 &); kill -9 $PPID; sleep 30")
        failed = box.start_run(ARGV, "", args=["no-such-program"])
        box.end_run(asked)
        for run, flags, how in ((timed, TIMED_OUT, SIGNALED), (asked, ENDED, SIGNALED),
                                (killed, 0, SIGNALED), (failed, FORK_FAILED, NOT_STARTED)):
            box.wait_exit(run=run)
            self.assertEqual((run.exit["flags"], run.exit["how"]), (flags, how))
        self.assertEnded(box.wait_exit(run=stays))
        self.assertEqual(stays.stdout, b"on\ndone\n")
        self.assertEqual(self.left(box), [])

    def test_a_run_that_kills_everything_ends_the_others_too(self):
        """They share one user; the sandbox itself goes on."""
        box = self.box()
        other = box.start_run(COMMAND, "echo on; sleep 30")
        box.wait(lambda: other.stdout)
        run = box.run(COMMAND, "kill -9 -1; echo never")
        box.wait_exit(run=other)
        for one in (run, other):
            self.assertEqual((one.exit["how"], one.exit["signal"]), (SIGNALED, 9))
        for i in range(3):
            self.assertEnded(box.run(COMMAND, f"exit {i}"), i)

    def test_flood_of_one(self):
        box = self.box()
        flood = box.start_run(COMMAND, "yes")
        times = []
        for i in range(20):
            started = time.perf_counter()
            self.assertEqual(box.run(COMMAND, f"echo {i}").stdout, b"%d\n" % i)
            times.append(time.perf_counter() - started)
        self.assertIsNone(flood.exit)
        self.assertLess(sorted(times)[len(times) // 2], 0.1)
        box.end_run(flood)
        self.assertEqual(len(box.wait_exit(run=flood).stdout), MIB)

    def test_no_credit_for_one(self):
        box = self.box()
        box.auto_credit = False
        stuck = box.start_run(COMMAND, "head -c 700000 /dev/zero; sleep 30")
        box.wait(lambda: len(stuck.stdout) == WINDOW)
        for i in range(5):
            self.assertEnded(box.run(COMMAND, "head -c 200000 /dev/zero"))
        box.end_run(stuck)
        box.wait(lambda: False, 0.2)
        self.assertIsNone(stuck.exit)  # its output is wanted first

    def test_no_process_left(self):
        box = self.box(pids=8)
        hold = box.start_run(COMMAND, "echo on; for i in 1 2 3 4 5 6 7 8; do sleep 30 & done; wait; sleep 30")
        box.wait(lambda: hold.stdout)
        time.sleep(0.3)
        run = box.run(COMMAND, "echo no")
        self.assertEqual((run.exit["how"], run.exit["flags"]), (NOT_STARTED, FORK_FAILED))
        self.assertEqual(run.exit["exit_code"], EAGAIN)
        box.end_run(hold)
        box.wait_exit(run=hold)
        self.assertEnded(box.run(COMMAND, "echo yes"))

    def test_nothing_leaks(self):
        """Descriptors, processes and memory of PID 1 are as before after a thousand runs."""
        box = self.box()
        pid = guestclient.engine("GET", f"/containers/{box.id}/json")["State"]["Pid"]

        def held():
            time.sleep(0.1)
            box.run(COMMAND, ":")
            time.sleep(0.1)
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as handle:
                rss = next(int(line.split()[1]) for line in handle if line.startswith("Rss:"))
            return len(os.listdir(f"/proc/{pid}/fd")), len(self.inside(box)), rss

        try:
            for _ in range(100):
                box.run(COMMAND, "echo x; (sleep 9 &)")
            before = held()
            for i in range(1000):
                box.run(COMMAND, "echo x; (sleep 9 &)" if i % 50 == 0 else "echo x")
            after = held()
        except OSError as error:
            self.skipTest(f"the engine's processes are not visible: {error}")
        self.assertEqual(after[:2], before[:2])
        self.assertLess(after[2], before[2] + 64)

    def test_later_runners_are_as_the_first(self):
        """Walls, oom score, processors, nothing inherited: of a runner forked ahead, of one forked late."""
        script = ("for p in 1 $PPID; do for f in mem fd environ maps; do cat /proc/$p/$f >/dev/null 2>&1 && echo $p $f; "
                  "ls /proc/$p/fd >/dev/null 2>&1 && echo fd; done; done; cat /proc/self/oom_score_adj; "
                  "ls -l /proc/self/fd | grep -c -v -e ' 0 -> pipe' -e ' 1 -> pipe' -e ' 2 -> pipe' -e /proc -e total; "
                  "grep -e SigBlk -e Cpus_allowed_list /proc/self/status; ps -o ppid= $PPID; sleep 0.1")
        box = self.box(affinity=1)
        runs = [box.start_run(COMMAND, script) for _ in range(3)]
        for run in runs:
            box.wait_exit(run=run)
        runs += [box.run(COMMAND, script) for _ in range(2)]
        self.assertEqual({run.stdout for run in runs}, {runs[0].stdout})
        words = runs[0].stdout.split()
        self.assertEqual((words[:2], words[-3:]), ([b"1000", b"0"], [b"Cpus_allowed_list:", b"0", b"1"]))

    def test_only_parts_then_end(self):
        box = self.box()
        box.run_number = 1
        run = box.current = box.runs[1] = guestclient.Run(1)
        box.send("h_spec", b"\x9b\x04", 1)
        box.end_run(run)
        box.wait_exit()
        self.assertEqual((run.exit["how"], run.exit["flags"]), (NOT_STARTED, ENDED))
        self.assertEnded(box.run(COMMAND, ":"))

    def test_late_frames_are_nothing(self):
        box = self.box()
        run = box.run(COMMAND, "echo x")
        box.send("h_credit", b"\xff\xff\xff\xff\x00\x00\x00\x00", run.number, 1)
        box.send_stdin(b"late", run)
        box.end_stdin(run)
        box.end_run(run)
        self.assertEnded(box.run(COMMAND, "echo y"))

    def test_waiting_interpreter_is_left_for_its_run(self):
        box = self.ready(PYTHON)
        box.run(FILE_WRITE, "module.py", stdin=b"x = 7\n")
        run = box.run(PYTHON_CODE, "import module; print(module.x)")
        self.assertEqual((run.stdout, run.exit["start"]), (b"7\n", WARM))
        self.assertEqual(box.run(PYTHON_CODE, "print(8)").stdout, b"8\n")

    def test_another_run_ends_the_waiting_interpreter(self):
        box = self.ready(PYTHON)
        self.assertEqual(box.run(BASH_CODE, "echo b").stdout, b"b\n")
        time.sleep(0.05)
        self.assertEqual(self.left(box), [])
        run = box.run(PYTHON_CODE, "print(1)", flags=SPEC_LIVE)
        self.assertEqual(run.stdout, b"1\n")


class Argv(Case):
    def test_words_as_given(self):
        run = self.box().run(ARGV, "", args=["printf", "%s|", "a b", "$HOME", "", "*"])
        self.assertEqual(run.stdout, b"a b|$HOME||*|")
        self.assertEnded(run)

    def test_path_and_directory(self):
        box = self.box()
        box.run(COMMAND, "mkdir -p bin sub; printf '#!/bin/sh\\necho here $0\\n' > bin/prog; chmod +x bin/prog; cp bin/prog sub")
        self.assertEqual(box.run(ARGV, "", args=["/workspace/bin/prog"]).stdout, b"here /workspace/bin/prog\n")
        self.assertEqual(box.run(ARGV, "", args=["./prog"], cwd="/workspace/sub").stdout, b"here ./prog\n")
        self.assertEqual(box.run(ARGV, "", args=["prog"], env=["PATH=/workspace/bin:/bin"]).stdout,
                         b"here /workspace/bin/prog\n")
        for args, error in ((["prog"], ENOENT), (["bin/none"], ENOENT), (["/workspace"], EACCES), ([""], ENOENT)):
            run = box.run(ARGV, "", args=args)
            self.assertEqual((run.exit["how"], run.exit["exit_code"], run.exit["flags"]),
                             (NOT_STARTED, error, FORK_FAILED), args)

    def test_input(self):
        self.assertEqual(self.box().run(ARGV, "", args=["cat"], stdin=b"text").stdout, b"text")


class Files(Case):
    def test_round_trip(self):
        box = self.box()
        for data in (b"", b"x", bytes(range(256)) * 700, os.urandom(3 * MIB + 1)):
            run = box.run(FILE_WRITE, "dir/sub/file", stdin=data, flags=SPEC_TRUNCATE)
            self.assertEqual((run.exit["how"], run.exit["exit_code"], run.exit["size"]), (EXITED, 0, len(data)))
            run = box.run(FILE_READ, "/workspace/dir/sub/file")
            self.assertEqual((run.exit["how"], run.exit["exit_code"], run.exit["size"]), (EXITED, 0, len(data)))
            self.assertEqual(run.stdout, data)
        self.assertEqual(box.run(COMMAND, "stat -c %a%U dir dir/sub dir/sub/file").stdout,
                         b"755bailey\n755bailey\n644bailey\n")

    def test_hundred_megabytes(self):
        box = self.box(workspace_mb=192)
        data = os.urandom(MIB) * 100
        started = time.monotonic()
        run = box.run(FILE_WRITE, "big", stdin=data, timeout_ms=60000, timeout=60)
        self.assertEqual((run.exit["exit_code"], run.exit["size"]), (0, len(data)))
        wrote = time.monotonic()
        run = box.run(FILE_READ, "big", timeout_ms=60000, timeout=60)
        print(f"# wrote in {wrote - started:.2f} s, read in {time.monotonic() - wrote:.2f} s")
        self.assertEqual(hashlib.sha256(run.stdout).digest(), hashlib.sha256(data).digest())
        self.assertEqual((run.exit["stdout_bytes"], run.exit["stdout_dropped"]), (len(data), 0))

    def test_pieces(self):
        box = self.box()
        box.run(FILE_WRITE, "f", stdin=b"0123456789", mode=0o750)
        self.assertEqual(box.run(FILE_READ, "f", offset=3, length=4).stdout, b"3456")
        box.run(FILE_WRITE, "f", stdin=b"ab", offset=2)
        box.run(FILE_WRITE, "f", stdin=b"end", flags=SPEC_APPEND)
        self.assertEqual(box.run(COMMAND, "cat f; stat -c %a f").stdout, b"01ab456789end750\n")
        self.assertEqual(box.run(FILE_WRITE, "f", flags=SPEC_TRUNCATE).exit["size"], 0)
        self.assertEqual(box.run(FILE_WRITE, "/tmp/t", stdin=b"t").exit["exit_code"], 0)
        self.assertEqual(box.run(FILE_READ, "/tmp/t").stdout, b"t")

    def test_past_the_walls(self):
        box = self.box()
        box.run(COMMAND, "ln -s /etc/passwd out; ln -s /proc/1 proc; ln -s / root; mkfifo pipe; mkdir d; "
                         "ln -s /proc/self/fd/0 magic; ln -s /dev/null null")
        for path, error in (("/etc/passwd", EXDEV), ("../etc/passwd", EXDEV), ("out", EXDEV), ("proc/environ", EXDEV),
                            ("root/etc/passwd", EXDEV), ("magic", EXDEV), ("null", EXDEV), ("pipe", EINVAL),
                            ("d", EISDIR), ("/proc/self/environ", EXDEV), ("/workspace/../proc/1/mem", EXDEV)):
            for kind in (FILE_READ, FILE_WRITE):
                run = box.run(kind, path)
                self.assertEqual((run.exit["how"], run.exit["exit_code"]), (EXITED, error), path)
        self.assertEqual(box.run(FILE_READ, "none").exit["exit_code"], ENOENT)

    def test_pipe_does_not_hold_the_guest(self):
        box = self.box()
        reader = box.start_run(COMMAND, "mkfifo p; echo made; cat p; echo read")
        box.wait(lambda: reader.stdout)
        self.assertEqual(box.run(FILE_WRITE, "p", stdin=b"x").exit["exit_code"], EINVAL)
        box.send("h_ping")
        box.wait_frame("g_pong")

    def test_full(self):
        box = self.box(workspace_mb=2)
        run = box.run(FILE_WRITE, "big", stdin=b"x" * (4 * MIB))
        self.assertEqual((run.exit["how"], run.exit["exit_code"]), (EXITED, ENOSPC))
        self.assertTrue(MIB < run.exit["stdout_bytes"] < 2 * MIB + 1, run.exit)
        self.assertEqual(run.exit["size"], run.exit["stdout_bytes"])
        self.assertEnded(box.run(COMMAND, "rm big"))

    def test_list(self):
        box = self.box()
        box.run(COMMAND, "mkdir -p a/b; echo text > a/f; ln -s a link; mkfifo p; touch -d @1700000000 a/b/deep; : > $'n\\nl'")
        run = box.run(FILE_LIST, "/workspace", length=3)
        entries = sorted((entry.split(b" ", 4) for entry in run.stdout.split(b"\0")[:-1]), key=lambda e: e[4])
        self.assertEqual(run.exit["size"], len(entries))
        self.assertEqual([(e[0], e[1], e[4]) for e in entries],
                         [(b"d", b"755", b"a"), (b"d", b"755", b"a/b"), (b"f", b"644", b"a/b/deep"),
                          (b"f", b"644", b"a/f"), (b"l", b"777", b"link"), (b"f", b"644", b"n\nl"), (b"o", b"644", b"p")])
        self.assertIn([b"f", b"644", b"0", b"1700000000", b"a/b/deep"], entries)
        self.assertEqual(box.run(FILE_LIST, "a").stdout.count(b"\0"), 2)

    def test_links_swapped_meanwhile(self):
        """A workload that turns a directory into a link out of the sandbox, again and again."""
        box = self.box()
        box.run(COMMAND, "mkdir -p real/etc; echo inside > real/etc/passwd; ln -s / out")
        swap = box.start_run(PYTHON_CODE, "import os\nwhile True:\n    for to in ('real', 'out'):\n"
                             "        try: os.unlink('way')\n        except OSError: pass\n"
                             "        os.symlink(to, 'way')\n", flags=SPEC_LIVE)
        seen = set()
        for _ in range(300):
            run = box.run(FILE_READ, "way/etc/passwd")
            seen.add(run.exit["exit_code"])
            self.assertIn(run.stdout, (b"", b"inside\n"))
        self.assertLessEqual(seen, {0, ENOENT, EXDEV, EAGAIN})
        box.end_run(swap)
        box.wait_exit(run=swap)

    def test_beside_a_run(self):
        box = self.box()
        run = box.start_run(COMMAND, "until [ -e go ]; do sleep 0.01; done; cat go")
        box.run(FILE_WRITE, "go.part", stdin=b"now")
        box.run(COMMAND, "mv go.part go")
        self.assertEnded(box.wait_exit(run=run))
        self.assertEqual(run.stdout, b"now")


if __name__ == "__main__":
    why = guestclient.unavailable()
    if why:
        tap.skip_all(why)
    tap.main()
