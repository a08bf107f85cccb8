"""The library for the Arduino IDE: its zip file, unpacked elsewhere, and every example in it.

arduino-builder compiles the examples. simavr runs those that need no other library on an Uno, and
one on a Mega, with client.py at the other end of the line."""

import json
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from firmware.simulators.boards import BOARDS, Board, Line
from firmware.tests.test_serial_firmware import straddled
from packages import project
from packages.c import make
from spec.model import REQUEST, Agent, checksummed, heartbeat
from tools.agents import run as client
from tools.programs import INCLUDES
from tools.servers import Server, command as server_command

HERE = Path(__file__).resolve().parent
HARDWARE = "/usr/share/arduino/hardware"
# The boards for which all examples are compiled, with the processor where the builder must be told.
BOARDS_OF_AVR = {"uno": "", "nano": ":cpu=atmega328", "mega": ":cpu=atmega2560", "leonardo": ""}
EXAMPLES = ("CanNode", "KeyedNode", "SerialAgent", "SerialNode", "SilentNodeLed", "UdpAgent")
UNO = replace(BOARDS["uart_atmega328p"], name="uno")
MEGA = replace(UNO, name="mega", mcu="atmega2560")
HERTZ = UNO.hertz
# What the examples need of the libraries Ethernet and autowp-mcp2515 to be compiled. EthernetUDP is
# made from the core's class UDP, as the real one is. Nothing of it does anything.
LIBRARIES = """
#pragma once
#include <Udp.h>
static struct { void begin(uint8_t *, IPAddress) {} } Ethernet __attribute__((unused));
struct EthernetUDP : UDP {
    uint8_t begin(uint16_t) { return 0; }
    void stop() {}
    int beginPacket(IPAddress, uint16_t) { return 0; }
    int beginPacket(const char *, uint16_t) { return 0; }
    int endPacket() { return 0; }
    size_t write(uint8_t) { return 0; }
    size_t write(const uint8_t *, size_t) { return 0; }
    int parsePacket() { return 0; }
    int available() { return 0; }
    int read() { return 0; }
    int read(unsigned char *, size_t) { return 0; }
    int read(char *, size_t) { return 0; }
    int peek() { return 0; }
    void flush() {}
    IPAddress remoteIP() { return IPAddress(); }
    uint16_t remotePort() { return 0; }
};
enum CAN_CLOCK { MCP_16MHZ };
enum CAN_SPEED { CAN_500KBPS };
struct can_frame { uint32_t can_id; uint8_t can_dlc, data[8]; };
struct MCP2515 {
    enum { ERROR_OK };
    MCP2515(uint8_t) {}
    void reset() {}
    void setBitrate(CAN_SPEED, CAN_CLOCK) {}
    void setNormalMode() {}
    int sendMessage(const can_frame *) { return ERROR_OK; }
};
"""


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the tree. The library is in its folder `libraries`, where "Add .ZIP
    Library" puts it."""
    folder = tmp_path_factory.mktemp("arduino")
    with zipfile.ZipFile(make.write_archive(folder)) as packed:
        packed.extractall(folder / "libraries")
    for name in ("Ethernet", "mcp2515"):
        (folder / "standins" / name).mkdir(parents=True)
        (folder / "standins" / name / f"{name}.h").write_text(LIBRARIES)
    return folder


def sketch_of(work: Path, example: str) -> Path:
    return work / "libraries" / project.NAME / "examples" / example / f"{example}.ino"


def compiled(work: Path, sketch: Path, board: str = "uno") -> tuple[Path, list[str]]:
    """Compiles a sketch with Arduino's own builder, as Debian has it. Returns the image, and all
    warnings but those of Arduino's core. Only examples with another library get the stand-ins."""
    cache = work / "cache"
    out = work / "build" / f"{sketch.parent.parent.name}-{sketch.stem}-{board}"
    for folder in (out, cache):
        folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["arduino-builder", "-compile", "-hardware", HARDWARE,
         "-hardware", "/usr/share/arduino-builder", "-tools", "/usr/bin",
         "-libraries", work / "libraries", "-libraries", work / "standins",
         "-fqbn", f"arduino:avr:{board}{BOARDS_OF_AVR[board]}", "-warnings", "all",
         # Without this, avr-gcc 5.4 cannot compile the core's WString.cpp.
         "-prefs=compiler.cpp.extra_flags=-DDECIMAL_DIG=__DECIMAL_DIG__",
         "-build-cache", cache, "-build-path", out, sketch], capture_output=True, text=True,
        env={"PATH": os.defpath, "HOME": str(work), "TMPDIR": str(work), "LC_ALL": "C"})
    assert done.returncode == 0, f"{sketch.name} does not compile for {board}:\n{done.stderr}"
    return out / f"{sketch.name}.elf", [line for line in done.stderr.splitlines()
                                        if "warning:" in line and not line.startswith(HARDWARE)]


