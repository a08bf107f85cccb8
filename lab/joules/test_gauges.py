"""Batteries and processors' counters: trees of files like /sys, whose joules are known."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab.joules import meters, ppk2
from lab.joules.battery import Battery
from lab.joules.meters import Absent, Energy, Lost
from lab.joules.rapl import Rapl
from lab.joules.standins import Cell, Counter, Pty, SimulatedClock, write
from tools.programs import ROOT, wait_until


def opened(sys: Path, *cells: Cell) -> tuple[SimulatedClock, Battery]:
    clock = SimulatedClock()
    clock.worlds.extend(cells)
    meter = Battery(str(sys), clock)
    meter.open()
    return clock, meter


def measured(sys: Path, seconds: float, *cells: Cell) -> Energy:
    clock, meter = opened(sys, *cells)
    meter.start()
    clock.sleep(seconds)
    return meter.stop()


@pytest.mark.parametrize("form, step", [("energy", 10_000), ("energy", 1), ("charge", 1_000)])
def test_joules_are_read_back_within_the_steps_of_the_gauge(tmp_path: Path, form: str,
                                                            step: int) -> None:
    energy = measured(tmp_path, 600, Cell(tmp_path, "BAT0", 4_000_001, watts=16, step=step,
                                          form=form))
    unit = 3600e-6 * (12 if form == "charge" else 1)
    assert abs(energy.joules - 16 * 600) <= step * unit
    assert energy.uncertainty >= step * unit * 0.999
    assert energy.uncertainty < 2 * max(step * unit, 5 * 16)


def test_sinking_volts_are_followed(tmp_path: Path) -> None:
    """From 12.6 V to 11.4 V, evenly: as 12 V throughout."""
    cell = Cell(tmp_path, "BAT0", 3_000_000, form="charge", volts=12.6, step=1)
    clock, meter = opened(tmp_path)
    meter.start()
    for step in range(1, 21):
        write(cell.folder / "charge_now", 3_000_000 - 5000 * step)
        write(cell.folder / "voltage_now", round((12.6 - 0.06 * step) * 1e6))
        clock.sleep(5)
    assert meter.stop().joules == pytest.approx(100_000 * 3600e-6 * 12, rel=1e-9)


def test_a_switch_to_the_other_battery_in_the_midst(tmp_path: Path) -> None:
    first = Cell(tmp_path, "BAT0", 30_000_000, watts=16)
    second = Cell(tmp_path, "BAT1", 20_000_000, status="Unknown")
    clock, meter = opened(tmp_path, first, second)
    meter.start()
    clock.sleep(300)
    first.watts, second.watts = 0, 14
    write(first.folder / "status", "Unknown")
    write(second.folder / "status", "Discharging")
    clock.sleep(300)
    energy = meter.stop()
    assert energy.joules == pytest.approx(16 * 300 + 14 * 300, abs=2 * 36)
    assert dict(energy.parts).keys() == {"BAT0", "BAT1"}
    assert energy.notes == ()


def test_one_that_is_unknown_all_the_time_counts_and_is_named(tmp_path: Path) -> None:
    energy = measured(tmp_path, 600, Cell(tmp_path, "BAT0", 3e7, watts=10),
                      Cell(tmp_path, "BAT1", 3e7, watts=6, status="Unknown"))
    assert energy.joules == pytest.approx(16 * 600, abs=72)
    assert energy.notes == ("BAT1 was unknown all the time; it counts, too",)


def test_a_gauge_that_stands_still_is_as_uncertain_as_a_step_once_it_has_moved(
        tmp_path: Path) -> None:
    """Of 24 and 60 Wh alone, it might have steps of 12 Wh: that is no measurement."""
    clock, meter = opened(tmp_path, cell := Cell(tmp_path, "BAT0", 24_000_000))
    meter.start()
    clock.sleep(600)
    with pytest.raises(Lost, match="no gauge has moved yet, so the size of its steps is unknown"):
        meter.stop()
    cell.watts = 16
    meter.start()
    clock.sleep(60)
    meter.stop()
    cell.watts = 0
    meter.start()
    clock.sleep(600)
    energy = meter.stop()
    assert energy.joules == 0 and energy.uncertainty == pytest.approx(36)


@pytest.mark.parametrize("seconds, rise", [(0, 500_000), (7, 20_000), (60, 500_000)])
def test_a_gauge_that_rises_is_no_measurement(tmp_path: Path, seconds: int, rise: int) -> None:
    cell = Cell(tmp_path, "BAT0", 30_000_000, watts=16)
    clock, meter = opened(tmp_path, cell)
    meter.start()
    clock.sleep(seconds)
    cell.now += rise
    clock.sleep(60)
    with pytest.raises(Lost, match=r"BAT0 rose by [\d,]+ J: it was charged, or its gauge was set"):
        meter.stop()


def test_a_charger_for_two_seconds_is_seen(tmp_path: Path) -> None:
    clock, meter = opened(tmp_path, Cell(tmp_path, "BAT0", 30_000_000, watts=16))
    charger = tmp_path / "class" / "power_supply" / "AC"
    for name, value in (("type", "USB"), ("scope", "Device"), ("online", 1)):
        write(charger.with_name("mouse") / name, value)  # it charges no battery of the computer
    write(charger / "type", "Mains")
    write(charger / "online", 0)
    meter.start()
    clock.sleep(61.5)
    write(charger / "online", 1)
    clock.sleep(2)
    write(charger / "online", 0)
    clock.sleep(60)
    with pytest.raises(Lost, match="the charger AC is plugged in"):
        meter.stop()


@pytest.mark.parametrize("status", ["Full", "Not charging", "Charging"])
def test_a_battery_that_does_not_feed_the_computer_is_refused(tmp_path: Path, status: str) -> None:
    cell = Cell(tmp_path, "BAT0", 30_000_000, watts=16)
    clock, meter = opened(tmp_path, cell)
    meter.start()
    clock.sleep(60)
    write(cell.folder / "status", status)
    clock.sleep(2)
    says = "being charged" if status == "Charging" else status.casefold()
    with pytest.raises(Lost, match=f"BAT0 is {says}"):
        meter.stop()
    with pytest.raises(Absent):
        opened(tmp_path)
    Cell(tmp_path, "BAT1", 30_000_000)  # beside one that discharges, another may rest
    assert status == "Charging" or opened(tmp_path)


def test_a_gauge_of_percent_alone_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "class" / "power_supply" / "BAT0"
    for name, value in (("type", "Battery"), ("status", "Discharging"), ("capacity", 64)):
        write(folder / name, value)
    with pytest.raises(Absent, match="neither energy_now nor charge_now"):
        meters.find("battery", str(tmp_path))


def test_a_gauge_that_looks_seldom_is_as_uncertain_as_it_is_behind(tmp_path: Path) -> None:
    """Each 30 s at 20 W: it shows 600 J at once, though its steps are of 36 J."""
    energy = measured(tmp_path, 600, Cell(tmp_path, "BAT0", 3e7, watts=20, period=30))
    assert 590 < energy.uncertainty < 650
    assert abs(energy.joules - 20 * 600) <= energy.uncertainty


@pytest.mark.parametrize("comes", [True, False])
def test_a_battery_that_comes_or_vanishes_is_said(tmp_path: Path, comes: bool) -> None:
    cells = [Cell(tmp_path, name, 3e7, watts=20) for name in ("BAT0", "BAT1")[:1 if comes else 2]]
    clock, meter = opened(tmp_path, *cells)
    meter.start()
    clock.sleep(100)
    if comes:
        Cell(tmp_path, "BAT1", 3e7)  # into an empty bay
    else:
        shutil.rmtree(cells[1].folder)
    clock.sleep(100)
    with pytest.raises(Lost, match="BAT1 came or vanished"):
        meter.stop()


@pytest.mark.parametrize("shown", ["", 10**19])
@pytest.mark.parametrize("file, says", [
    ("voltage_now", "BAT0.* does not show its volts"), ("charge_now", "BAT0.* shows no number")])
def test_what_no_gauge_shows_is_not_believed(tmp_path: Path, shown: object, file: str,
                                             says: str) -> None:
    cell = Cell(tmp_path, "BAT0", 3_000_000, form="charge")
    clock, meter = opened(tmp_path, cell)
    meter.start()
    write(cell.folder / file, shown)
    clock.sleep(6)
    with pytest.raises(Lost, match=says):
        meter.stop()


# ---------------------------------------------------------------- processors' counters

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


def counting(sys: Path, *counters: Counter) -> tuple[SimulatedClock, Rapl]:
    """It has begun."""
    clock = SimulatedClock()
    clock.worlds.extend(counters)
    meter = Rapl(str(sys), clock)
    meter.open()
    meter.start()
    return clock, meter


def counted(sys: Path, counters: list[Counter], seconds: float) -> tuple[Rapl, Energy]:
    clock, meter = counting(sys, *counters)
    clock.sleep(seconds)
    return meter, meter.stop()


def test_packages_and_memory_are_the_sum_and_no_part_counts_twice(tmp_path: Path) -> None:
    (tmp_path / "class" / "powercap" / "intel-rapl").mkdir(parents=True)  # it has no counter
    meter, energy = counted(tmp_path, machine(tmp_path), 100.0)
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
    _, energy = counted(tmp_path, [counter], 600.0)
    assert energy.joules == pytest.approx(135 * 600, abs=1e-5)


@pytest.mark.parametrize("kilojoules", [261, 10])
def test_a_counter_that_is_set_back_is_no_wrap(tmp_path: Path, kilojoules: int) -> None:
    """After a suspend: taken for a wrap, it would be so many."""
    counter = Counter(tmp_path, "intel-rapl:0", "package-0", 7.0,
                      at=262_143_328_850 - kilojoules * 10**9)
    clock, meter = counting(tmp_path, counter)
    clock.sleep(10)
    counter.at = 0
    clock.sleep(10)
    with pytest.raises(Lost, match="which cannot be: was the computer suspended"):
        meter.stop()


@pytest.mark.parametrize("watts", [20.0, 35.0])
def test_a_counter_that_is_set_back_near_its_end_is_within_the_uncertainty(
        tmp_path: Path, watts: float) -> None:
    """Taken for a wrap, the last 900 J of its range were joules; of a true wrap nothing is open."""
    span = 262_143_328_850
    counter = Counter(tmp_path, "intel-rapl:0", "package-0", watts, at=span - 1_100_000_000)
    clock, meter = counting(tmp_path, counter)
    clock.sleep(10)
    counter.at = 0
    clock.sleep(10)
    energy = meter.stop()
    assert energy.joules > 20 * watts + 700 and len(energy.notes) == 1
    assert abs(energy.joules - 20 * watts) <= energy.uncertainty < 1000


def test_a_counter_that_stands_still_is_none(tmp_path: Path) -> None:
    with pytest.raises(Lost, match="stood still for 10.0 s"):
        counted(tmp_path, [Counter(tmp_path, "intel-rapl:0", "package-0", 0.0)], 10.0)


def test_memory_that_stays_0_is_left_out_and_named_and_the_package_counts(tmp_path: Path) -> None:
    _, energy = counted(tmp_path, [Counter(tmp_path, "intel-rapl:0", "package-0", 20.0),
                                   Counter(tmp_path, "intel-rapl:0:0", "dram", 0.0)], 10.0)
    assert energy.joules == pytest.approx(200)
    assert energy.notes == ("package-0/dram stayed 0: it is left out",)


@pytest.mark.parametrize("vanishes", [True, False])
def test_a_counter_that_vanishes_or_leaves_its_range_is_said(tmp_path: Path,
                                                             vanishes: bool) -> None:
    """Taken modulo its range, the number would look like a small step."""
    counter = Counter(tmp_path, "intel-rapl:0", "package-0", 7.0)
    clock, meter = counting(tmp_path)
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


# ---------------------------------------------------------------- a PPK2

class Kit(Pty):
    """Its line, for the package ppk2-api. By hand: 1,000 steps of the converter in range 2 of 10 Ω
    are 4,000 x 1.8 / 163,840 V / 10 Ω = 4,394.53 µA."""

    def take(self, data: bytes) -> None:
        if data == b"\x19":
            self.say(b"Calibrated: 0\n" + b"".join(
                b"R%d: 10.0\nGS%d: 0\nGI%d: 1\n" % (i, i, i) for i in range(5)) + b"END")

    def samples(self, count: int) -> None:
        self.say((2 << 14 | 1000).to_bytes(4, "little") * count)


@pytest.mark.parametrize("each, lost", [(100, False), (99, False), (97, True)])
def test_a_ppk2s_samples_become_joules(monkeypatch: pytest.MonkeyPatch, each: int,
                                       lost: bool) -> None:
    """10 s at 3.3 V and 4,394.53 µA: 0.14502 J. Three of a hundred samples may not be lost."""
    monkeypatch.setattr(ppk2, "HERTZ", 100)
    monkeypatch.setattr(ppk2.Ppk2, "reads", 1.0)
    clock = SimulatedClock()
    with Kit() as kit:
        meter = meters.find("ppk2", f"{kit.path}@3300", clock)
        meter.start()

        for _ in range(10):
            kit.samples(each)
            wait_until(lambda: meter.kit.ser.in_waiting >= 4 * each,  # type: ignore[attr-defined]
                       "the samples")
            clock.sleep(1)
        if lost:
            with pytest.raises(Lost, match="970 samples came in 10.0 s, not 100 a second"):
                meter.stop()
        else:
            energy = meter.stop()
            assert energy.joules == pytest.approx(0.14502, rel=1e-4)
            assert energy.samples == 10 * each and meter.what() == "ppk2, 3300 mV"
            assert 0 < energy.uncertainty < 0.01 + (each < 100)
        meter.close()


@pytest.mark.parametrize("at, says", [
    (None, "say where it is"), ("/dev/ttyACM0", "say where it is"), ("/dev/x@700", "say where"),
    ("/dev/no-such@3300", "cannot be used"), ("/dev/null@3300", "cannot be used")])
def test_a_ppk2_that_is_none_is_rejected(at: str | None, says: str) -> None:
    with pytest.raises(Absent, match=says):
        meters.find("ppk2", at)
