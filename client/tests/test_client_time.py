"""client.py and time: whose clock it is, and what gets older though a timestamp does not tell."""

import copy
import errno
import fcntl
import os
import random
import re
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Optional

import pytest

import client
from spec import model
from tools.agents import COMMAND, FakeAgent, report, run
from tools.lines import FakeLine
from tools.programs import PATIENCE, ROOT

Patch = pytest.MonkeyPatch

UNIX = 1_700_000_000.0  # when these tests begin, by this machine's clock
HOUR = 3600.0


class World:
    """This machine's clocks, and an agent with its nodes. Time passes only when a test says so."""

    def __init__(self, monkeypatch: Patch, tick: float = 1.0, boots: bool = False,
                 self_: Optional[int] = None) -> None:
        self.passed = 0.0  # Seconds of this machine's clocks.
        self.set = 0.0  # Seconds by which its clock was set.
        self.tick, self.self_ = tick, self_
        self.offset = 3.0 if boots else UNIX  # Seconds of the agent's clock, when `passed` is 0.
        self.agent = model.Agent()
        monkeypatch.setattr(time, "time_ns", lambda: int((UNIX + self.passed + self.set) * 1e9))
        monkeypatch.setattr(client, "uptime", lambda: 1000.0 + self.passed)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, duration: float) -> None:
        self.passed += duration

    def ticks(self) -> int:
        return int((self.passed + self.offset) / self.tick) % 65536

    def beat(self, variable: int, value: int = 9, sender: int = 76) -> None:
        self.agent.record(self.ticks(), variable, sender, value)

    def answer(self) -> bytes:
        if self.self_ is not None:
            self.beat(self.self_, 0, 1)
        assert self.agent.process(0, model.REQUEST) == model.REPORT
        return self.agent.table()

    def restart(self) -> None:
        """Restarts an agent that counts from its start."""
        self.agent, self.offset = model.Agent(), -self.passed

    def ask(self, timeout: float = 3.0) -> client.Entries:
        """Does what client.Agent does, but takes no time."""
        return client.parse_report(self.answer())


def settings(command: str, *options: str) -> client.Settings:
    return client.make_settings(client.build_parser(command).parse_args(["x", *options]))


def watched(*options: str) -> client.Watched:
    return client.Watched(settings("watch", *options), [], "x")


def look(watch: client.Watched, world: World) -> list[client.Reading]:
    now = client.uptime() if hasattr(client, "uptime") else world.passed
    watch.take(world.ask(), now)
    return watch.readings


# ---------------------------------------- what is watched never gets younger

@pytest.mark.parametrize("options", [[], ["--now-from", "0"]])
def test_a_dead_node_stays_dead_over_the_wrap(options: list[str], monkeypatch: Patch) -> None:
    world, watch = World(monkeypatch, self_=0), watched(*options)
    world.beat(3)
    ages = []
    for _ in range(4 * 50):
        reading = look(watch, world)[3]
        assert reading.age_ms is not None
        ages.append(reading.age_ms)
        assert reading.state == (client.OK if len(ages) == 1 else client.DEAD)
        world.passed += HOUR / 4
    assert ages == sorted(ages) and ages[-1] >= 49 * HOUR * 1000
    assert reading.age == ">49 h" and reading.for_json()["age_at_least"]
    assert reading.for_json()["age"] == ages[-1] / 1000
    world.beat(3)
    alive = look(watch, world)[3]
    assert alive.state == client.OK and alive.age == "0 s" and not alive.for_json()["age_at_least"]


# ---------------------------------------------------------------- whose clock

def known_after(world: World, *options: str, timeout: float = 3.0) -> tuple[client.Clock,
                                                                            list[client.Reading]]:
    known = client.find_clock(world, settings("get", *options), timeout)  # type: ignore[arg-type]
    return known, client.interpret(known, client.History())


OTHER = "no ages: the agent has another clock: give --now-from, or the right --tick"


def test_an_agent_that_counts_from_its_start(monkeypatch: Patch) -> None:
    """The README's agent stamps itself. Without --now-from, no ages are better than wrong ones."""
    world = World(monkeypatch, boots=True, self_=0)
    world.passed = 1000
    world.beat(4)
    world.passed += 3620
    known, readings = known_after(world, "--now-from", "0")
    assert str(known) == "ages by variable 0" and world.passed == 4620
    assert (readings[4].age, readings[4].state) == ("3620 s", client.DEAD)
    known, readings = known_after(world)
    assert client.describe_report(known, []) == {"variables": [], "clock": {
        "from": "here", "variable": None, "text": OTHER}}
    assert {reading.state for reading in readings} == {client.UNKNOWN, client.NEVER}


