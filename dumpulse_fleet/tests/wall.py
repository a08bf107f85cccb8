"""What the tests of the wall share: Debian's Chromium, driven by Selenium; a small fleet with some
of everything; and axe."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from dumpulse_fleet.model.agents import Agent, State
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import until
from dumpulse_fleet.web import server
from dumpulse_fleet.web.access import Access

if TYPE_CHECKING:  # `make test` has no Selenium, and leaves these tests out
    from selenium.webdriver import Chrome

TOKEN = "a long token"
AXE = "4.12.1"
HOSTILE = '<img src=x onerror="document.title=1">'
SITES = ("Amsterdam", "Berlin", "Cape Town", "")
COUNT = 60
LIVE = "document.body.classList.contains('live') && !document.body.classList.contains('waiting')"
STALE = "document.body.classList.contains('stale')"
IN_FULL = ("document.getElementById('uptime').textContent && "
           "document.getElementById('events').children.length > 0")
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Tab": "\ue004", "Home": "\ue011",
        "End": "\ue010"}
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--force-device-scale-factor=1", "--no-first-run",
             "--disable-background-networking", "--disable-component-update",
             # One process for all pages: a spare one for each navigation takes its time.
             "--disable-features=SpareRendererForSitePerProcess,IsolateOrigins,"
             "site-per-process,BackForwardCache,WebUIOmniboxPopup,WebUIOmniboxAimPopup",
             "--disable-site-isolation-trials")


class Browser:
    """One window."""

    def __init__(self, chrome: Chrome) -> None:
        self.chrome = chrome
        self.open = chrome.get

    def run(self, script: str, *arguments: Any) -> Any:
        """The body of a function, in the page."""
        return self.chrome.execute_script(script, *arguments)

    def cdp(self, name: str, **parameters: Any) -> Any:
        return self.chrome.execute_cdp_cmd(name, parameters)

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains
        ActionChains(self.chrome, 0).send_keys(*(KEYS.get(key, key) for key in keys)).perform()

    def click(self, selector: str) -> None:
        self.chrome.find_element("css selector", selector).click()

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''",
                            selector))

    def until(self, script: str, what: str = "", seconds: float = 60) -> Any:
        """Waits until an expression is true in the page."""
        return until(lambda: self.run(f"return ({script})"), what or script, seconds, pause=0.15)

    def screen(self, width: int, height: int, dark: bool = True, phone: bool = False) -> None:
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=phone)
        self.cdp("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def complaints(self) -> list[str]:
        """What the browser has written into its log."""
        log: Any = self.chrome
        return [entry["message"] for entry in log.get_log("browser")]


@contextlib.contextmanager
def driver(*more: str) -> Iterator[Browser]:
    program = shutil.which("chromedriver")
    assert program, "chromedriver is in Debian's package chromium-driver: run make setup"
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service
    options = ChromeOptions()
    for argument in (*ARGUMENTS, *more):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Chrome(
            options, Service(program, env={**os.environ, "HOME": folder, "TMPDIR": folder})) as one:
        one.set_script_timeout(120)  # axe looks at thousands of tiles, and the machine may be busy
        yield Browser(one)


# ---------------------------------------------------------------- the fleet
def make_service(count: int = COUNT) -> fakes.FakeBackend:
    """The last agent's name and labels try to be more than text."""
    cars = fakes.profile()
    agents = [Agent(f"pump-{number:04}", f"10.0.{number // 250}.{number % 250 + 1}:9060", cars,
                    SITES[number % 4], {"rack": f"r{number % 3}"}) for number in range(count - 1)]
    if count:
        agents.append(Agent(HOSTILE, "10.1.1.1:9060", cars, f"{HOSTILE}site",
                            {"rack": HOSTILE, "constructor": "x", "toString": "y"}))
    service = fakes.FakeBackend(fakes.filled(agents))
    service.store.fixed = []
    service.table.heard_at[:] = time.time() + 3600  # Reports never get old in the test.
    return service


def trouble(service: fakes.FakeBackend) -> None:
    """Some of everything."""
    for row, state in enumerate((State.DEAD, State.LATE, State.UNREACHABLE, State.OUT_OF_RANGE,
                                 State.NEVER, State.PENDING, State.UNKNOWN, State.LATE)):
        service.change(row, state, -1 if state == State.UNREACHABLE else 3)


class Running(NamedTuple):
    """A browser, and a server with a page for it."""

    browser: Browser
    service: fakes.FakeBackend
    port: int

    def open(self, query: str = "") -> None:
        self.browser.open(f"http://127.0.0.1:{self.port}/{query}")
        self.browser.until(LIVE)

    def log_in(self, name: str = "", token: str = TOKEN) -> None:
        self.browser.click("#login")
        self.browser.run(f"document.getElementById('login-name').value = '{name}';"
                         f"document.getElementById('login-token').value = '{token}';"
                         "document.querySelector('#login-form form').requestSubmit()")

    def tiles(self) -> list[list[str]]:
        """Site, name and state of those that can be seen, in their order."""
        found: list[list[str]] = self.browser.run("""
            return [...document.querySelectorAll('.tile:not([hidden])')].map((tile) => [
                tile.closest('section').querySelector('b').textContent, tile.agent,
                tile.classList[1]]);""")
        return found

    def names(self) -> list[str]:
        return [name for _, name, _ in self.tiles()]

    def chips(self) -> list[str]:
        found: list[str] = self.browser.run("""
            return [...document.querySelectorAll('#states button')].filter(
                (chip) => !chip.hidden).map((chip) => chip.textContent)""")
        return found

    def click(self, agent: str) -> None:
        self.browser.run("[...document.querySelectorAll('.tile')].find("
                         "(tile) => tile.agent === arguments[0]).click()", agent)


@contextlib.contextmanager
def running(browser: Browser, service: fakes.FakeBackend, at: int = 0) -> Iterator[Running]:
    with fakes.serving(lambda: server.make_app(service, Access(token=TOKEN)), at) as port:
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
    ran, found = browser.run("""
        return axe.run(document, {resultTypes: ['violations']}).then((result) => [
            [result.testEngine.version, result.passes.length],
            result.violations.map(({id, impact, nodes}) => [id, impact,
                nodes.slice(0, 3).map((node) => [node.html, node.failureSummary])])]);""")
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
