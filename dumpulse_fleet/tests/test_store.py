"""The store of events: nothing acknowledged is lost, whatever happens."""

import contextlib
import fnmatch
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from dumpulse_fleet.model.agents import Event, Mute
from dumpulse_fleet.record import store as module
from dumpulse_fleet.record.store import Store, Trouble
from dumpulse_fleet.tests.collecting import flushed, until

ROOT = Path(__file__).resolve().parents[2]
NONE = strategies.none()
NOW = float(int(time.time()) - 100_000)


def event(number: int = 0, **fields: Any) -> Event:
    return Event(NOW + number, "pump", 3, "state", "alive", str(number), 1.5)._replace(**fields)


def unnumbered(events: Sequence[Event]) -> list[Event]:
    return [each._replace(number=0) for each in events]


@pytest.fixture(name="said")
def _said() -> list[str]:
    return []


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.sqlite"


@pytest.fixture(name="store")
def _store(path: Path, said: list[str]) -> Iterator[Store]:
    store = Store(path, say=said.append)
    yield store
    store.close()


# ---------------------------------------------------------------- what goes in comes out
def test_events_come_back_with_numbers_that_grow(store: Store, path: Path) -> None:
    for number in range(0, 5_000, 50):
        assert store.publish([event(each) for each in range(number, number + 50)])
    assert flushed(store)
    wanted = [event(number) for number in range(5_000)]
    found = store.select(limit=9_999)[::-1]
    assert unnumbered(found) == wanted
    assert unnumbered(store.select(since=NOW + 10, until=NOW + 12)) == [event(11), event(10)]
    assert store.select(before=found[9].number, limit=1) == [found[8]]
    numbers = [each.number for each in found]
    assert numbers == sorted(set(numbers))
    assert store.commits < 100, "they are not written in batches"
    assert (store.stored, store.rows, store.lost) == (5_000, 5_000, 0)
    assert path.stat().st_mode & 0o777 == 0o600


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=strategies.data())
def test_select_is_a_plain_filter(data: strategies.DataObject, tmp_path_factory: Any) -> None:
    """Compared with a loop over all events."""
    names = ["pump", "pump 1", "pump-2", "Büro/3", "a[b]", "*"]
    sites = ["", "berlin", "bern"]
    draw = data.draw
    folder = tmp_path_factory.mktemp("select")
    store = Store(folder / "f.sqlite")
    try:
        events = draw(strategies.lists(strategies.builds(
            Event, strategies.integers(0, 20).map(lambda each: NOW + each),
            strategies.sampled_from(names), strategies.integers(-1, 3),
            strategies.sampled_from(["state", "rebooted"]), strategies.just("alive"),
            strategies.sampled_from(["dead", "late"]), strategies.floats(-1, 1e9),
            strategies.sampled_from(sites), strategies.just(0)),
            max_size=40))
        store.publish(events)
        assert flushed(store)
        stored = store.select(limit=1000)
        assert unnumbered(stored) == events[::-1]
        for _ in range(12):
            ask: dict[str, Any] = {
                "since": draw(NONE | (strategies.integers(0, 20).map(lambda at: NOW + at))),
                "until": draw(NONE | (strategies.integers(0, 20).map(lambda at: NOW + at))),
                "agent": draw(strategies.sampled_from(["", "*", "pump*", "p?mp", "[!p]*", *names])),
                "site": draw(strategies.sampled_from(["", "ber*", "berlin"])),
                "variable": draw(NONE | (strategies.integers(-1, 3))),
                "what": draw(strategies.sampled_from(["", "state"])),
                "now": draw(strategies.sampled_from([(), ("dead",), ("late", "dead")])),
                "before": draw(NONE | (strategies.sampled_from(
                    [each.number for each in stored] or [1]))),
                "limit": draw(strategies.integers(0, 10))}
            assert store.select(**ask) == [
                each for each in stored
                if (ask["since"] is None or each.at >= ask["since"])
                and (ask["until"] is None or each.at < ask["until"])
                and fnmatch.fnmatchcase(each.agent, ask["agent"] or "*")
                and fnmatch.fnmatchcase(each.site, ask["site"] or "*")
                and ask["variable"] in (None, each.variable)
                and ask["what"] in ("", each.what) and (not ask["now"] or each.now in ask["now"])
                and (ask["before"] is None or each.number < ask["before"])][:ask["limit"]]
    finally:
        store.close()
        shutil.rmtree(folder)


