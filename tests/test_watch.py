"""`client.py watch` and `make demo`, in a terminal of their own and in a pipe."""

import contextlib
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import client
from spec import model
from tools.agents import COMMAND, GOOD, VEHICLE, FakeAgent, report, run, unused_port
from tools.programs import PATIENCE, ROOT, built, wait_until
from tools.servers import Server
from tools.terminal import UNSIZED, Terminal

NOW = 40_000


def watch(address: str, *options: str, command: Sequence[str] = COMMAND, **more: Any) -> Terminal:
    return Terminal(*command, "watch", address, "--interval", "100ms", *options, **more)


def line_of(text: Sequence[str], start: str) -> str:
    return next((line for line in text if line.startswith(start)), "")


CHECKED = report(v0=(NOW, 1, 0), v1=(NOW - 2, 11, 90), v2=(NOW - 7, 12, 8), v3=(NOW - 40, 13, 126))
LATER = report(v0=(NOW, 1, 0), v1=(NOW - 2, 11, 91), v2=(NOW, 12, 8), v3=(NOW - 40, 13, 126))


def test_the_table() -> None:
    with FakeAgent([CHECKED]) as agent, watch(agent.address, "--now-from", "0") as terminal:
        text = terminal.wait_for(lambda text: "dead" in text[7])
        assert re.fullmatch(rf"{agent.address}  \d\d:\d\d:\d\d  2 ok, 1 late, 1 dead", text[0])
        assert text[1] == "ages by variable 0"
        assert text[3].split() == ["#", "name", "value", "from", "age", "state"]
        assert [line.split() for line in text[4:8]] == [
            ["0", "0", "1", "0", "s", "ok"], ["1", "90", "11", "2", "s", "ok"],
            ["2", "8", "12", "7", "s", "late"], ["3", "126", "13", "40", "s", "dead"]]
        assert text[8:23] == [""] * 15 and text[23] == "q or Ctrl-C ends"
        assert terminal.cell(7, "dead").fg == "red" and terminal.cell(6, "late").fg != "default"
        assert terminal.cell(5, "ok").fg == "default"
        terminal.type(b"\x03")
        assert terminal.end() == 0
        last = f"{agent.address}: 2 ok, 1 late, 1 dead\r\n".encode()
        wait_until(lambda: terminal.raw.endswith(last), "the last line")


def test_changed_cells_stand_out() -> None:
    with FakeAgent([CHECKED], [LATER]) as agent, watch(agent.address, "--now-from", "0",
                                                       "--interval", "3s") as terminal:
        terminal.wait_for(lambda text: "90" in line_of(text, " 1"))
        assert not terminal.cell(5, "90").reverse
        text = terminal.wait_for(lambda text: "91" in line_of(text, " 1"))
        assert terminal.cell(5, "91").reverse and not terminal.cell(5, "11").reverse
        assert not terminal.cell(5, "2 s").bold and terminal.cell(6, "0 s").bold
        assert terminal.cell(6, "ok").reverse and not terminal.cell(5, "ok").reverse, text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_leave_the_terminal_as_it_was(number: int) -> None:
    with FakeAgent([CHECKED]) as agent, watch(agent.address, "--interval", "99999h") as terminal:
        terminal.wait_for(lambda text: " 3 " in text[7])
        terminal.process.send_signal(number)
        assert terminal.end() == 143


@pytest.mark.parametrize("moment", range(12))
def test_an_interrupt_at_any_moment(moment: int) -> None:
    """The most important moments are those around the change to the second screen."""
    with FakeAgent([CHECKED]) as agent, watch(agent.address) as terminal:
        if moment < 6:
            wait_until(lambda: termios.tcgetattr(terminal._theirs) != terminal.attributes,
                       "it begins")
        else:
            wait_until(lambda: b"\x1b[?1049h" in terminal.raw, "the second screen shows")
        time.sleep(moment % 6 * 0.0003)
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE) == 0
        wait_until(lambda: terminal.raw.endswith(b"\r\n"), "all is read")
        assert termios.tcgetattr(terminal._theirs) == terminal.attributes
        assert terminal.raw.count(b"\x1b[?1049h") <= terminal.raw.count(b"\x1b[?1049l")
        assert b"Traceback" not in terminal.raw


def test_many_signals_at_once() -> None:
    """Only the first signal counts. Another must not interrupt the way back to the first screen."""
    for moment in range(6):
        with FakeAgent([CHECKED]) as agent, watch(agent.address) as terminal:
            wait_until(lambda: b"\x1b[?1049h" in terminal.raw, "the second screen shows")
            time.sleep(moment * 0.02)
            first = (signal.SIGINT, signal.SIGTERM)[moment % 2]
            for number in [first, signal.SIGINT, signal.SIGTERM] * 60:
                terminal.process.send_signal(number)
            assert terminal.end() in (0, 143)
            assert b"Traceback" not in terminal.raw and b"race condition" not in terminal.raw


