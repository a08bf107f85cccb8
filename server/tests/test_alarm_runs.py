"""Runs the real udpserver with --watch, --exec and --state through restarts, kills, stops, slow and
full disks, a log that is not read or cannot grow, slow programs, and reloads that fail.

    python -m server.tests.test_alarm_runs [--runs N] [--seed N]

Nodes send heartbeats, change their values and fall silent: from that follows what the server must
find. Each number of each variable must be in the log, and a program must have run for it, or the
server has counted that there is none. No number comes twice without a kill, and then it is the same
change. If a server ends that cannot store its state in time, numbers may begin again. Else, the
state file has a change before its program runs, at the end of the server, too."""

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from spec.model import heartbeat
from tools.programs import PATIENCE, built, wait_until
from tools.servers import Server, takes_hang_up
from tools.tiers import SEED

AT_ONCE = 12  # runs
STEP, LATE, SETTLED = 0.03, 0.15, 1.2  # s
PATIENCE_OF_SERVER = 0.4  # s: soon after that, it tells what it could not store
LONG_STORE = 1.5  # s: after a fault, the state may be older than what was told
RECORDS_AT, RECORD = 280, 8  # Place and size of records in the state file.
MEMORY = "/dev/shm"  # no disk is slow here but when a run makes it so
BOOTS = 40  # the first variable with boot counts
NAMES = "[dumpulse]\ntick = 20ms\nwarn = 300ms\ncrit = 600ms\n"
MISTAKES = ("[64]\n", "[3]\nwarn = 5x\n", "name\n", "[0]\n", "[63]\nwarn = 9s\n", "[63\n")
STATES = {"in": ("alive",), "out": ("out-of-range",), "silent": ("dead", "missing")}
LINE = re.compile(r"udpserver: variable (\d+) \S+: ([a-z-]+), was ([a-z-]+); number (\d+)"
                  r"(?:; .+, boot \d+)?$", re.M)
LOST = re.compile(r"udpserver: (\d+) lines? could not be written$", re.M)
LEFT_OUT = re.compile(r"udpserver: (\d+) more changes: too many came at once$", re.M)


class Change(NamedTuple):
    """What the log or a program got from one life of the server."""
    life: int
    variable: int
    number: int
    was: str
    state: str


class Life:
    """From a start of the server to its end."""
    process: subprocess.Popen[bytes]
    is_killed = is_storable = False
    is_bad = False  # numbers may begin again

    def __init__(self, at: int, folder: Path) -> None:
        self.at, self.log, self.told_to = at, folder / f"log{at}", folder / f"told{at}"
        self.status: dict[str, Any] = {}
        self.ended = 0.0
        self.checked = 0  # bytes of told_to
        self.not_stored: list[str] = []

    def logged(self) -> Iterator[Change]:
        for variable, state, was, number in LINE.findall(self.log.read_text()):
            yield Change(self.at, int(variable), int(number), was, state)

    def change(self, line: str) -> Change:
        """What one program was told."""
        variable, was, state, number = line.split()[:4]
        return Change(self.at, int(variable), int(number), was, state)

    def told(self) -> Iterator[Change]:
        return map(self.change, self.told_to.read_text().splitlines())

    def check_told(self, is_storable: bool) -> None:
        """Reads what was told since the last call. The state file had it by then, if it could."""
        with self.told_to.open() as file:
            file.seek(self.checked)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            self.checked += len(line)
            stored = bytes.fromhex("".join(line.split()[4:]))
            change = self.change(line)
            at = change.variable * RECORD
            if is_storable and change.number > int.from_bytes(stored[at:at + 4], "big"):
                self.not_stored.append(f"told before it was stored: {change}")

    def lost(self) -> int:
        """How many lines and changes the log lacks, as the server has counted."""
        text = self.log.read_text()
        lost = sum(map(int, LOST.findall(text)))
        return sum(map(int, LEFT_OUT.findall(text))) + \
            (lost if self.is_killed else max(lost, self.status["lost_lines"]))


