"""The first hour on hardware, on simulated boards behind a terminal: the script sees no difference.
A relay between both can lose bytes, and restarts the board when the script asks for a reset. CAN is
that of an emulated Linux."""

import os
import re
import select
import socket
import struct
import subprocess
import sys
import time
import tty

import pytest

from firmware.simulators.boards import BOARDS, Board, Line, LiveBus, frame
from tools import vm
from tools.programs import ROOT, built

CAN = BOARDS["can_avr"]
CAN_FRAME = struct.Struct("=LB3x8s")


class SerialRelay:
    """Every byte of the number `loses`, to the board, is lost; 1: each is, 0: none."""

    def __init__(self, board: Board, loses: int = 0, resets: bool = True) -> None:
        self.board, self.loses, self.resets, self._count = board, loses, resets, 0
        self._script_end, self._here = os.openpty()[::-1]
        tty.setraw(self._script_end)
        self.port, self._line = os.ttyname(self._script_end), Line(board)

    def ends(self) -> list[int]:
        return [self._here, self._line._here]

    def restart(self) -> None:
        if self.resets:
            self._line.__exit__()
            self._line = Line(self.board)

    def pass_on(self, ready: list[int]) -> None:
        if self._here in ready:
            data = os.read(self._here, 64)  # a pause within a packet would end it
            self._line.send(bytes(byte for at, byte in enumerate(data, self._count + 1)
                                  if not self.loses or at % self.loses))
            self._count += len(data)
        if self._line._here in ready:
            os.write(self._here, os.read(self._line._here, 4096))

    def end(self) -> None:
        self._line.__exit__()
        os.close(self._here)
        os.close(self._script_end)


class CanRelay:
    """Between vcan0 and a simulated board, whose time is that of this machine."""
    board, port = CAN, "vcan0"

    def __init__(self) -> None:
        self._bus = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
        self._bus.bind((self.port,))
        self.restart()

    def ends(self) -> list[int]:
        return [self._bus.fileno()]

    def restart(self) -> None:
        self._live, self._then = LiveBus(CAN, b"\xff"), time.monotonic()

    def pass_on(self, _ready: list[int]) -> None:
        came = list[str]()
        while len(came) < 60 and select.select([self._bus], [], [], 0)[0]:
            number, length, data = CAN_FRAME.unpack(self._bus.recv(CAN_FRAME.size))
            came.append(frame(number, data[:length]))
        before, self._then = self._then, time.monotonic()
        for number, data in self._live.do(*came, f"wait {(self._then - before) * 1e6:.0f}"):
            self._bus.send(CAN_FRAME.pack(number, len(data), data))

    def end(self) -> None:
        self._bus.close()


def run_hour(relay: SerialRelay | CanRelay) -> tuple[int, str]:
    shown = ""
    with subprocess.Popen(
            [sys.executable, "-m", "firmware.hardware.first_hour", relay.board.name, relay.port,
             "--no-flash"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as script:
        assert script.stdin and script.stdout
        output, silent_since = script.stdout.fileno(), time.monotonic()
        while True:
            ready = select.select([*relay.ends(), output], [], [], 0.02)[0]
            if output in ready:
                silent_since = time.monotonic()
                text = os.read(output, 4096)
                if not text:
                    break
                shown += text.decode()
                if shown.endswith("after 2 seconds. "):
                    relay.restart()
                    script.stdin.write(b"\n")
                    script.stdin.flush()
            assert time.monotonic() - silent_since < 200, shown
            relay.pass_on(ready)
    relay.end()
    assert all(len(row) <= 80 for row in shown.splitlines())
    return script.returncode, shown


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loses", "resets", "failed"), [
    ("uart_atmega328p", 0, True, set()), ("uart_stm32-f4", 0, True, set()),
    ("uart_atmega328p", 1, True, {"poll", "send", "send 100", "cut", "flood", "reset"}),
    ("uart_atmega328p", 97, True, {"send 100"}),
    ("uart_atmega328p", 0, False, {"reset"})])
def test_its_table(name: str, loses: int, resets: bool, failed: set[str]) -> None:
    status, shown = run_hour(SerialRelay(BOARDS[name], loses, resets))
    rows = shown[shown.index("\n20"):].splitlines()
    assert re.fullmatch(rf"20..-..-..  {name}  image [0-9a-f]{{16}}", rows[1])
    found = {row.split(" ")[0] + " 100" * row.startswith("send 100")
             for row in rows if "FAILED" in row}
    assert failed <= found if loses else found == failed, shown
    assert status == bool(failed) and len(rows) == 9


@pytest.mark.slow
def test_on_a_can_bus() -> None:
    """On vcan0 of an emulated machine, which runs this file."""
    CAN.image()
    built("build/sim/can_board")
    status, shown = vm.run_in_vm("ln -s /proc/self/fd /dev/fd; "
                                 "build/venv/bin/python -m firmware.tests.test_first_hour")
    assert status == 0 and len(re.findall(r" ok$", shown, re.M)) == 6, shown


if __name__ == "__main__":
    code, table = run_hour(CanRelay())
    print(table)
    sys.exit(code)
