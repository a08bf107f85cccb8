"""Draws each reading of a run: a fan that starts late shows, where a mean would hide it.
SPDX-License-Identifier: MIT"""

from collections.abc import Sequence

from bench.charts import COLOURS, WIDTH, Axis, Series, document, panel
from lab.joules.results import IDLE, WORK, Run, Turn

HEIGHT = 360  # pixels
MOST = 4000  # points of each colour: more cannot be told apart


def points(turns: Sequence[Turn], name: str) -> list[tuple[float, float]]:
    """Minutes of all turns so far, and watts: of each reading, or of the turn if it has none."""
    found, begun = [], 0.0
    for turn in turns:
        if turn.turn == name:
            each = turn.readings or ((turn.seconds / 2, turn.joules / turn.seconds),)
            found += [((begun + at) / 60, watts) for at, watts in each]
        begun += turn.seconds
    return found[::-(-len(found) // MOST) or 1]


def chart(run: Run, turns: Sequence[Turn]) -> str:
    """As SVG."""
    series = [Series(name, drawn, COLOURS[number]) for number, name in enumerate((WORK, IDLE))
              if (drawn := points(turns, name))]
    return document(HEIGHT, panel(
        0, 0, WIDTH, HEIGHT, f"Watts, {run.label} with {run.meter}", series,
        Axis("minutes, without what was between the turns", holds=(0.0,)), Axis()))
