"""The wall, in Debian's Chromium: what people see, do with keys, and are told when it is old."""

import contextlib
import http.client
import json
import re
import shutil
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from dumpulse_fleet.model.agents import Agent, Mute, State
from dumpulse_fleet.tests import fakes
from dumpulse_fleet.tests.collecting import until
from dumpulse_fleet.tests.serving import ROOT, started
from dumpulse_fleet.tests.test_web import AUTHORISED, basic, certificate, HASHED, PASSWORD, TOKEN
from dumpulse_fleet.tests.wall import (
    Browser, COUNT, cut_off, driver, HOSTILE, IN_FULL, leave, LIVE, make_service, Running, running,
    STALE, trouble, violations)
from dumpulse_fleet.web import server
from dumpulse_fleet.web.access import Access
from tools.programs import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(name="wall")
def make_wall(browser: Browser) -> Iterator[Running]:
    with running(browser, make_service()) as wall:
        yield wall
        assert leave(browser) == []


# ---------------------------------------------------------------- what is seen
def test_every_agent_is_a_tile_and_the_worst_come_first(wall: Running) -> None:
    trouble(wall.service)
    wall.open()
    tiles = wall.tiles()
    assert sorted(name for _, name, _ in tiles) == \
        sorted(agent.name for agent in wall.service.table.agents)
    assert [state for _, _, state in tiles[:3]] == ["unreachable", "unknown", "alive"]
    sites = list(dict.fromkeys(site for site, _, _ in tiles))
    assert sites == ["Cape Town", "Amsterdam", "without a site", "Berlin", f"{HOSTILE}site"]
    assert wall.browser.text("#headline") == "7 of 60 agents need a look"
    assert wall.chips() == ["1 unreachable", "1 dead", "1 never", "1 out of range", "2 late",
                            "1 unknown", "1 pending", "52 alive"]
    assert wall.browser.run("return document.title") == "(7) Dumpulse fleet"
    heard = [node["name"]["value"] for node in wall.browser.cdp(
        "Accessibility.getFullAXTree")["nodes"] if node.get("role", {}).get("value") == "option"]
    assert any(each.startswith("pump-0002 unreachable · ") for each in heard)
    assert "pump-0008 alive" in heard


def test_a_dead_gateway_is_the_cause_and_where_more_is_wrong_comes_first(browser: Browser) -> None:
    """Nine are behind mill-gateway, and no tile of theirs hides it. Of two sites with the same
    state, that with more agents in trouble is first; so is the agent with more dead variables."""
    cars = fakes.profile()
    sites = {"hill": 10, "mill": 10, "port": 10}
    service = fakes.FakeBackend(fakes.filled([
        Agent(f"{site}-{'gateway' if not number else number}", f"10.0.{at}.{number}:1", cars, site,
              parent=f"{site}-gateway" if number else "")
        for at, (site, count) in enumerate(sites.items()) for number in range(count)]))
    service.store.fixed = []
    service.table.heard_at[:] = time.time() + 3600
    service.change(3, State.DEAD, 2)
    for row in range(20, 30):
        service.change(row, State.DEAD, 2)
    service.change(25, State.DEAD, 3)
    with running(browser, service) as wall:
        wall.open()
        bad = "return [...document.querySelectorAll('.bad .tile')].map((tile) => tile.agent)"
        assert browser.run(bad)[:2] == ["port-5", "port-1"]
        assert browser.run(bad)[-1] == "hill-3", "one of ten is below ten of ten"
        for row in range(10, 20):
            service.change(row, State.UNREACHABLE)
        browser.until("document.querySelectorAll('.good .behind').length === 9")
        assert browser.run(bad)[0] == "mill-gateway"
        assert re.match("unreachable · 9 behind it · ", browser.text(".bad .unreachable span"))
        assert browser.text("#headline") == \
            "12 of 30 agents need a look, 9 behind mill-gateway"
        service.change(10, State.ALIVE)  # its children may be dead themselves
        browser.until("document.querySelectorAll('.bad .unreachable').length === 9")
        assert not browser.run("return document.querySelector('.behind')")
        leave(browser)


