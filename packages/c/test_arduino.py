"""The library for the Arduino IDE: its zip file, unpacked elsewhere, and every example in it.

arduino-builder compiles the examples, and simavr runs them on an Uno."""

import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS, Line
from firmware.tests.test_serial_firmware import straddled
from packages import project
from packages.c import make
from spec import keyed
from spec.model import REQUEST, Agent, checksummed, heartbeat

HERE = Path(__file__).resolve().parent
HARDWARE = "/usr/share/arduino/hardware"
# The boards for which all examples are compiled, with the processor where the builder must be told.
BOARDS_OF_AVR = {"uno": "", "nano": ":cpu=atmega328", "mega": ":cpu=atmega2560", "leonardo": ""}
EXAMPLES = ("KeyedNode", "SerialAgent", "SerialNode")
UNO = replace(BOARDS["uart_atmega328p"], name="uno")
HERTZ = UNO.hertz


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the tree. The library is in its folder `libraries`, where "Add .ZIP
    Library" puts it."""
    folder = tmp_path_factory.mktemp("arduino")
    with zipfile.ZipFile(make.write_archive(folder)) as packed:
        packed.extractall(folder / "libraries")
    return folder


def sketch_of(work: Path, example: str) -> Path:
    return work / "libraries" / project.NAME / "examples" / example / f"{example}.ino"


def compiled(work: Path, sketch: Path, board: str = "uno") -> tuple[Path, list[str]]:
    """Compiles a sketch with Arduino's own builder, as Debian has it. Returns the image, and all
    warnings but those of Arduino's core."""
    cache = work / "cache"
    out = work / "build" / f"{sketch.parent.parent.name}-{sketch.stem}-{board}"
    for folder in (out, cache):
        folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["arduino-builder", "-compile", "-hardware", HARDWARE,
         "-hardware", "/usr/share/arduino-builder", "-tools", "/usr/bin",
         "-libraries", work / "libraries",
         "-fqbn", f"arduino:avr:{board}{BOARDS_OF_AVR[board]}", "-warnings", "all",
         # Without this, avr-gcc 5.4 cannot compile the core's WString.cpp.
         "-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=__DECIMAL_DIG__",
         "-build-cache", cache, "-build-path", out, sketch], capture_output=True, text=True,
        env={"PATH": os.defpath, "HOME": str(work), "TMPDIR": str(work), "LC_ALL": "C"})
    assert done.returncode == 0, f"{sketch.name} does not compile for {board}:\n{done.stderr}"
    return out / f"{sketch.name}.elf", [line for line in done.stderr.splitlines()
                                        if "warning:" in line and not line.startswith(HARDWARE)]


# ---------------------------------------------------------------- the clock

CLOCK = """
#include <cstdint>
#include <cstdio>
static uint32_t now_ms = 0xFFFFFFFF - 20000; // millis() starts again after 20 seconds
static uint32_t millis() { return now_ms; }
static uint16_t seconds;
static void keep_time() { BODY }
int main()
{
    keep_time();
    const uint16_t began = seconds;
    for (uint32_t turn = 0; turn < 700000; turn++, now_ms += 100) { // 70,000 s
        const uint16_t before = seconds;
        keep_time();
        if (uint16_t(seconds - before) > 1)
            return 1; // all nodes would seem to be dead
    }
    keep_time();
    return uint16_t(seconds - began) != 70000 % 65536;
}
"""


def test_a_clock_when_millis_wraps(tmp_path: Path) -> None:
    """It never jumps while millis(), and then the seconds, start again at 0. The clock that the
    page warns of does."""
    text = (HERE / "examples/SerialAgent/SerialAgent.ino").read_text()
    (right,) = re.findall(r"static uint32_t counted;.*?\n    }\n", text, re.S)
    for status, body in enumerate((right, "seconds = uint16_t(millis() / 1000);")):
        (tmp_path / "clock.cpp").write_text(CLOCK.replace("BODY", body))
        subprocess.run(["g++", "-O1", "clock.cpp", "-o", "clock"], cwd=tmp_path, check=True)
        assert subprocess.run([tmp_path / "clock"]).returncode == status


# ---------------------------------------------------------------- the examples

def entries(report: bytes) -> dict[int, tuple[int, ...]]:
    """Returns sender and value of each variable that is set in a report."""
    assert report == checksummed(report[4:])
    return {variable: (*entry[2:],)
            for variable, entry in enumerate(Agent.of_table(report).entries) if any(entry)}


