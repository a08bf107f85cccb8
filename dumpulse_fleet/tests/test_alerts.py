"""Who hears of what. Hypothesis tries sequences of trouble, and compares what is told with the
plain truth: what is bad, since when, and what would explain it."""

import dataclasses
import json
import math
import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dumpulse_fleet.alert.decide import (BLIND_LEAST, COLLECTOR, FLAP_S, FLAPS, RECENT_S, SEVERITY,
                                         SPREAD_S, Core, Item, Key, Message, Rules, Subject)
from dumpulse_fleet.alert.message import by_state, named
from dumpulse_fleet.model.agents import Agent, Mute, State
from dumpulse_fleet.tests.collecting import profile

RULES = Rules(wait=30, settle=30, again=300, remind=3600, grace=60)
PROFILE = profile(expect="0-4")
WALL = 1.8e9


def agent(name: str, site: str = "", parent: str = "", **labels: str) -> Agent:
    return Agent(name, "127.0.0.1", PROFILE, site, labels, parent=parent)


class World:
    """A core, and a clock that both of them follow."""

    def __init__(self, agents: Iterable[Agent], rules: Rules = RULES) -> None:
        self.now = 1000.0
        self.offset = 0.0
        self.rules, self.agents = rules, list(agents)
        self.mutes: list[Mute] = []
        self.messages: list[Message] = []
        self.core = Core(rules, self.agents, self.now)
        self.state: dict[tuple[str, int], tuple[State, float]] = {}
        self.put(*((each.name, -1, State.ALIVE) for each in self.agents))

    @property
    def wall(self) -> float:
        return WALL + self.offset + self.now

    def put(self, *states: tuple[str, int, State]) -> None:
        for name, variable, state in states:
            self.state[name, variable] = state, self.wall
            self.core.see(name, variable, state, self.wall, self.now, self.wall)

    def silence(self, *names: str) -> None:
        self.put(*((name, -1, State.UNREACHABLE) for name in names))

    def heal(self, *names: str) -> None:
        self.put(*((name, -1, State.ALIVE) for name in names))

    def run(self, seconds: float, step: float = 1.0) -> list[Message]:
        """The messages of the time that passes."""
        first = len(self.messages)
        end = self.now + seconds
        while self.now < end:
            self.now += step
            self.messages += self.core.step(self.now, self.wall, self.mutes)
        return self.messages[first:]

    def restart(self, away: float = 0.0, agents: Sequence[Agent] = ()) -> None:
        """A new process, whose clock is elsewhere."""
        kept = json.loads(json.dumps(self.core.dump(self.now, self.wall)))
        self.agents = list(agents) or self.agents
        self.now += away
        self.core = Core(self.rules, self.agents, self.now + 5000)
        self.core.load(kept, self.now + 5000, self.wall)
        self.now += 5000
        self.offset -= 5000
        names = {each.name for each in self.agents}
        for (name, variable), (state, since) in self.state.items():
            if name in names:
                self.core.see(name, variable, state, since, self.now, self.wall)


def told(messages: Iterable[Message]) -> list[tuple[str, str, int, int, int]]:
    return [(each.kind, each.key.name, len(each.new), len(each.over), len(each.open))
            for each in messages]


# ---------------------------------------------------------------- one rule after the other
def test_a_bad_state_is_told_once_and_its_end_once() -> None:
    world = World([agent("a", "berlin"), agent("b", "berlin")])
    world.run(60)
    world.silence("a")
    assert not world.run(29)
    (message,) = world.run(1000)
    assert told([message]) == [("problem", "berlin", 1, 0, 1)]
    assert message.unix == WALL + 1090 + 1, "it took longer than the wait"
    (item,) = message.new
    assert item[:2] == (Subject("agent", "a"), State.UNREACHABLE) and item.began == WALL + 1060
    world.heal("a")
    assert not world.run(29)
    (end,) = world.run(31)
    assert told([end]) == [("resolved", "berlin", 0, 1, 0)]
    assert end.incident == message.incident and (message.number, end.number) == (1, 2)
    assert not world.run(100_000, 60)


