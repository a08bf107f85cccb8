"""How old each entry is, though a timestamp has only 16 bits; and which agents have rebooted.

Pure functions over arrays: a row for each report of a batch, a column for each variable.

An agent that stamps a variable of its own (`now-from`) tells its time n with each report. The time
since the report before, measured here, is known to within RATE, and to within the time that
requests and answers take. So n tells how many ticks of the agent's clock have passed, also when
its 16 bits have wrapped. X, the agent's time, never wraps. An entry that changes gets E, the
time at which it was stamped; an entry that does not change keeps it. Its age is X - E.

An agent without such a variable is on a clock that nobody tells. Then X counts the ticks of our
own time. If all timestamps that change fit Unix time, as those of agents on Linux do, E is by the
timestamp. Otherwise E is when the entry was seen first, and its age is "at least" X - E.

One case looks the same, and no reader can tell it: a node beats again at the same timestamp with
the same value, a whole number of wraps later, and nobody has asked in between.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from client import SKEW, WRAP

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Flags = NDArray[np.bool_]

LAST = WRAP - 1  # the mask that makes a remainder
RATE = 0.10  # an agent's clock may be this much faster or slower than its tick says
FORGETS = WRAP - SKEW - 2 * 240 - 60  # ticks: agents on Linux forget what is older, or nearly so
CONFIRMED = 2  # reports that contradict the last one used, until one is believed
ZEROS = 128  # a bit of `strikes`: the first of these reports had lost entries


class Kind(enum.IntEnum):
    """How the time of an agent is known."""

    NONE = 0  # no report yet
    OWN = 1  # by its own variable
    UNIX = 2  # it counts Unix time
    ARRIVAL = 3  # not at all: only when its entries are seen first
    NEW = 4  # the same, and no entry has changed yet, which could tell more
    MAYBE = 5  # the same, but the last entries that changed fit Unix time; late ones may do so


class Memory(NamedTuple):
    """What is known of some agents after a report. Times are in seconds of our own clock."""

    kind: NDArray[np.uint8]
    strikes: NDArray[np.uint8]  # reports in a row that contradict this memory
    began: Real  # its first report, or the first one after a reboot
    asked: Real  # its last report, which was asked for then,
    received: Real  # and came then
    clock: Whole  # X, ticks
    entry: NDArray[np.uint32]  # two dimensions, as the next two
    stamped: Whole  # E, ticks
    at_least: Flags


class Reports(NamedTuple):
    """New reports of the same agents."""

    tick: Real  # s
    now_from: Whole  # the agent's own variable; -1: it has none
    asked: Real  # when the first request was sent that this may answer
    received: Real
    unix: Real  # Unix time when it came
    entry: NDArray[np.uint32]


class Outcome(NamedTuple):
    memory: Memory
    used: Flags  # False: the report contradicts the one before; ask again
    changed: Flags  # two dimensions: entries that were heard since the report before
    empty: Flags  # the agent has lost entries that were not too old
    rebooted: Flags
    reset: Flags  # it has rebooted, or somebody has set its clock
    stale: Flags  # this one fits, and the one before did not: that one was too old


def advance(was: Memory, new: Reports) -> Outcome:
    """What is known after these reports. No agent may have two of them."""
    stamps = new.entry >> 16
    rows = np.arange(len(stamps))
    own_entry = new.entry[rows, np.maximum(new.now_from, 0)]
    n = (own_entry >> 16).astype(np.int64)
    low = np.maximum(np.ceil((new.asked - was.received) / new.tick * (1 - RATE) - 1), 0)
    # One tick more, as the report before may have been late by a tick.
    high = np.floor((new.received - was.asked) / new.tick * (1 + RATE) + 2)
    low, high = low.astype(np.int64), high.astype(np.int64)
    own = (was.kind == Kind.OWN) & (new.now_from >= 0)

    # By its own variable. Four zero bytes are also what is sent at the tick 0 by sender 0.
    ours = np.floor(new.received / new.tick).astype(np.int64)
    passed = np.where(own, low + ((n - was.clock - low) & LAST), ours - was.clock)
    impossible = own & (passed > high)
    silent = own & impossible & (own_entry == 0)
    longest = np.where(own & ~impossible, passed + (high - passed) // WRAP * WRAP, passed)
    clock = was.clock + passed

    # Ticks since each entry was stamped, modulo 65536. It may be a little ahead, as in client.age.
    unix = np.floor(new.unix / new.tick).astype(np.int64)
    now = np.where(own, n, unix)
    remainder = ((now & LAST).astype(np.uint32)[:, None] - stamps) & np.uint32(LAST)
    ahead = remainder >= WRAP - SKEW
    old = np.where(ahead, np.uint32(0), remainder).astype(np.int64)

    changed = new.entry != was.entry
    none = new.entry == 0
    lost = changed & none
    heard = changed & ~none
    # An agent may have forgotten an entry, by its own view of the time, because it was too old.
    gone = np.flatnonzero(lost.any(axis=1))
    evidence = np.zeros_like(own)
    if gone.size:
        here = Memory._make(each[gone] for each in was)
        known = here.clock[:, None] - here.stamped
        clocks = np.where(own, was.clock, unix - passed)[gone, None]
        view = np.where((here.kind >= Kind.ARRIVAL)[:, None], known,
                        np.maximum(clocks - (here.entry >> 16) & LAST, known))
        view[~own[gone]] += WRAP // 16  # without its own clock, that is not so sure
        there = here.stamped <= np.floor(here.began / new.tick[gone])[:, None]
        view[there & ~own[gone, None]] = FORGETS
        since = np.where(impossible, high, longest)[gone, None]
        after = np.where(own, n, 0)[gone, None] - (here.entry >> 16) & LAST
        seems_old = own[gone, None] & (after >= FORGETS)  # it seems to be in the future
        proof = lost[gone] & (view + since < FORGETS) & ~seems_old
        proof[own[gone], new.now_from[gone][own[gone]]] = False  # zeros may be the time 0
        evidence[gone] = proof.any(axis=1)

    # Without its own variable: does all that changed fit Unix time?
    span = np.where(own, 0, ours - np.floor(was.asked / new.tick).astype(np.int64))
    soon = ~own & (span + 2 * SKEW < WRAP // 16)
    follows = soon & heard.any(axis=1)
    misfits = heard & np.where(own[:, None], old > longest[:, None],
                               follows[:, None] & (old > (span + SKEW)[:, None]))
    misfit = misfits.any(axis=1)
    fits = np.where(was.kind == Kind.ARRIVAL, Kind.MAYBE, Kind.UNIX)
    kind = np.where(follows, np.where(misfit, Kind.ARRIVAL, fits), was.kind).astype(np.uint8)

    # What contradicts the report before may be an answer that is late: ask again. But the time of
    # an agent that goes on is proof enough.
    first = was.kind == Kind.NONE
    appears = (was.kind != Kind.OWN) & (new.now_from >= 0) & (own_entry != 0)
    leaves = (was.kind == Kind.OWN) & (new.now_from < 0)
    jumped = np.where(own, impossible | misfit, (was.kind == Kind.UNIX) & misfit)
    fresh = first | appears | leaves
    suspect = (jumped | (evidence & ~(own & (passed > 0)))) & ~fresh
    strikes = was.strikes & np.uint8(ZEROS - 1)
    strikes = strikes + np.uint8(1) - (strikes > 99) * np.uint8(2)
    confirmed = suspect & (strikes % CONFIRMED == 0)
    used = ~suspect | confirmed
    # Lost entries: it has rebooted, if its clock goes on, or has begun at 0 since the report
    # before. Otherwise the clock may have been set forward, and an agent on Linux forgot what
    # seemed old. Without a variable of its own, the next heartbeat shows whether its clock goes on.
    empty = used & (evidence | (confirmed & (was.strikes >= ZEROS)))
    waits = was.strikes == ZEROS
    goes_on = np.where(own, ~jumped | silent | (n <= high + 1),
                       (was.kind == Kind.UNIX) & follows & ~misfit)
    rebooted = used & (empty | waits) & goes_on & ~fresh
    waits = (empty | waits) & ~own & (was.kind == Kind.UNIX) & ~follows
    reset = confirmed & ~rebooted & ~waits & (strikes == CONFIRMED)

    # What fits.
    by_unix = soon & (kind == Kind.UNIX)
    by_stamp = (own | by_unix)[:, None]
    age = np.where(by_stamp, old, 0)
    if by_unix.any():
        age = np.minimum(age, np.where(by_unix, span, WRAP)[:, None])
    stamped = np.where(heard, clock[:, None] - age, was.stamped)
    # What is ahead of the agent's own clock may be from before the clock was set.
    at_least = np.where(heard, ~by_stamp | (ahead & own[:, None]), was.at_least)
    unsure = own & (longest >= WRAP - SKEW)
    if unsure.any():  # it may be older by a wrap; and `passed` itself may be too small
        wraps = (age + WRAP <= longest[:, None]) | ahead
        at_least |= unsure[:, None] & heard & wraps | (own & (longest > passed))[:, None]
    found = by_unix & (was.kind == Kind.NEW)
    if found.any():  # entries from before we knew may be older than they seemed
        least = (np.maximum(old - (SKEW + span)[:, None], 0) * (1 - RATE)).astype(np.int64)
        stamped = np.where(found[:, None] & was.at_least & ~changed,
                           np.minimum(stamped, clock[:, None] - least), stamped)
    began = was.began
    blind = ~own & ~soon  # what changed meanwhile is of any age, as at the first report
    anew = np.flatnonzero(fresh | (confirmed & own & jumped))
    if anew.size:
        kind, clock, began = kind.copy(), clock.copy(), began.copy()
        begin_anew(anew, first, silent, was, new, n, low, high, ours,
                   (kind, clock, began, stamped, at_least))
    memory = Memory(kind, np.where(waits, np.uint8(ZEROS), np.where(suspect, strikes, np.uint8(0))),
                    np.where(empty | blind, new.received, began), new.asked, new.received, clock,
                    new.entry, stamped, at_least)
    if not used.all():  # these agents stay as they were
        memory = Memory._make(map(partial(choose, used), memory, was))
        memory = memory._replace(strikes=np.where(
            used, memory.strikes, strikes | np.where(evidence, np.uint8(ZEROS), np.uint8(0))))
    stale = used & ~suspect & (was.strikes & 1 == 1)
    return Outcome(memory, used, changed, empty, rebooted, reset, stale)


def choose(which: Flags, one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    return np.where(which if one.ndim == 1 else which[:, None], one, other).astype(
        one.dtype, copy=False)


def begin_anew(rows: NDArray[np.intp], first: Flags, silent: Flags, was: Memory, new: Reports,
               n: Whole, low: Whole, high: Whole, ours: Whole,
               after: tuple[NDArray[Any], ...]) -> None:
    """A new clock for these rows, in the arrays of `after`. All ages are "at least"."""
    kind, clock, began, stamped, at_least = after
    own = (new.now_from[rows] >= 0) & (new.entry[rows, np.maximum(new.now_from[rows], 0)] != 0) \
        & ~silent[rows]
    kind[rows] = np.where(own, Kind.OWN, np.where(first[rows], Kind.NEW, Kind.ARRIVAL))
    clock[rows] = np.where(own, n[rows], ours[rows])
    began[rows] = np.where(first[rows], new.received[rows], began[rows])
    seen = new.entry[rows]
    old = (n[rows, None] - (seen >> 16)) & LAST
    old = np.where((old >= WRAP - SKEW) | ~own[:, None], 0, old)
    # An entry that looks the same may be a new one on the new clock. Then it came since the report
    # before; otherwise it is older than it was then. One that changed may have come just now.
    same = seen == was.entry[rows]
    least = was.clock[rows, None] - was.stamped[rows] + low[rows, None]
    again = np.where(own[:, None] & (old > high[rows, None]), least, np.minimum(old, least))
    age = np.where(first[rows, None], old, np.where(same, again, 0))
    stamped[rows] = clock[rows, None] - age
    at_least[rows] = True
