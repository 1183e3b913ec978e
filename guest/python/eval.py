"""The Python that stays: evaluates what guest-init sends and keeps what that leaves
(guest/eval.c writes, this reads).

Descriptor 3 brings evaluations, each ten digits of length and the code; the answer is records
that each end in a NUL: v and the repr of a trailing expression, i and the path of a figure, at
last e and the exit code. What the code prints goes to descriptors 1 and 2 and is flushed first.
The code runs in a fresh __main__, in the main thread, with nothing of this file below it but
frames that tracebacks leave out. A process it forks has no way to answer, and ends with it.
"""

import __future__
import _ast
import _signal
import builtins
import linecache
import os
import sys
import warnings

# This file's own: what the code makes of the real ones must not end what evaluates it.
__builtins__ = dict(vars(builtins))

CONTROL = 3
# Where it waits is out of the way of code that closes or counts low descriptors.
CONTROL_HIGH = (1000, 240, 60)
HEADER = 10
VALUE_MAX = 65536
SOURCES_KEPT = 1000  # evaluations whose lines a traceback can still show
FIGURES_MAX = 32
FIGURE_BYTES = 700 * 1024
FIGURE_PIXELS = 4000000  # more take seconds to draw, and nobody sees them
FUTURES = 0
for _name in __future__.all_feature_names:
    FUTURES |= getattr(__future__, _name).compiler_flag
ONLY_AST, TOP_LEVEL_AWAIT, IS_COROUTINE = 0x400, 0x2000, 0x80  # ast.PyCF_*, inspect.CO_COROUTINE


def high_descriptor():
    """The control socket, where no child inherits it."""
    for number in CONTROL_HIGH:
        try:
            os.dup2(CONTROL, number, inheritable=False)
        except OSError:
            continue  # above this box's limit
        os.close(CONTROL)
        return number
    os.set_inheritable(CONTROL, False)
    return CONTROL


