"""Smart plugs: simulated ones over HTTP, whose joules are known."""

import json
from collections.abc import Callable, Container, Iterator

import pytest

from lab.joules import meters
from lab.joules.meters import Absent, Lost
from lab.joules.shelly import Shelly
from lab.joules.standins import SimulatedClock, WebPlug
from tools.programs import free_port


def watts(second: float) -> float:
    """It rises by a tenth a second, so the sum of the readings is exact."""
    return 40 + 0.1 * second


def joules(second: float) -> float:
    return 40 * second + 0.05 * second**2


@pytest.fixture
def web() -> Iterator[WebPlug]:
    plug = WebPlug()
    yield plug
    plug.close()


class Bench:
    """A plug, and the meter that reads it, by a clock that the test sets."""

    def __init__(self, web: WebPlug, generation: int) -> None:
        self.web, self.generation = web, generation
        self.power: Callable[[float], float] = watts
        self.counter: Callable[[float], float] = joules
        self.silent: Container[int] = ()  # seconds
        self.clock = SimulatedClock()
        self.clock.worlds.append(self.world)
        self.clock.sleep(0)
        self.meter = Shelly(web.at, self.clock)
        self.meter.open()
        self.meter.start()

    def world(self, now: float) -> None:
        self.web.answers.clear()
        if (second := now - 1000) not in self.silent:
            self.web.say(self.generation, self.power(second), 7200 + self.counter(second))


@pytest.fixture(params=[1, 2])
def bench(web: WebPlug, request: pytest.FixtureRequest) -> Iterator[Bench]:
    one = Bench(web, request.param)
    yield one
    one.meter.close()


def test_joules_are_read_back_exactly(bench: Bench) -> None:
    """The plug is never switched."""
    bench.clock.sleep(120)
    energy = bench.meter.stop()
    assert energy.joules == pytest.approx(joules(120), abs=1e-6)
    assert energy.seconds == pytest.approx(120)
    assert energy.samples == 121 and energy.notes == ()
    step = {1: 60, 2: 3.6}[bench.generation]
    assert abs(dict(energy.parts)["counter"] - joules(120)) <= step
    assert list(energy.readings[-1]) == pytest.approx([120, watts(120)])
    assert 0 < energy.uncertainty <= 2 * step + watts(120)
    assert f"generation {bench.generation}" in bench.meter.what()
    assert set(bench.web.paths) <= {"/meter/0", *(f"/rpc/{part}.GetStatus?id=0" for part in (
        "Switch", "PM1"))}


def test_a_plug_that_repeats_one_reading_for_ever_is_suspected(bench: Bench) -> None:
    """Its counter does not move, though it says 40 W."""
    bench.power, bench.counter = lambda _: 40, lambda _: 0
    bench.clock.sleep(60)
    energy = bench.meter.stop()
    assert energy.notes == ("warning: the plug's watts make 2400 J, its own counter 0 J, which "
                            "counts",)
    assert energy.joules == 0 and energy.uncertainty >= 2400


@pytest.mark.parametrize("scenario, power, silent", [
    ("100 W while it is silent", lambda at: 100.0 if 5 < at <= 13 else 20.0, range(6, 14)),
    ("bursts between readings", lambda at: 80.0 if 0.1 < at % 1 < 0.4 else 10.0, range(0)),
    ("bursts at readings", lambda at: 80.0 if at % 1 < 0.05 else 10.0, range(0)),
    ("a step", lambda at: 10.0 if at <= 7 else 60.0, range(0))])
def test_the_true_joules_are_within_the_uncertainty(
        web: WebPlug, scenario: str, power: Callable[[float], float], silent: range) -> None:
    """By hand, 15 s with 8 of 100 W: 7 x 20 + 800 = 940 J; the watts alone make 300."""
    def true(second: float) -> float:
        """In steps of a tenth of a second."""
        return sum(power(tenth / 10) / 10 for tenth in range(1, round(10 * second) + 1))

    assert scenario != "100 W while it is silent" or true(15) == pytest.approx(940)
    for generation in (1, 2):
        bench = Bench(web, generation)
        bench.power, bench.counter, bench.silent = power, true, silent
        bench.clock.sleep(15)
        energy = bench.meter.stop()
        assert abs(energy.joules - true(15)) <= energy.uncertainty, energy
        if generation == 2 and scenario != "a step":  # its counter has steps of 3.6 J
            assert energy.notes[0].startswith("warning: the plug's watts make")
            assert energy.joules == pytest.approx(true(15), abs=3.6)
            assert not silent or energy.uncertainty < 60


