"""A model of bxCAN, the CAN controller of STM32F1 and F4, and of a CAN bus with other nodes.

It follows the reference manual RM0090, section 32; the numbers in comments are its sections. What
the manual forbids is a Misuse, which ends the simulation. It has the waits of the manual:
- A mode begins when the frame on the bus has ended, and after HANDSHAKE (32.4). The manual tells no
  time for the latter. Normal mode begins after 11 recessive bits.
- A FIFO needs RELEASE until its next frame can be read. The manual tells no time, only that a bit
  shows it (32.9.2, RFOM).
- A frame takes its bits, with stuff bits. After bus-off, 128 times 11 recessive bits (32.7.6).
It has only what can_stm32.c uses: filters of 32 bits with a mask, FIFO 0, mailboxes by identifier,
RFLM and ABOM. What else a firmware asks for is a Misuse, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from firmware.simulators.watchdog import Misuse

MCR, MSR, TSR, RF0R, _, IER, ESR, BTR = range(0, 0x20, 4)
FMR, FS1R, FA1R = 0x200, 0x20C, 0x21C
SENDING, RECEIVING, BANKS, BANK_COUNT = 0x180, 0x1B0, 0x240, 28
SLEEP, INIT, NORMAL = "sleep", "initialization", "normal"
INRQ, SLEEP_REQUEST, RFLM, ABOM, RESET = 1, 2, 8, 0x40, 0x8000  # bits of MCR
ERRI, LEC = 4, 0x70
EWGF, EPVF, BOFF = 1, 2, 4  # bits of ESR; their interrupts are bits 8, 9, 10 of IER
FULL, FOVR, RFOM = 0x08, 0x10, 0x20
RQCP, TXOK, ALST, TERR, ABRQ = 1, 2, 4, 8, 0x80  # bits of TSR, for mailbox 0
IRQ_TX, IRQ_RX0, IRQ_SCE = 19, 20, 22
HANDSHAKE, RELEASE = 200, 128  # periods of the clock; an interrupt comes again after fewer
ERROR_BITS = 45  # bits of a frame that fails in its identifier, error frame and pause included


def crc_15(bits: str) -> int:
    crc = 0
    for bit in bits:
        crc = crc << 1 & 0x7FFF ^ (0x4599 if int(bit) ^ crc >> 14 else 0)
    return crc


@dataclass(frozen=True)
class Frame:
    number: int
    extended: bool = False
    remote: bool = False
    data: bytes = b""
    length: int = 0  # the length that a remote frame requests

    @property
    def priority(self) -> tuple[int, bool, int, bool]:
        """The lowest wins the arbitration."""
        base = self.number >> 18 if self.extended else self.number
        return base, self.extended, self.number & 0x3FFFF if self.extended else 0, self.remote

    def bits(self) -> int:
        """How long it takes, with its stuff bits and the three bits until the next one may come."""
        head = f"{self.number:029b}" if self.extended else f"{self.number:011b}"
        head = f"0{head[:11]}11{head[11:]}{self.remote:b}00" if self.extended \
            else f"0{head}{self.remote:b}00"
        text = head + f"{len(self.data) or self.length:04b}"
        text += "".join(f"{byte:08b}" for byte in self.data)
        stuffed, run, last = 0, 0, ""
        for bit in text + f"{crc_15(text):015b}":
            run, last = run + 1 if bit == last else 1, bit
            if run == 5:
                stuffed, run, last = stuffed + 1, 1, "10"[int(bit)]
        return len(text) + 15 + stuffed + 1 + 2 + 7 + 3

    @property
    def registers(self) -> tuple[int, int, int, int]:
        """As a mailbox has it: the identifier, the length, the data (32.9.3)."""
        data = self.data.ljust(8, b"\0")
        return ((self.number << 3 | 4 if self.extended else self.number << 21) | self.remote << 1,
                len(self.data) or self.length,
                int.from_bytes(data[:4], "little"), int.from_bytes(data[4:], "little"))


@dataclass
class Mailbox:
    registers: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    full: bool = False
    flags: int = 0  # RQCP, TXOK, ALST, TERR
    aborted: bool = False

    @property
    def frame(self) -> Frame:
        name, length = self.registers[0], self.registers[1] & 15
        extended, remote = bool(name & 4), bool(name & 2)
        data = b"".join(word.to_bytes(4, "little") for word in self.registers[2:])[:length]
        return Frame(name >> 3 if extended else name >> 21, extended, remote,
                     b"" if remote else data, length if remote else 0)

    def end(self, flags: int) -> None:
        self.full, self.aborted, self.flags = False, False, RQCP | flags


class BxCan:
    def __init__(self) -> None:
        self.now, self.connected = 0, True  # periods of its clock; whether it is on the bus
        self.mute = False  # it never begins another mode
        self.losses = 0  # times it was off the bus, or lost frames until FOVR was cleared
        self.stale = (0, 0)  # the data of the frame that was received last
        self.period = 1.0  # period of its clock, in periods of the crystal
        self.reset()

    def reset(self) -> None:
        """The values after a reset (32.9.5)."""
        self.plain = {IER: 0, FMR: 0x2A1C0E01, FS1R: 0, FA1R: 0} | dict.fromkeys(
            range(BANKS, BANKS + 8 * BANK_COUNT, 4), 0)
        self.mcr, self.mode, self.requested, self.btr = 0x10002, SLEEP, self.now, 0x01230000
        self.erri, self.lec, self.tec, self.rec, self.off = False, 0, 0, 0, False
        self.boxes = [Mailbox() for _ in range(3)]
        self.sending: Mailbox | None = None
        self.since = self.now  # its mode, or bus-off
        self.fifo: list[Frame] = []
        self.fifo_flags, self.released = 0, -1

    # ---- What the bus asks ----------------------------------------------------------------------

    @property
    def wanted(self) -> str:
        return INIT if self.mcr & INRQ else SLEEP if self.mcr & SLEEP_REQUEST else NORMAL

    @property
    def bit(self) -> int:
        """The periods of a bit (32.7.7)."""
        parts = 3 + (self.btr >> 16 & 15) + (self.btr >> 20 & 7)
        return int(((self.btr & 1023) + 1) * parts * self.period)

    @property
    def silent(self) -> bool:
        return bool(self.btr >> 31)

    @property
    def on_bus(self) -> bool:
        return self.mode == NORMAL and self.connected and not self.off

    def next_box(self) -> Mailbox | None:
        """By identifier, then by number (32.7.1)."""
        waiting = [box for box in self.boxes if box.full]
        if not waiting or not self.on_bus or self.silent:
            return None
        return self.sending or min(waiting, key=lambda box: box.frame.priority)

    def begin(self, mode: str) -> None:
        self.mode, self.since = mode, self.now

    def set_errors(self, tec: int, rec: int, code: int) -> None:
        """The counters and what follows from them (32.7.6, 32.9.2)."""
        before, self.tec, self.rec = self.esr, tec, min(rec, 255)
        if tec > 255 and not self.off:
            self.since = self.now
            self.losses += 1
        self.off = tec > 255
        self.lec = code
        enabled = self.plain[IER] >> 8
        if self.esr & ~before & enabled & (EWGF | EPVF | BOFF) or code and enabled & 8:
            self.erri = True

    def sent(self, box: Mailbox) -> None:
        box.end(TXOK)
        self.set_errors(max(self.tec - 1, 0), self.rec, 0)
        self.sending = None

    def send_failed(self, box: Mailbox, unacknowledged: bool) -> None:
        """A passive node that nobody acknowledges counts no more errors, by the standard."""
        box.flags |= TERR
        if box.aborted:
            box.end(TERR)
        counts = not unacknowledged or self.tec < 128
        self.set_errors(self.tec + 8 * counts, self.rec, 3 if unacknowledged else 5)
        self.sending = None

    def receive_failed(self) -> None:
        self.set_errors(self.tec, self.rec + 1, 1)

    def receive(self, frame: Frame) -> None:
        """Into the FIFO, if a filter lets it in. RFLM: a full FIFO keeps what it has (32.7.3)."""
        self.set_errors(self.tec, 120 if self.rec > 128 else max(self.rec - 1, 0), 0)
        if not self.lets_in(frame):
            return
        self.release()
        if len(self.fifo) == 3:
            self.losses += not self.fifo_flags & FOVR
            self.fifo_flags |= FOVR
            return
        self.fifo.append(frame)
        if len(self.fifo) == 3:
            self.fifo_flags |= FULL

    def lets_in(self, frame: Frame) -> bool:
        """While FINIT is set, nothing is received (32.7.4)."""
        banks = [BANKS + 8 * bank for bank in range(14) if self.plain[FA1R] >> bank & 1]
        return not self.plain[FMR] & 1 and any(
            not (frame.registers[0] ^ self.plain[bank]) & self.plain[bank + 4] for bank in banks)

    # ---- What the firmware sees -----------------------------------------------------------------

    @property
    def esr(self) -> int:
        highest = max(self.tec, self.rec)
        return (self.rec << 24 | (self.tec & 255) << 16 | self.lec << 4 | self.off << 2
                | (highest > 127) << 1 | (highest > 95))

    def interrupts(self) -> set[int]:
        """32.8."""
        enabled, requested = self.plain[IER], set()
        if enabled & 1 and any(box.flags & RQCP for box in self.boxes):
            requested.add(IRQ_TX)
        self.release()
        flags = bool(self.fifo) | (self.fifo_flags & (FULL | FOVR)) >> 2
        if enabled >> 1 & flags & 7:
            requested.add(IRQ_RX0)
        if enabled >> 15 & 1 and self.erri:
            requested.add(IRQ_SCE)
        return requested

    def release(self) -> None:
        if 0 <= self.released <= self.now:
            self.fifo.pop(0)
            self.released = -1

    def read(self, at: int, test: bool = False) -> int:
        if at == MCR:
            return self.mcr
        if at == MSR:
            return 0xC00 | self.erri << 2 | (self.mode == SLEEP) << 1 | (self.mode == INIT)
        if at == TSR:
            return self.tsr()
        if at == RF0R:
            self.release()
            return len(self.fifo) | self.fifo_flags | (RFOM if self.released >= 0 else 0)
        if at == ESR:
            return self.esr
        if at == BTR:
            if not test:
                self.only_initialized("BTR")
            return self.btr
        if at in self.plain:
            return self.plain[at]
        if SENDING <= at < RECEIVING:
            return self.boxes[at - SENDING >> 4].registers[at >> 2 & 3]
        if RECEIVING <= at < RECEIVING + 16:
            self.release()
            if not self.fifo or self.released >= 0:
                raise Misuse("a FIFO is read that has no frame, or not yet")
            frame = self.fifo[0]
            if not frame.remote:
                self.stale = frame.registers[2:]
            return (*frame.registers[:2], *self.stale)[at >> 2 & 3]  # a remote frame has no data
        raise Misuse(f"there is no register at {at:#x}")

    def tsr(self) -> int:
        value, waiting = 0, [box for box in self.boxes if box.full]
        for number, box in enumerate(self.boxes):
            value |= (box.flags | (ABRQ if box.aborted else 0)) << 8 * number
            value |= (not box.full) << 26 + number
        empty = [number for number, box in enumerate(self.boxes) if not box.full]
        if waiting:
            last = max(waiting, key=lambda box: box.frame.priority)
            lowest = next(number for number, box in enumerate(self.boxes) if box is last)
            value |= (len(waiting) > 1) << 29 + lowest
        return value | (empty[0] if empty else lowest) << 24

    def only_initialized(self, what: str) -> None:
        if self.mode != INIT:
            raise Misuse(f"{what} in {self.mode} mode (32.9.1)")

    def write(self, at: int, value: int) -> None:
        if at == MCR:
            self.write_mcr(value)
        elif at == MSR:
            self.erri &= not value & ERRI
        elif at == TSR:
            for number, box in enumerate(self.boxes):
                self.write_state(box, value >> 8 * number & 255)
        elif at == RF0R:
            self.fifo_flags &= ~value
            self.release()
            if value & RFOM and self.fifo:
                if self.released >= 0:
                    raise Misuse("a FIFO is released twice")
                self.released = self.now + RELEASE
        elif at == ESR:
            if value & LEC == LEC:
                self.lec = 7
        elif at == BTR:
            self.only_initialized("BTR")
            self.btr = value & 0xC37F03FF
        elif at in self.plain:
            self.write_plain(at, value)
        elif SENDING <= at < RECEIVING:
            self.write_box(self.boxes[at - SENDING >> 4], at >> 2 & 3, value)
        else:
            raise Misuse(f"{at:#x} cannot be written")

    def write_mcr(self, value: int) -> None:
        if value & RESET:
            self.reset()
            return
        if value & ~0x10003 != RFLM | ABOM or value & 3 == 3:
            raise Misuse(f"MCR = {value:#x} (32.4.3)")
        before, self.mcr = self.wanted, value
        if self.wanted != before:
            self.requested = self.now

    def write_state(self, box: Mailbox, value: int) -> None:
        """32.7.1: a frame on the bus goes on to its end although its request is taken back."""
        if value & RQCP:
            box.flags = 0
        if value & ABRQ and box.full:
            if box is self.sending:
                box.aborted = True
            else:
                box.end(0)

    def write_plain(self, at: int, value: int) -> None:
        """Filters change only in their initialization mode, or their values while they are not
        active (32.9.1). The other bits of FMR stay as after a reset."""
        ready = bool(self.plain[FMR] & 1)
        if at == FS1R and not ready:
            raise Misuse("a filter is changed outside of its initialization mode")
        if at >= BANKS and not ready and self.plain[FA1R] >> (at - BANKS >> 3) & 1:
            raise Misuse("an active filter is changed")
        if at == FMR and (value ^ self.plain[FMR]) & ~1:
            raise Misuse("reserved bits of FMR are changed")
        if at == IER and value & ~0x38F7F:
            raise Misuse("reserved bits of IER are set")
        self.plain[at] = value
        if self.plain[FA1R] & ~self.plain[FS1R]:
            raise Misuse("a filter is active that has not 32 bits")

    def write_box(self, box: Mailbox, which: int, value: int) -> None:
        if box.full:
            raise Misuse("a mailbox is written that is not empty (32.9.1)")
        box.registers[which] = value
        if which == 1 and value & 15 > 8:
            raise Misuse("a frame with more than 8 bytes")
        if which == 0 and value & 1:
            box.full, box.flags = True, 0


class Bus:
    """A CAN bus with the controller and other nodes. `kind` says what these do."""
    TOGETHER = "together"
    ALONE = "alone"  # nobody acknowledges
    FAILING = "fail"  # each frame of the controller fails
    STUCK = "stuck"  # it is dominant

    def __init__(self, chip: BxCan, bit: int, show: Callable[[Frame], None]) -> None:
        self.chip, self.bit, self.show = chip, bit, show  # a bit has so many periods
        self.kind = self.TOGETHER
        # Time since which the bus is recessive; None: it is dominant.
        self.recessive: int | None = 0
        self.ends: int | None = None  # the frame on the bus
        self.offered: list[Frame] = []  # another node sends the first as soon as it can
        self.attempts = 0  # attempts of that node to send it
        self.rests = 0  # sequences of 11 recessive bits since bus-off
        self.destroyed = 0  # frames of others

    def offer(self, frame: Frame) -> None:
        self.offered.append(frame)

    def be(self, kind: str) -> None:
        if self.STUCK in (kind, self.kind):
            self.recessive = None if kind == self.STUCK else self.chip.now
            self.ends = None
            if self.chip.sending:
                self.chip.send_failed(self.chip.sending, unacknowledged=False)
        self.kind = kind

    def events(self) -> Iterator[tuple[int, Callable[[], None]]]:
        """What will happen, and when."""
        chip = self.chip
        if self.ends is not None:
            yield self.ends, self.end_frame
        if chip.wanted != chip.mode and not chip.mute:
            if chip.wanted != NORMAL:
                if self.ends is None or not chip.on_bus:
                    yield chip.requested + HANDSHAKE, self.change_mode
            elif self.recessive is not None and chip.connected:
                yield max(self.recessive, chip.requested) + 11 * chip.bit, self.change_mode
        if self.recessive is None:
            return
        if chip.off and chip.mode == NORMAL:  # ABOM (32.7.6)
            left = 128 - self.rests
            yield max(self.recessive, chip.since) + 11 * self.bit * left, self.recover
        if self.offered or chip.next_box():
            yield self.recessive + 11 * self.bit, self.start_frame

    def next_event(self) -> int | None:
        return min((when for when, _ in self.events()), default=None)

    def advance(self, now: int) -> None:
        while True:
            when, happen = min(self.events(), key=lambda event: event[0], default=(now + 1, None))
            if happen is None or when > now:
                break
            self.chip.now = max(when, self.chip.now)
            happen()
        self.chip.now = now

    def change_mode(self) -> None:
        self.chip.begin(self.chip.wanted)
        self.rests = 0

    def recover(self) -> None:
        self.chip.off = False
        self.chip.set_errors(0, 0, 0)

    def start_frame(self) -> None:
        box, frame = self.chip.next_box(), next(iter(self.offered), None)
        if self.recessive is not None:
            self.rests += (self.chip.now - max(self.recessive, self.chip.since)) // (11 * self.bit)
        self.recessive = None
        if box and frame and frame.priority < box.frame.priority:
            box.flags |= ALST
            box = None
        self.chip.sending = box
        bits = box.frame.bits() if box else frame.bits() if frame else 0
        if box and self.kind == self.FAILING:
            bits = ERROR_BITS
        self.ends = self.chip.now + bits * self.bit

    def end_frame(self) -> None:
        """Its last bits are recessive: one after the acknowledgement, seven, and three."""
        chip, self.ends, self.recessive = self.chip, None, self.chip.now - 11 * self.bit
        tuned = chip.bit == self.bit
        if box := chip.sending:
            if self.kind == self.TOGETHER and tuned:
                self.show(box.frame)
                chip.sent(box)
            else:
                chip.send_failed(box, self.kind == self.ALONE and tuned)
                self.rests = 0
        elif self.offered:
            self.end_foreign(self.offered[0], chip.on_bus and tuned)

    def end_foreign(self, frame: Frame, heard: bool) -> None:
        """Another node tries again until its frame is acknowledged. After 16 failures it is
        passive: then its frame is whole for a silent controller, although nobody acknowledges
        it (32.5.1). After 64 it gives up, so that a script goes on."""
        chip = self.chip
        acknowledged = self.kind != self.ALONE or heard and not chip.silent
        if chip.on_bus and not heard:
            chip.receive_failed()
            if not chip.silent:
                self.destroyed += 1
                acknowledged = False
        elif heard and (acknowledged or self.attempts >= 16):
            chip.receive(frame)
        self.attempts += 1
        if acknowledged or self.attempts > 64:
            self.attempts = 0
            self.offered.pop(0)
