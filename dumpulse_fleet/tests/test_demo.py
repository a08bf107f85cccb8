"""The demo, and its simulated agents.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from dumpulse_fleet import client
from dumpulse_fleet.asking import Fleet
from dumpulse_fleet.config.file import load
from dumpulse_fleet.tests.core import PATIENCE, until
from dumpulse_fleet.tests.serving import ROOT
from dumpulse_fleet.trials import demo


def test_the_demo(tmp_path: Path) -> None:
    """From the command to the page and its troubles, and back to nothing."""
    with subprocess.Popen([sys.executable, "-m", "dumpulse_fleet.trials.demo", "--agents", "40",
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
            fleet = Fleet(page[1], str(folder / "token"))

            def states() -> dict[str, int]:
                found: dict[str, int] = fleet.ask("/api/v1/summary")["agents"]
                return found

            until(lambda: states().get("alive", 0) >= 30, lambda: states())
            until(lambda: set(states()) - {"alive", "late"}, lambda: "nothing happens")
            assert fleet.ask("/api/v1/groups")["groups"]
            fleet.ask("/api/v1/mutes", method="POST", body={"match": {"name": "*"}, "seconds": 9})
        finally:
            begun = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
            process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and time.monotonic() - begun < 20
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError):
        urllib.request.urlopen(page[1], timeout=5)


def test_the_configuration_is_right(tmp_path: Path) -> None:
    world = demo.World(50, 1)
    try:
        (tmp_path / "vehicle.ini").write_text(demo.names())
        (tmp_path / "token").write_text("demo\n")
        (tmp_path / "fleet.toml").write_text(demo.configuration(world.lives, 9061))
        found = load(str(tmp_path / "fleet.toml"))
        assert len(found.agents) == 50 and len(found.groups) == len(demo.SITES)
        assert found.agents[0].profile.warn[1] == 3 and found.agents[0].profile.crit[1] == 8
        assert client.Agent(found.agents[7].address).ask(3)[0].sender == 1
    finally:
        world.end()


def test_troubles() -> None:
    """What an agent says in each of them, by client.py's own rules."""
    with socket.socket() as unused:
        life = demo.Life("a", "b", unused, random.Random(1), time.time() - 70_000)
        now = time.time()
        assert client.parse_report(life.report(now))[1].never
        for node in demo.NODES:
            life.beat(node, now)
        entries = client.parse_report(life.report(now))
        assert entries[0].timestamp == 70_000 - 65_536 and entries[3].value == 115
        life.begin("a node dies", now)
        for node in demo.NODES:
            life.beat(node, now + 9)
        entries = client.parse_report(life.report(now + 9))
        assert [node for node in demo.NODES if entries[node].timestamp < entries[0].timestamp] \
            == [life.dead_node]
        life.begin("a bad value", now)
        life.beat(3, now)
        assert client.parse_report(life.report(now))[3].value == 3
        life.begin("damaged reports", now)
        damaged = 0
        for _ in range(100):
            try:
                client.parse_report(life.report(now))
            except client.BadReport:
                damaged += 1
        assert 75 < damaged < 100
        life.begin("rebooted", now)
        assert client.parse_report(life.report(now + 2))[0].timestamp == 2
        assert life.answers
        life.begin("silent", now)
        assert not life.answers
        life.begin("", now)
        life.silent_site = True
        assert not life.answers


def test_another_port_if_this_one_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert demo.free_port(port) != port
    assert demo.free_port(port) == port
