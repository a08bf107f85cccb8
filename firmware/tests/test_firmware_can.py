"""The firmware for a CAN bus, in simavr with a model of its controller, the MCP2515; and what an
STM32 has to do, too."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from firmware.costs import images
from firmware.simulators.boards import BOARDS, REPORT_AT, REQUEST_AT, Board, Bus, frame
from spec.model import REQUEST, checksummed, heartbeat
from tools.programs import INCLUDES, ROOT, run

CAN = BOARDS["can_avr"]
CAN_29 = dataclasses.replace(CAN, can_id=0x18FF5000)  # identifiers of 29 bits
BASE = CAN.can_id
STM32 = [BOARDS["can_stm32-f1"], BOARDS["can_stm32-f4"]]


ASK = frame(BASE + REQUEST_AT, REQUEST)
OVERFLOWS = 0xC0  # bits of EFLG
ENOUGH = "wait 20000"  # microseconds: a report takes less


@functools.cache
def most_stack(board: Board) -> int:
    """The bound of `make figures ONLY=firmware-size`, by the compiler that is here."""
    return images.sizes(board)["bound"]


def beat(variable: int, sender: int, value: int) -> str:
    return frame(BASE + variable % 64, heartbeat(variable, sender, value))


def play(script: Sequence[str], board: Board = CAN, image: Path | None = None,
         boots: int = 1, silent: bool = False) -> list[tuple[str, str]]:
    """The frames that the firmware sends when this happens on the bus. It destroys no others."""
    with Bus(board, script, image, silent) as bus:
        counts = bus.end()
        assert counts["boots"] == boots and counts["stack"] <= most_stack(board)
        assert counts["destroyed"] == 0
        assert counts["errors"] & OVERFLOWS == 0  # the firmware has told the controller: seen
        lines = [line.partition("#") for line in bus.frames()]
        return [(number, data) for number, _, data in lines]


def reports(script: Sequence[str], board: Board = CAN, image: Path | None = None,
            boots: int = 1) -> list[list[bytes]]:
    """The entries of every report. The firmware sends nothing else."""
    return tables_of(play(script, board, image, boots), board)


def compiled(board: Board, folder: Path, *options: str) -> Path:
    """Its image with these options."""
    compiler = ["avr-gcc", *board.options] if board.mcu else [
        "arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m4", "-ffreestanding", "-nostdlib",
        "-T", ROOT / "firmware/cortex_m.ld", "-Wl,--defsym=flash_begin=0x08000000", *board.options]
    source = ROOT / "firmware" / f"{board.name.partition('-')[0]}.c"
    run([*compiler, "-std=c11", "-Os", *INCLUDES, f"-I{ROOT / 'firmware'}", *options, source,
         ROOT / "dumpulse.c", "-lgcc", "-o", folder / "image.elf"])
    return folder / "image.elf"


def digits_of(board: Board) -> int:
    """The digits that candump shows of its identifiers: 3 for 11 bits, 8 for 29 bits."""
    return 3 if board.can_id < 1 << 11 else 8


def tables_of(frames: Sequence[tuple[str, str]], board: Board = CAN) -> list[list[bytes]]:
    tables = []
    numbers = [f"{board.can_id + REPORT_AT + at:0{digits_of(board)}X}" for at in range(33)]
    while frames:
        report, frames = frames[:33], frames[33:]
        assert [number for number, _ in report] == numbers
        packet = bytes.fromhex("".join(data for _, data in report))
        assert len(packet) == 260 and packet == checksummed(packet[4:])
        tables.append([packet[at:at + 4] for at in range(4, 260, 4)])
    return tables


@pytest.mark.parametrize("board", [CAN, *STM32], ids=lambda board: board.name)
def test_it_boots_takes_heartbeats_and_answers(board: Board) -> None:
    (table,) = reports([beat(3, 76, 9), "wait 2100000", beat(63, 255, 128), "wait 20000", ASK],
                       board)
    assert table[3] == bytes((0, 0, 76, 9))
    assert table[63] == bytes((0, 2, 255, 128))
    assert table[0] == bytes((0, 2, 1, 0))  # the agent's own: 2 s, never off the bus
    assert table.count(bytes(4)) == 61


def test_identifiers_of_29_bits(tmp_path: Path) -> None:
    base = CAN_29.can_id
    image = compiled(CAN_29, tmp_path, f"-DCAN_BASE={base:#x}", "-DCAN_EXTENDED=1")
    other = frame(base + 3, heartbeat(3, 1, 1), 8)
    script = [frame(base + 9, heartbeat(9, 76, 9), 8), beat(4, 1, 1), "gap 20000",
              frame(base - 1, heartbeat(5, 1, 1), 8), other.replace("18FF", "17FF"),
              f"{base + 3:08X}#R8", frame(base + REQUEST_AT, REQUEST, 8)]
    (table,) = reports(script, CAN_29, image)
    assert table[9][2:] == b"\x4c\x09" and table[1:63].count(bytes(4)) == 61


@pytest.mark.parametrize(("board", "reports_from"), [
    (CAN, 0x700), (CAN_29, 0x18FF6000), (STM32[1], 0x700),
    (dataclasses.replace(STM32[1], can_id=0x18FF5000), 0x18FF6000)])
def test_a_second_agent_that_hears_the_same_nodes(board: Board, reports_from: int,
                                                  tmp_path: Path) -> None:
    """Reports and requests of the first agent are foreign to it, and so are heartbeats from its
    own base for reports."""
    first, second, digits = board.can_id, reports_from, digits_of(board)
    image = compiled(board, tmp_path, f"-DCAN_BASE={first:#x}", f"-DCAN_REPORTS={second:#x}",
                     f"-DCAN_EXTENDED={int(digits == 8)}")
    other = heartbeat(9, 1, 1)
    sent = play([frame(first + 3, heartbeat(3, 76, 9), digits), frame(second + 3, other, digits),
                 frame(first + REPORT_AT, other, digits), frame(first + 191, other, digits),
                 frame(first >> 18, other) if digits == 8 else frame(first << 18, other, 8), ENOUGH,
                 frame(first + REQUEST_AT, REQUEST, digits), ENOUGH,
                 frame(second + REQUEST_AT, REQUEST, digits)], board, image)
    (table,) = tables_of(sent, dataclasses.replace(board, can_id=second))
    assert table[3][2:] == b"\x4c\x09" and table[1:63].count(bytes(4)) == 61


MODE_IS = "show E"  # CANSTAT: 00 is the normal mode, 60 listen-only
LISTENS, TAKES_PART = ("0E", "60"), ("0E", "00")


@pytest.mark.parametrize("mhz", [4, 20, 32])
def test_a_wrong_crystal_destroys_no_frames(mhz: int) -> None:
    """Whatever comes is an error. The agent never joins the bus, and starts no report."""
    script = [f"crystal {mhz}", *[beat(at % 64, 1, 2) for at in range(500)], ASK, MODE_IS,
              "wait 3000000", ASK, "wait 3000000", MODE_IS]
    assert play(script, silent=True) == [LISTENS, LISTENS]


def test_it_finds_out_which_crystal_it_has(tmp_path: Path) -> None:
    """One error after the other is heard. The error of a second changes the settings, also if it
    comes by chance. Then the first good frame lets it join. A fixed crystal changes nothing."""
    def opening(mhz: int) -> list[str]:
        return [f"crystal {mhz}", beat(7, 1, 2), "wait 1000000", MODE_IS, beat(9, 5, 6)]
    end = [ENOUGH, ASK, "wait 3000000", MODE_IS]
    listens, *answer, mode = play([*opening(8), *end], silent=True)
    assert (listens, mode) == (LISTENS, TAKES_PART)
    (table,) = tables_of(answer)
    assert table[9] == b"\0\1\5\6" and table[7] == bytes(4)
    for mhz, first in ((16, "crystal 4"), (8, "crystal 8")):
        sent = play([first, beat(7, 1, 2), f"crystal {mhz}", *opening(mhz)[1:], "wait 1000000",
                     beat(8, 5, 6), ASK, "wait 1000000", MODE_IS], silent=True)
        assert sent[-1] == TAKES_PART and len(tables_of(sent[1:-1])) == 1
    fixed = compiled(CAN, tmp_path, "-DCAN_CRYSTAL=16")
    assert play([*opening(8), *end], image=fixed, silent=True) == [LISTENS, LISTENS]


def test_the_first_good_frame_lets_it_join() -> None:
    """It listens until then, for a minute and more. It takes that frame, and the report to a first
    request leaves at once. Frames of others do the same, and it does not start the controller
    again because of them: the report that leaves while a second ends is whole."""
    first = beat(9, 5, 6)
    for opening in (ASK,), ("7FF#", "7FE#", ASK), (first, ASK):
        silence, *answer, mode = play(["until 63995000", MODE_IS, *opening, "wait 1000000",
                                       MODE_IS], silent=True)
        assert (silence, mode) == (LISTENS, TAKES_PART)
        (table,) = tables_of(answer)
        assert table[9] == (b"\0\x3f\5\6" if first in opening else bytes(4))


def test_only_one_other_node_is_there() -> None:
    """Nobody acknowledges its request, so it sends it again. After 16 times it is passive, and then
    the agent takes the request, and acknowledges the next one. It answers both."""
    *answer, mode = play(["pair", ASK, "wait 50000", MODE_IS], silent=True)
    assert len(tables_of(answer)) == 2 and mode == TAKES_PART


@pytest.mark.parametrize("board", [CAN, STM32[1]], ids=lambda board: board.name)
def test_what_it_refuses(board: Board) -> None:
    """Damaged and short packets, remote frames, and foreign frames, which its filters stop."""
    good = heartbeat(3, 76, 9)
    refused = [frame(BASE, heartbeat(3, 76, 0)[:-1]),  # one zero more makes it valid
               frame(BASE, good[:-1]), frame(BASE, b""), frame(BASE, good[:-1] + b"\x08"),
               frame(BASE, heartbeat(64, 1, 1)), frame(BASE, heartbeat(3, 1, 1, magic=0xF0)),
               f"{BASE:03X}#R8", f"{BASE + REQUEST_AT:03X}#R8",
               frame(BASE + REQUEST_AT, REQUEST[:7]),
               frame(BASE + REQUEST_AT, b"AreyouOk"), frame(BASE - 1, good), frame(BASE + 64, good),
               frame(BASE + 126, REQUEST), frame(0x7FF, good), frame(0, good), frame(BASE, good, 8),
               frame(BASE << 18, good, 8)]
    (table,) = reports(["gap 20000", *refused, ASK], board)
    assert table[1:63] == [bytes(4)] * 62


@pytest.mark.parametrize("board", [CAN, STM32[1]], ids=lambda board: board.name)
def test_the_content_decides_what_a_packet_is(board: Board) -> None:
    (table,) = reports([frame(BASE + REQUEST_AT, heartbeat(9, 76, 5)), "wait 20000",
                        frame(BASE + 5, REQUEST)], board)
    assert table[9][2:] == b"\x4c\x05"


def test_a_request_while_a_report_leaves_gets_the_next_report() -> None:
    tables = reports([ASK, "wait 2000", beat(7, 8, 9), ASK, "wait 2000", ASK, ENOUGH, ENOUGH, ASK])
    assert [table[7][2:] for table in tables] == [bytes(2), b"\x08\x09", b"\x08\x09"]


@pytest.mark.parametrize("board", [CAN, STM32[1]], ids=lambda board: board.name)
def test_alone_on_the_bus(board: Board) -> None:
    """Nobody acknowledges, so the firmware gives the report up. Later it takes heartbeats again."""
    script = ["alone", ASK, "wait 4000000", "together", beat(7, 8, 9), "wait 20000", ASK]
    (table,) = reports(script, board)
    assert table[7][2:] == b"\x08\x09" and table[0][3] == 0


def test_a_flood_that_wins_each_arbitration() -> None:
    """It lasts 2.4 s, longer than the agent tries to send a report. The report begins again, from
    the table of that time, and leaves after the flood. It wins against higher identifiers."""
    sent = play([beat(7, 8, 9), ENOUGH, ASK, f"flood 9600 {beat(3, 76, 9)}", "wait 3000000"])
    begun, (table,) = sent[:-33], tables_of(sent[-33:])
    assert len(begun) <= 2
    assert [table[at][2:] for at in (3, 7)] == [b"\x4c\x09", b"\x08\x09"]
    assert len(play([ASK, "flood 60 7FF#00"])) == 33


def test_bus_off_and_back() -> None:
    """The value of the agent's own variable counts how often the controller was off the bus."""
    script = [beat(1, 2, 3), "wait 20000"]
    for _ in range(2):
        script += ["fail", ASK, "wait 3000000", "idle", "wait 20000", "together", ENOUGH]
    tables = reports([*script, "wait 3000000", beat(7, 8, 9), "wait 20000", ASK])
    assert tables[-1][0][3] == 2
    assert (tables[-1][1][2:], tables[-1][7][2:]) == (b"\x02\x03", b"\x08\x09")


