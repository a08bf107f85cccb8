"""Reads the small files in which Linux shows its counters. They may be missing, or vanish."""

import os
from pathlib import Path
from typing import BinaryIO

MOST = 4096  # bytes: no such file has more


def opened(file: Path) -> BinaryIO:
    """Nothing is waited for, as somebody's own folder may have a FIFO there."""
    return open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))


def text(file: Path) -> str | None:
    """What is in the file, or nothing if it cannot be read now. It may be shown on a terminal."""
    try:
        with opened(file) as now:
            content = now.read(MOST) or b""
    except OSError:
        return None
    return "".join(filter(str.isprintable, content.decode("ascii", "replace").strip()))


def number(file: Path) -> int | None:
    """The number in the file, or nothing if there is none."""
    digits = text(file)
    if digits is None or len(digits) > 20 or not digits.lstrip("-").isdecimal():
        return None
    try:
        return int(digits)
    except ValueError:  # "--1" is such a text.
        return None


def is_forbidden(file: Path) -> bool:
    """It is there, but not for this user."""
    try:
        opened(file).close()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def folders(place: Path) -> list[Path]:
    """In the order of their names; none, if the place is not there."""
    try:
        return sorted(place.iterdir())
    except OSError:
        return []
