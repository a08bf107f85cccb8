"""What is known of all agents, over a restart of the collector: one file, which is replaced as a
whole. It has a checksum, and each number in it is checked before it is used."""

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
from dumpulse_fleet.model.agents import Kind
from dumpulse_fleet.model.agents import Event, State
from dumpulse_fleet.model.table import VARIABLES, Table, copy_rows

EVERY = 60.0  # s
MAGIC = b"dumpulse fleet 3\n"
HEADER = len(MAGIC) + 32  # a SHA-256 of all that follows
PART = 4096  # agents that are copied while the table is locked
LONGEST_FILE = 4 << 30  # bytes: 2 million agents
LONGEST = 1 << 62  # of numbers of ticks
# The fields of a table, and the greatest number that each may have.
ARRAYS: dict[str, float] = {
    "entry": 0xFFFFFFFF, "stamped": LONGEST, "at_least": 1, "state": max(State),
    "told": max(State), "since": 1e12, "sender_before": 255, "agent_state": max(State),
    "agent_told": max(State), "agent_since": 1e12, "misses": 1 << 30, "kind": max(Kind),
    "strikes": 255, "emptied": 1, "began": 1e12, "asked": 1e12, "received": 1e12, "clock": LONGEST,
    "heard_at": 1e12, "round_trip": 1e9, "reports": LONGEST, "lost": LONGEST, "bad": LONGEST,
    "late": LONGEST, "refused": LONGEST, "reboots": LONGEST, "settable": 1}


class Unusable(Exception):
    """Why a file cannot be used."""


def parts_of(table: Table) -> list[bytes]:
    """All that is known, for a file."""
    agents = [[agent.name, agent.address, round(agent.profile.tick * 1000),
               agent.profile.settings.now_from] for agent in table.agents]
    width = table.width()
    head = json.dumps({"agents": agents, "width": width, "zero": table.zero, "boot": client.boot(),
                       "now": table.now(), "unix": time.time()}).encode()
    arrays = {name: getattr(table, name).T[:width] if getattr(table, name).ndim == 2
              else getattr(table, name) for name in ARRAYS}
    copies = {name: np.empty_like(array) for name, array in arrays.items()}
    for start in range(0, len(agents), PART):
        part = slice(start, start + PART)
        with table.lock:
            for name, copy in copies.items():
                copy[..., part] = arrays[name][..., part]
    parts = [len(head).to_bytes(8, "little"), head]
    parts += [copy.astype(copy.dtype.newbyteorder("<"), copy=False).tobytes()
              for copy in copies.values()]
    digest = hashlib.sha256()
    for each in parts:
        digest.update(each)
    return [MAGIC, digest.digest(), *parts]


def save(path: str, table: Table) -> None:
    """OSError: it cannot be written."""
    new = f"{path}.new"
    with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.writelines(parts_of(table))
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    client.sync_folder(os.path.dirname(os.path.abspath(path)))


def load(path: str, table: Table) -> str:
    """Puts what was kept into the table. Says what is wrong with the file, if something is;
    then the table stays as it is."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(
                name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > LONGEST_FILE:
                raise Unusable("it is not a file of this program")
            content = file.read()
        _use(content, table)
    except FileNotFoundError:
        return ""
    except (OSError, Unusable) as error:
        return f"cannot use what was kept in {path!r}, so all agents are new: " \
            f"{getattr(error, 'strerror', None) or error}"
    return ""


class Kept(NamedTuple):
    """What a file says."""

    agents: list[tuple[str, str, int, int | None]]
    zero: float
    now: float
    unix: float
    boot: str
    values: dict[str, NDArray[Any]]

    def same(self, table: Table) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows of the agents that the table has, too, there and here."""
        known = {agent[0]: row for row, agent in enumerate(self.agents)}
        both = [(row, known[agent.name]) for row, agent in enumerate(table.agents)
                if agent.name in known]
        there, here = np.array(both, np.intp).reshape(-1, 2).T
        return there, here

    def clock_goes_on(self) -> float:
        """What the clock of this file would say now. If the machine was started again, or is
        another one, only Unix time tells how long it took."""
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
                table.kind[row] = Kind.NONE


def _use(content: bytes, table: Table) -> None:
    """After a restart: our clock goes on."""
    kept = read(content, table)
    with table.lock:
        table.zero = kept.clock_goes_on() - client.uptime()
        kept.put(table, *kept.same(table))


def read(content: bytes, table: Table) -> Kept:
    """Checks each number. Unusable: one is wrong."""
    if not content.startswith(MAGIC):
        raise Unusable("it is not a file of this version")
    if hashlib.sha256(content[HEADER:]).digest() != content[len(MAGIC):HEADER]:
        raise Unusable("its checksum is wrong")
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
        raise Unusable("its beginning makes no sense") from error
    if not all(abs(number) < 1e12 for number in (zero, now, unix)):
        raise Unusable("its times make no sense")
    values: dict[str, NDArray[Any]] = {}
    for name, most in ARRAYS.items():
        like = getattr(table, name)
        shape = (width, len(agents)) if like.ndim == 2 else (len(agents),)
        size = int(np.prod(shape)) * like.itemsize
        if at + size > len(content):
            raise Unusable("it is too short")
        kept = np.frombuffer(content, like.dtype.newbyteorder("<") if like.dtype != np.bool_
                             else np.uint8, int(np.prod(shape)), at).reshape(shape)
        least = -most if kept.dtype.kind == "i" else 0
        if not ((kept >= least) & (kept <= most)).all():  # also not if it is no number
            raise Unusable(f"its {name} makes no sense")
        values[name] = kept.T
        at += size
    if at != len(content):
        raise Unusable("it is too long")
    return Kept(agents, zero, now, unix, boot, values)


def catch_up(table: Table, events: Iterable[Event]) -> None:
    """After a crash, events may be newer than the file. With them, nothing is told twice."""
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
