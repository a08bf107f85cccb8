"""Measures what a packet costs on every target.

    make figures ONLY=cost
    python3 -m bench.cost --quick    by the compilers that make test has

On AVR it counts cycles (simavr's are exact), on other targets instructions (in Unicorn or QEMU).
It counts from the first instruction of dumpulse_process_packet to its return, without the hooks."""

import random
import sys
from collections.abc import Callable
from contextlib import closing

from bench import size
from spec.model import REQUEST, heartbeat
from spec.watch import ALIVE, DEAD, LATE, MISSING, OUT_OF_RANGE, WAITING, line
from tools.processors import budgets
from tools.processors.machine import Call, Machine, Watching, load
from tools.processors.targets import EVERY, Target, chosen
from tools.programs import as_program

EDGES = (0, 1, 127, 128, 255)  # senders and values to try with each variable
# In a table of 0xFF, the second sum grows fastest, so it is reduced most often.
TABLES = (bytes(260), b"\xff" * 260, random.Random(1).randbytes(260))


def process(machine: Machine, packet: bytes, length: int = 8) -> Call:
    machine.write(machine.packet, packet)
    return machine.call("dumpulse_process_packet", machine.agent, machine.packet, length, 0)


def measure(machine: Machine, run: Callable[..., Call] = process) -> dict[str, list[Call]]:
    valid = heartbeat(3, 76, 9)
    calls: dict[str, list[Call]] = {
        "heartbeat": [run(machine, heartbeat(variable, edge, 255 - edge))
                      for variable in range(64) for edge in EDGES],
        "report": [],
        "length": [run(machine, valid, 7)],
        "magic": [run(machine, heartbeat(3, 76, 9, magic=0xF0))],
        "sum": [run(machine, valid[:byte] + bytes((valid[byte] ^ 1,)) + valid[byte + 1:])
                for byte in (0, 1, 2, 3, 6, 7)],
        "variable": [run(machine, heartbeat(64, 76, 9))],
        "request": [run(machine, REQUEST[:byte] + b"!" + REQUEST[byte + 1:]) for byte in range(8)],
    }
    for table in TABLES:
        machine.write(machine.agent, table)
        calls["report"].append(run(machine, REQUEST))
    for kind, expected in (("heartbeat", 1), ("report", 2), ("length", 0), ("magic", 0),
                           ("sum", 0), ("variable", 0), ("request", 0)):
        if any(call.result != expected for call in calls[kind]):
            raise SystemExit(f"{machine.target.key}: wrong result for a {kind}")
    return calls


def unchanged(machine: Machine) -> tuple[list[int], int]:
    """What the watch costs for one more variable whose state does not change: in each state, with
    and without a new heartbeat, and when the age of a dead one has wrapped around. And how deep its
    stack was, also when states change."""
    watching, costs = Watching(machine), []
    machine.write(machine.agent, bytes((9,)) * 260)
    watching.start([line(3, late=20, dead=60, grace=200)] * 2, bytes(6))
    call = watching.look(5000)
    if len(call.hooks) != 2:
        raise SystemExit(f"{machine.target.key}: two states should have changed: {call.hooks}")
    deepest = call.stack
    for state, time, since, now, value in (
            (WAITING, 0, 0, 5, 0), (MISSING, 0, 0, 500, 0), (ALIVE, 9, 9, 10, 60),
            (ALIVE, 9, 8, 10, 60), (OUT_OF_RANGE, 9, 9, 10, 9), (OUT_OF_RANGE, 9, 9, 10, 121),
            (LATE, 9, 9, 30, 60), (LATE, 9, 8, 30, 60), (LATE, 9, 8, 30, 9), (LATE, 9, 9, 9, 9),
            (DEAD, 9, 9, 70, 60), (DEAD, 9, 8, 70, 9), (DEAD, 9, 9, 9, 60), (DEAD, 9, 9, 9, 9),
            (DEAD, 9, 9, 30, 60)):
        entry = bytes((0, time, min(time, 1), value))
        machine.write(machine.agent, bytes(4) + 64 * entry)
        totals = []
        for count in (1, 2):
            lines = [line(3, late=20, dead=60, grace=200, lowest=10, highest=120)] * count
            watching.start(lines, bytes((0, since, state)) * count)
            call = watching.look(now)
            if call.hooks:
                raise SystemExit(f"{machine.target.key}: a state has changed: {call.hooks}")
            totals.append(call.cost)
            deepest = max(deepest, call.stack)
        costs.append(totals[1] - totals[0])
    return costs, deepest


def check_stack(target: Target, seen: int, part: tuple[str, str] = size.AGENT) -> None:
    """Ends the program if the stack was deeper than the bound of the table `size` plus the return
    address that the call of a hook pushes."""
    limit = size.measure(target, part)[2] + target.return_address
    if seen > limit:
        raise SystemExit(
            f"{target.key}: its stack was {seen} bytes deep, where the bound is {limit}")


def main() -> None:
    measured: budgets.Budgets = {}
    row = "{:<13}{:<10}{:>10}{:>11}" + "{:>9}" * 5 + "{:>6}{:>7}"
    print(f"{'':<44}|{'refused for its':^45}|")
    print(row.format("target", "compiler", "heartbeat", "report", "length", "magic", "sum",
                     "variable", "request", "stack", "look"))
    measures = chosen(sys.argv[1:])
    for name, target in measures.items():
        with closing(load(name)) as machine:
            calls = measure(machine)
        cost = {kind: (min(call.cost for call in same), max(call.cost for call in same))
                for kind, same in calls.items()}
        cells = [str(low) if low == high else f"{low}-{high}" for low, high in cost.values()]
        depth = max(call.stack for same in calls.values() for call in same)
        check_stack(target, depth)
        with closing(load(name, "dumpulse_watch.c")) as machine:
            looks, depth_of_watch = unchanged(machine)
        check_stack(target, depth_of_watch, size.WATCH)
        print(row.format(target.name, target.by_here, *cells, depth, f"{min(looks)}-{max(looks)}"))
        measured[target.key] = {kind: cost[kind][1] for kind in ("heartbeat", "report")}
        measured[target.key]["look"] = max(looks)
    print("AVR: cycles; others: instructions. The hooks are not counted. request: the packet "
          "differs from\na request in one byte. stack: bytes, from where the caller's stack ends "
          "down to the lowest\nthat was written. look: what the watch takes for one more variable "
          "whose state does not change.")
    budgets.enforce(measured, ("heartbeat", "report", "look"),
                    made_by={target.key: target for target in measures.values()},
                    partly=measures != EVERY)


if __name__ == "__main__":
    as_program(main, "(--quick)?")