def test_an_agent_that_is_passive_sleeps() -> None:
    """The cause of ERRIF lasts then. It does not hold INT low, so the agent sleeps between frames,
    except while it sends."""
    with Bus(CAN, ["alone", ASK, "wait 10000000", "show 2D", "show 2C"]) as bus:
        counts = bus.end()
        assert bus.frames() == ["2D#15", "2C#A0"]
    assert counts["asleep"] > 0.75 * counts["cycles"]


def test_bus_off_is_counted_up_to_255() -> None:
    """450 times, somebody asks, every frame fails, and the controller comes back. One in
    three does not count: nothing is sent for a second after a report was given up."""
    tables = reports(["fail", *[ASK, "wait 20000", "idle"] * 450, "together", "wait 3000000", ASK])
    assert tables[-1][0][3] == 255


SETTINGS = [  # registers, and their right values
    *((at, 0xD0) for at in (0x00, 0x04)), (0x08, 0xDF), (0x10, 0xDF), (0x14, 0xDF), (0x18, 0xDF),
    *((at, 0xE0) for at in (0x09, 0x11, 0x15, 0x19, 0x25)),
    (0x20, 0xF8), (0x21, 0x00), (0x24, 0xFF),
    (0x28, 0x01), (0x29, 0xB5), (0x2A, 0x00), (0x2B, 0x27), (0x60, 0x06), (0x70, 0x00)]


