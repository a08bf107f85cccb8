"""The firmware for an ATmega328P on a CAN bus, booted in simavr with a model of its controller.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import figures
from sim.model import REQUEST, Agent, checksummed, heartbeat
from sim.programs import built
from sim.targets import ROOT

BASE, EXTENDED_BASE = 0x680, 0x18FF5080
REPORT_AT, REQUEST_AT = 64, 127
IMAGE, EXTENDED_IMAGE = "build/firmware/can_avr.elf", "build/firmware/can_avr-29.elf"
HANGING_IMAGE = "build/firmware/hanging/can_avr.elf"


def test_the_model_of_the_controller() -> None:
    done = subprocess.run([built("build/mcp2515")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[  PASSED  ] 16 test" in done.stdout + done.stderr


def frame(number: int, data: bytes, digits: int = 3) -> str:
    return f"{number:0{digits}X}#{data.hex().upper()}"


ASK = frame(BASE + REQUEST_AT, REQUEST)
OVERFLOWS = 0xC0  # of EFLG
ENOUGH = "wait 20000"  # microseconds in which a report leaves


def measured(image: str) -> dict[str, int]:
    """By `make firmware-size`."""
    return {column: int(figure) for (command, row, column), figure in figures.parse(figures.FILE.read_text()).items()
            if (command, row) == ("firmware-size", Path(image).stem)}


def beat(variable: int, sender: int, value: int) -> str:
    return frame(BASE + variable % 64, heartbeat(variable, sender, value))


def play(script: Sequence[str], image: str = IMAGE, boots: int = 1) -> list[tuple[str, str]]:
    """The frames that the firmware sends on a bus where that happens."""
    done = subprocess.run([built("build/avr_can"), built(image)], input="\n".join(script) + "\n",
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    words = last.split()
    counted = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert counted["boots"] == boots and counted["stack"] <= measured(image)["bound"]
    assert counted["errors"] & OVERFLOWS == 0  # the controller was told that they were seen
    return [(number, data) for number, _, data in (line.partition("#") for line in lines)]


def reports(script: Sequence[str], image: str = IMAGE, base: int = BASE, digits: int = 3,
            boots: int = 1) -> list[list[bytes]]:
    """The entries of every report; and it sends nothing else."""
    return tables_of(play(script, image, boots), base, digits)


def tables_of(frames: Sequence[tuple[str, str]], base: int = BASE, digits: int = 3) -> list[list[bytes]]:
    found = []
    while frames:
        one, frames = frames[:33], frames[33:]
        assert [number for number, _ in one] == [f"{base + REPORT_AT + at:0{digits}X}" for at in range(33)]
        packet = bytes.fromhex("".join(data for _, data in one))
        assert len(packet) == 260 and packet == checksummed(packet[4:])
        found.append([packet[at:at + 4] for at in range(4, 260, 4)])
    return found


def test_it_boots_takes_heartbeats_and_answers() -> None:
    (table,) = reports([beat(3, 76, 9), "wait 2100000", beat(63, 255, 128), "wait 20000", ASK])
    assert table[3] == bytes((0, 0, 76, 9))
    assert table[63] == bytes((0, 2, 255, 128))
    assert table[0] == bytes((0, 2, 1, 0))  # its own: the time now, and never off the bus
    assert table.count(bytes(4)) == 61


def test_identifiers_of_29_bits() -> None:
    other = frame(EXTENDED_BASE + 3, heartbeat(3, 1, 1), 8)
    script = [frame(EXTENDED_BASE + 9, heartbeat(9, 76, 9), 8), beat(4, 1, 1), "gap 20000",
              frame(EXTENDED_BASE - 1, heartbeat(5, 1, 1), 8), other.replace("18FF", "17FF"),
              f"{EXTENDED_BASE + 3:08X}#R8", frame(EXTENDED_BASE + REQUEST_AT, REQUEST, 8)]
    (table,) = reports(script, EXTENDED_IMAGE, EXTENDED_BASE, 8)
    assert table[9][2:] == b"\x4c\x09" and table.count(bytes(4)) == 62


def test_what_it_refuses() -> None:
    """Damaged and short packets, remote frames, and other traffic, which its filters keep away."""
    good = heartbeat(3, 76, 9)
    refused = [frame(BASE, heartbeat(3, 76, 0)[:-1]),  # a zero more, and it would be good
               frame(BASE, good[:-1]), frame(BASE, b""), frame(BASE, good[:-1] + b"\x08"),
               frame(BASE, heartbeat(64, 1, 1)), frame(BASE, heartbeat(3, 1, 1, magic=0xF0)),
               f"{BASE:03X}#R8", f"{BASE + REQUEST_AT:03X}#R8", frame(BASE + REQUEST_AT, REQUEST[:7]),
               frame(BASE + REQUEST_AT, b"AreyouOk"), frame(BASE - 1, good), frame(BASE + 64, good),
               frame(BASE + 126, REQUEST), frame(0x7FF, good), frame(0, good), frame(BASE, good, 8),
               frame(BASE << 18, good, 8)]
    (table,) = reports(["gap 20000", *refused, ASK])
    assert table[1:] == [bytes(4)] * 63


def test_two_frames_without_a_gap() -> None:
    """Faster than any interrupt: the controller's second buffer takes the second one."""
    (table,) = reports(["gap 0", beat(1, 2, 3), beat(4, 5, 6), "wait 20000", ASK])
    assert (table[1][2:], table[4][2:]) == (b"\x02\x03", b"\x05\x06")


