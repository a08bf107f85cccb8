"""How long a step of a scheme takes on this machine, where counts do not tell.

    make figures ONLY=lab-time

    python -m lab.groups.timing ps18-verify --messages 1,10

It is noisy, and gates nothing. Against the worst, each benchmark runs in several processes, warms
up first, and works on new objects in each call; the error is the half of an interval that holds the
mean with 99.9 %, if the calls are independent. A call goes through Python and ctypes, which take
some microseconds of it. SPDX-License-Identifier: MIT"""

import argparse
import contextlib
import gc
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from lab.groups import operations, real
from tests.support.programs import ROOT, as_program

PROCESSES, WARM_UP, CALLS = 3, 5, 20
MOST_MESSAGES = 1000  # a call with a million would take minutes
CONFIDENCE = 0.999
# What study 4 printed for verifying one message and ten, on an i5-4210M: with mcl, from Java.
PUBLISHED = {("ps18-verify", 1): (5.263, 0.641), ("ps18-verify", 10): (8.157, 1.506)}
MODES: dict[str, tuple[str, Callable[[int], float]]] = {
    "time": ("ms/call", lambda ns: ns / 1e6), "throughput": ("calls/s", lambda ns: 1e9 / ns)}


@dataclass(frozen=True)
class Benchmark:
    """A step of a scheme of operations.py, on a real group."""

    world: str
    step: str
    run: Callable[..., None]
    messages: bool = False  # it takes their number


def of_one_or_many(pairing: Any, meter: operations.Meter, rng: random.Random, count: int) -> None:
    """BLS: one signature, or an aggregate."""
    if count == 1:
        operations.run_bls(pairing, meter, rng)
    else:
        operations.run_aggregate(pairing, meter, rng, count)


BENCHMARKS = {
    "ecdsa-sign": Benchmark("P-256", "sign", operations.run_ecdsa),
    "ecdsa-verify": Benchmark("P-256", "verify", operations.run_ecdsa),
    "schnorr-sign": Benchmark("P-256", "sign", operations.run_schnorr),
    "schnorr-verify": Benchmark("P-256", "verify", operations.run_schnorr),
    "ecdh-agree": Benchmark("P-256", "agree", operations.run_ecdh),
    "pedersen-commit": Benchmark("P-256", "commit", operations.run_pedersen),
    "pedersen-open": Benchmark("P-256", "open", operations.run_pedersen),
    "ps18-sign": Benchmark("BLS12-381", "sign", operations.run_ps18, True),
    "ps18-verify": Benchmark("BLS12-381", "verify", operations.run_ps18, True),
    "bls-sign": Benchmark("BLS12-381", "sign", operations.run_bls),
    "bls-verify": Benchmark("BLS12-381", "verify", of_one_or_many, True),
}


def student(confidence: float, degrees: int) -> float:
    """The quantile of Student's t, for an interval on both sides. With t = √degrees · tan(angle),
    the density is a power of the cosine."""
    steps = 2000

    def area(angle: float) -> float:
        """Simpson's rule"""
        width = angle / steps
        return sum((1 if at in (0, steps) else 4 if at % 2 else 2)
                   * math.cos(at * width) ** (degrees - 1) for at in range(steps + 1)) * width / 3

    low, high, whole = 0.0, math.pi / 2, area(math.pi / 2)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if area(middle) < confidence * whole else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def error(scores: list[float]) -> float:
    return student(CONFIDENCE, len(scores) - 1) * stdev(scores) / math.sqrt(len(scores))


def in_this_process(name: str, messages: int, warm_up: int, calls: int, seed: int) -> list[int]:
    """Nanoseconds of each call. Each has its own keys, messages and objects."""
    benchmark, took = BENCHMARKS[name], list[int]()

    @contextlib.contextmanager
    def meter(step: str) -> Iterator[None]:
        if step != benchmark.step:
            yield
            return
        gc.collect()
        gc.disable()  # or it cleans up after the steps before
        began = time.perf_counter_ns()
        yield
        took.append(time.perf_counter_ns() - began)
        gc.enable()

    world = real.world(benchmark.world)
    for number in range(warm_up + calls):
        rng = random.Random(seed * 1_000_000 + number)
        benchmark.run(world, meter, rng, *[messages] * benchmark.messages)
    return took[warm_up:]


