#!/usr/bin/env python3
"""guest-init itself, in real containers: how runs start and end, what they write and read, what
is left of them, and what they cannot do to what watches them."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import struct
import subprocess
import time

import guestclient
import tap
from guestcase import Case
from guestclient import (BASH_CODE, COMMAND, ENDED, FORK_FAILED, LIVE, NODE, NODE_CODE,
                         NOT_STARTED, OUTPUT_LIMIT, PYTHON, PYTHON_CODE, SHELL, SIGNALED, SPEC_LIVE,
                         TIMED_OUT, TMP_FULL, WARM, WINDOW, WORKSPACE_FULL, Box)

MIB = 1 << 20
SOON = 4  # seconds: long for what takes milliseconds, short beside what it must not wait for


class Starts(Case):
    def test_hello_names_version_and_user(self):
        box = self.box()
        hello = guestclient.unpack_fields("g_hello", box.frames[0][4])
        self.assertEqual((box.frames[0][0], hello["version"], hello["uid"]), ("g_hello", guestclient.VERSION, 10001))

    def test_ping_is_answered(self):
        box = self.box()
        box.send("h_ping")
        box.wait_frame("g_pong")

    def test_bash(self):
        run = self.box().run(BASH_CODE, "echo $0 $# $1\necho err >&2\nexit 3\n", args=["a b"])
        self.assertEqual((run.stdout, run.stderr), (b"main.sh 1 a b\n", b"err\n"))
        self.assertEnded(run, 3)
        self.assertEqual(run.exit["start"], WARM)

    def test_command(self):
        run = self.shell("echo \"$0 $*\"; pwd; false", args=["x", "y z"])
        self.assertEqual(run.stdout, b"bash x y z\n/workspace\n")
        self.assertEnded(run, 1)

    def test_command_in_another_directory(self):
        self.assertEqual(self.shell("pwd", cwd="/tmp").stdout, b"/tmp\n")

    def test_a_directory_that_is_not_there(self):
        run = self.shell("pwd", cwd="/nowhere")
        self.assertEqual((run.exit["how"], run.exit["exit_code"], run.exit["flags"]),
                         (NOT_STARTED, 2, FORK_FAILED))

    def test_command_as_long_as_an_argument(self):
        run = self.shell("echo begin\n" + "#" * (131071 - 20) + "\necho end")
        self.assertEqual(run.stdout, b"begin\nend\n")

    def test_code_of_a_mebibyte(self):
        box = self.ready(PYTHON)
        run = box.run(PYTHON_CODE, "x = '" + "y" * (MIB - 30) + "'\nprint(len(x))")
        self.assertEqual(run.stdout, b"1048546\n")
        self.assertEqual(run.exit["start"], WARM)

    def test_waiting_python_is_used(self):
        run = self.ready(PYTHON).run(PYTHON_CODE, "import sys; print(sys.argv)", args=["a"])
        self.assertEqual((run.stdout, run.exit["start"]), (b"['main.py', 'a']\n", WARM))

    def test_waiting_node_is_used(self):
        run = self.ready(NODE).run(NODE_CODE, "console.log(process.argv.slice(1))", args=["a"])
        self.assertEqual((run.stdout, run.exit["start"]), (b"[ '/workspace/main.js', 'a' ]\n", WARM))

    def test_waiting_bash_is_used(self):
        """It was there before its run: so its number is smaller than that of a process made meanwhile."""
        box = self.ready(SHELL)
        time.sleep(0.1)
        run = box.run(BASH_CODE, "echo $0 $#; cat; echo $$; (echo $BASHPID)", stdin=b"in\n")
        *words, own, child = run.stdout.split()
        self.assertEqual((words, run.exit["start"]), ([b"main.sh", b"0", b"in"], WARM))
        self.assertGreater(int(child), int(own) + 1, "the spare runner was made between them")
        self.assertEqual(box.run(BASH_CODE, "echo again").stdout, b"again\n")

    def test_waiting_bash_makes_way(self):
        """For whatever it cannot serve; soon nothing of it is left, and its runner serves the next."""
        count = "sleep 0.2; n=0; for f in /proc/[0-9]*/comm; do read -r x <$f; [[ $x == bash ]] && n=$((n+1)); done; echo $n"
        tries = {"command": (COMMAND, {}), "arguments": (BASH_CODE, {"args": ["a"]}),
                 "environment": (BASH_CODE, {"env": ["A=1"]}), "directory": (BASH_CODE, {"cwd": "/tmp"})}
        for name, (kind, spec) in tries.items():
            with self.subTest(name):
                box = self.ready(SHELL)
                run = box.run(kind, count, **spec)
                self.assertEqual((run.stdout, run.exit["start"], run.exit["leftovers"]), (b"1\n", WARM, 0))
                self.assertEqual([box.run(kind, "echo x", **spec).stdout for _ in range(3)], [b"x\n"] * 3)

    def test_nothing_waits_unasked(self):
        box = self.box(guestclient.NOTHING)
        self.assertEqual(box.run(COMMAND, "sleep 0.2; cat /proc/[0-9]*/comm >names; grep -c bash names").stdout, b"1\n")
        self.assertNotIn("g_ready", [frame[0] for frame in box.frames])

    def test_many_arguments_and_variables(self):
        args = ["%d" % i * 50 for i in range(1000)]
        env = ["V%d=%s" % (i, "x" * 200) for i in range(500)]
        code = "import sys, os; print(len(sys.argv), sum(map(len, sys.argv)), sum(k[0] == 'V' for k in os.environ))"
        run = self.ready(PYTHON).run(PYTHON_CODE, code, args=args, env=env)
        self.assertEqual(run.stdout.decode().split(), ["1001", str(sum(map(len, args)) + 7), "500"])

    def test_run_that_comes_with_the_hello(self):
        """A cold call: nothing may be started ahead of it."""
        for box_class, kind, code in ((SHELL, COMMAND, "echo hi"), (PYTHON, PYTHON_CODE, "print('hi')")):
            box = Box(box_class, hello=False)
            self.addCleanup(box.close)
            box.sock.sendall(box.frame("h_hello", guestclient.pack_fields("h_hello", box.values)))
            run = box.run(kind, code)
            self.assertEqual(run.stdout, b"hi\n")
            self.assertEqual(run.exit["start"], WARM if box_class == SHELL else LIVE)

    def test_what_a_waiting_interpreter_cannot_serve_is_started(self):
        tries = {
            "asked": {"flags": SPEC_LIVE},
            "PYTHONPATH": {"env": ["PYTHONPATH=/tmp"]},
            "PYTHONHASHSEED": {"env": ["PYTHONHASHSEED=1"]},
            "TZ": {"env": ["TZ=Asia/Tokyo"]},
            "LC_ALL": {"env": ["LC_ALL=C"]},
            "LD_PRELOAD": {"env": ["LD_PRELOAD="]},
            "HOME": {"env": ["HOME=/tmp"]},
            "PATH": {"env": ["PATH=/usr/bin"]},
            "directory": {"cwd": "/tmp"},
        }
        code = "import os, time; print(os.environ.get('PYTHONPATH'), time.tzname[0], os.getcwd())"
        for name, spec in tries.items():
            with self.subTest(name):
                run = self.ready(PYTHON).run(PYTHON_CODE, code, **spec)
                self.assertEnded(run)
                self.assertEqual(run.exit["start"], LIVE)
                self.assertEqual(run.exit["leftovers"], 0)
                self.assertEqual(run.stdout.decode().split(),
                                 ["/tmp" if name == "PYTHONPATH" else "None",
                                  "JST" if name == "TZ" else "UTC",
                                  "/tmp" if name == "directory" else "/workspace"])

    def test_other_language_in_a_waiting_box(self):
        self.assertEqual(self.ready(PYTHON).run(NODE_CODE, "console.log(1)").stdout, b"1\n")
        self.assertEqual(self.ready(NODE).run(COMMAND, "echo 2; sleep 0.2; ps -e | grep -c node").stdout, b"2\n0\n")

    def test_live_node_has_require_in_modules_too(self):
        run = self.box().run(NODE_CODE, "await 1; console.log(require('os').EOL === '\\n', process.execArgv)")
        self.assertEqual(run.stdout, b"true []\n")
        run = self.ready(NODE).run(NODE_CODE, "await 1; console.log(require('os').EOL === '\\n')")
        self.assertEqual(run.stdout, b"true\n")

    def test_environment(self):
        run = self.box(cpus=2).run(COMMAND, "exec env -u PWD -u SHLVL -u _", env=["B=2", "USER=me", "A=1", "A=3"])
        self.assertEqual(sorted(run.stdout.decode().split()), sorted([
            "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace", "LANG=C.UTF-8", "PYTHON_CPU_COUNT=2",
            "XDG_CACHE_HOME=/tmp/.cache", "MPLCONFIGDIR=/tmp/.matplotlib",
            "OMP_NUM_THREADS=2", "UV_THREADPOOL_SIZE=4", "B=2", "USER=me", "A=3"]))

    def test_processors(self):
        for cpus in (1, 2):
            code = ("import os, subprocess as s; print(os.cpu_count(), s.getoutput('nproc'), "
                    "s.getoutput('node -p \"os.cpus().length\"'), s.getoutput('getconf _NPROCESSORS_ONLN'))")
            run = self.ready(PYTHON, cpus=cpus, affinity=(1 << cpus) - 1).run(PYTHON_CODE, code)
            self.assertEqual(run.stdout.decode().split(), [str(cpus)] * 4)

    def test_broken_specification_fails_the_run_only(self):
        box = self.box()
        box.current = guestclient.Run(1)
        box.send("h_run", b"\xff\xff", 1)
        run = box.wait_exit()
        self.assertEqual((run.exit["how"], run.exit["exit_code"]), (NOT_STARTED, 74))


class Ends(Case):
    def test_signal(self):
        run = self.shell("kill -SEGV $$")
        self.assertEqual((run.exit["how"], run.exit["signal"]), (SIGNALED, 11))

    def test_timeout(self):
        for command in ("sleep 30", "trap '' TERM INT; while :; do :; done", "kill -STOP $$",
                        "sleep 30 & sleep 30 & wait", "setsid sleep 30 & exec sleep 30"):
            with self.subTest(command):
                run = self.shell("echo began; " + command, timeout_ms=500)
                self.assertEqual((run.exit["flags"], run.exit["how"], run.exit["signal"]), (TIMED_OUT, SIGNALED, 9))
                self.assertEqual(run.stdout, b"began\n")
                self.assertGreaterEqual(run.ended, 0.45)
                self.assertLess(run.ended, SOON)

    def test_timeout_of_a_waiting_interpreter(self):
        run = self.ready(PYTHON).run(PYTHON_CODE, "print('x', flush=True)\nwhile True: pass", timeout_ms=300)
        self.assertEqual((run.exit["flags"], run.stdout), (TIMED_OUT, b"x\n"))

    def test_asked_to_end(self):
        box = self.box()
        run = box.start_run(COMMAND, "echo began; sleep 30")
        box.wait(lambda: run.stdout)
        box.end_run()
        box.wait_exit()
        self.assertEqual((run.exit["flags"], run.exit["how"], run.exit["signal"]), (ENDED, SIGNALED, 9))

    def test_background_processes_end_with_the_run(self):
        box = self.box()
        run = box.run(COMMAND, "sleep 100 & (setsid sleep 100 & ) ; (sleep 100 & disown); echo done")
        self.assertEnded(run)
        self.assertEqual((run.stdout, run.exit["leftovers"]), (b"done\n", 3))
        self.assertLess(run.ended, SOON)
        self.assertEqual(self.left(box), [])

    def test_daemon_that_holds_the_output(self):
        run = self.shell("(setsid sh -c 'while :; do echo x; sleep 0.01; done' &) ; sleep 0.2")
        self.assertEnded(run)
        self.assertIn(b"x\n", run.stdout)

    def test_fork_bomb(self):
        run = self.box(pids=64).run(COMMAND, "f() { f | f & }; f; sleep 1; echo end", timeout_ms=3000)
        self.assertLess(run.ended, 2 * SOON)
        self.assertGreater(run.exit["leftovers"] + run.exit["flags"], 0)

    def test_fork_bomb_that_outlives_its_parent(self):
        code = ("import os\nwhile True:\n    try:\n        if os.fork() == 0 and os.fork(): os._exit(0)\n"
                "    except OSError: pass\n")
        box = self.ready(PYTHON, pids=64)
        run = box.run(PYTHON_CODE, code, timeout_ms=700)
        self.assertEqual(run.exit["flags"] & TIMED_OUT, TIMED_OUT)
        self.assertLess(run.ended, 2 * SOON)
        self.assertEqual(self.left(box), [])

    def test_memory_bomb_falls_on_the_run(self):
        box = self.ready(PYTHON, memory_mb=96)
        run = box.run(PYTHON_CODE, "x = []\nwhile True: x.append(bytearray(1 << 20))")
        self.assertEqual((run.exit["how"], run.exit["signal"]), (SIGNALED, 9))
        box.send("h_ping")
        box.wait_frame("g_pong")

    def test_memory_bomb_of_a_child(self):
        run = self.box(memory_mb=96).run(COMMAND, "python3 -c 'x = bytearray(1 << 28)'; echo status $?")
        self.assertEqual(run.stdout, b"status 137\n")
        self.assertEnded(run)

    def test_full_disks(self):
        run = self.box(workspace_mb=2).run(COMMAND, "head -c 5000000 /dev/zero > big || echo full")
        self.assertEqual((run.stdout, run.exit["flags"]), (b"full\n", WORKSPACE_FULL))
        self.assertEqual(run.exit["workspace_free"], 0)
        run = self.box(tmp_mb=1).run(COMMAND, "head -c 5000000 /dev/zero > /tmp/big; exit 3")
        self.assertEqual((run.exit["flags"], run.exit["exit_code"]), (TMP_FULL, 3))

    def test_no_inode_left(self):
        run = self.box(inodes=100).run(COMMAND, "for i in {1..200}; do : > f$i; done 2>/dev/null; exit 1")
        self.assertEqual(run.exit["flags"], WORKSPACE_FULL)

    def test_no_room_for_the_code(self):
        run = self.box(inodes=1).run(BASH_CODE, "echo never")
        self.assertEqual((run.exit["how"], run.exit["exit_code"]), (NOT_STARTED, 28))

    def test_usage(self):
        run = self.ready(PYTHON).run(PYTHON_CODE, "import time\nx = bytearray(50 << 20)\nt = time.process_time()\n"
                                     "while time.process_time() - t < 0.3: pass")
        self.assertTrue(0.29e6 < run.exit["cpu_us"] < 0.6e6, run.exit)
        self.assertTrue(50 << 20 < run.exit["max_rss_bytes"] < 90 << 20, run.exit)
        self.assertGreaterEqual(run.exit["wall_us"], 290000)

    def test_usage_leaves_out_the_wait(self):
        run = self.ready(NODE).run(NODE_CODE, "")
        self.assertLess(run.exit["cpu_us"], 60000)  # a whole start takes more


class Output(Case):
    def test_none(self):
        run = self.shell(":")
        self.assertEqual((run.stdout, run.stderr, run.exit["stdout_bytes"]), (b"", b"", 0))

    def test_every_byte(self):
        run = self.ready(PYTHON).run(PYTHON_CODE, "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)")
        self.assertEqual(run.stdout, bytes(range(256)) * 300)

    def test_head_and_tail(self):
        for size in (MIB - 1, MIB, MIB + 1, MIB + 8192, MIB + 8193, 3 * MIB + 777):
            with self.subTest(size):
                code = ("import sys\nd = b''.join(b'%07d\\n' % i for i in range({0} // 8 + 1))[:{0}]\n"
                        "sys.stderr.buffer.write(d)").format(size)
                whole = b"".join(b"%07d\n" % i for i in range(size // 8 + 1))[:size]
                run = self.ready(PYTHON).run(PYTHON_CODE, code)
                tail = min(max(size - MIB, 0), 8192)
                self.assertEqual(run.stderr, whole[:MIB])
                self.assertEqual(bytes(run.tail[2]), whole[size - tail:])
                self.assertEqual((run.exit["stderr_bytes"], run.exit["stderr_dropped"]),
                                 (size, max(size - MIB - tail, 0)))

    def test_hundred_megabytes(self):
        run = self.shell("head -c 100000000 /dev/zero", timeout_ms=30000)
        self.assertEqual((len(run.stdout), run.exit["stdout_bytes"], run.exit["stdout_dropped"]),
                         (MIB, 100000000, 100000000 - MIB - 8192))
        self.assertEnded(run)

    def test_endless(self):
        box = self.box()
        run = box.run(COMMAND, "yes", timeout_ms=1000)
        self.assertEqual((run.exit["flags"], len(run.stdout)), (TIMED_OUT, MIB))
        box.send("h_ping")
        box.wait_frame("g_pong")

    def test_limit_ends_the_run(self):
        run = self.box().run(COMMAND, "yes", output_limit=500000, timeout_ms=20000)
        self.assertEqual((run.exit["flags"], run.exit["signal"]), (OUTPUT_LIMIT, 9))
        self.assertGreater(run.exit["stdout_bytes"], 500000)

    def test_credit_is_kept_to(self):
        box = self.box()
        box.auto_credit = False
        run = box.start_run(COMMAND, "head -c 700000 /dev/zero; echo done >&2")
        box.wait(lambda: run.exit is not None, 1)
        self.assertEqual((len(run.stdout), run.stderr, run.exit), (WINDOW, b"done\n", None))
        for limit in (300000, 299999, 700000):
            box.limit[1] = max(limit, box.limit[1])
            box.send("h_credit", struct.pack("<Q", limit), run.number, 1)
        box.wait_exit()
        self.assertEqual((len(run.stdout), run.exit["stdout_bytes"]), (700000, 700000))

    def test_without_acknowledgement_a_run_still_ends(self):
        box = self.box()
        box.auto_ack = False
        run = box.start_run(COMMAND, "head -c 900000 /dev/zero | tr '\\0' a; echo end >&2")
        box.wait(lambda: run.stderr, 5)
        time.sleep(0.2)
        box.send("h_ack", struct.pack("<Q", box.guest_seq))
        box.auto_ack = True
        box.wait_exit()
        self.assertEqual(len(run.stdout), 900000)

    def test_throughput(self):
        box = self.box()
        started = time.monotonic()
        run = box.run(COMMAND, "head -c 500000000 /dev/zero", timeout_ms=60000, timeout=60)
        seconds = time.monotonic() - started
        self.assertEqual(run.exit["stdout_bytes"], 500000000)
        self.assertLess(seconds, 40)


class Stdin(Case):
    def test_none_is_at_its_end(self):
        run = self.shell("cat; echo rc $?; test -p /dev/stdin && echo pipe")
        self.assertEqual(run.stdout, b"rc 0\npipe\n")

    def test_text(self):
        self.assertEqual(self.shell("cat", stdin=b"a\x00b\n").stdout, b"a\x00b\n")

    def test_four_mebibytes(self):
        data = os.urandom(4 * MIB)
        run = self.shell("cksum; wc -c <&0", stdin=data)
        want = subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout
        self.assertEqual(run.stdout, want + b"0\n")

    def test_empty_but_open_then_closed(self):
        box = self.box()
        run = box.start_run(COMMAND, "cat; echo end", flags=1)
        box.wait(lambda: run.exit is not None, 0.3)
        self.assertIsNone(run.exit)
        box.end_stdin()
        self.assertEqual(box.wait_exit().stdout, b"end\n")

    def test_never_read(self):
        run = self.shell("exec <&-; sleep 0.2; echo gone", stdin=b"x" * (2 * MIB))
        self.assertEqual(run.stdout, b"gone\n")

    def test_reading_what_never_comes(self):
        box = self.box()
        run = box.start_run(COMMAND, "cat", flags=1, timeout_ms=400)
        self.assertEqual(box.wait_exit().exit["flags"], TIMED_OUT)
        self.assertEqual(run.stdout, b"")

    def test_past_the_credit_ends_the_sandbox(self):
        box = self.box()
        box.start_run(COMMAND, "sleep 5", flags=1)
        try:
            box.send_stdin(b"x" * (WINDOW + 65536 + 1 + 32768))
        except OSError:
            pass
        self.assertTrue(box.wait_gone())


class Walls(Case):
    """What the run's code can do to what watches it."""

    def test_signals_to_the_first_process_do_nothing(self):
        box = self.box()
        run = box.run(COMMAND, "for s in TERM INT HUP KILL STOP SEGV CHLD; do kill -$s 1; done; sleep 0.2; echo alive")
        self.assertEqual(run.stdout, b"alive\n")
        self.assertEnded(run)

    def test_killing_everything_is_killing_itself(self):
        run = self.shell("kill -9 -1; echo never")
        self.assertEqual((run.exit["how"], run.exit["signal"]), (SIGNALED, 9))

    def test_killing_the_parent(self):
        box = self.box()
        run = box.run(COMMAND, "(setsid sleep 50 &); kill -9 $PPID; sleep 50")
        self.assertEqual((run.exit["how"], run.exit["signal"]), (SIGNALED, 9))
        self.assertLess(run.ended, SOON)
        self.assertEqual(self.left(box), [])

    def test_stopping_the_parent(self):
        run = self.shell("kill -STOP $PPID; echo x; exit 4")
        self.assertEqual(run.stdout, b"x\n")
        self.assertEnded(run, 4)

    def test_watchers_cannot_be_looked_into(self):
        script = ("for p in 1 $PPID; do for f in mem fd environ maps; do "
                  "cat /proc/$p/$f >/dev/null 2>&1 && echo $p $f; ls /proc/$p/fd >/dev/null 2>&1 && echo fd; done; done; "
                  "echo 0 2>/dev/null > /proc/1/oom_score_adj && echo oom; true")
        run = self.shell(script)
        self.assertEqual(run.stdout, b"")

    def test_oom_score(self):
        run = self.shell("cat /proc/self/oom_score_adj /proc/1/oom_score_adj")
        score = run.stdout.decode().split()
        self.assertEqual(score[0], "1000")
        self.assertLess(int(score[1]), 1000)

    def test_nothing_inherited(self):
        run = self.shell("ls -l /proc/self/fd | grep -c -v -e ' 0 -> pipe' -e ' 1 -> pipe' -e ' 2 -> pipe' -e /proc -e total; "
                         "grep -e SigBlk -e SigIgn /proc/self/status; umask; ps -o pgid=,sid=,pid= $$")
        lines = run.stdout.decode().split("\n")
        self.assertEqual(lines[0], "0")
        # Signals 32 and 33 are libc's own.
        masks = [int(line.split()[1], 16) & ~(3 << 31) for line in lines[1:3]]
        self.assertEqual(masks, [0, 0], lines)
        self.assertEqual(lines[3], "0022")
        self.assertEqual(len(set(lines[4].split())), 1)

    def test_zombie_storm(self):
        code = ("import os\nfor i in range(3000):\n    p = os.fork()\n    if p == 0:\n"
                "        if os.fork() == 0: os._exit(0)\n        os._exit(0)\n    os.waitpid(p, 0)\n"
                "import time; time.sleep(0.1)\n"
                "print(sum(') Z ' in open(f'/proc/{p}/stat').read() for p in os.listdir('/proc') if p.isdigit()))")
        run = self.ready(PYTHON).run(PYTHON_CODE, code, timeout_ms=30000, timeout=30)
        self.assertEqual(run.stdout, b"0\n", run.stderr)


class Outside(Case):
    def test_not_the_first_process(self):
        init = os.path.join(guestclient.build_dir(), "share", "box", "init")
        ended = subprocess.run([init], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual(ended.returncode, 70)
        self.assertIn(b"first process of a sandbox", ended.stderr)

    def test_users_of_the_box(self):
        run = self.shell("id -un; id -gn; cd ~; pwd; whoami")
        self.assertEqual(run.stdout, b"bailey\nbailey\n/workspace\nbailey\n")

    def test_idle_memory(self):
        box = self.box()
        time.sleep(0.3)
        pid = guestclient.engine("GET", f"/containers/{box.id}/json")["State"]["Pid"]
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as handle:
                pss = next(int(line.split()[1]) for line in handle if line.startswith("Pss:"))
        except OSError as error:
            self.skipTest(f"the engine's processes are not visible: {error}")
        self.assertLess(pss, 1000)


if __name__ == "__main__":
    why = guestclient.unavailable()
    if why:
        tap.skip_all(why)
    tap.main()
