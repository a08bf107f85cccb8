"""How agents have been: compared with plain lists; over changes, restarts, reloads and days."""

import random
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dumpulse_fleet.model.agents import Agent, Event, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.past import (
    AGENT, DAY, DAYS, HOUR, KNOWN, MOST_BYTES, NOTHING, WELL, WORST, Past)
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import profile
from dumpulse_fleet.web import view

NOON = 20_000 * DAY + 12 * HOUR
DEAD, UNREACHABLE, ALIVE = (int(each) + 1 for each in (State.DEAD, State.UNREACHABLE, State.ALIVE))


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


def moved(past: Past, fleet: Table, now: float) -> Past:
    return past.moved(fleet, now, past.earlier(fleet).result())


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
    hours, minutes = past.hours(1, NOON)
    assert (hours[3][-1, WORST], hours[AGENT][-1, WORST]) == (DEAD, UNREACHABLE)
    assert (minutes[3][-1], minutes[AGENT][-1]) == (DEAD, UNREACHABLE)


def test_a_new_configuration_keeps_what_is_still_watched(store: Store) -> None:
    old = table(["a", "b", "c"], watched=5)
    past = Past(store, old, NOON)
    for minute in range(400):
        old.entry[:] = np.arange(3)[:, None] * 80 + minute % 80
        old.state[:] = State.LATE
        past.add(old, NOON + 60 * minute)
    fewer = table(["new", "c", "a"], watched=3)
    new = moved(past, fewer, NOON + 60 * 399)
    assert lists(new, 1, 2) == [(60 * each, 160 + each % 80, State.LATE) for each in range(40, 400)]
    assert lists(new, 2, 0) == [(60 * each, each % 80, State.LATE) for each in range(40, 400)]
    assert {each[2] for each in lists(new, 0, 0)} == {NOTHING} and lists(new, 1, 4) == []
    new.add(fewer, NOON + 60 * 400)
    assert lists(new, 1, 2)[-2:] == [(60 * 399, 160 + 399 % 80, State.LATE), (60 * 400, 0, 2)]
    young = Past(store, old, NOON)
    young.add(old, NOON)
    assert lists(moved(young, old, NOON), 1, 2) == lists(young, 1, 2) != []
    past._most_bytes = 9000  # from here on, there is room for points of 2 minutes
    coarse = moved(past, old, NOON + 60 * 399)
    assert coarse.step == 2 and lists(coarse, 2, 2) == [
        (60 * each, 160 + each % 80, State.LATE) for each in range(40, 400, 2)]
    assert not moved(past, table([]), NOON + 60 * 399)._recent.size


# ---------------------------------------------------------------- hours
def minutes(past: Past, fleet: Table, begin: float, count: int, agent: State = State.ALIVE,
            variable: State = State.ALIVE) -> float:
    """So many minutes in which agent 1 and its variable 3 are in these states."""
    fleet.agent_state[1], fleet.state[1, 3] = agent, variable
    for minute in range(count):
        past.add(fleet, begin + 60 * minute)
    return begin + 60 * count


def test_hours_count_what_was_known(store: Store) -> None:
    fleet = fakes.fleet(3)
    past = Past(store, fleet, NOON)
    now = minutes(past, fleet, NOON, 60)
    now = minutes(past, fleet, now, 15, State.DEAD, State.DEAD)
    now = minutes(past, fleet, now, 30, State.UNREACHABLE, State.UNKNOWN)
    past.add(fleet, now, sees=False)
    now += 120  # nobody saw these
    now = minutes(past, fleet, now, 13)
    hours, last = past.hours(1, now - 1)
    assert {*hours} == {AGENT, *range(1, 9)} == {*last}
    assert hours[AGENT].shape == (24 * DAYS, 3) and not hours[AGENT][:-2].any()
    assert hours[AGENT][-2].tolist() == [60, 60, ALIVE]
    assert hours[AGENT][-1].tolist() == [58, 13, UNREACHABLE]
    assert hours[3][-1].tolist() == [28, 13, DEAD]
    assert last[AGENT].tolist() == [DEAD] * 15 + [UNREACHABLE] * 30 + [0, 0] + [ALIVE] * 13
    assert past.hours(0, now - 1)[0][AGENT][-1].tolist() == [58, 58, ALIVE]
    own, third = (next(each for each in view.uptime(hours, last) if each["variable"] == number)
                  for number in (None, 3))
    assert own["day"] == own["month"] == round(100 * 73 / 118, 3) and third["day"] > own["day"]
    assert own["hours"][-3:] == [None, "alive", "unreachable"] and own["minutes"][-14] is None
    assert view.uptime({AGENT: hours[AGENT] * 0}, last)[0]["week"] is None


