"""Stand-ins for the power sandwich, for tests: no joule from here is real.

`Shield` speaks as a PowerShield does, on a pty. It feeds a `Board`: either the real firmware in
QEMU, or one that plays a scheme. A board tells the shield when it raises D7, and the shield tells
the board when its power is switched off and on. `FLASH` stands in for st-flash.
SPDX-License-Identifier: MIT"""

import os
import random
import re
import select
import subprocess
import threading
import tty
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

# As FOLDER/st-flash, it copies the image to FOLDER/flash, where the board finds it. A board that
# still begins finds the old one or the new one, and no half of one.
FLASH = '#!/bin/sh\n# st-flash write IMAGE 0x08000000\ncp "$2" "$0.new" && ' \
    'mv "$0.new" "$(dirname "$0")/flash"\n'
QEMU = ("qemu-system-arm", "-M", "netduinoplus2", "-nographic", "-monitor", "none", "-nodefaults",
        "-serial", "null", "-serial", "stdio", "-icount", "shift=8,sleep=off", "-d", "unimp",
        "-kernel")
# What QEMU, which has no pins, says when the firmware sets PA8.
D7_RISES = re.compile(rb"GPIOA: unimplemented device write \(size 4, offset 0x0?18, "
                      rb"value 0x00000100\)")


