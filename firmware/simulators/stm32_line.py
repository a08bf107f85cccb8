"""Runs an image with keys on a simulated STM32F103, in Unicorn, with a model of its flash.

    python -m firmware.simulators.stm32_line BAUD IMAGE PAGES

PAGES is a file with what the flash has at first, from SETTINGS on; the rest of it is blank. The
standard input is a script, as of `serial_board --script`, with these differences:
    cut BYTE            all RAM becomes this byte; there is no EEPROM
    fail COUNT SEED     the power is cut in the midst of the flash's operation that comes after
                        COUNT others, and comes back; chance decides which bits have changed
    protect             from now on, the flash is protected: what is written changes nothing
    stop                the clock of the core, SysTick, stops
It prints a line for each change of PC13, as serial_board does for its pins. The numbers in comments
are sections of PM0075, and of RM0008 if that is named. Times are the longest of the data sheet,
DS5319, table 29. What it has no register for ends the program."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import NamedTuple

import unicorn

from firmware.simulators.stm32_can import RAM, RAM_SIZE, Board
from firmware.simulators.watchdog import Misuse
from tools.programs import as_program

HERTZ, PAGE = 8_000_000, 1024  # 1.2: medium density
LAST_PAGES, SETTINGS, NUMBERS, END = 0x0800F000, 0x0800F400, 0x0800F800, 0x08010000
FLASH, USART, UART_IRQ = 0x40022000, 0x40013800, 37  # RM0008, 3.3 and 10.1.2
KEYR, SR, CR, AR = FLASH + 4, FLASH + 0xC, FLASH + 0x10, FLASH + 0x14  # 3.2, 3.4, 3.5, 3.6
KEY1, KEY2 = 0x45670123, 0xCDEF89AB  # 2.3.1
PGERR, WRPRTERR, PG, PER, STRT, LOCK = 4, 0x10, 1, 2, 0x40, 0x80  # 3.4, 3.5
PROGRAM_US, ERASE_US = 70, 40_000
PORT_A, PORT_C, CLOCKS = 0x40010804, 0x40011004, 0x40021018  # RM0008, 9.2.2; 7.3.7
PA10_HIGH, PC13, PC13_HIGH = 0x40010810, 13, 0x40011010
ORE, RXNE, TXE = 0x08, 0x20, 0x80  # bits of its status: RM0008, 27.6.1
UE, TXEIE, RXNEIE, TE, RE = 0x2000, 0x80, 0x20, 8, 4  # bits of its control: 27.6.4
NVIC_ISER1, NVIC_ICER1 = 0xE000E104, 0xE000E184


class Usart:
    """It holds a byte while the next one arrives; if that is complete first, it is lost, and ORE is
    set. `now` is in periods of the clock."""

    def __init__(self, hertz: int, baud: int) -> None:
        self.hertz, self.baud = hertz, baud
        self.now, self.control, self.divider = 0, 0, 0
        self.flags, self.held, self.seen = TXE, 0, False
        self.arriving: list[int] = []  # bytes that others send, one right after another
        self.next_in = self.next_out = -1  # when the byte is complete
        self.shifting, self.waiting, self.sent = 0, -1, bytearray()

    @property
    def byte(self) -> int:
        if not self.divider or abs(self.hertz / self.divider / self.baud - 1) > 0.02:
            raise Misuse(f"divided by {self.divider}, it is not {self.baud} baud")
        return 10 * self.divider

    def offer(self, data: bytes) -> None:
        if not self.arriving and data:
            self.next_in = self.now + 10 * self.hertz // self.baud
        self.arriving += data

    def advance(self, now: int) -> None:
        self.now = now
        while self.arriving and self.next_in <= now:
            value = self.arriving.pop(0)
            self.next_in += 10 * self.hertz // self.baud
            if self.control & (UE | RE) == UE | RE:
                if self.flags & RXNE:
                    self.flags |= ORE
                else:
                    self.held, self.flags = value, self.flags | RXNE
        while 0 <= self.next_out <= now:
            self.sent.append(self.shifting)
            self.shifting, self.waiting = self.waiting, -1
            self.flags |= TXE
            self.next_out = self.next_out + self.byte if self.shifting >= 0 else -1

    def read(self, at: int) -> int:
        if at == 0:
            self.seen = True
            return self.flags
        if at == 4:  # after STATR, this also clears ORE
            self.flags &= ~RXNE & ~(ORE if self.seen else 0)
            self.seen = False
            return self.held
        if at == 12:
            return self.control
        raise Misuse(f"register {at:#x} of the USART is read")

    def write(self, at: int, value: int) -> None:
        if at == 4:
            if self.control & (UE | TE) != UE | TE or not self.flags & TXE:
                raise Misuse("it does not send, or has not taken the last byte yet")
            if self.next_out < 0:
                self.shifting, self.next_out = value & 0xFF, self.now + self.byte
            else:
                self.waiting, self.flags = value & 0xFF, self.flags & ~TXE
        elif at == 8:
            self.divider = value
        elif at == 12:
            self.control = value
        else:
            raise Misuse(f"register {at:#x} of the USART is written")

    @property
    def interrupts(self) -> bool:
        return bool(self.control & RXNEIE and self.flags & (RXNE | ORE)
                    or self.control & TXEIE and self.flags & TXE)


class Flash:
    """The last pages. `do` has time pass while the core waits, and tells whether the power lasts
    until the operation has ended."""

    def __init__(self, pages: bytes) -> None:
        self.bytes = bytearray(b"\xff" * (SETTINGS - LAST_PAGES) + pages)
        self.bytes += b"\xff" * (END - LAST_PAGES - len(self.bytes))
        self.erased, self.is_protected = 0, False
        self.chance, self.left = random.Random(), -1  # operations until the power is cut; -1: never
        self.reset()

    def reset(self) -> None:
        self.cr, self.sr, self.ar, self.keys, self.shut = LOCK, 0, 0, 0, False  # 3.4, 3.5, 2.3.2

    def is_cut(self) -> bool:
        cut = self.left == 0
        self.left -= self.left >= 0
        return cut

    def read_register(self, at: int) -> int:
        if at not in (SR, CR):
            raise Misuse(f"register {at:#x} of the flash is read")
        return self.sr if at == SR else self.cr  # BSY: the core has waited, so it is never set

    def write_register(self, at: int, value: int) -> int:
        """Returns how long the core waits, in microseconds; -1: the power is cut."""
        if at == KEYR:  # 2.3.2: a wrong sequence locks it until the next reset
            fits = not self.shut and value == (KEY1, KEY2)[self.keys]
            self.shut = not fits
            self.keys = (self.keys + 1) % 2 if fits else 0
            if fits and not self.keys:
                self.cr &= ~LOCK
            if not fits:
                raise Misuse("a wrong key")
        elif self.cr & LOCK:
            raise Misuse("the flash is locked (2.3.2)")
        elif at == AR:
            self.ar = value
        elif at == CR:
            self.cr = value
            if value & STRT:
                return self.erase()
        else:
            raise Misuse(f"register {at:#x} of the flash is written")
        return 0

    def erase(self) -> int:
        """2.3.4: to ones. If the power is cut, each bit has either value."""
        self.cr &= ~STRT
        page = self.ar & -PAGE
        if self.cr != PER or not NUMBERS <= page < END:
            raise Misuse(f"the page at {page:#x} is erased")
        cut = self.is_cut()
        start = page - LAST_PAGES
        self.bytes[start:start + PAGE] = bytes(
            byte | self.chance.randrange(256) for byte in self.bytes[start:start + PAGE]
        ) if cut else b"\xff" * PAGE
        self.erased += 1
        return -1 if cut else ERASE_US

    def program(self, at: int, size: int, value: int) -> int:
        """2.3.3: half a word, which must be blank, or the new value 0; otherwise nothing happens,
        and PGERR is set. If the power is cut, each bit that becomes 0 may still be 1."""
        if self.cr != PG or size != 2 or at % 2 or at < NUMBERS:
            raise Misuse(f"{size} bytes are written at {at:#x} (2.3.3)")
        cut = self.is_cut()
        place = at - LAST_PAGES
        before = int.from_bytes(self.bytes[place:place + 2], "little")
        if self.is_protected or before != 0xFFFF and value != 0:
            self.sr |= WRPRTERR if self.is_protected else PGERR
            return 0
        after = value | before & self.chance.randrange(0x10000) if cut else value
        self.bytes[place:place + 2] = after.to_bytes(2, "little")
        return -1 if cut else PROGRAM_US


class Series(NamedTuple):
    hertz: int  # frequency of the internal oscillator
    usart: int
    begin: dict[int, int]  # registers that read as written, with their values after a reset
    pins: dict[int, tuple[int, int]]  # register: mask, and the bits that a USART needs there


SERIES = {
    # RM0008, 9.1.11: PA9 is an output of the USART, PA10 an input; both have a clock (7.3.7).
    "f1": Series(HERTZ, USART, {PORT_A: 0x44444444, PORT_C: 0x44444444, CLOCKS: 0},
                 {PORT_A: (0xFF0, 0x8B0), CLOCKS: (0x4004, 0x4004)}),
    # RM0090: AHB1ENR and APB2ENR (7.3.10, 7.3.14), MODER, PUPDR, AFRH of port A (8.4); 2.3
    "f4": Series(16_000_000, 0x40011000, {
        0x40023830: 0x100000, 0x40023844: 0, 0x40020000: 0xA8000000, 0x4002000C: 0x64000000,
        0x40020024: 0}, {
        0x40023830: (1, 1), 0x40023844: (0x10, 0x10), 0x40020000: (0x3C0000, 0x280000),
        0x4002000C: (0x300000, 0x100000), 0x40020024: (0xFF0, 0x770)})}


class Chip(Board):
    """With an F4 it has a USART and its pins, and no flash that can be written."""
    counts, slice = unicorn.UC_HOOK_BLOCK, 400

    def __init__(self, baud: int, image: Path, pages: bytes, name: str = "f1") -> None:
        self.flash, self.baud, self.lost, self.series = Flash(pages), baud, False, SERIES[name]
        self.led = 1
        super().__init__(name, self.series.hertz, 500, image)
        self.engine.mmio_map(LAST_PAGES, END - LAST_PAGES, self.read_flash, None,
                             self.write_flash, None)

    def reset(self, by_watchdog: bool = False) -> None:
        super().reset(by_watchdog)
        self.flash.reset()
        self.usart = Usart(self.hertz, self.baud)
        self.usart.now = self.now
        self.plain = dict(self.series.begin)
        self.pulled = PORT_A not in self.plain  # an F4 has the pull-up among its pins

    def count(self, _engine: object, _at: int, size: int, _data: object) -> None:
        """A block of instructions begins. Each half word takes 2 periods of the clock."""
        self.now += size

    def read_flash(self, _engine: object, offset: int, size: int, _data: object) -> int:
        return int.from_bytes(self.flash.bytes[offset:offset + size], "little")

    def write_flash(self, _engine: object, offset: int, size: int, value: int,
                    _data: object) -> None:
        self.wait(self.flash.program(LAST_PAGES + offset, size, value))

    def wait(self, microseconds: int) -> None:
        """The core reads its instructions from the flash, so it waits meanwhile (2.3.3)."""
        if self.lost:
            return  # the rest of a block of instructions
        if microseconds < 0:
            self.lost = True
            self.engine.emu_stop()
        self.now += max(microseconds, 0) * HERTZ // 1_000_000

    def read(self, engine: object, offset: int, size: int, base: int) -> int:
        address = base + offset
        self.usart.advance(self.now)
        if address & ~0x3FF == self.series.usart:
            self.has_its_pins()
            return self.usart.read(address - self.series.usart)
        if address & ~0x3FF == FLASH:
            return self.flash.read_register(address)
        if address in self.plain:
            return self.plain[address]
        return super().read(engine, offset, size, base)

    def write(self, engine: object, offset: int, size: int, value: int, base: int) -> None:
        address = base + offset
        self.usart.advance(self.now)
        if address & ~0x3FF == self.series.usart:
            self.has_its_pins()
            self.usart.write(address - self.series.usart, value)
        elif address & ~0x3FF == FLASH:
            if not self.lost:
                self.wait(self.flash.write_register(address, value))
        elif address in self.plain:
            self.plain[address] = value
        elif address == PA10_HIGH:
            self.pulled = bool(value >> 10 & 1)
        elif address == PC13_HIGH:
            self.light(0 if value >> 16 + PC13 & 1 else 1)
        elif address in (NVIC_ISER1, NVIC_ICER1) and value == 1 << UART_IRQ % 32:
            (self.enabled.add if address == NVIC_ISER1 else self.enabled.discard)(UART_IRQ)
        else:
            super().write(engine, offset, size, value, base)

    def has_its_pins(self) -> None:
        if not self.pulled or any(self.plain[address] & mask != bits
                                  for address, (mask, bits) in self.series.pins.items()):
            raise Misuse("the USART lacks its clock or its pins")

    def light(self, level: int) -> None:
        if level != self.led and self.plain[PORT_C] >> 20 & 15 == 6:  # an open-drain output
            print(f"pin C13 {level} at {self.now}", file=sys.stderr)
            self.led = level

    def pending(self) -> set[int]:
        return super().pending() | ({UART_IRQ} & self.enabled if self.usart.interrupts else set())

    def events(self) -> list[int | None]:
        usart = self.usart
        return [*super().events(), usart.next_in if usart.arriving else -1, usart.next_out]

    def step(self, until: int) -> None:
        self.usart.advance(self.now)
        super().step(until)
        if self.lost:
            self.lost = False
            self.cut(self.flash.chance.randrange(256))
        for byte in self.usart.sent:
            print(f"{byte:02x}")
        self.usart.sent.clear()

    def cut(self, byte: int) -> None:
        self.engine.mem_write(RAM, bytes([byte]) * RAM_SIZE)
        self.reset()

    def play(self, line: str) -> None:
        word, *numbers = line.split()
        if word == "send":
            self.usart.offer(bytes([int(numbers[0], 16)]))
            self.run(1e7 / self.baud)
        elif word == "wait":
            self.run(int(numbers[0]))
        elif word == "cut":
            self.cut(int(numbers[0], 16))
        elif word == "fail":
            self.flash.left, self.flash.chance = int(numbers[0]), random.Random(int(numbers[1]))
        elif word == "protect":
            self.flash.is_protected = True
        elif word == "stop":
            self.tick_at = -1
        elif word == "show":
            print("shown", flush=True)
        else:
            raise SystemExit(f"bad script: {line}")


def main(baud: str, image: str, pages: str) -> None:
    chip = Chip(int(baud), Path(image), Path(pages).read_bytes())
    for line in sys.stdin:
        chip.play(line.strip())
    if not chip.flash.cr & LOCK:
        raise Misuse("the flash stays unlocked (2.3.2)")
    print(f"cycles {chip.now} asleep {chip.asleep} boots {chip.boots} stack {chip.stack()} "
          f"erased {chip.flash.erased}", file=sys.stderr)


if __name__ == "__main__":
    as_program(lambda: main(*sys.argv[1:]), r"\d+ [^-].*")
