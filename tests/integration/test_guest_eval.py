#!/usr/bin/env python3
"""The interpreters that stay (guest/python/eval.py, guest/node/eval.js, guest/bash/eval.sh), with
this machine's python3, node and bash and no sandbox: what an evaluation answers, prints and
leaves, and what code can do to its interpreter without being able to break it."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import select
import shutil
import subprocess
import time
import unittest

import tap
from evalcase import GUEST, Case, Ends, Interpreter, launch_words


class Python(Ends, Case):
    busy = "import threading, time\nthreading.Thread(target=time.sleep, args=[60]).start()"
    words = [os.path.realpath(sys.executable), os.path.join(GUEST, "python", "eval.py")]

    def test_values(self):
        for code, value in (("1 + 1", "2"), ("'a'", "'a'"), ("x = 5", None), ("x", "5"), ("None", None), ("", None),
                            ("# nothing", None), ("y = 1\ny + 1", "2"), ("y = 1; y + 2;", "3"), ("'''doc'''", "'doc'"),
                            ("if x:\n    x + 1", None), ("'\\0'", "'\\x00'"), ("'\u00fc\\ud800'", "'\u00fc\\ud800'"),
                            ("def f(): return 7\nf()", "7"), ("class C:\n    def __repr__(self): return 'a\\0b\\udc80'\nC()", "a\\x00b\\udc80")):
            self.assertEqual(self.value(code), value, code)

    def test_the_last_value_is_kept(self):
        self.good("6 * 7")
        self.good("x = 1")
        self.assertEqual(self.value("_ + 1"), "43")

    def test_output_comes_before_the_end(self):
        answer = self.box.run("import sys, os\nprint('a', end='')\nsys.stderr.write('b')\nos.write(1, b'c')\n3")
        self.assertEqual((answer.stdout, answer.stderr, answer.value), ("ca", "b", "3"))
        self.assertEqual(len(self.good("print('x' * 3000000)").out), 3000001)
        self.assertEqual(self.good("import subprocess; subprocess.run(['echo', 'child'])").out, b"child\n")

    def test_lines_come_at_once(self):
        self.box.send("import time\nprint('first')\ntime.sleep(60)")
        self.box.here.sendall(self.box.pending)
        self.assertTrue(select.select([self.box.child.stdout], [], [], 20)[0])
        self.assertEqual(os.read(self.box.child.stdout.fileno(), 100), b"first\n")

    def test_main_is_what_an_interactive_one_is(self):
        told = self.good("import sys\nprint(__name__, sys.argv, sys.path[0] == '', sorted(dir()))\nprint(sys.modules['__main__'].__dict__ is globals())").out
        want = subprocess.run([self.words[0], "-i"], input=b"import sys\nprint(__name__, sys.argv, sys.path[0] == '', sorted(dir()))\n",
                              capture_output=True, check=True).stdout
        self.assertEqual(told, want.replace(b">>> ", b"") + b"True\n")
        self.good("import pickle\nclass C: pass\nassert type(pickle.loads(pickle.dumps(C()))) is C")
        self.write("mine.py", "x = 4")
        self.assertEqual(self.value("import mine; mine.x"), "4")
        self.assertEqual(self.value("'eval' in sys.modules or any('guest' in p for p in sys.path)"), "False")
        self.assertEqual(self.value("import multiprocessing\ndef twice(n): return 2 * n\nwith multiprocessing.get_context('fork').Pool(1) as p: r = p.map(twice, [4])\nr"), "[8]")

    def test_tracebacks(self):
        told = self.bad("def f(n):\n    return 1 / n\n\nf(0)")
        self.assertIn('Traceback (most recent call last):\n  File "<eval 1>", line 4, in <module>\n    f(0)\n', told)
        self.assertIn('  File "<eval 1>", line 2, in f\n    return 1 / n\n', told)
        self.assertNotIn("eval.py", told)
        told = self.bad("f(0)")
        self.assertIn('  File "<eval 1>", line 2, in f\n    return 1 / n\n', told)
        told = self.bad("def (")
        self.assertTrue(told.startswith('  File "<eval 3>", line 1\n    def (\n'), told)
        self.assertNotIn("eval.py", self.bad("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('v') from e"))
        self.assertEqual(self.bad("class D:\n    def __repr__(self): raise RuntimeError('r')\nD()").count("File "), 1)
        self.assertIn("def f(n):", self.good("import inspect; print(inspect.getsource(f))").stdout)
        self.assertNotIn("eval.py", self.bad("import asyncio\nasync def g(): raise OSError('x')\nawait g()"))
        self.assertEqual(self.value("sys = __import__('sys'); sys.last_type.__name__"), "'OSError'")
        self.assertIn("own hook ValueError", self.bad("sys.excepthook = lambda t, v, tb: print('own hook', t.__name__, file=sys.stderr)\nraise ValueError"))
        self.assertIn("report of it failed", self.bad("sys.excepthook = lambda *a: 1 / 0\nraise ValueError"))

    def test_state_survives_an_error(self):
        self.bad("kept = 8\nraise ValueError")
        self.assertEqual(self.value("kept"), "8")

    def test_builtins_of_the_code_are_not_the_drivers(self):
        self.good("import builtins, linecache\nfor name in ('compile', 'eval', 'repr', 'len', 'isinstance', 'print'): setattr(builtins, name, None)\nlinecache.cache = None")
        self.assertEqual(self.value("40 + 2"), "42")
        self.assertIn("NameError", self.bad("del builtins.compile, builtins.print\ncompile('1', '', 'exec')"))
        self.assertEqual(self.value("40 + 2"), "42")

    def test_exit(self):
        for code, exit_code, told in (("import sys; sys.exit(3)", 3, ""), ("exit()", 0, ""), ("raise SystemExit('why')", 1, "why\n"),
                                      ("sys.exit(256 + 7)", 7, ""), ("quit(True)", 1, "")):
            answer = self.box.run(code)
            self.assertEqual((answer.code, answer.stderr, answer.records), (exit_code, told, []), code)
        self.assertIn("EOFError", self.bad("input()"))
        self.assertTrue(self.bad("raise KeyboardInterrupt", 130).endswith("KeyboardInterrupt\n"))

    def test_input_has_ended(self):
        self.assertIn("EOFError", self.bad("input()"))
        self.assertIn("EOFError", self.bad("input('name? ')"))
        self.assertEqual(self.value("import sys; sys.stdin.read()"), "''")

    def test_await(self):
        self.assertEqual(self.value("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nawait f()"), "5")
        self.good("async def g(): return asyncio.get_running_loop()\nloop = await g()")
        self.assertEqual(self.value("(await g()) is loop"), "True")
        self.assertEqual(self.value("asyncio.run(f())"), "5")
        self.assertEqual(self.value("await f()"), "5")
        self.good("loop.close()")
        self.assertEqual(self.value("await f() + 1"), "6")

    def test_future_statements_stay(self):
        self.good("from __future__ import annotations")
        self.assertEqual(self.value("def f(x: nothing): pass\nf.__annotations__"), "{'x': 'nothing'}")

    def test_long_values_are_cut(self):
        value = self.value("'\u00fc' * 100000")
        self.assertLess(len(value.encode()), 65536 + 100)
        self.assertTrue(value.endswith("\n... (the first 65536 of 200002 bytes)"), value[-60:])

    def test_long_code(self):
        self.assertEqual(self.value("#" * 1000000 + "\n1"), "1")

    def test_a_fork_answers_nothing(self):
        self.assertEqual(self.value("import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0)\npid > 0"), "True")
        self.assertEqual(self.value("pid = os.fork()\nif pid == 0: sys = __import__('sys'); sys.exit(3)\nos.waitpid(pid, 0)[1] >> 8"), "3")
        self.assertEqual(self.value("5"), "5")

    def test_children_have_nothing_of_the_control(self):
        told = self.good("import subprocess\nprint(subprocess.run('ls /proc/self/fd; ls -l /proc/self/fd', shell=True, close_fds=False, capture_output=True, text=True).stdout)").stdout
        self.assertNotIn("socket:", told)
        self.assertNotIn("1000", told.split("total")[0].split())
        self.assertEqual(self.value("open('/dev/null').fileno()"), "3")

    def test_a_signal_while_it_waits(self):
        self.good("import signal")
        self.box.child.send_signal(2)
        time.sleep(0.2)
        self.assertEqual(self.value("1"), "1")
        self.good("def late(*a): raise ValueError('late')\nsignal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)")
        time.sleep(0.3)
        answer = self.box.run("2")
        self.assertEqual((answer.code, answer.value), (0, "2"))
        self.assertIn("ValueError: late", answer.stderr)

    def test_a_closed_output_is_its_own_doing(self):
        self.good("import sys\nsys.stdout.close()")
        self.assertEqual(self.value("4"), "4")
        self.good("sys.stderr = None")
        self.assertEqual(self.box.run("1 / 0").code, 1)
        self.assertEqual(self.value("4"), "4")

    def test_a_hook_that_lets_no_code_begin(self):
        self.good("import sys\nclass Shy:\n    def __repr__(self): raise SystemExit(6)")
        self.assertEqual(self.box.run("Shy()").code, 6)
        self.assertEqual(self.box.run("import asyncio\nasync def leave(): sys.exit(5)\nasync def both():\n    asyncio.ensure_future(leave())\n    await asyncio.sleep(1)\nawait both()").code, 5)
        self.assertEqual(self.value("1"), "1")
        for event in ("compile", "exec"):
            self.good(f"import sys\nsys.addaudithook(lambda event, args: sys.exit(0) if event == '{event}' and armed else None)\narmed = False")
            self.good("armed = True")
            answer, code = self.lost("print('not run')")
            self.assertEqual((answer.stdout, code), ("", 1))
            self.assertIn("before the code could begin", answer.stderr)
            self.box.close()
            self.box = Interpreter(self.words, self.dir)
            self.addCleanup(self.box.close)

    def test_the_end_of_the_process(self):
        answer, code = self.lost("import os\nprint('last')\nos._exit(9)")
        self.assertEqual((answer.stdout, code), ("last\n", 9))


PYPLOT = '''
numbers = []

class Figure:
    dpi = 100

    def __init__(self, number, size):
        self.number, self.size = number, size

    def get_size_inches(self):
        return (80, 50) if self.size == 3 else (8, 5)

    def savefig(self, path, format, dpi, bbox_inches):
        if self.size < 0:
            raise ValueError("empty axes")
        with open(path, "wb") as handle:
            handle.write(b"P" * int(self.size * (dpi / 100) ** 2) if self.size != 3 else b"%f" % dpi)

made = {}

def make(size):
    number = len(made) + 1
    made[number] = Figure(number, size)
    numbers.append(number)

def get_fignums():
    return list(numbers)

def figure(number):
    return made[number]

def close(which):
    assert which == "all"
    numbers.clear()
'''


class Figures(Case):
    """With a stand-in for matplotlib that has what the driver uses."""
    words = Python.words

    def setUp(self):
        super().setUp()
        self.write("matplotlib/__init__.py", "")
        self.write("matplotlib/pyplot.py", PYPLOT)

    def path(self, number):
        return os.path.join(self.dir, ".figures", f"{number}.png")

    def test_open_figures_are_saved_and_closed(self):
        answer = self.good("import matplotlib.pyplot as plt\nplt.make(1000)\nplt.make(2000)\n7")
        self.assertEqual((answer.value, answer.images), ("7", [self.path(1), self.path(2)]))
        self.assertEqual(os.path.getsize(self.path(2)), 2000)
        self.assertEqual(self.good("plt.get_fignums()").images, [])
        self.assertEqual(self.good("plt.make(10)").images, [self.path(3)])

    def test_other_interpreters_figures_are_not_overwritten(self):
        self.write(".figures/7.png", "mine")
        self.write(".figures/x.png", "mine")
        self.assertEqual(self.good("import matplotlib.pyplot as plt\nplt.make(10)").images, [self.path(8)])

    def test_large_ones_are_made_smaller(self):
        self.good("import matplotlib.pyplot as plt\nplt.make(5000000)")
        self.assertLessEqual(os.path.getsize(self.path(1)), 700 * 1024)
        self.assertGreater(os.path.getsize(self.path(1)), 300 * 1024)

    def test_huge_ones_are_not_drawn_in_full(self):
        self.good("import matplotlib.pyplot as plt\nplt.make(3)")
        with open(self.path(1), "rb") as handle:
            self.assertAlmostEqual(float(handle.read()), (4000000 / (80 * 50)) ** 0.5, 3)

    def test_also_after_an_error(self):
        answer = self.box.run("import matplotlib.pyplot as plt\nplt.make(10)\n1 / 0")
        self.assertEqual((answer.code, answer.images), (1, [self.path(1)]))

    def test_one_that_cannot_be_saved(self):
        answer = self.box.run("import matplotlib.pyplot as plt\nplt.make(-1)\n5")
        self.assertEqual((answer.code, answer.value, answer.images), (0, "5", []))
        self.assertEqual(answer.stderr, "a figure could not be saved: ValueError: empty axes\n")
        self.assertEqual(self.good("plt.get_fignums()").value, "[]")

    def test_not_more_than_anyone_looks_at(self):
        answer = self.box.run("import matplotlib.pyplot as plt\nfor i in range(40): plt.make(1)")
        self.assertEqual(len(answer.images), 32)
        self.assertEqual(answer.stderr, "8 more figures were closed without saving\n")

    def test_half_imported(self):
        self.write("matplotlib/pyplot.py", "raise ValueError('broken')")
        self.assertIn("broken", self.bad("import matplotlib.pyplot"))

    def test_the_backend_needs_no_screen(self):
        self.assertEqual(self.value("import os; os.environ['MPLBACKEND']"), "'Agg'")


@unittest.skipUnless(shutil.which("node"), "no node on this machine")
class Node(Ends, Case):
    busy = "setInterval(() => {}, 10)"
    words = ["node", os.path.join(GUEST, "node", "eval.js")]

    def test_values(self):
        for code, value in (("1 + 1", "2"), ("'a'", "'a'"), ("const x = 5", None), ("x", "5"), ("undefined", None), ("null", "null"), ("", None),
                            ("({a: [1, 2]})", "{ a: [ 1, 2 ] }"), ("{a: 1}", "{ a: 1 }"), ("{ let q = 3; q }", "3"), ("-0", "-0"), ("10n", "10n"), ("NaN", "NaN"),
                            ("Symbol('s')", "Symbol(s)"), ("function f(n) { return n }", None), ("f(7) // so", "7"), ("new Map([[1, f]])", "Map(1) { 1 => [Function: f] }"),
                            ("'\\0'", "'\\x00'"), ("if (true) 3", "3"), ("Promise.resolve(4)", "Promise { 4 }")):
            self.assertEqual(self.value(code), value, code)

    def test_declared_again(self):
        self.good("const a = 1; let b = 1; class C { m() { return 1 } }")
        self.good("const a = 2; let b = 2; class C { m() { return 2 } }")
        self.assertEqual(self.value("[a, b, new C().m()]"), "[ 2, 2, 2 ]")

    def test_await(self):
        self.assertEqual(self.value("await Promise.resolve(7)"), "7")
        self.good("const late = await new Promise((done) => setTimeout(() => done('l'), 20))")
        self.assertEqual(self.value("late"), "'l'")

    def test_modules(self):
        self.write("cjs.js", "module.exports = { v: 3, main: require.main === module }")
        self.write("esm.mjs", "export const v = 4; export default 5")
        self.write("node_modules/pack/package.json", '{"name": "pack", "exports": {"import": "./i.mjs", "require": "./r.js"}}')
        self.write("node_modules/pack/i.mjs", "export default 'imported'")
        self.write("node_modules/pack/r.js", "module.exports = 'required'")
        self.assertEqual(self.value("require('./cjs.js')"), "{ v: 3, main: false }")
        self.assertEqual(self.value("(await import('./esm.mjs')).default"), "5")
        self.assertEqual(self.value("const { v } = await import('./esm.mjs'); v"), "4")
        self.assertEqual(self.value("[require('pack'), (await import('pack')).default]"), "[ 'required', 'imported' ]")
        self.assertEqual(self.value("typeof (await import('node:fs')).readFileSync"), "'function'")
        self.assertEqual(self.value("require.main === module"), "true")
        self.assertEqual(self.value("[typeof module, typeof exports, process.argv.length, process.execArgv.length]"), "[ 'object', 'object', 1, 0 ]")
        self.assertEqual(self.value("path.basename('/a/b')"), "'b'")
        self.good("const fs = require('fs'), os = require('os')")
        self.assertEqual(self.value("'import(x)' + `import(y)` /* import(z) */"), "'import(x)import(y)'")
        for code, value in (("import d from './esm.mjs'; d", "5"), ("import {v as w} from './esm.mjs'\nw", "4"), ("import e, {v as y,} from \"./esm.mjs\"; [e, y]", "[ 5, 4 ]"),
                            ("import f, * as all from './esm.mjs'; [f, all.v]", "[ 5, 4 ]"), ("import './esm.mjs'", None), ("import{v as z}from'./esm.mjs';z", "4"),
                            ("`\nimport a from 'b'`", "\"\\nimport a from 'b'\""), ("// import a from 'b'", None), ("({ import: 1 }).import", "1")):
            self.assertEqual(self.value(code), value, code)
        self.assertEqual(self.value("Object.keys(require.cache).filter((name) => name.includes('guest'))"), "[]")

    def test_output_comes_before_the_end(self):
        answer = self.box.run("process.stdout.write('a'); console.error('b'); fs.writeSync(1, 'c'); 3")
        self.assertEqual((answer.stdout, answer.stderr, answer.value), ("ac", "b\n", "3"))
        self.assertEqual(len(self.good("console.log('x'.repeat(3000000))").out), 3000001)
        self.assertEqual(self.good("void child_process.spawnSync('echo', ['child'], {stdio: 'inherit'})").out, b"child\n")

    def test_errors(self):
        told = self.bad("function f() {\n  throw new TypeError('no luck')\n}\nf()")
        self.assertTrue(told.startswith("Uncaught TypeError: no luck\n    at f (eval-1:2:9)\n    at eval-1:4:1"), told)
        self.assertNotIn("inspector", told)
        self.assertNotIn("eval.js", told)
        told = self.bad("let x = 1\nlet y = = 2")
        self.assertTrue(told.startswith("eval-2:2\nlet y = = 2\n        ^\n\nUncaught SyntaxError: Unexpected token '='"), told)
        self.assertEqual(self.bad("throw 'text'"), "Uncaught 'text'\n")
        self.assertIn("code: 'ENOENT'", self.bad("fs.readFileSync('/nothing')"))
        self.assertNotIn("eval.js", self.bad("await Promise.reject(new Error('awaited'))"))
        self.assertIn("Uncaught Error: inside", self.bad("({ [util.inspect.custom]() { throw new Error('inside') } })"))
        self.assertIn("Cannot find package 'nothing'", self.bad("import a from 'nothing'"))

    def test_errors_nobody_catches(self):
        self.assertIn("Uncaught Error: rejected", self.bad("void Promise.reject(new Error('rejected'))"))
        self.assertIn("Uncaught Error: timer", self.bad("setTimeout(() => { throw new Error('timer') }, 10); await new Promise(() => {})"))
        self.good("let kept = 8")
        self.good("setTimeout(() => { throw new Error('late') }, 10)")
        time.sleep(0.3)
        answer = self.box.run("kept")
        self.assertEqual((answer.code, answer.value), (0, "8"))
        self.assertIn("Uncaught Error: late", answer.stderr)

    def test_one_that_settles_after_its_end(self):
        self.bad("setTimeout(() => { throw new Error('first') }, 10); await new Promise((done) => setTimeout(done, 150)); 'stale'")
        answer = self.box.run("await new Promise((done) => setTimeout(done, 300)); 'own'")
        self.assertEqual((answer.code, answer.value, len(answer.records)), (0, "'own'", 1))

    def test_long_values_are_cut(self):
        value = self.value("new Array(100).fill('\u00fc'.repeat(9000))")
        self.assertLess(len(value.encode()), 65536 + 100)
        self.assertIn("... (the first 65536 of ", value)

    def test_long_code(self):
        self.assertEqual(self.value("//" + "#" * 1000000 + "\n1"), "1")

    def test_children_have_nothing_of_the_control(self):
        told = self.value("child_process.execSync('ls -l /proc/self/fd >list', {stdio: 'ignore'}); fs.readFileSync('list', 'utf8')")
        self.assertIn("list", told)
        self.assertNotIn("socket:", told)

    def test_input_has_ended(self):
        self.assertEqual(self.value("fs.readFileSync(0, 'utf8')"), "''")

    def test_exit_ends_it(self):
        answer, code = self.lost("console.log('y'.repeat(200000)); process.exit(5)")
        self.assertEqual((len(answer.out), code), (200001, 5))


class Bash(Ends, Case):
    busy = "sleep 1 &"
    words = ["bash", "-c", launch_words("BASH").replace("/.bailey", GUEST)]

    def out(self, code):
        return self.good(code).stdout

    def test_state_is_kept(self):
        self.good("v=40; f() { echo $((v + $1)); }; cd /; set -- a b; alias q=x; umask 077")
        self.assertEqual(self.out("f 2; pwd; echo $# $2; umask; alias"), "42\n/\n2 b\n0077\nalias q='x'\n")
        self.assertEqual(self.out("(v=1; cd /tmp); echo $v $PWD"), "40 /\n")

    def test_status(self):
        for code, status in (("true", 0), ("false", 1), ("(exit 7)", 7), ("", 0), ("# nothing", 0), ("kill -9 $BASHPID & wait $!", 137), ("true\n", 0), ("false \\", 1),
                             ("false && true", 1), ("cat <<E >/dev/null\nx\nE", 0)):
            self.assertEqual(self.box.run(code).code, status, code)
        self.assertEqual(self.out("false; echo $?; (exit 3)\necho $?"), "1\n3\n")
        self.assertEqual(self.out("printf '%s' a"), "a")

    def test_a_command_not_found(self):
        answer = self.box.run("echo a\nno_such_command_here")
        self.assertEqual((answer.code, answer.stdout, answer.stderr), (127, "a\n", "bash: line 2: no_such_command_here: command not found\n"))
        self.assertEqual(self.out("echo $0 $LINENO"), "bash 1\n")
        answer = self.box.run("-x y")  # no option of the driver's
        self.assertEqual((answer.code, answer.stderr), (127, "bash: line 1: -x: command not found\n"))

    def test_a_syntax_error(self):
        answer = self.box.run("echo a\nif then")
        self.assertEqual((answer.code, answer.stdout), (2, "a\n"))
        self.assertIn("bash: eval: line 2: syntax error", answer.stderr)
        self.assertEqual(self.out("echo on"), "on\n")
        self.assertNotEqual(self.box.run("echo 'x").code, 0)
        self.assertEqual(self.out("echo on"), "on\n")

    def test_code_that_is_not_finished(self):
        """It ends where it ends: no line of the driver belongs to it, or is shown."""
        self.good("set -e")
        self.assertEqual((self.box.run("cat <<E >/dev/null; (exit 3)\nx").code, self.box.run("if").code), (3, 2))
        self.assertEqual(self.out("set +e; echo on"), "on\n")
        self.good("trap 'echo failed' ERR")
        for code, status, out, told in (
                ("cat <<E\nkept\n\n", 0, "kept\n\n", "delimited by end-of-file"), ("cat <<E; (exit 3)\nx", 3, "x\nfailed\nfailed\n", "delimited by end-of-file"),
                ("echo a\nf()", 2, "a\nfailed\n", "unexpected end of file"), ("echo a\nfalse ||", 2, "a\nfailed\n", "unexpected end of file"), ("echo a |", 2, "failed\n", "unexpected end of file"),
                ("for i in 1 2", 2, "failed\n", "unexpected end of file"), ("if true; then", 2, "failed\n", "unexpected end of file"), ("case a in", 2, "failed\n", "unexpected end of file"),
                ("}\necho no", 2, "failed\n", "`}'"), (";; esac; fi; }", 2, "failed\n", "`;;'"), ("echo 'a", 2, "failed\n", "matching `''")):
            answer = self.box.run(code)
            self.assertEqual((answer.code, answer.stdout), (status, out), (code, answer))
            self.assertIn(told, answer.stderr, code)
            self.assertNotIn("_bailey", answer.stderr, code)
        self.assertEqual(self.out("trap - ERR; declare -F; type f 2>/dev/null || echo none"), self.driver_functions() + "none\n")
        answer = self.box.run("echo a\nx=$(")
        self.assertEqual((answer.code, answer.stdout), (2, "a\n"))
        self.assertIn("looking for matching `)'", answer.stderr)

    @staticmethod
    def driver_functions():
        return "".join(f"declare -f _bailey_{name}\n" for name in ("answer", "done", "next"))

    def test_both_outputs_closed(self):
        self.good("exec 2>&-")  # one of them is its own doing
        self.assertEqual(self.out("echo on"), "on\n")
        answer, code = self.lost("v=1; (exit 4); exec 1>&-; (exit 5)")
        self.assertEqual(code, 5)

    def test_options_do_not_touch_the_driver(self):
        self.assertEqual(self.box.run("set -x").stderr, "")
        answer = self.box.run("echo hi")
        self.assertEqual((answer.stdout, answer.stderr, answer.code), ("hi\n", "++ echo hi\n", 0))
        self.box.run("set +x")
        self.good("set -u; set -f; set -a; set -v; set -C; set +v")
        self.assertEqual(self.out("echo *; case $- in *a*C*) echo both;; *) echo $-;; esac; set +uf"), "*\nboth\n")
        self.assertNotIn("_bailey", self.out("env"))
        self.good("set +aC; IFS=0123456789; LC_ALL=C.UTF-8")
        self.assertEqual(self.out("echo \u00fc\u00fc"), "\u00fc\u00fc\n")
        self.good("set -o posix; shopt -s nullglob extglob failglob; POSIXLY_CORRECT=1")
        self.assertEqual(self.out("echo on"), "on\n")

    def test_set_e_ends_the_evaluation(self):
        self.good("set -e; v=1")
        self.assertEqual(self.out("false || echo on; if false; then :; fi; false && true; echo more"), "on\nmore\n")
        self.assertEqual(self.box.run("false && true").code, 1)
        for code, out in (("echo a; (exit 6); echo b", "a\n"), ("f() { (exit 6); echo b; }\nf\necho c", ""), ("for i in 1 2; do while :; do (exit 6); done; done; echo b", ""),
                          ("echo $(echo x; (exit 6); echo y); (echo s; (exit 6); echo t); echo c", "x y\ns\n"), ("f() { for i in 1; do g; done; }; g() { (exit 6); }; f; echo d", ""),
                          ("echo '(exit 6)\necho b' >s; . ./s; echo c", ""), ("set -o pipefail; (exit 6) | cat; echo e", ""), ("x=$(exit 6); echo e", ""),
                          ("set +e; set -e; (exit 6); set +e", "")):
            answer = self.box.run(code)
            self.assertEqual((answer.code, answer.stdout, answer.stderr), (6, out, ""), code)
            self.assertEqual(self.out("case $- in *e*) echo $v;; esac"), "1\n", code)
        self.assertEqual(self.box.run("if then").code, 2)
        self.assertEqual(self.out("set +e; false; echo $v"), "1\n")

    def test_loops_end_where_they_begin(self):
        self.assertEqual(self.out("v=3; for i in 1 2; do break; done; echo $i; break; echo no"), "1\n")
        self.assertEqual(self.out("echo $v; continue; echo no"), "3\n")
        self.assertEqual(self.out("echo $v; continue 9; echo no"), "3\n")
        self.assertEqual(self.out("echo $v"), "3\n")

    def test_traps(self):
        self.good("trap 'echo caught' USR1; trap 'echo failed' ERR")
        self.assertEqual(self.out("kill -USR1 $$; :"), "caught\n")
        answer = self.box.run("false\n:")
        self.assertEqual((answer.stdout, answer.code), ("failed\n", 0))
        self.assertEqual(self.box.run("false").stdout, "failed\n")
        self.good("trap - ERR; trap 'echo bye' EXIT")
        answer, code = self.lost("exit 4")
        self.assertEqual((answer.stdout, code), ("bye\n", 4))

    def test_redirections_stay(self):
        self.good("exec 3>log; exec 4</dev/null")
        self.good("echo kept >&3; exec >out")
        self.assertEqual(self.out("echo unseen"), "")
        self.assertEqual(self.box.run("exec >&2; cat log out").stderr, "kept\nunseen\n")

    def test_exec_replaces_it(self):
        answer, code = self.lost("exec sh -c 'echo replaced; exit 8'")
        self.assertEqual((answer.stdout, code), ("replaced\n", 8))

    def test_commands_have_nothing_of_the_control(self):
        self.assertNotIn("socket:", self.out("ls -l /proc/self/fd"))
        self.assertNotIn("199", self.out("ls /proc/self/fd").split())
        self.good("sleep 60 & p=$!; sleep 0.3")
        self.assertNotIn("socket:", self.out("ls -l /proc/$p/fd; kill $p; wait $p || :"))

    def test_a_background_job_is_still_its_child(self):
        self.good("(sleep 0.2; exit 9) & p=$!")
        self.assertEqual(self.box.run("wait $p").code, 9)

    def test_functions_of_the_names_it_uses(self):
        self.good("read() { echo r; }; printf() { echo p; }; eval() { echo e; }; exec() { echo x; }; set() { echo s; }")
        self.assertEqual(self.out("echo on"), "on\n")

    def test_bytes_and_long_code(self):
        self.assertEqual(self.box.run(b"printf '\xff\xfe'").out, b"\xff\xfe")
        self.assertEqual(self.out("echo '\u00fc\u20ac'"), "\u00fc\u20ac\n")
        self.assertEqual(self.out("#" * 1000000 + "\necho on"), "on\n")

    def test_input_has_ended(self):
        self.assertEqual(self.out("cat; read x; echo \"[$x]\""), "[]\n")

    def test_exit_ends_it(self):
        answer, code = self.lost("echo last; exit 3")
        self.assertEqual((answer.stdout, code), ("last\n", 3))


if __name__ == "__main__":
    tap.main()
