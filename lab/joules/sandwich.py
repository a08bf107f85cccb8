"""Drives the power sandwich: a PowerShield that feeds and measures a NUCLEO-F411RE.

    lab/run sandwich [--meter DEVICE] [--target DEVICE] [--runs 4] [--logs FOLDER]

For each scheme and each run, in random order: it writes the image into the flash, measures each
operation for 10 s, and keeps a log. lab/joules/sandwich.md says how to wire it. lab/run tables
makes tables of the logs. After a break, the same command goes on where it was."""

import argparse
import hashlib
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from lab.joules import log, results, target
from lab.joules.board import FOLDER, Image
from lab.joules.console import Gone, Line, Trouble, printable
from lab.joules.log import Log
from lab.joules.powershield import DEVICES, PowerShield
from lab.joules.target import Target
from tools.programs import ROOT, as_program

SECONDS = 10  # of an acquisition: 100 samples
ATTEMPTS = 3  # for each measurement
FLASHING = 120.0  # seconds at most
TARGETS = "/dev/serial/by-id/*STLink*"
# No line goes from the ST-Link to the chip's reset, as SB12 is off. Afterwards the meter takes the
# chip's power for a moment, so the tools need not start the new program.
FLASHERS = {
    "st-flash": ("st-flash", "write", "{image}", "0x08000000"),
    "openocd": ("openocd", "-f", "board/st_nucleo_f4.cfg", "-c",
                "reset_config none; program {image} 0x08000000 verify exit"),
}


class Usage(Exception):
    """What was asked for cannot be done: exit status 2."""


@dataclass(frozen=True)
class Job:
    image: Image
    run: int  # from 1

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
    for entry in log.read(path)[:10]:
        if entry.who == "note" and entry.text.startswith(f"{name} "):
            return entry.text.partition(" ")[2]
    return ""


def left_to_do(jobs: Iterable[Job], folder: Path) -> list[Job]:
    """Without those that have a log. What was not completed is put aside."""
    for part in sorted(folder.glob("*.log.part")):
        print(f"sandwich: {part.name} was not completed, and is {log.put_aside(part).name} now")
    left = []
    for job in jobs:
        path = job.log(folder)
        if not path.exists():
            left.append(job)
        elif noted(path, "image") != sha256(job.image.path):
            raise Usage(f"{path} was made with another image of {job.image.name}: "
                        "use another folder for logs, or remove that log")
    return left


def kept_seed(folder: Path) -> int | None:
    """The seed of the logs that are there already."""
    for path in sorted(folder.glob("*.log")):
        if re.fullmatch(r"\d{1,18}", text := noted(path, "seed")):
            return int(text)
    return None


def flasher(wanted: str) -> tuple[str, ...]:
    """The command that writes an image into the flash."""
    names = list(FLASHERS) if wanted == "auto" else [wanted]
    for name in names:
        if shutil.which(name):
            return FLASHERS[name]
    packages = {"st-flash": "stlink-tools"}
    raise Usage(f"{' or '.join(names)} is needed to write the flash, and is not installed: "
                f"apt install {packages.get(names[0], names[0])}")


def device(given: str | None, pattern: str, what: str, option: str) -> str:
    """The one that was named, or the only one that looks like it."""
    if given:
        return given
    found = sorted(glob(pattern))
    if len(found) == 1:
        return found[0]
    several = f": {', '.join(found)}" if found else f", which would be {pattern}"
    raise Usage(f"{'several' if found else 'no'} {what}{several}; {option} names it")


class Bench:
    """The meter and the board, and what writes the board's flash."""

    def __init__(self, meter: str, board: str, flash: tuple[str, ...]) -> None:
        self.log: Log | None = None
        self.flash_command = flash
        self.shield = PowerShield(Line(meter, "meter", self._heard))
        try:
            self.target = Target(Line(board, "target", self._heard))
        except Gone:
            self.shield.line.close()
            raise

    def _heard(self, who: str, text: str) -> None:
        if self.log is not None:
            self.log.heard(who, text)

    def close(self) -> None:
        self.shield.line.close()
        self.target.line.close()

    def flash(self, image: Image) -> None:
        command = [word.format(image=image.path) for word in self.flash_command]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=FLASHING, check=False)
        except subprocess.TimeoutExpired:
            raise Trouble(f"{command[0]} has not ended after {FLASHING:g} s") from None
        except OSError as error:
            raise Gone(f"{command[0]}: {error.strerror}") from None
        if done.returncode:
            said = [printable(line) for line in done.stdout.split(b"\n") if printable(line)]
            raise Trouble(f"{command[0]} failed: {said[-1][:100] if said else 'it said nothing'}")

    def restart(self) -> target.Board:
        self.target.line.forget()
        self.shield.restart_board()
        return self.target.awake()

    def start(self, image: Image) -> target.Board:
        """The board runs this image, and the meter is ready."""
        self.shield.take_control()
        self.shield.feed()
        self.shield.restart_board()  # without power, nothing writes its flash
        self.flash(image)
        about = self.restart()
        if about.name != image.name:
            raise Trouble(f"the board runs {about.name}, not {image.name}: was it flashed?")
        self.shield.show("Dumpulse lab", image.name)
        self.shield.set_up(SECONDS)
        return about

    def measure(self, letter: str, about: target.Board) -> None:
        self.shield.arm("d7")
        self.target.begin(letter)
        self.shield.collect()
        self.target.end(letter, about)

    def test(self, about: target.Board) -> None:
        self.shield.rest()
        self.target.begin(target.TEST)
        self.target.end(target.TEST, about)


