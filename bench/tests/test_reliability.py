"""Compares the counts of pairs.c with plain counting, where that is possible, and with zlib."""

import zlib
from collections import Counter
from itertools import combinations, product

import pytest

from bench import reliability
from bench.reliability import (BITS, HEARTBEATS, all_pairs, by_burst, by_flips, pairs_rows,
                               searched)
from spec.model import MAGIC, heartbeat

pytestmark = pytest.mark.slow


def number(packet: bytes) -> int:
    return int.from_bytes(packet, "big")


def on_the_line(difference: int, order: str) -> int:
    """The same bits in the order of sending: the first one is the highest."""
    if order == "high":
        return difference
    return number(bytes(int(f"{byte:08b}"[::-1], 2) for byte in difference.to_bytes(8, "big")))


@pytest.mark.parametrize("widths", [(6, 1, 2), (1, 8, 0), (1, 0, 8), (3, 3, 3), (0, 0, 0)])
def test_distances_against_plain_counting(widths: tuple[int, int, int]) -> None:
    """Counts all pairs of heartbeats whose fields have only a few bits, by zlib's Adler-32."""
    packets = [number(heartbeat(*fields))
               for fields in product(*(range(2**width) for width in widths))]
    differences = [one ^ other for one, other in combinations(packets, 2)]
    rows = pairs_rows(*map(str, widths))
    flips = Counter(difference.bit_count() for difference in differences)
    assert by_flips(rows) == {count: 2 * flips[count] for count in range(1, BITS + 1)}
    for order in ("high", "low"):
        lengths = Counter[int]()
        for difference in differences:
            line = on_the_line(difference, order)
            lengths[line.bit_length() - (line & -line).bit_length() + 1] += 1
        assert by_burst(rows, order) == {length: 2 * lengths[length] for length in range(1, 33)}


def test_every_pair_is_counted_once() -> None:
    assert sum(by_flips(all_pairs()).values()) == HEARTBEATS * (HEARTBEATS - 1)


def test_crc_detects_nine_flips() -> None:
    """By zlib's CRC-32 of all masks with up to ten bits; each burst of 32 bits is known to be
    detected."""
    zero = zlib.crc32(bytes((MAGIC, 0, 0, 0)))
    assert min(mask.bit_count() + (zlib.crc32((MAGIC << 24 | mask).to_bytes(4, "big")) ^ zero)
               .bit_count() for mask in range(1, HEARTBEATS) if mask.bit_count() <= 10) == 10


def test_the_lines() -> None:
    for rate in reliability.RATES:
        assert reliability.parity(rate) < reliability.bare(rate) \
            and reliability.udp(rate) < reliability.bare(rate)
    for flips, (mistaken, same_variable, words, *parity) in searched().items():
        assert sum(parity) == mistaken and same_variable <= mistaken and words <= mistaken, flips
