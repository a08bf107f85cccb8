"""The README's firmware, taken from the page, compiled, and talked to.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import re
import subprocess
import zlib

from sim.machine import simavr_program
from sim.targets import BUILD, ROOT, run
from tests.model import REQUEST, heartbeat


def firmware_of_the_page() -> str:
    blocks = re.findall(r"^```c\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)
    (program,) = (block for block in blocks if "int main" in block)
    return program


def test_the_firmware_of_the_readme_works() -> None:
    place = BUILD / "readme"
    place.mkdir(parents=True, exist_ok=True)
    source, image = place / "agent.c", place / "agent.elf"
    source.write_text(firmware_of_the_page())
    run(["avr-gcc", "-mmcu=atmega328p", "-Os", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}",
         source, ROOT / "dumpulse.c", "-o", image])

    damaged = heartbeat(5, 6, 7)[:7] + b"\x08"
    sent = heartbeat(3, 76, 9) + damaged + heartbeat(63, 255, 128) + REQUEST
    done = subprocess.run([simavr_program("avr_uart"), "atmega328p", "16000000", image],
                          input=sent, capture_output=True, timeout=60, check=True)
    report = done.stdout
    assert len(report) == 260, done.stderr
    assert int.from_bytes(report[:4], "big") == zlib.adler32(report[4:])
    entries = [report[at:at + 4] for at in range(4, 260, 4)]
    assert entries[0][2:] == bytes((1, 0))
    assert entries[3][2:] == bytes((76, 9))
    assert entries[63][2:] == bytes((255, 128))
    assert all(entry == bytes(4) for number, entry in enumerate(entries) if number not in (0, 3, 63))
    # 8 bytes at 100 microseconds each: 12 or 13 counts of the clock between two packets.
    times = [int.from_bytes(entries[number][:2], "big") for number in (3, 63, 0)]
    assert times[0] < times[1] < times[2] < times[0] + 100
