#!/usr/bin/env python3
"""Boots the machine that tests/vm/run made, passes on what inside.py prints there, cuts its power, boots
it again.

    boots.py DIRECTORY [TEST...]      DIRECTORY holds disk, vmlinuz, initrd

Two serial lines: the first is the console (DIRECTORY/console.N), the second has the test points. A
boot ends with one of the words below, by inside.py; a machine that does not say one in time failed.
"""

import pathlib
import subprocess
import sys
import time

BOOT_S = 420  # of a slow machine emulated by a busy one
LIVE = "# live, cut the power"
DONE = "# done"
OVER = "# over"  # nothing will be said any more


class Machine:
    def __init__(self, work, number, words):
        self.work, self.number = work, number
        self.lines = open(work / f"points.{number}", "w+b", buffering=0)
        self.begun = time.monotonic()
        options = f"bailey.boot={number} " + " ".join(f"bailey.test={word}" for word in words)
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg", "-machine", "pc", "-cpu", "max", "-smp", "1", "-m", "2048",
             "-nodefaults", "-no-reboot", "-display", "none", "-nic", "none",
             "-kernel", str(work / "vmlinuz"), "-initrd", str(work / "initrd"),
             "-append", f"root=/dev/vda rw console=ttyS0 quiet systemd.show_status=0 {options}",
             "-drive", f"file={work / 'disk'},if=virtio,format=raw,cache=unsafe",
             "-device", "virtio-rng-pci", "-rtc", "base=utc",
             "-serial", f"file:{work / f'console.{number}'}", "-serial", f"file:{work / f'points.{number}'}"],
            stdin=subprocess.DEVNULL)

    def until(self, word):
        """Passes lines on until one is that word; False when the machine ended or did not say it in time."""
        rest, end = b"", self.begun + BOOT_S
        while time.monotonic() < end:
            over = self.process.poll() is not None
            rest += self.lines.read()
            *whole, rest = rest.split(b"\n")
            for line in (one.decode("utf-8", "replace").rstrip("\r") for one in whole):
                if line == word:
                    return True
                if line == OVER:
                    return False
                print(line, flush=True)
            if over:
                break
            time.sleep(0.1)
        return False

    def explain(self):
        text = (self.work / f"console.{self.number}").read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines()[-30:]:
            print("# console: " + line.strip()[:300], flush=True)

    def cut(self):
        self.process.kill()
        self.process.wait()


def boot(work, number, words, last):
    machine = Machine(work, number, words)
    try:
        good = machine.until(last)
        if not good:
            machine.explain()
        print(f"# boot {number}: {time.monotonic() - machine.begun:.0f} s", flush=True)
        return good
    finally:
        machine.cut()


def main():
    work, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
    print("1..2")
    good = boot(work, 1, words, LIVE)
    print(f"{'ok' if good else 'not ok'} - first boot, to the power cut", flush=True)
    good = good and boot(work, 2, words, DONE)
    print(f"{'ok' if good else 'not ok'} - second boot", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
