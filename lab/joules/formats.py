"""The experiment of study 3: a list, fetched over HTTP in each format.           lab/run formats

A server and a client on this machine, with one connection. For each format, in random order: a time
of idleness, which is measured; the fetches, which are measured; a rest."""

import argparse
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from lab.arguments import number
from lab.joules import jvm, meters, results, uncertainty
from lab.joules.loopback import Pair
from lab.joules.measure import INTERRUPTED
from lab.joules.measuring import PAIRS, Failed, duration, net_of, say
from lab.joules.meters import Absent, Clock, Lost, Meter, without_login
from lab.joules.results import IDLE, WORK, Run, Turn, Unreadable, turn_of
from lab.joules.uncertainty import Value
from lab.messages.codecs import CODECS
from tools.programs import as_program

FETCHES, BLOCKS = 100_000, 100
MOST_BLOCKS = 10_000  # of a format in a round
NULL, REST = 60.0, 30.0  # seconds of idleness: what is measured, and what is not


@dataclass(frozen=True)
class Platform:
    """Where the server and the client run."""

    titles: Mapping[str, str]  # of its formats
    pair: Callable[[int], Pair]  # starts both, with a port for the server
    versions: Callable[[], dict[str, str]]
    warm: int  # fetches that nobody measures: the first ones fill caches
    block: int | None = None  # fetches of a block; None: as many as make a hundred blocks
    # Both processes start anew for each format: it is of interest how they become faster.
    anew: bool = False


def versions_of_python() -> dict[str, str]:
    names = ["aiohttp", *(codec.package for codec in CODECS.values() if codec.package)]
    return {name: metadata.version(name) for name in names}


PYTHON = "python"
PLATFORMS = {
    PYTHON: Platform({name: codec.title for name, codec in CODECS.items()}, Pair,
                     versions_of_python, 20),
    **{name: Platform(jvm.TITLES, partial(jvm.JvmPair, name), partial(jvm.versions, name), 0, 100,
                      anew=True) for name in jvm.KINDS}}


@dataclass(frozen=True)
class Plan(Run):
    """How all formats are measured: all that is needed to go on with it."""

    seed: int = 0  # of the order
    order: tuple[str, ...] = ()  # all rounds, one after the other
    fetches: int = 0  # of each format in each round
    block: int = 0  # fetches that are timed together
    idle: float = 0.0  # seconds before each format; 0 without a meter
    rest: float = 0.0  # seconds
    name: str = ""  # of the meter; "" if there is none
    at: str = ""
    kind: str = "formats"
    on: str = PYTHON

    @property
    def platform(self) -> Platform:
        return PLATFORMS[self.on]

    @property
    def rounds(self) -> int:
        return len(self.order) // len(set(self.order))

    def blocks(self) -> list[int]:
        whole, last = divmod(self.fetches, self.block)
        return [self.block] * whole + [last] * (last > 0)


@dataclass(frozen=True)
class Result:
    """Of one format in one round."""

    format: str
    began: str
    bytes: int  # of one answer, without its HTTP headers
    server: float  # seconds of processor time, for all fetches
    client: float
    seconds: tuple[float, ...] = ()  # of each block
    idle: Turn | None = None
    work: Turn | None = None
    kind: str = "format"

    def each(self, plan: Plan) -> list[float]:
        """Seconds of a fetch, in each block."""
        return [seconds / count for seconds, count in zip(self.seconds, plan.blocks(), strict=True)]

    def net(self) -> Value | None:
        """Joules of the work less those of an idle time that is as long."""
        return net_of(self.work, self.idle) if self.work and self.idle else None


@dataclass(frozen=True)
class Row:
    """Of one format in all rounds."""

    format: str
    bytes: int
    seconds: float  # of a fetch: the median of all blocks
    spread: float  # the MAD of the blocks
    server: float  # seconds of processor time for a fetch: the median of the rounds
    client: float
    joules: float = 0.0  # of all rounds together
    watts: float = 0.0
    net: float = 0.0  # joules of a round's fetches; so far it may be off:
    off: float = 0.0

    @property
    def seen(self) -> bool:
        return self.net > self.off


