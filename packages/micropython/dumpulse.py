"""Dumpulse for MicroPython and CircuitPython: a node and a reader.   SPDX-License-Identifier: MIT

Copy this file to the board: `mpremote cp dumpulse.py :` does it, and on CircuitPython its drive has
the folder `lib`. CircuitPython has not run it yet. A node:

    import dumpulse
    uart.write(dumpulse.heartbeat(7, 1, battery_volts))  # variable, sender, value

A reader sends dumpulse.REQUEST, and gets 260 bytes:

    for variable, (timestamp, sender, value) in dumpulse.entries(packet).items():
        print(variable, value)

On a serial line, read() waits only if machine.UART has a timeout, such as timeout=500 (ms). Drop
what has come before (while uart.any(): uart.read(1)), send the request, and uart.read(260). There
is no agent here. This is version 1 of the protocol: without keys, anyone on the network can set
any variable.
"""

__version__ = "@version@"
REQUEST = b"AreyouOK"
REPORT_SIZE = 260


def checksum(data: bytes) -> bytes:
    """Adler-32 of at most 256 bytes. No number here has more than 24 bits."""
    a, b = 1, 0
    for byte in data:
        a += byte
        b += a
    b %= 65521
    return bytes((b >> 8, b & 255, a >> 8, a & 255))


def heartbeat(variable: int, sender: int, value: int) -> bytes:
    """The 8 bytes to send. The sender should not be 0."""
    if not (0 <= variable < 64 and 0 <= sender < 256 and 0 <= value < 256):
        raise ValueError("a variable is 0 to 63, a sender and a value are 0 to 255")
    rest = bytes((0xF1, variable, sender, value))
    return checksum(rest) + rest


def is_report(packet: bytes) -> bool:
    return len(packet) == REPORT_SIZE and checksum(packet[4:]) == packet[:4]


def entries(packet: bytes) -> dict[int, tuple[int, int, int]]:
    """Of a report: the timestamp, the sender and the value of each variable that was ever set."""
    if not is_report(packet):
        raise ValueError("this is no report, or it is damaged: ask again")
    by_variable: dict[int, tuple[int, int, int]] = {}
    for variable in range(64):
        high, low, sender, value = packet[4 + 4 * variable:8 + 4 * variable]
        if high or low or sender or value:
            by_variable[variable] = high << 8 | low, sender, value
    return by_variable