def test_all_settings_are_taken_at_the_start() -> None:
    """The controller is in reset for the first 8 us and hears nothing."""
    shown = play([f"show {at:X}" for at, _ in SETTINGS])
    assert shown == [(f"{at:02X}", f"{value:02X}") for at, value in SETTINGS]


@pytest.mark.parametrize(("at", "value"), [
    (0x28, 0x41), (0x29, 0x00), (0x2A, 0x3F), (0x2B, 0x00),
    (0x60, 0x00), (0x60, 0x66), (0x70, 0x60)])
def test_a_disturbed_setting_is_set_again(at: int, value: int) -> None:
    """These settings can be read at any time, so a wrong one lasts a second. The table stays."""
    shown = play([beat(1, 2, 3), f"set {at:X} {value:X}", "wait 1100000", f"show {at:X}", ASK])
    assert shown.pop(0) == (f"{at:02X}", f"{dict(SETTINGS)[at]:02X}")
    (table,) = tables_of(shown)
    assert table[1][2:] == b"\x02\x03"


def test_a_disturbed_mask_lets_nothing_in() -> None:
    """A mask cannot be read while the controller is on the bus. A frame with a foreign identifier
    shows that the mask is wrong. The firmware takes no such frame for a heartbeat, and a second
    later the mask stops foreign frames again. It does not look so closely in its first second."""
    good = heartbeat(3, 76, 9)
    foreign = [frame(number, good) for number in (BASE + 64, BASE + 126, BASE - 1, BASE + 128,
                                                  BASE ^ 0x400, BASE ^ 0x700)]
    foreign += [frame(BASE << 18, good, 8)]
    for mask in (0x20, 0x24):
        broken = ["wait 1000000", *(f"set {at:X} 0" for at in range(mask, mask + 4)), "gap 20000",
                  *foreign, frame(BASE, heartbeat(4, 5, 6))]
        if mask == 0x24:  # these frames also come to buffer 1, for which a filter has to change
            broken = ["set 8 0", "set 9 0", "set A 0", "set B 0", *broken]
        shown = play([*broken, "wait 1100000", f"show {mask:X}", ASK])
        assert shown.pop(0)[1] == ("F8" if mask == 0x20 else "FF")
        (table,) = tables_of(shown)
        assert (table[3][2:], table[4][2:]) == (bytes(2), b"\5\6")


