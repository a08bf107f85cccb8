"""Do the device, the server and client.py call the same nodes late and dead?

    make part ONLY=agree

    python3 -m tests.agree [--seed N] [--count N]

COUNT runs. A run is one variable with random limits, from the start of its agent on: heartbeats
and silences, values in and out of range, looks at random times, and a clock that wraps, stands
still and jumps. 64 runs share an agent and its clock. At each look these must agree:
- the model, spec/watch.py,
- the device's code, dumpulse_watch.c, which gets the limits as a table,
- the server's code, server/watch.c and server/names.c, which read them from a file,
- client.py, which reads the same file: as `watch` does, with its memory of earlier reports, and as
  `check` does, with one report.

client.py differs on purpose in three cases, which are left out for it:
- After a jump of the clock, until the next heartbeat of a variable: agents go by their clock and
  change no silent node back. client.py goes by its own clock, or by the report alone.
- A heartbeat with the timestamp of the last one, which came a whole number of wraps before, or
  before the clock was set back. To agents it is not new, to client.py it is if its value differs.
  The runs have none.
- `check` cannot see that a node has been silent for more than a timestamp can tell.
All senders are 1 or more: four zero bytes are "never heard" to client.py and to the server.

Before that, the server's code and client.py read damaged files of names. What the server accepts,
client.py must accept with the same meaning. SPDX-License-Identifier: MIT"""

import argparse
import ctypes
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import client
from spec.model import Agent
from tests.support.programs import built
from spec.watch import (ALIVE, DEAD, LATE, LONGEST, MISSING, OUT_OF_RANGE, STATES, WAITING, Change,
                       Line, Watch, line)
from tests.differential import natural

AT_ONCE = 64  # runs that share a clock
PART = 1000 * AT_ONCE  # runs: some seconds of work for a core
LOOKS = 24
FILES = 8  # damaged files for each world
GRACE_MAX = 65344  # ticks
# Why the server refuses a file that client.py accepts.
STRICTER = ("is indented", "that is expected", "printable UTF-8", "but --tick is",
            "a section is [dumpulse]")


class Names(ctypes.Structure):
    """struct names_variable of server/names.h"""

    _fields_ = [("expected", ctypes.c_bool), ("warn", ctypes.c_uint64), ("crit", ctypes.c_uint64),
                ("low", ctypes.c_uint8), ("high", ctypes.c_uint8), ("name", ctypes.c_char * 97)]


class Watcher(ctypes.Structure):
    """dumpulse_watcher of dumpulse_watch.h"""

    _fields_ = [("table", ctypes.c_char_p), ("seen", ctypes.c_void_p), ("count", ctypes.c_uint8)]


class Compiled:
    """The device's code and the server's."""

    def __init__(self) -> None:
        self.code = ctypes.CDLL(built("build/agree.so"))
        self.code.agree_read.restype = ctypes.c_char_p
        self.code.agree_look.restype = ctypes.c_uint64
        self.names = (Names * 64).in_dll(self.code, "names_variables")
        self._changes = ctypes.create_string_buffer(3 * 1024)

    def read(self, path: Path, tick: int) -> str:
        wrong: bytes = self.code.agree_read(str(path).encode(), ctypes.c_uint64(tick))
        return wrong.decode()

    def begin(self, ms: int, up: int) -> None:
        self.code.agree_begin(ctypes.c_uint64(ms), ctypes.c_uint64(up))

    def record(self, ms: int, up: int, variable: int, sender: int, value: int) -> None:
        self.code.agree_record(ctypes.c_uint64(ms), ctypes.c_uint64(up), variable, sender, value)

    def look(self, ms: int, up: int) -> int:
        """Returns the ms until the server wants to look again."""
        return int(self.code.agree_look(ctypes.c_uint64(ms), ctypes.c_uint64(up))) // 1_000_000

    def changes(self) -> list[Change]:
        """What the hook was told since the last time."""
        count = self.code.agree_changes(self._changes)
        raw = self._changes.raw[:3 * count]
        return list(zip(raw[::3], raw[1::3], raw[2::3]))


class Device:
    """dumpulse_watch.c, with a table and RAM of its own."""

    def __init__(self, compiled: Compiled, watch: Watch) -> None:
        self._compiled = compiled
        self._table = b"".join(one.packed("<", "x") for one in watch.lines)
        self._seen = ctypes.create_string_buffer(watch.seen(), 3 * len(watch.lines))
        self._watcher = Watcher(self._table, ctypes.addressof(self._seen), len(watch.lines))

    def look(self, agent: Agent, now: int) -> list[Change]:
        self._compiled.code.dumpulse_watch_lines_(
            ctypes.byref(self._watcher), ctypes.c_char_p(agent.table()), ctypes.c_uint16(now))
        return self._compiled.changes()


