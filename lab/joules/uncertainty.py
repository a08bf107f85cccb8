"""How far a mean can be trusted: outliers by MAD, intervals by bootstrap with a seed that is known.
"""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
DRAWS = 2000  # so that 50 lie beyond each end
FAR = 5.0  # standard deviations, as the MAD tells them; 3.5 drops one of 30 good values of six
NORMAL = 1.4826  # the standard deviation of normal values is so many MADs
FEW = 5  # with less than that, nobody can say which one lies outside
LEAST = 4  # with less than that, nothing tells how far values spread


@dataclass(frozen=True)
class Value:
    """One measured value; the meter is off by at most `bound` to either side."""

    value: float
    bound: float = 0.0


@dataclass(frozen=True)
class Interval:
    mean: float
    low: float
    high: float
    meter: float = 0.0  # how far off the mean may be by the meter alone
    dropped: int = 0  # outliers

    @property
    def holds_zero(self) -> bool:
        return self.low <= 0 <= self.high

    @property
    def known(self) -> bool:
        return math.isfinite(self.high - self.low)


def seed() -> int:
    """Draws a seed, if the user has chosen none."""
    return random.SystemRandom().randrange(2**32)


def mad(values: Sequence[float]) -> float:
    """The median of the distances from the median."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def without_outliers(values: Sequence[Value]) -> list[Value]:
    """Drops what is too far from the median, and further than the meter explains. If more than half
    are the same, as with a coarse gauge, there is no measure of far: then all stay."""
    plain = [value.value for value in values]
    if len(plain) < FEW or (spread := mad(plain)) == 0:
        return list(values)
    middle = statistics.median(plain)
    return [value for value in values
            if abs(value.value - middle) <= max(FAR * NORMAL * spread, 2 * value.bound)]


def mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)  # statistics.fmean takes many times as long


def variance_of_mean(values: Sequence[float]) -> float:
    mean, count = mean_of(values), len(values)
    return sum((value - mean) ** 2 for value in values) / (count - 1) / count


def by_meter(values: Sequence[Value]) -> float:
    """How far the mean may be off by the meter alone: errors that are uniform and independent have
    nearly a normal sum; the mean is never further off than the mean of the bounds."""
    bounds = [value.bound for value in values]
    normal = 1.96 * math.sqrt(sum(bound * bound for bound in bounds) / 3) / len(bounds)
    return min(normal, mean_of(bounds))


def interval(values: Sequence[Value], chosen: int, *less: Sequence[Value],
             draws: int = DRAWS) -> Interval:
    """Of the mean of the values, less the mean of others, if there are any.

    Bootstrap-t: the values are drawn again and again, and each time it is seen by how many of its
    own standard errors the mean is off. With few values these are many, so the interval is wide
    where it must be. The meter's own bounds are independent of that, and add as squares."""
    groups = [without_outliers(group) for group in (values, *less)]
    plain = [[value.value for value in group] for group in groups]
    signs = [1] + [-1] * len(less)

    def difference(drawn: Sequence[Sequence[float]]) -> float:
        return sum(sign * mean_of(one) for sign, one in zip(signs, drawn, strict=True))

    mean = difference(plain)
    dropped = sum(map(len, (values, *less))) - sum(map(len, plain))
    meter = math.sqrt(sum(by_meter(group) ** 2 for group in groups))
    if min(map(len, plain)) < LEAST:
        return Interval(mean, -math.inf, math.inf, meter, dropped)
    noise = (meter / 1.96) ** 2  # so that a coarse gauge, which often shows the same, is not exact
    error = math.sqrt(sum(map(variance_of_mean, plain)) + noise)
    low = high = 0.0
    if error > 0:
        draw = random.Random(chosen)
        offs = []
        for _ in range(draws):
            drawn = [draw.choices(one, k=len(one)) for one in plain]
            off = difference(drawn) - mean
            own = math.sqrt(sum(map(variance_of_mean, drawn)) + noise)
            offs.append(off / own if own > 0 else math.copysign(math.inf, off) if off else 0.0)
        offs.sort()
        beyond = round(draws * (1 - LEVEL) / 2)
        low, high = offs[-1 - beyond] * error, -offs[beyond] * error
    return Interval(mean, mean - math.hypot(low, meter), mean + math.hypot(high, meter), meter,
                    dropped)
