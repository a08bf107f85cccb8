"""The first hour on hardware, on simulated boards behind a terminal: the script sees no difference.
A relay between both can lose bytes, and restarts the board when the script asks for a reset."""

import os
import re
import select
import subprocess
import sys
import tty

import pytest

from firmware.simulators.boards import BOARDS, Board, Line
from tools.programs import ROOT


def run_hour(board: Board, loses: int = 0, resets: bool = True) -> tuple[int, str]:
    """Runs it. Every byte of that number, to the board, is lost; 1: each is."""
    script_end, here = os.openpty()[::-1]
    tty.setraw(script_end)
    shown, count = "", 0
    line = Line(board)
    with subprocess.Popen(
            [sys.executable, "-m", "firmware.hardware.first_hour", board.name,
             os.ttyname(script_end), "--no-flash"], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE) as script:
        assert script.stdin and script.stdout
        while True:
            output = script.stdout.fileno()
            ready = select.select([here, line._here, output], [], [], 60)[0]
            assert ready, shown
            if output in ready:
                text = os.read(output, 4096)
                if not text:
                    break
                shown += text.decode()
                if shown.endswith("after 2 seconds. "):
                    if resets:
                        line.__exit__()
                        line = Line(board)
                    script.stdin.write(b"\n")
                    script.stdin.flush()
            if here in ready:
                data = os.read(here, 64)  # a pause within a packet would end it
                line.send(bytes(byte for at, byte in enumerate(data, count + 1)
                                if not loses or at % loses))
                count += len(data)
            if line._here in ready:
                os.write(here, os.read(line._here, 4096))
    line.__exit__()
    os.close(here)
    os.close(script_end)
    assert all(len(row) <= 80 for row in shown.splitlines())
    return script.returncode, shown


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loses", "resets", "failed"), [
    ("uart_atmega328p", 0, True, set()), ("uart_stm32-f4", 0, True, set()),
    ("uart_atmega328p", 1, True, {"poll", "send", "send 100", "cut", "flood", "reset"}),
    ("uart_atmega328p", 97, True, {"send 100"}),
    ("uart_atmega328p", 0, False, {"reset"})])
def test_its_table(name: str, loses: int, resets: bool, failed: set[str]) -> None:
    status, shown = run_hour(BOARDS[name], loses, resets)
    rows = shown[shown.index("\n20"):].splitlines()
    assert re.fullmatch(rf"20..-..-..  {name}  image [0-9a-f]{{16}}", rows[1])
    found = {row.split(" ")[0] + " 100" * row.startswith("send 100")
             for row in rows if "FAILED" in row}
    assert failed <= found if loses else found == failed, shown
    assert status == bool(failed) and len(rows) == 9