def test_an_agent_on_our_clock_is_asked_once(monkeypatch: Patch) -> None:
    world = World(monkeypatch)
    world.beat(4)
    world.passed += 3600
    world.beat(3)
    known, readings = known_after(world)
    assert str(known) == "ages by this machine's clock" and world.passed == 3600
    assert (readings[3].age, readings[4].age) == ("0 s", "3600 s")


def test_a_dead_variable_0_is_not_taken_for_a_clock(monkeypatch: Patch) -> None:
    """Variable 0 is an ordinary node here, and no other node is alive."""
    for boots in (True, False):
        world = World(monkeypatch, boots=boots)
        world.beat(0)
        world.passed += 40
        world.beat(1)
        world.passed += 100
        known, readings = known_after(world)
        assert known.source == "here" and readings[0].state == readings[1].state == client.DEAD
        assert str(known) == "ages by this machine's clock, wrong if the agent has another"


def test_watch_asks_no_more_for_it(monkeypatch: Patch) -> None:
    """Ages are unknown at first, and from the second report on, even if the agent restarts."""
    world, watch = World(monkeypatch, boots=True, self_=0), watched()
    world.passed += 5000
    world.beat(3)
    assert look(watch, world)[3].state == client.UNKNOWN
    assert str(watch.clock) == "no ages yet: by this machine's clock, nothing is new"
    for _ in range(9):
        world.passed += 1
        assert look(watch, world)[3].age_ms is None and str(watch.clock) == OTHER
        world.restart()
        world.beat(3)


@pytest.mark.parametrize("seed", range(40))
def test_no_dead_node_looks_alive_and_no_live_one_dead(seed: int, monkeypatch: Patch) -> None:
    """Agents of all kinds restart. Their nodes die, come back and lose heartbeats."""
    chance = random.Random(seed)
    tick = chance.choice((0.1, 1.0, 1.0, 2.0))
    boots = chance.random() < 0.7
    world = World(monkeypatch, tick, boots, chance.choice((None, 0, 63)))
    world.passed = chance.uniform(0, 50_000)
    interval = chance.choice((0.5, 1.0, 3.0))
    stamps = [] if world.self_ is None else ["--now-from", f"{world.self_}"]
    watch = watched("--tick", f"{tick}s", "--warn", "12s", "--crit", "30s", *stamps)
    unknown = {client.UNKNOWN} if boots and not stamps else set[str]()
    periods = {variable: chance.uniform(0.2, 4) for variable in chance.sample(range(1, 63), 4)}
    due = {variable: world.passed + chance.uniform(0, 4) for variable in periods}
    heard: dict[int, float] = {}
    dies = {variable: world.passed + chance.uniform(20, 120) for variable in [*periods][:2]}
    restart = world.passed + chance.uniform(20, 200) if boots and chance.random() < 0.5 \
        else float("inf")
    restarted = -1e9
    begun = world.passed
    slack = 2 * interval + 2 * tick + 1
    while world.passed < begun + 200:
        end = world.passed + interval * chance.uniform(1, 1.5)
        for variable in sorted(due, key=lambda variable: due[variable]):
            while due[variable] <= end:
                world.passed = max(world.passed, due[variable])
                if chance.random() > 0.2 and world.passed < dies.get(variable, float("inf")):
                    world.beat(variable)
                    heard[variable] = world.passed
                due[variable] += periods[variable]
        world.passed = end
        if end > restart:
            restart, restarted = float("inf"), end
            world.restart()
            heard.clear()
        readings = look(watch, world)
        if world.passed < begun + 10 or world.passed < restarted + 10:
            continue
        for variable, when in heard.items():
            silent = world.passed - when
            if silent > 30 + slack:
                assert readings[variable].state in unknown | {client.DEAD}, (variable, silent)
            if silent < 30 - slack:
                assert readings[variable].state in unknown | {client.OK, client.LATE}, (variable,
                                                                                        silent)


# ---------------------------------------- what each report tells of the clock

HERE = 1000  # this machine's clock, in ticks of 1 s


