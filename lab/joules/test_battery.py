"""Batteries: a tree of files like /sys, whose joules are known; and those of study 1.
SPDX-License-Identifier: MIT"""

import shutil
from pathlib import Path

import pytest

from lab.joules import meters
from lab.joules.battery import Battery
from lab.joules.meters import Absent, Energy, Lost
from lab.joules.standins import Cell, SimulatedClock, write
from lab.messages import studies


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


def turn(sys: Path, seconds: float, *drops: tuple[float, float]) -> Energy:
    """The batteries go from so many Wh to so many, as study 1 printed them."""
    cells = [Cell(sys, f"BAT{number}", round(before * 1e6)) for number, (before, _) in
             enumerate(drops)]
    clock, meter = opened(sys)
    meter.start()
    clock.sleep(seconds / 2)
    for cell, (before, after) in zip(cells, drops, strict=True):
        write(cell.folder / "energy_now", round((before + after) * 50) * 10_000)
    clock.sleep(seconds / 2)
    for cell, (_, after) in zip(cells, drops, strict=True):
        write(cell.folder / "energy_now", round(after * 1e6))
    return meter.stop()


def test_the_ten_idle_minutes_of_study_1_took_9648_joules(tmp_path: Path) -> None:
    full = 30.0  # Wh; how much they had at first changes nothing
    energy = turn(tmp_path, studies.TEN_MINUTES_SECONDS, (full, full - studies.TEN_MINUTES),
                  (full, full))
    assert energy.joules == pytest.approx(9648)
    assert energy.watts == pytest.approx(16.08)


def test_the_last_run_of_study_1_took_4356_joules_net(tmp_path: Path) -> None:
    """Without the second battery, which it left out when idle, it would be 1.89 Wh."""
    idle = turn(tmp_path, studies.CLOCK, *((20.0, 20.0 - given) for given in studies.IDLE))
    work = turn(tmp_path, studies.CLOCK, studies.RUN, (20.0, 20.0))
    assert work.joules - idle.joules == pytest.approx(4356)
    assert work.joules - dict(idle.parts)["BAT0"] == pytest.approx(1.89 * 3600)


@pytest.mark.parametrize("form, step", [("energy", 10_000), ("energy", 1), ("charge", 1_000)])
def test_joules_are_read_back_within_the_steps_of_the_gauge(tmp_path: Path, form: str,
                                                            step: int) -> None:
    energy = measured(tmp_path, 600, Cell(tmp_path, "BAT0", 4_000_001, watts=16, step=step,
                                          form=form))
    unit = 3600e-6 * (12 if form == "charge" else 1)
    assert abs(energy.joules - 16 * 600) <= step * unit
    assert energy.uncertainty >= step * unit * 0.999
    assert energy.uncertainty < 2 * max(step * unit, 5 * 16)


def test_ampere_hours_times_volts_are_3600_joules(tmp_path: Path) -> None:
    """1 Ah at 10 V is 10 Wh: 36 kJ. With the study's slip it would be 10 kJ."""
    cell = Cell(tmp_path, "BAT0", 3_000_000, form="charge", volts=10)
    clock, meter = opened(tmp_path)
    meter.start()
    clock.sleep(1)
    write(cell.folder / "charge_now", 2_000_000)
    assert meter.stop().joules == pytest.approx(36_000)


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


def test_a_gauge_that_does_not_move_is_as_uncertain_as_a_step(tmp_path: Path) -> None:
    """10 mWh. All that it shows are multiples of that."""
    energy = measured(tmp_path, 600, Cell(tmp_path, "BAT0", 23_470_000))
    assert energy.joules == 0
    assert energy.uncertainty == pytest.approx(36)


def test_what_a_gauge_has_shown_once_is_remembered(tmp_path: Path) -> None:
    """Of 24 and 60 Wh alone, it might have steps of 12 Wh."""
    clock, meter = opened(tmp_path, cell := Cell(tmp_path, "BAT0", 24_000_000, watts=16))
    meter.start()
    clock.sleep(600)
    assert meter.stop().uncertainty >= 36
    cell.watts, cell.now = 0, 24_000_000
    meter.start()
    clock.sleep(5)
    meter.stop()
    meter.start()
    clock.sleep(600)
    assert meter.stop().uncertainty == pytest.approx(36)


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


def test_a_gauge_that_shows_nothing_any_more_is_said(tmp_path: Path) -> None:
    cell = Cell(tmp_path, "BAT0", 3e6, form="charge")
    clock, meter = opened(tmp_path)
    for name in ("charge_now", "voltage_now"):
        meter.start()
        kept = (cell.folder / name).read_text()
        write(cell.folder / name, "")
        clock.sleep(6)
        with pytest.raises(Lost, match="BAT0"):
            meter.stop()
        (cell.folder / name).write_text(kept)


@pytest.mark.parametrize("file, says", [
    ("voltage_now", "does not show its volts"), ("charge_now", "shows no number")])
def test_numbers_that_no_battery_has_are_not_believed(tmp_path: Path, file: str, says: str) -> None:
    cell = Cell(tmp_path, "BAT0", 3_000_000, form="charge")
    clock, meter = opened(tmp_path, cell)
    meter.start()
    write(cell.folder / file, 10**19)
    with pytest.raises(Lost, match=says):
        meter.stop()


def test_a_charger_is_refused_before_and_in_the_midst(tmp_path: Path) -> None:
    Cell(tmp_path, "BAT0", 3e7)
    charger = tmp_path / "class" / "power_supply" / "AC"
    write(charger / "type", "Mains")
    write(charger / "online", 1)
    with pytest.raises(Absent, match="the charger AC is plugged in.*unplug the charger"):
        meters.find("battery", str(tmp_path))
    write(charger / "online", 0)
    clock, meter = opened(tmp_path)
    meter.start()
    clock.sleep(10)
    write(charger / "online", 1)
    clock.sleep(10)
    with pytest.raises(Lost, match="the charger AC is plugged in"):
        meter.stop()


def test_a_battery_that_is_charged_is_refused(tmp_path: Path) -> None:
    """By a charger that Linux does not show."""
    Cell(tmp_path, "BAT0", 3e7, status="Charging")
    with pytest.raises(Absent, match="BAT0 is being charged"):
        meters.find("battery", str(tmp_path))


def test_what_is_not_the_computers_is_no_battery(tmp_path: Path) -> None:
    mouse = Cell(tmp_path, "hidpp_battery_0", 3e6)
    write(mouse.folder / "scope", "Device")
    bay = Cell(tmp_path, "BAT1", 3e6)
    write(bay.folder / "present", 0)
    with pytest.raises(Absent, match="has no battery"):
        meters.find("battery", str(tmp_path))


def test_a_battery_without_a_gauge_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "class" / "power_supply" / "BAT0" / "capacity", 90)
    with pytest.raises(Absent, match="has neither energy_now nor charge_now"):
        meters.find("battery", str(tmp_path))