IN_DESTRUCTOR = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import client
class Signalled:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
ask = client.Agent.ask
client.Agent.ask = lambda self, timeout: (Signalled(), ask(self, timeout))[1]
sys.unraisablehook = lambda _: None
client.main()
"""


def test_a_signal_in_a_destructor() -> None:
    """Python ignores what is raised there."""
    with FakeAgent([CHECKED]) as agent, Terminal(
            sys.executable, "-c", IN_DESTRUCTOR, str(ROOT), "watch", agent.address) as terminal:
        assert terminal.end() == 143


SLOW_NAMES = """
import socket, sys, time
sys.path.insert(0, sys.argv.pop(1))
import client
look_up = socket.getaddrinfo
socket.getaddrinfo = lambda *which, **how: (time.sleep(0.5), look_up(*which, **how))[1]
client.main()
"""


def test_many_signals_while_a_host_is_looked_up() -> None:
    """A thread does that. It is there when the interpreter ends, and must not get a signal."""
    with Terminal(sys.executable, "-c", SLOW_NAMES, str(ROOT), "watch", "127.0.0.1:9") as terminal:
        wait_until(lambda: b"\x1b[?1049h" in terminal.raw, "the second screen shows")
        while terminal.process.poll() is None:
            terminal.process.send_signal(signal.SIGINT)
            time.sleep(0.0005)
        assert terminal.end() == 0 and b"Traceback" not in terminal.raw


def test_nohup() -> None:
    with FakeAgent([CHECKED]) as agent, watch(
            agent.address, command=["sh", "-c", 'trap "" HUP; exec "$@"', "sh",
                                    *COMMAND]) as terminal:
        terminal.wait_for(lambda text: " 3 " in text[7])
        terminal.process.send_signal(signal.SIGHUP)
        asked = len(agent.asked)
        wait_until(lambda: len(agent.asked) > asked + 2, "it goes on")
        terminal.type(b"q")
        assert terminal.end() == 0


def test_q_ends_and_other_keys_do_not_show() -> None:
    with FakeAgent([CHECKED]) as agent, watch(agent.address) as terminal:
        terminal.wait_for(lambda text: " 3 " in text[7])
        terminal.type(b"xyz\r\n")
        asked = len(agent.asked)
        wait_until(lambda: len(agent.asked) > asked + 2, "it goes on")
        assert b"xyz" not in terminal.raw
        terminal.type(b"q")
        assert terminal.end() == 0


def test_ctrl_z() -> None:
    with FakeAgent([CHECKED]) as agent, watch(agent.address) as terminal:
        terminal.wait_for(lambda text: " 3 " in text[7])
        terminal.process.send_signal(signal.SIGTSTP)  # A shell does this for Ctrl-Z.
        wait_until(lambda: b"\x1b[?1049l" in terminal.raw, "the first screen is back")
        wait_until(lambda: " T" in (ROOT / f"/proc/{terminal.process.pid}/stat").read_text(),
                   "it has stopped")
        assert termios.tcgetattr(terminal._theirs) == terminal.attributes
        terminal.process.send_signal(signal.SIGCONT)
        wait_until(lambda: terminal.raw.count(b"\x1b[?1049h") == 2, "the second screen is back")
        terminal.type(b"q")
        assert terminal.end() == 0


def test_64_variables_and_other_sizes() -> None:
    """40 lines of 64 fit 80x24, those in trouble first. When the window grows, it shows all."""
    agent_ = model.Agent()
    for variable in range(64):
        agent_.record(NOW if variable < 60 else NOW - 100, variable, 200, 255)
    agent_.process(0, model.REQUEST)
    with FakeAgent([agent_.table()]) as agent, watch(
            agent.address, "--now-from", "0", "--names", VEHICLE, "--tick", "1s") as terminal:
        text = terminal.wait_for(lambda text: "63" in "".join(text))
        assert text[0].endswith("59 ok, 4 dead, 3 with a bad value")  # without a boot count
        assert max(map(len, text)) <= 80 and text[23] \
            == "q or Ctrl-C ends; 23 hidden, the worst are shown"
        assert re.fullmatch(r" 0 agent        255  200      0 s ok   "
                            r"  20              255  200      0 s ok", text[3])
        assert [int(line[41:43]) for line in text[19:23]] == [60, 61, 62, 63]
        assert len([line for line in text[3:23] if line]) == 20
        terminal.resize(100, 70)
        text = terminal.wait_for(lambda text: text[66].startswith("63"))
        assert text[69] == "q or Ctrl-C ends"
        for columns, lines in ((20, 4), (1, 1), (40, 24)):
            terminal.resize(columns, lines)
            asked = len(agent.asked)
            wait_until(lambda: len(agent.asked) > asked + 2, "it goes on")
        terminal.type(b"q")
        assert terminal.end() == 0


def in_tmux(socket: Path, columns: int, lines: int, *argv: str) -> Generator[list[str], None, None]:
    """Returns what a screen of tmux shows at each look. Unlike pyte, tmux and xterm leave the
    cursor on the last column after that column is written."""
    def tmux(*words: str) -> str:
        return subprocess.run(["tmux", "-S", str(socket), "-f", "/dev/null", *words], check=True,
                              capture_output=True, text=True, timeout=PATIENCE, env=UNSIZED).stdout

    tmux("new-session", "-d", "-x", str(columns), "-y", str(lines), shlex.join(argv))
    try:
        while True:
            yield tmux("capture-pane", "-p").splitlines()
    finally:
        tmux("kill-server")


# For each size of a window: which variables show, what each is like (#: its number), the heads.
SIZES = [
    (80, 24, [*range(21), *range(26, 45)], r"node~er-#  +\d+ +\d+ +\d+ s (ok|dead)",
     " # name       value from      age state   # name       value from      age state"),
    (40, 24, [*range(26, 45)], r"node-~er-# +\d+ +\d+ +\d+ s dead",
     " # name        value from      age state"),
    (200, 50, [*range(64)], r"node-number-# +\d+ +\d+ +\d+ s (ok|dead)",
     "  ".join([" # name                     value from      age state"] * 2)),
    (20, 5, [26], r"node-~er-# dead", " # name        state"),
]


@pytest.mark.parametrize("columns, lines, variables, cells, heading", SIZES,
                         ids=[str(size[0]) for size in SIZES])
def test_screens_in_tmux(columns: int, lines: int, variables: list[int], cells: str, heading: str,
                         tmp_path: Path) -> None:
    """The last column is complete, and no two names look alike."""
    names = tmp_path / "names.ini"
    names.write_text("[dumpulse]\nnow-from = 63\n" + "".join(
        f"[{number}]\nname = node-number-{number:02}\n" for number in range(64)))
    nodes = {f"v{number}": (NOW - 40 * (26 <= number < 45), number, number) for number in range(64)}
    with FakeAgent([report(**nodes)]) as agent, contextlib.closing(in_tmux(
            tmp_path / "tmux", columns, lines, *COMMAND, "watch", agent.address, "--names",
            str(names))) as shown:
        deadline = time.monotonic() + PATIENCE
        while not (text := next(shown)) or " ends" not in text[-1] \
            or "report" in "".join(text):
            assert time.monotonic() < deadline, "\n".join(text)
    assert heading in text and text[0].endswith("45 ok, 19 dead")
    rows = "\n".join(text[text.index(heading) + 1:-1])
    assert [number for number in range(64) if re.search(
        f"(?m)(^|  ){number:2} {cells.replace('#', f'{number:02}')}(  |$)", rows)] \
            == variables, rows


@pytest.mark.parametrize("columns, said",
                         [(80, "no report yet for 0 s; no answer in 1 s: nothing listens at "),
                                           (40, "no report yet for 0 s; no answer in 1 s:")])
def test_why_there_is_no_report_stays(columns: int, said: str) -> None:
    """It stays on the second screen in any window, and on the first one after the end."""
    address = f"127.0.0.1:{unused_port()}"
    with watch(address, columns=columns) as terminal:
        text = terminal.wait_for(lambda text: "no report yet" in text[1])
        assert re.sub(r"for \d+ s", "for 0 s", text[1]).startswith(said)
        assert f"nothing listens at {address}" in (text[1] if columns == 80 else text[2])
        terminal.type(b"q")
        assert terminal.end() == 0
    with watch(address, "--count", "1", columns=columns) as terminal:
        assert terminal.end() == 3
        wait_until(lambda: terminal.raw.endswith(b"\n"), "the last line")
        last = terminal.raw.rpartition(b"\x1b[?1049l")[2].decode()
        assert re.fullmatch(rf"{address}: no report yet for \d+ s; no answer in 1 s: "
                            rf"nothing listens at {address}\r\n", last)


def test_only_those_that_were_asked_for_are_counted() -> None:
    with FakeAgent([CHECKED]) as agent:
        with watch(agent.address, "2-3,9", "--now-from", "0", "--count", "1") as terminal:
            assert terminal.end() == 0
            wait_until(lambda: terminal.raw.endswith(b"\n"), "the last line")
        assert terminal.raw.count(b"1 late, 1 dead, 1 never") == 2 and b" ok" not in terminal.raw
        plain = run("watch", agent.address, "2-3,9", "--now-from", "0", "--count", "1").stdout
        assert plain.splitlines()[0][9:] == "1 late, 1 dead, 1 never"


def test_it_survives_the_agents_restart() -> None:
    port = unused_port()
    with watch(f"127.0.0.1:{port}", "--now-from", "0", "3") as terminal:
        text = terminal.wait_for(lambda text: "no report yet for" in text[1])
        assert "nothing listens at" in text[1]
        with Server("--self", "0", "--rate", "1000", port=port) as server:
            client.Agent(f"127.0.0.1:{port}").beat(3, 76, 9)
            terminal.wait_for(lambda text: text[4].split()[:3] == ["3", "9", "76"] and text[1]
                              == "ages by variable 0")
            server.stop()
        text = terminal.wait_for(lambda text: "no report for" in text[1])
        assert text[4].split()[:3] == ["3", "9", "76"]  # the last table stays
        assert "restart" not in text[2]
        with Server("--self", "0", "--rate", "1000", port=port):
            text = terminal.wait_for(lambda text: "restarted" in text[2])
            assert re.fullmatch(r"\d\d:\d\d:\d\d the agent restarted: it lost 1 variable",
                                text[2])
            assert text[4].split() == ["3", "-", "-", "-", "never"]
        terminal.type(b"\x03")
        assert terminal.end() == 0


# ---------------------------------------------------------------- what tells of a restart

def watched(*options: str) -> client.Watched:
    settings = client.make_settings(client.build_parser("watch").parse_args(["x", *options]))
    return client.Watched(settings, [], "x")


@pytest.mark.parametrize("before, after, passed, says", [
    (dict(v0=(5000, 1, 0), v3=(5000, 76, 9)), dict(v0=(5001, 1, 0), v3=(5000, 76, 9)), 1, ""),
    (dict(v0=(5000, 1, 0), v3=(5000, 76, 9)), dict(v0=(5001, 1, 0)), 1, "it lost 1 variable"),
    (dict(v0=(5000, 1, 0)), dict(v0=(3, 1, 0)), 1, "jumped by -4998 s"),
    (dict(v0=(65000, 1, 0)), dict(v0=(464, 1, 0)), 1000, ""),  # the wrap
    (dict(v0=(5000, 1, 0)), dict(v0=(5000, 1, 0)), 65536, ""),
    (dict(v0=(5000, 1, 0)), dict(v0=(5064, 1, 0)), 0, ""),  # Clocks may differ as much.
    (dict(v0=(5000, 1, 0)), dict(v0=(5065, 1, 0)), 0, "jumped by 65 s"),
    (dict(v0=(5000, 1, 0), v1=(1, 1, 1), v2=(1, 1, 1)), dict(v0=(3, 1, 0)), 1,
     "it lost 2 variables"),
])
def test_restarts(before: dict[str, Any], after: dict[str, Any], passed: float, says: str) -> None:
    state = watched("--now-from", "0")
    state.take(client.parse_report(report(**before)), 100.0)
    state.take(client.parse_report(report(**after)), 100.0 + passed)
    assert says in state.event and bool(says) == bool(state.event) == state.restarted


@pytest.mark.parametrize("trouble, refused", [
    (client.NoAnswer("silence"), False), (client.BadReport("length", "short"), False),
    (client.Refused("nothing listens"), True)])
def test_what_is_said_after_trouble(trouble: client.Error, refused: bool) -> None:
    class Link:
        script: list[Any] = [trouble, client.NoAnswer("silence"), client.parse_report(GOOD),
                             client.NoAnswer("silence"), client.parse_report(GOOD)]

        def ask(self) -> client.Entries:
            step = self.script.pop(0)
            if isinstance(step, client.Error):
                raise step
            entries: client.Entries = step
            return entries

    state, link = watched(), Link()
    state.take(client.parse_report(GOOD), client.uptime() - 70)
    said = []
    while link.script:
        with state.polling() as take:
            take(link.ask(), "")
        said.append((state.event[9:], state.restarted))
        assert bool(state.changed) == (state.trouble is None)
    what = "the agent restarted: nothing listened for 70 s" if refused \
        else "no report came for 70 s"
    assert said == [("", False), ("", False), (what, refused), (what, False),
                    ("no report came for 0 s", False)]


def test_what_is_no_restart() -> None:
    """The agent's clock is first heard, or time passes while this machine's clock is used."""
    state = watched("--now-from", "0")
    state.take(client.parse_report(report(v3=(NOW, 76, 9))), 100.0)
    state.take(client.parse_report(report(v0=(9, 1, 0), v3=(NOW, 76, 9))), 101.0, 100.5)
    assert state.event == "" and not state.restarted
    assert (state.clock.asked, state.clock.received, state.clock.now) == (100.5, 101.0, 9)
    state = watched()
    state.take(client.parse_report(report(v3=(NOW, 76, 9))), 100.0)
    state.take(client.parse_report(report(v3=(NOW, 76, 9))), 5100.0)
    assert state.event == "" and (state.clock.asked, state.clock.received) == (5100.0, 5100.0)


def test_a_line_of_json(monkeypatch: pytest.MonkeyPatch,
                        capsys: pytest.CaptureFixture[str]) -> None:
    state = watched("--now-from", "3")
    state.take(client.parse_report(GOOD), 100.0)
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.98765)
    client.Lines(True).show(state)
    assert json.loads(capsys.readouterr().out) == {
        "time": 1_700_000_000.988, "agent": "x", "error": None, "restarted": False,
        "checksum_ok": True,
        "clock": {"from": "now-from", "variable": 3, "text": "ages by variable 3"},
        "variables": [{
            "variable": 3, "name": None, "state": "ok", "age": 0.0, "age_at_least": False,
            "value": 9, "value_ok": True, "value_unusual": False, "sender": 76,
            "timestamp": 0x1234}]}


# ---------------------------------------------------------------- what a window has room for

def plain(lines: Sequence[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


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


TITLE, HEADING = "x  12:00:00  5 ok, 1 late, 2 dead", " # name         value from      age state"


@pytest.mark.parametrize("rows, head, shown", [
    (1, [TITLE], [5]), (3, [TITLE], [5]), (4, [TITLE], [5, 6]),
    (5, [TITLE, "ages by variable 0", HEADING], [5]),
    (6, [TITLE, "ages by variable 0", HEADING], [5, 6]),  # no line is empty while some are hidden
    (7, [TITLE, "ages by variable 0", HEADING], [5, 6, 7]),
    (8, [TITLE, "ages by variable 0", HEADING], [0, 5, 6, 7]),
    (11, [TITLE, "ages by variable 0", HEADING], [0, 1, 2, 3, 5, 6, 7]),
    (12, [TITLE, "ages by variable 0", HEADING], [*range(8)]),
    (13, [TITLE, "ages by variable 0", "", HEADING], [*range(8)]),
    (15, [TITLE, "ages by variable 0", "", HEADING], [*range(8)])])
def test_what_a_low_window_shows(rows: int, head: list[str], shown: list[int], noon: None) -> None:
    text = plain(client.draw_screen(eight(), 41, rows))
    assert text[:len(head)] == head and len(text) == max(3, rows)
    assert [int(line[:2]) for line in text[len(head):-1] if line] == shown
    assert text[-1] == (f"{8 - len(shown)} hidden; q ends" if len(shown) < 8
                        else "q or Ctrl-C ends")
    assert all(line == "" for line in text[len(head) + len(shown):-1])


@pytest.mark.parametrize("columns, title, heading", [
    (80, TITLE, "  ".join([" # name       value from      age state"] * 2)),
    (79, TITLE, f" # {'name':24} value from      age state"),
    (41, TITLE, HEADING), (39, TITLE, " # name       value from      age state"),
    (38, TITLE, f" # {'name':14} value      age state"),
    (34, TITLE, f" # {'name':10} value      age state"),
    (33, TITLE, f" # {'name':15}      age state"),
    (32, "x  5 ok, 1 late, 2 dead", f" # {'name':14}      age state"),
    (28, "x  5 ok, 1 late, 2 dead", " # name            age state"),
    (27, "x  5 ok, 1 late, 2 dead", f" # {'name':18} state"),
    (23, "x  5 ok, 1 late, 2 dead", f" # {'name':14} state"),
    (22, "5 ok, 1 late, 2 dead", f" # {'name':13} state"),
    (12, "5 ok, 1 late", " # name state"[:12]), (3, "5 o", " # ")])
def test_what_a_narrow_window_shows(columns: int, title: str, heading: str, noon: None) -> None:
    text = plain(client.draw_screen(eight(), columns, 10 if columns == 80 else 13))
    assert (text[0], text[3]) == (title, heading)
    assert columns < 12 or all(len(line) <= columns for line in text)
    assert columns >= 12 or text[4].startswith(" 0 ")
    if columns == 80:
        assert [(int(line[:2]), int(line[41:43])) for line in text[4:8]] == [
            (0, 4), (1, 5), (2, 6), (3, 7)]


def test_news_that_are_too_long_go_on_below(noon: None) -> None:
    state = eight()
    state.trouble = client.NoAnswer("silence " * 9)
    state.heard_at = client.uptime()
    news = "no report for 0 s; " + "silence " * 9
    head = client.draw_screen(state, 41, 24)
    assert head[1] == f"\x1b[7m{news[:41]}\x1b[0m" and plain(head)[2] == news[41:82].lstrip()
    state.event = "12:00:00 the agent restarted"
    assert client.draw_screen(state, 41, 24)[2] == f"\x1b[1m{state.event}\x1b[0m"


def test_the_worst_of_those_that_are_hidden_are_shown(tmp_path: Path, noon: None) -> None:
    """A bad value comes first. Then the state decides, and then an unusual value."""
    names = tmp_path / "names.ini"
    names.write_text("[1]\nvalue = 5..9\n[2]\nvalue-warn = 5..9\n[9]\n")
    state = eight("--names", str(names))
    order: list[str] = []
    for rows in range(5, 13):
        text = plain(client.draw_screen(state, 41, rows))
        order += sorted({line[:2] for line in text[3:-1]} - {*order})
    assert [int(number) for number in order] == [1, 5, 6, 7, 9, 2, 0, 3]


# ---------------------------------------------------------------- colours

def cells(state: client.Watched, number: int) -> str:
    return client.draw_row(state.readings[number], state, client.WIDTHS)


def test_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    names = tmp_path / "names.ini"
    names.write_text("[3]\nvalue = 5..9\n[4]\nvalue-warn = 5..9\n[9]\nname = aft\n")
    state = eight("--names", str(names))
    name = " " * 10
    assert cells(state, 1) == f" 1 {name}     1    1      0 s ok   "
    assert cells(state, 3) == f" 3 {name} \x1b[31m   3!\x1b[0m    3      0 s ok   "
    assert cells(state, 4) == f" 4 {name} \x1b[33m   4!\x1b[0m    4      0 s ok   "
    assert cells(state, 6) == f" 6 {name}     6    6     40 s \x1b[31mdead \x1b[0m"
    assert cells(state, 7) == f" 7 {name}     7    7      7 s \x1b[33mlate \x1b[0m"
    assert cells(state, 8) == f" 8 {name}     -    -        - never"
    assert cells(state, 9) == f" 9 aft            -    -        - \x1b[31mnever\x1b[0m"
    state.changed = {3: {"value"}, 4: {"sender"}, 6: {"timestamp"}, 7: {"state"}}
    assert cells(state, 3) == f" 3 {name} \x1b[31;7m   3!\x1b[0m    3      0 s ok   "
    assert cells(state, 4) == f" 4 {name} \x1b[33m   4!\x1b[0m \x1b[7m   4\x1b[0m      0 s ok   "
    assert cells(state, 6) == f" 6 {name}     6    6 \x1b[1m    40 s\x1b[0m \x1b[31mdead \x1b[0m"
    assert cells(state, 7) == f" 7 {name}     7    7      7 s \x1b[33;7mlate \x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert cells(state, 7) == f" 7 {name}     7    7      7 s \x1b[7mlate \x1b[0m"
    assert cells(state, 3) == f" 3 {name} \x1b[7m   3!\x1b[0m    3      0 s ok   "
    state.trouble = client.NoAnswer("silence")
    assert cells(state, 1).count("\x1b[2m") == 6 and "\x1b[2;7m" in cells(state, 7)


# ---------------------------------------------------------------- what a terminal is sent

class Written:
    """Replaces the standard output by a file that takes only some bytes at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path,
                 encoding: str = "utf-8") -> None:
        self.path = path
        self.file = path.open("w", encoding=encoding)
        write = os.write
        monkeypatch.setattr(sys, "stdout", self.file)
        monkeypatch.setattr(os, "write", lambda number, text: write(number, text[:7]))


