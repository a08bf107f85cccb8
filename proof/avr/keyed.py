"""Follows every path of the roles of version 2 on AVR, with tags as black boxes.

tags.py proves what makes a tag. Here, each call of it is answered by unknown bytes. Each path ends
as spec/keyed.md says, which is written here a second time, as code that asks z3 where it has to
decide: the result, the role's RAM, and each hook's arguments, and what the RAM was when a hook was
called. Nothing else is written. All paths together cover every packet, length and state of a role.
dumpulse_take_() is followed alone, and so is dumpulse_keyed_process(): who calls one of them gets
any of its results. SPDX-License-Identifier: MIT"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import z3

from bench.processors.machine import LOAD, SEND, STORE, Keyed, Machine, load
from proof.avr import tags
from proof.avr.machine import (RAM_BYTES, Code, State, check_reached, check_return, check_written,
                               cover_all, explore)
from proof.avr.symbols import (Byte, Bytes, Flag, choose, equal, feasible, join, must, split,
                               unknown, vector)
from spec import keyed

PROCESS, TAKE, NEXT = "dumpulse_keyed_process", "dumpulse_take_", "dumpulse_keyed_next"
ALONE, HEAR, BEAT = "dumpulse_alone_process", "dumpulse_hear", "dumpulse_keyed_heartbeat"
BEGIN, ANNOUNCE = "dumpulse_sender_begin", "dumpulse_sender_announce"
ROLES = (TAKE, PROCESS, NEXT, ALONE, HEAR, BEAT, BEGIN, ANNOUNCE)
TAGS = (tags.RIGHT, tags.MAKE, tags.REPORT_TAG)
MOST = 7000  # cycles of a heartbeat, with the key of its label
COUNT = 2  # nodes that only send: a larger number only makes another entry possible
EPOCH, REACHED, JUNK, WRONG, PLACE, WAITING = 0, 4, 5, 6, 7, Keyed.WAITING  # in an agent
LEFT = 4  # in a node; then comes `twice`
ANSWERS = {tags.RIGHT: (0, 1), STORE: (0, 1), TAKE: (keyed.HEARTBEAT, keyed.FIRST)}
MOST_CALLS = 4  # of any path


class RoleCode(Code):
    """Answers each call of a hook, of what makes a tag, and of what is followed alone. A call is
    kept with what it was told, and with the memory."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, machine.target.return_address)
        self.machine = machine
        self.costs: dict[str, tuple[int, int]] = {}  # cycles and stack of what is answered
        for name in (*TAGS, TAKE, PROCESS, LOAD, STORE, SEND):
            self.answers(name)

    def answers(self, name: str) -> None:
        self.hooks[self.machine.symbols[name]] = partial(self.answer, name)

    def following(self, function: str) -> int:
        self.hooks.pop(at := self.machine.symbols[function], None)
        return at

    def answer(self, name: str, state: State) -> None:
        r, memory, number = state.registers, state.memory, len(state.hooks)

        def behind(low: int, first: int, end: int) -> list[int]:
            must(all(isinstance(byte, int) for byte in r[low:low + 2]),
                 f"{name} gets a pointer that may point anywhere")
            at = int(r[low]) | int(r[low + 1]) << 8
            return [*range(at + first, at + end)]

        told, read, made = r[24:26], list[int](), dict[int, Byte]()
        if name in (tags.RIGHT, tags.MAKE):
            first = 4 * (name == tags.MAKE)
            told, read = [r[22], *r[18:22]], behind(24, first, 8)
            made = dict(zip(behind(24, 0, first), unknown(f"made{number}_", first), strict=True))
        elif name == tags.REPORT_TAG:
            told, read = r[20:24], behind(24, 0, 8) + behind(18, 8, tags.REPORT)
            made = dict(zip(behind(18, 0, 8), unknown(f"made{number}_", 8), strict=True))
        elif name in (SEND, TAKE, PROCESS):
            read = behind(22, 0, behind(20, 0, 1)[0] if name == SEND else 8)
            told += r[18:22] if name == PROCESS else []
        else:
            told = [r[24], *(r[20:24] if name == STORE else [])]
        told += [memory[at] for at in read]
        state.hooks.append((name, told, memory.copy()))
        self.clobber(state)
        memory |= made
        cycles, stack = self.costs.get(name, (0, 0))
        state.cycles += cycles
        state.lowest = min(state.lowest, state.sp + self.pushed - stack)
        if name == LOAD:
            state.registers[22:26] = [*unknown(f"loaded{number}_", 3), 0]
        else:
            state.registers[24] = answer_of(name, number)
            state.conditions += may_answer(name, number)