def test_a_gap_without_a_counter_is_no_measurement(bench: Bench) -> None:
    bench.silent = range(6, 14)
    bench.counter = lambda at: 0.0 if at == 14 else joules(at)
    bench.clock.sleep(20)
    with pytest.raises(Lost, match="the plug was silent for 9 s, and its counter does not show"):
        bench.meter.stop()


READING = {1: '{"power": %s, "is_valid": true, "total": %s}',
           2: '{"apower": %s, "aenergy": {"total": %s}}'}
HOSTILE = [b"", b"on", b"[" * 60000, b"\xff\xfe", b"7" * 70000, b"9" * 5000, b"40", b"null", b"{}",
           b'{"apower": 1}', b'{"apower": 1, "aenergy": 3}',
           b'{"power": 1, "is_valid": false, "total": 1}']


def test_what_cannot_be_a_reading_is_dropped_and_counted(bench: Bench) -> None:
    reading = READING[bench.generation]
    hostile = [*HOSTILE, *((reading % (power, 1)).encode() for power in (
        "NaN", "-3", "1e999", "99999", "9" * 400, '"40"', "true", "null", "{}")),
        *((reading % (1, total)).encode() for total in ('"x"', "-1", "1e13"))]
    bench.clock.sleep(5)
    path, = bench.web.answers
    for bench.web.answers[path] in hostile:
        bench.meter.read()
    bench.clock.sleep(5)
    energy = bench.meter.stop()
    assert energy.joules == pytest.approx(joules(10), abs=1e-6) and energy.samples == 11
    note, = energy.notes
    counts = [int(part.split()[0]) for part in note.partition(": ")[2].split(", ")]
    assert sum(counts) == len(hostile)
    assert all(kind in note for kind in ("too large", "negative", "not JSON", "not finite"))
    assert ("not valid" in note) == (bench.generation == 1)


def test_a_plug_that_falls_silent_is_lost(bench: Bench) -> None:
    bench.silent = range(11, 1000)
    bench.clock.sleep(140)
    with pytest.raises(Lost, match="has said nothing for the first or the last 130 s"):
        bench.meter.stop()
    bench.meter.start()
    bench.clock.sleep(30)
    with pytest.raises(Lost, match="gave no reading in 30 s"):
        bench.meter.stop()


def test_no_plug_is_said() -> None:
    with pytest.raises(Absent, match="127.0.0.1 does not answer as a Shelly: /rpc/Switch.Get"):
        meters.find("shelly", f"http://127.0.0.1:{free_port()}")


@pytest.mark.parametrize("at, says", [
    (None, "say where it is"), *((at, "is no place of a plug") for at in (
        "", "/sys", "ftp://plug", "mqtt://b/x", "http://b:99999", "http://[", "http:///x"))])
def test_a_place_that_is_none_is_refused(at: str | None, says: str) -> None:
    with pytest.raises(Absent, match=says):
        meters.find("shelly", at)


@pytest.mark.parametrize("at", [
    "ftp://me:secret@plug", "me:secret@plug", "http://me:sec/ret@b", "http://me:se@cret@b:x",
    "http://me:secret@plug:99999"])
def test_a_password_is_not_shown(at: str) -> None:
    with pytest.raises(Absent) as absent:
        meters.find("shelly", at)
    assert not any(part in str(absent.value) for part in ("me:", "sec", "ret@")), absent.value


def test_a_plug_that_only_measures(web: WebPlug) -> None:
    """Shelly's PM Mini of generation 3: its part is pm1:0, and it has no switch."""
    web.answers["/rpc/PM1.GetStatus?id=0"] = json.dumps(
        {"id": 0, "apower": 40.0, "aenergy": {"total": 2.0}}).encode()
    clock = SimulatedClock()
    meter = meters.find("shelly", web.at, clock)
    meter.start()
    clock.sleep(10)
    assert meter.stop().readings[-1] == (10.0, 40.0)
