"""Polls all agents, each one once in its period, and takes what they report into the table:
README.md says how, in the section Polling. One thread does it; others look up names. A report has
nothing that would tell which request it answers: so each round uses the next of RING ports."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import queue
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dumpulse_fleet import client
from dumpulse_fleet.collect import wire
from dumpulse_fleet.collect.ages import Answers
from dumpulse_fleet.collect.judge import Expectations, Judge
from dumpulse_fleet.collect.keys import Readers, Verdict
from dumpulse_fleet.collect.wire import Batch, Book
from dumpulse_fleet.model.agents import Agent, Event, State
from dumpulse_fleet.model.table import Rows, Table, copy_rows
from dumpulse_fleet.record import snapshot
from dumpulse_fleet.record.snapshot import Snapshot

Publish = Callable[[Sequence[Event]], object]

RING = 16  # ports; an answer has to be so many rounds late to be mistaken
BATCH = 1024  # datagrams
REQUEST = np.frombuffer(client.REQUEST, np.uint8)
TICK = 0.05  # s from one look at the agents to the next; shorter if the buffers are small
SHORTEST_TICK = 0.002
BUFFER = 4 << 20  # bytes of a socket's receive buffer, if the system allows them
ENOUGH = 1000  # reports that should fit into it
GIVE_UP = 0.9  # part of the period after which a round is lost, if `timeout` is not less
REPEAT = 1 / 3  # part of this time after which a request is repeated
REPEATS = 0.5  # repeated requests for each round, on average
SPARE = 64  # repeated requests that may be sent at once beyond that
TRIES, MORE_TRIES = 2, 5  # requests in a round; the second number is for agents in doubt
RESOLVERS = 64  # threads that look up names: if a name server is dead, each takes 5 s or more
NAMELESS_S = 300.0  # s without an address after which that is a trouble of the agent, not ours
AGAIN = 60.0  # s until a name is looked up again, if its agent does not answer
RECEIVE_FOR = 0.25  # s at most, until the next requests are sent
FAMILIES = (socket.AF_INET, socket.AF_INET6)
ABSENT = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # this machine does not have the family
OVERDUE, SLACK = 2, 1.0  # periods, and s, in which a round of each agent must end
LATE = (1.0, 0.5)  # s, or part of the period, by which requests may be late: the longer of both
STARTING = "the agents are not polled yet"
RECENT = 60.0  # s for which answers that found no room are told


@dataclasses.dataclass
class Figures:
    """What the collector has done since it was started: OWN in web/metrics.py says what each word
    means."""

    rounds: int = 0
    lateness: float = 0.0
    skipped: int = 0
    void: int = 0
    overflowed: int = 0
    requests: int = 0
    repeated: int = 0
    reports: int = 0
    lost: int = 0
    bad: int = 0
    strange: int = 0
    late: int = 0
    unsent: int = 0
    lookups_failed: int = 0
    cpu: float = 0.0


def most_tries(table: Table, rows: Rows) -> NDArray[np.uint8]:
    """How many requests each of these agents gets in a round, until one is answered."""
    doubt = (table.misses[rows] > 0) & (table.agent_state[rows] < State.DAMAGED)
    return np.where(doubt, np.uint8(MORE_TRIES), np.uint8(TRIES))


class Roster:
    """The agents of a table: their addresses, and when they are polled."""

    def __init__(self, table: Table, old: Roster | None = None) -> None:
        """`old` is the one before: agents that stay where they are go on."""
        agents = table.agents
        count = len(agents)
        self.table = table
        self.judge = Judge(table)
        self.readers = Readers([agent.keys for agent in agents], table.known_epoch)
        self.keyed = self.readers.slot >= 0
        self.names = np.zeros((count, wire.NAME), np.uint8)
        self.hosts: dict[int, tuple[str, int]] = {}  # The addresses that are names, by row.
        self.choices: dict[int, list[bytes]] = {}  # all addresses of these hosts
        self.looked_up = np.full(count, -np.inf)  # the last time; inf: a look-up is under way
        self.is_named = np.zeros(count, np.bool_)  # its address is a name
        self.stuck = np.zeros(count, np.bool_)  # the last request could not leave this machine
        self.period = np.array([agent.period for agent in agents], np.float64)
        timeout = np.array([agent.timeout for agent in agents], np.float64)
        self.give_up = np.minimum(timeout, self.period * GIVE_UP)
        self.extra = np.zeros(count, np.bool_)  # Poll it once more, at once.
        self.tries = np.zeros(count, np.uint8)  # requests of this round; 0: no answer is awaited
        self.most_tries = np.zeros(count, np.uint8)
        self.wait = np.zeros(count, np.float64)  # s from one of them to the next
        self.asked = np.zeros(count, np.float64)  # the first of them
        self.deadline = np.full(count, np.inf)
        self.port = np.zeros(count, np.uint8)  # Its place in the ring.
        self.asked_at = np.full((RING, count), -np.inf)  # the first request at each port
        self.damaged = np.zeros(count, np.bool_)  # A damaged report came in this round.
        stay = self._stay(old) if old else {}  # rows now and before
        for row, agent in enumerate(agents):
            if row not in stay:
                self._place(row, agent)
        self.make_book()
        self.due = table.now() + self.period * self._phases()  # all that took a while
        self.settled = np.full(count, table.now())  # when an answer came, or its lack was judged
        self.nameless_since = np.full(count, np.inf)  # when its name was first not found
        if old and stay:
            self._go_on(old, np.array([*stay], np.intp), np.array([*stay.values()], np.intp))
        table.is_sought[:] = self.is_named & ~self.names.any(axis=1)

    def _stay(self, old: Roster) -> dict[int, int]:
        """Takes the places of agents that stay where they are. Their rows now and before."""
        stay: dict[int, int] = {}
        for row, agent in enumerate(self.table.agents):
            before = old.table.row.get(agent.name, -1)
            if before >= 0 and old.table.agents[before].address == agent.address:
                stay[row] = before
                if before in old.hosts:
                    self.hosts[row], self.is_named[row] = old.hosts[before], True
                    if old.placed[before]:
                        self.choices[row] = old.choices.get(before, [])
                        if np.isfinite(old.looked_up[before]):  # others belong to the old roster
                            self.looked_up[row] = old.looked_up[before]
        self.names[[*stay]] = old.names[[*stay.values()]]
        return stay

    def _go_on(self, old: Roster, rows: Rows, before: Rows) -> None:
        same = old.period[before] == self.period[rows]
        self.due[rows[same]], self.settled[rows[same]] = (
            old.due[before[same]], old.settled[before[same]])
        self.nameless_since[rows] = old.nameless_since[before]
        self.port[rows], self.asked_at[:, rows] = old.port[before], old.asked_at[:, before]
        self.readers.carry(rows, old.readers, before)

    def _phases(self) -> NDArray[np.float64]:
        """Spreads the agents of each period evenly over it."""
        phases = np.zeros(len(self.period))
        for period in np.unique(self.period):
            members = np.flatnonzero(self.period == period)
            phases[members] = (np.arange(len(members)) + 0.5) / len(members)
        return phases

    def _place(self, row: int, agent: Agent) -> None:
        host, port = client.parse_udp(agent.address)
        for family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                socket.inet_pton(family, host)
                self.names[row] = np.frombuffer(wire.pack(family, (host, port)), np.uint8)
                return
        self.hosts[row], self.is_named[row] = (host, port), True
        self.names[row] = self.table.place[row]  # It is used until a look-up succeeds.

    def make_book(self) -> None:
        self.family = wire.family_of(self.names)
        self.placed = self.family != 0
        self.book = Book.of(self.names, np.flatnonzero(self.placed))
        twins = self.book.keys[1:] == self.book.keys[:-1]
        self.twin = np.zeros(len(self.names), np.bool_)
        self.twin[self.book.rows[1:][twins]] = self.twin[self.book.rows[:-1][twins]] = True

    def move(self, row: int) -> bool:
        """Takes the next address of this agent's host, if it has another one. Then the book must be
        made again."""
        choices, now = self.choices.get(row, []), self.names[row].tobytes()
        if not choices or choices == [now]:
            return False
        after = choices[(choices.index(now) + 1) % len(choices)] if now in choices else choices[0]
        self.names[row] = np.frombuffer(after, np.uint8)
        return True


class Packets(NamedTuple):
    """Packets of a batch that came from agents, and what decides what each of them is."""

    slot: Rows  # Its place in the batch.
    rows: Rows  # The agent's row in the table.
    is_keyed: NDArray[np.bool_]  # its agent has a key
    is_timely: NDArray[np.bool_]  # it came to the port of this round
    is_awaited: NDArray[np.bool_]  # this round of its agent has no answer yet
    verdict: NDArray[np.uint8]
    begun: NDArray[np.float64]  # The time of the first request that it may answer.

    @property
    def is_report(self) -> NDArray[np.bool_]:
        return np.asarray(self.verdict == Verdict.BELIEVED)

    @property
    def is_answer(self) -> NDArray[np.bool_]:
        """The report that ends a round."""
        return self.is_report & self.is_timely & self.is_awaited

    @property
    def is_late(self) -> NDArray[np.bool_]:
        """A report of before, or twice. Of an agent with a key, anything that is not timely."""
        return ~self.is_answer & (self.is_report | self.is_keyed & ~self.is_timely)

    @property
    def is_bad(self) -> NDArray[np.bool_]:
        """Damaged, or rejected."""
        return (self.verdict > Verdict.AGAIN) & (self.is_timely | ~self.is_keyed)


class Collector:
    """Asks the agents of a table. `publish` gets the events, in this thread: it must not wait.

    `kept` keeps what is known over a restart. For `grace` seconds after a start no agent becomes
    unreachable, because the network may not be up yet.
    """

    def __init__(self, table: Table, publish: Publish, kept: Snapshot | None = None,
                 complain: Callable[[str], None] = client.complain, grace: float = 0.0
                 ) -> None:
        self.table = table
        self.figures = Figures()
        self.failure = ""  # The exception that has ended the thread.
        self._publish, self._kept, self._complain = publish, kept, complain
        self._saved, self._save_at = 0, 0.0  # rows of this save; when the next one begins
        self._save_every = snapshot.FIRST_S  # s
        self._grace, self._grace_ends = grace, 0.0  # s, and a time of client.uptime()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._orders: queue.SimpleQueue[tuple[Table, threading.Event]] = queue.SimpleQueue()
        # The key is the family and the place in the ring.
        self._sockets: dict[tuple[int, int], socket.socket] = {}
        self._room = 0  # reports for which each buffer has room
        self._seen = 0.0  # All that came before this time has been read.
        self._stuck_why = ""  # The error of the last request that could not leave.
        self._resolved_at = -np.inf  # when a name was found last
        self._overflow = 0  # packets without room, of the sockets that are open
        self._overflow_at = -np.inf  # when there were more of them
        self._repeats = float(SPARE)  # Repeated requests that are allowed now.
        self._incoming = Batch(BATCH)
        self._outgoing = Batch(BATCH, len(REQUEST))
        self._roster: Roster
        self._asking = False  # the roster is there
        self._resolvers = Resolvers()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        if self._kept:
            trouble = self._kept.load(self.table)
            if trouble:
                self._complain(trouble)
            self._save_at = client.uptime() + self._save_every
        self._ending.clear()
        self._grace_ends = client.uptime() + self._grace
        self.failure = ""
        self._open_ring()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits until the thread has ended and what is known is kept."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._resolvers.stop()

    @property
    def is_blind(self) -> bool:
        """It does not see most of the agents. From any thread."""
        if not self._asking:
            return True
        roster = self._roster
        late = self.table.now() - roster.settled > OVERDUE * roster.period + SLACK
        return bool(2 * np.count_nonzero(late) >= len(late))

    def trouble(self) -> str:
        """Returns what this collector does not see; empty: it sees all. From any thread."""
        if not self._asking:
            return STARTING
        roster, now = self._roster, self.table.now()
        if not len(roster.due):
            return "there are no agents to poll"
        blind = np.flatnonzero(now - roster.settled > OVERDUE * roster.period + SLACK)
        lateness = np.where(roster.tries == 0, now - roster.due, 0)
        late = (lateness > np.maximum(LATE[0], LATE[1] * roster.period)).any()
        nameless = int((roster.is_named & ~roster.placed & ~roster.table.nameless).sum())
        stuck = int(roster.stuck.sum())
        return "; ".join(text for applies, text in (
            (nameless, f"the names of {nameless:,} agents have no addresses yet"),
            (stuck, f"nothing can be sent to {stuck:,} agents: {self._stuck_why}"),
            (blind.size, f"{blind.size:,} agents are not watched, such as "
             f"{roster.table.agents[blind[0]].name if blind.size else ''}: "
             "their last rounds did not end"),
            (late, f"requests leave {lateness.max():.1f} s late: this machine cannot poll "
             "so often"),
            (now - self._overflow_at < RECENT, f"{self.figures.overflowed:,} answers found no "
             "room: allow larger receive buffers, "
             f"sysctl -w net.core.rmem_max={BUFFER}, or longer periods")) if applies)

    def replace(self, table: Table) -> None:
        """Asks the agents of this table from now on. It keeps what it knows of agents that stay:
        that is in the new table when this returns."""
        done = threading.Event()
        self._orders.put((table, done))
        while not done.wait(0.1) and self.running:
            pass

    # ---- the thread
    def _run(self) -> None:
        try:
            self._roster, self._asking = Roster(self.table), True
            while not self._ending.is_set():
                begun = time.monotonic()
                self._turn()
                self._save()
                self.figures.cpu = time.thread_time()
                self._ending.wait(max(self._tick() - (time.monotonic() - begun), SHORTEST_TICK))
        except Exception:  # whoever watches others must not fall silent
            self.failure = traceback.format_exc()
            self._complain(f"the collector has ended: {self.failure}")
        finally:
            self._save(whole=True)
            self._asking = False
            for endpoint in self._sockets.values():
                endpoint.close()
            self._sockets.clear()
            self._overflow = 0

    def _turn(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                table, done = self._orders.get_nowait()
                self._take_over(table)
                done.set()
        self._receive_all()
        self._take_addresses()
        self._end_rounds()
        self._begin_rounds()

    def _tick(self) -> float:
        """Returns the length of a tick: half a buffer of reports may come in it."""
        rate = float((1 / self._roster.period).sum())
        return min(TICK, max(SHORTEST_TICK, (self._room or ENOUGH) / 2 / max(rate, 1e-9)))

    def _take_over(self, table: Table) -> None:
        self._roster.readers.save(self.table.known_epoch)
        carry_over(self.table, table, self._publish)
        self._saved = 0
        self.table, self._roster = table, Roster(table, self._roster)

    # ---- rounds
    def _begin_rounds(self) -> None:
        roster, now = self._roster, self.table.now()
        due = np.flatnonzero(((roster.due <= now) | roster.extra) & (roster.tries == 0))
        if not due.size:
            return
        capacity = self._room or ENOUGH  # after a stand-still, answers must not come all at once
        if due.size > capacity:
            due = due[np.argsort(roster.due[due], kind="stable")[:capacity]]
        regular = due[roster.due[due] <= now]
        if regular.size:
            self.figures.lateness = float((now - roster.due[regular]).max())
        self._look_up(due[roster.is_named[due]], now)
        self._unresolve(due[roster.is_named[due] & ~roster.placed[due]], now)
        self._skip(due[~roster.placed[due]], now)
        placed = due[roster.placed[due]]
        roster.port[placed] = (roster.port[placed] + 1) % RING
        roster.readers.begin(placed[roster.keyed[placed]], now)
        roster.stuck[placed] = False
        sent = self._send(placed)
        self._skip(sent[roster.stuck[sent]], now)
        sent = sent[~roster.stuck[sent]]
        self._begun(sent, now)
        tries = roster.most_tries[sent] = most_tries(self.table, sent)
        roster.wait[sent] = roster.give_up[sent] * np.where(tries > TRIES, 1 / tries, REPEAT)
        roster.tries[sent], roster.asked[sent] = 1, now
        roster.asked_at[roster.port[sent], sent] = now
        roster.deadline[sent] = now + roster.wait[sent]

    def _unresolve(self, rows: Rows, now: float) -> None:
        """A name that is not found for long is a trouble of its agent, unless none has been found
        meanwhile: then the name service is down."""
        roster, nameless = self._roster, self.table.nameless
        since = roster.nameless_since[rows]
        long = rows[(now - since > NAMELESS_S) & (since < self._resolved_at) & ~nameless[rows]]
        if long.size and client.uptime() >= self._grace_ends:
            self._tell(roster.judge.unresolve(long, time.time()))
        roster.settled[rows[nameless[rows]]] = now

    def _skip(self, rows: Rows, now: float) -> None:
        """A round in which no request leaves is none: it proves nothing of the agent."""
        self.figures.void += len(rows)
        self._begun(rows, now)

    def _begun(self, rows: Rows, now: float) -> None:
        roster = self._roster
        self.figures.rounds += len(rows)
        self._repeats = min(self._repeats + len(rows) * REPEATS, SPARE + len(roster.due) * REPEATS)
        roster.extra[rows] = roster.damaged[rows] = False
        passed = np.maximum(np.ceil((now - roster.due[rows]) / roster.period[rows] + 1e-9), 0)
        self.figures.skipped += int(np.maximum(passed - 1, 0).sum())
        roster.due[rows] += passed * roster.period[rows]

    def _end_rounds(self) -> None:
        roster, now = self._roster, self.table.now()
        over = np.flatnonzero(roster.deadline <= now)
        if not over.size:
            return
        retried = roster.tries[over] < roster.most_tries[over]
        retried &= np.cumsum(retried) <= self._repeats
        again = self._send(over[retried], probing=True)
        self.figures.repeated += len(again)
        self._repeats -= len(again)
        roster.tries[again] += 1
        last = roster.tries[again] == roster.most_tries[again]
        end = np.where(last, roster.asked[again] + roster.give_up[again], 0)
        roster.deadline[again] = np.maximum(end, now + roster.wait[again])
        self._judge_lacks(over[~retried])

    def _judge_lacks(self, rows: Rows) -> None:
        """Ends rounds without an answer: they are lost, or void if an answer may be unread or may
        have found no room."""
        roster, now = self._roster, self.table.now()
        over = rows[roster.asked[rows] + roster.give_up[rows] <= now]
        if not over.size:
            return
        self._count_overflow(now)
        ends = np.maximum(roster.deadline[over], roster.asked[over] + roster.give_up[over])
        sure = (ends <= self._seen) & (roster.asked[over] > self._overflow_at)
        void = over[~sure & (roster.due[over] <= now)]
        self.figures.void += len(void)
        roster.tries[void], roster.deadline[void] = 0, np.inf
        self._lose(over[sure])

    def _lose(self, rows: Rows) -> None:
        roster = self._roster
        roster.tries[rows] = 0
        roster.deadline[rows] = np.inf
        if not len(rows):
            return
        self.figures.lost += len(rows)
        roster.settled[rows], self.table.is_sought[rows] = self.table.now(), False
        self._tell([*self._beliefs(rows, False), *roster.judge.miss(
            rows, time.time(), client.uptime() < self._grace_ends, roster.damaged[rows])])
        if roster.hosts:
            if any([roster.move(row) for row in rows.tolist() if row in roster.choices]):
                roster.make_book()

    def _beliefs(self, rows: Rows, believed: bool) -> list[Event]:
        """Returns at most one event in a round of an agent, whatever others send in its name."""
        agents = self.table.agents
        return [Event(time.time(), agents[row].name, -1, "key", was.words, now.words, -1.0,
                      agents[row].site) for row, was, now in self._roster.readers.news(
                          rows, believed)]

    def _tell(self, events: Sequence[Event]) -> None:
        if events:
            self._publish(events)

    # ---- packets
    def _open_ring(self) -> None:
        """Opens all sockets, before others take the descriptors. OSError: one cannot be opened."""
        for family, place in ((family, place) for family in FAMILIES for place in range(RING)):
            try:
                self._sockets[family, place], room = wire.open_socket(family, BUFFER)
            except OSError as error:
                if error.errno not in ABSENT:
                    raise
                continue  # Agents with such addresses are `stuck`.
            if not self._room and room < ENOUGH:
                self._complain(
                    f"the receive buffers have room for {room} reports only: reports may get lost. "
                    f"Let this program have more: sysctl -w net.core.rmem_max={BUFFER}")
            self._room = room

    def _send(self, rows: Rows, probing: bool = False) -> Rows:
        """Sends a request to each of these agents. Returns those that got it, and those to which
        nothing can be sent, which are `stuck`. The others must wait until the kernel has room.
        `probing`: the last request of a round that looks lost may be of version 1, to find out that
        an agent has no key."""
        if not len(rows):
            return rows
        roster, done = self._roster, [rows[:0]]
        keyed = roster.keyed[rows] & ~(probing & (roster.tries[rows] == MORE_TRIES - 1))
        places = np.flatnonzero(np.bincount(roster.port[rows])).tolist()
        for family, place in ((family, place) for family in FAMILIES for place in places):
            targets = np.flatnonzero((roster.family[rows] == family) & (roster.port[rows] == place))
            if not targets.size:
                continue
            if (where := self._sockets.get((family, place))) is None:
                roster.stuck[rows[targets]], self._stuck_why = True, os.strerror(ABSENT[0])
                done.append(rows[targets])
                continue
            for start in range(0, len(targets), BATCH):
                part = targets[start:start + BATCH]
                count = self._send_batch(where, rows[part], keyed[part])
                done.append(rows[part[:count]])
                if count < len(part):
                    self.figures.unsent += len(targets) - start - count
                    break
        return np.concatenate(done)

    def _send_batch(self, where: socket.socket, rows: Rows, keyed: NDArray[np.bool_]) -> int:
        outgoing = self._outgoing
        outgoing.address(len(rows), self._roster.names[rows])
        outgoing.packets[:len(rows)] = REQUEST
        if keyed.any():
            outgoing.packets[np.flatnonzero(keyed)] = self._roster.readers.requests(rows[keyed])
        position = 0
        while position < len(rows):
            count, error = outgoing.send(where, position, len(rows))
            position += count
            self.figures.requests += count
            if error in wire.NO_ROOM:
                break
            if error:
                self._roster.stuck[rows[position]], self._stuck_why = True, os.strerror(error)
                position += 1
        return position

    def _receive_all(self) -> None:
        begun, end = self.table.now(), time.monotonic() + RECEIVE_FOR
        batch, filled, unread = self._incoming, 0, False
        places = np.zeros(BATCH, np.uint8)
        for (_, place), where in self._sockets.items():
            has_more = True
            while has_more and time.monotonic() < end:
                count = batch.receive(where, filled)
                places[filled:filled + count] = place
                filled += count
                has_more = filled == BATCH
                if has_more:
                    self._take(places)
                    filled = 0
            unread |= has_more
        self._take(places[:filled])
        if not unread:
            self._seen = begun

    def _count_overflow(self, now: float) -> None:
        overflow = sum(map(wire.overflowed, self._sockets.values()))
        if overflow != self._overflow:
            self.figures.overflowed += (overflow - self._overflow) % (1 << 32)
            self._overflow, self._overflow_at = overflow, now

    def _take(self, places: NDArray[np.uint8]) -> None:
        """Takes the packets at the beginning of the batch; they came to these ports of the ring."""
        count = len(places)
        if not count:
            return
        batch, roster, figures = self._incoming, self._roster, self.figures
        rows = roster.book.find(batch.names[:count], roster.names)
        from_agents = np.flatnonzero(rows >= 0)
        figures.strange += count - len(from_agents)
        if not from_agents.size:
            return
        if roster.twin[rows[from_agents]].any():
            self._tell_twins_apart(rows, places)
        packets = self._sorted(from_agents, rows[from_agents], places[from_agents])
        bad = packets.rows[packets.is_bad]
        figures.bad += len(bad)
        np.add.at(self.table.bad, bad, 1)
        # A report that is not authenticated proves nothing.
        roster.damaged[bad] = ~roster.keyed[bad]
        again = np.unique(packets.rows[packets.is_keyed & (packets.verdict == Verdict.AGAIN)])
        # A late report is the newest word of its agent if no later request has been answered.
        used = self._use(self._answers(packets, packets.is_report & packets.is_late & (
            packets.begun > self.table.asked[packets.rows])), False)
        used += self._use(self._answers(packets, packets.is_answer))
        figures.late += int((packets.is_late | packets.is_answer).sum()) - used
        self._send(again[roster.tries[again] > 0])

    def _sorted(self, slots: Rows, rows: Rows, places: NDArray[np.uint8]) -> Packets:
        """These packets of the batch are from these agents."""
        batch, roster = self._incoming, self._roster
        lengths, is_keyed = batch.lengths(batch.count)[slots], roster.keyed[rows]
        is_whole, is_timely = wire.good(batch.packets[slots], lengths), roster.port[rows] == places
        verdict = np.where(is_whole, Verdict.BELIEVED, Verdict.LENGTH).astype(np.uint8)
        if is_keyed.any():
            some = np.flatnonzero(is_keyed)
            verdict[some] = roster.readers.take(
                rows[some], batch.packets[slots[some]], lengths[some], is_whole[some],
                is_timely[some], self.table.now())
        return Packets(slots, rows, is_keyed, is_timely, roster.tries[rows] > 0, verdict,
                       roster.asked_at[places, rows])

    def _answers(self, packets: Packets, which: NDArray[np.bool_]) -> Answers:
        """These reports of the batch, one of each agent."""
        use = np.flatnonzero(which)
        rows, firsts = np.unique(packets.rows[use], return_index=True)
        use = use[firsts]
        slots, asked = packets.slot[use], packets.begun[use]
        batch, now, unix_now = self._incoming, self.table.now(), time.time()
        unix = batch.times(batch.count)[slots]
        received = now - (unix_now - unix)
        # Unless Unix time was set meanwhile: then it came now, at the latest.
        was_set = (received < asked - 0.001) | (received > now + 0.001)
        received = np.maximum(np.where(was_set, now, received), asked)
        entry = wire.entries(batch.packets[slots])
        keyed = np.flatnonzero(packets.is_keyed[use])
        if keyed.size:
            entry[keyed] = wire.entries(batch.packets[slots[keyed], 4:])
        return Answers(rows, asked, received, np.where(was_set, unix_now, unix), entry)

    def _tell_twins_apart(self, rows: Rows, places: NDArray[np.uint8]) -> None:
        """Gives each answer to one that waits, where several agents have the same address."""
        roster = self._roster
        answered: set[int] = set()
        for slot in np.flatnonzero((rows >= 0) & roster.twin[rows]).tolist():
            for twin in roster.book.twins(int(rows[slot])).tolist():
                if twin not in answered and roster.tries[twin] \
                        and roster.port[twin] == places[slot]:
                    rows[slot] = twin
                    answered.add(twin)
                    break

    def _use(self, answers: Answers, timely: bool = True) -> int:
        """Lets the judge take them, and returns how many there were. What is not `timely` ends no
        round: the answer to the last request may still come."""
        rows, roster = answers.rows, self._roster
        if not len(rows):
            return 0
        if timely:
            roster.tries[rows] = 0
            roster.deadline[rows] = np.inf
        else:
            self.table.late[rows] += 1
        roster.settled[rows], self.table.is_sought[rows] = self.table.now(), False
        named = rows[roster.is_named[rows]]
        self.table.place[named], self.table.nameless[named] = roster.names[named], False
        self.figures.reports += len(rows)
        events, out = roster.judge.take(answers)
        roster.extra[rows[~out.used]] = True
        self._tell([*self._beliefs(rows, True), *events])
        return len(rows)

    # ---- names
    def _look_up(self, rows: Rows, now: float) -> None:
        """Of those that are due: agents that have no address from the name service yet, or do not
        answer. The last address is used meanwhile."""
        roster = self._roster
        others = np.flatnonzero(roster.is_named & roster.placed)
        rows = rows[~np.isfinite(roster.looked_up[rows]) | ~roster.placed[rows]
                    | (self.table.agent_state[rows] >= State.DAMAGED)]
        if others.size and not roster.placed[rows].all():  # does the name service find another one?
            rows = np.append(rows, others[int(now) % len(others)])
        for row in np.unique(rows[now - roster.looked_up[rows] > AGAIN]).tolist():
            roster.looked_up[row] = np.inf
            self._resolvers.look_up(roster, row)

    def _take_addresses(self) -> None:
        roster, moved = self._roster, False
        for owner, row, addresses in self._resolvers.found():
            if owner is not roster:
                continue
            roster.looked_up[row] = now = self.table.now()
            self.figures.lookups_failed += not addresses
            if not addresses:
                roster.nameless_since[row] = min(roster.nameless_since[row], now)
                self.table.is_sought[row] &= now - self._resolved_at > AGAIN
            else:
                roster.nameless_since[row], self._resolved_at = np.inf, now
                roster.choices[row] = addresses
                moved |= roster.names[row].tobytes() not in addresses and roster.move(row)
        if moved:
            roster.make_book()

    # ---- over a restart
    def _save(self, whole: bool = False) -> None:
        """A part of the table when it is time, or the whole."""
        count = len(self.table.agents)
        while self._kept and (whole or client.uptime() >= self._save_at):
            if self._asking:
                self._roster.readers.save(self.table.known_epoch)
            self._saved = self._kept.save(self.table, 0 if self._saved >= count else self._saved)
            if self._saved >= count:
                self._save_every = min(2 * self._save_every, max(
                    snapshot.PERIOD_S, count * snapshot.FOR_EACH_S))
                self._save_at = client.uptime() + self._save_every
                return
            if not whole:
                return


def carry_over(old: Table, new: Table, publish: Publish) -> None:
    """Copies what is known of agents that are in both tables. An agent that is at another place,
    or counts otherwise, begins anew with its clock. Of an agent that goes, an event ends each state
    that was told."""
    same = [(row, old.row[agent.name]) for row, agent in enumerate(new.agents)
            if agent.name in old.row]
    to, old_rows = (np.array(column, np.intp) for column in (zip(*same) if same else ((), ())))
    expectations, old_expectations = Expectations(new.agents), Expectations(old.agents)
    with old.lock, new.lock:
        new.zero, new.version = old.zero, old.version + 1
        for name in snapshot.ARRAYS:
            copy_rows(getattr(new, name), to, getattr(old, name), old_rows)
        moved = np.array([new.agents[row].address != old.agents[before].address
                          for row, before in same], np.bool_)
        moved |= expectations.tick[to] != old_expectations.tick[old_rows]
        moved |= expectations.now_from[to] != old_expectations.now_from[old_rows]
        new.kind[to[moved]] = new.place[to[moved]] = new.nameless[to[moved]] = 0
        new.changed[:] = new.version
    events, now = [], time.time()
    for row, agent in enumerate(old.agents):
        if agent.name in new.row:
            continue
        states = [(-1, old.agent_told[row], old.agent_since[row]),
                *zip(range(64), old.told[row], old.since[row])]
        events += [Event(now, agent.name, variable, "state", State(was).words,
                         State.UNWATCHED.words, max(0.0, now - since) if since else -1.0,
                         agent.site)
                   for variable, was, since in states if was > State.PENDING]
    if events:
        publish(events)


# ---------------------------------------------------------------- names
class Resolvers:
    """Threads that look up names. They start when there is work, and never hold up the
    collector."""

    def __init__(self) -> None:
        self._threads = 0
        self._work: queue.SimpleQueue[tuple[Roster, int] | None] = queue.SimpleQueue()
        self._found: deque[tuple[Roster, int, list[bytes]]] = deque()

    def look_up(self, roster: Roster, row: int) -> None:
        self._work.put((roster, row))
        if self._threads < RESOLVERS:
            self._threads += 1
            threading.Thread(target=self._run, name="resolver", daemon=True).start()

    def _run(self) -> None:
        while work := self._work.get():
            self._found.append((*work, resolve(*work[0].hosts[work[1]])))

    def found(self) -> list[tuple[Roster, int, list[bytes]]]:
        return [self._found.popleft() for _ in range(len(self._found))]

    def stop(self) -> None:
        for _ in range(self._threads):
            self._work.put(None)
        self._threads = 0


def resolve(host: str, port: int) -> list[bytes]:
    """Returns the addresses of a host; none: there is none."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, ValueError):  # ValueError: this cannot be a name
        return []
    return [wire.pack(family, address)  # type: ignore[arg-type]
            for family, _, _, _, address in addresses if family in FAMILIES]