def check_agent(image: Path) -> None:
    """Is this an agent on a serial line, as SPEC.md says? It must take 7 heartbeats that come at
    full speed while it sends a report. It may lose what comes behind them."""
    damaged = heartbeat(5, 6, 7)[:7] + b"\x08"
    two = straddled()[-1]  # there is a third heartbeat in them, which must not count
    stream = (b"noise" + heartbeat(3, 76, 9) + damaged + heartbeat(5, 1, 1)[:7] + b"\xf1"
              + heartbeat(63, 255, 128) + heartbeat(64, 1, 1) + two[0] + two[1] + bytes(100)
              + REQUEST
              + b"".join(heartbeat(variable, 2, variable) for variable in range(10, 17))
              + bytes(300) + REQUEST)
    with Line(UNO, image, script=stream) as line:
        first, second = line.receive(260), line.receive(260)
        assert line.end()["boots"] == 1
    expected = {0: (1, 0), 3: (76, 9), 63: (255, 128),  # 0 is the agent's own
                **{packet[5]: (packet[6], packet[7]) for packet in two}}
    assert entries(first) == expected
    assert entries(second) == expected | {at: (2, at) for at in range(10, 17)}


def check_node(image: Path) -> None:
    """Does it send the next heartbeat each second?"""
    with Line(UNO, image, script=b"") as line:  # the board ends after 2 seconds of silence
        assert line.receive(32) == b"".join(heartbeat(3, 76, beat) for beat in range(4))
        seconds = line.end(at_once=True)["cycles"] / HERTZ
    assert 4 <= seconds < 8  # the board went on until it was told to end


def check_led(image: Path) -> None:
    """Is the LED lit while variable 3 is silent for more than 3 seconds, and only then?"""
    other, watched = heartbeat(4, 76, 9), heartbeat(3, 76, 9)
    with Line(replace(UNO, pins=("B5",)), image, script=other + watched + other + watched,
              arguments=[str(int(seconds * HERTZ)) for seconds in (4.5, 2.5, 2.5)]) as line:
        line.end()
    # Lit in the 4th second, off at 4.5, lit in the 8th, off at 9.5.
    changes = [(level, seconds) for seconds, _, level in line.pin_changes if seconds > 1]
    assert [level for level, _ in changes] == [1, 0, 1, 0], changes
    for (_, seconds), expected in zip(changes, (4, 4.5, 8, 9.5), strict=True):
        assert expected - 1 <= seconds < expected + 0.1, changes


@pytest.mark.slow
@pytest.mark.parametrize(("example", "checks"), [
    ("SerialAgent", (check_agent,)), *(
        pytest.param(*case, marks=pytest.mark.long)
        for case in (("SerialAgent", (check_led,)), ("SerialNode", (check_node,))))])
def test_an_example_on_an_uno(work: Path, example: str,
                              checks: tuple[Callable[[Path], object], ...]) -> None:
    image = compiled(work, sketch_of(work, example))[0]
    for check in checks:
        check(image)


@pytest.mark.long
@pytest.mark.parametrize("board", BOARDS_OF_AVR)
def test_every_example_compiles_without_a_warning(work: Path, board: str) -> None:
    for example in EXAMPLES:
        assert compiled(work, sketch_of(work, example), board)[1] == [], example


@pytest.mark.long
def test_a_node_with_keys_is_heard(work: Path, tmp_path: Path) -> None:
    """With a key made by the page's commands, it sends what the model does after its beacon."""
    master = bytes(range(16))
    (tmp_path / "dumpulse.key").write_text(master.hex())
    (tmp_path / "dumpulse.key").chmod(0o600)
    page = (HERE / "README.md").read_text()
    (command,) = re.findall(r"^ +dumpulse (key split .*)", page, re.M)
    subprocess.run([project.ROOT / "client.py", *command.split()], cwd=tmp_path, check=True)
    text = sketch_of(work, "KeyedNode").read_text()
    sketch = tmp_path / "KeyedNode" / "KeyedNode.ino"
    sketch.parent.mkdir()
    for old, new in (("{0}", "DUMPULSE_KEY_OWN"),
                     ("keyed.h>\n", 'keyed.h>\n#include "dumpulse-3.h"\n')):
        assert text.count(old) == 1
        text = text.replace(old, new)
    sketch.write_text(text)
    (tmp_path / "keys" / "dumpulse-3.h").rename(sketch.parent / "dumpulse-3.h")

    keys, heard = keyed.Keys(master), list[bytes]()
    with Line(replace(UNO, baud=9600), compiled(work, sketch)[0]) as line:
        while len(heard) < 3:
            frame = line.receive(10)
            assert frame[0] == 0x80 + 3 and sum(frame) % 256 == 0
            if frame[1:9] != keyed.question(3):
                heard.append(frame[1:9])
                continue
            beacon = bytes([0x80 + 97]) + keys.beacon(3, 5)
            line.send(beacon + bytes([-sum(beacon) % 256]))
    assert heard == [keys.counted(3, 5, count, 76, count - 1) for count in (1, 2, 3)]
