"""The lab's own arithmetic, and that what it says of a program is true.

SPDX-License-Identifier: MIT
"""

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
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True,
                          check=False)


def image_of(source: Path, machine: targets.Machine, run: str, *, right: str = "true",
             beside: str = "", size: bool = False) -> Path:
    """A program whose only step does this; `beside` are its variables."""
    source.write_text('#include "operation.h"\nSTEP(one)\n'
                      'void one_prepare(unsigned n) { (void)n; }\n'
                      f'{beside}\nvoid one_run(void) {{ {run} }}\n'
                      f'bool one_right(void) {{ return {right}; }}\n')
    scheme = Scheme(source.stem, "a test", "null", str(source), (Step("one"),), 0)
    return counts.Builder(scheme, machine, machine.name).image(scheme.steps[0], 4, size=size)


def test_every_step_of_every_scheme_has_its_counts_and_nothing_else_has() -> None:
    expected = {(scheme.name, scheme.by, step.name, str(length), target) for scheme in SCHEMES
                for step in scheme.steps for length in step.lengths for target in scheme.targets}
    assert set(counts.read()) == expected


def test_what_is_deterministic_has_one_cost() -> None:
    random = {(scheme.name, scheme.by, step.name) for scheme in SCHEMES for step in scheme.steps
              if step.random}
    for count in counts.read().values():
        assert 0 < count.least <= count.mean <= count.most
        assert count.least == count.most or count.key[:3] in random, count


def test_a_scheme_of_which_part_is_elsewhere_says_why() -> None:
    for scheme in SCHEMES:
        assert bool(scheme.without) == (set(scheme.targets) != set(schemes.EVERYWHERE)), scheme.key


@pytest.mark.parametrize("target", targets.MACHINES)
def test_a_loop_of_known_length_is_counted_exactly(target: str, tmp_path: Path) -> None:
    """The same loop of 1,000 and of 2,000 rounds differs by 1,000 times what a round takes."""
    cost = {}
    machine = targets.MACHINES[target]
    for rounds in (1000, 2000):
        first, second = machine.runs(image_of(
            tmp_path / "loop.c", machine,
            f'for (unsigned i = 0; i < {rounds}; i++) __asm__ volatile("nop");'))
        assert first == second
        cost[rounds] = first.cost
    per_round = {"amd64": 3, "Cortex-M4": 3, "Cortex-M0+": 4, "ATmega328P": 5}[target]
    assert abs(cost[2000] - cost[1000] - 1000 * per_round) <= 2


def test_a_step_that_does_not_do_its_work_ends_the_program(tmp_path: Path) -> None:
    for machine in targets.MACHINES.values():
        image = image_of(tmp_path / "wrong.c", machine, "", right="false")
        with pytest.raises(SystemExit, match="did not do its work"):
            machine.runs(image)


def test_a_stack_that_meets_the_variables_is_seen(tmp_path: Path) -> None:
    def deep(machine: targets.Machine) -> Path:
        return image_of(tmp_path / "deep.c", machine,
                        "volatile uint8_t more[900]; more[0] = own[0]; own[1] = more[899];",
                        beside="static volatile uint8_t own[1200];")

    machine = targets.MACHINES["ATmega328P"]
    with pytest.raises(targets.DoesNotFit):
        machine.runs(deep(machine))
    larger = targets.LARGER["ATmega328P"][0]
    run, _ = larger.runs(deep(larger))
    assert run.stack >= 900


def test_what_the_lab_adds_to_an_image_is_no_part_of_its_size(tmp_path: Path) -> None:
    def sizes(name: str) -> tuple[int, int]:
        found = targets.size(image_of(
            tmp_path / "size.c", targets.MACHINES["ATmega328P"], f"{name}[0] = 1;",
            beside=f"volatile uint8_t {name}[100];", size=True))
        return found.own_flash, found.own_ram

    flash, ram = sizes("lab_buffer")
    assert sizes("buffer") == (flash, ram + 100)


def test_a_moved_figure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = counts.FILE.read_text()
    key = ("CRC-16", "ours", "make", "4", "Cortex-M0+")
    count = counts.parse(text)[key]
    changed = tmp_path / "counts.tsv"
    costs = f"Cortex-M0+\t{count.least}\t{count.mean}\t{count.most}\t"
    changed.write_text(text.replace(f"{costs}{count.flash}\t", f"{costs}{count.flash + 1}\t"))
    assert changed.read_text() != text
    monkeypatch.setattr(counts, "FILE", changed)
    monkeypatch.setattr(sys, "argv", ["counts", "--only", "CRC-16", "--target", "Cortex-M0+"])
    says = rf"make 4 bytes, Cortex-M0\+: flash was {count.flash + 1} and is {count.flash}"
    with pytest.raises(SystemExit, match=rf"CRC-16 \(ours\), {says}"):
        counts.main()


def test_a_source_with_another_hash_is_refused(monkeypatch: pytest.MonkeyPatch,
                                               tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "FOLDER", tmp_path / "sources")
    wrong = sources.Source("crate", "wrong", "1", "0" * 64, "MIT")
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr(sources, "table", lambda: {"wrong": wrong})
    monkeypatch.setattr(sources, "CLIENTS", {
        "crate": ("pip", lambda source, folder: (tmp_path / "unpacked", "1" * 64))})
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
    lossy = energy.Battery("a test", 225, 3.0, 0.5)
    assert energy.years(lossy, 0, 1, 1e-9) == pytest.approx(2, rel=1e-3)


def test_every_heartbeat_has_its_row() -> None:
    said = lab("lab.answer")
    assert said.returncode == 0, said.stderr
    named = {scheme.title for scheme in SCHEMES
             if {"make", "sign"} & {step.name for step in scheme.steps}
             and scheme.family != "format" and "ATmega328P" in scheme.targets}
    assert named <= {line[:33].rstrip() for line in said.stdout.splitlines()}
    assert max(map(len, said.stdout.splitlines())) <= 100


@pytest.mark.parametrize("words, says", [
    (["--every", "3x"], "a time is wanted"), (["--every", "0s"], "a time is wanted"),
    (["--target", "z80"], "there is a model of the energy of"),
    (["--sleep", "nan"], "a number above 0"), (["--bitrate", "-1"], "a number above 0"),
    (["--battery", "lemon"], "invalid choice"), (["x"], "unrecognized")])
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
