"""Several shards, one wall over them, and who takes over from a shard that is killed.
SPDX-License-Identifier: MIT"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpulse_fleet import client
from dumpulse_fleet.asking import Fleet as Fleets
from dumpulse_fleet.collect.discovery import owners, ranks
from dumpulse_fleet.config.others import Nats
from dumpulse_fleet.config.file import load
from dumpulse_fleet.config.values import Secret, Shard
from dumpulse_fleet.publish.takeover import Council, Known, Living
from dumpulse_fleet.tests.brokers import Answering, Server, Taking, answering
from dumpulse_fleet.tests.core import until, until_then
from dumpulse_fleet.tests.serving import Serving, write
from dumpulse_fleet.trials.bench import page
from dumpulse_fleet.trials.fake import Fake
from tests.support.programs import free_port

AGENTS, SHARDS, PERIOD = 60, 4, 4.0  # s
SETTINGS = "[nats]\nurl = '{}'\nbucket = 'shards'\npatience = '3s'\n"


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


class Three:
    """Councils of three shards."""

    def __init__(self, url: str) -> None:
        self.settings = Nats(Secret(url), bucket="shards", patience=1.0)
        self.changes: list[tuple[int, Living, Living]] = []
        self.councils: dict[int, Council] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, number: int) -> None:
        async def known() -> Known:
            return {"problems": []}, b"content"

        self.councils[number] = Council(
            self.settings, Shard(number, 3), print,
            lambda before, now: self.changes.append((number, before, now)), known)
        self._tasks[number] = asyncio.create_task(self.councils[number].run())

    async def end(self, number: int) -> None:
        self._tasks.pop(number).cancel()
        await asyncio.sleep(0)
        del self.councils[number]

    def leader(self) -> int:
        return next((number for number, each in self.councils.items() if each.leads), 0)

    @classmethod
    def run(cls, folder: Path, work: Callable[["Three", Server], Awaitable[None]]) -> None:
        async def whole() -> None:
            three = cls(server.url)
            await work(three, server)
            for number in list(three.councils):
                await three.end(number)

        server = Server(folder)
        server.start()
        try:
            asyncio.run(whole())
        finally:
            server.stop()


@pytest.mark.slow
def test_one_leads_and_another_if_it_is_gone(tmp_path: Path) -> None:
    """Who falls silent is dead for all, and is taken in again. Without NATS, nothing changes."""
    async def run(three: Three, server: Server) -> None:
        councils, changes = three.councils, three.changes
        for number in (1, 2, 3):
            three.start(number)
        await until_then(lambda: three.leader() and not any(
            each.silence() for each in councils.values()))
        assert not changes
        await councils[3].hand_on()
        first = three.leader()
        others = tuple(number for number in (1, 2, 3) if number != first)
        await three.end(first)
        await until_then(lambda: sorted(changes) == [
            (number, (1, 2, 3), others) for number in others])
        assert sum(each.leads for each in councils.values()) == 1
        assert await councils[others[0]].handed([3, 9]) == [({"problems": []}, b"content")]
        await asyncio.to_thread(server.stop)
        councils[others[0]].trouble = ""  # it has not noticed yet
        await councils[others[0]].hand_on()  # which must not prevent that others take over
        await until_then(lambda: all("nobody can take over" in each.silence()
                                     for each in councils.values()))
        assert all(each.living == others for each in councils.values())
        await asyncio.to_thread(server.start)
        del changes[:]
        await until_then(lambda: not any(each.trouble for each in councils.values()))
        await asyncio.sleep(2 * three.settings.patience)
        assert not changes  # nobody thinks that the dead one lives
        three.start(first)
        await until_then(lambda: {(number, now) for number, _, now in changes} == {
            (number, (1, 2, 3)) for number in (1, 2, 3)})
        assert (first, others, (1, 2, 3)) in changes  # who had its agents meanwhile
        assert not any(each.silence() for each in councils.values())

    Three.run(tmp_path, run)


@pytest.mark.slow
def test_who_has_not_started_yet_has_time_to(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that boot one after another do not take each other's agents. Who never comes is dead
    in the end, and stays so when all others have been restarted."""
    monkeypatch.setattr("dumpulse_fleet.publish.takeover.START_S", 8.0)

    async def run(three: Three, server: Server) -> None:
        changes, patience = three.changes, three.settings.patience
        begun = time.monotonic()
        three.start(1)
        await until_then(three.leader)
        await asyncio.sleep(2 * patience)
        assert not changes
        three.start(2)
        await until_then(lambda: changes == [(number, (1, 2, 3), (1, 2)) for number in (1, 2)]
                         or len(changes) > 1)
        assert {now for _, _, now in changes} == {(1, 2)} and time.monotonic() - begun >= 8
        await three.end(1)
        await three.end(2)
        del changes[:]
        three.start(2)
        await until_then(lambda: three.leader() == 2)
        await asyncio.sleep(2 * patience)
        three.start(1)
        await until_then(lambda: {number for number, _, _ in changes} == {1, 2})
        assert {now for _, _, now in changes} == {(1, 2)}
        await three.end(1)  # who has given a sign of life has no more time than `patience`
        begun = time.monotonic()
        await until_then(lambda: changes[-1] == (2, (1, 2), (2,)))
        assert time.monotonic() - begun < 8

    Three.run(tmp_path, run)