def test_changes_come_by_themselves(wall: Running) -> None:
    wall.open()
    browser, service = wall.browser, wall.service
    assert browser.text("#headline") == "All 60 agents are alive"
    service.change(13, State.DEAD, 2)
    browser.until("document.querySelector('.tile').classList.contains('dead')")
    assert wall.tiles()[0] == ["Berlin", "pump-0013", "dead"]
    assert browser.text("#headline") == "1 of 60 agents needs a look"
    service.change(13, State.ALIVE, 2)
    browser.until("document.querySelector('#headline').textContent.startsWith('All')")
    assert not browser.run("return document.querySelector('.tile.dead')")
    berlin = [name for site, name, _ in wall.tiles() if site == "Berlin"]
    assert berlin == sorted(berlin)
    service.table = make_service(20).table  # another configuration
    browser.until("document.querySelectorAll('.tile').length === 20")
    assert browser.text("#headline") == "All 20 agents are alive"
    service.table = make_service(0).table
    browser.until("document.querySelectorAll('.tile').length === 0")
    assert browser.text("#headline") == "No agents are configured"


def test_names_are_text(wall: Running) -> None:
    wall.service.change(COUNT - 1, State.DEAD, 1)
    wall.open(f"?agent={urllib.parse.quote(HOSTILE)}")
    browser = wall.browser
    browser.until(IN_FULL)
    assert wall.tiles()[0] == [f"{HOSTILE}site", HOSTILE, "dead"]
    assert browser.text("#agent-name") == HOSTILE and f"rack={HOSTILE}" in browser.text("#facts")
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.title") == "(1) Dumpulse fleet"


def test_a_tile_names_what_is_wrong_and_numbers_have_their_order(wall: Running) -> None:
    cars = fakes.profile()
    wall.service.table = fakes.filled([Agent(f"10.0.0.{number}", "10.0.0.1:9060", cars)
                                          for number in (10, 22, 1, 30, 2)])
    wall.service.table.heard_at[:] = time.time() + 3600
    for variable, state in ((3, State.LATE), (1, State.DEAD)):
        wall.service.change(2, state, variable)
    wall.service.change(3, State.DAMAGED)
    wall.service.change(0, State.UNREACHABLE)
    wall.open()
    names = [each.name for each in cars.settings.variables]
    assert wall.names() == [f"10.0.0.{number}" for number in (10, 30, 1, 2, 22)]
    assert re.fullmatch(rf"{names[1]} dead \+ 1 · [0-9]+ s", wall.browser.run(
        "return document.querySelector('.tile.dead span').textContent"))
    assert re.fullmatch("damaged · [0-9]+ s", wall.browser.run(
        "return document.querySelector('.tile.damaged span').textContent"))


def test_a_search_counts_what_it_finds(wall: Running) -> None:
    trouble(wall.service)
    wall.open("?q=berlin")
    assert wall.browser.text("#headline") == "1 of 15 agents needs a look: “berlin”"
    assert wall.chips() == ["1 late", "1 pending", "13 alive"]


def test_a_site_is_one_card_with_its_health_and_folds_on_a_phone(wall: Running) -> None:
    browser = wall.browser
    wall.service.change(1, State.DEAD, 3)
    wall.open()
    health = ("[...document.querySelectorAll('section')].filter("
              "(each) => each.querySelector('b').textContent === 'Berlin').map((each) => "
              "[...each.querySelectorAll('.health i')].map((part) => "
              "part.className + part.style.flexGrow)).join()")
    assert browser.run(f"return {health}") == "dead1,alive14"
    wall.service.change(5, State.LATE, 3)
    browser.until(f"{health} === 'dead1,late1,alive13'")
    assert browser.text("section span") == "1 dead, 1 late, 13 alive"
    seen = "return [...document.querySelectorAll('.tile')].filter((each) => each.checkVisibility())"
    browser.screen(390, 844, phone=True)
    try:
        browser.until(f"(() => {{ {seen}.length === 2 }})()", "only the bad ones")
        browser.click("section > div")
        assert browser.run(f"{seen}.length") == 15
    finally:
        browser.screen(1280, 800)


