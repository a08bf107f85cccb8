"""`client.py watch` and `make demo`, in a terminal of their own and in a pipe."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import client
from tools.agents import COMMAND, GOOD, FakeAgent, report, run, unused_port
from tools.programs import PATIENCE, ROOT, built, wait_until
from tools.servers import Server
from tools.terminal import Terminal

NOW = 40_000


def watch(address: str, *options: str, command: Sequence[str] = COMMAND, **more: Any) -> Terminal:
    return Terminal(*command, "watch", address, "--interval", "100ms", *options, **more)


def line_of(text: Sequence[str], start: str) -> str:
    return next((line for line in text if line.startswith(start)), "")


CHECKED = report(v0=(NOW, 1, 0), v1=(NOW - 2, 11, 90), v2=(NOW - 7, 12, 8), v3=(NOW - 40, 13, 126))
LATER = report(v0=(NOW, 1, 0), v1=(NOW - 2, 11, 91), v2=(NOW, 12, 8), v3=(NOW - 40, 13, 126))


def test_the_table() -> None:
    with FakeAgent([CHECKED], [LATER]) as agent, watch(agent.address, "--now-from", "0",
                                                       "--interval", "3s") as terminal:
        text = terminal.wait_for(lambda text: "90" in text[5])
        assert re.fullmatch(rf"{agent.address}  \d\d:\d\d:\d\d", text[0])
        assert text[1:4] == ["2 ok, 1 late, 1 dead", "ages by variable 0", client.HEADING]
        assert [" ".join(line.split()) for line in text[4:8]] == [
            "0 0 1 0 s ago, ok", "1 90 11 2 s ago, ok", "2 8 12 7 s ago, late",
            "3 126 13 40 s ago, dead"]
        assert text[8] == "Ctrl-C ends" and not any(text[9:])
        terminal.wait_for(lambda text: "91" in text[5])
        terminal.resize(20, 6)
        terminal.wait_for(lambda text: text[-1].startswith("3 hidden"))
        terminal.type(b"\x03")
        assert terminal.end() == 0


def test_why_there_is_no_report() -> None:
    address = f"127.0.0.1:{unused_port()}"
    with watch(address, "--count", "2", columns=40) as terminal:
        text = terminal.wait_for(lambda text: "no report yet" in text[1])
        assert "".join(text[1:3]).endswith(f"nothing listens at {address}")
        assert terminal.end() == 3


def test_only_those_that_were_asked_for_are_counted() -> None:
    with FakeAgent([CHECKED]) as agent:
        line = json.loads(run("watch", agent.address, "2-3,9", "--now-from", "0", "--count",
                              "1").stdout)
        assert [row["state"] for row in line["variables"]] == ["late", "dead", "never"]


def test_it_survives_the_agents_restart() -> None:
    port = unused_port()
    with watch(f"127.0.0.1:{port}", "--now-from", "0", "3") as terminal:
        terminal.wait_for(lambda text: "nothing listens at" in "".join(text[1:3]))
        with Server("--self", "0", "--rate", "1000", port=port) as server:
            client.Agent(f"127.0.0.1:{port}").beat(3, 76, 9)
            terminal.wait_for(lambda text: text[4].split()[:3] == ["3", "9", "76"])
            server.stop()
        # The last table stays.
        terminal.wait_for(lambda text: "no report for" in text[1] and line_of(text, "3  "))
        with Server("--self", "0", "--rate", "1000", port=port):
            terminal.wait_for(lambda text: text[4].split() == ["3", "-", "-", "never"])
        terminal.type(b"\x03")
        assert terminal.end() == 0


# ---------------------------------------------------------------- from report to report

def watched(*options: str) -> client.Watched:
    settings = client.make_settings(client.build_parser("watch").parse_args(["x", *options]))
    return client.Watched(settings, [], "x")


def test_what_has_changed() -> None:
    """At first all is new. Trouble is no news of a variable, and keeps its last reading."""
    state, sent = watched("--now-from", "0"), dict(v0=(NOW, 1, 0), v3=(NOW, 76, 9))
    for at, change, news in (
            (0, {}, [0, 3]), (1, {}, []), (2, dict(v3=(NOW + 2, 76, 9)), []),
            (3, dict(v3=(NOW + 2, 77, 9)), [3]), (4, dict(v3=(NOW + 2, 77, 8)), [3]),
            (9, {}, [3]), (10, dict(v5=(NOW, 1, 1)), [5]), (33, {}, [3, 5])):
        sent |= change | dict(v0=(NOW + at, 1, 0))
        with state.polling() as take:
            take(client.parse_report(report(**sent)))
        state.clock.received = client.uptime()
        assert [reading.variable.number for reading in state.news()] == news, at
    assert state.clock.asked <= state.clock.received and state.clock.now == NOW + 33
    for trouble in client.NoAnswer("silence"), client.BadReport("length", "short"):
        with state.polling() as take:
            raise trouble
        assert state.trouble is trouble and not state.news() and len(state.shown()) == 3
    state.heard_at -= 70
    assert state.summary() == "no report for 70 s; short"


def test_a_line_of_json(monkeypatch: pytest.MonkeyPatch,
                        capsys: pytest.CaptureFixture[str]) -> None:
    state = watched("--now-from", "3")
    state.take(client.parse_report(GOOD), 100.0)
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.98765)
    client.show_json(state)
    assert json.loads(capsys.readouterr().out) == {
        "time": 1_700_000_000.988, "agent": "x", "error": None,
        "clock": {"from": "now-from", "variable": 3, "text": "ages by variable 3"},
        "variables": [{
            "variable": 3, "name": None, "state": "ok", "age": 0.0, "age_at_least": False,
            "value": 9, "value_ok": True, "value_unusual": False, "sender": 76,
            "timestamp": 0x1234}]}


# ---------------------------------------------------------------- what a window has room for

@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda form: "12:00:00")


def eight(*options: str) -> client.Watched:
    """Variables 0 to 7: 5 and 6 are dead, and 7 is late."""
    state = watched("--now-from", "0", *options)
    state.take(client.parse_report(report(**{
        f"v{number}": (NOW - {5: 40, 6: 40, 7: 7}.get(number, 0), number, number)
        for number in range(8)})), 100.0)
    return state


@pytest.mark.parametrize("rows, shown", [
    (1, []), (2, []), (3, [5]), (5, [5]), (6, [5]), (7, [5, 6]), (8, [5, 6, 7]), (9, [0, 5, 6, 7]),
    (12, [0, 1, 2, 3, 5, 6, 7]), (13, [*range(8)]), (99, [*range(8)])])
def test_what_a_low_window_shows(rows: int, shown: list[int], noon: None) -> None:
    text = client.draw_screen(eight(), 80, rows)
    head = ["x  12:00:00", "5 ok, 1 late, 2 dead", "ages by variable 0"]
    end = f"{8 - len(shown)} hidden; Ctrl-C ends" if len(shown) < 8 else "Ctrl-C ends"
    rest = [line for line in text if line not in (*head, client.HEADING, end)]
    assert len(text) <= rows and text[0] == head[0] and (rows < 4 or text[-1] == end)
    assert [int(line[:2]) for line in rest] == shown and (rows < 7 or text[:3] == head)


def test_what_a_narrow_window_shows(noon: None) -> None:
    """No line is too long, and a reason goes on in the next line."""
    state = eight()
    state.trouble, state.heard_at = client.NoAnswer("silence " * 9), client.uptime()
    state.event = "12:00:00 restarted"
    for columns in (1, 5, 40, 41):
        text = client.draw_screen(state, columns, 999)
        assert max(map(len, text)) == columns and state.event[:columns] in text
        assert f"no report for 0 s; {'silence ' * 9}" in "".join(text)


def test_the_worst_are_shown(tmp_path: Path, noon: None) -> None:
    """A bad value comes first. Then the state decides, and then an unusual value."""
    names = tmp_path / "names.ini"
    names.write_text("[1]\nvalue = 5..9\n[2]\nvalue-warn = 5..9\n[9]\n")
    state = eight("--names", str(names))
    order: list[str] = []
    for rows in range(6, 14):
        text = client.draw_screen(state, 80, rows)
        order += sorted({line[:2] for line in text[text.index(client.HEADING) + 1:-1]}
                        - {*order})
    assert [int(number) for number in order] == [1, 5, 6, 7, 9, 2, 0, 3]


def test_a_reading_of_an_earlier_report_is_stale(noon: None) -> None:
    state = eight()
    state.trouble = client.NoAnswer("silence")
    rows = client.draw_screen(state, 80, 24)[-9:-1]
    assert all(row.endswith(" ago, stale") for row in rows) and rows[5].endswith("40 s ago, stale")


# ---------------------------------------------------------------- how long it waits

class Clocked:
    """A time that passes only while somebody sleeps, or waits in select() or poll()."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 50.0
        self.waited: list[float] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, duration: float) -> None:
        assert duration >= 0
        self.waited.append(duration)
        self.now += duration