def image_of(work: Path, example: str, board: str = "uno") -> Path:
    return compiled(work, sketch_of(work, example), board)[0]


# ---------------------------------------------------------------- the clock

CLOCK = """
#include <cstdio>
#include <dumpulse_watch.h>
static uint32_t now_ms = 0xFFFFFFFF - 20000; // millis() starts again after 20 seconds
static uint32_t millis() { return now_ms; }
static uint16_t seconds;
static dumpulse agent;
static unsigned deaths;
DUMPULSE_WATCH(watch,
    DUMPULSE_WATCHED(variable(3), silence(2), misses(3), grace(4), values(0, 255)));
uint16_t dumpulse_get_timestamp(void) { return seconds; }
void dumpulse_send_packet(void *, const uint8_t *, size_t) {}
void dumpulse_changed(dumpulse *, uint8_t, dumpulse_state, dumpulse_state is)
{
    deaths += is == DUMPULSE_DEAD;
}
static void keep_time() { BODY }
int main()
{
    keep_time();
    const uint16_t began = seconds;
    dumpulse_watch_begin(&watch, began);
    for (uint32_t turn = 0; turn < 700000; turn++, now_ms += 100) { // 70,000 s
        keep_time();
        if (turn % 10 == 0)
            dumpulse_record(&agent, 3, 9, 1);
        dumpulse_watch(&watch, &agent, seconds);
    }
    keep_time();
    printf("%u %u", deaths, (unsigned)(uint16_t)(seconds - began));
}
"""


@pytest.mark.parametrize("example", ["SerialAgent", "SilentNodeLed", "UdpAgent", None])
def test_a_clock_when_millis_wraps(tmp_path: Path, example: str | None) -> None:
    """A healthy node stays alive while millis(), and then the seconds, start again at 0. With the
    clock that the page warns of, it seems to be dead."""
    body = "seconds = uint16_t(millis() / 1000);"
    if example:
        text = (HERE / "examples" / example / f"{example}.ino").read_text()
        (body,) = re.findall(r"static uint32_t counted;.*?\n    }\n", text, re.S)
    (tmp_path / "clock.cpp").write_text(CLOCK.replace("BODY", body))
    sources = [project.ROOT / name for name in ("dumpulse.c", "extras/dumpulse_watch.c")]
    subprocess.run(["g++", "-O1", *INCLUDES, "clock.cpp", *sources, "-o", "clock"], cwd=tmp_path,
                   check=True)
    deaths, passed = subprocess.check_output([tmp_path / "clock"], text=True).split()
    assert (int(deaths) == 0, int(passed) == 70000 % 65536) == 2 * (example is not None,)


# ---------------------------------------------------------------- the examples

def entries(report: bytes) -> dict[int, tuple[int, int, int]]:
    """Returns timestamp, sender and value of each variable that is set in a report."""
    assert len(report) == 260 and report == checksummed(report[4:])
    return {variable: (256 * entry[0] + entry[1], entry[2], entry[3])
            for variable, entry in enumerate(Agent.of_table(report).entries) if any(entry)}


def said(report: bytes) -> dict[int, tuple[int, int]]:
    """Returns sender and value of each variable but the agent's own."""
    return {variable: entry[1:] for variable, entry in entries(report).items() if variable}


def check_agent(image: Path, board: Board = UNO) -> None:
    """Is this an agent on a serial line, as SPEC.md says? It must take 7 heartbeats that come at
    full speed while it sends a report. It may lose what comes behind them."""
    damaged = heartbeat(5, 6, 7)[:7] + b"\x08"
    two = straddled()[-1]  # there is a third heartbeat in them, which must not count
    stream = (b"noise" + heartbeat(3, 76, 9) + damaged + heartbeat(5, 1, 1)[:7] + b"\xf1"
              + heartbeat(63, 255, 128) + heartbeat(64, 1, 1) + two[0] + two[1] + bytes(100)
              + REQUEST
              + b"".join(heartbeat(variable, 2, variable) for variable in range(10, 17))
              + bytes(300) + REQUEST)
    with Line(board, image, script=stream) as line:
        first, second = line.receive(260), line.receive(260)
        assert line.end()["boots"] == 1
    expected = {3: (76, 9), 63: (255, 128),
                **{packet[5]: (packet[6], packet[7]) for packet in two}}
    assert said(first) == expected
    assert said(second) == {**expected, **{variable: (2, variable) for variable in range(10, 17)}}
    assert 0 in entries(second)  # the agent's own


def check_clock(image: Path) -> None:
    """Do timestamps count seconds?"""
    script = heartbeat(3, 76, 9) + heartbeat(4, 76, 9) + REQUEST
    with Line(UNO, image, script=script, arguments=[str(2 * HERTZ)]) as line:
        found = entries(line.receive(260))
        assert found[4][0] - found[3][0] == 2 and found[0][0] == found[4][0]


