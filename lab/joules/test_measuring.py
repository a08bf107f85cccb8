"""Idle and work in turns, results, intervals; lab/run measure."""

import contextlib
import errno
import io
import itertools
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.joules import measure, measuring, meters, results
from lab.joules.measuring import Measurement, Value, interval, rank
from lab.joules.rapl import Rapl
from lab.joules.results import IDLE, WORK, Run, Turn, Unreadable
from lab.joules.standins import Counter, SimulatedClock, hear_ctrl_c, moving, write
from tools.programs import ROOT, wait_until

RUN = Run("work", "J a run, net", "rapl: package-0", "here", "none", {}, "2020-01-01")


class Bench:
    """A computer that takes 10 W, and 4 W more at work; and `drift` W more each second."""

    def __init__(self, folder: Path, drift: float = 0.0) -> None:
        self.clock, self.file = SimulatedClock(), folder / "results.jsonl"
        self.counter = Counter(folder, "intel-rapl:0", "package-0", 10.0)
        self.drift, self.busy = drift, 0.0
        self.clock.worlds.append(self.world)
        self.meter = Rapl(str(folder), self.clock)
        self.meter.open()
        self.log: list[str] = []

    def world(self, now: float) -> None:
        self.counter.watts = 10.0 + self.busy + self.drift * (now + self.counter.time - 2000) / 2
        self.counter(now)

    def work(self, pair: int) -> int:
        self.log.append(f"work {pair}")
        self.busy = 4.0
        self.clock.sleep(20)
        self.busy = 0.0
        return 100

    def measurement(self) -> Measurement:
        _, turns, _ = results.begun(self.file, "work", "J a run, net", self.meter)
        return Measurement(self.meter, self.clock, self.file, turns)


def turns_of(bench: Bench, pairs: int = 6) -> list[Turn]:
    measured = bench.measurement()
    measured.take(range(pairs), True, bench.work)
    return measured.turns


def test_joules_of_work_and_idle_and_the_net(tmp_path: Path) -> None:
    turns = turns_of(Bench(tmp_path))
    assert [(turn.turn, turn.pair) for turn in turns] == [
        (WORK, 0), (IDLE, 0), (IDLE, 1), (WORK, 1), (WORK, 2), (IDLE, 2),
        (IDLE, 3), (WORK, 3), (WORK, 4), (IDLE, 4), (IDLE, 5), (WORK, 5)]
    assert all(turn.seconds == pytest.approx(20) for turn in turns)
    found = {(one.name, one.unit): one.interval.middle
             for one in measuring.quantities(turns, True)}
    assert found == pytest.approx({
        ("work", "J"): 280, ("work", "W"): 14, ("work", "s"): 20, ("idle", "J"): 200,
        ("idle", "W"): 10, ("idle", "s"): 20, ("net", "J"): 80, ("net", "W"): 4,
        ("net of a call", "J"): 0.8})
    assert measuring.verdict(turns) == []


def test_a_steady_drift_cancels_in_turns(tmp_path: Path) -> None:
    """As of a battery that empties: 0.05 W more each second. In the order work, idle, work, idle
    each pair would be off by 20 J; here they are off to either side."""
    nets = [measuring.net_of(*pair).value
            for pair in measuring.pairs_of(turns_of(Bench(tmp_path, drift=0.05)))]
    assert statistics.median(nets) == pytest.approx(80, abs=1e-3)
    assert {round(net) for net in nets} == {60, 100}


def test_an_idle_time_of_another_length_is_scaled() -> None:
    work = Turn(0, WORK, 140.0, 10.0, 2.0, 1, 5, "")
    idle = Turn(0, IDLE, 240.0, 20.0, 4.0, 1, 0, "")
    assert measuring.net_of(work, idle) == measuring.Value(20.0, 4.0)
    assert measuring.values([work, idle], True) == [measuring.Value(4.0, 0.8)]


class Gone(Exception):
    pass


@pytest.mark.parametrize("at, kept", [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4)])
def test_what_is_broken_off_is_gone_on_with(tmp_path: Path, at: int, kept: int) -> None:
    """In each turn once. A pair that was cut in two is measured anew: it was not at like charge."""
    bench = Bench(tmp_path)
    sleep, count = bench.clock.sleep, itertools.count()

    def breaks(seconds: float) -> None:
        if next(count) == at:
            raise Gone
        sleep(seconds)

    bench.clock.sleep = breaks  # type: ignore[method-assign]
    with pytest.raises(Gone):
        turns_of(bench)
    bench.clock.sleep = sleep  # type: ignore[method-assign]
    bench.busy = 0.0
    before = measuring.whole(results.read(bench.file)[1], True)
    assert len(before) == kept
    turns = measuring.whole(turns_of(bench), True)
    assert turns[:kept] == before and len(turns) == 12
    assert measuring.whole(results.read(bench.file)[1], True) == turns
    assert [net.value for net in measuring.values(turns, True)] == pytest.approx([0.8] * 6)


