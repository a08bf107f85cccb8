"""The batteries of a laptop, as Linux shows them under /sys/class/power_supply: all of them.

A gauge shows either energy_now in µWh, or charge_now in µAh beside voltage_now in µV.
Ampere-hours times volts are watt-hours, and a watt-hour is 3,600 joules."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from lab.joules.meters import Absent, Energy, Lost, Meter, folders_in, number_of, text_of

JOULES_A_MICROWATTHOUR = 3600e-6
COULOMBS_A_MICROAMPEREHOUR = 3600e-6
MOST = 10**10  # µWh or µAh: 10 kWh, or 10,000 Ah
MOST_MICROVOLTS = 10**9
CAPACITIES = ("full", "full_design")  # they are whole steps of the gauge, too


@dataclass
class Gauge:
    """One battery."""

    folder: Path
    form: str = ""  # energy or charge
    last: int = 0  # µWh or µAh
    volts: float = 0.0  # The battery's voltage at the last reading.
    joules: float = 0.0  # that it gave since begin()
    step: int = 0  # the largest number that divides all that it has shown
    jump: float = 0.0  # joules: the largest change from one reading to the next
    statuses: set[str] = field(default_factory=set)
    moved: bool = False  # The gauge has changed since open(), so the size of its steps is known.

    def look(self) -> int:
        """What the gauge shows now. Raises Lost if the battery is not there any more."""
        status = text_of(self.folder / "status") or "unknown"
        self.statuses.add(status.casefold())
        now = number_of(self.folder / f"{self.form}_now")
        if self.form == "charge":
            microvolts = number_of(self.folder / "voltage_now")
            if microvolts is None or not 0 < microvolts <= MOST_MICROVOLTS:
                raise Lost(f"{self.folder.name} does not show its volts any more")
            self.volts = microvolts * 1e-6
        if now is None or not 0 <= now <= MOST:
            raise Lost(f"{self.folder.name} shows no number any more")
        return now

    def begin(self) -> None:
        self.statuses = set()
        self.joules = self.jump = 0.0
        self.last = self.look()
        capacities = (number_of(self.folder / f"{self.form}_{name}") for name in CAPACITIES)
        self.step = math.gcd(self.step, self.last, *(capacity or 0 for capacity in capacities))

    def read(self) -> None:
        before = self.volts
        now = self.look()
        taken = self.last - now
        self.last = now
        self.step = math.gcd(self.step, now)
        joules = taken * self.unit((before + self.volts) / 2)
        if taken < 0 and -taken > self.step:
            raise Lost(f"{self.folder.name} rose by {-joules:.0f} J: it was charged, or its gauge "
                       "was set anew")
        self.moved |= taken != 0
        self.joules += joules
        self.jump = max(self.jump, abs(joules))

    def unit(self, volts: float) -> float:
        """Joules of a µWh, or of a µAh at these volts."""
        return JOULES_A_MICROWATTHOUR if self.form == "energy" else \
            COULOMBS_A_MICROAMPEREHOUR * volts

    @property
    def uncertainty(self) -> float:
        """Joules: each end is off by up to one step; a gauge that is renewed seldom shows more
        steps at once, and is so much behind."""
        return max(self.step * self.unit(self.volts), self.jump)


def form_of(folder: Path) -> str:
    return next((form for form in ("energy", "charge")
                 if number_of(folder / f"{form}_now") is not None), "")


def is_battery(folder: Path) -> bool:
    """Of the computer: that of a mouse has the scope Device."""
    return (text_of(folder / "type") or "Battery" * folder.name.startswith("BAT")) == "Battery" \
        and text_of(folder / "scope") != "Device" and text_of(folder / "present") != "0"


class Battery(Meter):
    name = "battery"
    reads = 1.0  # gauges are slower, but a charger may be there for a moment

    def open(self) -> None:
        self.place = Path(self.at or "/sys") / "class" / "power_supply"
        self.gauges = [Gauge(folder, form_of(folder)) for folder in self._batteries()]
        if not self.gauges:
            raise Absent(f"{self.place} has no battery.")
        for gauge in self.gauges:
            if not gauge.form:
                raise Absent(f"{gauge.folder} has neither energy_now nor charge_now.")
        if charger := self._charger():
            raise Absent(f"{charger}. A battery measures only while it feeds the computer: unplug "
                         "the charger.")

    def _batteries(self) -> list[Path]:
        return [folder for folder in folders_in(self.place) if is_battery(folder)]

    def _charger(self) -> str:
        """Why the batteries do not tell what the computer takes, or nothing."""
        for folder in folders_in(self.place):
            if not is_battery(folder) and text_of(folder / "scope") != "Device" and \
                    (number_of(folder / "online") or 0) > 0:
                return f"the charger {folder.name} is plugged in"
        statuses = {folder: text_of(folder / "status") or "Unknown"
                    for folder in self._batteries()}
        if charged := [folder for folder, status in statuses.items() if status == "Charging"]:
            return f"{charged[0].name} is being charged"
        if statuses and not {"Discharging", "Unknown"} & set(statuses.values()):
            return "no battery is discharging, but " + " and ".join(
                f"{folder.name} is {status.casefold()}" for folder, status in statuses.items())
        return ""

    def what(self) -> str:
        return "battery: " + " + ".join(f"{gauge.folder.name} ({gauge.form})"
                                        for gauge in self.gauges)

    def begin(self) -> None:
        self._check()
        self.begun, self.samples = self.clock.now(), 1
        for gauge in self.gauges:
            gauge.begin()

    def _check(self) -> None:
        if charger := self._charger():
            raise Lost(f"{charger}. A battery measures only while it feeds the computer")
        if changed := {gauge.folder for gauge in self.gauges} ^ set(self._batteries()):
            raise Lost(", ".join(sorted(folder.name for folder in changed)) + " came or vanished")

    def read(self) -> None:
        self._check()
        self.samples += 1
        for gauge in self.gauges:
            gauge.read()

    def end(self) -> Energy:
        self.read()
        notes = []
        joules = sum(gauge.joules for gauge in self.gauges)
        if joules < 0:
            raise Lost(f"the batteries rose by {-joules:.0f} J")
        if not any(gauge.moved for gauge in self.gauges):
            raise Lost("no gauge has moved yet, so the size of its steps is unknown: measure for "
                       "longer")
        for gauge in self.gauges:
            if gauge.statuses == {"unknown"}:
                notes.append(f"{gauge.folder.name} was unknown all the time; it counts, too")
        return Energy(joules, self.clock.now() - self.begun,
                      sum(gauge.uncertainty for gauge in self.gauges), self.samples, tuple(notes),
                      tuple((gauge.folder.name, gauge.joules) for gauge in self.gauges))