def test_a_storm_of_1000_agents_is_one_message() -> None:
    """Each is noticed, and comes back, at its own time within a period."""
    chance = random.Random(1)
    stormy = [f"a{number}" for number in range(1000)]
    world = World([*(agent(name, "berlin") for name in stormy),
                   *(agent(f"b{number}", "bern") for number in range(1100))])
    world.run(60)
    for state, wanted in ((State.UNREACHABLE, ("problem", "berlin", 1000, 0, 1000)),
                          (State.ALIVE, ("resolved", "berlin", 0, 1000, 0))):
        chance.shuffle(stormy)
        heard = []
        for second in range(10):
            world.put(*((name, -1, state) for name in stormy[second * 100:second * 100 + 100]))
            heard += world.run(1)
        heard += world.run(100)
        assert told(heard) == [wanted]
        assert not world.run(3000, 30)


def test_later_trouble_of_a_site_waits_and_is_told_together() -> None:
    world = World([agent(f"a{number}", "berlin") for number in range(19)])
    world.run(60)
    world.silence("a0", *(f"a{number}" for number in range(6, 10)))
    first = world.run(40)
    for number in range(1, 6):
        world.silence(f"a{number}")
        assert not world.run(20)
    world.heal("a0")
    second = world.run(1000)
    assert told(first + second) == [("problem", "berlin", 5, 0, 5), ("problem", "berlin", 5, 1, 9)]
    assert second[0].unix - first[0].unix >= RULES.again


@pytest.mark.parametrize("first, second", [
    ([("a0", -1, State.UNREACHABLE)], [(f"a{one}", -1, State.DAMAGED) for one in range(1, 31)]),
    ([(f"a{one}", 3, State.OUT_OF_RANGE) for one in range(9)], [("a20", -1, State.UNREACHABLE)])])
def test_what_is_worse_than_what_was_told_is_told_at_once(
        first: list[tuple[str, int, State]], second: list[tuple[str, int, State]]) -> None:
    world = World([*(agent(f"a{number}", "berlin") for number in range(31)),
                   *(agent(f"b{number}", "bern") for number in range(40))])
    world.run(60)
    world.put(*first)
    (one,) = world.run(40)
    world.put(*second)
    (two,) = world.run(2 * RULES.wait + 5)
    assert (len(one.new), len(two.new)) == (len(first), len(second))


def test_children_of_a_dead_parent_raise_nothing() -> None:
    """Whichever is noticed first; also the children of children, and a circle does no harm."""
    for order in (["gate", "child", "grandchild"], ["grandchild", "child", "gate"]):
        world = World([agent("gate", "berlin"), agent("child", "bern", "gate"),
                       agent("grandchild", "rome", "child"), agent("x", "oslo", "y"),
                       agent("y", "oslo", "x")])
        world.run(60)
        heard = []
        for name in order:
            world.silence(name)
            heard += world.run(10)
        heard += world.run(5000)
        assert [each.key.name for each in heard if each.new] == ["berlin"]
        world.heal("gate")  # now they are on their own
        heard = world.run(1000)
        assert sorted(each.key.name for each in heard) == ["berlin", "bern"]
        world.silence("x", "y")
        world.run(1000)


def test_variables_of_a_silent_agent_are_neither_good_nor_bad() -> None:
    world = World([agent("a", "berlin")])
    world.put(("a", 3, State.DEAD))
    assert told(world.run(100)) == [("problem", "berlin", 1, 0, 1)]
    world.silence("a")
    world.put(("a", 3, State.UNKNOWN))
    assert told(world.run(1000)) == [("problem", "berlin", 1, 0, 2)]
    world.heal("a")
    world.put(("a", 3, State.DEAD))
    assert told(world.run(1000)) == [("resolved", "berlin", 0, 1, 1)]
    world.put(("a", 3, State.ALIVE))
    assert told(world.run(1000)) == [("resolved", "berlin", 0, 1, 0)]