# ---------------------------------------------------------------- what is chosen
def test_choices_are_in_the_address(wall: Running) -> None:
    trouble(wall.service)
    wall.open()
    browser = wall.browser
    wall.click("pump-0001")
    wall.click("pump-0002")
    browser.run("history.back()")  # closes an agent
    browser.until("document.getElementById('panel').hidden && location.search === ''")
    browser.run("history.forward()")
    browser.until("document.getElementById('facts').textContent.includes('10.0.0.3')")
    assert browser.text("#agent-name") == "pump-0002"
    browser.click("#close")
    browser.run("document.querySelector('#states .late').click()")
    assert wall.names() == ["pump-0007", "pump-0001"], "one of 14 is more than one of 15"
    browser.run("document.querySelector('#states .dead').click()")
    assert sorted(wall.names()) == ["pump-0000", "pump-0001", "pump-0007"]
    browser.press("/")
    browser.press(*"be =r1")
    assert wall.names() == ["pump-0001"]
    address = browser.run("return location.search")
    assert urllib.parse.parse_qs(address[1:]) == {
        "q": ["be =r1"], "state": ["late", "dead"]}
    before = wall.tiles()
    wall.open(f"{address}&as=large&state=happy&agent=nobody&more=%FF%00")  # Partly nonsense.
    until(lambda: any("/nobody" in line for line in browser.complaints()), "a 404")
    assert "no such agent" in browser.text("#agent-state")
    browser.click("#close")
    assert wall.tiles() == before == [["Berlin", "pump-0001", "late"]]
    assert browser.run("return document.getElementById('search').value") == "be =r1"
    browser.press("/")
    browser.press(*" no")
    assert wall.names() == [] and "No agent fits" in browser.text("main")
    browser.click("#clear")
    assert len(wall.names()) == COUNT
    assert browser.run("return location.search") == ""


FOCUSED = "return document.activeElement.agent ?? document.activeElement.id"


def test_keys_alone_do_everything(wall: Running) -> None:
    trouble(wall.service)
    wall.open()
    browser = wall.browser

    def press(*keys: str) -> str:
        browser.press(*keys)
        return str(browser.run(FOCUSED))

    assert press("/", *"pump") == "search"
    for _ in range(10):
        if (focused := press("Tab")).startswith("pump"):
            break
    assert focused == "pump-0002"  # the worst
    assert browser.run("return document.activeElement.matches(':focus-visible')")
    assert press("ArrowRight") == "pump-0006"
    below = press("ArrowDown")
    assert below not in ("pump-0002", "pump-0006")
    assert press("ArrowUp") in ("pump-0002", "pump-0006")
    assert press("Home", "Enter") == "agent-name"
    assert browser.text("#agent-name") == "pump-0002"
    assert "agent=pump-0002" in browser.run("return location.search")
    browser.until(IN_FULL)
    places = [press("Tab") for _ in range(8)]
    assert places[:2] == ["close", "agent-body"] and "mute-login" in places
    assert press("Escape") == "pump-0002"
    assert browser.run("return document.getElementById('panel').hidden")
    assert press("End") == wall.names()[-1]
    assert browser.run("return document.querySelectorAll('.tile[tabindex=\"0\"]').length") == 1
    last = browser.run(FOCUSED)
    wall.service.change(wall.service.table.row[last], State.DEAD, 2)
    browser.until("document.activeElement.classList.contains('dead')")
    assert wall.names()[0] != last == browser.run(FOCUSED), "it moves, and keeps the focus"
    assert press("/") == "search"
    press("Escape")
    assert browser.run("return document.getElementById('search').value") == ""


# ---------------------------------------------------------------- one agent
def test_what_no_key_proves_is_marked(browser: Browser, tmp_path: Path) -> None:
    """In a tile, and in the list of variables, but not of an agent without a key."""
    service = fakes.FakeBackend(fakes.with_and_without_key(tmp_path))
    service.store.fixed = []
    service.table.heard_at[:] = time.time() + 3600
    service.change(0, State.DEAD, 2)
    service.change(1, State.DEAD, 2)
    with running(browser, service) as wall:
        wall.open("?agent=keyed")
        browser.until(IN_FULL)
        tiles = browser.run("""return [...document.querySelectorAll('.tile')].map((tile) =>
            [tile.agent, tile.textContent])""")
        assert {name: "tank (not authenticated) dead" in text for name, text in tiles} == {
            "keyed": True, "plain": False}
        rows = """return [...document.querySelectorAll('#variables tbody tr')].map((row) =>
            [parseInt(row.textContent), row.textContent.includes('not authenticated')])"""
        marked = [number for number, mark in browser.run(rows) if mark]
        assert marked == [2, 5]
        wall.open("?agent=plain")
        browser.until(IN_FULL)
        assert not any(mark for _, mark in browser.run(rows))
        assert leave(browser) == []


