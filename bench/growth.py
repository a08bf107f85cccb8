"""Shows how the cost grows with packets, with variables that are set, and with senders.

    make growth                       prints a table; fails if bench/growth.svg shows other figures
    python3 -m bench.growth --draw    draws bench/growth.svg again, as make pages does

The cost of packets is in instructions of udpserver on amd64. The cost of variables and senders is
in cycles of the library on an ATmega328P. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench import cost, figures, instructions
from sim.machine import load
from sim.model import REQUEST, heartbeat
from sim.targets import say_strangers, strangers

PICTURE = Path(__file__).with_name("growth.svg")
POINTS = (0, 16, 32, 48, 64)
PACKETS = (0, 250, 500, 750, 1000)
Curve = list[tuple[int, int]]
WIDTH, HEIGHT, LEFT, TOP, GAP = 230, 170, 60, 40, 90  # of a panel, and around it, in px
COLOURS = ("#2f81f7", "#d9822b")  # readable on white and on black


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
    """The cost of the most expensive of 64 heartbeats, which come from a number of senders in
    turn."""
    machine, curve = load("ATmega328P"), Curve()
    for count in POINTS[1:]:
        curve.append((count, max(cost.process(machine, heartbeat(number, number % count, 9)).cost
                                 for number in range(64))))
    machine.close()
    return {"heartbeat": curve}


def panel(left: int, title: str, axis: str, curves: dict[str, Curve]) -> list[str]:
    most_x = max(x for curve in curves.values() for x, _ in curve)
    most_y = max(y for curve in curves.values() for _, y in curve)
    bottom = TOP + HEIGHT
    lines = [f'<text x="{left}" y="{TOP - 14}">{title}</text>',
             f'<path d="M{left} {TOP}V{bottom}H{left + WIDTH}" stroke="currentColor" fill="none"/>',
             f'<text x="{left - 6}" y="{TOP + 5}" text-anchor="end">{most_y}</text>',
             f'<text x="{left - 6}" y="{bottom}" text-anchor="end">0</text>',
             f'<text x="{left + WIDTH}" y="{bottom + 18}" text-anchor="end">{most_x} {axis}</text>']
    for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
        points = [(left + WIDTH * x / most_x, bottom - HEIGHT * y / most_y) for x, y in curve]
        lines.append('<polyline points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                     + f'" stroke="{colour}" stroke-width="2" fill="none"/>')
        x, y = points[-2]
        y += 18 if y < TOP + 20 else -8  # below the line if the title is near
        lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" fill="{colour}">{name}</text>')
    return lines


def draw(panels: dict[tuple[str, str], dict[str, Curve]]) -> str:
    size = LEFT + len(panels) * (WIDTH + GAP), TOP + HEIGHT + 30
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
             'font-family="sans-serif" font-size="13" fill="#808080" color="#808080">']
    for number, ((title, axis), curves) in enumerate(panels.items()):
        lines += panel(LEFT + number * (WIDTH + GAP), title, axis, curves)
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    if sys.argv[1:] not in ([], ["--draw"]):
        raise SystemExit("usage: python3 -m bench.growth [--draw]")
    panels = {("udpserver, instructions", "heartbeats"): by_packets(),
              ("ATmega328P, cycles", "variables set"): by_variables(),
              ("ATmega328P, cycles", "senders"): by_senders()}
    table: dict[str, dict[str, object]] = {
        f"{title}: {name}, by number of {axis}": {str(x): y for x, y in curve}
        for (title, axis), curves in panels.items() for name, curve in curves.items()}
    for name, curve in table.items():
        print(f"{name}:\n   " + "".join(f"{f'{x}: {y}':>14}" for x, y in curve.items()))
    figures.keep("growth", table)
    say_strangers(not_compared := strangers())
    if not not_compared:
        figures.keep_picture(PICTURE, draw(panels), again=bool(sys.argv[1:]))


if __name__ == "__main__":
    main()
