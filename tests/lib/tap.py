"""unittest cases that print TAP. A test program ends with

    if __name__ == "__main__":
        tap.main()

Each test method is a point; where a test uses subTest, each subTest is one instead. A skip
carries its reason. Arguments of the program are names of tests to run (Case.test or a part
of it), so that one case can be repeated by hand. What a test prints to stdout is sent to
stderr: stdout is the protocol's.
"""

import os
import sys
import traceback
import unittest


class Result(unittest.TestResult):
    """Prints a point as soon as it is known."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.number = 0
        self.failed = 0
        self.had_subtests = set()

    def point(self, good, name, directive=""):
        self.number += 1
        if not good:
            self.failed += 1
        text = name.replace("#", "").replace("\n", " ")
        self.out.write(f"{'ok' if good else 'not ok'} {self.number} - {text}{directive}\n")
        self.out.flush()

    def diagnostics(self, error):
        lines = "".join(traceback.format_exception(*error)).rstrip().splitlines()
        for line in lines[-40:]:
            self.out.write(f"# {line[:500]}\n")
        self.out.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        if test.id() not in self.had_subtests:
            self.point(True, short(test))

    def addError(self, test, err):
        super().addError(test, err)
        self.point(False, short(test))
        self.diagnostics(err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.point(False, short(test))
        self.diagnostics(err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.had_subtests.add(test.id())
        self.point(True, short(test), " # SKIP " + str(reason).replace("\n", " "))

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.point(True, short(test))

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.point(False, short(test) + " (expected to fail)")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        self.had_subtests.add(test.id())
        name = short(test) + " " + subtest._subDescription()
        self.point(err is None, name)
        if err is not None:
            self.diagnostics(err)


def short(test):
    """module.Class.test -> Class.test; setUpClass errors have no id of that shape."""
    return ".".join(test.id().split(".")[-2:])


def chosen(suite, words):
    """The cases of a suite whose name holds one of the words."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from chosen(item, words)
        elif not words or any(word in item.id() for word in words):
            yield item


def main(module="__main__"):
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    loaded = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[module])
    suite = unittest.TestSuite(chosen(loaded, words))
    result = Result(out)
    suite.run(result)
    out.write(f"1..{result.number}\n")
    out.flush()
    # Threads a failed test left must not keep the program alive.
    os._exit(1 if result.failed or result.number == 0 else 0)


def skip_all(reason):
    """For a program that finds at once that it cannot run here."""
    print(f"1..0 # SKIP {reason}", flush=True)
    os._exit(0)
