#!/usr/bin/env python3
"""Polls Dumpulse agents: a command and a module in one file.   SPDX-License-Identifier: MIT

It needs Python 3.9 or later and nothing else. `client.py --help` explains the command.
This is how a program uses the module. After `make install`, write `import dumpulse as client`:

    import client

    agent = client.Agent("localhost:9060")          # or "serial:/dev/ttyACM0@115200" or "can:can0",
                                                    # with keys=client.KeyFile("agent.key")
    agent.beat(variable=3, sender=76, value=9)      # ValueError: out of range; NoAnswer
    entries = agent.ask(timeout=3.0)                # 64 of them; NoAnswer, BadReport
    now = client.clock(tick_ms=1000)                # or entries[0].timestamp, if the agent
    if not entries[3].never:                        # stamps itself as variable 0
        print(entries[3].value, client.age(now, entries[3].timestamp))
    async for change in agent.changes(names="vehicle.ini"):      # or await agent.ask_async()
        print(change.error, [(one.variable.name, one.state) for one in change.readings])

`heartbeat` and `parse_report` make and read packets. `History` keeps ages longer than timestamps.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import dataclasses
import errno
import hmac
import importlib
import io
import itertools
import json
import math
import os
import random
import re
import select
import selectors
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
import unicodedata
import zlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, Optional, Protocol, TypeVar, Union

try:
    import fcntl
    import termios
except ImportError:  # Windows: `watch` prints lines there, and serial lines need pyserial
    termios = None  # type: ignore[assignment]

__all__ = ["Agent", "BadReport", "BadUsage", "Change", "Clock", "Entries", "Entry", "Error",
           "History", "KeyFile", "NoAnswer", "Reading", "Settings", "Variable", "age", "clock",
           "heartbeat", "interpret", "make_settings", "parse_report"]
VERSION = __version__ = "1.0.0-rc1"
KEYS_VERSION = "0.2.0"  # Keys are experimental.
PROGRAM = "client.py"  # main() changes it to the name that the user typed
PORT = 9060
MAGIC = 0xF1
VARIABLES = 64
REQUEST = b"AreyouOK"
REPORT_SIZE = 4 + VARIABLES * 4
WRAP = 65536  # ticks until a timestamp repeats
SKEW = 64     # ticks that a timestamp may be ahead of our clock
JUMP_MS = 5_000  # a clock may seem to jump by this much, because answers take time

# ---------------------------------------------------------------- packets
# Heartbeats, requests and reports of version 1, their times, and what can be wrong with them. Each
# part of this file uses only parts above it.
def hide_keys(text: str) -> str:
    """Shows * for what may be a key that was typed in the place of something else."""
    return re.sub("[0-9a-fA-F]{32,}", lambda key: "*" * len(key[0]), text)


class Error(Exception):
    """A problem with an agent, as one line for the user. The line may repeat what the user typed,
    but shows no key. A line that is too long loses its middle."""
    LONGEST = 600  # characters
    STATUS = 2  # the exit status of the command

    def __init__(self, text: str) -> None:
        line, half = hide_keys(text), self.LONGEST // 2
        super().__init__(line if len(line) <= self.LONGEST else f"{line[:half]} ... {line[-half:]}")


class BadUsage(Error, argparse.ArgumentTypeError):
    """An address or a setting is wrong."""


class NoAnswer(Error):
    """Nothing came, or the network reported an error."""
    STATUS = 3


class BadReport(Error):
    """What came is not a report of this agent. `cause` is length or checksum; of an agent
    with a key also tag, beacon, old, refused or full."""
    STATUS = 4

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class Entry(NamedTuple):
    """The last heartbeat of one variable."""
    timestamp: int
    sender: int
    value: int

    @property
    def never(self) -> bool:
        return self == (0, 0, 0)


Entries = tuple[Entry, ...]


def heartbeat(variable: int, sender: int, value: int) -> bytes:
    """The 8 bytes that a node sends."""
    for what, number, largest in (("variable", variable, VARIABLES - 1), ("sender", sender, 255),
                               ("value", value, 255)):
        if not 0 <= number <= largest:
            raise ValueError(f"a {what} is 0 to {largest}, not {number}")
    body = bytes((MAGIC, variable, sender, value))
    return struct.pack(">L", zlib.adler32(body)) + body


def parse_report(packet: bytes) -> Entries:
    """The 64 entries of a report, after its length and checksum are checked."""
    if len(packet) != REPORT_SIZE:
        raise BadReport("length", f"it is {len(packet)} bytes long, not {REPORT_SIZE}")
    (claimed,) = struct.unpack_from(">L", packet)
    computed = zlib.adler32(packet[4:])
    if claimed != computed:
        raise BadReport("checksum", f"its checksum is {claimed:08x}, not {computed:08x}")
    return unchecked_entries(packet)


def unchecked_entries(packet: bytes) -> Entries:
    """The 64 entries of a report, without a check."""
    return tuple(Entry(*fields) for fields in struct.iter_unpack(">HBB", packet[4:]))


def age(now: int, timestamp: int) -> int:
    """Ticks since a timestamp, 0 to WRAP - SKEW - 1."""
    ticks = (now - timestamp) % WRAP
    return ticks if ticks < WRAP - SKEW else 0


def clock(tick_ms: int) -> int:
    """This machine's time as agents on Linux count it: the last 16 bits of Unix time in ticks."""
    return time.time_ns() // (tick_ms * 1_000_000) % WRAP


def measure_jump(before: int, now: int, passed_ms: int, tick_ms: int) -> int:
    """Ticks by which a clock moved too far; 0 if the difference is no more than usual."""
    ticks = (now - before - round(passed_ms / tick_ms) + WRAP // 2) % WRAP - WRAP // 2
    return ticks if abs(ticks) > max(SKEW, JUMP_MS // tick_ms) else 0


# ---------------------------------------------------------------- helpers
# What Python lacks: signals, files that are replaced or kept private, and texts for users.
FILE_MAX = 65536  # bytes of a file of names, or of --memory
# Windows has only the first of these.
ENDING = {getattr(signal, name, signal.SIGTERM) for name in ("SIGTERM", "SIGHUP", "SIGQUIT")}


def on_signal(number: int, *_: object) -> NoReturn:
    """Ends the program as an exception does, so that everything is closed on the way."""
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + signal.SIGTERM)


def uptime() -> float:
    """Seconds of a clock that is never set, and that runs while this machine sleeps."""
    if sys.platform == "win32":
        return time.monotonic()
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def complain(text: str, program: str = "") -> None:
    """Prints to the standard error, if there is one and it can be written."""
    if sys.stderr:
        try:
            print(f"{program or PROGRAM}: {text}", file=sys.stderr)
        except OSError:
            discard(sys.stderr)


def discard(stream: Any) -> None:
    """Drops what is still in the buffer. Otherwise Python tries to write it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def explain(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error.args[-1])


@contextlib.contextmanager
def explained(what: str, kind: type[Error] = Error) -> Iterator[None]:
    """Errors of the system, and names that no file can have, become a line for the user."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise kind(f"{what}: {explain(error)}") from error


def replace_file(path: str, content: bytes, fresh: bool = False) -> None:
    """Writes a file whole, or leaves the old one. Only the owner can read it. `fresh`: there must
    be no old one. Its content is on the disk when this returns, even if the power fails then."""
    descriptor, new = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), path) \
        if fresh else tempfile.mkstemp("", f"{os.path.basename(path)}.", os.path.dirname(path))
    try:
        with open(descriptor, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)  # whatever the umask is
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        if not fresh:
            os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def sync_folder(path: str) -> None:
    """Now the names of its files are on the disk, too."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot do it
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def user() -> int:
    """On Windows, all files are of user 0, and their modes mean nothing."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def read_own(path: str, flags: int, refuse: Callable[[os.stat_result], str]) -> bytes:
    """The start of a file. BadUsage: it is not a regular one, or refuse() returns a reason."""
    with open(path, "rb", opener=lambda name, usual: os.open(name, usual | flags)) as file:
        about = os.fstat(file.fileno())
        reason = refuse(about) if stat.S_ISREG(about.st_mode) else "it is not a regular file"
        if reason:
            raise BadUsage(f"cannot use {path!r}: {reason}")
        return file.read(FILE_MAX + 1)


def format_age(duration_ms: int, at_least: bool = False) -> str:
    """At most eight characters for an age with any tick. After > it is rounded down."""
    hours = duration_ms >= 100_000_000
    if at_least:
        return f">{duration_ms // 3_600_000} h" if hours else f">{duration_ms // 1000} s"
    return f"{duration_ms / 3_600_000:.6g} h" if hours else f"{format_seconds(duration_ms)} s"


def format_seconds(duration_ms: int) -> str:
    """Seconds without an exponent."""
    return f"{duration_ms / 1000:.3f}".rstrip("0").rstrip(".")


# ---------------------------------------------------------------- waiting
# What waits is a generator. It yields files and a time.monotonic(), and continues when one of them
# is ready to be read, at that time, or earlier. So the same code runs in a thread and in asyncio.
TIMEOUT = 3.0  # seconds, the default
LONGEST_WAIT = 1e6  # seconds; poll() and select() count milliseconds in 31 bits
POLL_WAIT = 0.02  # seconds between two looks at what no selector can wait for
Result = TypeVar("Result")
Steps = Generator[tuple[Sequence[Any], float], None, Result]


def time_left(end: float) -> float:
    return min(max(0.0, end - time.monotonic()), LONGEST_WAIT)


def collect(steps: Steps[Result], results: list[Result]) -> Steps[None]:
    """The same steps, whose result is in the list afterwards."""
    results.append((yield from steps))


def wait(steps: Steps[Result]) -> Result:
    """Runs steps in this thread."""
    results: list[Result] = []
    with contextlib.closing(collect(steps, results)) as pending:
        for files, end in pending:
            if not files:
                time.sleep(time_left(end))
                continue
            with selectors.DefaultSelector() as ready:
                for file in files:
                    ready.register(file, selectors.EVENT_READ)
                ready.select(time_left(end))
    return results[0]


async def wait_async(steps: Steps[Result]) -> Result:
    """Runs steps as a part of this task. If it is cancelled, they end at once."""
    import asyncio  # which takes longer than all else that the command imports
    loop = asyncio.get_running_loop()
    results: list[Result] = []
    with contextlib.closing(collect(steps, results)) as pending:
        for files, end in pending:
            ready, seconds = asyncio.Event(), time_left(end)
            with contextlib.ExitStack() as stack:
                try:
                    for file in files:
                        loop.add_reader(file, ready.set)
                        stack.callback(loop.remove_reader, file)
                except NotImplementedError:  # Windows' Proactor loop
                    seconds = min(seconds, POLL_WAIT)
                stack.callback(loop.call_later(seconds, ready.set).cancel)
                await ready.wait()
    return results[0]


def run_apart(end: float, work: Callable[[], Result]) -> Steps[Optional[Result]]:
    """What work() returns, or None if it takes longer. It runs in a thread, as it may hang."""
    results: list[Result] = []
    errors: list[BaseException] = []
    reader, writer = socket.socketpair()

    def run() -> None:
        with writer:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)

    with reader:
        threading.Thread(target=run, daemon=True).start()
        while not (results or errors) and time.monotonic() < end:
            yield [reader], end
    for error in errors:
        raise error
    return results[0] if results else None


def within(seconds: float, work: Callable[[], Result]) -> Optional[Result]:
    """The same in this thread."""
    return wait(run_apart(time.monotonic() + seconds, work))


def locking(descriptor: int, end: float) -> Steps[None]:
    """Waits for a lock. BlockingIOError: another program has it until the end."""
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        yield (), time.monotonic() + 0.01


# ---------------------------------------------------------------- what users type
# Parsers of numbers, times, ranges and names. They raise BadUsage.
TICK_MS_MAX = 3_600_000
DURATION_MS_MAX = 100_000 * 3_600_000  # longer than the wrap with the longest tick
UNITS_MS = {"ms": 1, "s": 1_000, "": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000}


def parse_number(text: str, low: int, high: int, what: str = "") -> int:
    if not re.fullmatch(r"[0-9]{1,9}|0[xX][0-9a-fA-F]{1,8}", text):
        raise BadUsage(f"{what}{text!r} is not a number from {low} to {high}")
    number = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    if not low <= number <= high:
        raise BadUsage(f"{what}{text} is out of range: it must be {low} to {high}")
    return number


