"""Measures the joules of a command, or of an operation of the lab.           lab/run measure --help
"""

import argparse
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.arguments import number
from lab.joules import measuring, meters, results
from lab.joules.measuring import Failed, Measurement, Work
from lab.joules.meters import Absent, Lost, Meter
from lab.joules.results import Unreadable

SECONDS = 10.0  # Length of a turn of an operation.
DAY = 86400  # seconds: no turn takes longer
MOST_TURNS = 100_000  # all are held in memory
ENDS = 5.0  # seconds that a command has to end after Ctrl-C
INTERRUPTED, TERMINATED = 130, 143  # the status after Ctrl-C and SIGTERM, as shells have it


class Terminated(KeyboardInterrupt):
    """SIGTERM. Unlike Ctrl-C, it does not reach the command that is measured."""


def terminate(_signal: int, _frame: object) -> None:
    raise Terminated


count = number(1, 10**15)  # The type of options.


def ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def run(command: Sequence[str]) -> int:
    """Runs the command once, which is one call. It gets Ctrl-C and SIGTERM, and time to end."""
    early: list[int] = []  # SIGTERM, before the child is known to this process
    before = signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
    try:
        child = subprocess.Popen(command)
    except OSError as fault:
        signal.signal(signal.SIGTERM, before)
        raise Failed(f"{command[0]} cannot be started: {fault.strerror}") from None
    try:
        signal.signal(signal.SIGTERM, before)
        if early:
            raise Terminated
        status = child.wait()
    except KeyboardInterrupt as stop:
        if isinstance(stop, Terminated):
            child.terminate()
        try:
            child.wait(ENDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    if status:
        raise Failed(f"{command[0]} {ended(status)}")
    return 1


def arguments(words: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(
        prog="lab/run measure", usage="lab/run measure [OPTION …] -- COMMAND …\n"
        "       lab/run measure [OPTION …] --operation NAME\n"
        "       lab/run measure [OPTION …] --folder DIR [--operation STEP]",
        description="Measures the joules of a command or of an operation of the lab.")
    meters.add_options(parser)
    parser.add_argument("--net", action="store_true",
                        help="measure as long an idle time beside each turn, and subtract it")
    parser.add_argument("--repeat", type=number(1, MOST_TURNS), metavar="N",
                        help=f"turns of work; else 1, or {measuring.PAIRS} with --net")
    parser.add_argument("--rest", type=number(0, DAY, float), default=0.0, metavar="S",
                        help="seconds between two turns")
    parser.add_argument("--operation", metavar="NAME",
                        help="an operation of the lab, or words of its name")
    parser.add_argument("--folder", metavar="DIR", help="a folder of SUPERCOP, pqm4 or PQClean: "
                        "each step of its scheme in turn, or that of --operation")
    parser.add_argument("--list", action="store_true", help="the names of all operations")
    parser.add_argument("--seconds", type=number(0.001, DAY, float), metavar="S",
                        help=f"of a turn of the operation; else {SECONDS:.0f}")
    parser.add_argument("--calls", type=count, metavar="N", help="of a turn, instead of seconds")
    parser.add_argument("--name", help="of what the command does, for the file of results")
    parser.add_argument("--results", type=Path, metavar="FILE",
                        help="where turns are kept; a run that is there is gone on with")
    split = list(words).index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    options.command = list(words[split + 1:])
    if options.list:
        return parser, options
    if bool(options.command) == bool(options.operation or options.folder):
        parser.error("either -- COMMAND, --operation NAME or --folder DIR is needed")
    if options.command and (options.seconds or options.calls):
        parser.error("--seconds and --calls are for --operation and --folder")
    if options.seconds and options.calls:
        parser.error("either --seconds or --calls")
    if options.command and shutil.which(options.command[0]) is None:
        parser.error(f"there is no command {options.command[0]!r}")
    return parser, options


def works_of(options: argparse.Namespace) -> list[tuple[str, Work]]:
    """What is measured: how each is called, and what does it. Raises ValueError."""
    if options.command:
        return [(options.name or shlex.join(options.command), lambda _: run(options.command))]
    from lab.joules import steps  # it needs what builds images
    operations = steps.of_folder(options.folder, options.operation) if options.folder else \
        [steps.chosen(options.operation)]
    how, much = ("calls", float(options.calls)) if options.calls else \
        ("seconds", options.seconds or SECONDS)

    def repeat(program: Path) -> Work:
        return lambda _: steps.repeated(program, how, much)

    return [(operation.name, repeat(operation.program())) for operation in operations]


def measured(options: argparse.Namespace, name: str, work: Work, meter: Meter, file: Path) -> int:
    """Measures one of them, prints the result, and returns the exit status."""
    status = 0
    unit = ("J a run" if options.command else "J a call") + results.NET * options.net
    run, turns, _ = results.begun(file, name, unit, meter)
    measurement = Measurement(meter, meter.clock, file, turns, rest=options.rest)
    try:
        pairs = options.repeat or (measuring.PAIRS if options.net else 1)
        measurement.take(range(pairs), options.net, work)
    except (Failed, Lost, OSError) as fault:  # a disk may be full
        measuring.say(f"lab/run measure: {fault}. This turn is no measurement.")
        status = 1
    except KeyboardInterrupt as stop:
        measuring.say("lab/run measure: stopped. This turn is no measurement.")
        status = TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    print("\n".join(measuring.report(run, measurement.turns, options.net)))
    measuring.say(f"lab: kept in {file}" +
                  (f"; the same command with --results {file} goes on" if status else ""))
    return status


def main() -> None:
    parser, options = arguments(sys.argv[1:])
    if options.list:
        from lab.joules import steps
        print("\n".join(steps.operations()))
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        works = works_of(options)
        meter = meters.find(options.meter, options.at)
    except ValueError as fault:
        parser.error(str(fault))
    except Absent as absent:
        print(meters.paragraph(absent), file=sys.stderr)
        raise SystemExit(2) from None
    status = 0
    file = options.results or results.new_file("measure")
    try:
        for name, work in works:
            turns_file = file if len(works) == 1 else file.with_stem(f"{file.stem}-{name}")
            if status := measured(options, name, work, meter, turns_file):
                break
    except (Unreadable, OSError) as fault:
        print(f"lab/run measure: {fault}", file=sys.stderr)
        raise SystemExit(2 if isinstance(fault, Unreadable) else 1) from None
    finally:
        meter.close()
    raise SystemExit(status)