def test_a_glob_with_many_stars_costs_little(store: Store) -> None:
    store.publish([event(agent="a" * 200 + f" {number}") for number in range(200)])
    assert flushed(store)
    begun = time.monotonic()
    assert not store.select(agent="*a" * 40 + "b")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("bad", [
    event(at=float("nan")), event(at=float("inf")), event(lasted=float("nan")),
    event(variable=64), event(variable=-2), event(variable=10 ** 30), event(agent=None),
    event(at="soon"), event(now=5), (1, 2, 3)])
def test_an_event_that_makes_no_sense_stops_no_other(store: Store, bad: Any) -> None:
    store.publish([event(1), bad, event(2)])
    assert flushed(store)
    assert unnumbered(store.select()) == [event(2), event(1)]
    assert store.refused == 1


@settings(max_examples=200)
@given(text=strategies.text(strategies.characters(), max_size=600))
def test_any_text_can_be_stored(text: str) -> None:
    row = module._text(text)
    row.encode()
    assert len(row) <= module.TEXT
    if len(text) <= module.TEXT and not any(0xD800 <= ord(each) < 0xE000 for each in text):
        assert row == text


def test_half_a_pair_of_utf_16_is_no_poison(store: Store) -> None:
    store.publish([event(agent="\ud800", now="\0")])
    assert flushed(store)
    assert store.select()[0][:6] == (NOW, "?", 3, "state", "alive", "\0")
    assert store.select(agent="\ud800") == []


# ---------------------------------------------------------------- limits
def test_a_full_queue_is_counted_and_told(path: Path, said: list[str]) -> None:
    store = Store(path, queue=100, say=said.append)
    gate = threading.Event()
    store.publish([event(0)])
    store.write(lambda _: gate.wait(20))
    until(lambda: not store._queue)  # the writer waits now
    assert store.publish([event(number) for number in range(100)])
    begun = time.monotonic()
    assert not store.publish([event(0)]) and not store.publish([event(0), event(1)])
    assert time.monotonic() - begun < 10, "publish() must not wait"
    assert store.lost == 3
    gate.set()
    assert flushed(store) and flushed(store)
    told = [each for each in store.select() if each.what == "store"]
    assert [each.now for each in told] == ["3 events lost: the queue was full"]
    assert store.rows == 102
    store.close()


def test_old_events_and_too_many_go(path: Path) -> None:
    now = time.time()
    store = Store(path, days=90, rows=2_500)
    store.publish([event(at=now - 91 * 86_400 - each, now="old") for each in range(3_000)])
    store.publish([event(each, at=now) for each in range(5_000)])
    assert flushed(store)
    until(lambda: store.rows == 2_500)
    rows = store.select(limit=9_999)
    assert [int(each.now) for each in rows] == list(range(4_999, 2_499, -1))
    until(lambda: free_pages(path) < 50)
    store.close()
    again = Store(path, days=90, rows=2_500)
    assert again.rows == 2_500
    again.close()


def free_pages(path: Path) -> int:
    with sqlite3.connect(path) as database:
        (count,) = database.execute("PRAGMA freelist_count").fetchone()
        return int(count)


def test_publishing_goes_on_while_old_events_are_deleted(path: Path) -> None:
    store = Store(path, rows=10)
    store.publish([event(each) for each in range(30_000)])
    slowest = 0.0
    while store.rows != 10:
        assert not store.trouble
        begun = time.monotonic()
        assert store.publish([event(1)])
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.002)
    assert slowest < 5
    store.close()