def pair(number: int, net: float, bound: float = 0.0, seconds: float = 60.0) -> list[Turn]:
    return [Turn(number, WORK, 600.0 + net, seconds, bound, 1, 1, ""),
            Turn(number, IDLE, 600.0, seconds, bound, 1, 0, "")]


def verdict(*nets: float, bound: float = 0.0) -> str:
    return "\n".join(measuring.verdict(
        [turn for number, net in enumerate(nets) for turn in pair(number, net, bound)]))


def test_what_the_meter_cannot_see_is_not_measurable_and_the_sum_is_shown() -> None:
    """A gauge of 36 J, and a net of 10: in 12 minutes it is open by more than that."""
    said = verdict(*[10.0] * 6, bound=36.0)
    half = 72.0  # J: each net is off by up to 36 + 36
    needs = 12 * (half / 10) ** 2 * measuring.MARGIN
    assert f"in this time; try {math.ceil(needs)} minutes, in longer turns." in said
    assert f"12.0 min x ({half:.2f} J / 10.00 J)² x 1.5 = {needs:.1f} min." in said
    assert verdict(*[10.0] * 6, bound=1.0) == ""


def test_a_net_that_spreads_around_zero_is_not_measurable() -> None:
    assert "Not measurable" in verdict(5.0, -4.0, 3.0, -5.0, 1.0, 2.0)
    assert "the net is at most" in verdict(5.0, -5.1, 3.0, -3.0, 1.0, -1.0)
    assert "try 18,432 minutes" in verdict(*[10.0] * 6, bound=160.0)
    assert "nor in two weeks" in verdict(*[10.0] * 6, bound=170.0)
    assert "nor in two weeks" in verdict(5000.0, -4999.0, 3000.0, -3000.0, 1.0, 0.5)


@pytest.mark.parametrize("number, unit, like, said", [
    (9648.0, "J", None, "9,648 J"), (0.0029, "J", None, "2.900 mJ"), (0.0, "J", None, "0.000 J"),
    (0.00021, "J", None, "210.0 µJ"), (-0.5, "J", None, "-500.0 mJ"),
    (3e-12, "J", None, "0.003 nJ"),
    (0.001, "J", 2.0, "0.001 J"), (12.345, "W", None, "12.35 W")])
def test_numbers_have_four_digits_and_a_prefix(number: float, unit: str, like: float | None,
                                               said: str) -> None:
    assert measuring.scaled(number, unit, like) == said


# The files of results.


def write_run(file: Path, nets: list[float], run: Run = RUN) -> Path:
    results.append(file, run)
    for number, net in enumerate(nets):
        for turn in pair(number, net):
            results.append(file, turn)
    return file


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    file = write_run(tmp_path / "a.jsonl", [1.0, 2.0])
    turns = [turn for number, net in enumerate([1.0, 2.0]) for turn in pair(number, net)]
    run, found, times = results.read(file)
    assert (run, found, times) == (RUN, turns, [])
    whole = replace(turns[0], notes=("one", "two"), parts={"a": 1.5}, readings=((0.0, 3.5),))
    results.append(file, whole)
    assert results.read(file)[1][-1] == whole


def test_a_line_that_was_cut_costs_its_turn_alone(tmp_path: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    file = write_run(tmp_path / "a.jsonl", [1.0, 2.0])
    assert len(results.read(file)[1]) == 4 and capsys.readouterr().err == ""
    file.write_bytes(file.read_bytes()[:-20])
    assert len(results.read(file)[1]) == 3
    assert capsys.readouterr().err == f"lab: {file}: line 5 is cut or damaged: left out\n"
    results.append(file, pair(1, 2.0)[1])  # begins a line of its own
    assert len(results.read(file)[1]) == 4


@pytest.mark.parametrize("text, says", [
    ("", "has no results"), ("[]\n", "line 1 is no result"), ("\0\n", "has no results"),
    ('{"kind": "run"}\n', "missing"), ('{"kind": "turn"}\n', "missing"),
    ('{"kind": "turn", "pair": "x"}\n', "pair has another type"),
    ('{"kind": "turn", "notes": 5}\n', "notes has another type"),
    ('{"kind": "turn", "seconds": 0}\n', "no turn takes 0 s"),
    ("[" * 100_000, "has no results"), ('{"kind": "run", "joules": NaN}\n', "unexpected")])
def test_a_file_that_has_no_results_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(Unreadable, match=says):
        results.read(tmp_path / "a")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe\xff")
    for file in (tmp_path, tmp_path / "none", tmp_path / "a"):
        with pytest.raises(Unreadable, match="cannot be read"):
            results.read(file)


# The commands.


def command(*words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "lab" / "run", *map(str, words)], cwd=cwd, capture_output=True,
                          text=True, check=False)


