"""Smart plugs: simulated ones, at a real MQTT broker and over HTTP, whose joules are known."""

import json
from collections.abc import Callable, Iterator

import pytest

from lab.joules import meters, shelly
from lab.joules.meters import Absent, Energy, Lost
from lab.joules.shelly import Shelly
from lab.joules.standins import Broker, Plug, SimulatedClock, WebPlug
from tools.programs import free_port, wait_until

PREFIXES = {1: "shellies/shellyplug-s-1A2B3C", 2: "shellyplusplugs-1a2b3c"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    one = Broker()
    yield one
    one.stop()


def watts(second: float) -> float:
    """It rises by a tenth a second, so the sum of the readings is exact."""
    return 40 + 0.1 * second


def joules(second: float) -> float:
    return 40 * second + 0.05 * second**2


class Bench:
    """A plug at a broker, and the meter that reads it, by a clock that the test sets."""

    def __init__(self, broker: Broker, generation: int) -> None:
        self.clock = SimulatedClock()
        self.plug = Plug(broker, PREFIXES[generation], generation)
        self.meter = Shelly(f"mqtt://127.0.0.1:{broker.port}/{PREFIXES[generation]}", self.clock)
        self.plug.answer = watts(0), 7200.0
        self.meter.open()
        self.plug.answer = None
        self.settle()

    def settle(self) -> None:
        """What the plug has said until now has arrived."""
        dropped = sum(self.meter._dropped.values())
        self.plug.publish("status/switch:0", b"settled")
        wait_until(lambda: sum(self.meter._dropped.values()) > dropped, "the last word of the plug")

    def say(self, power: float, counter: float) -> None:
        samples = self.meter.samples
        self.plug.say(power, 7200 + counter)
        wait_until(lambda: self.meter.samples > samples, "a reading that arrives")

    def run(self, begin: int, end: int, *, power: Callable[[float], float] = watts,
            counter: Callable[[float], float] = joules) -> None:
        for second in range(begin + 1, end + 1):
            self.clock.sleep(1)
            self.say(power(second), counter(second))

    def close(self) -> None:
        self.meter.close()
        self.plug.close()


@pytest.fixture(params=[1, 2])
def bench(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Bench]:
    one = Bench(broker, request.param)
    yield one
    one.close()


def test_joules_are_read_back_exactly(bench: Bench) -> None:
    bench.meter.start()
    bench.run(0, 120)
    energy = bench.meter.stop()
    assert energy.joules == pytest.approx(joules(120), abs=1e-6)
    assert energy.seconds == pytest.approx(120)
    assert energy.samples == 120 and energy.notes == ()
    step = {1: 60, 2: 3.6}[bench.plug.generation]
    assert abs(dict(energy.parts)["counter"] - joules(120)) <= step
    assert list(energy.readings[-1]) == pytest.approx([120, watts(120)])
    assert 0 < energy.uncertainty <= 2 * step + watts(120)
    assert f"generation {bench.plug.generation}" in bench.meter.what()


def test_a_plug_that_repeats_one_reading_for_ever_is_suspected(bench: Bench) -> None:
    """Its counter does not move, though it says 40 W."""
    bench.meter.start()
    bench.run(0, 60, power=lambda _: 40, counter=lambda _: 0)
    energy = bench.meter.stop()
    assert energy.notes == ("warning: the plug's watts make 2400 J, its own counter 0 J, which "
                            "counts",)
    assert energy.joules == 0 and energy.uncertainty >= 2400


def hostile(bench: Bench, seconds: int, power: Callable[[float], float],
            silent: range = range(0)) -> tuple[float, Energy]:
    """The true joules, in steps of a tenth of a second, and those of the meter."""
    bench.meter.start()
    true = 0.0
    for tenth in range(1, 10 * seconds + 1):
        true += power(tenth / 10) / 10
        bench.clock.sleep(0.1)
        if tenth % 10 == 0 and tenth // 10 not in silent:
            bench.say(power(tenth // 10), true)
    return true, bench.meter.stop()


@pytest.mark.parametrize("scenario, power, silent", [
    ("100 W while it is silent", lambda at: 100.0 if 5 < at <= 13 else 20.0, range(6, 14)),
    ("bursts between readings", lambda at: 80.0 if 0.1 < at % 1 < 0.4 else 10.0, range(0)),
    ("bursts at readings", lambda at: 80.0 if at % 1 < 0.05 else 10.0, range(0)),
    ("a step", lambda at: 10.0 if at <= 7 else 60.0, range(0))])
def test_the_true_joules_are_within_the_uncertainty(
        bench: Bench, scenario: str, power: Callable[[float], float], silent: range) -> None:
    """By hand, 15 s with 8 of 100 W: 7 x 20 + 800 = 940 J; the watts alone make 300."""
    true, energy = hostile(bench, 15, power, silent)
    assert scenario != "100 W while it is silent" or true == pytest.approx(940)
    assert abs(energy.joules - true) <= energy.uncertainty, energy
    if bench.plug.generation == 2 and scenario != "a step":  # its counter has steps of 3.6 J
        assert energy.notes[0].startswith("warning: the plug's watts make")
        assert energy.joules == pytest.approx(true, abs=3.6)
        assert not silent or energy.uncertainty < 60


def test_a_gap_without_a_counter_is_no_measurement(bench: Bench) -> None:
    bench.meter.start()
    bench.run(0, 5)
    bench.clock.sleep(8)
    bench.run(13, 20, counter=lambda at: 0.0 if at < 15 else joules(at))
    with pytest.raises(Lost, match="the plug was silent for 9 s, and its counter does not show"):
        bench.meter.stop()


HOSTILE = [b"", b"NaN", b"-3", b"1e999", b"99999", b"9" * 5000, b"9" * 400, b"on", b"[" * 60000,
           b"\xff\xfe", b'"40"', b"true", b"null", b"{}", b"7" * 70000,
           b'{"apower": 1e9, "aenergy": {"total": 1}}', b'{"apower": NaN, "aenergy": {"total": 1}}',
           b'{"apower": 1}',
           b'{"apower": -0.1, "aenergy": {"total": 1}}', b'{"apower": 1, "aenergy": 3}',
           b'{"apower": 1, "aenergy": {"total": "x"}}', b'{"apower": 1, "aenergy": {"total": -1}}']


def test_what_cannot_be_a_reading_is_dropped_and_counted(bench: Bench) -> None:
    bench.meter.start()
    bench.run(0, 5)
    topic = {1: "relay/0/power", 2: "status/switch:0"}[bench.plug.generation]
    for payload in HOSTILE:
        bench.plug.publish(topic, payload)
    bench.settle()
    bench.run(5, 10)
    energy = bench.meter.stop()
    assert energy.joules == pytest.approx(joules(10), abs=1e-6) and energy.samples == 10
    note, = energy.notes
    counts = [int(part.split()[0]) for part in note.partition(": ")[2].split(", ")]
    assert sum(counts) == len(HOSTILE) + 1  # settle() adds one.
    assert "too large" in note and "negative" in note and "not JSON" in note


def test_what_the_broker_has_kept_is_no_reading(broker: Broker) -> None:
    """Nobody knows from when it is."""
    bench = Bench(broker, 1)
    bench.plug.publish("relay/0/power", b"3000", retain=True)
    wait_until(lambda: bench.meter._last == (1000.0, 3000.0), "it, when it is new")
    later = Shelly(bench.meter.at, bench.clock)
    bench.plug.answer = 50.0, 0.0
    later.open()
    assert later._dropped["kept by the broker"] == 1 and later._last == (1000.0, 50.0)
    later.close()
    bench.plug.publish("relay/0/power", b"", retain=True)
    bench.close()


def test_a_broker_that_restarts_in_the_midst() -> None:
    broker = Broker()
    bench = Bench(broker, 2)
    bench.meter.start()
    bench.run(0, 20)
    broker.stop()
    wait_until(lambda: bench.meter._breaks, "a break that the meter notices")
    wait_until(lambda: not bench.plug.hears.is_set(), "a break that the plug notices")
    bench.clock.sleep(20)
    broker.start()
    bench.plug.asked.clear()
    wait_until(bench.plug.hears.is_set, "a plug that is there again")
    wait_until(lambda: bench.meter._client.is_connected(), "a meter that is there again")
    bench.plug.answer = watts(40), 7200 + joules(40)

    def heard() -> bool:
        bench.meter.read()
        return bench.meter._last == (1040.0, watts(40))

    wait_until(heard, "a reading after the break")
    bench.plug.answer = None
    bench.settle()
    bench.run(40, 50)
    energy = bench.meter.stop()
    bench.close()
    broker.stop()
    assert energy.joules == pytest.approx(joules(50), abs=3.6)
    assert "the connection to the broker broke 1 times" in energy.notes
    assert "1 gaps without readings, 20 s in all, the longest 20 s" in energy.notes


def test_a_plug_that_falls_silent_is_lost(bench: Bench) -> None:
    bench.meter.start()
    bench.run(0, 10)
    bench.clock.sleep(130)
    with pytest.raises(Lost, match="has said nothing for the first or the last 130 s"):
        bench.meter.stop()
    bench.meter.start()
    bench.clock.sleep(30)
    with pytest.raises(Lost, match="gave no reading in 30 s"):
        bench.meter.stop()


def test_the_plug_is_asked_and_never_switched(bench: Bench) -> None:
    wait_until(lambda: len(bench.plug.asked) >= 3, "a plug that is asked")
    assert set(bench.plug.asked) == {
        (f"{bench.plug.prefix}/command", b"update"),
        *((f"{bench.plug.prefix}/command/{part}:0", b"status_update")
          for part in ("switch", "pm1"))}


@pytest.mark.parametrize("at, says", [
    (None, "say where it is"), ("", "is no place of a plug"), ("/sys", "is no place of a plug"),
    ("ftp://plug", "is no place of a plug"), ("mqtt://b:99999/x", "is no place of a plug"),
    ("http://[", "is no place of a plug"), ("mqtt:///x", "is no place of a plug"),
    ("mqtt://localhost/" + "x" * 300, "has no prefix"),
    ("mqtt://localhost", "has no prefix"), ("mqtt://localhost/#", "has no prefix"),
    ("mqtt://localhost/a/+/b", "has no prefix")])
def test_a_place_that_is_none_is_refused(at: str | None, says: str) -> None:
    with pytest.raises(Absent, match=says):
        meters.find("shelly", at)


@pytest.mark.parametrize("at", [
    "mqtt://me:secret@localhost", "ftp://me:secret@plug", "me:secret@plug", "mqtt://me:sec/ret@b/x",
    "mqtt://me:se@cret@localhost/#", "http://me:secret@plug:99999"])
def test_a_password_is_not_shown(at: str) -> None:
    with pytest.raises(Absent) as absent:
        meters.find("shelly", at)
    assert not any(part in str(absent.value) for part in ("me:", "sec", "ret@")), absent.value


def test_no_broker_and_no_plug_are_said(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Absent, match="no MQTT broker answers at 127.0.0.1:"):
        meters.find("shelly", f"mqtt://127.0.0.1:{free_port()}/x")
    monkeypatch.setattr(shelly, "PATIENCE", 1.0)
    with pytest.raises(Absent, match="in 1 s no reading came from x over .*: nothing came"):
        meters.find("shelly", f"mqtt://127.0.0.1:{broker.port}/x")


# Over HTTP.


@pytest.fixture
def web() -> Iterator[WebPlug]:
    plug = WebPlug()
    yield plug
    plug.close()


@pytest.mark.parametrize("generation", [1, 2])
def test_joules_are_read_back_exactly_over_http(web: WebPlug, generation: int) -> None:
    clock = SimulatedClock()
    clock.worlds.append(lambda now: web.say(generation, watts(now - 1000), joules(now - 1000)))
    clock.sleep(0)
    meter = Shelly(web.at, clock)
    meter.open()
    meter.start()
    clock.sleep(60)
    energy = meter.stop()
    assert energy.joules == pytest.approx(joules(60), abs=1e-6) and energy.notes == ()
    assert set(web.paths) <= {"/meter/0", *(f"/rpc/{part}.GetStatus?id=0" for part in (
        "Switch", "PM1"))}


def test_a_plug_that_only_measures_is_read_over_http_and_mqtt(web: WebPlug,
                                                              broker: Broker) -> None:
    """Shelly's PM Mini of generation 3: its part is pm1:0, and it has no switch."""
    status = json.dumps({"id": 0, "apower": 40.0, "aenergy": {"total": 2.0}}).encode()
    web.answers["/rpc/PM1.GetStatus?id=0"] = status
    meter = Shelly(web.at, SimulatedClock())
    meter.open()
    assert meter.generation == 2 and meter._last == (1000.0, 40.0)
    bench = Bench(broker, 2)
    bench.plug.publish("status/pm1:0", status)
    wait_until(lambda: bench.meter._last == (1000.0, 40.0), "its reading")
    bench.close()
