"""lab/run formats: real fetches between real processes, and a meter that knows what it measures."""

import hashlib
import json
import math
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.joules import formats, jvm, loopback, meters, results
from lab.joules.formats import Plan, Result
from lab.joules.jvm import JvmPair
from lab.joules.loopback import HOST, Pair
from lab.joules.measure import INTERRUPTED
from lab.joules.measuring import Failed
from lab.joules.meters import Clock, Energy, Meter
from lab.joules.results import Turn, Unreadable
from lab.joules.test_measuring import inside
from lab.messages.codecs import CODECS, LIST
from tools.programs import PATIENCE, ROOT, wait_until

IDLE_WATTS, EACH = 8.0, 0.002  # of the machine that the simulated meter measures; J of a fetch


class Simulated(Meter):
    """Draws so many watts all the time, and so many joules for each fetch of the work."""

    name = "rapl"

    def __init__(self, fetches: int, off: float = 0.001) -> None:
        super().__init__(None, Clock())
        self.fetches, self.off, self.turns = fetches, off, 0

    def open(self) -> None:
        pass

    def begin(self) -> None:
        self.begun = self.clock.now()

    def end(self) -> Energy:
        seconds = self.clock.now() - self.begun
        self.turns += 1
        joules = IDLE_WATTS * seconds + EACH * self.fetches * (self.turns % 2 == 0)
        return Energy(joules, seconds, self.off, 2, ("a note",), readings=((0.0, 8.0), (1.0, 9.0)))


def plan_for(names: str, fetches: int, meter: str = "", **more: object) -> Plan:
    options = formats.parser().parse_args(
        ["--formats", names, "--fetches", str(fetches), "--rest", "0", "--seed", "1"])
    return replace(formats.planned(options, None), name=meter, meter=meter or "none",
                   idle=0.05 if meter else 0.0, order=tuple(names.split(",")),
                   **more)  # type: ignore[arg-type]


def made(name: str, plan: Plan, micro: float = 100.0, idle: Turn | None = None,
         work: Turn | None = None) -> Result:
    """A result of which every fetch took as long."""
    return Result(name, results.now(), 300, 1.0, 2.0,
                  tuple(count * micro * 1e-6 for count in plan.blocks()), idle, work)


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "lab" / "run", "formats", *map(str, words)], capture_output=True,
                          text=True, check=False, timeout=PATIENCE)


# Whole runs.


def test_all_formats_are_fetched_in_the_order_of_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    said = command("--fetches", 75, "--block", 20, "--rest", 0, "--seed", 7, "--results", file,
                   "--at", tmp_path)
    assert said.returncode == 0, said.stderr
    plan, done = formats.read(file)
    assert [result.format for result in done] == list(plan.order) and plan.seed == 7
    assert plan.blocks() == [20, 20, 20, 15]
    for result in done:
        codec = CODECS[result.format]
        size = len(codec.encode(LIST))
        assert result.bytes == size
        assert re.search(rf"^{re.escape(codec.title)} +{size} .* no meter$", said.stdout, re.M)
        assert min(result.server, result.client) > 0
        assert result.server + result.client < 2 * sum(result.seconds)
    assert "There is no meter, so there are no joules: " in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 100
    assert len(said.stderr.splitlines()) == len(CODECS) and "s left" in said.stderr
    again = command("--results", file)  # is over, so it is only shown
    assert again.returncode == 0 and not again.stderr
    first = said.stdout.splitlines()
    assert again.stdout.splitlines()[:len(CODECS) + 3] == first[:len(CODECS) + 3]


