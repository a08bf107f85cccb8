"""The whole fleet as a process: start, changes, end."""

import argparse
import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpulse_fleet import command
from dumpulse_fleet.model.agents import Mute, State
from dumpulse_fleet.service import WELL_S, Service, well_again
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import PATIENCE, until
from dumpulse_fleet.tests.harness import run as harness
from dumpulse_fleet.tests.serving import (
    ROOT, Serving, Taking, answering, fetch, notified, write)
from dumpulse_fleet.tests.test_web import ask

BUSY_S = 15.0  # s in which it ends, and in which 5 s pass on a machine that does much else


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeFleet]:
    with FakeFleet(40) as running:
        yield running


def call(status: int, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Runs a command that ends by itself in this process, which is faster."""
    capsys.readouterr()
    assert command.run_command(words) == status
    return capsys.readouterr()


@pytest.mark.slow
def test_from_start_to_end(tmp_path: Path, fake: FakeFleet,
                           capsys: pytest.CaptureFixture[str]) -> None:
    """It tells systemd, keeps what it knows, ends at once, and is the only one in its folder. After
    a crash, nothing is told twice."""
    write(tmp_path, fake, 3, "[[agents]]\naddress = '127.0.0.1:1'\nname = 'nobody'\n")
    alive = {"a0": "alive", "a1": "alive", "a2": "alive", "nobody": "unreachable"}

    def since(serving: Serving) -> dict[str, float]:
        return {each["name"]: each["since"] for each in serving.ask("/api/v1/agents")["agents"]}

    def told(serving: Serving, name: str) -> list[str]:
        return [each["now"] for each in serving.ask(f"/api/v1/events?agent={name}")["events"]
                if each["variable"] is None]

    with notified(tmp_path) as (address, came):
        with Serving(tmp_path, NOTIFY_SOCKET=address, WATCHDOG_USEC="600000") as serving:
            serving.wait_for_agents(alive)
            assert came[0] == f"READY=1\nMAINPID={serving.process.pid}"
            until(lambda: came.count("WATCHDOG=1") > 4, lambda: came)
            assert call(1, capsys, "serve", "--config.file", str(tmp_path / "fleet.toml")) == (
                "", f"dumpulse-fleet: another fleet uses '{tmp_path / 'state'}': "
                "stop it, or name another folder as state in [collector]\n")
            before = since(serving)
            begun = time.monotonic()
            assert serving.end() == 0 and time.monotonic() - begun < BUSY_S
            until(lambda: "STOPPING=1" in came, lambda: came)
    assert {"events.sqlite", "events.sqlite.lock"} <= {
        path.name for path in (tmp_path / "state").iterdir()}
    with Serving(tmp_path) as serving:
        serving.wait_for_agents(alive)
        assert since(serving) == before  # nothing has changed, so nothing has begun anew
        assert told(serving, "nobody") == ["unreachable"]
        fake.tell("die", 1, 1)
        try:
            serving.wait_for_agents({**alive, "a1": "unreachable"})
            until(lambda: "unreachable" in told(serving, "a1"), lambda: "no event")
            before_crash = told(serving, "a1")
            serving.process.kill()
            serving.wait()
            with Serving(tmp_path) as again:
                again.wait_for_agents({**alive, "a1": "unreachable"})
                fake.tell("live", 1, 1)
                again.wait_for_agents(alive)
                until(lambda: told(again, "a1") == ["alive", *before_crash],
                      lambda: (before_crash, told(again, "a1")))
                assert again.end(signal.SIGINT) == 0
        finally:
            fake.tell("live", 1, 1)


def test_an_acknowledgement_ends_when_all_is_well() -> None:
    table, now = fakes.fleet(3), time.time()
    one, every = (Mute({"name": name}, 0, 9e9, number=len(name), acknowledges=True)
                  for name in ("agent-00001", "agent-*"))
    mutes = (one, every, Mute({"name": "*"}, 0, 9e9))
    table.agent_state[2] = State.UNREACHABLE
    assert well_again(mutes, table, now) == [one]
    table.agent_state[2], table.agent_since[2] = State.ALIVE, now - WELL_S + 1
    assert well_again(mutes, table, now) == [one]
    assert well_again(mutes, table, now + 2) == [one, every]
    service: Any = Service.__new__(Service)
    service.store, service.table = fakes.FakeStore(), table
    service.store.fixed, service.store.made = [], [*mutes]
    asyncio.run(service._end_acknowledged())
    assert service.store.made == [*mutes[1:]]


def accepts(serving: Serving, token: str) -> bool:
    return fetch(f"{serving.address}/api/v1/summary", token)[0] == 200


@pytest.mark.slow
def test_reload_is_all_or_nothing(tmp_path: Path, fake: FakeFleet) -> None:
    def rewrite(count: int, more: str = "") -> None:
        write(tmp_path, fake, count, more, "config_file = 'web.yml'\n")

    rewrite(2)
    (tmp_path / "web.yml").write_text("")
    with Serving(tmp_path) as serving:
        serving.wait_for_agents({"a0": "alive", "a1": "alive"})
        rewrite(3, "[[agents]]\naddres = 'x'\n")
        serving.process.send_signal(signal.SIGHUP)
        assert "fleet.toml:22: agents: 'addres' is unknown: do you mean" \
            in serving.wait_for("'addres'")
        serving.wait_for("the configuration is wrong, and the old one stays")
        assert serving.agents() == {"a0": "alive", "a1": "alive"}
        assert "the old one stays" in serving.ask("/api/v1/summary")["trouble"]
        write(tmp_path, fake, 3)
        serving.process.send_signal(signal.SIGHUP)
        serving.wait_for("[web] changes only with a restart")
        rewrite(3)
        (tmp_path / "web.yml").write_text("users: x")
        serving.process.send_signal(signal.SIGHUP)
        serving.wait_for("web.yml': 'users' is unknown")
        assert len(serving.agents()) == 2
        (tmp_path / "web.yml").write_text("")
        serving.process.send_signal(signal.SIGHUP)
        serving.wait_for_agents({"a0": "alive", "a1": "alive", "a2": "alive"})
        until(lambda: serving.ask("/api/v1/summary")["trouble"] == "")
        rewrite(1)
        serving.process.send_signal(signal.SIGHUP)
        serving.wait_for_agents({"a0": "alive"})
        for new, old in (("another", "sesame"), ("sesame", "another")):
            (tmp_path / "token").write_text(f"{new}\n")  # A reload reads the file again.
            assert not accepts(serving, new) and accepts(serving, old)
            serving.process.send_signal(signal.SIGHUP)
            until(lambda: accepts(serving, new))
            assert not accepts(serving, old)
        for count in range(20):  # while another reload is under way
            rewrite(1 + count % 5)
            serving.process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        rewrite(4)
        serving.process.send_signal(signal.SIGHUP)
        serving.wait_for_agents({f"a{number}": "alive" for number in range(4)})
        serving.wait_for("wrong passwords or tokens, the last one from 127.0.0.1")
        assert serving.end() == 0


def targets_of(fake: FakeFleet, number: int) -> str:
    """The content of a file that has this agent, with the name t."""
    return json.dumps([{"targets": [fake.address(number)], "labels": {"name": "t"}}])


def test_a_reload_waits_for_the_start(tmp_path: Path, fake: FakeFleet) -> None:
    targets = tmp_path / "targets.json"
    os.mkfifo(targets)
    write(tmp_path, fake, 1, "[[agents]]\nfile = 'targets.json'\n")
    with Serving(tmp_path) as serving:
        with open(targets, "w"):
            serving.process.send_signal(signal.SIGHUP)
            targets.unlink()
            targets.write_text(targets_of(fake, 5))
            time.sleep(0.5)  # The signal has arrived by then.
        serving.wait_for("the configuration was read again")
        serving.wait_for_agents({"a0": "alive", "t": "alive"})
        assert serving.end() == 0
    assert "should not happen" not in "".join(serving.said)


def test_what_hangs_does_not_hold_up_the_end(tmp_path: Path, fake: FakeFleet) -> None:
    """A pipe that nobody writes into, a reader that reads nothing, and a connection that never
    asks."""
    os.mkfifo(tmp_path / "targets.json")
    write(tmp_path, fake, 1, "[[agents]]\nfile = 'targets.json'\n")
    with Serving(tmp_path) as serving:
        until(lambda: Path(tmp_path, "state", "events.sqlite").exists(), lambda: serving.said)
        begun = time.monotonic()
        assert serving.end() == 0  # while it starts, and waits for the pipe
        assert time.monotonic() - begun < BUSY_S
    with Serving(tmp_path) as serving:
        host, _, port = serving.address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))), \
                socket.create_connection((host, int(port))) as reader:
            reader.sendall(b"GET /metrics/agents HTTP/1.1\r\nHost: localhost\r\n\r\n")
            begun = time.monotonic()
            assert serving.end() == 0
            assert time.monotonic() - begun < BUSY_S


@pytest.mark.parametrize("status, text, part", [
    (1, "[collector]\nstate = 'fleet.toml'\n", "cannot use the folder"),
    (1, "[web]\nlisten = '127.0.0.1:{taken}'\n",
     "cannot listen at 127.0.0.1:{taken}: Address already in use: choose another address as"),
    (1, "[web]\nlisten = '[::ffff:0:0]:1'\nconfig_file = 'users.yml'\n", "cannot listen at"),
    (1, "[web]\nlisten = 'no.such.invalid:1'\nconfig_file = 'users.yml'\n", "cannot listen at no"),
    (2, "[web]\nlisten = '0.0.0.0:0'\n", "nobody would need a password"),
    (2, "[web]\nconfig_file = 'bad.yml'\n", "bad.yml"),
    (2, "x = 1\n", "fleet.toml:1: 'x' is unknown")])
def test_what_prevents_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int,
                                 text: str, part: str) -> None:
    """With status 1, systemd tries again later."""
    (tmp_path / "users.yml").write_text(f"basic_auth_users: {{a: '$2b$10${'a' * 53}'}}\n")
    (tmp_path / "bad.yml").write_text("no: keys\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "fleet.toml").write_text(
            text.format(taken=taken.getsockname()[1])
            + ("" if "state" in text else "[collector]\nstate = 'state'\n")
            + "[[agents]]\naddress = '127.0.0.1:1'\n")
        out, said = call(status, capsys, "serve", "--config.file", str(tmp_path / "fleet.toml"))
        assert part.format(taken=taken.getsockname()[1]) in said and out == ""


def test_too_few_descriptors(tmp_path: Path, fake: FakeFleet) -> None:
    write(tmp_path, fake, 1)
    with Serving(tmp_path, prefix=["prlimit", "--nofile=40"]) as serving:
        assert serving.wait() == 1
        (said,) = serving.said
        assert said.startswith("dumpulse-fleet: 40 descriptors are too few: 64 are needed")


def test_check(tmp_path: Path, fake: FakeFleet, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "fleet.toml")
    check = "serve", "--config.check", "--config.file"
    write(tmp_path, fake, 3)
    assert call(0, capsys, *check, path) == (f"{path} is right: 3 agents\n", "")
    (tmp_path / "bad.yml").write_text("users: x\n")
    write(tmp_path, fake, 3, "[[agents]]\nfile = 't.json'\n", "config_file = 'bad.yml'\n")
    (tmp_path / "t.json").write_text("7")
    out, said = call(2, capsys, *check, path)
    assert "bad.yml" in said and "it is not a list of targets" in said and out == ""
    assert not (tmp_path / "state").exists()
    example = Path(__file__).parents[1] / "examples" / "fleet.toml"
    _, said = call(2, capsys, *check, str(example))
    assert said.count("\n") == 1 and "targets.json': No such file" in said


def breaking(folder: Path, name: str, last: str, code: str) -> str:
    """For PYTHONPATH: a module that runs in the command's process before it begins, and runs this
    code when dumpulse_fleet.collect has this module, whose last name this is."""
    path = folder / "broken" / "sitecustomize.py"
    path.parent.mkdir()
    path.write_text(f"""
import os, sys, threading, time
def later():
    while not hasattr(module := sys.modules.get("dumpulse_fleet.collect.{name}"), "{last}"):
        time.sleep(0.01)
{code}
threading.Thread(target=later, daemon=True).start()
""")
    return str(path.parent)


def test_a_collector_that_fails_ends_all(tmp_path: Path, fake: FakeFleet) -> None:
    """A fleet that asks nobody looks well. So it ends, and the service manager starts it again."""
    write(tmp_path, fake, 1)
    broken = breaking(tmp_path, "judge", "Judge", """
    def fail(*_):
        raise RuntimeError("broken on purpose")
    module.Judge.take = fail""")
    with Serving(tmp_path, PYTHONPATH=broken) as serving:
        assert serving.wait() == 1
        assert any("the collector has failed" in line for line in serving.said)
        serving.said[:] = [line for line in serving.said if "Traceback" not in line]


def get(serving: Serving, path: str) -> tuple[int, str]:
    """The status and what the page says."""
    answer = ask(int(serving.address.rpartition(":")[2]), path)
    return answer.status, answer.body.decode()


def test_no_agents_are_told_and_are_no_end(tmp_path: Path, fake: FakeFleet,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    """A list that becomes empty, also after a start with none."""
    targets = tmp_path / "targets.json"
    targets.write_text("[]")
    write(tmp_path, fake, 0, "[[agents]]\nfile = 'targets.json'\n")
    check = "serve", "--config.check", "--config.file", str(tmp_path / "fleet.toml")
    out, said = call(0, capsys, *check)
    assert "is right: 0 agents" in out and "there are no agents to poll" in said
    one = json.dumps([{"targets": [fake.address(5)], "labels": {"name": "one"}}])
    with Serving(tmp_path) as serving:
        serving.wait_for("there are no agents to poll")
        for count in (1, 2):
            until(lambda: get(serving, "/-/ready") == (
                503, '{"error": "not ready: there are no agents to poll"}'),
                lambda: get(serving, "/-/ready"), 20)
            assert serving.ask("/api/v1/summary")["trouble"] == "there are no agents to poll"
            assert 'dumpulse_fleet_trouble{about="collector"} 1\n' in get(serving, "/metrics")[1]
            targets.write_text(one)
            serving.wait_for_agents({"one": "alive"})
            until(lambda: get(serving, "/-/ready")[0] == 200)
            serving.wait_for("all agents are watched again", count)
            targets.write_text("[]")
            serving.wait_for("the list has lost 1 of 1 agents", count)
            assert get(serving, "/-/ready")[0] == 503 and serving.agents() == {"one": "alive"}
            serving.process.send_signal(signal.SIGHUP)  # confirms it
        serving.wait_for("the configuration was read again", 2)
        targets.unlink()
        serving.process.send_signal(signal.SIGHUP)
        serving.wait_for("the old one stays")
        assert serving.end() == 0


def test_a_fleet_that_asks_nobody_says_so(tmp_path: Path, fake: FakeFleet) -> None:
    """Within two periods: in its log, by /-/ready, and by the dead man's ping that does not come.
    It is ready again when agents answer."""
    stop = tmp_path / "stop"
    broken = breaking(tmp_path, "collector", "carry_over", f"""
    real = module.Collector._begin_rounds
    module.Collector._begin_rounds = \\
        lambda self: None if os.path.exists({str(stop)!r}) else real(self)""")
    heard: list[Any] = []
    with answering(type("Handler", (Taking,), {"came": heard})) as port:
        write(tmp_path, fake, 2, f"[alerts]\nping = 'http://127.0.0.1:{port}/'\n"
                                 "ping_every = '1s'\n")
        with Serving(tmp_path, PYTHONPATH=broken) as serving:
            serving.wait_for_agents({"a0": "alive", "a1": "alive"})
            until(lambda: heard and get(serving, "/-/ready")[0] == 200)
            stop.touch()
            until(lambda: get(serving, "/-/ready")[0] == 503)
            assert re.search("[12] agents are not watched, such as a[01]",
                             serving.wait_for("are not watched"))
            pings = len(heard)
            time.sleep(3)  # three pings would have come
            assert len(heard) <= pings + 1 and serving.agents() == {"a0": "alive", "a1": "alive"}
            stop.unlink()
            until(lambda: get(serving, "/-/ready")[0] == 200)
            until(lambda: len(heard) > pings + 1)
            assert serving.end() == 0


def test_the_demo(tmp_path: Path) -> None:
    """From the command to the page and its troubles, and back to nothing."""
    with subprocess.Popen([sys.executable, "-m", "dumpulse_fleet.simulation.demo",
                           "--port", "29061"],
                          stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
                          env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        try:
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(4)]
            page = re.fullmatch(r"Open this page:  (http://127.0.0.1:\d+/)\n", lines[2])
            assert page, lines
            with urllib.request.urlopen(page[1], timeout=10) as answer:
                assert b"<html" in answer.read()
            (folder,) = tmp_path.iterdir()
            assert (folder / "token").read_text() == "demo\n"

            def states() -> dict[str, int]:
                found: dict[str, int] = fetch(f"{page[1]}api/v1/summary", "demo")[1]["agents"]
                return found

            until(lambda: states().get("alive", 0) >= 30, lambda: states())
            until(lambda: set(states()) - {"alive", "late"}, lambda: "nothing happens")
        finally:
            begun = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)  # Ctrl-C does the same.
            process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and time.monotonic() - begun < 20
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError):
        urllib.request.urlopen(page[1], timeout=5)


@pytest.mark.slow
@pytest.mark.parametrize("fault, pair", [
    *((fault, False) for fault in harness.FAULTS), *((fault, True) for fault in ("kill", "hang"))])
def test_people_are_told_once_and_in_time_and_nothing_that_is_false(fault: str, pair: bool) -> None:
    """Each fault of the harness once, with the fleet that users start."""
    text, result = harness.outside(argparse.Namespace(agents=100, speed=10.0, pair=pair), fault, 2)
    if "void" in result["found"]:
        pytest.skip(text)
    assert not result["found"], text
