"""Shows how many bursts of up to 32 bits turn a valid heartbeat into another.

    make figures ONLY=bursts

A burst of n bits flips the first and the last of them, and any of those between."""

from bench.reliability.programs import BITS, HEARTBEATS, by_burst, stored_rows
from tools.programs import as_program

ORDERS = ("high", "low")


def main() -> None:
    adler = [by_burst(stored_rows("adler"), order) for order in ORDERS]
    crc = [by_burst(stored_rows("crc"), order) for order in ORDERS]
    nothing = [length for length in adler[0] if not any(table[length] for table in adler)]
    print("         highest bit first        lowest bit first        both\n"
          "length      Adler-32    share      Adler-32    share      CRC-32")
    for length in adler[0]:
        if length in nothing and length + 1 in nothing:
            continue  # only the last of these rows is printed
        bursts_of_it = (BITS - length + 1) * 2 ** max(length - 2, 0) * HEARTBEATS
        cells = "".join(f"{table[length]:>14,} {table[length] / bursts_of_it:>8.1e}"
                        for table in adler)
        name = f"1-{length}" if length == nothing[-1] else str(length)
        print(f"{name:>6}{cells}{sum(table[length] for table in crc):>12,}")
    print("share: of all bursts of that length, in all 2^22 heartbeats\n"
          "CAN and I2C send the highest bit of a byte first, UARTs the lowest.")


if __name__ == "__main__":
    as_program(main)
