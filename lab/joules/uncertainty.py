"""The middle of several measured values, and where it lies, whatever the noise is like.

The interval is between two of the values in order, as the sign test has it: each turn is as likely
above the median as below it. So it needs no normal noise, holds with skewed noise and bursts, drops
no value, and assumes only that the turns do not depend on each other."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
LEAST = 6  # with less than that, no two values enclose the median in 95 of 100 cases
ASSUMES = "if the turns do not depend on each other"


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
    meter: float = 0.0  # how far off the middle may be by the meter alone

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
    beyond, found = 0.0, 0
    while (beyond := beyond + math.comb(count, found) / 2 ** count) <= (1 - LEVEL) / 2:
        found += 1
    return found


def interval(values: Sequence[Value]) -> Interval:
    """Of the median. What the meter may be off moves each value to its worse side."""
    middle = statistics.median(value.value for value in values)
    low = sorted(value.value - value.bound for value in values)
    high = sorted(value.value + value.bound for value in values)
    meter = max(middle - statistics.median(low), statistics.median(high) - middle)
    at = rank(len(values))
    return Interval(middle, low[at - 1], high[-at], meter) if at else \
        Interval(middle, -math.inf, math.inf, meter)
