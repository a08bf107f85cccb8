"""Reads the small files in which Linux shows its counters. They may be missing, or vanish.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from pathlib import Path

MOST = 4096  # bytes: no such file has more


def text(file: Path) -> str | None:
    """What is in the file, or nothing if it is not there or cannot be read now."""
    try:
        with file.open("rb") as opened:
            return opened.read(MOST).decode("ascii", "replace").strip()
    except OSError:
        return None


def number(file: Path) -> int | None:
    """The number in the file, or nothing if there is none."""
    found = text(file)
    if found is None or len(found) > 20 or not found.lstrip("-").isdecimal():
        return None
    try:
        return int(found)
    except ValueError:  # as in "--1"
        return None


def is_forbidden(file: Path) -> bool:
    """It is there, but not for this user."""
    try:
        file.open("rb").close()
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
