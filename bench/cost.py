"""Measures what a packet costs on every target.     make cost

On AVR it counts cycles (simavr's are exact), on other targets instructions (in Unicorn or QEMU).
It counts from the first instruction of dumpulse_process_packet to its return, without the hooks.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

from bench import budgets, figures, size
from sim.machine import Call, Machine, load
from sim.model import REQUEST, heartbeat
from sim.targets import EVERY, Target

EDGES = (0, 1, 127, 128, 255)  # senders and values to try with each variable
# In a table of 0xFF, the second sum grows fastest, so it is reduced most often.
TABLES = (bytes(260), b"\xff" * 260, random.Random(1).randbytes(260))


def process(machine: Machine, packet: bytes, length: int = 8) -> Call:
    machine.write(machine.packet, packet)
    return machine.call("dumpulse_process_packet", machine.agent, machine.packet, length, 0)


def measure(machine: Machine, run: Callable[..., Call] = process) -> dict[str, list[Call]]:
    good = heartbeat(3, 76, 9)
    calls: dict[str, list[Call]] = {
        "heartbeat": [run(machine, heartbeat(variable, edge, 255 - edge))
                      for variable in range(64) for edge in EDGES],
        "report": [],
        "length": [run(machine, good, 7)],
        "magic": [run(machine, heartbeat(3, 76, 9, magic=0xF0))],
        "sum": [run(machine, good[:at] + bytes((good[at] ^ 1,)) + good[at + 1:])
                for at in (0, 1, 2, 3, 6, 7)],
        "variable": [run(machine, heartbeat(64, 76, 9))],
        "request": [run(machine, REQUEST[:at] + b"!" + REQUEST[at + 1:]) for at in range(8)],
    }
    for table in TABLES:
        machine.write(machine.agent, table)
        calls["report"].append(run(machine, REQUEST))
    for kind, expected in (("heartbeat", 1), ("report", 2), ("length", 0), ("magic", 0),
                           ("sum", 0), ("variable", 0), ("request", 0)):
        if any(call.result != expected for call in calls[kind]):
            raise SystemExit(f"{machine.target.key}: wrong result for a {kind}")
    return calls


def check_stack(target: Target, seen: int) -> None:
    """Ends the program if the stack was deeper than the bound of `make size` plus the return
    address that the call of a hook pushes."""
    limit = size.measure(target)[2] + target.return_address
    if seen > limit:
        raise SystemExit(
            f"{target.key}: its stack was {seen} bytes deep, where the bound is {limit}")


def main() -> None:
    measured: budgets.Budgets = {}
    table: dict[str, dict[str, object]] = {}
    row = "{:<13}{:<10}{:>10}{:>11}" + "{:>9}" * 5 + "{:>6}"
    print(f"{'':<44}|{'refused for its':^45}|")
    print(row.format("target", "compiler", "heartbeat", "report", "length", "magic", "sum",
                     "variable", "request", "stack"))
    for name, target in EVERY.items():
        with closing(load(name)) as machine:
            calls = measure(machine)
        cost = {kind: (min(call.cost for call in same), max(call.cost for call in same))
                for kind, same in calls.items()}
        cells = [str(low) if low == high else f"{low}-{high}" for low, high in cost.values()]
        depth = max(call.stack for same in calls.values() for call in same)
        check_stack(target, depth)
        print(row.format(target.name, target.by_here, *cells, depth))
        table[target.key] = dict(zip((*cost, "stack"), (*cells, depth), strict=True))
        measured[target.key] = {kind: cost[kind][1] for kind in ("heartbeat", "report")}
    print("AVR: cycles; others: instructions. The hooks are not counted. request: the packet "
          "differs from\na request in one byte. stack: bytes, from where the caller's stack ends "
          "down to the lowest\nthat was written.")
    figures.keep("cost", table)
    budgets.enforce(measured, ("heartbeat", "report"))


if __name__ == "__main__":
    main()
