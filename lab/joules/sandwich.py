"""Drives the power sandwich: a PowerShield that feeds and measures a NUCLEO-F411RE.

    lab/run sandwich [--meter DEVICE] [--target DEVICE] [--runs 4] [--logs FOLDER]

For each scheme and each run, in random order: it writes the image into the flash, measures each
operation for 10 s, and keeps a log. lab/joules/sandwich.md says how to wire it. lab/run tables
makes tables of the logs. After a break, the same command goes on where it was."""

import argparse
import fcntl
import hashlib
import os
import random
import re
import select
import shutil
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from lab.arguments import number
from lab.joules import results, tables
from lab.joules.board import FOLDER, Image
from lab.joules.tables import (BEGINS, COMPLETE, COUNT, FINISHED, IDLE, SAMPLE, TEST, Board, Entry,
                               Trouble, printable)
from tools.programs import ROOT, as_program

SECONDS = 10  # Length of an acquisition, which has 100 samples.
ATTEMPTS = 3  # for each measurement
FLASHING = 120.0  # seconds at most
TARGETS = "/dev/serial/by-id/*STLink*"
FLASHER = "st-flash"
METERS = "/dev/serial/by-id/*PowerShield*"
HERTZ = 10  # Sampling rate.
ANSWER = 2.0  # seconds until a command is sent again
PAUSE = 0.5  # seconds after a rejection, and for an answer that may not come
TRIES, PATIENT = 5, 40  # attempts of a command; until its status is ok, and its trigger is accepted
START = 5.0  # seconds after a trigger until the first sample must have come
VOLTS, VOLTS_OFF = 3.0, 0.01  # Study 2's supply of the board; the tolerance.
AWAKE, MEASURING, TESTING = 5.0, 45.0, 60.0  # seconds until the board asks for a letter again
ASKS, FAULT = "[INPUT]", "[FAULT]"
MOST_BYTES = 2 << 20  # A log's limit, which only a line that never pauses exceeds.
LONGEST = 400  # bytes of a line; the longest that is right has 80
MOST_LINES = 3000  # Limit of one wait; an acquisition has about 110 lines.


class Usage(Exception):
    """What was asked for cannot be done: exit status 2."""


class Gone(Exception):
    """The device is not there, or no longer: no attempt helps."""


class Log:
    """Is written as NAME.part, and gets its name when the run is complete."""

    def __init__(self, path: Path) -> None:
        self.path, self.part = path, path.with_name(path.name + ".part")
        self.file = self.part.open("w", encoding="ascii", buffering=1)
        self.begun, self.room = time.monotonic(), MOST_BYTES
        self.recent: list[Entry] = []  # All entries that follow the last note.
        self.note(BEGINS)

    def write(self, who: str, text: str) -> None:
        line = f"{time.monotonic() - self.begun:9.3f} {who}: {text}\n"
        self.room -= len(line)
        if self.room >= 0 or who == "note":
            self.file.write(line)
            self.recent.append(Entry(0, who, text))

    def note(self, text: str) -> None:
        self.recent.clear()
        self.write("note", printable(text.encode("ascii", "replace")))

    def complete(self) -> None:
        self.note(COMPLETE)
        os.fsync(self.file.fileno())
        self.file.close()
        self.part.replace(self.path)


