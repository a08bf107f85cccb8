"""The wall in each of its states and sizes, for the eyes and for axe; how fast it is.

    build/venv/bin/python -m pytest -s dumpulse_fleet/tests/test_wall_looks.py

prints the figures, and leaves the pictures in build/fleet-wall."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
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
    "by-rack-as-dots": Look(query="?by=label:rack&as=dots"),
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


# ---------------------------------------------------------------- how fast it is
COUNT, CHANGES, SECONDS = 10_000, 1000, 10  # agents, of which so many change each second


def page(browser: Browser) -> dict[str, float]:
    """What Chromium counts of the page. Times are CPU times of its main thread, in s."""
    return {each["name"]: float(each["value"])
            for each in browser.cdp("Performance.getMetrics")["metrics"]}


def heap(browser: Browser) -> float:
    """MB of objects of JavaScript that are in use."""
    browser.cdp("HeapProfiler.collectGarbage")
    return float(browser.cdp("Runtime.getHeapUsage")["usedSize"]) / 1e6


@pytest.mark.parametrize("screen", ["tv", "4k"])
def test_without_stutter(browser: Browser, screen: str) -> None:
    """Prints the figures of the fleet's page. It judges CPU times and memory, because these depend
    least on who else uses the machine."""
    service, chance = make_service(COUNT), np.random.default_rng(1)
    browser.screen(*SCREENS[screen])
    browser.cdp("Performance.enable", timeDomain="threadTicks")
    try:
        with running(browser, service) as wall:
            wall.open()
            loaded = page(browser)["TaskDuration"]
            paint, drawn = browser.run("""return [
                performance.getEntriesByName('first-contentful-paint')[0].startTime,
                performance.getEntriesByName('load')[0].duration]""")
            small, begun = heap(browser), time.monotonic()
            quiet = page(browser)["TaskDuration"]
            for tenth in range(1, 10 * SECONDS + 1):
                for row in chance.choice(COUNT, CHANGES // 10, replace=False).tolist():
                    state = State(int(chance.choice((1, 1, 1, 1, 1, 1, 1, 1, 4, 7))))
                    service.change(row, state, 1)
                time.sleep(max(0.0, begun + tenth / 10 - time.monotonic()))
            busy = (page(browser)["TaskDuration"] - quiet) / SECONDS
            large, before = heap(browser), page(browser)
            for row in range(3, COUNT, 4):  # a site, all at once
                service.change(row, State.UNREACHABLE)
            browser.until(f"document.querySelectorAll('.tile.unreachable').length >= {COUNT // 4}")
            time.sleep(3)
            after = page(browser)
    finally:
        leave(browser)
        browser.cdp("Performance.disable")
        browser.screen(1280, 800)
    stormy = after["TaskDuration"] - before["TaskDuration"]
    print(f"\n{COUNT:,} agents, {screen}: first paint {paint:.0f} ms; all drawn after {drawn:.0f} "
          f"ms and {1000 * loaded:.0f} ms of CPU; {CHANGES:,} changes a second: "
          f"{100 * busy:.0f} % of a core; a site of {COUNT // 4:,} gone: {1000 * stormy:.0f} ms; "
          f"heap {small:.1f} MB, later {large:.1f} MB")
    assert 0.005 < loaded < 2 and stormy < 1
    assert busy < 0.5, "of a core"
    assert large < 12 and large - small < 2
    assert after["Nodes"] < 6 * COUNT + 5000


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
