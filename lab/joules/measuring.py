"""Idle and work in turns, and what the difference is, if the meter can see one.

README.md describes the pairs, and the interval that the sign test gives of their median."""

import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.joules import results
from lab.joules.meters import Clock, Lost, Meter
from lab.joules.results import IDLE, WORK, Run, Turn

MARGIN = 1.5  # The advised time has this factor, as the spread is itself an estimate.
LONGEST = 14 * 24 * 60  # minutes; nobody measures for longer
LOOKS = 60.0  # seconds between two looks at the meter in an idle time
PAIRS = 10  # With ten, the interval leaves out the lowest and the highest value.
LEVEL = 0.95
LEAST = 6  # No two of fewer values enclose the median in 95 of 100 cases.
ASSUMES = "if the turns do not depend on each other"


class Failed(Exception):
    """The work did not do what it should; the text says how."""


Work = Callable[[int], int]  # does the work of a pair, and returns how many calls it made


@dataclass(frozen=True)
class Value:
    """One measured value; the meter is off by at most `bound` to either side."""

    value: float
    bound: float = 0.0


@dataclass(frozen=True)
class Interval:
    middle: float  # the median
    low: float
    high: float
    meter: float = 0.0  # Largest error of the middle by the meter alone.

    @property
    def holds_zero(self) -> bool:
        return self.low <= 0 <= self.high

    @property
    def known(self) -> bool:
        return math.isfinite(self.high - self.low)

    @property
    def half(self) -> float:
        return max(self.high - self.middle, self.middle - self.low)


