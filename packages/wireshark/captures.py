"""Writes captures for Wireshark's programs, and reads what tshark says of them.
SPDX-License-Identifier: MIT"""

import ipaddress
import json
import os
import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ETHERNET, SOCKETCAN = 1, 227  # the link types
EXTENDED, REMOTE = 1 << 31, 1 << 30  # flags of an identifier on CAN


def pcap(to: Path, link: int, frames: Iterable[bytes], longest: int = 65535) -> Path:
    """Writes a capture. Of each frame it has the first `longest` bytes."""
    parts = [struct.pack("<LHHlLLL", 0xA1B2C3D4, 2, 4, 0, 0, longest, link)]
    for number, frame in enumerate(frames):
        kept = frame[:longest]
        parts.append(struct.pack("<LLLL", 1700000000 + number, 0, len(kept), len(frame)) + kept)
    to.write_bytes(b"".join(parts))
    return to


def udp(payload: bytes, port: int = 9060, source: str = "192.0.2.1",
        reply: bool = False) -> bytes:
    """An Ethernet frame with a UDP datagram to the port, or from it, over IPv4 or IPv6."""
    address = ipaddress.ip_address(source)
    both = address.packed + (address + 1).packed
    ports = (port, 40000) if reply else (40000, port)
    length = 8 + len(payload)  # tshark does not check the checksums of IP and UDP
    datagram = struct.pack(">HHHH", *ports, length, 0) + payload
    if address.version == 6:
        header, kind = struct.pack(">LHBB", 6 << 28, length, 17, 64) + both, 0x86DD
    else:
        header, kind = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, 17, 0) + both, 0x800
    return struct.pack(">6s6sH", bytes(6), bytes(6), kind) + header + datagram


def can(identifier: int, data: bytes, fd: bool = False) -> bytes:
    """A frame as Linux captures it."""
    head = struct.pack(">LBBBB", identifier, len(data), 4 if fd else 0, 0, 0)
    return head + data.ljust(64 if fd else 8, b"\0")


def report_frames(report: bytes, base: int) -> list[bytes]:
    return [can(base + 64 + at // 8, report[at:at + 8]) for at in range(0, len(report), 8)]


def tshark(home: Path, *arguments: str | Path, complains: str = "") -> str:
    """Runs it with a home of its own, so that no settings of the user count. `complains` must be in
    what it says on the standard error."""
    home.mkdir(exist_ok=True)
    ended = subprocess.run(["tshark", *arguments], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env={**os.environ, "HOME": str(home),
                                                        "XDG_CONFIG_HOME": str(home / "config")})
    said = [line for line in ended.stderr.splitlines() if not line.startswith("Running as user")]
    assert ended.returncode == 0 and bool(said) == bool(complains), ended.stderr
    assert complains in ended.stderr
    return ended.stdout


def dissected(script: Path, capture: Path, home: Path, fields: Sequence[str],
              *options: str) -> list[dict[str, list[str]]]:
    """What tshark says of each frame: the values of these fields."""
    shown = json.loads(tshark(home, "-X", f"lua_script:{script}", "-r", capture, "-T", "json",
                              *[word for field in fields for word in ("-e", field)], *options))
    layers: list[dict[str, Any]] = [frame["_source"].get("layers", {}) for frame in shown]
    return [{name: list(map(str, values)) for name, values in layer.items()} for layer in layers]