class Told:
    """A Clock that gets reports. A report has the timestamps of its entries, and the times of its
    request and its arrival. All entries change with their timestamp."""

    def __init__(self, monkeypatch: Patch, *options: str) -> None:
        self.known = client.Clock(settings("get", *options))
        monkeypatch.setattr(client, "clock", lambda tick_ms: HERE)

    def take(self, asked: float, received: float, **stamps: int) -> client.Clock:
        self.known.take(client.parse_report(report(
            **{name: (stamp, 76, 9) for name, stamp in stamps.items()})), asked, received)
        return self.known


@pytest.mark.parametrize("tick, oldest", [("1s", 995), ("100ms", 980), ("1h", 995), ("399ms", 995),
                                          ("333ms", 994)])
def test_which_timestamps_our_clock_may_have_made(tick: str, oldest: int,
                                                  monkeypatch: Patch) -> None:
    """These are the timestamps from 64 ticks ahead to 5 ticks or 2 s ago."""
    for stamp, ours in ((1065, False), (1064, True), (oldest, True), (oldest - 1, False)):
        known = Told(monkeypatch, "--tick", tick).take(10, 10.25, v3=stamp)
        assert (known.agreed, known.now) == (ours, HERE if ours else None)


def test_one_fresh_timestamp_is_enough_and_none_is_no_doubt(monkeypatch: Patch) -> None:
    assert Told(monkeypatch).take(10, 10.25, v1=5, v2=999, v3=500).agreed
    assert Told(monkeypatch).take(10, 10.25).agreed
    told = Told(monkeypatch)
    told.take(10, 10.25, v3=5)
    known = told.take(11, 11.25, v3=5)
    assert known.now == HERE and not known.agreed
    assert str(known) == "ages by this machine's clock, wrong if the agent has another"


def test_a_clock_that_agreed_is_no_doubt_while_nodes_are_silent(monkeypatch: Patch) -> None:
    told = Told(monkeypatch)
    told.take(10, 10.25, v3=HERE)
    monkeypatch.setattr(client, "clock", lambda tick_ms: HERE + 1000)
    known = told.take(1010, 1010.25, v3=HERE)
    assert known.now == HERE + 1000 and known.agreed


@pytest.mark.parametrize("tick, stamp, ours", [
    ("1s", 991, True), ("1s", 990, False), ("1s", 1064, True), ("1s", 1065, False),
    ("100ms", 956, True), ("100ms", 955, False)])
def test_what_has_changed_is_no_older_than_the_last_request(
        tick: str, stamp: int, ours: bool, monkeypatch: Patch) -> None:
    """2.25 s lie between the first request and the second report. That is up to 3 ticks of 1 s, or
    23 of 100 ms. One tick more is allowed for rounding."""
    told = Told(monkeypatch, "--tick", tick)
    told.take(10, 10.25, v3=500)
    known = told.take(12, 12.25, v3=stamp)
    assert (known.agreed, known.is_other, known.now) == (ours, not ours, HERE if ours else None)
    assert (str(known) == OTHER) is not ours


@pytest.mark.parametrize("stamps, ours", [
    ((999, 1500), False), ((1500, 999), False), ((999, 65_000), True), ((500, 999, 1064), True)])
def test_the_newest_of_those_that_changed_counts(stamps: tuple[int, ...], ours: bool,
                                                 monkeypatch: Patch) -> None:
    told = Told(monkeypatch)
    told.take(10, 10.25)
    known = told.take(12, 12.25, **{f"v{number}": stamp for number, stamp in enumerate(stamps)})
    assert (known.agreed, known.is_other) == (ours, not ours)


def test_an_agent_that_sets_its_clock_to_ours(monkeypatch: Patch) -> None:
    told = Told(monkeypatch)
    told.take(10, 10.25, v3=500)
    for asked, stamp, now in ((12, 600, None), (12.5, 600, None), (13, 999, HERE), (14, 999, HERE)):
        assert told.take(asked, asked + 0.25, v3=stamp, v5=7).now == now
    assert told.known.agreed


@pytest.mark.parametrize("pause, is_other", [(32.7655, True), (32.7665, False)])
def test_after_half_a_wrap_a_change_tells_nothing(pause: float, is_other: bool,
                                                  monkeypatch: Patch) -> None:
    told = Told(monkeypatch, "--tick", "1ms")
    told.take(0, 0.25, v3=HERE + 20_000)
    known = told.take(pause - 0.25, pause, v3=HERE + 30_000)
    assert known.is_other is is_other
    assert not known.agreed and (known.now == HERE) is not is_other


# ---------------------------------------------------------------- when it asks again

