"""The values of the last hours, compared with a plain list.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np
import pytest

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Agent, Event, Profile, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.history import MOST_BYTES, NOTHING, History

ROOT = Path(__file__).resolve().parents[2]


def table(names: list[str], watched: int = 5) -> Table:
    profile = Profile(client.make_settings(argparse.Namespace()))
    profile.expected = np.arange(64) < watched
    return Table([Agent(name, "127.0.0.1", profile) for name in names])


def lists(history: History, row: int, variable: int) -> list[tuple[float, int, int]]:
    times, values, states = history.of(row, variable)
    return list(zip(times.tolist(), values.tolist(), states.tolist()))


@pytest.mark.parametrize("minutes,most_bytes,step", [
    (10, 10_000, 1), (10, 100, 2), (10, 60, 4), (10, 0, 10), (7, 100, 2)])
def test_a_plain_list_says_the_same(minutes: int, most_bytes: int, step: int) -> None:
    chance = random.Random(minutes)
    fleet = table(["a", "b"])
    history = History(fleet, minutes, most_bytes)
    assert history.step == step
    heard: list[tuple[float, int, int]] = []
    for minute in range(45):
        value, state = chance.randrange(256), chance.randrange(8)
        fleet.entry[1, 3], fleet.state[1, 3] = 0xABCD_0500 + value, state
        history.add(fleet, float(minute))
        heard.append((float(minute), value, state))
        chunks = [heard[each:each + step] for each in range(0, len(heard), step)]
        wanted = [(chunk[-1][0], chunk[-1][1], max(state for _, _, state in chunk))
                  for chunk in chunks][-history.points:]
        assert lists(history, 1, 3) == wanted
        assert len(lists(history, 0, 4)) == len(wanted) and lists(history, 1, 5) == []


def test_a_short_state_counts() -> None:
    fleet = table(["a", "b"])
    history = History(fleet)
    dead = Event(0.0, "b", 3, "state", "dead", "alive", 1.0)
    history.heard([dead])  # before the first point
    fleet.state[:] = State.ALIVE
    history.add(fleet, 1.0)
    assert lists(history, 1, 3) == [(1.0, 0, State.ALIVE)]
    history.heard([dead, dead._replace(agent="x"), dead._replace(variable=63, was="late"),
                   dead._replace(variable=-1), dead._replace(what="rebooted", variable=2),
                   dead._replace(was="of no kind", variable=1)])
    assert [lists(history, 1, each)[0][2] for each in range(5)] == [1, 1, 1, State.DEAD, 1]


def test_a_new_configuration_keeps_what_is_still_watched() -> None:
    old = table(["a", "b", "c"], watched=5)
    history = History(old)
    for minute in range(400):
        old.entry[:] = np.arange(3)[:, None] * 80 + minute % 80
        old.state[:] = State.LATE
        history.add(old, float(minute))
    new = history.moved(table(["new", "c", "a"], watched=3))
    assert lists(new, 1, 2) == [(each, 160 + each % 80, State.LATE) for each in range(40, 400)]
    assert lists(new, 2, 0) == [(each, each % 80, State.LATE) for each in range(40, 400)]
    assert {each[2] for each in lists(new, 0, 0)} == {NOTHING}
    assert lists(new, 1, 4) == []
    new.add(table(["new", "c", "a"], watched=3), 400.0)
    assert lists(new, 1, 2)[-2:] == [(399.0, 160 + 399 % 80, State.LATE), (400.0, 0, 2)]


def test_the_file_brings_it_back(tmp_path: Path) -> None:
    path = tmp_path / "history"
    fleet = table(["a", "Büro"])
    first = History(fleet)
    for minute in range(3):
        fleet.entry[:] = minute
        first.add(fleet, float(minute))
    first.save(path)
    second = History(fleet)
    assert second.load(path)
    assert [lists(second, row, 3) for row in (0, 1)] == [lists(first, row, 3) for row in (0, 1)]
    assert path.stat().st_mode & 0o777 == 0o600 and [path] == list(tmp_path.iterdir())
    assert not History(fleet).load(tmp_path / "none")
    with pytest.raises(OSError):
        first.save(tmp_path / "no" / "file")


def test_no_damaged_file_does_harm(tmp_path: Path) -> None:
    path = tmp_path / "history"
    fleet = table(["a", "b"])
    history = History(fleet)
    history.add(fleet, 1.0)
    history.save(path)
    good = path.read_bytes()
    for seed in range(300):
        chance = random.Random(seed)
        damaged = bytearray(good)
        for _ in range(chance.choice((1, 2, 20))):
            damaged[chance.randrange(len(good))] = chance.randrange(256)
        path.write_bytes(damaged[:chance.choice((len(good), chance.randrange(len(good))))])
        other = History(fleet)
        if not other.load(path):
            assert lists(other, 0, 0) == [], f"seed {seed}"


def test_what_it_takes() -> None:
    """The figures of the page."""
    small = History(table([str(each) for each in range(10_000)], watched=16))
    assert small.points == 180 and small.step == 2
    assert 57.6e6 <= small.bytes < 61e6
    large = History(table([str(each) for each in range(100_000)], watched=16))
    assert large._values.nbytes * 2 <= MOST_BYTES and large.step * large.points >= 360
