"""The configuration: what it says, and what is wrong in it, with the right line."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dumpulse_fleet import client
from dumpulse_fleet.collect.discovery import parse_targets
from dumpulse_fleet.config.agents import Shared, make_profile
from dumpulse_fleet.config.file import Config, load
from dumpulse_fleet.config.outputs import AlertSettings
from dumpulse_fleet.config.toml_reader import Mistakes
from dumpulse_fleet.model.agents import ReaderKeys
from dumpulse_fleet.model.naming import Wrong, check_address, check_name, expand, matches, name_of
from dumpulse_fleet.web.access import read_file as read_web

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "dumpulse_fleet" / "examples" / "fleet.toml"
AGENT = "[[agents]]\naddress = 'a'\n"


def read(folder: Path, text: str | bytes) -> Config:
    path = folder / "fleet.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(str(path))


def mistakes(folder: Path, text: str | bytes) -> list[tuple[int, str]]:
    with pytest.raises(Mistakes) as caught:
        read(folder, text)
    for each in caught.value.all:
        assert each.file == str(folder / "fleet.toml")
        assert str(each).isprintable() and len(str(each)) < 1000, each
    return [(each.line, each.text) for each in caught.value.all]


def mistake(folder: Path, text: str | bytes) -> tuple[int, str]:
    (only,) = mistakes(folder, text)
    return only


# ---------------------------------------------------------------- any bytes
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    try:
        read(tmp_path, content)
    except Mistakes as error:
        assert error.all


def example_keys() -> list[tuple[str, str]]:
    """Each key of the example with its section, also those that are commented out."""
    section, found = "", []
    for line in EXAMPLE.read_text().splitlines():
        if heading := re.match(r"\[+(\w+)\]", line):
            section = heading[1]
        elif key := re.match(r"(?:# )?(\w+) = ", line):
            found.append((section, key[1]))
    return found


# ---------------------------------------------------------------- what it says
def test_the_example_has_every_key(tmp_path: Path) -> None:
    """The list of keys comes from the messages about unknown ones."""
    text = "zzzzz = 1\n" + "".join(
        f"[[{name}]]\nzzzzz = 1\n" for name in ("agents", "notify", "status")
        ) + "".join(
        f"[{name}]\nzzzzz = 1\n" for name in (
            "collector", "defaults", "alerts", "web"))
    in_example = set(example_keys())
    count = 0
    for _, message in mistakes(tmp_path, text):
        if match := re.fullmatch(r"(\w+): 'zzzzz' is unknown: use (.*)", message):
            for key in match[2].split(", "):
                shared = match[1] == "agents" and ("defaults", key) in in_example
                shared |= match[1] == "defaults" and ("agents", key) in in_example
                assert shared or (match[1], key) in in_example, (match[1], key)
                count += 1
    assert count == 42


def test_keys_that_are_commented_out(tmp_path: Path) -> None:
    """Each of them alone, in place of what excludes it."""
    vehicle = (ROOT / "examples" / "vehicle.ini").read_bytes()
    (tmp_path / "vehicle.ini").write_bytes(vehicle)
    (tmp_path / "web.yml").write_text("")
    (tmp_path / "ca.pem").write_text("")
    (tmp_path / "keys").mkdir()
    key = tmp_path / "keys" / "gateway-north-readers.key"
    key.write_text("00112233445566778899aabbccddeeff\n")
    key.chmod(0o600)
    for name in ("webhook.token", "web.token"):
        (tmp_path / name).write_text("hunter2\n")
    for name, url in (("ping.url", "https://x/1"), ("webhook.url", "http://x"),
                      ("apprise.url", "tgram://x/y"), ("alertmanager.url", "http://x")):
        (tmp_path / name).write_text(f"  {url}  \r\nmore")
    lines = EXAMPLE.read_text().splitlines()
    hidden = [number for number, line in enumerate(lines) if re.match(r"# \w+ = ", line)]
    assert len(hidden) > 10
    excludes = {"webhook_file": "webhook", "apprise_file": "apprise",
                "alertmanager_file": "alertmanager"}
    for number in hidden:
        now = lines.copy()
        now[number] = now[number][2:]
        other = excludes.get(now[number].split()[0])
        if other and now[number - 1].startswith(f"{other} = "):
            now[number - 1] = ""
        found = read(tmp_path, "\n".join(now))
        assert "hunter2" not in repr(found) and "password@" not in repr(found)


def test_defaults_are_those_of_the_example(tmp_path: Path) -> None:
    """What the example writes as a default is one: an almost empty file means the same."""
    found, empty = load(str(EXAMPLE)), read(tmp_path, AGENT)
    for name in ("state", "grace"):
        assert getattr(found, name) == getattr(empty, name), name
    assert found.web == empty.web
    assert empty.alerts == AlertSettings()
    for key in ("wait", "remind", "blind", "ping_every"):
        assert getattr(found.alerts, key) == getattr(empty.alerts, key)
    assert empty.agents[0].period == 10 and empty.agents[0].misses == 3


def test_the_page_of_the_fleet(tmp_path: Path) -> None:
    """Its example is right, and its mistakes look like this."""
    page = (ROOT / "dumpulse_fleet" / "README.md").read_text()
    (example,) = re.findall(r"This is a whole one:\n\n((?:    .*\n|\n)+)", page)
    (tmp_path / "vehicle.ini").write_text("")
    found = read(tmp_path, re.sub("(?m)^    ", "", example))
    assert len(found.agents) == 51 and found.alerts.notify
    told = re.findall(r"dumpulse-fleet: fleet.toml:(\d+): (.*)", page)
    assert mistake(tmp_path, "[[agents]]\nadress = 'a'\n" + "[[agents]]\naddress = 'b'\n") \
        == (int(told[0][0]), told[0][1])
    assert mistake(tmp_path, "\n" * 4 + AGENT + "parent = 'b'\n" + AGENT.replace("'a'", "'b'")
                   + "parent = 'a'\n") == (int(told[1][0]), told[1][1])
    for address in re.findall(r'`address = "(.*?)"`', page):
        assert read(tmp_path, AGENT.replace("'a'", f'"{address}"')).agents


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "names.ini").write_text("[3]\nname = engine\n")
    (tmp_path / "etc").mkdir()
    monkeypatch.chdir("/")
    found = read(tmp_path / "etc", "[collector]\nstate = 'state'\n[defaults]\n"
                 "names = '../names.ini'\n[[agents]]\naddress = '{a,b}'\n[[agents]]\n"
                 f"address = 'c'\nnames = '../names.ini'\n")
    assert found.state == str(tmp_path / "etc" / "state")
    assert len({id(agent.profile) for agent in found.agents}) == 1
    assert found.agents[0].profile.settings.variables[3].name == "engine"


def test_labels_add_up(tmp_path: Path) -> None:
    found = read(tmp_path, "[defaults]\nsite = 'x'\nlabels = { a = '1', b = '2' }\n[[agents]]\n"
                 "address = 'n'\nsite = 'y'\nlabels = { b = '3' }")
    assert found.agents[0].labels == {"a": "1", "b": "3"} and found.agents[0].site == "y"


# ---------------------------------------------------------------- what is wrong
SECRET = "f0e1d2c3b4a5968778695a4b3c2d1e0f"


@pytest.mark.parametrize("content", [
    f"{SECRET}\n", f"readers {SECRET}\n", f"[{SECRET}]", f"[agents.{SECRET}]", f"{SECRET} = 1",
    f"[[agents]]\naddress = '{SECRET}:1:2'", f"a = '{SECRET}'", f"a = 1\na.{SECRET} = 1",
    f"[[agents]]\naddress = 'a'\nperiod = '{SECRET}'", f"{SECRET}: {SECRET}", f"{{{SECRET}: a}}",
    f"basic_auth_users: {{{SECRET}: {SECRET}}}", f"basic_auth_users: {{a: {SECRET}}}",
    f"tls_server_config: {{{SECRET}: a}}", f"- targets: [{SECRET}:x]", f"*{SECRET}",
    f"!{SECRET} a", f'[{{"targets": ["{SECRET}:x"], "labels": {{"a b {SECRET}": ""}}}}]'])
def test_a_key_in_the_place_of_another_file_is_not_printed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    said = []
    for read in (load, read_web, make_profile, ReaderKeys,
                 lambda path: parse_targets(Path(path).read_bytes(), Shared(make_profile()))):
        try:
            found: Any = read(str(path))
        except (Mistakes, Wrong, client.BadUsage) as error:
            said.append(str(error))
        else:
            said += found[1] if isinstance(found, tuple) and len(found) > 1 else []
    for section, key in (("alerts", "ping_file"), ("web", "token_file"), ("web", "config_file"),
                         ("defaults", "names"), ("defaults", "keys")):
        whole = tmp_path / "fleet.toml"
        whole.write_text(f"{AGENT}[{section}]\n{key} = '{path}'\n")
        with contextlib.suppress(Mistakes):
            load(str(whole))
            continue
        said += [text for _, text in mistakes(tmp_path, whole.read_text())]
    assert len(said) > 5
    assert not any(SECRET[at:at + 8] in line for line in said for at in range(24)), said


WRONG = [
    # text, line, a part of the message
    ("", 1, "there are no agents: write [[agents]]"),
    ("agent = 1\n", 1, "'agent' is unknown: do you mean 'agents'?"),
    ("[agents]\naddress = 'a'\n", 1, "agents: must be tables that begin with [[agents]]"),
    ("[[agents]]\naddres = 'b'\n", 2, "agents: 'addres' is unknown: do you mean 'address'"),
    ("[[agents]]\nname = 'x'\n", 1, "needs exactly one of address, file"),
    (AGENT + "file = 'x.json'\n", 1, "address, file, not address and file"),
    (AGENT + "period = 10\n", 3, "period: must be a time in quotes like '10s', not a number"),
    (AGENT + "period = '10 parsecs'\n", 3, "'10 parsecs' is not a time: write it like 500ms"),
    (AGENT + "period = '2h'\n", 3, "period: must be 0.1 s to 3600 s, not 7200 s"),
    (AGENT + "misses = true\n", 3, "misses: must be a whole number, not true or false"),
    (AGENT + "misses = 0\n", 3, "misses: must be 1 to 1,000"),
    (AGENT + "labels = { site = 'x' }\n", 3, "'site' cannot be a label"),
    (AGENT + "labels = { a = 7 }\n", 3, "the label 'a' must be text in quotes, like '7'"),
    (AGENT + "labels = { 1a = '7' }\n", 3, "'1a' is not a label's name"),
    (AGENT + "labels = 'x'\n", 3, "labels: must be a table like"),
    (AGENT + "name = 'x{1..2}'\n", 3, "1 addresses, but the name stands for 2"),
    (AGENT + "name = 'a\\nb'\n".replace("'", '"'), 3, "must have 1 to 200 characters, in one line"),
    (AGENT + AGENT, 4, "the name 'a' is that of line 2, too"),
    (AGENT + "[[agents]]\naddress = 'a:9060'\nname = 'b'\n", 4, "is the address of 'a', too"),
    (AGENT + "[[agents]]\naddress = 'c d'\n", 4, "'c d' is not an address"),
    (AGENT.replace("'a'", "'a:99999'"), 2, "port 99999 is out of range"),
    (AGENT.replace("'a'", "'can:can0:681'"), 2, "write HOST or HOST:PORT, for UDP"),
    (AGENT.replace("'a'", "'a{2..1}'"), 2, "{2..1} is empty"),
    (AGENT.replace("'a'", "'{1..9999}{1..9999}'"), 2, "stands for more than 1,000,000 agents"),
    (AGENT + "parent = 'b'\n", 2, "there is no agent 'b' to be its parent"),
    (AGENT + "parent = 'a'\n", 2, "a: it is its own parent: a -> a"),
    (AGENT + "names = 'nowhere.ini'\n", 3, "nowhere.ini': No such file"),
    ("[[agents]]\nfile = 'x.json'\nname = 'y'\n", 3, "'name' goes only with address"),
    (AGENT + "[[notify]]\nwebhook = 'ftp://x'\n", 4, "with https:// or http://, then a host"),
    (AGENT + "[collector]\ngrace = '2000h'\n", 4, "must be 0 s to 86400 s"),
    (AGENT + "[[status]]\nname = 'g'\nmatch = { sight = 'x' }\n", 5, None),
    (AGENT + "[[status]]\nname = 'g'\nmatch = {}\n", 5, "is empty"),
    (AGENT + "[[status]]\nname = 'g'\nmatch = 'x'\n", 5, "must be a table"),
    (AGENT + "[[status]]\nname = 'g'\nmatch = { site = 7 }\n", 5, "match"),
    (AGENT + "[[status]]\nname = 'g'\n", 3, "status: 'match' is missing"),
    (AGENT + "[web]\nlisten = '9061'\n", 4, "is not HOST:PORT"),
    (AGENT + "[web]\nconfig_file = 'nowhere.yml'\n", 4, "nowhere.yml': No such file"),
    (AGENT + "[[status]]\nname = 'x'\nmatch = { rack = '7' }\n", 5, "no agent has a label"),
    (AGENT + "[[notify]]\nmatch = {}\n", 3, "webhook, apprise, alertmanager, webhook_file"),
    ("a = 1\nb = \n", 2, "this is not TOML: Invalid value"),
    ("a = '''\n\n", 3, "this is not TOML"),
    ("x = 1\n\xff".encode("latin-1"), 2, "this is not UTF-8"),
    ("a = " + "[" * 9_999, 0, "this is not TOML: a number is too long, or lists are nested")]


@pytest.mark.parametrize("text, line, part", WRONG, ids=range(len(WRONG)))
def test_one_mistake(tmp_path: Path, text: str | bytes, line: int, part: str | None) -> None:
    found = mistake(tmp_path, text)
    assert found[0] == line and (part or "no agent has a label 'sight': do you mean 'site'") \
        in found[1], found


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    (tmp_path / "bad.ini").write_text("[3]\nvalue = 9..1\n")
    text = """\
