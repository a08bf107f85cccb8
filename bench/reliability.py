"""Counts the damage that the checksum does not detect.

    make figures ONLY=bits             flipped bits that turn a heartbeat into another
    make figures ONLY=bursts           bursts that do so: a burst of n bits flips the first and the
                                       last of them, and any of those between
    make figures ONLY=channels         how often that happens over UART, I2C and UDP
    make figures ONLY=report-damage    damaged reports that a reader accepts

pairs.c counts the pairs of heartbeats. For up to 4 flips, it also tries each way, and must find the
same."""

import random
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from math import comb, exp, lgamma, log, log1p
from pathlib import Path
from zlib import adler32

from tools.programs import as_program, built

HEARTBEATS = 2**22  # all valid ones
BITS = 64  # Length of a heartbeat.
ORDERS = ("high", "low")
Rows = list[list[str]]


def cells(text: str) -> Rows:
    return [line.split("\t") for line in text.splitlines()]


def pairs_rows(*arguments: str) -> Rows:
    """What pairs.c prints."""
    return cells(subprocess.run([built("build/pairs"), *arguments], stdout=subprocess.PIPE,
                                text=True, check=True).stdout)


@cache
def all_pairs() -> Rows:
    return pairs_rows()


@cache
def searched() -> dict[int, list[int]]:
    """What the search of pairs.c found, by the number of flips."""
    return {int(flips): list(map(int, counts))
            for flips, *counts in cells(Path(built("build/search.tsv")).read_text())}


def by_flips(rows: Rows) -> dict[int, int]:
    """The pairs that pairs.c has counted, by the number of bits in which they differ."""
    return {int(row[1]): int(row[2]) for row in rows if row[0] == "flips"}


def by_burst(rows: Rows, order: str) -> dict[int, int]:
    """The pairs by the length of the burst in which they differ. order: which bit of a byte comes
    first, "high" or "low"."""
    return {int(row[2]): int(row[3]) for row in rows if row[:2] == ["burst", order]}


# ---- Flipped bits and bursts

SHOWN = 8  # flips


def print_bits() -> None:
    pairs = by_flips(all_pairs())
    print("                             of another     keep   with parity bits:   flips in all\n"
          "flips       pairs     share    variable  UDP's sum             6               8")
    for count in range(1, SHOWN + 1):
        ways = comb(BITS, count) * HEARTBEATS
        row = f"{count:>5}{pairs[count]:>14,}{pairs[count] / ways:>9.1e}"
        if count in searched():
            mistaken, same_variable, words, *parity = searched()[count]
            if mistaken != pairs[count] or any(parity[:2]):
                raise SystemExit(f"{count} flips: {pairs[count]} counted, but {mistaken} found")
            share = f"{(mistaken - same_variable) / mistaken:.0%}" if mistaken else "-"
            row += f"{share:>11}{words:>11}" + "".join(f"{number:>15,}" for number in parity[2:])
        print(row)
    print("pairs: of heartbeats that differ in that many of the 64 bits. share: of all ways to "
          "flip that\nmany bits, in all 2^22 heartbeats.")


def print_bursts() -> None:
    tables = [by_burst(all_pairs(), order) for order in ORDERS]
    nothing = [length for length in tables[0] if not any(table[length] for table in tables)]
    print("         highest bit first        lowest bit first\n"
          "length         pairs    share         pairs    share")
    for length in tables[0]:
        if length in nothing and length + 1 in nothing:
            continue  # only the last of these rows is printed
        bursts_of_it = (BITS - length + 1) * 2 ** max(length - 2, 0) * HEARTBEATS
        row = "".join(f"{table[length]:>14,} {table[length] / bursts_of_it:>8.1e}"
                      for table in tables)
        name = f"1-{length}" if length == nothing[-1] else str(length)
        print(f"{name:>6}{row}")
    print("share: of all bursts of that length, in all 2^22 heartbeats\n"
          "CAN and I2C send the highest bit of a byte first, UARTs the lowest.")


# ---- Lines that flip bits until one heartbeat is mistaken for another. Bits flip independently of
# each other, and all equally often: the 64 bits of a heartbeat, and the bits of the line's own
# check. Start bits, stop bits and all else in headers never flip. All heartbeats are equally
# likely. What the line's own check refuses is lost.

A_SECOND = 100
YEAR = 365.25 * 86400  # seconds
RATES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)  # Bit error rates.


def bare(rate: float) -> float:
    """The probability that a heartbeat is turned into another."""
    return sum(pairs / HEARTBEATS * rate**count * (1 - rate)**(BITS - count)
               for count, pairs in by_flips(all_pairs()).items())


def beyond_search(rate: float, even: bool = False) -> float:
    """A bound on the probability of more flips than were searched. If `even`, their number must be
    even, so it is one more."""
    return sum(pairs / HEARTBEATS * rate**(count + (count % 2 if even else 0))
               for count, pairs in by_flips(all_pairs()).items() if count > max(searched()))


