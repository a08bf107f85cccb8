"""The agent on an STM32's own CAN controller, on a simulated bus, and the model of that controller
against the reference manual. Registers and bits are numbers here: they were read from the manual a
second time, so a wrong constant in the model cannot agree with itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from firmware.simulators.boards import REQUEST_AT, Board, Bus, frame
from firmware.simulators.bxcan import Bus as Wire, BxCan, Frame, crc_15
from firmware.simulators.watchdog import Misuse
from firmware.simulators.stm32_can import Board as Simulator
from firmware.tests.test_firmware_can import (ASK, BASE, CAN, ENOUGH, STM32, beat, compiled, play,
                                              reports, tables_of)
from tools.programs import ROOT, run

F1, F4 = STM32
BIT = 16  # periods of the model's clock


# ---------------------------------------------------------------- the image

def test_what_the_filters_let_in() -> None:
    """The halted core shows what its FIFO holds, which the program would refuse, too."""
    script, expected = [beat(1, 1, 1), ENOUGH], ""
    for number, held in ((BASE, 1), (BASE + 63, 1), (BASE + REQUEST_AT, 1), (BASE + 64, 0),
                         (BASE - 1, 0), (BASE + 126, 0), (BASE ^ 128, 0)):
        for each in (frame(number, b"12345678"), f"{number:X}#R8", f"{number << 18:08X}#"):
            script += ["halt", each, "wait 300", "show C", "go", "wait 1000"]
        expected += f"{held}00"
    assert "".join(held for _, held in play(script, F4)) == expected


def test_no_heartbeat_is_lost_on_a_full_bus() -> None:
    """Frames without a pause, at 500 kbit/s, for 83 ms."""
    flood = [beat(variable, 76, turn) for turn in range(6) for variable in range(1, 63)]
    (table,) = reports([*flood, ASK], F4)
    assert table[0][2:] == b"\1\0"
    assert all(entry[2:] == bytes((76, 5)) for entry in table[1:63])


@pytest.mark.parametrize("board", [pytest.param(F1, marks=pytest.mark.slow), F4])
def test_a_report_survives_a_flood(board: Board) -> None:
    """2.2 s of frames that win each arbitration. The report leaves after the last of them, is
    fresh, and the next request is answered, too."""
    flood = [frame(0x100, bytes(8))] * 8_500
    simulator = Simulator(board.name[-2:], board.hertz, 500, board.image())
    sent = list[tuple[int, Frame]]()
    simulator.bus.show = lambda each: sent.append((simulator.now, each))
    simulator.run(20_000)
    for line in [beat(1, 1, 1), ENOUGH, ASK, *flood]:
        simulator.play(line)
    assert len(sent) == 0
    simulator.finish()
    end = simulator.now
    simulator.run(20_000)
    assert [each.number - BASE - 64 for _, each in sent] == list(range(33))
    data = b"".join(each.data for _, each in sent)
    assert end // board.hertz - 2 <= int.from_bytes(data[4:6], "big") > 0
    simulator.play(ASK)
    simulator.run(20_000)
    assert len(sent) == 66 and simulator.boots == 1


@pytest.mark.slow
def test_a_heartbeat_at_any_moment_of_a_request() -> None:
    """Also while the loop fills the mailboxes, which interrupts fill, too."""
    script = [beat(1, 1, 1), ENOUGH]
    for later in range(200, 1500, 4):
        script += [ASK, f"wait {later}", beat(3, 76, 9), "wait 12000"]
    assert len(reports(script, F4)) == 325


def test_a_report_leaves_without_a_pause() -> None:
    """So a frame with a higher identifier waits for its end."""
    *sent, last = play([beat(1, 1, 1), ENOUGH, ASK, "wait 3000", "7FF#", "show C"], F4)
    assert len(tables_of(sent, F4)) == 1 and last == ("C", "0")


@pytest.mark.slow
def test_losses_are_counted_up_to_255() -> None:
    off = ["fail", ASK, "wait 8000"]
    (table,) = reports([beat(1, 2, 3), ENOUGH, *off * 270, "together", ENOUGH, ASK], F4)
    assert table[0][3] == 255


def test_a_bus_that_is_dominant_when_the_power_comes() -> None:
    """Nothing resets the chip meanwhile."""
    script = ["stuck", "wait 5000000", "together", "wait 1000", beat(7, 8, 9), ENOUGH, ASK]
    (table,) = reports(script, F4)
    assert table[7] == b"\0\5\x08\x09" and table[0][3] == 0


def test_a_controller_that_does_not_answer() -> None:
    """The watchdog ends the wait for INAK, each 2 s, until it comes."""
    script = ["mute", "charge 2000", "wait 5000000", "heard", "charge 2", ENOUGH, beat(7, 8, 9),
              ENOUGH, ASK]
    (table,) = reports(script, F4, boots=3)
    assert table[7][2:] == b"\x08\x09"


@pytest.mark.parametrize(("board", "fault"), [
    (board, fault) for board in (F1, F4, CAN) for fault in (b"HangHere", b"StopTime")
], ids=lambda it: it.decode() if isinstance(it, bytes) else it.name)
def test_the_watchdog_resets_a_loop_or_a_clock_that_hangs(board: Board, fault: bytes) -> None:
    """Within its period, and after the half second in which the clock ticked last."""
    slow, fast = (["charge 50"], ["charge 2"]) if board is not CAN else ([], [])
    script = [beat(3, 76, 9), ASK, ENOUGH, *slow, frame(BASE, fault), "wait 2550000", *fast,
              ENOUGH, beat(7, 8, 9), ASK]
    before, after = reports(script, board, board.image("hanging"), boots=2)
    assert before[3][2:] == b"\x4c\x09"
    assert [after[at][2:] for at in (3, 7)] == [bytes(2), b"\x08\x09"]
    assert [table[63][2:] for table in (before, after)] == [b"\1\x21", b"\1\x82"]


@pytest.mark.parametrize(("board", "dead_ms"), [(F1, 3700), (F4, 4500)], ids=["f1", "f4"])
def test_a_dead_crystal(board: Board, dead_ms: int) -> None:
    """The watchdog ends the wait for it, each 1.6 s (STM32F1) or 2 s. The third start succeeds."""
    script = ["dead", "charge 2000", f"wait {dead_ms}000", "alive", "charge 2", ENOUGH,
              beat(7, 8, 9), ENOUGH, ASK]
    (table,) = reports(script, board, boots=3)
    assert [table[at][2:] for at in (7, 63)] == [b"\x08\x09", b"\1\x83"]


def test_an_interrupt_ends_wfi(tmp_path: Path) -> None:
    """It returns behind the instruction (DDI 0403, B1.5.19), also in a program that masks none."""
    source = tmp_path / "wfi.c"
    source.write_text("""static volatile int ticks, loops; extern int stack_top;
        #define TICK(offset) (*(volatile unsigned *)(0xE000E010 + (offset)))
        static void tick(void) { ticks++; }
        void reset(void) { TICK(4) = 7999; TICK(0) = 7;
            for (;;) { __asm__ volatile("wfi"); loops++; } }
        __attribute__((section(".vectors"), used)) void *const vectors[] = {
            &stack_top, reset, [15] = tick};""")
    run(["arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-nostdlib", "-Os", "-T",
         ROOT / "firmware/cortex_m.ld", "-Wl,--defsym=flash_begin=0x08000000", source,
         "-o", tmp_path / "wfi.elf"])
    chip = Simulator("f4", 8_000_000, 500, tmp_path / "wfi.elf")
    chip.run(10_500)
    assert chip.words(chip.symbols["ticks"], 1) == chip.words(chip.symbols["loops"], 1) == [10]


def test_a_wrong_bit_rate_destroys_nothing() -> None:
    """The agent listens only, also after a long silence. At the right rate it speaks."""
    flood = [beat(variable, 1, 1) for variable in range(1, 40)]
    for kbits, answers in ((250, 0), (500, 33)):
        with Bus(dataclasses.replace(F4, kbits=kbits), ["wait 600000", *flood, ASK]) as bus:
            assert (bus.end()["destroyed"], len(bus.frames())) == (0, answers)


@pytest.mark.parametrize("first", [beat(5, 6, 7), "100#00"])
def test_a_node_that_only_the_agent_can_acknowledge(first: str) -> None:
    """Its frame is foreign, or not. It fails until the node is passive. Then the agent hears it
    whole, knows the bit rate, and acknowledges from then on."""
    (table,) = reports(["alone", first, "wait 600000", beat(3, 76, 9), "together", ASK], F4)
    assert table[3][2:] == b"\x4c\x09"


@pytest.mark.parametrize(("crystal", "kbits", "parts"), [
    (8, 500, 16), (8, 250, 16), (8, 125, 16), (8, 1000, 8), (12, 500, 12), (16, 500, 16),
    (25, 500, 10), (25, 125, 10), (24, 250, 16)])
def test_bit_timing(crystal: int, kbits: int, parts: int, tmp_path: Path) -> None:
    """By section 32.7.7. The model hears the bus only if the rate is that of the bus."""
    image = compiled(F4, tmp_path, f"-DCAN_CRYSTAL={crystal}", f"-DCAN_KBITS={kbits}")
    board = dataclasses.replace(F4, hertz=crystal * 1_000_000, kbits=kbits)
    with Bus(board, [beat(3, 76, 9), ENOUGH, "show 1C", ASK, "wait 40000"], image) as bus:
        bus.end()
        first, *report = bus.frames()
    timing = int(first.partition("#")[2], 16)
    before, after = (timing >> 16 & 15) + 1, (timing >> 20 & 7) + 1
    assert (1 + before + after, after, timing >> 24) == (parts, 2, 1)  # SJW: 2 parts; not silent
    assert len(report) == 33


@pytest.mark.parametrize("clocked", [0, 1])
def test_a_crystal_or_another_clock(clocked: int, tmp_path: Path) -> None:
    """RM0090, section 7.3.1: HSEBYP, HSERDY and HSEON are bits 18 to 16 of RCC_CR."""
    board = Simulator("f4", F4.hertz, 500, compiled(F4, tmp_path, f"-DCAN_CLOCKED={clocked}"))
    board.run(20_000)
    assert board.registers[0x40023800] >> 16 & 7 == 1 | clocked << 2


@pytest.mark.parametrize(("options", "why"), [
    (("-DCAN_KBITS=83",), "this crystal cannot do this bit rate"),
    (("-DCAN_CRYSTAL=27",), "the chip takes no such crystal"),
    (("-DCAN_BASE=0x6C0",), "CAN_BASE is no first identifier of 128"),
    (("-DCAN_REPORTS=0x800",), "CAN_REPORTS is no first identifier of 128")])
def test_options_that_cannot_be(options: Sequence[str], why: str, tmp_path: Path) -> None:
    with pytest.raises(BaseException, match=why):
        compiled(F4, tmp_path, *options)


# ---------------------------------------------------------------- the model

class Model:
    """The controller on a bus of its own, with filters that let everything into FIFO 0."""

    def __init__(self, btr: int = 0x011C0000) -> None:
        self.chip, self.sent = BxCan(), list[Frame]()
        self.bus = Wire(self.chip, BIT, self.sent.append)
        self.put(0x00, 0x10049)
        self.wait(100)
        self.put(0x1C, btr)
        self.put(0x200, 0x2A1C0E01)
        self.put(0x20C, 1)
        self.put(0x21C, 1)
        self.put(0x200, 0x2A1C0E00)
        self.put(0x00, 0x10048)

    def wait(self, bits: int) -> None:
        self.bus.advance(self.chip.now + bits * BIT)

    def put(self, at: int, value: int) -> None:
        self.chip.write(at, value)

    def get(self, at: int) -> int:
        return self.chip.read(at)

    def load(self, box: int, number: int, data: bytes = b"") -> None:
        self.put(0x184 + 16 * box, len(data))
        self.put(0x188 + 16 * box, int.from_bytes(data[:4], "little"))
        self.put(0x180 + 16 * box, number << 21 | 1)

    def bring(self, *frames: Frame) -> None:
        for each in frames:
            self.bus.offer(each)
            self.wait(200)


def joined(btr: int = 0x011C0000) -> Model:
    model = Model(btr)
    model.wait(20)
    return model


def test_the_modes_and_their_waits() -> None:
    """32.4: the normal mode begins after 11 recessive bits, so not on a dominant bus. A request for
    initialization is granted when the frame on the bus has ended."""
    model = Model()
    model.wait(10)
    assert model.get(4) == 0xC01
    model.wait(1)
    assert model.get(4) == 0xC00
    model.bus.offer(Frame(1, data=bytes(8)))
    model.wait(20)
    model.put(0, 0x10049)
    model.wait(60)
    assert model.get(4) == 0xC00
    model.wait(60)
    assert model.get(4) == 0xC01 and model.get(0xC) == 1  # the frame was received
    model.bus.be(Wire.STUCK)
    model.put(0, 0x10048)
    model.wait(10_000)
    assert model.get(4) == 0xC01
    model.bus.be(Wire.TOGETHER)
    model.wait(11)
    assert model.get(4) == 0xC00
    model.put(0, 0x1004A)
    model.wait(100)
    assert model.get(4) == 0xC02


def test_the_time_of_a_frame() -> None:
    """Bits by ISO 11898-1: 47 for an empty frame, 111 for 8 bytes, and stuff bits. With 29 bits 20
    more."""
    text = "".join(f"{byte:08b}" for byte in b"123456789")
    assert crc_15(text) == 0x059E  # the check value of CRC-15/CAN in catalogues
    assert Frame(0x555, data=b"\x55" * 8).bits() in range(111, 114)
    assert Frame(0x555).bits() in range(47, 51) and Frame(0x15555555, True).bits() in range(67, 72)
    assert Frame(0, data=bytes(8)).bits() == 127
    model = joined()
    model.load(0, 0x555)
    model.wait(Frame(0x555).bits() - 1)
    assert not model.sent
    model.wait(1)
    assert model.sent == [Frame(0x555)] and model.get(8) == 0x1C000003


def test_arbitration() -> None:
    """ISO 11898-1, 10.4.2.5: of frames that begin together the lowest identifier wins, a base frame
    before an extended one, data before a remote frame. The next frame of another node is already
    waiting when its last one ends."""
    mine, low, high = Frame(0x6C0, data=b"1"), Frame(0x683), Frame(0x6C1)
    same = [Frame(0x6C0 << 18 | 5, extended=True), Frame(0x6C0, remote=True)]
    for others, before in (([low] * 5, 5), ([high] * 5, 0), ([low, high, low], 1), (same, 0)):
        model = joined()
        for other in others:
            model.bus.offer(other)
        model.load(0, mine.number, mine.data)
        while not model.sent:
            model.wait(1)
        assert len(others) - len(model.bus.offered) == before
        assert model.get(8) & 0xF == 3
    assert sorted([*same, low, high], key=lambda each: each.priority) == [
        low, same[1], same[0], high]


def test_taken_back() -> None:
    """32.7.1: a frame on the bus goes on; the others are gone at once."""
    for kind, flags in ((Wire.TOGETHER, 0x103), (Wire.ALONE, 0x109)):
        model = joined()
        model.bus.kind = kind
        model.load(0, 1)
        model.load(1, 2)
        model.wait(20)
        model.put(8, 0x8080)
        assert model.get(8) & 0xFFFF == 0x0180
        model.wait(2000)
        assert len(model.sent) == (kind == Wire.TOGETHER) and model.get(8) & 0xFFFF == flags


def test_a_fifo() -> None:
    """32.7.3: three frames; RFLM keeps them. Until RFOM is 0 again, the next cannot be read."""
    model = joined()
    model.put(0x14, 0x0E)
    model.bring(*(Frame(number, data=bytes([number] * 5)) for number in range(1, 4)))
    assert model.get(0xC) == 0x0B and model.chip.interrupts() == {20}
    model.bring(Frame(4, data=b"\4\4\4\4\4"))
    assert model.get(0xC) == 0x1B
    model.put(0xC, 0x18)
    assert model.get(0xC) == 0x03
    for number in (1, 2, 3):
        assert [model.get(at) for at in (0x1B0, 0x1B4, 0x1B8, 0x1BC)] == [
            number << 21, 5, number * 0x01010101, number]
        model.put(0xC, 0x20)
        assert model.get(0xC) & 0x20
        for misuse in (lambda: model.get(0x1B0), lambda: model.put(0xC, 0x20)):
            with pytest.raises(Misuse):
                misuse()
        model.wait(8)
    assert model.get(0xC) == 0 and model.chip.interrupts() == set() and model.chip.losses == 1
    model.bring(Frame(5, remote=True, length=8))  # its data are those of the frame before it
    assert [model.get(at) for at in (0x1B4, 0x1B8, 0x1BC)] == [8, 0x03030303, 3]


def test_errors_and_bus_off() -> None:
    """32.7.6: warning at 96, passive at 128, bus-off above 255, then 128 times 11 bits. A node that
    is alone stays passive."""
    model = joined()
    model.put(0x14, 0x8700)
    model.bus.be(Wire.FAILING)
    model.load(0, 1)
    seen = set()
    while not model.get(0x18) & 4:
        seen.add((model.get(0x18) >> 16 & 255, model.get(0x18) & 3))
        model.wait(1)
    assert sorted(seen) == [(8 * count, (count > 11) + 2 * (count > 15)) for count in range(32)]
    assert model.chip.interrupts() == {22}
    model.put(4, 4)
    assert model.chip.interrupts() == set()
    model.put(8, 0x80)  # taken back
    model.bring(Frame(2))
    assert model.get(0xC) == 0
    model.wait(128 * 11 - 250)
    assert model.get(0x18) & 4
    model.wait(200)
    assert model.get(0x18) == 0
    model.bring(Frame(2))
    assert model.get(0xC) == 1
    model.bus.be(Wire.ALONE)
    model.load(0, 1)
    model.wait(10_000)
    assert model.get(0x18) & 0xFF00FF == 0x800033  # passive, and no acknowledgement


def test_silent_and_out_of_tune() -> None:
    """32.5.1: it sends nothing, and acknowledges nothing. 32.7.7: with another bit rate, it hears
    errors, and its error frames destroy what others send, unless it is silent."""
    model = joined(btr=0x811C0000)
    model.bus.be(Wire.ALONE)
    model.load(0, 1)
    model.put(0x18, 0x70)
    model.bus.offer(Frame(5))
    model.wait(16 * Frame(5).bits())
    assert model.get(0xC) == 0 and model.get(0x18) & 0x70 == 0x70 and not model.sent
    model.wait(Frame(5).bits())
    assert model.get(0xC) == 1 and not model.get(0x18) & 0x70
    for btr, destroyed in ((0x811C0001, 0), (0x011C0001, 1)):
        model = Model(btr=btr)
        model.wait(30)
        model.bus.offer(Frame(5))
        model.wait(Frame(5).bits() + 5)
        assert (model.bus.destroyed, model.get(0xC), model.get(0x18) >> 24) == (destroyed, 0, 1)
