"""The energy counters of a processor, as Linux shows them under /sys/class/powercap (RAPL).

A package is a processor. Its domains core and uncore are parts of it; dram is beside it; psys is
the whole machine, with the packages in it. So the sum is that of packages and dram: every domain is
shown, and none counts twice."""

import re
from dataclasses import dataclass
from pathlib import Path

from lab.joules.meters import (Absent, Energy, Lost, Meter, folders_in, is_forbidden, number_of,
                               text_of)

BELIEVABLE = 2000.0  # watts of a domain; what counts more was set back, as by a suspend
LEAST_SPAN = 40_000_000  # µJ: read every 10 ms; the ranges of processors are 1,000 times as large
STEP = 61.04  # µJ: Intel's and AMD's largest usual unit, 2^-14 J
SLACK = 1.0  # seconds that the reading may come after the clock's
STUCK = 2.0  # seconds in which every counter moves
UPDATE = 0.001  # seconds between two updates of the counter
READABLE = ("sudo chmod a+r /sys/class/powercap/*/energy_uj allows it to everybody until the next "
            "boot; this line in /etc/udev/rules.d/90-rapl.rules does for good: "
            'SUBSYSTEM=="powercap", RUN+="/bin/chmod a+r /sys%p/energy_uj"')


@dataclass
class Domain:
    name: str  # package-0, package-0/dram
    file: Path
    span: int  # µJ after which it begins again at 0
    last: int = 0  # µJ
    counted: int = 0  # µJ since begin()
    wraps: int = 0
    watts: float | None = None  # between the last two readings
    doubt: float = 0.0  # joules, of wraps that may have been something else

    def now(self) -> int | None:
        """What the counter shows, if that is possible."""
        value = number_of(self.file)
        return value if value is not None and 0 <= value <= self.span else None

    @property
    def in_sum(self) -> bool:
        return self.name.startswith("package") and "/" not in self.name or \
            self.name.endswith("/dram")


def domains(sys: Path) -> list[Domain]:
    """All that have a counter. intel-rapl-mmio shows packages once more, by another way."""
    counters: list[Domain] = []
    names: dict[str, str] = {}  # A folder's name, with that of its package before it.
    for folder in folders_in(sys / "class" / "powercap"):
        name = text_of(folder / "name")
        span = number_of(folder / "max_energy_range_uj")
        if not re.fullmatch(r"intel-rapl(:\d+)+", folder.name) or not name or not span or span < 0:
            continue
        parent = names.get(folder.name.rpartition(":")[0])
        names[folder.name] = f"{parent}/{name}" if parent else name
        counters.append(Domain(names[folder.name], folder / "energy_uj", span))
    return counters


class Rapl(Meter):
    name = "rapl"

    def open(self) -> None:
        sys = Path(self.at or "/sys")
        self.domains = domains(sys)
        if not any(domain.in_sum for domain in self.domains):
            raise Absent(f"{sys}/class/powercap has no counter of a processor. Virtual machines "
                         "have none; on a computer of Intel's or AMD's, `modprobe "
                         "intel_rapl_msr` may bring it.")
        for domain in self.domains:
            if domain.now() is None:
                why = f"can be read only by root: run this as root, or {READABLE}" \
                    if is_forbidden(domain.file) else \
                    f"holds no number from 0 to {domain.span}."
                raise Absent(f"{domain.file} {why}")
            if domain.span < LEAST_SPAN:
                raise Absent(f"{domain.name} has a range of {domain.span * 1e-6:g} J, which is too "
                             "small: it would be full before it is read.")
        # Half of the time in which the shortest counter would wrap at a power beyond belief.
        self.reads = min(1.0, min(domain.span for domain in self.domains) * 1e-6 / BELIEVABLE / 2)

    def what(self) -> str:
        return "rapl: " + " + ".join(domain.name for domain in self.domains if domain.in_sum)

    def begin(self) -> None:
        self.samples = 1
        self.begun = self.read_at = self.clock.now()
        for domain in self.domains:
            domain.last, domain.counted, domain.wraps = self._value(domain), 0, 0
            domain.watts, domain.doubt = None, 0.0

    def _value(self, domain: Domain) -> int:
        value = domain.now()
        if value is None:
            raise Lost(f"{domain.file} cannot be read any more, or has left its range")
        return value

    def read(self) -> None:
        now = self.clock.now()
        passed, self.read_at = now - self.read_at, now
        self.samples += 1
        for domain in self.domains:
            value = self._value(domain)
            step = (value - domain.last) % domain.span
            if step * 1e-6 > BELIEVABLE * (passed + SLACK):
                raise Lost(f"{domain.name} went from {domain.last} to {value} µJ within "
                           f"{passed:.3f} s, which cannot be: was the computer suspended?")
            if value < domain.last:  # near its end, a counter that was set back looks like a wrap
                domain.wraps += 1
                domain.doubt += abs(step * 1e-6 - (domain.watts or 0.0) * passed)
            domain.watts = step * 1e-6 / passed if passed > 0 else domain.watts
            domain.counted += step
            domain.last = value

    def end(self) -> Energy:
        self.read()
        seconds = self.read_at - self.begun
        # Some processors show a dram that they do not count: it stays 0.
        absent = [domain for domain in self.domains if domain.in_sum and domain.name.endswith(
            "/dram") and not domain.counted and not domain.last and seconds > STUCK]
        counted = [domain for domain in self.domains if domain.in_sum and domain not in absent]
        joules = sum(domain.counted for domain in counted) * 1e-6
        if seconds > STUCK and not all(domain.counted for domain in counted):
            raise Lost(f"a counter of {self.what()} stood still for {seconds:.1f} s; no processor "
                       "takes nothing")
        notes = [f"{domain.name} stayed 0: it is left out" for domain in absent]
        notes += [f"{domain.name} began again {domain.wraps} times; if it was set back, the joules "
                  f"are off by {domain.doubt:.0f} J" for domain in counted if domain.doubt >= 1]
        # Each counter is a unit and an update old, at both ends; at a wrap it may skip a unit.
        uncertainty = sum((2 + domain.wraps) * STEP * 1e-6 + domain.doubt for domain in counted)
        uncertainty += 2 * UPDATE * joules / seconds if seconds > 0 else 0.0
        return Energy(joules, seconds, uncertainty, self.samples, tuple(notes),
                      tuple((domain.name, domain.counted * 1e-6) for domain in self.domains))