def inside(module: Any, *words: object) -> subprocess.CompletedProcess[str]:
    """The same in this process, which is quicker."""
    output, errors, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["lab/it", *map(str, words)]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            module.main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        sys.argv = before
    return subprocess.CompletedProcess([*map(str, words)], status, output.getvalue(),
                                       errors.getvalue())


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    with moving(tmp_path / "sys", 20.0) as sys:
        yield sys


def test_without_a_meter_there_are_no_joules(tmp_path: Path) -> None:
    """One paragraph that says of each meter why it is not there; status 2."""
    said = command("measure", "--at", tmp_path, "--", "true")
    assert said.returncode == 2 and said.stdout == ""
    text = " ".join(said.stderr.split())
    assert text.startswith("There is no meter, so there are no joules: ")
    for name in meters.METERS:
        assert f"{name}: " in text
    assert "\n\n" not in said.stderr and max(map(len, said.stderr.splitlines())) <= 100
    assert "has no counter of a processor" in text and "has no battery" in text


@pytest.mark.parametrize("words, says", [
    ([], "either -- COMMAND, --operation"), (["true"], "unrecognized"),
    (["--operation", "x", "--", "true"], "either"), (["--repeat", "0", "--", "true"], "from 1 to"),
    (["--seconds", "nan", "--", "true"], "a number from 0.001 to 86,400 is wanted"),
    (["--seconds", "3", "--", "true"], "are for --operation"), (["--"], "either"),
    (["--", "no-such-command"], "there is no command"),
    (["--meter", "lemon", "--", "true"], "invalid choice"),
    (["--operation", "zzz"], "no operation is like"), (["--operation", "verify"], "are like"),
    (["--operation", "sha-256", "--seconds", "1", "--calls", "1"], "either --seconds or --calls")])
def test_bad_arguments_are_refused(words: list[str], says: str) -> None:
    said = inside(measure, *words)
    assert said.returncode == 2 and says in said.stderr, said


