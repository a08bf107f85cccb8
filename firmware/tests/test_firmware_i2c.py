"""The agent on an I²C bus, in simavr with a model of the chip's interface."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from firmware.costs import images
from firmware.simulators.boards import (BOARDS, REPORT_SIZE, Bus, blocks, read_bytes, written)
from spec.model import REQUEST, Agent, checksummed, heartbeat
from tools.programs import ROOT

BOARD = BOARDS["i2c_atmega328p"]
WRITE, READ = f"S {2 * BOARD.i2c:02x}", f"S {2 * BOARD.i2c + 1:02x}"
ZEROS = "r " * 12  # the next byte of a report is 0, so that the agent holds SDA low
ASK = [written(BOARD, REQUEST), *blocks(BOARD)]


def play(script: list[str], image: Path | None = None) -> tuple[list[str], dict[str, int]]:
    with Bus(BOARD, script, image) as bus:
        counts = bus.end()
        return bus.frames(), counts


def table(report: bytes) -> list[bytes]:
    assert report == checksummed(report[4:])
    return [report[at:at + 4] for at in range(4, REPORT_SIZE, 4)]


@pytest.mark.parametrize("kbits", [100, 400])
def test_a_report_is_read_in_blocks_of_any_size(kbits: int) -> None:
    """Also after a repeated start, and after its end there are ones. The page says how long the
    clock is held low."""
    reads = [f"kbits={kbits}", written(BOARD, heartbeat(3, 76, 9))]
    for size in (32, 1, 260):
        request, *more = [written(BOARD, REQUEST), *blocks(BOARD, size)]
        reads += [request.removesuffix("P"), *more, f"{READ} r n P"]
    said, counts = play(reads)
    found, length = read_bytes(said), REPORT_SIZE + 2
    reports = [found[at:at + length] for at in range(0, len(found), length)]
    assert len(reports) == 3 and reports.count(reports[0]) == 3
    assert reports[0][-2:] == b"\xff\xff" and table(reports[0][:-2])[3][2:] == b"L\t"
    assert "N" not in said and counts["boots"] == 1
    assert counts["stack"] <= images.sizes(BOARD)["bound"]
    page = (ROOT / "firmware" / "i2c_atmega328p.md").read_text()
    (told,) = re.findall(r"(\d\.\d) ms while", page)
    assert round(counts["stretched"] / 1000, 1) == float(told)


def test_only_whole_packets_count() -> None:
    """Writes of any length to any address, and a stop or a start after each."""
    chance, model = random.Random(31), Agent()
    script = []
    for _ in range(600):
        packet = heartbeat(chance.randrange(1, 64), chance.randrange(256), chance.randrange(256))
        packet = chance.choice([packet, packet[:chance.randrange(8)], packet + b"\0",
                                packet + packet, bytes(8), bytes(256) + packet])
        own = chance.random() < 0.8
        address = BOARD.i2c if own else chance.choice([BOARD.i2c ^ 1, BOARD.i2c + 64 & 127, 0])
        script.append(f"S {2 * address:02x} {packet.hex(' ')} {'P' * chance.randrange(2)}")
        if own:
            model.process(0, packet)
    said, counts = play([*script, *ASK])
    assert [entry[2:] for entry in table(read_bytes(said)[-REPORT_SIZE:])[1:]] == [
        bytes(entry)[2:] for entry in model.entries[1:]]
    assert counts["boots"] == 1


@pytest.mark.parametrize(("script", "faults"), [
    (f"{WRITE} 04 51 h P", 1), (f"{WRITE} 04 51 h", 1), (f"{READ} {ZEROS} h wait=2100000", 1),
    (f"{READ} {ZEROS} wait=2100000 P", 1), (f"{WRITE} 04 51 wait=2100000 P", 1), (f"{READ} n P", 0),
    (f"{WRITE} 04 wait=1100000 51 P", 0), (f"{READ} n P wait=2100000", 0),
    (f"{WRITE} 04 P wait=2100000", 0), (f"{WRITE} 04 h P wait=2100000", 1),
    (f"{WRITE} 04 wait=4100000 P", 1)])
def test_a_master_that_ends_in_the_middle(script: str, faults: int) -> None:
    """The agent lets the wires go, and hears the next master."""
    said, counts = play([*ASK[:1], script, written(BOARD, heartbeat(3, 76, 9)), *ASK])
    entries = table(read_bytes(said)[-REPORT_SIZE:])
    assert entries[3][2:] == b"L\t" and entries[0][2:] == bytes([1, faults])
    assert "held" not in said and counts["boots"] == 1


@pytest.mark.parametrize("fault", [b"HangHere", b"StopTime"])
def test_the_watchdog_frees_the_bus(fault: bytes) -> None:
    """Although other masters go on."""
    script = [written(BOARD, heartbeat(3, 76, 9)), written(BOARD, fault),
              *["wait=100000", written(BOARD, heartbeat(4, 1, 1))] * 26, *ASK]
    said, counts = play(script, BOARD.image("hanging"))
    entries = table(read_bytes(said)[-REPORT_SIZE:])
    assert counts["boots"] == 2 and entries[3] == bytes(4) and entries[63][2:] == b"\1\x82"