class Line:
    """A serial line, whose device may send anything. What goes over it is written to `log`, as of
    `name` or `to name`. Every wait ends, after a time or a number of lines."""

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name, self.buffer = path, name, b""
        self.log: Log | None = None
        try:
            self.file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise Gone(f"{name}: {path}: {error.strerror}") from None
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            tty.setraw(self.file)
            settings = termios.tcgetattr(self.file)
            settings[4] = settings[5] = termios.B115200
            termios.tcsetattr(self.file, termios.TCSANOW, settings)
        except (BlockingIOError, termios.error) as error:
            os.close(self.file)
            why = "in use by another program" if isinstance(error, BlockingIOError) else \
                "not a serial line"
            raise Gone(f"{name}: {path} is {why}") from None

    def _write_log(self, who: str, text: str) -> None:
        if self.log is not None:
            self.log.write(who, text)

    def send(self, text: str) -> None:
        """A command is far shorter than what a line keeps."""
        self._write_log(f"to {self.name}", text.strip())
        try:
            os.write(self.file, text.encode())
        except OSError as error:
            raise Gone(f"{self.name}: {self.path} is gone: {error.strerror}") from None

    def _read(self, until: float) -> bool:
        """More bytes into the buffer; false if none came in time."""
        if not select.select([self.file], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.file, 4096)
        except OSError as error:
            raise Gone(f"{self.name}: {self.path} is gone: {error.strerror}") from None
        if not data:
            raise Gone(f"{self.name}: {self.path} is gone")
        self.buffer += data
        return True

    def forget(self) -> None:
        """Drops what came before, which does not answer the next command: at most 400 kB."""
        for _ in range(100):
            if not self._read(0):
                break
            self.buffer = b""
        self.buffer = b""

    def until(self, is_last: Callable[[str], bool], seconds: float, what: str) -> list[str]:
        """The lines up to the one that is wanted."""
        lines: list[str] = []
        end = time.monotonic() + seconds
        while len(lines) < MOST_LINES:
            raw, newline, rest = self.buffer.partition(b"\n")
            if not newline and len(raw) < LONGEST:
                if self._read(end):
                    continue
                last = f'; the last line was "{lines[-1][:60]}"' if lines else "; nothing came"
                raise Trouble(f"{self.name}: no {what} within {seconds:g} s{last}")
            self.buffer = rest if newline else b""
            text = printable(raw[:LONGEST])
            self._write_log(self.name, text)
            lines.append(text)
            if is_last(text):
                return lines
        raise Trouble(f'{self.name}: no {what} in {MOST_LINES:,} lines; the last was '
                      f'"{lines[-1][:60]}"')


@dataclass(frozen=True)
class Job:
    image: Image
    run: int  # Runs are numbered, beginning with 1.

    def log(self, folder: Path) -> Path:
        return folder / f"{self.image.name}.run-{self.run}.log"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def in_order(images: Sequence[Image], runs: int, seed: int) -> list[Job]:
    """All schemes in an order of their own in each run, so that a meter that drifts, or a room that
    gets warmer, favours none."""
    jobs: list[Job] = []
    for run in range(1, runs + 1):
        shuffled = sorted(images, key=lambda image: image.name)
        random.Random(f"{seed} {run}").shuffle(shuffled)
        jobs += [Job(image, run) for image in shuffled]
    return jobs


def noted(path: Path, name: str) -> str:
    """What the first lines of a log say of a name."""
    for entry in tables.read(path)[:10]:
        if entry.who == "note" and entry.text.startswith(f"{name} "):
            return entry.text.partition(" ")[2]
    return ""


def left_to_do(jobs: Iterable[Job], folder: Path) -> list[Job]:
    """Without those that have a log. What was not completed is measured again."""
    left = []
    for job in jobs:
        path = job.log(folder)
        if not path.exists():
            left.append(job)
        elif noted(path, "image") != sha256(job.image.path):
            raise Usage(f"{path} was made with another image of {job.image.name}: "
                        "use another folder for logs, or remove that log")
    return left


def device(name: str | None, pattern: str, what: str, option: str) -> str:
    """The one that was named, or the only one that looks like it."""
    if name:
        return name
    candidates = sorted(glob(pattern))
    if len(candidates) == 1:
        return candidates[0]
    several = f": {', '.join(candidates)}" if candidates else f", which would be {pattern}"
    raise Usage(f"{'several' if candidates else 'no'} {what}{several}; {option} names it")