def answer_of(name: str, number: int) -> z3.BitVecRef:
    return z3.BitVec(f"{name}{number}", 8)


def may_answer(name: str, number: int) -> list[z3.BoolRef]:
    return [z3.Or(*(answer_of(name, number) == one for one in ANSWERS[name]))] \
        if name in ANSWERS else []


class World:
    """A role and a packet, which may hold anything, and the arguments of its function."""

    def __init__(self, code: RoleCode, name: str, size: int) -> None:
        machine = code.machine
        self.at, self.packet = machine.ram + 0x0B, machine.ram + 1
        self.top = machine.ram + 2 * RAM_BYTES - 1
        self.size, self.name, self.clock = size, name, code.clock
        self.first: dict[int, Byte] = dict(enumerate(unknown("role", size), self.at))
        self.bytes = unknown("packet", 8)
        self.first |= dict(enumerate(self.bytes, self.packet))
        self.length, self.context = unknown("length", 2), unknown("context", 2)
        self.label, self.sender, self.value = (z3.BitVec(name, 8)
                                               for name in ("label", "sender", "value"))
        self.own = {*range(self.at, self.at + size), *range(self.packet, self.packet + 8)}
        self.given: list[z3.BoolRef] = []

    def start(self, code: RoleCode) -> State:
        role, packet, any_ = split(self.at), split(self.packet), z3.BitVec("any", 8)
        arguments: list[Bytes] = {
            PROCESS: [role, packet, self.length, self.context], TAKE: [role, packet],
            NEXT: [role, self.context],
            ALONE: [role, split(self.at + self.size - 4 * COUNT), [COUNT, any_], packet,
                    self.length, self.context],
            HEAR: [role, [self.label, any_], packet, self.length],
            BEAT: [role, packet, [self.label, any_], [self.sender, any_], [self.value, any_]],
            BEGIN: [role, [self.label, any_]], ANNOUNCE: [role, packet, [self.label, any_]],
        }[self.name]
        state = code.call(code.following(self.name), self.top, self.first.copy(), *arguments)
        state.conditions = self.given.copy()
        return state