def test_it_goes_on_over_a_restart_a_reload_and_a_day(store: Store) -> None:
    fleet = fakes.fleet(3)
    past = Past(store, fleet, NOON)
    now = minutes(past, fleet, NOON, 60, State.DEAD, State.DEAD)
    past.save(points=True)
    assert store.flush()
    again = Past(store, fleet, now, 9000)
    again.load()
    assert again.step == 3 and {each[2] for each in lists(again, 1, 3)[:20]} == {State.DEAD}
    again = Past(store, fleet, now)
    again.load()
    assert lists(again, 1, 3)[:60] == lists(past, 1, 3)
    now = minutes(again, fleet, now, 60)
    fewer = Table([fleet.agents[2], fleet.agents[1]])
    fewer.state[:], fewer.agent_state[:] = State.ALIVE, State.ALIVE
    store.flush()
    store.write(lambda database: database.execute("DELETE FROM past").rowcount)
    rest = moved(again, fewer, now - 1)
    assert store.flush() and [name for name, in store.ask("SELECT agent FROM past")] == [
        fleet.agents[0].name], "who goes is written; the others will be"
    assert (rest.hours(1, now - 1)[1][3] == ALIVE).all(), "the last hour"
    tomorrow = (NOON // DAY + 1) * DAY
    rest.add(fewer, tomorrow)
    assert store.flush()
    worst = rest.hours(1, tomorrow)[0][3][:, WORST].tolist()
    assert worst[-24:] == [0] * 11 + [DEAD, ALIVE] + [0] * 10 + [ALIVE]
    rest.add(fewer, tomorrow + 13 * HOUR)
    worst = rest.hours(1, tomorrow + 13 * HOUR)[0][3][:, WORST].tolist()
    assert worst[-14:] == [ALIVE] + [0] * 12 + [ALIVE], "a new day begins empty"
    rest.add(fewer, tomorrow + (DAYS + 1) * DAY)
    assert store.flush()
    assert not store.ask("SELECT * FROM past WHERE day <= ?", NOON // DAY)


def test_who_comes_back_on_the_same_day_keeps_its_hours(store: Store) -> None:
    """After two reloads. Another day begins empty."""
    fleet, fewer = fakes.fleet(3), fakes.fleet(1)
    past = Past(store, fleet, NOON)
    now = minutes(past, fleet, NOON, 60, State.DEAD, State.DEAD)
    away = moved(past, fewer, now)
    away.add(fewer, now)
    back = moved(away, fleet, now + HOUR)
    now = minutes(back, fleet, now + HOUR, 1)
    back.save(points=False)
    assert store.flush()
    again = Past(store, fleet, now)
    again.load()
    for each in (back, again):
        hours, _ = each.hours(1, now)
        assert hours[3][-3:].tolist() == [[60, 0, DEAD], [0, 0, 0], [1, 1, ALIVE]]
        assert hours[AGENT][-3:, KNOWN].tolist() == [60, 0, 1]
    assert not moved(away, fleet, now + DAY)._today.any()


def test_a_variable_that_comes_back_on_the_same_day_keeps_its_hours(store: Store) -> None:
    """Two reloads: one drops variables, the other adds them again."""
    fleet, fewer = table(["a", "b"], watched=5), table(["a", "b"], watched=2)
    past = Past(store, fleet, NOON)
    now = minutes(past, fleet, NOON, 60, State.DEAD, State.DEAD)
    away = moved(past, fewer, now)
    away.add(fewer, now)
    away.save(points=False)
    back = moved(away, fleet, now + HOUR)
    hours, _ = back.hours(1, now + HOUR)
    assert hours[3][-3:].tolist() == [[60, 0, DEAD], [0, 0, 0], [0, 0, 0]]
    assert hours[AGENT][-3:, KNOWN].tolist() == [60, 0, 0] and len(hours) == 6


def test_a_clock_set_back_over_midnight_keeps_the_hours_of_the_day(store: Store) -> None:
    fleet = fakes.fleet(3)
    past = Past(store, fleet, NOON)
    minutes(past, fleet, NOON, 60, State.DEAD, State.DEAD)
    midnight = (NOON // DAY + 1) * DAY
    minutes(past, fleet, midnight, 2)
    minutes(past, fleet, midnight - HOUR, 60)
    past.save(points=False)
    minutes(past, fleet, midnight, 3)
    assert store.flush()
    assert past.hours(1, midnight)[0][AGENT][-13:, KNOWN].tolist() == [60, *[0] * 10, 60, 3]


def test_damage_does_no_harm(store: Store) -> None:
    """What cannot be used is as if it was not there."""
    fleet, chance = fakes.fleet(3), random.Random(1)
    past = Past(store, fleet, NOON)
    past.add(fleet, NOON)
    past.save(points=True)
    assert store.flush()
    good = zlib.decompress(store.ask("SELECT points FROM recent")[0][0])
    for _ in range(30):
        wrong = bytearray(good)
        wrong[chance.randrange(10)] = chance.randrange(256)
        data = zlib.compress(wrong[:chance.choice((len(wrong), chance.randrange(len(wrong))))])
        for name, column in (("past", "hours"), ("recent", "points")):
            store.write(lambda database: database.execute(
                f"UPDATE {name} SET {column} = ?", [data[chance.randrange(2):]]).rowcount).result()
        again = Past(store, fleet, NOON)
        again.load()
        again.hours(1, NOON + DAY)
    assert not again._today.any()


# ---------------------------------------------------------------- what it takes
def test_memory(store: Store) -> None:
    """The figures of past.py."""
    small, large = (Past(store, table([str(each) for each in range(count)], 16), NOON)
                    for count in (10_000, 50_000))
    assert small.points == 180 and small.step == 2 and 61e6 <= small._recent.nbytes < 62e6
    assert large._recent.nbytes <= MOST_BYTES and large.step * large.points >= 360


@pytest.mark.slow
def test_room_and_time(tmp_path: Path) -> None:
    """30 days of 10,000 agents take what past.py says, and a question takes less than 0.1 s."""
    chance, count = np.random.default_rng(1), 1000
    store, fleet = Store(tmp_path / "events.sqlite"), fakes.fleet(count)
    for day in range(DAYS):
        past = Past(store, fleet, NOON - day * DAY)
        past._today[:] = 60, 60, ALIVE
        bad = chance.random(past._today.shape[:2]) < 0.01
        past._today[bad, WORST] = DEAD
        past._today[bad, WELL] = chance.integers(0, 60, bad.sum())
        past.save(points=False)
    assert store.flush(60)
    begun = time.process_time()
    hours, _ = past.hours(7, NOON)
    took = time.process_time() - begun
    assert hours[AGENT][-24:, KNOWN].all() and took < 0.1
    store.close()
    size = (tmp_path / "events.sqlite").stat().st_size * 10_000 / count / 1e6
    print(f"\n30 days of 10,000 agents with 8 variables: {size:.0f} MB, "
          f"{past._today.nbytes * 10_000 / count / 1e6:.0f} MB of memory; {1000 * took:.0f} ms")
    assert 10 < size < 25