def test_an_agent_in_full(wall: Running) -> None:
    browser, service = wall.browser, wall.service
    table = service.table
    table.heard_at[5] = time.time() - 2
    table.entry[5, 2] = (1 << 16) | (9 << 8) | 77
    table.stamped[5, 2] = table.clock[5] - 3 * 3600 - 120
    table.entry[5, 1] = (1 << 16) | (9 << 8) | 200  # should be 10 to 120
    table.entry[5, 6] = 0
    service.change(5, State.DEAD, 2)
    wall.open("?agent=pump-0005")
    browser.until(IN_FULL)
    rows = browser.run("""return [...document.querySelectorAll('#variables tbody tr')].map((row) =>
        [...row.cells].slice(0, 3).map((cell) => cell.textContent))""")
    assert len(rows) == 16
    assert rows[2][0].startswith("2 brakesdead for") or rows[2][0].startswith("2 brakesdead")
    assert rows[2][1] == "77" and rows[2][2].startswith("3 h 2 min")
    assert rows[1][1] == "200 !" and rows[6][1:] == ["–", "never"]
    assert browser.text("#uptime") == \
        "well in 24 h: 98.96 % of 1 d · 7 d: 99.85 % of 7 d · 30 d: 99.97 % of 30 d seen"
    age = browser.run("return document.querySelector('#variables tbody tr').cells[2].textContent")
    browser.until(f"document.querySelector('#variables tbody tr').cells[2].textContent !== '{age}'",
                  "ages count up")
    browser.until("document.getElementById('events').textContent.includes('dead')")
    assert "brakes: alive → dead after 1 h" in browser.text("#events")
    browser.click("#more")
    assert browser.run("return document.querySelectorAll('#variables tbody tr').length") == 64
    table.entry[5, 2] = (1 << 16) | (9 << 8) | 78
    browser.until("document.querySelector('#variables tbody tr:nth-child(3)').cells[1].textContent"
                  " === '78'", "values follow")


def test_a_mute_from_the_panel(wall: Running) -> None:
    browser, service = wall.browser, wall.service
    service.change(9, State.DEAD, 2)
    service.alertmanager = "http://alerts.example/am"
    wall.open("?agent=pump-0009")
    browser.until("document.getElementById('events').children.length > 0")
    assert browser.run("return document.getElementById('silences').href") == \
        "http://alerts.example/am/#/silences"
    assert browser.run("return document.getElementById('mute').hidden")
    wall.log_in("ada", "wrong")
    browser.until("document.getElementById('login-answer').textContent.includes('not accept')")
    browser.press("Escape")
    wall.log_in("ada")
    browser.until("!document.getElementById('mute').hidden")
    browser.run("document.getElementById('mute-why').value = '<b>repair';"
                "document.getElementById('mute').requestSubmit()")
    browser.until("document.getElementById('mutes').textContent.includes('<b>repair')")
    assert (service.store.made[0].match, service.store.made[0].by) == ({"name": "pump-0009"}, "ada")
    browser.until("document.querySelector('.tile.muted')")
    wall.open("log")  # One log-in is enough for all pages of a tab.
    browser.until("document.getElementById('login').textContent === 'ada, log out'")
    wall.open("?agent=pump-0009")
    browser.until("document.querySelector('#mutes .end:not([hidden])')")
    assert browser.text("#headline") == "60 agents, none in trouble"
    browser.click("#mutes button")
    browser.until("!document.querySelector('.tile.muted')")
    assert not service.store.made
    refusal = [line for line in browser.complaints() if "401" not in line]
    assert refusal == []


def test_trouble_is_acknowledged_from_the_panel(wall: Running) -> None:
    browser, service = wall.browser, wall.service
    for row in (9, 13):
        service.change(row, State.DEAD, 2)
    wall.open("?agent=pump-0009")
    browser.until(IN_FULL)
    wall.log_in("ada")
    browser.until("!document.getElementById('mute').hidden")
    browser.click("#mute button[value=acknowledge]")
    browser.until("document.querySelector('.tile.known')")
    assert re.fullmatch("✓ ada · brakes dead · [0-9]+ s", browser.text(".tile.known span"))
    assert wall.names()[:2] == ["pump-0013", "pump-0009"], "what nobody knows comes first"
    assert browser.text("#headline") == "1 of 60 agents needs a look"
    assert browser.text("#states .acknowledged-state b") == "1"
    assert "name=pump-0009 acknowledged until" in browser.text("#mutes")