@pytest.mark.parametrize("lines, text", [
    (1, "\x1b[?2026h\x1b[H\x1b[K\x1b[JTITLE\x1b[?2026l"),
    (2, "\x1b[?2026h\x1b[H\x1b[KTITLE\r\n\x1b[JROW\x1b[?2026l"),
    (3, "\x1b[?2026h\x1b[H\x1b[KTITLE\r\n\x1b[KROW\r\n\x1b[JENDS\x1b[?2026l")])
def test_what_a_screen_is_sent(lines: int, text: str, tmp_path: Path, noon: None,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is erased before it is written. The lines below the last one are erased, too."""
    monkeypatch.setattr(client, "draw_screen",
                        lambda state, columns, rows: ["TITLE", "ROW", "ENDS"])
    monkeypatch.setenv("COLUMNS", "41")
    monkeypatch.setenv("LINES", str(lines))
    written = Written(monkeypatch, tmp_path / "written")
    client.Terminal().show(eight())
    written.file.close()
    assert written.path.read_bytes() == text.encode()


def test_a_size_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []

    def screen(state: client.Watched, columns: int, rows: int) -> list[str]:
        sizes.append((columns, rows))
        return ["TITLE"]
    monkeypatch.setattr(client, "draw_screen", screen)
    monkeypatch.setenv("COLUMNS", "41")
    written = Written(monkeypatch, tmp_path / "written")
    for lines in (999, 1000, 1001, 10**9):
        monkeypatch.setenv("LINES", str(lines))
        client.Terminal().show(eight())
    written.file.close()
    assert sizes == [(41, 999), (41, 1000), (41, 1000), (41, 1000)]


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


def test_keys_do_not_make_a_pause_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is read, even if no pause is left. Only q and the end of the input end it."""
    clocked = Clocked(monkeypatch)
    keys: list[bytes] = []

    def wait(_: object, __: object, ___: object, left: float) -> tuple[list[int], list[int],
                                                                       list[int]]:
        assert left >= 0
        clocked.sleep(left / 2 if keys else left)
        return [0] * bool(keys), [], []
    monkeypatch.setattr(select, "select", wait)
    monkeypatch.setattr(os, "read", lambda number, count: keys.pop(0))
    terminal = client.Terminal()
    terminal._input = 0
    for typed, pause, goes_on in (([b"x", b"yq"], 4.0, True), ([b"x", b"q"], 4.0, False),
                                  ([b"Q"], 0.0, False),
                                  ([b""], 1.0, False), ([], 2.0, True), ([b"x"], 0.0, True)):
        keys[:], begun = typed, clocked.now
        assert terminal.wait(pause) is goes_on and not keys
        if goes_on:
            assert clocked.now - begun == pause
    terminal._input = None
    clocked.waited.clear()
    assert terminal.wait(3.0) and terminal.wait(0.0) and clocked.waited == [3.0, 0.0]


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
    assert client.Lines(False).wait(pause) and polled == [(number, 0), ms]
    Poll.answer = [(number, 8)]
    with pytest.raises(BrokenPipeError):
        client.Lines(False).wait(pause)
    clocked = Clocked(monkeypatch)
    monkeypatch.delattr(select, "poll")
    assert client.Lines(False).wait(pause) and clocked.waited == [pause]


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

    def wait(self: client.Lines, pause: float) -> bool:
        clocked.sleep(pause)
        return True
    monkeypatch.setattr(client.Lines, "wait", wait)
    assert client.run_command(["watch", "127.0.0.1", "--count", "3", *options]) == 0
    assert timeouts == [timeout] * 3 and clocked.waited == pytest.approx(pauses)


# ---------------------------------------------------------------- lines, one by one

def said(lines: client.Lines, state: client.Watched,
         capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines.show(state)
    return capsys.readouterr().out.splitlines()


def test_each_thing_is_said_once(noon: None, capsys: pytest.CaptureFixture[str]) -> None:
    state, lines = watched("--now-from", "0"), client.Lines(False)
    at = client.uptime()
    first = client.parse_report(report(v0=(NOW, 1, 0), v3=(NOW, 76, 9)))
    state.take(first, at)
    three = "12:00:00 3: value 9, sender 76, age 0 s, ok"
    assert said(lines, state, capsys) \
        == ["12:00:00 2 ok", "12:00:00 0: value 0, sender 1, age 0 s, ok", three]
    assert said(lines, state, capsys)[0] == "12:00:00 0: value 0, sender 1, age 0 s, ok"
    state.take(first, at)
    assert said(lines, state, capsys) == []  # nothing is new
    state.take(client.parse_report(report(v0=(NOW + 1, 1, 0), v3=(NOW + 1, 76, 9))), at + 1)
    assert said(lines, state, capsys) == []  # both have beaten
    state.take(client.parse_report(report(v0=(NOW + 9, 1, 0), v3=(NOW + 1, 77, 9))), at + 9)
    assert said(lines, state, capsys) == [
        "12:00:00 1 ok, 1 late", "12:00:00 3: value 9, sender 77*, age 8 s, late*"]
    state.trouble = client.NoAnswer("silence")
    state.heard_at = client.uptime() - 5
    for _ in range(2):
        assert said(lines, state, capsys) == ["12:00:00 no report for 5 s; silence"]
    state.take(client.parse_report(report(v0=(NOW + 11, 1, 0), v3=(NOW + 11, 77, 9))),
               state.heard_at + 7)
    assert said(lines, state, capsys) == ["12:00:00 no report came for 7 s", "12:00:00 2 ok",
                                          "12:00:00 3: value 9, sender 77, age 0 s, ok*"]


def test_a_doubt_about_the_clock_is_said_once(noon: None,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    state, lines = watched(), client.Lines(False)
    state.trouble = client.NoAnswer("silence")
    # No clock is known.
    assert said(lines, state, capsys) == ["12:00:00 no report yet for 0 s; silence"]
    old = (client.clock(1000) - 9000) % 65536
    for number, doubt in enumerate(("12:00:00 no ages yet: by this machine's clock, nothing is new",
                                    "12:00:00 ages by this machine's clock, wrong if the agent has "
                                    "another", "")):
        state.take(client.parse_report(report(v3=(old, 76, 9))), 100.0 + number)
        assert said(lines, state, capsys)[:1] == [doubt] * bool(doubt)
    state.bad_sum = "report NOT verified"
    assert said(lines, state, capsys) \
        == ["12:00:00 report NOT verified; ages by this machine's clock, "
                                          "wrong if the agent has another"]
    assert said(lines, state, capsys) == []


# ---------------------------------------------------------------- in a pipe

def test_plain_text() -> None:
    """Each change gets one line. There are no control characters."""
    with FakeAgent([CHECKED], [CHECKED], [LATER]) as agent:
        result = run("watch", agent.address, "--now-from", "0", "--count", "3", "--interval",
                     "10ms")
    assert result.returncode == 0 and not result.stderr and "\x1b" not in result.stdout
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in result.stdout.splitlines()] == [
        "2 ok, 1 late, 1 dead",
        "0: value 0, sender 1, age 0 s, ok", "1: value 90, sender 11, age 2 s, ok",
        "2: value 8, sender 12, age 7 s, late", "3: value 126, sender 13, age 40 s, dead",
        "3 ok, 1 dead", "1: value 91*, sender 11, age 2 s, ok",
        "2: value 8, sender 12, age 0 s, ok*"]


@pytest.mark.parametrize("how", [{"TERM": "dumb"}, {"command": ["env", "-u", "TERM", *COMMAND]}],
                         ids=["dumb", "unknown"])
def test_plain_text_on_a_terminal_that_can_nothing_else(how: dict[str, Any]) -> None:
    with FakeAgent([CHECKED]) as agent, watch(agent.address, "--count", "2", **how) as terminal:
        assert terminal.process.wait(PATIENCE) == 0
        wait_until(lambda: b"sender 13" in terminal.raw, "all is read")
        assert b"\x1b" not in terminal.raw


def test_a_size_that_no_terminal_has() -> None:
    """LINES and COLUMNS of the environment may be any numbers."""
    with FakeAgent([CHECKED]) as agent:
        for size in ("0", "1", "-1", "x", "99999999999"):
            with watch(agent.address, "--count", "1", LINES=size, COLUMNS=size) as terminal:
                assert terminal.end() == 0
                assert b"Traceback" not in terminal.raw and b"Error" not in terminal.raw


def test_json() -> None:
    """Each look asks from a new port, as often as necessary. The agent's answers depend only on how
    often the port has changed."""
    with FakeAgent(lambda: [[CHECKED], [], [GOOD]][
            sum(one != next_one for one, next_one in pairwise(agent.askers))]) as agent:
        result = run("watch", agent.address, "3", "--now-from", "0", "--json", "--count", "3",
                     "--interval", "10ms", "--timeout", "2s")
    first, second, third = map(json.loads, result.stdout.splitlines())
    assert first["variables"][0]["state"] == "dead" and not first["error"] \
        and not first["restarted"]
    assert second["error"].startswith("no answer in") and second["variables"] == first["variables"]
    assert third["restarted"] and third["variables"][0]["age"] is None
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
        for command in (["get"], ["watch", "--count", "1"]):
            result = subprocess.run([*COMMAND, *command[:1], agent.address, *command[1:], "--names",
                                     str(names)], capture_output=True, timeout=PATIENCE,
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
    assert re.search(r"^\S+ 5 doors: .*, dead\*$", result.stdout, re.M)
    assert re.search(r"^\S+ 8 radio: .*, late\*$", result.stdout, re.M)
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