def problems(lives: list[Life]) -> Iterator[str]:
    """What is wrong with lives whose numbers go on from one to the next."""
    logged = [change for life in lives for change in life.logged()]
    told = [change for life in lives for change in life.told()]
    last = {} if lives[-1].is_bad else {row["variable"]: row["number"] or 0
                                        for row in lives[-1].status["table"]}
    for what, changes, counted in (
            ("not logged", logged, sum(life.lost() for life in lives)),
            ("not told", told, sum(life.status["not_told"] for life in lives))):
        by_number = defaultdict[tuple[int, int], list[Change]](list)
        for change in changes:
            by_number[change.variable, change.number].append(change)
        most, missing, merged = dict(last), 0, 0
        for (variable, number), same in by_number.items():
            most[variable] = max(most.get(variable, 0), number)
            for one, again in itertools.pairwise(same):
                if not any(life.is_killed for life in lives if one.life <= life.at < again.life):
                    yield f"{what} once: {one}, {again}"
                if one.state != again.state or (changes is logged and one.was != again.was):
                    yield f"two changes with one number: {one}, {again}"
        for variable, until in most.items():
            before, gap = "", 0
            numbers = [number for one, number in by_number if one == variable]
            # A life after one that could not store its state may begin with any number.
            for number in range(min(numbers, default=until + 1) if lives[0].at else 1, until + 1):
                same = by_number.get((variable, number), [])
                goes_on = not same or not before or same[0].was == before
                if not goes_on and not gap:
                    yield f"{what}: what is between {before} and {same[0]}"
                missing += not same
                merged += gap if same and goes_on else 0
                if same and same[0].state != "restarted":
                    before = same[0].state
                elif same:
                    before = same[0].was
                gap = 0 if same else gap + 1
        # The counters of a life end with its kill. What was merged shows in the next change.
        is_whole = not (lives[0].at or any(life.is_killed or life.is_bad for life in lives))
        excused = merged if what == "not told" and not is_whole else 0
        if missing > counted + excused or (what == "not told" and is_whole and missing != counted):
            yield f"lives {lives[0].at}-{lives[-1].at}: {missing} {what}, {counted} counted"