def test_disturbed_filters_that_let_nothing_through() -> None:
    """Nothing shows that they are wrong. So the firmware sets all settings again each minute."""
    script = ["set 0 0", "set 4 0", beat(1, 2, 3), "wait 58000000", beat(4, 5, 6), "wait 3000000",
              beat(7, 8, 9), "wait 20000", ASK]
    (table,) = reports(script)
    assert [table[at][2:] for at in (1, 4, 7)] == [bytes(2), bytes(2), b"\x08\x09"]


def test_how_many_frames_are_lost_each_minute() -> None:
    """Two at most on a bus that is always busy. Here a frame comes in an instant. On a real bus it
    takes time, and three can be lost."""
    flood = [beat(variable, 76, 1) for variable in range(1, 63)]  # 15 ms; the 60 s end meanwhile
    script = ["set 4 0", "wait 59972000", *flood, "show 4", "wait 20000", ASK]
    shown = play(script)
    assert shown.pop(0) == ("04", "D0")
    (table,) = tables_of(shown)
    assert table[1:63].count(bytes(4)) <= 2


def test_a_bus_that_does_not_rest() -> None:
    """The controller cannot join it. The firmware starts the controller again each second."""
    script = [beat(1, 2, 3), "stuck", "reset", "wait 3300000", beat(4, 5, 6), "together",
              "wait 1100000", beat(7, 8, 9), "wait 20000", ASK]
    (table,) = reports(script)
    assert [table[at][2:] for at in (1, 4, 7)] == [b"\x02\x03", bytes(2), b"\x08\x09"]


