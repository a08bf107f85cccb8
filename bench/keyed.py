"""Measures what keys cost: bytes, RAM, stack, and each packet, on every target.

    make figures ONLY=keyed

It measures as size.py and cost.py do, without the hooks. The agent's key hook gives the master key,
and the nodes' hook gives the keys of labels. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from bench import budgets, size
from spec.keyed import (BEACON_LABEL, HEARTBEAT, OLD, READER_LABEL, REPORT, WRONG_TAG, Agent, Keys,
                        Numbers)
from bench.processors.machine import Keyed, Machine, load
from bench.processors.targets import EVERY, Target
from tests.support.programs import as_program, library_file, scratch

FILE = Path(__file__).with_name("budgets_keyed.tsv")
SOURCE = "dumpulse_keyed.c"
AGENT = ("dumpulse_keyed_process", "dumpulse_keyed_begin", "dumpulse_keyed_tick",
         "dumpulse_keyed_beacon")
# Of each part: the flags of the compiler, and the functions that a firmware calls.
PARTS = {
    "agent": ((), AGENT),
    "with_32": (("-DDUMPULSE_ALONE=32",), AGENT),
    "hears": (("-DDUMPULSE_NODE",), ("dumpulse_hear", "dumpulse_keyed_heartbeat")),
    "sends": (("-DDUMPULSE_NODE",), ("dumpulse_sender_begin", "dumpulse_sender_announce",
                                     "dumpulse_keyed_heartbeat")),
    "reads": (("-DDUMPULSE_LABEL_KEYS",), ("dumpulse_hear", "dumpulse_keyed_request",
                                           "dumpulse_keyed_check")),
}
BYTES = (*PARTS, "ram", "ram_32", "stack")
COSTS = ("heartbeat", "wrong", "old", "report", "beacon", "tick", "hear", "beat")
AVR, M0, TINY = "ATmega328P, gcc 5.4", "Cortex-M0+, gcc 12.2", "ATtiny85, gcc 5.4"
MUSTS = (  # what keys may cost: what, of which target, in which columns, at most
    ("flash more than version 1", AVR, ("agent",), 900),
    ("flash more than version 1", M0, ("agent",), 520),
    ("flash of a node", TINY, ("hears", "sends"), 830),
    ("flash of a node that only sends", TINY, ("sends",), 640),
    ("RAM more than version 1", AVR, ("ram",), 80),
    ("RAM more than version 1", M0, ("ram",), 80),
    ("the same, with 32 nodes that only send", AVR, ("ram_32",), 210),
    ("the same, with 32 nodes that only send", M0, ("ram_32",), 210),
    ("stack", AVR, ("stack",), 170),
    ("a heartbeat, taken or refused", AVR, ("heartbeat", "wrong", "old"), 7000),
    ("a heartbeat, taken or refused", M0, ("heartbeat", "wrong", "old"), 2000),
)
RAM = """\
#include "dumpulse_keyed.h"
char room[sizeof(dumpulse_keyed) - sizeof(dumpulse)] = {0};
"""


def measure(target: Target, part: str) -> tuple[int, int]:
    """Returns the bytes of a part when it is linked, and a bound on its stack."""
    flags, begins = PARTS[part]
    with scratch() as folder:
        object_file, image = Path(folder) / "part.o", Path(folder) / "part.elf"
        target.compile(library_file(SOURCE), object_file, "-fstack-usage", *flags)
        target.link([object_file], image, f"-Wl,-e,{begins[0]}", "-Wl,-Ttext=0x0",
                    *(f"-Wl,-u,{name}" for name in begins),
                    *(f"-Wl,--defsym={hook}={at:#x}" for at, hook in size.HOOKS[SOURCE].items()))
        parts, linked = size.sections(object_file), sum(size.sections(image).values())
        if parts["data"] or parts["bss"]:
            raise SystemExit(f"{target.key}: {SOURCE} must have no data and no bss")
        return linked, max(size.bound(target, object_file, image, (SOURCE, begin), False)
                           for begin in begins)


def ram(target: Target, *flags: str) -> int:
    """Returns how many bytes an agent needs more than one of version 1."""
    with scratch() as folder:
        source, object_file = Path(folder) / "ram.c", Path(folder) / "ram.o"
        source.write_text(RAM)
        target.compile(source, object_file, *flags)
        return size.sections(object_file)["bss"]


def costs(machine: Machine) -> tuple[dict[str, list[int]], int]:
    """Returns what each kind of packet costs the agent, and how deep its stack was."""
    chance, numbers = random.Random(1), {BEACON_LABEL: 0x122}
    keyed, machine.keys = Keyed(machine, 0), Keys(chance.randbytes(16))
    machine.numbers, agent = Numbers(numbers), Agent(machine.keys, Numbers(numbers), 0)
    machine.write(machine.agent, bytes(keyed.size))
    found: dict[str, list[int]] = {kind: [] for kind in COSTS[:6]}
    deepest = 0

    def process(kind: str, expected: int, packet: bytes) -> None:
        nonlocal deepest
        call = keyed.process(0x1234, packet)
        if (call.result, agent.process(0x1234, packet)[0]) != (expected, expected):
            raise SystemExit(f"{machine.target.key}: wrong result for a {kind}: {call.result}")
        found[kind].append(call.cost)
        deepest = max(deepest, call.stack)

    for beginning in ("begin", "tick", "tick"):
        call = machine.call(f"dumpulse_keyed_{beginning}", machine.agent, 0)
        if not call.result or not getattr(agent, beginning)():
            raise SystemExit(f"{machine.target.key}: no epoch has begun")
        found["tick"].append(call.cost)
        deepest = max(deepest, call.stack)
    for variable in range(0, 64, 5):
        good = machine.keys.counted(variable, agent.epoch, 1, *chance.randbytes(2))
        for at in (0, 3, 5, 7):
            process("wrong", WRONG_TAG, good[:at] + bytes((good[at] ^ 0x80,)) + good[at + 1:])
        process("heartbeat", HEARTBEAT, good)
        process("old", OLD, good)
    request = machine.keys.counted(READER_LABEL, agent.epoch, 1, 1, 2)
    process("beacon", OLD, request[:5] + b"\0" + request[6:])
    process("report", REPORT, request)
    return found, deepest


def costs_of_node(machine: Machine) -> dict[str, list[int]]:
    keys = machine.keys = Keys(random.Random(2).randbytes(16))
    node, packet = machine.agent, machine.agent + 16
    machine.write(node, bytes(16))
    found: dict[str, list[int]] = {"hear": [], "beat": []}
    for epoch in (1, 0x123456, 0x3F000000):
        machine.write(packet, keys.beacon(epoch))
        call = machine.call("dumpulse_hear", node, packet, 8)
        found["hear"].append(call.cost)
        beat = machine.call("export_keyed_heartbeat", node, packet, 9, 0x4C09)
        found["beat"].append(beat.cost)
        if not call.result or machine.read(packet, 8) != keys.counted(9, epoch, 1, 76, 9):
            raise SystemExit(f"{machine.target.key}: a wrong heartbeat")
    return found


def musts(measured: budgets.Budgets, version_1: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Returns a line for each must that this compiler can be asked about, and one for each that is
    not kept. Version 1 has these bytes of flash, by target."""
    lines, faults = [], []
    for what, target, columns, most in MUSTS:
        if target in measured:
            found = max(measured[target][column] for column in columns)
            found -= version_1[target] if columns == ("agent",) else 0
            name = f"{what}, {target.partition(',')[0]}"
            lines.append(f"{name:<54}{found:>6}, at most {most:>5}")
            faults += [f"{what}, {target}: {found} must be at most {most}"] * (found > most)
    return ["", "What keys must cost at most:", *lines], faults