class Rules:
    """What spec/keyed.md says that a call makes of a role, and which hooks it calls."""

    def __init__(self, world: World, case: Case) -> None:
        self.world, self.ask, self.pick = world, case.ask, case.pick
        self.memory = world.first.copy()
        self.hooks: list[tuple[str, list[Byte], dict[int, Byte]]] = []
        self.p = [*map(vector, world.bytes)]
        self.kind, self.count = self.p[4:6]
        self.eight = join(world.length) == 8

    # -- what the role has, the low byte first

    def get(self, at: int) -> z3.BitVecRef:
        return vector(self.memory[self.world.at + at])

    def put(self, at: int, *values: Byte) -> None:
        self.memory |= dict(enumerate(values, self.world.at + at))

    def word(self, at: int) -> z3.BitVecRef:
        return z3.Concat(*(self.get(at + byte) for byte in (3, 2, 1, 0)))

    # -- what it calls

    def call(self, name: str, *told: Byte) -> int:
        """Returns the number of a call."""
        self.hooks.append((name, [*told], self.memory.copy()))
        return len(self.hooks) - 1

    def succeeds(self, name: str, *told: Byte) -> bool:
        return self.ask(answer_of(name, self.call(name, *told)) == 1)

    def is_right(self, label: Byte, number: z3.BitVecRef) -> bool:
        return self.succeeds(tags.RIGHT, label, *tags.bytes_of(number), *self.p)

    def make(self, label: Byte, number: z3.BitVecRef, four: Bytes) -> Bytes:
        made = self.call(tags.MAKE, label, *tags.bytes_of(number), *four)
        return [*unknown(f"made{made}_", 4), *four]

    # -- an agent

    def epoch_of(self, label: z3.BitVecRef) -> z3.BitVecRef:
        is_before = z3.UGE(label, self.get(REACHED))
        return self.word(EPOCH) - z3.If(is_before, z3.BitVecVal(1, 32), z3.BitVecVal(0, 32))

    def beacon(self, label: z3.BitVecRef) -> None:
        epoch = self.epoch_of(label)
        four = tags.bytes_of(epoch)[::-1]
        four[0] = four[0] | z3.If(self.get(JUNK) != 0, vector(keyed.TWICE), vector(0))
        self.call(SEND, *self.world.context, *self.make(label, epoch, four))

    def wrong(self) -> int:
        self.put(WRONG, self.get(WRONG) + 1)
        if self.ask(z3.UGE(self.get(WRONG), keyed.MOST_WRONG)):
            self.put(JUNK, keyed.JUNK_LASTS)
        return keyed.WRONG_TAG

    def waiting(self, kind: z3.BitVecRef) -> int:
        places = range(keyed.PLACES)
        return next((at for at in places if self.ask(self.get(WAITING + 4 * at) == kind)),
                    keyed.PLACES)

    def wait(self, at: int) -> None:
        if at == keyed.PLACES:
            at = self.pick(z3.URem(self.get(PLACE), keyed.PLACES))
            self.put(PLACE, self.get(PLACE) + 1)
        self.put(WAITING + 4 * at, *self.p[4:])

    def record(self, variable: int) -> int:
        entry = Keyed.REPORT + 8 + 4 * variable
        self.put(entry + 2, *self.p[6:])
        self.call("time")
        self.put(entry, *self.world.clock[::-1])
        return keyed.HEARTBEAT

    def take(self) -> Byte:
        if self.ask(self.get(JUNK) != 0):
            at = self.waiting(self.kind)
            if at == keyed.PLACES or not self.ask(z3.And(
                    *(self.get(WAITING + 4 * at + byte) == self.p[4 + byte] for byte in (2, 3)))):
                self.wait(at)
                return keyed.FIRST
        return self.record(self.pick(self.kind - keyed.IS_HEARTBEAT))

    def taken(self) -> Byte:
        return answer_of(TAKE, self.call(TAKE, *split(self.world.at), *self.p))

    def process(self) -> Byte:
        label = self.kind - keyed.IS_HEARTBEAT
        if not self.ask(self.eight) or not self.ask(z3.ULE(label, keyed.READER_LABEL)):
            return keyed.REFUSED
        if self.ask(self.get(REACHED) == 0):
            return keyed.NOT_BEGUN
        if self.ask(self.count == 0):
            self.beacon(label)
            return keyed.ASKS
        result, last = keyed.OLD, Keyed.LAST + self.pick(label)
        if self.ask(z3.UGT(self.count, self.get(last))):
            epoch = self.epoch_of(label)
            if self.is_right(label, epoch):
                self.put(last, self.count)
                if not self.ask(self.kind == keyed.IS_REQUEST):
                    return self.taken()
                table = [self.get(at) for at in range(Keyed.REPORT + 8, Keyed.REPORT + 264)]
                made = self.call(tags.REPORT_TAG, *tags.bytes_of(epoch), *self.p, *table)
                self.put(Keyed.REPORT, *(tag := unknown(f"made{made}_", 8)))
                self.call(SEND, *self.world.context, *tag, *table)
                return keyed.REPORT
            result = self.wrong()
        if self.ask(self.kind == keyed.IS_REQUEST):
            self.beacon(vector(keyed.READER_LABEL))
        return result

    def begins_epoch(self) -> bool:
        epoch = self.word(EPOCH)
        if self.ask(z3.URem(epoch, keyed.BLOCK) == keyed.BLOCK - 1) and (
                self.ask(z3.UGE(epoch, keyed.EPOCH_LAST)) or not self.succeeds(
                    STORE, keyed.BLOCK_LABEL,
                    *tags.bytes_of(z3.UDiv(epoch, z3.BitVecVal(keyed.BLOCK, 32)) + 1))):
            return False
        junk = self.get(JUNK)
        self.put(EPOCH, *tags.bytes_of(epoch + 1), 0, choose(junk == 0, junk, junk - 1), 0)
        for at in range(keyed.PLACES):
            self.put(WAITING + 4 * at, 0)
        return True

    def next(self) -> Byte:
        if self.ask(self.get(REACHED) == 0) or (
                self.ask(self.get(REACHED) == keyed.LABELS) and not self.begins_epoch()):
            return 0
        label = self.pick(self.get(REACHED))
        self.put(REACHED, label + 1)
        self.put(Keyed.LAST + label, 0)
        self.beacon(vector(label))
        return 1

    # -- an agent with nodes that only send

    def alone(self) -> Byte:
        if self.ask(self.eight) and self.ask(self.get(REACHED) != 0):
            variable = next((at for at in range(COUNT)
                             if self.ask(z3.URem(self.kind, keyed.READER_LABEL) == at)), COUNT)
            its = self.world.size - 4 * COUNT + 4 * variable
            if variable < COUNT and self.ask(z3.And(self.kind == keyed.IS_ANNOUNCE + variable,
                                                    z3.UGE(self.count, 0x80))):
                return self.announced(variable, self.word(its))
            if variable < COUNT and self.ask(self.kind == keyed.IS_HEARTBEAT + variable):
                at = self.waiting(vector(keyed.IS_ANNOUNCE + variable))
                if at != keyed.PLACES or self.ask(self.word(its) != 0):
                    return self.beaten(variable, at, its)
        world = self.world
        return answer_of(PROCESS, self.call(PROCESS, *split(world.at), *world.context,
                                            *world.length, *self.p))

    def own(self, at: int) -> z3.BitVecRef:
        """The own epoch of the announce that waits there, times 256."""
        return z3.Concat(*(self.get(WAITING + 4 * at + byte) for byte in (1, 2, 3)), vector(0))

    def announced(self, variable: int, node: z3.BitVecRef) -> Byte:
        own, at = z3.Concat(*self.p[5:], vector(0)), self.waiting(self.kind)
        if self.ask(z3.ULE(own, node)) or (
                at != keyed.PLACES and self.ask(z3.ULE(own, self.own(at)))):
            return keyed.OLD
        if not self.is_right(variable, z3.BitVecVal(0, 32)):
            return self.wrong()
        self.wait(at)
        return keyed.ANNOUNCE

    def beaten(self, variable: int, at: int, its: int) -> Byte:
        node, is_wrong = self.word(its), False
        if self.ask(z3.And(node != 0, z3.UGT(self.count, self.get(its)))):
            if self.is_right(variable, node & 0xFFFFFF00):
                self.put(its, self.count)
                return self.taken()
            is_wrong = True
        if at != keyed.PLACES and self.ask(self.count != 0):
            own = self.own(at)
            if self.is_right(variable, own):
                if not self.succeeds(STORE, variable, *tags.bytes_of(z3.LShR(own, 8))):
                    return keyed.NOT_STORED
                self.put(its, self.count, *tags.bytes_of(own)[1:])
                self.put(WAITING + 4 * at, 0)
                return self.record(variable)
            is_wrong = True
        return self.wrong() if is_wrong else keyed.OLD

    # -- nodes

    def hear(self) -> Byte:
        epoch = z3.Concat(*self.p[4:]) & keyed.EPOCH_LAST
        if not (self.ask(self.eight) and self.ask(z3.ULT(self.kind, keyed.IS_ANNOUNCE))
                and self.ask(z3.UGT(epoch, self.word(EPOCH)))
                and self.is_right(self.world.label, epoch)):
            return 0
        self.put(EPOCH, *tags.bytes_of(epoch), keyed.FULL, z3.LShR(self.kind, 5))
        return 1

    def beat(self) -> Byte:
        world, left = self.world, self.get(LEFT)
        if not self.ask(z3.And(z3.ULT(world.label, keyed.READER_LABEL), left != 0)):
            return 0
        self.put(LEFT, left - 1)
        four = [keyed.IS_HEARTBEAT + world.label, -left, world.sender, world.value]
        self.sends(self.make(world.label, self.word(EPOCH), four))
        return 1

    def sends(self, packet: Bytes) -> None:
        self.memory |= dict(enumerate(packet, self.world.packet))

    def begin(self) -> Byte:
        self.put(LEFT, 0)
        if not self.ask(z3.ULT(self.world.label, keyed.READER_LABEL)):
            return 0
        call = self.call(LOAD, self.world.label)
        own = z3.Concat(vector(0), *unknown(f"loaded{call}_", 3)[::-1]) + 1
        self.put(EPOCH, 0, *tags.bytes_of(own)[:3])
        if self.ask(z3.Or(z3.ULT(own, keyed.OWN_FIRST), z3.UGT(own, keyed.UNREADABLE))) or \
                not self.succeeds(STORE, self.world.label, *tags.bytes_of(own)):
            return 0
        self.put(LEFT, keyed.FULL, 1)
        return 1

    def announce(self) -> Byte:
        label = self.world.label
        if not self.ask(z3.And(z3.ULT(label, keyed.READER_LABEL), self.get(LEFT) != 0)):
            return 0
        four = [keyed.IS_ANNOUNCE + label, *(self.get(EPOCH + byte) for byte in (3, 2, 1))]
        self.sends(self.make(label, z3.BitVecVal(0, 32), four))
        return 1


