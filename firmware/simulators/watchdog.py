"""The independent watchdog of an STM32 and of a CH32V003: RM0090, section 21.3."""

from __future__ import annotations


class Misuse(Exception):
    """The firmware has done what the manual forbids."""


class Watchdog:
    """Its oscillator has so many periods of the chip's clock. The key 5555 lets the other registers
    be written, until another one."""

    def __init__(self, period: float) -> None:
        self.period, self.open, self.fed, self.prescaler, self.reload = period, False, -1, 0, 0xFFF

    def write(self, at: int, value: int, now: int) -> None:
        if at == 0:
            self.open = value == 0x5555
            if value == 0xCCCC or value == 0xAAAA and self.fed >= 0:
                self.fed = now
        elif not self.open:
            raise Misuse("the watchdog's registers are locked")
        elif at == 4:
            self.prescaler = value
        else:
            self.reload = value

    @property
    def ends(self) -> int:
        """When it resets the chip; -1: it has not begun."""
        if self.fed < 0:
            return -1
        return self.fed + int((self.reload + 1) * (4 << self.prescaler) * self.period)
