"""What no clock does in the model of the watch, and what dumpulse_watch.h does not compile. The
vectors compare the C code with the model."""

import random
import subprocess

import pytest

from spec.model import Agent
from spec.tools.make_vectors import some_line, step_of_the_clock
from spec.watch import DEAD, LATE, MISSING, WAITING, Watch
from tools.programs import INCLUDES

GONE = LATE, DEAD, MISSING


def test_what_no_clock_does() -> None:
    """Without a heartbeat, nobody gets better; and a state that ends with the first one does not
    come again. Clocks go on, wrap, jump and stand still."""
    chance = random.Random(7)
    for _ in range(300):
        watch, agent, now = Watch([some_line(chance) for _ in range(8)]), Agent(), 0
        for step in range(60):
            now = (now + step_of_the_clock(chance, watch.lines)) % 65536
            beats = chance.choices(watch.lines, k=2) if step % 3 == 0 else []
            for one in beats:
                agent.record(now, one.entry, *chance.randbytes(2))
            before = watch.states.copy()
            watch.look(agent.entries, now)
            for was, state in zip(before, watch.states, strict=True):
                assert state != WAITING or was == WAITING
                assert state != MISSING or was in (WAITING, MISSING)
                assert beats or was not in GONE or state in GONE


GOOD_LINE = "3, 20, 3, 200, 10, 120"
COMPILERS = [
    pytest.param(["gcc", "-x", "c", "-std=c99"], id="C"),
    pytest.param(["avr-gcc", "-mmcu=atmega328p", "-x", "c", "-std=c99"], id="AVR"),
    pytest.param(["g++", "-x", "c++", "-std=c++11"], id="C++", marks=pytest.mark.slow)]


def compiled(compiler: list[str], text: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Compiles a text behind dumpulse_watch.h, for its errors and warnings."""
    return subprocess.run(
        [*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused", *more, *INCLUDES,
         "-fsyntax-only", "-"], input=f'#include "dumpulse_watch.h"\n{text}',
        capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("numbers", "compiles"), [
    (GOOD_LINE, True), ("63, 1, 1, 0, 0, 0", True), ("0, 64447, 1, 64447, 255, 255", True),
    ("64, 20, 3, 200, 10, 120", False), ("-1, 20, 3, 200, 10, 120", False),
    ("3, 0, 3, 200, 10, 120", False), ("3, 20, 0, 200, 10, 120", False),
    ("3, -20, 3, 200, 10, 120", False), ("3, 20, -3, 200, 10, 120", False),
    ("3, 20, 3, -1, 10, 120", False), ("3, 20, 3, 65536, 10, 120", False),
    ("3, 20, 3, 200, 121, 120", False), ("3, 20, 3, 200, 10, 256", False),
    ("3, 20, 3, 200, -1, 120", False), ("0, 64448, 1, 0, 0, 0", False),
    ("0, 1, 64448, 0, 0, 0", False), ("0, 65536, 65536, 0, 0, 0", False),
    ("0, 1, 1, 64448, 0, 0", False)])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_line_that_cannot_work_does_not_compile(compiler: list[str], numbers: str,
                                                  compiles: bool) -> None:
    done = compiled(compiler, f"DUMPULSE_WATCH(watch, DUMPULSE_WATCHED({numbers}));\n")
    assert (done.returncode == 0) == compiles, done.stderr
    if not compiles:
        assert "array" in done.stderr


@pytest.mark.parametrize(("lines", "compiles"), [(255, True), (256, False)])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_table_that_is_too_long_does_not_compile(compiler: list[str], lines: int,
                                                   compiles: bool) -> None:
    table = ", ".join([f"DUMPULSE_WATCHED({GOOD_LINE})"] * lines)
    assert (compiled(compiler, f"DUMPULSE_WATCH(watch, {table});\n").returncode == 0) == compiles


def test_on_avr_no_table_can_lie_outside_of_program_memory() -> None:
    """Only DUMPULSE_WATCH makes a table there: all else has no type for a line."""
    table = (f"static const dumpulse_watched table[] = {{DUMPULSE_WATCHED({GOOD_LINE})}};\n"
             "static dumpulse_seen seen[1];\n"
             "const dumpulse_watcher watch = {table, seen, 1};\n")
    assert compiled(["gcc", "-x", "c", "-std=c99"], table).returncode == 0
    done = compiled(["avr-gcc", "-x", "c", "-std=c99", "-mmcu=atmega328p"], table, "-w")
    assert "unknown type name" in done.stderr and done.returncode == 1