def row(plan: Plan, some: Sequence[Result]) -> Row:
    each = [seconds for result in some for seconds in result.each(plan)]
    made = Row(some[0].format, some[0].bytes, statistics.median(each), uncertainty.mad(each),
               *(statistics.median(getattr(result, who) for result in some) / plan.fetches
                 for who in ("server", "client")))
    work = [result.work for result in some if result.work]
    nets = [net for result in some if (net := result.net())]
    if not work:
        return made
    found = uncertainty.interval(nets)
    # Too few rounds do not tell how far they spread: then only the meter's own steps are known.
    off = found.half if found.known else found.meter
    joules = sum(energy.joules for energy in work)
    return replace(made, joules=joules, net=found.middle, off=off,
                   watts=joules / sum(energy.seconds for energy in work))


def rows(plan: Plan, done: Sequence[Result]) -> list[Row]:
    """The fastest format first."""
    found = [row(plan, [result for result in done if result.format == name])
             for name in dict.fromkeys(result.format for result in done)]
    return sorted(found, key=lambda row: row.seconds)


# Measuring.


class Progress:
    """A line that is written over, if somebody sits at a terminal; else a line for each format."""

    def __init__(self, plan: Plan, done: Sequence[Result]) -> None:
        self.plan, self.live = plan, sys.stderr.isatty()
        self.seconds = sum(sum(result.seconds) for result in done)
        self.fetched = len(done) * plan.fetches
        self.formats = len(done)

    def show(self, name: str, what: str, *, always: bool = False) -> None:
        plan = self.plan
        text = f"lab: {plan.platform.titles[name]} ({self.formats + 1} of {len(plan.order)}), " \
               f"{what}"
        if self.fetched:
            left = (len(plan.order) * plan.fetches - self.fetched) * self.seconds / self.fetched
            left += (len(plan.order) - self.formats) * (plan.idle + plan.rest)
            text += f"; {duration(left)} left"
        if self.live:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif always:
            say(text)

    def end(self) -> None:
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def measured(pair: Pair, plan: Plan, name: str, meter: Meter | None, clock: Clock,
             progress: Progress) -> Result:
    began, idle, work = results.now(), None, None
    progress.show(name, f"idle for {duration(plan.idle)}" if meter else
                  f"{plan.fetches:,} fetches", always=True)
    if meter:
        meter.start()
        clock.sleep(plan.idle)
        idle = turn_of(progress.formats, IDLE, meter.stop(), 0, began)
    if plan.platform.warm:
        pair.fetch(name, plan.platform.warm)
    if meter:
        meter.start()
    before, seconds, done, received = pair.cpu(), list[float](), 0, 0
    for count in plan.blocks():
        fetched = pair.fetch(name, count)
        seconds.append(fetched.seconds)
        done += count
        received += fetched.bytes
        progress.seconds += fetched.seconds
        progress.fetched += count
        progress.show(name, f"{done:,} of {plan.fetches:,} fetches")
    after = pair.cpu()
    if meter:
        work = turn_of(progress.formats, WORK, meter.stop(), plan.fetches, began)
    progress.formats += 1
    return Result(name, began, received // done, after[0] - before[0], after[1] - before[1],
                  tuple(seconds), idle, work)


def run(plan: Plan, done: list[Result], file: Path, meter: Meter | None, port: int,
        clock: Clock) -> None:
    """Measures the formats that are missing, and keeps each as soon as it is over."""
    missing = plan.order[len(done):]
    if not missing:
        return
    progress = Progress(plan, done)
    pair = plan.platform.pair(port)
    try:
        for number, name in enumerate(missing):
            if number and plan.platform.anew:
                pair.end()
                pair = plan.platform.pair(port)
            done.append(measured(pair, plan, name, meter, clock, progress))
            results.append(file, done[-1])
            if len(done) < len(plan.order):
                clock.sleep(plan.rest)
    finally:
        progress.end()
        pair.end()


# What is kept.


