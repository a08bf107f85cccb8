"""Shows how the cost grows with packets, with variables that are set, and with senders.

    make figures ONLY=growth          prints a table; fails if bench/growth.svg shows other figures
    python3 -m bench.growth --draw    draws bench/growth.svg again, as make pages does

The cost of packets is in instructions of udpserver on amd64. The cost of variables and senders is
in cycles of the library on an ATmega328P. SPDX-License-Identifier: MIT"""

import sys
from pathlib import Path

from bench import cost, figures, instructions
from bench.charts import COLOURS, Axis, Series, document, panel
from bench.processors.machine import load
from bench.processors.targets import say_strangers, strangers
from spec.model import REQUEST, heartbeat
from tests.support.programs import as_program

PICTURE = Path(__file__).with_name("growth.svg")
POINTS = (0, 16, 32, 48, 64)
PACKETS = (0, 250, 500, 750, 1000)
Curve = list[tuple[int, int]]
WIDTH, HEIGHT = 340, 280  # of a panel, in pixels


def by_packets() -> dict[str, Curve]:
    return {name: [(count, instructions.more_than_none("amd64", queued, 0, count) if count else 0)
                   for count in PACKETS]
            for name, queued in (("one by one", False), ("queued", True))}


def by_variables() -> dict[str, Curve]:
    """The cost of a heartbeat and of a report while a number of variables are set, each to the
    value ff at the time ffff."""
    machine, curves = load("ATmega328P"), {"report": Curve(), "heartbeat": Curve()}
    for count in POINTS:
        machine.write(machine.agent, bytes(4) + b"\xff" * 4 * count + bytes(4) * (64 - count))
        curves["report"].append((count, cost.process(machine, REQUEST).cost))
        curves["heartbeat"].append((count, cost.process(machine, heartbeat(3, 76, 9)).cost))
    machine.close()
    return curves


def by_senders() -> dict[str, Curve]:
    """The cost of the most expensive of 64 heartbeats, which a number of senders send in turn."""
    machine, curve = load("ATmega328P"), Curve()
    for count in POINTS[1:]:
        curve.append((count, max(cost.process(machine, heartbeat(number, number % count, 9)).cost
                                 for number in range(64))))
    machine.close()
    return {"heartbeat": curve}


def draw(panels: dict[tuple[str, str], dict[str, Curve]]) -> str:
    lines: list[str] = []
    for number, ((title, axis), curves) in enumerate(panels.items()):
        highest = max(y for curve in curves.values() for _, y in curve)
        counts = PACKETS if axis == "heartbeats" else POINTS
        series = [Series(name, curve, colour, line=True)
                  for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False)]
        lines += panel(number * WIDTH, 0, WIDTH, HEIGHT, title, series,
                       Axis(axis, ticks=counts), Axis(ticks=(0, highest)))
    return document(HEIGHT, lines, WIDTH * len(panels))


def main() -> None:
    panels = {("udpserver, instructions", "heartbeats"): by_packets(),
              ("ATmega328P, cycles", "variables set"): by_variables(),
              ("ATmega328P, cycles", "senders"): by_senders()}
    table: dict[str, dict[str, object]] = {
        f"{title}: {name}, by number of {axis}": {str(x): y for x, y in curve}
        for (title, axis), curves in panels.items() for name, curve in curves.items()}
    for name, curve in table.items():
        print(f"{name}:\n   " + "".join(f"{f'{x}: {y}':>14}" for x, y in curve.items()))
    say_strangers(not_compared := strangers())
    if not not_compared:
        figures.keep_picture(PICTURE, draw(panels), again=bool(sys.argv[1:]))


if __name__ == "__main__":
    as_program(main, "(--draw)?")
