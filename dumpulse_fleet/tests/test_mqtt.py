"""What is published over MQTT, with a real broker that ends and begins again."""

import contextlib
import dataclasses
import json
import re
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dumpulse_fleet.config.outputs import Mqtt
from dumpulse_fleet.config.values import Secret
from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.model.table import Table
from dumpulse_fleet.publish import mqtt
from dumpulse_fleet.publish.mqtt import Publisher, escaped, identifier
from dumpulse_fleet.record.store import Trouble
from dumpulse_fleet.tests.collecting import profile, until
from dumpulse_fleet.tests.serving import Broker, reading
from tools.programs import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROFILE = profile(expect="0-2")
NAMES = ["pump", "pump 1", "a/b", "50%", "Büro #3", "c++", "a:b", "$SYS", "state", "a%2Fb"]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt, "TICK_S", 0.02)
    monkeypatch.setattr(mqtt, "VALUES_S", 0.1)
    monkeypatch.setattr(mqtt, "LOOK_S", 0.5)
    monkeypatch.setattr(mqtt, "BACKOFF_S", (1, 1))


@pytest.fixture(name="broker")
def _broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.stop()


def fleet(names: Sequence[str] = NAMES) -> Table:
    table = Table([Agent(name, "127.0.0.1", PROFILE, "berlin", {"rack": "7"}) for name in names])
    table.agent_state[:] = State.ALIVE
    table.agent_since[:] = 5.5
    return table


def put(table: Table, row: int, state: State) -> None:
    with table.lock:
        table.agent_state[row] = state
        table.version += 1
        table.changed[row] = table.version


SAID: list[str] = []


@contextlib.contextmanager
def publishing(port: int, table: Table, **settings: Any) -> Iterator[Publisher]:
    SAID.clear()
    publisher = Publisher(Mqtt("127.0.0.1", port, **settings), table, SAID.append)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.stop()


def states(topics: dict[str, bytes]) -> dict[str, str]:
    """By the agent's name, as a reader of the topics finds it."""
    found = {urllib.parse.unquote(match[1]): json.loads(payload) for topic, payload in
             topics.items() if (match := re.fullmatch(r"dumpulse/([^/]*)/state", topic))}
    assert all(body["agent"] == name for name, body in found.items())
    return {name: body["state"] for name, body in found.items()}


def test_each_agent_has_a_retained_state(broker: Broker) -> None:
    table = fleet()
    table.entry[1, 2], table.state[1, 2], table.since[1, 2] = 0x1234_0907, State.LATE, 7.0
    with publishing(broker.port, table) as publisher:
        with reading(broker.port) as early:
            until(lambda: len(states(early.topics)) == len(NAMES))
        with reading(broker.port) as late:  # so it was retained
            until(lambda: len(states(late.topics)) == len(NAMES))
            assert set(states(late.topics)) == set(NAMES)
            body = json.loads(late.topics["dumpulse/pump 1/state"])
            never = {"name": "", "state": "pending", "since": 0.0, "value": None, "sender": None}
            assert body == {
                "agent": "pump 1", "site": "berlin", "labels": {"rack": "7"}, "state": "alive",
                "since": 5.5, "heard": 0.0, "reboots": 0, "collector": publisher._id,
                "variables": {"0": never, "1": never, "2": {
                    "name": "", "state": "late", "since": 7.0, "value": 7, "sender": 9}}}
            put(table, 4, State.UNREACHABLE)
            until(lambda: states(late.topics)["Büro #3"] == "unreachable")
            with table.lock:
                table.entry[0, 0] = 0x1234_0955  # a new value is no new state
            until(lambda: b'"value": 85' in late.topics["dumpulse/pump/state"])
            count = len(late.all)
            time.sleep(0.5)
            assert len(late.all) == count, "it publishes what has not changed"
            status = f"dumpulse/collector/{publisher._id}/status"
            assert late.topics[status] == b"online"
            publisher.stop()
            until(lambda: late.topics[status] == b"offline")


def test_nothing_that_others_publish_changes_anything(broker: Broker) -> None:
    table = fleet()
    with publishing(broker.port, table), reading(broker.port) as reader:
        until(lambda: len(states(reader.topics)) == len(NAMES))
        for topic in ("dumpulse/pump/state", "dumpulse/pump/set", "dumpulse/x"):
            for payload in ("{", "[]", '{"collector": 5}', "[" * 5000, "\xff", '{"state": "dead"}'):
                reader._client.publish(topic, payload, qos=1).wait_for_publish(5)
        put(table, 1, State.DEAD)
        until(lambda: b'"state": "dead"' in reader.topics["dumpulse/pump 1/state"])
        assert (table.agent_state == [State.ALIVE, State.DEAD, *[State.ALIVE] * 8]).all()


@given(name=some.text(min_size=1, max_size=20),
       other=some.text(min_size=1, max_size=5))
