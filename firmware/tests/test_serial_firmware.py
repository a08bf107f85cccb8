"""The firmware for serial lines, in simulators: packets, noise, floods. The real client is in
test_make_try.py."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import struct
import subprocess
import time
import zlib
from pathlib import Path

import pytest
import unicorn
import unicorn.arm_const
from elftools.elf.elffile import ELFFile

from firmware.costs import images
from firmware.simulators.boards import BOARDS, Board, Line, LiveLine
from firmware.uf2 import uf2
from spec import model
from spec.model import MAGIC, REQUEST, heartbeat
from tools.processors.memory import sections
from tools.processors.targets import COMMON, EVERY
from tools.programs import INCLUDES, ROOT, run
from tools.tiers import tiered

SELF = 0  # the agent's own variable; its value counts the bytes that the agent has lost
BOOTS = 63  # its boots
AGENTS = [board for board in BOARDS.values()
          if board.baud and not (board.keyed or board.keyed_node or board.only_sends)]


def is_avr(board: Board) -> bool:
    """The others need QEMU or rp2040js, which come with `make full`."""
    return bool(board.mcu)


@pytest.fixture(params=tiered(AGENTS, is_avr), ids=lambda board: board.name)
def board(request: pytest.FixtureRequest) -> Board:
    agent: Board = request.param
    return agent


def packets(chance: random.Random, count: int) -> list[bytes]:
    """Heartbeats for all variables but the agent's own."""
    return [heartbeat(chance.randrange(1, BOOTS), chance.randrange(256), chance.randrange(256))
            for _ in range(count)]


def entries(report: bytes) -> list[bytes]:
    assert int.from_bytes(report[:4], "big") == zlib.adler32(report[4:])
    return [report[at:at + 4] for at in range(4, 260, 4)]


def after(heartbeats: list[bytes]) -> list[bytes]:
    """Sender and value of every variable after these heartbeats, without the agent's two own."""
    agent = model.Agent()
    for packet in heartbeats:
        agent.process(1, packet)
    return [entry[2:] for entry in agent.entries[1:BOOTS]]


def ask(line: Line, quiet: bytes = b"") -> list[bytes]:
    line.send(quiet + REQUEST)
    return entries(line.receive(260))


def straddled() -> list[tuple[bytes, bytes]]:
    """Pairs of heartbeats, one after the other, that contain a third one. It begins with byte 5 of
    the first: variable sender value b_high | f1 a_high a_low f1."""
    pairs = []
    for variable in range(64):
        for sender in range(256):
            value = (MAGIC - (968 + 3 * variable + 2 * sender)) % 256  # this value makes b_low f1
            second = heartbeat(variable, sender, value)
            within = heartbeat(second[2], second[3], MAGIC)
            if within[3] == second[0] and within[0] < 64:
                pairs.append((heartbeat(*within[:3]), second))
    return pairs


def test_packets_within_two_others() -> None:
    """SPEC.md says that 64 of 2^44 pairs of heartbeats contain a third one."""
    assert len(straddled()) == 64
    for one, other in straddled():
        packet = (one + other)[5:13]
        assert packet == heartbeat(*packet[5:])


@pytest.mark.parametrize(("name", "core"), [
    ("uart_stm32-f1", r"Tag_CPU_arch: v7$"), ("uart_stm32-f4", r"Tag_CPU_arch: v7E-M$"),
    ("keyed_stm32", r"Tag_CPU_arch: v7$"), ("node_stm32", r"Tag_CPU_arch: v7$"),
    ("can_stm32-f1", r"Tag_CPU_arch: v7$"), ("can_stm32-f4", r"Tag_CPU_arch: v7E-M$"),
    ("uart_nrf51", r"Tag_CPU_arch: v6S-M$"), ("uart_rp2040", r"Tag_CPU_arch: v6S-M$")])
def test_an_image_is_for_its_core(name: str, core: str) -> None:
    """QEMU and Unicorn also run instructions that the core does not have."""
    assert re.search(core, run(["readelf", "-A", BOARDS[name].image()]), re.M)


