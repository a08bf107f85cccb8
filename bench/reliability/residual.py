"""Computes how often a reader sees a wrong value before the next heartbeat.

    make figures ONLY=residual

A node sends once in each period. A wrong heartbeat has just been taken in the place of one of its
own. Each later heartbeat is lost with the probability `lost`; the first that is not lost corrects
the value. A reader asks once every n periods, at a time that does not depend on the node's.

The model is simulated, and must agree with its formula. With q for `lost`, a wrong value lasts k
periods or more with the probability q^(k-1). So it is seen with the probability
(1 + q + … + q^(n-1)) / n = (1 - q^n) / (n (1 - q)).   SPDX-License-Identifier: MIT"""

import random

from bench.reliability.channels import A_SECOND, bare, years
from tests.support.programs import as_program

SEED = 1
TRIALS = 50_000
LOST = (0.0, 0.01, 0.1, 0.5)
EVERY = (1, 10, 60, 3600)  # periods between two requests
RATE = 1e-6  # the share of bits that flip, for the last column
SIGMAS = 5  # that the simulation may differ: by chance, two runs in a million differ more


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
    print("  lost  a request every   seen: by formula       simulated   years between")
    for lost in LOST:
        for every in EVERY:
            expected = formula(lost, every)
            print(f"{lost:>6.0%}{every:>9} periods{expected:>17.4%}{run(lost, every):>17.4%}"
                  f"{years(bare(RATE) * expected):>16.2g}")
    print(f"simulated: {TRIALS:,} wrong values in each row, seed {SEED}. years: between two wrong "
          f"values that a\nreader sees, if {A_SECOND} heartbeats are sent a second over a line "
          f"that has no check and flips\n{RATE:g} of its bits.")


if __name__ == "__main__":
    as_program(main)
