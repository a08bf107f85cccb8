"""The command line."""

import contextlib
import json
import os
import pty
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpulse_fleet import client, command, http_client
from dumpulse_fleet.model.version import VERSION
from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from dumpulse_fleet.tests.collecting import PATIENCE, until
from dumpulse_fleet.tests.serving import COMMAND, ROOT, Answering, Serving, answering, run, write

quick = settings(max_examples=100)
OWN = "[[agents]]\naddress = '127.0.0.1:1'\nname = 'nobody.north'\nsite = 'north'\n" \
      "labels = { role = 'gateway' }\n"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("fleet")
    with FakeFleet(12) as fake:
        write(folder, fake, 12, OWN)
        with Serving(folder) as running:
            running.wait_for_agents({
                **{f"a{number}": "alive" for number in range(12)}, "nobody.north": "unreachable"})
            until(lambda: running.ask("/api/v1/events?agent=nobody.north")["events"],
                  lambda: "no event")
            yield running


class Ask:
    """Runs commands in this process, which is faster: `run` starts another one."""

    def __init__(self, serving: Serving, monkeypatch: pytest.MonkeyPatch,
                 capsys: pytest.CaptureFixture[str]) -> None:
        self.serving, self._capsys = serving, capsys
        monkeypatch.setenv("DUMPULSE_FLEET", serving.address)
        monkeypatch.setenv("DUMPULSE_FLEET_TOKEN_FILE", str(serving.folder / "token"))
        monkeypatch.setenv("LOGNAME", "ada")
        monkeypatch.setattr(client, "PROGRAM", "dumpulse-fleet")

    def __call__(self, *words: str, status: int = 0) -> str:
        """What is printed, or if the status is not 0, what is said."""
        self._capsys.readouterr()
        assert command.run_command(words) == status
        out, err = self._capsys.readouterr()
        assert not (out if status else err), (out, err)
        return err if status else out


