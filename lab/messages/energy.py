"""What a cycle or an instruction costs: models, from data sheets and published measurements.
SPDX-License-Identifier: MIT"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    nanojoules: float  # of one cycle or instruction
    hertz: int  # of the processor, at that energy
    per_count: float  # cycles of the processor for each that is counted
    sleep: float  # µA while it waits for its timer
    source: str


# The volts are those of the batteries here. A microcontroller on a CR2032 runs at 4 MHz, where
# the ATmega328P may run down to 1.8 V.
MODELS = {
    "ATmega328P": Model(1.28, 4_000_000, 1.0, 4.2,
                        "data sheet, typical: 1.7 mA at 4 MHz and 3 V; 4.2 µA asleep"),
    # Both are medians that `make figures ONLY=lab-published` prints, and a test compares them.
    "Cortex-M4": Model(1.04, 96_000_000, 1.52, 9.0,
                       "an STM32F411 at 96 MHz and 3 V, as published; 9 µA in stop mode"),
}


@dataclass(frozen=True)
class Battery:
    name: str
    milliampere_hours: float
    volts: float
    yearly_loss: float  # the share that is lost in a year by itself

    @property
    def joules(self) -> float:
        return self.milliampere_hours * 3.6 * self.volts


BATTERIES = {
    "cr2032": Battery("a CR2032", 225, 3.0, 0.01),
    "aaa": Battery("two AAA cells, alkaline", 1200, 3.0, 0.03),
    "aa": Battery("two AA cells, alkaline", 2800, 3.0, 0.03),
    "er14505": Battery("an ER14505, lithium", 2400, 3.6, 0.01),
}
# Of core and fixed access networks: Aslan, Mayers, Koomey and France, "Electricity Intensity of
# Internet Data Transmission", Journal of Industrial Ecology 22 (2018): 0.06 kWh for a gigabyte in
# 2015, which had halved every two years since 2000. The range: as in 2015, and halved until 2025.
NETWORK_MILLIJOULES_A_BYTE = 0.06 / 2**5 * 3.6e9 / 1e9, 0.06 * 3.6e9 / 1e9
SECONDS_A_YEAR = 365.25 * 86400


def years(battery: Battery, joules: float, every: float, sleep: float) -> float:
    """How long a battery lasts, with a message of so many joules every so many seconds, and µA of
    sleep in between. The battery's own loss runs beside."""
    loss = battery.joules * battery.yearly_loss / SECONDS_A_YEAR
    watts = joules / every + sleep * 1e-6 * battery.volts + loss
    return battery.joules / watts / SECONDS_A_YEAR
