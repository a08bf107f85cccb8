"""Saves the table of the collector in a file, and loads it after a restart. The file is replaced as
a whole. It has a checksum, and each number in it is checked before it is used."""

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import ClockKind, Event, State
from dumpulse_fleet.model.table import VARIABLES, Table, copy_rows

PERIOD_S = 60.0  # between two times that the collector saves
MAGIC = b"dumpulse fleet 3\n"
HEADER = len(MAGIC) + 32  # a SHA-256 of all that follows
COPIED = 4096  # agents at a time, while the table is locked
MOST_BYTES = 4 << 30  # bytes: 2 million agents
MOST_64 = 1 << 62  # of counters, and of numbers of ticks
# The fields of a table, and the greatest number that each may have.
ARRAYS: dict[str, float] = {
    "entry": 0xFFFFFFFF, "stamped": MOST_64, "at_least": 1, "state": max(State),
    "told": max(State), "since": 1e12, "sender_before": 255, "agent_state": max(State),
    "agent_told": max(State), "agent_since": 1e12, "misses": 1 << 30, "kind": max(ClockKind),
    "strikes": 255, "emptied": 1, "began": 1e12, "asked": 1e12, "received": 1e12, "clock": MOST_64,
    "heard_at": 1e12, "round_trip": 1e9, "reports": MOST_64, "lost": MOST_64, "bad": MOST_64,
    "late": MOST_64, "refused": MOST_64, "reboots": MOST_64, "settable": 1}


class BadSnapshot(Exception):
    """Why a file cannot be loaded."""


def encode(table: Table) -> list[bytes]:
    """Returns the content of a file, in parts."""
    agents = [[agent.name, agent.address, round(agent.profile.tick * 1000),
               agent.profile.settings.now_from] for agent in table.agents]
    width = table.width()
    head = json.dumps({"agents": agents, "width": width, "zero": table.zero, "boot": client.boot(),
                       "now": table.now(), "unix": time.time()}).encode()
    arrays = {name: getattr(table, name).T[:width] if getattr(table, name).ndim == 2
              else getattr(table, name) for name in ARRAYS}
    copies = {name: np.empty_like(array) for name, array in arrays.items()}
    for start in range(0, len(agents), COPIED):
        rows = slice(start, start + COPIED)
        with table.lock:
            for name, copy in copies.items():
                copy[..., rows] = arrays[name][..., rows]
    parts = [len(head).to_bytes(8, "little"), head]
    parts += [copy.astype(copy.dtype.newbyteorder("<"), copy=False).tobytes()
              for copy in copies.values()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [MAGIC, digest.digest(), *parts]


def save(path: str, table: Table) -> None:
    """Replaces the file. OSError: it cannot be written."""
    new = f"{path}.new"
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.writelines(encode(table))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    client.sync_folder(os.path.dirname(os.path.abspath(path)))


def load(path: str, table: Table) -> str:
    """Puts the rows of a file into the table. Returns what is wrong with the file, if something is;
    then the table stays as it is."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(
                name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > MOST_BYTES:
                raise BadSnapshot("it is not a file of this program")
            kept = decode(file.read(), table)
    except FileNotFoundError:
        return ""
    except (OSError, BadSnapshot) as error:
        return f"cannot use what was kept in {path!r}, so all agents are new: " \
            f"{getattr(error, 'strerror', None) or error}"
    with table.lock:
        table.zero = kept.clock_goes_on() - client.uptime()
        kept.put(table, *kept.same(table))
    return ""


class Snapshot(NamedTuple):
    """The content of a file."""

    agents: list[tuple[str, str, int, int | None]]
    zero: float
    now: float
    unix: float
    boot: str
    values: dict[str, NDArray[Any]]

    def same(self, table: Table) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Returns the rows of the agents that are in both: in the table, and here."""
        known = {agent[0]: row for row, agent in enumerate(self.agents)}
        both = [(row, known[agent.name]) for row, agent in enumerate(table.agents)
                if agent.name in known]
        there, here = np.array(both, np.intp).reshape(-1, 2).T
        return there, here

    def clock_goes_on(self) -> float:
        """Returns what the clock of this file would show now. If the machine was started again, or
        is another one, only Unix time shows how long it took."""
        if self.boot == client.boot() != "-":
            return client.uptime() + self.zero
        return self.now + max(0.0, time.time() - self.unix)

    def put(self, table: Table, to: NDArray[np.intp], whence: NDArray[np.intp]) -> None:
        for name, kept in self.values.items():
            copy_rows(getattr(table, name), to, kept, whence)
        table.misses[to] = 0  # a grace: what did not answer then may answer now
        for row, before in zip(to.tolist(), whence.tolist()):
            agent = table.agents[row]
            if self.agents[before][1:] != (agent.address, round(agent.profile.tick * 1000),
                                           agent.profile.settings.now_from):
                table.kind[row] = ClockKind.NONE


def decode(content: bytes, table: Table) -> Snapshot:
    """Checks each number of a file. BadSnapshot: one is wrong."""
    if not content.startswith(MAGIC):
        raise BadSnapshot("it is not a file of this version")
    if hashlib.sha256(content[HEADER:]).digest() != content[len(MAGIC):HEADER]:
        raise BadSnapshot("its checksum is wrong")
    length = int.from_bytes(content[HEADER:HEADER + 8], "little")
    at = HEADER + 8 + length
    try:
        head = json.loads(content[HEADER + 8:at])
        agents = [(str(name), str(address), int(tick), None if own is None else int(own))
                  for name, address, tick, own in head["agents"]]
        zero, now, unix = (float(head[key]) for key in ("zero", "now", "unix"))
        boot = str(head["boot"])
        width = range(VARIABLES + 1)[int(head["width"])]
    except (ValueError, LookupError, TypeError, RecursionError, AttributeError) as error:
        raise BadSnapshot("its beginning makes no sense") from error
    if not all(abs(number) < 1e12 for number in (zero, now, unix)):
        raise BadSnapshot("its times make no sense")
    values: dict[str, NDArray[Any]] = {}
    for name, most in ARRAYS.items():
        like = getattr(table, name)
        shape = (width, len(agents)) if like.ndim == 2 else (len(agents),)
        size = int(np.prod(shape)) * like.itemsize
        if at + size > len(content):
            raise BadSnapshot("it is too short")
        kept = np.frombuffer(content, like.dtype.newbyteorder("<") if like.dtype != np.bool_
                             else np.uint8, int(np.prod(shape)), at).reshape(shape)
        least = -most if kept.dtype.kind == "i" else 0
        if not ((kept >= least) & (kept <= most)).all():  # also not if it is no number
            raise BadSnapshot(f"its {name} makes no sense")
        values[name] = kept.T
        at += size
    if at != len(content):
        raise BadSnapshot("it is too long")
    return Snapshot(agents, zero, now, unix, boot, values)


def catch_up(table: Table, events: Iterable[Event]) -> None:
    """Applies the events that are newer than the file after a crash, so that none is sent twice."""
    states = {state.words: state for state in State}
    with table.lock:
        for event in events:
            row = table.row.get(event.agent)
            if row is None or event.what != "state" or event.now not in states:
                continue
            if event.variable < 0:
                table.agent_told[row] = states[event.now]
                table.agent_since[row] = event.at
            elif event.variable < VARIABLES:
                table.told[row, event.variable] = states[event.now]
                table.since[row, event.variable] = event.at
