"""Fleets in the storm: collectors, judges, stores and alerts of two, in a time of their
own. Their agents tell stories of build/storm.

    python -m tests.storm.fleet [--from SEED] [--count N] [--storm PROGRAM] [--counts]

Each world has AGENTS agents, which do what the agents of as many stories do. The driver takes the
turns of the collectors, and knows what each agent has taken and when."""

import argparse
import contextlib
import errno
import hashlib
import heapq
import os
import random
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from dumpulse_fleet import client
from dumpulse_fleet.alert.decide import SEVERITY, Core, Rules, Subject
from dumpulse_fleet.collect import collector, wire
from dumpulse_fleet.collect.collector import Collector, Roster
from dumpulse_fleet.model.agents import MUTE_STATES, Agent, ClockKind, Event, Profile, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.record.snapshot import Snapshot
from dumpulse_fleet.record.store import Store
from tests.storm.claims import Claims, Wrong
from tools.programs import as_program

AGENTS, FLEETS = 6, 2
NODES = 12
PERIOD, MISSES = 2.0, 3  # s; with ticks of 1 ms, longer would be beyond what a timestamp tells
UPTIME = 1e5  # s, when a story begins
UNIX = 1_700_000_000.0  # when a story begins
ENDS = 1430.0  # s: a little before the stories end
FAULTS = ((10.0, 300.0), (730.0, 1020.0))  # s: when faults of the fleet begin
LONGEST = 90.0  # s
GONE = 1120.0, 1320.0  # s: when an agent cannot be reached, and nothing else goes wrong
STEP = 0.05  # s: the shortest turn of a collector; it takes none while it has nothing to do
# s: an agent stamps what it reads, and its story has that only when the agent waits again.
LAG = 1.0
# Bounds, in s. A round is judged when it has ended, and three of them make an agent unreachable.
NOTICED = (MISSES + 2) * PERIOD
SETTLES = 2 * NOTICED  # after a fault, until these claims hold again
TOLD = 150.0  # until an alert is told: wait, spread, and rounds


ONCE, OVER = ("trouble is told once, or again when it is worse",
              "the end of trouble is told only if it was told")
REBOOTED, REACHED = ("an agent is called rebooted only if it is",
                     "an agent is called unreachable in time if it does not answer, and only then")
IN_TIME, SILENT, TELLS = ("a node that is heard in time is not called late or dead",
                          "a silent node is called dead in time",
                          "somebody is told in time of an agent that is unreachable")
BLIND, WELL, STORED, AT_THE_END = ("a collector that asks nobody has a complaint",
                                   "a collector has none when all is well",
                                   "the store has all events, and each changes something",
                                   "at the end, each variable is right")
CLAIMS = Claims(ONCE, OVER, REBOOTED, REACHED, IN_TIME, SILENT, TELLS, BLIND, WELL, STORED,
                AT_THE_END)
check = CLAIMS.check


class Life:
    """An agent of a story: what it answers, and the truth."""

    def __init__(self, program: str, seed: int) -> None:
        lines = subprocess.run([program, "--trace", "--seed", str(seed)], capture_output=True,
                               text=True, check=True).stdout.splitlines()
        self.tick, self.warn, self.crit = (int(text) / 1000 for text in lines[0].split()[2:])
        self.lines, self.at = lines, 1
        self.entries = bytearray(256)
        self.runs, self.stands, self.gone = False, False, False
        self.changed = 0.0  # when it was started, ended, stopped or let go on
        self.taken = [0.0] * NODES  # when each was taken last, in this run; 0: not
        self.clock = 0.0  # when its clock was touched last
        self.starts = 0

    def go_on(self, now: float) -> None:
        while self.at < len(self.lines):
            at, what, *more = self.lines[self.at].split()
            if int(at) / 1000 > now:
                return
            self.at += 1
            if what == "entry":
                variable = int(more[0])
                self.entries[4 * variable:4 * variable + 4] = bytes.fromhex(more[1])
                if more[2] == "1" and more[1] != "00000000":
                    self.taken[variable] = int(at) / 1000
                continue
            if what == "clock":
                self.clock = int(at) / 1000
                continue
            self.changed = int(at) / 1000
            self.runs = what != "end" and (what == "start" or self.runs)
            self.stands = what == "stands"
            if what == "start":
                self.entries, self.taken = bytearray(256), [0.0] * NODES
                self.starts += 1

    def answer(self) -> bytes | None:
        if not self.runs or self.stands or self.gone:
            return None
        return zlib.adler32(self.entries).to_bytes(4, "big") + self.entries

    @property
    def profile(self) -> Profile:
        return Profile(client.make_settings(argparse.Namespace(
            expect=f"0-{NODES - 1}", tick=client.parse_tick(f"{self.tick * 1000:.0f}ms"),
            warn=client.parse_duration(f"{self.warn:.3f}"),
            crit=client.parse_duration(f"{self.crit:.3f}"))))