def test_what_gets_worse_is_told_again_and_what_gets_better_is_not() -> None:
    world = World([agent("a", "berlin")])
    world.put(("a", 3, State.OUT_OF_RANGE))
    world.put(("a", 2, State.LATE))  # nobody asked to be told of it
    assert told(world.run(400)) == [("problem", "berlin", 1, 0, 1)]
    world.put(("a", 3, State.DEAD))
    assert told(world.run(400)) == [("problem", "berlin", 1, 0, 1)]
    world.put(("a", 3, State.OUT_OF_RANGE))
    assert not world.run(400)


@pytest.mark.parametrize("match,holds", [
    ({"site": "ber*"}, True), ({"name": "a"}, True), ({"rack": "7"}, True),
    ({"variable": "3"}, True), ({"site": "berlin", "rack": "8"}, False),
    ({"variable": "2"}, False), ({"floor": "*"}, True), ({"floor": "?*"}, False)])
def test_a_mute_holds_back_until_it_ends(match: dict[str, str], holds: bool) -> None:
    world = World([agent("a", "berlin", rack="7")])
    world.run(60)
    world.mutes = [Mute(match, world.wall, world.wall + 1000)]
    world.put(("a", 3, State.DEAD))
    assert len(world.run(990)) == (not holds)
    assert world.core.counts["muted"] == holds
    assert len(world.run(200)) == holds
    assert world.core.counts["muted"] == 0


def test_a_mute_never_holds_back_a_resolution_but_a_reminder() -> None:
    world = World([agent("a", "berlin")])
    world.silence("a")
    assert len(world.run(100)) == 1
    world.mutes = [Mute({"site": "berlin"}, world.wall, world.wall + 9000)]
    assert not world.run(8000)
    world.heal("a")
    assert told(world.run(100)) == [("resolved", "berlin", 0, 1, 0)]


def test_what_is_acknowledged_is_not_repeated_but_what_is_new_is_told() -> None:
    world = World([agent("a", "berlin"), agent("b", "berlin")])
    world.silence("a")
    assert told(world.run(100)) == [("problem", "berlin", 1, 0, 1)]
    known = Mute({"name": "*"}, 0, world.wall + 9000, "on my way", "ada", 1, acknowledges=True)
    world.mutes = [known, dataclasses.replace(known, ends=world.wall + 5000, by="bob")]
    assert not world.run(8000), "no reminder"
    world.silence("b")
    (message,) = world.run(100)
    assert message.new[0].acknowledged == message.open[0].acknowledged == known, "the longest one"
    assert message.muted == 0
    reminder = world.run(8000)[0]
    assert reminder.kind == "reminder" and reminder.open[0].acknowledged is None
    world.heal("a", "b")
    assert told(world.run(100)) == [("resolved", "berlin", 0, 2, 0)]


def test_reminders_come_while_it_is_not_over() -> None:
    world = World([agent("a", "berlin"), agent("b", "berlin")])
    world.silence("a")
    heard = world.run(2 * 3600 + 200)
    assert told(heard) == [("problem", "berlin", 1, 0, 1), ("reminder", "berlin", 0, 0, 1),
                           ("reminder", "berlin", 0, 0, 1)]
    silent = World([agent("a", "berlin")], rules=Rules(remind=0))
    silent.silence("a")
    assert len(silent.run(100_000, 10)) == 1


def test_nothing_is_told_in_the_grace_after_a_start() -> None:
    world = World([agent("a", "berlin")])
    world.silence("a")
    assert not world.run(59)
    assert len(world.run(10)) == 1


