"""Makes the DBC file, which tells CAN tools what each frame of Dumpulse has."""

import re
from collections.abc import Iterator
from pathlib import Path

from packages import project
from packages.making import Failed
from spec import model

BASE = "680"
VARIABLES, IDENTIFIERS = model.VARIABLES, 128
FIRST_OF_REPORT, REQUEST = 64, 127  # from the base
MAGIC, ARE_YOU_OK = model.MAGIC, int.from_bytes(model.REQUEST, "big")
EXTENDED = 1 << 31  # the flag of an identifier of 29 bits


def signal(name: str, byte: int, size: int, lowest: int, highest: int, to: str) -> str:
    """A number of some bytes, big-endian. A DBC file counts bits so that the highest bit of byte n
    is 8 * n + 7."""
    return f' SG_ {name} : {8 * byte + 7}|{8 * size}@0+ (1,0) [{lowest}|{highest}] "" {to}'


def entry(variable: int, byte: int) -> list[str]:
    return [signal(f"Timestamp_{variable}", byte, 2, 0, 65535, "Reader"),
            signal(f"Sender_{variable}", byte + 2, 1, 0, 255, "Reader"),
            signal(f"Value_{variable}", byte + 3, 1, 0, 255, "Reader")]


def checksum(to: str) -> str:
    return signal("Checksum", 0, 4, 0, 2**32 - 1, to)


def messages() -> Iterator[tuple[int, str, int, str, list[str]]]:
    """The offset from the base, the name, the length, the sender and the signals of each frame."""
    for variable in range(VARIABLES):
        yield variable, f"Heartbeat_{variable}", 8, "Node", [
            checksum("Agent"), signal("Magic", 4, 1, MAGIC, MAGIC, "Agent"),
            signal("Variable", 5, 1, variable, variable, "Agent"),
            signal("Sender", 6, 1, 0, 255, "Agent"), signal("Value", 7, 1, 0, 255, "Agent")]
    # The checksum takes the place of an entry, so frame k has the entries 2k - 1 and 2k.
    for frame in range(VARIABLES // 2 + 1):
        first = [checksum("Reader")] if frame == 0 else entry(2 * frame - 1, 0)
        second = entry(2 * frame, 4) if 2 * frame < VARIABLES else []
        yield (FIRST_OF_REPORT + frame, f"Report_{frame}", 8 if second else 4, "Agent",
               first + second)
    yield REQUEST, "Request", 8, "Reader", [
        signal("AreYouOK", 0, 8, ARE_YOU_OK, ARE_YOU_OK, "Agent")]


def first_of(base: str) -> int:
    """The first of 128 identifiers as a DBC file has it."""
    if not re.fullmatch(r"[0-9a-fA-F]{3}|[0-9a-fA-F]{8}", base):
        raise Failed(f"{base!r} has neither 3 hexadecimal digits nor 8")
    number, extended = int(base, 16), len(base) == 8
    if number % IDENTIFIERS or number >= 1 << (29 if extended else 11):
        raise Failed(f"{base!r} cannot be the first of {IDENTIFIERS} identifiers: it must be "
                         f"a multiple of {IDENTIFIERS:x} hexadecimal, like {BASE}")
    return number | EXTENDED * extended


def text(base: str = BASE, reports: str = "") -> str:
    heartbeats, others = first_of(base), first_of(reports or base)
    lines = [f'VERSION "{project.version()}"', "", "NS_ :", "", "BS_:", "",
             "BU_: Node Agent Reader", ""]
    for offset, name, length, sender, signals in messages():
        first = heartbeats if offset < FIRST_OF_REPORT else others
        lines += [f"BO_ {first + offset} {name}: {length} {sender}", *signals, ""]
    lines.append(f'CM_ "{project.SUMMARY}. A checksum is Adler-32 of the bytes that follow it: in '
                 f'a heartbeat 4, in a report 256.";')
    return "\n".join(lines) + "\n"


def build(to: Path, base: str = BASE, reports: str = "") -> list[Path]:
    path = to / "dumpulse.dbc"
    path.write_text(text(base, reports))
    return [path]
