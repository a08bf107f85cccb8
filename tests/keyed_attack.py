"""An attacker against the roles of spec/keyed.py, by chance.     python3 -m tests.keyed_attack

The attacker is the network. He keeps each packet for ever, delivers any of them at any time, any
number of times, to anybody, or never. He cuts the power of each role at any moment, also while a
number is stored, before it or after it. He has opened one node, and makes all tags that its key can
make, and no others. Numbers are small, so that all their limits are met often: an epoch has 3
counts, a stored number reserves 2 epochs, and 3 wrong tags are junk for 2 epochs.

What must never happen, and is returned if it does:

replay    a heartbeat or a request is taken twice
old       a heartbeat of a node that hears is taken in a later epoch of the agent than that in
          which it was made
order     a heartbeat is taken after a later one of the same node. A node that hears, and was reset
          in this epoch, is excused: spec/keyed.md says so.
forged    something is taken that nobody has made
reused    the agent is in an epoch that it has been in before
stale     a reader believes a report that was made before its request
held      a reader believes a report after it has heard a later epoch than that of its request
lockout   the attacker goes, and a node is not heard after one epoch and one beacon, or after the
          next number of a node that only sends

SPDX-License-Identifier: MIT
"""

import hashlib
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

from spec import keyed
from spec.keyed import (ANNOUNCE, FIRST, HEARTBEAT, LABELS, READER_LABEL, REPORT, Agent, Hearer,
                        Keys, Numbers, Reader, Sender)

SMALL = {"FULL": 3, "BLOCK": 2, "MOST_WRONG": 3, "JUNK_LASTS": 2}
HEARS, ALONE, OPENED = 9, 0, 8  # variables


class PowerCut(Exception):
    pass


class IdealKeys(Keys):
    """Tags that nobody can guess, and that are quick to make."""

    def tag(self, label: int, number: int, four: bytes, table: bytes = b"") -> bytes:
        text = b"%d %d " % (label, number) + four + table
        return hashlib.blake2s(text, key=self.master, digest_size=16).digest()


class CutNumbers(Numbers):
    """Numbers whose storing may be cut: just before the number is there, or just after it."""

    def __init__(self, numbers: dict[int, int], chance: random.Random) -> None:
        super().__init__(numbers)
        self.chance, self.cuts = chance, True

    def store(self, label: int, number: int) -> bool:
        fate = self.chance.randrange(12) if self.cuts else 9
        if fate == 0:
            raise PowerCut
        if fate == 1:
            return False
        super().store(label, number)
        if fate == 2:
            raise PowerCut
        return True


@dataclass(frozen=True)
class Roles:
    """What is attacked. A mutant replaces one of them."""

    agent: type[Agent] = Agent
    hearer: type[Hearer] = Hearer
    sender: type[Sender] = Sender
    reader: type[Reader] = Reader


