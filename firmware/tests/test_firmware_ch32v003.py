"""The model of a CH32V003, and the agent on it."""

from __future__ import annotations

import pytest

from firmware.simulators.boards import BOARDS
from firmware.simulators.ch32v003 import HERTZ, ORE, RE, RXNE, TE, TXE, UE, Chip, Usart
from firmware.simulators.watchdog import Misuse
from spec.model import REQUEST

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
