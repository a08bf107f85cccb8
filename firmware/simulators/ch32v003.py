"""Runs an agent on a simulated CH32V003, in Unicorn, with a model of what boards/ch32v003.h uses.

    python -m firmware.simulators.ch32v003 IMAGE

The standard input is the line to the chip, and the standard output the line from it. It ends when
the input ends. Time passes as on a chip, or more slowly if this machine is slow.

uart_ch32v003.md says what it was compared with. USART 1 holds a byte while the next one arrives; if
that is complete first, it is lost, and ORE is set. What the manual forbids, what would not be
115,200 baud, and an address that the agent has no use for end the program.
Unicorn has no rv32e, so a use of the registers from 16 on would not be noticed: the compiler's
readelf -A tells it. An instruction takes CYCLES here, which is more than on the chip on average."""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

import unicorn
from elftools.elf.elffile import ELFFile
from unicorn import riscv_const as riscv

from firmware.simulators.watchdog import Misuse, Watchdog
from tools.programs import as_program

HERTZ, CYCLES, SLICE = 24_000_000, 3, 200  # instructions until something else may happen
DOG_HERTZ, BAUD, AHEAD = 128_000, 115_200, 0.005  # seconds, that time may run ahead
RAM, RAM_SIZE, PERIPHERALS, SYSTEM = 0x20000000, 0x800, 0x40000000, 0xE0000000
DOG, PORT_D, USART, RCC = 0x40003000, 0x40011400, 0x40013800, 0x40021000
PFIC, SYSTICK = 0xE000E000, 0xE000F000
TICK_IRQ, UART_IRQ = 12, 32
ORE, RXNE, TXE = 0x08, 0x20, 0x80  # bits of STATR
RMVF, PINRSTF, PORRSTF, IWDGRSTF = 1 << 24, 1 << 26, 1 << 27, 1 << 29  # bits of RCC_RSTSCKR
UE, TXEIE, RXNEIE, TE, RE = 0x2000, 0x80, 0x20, 8, 4  # bits of CTLR1
STE, STIE, STCLK, STRE = 1, 2, 4, 8  # bits of STK_CTLR
MIE, MPIE, MPP = 0x8, 0x80, 0x1800  # bits of mstatus


class Usart:
    """USART 1. `now` is in periods of the clock."""

    def __init__(self, hertz: int = HERTZ, baud: int = BAUD) -> None:
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


