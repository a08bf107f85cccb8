"""Images for AVRs in avr8js beside simavr: the same bytes go in, and the same come out. They begin
in the same cycles, but for what simulators/README.md lists. Images for STM32 in Unicorn beside
QEMU."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import subprocess
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from firmware.costs import images
from firmware.simulators.boards import (BOARDS, NODE, REQUEST_AT, Board, Bus, Line, LiveBus,
                                        LiveLine, Simulated, eeprom, eeprom_of_node, frame,
                                        serial_frame)
from firmware.simulators.stm32_line import Chip
from spec.keyed import Hearer, Keys, Reader, slot
from spec.model import REQUEST, checksummed, heartbeat
from tools.programs import ROOT

pytestmark = pytest.mark.slow  # avr8js comes with what `make full` installs
MANUAL: dict[str, Any] = {"entry": 4, "wake": 4}  # cycles: ATmega328P (DS40002061), 7.7.1
SIMAVR: dict[str, Any] = {"entry": 0, "wake": 2}  # cycles in simavr 1.6
BYTE = 10 * 8 * 17  # cycles: ten bits at 115,200 baud, UBRR0 = 16, double speed (20.3.1)
NEAR = 40  # cycles, by which starts may differ: of some instructions, or of interrupts
SLOWER = {"2": 64, "3": 256, "5": 256}  # dividers of the timers: a planted mistake
KEYS = Keys(bytes(range(16)))
HEARTBEATS = heartbeat(3, 76, 9) + heartbeat(5, 1, 50)


@dataclass
class Run:
    cycles: int
    boots: int
    events: list[tuple[str, int]]  # each with its cycle
    eeprom: bytes = b""

    def of(self, kind: str) -> list[tuple[str, int]]:
        return [event for event in self.events if event[0].startswith(kind)]

    def values(self, kind: str) -> list[tuple[int, int]]:
        return [(cycle, int(event.split()[1], 16)) for event, cycle in self.of(kind)]

    @property
    def acts(self) -> list[str]:
        return [event for event, _ in self.of("sent") + self.of("pin")]

    @property
    def starts(self) -> list[int]:
        """When pins change, and when the first byte of a report or a beacon begins."""
        sent = [cycle for _, cycle in self.of("sent")]
        return [cycle for _, cycle in self.of("pin")] + sent[:1] + [
            now for last, now in pairwise(sent) if now - last > 2.5 * min(
                after - before for before, after in pairwise(sent))]


def events_in(text: str) -> list[tuple[str, int]]:
    return [(event, int(cycle)) for event, cycle in
            re.findall(r"^((?:boot|sent|came|answer|int|pin) .*) at (\d+)$", text, re.M)]


def watched(name: str) -> Board:
    """Simulators print events only if they are told of a pin."""
    return replace(BOARDS[name], pins=BOARDS[name].pins or ("B0",))


def in_simavr(running: Simulated) -> Run:
    counts, events = running.end(), events_in(running.messages)
    if running.board.mcu == "attiny85":
        events = [event for event in events if not event[0].startswith("pin")]
    return Run(counts["cycles"], counts["boots"], events)


def on_line(board: Board, image: Path | None = None) -> Run:
    """Reports are requested a quarter of a second after the heartbeats, and 2 s later."""
    second = board.hertz
    rests = [1, second // 4, 2 * second, 3 * second]
    with Line(board, image, script=HEARTBEATS + REQUEST + heartbeat(7, 2, 8) + REQUEST,
              arguments=[str(rest) for rest in rests]) as line:
        line.receive(520)
        return in_simavr(line)


def bytes_at(pin: list[tuple[int, int]], bit: float) -> list[tuple[str, int]]:
    """The bytes at a pin without a UART, with the middle of their stop bits, as serial_board.c has
    them. The levels of a pin are those since a change."""
    found, over = list[tuple[str, int]](), 0.0
    for at, (fell, level) in enumerate(pin):
        if level or fell < over:
            continue
        middles = [fell + (number + 0.5) * bit for number in range(1, 10)]
        levels = [[level for cycle, level in pin[at:at + 10] if cycle < middle][-1]
                  for middle in middles]
        value = sum(level << number for number, level in enumerate(levels[:8]))
        over = middles[-1]
        found.append((f"sent {value:02x}", int(over)))
    return found


def in_avr8js(board: Board, first: Run, memory: bytes = b"", image: Path | None = None,
              **options: Any) -> Run:
    flash = bytearray(0x8000)
    with (image or board.image()).open("rb") as stream:
        for segment in ELFFile(stream).iter_segments("PT_LOAD"):
            if (at := segment["p_paddr"]) < len(flash):
                flash[at:at + segment["p_filesz"]] = segment.data()
    pins = ("B1",) if board.mcu == "attiny85" else board.pins  # its line
    job = {"mcu": board.mcu, "hertz": board.hertz, "end": first.cycles, "flash": flash.hex(),
           "eeprom": memory.hex(), "pins": pins, "baud": board.baud,
           "came": first.values("came"), "int": first.values("int"),
           "answers": [value for _, value in first.values("answer")], "cause": 1, **MANUAL,
           **options}
    text = subprocess.run([NODE, ROOT / "firmware/simulators/avr8js.cjs"], input=json.dumps(job),
                          stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.search(r"^eeprom (\w+)\nboots (\d+)$", text, re.M)
    assert found, text
    run = Run(first.cycles, int(found[2]), events_in(text), bytes.fromhex(found[1]))
    if board.mcu == "attiny85":
        levels = [(cycle, int(event[-1])) for event, cycle in run.of("pin B1")]
        run.events = bytes_at(levels, board.hertz / board.baud)
    return run


def compare(board: Board, first: Run, early: tuple[int, ...] = (0,), memory: bytes = b"") -> Run:
    """`early` has by how many cycles avr8js may be early: a clock of a timer."""
    like_simavr = in_avr8js(board, first, memory, **SIMAVR)
    second = in_avr8js(board, first, memory)
    for run in (like_simavr, second):
        assert (run.acts, run.boots) == (first.acts, first.boots)
    for simavr, same, manual in zip(first.starts, like_simavr.starts, second.starts, strict=True):
        assert any(abs(same + ticks - simavr) <= NEAR for ticks in early), (simavr, same)
        assert abs(manual - same) <= NEAR, (same, manual)
    slower = in_avr8js(board, first, memory, dividers=SLOWER)
    assert slower.acts != first.acts or slower.starts != second.starts
    return second


@pytest.mark.parametrize(("name", "early"), [
    ("uart_atmega328p", (0,)), ("rs485_atmega328p", (64,)), ("watch_atmega328p", (0, 1024)),
    ("uart_attiny85", (0, 16384))])
def test_agents_on_a_line(name: str, early: tuple[int, ...]) -> None:
    """avr8js has no transmit buffer: it sends the next byte when the interrupt gives it one."""
    board = watched(name)
    first = on_line(board)
    second = compare(board, first, early)
    for run, most in ((first, 0), (second, 64)) if board.mcu == "atmega328p" else ():
        sent = sorted(cycle for _, cycle in run.of("sent"))[1:260]
        assert all(BYTE <= after - before <= BYTE + most for before, after in pairwise(sent))


def test_a_driver_is_on_until_the_last_stop_bit() -> None:
    """Of the second report, too: TXC0 is left over from the first one."""
    board = replace(BOARDS["rs485_atmega328p"], pins=("D2",))
    run = in_avr8js(board, on_line(board))
    offs = [cycle for _, cycle in run.of("pin D2 0")]
    for off, (_, last) in zip(offs, run.of("sent")[259::260], strict=True):
        assert BYTE <= off - last < BYTE + 64


@pytest.mark.parametrize("name", ["can_avr", "can_avr-watch"])
def test_agents_on_a_bus(name: str) -> None:
    """What avr8js writes on SPI is what the MCP2515 of simavr received; it gets those answers."""
    board = watched(name)
    request = frame(board.can_id + REQUEST_AT, REQUEST)
    with Bus(board, [frame(board.can_id + 3, heartbeat(3, 76, 9)), "wait 2000000", request,
                     "wait 2500000", request, "wait 20000"]) as bus:
        compare(board, in_simavr(bus), (0, 1024))


@pytest.mark.parametrize("name", ["keyed_atmega328p", "can_avr-keyed"])
def test_agent_with_keys(name: str) -> None:
    board, hearer, reader = watched(name), Hearer(KEYS, 7), Reader(KEYS)
    memory = eeprom(KEYS, 122)
    with (LiveLine if board.baud else LiveBus)(board, memory) as agent:
        for _, beacon in agent.exchange("wait 3000000"):
            hearer.hear(beacon)
            reader.hear(beacon)
        agent.exchange("wait 100000", send=[(7, hearer.heartbeat(1, 126) or b"")])
        agent.exchange("wait 600000", send=[(REQUEST_AT, reader.request(b"ab") or b"")])
        first = in_simavr(agent)
    second = compare(board, first, (0, 1024), memory)
    assert slot(123) in second.eeprom


def test_node_with_keys() -> None:
    board, memory = watched("keyed_attiny85"), eeprom_of_node(KEYS, 7)
    with LiveLine(board, memory) as node:
        assert node.do("wait 500000")
        node.do("wait 4500000", send=serial_frame(97, KEYS.beacon(7, 0x12345)))
        first = in_simavr(node)
    assert len(first.of("sent")) > 30
    compare(board, first, (0, 8, 16384), memory)


def causes(*runs: Run) -> list[int]:
    """What the first reports tell of the agent's boot."""
    return [int(run.of("sent")[4 + 4 * BOOTS + 3][0].split()[1], 16) >> 5 for run in runs]