def check_node(image: Path) -> None:
    """Does it send the next heartbeat each second?"""
    with Line(UNO, image, script=b"") as line:  # the board ends after 2 seconds of silence
        assert line.receive(32) == b"".join(heartbeat(3, 76, beat) for beat in range(4))
        seconds = line.end(at_once=True)["cycles"] / HERTZ
    assert 4 <= seconds < 8  # the board went on until it was told to end


def check_led(image: Path) -> None:
    """Is the LED lit while variable 3 is silent for more than 3 seconds, and only then?"""
    other, watched = heartbeat(4, 76, 9), heartbeat(3, 76, 9)
    with Line(UNO, image, script=other + watched + other + watched,
              arguments=[str(int(seconds * HERTZ)) for seconds in (4.5, 2.5, 2.5)]) as line:
        counts = line.end()
    # Lit in the 4th second, off at 4.5, lit in the 8th, off at 9.5, and so until the end at 11.5.
    assert counts["switched"] == 4 and 2.0 <= counts["lit"] / HERTZ < 2.1


CHECKS: dict[str, tuple[Callable[[Path], object], ...]] = {
    "SerialAgent": (check_agent, check_clock), "SerialNode": (check_node,),
    "SilentNodeLed": (check_led, check_agent, check_clock)}


@pytest.mark.slow
@pytest.mark.parametrize("example", ["SerialAgent", *(
    pytest.param(name, marks=pytest.mark.long) for name in CHECKS if name != "SerialAgent")])
def test_an_example_on_an_uno(work: Path, example: str) -> None:
    for check in CHECKS[example]:
        check(image_of(work, example))


@pytest.mark.long
@pytest.mark.parametrize("board", BOARDS_OF_AVR)
def test_every_example_compiles_without_a_warning(work: Path, board: str) -> None:
    for example in EXAMPLES:
        assert compiled(work, sketch_of(work, example), board)[1] == [], example
    if board == "mega":
        check_agent(image_of(work, "SerialAgent", board), MEGA)


@pytest.mark.long
def test_a_node_with_keys_is_heard(work: Path, tmp_path: Path) -> None:
    """From a new key to the agent's report, by the page's commands and its program."""
    page = (HERE / "README.md").read_text()
    (tmp_path / "dumpulse").symlink_to(project.ROOT / "client.py")
    for command in re.findall(r"^ +dumpulse (key .*)", page, re.M):
        subprocess.run(["./dumpulse", *command.split()], cwd=tmp_path, check=True)
    text = sketch_of(work, "KeyedNode").read_text()
    sketch = tmp_path / "KeyedNode" / "KeyedNode.ino"
    sketch.parent.mkdir()
    for old, new in (("{0}", "DUMPULSE_KEY_OWN"), ("PERIOD = 1000;", "PERIOD = 40;"),
                     ("keyed.h>\n", 'keyed.h>\n#include "dumpulse-3.h"\n')):
        assert text.count(old) == 1
        text = text.replace(old, new)
    sketch.write_text(text)
    (tmp_path / "keys" / "dumpulse-3.h").rename(sketch.parent / "dumpulse-3.h")
    (script,) = re.findall(r"^    umask 077\n(?:    .*\n)*?(?=    avrdude)", page, re.M)
    (tmp_path / "Arduino").symlink_to(work)
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=True,
                   env={"PATH": os.defpath, "HOME": str(tmp_path), "LC_ALL": "C"})
    image = tmp_path / "build" / "KeyedNode.ino.elf"
    assert image.parent.stat().st_mode & 0o77 == 0  # the key lies there
    options = ("--key", str(tmp_path / "dumpulse.key"), "--state", str(tmp_path / "table"))
    subprocess.run([*server_command(), *options, "--key-is-new"], check=True)
    (program,) = re.findall(r"^ +```python\n(.*?)^ +```", page, re.M | re.S)
    with Server(*options) as server, Line(replace(UNO, baud=9600), image, pty=True) as line:
        text = textwrap.dedent(program).replace("9060", str(server.port))
        with subprocess.Popen([sys.executable, "-c", text, line.path]) as frames:
            try:
                # The board runs in real time. An epoch has 255 heartbeats at most.
                server.wait_for(lambda now: now["heartbeats"] > 260, "its heartbeats")
            finally:
                frames.kill()
        done = client("get", f"127.0.0.1:{server.port}", "--json", "--key",
                      str(tmp_path / "keys" / "dumpulse-readers.key"))
        (entry,) = (entry for entry in json.loads(done.stdout)["variables"]
                    if entry["variable"] == 3)
        assert entry["sender"] == 76 and 4 <= entry["value"] < 200
        assert server.stop()["length"] == 0
