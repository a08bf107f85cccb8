"""A smart plug of Shelly's, generation 1, 2 or later, over HTTP: its watts, each second.

Its own counter of energy is a second opinion: it has all that was between two readings. The joules
are as uncertain as the two differ, and by the counter's own steps; if they disagree, or there was a
gap, the counter's joules are the result. The plug is only polled; nothing here switches it."""

import base64
import http.client
import json
import math
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from lab.joules.meters import Absent, Energy, Lost, Meter, without_login

MOST_WATTS = 5000.0  # no plug takes more
MOST_BYTES = 1 << 16  # Limit of an answer.
MOST_READINGS = 200_000  # Limit of a turn; a day has 86,400 seconds.
GAP = 5.0  # seconds without a reading, from which on it counts as a gap
PATHS = ((2, "/rpc/Switch.GetStatus?id=0"), (2, "/rpc/PM1.GetStatus?id=0"), (1, "/meter/0"))
TIMEOUT = 3.0  # seconds for an answer
AGREED = 0.02  # Share of the joules by which watts and counter may differ without a warning.
USAGE = "say where it is: --meter shelly --at http://PLUG"


@dataclass(frozen=True)
class Generation:
    watt_step: float  # watts
    counter_step: float  # joules


GENERATIONS = {1: Generation(0.01, 60.0), 2: Generation(0.1, 3.6)}


class Refused(Exception):
    """What the plug said cannot be a reading; the text is the kind of fault."""


