"""The fleet's judge beside those of devices, agents and client.py: the same nodes are late, dead,
never heard and out of range.   SPDX-License-Identifier: MIT

In tests/agree.py the others are compared. Here the fleet hears of the same agent, which also stamps
a variable of its own. The fleet differs on purpose in one case: after a jump of the clock, until
the next heartbeat of a variable, its ages are "at least".
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dumpulse_fleet import client
from dumpulse_fleet.collect.judge import Judge
from dumpulse_fleet.model.agents import Agent, Profile, State
from dumpulse_fleet.model.table import Table
from tests.agree import LOOKS, Compiled, Difference, World

BEGIN = 1e6  # s of our clock
# The states of spec/watch.py: waiting, missing, alive, out of range, late, dead.
MEANING = (State.PENDING, State.NEVER, State.ALIVE, State.OUT_OF_RANGE, State.LATE, State.DEAD)
SILENCE = {State.ALIVE: 0, State.OUT_OF_RANGE: 0, State.LATE: 1, State.DEAD: 2}


class Party(World):
    """A world that the fleet asks, too, each time that the others look."""

    def __init__(self, compiled: Compiled, path: Path, chance: random.Random) -> None:
        super().__init__(compiled, path, chance)
        # One that nobody watches, if there is one, is the agent's own.
        self.own = next((one.number for one in self.settings.variables if not one.expected), 0)
        # The fleet's client is another module than that of tests/agree.py, with the same text.
        settings = client.Settings(**{**self.settings._asdict(), "now_from": self.own})
        profile = Profile(settings)
        profile.expected[self.own] = False
        self.table = Table([Agent("one", "127.0.0.1", profile)])
        self.fleet = Judge(self.table)
        self.judged: Counter[State] = Counter()
        self.younger = 0  # of which the fleet could not know that they have been silent for longer
        self.tell_fleet(0.4)

    def tell_fleet(self, part: float) -> bool:
        """The agent's report, this part of a tick after now. False: the fleet asks again."""
        entry = np.frombuffer(self.agent.table()[4:], ">u4").astype(np.uint32).reshape(1, 64)
        entry[0, self.own] = self.clock % 65536 << 16 | 1
        when = np.array([BEGIN + (self.passed + part) * self.tick / 1000])
        _, out = self.fleet.take(np.array([0]), when, when, when, entry)
        return bool(out.used[0])

    def judge(self) -> None:
        super().judge()
        if not self.tell_fleet(0.2) and not self.tell_fleet(0.21):
            self.tell_fleet(0.22)
        nobody = set(range(64)) - {one.variable for one in self.watch.lines} | {self.own}
        assert all(self.table.state[0, number] == State.UNWATCHED for number in nobody)
        for one, watched in zip(self.watch.lines, self.watch.states):
            number, right = one.variable, MEANING[watched]
            if number == self.own or number in self.doubtful:
                continue
            state = State(self.table.state[0, number])
            if self.table.at_least[0, number] and SILENCE.get(state, 3) < SILENCE.get(right, 0):
                self.younger += 1
            elif state != right:
                raise Difference(f"the fleet calls variable {number} {state.words} at {self.clock};"
                                 f" it is {right.words}")
            self.judged[state] += 1


@pytest.mark.parametrize("worlds", [20, pytest.param(500, marks=pytest.mark.long)])
def test_the_fleet_judges_as_the_others_do(worlds: int, tmp_path: Path) -> None:
    compiled, judged, younger = Compiled(), Counter[State](), 0
    for seed in range(worlds):
        print(f"seed {seed}")
        world = Party(compiled, tmp_path / "names.ini", random.Random(seed))
        for _ in range(LOOKS):
            world.step()
        judged += world.judged
        younger += world.younger
    print(f"{judged.total()} states, {younger} of them at least so old")
    assert younger < 0.01 * judged.total()
    assert all(judged[state] > 20 * worlds for state in MEANING), judged
