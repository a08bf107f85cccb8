"""Prints what is proved of the machine code on AVR.    make figures ONLY=paths

Each path is followed on every chip, and proved: see agent.py, watch.py and keyed.py.
SPDX-License-Identifier: MIT"""

import argparse
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from bench.processors.targets import TARGETS
from proof.avr import agent, keyed, tags, watch
from tests.support.programs import as_program

CHIPS = [target.name for target in TARGETS.values() if target.machine == "Avr"]
# A chip, and how many nodes may only send.
KEYED_BUILDS = [*((chip, 0) for chip in CHIPS), ("ATmega328P", 32)]

EXPLAINED = """\
Cycles without the hooks: the least and the most that any packet takes, whatever the table
holds. stack: the most bytes, with return addresses. Each path is proved to do what SPEC.md says.
look: dumpulse_watch(), for a line whose state does not change; change: for one whose state does;
rest: for all but its lines; deep: its stack. Each path is proved to do what dumpulse_watch.h says.\
"""
KEYED_EXPLAINED = """\
Cycles without the hooks, as above. 32: with up to 32 nodes that only send. refused: before a tag is
made. wrong: for its tag, or as a number was not stored. beacon: the answer to a refused request.
stop: a tick that begins no epoch. Each path is proved to do what spec/keyed.md says, and each tag
to be Chaskey-12. No tag's time depends on a key, a packet or a table."""


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


def print_agents_with_keys(pool: ProcessPoolExecutor, builds: Iterable[tuple[str, int]]) -> None:
    row = "{:<11}{:>3}{:>6}{:>8}{:>10}{:>10}{:>7}{:>9}{:>9}{:>10}{:>6}{:>6}"
    print(row.format("with keys", "", "paths", "refused", keyed.WRONG, "heartbeat", "report",
                     "beacon", "announce", "tick", "stop", "stack"), flush=True)
    tags.check_definition()
    costs = {}
    for (chip, alone), it in zip(builds, pool.map(keyed.follow, *zip(*builds, strict=True)),
                                 strict=True):
        cells = [show(it.limits[kind]) if kind in it.limits else "" for kind in keyed.KINDS]
        print(row.format(chip, alone or "", it.paths, *cells, it.stack), flush=True)
        costs[chip] = it.tags
    for chip, (one, many) in costs.items():
        print(f"{chip}: every tag of a packet takes {one} cycles, every one of a report {many}")
    print(KEYED_EXPLAINED)


def main() -> None:
    parser = argparse.ArgumentParser(prog="proof.avr", description=(__doc__ or "").split("  ")[0])
    parser.add_argument("--chip", action="append", choices=CHIPS,
                        help="only this chip (repeatable); default: all")
    chips = parser.parse_args().chip or CHIPS
    with ProcessPoolExecutor() as pool:
        print_agents(pool, chips)
        print_agents_with_keys(pool, [build for build in KEYED_BUILDS if build[0] in chips])


if __name__ == "__main__":
    as_program(main)
