"""The rule for ages and reboots against a simulator that knows the truth."""

import pathlib
from typing import Any

import numpy as np
import pytest

from dumpulse_fleet.client import SKEW
from dumpulse_fleet.collect import ages
from dumpulse_fleet.collect.ages import Memory, Reports, advance
from dumpulse_fleet.model.agents import ClockKind
from dumpulse_fleet.simulation import age_oracle
from tools.tiers import SEED


def run(reports: int, seed: int) -> dict[str, int]:
    print(f"seed {seed}")
    return age_oracle.run(reports, seed)


def test_a_first_part_has_no_wrong_age() -> None:
    seen = run(50_000, 7)
    assert seen["exact"] > 735_000 and seen["beyond 65536"] > 200
    assert seen["reboots seen"] > 125 and seen["clocks seen"] > 115 and seen["late, refused"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, SEED + 1], ids=["always", "new"])
def test_no_wrong_age_and_no_invented_reboot(seed: int) -> None:
    seen = run(100_000, seed)
    assert seen["exact"] > 1_000_000 and seen["at least"] > 300_000
    assert seen["late, refused"] > 20 and seen["beyond 65536"] > 300
    assert seen["reboots seen"] > 0.9 * seen["reboots to see"] > 50
    assert seen["clocks seen"] > 0.8 * seen["clocks to see"] > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", [260975, 22809, SEED, SEED + 1],
                         ids=["clock set to 0", "again", "new", "newer"])
