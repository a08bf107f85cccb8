"""The public status page: the parts that the configuration names, and how each is. It has no names
of agents, no addresses and no values, and everybody may read it."""

import enum
import html
import math
import time
from collections.abc import Mapping

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.table import Rows
from dumpulse_fleet.record.uptime import DAY, STATUS_DAYS, Share
from dumpulse_fleet.web.view import Marks, View

FREE = ("/status", "/wall.css", "/favicon.svg")  # No password protects them if there is a page.
FRESH_S = 120.0  # s after the last report of all agents until states are unknown.


class How(enum.Enum):
    """From good to bad: words, and the state whose colour and shape it has."""

    WORKS = "works", State.ALIVE
    PLANNED = "is being worked on", State.PENDING
    UNKNOWN = "is not known", State.UNKNOWN
    PARTLY = "works in part", State.LATE
    DOWN = "does not work", State.UNREACHABLE


def how(view: View, rows: Rows, marks: Marks, sees: bool) -> How:
    """Never better than what the fleet sees itself."""
    states = view.table.agent_state[rows]
    bad = states >= State.LATE
    if not (sees and len(rows)):
        return How.UNKNOWN
    if not marks.muted[rows][bad].all():
        return How.DOWN if bad.all() else How.PARTLY
    if (states[~bad] > State.ALIVE).any():
        return How.UNKNOWN
    return How.PLANNED if bad.any() else How.WORKS


def bars(name: str, days: Mapping[int, Share], now: float) -> str:
    """A bar for each of the last days, and how much of what was seen was well, never rounded up."""
    cells = []
    for day in range(int(now // DAY) - STATUS_DAYS + 1, int(now // DAY) + 1):
        date = time.strftime("%Y-%m-%d", time.gmtime(day * DAY))
        seen, well = days.get(day, Share())
        state = "nothing" if not seen else "alive" if well > 0.9999 * seen else \
            "late" if well > 0.99 * seen else "unreachable"
        cells.append(f'<i class="{state}" title="{date}: {percent(seen, well)}"></i>')
    label = f"{name}: {percent(*map(sum, zip(*days.values(), Share())))} of {STATUS_DAYS} days"
    return f'<small>{html.escape(label.removeprefix(f"{name}: "))}</small><span class="beats" ' \
        f'role="img" aria-label="{html.escape(label)}">{"".join(cells)}</span>'


def percent(seen: float, well: float) -> str:
    return f"{math.floor(1e4 * well / seen) / 100:.2f} % well" if seen else "not seen"


def page(view: View, days: Mapping[str, Mapping[int, Share]], marks: Marks, ready: bool) -> str:
    now = time.time()
    sees = ready and now - view.table.newest() < max(FRESH_S, 3 * view.period)
    parts = [(name, how(view, rows, marks, sees)) for name, rows in view.parts]
    order = list(How)
    worst = max((part for _, part in parts), key=order.index)
    fine = sum(part is How.WORKS for _, part in parts)
    title = "Everything works" if worst is How.WORKS else f"{fine} of {len(parts)} work"
    items = "".join(
        f'<li class="{part.value[1].words.replace(" ", "-")}"><i class="shape"></i> '
        f"<b>{html.escape(name)}</b> {part.value[0]} {bars(name, days.get(name, {}), now)}</li>"
        for name, part in parts)
    clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="30">
<link rel="icon" href="favicon.svg"><link rel="stylesheet" href="wall.css"></head>
<body class="status"><main><h1>{title}</h1><ul>{items}</ul><p>As of {clock}.</p></main>
</body></html>
"""
