"""What a packet costs on every target.     make cost

Cycles on AVR (simavr counts them exactly), instructions elsewhere (Unicorn, QEMU); from
the first instruction of dumpulse_process_packet to its return, hooks apart.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import random

from bench import budgets, figures
from sim.machine import Call, Machine, load
from sim.targets import TARGETS
from tests.model import REQUEST, heartbeat

EDGES = (0, 1, 127, 128, 255)  # senders and values to try with each variable
# The second sum is reduced most often where it grows fastest: in a table of 0xFF.
TABLES = (bytes(260), b"\xff" * 260, random.Random(1).randbytes(260))


def process(machine: Machine, packet: bytes, length: int = 8) -> Call:
    machine.write(machine.packet, packet)
    return machine.call("dumpulse_process_packet", machine.agent, machine.packet, length, 0)


def measure(machine: Machine) -> dict[str, list[Call]]:
    good = heartbeat(3, 76, 9)
    calls: dict[str, list[Call]] = {
        "heartbeat": [process(machine, heartbeat(variable, edge, 255 - edge))
                      for variable in range(64) for edge in EDGES],
        "report": [],
        "length": [process(machine, good, 7)],
        "magic": [process(machine, heartbeat(3, 76, 9, magic=0xF0))],
        "sum": [process(machine, good[:at] + bytes((good[at] ^ 1,)) + good[at + 1:])
                for at in (0, 1, 2, 3, 6, 7)],
        "variable": [process(machine, heartbeat(64, 76, 9))],
        "request": [process(machine, REQUEST[:at] + b"!" + REQUEST[at + 1:]) for at in range(8)],
    }
    for table in TABLES:
        machine.write(machine.agent, table)
        calls["report"].append(process(machine, REQUEST))
    for kind, expected in (("heartbeat", 1), ("report", 2), ("length", 0), ("magic", 0),
                           ("sum", 0), ("variable", 0), ("request", 0)):
        if any(call.result != expected for call in calls[kind]):
            raise SystemExit(f"{machine.target.name}: wrong result for a {kind}")
    return calls


def main() -> None:
    measured: budgets.Budgets = {}
    table: dict[str, dict[str, object]] = {}
    row = "{:<12}{:>10}{:>12}" + "{:>9}" * 5 + "{:>6}"
    print("                               |               refused for its             |")
    print(row.format("target", "heartbeat", "report", "length", "magic", "sum", "variable",
                     "request", "stack"))
    for target in TARGETS.values():
        machine = load(target.name)
        calls = measure(machine)
        machine.close()
        cost = {kind: (min(call.cost for call in made), max(call.cost for call in made))
                for kind, made in calls.items()}
        cells = [str(low) if low == high else f"{low}-{high}" for low, high in cost.values()]
        depth = max(call.stack for made in calls.values() for call in made)
        print(row.format(target.name, *cells, depth))
        table[target.name] = dict(zip((*cost, "stack"), (*cells, depth), strict=True))
        measured[target.name] = {kind: cost[kind][1] for kind in ("heartbeat", "report")}
    print("AVR: cycles; others: instructions. Hooks apart. request: like one, but for one byte.\n"
          "stack: bytes from the caller's down to the lowest that was written.")
    figures.keep("cost", table)
    budgets.enforce(measured, ("heartbeat", "report"))


if __name__ == "__main__":
    main()
