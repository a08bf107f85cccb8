"""The counts of counts.tsv as a table for each family.     make lab-table

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from lab import counts
from lab.counts import Count
from lab.schemes import SCHEMES, Scheme
from lab.targets import MACHINES

HEADS = ("amd64", "M4", "M0+", "AVR")  # of MACHINES
TITLES = {
    "check": "Checks, of the 4 bytes of a heartbeat",
    "MAC": "MACs, of the 4 bytes of a heartbeat, with a tag of 8 bytes",
    "hash": "Hash",
    "signature": "Signatures",
    "key agreement": "Key agreement",
    "format": "Formats",
}


def short(number: int) -> str:
    """Six digits say enough of it; counts.tsv has them all."""
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:,.2f} M"


def cells(found: dict[str, Count], what: str) -> list[str]:
    return [short(getattr(found[name], what)) if name in found else "-" for name in MACHINES]


def rows(scheme: Scheme, known: dict[tuple[str, ...], Count]) -> list[str]:
    lines: list[str] = []
    for step in scheme.steps:
        for length in step.lengths:
            found = {name: known[key] for name in MACHINES
                     if (key := (scheme.name, scheme.by, step.name, str(length), name)) in known}
            if found:
                name = scheme.title if not lines else ""
                flash = f"{found['ATmega328P'].flash:,}" if "ATmega328P" in found else "-"
                lines.append(f"{name:<33}{step.name:<12}{length or '':>5}"
                             + "".join(f"{cell:>10}" for cell in cells(found, "mean"))
                             + f"{flash:>8}")
    return lines


def main() -> None:
    known = counts.read()
    for family, title in TITLES.items():
        lines = [line for scheme in SCHEMES if scheme.family == family for line in rows(scheme, known)]
        if lines:
            print(f"{title}\n{'':<45}{'bytes':>5}" + "".join(f"{name:>10}" for name in HEADS)
                  + f"{'flash':>8}")
            print("\n".join(lines) + "\n")
    print("AVR: cycles of an ATmega328P, and the flash that the step needs there. amd64, Cortex-M4 and\n"
          "Cortex-M0+: instructions. What is random: the mean.\n"
          "-: it has not been brought to that machine; lab/schemes.py says why.")


if __name__ == "__main__":
    main()