def test_millions_of_reports(seed: int) -> None:
    """The first two end with a reboot that was none, if only the time tells a reboot."""
    run(2_500_000, seed)


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    page = (pathlib.Path(age_oracle.__file__).parents[1] / "README.md").read_text()
    table = page.partition("| what happens | what the ages are |\n|---|---|\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == \
        [case.name for case in ages.CASES]


# ---------------------------------------------------------------- one agent, step by step
class One:
    """One agent with a tick of a second, whose variable 0 is its own unless told otherwise."""

    def __init__(self, now_from: int = 0, unix: float = 0.0) -> None:
        self.memory = Memory(
            np.zeros(1, np.uint8), np.zeros(1, np.uint8), np.zeros(1, np.bool_), np.zeros(1),
            np.zeros(1), np.zeros(1), np.zeros(1, np.int64), np.zeros((1, 64), np.uint32),
            np.zeros((1, 64), np.int64), np.zeros((1, 64), np.bool_), np.zeros(1, np.bool_))
        self.now_from, self.unix = now_from, unix

    def hear(self, at: float, **entries: int | None) -> Any:
        """v3=1234: variable 3 was stamped at 1234 by sender 76; None: four zero bytes."""
        entry = np.zeros((1, 64), np.uint32)
        for name, stamp in entries.items():
            entry[0, int(name[1:])] = 0 if stamp is None else (stamp & 0xFFFF) << 16 | 76 << 8 | 1
        out = advance(self.memory, Reports(
            np.ones(1), np.array([self.now_from]), np.array([at]), np.array([at + 0.01]),
            np.array([at + self.unix]), entry))
        self.memory = out.memory
        return out

    def age(self, variable: int) -> tuple[int, bool]:
        return (int(self.memory.clock[0] - self.memory.stamped[0, variable]),
                bool(self.memory.at_least[0, variable]))


def test_a_jump_is_believed_when_it_is_seen_twice() -> None:
    one = One()
    one.hear(1000, v0=5000, v3=4990)
    one.hear(1010, v0=5010, v3=5005)
    out = one.hear(1020, v0=9000, v3=5005)
    assert not out.used[0] and one.age(3) == (5, False)
    out = one.hear(1020.1, v0=9000, v3=5005)
    assert out.used[0] and out.reset[0] and not out.rebooted[0]
    assert one.age(3) == (14, True)  # 5, and the ticks that passed for sure: 10.09 * 0.9 - 1
    out = one.hear(1030, v0=9010, v3=9010)
    assert out.used[0] and not out.reset[0] and one.age(3) == (0, False)


def test_an_entry_that_only_seems_younger_on_a_new_clock_is_as_old_as_before() -> None:
    one = One()
    one.hear(1000, v0=5000, v3=4990)
    one.hear(2000, v0=6000, v3=4990)
    for late in (0, 0.1):
        out = one.hear(2010 + late, v0=5490, v3=4990)  # 500 ticks: more than have passed
    assert out.reset[0] and one.age(3) == (1010 + 9, True)


def test_lost_entries_at_the_same_tick_may_be_a_late_report() -> None:
    one = One()
    one.hear(1000, v0=5000, v3=4990)
    assert not one.hear(1000.2, v0=5000, v3=None).used[0]


@pytest.mark.parametrize("sender", [0, 76])
def test_the_time_zero_is_a_time(sender: int) -> None:
    """Four zero bytes: an agent that stamps itself as sender 0, with value 0, once in a wrap."""
    one = One()
    one.hear(1000, v0=65_530, v3=65_530)
    out = one.hear(1006, v0=0 if sender else None, v3=65_530)
    assert out.used[0] and not out.reset[0] and not out.rebooted[0]
    assert one.age(3) == (6, True) and one.memory.kind[0] == ClockKind.OWN


def test_a_reboot() -> None:
    one = One()
    one.hear(1000, v0=5000, v3=4990, v4=4999)
    one.hear(1010, v0=5010, v3=5005, v4=5010)
    one.hear(1020, v0=3, v3=None, v4=2)
    out = one.hear(1020.1, v0=3, v3=None, v4=2)
    assert out.rebooted[0] and not out.reset[0] and one.age(4) == (0, True)


@pytest.mark.parametrize("unix, clock, rebooted", [
    (4e9, 3, True),  # 4e9 is not 5000, modulo 65536
    (4e9, 9000, False),
    (5000 + 65_536 * 9 - 1000, 3, False)])  # its clock has shown Unix time: somebody may set it
def test_only_a_clock_that_nobody_sets_proves_a_reboot(unix: float, clock: int, rebooted: bool
                                                       ) -> None:
    one = One(unix=unix)
    one.hear(1000, v0=5000, v3=4990, v4=4999)
    one.hear(1010, v0=5010, v3=5005, v4=5010)
    one.hear(1020, v0=clock, v3=None, v4=None)
    out = one.hear(1020.1, v0=clock, v3=None, v4=None)
    assert (bool(out.rebooted[0]), bool(out.reset[0])) == (rebooted, not rebooted)
    one.hear(3020, v0=clock + 2000, v3=clock + 1999, v4=clock + 1998)
    for late in (0, 0.1):  # it is known to be settable, also after that
        out = one.hear(3030 + late, v0=2, v3=None, v4=None)
    assert bool(out.rebooted[0]) == (unix == 4e9)


def test_entries_that_were_too_old_are_no_reboot() -> None:
    one = One()
    one.hear(1000, v0=100, v3=100)
    one.hear(1010, v0=110, v3=105)
    one.hear(65_000, v0=64_100, v3=105)
    out = one.hear(65_940, v0=65_040, v3=None)
    assert out.used[0] and not out.rebooted[0] and not out.empty[0]
    one = One()  # its clock is set forward, and so the entry seems too old to the agent
    one.hear(1000, v0=5000, v3=4990)
    for late in (0, 0.1):
        out = one.hear(1010 + late, v0=4990 + ages.FORGETS + 1, v3=None)
    assert out.used[0] and out.reset[0] and not out.empty[0]


def test_what_came_while_nobody_asked_for_long_may_be_too_old_soon() -> None:
    one = One(now_from=-1, unix=1e9)
    base = 10**9 + 30_000  # a clock that nobody knows
    one.hear(1000, v3=base + 995, v4=base + 999)
    one.hear(1010, v3=base + 1005, v4=base + 1009)
    one.hear(58_000, v3=base + 2000, v4=base + 58_000)
    for late in (0, 0.1):
        out = one.hear(67_100 + late, v3=None, v4=base + 67_100)
        assert out.used[0] and not out.empty[0] and not out.reset[0]


def test_what_is_old_may_be_forgotten_sooner_if_nobody_knows_the_clock() -> None:
    one = One(now_from=-1)
    for at in range(1000, 65_000, 3000):
        one.hear(at, v3=6 + (at > 1000), v4=at)
    out = one.hear(66_500, v3=None, v4=66_500)
    assert out.used[0] and not out.empty[0]
    assert not one.hear(67_000, v3=None, v4=None).used[0]  # this one was young


def test_a_heartbeat_may_be_ahead_by_the_skew_and_no_more() -> None:
    one = One()
    one.hear(1000, v0=5000, v3=4990)
    assert one.hear(1010, v0=5010, v3=5010 + SKEW).used[0] and one.age(3) == (0, True)
    assert not one.hear(1020, v0=5020, v3=5020 + SKEW + 1).used[0]


def test_after_so_long_that_wraps_cannot_be_counted_ages_are_minimums() -> None:
    one = One()
    one.hear(1000, v0=5000, v3=4990)
    one.hear(1010, v0=5010, v3=5005)
    assert one.age(3) == (5, False)
    one.hear(701_010, v0=705_010, v3=5005)
    assert one.age(3) == (5 + 700_000 - 65_536, True)  # its clock may be a tenth slower


def test_a_variable_that_appears_and_an_own_variable_that_comes_later() -> None:
    one = One()
    one.hear(1000, v3=70)
    assert one.memory.kind[0] == ClockKind.ARRIVAL
    out = one.hear(1010, v0=90, v3=80, v5=85)
    assert out.used[0] and one.memory.kind[0] == ClockKind.OWN and not out.reset[0]
    one.hear(1020, v0=100, v3=80, v5=95, v6=99)
    assert one.age(5) == (5, False) and one.age(6) == (1, False)


def test_an_agent_that_contradicts_itself_again_and_again_is_used_each_second_time() -> None:
    one = One()
    one.hear(1000, v0=0, v3=0)
    for number in range(1, 301):
        out = one.hear(1000 + number, v0=number * 5000, v3=0)
        assert out.used[0] == (number % 2 == 0) and one.memory.strikes[0] < 101
        assert out.reset[0] == (number == 2)  # told once


def test_an_own_variable_that_is_not_configured_any_more() -> None:
    one = One()
    one.hear(1000, v0=5000, v3=4990)
    one.now_from = -1
    assert one.hear(1010, v0=5000, v3=4990).used[0]
    assert one.memory.kind[0] != ClockKind.OWN and one.memory.at_least[0, 3]
