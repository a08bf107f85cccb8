"""Writes vectors.tsv, the test vectors that every language's tests read.

    python3 -m tests.make_vectors          writes the file
    python3 -m tests.make_vectors --check  fails if the file is not what this writes

They come from model.py and zlib, and not from the C code. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sim.model import HEARTBEAT, REPORT, REQUEST, VARIABLES, Agent, checksummed, heartbeat

Step = tuple[object, ...]
FILE = Path(__file__).with_name("vectors.tsv")

HEADER = """\
# Dumpulse test vectors, made by tests/make_vectors.py. Each line has one step.
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


def near_misses() -> Iterator[bytes]:
    """Packets that are nearly right."""
    good = heartbeat(3, 76, 9)
    for packet in (good, REQUEST):
        for at in range(8):
            for byte in range(256):
                if byte != packet[at]:
                    yield packet[:at] + bytes((byte,)) + packet[at + 1:]
    long = random.Random(7).randbytes(300)
    for length in range(301):
        if length != 8:
            yield (good + long)[:length]
            yield (REQUEST + long)[:length]
    for variable in range(VARIABLES, 256):
        yield heartbeat(variable, 1, 2)
    for magic in range(256):
        if magic != 0xF1:
            yield heartbeat(5, 6, 7, magic=magic)
    for packet in (good, REQUEST):  # the checksum at the wrong end; all bytes reversed
        yield packet[4:] + packet[:4]
        yield packet[::-1]
    yield bytes(8)
    yield b"\xff" * 8


def steps() -> Iterator[Step]:
    agent = Agent()
    rng = random.Random("dumpulse")

    def table(data: bytes) -> Step:
        nonlocal agent
        agent = Agent.of_table(data)
        return "table", data

    def packet(now: int, data: bytes) -> Step:
        result = agent.process(now, data)
        if result == REPORT:
            return "report", now, data, agent.table()
        if result == HEARTBEAT:
            return "heartbeat", now, data, data[5], agent.entries[data[5]]
        return "refused", now, data

    def record(now: int, variable: int, sender: int, value: int) -> Step:
        if agent.record(now, variable, sender, value):
            return "record", now, variable, sender, value, agent.entries[variable]
        return "record", now, variable, sender, value, b""

    def report_and_checks() -> Iterator[Step]:
        yield packet(0, REQUEST)
        good = agent.table()
        yield "check", good, "yes"
        at = rng.randrange(260)
        yield "check", good[:at] + bytes((good[at] ^ 1 << rng.randrange(8),)) + good[at + 1:], "no"
        yield "check", good[:-1], "no"

    yield table(bytes(260))
    yield from report_and_checks()
    yield packet(0x1234, bytes.fromhex("0472014af1034c09"))
    yield from report_and_checks()

    for variable in range(VARIABLES):  # each with its own time, sender and value
        yield packet(rng.randrange(65536), heartbeat(variable, rng.randrange(256),
                                                     rng.randrange(256)))
    for now in (0, 1, 255, 256, 32767, 32768, 65535):
        yield packet(now, heartbeat(63, 0, 0))
        yield packet(now, heartbeat(0, 255, 255))
    for low in (0, 255):  # sums with a low byte of 0 or 255, where the high byte changes
        for at in (1, 3):
            wanted = (good for good in iter(lambda: heartbeat(rng.randrange(64), rng.randrange(256),
                                                              rng.randrange(256)), b"")
                      if good[at] == low)
            for good in itertools.islice(wanted, 4):
                yield packet(rng.randrange(65536), good)
    for variable in (0, 1, 62, 63, 64, 65, 127, 128, 191, 192, 255):
        yield record(rng.randrange(65536), variable, rng.randrange(256), rng.randrange(256))
    yield from report_and_checks()

    for variable, sender, value in ((0, 0, 0), (3, 76, 9), (63, 255, 255), (64, 0, 1),
                                    (255, 255, 255)):
        yield "make", variable, sender, value, heartbeat(variable, sender, value)
    for variable in (0, 1, 3, 62, 63, 64, 255):
        yield "read", variable, agent.entries[variable] if variable < VARIABLES else bytes(4)

    # Tables with more and more bytes 0xFF: the second sum of Adler-32 is reduced more and more
    # often.
    for full in range(0, 257, 8):
        yield table(b"\xaa" * 4 + b"\xff" * full + bytes(256 - full))
        yield packet(0, REQUEST)
    yield from report_and_checks()
    for _ in range(16):
        yield table(rng.randbytes(260))
        yield from report_and_checks()
    yield from extreme_sums(table, packet, rng)

    yield table(rng.randbytes(260))
    for data in near_misses():
        yield packet(0xBEEF, data)
    yield "check", b"", "no"
    yield "check", bytes(260), "no"
    yield "check", checksummed(bytes(256)) + b"\0", "no"
    yield "check", checksummed(bytes(252)), "no"


def extreme_sums(table: Callable[[bytes], Step], packet: Callable[[int, bytes], Step],
                 rng: random.Random) -> Iterator[Step]:
    """Tables whose second sum is 0, 1, 65519 or 65520, at the ends of its range."""
    for wanted in (0, 1, 65519, 65520):
        while True:
            rest = bytearray(rng.randbytes(256))
            # If byte k is one higher, the sum is 256 - k higher. So the last bytes set it exactly.
            for at in range(256):
                lack = (wanted - (int.from_bytes(checksummed(bytes(rest))[:2], "big"))) % 65521
                rest[at] = min(255, rest[at] + lack // (256 - at))
            if checksummed(bytes(rest))[:2] == wanted.to_bytes(2, "big"):
                break
        yield table(b"\x55" * 4 + bytes(rest))
        yield packet(0, REQUEST)


def text() -> str:
    def cell(value: object) -> str:
        return (value.hex() or "-") if isinstance(value, bytes) else str(value)

    return HEADER + "".join("\t".join(map(cell, step)) + "\n" for step in steps())


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text() != text():
            raise SystemExit(
                f"{FILE.name} is not what make_vectors.py writes: run `make vectors-file`")
        print(f"{FILE.name}: {sum(1 for _ in steps())} passed, 0 failed")
    elif not sys.argv[1:]:
        FILE.write_text(text())
    else:
        raise SystemExit("usage: python3 -m tests.make_vectors [--check]")


if __name__ == "__main__":
    main()
