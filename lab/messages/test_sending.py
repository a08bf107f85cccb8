"""What the wire counts, and what it leaves out.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import subprocess

import pytest

from lab.messages import wire


def packet(protocol: int, flags: int, data: bytes = b"") -> bytes:
    return bytes([0x45, *bytes(8), protocol, *bytes(10)]) + bytes(
        [*bytes(12), 0x80, flags, *bytes(18)]) + data


def test_bare_acknowledgements_are_told_apart() -> None:
    assert wire.is_bare_acknowledgement(packet(6, 0x10))
    for protocol, flags, data in ((6, 0x10, b"x"), (6, 0x12, b""), (6, 0x11, b""), (17, 0x10, b"")):
        assert not wire.is_bare_acknowledgement(packet(protocol, flags, data))


@pytest.mark.parametrize("protocol, flags, last", [
    (6, 0x11, True), (6, 0x19, True), (6, 0x10, False), (6, 0x12, False), (17, 0x11, False)])
def test_the_end_of_a_connection_is_seen(protocol: int, flags: int, last: bool) -> None:
    assert wire.is_last(packet(protocol, flags)) == last


def test_no_process_is_left_when_no_network_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    begin = subprocess.Popen

    def begun(words: list[str]) -> subprocess.Popen[bytes]:
        started.append(begin(["sleep", "60"]))
        return started[-1]

    def refused(*_: object) -> int:
        raise SystemExit("no network")

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("subprocess.Popen", begun)
    monkeypatch.setattr(wire.Wire, "end", refused)
    with pytest.raises(SystemExit, match="no network"):
        wire.Wire(0)
    assert started and all(process.returncode is not None for process in started)


def test_instructions_may_differ_by_a_thousandth_and_nothing_else_may() -> None:
    """These two were counted on two days. Rounded to four digits they would differ."""
    calls, instructions = (("lab-wire", "a way", what) for what in ("system calls", "instructions"))
    before = {calls: "3000", instructions: "172954"}
    assert wire.steady(before, {calls: "3000", instructions: "172898"}) == before
    for moved in ({calls: "3001", instructions: "172954"}, {calls: "3000", instructions: "173128"},
                  {instructions: "172954"}):
        assert wire.steady(before, moved) != before
