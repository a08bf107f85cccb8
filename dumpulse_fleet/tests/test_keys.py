"""Agents with keys: fleet.keys and a collector, against the model and the C library."""

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dumpulse_fleet import client
from dumpulse_fleet.collect import wire
from dumpulse_fleet.collect.collector import Collector
from dumpulse_fleet.collect.discovery import parse_targets
from dumpulse_fleet.collect.keys import Readers, Verdict, chaskey, words_of
from dumpulse_fleet.config.agents import Shared, make_profile
from dumpulse_fleet.config.file import Config, load
from dumpulse_fleet.config.toml_reader import Mistakes
from dumpulse_fleet.model.agents import Agent, ReaderKeys, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.snapshot import Snapshot
from dumpulse_fleet.record.store import Store
from dumpulse_fleet.tests.collecting import collecting, profile, until
from spec import keyed
from spec.model import REQUEST
from tools.agents import GOOD, LADDER, OTHER_MASTER, FakeAgent, KeyedFake

ANY = profile()  # nothing is expected: an agent that answers is alive
REPORT, BEACON = 264, 8


def master(number: int) -> bytes:
    return bytes(15) + bytes((number,))


def key_file(folder: Path, name: str, secret: bytes, readers: bool = False) -> str:
    keys = keyed.Keys(secret)
    path = folder / f"{name}.key"
    path.write_text(f"readers {keys.of(64).hex()}\n" if readers else
                    f"{secret.hex()}\n")
    path.chmod(0o600)
    return str(path)


COUNT = 3  # agents


def test_chaskey_is_the_models() -> None:
    for blocks in (1, 2, 17):
        keys, texts = ([os.urandom(size) for _ in range(COUNT)] for size in (16, 16 * blocks))
        found = chaskey(words_of(keys), words_of(texts))
        assert [row.astype("<u4").tobytes() for row in found] == [
            keyed.chaskey12(key, text) for key, text in zip(keys, texts)]


class World:
    """Agents, which are the model, and what the fleet's readers know of them. Some rows of the
    table have no key."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.models = [keyed.Agent(keyed.Keys(master(number)), keyed.Number())
                       for number in range(count)]
        for number, each in enumerate(self.models):
            assert each.begin() == keyed.BEGUN
            each.entries[number % 64] = bytes((1, 2, 3, number))
        paths = [key_file(folder, str(number), master(number), number % 2 == 0)
                 for number in range(count)]
        self.keys = [ReaderKeys(path) for path in paths]
        self.readers = Readers([each for key in self.keys for each in (None, key)])
        self.rows = np.arange(count) * 2 + 1
        self.now = 1000.0

    def begin(self) -> None:
        self.readers.begin(self.rows, self.now)

    def ask(self) -> list[bytes]:
        """What the agents answer."""
        return [model.process(7, request.tobytes())[1] or b""
                for model, request in zip(self.models, self.readers.requests(self.rows))]

    def take(self, answers: list[bytes], timely: bool = True) -> list[Verdict]:
        batch = np.zeros((len(answers), wire.ROOM), np.uint8)
        for row, answer in zip(batch, answers):
            row[:len(answer)] = np.frombuffer(answer, np.uint8)
        lengths = np.array([len(answer) for answer in answers], np.uint32)
        found = self.readers.take(self.rows, batch, lengths, wire.good(batch, lengths),
                                  np.full(len(answers), timely), self.now)
        return [Verdict(each) for each in found]


def test_asking(tmp_path: Path) -> None:
    world = World(tmp_path, COUNT)
    world.begin()
    assert (world.readers.requests(world.rows) == np.frombuffer(client.HELLO, np.uint8)).all()
    assert world.take(world.ask()) == [Verdict.AGAIN] * COUNT
    assert not world.readers.news(world.rows, False)  # nothing is wrong
    requests = world.readers.requests(world.rows)
    assert (requests[:, 4] == 0xC0).all() and (requests[:, 5] == 1).all()
    assert len({each.tobytes() for each in requests}) == COUNT
    assert (world.readers.requests(world.rows) == requests).all()  # they are repeated
    reports = world.ask()
    assert {len(each) for each in reports} == {REPORT}
    assert world.take([each[:-1] + bytes((each[-1] ^ 1,)) for each in reports]) \
        == [Verdict.TAG] * COUNT
    assert world.take(reports) == [Verdict.BELIEVED] * COUNT
    assert world.take(reports) == [Verdict.TAG] * COUNT  # each report is believed once
    for number in range(2, 5):
        world.begin()
        assert world.take(world.ask()) == [Verdict.BELIEVED] * COUNT
        assert (world.readers.count == number).all()
    for model in world.models:
        model.round()
    world.begin()
    assert world.take(world.ask()) == [Verdict.AGAIN] * COUNT
    assert world.take(world.ask()) == [Verdict.BELIEVED] * COUNT
    assert (world.readers.count == 1).all() and (world.readers.epoch == 257).all()


def test_late_answers(tmp_path: Path) -> None:
    """Those to the round before are believed, once. The others say nothing, not even that something
    is wrong."""
    world = World(tmp_path, COUNT)
    world.begin()
    beacons = world.ask()
    world.begin()
    assert world.take(beacons, False) == [Verdict.AGAIN] * COUNT  # late, and still new
    first = world.ask()
    assert world.take(beacons, False) == [Verdict.REFUSED] * COUNT
    assert world.readers.repeat.all() and not world.readers.refused.any()
    world.begin()
    second = world.ask()
    assert world.take(first) == world.take(second, False) == [Verdict.TAG] * COUNT
    world.readers.why[:] = Verdict.BELIEVED
    assert world.take([bytes(264)] * COUNT, False) == [Verdict.TAG] * COUNT
    assert not world.readers.news(world.rows, False)
    assert world.take(first, False) == [Verdict.BELIEVED] * COUNT
    assert world.take(first, False) == [Verdict.TAG] * COUNT
    assert world.take(second) == [Verdict.BELIEVED] * COUNT  # Its own round goes on.
    world.begin()
    third = world.ask()
    world.begin()
    world.begin()
    assert world.take(third, False) == [Verdict.TAG] * COUNT  # two rounds late
    fourth = world.ask()
    world.begin()
    assert world.take([model.keys.beacon(64, 500) for model in world.models]) \
        == [Verdict.AGAIN] * COUNT
    assert world.take(fourth, False) == [Verdict.TAG] * COUNT  # it may have been held back


def test_nonces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bytes of the system's random numbers for each agent, and the rest of the request is the
    model's."""
    world = World(tmp_path, COUNT)
    beacons = [model.keys.beacon(64, 1) for model in world.models]
    assert world.take(beacons) == [Verdict.AGAIN] * COUNT
    monkeypatch.setattr(os, "urandom", lambda size: bytes(range(7, 7 + size)))
    assert [each.tobytes() for each in world.readers.requests(world.rows)] == [
        model.keys.counted(64, 1, 1, 7 + 2 * number, 8 + 2 * number)
        for number, model in enumerate(world.models)]