def parse_duration(text: str, most: int = DURATION_MS_MAX, what: str = "time") -> int:
    """Milliseconds."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|min|m|h|)", text)
    duration = round(float(match[1]) * UNITS_MS[match[2]]) if match else 0
    if not 1 <= duration <= most:
        raise BadUsage(f"{text!r} is not a {what}: write it like 500ms, 5s, 2min or 1h")
    return duration


parse_variable = partial(parse_number, low=0, high=VARIABLES - 1, what="variable ")
parse_port = partial(parse_number, low=1, high=65535, what="port ")
parse_byte = partial(parse_number, low=0, high=255)
parse_tick = partial(parse_duration, most=TICK_MS_MAX, what="tick, at most 1h")


def parse_range(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    if not dots:
        raise BadUsage(f"{text!r} is not a range of values: write it like 0..80")
    limits = parse_byte(low.strip()), parse_byte(high.strip())
    if limits[0] > limits[1]:
        raise BadUsage(f"no value is in {text}: write the lower one first")
    return limits


def parse_name(text: str) -> str:
    """No character of a name has a special meaning, is invisible, or is two columns wide."""
    if not 1 <= len(text) <= 24 or re.fullmatch(r"[0-9-]+", text) or any(
            not (character.isalnum() or character in " ._-/+()")
            or unicodedata.east_asian_width(character) in "WF"
            or character in "\u1160\uffa0" for character in text):  # fillers, which are invisible
        raise BadUsage(f"{text!r} is not a name")
    return text


def parse_file(text: str) -> str:
    if not text:
        raise BadUsage("the name of the file is empty")
    return text


# ---------------------------------------------------------------- names and deadlines
# Makes the settings of all variables from options and the file of names.
WARN_MS, CRIT_MS = 5_000, 30_000  # deadlines, unless the user gives others


@dataclasses.dataclass
class Variable:
    """The settings of a variable."""
    number: int
    name: str = ""
    listed: bool = False  # It has a section in the file of names.
    expected: bool = False  # It must be alive.
    authenticated: Optional[bool] = None  # None: without a key, no variable is
    warn_ms: int = WARN_MS
    crit_ms: int = CRIT_MS
    low: int = 0
    high: int = 255
    warn_low: int = 0  # low <= warn_low <= warn_high <= high
    warn_high: int = 255
    boots: Optional[int] = None  # the variable that carries its boot count
    is_boot_count: bool = False  # it carries that of another variable

    @property
    def label(self) -> str:
        return f"{self.number} {self.name}".strip()

    @property
    def is_unkeyed(self) -> bool:
        """A variable of an agent with keys that has none: its heartbeats can be forged."""
        return self.authenticated is False


class Settings(NamedTuple):
    variables: list[Variable]
    tick_ms: int
    now_from: Optional[int]  # The variable that has the agent's time, if there is one.


def parse_variables(text: str, variables: Sequence[Variable]) -> list[int]:
    """Numbers, ranges of numbers, and names: 3,7-12,engine. No text is none of them."""
    numbers: list[int] = []
    for part in (part.strip() for part in text.split(",") if text):
        named = [variable.number for variable in variables if variable.name == part != ""]
        match = re.fullmatch(r"([0-9][^-]*)(?:-(.+))?", part)
        if not match and not named:
            raise BadUsage(f"{part!r} is not a variable: write it like 3,7-12, or a name")
        if match and not named:
            first, last = (parse_variable(bound or match[1]) for bound in match.groups())
            if first > last:
                raise BadUsage(f"{part} is empty: write the lower one first")
            named = [*range(first, last + 1)]
        numbers += named
    return numbers


Keys = dict[str, Any]
Range = tuple[int, int]
OfFile = dict[str, tuple[Callable[[str], Any], str]]  # The parser and the form of each key.
TIME = (parse_duration, "a time like 500ms, 5s, 2min or 1h")
RANGE = (parse_range, "two values of 0 to 255 like 0..80, the lower one first")
YES_OR_NO = ({"yes": True, "no": False}.__getitem__, "yes or no")
GENERAL: OfFile = {"tick": (parse_tick, "a time of 1 ms to 1 h, like 500ms"), "warn": TIME,
                   "crit": TIME, "now-from": (parse_variable, "a variable, 0 to 63")}
OF_A_VARIABLE: OfFile = {
    "name": (parse_name, "1 to 24 letters, digits, spaces and ._-/+(), with a letter"),
    "warn": TIME, "crit": TIME, "value": RANGE, "value-warn": RANGE, "expect": YES_OR_NO,
    "authenticated": YES_OR_NO, "boots": (parse_variable, "a variable")}


def read_names(path: str) -> tuple[Keys, dict[int, Keys]]:
    """The section [dumpulse] of a file of names, and the sections of variables, all checked. What
    is wrong is said without what the file has there: it may be a file of keys."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), default_section="",
                                       empty_lines_in_values=False)
    try:
        parser.read_string(read_text(path), path)
    except configparser.Error as error:
        line = getattr(error, "lineno", None) or getattr(error, "errors", [(1,)])[0][0]
        problem = "is a duplicate" if hasattr(error, "section") else \
            "is neither a section like [3] nor a key and a value like: name = engine"
        raise BadUsage(f"{path!r}, line {line}: this {problem}") from None
    sections: dict[int, Keys] = {}
    for place, section in enumerate(parser.sections(), 1):
        try:
            number = -1 if section == "dumpulse" else parse_variable(section)
        except BadUsage:
            raise BadUsage(f"{path!r}: section {place} is neither [dumpulse] nor a "
                           "variable's number like [3]") from None
        where, allowed = f"{path!r}, [{section}]", GENERAL if number < 0 else OF_A_VARIABLE
        if number in sections:
            raise BadUsage(f"{where}: this variable has a section already")
        keys = sections[number] = {}
        for position, (key, text) in enumerate(parser[section].items(), 1):
            if key not in allowed:
                raise BadUsage(f"{where}: key {position} is unknown: use {', '.join(allowed)}")
            parse, what = allowed[key]
            try:
                keys[key] = parse(text)
            except (BadUsage, KeyError):
                raise BadUsage(f"{where}: {key} must be {what}") from None
    general = sections.pop(-1, {})
    check_sections(path, sections)
    return general, sections


def check_sections(path: str, sections: dict[int, Keys]) -> None:
    """BadUsage: two variables have one name, or a boot count is not that of one node."""
    names: dict[str, int] = {}
    for number, keys in sections.items():
        if names.setdefault(keys.get("name", f"{number}"), number) != number:
            raise BadUsage(f"{path!r}: {names[keys['name']]} and {number} have the same name")
    carried = [keys["boots"] for keys in sections.values() if "boots" in keys]
    for number, keys in sections.items():
        boots = keys.get("boots")
        if boots is not None and (boots == number or carried.count(boots) > 1
                                  or sections.get(boots, {"expect": False}).get("expect", True)):
            raise BadUsage(f"{path!r}, [{number}]: boots must be another variable, of no other "
                           "node, and not one that is expected to be alive")


