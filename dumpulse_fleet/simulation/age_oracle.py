"""A simulator that knows the truth, and compares with it what dumpulse_fleet/collect/ages.py says.

Its agents have clocks of odd rates, which count from their start or Unix time. They reboot with
their tables and without, their clocks are set, and they forget what is old, as agents on Linux do.
Their answers get lost or come a round late, and they are not reached for longer than a timestamp
can tell. Now and then the collector forgets all about an agent.

tests/test_ages.py runs it. It ends with what it saw, or with the first thing that is wrong.

What cannot be known is not called wrong:
    again    An entry looks the same, but its node beat again at the same timestamp with the same
             value, a whole number of wraps later, while nobody asked.
    hidden   A clock was set by so little that it may as well have run a little fast or slow, or
             by whole wraps. Ages differ by this much; who forgets all then seems to have rebooted.
    before   A clock was set before we ever asked this agent, or while its state was lost. Nothing
             says that it counts Unix time: when it is set again, by chance to a time since the last
             report, it seems to have rebooted."""

import collections
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet.client import SKEW, WRAP
from dumpulse_fleet.collect.ages import (
    FORGETS, RATE, Flags, Memory, Real, Reports, advance, choose)
from dumpulse_fleet.model.agents import ClockKind
from dumpulse_fleet.model.table import Rows

VARIABLES = 64
OFFSET = 1_700_000_000.0  # s: Unix time when our own clock is at 0.
OWN, OWN_UNIX, OTHER = 0, 1, 2  # Clocks of an agent; the last stamps no variable of its own.


class Mismatch(Exception):
    """What the rule said is not the truth."""


class Truth(NamedTuple):
    """What the agents' reports say, and what is true when they are made: arrays."""

    entry: Any
    beaten: Any  # s: when each entry was stamped.
    ticks: Any  # Ticks of its clock that had really passed then.
    epoch: Any  # Changes of its clock by then.
    made_at: Any  # s: when the report was made.
    shown: Any  # Its clock, in ticks that never wrap.
    passed: Any  # Ticks that have really passed.
    now_epoch: Any
    boots: Any  # Losses of its table.


