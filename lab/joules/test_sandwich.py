"""The power sandwich without its hardware: the real driver and the real firmware, a simulated meter.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import csv
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import pytest

from lab import counts, published
from lab.joules import board, console, log, powershield, sandwich, simulated, tables, target
from lab.joules.board import Image
from sim.targets import ROOT

STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion",
          "-Wcast-align", "-Wcast-qual", "-Wshadow", "-Werror")
THREE = ("ML-KEM-512, mlkem-native, assembly", "ECDSA P-256, P256-Cortex-M4",
         "X25519, Monocypher")
WATTS = Fraction(7688, 100_000)  # of 100 samples of 7688 µJ in 10 s


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that are for hardware."""
    monkeypatch.setattr(powershield, "PAUSE", 0.01)


@pytest.fixture
def flash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a st-flash that is ours, and of what it has written."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "st-flash"
    tool.write_text(simulated.FLASH)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "flash"


Even = ["7688-06"] * 100


def played(name: str) -> tuple[list[str], dict[str, dict[str, int]]]:
    """A KEM of few bytes and round figures."""
    banner = ["SystemCoreClock         96000000", f"CRYPTO_ALGNAME          {name}",
              "CRYPTO_SECRETKEYBYTES   3", "CRYPTO_PUBLICKEYBYTES   2",
              "CRYPTO_CIPHERTEXTBYTES  4", "CRYPTO_BYTES            32"]
    each = {"k": {"KeyGen": 96_000}, "e": {"Encaps": 192_000}, "d": {"Decaps": 288_000}}
    return banner, each | {"a": {name: cycles for one in each.values()
                                 for name, cycles in one.items()} | {"Total": 576_000}}


class Sandwich:
    """Both stand-ins, and images that are only names."""

    def __init__(self, folder: Path, flash: Path, stack: ExitStack,
                 figures: Callable[[str], tuple[list[str], dict[str, dict[str, int]]]] = played,
                 names: tuple[str, ...] = ("one", "two")) -> None:
        self.board = stack.enter_context(simulated.Played(flash, figures))
        self.shield = stack.enter_context(simulated.Shield(self.board, lambda: Even))
        self.logs, self.images = folder / "logs", folder / "images"
        self.images.mkdir()
        for name in names:
            (self.images / f"{name}.bin").write_text(name)

    def run(self, *words: str) -> int:
        return sandwich.main(["--meter", self.shield.path, "--target", self.board.path, "--logs",
                              str(self.logs), "--images", str(self.images), *words])


@pytest.fixture
def desk(tmp_path: Path, flash: Path) -> Iterator[Sandwich]:
    with ExitStack() as stack:
        yield Sandwich(tmp_path, flash, stack)


# ---------------------------------------------------------------- the real firmware


def test_the_firmware_has_no_warning() -> None:
    for kem in (0, 1):
        subprocess.run([board.BOARD.compiler, *board.BOARD.flags, *STRICT, f"-DBOARD_IS_KEM={kem}",
                        "-DBOARD_REFUSES=1", '-DBOARD_NAME="a"', "-Ilab/c", "-c",
                        "lab/board/board.c", "-o", os.devnull], cwd=ROOT, check=True)