[collector]
grace = 5
stat = "x"

[[agents]]
address = "a"
names = "bad.ini"

[[agents]]
address = "b"
period = "1 s"
misses = "x"

[web]
listen = 1
[colector]
""".replace("\n", "\r\n")
    found = mistakes(tmp_path, "\ufeff" + text)
    assert [line for line, _ in found] == [2, 3, 7, 12, 15, 16]
    assert "do you mean 'state'?" in found[1][1] and "do you mean 'collector'?" in found[5][1]
    assert "bad.ini', [3]: value must be two values" in found[2][1]


def test_no_mistakes_that_follow_from_others(tmp_path: Path) -> None:
    """The gateway's table is wrong. That its children lack a parent is no news."""
    assert mistake(tmp_path, "[[agents]]\naddress = 'gw'\nperiod = 1\n[[agents]]\naddress = 'x'\n"
                   "parent = 'gw'\n[[status]]\nname = 'g'\nmatch = { a = 'b' }") \
        == (3, "agents: period: must be a time in quotes like '10s', not a number")


def test_circles_are_told_once(tmp_path: Path) -> None:
    text = "".join(f"[[agents]]\naddress = '{name}'\nparent = '{parent}'\n"
                   for name, parent in ("ab", "bc", "ca", "da", "ed", "fg", "gf"))
    assert mistakes(tmp_path, text) == [(2, "agents: a: it is its own parent: a -> b -> c -> a"),
                                        (17, "agents: f: it is its own parent: f -> g -> f")]