class World:
    def __init__(self, seed: int, roles: Roles) -> None:
        self.chance, self.roles, self.keys = random.Random(seed), roles, IdealKeys(bytes(16))
        self.agents, self.nodes = (CutNumbers(numbers, self.chance) for numbers in (
            {keyed.BLOCK_LABEL: 0, ALONE: keyed.OWN_FIRST}, {ALONE: keyed.OWN_FIRST}))
        self.network: list[bytes] = []
        self.reports: list[tuple[bytes, int]] = []  # and when each was made
        # Of a heartbeat: its number, and the agent's epoch for this label then.
        self.made: dict[bytes, tuple[int, int]] = {}
        self.taken: dict[bytes, int] = {}
        self.newest = {HEARS: 0, ALONE: 0}
        self.excused = -1  # the epoch in which the node that hears was reset
        self.epochs: set[int] = set()
        self.faults: set[str] = set()
        self.step, self.asked_at, self.asked_in = 0, 0, 0
        self.reset_agent()
        self.hearer = roles.hearer(self.keys, HEARS)
        self.reset_sender()
        self.reader = roles.reader(self.keys)

    # ---- What the roles do.

    def send(self, packet: bytes | None) -> None:
        if packet:
            self.network.append(packet)

    def reset_agent(self) -> None:
        self.agent = self.roles.agent(self.keys, self.agents, OPENED + 1)
        try:
            sent = self.agent.begin()
        except PowerCut:
            self.reset_agent()
            return
        if sent:
            self.epoch_began()
            self.network += sent[HEARS], sent[READER_LABEL]

    def epoch_began(self) -> None:
        if self.agent.epoch in self.epochs:
            self.faults.add("reused")
        self.epochs.add(self.agent.epoch)

    def go_on(self, labels: int) -> None:
        """To the epoch of so many labels more."""
        for _ in range(labels):
            begins = self.agent.reached == LABELS
            try:
                beacon = self.agent.next()
            except PowerCut:
                self.reset_agent()
                return
            if beacon is None:
                self.reset_agent()
                return
            if begins:
                self.epoch_began()
            if self.agent.reached - 1 in (HEARS, READER_LABEL):
                self.send(beacon)

    def reset_hearer(self) -> None:
        self.hearer, self.excused = self.roles.hearer(self.keys, HEARS), \
            self.agent.epoch_of(HEARS)

    def reset_sender(self) -> None:
        self.sender = self.roles.sender(self.keys, ALONE, self.nodes)
        self.renew()

    def renew(self) -> None:
        try:
            self.sender.begin()
        except PowerCut:
            self.reset_sender()
        self.send(self.sender.announce())

    def beat(self) -> None:
        for variable, role in ((HEARS, self.hearer), (ALONE, self.sender)):
            number = len(self.made) + 1
            packet = role.heartbeat(*divmod(number % 65536, 256))
            if packet:
                self.made[packet] = number, self.agent.epoch_of(HEARS)
                self.send(packet)
            elif variable == ALONE:
                self.renew()

    def ask(self) -> None:
        packet = self.reader.request(self.chance.randbytes(2))
        if packet:
            self.asked_at, self.asked_in = self.step, self.reader.epoch
            self.send(packet)

    # ---- What the attacker does.

    def of_the_opened_node(self) -> bytes:
        """Anything that its key signs: also beacons of epochs to come."""
        epoch = self.agent.epoch + self.chance.randrange(-1, 4)
        kind = self.chance.choice((0, keyed.IS_ANNOUNCE, keyed.IS_HEARTBEAT))
        if kind == 0:
            return self.keys.beacon(OPENED, max(epoch, 0))
        if kind == keyed.IS_ANNOUNCE:
            return self.keys.announce(OPENED, keyed.OWN_FIRST + self.chance.randrange(9))
        label = self.chance.choice((ALONE, HEARS, OPENED))
        four = bytes((kind + label, self.chance.randrange(1, 4))) + self.chance.randbytes(2)
        return self.keys.packet(OPENED, max(epoch, 0), four)

    def give_agent(self, packet: bytes) -> None:
        try:
            result, sent = self.agent.process(self.step % 65536, packet)
        except PowerCut:
            self.reset_agent()
            return
        if result != REPORT:
            self.send(sent)
        if packet[4] % 64 == OPENED and packet[4] < keyed.IS_REQUEST:
            return
        if result in (REPORT, ANNOUNCE):
            if packet not in self.network:
                self.faults.add("forged")
        if result in (HEARTBEAT, FIRST, REPORT):
            self.taken[packet] = self.taken.get(packet, 0) + 1
            if self.taken[packet] > 1:
                self.faults.add("replay")
        if result == REPORT and sent:
            self.reports.append((sent, self.step))
        if result in (HEARTBEAT, FIRST):
            if packet not in self.made:
                self.faults.add("forged")
                return
            variable = packet[4] - keyed.IS_HEARTBEAT
            number, epoch = self.made[packet]
            if variable == HEARS and epoch != self.agent.epoch_of(HEARS):
                self.faults.add("old")
            if number < self.newest[variable] and \
                    not (variable == HEARS and self.excused == self.agent.epoch_of(HEARS)):
                self.faults.add("order")
            self.newest[variable] = max(number, self.newest[variable])

    def attack(self, steps: int) -> set[str]:
        chance = self.chance
        for self.step in range(1, steps + 1):
            what = chance.randrange(40)
            if what < 6:
                self.beat()
            elif what == 6:
                self.ask()
            elif what < 9:
                self.go_on(chance.choice((1, HEARS, LABELS - HEARS - 2, LABELS)))
            elif what == 9:
                self.agent = self.roles.agent(self.keys, self.agents, OPENED + 1)
                for packet in self.network[-9:]:
                    self.give_agent(packet)  # before it begins
                self.reset_agent()
            elif what == 10:
                self.reset_hearer()
            elif what == 11:
                self.reset_sender()
            elif what == 12:
                self.reader = self.roles.reader(self.keys)
            elif what == 13:
                self.give_agent(chance.randbytes(4) + bytes((chance.choice(
                    (0x40, 0x80, 0x89, 0xC0)),)) + chance.randbytes(3))
            elif what == 14:
                packet = self.of_the_opened_node()
                self.hearer.hear(packet)
                self.reader.hear(packet)
                self.give_agent(packet)
            elif what < 18 and self.reports:
                report, made_at = chance.choice(self.reports[-9:])
                if self.reader.check(report):
                    self.faults |= {"stale"} if made_at < self.asked_at else set()
                    self.faults |= {"held"} if self.reader.epoch != self.asked_in else set()
            else:
                recent = self.network[-chance.choice((3, 12, len(self.network))):]
                packet = chance.choice(recent or [bytes(8)])
                for role in chance.sample((self.hearer, self.reader), chance.randrange(3)):
                    role.hear(packet)
                for _ in range(chance.randrange(3)):
                    self.give_agent(packet)
        self.leave()
        return self.faults

    def leave(self) -> None:
        """The attacker goes."""
        self.agents.cuts = self.nodes.cuts = False
        self.go_on(LABELS)
        self.hearer.hear(self.agent.beacon(HEARS) or b"")
        results = [self.agent.process(0, self.hearer.heartbeat(1, 1) or b"")[0]
                   for _ in range(1 + self.hearer.twice)]
        if results[-1] != HEARTBEAT:
            self.faults.add("lockout")
        self.sender.begin()
        for sent, wanted in ((self.sender.announce, ANNOUNCE),
                             (lambda: self.sender.heartbeat(1, 1), HEARTBEAT)):
            packet = sent()
            if not packet or self.agent.process(0, packet)[0] != wanted:
                self.faults.add("lockout")


def search(runs: int, steps: int, roles: Callable[[], Roles] = Roles, first: int = 0,
           enough: int = 10 ** 9) -> dict[str, int]:
    """Returns how many of the runs had each fault. It stops when a run has had `enough`."""
    counts: dict[str, int] = {}
    before = {name: getattr(keyed, name) for name in SMALL}
    vars(keyed).update(SMALL)
    try:
        for seed in range(first, first + runs):
            for fault in World(seed, roles()).attack(steps):
                counts[fault] = counts.get(fault, 0) + 1
            if sum(counts.values()) >= enough:
                break
    finally:
        vars(keyed).update(before)
    return counts


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    runs, steps = (given + [300, 400][len(given):])[:2]
    faults = search(runs, steps)
    print(f"keyed_attack: {runs} runs of {steps} steps: {faults or 'no fault'}")
    if faults:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