def read(file: Path) -> tuple[Plan, list[Result]]:
    plan, done = None, list[Result]()
    for number, found in results.lines_of(file):
        try:
            if plan is None:
                plan = plan_of(found)
            else:
                done.append(result_of(found, plan, len(done)))
        except (ValueError, TypeError, OverflowError) as fault:
            raise Unreadable(f"{file}: line {number} is no result of lab/run formats: {fault}") \
                from None
    if plan is None:
        raise Unreadable(f"{file} has no results")
    return plan, done


def plan_of(found: dict[str, Any]) -> Plan:
    plan: Plan = results.checked(Plan, found)
    plan = replace(plan, order=tuple(plan.order))
    if (plan.kind, plan.label, plan.format) != ("formats", results.MEASURED, results.FORMAT) or \
            plan.on not in PLATFORMS or not set(plan.order) <= set(plan.platform.titles):
        raise ValueError("no such plan can be")
    return plan


def turn(found: dict[str, Any] | None) -> Turn | None:
    """As lab/run measure keeps it."""
    if found is None:
        return None
    turn: Turn = results.checked(Turn, dict(found))
    if turn.label != results.MEASURED:
        raise ValueError("no such joules can be")
    return turn


def result_of(found: dict[str, Any], plan: Plan, place: int) -> Result:
    idle, work, seconds = (found.pop(name, None) for name in ("idle", "work", "seconds"))
    result: Result = results.checked(Result, found)
    result = replace(result, idle=turn(idle), work=turn(work))
    if plan.order[place:place + 1] != (result.format,) or len(seconds) != len(plan.blocks()):
        raise ValueError("it does not belong to this plan")
    return replace(result, seconds=tuple(seconds))


# What is printed.


def cells(row: Row, fastest: float, plan: Plan) -> list[str]:
    cells = [f"{row.bytes:,}", f"{row.seconds * 1e6:,.1f}", f"{row.spread / row.seconds:.1%}",
             f"{row.seconds / fastest:.2f}", f"{row.server * 1e6:,.1f}", f"{row.client * 1e6:,.1f}"]
    if not plan.name:
        return [*cells, "no meter"]
    return [*cells, f"{row.joules:,.1f}", f"{row.watts:.2f}",
            f"{row.net / plan.fetches * 1e3:.3g} ± {row.off / plan.fetches * 1e3:.2g}"
            if row.seen else "not seen"]


def table(plan: Plan, found: Sequence[Row]) -> list[str]:
    heads = ["bytes", "µs", "± MAD", "times", "server", "client", "joules"]
    heads += ["watts", "net mJ each"] * bool(plan.name)
    widths = [6, 9, 7, 6, 9, 9, *([9, 7, 17] if plan.name else [10])]
    lines = [("", heads)] + [(plan.platform.titles[row.format],
                              cells(row, found[0].seconds, plan))
                             for row in found]
    return [f"{title:<21}" + "".join(f"{cell:>{width}}" for cell, width in
                                     zip(row, widths, strict=True)) for title, row in lines]


def notes(plan: Plan, done: Sequence[Result], found: Sequence[Row], absent: str) -> list[str]:
    lines = ["µs: of a fetch, the median of the blocks; server and client: of processor time."]
    if not plan.name:
        return [*lines, absent or "There was no meter, so there are no joules."]
    lines.append(f"Joules: {plan.label} with {plan.meter}. Net: less what {plan.idle:g} s of "
                 "idleness before took; ± is ")
    lines.append(f"where the median lies with a certainty of 95 %, {uncertainty.ASSUMES}."
                 if plan.rounds >= uncertainty.LEAST else
                 f"by the meter's own steps alone: --rounds {PAIRS} or more tell more.")
    for row in found:
        if not row.seen:
            more = f"try --fetches {math.ceil(2 * row.off / row.net) * plan.fetches:,}" \
                if row.net > row.off / 1000 else "it drew no more than idleness did"
            lines.append(f"Not seen: the net of {plan.platform.titles[row.format]}, "
                         f"{row.net:.3g} J, is uncertain by {row.off:.3g} J; {more}.")
    said = [f"{plan.platform.titles[result.format]}: {note}" for result in done
            for energy in (result.idle, result.work) if energy for note in energy.notes]
    return [*lines, *dict.fromkeys(said)]


