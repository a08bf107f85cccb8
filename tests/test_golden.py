"""Files that programs of 1.0.0-rc1 have written are read by every later version.

These files never change. A version that writes another form of one adds its own beside it.
"""

import base64
import json
import subprocess
import zlib
from pathlib import Path

import pytest

import client
from tools import messages
from tools.agents import COMMAND
from tools.servers import Server, command

MASTER_KEY = "67cbfec187df19e202ff71bcbb5369a6\n"
VEHICLE = """\
[dumpulse]
now-from = 0
warn = 1500ms
crit = 3s
[1]
name = engine
boots = 41
value = 10..120
[2]
name = brakes
authenticated = no
[3]
name = battery
value = 100..140
value-warn = 110..135
expect = no
"""
MEMORY = """\
dumpulse memory 1 b6552415
agent "127.0.0.1:19060"
boot f9545873-5d76-4e02-ae8c-cc4a7056c198
clock now-from 0 1000
at 1313845
now 19798
0 19798 1 0 1313845 0
1 19798 5 77 1313845 0
"""
# `udpserver --state table --watch vehicle.ini --key fleet.key`, ended by SIGTERM.
TABLE = "c-nI*%`GU+DNbczU|?ckV1B{Cz_>_*PqW-NjFG`NjMbN66fnC&Xhz1-uoy8wcwhTg0PLR$rT"
NUMBERS = "c-nI*%`GU+DNfB!tu+2V@v1!o^QMCga9}Zufl{DwAhiGhW;+XI"


def unpack(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files of a server with a key, as 1.0.0-rc1 left them."""
    (tmp_path / "table").write_bytes(unpack(TABLE))
    (tmp_path / "table.f791d53f.numbers").write_bytes(unpack(NUMBERS))
    (tmp_path / "vehicle.ini").write_text(VEHICLE)
    (tmp_path / "fleet.key").write_text(MASTER_KEY)
    (tmp_path / "fleet.key").chmod(0o600)
    (tmp_path / "memory").write_text(MEMORY)
    (tmp_path / "memory").chmod(0o600)
    return tmp_path


def test_a_server_continues_from_a_golden_table(files: Path) -> None:
    with Server("--state", str(files / "table"), "--keep-old", "--self", "0",
                "--watch", str(files / "vehicle.ini"), "--key", str(files / "fleet.key"),
                "--stats", str(files / "stats")) as server:
        done = subprocess.run([*COMMAND, "status", "--json", str(files / "stats")], timeout=60,
                              capture_output=True, text=True, check=True)
        shown = json.loads(done.stdout)
        keyed = subprocess.run([*COMMAND, "get", "--json", "--key", str(files / "fleet.key"),
                                f"127.0.0.1:{server.port}"], timeout=60, capture_output=True)
        assert keyed.returncode == 0, keyed.stderr
        server.stop()
    engine, brakes, battery = shown["table"][1:4]
    assert (engine["name"], engine["sender"], engine["value"]) == ("engine", 5, 77)
    assert (engine["state"], engine["number"]) == ("dead", 3)
    assert (brakes["state"], brakes["number"], brakes["age_ms"]) == ("missing", 1, None)
    assert battery["state"] is None and shown["changes"] == 0  # none is reported again


def test_the_client_reads_golden_files(files: Path) -> None:
    assert client.KeyFile(str(files / "fleet.key")).master.hex() == MASTER_KEY.strip()
    history = client.load_history(str(files / "memory"), "127.0.0.1:19060", 2_000_000)
    assert {number: entry.entry for number, entry in history.entries.items()} == {
        0: client.Entry(19798, 1, 0), 1: client.Entry(19798, 5, 77)}
    assert history.basis == "now-from 0 1000"


def with_version(path: Path, version: bytes) -> bytes:
    """Makes a file of another version of a golden one. Both kinds end with their CRC-32."""
    content = path.read_bytes()[:11] + version + path.read_bytes()[12:-4]
    content += zlib.crc32(content).to_bytes(4, "big")
    path.write_bytes(content)
    return content


def test_a_table_of_a_later_version_is_set_aside(files: Path) -> None:
    content = with_version(files / "table", b"\3")
    with Server("--state", str(files / "table")) as server:
        server.stop()
    (line,) = [line for line in server.stderr.all() if "version" in line]
    assert "is of another version: set aside as" in line
    assert content in [path.read_bytes() for path in files.glob("table.*")]


@pytest.mark.parametrize("version", [b"s", b"2", b"4"])
def test_numbers_of_another_version_are_rejected(files: Path, version: bytes) -> None:
    content = with_version(files / "table.f791d53f.numbers", version)
    done = subprocess.run([*command(), "--state", str(files / "table"), "--key",
                           str(files / "fleet.key"), "0"], timeout=60, capture_output=True,
                          text=True)
    assert done.returncode == 1
    assert ".numbers is of another version: " in done.stderr and done.stderr.count("\n") == 1
    assert (files / "table.f791d53f.numbers").read_bytes() == content


@pytest.mark.parametrize("text", ["dumpulse memory 2 00000000\n", ""])
def test_a_memory_of_a_later_version_is_rejected(files: Path, text: str) -> None:
    (files / "memory").write_text(text)
    with pytest.raises(client.BadUsage, match="is not a file of --memory, or is damaged"):
        client.load_history(str(files / "memory"), "127.0.0.1:19060", 2_000_000)
    assert (files / "memory").read_text() == text


def test_messages_change_deliberately() -> None:
    """python3 -m tools.messages --freeze accepts the texts as they are now."""
    assert messages.HASHES.read_text() == messages.hashes()