def read_text(path: str) -> str:
    """The content of a file of names. BadUsage: it cannot be one."""
    def read_start() -> bytes:
        with open(path, "rb") as file:
            return file.read(FILE_MAX + 1)
    with explained(f"cannot read {path!r}", BadUsage):
        content = within(TIMEOUT, read_start)  # a pipe may wait for a writer
        if content is None:
            raise TimeoutError(f"no data within {TIMEOUT:g} s")
    if len(content) > FILE_MAX:
        raise BadUsage(f"{path!r} is not a file of names: it is longer than {FILE_MAX} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadUsage(f"{path!r}: byte {error.start} is not UTF-8") from error


def make_settings(options: argparse.Namespace) -> Settings:
    """From the command line and the file of names. The command line wins."""
    typed = {key: value for key, value in vars(options).items() if value is not None}
    general, sections = read_names(typed["names"]) if "names" in typed else ({}, {})
    variables = [Variable(number, sections.get(number, {}).get("name", ""), number in sections)
                 for number in range(VARIABLES)]
    expected = parse_variables(typed["expect"], variables) if "expect" in typed else \
        [number for number, section in sections.items() if section.get("expect", True)]
    unkeyed = [number for number, section in sections.items()
               if not section.get("authenticated", True)]
    if "also_unkeyed" in typed:
        if "key" not in typed:
            raise BadUsage("--also-unkeyed is for agents with keys: give --key, too")
        unkeyed += parse_variables(typed["also_unkeyed"], variables)
    tick_ms: int = {**general, **typed}.get("tick", 1_000)
    longest = (WRAP - SKEW - 1) * tick_ms  # no age is longer, so a deadline must be shorter
    for variable in variables:
        section = sections.get(variable.number, {})
        variable.expected = variable.number in expected
        variable.authenticated = variable.number not in unkeyed if "key" in typed else None
        variable.boots = section.get("boots")
        if variable.boots is not None:
            variables[variable.boots].is_boot_count = True
        value: Range = section.get("value", (0, 255))
        warn: Range = section.get("value-warn", value)
        (variable.low, variable.high), (variable.warn_low, variable.warn_high) = value, warn
        if not value[0] <= warn[0] <= warn[1] <= value[1]:
            raise BadUsage(f"variable {variable.label}: value-warn, {warn[0]}..{warn[1]}, "
                           f"is not within value, {value[0]}..{value[1]}")
        keys = {**general, **section, **typed}
        # Name the variable only if it has its own deadlines.
        who = f"variable {variable.label}: " if {"warn", "crit"} & {*section} else ""
        # A deadline that the user gives may change the default of the other one.
        crit = keys.get("crit")
        variable.warn_ms = keys.get("warn") or min(WARN_MS, crit or WARN_MS)
        variable.crit_ms = crit or max(CRIT_MS, variable.warn_ms)
        late, dead = format_age(variable.warn_ms), format_age(variable.crit_ms)
        if variable.warn_ms > variable.crit_ms:
            raise BadUsage(f"{who}warn, {late}, is longer than crit, {dead}")
        if variable.crit_ms >= longest:
            raise BadUsage(f"{who}crit, {dead}, is never reached: with this tick, ages end at "
                           f"{format_age(longest)}")
    now_from = parse_one(typed["now_from"], variables, "only one is the clock") \
        if "now_from" in typed else general.get("now-from")
    return Settings(variables, tick_ms, now_from)


def parse_one(text: str, variables: Sequence[Variable], why: str) -> int:
    (number, *rest) = parse_variables(text, variables)
    if rest:
        raise BadUsage(f"{text!r} is more than one variable: {why}")
    return number


# ---------------------------------------------------------------- the agent's clock
# Finds out whether the timestamps of a report may be of this machine's clock.
FRESH_TICKS, FRESH_MS = 5, 2_000  # "just now" is the longer of these


class Clock:
    """The agent's clock: a variable of its own, or this machine's clock if that may be the same.

    A report does not contain the agent's time. But if an entry has changed between two reports,
    the agent has stamped it after our first request. If our clock cannot have made this
    timestamp, the agent has another one, and ages are unknown.
    """
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.source = "here" if settings.now_from is None else "now-from"
        self.agreed = settings.now_from is not None  # False: the clock here may be the wrong one
        self.is_other = False  # It is the wrong one.
        self.now: Optional[int] = None  # Ticks, at the last report.
        self.entries: Entries = ()  # The last report.
        self.asked: float  # The uptime() of the request for it.
        self.received: float  # The uptime() of its arrival.

    def take(self, entries: Entries, asked: float, received: float) -> None:
        if self.settings.now_from is None:
            local_now = clock(self.settings.tick_ms)
            self._compare(entries, received, local_now)
            is_known = self.agreed or bool(self.entries) and not self.is_other
            self.now = local_now if is_known else None
        else:
            stamp = entries[self.settings.now_from]
            self.now = None if stamp.never else stamp.timestamp
        self.entries, self.asked, self.received = entries, asked, received

    def _compare(self, entries: Entries, received: float, local_now: int) -> None:
        tick_ms = self.settings.tick_ms
        stamps = [new.timestamp for old, new in zip(self.entries, entries)
                  if old != new and not new.never]
        oldest = max(FRESH_TICKS, FRESH_MS // tick_ms)
        span = math.ceil((received - self.asked) * 1000 / tick_ms) + 1 if stamps else WRAP
        is_change = span < WRAP // 2
        if is_change:  # The newest counts: an agent that has loaded a table has older ones, too.
            stamps = [max(stamps, key=lambda stamp: (stamp - stamps[0] + WRAP // 2) % WRAP)]
            oldest += span
        elif self.agreed or self.is_other:
            return
        else:
            stamps = [entry.timestamp for entry in entries if not entry.never]
        self.agreed = not stamps or any(
            (local_now - stamp + SKEW) % WRAP <= SKEW + oldest for stamp in stamps)
        self.is_other = is_change and not self.agreed

    def __str__(self) -> str:
        """What the ages depend on."""
        variable = self.settings.now_from
        if self.source == "now-from":
            return f"ages by variable {variable}" if self.now is not None else \
                f"no ages: variable {variable}, the agent's clock, was never received"
        if self.is_other:
            return "no ages: the agent has another clock: give --now-from, or the right --tick"
        if self.now is None:
            return "no ages yet: by this machine's clock, nothing is new"
        doubt = "" if self.agreed else ", wrong if the agent has another"
        return f"ages by this machine's clock{doubt}"


# ---------------------------------------------------------------- ages that outlast the wrap
# Keeps how long an entry has not changed.
class Unchanged(NamedTuple):
    """An entry, and since when it is like this."""
    entry: Entry
    since_ms: int  # the uptime() of the first report with it
    age_ms: Optional[int]  # its age in that report, if the clock was the same as now


class History:
    """How long entries have not changed. 16 bits of a timestamp do not show this.

    An entry that does not change gets older by the time that passes here, whatever the agent's
    clock does meanwhile. One case looks the same: a node beats again at the same timestamp, a
    whole number of wraps later, with no poll in between.
    """
    def __init__(self) -> None:
        self.entries: dict[int, Unchanged] = {}  # The keys are variables.
        self.basis = ""  # The clock of the ages.
        self.now: Optional[int] = None  # Its time at the last report, in ticks.
        self.at_ms = 0  # The uptime() of the last report.
        self.renewed: set[int] = set()  # variables that got another entry since the report before

    def ages(self, agent_clock: Clock) -> list[Optional[int]]:
        """In ms, at the clock's last report."""
        tick_ms, now = agent_clock.settings.tick_ms, agent_clock.now
        asked_ms, received_ms = int(agent_clock.asked * 1000), int(agent_clock.received * 1000)
        basis = f"{agent_clock.source} {agent_clock.settings.now_from} {tick_ms}"
        if basis != self.basis:
            self.now, self.entries = None, {number: old._replace(age_ms=None)
                                            for number, old in self.entries.items()}
        before, is_first = self.entries.copy(), not self.basis
        if self._has_restarted(agent_clock, received_ms):
            self.entries = {}
        close = max(SKEW * tick_ms, JUMP_MS)  # clocks may differ by this much
        self.renewed = set()  # an agent that has loaded an older table reports older entries
        ages: list[Optional[int]] = []
        for number, entry in enumerate(agent_clock.entries):
            age_ms = None if entry.never or now is None else age(now, entry.timestamp) * tick_ms
            old = self.entries.pop(number, None)
            if old is None or old.entry != entry:
                old = Unchanged(entry, received_ms, age_ms)
            passed = max(0, asked_ms - old.since_ms) // tick_ms * tick_ms
            if old.age_ms is None and age_ms is not None:
                old = old._replace(age_ms=max(0, age_ms - passed))
            least_ms = (old.age_ms or 0) + passed
            if age_ms is not None and age_ms not in range(least_ms, least_ms + close + 1):
                age_ms = least_ms  # the timestamp has wrapped, or a clock was set
            if not entry.never:
                self.entries[number] = old
            last = before.get(number)
            if not is_first and not entry.never and (last is None or last.entry != entry and (
                    age_ms is None or last.age_ms is None
                    or age_ms <= last.age_ms + received_ms - last.since_ms + tick_ms)):
                self.renewed.add(number)
            ages.append(age_ms)
        self.basis, self.now, self.at_ms = basis, now, received_ms
        return ages

    def _has_restarted(self, agent_clock: Clock, received_ms: int) -> bool:
        """Whether the agent has restarted with an empty table. Then an entry that looks unchanged
        is a new one. Sender 0 proves nothing, because its entry may be four zero bytes."""
        if any(agent_clock.entries[number].never and old.entry.sender
               for number, old in self.entries.items()):
            return True
        if self.now is None or agent_clock.now is None:
            return False
        passed_ms, tick_ms = received_ms - self.at_ms, agent_clock.settings.tick_ms
        return measure_jump(self.now, agent_clock.now, passed_ms, tick_ms) != 0 \
            and agent_clock.now <= passed_ms // tick_ms + 2


# ---------------------------------------------------------------- what a report means
# Judges the entries of a report by settings, clock and history, and formats the result.
NEVER, OK, LATE, DEAD, UNKNOWN = "never", "ok", "late", "dead", "?"
CAUSES = ("unknown", "power-up", "brown-out", "reset pin", "watchdog", "software", "other", "7")


class Reading(NamedTuple):
    """An entry of a report, and what it means."""
    variable: Variable
    entry: Entry
    age_ms: Optional[int]  # None: never received, or the time now is unknown
    state: str
    at_least: bool  # the age is the longest of a timestamp, and may be longer
    boot_value: Optional[int] = None  # SPEC.md, "Boots"; None: no boot count was received
    restarted: bool = False  # Its boot count has changed.

    @property
    def boot(self) -> str:
        """Why the node was reset last, and its boot count modulo 32."""
        value = self.boot_value
        return "" if value is None else f"{CAUSES[value >> 5]}, boot {value % 32}"

    @property
    def bad_value(self) -> bool:
        variable = self.variable
        return self.state != NEVER and not variable.low <= self.entry.value <= variable.high

    @property
    def unusual_value(self) -> bool:
        """Not bad, but worth a warning."""
        return self.state != NEVER and not self.bad_value \
            and not self.variable.warn_low <= self.entry.value <= self.variable.warn_high

    @property
    def value(self) -> str:
        mark = "!" * (self.bad_value or self.unusual_value)
        return "-" if self.state == NEVER else f"{self.entry.value}{mark}"

    @property
    def sender(self) -> str:
        return "-" if self.state == NEVER else str(self.entry.sender)

    @property
    def age(self) -> str:
        if self.age_ms is None:
            return "-" if self.state == NEVER else "?"
        return format_age(self.age_ms, self.at_least)

    def for_json(self) -> Keys:
        entry: Keys = {"value": self.entry.value, "value_ok": not self.bad_value,
                       "value_unusual": self.unusual_value, **self.entry._asdict()}
        return {"variable": self.variable.number, "name": self.variable.name or None,
                "state": "unknown" if self.state == UNKNOWN else self.state,
                "age": None if self.age_ms is None else self.age_ms / 1000,
                "age_at_least": self.at_least,
                **({} if (yes := self.variable.authenticated) is None else {"authenticated": yes}),
                **({} if self.variable.boots is None else {
                    "restarted": self.restarted, "boot": self.boot or None}),
                **(dict.fromkeys(entry) if self.state == NEVER else entry)}


def interpret(agent_clock: Clock, history: History) -> list[Reading]:
    """All 64 variables of the clock's last report."""
    longest = (WRAP - SKEW) * agent_clock.settings.tick_ms
    readings = []
    for variable, entry, age_ms in zip(
            agent_clock.settings.variables, agent_clock.entries, history.ages(agent_clock)):
        state = NEVER if entry.never else UNKNOWN
        if age_ms is not None:
            state = DEAD if age_ms > variable.crit_ms else LATE if age_ms > variable.warn_ms else OK
        sent = None if variable.boots is None else agent_clock.entries[variable.boots]
        readings.append(Reading(variable, entry, age_ms, state, (age_ms or 0) >= longest,
                                sent.value if sent and not sent.never else None,
                                variable.boots in history.renewed))
    return readings


def describe_report(agent_clock: Clock, readings: Sequence[Reading]) -> Keys:
    """For JSON."""
    return {"clock": {"from": agent_clock.source, "variable": agent_clock.settings.now_from,
                      "text": str(agent_clock)},
            "variables": [reading.for_json() for reading in readings]}


def worth_showing(readings: Sequence[Reading], selected: Sequence[int]) -> list[Reading]:
    """The variables that were named, or those that were received, are listed or expected."""
    return [reading for reading in readings if (variable := reading.variable) and (
        variable.number in selected if selected else not variable.is_boot_count and (
            reading.state != NEVER or variable.listed or variable.expected))]


def tally(readings: Sequence[Reading]) -> str:
    """How many are in which state: 7 ok, 1 dead, 2 never."""
    states = [reading.state for reading in readings]
    counts = {state: states.count(state) for state in (OK, LATE, DEAD, NEVER, UNKNOWN)}
    counts["with a bad value"] = sum(reading.bad_value for reading in readings)
    counts["with an unusual value"] = sum(reading.unusual_value for reading in readings)
    return ", ".join(f"{n} {what}" for what, n in counts.items() if n) or "nothing received"


# ---------------------------------------------------------------- what changes
# Compares each report with the one before it.
class Change(NamedTuple):
    """What Agent.changes() yields."""
    readings: list[Reading]  # Their sender, value or state has changed.
    error: Optional[Error]  # The reason if there was no report.


class Watched:
    """An agent that is polled repeatedly."""
    def __init__(self, settings: Settings, selected: Sequence[int], name: str) -> None:
        self.settings, self.selected, self.name = settings, selected, name
        self.readings: list[Reading] = []
        self.changed: set[int] = set()  # These variables' sender, value or state; at first all.
        self.trouble: Optional[Error] = None  # The reason if there was no report.
        self.event = ""  # The last restart of a node, with its time.
        self.heard_at = uptime()
        self.clock = Clock(settings)
        self.history = History()

    @contextlib.contextmanager
    def polling(self) -> Iterator[Callable[[Entries], None]]:
        """Notes why no report comes. Yields what takes the report."""
        asked = uptime()
        try:
            yield lambda entries: self.take(entries, uptime(), asked)
        except (NoAnswer, BadReport) as error:
            self.trouble, self.changed = error, set()

    def take(self, entries: Entries, at: float, asked: Optional[float] = None) -> None:
        """The next report, which came at this uptime()."""
        self.clock.take(entries, at if asked is None else asked, at)
        readings = interpret(self.clock, self.history)
        self.changed = {new.variable.number for old, new in zip(self.readings, readings)
                        if new.restarted or (old.entry[1:], old.state) != (new.entry[1:], new.state)
                        } if self.readings else {*range(VARIABLES)}
        for reading in filter(lambda reading: reading.restarted, readings):
            self.event = f"{time.strftime('%H:%M:%S')} {reading.variable.label} restarted: " \
                f"{reading.boot}"
        self.readings, self.heard_at, self.trouble = readings, at, None

    def shown(self) -> list[Reading]:
        return worth_showing(self.readings, self.selected)

    def news(self) -> list[Reading]:
        """The readings that have changed."""
        return [reading for reading in self.shown() if reading.variable.number in self.changed]

    def summary(self) -> str:
        if not self.trouble:
            return tally(self.shown())
        since = "" if self.readings else " yet"
        return f"no report{since} for {uptime() - self.heard_at:.0f} s; {self.trouble}"


# ---------------------------------------------------------------- keys
# Version 2 of the protocol: files of keys, epochs and counts, and authenticated packets.
READER_LABEL = 64  # labels below it are the variables'
LABELS = {**{str(number): number for number in range(VARIABLES)}, "readers": READER_LABEL}
KEYED_REPORT_SIZE = 8 + VARIABLES * 4
BEACON_END, IS_HEARTBEAT, IS_REQUEST = 0x20, 0x80, 0xC0  # byte 4; a beacon has less than the first
FULL = 255  # the largest count in an epoch
EPOCH, LONGEST_EPOCH = 10, 3600  # seconds, unless the file with the master key has another one
FORGET = 300.0  # seconds with old beacons and none of this epoch: as after a reset
HEAR_AGAIN = 1.0  # seconds until a node requests its beacon again
SLOWLY = 2  # refusals, after which a reader leaves out one count more
BEACONS = 2  # epochs in one poll: an attacker with many old reports must not choose among many
JUMP = 65536  # epochs at once, and PACE a second: the readers' key can forge others
PACE = 2  # the shortest epoch has a second, and each restart of an agent skips up to 511
LAST_GENERATION = 255  # The key of a variable has no later generation.
KEY_FORM = "one line of 32 digits 0-9a-f, or lines like 'readers 00112233...'"
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # A pipe without a writer opens at once.


def chaskey(key: bytes, message: bytes) -> bytes:
    """Chaskey-12 of ISO/IEC 29192-6. The message has 16 bytes, or a multiple of that."""
    state = int.from_bytes(key, "little")
    last = state << 1 ^ (state >> 127) * (1 << 128 | 0x87)  # the key, doubled
    for start in range(0, len(message), 16):
        mask = last if start + 16 == len(message) else 0
        state ^= int.from_bytes(message[start:start + 16], "little") ^ mask
        a, b, c, d = (state >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96))
        for _ in range(12):
            a = a + b & 0xFFFFFFFF
            b = (b << 5 | b >> 27) & 0xFFFFFFFF ^ a
            c = c + d & 0xFFFFFFFF
            d = (d << 8 | d >> 24) & 0xFFFFFFFF ^ c
            a = (a << 16 | a >> 16) + d & 0xFFFFFFFF
            d = (d << 13 | d >> 19) & 0xFFFFFFFF ^ a
            c = c + b & 0xFFFFFFFF
            b = (b << 7 | b >> 25) & 0xFFFFFFFF ^ c
            c = (c << 16 | c >> 16) & 0xFFFFFFFF
        state = a | b << 32 | c << 64 | d << 96
    return (state ^ last).to_bytes(16, "little")


def compute_fingerprint(key: bytes) -> str:
    """Distinguishes keys, and reveals nothing of them: no tag is made of such a block."""
    return chaskey(key, b"\xff" * 16)[:8].hex()


def make_question(label: int) -> bytes:
    """A request for the beacon of a label, which needs no key."""
    return bytes((0, 0, 0, 0, IS_HEARTBEAT + label, 0, 0, 0))


def name_label(label: int) -> str:
    return f"variable {label}" if label < READER_LABEL else "the readers"


HELLO = make_question(READER_LABEL)


class KeyFile:
    """The keys in a file: the master key of an agent, and which of its labels have later keys than
    the first; or the keys of some labels. BadUsage."""
    def __init__(self, path: str) -> None:
        self.path, self.master = path, b""
        self.known: dict[int, bytes] = {}  # The keys of labels.
        self.generations: dict[int, int] = {}  # Others have generation 0.
        self.epoch = 0  # s, only with a master key; 0: EPOCH
        if re.fullmatch("[0-9a-fA-F]{32}", path):
            raise BadUsage("this is a key, not a file: it may have been seen, so make a new one")
        with explained(f"cannot read {path!r}", BadUsage):
            content = read_own(path, NO_WAIT, self._refuse).decode("ascii", "replace")
        for number, line in enumerate(content.splitlines(keepends=True) or [""], 1):
            problem = self._take(line, number == 1)  # which does not show the line
            if problem:
                raise BadUsage(f"{path!r}, line {number}: {problem}; the file must have {KEY_FORM}")

    def _take(self, line: str, is_first: bool) -> str:
        """Returns what is wrong with the line."""
        form = r"(\w+) (0|[1-9]\d{0,3})\n?" if self.master else r"(?:(\w+) )?([0-9a-f]{32})\n?"
        match = re.fullmatch(form, line, re.ASCII)
        name, text = match.groups() if match else ("", "")
        label = LABELS.get(name, -1)
        if not self.master and is_first and name is None:
            self.master = bytes.fromhex(text)
        elif not self.master:
            if label < 0 or label in self.known:
                return "its name must be readers, or 0 to 63, once each" if name else "no key"
            self.known[label] = bytes.fromhex(text)
        elif name == "epoch" and not self.epoch and 1 <= int(text) <= LONGEST_EPOCH:
            self.epoch = int(text)
        elif label >= 0 and label not in self.generations:
            self.generations[label] = int(text)
            return f"a generation is 0 to {LAST_GENERATION}" * (int(text) > LAST_GENERATION)
        else:
            return "after a master key, a line is like '7 2': variable 7 has its third key; or " \
                f"like 'readers 1', or 'epoch 10': 1 to {LONGEST_EPOCH} seconds"
        return ""

    @staticmethod
    def _refuse(about: os.stat_result) -> str:
        """Why a file is rejected that other users may read, as ssh does."""
        if about.st_uid not in (0, user()):
            return "it must belong to you or to root: its owner can read it, and write another key"
        # The group may read a file of root: that is how root lends it to us.
        others = 0o077 if about.st_uid == user() else 0o007
        return "other users may read it: chmod 600 it, and make a new key if it was read" \
            if os.name == "posix" and about.st_mode & others else ""

    def of(self, label: int) -> bytes:
        """The key of a label. BadUsage: it is not in the file."""
        if label not in self.known:
            if not self.master:
                raise BadUsage(f"{self.path!r} has no key of {name_label(label)}")
            generation = self.generations.get(label, 0)
            self.known[label] = chaskey(self.master, bytes((label,) * 15 + (generation,)))
        return self.known[label]


class Epochs:
    """Stores the last accepted epoch of each key, the last count in it, and the pace_time() since
    when epochs were saved up, in a small file that reveals nothing of the key."""
    # A count of more than FULL is as FULL.
    FORM = re.compile(rb"([0-9]{1,9}) ([0-9]{1,3})(?: (-?[0-9]{1,15}))?\n")
    trouble = ""  # The reason if something is not stored.

    @staticmethod
    def name(key: bytes) -> str:
        folder = os.environ.get("XDG_STATE_HOME", "")
        if not os.path.isabs(folder):  # The standard ignores a relative one.
            folder = os.path.join(os.path.expanduser("~"), ".local", "state")
        return os.path.join(folder, "dumpulse", f"{compute_fingerprint(key)}.epoch")

    def load(self, key: bytes) -> tuple[int, int, int]:
        """The epoch, the count and the pace_time(); zeros if none is stored."""
        path = self.name(key)
        try:
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | NO_WAIT)) as old:
                match = self.FORM.fullmatch(old.read(99))
            if match:
                return int(match[1]), int(match[2]), int(match[3] or 0)
            self.trouble = f"{path!r} is damaged"
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.trouble = f"cannot read {path!r}: {explain(error)}"
        return 0, 0, 0

    def save(self, key: bytes, epoch: int, count: int, since: int) -> None:
        path = self.name(key)
        try:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            replace_file(path, b"%d %d %d\n" % (epoch, count, since))
        except OSError as error:
            self.trouble = self.trouble or f"cannot write {path!r}: {explain(error)}"

    @contextlib.contextmanager
    def locked(self, key: bytes, end: float) -> Iterator[tuple[tuple[int, int],
                                                               Callable[[int, int], None]]]:
        """For heartbeats: the last epoch and count, and what stores the next ones. Meanwhile other
        programs wait. The system unlocks the file of a program that ends, however it ends.
        NoAnswer: others keep it locked until the end. Error: no count can be stored there."""
        path = self.name(key)

        def store(epoch: int, count: int) -> None:
            """In place: a disk that is full has room for it, and no old line is longer."""
            file.seek(0)
            if file.write(b"%09d %03d\n" % (epoch, count)) != 14:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())

        with explained(f"nothing is sent: no count can be stored in {path!r} (XDG_STATE_HOME names "
                       "another folder)"):
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT | NO_WAIT, 0o600), "r+") as file:
                try:
                    if termios is not None:  # on Windows, programs must run one after the other
                        wait(locking(file.fileno(), end))
                except BlockingIOError:
                    raise NoAnswer(f"nothing is sent: another program locks {path!r}") from None
                old = file.read(99)
                match = self.FORM.fullmatch(old or b"0 0\n")  # it is new, so nothing was sent
                if not match:
                    raise ValueError("it is damaged: remove it, and wait for the next epoch")
                if not old:
                    sync_folder(os.path.dirname(path))
                yield (int(match[1]), int(match[2])), store


def pace_time() -> int:
    """Unix time, in units in which a reader saves up one epoch."""
    return int(time.time() * PACE)


