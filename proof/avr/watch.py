"""Follows every path of the compiled watch on AVR: one look at a line.

The line, the entry, the RAM, the time and all pointers are unknown. This program proves that the
look does what dumpulse_watch.h says, and that the next one begins as this one did. See follow."""

import random
from dataclasses import dataclass, field, replace

import z3

from proof.avr.machine import (CLOBBERED, ENTRY, HOME, KEPT, LINE, RAM_BYTES, SEEN, WATCHER, Code,
                               Place, State, check_reached, check_return, cover_all, evaluate,
                               find_taken, find_written, follow_turn, proved)
from proof.avr.symbols import Bytes, equal, halve, join, must, split, unknown, vector
from spec import model, watch as rules
from tools.processors.machine import Machine, Watching, load

WATCH = "dumpulse_watch_lines_"


@dataclass
class Watched:
    """A watch that may hold anything, and what one look may read. Low bytes are first in
    pointers and in the line, and high bytes in the entry and in the RAM."""

    top: int  # of the stack
    watcher: Bytes = field(default_factory=lambda: unknown("watcher", 2))
    agent: Bytes = field(default_factory=lambda: unknown("agent", 2))
    now: Bytes = field(default_factory=lambda: unknown("now", 2))
    known: Bytes = field(default_factory=lambda: unknown("known", 5))  # table, RAM, count
    line: Bytes = field(default_factory=lambda: unknown("line", 9))
    entry: Bytes = field(default_factory=lambda: unknown("entry", 4))
    seen: Bytes = field(default_factory=lambda: unknown("seen", 3))

    @property
    def variable(self) -> z3.BitVecRef:
        return vector(self.line[0])

    def places(self) -> list[Place]:
        entry = join(self.agent) + 4 + 4 * z3.ZeroExt(8, self.variable & 63)
        return [Place(WATCHER, 5, join(self.watcher)), Place(ENTRY, 4, entry),
                Place(SEEN, 3, join(self.known[2:4])), Place(LINE, 9, join(self.known[:2]))]

    def start(self, code: Code, function: int) -> State:
        return code.call(function, self.top, {
            place.at + number: byte
            for place, its in zip(self.places(), (self.known, self.entry, self.seen, self.line),
                                  strict=True) for number, byte in enumerate(its)},
                         self.watcher, self.agent, self.now)


def specified_look(world: Watched) -> list[z3.BitVecRef]:
    """The RAM of a line after a look. This repeats dumpulse_watch.h: STATES and TIME. All limits in
    the line are higher by 64 than those of its text, and so are the ages here. So a timestamp that
    is up to 64 ticks ahead of now has a small age."""
    high, low, _, value = map(vector, world.entry)
    was, later = vector(world.seen[2]), join(world.now) + rules.AHEAD
    heard, before = z3.Concat(high, low), z3.Concat(*map(vector, world.seen[:2]))
    waits = z3.And(z3.ULE(was, rules.MISSING), *(vector(byte) == 0 for byte in world.entry))
    grace, late, dead = (join(world.line[at:at + 2]) for at in (3, 5, 7))
    lowest, span = map(vector, world.line[1:3])
    age = later - heard

    state = z3.If(
        waits, z3.If(z3.UGT(later - before, grace), vector(rules.MISSING), was), z3.If(
            z3.UGT(age, dead), vector(rules.DEAD), z3.If(
                z3.And(z3.UGE(was, rules.LATE), heard == before), was, z3.If(
                    z3.UGT(age, late), vector(rules.LATE), z3.If(
                        z3.ULE(value - lowest, span), vector(rules.ALIVE),
                        vector(rules.OUT_OF_RANGE))))))
    return [*(z3.If(waits, vector(old), new)
              for old, new in zip(world.seen, (high, low), strict=False)), state]


def check_look(state: State, head: State, start: State, world: Watched, saved: set[int]) -> None:
    """Proves one path through a turn of the loop: what it does, and that the next turn begins as
    this one did, one line further on, or that the function returns after the last line."""
    written = find_written(state, head)
    must(written <= set(range(SEEN, SEEN + 3)),
         f"writes where it should not: {sorted(map(hex, written))}")
    # The last condition is about the count. Without it this shows more, and z3 is asked only once
    # for the two ends of a path: at the next line, and after the last one.
    look = replace(state, conditions=state.conditions[:-1])
    after = [vector(state.memory[SEEN + at]) for at in range(3)]
    must(proved(equal(after, specified_look(world)), look),
         "the RAM of the line is not as it should be")
    changed = after[2] != vector(world.seen[2])
    must(len(state.hooks) < 2, "the hook is called twice")
    must(proved(changed if state.hooks else z3.Not(changed), look),
         "the hook is not called exactly when the state changes")
    for _, context, variable, was, now, memory in state.hooks:
        must(proved(z3.And(join(context) == join(world.agent), variable == world.variable,
                           vector(was) == vector(world.seen[2]), vector(now) == after[2]), look),
             "the hook is told something else")
        must(all(memory[SEEN + at] is state.memory[SEEN + at] for at in range(3)),
             "the hook is called before the RAM is as it stays")
    last = vector(world.known[4]) == 1
    if state.pc == HOME:
        must(proved(last, state), "the loop ends early")
        check_return(state, start, world.top)
        return
    must(proved(z3.Not(last), state), "the loop ends late")
    must(state.sp == head.sp and head.memory.keys() == state.memory.keys(),
         "a turn leaves the stack as it was not")
    expected = head.registers.copy()
    for pair, size in ((world.known[:2], 9), (world.known[2:4], 3), (world.known[4:], -1)):
        [low] = [at for at in (1, *KEPT) if head.registers[at] is pair[0]] or [0]
        must(low > 0 and all(a is b for a, b in zip(pair, head.registers[low:], strict=False)),
             "no register that the hook keeps has a pointer or the count")
        expected[low:low + len(pair)] = halve(join([*pair, 0][:2]) + size)[:len(pair)]
    differs = [at for at in (1, *KEPT)
               if at not in saved and state.registers[at] is not expected[at]
               and not proved(vector(state.registers[at]) == vector(expected[at]), state)]
    must(not differs, f"a turn does not end as the next one begins: registers {differs}")