RULES: dict[str, Callable[[Rules], Byte]] = {
    PROCESS: Rules.process, TAKE: Rules.take, NEXT: Rules.next, ALONE: Rules.alone,
    HEAR: Rules.hear, BEAT: Rules.beat, BEGIN: Rules.begin, ANNOUNCE: Rules.announce}


class Case:
    """The rules, for those calls that take a path and for which they decide in one way."""

    def __init__(self, world: World, path: State, decided: list[bool]) -> None:
        self.solver = z3.SolverFor("QF_BV")
        self.solver.add(*path.conditions)
        self.decided, self.others = decided.copy(), list[list[bool]]()
        self.asked = 0
        self.rules = Rules(world, self)
        self.result = RULES[world.name](self.rules)

    def can(self, condition: Flag) -> bool:
        answer = self.solver.check(condition)
        must(answer != z3.unknown, f"z3 cannot say: {self.solver.reason_unknown()}")
        return bool(answer == z3.sat)

    def ask(self, condition: Flag) -> bool:
        """Is it so? If it is for some calls only, others are another case."""
        if isinstance(condition, bool):
            return condition
        if not self.can(condition):
            return False
        if not self.can(z3.Not(condition)):
            return True
        if self.asked == len(self.decided):
            self.others.append([*self.decided, False])
            self.decided.append(True)
        choice = self.decided[self.asked]
        self.asked += 1
        self.solver.add(condition if choice else z3.Not(condition))
        return choice

    def pick(self, byte: z3.BitVecRef) -> int:
        """What a byte is."""
        while True:
            must(self.can(byte == byte), "there is no such case")
            value = int(self.solver.model().eval(byte, model_completion=True).as_long())
            if self.ask(byte == value):
                return value


