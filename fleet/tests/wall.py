"""What the tests of the wall share: a small fleet with some of everything, and axe.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

from fleet import web
from fleet.access import Access
from fleet.model import Agent, Group, State
from fleet.tests import standins
from fleet.tests.browser import Browser

TOKEN = "a long token"
AXE = "4.12.1"
HOSTILE = '<img src=x onerror="document.title=1">'
SITES = ("Amsterdam", "Berlin", "Cape Town", "")
COUNT = 60
LIVE = "document.body.classList.contains('live') && !document.body.classList.contains('waiting')"
STALE = "document.body.classList.contains('stale')"
IN_FULL = ("document.querySelectorAll('#variables svg').length > 0 && "
           "document.getElementById('events').children.length > 0")


def make_service(count: int = COUNT) -> standins.Service:
    """The last agent's name and labels try to be more than text."""
    cars = standins.profile()
    agents = [Agent(f"pump-{number:04}", f"10.0.{number // 250}.{number % 250 + 1}:9060", cars,
                    SITES[number % 4], {"rack": f"r{number % 3}"}) for number in range(count - 1)]
    if count:
        agents.append(Agent(HOSTILE, "10.1.1.1:9060", cars, f"{HOSTILE}site",
                            {"rack": HOSTILE, "constructor": "x", "toString": "y"}))
    service = standins.Service(standins.filled(agents),
                               [Group(f"half{HOSTILE}", {"rack": "r1"}, 50)])
    service.fixed = []
    service.table.heard_at[:] = time.time() + 3600  # so that it does not get old meanwhile
    return service


def trouble(service: standins.Service) -> None:
    """Some of everything."""
    for row, state in enumerate((State.DEAD, State.LATE, State.UNREACHABLE, State.OUT_OF_RANGE,
                                 State.NEVER, State.PENDING, State.UNKNOWN, State.LATE)):
        service.change(row, state, -1 if state == State.UNREACHABLE else 3)


class Running(NamedTuple):
    """A browser, and a server with a page for it."""

    browser: Browser
    service: standins.Service
    port: int

    def open(self, query: str = "") -> None:
        self.browser.open(f"http://127.0.0.1:{self.port}/{query}")
        self.browser.until(LIVE)

    def tiles(self) -> list[list[str]]:
        """Site, name and state of those that can be seen, in their order."""
        found: list[list[str]] = self.browser.run("""
            return [...document.querySelectorAll('.tile:not([hidden])')].map((tile) => [
                tile.closest('section').querySelector('b').textContent, tile.agent,
                tile.classList[1]]);""")
        return found

    def names(self) -> list[str]:
        return [name for _, name, _ in self.tiles()]


@contextlib.contextmanager
def running(browser: Browser, service: standins.Service, at: int = 0) -> Iterator[Running]:
    with standins.serving(lambda: web.make_app(service, Access(token=TOKEN)), at) as port:
        yield Running(browser, service, port)


def leave(browser: Browser) -> list[str]:
    """What the browser has complained of. The page is gone then."""
    browser.open("about:blank")
    return browser.complaints()


# ---------------------------------------------------------------- axe


def axe() -> str:
    """From the package axe-playwright-python, without Playwright."""
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


def violations(browser: Browser) -> dict[str, Any]:
    """Serious ones, by the name of the rule. It takes axe into the page first, if need be."""
    if not browser.run("return window.axe?.version"):
        browser.run(axe())
    ran, found = json.loads(browser.run_async("""
        axe.run(document, {resultTypes: ['violations']}).then((result) => done(JSON.stringify([
            [result.testEngine.version, result.passes.length],
            result.violations.map(({id, impact, nodes}) => [id, impact,
                nodes.slice(0, 3).map((node) => [node.html, node.failureSummary])])])));"""))
    assert ran[0] == AXE and ran[1] > 20, f"axe {ran} did not look at the page"
    return {name: nodes for name, impact, nodes in found if impact in ("serious", "critical")}


def cut_off(browser: Browser, width: int) -> list[str]:
    """What reaches beyond the window."""
    found: list[str] = browser.run("""
        const cut = [...document.querySelectorAll('button, select, input, .shape, .tile, h1, h2')]
            .filter((each) => each.checkVisibility()).filter((each) => {
                const box = each.getBoundingClientRect();
                return box.right > innerWidth + 1 || box.left < -1; })
            .map((each) => each.outerHTML.slice(0, 200));
        return document.documentElement.scrollWidth <= arguments[0] ? cut
            : [...cut, 'the page scrolls to the side'];""", width)
    return found
