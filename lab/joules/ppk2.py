"""Nordic's Power Profiler Kit II, by its package ppk2-api: it feeds a board and measures it."""

import importlib
import re
from typing import Any

from lab.joules.meters import Absent, Energy, Lost, Meter

HERTZ = 100_000  # Sampling rate. A sample's unit is µA.
LEAST_MV, MOST_MV = 800, 5000
MISSING = 0.02  # Largest share of lost samples; if more are lost, there is no measurement.
USAGE = (f"say where it is, and the {LEAST_MV} to {MOST_MV} mV that it feeds the board with: "
         "--meter ppk2 --at /dev/ttyACM0@3300")


class Ppk2(Meter):
    name = "ppk2"
    reads = 0.01  # the line keeps little of 400 kB a second
    kit: Any = None

    def open(self) -> None:
        place = re.fullmatch(r"(/[^@]+)@(\d{3,4})", self.at or "")
        if not place or not LEAST_MV <= int(place[2]) <= MOST_MV:
            raise Absent(f"{USAGE}.")
        try:
            package = importlib.import_module("ppk2_api.ppk2_api")
        except ImportError:
            raise Absent("the Python package ppk2-api is missing: pip install ppk2-api.") from None
        self.device, self.millivolts = place[1], int(place[2])
        try:
            self.kit = package.PPK2_API(self.device, timeout=1, write_timeout=1, exclusive=True)
            if not self.kit.get_modifiers():
                raise Absent(f"{self.device} does not answer as a PPK2.")
            self.kit.use_source_meter()
            self.kit.set_source_voltage(self.millivolts)
            self.kit.toggle_DUT_power("ON")
        except OSError as fault:  # pyserial's are, too
            raise Absent(f"{self.device} cannot be used: {fault}.") from None

    def what(self) -> str:
        return f"ppk2, {self.millivolts} mV"

    def begin(self) -> None:
        self.samples, self.sum, self.peak = 0, 0.0, 0.0
        self.readings: list[tuple[float, float]] = []
        self.kit.start_measuring()
        self.begun = self.clock.now()

    def read(self) -> None:
        try:
            if data := self.kit.get_data():
                samples, _ = self.kit.get_samples(data)
                self.samples += len(samples)
                self.sum += sum(samples)
                self.peak = max(self.peak, *samples, 0.0)
                watts = sum(samples) / max(len(samples), 1) * 1e-9 * self.millivolts
                self.readings.append((self.clock.now() - self.begun, watts))
        except OSError as fault:
            raise Lost(f"{self.device} is gone: {fault}") from None

    def end(self) -> Energy:
        """Lost samples may have had the highest power of all, or none."""
        self.read()
        seconds = self.clock.now() - self.begun
        self.kit.stop_measuring()
        missing = abs(1 - self.samples / (seconds * HERTZ)) if seconds > 0 else 1.0
        if missing > MISSING:
            raise Lost(f"{self.samples:,} samples came in {seconds:.1f} s, not {HERTZ:,} a second")
        watts = self.sum / self.samples * 1e-9 * self.millivolts
        peak_watts = self.peak * 1e-9 * self.millivolts
        uncertainty = (missing * seconds + 2 / HERTZ) * peak_watts
        return Energy(watts * seconds, seconds, uncertainty, self.samples,
                      readings=tuple(self.readings))

    def release(self) -> None:
        """The board keeps its power."""
        if self.kit is not None and self.kit.ser is not None:
            self.kit.ser.close()
            self.kit = None
