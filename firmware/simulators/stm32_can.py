"""Runs an agent on a CAN bus on a simulated STM32F1 or F4, in Unicorn, with the model of bxCAN.

    python -m firmware.simulators.stm32_can CHIP HERTZ KBITS IMAGE

CHIP is f1 or f4; its crystal has so many Hz, and the bus so many kbit/s. The standard input is a
script, and the output is frames and counts, as of can_board.c, with these differences:
    gap MICROSECONDS        at first there is none: frames of the script are back to back
    stuck                   the bus is dominant
    mute, heard             the controller never begins another mode; it does again
    dead, alive             the crystal does not start; it does again
    halt, go                the core stands still; it goes on
    charge PERIODS          what an instruction takes from now on (at first 2, which is more than a
                            Cortex-M takes on average)
    show OFFSET             prints a register of the controller
Frames take their time on the bus, and those of the script and of the board compete for it. What the
manual forbids ends the program, and so does an address where the chip has nothing. `errors` has the
lowest three bits of ESR, and `destroyed` counts frames of other nodes. `stuck`, `mute` and `dead`
in the first line are there before the board starts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import unicorn
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import arm_const as arm

from firmware.simulators.bxcan import Bus, BxCan, Frame
from firmware.simulators.watchdog import Misuse, Watchdog
from tools.programs import as_program

EXCEPTION = 12  # instructions that entering or leaving one takes as long as
FLASH, RAM, RAM_SIZE, PERIPHERALS, SYSTEM, CAN = \
    0x08000000, 0x20000000, 0x1000, 0x40000000, 0xE000E000, 0x40006400
PAINT = b"\xa5"
SYSTICK = -1
RMVF, PINRSTF, IWDGRSTF = 1 << 24, 1 << 26, 1 << 29  # bits of RCC_CSR
TIME_TO_START, SILENCE = 20_000, 100_000  # microseconds
PUSHED = (arm.UC_ARM_REG_R0, arm.UC_ARM_REG_R1, arm.UC_ARM_REG_R2, arm.UC_ARM_REG_R3,
          arm.UC_ARM_REG_R12, arm.UC_ARM_REG_LR, arm.UC_ARM_REG_PC, arm.UC_ARM_REG_XPSR)


class Chip:
    """Addresses of the clocks and pins, what they hold when the controller has its clock and its
    pins PB8 and PB9, and the internal oscillator."""
    def __init__(self, name: str) -> None:
        f4 = name == "f4"
        self.control, self.choice = (0x40023800, 0x40023808) if f4 else (0x40021000, 0x40021004)
        self.internal, self.dog_hertz = (16_000_000, 32_000) if f4 else (8_000_000, 40_000)
        # RCC_CSR and its value after a power-up: RM0090, 7.3.21; RM0008, 7.3.10
        self.csr, self.power_up = (0x40023874, 0x0E000000) if f4 else (0x40021024, 0x0C000000)
        self.clock = 0x40023840 if f4 else 0x4002101C
        self.pins = {0x40023830: (2, 2), 0x40020400: (0xF0000, 0xA0000),
                     0x4002040C: (0x30000, 0x10000), 0x40020424: (0xFF, 0x99)} if f4 else \
            {0x40021018: (9, 9), 0x40010004: (0x6000, 0x4000), 0x40010C04: (0xFF, 0xA8),
             0x40010C10: (0x100, 0x100)}
        self.unreadable = {0x40010004, 0x40010C10}  # RM0008: AFIO_MAPR has SWJ_CFG; GPIOB_BSRR
        self.begin = {0x40020400: 0x280, 0x4002040C: 0x100} if f4 else {0x40010C04: 0x44444444}


class Board:
    gap, charge, halted, dead, causes = 0, 2, False, False, 0
    # When count() is called, and after how many instructions something else may happen.
    counts, slice = unicorn.UC_HOOK_CODE, 40

    def __init__(self, chip: str, hertz: int, kbits: int, image: Path) -> None:
        self.chip, self.hertz = Chip(chip), hertz
        self.now = self.asleep = self.boots = self.last_sent = 0
        self.can = BxCan()
        self.bus = Bus(self.can, hertz // 1000 // kbits, self.show)
        self.engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB |
                                 unicorn.UC_MODE_MCLASS)
        self.engine.ctl_set_cpu_model(
            arm.UC_CPU_ARM_CORTEX_M4 if chip == "f4" else arm.UC_CPU_ARM_CORTEX_M3)
        self.engine.mem_map(FLASH, 0x4000)
        self.engine.mem_map(RAM, RAM_SIZE)
        for base, size in ((PERIPHERALS, 0x30000), (SYSTEM, 0x1000)):
            self.engine.mmio_map(base, size, self.read, base, self.write, base)
        self.engine.hook_add(self.counts, self.count)
        self.engine.hook_add(unicorn.UC_HOOK_INTR, self.leave)
        with image.open("rb") as stream:
            file = ELFFile(stream)
            table = file.get_section_by_name(".symtab")
            assert isinstance(table, SymbolTableSection)
            self.symbols = {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}
            for segment in file.iter_segments("PT_LOAD"):
                self.engine.mem_write(segment["p_paddr"], segment.data())
        begin = self.symbols.get("main", self.symbols["reset"]) & ~1
        (self.sleeps,) = (address for address in range(begin, begin + 0x400, 2)
                          if self.engine.mem_read(address, 2) == b"\x30\xbf")  # wfi
        free = self.symbols["zeros_end"] - RAM
        self.engine.mem_write(RAM + free, PAINT * (RAM_SIZE - free))
        self.reset()

    def reset(self, by_watchdog: bool = False) -> None:
        self.boots += 1
        self.causes = self.causes | IWDGRSTF | PINRSTF if by_watchdog else self.chip.power_up
        self.can.reset()
        self.registers = dict(self.chip.begin) | {self.chip.control: 0x83, self.chip.choice: 0}
        self.crystal_on, self.dog = -1, Watchdog(self.hertz / self.chip.dog_hertz)
        self.enabled = set[int]()
        self.tick_load = self.tick_control = 0
        self.tick_at = -1
        self.returns = self.dozes = False
        stack, begin = self.words(FLASH, 2)
        self.engine.reg_write(arm.UC_ARM_REG_XPSR, 1 << 24)
        self.engine.reg_write(arm.UC_ARM_REG_PRIMASK, 0)
        self.engine.reg_write(arm.UC_ARM_REG_MSP, stack)
        self.pc = begin & ~1

    def words(self, at: int, count: int) -> list[int]:
        data = self.engine.mem_read(at, 4 * count)
        return [int.from_bytes(data[i:i + 4], "little") for i in range(0, 4 * count, 4)]

    # ---- Registers ------------------------------------------------------------------------------

    def read(self, _engine: object, offset: int, _size: int, base: int) -> int:
        address, chip = base + offset, self.chip
        self.bus.advance(self.now)
        if address & ~0x3FF == CAN:
            self.has_clock()
            return self.can.read(address - CAN)
        if address == chip.control:
            ready = 0 <= self.crystal_on <= self.now - self.hertz // 500 and not self.dead  # 2 ms
            return self.registers[address] | ready << 17
        if address == chip.choice:
            return self.registers[address] | (self.registers[address] & 3) << 2
        if address == 0x4000300C:
            return self.dog.read(self.now)
        if address == chip.csr:
            return self.causes
        if address in chip.pins and address not in chip.unreadable or address == chip.clock:
            return self.registers.get(address, 0)
        raise Misuse(f"{address:#x} is read")

    def write(self, _engine: object, offset: int, _size: int, value: int, base: int) -> None:
        address, chip = base + offset, self.chip
        self.bus.advance(self.now)
        if address & ~0x3FF == CAN:
            self.has_clock()
            self.can.write(address - CAN, value)
        elif address & ~0xF == 0x40003000:
            self.dog.write(address & 15, value, self.now)
        elif address == chip.csr and value == RMVF:
            self.causes = 0
        elif address == 0xE000E100:
            self.enabled |= {number for number in range(32) if value >> number & 1}
        elif address & ~0xF == 0xE000E010:
            self.write_tick(address & 15, value)
        elif address in chip.pins or address in (chip.clock, chip.control, chip.choice):
            self.registers[address] = value
            if address == chip.control and value >> 16 & 1 and self.crystal_on < 0:
                self.crystal_on = self.now
            self.can.connected = all(self.registers.get(pin, 0) & mask == expected
                                     for pin, (mask, expected) in chip.pins.items())
            slow = self.registers[chip.choice] & 3 != 1
            self.can.period = self.hertz / chip.internal if slow else 1.0
        else:
            raise Misuse(f"{address:#x} is written")

    def has_clock(self) -> None:
        if not self.registers.get(self.chip.clock, 0) >> 25 & 1:
            raise Misuse("the controller has no clock")

    def write_tick(self, at: int, value: int) -> None:
        if at == 0:
            self.tick_control = value
        elif at == 4:
            self.tick_load = value
        runs = self.tick_control & 7 == 7
        self.tick_at = self.now + int((self.tick_load + 1) * self.can.period) if runs else -1

    # ---- The core -------------------------------------------------------------------------------

    def count(self, _engine: object, _at: int, _size: int, _data: object) -> None:
        self.now += self.charge

    def leave(self, _engine: object, number: int, _data: object) -> None:
        if number != 8:
            raise Misuse(f"exception {number} at {self.engine.reg_read(arm.UC_ARM_REG_PC):#x}")
        self.returns = True
        self.engine.emu_stop()

    def pending(self) -> set[int]:
        ticked = {SYSTICK} if 0 <= self.tick_at <= self.now else set()
        return self.can.interrupts() & self.enabled | ticked

    def events(self) -> list[int | None]:
        """When something happens that may wake the core."""
        return [self.bus.next_event(), self.tick_at, self.dog.ends]

    def enter(self, number: int) -> None:
        """An exception: the core pushes eight words at an address divisible by 8. In the last one,
        bit 9 says whether it had to skip a word for that."""
        if number == SYSTICK:
            self.tick_at += int((self.tick_load + 1) * self.can.period)
        values = [self.engine.reg_read(register) for register in PUSHED]
        values[6] = self.pc
        stack = self.engine.reg_read(arm.UC_ARM_REG_SP)
        values[7] |= (stack & 4) << 7
        stack = (stack & ~7) - 32
        self.engine.mem_write(stack, b"".join(value.to_bytes(4, "little") for value in values))
        self.engine.reg_write(arm.UC_ARM_REG_SP, stack)
        self.engine.reg_write(arm.UC_ARM_REG_XPSR, 1 << 24 | 16 + number)
        self.engine.reg_write(arm.UC_ARM_REG_LR, 0xFFFFFFF9)
        self.pc = self.words(FLASH + 4 * (16 + number), 1)[0] & ~1
        self.now += EXCEPTION * self.charge

    def end_exception(self) -> None:
        stack = self.engine.reg_read(arm.UC_ARM_REG_SP)
        values = self.words(stack, 8)
        self.engine.reg_write(arm.UC_ARM_REG_SP, stack + 32 + (values[7] >> 7 & 4))
        *values, self.pc, flags = values
        for register, value in zip(PUSHED, (*values, self.pc, flags & ~0x200), strict=True):
            self.engine.reg_write(register, value)
        self.returns = False
        self.now += EXCEPTION * self.charge

    def step(self, until: int) -> None:
        """Runs some instructions, or lets time pass until something happens."""
        self.bus.advance(self.now)
        if 0 <= self.dog.ends <= self.now:
            self.reset(by_watchdog=True)
        if self.halted:
            self.now += self.hertz // 100_000
            return
        masked = self.engine.reg_read(arm.UC_ARM_REG_PRIMASK) & 1
        handles = self.engine.reg_read(arm.UC_ARM_REG_IPSR)
        waiting = self.pending()
        if waiting and self.dozes:  # an interrupt returns behind the wfi that it ends
            self.pc += 2
            self.dozes = False
        if waiting and not masked and not handles:
            self.enter(min(waiting))
        if self.pc == self.sleeps and not waiting:
            events = [until, *(event for event in self.events() if event is not None)]
            wake = max(min(event for event in events if event >= 0), self.now + 1)
            self.asleep += wake - self.now
            self.now, self.dozes = wake, True
            return
        if self.pc == self.sleeps:
            self.pc += 2
        few = 2 if waiting else self.slice
        self.engine.emu_start(self.pc | 1, self.sleeps, count=few)
        self.pc = self.engine.reg_read(arm.UC_ARM_REG_PC) & ~1
        if self.returns:
            self.end_exception()

    def run(self, microseconds: float) -> None:
        until = self.now + round(microseconds * self.hertz / 1e6)
        while self.now < until:
            self.step(until)
        self.bus.advance(self.now)  # the next line of the script happens now

    # ---- The script -----------------------------------------------------------------------------

    def show(self, frame: Frame) -> None:
        self.last_sent = self.now
        data = f"R{frame.length}" if frame.remote else frame.data.hex().upper()
        print(f"{frame.number:0{8 if frame.extended else 3}X}#{data}", flush=True)

    def finish(self, waiting: int = 0) -> None:
        """Runs until so many of the script's frames are left: the next one waits for the end of
        the frame before it, and competes with those of the board (ISO 11898-1)."""
        while len(self.bus.offered) > waiting:
            self.step(self.now + self.hertz)

    def play(self, line: str) -> None:
        word, *numbers = line.split()
        if frame := re.fullmatch(r"([0-9A-F]{3}|[0-9A-F]{8})#(R(\d)|[0-9A-F]*)", line):
            remote = bool(frame[3])
            self.bus.offer(Frame(int(frame[1], 16), len(frame[1]) == 8, remote,
                                 b"" if remote else bytes.fromhex(frame[2]), int(frame[3] or 0)))
            self.finish(waiting=0 if self.gap else 2)  # a step may end one
            self.run(self.gap)
            return
        self.finish()
        if word == "wait":
            self.run(int(numbers[0]))
        elif word == "gap":
            self.gap = int(numbers[0])
        elif word == "charge":
            self.charge = int(numbers[0])
        elif word in ("halt", "go"):
            self.halted = word == "halt"
        elif word in ("mute", "heard"):
            self.can.mute = word == "mute"
        elif word in ("dead", "alive"):
            self.dead = word == "dead"
        elif word == "show":
            print(f"{numbers[0]}#{self.can.read(int(numbers[0], 16), test=True):X}", flush=True)
        elif word in (Bus.TOGETHER, Bus.ALONE, Bus.FAILING, Bus.STUCK):
            self.bus.be(word)
        else:
            raise SystemExit(f"bad script: {line}")

    def stack(self) -> int:
        free = self.symbols["zeros_end"]
        unused = self.engine.mem_read(free, RAM + RAM_SIZE - free)
        return len(bytes(unused).lstrip(PAINT))


def main(chip: str, hertz: str, kbits: str, image: str) -> None:
    first, *script = sys.stdin.read().splitlines() or [""]
    board = Board(chip, int(hertz), int(kbits), Path(image))
    if first in (Bus.STUCK, "mute", "dead"):  # these last from the first cycle on
        board.play(first)
    board.run(TIME_TO_START)
    for line in [first, *script]:
        if line:
            board.play(line)
    board.finish()
    board.run(SILENCE)
    while board.now - board.last_sent < SILENCE * board.hertz // 1_000_000:
        board.run(SILENCE)
    print(f"cycles {board.now} asleep {board.asleep} boots {board.boots} stack {board.stack()} "
          f"errors {board.can.esr & 7} destroyed {board.bus.destroyed}", file=sys.stderr)


if __name__ == "__main__":
    as_program(lambda: main(*sys.argv[1:]), r"f[14] \d+ \d+ [^-].*")
