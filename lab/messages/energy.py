"""What a cycle or an instruction costs: models, from data sheets and published measurements."""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    nanojoules: float  # Energy of one cycle or instruction that is counted.
    hertz: int  # The processor's clock at that energy.
    per_count: float  # cycles of the processor for each that is counted
    sleep: float  # µA while it waits for its timer
    source: str

    @property
    def watts(self) -> float:
        """While it computes."""
        return self.nanojoules * 1e-9 * self.hertz / self.per_count


# No Cortex-M4: neither its cycles nor its joules follow from instructions, as `make figures
# ONLY=lab-published` prints. The volts are those of the batteries here. A microcontroller on a
# CR2032 runs at 4 MHz, where the ATmega328P may run down to 1.8 V.
MODELS = {
    "ATmega328P": Model(1.28, 4_000_000, 1.0, 4.2,
                        "data sheet: 1.7 to 2.5 mA at 4 MHz and 3 V; 4.2 to 8 µA asleep"),
    # 1.4 cycles an instruction is a guess: loads, stores and branches take two.
    "Cortex-M0+": Model(0.37, 16_000_000, 1.4, 0.8,
                        "an STM32L053 at 3 V: 88 to 139 µA a MHz; 0.8 µA asleep with its clock"),
}


@dataclass(frozen=True)
class Battery:
    name: str
    milliampere_hours: float
    volts: float
    yearly_loss: float  # the share that is lost in a year by itself
    shelf: float  # years for which its maker lets it lie, and no longer
    # ../sources.md has the ranges of these, and where they come from.

    @property
    def joules(self) -> float:
        return self.milliampere_hours * 3.6 * self.volts


BATTERIES = {
    "cr2032": Battery("a CR2032", 225, 3.0, 0.01, 10),
    "aaa": Battery("two AAA cells, alkaline", 1200, 3.0, 0.03, 10),
    "aa": Battery("two AA cells, alkaline", 2800, 3.0, 0.03, 10),
    "er14505": Battery("an ER14505, lithium", 2400, 3.6, 0.01, 10),
}


# ---- sending, by data sheets --------------------------------------------------------------------
@dataclass(frozen=True)
class Sent:
    """What a message takes on its way, and for how long: joules at least, as tables have it, and at
    most."""
    seconds: float
    least: float
    usual: float
    most: float


@dataclass(frozen=True)
class Medium:
    title: str
    source: str
    waits: float  # µA between two messages, of all that this needs beside the processor
    send: Callable[[list[int], float, Model], Sent]  # frames of so many bytes, at bits a second


def can_bits(size: int) -> int:
    """A frame of at most 8 bytes with a short identifier: with the most bits that stuffing can add,
    and 3 bits until the next frame."""
    return 47 + 8 * size + (33 + 8 * size) // 4


def over_can(frames: list[int], bitrate: float, model: Model) -> Sent:
    """Half of the bits are dominant: then 1.5 to 3 V, mostly 2, lie on the 60 ohms of the bus. The
    transceiver takes 10 to 17 mA, and the controller 5 to 10."""
    seconds = sum(map(can_bits, frames)) / bitrate
    return Sent(seconds, *((amperes + volts / 60 / 2) * 3.3 * seconds
                           for amperes, volts in ((0.015, 1.5), (0.015, 2.0), (0.027, 3.0))))


def over_uart(frames: list[int], bitrate: float, model: Model) -> Sent:
    """10 bits a byte, for which the processor is awake, or waits with most of it asleep."""
    seconds = sum(frames) * 10 / 115_200
    return Sent(seconds, *(share * seconds * model.watts for share in (0.15, 1, 1)))


def over_nrf(frames: list[int], bitrate: float, model: Model) -> Sent:
    """1 Mbit/s: 8 bytes and 9 bits around at most 32 bytes; 130 µs of settling; at most the start
    of the crystal, too."""
    sizes = [min(32, sum(frames) - offset) for offset in range(0, sum(frames), 32)]
    seconds, settling = sum(73 + 8 * size for size in sizes) * 1e-6, 130e-6 * len(sizes)
    return Sent(seconds + settling, *(3 * (start + settling * 0.008 + amperes * seconds) for
                                      start, amperes in ((0, 0.007), (0, 0.0113),
                                                         (1.5e-3 * 0.0004, 0.0113))))


def lora_seconds(size: int, spreading: int) -> float:
    """125 kHz, 4/5, 8 symbols of preamble, a header and a CRC: section 4.1.1.7 of the sheet."""
    slow = 2 * (spreading > 10)
    symbols = math.ceil((8 * size - 4 * spreading + 44) / (4 * (spreading - slow))) * 5
    return (8 + 4.25 + 8 + max(symbols, 0)) * (1 << spreading) / 125_000


def over_lora(frames: list[int], bitrate: float, model: Model) -> Sent:
    return Sent(lora_seconds(sum(frames), 9), *(
        lora_seconds(sum(frames), spreading) * amperes * 3.3
        for spreading, amperes in ((7, 0.020), (9, 0.029), (12, 0.029))))


MEDIA = {
    "can": Medium("CAN", "SN65HVD230, TI SLOS346: 10 to 17 mA at 3.3 V, and what the bus takes; an "
                  "MCP2515,\n    from memory: 5 to 10 mA", 370 + 5, over_can),
    "uart": Medium("a UART of 115,200 baud", "the processor's power: asleep but for the UART 15 %, "
                   "a guess", 0.0, over_uart),
    "nrf": Medium("an nRF24L01+", "its specification 1.0: 7.0 mA at -18 dBm to 11.3 mA at 0 dBm",
                  0.9, over_nrf),
    "lora": Medium("LoRa", "SX1276, from memory: SF7 with 7 dBm and 20 mA to SF12 with 13 dBm and "
                   "29 mA; here SF9", 0.2, over_lora),
}

DAYS_A_YEAR = 365.25
SECONDS_A_YEAR = DAYS_A_YEAR * 86400


def years(battery: Battery, joules: float, every: float, sleep: float) -> float:
    """How long a battery lasts, with a message of so many joules every so many seconds, and µA of
    sleep in between. The battery's own loss runs beside."""
    loss = battery.joules * battery.yearly_loss / SECONDS_A_YEAR
    watts = joules / every + sleep * 1e-6 * battery.volts + loss
    return battery.joules / watts / SECONDS_A_YEAR