def test_a_tick_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "fast.ini").write_text("[dumpulse]\ntick = 1ms\n")
    fast = "names = 'fast.ini'\nperiod = '19s'\n"
    assert read(tmp_path, AGENT + fast)
    line, message = mistake(tmp_path, AGENT + fast.replace("19", "20"))
    assert line == 1 and "an agent must be polled every 58.9824 s" in message


@pytest.mark.parametrize("tick, own, period, most", [
    ("1ms", "", "4s", "3.718 s"), ("1ms", "", "3700ms", ""), ("10ms", "", "40s", "39.43 s"),
    ("1ms", "now-from = 1\n", "4s", ""), ("1s", "", "1h", "")])
def test_a_pair_of_tick_and_period_that_nobody_can_judge(
        tmp_path: Path, tick: str, own: str, period: str, most: str) -> None:
    """Without the agent's own time, each report would make all ages unknown."""
    (tmp_path / "fast.ini").write_text(f"[dumpulse]\ntick = {tick}\ncrit = 50s\n{own}[2]\n")
    text = f"{AGENT}names = 'fast.ini'\nperiod = '{period}'\n"
    if not most:
        assert read(tmp_path, text)
        return
    line, message = mistake(tmp_path, text)
    assert line == 1 and f"use at most {most}, or a longer tick, or now-from" in message


