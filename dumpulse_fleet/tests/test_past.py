"""Points of the last hours: compared with plain lists; over changes and restarts."""

import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dumpulse_fleet.model.agents import Agent, Event, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.past import MOST_BYTES, NOTHING, Past
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import profile

HOUR = 3600
NOON = 20_000 * 86_400 + 12 * HOUR


@pytest.fixture(name="store")
def make_store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "events.sqlite")
    yield store
    store.close()


def table(names: list[str], watched: int = 5) -> Table:
    shared = profile(expect=f"0-{watched - 1}")
    return Table([Agent(name, "127.0.0.1", shared) for name in names])


def lists(past: Past, row: int, variable: int) -> list[tuple[float, int, int]]:
    times, values, states = past.of(row, variable)
    return list(zip((times - NOON).tolist(), values.tolist(), states.tolist()))


# ---------------------------------------------------------------- points
@pytest.mark.parametrize("most_bytes, step", [(10_000, 1), (4500, 2), (2500, 4), (0, 360)])
def test_points_are_what_a_plain_list_says(store: Store, most_bytes: int, step: int) -> None:
    chance, fleet = random.Random(step), table(["a", "b"])
    past = Past(store, fleet, NOON, most_bytes)
    assert past.step == step
    heard: list[tuple[int, int, int]] = []
    for minute in range(500):
        value, state = chance.randrange(256), chance.randrange(8)
        fleet.entry[1, 3], fleet.state[1, 3] = 0xABCD_0500 + value, state
        past.add(fleet, NOON + 60 * minute)
        heard.append((minute, value, state))
    chunks = [heard[each:each + step] for each in range(0, len(heard), step)]
    wanted = [(60.0 * chunk[0][0], chunk[-1][1], max(state for _, _, state in chunk))
              for chunk in chunks][-past.points:]
    assert lists(past, 1, 3) == wanted
    assert len(lists(past, 0, 4)) == len(wanted) and lists(past, 1, 5) == []


def test_a_short_state_counts(store: Store) -> None:
    fleet = table(["a", "b"])
    past = Past(store, fleet, NOON)
    dead = Event(0.0, "b", 3, "state", "dead", "alive", 1.0)
    past.heard([dead])  # before the first point
    fleet.state[:], fleet.agent_state[:] = State.ALIVE, State.ALIVE
    past.add(fleet, NOON)
    assert lists(past, 1, 3) == [(0.0, 0, State.ALIVE)]
    past.heard([dead, dead._replace(agent="x"), dead._replace(variable=63, was="late"),
                dead._replace(variable=-1, was="unreachable"),
                dead._replace(what="rebooted", variable=2),
                dead._replace(was="of no kind", variable=1)])
    assert [lists(past, 1, each)[0][2] for each in range(5)] == [1, 1, 1, State.DEAD, 1]


def test_a_new_configuration_keeps_what_is_still_watched(store: Store) -> None:
    old = table(["a", "b", "c"], watched=5)
    past = Past(store, old, NOON)
    for minute in range(400):
        old.entry[:] = np.arange(3)[:, None] * 80 + minute % 80
        old.state[:] = State.LATE
        past.add(old, NOON + 60 * minute)
    fewer = table(["new", "c", "a"], watched=3)
    new = past.moved(fewer, NOON + 60 * 399)
    assert lists(new, 1, 2) == [(60 * each, 160 + each % 80, State.LATE) for each in range(40, 400)]
    assert lists(new, 2, 0) == [(60 * each, each % 80, State.LATE) for each in range(40, 400)]
    assert {each[2] for each in lists(new, 0, 0)} == {NOTHING} and lists(new, 1, 4) == []
    new.add(fewer, NOON + 60 * 400)
    assert lists(new, 1, 2)[-2:] == [(60 * 399, 160 + 399 % 80, State.LATE), (60 * 400, 0, 2)]
    young = Past(store, old, NOON)
    young.add(old, NOON)
    assert lists(young.moved(old, NOON), 1, 2) == lists(young, 1, 2) != []
    past._most_bytes = 9000  # from here on, there is room for points of 2 minutes
    coarse = past.moved(old, NOON + 60 * 399)
    assert coarse.step == 2 and lists(coarse, 2, 2) == [
        (60 * each, 160 + each % 80, State.LATE) for each in range(40, 400, 2)]
    assert not past.moved(table([]), NOON + 60 * 399)._recent.size


# ---------------------------------------------------------------- over restarts
def test_it_goes_on_over_a_restart(store: Store) -> None:
    fleet = fakes.fleet(3)
    past, fleet.state[1, 3] = Past(store, fleet, NOON), State.DEAD
    for minute in range(60):
        past.add(fleet, NOON + 60 * minute)
    past.save()
    assert store.flush()
    again = Past(store, fleet, NOON + HOUR, 9000)
    again.load()
    assert again.step == 3 and {each[2] for each in lists(again, 1, 3)[:20]} == {State.DEAD}
    again = Past(store, fleet, NOON + HOUR)
    again.load()
    assert lists(again, 1, 3)[:60] == lists(past, 1, 3)
    again.add(fleet, NOON + HOUR, sees=False)
    assert lists(again, 1, 3)[-1][2] == NOTHING


def test_damage_does_no_harm(store: Store) -> None:
    """What cannot be used is as if it was not there."""
    fleet, chance = fakes.fleet(3), random.Random(1)
    past = Past(store, fleet, NOON)
    past.add(fleet, NOON)
    past.save()
    assert store.flush()
    good = zlib.decompress(store.ask("SELECT points FROM recent")[0][0])
    for _ in range(30):
        wrong = bytearray(good)
        wrong[chance.randrange(10)] = chance.randrange(256)
        data = zlib.compress(wrong[:chance.choice((len(wrong), chance.randrange(len(wrong))))])
        store.write(lambda database: database.execute(
            "UPDATE recent SET points = ?", [data[chance.randrange(2):]]).rowcount).result()
        Past(store, fleet, NOON).load()


# ---------------------------------------------------------------- what it takes
def test_memory(store: Store) -> None:
    """The figures of past.py."""
    small, large = (Past(store, table([str(each) for each in range(count)], 16), NOON)
                    for count in (10_000, 50_000))
    assert small.points == 180 and small.step == 2 and 61e6 <= small._recent.nbytes < 62e6
    assert large._recent.nbytes <= MOST_BYTES and large.step * large.points >= 360