def test_packets_junk_and_short_ones(board: Board, chance: random.Random) -> None:
    good = [heartbeat(3, 76, 9), heartbeat(63, 255, 128), heartbeat(7, 1, 255)]
    refused = [heartbeat(5, 6, 7)[:7] + b"\x08", heartbeat(64, 1, 1), heartbeat(5, 1, 1)[:7],
               b"AreyouO", b"areyouOK", bytes(100), b"\xff" * 100, chance.randbytes(500)]
    with Line(board) as line:
        line.send(b"".join(junk + packet for junk, packet in zip(refused, good * 3, strict=False)))
        table = ask(line)
        assert [entry[2:] for entry in table[1:BOOTS]] == after(good)
        assert table[SELF][2:] == b"\x01\x00"  # no byte was lost
        if is_avr(board):
            assert line.end(at_once=True)["stack"] <= images.sizes(board)["bound"]


def test_a_flood_while_reports_go_out(board: Board, chance: random.Random) -> None:
    """At the line's full speed, on an AVR for longer than the period of its watchdog. A second
    request, while the first report leaves, gets none; in two simulators, one leaves at once. A
    board that is deaf meanwhile works again afterwards."""
    requests = REQUEST if board.simulator in ("qemu", "rp2040js") else 2 * REQUEST
    with Line(board) as line:
        flood = packets(chance, 3 * board.baud // 80 if is_avr(board) else 100)
        line.send(requests + b"".join(flood))
        entries(line.receive(260))
        # After these bytes of ones, a receiver that woke up in the middle of a byte finds the next
        # start bit.
        table = ask(line, b"\xff" * 4 + heartbeat(9, 1, 2))
        if not board.deaf:
            assert [entry[2:] for entry in table[1:BOOTS]] == after([*flood, heartbeat(9, 1, 2)])
            assert table[SELF][3] == 0
        assert table[9][2:] == b"\x01\x02"


def test_the_edges_of_a_report_while_bytes_come(chance: random.Random) -> None:
    """The bits that software sends are on time, within 12 of their 416 cycles, whatever comes when
    the report begins. The hardest case is a byte that ends at that moment, because the receiver
    then listens for the next byte. So each byte here ends at a time from 17 counts of the timer
    before that moment to 8 counts after it. The first two runs find the moment."""
    board = BOARDS["uart_attiny85"]
    bit = board.hertz / board.baud

    def counted(value: int, rest: int) -> dict[str, int]:
        script = REQUEST + bytes([value]) + b"\x55" * 20
        with Line(board, script=script, arguments=[str(rest)]) as line:
            line.receive(25)  # bytes of the report, while the 21 bytes come
            return line.end(at_once=True)

    for value in (0x00, 0x01, 0x0F, 0x1F, chance.randrange(256)):
        rest = 100
        for _ in range(2):
            counts = counted(value, rest)
            rest += round(counts["answered"] - bit - (counts["resumed"] + 8.5 * bit))
            rest %= round(10 * bit)
        for later in range(-136, 72, 8):
            assert counted(value, max(0, rest + later))["jitter"] <= 12, (value, later)


@pytest.mark.parametrize(("board", "fault"), tiered([
    (board, fault) for board in AGENTS if not board.machine for fault in (b"HangHere", b"StopTime")
], lambda case: is_avr(case[0])), ids=lambda it: it.decode() if isinstance(it, bytes) else it.name)
def test_the_watchdog_resets_a_loop_or_a_clock_that_hangs(board: Board, fault: bytes) -> None:
    """The agent records both boots: a power-up, and the watchdog."""
    with Line(board, board.image("hanging")) as line:
        line.send(heartbeat(3, 76, 9))
        first = ask(line)
        assert first[3][2:] == b"\x4c\x09"
        # While heartbeats come for 3 s: uart_attiny85 starts its clock again after each report.
        line.send(fault + heartbeat(5, 1, 1) * (3 * board.baud // 80 if board.mcu else 0))
        deadline, table = time.monotonic() + 60, [b"\1"] * 64
        while table[3] != bytes(4):  # a board that hangs does not hear the request
            assert time.monotonic() < deadline, "the watchdog has not reset the board"
            line.send(bytes(8) + REQUEST)
            with contextlib.suppress(TimeoutError):
                first_byte = line.receive(1, 1.0)  # the other bytes of a report may take longer
                table = entries(first_byte + line.receive(259, 10.0))  # a reset may cut it off
    assert first[BOOTS][:3] == table[BOOTS][:3] == b"\0\0\1"
    boots = first[BOOTS][3], table[BOOTS][3]
    assert (boots[0] >> 5, boots[1] >> 5, (boots[1] - boots[0]) % 32) == (1, 4, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("settles_ms", "dead_starts", "waits_s"), [(60, 0, 0), (1, 2, 7.3)])
def test_an_rp2040_with_a_crystal_that_is_slow_or_dead(
        settles_ms: int, dead_starts: int, waits_s: float) -> None:
    """The watchdog resets a chip whose crystal is dead, and counts the ring oscillator's 6.5 MHz
    until then: 4,000,000 / (2 * 6.5 MHz / 12), 3.69 s for each start."""
    began = time.monotonic()
    with Line(BOARDS["uart_rp2040"], arguments=[str(settles_ms), str(dead_starts)]) as line:
        cause = 4 if dead_starts else 1  # each start is counted, also one that fails
        assert ask(line)[BOOTS][3] == cause << 5 | dead_starts + 1
        assert waits_s <= time.monotonic() - began


# By the data sheets: the bits of the brown-out level, and from which voltage a clock is allowed.
LEVELS = {"ATmega328P": ("efuse", 0, {7: 0, 6: 1.8, 5: 2.7, 4: 4.3}),
          "ATtiny85": ("hfuse", 0, {7: 0, 6: 1.8, 5: 2.7, 4: 4.3}),
          "ATtiny13A": ("hfuse", 1, {3: 0, 2: 1.8, 1: 2.7, 0: 4.3})}
CLOCKS = {("ATmega328P", 0xFF): 16.0, ("ATtiny85", 0xE2): 8.0, ("ATtiny13A", 0x6A): 1.2}
VOLTS = {16.0: 3.78, 8.0: 2.4, 1.2: 1.8}  # charts of speed against voltage
EESAVE = {"ATmega328P": 0x08, "ATtiny85": 0x08}  # a bit of hfuse; 1: erasing also erases the EEPROM
CHIPS = {"m328p": "ATmega328P", "t85": "ATtiny85", "t13": "ATtiny13A"}


def test_the_fuses_fit_the_clock() -> None:
    """The table of the page against the data sheets, and the other pages against the table."""
    page = (ROOT / "firmware" / "README.md").read_text()
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in
            re.findall(r"^\|.*\|$", page.partition("## Fuses")[2].partition("\n## ")[0], re.M)][2:]
    fuses = {}
    for board, chip, clock, low, high, extended, level, supply in rows:
        which, shift, levels = LEVELS[chip]
        told = {"lfuse": int(low, 16), "hfuse": int(high, 16), "efuse": int(extended or "ff", 16)}
        volts = levels[told[which] >> shift & max(levels)]
        megahertz = CLOCKS[chip, told["lfuse"]]
        assert clock.split(", ")[1] == f"{megahertz:g} MHz"
        assert level == (f"{volts} V" if volts else "off")
        if "Uno" in board:
            continue
        least = float(supply.split()[0])
        assert least >= VOLTS[megahertz] and (not volts or round(least - volts, 1) >= 0.2)
        if "keyed" in board:  # a chip that may run below its voltage may write to its EEPROM
            assert volts - 0.2 >= VOLTS[megahertz] and told["hfuse"] & EESAVE[chip]
        fuses[chip] = told
    store = {board.name for board in BOARDS.values() if board.mcu and re.search(
        r"sbi\t0x1[cf], 1\b", run(["avr-objdump", "-d", board.image()]))}  # EEPE of EECR
    assert {row[0] for row in rows if row[6] == "4.3 V"} == {
        ", ".join(f"`{name}`" for name in sorted(store))}
    for file in (ROOT / "firmware").glob("*.md"):
        for part, command in re.findall(r"avrdude -p (\w+)(.*)", file.read_text()):
            for fuse, value in re.findall(r"([lhe]fuse):w:0x(\w+)", command):
                assert fuses[CHIPS[part]][fuse] == int(value, 16), file.name


@pytest.mark.parametrize(("image", "option", "good"), [
    ("serial_agent", "-DBAUD=250000", True), ("serial_agent", "-DBAUD=230400", False),
    ("serial_agent", "-DBAUD=9600", True), ("can_avr", "-DBAUD=9600", True),
    ("can_avr", "-DCAN_BASE=0x700", True), ("can_avr", "-DCAN_BASE=0x6C0", False),
    ("can_avr", "-DCAN_BASE=0x800", False), ("can_avr", "-DCAN_KBITS=300", False),
    ("can_avr", "-DCAN_KBITS=5", False), ("can_avr", "-DCAN_CRYSTAL=8 -DCAN_KBITS=1000", False)])
def test_options_that_cannot_work_do_not_compile(image: str, option: str, good: bool) -> None:
    done = subprocess.run(
        ["avr-gcc", *BOARDS["can_avr"].options, "-std=c11", "-Os", "-Werror", "-fsyntax-only",
         *option.split(), *INCLUDES, f"-I{ROOT / 'firmware'}", ROOT / "firmware" / f"{image}.c"],
        capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == good and ("static assertion" in done.stderr) != good


@pytest.mark.parametrize("image", ["uart_attiny85", "keyed_attiny85", "sender_attiny13"])
def test_a_chip_can_have_its_own_calibration(image: str) -> None:
    """It is the last byte of its EEPROM. 0xFF keeps that of the factory, which is 0 in simavr."""
    board = dataclasses.replace(BOARDS[image], keyed_node=True)
    for last, value in ((0x5A, 0x5A), (0xFF, 0)):
        memory = bytes([255]) * (63 if "13" in image else 511) + bytes([last])
        with LiveLine(board, memory) as line:
            line.play("wait 50000")
            assert line.end()["oscillator"] == value


@pytest.mark.slow
def test_what_only_compiles(tmp_path: Path) -> None:
    page = " ".join((ROOT / "firmware" / "README.md").read_text().split())
    (row,) = re.findall(
        r"the library and the watch for (.*) and (\w+), in (\d+) and (\d+) bytes", page)
    chips, sizes = [*row[0].split(", "), row[1]], map(int, row[2:])
    compiler = EVERY["ATmega328P, gcc 7.3"].compiler
    assert len(chips) == 4
    for source, size in zip(("dumpulse.c", "extras/dumpulse_watch.c"), sizes, strict=True):
        for chip in chips:
            run([compiler, f"-mmcu={chip}", *COMMON, "-Wall", "-Wextra", "-Werror", *INCLUDES, "-c",
                 ROOT / source, "-o", tmp_path / "it.o"])
            parts = sections(tmp_path / "it.o")
            assert parts["code"] + parts["rodata"] == size and not parts["data"] + parts["bss"]


def test_an_open_line_rests() -> None:
    """PD0 of the ATmega328P has a pull-up."""
    board = dataclasses.replace(BOARDS["uart_atmega328p"], pins=("D0",))
    with Line(board, script=b"") as line:
        line.end()
        assert [change[1:] for change in line.pin_changes] == [("D0", 1)]


def test_a_ring_that_is_full(tmp_path: Path) -> None:
    """A 33rd byte is lost, and losses are counted up to 255. The indices wrap meanwhile."""
    (tmp_path / "ring.c").write_text("""#include <stdio.h>
        #include "serial.h"
        static serial_ring ring;
        int main(void) {
            for (int i = 0; i != 250; i++) serial_put(&ring, 0), serial_get(&ring);
            for (int i = 0; i != 50; i++) serial_put(&ring, (uint8_t)i);
            for (printf("%d", ring.lost); !serial_empty(&ring);) printf(" %d", serial_get(&ring));
            for (int i = 0; i != 300; i++) serial_put(&ring, 0);
            printf(" %d", ring.lost); }""")
    run(["gcc", "-O1", *INCLUDES, f"-I{ROOT / 'firmware'}", tmp_path / "ring.c",
         "-o", tmp_path / "ring"])
    assert run([tmp_path / "ring"]).split() == [str(it) for it in (18, *range(32), 255)]


def test_an_overrun_of_an_avr() -> None:
    """simavr's UART holds 64 bytes, and never sets DOR0: the interrupt tests it before the byte is
    read, which clears it."""
    code = run(["avr-objdump", "-d", BOARDS["uart_atmega328p"].image()])
    assert re.search(r"lds\t(r\d+), 0x00C0.*\n.*sbr[sc]\t\1, 3\n(.*\n)*?.*lds\tr\d+, 0x00C6", code)


@pytest.mark.parametrize("error", [-0.04, 0.04])
def test_bits_are_read_at_their_middle(error: float) -> None:
    """A node's clock is wrong by 4 %: the middle of the last bit is 0.34 bits early or late."""
    board = BOARDS["uart_attiny85"]
    with Line(dataclasses.replace(board, baud=round(board.baud * (1 + error)))) as line:
        line.send(heartbeat(3, 0x55, 0xAA) + heartbeat(4, 0xFE, 0x01))
        table = ask(line)
    assert table[3][2:] == b"\x55\xaa" and table[4][2:] == b"\xfe\x01"


class Started:
    """The image of a Cortex-M, run until it sleeps: what it wrote to peripherals, whose registers
    have these values, or else the other one."""

    def __init__(self, name: str, registers: dict[int, int], other: int = 0) -> None:
        engine = self.engine = unicorn.Uc(
            unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        for address, size in ((0, 0x4000), (0x08000000, 0x4000), (0x10000000, 0x4000),
                              (0x20000000, 0x1000), (0x50000000, 0x1000), (0xE000E000, 0x1000)):
            engine.mem_map(address, size)
        self.writes: list[tuple[int, int]] = []
        engine.mmio_map(
            PARTS, 0x100000, lambda _, at, *rest: registers.get(PARTS + at, other), None,
            lambda _, at, size, value, data: self.writes.append((PARTS + at, value)), None)
        with BOARDS[name].image().open("rb") as stream:
            file = ELFFile(stream)
            for segment in file.iter_segments("PT_LOAD"):
                engine.mem_write(segment["p_paddr"], segment.data())
            self.symbols = {symbol.name: symbol["st_value"]
                            for symbol in file.get_section_by_name(".symtab").iter_symbols()}
        engine.reg_write(unicorn.arm_const.UC_ARM_REG_SP, 0x20001000)
        engine.mem_write(SYSTICK, b"\x55\x55\x55\0")
        begin = self.symbols["main"] & ~1
        (self.sleeps,) = (at for at in range(begin, begin + 0x400, 2)
                          if engine.mem_read(at, 2) == b"\x30\xbf")  # wfi
        engine.emu_start(self.symbols["reset"] | 1, self.sleeps, count=100_000)
        self.is_up = engine.reg_read(unicorn.arm_const.UC_ARM_REG_PC) == self.sleeps


PARTS = 0x40000000  # the peripherals
SYSTICK = 0xE000E018  # its counter is random after a reset
STM32_DOG = [(0x40003000, 0xCCCC), (0x40003000, 0x5555), (0x40003004, 6), (0x40003008, 250),
             (0x40003000, 0xAAAA)]
# What starts a watchdog, and what feeds it at last: addresses of registers, and values.
DOGS = {"uart_stm32-f1": [*STM32_DOG, STM32_DOG[-1]], "uart_stm32-f4": [*STM32_DOG, STM32_DOG[-1]],
        "uart_nrf51": [(0x40010504, 65535), (0x40010508, 1), (0x40010000, 1),
                       (0x40010600, 0x6E524635)]}
# Registers with the cause of a reset, and the number that SPEC.md gives it: from stm32-rs (the
# CMSIS-SVD; RM0008, 7.3.10; RM0090, 7.3.21), nrf-pac 0.4.0 and rp2040-pac 0.6.0.
F1, F4, NRF51, REASON, CHIP_RESET = 0x40021024, 0x40023874, 0x40000400, 0x40058008, 0x40064008
# Keys are the highest eight bits.
STM32_CAUSES = {0: 0, 0x04: 3, 0x24: 4, 0x44: 4, 0x14: 5, 0x84: 6}
CAUSES = {
    "uart_stm32-f1": [({F1: at << 24}, to) for at, to in (STM32_CAUSES | {0x0C: 1}).items()],
    "uart_stm32-f4": [({F4: at << 24}, to) for at, to in (STM32_CAUSES | {0x0E: 1, 6: 2}).items()],
    "uart_nrf51": [({NRF51: at}, to) for at, to in
                   {0: 1, 1: 3, 2: 4, 4: 5, 8: 6, 1 << 16: 6}.items()],
    "uart_rp2040": [({REASON: why, CHIP_RESET: at}, to) for why, at, to in
                    ((0, 1 << 8, 1), (0, 1 << 16, 3), (1, 1 << 8, 4), (2, 1 << 16, 5))]}


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_of_a_reset(name: str) -> None:
    """The agent records it, and clears the flags, so that the next one can be told."""
    other = 0xFFFFFFFF if name == "uart_rp2040" else 0  # its oscillator and its parts are ready
    for registers, cause in CAUSES[name]:
        chip = Started(name, registers, other)
        agent = chip.symbols["agent"] + 4 + 4 * BOOTS
        assert chip.engine.mem_read(agent, 4) == bytes([0, 0, 1, 32 * cause | 1]), registers
        (register, value), *more = registers.items()
        clears = value if register == NRF51 else 1 << 24  # RMVF
        assert more or (register, clears) in chip.writes


@pytest.mark.slow
def test_a_file_for_an_rp2040() -> None:
    """By the specification of UF2, and by the chip's data sheet, which has the number of its
    family. That the bytes are right is shown by the simulator, which starts from such a file."""
    blocks = uf2(BOARDS["uart_rp2040"].image())
    starts = range(0, len(blocks), 512)
    assert [struct.unpack_from("<4s7I", blocks, at) for at in starts] == [
        (b"UF2\n", 0x9E5D5157, 0x2000, 0x10000000 + 256 * number, 256, number, 6, 0xE48BFF56)
        for number in range(6)]
    assert {blocks[at + 288:at + 512] for at in starts} == {bytes(220) + b"\x30\x6f\xb1\x0a"}


@pytest.mark.slow
@pytest.mark.parametrize("name", DOGS)
def test_a_watchdog_that_no_simulator_has(name: str) -> None:
    """It starts, and is fed once after each tick of the clock, if the loop runs."""
    chip = Started(name, {})
    assert name == "uart_nrf51" or chip.engine.mem_read(SYSTICK, 4) == bytes(4)
    for tick in (0, 1, 1, 1, 2, 2):  # the loop runs as often
        chip.engine.mem_write(chip.symbols["ticks"], bytes([tick]))
        chip.engine.emu_start((chip.sleeps + 2) | 1, chip.sleeps)
    dog = DOGS[name]
    assert [written for written in chip.writes if written in dog] == [*dog, dog[-1]]


@pytest.mark.slow
def test_what_no_simulator_sees() -> None:
    """The RP2040's watchdog of 2 s, which resets all but the oscillators, then the crystal, then
    the line: an interrupt also for fewer bytes than half of the FIFO, and a pull-up. The line of
    the nRF51 has one, too. Registers are those of rp2040-pac 0.6.0 and of nrf-pac 0.4.0."""
    starts = [(0x4005802C, 0x20C), (0x40058004, 4_000_000), (0x40010008, 0x1FFFC),
              (0x4005A000, 1 << 30), (0x4002400C, 3008), (0x40024000, 0xFABAA0), (0x40008030, 2),
              (0x4000F000, 0x400120), (0x40034030, 0x301), (0x40034038, 0x50), (0x4001C008, 0x5A)]
    chip = Started("uart_rp2040", {}, 0xFFFFFFFF)
    assert chip.is_up and [each for each in chip.writes if each in starts] == starts
    assert Started("uart_nrf51", {}).engine.mem_read(0x50000764, 4) == b"\x0c\0\0\0"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uart_stm32-f1", "uart_stm32-f4"])
def test_an_overrun_without_a_byte(name: str) -> None:
    """A byte that comes between the reads of SR and DR is lost, and ORE interrupts again without
    RXNE: the loss is counted, and DR not read as a byte. The image sleeps with interrupts masked,
    so that one which comes after the last look at the ring ends the sleep (ARMv7-M, B1.5.18)."""
    chip = Started(name, {0x40013800: 8, 0x40011000: 8})
    assert chip.engine.reg_read(unicorn.arm_const.UC_ARM_REG_PRIMASK) == 1
    chip.engine.reg_write(unicorn.arm_const.UC_ARM_REG_LR, chip.sleeps | 1)
    chip.engine.emu_start(chip.symbols["on_uart"] | 1, chip.sleeps)
    assert bytes(chip.engine.mem_read(chip.symbols["ring"] + 32, 3)) == b"\0\0\1"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "register", "value", "other"), [
    ("uart_rp2040", 0x40024004, 0, 0xFFFFFFFF), ("uart_rp2040", 0x40008038, 0, 0xFFFFFFFF),
    ("uart_rp2040", 0x4000C008, 0, 0xFFFFFFFF), ("uart_stm32-f4", 0x4000300C, 2, 0)])
def test_what_it_waits_for(name: str, register: int, value: int, other: int) -> None:
    """The crystal, the clock that it becomes, parts that leave reset, the watchdog's period."""
    assert not Started(name, {register: value}, other).is_up


def test_the_sender() -> None:
    """An ATtiny13A that sends its boot, and then one heartbeat a second."""
    with Line(BOARDS["sender_attiny13"]) as line:
        line.send_no_more()
        assert line.receive(8 * 301) == heartbeat(40, 7, 1 << 5) + b"".join(
            heartbeat(7, 7, beat % 256) for beat in range(300))
        assert line.end(at_once=True)["stack"] <= images.sizes(line.board)["bound"]


def test_the_watchdog_resets_a_sender_that_hangs(tmp_path: Path) -> None:
    """The same watchdog wakes it from its sleep. It hangs after its third heartbeat."""
    board, source, image = BOARDS["sender_attiny13"], tmp_path / "hang.c", tmp_path / "hang.elf"
    source.write_text("#include BOARD\n"
                      "#define board_sleep() while (value == 2) {} board_sleep()\n"
                      '#include "sender.c"\n')
    run(["avr-gcc", *board.options, "-std=c11", "-Os", *INCLUDES, f"-I{ROOT / 'firmware'}",
         "-ffunction-sections", "-Wl,--gc-sections", source, ROOT / "dumpulse.c", "-o", image])
    with Line(board, image) as line:
        line.send_no_more()
        for cause in (1, 4, 4):
            assert line.receive(32) == b"".join(
                heartbeat(*each)
                for each in ((BOOTS, 7, cause << 5), (7, 7, 0), (7, 7, 1), (7, 7, 2)))


# ---------------------------------------------------------------- an RS-485 bus

@pytest.mark.slow
def test_its_driver_is_on_while_a_report_leaves() -> None:
    """The agent shares the bus with a node and a reader: their drivers are off meanwhile."""
    board = dataclasses.replace(BOARDS["rs485_atmega328p"], pins=("D2",))
    byte, turn = 10 / board.baud, 0.001  # seconds; the second one from a request until it is on
    said = [(0.01, heartbeat(3, 76, 9)), (0.02, REQUEST), (0.06, heartbeat(4, 5, 6)),
            (0.07, REQUEST)]  # seconds; the first bit comes after 10 ms
    rests = [after - at - 8 * byte for (at, _), (after, _) in zip(said, [*said[1:], (0.2, b"")],
                                                                  strict=True)]
    with Line(board, script=b"".join(text for _, text in said),
              arguments=[str(rest * board.hertz) for rest in rests]) as line:
        tables = [entries(line.receive(260)) for _ in range(2)]
        line.end()
    assert [level for *_, level in line.pin_changes] == [1, 0] * 2
    times = [when for when, *_ in line.pin_changes]
    for on, off, asked in zip(times[::2], times[1::2], (0.02, 0.07), strict=True):
        assert turn <= on - (asked + 8 * byte) < 2 * turn
        assert 0 <= (off - on) * board.hertz - 260 * 1360 < 160, "the last stop bit, and no more"
        assert all(off <= at or at + 8 * byte <= on for at, _ in said)
    assert all(table[3][2:] == b"\x4c\x09" for table in tables)
    assert [table[4][2:] == b"\5\6" for table in tables] == [False, True]
