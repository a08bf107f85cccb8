"""Follows every path of the roles of version 2 on AVR, with tags as black boxes.

tags.py proves what makes a tag. Here, each call of it is answered by unknown bytes. Each path ends
as spec/keyed.md says, which is written here a second time, as code that asks z3 where it has to
decide: the result, the role's RAM, and each hook's arguments, and what the RAM was when a hook was
called. Nothing else is written. All paths together cover every packet, length and state of a role.
dumpulse_keyed_process() is followed alone: dumpulse_mixed_process() gets any of its results, and of
those of dumpulse_process_packet(), which agent.py follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import z3

from proof.avr import tags
from proof.avr.machine import (RAM_BYTES, Code, State, check_reached, check_return, check_written,
                               cover_all, explore)
from proof.avr.symbols import (Byte, Bytes, Flag, equal, feasible, join, must, split,
                               unknown, vector)
from spec import keyed
from spec.model import MAGIC
from tools.processors.machine import SEND, STORE, Keyed, Machine, load

PROCESS, NEXT = "dumpulse_keyed_process", "dumpulse_keyed_next"
MIXED, VERSION_1 = "dumpulse_mixed_process", "dumpulse_process_packet"
HEAR, BEAT = "dumpulse_hear", "dumpulse_keyed_heartbeat"
ROLES = (PROCESS, NEXT, MIXED, HEAR, BEAT)
TAGS = (tags.RIGHT, tags.MAKE, tags.REPORT_TAG)
MOST = 7000  # cycles of a heartbeat, with the key of its label
EPOCH, REACHED, WRONG = 0, 4, 5  # in an agent
LEFT, QUESTIONS, HEARD, ANSWERED, NODE = 4, 5, 6, 7, 12  # in a node, and its size
UNKEYED = keyed.LABELS // 8  # bytes of the list of the variables that send version 1
ANSWERS = {tags.RIGHT: (0, 1), STORE: (0, 1), VERSION_1: (keyed.REFUSED, keyed.HEARTBEAT)}
MOST_CALLS = 4  # of any path


class RoleCode(Code):
    """Answers each call of a hook, of what makes a tag, and of what is followed alone. A call is
    kept with what it was told, and with the memory."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, machine.target.return_address)
        self.machine = machine
        self.costs: dict[str, tuple[int, int]] = {}  # cycles and stack of what is answered
        for name in (*TAGS, PROCESS, VERSION_1, STORE, SEND):
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
        elif name in (SEND, PROCESS, VERSION_1):
            read = behind(22, 0, behind(20, 0, 1)[0] if name == SEND else 8)
            told += [] if name == SEND else r[18:22]
        else:
            told = r[22:26]  # a number
        told += [memory[at] for at in read]
        state.hooks.append((name, told, memory.copy()))
        self.clobber(state)
        memory |= made
        cycles, stack = self.costs.get(name, (0, 0))
        state.cycles += cycles
        state.lowest = min(state.lowest, state.sp + self.pushed - stack)
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
            PROCESS: [role, packet, self.length, self.context],
            NEXT: [role, self.context],
            MIXED: [role, split(self.at + self.size - UNKEYED), packet, self.length, self.context],
            HEAR: [role, [self.label, any_], packet, self.length],
            BEAT: [role, packet, [self.label, any_], [self.sender, any_], [self.value, any_]],
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
        made = self.make(label, epoch, tags.bytes_of(epoch)[::-1])
        self.call(SEND, *self.world.context, *made)

    def record(self, variable: int) -> int:
        entry = Keyed.REPORT + 8 + 4 * variable
        self.put(entry + 2, *self.p[6:])
        self.call("time")
        self.put(entry, *self.world.clock[::-1])
        return keyed.HEARTBEAT

    def process(self) -> Byte:
        label = self.kind - keyed.IS_HEARTBEAT
        if not self.ask(self.eight) or not self.ask(z3.ULE(label, keyed.READER_LABEL)):
            return keyed.REFUSED
        if self.ask(self.get(REACHED) == 0):
            return keyed.NOT_BEGUN
        if self.ask(self.count == 0):
            self.beacon(label)
            return keyed.ASKS
        result, variable = keyed.OLD, self.pick(label)
        last = Keyed.LAST + variable
        if self.ask(z3.UGT(self.count, self.get(last))):
            epoch = self.epoch_of(label)
            if self.is_right(label, epoch):
                self.put(last, self.count)
                if variable != keyed.READER_LABEL:
                    return self.record(variable)
                table = [self.get(at) for at in range(Keyed.REPORT + 8, Keyed.REPORT + 264)]
                made = self.call(tags.REPORT_TAG, *tags.bytes_of(epoch), *self.p, *table)
                self.put(Keyed.REPORT, *(tag := unknown(f"made{made}_", 8)))
                self.call(SEND, *self.world.context, *tag, *table)
                return keyed.REPORT
            self.put(WRONG, self.get(WRONG) + 1)
            result = keyed.WRONG_TAG
        if variable == keyed.READER_LABEL:
            self.beacon(vector(keyed.READER_LABEL))
        return result

    def begins_epoch(self) -> bool:
        epoch = self.word(EPOCH)
        if self.ask(z3.URem(epoch, keyed.BLOCK) == keyed.BLOCK - 1) and (
                self.ask(z3.UGE(epoch, keyed.EPOCH_LAST)) or not self.succeeds(
                    STORE, *tags.bytes_of(z3.UDiv(epoch, z3.BitVecVal(keyed.BLOCK, 32)) + 1))):
            return False
        self.put(EPOCH, *tags.bytes_of(epoch + 1), 0, 0)
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

    # -- an agent, some of whose nodes send version 1

    def mixed(self) -> Byte:
        world, called = self.world, PROCESS
        arguments = [*split(world.at), *world.context, *world.length]
        if self.ask(self.eight):
            is_version_1 = self.ask(self.kind == MAGIC)
            variable = self.p[5] if is_version_1 else self.kind - keyed.IS_HEARTBEAT
            if self.ask(z3.ULT(variable, keyed.READER_LABEL)):
                listed = self.get(world.size - UNKEYED + self.pick(z3.LShR(variable, 3)))
                if self.ask(z3.LShR(listed, variable & 7) & 1 == 1):
                    if not is_version_1:
                        return keyed.REFUSED
                    called = VERSION_1
                    arguments[:2] = split(world.at + Keyed.REPORT + 4)
        return answer_of(called, self.call(called, *arguments, *self.p))

    # -- nodes

    def hear(self) -> Byte:
        epoch = z3.Concat(*self.p[4:])
        if not (self.ask(self.eight) and self.ask(z3.ULT(self.kind, keyed.BEACON_END))
                and self.ask(z3.UGE(epoch, self.word(EPOCH)))
                and self.is_right(self.world.label, epoch)):
            return 0
        self.put(HEARD, 1)
        if self.ask(epoch == self.word(EPOCH)):
            return 0
        self.put(ANSWERED, self.get(QUESTIONS))
        self.put(EPOCH, *tags.bytes_of(epoch), keyed.FULL)
        return 1

    def beat(self) -> Byte:
        world, left = self.world, self.get(LEFT)
        if not self.ask(z3.And(z3.ULT(world.label, keyed.READER_LABEL), left != 0)):
            return 0
        self.put(LEFT, left - 1)
        four = [keyed.IS_HEARTBEAT + world.label, -left, world.sender, world.value]
        packet = self.make(world.label, self.word(EPOCH), four)
        self.memory |= dict(enumerate(packet, world.packet))
        return 1