def test_a_blind_collector_is_one_alert() -> None:
    names = [f"a{number}" for number in range(100)]
    world = World([agent(name, f"site {number % 10}") for number, name in enumerate(names)])
    world.run(60)
    heard = []
    for second in range(10):
        world.silence(*names[second * 10:second * 10 + 10])
        heard += world.run(1)
    heard += world.run(3000)
    assert [(each.key.kind, each.kind) for each in heard] == [("collector", "problem")]
    assert world.core.blind
    for second in range(10):
        world.heal(*names[second * 10:second * 10 + 9])  # one of ten stays dead
        heard += world.run(1)
    heard = world.run(3000)
    assert not world.core.blind
    assert sorted(told(heard)) == [("problem", "site 9", 10, 0, 10), ("resolved", "", 0, 1, 0)]
    lone = World([agent(f"a{number}", "berlin") for number in range(BLIND_LEAST - 1)])
    lone.silence(*(each.name for each in lone.agents))
    assert [each.key.kind for each in lone.run(200)] == ["site"], "too few to tell"
    half = World([agent(f"a{number}", "berlin") for number in range(2 * BLIND_LEAST)])
    half.silence(*(each.name for each in half.agents[:BLIND_LEAST]))
    assert [each.key.kind for each in half.run(200)] == ["collector"], "exactly 50 percent"


def test_after_a_while_the_dead_majority_is_believed() -> None:
    """Others answer, so it is not the collector."""
    names = [f"a{number}" for number in range(100)]
    world = World([agent(name, "berlin" if number < 60 else "bern")
                   for number, name in enumerate(names)])
    world.run(60)
    world.silence(*names[:60])
    assert [each.key.kind for each in world.run(RECENT_S - 60)] == ["collector"]
    assert sorted((each.key.kind, each.kind) for each in world.run(300)) == [
        ("collector", "resolved"), ("site", "problem")]
    world.restart()  # they have been silent for long, so a restart is no reason to be blind
    assert not world.run(1000) and not world.core.blind


def test_what_flaps_is_damped_and_told_in_the_end() -> None:
    world = World([agent("a", "berlin")])
    world.run(60)
    for _ in range(200):  # 15 s away, 40 s there, for 3 hours
        world.silence("a")
        world.run(15)
        world.heal("a")
        world.run(40)
    assert len(world.messages) <= 4 and world.messages[0].new[0].flapping
    problems = [each for each in world.messages if each.kind == "problem"]
    assert len(problems) == 1
    heard = world.run(2 * FLAP_S)
    assert told(heard) == [("resolved", "berlin", 0, 1, 0)]


def test_what_is_not_configured_any_more_is_over() -> None:
    for restart in (False, True):
        world = World([agent("a", "berlin"), agent("b", "berlin")])
        world.put(("a", -1, State.UNREACHABLE), ("b", -1, State.UNREACHABLE), ("a", 3, State.DEAD))
        assert len(world.run(100)) == 1
        if restart:
            world.restart(0.0, [agent("c", "berlin")])
        else:
            world.core.replace(RULES, [agent("c", "berlin")])
        heard = world.run(400)
        assert told(heard) == [("resolved", "berlin", 0, 3, 0)]
        assert all(not item.agent and item.removed for each in heard for item in each.over)
    world = World([agent("a", "berlin")])
    world.silence("a")
    assert len(world.run(100)) == 1
    for agents in ([], world.agents):  # it comes back before its end is told
        world.core.replace(RULES, agents)
    world.silence("a")
    assert not world.run(400)
    world.heal("a")
    (end,) = world.run(200)
    assert [item.removed for item in end.over] == [False]


# ---------------------------------------------------------------- the edges of these rules
def test_who_is_asked_seldom_is_told_later() -> None:
    """Until a period is over, others that would explain it may not be noticed; a parent needs all
    its rounds."""
    slow = dataclasses.replace(agent("slow", "berlin"), period=100.0)
    world = World([slow, dataclasses.replace(agent("child", "bern", "slow"), period=1.0)],
                  rules=dataclasses.replace(RULES, wait=5))
    world.run(60)
    world.silence("slow")
    assert not world.run(99) and told(world.run(5)) == [("problem", "berlin", 1, 0, 1)]
    world.heal("slow")
    world.run(1000)
    world.silence("child")
    assert not world.run(399) and told(world.run(10)) == [("problem", "bern", 1, 0, 1)]


