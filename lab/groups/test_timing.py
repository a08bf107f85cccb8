"""Does the harness for times time what it says? Its times gate nothing.
SPDX-License-Identifier: MIT"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.groups import timing
from lab.groups.operations import Meter
from tests.support.programs import ROOT


def timed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lab.groups.timing", *words], cwd=ROOT, text=True,
                          capture_output=True, check=False)


@pytest.mark.parametrize("degrees, quantile", [
    (1, 636.619), (2, 31.599), (10, 4.587), (30, 3.646), (59, 3.463), (120, 3.373)])
def test_student(degrees: int, quantile: float) -> None:
    """Of published tables, for 99.9 % on both sides."""
    assert timing.student(0.999, degrees) == pytest.approx(quantile, rel=2e-4)


def test_the_error_is_that_of_the_mean() -> None:
    """By hand: a standard deviation of 1 with 4 calls, and t = 12.924 for 3 degrees."""
    scores = [10 - 1.2247449, 10.0, 10.0, 10 + 1.2247449]
    assert timing.error(scores) == pytest.approx(12.924 / 2, rel=1e-4)


def test_its_columns_and_its_json(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    said = timed("ps18-verify", "--messages", "1,2", "--processes", "2", "--warm-up", "1",
                 "--calls", "2", "--json", str(file))
    assert said.returncode == 0, said
    head, *rows = (line.split() for line in said.stdout.splitlines())
    assert head == ["benchmark", "messages", "mode", "count", "score", "error", "unit"]
    one, published, two = rows
    assert [row[:4] for row in (one, two)] == [["ps18-verify", number, "time", "4"]
                                               for number in "12"]
    assert published[:6] == ["published", "1", "time", "50", "5.263", "±0.641"]
    for row, kept in zip((one, two), json.loads(file.read_text()), strict=True):
        metric = kept["primaryMetric"]
        assert float(row[4]) == pytest.approx(metric["score"], abs=6e-4) and float(row[4]) > 0
        assert float(row[5][1:].replace(",", "")) == pytest.approx(metric["scoreError"], abs=6e-4)
        assert (row[6], metric["scoreUnit"], kept["mode"]) == ("ms/call", "ms/op", "avgt")
        assert [len(fork) for fork in metric["rawData"]] == [2, 2] and kept["forks"] == 2
        assert kept["params"] == {"numMessages": row[1]}


def test_only_its_step_is_timed_on_new_objects_and_after_a_warm_up(
        monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def run(world: object, meter: Meter, rng: random.Random) -> None:
        with meter("sign"):
            time.sleep(0.2)
        with meter("verify"):
            time.sleep(0.002)
        seen.append(rng.randrange(1 << 60))

    monkeypatch.setitem(timing.BENCHMARKS, "slow", timing.Benchmark("P-256", "verify", run))
    took = timing.in_this_process("slow", 1, 2, 3, 0)
    assert len(took) == 3 and 2e6 <= min(took) < 200e6
    timing.in_this_process("slow", 1, 2, 3, 1)
    assert len(set(seen)) == 2 * (2 + 3)  # other numbers in each call of each process


@pytest.mark.parametrize("name", timing.BENCHMARKS)
def test_every_benchmark_runs(name: str) -> None:
    assert len(timing.in_this_process(name, 2, 1, 1, 0)) == 1


@pytest.mark.parametrize("words, complaint", [
    (["rsa-sign"], "there is no benchmark 'rsa-sign'; there are ecdsa-sign"),
    (["ps18-sign", "--messages", "1,x"], "'x' is no number from 1"),
    (["ps18-sign", "--messages", ""], "is no number from 1"),
    (["ps18-sign", "--messages", "1,1001"], "1001 messages are more than 1000"),
    (["ecdsa-sign", "--messages", "10", "--calls", "1"], "ecdsa-sign takes no --messages"),
    (["ps18-sign", "--calls", "0"], "'0' is no number from 1"),
    (["ps18-sign", "--calls", "1", "--processes", "1"], "at least two calls"),
    (["ps18-sign", "--mode", "fast"], "invalid choice"),
])
def test_options_that_cannot_be_obeyed_are_refused(words: list[str], complaint: str) -> None:
    said = timed(*words)
    assert said.returncode == 2 and complaint in said.stderr and "Traceback" not in said.stderr
