"""What is kept of agents over a restart and a crash."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Agent, ClockKind, Event, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record import snapshot
from dumpulse_fleet.record.snapshot import Snapshot
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.tests.collecting import profile
from dumpulse_fleet.tests.test_judge import One

WELL = profile(now_from="0", expect="1-3")


def table(names: str = "abc", port: int = 9060) -> Table:
    return Table([Agent(name, f"127.0.0.1:{port}", WELL) for name in names])


def filled(names: str = "abc") -> Table:
    one, draw = table(names), np.random.default_rng(1)
    for name, most in snapshot.ARRAYS.items():
        array = getattr(one, name)
        array[:] = draw.integers(0, min(int(most), 1000) + 1, array.shape)
    return one


def same(one: Table, other: Table, row: int, at: int) -> bool:
    return all((getattr(one, name)[row] == getattr(other, name)[at]).all()
               for name in snapshot.ARRAYS if name != "misses")


@contextlib.contextmanager
def storing(folder: Path) -> Iterator[Store]:
    store = Store(folder / "events.sqlite", say=lambda text: None)
    try:
        yield store
    finally:
        store.close(60)  # the machine may be busy


def save(folder: Path, old: Table) -> None:
    with storing(folder) as store:
        Snapshot(store).save(old)


def load(folder: Path, new: Table) -> str:
    with storing(folder) as store:
        return Snapshot(store).load(new)


def test_all_is_there_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "AT_ONCE", 2)
    old, new = filled("abc"), table("xcb")
    with storing(tmp_path) as store:
        assert Snapshot(store).load(new) == "" and same(new, table(), 0, 0)
        assert Snapshot(store).save(old) == 2 and Snapshot(store).save(old, 2) == 3
    assert load(tmp_path, new) == ""
    assert same(old, new, 1, 2) and same(old, new, 2, 1)
    assert new.reports[0] == 0 and new.agent_state[0] == State.PENDING
    assert (new.misses == 0).all()
    assert abs(new.now() - old.now()) < 0.1


@pytest.mark.parametrize("field", ["entry", "since", "told", "state"])
def test_variables_that_nobody_uses_take_no_room(tmp_path: Path, field: str) -> None:
    old, new = table(), table()
    getattr(old, field)[1, 6] = State.LATE
    assert old.width() == 7
    save(tmp_path, old)
    assert load(tmp_path, new) == "" and same(old, new, 1, 1)
    assert snapshot.form(old, 7).itemsize < snapshot.form(old, 64).itemsize / 3


def test_our_clock_goes_on_after_the_machine_was_started_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = filled()
    monkeypatch.setattr(client, "boot", lambda: "one")
    monkeypatch.setattr(client, "uptime", lambda: 500_000.0)
    monkeypatch.setattr("time.time", lambda: 1e9)
    old.zero = 1e9 - 500_000.0
    save(tmp_path, old)
    for boot, unix, passed in (("two", 1e9 + 300, 300), ("two", 1e9 - 300, 0)):
        monkeypatch.setattr(client, "boot", lambda boot=boot: boot)
        monkeypatch.setattr(client, "uptime", lambda: 40.0)
        monkeypatch.setattr("time.time", lambda unix=unix: unix)
        new = table()
        assert load(tmp_path, new) == ""
        assert new.now() == pytest.approx(1e9 + passed)


def test_an_agent_at_another_place_begins_anew_with_its_clock(tmp_path: Path) -> None:
    save(tmp_path, filled())
    new = table(port=9061)
    assert load(tmp_path, new) == "" and not new.place.any()
    assert (new.kind == ClockKind.NONE).all() and (new.reports == filled().reports).all()


@pytest.mark.parametrize("column, value", [
    ("about", "["), ("about", "[1]"), ("about", '["x", 1, 2, 99]'), ("about", '["x", 1, 2, "x"]'),
    ("data", b""), ("data", b"\xff" * snapshot.form(table(), 64).itemsize)])
def test_a_row_that_makes_no_sense_is_a_new_agent(tmp_path: Path, column: str, value: Any
                                                  ) -> None:
    save(tmp_path, filled())
    with contextlib.closing(sqlite3.connect(tmp_path / "events.sqlite")) as database:
        database.execute(f"UPDATE state SET {column} = ? WHERE agent = 'b'", (value,))
        database.commit()
    new = table()
    assert load(tmp_path, new) == "what was kept of 1 agents makes no sense: they are new"
    assert same(new, table(), 1, 1) and same(new, filled(), 0, 0)


def test_a_clock_that_makes_no_sense(tmp_path: Path) -> None:
    save(tmp_path, filled())
    with contextlib.closing(sqlite3.connect(tmp_path / "events.sqlite")) as database:
        database.execute("UPDATE kept SET value = '{}' WHERE name = 'clock'")
        database.commit()
    new = table()
    assert "so all agents are new" in load(tmp_path, new) and same(new, table(), 0, 0)


def test_rows_that_were_written_at_different_times(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "AT_ONCE", 1)
    old, one = table("ab"), table("ab")
    with storing(tmp_path) as store:
        Snapshot(store).save(old)
        store.publish([Event(time.time(), name, 2, "state", "alive", "dead", 3.0)
                       for name in "ab"])
        old.told[1, 2] = State.LATE  # published later, and lost by the disk
        Snapshot(store).save(old, 1)
    assert load(tmp_path, one) == ""
    assert one.told[:, 2].tolist() == [State.DEAD, State.LATE]


def test_after_a_crash_no_event_is_new_however_many_there_were(tmp_path: Path) -> None:
    """What was published after the rows were copied counts, and nothing from before."""
    words, old, now = ("alive", "dead"), table(), time.time()
    old.told[0, 2], old.since[0, 2] = State.LATE, 4.0
    with storing(tmp_path) as store:
        store.publish([Event(now + 3, "a", 2, "state", "alive", "dead", 3.0)])
        Snapshot(store).save(old)  # its event of LATE was before this, and is not in the store
        store.publish([Event(now + 6, "a", -1, "state", "", "dead", 1),
                       Event(now + 8, "gone", 2, "state", "", "dead", 1),
                       Event(now + 9, "b", 1, "state", "", "what", 1)])
        for first in range(0, 110_000, 10_000):
            assert store.publish([Event(now + number, "c", 3, "state", words[number % 2 - 1],
                                        words[number % 2], 1.0)
                                  for number in range(first, first + 10_000)])
    one = table()
    assert load(tmp_path, one) == ""
    assert one.told[0, 2] == State.LATE and one.since[0, 2] == 4.0
    assert one.agent_state[0] == one.agent_told[0] == State.DEAD and one.agent_since[0] == now + 6
    assert (one.told[1] == State.PENDING).all()
    assert one.state[2, 3] == one.told[2, 3] == State.DEAD and one.since[2, 3] == now + 109_999


def test_what_was_unreachable_when_the_fleet_was_killed_is_so_after_it(tmp_path: Path) -> None:
    """Its row is older, and says that it is alive: that would be a false end of its problem."""
    old, one = table(), table()
    old.agent_state[:] = old.agent_told[:] = old.state[:, 2] = State.ALIVE
    with storing(tmp_path) as store:
        Snapshot(store).save(old)
        store.publish([Event(9.0, "a", 2, "state", "alive", "dead", 3.0),
                       Event(9.0, "a", -1, "state", "alive", "unreachable", 3.0)])
    assert load(tmp_path, one) == ""
    assert one.agent_state[:2].tolist() == [State.UNREACHABLE, State.ALIVE]
    assert one.state[0, 2] == State.UNKNOWN
    assert one.told[0, 2] == State.DEAD


@pytest.mark.parametrize("reports, told", [
    ([{0: (1020, 9, 0), 1: (1019, 8, 7), 5: (1017, 8, 5)}], ["restarted"]),
    ([{0: (9, 9, 0), 1: (8, 9, 7)}, {0: (19, 9, 0), 1: (18, 9, 7)}], ["rebooted"])])
def test_after_a_crash_no_reboot_or_restart_is_new(
        tmp_path: Path, reports: list[dict[int, tuple[int, int, int]]], told: list[str]) -> None:
    """The row of the agent is from before it."""
    names = tmp_path / "names.ini"
    names.write_text("[dumpulse]\nnow-from = 0\n[1]\nboots = 5\n")
    old, one = (One(names=str(names), expect=None) for _ in range(2))
    old.hear(0, {0: (1000, 9, 0), 1: (999, 9, 7), 5: (900, 9, 4)})
    save(tmp_path, old.table)
    old.events.clear()
    for number, report in enumerate(reports, 2):
        old.hear(10 * number, report)
    with storing(tmp_path) as store:
        store.publish([event._replace(at=time.time()) for event in old.events])
    assert load(tmp_path, one.table) == ""
    for number, report in enumerate(reports, 2):
        one.hear(10 * number, report)
    assert [event.what for event in old.events if event.what != "state"] == told
    assert [event for event in one.events if event.what != "state"] == []
    assert one.table.reboots == old.table.reboots