def test_joules_that_are_put_in_come_out(tmp_path: Path,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    plan, file = plan_for("json,pickle", 120, "rapl"), tmp_path / "run.jsonl"
    results.append(file, plan)
    done: list[Result] = []
    formats.run(plan, done, file, Simulated(plan.fetches), 0, Clock())
    for result in done:
        assert result.idle and result.work
        net = result.net()
        assert net and net.value == pytest.approx(EACH * plan.fetches, rel=1e-9)
        assert net.bound == pytest.approx(0.001 * (1 + result.work.seconds / result.idle.seconds))
        assert 0.05 <= result.idle.seconds and sum(result.seconds) <= result.work.seconds
    assert formats.read(file) == (plan, done)
    formats.show(plan, done, file, "")
    said = capsys.readouterr().out
    assert "Joules: measured with rapl. " in said and "a note" in said
    assert re.search(r"^Python's pickle .* 2 ± 0\.\d+$", said, re.M), said


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Clock):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    plan, file = plan_for("json,cbor", 30), tmp_path / "run.jsonl"
    results.append(file, plan)
    monkeypatch.setattr(sys, "argv", ["lab/run formats", "--results", str(file)])
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(formats, "Clock", Interrupted)
        formats.main()
    assert ended.value.code == INTERRUPTED
    assert capsys.readouterr().err.endswith(
        f"stopped. What is done is kept: lab/run formats --results {file} goes on.\n")
    first = formats.read(file)[1]
    assert [result.format for result in first] == ["json"]
    with file.open("a") as opened:
        opened.write('{"format": "cbor", "began')  # cut, as by a battery that is empty
    formats.main()
    assert [result.format for result in formats.read(file)[1]] == ["json", "cbor"]
    assert formats.read(file)[1][0] == first[0]


# What goes wrong.


@contextmanager
def tampered(monkeypatch: pytest.MonkeyPatch, change: str) -> Iterator[Pair]:
    """Both processes run the change first. It must change only what the server does."""
    monkeypatch.setattr(loopback, "COMMAND", (
        sys.executable, "-c", "import sys\nfrom lab.joules import loopback\n"
        "from lab.messages import codecs\n"
        f"if sys.argv[1] == 'serve':\n    {change}\nloopback.main()"))
    pair = Pair(0)
    try:
        yield pair
    finally:
        pair.end()


@pytest.mark.parametrize("change, says", [
    ("codecs.LIST[3]['amount'] += 1", "answer 1 in json is not the list"),
    ("codecs.CODECS['json'] = codecs.Codec('', '', lambda records: b'[{', None)",
     "answer 1 cannot be read as json: "),
    ("del codecs.CODECS['json']", "answered json with the status 404"),
    ("sys.exit('no room')", "the server ended with status 1: no room"),
])
def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch, change: str, says: str) -> None:
    with tampered(monkeypatch, change) as pair, pytest.raises(Failed, match=re.escape(says)):
        pair.fetch("json", 5)


def test_there_is_never_a_second_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else could answer it, and pickle would believe him."""
    with tampered(monkeypatch, "from aiohttp import web\n    begin = web.Response.__init__\n"
                  "    web.Response.__init__ = lambda self, **more: "
                  "(begin(self, **more), self.force_close())[0]") as pair:
        with pytest.raises(Failed, match="the connection broke in the midst of pickle"):
            pair.fetch("pickle", 2)


def children(parent: int) -> dict[str, int]:
    """What each child of a process does: serve or fetch."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == parent:
            found[next((word for word in words if word in ("serve", "fetch")), "")] = \
                int(folder.name)
    return found


def gone(process: int) -> bool:
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] \
            == "Z"
    except OSError:
        return True


