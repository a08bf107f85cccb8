"""Computes the time and energy of a packet on AVR from the bounds of `make figures ONLY=worst`.

    make figures ONLY=energy

This is a model, not a measurement: cycles times the data sheet's current per MHz, for the core
alone. SPDX-License-Identifier: MIT"""

from bench.processors.targets import TARGETS
from bench.worst import KINDS, bounds
from tests.support.programs import as_program

MHZ = 16
# The current of an ATmega328P that is active at 8 MHz and 5 V, in mA: typical and the most. From
# the DC characteristics in its data sheet.
TYPICAL, MOST = 5.2, 9.0
NJ = 5 / 8  # nJ of a cycle for each mA


def interval(low: float, high: float, digits: int) -> str:
    ends = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return ends[0] if ends[0] == ends[1] else "-".join(ends)


def main() -> None:
    row = "{:<15}" + "{:>9}{:>11}{:>11}{:>10}{:>11}{:>15}"
    print(row.format("", *KINDS))
    table: dict[str, dict[str, str]] = {}
    for target in TARGETS.values():
        if target.machine != "Avr":
            continue
        cycles = bounds(target.name)["cycles"]
        table[f"{target.name} µs"] = {kind: interval(low / MHZ, high / MHZ, 2)
                                       for kind, (low, high) in cycles.items()}
        if target.name == "ATmega328P":
            table["ATmega328P nJ"] = {kind: interval(low * TYPICAL * NJ, high * MOST * NJ, 0)
                                      for kind, (low, high) in cycles.items()}
    for name, cells in table.items():
        print(row.format(name, *(cells[kind] for kind in KINDS)))
    print(f"µs at {MHZ} MHz. nJ: a model of the core alone. The lower figure is the fewest cycles, "
          f"at\n{TYPICAL * NJ:.2f} nJ each ({TYPICAL} mA at 8 MHz and 5 V, typical at 25 °C). The "
          f"upper one is the most\ncycles, at {MOST * NJ:.3f} nJ each ({MOST:g} mA, the most that "
          "any chip takes).")


if __name__ == "__main__":
    as_program(main)