def in_processes(name: str, messages: int, warm_up: int, calls: int,
                 processes: int) -> list[list[int]]:
    """One after the other."""
    found: list[list[int]] = []
    for seed in range(processes):
        words = [sys.executable, "-m", "lab.groups.timing", name, "--messages", str(messages),
                 "--warm-up", str(warm_up), "--calls", str(calls), "--only-process", str(seed)]
        done = subprocess.run(words, cwd=ROOT, text=True, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"lab: {name} failed:\n{done.stderr}")
        found.append(json.loads(done.stdout))
    return found


def row(*cells: object) -> str:
    return "{:<17}{:>10}  {:<11}{:>6}{:>12}{:>12}  {}".format(*cells)


def report(name: str, messages: int, mode: str, took: list[int]) -> str:
    unit, of = MODES[mode]
    scores = [of(ns) for ns in took]
    shown = messages if BENCHMARKS[name].messages else "-"
    return row(name, shown, mode, len(scores), f"{fmean(scores):,.3f}",
               f"±{error(scores):,.3f}", unit)


def as_jmh(name: str, messages: int, mode: str, took: list[list[int]], warm_up: int) -> object:
    """One result as the JSON of Java's JMH has it. Each process is a fork."""
    unit, of = MODES[mode]
    scores = [of(ns) for fork in took for ns in fork]
    score, off = fmean(scores), error(scores)
    return {"benchmark": name, "mode": {"time": "avgt", "throughput": "thrpt"}[mode], "threads": 1,
            "forks": len(took), "warmupIterations": warm_up,
            "measurementIterations": len(took[0]),
            **({"params": {"numMessages": str(messages)}} if BENCHMARKS[name].messages else {}),
            "primaryMetric": {"score": score, "scoreError": off,
                              "scoreConfidence": [score - off, score + off],
                              "scoreUnit": unit.replace("call", "op"),
                              "rawData": [[of(ns) for ns in fork] for fork in took]}}


def positive(word: str) -> int:
    number = int(word) if word.isdecimal() and len(word) < 7 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no number from 1")
    return number


def several(word: str) -> list[int]:
    numbers = [positive(part) for part in word.split(",")]
    if max(numbers) > MOST_MESSAGES:
        raise argparse.ArgumentTypeError(f"{max(numbers)} messages are more than {MOST_MESSAGES}")
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="lab/run time", description="Times a step of a scheme on this machine.",
        epilog=f"benchmarks: {', '.join(BENCHMARKS)}")
    add = parser.add_argument
    add("names", nargs="*", metavar="BENCHMARK", help="all, if none is named")
    add("--messages", type=several, default=[1], metavar="N,N", help="for ps18 and bls-verify; 1")
    add("--mode", choices=MODES, default="time", help="time of a call, or calls in a second")
    add("--processes", type=positive, default=PROCESSES, metavar="N", help=f"{PROCESSES}")
    add("--warm-up", type=positive, default=WARM_UP, metavar="N",
        help=f"calls of each process that do not count; {WARM_UP}")
    add("--calls", type=positive, default=CALLS, metavar="N", help=f"that count; {CALLS}")
    add("--json", type=Path, metavar="FILE", help="keep the results as JMH writes them")
    add("--only-process", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    if options.messages != [1] and not any(BENCHMARKS[name].messages for name in names):
        parser.error(f"{names[0]} takes no --messages")
    if options.only_process is not None:
        print(json.dumps(in_this_process(names[0], options.messages[0], options.warm_up,
                                         options.calls, options.only_process)))
        return
    if options.processes * options.calls < 2:
        parser.error("an error needs at least two calls")
    print(row("benchmark", "messages", "mode", "count", "score", "error", "unit"), flush=True)
    kept: list[object] = []
    for name in names:
        for messages in options.messages if BENCHMARKS[name].messages else [1]:
            took = in_processes(name, messages, options.warm_up, options.calls, options.processes)
            print(report(name, messages, options.mode, sum(took, [])), flush=True)
            kept.append(as_jmh(name, messages, options.mode, took, options.warm_up))
            if options.mode == "time" and (known := PUBLISHED.get((name, messages))):
                print(row("  published", messages, "time", 50, f"{known[0]:.3f}",
                          f"±{known[1]:.3f}", "ms/call, an i5-4210M, Java"), flush=True)
    if options.json:
        options.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    as_program(main, ".*")
