"""Measures what keys cost: bytes, RAM, stack, and each packet, on every target.

    make figures ONLY=keyed

It measures as size.py and cost.py do, without the hooks. Who has the master key calls
dumpulse_label_key in the key hook: so this is a part of an agent's bytes, and a column of its own
among what calls cost."""

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bench import size
from spec.keyed import (ASKS, HEARTBEAT, OLD, READER_LABEL, REPORT, WRONG_TAG, Agent, Keys, Number,
                        question)
from tools.processors import budgets
from tools.processors.machine import Keyed, Machine, load, sources
from tools.processors.memory import sections
from tools.processors.targets import TARGETS, Target
from tools.programs import as_program, library_file, scratch

FILE = Path(__file__).with_name("budgets_keyed.tsv")
SOURCE = "dumpulse_keyed.c"  # the files of all roles
# Of each part, the functions that a firmware calls.
PARTS = {
    "agent": ("dumpulse_keyed_process", "dumpulse_keyed_begin", "dumpulse_keyed_next",
              "dumpulse_label_key"),
    "mixed": ("dumpulse_mixed_process", "dumpulse_keyed_begin", "dumpulse_keyed_next",
              "dumpulse_label_key"),
    "node": ("dumpulse_hear", "dumpulse_node_tick"),
    "reader": ("dumpulse_hear", "dumpulse_keyed_request", "dumpulse_keyed_check"),
}
BYTES = (*PARTS, "ram", "stack")
COSTS = ("heartbeat", "wrong", "old", "report", "beacon", "next", "label_key", "hear", "beat")
RAM = """\
#include "dumpulse_keyed.h"
char room[sizeof(dumpulse_keyed) - sizeof(dumpulse)] = {0};
"""


def link(target: Target, objects: list[Path], image: Path, begins: Sequence[str]) -> int:
    """Links these functions and what they need. Returns the bytes of that."""
    target.link(objects, image, f"-Wl,-e,{begins[0]}", "-Wl,-Ttext=0x0",
                *(f"-Wl,-u,{name}" for name in begins),
                *(f"-Wl,--defsym={hook}={address:#x}"
                  for address, hook in size.hooks_of(target, SOURCE).items()))
    return sum(sections(image).values())


def compiled(target: Target, folder: Path) -> list[Path]:
    objects = []
    for source in sources(SOURCE, target):
        objects.append((folder / source).with_suffix(".o"))
        target.compile(library_file(source), objects[-1], "-fstack-usage")
        parts = sections(objects[-1])
        if parts["data"] or parts["bss"]:
            raise SystemExit(f"{target.key}: {source} must have no data and no bss")
    return objects


def measure(target: Target) -> dict[str, tuple[int, int]]:
    """Returns the bytes of each part when it is linked, and a bound on its stack."""
    parts = {}
    with scratch() as folder:
        image, objects = Path(folder) / "part.elf", compiled(target, Path(folder))
        for part, begins in PARTS.items():
            parts[part] = link(target, objects, image, begins), max(
                size.bound(target, objects, image, (SOURCE, begin), False) for begin in begins)
    return parts


def ram(target: Target) -> int:
    """Returns how many bytes an agent needs more than one of version 1."""
    with scratch() as folder:
        source, object_file = Path(folder) / "ram.c", Path(folder) / "ram.o"
        source.write_text(RAM)
        target.compile(source, object_file)
        return sections(object_file)["bss"]


