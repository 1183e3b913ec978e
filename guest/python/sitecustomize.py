"""Holds a starting python3 until it is given a run (guest/prestart.c writes, this reads).

CPython imports this during its own start-up, because PYTHONPATH names this directory. It
first finishes everything a start does that no run can influence, then waits on descriptor 3.
After it, CPython opens main.py itself: __main__, tracebacks, inspect and multiprocessing are
those of `python3 main.py`. What is left of this module when the run starts: nothing.

The message: four bytes of length, then items that each end in a NUL: the number of
arguments, the arguments, NAME=value for each variable.
"""


def _leave():
    """Undo what made the interpreter come here, and run the image's own sitecustomize. Returns
    what that raised: a start reports it, and goes on."""
    import os
    import sys

    here = os.path.dirname(__file__)
    os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # the image's, if it has one
    except Exception as error:
        if not isinstance(error, ImportError) or error.name != "sitecustomize":
            return error
    return None


def _fresh_main():
    """The module the run's code is executed in, made after gc.freeze: what hangs on a frozen
    one would not be finalised at exit."""
    import builtins
    import sys

    old = sys.modules["__main__"]
    new = type(sys)("__main__")
    for name, value in vars(old).items():
        setattr(new, name, {} if name == "__annotations__" else value)
    new.__builtins__ = builtins
    sys.modules["__main__"] = new


def _wait():
    import gc
    import os
    import sys

    failure = _leave()
    # The first compilation of a process costs more than the others.
    exec(compile("def f(a, *b, c=1):\n    try:\n        return [x for x in b]\n"
                 "    finally:\n        pass\nclass C:\n    d = f'{f(1)}'\n", "<start>", "exec"), {})
    gc.collect()
    gc.freeze()
    del sys.modules["gc"]
    _fresh_main()

    os.write(3, b"r")
    need = 4
    message = b""
    while len(message) < need:
        part = os.read(3, 65536)
        if not part:
            os._exit(0)  # no run will come
        message += part
        if need == 4 and len(message) >= 4:
            need = 4 + int.from_bytes(message[:4], "little")
    os.close(3)
    items = [os.fsdecode(item) for item in message[4:-1].split(b"\0")]
    count = int(items[0])
    arguments = items[1:1 + count]
    sys.argv += arguments
    if hasattr(sys, "orig_argv"):
        sys.orig_argv += arguments
    for item in items[1 + count:]:
        name, _, value = item.partition("=")
        os.environ[name] = value
    if failure is None and "sitecustomize" not in sys.modules:
        # What a start finds where there is no such module; the import system then forgets this one.
        failure = ImportError("No module named 'sitecustomize'", name="sitecustomize")
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # it holds this frame, and that holds it


_wait()