def test_numbers_grow_over_restarts_and_when_the_file_is_lost(path: Path) -> None:
    numbers: list[int] = []
    for attempt in range(4):
        store = Store(path)
        store.publish([event(1), event(2)])
        assert flushed(store)
        numbers += [each.number for each in store.select(limit=2)][::-1]
        store.close()
        if attempt == 1:
            path.unlink()
        if attempt == 2:  # all events are gone, as after 90 days
            with sqlite3.connect(path) as database:
                database.execute("DELETE FROM event")
    assert len(numbers) == 8 and numbers == sorted(set(numbers))
    assert numbers[-1] < 2 ** 53, "JavaScript would round it"


# ---------------------------------------------------------------- what goes wrong
def corrupt(path: Path) -> None:
    """Writes over every page but the first."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(random.Random(1).randbytes(size - 4096))


def test_a_damaged_file_is_set_aside_at_the_start(path: Path, said: list[str]) -> None:
    for content in (b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000):
        path.write_bytes(content)
        store = Store(path, say=said.append)
        store.publish([event(1)])
        assert flushed(store) and len(store.select()) == 1
        store.close()
        path.with_name("fleet.sqlite.damaged").read_bytes().index(content)
        assert "fleet.sqlite.damaged" in said.pop()


def test_a_file_that_is_set_aside_takes_the_memory_of_its_readers_along(path: Path) -> None:
    """Otherwise the new file would use, and shorten, what an old reader has mapped."""
    with contextlib.closing(Store(path, say=lambda text: None)) as store:
        with contextlib.closing(sqlite3.connect(path)) as reader:
            reader.execute("SELECT count(*) FROM event").fetchall()
            store._set_aside("a test")
            assert {file.name for file in path.parent.glob("*.damaged*")} == {
                f"fleet.sqlite.damaged{end}" for end in ("", "-wal", "-shm")}


def test_damage_at_run_time_loses_no_new_event(store: Store, path: Path, said: list[str]) -> None:
    store.publish([event(each) for each in range(3_000)])
    assert flushed(store)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    corrupt(path)
    for number in range(3_000, 6_000):  # The writer meets a bad page at some number.
        store.publish([event(number)])
    until(lambda: said)
    until(lambda: not store.trouble and flushed(store))
    assert "is damaged" in said[0] and path.with_name("fleet.sqlite.damaged").exists()
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    new = [each for each in store.select(limit=9_999) if each.what == "state"]
    assert new and [each.now for each in new][::-1] == [
        str(each) for each in range(6_000 - len(new), 6_000)]


def test_a_full_disk_stops_no_alert_and_loses_nothing(path: Path) -> None:
    """A limit on the size of files is a disk that is full, for this process alone."""
    result = subprocess.run([sys.executable, "-c", f"""
import resource, signal
from dumpulse_fleet.tests.test_store import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
said = []
store = Store({str(path)!r}, say=said.append)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for number in range(10_000):
    store.publish([event(number)])
until(lambda: store.trouble and store.stored + len(store._unwritten) == 10_000)
assert "cannot write" in said[0], said
assert store.stored < 10_000, store.stored
assert not flushed(store)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
future = store.make_mute(Mute({{"site": "x"}}, 0.0, time.time() + 99))
assert isinstance(future.exception(), sqlite3.Error)
assert store.mutes() == ()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
until(lambda: flushed(store) and store.select(what="store"))
kept = store.select(limit=99_999)[::-1]
assert [each.now for each in kept if each.what == "state"] == [str(n) for n in range(10_000)]
(told,) = [each for each in kept if each.what == "store"]
assert told.now == "works again" and told.lasted > 0, told
store.close()
"""], cwd=ROOT, timeout=60)
    assert result.returncode == 0


def test_after_a_kill_it_starts_on_a_full_disk(path: Path) -> None:
    """The limit leaves room for the memory that the readers share, which SQLite makes anew."""
    result = subprocess.run([sys.executable, "-c", f"""
