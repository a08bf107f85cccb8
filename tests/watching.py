"""Compares the compiled watch with the Python model, on every target.

    make part ONLY=watching

    python3 -m tests.watching [--seed N] [--count N] [--target NAME]…

Each target gets COUNT looks at random tables, of random agents, with clocks that go on, wrap, jump
and stand still. Lines are sensible or hostile. After each look it compares the calls of the hook,
the agent, what the watch knows of each line, and the memory around."""

import argparse
import random
from collections import Counter

from spec.model import Agent
from spec.watch import STATES, Line, Watch, line
from tests.differential import natural
from tools.processors.machine import Machine, Watching, load
from tools.processors.targets import TARGETS
from tools.programs import as_program

GUARD = bytes(range(1, 1 + Machine.GUARD))
LINES_MAX = 20  # the smallest AVR has RAM for these
PER_TABLE = 40  # looks


def some_line(chance: random.Random) -> Line:
    if chance.randrange(4) == 0:
        return Line(*chance.randbytes(3), *(chance.randrange(65536) for _ in range(3)))
    late = chance.choice((1, 2, 5, 40, 1000, 30000))
    lowest = chance.randrange(256)
    return line(chance.randrange(64), late, min(late * chance.randrange(1, 5), 65000),
                chance.choice((0, 1, 70, 1000, 60000)), lowest, chance.randrange(lowest, 256))


def step_of_the_clock(chance: random.Random, lines: list[Line]) -> int:
    """How far the clock goes until the next look. Often it is a limit of a line, or one more."""
    one = chance.choice(lines)
    return chance.choice((0, 1, 3, chance.randrange(100), chance.randrange(65536), 65536 - 10,
                          one.late - 64, one.late - 63, one.dead - 64, one.dead - 63))


def compare(machine: Machine, seed: int, count: int) -> Counter[int]:
    """Returns how often each state was entered. Ends the program at the first difference."""
    chance, entered = random.Random(seed), Counter[int]()
    watching = Watching(machine)
    machine.write(machine.agent - len(GUARD), GUARD)
    machine.write(machine.agent + 260, GUARD)
    agent, watch, now = Agent(), Watch([]), 0
    for number in range(count):
        if number % PER_TABLE == 0:
            agent = Agent()
            now = chance.choice((0, chance.randrange(65536)))
            watch = Watch([some_line(chance) for _ in range(chance.randrange(1, LINES_MAX + 1))],
                          chance.choice((0, now)))
            machine.write(machine.agent, agent.table())
            watching.start(watch.lines, watch.seen() + GUARD)
        now = (now + step_of_the_clock(chance, watch.lines)) % 65536
        for one in chance.choices(watch.lines, k=chance.randrange(8)):
            when = (now - chance.choice((0, 0, 1, chance.randrange(70), -63, -64, -65))) % 65536
            agent.record(chance.choice((when, when, when, 0)), one.entry,
                         *chance.choice((chance.randbytes(2), bytes(2))))
        machine.write(machine.agent, agent.table())
        expected = [("changed", machine.agent, *change)
                    for change in watch.look(agent.entries, now)]
        call = watching.look(now)
        seen = watching.known()
        memory = machine.read(machine.agent - len(GUARD), 260 + 2 * len(GUARD))
        if (call.hooks, seen, memory) != (
                expected, watch.seen() + GUARD, GUARD + agent.table() + GUARD):
            raise SystemExit(
                f"watching: {machine.target.key}: look {number} at {now}: hooks {call.hooks}, "
                f"should be {expected}\nseen   {seen.hex()}\nshould {watch.seen().hex()}\n"
                f"lines  {watch.lines}")
        entered.update(change[-1] for change in expected)
    return entered


def main() -> None:
    parser = argparse.ArgumentParser(prog="watching", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--count", type=natural, default=2_000)
    parser.add_argument("--target", action="append", choices=TARGETS)
    options = parser.parse_args()
    print(f"watching: --seed {options.seed} --count {options.count} replays this", flush=True)
    for name in options.target or TARGETS:
        machine = load(name, "dumpulse_watch.c")
        machine.counted = False
        entered = compare(machine, options.seed, options.count)
        machine.close()
        counts = ", ".join(f"{entered[state]} {word}" for state, word in enumerate(STATES) if state)
        print(f"{name}: {options.count} passed, 0 failed: {counts}", flush=True)


if __name__ == "__main__":
    as_program(main, ".*")
