"""Prints what is proved of the machine code on AVR.    make figures ONLY=paths

Each path is followed on every chip, and proved: see agent.py and watch.py."""

import argparse
from concurrent.futures import ProcessPoolExecutor

from proof.avr import agent, watch
from tools.processors.targets import TARGETS
from tools.programs import as_program

CHIPS = [target.name for target in TARGETS.values() if target.machine == "Avr"]
EXPLAINED = """\
Cycles without the hooks: the least and the most that any packet takes, whatever the table
holds. stack: the most bytes, with return addresses. Each path is proved to do what SPEC.md says.
look: dumpulse_watch(), for a line whose state does not change; change: for one whose state does;
rest: for all but its lines; deep: its stack. Each path is proved to do what dumpulse_watch.h says.\
"""


def show(limits: tuple[int, int]) -> str:
    return str(limits[0]) if limits[0] == limits[1] else f"{limits[0]}-{limits[1]}"


def print_agents(pool: ProcessPoolExecutor, chips: list[str]) -> None:
    row = "{:<11}{:>7}" + "{:>11}" * len(agent.KINDS) + "{:>7}" + "{:>8}" * 3 + "{:>6}"
    print(row.format("target", "paths", *agent.KINDS, "stack", "look", "change", "rest", "deep"),
          flush=True)
    # All watches in one process: most of what z3 is asked is the same on all chips. See ANSWERS.
    watches = pool.submit(watch.follow_all, chips)
    for number, (chip, found) in enumerate(zip(chips, pool.map(agent.follow, chips), strict=True)):
        watched = watches.result()[number]
        cells = [cell for _, limits, stack in (found, watched)
                 for cell in (*map(show, limits), stack)]
        print(row.format(chip, found[0] + watched[0], *cells), flush=True)
    print(EXPLAINED)


def main() -> None:
    parser = argparse.ArgumentParser(prog="proof.avr", description=(__doc__ or "").split("  ")[0])
    parser.add_argument("--chip", action="append", choices=CHIPS,
                        help="only this chip (repeatable); default: all")
    chips = parser.parse_args().chip or CHIPS
    with ProcessPoolExecutor() as pool:
        print_agents(pool, chips)


if __name__ == "__main__":
    as_program(main, ".*")
