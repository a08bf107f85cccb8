"""Shows which checksums the valid heartbeats have.                         make figures ONLY=bias
SPDX-License-Identifier: MIT"""

import zlib
from collections import Counter
from math import log2

from bench.reliability.programs import HEARTBEATS
from spec.model import MAGIC, VARIABLES
from tests.support.programs import as_program


def checksums() -> Counter[int]:
    """Heartbeats of each checksum. If the value is one higher, both sums are one higher."""
    counts: Counter[int] = Counter()
    for variable in range(VARIABLES):
        for sender in range(256):
            first = zlib.adler32(bytes((MAGIC, variable, sender, 0)))
            counts.update(range(first, first + 256 * 0x10001, 0x10001))
    return counts


def bytes_at(counts: Counter[int], position: int) -> Counter[int]:
    """How many heartbeats have each byte at this position, 0 to 3."""
    seen: Counter[int] = Counter()
    for checksum, heartbeats in counts.items():
        seen[checksum >> 24 - 8 * position & 0xFF] += heartbeats
    return seen


def anywhere(counts: Counter[int], byte: int) -> int:
    return sum(heartbeats for checksum, heartbeats in counts.items()
               if byte in checksum.to_bytes(4, "big"))


def main() -> None:
    counts = checksums()
    at = [bytes_at(counts, position) for position in range(4)]
    print("    share of the 2^22 heartbeats that have a byte, by its position in the checksum\n"
          "byte        0        1        2        3  anywhere  published")
    published = {2: "2/3", 6: "1/3"}
    for byte in range(9):
        cells = "".join(f"{seen[byte] / HEARTBEATS:>9.3%}" for seen in at)
        cells += f"{anywhere(counts, byte) / HEARTBEATS:>10.3%}"
        print(f"{byte:>4}{cells}{published.get(byte, ''):>11}".rstrip())
    for name, pick in (("low", min), ("high", max)):
        figures = (pick(seen[byte] for byte in range(256)) for seen in at)
        print(f"{name:>4}{''.join(f'{figure / HEARTBEATS:>9.3%}' for figure in figures)}")
    print("low, high: the smallest and the largest share of any of the 256 byte values\n")
    alike = sum(heartbeats * (heartbeats - 1) for heartbeats in counts.values())
    chance = alike / (HEARTBEATS * (HEARTBEATS - 1))
    print(f"different checksums                          {len(counts):>9,}\n"
          f"most heartbeats with the same checksum       {max(counts.values()):>9,}\n"
          f"probability that two heartbeats share one    {chance:>9.2e} = 2^{log2(chance):.1f}")


if __name__ == "__main__":
    as_program(main)
