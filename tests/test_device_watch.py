"""Property tests of dumpulse_watch.h: compares the C code with the model in spec/watch.py. Clocks
go on, wrap, jump and stand still."""

import ctypes
import re
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spec.model import Agent
from spec.watch import DEAD, LATE, LONGEST, MISSING, WAITING, Line, Watch, allowed, line
from test_dumpulse import CALLS_MAX, GUARD, Recorder, bytes_, load_library, times
from tools.programs import INCLUDES, library_file

CHANGED = 3
ORDER = "<" if sys.byteorder == "little" else ">"

C = load_library("extras/dumpulse_watch.c", "tests/exports_watch.c", "tests/recorder.c")
RECORDER = Recorder.in_dll(C, "recorded")
for name in ("state", "worst", "count", "check"):
    getattr(C, f"export_watch_{name}").restype = ctypes.c_uint8

any_lines = st.builds(Line, bytes_, bytes_, bytes_, times, times, times)


@st.composite
def good_lines(draw: st.DrawFn) -> Line:
    late = draw(st.one_of(st.integers(1, 100), st.integers(1, 60000)))
    dead = draw(st.integers(late, min(5 * late, LONGEST)))
    lowest = draw(bytes_)
    return line(draw(st.integers(0, 63)), late, dead, draw(st.integers(0, 60000)), lowest,
                draw(st.integers(lowest, 255)))


tables = st.lists(st.one_of(good_lines(), any_lines), min_size=1, max_size=CALLS_MAX)


class Watcher(ctypes.Structure):
    _fields_ = [("table", ctypes.c_void_p), ("seen", ctypes.c_void_p), ("count", ctypes.c_uint8)]


class Real:
    """A watch in C, with a guard on both sides of its memory."""

    def __init__(self, lines: list[Line], seen: bytes) -> None:
        packed = b"".join(one.packed(ORDER, "x") for one in lines)
        self.size = len(seen)
        self.table = ctypes.create_string_buffer(packed, len(packed))
        self.memory = ctypes.create_string_buffer(GUARD + seen + GUARD, self.size + 2 * len(GUARD))
        self.agent = ctypes.create_string_buffer(260)
        self.watcher = Watcher(ctypes.addressof(self.table),
                               ctypes.addressof(self.memory) + len(GUARD), len(lines))

    def seen(self) -> bytes:
        raw = self.memory.raw
        assert raw.startswith(GUARD) and raw.endswith(GUARD), "written outside the memory"
        return raw[len(GUARD):-len(GUARD)]

    def look(self, function: str, *arguments: int) -> list[tuple[int, int, int]]:
        RECORDER.count = 0
        getattr(C, function)(ctypes.byref(self.watcher), self.agent, *arguments)
        calls = RECORDER.call[:RECORDER.count]
        assert all(call.kind == CHANGED and call.context == ctypes.addressof(self.agent)
                   for call in calls)
        return [(call.bytes[0], call.bytes[1], call.bytes[2]) for call in calls]


class AgainstModel(RuleBasedStateMachine):
    """After any sequence of heartbeats and looks, C and the model have told the same changes."""

    @initialize(lines=tables, start=st.one_of(st.just(0), times))
    def start(self, lines: list[Line], start: int) -> None:
        self.model, self.agent, self.now = Watch(lines), Agent(), start
        self.real = Real(lines, self.model.seen())
        if start:
            C.export_watch_begin(ctypes.byref(self.real.watcher), start)
            self.model = Watch(lines, start)

    def _look(self, function: str = "export_watch", *part: int) -> None:
        table = self.agent.table()
        self.real.agent.raw = table
        before = self.model.states.copy()
        changes = self.model.look(self.agent.entries, self.now, *part)
        both = [256 * part[0] + part[1]] if part else []
        assert self.real.look(function, self.now, *both) == changes
        assert self.real.agent.raw == table, "the agent has changed"
        for was, state in zip(before, self.model.states, strict=True):
            assert state != WAITING or was == WAITING
            assert state != MISSING or was in (WAITING, MISSING)

    @rule(ticks=st.one_of(st.integers(0, 100), times))
    def time_passes_and_all_are_looked_at(self, ticks: int) -> None:
        self.now = (self.now + ticks) % 65536
        self._look()

    @rule(which=st.integers(0, CALLS_MAX - 1), more=st.integers(-2, 2))
    def time_passes_until_a_limit(self, which: int, more: int) -> None:
        one = self.model.lines[which % len(self.model.lines)]
        self.now = (self.now + (one.dead if more % 2 else one.late) - 64 + more) % 65536
        self._look()

    @rule(first=bytes_, count=bytes_)
    def some_are_looked_at(self, first: int, count: int) -> None:
        self._look("export_watch_part", first, count)

    @rule(which=st.integers(0, CALLS_MAX - 1), back=st.one_of(st.integers(-65, 100), times),
          sender=bytes_, value=bytes_)
    def a_heartbeat(self, which: int, back: int, sender: int, value: int) -> None:
        one = self.model.lines[which % len(self.model.lines)]
        self.agent.record((self.now - back) % 65536, one.entry, sender, value)

    @rule(ticks=st.integers(0, 65535))
    def nothing_new_makes_nobody_better(self, ticks: int) -> None:
        self._look()
        gone = [state in (LATE, DEAD, MISSING) for state in self.model.states]
        self.now = (self.now + ticks) % 65536
        self._look()
        assert all(state in (LATE, DEAD, MISSING)
                   for was, state in zip(gone, self.model.states, strict=True) if was)

    @invariant()
    def same_memory_and_answers(self) -> None:
        if hasattr(self, "real"):
            assert self.real.seen() == self.model.seen()
            watcher = ctypes.byref(self.real.watcher)
            assert C.export_watch_worst(watcher) == self.model.worst()
            for state in range(6):
                assert C.export_watch_count(watcher, state) == self.model.states.count(state)
            for one in self.model.lines:
                assert C.export_watch_state(watcher, one.variable) == \
                    self.model.state(one.variable)


TestAgainstModel = AgainstModel.TestCase


@given(lines=tables, within=times)
def test_tables_are_checked(lines: list[Line], within: int) -> None:
    real = Real(lines, bytes(3 * len(lines)))
    good = [allowed(one, within) for one in lines] + [False]
    assert C.export_watch_check(ctypes.byref(real.watcher), within) == good.index(False)


@given(variable=bytes_, late=times, dead=times, grace=times, lowest=bytes_, highest=bytes_)
def test_lines_are_made(variable: int, late: int, dead: int, grace: int, lowest: int,
                        highest: int) -> None:
    made = ctypes.create_string_buffer(10)
    C.export_watched_make(made, struct.pack(">B3H2B", variable, late, dead, grace, lowest, highest))
    fits = variable < 64 and max(late, dead, grace) <= LONGEST and lowest <= highest
    assert made.raw == (line(variable, late, dead, grace, lowest, highest).packed(ORDER, "x")
                        if fits else bytes(10))


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


@pytest.mark.parametrize("name", ["dumpulse.h", "dumpulse_watch.h"])
def test_the_headers_say_what_a_short_tick_costs(name: str) -> None:
    """One tick is for the watch and for the report: 65536 of 10 ms are 655 s."""
    _, _, paragraph = library_file(name).read_text().partition(" * TIME\n")
    text = " ".join(paragraph.partition("\n *\n")[0].replace(" *", " ").split())
    assert re.search(rf"10 ms.*wrap around after {65536 * 10 // 1000} s", text)
