"""Stand-ins for meters, into which a test puts a known number of joules, and a clock that it sets.

They prove parsing and arithmetic; they measure nothing."""

import contextlib
import http.server
import json
import os
import random
import re
import select
import signal
import subprocess
import threading
import time
import tty
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from lab.joules.meters import Clock


class SimulatedClock(Clock):
    """Time passes only in sleep(). What was asked for with every() happens at its moments, after
    each of `worlds` was told the time."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.worlds: list[Callable[[float], None]] = []
        self._calls: list[tuple[list[float], float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        end = self.time + seconds
        while True:
            due = min((entry for entry in self._calls if entry[0][0] <= end),
                      key=lambda entry: entry[0][0], default=None)
            self._set(end if due is None else due[0][0])
            if due is None:
                return
            due[0][0] += due[1]
            due[2]()

    def _set(self, time: float) -> None:
        self.time = time
        for world in self.worlds:
            world(time)

    def every(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        entry = [self.time + seconds], seconds, call
        self._calls.append(entry)
        return lambda: self._calls.remove(entry)


def write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


class Counter:
    """A domain of RAPL that takes so many watts, from where its counter stands."""

    def __init__(self, sys: Path, folder: str, name: str, watts: float, *, at: int = 0,
                 span: int = 262_143_328_850) -> None:
        self.folder = sys / "class" / "powercap" / folder
        self.watts, self.at, self.span, self.time = watts, float(at), span, 1000.0
        write(self.folder / "name", name)
        write(self.folder / "max_energy_range_uj", span)
        self(self.time)

    def __call__(self, time: float) -> None:
        self.at += self.watts * (time - self.time) * 1e6
        self.time = time
        write(self.folder / "energy_uj", round(self.at) % self.span)


@contextlib.contextmanager
def moving(sys: Path, watts: float) -> Iterator[Path]:
    """A tree of files whose counter moves with the real time."""
    counter = Counter(sys, "intel-rapl:0", "package-0", watts)
    file, over, began = counter.folder / "energy_uj", threading.Event(), time.monotonic()

    def move() -> None:
        while not over.wait(0.002):
            write(file.with_name("next"), round((time.monotonic() - began) * watts * 1e6))
            file.with_name("next").replace(file)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield sys
    finally:
        over.set()
        thread.join()


class Cell:
    """A battery that gives so many watts. Its gauge shows whole steps, rounded down, of µWh or
    µAh, and looks anew every `period` seconds."""

    def __init__(self, sys: Path, name: str, now: float, *, watts: float = 0.0, step: int = 10_000,
                 form: str = "energy", volts: float = 12.0, status: str = "Discharging",
                 period: float = 0.0) -> None:
        self.folder = sys / "class" / "power_supply" / name
        self.now, self.watts, self.step, self.form, self.volts = now, watts, step, form, volts
        self.period, self.time, self.looked, self.shown = period, 1000.0, -1e9, (-1, -1)
        write(self.folder / "type", "Battery")
        write(self.folder / "status", status)
        write(self.folder / f"{form}_full", 60_000_000 // step * step)
        self(self.time)

    def __call__(self, time: float) -> None:
        unit = 3600e-6 * (self.volts if self.form == "charge" else 1)  # joules of a µWh or µAh
        self.now -= self.watts * (time - self.time) / unit
        self.time = time
        if time - self.looked >= self.period and self.folder.exists():
            self.looked = time
            shown = int(self.now) // self.step * self.step, round(self.volts * 1e6)
            if shown != self.shown:
                self.shown = shown
                write(self.folder / f"{self.form}_now", shown[0])
                write(self.folder / "voltage_now", shown[1])


def hear_ctrl_c() -> None:
    """In a new process: as from a terminal. What nohup or & has started does not hear it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class WebPlug:
    """A smart plug of either generation. `answers` has what it says to each path, as bytes."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.paths: list[str] = []
        plug = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                plug.paths.append(self.path)
                body = plug.answers.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.at = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def say(self, generation: int, watts: float, joules: float) -> None:
        if generation == 1:
            self.answers["/meter/0"] = json.dumps(
                {"power": watts, "is_valid": True, "total": int(joules // 60)}).encode()
        else:
            self.answers["/rpc/Switch.GetStatus?id=0"] = json.dumps(
                {"id": 0, "apower": round(watts, 1),
                 "aenergy": {"total": round(joules / 3600, 3)}}).encode()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


# ---------------------------------------------------------------- the power sandwich

# `Shield` speaks as a PowerShield does, on a pty. It feeds a `Board`: either the real firmware in
# QEMU, or one that plays a scheme. A board tells the shield when it raises D7, and the shield tells
# the board when its power is switched off and on. `FLASH` stands in for st-flash.

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
    comes twice, after one `start` each rise of D7 is a trigger, and the summary comes before the
    end. With `by_manual` it does none of these."""

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
        self.busy, self.unwilling = 2, 1  # Commands `status` and `trigsrc d7` that it rejects.
        self.volts = "3300-03"
        self.armed = False
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
        elif word == "start":
            self.armed = True
            self.tell("PowerShield > ack start")
        elif word == "stop" and not self.armed:
            if self.by_manual:
                self.tell("PowerShield > error stop")
        elif word in ("htc", "stop", "temp", "output", "format", "freq", "acqtime",
                      "acqmode", "trigsrc"):
            self.armed = self.armed and word == "trigsrc"
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
            samples = list(self.samples())
            count = len(samples)
            if self.fault("no trigger"):
                return
            if self.fault("short"):
                del samples[-1]
            if self.fault("cut"):
                samples[len(samples) // 2] = samples[len(samples) // 2][2:]
            self.stamp()
            for text in samples:
                self.tell(text)
            if self.fault("no end"):
                return
            self.summary(count)

    def stamp(self) -> None:
        for _ in range(1 if self.by_manual else 2):
            self.tell("TimeStamp: 000s 000ms, buff 00%")

    def summary(self, count: int) -> None:
        finished = "PowerShield > Acquisition completed"
        for text in ("end", *[finished] * self.by_manual, f"Acquisition time: {count * 100:05d}-03",
                     f"Number of samples: {count}", *[finished] * (not self.by_manual)):
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
        while data := process.stdout.read(4096):
            self.say(data)

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
        self.name = ""
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
            self.say(b"[START] measure(10200)\n")
            if letter != "t":
                self.raises_d7()
            results = "".join(f"*** {name:<8}{cycles:>11} {self.name}\n"
                              for name, cycles in self.letters.get(letter, {}).items())
            self.say(f"[END] 10203 milliseconds, n=9 (0 errors)\n{results}"
                     f"[INPUT] a = all\n".encode())