class Weather(SimpleNamespace):
    lost = twice = 0.0  # of each packet
    delay = 0.02  # s, at most
    shut = False  # there are no descriptors


class Socket:
    """What wire.open_socket() returns. Answers wait here for their time."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.coming: list[tuple[float, int, bytes, bytes]] = []

    def close(self) -> None:
        self.coming.clear()

    def ask(self, name: bytes) -> None:
        world, weather = self.world, self.world.weather
        chance, packet = world.chance, world.lives[name[7] - 1].answer()
        if packet is None or chance.random() < weather.lost:
            return
        for _ in range(1 + (chance.random() < weather.twice)):
            world.sent += 1
            at = world.now + 0.001 + chance.random() * weather.delay
            heapq.heappush(self.coming, (at, world.sent, name, packet))
            heapq.heappush(world.arrivals, at)


def send(batch: Any, where: Socket, first: int, last: int) -> tuple[int, int]:
    for row in range(first, last):
        where.ask(batch.names[row].tobytes())
    return last - first, 0


def receive(batch: Any, where: Socket, first: int = 0, flags: int = 0) -> tuple[int, int]:
    count = first
    while not flags and count < batch.count and where.coming \
            and where.coming[0][0] <= where.world.now:
        at, _, name, packet = heapq.heappop(where.coming)
        batch.names[count] = np.frombuffer(name, np.uint8)
        batch.packets[count, :len(packet)] = np.frombuffer(packet, np.uint8)
        batch.messages["length"][count] = len(packet)
        batch._header["control_length"][count] = wire.CONTROL
        unix = where.world.unix(at)
        batch._control[count, 2], batch._control[count, 3] = int(unix), int(unix % 1 * 1e9)
        count += 1
    return (count - first, 0) if count > first else (0, errno.EAGAIN)


class Fleet:
    """A collector with its store and its alerts, and what they have said."""

    def __init__(self, world: "World", number: int, folder: Path) -> None:
        self.world = world
        self.lives = {f"a{at}": life for at, life in enumerate(world.lives)
                      if at % FLEETS == number}
        self.agents = [Agent(name, f"10.0.0.{int(name[1:]) + 1}:9060", life.profile,
                             period=PERIOD, misses=MISSES, site=f"s{number}")
                       for name, life in self.lives.items()]
        self.path = folder / f"events{number}.sqlite"
        self.published: list[Event] = []
        self.told: dict[Subject, int] = {}  # what was told and is not over, and how bad it was
        self.since: dict[Subject, float] = {}  # what must be told, since when
        self.starts: dict[str, int] = {}  # of its agents, at their last reports
        self.dumped: dict[str, Any] | None = None
        self.stands_until = self.unsure = 0.0  # unsure: when its own clock was wrong, or it stood
        self.begin(self.agents)

    def begin(self, agents: Sequence[Agent]) -> None:
        self.store = Store(self.path, say=lambda text: None)
        self.table = Table(agents)
        Snapshot(self.store).load(self.table)
        self.collector = Collector(self.table, self.publish, complain=lambda text: None)
        self.collector._open_ring()
        self.collector._roster, self.collector._asking = \
            Roster(self.table, self.collector._epochs), True
        self.core = Core(Rules(), agents, (), client.uptime())
        if self.dumped:
            self.core.load(self.dumped, client.uptime(), time.time())
        self.disturbed = self.begun = self.world.now

    def end(self) -> None:
        Snapshot(self.store).save(self.table)
        self.dumped = self.core.dump(client.uptime(), time.time())
        self.store.close()

    def use(self, agents: Sequence[Agent]) -> None:
        """Another configuration."""
        table = Table(agents)
        self.collector._take_over(table)
        self.table = table
        self.core.replace(Rules(), agents, ())
        self.disturbed = self.begun = self.world.now

    def publish(self, events: Sequence[Event]) -> None:
        self.published += events
        self.store.publish(events)
        for event in events:
            self.world.note(event)
            self.world.check_event(self, event)

    def next(self) -> float:
        """When it has something to do."""
        roster, now = self.collector._roster, self.world.now
        at = np.where(roster.tries == 0, roster.due, roster.deadline).min(initial=np.inf)
        at -= self.table.zero + UPTIME
        # What was due and could not be done is tried again.
        return max(float(at) if at > now else now + 0.5, self.stands_until)

    def turn(self) -> None:
        if self.world.now < self.stands_until:
            self.disturbed = self.unsure = self.begun = self.world.now
            return
        before = self.table.reports.copy()
        self.collector._turn()
        for row in np.flatnonzero(self.table.reports != before).tolist():
            name = self.table.agents[row].name
            if not (self.table.strikes[row] or self.table.emptied[row]):  # else it waits for proof
                self.starts[name] = self.lives[name].starts
            self.world.check_report(self, row)

    def alert(self) -> None:
        now, wall = client.uptime(), time.time()
        for row, agent in enumerate(self.table.agents):
            self.core.see(agent.name, -1, State(self.table.agent_state[row]),
                          self.table.agent_since[row], now, wall)
            for variable in range(NODES):
                self.core.see(agent.name, variable, State(self.table.state[row, variable]),
                              self.table.since[row, variable], now, wall)
        for message in self.core.step(now, wall, ()):
            self.world.note((message.kind, message.id, [item.subject for item in message.new],
                             [item.subject for item in message.over]))
            for item in message.new:
                check(ONCE, self.told.get(item.subject, 0) < SEVERITY[item.state],
                      f"{item.subject} is told twice")
                self.told[item.subject] = SEVERITY[item.state]
            for item in message.over:
                check(OVER, self.told.pop(item.subject, 0) != 0,
                      f"{item.subject} is over, and was not told")


class World:
    def __init__(self, program: str, seed: int, folder: Path) -> None:
        self.chance, self.now, self.sent = random.Random(seed), 0.0, 0
        self.ahead = 0.0  # s: Unix time of the collectors' machine, minus the steady clock
        self.weather = Weather()
        self.hash = hashlib.sha256()
        self.lives = [Life(program, 1 + seed * AGENTS + at) for at in range(AGENTS)]
        self.faults = 0
        self.plan: list[tuple[float, int, str, int]] = []
        for _ in range(self.chance.randrange(1, 12)):
            begins = self.chance.uniform(*self.chance.choice(FAULTS))
            what = self.chance.choice(("lost", "late", "shut", "stands", "anew", "clock", "none"))
            fleet = self.chance.randrange(FLEETS)
            self.plan.append((begins, len(self.plan), what, fleet))
            self.plan.append((begins + self.chance.uniform(1, LONGEST), len(self.plan),
                              f"end of {what}", fleet))
        gone = self.chance.randrange(AGENTS)
        self.plan += [(at, len(self.plan) + begins, "gone" if begins else "end of gone", gone)
                      for begins, at in zip((1, 0), GONE)]
        heapq.heapify(self.plan)
        self.fleets: list[Fleet] = []
        self.arrivals: list[float] = []  # when answers come
        self.folder = folder

    def unix(self, at: float) -> float:
        return UNIX + self.ahead + at

    def note(self, what: object) -> None:
        self.hash.update(repr(what).encode())

    # ---- what must be true
    def check_event(self, fleet: Fleet, event: Event) -> None:
        life = fleet.lives[event.agent]
        # An hour in ticks of 1 ms is 55 times 65,536, less 4.5 s: if the clock of an agent was set
        # by so much, its time may seem to go on.
        was_set = 0 < life.clock and self.now - life.clock < SETTLES
        if event.what == "rebooted" and not was_set:
            check(REBOOTED, fleet.starts.get(event.agent, 0) not in (0, life.starts),
                  f"{event.agent} has not rebooted, and is said to have")
        if event.now in ("unreachable", "damaged") and self.now - life.changed > NOTICED \
                and self.calm(fleet):
            check(REACHED, life.answer() is None,
                  f"{event.agent} answers, and is called {event.now}")

    def calm(self, fleet: Fleet) -> bool:
        """Nothing was wrong with the network or the fleet for some time."""
        return self.now - fleet.disturbed > SETTLES

    def check_report(self, fleet: Fleet, row: int) -> None:
        """A report was taken, no longer than the network's delay after it was made."""
        name = fleet.table.agents[row].name
        life = fleet.lives[name]
        if self.now - fleet.unsure < SETTLES or self.now - life.clock < SETTLES \
                or self.now - life.changed < SETTLES or fleet.table.strikes[row] \
                or fleet.table.kind[row] != ClockKind.UNIX:  # nobody knows its clock yet
            return
        made = float(fleet.table.asked[row]) - fleet.table.zero - UPTIME
        waited = float(fleet.table.received[row] - fleet.table.asked[row])
        first = max(fleet.begun, float(fleet.table.began[row]) - fleet.table.zero - UPTIME)
        for variable, taken in enumerate(life.taken):
            state = State(fleet.table.state[row, variable])
            age = made - taken
            # The report is of some time while it was waited for.
            slack = 2 * life.tick + LAG + 2 * PERIOD * (life.clock > 0) + waited
            if taken <= max(life.clock, life.changed, first) + 2 * PERIOD or taken >= made:
                continue  # nobody knows how old it is, or the report does not have it yet
            if age + slack < life.crit:
                check(IN_TIME, state is not State.DEAD and (
                    state is State.ALIVE or age + slack >= life.warn),
                    f"{name}, variable {variable} is {state.words}, and was heard {age:.3f} s ago")
            # What an agent has forgotten meanwhile is silent from then on.
            forgot = state is State.NEVER or (
                state is State.PENDING and self.now - fleet.disturbed < life.crit + NOTICED)
            if age - slack > life.crit and not forgot:
                check(SILENT, state is State.DEAD, f"{name}, variable {variable} is {state.words}, "
                      f"and was silent for {age:.3f} s")

    def look(self) -> None:
        """Once in a period."""
        for fleet in self.fleets:
            if self.now < fleet.stands_until:
                continue
            fleet.alert()
            trouble = fleet.collector.trouble()
            blind = not (fleet.collector._sockets and fleet.table.agents)
            if blind and self.now - self.began > 3 * PERIOD:
                check(BLIND, trouble != "", "a collector that asks nobody says that all is well")
            if blind or self.weather.lost or self.weather.delay > 1 or self.ahead:
                fleet.disturbed = self.now
            if self.ahead:
                fleet.unsure = self.now
            if blind:  # what changes meanwhile may be of any age
                fleet.begun = self.now
            if self.calm(fleet):
                check(WELL, not trouble, f"all is well, and a collector says: {trouble}")
            self.check_reached(fleet)

    def check_reached(self, fleet: Fleet) -> None:
        for row, agent in enumerate(fleet.table.agents):
            life, state = fleet.lives[agent.name], State(fleet.table.agent_state[row])
            if self.calm(fleet) and self.now - life.changed > NOTICED:
                check(REACHED, (life.answer() is None) == (state in MUTE_STATES),
                      f"{agent.name} is called {state.words}, and has been so for "
                      f"{self.now - life.changed:.0f} s: it answers or not")
            subject = Subject("agent", agent.name)
            # What is told already in its site holds back what is new there.
            if state not in MUTE_STATES or not self.calm(fleet) or fleet.told.keys() - {subject}:
                fleet.since[subject] = self.now
            if self.now - fleet.since.get(subject, self.now) > TOLD:
                check(TELLS, subject in fleet.told,
                      f"{agent.name} is unreachable, and nobody is told")

    def check_end(self) -> None:
        for fleet in self.fleets:
            fleet.store.write(lambda _: None).result()
            stored = [event._replace(number=0) for event in fleet.store.select(limit=100_000)]
            check(STORED, stored[::-1] == fleet.published,
                  "the store does not have the events that were published")
            for event in stored:
                check(STORED, event.was != event.now or event.what != "state",
                      f"an event changes nothing: {event}")
            for row, agent in enumerate(fleet.table.agents):
                life = fleet.lives[agent.name]
                for variable, taken in enumerate(life.taken):
                    lives = fleet.table.state[row, variable] in (State.ALIVE, State.LATE)
                    check(AT_THE_END, lives == (self.now - taken < life.crit),
                          f"at the end, {agent.name} has variable {variable} wrong")

    # ---- what goes wrong
    def fault(self, what: str, number: int) -> None:
        fleet, chance = self.fleets[number % FLEETS], self.chance
        self.faults += not what.startswith("end")
        self.began = self.now
        self.note((self.now, what, number))
        for each in self.fleets:
            each.disturbed = self.now
        if "clock" in what:
            for life in self.lives:
                life.clock = self.now
        if what == "lost":
            self.weather.lost, self.weather.twice = chance.uniform(0.05, 0.6), 0.1
        elif what == "late":
            self.weather.delay = chance.uniform(1, 3 * PERIOD)
        elif what.endswith("gone"):
            life = self.lives[number]
            life.gone, life.changed = what == "gone", self.now
        elif what == "stands":
            fleet.stands_until = self.now + chance.uniform(1, LONGEST)
        elif what in ("anew", "shut"):
            self.weather.shut = what == "shut"
            fleet.end()
            fleet.begin(fleet.agents)
        elif what == "clock":
            self.ahead = chance.choice((-1, 1)) * chance.choice((1.0, 3600.0, 86400.0))
        elif what == "end of clock":
            self.ahead = 0.0
        elif what == "none":
            fleet.use(())
        elif what == "end of none":
            fleet.use(fleet.agents)
        else:
            self.weather = Weather()

    def next(self) -> float:
        """When something happens."""
        while self.arrivals and self.arrivals[0] <= self.now:
            heapq.heappop(self.arrivals)
        return min(self.looked + PERIOD, *(fleet.next() for fleet in self.fleets),
                   *self.arrivals[:1], *(plan[0] for plan in self.plan[:1]))

    def run(self) -> None:
        self.fleets = [Fleet(self, number, self.folder) for number in range(FLEETS)]
        self.began = self.looked = 0.0
        while self.now < ENDS:
            self.now = max(self.now + STEP, self.next())
            for life in self.lives:
                life.go_on(self.now)
            while self.plan and self.plan[0][0] <= self.now:
                _, _, what, number = heapq.heappop(self.plan)
                self.fault(what, number)
            for fleet in self.fleets:
                fleet.turn()
            if self.now - self.looked > PERIOD - STEP / 2:
                self.looked = self.now
                self.look()
        self.check_end()