RULES: dict[str, Callable[[Rules], Byte]] = {
    PROCESS: Rules.process, NEXT: Rules.next, MIXED: Rules.mixed, HEAR: Rules.hear,
    BEAT: Rules.beat}


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
    sizes = {MIXED: Keyed.REPORT + tags.REPORT + UNKEYED, HEAR: NODE, BEAT: NODE}
    world = World(code, name, sizes.get(name, Keyed.REPORT + tags.REPORT))
    if name == NEXT:
        world.given = [z3.ULE(vector(world.first[world.at + REACHED]), keyed.LABELS)]
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
        derives = key if role in (PROCESS, NEXT) else 0
        code.costs |= {part: (costs[part][0] + derives, costs[part][1]) for part in TAGS}
        paths, world = follow_role(code, role)
        found[role] = Found(len(paths), most_cycles(paths, SEND),
                            most_cycles(paths, tags.REPORT_TAG),
                            world.top - min(path.lowest for path in paths))
        if role == PROCESS:
            code.costs[role] = found[role].cycles, found[role].stack
            code.answers(role)
        must(role != PROCESS or found[role].silent <= MOST,
             f"a heartbeat may take {found[role].silent} cycles")
    check_reached(code, *(machine.symbols[role] for role in roles))
    machine.close()
    return found