@pytest.mark.parametrize("text", [
    "[[notify]]\nwebhook = 'hunter2'", "[[notify]]\nwebhook = 'ftp://u:hunter2@x/'",
    "[[notify]]\nwebhook = 'http://x:hunter2/'", "[[notify]]\napprise = 'hunter2'",
    "[[notify]]\nwebhook = ['hunter2']", "[alerts]\nping = 'hunter2'",
    "[[notify]]\nwebhook = hunter2", "[[notify]]\nwebhook = 'http://hunter2",
    "[[notify]]\nwebhook_file = 'secret'", "[alerts]\nping_file = 'secret'",
    "[[notify]]\nwebhook = 'http://hunter2'\nwebhook = 1"], ids=range(11))
def test_no_secret_in_a_message(tmp_path: Path, text: str) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    assert "hunter2" not in str(mistakes(tmp_path, text + "\n" + AGENT))


@pytest.mark.parametrize("content, part", [
    (b"", "must have the secret in its first line"), (b"\nhunter2", "in its first line"),
    (b"hunter2\0\n", "in its first line"), (b"hunter2\xff", "is not UTF-8"),
    (b"hunter2" * 10_000, "is longer than")], ids=range(5))
def test_bad_secret_files(tmp_path: Path, content: bytes, part: str) -> None:
    (tmp_path / "secret").write_bytes(content)
    _, message = mistake(tmp_path, AGENT + "[web]\ntoken_file = 'secret'")
    assert part in message and "hunter2" not in message


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT", 0.5)
    for path, part in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file"),
                       ("/dev/zero", "is longer than"), ("a\0b", "null byte"),
                       ("a\nb", "'a\\nb'")):
        with pytest.raises(Mistakes) as caught:
            load(str(path))
        assert part in str(caught.value) and str(caught.value).isprintable()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Mistakes, match="nothing comes from it"):
        load(str(tmp_path / "pipe"))