def test_other_readers_use_counts(tmp_path: Path) -> None:
    """The same counts as those of client.py."""
    world = World(tmp_path, COUNT)
    world.begin()
    world.take(world.ask())
    for model in world.models:
        model.last[64] = 254
    counts = []
    while True:
        answers = world.ask()
        counts.append(int(world.readers.count[0]))
        verdicts = world.take(answers)
        if verdicts[0] == Verdict.BELIEVED:
            break
        assert verdicts == [Verdict.AGAIN] * COUNT
    assert counts == LADDER
    world.begin()
    assert world.take(world.ask()) == [Verdict.REFUSED] * COUNT  # all are used up
    assert (world.readers.requests(world.rows) == np.frombuffer(client.HELLO, np.uint8)).all()
    for model in world.models:
        model.round()
    world.begin()
    world.take(world.ask())
    assert world.take(world.ask()) == [Verdict.BELIEVED] * COUNT


LIES: list[tuple[Verdict, Callable[[keyed.Agent], bytes]]] = [
    (Verdict.LENGTH, lambda model: b""), (Verdict.LENGTH, lambda model: bytes(7)),
    (Verdict.LENGTH, lambda model: bytes(4) + b"\x40" + bytes(3)),
    (Verdict.LENGTH, lambda model: bytes(263)), (Verdict.LENGTH, lambda model: bytes(265)),
    (Verdict.LENGTH, lambda model: bytes(260)), (Verdict.VERSION, lambda model: GOOD),
    (Verdict.TAG, lambda model: bytes(264)),
    (Verdict.TAG, lambda model: model.keys.report(bytes(256), model.epoch, bytes(8))),
    (Verdict.BEACON, lambda model: bytes(7) + b"\1"),
    (Verdict.BEACON, lambda model: keyed.Keys(OTHER_MASTER).beacon(64, model.epoch + 1)),
    (Verdict.OLD, lambda model: model.keys.beacon(64, model.epoch - 1)),
    (Verdict.REFUSED, lambda model: model.beacon(64) or b"")]


