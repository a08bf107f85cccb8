"""The first hour on hardware, on simulated boards behind a terminal: the script sees no difference.
A relay between both can lose bytes, and restarts the board when the script asks for a reset."""

import os
import re
import select
import subprocess
import sys
import time
import tty

import pytest

from firmware.simulators.boards import BOARDS, Board, Line
from tools.programs import ROOT


class SerialRelay:
    """Every byte of the number `loses`, to the board, is lost; 1: each is, 0: none."""

    def __init__(self, board: Board, loses: int = 0, resets: bool = True) -> None:
        self.board, self.loses, self.resets, self._count = board, loses, resets, 0
        self._script_end, self._here = os.openpty()[::-1]
        tty.setraw(self._script_end)
        self.port, self._line = os.ttyname(self._script_end), Line(board)

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


def run_hour(relay: SerialRelay) -> tuple[int, str]:
    shown = ""
    with subprocess.Popen(
            [sys.executable, "-m", "firmware.hardware.first_hour", relay.board.name, relay.port,
             "--no-flash"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as script:
        assert script.stdin and script.stdout
        output, silent_since = script.stdout.fileno(), time.monotonic()
        while True:
            ready = select.select([relay._here, relay._line._here, output], [], [], 0.02)[0]
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