def check_simulated(machine: Machine, world: Watched, ends: list[State]) -> None:
    """Checks that simavr, the Python model and the path that is taken say the same of a look."""
    chance, watching = random.Random(3), Watching(machine)

    def number() -> int:
        return chance.choice([0, 1, 64, 65, 100, 65535, chance.randrange(65536)])

    for _ in range(60):
        one = rules.Line(*chance.randbytes(3), *(number() for _ in range(3)))
        entries = [chance.randbytes(4) for _ in range(model.VARIABLES)]
        heard, now = number(), number()
        entry = entries[one.entry] = heard.to_bytes(2, "big") + \
            chance.choice([bytes(2), chance.randbytes(2)])
        watch = rules.Watch([one], chance.choice([heard, number()]))
        watch.states = [chance.randrange(6)]
        machine.write(machine.agent, bytes(4) + b"".join(entries))
        watching.start([one], seen := watch.seen())
        call, changes = watching.look(now), watch.look(entries, now)
        state, numbers = find_taken(ends, (
            (world.watcher, split(watching.watcher)), (world.agent, split(machine.agent)),
            (world.now, split(now)), (world.line, one.packed("<")), (world.entry, entry),
            (world.seen, seen), (world.known, machine.read(watching.watcher, 5))))
        after = bytes(evaluate(state.memory[SEEN + at], numbers) for at in range(3))
        must(after == watch.seen() == watching.known()[:3] and
             [*call.hooks] == [("changed", machine.agent, *change) for change in changes] and
             (call.cost, call.stack, len(call.hooks)) ==
             (state.cycles, world.top - state.lowest, len(state.hooks)),
             f"{machine.target.name}: {one}, {entry.hex()}, {seen.hex()}, now {now}: not the same "
             f"in simavr: {call}")


def follow(name: str) -> tuple[int, list[tuple[int, int]], int]:
    """Proves by induction over the lines, on one chip, what dumpulse_watch_lines_() does. Where a
    look begins, nothing is known but the stack and the registers that a hook keeps. Returns how
    many paths there are, the cycles of a look that changes nothing, of one that does, and of the
    rest of the call, and bytes of stack."""
    machine = load(name, "dumpulse_watch.c")
    code = Code(machine, pushed=machine.target.return_address)
    function = machine.symbols[WATCH]
    world = Watched(machine.ram + RAM_BYTES - 1)
    code.places = world.places()
    loops = {one.target for at in code.of(function)
             if 0 < (one := code.instructions[at]).target < at
             and one.name not in ("call", "rcall")}
    must(len(loops) == 1, f"the watch has {len(loops)} loops")
    [code.head] = loops
    start = world.start(code, function)
    heads = list(follow_turn(code, start))
    must(len(heads) == 1 and heads[0].pc == code.head and not heads[0].hooks,
         "the watch does more than to begin its loop")
    [head] = heads
    # A saved register that holds nothing yet may hold anything at the next turn, too.
    saved = {at for at in KEPT if head.registers[at] is start.registers[at]
             and any(byte is start.registers[at] for byte in head.memory.values())}
    for number in {*CLOBBERED, *saved}:
        head.registers[number] = z3.BitVec(f"any_{number}", 8)
    head.carry, head.zero = z3.Bool("any_carry"), z3.Bool("any_zero")
    head.memory = {at: byte for at, byte in head.memory.items() if not WATCHER <= at < ENTRY}
    head.loads = 0  # so that no branch is merged
    given = z3.ULE(vector(world.seen[2]), rules.DEAD)
    head.conditions = [given]
    ends = list(follow_turn(code, head))
    for state in ends:
        check_look(state, head, start, world, saved)
        must(not state.longer, "a branch was merged")
    cover_all(ends, given)
    check_reached(code, function)
    check_simulated(machine, world, [state for state in ends if state.pc == HOME])
    machine.close()
    limits, rest = [], []
    for changes in (False, True):
        turns, lasts = ([state.cycles - head.cycles for state in ends
                         if bool(state.hooks) == changes and (state.pc == HOME) == last]
                        for last in (False, True))
        limits.append((min(turns), max(turns)))
        rest += [head.cycles + most(lasts) - most(turns) for most in (min, max)]
    return (len(ends), [*limits, (min(rest), max(rest))],
            world.top - min(state.lowest for state in ends))


def follow_all(names: list[str]) -> list[tuple[int, list[tuple[int, int]], int]]:
    """All in one process: most of what z3 is asked is the same on all chips. See ANSWERS."""
    return [follow(name) for name in names]
