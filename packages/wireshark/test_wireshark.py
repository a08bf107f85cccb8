"""tshark shows what the model says of every packet."""

import json
import os
import random
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from packages import making, project
from spec import model
from tools.programs import vectors

pytestmark = pytest.mark.long
SCRIPT = Path(__file__).with_name("dumpulse.lua")
IP, SOCKETCAN = 228, 227  # the link types
EXTENDED, REMOTE = 1 << 31, 1 << 30  # flags of an identifier on CAN
FIELDS = ("kind", "checksum", "checksum.right", "magic", "heard", "variable", "timestamp", "sender",
          "value", "part", "checksum.bad", "refused", "gap", "cut")
Shown = dict[str, list[str]]


def pcap(to: Path, link: int, frames: Iterable[bytes], longest: int = 65535) -> Path:
    """Writes a capture. Of each frame it has the first `longest` bytes."""
    parts = [struct.pack("<LHHlLLL", 0xA1B2C3D4, 2, 4, 0, 0, longest, link)]
    for number, frame in enumerate(frames):
        kept = frame[:longest]
        parts.append(struct.pack("<LLLL", 1700000000 + number, 0, len(kept), len(frame)) + kept)
    to.write_bytes(b"".join(parts))
    return to


def udp(payload: bytes, port: int = 9060, reply: bool = False) -> bytes:
    """A datagram to the port, or from it. tshark does not check the checksums of IP and UDP."""
    ports, length = (port, 40000) if reply else (40000, port), 8 + len(payload)
    return struct.pack(">BBHLBBH8sHHHH", 0x45, 0, 20 + length, 0, 64, 17, 0, bytes(8), *ports,
                       length, 0) + payload


def can(identifier: int, data: bytes, fd: bool = False) -> bytes:
    """A frame as Linux captures it."""
    head = struct.pack(">LBBBB", identifier, len(data), 4 if fd else 0, 0, 0)
    return head + data.ljust(64 if fd else 8, b"\0")