@pytest.fixture
def ask(serving: Serving, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> Ask:
    return Ask(serving, monkeypatch, capsys)


# ---------------------------------------------------------------- with a real fleet
def test_ls(ask: Ask) -> None:
    lines = ask("ls").splitlines()
    assert len(lines) == 1 + 13 + 1 and max(map(len, lines)) <= 80
    assert lines[0].split() == ["state", "since", "agent", "site", "variables"]
    assert re.fullmatch(r"unreachable  \d+ s +nobody.north  north +-", lines[1])
    assert lines[-1] == "13 agents: 1 unreachable, 12 alive"
    assert "\033" not in "".join(lines)
    lines = ask("ls", "--limit", "3").splitlines()
    assert len(lines) == 1 + 3 + 2 and lines[-2] == "and 10 more: --limit 0 shows all"
    assert len(ask("ls", "--limit", "0").splitlines()) == 15


@pytest.mark.parametrize("words, names", [
    (["--state", "unreachable"], ["nobody.north"]), (["--site", "north"], ["nobody.north"]),
    (["--label", "role=gate*"], ["nobody.north"]), (["nobo", "gateway"], ["nobody.north"]),
    (["--state", "dead"], []), (["a7"], ["a7"]), (["a7", "--state", "alive"], ["a7"]),
    (["--state", "alive", "--state", "unreachable", "--site", "north"], ["nobody.north"])])
def test_ls_chooses(ask: Ask, words: list[str], names: list[str]) -> None:
    found = json.loads(ask("ls", "--json", *words))
    assert [each["name"] for each in found["agents"]] == names and found["total"] == len(names)


def test_show(ask: Ask) -> None:
    lines = ask("show", "a3").splitlines()
    assert re.fullmatch(r"a3: alive for \d+ s", lines[0])
    assert max(map(len, lines)) <= 80 and any("1 engine" in line for line in lines)
    assert json.loads(ask("show", "a3", "--json"))["name"] == "a3"
    done = ask("show", "a333", status=2)
    assert "there is no agent of this name: a333 (do you mean 'a3'?)" in done
    assert "there is no agent" in ask("show", "../../metrics", status=2)


def test_events(ask: Ask) -> None:
    lines = ask("events", "--agent", "nobody*").splitlines()
    assert re.search(r"\d\d-\d\d \d\d:\d\d:\d\d +nobody.north +north +.*unreachable", lines[-1])
    found = json.loads(ask("events", "--json", "--limit", "1", "--since", "1h"))["events"]
    assert len(found) == 1
    assert ask("events", "--agent", "nobody.south") == "no events\n"


def test_show_marks_what_no_key_proves(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = json.loads(ask("show", "a3", "--json"))
    assert "authenticated" not in ask("show", "a3")
    agent["variables"][1]["authenticated"] = False
    monkeypatch.setattr(http_client.FleetClient, "request", lambda *_, **__: agent)
    assert ask("show", "a3").count("1 engine (not authenticated)") == 1


def test_mute(ask: Ask) -> None:
    assert ask("mute") == "no mutes\n"
    done = ask("mute", "site=north", "name=nobody*", "--for", "2h", "--why", "we know")
    number = re.match(r"mute (\d+) is in force until ", done)
    assert number
    until(lambda: ask("ls", "nobody").splitlines()[1].startswith("unreachable (muted)"),
          lambda: "it is not muted")
    lines = ask("mute").splitlines()
    assert len(lines) == 2 and "  site=north name=nobody*  muted  we know (ada)" in lines[1]
    assert ask("mute", "--end", number[1]) == f"mute {number[1]} has ended\n"
    assert ask("mute") == "no mutes\n"
    assert "no mute with this number" in ask("mute", "--end", number[1], status=2)


def test_ack(ask: Ask) -> None:
    done = ask("ack", "nobody.north", "--why", "on my way")
    number = re.match(r"mute (\d+) acknowledged until all is well, at most until ", done)
    assert number
    assert "  name=nobody.north  acknowledged  on my way (ada)" in ask("ack")
    until(lambda: ask("ls", "nobody").splitlines()[1].startswith(
        "unreachable (ada is handling it)"))
    assert ask("show", "nobody.north").splitlines()[0].endswith(" s (ada is handling it)")
    assert "no agent that fits is in trouble" in ask("ack", "a3", status=2)
    assert ask("ack", "--end", number[1]) == f"mute {number[1]} has ended\n"


@pytest.mark.parametrize("words, part", [
    (["mute", "north", "--for", "2h"], "'north' does not name what it is about: write it"),
    (["mute", "site=north"], "for how long? write --for 2h"),
    (["mute", "site=north", "site=south", "--for", "2h"], "each label can be named once"),
    (["mute", "site=north", "--end", "3"], "--end ends one mute"),
    (["mute", "site=north", "--for", "20000h"], "seconds: must be less"),
    (["ls", "--state", "ded"], "do you mean 'dead'?"), (["sl"], "'sl' is not a command"),
    (["evnts"], "do you mean 'events'?"), (["ls", "--sit=x"], "do you mean '--site'?"),
    (["ls", "--limit", "x"], "not a number"), (["events", "--variable", "64"], "0 to 63"),
    (["ls", "--user", "x"], "--user needs --password-file"),
    (["ls", "--token-file", "nowhere"], "No such file"),
    (["ls", "--fleet", "https://x", "--ca-file", "nowhere"], "nowhere"),
    (["ls", "--fleet", "http://[x"], "like http://127.0.0.1:9061"),
    (["ls", "--fleet", "ftp://x"], "like"), (["ls", "--fleet", "x:99999"], "like"),
    (["ls", "--fleet", "http://u:hunter2@x"], "without a password"),
    (["-v"], "name a command first: serve, ls"), (["help"], "(see dumpulse-fleet --help)"),
    (["serve", "x.toml"], "name the configuration with --config.file x.toml"),
    (["serve", "--config.file", "none"], "cannot read 'none': No such file or directory: name"),
    (["serve", "--config.file", "/"], "cannot read '/': Is a directory: name your own with"),
    (["show"], "required")])
def test_usage(ask: Ask, words: list[str], part: str) -> None:
    done = ask(*words, status=2)
    assert part in done and "hunter2" not in done
    assert done.count("\n") == 1 and done.startswith("dumpulse-fleet: ")


def test_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("", *command.COMMANDS):
        with pytest.raises(SystemExit, match="0"):
            command.run_command([*name.split(), "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) > 5 and max(map(len, lines)) <= 80, name
    assert run("--version").stdout == f"dumpulse-fleet {VERSION} (experimental)\n"


def test_no_answer_and_no_right(ask: Ask) -> None:
    done = run("ls", "--fleet", "127.0.0.1:1", status=3)
    assert "no answer from http://127.0.0.1:1: Connection refused" in done.stderr
    done = run("mute", "site=x", "--for", "1h", status=2, DUMPULSE_FLEET_TOKEN_FILE="")
    assert "--token-file" in done.stderr


def test_the_output_cannot_be_written(ask: Ask) -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([*COMMAND, "ls"], stdout=full, stderr=subprocess.PIPE, text=True,
                              cwd=ROOT, timeout=PATIENCE, check=False)
    assert done.returncode == 1 and "cannot write" in done.stderr


def test_on_a_terminal(ask: Ask) -> None:
    """80 x 24: no line wraps, and states have colours, unless nobody wants them."""
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        ours, theirs = pty.openpty()
        with subprocess.Popen([*COMMAND, "ls", "--limit", "20"], stdout=theirs, cwd=ROOT,
                              env={**os.environ, "COLUMNS": "40", **environment}) as process:
            os.close(theirs)
            output = b""
            while True:
                try:
                    more = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                output += more
            os.close(ours)
            assert process.wait() == 0
        text = output.decode().replace("\r\n", "\n")
        assert ("\033[1;31munreachable\033[0m" in text) == coloured
        assert max(len(re.sub("\033.*?m", "", line)) for line in text.splitlines()) <= 40


# ---------------------------------------------------------------- with something else
@contextlib.contextmanager
def hostile(status: int, body: bytes, pause: float = 0, **headers: str
            ) -> Iterator[tuple[str, list[Any]]]:
    """A server that answers each request with the same bytes, after a pause. Yields its address,
    and the headers that came."""
    seen: list[Any] = []

    class Handler(Answering):
        def do_GET(self) -> None:
            seen.append(self.headers)
            time.sleep(pause)
            self.answer(status, body, **headers)

        do_POST = do_DELETE = do_GET

    with answering(Handler) as port:
        yield f"http://127.0.0.1:{port}", seen


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False),
              st.sampled_from(["", "dead", "\x1b[2J", "\ud800", "a" * 200])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["agents", "total", "name", "state", "since", "counts", "site", "muted",
                         "events", "mutes", "match", "ends", "trouble", "variables", "dead"]),
        inner, max_size=6), max_leaves=12)