class Bench:
    """The meter (a PowerShield, which speaks text over USB) and the board, each on its line."""

    def __init__(self, meter: str, board: str) -> None:
        self.meter = Line(meter, "meter")
        try:
            self.board = Line(board, "target")
        except Gone:
            os.close(self.meter.file)
            raise

    def use_log(self, log: Log | None) -> None:
        self.meter.log = self.board.log = log

    def close(self) -> None:
        for line in (self.meter, self.board):
            os.close(line.file)

    def ask(self, command: str, answer: str = "", *, tries: int = TRIES) -> str:
        """Sends a command to the meter until it is acknowledged."""
        expected, trouble = answer or f"ack {command}", ""
        for _ in range(tries):
            self.meter.forget()
            self.meter.send(f"{command}\n")
            try:
                reply = self.meter.until(lambda text: "ack" in text or "error" in text, ANSWER,
                                         f'answer to "{command}"')[-1]
            except Trouble as error:
                trouble = str(error)
                continue
            if expected in reply:
                return reply
            trouble = f'meter: it answers "{command}" with "{reply[:60]}"'
            time.sleep(PAUSE)
        raise Trouble(f"{trouble}; tried {tries} times")

    def rest(self) -> None:
        """Ends what the meter does. While it does nothing, it may reject `stop`, or not answer it;
        and an acquisition that ends may be all that it answers."""
        self.meter.forget()
        self.meter.send("stop\n")
        try:
            self.meter.until(lambda text: "ack" in text or "error" in text or FINISHED in text,
                             PAUSE, 'answer to "stop"')
        except Trouble:
            pass
        self.ask("trigsrc sw")

    def volts(self) -> float:
        answer = self.ask("volt get")
        match = SAMPLE.search(answer)
        if match is None:
            raise Trouble(f'meter: "{answer[:60]}" names no voltage')
        return float(f"{match[1]}e{match[2]}")

    def feed(self) -> None:
        if abs(self.volts() - VOLTS) > VOLTS_OFF:
            self.ask(f"volt {round(VOLTS * 1000)}m", "ack volt")
            if abs((got := self.volts()) - VOLTS) > VOLTS_OFF:
                raise Trouble(f"meter: it feeds {got:g} V instead of {VOLTS:g} V")

    def flash(self, image: Image) -> None:
        """No line goes from the ST-Link to the chip's reset, as SB12 is off. Afterwards the meter
        takes the chip's power for a moment, so st-flash need not start the new program."""
        command = [FLASHER, "write", str(image.path), "0x08000000"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=FLASHING, check=False)
        except subprocess.TimeoutExpired:
            raise Trouble(f"{FLASHER} has not ended after {FLASHING:g} s") from None
        except OSError as error:
            raise Gone(f"{FLASHER}: {error.strerror}") from None
        if done.returncode:
            lines = [printable(line) for line in done.stdout.split(b"\n") if printable(line)]
            raise Trouble(f"{FLASHER} failed: {lines[-1][:100] if lines else 'without output'}")

    def asked(self, seconds: float) -> list[str]:
        """What the board sends until it asks for a letter."""
        lines = self.board.until(lambda text: text.startswith((ASKS, FAULT)), seconds, f'"{ASKS}"')
        if lines[-1].startswith(FAULT):
            raise Trouble("the board's program has failed; a power cycle starts it again")
        return lines

    def restart(self) -> Board:
        """Takes the board's power for a second."""
        self.board.forget()
        self.ask("targrst 1")
        return tables.board(self.asked(AWAKE))

    def start(self, image: Image) -> Board:
        """The board runs this image, and the meter is ready."""
        self.ask("status", "status ok", tries=PATIENT)
        self.ask("htc")  # control, from its own buttons
        self.rest()
        self.ask("temp degc")
        self.feed()
        self.ask("targrst 1")  # without power, nothing writes its flash
        self.flash(image)
        about = self.restart()
        if about.name != image.name:
            raise Trouble(f"the board runs {about.name}, not {image.name}: was it flashed?")
        for command in ("output energy", "format ascii_dec", f"freq {HERTZ}", f"acqtime {SECONDS}",
                        "acqmode dyn"):
            self.ask(command)
        return about

    def measure(self, letter: str, about: Board, record: Log) -> None:
        """Raises Trouble if the log has no measurement then. The meter is started each time, as its
        manual states, and stopped before, as it may still wait for D7. Its summary may come before
        or after its last line."""
        self.rest()
        if letter != TEST:
            self.ask("trigsrc d7", tries=PATIENT)
            self.ask("start", tries=1)
        self.board.forget()
        self.board.send(letter)
        if letter != TEST:
            lines = self.meter.until(lambda text: FINISHED in text, START + SECONDS,
                                     f'"{FINISHED}"')
            if not any(COUNT in text for text in lines):
                self.meter.until(lambda text: COUNT in text, ANSWER, f'"{COUNT}"')
        self.asked(TESTING if letter == TEST else MEASURING)
        tables.measurement(record.recent, letter, about)


def attempted(bench: Bench, letter: str, about: Board, record: Log) -> None:
    """A measurement, and again after trouble, with the board and the meter as at the start."""
    for attempt in range(1, ATTEMPTS + 1):
        record.note(f"measure {letter}")
        try:
            bench.measure(letter, about, record)
        except Trouble as trouble:
            record.note(f"failed {letter}: {trouble}")
            if attempt == ATTEMPTS:
                raise
            bench.rest()
            bench.restart()
        else:
            record.note(f"measured {letter}")
            return


