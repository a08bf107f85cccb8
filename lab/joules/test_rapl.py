"""Processors' counters: a tree of files like /sys, whose joules are known.
SPDX-License-Identifier: MIT"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab.joules import meters, rapl
from lab.joules.meters import Absent, Energy, Lost
from lab.joules.rapl import Rapl
from lab.joules.standins import Counter, SimulatedClock, write
from tests.support.programs import ROOT


def machine(sys: Path) -> list[Counter]:
    """Two packages with their parts, the whole machine, and a package shown a second time."""
    return [Counter(sys, "intel-rapl:0", "package-0", 20.0, at=5),
            Counter(sys, "intel-rapl:0:0", "core", 12.0),
            Counter(sys, "intel-rapl:0:1", "uncore", 1.0),
            Counter(sys, "intel-rapl:0:2", "dram", 3.0),
            Counter(sys, "intel-rapl:1", "package-1", 10.0),
            Counter(sys, "intel-rapl:1:0", "dram", 2.0),
            Counter(sys, "intel-rapl:2", "psys", 50.0),
            Counter(sys, "intel-rapl-mmio:0", "package-0", 20.0)]


def measured(sys: Path, counters: list[Counter], seconds: float) -> tuple[Rapl, Energy]:
    clock = SimulatedClock()
    clock.worlds.extend(counters)
    meter = Rapl(str(sys), clock)
    meter.open()
    meter.start()
    clock.sleep(seconds)
    return meter, meter.stop()


def test_packages_and_memory_are_the_sum_and_no_part_counts_twice(tmp_path: Path) -> None:
    (tmp_path / "class" / "powercap" / "intel-rapl").mkdir(parents=True)  # it has no counter
    meter, energy = measured(tmp_path, machine(tmp_path), 100.0)
    assert energy.joules == pytest.approx((20 + 3 + 10 + 2) * 100, abs=1e-5)
    assert energy.seconds == pytest.approx(100)
    assert dict(energy.parts) == pytest.approx({
        "package-0": 2000, "package-0/core": 1200, "package-0/uncore": 100, "package-0/dram": 300,
        "package-1": 1000, "package-1/dram": 200, "psys": 5000})
    assert meter.what() == "rapl: package-0 + package-0/dram + package-1 + package-1/dram"
    assert 0 < energy.uncertainty < 0.1


@pytest.mark.parametrize("span", [262_143_328_850, 65_712_999_613, 2_000_000_000])
def test_every_wrap_of_a_counter_is_seen(tmp_path: Path, span: int) -> None:
    """2 kJ of range at 135 W: 40 times, and each counter begins just before its end."""
    counter = Counter(tmp_path, "intel-rapl:0", "package-0", 135.0, at=span - 7, span=span)
    _, energy = measured(tmp_path, [counter], 600.0)
    assert energy.joules == pytest.approx(135 * 600, abs=1e-5)


def test_a_short_range_is_read_often(tmp_path: Path) -> None:
    Counter(tmp_path, "intel-rapl:0", "package-0", 1.0, span=100_000_000)
    meter = Rapl(str(tmp_path), SimulatedClock())
    meter.open()
    assert meter.reads * rapl.BELIEVABLE <= 100 / 2


def test_it_can_be_started_again(tmp_path: Path) -> None:
    clock, counter = SimulatedClock(), Counter(tmp_path, "intel-rapl:0", "package-0", 7.0)
    clock.worlds.append(counter)
    meter = Rapl(str(tmp_path), clock)
    meter.open()
    for seconds in (10.0, 25.5):
        meter.start()
        clock.sleep(seconds)
        assert meter.stop().joules == pytest.approx(7 * seconds, abs=1e-5)
        clock.sleep(5)  # belongs to nobody


def test_a_counter_that_is_set_back_is_no_wrap(tmp_path: Path) -> None:
    """After a suspend: taken for a wrap, it would be 262 kJ."""
    clock, counter = SimulatedClock(), Counter(tmp_path, "intel-rapl:0", "package-0", 7.0, at=10**9)
    clock.worlds.append(counter)
    meter = Rapl(str(tmp_path), clock)
    meter.open()
    meter.start()
    clock.sleep(10)
    counter.at = 0
    clock.sleep(10)
    with pytest.raises(Lost, match="which cannot be: was the computer suspended"):
        meter.stop()


def test_a_counter_that_stands_still_is_none(tmp_path: Path) -> None:
    with pytest.raises(Lost, match="stood still for 10.0 s"):
        measured(tmp_path, [Counter(tmp_path, "intel-rapl:0", "package-0", 0.0)], 10.0)


@pytest.mark.parametrize("vanishes", [True, False])
def test_a_counter_that_vanishes_or_leaves_its_range_is_said(tmp_path: Path,
                                                             vanishes: bool) -> None:
    """Taken modulo its range, the number would look like a small step."""
    clock, counter = SimulatedClock(), Counter(tmp_path, "intel-rapl:0", "package-0", 7.0)
    meter = Rapl(str(tmp_path), clock)
    meter.open()
    meter.start()
    clock.sleep(1.5)
    if vanishes:
        (counter.folder / "energy_uj").unlink()
    else:
        write(counter.folder / "energy_uj", 2 * counter.span)
    clock.sleep(10)
    with pytest.raises(Lost, match="energy_uj cannot be read any more, or has left its range"):
        meter.stop()


def test_what_only_root_may_read_says_what_to_do() -> None:
    """As Linux has it since 5.10."""
    with tempfile.TemporaryDirectory() as folder:
        sys = Path(folder)
        sys.chmod(0o755)
        counter = Counter(sys, "intel-rapl:0", "package-0", 7.0)
        (counter.folder / "energy_uj").chmod(0o400)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        else:
            (counter.folder / "energy_uj").chmod(0)
        try:
            with pytest.raises(Absent, match="only by root: run this as root, or sudo chmod a.r"):
                meters.find("rapl", str(sys))
        finally:
            if root:
                os.seteuid(0)


@pytest.mark.parametrize("value", ["", "x", "-", "9" * 30, "1.5", "-5", "262143328851"])
def test_a_counter_that_is_no_number_is_refused(tmp_path: Path, value: str) -> None:
    counter = Counter(tmp_path, "intel-rapl:0", "package-0", 7.0)
    write(counter.folder / "energy_uj", value)
    with pytest.raises(Absent, match="energy_uj holds no number"):
        meters.find("rapl", str(tmp_path))


def test_a_range_that_no_reader_could_follow_is_refused(tmp_path: Path) -> None:
    Counter(tmp_path, "intel-rapl:0", "package-0", 1.0, span=1)
    with pytest.raises(Absent, match="has a range of 1e-06 J, which is too small"):
        meters.find("rapl", str(tmp_path))


def test_files_that_are_not_like_linuxs_do_no_harm(tmp_path: Path) -> None:
    """A FIFO is not waited for, and no name changes the terminal or breaks the picture."""
    counter = Counter(tmp_path, "intel-rapl:0", "package-0\x1b[2J\x01", 7.0)
    assert meters.find("rapl", str(tmp_path)).what() == "rapl: package-0[2J"
    (counter.folder / "energy_uj").unlink()
    os.mkfifo(counter.folder / "energy_uj")
    found = subprocess.run([sys.executable, "-c", "import sys; from lab.joules import meters; "
                            "meters.find('rapl', sys.argv[1])", tmp_path], cwd=ROOT, check=False,
                           stderr=subprocess.PIPE, text=True, timeout=30)
    assert "energy_uj holds no number" in found.stderr


def test_the_whole_machine_alone_is_no_processor(tmp_path: Path) -> None:
    Counter(tmp_path, "intel-rapl:0", "psys", 50.0)
    with pytest.raises(Absent, match="has no counter of a processor"):
        meters.find("rapl", str(tmp_path))