def time_in_words(chance: random.Random, ms: int) -> str:
    return chance.choice([f"{ms / 1000:.3f}", f"{ms / 1000:.3f} s",
                          *([f"{ms}ms"] if ms < 10**9 else []),
                          *([f"{ms // 60_000}min"] if ms % 60_000 == 0 else [])])


def some_file(chance: random.Random, tick: int, most: int) -> str:
    """A file of names with AT_ONCE variables. No silence is longer than `most` ticks."""
    def times() -> list[str]:
        crit = chance.randrange(1, most * tick + 1)
        warn = chance.choice((crit, chance.randrange(1, crit + 1)))
        return [f"warn = {time_in_words(chance, warn)}", f"crit = {time_in_words(chance, crit)}"]

    lines = ["[dumpulse]", f"tick = {tick}ms", *times()]
    for variable in range(AT_ONCE):
        low = chance.choice((0, chance.randrange(256)))
        lines += [f"[{variable}]", *(times() if chance.randrange(4) else []),
                  *chance.choice(([], [f"name = node {variable}"])),
                  *chance.choice(([], [f"value = {low}..{chance.randrange(low, 256)}"])),
                  *(["expect = no"] if chance.randrange(20) == 0 else [])]
    return "\n".join(lines) + "\n"


class Difference(Exception):
    pass


