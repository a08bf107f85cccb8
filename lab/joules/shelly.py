"""A smart plug of Shelly's, generation 1 or 2, over MQTT or HTTP: its watts, each second.

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
from urllib.parse import SplitResult, unquote, urlsplit

from lab.joules.meters import Absent, Energy, Lost, Meter, without_login

MOST_WATTS = 5000.0  # no plug takes more
MOST_BYTES = 1 << 16  # Limit of an answer.
LONGEST = 200  # characters of a prefix; MQTT has topics of at most 65,535 bytes
MOST_READINGS = 200_000  # Limit of a turn; a day has 86,400 seconds.
GAP = 5.0  # seconds without a reading, from which on it counts as a gap
PATIENCE = 40.0  # seconds for the first reading: generation 1 may report every 30 s only
PATHS = ((2, "/rpc/Switch.GetStatus?id=0"), (2, "/rpc/PM1.GetStatus?id=0"), (1, "/meter/0"))
PARTS = "switch", "pm1"  # Components of generation 2; a plug has either.
TIMEOUT = 3.0  # seconds for an answer over HTTP
AGREED = 0.02  # Share of the joules by which watts and counter may differ without a warning.
USAGE = ("say where it is: --meter shelly --at mqtt://BROKER[:PORT]/PREFIX, with the PREFIX "
         "shellies/ID for generation 1, or --at http://PLUG")


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
    """Watts and joules of a switch's status, over MQTT or HTTP."""
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
        self._lock = threading.Lock()
        self._heard = threading.Event()
        self._client: Any = None
        self._refusal = ""
        self.generation, self._path = 0, ""
        self._last: tuple[float, float] | None = None  # when, watts
        self._last_joules: float | None = None
        self._forget()

    def _forget(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._second = Second()
        self._dropped: Counter[str] = Counter()
        self._breaks = 0
        self.samples = 0

    # What the plug says: from MQTT's thread, or from read().

    def _take(self, watts: float | None, joules: float | None) -> None:
        with self._lock:
            now = self.clock.now()
            if watts is not None and len(self._points) >= MOST_READINGS:
                self._dropped["too many"] += 1
            elif watts is not None:
                self._last = now, watts
                self._points.append(self._last)
                self.samples += 1
                self._heard.set()
            if joules is not None:
                self._last_joules = joules
                self._second.take(joules, now)

    def _drop(self, why: str) -> None:
        with self._lock:
            self._dropped[why] += 1

    def open(self) -> None:
        if self.at is None:
            raise Absent(USAGE + ".")
        try:
            place = urlsplit(self.at)
            port = place.port
        except ValueError:  # its text may have a part of a password
            raise Absent(f"{without_login(self.at)} is no place of a plug; {USAGE}.") from None
        if place.scheme not in ("mqtt", "http") or not place.hostname:
            raise Absent(f"{without_login(self.at)} is no place of a plug; {USAGE}.")
        self.place = place
        if place.scheme == "mqtt":
            self._open_mqtt(place, port)
        else:
            self._open_http(place)

    def what(self) -> str:
        port = f":{self.place.port}" if self.place.port else ""
        return (f"shelly: generation {self.generation}, {self.place.scheme}://"
                f"{self.place.hostname}{port}{self.place.path}")

    # Over MQTT.

    def _open_mqtt(self, place: SplitResult, port: int | None) -> None:
        self._prefix = unquote(place.path).strip("/")
        if not 0 < len(self._prefix) <= LONGEST or set(self._prefix) & set("#+\0"):
            raise Absent(f"{without_login(self.at)} has no prefix of topics; {USAGE}.")
        try:
            from paho.mqtt import client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise Absent("the Python package paho-mqtt is missing; `make setup` installs it."
                         ) from None
        client = self._client = mqtt.Client(CallbackAPIVersion.VERSION2)
        if place.username:
            client.username_pw_set(unquote(place.username), unquote(place.password or ""))
        client.reconnect_delay_set(1, 5)
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_message = self._message
        broker = f"{place.hostname}:{port or 1883}"
        try:
            client.connect(place.hostname or "", port or 1883)
        except (OSError, ValueError) as fault:
            raise Absent(f"no MQTT broker answers at {broker}: {fault}.") from None
        client.loop_start()
        for _ in range(math.ceil(PATIENCE)):
            if self._heard.wait(1.0) or self._refusal:
                break
            self.read()
        if self._refusal:
            raise Absent(f"the MQTT broker at {broker} refuses: {self._refusal}.")
        if not self._heard.is_set():
            heard = "it said only " + self._faults() if self._dropped else "nothing came"
            raise Absent(f"in {PATIENCE:.0f} s no reading came from {self._prefix} over the broker "
                         f"at {broker}: {heard}. Is it the plug's prefix, and is its MQTT on?")

    def _connected(self, client: Any, data: object, flags: object, reason: Any,
                   properties: object) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
            return
        client.subscribe([*((f"{self._prefix}/{topic}", 0) for topic in (
            "relay/0/power", "relay/0/energy", "status/switch:0", "status/pm1:0"))])
        self._ask()

    def _disconnected(self, *_: object) -> None:
        with self._lock:
            self._breaks += 1

    def _ask(self) -> None:
        """All of them report at once when they are asked to; else only after a change."""
        if self._client.is_connected():
            self._client.publish(f"{self._prefix}/command", "update")
            for part in PARTS:
                self._client.publish(f"{self._prefix}/command/{part}:0", "status_update")

    def _message(self, client: object, data: object, message: Any) -> None:
        if message.retain:  # the broker kept it: nobody knows from when it is
            self._drop("kept by the broker")
            return
        try:
            if message.topic.endswith("/power"):
                self.generation = 1
                self._take(watts_of(parsed(message.payload)), None)
            elif message.topic.endswith("/energy"):
                self._take(None, joules_of(parsed(message.payload), 60))
            else:
                reading = second_generation(message.payload)
                self.generation = 2
                self._take(*reading)
        except Refused as why:
            self._drop(str(why))

    # Over HTTP.

    def _open_http(self, place: SplitResult) -> None:
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
        with self._lock:
            self._forget()
            self.begun = self.clock.now()
            if self._last is not None and self.begun - self._last[0] <= GAP:
                self._points.append((self.begun, self._last[1]))
                if self._last_joules is not None:
                    self._second.take(self._last_joules, self._last[0])
        self.read()

    def read(self) -> None:
        if self._client is not None:
            self._ask()
            return
        try:
            self._take(*self._get())
        except Refused as why:
            self._drop(str(why))
        except (OSError, ValueError):
            self._drop("no answer")

    def end(self) -> Energy:
        with self._lock:
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
            return Energy(joules, seconds, uncertainty, self.samples, tuple(notes),
                          () if counted is None else (("counter", counted),),
                          tuple((moment - self.begun, watts) for moment, watts in self._points))

    def _faults(self) -> str:
        return ", ".join(f"{count} {why}" for why, count in self._dropped.items())

    def _notes(self, gaps: list[float]) -> list[str]:
        notes = []
        if gaps:
            notes.append(f"{len(gaps)} gaps without readings, {sum(gaps):.0f} s in all, "
                         f"the longest {max(gaps):.0f} s")
        if self._breaks:
            notes.append(f"the connection to the broker broke {self._breaks} times")
        if self._dropped:
            notes.append(f"readings dropped: {self._faults()}")
        if self._second.back:
            notes.append("the plug's counter went back: no second opinion")
        return notes

    def release(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None
