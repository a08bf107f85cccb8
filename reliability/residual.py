"""A wrong value was taken. Does anybody see it before the next heartbeat?      make residual

A node sends once each period; a wrong heartbeat has just been taken in its place; each later
one is lost with the probability `lost`, and the first that is not puts things right. A reader asks
once every so many periods, at a moment that has nothing to do with the node's.

The model is run, and must agree with its formula: with q for `lost` and an answer every n
periods, a wrong value lasts k periods or more with probability q^(k-1), so that it is seen with
(1 + q + … + q^(n-1)) / n = (1 - q^n) / (n (1 - q)).   SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import random

from reliability.channels import A_SECOND, bare, years

SEED = 1
TRIALS = 50_000
LOST = (0.0, 0.01, 0.1, 0.5)
EVERY = (1, 10, 60, 3600)  # periods between two requests
RATE = 1e-6  # of bits that flip, for the last column
SIGMAS = 5  # that the run may be off: two runs in a million are by chance


def formula(lost: float, every: int) -> float:
    return (1 - lost**every) / (every * (1 - lost))


def is_seen(numbers: random.Random, lost: float, every: int) -> bool:
    next_request = numbers.random() * every  # after the wrong heartbeat
    right_again = 1
    while numbers.random() < lost:
        right_again += 1
    return next_request < right_again


def run(lost: float, every: int) -> float:
    numbers = random.Random(f"{SEED} {lost} {every}")
    seen = sum(is_seen(numbers, lost, every) for _ in range(TRIALS)) / TRIALS
    expected = formula(lost, every)
    if abs(seen - expected) > SIGMAS * (expected * (1 - expected) / TRIALS)**0.5 + 1e-12:
        raise SystemExit(
            f"lost {lost}, every {every}: {seen} were seen, the formula says {expected}")
    return seen


def main() -> None:
    print("  lost  a request every   seen by formula  seen in the run   years between")
    for lost in LOST:
        for every in EVERY:
            expected = formula(lost, every)
            print(f"{lost:>6.0%}{every:>9} periods{expected:>17.4%}{run(lost, every):>17.4%}"
                  f"{years(bare(RATE) * expected):>16.2g}")
    print(f"run: {TRIALS:,} wrong values each, seed {SEED}. years: between two wrong values seen, "
          f"over a line\nwith no check that flips {RATE:g} of its bits, of {A_SECOND} "
          "heartbeats a second.")


if __name__ == "__main__":
    main()
