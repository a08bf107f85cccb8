"""The collector behind a bad network, which the kernel makes: netem on the loopback. It also sets
the clock of the machine.

    python3 -m server.tests.vm build/venv/bin/python -m dumpulse_fleet.tests.netem

in a machine of its own

The answers say less than the fake fleet knows. So each report is compared with that: ages in
milliseconds wrap each 65.5 s, and half of the nodes fall silent at a known time.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import numpy as np

from dumpulse_fleet.collect.collector import Collector
from dumpulse_fleet.model.agents import Event, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.tests.core import Heard, agents, profile, until
from dumpulse_fleet.trials.fake import Fake

AGENTS, PERIOD = 200, 4.0  # s
BEAT = 1.0  # s
SILENT = 100  # the nodes of so many agents fall silent
HOUR = 3600.0
# What netem does, for how many seconds, and whether agents may be called unreachable: if a packet
# gets lost with more than 5 %, or comes too late.
WORST = "loss 5% delay 60ms 40ms reorder 25% duplicate 10%"
PHASES = [(WORST, 60, False),
          *((f"loss {percent}%", 15, percent > 5) for percent in (0, 1, 5, 10, 20, 30, 40, 50)),
          ("loss 50% delay 100ms 90ms reorder 50% duplicate 20%", 20, True),
          ("delay 2s", 25, True),  # there, and back: each answer is a round late
          ("delay 0ms", 1, True)]


def netem(how: str) -> None:
    subprocess.run(["tc", "qdisc", "replace", "dev", "lo", "root", "netem", "limit", "100000",
                    *how.split()], check=True)


class Truth:
    """What is known of all agents, beside what they say."""

    def __init__(self, table: Table, silent_at: tuple[float, float]) -> None:
        self.table, self.silent_at = table, silent_at  # not before, and not after
        self.checked = self.exact = self.beyond = 0
        self.seen = table.reports.copy()

    def check(self) -> None:
        """The ages of the reports that are new."""
        table = self.table
        with table.lock:
            new = np.flatnonzero(table.reports > self.seen)
            self.seen = table.reports.copy()
            age = (table.clock[:, None] - table.stamped)[new, 1:16] / 1000
            at_least = table.at_least[new, 1:16]
            asked, received = table.asked[new, None], table.received[new, None]
        silent = (new < SILENT)[:, None]
        # The last heartbeat was due in the last BEAT seconds before the agent's nodes fell silent,
        # or before it answered. The report may also be made from the clock's last millisecond.
        least = np.where(silent, asked - self.silent_at[1], 0) - 0.01
        most = np.where(silent, received - self.silent_at[0], received - asked) + BEAT + 0.01
        assert (age <= most).all() and (at_least | (age >= least)).all(), (age, least, most)
        self.checked += age.size
        self.exact += int((~at_least).sum())
        self.beyond += int((~at_least & (age > 65.536)).sum())


def phases(truth: Truth, collector: Collector, heard: Heard) -> Iterator[str]:
    for how, seconds, doubtful in PHASES:
        netem(how)
        first, figures = len(heard.events), collector.figures
        lost, late = figures.lost, figures.late
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.5)
            truth.check()
        assert not collector.failure, collector.failure
        news = heard.events[first:]
        gone = [event for event in news if event.now == State.UNREACHABLE.words]
        assert doubtful or not news, news
        yield f"{how}: {figures.lost - lost} rounds lost, {figures.late - late} answers late, " \
            f"{len(gone)} agents unreachable"


def right(event: Event) -> bool:
    """Agents come and go. That is all that happens."""
    return event.what == "state" and event.variable < 0 and {event.was, event.now} <= {
        "pending", "alive", "unreachable"}


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    patient = profile(now_from="0", expect="0", tick="1ms")
    with Fake(AGENTS, tick=1, beat=int(BEAT * 1000)) as fake:
        table, heard = Table(agents(fake, AGENTS, patient, period=PERIOD)), Heard()
        collector = Collector(table, heard)
        collector.start()
        until(lambda: (table.reports > 1).all(), 60)
        before = table.now()
        fake.tell("silence", 0, SILENT - 1)
        silent_at = table.now()
        until(lambda: (table.asked > silent_at).all(), 60)
        truth = Truth(table, (before, silent_at))
        first = len(heard.events)
        for said in phases(truth, collector, heard):
            print(said, flush=True)
        for by in (3 * HOUR, -7 * HOUR, 4 * HOUR):
            time.clock_settime(time.CLOCK_REALTIME, time.time() + by)
            reports = table.reports.copy()
            until(lambda: (table.reports > reports + 1).all(), 60)
            truth.check()
            print(f"the clock was set by {by / HOUR:+.0f} h")
        until(lambda: (table.agent_state == State.ALIVE).all(), 60)
        collector.stop()
    assert all(right(event) for event in heard.events), heard.events
    heard.check_chains()
    assert not table.reboots.any() and first == AGENTS
    figures = collector.figures
    assert figures.late > 500 and figures.lost > 100 and figures.repeated > 1000, figures
    assert truth.exact > 0.99 * truth.checked > 50_000 and truth.beyond > 5_000, vars(truth)
    print(f"{truth.checked} ages were right, {truth.beyond} of them beyond 65536 ticks; {figures}")
    print("netem: passed")


if __name__ == "__main__":
    main()