def test_only_who_answered_of_late_counts_for_a_blind_collector() -> None:
    names = [f"a{number}" for number in range(100)]
    world = World([agent(name) for name in names])
    world.run(60)
    world.silence(*names[:40])
    world.run(RECENT_S + 10)
    world.silence(*names[40:75])  # 35 of the 60 that still answered.
    world.run(100)
    assert world.core.blind
    world = World([agent(name) for name in names[:25]])
    world.put(*((name, -1, State.PENDING) for name in names[10:25]))
    world.silence(*names[:10])
    world.run(1)
    assert world.core.blind  # nobody has answered yet


def test_problems_that_come_back_after_a_while_do_not_flap() -> None:
    world = World([agent("a", "berlin"), agent("b", "bern")])
    for _ in range(6):
        for name, seconds in (("a", FLAP_S - 100), ("b", 200)):
            world.silence(name)
            world.run(100)
            world.heal(name)
            world.run(seconds - 100)
    assert len(world.messages) == 24
    assert not any(item.flapping for each in world.messages for item in each.new)
    world.run(FLAP_S)
    world.silence("b")
    assert [subject.name for subject in world.core._onsets] == ["b"], "old ones are forgotten"


def test_an_agent_with_a_dead_variable_is_not_told_beside_it() -> None:
    world = World([agent("a", "berlin")])
    world.put(("a", -1, State.DEAD), ("a", 3, State.DEAD))
    (message,) = world.run(200)
    assert [item.subject for item in message.new] == [Subject("agent", "a", 3)]


def test_what_flapped_while_it_was_told_must_be_good_for_longer_also_after_a_restart() -> None:
    for restart in (False, True):
        world = World([agent("a", "berlin")])
        world.silence("a")
        assert len(world.run(100)) == 1
        for _ in range(4):
            world.heal("a")
            world.run(10)
            world.silence("a")
            world.run(10)
        if restart:
            world.restart()
        world.heal("a")
        assert not world.run(400), "30 s, doubled four times, are not over"
        assert told(world.run(200)) == [("resolved", "berlin", 0, 1, 0)]


def test_what_goes_on_and_on_does_not_hold_up_the_first_message() -> None:
    world = World([agent(f"a{number}", "berlin") for number in range(60)],
                  rules=dataclasses.replace(RULES, blind=100))
    world.run(60)
    for number in range(13):
        world.silence(f"a{number}")
        world.run(9)
    assert len(world.messages) == 1
    slow = dataclasses.replace(agent("slow", "bern"), period=3600.0)
    world = World([agent("fast", "bern"), slow])
    world.run(60)
    world.silence("fast", "slow")
    assert not world.run(SPREAD_S + 2 * RULES.wait - 1)
    assert told(world.run(10)) == [("problem", "bern", 1, 0, 1)]


@pytest.mark.parametrize("seconds", [1, 25, 39])  # between two agents of six
def test_an_outage_that_is_noticed_late_is_one_message(seconds: float) -> None:
    """Agents that miss rounds, or the time that the longest of the site takes, show that more is
    to come, although the first ones have been bad for longer than `wait`."""
    slow = dataclasses.replace(agent("a5", "berlin"), period=50.0)
    world = World([*(agent(f"a{number}", "berlin") for number in range(5)), slow,
                   agent("b", "bern")])
    world.run(60)
    world.core.failing = {"berlin"}
    world.silence("b")
    for number in range(6):
        world.silence(f"a{number}")
        world.run(seconds)
    world.core.failing = ()
    world.run(1000)
    assert told(world.messages) == [("problem", "bern", 1, 0, 1), ("problem", "berlin", 6, 0, 6)] \
        or told(world.messages) == [("problem", "berlin", 6, 0, 6), ("problem", "bern", 1, 0, 1)]