class Asked:
    """An agent that stamps itself, and has a short tick. Each request takes some time."""

    def __init__(self, monkeypatch: Patch, lasts: float = 0.0) -> None:
        self.world, self.lasts = World(monkeypatch, tick=0.02, boots=True, self_=0), lasts
        self.world.passed += 5000
        self.timeouts: list[float] = []
        self.pauses: list[float] = []
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, duration: float) -> None:
        assert duration >= 0
        self.pauses.append(duration)
        self.world.passed += duration

    def ask(self, timeout: float) -> client.Entries:
        self.timeouts.append(timeout)
        self.world.passed += self.lasts
        return self.world.ask()


@pytest.mark.parametrize("tick, timeout, lasts, pause, timeouts", [
    ("1s", 3.0, 0.0, 1.25, [3, 1.75]), ("20ms", 3.0, 0.0, 1.25, [3, 1.75]),
    ("2s", 30.0, 0.0, 2.5, [30, 27.5]), ("1h", 60.0, 0.0, 6.25, [60, 53.75]),
    ("1s", 1.0, 0.0, 0.5, [1, 0.5]), ("1s", 1.0, 2.0, 0, [1, -1])])
def test_the_pause_before_it_asks_again(
        tick: str, timeout: float, lasts: float, pause: float, timeouts: list[float],
        monkeypatch: Patch) -> None:
    agent = Asked(monkeypatch, lasts)
    known = client.find_clock(
        agent, settings("get", "--tick", tick), timeout)  # type: ignore[arg-type]
    assert agent.pauses == [pause] and agent.timeouts == timeouts and known.is_other


@pytest.mark.parametrize("trouble",
                         [client.NoAnswer("silence"), client.BadReport("length", "short")])
def test_after_a_second_request_that_fails_ages_are_by_our_clock(trouble: client.Error,
                                                                 monkeypatch: Patch) -> None:
    agent = Asked(monkeypatch)

    def ask(timeout: float) -> client.Entries:
        agent.timeouts.append(timeout)
        if len(agent.timeouts) > 1:
            raise trouble
        return agent.world.ask()
    agent.ask = ask  # type: ignore[method-assign]
    known = client.find_clock(agent, settings("get"), 3.0)  # type: ignore[arg-type]
    assert len(agent.timeouts) == 2 and not known.is_other
    assert known.now == client.clock(1000) and not known.agreed


# ---------------------------------------------------------------- ages, report by report

def ages(history: client.History, now: Optional[int], asked: float, *options: str,
         received: Optional[float] = None, **entries: tuple[int, int, int]) -> list[Optional[int]]:
    """The ages of the entries of such a report, in ms."""
    known = client.Clock(settings("get", *options))
    known.now, known.entries = now, client.parse_report(report(**entries))
    known.asked, known.received = asked, asked if received is None else received
    return history.ages(known)


@pytest.mark.parametrize("tick, ahead, believed", [
    ("1s", 0, True), ("1s", -1, False), ("1s", 64, True), ("1s", 65, False), ("10ms", 500, True),
    ("10ms", 501, False), ("10ms", -1, False)])
def test_how_far_a_clock_may_be_off(tick: str, ahead: int, believed: bool) -> None:
    """A clock may be up to 64 ticks or 5 s ahead, and never behind. Otherwise, the age grows by the
    time that has passed here."""
    history, options = client.History(), ("--tick", tick)
    tick_ms = client.parse_tick(tick)
    assert ages(history, 1000, 100, *options, v3=(990, 76, 9))[3] == 10 * tick_ms
    age = ages(history, 1000 + 5 + ahead, 100 + 5 * tick_ms / 1000, *options, v3=(990, 76, 9))[3]
    assert age == (15 + ahead * believed) * tick_ms


def test_an_age_is_never_less_than_the_whole_ticks_that_have_passed() -> None:
    """The time counts from the arrival of one report to the next request."""
    history = client.History()
    assert ages(history, 1000, 100.0, received=100.5, v3=(1000, 76, 9))[3] == 0
    assert history.entries[3] == ((1000, 76, 9), 100_500, 0) and history.at_ms == 100_500
    for asked, age in ((101.25, 0), (101.5, 1000), (102.25, 1000), (102.5, 2000)):
        assert ages(history, 1000, asked, received=asked + 5, v3=(1000, 76, 9))[3] == age
    assert ages(client.History(), 1005, 100.0, "--tick", "1ms", received=100.5,
                v3=(1000, 76, 9))[3] == 5