class Pty:
    """Has a thread that gives what is written at its other end to `take`."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()  # the slave stays open, so that none hangs up
        tty.setraw(self.slave)
        os.set_blocking(self.master, False)
        self.path = os.ttyname(self.slave)
        self.ends, self.end = os.pipe()
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.end)
        self.thread.join()
        for file in (self.master, self.slave, self.ends):
            os.close(file)

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self.master, self.ends], [], [])
            if self.ends in ready:
                return
            self.take(os.read(self.master, 4096))

    def say(self, data: bytes) -> None:
        """Gives up where nobody reads: a line that is full loses bytes, too."""
        while data:
            _, ready, _ = select.select([], [self.master], [], 10)
            if not ready:
                return
            try:
                data = data[os.write(self.master, data):]
            except BlockingIOError:
                continue

    def take(self, data: bytes) -> None:
        raise NotImplementedError


class Board:
    """What hangs on the shield. It has a pty for its console."""

    path: str
    raises_d7: Callable[[], None] = staticmethod(lambda: None)

    def power_cycle(self) -> None:
        raise NotImplementedError


Samples = Callable[[], Iterable[str]]


class Shield(Pty):
    """`samples` gives those of the next acquisition; a fault changes what is said once.

    It behaves as public drivers take it to: an idle one does not answer `stop`, the same TimeStamp
    comes twice, and after one `start` each rise of D7 is a trigger. With `by_manual` it does none
    of these."""

    def __init__(self, board: Board, samples: Samples, seed: int = 0, *,
                 by_manual: bool = False) -> None:
        super().__init__()
        self.by_manual = by_manual
        self.board, self.samples = board, samples
        self.random = random.Random(seed)
        board.raises_d7 = self.triggered
        self.lock = threading.Lock()
        self.buffer = b""
        self.commands: list[str] = []
        self.faults: list[str] = []  # each spoils one acquisition, or one answer, and is gone
        self.busy, self.unwilling = 2, 1  # how often status is not ok, and d7 is not taken
        self.volts = "3300-03"
        self.source, self.armed = "sw", False
        self.running: list[str] = []  # samples of an acquisition without a time
        self.rises = 0

    def strewn(self, text: str) -> bytes:
        """With bytes of NUL, as the real one has."""
        return b"".join(b"\0" * (self.random.random() < 0.05) + bytes([byte])
                        for byte in text.encode())

    def tell(self, text: str) -> None:
        self.say(self.strewn(f"{text}\r\n"))

    def fault(self, name: str) -> bool:
        if name in self.faults:
            self.faults.remove(name)
            return True
        return False

    def take(self, data: bytes) -> None:
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            self.obey(line.decode("ascii", "replace").strip())

    def obey(self, command: str) -> None:
        self.commands.append(command)
        if self.fault("silent"):
            return
        if self.fault("garbage"):
            self.say(bytes(self.random.randrange(256) for _ in range(3000)))
            return
        word, _, rest = command.partition(" ")
        if word == "status":
            self.busy -= 1
            self.tell("PowerShield > ack status " + ("ok" if self.busy < 0 else "busy"))
        elif command == "volt get":
            self.tell(f"PowerShield > ack volt get {self.volts}")
        elif word == "volt":
            self.volts = rest.replace("m", "-03")
            self.tell(f"PowerShield > ack volt {self.volts}")
        elif command == "targrst 1":
            self.tell("PowerShield > ack targrst 1")
            self.board.power_cycle()
        elif command == "trigsrc d7" and self.unwilling > 0:
            self.unwilling -= 1
            self.tell("PowerShield > error trigsrc")
        elif word == "trigsrc":
            self.source = rest
            self.tell(f"PowerShield > ack {command}")
        elif word == "start":
            self.armed = True
            self.tell("PowerShield > ack start")
            if self.source == "sw":  # goes on until it is stopped
                self.stamp()
                self.running = list(self.samples())
                for text in self.running:
                    self.tell(text)
        elif word == "stop" and self.running:
            count, self.running, self.armed = len(self.running), [], False
            self.tell("PowerShield > ack stop")
            self.summary(count)
        elif word == "stop" and not self.armed:
            if self.by_manual:
                self.tell("PowerShield > error stop")
        elif word in ("htc", "stop", "temp", "lcd", "output", "format", "freq", "acqtime",
                      "acqmode"):
            self.armed = False
            self.tell(f"PowerShield > ack {command}")
        else:
            self.tell(f"PowerShield > error {command}")

    def triggered(self) -> None:
        """D7 has risen: all samples at once, as if 10 s were over."""
        with self.lock:
            self.rises += 1
            if not self.armed:
                return
            self.armed = not self.by_manual
            said = list(self.samples())
            count = len(said)
            if self.fault("no trigger"):
                return
            if self.fault("short"):
                del said[-1]
            if self.fault("cut"):
                said[len(said) // 2] = said[len(said) // 2][2:]
            self.stamp()
            for text in said:
                self.tell(text)
            if self.fault("no end"):
                return
            self.summary(count)

    def stamp(self) -> None:
        for _ in range(1 if self.by_manual else 2):
            self.tell("TimeStamp: 000s 000ms, buff 00%")

    def summary(self, count: int) -> None:
        for text in ("end", f"Acquisition time: {count * 100:05d}-03",
                     f"Number of samples: {count}", "PowerShield > Acquisition completed"):
            self.tell(text)


class Qemu(Pty, Board):
    """The firmware that was flashed, in QEMU. Its instructions stand for time."""

    def __init__(self, flash: Path) -> None:
        super().__init__()
        self.flash = flash
        self.process: subprocess.Popen[bytes] | None = None
        self.threads: list[threading.Thread] = []

    def __exit__(self, *_: object) -> None:
        self.off()
        super().__exit__()

    def off(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for thread in self.threads:
                thread.join()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()
            self.process = None

    def power_cycle(self) -> None:
        self.off()
        if not self.flash.exists():
            return
        self.process = subprocess.Popen([*QEMU, self.flash], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        self.threads = [threading.Thread(target=target, args=(self.process,), daemon=True)
                        for target in (self._console, self._pins)]
        for thread in self.threads:
            thread.start()

    def _console(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        while said := process.stdout.read(4096):
            self.say(said)

    def _pins(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            if D7_RISES.match(line):
                self.raises_d7()

    def take(self, data: bytes) -> None:
        process = self.process
        if process is not None and process.stdin is not None:
            try:
                process.stdin.write(data)
            except BrokenPipeError:
                pass  # it has no power


class Played(Pty, Board):
    """Plays a scheme: `figures` gives, for the name that was flashed, the lines of its banner and
    the cycles of each operation of a letter."""

    def __init__(self, flash: Path, figures: Callable[[str], tuple[list[str], dict[
            str, dict[str, int]]]]) -> None:
        super().__init__()
        self.flash, self.figures = flash, figures
        self.name, self.letter = "", ""
        self.letters: dict[str, dict[str, int]] = {}

    def power_cycle(self) -> None:
        if not self.flash.exists():
            return
        self.name = self.flash.read_text()
        banner, self.letters = self.figures(self.name)
        self.say("".join(f"{line}\n" for line in ["", "[RESET] a board that is played", *banner,
                                                  "[INPUT] a = all"]).encode())

    def take(self, data: bytes) -> None:
        for letter in data.decode("ascii", "replace"):
            self.letter = letter
            self.say(b"[START] measure(10200)\n")
            if letter != "t":
                self.raises_d7()
            results = "".join(f"*** {name:<8}{cycles:>11} {self.name}\n"
                              for name, cycles in self.letters.get(letter, {}).items())
            self.say(f"[END] 10203 milliseconds, n=9 (0 errors)\n{results}"
                     f"[INPUT] a = all\n".encode())