def test_three_schemes_go_through_the_whole_chain(tmp_path: Path, flash: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    """Real driver, real firmware in QEMU, simulated meter. The firmware's counts are those that
    the lab has from another simulator, and D7 rises once for each measurement."""
    chosen = [scheme for scheme in board.all_schemes() if scheme.key in THREE]
    images = board.build_all(chosen, tmp_path / "images")
    assert len(images) == 3
    with simulated.Qemu(flash) as qemu, simulated.Shield(qemu, lambda: Even) as shield:
        status = sandwich.main(["--meter", shield.path, "--target", qemu.path, "--runs", "1",
                                "--logs", str(tmp_path / "logs"), "--images",
                                str(tmp_path / "images")])
    assert status == 0, capsys.readouterr()
    assert shield.rises == 3 * 5
    logs = sorted((tmp_path / "logs").iterdir())
    assert [path.name for path in logs] == sorted(f"{image.name}.run-1.log" for image in images)
    found = [one for path in logs for one in tables.parse(path)[0]]
    assert not [complaint for path in logs for complaint in tables.parse(path)[1]]
    assert len(found) == 3 * 5
    for one in found:
        assert one.watts == WATTS and one.joules == WATTS * one.cycles / 96_000_000
    points = tables.instructions(tables.rows(found))
    assert len(points) == 9
    for point in points:
        assert float(point.row.cycles) == pytest.approx(point.instructions, rel=0.02), point
    assert tables.main([str(path) for path in logs]) == 0
    said = capsys.readouterr().out
    assert tables.SIMULATED in said and tables.MEASURED not in said


def test_a_full_stack_is_a_fault_and_is_said(tmp_path: Path) -> None:
    """It does not run into the variables."""
    step = ('#include "operation.h"\n#include <string.h>\n'
            'const uint32_t lab_sizes[3] = {1, 1, 1};\n'
            'void deep(int n) { volatile char more[4096]; memset((char *)more, n, sizeof more);'
            ' if (n) deep(n - 1); more[0]++; }\n' +
            "".join(f"void {name}_prepare(unsigned n) {{ (void)n; }}\n"
                    f"void {name}_run(void) {{ deep(40); }}\n"
                    f"bool {name}_right(void) {{ return true; }}\n"
                    for name in ("vectors", "key", "sign", "verify", "refuse")))
    source = tmp_path / "deep.c"
    source.write_text(step)
    objects = [tmp_path / "deep.o", tmp_path / "board.o"]
    for file, built in zip((source, board.SOURCES / "board.c"), objects, strict=True):
        board.BOARD.compile(file, built, '-DBOARD_NAME="deep"', "-DBOARD_IS_KEM=0",
                            "-DBOARD_REFUSES=0", "-O0")
    flash = tmp_path / "flash"
    board.BOARD.build(objects, flash)
    with simulated.Qemu(flash) as qemu:
        line = console.Line(qemu.path, "target")
        qemu.power_cycle()
        person = target.Target(line)
        about = person.awake()
        person.begin("k")
        with pytest.raises(console.Trouble, match="program has failed"):
            person.end("k", about)
        line.close()


# ---------------------------------------------------------------- published figures


def samples_for(nanojoules: int) -> list[str]:
    """100 samples of 4 digits with this sum. The last one has what is left of a microjoule."""
    each, rest = divmod(nanojoules // 1000, 99)
    return [*(f"{each + (number < rest):04d}-06" for number in range(99)),
            f"{nanojoules % 1000:04d}-09"]


def figures_of(row: dict[str, str]) -> tuple[int, int]:
    """Cycles, and the nJ of 10 s, that round to what was published of an operation: its cycles may
    be rounded to thousands or millions, watts and joules to three decimals of their unit."""
    watts, joules = Fraction(row["watts"]), Fraction(row["joules"])
    half = Fraction(1, 2000) if joules >= 1 else \
        Fraction(1, 2_000_000) if joules >= Fraction(1, 1000) else Fraction(1, 2_000_000_000)
    loose = 499_999 if row["cycles"].endswith("000000") else \
        499 if row["cycles"].endswith("000") else 0
    said = int(row["cycles"])
    for cycles in (round(joules * 96_000_000 / watts), said - loose, said + loose):
        if abs(cycles - said) > loose:
            continue
        least = max(watts - Fraction(1, 2_000_000), (joules - half) * 96_000_000 / cycles)
        most = min(watts + Fraction(1, 2_000_000), (joules + half) * 96_000_000 / cycles)
        nanojoules = round((least + most) / 2 * 10**10)
        if least < Fraction(nanojoules, 10**10) < most:
            return cycles, nanojoules
    raise AssertionError(f"no cycles and watts give {row}")


Rows = dict[str, dict[str, dict[str, str]]]
LETTER = {"KeyGen": "k", "Sign": "s", "Verify": "v", "Encaps": "e", "Decaps": "d", "Total": "a"}


def published_rows() -> Rows:
    """By scheme and operation."""
    lines = [line for line in published.FILE.read_text().splitlines() if not line.startswith("#")]
    found: Rows = {}
    for row in csv.DictReader(lines, delimiter="\t"):
        found.setdefault(row["scheme"], {})[row["operation"].replace("TOTAL", "Total")] = row
    return found


def test_study_2_comes_out_to_the_digit(tmp_path: Path, flash: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    """All that it published goes in: its cycles by a board that is played, its watts by the meter.
    In the second run each operation takes a little less, in the first as much more."""
    rows = published_rows()
    figures = {(name, LETTER[operation]): figures_of(row) for name, has in rows.items()
               for operation, row in has.items()}

    def play(name: str) -> tuple[list[str], dict[str, dict[str, int]]]:
        has = rows[name]
        sizes = dict(part.split("=") for part in next(iter(has.values()))["sizes"].split(", "))
        banner = ["SystemCoreClock         96000000", f"CRYPTO_ALGNAME          {name}",
                  f"CRYPTO_SECRETKEYBYTES   {sizes['sk']}",
                  f"CRYPTO_PUBLICKEYBYTES   {sizes['pk']}",
                  *([f"CRYPTO_CIPHERTEXTBYTES  {sizes['ct']}"] if "ct" in sizes else []),
                  f"CRYPTO_BYTES            {sizes.get('ss') or sizes['sl']}"]
        letters = {LETTER[operation]: {operation: figures[name, LETTER[operation]][0]}
                   for operation in has}
        letters["a"] |= {operation: 1 for operation in has if operation != "Total"}
        return banner, letters

    with simulated.Played(flash, play) as desk:
        turn: dict[tuple[str, str], int] = {}

        def samples() -> list[str]:
            key = desk.name, desk.letter
            turn[key] = turn.get(key, 0) + 1
            nanojoules = figures.get(key, (0, 100_000_000))[1]
            return samples_for(nanojoules + 12_345 * (1 if turn[key] == 1 else -1))

        with simulated.Shield(desk, samples) as shield:
            (tmp_path / "images").mkdir()
            for name in rows:
                (tmp_path / "images" / f"{name}.bin").write_text(name)
            assert sandwich.main([
                "--meter", shield.path, "--target", desk.path, "--runs", "2", "--logs",
                str(tmp_path / "logs"), "--images", str(tmp_path / "images")]) == 0
    capsys.readouterr()
    into = tmp_path / "all.tsv"
    assert tables.main([*map(str, (tmp_path / "logs").iterdir()), "--tsv", str(into)]) == 0
    got = {(row["scheme"], row["operation"]): row
           for row in csv.DictReader(into.read_text().splitlines(), delimiter="\t")}
    for name, has in rows.items():
        for row in has.values():
            mine = got[name, row["operation"]]
            assert mine["sizes"] == row["sizes"] and mine["runs"] == "2"
            for what in ("watts", "joules"):
                assert float(mine[what]) == float(row[what]), (name, row, mine)
            assert float(mine["seconds"]) == pytest.approx(float(row["seconds"]), rel=1e-3)
            assert float(mine["spread"]) > 0 and mine["label"] == tables.MEASURED
    said = capsys.readouterr().out
    blocks = said.split("\n\n")
    for block, by, kem in ((blocks[0], "Verify", False), (blocks[1], "Total", True)):
        printed = [line.split()[0] for line in block.splitlines()[2:]]
        wanted = [name for name, has in rows.items() if ("Encaps" in has) == kem]
        assert printed == sorted(wanted, key=lambda name: float(rows[name][by]["joules"]))
        for line in block.splitlines()[2:]:
            name, *cells = line.split()
            for cell, operation in zip(cells[0:8:2], (target.KEM if kem else target.SIGNATURE)["a"], strict=True):
                in_joules = float(cell.replace(",", "")) * UNIT[cells[cells.index(cell) + 1]]
                assert in_joules == pytest.approx(float(rows[name][operation]["joules"]),
                                                  rel=1e-9), line


UNIT = {"µJ": 1e-6, "mJ": 1e-3, "J": 1.0}