def test_a_command_is_measured_from_anywhere(live: Path, tmp_path: Path) -> None:
    """What lies in the user's folder is not taken for a part of Python or of the lab."""
    for name in ("json", "profile", "statistics", "lab", "argparse"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    file = tmp_path / "kept.jsonl"
    said = command("measure", "--at", live, "--results", file, "--", "sh", "-c",
                   "sleep 1; pwd", cwd=tmp_path)
    assert said.returncode == 0, said
    run, (turn,), _ = results.read(file)
    assert str(tmp_path) in said.stdout.splitlines()
    assert "measured with rapl: package-0" in said.stdout
    assert run.operation == "sh -c 'sleep 1; pwd'" and run.unit == "J a run"
    assert turn.joules == pytest.approx(20 * turn.seconds, abs=8)
    assert turn.seconds >= 1


@pytest.mark.parametrize("words, says", [
    (["false"], "false ended with status 1"), (["sh", "-c", "exit 7"], "sh ended with status 7"),
    (["sh", "-c", "kill -9 $$"], "sh was ended by SIGKILL")])
def test_a_command_that_fails_is_no_measurement(live: Path, words: list[str], says: str,
                                                tmp_path: Path) -> None:
    said = inside(measure, "--at", live, "--results", tmp_path / "a", "--", *words)
    assert said.returncode == 1 and f"{says}. This turn is no measurement." in said.stderr
    assert results.read(tmp_path / "a")[1] == []


def test_a_full_disk_does_not_hide_what_was_measured(
        live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, lines = results.append, itertools.count()

    def append(file: Path, line: Run | Turn | results.Times) -> None:
        if next(lines) == 2:  # the second turn
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, line)

    monkeypatch.setattr(results, "append", append)
    said = inside(measure, "--at", live, "--repeat", "3", "--results", tmp_path / "a", "--", "true")
    assert said.returncode == 1 and "1 turn, 1 call." in said.stdout
    assert "No space left on device. This turn is no measurement." in said.stderr


def test_ctrl_c_keeps_what_was_measured_and_it_goes_on(live: Path, tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    words = [str(ROOT / "lab" / "run"), "measure", "--at", str(live), "--net", "--repeat", "6",
             "--results", str(file), "--", "sleep", "0.2"]
    with subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c) as process:
        wait_until(lambda: file.exists() and file.read_text().count('"turn"') >= 4, "two turns")
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and f"--results {file} goes on" in errors, errors
    before = measuring.whole(results.read(file)[1], True)
    assert 2 <= len(before) < 12
    said = command(*words[1:])
    assert said.returncode == 0, said
    after = measuring.whole(results.read(file)[1], True)
    assert after[:len(before)] == before and len(after) == 12
    refused = command("measure", "--at", live, "--results", file, "--", "true")
    assert refused.returncode == 2 and "has another run" in refused.stderr


def test_sigterm_ends_the_command_that_is_measured(live: Path, tmp_path: Path) -> None:
    words = [str(ROOT / "lab" / "run"), "measure", "--at", str(live), "--results",
             str(tmp_path / "kept"), "--", "sh", "-c", 'echo $$; exec sleep 600']
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped. This turn is no measurement." in errors, errors
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_an_operation_of_the_lab_is_repeated(live: Path, tmp_path: Path) -> None:
    said = command("measure", "--at", live, "--operation", "Adler-32 make", "--calls", "12345",
                   "--results", tmp_path / "a")
    assert said.returncode == 0, said
    run, (turn,), _ = results.read(tmp_path / "a")
    assert (run.operation, run.unit, turn.calls) == ("adler-32-ours-make-4", "J a call", 12345)
    assert "a call" in said.stdout


def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    """With a Python that has none: the meters of Linux need none, a PPK2 does."""
    lone = "/usr/bin/python3"
    start = ROOT / "lab" / "start.py"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([lone, "-S", start, *words], capture_output=True, text=True,
                              check=False, cwd=tmp_path)

    assert "There is no meter" in run("measure", "--at", str(tmp_path), "--", "true").stderr
    said = run("measure", "--meter", "ppk2", "--at", "/dev/null@3300", "--", "true")
    assert said.returncode == 2 and "package ppk2-api is missing" in " ".join(said.stderr.split())


# ---------------------------------------------------------------- intervals

def plain(values: list[float]) -> list[Value]:
    return [Value(value) for value in values]


DRAW = random.Random(20)
# Each makes the nets of a run, whose median is 0 in the long run.
NOISE: dict[str, Callable[[int], list[float]]] = {
    "normal": lambda size: [DRAW.gauss(0, 1) for _ in range(size)],
    "skewed": lambda size: [math.exp(DRAW.gauss(0, 1)) - 1 for _ in range(size)],
    "bursts of another program": lambda size: [
        DRAW.gauss(0, 0.3) + DRAW.choice([-6, 6]) * (DRAW.random() < 0.2) for _ in range(size)],
    "a walk of the idle power, which pairs subtract": lambda size: [
        DRAW.gauss(0, 1) * (1 + pair / size) for pair in range(size)],
    "a drift that turns share": lambda size: [
        (-1) ** pair * 0.5 + DRAW.gauss(0, 0.2) for pair in range(size)]}


@pytest.mark.parametrize("size", [6, 8, 10, 16])
@pytest.mark.parametrize("noise", NOISE)
def test_the_interval_holds_the_median_whatever_the_noise(noise: str, size: int) -> None:
    runs = [plain(NOISE[noise](size)) for _ in range(400)]
    assert sum(interval(run).holds_zero for run in runs) >= 0.93 * 400


def test_no_value_is_dropped_and_the_ranks_are_those_of_the_sign_test() -> None:
    """By hand, of 10: twice (1 + 10) of 1,024 lie beyond the second from both ends."""
    found = interval(plain([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1000.0]))
    assert (found.middle, found.low, found.high) == (5.5, 2.0, 9.0)
    assert interval(plain([1.0, 2.0, 3.0, 4.0, 5.0, 1000.0])).high == 1000
    assert [rank(size) for size in (5, 6, 8, 9, 12)] == [0, 1, 1, 2, 3]


def test_few_values_tell_nothing_but_their_middle() -> None:
    found = interval(plain([1.0, 2.0, 3.0]))
    assert found.middle == 2 and not found.known and found.holds_zero


def test_equal_values_are_as_uncertain_as_the_meter() -> None:
    found = interval([Value(72.0, 36.0)] * 6)
    assert (found.middle, found.low, found.high, found.meter) == (72, 36, 108, 36)