def test_who_asks_meanwhile_gets_the_next_report() -> None:
    tables = reports([ASK, "wait 2000", beat(7, 8, 9), ASK, "wait 2000", ASK, ENOUGH, ENOUGH, ASK])
    assert [table[7][2:] for table in tables] == [bytes(2), b"\x08\x09", b"\x08\x09"]


def test_alone_on_the_bus() -> None:
    """Nobody acknowledges: the report is given up, heartbeats are taken later as ever."""
    script = ["alone", ASK, "wait 4000000", "together", beat(7, 8, 9), "wait 20000", ASK]
    (table,) = reports(script)
    assert table[7][2:] == b"\x08\x09" and table[0][3] == 0


def test_bus_off_and_back() -> None:
    """It says how often: as the value of its own variable."""
    script = [beat(1, 2, 3), "wait 20000"]
    for _ in range(2):
        script += ["fail", ASK, "wait 3000000", "idle", "wait 20000", "together", ENOUGH]
    tables = reports([*script, "wait 3000000", beat(7, 8, 9), "wait 20000", ASK])
    assert tables[-1][0][3] == 2
    assert (tables[-1][1][2:], tables[-1][7][2:]) == (b"\x02\x03", b"\x08\x09")


def test_bus_off_is_counted_up_to_255() -> None:
    """Of 450 times that it is back and somebody asks; one in three is in a second in which a report was given up."""
    tables = reports(["fail", *[ASK, "wait 20000", "idle"] * 450, "together", "wait 3000000", ASK])
    assert tables[-1][0][3] == 255


def test_a_controller_that_has_lost_its_settings() -> None:
    script = [beat(1, 2, 3), "wait 20000", "reset", beat(4, 5, 6), "wait 2100000", beat(7, 8, 9),
              "wait 20000", ASK]
    (table,) = reports(script)
    assert [table[at][2:] for at in (1, 4, 7)] == [b"\x02\x03", bytes(2), b"\x08\x09"]


SETTINGS = [  # register, and what it is set to
    *((at, 0xD0) for at in (0x00, 0x04)), (0x08, 0xDF), (0x10, 0xDF), (0x14, 0xDF), (0x18, 0xDF),
    *((at, 0xE0) for at in (0x09, 0x11, 0x15, 0x19, 0x25)), (0x20, 0xF8), (0x21, 0x00), (0x24, 0xFF),
    (0x28, 0x01), (0x29, 0xB5), (0x2A, 0x00), (0x2B, 0x27), (0x60, 0x06), (0x70, 0x00)]


def test_all_settings_are_taken_at_the_start() -> None:
    """Though the controller is in reset for 8 us when its firmware begins to talk to it."""
    shown = play([f"show {at:X}" for at, _ in SETTINGS])
    assert shown == [(f"{at:02X}", f"{value:02X}") for at, value in SETTINGS]


