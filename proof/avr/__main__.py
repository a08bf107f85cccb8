"""Prints what is proved of the machine code on AVR.    make figures ONLY=paths

Each path is followed on every chip, and proved: see agent.py, watch.py, tags.py and keyed.py."""

import argparse
from concurrent.futures import ProcessPoolExecutor

from proof.avr import agent, keyed, tags, watch
from tools.processors.targets import TARGETS
from tools.programs import as_program

CHIPS = [target.name for target in TARGETS.values() if target.machine == "Avr"]
TAGS = {"tag": tags.TAG, "compared": tags.RIGHT, "report": tags.REPORT_TAG,
        "label's key": tags.LABEL_KEY}
EXPLAINED = """\
Cycles without the hooks: the least and the most that any packet takes, whatever the table
holds. stack: the most bytes, with return addresses. Each path is proved to do what SPEC.md says.
look: dumpulse_watch(), for a line whose state does not change; change: for one whose state does;
rest: for all but its lines; deep: its stack. Each path is proved to do what dumpulse_watch.h says.\
"""
TAGS_EXPLAINED = """\
Cycles of every call, and bytes of stack, without the key hook. tag: of a packet; compared: the same
and the comparison; report: its tag; label's key: from the master key. Each is proved to be
Chaskey-12 of what spec/keyed.md says. No time depends on a key, a label, a packet or a table."""

ROLES = {"asked": keyed.PROCESS, "next": keyed.NEXT, "mixed": keyed.MIXED, "hear": keyed.HEAR,
         "beat": keyed.BEAT}
ROLES_EXPLAINED = """\
The most cycles, with all tags, without the hooks; stack: the most bytes. An agent makes the key of
each label anew. heartbeat: a packet that it does not answer; asked: one that a beacon answers;
next: the next label's epoch; mixed: any packet of version 2, if some nodes send version 1. Nodes:
hear takes a beacon, beat makes a heartbeat. Each path is proved to do what spec/keyed.md says.\
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


def print_keyed(pool: ProcessPoolExecutor, chips: list[str]) -> None:
    row = "{:<11}" + "{:>12}{:>7}" * len(TAGS)
    print(row.format("tags", *(word for name in TAGS for word in (name, "stack"))), flush=True)
    tags.check_definition()
    every = []
    for chip, costs in zip(chips, pool.map(tags.follow, chips), strict=True):
        print(row.format(chip, *(cell for part in TAGS.values() for cell in costs[part])),
              flush=True)
        every.append(costs)
    print(TAGS_EXPLAINED)
    row = "{:<11}{:>7}" + "{:>10}" * (1 + len(ROLES)) + "{:>7}"
    print(row.format("roles", "paths", "heartbeat", *ROLES, "stack"), flush=True)
    for chip, found in zip(chips, pool.map(keyed.follow, chips, every), strict=True):
        print(row.format(chip, sum(role.paths for role in found.values()),
                         found[keyed.PROCESS].silent,
                         *(found[role].cycles for role in ROLES.values()),
                         max(role.stack for role in found.values())), flush=True)
    print(ROLES_EXPLAINED)


def main() -> None:
    parser = argparse.ArgumentParser(prog="proof.avr", description=(__doc__ or "").split("  ")[0])
    parser.add_argument("--chip", action="append", choices=CHIPS,
                        help="only this chip (repeatable); default: all")
    chips = parser.parse_args().chip or CHIPS
    with ProcessPoolExecutor() as pool:
        print_agents(pool, chips)
        print_keyed(pool, chips)


if __name__ == "__main__":
    as_program(main, ".*")