class Keyed:
    """The state of a label: the agent's epoch, and the counts in it."""
    FORGED = "or an epoch was forged with this key: replace it"

    def __init__(self, keys: KeyFile, label: int = READER_LABEL,
                 epochs: Optional[Epochs] = None) -> None:
        self.keys, self.label, self._epochs, key = keys, label, epochs, keys.of(label)
        # The last accepted epoch: nothing older is accepted. 0: there is none.
        self.known, self.count, self._since = \
            epochs.load(key) if epochs and label == READER_LABEL else (0, 0, 0)
        self.epoch = self.known
        # What was not checked of the last report.
        self.remark = "" if self.known else "no earlier one is stored here"
        self.heard_at = -math.inf  # The uptime() of the last accepted beacon.
        self._old_at = math.inf  # The uptime() of the first old beacon after it.
        self._refused = 0  # Rejected requests after it: others have used these counts.
        self._later = 0  # beacons of later epochs since begin()
        self._asked = b""  # the last request
        self._repeat = False  # The last request was not rejected.

    def _make_tag(self, number: int, four: bytes, table: bytes = b"") -> bytes:
        block = bytes((self.label,)) * 8 + struct.pack("<L", number) + four
        return chaskey(self.keys.of(self.label), table + block)

    def _make_packet(self, more: bytes, skip: int = 0) -> bytes:
        """The next packet; empty if there can be none in this epoch, or it is not known."""
        if self.heard_at == -math.inf or self.count == FULL:
            return b""
        self.count = min(FULL, self.count + 1 + skip)
        four = bytes((IS_HEARTBEAT + self.label, self.count)) + more
        return self._make_tag(self.epoch, four)[:4] + four

    def _allowed(self) -> int:
        """How many epochs may have begun since the last one that was accepted: PACE a second, and
        up to JUMP that were saved up. Each report uses some of them, so many forged ones lead no
        further than one. When a clock was set back, all may be saved up."""
        saved = pace_time() - self._since
        return saved if saved >= 0 else JUMP

    def begin(self) -> None:
        """From now on, only an answer to a new request counts."""
        self._asked, self._repeat, self._later = b"", False, 0
        if uptime() - self._old_at > FORGET and self.epoch != self.known:
            # A forged epoch ends like this.
            self.epoch, self.count, self._refused = self.known, 0, 0
            self.heard_at, self._old_at = -math.inf, math.inf

    def request(self) -> bytes:
        """The last request again, until it is rejected; else a new one, if possible."""
        if not self._repeat:
            new = self._make_packet(os.urandom(2), self._refused // SLOWLY)
            if not new:
                return HELLO
            self._asked, self._repeat = new, True
        return self._asked

    def resume(self, last: tuple[int, int]) -> None:
        """Goes on after this epoch and count of another program."""
        self.known = last[0]
        if self.known > self.epoch:
            self.heard_at = -math.inf  # Its beacons are old now.
        self.epoch, self.count = max(last, (self.epoch, self.count))

    def heartbeat(self, sender: int, value: int) -> bytes:
        packet = self._make_packet(bytes((sender, value)))
        if not packet:
            unless = "" if self.keys.master else " unless the agent has longer epochs"
            raise NoAnswer(f"variable {self.label} has sent all {FULL} heartbeats of this epoch: "
                           f"the next one begins within {self.keys.epoch or EPOCH} s{unless}")
        return packet

    def hear(self, packet: bytes) -> bool:
        """Takes a beacon. Returns whether its epoch is new. BadReport."""
        if len(packet) != 8 or packet[4] >= BEACON_END:
            raise BadReport("length", f"it is {len(packet)} bytes long, not {KEYED_REPORT_SIZE}")
        epoch = int.from_bytes(packet[4:], "big")
        if not hmac.compare_digest(packet[:4], self._make_tag(epoch, packet[4:])[:4]):
            raise BadReport("beacon", f"its beacon is not authentic for {name_label(self.label)}: "
                                      f"is {self.keys.path!r} the key of this agent?")
        if epoch < max(self.epoch, 1):
            self._old_at = min(self._old_at, uptime())
            raise BadReport("old", f"its beacon is of epoch {epoch}, older than {self.epoch}: it "
                            f"is replayed, or the agent has lost its numbers, {self.FORGED}")
        if self.known and self.label == READER_LABEL and \
                epoch > self.known + self._allowed():
            raise BadReport("old", f"its beacon is of epoch {epoch}, too far ahead of "
                                   f"{self.known}: its clock was set, {self.FORGED}")
        if epoch > self.epoch and self._later == BEACONS:
            raise BadReport("old", f"it has sent more than {BEACONS} epochs: old beacons are "
                                   "replayed, or an epoch is too short")
        is_new = epoch > self.epoch or self.heard_at == -math.inf
        self.heard_at, self._old_at = uptime(), math.inf
        if epoch > self.epoch:
            self.epoch, self.count, self._refused, self._repeat = epoch, 0, 0, False
            self._later += 1
        return is_new

    def take(self, packet: bytes) -> Optional[Entries]:
        """The entries of the report that was requested. None: request again. BadReport."""
        if len(packet) == KEYED_REPORT_SIZE:
            # With this epoch: a report of an earlier one may be a delayed one.
            tag = self._asked and self._make_tag(self.epoch, self._asked[4:], packet[8:])
            if not tag or not hmac.compare_digest(packet[:8], tag[:8]):
                raise BadReport("tag", "its tag is wrong: for another request, or forged")
            self._asked, self._refused, self._repeat, self._old_at = b"", 0, False, math.inf
            if self.epoch != self.known:
                self.remark = "" if self.known else self.remark
                self._since = pace_time() - (min(
                    JUMP, self._allowed() + self.known - self.epoch) if self.known else JUMP)
                self.known = self.epoch
                if self._epochs:
                    self._epochs.save(self.keys.of(self.label), self.epoch, self.count,
                                      self._since)
            return unchecked_entries(packet[4:])
        if self.hear(packet):
            return None
        self._repeat, self._refused = False, self._refused + self._repeat
        raise BadReport("full" if self.count == FULL else "refused", "it rejects requests: other "
                        "readers have used the counts of this epoch, so try again later")


# ---------------------------------------------------------------- transports
# What UDP, serial lines and CAN have in common for an agent.
class Transport(Protocol):
    """Carries packets to one agent and back. A new transport is such a class, a function that
    parses its addresses, and a row in TRANSPORTS."""
    FORM: str  # The form of its addresses.
    SILENCE: str = ""  # A possible reason if nothing comes.
    SHARED: bool = False  # Beacons come without a request.
    keyed: bool = False  # The agent has version 2.
    addresses: int = 1  # The number of those of the host.
    name: str  # the agent's address in full

    def opening(self, seconds: float) -> Steps[None]:
        """Opens it, or opens it again. Answers to earlier requests do not come any more."""

    def open(self, seconds: float) -> None:
        wait(self.opening(seconds))

    def close(self) -> None:
        """Closing twice does no harm."""

    def send(self, packet: bytes) -> None:
        """Opens it if it is closed. NoAnswer: cannot send. A packet that gets lost is no error."""

    def receiving(self, end: float) -> Steps[Optional[bytes]]:
        """The next report, or None if nothing comes until (nearly) this time. BadReport: what came
        is damaged. NoAnswer: the network reported an error."""

    def receive(self, seconds: float) -> Optional[bytes]:
        return wait(self.receiving(time.monotonic() + max(0.0, seconds)))

    def next_address(self) -> None:
        """From now on, sends to the next of them."""
        return None

    def forget_addresses(self) -> None:
        """The host may have moved: the next open() looks it up again."""
        return None


# ---------------------------------------------------------------- transports: UDP
# Datagrams, and all addresses of a host.
def parse_udp(text: str) -> tuple[str, int]:
    """HOST, HOST:PORT, [IPV6]:PORT or an IPv6 address alone."""
    match = re.fullmatch(r"(?:\[([^]]+)\]|([^:[]+))(?::([^:]*))?|([^[]*:.*:.*)", text, re.DOTALL)
    bracketed, host, port, bare = match.groups() if match else ("", "", None, "")
    if not match or bare and bare.endswith(f":{PORT}"):  # is that the port?
        raise BadUsage(f"{text!r} is not an address: write HOST, HOST:PORT or [IPV6]:PORT")
    return bracketed or host or bare, PORT if port is None else parse_port(port)


def format_address(address: Any) -> str:
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


class Udp(Transport):
    """The sockets are connected: no other address can answer, and errors of the network come."""
    FORM = "HOST[:PORT]"
    SILENCE = "; this address may not be allowed, or above the rate limit"

    def __init__(self, host: str, port: int) -> None:
        self.name = format_address((host, port))
        self._host, self._port = host, port
        self._found: list[tuple[int, Any]] = []  # families and addresses
        self._sockets: list[socket.socket] = []  # one for each address
        self._current = 0

    def opening(self, seconds: float) -> Steps[None]:
        self.close()
        why = ""
        with explained(f"cannot find the host {self._host!r}", NoAnswer):
            if not self._found:
                yield from self._look_up(time.monotonic() + seconds)
            if not self._found:
                raise TimeoutError(f"no answer from the name service in {seconds:g} s")
        for family, address in self._found:
            with contextlib.ExitStack() as stack:
                try:
                    new = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                    new.setblocking(False)
                    new.connect(address)
                except OSError as error:  # there is no IPv6, no route, or too many files are open
                    why = f"{format_address(address)}: {error.strerror}"
                    continue
                stack.pop_all()
            self._sockets.append(new)
        self.addresses = len(self._sockets)
        if not self._sockets:
            raise NoAnswer(why)

    def _look_up(self, end: float) -> Steps[None]:
        look_up = partial(socket.getaddrinfo, self._host, self._port, type=socket.SOCK_DGRAM)
        try:  # Numbers need no name service, and no thread that waits for it.
            results = look_up(flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            results = (yield from run_apart(end, look_up)) or []
        self._found = [result[::4] for result in results]

    def close(self) -> None:
        while self._sockets:
            self._sockets.pop().close()

    def forget_addresses(self) -> None:
        self._found = []

    def next_address(self) -> None:
        self._current += 1

    def send(self, packet: bytes) -> None:
        if not self._sockets:
            self.open(TIMEOUT)
        sender = self._sockets[self._current % len(self._sockets)]
        with self._explain(sender):
            sender.send(packet)

    def receiving(self, end: float) -> Steps[Optional[bytes]]:
        while True:
            # A flood must not keep other tasks waiting, so it yields before each packet.
            yield self._sockets, end
            for receiver in self._sockets:
                with self._explain(receiver):
                    return receiver.recv(65536)
            if time.monotonic() >= end:
                return None

    @staticmethod
    @contextlib.contextmanager
    def _explain(where: socket.socket) -> Iterator[None]:
        try:
            with contextlib.suppress(BlockingIOError):  # busy, or the packet was a damaged one
                yield
        except OSError as error:
            address = format_address(where.getpeername())
            raise NoAnswer(f"nothing listens at {address}" if error.errno == errno.ECONNREFUSED
                           else f"{address}: {error.strerror}") from error


# ---------------------------------------------------------------- transports: serial lines and CAN
# Devices that carry bytes, or frames of up to 64.
class Device(Transport):
    """A serial line or a CAN interface: a descriptor whose device may be lost at any time."""
    SHARED = True
    ADVICE: dict[int, str] = {}  # What to do about each errno.
    PART, FRAMES = 8, 33  # bytes in a frame of a report, and frames: the last one has 4 bytes, or 8
    REQUEST_AT = 127  # the identifier of a request of version 1, counted from the agent's first one

    def __init__(self, device: str, name: str) -> None:
        self.name = name
        self._device = device
        self._descriptor = -1
        self._parts: list[bytes] = []  # the first frames of a report
        self._bytes = b""  # the last of a serial line, fewer than a report
        self._count = 0  # Bytes since the last report or error.

    def opening(self, seconds: float) -> Steps[None]:
        self.close()
        self._parts, self._bytes, self._count = [], b"", 0
        with self._advised():
            yield from self._open_device(seconds)

    def _open_device(self, seconds: float) -> Steps[None]:
        """Opens the descriptor. What came before is dropped."""
        yield from ()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def send(self, packet: bytes) -> None:
        if self._descriptor < 0:  # closed or lost: it may be there again
            self.open(0)
        with self._advised(errno.EAGAIN, errno.ENOBUFS):  # it is full: the packet is lost
            self._write(self._make_frame(packet))

    def receiving(self, end: float) -> Steps[Optional[bytes]]:
        """Reads at least once, and once more at most after the time is up."""
        report, is_over = self._read_frame(), False
        while report is None and not is_over:
            if self._descriptor < 0:
                yield (), end
                return None
            yield self._wait_until(end)
            is_over = time.monotonic() >= end
            with self._advised(errno.EAGAIN):
                report = self._add_bytes(self._read())
        if report is None:
            self._check_rest()
        return report

    def _wait_until(self, end: float) -> tuple[Sequence[Any], float]:
        return [self._descriptor], end

    def _read(self) -> bytes:
        return os.read(self._descriptor, 4096)

    def _write(self, frame: bytes) -> None:
        os.write(self._descriptor, frame)

    def _make_frame(self, packet: bytes) -> bytes:
        return packet

    def _add_bytes(self, content: bytes) -> Optional[bytes]:
        """The report that is complete now, if there is one."""

    def _read_frame(self) -> Optional[bytes]:
        """The one after it, if that has come, too."""

    def _choose_identifier(self, packet: bytes, request: int) -> int:
        """The identifier of a packet, counted from the first one of the agent."""
        if packet == REQUEST:
            return self.REQUEST_AT
        # Two nodes must not use the same identifier. So each variable has its own.
        return request if self.keyed and packet[4] == IS_REQUEST else \
            packet[4 if self.keyed and packet[4] != MAGIC else 5] % VARIABLES

    def _join_frames(self, index: int, part: bytes) -> Optional[bytes]:
        """The report that is complete with this frame, or a beacon."""
        if index >= self.FRAMES:  # a request of another reader, or something from a later version
            return part if self.keyed and index == CAN_BEACON - CAN_REPORT else None
        if index == 0:
            self._parts = []
        due = len(self._parts)
        if index != due and not due:
            return None  # this report began before the device was open
        size = KEYED_REPORT_SIZE if self.keyed else REPORT_SIZE
        if index != due or len(part) != min(self.PART, size - self.PART * due):
            self._parts = []
            raise BadReport("length", f"its frame {due + 1} of {self.FRAMES} is missing")
        self._parts.append(part)
        if due + 1 < self.FRAMES:
            return None
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def _check_rest(self) -> None:
        """The time is up. BadReport: something came that is no report."""

    @contextlib.contextmanager
    def _advised(self, *harmless: int) -> Iterator[None]:
        """Errors that have other numbers close the device. NoAnswer: what to do."""
        try:
            yield
        except (OSError, getattr(termios, "error", OSError)) as error:
            if error.args[0] in harmless:
                return
            self.close()
            advice = self.ADVICE.get(error.args[0], error.args[-1])
            raise NoAnswer(f"{self._device}: {advice}".replace("DEVICE", self._device)) from error


BAUD = 115_200


def parse_serial(text: str) -> tuple[str, int]:
    path, separator, baud = text.partition(":")[2].rpartition("@")
    if not separator:
        path, baud = baud, str(BAUD)
    form, like = ("/[^\0]*", "/dev/ttyACM0") if termios else ("(?i:COM)[1-9][0-9]{0,2}", "COM3")
    if not re.fullmatch(form, path, re.DOTALL):
        raise BadUsage(f"{text!r} is not a serial line: write it like serial:{like}@{BAUD}")
    if not re.fullmatch("[1-9][0-9]{0,6}", baud) or termios and not hasattr(termios, f"B{baud}"):
        raise BadUsage(f"{baud!r} is not a baud rate of this system: try 9600, 19200, 38400, "
                       f"57600, {BAUD}, 230400")
    return path, int(baud)


class Serial(Device):
    """On a serial line, nothing shows where a packet ends. A report is any 260 bytes in a row
    whose checksum is right. In version 2, a frame is any 10 bytes whose sum is right."""
    FORM = "serial:/DEVICE[@BAUD]"
    SILENCE = "; check the baud rate"
    ADVICE = {errno.ENOENT: "no such device: check that it is plugged in",
              errno.EACCES: "no permission: join the group that owns it, often dialout",
              errno.EAGAIN: "it is in use by another program",
              errno.EIO: "the device was disconnected"}

    def __init__(self, path: str, baud: int) -> None:
        super().__init__(path, f"serial:{path}@{baud}")
        self._baud = baud

    def _open_device(self, seconds: float) -> Steps[None]:
        """Locks the line, and sets it to raw mode."""
        self._descriptor = os.open(self._device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        if not os.isatty(self._descriptor):
            self.close()
            raise BadUsage(f"{self._device} is not a serial line")
        yield from locking(self._descriptor, time.monotonic() + seconds)
        settings: list[Any] = termios.tcgetattr(self._descriptor)
        # Without HUPCL, close() leaves the control lines. An Arduino resets when they change.
        settings[:4] = [0, 0, termios.CS8 | termios.CREAD | termios.CLOCAL, 0]
        settings[4] = settings[5] = getattr(termios, f"B{self._baud}")
        settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._descriptor, termios.TCSANOW, settings)
        termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def _add_bytes(self, content: bytes) -> Optional[bytes]:
        if not content:
            raise OSError(errno.EIO, "it has hung up")
        self._count += len(content)
        self._bytes += content
        return self._read_frame()

    def _read_frame(self) -> Optional[bytes]:
        size = SERIAL_FRAME if self.keyed else REPORT_SIZE
        while len(self._bytes) >= size:
            frame, index = self._bytes[:size], self._bytes[0] - 0x80 - CAN_REPORT
            is_valid = 0 <= index <= CAN_BEACON - CAN_REPORT and sum(frame) % 256 == 0 \
                if self.keyed else int.from_bytes(frame[:4], "big") == zlib.adler32(frame[4:])
            self._bytes = self._bytes[size if is_valid else 1:]
            if is_valid:
                self._count = 0
                packet = self._join_frames(index, frame[1:9]) if self.keyed else frame
                if packet is not None:
                    return packet
        return None

    def _make_frame(self, packet: bytes) -> bytes:
        if not self.keyed:
            return packet
        frame = bytes((0x80 + self._choose_identifier(packet, CAN_REQUEST),)) + packet
        return frame + bytes((-sum(frame) % 256,))

    def _check_rest(self) -> None:
        count, self._count = self._count, 0
        if count:
            raise BadReport("length" if count < REPORT_SIZE else "checksum",
                            f"{count} bytes without a "
                            f"{'frame of version 2' if self.keyed else 'report'}")


class ComPort(Serial):
    """A serial line of Windows, through pyserial. Windows lets one program at a time open it."""
    _port: Any = None

    def __init__(self, path: str, baud: int) -> None:
        super().__init__(path, baud)
        try:
            self._pyserial = importlib.import_module("serial")
        except ImportError:
            raise BadUsage("serial lines need pyserial on this system: "
                           "python -m pip install pyserial") from None

    def _open_device(self, seconds: float) -> Steps[None]:
        yield from ()
        self._port = self._pyserial.Serial(self._device, self._baud, timeout=0, write_timeout=0)
        self._descriptor = 0  # it is open

    def close(self) -> None:
        self._descriptor = -1
        if self._port:
            self._port.close()
        self._port = None

    def _wait_until(self, end: float) -> tuple[Sequence[Any], float]:
        return (), min(end, time.monotonic() + POLL_WAIT)

    def _read(self) -> bytes:
        content: bytes = self._port.read(4096)
        if not content:
            raise BlockingIOError(errno.EAGAIN, "nothing has come")
        return content

    def _write(self, frame: bytes) -> None:
        self._port.write(frame)


CAN_BLOCK = 128  # identifiers: the first 64 are for heartbeats,
CAN_REPORT, CAN_REQUEST = 64, 127  # those from 64 on for reports, and the last one for requests
CAN_BEACON = 97  # Version 2 only. The requests of each reader have one of the next.
SERIAL_FRAME = 10  # bytes, in version 2: the identifier, 8 bytes, and what makes their sum 0
CAN_BASE = 0x680
CAN_FRAME = struct.Struct("=LB3x8s")  # Linux's struct can_frame; its first number has flags:
CAN_EXTENDED, CAN_REMOTE, CAN_ERROR, CAN_BUS_OFF = 1 << 31, 1 << 30, 1 << 29, 0x40
CANFD_FRAME = struct.Struct("=LB3x64s")  # Linux's struct canfd_frame
# linux/can/raw.h; some versions of Python lack them.
SOL_CAN_RAW, CAN_RAW_ERR_FILTER, CAN_RAW_FD_FRAMES = 101, 2, 5


def parse_base(digits: str) -> int:
    """The first identifier of an agent, as cansend writes it; with CAN_EXTENDED for 29 bits."""
    if not re.fullmatch(r"[0-9a-fA-F]{3}|[0-9a-fA-F]{8}", digits):
        raise BadUsage(f"{digits!r} is not a CAN identifier: it has 3 hexadecimal digits, or 8")
    base, extended = int(digits, 16), len(digits) == 8
    if base % CAN_BLOCK or base >= 1 << (29 if extended else 11):
        raise BadUsage(f"{digits!r} cannot be the first of {CAN_BLOCK} identifiers: "
                       f"it must be a multiple of {CAN_BLOCK:x} hexadecimal, like {CAN_BASE:x}")
    return base | CAN_EXTENDED * extended


def parse_can(text: str) -> tuple[str, int, int]:
    """can:INTERFACE or can:INTERFACE:ID, an identifier as cansend writes it. Of several readers of
    version 2, each has an identifier of its own: can:INTERFACE:ID:ID."""
    interface, colon, rest = text.partition(":")[2].partition(":")
    digits, second, reader = rest.partition(":")
    if not re.fullmatch(r"[^\s/:\0]+", interface) or len(interface.encode(errors="replace")) > 15:
        raise BadUsage(f"{text!r} is not a CAN interface: write it like can:can0")
    if sys.platform != "linux" or not hasattr(socket, "AF_CAN"):
        raise BadUsage("this system has no SocketCAN: CAN works on Linux only")
    first = parse_base(digits) if colon else CAN_BASE
    base = first & ~CAN_EXTENDED
    if second and not (re.fullmatch("[0-9a-fA-F]{1,8}", reader)
                       and CAN_BEACON < int(reader, 16) - base <= CAN_REQUEST):
        raise BadUsage(f"{reader!r} cannot be the identifier of this reader: it must be "
                       f"{base + CAN_BEACON + 1:X} to {base + CAN_REQUEST:X}")
    return interface, first, int(reader, 16) - base if second else CAN_REQUEST


class Can(Device):
    """A CAN interface of Linux. A report comes in 33 frames."""
    FORM = "can:INTERFACE[:ID[:ID]]"
    PREFIX = "can:"
    OPTIONS: tuple[int, ...] = ()  # The options of the socket that are set to 1.
    LONG_FRAME = CAN_FRAME  # Requests and reports use it; heartbeats and beacons are classic.
    ADVICE = {
        **dict.fromkeys((errno.ENODEV, errno.ENXIO),  # ENXIO: it has gone since it was opened
                        "there is no CAN interface DEVICE: ip link lists them"),
        **dict.fromkeys((errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT),
                        "this kernel has no CAN: modprobe can-raw may load it"),
        errno.ENETDOWN: "DEVICE is down: ip link set DEVICE up"}

    def __init__(self, interface: str, base: int, reader: int = CAN_REQUEST) -> None:
        width, first = (8, base & ~CAN_EXTENDED) if base & CAN_EXTENDED else (3, base)
        reader_digits = f":{first + reader:0{width}X}" * (reader != CAN_REQUEST)
        digits = f":{first:0{width}X}" * (base != CAN_BASE or reader != CAN_REQUEST)
        super().__init__(interface, f"{self.PREFIX}{interface}{digits}{reader_digits}")
        self._base, self._reader = base, reader

    def _open_device(self, seconds: float) -> Steps[None]:
        yield from ()
        if sys.platform != "linux":
            return  # parse_can() has rejected it
        with socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as new:
            new.setblocking(False)
            every_bit = CAN_EXTENDED | CAN_REMOTE | 0x1FFFFFFF
            new.setsockopt(SOL_CAN_RAW, socket.CAN_RAW_FILTER, struct.pack(
                "=LL", self._base + CAN_REPORT, every_bit & ~(VARIABLES - 1)))
            new.setsockopt(SOL_CAN_RAW, CAN_RAW_ERR_FILTER, struct.pack("=L", CAN_BUS_OFF))
            for option in self.OPTIONS:
                new.setsockopt(SOL_CAN_RAW, option, 1)
            new.bind((self._device,))
            self._descriptor = new.detach()

    def _make_frame(self, packet: bytes) -> bytes:
        is_request = packet == REQUEST or self.keyed and packet[4] == IS_REQUEST
        number = self._base + self._choose_identifier(packet, self._reader)
        return (self.LONG_FRAME if is_request else CAN_FRAME).pack(number, len(packet), packet)

    def _add_bytes(self, content: bytes) -> Optional[bytes]:
        form = CANFD_FRAME if len(content) == CANFD_FRAME.size else CAN_FRAME
        number, length, data = form.unpack(content)
        if number & CAN_ERROR:
            raise NoAnswer(f"{self._device} is off the bus: check wiring and bit rate")
        if form is not self.LONG_FRAME and number < self._base + CAN_BEACON:
            return None  # a report for a reader with the other kind of frames
        return self._join_frames(number - self._base - CAN_REPORT, data[:length])


class CanFd(Can):
    """The same in frames of CAN FD: a report comes in five."""
    PREFIX, PART, FRAMES, REQUEST_AT, OPTIONS = "canfd:", 64, 5, 126, (CAN_RAW_FD_FRAMES,)
    LONG_FRAME = CANFD_FRAME
    ADVICE = {**Can.ADVICE, errno.EINVAL: "DEVICE has no CAN FD: use can:DEVICE"}


# What an address begins with, what parses it, and what carries its packets. "" fits all the others.
TRANSPORTS: dict[str, tuple[Callable[[str], tuple[Any, ...]], Callable[..., Transport]]] = {
    "serial:": (parse_serial, Serial if termios else ComPort), "can:": (parse_can, Can),
    "canfd:": (parse_can, CanFd), "": (parse_udp, Udp)}


def prefix_of(address: str) -> str:
    return next(prefix for prefix in TRANSPORTS if address.startswith(prefix))


def join_port(host: str, port: Optional[str]) -> str:
    """The address of HOST and PORT, if there is a port apart from the host."""
    if port is None:
        return host
    if prefix_of(host) or re.fullmatch(r"\[.*\]:.*|[^:]*:[^:]*", host):
        raise BadUsage(f"{host!r} is not a host alone, so --port cannot follow it")
    return f"[{host.strip('[]')}]:{port}"


# ---------------------------------------------------------------- agents
# Polls an agent, and sends it heartbeats, over any transport.
#
# Seconds until a request is repeated: at first twice the wait before, as a packet may be lost; then
# a quarter of the time that has passed, and at least MIDDLE_WAIT, as an agent may have too many
# requests. So a reader asks 7 times in 3 s, and at most 5 times in 8 s more.
FIRST_WAIT, MIDDLE_WAIT, LAST_WAIT = 0.2, 0.5, 2.0


def end_of(timeout: float) -> float:
    """When a time of so many seconds is over. BadUsage."""
    if math.isnan(timeout):
        raise BadUsage("a time is a number of seconds, not nan")
    return time.monotonic() + timeout


def draw_waits(draw: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
    """Seconds to wait for each answer. They are random: readers that start together drift apart."""
    passed, doubled = 0.0, FIRST_WAIT
    while True:
        wait = min(doubled, max(MIDDLE_WAIT, passed / 4), LAST_WAIT) * draw(0.75, 1.25)
        passed, doubled = passed + wait, doubled * 2
        yield wait


class Agent:
    """An agent at an address. Nothing is looked up or sent before the first ask() or beat(). Each
    thread or task needs an object of its own. With `keys`, the agent must have version 2 of the
    protocol. `epochs` stores the last epoch: by default, in files of this user."""
    def __init__(self, address: str, keys: Optional[KeyFile] = None,
                 epochs: Optional[Epochs] = None) -> None:
        self._keys, self._epochs = keys, epochs or Epochs()
        self._known: dict[int, Keyed] = {}  # The keys are labels.
        parse, transport = TRANSPORTS[prefix_of(address)]
        self._transport = transport(*parse(address))
        self._transport.keyed = keys is not None
        self.name = hide_keys(self._transport.name)
        if not self.name.isprintable():
            raise BadUsage(f"{address!r} is not an address: it has unprintable characters")

    @property
    def remarks(self) -> list[str]:
        """What was not checked of the last report of an agent with a key."""
        reader = self._known.get(READER_LABEL)
        remark = reader.remark if reader else ""
        return [remark, *filter(None, [self._epochs.trouble])] if remark else []

    def _keyed(self, label: int) -> Keyed:
        """The state of this label. BadUsage: its key is not in the file."""
        assert self._keys
        if label not in self._known:
            self._known[label] = Keyed(self._keys, label, self._epochs)
        return self._known[label]

    def ask(self, timeout: float = TIMEOUT) -> Entries:
        """The entries of the first valid report within these seconds. An invalid one does not end
        the wait: otherwise anyone could send one to hide it."""
        return wait(self._ask(timeout))

    async def ask_async(self, timeout: float = TIMEOUT) -> Entries:
        """As ask(), while other tasks run."""
        return await wait_async(self._ask(timeout))

    def _ask(self, timeout: float) -> Steps[Entries]:
        if not self._keys:
            return self._talk(timeout, lambda: REQUEST, parse_report)
        reader = self._keyed(READER_LABEL)
        reader.begin()
        return self._talk(timeout, reader.request, reader.take)

    async def changes(self, interval: float = 1.0, names: str = "",
                      timeout: float = TIMEOUT) -> AsyncIterator[Change]:
        """Asks every `interval` seconds, with a pause of at least 0.1 s. The first change has all
        variables that were received, or are in the file of names. BadUsage: that file is wrong."""
        import asyncio
        options = argparse.Namespace(names=names or None, key=self._keys)
        settings = await wait_async(run_apart(math.inf, lambda: make_settings(options)))
        assert settings
        watched = Watched(settings, [], self.name)
        while True:
            end = end_of(interval)
            with watched.polling() as take:
                take(await self.ask_async(timeout))
            if watched.trouble or watched.news():
                yield Change(watched.news(), watched.trouble)
            await asyncio.sleep(max(0.1, end - time.monotonic()))

    def _talk(self, timeout: float, request: Callable[[], bytes],
              take: Callable[[bytes], Optional[Result]]) -> Steps[Result]:
        """Sends requests until take() returns something. It sends one at once if take() returns
        None, if the agent rejects the last one, or if another address is left."""
        end, transport = end_of(timeout), self._transport
        asked = 0
        bad: Optional[BadReport] = None  # the last one, or of refusals the first one
        silence = ""  # the last reason of the network
        with contextlib.closing(transport):
            yield from transport.opening(timeout)
            for seconds in draw_waits():
                again = min(end, time.monotonic() + seconds)
                untried, is_due = transport.addresses, True
                while is_due or time.monotonic() < again:
                    try:
                        if is_due:
                            is_due, asked = False, asked + 1
                            transport.send(request())
                        packet = yield from transport.receiving(again)
                        if packet is not None:
                            if (result := take(packet)) is not None:
                                return result
                            is_due = time.monotonic() < end
                    except BadReport as error:
                        is_refused = error.cause == "refused"
                        # On a bus, the beacons of others come, too.
                        if bad is None or not is_refused and not (
                                error.cause == "beacon" and transport.SHARED):
                            bad = error
                        is_due = is_refused and not transport.SHARED and time.monotonic() < end
                    except NoAnswer as error:
                        untried, silence = untried - 1, f": {error}"
                        is_due = untried > 0  # Another address is left.
                        if is_due:
                            transport.next_address()
                if again >= end:
                    break
                transport.next_address()
            transport.forget_addresses()
        if bad is not None:
            raise BadReport(bad.cause, f"bad report from {transport.name}: {bad}")
        hint = f"; it may have {'no key' if transport.keyed else 'a key: give --key'}"
        raise NoAnswer(f"no answer in {format_age(round(timeout * 1000))}" + (
            silence or f" from {transport.name} after {asked} requests{transport.SILENCE}{hint}"))

    @contextlib.contextmanager
    def _next_heartbeat(self, variable: int, sender: int, value: int,
                        end: float) -> Iterator[bytes]:
        """Meanwhile no other program sends a later count of this variable."""
        packet = heartbeat(variable, sender, value)
        if not self._keys:
            yield packet
            return
        node = self._keyed(variable)
        self._hear(node, end)  # before the lock, so that a silent agent stops no other program
        with self._epochs.locked(self._keys.of(variable), end) as (last, store):
            node.resume(last)
            self._hear(node, end)  # again only if others have stored a later epoch, or it took long
            packet = node.heartbeat(sender, value)
            store(node.epoch, node.count)
            yield packet

    def _hear(self, node: Keyed, end: float) -> None:
        """Requests a beacon, if none has come just now."""
        if uptime() - node.heard_at > HEAR_AGAIN:
            node.begin()
            wait(self._talk(max(0.0, end - time.monotonic()), lambda: make_question(node.label),
                            node.hear))

    def beat(self, variable: int, sender: int, value: int, timeout: float = TIMEOUT) -> None:
        """Sends one heartbeat. NoAnswer: it cannot be sent. Nothing shows whether it arrives.
        Error: the count of a keyed one cannot be stored, so it is not sent."""
        end = end_of(timeout)
        with contextlib.ExitStack() as turn:
            packet = turn.enter_context(self._next_heartbeat(variable, sender, value, end))
            with contextlib.closing(self._transport):
                self._transport.open(timeout)
                self._send(packet, min(end, time.monotonic() + min(0.1, timeout / 4)), turn.close)

    def _send(self, packet: bytes, end: float, sent: Callable[[], None]) -> None:
        """Waits until then for a refusal, and tries the next address. NoAnswer: all refuse."""
        for tried in itertools.count(1):
            try:
                self._transport.send(packet)
                sent()
                while True:
                    with contextlib.suppress(BadReport):  # whatever came, it is no refusal
                        self._transport.receive(end - time.monotonic())
                    if time.monotonic() >= end:
                        return
            except NoAnswer as error:
                self._transport.next_address()
                if tried >= self._transport.addresses:
                    raise NoAnswer(f"cannot send to {self.name}: {error}") from error


# ---------------------------------------------------------------- get and set
# The commands that poll once, or send once.
CLOCK_PAUSE = 1.25  # ticks of 1 to LONGEST_PAUSE seconds: before a second request
LONGEST_PAUSE = 5.0


def find_clock(agent: Agent, settings: Settings, timeout: float) -> Clock:
    """Polls an agent, and once more if another report may show which clock it has."""
    agent_clock, asked = Clock(settings), uptime()
    end = asked + timeout
    agent_clock.take(agent.ask(timeout), asked, uptime())
    if agent_clock.now is None and agent_clock.source == "here":
        pause = CLOCK_PAUSE * min(LONGEST_PAUSE, max(1.0, settings.tick_ms / 1000))
        time.sleep(max(0.0, min(pause, (end - uptime()) / 2)))
        asked = uptime()
        try:
            agent_clock.take(agent.ask(end - asked), asked, uptime())
        except (NoAnswer, BadReport):
            agent_clock.now = clock(settings.tick_ms)
    return agent_clock


HEADING = f"{'variable':27} value  sender  last received"


def format_row(reading: Reading) -> str:
    when = {NEVER: "never", UNKNOWN: "?"}.get(reading.state, f"{reading.age} ago")
    when += f"; {reading.boot}" * bool(reading.boot)
    label = f"{reading.variable.number}{' *'[reading.variable.is_unkeyed]}{reading.variable.name}"
    return f"{label:27} {reading.value:>5}  {reading.sender:>6}  {when}"


def run_get(options: argparse.Namespace) -> int:
    settings = make_settings(options)
    selected = parse_variables(",".join(options.variables), settings.variables)
    agent = Agent(options.address, options.key)
    agent_clock = find_clock(agent, settings, options.timeout / 1000)
    shown = worth_showing(interpret(agent_clock, History()), selected)
    if options.json:
        print(json.dumps({"agent": agent.name, "tick": settings.tick_ms / 1000,
                          "now": agent_clock.now,
                          **describe_report(agent_clock, shown)}))
        return 0
    received = sum(not entry.never for entry in agent_clock.entries)
    trust = "; ".join(("report authentic" if options.key else "report verified", *agent.remarks))
    print(f"{agent.name}: {trust}, {received} of {VARIABLES} variables received, {agent_clock}")
    print("".join(f"{line}\n" for line in [HEADING, *map(format_row, shown)] if shown), end="")
    if any(reading.variable.is_unkeyed for reading in shown):
        print("* not authenticated: the agent accepts it without a key, so anyone can forge it")
    return 0


def run_set(options: argparse.Namespace) -> int:
    settings = make_settings(options)
    variable = parse_one(options.variable, settings.variables, "set one at a time")
    is_unkeyed = settings.variables[variable].is_unkeyed  # it needs version 1
    agent = Agent(options.address, None if is_unkeyed else options.key)
    agent.beat(variable, options.sender, options.value, options.timeout / 1000)
    return 0


# ---------------------------------------------------------------- check --memory
# Stores the history of an agent from check to check.
MEMORY = re.compile(r"""dumpulse memory 1 ([0-9a-f]{8})
(agent (".{1,8000}")
boot ([0-9a-f-]{1,40})
clock ([ -~]{1,40})
at (-?[0-9]{1,15})
now ([0-9]{1,5}|-)
((?:(?:[0-9]|[1-5][0-9]|6[0-3])(?: [0-9]{1,5}){3} -?[0-9]{1,15} (?:[0-9]{1,15}|-)
){0,64}))""", re.ASCII)
NO_FOLLOW = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK"))


def boot() -> str:
    """An identifier of this start of the machine, from which uptime() counts, if it has one."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read().decode().strip()
    return "-"


def interpret_with_memory(path: Optional[str], name: str, agent_clock: Clock,
                          end: float) -> tuple[list[Reading], str]:
    """What the clock's last report means after the ones before; and why the file cannot be written.
    BadUsage: it is not a memory of this agent, and stays as it is."""
    if path is None:
        return interpret(agent_clock, History()), ""
    trouble, received_ms = "", int(agent_clock.received * 1000)
    with contextlib.ExitStack() as stack:
        try:  # The lock is another file, because the memory is replaced while others wait.
            if termios is None:
                raise OSError(errno.ENOSYS, "this system has no locks for files")
            lock_file = stack.enter_context(open(f"{path}.lock", "a", opener=lambda file, flags: (
                os.open(file, flags | NO_FOLLOW, 0o600))))
            wait(locking(lock_file.fileno(), time.monotonic() + max(1, end - uptime())))
        except BlockingIOError:
            trouble = f"another program locks '{path}.lock'"
        except (OSError, ValueError) as error:
            trouble = explain(error)
        history = load_history(path, name, received_ms)
        late = history.at_ms > received_ms  # a later check has written meanwhile
        readings = interpret(agent_clock, history)
        if not trouble and not late:
            try:
                save_history(path, name, history)
            except OSError as error:
                trouble = explain(error)
    return readings, f"cannot keep {path!r}: {trouble}" if trouble else ""


def load_history(path: str, name: str, received_ms: int) -> History:
    history = History()
    with explained(f"cannot use {path!r}", BadUsage):
        if os.path.islink(path):
            raise OSError(errno.ELOOP, "it is a symbolic link")
        try:
            content = read_own(path, NO_FOLLOW, lambda about: "it belongs to another user" * (
                about.st_uid != user()))
        except FileNotFoundError:
            return history
    match = MEMORY.fullmatch(content.decode("ascii", "replace"))
    if not match or int(match[1], 16) != zlib.adler32(match[2].encode()):
        raise BadUsage(f"{path!r} is not a file of --memory, or is damaged: remove it, or name "
                       "another")
    if match[3] != json.dumps(name):
        raise BadUsage(f"{path!r} is of the agent {match[3]}: each agent needs its own --memory")
    history.basis, history.at_ms = match[5], int(match[6])
    history.now = None if match[7] == "-" else int(match[7])
    # Then the time since is unknown. What is ahead by 10 minutes is from before the restart.
    restarted = match[4] != boot() or history.at_ms > received_ms + 600_000
    for line in match[8].splitlines():
        number, ticks, sender, value, since_ms = map(int, line.split()[:5])
        age_ms = None if line.endswith("-") else int(line.split()[5])
        if restarted:
            since_ms = received_ms - (age_ms or 0) - max(0, history.at_ms - since_ms)
            age_ms = None
        history.entries[number] = Unchanged(Entry(ticks, sender, value), since_ms, age_ms)
    if restarted:
        history.at_ms, history.now = received_ms, None
    return history


def save_history(path: str, name: str, history: History) -> None:
    rows = "".join(
        f"{number} {old.entry.timestamp} {old.entry.sender} {old.entry.value} {old.since_ms} "
        f"{'-' if old.age_ms is None else old.age_ms}\n" for number, old in history.entries.items())
    now = "-" if history.now is None else history.now
    body = (f"agent {json.dumps(name)}\nboot {boot()}\nclock {history.basis}\n"
            f"at {history.at_ms}\nnow {now}\n{rows}").encode()
    replace_file(path, b"dumpulse memory 1 %08x\n%b" % (zlib.adler32(body), body))


# ---------------------------------------------------------------- check
# A plugin of Nagios and Icinga: one line, performance data, and an exit status.
STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")  # The index is the exit status.


def judge(reading: Reading) -> tuple[int, list[str]]:
    """The status of an expected variable, and all that is wrong with it."""
    variable = reading.variable
    status, silence = {
        OK: (0, ""), NEVER: (2, "never received"), UNKNOWN: (3, "age unknown"),
        DEAD: (2, f"dead: silent for {reading.age}, crit {format_age(variable.crit_ms)}"),
        LATE: (1, f"late: silent for {reading.age}, warn {format_age(variable.warn_ms)}"),
    }[reading.state]
    problems = [silence] if silence else []
    if reading.bad_value:
        status = 2
        problems.append(f"bad value: {reading.entry.value} is not in "
                        f"{variable.low}..{variable.high}")
    if reading.restarted:
        problems.append(f"restarted: {reading.boot}")
    if reading.unusual_value:
        problems.append(f"unusual value: {reading.entry.value} is not in "
                        f"{variable.warn_low}..{variable.warn_high}")
    return status or min(1, len(problems)), [f"{variable.label} {what}" for what in problems]


def format_performance(reading: Reading) -> str:
    """'label'=value[unit];warn;crit;min;max, where U is an unknown value."""
    variable = reading.variable
    label = variable.name or f"variable {variable.number}"
    silence = "U" if reading.age_ms is None else f"{format_seconds(reading.age_ms)}s"
    value = "U" if reading.state == NEVER else str(reading.entry.value)
    warn, crit = f"{variable.warn_low}:{variable.warn_high}", f"{variable.low}:{variable.high}"
    late, dead = format_seconds(variable.warn_ms), format_seconds(variable.crit_ms)
    boots = "" if reading.boot_value is None else f" '{label} boots'={reading.boot_value % 32}"
    return (f"'{label} age'={silence};{late};{dead};0; "
            f"'{label} value'={value};{warn if warn != crit else ''};{crit};0;255{boots}")


def describe(variable: Variable, reading: Optional[Reading] = None) -> str:
    """For `names` and check -vv."""
    shown = reading and f"{reading.state}, value {reading.value}, sender {reading.sender}, age " \
        f"{reading.age}{'; ' * bool(reading.boot)}{reading.boot}"
    limits = f"warn {format_age(variable.warn_ms)}, crit {format_age(variable.crit_ms)}, value " \
        f"{variable.low}..{variable.high}" if variable.expected else "not expected"
    return f"{variable.label}: {'; '.join(filter(None, (shown, limits)))}"


def run_check(options: argparse.Namespace) -> int:
    end = uptime() + options.timeout / 1000
    if (options.address is None) == (options.plugin_host is None):
        raise BadUsage("name one agent, as HOST[:PORT] or -H HOST[:PORT]")
    address = join_port(options.address or options.plugin_host, options.port)
    settings = make_settings(options)
    if not any(variable.expected for variable in settings.variables):
        raise BadUsage("nothing is expected: name variables with --expect or in --names FILE")
    agent = Agent(address, options.key)
    agent_clock = find_clock(agent, settings, options.timeout / 1000)
    readings, trouble = interpret_with_memory(options.memory, agent.name, agent_clock, end)
    expected = [reading for reading in readings if reading.variable.expected]
    verdicts = sorted(map(judge, expected), key=lambda verdict: (2, 1, 3, 0).index(verdict[0]))
    status = verdicts[0][0]
    notes = [*itertools.chain.from_iterable(what for _, what in verdicts)] or [
        f"{len(expected)} alive at {agent.name}"]
    unknown = any(reading.state == UNKNOWN for reading in expected)
    if options.verbose:
        notes.append(f"{tally(expected)} at {agent.name}")
    if options.verbose or unknown or status and not agent_clock.agreed:
        notes.append(str(agent_clock))
    if trouble and status == 0:
        status = 3
    labels = [reading.variable.label for reading in expected if reading.variable.is_unkeyed]
    unkeyed = f"not authenticated: {', '.join(labels)}" * bool(labels)
    notes += filter(None, (trouble, *agent.remarks, unkeyed))
    data = " | " + " ".join(map(format_performance, expected))
    shown = expected if options.verbose < 3 else worth_showing(readings, ())
    details = (describe(reading.variable, reading) for reading in shown if options.verbose > 1)
    return print_check(status, "; ".join(notes), "\n".join((data, *details)))


def print_check(status: int, text: str, data: str = "") -> int:
    print(f"DUMPULSE {STATES[status]} - {hide_keys(text)}".replace("|", "/") + data)
    return status


# ---------------------------------------------------------------- watch
# Shows reports, as a table on a terminal or as lines of JSON.
def draw_screen(watched: Watched, columns: int, rows: int) -> list[str]:
    """What a terminal of this size shows: the worst variables, if there is no room for all."""
    shown, summary = watched.shown(), watched.summary()
    head = [f"{watched.name}  {time.strftime('%H:%M:%S')}", *(
        summary[start:start + columns] for start in range(0, len(summary), columns)),
        *filter(None, (str(watched.clock) * bool(watched.readings), watched.event))]
    del head[max(1, rows - 3):]  # variables in trouble are more important than news
    room = max(1, rows - len(head) - 2)
    end = "Ctrl-C ends" + "; * not authenticated" * any(row.variable.is_unkeyed for row in shown)
    if len(shown) > room:
        end = f"{len(shown) - room} hidden; {end}"
        rank = (DEAD, LATE, NEVER, UNKNOWN, OK).index
        shown.sort(key=lambda reading: (not reading.bad_value, rank(reading.state),
                                        not reading.unusual_value))
        shown = sorted(shown[:room], key=lambda reading: reading.variable.number)
    stale = ", stale" * bool(watched.trouble)  # a reading of an earlier report
    table = (f"{format_row(reading)}{stale or f', {reading.state}' * (reading.age_ms is not None)}"
             for reading in shown)
    return [line[:columns] for line in (*head, HEADING, *table, end)][:rows]


def show_screen(watched: Watched) -> None:
    size = shutil.get_terminal_size()
    *lines, last = draw_screen(watched, size.columns, size.lines)
    # Each line is erased before it is written, because after its last column the cursor is still
    # there. Terminals that know mode 2026 show all changes at once.
    text = "".join(f"\x1b[K{line}\n" for line in lines)
    print(f"\x1b[?2026h\x1b[H{text}\x1b[J{last}\x1b[?2026l", end="", flush=True)


def show_json(watched: Watched) -> None:
    error = str(watched.trouble) if watched.trouble else None
    print(json.dumps({"time": round(time.time(), 3), "agent": watched.name, "error": error,
                      **describe_report(watched.clock, watched.shown())}), flush=True)


def wait_for_next(pause: float) -> None:
    """BrokenPipeError as soon as the reader has gone, and not only at the next report."""
    if not hasattr(select, "poll"):
        return time.sleep(pause)
    reader = select.poll()
    reader.register(sys.stdout.fileno(), 0)  # which leaves errors and hang-ups
    if reader.poll(math.ceil(min(pause, LONGEST_WAIT) * 1000)):
        raise BrokenPipeError


def run_watch(options: argparse.Namespace) -> int:
    settings = make_settings(options)
    selected = parse_variables(",".join(options.variables), settings.variables)
    agent = Agent(options.address, options.key)
    watched = Watched(settings, selected, agent.name)
    interval = options.interval / 1000
    timeout = min(options.timeout / 1000, max(1.0, interval))
    is_screen = termios and not options.json and sys.stdout.isatty() \
        and os.environ.get("TERM") not in (None, "", "dumb")
    with contextlib.suppress(KeyboardInterrupt):
        for done in itertools.count(1):
            begun = time.monotonic()
            with watched.polling() as take:
                take(agent.ask(timeout))
            (show_screen if is_screen else show_json)(watched)
            if done == options.count:
                break
            wait_for_next(max(0.0, begun + interval - time.monotonic()))
    if is_screen:
        print()
    return watched.trouble.STATUS if options.count and watched.trouble else 0


# ---------------------------------------------------------------- names
# Prints what firmware and CAN tools need of a file of names.
NAME_IN_DBC = 22  # characters: an identifier there has up to 32, and Timestamp_ takes 10 of them


def name_variables(variables: Sequence[Variable], longest: int = 99) -> dict[int, str]:
    """An identifier of C for each variable: its name as far as it can be one, or its number."""
    identifiers: dict[int, str] = {}
    for variable in variables:
        name = re.sub("[^A-Za-z0-9]+", "_", variable.name).strip("_")[:longest] or \
            f"{variable.number}"
        if name.upper() in map(str.upper, identifiers.values()):
            name = f"{name[:longest - 3]}_{variable.number}"
        while name.upper() in map(str.upper, identifiers.values()):
            name += "_"
        identifiers[variable.number] = name
    return identifiers


def format_c(settings: Settings, path: str) -> str:
    """The numbers of the variables, and the lines of a watch: extras/dumpulse_watch.h. A node is
    dead after a whole number of silences, so maybe later than in the file, and never earlier."""
    listed = [variable for variable in settings.variables if variable.listed]
    if not listed:
        raise BadUsage(f"{path!r} has no variables")
    names = {number: f"VARIABLE_{name.upper()}" for number, name in name_variables(listed).items()}
    lines = []
    for variable in (variable for variable in listed if variable.expected):
        silence, dead = (max(1, ms // settings.tick_ms) for ms in (variable.warn_ms,
                                                                   variable.crit_ms))
        misses = math.ceil(dead / silence)
        lines.append(f"    DUMPULSE_WATCHED(variable({names[variable.number]}), "
                     f"silence({silence}), misses({misses}), grace({silence * misses}), "
                     f"values({variable.low}, {variable.high}))"
                     + f" /* crit is {dead} */" * (dead != silence * misses))
    enum = "".join(f"    {name} = {number},\n" for number, name in names.items())
    table = ", \\\n".join(lines)
    return f"""\
/* `dumpulse names --c` made it, of {path.replace('*/', '* /')}. A tick has {settings.tick_ms} ms.
 *     DUMPULSE_WATCH(watch, WATCHED_VARIABLES); */
enum {{
{enum}}};
""" + f"#define WATCHED_VARIABLES \\\n{table}\n" * bool(lines)


def make_messages(names: dict[int, str]) -> Iterator[tuple[int, str, int, str, list[str]]]:
    """The offset from the base, the name, the length, the sender and the signals of each frame."""
    def signal(name: str, byte: int, size: int, to: str, low: int = 0, high: int = -1) -> str:
        """A number, big-endian. DBC counts bits so that the highest of byte n is 8 * n + 7."""
        highest = high if high >= 0 else (1 << 8 * size) - 1
        return f' SG_ {name} : {8 * byte + 7}|{8 * size}@0+ (1,0) [{low}|{highest}] "" {to}'

    def entry(variable: int, byte: int) -> list[str]:
        return [signal(f"{field}_{names[variable]}", byte + offset, size, "Reader")
                for field, offset, size
                in (("Timestamp", 0, 2), ("Sender", 2, 1), ("Value", 3, 1))]

    for number in range(VARIABLES):
        yield number, f"Heartbeat_{names[number]}", 8, "Node", [
            signal("Checksum", 0, 4, "Agent"), signal("Magic", 4, 1, "Agent", MAGIC, MAGIC),
            signal("Variable", 5, 1, "Agent", number, number), signal("Sender", 6, 1, "Agent"),
            signal("Value", 7, 1, "Agent")]
    # The checksum takes the place of an entry, so frame k has the entries 2k - 1 and 2k.
    for frame in range(VARIABLES // 2 + 1):
        first = entry(2 * frame - 1, 0) if frame else [signal("Checksum", 0, 4, "Reader")]
        second = entry(2 * frame, 4) if 2 * frame < VARIABLES else []
        yield (CAN_REPORT + frame, f"Report_{frame}", 8 if second else 4, "Agent", first + second)
    asks = int.from_bytes(REQUEST, "big")
    yield CAN_REQUEST, "Request", 8, "Reader", [signal("AreYouOK", 0, 8, "Agent", asks, asks)]


def format_dbc(variables: Sequence[Variable] = tuple(map(Variable, range(VARIABLES))),
               base: int = CAN_BASE, reports: Optional[int] = None) -> str:
    """The frames of version 1. Reports may have another first identifier."""
    lines = [f'VERSION "{VERSION}"', "", "NS_ :", "", "BS_:", "", "BU_: Node Agent Reader", ""]
    names = name_variables(variables, NAME_IN_DBC)
    for offset, name, length, sender, signals in make_messages(names):
        first = base if offset < CAN_REPORT or reports is None else reports
        lines += [f"BO_ {first + offset} {name}: {length} {sender}", *signals, ""]
    return "\n".join(lines) + "\n"


def run_names(options: argparse.Namespace) -> int:
    settings = make_settings(options)
    if options.c:
        print(end=format_c(settings, os.path.basename(options.names)))
    elif options.dbc:
        print(end=format_dbc(settings.variables, options.base))
    else:
        for variable in settings.variables:
            if variable.listed:
                print(describe(variable))
    return 0


# ---------------------------------------------------------------- status
# Shows what the socket of a server's --stats answers.
def read_status(path: str) -> dict[str, Any]:
    """What the server sends at this socket: its counters, and the table with names."""
    answer = b""
    with explained(f"cannot read the status of {path!r}"), \
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as reader:
        reader.settimeout(3)
        reader.connect(path)
        while received := reader.recv(65536):
            answer += received
    try:
        status: dict[str, Any] = json.loads(answer)
        status["table"][63]["age_ms"]
    except (ValueError, LookupError, TypeError):
        raise Error(f"{path!r} is not the socket of a server's --stats") from None
    return status


def format_prometheus(status: dict[str, Any]) -> str:
    """Prometheus' text: a gauge for the uptime, counters, and gauges for each variable."""
    lines = []
    for key, value in status.items():
        if isinstance(value, int) and key not in ("started", "tick_ms"):
            is_gauge = key in ("uptime", "variables", "epoch_tags", "key_before")
            name = f"dumpulse_{key}" if is_gauge else f"dumpulse_{key}_total"
            lines += [f"# TYPE {name} {'gauge' if is_gauge else 'counter'}", f"{name} {value}"]
    for name, key, scale in (("age_seconds", "age_ms", 1000), ("value", "value", 1),
                             ("alive", "state", 1)):
        lines.append(f"# TYPE dumpulse_variable_{name} gauge")
        for row in status["table"]:
            value = row[key]
            if value is not None:
                number = value in ("alive", "out-of-range") if key == "state" else value / scale
                label = json.dumps(row["name"], ensure_ascii=False)
                lines.append(f'dumpulse_variable_{name}{{variable="{row["variable"]}",'
                             f'name={label}}} {float(number):.15g}')
    return "\n".join(lines) + "\n"


def run_status(options: argparse.Namespace) -> int:
    status = read_status(options.path)
    if options.json:
        print(json.dumps(status))
    elif options.prometheus:
        print(end=format_prometheus(status))
    else:
        print(f"{status['program']} {status['version']}, up {status['uptime']} s: "
              + " ".join(status["arguments"]))
        print(", ".join(f"{key} {value}" for key, value in status.items()
                        if isinstance(value, int) and key not in ("started", "uptime", "tick_ms")))
        for row in status["table"]:
            if row["state"] or row["age_ms"] is not None:
                age = "never received" if row["age_ms"] is None else \
                    f"{row['age_ms'] / 1000:g} s ago, value {row['value']}, sender {row['sender']}"
                state = row["state"] or "not watched"
                print(f"{row['variable']:2} {row['name']:24} {state:12} {age}")
    return 0


# ---------------------------------------------------------------- key
# Makes, shows and splits files of keys, and makes what images with keys need.
KEY_OPTIONS = {"new": "", "show": "", "split": "out variable readers agent text",
               "eeprom": "out image variable"}
SINCE_2020 = 1_577_836_800  # Unix time at which the numbers of agents begin.
NUMBER_S = 900  # Seconds until the next number: firmware/keyed_avr.c.
LAST_NUMBER = 0x1FFFFF  # With it, all epochs of a master key are used up, in 2079.
# Images with keys: whether it is an agent, and the address of its keys in EEPROM (0) or flash.
IMAGES = {"can_avr-keyed": (True, 0), "keyed_atmega328p": (True, 0), "keyed_attiny85": (False, 0),
          "keyed_stm32": (True, 0x0800F400), "node_stm32": (False, 0x0800F400)}


def write_all(files: Sequence[tuple[str, str]]) -> None:
    """Makes files that only their owner can read: all or none, and it overwrites nothing. They are
    on the disk when it returns, also if the power fails then."""
    written: list[str] = []
    try:
        for path, content in files:
            with explained(f"cannot make {path!r}"):
                replace_file(path, content.encode(), fresh=True)
            written.append(path)
        for folder in {os.path.dirname(path) or "." for path in written}:
            with explained(f"cannot make files in {folder!r}"):
                sync_folder(folder)
    except BaseException:
        for path in written:
            os.unlink(path)
        raise


def make_private_folder(path: str) -> None:
    """Makes a folder that only its owner can read, and that git ignores, if it is not there."""
    with explained(f"cannot make the folder {path!r}"):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # whatever the umask is
        about = os.lstat(path)
    if not stat.S_ISDIR(about.st_mode) or os.name == "posix" and (
            about.st_mode & 0o077 or about.st_uid != user()):
        raise Error(f"cannot use {path!r}: use a new name, or a folder of yours with mode 700")
    with explained(f"cannot use {path!r}"):
        if not os.listdir(path):
            write_all([(os.path.join(path, ".gitignore"), "# Keys are in this folder.\n*\n")])


def format_header(about: str, macros: dict[str, Union[str, bytes]]) -> str:
    return f"/* SECRET. `dumpulse key split` made it, of the key {about}. */\n" + "".join(
        f"#define DUMPULSE_{name} {value}\n" if isinstance(value, str) else
        f"#define DUMPULSE_{name} \\\n    {{{', '.join(f'0x{byte:02x}' for byte in value)}}}\n"
        for name, value in macros.items())


def read_masters(options: argparse.Namespace) -> Iterator[tuple[str, KeyFile]]:
    """How the names of the files of each master key begin, and the key."""
    for keys in map(KeyFile, options.files):
        if not keys.master:
            raise BadUsage(f"{keys.path!r} has no master key, which this needs")
        yield os.path.join(options.out, os.path.splitext(os.path.basename(keys.path))[0]), keys


def run_split(options: argparse.Namespace) -> list[tuple[str, str]]:
    """What each role needs of a master key."""
    files: list[tuple[str, str]] = []
    for start, keys in read_masters(options):
        about = compute_fingerprint(keys.master)
        for number in parse_variables(options.variable, ()):
            files.append((f"{start}-{number}.key", f"{number} {keys.of(number).hex()}\n")
                        if options.text else (f"{start}-{number}.h", format_header(about, {
                            "KEY_VARIABLE": f"{number}", "KEY_OWN": keys.of(number),
                            "EPOCH_SECONDS": f"{keys.epoch or EPOCH} /* as the agent has it */"})))
        if options.readers:
            files.append((f"{start}-readers.key", f"readers {keys.of(READER_LABEL).hex()}\n"))
        if options.agent:
            turns = ",".join(f"{keys.generations.get(label, 0)}" for label in LABELS.values())
            files.append((f"{start}-agent.h", format_header(about, {
                "KEY_MASTER": keys.master,
                "KEY_GENERATIONS": f"{{{turns}}} /* of labels 0 to 64 */"})))
    if not files:
        raise BadUsage("name the keys with --variable, --readers or --agent")
    return files


def take_number(key: bytes) -> bytes:
    """The first number of an agent, from the date, and its inverse. Error: the last file with this
    master key has the same number, wherever that file is now; or there is none for this date."""
    path = f"{os.path.splitext(Epochs.name(key))[0]}.eeprom"
    now = int(time.time())
    number, passed_s = divmod(now - SINCE_2020, NUMBER_S)
    if not 0 <= number < LAST_NUMBER:
        raise Error("an agent's number comes from the date: set the clock of this machine")
    with explained(f"cannot store the time of this file in {path!r}"):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        if os.path.exists(path) and (os.stat(path).st_mtime - SINCE_2020) // NUMBER_S >= number:
            raise Error("a file with this master key was made just now: flash that, or wait "
                        f"{NUMBER_S - passed_s} s")
        with open(path, "ab"):
            os.utime(path, (now, now))
    return struct.pack(">LL", number, number ^ 0xFFFFFFFF)


def format_hex(start: int, content: bytes) -> str:
    """Intel HEX, within 64 KB."""
    rows = [struct.pack(">BHBH", 2, 0, 4, start >> 16), *(
        struct.pack(">BHB", len(part), start % 65536 + offset, 0) + part
        for offset in range(0, len(content), 16) for part in [content[offset:offset + 16]]),
        struct.pack(">BHB", 0, 0, 1)]
    return "".join(f":{row.hex()}{-sum(row) % 256:02x}\n".upper() for row in rows)


def run_eeprom(options: argparse.Namespace) -> list[tuple[str, str]]:
    """What images with keys need: see firmware/keyed_avr.c, eeprom.h and stm32_flash.h."""
    if not options.image:
        raise BadUsage(f"name the image with --image: {', '.join(IMAGES)}")
    (is_agent, address), variables = IMAGES[options.image], parse_variables(options.variable, ())
    if is_agent == bool(variables):
        raise BadUsage(f"{options.image} is an agent: leave out --variable" if is_agent else
                       f"{options.image} is a node: name its variable with --variable")
    files: list[tuple[str, bytes]] = []
    for start, keys in read_masters(options):
        epoch = (keys.epoch or EPOCH).to_bytes(2, "little")
        for number in variables:
            files.append((f"{start}-{number}", (keys.of(number) + bytes((number,))).ljust(82, b"\0")
                          + epoch if address else bytes((number,)) + keys.of(number) + epoch))
        if is_agent:
            block = take_number(keys.master)
            turns = bytes(keys.generations.get(label, 0) for label in LABELS.values())
            files.append((f"{start}-agent", (keys.master + turns).ljust(1024, b"\0") + block
                          if address else keys.master + block[1:4] + block[5:] + bytes(6) + turns))
    return [(f"{name}.{'hex' if address else 'eep'}", format_hex(address, content))
            for name, content in files]


def show_keys(keys: KeyFile) -> None:
    """Prints the keys in a file."""
    about = f"epoch {keys.epoch} s, " * bool(keys.epoch)
    if keys.master:
        print(f"{keys.path!r}: master key, {about}fingerprint {compute_fingerprint(keys.master)}")
    for name, label in LABELS.items():
        if label in keys.known or label in keys.generations:
            about = f"generation {keys.generations.get(label, 0)}, " * bool(keys.master)
            mark = compute_fingerprint(keys.of(label))
            print(f"{keys.path!r}: {name} key, {about}fingerprint {mark}")


def run_key(options: argparse.Namespace) -> int:
    for name in " ".join(KEY_OPTIONS.values()).split():
        if getattr(options, name) and name not in KEY_OPTIONS[options.action].split():
            raise BadUsage(f"--{name} is not an option of key {options.action}")
    if options.action in ("split", "eeprom"):
        if not options.out:
            raise BadUsage("name a folder for the keys with --out")
        files = run_split(options) if options.action == "split" else run_eeprom(options)
        make_private_folder(options.out)
        write_all(files)
        print(f"{len(files)} file{'s' * (len(files) != 1)} in {options.out!r}")
        return 0
    if options.action == "new":
        write_all([(path, f"{os.urandom(16).hex()}\n") for path in options.files])
    for keys in map(KeyFile, options.files):
        show_keys(keys)
    return 0


# ---------------------------------------------------------------- the command line
# The commands, their options and their help, and main().
STATUSES = f"""\
HOST is also {Serial.FORM}, or {Can.FORM}.
Each command has its own --help. The port is 9060; with IPv6, write [::1]:9060.

exit status: 0 fine; 1 the output could not be written; 2 bad usage;
3 no answer; 4 a bad report. check has its own."""

CHECK_STATUSES = """\
exit status: 0 OK; 1 WARNING: late, unusual; 2 CRITICAL: dead, never received, a
bad value, no report; 3 UNKNOWN: bad usage, an unknown age, no output; --help"""


class Command(NamedTuple):
    run: Callable[[argparse.Namespace], int]
    arguments: str
    summary: str
    about: str
    epilog: str = ""


COMMANDS = {
    "get": Command(run_get, "HOST[:PORT] [VARIABLE]...", "show the report",
                   "Show an agent's report. ! marks a value that is out of its range."),
    "set": Command(run_set, "HOST[:PORT] VARIABLE VALUE", "send one heartbeat",
                   "Send one heartbeat. Nothing shows whether the agent accepts it: use get."),
    "watch": Command(run_watch, "HOST[:PORT] [VARIABLE]...", "show a live table", """\
Show a table of an agent's reports until Ctrl-C, or print lines of JSON in a
pipe. ! marks a value that is out of its range."""),
    "check": Command(run_check, "HOST[:PORT]", "for Nagios, Icinga, cron, scripts", """\
Print one line: which nodes are not alive, and performance data. The variables
of --expect must be alive, or all in the file of --names, except those with
expect = no.""", CHECK_STATUSES),
    "names": Command(run_names, "FILE", "show names; make C or a DBC file",
                     "Show a file of names, or make C for firmware or DBC for CAN tools of it."),
    "status": Command(run_status, "PATH", "states, counters of a server",
                      "Show states, counters and arguments of a server, by the socket of --stats."),
    "key": Command(run_key, "ACTION FILE...", "keys for agents and nodes", """\
Make files with master keys, one for each agent; show which keys are in a file,
by their fingerprints; or write into a folder what nodes, readers and images
with keys need of a master key. A line `3 1` in the file of a master key
replaces the key of variable 3, and `epoch 30` makes epochs of 30 seconds."""),
}

# If the first word is no command, the command is `get`, and this is its help.
NO_COMMAND = COMMANDS["get"]._replace(
    arguments="COMMAND ... | HOST[:PORT] [VARIABLE]...", epilog=STATUSES, about="\n".join([
        "Polls Dumpulse agents, and shows which nodes are alive.", "",
        *(f"  %(prog)s {f'{name} {command.arguments}':34} {command.summary}"
          for name, command in COMMANDS.items()), "",
        "If the first word is not the name of a command, the command is get."]))


class Option(NamedTuple):
    """An option or an argument of some commands."""
    commands: Sequence[str]
    flags: str               # An argument has its name here.
    metavar: str             # The value in the help. "": an option without one.
    help: str                # The default is in brackets.
    parse: Optional[Callable[[str], Any]] = None  # None: that of PARSERS, or the text.
    extra: Keys = {}         # Further keywords for argparse.


READERS = ("get", "watch", "check")
ASKERS = (*READERS, "set")
JUDGES = ("watch", "check")
HOST_HELP = f"the agent: {', '.join(form.FORM for form in (Udp, Serial, Can))}"
PARSERS = {"TIME": parse_duration, "FILE": parse_file, "FOLDER": parse_file,
           "VALUE": parse_byte, "SENDER": parse_byte}  # The keys are metavars.

OPTIONS = [
    Option(("get", "set", "watch"), "address", "HOST[:PORT]", HOST_HELP),
    Option(("check",), "address", "HOST[:PORT]", HOST_HELP, extra={"nargs": "?"}),
    Option(("check",), "-H", "HOST[:PORT]", "the same agent", extra={"dest": "plugin_host"}),
    Option(("check",), "-p --port", "PORT", "its port (9060)"),
    Option(("get", "watch"), "variables", "VARIABLE", "3,7-12 or names (all received or named)",
           extra={"nargs": "*", "default": []}),
    Option(("set",), "variable", "VARIABLE", "0 to 63, or its name"),
    Option(("set",), "value", "VALUE", "0 to 255"),
    Option(("names",), "names", "FILE", "names and deadlines, as in vehicle.ini"),
    Option(("names",), "--c", "", "print C: an enum, and the table of dumpulse_watch.h"),
    Option(("names",), "--dbc", "", "print a DBC file"),
    Option(("names",), "--base", "ID", "--dbc: the first CAN identifier (680)", parse_base,
           {"default": CAN_BASE}),
    Option(("key",), "action", "|".join(KEY_OPTIONS), "what to do", extra={"choices": KEY_OPTIONS}),
    Option(("key",), "files", "FILE", "a file of keys", extra={"nargs": "+"}),
    Option(("key",), "--out", "FOLDER", "split, eeprom: the folder, private and ignored by git"),
    Option(("key",), "--image", "IMAGE", "eeprom: the image to flash", extra={"choices": IMAGES}),
    Option(("key",), "--variable", "VARIABLES", "split, eeprom: nodes", extra={"default": ""}),
    Option(("key",), "--readers", "", "split: FILE-readers.key"),
    Option(("key",), "--agent", "", "split: FILE-agent.h: the master key, for its firmware"),
    Option(("key",), "--text", "", "split: FILE-3.key for set --key, in place of FILE-3.h"),
    Option(("set",), "--sender", "SENDER", "its sender, 0 to 255 (1)", extra={"default": 1}),
    Option(("check",), "--expect", "VARIABLES", "variables that must be alive: 3,7-12 or names"),
    Option(JUDGES, "-w --warn", "TIME", "late after this much silence (5s)"),
    Option(JUDGES, "-c --crit", "TIME", "dead after this much silence (30s)"),
    Option(("watch",), "--interval", "TIME", "between requests (1s)", extra={"default": 1_000}),
    Option(("watch",), "--count", "N", "end after this many reports or failures",
           partial(parse_number, low=1, high=10**8)),
    Option((*READERS, "names"), "--tick", "TIME", "unit of timestamps (1s)", parse_tick),
    Option(READERS, "--now-from", "VARIABLE", "count ages from this variable (the clock here)"),
    Option(ASKERS, "--names", "FILE", "names and deadlines, as in vehicle.ini"),
    Option(ASKERS, "--key", "FILE", "the agent's keys, which `key` makes", KeyFile),
    Option(ASKERS, "-t --timeout", "TIME", "timeout (3s)", extra={"default": 3_000}),
    Option(("check",), "-v --verbose", "", "more text; -vv: a line for each variable",
           extra={"action": "count", "default": 0}),
    Option(("check",), "--memory", "FILE", "store ages from one check to the next"),
    Option(READERS, "--also-unkeyed", "VARIABLES", "the agent accepts these without a key"),
    Option(("get", "watch", "status"), "--json", "", "print JSON"),
    Option(("status",), "path", "PATH", "the socket, as in /run/dumpulse/stats"),
    Option(("status",), "--prometheus", "", "print Prometheus' text"),
]


class Parser(argparse.ArgumentParser):
    """Errors are one line that names the help."""
    def error(self, message: str) -> NoReturn:
        line = "".join(character if character.isprintable() else ascii(character)[1:-1]
                       for character in message)  # argparse repeats arguments as they are
        raise BadUsage(f"{line} (see {self.prog} --help)")

    def _print_message(self, message: str, file: object = None) -> None:
        print(message, end="")  # the original hides errors


def build_parser(name: str) -> Parser:
    """The parser of a command, or with "" of a command line without one."""
    command = COMMANDS.get(name, NO_COMMAND)
    prog = f"{PROGRAM} {name}".strip()
    parser = Parser(prog=prog, usage=f"{prog} {command.arguments} [OPTION]...".replace("%", "%%"),
                    description=command.about, epilog=command.epilog, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-V", "--version", action="version", help="show the version and exit",
                        version=f"{PROGRAM} {VERSION}, keys {KEYS_VERSION} (experimental)")
    for option in OPTIONS:
        if (name or "get") in option.commands:
            parse = option.parse or PARSERS.get(option.metavar, str)
            keywords: Keys = {"type": parse, "metavar": option.metavar} if option.metavar else \
                {"action": "store_true"}
            parser.add_argument(*option.flags.split(), help=option.help,
                                **{**keywords, **option.extra})
    return parser


def run_command(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    try:
        options = build_parser(name).parse_intermixed_args(arguments[bool(name):])
        return COMMANDS.get(name, NO_COMMAND).run(options)
    except Error as error:
        if name == "check":  # monitors read only the standard output and the status
            return print_check(3 if isinstance(error, BadUsage) else 2, str(error))
        typed = "\n".join(arguments) if isinstance(error, BadUsage) and not name else ""
        has_word = re.match("[^-].*\n[0-9,]*[^0-9,-]", typed)  # The first may be a wrong command.
        about = f"; the commands are {', '.join(COMMANDS)}" if has_word else ""
        complain(f"{error}{about}")
        return error.STATUS
    except SystemExit as end:  # A signal, --help or --version: no service is OK then.
        return int(end.code or 3 * (name == "check"))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def main() -> NoReturn:
    global PROGRAM
    called = os.path.basename(sys.argv[0])
    PROGRAM = called if called.isprintable() and called else PROGRAM
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores it
            signal.signal(number, on_signal)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # it may be closed
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # ? for what the locale does not have
    try:
        status = run_command(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(status)
    except BrokenPipeError:
        status = 128 + 13  # SIGPIPE ends other programs with it.
    except OSError as error:
        complain(f"cannot write: {error.strerror}")
        status = 3 if sys.argv[1:2] == ["check"] else 1
    discard(sys.stdout)
    sys.exit(status)


if __name__ == "__main__":
    main()
