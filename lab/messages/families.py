"""The counts of counts.tsv as a table for each family.     make figures ONLY=lab-families
SPDX-License-Identifier: MIT"""

import textwrap

from lab.messages import counts
from lab.messages.counts import Count
from lab.messages.machines import MACHINES
from lab.messages.schemes import SCHEMES, Scheme
from tests.support.programs import as_program

HEADS = ("amd64", "M4", "M0+", "AVR")  # of MACHINES
TITLES = {  # formats have tables of their own
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


def row(name: str, step: str, length: int, found: dict[str, Count]) -> str:
    avr = found.get("ATmega328P")
    mark = MARKS.get(avr.chip, "*") if avr else " "
    cells = [short(found[machine].mean) if machine in found else "-" for machine in MACHINES]
    sizes = [f"{size:,}" for size in (avr.flash, avr.ram + avr.stack)] if avr else ["-", "-"]
    return (f"{name:<34}{step:<12}{length or '':>5}" + "".join(f"{cell:>8}" for cell in cells)
            + mark + "".join(f"{size:>7}" for size in sizes))


def rows(scheme: Scheme, known: dict[tuple[str, ...], Count]) -> list[str]:
    lines: list[str] = []
    for step in scheme.steps:
        for length in step.lengths if step.kept else ():
            found = {name: known[key] for name in MACHINES
                     if (key := (scheme.name, scheme.by, step.name, str(length), name)) in known}
            lines.append(row("" if lines else scheme.title, step.name, length, found))
    return lines


def reasons() -> list[str]:
    """Why a scheme is not on every machine, each reason once."""
    found: dict[str, list[str]] = {}
    for scheme in SCHEMES:
        if scheme.without:
            found.setdefault(scheme.without, []).append(scheme.title)
    return [line for reason, titles in found.items() for line in textwrap.wrap(
        f"{'; '.join(titles)}: {reason}.", 96, subsequent_indent="    ")]


def formats(known: dict[tuple[str, ...], Count], message: str,
            target: str) -> list[tuple[str, Count, Count]]:
    """What making and reading a message costs in each; the one that costs the least comes first."""
    each: dict[str, dict[str, Count]] = {}
    for count in known.values():
        step, _, what = count.step.partition("_")
        if (what, count.target) == (message, target):
            each.setdefault(f"{count.scheme}, {count.by}", {})[step] = count
    found = [(name, steps["make"], steps["read"]) for name, steps in each.items()]
    return sorted(found, key=lambda one: one[1].mean + one[2].mean)


def ranking(known: dict[tuple[str, ...], Count]) -> list[str]:
    """Study 3's question: which format is best, and is it best everywhere?"""
    lines = []
    for message in ("heartbeat", "report", "list"):
        for target in MACHINES:
            order, here = formats(known, message, target), formats(known, message, "amd64")
            names = [name for name, _, _ in order]
            other = names != [name for name, _, _ in here if name in names]
            lines.append(f"{f'One {message} on {target}':<31}bytes       make       read       both"
                         + "  not the order of amd64" * other)
            lines += [f"  {name:<24}{make.length:>10,}{make.mean:>11,}{read.mean:>11,}"
                      f"{make.mean + read.mean:>11,}" + f" on {read.chip}" * (read.chip != target)
                      for name, make, read in order]
    return lines


def main() -> None:
    known = counts.read()
    for family, title in TITLES.items():
        print(f"{title}\n{'':<46}{'bytes':>5}" + "".join(f"{name:>8}" for name in HEADS)
              + f"{'flash':>8}{'RAM':>7}")
        for scheme in SCHEMES:
            if scheme.family == family:
                print("\n".join(rows(scheme, known)))
        print()
    print("\n".join(ranking(known)), end="\n\n")
    print("amd64, M4 and M0+: instructions. AVR: cycles, and the flash and the RAM (static and\n"
          "stack) that the step needs there. If a step uses random numbers, its figure is a mean.\n"
          "+: it ran on an ATmega1284P: with what the lab adds to measure it, it does not fit\n"
          "into an ATmega328P. Whether it does alone, `make figures ONLY=lab-fits` says. *: it\n"
          "ran on a simulated AVR with 63 KB of RAM, which nobody makes. -: it was not brought\n"
          "there, for one of these reasons:\n")
    print("\n".join(reasons()))


if __name__ == "__main__":
    as_program(main)