def test_nothing_is_left_when_the_parent_is_killed(tmp_path: Path) -> None:
    """In the midst of a run that would take minutes."""
    with subprocess.Popen([ROOT / "lab" / "run", "formats", "--formats", "orjson,json",
                           "--fetches", "400000", "--block", "50", "--results", tmp_path / "run",
                           "--at", tmp_path], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: set(children(process.pid)) == {"serve", "fetch"}, "both")
            both = children(process.pid)
            begun = time.clock_gettime(~both["serve"] << 3 | 2)
            wait_until(lambda: time.clock_gettime(~both["serve"] << 3 | 2) > begun + 0.5,
                       "it works")
        finally:
            process.kill()
    wait_until(lambda: all(map(gone, both.values())), "both are gone")


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = command("--port", port, "--results", tmp_path / "run.jsonl", "--at", tmp_path)
    assert said.returncode == 1
    assert said.stderr.startswith(f"lab/run formats: port {port} of 127.0.0.1 cannot be used: "
                                  "Address already in use")
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize("words, says", [
    (["--formats", "json,yaml"], "some of these are wanted"),
    (["--formats", "json,json"], "some of these are wanted"), (["--formats", ""], "some of these"),
    (["--fetches", "0"], "a number from 1 to"), (["--block", "9"], "--block must be larger"),
    (["--idle", "0"], "a number from 0.01 to"), (["--port", "65536"], "a number from 0 to 65,535"),
    (["--meter", "nose"], "invalid choice"), (["--results", "."], "cannot be read")])
def test_bad_arguments_are_refused(monkeypatch: pytest.MonkeyPatch, words: list[str], says: str,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["lab/run formats", *words])
    with pytest.raises(SystemExit) as ended:
        formats.main()
    assert ended.value.code == 2 and says in capsys.readouterr().err


# What is kept.


def test_the_order_is_that_of_the_seed() -> None:
    assert formats.shuffled(CODECS, 3, 2) == formats.shuffled(reversed(CODECS), 3, 2)
    orders = {formats.shuffled(CODECS, seed, 1) for seed in range(50)}
    assert len(orders) > 45 and all(set(one) == set(CODECS) for one in orders)
    assert {one[0] for one in orders} == set(CODECS)
    rounds = formats.shuffled(CODECS, 3, 40)
    each = {rounds[at:at + len(CODECS)] for at in range(0, len(rounds), len(CODECS))}
    assert len(each) > 35 and all(set(one) == set(CODECS) for one in each)
    words = ["--formats", "xml,json,cbor", "--rounds", "2"]
    plans = [formats.planned(formats.parser().parse_args(words), None) for _ in range(3)]
    assert len({plan.seed for plan in plans}) == 3
    for plan in plans:
        assert plan.order == formats.shuffled(["json", "cbor", "xml"], plan.seed, 2)
        assert plan.rounds == 2


ENERGY = {"pair": 0, "turn": "idle", "joules": 1.0, "seconds": 1.0, "uncertainty": 0.0,
          "samples": 1, "calls": 0, "began": "", "kind": "turn", "label": "measured"}
PLAN = plan_for("json,cbor", 30, began="2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize("line, change, says", [
    (0, {"kind": "run"}, "no such plan"), (0, {"order": ["json", "yaml"]}, "no such plan"),
    (0, {"more": 1}, "line 1 .*more"), (0, {"label": "model"}, "no such plan"),
    (1, {"format": "cbor"}, "does not belong"), (1, {"seconds": [1.0]}, "does not belong"),
    (1, {"idle": ENERGY | {"label": "model"}}, "no such joules")])
def test_what_is_no_result_is_refused(tmp_path: Path, line: int, change: dict[str, object],
                                      says: str) -> None:
    file = tmp_path / "run.jsonl"
    first = made("json", PLAN)
    results.append(file, PLAN)
    results.append(file, first)
    assert formats.read(file) == (PLAN, [first])
    lines = [json.loads(one) for one in file.read_text().splitlines()]
    lines[line] |= change
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(Unreadable, match=says):
        formats.read(file)


@pytest.mark.parametrize("changed, words, says", [
    ({"versions": PLAN.versions | {"cbor2": "5"}}, [], "cannot be gone on with: cbor2: '5' is not"),
    ({"machine": "another"}, [], "cannot be gone on with: machine: 'another' is not"),
    ({}, ["--seed", "2"], "was begun with another --seed"),
    ({}, ["--formats", "json"], "was begun with another --formats"),
    ({}, ["--rounds", "2"], "was begun with another --rounds"),
    ({}, ["--meter", "rapl"], "was begun with another --meter"),
    ({}, ["--fetches", "31", "--rest", "1"], "was begun with another --fetches and --rest")])
