"""Tests everything over CAN: in a virtual machine whose kernel has CAN, and here, if the test needs
no CAN.     SPDX-License-Identifier: MIT"""

import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import client
from server.tests import vm
from spec.model import REQUEST, checksummed
from tests.support.programs import PATIENCE, ROOT, built, run

# Python is slow in an emulated machine, so pytest runs without plugins and rewritten assertions.
GUEST = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 build/venv/bin/python -m pytest -q -p no:cacheprovider "
         "--assert=plain --color=no --tb=short --durations=8 server/tests/vm_can.py")


@pytest.mark.slow
def test_in_a_machine_with_can() -> None:
    for program in ("canserver", "udpserver", "sim/can_board", "firmware/can_avr.elf"):
        built(f"build/{program}")
    status, output = vm.run_in_vm(GUEST)
    print(output)
    assert status == 0, output
    passed = re.findall(r"^(\d+) passed in ", output, re.M)  # no test may be skipped
    assert passed and int(passed[0]) >= 42, output


def test_help_fits_the_terminal_and_the_manual_has_every_option() -> None:
    help_text = subprocess.run([built("build/canserver"), "--help"], check=True,
                               capture_output=True, text=True).stdout
    assert max(map(len, help_text.splitlines())) < 80 and len(help_text.splitlines()) < 32
    manual = (ROOT / "server" / "canserver.8").read_text().replace("\\-", "-")
    options = re.findall(r"^  (--[a-z-]+)", help_text, re.M)
    assert len(options) == 18 and all(option in manual for option in options)