def mad(values: Sequence[float]) -> float:
    """The median of the distances from the median."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def rank(count: int) -> int:
    """Counted from both ends from 1, which values enclose the median at LEVEL. 0: none do."""
    beyond, position = 0.0, 0
    while (beyond := beyond + math.comb(count, position) / 2 ** count) <= (1 - LEVEL) / 2:
        position += 1
    return position


def interval(values: Sequence[Value]) -> Interval:
    """Of the median. What the meter may be off moves each value to its worse side."""
    middle = statistics.median(value.value for value in values)
    low = sorted(value.value - value.bound for value in values)
    high = sorted(value.value + value.bound for value in values)
    meter = max(middle - statistics.median(low), statistics.median(high) - middle)
    position = rank(len(values))
    return Interval(middle, low[position - 1], high[-position], meter) if position else \
        Interval(middle, -math.inf, math.inf, meter)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def order(pairs: Iterable[int], net: bool) -> list[tuple[int, str]]:
    """The turns: work idle, idle work, work idle, …; without the net, work alone."""
    return [(pair, turn) for pair in pairs
            for turn in ((WORK, IDLE) if pair % 2 == 0 else (IDLE, WORK))
            if net or turn == WORK]


def whole(turns: Sequence[Turn], net: bool) -> list[Turn]:
    """The turns of pairs that are complete. What a break cut in two was not at like charge."""
    by_key = {(turn.pair, turn.turn): turn for turn in turns}
    return [by_key[key] for key in order(sorted({turn.pair for turn in turns}), net)
            if all((key[0], kind) in by_key for kind in ((WORK, IDLE) if net else (WORK,)))]


class Measurement:
    """Does the turns that are still missing, and keeps each in the file as soon as it is over."""

    def __init__(self, meter: Meter, clock: Clock, file: Path, turns: Sequence[Turn], *,
                 rest: float = 0.0) -> None:
        self.meter, self.clock, self.file, self.rest = meter, clock, file, rest
        self.turns = list(turns)

    def take(self, pairs: Iterable[int], net: bool, work: Work) -> None:
        done = {(turn.pair, turn.turn) for turn in whole(self.turns, net)}
        missing = [turn for turn in order(pairs, net) if turn not in done]
        for count, (pair, turn) in enumerate(missing):
            if count and self.rest:
                self.clock.sleep(self.rest)
            lasted = self.usual()
            left = (len(missing) - count) * lasted + (len(missing) - count - 1) * self.rest
            say(f"lab: turn {count + 1} of {len(missing)}, {turn}" +
                (f", {duration(lasted)}; {duration(left)} left" if lasted else ""))
            self.turn(pair, turn, work if turn == WORK else self.idle)

    def usual(self) -> float:
        """Seconds of the last turn of work; an idle one takes as long."""
        return next((turn.seconds for turn in reversed(self.turns) if turn.turn == WORK), 0.0)

    def idle(self, pair: int) -> int:
        """A meter that fails ends it early; stop() says why."""
        end = self.clock.now() + self.usual()
        while not self.meter.failed and (left := end - self.clock.now()) > 0:
            self.clock.sleep(min(left, LOOKS))
        return 0

    def turn(self, pair: int, turn: str, work: Work) -> None:
        began = results.now()
        self.meter.start()
        calls = -1
        try:
            calls = work(pair)
        finally:
            try:
                energy = self.meter.stop()
            except Lost:
                if calls >= 0:  # otherwise the work's own failure comes first
                    raise
        record = results.turn_of(pair, turn, energy, calls, began)
        results.append(self.file, record)
        self.turns.append(record)
        for note in record.notes:
            say(f"lab: {note}")


# What the turns say.


@dataclass(frozen=True)
class Quantity:
    name: str
    unit: str
    interval: Interval


def pairs_of(turns: Sequence[Turn]) -> list[tuple[Turn, Turn]]:
    """Work and idle of each complete pair."""
    by_key = {(turn.pair, turn.turn): turn for turn in turns}
    return [(work, by_key[pair, IDLE]) for (pair, turn), work in by_key.items()
            if turn == WORK and (pair, IDLE) in by_key]


def net_of(work: Turn, idle: Turn) -> Value:
    """Joules of the work, less those of an idle time that is exactly as long."""
    share = work.seconds / idle.seconds
    return Value(work.joules - idle.joules * share, work.uncertainty + idle.uncertainty * share)


def per_call(value: Value, work: Turn) -> Value:
    return Value(value.value / work.calls, value.bound / work.calls)


def values(turns: Sequence[Turn], net: bool) -> list[Value]:
    """Joules of a call in each pair, or without net in each turn: what runs are compared by."""
    if net:
        return [per_call(net_of(work, idle), work) for work, idle in pairs_of(turns) if work.calls]
    return [per_call(Value(turn.joules, turn.uncertainty), turn)
            for turn in turns if turn.turn == WORK and turn.calls]


def quantities(turns: Sequence[Turn], net: bool) -> list[Quantity]:
    """All that is printed: of a turn, and at last of a call."""
    quantities = []

    def add(name: str, unit: str, each: Iterable[Value]) -> None:
        quantities.append(Quantity(name, unit, interval(list(each))))

    for name in (WORK, IDLE) if net else (WORK,):
        some = [turn for turn in turns if turn.turn == name]
        add(name, "J", (Value(turn.joules, turn.uncertainty) for turn in some))
        add(name, "W", (Value(turn.joules / turn.seconds, turn.uncertainty / turn.seconds)
                        for turn in some))
        add(name, "s", (Value(turn.seconds) for turn in some))
    if net:
        pairs = pairs_of(turns)
        add("net", "J", (net_of(*pair) for pair in pairs))
        add("net", "W", (Value(net.value / work.seconds, net.bound / work.seconds)
                         for work, idle in pairs for net in [net_of(work, idle)]))
    if any(turn.calls > 1 for turn in turns):
        add("net of a call" if net else "a call", "J", values(turns, net))
    return quantities


PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def scaled(number: float, unit: str, like: float | None = None) -> str:
    """With a prefix, if the number (or the one that it stands beside) is small."""
    size = abs(number if like is None else like)
    factor, prefix = next(((factor, prefix) for factor, prefix in PREFIXES if size >= factor),
                          PREFIXES[0] if size == 0 else PREFIXES[-1])
    digits = max(0, 3 - math.floor(math.log10(max(size / factor, 1))))
    return f"{number / factor:,.{digits}f} {prefix}{unit}"


def row(quantity: Quantity) -> str:
    estimate = quantity.interval
    ends = (estimate.low, estimate.high) if estimate.known else (estimate.meter,)
    like = max(map(abs, (estimate.middle, *ends)))
    middle, *limits = (scaled(number, quantity.unit, like) for number in (estimate.middle, *ends))
    spread = " to ".join(limits) if estimate.known else \
        f"spread unknown; ± {limits[0]} by the meter alone"
    return f"{quantity.name:<14}{middle:>15}   {spread}"


def plural(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)


def verdict(turns: Sequence[Turn]) -> list[str]:
    """Is the net more than nothing? If the meter cannot see that: after how long it could."""
    pairs = pairs_of(turns)
    net = interval([net_of(*pair) for pair in pairs])
    minutes = sum(turn.seconds for pair in pairs for turn in pair) / 60
    if not net.known:
        return [f"{plural(len(pairs), 'pair')} cannot tell how far they spread: "
                f"--repeat {PAIRS} or more."]
    if net.high < 0:
        return ["The work took less than idleness: something else ran in the idle turns."]
    if not net.holds_zero:
        return []
    half, guess = net.half, net.middle if net.middle > 0 else net.high
    ratio = half / guess if guess > 0 else math.inf
    needs = minutes * ratio * ratio * MARGIN  # `** 2` would be an error if it is too large
    if needs > LONGEST:
        return ["Not measurable with this meter in this time, nor in two weeks: the net is at most "
                f"{scaled(net.high, 'J')} a turn,",
                f"and the meter and the turns leave it open by {scaled(half, 'J')} to either side."]
    claim = "the net is about" if net.middle > 0 else "the net is at most"
    return ["Not measurable with this meter in this time; "
            f"try {plural(math.ceil(max(needs, minutes)), 'minute')}, in longer turns.",
            f"The sum: in {minutes:,.1f} min {claim} {scaled(guess, 'J')} a turn, and open by "
            f"{scaled(half, 'J')} to either side.",
            "What is open falls, beside the net, with the square root of the time:",
            f"{minutes:,.1f} min x ({scaled(half, 'J')} / {scaled(guess, 'J')})² x {MARGIN} = "
            f"{needs:,.1f} min."]


def report(run: Run, turns: Sequence[Turn], net: bool) -> list[str]:
    """What lab/run measure prints: every joule with its meter."""
    turns = whole(turns, net)
    if not turns:
        return ["Nothing was measured to its end."]
    of = plural(len(turns) // 2, "pair") + " of work and idle" if net else \
        plural(len(turns), "turn")
    calls = plural(sum(turn.calls for turn in turns), "call")
    lines = [f"{run.operation}: measured with {run.meter}.",
             f"{of}, {calls}. The median of the turns, and where it lies",
             f"with a certainty of 95 %, {ASSUMES}:", "",
             *map(row, quantities(turns, net))]
    notes = list(dict.fromkeys(note for turn in turns for note in turn.notes))
    warnings = [note for note in notes if note.startswith("warning")]
    lines[1:1] = warnings
    parts: dict[str, float] = {}
    for turn in turns:
        for name, joules in turn.parts.items() if turn.turn == WORK else ():
            parts[name] = parts.get(name, 0.0) + joules
    if len(parts) > 1:
        lines += ["", "All turns of work by part, some of which hold others: " +
                  ", ".join(f"{name} {scaled(joules, 'J')}" for name, joules in parts.items())]
    others = [note for note in notes if note not in warnings]
    lines += ["", *others] if others else []
    if net and (verdict_lines := verdict(turns)):
        lines += ["", *verdict_lines]
    return lines
