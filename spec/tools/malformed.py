"""Packets that are nearly right, in a short form, which is in the files of vectors, and in a long
one."""

from __future__ import annotations

import random
from collections.abc import Iterator

PADDING = random.Random(7).randbytes(300)


def changed(packet: bytes, long: bool) -> Iterator[bytes]:
    """Each byte with one bit flipped; the long form: each byte with all other values."""
    for index, original in enumerate(packet):
        for byte in range(256) if long else (original ^ 1 << bit for bit in range(8)):
            if byte != original:
                yield packet[:index] + bytes((byte,)) + packet[index + 1:]


def lengths(packet: bytes, long: bool) -> Iterator[bytes]:
    """The packet with its end missing, and with more behind it. The short form has the lengths
    around those of packets and reports, and around 256."""
    for length in range(301) if long else (0, 1, 4, 7, 9, 16, 255, 256, 257, 260, 264, 300):
        if length != len(packet):
            yield (packet + PADDING)[:length]