def report_frames(report: bytes) -> list[bytes]:
    return [can(0x680 + 64 + at // 8, report[at:at + 8]) for at in range(0, len(report), 8)]


def tshark(home: Path, *arguments: str | Path, complains: str = "") -> str:
    """Runs it with a home of its own, so that no settings of the user count. `complains` must be in
    what it says on the standard error."""
    home.mkdir(exist_ok=True)
    ended = subprocess.run(["tshark", *arguments], text=True, capture_output=True, check=False,
                           env={**os.environ, "HOME": str(home),
                                "XDG_CONFIG_HOME": str(home / "config")})
    said = [line for line in ended.stderr.splitlines() if not line.startswith("Running as user")]
    assert ended.returncode == 0 and bool(said) == bool(complains), ended.stderr
    assert complains in ended.stderr
    return ended.stdout


def read(home: Path, capture: Path, *options: str, complains: str = "") -> str:
    """What tshark says of a capture with the script."""
    return tshark(home, "-X", f"lua_script:{SCRIPT}", "-r", capture, *options, complains=complains)


@pytest.fixture(scope="module", name="home")
def fixture_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def expected(packet: bytes) -> Shown:
    """What tshark must show of a packet, from the model and from SPEC.md alone."""
    if packet == model.REQUEST:
        return {"kind": ["Request"]}
    is_report = len(packet) == 260
    if not is_report and (len(packet) != 8 or packet[4] != model.MAGIC):
        return {"kind": ["Refused"], "refused": ["1"]}
    right = model.checksummed(packet[4:])[:4]
    shown = {"checksum": [f"0x{packet[:4].hex()}"]}
    if right != packet[:4]:
        shown |= {"checksum.right": [f"0x{right.hex()}"], "checksum.bad": ["1"]}
    if is_report:
        entries = {variable: entry for variable, entry in enumerate(
            model.Agent.of_table(packet).entries) if any(entry)}
        columns = {"variable": [*entries],
                   "timestamp": [entry[0] * 256 + entry[1] for entry in entries.values()],
                   "sender": [entry[2] for entry in entries.values()],
                   "value": [entry[3] for entry in entries.values()]}
        return shown | {"kind": ["Report"], "heard": [str(len(entries))], **{
            name: [*map(str, column)] for name, column in columns.items() if column}}
    variable, sender, value = packet[5:]
    if variable > 63:
        shown["refused"] = ["1"]
    return shown | {"kind": ["Heartbeat"], "magic": ["0xf1"], "variable": [str(variable)],
                    "sender": [str(sender)], "value": [str(value)]}


def shown(capture: Path, home: Path, *options: str) -> list[Shown]:
    """What tshark says of each frame: the values of the fields."""
    found = json.loads(read(home, capture, "-T", "json", *options, *(
        word for name in FIELDS for word in ("-e", f"dumpulse.{name}"))))
    return [{name.partition(".")[2]: ["1"] if name.endswith((".bad", "refused", "gap", "cut"))
             else [*map(str, values)] for name, values in layers.items()}
            for layers in (frame["_source"].get("layers", {}) for frame in found)]


def of_vectors() -> list[bytes]:
    """All packets and reports of the vectors."""
    at = {"refused": 2, "heartbeat": 2, "report": 3, "make": 4, "check": 1}
    packets = []
    for line in vectors("vectors.tsv").read_text().splitlines():
        fields = line.split("\t")
        if fields[0] in at and fields[at[fields[0]]] != "-":  # tshark gives away no empty datagram
            packets.append(bytes.fromhex(fields[at[fields[0]]]))
    return packets


def hostile(count: int, seed: int) -> list[bytes]:
    """Random bytes, and good packets with damage."""
    choose = random.Random(seed)
    packets = []
    for _ in range(count):
        variable, sender, value = choose.randrange(64), choose.randrange(256), choose.randrange(256)
        packet = bytearray(choose.choice([
            model.heartbeat(variable, sender, value), model.REQUEST,
            model.checksummed(choose.randbytes(256)),
            choose.randbytes(choose.choice([1, 4, 7, 8, 9, 259, 260, 261, 264, 1400]))]))
        for _ in range(choose.randrange(3)):
            packet[choose.randrange(len(packet))] = choose.randrange(256)
        packets.append(bytes(packet[:choose.choice([len(packet), len(packet),
                                                    choose.randrange(1, len(packet) + 1)])]))
    return packets


def report_of(*beats: tuple[int, int, int]) -> bytes:
    agent = model.Agent()
    for now, beat in enumerate(beats, 4660):
        agent.record(now, *beat)
    agent.process(0, model.REQUEST)
    return agent.table()


WORKED, OTHER = report_of((3, 76, 9)), report_of((0, 1, 2), (63, 255, 255))


def over_udp(folder: Path, payloads: list[bytes]) -> tuple[Path, list[Shown]]:
    """A capture of these payloads, and what must be shown of each."""
    return pcap(folder / "udp.pcap", IP, [udp(payload, reply=at % 3 == 0) for at, payload in
                                          enumerate(payloads)]), [*map(expected, payloads)]


def part(number: int, more: Iterable[str] = ()) -> Shown:
    return {"kind": ["Part"], "part": [str(number)], **{name: ["1"] for name in more}}


def over_can(folder: Path, reports: list[bytes], packets: list[bytes]) -> tuple[Path, list[Shown]]:
    """The same for a bus. There are lost frames, mixed ones, and ones to be ignored."""
    base = 0x680
    steps: list[tuple[bytes, Shown]] = []

    def whole(report: bytes) -> list[tuple[bytes, Shown]]:
        frames = report_frames(report)
        return [*zip(frames, map(part, range(32))),
                (frames[32], {**expected(report), "part": ["32"]})]

    for variable in range(64):
        packet = model.heartbeat(variable, variable + 100, 255 - variable)
        steps.append((can(base + variable, packet), expected(packet)))
    for packet in packets:  # any identifier of a heartbeat will do
        steps.append((can(base + packet[0] % 64, packet[:8]), expected(packet[:8])))
        steps.append((can(base + 127, packet[:8]), expected(packet[:8])))
    steps += whole(WORKED)
    for report in reports:
        steps += whole(report)

    ignored = [base - 1, base + 97, base + 126, base + 128, base | EXTENDED, base + 64 | EXTENDED,
               base | REMOTE, base + 64 | REMOTE]
    for number, step in enumerate(whole(OTHER)):  # between its frames: all that is to be ignored
        steps.append(step)
        identifier = ignored[number % len(ignored)]
        steps.append((can(identifier, b"" if identifier & REMOTE else model.REQUEST), {}))
        steps.append((can(base + 1, model.heartbeat(1, 2, 3), fd=True), {}))
        steps.append((can(base + 1, model.heartbeat(1, 2, 3)), expected(model.heartbeat(1, 2, 3))))

    good, other = whole(WORKED), whole(OTHER)
    for number in (0, 1, 17, 31):  # one is lost, and all that follow it do not help
        steps += good[:number] + [(frame, part(at, ["gap"])) for at, (frame, _) in
                                  enumerate(good[number + 1:], number + 1)]
    steps += good[:9] + other  # a first frame begins a new report
    steps += good[:9] + [(good[8][0], part(8, ["gap"])), (good[9][0], part(9, ["gap"]))]
    steps += good[:4] + [(can(base + 68, WORKED[32:39]), part(4, ["gap"]))]  # 7 bytes
    steps += good[:32] + [(can(base + 96, WORKED[256:] + b"x"), part(32, ["gap"]))]
    steps += whole(WORKED)
    return pcap(folder / "can.pcap", SOCKETCAN, [frame for frame, _ in steps]), [
        what for _, what in steps]


def test_every_packet_is_shown_as_it_is(tmp_path: Path, home: Path) -> None:
    vectors, bad = of_vectors(), hostile(3000, 1)
    reports = [packet for packet in vectors[::8] + bad[::8] if len(packet) == 260]
    for capture, wanted in (over_udp(tmp_path, vectors + bad),
                            over_can(tmp_path, reports, bad[:300])):
        differ = [(number, got, want) for number, (got, want) in
                  enumerate(zip(shown(capture, home), wanted, strict=True), 1) if got != want]
        assert len(wanted) > 2000 and not differ, differ[:3]


def test_nothing_makes_it_fail(tmp_path: Path, home: Path) -> None:
    """In the whole text that tshark prints, with packets that are cut in every way."""
    payloads = hostile(3000, 4)
    for link, frames in ((IP, [*map(udp, payloads)]), (SOCKETCAN, [
            can(0x600 + payload[0] + 2 * payload[-1], payload[:8]) for payload in payloads])):
        for longest in (66, 31, 15, 12):
            capture = pcap(tmp_path / "cut.pcap", link, frames, longest)
            text = read(home, capture, "-V", "-2")
            assert "Lua" not in text and ("Dumpulse" in text or longest < 31)


def test_it_works_where_users_put_it(tmp_path: Path, home: Path) -> None:
    folder = home / "with_plugin" / ".local" / "lib" / "wireshark" / "plugins"
    folder.mkdir(parents=True)
    (made,) = making.builder("wireshark")(folder)
    plugins = tshark(home / "with_plugin", "-G", "plugins").splitlines()
    (line,) = [line for line in plugins if line.endswith(str(made))]
    assert line.split()[1] == project.version()
    capture = pcap(tmp_path / "one", IP, [udp(model.heartbeat(3, 76, 9))])
    text = tshark(home / "with_plugin", "-r", capture)
    assert "Heartbeat: variable 3, sender 76, value 9" in text


def test_cut_packets_are_told(tmp_path: Path, home: Path) -> None:
    frames = [udp(model.heartbeat(3, 76, 9)), udp(WORKED)]
    cut = {"kind": ["Cut"], "cut": ["1"]}
    for longest, wanted in ((20 + 8 + 8, [expected(model.heartbeat(3, 76, 9)), cut]),
                            (20 + 8 + 7, [cut, cut])):
        assert shown(pcap(tmp_path / "cut.pcap", IP, frames, longest), home) == wanted


def test_two_buses_in_one_capture(tmp_path: Path, home: Path) -> None:
    for name, report in (("a", WORKED), ("b", OTHER)):
        pcap(tmp_path / name, SOCKETCAN, report_frames(report))
    subprocess.run(["mergecap", "-I", "none", "-w", "both", "a", "b"], cwd=tmp_path, check=True,
                   stderr=subprocess.DEVNULL)
    for options in ((), ("-2",)):
        last = shown(tmp_path / "both", home, *options)[-2:]
        assert sorted(last, key=str) == sorted(
            [{**expected(report), "part": ["32"]} for report in (WORKED, OTHER)], key=str)


def test_settings_and_filters(tmp_path: Path, home: Path) -> None:
    beat = model.heartbeat(3, 76, 9)
    ports = pcap(tmp_path / "ports", IP, [
        udp(beat), udp(beat, port=9061), udp(model.heartbeat(4, 76, 9)), udp(WORKED), udp(OTHER),
        udp(beat[:7] + b"\0"), udp(beat[:7])])
    buses = pcap(tmp_path / "buses", SOCKETCAN, [
        can(base + 3, beat) for base in (0x680, 0x700, EXTENDED, EXTENDED | 0x1FFFFF80)])

    def frames(capture: Path, condition: str, *options: str, complains: str = "") -> list[int]:
        """The numbers of the frames that fit."""
        return [*map(int, read(home, capture, "-T", "fields", "-e", "frame.number", "-Y", condition,
                               *options, complains=complains).split())]

    def port(number: int) -> list[int]:
        return frames(ports, "dumpulse", "-o", f"dumpulse.port:{number}")

    def base(digits: str, complains: str = "") -> list[int]:
        return frames(buses, "dumpulse", "-o", f"dumpulse.base:{digits}", complains=complains)

    assert (port(9060), port(9061), port(0), port(99999)) == ([1, 3, 4, 5, 6, 7], [2], [], [])
    assert (base("680"), base("700"), base("00000000"), base("1fffff80")) == ([1], [2], [3], [4])
    for wrong in ("", "0680", "681", "800", "20000000", "x80"):
        assert base(wrong, f"'{wrong}' cannot be the first CAN identifier") == []
    for wanted, text in (
            ([1, 4, 6], "dumpulse.variable == 3"), ([1, 3, 4], "dumpulse.value == 9"),
            ([5], "dumpulse.sender > 200"), ([4, 5], "dumpulse.timestamp >= 4660"),
            ([6], "dumpulse.checksum.bad"), ([7], "dumpulse.refused"),
            ([4], "dumpulse.heard == 1"), ([1, 3, 6], 'dumpulse.kind == "Heartbeat"'),
            ([4], "dumpulse.checksum == 0x93d5009c")):
        assert frames(ports, text) == wanted, text