def canserver(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs canserver. `before` is shell code that may change its descriptors."""
    return subprocess.run(["bash", "-c", f'{before} "$@"', "bash", built("build/canserver"),
                           *arguments], capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("arguments, why", [
    ([], "which CAN interface? Like: canserver can0"),
    (["can0", "can1"], "one CAN interface is enough: 'can1' is too many"),
    (["x" * 16], "a CAN interface has a name like can0, not 'xxxxxxxxxxxxxxxx'"),
    ([""], "a CAN interface has a name like can0, not ''"),
    (["--can-id"], "--can-id needs a value: ID"),
    *[(["--can-id", wrong, "can0"], f"not '{wrong}'") for wrong in (
        "681", "880", "20000000", "0x680", "0680", "68g", " 680", "+680", "", "000000680",
        "680:", ":680", "680:701", "680:700:780")],
    *[(["--rate", wrong, "can0"], f"--rate must be a number from 1 to 1000, not '{wrong}'")
      for wrong in ("0", "1001", "-1", "1.5", "ten", "")],
    (["--tick", "0", "can0"], "--tick must be a number from 1 to 3600000, not '0'"),
    (["--self", "64", "can0"], "--self wants a variable from 0 to 63"),
    (["--state", "", "can0"], "--state wants the name of a file"),
    (["--log", "everything", "can0"], "--log wants errors, normal or changes, not 'everything'"),
    (["--help=yes"], "--help takes no value"),
    (["--bind", "::", "can0"], "there is no option '--bind': --help lists them"),
    (["can0", "-x"], "there is no option '-x': --help lists them")])
def test_wrong_arguments(arguments: list[str], why: str) -> None:
    done = canserver(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"canserver: .*{re.escape(why)}.*\n", done.stderr), done.stderr


def test_help_and_version() -> None:
    """Neither needs an interface. Both fail if they cannot write their text."""
    assert canserver("--version").stdout == subprocess.run(
        [built("build/udpserver"), "--version"], capture_output=True,
        text=True).stdout.replace("udp", "can")
    for option, begins in (("--help", "usage: canserver "), ("--version", "canserver 1.")):
        done = canserver(option)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(begins)
        done = canserver(option, before=">/dev/full")
        assert (done.returncode, done.stderr) == (
            1, "canserver: cannot write to the standard output\n")


def test_without_can_it_says_so() -> None:
    done = canserver("nocan0")
    assert done.returncode == 1
    assert re.fullmatch(
        "canserver: cannot use nocan0: (this kernel has no CAN; modprobe can-raw may load "
                        "it|there is no such CAN interface; ip link lists them)\n", done.stderr)


@pytest.mark.parametrize("address, why", [
    ("can:", "'can:' is not a CAN interface: write it like can:can0"),
    ("can:a/b", "'can:a/b' is not a CAN interface"), ("can:" + "x" * 16, "is not a CAN interface"),
    ("can:" + "é" * 8, "is not a CAN interface"),  # 16 bytes
    ("can:" + "\udcff" * 16, "is not a CAN interface"),  # bytes that are no UTF-8 arrive like this
    ("can:can0:", "'' is not a CAN identifier: it has 3 hexadecimal digits, or 8"),
    ("can:can0:0x680", "'0x680' is not a CAN identifier"),
    ("can:can0:1680", "is not a CAN identifier"),
    ("can:can0:681", "it must be a multiple of 80 hexadecimal, like 680"),
    ("can:can0:880", "'880' cannot be the first of 128 identifiers"),
    ("can:can0:800", "'800' cannot be the first of 128 identifiers"),
    ("can:can0:20000000", "cannot be the first"),
    ("can:can0:680:1", "cannot be the identifier of this reader: it must be 6E2 to 6FF")])
def test_addresses_that_cannot_be(address: str, why: str) -> None:
    with pytest.raises(client.BadUsage, match=re.escape(why)):
        client.Agent(address)


@pytest.mark.parametrize("address, interface, base", [
    ("can:can0", "can0", 0x680), ("can:" + "x" * 15, "x" * 15, 0x680), ("can:can0:000", "can0", 0),
    ("can:can0:780", "can0", 0x780), ("can:can0:00000680", "can0", 0x80000680),
    ("can:can0:1FFFFF80", "can0", 0x9FFFFF80), ("can:can0:1fffff80", "can0", 0x9FFFFF80)])
def test_addresses_that_can_be(address: str, interface: str, base: int) -> None:
    assert client.parse_can(address) == (interface, base)


@pytest.mark.slow
def test_a_kernel_that_cannot_be_fetched_is_a_failure(monkeypatch: pytest.MonkeyPatch,
                                                      tmp_path: Path) -> None:
    """The failure has apt's reason, and no test is skipped."""
    monkeypatch.setattr(vm, "BUILD", tmp_path)
    monkeypatch.setattr(vm, "unpack",
                        lambda work, package: run(["apt-get", "download", "no-such-kernel"]))
    with pytest.raises(SystemExit, match="no-such-kernel"):
        vm.kernel.__wrapped__()


# ---- The client, with frames as from a kernel -----------------------------------------------

FRAME = struct.Struct("=LB3x8s")
BASE = 0x680
GOOD = checksummed(bytes(range(256)))


def frames_of(report: bytes) -> list[bytes]:
    parts = [report[at:at + 8] for at in range(0, len(report), 8)]
    return [FRAME.pack(BASE + 64 + at, len(part), part) for at, part in enumerate(parts)]


@pytest.fixture
def bus() -> Iterator[tuple[client.Can, socket.socket]]:
    """A reader with a socket that replaces one for CAN, and the other end of this socket."""
    reader = client.Can("can0", BASE)
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    other.settimeout(PATIENCE)
    reader._descriptor = ours.detach()
    yield reader, other
    reader.close()
    other.close()


def test_the_client_sends_what_the_specification_shows(bus: tuple[client.Can,
                                                                  socket.socket]) -> None:
    reader, other = bus
    reader.send(REQUEST)
    reader.send(client.heartbeat(3, 76, 9))
    assert other.recv(99) == FRAME.pack(0x6FF, 8, bytes.fromhex("417265796F754F4B"))
    assert other.recv(99) == FRAME.pack(0x683, 8, bytes.fromhex("0472014AF1034C09"))


def heard(bus: tuple[client.Can, socket.socket], frames: list[bytes]) -> list[bytes | str]:
    """What a reader returns for these frames: reports, and messages about broken ones."""
    reader, other = bus
    made: list[bytes | str] = []
    for frame in frames:
        other.send(frame)
        try:
            report = reader.receive(0)
        except client.BadReport as error:
            made.append(str(error))
        else:
            made += [] if report is None else [report]
    return made


def lost(at: int) -> str:
    return f"its frame {at + 1} of 33 did not come"


@pytest.mark.parametrize("at", range(33))
def test_one_frame_is_wrong(bus: tuple[client.Can, socket.socket], at: int) -> None:
    """One frame of a report is wrong. The report is dropped, and the next one is taken."""
    frames = frames_of(GOOD)
    before, one, after = frames[:at], frames[at], frames[at + 1:]
    number, length, part = FRAME.unpack(one)
    # Without the first frame, no report begins. Without the last one, the next report begins.
    assert heard(bus, [*before, *after, *frames]) == [*([lost(at)] if 0 < at < 32 else []), GOOD]
    # If the first frame comes again, the report begins again. If the last one does, it is ignored.
    assert heard(bus, [*before, one, one, *after, *frames]) == [lost(at + 1) if 0 < at < 32
                                                                else GOOD, GOOD]
    for size in {0, 4, 7, 8} - {length}:
        assert heard(bus, [*before, FRAME.pack(number, size, part), *after,
                           *frames]) == [lost(at), GOOD]


def test_two_reports_at_once(bus: tuple[client.Can, socket.socket]) -> None:
    """They come from two agents with the same identifiers, or from one that was interrupted."""
    frames, other = frames_of(GOOD), frames_of(checksummed(bytes(256)))
    mixed = [frame for pair in zip(frames, other) for frame in pair]
    assert heard(bus, mixed) == [lost(2)]
    asked = FRAME.pack(BASE + 127, 8, REQUEST)  # another reader's request is no part of a report
    assert heard(bus, [one for frame in frames for one in (asked, frame)]) == [GOOD]
    assert heard(bus, [*other[:20], *frames]) == [GOOD]
    assert heard(bus, [*other[20:], *frames]) == [GOOD]
    halves = heard(bus, [*other[:16], *frames[16:]])
    with pytest.raises(client.BadReport, match="checksum"):
        client.parse_report(b"".join(half for half in halves if isinstance(half, bytes)))


def test_a_bus_that_is_never_silent_does_not_stop_the_clock(
        bus: tuple[client.Can, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other readers send requests without end. The reader must give up as if nothing came."""
    reader, other = bus
    end = time.monotonic() + PATIENCE

    def endless(*_: int) -> bytes:
        assert time.monotonic() < end, "it goes on for ever"
        return FRAME.pack(BASE + 127, 8, REQUEST)

    other.send(b"it stays, so that there is always something")
    monkeypatch.setattr(os, "read", endless)
    assert reader.receive(0.01) is None


def test_a_bus_that_is_off_is_no_silence(bus: tuple[client.Can, socket.socket]) -> None:
    reader, other = bus
    other.send(FRAME.pack(0x20000000 | 0x40, 8, bytes(8)))
    with pytest.raises(client.NoAnswer, match="can0 is off the bus: check wiring and bit rate"):
        reader.receive(PATIENCE)