@pytest.mark.parametrize("pause, ms", [(0.0, 0), (0.0005, 1), (2.5, 2500), (1e9, 10**9)])
def test_a_pause_in_a_pipe_ends_when_nobody_reads(pause: float, ms: int,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    polled: list[Any] = []

    class Poll:
        answer: list[Any] = []
        register = staticmethod(lambda *what: polled.append(what))

        def poll(self, timeout: int) -> list[Any]:
            polled.append(timeout)
            return self.answer
    monkeypatch.setattr(select, "poll", Poll)
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    assert sys.__stdout__ is not None
    number = sys.__stdout__.fileno()
    client.wait_for_next(pause)
    assert polled == [(number, 0), ms]
    Poll.answer = [(number, 8)]
    with pytest.raises(BrokenPipeError):
        client.wait_for_next(pause)
    clocked = Clocked(monkeypatch)
    monkeypatch.delattr(select, "poll")
    client.wait_for_next(pause)
    assert clocked.waited == [pause]


@pytest.mark.parametrize("options, timeout, pauses", [
    ([], 1.0, [0.75, 0.75]), (["--interval", "2s"], 2.0, [1.75, 1.75]),
    (["--interval", "5s"], 3.0, [4.75, 4.75]),
    (["--interval", "200ms"], 1.0, [0, 0]), (["--timeout", "500ms"], 0.5, [0.75, 0.75])])
def test_from_one_request_to_the_next(options: list[str], timeout: float, pauses: list[float],
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may last as long as the interval, or 1 s. Its time is a part of the interval."""
    clocked = Clocked(monkeypatch)
    timeouts: list[float] = []

    def ask(self: client.Agent, timeout: float) -> client.Entries:
        timeouts.append(timeout)
        clocked.now += 0.25
        return client.parse_report(GOOD)
    monkeypatch.setattr(client.Agent, "ask", ask)

    monkeypatch.setattr(client, "wait_for_next", clocked.sleep)
    assert client.run_command(["watch", "127.0.0.1", "--count", "3", *options]) == 0
    assert timeouts == [timeout] * 3 and clocked.waited == pytest.approx(pauses)


@pytest.mark.parametrize("how", [{"TERM": "dumb"}, {"command": ["env", "-u", "TERM", *COMMAND]}],
                         ids=["dumb", "unknown"])
def test_json_on_a_terminal_that_can_nothing_else(how: dict[str, Any]) -> None:
    with FakeAgent([CHECKED]) as agent, watch(agent.address, "--count", "2", **how) as terminal:
        assert terminal.process.wait(PATIENCE) == 0
        wait_until(lambda: terminal.raw.count(b'"sender": 13') == 2, "all is read")
        assert b"\x1b" not in terminal.raw


def test_json() -> None:
    """Each look asks from a new port, as often as necessary. The agent's answers depend only on how
    often the port has changed."""
    with FakeAgent(lambda: [[CHECKED], [], [GOOD]][
            sum(one != next_one for one, next_one in pairwise(agent.askers))]) as agent:
        result = run("watch", agent.address, "3", "--now-from", "0", "--json", "--count", "3",
                     "--interval", "10ms", "--timeout", "2s")
    first, second, third = map(json.loads, result.stdout.splitlines())
    assert first["variables"][0]["state"] == "dead" and not first["error"]
    assert second["error"].startswith("no answer in") and second["variables"] == first["variables"]
    assert third["variables"][0]["age"] is None
    assert abs(third["time"] - time.time()) < PATIENCE


@pytest.mark.parametrize("options", [["--json"], [], ["--interval", "99999h"]])
def test_nobody_reads_any_more(options: list[str]) -> None:
    """As with `| head -1`, the program ends even if nothing changes any more."""
    with FakeAgent([CHECKED]) as agent:
        process = subprocess.Popen([*COMMAND, "watch", agent.address, "--interval", "50ms",
                                    *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout and process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 141 and process.stderr.read() == b""
        process.stderr.close()


def test_a_full_disk() -> None:
    with FakeAgent([CHECKED]) as agent, open("/dev/full", "w") as full:
        for command, status in (("get", 1), ("watch", 1), ("check", 3)):
            result = subprocess.run([*COMMAND, command, agent.address,
                                     *(["--expect", "1"] * (command == "check"))],
                                    stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=PATIENCE, check=False)
            assert (result.returncode, result.stderr) == (
                status, "client.py: cannot write: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command, status", [
    ("--help >/dev/full", 1), ("check --help >/dev/full", 3), ("--version >/dev/full", 1),
    ("get 2>/dev/full", 2),
    ("get 2>&-", 2), ("get NOBODY --timeout 0.1 2>/dev/full", 3),
    ("get NOBODY --timeout 0.1 2>&- <&-", 3),
    ("check NOBODY --expect 1 --timeout 0.1 2>&- <&-", 2), ("get 2>&- >&- <&-", 2)])
def test_descriptors_that_are_closed_or_full(command: str, status: int, unbuffered: str) -> None:
    """The status is that with good descriptors. Only an unreadable help text changes it."""
    command = command.replace("NOBODY", f"127.0.0.1:{unused_port()}")
    # The interpreter itself, because a wrapper in a shell may open descriptors 0 to 2.
    program = os.path.realpath(sys.executable)
    done = subprocess.run(["sh", "-c", f'"$0" "$1" {command}', program, COMMAND[1]],
                          capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                          check=False)
    assert done.returncode == status and "Traceback" not in done.stderr \
        and "Exception" not in done.stderr
    if "2>&-" in command and not command.startswith("check"):
        assert done.stdout == ""  # errors do not go there instead


@pytest.mark.parametrize("command", ["get", "watch --count 2 --interval 10ms",
                                     "check --expect 1 --now-from 1"])
def test_a_closed_output(command: str) -> None:
    with FakeAgent([CHECKED]) as agent:
        word, *options = command.split()
        result = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *COMMAND, word, agent.address,
                                 *options], stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("environment", [
    {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
                                         {"PYTHONIOENCODING": "ascii"}])
def test_other_locales(environment: dict[str, str], tmp_path: Any) -> None:
    names = tmp_path / "names.ini"
    names.write_text("[1]\nname = Türen\n", encoding="utf-8")
    with FakeAgent([CHECKED]) as agent:
        result = subprocess.run([*COMMAND, "get", agent.address, "--names", str(names)],
                                capture_output=True, timeout=PATIENCE,
                                env={**os.environ, **environment}, check=False)
    assert result.returncode == 0 and not result.stderr
    assert re.search("1 T(ü|\\?)ren".encode(), result.stdout)


def test_an_interrupt_is_not_a_traceback() -> None:
    with FakeAgent([]) as agent:
        for command, status in (("get", 130), ("watch", 0)):
            before = len(agent.asked)
            process = subprocess.Popen([*COMMAND, command, agent.address, "--timeout", "1min"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_until(lambda: len(agent.asked) > before, "it asks")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
            assert (process.returncode, said) == (status, b"")


# ---------------------------------------------------------------- make demo

def children(pid: int) -> list[int]:
    found = []
    for process in (ROOT / "/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(process.name))
    return found


def test_demo_in_a_pipe() -> None:
    result = subprocess.run(["make", "--no-print-directory", "-s", "-C", ROOT, "demo"],
                            capture_output=True, text=True,
                            stdin=subprocess.DEVNULL, timeout=4 * PATIENCE, check=False)
    assert result.returncode == 0 and not result.stderr
    assert re.search(r"^5 doors .* \d[.\d]* s ago$", result.stdout, re.M)
    # Half of what the tank sends is damaged, by chance all of it.
    assert re.search(r"\b[89] of 64 variables received, ages by variable 0", result.stdout)
    assert re.search(r"^packets \d+: heartbeats \d+, reports \d+; refused", result.stdout, re.M)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_demo_leaves_nobody_behind(number: int) -> None:
    with Terminal(sys.executable, str(ROOT / "examples/demo.py"),
                  built("build/udpserver")) as terminal:
        terminal.wait_for(lambda text: any(" doors " in line for line in text))
        started = children(terminal.process.pid)
        assert len(started) == 2
        terminal.process.send_signal(number)
        assert terminal.end() == 143
        assert not any((ROOT / f"/proc/{pid}").exists() for pid in started)