def believed(value: object, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refused("not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused("not finite")
    if value < 0:
        raise Refused("negative")
    if value > most:
        raise Refused("too large")
    return float(value)


def parsed(payload: bytes) -> Any:
    if len(payload) > MOST_BYTES:
        raise Refused("too long")
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise Refused("not JSON") from None


def member(value: Any, *names: str) -> Any:
    for name in names:
        if not isinstance(value, dict) or name not in value:
            raise Refused("without " + ".".join(names))
        value = value[name]
    return value


def watts_of(value: object) -> float:
    return believed(value, MOST_WATTS)


def joules_of(value: object, unit: float) -> float:
    """Of a counter in watt-minutes (60 J) or watt-hours."""
    return believed(value, 1e12) * unit


def second_generation(payload: bytes) -> tuple[float, float]:
    """Watts and joules of the status of a switch, or of what only measures."""
    status = parsed(payload)
    return watts_of(member(status, "apower")), joules_of(member(status, "aenergy", "total"), 3600)


def first_generation(payload: bytes) -> tuple[float, float]:
    """Of /meter/0. A reading counts only if the plug says that it is valid."""
    status = parsed(payload)
    if member(status, "is_valid") is not True:
        raise Refused("not valid")
    return watts_of(member(status, "power")), joules_of(member(status, "total"), 60)


@dataclass
class Second:
    """The plug's own counter, from the start on."""

    first: float | None = None  # joules
    last: float | None = None
    first_at: float = 0.0
    last_at: float = 0.0
    back: bool = False  # it went back, as after a restart of the plug

    def take(self, joules: float, now: float) -> None:
        if self.last is None:
            self.first, self.first_at = joules, now
        else:
            self.back |= joules < self.last
        self.last, self.last_at = joules, now

    def opinion(self) -> float | None:
        return None if self.first is None or self.last is None or self.back else \
            self.last - self.first


def integral(points: list[tuple[float, float]],
             until: float) -> tuple[float, float, list[float], float]:
    """Joules of these (seconds, watts), from the first to `until`; how uncertain; the gaps, and the
    joules in these.

    Between two readings the power is taken to go straight from one to the other. It may have
    changed at any moment: in an interval of the usual length that is off by up to half the change,
    each to its own side. What a gap or a burst had is for the counter to tell."""
    joules = squares = in_gaps = 0.0
    gaps = []
    for (begin, before), (end, after) in zip(points, [*points[1:], (until, points[-1][1])]):
        lasted = max(0.0, end - begin)
        joules += lasted * (before + after) / 2
        squares += (lasted * (after - before) / 2) ** 2
        if lasted > GAP:
            gaps.append(lasted)
            in_gaps += lasted * (before + after) / 2
    return joules, math.sqrt(squares), gaps, in_gaps


class Shelly(Meter):
    name = "shelly"

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.generation, self._path = 0, ""
        self._forget()

    def _forget(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._second = Second()
        self._dropped: Counter[str] = Counter()

    def _take(self, watts: float, joules: float) -> None:
        now = self.clock.now()
        if len(self._points) >= MOST_READINGS:
            self._dropped["too many"] += 1
        else:
            self._points.append((now, watts))
        self._second.take(joules, now)

    def open(self) -> None:
        if self.at is None:
            raise Absent(USAGE + ".")
        try:
            self.place = place = urlsplit(self.at)
            is_place = place.scheme == "http" and bool(place.hostname) and place.port != 0
        except ValueError:  # its text may have a part of a password
            is_place = False
        if not is_place:
            raise Absent(f"{without_login(self.at)} is no place of a plug; {USAGE}.")
        login = f"{unquote(place.username or '')}:{unquote(place.password or '')}".encode()
        self._headers = {"Authorization": "Basic " + base64.b64encode(login).decode()} \
            if place.username else {}
        faults = []
        for self.generation, self._path in PATHS:
            try:
                self._take(*self._get())
                return
            except (OSError, ValueError, Refused) as fault:
                faults.append(f"{self._path}: {fault}")
        raise Absent(f"{place.hostname} does not answer as a Shelly: {'; '.join(faults)}.")

    def what(self) -> str:
        port = f":{self.place.port}" if self.place.port else ""
        return (f"shelly: generation {self.generation}, http://{self.place.hostname}{port}"
                f"{self.place.path}")

    def _get(self) -> tuple[float, float]:
        """Within TIMEOUT in all, even if every byte comes after a while."""
        assert self.place.hostname
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port,
                                                timeout=TIMEOUT)
        connection.connect()
        late = threading.Timer(TIMEOUT, connection.sock.shutdown, [socket.SHUT_RDWR])
        late.start()
        try:
            connection.request("GET", self.place.path.rstrip("/") + self._path,
                               headers=self._headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(f"{answer.status} {answer.reason}")
            body = answer.read(MOST_BYTES + 1)
        except http.client.HTTPException as fault:
            raise OSError(f"no answer in HTTP: {fault!r}") from None
        finally:
            late.cancel()
            connection.close()
        return (second_generation if self.generation == 2 else first_generation)(body)

    # The measurement.

    def begin(self) -> None:
        self._forget()
        self.begun = self.clock.now()
        self.read()

    def read(self) -> None:
        try:
            self._take(*self._get())
        except Refused as why:
            self._dropped[str(why)] += 1
        except (OSError, ValueError):
            self._dropped["no answer"] += 1

    def end(self) -> Energy:
        until = self.clock.now()
        if not self._points:
            raise Lost(f"the plug gave no reading in {until - self.begun:.0f} s")
        silent = max(until - self._points[-1][0], self._points[0][0] - self.begun)
        if silent > GAP:  # The counter does not show what happened at an end.
            raise Lost(f"the plug has said nothing for the first or the last {silent:.0f} s")
        points = [(self.begun, self._points[0][1]), *self._points]
        joules, uncertainty, gaps, in_gaps = integral(points, until)
        seconds = until - self.begun
        step = GENERATIONS[self.generation]
        uncertainty += step.watt_step / 2 * seconds
        notes = self._notes(gaps)
        counted = self._second.opinion()
        if counted is None and gaps:
            raise Lost(f"the plug was silent for {max(gaps):.0f} s, and its counter does not "
                       "show what happened then")
        if counted is None:
            notes.append("no counter of the plug: bursts between two readings do not show")
        else:
            # By a step, and by what was taken between its first or last reading and that end.
            off = step.counter_step + max(power for _, power in points) * (
                abs(self._second.first_at - self.begun) + until - self._second.last_at)
            apart, allowed = abs(counted - joules), uncertainty + off + AGREED * joules
            if apart > allowed:
                notes.insert(0, f"warning: the plug's watts make {joules:.0f} J, its own "
                                f"counter {counted:.0f} J, which counts")
            if gaps and counted + allowed > joules - in_gaps:  # watts say nothing of the gaps
                joules, apart = counted, 0.0
            elif apart > allowed:
                joules = counted
            uncertainty = max(uncertainty, apart + off)
        return Energy(joules, seconds, uncertainty, len(self._points), tuple(notes),
                      () if counted is None else (("counter", counted),),
                      tuple((moment - self.begun, watts) for moment, watts in self._points))

    def _notes(self, gaps: list[float]) -> list[str]:
        notes = []
        if gaps:
            notes.append(f"{len(gaps)} gaps without readings, {sum(gaps):.0f} s in all, "
                         f"the longest {max(gaps):.0f} s")
        if self._dropped:
            notes.append("readings dropped: " + ", ".join(
                f"{count} {why}" for why, count in self._dropped.items()))
        if self._second.back:
            notes.append("the plug's counter went back: no second opinion")
        return notes
