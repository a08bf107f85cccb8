"""The firmware images with a serial line, and what runs each: simavr or QEMU.

    with Line(BOARDS["uart_atmega328p"]) as line:
        line.send(packets)
        report = line.receive(260)
        stats = line.end()              # simavr alone counts: cycles, asleep, boots …

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sim.machine import simavr_program
from sim.targets import ROOT, run

PATIENCE = 60.0  # seconds until something has failed: generous, as machines may be busy


@dataclass(frozen=True)
class Board:
    name: str  # of the image: firmware/NAME.c, or its part before a "-"
    baud: int
    hertz: int = 0
    mcu: str = ""  # simavr's, or none: QEMU
    qemu: tuple[str, ...] = ()
    deaf: bool = False  # while it sends a report
    ticks: int = 1  # of its timestamps, in a second
    drift: float = 0.002  # how wrong its clock may be

    def image(self, folder: str = "") -> Path:
        """Built, if it is not up to date. The folder "hanging" has those that tests can hang."""
        made = Path("build", "firmware", folder, f"{self.name}.elf")
        run(["make", "--no-print-directory", "-s", "-C", ROOT, made])
        return ROOT / made

    def command(self, image: Path) -> list[str]:
        if self.mcu:
            program = simavr_program("serial_board")
            return [str(word) for word in (program, self.mcu, self.hertz, self.baud, image)]
        return [*self.qemu, "-nographic", "-monitor", "none", "-nodefaults", "-serial", "stdio",
                "-kernel", str(image)]


BOARDS = {board.name: board for board in (
    Board("uart_atmega328p", 115_200, 16_000_000, "atmega328p"),
    # simavr 1.6 forgets a timer's overflow that is pending while another flag is cleared.
    Board("uart_attiny85", 19_200, 8_000_000, "attiny85", deaf=True, ticks=2, drift=0.01),
    # QEMU has no Cortex-M0+ on this board; its Cortex-M3 runs all that a Cortex-M0+ does.
    Board("uart_mps2-m0plus", 115_200, qemu=("qemu-system-arm", "-M", "mps2-an385")),
    Board("uart_mps2-m4", 115_200, qemu=("qemu-system-arm", "-M", "mps2-an386")),
    Board("uart_virt", 115_200, qemu=("qemu-system-riscv32", "-M", "virt", "-bios", "none")),
)}
SENDER = Board("sender_attiny13", 9_600, 1_200_000, "attiny13a")
SILENCE = 2.0  # seconds of the firmware's time until serial_board ends, as serial_board.c says


class Line:
    """A board that runs, and the other end of its serial line: a socket, or with pty=True the
    path of a terminal for somebody else to open. A script is all that is ever sent, and there
    before the board starts: on simavr, such a run repeats to the cycle. More are further arguments of
    the simulator's, which keeps these descriptors open."""

    def __init__(self, board: Board, image: Path | None = None, pty: bool = False,
                 script: bytes | None = None, more: Sequence[str] = (), keep: Sequence[int] = ()) -> None:
        self.path = ""
        if pty:
            end, self._here = os.openpty()
            tty.setraw(self._here)  # as it was made, it would echo reports back as packets
            self.path = os.ttyname(self._here)
        else:
            pair = socket.socketpair()
            end, self._here = (one.detach() for one in pair)
            if script is not None:
                self.send(script)
                self.send_no_more()
        self.process = subprocess.Popen([*board.command(image or board.image()), *more], stdin=end, stdout=end,
                                        stderr=subprocess.PIPE, pass_fds=keep)
        os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.hang_up()

    def hang_up(self) -> None:
        if self._here >= 0:
            os.close(self._here)
        self._here = -1

    def send(self, data: bytes) -> None:
        """All of it, as fast as the board's line takes it."""
        end = time.monotonic() + PATIENCE
        while data:
            assert select.select([], [self._here], [], end - time.monotonic())[1], "it takes no more"
            data = data[os.write(self._here, data[:4096]):]

    def receive(self, length: int, patience: float = PATIENCE) -> bytes:
        """So many bytes, once they have come."""
        end = time.monotonic() + patience
        got = b""
        while len(got) < length:
            if not select.select([self._here], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{len(got)} of {length} bytes came")
            fresh = os.read(self._here, length - len(got))
            assert fresh, "the board has ended"
            got += fresh
        return got

    def send_no_more(self) -> None:
        """From now on simavr's time passes as fast as it can."""
        with socket.socket(fileno=os.dup(self._here)) as here:
            here.shutdown(socket.SHUT_WR)

    def end(self, at_once: bool = False) -> dict[str, int]:
        """Lets the board finish what it has got, or not; what simavr counted."""
        if at_once:
            self.process.terminate()
        else:
            self.send_no_more()  # twice is no harm
        assert self.process.stderr is not None
        self.process.wait(PATIENCE)
        said = self.process.stderr.read().decode(errors="replace")
        counted = re.findall(r"^cycles .*$", said, re.M)
        assert self.process.returncode == 0 and counted, said
        assert "overrun" not in said, said  # simavr's UART lost a byte
        words = counted[0].split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def show(board: Board) -> None:
    """The real client, and a board that it takes for a real one."""
    with Line(board, pty=board is not SENDER) as line:
        if board is SENDER:
            for _ in range(5):
                print(line.receive(8).hex(" "), flush=True)
            return
        address = f"serial:{line.path}@{board.baud}"
        tick = f"{1000 // board.ticks}ms"
        for words in (["set", address, "3", "126"], ["set", address, "7", "9", "--sender", "12"],
                      ["get", address, "--now-from", "0", "--tick", tick]):
            print("$ ./client.py", *words, flush=True)
            subprocess.run([sys.executable, ROOT / "client.py", *words], check=True)


if __name__ == "__main__":
    known = BOARDS | {SENDER.name: SENDER}
    name = sys.argv[1] if sys.argv[1:] else ""
    if name not in known:
        why = f"there is no board {name!r} to try" if name else "make try needs BOARD=NAME"
        print(f"{why}, one of: {', '.join(known)}; firmware/can_avr.md says how to try that on CAN", file=sys.stderr)
        raise SystemExit(2)
    show(known[name])