import resource, signal
from dumpulse_fleet.tests.test_store import *
if not os.fork():
    killed = Store({str(path)!r})
    killed.publish([event(number) for number in range(2_000)])
    assert flushed(killed)
    os._exit(0)
assert os.wait()[1] == 0
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
store = Store({str(path)!r}, say=[].append)
store.publish([event(2_000)])
until(lambda: store.trouble)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
until(lambda: flushed(store))
assert [each.now for each in store.select(what="state", limit=9_999)][::-1] == [
    str(number) for number in range(2_001)]
store.close()
"""], cwd=ROOT, timeout=60)
    assert result.returncode == 0


def test_what_the_disk_never_took_is_bounded_and_counted(path: Path, said: list[str]) -> None:
    store = Store(path, queue=500, say=said.append)
    hold = sqlite3.connect(path, isolation_level=None)
    hold.execute("CREATE TRIGGER full BEFORE INSERT ON event "
                 "BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
    for number in range(2_000):
        until(lambda: store.publish([event(number)]))
    until(lambda: store.unstored >= 1_500)
    assert "disk is full" in store.trouble
    hold.execute("DROP TRIGGER full")
    hold.close()
    until(lambda: not store.trouble)
    assert flushed(store)
    states = [each for each in store.select(limit=9_999) if each.what == "state"]
    assert 0 < len(states) <= 500 and len(states) + store.unstored >= 2_000
    store.close()


def test_reasons_not_to_start(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritable(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    def refuses(words: str, where: Path = path) -> None:
        with pytest.raises(Trouble, match=words):
            Store(where)

    (tmp_path / "file").touch()
    refuses("cannot use the folder", tmp_path / "file" / "f.sqlite")
    refuses("is not a file", tmp_path)
    os.mkfifo(tmp_path / "fifo")
    refuses("is not a file", tmp_path / "fifo")
    first = Store(path)
    refuses("another fleet uses")
    first.close()
    Store(path).close()
    for version in (2, 99):
        with sqlite3.connect(path) as database:
            database.execute(f"PRAGMA user_version = {version}")
        before = path.read_bytes()
        refuses(f"another version, which has schema {version}")
        assert path.read_bytes() == before, "a file of another version must stay as it is"
    path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", unwritable)
        refuses("must be writable")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    before = path.read_bytes()
    refuses("belongs to another program")
    assert path.read_bytes() == before, "another program's file must stay as it is"


@pytest.mark.parametrize("seed", range(3))
def test_a_file_with_any_damage_starts(path: Path, said: list[str], seed: int) -> None:
    """It opens, or is set aside; what can be read is as it was written."""
    chance = random.Random(seed)
    print(f"seed {seed}")
    store = Store(path)
    store.publish([event(each) for each in range(200)])
    store.make_mute(Mute({"site": "x"}, 0.0, time.time() + 1e6)).result()
    store.close()
    good = path.read_bytes()
    for _ in range(12):
        damaged = bytearray(good)
        for _ in range(chance.choice((1, 1, 5))):
            damaged[chance.randrange(len(good))] = chance.randrange(256)
        path.write_bytes(damaged[:chance.choice((len(good), chance.randrange(len(good))))])
        try:
            store = Store(path, say=said.append)
        except Trouble as error:
            assert "another version" in str(error) or "belongs to another" in str(error)
        else:
            try:
                store.publish([event(201)])
                until(lambda: flushed(store))
                assert "201" in {each.now for each in store.select()}
            finally:
                store.close()


# ---------------------------------------------------------------- kill -9
# Stores events that count up from its second argument, and prints the last one that is on the disk.
KILLED = r"""
import sys, time
from dumpulse_fleet.model.agents import Event
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.tests.collecting import flushed

store, value = Store(sys.argv[1], rows=10_000_000), int(sys.argv[2])
while True:
    size = 1 + value % 37
    value += size * store.publish([
        Event(time.time(), f"agent {each % 100}", each % 64, "state", "alive", str(each), 1.0)
        for each in range(value, value + size)])
    if size % 5 == 0 and flushed(store):
        print(value - 1, flush=True)
    time.sleep(0.001)  # some 10,000 events a second