def attempted(bench: Bench, letter: str, about: target.Board, record: Log) -> None:
    """A measurement, and again after trouble, with the board and the meter as at the start."""
    for attempt in range(1, ATTEMPTS + 1):
        record.note(f"measure {letter}")
        try:
            if letter == target.TEST:
                bench.test(about)
            else:
                bench.measure(letter, about)
        except Gone:
            raise
        except Trouble as trouble:
            record.note(f"failed {letter}: {trouble}")
            if attempt == ATTEMPTS:
                raise
            bench.shield.rest()
            bench.restart()
        else:
            record.note(f"measured {letter}")
            return


def run_job(bench: Bench, job: Job, record: Log, facts: Sequence[str]) -> None:
    for fact in (f"scheme {job.image.name}", f"run {job.run}", *facts,
                 f"image {sha256(job.image.path)}", f"flasher {bench.flash_command[0]}",
                 f"began {results.now()}", f"computer {results.machine()}",
                 f"governor {results.governor()}",
                 *(f"{name} {version}" for name, version in results.versions().items())):
        record.note(fact)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            about = bench.start(job.image)
            break
        except Gone:
            raise
        except Trouble as trouble:
            record.note(f"no start: {trouble}")
            if attempt == ATTEMPTS:
                raise
    for letter in (*about.letters, target.IDLE, target.TEST):
        attempted(bench, letter, about, record)
        print(f" {letter}", end="", flush=True)
    record.complete()


def left(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def run_all(bench: Bench, jobs: Sequence[Job], folder: Path, facts: Sequence[str]) -> list[str]:
    """Measures, and returns a line for each scheme that could not be measured."""
    failed: list[str] = []
    begun, seconds = time.monotonic(), 6 * (SECONDS + 2.0) + 8  # of a run, until one has been timed
    for number, job in enumerate(jobs, start=1):
        print(f"sandwich: {number} of {len(jobs)}, {left((len(jobs) - number + 1) * seconds)} "
              f"left: {job.image.name}, run {job.run}:", end="", flush=True)
        record = Log(job.log(folder))
        bench.log = record
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
            bench.log = None
            record.abandon()
        seconds = (time.monotonic() - begun) / number
    return failed


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    def count(text: str) -> int:
        if not re.fullmatch(r"[1-9]\d{0,2}", text):
            raise argparse.ArgumentTypeError("a number from 1 to 999 is wanted")
        return int(text)

    def seed(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text):
            raise argparse.ArgumentTypeError("a number of at most 18 digits is wanted")
        return int(text)

    parser = argparse.ArgumentParser(
        prog="lab/run sandwich",
        description="Measures the joules of each scheme on a NUCLEO-F411RE "
        "that a PowerShield feeds. The same command goes on after a break.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80))
    parser.add_argument("--meter", metavar="DEVICE", help="the PowerShield's line, if it is not "
                        "found by its name in /dev/serial/by-id")
    parser.add_argument("--target", metavar="DEVICE", help="the board's line: its ST-Link's")
    parser.add_argument("--runs", type=count, default=4, metavar="N",
                        help="how often each scheme is measured (4)")
    parser.add_argument("--seed", type=seed, metavar="N", help="of the random order; the same "
                        "seed gives the same order")
    parser.add_argument("--only", default="", metavar="WORDS",
                        help="schemes with these words in their name")
    parser.add_argument("--logs", type=Path, default=Path("logs"), metavar="FOLDER",
                        help="where the logs go (logs)")
    parser.add_argument("--images", type=Path, default=FOLDER, metavar="FOLDER",
                        help="the images, as `make figures ONLY=lab-board` builds them")
    parser.add_argument("--flash", default="auto", choices=["auto", *FLASHERS],
                        help="what writes the flash (auto: the first that is installed)")
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
    flash = flasher(options.flash)
    meter = device(options.meter, DEVICES, "PowerShield", "--meter")
    board = device(options.target, TARGETS, "NUCLEO board", "--target")
    options.logs.mkdir(parents=True, exist_ok=True)
    seed = options.seed
    if seed is None:
        seed = kept_seed(options.logs)
    if seed is None:
        seed = random.SystemRandom().randrange(10**9)
    bench = Bench(meter, board, flash)
    try:
        jobs = in_order(images, options.runs, seed)
        todo = left_to_do(jobs, options.logs)
        print(f"sandwich: {len(images)} schemes, {options.runs} runs, seed {seed}; "
              f"{len(jobs) - len(todo)} of {len(jobs)} logs are there already")
        failed = run_all(bench, todo, options.logs, (f"seed {seed}",))
    except KeyboardInterrupt:
        print("\nsandwich: stopped; the same command goes on from here")
        try:
            bench.shield.rest()
        except Trouble:
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