def test_the_page_of_events_and_mutes(wall: Running) -> None:
    browser, service = wall.browser, wall.service
    service.store.made = [Mute({"rack": HOSTILE}, 0, 4e9, "it is old", "ada", 7)]
    for row in (4, 5):
        service.change(row, State.DEAD, 2)
    browser.open(f"http://127.0.0.1:{wall.port}/log")
    browser.until("document.body.classList.contains('live') && "
                  "document.getElementById('label').options.length > 2")
    assert f"rack={HOSTILE} muted until" in browser.text("#mutes")
    assert "pump-0005 brakes: alive → dead after 1 h" in browser.text("#events li")
    wall.log_in()
    browser.until("!document.getElementById('mute').hidden")
    browser.run("document.getElementById('label').value = 'site';"
                "document.getElementById('glob').value = 'Ber*'")
    browser.click("#mute button:last-of-type")
    browser.until("document.getElementById('mutes').textContent.includes('site=Ber*')")
    assert service.store.made[1].match == {"site": "Ber*"}
    browser.run("document.getElementById('agent').value = '*-0004';"
                "document.getElementById('agent').dispatchEvent(new Event('input',"
                "{bubbles: true}))")
    browser.until("document.getElementById('events').children.length === 1")
    assert "pump-0004" in browser.text("#events")
    for choice, words in (("late", "none"), ("dead", "pump-0004")):
        browser.run("document.getElementById('state').value = arguments[0];"
                    "document.getElementById('since').value = '3600';"
                    "document.getElementById('which').dispatchEvent(new Event('input'))", choice)
        browser.until(f"document.getElementById('events').textContent.includes('{words}')")
    assert violations(browser) == {} and cut_off(browser, 1280) == []
    browser.click("#mutes li:last-child button")
    browser.until("!document.getElementById('mutes').textContent.includes('site=Ber*')")


@pytest.mark.long
def test_a_user_mutes_by_password(browser: Browser, tmp_path: Path) -> None:
    """The browser itself sends what proves that it is our page."""
    path = tmp_path / "web.yml"
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    path.write_text(f"basic_auth_users: {{alice: '{hashed}'}}", "utf-8")
    service = make_service(10)
    with fakes.serving(lambda: server.make_app(service, Access(path=str(path)))) as port:
        browser.open(f"http://alice:secret@127.0.0.1:{port}/?agent=pump-0003")
        browser.until("document.body.classList.contains('live')")
        browser.until("document.getElementById('events').children.length > 0")
        assert browser.text("#login") == "alice"
        browser.run("document.getElementById('mute').requestSubmit()")
        browser.until("document.querySelector('.tile.muted')")
        assert service.store.made[0].by == "alice"
        service.change(1, State.DEAD, 1)
        browser.until("document.querySelector('.tile.dead')")
        browser.open("about:blank")
    browser.complaints()


# ---------------------------------------------------------------- old data
def test_what_is_old_never_looks_new(browser: Browser) -> None:
    """First the collector hears nothing, and then the server goes and comes back."""
    service = make_service()
    colour = "return getComputedStyle(document.querySelector('.good .shape')).backgroundColor"

    def until_older() -> None:
        age = browser.text("#alarm-age")
        browser.until(f"document.getElementById('alarm-age').textContent !== '{age}'", "its age")

    with running(browser, service) as wall:
        wall.open()
        green = browser.run(colour)
        # What a screen reader would say: changes in the parts of the page that are read out.
        browser.run("""window.said = [];
            for (const each of document.querySelectorAll(
                    '[aria-live], [role=alert], [role=status]'))
                new MutationObserver(() => each.textContent && said.push(each.textContent)).observe(
                    each, {childList: true, characterData: true, subtree: true});""")
        service.trouble = "9 of 10 agents fell silent in one round"
        browser.until("document.getElementById('alarm').textContent.includes('9 of 10')")
        service.table.heard_at[:] = time.time() - 45
        browser.until(STALE)
        assert "No agent has answered since" in browser.text("#alarm")
        assert browser.run(colour) != green
        until_older()
        service.table.heard_at[:] = time.time() + 3600
        service.trouble = ""
        browser.until(f"{LIVE} && document.getElementById('alarm').hidden")
        alarms = [text for text in browser.run("return said") if "9 of 10" in text]
        assert len(alarms) <= 3, "with and without answers of the agents, but not each second"
    browser.until(STALE, "a sign that the connection is gone")
    assert "No connection to the fleet since" in browser.text("#alarm")
    assert re.match(r"Last known, [0-9]+ s ago: ", browser.text("#headline"))
    assert browser.text("#link-words") == "no connection"
    assert browser.run(colour) != green
    until_older()
    service.change(3, State.DEAD, 1)
    with running(browser, service, wall.port):
        browser.until(f"{LIVE} && document.querySelector('.tile.dead')", "live again")
        alarms = [text for text in browser.run("return said") if "No connection" in text]
        assert len(alarms) == 1, "a screen reader hears of it once"
    leave(browser)