class World:
    """An agent with a clock, and all who judge it."""

    def __init__(self, compiled: Compiled, path: Path, chance: random.Random) -> None:
        self.chance, self.compiled = chance, compiled
        self.tick = chance.choice((1, 10, 100, 1000, 7, 60_000))
        most = chance.choice((2, 10, 100, 5_000, 30_000, 60_000))
        path.write_text(some_file(chance, self.tick, most))
        wrong = compiled.read(path, self.tick)
        if wrong:
            raise Difference(wrong)
        self.settings = client.make_settings(argparse.Namespace(names=str(path)))
        # Ticks since 1970. A world lasts 14 years at most, and must end before the year 2554:
        # later, the server's time in ns does not fit into 64 bits.
        self.clock = chance.randrange(2**40, 2**44) // self.tick
        self.passed = 0  # ticks since the start: this clock does not jump
        lines = []
        for variable in self.settings.variables:
            if variable.expected:
                late, dead = variable.warn_ms // self.tick, variable.crit_ms // self.tick
                grace = min(dead, GRACE_MAX)
                lines.append(line(variable.number, late, dead, grace, variable.low, variable.high))
        self.watch = Watch(lines, self.clock % 65536)
        self.device = Device(compiled, self.watch)
        self.agent = Agent()
        # The server judges by a clock that does not jump: `heard` has such timestamps.
        self.begun, self.heard = self.clock, Agent()
        self.steady = Watch(lines, self.clock % 65536)
        self.memory = client.History()
        self.beaten = [0] * 64  # the time of the last heartbeat, by self.passed
        self.doubtful: set[int] = set()  # variables that were not heard since a jump
        self.within = min(LONGEST - max(one.dead - 64, one.grace - 64) for one in lines)
        compiled.begin(self.ms, self.up)
        self.entered: Counter[int] = Counter()

    @property
    def ms(self) -> int:
        return self.clock * self.tick + self.passed % self.tick

    @property
    def up(self) -> int:
        """Also in ms."""
        return self.passed * self.tick + self.passed % self.tick

    def look_steadily(self) -> list[Change]:
        return self.steady.look(self.heard.entries, (self.begun + self.passed) % 65536)

    def step(self) -> None:
        """Time passes, or the clock jumps. Some nodes beat. Then everybody looks."""
        chance = self.chance
        what = chance.randrange(20)
        if what == 0:
            self.clock += chance.choice((-chance.randrange(1, 40_000), chance.randrange(-70, 71),
                                         chance.randrange(min(self.within, 40_000))))
            self.doubtful = set(range(64))
            self.judge()  # of heartbeats and a jump between two looks, nobody knows the order
        elif what == 1:
            self.sleep(chance.randrange(self.within, min(40 * self.within, 300_000) + 1))
        else:
            self.passes(self.some_ticks())
        self.beat(chance.choice((0, 1, 5, 64)))
        if chance.randrange(3) == 0:  # somebody looks a little later than the last heartbeat
            self.passes(chance.randrange(3))
        self.judge()

    def some_ticks(self) -> int:
        """Often a limit of a variable, or one tick more."""
        one: Line = self.chance.choice(self.watch.lines)
        silent = self.passed - self.beaten[one.variable]
        limit = self.chance.choice((one.late - 64, one.dead - 64, one.grace - 64)) \
            + self.chance.randrange(2)
        wanted = self.chance.choice((0, 1, self.chance.randrange(30), limit - silent))
        return min(max(wanted, 0), self.within // 2)

    def passes(self, ticks: int) -> None:
        self.clock += ticks
        self.passed += ticks

    def sleep(self, ticks: int) -> None:
        """The server's machine sleeps, the others do not."""
        while ticks > 0:
            self.passes(step := min(ticks, self.within))
            ticks -= step
            self.both_look()
            self.look_steadily()
        self.compiled.look(self.ms, self.up)
        self.compiled.changes()
        self.compare("server, after a sleep", self.server_states(), self.steady.states)

    def beat(self, count: int) -> None:
        for variable in self.chance.choices(range(64), k=count):
            stamp = self.clock % 65536
            entry = self.agent.entries[variable]
            if entry != bytes(4) and int.from_bytes(entry[:2], "big") == stamp \
                    and self.passed != self.beaten[variable]:
                continue  # the same timestamp, after a wrap or a jump: devices do not see that
            sender, value = self.chance.randrange(1, 256), self.chance.randrange(256)
            self.agent.record(stamp, variable, sender, value)
            self.heard.record((self.begun + self.passed) % 65536, variable, sender, value)
            self.compiled.record(self.ms, self.up, variable, sender, value)
            self.beaten[variable] = self.passed
            self.doubtful.discard(variable)

    def compare(self, who: str, found: object, right: object) -> None:
        if found != right:
            raise Difference(f"{who} at {self.clock}: {found}\nshould be {right}")

    def both_look(self) -> list[Change]:
        now = self.clock % 65536
        changes = self.watch.look(self.agent.entries, now)
        self.compare("device", self.device.look(self.agent, now), changes)
        self.entered.update(change[2] for change in changes)
        return changes

    def server_states(self) -> list[int]:
        return [self.compiled.code.agree_state(one.variable) for one in self.watch.lines]

    def judge(self) -> None:
        self.both_look()
        pause = self.compiled.look(self.ms, self.up)
        self.compare("server", self.compiled.changes(), self.look_steadily())
        shortest = min(min(one.late for one in self.watch.lines) - 64, 100 // self.tick)
        if pause != min(1000, max(1, shortest) * self.tick - self.ms % self.tick):
            raise Difference(f"the server waits {pause} ms at {self.ms}")
        states = {one.variable: state for one, state in zip(self.watch.lines, self.watch.states)}
        uptime = (self.passed * self.tick) / 1000 + 0.0001  # s; int() of it in ms is exact
        seen: Any = SimpleNamespace(
            settings=self.settings, source="now-from", now=self.clock % 65536, asked=uptime,
            received=uptime, entries=client.unchecked_entries(self.agent.table()))
        judges = [("watch", self.memory)]
        if self.chance.randrange(4) == 0:
            judges.append(("check", client.History()))
        for who, memory in judges:
            for reading in client.interpret(seen, memory):
                number = reading.variable.number
                if number not in states or number in self.doubtful or \
                        (who == "check" and self.passed - self.beaten[number] > LONGEST):
                    continue
                if states[number] not in meanings(reading):
                    self.compare(f"client.py {who}, variable {number}", reading,
                                 STATES[states[number]])


def meanings(reading: client.Reading) -> tuple[int, ...]:
    """What the watch may say of a variable of which client.py says this."""
    return {client.NEVER: (WAITING, MISSING), client.LATE: (LATE,), client.DEAD: (DEAD,),
            client.OK: (OUT_OF_RANGE if reading.bad_value else ALIVE,)}[reading.state]


TOKENS = ("[3]", "[03]", "[0x3]", "[64]", "[dumpulse]", "[DUMPULSE]", "[ 3 ]", "[3", "[3] x", "[]",
          "name", "Warn", "crit", "value", "value-warn", "every", "expect", "tick", "now-from", "=",
          " = ", "\t", "  ", "\r", "#", ";", "engine", "a é", "5s", "500ms", "0.0015", "1.5 min",
          "1 h", "0", "65470s", "65471s", "3s", "yes", "no", "0..80", "10 .. 0x20", "80..0", "..",
          "255..256", "7", "0x3F", "0x", "1e3", "-1", "\0", "\ufeff", "100000h", "100001h",
          "x" * 25)
GOOD_LINES = ("[dumpulse]", "[3]", "[4]", "[0x5]", "warn = 2s", "crit = 9", "warn=1.5s",
              "Crit = 1min", "name = engine", "value = 1..9", "value-warn = 2..8", "every = 1s",
              "expect = no", "tick = 1s", "now-from = 0", "# text", "", "  name = x")


def some_damaged_file(chance: random.Random) -> str:
    lines = ["[3]"] if chance.randrange(2) else []
    for _ in range(chance.randrange(8)):
        lines.append(chance.choice(GOOD_LINES))
        if chance.randrange(8) == 0:
            lines[-1] = "".join(chance.choices(TOKENS, k=chance.randrange(1, 5)))
        if chance.randrange(8) == 0:
            key = lines[-1].partition("=")[0]
            lines[-1] = f"{key}={chance.choice(TOKENS)}"
    return "\n".join(lines)


def compare_files(compiled: Compiled, path: Path, seed: int) -> bool:
    """Returns whether the server accepts this file."""
    text = some_damaged_file(random.Random(seed))
    path.write_bytes(text.encode())
    wrong = compiled.read(path, 1000)
    try:
        settings = client.make_settings(argparse.Namespace(names=str(path)))
    except client.BadUsage as error:
        # Beyond ASCII, the server allows more characters in names.
        if not wrong and ("name must be" not in str(error) or text.isascii()):
            raise Difference(f"client.py alone refuses this file: {error}\n{text!r}") from error
        return False
    if wrong and not any(reason in wrong for reason in STRICTER):
        raise Difference(f"the server alone refuses this file: {wrong}\n{text!r}")
    if not wrong:
        compare_meaning(compiled, settings, text)
    return not wrong


def compare_meaning(compiled: Compiled, settings: client.Settings, text: str) -> None:
    """The server has read the same file as client.py. Did both understand the same?"""
    for variable, names in zip(settings.variables, compiled.names):
        expected = (variable.name, variable.low, variable.high) if variable.listed else ("", 0, 0)
        times = (variable.warn_ms // settings.tick_ms, variable.crit_ms // settings.tick_ms)
        if names.expected != variable.expected or \
                (names.name.decode(), names.low, names.high) != expected or \
                (variable.listed and (names.warn, names.crit) != times):
            raise Difference(f"variable {variable.number} means something else: {text!r}")


def compare(seed: int, count: int) -> tuple[Counter[int], Counter[bool]]:
    """COUNT runs, and some files. Raises Difference. Returns how often the variables
    entered each state, and how many files were accepted and refused."""
    compiled = Compiled()
    entered, accepted = Counter[int](), Counter[bool]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "names.ini"
        for number in range(seed, seed + max(1, count // AT_ONCE)):
            try:
                accepted.update(compare_files(compiled, path, one)
                                for one in range(FILES * number, FILES * number + FILES))
                world = World(compiled, path, random.Random(number))
                for _ in range(LOOKS):
                    world.step()
            except Difference as error:
                raise Difference(f"--seed {number} --count {AT_ONCE} replays this: {error}") \
                    from error
            entered.update(world.entered)
    return entered, accepted


def main() -> None:
    parser = argparse.ArgumentParser(prog="agree", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--count", type=natural, default=1_000_000)
    options = parser.parse_args()
    print(f"agree: --seed {options.seed} --count {options.count} replays this", flush=True)
    entered, accepted = Counter[int](), Counter[bool]()
    parts = [(options.seed + first // AT_ONCE, min(PART, options.count - first))
             for first in range(0, options.count, PART)]
    with ProcessPoolExecutor() as processes:
        try:
            for number, part in enumerate(processes.map(compare, *zip(*parts, strict=True)), 1):
                entered.update(part[0])
                accepted.update(part[1])
                print(f"agree: part {number} of {len(parts)} passed", file=sys.stderr)
        except Difference as error:
            processes.shutdown(cancel_futures=True)
            raise SystemExit(f"agree: {error}") from error
    counts = ", ".join(f"{entered[state]} {word}" for state, word in enumerate(STATES) if state)
    print(f"agree: {options.count} runs passed, 0 failed: {counts}; "
          f"{accepted[True]} files accepted, {accepted[False]} refused")


if __name__ == "__main__":
    main()