def cases(world: World, path: State) -> Iterator[Case]:
    to_do: list[list[bool]] = [[]]
    while to_do:
        case = Case(world, path, to_do.pop())
        to_do += case.others
        yield case


def check_path(path: State, start: State, world: World) -> None:
    """Proves that a path does what the rules say."""
    check_return(path, start, world.top)
    check_written(path, start, world.own, world.top)
    for case in cases(world, path):
        said, names = case.rules, [hook[0] for hook in path.hooks]
        must(names == [hook[0] for hook in said.hooks], f"{world.name} calls {names}")
        pairs = [(path.registers[24], case.result)]
        pairs += [(path.memory[at], said.memory[at]) for at in world.own]
        for hook, (name, told, memory) in zip(path.hooks, said.hooks, strict=True):
            if name != "time":
                must(len(hook[1]) == len(told), f"{world.name} tells {name} another length")
                pairs += zip(hook[1], told, strict=True)
            if name not in TAGS:  # they see nothing but what they are told
                pairs += [(hook[-1][at], memory[at]) for at in world.own]
        differ = [vector(a) != vector(b) for a, b in pairs if a is not b]
        must(not case.can(z3.Or(*differ)), f"{world.name} does something else")


def follow_role(code: RoleCode, name: str) -> tuple[list[State], World]:
    sizes = {ALONE: Keyed.REPORT + tags.REPORT + 4 * COUNT, HEAR: 6, BEAT: 6, BEGIN: 6, ANNOUNCE: 6}
    world = World(code, name, sizes.get(name, Keyed.REPORT + tags.REPORT))
    if name == NEXT:
        world.given = [z3.ULE(vector(world.first[world.at + REACHED]), keyed.LABELS)]
    if name == TAKE:
        kind = vector(world.bytes[4])
        world.given = [z3.UGE(kind, keyed.IS_HEARTBEAT), z3.ULT(kind, keyed.IS_REQUEST)]
    start = world.start(code)
    paths = []
    for path in explore(code, start):
        check_path(path, start, world)
        paths.append(path)
    must(all(len(path.hooks) <= MOST_CALLS for path in paths), f"{name} calls too much")
    cover_all(paths, *world.given, *(may for called in ANSWERS for number in range(MOST_CALLS)
                                     for may in may_answer(called, number)))
    return paths, world