@pytest.mark.parametrize(("at", "value"), [
    (0x28, 0x41), (0x29, 0x00), (0x2A, 0x3F), (0x2B, 0x00), (0x60, 0x00), (0x60, 0x66), (0x70, 0x60)])
def test_a_disturbed_setting_is_set_again(at: int, value: int) -> None:
    """Those that can be read at any time: within a second. The table stays."""
    *shown, = play([beat(1, 2, 3), f"set {at:X} {value:X}", "wait 1100000", f"show {at:X}", ASK])
    assert shown.pop(0) == (f"{at:02X}", f"{dict(SETTINGS)[at]:02X}")
    (table,) = tables_of(shown)
    assert table[1][2:] == b"\x02\x03"


@pytest.mark.parametrize(("image", "base", "digits"), [(IMAGE, BASE, 3), (EXTENDED_IMAGE, EXTENDED_BASE, 8)])
def test_a_disturbed_mask_lets_nothing_in(image: str, base: int, digits: int) -> None:
    """It cannot be read while on the bus. The identifiers of what passes show it, and none is taken for a
    heartbeat; a second later other traffic is kept away again."""
    good = heartbeat(3, 76, 9)
    foreign = [frame(number % (1 << 11 if digits == 3 else 1 << 29), good, digits)
               for number in (base + 64, base + 126, base - 1, base + 128, base ^ 0x400, base ^ 0x700)]
    foreign += [frame(base >> 18, good) if digits == 8 else frame(base << 18, good, 8)]
    for mask in (0x20, 0x24):
        ask, four = frame(base + REQUEST_AT, REQUEST, digits), range(mask, mask + 4)
        broken = [*(f"set {at:X} 0" for at in four), "gap 20000", *foreign, frame(base, heartbeat(4, 5, 6), digits)]
        if mask == 0x24:  # and the filter of the other kind of frames: they come by buffer 1
            broken = ["set 8 0", "set 9 0" if digits == 3 else "set 9 8", "set A 0", "set B 0", *broken]
        shown = play([*broken, "wait 1100000", f"show {mask:X}", ask], image)
        assert shown.pop(0)[1] == ("F8" if digits == 3 and mask == 0x20 else "FF")
        (table,) = tables_of(shown, base, digits)
        assert (table[3][2:], table[4][2:]) == (bytes(2), b"\5\6")


def test_disturbed_filters_that_let_nothing_through() -> None:
    """Which cannot be seen: so all is set again after a minute."""
    script = ["set 0 0", "set 4 0", beat(1, 2, 3), "wait 58000000", beat(4, 5, 6), "wait 3000000", beat(7, 8, 9),
              "wait 20000", ASK]
    (table,) = reports(script)
    assert [table[at][2:] for at in (1, 4, 7)] == [bytes(2), bytes(2), b"\x08\x09"]


def test_what_the_minute_costs() -> None:
    """On a bus that is always busy: two frames at most, as each comes in an instant here; three where that
    takes time."""
    flood = [beat(variable, 76, 1) for variable in range(1, 63)]  # 15 ms, and in these the 60 s are over
    script = ["set 4 0", "wait 59972000", *flood, "show 4", "wait 20000", ASK]
    shown = play(script)
    assert shown.pop(0) == ("04", "D0")
    (table,) = tables_of(shown)
    assert table[1:63].count(bytes(4)) <= 2


def test_a_bus_that_does_not_rest() -> None:
    """The controller cannot go to it: it is started again each second, and is there once it can."""
    script = [beat(1, 2, 3), "stuck", "reset", "wait 3300000", beat(4, 5, 6), "together", "wait 1100000",
              beat(7, 8, 9), "wait 20000", ASK]
    (table,) = reports(script)
    assert [table[at][2:] for at in (1, 4, 7)] == [b"\x02\x03", bytes(2), b"\x08\x09"]


def test_a_report_that_is_given_up_is_not_mixed_with_the_next() -> None:
    """Its frame may still be on the bus when the next report begins: that one waits for a second, however long
    a frame takes."""
    (table,) = reports(["frame 1000", "alone", ASK, "wait 1000000", beat(7, 8, 9), ASK, "wait 1400000", "together",
                        "wait 2000000"])
    assert table[7][2:] == b"\x08\x09"