@contextlib.contextmanager
def virtual(program: str, seed: int) -> Iterator[World]:
    """All clocks and sockets of the fleet are the world's."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        world = World(program, seed, Path(folder))

        def open_socket(family: int, room: int) -> tuple[Socket, int]:
            if world.weather.shut:
                raise OSError(errno.EMFILE, "Too many open files")
            return Socket(world), 10_000

        for target, name, value in (
                (client, "uptime", lambda: world.now + UPTIME), (time, "time",
                                                              lambda: world.unix(world.now)),
                (wire, "open_socket", open_socket), (wire, "overflowed", lambda where: 0),
                (wire.Batch, "send", send), (wire.Batch, "receive", receive),
                # It reads all, however slow this machine is, and asks all agents in one turn.
                (collector, "RECEIVE_FOR", np.inf),
                (Roster, "_phases", lambda roster: np.full(len(roster.period), 0.5))):
            stack.enter_context(mock.patch.object(target, name, value))
        try:
            yield world
        finally:
            for fleet in world.fleets:
                fleet.store.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--storm", default="build/storm")
    parser.add_argument("--counts", action="store_true")
    options = parser.parse_args()
    if not os.access(options.storm, os.X_OK):
        parser.error(f"there is no program {options.storm}: make build/storm makes it")
    told, faults, whole = 0, 0, hashlib.sha256()
    for seed in range(options.first, options.first + options.count):
        with virtual(options.storm, seed) as world:
            try:
                world.run()
            except Wrong as wrong:
                print(f"seed {seed}, {world.now / 60:.2f} min: {wrong}\n"
                      f"storm: {told + 1} stories from seed {options.first}: {told} passed, "
                      f"1 failed; again: python -m tests.storm.fleet --from {seed} --count 1")
                return 1
            told, faults = told + 1, faults + world.faults
            whole.update(world.hash.digest())
    print(f"storm: {told} stories from seed {options.first}: {told} passed, 0 failed; "
          f"trace {whole.hexdigest()[:16]}\n"
          f"storm: {told * AGENTS * ENDS / 3600:.0f} simulated hours of agents, {faults} faults of "
          f"the fleet")
    return int(options.counts and CLAIMS.print_counts())


if __name__ == "__main__":
    as_program(main, ".*")