# ---------------------------------------------------------------- for everybody
def test_everybody_can_use_it(wall: Running) -> None:
    """With an agent opened, which shows most."""
    browser = wall.browser
    trouble(wall.service)
    wall.open("?agent=pump-0002")
    browser.until(IN_FULL)
    assert violations(browser) == {}, "axe finds nothing serious"
    browser.screen(360, 640, phone=True)
    try:
        browser.until("document.querySelector('main').inert", "nobody gets behind the panel")
        assert cut_off(browser, 360) == []
        browser.press("Escape")
        assert cut_off(browser, 360) == [] and browser.run(FOCUSED) == "pump-0002"
    finally:
        browser.screen(1280, 800)


# ---------------------------------------------------------------- behind nginx, by the example
EXAMPLE = ROOT / "dumpulse_fleet" / "examples" / "nginx.conf"
NGINX = """pid {0}/pid; error_log {0}/error; daemon off; master_process off;
events {{}} http {{ access_log off; client_body_temp_path {0}/a; proxy_temp_path {0}/b;
fastcgi_temp_path {0}/c; uwsgi_temp_path {0}/d; scgi_temp_path {0}/e; {1} }}"""


def command(folder: Path, port: int, own: int) -> list[str]:
    text = EXAMPLE.read_text()
    for old, new in (("443 ssl", f"127.0.0.1:{port} ssl"), ("9061", str(own)),
                     ("fleet.example;", "localhost;"),
                     ("/etc/ssl/fleet.crt", str(folder / "cert.pem")),
                     ("/etc/ssl/fleet.key", str(folder / "key.pem"))):
        text = text.replace(old, new)
    file = folder / "nginx"
    file.write_text(NGINX.format(folder, text))
    return [shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(file), "-p", str(folder)]


def test_the_wall_works_behind_a_proxy(tmp_path: Path) -> None:
    port = free_port()
    certificate(tmp_path, "localhost")
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  alice: {HASHED}\n")
    service = fakes.FakeBackend(fakes.fleet(20))
    access = Access(path=str(tmp_path / "web.yml"), token=TOKEN)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))

    def fetch(path: str, method: str = "GET", body: Any = None, **headers: str) -> int:
        with contextlib.closing(http.client.HTTPSConnection(
                "localhost", port, timeout=20, context=trusting)) as connection:
            connection.request(method, path, body and json.dumps(body),
                               {"Content-Type": "application/json"} | headers)
            return connection.getresponse().status

    with fakes.serving(lambda: server.make_app(service, access)) as own, \
            started(*command(tmp_path, port, own), port=port,
                    env={"HOME": str(tmp_path), "PATH": "/usr/sbin:/usr/bin"}):
        assert fetch("/fleet") == 301
        for path in ("/fleet/", "/fleet/wall.js", "/fleet/log", "/fleet/metrics"):
            assert (fetch(path), fetch(path, **AUTHORISED)) == (401, 200), path
        alice = {**basic("alice", PASSWORD), "X-Dumpulse-Change": "yes"}
        for site, status in (("same-origin", 200), ("cross-site", 403)):
            assert fetch("/fleet/api/v1/mutes", "POST", {"match": {"name": "*"}, "seconds": 60}, **{
                **alice, "Origin": "https://localhost", "Sec-Fetch-Site": site}) == status
        with driver("--ignore-certificate-errors") as browser:
            browser.open(f"https://alice:{PASSWORD}@localhost:{port}/fleet/")
            browser.until(LIVE)
            service.change(3, State.DEAD, 2)
            browser.until("document.querySelector('.tile.dead')")
            browser.open("about:blank")
            assert browser.complaints() == []
