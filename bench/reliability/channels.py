"""Computes how many years it takes on a line that flips bits until one heartbeat is mistaken for
another.  make figures ONLY=channels

It assumes that bits flip independently of each other, and all equally often. These are the 64 bits
of a heartbeat, and the bits of the line's own check. Start bits, stop bits and all else in headers
never flip. All heartbeats are equally likely. What the line's own check refuses is lost."""

from collections.abc import Iterable
from math import comb

from bench.reliability.programs import BITS, HEARTBEATS, by_flips, searched, stored_rows
from tools.programs import as_program

A_SECOND = 100
YEAR = 365.25 * 86400  # seconds
RATES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)  # Bit error rates.


def chance(rate: float, counts: Iterable[int]) -> float:
    """The probability that a heartbeat is turned into another by a number of flips in `counts`."""
    pairs = by_flips(stored_rows("adler"))
    return sum(pairs[count] / HEARTBEATS * rate**count * (1 - rate)**(BITS - count)
               for count in counts)


def bare(rate: float) -> float:
    return chance(rate, range(1, BITS + 1))


def beyond_search(rate: float, even: bool = False) -> float:
    """A bound on the probability of more flips than were searched. If `even`, their number must be
    even, so it is one more."""
    return sum(pairs / HEARTBEATS * rate**(count + (count % 2 if even else 0))
               for count, pairs in by_flips(stored_rows("adler")).items()
               if count > max(searched()))


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


def main() -> None:
    print(f"Years between two mistaken heartbeats, if {A_SECOND} are sent a second and bits flip "
          "independently:\n"
          f"{'at least':>44}  at least\n"
          "bits that flip  I2C, UART 8N1       UART 8E1       UDP")
    for rate in RATES:
        print(f"{rate:>14.0e}{years(bare(rate)):>15.1e}{years(parity(rate)):>15.1e}"
              f"{years(udp(rate)):>10.1e}")


if __name__ == "__main__":
    as_program(main)