def test_another_clock_tells_the_ages_anew() -> None:
    """Entries that have not changed get older from these new ages on."""
    history, entry = client.History(), (990, 76, 9)
    assert ages(history, 1000, 100, v3=entry)[3] == 10_000
    assert ages(history, 1030, 130, "--now-from", "5", v3=entry)[3] == 40_000
    assert [*history.entries[3]] == [entry, 100_000, 10_000]
    assert ages(history, 1020, 131, "--tick", "2s", v3=entry)[3] == 60_000
    assert ages(history, None, 132, v3=entry)[3] is None
    assert history.now is None and history.entries[3].age_ms is None
    assert ages(history, 1022, 132, v3=entry)[3] == 32_000
    assert [*history.entries[3]] == [entry, 100_000, 0]


@pytest.mark.parametrize("now, forgets", [(12, True), (13, False), (3, True)])
def test_a_clock_that_begins_again_is_a_restart(now: int, forgets: bool) -> None:
    """10 s later the clock may show 12. Then the same entry is a new one, a few seconds old."""
    history = client.History()
    assert ages(history, 20_000, 100, v3=(1, 76, 9))[3] == 19_999_000
    assert ages(history, now, 110, v3=(1, 76, 9))[3] \
        == ((now - 1) * 1000 if forgets else 20_009_000)


@pytest.mark.parametrize("sender, forgets", [(1, True), (0, False)])
def test_a_node_that_is_forgotten_is_a_restart(sender: int, forgets: bool) -> None:
    history = client.History()
    ages(history, 50_000, 100, v3=(49_000, 76, 9), v4=(5, sender, 9))
    later = ages(history, 49_100, 110, v3=(49_000, 76, 9))
    assert later[3] == (100_000 if forgets else 1_010_000) and later[4] is None
    assert set(history.entries) == {3}


