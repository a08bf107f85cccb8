"""What is kept over a restart; and files that are not what they should be."""

import hashlib
import pathlib
import random
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies

from dumpulse_fleet import client
from dumpulse_fleet.model.agents import Agent, ClockKind, Event, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record import snapshot
from dumpulse_fleet.tests.collecting import profile

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


def test_all_is_there_again(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "kept")
    old, new = filled("abc"), table("xcb")
    snapshot.save(path, old)
    assert snapshot.load(path, new) == ""
    assert same(old, new, 1, 2) and same(old, new, 2, 1)
    assert new.reports[0] == 0 and new.agent_state[0] == State.PENDING
    assert (new.misses == 0).all()
    assert abs(new.now() - old.now()) < 0.1
    assert not list(tmp_path.glob("*.new")) and (tmp_path / "kept").stat().st_mode & 0o77 == 0


def test_a_file_of_another_version_is_rejected(tmp_path: pathlib.Path) -> None:
    path, new = tmp_path / "kept", table()
    snapshot.save(str(path), filled())
    path.write_bytes(path.read_bytes().replace(b"dumpulse fleet 3\n", b"dumpulse fleet 2\n", 1))
    assert snapshot.load(str(path), new) == (
        f"cannot use what was kept in {str(path)!r}, so all agents are new: it is not a file of "
        "this version")
    assert same(new, table(), 0, 0)


@pytest.mark.parametrize("field", ["entry", "since", "told", "state"])
def test_variables_that_nobody_uses_take_no_room(tmp_path: pathlib.Path, field: str) -> None:
    path, old, new = tmp_path / "kept", table(), table()
    getattr(old, field)[1, 6] = State.LATE
    assert old.width() == 7
    snapshot.save(str(path), old)
    assert snapshot.load(str(path), new) == "" and same(old, new, 1, 1)
    few = path.stat().st_size
    snapshot.save(str(path), filled())
    assert few < path.stat().st_size / 3


def test_our_clock_goes_on_after_the_machine_was_started_again(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "kept")
    old = filled()
    monkeypatch.setattr(client, "boot", lambda: "one")
    monkeypatch.setattr(client, "uptime", lambda: 500_000.0)
    monkeypatch.setattr("time.time", lambda: 1e9)
    old.zero = 1e9 - 500_000.0
    snapshot.save(path, old)
    for boot, unix, passed in (("two", 1e9 + 300, 300), ("two", 1e9 - 300, 0)):
        monkeypatch.setattr(client, "boot", lambda boot=boot: boot)
        monkeypatch.setattr(client, "uptime", lambda: 40.0)
        monkeypatch.setattr("time.time", lambda unix=unix: unix)
        new = table()
        assert snapshot.load(path, new) == ""
        assert new.now() == pytest.approx(1e9 + passed)


def test_an_agent_at_another_place_begins_anew_with_its_clock(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "kept")
    snapshot.save(path, filled())
    new = table(port=9061)
    assert snapshot.load(path, new) == ""
    assert (new.kind == ClockKind.NONE).all() and (new.reports == filled().reports).all()


def test_no_file_is_no_trouble(tmp_path: pathlib.Path) -> None:
    assert snapshot.load(str(tmp_path / "none"), table()) == ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(strategies.integers(0, 2**32), strategies.booleans(), strategies.integers(1, 30))
def test_any_file_is_refused_with_one_line_or_makes_sense(
        tmp_path: pathlib.Path, seed: int, sealed: bool, damage: int) -> None:
    path, chance = tmp_path / "kept", random.Random(seed)
    snapshot.save(str(path), filled())
    content = bytearray(path.read_bytes())
    for _ in range(damage):
        at = chance.randrange(len(content)) if chance.random() < 0.5 else chance.randrange(400)
        kind = chance.randrange(3)
        if kind == 0:
            content[at] = chance.randrange(256)
        elif kind == 1:
            del content[at:at + chance.randrange(1, 500)]
        else:
            content[at:at] = chance.randbytes(chance.randrange(1, 50))
        if len(content) < 500:
            break
    is_damaged = bytes(content) != path.read_bytes()
    if sealed:  # with the right checksum, as whoever wants to harm would have it
        rest = content[snapshot.HEADER:]
        content[:snapshot.HEADER] = snapshot.MAGIC + hashlib.sha256(rest).digest()
    path.write_bytes(content)
    new = table()
    trouble = snapshot.load(str(path), new)
    assert "\n" not in trouble and len(trouble) < 500
    assert sealed or trouble or not is_damaged
    if trouble:
        assert same(new, table(), 0, 0)
    for name, most in snapshot.ARRAYS.items():
        array = getattr(new, name)
        assert ((array >= -most) & (array <= most)).all()


def test_a_file_that_is_no_file_does_not_hold_up_the_start(tmp_path: pathlib.Path) -> None:
    import os
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with open(tmp_path / "long", "wb") as file:
        file.truncate(1 << 40)
    for name in ("pipe", "link", "long", "."):
        assert "so all agents are new" in snapshot.load(str(tmp_path / name), table())


def test_events_that_are_newer_than_the_file() -> None:
    one = table()
    snapshot.catch_up(one, [
        Event(5.0, "a", 2, "state", "alive", "dead", 3.0),
        Event(6.0, "a", -1, "state", "", "dead", 1), Event(7.0, "b", 2, "sender", "3", "4", -1),
        Event(8.0, "gone", 2, "state", "", "dead", 1), Event(9.0, "b", 1, "state", "", "what", 1),
        Event(9.0, "b", 99, "state", "", "dead", 1)])
    assert one.told[0, 2] == State.DEAD and one.since[0, 2] == 5.0
    assert one.agent_told[0] == State.DEAD and one.agent_since[0] == 6.0
    assert (one.told[1] == State.PENDING).all()