@pytest.mark.parametrize("verdict, lie", LIES)
def test_lies(verdict: Verdict, lie: Callable[[keyed.Agent], bytes], tmp_path: Path) -> None:
    """Each has its reason, which is told once. The true answer counts after it."""
    world = World(tmp_path, COUNT)
    world.begin()
    world.take(world.ask())
    if verdict != Verdict.REFUSED:
        reports = world.ask()
    assert world.take([lie(model) for model in world.models]) == [verdict] * COUNT
    told = world.readers.news(world.rows, False)
    assert told == [(row, Verdict.BELIEVED, verdict) for row in world.rows.tolist()]
    assert not world.readers.news(world.rows, False)
    if verdict == Verdict.REFUSED:
        reports = world.ask()
    assert world.take(reports) == [Verdict.BELIEVED] * COUNT
    assert world.readers.news(world.rows, True) == [
        (row, verdict, Verdict.BELIEVED) for row in world.rows.tolist()]
    assert not world.readers.news(world.rows, True)
    assert verdict.words.startswith("rejected: ")


def test_several_packets_of_one_agent_at_once(tmp_path: Path) -> None:
    """Beacons in any order: the latest counts. A refusal that comes three times is one."""
    world = World(tmp_path, 1)
    world.begin()
    beacon = functools.partial(world.models[0].keys.beacon, 64)
    world.rows = np.array([1] * 4)
    assert world.take([beacon(5), beacon(7), beacon(6), beacon(5)]) == [Verdict.AGAIN] * 4
    assert world.readers.epoch.tolist() == [7]
    world.readers.requests(world.rows[:1])
    assert world.take([beacon(7)] * 3 + [beacon(6)]) == [Verdict.AGAIN] * 3 + [Verdict.OLD]
    assert world.readers.refused.tolist() == [1]


def test_who_has_kept_many_reports(tmp_path: Path) -> None:
    """A round asks again for two later epochs, and for no more. A report that was asked for before
    a later beacon may have been held back."""
    world = World(tmp_path, COUNT)
    for first in (300, 400):
        world.begin()
        for epoch in range(first, first + 4):
            expected = Verdict.AGAIN if epoch < first + 2 else Verdict.OLD
            assert world.take([model.keys.beacon(64, epoch) for model in world.models]) \
                == [expected] * COUNT
        assert (world.readers.epoch == first + 1).all()
    requests = [each.tobytes() for each in world.readers.requests(world.rows)]
    world.begin()
    world.take([model.keys.beacon(64, 500) for model in world.models])
    assert world.take([model.keys.report(bytes(256), 401, request) for model, request in zip(
        world.models, requests)]) == [Verdict.TAG] * COUNT


def test_a_far_epoch_is_forgotten(tmp_path: Path) -> None:
    """After 5 minutes of old beacons, and not because the rounds are far apart."""
    world = World(tmp_path, COUNT)
    for now in (1000.0, 5000.0, 9000.0):
        world.now = now
        world.begin()
        world.take(world.ask())
        if now == 1000.0:
            world.take(world.ask())
        assert (world.readers.epoch == 256).all()
    assert world.take([model.keys.beacon(64, 70_000) for model in world.models]) \
        == [Verdict.OLD] * COUNT  # too far ahead
    assert world.take([model.keys.beacon(64, 65_000) for model in world.models]) \
        == [Verdict.AGAIN] * COUNT
    for now, epoch in ((9001.0, 65_000), (9301.0, 65_000), (9302.0, 256)):
        world.now = now
        world.begin()
        assert (world.readers.epoch == epoch).all()
        assert world.take(world.ask()) == [Verdict.OLD if epoch > 256 else Verdict.AGAIN] * COUNT


def test_how_far_an_epoch_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                 ) -> None:
    """As in the client: 65,536 epochs and two each second, however many reports led there."""
    seconds = [10**9]
    monkeypatch.setattr(time, "time", lambda: seconds[0])
    world = World(tmp_path, COUNT)
    for last in (2**24, 2**24 + 2**16, 2**24 + 2**16 + 14):
        if last > 2**24:
            world.begin()
            assert world.take([model.keys.beacon(64, last + 1) for model in world.models]) \
                == [Verdict.OLD] * COUNT
            seconds[0] += 7
        world.begin()
        for model in world.models:
            model.epoch, model.last[64] = last, 0
        assert world.take(world.ask()) == [Verdict.AGAIN] * COUNT
        assert world.take(world.ask()) == [Verdict.BELIEVED] * COUNT
    assert (world.readers.known == last).all()


