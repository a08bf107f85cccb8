"""Compares the counts of reliability/ with plain counting, where that is possible, and with zlib.
"""

import zlib
from collections import Counter
from itertools import combinations, product

import pytest

from bench.reliability import channels
from bench.reliability.programs import (BITS, HEARTBEATS, by_burst, by_flips, program_rows,
                                        searched, stored_rows)
from spec.model import MAGIC, heartbeat
from tools.programs import built, run

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
    rows = program_rows("distances", *map(str, widths))
    flips = Counter(difference.bit_count() for difference in differences)
    assert by_flips(rows) == {count: 2 * flips[count] for count in range(1, BITS + 1)}
    for order in ("high", "low"):
        lengths = Counter[int]()
        for difference in differences:
            line = on_the_line(difference, order)
            lengths[line.bit_length() - (line & -line).bit_length() + 1] += 1
        assert by_burst(rows, order) == {length: 2 * lengths[length] for length in range(1, 33)}


def test_every_pair_is_counted_once() -> None:
    for code in ("adler", "crc"):
        assert sum(by_flips(stored_rows(code)).values()) == HEARTBEATS * (HEARTBEATS - 1)


def test_both_counts_of_few_flips_agree() -> None:
    pairs = by_flips(stored_rows("adler"))
    found = {flips: mistaken for flips, (mistaken, *_) in searched().items()}
    assert found == {flips: pairs[flips] for flips in (1, 2, 3, 4)}


def test_crc_is_zlibs() -> None:
    """Counts CRC-32's pairs again, from zlib's CRC of masks with few bits, and of all values."""
    zero = zlib.crc32(bytes((MAGIC, 0, 0, 0)))

    def weight(mask: int) -> int:
        changed = zlib.crc32((MAGIC << 24 | mask).to_bytes(4, "big")) ^ zero
        return changed.bit_count() + mask.bit_count()

    weights = Counter(weight(mask) for mask in range(1, HEARTBEATS) if mask.bit_count() <= 10)
    counted = by_flips(stored_rows("crc"))
    # Ten or fewer flips have ten or fewer in the payload, so this finds all of them.
    assert all(counted[count] == HEARTBEATS * weights[count] for count in range(1, 11))
    assert not any(counted[count] for count in range(1, 10)) and counted[10]


def test_the_same_seed_gives_the_same_reports() -> None:
    command = [built("build/reliability/report"), "5", "2000"]
    first = run([*command])
    assert first == run([*command])
    assert len(first.splitlines()) == 36
    assert all(line.split("\t")[3:] == ["0", "2000"] for line in first.splitlines()
               if line.split("\t")[1:3] in (["flips", "1"], ["flips", "2"]))


def test_the_lines() -> None:
    """If half of the bits flip, any packet may come out: one in 2^42 is another heartbeat."""
    assert channels.bare(0.5) == pytest.approx((HEARTBEATS - 1) / 2**64)
    for rate in channels.RATES:
        assert channels.parity(rate) < channels.bare(rate) \
            and channels.udp(rate) < channels.bare(rate)
    for flips, (mistaken, same_variable, words, *parity) in searched().items():
        assert sum(parity) == mistaken and same_variable <= mistaken and words <= mistaken, flips