def test_after_a_start_an_outage_waits_for_look_ups_of_its_site() -> None:
    for seconds, messages in ((90, [2]), (500, [1, 1])):  # It waits SPREAD_S at most.
        world = World([agent("a", "berlin"), agent("b", "berlin"), agent("c", "bern")])
        world.core.sought = {"berlin", ""}
        world.silence("a", "c")
        (message,) = world.run(seconds) if seconds == 90 else world.run(200)
        assert message.key.name == "bern"
        world.run(seconds - 90)
        world.core.sought = ()
        world.silence("b")
        world.run(1000)
        assert [len(each.new) for each in world.messages if each.key.name == "berlin"] == messages


def test_a_mute_that_begins_later_holds_nothing_back() -> None:
    world = World([agent("a", "berlin")])
    world.mutes = [Mute({"name": "a"}, world.wall + 9e6, 9e12)]
    world.silence("a")
    assert world.run(1000)


def test_over_a_restart_the_next_message_comes_when_it_would_have_come() -> None:
    world = World([agent("a", "berlin"), agent("b", "berlin")])
    world.put(("b", 3, State.DEAD))
    assert not world.core.dump(world.now, world.wall)["problems"], "it was not told yet"
    world.put(("b", 3, State.ALIVE))
    world.silence("a")
    (first,) = world.run(100)
    world.run(150)
    world.restart()
    world.silence("b")
    (second,) = world.run(1000)
    assert second.unix - first.unix == pytest.approx(RULES.again, abs=15)
    assert second.incident == first.incident and second.number == 2


def test_the_worst_is_named_first() -> None:
    world = World([agent("a", "berlin"), agent("b", "berlin")])
    world.put(("a", 2, State.OUT_OF_RANGE), ("b", 3, State.DEAD))
    (message,) = world.run(200)
    assert [item.subject.name for item in message.new] == ["b", "a"]
    states = [State.DEAD, State.DAMAGED, State.LATE, State.UNREACHABLE]
    items = [message.new[0]._replace(state=state) for state in states]
    assert [state.words for state, _ in by_state(items)] == [
        "unreachable", "damaged", "dead", "late"]
    world.core.nameless = {"a"}
    world.put(("a", -1, State.UNREACHABLE), ("b", -1, State.UNREACHABLE))
    (message,) = world.run(400)
    assert [named(item) for item in message.new] == ["a (its name does not resolve)", "b"]


def test_a_variable_that_nobody_expects_any_more_is_over() -> None:
    world = World([agent("a", "berlin")])
    world.put(("a", 3, State.DEAD))
    world.run(200)
    world.core.replace(RULES, [dataclasses.replace(agent("a", "berlin"), profile=profile())])
    assert told(world.run(400)) == [("resolved", "berlin", 0, 1, 0)]


def test_a_grandparent_explains_though_nothing_is_known_of_the_parent() -> None:
    world = World([agent("gate", "berlin"), agent("child", "bern", "gate"),
                   agent("grandchild", "rome", "child")])
    world.run(60)
    world.put(("child", -1, State.PENDING))
    world.silence("gate", "grandchild")
    assert [each.key.name for each in world.run(1000)] == ["berlin"]


# ---------------------------------------------------------------- any sequence
CAST = [agent("door", "A"), *(agent(f"a{each}", "A", "door") for each in range(4)),
        *(agent(f"b{each}", "B") for each in range(6)),
        *(agent(f"c{each}", "C") for each in range(3))]
NAMES = [each.name for each in CAST]
STEP = 10.0