class Run:
    """A server, its nodes, and what happens to them."""

    def __init__(self, seed: int, folder: Path, sync_ms: int | None = None) -> None:
        self.chance, self.folder, self.full = random.Random(seed), folder, folder / "full"
        self.host = f"127.{64 + os.getppid() % 128}.{seed >> 8 & 255}.{seed & 255}"
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.lives: list[Life] = []
        self.version, self.is_stalled = 1, False
        self.bad_until = self.beaten = self.moved = 0.0
        self.modes = dict.fromkeys(range(self.chance.choice((3, 4, 14))), "silent")
        self.since = dict.fromkeys(self.modes, 0.0)
        self.write_names()
        (folder / "program").write_text(
            f"#!/bin/sh\n[ ! -e {folder}/slow ] || sleep 0.$(($$ % 5))\n"
            f"stored=$(od -An -v -tx1 -j{RECORDS_AT} -N{64 * RECORD} {folder}/state)\n"
            'echo "$1 $3 $4 $5" $stored >>"$TOLD"\n')
        (folder / "program").chmod(0o755)
        self.start(sync_ms)

    def write_names(self, more: str = "") -> None:
        (self.folder / "names").write_text(NAMES + "".join(
            f"[{i}]\nname = v{self.version}x{i}\nvalue = 0..99\nboots = {BOOTS + i}\n"
            for i in self.modes) + more)

    def start(self, sync_ms: int | None = None) -> None:
        life = Life(len(self.lives), self.folder)
        life.told_to.touch()
        self.sync_ms = self.chance.choice((0, 0, 40, 40, 300, 900)) if sync_ms is None else sync_ms
        log = os.open(life.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, bytes(1 << 20))  # other files are smaller: a limit is only for it
        self.cat, self.writing = None, log
        if self.chance.random() < 0.6:
            reading, self.writing = os.pipe()
            self.cat = subprocess.Popen(["cat"], stdin=reading, stdout=log)
            os.close(reading)
            os.close(log)
        self.is_changed = bool(self.sync_ms) or self.full.exists() or self.chance.random() < 0.5
        options = {"--bind": self.host, "--tick": "20", "--watch": f"{self.folder}/names",
                   "--exec": f"{self.folder}/program", "--state": f"{self.folder}/state",
                   "--state-every": "1", "--stats": f"{self.folder}/stats"}
        with (self.folder / "counters").open("w") as counters:
            life.process = subprocess.Popen(
                [built("build/udpserver-calls" if self.is_changed else "build/udpserver"),
                 *itertools.chain(*options.items())], stdout=counters, stderr=self.writing,
                preexec_fn=takes_hang_up, env=os.environ | {
                    "SLOW": f"{self.sync_ms}", "FULL": f"{self.full}", "TOLD": f"{life.told_to}"})
        self.lives.append(life)
        wait_until(self.ask, "it answers")
        self.moved = time.monotonic()

    def ask(self) -> bool:
        """Gets states and counters."""
        begin = time.monotonic()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(PATIENCE)
            asking.connect(f"{self.folder}/stats")
            self.lives[-1].status = json.loads(asking.makefile().read())
            self.note_delay(begin)
            return True
        return False

    def note_delay(self, since: float) -> None:
        """If that is too long ago, the machine was slow."""
        now = time.monotonic()
        if now - since > LATE:
            self.moved, self.bad_until = now, now + LONG_STORE

    def live(self, seconds: float) -> None:
        """Lets time pass, in which nodes send heartbeats."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self.note_delay(self.beaten)
            self.beaten = now
            for variable, mode in self.modes.items():
                value = {"in": 50, "out": 200, "flap": 200 * (int(now / 0.13) % 2)}.get(mode)
                if value is not None:
                    self.socket.sendto(heartbeat(variable, 1, value), (self.host, 9060))
            time.sleep(STEP)
            self.lives[-1].check_told(self.is_storable())

    def is_storable(self) -> bool:
        self.note_delay(self.beaten)
        return self.sync_ms <= 50 and time.monotonic() > self.bad_until \
            and not (self.is_changed and self.full.exists())

    def change(self) -> None:
        """Some nodes do something else, or all do the same."""
        mode, share = self.chance.choice((*STATES, "flap")), self.chance.choice((0.4, 0.4, 1))
        for variable in self.modes:
            if self.chance.random() < share:
                self.modes[variable] = mode if share == 1 else self.chance.choice((*STATES, "flap"))
                self.since[variable] = time.monotonic()
            if self.chance.random() < 0.2:
                boot = heartbeat(BOOTS + variable, 1, self.chance.randrange(256))
                self.socket.sendto(boot, (self.host, 9060))

    def settle(self) -> None:
        """What nodes have done for long enough is found."""
        def is_found() -> bool:
            self.live(STEP)
            since = time.monotonic() - SETTLED
            return self.ask() and all(
                self.lives[-1].status["table"][variable]["state"] in STATES[mode]
                for variable, mode in self.modes.items()
                if mode != "flap" and max(self.moved, self.since[variable]) < since)

        self.live(SETTLED)
        wait_until(is_found, f"the states of {self.modes}")

    def stop(self) -> None:
        self.lives[-1].process.send_signal(signal.SIGSTOP)
        self.live(self.chance.uniform(0.1, 1.0))
        self.lives[-1].process.send_signal(signal.SIGCONT)
        self.moved = time.monotonic()
        self.bad_until = self.moved + LONG_STORE

    def stall(self) -> None:
        """Nobody reads the log, or its file cannot grow; or that has ended."""
        life, self.is_stalled = self.lives[-1], not self.is_stalled
        if self.cat is None:
            most = life.log.stat().st_size + self.chance.randrange(90)
            if not self.is_stalled:
                os.write(self.writing, b"~")  # no line that is torn looks complete
                most = resource.RLIM_INFINITY
            resource.prlimit(life.process.pid, resource.RLIMIT_FSIZE, (most, -1))
        elif self.is_stalled:
            self.cat.send_signal(signal.SIGSTOP)
            os.set_blocking(self.writing, False)
            with contextlib.suppress(BlockingIOError):
                os.write(self.writing, bytes(1 << 17))
            os.set_blocking(self.writing, True)
        else:
            self.cat.send_signal(signal.SIGCONT)

    def toggle(self) -> None:
        """Programs become slow, or the disk full; or that has ended."""
        path = self.chance.choice((self.full, self.folder / "slow"))
        path.unlink() if path.exists() else path.touch()
        self.bad_until = time.monotonic() + LONG_STORE

    def reload(self) -> None:
        """A file of names with a mistake changes nothing."""
        version, is_wrong = self.version, self.chance.random() < 0.5
        self.version += 1
        self.write_names(self.chance.choice(MISTAKES) * is_wrong)
        check = (built("build/udpserver"), "--check", "--tick", "20", "--watch",
                 self.folder / "names")
        assert subprocess.run(check, capture_output=True).returncode == 2 * is_wrong
        self.lives[-1].process.send_signal(signal.SIGHUP)
        self.version = version if is_wrong else self.version
        assert self.ask() and \
            self.lives[-1].status["table"][0]["name"] == f"v{self.version}x0", self.version
        self.write_names()

    def end(self, number: int, share: float = 0.4) -> None:
        """In this share, a kill comes soon after SIGTERM."""
        life, is_full = self.lives[-1], self.is_changed and self.full.exists()
        assert self.ask()
        if self.is_stalled and self.chance.random() < 0.5:
            self.stall()
        life.is_bad = self.sync_ms > 50 or is_full or time.monotonic() < self.bad_until
        life.process.send_signal(number)
        life.ended = time.monotonic()
        if number == signal.SIGTERM and self.chance.random() < share:
            with contextlib.suppress(subprocess.TimeoutExpired):
                life.process.wait(self.chance.uniform(0, 0.03 + self.sync_ms / 500))
            life.process.kill()
        self.beaten = time.monotonic()
        status = life.process.wait(PATIENCE)
        life.is_storable = self.is_storable()
        life.is_killed = status == -signal.SIGKILL
        if not life.is_killed:
            assert status == int(is_full), status
            life.is_bad = is_full
            life.status |= Server.counters((self.folder / "counters").read_text())
        self.is_stalled = False
        os.close(self.writing)
        if self.cat is not None:
            self.cat.send_signal(signal.SIGCONT)
            self.cat.wait(PATIENCE)

    def restart(self) -> None:
        log, is_hasty = self.lives[-1].log, self.chance.random() < 0.5
        if is_hasty:  # It is killed as soon as a change is told; then comes another one.
            self.change()
            self.live(STEP)
            end, size = time.monotonic() + 0.11, log.stat().st_size
            while log.stat().st_size == size and time.monotonic() < end:
                time.sleep(0.001)
            if self.chance.random() < 0.5:  # this one is not stored yet
                self.change()
                self.live(0.1)
        self.end(self.chance.choice((signal.SIGTERM, signal.SIGKILL)))
        if is_hasty:
            self.change()
        self.live(self.chance.choice((0, self.chance.uniform(0, 0.8))))
        self.start()

    def problems(self) -> list[str]:
        found: list[str] = []
        for life in self.lives:
            life.check_told(life.is_storable)  # Programs may have ended later.
            found += life.not_stored
        begin = 0
        for life in self.lives:
            if life.is_bad or life is self.lives[-1]:
                found += problems(self.lives[begin:life.at + 1])
                begin = life.at + 1
        return found

    def run(self) -> list[str]:
        for _ in range(self.chance.randrange(8, 20)):
            self.chance.choice((self.change, self.change, self.change, self.stop, self.stall,
                                self.toggle, self.reload, self.restart, self.restart, self.restart,
                                self.settle))()
            self.live(self.chance.choice((0, self.chance.uniform(0, 0.8))))
        for path in (self.full, self.folder / "slow"):
            path.unlink(missing_ok=True)
        self.bad_until = time.monotonic() + LONG_STORE
        if self.is_stalled:
            self.stall()
        self.modes = {i: "in" if mode == "flap" else mode for i, mode in self.modes.items()}
        self.settle()
        deadline = time.monotonic() + PATIENCE
        while self.ask() and self.problems() and time.monotonic() < deadline:
            self.live(0.2)
        self.end(signal.SIGTERM, 0)  # the next life would tell what a kill leaves untold
        deadline = time.monotonic() + PATIENCE
        while self.problems() and time.monotonic() < deadline:
            time.sleep(0.1)  # The last programs outlive the server.
        return self.problems()


def run(seed: int) -> tuple[int, list[str], int, int]:
    """Returns what was wrong, and how many changes and starts there were."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        one = Run(seed, Path(folder))
        try:
            found = one.run()
        except AssertionError as error:
            found = [f"{error!r}"]
        finally:
            one.lives[-1].process.kill()
            one.lives[-1].process.wait()
        changes = sum(life.status.get("changes", 0) for life in one.lives)
        return seed, found, changes, len(one.lives)