def test_watchdog() -> None:
    """The loop hangs. The watchdog takes 2^18 periods of 128 kHz, 2 s nominal (table 11-2)."""
    board = watched("watch_atmega328p")
    image = board.image("hanging")
    with Line(board, image, script=b"HangHere" + HEARTBEATS + REQUEST,
              arguments=[str(3 * board.hertz)]) as line:
        line.receive(260)
        first = in_simavr(line)
    second = in_avr8js(board, first, image=image)
    assert first.boots == 2
    assert first.of("boot") == second.of("boot")
    assert causes(first, second) == [4, 4]


def test_the_cause_of_a_reset() -> None:
    """MCUSR has power-up, pin, brown-out and watchdog in bits 0 to 3 (11.9.1). A boot loader leaves
    the watchdog's beside the pin's, or none."""
    board = watched("uart_atmega328p")
    came = [(f"came {byte:02x}", 160_000 + BYTE * at) for at, byte in enumerate(REQUEST)]
    asked = Run(160_000 + 300 * BYTE, 1, came)
    flags = (0, 1, 7, 4, 6, 2, 10, 8)
    assert causes(*(in_avr8js(board, asked, cause=flag) for flag in flags)) == [
        0, 1, 1, 2, 2, 3, 3, 4]


def in_unicorn(name: str, data: bytes, lost: bytes = b"") -> bytes:
    """QEMU checks no baud rate, clock and pin, and Unicorn's model does. Some bytes come while the
    core is too slow for them."""
    chip = Chip(BOARDS[name].baud, BOARDS[name].image(), b"", name[-2:])
    with contextlib.redirect_stdout(io.StringIO()) as sent:
        chip.run(20_000)
        for part, charge in ((lost, 400), (data, chip.charge)):
            chip.charge = charge
            for byte in part:
                chip.play(f"send {byte:02x}")
        chip.run(100_000)
    assert chip.boots == 1 and chip.stack() <= images.sizes(BOARDS[name])["bound"]
    return bytes.fromhex(sent.getvalue())


