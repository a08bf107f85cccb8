"""The counts of counts.tsv as a table for each family.     make figures ONLY=lab-families"""

from lab.messages import counts
from lab.messages.counts import Count
from lab.messages.machines import MACHINES
from lab.messages.schemes import SCHEMES, Scheme
from tools.programs import as_program

HEADS = ("amd64", "M4", "M0+", "AVR")  # Short names of MACHINES.
TITLES = {
    "check": "Checks, of the 4 bytes of a heartbeat",
    "MAC": "MACs, of the 4 bytes of a heartbeat, with a tag of 8 bytes",
    "protocol": "A heartbeat of 4 bytes in other protocols, with their counters",
    "hash": "Hash",
    "signature": "Signatures",
    "key agreement": "Key agreement",
}
MARKS = {"ATmega328P": " ", "ATmega1284P": "+"}  # the chip that ran it; another one: "*"


def short(number: int) -> str:
    """Six digits say enough of it; counts.tsv has them all."""
    millions = number / 1e6
    return f"{number:,}" if millions < 1 else f"{millions:,.{2 if millions < 100 else 0}f} M"


def row(name: str, step: str, length: int, by_machine: dict[str, Count]) -> str:
    avr = by_machine.get("ATmega328P")
    mark = MARKS.get(avr.chip, "*") if avr else " "
    cells = [short(by_machine[name].mean) if name in by_machine else "-" for name in MACHINES]
    sizes = [f"{size:,}" for size in (avr.flash, avr.ram + avr.stack)] if avr else ["-", "-"]
    return (f"{name:<34}{step:<12}{length or '':>5}" + "".join(f"{cell:>8}" for cell in cells)
            + mark + "".join(f"{size:>7}" for size in sizes))


def rows(scheme: Scheme, all_counts: dict[tuple[str, ...], Count]) -> list[str]:
    lines: list[str] = []
    for step in scheme.steps:
        for length in step.lengths if step.kept else ():
            keys = {name: (scheme.name, scheme.by, step.name, str(length), name)
                    for name in MACHINES}
            by_machine = {name: all_counts[key] for name, key in keys.items() if key in all_counts}
            lines.append(row("" if lines else scheme.title, step.name, length, by_machine))
    return lines


def main() -> None:
    all_counts = counts.read()
    for family, title in TITLES.items():
        print(f"{title}\n{'':<46}{'bytes':>5}" + "".join(f"{name:>8}" for name in HEADS)
              + f"{'flash':>8}{'RAM':>7}")
        for scheme in SCHEMES:
            if scheme.family == family:
                print("\n".join(rows(scheme, all_counts)))
        print()
    print("amd64, M4 and M0+: instructions. AVR: cycles, and the flash and the RAM (static and\n"
          "stack) that the step needs there. If a step uses random numbers, its figure is a mean.\n"
          "+: it ran on an ATmega1284P: with what the lab adds to measure it, it does not fit\n"
          "into an ATmega328P. *: it ran on a simulated AVR with 63 KB of RAM, which nobody "
          "makes.\n-: it is assembly for another machine, or that machine has assembly of its own.")


if __name__ == "__main__":
    as_program(main)