def fresh_main():
    """The module the code is executed in: what an interactive python3 has, nothing of this file."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [""] + [entry for entry in sys.path if entry not in (here, "")]
    sys.path_importer_cache.pop(here, None)
    sys.argv[:] = [""]
    module = type(sys)("__main__")
    module.__loader__ = builtins.__loader__
    module.__builtins__ = builtins
    if "__annotations__" in globals():
        module.__annotations__ = {}
    sys.modules["__main__"] = module
    return module.__dict__


class Interpreter:
    def __init__(self):
        self.fd = high_descriptor()
        self.read, self.write = os.read, os.write
        self.mask, self.signals = _signal.pthread_sigmask, _signal.valid_signals()
        self.streams = (sys.stdout, sys.stderr)
        self.base = os.getcwd()
        self.count = 0
        self.figures_made = None
        self.futures = 0
        self.loop = None
        self.began = False  # the code of this evaluation, as far as its frames do not show it
        self.forked = False
        self.names = fresh_main()
        os.register_at_fork(after_in_child=self.after_fork)
        os.environ.setdefault("MPLBACKEND", "Agg")
        # With that one a figure is shown by being open at the end, so show() need not complain.
        warnings.filterwarnings("ignore", ".*(non-interactive|non-GUI)", UserWarning)
        sys.stdout.reconfigure(line_buffering=True)

    def after_fork(self):
        self.forked = True
        os.close(self.fd)

    # ---- the control socket ----

    def receive(self):
        """The next evaluation's code, None when none will come."""
        data = b""
        need = HEADER
        while len(data) < need:
            try:
                self.mask(_signal.SIG_SETMASK, ())
                part = self.read(self.fd, 65536)
            except KeyboardInterrupt:
                continue  # nothing is being evaluated
            except OSError:
                return None
            except BaseException as error:  # of a signal handler the code has set
                self.report(error)
                continue
            if not part:
                return None
            data += part
            if need == HEADER and len(data) >= HEADER:
                need += int(data[:HEADER])
        return data[HEADER:]

    def answer(self, records):
        # No handler of the code's may come between: half an answer is none.
        self.mask(_signal.SIG_BLOCK, self.signals)
        data = b"".join(records)
        while data:
            data = data[self.write(self.fd, data):]

    # ---- one evaluation ----

    def execute(self, code):
        result = eval(code, self.names)
        if not code.co_flags & IS_COROUTINE:
            return result
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.began = True
        return self.loop.run_until_complete(result)

    def run(self, source, name):
        """The value of source's trailing expression, else None."""
        flags = TOP_LEVEL_AWAIT | self.futures
        tree = compile(source, name, "exec", flags | ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], _ast.Expr):
            last = _ast.Expression(tree.body.pop().value)
        if tree.body:
            code = compile(tree, name, "exec", flags, True)
            self.futures |= code.co_flags & FUTURES
            self.execute(code)
        if last is None:
            return None
        return self.execute(compile(last, name, "eval", TOP_LEVEL_AWAIT | self.futures, True))

    def value_record(self, value):
        data = repr(value).encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")
        if len(data) > VALUE_MAX:
            note = b"\n... (the first %d of %d bytes)" % (VALUE_MAX, len(data))
            data = data[:VALUE_MAX].decode("utf-8", "ignore").encode() + note
        return b"v" + data + b"\0"

    def evaluate(self, message):
        self.count += 1
        name = f"<eval {self.count}>"
        records = []
        code = 0
        self.began = False
        try:
            source = message.decode()
            if isinstance(linecache.cache, dict):
                linecache.cache[name] = (len(source), None, source.splitlines(True), name)
                linecache.cache.pop(f"<eval {self.count - SOURCES_KEPT}>", None)
            value = self.run(source, name)
            self.began = True
            if value is not None:
                builtins._ = value
                records.append(self.value_record(value))
        except SystemExit as error:
            if not self.began and not self.in_code(error, name):
                # An audit hook does that, and nothing can take it back: the next one would not run either.
                os.write(2, b"SystemExit before the code could begin (an audit hook?)\n")
                os._exit(1)
            code = self.exit_code(error)
        except KeyboardInterrupt as error:
            self.report(error)
            code = 130
        except BaseException as error:
            self.report(error)
            code = 1
        if self.forked:
            sys.exit(code)
        if "matplotlib.pyplot" in sys.modules:
            records += self.figure_records()
        self.flush()
        records.append(b"e%d\0" % code)
        return records

    def in_code(self, error, name):
        """Whether it was raised in this evaluation's own lines, or below them."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        return trace is not None

    def exit_code(self, error):
        # exit() of the site module closes the input, so that a reader sees its end: it has ended.
        if sys.__stdin__.closed:
            os.open(os.devnull, os.O_RDONLY)
            sys.stdin = sys.__stdin__ = open(0, closefd=False)
        if error.code is None:
            return 0
        if isinstance(error.code, int):
            return error.code & 255
        print(error.code, file=sys.stderr)
        return 1

    def flush(self):
        for stream in (sys.stdout, sys.stderr, *self.streams):
            try:
                stream.flush()
            except Exception:
                pass  # closed, or not a file at all: the code's own doing

    # ---- what went wrong ----

    def users_part(self, trace):
        """The frames from the first one of an evaluation on."""
        at = trace
        while at is not None and not at.tb_frame.f_code.co_filename.startswith("<eval "):
            at = at.tb_next
        while at is None and trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        return at or trace

    def report(self, error):
        trace = self.users_part(error.__traceback__)
        error.__traceback__ = trace
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        try:
            if sys.excepthook is not sys.__excepthook__:
                sys.excepthook(type(error), error, trace)
                return
            import traceback

            traceback.print_exception(type(error), error, trace)
        except BaseException as failure:
            os.write(2, f"{type(error).__name__}: the report of it failed: {failure!r}\n".encode(
                "utf-8", "backslashreplace"))

    # ---- figures ----

    def figure_path(self):
        folder = os.path.join(self.base, ".figures")
        os.makedirs(folder, exist_ok=True)
        if self.figures_made is None:
            taken = [int(entry[:-4]) for entry in os.listdir(folder)
                     if entry.endswith(".png") and entry[:-4].isdecimal()]
            self.figures_made = max(taken, default=0)
        self.figures_made += 1
        return os.path.join(folder, f"{self.figures_made}.png")

    def save(self, figure):
        path = self.figure_path()
        width, height = figure.get_size_inches()
        dpi = min(figure.dpi, (FIGURE_PIXELS / (width * height)) ** 0.5)
        for _ in range(6):
            figure.savefig(path, format="png", dpi=dpi, bbox_inches="tight")
            size = os.path.getsize(path)
            if size <= FIGURE_BYTES:
                break
            dpi *= min(0.8, (FIGURE_BYTES / size) ** 0.5)
        return path

    def figure_records(self):
        """Saves and closes what is open."""
        records = []
        try:
            pyplot = sys.modules["matplotlib.pyplot"]
            numbers = pyplot.get_fignums()
            for number in numbers[:FIGURES_MAX]:
                records.append(b"i" + os.fsencode(self.save(pyplot.figure(number))) + b"\0")
            if len(numbers) > FIGURES_MAX:
                print(f"{len(numbers) - FIGURES_MAX} more figures were closed without saving",
                      file=sys.stderr)
        except Exception as error:
            print(f"a figure could not be saved: {type(error).__name__}: {error}", file=sys.stderr)
        try:
            pyplot.close("all")
        except Exception:
            pass  # half imported: there is none
        return records


def serve():
    interpreter = Interpreter()
    while True:
        message = interpreter.receive()
        if message is None:
            os._exit(0)
        interpreter.answer(interpreter.evaluate(message))


serve()
