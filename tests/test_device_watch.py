"""What dumpulse_watch.h does not compile. The vectors compare the C code with the model."""

import subprocess

import pytest

from tools.programs import INCLUDES

LINE = "DUMPULSE_WATCHED(variable({}), silence({}), misses({}), grace({}), values({}, {}))"
GOOD = (3, 20, 3, 200, 10, 120)
COMPILERS = [
    pytest.param(["gcc", "-x", "c", "-std=c11"], id="C11"),
    pytest.param(["gcc", "-x", "c", "-std=c99"], id="C"),
    pytest.param(["avr-gcc", "-mmcu=atmega328p", "-x", "c", "-std=c99"], id="AVR"),
    pytest.param(["g++", "-x", "c++", "-std=c++11"], id="C++", marks=pytest.mark.slow)]


def compiled(compiler: list[str], text: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Compiles a text behind dumpulse_watch.h, for its errors and warnings."""
    return subprocess.run(
        [*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused", *more, *INCLUDES,
         "-fsyntax-only", "-"], input=f'#include "dumpulse_watch.h"\n{text}',
        capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("numbers", "wrong"), [
    (GOOD, ""), ((63, 1, 1, 0, 0, 0), ""), ((0, 64447, 1, 64447, 255, 255), ""),
    ((64, 20, 3, 200, 10, 120), "variable"), ((-1, 20, 3, 200, 10, 120), "variable"),
    ((3, 0, 3, 200, 10, 120), "silence"), ((3, 20, 0, 200, 10, 120), "misses"),
    ((3, -20, 3, 200, 10, 120), "silence"), ((3, 20, -3, 200, 10, 120), "misses"),
    ((3, 20, 3, -1, 10, 120), "grace"), ((3, 20, 3, 65536, 10, 120), "grace"),
    ((3, 20, 3, 200, 121, 120), "values"), ((3, 20, 3, 200, 10, 256), "values"),
    ((3, 20, 3, 200, -1, 120), "values"), ((0, 64448, 1, 0, 0, 0), "misses"),
    ((0, 1, 64448, 0, 0, 0), "misses"), ((0, 65536, 65536, 0, 0, 0), "silence"),
    ((0, 1, 1, 64448, 0, 0), "grace")])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_line_that_cannot_work_does_not_compile(compiler: list[str], numbers: tuple[int, ...],
                                                  wrong: str) -> None:
    done = compiled(compiler, f"DUMPULSE_WATCH(watch, {LINE.format(*numbers)});\n")
    assert (done.returncode == 0) == (wrong == ""), done.stderr
    if wrong:
        named = {"-std=c11": f'failed: "{wrong}_', "-std=c++11": f"<false, {wrong}_"}
        assert named.get(compiler[-1], "array") in done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_swapped_numbers_do_not_compile(compiler: list[str]) -> None:
    line = LINE.format(*GOOD).replace("silence(20), misses(3)", "misses(3), silence(20)")
    done = compiled(compiler, f"DUMPULSE_WATCH(watch, {line});\n")
    assert done.returncode == 1 and "DUMPULSE_2_misses" in done.stderr


@pytest.mark.parametrize(("lines", "compiles"), [(255, True), (256, False)])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_table_that_is_too_long_does_not_compile(compiler: list[str], lines: int,
                                                   compiles: bool) -> None:
    table = ", ".join([LINE.format(*GOOD)] * lines)
    assert (compiled(compiler, f"DUMPULSE_WATCH(watch, {table});\n").returncode == 0) == compiles


def test_on_avr_no_table_can_lie_outside_of_program_memory() -> None:
    """Only DUMPULSE_WATCH makes a table there: all else has no type for a line."""
    table = (f"static const dumpulse_watched table[] = {{{LINE.format(*GOOD)}}};\n"
             "static dumpulse_seen seen[1];\n"
             "const dumpulse_watcher watch = {table, seen, 1};\n")
    assert compiled(["gcc", "-x", "c", "-std=c99"], table).returncode == 0
    done = compiled(["avr-gcc", "-x", "c", "-std=c99", "-mmcu=atmega328p"], table, "-w")
    assert "unknown type name" in done.stderr and done.returncode == 1