def run_job(bench: Bench, job: Job, record: Log, facts: Sequence[str]) -> None:
    for fact in (f"scheme {job.image.name}", f"run {job.run}", *facts,
                 f"image {sha256(job.image.path)}",
                 f"began {results.now()}", f"computer {results.machine()}",
                 f"governor {results.governor()}",
                 *(f"{name} {version}" for name, version in results.versions().items())):
        record.note(fact)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            about = bench.start(job.image)
            break
        except Trouble as trouble:
            record.note(f"no start: {trouble}")
            if attempt == ATTEMPTS:
                raise
    for letter in (*about.letters, IDLE, TEST):
        attempted(bench, letter, about, record)
        print(f" {letter}", end="", flush=True)
    record.complete()


def run_all(bench: Bench, jobs: Sequence[Job], folder: Path, facts: Sequence[str]) -> list[str]:
    """Measures, and returns a line for each scheme that could not be measured."""
    failed: list[str] = []
    for number, job in enumerate(jobs, start=1):
        print(f"sandwich: {number} of {len(jobs)}: {job.image.name}, run {job.run}:", end="",
              flush=True)
        record = Log(job.log(folder))
        bench.use_log(record)
        try:
            run_job(bench, job, record, facts)
            print(" done")
        except Gone:
            print()
            raise
        except Trouble as trouble:
            print(f"\nsandwich: {job.image.name}, run {job.run}: {trouble}; it is left out")
            failed.append(f"{job.image.name}, run {job.run}")
        finally:
            bench.use_log(None)
            record.file.close()
    return failed


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lab/run sandwich",
        description="Measures the joules of each scheme on a NUCLEO-F411RE "
        "that a PowerShield feeds. The same command goes on after a break.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80))
    parser.add_argument("--meter", metavar="DEVICE", help="the PowerShield's line, if it is not "
                        "found by its name in /dev/serial/by-id")
    parser.add_argument("--target", metavar="DEVICE", help="the board's line: its ST-Link's")
    parser.add_argument("--runs", type=number(1, 999), default=4, metavar="N",
                        help="how often each scheme is measured (4)")
    parser.add_argument("--seed", type=number(0, 2**32), default=1, metavar="N",
                        help="of the random order (1)")
    parser.add_argument("--only", default="", metavar="WORDS",
                        help="schemes with these words in their name")
    parser.add_argument("--logs", type=Path, default=Path("logs"), metavar="FOLDER",
                        help="where the logs go (logs)")
    parser.add_argument("--images", type=Path, default=FOLDER, metavar="FOLDER",
                        help="the images, as `make figures ONLY=lab-board` builds them")
    return parser.parse_args(words)


def images_of(folder: Path, only: str) -> list[Image]:
    images = [Image(path.stem, path) for path in sorted(folder.glob("*.bin"))]
    if not images:
        shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
        raise Usage(f"no images in {shown}: make figures ONLY=lab-board builds them")
    chosen = [image for image in images if only.casefold() in image.name.casefold()]
    if not chosen:
        raise Usage(f"no image has {only!r} in its name")
    return chosen


def drive(options: argparse.Namespace) -> int:
    images = images_of(options.images, options.only)
    if not shutil.which(FLASHER):
        raise Usage(f"{FLASHER} writes the flash, and is not installed: apt install stlink-tools")
    meter = device(options.meter, METERS, "PowerShield", "--meter")
    board = device(options.target, TARGETS, "NUCLEO board", "--target")
    options.logs.mkdir(parents=True, exist_ok=True)
    bench = Bench(meter, board)
    try:
        jobs = in_order(images, options.runs, options.seed)
        todo = left_to_do(jobs, options.logs)
        print(f"sandwich: {len(images)} schemes, {options.runs} runs, seed {options.seed}; "
              f"{len(jobs) - len(todo)} of {len(jobs)} logs are there already")
        failed = run_all(bench, todo, options.logs, (f"seed {options.seed}",))
    except KeyboardInterrupt:
        print("\nsandwich: stopped; the same command goes on from here")
        try:
            bench.rest()
        except (Trouble, Gone):
            pass  # it stops by itself after 10 s
        return 130
    finally:
        bench.close()
    if failed:
        print(f"sandwich: {len(failed)} of {len(todo)} were left out: {'; '.join(failed)}. "
              "The same command tries them again.")
    return 1 if failed else 0


def command(words: Sequence[str] | None = None) -> int:
    try:
        return drive(arguments(words))
    except (Usage, Gone, OSError) as error:
        print(f"sandwich: {error}", file=sys.stderr)
        return 2 if isinstance(error, Usage) else 1
    except KeyboardInterrupt:  # before it has begun, or once more while it stops
        return 130


def main() -> None:
    sys.exit(command())


if __name__ == "__main__":
    as_program(main, ".*")