"""


def test_kill_9_loses_nothing_acknowledged(path: Path) -> None:
    values: list[int] = []
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(path), str(len(values))],
                              cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout
            lines = [program.stdout.readline()]  # now it works
            time.sleep(random.uniform(0.0, 0.3))
            program.kill()
            lines += [line for line in program.stdout if line.endswith("\n")]
        with contextlib.closing(sqlite3.connect(path)) as database:
            values = [int(now) for now, in database.execute(
                "SELECT now FROM event WHERE what = 'state' ORDER BY number")]
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        # None is lost, none is there twice, and they are in order.
        assert values == list(range(len(values))) and int(lines[-1]) < len(values)


# ---------------------------------------------------------------- mutes
def test_mutes_live_on_and_end(path: Path) -> None:
    store = Store(path)
    end = time.time() + 1000
    first = store.make_mute(Mute({"site": "berlin*", "name": "pump"}, 0.0, end, "works", "ada"))
    second = store.make_mute(Mute({"variable": "3"}, end, end + 1))
    assert (first.result(), second.result()) == store.mutes() != ()
    store.close()
    store = Store(path)
    assert store.mutes() == (first.result(), second.result())
    assert store.end_mute(first.result().number).result()
    assert not store.end_mute(first.result().number).result()
    assert store.mutes() == (second.result(),)
    third = store.make_mute(Mute({"name": "x"}, 0.0, time.time() + 0.2,
                                 acknowledges=True)).result()
    assert third.acknowledges and not second.result().acknowledges
    assert third.number > second.result().number
    until(lambda: store.mutes() == (second.result(),))
    flushed(store)
    told = [each.now for each in store.select(what="mute")][::-1]
    number = first.result().number
    assert told[0] == f"muted: {number}, site=berlin* name=pump, works, by ada"
    assert told[2] == f"ended: {number}, site=berlin* name=pump, works, by ada"
    assert told[4].startswith("over: ")
    store.close()
    store = Store(path)
    assert store.mutes() == (second.result(),)
    store.close()


def test_who_waits_no_longer_does_not_stop_the_store(store: Store) -> None:
    """A connection is closed, or its time is over, while a mute waits for the disk."""
    began, gate = threading.Event(), threading.Event()

    def work(_: sqlite3.Connection) -> bool:
        began.set()
        return gate.wait(20)

    running = store.write(work)
    assert began.wait(20)
    waiting = store.make_mute(Mute({"name": "gone"}, 0.0, time.time() + 99))
    assert waiting.cancel() and not running.cancel()
    gate.set()
    assert running.result(20)
    assert store.make_mute(Mute({"name": "x"}, 0.0, time.time() + 99)).result(20)
    assert [each.match for each in store.mutes()] == [{"name": "x"}] and flushed(store)


@pytest.mark.parametrize("mute", [
    Mute({}, 0.0, 9e12), Mute({"site": ""}, 0.0, 9e12), Mute({"": "x"}, 0.0, 9e12),
    Mute({"site": "x"}, 5.0, 4.0), Mute({"site": "x"}, 1.0, 2.0),
    Mute({"site": "x"}, 0.0, float("nan")), Mute({"site": "x"}, float("-inf"), 9e12),
    Mute({str(each): "x" for each in range(21)}, 0.0, 9e12), Mute({"site": "x" * 501}, 0.0, 9e12),
    Mute({"site": 5}, 0.0, 9e12)])  # type: ignore[dict-item]
def test_mutes_that_make_no_sense(store: Store, mute: Mute) -> None:
    with pytest.raises(ValueError):
        store.make_mute(mute)
    assert store.mutes() == ()


def test_there_is_a_most_of_mutes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MUTES", 2)
    for _ in range(2):
        store.make_mute(Mute({"site": "x"}, 0.0, time.time() + 99)).result()
    with pytest.raises(ValueError, match="end some first"):
        store.make_mute(Mute({"site": "x"}, 0.0, time.time() + 99))