def main() -> None:
    measured: budgets.Budgets = {}
    row = "{:<13}{:<10}" + "{:>6}" * 5 + "{:>5}" * 3
    print(row.format("target", "compiler", *("agent", "+32", "hears", "sends", "reads"),
                     *("ram", "+32", "deep")))
    for target in EVERY.values():
        both = {part: measure(target, part) for part in PARTS}
        it = {part: linked for part, (linked, _) in both.items()}
        it |= {"ram": ram(target), "ram_32": ram(target, "-DDUMPULSE_ALONE=32"),
               "stack": both["agent"][1]}
        measured[target.key] = it
        print(row.format(target.name, target.by_here, *(it[name] for name in BYTES)))
    row = "\n".join(["{:<13}{:<10}" + "{:>10}{:>8}{:>6}" + "{:>8}" * 5])
    print()
    print(row.format("target", "compiler", *COSTS))
    for name, target in EVERY.items():
        with closing(load(name, SOURCE)) as machine:
            found, deepest = costs(machine)
        limit = measured[target.key]["stack"] + target.return_address
        if deepest > limit:
            raise SystemExit(f"{target.key}: its stack was {deepest} bytes deep, not {limit}")
        with closing(load(name, SOURCE, "-DDUMPULSE_NODE")) as machine:
            found |= costs_of_node(machine)
        most = {kind: max(same) for kind, same in found.items()}
        measured[target.key] |= most
        print(row.format(target.name, target.by_here, *(most[kind] for kind in COSTS)))
    print(EXPLAINED)
    lines, faults = musts(measured, {target.key: size.measure(target)[1]
                                     for target in EVERY.values() if target.key in (AVR, M0)})
    print(*lines, sep="\n")
    if faults:
        raise SystemExit("\n".join(faults))
    budgets.enforce(measured, (*BYTES, *COSTS), FILE)


EXPLAINED = """\
Above, bytes of flash that replace the agent of the table `size`: of an agent; of one with 32 nodes
that only send; of a node that hears, one that only sends, and a reader. Then bytes of RAM more than
version 1 takes, of both agents; and a bound on the stack, without the hooks. Below, AVR: cycles;
others: instructions; without the hooks. heartbeat: taken. wrong: refused for its tag. old: refused
for its count. beacon: a refused request. hear, beat: a node takes a beacon, makes a heartbeat."""

if __name__ == "__main__":
    as_program(main)