CALLS = [["ls"], ["show", "x"], ["events"], ["mute"], ["mute", "a=b", "--for", "1h"],
         ["mute", "--end", "1"], ["ack", "x"], ["reload"], ["ls", "--json"]]


@quick
@given(JSON, st.sampled_from(CALLS))
def test_any_answer(answer: Any, words: list[str]) -> None:
    """Whatever a server says, the command ends with one line and the right status, and sends no
    control characters to the terminal."""
    def say(*_: Any, **__: Any) -> Any:
        if not isinstance(answer, dict):
            raise client.BadReport("answer", http_client.NOT_OURS)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr(http_client.FleetClient, "request", say)
        patch.setattr("builtins.print", lambda *texts, sep=" ", **_: printed.append(
            sep.join(map(str, texts))))
        assert command.run_command(words) in (0, 4)
        assert all(line.isprintable() for text in printed for line in text.split("\n"))


@pytest.mark.parametrize("status, body, wanted, part", [
    (200, b"hello", 4, "what answers is not a fleet"), (200, b"[" * 100_000, 4, "not a fleet"),
    (200, b"{}", 4, "not a fleet"), (404, b"<html>", 4, "is the address right? (status 404)"),
    (500, b'{"error": "it \\u001b[2Jis broken"}', 3, "it ?[2Jis broken"),
    (401, b'{"error": "no"}', 2, "no: name a token"), (302, b"", 4, "status 302"),
    (403, b'{"error": "no"}', 2, "dumpulse-fleet: no\n"),
    (200, b'{"total": 1e999, "agents": []}', 4, "not a fleet"), (999, b"", 4, "not a fleet")])
def test_other_servers(tmp_path: Path, status: int, body: bytes, wanted: int, part: str) -> None:
    (tmp_path / "token").write_text("sesame")
    with hostile(200, b"{}") as (elsewhere, others), \
            hostile(status, body, Location=f"{elsewhere}/x") as (address, seen):
        done = run("ls", "--fleet", address, "--token-file", str(tmp_path / "token"),
                   status=wanted)
        assert part in done.stderr and done.stderr.count("\n") == 1
        assert seen[0]["Authorization"] == "Bearer sesame"
        assert not others  # nobody else gets the token


def test_a_server_that_waits() -> None:
    with hostile(200, b"{}", 3.0) as (address, _):
        done = run("ls", "--fleet", address, "--timeout", "500ms", status=3)
        assert "no answer from" in done.stderr


def test_no_proxy_gets_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    with hostile(200, json.dumps({"error": "x"}).encode()) as (proxy, seen):
        run("ls", "--fleet", "127.0.0.1:1", "--token-file", str(tmp_path / "token"), status=3,
            http_proxy=proxy, HTTP_PROXY=proxy, ALL_PROXY=proxy)
        assert not seen