def test_another_run_is_not_gone_on_with(
        tmp_path: Path, changed: dict[str, Any], words: list[str], says: str,
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.jsonl"
    results.append(file, replace(PLAN, **changed))
    before = file.read_bytes()
    monkeypatch.setattr(sys, "argv", ["lab/run formats", "--results", str(file), *words])
    with pytest.raises(SystemExit) as ended:
        formats.main()
    assert ended.value.code == 2 and says in capsys.readouterr().err
    assert file.read_bytes() == before


# What is printed.


NOTHING = results.turn_of(0, results.IDLE, Energy(100.0, 10.0, 0.5, 2), 0, "")


def drew(joules: float) -> Turn:
    return results.turn_of(0, results.WORK, Energy(joules, 4.0, 0.5, 2), 1000, "")


def test_the_table_is_sorted_and_its_sums_are_right() -> None:
    plan = plan_for("json,cbor,xml", 1000, "rapl")
    lines = formats.table(plan, formats.rows(plan, [
        made("json", plan, 200, NOTHING, drew(50.0)), made("cbor", plan, 100, NOTHING, drew(40.2)),
        made("xml", plan, 350, NOTHING, drew(44.0))]))
    assert [line.split() for line in lines[1:]] == [
        ["CBOR,", "cbor2", "300", "100.0", "0.0%", "1.00", "1,000.0", "2,000.0", "40.2", "10.05",
         "not", "seen"],
        ["JSON,", "json", "300", "200.0", "0.0%", "2.00", "1,000.0", "2,000.0", "50.0", "12.50",
         "10", "±", "0.7"],
        ["XML,", "ElementTree", "300", "350.0", "0.0%", "3.50", "1,000.0", "2,000.0", "44.0",
         "11.00", "4", "±", "0.7"]]
    assert max(map(len, lines)) <= 100


def test_rounds_tell_how_far_they_spread() -> None:
    """The meter's own steps leave 0.7 J open; these rounds spread by more."""
    plan = replace(plan_for("json", 1000, "rapl"), order=("json",) * 6)
    done = [made("json", plan, micro, NOTHING, drew(40 + net)) for micro, net in
            zip((100, 110, 120, 130, 140, 150), (4.0, 6.0, 8.0, 10.0, 12.0, 20.0), strict=True)]
    (one,) = formats.rows(plan, done)
    assert one.seconds == pytest.approx(125e-6) and one.spread == pytest.approx(15e-6)
    assert one.net == pytest.approx(9.0) and one.joules == pytest.approx(300.0)
    assert one.watts == pytest.approx(12.5) and 4 < one.off < 15
    assert "with a certainty of 95 %" in "\n".join(formats.notes(plan, done, [one], ""))
    (few,) = formats.rows(plan, done[:2])
    assert few.off == pytest.approx(0.7)


def test_the_commands_of_the_page_are_right() -> None:
    page = (ROOT / "lab" / "joules" / "formats.md").read_text()
    lines = re.findall(r"^lab/run formats.*", page, re.M)
    assert len(lines) > 5
    for line in lines:
        formats.parser().parse_args(shlex.split(line, comments=True)[2:])
    for name, codec in CODECS.items():
        assert f"\n| {name} | " in page and f"\n| {codec.title} | " in page


def test_a_password_is_not_kept_and_is_given_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at, places = "mqtt://me:p@ss@10.0.0.1/plug", list[str | None]()

    def find(name: str | None, at: str | None = None, clock: Clock | None = None) -> Meter:
        places.append(at)
        return Simulated(30)

    monkeypatch.setattr(meters, "find", find)
    words = ["--formats", "json", "--meter", "shelly", "--at", at]
    plan, _, _ = formats.begun(formats.parser().parse_args(words))
    results.append(tmp_path / "run", plan)
    assert "p@ss" not in (tmp_path / "run").read_text() and plan.at == "mqtt://10.0.0.1/plug"
    monkeypatch.setattr(results, "machine", lambda: plan.machine)
    formats.gone_on_with(tmp_path / "run", formats.parser().parse_args(["--at", at]))
    formats.gone_on_with(tmp_path / "run", formats.parser().parse_args([]))
    assert places == [at, at, "mqtt://10.0.0.1/plug"]
    other = formats.parser().parse_args(["--at", "mqtt://10.0.0.2/plug"])
    with pytest.raises(Unreadable, match="begun with another --at"):
        formats.gone_on_with(tmp_path / "run", other)


# ---------------------------------------------------------------- on a JVM

# What reads each format, too; there is nobody else who reads Java's own.
OTHERS = {"jackson": "json", "gson": "json", "xml": "xml", "cbor": "cbor", "protobuf": "protobuf"}


@pytest.fixture(scope="module", params=["boot2", "boot3"])
def pair(request: pytest.FixtureRequest) -> Iterator[JvmPair]:
    started = JvmPair(request.param, 0)
    yield started
    started.end()


def answer(pair: JvmPair, name: str) -> bytes:
    with urllib.request.urlopen(f"http://{HOST}:{pair.port}/{name}") as sent:
        return bytes(sent.read())


@pytest.mark.slow
def test_the_server_sends_the_list_in_each_format(pair: JvmPair) -> None:
    for name in jvm.TITLES:
        wire = answer(pair, name)
        assert pair.fetch(name, 3).bytes == 3 * len(wire)
        if name in OTHERS:
            assert CODECS[OTHERS[name]].decode(wire) == LIST, name
    assert answer(pair, "protobuf") == CODECS["protobuf"].encode(LIST)
    assert json.loads(answer(pair, "gson")) == LIST
    assert answer(pair, "java")[:4] == bytes.fromhex("aced0005")  # as Java's specification has it


@pytest.mark.slow
def test_a_fault_of_the_server_ends_the_run(pair: JvmPair) -> None:
    with pytest.raises(Failed, match="^nothing: "):  # there is no such format
        pair.fetch("nothing", 1)
    assert pair.fetch("cbor", 1).bytes  # the client goes on


@pytest.mark.slow
def test_both_end_with_their_parent(pair: JvmPair) -> None:
    for child in (pair.server, pair.client):
        assert child.process.stdin
        child.process.stdin.close()
        assert child.process.wait(60) == 0
    assert "-Xint" in jvm.java(jvm.KINDS["boot3-interpreted"])


@pytest.mark.parametrize("change, says", [
    (lambda folder: (folder / "gson-2.13.1.jar").write_bytes(b"another"), "gson-2.13.1.jar: "),
    (lambda folder: (folder / "more.jar").touch(), "more.jar: .* only in build/jvm"),
    (lambda folder: (folder / "gson-2.13.1.jar").unlink(), "gson.* only in libraries.txt"),
])
def test_another_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                    change: Callable[[Path], object], says: str) -> None:
    folder = tmp_path / "boot3" / "lib"
    folder.mkdir(parents=True)
    (folder / "gson-2.13.1.jar").write_bytes(b"gson")
    listed = tmp_path / "libraries.txt"
    monkeypatch.setattr(jvm, "BUILD", tmp_path)
    monkeypatch.setattr(jvm, "LIBRARIES", listed)
    sha256 = hashlib.sha256(b"gson").hexdigest()
    listed.write_text(f"# a comment\n{sha256} boot2,boot3 gson-2.13.1.jar\n0 boot2 other.jar\n")
    jvm.right("boot3")
    change(folder)
    with pytest.raises(Failed, match=says):
        jvm.right("boot3")
