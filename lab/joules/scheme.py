"""Counts a scheme that the lab does not have, and makes its image for the power sandwich.

    make lab-scheme DIR=FOLDER [TARGETS=amd64,Cortex-M4,Cortex-M0+]

The folder has api.h with crypto_kem_… or crypto_sign_…, as in PQClean and SUPERCOP. It may be one
in the code of lab/sources.tsv. SPDX-License-Identifier: MIT"""

import argparse

from lab.joules import board
from lab.messages import answer, counts, foreign
from lab.messages.counts import Count
from lab.messages.families import short
from lab.messages.machines import MACHINES
from lab.messages.schemes import NOT_AVR, SCHEMES, Scheme
from tests.support.programs import ROOT, as_program

ROW = "{:<34}{:<10}{:>10}{:>12}{:>12}{:>8}{:>7}{:>8}"


def row(title: str, target: str, steps: tuple[str, ...], found: list[Count]) -> str:
    """The counts of the shortest message; what the largest step needs."""
    means = [min((count for count in found if count.step == step), key=lambda one: one.length,
                 default=None) for step in steps]
    return ROW.format(f"{title:.33}", target, *(short(one.mean) if one else "-" for one in means),
                      *(f"{max(getattr(one, what) for one in found):,}"
                        for what in ("flash", "ram", "stack")))


def beside(scheme: Scheme, measured: list[Count]) -> list[str]:
    """Its row beside those of the same family on the same machines."""
    steps = board.STEPS[scheme.family]
    lines = [ROW.format("", "", *steps, "flash", "RAM", "stack")]
    known = counts.read().values()
    for target in dict.fromkeys(count.target for count in measured):
        own = [count for count in measured if count.target == target]
        lines.append(row(f"{scheme.title}  <--", target, steps, own))
        for other in SCHEMES:
            found = [count for count in known if count.target == target and count.step in steps
                     and (count.scheme, count.by) == (other.name, other.by)]
            if other.family == scheme.family and found:
                lines.append(row(other.title, target, steps, found))
    return lines


def has_room(measured: list[Count]) -> list[str]:
    return [f"{count.step} has no room on the chip of the {count.target}: {over}"
            for count in measured if MACHINES[count.target].flash
            and (over := answer.missing(count, MACHINES[count.target]))]


def image_of(scheme: Scheme) -> str:
    try:
        made = board.build(scheme)
    except SystemExit as why:
        last = str(why).strip().splitlines()[-1]
        return f"No image for the power sandwich: {last}"
    return f"Image for the power sandwich: {made.path.relative_to(ROOT)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make lab-scheme DIR=FOLDER", description=__doc__)
    parser.add_argument("folder", metavar="DIR", help="with api.h")
    parser.add_argument("--targets", default="amd64,Cortex-M4", metavar="NAME,NAME",
                        help=f"of {', '.join(NOT_AVR)}")
    options = parser.parse_args()
    targets = options.targets.split(",")
    if unknown := set(targets) - set(NOT_AVR):
        parser.error(f"no such machine: {', '.join(sorted(unknown))}")
    it = foreign.looked_at(options.folder)
    print(f"{it.name}: {foreign.known_answers(it)}")
    scheme, measured = foreign.scheme_of(it), list[Count]()
    for target in targets:
        try:
            measured += counts.measure_scheme(scheme, target)
        except SystemExit as why:
            print(f"{target}: {why}")
    if not measured:
        raise SystemExit(f"lab: {it.name} runs on none of them")
    print(counts.table(measured), "", *beside(scheme, measured), "", *has_room(measured),
          image_of(scheme), sep="\n")
    print("An AVR is not tried: no scheme with this interface has keys for its 2 KB of RAM.")


if __name__ == "__main__":
    as_program(main, ".*")
