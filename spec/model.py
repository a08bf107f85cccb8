"""The protocol of SPEC.md, written a second time, without any of the C code.

The tests compare the C code with this. The checksum is zlib's."""

from __future__ import annotations

import struct
import zlib

MAGIC = 0xF1
VARIABLES = 64
REQUEST = b"AreyouOK"
REFUSED, HEARTBEAT, REPORT = range(3)
NAMES = ("refused", "heartbeat", "report")


def checksummed(rest: bytes) -> bytes:
    """The bytes with their Adler-32 in front."""
    return struct.pack(">L", zlib.adler32(rest)) + rest


def heartbeat(variable: int, sender: int, value: int, magic: int = MAGIC) -> bytes:
    return checksummed(bytes((magic, variable, sender, value)))


class Agent:
    """An agent as a list of entries. A request makes its report."""

    def __init__(self) -> None:
        self.entries = [bytes(4)] * VARIABLES
        self.checksum = bytes(4)  # That of the last report; zeros before the first.

    @classmethod
    def of_table(cls, table: bytes) -> Agent:
        agent = cls()
        agent.checksum = table[:4]
        agent.entries = [table[start:start + 4] for start in range(4, len(table), 4)]
        return agent

    def table(self) -> bytes:
        """The bytes of the C structure `dumpulse` in memory."""
        return self.checksum + b"".join(self.entries)

    def record(self, now: int, variable: int, sender: int, value: int) -> int:
        if not 0 <= variable < VARIABLES:
            return REFUSED
        self.entries[variable] = struct.pack(">HBB", now, sender, value)
        return HEARTBEAT

    def process(self, now: int, packet: bytes) -> int:
        if packet == REQUEST:
            self.checksum = checksummed(b"".join(self.entries))[:4]
            return REPORT
        if len(packet) != 8 or packet != checksummed(packet[4:]) or packet[4] != MAGIC:
            return REFUSED
        return self.record(now, *packet[5:])
