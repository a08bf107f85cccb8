"""Loss, answers that overtake each other, that come twice and that come late; thousands gone at
once.   SPDX-License-Identifier: MIT"""

import random
import socket
import threading
import time

import numpy as np
import pytest

from dumpulse_fleet import client
from dumpulse_fleet.collect.collector import Collector, most_tries
from dumpulse_fleet.collect.judge import Judge
from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.tests.core import Heard, agents, profile, until
from dumpulse_fleet.trials.fake import Fake

PATIENT = profile(now_from="0", expect="1-15", warn="30s", crit="60s")


def false_alarms(count: int, loss: float, rounds: int, seed: int) -> int:
    """How often one of so many agents that answer is called unreachable: with the collector's rule
    of repetitions and the judge, without packets. An answer that follows another tells nothing new,
    so the judge gets only those after a miss."""
    print(f"seed {seed}")
    draw, plain = np.random.default_rng(seed), profile()
    table = Table([Agent(f"{row}", "127.0.0.1", plain) for row in range(count)])
    judge, rows = Judge(table), np.arange(count)
    lost, alarms = 1 - (1 - loss) ** 2, 0  # the request, or the answer
    for number in range(rounds):
        gone = draw.random(count, np.float32) < lost ** most_tries(table, rows)
        alarms += len(judge.miss(np.flatnonzero(gone), number * PERIOD))
        heard = np.flatnonzero(~gone & ((table.misses > 0) | (table.reports == 0)))
        when = np.full(len(heard), number * PERIOD)
        judge.take(heard, when, when, when, np.zeros((len(heard), 64), np.uint32))
    return alarms


PERIOD = 10.0  # s
WEEK = 10_000 * int(7 * 86_400 / PERIOD)  # rounds: ten thousand agents, each 10 s
MANY = 50_000  # agents that are simulated at the same time, because each is for itself


@pytest.mark.slow
def test_no_false_alarm_with_five_percent_loss() -> None:
    assert false_alarms(MANY, 0.05, WEEK // MANY // 30, random.randrange(1_000_000)) == 0
    assert false_alarms(1000, 0.40, 300, random.randrange(1_000_000)) > 0  # the test can fail


@pytest.mark.long
def test_no_false_alarm_of_ten_thousand_in_a_week() -> None:
    assert false_alarms(MANY, 0.05, WEEK // MANY, random.randrange(1_000_000)) == 0


@pytest.mark.parametrize("seconds", [8, pytest.param(300, marks=pytest.mark.long)])
def test_loss_overtaking_copies_and_late_answers_make_no_event(seconds: int) -> None:
    with Fake(200, loss=5, twice=10, late=3, jitter=150, seed=random.randrange(1000)) as fake:
        table, heard = Table(agents(fake, 200, PATIENT, period=1.0)), Heard()
        collector = Collector(table, heard)
        collector.start()
        until(lambda: (table.reports > 0).all())
        time.sleep(seconds)
        collector.stop()
    figures = collector.figures
    assert not collector.failure and figures.repeated > 0 and figures.late > 0
    assert [event for event in heard.events if event.now != "alive"] == []
    assert len(heard.events) == 200 and (table.kind == 1).all()


@pytest.mark.slow
def test_a_flood_at_a_port_does_not_stop_the_rounds() -> None:
    stop = threading.Event()
    with Fake(50) as fake:
        table = Table(agents(fake, 50, PATIENT, period=1.0))
        collector = Collector(table, Heard())
        collector.start()
        until(lambda: len(collector._sockets) >= 4)
        ports = [each.getsockname()[1] for each in collector._sockets.values()]

        def flood() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                while not stop.is_set():
                    for port in ports:
                        stranger.sendto(bytes(client.REPORT_SIZE), ("127.0.0.1", port))

        thread = threading.Thread(target=flood)
        thread.start()
        before = table.reports.copy()
        until(lambda: (table.reports > before + 2).all())
        stop.set()
        thread.join()
        collector.stop()
    assert collector.figures.strange > 1000 and not collector.failure


def test_the_collectors_own_clock_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unix time jumps by hours, there and back: agents with a variable of their own do not care."""
    by = 0.0
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + by)
    # If an answer seemed to come when it was asked for, clocks would seem to jump.
    fine = profile(now_from="0", tick="1ms")
    with Fake(20, tick=1, delay=50, jitter=300) as fake:
        table, heard = Table(agents(fake, 20, fine, period=0.5)), Heard()
        collector = Collector(table, heard)
        collector.start()
        until(lambda: (table.reports > 2).all())
        for by in (7200.0, -7200.0, 0.0):
            before = table.reports.copy()
            until(lambda: (table.reports > before + 3).all())
        collector.stop()
    assert not collector.failure
    assert not [event for event in heard.events if event.what != "state"], heard.events
