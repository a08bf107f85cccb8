"""Writes vectors.tsv, the test vectors that every language's tests read, and vectors_watch.tsv,
those of dumpulse_watch.h, and vectors_keyed.tsv, those of dumpulse_keyed.h.

    python3 -m spec.tools.make_vectors          writes spec/vectors.tsv
    python3 -m spec.tools.make_vectors --check  fails if it is not what this writes
    python3 -m spec.tools.make_vectors DIR      writes the three into a folder

They come from model.py, watch.py, keyed.py and zlib, and not from the C code."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from spec.model import (HEARTBEAT, MAGIC, REPORT, REQUEST, VARIABLES, Agent, checksummed,
                        heartbeat)
from spec.watch import (ALIVE, BEST_FIRST, DEAD, LATE, LONGEST, MISSING, OUT_OF_RANGE, WAITING,
                        WRAP, Line, Watch, allowed, line)
from spec.tools import keyed_vectors
from spec.tools.keyed_vectors import changed, lengths

Step = tuple[object, ...]

HEADER = """\
# Dumpulse test vectors, made by spec/tools/make_vectors.py. Each line has one step.
# There are tabs between the fields. Numbers are decimal, bytes are hexadecimal,
# "-" means no bytes. Each step works on the table that the step before it has
# left. What a step does not name must not change.
#
# table      BYTES                              set the whole table
# refused    TIME PACKET                        nothing happens, no hook is called
# heartbeat  TIME PACKET VARIABLE ENTRY         the clock is read once, ENTRY is written
# report     TIME PACKET BYTES                  the table becomes BYTES, and is sent once
# record     TIME VARIABLE SENDER VALUE ENTRY   if ENTRY is "-", nothing happens
# make       VARIABLE SENDER VALUE PACKET       the heartbeat that a node sends
# check      BYTES yes|no                       is this a good report?
# read       VARIABLE ENTRY                     the entry of the table, as read from a report
"""

HEADER_OF_WATCH = """\
# Test vectors of dumpulse_watch.h, made by spec/tools/make_vectors.py. Each line has
# one step. There are tabs between the fields. Numbers are decimal, bytes are
# hexadecimal, "-" means no bytes. Each step works on what the step before it has
# left. What a step does not name must not change.
#
# LINES    9 bytes for each line of the table: variable, lowest, span, and two bytes,
#          big-endian, for each of grace, late and dead
# SEEN     3 bytes for each line: what its RAM must hold
# CHANGES  3 bytes for each call of the hook, in order: variable, was, is
#
# lines  LINES                            a new table; agent and RAM become zeros
# seen   SEEN                             the test itself writes the RAM
# entry  VARIABLE ENTRY                   the test itself writes an entry of the agent
# begin  TIME SEEN                        dumpulse_watch_begin
# look   TIME CHANGES SEEN                dumpulse_watch
# part   TIME FIRST COUNT CHANGES SEEN    dumpulse_watch_part
# state  VARIABLE STATE                   dumpulse_watch_state
# worst  STATE                            dumpulse_watch_worst
# count  STATE NUMBER                     dumpulse_watch_count
# check  WITHIN NUMBER                    dumpulse_watch_check
# make   VARIABLE LATE DEAD GRACE LOWEST HIGHEST LINES    dumpulse_watched_make
"""


def near_misses() -> Iterator[bytes]:
    """Packets that are nearly right."""
    valid = heartbeat(3, 76, 9)
    yield from changed(valid)
    for index, byte in enumerate(REQUEST):
        yield REQUEST[:index] + bytes((byte ^ 1 << index,)) + REQUEST[index + 1:]
    for packet in (valid, REQUEST):
        yield from lengths(packet)
    for variable in (64, 65, 127, 128, 191, 192, 255):
        yield heartbeat(variable, 1, 2)
    for (magic,) in changed(bytes((MAGIC,))):
        yield heartbeat(5, 6, 7, magic=magic)
    for packet in (valid, REQUEST):  # the checksum at the wrong end; all bytes reversed
        yield packet[4:] + packet[:4]
        yield packet[::-1]
    yield bytes(8)
    yield b"\xff" * 8


class Script:
    """An agent, and what it must do. The methods give the steps."""

    def __init__(self) -> None:
        self.agent, self.rng = Agent(), random.Random("dumpulse")

    def table(self, data: bytes) -> Step:
        self.agent = Agent.of_table(data)
        return "table", data

    def packet(self, now: int, data: bytes) -> Step:
        result = self.agent.process(now, data)
        if result == REPORT:
            return "report", now, data, self.agent.table()
        if result == HEARTBEAT:
            return "heartbeat", now, data, data[5], self.agent.entries[data[5]]
        return "refused", now, data

    def record(self, now: int, variable: int, sender: int, value: int) -> Step:
        if self.agent.record(now, variable, sender, value):
            return "record", now, variable, sender, value, self.agent.entries[variable]
        return "record", now, variable, sender, value, b""

    def report_and_checks(self) -> Iterator[Step]:
        yield self.packet(0, REQUEST)
        report, rng = self.agent.table(), self.rng
        yield "check", report, "yes"
        index = rng.randrange(260)
        byte = bytes((report[index] ^ 1 << rng.randrange(8),))
        yield "check", report[:index] + byte + report[index + 1:], "no"
        yield "check", report[:-1], "no"


def steps() -> Iterator[Step]:
    script = Script()
    yield script.table(bytes(260))
    yield from script.report_and_checks()
    yield script.packet(0x1234, bytes.fromhex("0472014af1034c09"))
    yield from script.report_and_checks()
    for index in range(4):  # one byte of the checksum alone
        report = script.agent.table()
        yield "check", report[:index] + bytes((report[index] ^ 1,)) + report[index + 1:], "no"
    yield from heartbeats(script)
    yield from script.report_and_checks()
    for variable, sender, value in ((0, 0, 0), (3, 76, 9), (63, 255, 255), (64, 0, 1),
                                    (255, 255, 255)):
        yield "make", variable, sender, value, heartbeat(variable, sender, value)
    for variable in (0, 1, 3, 62, 63, 64, 255):
        yield "read", variable, script.agent.entries[variable] if variable < VARIABLES else bytes(4)
    # Tables with more and more bytes 0xFF: the second sum of Adler-32 is reduced more and more
    # often.
    for full in range(0, 257, 32):
        yield script.table(b"\xaa" * 4 + b"\xff" * full + bytes(256 - full))
        yield script.packet(0, REQUEST)
    yield from script.report_and_checks()
    for _ in range(2):
        yield script.table(script.rng.randbytes(260))
        yield from script.report_and_checks()
    yield from extreme_sums(script)
    yield script.table(script.rng.randbytes(260))
    for data in near_misses():
        yield script.packet(0xBEEF, data)
    yield "check", b"", "no"
    yield "check", bytes(260), "no"
    yield "check", checksummed(bytes(256)) + b"\0", "no"
    yield "check", checksummed(bytes(252)), "no"


def heartbeats(script: Script) -> Iterator[Step]:
    rng = script.rng
    for variable in range(0, VARIABLES, 3):  # each with its own time, sender and value
        yield script.packet(rng.randrange(65536), heartbeat(variable, rng.randrange(256),
                                                          rng.randrange(256)))
    for now in (0, 1, 255, 256, 32767, 32768, 65535):
        yield script.packet(now, heartbeat(63, 0, 0))
        yield script.packet(now, heartbeat(0, 255, 255))
    for low in (0, 255):  # sums with a low byte of 0 or 255, where the high byte changes
        for index in (1, 3):
            candidates = (packet for packet in iter(lambda: heartbeat(
                rng.randrange(64), rng.randrange(256), rng.randrange(256)), b"")
                          if packet[index] == low)
            for packet in itertools.islice(candidates, 4):
                yield script.packet(rng.randrange(65536), packet)
    for variable in (0, 1, 62, 63, 64, 65, 127, 128, 191, 192, 255):
        yield script.record(rng.randrange(65536), variable, rng.randrange(256), rng.randrange(256))


def extreme_sums(script: Script) -> Iterator[Step]:
    """Tables whose second sum is 0, 1, 65519 or 65520, at the ends of its range."""
    for target in (0, 1, 65519, 65520):
        while True:
            rest = bytearray(script.rng.randbytes(256))
            # If byte k is one higher, the sum is 256 - k higher. So the last bytes set it exactly.
            for index in range(256):
                lack = (target - (int.from_bytes(checksummed(bytes(rest))[:2], "big"))) % 65521
                rest[index] = min(255, rest[index] + lack // (256 - index))
            if checksummed(bytes(rest))[:2] == target.to_bytes(2, "big"):
                break
        yield script.table(b"\x55" * 4 + bytes(rest))
        yield script.packet(0, REQUEST)


# ---- The watch.

class Watched:
    """An agent and its watch. The methods give the steps."""

    def __init__(self, lines: list[Line]) -> None:
        self.agent, self.watch = Agent(), Watch(lines)

    def lines(self) -> Step:
        return "lines", b"".join(row.packed(">") for row in self.watch.lines)

    def entry(self, variable: int, time: int, sender: int, value: int) -> Step:
        variable %= VARIABLES
        self.agent.record(time % WRAP, variable, sender, value)
        return "entry", variable, self.agent.entries[variable]

    def look(self, now: int, *part: int) -> Step:
        changes = self.watch.look(self.agent.entries, now % WRAP, *part)
        return ("part" if part else "look", now % WRAP, *part,
                b"".join(map(bytes, changes)), self.watch.seen())

    def begin(self, now: int) -> Step:
        self.watch.begin(now)
        return "begin", now, self.watch.seen()

    def states(self, *states: int) -> Step:
        self.watch.states[:] = states
        return "seen", self.watch.seen()

    def answers(self) -> Iterator[Step]:
        yield "worst", self.watch.worst()
        for state in range(DEAD + 1):
            yield "count", state, self.watch.states.count(state)


def steps_of_watch() -> Iterator[Step]:
    rng = random.Random("watch")
    sensible = [line(3, 20, 60, 200, 10, 120), line(63, 1000, 3000, 60000, 255, 255),
                line(0, 1, 1, 0, 0, 0), line(3, 40, 80, 63, 0, 255), line(31, 30000, LONGEST, 1)]
    hostile = [Line(0xFF, 200, 255, 0xFFFF, 0, 0), Line(0, 0, 0, 0, 0xFFFF, 0xFFFF),
               Line(5, 9, 3, 69, 48, 40), Line(70, 250, 10, 70, 100, 90),
               Line(7, 0, 255, 7, 65, 66)]
    yield from ages(sensible)
    yield from graces(sensible)
    yield from by_chance(sensible, rng)
    yield from by_chance(hostile, rng)
    yield from values_and_bytes()
    yield from questions()
    yield from checks(sensible, hostile)


def ages(lines: list[Line]) -> Iterator[Step]:
    """Each limit of each line, and a tick more, until the age has wrapped around."""
    for number, row in enumerate(lines):
        it, start = Watched(lines), (1, 255, 1000, WRAP - 40)[number % 4]
        yield it.lines()
        yield it.entry(row.variable, start, 7, row.lowest)
        limits = sorted({0, row.late - 64, row.late - 63, row.dead - 64, row.dead - 63,
                         LONGEST, LONGEST + 1, WRAP - 1, WRAP, WRAP + 1})
        for age in limits:
            yield it.look(start + age, number, 1)
        yield it.look(start)
        yield it.entry(row.variable, start + 256, 7, row.lowest)  # only the high byte is new
        yield it.look(start + 300)
        yield it.entry(row.variable, start + 290, 7, row.lowest)  # only the low byte is new
        yield it.look(start + 300)


def graces(lines: list[Line]) -> Iterator[Step]:
    for start in (0, 0xFF12):
        it = Watched(lines)
        yield it.lines()
        if start:
            yield it.begin(start)
        for grace in sorted({row.grace - 64 for row in lines}):
            yield it.look(start + grace)
            yield it.look(start + grace + 1)
        yield it.begin(77)  # None waits any more, unless the grace is hostile.
        yield it.look(WRAP - 1)
        yield it.entry(lines[0].variable, 0, 0, 1)
        yield it.look(0)


def by_chance(lines: list[Line], rng: random.Random) -> Iterator[Step]:
    it, now = Watched(lines), rng.choice((0, rng.randrange(WRAP)))
    yield it.lines()
    if rng.randrange(2):
        yield it.begin(now)
    for _ in range(12):
        row = rng.choice(lines)
        now += rng.choice((0, 1, rng.randrange(100), rng.randrange(WRAP), row.late - 63))
        if rng.randrange(3):
            yield it.entry(row.variable, now - rng.choice((0, 1, rng.randrange(70), -64, -65)),
                           rng.randrange(256), rng.randrange(256))
        yield it.look(now, *rng.choice(((), (), (rng.randrange(7), rng.randrange(7)), (2, 255))))


def values_and_bytes() -> Iterator[Step]:
    row = line(5, 20, 60, 200, 10, 120)
    for index in range(4):  # each byte alone makes it an entry that was heard
        it = Watched([row])
        yield it.lines()
        entry = bytes(60 * (number == index) for number in range(4))
        yield it.entry(5, entry[0] * 256 + entry[1], *entry[2:])
        yield it.look(entry[0] * 256 + entry[1])
        yield it.entry(5, 0, 0, 0)  # four zeros after it was heard
        yield it.look(5)
    it = Watched([row])
    yield it.lines()
    for value in (0, 9, 10, 120, 121, 255, 60):  # all in one tick
        yield it.entry(5, 7, 1, value)
        yield it.look(7)
    for ahead in (1, 63, 64, 65):
        yield it.entry(5, 1000 + ahead, 1, 60)
        yield it.look(1000)


def questions() -> Iterator[Step]:
    it = Watched([line(variable, 20, 60, 200) for variable in (4, 9, 4)])
    yield it.lines()
    yield from it.answers()
    for bad, rest in itertools.product(BEST_FIRST, repeat=2):
        yield it.states(*(bad if index == (bad + rest) % 3 else rest for index in range(3)))
        yield "worst", it.watch.worst()
    for states in ((WAITING, MISSING, ALIVE), (OUT_OF_RANGE, LATE, DEAD), (DEAD, DEAD, DEAD)):
        yield it.states(*states)
        yield from it.answers()
        for variable in (0, 4, 9, 63, 64 + 4, 255):
            yield "state", variable, it.watch.state(variable)


def checks(*tables: list[Line]) -> Iterator[Step]:
    for lines in (*tables, *([row] for row in (*tables[0], *tables[1]))):
        it = Watched(lines)
        yield it.lines()
        for within in (0, 1, 100, LONGEST - 60, WRAP - 1):
            verdicts = [allowed(row, within) for row in lines]
            yield "check", within, [*verdicts, False].index(False)
    good_line = line(3, 20, 60, 200, 10, 120)
    for row in (good_line, *(good_line._replace(**{name: value}) for name, value in (
            ("variable", 63), ("variable", 64), ("grace", 63), ("grace", 64), ("grace", 65435),
            ("grace", 65436), ("span", 245),
            ("span", 246), ("late", 64), ("late", 65), ("late", 124), ("late", 125),
            ("dead", 84), ("dead", 83), ("dead", 65435), ("dead", 65436), ("late", 65535)))):
        yield Watched([good_line, row]).lines()
        yield "check", 100, 2 if allowed(row, 100) else 1
    for numbers in ((3, 20, 60, 200, 10, 120), (0, 1, 1, 0, 0, 0),
                    (63, LONGEST, LONGEST, LONGEST, 255, 255),
                    (1, 1, 1, LONGEST + 1, 0, 255), (64, 1, 1, 0, 0, 255), (255, 1, 1, 0, 0, 255),
                    (1, LONGEST + 1, 1, 0, 0, 255), (1, 1, LONGEST + 1, 0, 0, 255),
                    (1, 65535, 65535, 65535, 0, 255), (1, 1, 1, 0, 9, 8), (1, 0, 0, 0, 9, 9)):
        variable, late, dead, grace, lowest, highest = numbers
        fits = variable < 64 and max(late, dead, grace) <= LONGEST and lowest <= highest
        yield "make", *numbers, line(*numbers).packed(">") if fits else bytes(9)


# ---- The files. Only that of version 1 is kept.

KEPT = Path(__file__).parent.parent / "vectors.tsv"
FILES = {"vectors.tsv": (HEADER, steps), "vectors_watch.tsv": (HEADER_OF_WATCH, steps_of_watch),
         "vectors_keyed.tsv": (keyed_vectors.HEADER, keyed_vectors.steps)}


def text(name: str) -> str:
    def cell(value: object) -> str:
        return (value.hex() or "-") if isinstance(value, bytes) else str(value)

    header, steps = FILES[name]
    return header + "".join("\t".join(map(cell, step)) + "\n" for step in steps())


def main() -> None:
    words = sys.argv[1:]
    if not words:
        KEPT.write_text(text(KEPT.name))
    elif words == ["--check"]:
        if KEPT.read_text() != text(KEPT.name):
            raise SystemExit(f"{KEPT.name} is not what make_vectors.py writes: run it")
        print(f"{KEPT.name}: as make_vectors.py writes it")
    elif len(words) == 1 and not words[0].startswith("-"):
        Path(words[0]).mkdir(parents=True, exist_ok=True)
        for name in FILES:
            Path(words[0], name).write_text(text(name))
    else:
        raise SystemExit("usage: python3 -m spec.tools.make_vectors [--check | DIR]")


if __name__ == "__main__":
    main()