@pytest.mark.long
def test_a_shard_that_is_killed_is_taken_over_without_a_false_alarm(tmp_path: Path) -> None:
    """All its agents are asked by others within three periods. What was told is told once, ages go
    on, and when the shard comes back, it takes up its agents."""
    class Webhook(Taking):
        came: list[Any] = []

    server = Server(tmp_path)
    server.start()
    try:
        with answering(Webhook) as port, Fake(AGENTS) as fake, fleet(
                tmp_path, fake, SETTINGS.format(server.url)
                + "[alerts]\nwait = '1s'\nagain = '1s'\n"
                f"[[notify]]\nwebhook = 'http://127.0.0.1:{port}/'\n") as (made, wall):
            everybody(wall)
            dead, silent = sorted(made.of(2))[:2]
            fake.tell("die", int(dead[1:]), int(dead[1:]))
            fake.tell("stop 1", int(silent[1:]), int(silent[1:]))
            everybody(wall, but={dead: "unreachable", silent: "dead"})
            until(lambda: len(Webhook.came) > 1)  # of the agent, and of the engine
            beat, told = heard(wall, silent), list(Webhook.came)
            time.sleep(10)  # what is known is handed on
            made.shards[2].process.kill()
            killed = time.time()
            rest = [1, 3, 4]
            until(lambda: asked_since(made, rest, killed) == names(made) - {dead})
            print(f"taken over after {(time.time() - killed) / PERIOD:.1f} periods")
            assert time.time() - killed < 3 * PERIOD
            everybody(wall, but={dead: "unreachable", silent: "dead"})
            assert wall.ask(f"/api/v1/agents/{silent}")["before"]["shard"] == 2
            # Who goes on knows when the engine was heard, which its timestamp alone does not say.
            assert abs(heard(wall, silent) - beat) <= 1
            made.start(2)
            until(lambda: asked_since(made, [2], time.time() - 2 * PERIOD) == made.of(2) - {dead}
                  and not made.of(2) & asked_since(made, rest, 0))
            everybody(wall, but={dead: "unreachable", silent: "dead"})
            assert abs(heard(wall, silent) - beat) <= 1
            time.sleep(2 * PERIOD)
            assert Webhook.came == told
            worse = {(each["agent"], each["now"]) for each in made.events()
                     if each["now"] not in ("alive", "late")}
            assert worse <= {(dead, "unreachable"), (silent, "dead")}
    finally:
        server.stop()


def names(made: Fleet) -> set[str]:
    return {f"a{number}" for number in range(AGENTS)}


def asked_since(made: Fleet, shards: list[int], begun: float) -> set[str]:
    """The agents of these shards that have answered since then."""
    return {each["name"] for number in shards
            for each in made.shards[number].ask("/api/v1/agents?limit=1000")["agents"]
            if each["heard_at"] and each["heard_at"] > begun}


def heard(wall: Serving, name: str) -> float:
    """When the engine of an agent was heard, as the agent's shard knows it."""
    return float(wall.ask(f"/api/v1/agents/{name}")["variables"][1]["heard_at"])