def test_an_unknown_time_is_no_restart() -> None:
    history = client.History()
    for now, asked, age in ((50_000, 100, 1_000_000), (None, 110, None), (3, 120, 1_020_000)):
        assert ages(history, now, asked, v3=(49_000, 76, 9))[3] == age


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def typed(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process. Returns its status and what it prints. If a world is given,
    the command asks the agent there, and only the world's time passes."""
    def done(*words: str, world: Optional[World] = None) -> tuple[int, str]:
        if world is not None:
            asked = world

            monkeypatch.setattr(client.Agent, "ask", lambda self, timeout: asked.ask(timeout))
            monkeypatch.setattr(client, "wait_for_next", asked.sleep)
        status = client.run_command(words)
        return status, "".join(capsys.readouterr())
    return done


def boot_agent(*stale: int) -> Callable[[], list[bytes]]:
    """The README's agent in real time, an hour after its start. Variable 3 beat a second ago."""
    begun = time.monotonic()

    def answer() -> list[bytes]:
        agent, now = model.Agent(), 3620 + int(time.monotonic() - begun)
        agent.record(now - 1, 3, 76, 9)
        for variable in stale:
            agent.record(1, variable, 76, 9)
        agent.record(now, 0, 1, 0)
        agent.process(0, model.REQUEST)
        return [agent.table()]
    return answer


def test_the_serial_line_of_the_readme() -> None:
    """Runs the command as it stands there, on the README's agent, with another device."""
    (words,) = re.findall(r"^    \./client\.py (serial:[^#\n]+?) *#",
                          (ROOT / "client" / "README.md").read_text(), re.M)
    with FakeLine() as line:
        line.script = [boot_agent(9)]
        done = run(*words.replace("/dev/ttyACM0", line.path).split())
    assert done.returncode == 0 and not done.stderr
    assert "ages by variable 0" in done.stdout
    assert re.search(r"^3 .* [1-3] s ago$", done.stdout, re.M) \
        and re.search(r"^9 .* 36\d\d s ago$", done.stdout, re.M)


def test_what_a_check_says_of_the_clock(typed: Run, monkeypatch: Patch) -> None:
    """It reports that the clock is not ours, and ours if a node may seem dead by it."""
    world = World(monkeypatch, boots=True, self_=0)
    status, said = typed("check", "127.0.0.1", "--expect", "0", world=world)
    assert status == 3 and f"UNKNOWN - 0 age unknown; {OTHER} |" in said
    world = World(monkeypatch)
    world.beat(3)
    world.passed += 100
    doubt = "ages by this machine's clock, wrong if the agent has another"
    for options, status, known in (([], 2, False), (["--warn", "200s"], 0, False), ([], 2, True)):
        if known:
            world.beat(5)
        done, said = typed("check", "127.0.0.1", "--expect", "3", *options, world=world)
        assert (done, doubt in said) == (status, status == 2 and not known)


# ---------------------------------------------------------------- check --memory

Check = Callable[..., tuple[int, str]]


@pytest.fixture
def check(typed: Run, tmp_path: Path) -> Check:
    """Runs `check --memory` on a world's agent, in this process. Returns the status and the text
    in its line."""
    def done(world: World, *options: str, name: str = "127.0.0.1:9060",
             file: str = "memory") -> tuple[int, str]:
        status, said = typed("check", name, "--expect", "3", "--memory", str(tmp_path / file),
                             *options, world=world)
        return status, said.partition(" - ")[2].partition(" | ")[0].rstrip("\n")
    return done


def test_check_remembers_a_dead_node(check: Check, monkeypatch: Patch) -> None:
    world = World(monkeypatch, self_=0)
    world.beat(3)
    assert check(world)[0] == 0
    for _ in range(3 * 24):
        world.passed += HOUR
        assert check(world)[0] == 2
    assert check(world)[1] == "3 dead: silent for >72 h, crit 30 s"
    world.beat(3)
    assert check(world)[0] == 0


def test_a_node_that_restarts_is_shown(monkeypatch: Patch, tmp_path: Path, check: Check) -> None:
    """A restart of the agent is not one of the node, nor is a table that the agent has loaded."""
    (tmp_path / "names.ini").write_text("[dumpulse]\nnow-from = 0\n[3]\nname = engine\n"
                                        "boots = 40\n")
    world, watch = World(monkeypatch, self_=0), watched("--names", f"{tmp_path / 'names.ini'}")

    def restarted(passed: float = 1) -> bool:
        world.passed += passed
        reading = look(watch, world)[3]
        assert reading.for_json()["restarted"] == reading.restarted <= (reading in watch.news())
        return reading.restarted

    def checked() -> tuple[int, str]:
        return check(world, "--names", f"{tmp_path / 'names.ini'}")

    world.beat(3)
    world.beat(40, 4 * 32 + 5)
    assert not restarted() and watch.readings[3].boot == "watchdog, boot 5"
    assert checked() == (0, "1 alive at 127.0.0.1:9060")
    older = copy.deepcopy(world.agent)
    assert not restarted(2)
    world.beat(40, 4 * 32 + 6)
    assert restarted() and watch.event.endswith(" 3 engine restarted: watchdog, boot 6")
    assert checked() == (1, "3 engine restarted: watchdog, boot 6")
    assert client.format_performance(watch.readings[3]).endswith("'engine boots'=6")
    assert [reading.variable.number for reading in watch.shown()] == [0, 3] and not restarted()
    assert checked()[0] == 0
    world.agent = older
    assert not restarted() and "restarted" not in checked()[1]
    world.agent = model.Agent()
    assert not restarted() and not restarted()
    for passed in (1, 40_000, 70_000):
        world.beat(40, 1 * 32)
        assert restarted(passed) and not restarted(passed)
        world.beat(3)
        assert not restarted()
    world.passed += 0.5
    for boot, pause in ((2, 0.0), (3, 0.9)):  # The first has the same timestamp.
        world.beat(40, 1 * 32 + boot)
        assert restarted(pause)


def written(tmp_path: Path, check: Check, monkeypatch: Patch) -> tuple[World, Path]:
    world = World(monkeypatch, self_=0)
    world.beat(3)
    world.beat(63)
    assert check(world)[0] == 0
    return world, tmp_path / "memory"


FOREIGN: list[bytes] = [b"", b"\0" * 300, b"hello\n", b"[" * 65536, b"x" * 10**6,
                        b"dumpulse memory 1 00000001\n", b"\xff" * 300]


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path, check: Check,
                                              monkeypatch: Patch) -> None:
    world, path = written(tmp_path, check, monkeypatch)
    good = path.read_bytes()
    chance = random.Random(5)
    damaged = [good[:at] for at in range(0, len(good), 7)] + [good + b"\n", good + good]
    for _ in range(150):
        at = chance.randrange(len(good))
        damaged.append(good[:at] + bytes((good[at] ^ 1 << chance.randrange(8),)) + good[at + 1:])
    for content in FOREIGN + damaged:
        path.write_bytes(content)
        status, text = check(world)
        assert status == 3 and text.endswith(
            "is not a file of --memory, or is damaged: remove it, or name another")
        assert "\n" not in text and path.read_bytes() == content
    path.write_bytes(good)
    assert check(world)[0] == 0