def test_another_run_believes_nothing_from_before(tmp_path: Path) -> None:
    """Beacons and reports of an earlier epoch than that of the last report are old. What was only
    told by a beacon is not remembered."""
    world = World(tmp_path, COUNT)
    saved = np.zeros((2 * COUNT, 3), np.int64)
    world.models[0].round()
    for run in range(3):
        world.readers = Readers([each for key in world.keys for each in (None, key)], saved)
        right = [run and model.epoch for model in world.models]
        assert world.readers.epoch.tolist() == right
        world.begin()
        if run == 2:
            assert world.take([model.keys.beacon(64, 255) for model in world.models]) \
                == [Verdict.OLD] * COUNT
        assert (world.readers.requests(world.rows) == np.frombuffer(client.HELLO, np.uint8)).all()
        assert world.take(world.ask()) == [Verdict.AGAIN] * COUNT
        if run == 0:
            world.readers.save(saved)
            assert not saved[:, 1].any()
        while (found := world.take(world.ask())) == [Verdict.AGAIN] * COUNT:
            assert run  # the counts of the run before
        assert found == [Verdict.BELIEVED] * COUNT
        world.take([model.keys.beacon(64, 70_000) for model in world.models])
        world.readers.save(saved)
    assert saved[1::2, 1].tolist() == [model.epoch for model in world.models]
    saved[3, 0] += 1  # It has another key now.
    readers = Readers([each for key in world.keys for each in (None, key)], saved)
    assert not readers.epoch[1] and readers.epoch[0] and not saved[::2].any()


def test_the_collector_remembers(tmp_path: Path) -> None:
    """Over a restart. Then somebody shows it the past."""
    with KeyedFake(master=master(1), epoch=512) as fake, contextlib.closing(
            Store(tmp_path / "events.sqlite", say=lambda text: None)) as store:
        kept = Snapshot(store)
        listed = [agent(fake, key_file(tmp_path, "a", master(1)))]
        with collecting(Table(listed), kept=kept) as (collector, _, _):
            until(lambda: collector.table.reports[0] > 0)
        reports = collector.table.reports[0]
        past = keyed.Agent(keyed.Keys(master(1)), keyed.Number())
        past.begin()
        fake.hooks = [lambda packet, answer: [past.process(5, packet)[1] or b""]]
        with collecting(Table(listed), kept=kept) as (collector, heard, complaints):
            until(lambda: heard.of("key"))
            assert collector.table.reports[0] == reports and not complaints
            assert [event.now for event in heard.of("key")] == ["rejected: its epoch"]


def test_what_is_carried_over(tmp_path: Path) -> None:
    """To the same key only."""
    world = World(tmp_path, 3)
    world.begin()
    world.take(world.ask())
    (tmp_path / "other").mkdir()
    new = Readers([world.keys[2], None, ReaderKeys(key_file(tmp_path / "other", "x", master(9))),
                   world.keys[0], world.keys[2]])
    # Row 0 of the old table had no key, and what is known of the last row is not for it.
    new.carry(np.array([0, 1, 2, 3, 4]), world.readers, np.array([5, 2, 3, 1, 0]))
    assert new.epoch.tolist() == [256, 0, 256, 0]
    assert not Readers([None]).slot[0] >= 0


# ---------------------------------------------------------------- the collector
def agent(fake: KeyedFake | FakeAgent, path: str, name: str = "a") -> Agent:
    return Agent(name, fake.address, ANY, period=0.4, misses=3,
                 keys=ReaderKeys(path) if path else None)


def state_of(collector: Collector, row: int = 0) -> State:
    return State(int(collector.table.agent_state[row]))


def test_agents_with_keys_and_without(tmp_path: Path) -> None:
    """Over ticks. Others listen in vain: requests are new each time."""
    with contextlib.ExitStack() as stack:
        fakes = [stack.enter_context(KeyedFake(master=master(number))) for number in range(3)]
        plain = stack.enter_context(FakeAgent([GOOD]))
        listed = [agent(fake, key_file(tmp_path, str(number), master(number)), str(number))
                  for number, fake in enumerate(fakes)]
        collector, heard, _ = stack.enter_context(collecting(
            Table([*listed, agent(plain, "", "plain")])))
        until(lambda: (collector.table.reports >= 3).all())
        for fake in fakes:
            fake.tick()
        before = collector.table.reports.copy()
        until(lambda: (collector.table.reports >= before + 3).all())
        assert (collector.table.agent_state == State.ALIVE).all()
        assert collector.table.entry[0, 3] == 0x12344C09
        # Only an answer to a request that was repeated, as the machine stood still, is bad.
        assert collector.figures.bad <= collector.figures.repeated and not heard.of("key")
        for fake in fakes:
            assert len(fake.requests) - len({*fake.requests}) <= collector.figures.repeated
            assert fake.heard.count(client.HELLO) <= 2 and REQUEST not in fake.heard