# ---------------------------------------------------------------- names and patterns
@pytest.mark.parametrize("pattern, expected", [
    ("a", ["a"]), ("n{1..3}", ["n1", "n2", "n3"]), ("{08..11}", ["08", "09", "10", "11"]),
    ("{a,b}-{1..2}:5", ["a-1:5", "a-2:5", "b-1:5", "b-2:5"]), ("{0..1}", ["0", "1"]),
    ("[fd00::{1..2}]:7", ["[fd00::1]:7", "[fd00::2]:7"]),])
def test_patterns(pattern: str, expected: list[str]) -> None:
    assert list(expand(pattern)) == expected


@pytest.mark.parametrize("pattern", ["{", "}", "{}", "{a}", "{a,}", "{1..}", "{{1..2}}", "{-1..2}"])
def test_wrong_patterns(pattern: str) -> None:
    with pytest.raises(Wrong):
        list(expand(pattern))


@pytest.mark.parametrize("address, name", [
    ("a.lan:7", "a.lan"), ("[fd00::1]:7", "fd00::1"), ])
def test_names_of_addresses(address: str, name: str) -> None:
    assert name_of(check_address(address)) == name


@pytest.mark.parametrize("is_right, names", [
    (False, ["", " a", "a ", ".", "..", "a/b", "a\nb", "a*", "\u6f22", "a" * 101]),
    (True, ["a", "a b", "a.b", "-1", "fd00::1", "\u00fcmlaut", "a" * 100])])
def test_names(is_right: bool, names: list[str]) -> None:
    for name in names:
        with contextlib.nullcontext() if is_right else pytest.raises(Wrong):
            assert check_name(name) == name


def test_matching() -> None:
    agent = Shared(make_profile(), "north", {"role": "web"}).agent("a.lan", "a-1")
    for match, expected in (({"site": "north"}, True), ({"site": "nor*", "role": "web"}, True),
                            ({"name": "a-?", "variable": "3"}, True), ({"role": "db"}, False),
                            ({"other": "x"}, False), ({"site": "NORTH"}, False)):
        assert matches(match, agent) == expected, match
