"""How much of the time agents were well: to the second, of what was seen."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpulse_fleet.model.agents import Agent, Event, Part, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.record.uptime import DAY, SAVE_S, STATUS_DAYS, Days, Uptime, share
from dumpulse_fleet.tests.collecting import flushed, profile
from dumpulse_fleet.web import view

NOW = 1.9e9  # Nothing is too old to be kept at this time.


@pytest.fixture(name="store")
def make_store(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(Store(tmp_path / "events.sqlite", rows=1000)) as store:
        yield store


def table() -> Table:
    one = Table([Agent("a", "127.0.0.1", profile(expect="1-2")), Agent("b", "127.0.0.2",
                                                                       profile(expect="1"))])
    one.agent_state[:] = one.agent_told[:] = one.state[:, :3] = State.ALIVE
    return one


def changed(store: Store, at: float, was: State, now: State, variable: int = -1) -> None:
    store.publish([Event(at, "a", variable, "state", was.words, now.words, 1.0)])


def look(uptime: Uptime, begin: float, end: float) -> None:
    now = begin
    while now < end:
        uptime.look(now, True)
        now += 1
    uptime.look(end, True)


def test_an_agent_that_was_down_for_41_of_its_120_seconds(store: Store) -> None:
    fleet, uptime = table(), Uptime(store)
    look(uptime, NOW - 200, NOW)
    changed(store, NOW - 120.25, State.PENDING, State.ALIVE)
    changed(store, NOW - 80, State.ALIVE, State.UNREACHABLE)
    changed(store, NOW - 39, State.UNREACHABLE, State.ALIVE)
    assert flushed(store)
    own, one, two = view.uptime(uptime.of(fleet, 0, NOW), NOW)
    assert own["variable"] is None and (one["variable"], two["variable"]) == (1, 2)
    assert own["month_seen"] == own["day_seen"] == 120.25
    assert own["month"] == round(100 * 79.25 / 120.25, 5)
    assert one["day_seen"] == 79.25 and one["day"] == 100, "its agent did not answer"


def test_what_was_not_seen_does_not_count(store: Store) -> None:
    """A fleet that was killed, that was blind, or whose clock was set."""
    fleet, first = table(), Uptime(store)
    look(first, NOW - 1000, NOW - 905)  # killed: the last SAVE_S may be missing
    second = Uptime(store)
    look(second, NOW - 800, NOW - 700)
    second.look(NOW - 699, False)
    look(second, NOW - 600, NOW - 500)
    look(second, NOW - 100, NOW)  # the machine stood still before this
    assert flushed(store)
    seen, well = share(second.of(fleet, 1, NOW)[-1], 0)
    assert seen == well and 100 * 3 + 95 - SAVE_S <= seen <= 100 * 3 + 95
    second.look(NOW - 5000, True)  # set back
    second.save()
    assert flushed(store) and len(store.ask("SELECT * FROM seen")) == 5


def test_changes_of_a_variable_and_of_what_was_removed(store: Store) -> None:
    fleet, uptime = table(), Uptime(store)
    look(uptime, NOW - 400, NOW)
    changed(store, NOW - 300, State.ALIVE, State.DEAD, 1)
    changed(store, NOW - 250, State.DEAD, State.ALIVE, 1)
    changed(store, NOW - 260, State.ALIVE, State.LATE, 1)  # the clock was set back
    changed(store, NOW - 200, State.ALIVE, State.UNWATCHED)
    changed(store, NOW - 100, State.PENDING, State.ALIVE)
    assert flushed(store)
    seen = uptime.of(fleet, 0, NOW)
    assert share(seen[-1], 0) == (300, 300) and share(seen[1], 0) == (300, 100)
    assert share(seen[2], NOW - 50) == (50, 50)


def test_events_that_were_deleted_leave_what_is_unknown(store: Store) -> None:
    fleet, uptime = table(), Uptime(store)
    look(uptime, NOW - 3000, NOW)
    for number in range(0, 2000, 2):
        changed(store, NOW - 3000 + number, State.ALIVE, State.DEAD)
        changed(store, NOW - 2999 + number, State.DEAD, State.ALIVE)
    assert flushed(store)
    assert store.is_full
    seen, well = share(uptime.of(fleet, 0, NOW)[-1], 0)
    assert seen <= 3000 and well <= seen


def test_days_of_a_part_of_the_status_page(store: Store) -> None:
    """What each minute adds goes to its day, over a restart and a reload, and not for ever."""
    part, now = Part("all", {"name": "*"}), 20_000 * DAY + 10.0
    known, days = table(), Days(store)
    for minute, (seen, well) in enumerate(((0, 0), (60, 60), (120, 90))):
        known.seen_s[:], known.well_s[:] = seen, well
        days.add(known, [part], now + 60 * minute)
    days.save()
    assert flushed(store)
    again = Days(store)
    again.load()
    assert again.parts == days.parts == {"all": {20_000: (240.0, 180.0)}}
    again.add(known, [part], now + DAY)  # the counters were there before
    known.seen_s += 60
    again.add(known, [part], now + DAY)
    assert again.parts["all"] == {20_000: (240, 180), 20_001: (120, 0)}
    again.add(known, [part], now + STATUS_DAYS * DAY)
    assert [*again.parts["all"]] == [20_001, 20_000 + STATUS_DAYS]
    again.add(table(), [], now + STATUS_DAYS * DAY)
    assert again.parts == {}
