"""Intervals, against plain sums and against samples whose mean is known.
SPDX-License-Identifier: MIT"""

import math
import random
import statistics

import pytest

from lab.joules.uncertainty import (Value, by_meter, interval, mad, variance_of_mean,
                                    without_outliers)


def plain(values: list[float]) -> list[Value]:
    return [Value(value) for value in values]


def test_mad_is_the_median_distance() -> None:
    assert mad([1, 1, 2, 2, 4, 6, 9]) == 1
    assert mad([5.0]) == 0


def test_outliers_are_told_by_the_mad() -> None:
    """Of the first seven the median is 10.1 and the MAD 0.2: five times 1.4826 of it are 1.48."""
    good = [10.0, 10.1, 9.9, 10.2, 9.8, 11.5]
    for last, stays in ((55.0, False), (11.6, False), (11.57, True)):
        kept = [value.value for value in without_outliers(plain([*good, last]))]
        assert kept == good + [last] * stays
    few = plain([10.0, 10.1, 9.9, 55.0])
    assert without_outliers(few) == few
    coarse = plain([36.0] * 4 + [72.0])
    assert without_outliers(coarse) == coarse


def test_what_the_meter_explains_is_no_outlier() -> None:
    values = [Value(value, 40.0) for value in (10.0, 10.1, 9.9, 10.2, 9.8, 55.0)]
    assert len(without_outliers(values)) == 6


def coverage(sizes: tuple[int, ...], bound: float = 0.0) -> float:
    """How often the interval holds the true mean, which is 7, or the true difference, 7 - 3."""
    draw, held, tries = random.Random(20), 0, 150
    for seed in range(tries):
        groups = [[Value(draw.gauss(mean, 1.5) + draw.uniform(-bound, bound), bound)
                   for _ in range(size)] for mean, size in zip((7.0, 3.0), sizes, strict=False)]
        found = interval(groups[0], seed, *groups[1:], draws=400)
        held += found.low <= 7.0 - 3.0 * (len(sizes) - 1) <= found.high
    return held / tries


@pytest.mark.parametrize("sizes, least", [((12,), 0.90), ((6,), 0.86), ((8, 10), 0.90)])
def test_the_interval_holds_the_mean_in_95_of_100_cases(sizes: tuple[int, ...],
                                                        least: float) -> None:
    """Of 150 tries at 95 %, one in a thousand series has less than 90 %."""
    assert least <= coverage(sizes) <= 0.995


def test_a_coarse_meter_makes_it_wider_and_no_less_true() -> None:
    assert coverage((8,), bound=3.0) >= 0.93


def test_it_is_about_as_wide_as_students() -> None:
    """For 12 normal values: 2.201 standard errors to either side, by any table of t."""
    draw, ratios = random.Random(4), []
    for seed in range(25):
        values = [draw.gauss(0, 1) for _ in range(12)]
        found = interval(plain(values), seed, draws=1000)
        error = statistics.stdev(values) / math.sqrt(12)
        if not found.dropped:
            ratios.append((found.high - found.low) / 2 / error / 2.201)
    assert 0.9 < statistics.median(ratios) < 1.15


def test_the_same_seed_gives_the_same_interval() -> None:
    values = plain([3.0, 4.0, 4.5, 3.3, 3.9, 4.1])
    assert interval(values, 7) == interval(values, 7) != interval(values, 8)


def test_few_values_tell_nothing_but_their_mean() -> None:
    found = interval(plain([1.0, 2.0, 3.0]), 1)
    assert found.mean == 2 and not found.known and found.holds_zero


def test_equal_values_are_as_uncertain_as_the_meter() -> None:
    found = interval([Value(72.0, 36.0)] * 6, 1)
    assert found.mean == 72
    assert found.low == pytest.approx(72 - 1.96 * 36 / math.sqrt(18))
    assert interval(plain([72.0] * 6), 1).low == 72
    assert by_meter([Value(1.0, 0.5)]) == 0.5  # not more than it can be off at all


def test_a_difference_is_of_the_means() -> None:
    found = interval(plain([10.0, 11.0, 10.5, 10.2]), 3, plain([4.0, 4.1, 4.2, 4.3, 4.0]))
    assert found.mean == pytest.approx(10.425 - 4.12)
    assert found.low > 5 and found.high < 8


def test_values_that_reach_far_up_may_have_a_mean_far_up() -> None:
    """The mean of eight such values is more often too small than too large."""
    found = interval(plain([0.1, 0.2, 0.3, 0.5, 0.8, 1.3, 2.1, 3.4]), 1)
    assert not found.dropped and found.high - found.mean > 1.5 * (found.mean - found.low)


def test_the_variance_of_a_mean_is_that_of_the_values_by_their_number() -> None:
    values = [3.0, 4.5, 4.0, 7.5, 2.0]
    assert variance_of_mean(values) == pytest.approx(statistics.variance(values) / 5)