class Sequences(RuleBasedStateMachine):
    """`truth` has the states and since when. What is told is compared with it, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(CAST)
        self.truth: dict[Subject, State] = {}
        self.since: dict[Subject, float] = {}  # The time of the last change of its level.
        self.onsets: dict[Subject, int] = {}
        self.told: dict[Subject, int] = {}  # severities
        self.last: dict[Key, tuple[float, bool]] = {}  # when a message was, and if any stayed open
        self.clock_was_set = False
        for name in NAMES:
            self.put(name, -1, State.ALIVE)
        for each in range(6):
            self.put(f"b{each}", 3, State.ALIVE)
        self.pass_time(60)

    # ---- what happens
    def put(self, name: str, variable: int, state: State) -> None:
        subject = Subject("agent", name, variable)
        was = self.truth.get(subject, State.PENDING)
        if self.bad(subject, was) != self.bad(subject, state) or was == State.PENDING \
                or (was in (State.UNKNOWN,)) != (state in (State.UNKNOWN,)):
            self.since[subject] = self.world.now
        if self.bad(subject, state) and not self.bad(subject, was):
            self.onsets[subject] = self.onsets.get(subject, 0) + 1
        self.truth[subject] = state
        self.world.put((name, variable, state))

    @staticmethod
    def bad(subject: Subject, state: State) -> bool:
        return (state == State.UNREACHABLE if subject.variable < 0
                else state in (State.DEAD, State.OUT_OF_RANGE))

    def agent_is(self, name: str, state: State) -> None:
        self.put(name, -1, state)
        if name[0] == "b":
            subject = Subject("agent", name, 3)
            if state == State.UNREACHABLE:
                self.put(name, 3, State.UNKNOWN)
            elif self.truth[subject] == State.UNKNOWN:
                self.put(name, 3, State.ALIVE)

    @rule(name=some.sampled_from(NAMES), up=some.booleans())
    def agent_changes(self, name: str, up: bool) -> None:
        self.agent_is(name, State.ALIVE if up else State.UNREACHABLE)

    @rule(site=some.sampled_from("ABC"), up=some.booleans())
    def site_changes(self, site: str, up: bool) -> None:
        for each in CAST:
            if each.site == site:
                self.agent_is(each.name, State.ALIVE if up else State.UNREACHABLE)

    @rule(up=some.booleans())
    def all_change(self, up: bool) -> None:
        for name in NAMES:
            self.agent_is(name, State.ALIVE if up else State.UNREACHABLE)

    @rule(each=some.integers(0, 5), state=some.sampled_from(
        [State.ALIVE, State.LATE, State.OUT_OF_RANGE, State.DEAD]))
    def variable_changes(self, each: int, state: State) -> None:
        if self.truth[Subject("agent", f"b{each}")] == State.ALIVE:
            self.put(f"b{each}", 3, state)

    @rule(match=some.sampled_from([{"site": "A"}, {"name": "b*"}, {"variable": "3"},
                                   {"name": "*"}]), seconds=some.integers(30, 1500))
    def somebody_mutes(self, match: dict[str, str], seconds: int) -> None:
        self.world.mutes.append(Mute(match, self.world.wall, self.world.wall + seconds))

    @rule(name=some.sampled_from(NAMES), times=some.integers(2, 8), bad=some.integers(5, 40),
          good=some.integers(5, 200))
    def agent_flaps(self, name: str, times: int, bad: int, good: int) -> None:
        for _ in range(times):
            self.agent_is(name, State.UNREACHABLE)
            self.pass_time(bad)
            self.agent_is(name, State.ALIVE)
            self.pass_time(good)

    @precondition(lambda self: not self.clock_was_set)
    @rule()
    def restart(self) -> None:
        """A new process knows only by the clock how long ago something was. So none starts here
        after the clock was set: what it says of the time before would be wrong."""
        self.world.restart()
        passed = 5000  # s by which the new clock is ahead
        self.since = {subject: since + passed for subject, since in self.since.items()}
        self.last = {key: (at + passed, opened) for key, (at, opened) in self.last.items()}
        self.onsets = {subject: 99 for subject in self.since}  # unknown here: allow all

    @rule(hours=some.sampled_from([-5, 3]))
    def clock_is_set(self, hours: int) -> None:
        self.world.offset += hours * 3600
        self.clock_was_set = True

    @rule()
    def reload(self) -> None:
        self.world.core.replace(RULES, CAST)
        for subject, state in self.truth.items():
            self.world.put((subject.name, subject.variable, state))

    # ---- what is told
    @rule(seconds=some.sampled_from([5, 30, 60, 400, 1000]))
    def pass_time(self, seconds: float) -> None:
        end = self.world.now + seconds
        while self.world.now < end:
            for message in self.world.run(STEP, STEP):
                self.check(message)

    def check(self, message: Message) -> None:
        now = self.world.now
        was_at, was_open = self.last.get(message.key, (-math.inf, False))
        known = [severity for subject, severity in self.told.items()
                 if self.key(subject) == message.key]
        assert not (was_open and message.open) or now - was_at >= RULES.again \
            or len(message.new) > len(known) \
            or any(SEVERITY[item.state] > max(known) for item in message.new), "too many messages"
        self.last[message.key] = (now, bool(message.open))
        for item in message.new:
            subject = item.subject
            assert SEVERITY[item.state] > self.told.get(subject, 0), f"{subject} is told twice"
            self.told[subject] = SEVERITY[item.state]
            if subject.kind == "agent":
                self.check_new(subject, item)
        for item in message.over:
            assert self.told.pop(item.subject, 0), f"the end of {item.subject} is told, no begin"
            if item.subject.kind == "agent":
                assert not self.bad(item.subject, self.truth[item.subject])
                assert self.truth[item.subject] != State.UNKNOWN
                assert now - self.since[item.subject] >= RULES.settle - STEP
        here = {subject for subject in self.told if self.key(subject) == message.key}
        assert {item.subject for item in message.open} == here
        assert message.new or message.over or (
            message.kind == "reminder" and here and now - was_at >= RULES.remind)

    def check_new(self, subject: Subject, item: Item) -> None:
        truth, now = self.truth[subject], self.world.now
        assert self.bad(subject, truth) and truth == item.state, f"{subject} is {truth.words}"
        assert now - self.since[subject] >= RULES.wait - STEP or (
            self.onsets[subject] >= FLAPS and item.flapping)
        assert not self.explained(subject), f"{subject} is explained by something else"
        assert not self.muted(subject)

    @staticmethod
    def key(subject: Subject) -> Key:
        sites = {each.name: each.site for each in CAST}
        return (Key("site", sites[subject.name]) if subject.kind == "agent"
                else Key(subject.kind, subject.name))

    def silent(self) -> list[float]:
        return [self.world.now - self.since[Subject("agent", name)] for name in NAMES
                if self.truth[Subject("agent", name)] == State.UNREACHABLE]

    def is_blind(self) -> bool:
        silent = self.silent()
        alive = len(NAMES) - len(silent)
        count = sum(each < RECENT_S for each in silent) if alive else len(silent)
        return count >= BLIND_LEAST and count >= alive

    def explained(self, subject: Subject) -> bool:
        if subject.variable < 0 and self.is_blind():
            return True
        return subject.name[0] == "a" and (
            self.truth[Subject("agent", "door")] == State.UNREACHABLE)

    def muted(self, subject: Subject) -> bool:
        for mute in self.world.mutes:
            if mute.begins <= self.world.wall < mute.ends and (
                    mute.match == {"site": "A"} and self.key(subject).name == "A"
                    or mute.match == {"name": "b*"} and subject.name[0] == "b"
                    or mute.match == {"variable": "3"} and subject.variable == 3
                    or mute.match == {"name": "*"}):
                return True
        return False

    @precondition(lambda self: self.world.now > 1000)
    @rule()
    def calm(self) -> None:
        """After long enough, what is told is what is bad: nothing is forgotten."""
        self.pass_time(2 * RECENT_S + RULES.again + 1600)
        for subject, truth in self.truth.items():
            if self.bad(subject, truth) and not self.explained(subject):
                assert self.told.get(subject, 0) >= SEVERITY[truth], f"{subject} was never told"
            elif not self.bad(subject, truth) and truth != State.UNKNOWN:
                assert subject not in self.told, f"the end of {subject} was never told"
        assert (COLLECTOR in self.told) == self.is_blind()

    @invariant()
    def nothing_grows(self) -> None:
        assert len(self.world.core._problems) <= len(self.truth) + 2


Sequences.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25,
    suppress_health_check=list(HealthCheck))
TestSequences = Sequences.TestCase