def test_power_is_lost_again_while_settings_are_set() -> None:
    """At any time from before the second's end, when they are set again, to after that: 0.3 ms."""
    restarted = set()
    for microseconds in range(979_800, 981_000, 30):
        before, *shown = play(["reset", f"wait {microseconds}", "show 28", "reset", "wait 2100000",
                               *(f"show {at:X}" for at, _ in SETTINGS)])
        restarted.add(before[1])
        assert shown == [(f"{at:02X}", f"{value:02X}") for at, value in SETTINGS]
    assert restarted == {"00", "01"}  # they were not set yet, and were


def test_settings_are_lost_while_a_report_leaves() -> None:
    """The next one does not wait until that one is given up, after 2 s: it begins before a heartbeat
    that comes 1.1 s later."""
    sent = play([ASK, "wait 2000", "reset", "wait 1100000", ASK, ENOUGH, beat(7, 8, 9), "wait 2000000"])
    broken_off, (table,) = sent[:-33], tables_of(sent[-33:])
    assert 0 < len(broken_off) < 33
    assert table[7] == bytes(4)


def test_more_than_the_queue_holds() -> None:
    """Frames closer together than the loop gets its turn, as no bus can bring them: what does not fit
    stays in the controller, and is lost there; not what is in the queue. Then all is as before."""
    flood = [beat(variable, 76, variable) for variable in range(1, 61)]
    (table,) = reports(["gap 52", *flood, "wait 20000", beat(62, 5, 6), "wait 20000", ASK])
    heard = [entry[2:] == bytes((76, variable)) for variable, entry in enumerate(table)][1:61]
    assert all(heard[:16]) and not all(heard)
    assert table[62][2:] == b"\x05\x06" and table[0][3] == 0


def test_the_watchdog_bites_a_loop_that_hangs() -> None:
    """While it hangs, interrupts go on. What comes is forgotten; then it starts over."""
    hang = frame(BASE, b"HangHere")
    script = ["gap 20000", beat(3, 76, 9), ASK, ENOUGH, hang, beat(4, 5, 6), "wait 3000000", beat(7, 8, 9), ASK]
    before, after = reports(script, HANGING_IMAGE, boots=2)
    assert before[3][2:] == b"\x4c\x09"
    assert [after[at][2:] for at in (3, 4, 7)] == [bytes(2), bytes(2), b"\x08\x09"]


def test_soak() -> None:
    """100,000 frames, 25 s of a bus without a pause: a tenth requests, a fifth damaged heartbeats.
    Nothing is lost, and the watchdog never bites."""
    seed = time.time_ns()
    print(f"replay: random.Random({seed})")
    chance = random.Random(seed)
    model = Agent()
    model.record(0, 0, 1, 0)
    script = [beat(62, 5, 6)]
    model.process(0, heartbeat(62, 5, 6))
    for _ in range(100_000):
        what = chance.randrange(10)
        packet = heartbeat(chance.randrange(1, 62), chance.randrange(256), chance.randrange(256))
        if what == 0:
            script.append(ASK)
            continue
        if what < 3:
            packet = packet[:7] if what == 1 else packet[:6] + bytes([packet[6] ^ 1]) + packet[7:]
        model.process(0, packet)
        script.append(frame(BASE + chance.randrange(64), packet))
    tables = reports([*script, ENOUGH, ENOUGH, ASK])
    assert len(tables) > 1000
    assert all(table[62] == b"\0\0\5\6" for table in tables)
    assert [entry[2:] for entry in tables[-1]] == [entry[2:] for entry in model.entries]


def test_the_page_has_its_size() -> None:
    page = (ROOT / "firmware" / "can_avr.md").read_text()
    rows = re.findall(r"\| flash, RAM, stack(?:; of 29 bits)? \| ([\d,]+), (\d+), (\d+) bytes \|", page)
    said = [[int(number.replace(",", "")) for number in row] for row in rows]
    assert said == [[measured(image)[column] for column in ("flash", "ram", "bound")] for image in (IMAGE, EXTENDED_IMAGE)]
    assert f"{measured(IMAGE)['heartbeat']:,} cycles" in page