def costs(machine: Machine) -> tuple[dict[str, list[int]], int]:
    """Returns what each kind of packet costs the agent, and how deep its stack was."""
    chance, block = random.Random(1), 0x122
    keyed, machine.keys = Keyed(machine), Keys(chance.randbytes(16))
    machine.stored, agent = Number(block), Agent(machine.keys, Number(block))
    keyed.clear()
    by_kind: dict[str, list[int]] = {kind: [] for kind in COSTS[:7]}
    deepest = keyed.begin().stack
    agent.begin()

    def process(kind: str, expected: int, packet: bytes) -> None:
        nonlocal deepest
        call = keyed.process(0x1234, packet)
        if (call.result, agent.process(0x1234, packet)[0]) != (expected, expected):
            raise SystemExit(f"{machine.target.key}: wrong result for a {kind}: {call.result}")
        by_kind[kind].append(call.cost)
        deepest = max(deepest, call.stack)

    for _ in range(66):  # the last one is in the next epoch
        call = machine.call("dumpulse_keyed_next", machine.agent, 0)
        if not call.result or not agent.next():
            raise SystemExit(f"{machine.target.key}: no epoch has begun")
        by_kind["next"].append(call.cost)
        deepest = max(deepest, call.stack)
    for variable in range(0, 64, 5):
        valid = machine.keys.counted(variable, agent.epoch_of(variable), 1, *chance.randbytes(2))
        for byte in (0, 3, 5, 7):
            process("wrong", WRONG_TAG,
                    valid[:byte] + bytes((valid[byte] ^ 0x80,)) + valid[byte + 1:])
        process("heartbeat", HEARTBEAT, valid)
        process("old", OLD, valid)
        process("beacon", ASKS, question(variable))
    request = machine.keys.counted(READER_LABEL, agent.epoch_of(READER_LABEL), 1, 1, 2)
    process("report", REPORT, request)
    process("beacon", OLD, request)
    for label in (0, 32, READER_LABEL):
        machine.write(keyed.packet, machine.keys.master)
        by_kind["label_key"].append(
            machine.call("dumpulse_label_key", keyed.packet, label, 1).cost)
    return by_kind, deepest


def costs_of_node(machine: Machine) -> dict[str, list[int]]:
    keys = machine.keys = Keys(random.Random(2).randbytes(16))
    node, packet = machine.agent, machine.agent + 16
    machine.write(node, bytes(16))
    by_kind: dict[str, list[int]] = {"hear": [], "beat": []}
    for epoch in (1, 0x123456, 0x1F000000):
        machine.write(packet, keys.beacon(9, epoch))
        call = machine.call("dumpulse_hear", node, 9, packet, 8)
        by_kind["hear"].append(call.cost)
        beat = machine.call("export_keyed_heartbeat", node, packet, 9, 0x4C09)
        by_kind["beat"].append(beat.cost)
        if not call.result or machine.read(packet, 8) != keys.counted(9, epoch, 1, 76, 9):
            raise SystemExit(f"{machine.target.key}: a wrong heartbeat")
    return by_kind


def main() -> None:
    measured: budgets.Budgets = {}
    row = "{:<13}{:<10}" + "{:>7}" * 4 + "{:>5}" * 2
    print(row.format("target", "compiler", *PARTS, "ram", "deep"))
    for target in TARGETS.values():
        both = measure(target)
        it = {part: linked for part, (linked, _) in both.items()}
        it |= {"ram": ram(target), "stack": both["agent"][1]}
        measured[target.key] = it
        print(row.format(target.name, target.by_here, *(it[name] for name in BYTES)))
    row = "{:<13}{:<10}{:>10}{:>7}{:>5}{:>8}{:>8}{:>6}{:>10}{:>6}{:>6}"
    print()
    print(row.format("target", "compiler", *COSTS))
    for name, target in TARGETS.items():
        with closing(load(name, SOURCE)) as machine:
            by_kind, deepest = costs(machine)
            by_kind |= costs_of_node(machine)
        limit = measured[target.key]["stack"] + target.return_address
        if deepest > limit:
            raise SystemExit(f"{target.key}: its stack was {deepest} bytes deep, not {limit}")
        dearest = {kind: max(same) for kind, same in by_kind.items()}
        measured[target.key] |= dearest
        print(row.format(target.name, target.by_here, *(dearest[kind] for kind in COSTS)))
    print(EXPLAINED)
    budgets.enforce(measured, (*BYTES, *COSTS), FILE)


EXPLAINED = """\
Above, bytes of flash that replace the agent of the table `size`: of an agent; of one some of whose
nodes send version 1; of a node, and of a reader. Then bytes of RAM that an agent takes more than
one of version 1; and a bound on the stack, without the hooks. Below, AVR: cycles; others:
instructions; without the hooks. heartbeat: taken. wrong: refused for its tag. old: refused for its
count. beacon: a question, or an old request. next: a label begins its epoch. label_key: what all
but old take more if the key hook makes the key of the label. hear, beat: a node takes a beacon,
makes a heartbeat."""

if __name__ == "__main__":
    as_program(main)
