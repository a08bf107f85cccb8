"""Times every call of some operations, and shares out the joules.     lab/run profile --help

Each operation has its calls apart from the others, with inputs that are made and held in memory
before the first call: so many messages, whatever the number of calls. If there is a meter, it is
read before and after, and as long an idle time is measured beside."""

import argparse
import array
import functools
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.joules import measuring, meters, results
from lab.joules.measure import INTERRUPTED, count
from lab.joules.measuring import Failed, Measurement, say, scaled
from lab.joules.meters import Clock, Lost, Meter
from lab.joules.results import Run, Times, Unreadable
from tools.programs import BUILD, open_files

SOURCE = Path(__file__).with_suffix(".c")
OPERATIONS = ("sha256", "ecdsa-sign", "ecdsa-verify", "tcp-send")
CURVES = {"P-256": "prime256v1", "secp256k1": "secp256k1", "secp160r1": "secp160r1",
          "secp160r2": "secp160r2"}
MOST_CALLS = 2_000_000  # the time of each is held: about 100 MB
INPUTS = 1024


@functools.cache
def program(source: Path = SOURCE, folder: Path = BUILD / "lab") -> Path:
    """Compiled beside the old one, which another lab/run profile may be running."""
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder / f"profile-{os.getpid()}"
    try:
        done = subprocess.run(["gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra", source, "-o", binary,
                               "-lcrypto"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Failed("gcc is not installed; `make setup` installs it") from None
    if done.returncode:
        raise Failed(f"{source.name} does not compile; it needs libssl-dev:\n{done.stderr}")
    return binary.replace(folder / "profile")


class Operation:
    """One operation's calls, in a process of their own. Ctrl-C ends them early, a second one at
    once."""

    def __init__(self, name: str, calls: int, curve: str, inputs: int,
                 command: Sequence[str] = ()) -> None:
        self.name, self.calls, self.clock = name, calls, 0
        words = [*(command or [str(program())]), name, str(calls), CURVES[curve], str(inputs)]
        # Its own session: Ctrl-C reaches it through _line() alone.
        try:
            self.process: subprocess.Popen[str] = subprocess.Popen(
                words, text=True, errors="backslashreplace", stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as fault:
            raise Failed(f"{words[0]} cannot be started: {fault.strerror}") from None
        self.began = results.now()
        self.stopped = self.over = False
        try:
            self._expect("ready")
            self.files = None if command else open_files(self.process.pid)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _line(self) -> str:
        assert self.process.stdout
        while True:
            try:
                return self.process.stdout.readline().rstrip("\n")
            except KeyboardInterrupt:
                self.process.send_signal(signal.SIGKILL if self.stopped else signal.SIGINT)
                self.stopped = True

    def _expect(self, expected: str) -> None:
        line = self._line()
        if self.stopped:  # while it made its inputs: there is nothing to keep
            raise KeyboardInterrupt
        if line != expected:
            raise Failed(f"{self.name}: {line!r} came instead of {expected!r}; {self._errors()}")

    def _errors(self) -> str:
        assert self.process.stderr
        self.process.kill()
        return self.process.stderr.read().strip() or "it said nothing more"

    def _go_on(self) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # The next line that it prints shows why.

    def go(self) -> None:
        """Makes the calls."""
        self._go_on()
        match = re.fullmatch(r"over ([1-9]\d{0,17})", self._line())
        if not match and self.stopped:  # Ctrl-C ended a program that does not catch it
            raise KeyboardInterrupt
        if not match:
            raise Failed(f"{self.name} ended in the midst; {self._errors()}")
        self.clock, self.over = int(match[1]), True

    def times(self, keep: Path | None = None) -> Times:
        """Of all calls; those of each go into the file, too."""
        if self.files is not None and (after := open_files(self.process.pid)) != self.files:
            raise Failed(f"{self.name} had {self.files} descriptors open before, and {after} after")
        self._go_on()
        assert self.process.stdout
        output = self.process.stdout.read()
        if self.process.wait() or not re.fullmatch(r"(\d{1,18}\n)+", output):
            raise Failed(f"{self.name} gave no times: {output[:80]!r}; {self._errors()}")
        nanoseconds = array.array("Q", map(int, output.split()))
        if len(nanoseconds) > self.calls or not any(nanoseconds):
            raise Failed(f"{self.name} gave {len(nanoseconds):,} times of {self.calls:,} calls, "
                         f"{sum(nanoseconds):,} ns in all")
        if keep:
            keep.write_bytes(nanoseconds.tobytes())
        return Times(self.name, self.calls, len(nanoseconds), min(nanoseconds),
                     statistics.median(nanoseconds), measuring.mad(nanoseconds), max(nanoseconds),
                     sum(nanoseconds), self.clock, self.began)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:,.{2 if nanoseconds < 1e5 else 1 if nanoseconds < 1e6 else 0}f}"


def table(times: Sequence[Times], net: float | None) -> list[str]:
    """Microseconds, seconds, and what each has of the net joules by its share of the time."""
    if not times:
        return ["Nothing was timed."]
    accounted = sum(result.total for result in times)
    row = "{:<13}{:>10}{:>8}{:>8}{:>7}{:>8}{:>8}{:>7}{:>9}".format
    joules = "{:>10}{:>11}".format
    lines = [row("", "calls", "min, µs", "median", "MAD", "mean", "max", "share", "total, s") +
             (joules("net", "of a call") if net is not None else "")]
    for result in times:
        share = result.total / accounted
        columns = (result.least, result.median, result.mad, result.mean, result.most)
        lines.append(row(result.operation, f"{result.calls:,}", *map(microseconds, columns),
                         f"{share:.1%}", f"{result.total / 1e9:,.2f}") +
                     ("" if net is None else joules(scaled(net * share, "J"),
                                                    scaled(net * share / result.calls, "J"))))
    clock = sum(result.clock for result in times)
    lines.append(f"Clock time {clock / 1e9:,.2f} s, of which {accounted / 1e9:,.2f} s are "
                 f"accounted for ({accounted / clock:.1%}).")
    return lines


def report(run: Run, turns: Sequence[results.Turn], times: Sequence[Times]) -> list[str]:
    pairs = measuring.pairs_of(measuring.whole(turns, True))
    if len(pairs) < len(times) or not times:
        return [*table(times, None), "No joules: no meter was read beside all of it."]
    nets = [measuring.net_of(*pair) for pair in pairs]
    net, bound = sum(value.value for value in nets), sum(value.bound for value in nets)
    work, idle = (sum(pair[index].joules for pair in pairs) for index in (0, 1))
    seconds = sum(pair[0].seconds for pair in pairs)
    lines = [*table(times, net), "",
             f"Joules are measured with {run.meter}: work {scaled(work, 'J')}, idle "
             f"{scaled(idle, 'J')},",
             f"net {scaled(net, 'J', max(abs(net), bound))} in {seconds:,.1f} s of work; the meter "
             f"may be off by {scaled(bound, 'J')}.",
             "Each operation has its share of the net by its share of the time: as if all drew the "
             "same watts.",
             "No interval: each operation was measured once. "
             "lab/run measure --operation NAME --net",
             "measures one by itself, with an interval."]
    if net <= bound:
        lines.append("Not measurable with this meter in this time: the net is not more than the "
                     "meter may be off." + (
                         f" Try {bound / net * measuring.MARGIN:,.1f} times the calls "
                         f"({scaled(bound, 'J')} / {scaled(net, 'J')} x {measuring.MARGIN})."
                         if net > 0 else ""))
    notes = dict.fromkeys(note for pair in pairs for turn in pair for note in turn.notes)
    return [*lines, *notes]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lab/run profile",
        description="Times every call of some operations by OpenSSL and TCP, "
        "each of 1 kB. With a meter, it shares out the net joules.")
    parser.add_argument("--operations", default=",".join(OPERATIONS), metavar="A,B",
                        help="some of " + ", ".join(OPERATIONS))
    parser.add_argument("--with", dest="command", type=shlex.split, default=[], metavar="COMMAND",
                        help="a program of yours with other operations, by the protocol of "
                        "lab/joules/README.md")
    parser.add_argument("--calls", type=count, default=10_000, metavar="N", help="of each")
    parser.add_argument("--curve", choices=CURVES, default="P-256", help="of ECDSA")
    parser.add_argument("--inputs", type=count, default=INPUTS, metavar="N",
                        help="messages that are made before, and used in turn")
    meters.add_options(parser)
    parser.add_argument("--results", type=Path, metavar="FILE",
                        help="where all is kept; a run that is there is gone on with")
    parser.add_argument("--times", type=Path, metavar="FOLDER",
                        help="keep the time of each call there, too: 8 bytes of ns")
    options = parser.parse_args()
    options.operations = options.operations.split(",")
    unknown = [name for name in options.operations if name not in OPERATIONS]
    if unknown and not options.command:
        parser.error(f"there is no operation {unknown[0]!r}; there are {', '.join(OPERATIONS)}")
    if len({*options.operations}) != len(options.operations):
        parser.error("an operation is named twice")
    if options.calls > MOST_CALLS:
        parser.error(f"the time of each call is held in memory: at most {MOST_CALLS:,} calls")
    if options.inputs > 1 << 16:
        parser.error(f"all inputs are held in memory: at most {1 << 16:,}")
    if options.times and not options.times.is_dir():
        parser.error(f"{options.times} is no folder")
    return options


class Profile:
    """Goes through the operations that the file does not have yet."""

    def __init__(self, options: argparse.Namespace, meter: Meter | None, file: Path,
                 turns: Sequence[results.Turn], times: Sequence[Times]) -> None:
        self.options, self.file = options, file
        self.times = {result.operation: result for result in times}
        self.measured = Measurement(meter, Clock(), file, turns) if meter else None

    def run(self) -> None:
        done = {turn.pair for turn in measuring.whole(self.turns, True)}
        for pair, name in enumerate(self.options.operations):
            earlier = self.times.get(name)
            if earlier and earlier.calls == earlier.wanted and (not self.measured or pair in done):
                continue
            say(f"lab: {name}: inputs are made, then {self.options.calls:,} calls")
            keep = self.options.times and self.options.times / f"{name}.ns"
            operation = Operation(name, self.options.calls, self.options.curve,
                                  self.options.inputs, self.options.command)
            try:
                self.operate(operation, pair, keep)
            finally:
                operation.close()

    @property
    def turns(self) -> list[results.Turn]:
        return self.measured.turns if self.measured else []

    def operate(self, operation: Operation, pair: int, keep: Path | None) -> None:
        def work(_: int) -> int:
            """While the meter runs: the calls, and nothing else."""
            operation.go()
            if operation.stopped:
                raise KeyboardInterrupt
            return operation.calls

        try:
            if self.measured is None:
                work(pair)
            else:
                self.measured.turns = [turn for turn in self.turns if turn.pair != pair]
                self.measured.take([pair], True, work)
        finally:
            if operation.over:
                self.times[operation.name] = operation.times(keep)
                results.append(self.file, self.times[operation.name])


def main() -> None:
    options = arguments()
    meter, without = meters.chosen(options)
    status = 0
    file = options.results or results.new_file("profile")
    what = f"{','.join(options.operations)}, {options.calls:,} calls, {options.curve}" + \
        f" with {shlex.join(options.command)}" * bool(options.command)
    try:
        run, turns, times = results.begun(file, what, "J of all, net", meter)
        profile = Profile(options, meter, file, turns, times)
        try:
            profile.run()
        except (Failed, Lost, OSError) as fault:  # a disk may be full
            say(f"lab/run profile: {fault}")
            status = 1
        except KeyboardInterrupt:
            say("lab/run profile: stopped")
            status = INTERRUPTED
    except (Unreadable, OSError) as fault:
        print(f"lab/run profile: {fault}", file=sys.stderr)
        raise SystemExit(2) from None
    finally:
        if meter:
            meter.close()
    print("\n".join(report(run, profile.turns, [
        profile.times[name] for name in options.operations if name in profile.times])))
    if without:
        say(without)
    say(f"lab: kept in {file}" +
        (f"; the same command with --results {file} goes on" if status else ""))
    raise SystemExit(status)
