"""Shows how many ways to flip bits of a valid heartbeat give another valid one.

    make figures ONLY=bits

distances.c computes the counts. For up to 4 flips, fewbits.c tries each way, and must find the
same."""

from math import comb

from bench.reliability.programs import BITS, HEARTBEATS, by_flips, searched, stored_rows
from spec.model import heartbeat
from tools.programs import as_program

SHOWN = 12  # flips: CRC-32 lets some of these through, too
ROW = "{:>5}{:>16,}{:>10.1e}{:>14,}{:>10.1e}"


def main() -> None:
    adler, crc = by_flips(stored_rows("adler")), by_flips(stored_rows("crc"))
    for count, (mistaken, *_) in searched().items():
        if adler[count] != mistaken:
            raise SystemExit(f"{count} flips: {adler[count]} counted, but {mistaken} found")
    print("flips        Adler-32     share        CRC-32     share")
    for count in range(1, SHOWN + 1):
        errors = comb(BITS, count) * HEARTBEATS
        print(ROW.format(count, adler[count], adler[count] / errors, crc[count],
                         crc[count] / errors))
    print("share: of all ways to flip that many of the 64 bits, in all 2^22 heartbeats\n")
    distance = min(count for count in adler if adler[count])
    first_of_two, second_of_two = heartbeat(2, 2, 2), heartbeat(3, 0, 3)
    if (int.from_bytes(first_of_two) ^ int.from_bytes(second_of_two)).bit_count() != distance:
        raise SystemExit("the example does not have the Hamming distance")
    print(f"Hamming distance: {distance} with Adler-32, "
          f"{min(count for count in crc if crc[count])} with CRC-32. Two heartbeats that differ in "
          f"{distance} bits:\n{first_of_two.hex(' ')} and {second_of_two.hex(' ')}")
    print("\n       share for         UDP's     flips in all, if each byte has a parity bit, too\n"
          "flips  another variable  sum kept             2            4            6            8")
    for count, (mistaken, same_variable, words, *parity) in searched().items():
        share = f"{(mistaken - same_variable) / mistaken:.0%}" if mistaken else "-"
        print(f"{count:>5}{share:>18}{words:>10}  " + "".join(f"{pairs:>13,}" for pairs in parity))


if __name__ == "__main__":
    as_program(main)