def test_any_name_is_one_level_of_a_topic(name: str, other: str) -> None:
    level = escaped(name)
    assert urllib.parse.unquote(level) == name
    assert not set(level) & set("/+#$\0") and level.isprintable()
    assert (escaped(other) == level) == (other == name)
    assert re.fullmatch("[a-zA-Z0-9_-]{1,49}", identifier("dumpulse", name))
    assert name == other or identifier("dumpulse", name) != identifier("dumpulse", other)


def test_the_broker_restarts_and_has_all_again(broker: Broker) -> None:
    table = fleet()
    with publishing(broker.port, table) as publisher:
        for restart in range(3):
            with reading(broker.port) as reader:
                until(lambda: len(states(reader.topics)) == len(NAMES))
                until(lambda: len([each for each in reader.topics if "/device/" in each])
                      == len(NAMES))
                assert states(reader.topics)["pump"] == ("dead" if restart else "alive")
            broker.stop()
            until(lambda: not publisher.connected)
            put(table, 0, State.DEAD)  # while it is away
            broker.start()
        assert any("the connection is lost" in each for each in SAID)
        assert sum("connected again" in each for each in SAID) >= 2


def test_a_slow_broker_lets_nothing_grow(broker: Broker,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqtt, "WINDOW", 20)
    names = [f"agent {number}" for number in range(300)]
    table = fleet(names)
    with reading(broker.port) as reader, publishing(broker.port, table) as publisher:
        until(lambda: len(states(reader.topics)) == 300)
        broker.process.send_signal(signal.SIGSTOP)
        for each in range(50):
            for row in range(300):
                put(table, row, State.DEAD if each % 2 else State.LATE)
            time.sleep(0.01)
            numbers = publisher.numbers()
            # Each agent may be two messages.
            assert numbers["mqtt_unacknowledged"] <= 22 and numbers["mqtt_waiting"] <= 300
        until(lambda: publisher.numbers()["mqtt_unacknowledged"] >= 20)
        broker.process.send_signal(signal.SIGCONT)
        until(lambda: set(states(reader.topics).values()) == {"dead"})


def test_the_last_will_says_that_the_collector_is_gone(broker: Broker) -> None:
    with reading(broker.port) as reader:
        with subprocess.Popen([sys.executable, "-c", f"""
import time
from dumpulse_fleet.tests.collecting import profile, until
from dumpulse_fleet.tests.test_mqtt import *
with publishing({broker.port}, fleet(), client_id="one/two"):
    time.sleep(60)
"""], cwd=ROOT) as child:
            try:
                status = "dumpulse/collector/one%2Ftwo/status"
                until(lambda: reader.topics.get(status) == b"online")
            finally:
                child.kill()
        until(lambda: reader.topics.get(status) == b"offline")


def test_agents_that_are_gone_leave_nothing_behind(broker: Broker) -> None:
    def topics(readers: dict[str, bytes]) -> set[str]:
        return {topic for topic in readers if "/collector/" not in topic}

    with reading(broker.port) as reader:
        foreign = '{"collector": "another", "agent": "theirs"}'
        reader._client.publish("dumpulse/theirs/state", foreign, 1, True).wait_for_publish(5)
        with publishing(broker.port, fleet(["a", "b/c", "d"])) as publisher:
            until(lambda: len(topics(reader.topics)) == 7)
            publisher.replace(fleet(["a", "d"]))
            until(lambda: len(topics(reader.topics)) == 5)
        with publishing(broker.port, fleet(["a"])):  # "d" went while nothing ran
            until(lambda: len(topics(reader.topics)) == 3)
            assert "dumpulse/theirs/state" in reader.topics


def test_the_discovery_is_as_home_assistant_wants_it(broker: Broker) -> None:
    """The abbreviations are those of Home Assistant's page on MQTT."""
    with publishing(broker.port, fleet()), reading(broker.port) as reader:
        until(lambda: len([each for each in reader.topics if "/device/" in each]) == len(NAMES))
        until(lambda: len(states(reader.topics)) == len(NAMES))
        identifiers: list[str] = []
        for topic, payload in reader.topics.items():
            if not topic.startswith("homeassistant/"):
                continue
            assert re.fullmatch(r"homeassistant/device/[a-zA-Z0-9_-]+/config", topic)
            body = json.loads(payload)
            assert body.keys() == {"dev", "o", "cmps", "stat_t", "qos", "avty"}
            assert body["dev"].keys() == {"ids", "name", "mf", "mdl", "sa"}
            assert body["o"].keys() == {"name", "sw"}
            state = json.loads(reader.topics[body["stat_t"]])
            assert state["agent"] == body["dev"]["name"]
            assert reader.topics[body["avty"][0]["t"]] == b"online"
            identifiers += [part["uniq_id"] for part in body["cmps"].values()]
            assert len(body["cmps"]) == 1 + 2 * 3
            for part in body["cmps"].values():
                assert part["p"] in ("sensor", "binary_sensor")
                assert part.keys() <= {"p", "name", "uniq_id", "val_tpl", "dev_cla", "ops",
                                       "stat_cla", "unit_of_meas", "avty", "avty_mode"}
                variable = re.search(r"value_json\.variables\['(\d+)'\]\.(\w+)", part["val_tpl"])
                if variable:
                    assert variable[2] in state["variables"][variable[1]]
                else:
                    assert part["val_tpl"] == "{{ value_json.state }}"
                    assert state["state"] in part["ops"]
            assert len(payload) < 500 * len(body["cmps"])
        assert len(set(identifiers)) == len(identifiers) == 7 * len(NAMES)