def report(seeds: range) -> list[str]:
    """Prints how many runs there were. Returns what was wrong."""
    _ = [built("build/udpserver"), built("build/udpserver-calls")]
    with concurrent.futures.ProcessPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(run, seeds))
    print(f"{len(done)} runs, {sum(each[3] for each in done)} starts, "
          f"{sum(each[2] for each in done)} changes; {sum(bool(each[1]) for each in done)} wrong")
    return [f"seed {seed}: {problem}" for seed, found, _, _ in done for problem in found]


@pytest.mark.parametrize("runs", [6, pytest.param(30, marks=pytest.mark.slow)])
def test_each_alarm_is_told_or_counted(runs: int) -> None:
    assert report(range(SEED, SEED + runs)) == []


def test_a_change_at_the_end_is_stored_before_it_is_told(tmp_path: Path) -> None:
    """The signal comes while the server stores it."""
    one = Run(SEED, tmp_path, sync_ms=150)
    life, one.modes = one.lives[-1], dict.fromkeys(one.modes, "in")
    while len([*life.told()]) < len(one.modes):
        one.live(STEP)
    begun, one.modes = time.monotonic(), dict.fromkeys(one.modes, "out")
    while one.ask() and life.status["changes"] == len(one.modes):
        one.live(STEP)
    one.end(signal.SIGTERM, 0)
    wait_until(lambda: any(change.state == "out-of-range" for change in life.told()), "it is told")
    life.check_told(life.ended - begun < PATIENCE_OF_SERVER)
    assert life.not_stored == []


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    raise SystemExit("\n".join(report(range(given.seed, given.seed + given.runs))) or 0)