def test_a_report_that_is_given_up_is_not_mixed_with_the_next() -> None:
    """Its frame may still be on the bus. So the next report waits for a second, even if a frame
    takes long, and whatever part of it is on the bus then."""
    for later in (0, 300, 600):
        (table,) = reports(["frame 1000", f"wait {later}", "alone", ASK, "wait 1000000",
                            beat(7, 8, 9), ASK, "wait 1400000", "together", "wait 2000000"])
        assert table[7][2:] == b"\x08\x09"


def test_power_is_lost_again_while_settings_are_set() -> None:
    """The firmware sets them at the end of a second, which takes 0.3 ms. The controller loses its
    power at every 30 us of the time from before that to after it."""
    settings_were_set = set()
    for microseconds in range(979_800, 981_000, 30):
        before, *shown = play(["reset", f"wait {microseconds}", "show 28", "reset", "wait 2100000",
                               *(f"show {at:X}" for at, _ in SETTINGS)])
        settings_were_set.add(before[1])
        assert shown == [(f"{at:02X}", f"{value:02X}") for at, value in SETTINGS]
    assert settings_were_set == {"00", "01"}  # power was lost before that, and after it


def test_settings_are_lost_while_a_report_leaves() -> None:
    """The firmware would give that report up after 2 s. The next report does not wait for this: it
    leaves within 1.1 s, before the heartbeat that comes then."""
    sent = play([ASK, "wait 2000", "reset", "wait 1100000", ASK, ENOUGH, beat(7, 8, 9),
                 "wait 2000000"])
    broken_off, (table,) = sent[:-33], tables_of(sent[-33:])
    assert 0 < len(broken_off) < 33
    assert table[7] == bytes(4)


def test_more_than_the_queue_holds() -> None:
    """Frames come faster than the loop can take them; no real bus is so fast. A frame that the
    queue has no room for stays in the controller, where the next one is lost. The queue loses
    nothing, and afterwards all works as before."""
    flood = [beat(variable, 76, variable) for variable in range(1, 61)]
    (table,) = reports(["gap 52", *flood, "wait 20000", beat(62, 5, 6), "wait 20000", ASK])
    taken = [entry[2:] == bytes((76, variable)) for variable, entry in enumerate(table)][1:61]
    assert all(taken[:16]) and not all(taken)
    assert table[62][2:] == b"\x05\x06" and table[0][3] == 0


@pytest.mark.parametrize(("crystal", "kbits", "sampled"), [
    (16, 500, 14 / 16), (16, 250, 14 / 16), (16, 125, 14 / 16), (8, 500, 6 / 8), (8, 250, 14 / 16),
    (8, 125, 14 / 16)])
def test_bit_timing(crystal: int, kbits: int, sampled: float, tmp_path: Path) -> None:
    """By sections 5.3 and 5.5 of the controller's data sheet."""
    image = compiled(CAN, tmp_path, f"-DCAN_CRYSTAL={crystal}", f"-DCAN_KBITS={kbits}")
    with image.open("rb") as file:
        elf = ELFFile(file)
        [symbol] = elf.get_section_by_name(".symtab").get_symbol_by_name("settings")
        section = elf.get_section(symbol["st_shndx"])
        end = symbol["st_value"] - section["sh_addr"] + symbol["st_size"]
        cnf3, cnf2, cnf1, _ = section.data()[end - 8:end - 4]
    before = 1 + (cnf2 & 7) + 1 + (cnf2 >> 3 & 7) + 1  # sync, propagation and phase 1
    after = (cnf3 & 7) + 1
    assert cnf2 & 0xC0 == 0x80 and 2 <= after <= before - 1  # phase 2 has its own length
    assert crystal * 1000 / (2 * (cnf1 & 63) + 2) / (before + after) == kbits
    assert before / (before + after) == sampled
