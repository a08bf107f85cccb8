"""How agents have been, by the hour and by the minute: over changes, restarts, reloads and days.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dumpulse_fleet.model.agents import State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.past import AGENT, DAY, DAYS, HOUR, KNOWN, WELL, WORST, Past
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.tests import standins
from dumpulse_fleet.web import view

NOON = 20_000 * DAY + 12 * HOUR


@pytest.fixture(name="store")
def make_store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "events.sqlite")
    yield store
    store.close()


def minutes(past: Past, table: Table, begin: float, count: int, agent: State = State.ALIVE,
            variable: State = State.ALIVE) -> float:
    """So many minutes in which agent 1 and its variable 3 are in these states."""
    table.agent_state[1], table.state[1, 3] = agent, variable
    for minute in range(count):
        past.add(table, begin + 60 * minute)
    return begin + 60 * count


def test_hours_and_minutes_count_what_was(store: Store) -> None:
    table = standins.fleet(3)
    past = Past(store, table, NOON)
    now = minutes(past, table, NOON, 60)
    now = minutes(past, table, now, 15, State.DEAD, State.DEAD)
    now = minutes(past, table, now, 30, State.UNREACHABLE, State.UNKNOWN)
    now += 120  # nobody saw these
    now = minutes(past, table, now, 13)
    hours, last = past.of(1, now - 1)
    assert {*hours} == {AGENT, *range(1, 9)} == {*last}
    assert hours[AGENT].shape == (24 * DAYS, 3) and not hours[AGENT][:-2].any()
    assert hours[AGENT][-2].tolist() == [60, 60, State.ALIVE + 1]
    assert hours[AGENT][-1].tolist() == [58, 13, State.UNREACHABLE + 1]
    assert hours[3][-1].tolist() == [28, 13, State.DEAD + 1]
    assert last[AGENT].tolist() == [State.DEAD + 1] * 15 + [State.UNREACHABLE + 1] * 30 \
        + [0, 0] + [State.ALIVE + 1] * 13
    assert past.of(0, now - 1)[0][AGENT][-1].tolist() == [58, 58, State.ALIVE + 1]
    own, third = (next(each for each in view.uptime(hours, last) if each["variable"] == number)
                  for number in (None, 3))
    assert own["day"] == own["month"] == round(100 * 73 / 118, 3) and third["day"] > own["day"]
    assert own["hours"][-3:] == [None, "alive", "unreachable"] and own["minutes"][-14] is None
    assert view.uptime({AGENT: hours[AGENT] * 0}, last)[0]["week"] is None


def test_it_goes_on_over_a_restart_a_reload_and_a_day(store: Store) -> None:
    table = standins.fleet(3)
    past = Past(store, table, NOON)
    now = minutes(past, table, NOON, 60, State.DEAD, State.DEAD)
    past.save()
    assert store.flush()
    again = Past(store, table, now)
    again.load()
    now = minutes(again, table, now, 60)
    fewer = Table([table.agents[2], table.agents[1]])
    fewer.state[:], fewer.agent_state[:] = State.ALIVE, State.ALIVE
    moved = again.moved(fewer, now - 1)
    assert (moved.of(1, now - 1)[1][3] == State.ALIVE + 1).all(), "the last hour"
    tomorrow = (NOON // DAY + 1) * DAY
    moved.add(fewer, tomorrow)
    assert store.flush()
    worst = moved.of(1, tomorrow)[0][3][:, WORST].tolist()
    assert worst[-24:] == [0] * 11 + [State.DEAD + 1, State.ALIVE + 1] + [0] * 10 + [
        State.ALIVE + 1]
    moved.add(fewer, tomorrow + (DAYS + 1) * DAY)
    assert store.flush()
    assert not store.ask("SELECT * FROM past WHERE day <= ?", NOON // DAY)
    store.write(lambda database: database.executemany("UPDATE past SET hours = ?", [
        [wrong] for wrong in (b"x", zlib.compress(b""), zlib.compress(b"\3xx"))]).rowcount)
    assert store.flush()
    Past(store, fewer, tomorrow).load()
    assert not moved.of(0, tomorrow + 5 * DAY)[0][AGENT][:-24].any(), "damage is no information"


@pytest.mark.slow
def test_room_and_time(tmp_path: Path) -> None:
    """30 days of 10,000 agents take what past.py says, and a question takes less than 0.1 s."""
    chance, count = np.random.default_rng(1), 1000
    store, table = Store(tmp_path / "events.sqlite"), standins.fleet(count)
    for day in range(DAYS):
        past = Past(store, table, NOON - day * DAY)
        past._today[:] = 60, 60, State.ALIVE + 1
        bad = chance.random(past._today.shape[:2]) < 0.01
        past._today[bad, WORST] = State.DEAD + 1
        past._today[bad, WELL] = chance.integers(0, 60, bad.sum())
        past.save()
    assert store.flush(60)
    begun = time.process_time()
    hours, _ = past.of(7, NOON)
    took = time.process_time() - begun
    assert hours[AGENT][-24:, KNOWN].all() and took < 0.1
    store.close()
    size = (tmp_path / "events.sqlite").stat().st_size * 10_000 / count / 1e6
    print(f"\n30 days of 10,000 agents with 8 variables: {size:.0f} MB; {1000 * took:.0f} ms")
    assert 10 < size < 60
