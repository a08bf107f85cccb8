"""Shows how many damaged reports a reader takes.

    make figures ONLY=report-damage ARGS="SEED TRIALS"
"""

import sys
from math import exp, lgamma, log, log1p

from bench.reliability.programs import program_rows
from tools.programs import as_program

SEED, TRIALS = "1", "400000"
DOUBT = 0.05  # the probability that an interval does not contain the true share


def at_most(taken: int, trials: int, chance: float) -> float:
    """The probability that this many or fewer are taken."""
    return sum(exp(lgamma(trials + 1) - lgamma(i + 1) - lgamma(trials - i + 1)
                   + i * log(chance) + (trials - i) * log1p(-chance)) for i in range(taken + 1))


def crossing(taken: int, trials: int, level: float) -> float:
    """The chance at which `at_most` has fallen to this level. It halves an interval until floats
    are not fine enough to halve it again."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if at_most(taken, trials, middle) > level else (low, middle)
    return high


def interval(taken: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's confidence interval, if not all are taken. It may be too wide, but it
    is never too narrow."""
    low = crossing(taken - 1, trials, 1 - DOUBT / 2) if taken else 0.0
    return low, crossing(taken, trials, DOUBT / 2)


def main() -> None:
    arguments = sys.argv[1:] or [SEED, TRIALS]
    if len(arguments) != 2 or not all(word.isascii() and word.isdecimal() for word in arguments) \
            or not 0 < int(arguments[1]) <= 10**12 or int(arguments[0]) >= 2**64:
        raise SystemExit('usage: make figures ONLY=report-damage ARGS="SEED TRIALS": '
                         "a number below 2^64, and one from 1 to 10^12")
    rows = program_rows("report", *arguments)
    trials = int(arguments[1])
    tables = list(dict.fromkeys(table for table, *_ in rows))
    errors = list(dict.fromkeys((kind, amount) for _, kind, amount, *_ in rows))
    taken = {(table, kind, amount): int(count) for table, kind, amount, count, _ in rows}
    print("damage      " + "".join(f"{table + ' table':<24}" for table in tables).rstrip())
    for kind, amount in errors:
        cells = ""
        for table in tables:
            count = taken[table, kind, amount]
            low, high = interval(count, trials)
            cell = f"{count}: {low:.1e} to {high:.1e}" if count else f"0: below {high:.1e}"
            cells += f"{cell:<24}"
        print(f"{kind} {amount:<6}{cells}".rstrip())
    print(f"How many of {trials:,} damaged reports were taken, and the share with {1 - DOUBT:.0%} "
          f"confidence\n(Clopper-Pearson); seed {arguments[0]}. flips: that many different bits "
          "of 2080 are flipped. burst: of that\nmany bits in a row, the first and the last are "
          "flipped, and the others at random.")


if __name__ == "__main__":
    as_program(main, r"(\d+ \d+)?")
