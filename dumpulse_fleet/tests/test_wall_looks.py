"""The wall in each of its states and sizes, for the eyes and for axe.

    build/venv/bin/python -m pytest dumpulse_fleet/tests/test_wall_looks.py

leaves the pictures in build/fleet-wall."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dumpulse_fleet.model.agents import Mute, State
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import until
from dumpulse_fleet.tests.wall import (
    IN_FULL, LIVE, STALE, Browser, cut_off, leave, make_service, running, trouble,
    violations)

pytestmark = pytest.mark.long
PICTURES = Path("build/fleet-wall")  # for people
SCREENS = {"phone": (390, 844), "zoom": (960, 540), "desk": (1280, 800), "tv": (1920, 1080),
           "4k": (3840, 2160)}  # zoom: tv at 200 %


# ---------------------------------------------------------------- each state
def nothing(_: fakes.FakeBackend) -> None:
    """All are alive."""


def a_site_is_gone(service: fakes.FakeBackend) -> None:
    for row, agent in enumerate(service.table.agents):
        if agent.site == "Berlin":
            service.change(row, State.UNREACHABLE)


def muted(service: fakes.FakeBackend) -> None:
    trouble(service)
    service.store.fixed = [Mute({"name": "pump-000[0-3]"}, 0, 4e9, "repair", "ada", 7),
                           Mute({"rack": "r2"}, 0, 4e9, "move", "ada", 7)]


def blind(service: fakes.FakeBackend) -> None:
    a_site_is_gone(service)
    service.trouble = "60 of 80 agents fell silent in one round: the collector is blind"
    service.table.heard_at[:] = time.time() - 754


def long_names(service: fakes.FakeBackend) -> None:
    """As long as the configuration allows, and from right to left."""
    trouble(service)
    table = service.table
    agents = [dataclasses.replace(
        agent, name=f"{'long-name-' * 9}{row:04}" if row % 3 else f"משאבה-{row:04}",
        site=(agent.site * 20)[:100], labels={"place": "W" * 200})
        for row, agent in enumerate(table.agents)]
    table.agents = tuple(agents)
    table.row = {agent.name: row for row, agent in enumerate(agents)}


class Look(NamedTuple):
    agents: int = 80
    change: Callable[[fakes.FakeBackend], None] = trouble
    query: str = ""
    until: str = LIVE


LOOKS = {
    "good": Look(change=nothing),
    "trouble": Look(),
    "large": Look(5000),
    "agent": Look(query="?agent=pump-0000", until=IN_FULL),
    "nothing-found": Look(query="?q=nothing+has+this"),
    "by-rack": Look(query="?by=label:rack"),
    "blind": Look(change=blind, until=STALE),
    "gone": Look(until=STALE),
    "muted": Look(change=muted),
    "muted-agent": Look(change=muted, query="?agent=pump-0002", until=IN_FULL),
    "unreachable": Look(change=a_site_is_gone),
    "storm": Look(5000, a_site_is_gone),
    "empty": Look(0, nothing),
    "long-names": Look(20, long_names),
}


@pytest.mark.parametrize("name", LOOKS)
def test_looks(browser: Browser, name: str) -> None:
    """Nothing is cut off, axe finds nothing serious, and people find a picture of it."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    look = LOOKS[name]
    service = make_service(look.agents)
    look.change(service)
    browser.screen(1280, 800)
    try:
        with contextlib.ExitStack() as server:
            wall = server.enter_context(running(browser, service))
            browser.open(f"http://127.0.0.1:{wall.port}/{look.query}")
            browser.until(LIVE if name == "gone" else look.until)
            if name == "gone":
                server.close()
                browser.until(look.until)
            for screen, (width, height) in SCREENS.items():
                for dark in (True, False):
                    browser.screen(width, height, dark, screen == "phone")
                    colours = "dark" if dark else "light"
                    browser.chrome.save_screenshot(str(PICTURES / f"{name}-{screen}-{colours}.png"))
                    where = f"{name} on {screen}"
                    assert cut_off(browser, width) == [], where
                    # Of thousands of tiles, axe looks at one colour for half a minute.
                    if look.agents < 1000 or (screen, dark) == ("desk", True):
                        assert violations(browser) == {}, where
            if name == "gone":
                return
            headline = browser.run("return parseFloat(getComputedStyle(document.querySelector("
                                   "'h1')).fontSize)")
            assert headline >= 70, "it can be read from afar"
    finally:
        leave(browser)
        browser.screen(1280, 800)


# ---------------------------------------------------------------- over minutes
def test_who_listens_hears_little(browser: Browser) -> None:
    """A storm of changes is said in a few words, and not more often than each ten seconds."""
    service = make_service()
    with running(browser, service) as wall:
        wall.open()
        browser.run("""
            window.said = [];
            new MutationObserver(() => said.push([performance.now(),
                document.getElementById('announce').textContent])).observe(
                document.getElementById('announce'), {childList: true, subtree: true});""")
        for round_ in range(44):
            service.change(round_, State.DEAD, 1)
            time.sleep(0.5)
        said = until(lambda: browser.run("return said.length > 2 && said"), "three announcements")
        leave(browser)
    assert all("agents need" in words for _, words in said)
    assert all(later - before > 9000 for (before, _), (later, _) in zip(said, said[1:])), said
