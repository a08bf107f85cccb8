"""How old each entry is, though a timestamp has only 16 bits; and which agents have rebooted: pure
functions over arrays, with a row for each report of a batch, and a column for each variable.

If an agent stamps a variable of its own (`now-from`), it tells its time n with each report. We
measure the time since the report before, to within RATE and the time that requests and answers
take: so n tells how many ticks have passed, also when its 16 bits have wrapped. X, the agent's
time, never wraps. An entry that changes gets E, the time at which it was stamped; its age is X - E.
Without such a variable, X counts the ticks of our own time, and E is when the entry was seen first.
CASES is the table of all rules."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.client import SKEW, WRAP
from dumpulse_fleet.model.agents import SOON, ClockKind
from dumpulse_fleet.model.table import Rows

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Flags = NDArray[np.bool_]

LAST = WRAP - 1  # the mask that makes a remainder
RATE = 0.10  # an agent's clock may be this much faster or slower than its tick
FORGETS = WRAP - SKEW - 2 * 240 - 60  # ticks: agents on Linux forget what is older, or nearly so
CONFIRMED = 2  # reports that contradict the last one used, until one is accepted


class Memory(NamedTuple):
    """What is known of some agents after a report. Times are in seconds of our own clock."""

    kind: NDArray[np.uint8]
    strikes: NDArray[np.uint8]  # reports in a row that contradict this memory
    # Entries were lost: in the last of these reports; without one, in the report that was used.
    emptied: Flags
    began: Real  # its first report, or the first one after a reboot
    asked: Real  # When its last report was requested.
    received: Real  # When its last report came.
    clock: Whole  # X, ticks
    entry: NDArray[np.uint32]  # two dimensions, as the next two
    stamped: Whole  # E, ticks
    at_least: Flags
    settable: Flags  # The agent's own clock has shown Unix time, so it may be set.


class Answers(NamedTuple):
    """Reports that have come, from no agent two: on their way from the wire to the judge."""

    rows: Rows  # Their rows in the table.
    asked: Real  # when the first request was sent that this may answer; seconds of our own clock
    received: Real
    unix: Real  # Unix time when it came
    entry: NDArray[np.uint32]  # two dimensions

    def only(self, which: Flags) -> "Answers":
        return Answers._make(field[which] for field in self)


class Reports(NamedTuple):
    """The same for arithmetic, beside a Memory: without the rows, but with what agents count by."""

    tick: Real  # s
    now_from: Whole  # the agent's own variable; -1: it has none
    asked: Real
    received: Real
    unix: Real
    entry: NDArray[np.uint32]


class Outcome(NamedTuple):
    memory: Memory
    used: Flags  # False: the report contradicts the one before, so poll again.
    changed: Flags  # two dimensions: entries that were received since the report before
    empty: Flags  # the agent has lost entries that were not too old
    rebooted: Flags
    reset: Flags  # It has rebooted, or its clock was set.


class Clocks(NamedTuple):
    """The time of each agent, by its report and our own clock, in ticks."""

    has_clock: Flags  # The agent stamps a variable of its own, and did so before.
    n: Whole  # The time of this variable, modulo 65536.
    low: Whole  # The shortest time since the report before, by our clock.
    high: Whole  # The longest one.
    ours: Whole  # The time since our clock was 0.
    unix: Whole
    passed: Whole  # The time since the report before, the most likely one.
    longest: Whole  # The longest one that `n` allows.
    impossible: Flags  # Its own variable contradicts our clock.
    silent: Flags  # Its own variable has four zero bytes, too.


class Entries(NamedTuple):
    """What has become of each entry since the report before: two dimensions."""

    changed: Flags
    heard: Flags  # changed, and not by getting lost
    lost: Flags
    old: Whole  # ticks since it was stamped, modulo 65536
    ahead: Flags  # it seems to be stamped a little later than now


class RebootVerdict(NamedTuple):
    fresh: Flags  # it has no past to compare with
    jumped: Flags  # its clock is not where it must be
    strikes: NDArray[np.uint8]
    suspect: Flags  # The report contradicts the one before.
    confirmed: Flags  # The report before it was suspect, too, so this one is used.
    used: Flags
    empty: Flags
    rebooted: Flags
    reset: Flags


def advance(was: Memory, new: Reports) -> Outcome:
    """Returns what is known after these reports. No agent may have two of them."""
    own_entry = new.entry[np.arange(len(new.entry)), np.maximum(new.now_from, 0)]
    clocks = tell_time(was, new, own_entry)
    entries = compare(was, new, clocks)
    evidence = lost_too_early(was, new, clocks, entries.lost)
    # An entry changed that was stamped before the report before.
    misfit = (entries.heard & (entries.old > clocks.longest[:, None])).any(axis=1)
    verdict = decide(was, new, own_entry, clocks, evidence, np.asarray(misfit))
    memory = remember(was, new, clocks, entries, verdict)
    if not verdict.used.all():  # these agents stay as they were
        memory = Memory._make(map(partial(choose, verdict.used), memory, was))
        memory = memory._replace(strikes=np.where(verdict.used, memory.strikes, verdict.strikes),
                                 emptied=np.where(verdict.used, memory.emptied, evidence))
    return Outcome(memory, verdict.used, entries.changed, verdict.empty, verdict.rebooted,
                   verdict.reset)


def tell_time(was: Memory, new: Reports, own_entry: NDArray[np.uint32]) -> Clocks:
    n = (own_entry >> 16).astype(np.int64)
    low = np.maximum(np.ceil((new.asked - was.received) / new.tick * (1 - RATE) - 1), 0)
    # One tick more, as the report before may have been late by a tick.
    high = np.floor((new.received - was.asked) / new.tick * (1 + RATE) + 2)
    low, high = low.astype(np.int64), high.astype(np.int64)
    has_clock = (was.kind == ClockKind.OWN) & (new.now_from >= 0)
    # By its own variable. Four zero bytes are also what is sent at the tick 0 by sender 0.
    ours = np.floor(new.received / new.tick).astype(np.int64)
    passed = np.where(has_clock, low + ((n - was.clock - low) & LAST), ours - was.clock)
    impossible = has_clock & (passed > high)
    silent = has_clock & impossible & (own_entry == 0)
    longest = np.where(has_clock & ~impossible, passed + (high - passed) // WRAP * WRAP, passed)
    unix = np.floor(new.unix / new.tick).astype(np.int64)
    return Clocks(has_clock, n, low, high, ours, unix, passed, longest, impossible, silent)


def compare(was: Memory, new: Reports, clocks: Clocks) -> Entries:
    # Ticks since each entry was stamped, modulo 65536. It may be a little ahead, as in client.age.
    # Without a variable of its own, the entry is as old as it is known.
    remainder = ((clocks.n & LAST).astype(np.uint32)[:, None] - (new.entry >> 16)) & np.uint32(LAST)
    ahead = clocks.has_clock[:, None] & (remainder >= WRAP - SKEW)
    old = np.where(clocks.has_clock[:, None] & ~ahead, remainder, np.uint32(0)).astype(np.int64)
    changed = new.entry != was.entry
    none = new.entry == 0
    return Entries(changed, changed & ~none, changed & none, old, ahead)


def lost_too_early(was: Memory, new: Reports, clocks: Clocks, lost: Flags) -> Flags:
    """Has an agent lost entries that were not too old? It may have forgotten an entry, by its own
    view of the time, because it was."""
    has_clock = clocks.has_clock
    evidence = np.zeros_like(has_clock)
    gone = np.flatnonzero(lost.any(axis=1))
    if not gone.size:
        return evidence
    memory = Memory._make(field[gone] for field in was)
    known_age = memory.clock[:, None] - memory.stamped
    view = np.where(has_clock[gone, None], np.maximum(
        was.clock[gone, None] - (memory.entry >> 16) & LAST, known_age), known_age)
    view[~has_clock[gone]] += WRAP // 16  # without its own clock, that is not so sure
    since_start = memory.stamped <= np.floor(memory.began / new.tick[gone])[:, None]
    view[since_start & ~has_clock[gone, None]] = FORGETS
    since = np.where(clocks.impossible, clocks.high, clocks.longest)[gone, None]
    after = np.where(has_clock, clocks.n, 0)[gone, None] - (memory.entry >> 16) & LAST
    seems_old = has_clock[gone, None] & (after >= FORGETS)  # it seems to be in the future
    proof = lost[gone] & (view + since < FORGETS) & ~seems_old
    proof[has_clock[gone], new.now_from[gone][has_clock[gone]]] = False  # zeros may be the time 0
    evidence[gone] = proof.any(axis=1)
    return evidence


def decide(was: Memory, new: Reports, own_entry: NDArray[np.uint32], clocks: Clocks,
           evidence: Flags, misfit: Flags) -> RebootVerdict:
    """What contradicts the report before may be an answer that is late: poll again. But the time of
    an agent that goes on is proof enough."""
    has_clock = clocks.has_clock
    first = was.kind == ClockKind.NONE
    appears = (was.kind != ClockKind.OWN) & (new.now_from >= 0) & (own_entry != 0)
    leaves = (was.kind == ClockKind.OWN) & (new.now_from < 0)
    jumped = has_clock & (clocks.impossible | misfit)
    fresh = first | appears | leaves
    suspect = (jumped | (evidence & ~(has_clock & (clocks.passed > 0)))) & ~fresh
    strikes = was.strikes + np.uint8(1) - (was.strikes > 99) * np.uint8(2)
    confirmed = suspect & (strikes % CONFIRMED == 0)
    used = ~suspect | confirmed
    # Lost entries: it has rebooted, if its clock goes on, or has begun at 0 since the report
    # before. Otherwise the clock may have been set forward, and an agent on Linux forgot what
    # seemed old.
    empty = used & (evidence | (confirmed & was.emptied))
    # A clock that can be set may come to show such a time by chance.
    begun = (clocks.silent | (clocks.n <= clocks.high + 1)) & ~was.settable
    rebooted = used & empty & has_clock & (~jumped | begun) & ~fresh
    reset = confirmed & ~rebooted & (strikes == CONFIRMED)
    return RebootVerdict(fresh, jumped, strikes, suspect, confirmed, used, empty, rebooted, reset)


class Seen(NamedTuple):
    """What the ages after a report follow from. The first fields are of each agent."""

    first: Flags  # it is its first report
    anew: Flags  # a new clock, and so for the first report, too
    has_clock: Flags  # Its own variable shows its time.
    clock: Whole  # X
    low: Whole  # Ticks: the next four as in Clocks.
    high: Whole
    longest: Whole
    passed: Whole
    heard: Flags  # two dimensions, as all that follow
    same: Flags  # it did not change
    ahead: Flags
    old: Whole  # Ticks since the timestamp, modulo 65536.
    age: Whole  # The age of the entry before, which has grown.
    at_least: Flags  # That age is a minimum.

    def ages(self) -> tuple[Whole, Flags]:
        """After this report, by CASES."""
        age, at_least = self.age.copy(), self.at_least.copy()
        for case in CASES:
            rows = case.agents(self)
            if rows.all():
                case.give(self, age, at_least)
            elif rows.any():
                some = age[rows], at_least[rows]
                case.give(Seen._make(field[rows] for field in self), *some)
                age[rows], at_least[rows] = some
        return age, at_least


class Case(NamedTuple):
    """A row of the table of ages: `entries` of these `agents` get this age, or at least this age.
    All others keep theirs, which has grown."""

    name: str
    agents: Callable[[Seen], Flags]
    entries: Callable[[Seen], Flags]
    ages: Callable[[Seen], Whole | int]
    at_least: Callable[[Seen], Flags | bool]

    def give(self, seen: Seen, age: Whole, at_least: Flags) -> None:
        entries = self.entries(seen)
        np.copyto(age, self.ages(seen), where=entries)
        np.copyto(at_least, self.at_least(seen), where=entries)


# The table of ages in README.md, with the same rows in the same order. Where two rows are about an
# entry, the later one holds.
CASES = (
    Case("an entry changed, and the agent has a variable of its own",
         lambda seen: seen.has_clock & ~seen.anew, lambda seen: seen.heard, lambda seen: seen.old,
         lambda seen: seen.ahead),  # Such an entry may be from before the clock was set.
    Case("an entry changed, and the agent has no variable of its own",
         lambda seen: ~(seen.has_clock | seen.anew), lambda seen: seen.heard,
         lambda _: 0, lambda _: True),
    Case("no poll was possible for longer than 65,536 ticks",
         lambda seen: seen.has_clock & (seen.longest >= WRAP - SKEW) & ~seen.anew,
         lambda seen: may_have_wrapped(seen),
         lambda seen: np.where(seen.heard, seen.old, seen.age), lambda _: True),
    Case("the agent's clock was set",
         lambda seen: seen.anew & ~seen.first, lambda seen: np.ones_like(seen.same),
         lambda seen: np.where(seen.same, old_on_a_new_clock(seen), 0), lambda _: True),
    Case("the first report of an agent",
         lambda seen: seen.first, lambda seen: np.ones_like(seen.same), lambda seen: seen.old,
         lambda _: True),
)


def may_have_wrapped(seen: Seen) -> Flags:
    """What came meanwhile may be older by a wrap; and `passed` itself may be too small."""
    wraps = (seen.old + WRAP <= seen.longest[:, None]) | seen.ahead
    return np.asarray(seen.heard & wraps | (seen.longest > seen.passed)[:, None])


def old_on_a_new_clock(seen: Seen) -> Whole:
    """An entry that looks the same may be a new one on the new clock. Then it came since the report
    before; otherwise it is older than it was then."""
    minimum = seen.age - (seen.passed - seen.low)[:, None]
    return np.where(seen.old > seen.high[:, None], minimum, np.minimum(seen.old, minimum))


def remember(was: Memory, new: Reports, clocks: Clocks, entries: Entries, verdict: RebootVerdict
             ) -> Memory:
    has_clock, clock = clocks.has_clock, was.clock + clocks.passed
    kind = np.where(was.kind == ClockKind.OWN, ClockKind.OWN, ClockKind.ARRIVAL).astype(np.uint8)
    age, old, ahead = clock[:, None] - was.stamped, entries.old, entries.ahead
    anew = verdict.fresh | (verdict.confirmed & has_clock & verdict.jumped)
    settable = was.settable
    if anew.any():
        kind, clock, old = begin_anew(anew, was, new, clocks, kind, clock, old)
        trip = np.ceil((new.received - new.asked) / new.tick).astype(np.int64)
        fits = ((clocks.unix - clocks.n + SKEW) & LAST) <= 2 * SKEW + trip
        settable = anew & (kind == ClockKind.OWN) & fits | settable & (was.kind != ClockKind.NONE)
    age, at_least = Seen(
        was.kind == ClockKind.NONE, anew, has_clock, clock, clocks.low, clocks.high,
        clocks.longest, clocks.passed, entries.heard, ~entries.changed, ahead, old, age,
        was.at_least).ages()
    # Entries that changed meanwhile are of any age, as at the first report.
    blind = ~has_clock & (clocks.ours - np.floor(was.asked / new.tick) >= SOON)
    began = np.where(verdict.empty | blind | (was.kind == ClockKind.NONE), new.received, was.began)
    strikes = np.where(verdict.suspect, verdict.strikes, np.uint8(0))
    return Memory(kind, strikes, np.zeros_like(has_clock), began, new.asked, new.received, clock,
                  new.entry, clock[:, None] - age, at_least, settable)


def begin_anew(anew: Flags, was: Memory, new: Reports, clocks: Clocks, kind: NDArray[np.uint8],
               clock: Whole, old: Whole) -> tuple[NDArray[np.uint8], Whole, Whole]:
    """Returns for agents with a new clock its kind, its time, and the ages by it."""
    rows = np.flatnonzero(anew)
    kind, clock, old = kind.copy(), clock.copy(), old.copy()
    n, variable = clocks.n[rows], new.now_from[rows]
    has_clock = (variable >= 0) & (new.entry[rows, np.maximum(variable, 0)] != 0) \
        & ~clocks.silent[rows]
    kind[rows] = np.where(has_clock, ClockKind.OWN, ClockKind.ARRIVAL)
    clock[rows] = np.where(has_clock, n, clocks.ours[rows])
    by_it = (n[:, None] - (new.entry[rows] >> 16)) & LAST
    old[rows] = np.where((by_it >= WRAP - SKEW) | ~has_clock[:, None], 0, by_it)
    return kind, clock, old


def choose(which: Flags, chosen: NDArray[Any], rest: NDArray[Any]) -> NDArray[Any]:
    return np.where(which if chosen.ndim == 1 else which[:, None], chosen, rest).astype(
        chosen.dtype, copy=False)
