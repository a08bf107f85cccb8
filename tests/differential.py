"""Compares the compiled agent with the Python model, on every target.

    make part ONLY=differential

    python3 -m tests.differential [--seed N] [--count N] [--target NAME]…

Each target gets heartbeats for all 256 values of the variable, valid packets with every change of
one byte, and COUNT random packets, every tenth on a new table. The random packets follow from the
seed, which a failure prints. After each packet it compares the result, the calls of the hooks, the
packet, the agent, and the memory on both sides of the agent."""

import argparse
import random
from collections import Counter
from collections.abc import Iterator

from spec.model import HEARTBEAT, NAMES, REPORT, REQUEST, Agent, heartbeat
from tools.processors.machine import Machine, load
from tools.processors.targets import TARGETS
from tools.programs import as_program

RANDOM_LENGTHS = (0, 1, 4, 7, 9, 16, 255, 256 + 8, 260)
ROOM = 64  # bytes of a longer packet that are put into memory; the agent reads none of them
Step = tuple[bytes | None, int, bytes]  # a new table, the time, a packet


def every_variable() -> Iterator[Step]:
    for variable in range(256):
        yield None, 0x1234, heartbeat(variable, 76, 9)


def every_byte_changed() -> Iterator[Step]:
    for packet in (heartbeat(3, 76, 9), heartbeat(0, 0, 0), heartbeat(63, 255, 255), REQUEST):
        for at in range(8):
            for byte in range(256):
                yield None, 0x4321, packet[:at] + bytes((byte,)) + packet[at + 1:]


def chosen_by_chance(seed: int, count: int) -> Iterator[Step]:
    chance = random.Random(seed)
    for number in range(count):
        table = None
        if number % 10 == 0:
            table = chance.choice([bytes(260), b"\xff" * 260, chance.randbytes(260)])
        packet = chance.choice([REQUEST,
                                *6 * [heartbeat(chance.randrange(66), *chance.randbytes(2))],
                                heartbeat(*chance.randbytes(4)), chance.randbytes(8)])
        fate = chance.randrange(10)
        if fate == 0:
            packet = chance.randbytes(chance.choice(RANDOM_LENGTHS))
        elif fate == 1:
            packet = packet[:chance.randrange(9)]
        elif fate == 2:
            packet += chance.randbytes(chance.randrange(1, 9))
        elif fate in (3, 4):
            flipped = bytearray(packet)
            for _ in range(chance.randrange(1, 5)):
                flipped[chance.randrange(8)] ^= 1 << chance.randrange(8)
            packet = bytes(flipped)
        yield table, chance.randrange(65536), packet


def compare(machine: Machine, steps: Iterator[Step]) -> Counter[int]:
    """Returns how often each result came. Ends the program at the first difference."""
    guard = bytes(range(1, 1 + Machine.GUARD))
    agent, results = Agent(), Counter[int]()
    machine.write(machine.agent - len(guard), guard + agent.table() + guard)
    for number, (table, now, packet) in enumerate(steps):
        if table is not None:
            agent = Agent.of_table(table)
            machine.write(machine.agent, table)
        machine.now = context = now  # the context may be any number, so this one will do
        machine.write(machine.packet, packet[:ROOM])
        expected = agent.process(now, packet)
        hooks: list[tuple[object, ...]] = []
        if expected == HEARTBEAT:
            hooks = [("time",)]
        elif expected == REPORT:
            hooks = [("send", context, machine.agent, 260, agent.table())]
        call = machine.call("dumpulse_process_packet", machine.agent, machine.packet, len(packet),
                            context)
        memory = machine.read(machine.agent - len(guard), 260 + 2 * len(guard))
        unread = machine.read(machine.packet, len(packet[:ROOM]))
        if (call.result, call.hooks, memory, unread) != (
                expected, hooks, guard + agent.table() + guard, packet[:ROOM]):
            raise SystemExit(
                f"differential: {machine.target.name}: step {number}, "
                f"{packet.hex() or 'an empty packet'} at {now}: "
                f"should be {NAMES[expected]}, result {call.result}, hooks {call.hooks}\n"
                f"table  {memory[len(guard):-len(guard)].hex()}\nshould {agent.table().hex()}")
        results[expected] += 1
    return results


def natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="differential",
                                     description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--count", type=natural, default=10_000)
    parser.add_argument("--target", action="append", choices=TARGETS)
    options = parser.parse_args()
    print(f"differential: --seed {options.seed} --count {options.count} replays this", flush=True)
    for name in options.target or TARGETS:
        machine = load(name)
        machine.counted = False
        results: Counter[int] = Counter()
        for steps in (every_variable(), every_byte_changed(),
                      chosen_by_chance(options.seed, options.count)):
            results += compare(machine, steps)
        machine.close()
        counts = ", ".join(f"{results[kind]} {word}" for kind, word in enumerate(NAMES))
        print(f"{name}: {results.total()} passed, 0 failed: {counts}", flush=True)


if __name__ == "__main__":
    as_program(main, ".*")
