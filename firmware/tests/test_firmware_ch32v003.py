"""The model of a CH32V003, and the agent's mistakes that it notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS
from firmware.simulators.ch32v003 import HERTZ, ORE, RE, RXNE, TE, TXE, UE, Chip, Usart
from firmware.simulators.watchdog import Misuse
from spec.model import REQUEST
from tools.programs import INCLUDES, ROOT, run

BYTE = 10 * HERTZ // 115_200


def started() -> Usart:
    usart = Usart()
    usart.write(8, 208)
    usart.write(12, UE | TE | RE)
    return usart


def test_it_holds_a_byte_while_the_next_one_arrives() -> None:
    usart = started()
    usart.offer(b"abcd")
    usart.advance(2 * BYTE - 1)
    assert (usart.read(0), usart.read(4)) == (TXE | RXNE, ord("a"))
    usart.advance(3 * BYTE)  # "b" was not read before "c" was complete
    assert (usart.read(0), usart.read(4), usart.read(0)) == (TXE | RXNE | ORE, ord("b"), TXE)
    usart.advance(4 * BYTE)
    assert usart.read(4) == ord("d")


def test_a_byte_that_leaves_takes_its_time() -> None:
    usart = started()
    usart.write(4, 1)
    usart.write(4, 2)
    assert not usart.read(0) & TXE
    with pytest.raises(Misuse):
        usart.write(4, 3)
    usart.advance(2079)
    assert not usart.sent
    usart.advance(2080)
    assert usart.sent == b"\1" and usart.read(0) & TXE
    usart.advance(4160)
    assert usart.sent == b"\1\2"


@pytest.mark.slow
def test_its_clock_and_its_watchdog() -> None:
    chip = Chip(BOARDS["uart_ch32v003"].image())
    while chip.now < 3.2 * HERTZ:
        chip.step()
    fed = chip.dog.fed
    chip.usart.offer(REQUEST)
    while len(chip.usart.sent) < 260:
        chip.step()
    assert chip.usart.sent[4:8] == bytes([0, 3, 1, 0])
    assert chip.boots == 1 and fed >= 3 * HERTZ
    assert chip.dog.ends - chip.dog.fed == 1001 * 256 * HERTZ // 128_000


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after", "why"), [
    ("CLOCK_SETTING = 0;", "", "lacks"), ("1U << 14 | 1U << 5", "1U << 14", "lacks"),
    ("PINS_SET = 1U << 6;", "", "lacks"), ("0x48944444", "0x44944444", "lacks"),
    ("BAUD = 115200", "BAUD = 120000", "it is not"), ('"r"(3)', '"r"(1)', "the table"),
    ("start_dog(1000);", "DOG_RELOAD = 1;", "locked")])
def test_mistakes_that_the_model_notices(before: str, after: str, why: str, tmp_path: Path) -> None:
    text = (ROOT / "firmware" / "uart_ch32v003.c").read_text()
    assert text.count(before) == 1
    (tmp_path / "bad.c").write_text(text.replace(before, after))
    run(["riscv64-unknown-elf-gcc", "-march=rv32ec_zicsr", "-mabi=ilp32e", "-ffreestanding",
         "-nostdlib", "-mno-relax", "-T", ROOT / "firmware" / "ch32v003.ld", "-std=c11", "-Os",
         "-w", *INCLUDES, f"-I{ROOT / 'firmware'}", tmp_path / "bad.c", ROOT / "dumpulse.c",
         "-lgcc", "-o", tmp_path / "bad.elf"])
    chip = Chip(tmp_path / "bad.elf")
    chip.usart.offer(REQUEST)
    with pytest.raises(Misuse, match=why):
        while chip.now < HERTZ:
            chip.step()