class Chip:
    def __init__(self, image: Path) -> None:
        self.now = self.boots = self.causes = 0
        self.engine = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
        self.engine.mem_map(0, 0x4000)
        self.engine.mem_map(RAM, 0x1000)
        for base, size in ((PERIPHERALS, 0x30000), (SYSTEM, 0x10000)):
            self.engine.mmio_map(base, size, self.read, base, self.write, base)
        self.engine.hook_add(unicorn.UC_HOOK_INTR, self.refuse)
        self.table = -1  # mtvec, which Unicorn takes from no chip with this mode
        with image.open("rb") as stream:
            file = ELFFile(stream)
            self.engine.mem_write(0, b"".join(
                segment.data() for segment in file.iter_segments("PT_LOAD")
                if segment["p_paddr"] < RAM))
        for address in range(0, 0x4000 - 2, 2):
            word = int.from_bytes(self.engine.mem_read(address, 4), "little")
            if word & 0xFFF07FFF == 0x30505073:  # csrwi mtvec
                self.engine.hook_add(unicorn.UC_HOOK_CODE, self.set_table, word >> 15 & 31,
                                     address, address)
        self.reset()

    def reset(self, by_watchdog: bool = False) -> None:
        """RSTSCKR after a power-up: reference manual, 3.4.9."""
        self.boots += 1
        self.causes = self.causes | IWDGRSTF | PINRSTF if by_watchdog else PORRSTF | PINRSTF
        self.usart, arriving = Usart(), self.usart.arriving if self.boots > 1 else []
        self.usart.now = self.now
        self.usart.offer(bytes(arriving))
        self.registers = {RCC + 4: 0x20, RCC + 0x18: 0, PORT_D: 0x44444444}
        self.pulled, self.enabled = 0, 0
        self.dog = Watchdog(HERTZ / DOG_HERTZ)
        self.tick_control = self.tick_last = 0
        self.tick_at, self.ticked = -1, False
        self.engine.reg_write(riscv.UC_RISCV_REG_MSTATUS, MPP)
        self.pc = 0

    # ---- Registers ------------------------------------------------------------------------------

    def read(self, _engine: object, offset: int, _size: int, base: int) -> int:
        address = base + offset
        self.usart.advance(self.now)
        if address & ~0x3FF == USART:
            self.has_its_pins()
            return self.usart.read(address - USART)
        if address in self.registers:
            return self.registers[address]
        if address == RCC + 0x24:
            return self.causes
        if address == DOG + 12:
            return self.dog.read(self.now)
        raise Misuse(f"{address:#x} is read")

    def write(self, _engine: object, offset: int, _size: int, value: int, base: int) -> None:
        address = base + offset
        self.usart.advance(self.now)
        if address & ~0x3FF == USART:
            self.has_its_pins()
            self.usart.write(address - USART, value)
        elif address in self.registers:
            self.registers[address] = value
        elif address == RCC + 0x24 and value == RMVF:
            self.causes = 0
        elif address == PORT_D + 0x10:
            self.pulled |= value
        elif DOG <= address < DOG + 12:
            self.dog.write(address - DOG, value, self.now)
        elif SYSTICK <= address < SYSTICK + 20:
            self.write_tick(address - SYSTICK, value)
        elif address in (PFIC + 0x100, PFIC + 0x104):
            self.enabled |= value << 8 * (address - PFIC - 0x100)
        elif address in (PFIC + 0x180, PFIC + 0x184):
            self.enabled &= ~(value << 8 * (address - PFIC - 0x180))
        else:
            raise Misuse(f"{address:#x} is written")

    def has_its_pins(self) -> None:
        """HCLK is not divided; USART 1 and port D have a clock; PD5 is its output, PD6 an input
        with a pull-up. PD1, which flashing needs, is as it was."""
        if self.registers[RCC + 4] or self.registers[RCC + 0x18] & 0x4020 != 0x4020 \
                or self.registers[PORT_D] & 0x0FF000F0 != 0x08900040 or not self.pulled >> 6 & 1:
            raise Misuse("the USART lacks its clock or its pins")

    def write_tick(self, at: int, value: int) -> None:
        if at == 0:
            self.tick_control = value
        elif at == 4:
            self.ticked = self.ticked and bool(value & 1)
        elif at == 16:
            self.tick_last = value
        elif at != 8 or value:
            raise Misuse("SysTick counts from 0")
        runs = self.tick_control == STE | STIE | STCLK | STRE
        if at != 4:
            self.tick_at = self.now + self.tick_last + 1 if runs else -1

    # ---- The core -------------------------------------------------------------------------------

    def refuse(self, _engine: object, number: int, _data: object) -> None:
        raise Misuse(f"exception {number}")

    def set_table(self, _engine: object, _at: int, _size: int, value: int) -> None:
        self.table = value

    def enter(self, number: int) -> None:
        """Without the core's own prologue, which is off after a reset, an interrupt is as RISC-V
        specifies, and its address is in the table that mtvec's lowest bits, 3, ask for."""
        if self.table != 3:
            raise Misuse("an interrupt comes, and the table is not at 0")
        status = self.engine.reg_read(riscv.UC_RISCV_REG_MSTATUS)
        self.engine.reg_write(riscv.UC_RISCV_REG_MSTATUS, status & ~MIE | MPIE | MPP)
        self.engine.reg_write(riscv.UC_RISCV_REG_MEPC, self.pc)
        self.pc = int.from_bytes(self.engine.mem_read(4 * number, 4), "little")

    def step(self) -> None:
        self.usart.advance(self.now)
        if 0 <= self.tick_at <= self.now:
            self.ticked = True
            self.tick_at += self.tick_last + 1
        if 0 <= self.dog.ends < self.now:
            self.reset(by_watchdog=True)
        if self.engine.reg_read(riscv.UC_RISCV_REG_MSTATUS) & MIE:
            for number, waits in ((TICK_IRQ, self.ticked), (UART_IRQ, self.usart.interrupts)):
                if waits and self.enabled >> number & 1:
                    self.enter(number)
                    break
        self.engine.emu_start(self.pc, 0xFFFFFFFE, count=SLICE)
        self.pc = self.engine.reg_read(riscv.UC_RISCV_REG_PC)
        self.now += SLICE * CYCLES


def main(image: str) -> None:
    chip, began = Chip(Path(image)), time.monotonic()
    while True:
        ahead = chip.now / HERTZ - (time.monotonic() - began)
        if ahead < -AHEAD:  # it was too slow: it does not catch up
            began, ahead = began - ahead, 0.0
        if ahead > AHEAD or not chip.usart.arriving:
            if select.select([0], [], [], max(0, ahead if ahead > AHEAD else 0))[0]:
                try:
                    data = os.read(0, 4096)
                except OSError:  # the other end of a terminal is closed
                    data = b""
                if not data:
                    return
                chip.usart.offer(data)
        for _ in range(20):
            chip.step()
        if chip.usart.sent:
            os.write(1, bytes(chip.usart.sent))
            chip.usart.sent.clear()


if __name__ == "__main__":
    as_program(lambda: main(*sys.argv[1:]), "[^-].*")
