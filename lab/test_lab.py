"""The lab's own arithmetic, and that what it says of a program is true.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab import answer, counts, energy, published, schemes, sources, targets
from lab.counts import Count
from lab.schemes import SCHEMES, Scheme, Step
from sim.targets import ROOT


def lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_step_of_every_scheme_has_its_counts_and_nothing_else_has() -> None:
    expected = {(scheme.name, scheme.by, step.name, str(length), target) for scheme in SCHEMES
                for step in scheme.steps for length in step.lengths for target in scheme.targets}
    assert set(counts.read()) == expected


def test_what_is_deterministic_has_one_cost() -> None:
    random = {(scheme.name, scheme.by, step.name) for scheme in SCHEMES for step in scheme.steps if step.random}
    for count in counts.read().values():
        assert 0 < count.least <= count.mean <= count.most
        assert count.least == count.most or count.key[:3] in random, count


def test_a_scheme_of_which_part_is_elsewhere_says_why() -> None:
    for scheme in SCHEMES:
        assert bool(scheme.without) == (set(scheme.targets) != set(schemes.EVERYWHERE)), scheme.key


@pytest.mark.parametrize("target", targets.MACHINES)
def test_a_loop_of_known_length_is_counted_exactly(target: str, tmp_path: Path) -> None:
    """The same loop of 1,000 and of 2,000 rounds: the difference is what a round takes, 1,000 times."""
    cost = {}
    for rounds in (1000, 2000):
        source = tmp_path / "loop.c"
        source.write_text('#include "operation.h"\nSTEP(loop)\nvoid loop_prepare(unsigned n) { (void)n; }\n'
                          f'void loop_run(void) {{ for (unsigned i = 0; i < {rounds}; i++) __asm__ volatile("nop"); }}\n'
                          'bool loop_right(void) { return true; }\n')
        scheme = Scheme("loop", "a test", "null", str(source), (Step("loop"),), 0)
        image = counts.Builder(scheme, targets.MACHINES[target], target).image(scheme.steps[0], rounds)
        first, second = targets.MACHINES[target].runs(image)
        assert first == second
        cost[rounds] = first.cost
    per_round = {"amd64": 3, "Cortex-M4": 3, "Cortex-M0+": 4, "ATmega328P": 5}[target]
    assert abs(cost[2000] - cost[1000] - 1000 * per_round) <= 2


def test_a_step_that_does_not_do_its_work_ends_the_program(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text('#include "operation.h"\nSTEP(wrong)\nvoid wrong_prepare(unsigned n) { (void)n; }\n'
                      'void wrong_run(void) {}\nbool wrong_right(void) { return false; }\n')
    scheme = Scheme("wrong", "a test", "null", str(source), (Step("wrong"),), 0)
    for name, machine in targets.MACHINES.items():
        image = counts.Builder(scheme, machine, name).image(scheme.steps[0], 4)
        with pytest.raises(SystemExit, match="did not do its work"):
            machine.runs(image)


def test_a_stack_that_meets_the_variables_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "deep.c"
    source.write_text('#include "operation.h"\nSTEP(deep)\nvoid deep_prepare(unsigned n) { (void)n; }\n'
                      'static volatile uint8_t own[1200];\n'
                      'void deep_run(void) { volatile uint8_t more[900]; more[0] = own[0]; own[1] = more[899]; }\n'
                      'bool deep_right(void) { return true; }\n')
    scheme = Scheme("deep", "a test", "null", str(source), (Step("deep"),), 0)
    machine = targets.MACHINES["ATmega328P"]
    image = counts.Builder(scheme, machine, machine.name).image(scheme.steps[0], 4)
    with pytest.raises(targets.DoesNotFit):
        machine.runs(image)
    larger = targets.LARGER["ATmega328P"][0]
    run, _ = larger.runs(counts.Builder(scheme, larger, machine.name).image(scheme.steps[0], 4))
    assert run.stack >= 900


def test_what_the_lab_adds_to_an_image_is_no_part_of_its_size(tmp_path: Path) -> None:
    def sizes(more: str) -> tuple[int, int]:
        source = tmp_path / "size.c"
        source.write_text('#include "operation.h"\nSTEP(size)\nvoid size_prepare(unsigned n) { (void)n; }\n'
                          f'volatile uint8_t {more};\nvoid size_run(void) {{ {more.partition("[")[0]}[0] = 1; }}\n'
                          'bool size_right(void) { return true; }\n')
        scheme = Scheme("size", "a test", "null", str(source), (Step("size"),), 0)
        machine = targets.MACHINES["ATmega328P"]
        found = targets.size(counts.Builder(scheme, machine, machine.name).image(scheme.steps[0], 4, size=True))
        return found.own_flash, found.own_ram

    flash, ram = sizes("lab_buffer[100]")
    assert sizes("buffer[100]") == (flash, ram + 100)


def test_a_moved_figure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = counts.FILE.read_text()
    key = ("CRC-16", "ours", "make", "4", "Cortex-M0+")
    count = counts.parse(text)[key]
    changed = tmp_path / "counts.tsv"
    changed.write_text(text.replace(f"Cortex-M0+\t{count.least}\t{count.mean}\t{count.most}\t{count.flash}",
                                    f"Cortex-M0+\t{count.least}\t{count.mean}\t{count.most}\t{count.flash + 1}"))
    assert changed.read_text() != text
    monkeypatch.setattr(counts, "FILE", changed)
    monkeypatch.setattr(sys, "argv", ["counts", "--only", "CRC-16", "--target", "Cortex-M0+"])
    with pytest.raises(SystemExit, match=rf"CRC-16 \(ours\), make 4 bytes, Cortex-M0\+: flash was {count.flash + 1} "
                                         rf"and is {count.flash}"):
        counts.main()


def test_a_source_with_another_hash_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "FOLDER", tmp_path / "sources")
    wrong = sources.Source("crate", "wrong", "1", "0" * 64, "MIT")
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr(sources, "table", lambda: {"wrong": wrong})
    monkeypatch.setattr(sources, "CLIENTS", {"crate": ("pip", lambda source, folder: (tmp_path / "unpacked", "1" * 64))})
    with pytest.raises(SystemExit, match="has the SHA-256 1{64}, and must have 0{64}"):
        sources.fetched("wrong")
    assert not wrong.folder.exists()


def test_bits_on_a_bus() -> None:
    """An empty frame has 47 bits with its pause, 34 of which may be stuffed, one in four."""
    assert answer.can_bits(8) == 47 + 64 + 24
    assert answer.can_bits(12) == answer.can_bits(8) + 47 + 32 + 16
    assert answer.can_bits(16) == 2 * answer.can_bits(8)


def test_years_of_a_battery() -> None:
    """225 mAh at 10 µA last 22,500 hours, if nothing else takes any."""
    lossless = energy.Battery("a test", 225, 3.0, 0.0)
    assert energy.years(lossless, 0, 1, 10) == pytest.approx(22_500 / 24 / 365.25)
    assert energy.years(lossless, 30e-6, 1, 10) == pytest.approx(22_500 / 24 / 365.25 / 2)
    assert energy.years(energy.Battery("a test", 225, 3.0, 0.5), 0, 1, 1e-9) == pytest.approx(2, rel=1e-3)


def test_every_heartbeat_has_its_row() -> None:
    said = lab("lab.answer")
    assert said.returncode == 0, said.stderr
    named = {scheme.title for scheme in SCHEMES if {"make", "sign"} & {step.name for step in scheme.steps}
             and scheme.family != "format" and "ATmega328P" in scheme.targets}
    assert named <= {line[:33].rstrip() for line in said.stdout.splitlines()}
    assert max(map(len, said.stdout.splitlines())) <= 100


@pytest.mark.parametrize("words, says", [
    (["--every", "3x"], "a time is wanted"), (["--every", "0s"], "a time is wanted"),
    (["--target", "z80"], "there is a model of the energy of"), (["--sleep", "nan"], "a number above 0"),
    (["--bitrate", "-1"], "a number above 0"), (["--battery", "lemon"], "invalid choice"), (["x"], "unrecognized")])
def test_bad_arguments_are_refused(words: list[str], says: str) -> None:
    said = lab("lab.answer", *words)
    assert said.returncode == 2 and says in said.stderr, said


def test_a_fit_is_the_median() -> None:
    fitted = published.fit([(1e6, 1e-3), (2e6, 2e-3), (1e6, 3e-3)])
    assert fitted.nanojoules == pytest.approx(1.0)


def test_modelled_joules_are_like_the_published_ones_or_say_why_not() -> None:
    said = lab("lab.published")
    assert said.returncode == 0, said.stderr
    assert "not explained" not in said.stdout
    assert re.search(r"^189 operations of 63 schemes", said.stdout)


def test_a_count_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError):
        counts.parse("a\tb\tc\t4\tamd64\tx\t1\t1\t1\t1\t1\tamd64\n")
    assert isinstance(next(iter(counts.read().values())), Count)