def warming(plan: Plan, done: Sequence[Result]) -> list[str]:
    """How much faster both processes have become."""
    if not plan.platform.anew or len(plan.blocks()) < 2:
        return []
    blocks = plan.blocks()
    lines = [f"µs of a fetch: the first {blocks[0]:,} of {plan.fetches:,}, the last "
             f"{blocks[-1]:,}, and how many times faster."]
    for name in sorted({result.format for result in done}):
        each = [result.each(plan) for result in done if result.format == name]
        first, last = (statistics.median(one[at] for one in each) for at in (0, -1))
        lines.append(f"{plan.platform.titles[name]:<21}{first * 1e6:>9,.1f}{last * 1e6:>9,.1f}"
                     f"{first / last:>7.1f}")
    return [*lines, ""]


def show(plan: Plan, done: Sequence[Result], file: Path, absent: str) -> None:
    found = rows(plan, done)
    print(f"{plan.fetches:,} fetches in each of {len(found)} formats, seed {plan.seed}, "
          f"rounds: {plan.rounds}.\n")
    print("\n".join([*table(plan, found), "", *warming(plan, done),
                     *notes(plan, done, found, absent)]))
    print(f"Results: {file}")


# The command.


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="lab/run formats", description="Fetches a list over HTTP in each format, and says how "
        "long that takes and what it draws.")
    made.add_argument("--on", choices=PLATFORMS, metavar="PLATFORM",
                      help=f"where the server and the client run: {', '.join(PLATFORMS)}; else "
                      f"{PYTHON}")
    made.add_argument("--formats", type=lambda text: text.split(","), metavar="NAMES",
                      help=f"some of {','.join(CODECS)}, or on a JVM of {','.join(jvm.TITLES)}; "
                      "else all")
    made.add_argument("--fetches", type=number(1, 10 ** 9), metavar="N",
                      help=f"of each format in each round; else {FETCHES:,}")
    made.add_argument("--rounds", type=number(1, 1000), metavar="N",
                      help="times of all formats, each in another order; else 1")
    made.add_argument("--block", type=number(1, 10 ** 9), metavar="N",
                      help="fetches that are timed together; else a hundredth of a format's, and "
                      "on a JVM 100")
    made.add_argument("--idle", type=number(0.01, 86400, float), metavar="SECONDS",
                      help=f"measured before each format, if there is a meter; else {NULL:g}")
    made.add_argument("--rest", type=number(0, 86400, float), metavar="SECONDS",
                      help=f"after each format; else {REST:g}")
    made.add_argument("--seed", type=number(0, 2 ** 32 - 1), metavar="N",
                      help="of the order of the formats; else a random one, which is printed")
    made.add_argument("--port", type=number(0, 65535), default=0, metavar="N",
                      help="of the server, on 127.0.0.1; else one that is free")
    meters.add_options(made)
    made.add_argument("--results", type=Path, metavar="FILE",
                      help="where the results are kept; a run that is there is gone on with, and "
                      "needs no other option")
    return made


def shuffled(names: Iterable[str], seed: int, rounds: int) -> tuple[str, ...]:
    every = sorted(names)  # whatever order they were named in
    by_chance = random.Random(seed)
    return tuple(name for _ in range(rounds) for name in by_chance.sample(every, len(every)))


