"""What values of several sections may be."""

import difflib
import re
import threading
import urllib.parse
from collections.abc import Collection
from typing import Any

from dumpulse_fleet import client
from dumpulse_fleet.model.naming import Wrong, check_name, shown

DAY = 86_400.0  # s
HTTP = ("https", "http")
WEB_PORT = 9061
LARGEST_SECRET = 65536  # bytes of a file with a password, a token or an address
MOST_SUGGESTIONS = 2_000  # A similar name is looked for among so many at most: it takes long.


class Secret(str):
    """A text that is not for logs: `repr`, which logs and messages use, does not show it."""

    def __repr__(self) -> str:
        return "'(secret)'"


def kind(value: Any) -> str:
    """What a value of TOML is, in words: its content may be secret."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text",
             dict: "a table", list: "a list"}
    return kinds.get(type(value), "a date or a time")


def text(value: Any, longest: int = 200) -> str:
    if not isinstance(value, str):
        raise Wrong(f"must be text in quotes, not {kind(value)}")
    if not value or not value.isprintable() or len(value) > longest:
        raise Wrong(f"must have 1 to {longest} characters, in one line")
    return value


def yes(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {kind(value)}")
    return value


def number(value: Any, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Wrong(f"must be a whole number, not {kind(value)}")
    if not low <= value <= high:
        raise Wrong(f"must be {low:,} to {high:,}")
    return value


def duration(value: Any, low: float, high: float, zero: bool = False) -> float:
    """Seconds."""
    if not isinstance(value, str):
        raise Wrong(f"must be a time in quotes like '10s', not {kind(value)}")
    if zero and value == "0":
        return 0.0
    seconds = client.parse_duration(value) / 1000  # BadUsage is told, too
    if not low <= seconds <= high:
        raise Wrong(f"must be {low:g} s to {high:g} s, not {seconds:g} s")
    return seconds


def check_name_of(value: Any, what: str) -> str:
    return check_name(text(value), what)


def match_of(value: Any, empty: bool = False) -> dict[str, str]:
    """Labels and globs."""
    if not isinstance(value, dict):
        raise Wrong(f"must be a table like {{ site = 'north' }}, not {kind(value)}")
    if not value and not empty:
        raise Wrong("is empty, so it would be about all agents: write { name = '*' } if it is")
    for key, glob in value.items():
        if not isinstance(glob, str) or not glob.isprintable() or not 1 <= len(glob) <= 200:
            raise Wrong(f"{shown(key)} must be text in quotes, and may have * and ? in it")
    return dict(value)


def url_of(value: Any, schemes: Collection[str]) -> Secret:
    """An address of a page. It may have a password in it, so no message repeats it."""
    try:
        parts = urllib.parse.urlsplit(text(value, 2000))
        fine = parts.scheme in schemes and parts.hostname and parts.port != 0 and " " not in value
    except ValueError:  # Brackets without an IPv6 address in them, or no port is so large.
        fine = False
    if not fine:
        raise Wrong(f"must be an address that begins with {' or '.join(f'{s}://' for s in schemes)}"
                    ", then a host")
    return Secret(value)


def page_of(address: str) -> str:
    """For a link: without what may be secret."""
    parts = urllib.parse.urlsplit(address)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def listening(value: Any) -> tuple[str, int]:
    """HOST:PORT, :PORT for every address, or [IPV6]:PORT; port 0 is any that is free."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]*)):([0-9]{1,5})", text(value))
    if match is None or int(match[3]) > 65535:
        raise Wrong(f"{shown(value)} is not HOST:PORT: write it like '127.0.0.1:{WEB_PORT}'")
    return match[1] or match[2], int(match[3])


def similar(word: str, words: Collection[str]) -> str:
    near = difflib.get_close_matches(word[:100], words, 1) if len(words) <= MOST_SUGGESTIONS else []
    return f": do you mean {near[0]!r}?" if near else ""


def read_file(path: str, most: int, reading: "threading.Lock | None" = None) -> bytes:
    """At most so many bytes; Wrong otherwise. A thread that hangs keeps others from `reading`."""
    lock = reading or threading.Lock()

    def read_start() -> bytes | None:
        if not lock.acquire(blocking=False):
            return None
        try:
            with open(path, "rb") as file:
                return file.read(most + 1)
        finally:
            lock.release()

    try:
        content = client.within(client.TIMEOUT, read_start)  # A pipe may wait for a writer.
    except (OSError, ValueError) as error:
        raise Wrong(f"cannot read {shown(path, 200)}: "
                    f"{getattr(error, 'strerror', None) or error}") from error
    if content is None:
        raise Wrong(f"cannot read {shown(path, 200)}: nothing comes from it")
    if len(content) > most:
        raise Wrong(f"{shown(path, 200)} is longer than {most:,} bytes")
    return content


def secret_in(path: str) -> str:
    """The first line of a file."""
    try:
        lines = read_file(path, LARGEST_SECRET).decode().splitlines()
    except UnicodeDecodeError as error:
        raise Wrong(f"{shown(path, 200)} is not UTF-8") from error
    if not lines or not lines[0].strip() or not lines[0].strip().isprintable():
        raise Wrong(f"{shown(path, 200)} must have the secret in its first line")
    return lines[0].strip()