def parity(rate: float) -> float:
    """A bound for a line with parity: a parity bit must flip, too, for each byte that has an odd
    number of flips."""
    return beyond_search(rate, even=True) + sum(
        pairs / HEARTBEATS * rate**flips for counts in searched().values()
        for flips, pairs in zip((2, 4, 6, 8), counts[3:], strict=True))


def udp(rate: float) -> float:
    """A bound for UDP: if the flips change UDP's checksum, a bit of its field must flip, too."""
    return beyond_search(rate) + sum((words + (mistaken - words) * rate) / HEARTBEATS * rate**flips
                                     for flips, (mistaken, _, words, *_) in searched().items())


def years(probability: float) -> float:
    """The years between two mistaken heartbeats."""
    return 1 / (probability * A_SECOND * YEAR)


def print_channels() -> None:
    print(f"Years between two mistaken heartbeats, if {A_SECOND} are sent a second and bits flip "
          "independently:\n"
          f"{'at least':>44}  at least\n"
          "bits that flip  I2C, UART 8N1       UART 8E1       UDP")
    for rate in RATES:
        print(f"{rate:>14.0e}{years(bare(rate)):>15.1e}{years(parity(rate)):>15.1e}"
              f"{years(udp(rate)):>10.1e}")


# ---- Damaged reports: samples, with new entries and a new error each

TRIALS = 400_000
DOUBT = 0.05  # the probability that an interval does not contain the true share
REPORT_BITS = 8 * 260


def sparse(chance: random.Random) -> bytes:
    """Up to eight variables are set, all in the first 255 ticks, by small numbers."""
    entries = bytearray(256)
    for _ in range(8):
        place = 4 * chance.randrange(64)
        entries[place + 1:place + 4] = (chance.randrange(256), chance.randrange(1, 17),
                                  chance.randrange(16))
    return bytes(entries)


def full(chance: random.Random) -> bytes:
    return chance.randbytes(256)


def flips(chance: random.Random, count: int) -> int:
    """That many different bits."""
    damage = 0
    while damage.bit_count() < count:
        damage |= 1 << chance.randrange(REPORT_BITS)
    return damage


def burst(chance: random.Random, length: int) -> int:
    """The first and the last of that many bits in a row, and some of those between."""
    between = chance.getrandbits(length - 2) << 1
    return (1 << length - 1 | between | 1) << chance.randrange(REPORT_BITS - length + 1)


TABLES = {"sparse table": sparse, "full table": full}
DAMAGES = ((flips, 3), (flips, 4), (flips, 6), (burst, 32), (burst, 64))


def accepted(chance: random.Random, table: Callable[[random.Random], bytes],
             damage: Callable[[random.Random, int], int], amount: int, trials: int) -> int:
    """How many of so many damaged reports have a right checksum."""
    count = 0
    for _ in range(trials):
        entries = table(chance)
        report = adler32(entries) << 2048 | int.from_bytes(entries, "big")
        damaged = (report ^ damage(chance, amount)).to_bytes(260, "big")
        count += adler32(damaged[4:]) == int.from_bytes(damaged[:4], "big")
    return count


def at_most(taken: int, trials: int, probability: float) -> float:
    """The probability that this many or fewer are taken."""
    return sum(exp(lgamma(trials + 1) - lgamma(i + 1) - lgamma(trials - i + 1)
                   + i * log(probability) + (trials - i) * log1p(-probability))
               for i in range(taken + 1))


def crossing(taken: int, trials: int, level: float) -> float:
    """The probability at which `at_most` has fallen to this level. It halves an interval until
    floats are not fine enough to halve it again."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if at_most(taken, trials, middle) > level else (low, middle)
    return high


def interval(taken: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's confidence interval, if not all are taken. It may be too wide, but it
    is never too narrow."""
    low = crossing(taken - 1, trials, 1 - DOUBT / 2) if taken else 0.0
    return low, crossing(taken, trials, DOUBT / 2)


def print_report_damage() -> None:
    print("damage      " + "".join(f"{table:<24}" for table in TABLES).rstrip())
    for damage, amount in DAMAGES:
        row = ""
        for table in TABLES.values():
            chance = random.Random(1)
            count = accepted(chance, table, damage, amount, TRIALS)
            low, high = interval(count, TRIALS)
            row += f"{f'{count}: {low:.1e} to {high:.1e}' if count else f'0: below {high:.1e}':<24}"
        print(f"{damage.__name__} {amount:<6}{row}".rstrip(), flush=True)
    print(f"How many of {TRIALS:,} damaged reports were taken, and the share with {1 - DOUBT:.0%} "
          f"confidence\n(Clopper-Pearson). flips: that many different bits of {REPORT_BITS} are "
          "flipped. burst: of that many\nbits in a row, the first and the last are flipped, and "
          "the others at random.")


PRINTERS = {"bits": print_bits, "bursts": print_bursts, "channels": print_channels,
            "report-damage": print_report_damage}

if __name__ == "__main__":
    as_program(lambda: PRINTERS[sys.argv[1]](), "|".join(PRINTERS))