def test_why_an_agent_is_not_believed(tmp_path: Path) -> None:
    """One event says why, before the one that it is unreachable. One says that it is over."""
    path = key_file(tmp_path, "a", OTHER_MASTER)
    with KeyedFake() as fake, collecting(Table([agent(fake, path)])) as (collector, heard, _):
        until(lambda: state_of(collector) == State.UNREACHABLE)
        until(lambda: len(heard.of("key")) == 1)
        (said,) = heard.of("key")
        assert (said.was, said.now, said.variable) == (
            "accepted", "rejected: its key is another one", -1)
        assert heard.events.index(said) < heard.events.index(heard.of("state")[0])
        assert collector.table.bad[0] > 0 and collector.table.reports[0] == 0
        collector.replace(Table([agent(fake, key_file(tmp_path, "b", bytes(range(16))))]))
        until(lambda: state_of(collector) == State.ALIVE)
        assert len(heard.of("key")) == 1  # it is another key: nothing was told of it


# ---------------------------------------------------------------- the configuration
def read(folder: Path, text: str) -> Config:
    (folder / "fleet.toml").write_text(text)
    return load(str(folder / "fleet.toml"))


def wrong(folder: Path, text: str) -> list[str]:
    with pytest.raises(Mistakes) as caught:
        read(folder, text)
    assert "0001" not in str(caught.value)
    return [f"{each.line}: {each.text}" for each in caught.value.all]


def test_keys_in_the_configuration(tmp_path: Path) -> None:
    """Of a folder, also in the defaults. A reload reads them again."""
    folder = tmp_path / "keys"
    folder.mkdir()
    for number, name in enumerate(("a-readers", "n-1-readers", "n-2-readers")):
        key_file(folder, name, master(number), number == 1)
    text = "[[agents]]\naddress = 'a'\nkeys = 'keys'\n" \
        "[[agents]]\naddress = 'n-{1..2}'\nkeys = 'keys'\n[[agents]]\naddress = 'b'\n"
    found = read(tmp_path, text)
    assert [each.keys and each.keys.of(64) for each in found.agents] == [
        *(keyed.Keys(master(number)).of(64) for number in range(3)), None]
    assert not any(each.keys and each.keys.master for each in found.agents)  # it is not needed
    assert read(tmp_path, text).agents[0].keys == found.agents[0].keys
    assert "0001" not in repr(found)
    default = read(tmp_path, "[defaults]\nkeys = 'keys'\n[[agents]]\naddress = 'n-{1,2}'\n")
    assert [each.keys for each in default.agents] == [
        found.agents[each].keys for each in (1, 2)]
    key_file(folder, "a-readers", master(9))
    assert read(tmp_path, text).agents[0].keys != found.agents[0].keys


@pytest.mark.parametrize("name, part", [
    ("open", "cannot use '.*open-readers.key': other users"),
    ("none", "cannot read '.*none-readers.key': No such"),
    ("bad", "'.*bad-readers.key', line 1: no key"), ("node", "has no key of the readers"),
    ("{a,twin}", "twin has the key of 'a', in line 2, too")])
def test_mistakes(tmp_path: Path, name: str, part: str) -> None:
    """Each has its line. A file that is missing in the folder never means that there is no key."""
    key_file(tmp_path, "a-readers", master(1))
    key_file(tmp_path, "twin-readers", master(1))
    os.chmod(key_file(tmp_path, "open-readers", master(1)), 0o640)
    for own, content in (("bad", "x"), ("node", f"3 {master(1).hex()}\n")):
        (tmp_path / f"{own}-readers.key").write_text(content)
        (tmp_path / f"{own}-readers.key").chmod(0o600)
    (found,) = wrong(tmp_path, f"[[agents]]\naddress = '{name}'\nkeys = '.'\n")
    assert re.match(f"2: agents: .*{part}", found), found


def test_targets_of_files(tmp_path: Path) -> None:
    """A target without its key is left out, and the others are asked."""
    key_file(tmp_path, "a-readers", master(1))
    shared = Shared(make_profile(), keys=str(tmp_path))
    found, problems = parse_targets(
        b'[{"targets": ["a:1", "b:1"]}, {"targets": ["x:1"], "labels": {"name": "a"}}]', shared)
    assert [each.name for each in found] == ["a", "a"] and all(each.keys for each in found)
    assert len(problems) == 1 and "b-readers.key': No such file" in problems[0]