def test_hostile_numbers_with_a_right_checksum(tmp_path: Path, check: Check,
                                               monkeypatch: Patch) -> None:
    """Whatever the numbers are, it prints one line and does not crash. The next file is good."""
    world, path = written(tmp_path, check, monkeypatch)
    head, rest = path.read_text().split("\n", 1)
    chance = random.Random(6)
    for _ in range(80):
        words = re.split(r"(\d+)", rest)
        for _ in range(3):
            words[chance.randrange(len(words) // 2) * 2 + 1] = str(chance.choice(
                (0, 63, 64, 65535, 65536, 99999, 10**15 - 1, 10**15, 10**400)))
        path.write_text(model_memory("".join(words)))
        status, text = check(world)
        assert status in (0, 2, 3) and "\n" not in text
        if status == 3:
            path.write_text(model_memory(rest))
        assert check(world)[0] in (0, 2)


def model_memory(rest: str) -> str:
    return f"dumpulse memory 1 {model.checksummed(rest.encode())[:4].hex()}\n{rest}"


def test_a_memory_is_of_one_agent(tmp_path: Path, check: Check, monkeypatch: Patch) -> None:
    world, path = written(tmp_path, check, monkeypatch)
    before = path.read_bytes()
    status, text = check(world, name="127.0.0.1:9061")
    assert status == 3 and text.endswith(
        'is of the agent "127.0.0.1:9060": each agent needs its own --memory')
    assert path.read_bytes() == before


def test_files_that_are_none(tmp_path: Path, check: Check, monkeypatch: Patch) -> None:
    world, path = written(tmp_path, check, monkeypatch)
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for file, why in (("link", "it is a symbolic link"), ("dangling", "it is a symbolic link"),
                      ("fifo", "it is not a regular file"), ("folder", "")):
        status, text = check(world, file=file)
        assert status == 3 and text.startswith("cannot use ") and why in text, text
    assert not (tmp_path / "nowhere").exists() and (tmp_path / "link").is_symlink()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert check(world)[1].endswith("it belongs to another user")


def test_a_memory_that_cannot_be_written(tmp_path: Path, check: Check, monkeypatch: Patch) -> None:
    """The command says so. An OK becomes UNKNOWN, and a dead node is still CRITICAL."""
    world, path = written(tmp_path, check, monkeypatch)
    status, text = check(world, file="no/such")
    assert status == 3 and text.startswith("1 alive at ") and "cannot keep " in text

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    before = path.read_bytes()
    assert check(world)[0] == 3 and "No space left on device" in check(world)[1]
    world.passed += HOUR
    assert check(world)[0] == 2 and path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["memory", "memory.lock"]