def planned(options: argparse.Namespace, meter: Meter | None) -> Plan:
    """What the options say, and what is usual where they say nothing."""
    def chosen(name: str, usual: Any) -> Any:
        given = getattr(options, name)
        return usual if given is None else given

    seed = chosen("seed", random.SystemRandom().randrange(2**32))
    fetches = chosen("fetches", FETCHES)
    rounds, on = chosen("rounds", 1), chosen("on", PYTHON)
    platform = PLATFORMS[on]
    return Plan(
        operation="fetches of a list over HTTP", unit="J a fetch, net",
        meter=meter.what() if meter else "none", machine=results.machine(),
        governor=results.governor(), versions=results.versions() | platform.versions(),
        seed=seed, began=results.now(), on=on,
        order=shuffled(chosen("formats", platform.titles), seed, rounds), fetches=fetches,
        block=min(fetches, chosen("block", platform.block or
                                  math.ceil(fetches * rounds / BLOCKS))),
        idle=chosen("idle", NULL) if meter else 0.0, rest=chosen("rest", REST),
        name=meter.name if meter else "", at=without_login(options.at))


def unlike(plan: Plan, now: Plan) -> list[str]:
    """What has changed since the run began; the lab's own version may."""
    return results.differences(plan, now) + [
        f"{name}: {plan.versions.get(name)!r} is not {version!r}"
        for name, version in now.versions.items()
        if name != "lab" and plan.versions.get(name) != version]


def contradicted(plan: Plan, options: argparse.Namespace) -> list[str]:
    """Options that do not say what the plan says."""
    kept = {"formats": set(plan.order), "meter": plan.name,
            **{name: getattr(plan, name)
               for name in ("fetches", "rounds", "block", "idle", "rest", "seed", "at", "on")}}
    given = vars(options) | {"formats": set(options.formats or ()) or None,
                             "at": without_login(options.at) or None}
    return [f"--{name}" for name, value in kept.items() if given[name] not in (None, value)]


def gone_on_with(file: Path, options: argparse.Namespace) -> tuple[Plan, list[Result],
                                                                    Meter | None]:
    plan, done = read(file)
    if wrong := contradicted(plan, options):
        raise Unreadable(f"{file} was begun with another {' and '.join(wrong)}")
    if len(done) == len(plan.order):
        return plan, done, None
    meter = meters.find(plan.name, options.at or plan.at or None) if plan.name else None
    now = replace(plan, meter=meter.what() if meter else plan.meter, machine=results.machine(),
                  governor=results.governor(),
                  versions=results.versions() | plan.platform.versions())
    if changed := unlike(plan, now):
        if meter:
            meter.close()
        raise Unreadable(f"{file} cannot be gone on with: " + "; ".join(changed))
    return plan, done, meter


def begun(options: argparse.Namespace) -> tuple[Plan, Meter | None, str]:
    """The plan, its meter, and why there is none."""
    try:
        meter = meters.find(options.meter, options.at)
    except Absent as reason:
        if options.meter:
            raise
        return planned(options, None), None, meters.paragraph(reason)
    return planned(options, meter), meter, ""


def main() -> None:
    made = parser()
    options = made.parse_args()
    names, known = options.formats or [], PLATFORMS[options.on or PYTHON].titles
    if not options.results and not set(names) <= set(known) or len(set(names)) < len(names):
        made.error(f"--formats {','.join(names)}: some of these are wanted, with commas between: "
                   f"{','.join(known)}")
    if (options.fetches or FETCHES) > MOST_BLOCKS * (options.block or math.inf):
        made.error(f"--block must be larger: at most {MOST_BLOCKS:,} blocks are possible")
    file = options.results or results.new_file("formats")
    meter, absent, done, going = None, "", list[Result](), False
    try:
        if file.exists():
            plan, done, meter = gone_on_with(file, options)
        else:
            plan, meter, absent = begun(options)
            results.append(file, plan)
        going = True
        run(plan, done, file, meter, options.port, Clock())
        show(plan, done, file, absent)
        return
    except Absent as reason:
        print(meters.paragraph(reason), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        said, status = "stopped", INTERRUPTED
    except (Failed, Lost) as reason:
        said, status = str(reason), 1
    except (Unreadable, OSError) as reason:
        said, status = str(reason), 2
    finally:
        if meter:
            meter.close()
    goes_on = f". What is done is kept: lab/run formats --results {file} goes on" if going else ""
    print(f"lab/run formats: {said}{goes_on}.", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    as_program(main, ".*")
