"""Fetches a list over HTTP in each format: the experiment of study 3.       lab/run formats --help

The server and the client are Java programs, and the times those of JMH. Each round has all formats
in another order. With a meter, each format of a round is a turn of work beside a turn of idleness,
and the net joules of a fetch are net watts x seconds of a fetch."""

import argparse
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.arguments import number
from lab.joules import jvm, measuring, meters, results
from lab.joules.measure import INTERRUPTED
from lab.joules.measuring import Failed, Measurement, Value, say
from lab.joules.meters import Clock, Lost, Meter
from lab.joules.results import Times, Unreadable
from tools.programs import ROOT, as_program

HERE = "127.0.0.1"
TITLES = {"jackson": "JSON, Jackson", "gson": "JSON, Gson", "xml": "XML, Jackson",
          "cbor": "CBOR, Jackson", "protobuf": "Protobuf, protobuf", "java": "Java's serialization"}


def server_command(options: argparse.Namespace, host: str, port: int) -> list[str]:
    return jvm.java("dumpulse.lab.Server", host, str(port), str(options.records))


@contextlib.contextmanager
def server(options: argparse.Namespace) -> Iterator[str]:
    """The address of the server: another computer's, or of one that runs meanwhile."""
    if options.remote:
        yield options.remote
        return
    with subprocess.Popen(server_command(options, HERE, 0), cwd=ROOT, text=True,
                          start_new_session=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout
        port = process.stdout.readline().strip()
        try:
            if not port.isdecimal():
                raise Failed("the server did not start")
            yield f"{HERE}:{port}"
        finally:
            process.kill()


def size_of(address: str, name: str) -> int:
    """Bytes of one answer, without its HTTP headers."""
    try:
        with urllib.request.urlopen(f"http://{address}/{name}", timeout=60) as answer:
            return len(answer.read())
    except OSError as reason:
        raise Failed(f"no answer in {name} from {address}: {reason}") from None


def timed(options: argparse.Namespace, address: str, name: str) -> list[float]:
    """Seconds of a fetch, as the harness has found them: a value for each of its runs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = jvm.benchmark(
            "Fetch", options.harness, "-tu", "s", "-rf", "json", "-rff", str(file), "-p",
            f"format={name}", "-p", f"server={address}", "-p", f"records={options.records}")
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode or not file.exists():
            lines = done.stdout.splitlines()
            reasons = [line for line in lines if f"in {name} " in line]
            raise Failed((reasons or [f"{name}: {line}" for line in lines] or [name])[-1])
        report = json.loads(file.read_text())
    return [value for fork in report[0]["primaryMetric"]["rawData"] for value in fork]


def times_of(name: str, values: Sequence[float], began: str) -> Times:
    ns = [value * 1e9 for value in values]
    return Times(name, len(ns), len(ns), round(min(ns)), statistics.median(ns), measuring.mad(ns),
                 round(max(ns)), round(sum(ns)), round(sum(ns)), began)


@dataclass(frozen=True)
class Row:
    """The results of a format in all rounds."""

    name: str
    size: int  # bytes
    times: Sequence[Times]
    net: Sequence[Value]  # Joules of a fetch.

    @property
    def seconds(self) -> float:
        return statistics.median(result.median for result in self.times) * 1e-9

    @property
    def mad(self) -> float:
        return statistics.median(result.mad for result in self.times) * 1e-9

    def joules(self) -> str:
        if not self.net:
            return "no meter"
        interval = measuring.interval(self.net)
        if not interval.known:  # too few rounds show how far they spread: the meter's steps alone
            return f"{interval.middle * 1e3:.3g} ± {interval.meter * 1e3:.2g} (meter)"
        return "not seen" if interval.holds_zero else \
            f"{interval.middle * 1e3:.3g} ± {interval.half * 1e3:.2g}"


class Formats:
    """Measures the rounds that are missing, and keeps each as soon as it is over."""

    def __init__(self, options: argparse.Namespace, meter: Meter | None) -> None:
        self.options, self.meter = options, meter
        self.rows: dict[str, tuple[Measurement | None, list[Times], Path]] = {}
        for name in options.formats:
            file = options.results / f"{name}.jsonl"
            unit = f"J a fetch of {options.records} records, {options.harness}"
            _, turns, times = results.begun(file, name, unit, meter)
            measured = Measurement(meter, Clock(), file, turns, rest=options.rest) if meter else \
                None
            self.rows[name] = measured, times, file

    def run(self, address: str) -> None:
        for count in range(self.options.rounds):
            order = sorted(self.options.formats)
            random.Random(f"{self.options.seed} {count}").shuffle(order)
            for name in order:
                self.turn(address, name, count)

    def turn(self, address: str, name: str, count: int) -> None:
        measured, times, file = self.rows[name]
        if len(times) > count:
            return
        began, values = results.now(), list[float]()

        def work(_: int) -> int:
            values.extend(timed(self.options, address, name))
            return 1

        say(f"lab: round {count + 1} of {self.options.rounds}: {name}")
        if measured:
            measured.take([count], True, work)
        if not values:  # its turns were kept, and its times were not
            work(count)
        times.append(times_of(name, values, began))
        results.append(file, times[-1])

    def net(self, name: str) -> list[Value]:
        measured, times, _ = self.rows[name]
        if measured is None:
            return []
        return [Value(*(joules / work.seconds * result.median * 1e-9
                        for joules in (net.value, net.bound)))
                for (work, idle), result in zip(measuring.pairs_of(measured.turns), times)
                for net in [measuring.net_of(work, idle)]]

    def table(self, address: str) -> list[str]:
        rows = sorted((Row(name, size_of(address, name), times, self.net(name))
                       for name, (_, times, _) in self.rows.items()), key=lambda row: row.seconds)
        line = "{:<22}{:>8}{:>11}{:>8}{:>7}{:>22}".format
        lines = [line("", "bytes", "µs", "± MAD", "times", "net mJ of a fetch")]
        for row in rows:
            lines.append(line(TITLES[row.name], f"{row.size:,}",
                              f"{row.seconds * 1e6:,.1f}", f"{row.mad / row.seconds:.1%}",
                              f"{row.seconds / rows[0].seconds:.2f}", row.joules()))
        return lines


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lab/run formats", description="Fetches a list over HTTP in each format, by JMH, and "
        "prints how long a fetch takes and what it draws.")
    parser.add_argument("--formats", metavar="NAMES",
                        help=f"some of {','.join(TITLES)}; else all")
    parser.add_argument("--records", type=number(1, 10**6), default=10, metavar="N",
                        help="of the list; else 10")
    parser.add_argument("--rounds", type=number(1, 1000), default=1, metavar="N",
                        help="times of all formats, each in another order; else 1")
    parser.add_argument("--rest", type=number(0, 86400, float), default=0.0, metavar="SECONDS",
                        help="between work and idleness")
    parser.add_argument("--seed", type=number(0, 2**32 - 1), default=1, metavar="N",
                        help="of the order of the formats; else 1")
    parser.add_argument("--harness", default="", metavar="WORDS",
                        help='options of JMH: --harness="-f 1"')
    parser.add_argument("--remote", metavar="HOST:PORT",
                        help="fetch from the server of another computer")
    parser.add_argument("--serve", metavar="HOST:PORT", help="only serve the list, on this address "
                        "of this computer, until Ctrl-C")
    meters.add_options(parser)
    parser.add_argument("--results", type=Path, metavar="FOLDER",
                        help="where all is kept; a run that is there is resumed")
    options = parser.parse_args()
    options.formats = options.formats.split(",") if options.formats else list(TITLES)
    if not set(options.formats) <= set(TITLES) or len({*options.formats}) < len(options.formats):
        parser.error("--formats: some of these are wanted, with commas between: "
                     f"{','.join(TITLES)}")
    options.results = options.results or results.new_file("formats").with_suffix("")
    return options


def measured(options: argparse.Namespace) -> None:
    meter, without = meters.chosen(options)
    try:
        with server(options) as address:
            formats = Formats(options, meter)
            formats.run(address)
            print("\n".join(formats.table(address)))
    finally:
        if meter:
            meter.close()
    print(f"µs: the median of {options.rounds} rounds, by JMH." +
          (f" Joules: measured with {meter.what()}, {measuring.ASSUMES}." if meter else ""))
    say(f"{without}\nlab: kept in {options.results}".strip())


def main() -> None:
    options = arguments()
    try:
        if options.serve:
            host, _, port = options.serve.rpartition(":")
            command = server_command(options, host, int(port))
            with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as process:
                sys.exit(process.wait())
        measured(options)
    except (Failed, Lost) as reason:
        sys.exit(f"lab/run formats: {reason}")
    except (Unreadable, OSError, ValueError) as reason:
        print(f"lab/run formats: {reason}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        say(f"lab/run formats: stopped; --results {options.results} resumes it")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    as_program(main, ".*")
