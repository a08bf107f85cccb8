"""The independent watchdog of an STM32: RM0090, section 21."""

from __future__ import annotations


class Misuse(Exception):
    """The firmware has done what the manual forbids."""


UPDATE = 5  # periods of the oscillator until a written register has its value: 21.4.4


class Watchdog:
    """Its oscillator has so many periods of the chip's clock, and runs from the start on. The key
    5555 lets the other registers be written, until another one. The counter starts from FFF, and
    AAAA loads it: 21.3."""

    def __init__(self, period: float) -> None:
        self.period, self.open, self.fed = period, False, -1  # -1: it has not begun
        self._left = self._reload = 0xFFF  # the counter at self.fed, and what is loaded into it
        self._prescaler = 0
        self._updates: dict[int, tuple[int, float]] = {}  # offset: value, when it is effective

    def write(self, at: int, value: int, now: int) -> None:
        self._settle(now)
        if at == 0:
            self.open = value == 0x5555
            if value == 0xCCCC and self.fed < 0:
                self.fed = now
            elif value == 0xAAAA and self.fed >= 0:
                self.fed, self._left = now, self._reload
        elif not self.open:
            raise Misuse("the watchdog's registers are locked")
        elif self.fed < 0 or at in self._updates:  # 21.4.2 and 21.4.3; not started: no clock
            raise Misuse("the watchdog's register cannot be written yet")
        else:
            self._updates[at] = value, now + UPDATE * self.period

    def read(self, now: int) -> int:
        """Its status, IWDG_SR: 1 while the prescaler is updated, 2 while the reload value is."""
        self._settle(now)
        return (4 in self._updates) | (8 in self._updates) << 1

    def _settle(self, now: float) -> None:
        for offset, (value, when) in list(self._updates.items()):
            if when > now:
                continue
            del self._updates[offset]
            if offset == 8:
                self._reload = value
            else:
                self._left -= int((when - self.fed) / ((4 << self._prescaler) * self.period))
                self.fed, self._prescaler = int(when), value

    @property
    def ends(self) -> int:
        """When it resets the chip; -1: it has not begun."""
        if self.fed < 0:
            return -1
        return self.fed + int((self._left + 1) * (4 << self._prescaler) * self.period)