def test_bytes_that_an_stm32_loses_are_counted() -> None:
    report = in_unicorn("uart_stm32-f4", bytes(8) + REQUEST, lost=bytes(100))
    assert 0 < checksummed(report[4:])[7] <= 100


@pytest.mark.parametrize("name", ["uart_stm32-f1", "uart_stm32-f4"])
def test_stm32_in_qemu_and_in_unicorn(name: str, chance: random.Random) -> None:
    data = b"".join(heartbeat(*fields) + chance.randbytes(chance.randrange(9))
                    for fields in (chance.randbytes(3) for _ in range(100)) if fields[0] != BOOTS)
    with Line(BOARDS[name]) as line:
        line.send(data + bytes(8) + REQUEST)
        first = line.receive(260)
    second = in_unicorn(name, data + bytes(8) + REQUEST)
    tables = without_timestamps(first), without_timestamps(second)
    # QEMU has no RCC_CSR, so the cause of the agent's boot is unknown there, and else power-up.
    assert [table.pop(BOOTS) for table in tables] == [b"\1\x01", b"\1\x21"]
    assert tables[0] == tables[1]
    other = in_unicorn(name, data + bytes(8) + heartbeat(7, 1, 2) + REQUEST)
    assert without_timestamps(second) != without_timestamps(other)


BOOTS = 63  # firmware/reset.h


def without_timestamps(report: bytes) -> list[bytes]:
    """Those of QEMU are of real time."""
    assert checksummed(report[4:]) == report
    return [report[at + 2:at + 4] for at in range(4, 260, 4)]