class Json(dict[str, Any]):
    """What templates see: an attribute is a key."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def test_home_assistant_shows_no_value_of_whom_nobody_hears(broker: Broker) -> None:
    """Its templates, with what the topics have: they have only what Python has, too."""
    table = Table([Agent("a", "a:1", profile(expect="1-3"))])
    table.agents[0].profile.settings.variables[1] = dataclasses.replace(
        table.agents[0].profile.settings.variables[1], name="battery [V]")
    wanted = {State.ALIVE: "online OFF online", State.LATE: "online ON online",
              State.DEAD: "offline ON online", State.NEVER: "offline ON online",
              State.UNKNOWN: "offline OFF offline", State.PENDING: "offline OFF offline"}
    with publishing(broker.port, table), reading(broker.port) as reader:
        for state, words in wanted.items():
            with table.lock:
                table.state[0, 1:4], table.entry[0, 1:4] = state, 0x0BCD4C58
                table.agent_state[0] = State.UNREACHABLE if state == State.UNKNOWN else state
                table.version += 1
                table.changed[0] = table.version
            until(lambda: json.loads(reader.topics.get("dumpulse/a/state", b"{}")).get(
                "variables", {}).get("1", {}).get("state") == state.words)
            parts = next(json.loads(payload) for topic, payload in reader.topics.items()
                         if topic.startswith("homeassistant/"))["cmps"]
            seen = json.loads(reader.topics["dumpulse/a/state"], object_hook=Json)

            def shown(template: str) -> str:
                assert template[:3] == "{{ " and template[-3:] == " }}"
                return str(eval(template[3:-3], {"value_json": seen}))

            value, problem = parts["value_1"], parts["problem_1"]
            for part in (value, problem):
                assert part["avty_mode"] == "all"
                assert reader.topics[part["avty"][0]["t"]] == b"online"
                assert part["avty"][1]["t"] == "dumpulse/a/state"
            assert " ".join((shown(value["avty"][1]["val_tpl"]), shown(problem["val_tpl"]),
                             shown(problem["avty"][1]["val_tpl"]))) == words
            assert (value["name"], value["unit_of_meas"], value["stat_cla"]) == (
                "battery", "V", "measurement") and shown(value["val_tpl"]) == "88"
            assert "avty" not in parts["state"]  # which says that the agent is unreachable


def test_discovery_can_be_off(broker: Broker) -> None:
    with publishing(broker.port, fleet(), discovery=False, prefix="a/b"):
        with reading(broker.port) as reader:
            until(lambda: len(reader.topics) == len(NAMES) + 1)
            assert all(topic.startswith("a/b/") for topic in reader.topics)


def test_tls_and_passwords(tmp_path: Path) -> None:
    for name in ("good", "other"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-keyout", str(tmp_path / f"{name}.key"),
                        "-out", str(tmp_path / f"{name}.pem"), "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(tmp_path / "passwords"), "fleet",
                    "hunter2"], check=True)
    broker = Broker(tmp_path, f"allow_anonymous false\npassword_file {tmp_path}/passwords\n"
                    f"certfile {tmp_path}/good.pem\nkeyfile {tmp_path}/good.key")
    try:
        good = {"tls": True, "ca_file": f"{tmp_path}/good.pem", "user": "fleet",
                "password": Secret("hunter2")}
        with publishing(broker.port, fleet(), **good) as publisher:
            until(lambda: publisher.published > len(NAMES))
            assert not publisher.trouble
        for change, words in (({"password": Secret("hunter3")}, "the broker refuses: Not auth"),
                              ({"ca_file": f"{tmp_path}/other.pem"}, "self-signed|verify failed"),
                              ({"tls": False, "ca_file": ""}, "the connection is lost|refuses")):
            with publishing(broker.port, fleet(), **{**good, **change}) as publisher:
                until(lambda: re.search(words, publisher.trouble))
                assert not publisher.connected and "hunter" not in "".join(SAID)
        with pytest.raises(Trouble, match="cannot use ca_file"):
            Publisher(Mqtt("127.0.0.1", 1, tls=True, ca_file=f"{tmp_path}/none"), fleet(),
                      SAID.append)
    finally:
        broker.stop()


def test_no_broker_is_no_trouble_for_others() -> None:
    begun = time.monotonic()
    with publishing(free_port(), fleet()) as publisher:
        until(lambda: "Connection refused" in publisher.trouble)
    assert time.monotonic() - begun < 15 and len(SAID) == 1
