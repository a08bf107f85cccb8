"""States and events, from reports; compared with client.py where both can tell."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies

from dumpulse_fleet import client
from dumpulse_fleet.collect.ages import Answers
from dumpulse_fleet.collect.judge import Judge
from dumpulse_fleet.model.agents import Agent, Event, Profile, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.tests.collecting import profile
from dumpulse_fleet.web import view

BASE = 1_700_000_000.0
WARN, CRIT = 5, 30


class One:
    """One agent, whose variable 0 is its own; 1 to 4 are expected, value 10..90."""

    def __init__(self, **options: Any) -> None:
        options = {"now_from": "0", "expect": "1-4",
                   "warn": f"{WARN}s", "crit": f"{CRIT}s", **options}
        settings = profile(**options).settings
        for variable in settings.variables[1:5] if options["expect"] else ():
            variable.low = variable.warn_low = 10
            variable.high = variable.warn_high = 90
        self.profile = Profile(settings)
        self.table = Table([Agent("one", "127.0.0.1", self.profile, site="here")])
        self.judge = Judge(self.table)
        self.events: list[Event] = []

    def hear(self, at: float, entries: dict[int, tuple[int, int, int]]) -> list[Event]:
        """variable: (timestamp, sender, value)"""
        entry = np.zeros((1, 64), np.uint32)
        for number, (stamp, sender, value) in entries.items():
            entry[0, number] = (stamp & 0xFFFF) << 16 | sender << 8 | value
        when = np.array([BASE + at])
        events, _ = self.judge.take(Answers(np.array([0]), when, when + 0.001, when, entry))
        self.events += events
        return events

    def at(self, now: int, ages: dict[int, int], value: int = 50, clock: int = 1000
           ) -> list[Event]:
        """A report at this time, of variables with these ages."""
        own = {0: ((clock + now) & 0xFFFF, 99, 0)}
        return self.hear(now, own | {number: ((clock + now - age) & 0xFFFF, 9, value)
                                     for number, age in ages.items()})

    def miss(self, at: float) -> list[Event]:
        events = self.judge.miss(np.array([0]), BASE + at)
        self.events += events
        return events

    def states(self) -> str:
        return " ".join(State(each).words for each in self.table.state[0, 1:5])

    @property
    def state(self) -> int:
        return int(self.table.agent_state[0])


def short(events: list[Event]) -> list[tuple[int, str, str, str]]:
    return [(event.variable, event.what, event.was, event.now) for event in events]


ALL = {1: 0, 2: 0, 3: 0, 4: 0}


def test_from_pending_to_dead_and_back_with_one_event_for_each_change() -> None:
    one = One()
    assert one.states() == "pending pending pending pending" and one.state == State.PENDING
    assert one.table.state[0, 5] == State.UNWATCHED
    assert short(one.at(0, ALL)) == [(-1, "state", "pending", "alive")]
    assert one.states() == "alive alive alive alive" and one.state == State.ALIVE
    assert one.at(10, {**ALL, 2: 5}) == []
    (agent, variable) = one.at(16, {**ALL, 2: 11})
    assert variable == Event(BASE + 16, "one", 2, "state", "alive", "late", 16.0, "here")
    assert agent.variable == -1 and agent.now == "late"
    assert one.at(17, {**ALL, 2: 12}) == []
    assert short(one.at(36, {**ALL, 2: 31})) == [
        (-1, "state", "late", "dead"), (2, "state", "late", "dead")]
    assert one.at(40_000, {**ALL, 2: 39_995}) == []
    assert one.at(100_000, {**ALL, 2: 99_995}) == []  # its timestamp has wrapped
    assert one.states() == "alive dead alive alive" and one.state == State.DEAD
    (agent, variable) = one.at(100_010, ALL)
    assert variable.was == "dead" and variable.now == "alive"
    assert variable.lasted == pytest.approx(100_010 - 36)
    assert one.at(100_011, ALL, value=91) != []
    assert one.states() == " ".join(["out of range"] * 4) and one.state == State.OUT_OF_RANGE


def test_never_comes_after_a_grace() -> None:
    one = One()
    one.at(0, {1: 0, 2: 0, 3: 0})
    assert one.states() == "alive alive alive pending" and one.state == State.PENDING
    assert one.events == []
    one.at(CRIT, {1: 0, 2: 0, 3: 0})
    assert one.events == []
    assert short(one.at(CRIT + 1, {1: 0, 2: 0, 3: 0})) == [
        (-1, "state", "pending", "never"), (4, "state", "pending", "never")]


def test_after_a_reboot_there_is_a_grace_too_and_the_dead_are_not_alive() -> None:
    one = One()
    one.at(0, {**ALL, 2: 40})
    assert State.DEAD.words in one.states()
    one.at(10, {**ALL, 2: 50})
    one.events.clear()
    assert one.at(20, {1: 1}, clock=-18) == []  # contradicts what was: ask again
    assert one.states() == "alive dead alive alive"
    assert short(one.at(21, {1: 1}, clock=-18)) == [(-1, "rebooted", "", "rebooted")]
    assert one.states() == "alive pending pending pending"
    one.at(25, ALL, clock=-18)
    assert short(one.events[1:]) == [(-1, "state", "dead", "alive"), (2, "state", "dead", "alive")]
    assert one.table.reboots[0] == 1


def test_unreachable_after_so_many_rounds_and_its_variables_raise_nothing() -> None:
    one = One()
    one.at(0, {**ALL, 3: 10})
    one.events.clear()
    assert one.miss(10) == one.miss(20) == []
    assert one.states() == "alive alive late alive"
    assert short(one.miss(30)) == [(-1, "state", "late", "unreachable")]
    assert one.states() == "unknown unknown unknown unknown" and one.state == State.UNREACHABLE
    assert one.table.state[0, 9] == State.UNWATCHED
    assert one.miss(40) == [] and one.table.lost[0] == 4
    # Variable 3 was late before, and is late again: nothing to tell. Variable 4 died meanwhile.
    assert short(one.at(100, {**ALL, 3: 25, 4: 50})) == [
        (-1, "state", "unreachable", "dead"), (4, "state", "alive", "dead")]
    assert one.table.misses[0] == 0


def test_an_agent_is_damaged_while_one_of_its_last_rounds_had_a_damaged_answer() -> None:
    one = One()
    one.judge.miss(np.array([0]), BASE, damaged=np.array([True]))
    assert one.miss(10) == []
    assert [event.now for event in one.miss(20)] == ["damaged"]
    assert [event.now for event in one.miss(30)] == ["unreachable"]


def test_the_limits_themselves_are_well() -> None:
    one = One()
    one.at(0, ALL)
    one.at(50, {**ALL, 2: WARN, 3: WARN + 1, 4: CRIT})
    assert one.states() == "alive alive late late"
    one.at(51, {**ALL, 4: CRIT + 1})
    assert one.states() == "alive alive alive dead"
    for value, word in ((9, "out of range"), (10, "alive"), (90, "alive"), (91, "out of range")):
        one.at(52 + value, ALL, value=value)
        assert one.states() == " ".join([word] * 4)


def test_of_whom_nothing_is_expected_is_alive_when_it_answers() -> None:
    one = One(expect=None)
    assert short(one.hear(0, {})) == [(-1, "state", "pending", "alive")]
    assert one.state == State.ALIVE
    one.hear(1, {5: (0, 3, 50)})
    assert one.hear(2, {5: (1, 4, 50)}) == []  # nobody asked who sends it


def test_all_64_variables_are_judged_though_few_are_used() -> None:
    for number in (7, 8, 63):
        one = One(expect=f"1-{number}")
        one.at(0, {number: 0})
        one.at(50, {number: CRIT + 1})
        assert one.table.state[0, number] == State.DEAD
        assert short(one.events[-1:]) == [(number, "state", "alive", "dead")] or number < 8
        one = One()
        one.hear(0, {number: (5, 6, 7)})
        assert one.table.entry[0, number] == 5 << 16 | 6 << 8 | 7


def test_how_long_each_state_lasted_and_what_the_table_says() -> None:
    one = One()
    table = one.table

    def moved(happens: Callable[[], object]) -> bool:
        before = table.version
        happens()
        return bool(table.changed[0] > before)

    assert moved(lambda: one.at(10, ALL)) and not moved(lambda: one.at(20, ALL))
    assert one.events[0].lasted == -1  # nobody knows
    assert table.heard_at[0] == BASE + 20
    assert table.round_trip[0] == pytest.approx(0.001, rel=0.01)
    assert not moved(lambda: one.miss(30)) and not moved(lambda: one.miss(40))
    assert moved(lambda: one.miss(50)) and not moved(lambda: one.miss(60))
    assert moved(lambda: one.at(75, {**ALL, 1: CRIT + 1}))
    assert moved(lambda: one.at(80, ALL))
    assert table.since[0, 1] == table.agent_since[0] == BASE + 80
    assert [(event.variable, event.now, event.lasted) for event in one.events[1:]] == [
        (-1, "unreachable", 40), (-1, "dead", 25), (1, "dead", 65), (-1, "alive", 5),
        (1, "alive", 5)]


def test_an_agent_that_answers_is_reachable_though_nothing_else_is_known() -> None:
    one = One()
    one.miss(1), one.miss(2), one.miss(3)
    assert short(one.hear(4, {})) == [(-1, "state", "unreachable", "pending")]
    assert one.states() == "pending pending pending pending"


def test_in_a_grace_nobody_becomes_unreachable() -> None:
    one = One()
    for at in range(10):
        assert one.judge.miss(np.array([0]), BASE + at, True) == []
    assert one.table.lost[0] == 10 and one.state == State.PENDING
    assert short(one.miss(11)) == [(-1, "state", "pending", "unreachable")]


def test_what_an_agent_forgot_stays_dead() -> None:
    one = One()
    one.at(0, ALL)
    one.at(40_000, {**ALL, 2: 39_999})
    one.events.clear()
    one.at(65_100, {1: 0, 3: 0, 4: 0})
    assert one.events == [] and one.states() == "alive dead alive alive"
    assert one.miss(1) == one.miss(2) == [] and one.miss(3) != []
    one.at(65_200, {1: 0, 3: 0, 4: 0})
    assert one.states() == "alive dead alive alive"


def test_who_was_late_when_its_agent_forgot_it_is_dead_in_time() -> None:
    one = One()
    one.at(0, ALL)
    one.at(40_000, {**ALL, 2: 10})
    assert one.states() == "alive late alive alive"
    one.at(105_100, {1: 0, 3: 0, 4: 0})
    assert one.states() == "alive dead alive alive"


@pytest.mark.parametrize("age, words", [(WARN + 5, "late"), (99, "dead")])
def test_who_is_not_well_is_not_better_because_a_clock_was_set(age: int, words: str) -> None:
    one = One()
    one.at(0, ALL)
    one.at(100, {**ALL, 2: age})
    one.events.clear()
    stamp = 1000 + 100 - age
    for again in (0, 0.1):
        one.hear(110 + again, {0: (stamp + 1, 99, 0), **{
            number: (stamp + (number != 2), 9, 50) for number in ALL}})
    assert one.states() == f"alive {words} alive alive"
    assert short(one.events) == [(-1, "clock", "", "rebooted, or its clock was set")]


def test_a_restart_is_told_by_the_boot_count_of_a_node(tmp_path: pathlib.Path) -> None:
    names = tmp_path / "names.ini"
    names.write_text("[dumpulse]\nnow-from = 0\n[1]\nname = pump\nboots = 5\n")
    one = One(names=str(names), expect=None)

    def at(now: int, boots: tuple[int, int] | None) -> list[tuple[int, str, str, str]]:
        """A report, with a boot count of this age and value."""
        entries = {} if boots is None else {5: (1000 + now - boots[0], 76, boots[1])}
        return [event for event in short(one.hear(now, {
            0: (1000 + now, 99, 0), 1: (1000 + now, 76, 9), **entries})) if event[1] != "state"]

    assert at(0, (100, 0x24)) == at(10, (110, 0x24)) == []  # the first one tells nothing
    assert at(20, (3, 0x85)) == [(1, "restarted", "", "restarted: watchdog, boot 5")]
    assert at(30, (13, 0x85)) == []
    assert at(39, (0, 0x84)) == [(1, "restarted", "", "restarted: watchdog, boot 4")]
    assert at(40, (1, 0x85)) == [(1, "restarted", "", "restarted: watchdog, boot 5")]
    found = view.View(one.table).agent(0, view.Marks(
        np.zeros(1, np.bool_), np.full(1, None, object)))["variables"]
    assert found[1]["boot"] == {"at": BASE + 39, "at_least": False, "words": "watchdog, boot 5"}
    assert found[2]["boot"] is None
    assert at(50, (300, 0x24)) == [], "from a table that the agent has loaded"
    assert [what for _, what, _, _ in at(60, (310, 0x24))] == ["clock"]


def test_an_unknown_clock_says_unknown_until_it_knows_more() -> None:
    one = One(now_from=None)
    def hear(at: int, stamps: dict[int, int]) -> None:
        one.hear(at, {number: (stamp, 9, 50) for number, stamp in stamps.items()})
    hear(0, {1: 7000, 2: 7000, 3: 7000, 4: 7000})
    assert one.states() == "unknown unknown unknown unknown"
    hear(3, {1: 7003, 2: 7000, 3: 7000, 4: 7000})
    assert one.states() == "alive unknown unknown unknown"
    hear(7, {1: 7007, 2: 7007, 3: 7000, 4: 7000})
    assert one.states() == "alive alive late late"
    hear(32, {1: 7032, 2: 7007, 3: 7000, 4: 7032})
    assert one.states() == "alive late dead alive"


@given(strategies.lists(strategies.tuples(
    strategies.integers(1, 3000), strategies.lists(strategies.one_of(
        strategies.none(), strategies.integers(0, 65_000)), min_size=4, max_size=4),
    strategies.integers(0, 120)), min_size=1, max_size=8), strategies.integers(0, 65_535))
def test_states_are_those_of_the_client(rounds: list[tuple[int, list[int | None], int]],
                                        clock: int) -> None:
    """Below the wrap, and after the grace, with all reports in order. An age of None: nothing new,
    or never heard."""
    one = One()
    agent_clock, history = client.Clock(one.profile.settings), client.History()
    now, stamped = 100, dict[int, tuple[int, int]]()
    for wait, ages, value in rounds:
        now += wait
        for number, age in enumerate(ages, 1):
            if age is not None and age < wait:  # it was heard since the report before
                stamped[number] = now - age, value
            elif age is not None and number not in stamped and now == 100 + wait:
                stamped[number] = now - age, value
        entries = {0: (clock + now, 99, 0)} | {
            number: (clock + at, 9, what) for number, (at, what) in stamped.items()
            if now - at < 65_000}
        report = [client.Entry(0, 0, 0)] * 64
        for number, (stamp, sender, what) in entries.items():
            report[number] = client.Entry(stamp & 0xFFFF, sender, what)
        one.table.began[:] = BASE - 1e6  # the grace is over
        one.hear(now, entries)
        agent_clock.take(tuple(report), BASE + now, BASE + now + 0.001)
        readings = client.interpret(agent_clock, history)
        for number in range(1, 5):
            status, _ = client.judge(readings[number])
            state = State(one.table.state[0, number])
            if readings[number].state == client.NEVER and (
                    number in stamped or not one.table.reports[0] > 1):
                continue  # the agent has forgotten it: here, who is dead stays dead
            assert {client.OK: state in (State.ALIVE, State.OUT_OF_RANGE),
                    client.LATE: state == State.LATE, client.DEAD: state == State.DEAD,
                    client.NEVER: state == State.NEVER}[readings[number].state], (
                        number, readings[number], state)
            assert (state == State.ALIVE) == (status == 0)
            age = int(one.table.clock[0] - one.table.stamped[0, number])
            if readings[number].age_ms is not None:
                assert age * 1000 == readings[number].age_ms