def test_a_locked_memory_is_not_waited_for_long(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    with FakeAgent(boot_agent()) as agent, open(f"{memory}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        begun = time.monotonic()
        done = run("check", agent.address, "--expect", "3", "--now-from", "0", "--memory",
                   str(memory), "--timeout", "1s")
        assert done.returncode == 3 and "another program locks " in done.stdout \
            and time.monotonic() - begun < PATIENCE / 2
        assert "'variable 3 age'=1s" in done.stdout and not memory.exists()


def test_many_checks_at_once_share_a_memory(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    with FakeAgent(boot_agent(9)) as agent:
        words = [*COMMAND, "check", agent.address, "--expect", "3", "--now-from", "0", "--timeout",
                 "20s", "--memory"]
        checks = [subprocess.Popen([*words, str(memory)], stdout=subprocess.PIPE, text=True) for _
                  in range(6)]
        for process in checks:
            out, _ = process.communicate(timeout=2 * PATIENCE)
            assert process.returncode == 0, out
    history = client.load_history(str(memory), agent.address, int(client.uptime() * 1000))
    assert set(history.entries) == {0, 3, 9} and history.entries[9].entry == (1, 76, 9)
    assert sorted(os.listdir(tmp_path)) == ["memory", "memory.lock"]


def test_an_older_report_does_not_replace_a_newer_one(tmp_path: Path, check: Check,
                                                      monkeypatch: Patch) -> None:
    world, path = written(tmp_path, check, monkeypatch)
    world.passed += 5
    check(world)
    before = path.read_bytes()
    world.passed -= 2
    assert check(world)[0] == 0 and path.read_bytes() == before


def memory(at: int, *rows: str, boot: str = "", now: str = "7") -> str:
    return model_memory(f'agent "x"\nboot {boot or client.boot()}\nclock here None 1000\nat {at}\n'
                        f"now {now}\n" + "".join(f"{row}\n" for row in rows))


@pytest.mark.parametrize("ahead, boot, restarted", [
    (0, "", False), (600_000, "", False), (600_001, "", True), (0, "0-0", True),
    (-5000, "0-0", True)])
def test_what_a_memory_says_after_a_restart(ahead: int, boot: str, restarted: bool,
                                            tmp_path: Path) -> None:
    """Each entry is as old as it was when the memory was written."""
    at, received = 2_000_000 + ahead, 2_000_000
    path = tmp_path / "memory"
    path.write_text(memory(at, f"0 1 2 3 {at} 0", f"3 1 2 3 {at - 3000} 700", "4 9 8 7 50 -",
                           f"63 5 6 7 {at + 1} 5", boot=boot))
    history = client.load_history(str(path), "x", received)
    since = {number: old.since_ms for number, old in history.entries.items()}
    ages_ms = {number: old.age_ms for number, old in history.entries.items()}
    assert history.entries[4].entry == (9, 8, 7)
    assert (history.at_ms, history.now) == ((received, None) if restarted else (at, 7))
    if restarted:
        assert since == {0: received, 3: received - 3700, 4: received - at + 50, 63: received - 5}
        assert not any(ages_ms.values())
    else:
        assert since == {0: at, 3: at - 3000, 4: 50, 63: at + 1}
        assert ages_ms == {0: 0, 3: 700, 4: None, 63: 5}


def test_what_is_saved_is_loaded(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    for now in (None, 0, 65_535):
        history = client.History()
        history.basis, history.now, history.at_ms = "here None 1000", now, 1_000_007
        history.entries = {0: client.Unchanged(client.Entry(65_535, 0, 255), -5, None),
                           63: client.Unchanged(client.Entry(0, 255, 0), 10**9, 0)}
        client.save_history("memory", "agent", history)
        assert vars(client.load_history("memory", "agent", 1_000_008)) == vars(history)
    assert os.listdir() == ["memory"]


def test_a_memory_is_whole_before_it_replaces_the_old_one(tmp_path: Path, check: Check,
                                                          monkeypatch: Patch) -> None:
    """It is written to another file in the same folder, and synced to the disk."""
    world, path = written(tmp_path, check, monkeypatch)
    before, made = path.read_text(), []

    def sync(descriptor: int) -> None:
        (new,) = set(tmp_path.glob("memory.*")) - {tmp_path / "memory.lock"}
        assert path.read_text() == before and new.stat().st_ino == os.fstat(descriptor).st_ino
        made.append(new.read_text())
    monkeypatch.setattr(os, "fsync", sync)
    world.beat(3, 10)
    assert check(world)[0] == 0  # The time is that of the check before, so it is no older one.
    assert made == [path.read_text()] and f"\n3 {world.ticks()} 76 10 " in made[0]
    assert stat.S_IMODE(path.stat().st_mode) \
        == stat.S_IMODE((tmp_path / "memory.lock").stat().st_mode) \
        == 0o600


@pytest.mark.parametrize("timeout, seconds", [("5s", 5), ("500ms", 1)])
def test_how_long_a_check_waits_for_the_others(timeout: str, seconds: float, check: Check,
                                               monkeypatch: Patch) -> None:
    world = World(monkeypatch, self_=0)
    world.beat(3)
    ends: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: 70.0)

    def locking(descriptor: int, end: float) -> client.Steps[None]:
        ends.append(end)
        yield from ()
    monkeypatch.setattr(client, "locking", locking)
    assert check(world, "--timeout", timeout)[0] == 0 and ends == [70.0 + seconds]


def test_a_lock_that_is_a_link_and_a_system_without_locks(
        tmp_path: Path, check: Check, monkeypatch: Patch) -> None:
    world, path = written(tmp_path, check, monkeypatch)
    before = path.read_bytes()
    (tmp_path / "memory.lock").unlink()
    (tmp_path / "memory.lock").symlink_to(tmp_path / "elsewhere")
    world.passed += 1
    status, text = check(world)
    assert status == 3 and "cannot keep " in text and not (tmp_path / "elsewhere").exists()
    (tmp_path / "memory.lock").unlink()
    monkeypatch.setattr(client, "termios", None)
    assert check(world) == (3, f"1 alive at 127.0.0.1:9060; cannot keep '{path}': "
                               "this system has no locks for files")
    assert path.read_bytes() == before
