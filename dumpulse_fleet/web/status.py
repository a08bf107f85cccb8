"""The public status page: the parts that the configuration names, and how each is. It has no names
of agents, no addresses and no values, and everybody may read it."""

import enum
import html
import math
import time
from collections.abc import Sequence

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.table import Rows
from dumpulse_fleet.web.view import Marks, View

FREE = ("/status", "/wall.css", "/favicon.svg")  # what needs no password, if there is a page
FRESH_S = 120.0  # s after the last report of all agents, when nobody knows how they are


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


def uptime(view: View, rows: Rows) -> str:
    """How much of the time that was seen its agents were alive, never rounded up."""
    seen, well = (float(each[rows].sum()) for each in (view.table.seen_s, view.table.well_s))
    return f" <small>alive {math.floor(1e4 * well / seen) / 100:.2f} % of the time that was " \
        "seen</small>" if seen else ""


def page(view: View, parts: Sequence[tuple[str, Rows]], marks: Marks, ready: bool) -> str:
    now = time.time()
    sees = ready and now - view.table.newest() < max(FRESH_S, 3 * view.period)
    found = [(name, how(view, rows, marks, sees)) for name, rows in parts]
    order = list(How)
    worst = max((each for _, each in found), key=order.index)
    fine = sum(each is How.WORKS for _, each in found)
    title = "Everything works" if worst is How.WORKS else f"{fine} of {len(found)} work"
    ups = [uptime(view, rows) for _, rows in parts]
    items = "".join(
        f'<li class="{each.value[1].words.replace(" ", "-")}"><i class="shape"></i> '
        f"<b>{html.escape(name)}</b> {each.value[0]}{up}</li>"
        for (name, each), up in zip(found, ups))
    clock = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="30">
<link rel="icon" href="favicon.svg"><link rel="stylesheet" href="wall.css"></head>
<body class="status"><main><h1>{title}</h1><ul>{items}</ul><p>As of {clock}.</p></main>
</body></html>
"""