class World:
    """Agents, as they really are, and what dumpulse_fleet.collect.ages knows of them."""

    def __init__(self, count: int, seed: int) -> None:
        self.seed, self.count = seed, count
        self.draw = np.random.default_rng(seed)
        draw, whole = self.draw, (count, VARIABLES)
        self.sort = draw.choice([OWN, OWN, OWN_UNIX, OWN_UNIX, OTHER], count)
        self.unix = self.sort == OWN_UNIX
        self.now_from = np.where(self.sort == OTHER, -1, 0)
        self.own_sender = draw.choice(np.array([0, 99 << 8], np.uint32), count)
        self.tick = draw.choice([0.01, 0.1, 1.0, 1.0, 10.0], count)
        self.period = self.tick * draw.choice([0.3, 1.0, 10.0, 10.0, 100.0], count)
        odd = draw.uniform(-RATE, RATE, count) * draw.choice([0.001, 0.1, 0.99], count)
        self.rate = np.where(self.unix, 1.0, 1 + odd)
        self.forgets = self.unix & (draw.random(count) < 0.7)
        self.time = np.full(count, 1e5)  # s of our own clock
        # Its clock shows floor((time - begun) * rate / tick).
        skew = draw.integers(-SKEW + 2, SKEW - 2, count) * self.tick
        self.begun = np.where(self.unix, skew - OFFSET,
                              self.time - draw.integers(0, 3 * WRAP, count) * self.tick)
        self.set_by = np.zeros(count)  # Ticks: how much more it shows than have passed.
        self.epoch, self.boots = np.zeros(count), np.zeros(count)
        # Nodes: seconds between two heartbeats; some never beat; some die.
        self.beat = self.tick[:, None] * draw.choice([0.7, 3, 20, 200, 3000, 1e5, 4e5], whole)
        self.phase = draw.random(whole) * self.beat
        self.mute = draw.random(whole) < 0.4
        self.quiet = np.full(whole, np.inf)
        # The table of each agent.
        self.entry = np.zeros(whole, np.uint32)
        self.beaten, self.shown, self.ticks, self.since = np.zeros((4, *whole))
        # What ages.py knows, and the truth of the report from which it knows it.
        self.known = Memory(
            np.zeros(count, np.uint8), np.zeros(count, np.uint8), np.zeros(count, np.bool_),
            np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count, np.int64),
            np.zeros(whole, np.uint32), np.zeros(whole, np.int64), np.zeros(whole, np.bool_),
            np.zeros(count, np.bool_))
        self.past = [self.truth()] * 3
        self.used = self.truth()
        self.error = np.zeros(whole)  # Ticks: hidden changes of the clock.
        self.twin, self.lame = np.zeros((2, *whole), np.bool_)  # "again" and "before"
        self.early = np.zeros(count, np.bool_)  # Its clock was set before its first report.
        self.seen: collections.Counter[str] = collections.Counter()

    def some(self, share: float) -> Flags:
        flags: Flags = self.draw.random(self.count) < share
        return flags

    def show(self, when: Any, begun: Any) -> Any:
        """What the clocks show, in ticks that never wrap."""
        per_agent = (slice(None), None) if when.ndim > 1 else slice(None)
        ticks_per_s = self.rate[per_agent] / self.tick[per_agent]
        shown: Any = np.floor((when - begun[per_agent]) * ticks_per_s)
        return shown

    def truth(self) -> Truth:
        shown = self.show(self.time, self.begun)
        return Truth(*(array.copy() for array in (
            self.entry, self.beaten, self.ticks, self.since, self.time, shown,
            shown - self.set_by, self.epoch, self.boots)))

    def go_on(self) -> None:
        """Time passes until each agent is asked again. On the way, something may happen to it."""
        draw, before, count = self.draw, self.time, self.count
        long = self.tick * draw.choice([2e3, 4e4, 1e5, 4e5], count) * draw.uniform(0.5, 1.5, count)
        wait = np.where(self.some(0.003), long, self.period * draw.uniform(0.9, 1.1, count))
        self.time = before + wait
        self.forget(before)
        happens = before + wait * draw.random(count)
        reboot = self.some(0.004)
        empty = reboot & self.some(0.7)
        size = np.rint(draw.choice([2, 30, 3e3, 9e4], count) * draw.uniform(-1, 1, count))
        size[~(self.some(0.002) & self.unix)] = 0
        restarted = reboot & ~self.unix
        begun, set_by, epoch = self.begun, self.set_by, self.epoch
        self.begun = np.where(restarted, happens, begun - size * self.tick)
        self.set_by = set_by + np.where(restarted, -self.show(happens, begun), size)
        self.epoch = epoch + (restarted | (size != 0))
        self.boots = self.boots + (empty | restarted)
        fate = draw.random(self.entry.shape)
        self.quiet[fate < 0.001] = 0
        self.quiet[fate > 0.9995] = np.inf
        last = np.floor((self.time[:, None] - self.phase) / self.beat) * self.beat + self.phase
        heard = (last > before[:, None]) & ~self.mute & (last < self.quiet) & (fate < 0.98)
        after = last >= happens[:, None]
        shown = np.where(after, self.show(last, self.begun), self.show(last, begun))
        value = np.where(draw.random(last.shape) < 0.05, draw.integers(0, 4, last.shape), 1)
        self.entry[empty] = 0
        self.write(heard & ~(empty[:, None] & ~after),
                   pack(shown) | np.uint32(76 << 8) | value.astype(np.uint32), last, shown,
                   shown - np.where(after, self.set_by[:, None], set_by[:, None]),
                   np.where(after, self.epoch[:, None], epoch[:, None]))
        self.forget(self.time)
        shown = self.show(self.time, self.begun)
        is_clock = np.zeros(last.shape, np.bool_)
        is_clock[:, 0] = self.now_from == 0
        self.write(is_clock, (pack(shown) | self.own_sender)[:, None], *(
            array[:, None] for array in (self.time, shown, shown - self.set_by, self.epoch)))

    def write(self, where: Flags, entry: NDArray[np.uint32], beaten: Real, shown: Real,
              ticks: Any, since: Real) -> None:
        for mine, new in ((self.entry, entry), (self.beaten, beaten), (self.shown, shown),
                          (self.ticks, ticks), (self.since, since)):
            np.copyto(mine, new, where=where)

    def forget(self, when: Real) -> None:
        """Agents on Linux forget what is too old by their clock."""
        view = self.show(when, self.begun)[:, None] - self.shown
        view = np.where(view < -240, view + WRAP, view)  # It seems to be in the future.
        old = self.forgets[:, None] & (view >= FORGETS + 60) & (self.entry != 0)
        self.entry[old] = 0

    def step(self) -> int:
        """One round. Returns how many reports came."""
        self.go_on()
        now = self.truth()
        slow = np.where(self.some(0.9), 0.02, 0.4) * self.period
        asked = np.maximum(self.time - slow * self.draw.random(self.count), self.known.received)
        received = self.time + slow * self.draw.random(self.count)
        self.past = [*self.past[1:], now]
        late = self.some(0.002) & (self.past[0].made_at < self.used.made_at) \
            & (now.made_at - self.past[0].made_at < 5 * self.period)
        forgotten = self.some(0.0003)  # The ports are new, too, so no report is late.
        self.known.kind[forgotten] = ClockKind.NONE
        late &= self.known.kind != ClockKind.NONE
        report = Truth._make(map(partial(choose, late), self.past[0], now))
        rows = np.flatnonzero(~self.some(0.03))
        was = Memory._make(array[rows] for array in self.known)
        new = Reports(self.tick[rows], self.now_from[rows], asked[rows], received[rows],
                      received[rows] + OFFSET, report.entry[rows])
        out = advance(was, new)
        self.seen["late, refused"] += int((late[rows] & ~out.used).sum())
        use = np.flatnonzero(out.used)
        self.check(rows[use], Memory._make(array[use] for array in was),
                   Reports._make(array[use] for array in new), out.rebooted[use], out.reset[use],
                   Memory._make(array[use] for array in out.memory),
                   Truth._make(array[rows[use]] for array in report))
        mine: Any
        for mine, theirs in zip(self.known, out.memory):
            mine[rows] = theirs
        for mine, theirs in zip(self.used, report):
            mine[rows[out.used]] = theirs[rows[out.used]]
        self.time[rows] = received[rows]
        return len(rows)

    def check(self, rows: Rows, was: Memory, new: Reports, rebooted: Flags, reset: Flags,
              memory: Memory, report: Truth) -> None:
        """Compares what the rule says of these reports, which it has used, with the truth."""
        used = Truth._make(array[rows] for array in self.used)  # Truth of the last reports.
        first, counts = was.kind == ClockKind.NONE, memory.kind == ClockKind.OWN
        anew = first | (counts & (memory.strikes > 1)) | (counts != (was.kind == ClockKind.OWN))
        was_set = report.now_epoch != used.now_epoch
        booted = report.boots != used.boots
        span = (new.received - was.asked) / new.tick
        moved = (report.shown - report.passed) - (used.shown - used.passed)
        self.early[rows[first]] = report.now_epoch[first] > 0
        self.check_told(rows, was, report, span, moved, rebooted, reset, booted, was_set)
        # By how much its time goes wrong in this step: only if its clock was set, or if we were
        # away for so long that we must not be sure of any age.
        passed = report.passed - used.passed
        drift = np.where(counts & ~anew, memory.clock - was.clock - passed, 0)
        vague = (span * 2 * RATE > WRAP - 8) & memory.at_least.all(axis=1) & (drift < 0)
        self.demand((drift == 0) | was_set | vague, rows, "a wrong time", drift, span)
        drift[vague] = 0

        heard = report.entry != 0
        same = heard & (report.entry == was.entry)
        again = same & ~(first | anew)[:, None] & (
            (report.ticks != used.ticks) | (report.epoch != used.epoch))
        self.demand(~again | (report.ticks - used.ticks >= WRAP) | (report.epoch != used.epoch),
                    rows, "two heartbeats within a wrap cannot look the same")
        twin = again | (same & self.twin[rows])
        lame = np.where(first[:, None],
                        report.epoch != report.now_epoch[:, None], same & self.lame[rows])
        lame |= same & anew[:, None] & (report.epoch != used.epoch) \
            & (report.now_epoch > used.now_epoch + 1)[:, None]
        age = memory.clock[:, None] - memory.stamped
        truth = np.where(counts[:, None], report.passed[:, None] - report.ticks,
                         (new.received[:, None] - report.beaten) / new.tick[:, None])
        fresh = np.where((was_set & counts & ~anew)[:, None], age - truth, 0)
        fresh = np.where(memory.at_least, np.maximum(fresh, 0), fresh)
        # A heartbeat from before the clock was set is wrong by that, after a long time by wraps.
        far = np.where((span > WRAP // 2)[:, None], (fresh + WRAP // 2) % WRAP - WRAP // 2, fresh)
        self.demand(~heard | same | (np.abs(far) <= np.abs(moved)[:, None] + 1),
                    rows, "a heartbeat far from the truth", age, truth, fresh)
        error = np.where(same, self.error[rows] + np.where(anew, 0, drift)[:, None], fresh)
        sure = heard & ~twin & ~lame
        exact, bounded = sure & ~memory.at_least, sure & memory.at_least
        self.demand(~exact | (age == truth + error) | (age == truth), rows, "a wrong age", age,
                    truth, error)
        # Without a clock, an age is right to two ticks: a node may have beaten twice in one.
        limit = truth + np.where(counts, 1, 1 + 1 / (1 - RATE))[:, None]
        self.demand(~bounded | (age <= limit + np.maximum(error, 0)), rows,
                    "an age that is more than the truth", age, truth, error, memory.kind, was.kind,
                    was.strikes, memory.strikes)
        for mine, array in ((self.error, error), (self.twin, twin), (self.lame, lame)):
            mine[rows] = array
        self.tally({"exact": exact, "at least": bounded, "beyond 65536": exact & (truth >= WRAP)})

    def check_told(self, rows: Rows, was: Memory, report: Truth, span: Real, moved: Any,
                   rebooted: Flags, reset: Flags, booted: Flags, was_set: Flags) -> None:
        """Reboots and clocks that were set."""
        # Set forward by whole wraps, an agent that forgets looks like one that has rebooted.
        wraps = (moved > WRAP // 2) & (
            np.abs((moved + WRAP // 2) % WRAP - WRAP // 2) < SKEW + span + 3)
        unseen = self.early[rows] & was_set & rebooted & ~booted & ~wraps \
            & (report.shown % WRAP <= span * (1 + RATE) + 3)
        self.demand(~rebooted | booted | wraps | unseen, rows, "a reboot that was none")
        self.demand(~reset | was_set | booted, rows, "a clock that nobody set")
        polled = was.kind == ClockKind.OWN
        seen = (rebooted | reset) & polled
        self.tally({"reboots to see": booted & polled, "clocks to see": was_set & polled,
                    "reboots seen": booted & seen, "clocks seen": was_set & seen})

    def tally(self, cases: dict[str, Flags]) -> None:
        for what, flags in cases.items():
            self.seen[what] += int(flags.sum())

    def demand(self, holds: Flags, rows: Rows, what: str, *show: NDArray[Any]) -> None:
        if holds.all():
            return
        place = np.argwhere(~holds)[0]
        row, of = int(rows[place[0]]), f", variable {place[1]}" if len(place) > 1 else ""
        raise Mismatch(
            f"{what}: agent {row}{of}, clock {self.sort[row]}, tick {self.tick[row]:g} s, "
            f"period {self.period[row]:g} s, rate {self.rate[row]:.4f}: "
            f"{', '.join(str(array[tuple(place[:array.ndim])]) for array in show)}; "
            f"{self.count} agents, seed {self.seed}")


def pack(shown: Real) -> NDArray[np.uint32]:
    """Timestamps, where an entry has them."""
    return (shown.astype(np.int64) % WRAP).astype(np.uint32) << np.uint32(16)


def run(reports: int, seed: int, count: int = 1000) -> collections.Counter[str]:
    """Mismatch: it was not right."""
    world = World(count, seed)
    while world.seen["reports"] < reports:
        world.seen["reports"] += world.step()
    return world.seen