@dataclass
class Found:
    """Of a function: how many paths there are, the most cycles of those that send nothing, and of
    those that make no report, and the most bytes of stack."""

    paths: int
    silent: int
    cycles: int
    stack: int


def most_cycles(paths: list[State], *without: str) -> int:
    """Of all paths that call none of these."""
    return max((path.cycles for path in paths
                if not any(hook[0] in without for hook in path.hooks)), default=0)


def follow(name: str, costs: dict[str, tuple[int, int]], roles: Sequence[str] = ROLES
           ) -> dict[str, Found]:
    """Proves every path of these functions on one chip. Tags cost there what tags.follow() says.
    The key hook of an agent makes the label's key each time; nodes have theirs."""
    machine = load(name, "dumpulse_keyed.c")
    key, _ = costs[tags.LABEL_KEY]
    code, found = RoleCode(machine), dict[str, Found]()
    for role in roles:
        derives = key if role in (PROCESS, NEXT, ALONE) else 0
        code.costs |= {part: (costs[part][0] + derives, costs[part][1]) for part in TAGS}
        paths, world = follow_role(code, role)
        found[role] = Found(len(paths), most_cycles(paths, SEND),
                            most_cycles(paths, tags.REPORT_TAG),
                            world.top - min(path.lowest for path in paths))
        if role in (TAKE, PROCESS):
            code.costs[role] = found[role].cycles, found[role].stack
            code.answers(role)
        must(role != PROCESS or found[role].silent <= MOST,
             f"a heartbeat may take {found[role].silent} cycles")
    # For a node that only sends, GCC asks if a count is 0 that is larger than another one.
    check_reached(code, *(machine.symbols[role] for role in roles if role != ALONE))
    machine.close()
    return found
