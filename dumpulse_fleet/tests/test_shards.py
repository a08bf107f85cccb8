"""Several shards, and one wall over them.   SPDX-License-Identifier: MIT"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpulse_fleet import client
from dumpulse_fleet.asking import Fleet as Fleets
from dumpulse_fleet.collect.discovery import owners, ranks
from dumpulse_fleet.config.file import load
from dumpulse_fleet.tests.brokers import Answering, answering
from dumpulse_fleet.tests.core import until
from dumpulse_fleet.tests.serving import Serving, write
from dumpulse_fleet.trials.bench import page
from dumpulse_fleet.trials.fake import Fake
from tests.support.programs import free_port

AGENTS, SHARDS, PERIOD = 60, 4, 4.0  # s


class Fleet:
    """Shards and a wall, which are real processes."""

    def __init__(self, folder: Path, fake: Fake, more: str = "") -> None:
        self.folder, self.more, self.fake = folder, more, fake
        self.shards: dict[int, Serving] = {}
        self.ports: dict[int, int] = {}

    def start(self, number: int) -> Serving:
        folder = self.folder / str(number)
        if not folder.exists():
            folder.mkdir()
            write(folder, self.fake, AGENTS, self.more)
            file = folder / "fleet.toml"
            file.write_text(file.read_text().replace("500ms", f"{PERIOD:g}s"))
            self.ports[number] = free_port()
        self.shards[number] = Serving(
            folder, "--shard", f"{number}/{SHARDS}",
            "--web.listen-address", f"127.0.0.1:{self.ports[number]}")
        return self.shards[number]

    def end(self) -> None:
        for shard in self.shards.values():
            shard.__exit__()

    def of(self, number: int, living: range | list[int] = range(1, SHARDS + 1)) -> set[str]:
        agents = load(str(self.folder / "1" / "fleet.toml")).agents
        owned = owners(ranks(agents, SHARDS), living)
        return {agent.name for agent, owner in zip(agents, owned) if owner == number}

    def events(self) -> list[dict[str, Any]]:
        """Of states, in all shards that live."""
        return [each for shard in self.shards.values() if shard.process.poll() is None
                for each in shard.ask("/api/v1/events?what=state&limit=1000")["events"]]


@contextlib.contextmanager
def fleet(folder: Path, fake: Fake, more: str = "") -> Iterator[tuple[Fleet, Serving]]:
    """With its wall."""
    with contextlib.ExitStack() as parts:
        made = Fleet(folder, fake, more)
        parts.callback(made.end)
        for number in range(1, SHARDS + 1):
            made.start(number)
        addresses = ",".join(shard.address for shard in made.shards.values())
        wall = folder / "wall"
        wall.mkdir()
        write(wall, fake, AGENTS, more)
        yield made, parts.enter_context(Serving(wall, "--shards", addresses))


def everybody(wall: Serving, state: str = "alive", but: dict[str, str] | None = None) -> None:
    wall.wait_for_agents({f"a{number}": state for number in range(AGENTS)} | (but or {}))


@pytest.mark.long
def test_one_wall_shows_all_shards_and_says_who_is_silent(tmp_path: Path) -> None:
    with Fake(AGENTS) as fake, fleet(tmp_path, fake) as (made, wall):
        everybody(wall)
        assert page(f"{wall.address}/-/ready") == b"ready\n"
        # One agent, its past and its events come from its shard.
        name = sorted(made.of(3))[0]
        shown = wall.ask(f"/api/v1/agents/{name}")
        assert shown["variables"][1]["heard_at"] and shown["reports"] > 0
        assert wall.ask(f"/api/v1/agents/{name}/uptime")["cells"]
        fake.tell("die", int(name[1:]), int(name[1:]))
        everybody(wall, but={name: "unreachable"})
        until(lambda: [each["agent"] for each in wall.ask("/api/v1/events?what=state")["events"]
                       if each["now"] != "alive"] == [name])  # the shard writes it a little later
        # A shard that is killed: nothing of what it had is shown as well.
        made.shards[3].process.kill()
        everybody(wall, but=dict.fromkeys(made.of(3), "unknown"))
        summary = wall.ask("/api/v1/summary")
        assert made.shards[3].address in summary["trouble"]
        assert f"{len(made.of(3))} agents are in no shard" in summary["trouble"]


class Empty(Answering):
    """It answers all, and says nothing."""

    def do_GET(self) -> None:
        self.answer(200, b"retry: 2000\n\n")


class Odd(Answering):
    """It is no fleet."""

    def do_GET(self) -> None:
        self.answer(200, b"event: agents\ndata: {}\n\n")


@pytest.mark.parametrize("shard", [Empty, Odd])
def test_what_is_no_shard_makes_nobody_well(tmp_path: Path, shard: type[Answering]) -> None:
    with Fake(1) as fake, answering(shard) as port:
        write(tmp_path, fake, 3)
        with Serving(tmp_path, "--shards", f"http://127.0.0.1:{port},http://127.0.0.1:1") as wall:
            wall.wait_for("its agents are unknown")
            assert set(wall.agents().values()) == {"unknown"}
            said = wall.ask("/api/v1/summary")["trouble"]
            assert "3 agents are in no shard that answers" in said and f":{port}: " in said


@pytest.mark.long
def test_a_mute_at_the_wall_is_in_all_shards(tmp_path: Path) -> None:
    with Fake(AGENTS) as fake, fleet(tmp_path, fake) as (made, wall):
        everybody(wall)
        asker = Fleets(wall.address, str(wall.folder / "token"))
        mute = asker.ask("/api/v1/mutes", method="POST", body={
            "match": {"name": "a1*"}, "seconds": 600, "why": "cables", "by": "ann"})
        known, = wall.ask("/api/v1/mutes")["mutes"]
        assert known == mute and known["by"] == "ann"
        for shard in made.shards.values():
            there, = shard.ask("/api/v1/mutes")["mutes"]
            assert {**there, "number": 0} == {**mute, "number": 0}
        assert wall.ask("/api/v1/summary")["muted"] == 11
        asker.ask(f"/api/v1/mutes/{mute['number']}", method="DELETE")
        assert not wall.ask("/api/v1/mutes")["mutes"]
        assert not any(shard.ask("/api/v1/mutes")["mutes"] for shard in made.shards.values())
        # One that has fallen silent has not taken it, and this is said.
        made.shards[2].process.kill()
        with pytest.raises(client.NoAnswer, match=made.shards[2].address):
            asker.ask("/api/v1/mutes", method="POST", body={
                "match": {"name": "a1*"}, "seconds": 600})
