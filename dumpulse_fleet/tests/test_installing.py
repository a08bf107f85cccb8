"""The manual and the unit of systemd."""

import re
import subprocess
from pathlib import Path

import pytest

from dumpulse_fleet import client, command
from dumpulse_fleet.config.file import load
from dumpulse_fleet.tests.serving import ROOT
from tools import completion

PAGE = ROOT / "dumpulse_fleet" / "README.md"
MANUAL = ROOT / "dumpulse_fleet" / "dumpulse-fleet.1"
UNIT = ROOT / "dumpulse_fleet" / "dumpulse-fleet.service"


def test_the_manual_has_all_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PROGRAM", "dumpulse-fleet")
    wanted = completion.manual_options(command.build_parser, command.COMMANDS)
    found = re.search(r'from here\n(.*)\n\.\\" to here', MANUAL.read_text(), re.S)
    assert found and found[1] == wanted, f"write this into it:\n{wanted}"


def test_the_manual_has_all_commands() -> None:
    """With the arguments that --help shows, the files and the words of the environment."""
    text = re.sub(r"\\f[BIR]|\\&", "", MANUAL.read_text()).replace("\\-", "-")
    synopsis = text.partition(".SH SYNOPSIS")[2].partition(".SH")[0]
    lines = [" ".join(re.sub(r"^\.\w+", "", line).replace(" ", "") for line in part.splitlines())
             for part in synopsis.replace(".B dumpulse-fleet ", "").split(".br\n")]
    assert [line.split() for line in lines] == [
        f"{name} {each.arguments} [OPTION]...".split() for name, each in command.COMMANDS.items()]
    for name in command.COMMANDS:
        assert f"\n.TP\n.B {name}\n" in text, name
    for word in (command.CONFIG_FILE, "DUMPULSE_FLEET", "DUMPULSE_FLEET_TOKEN_FILE", "NO_COLOR"):
        assert re.search(rf"^\.[BI] {re.escape(word)}$", text, re.M), word


@pytest.mark.slow
def test_the_manual_can_be_read() -> None:
    shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-rLL=80n", MANUAL], check=True,
                           capture_output=True, text=True)
    assert shown.stderr == ""
    text = re.sub("\033.*?m|.\b", "", shown.stdout)
    assert max(map(len, text.splitlines())) <= 80


def settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.slow
def test_the_unit(tmp_path: Path) -> None:
    """systemd takes it, also with what the manual adds, and finds little that could be abused."""
    text, manual = UNIT.read_text(), MANUAL.read_text().replace("\\-", "-")
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/opt/dumpulse-fleet/bin/dumpulse-fleet", "/bin/true"))
    page = re.sub("^    ", "", PAGE.read_text(), flags=re.M)
    drop_ins = re.findall(r"^\[Service\]\n(?:\w+=.*\n)+", manual + page, re.M)
    assert len(drop_ins) == 1  # for keys
    for more in ("", *drop_ins):
        (tmp_path / f"{UNIT.name}.d").mkdir(exist_ok=True)
        (tmp_path / f"{UNIT.name}.d" / "manual.conf").write_text(more)
        checked = subprocess.run(["systemd-analyze", "verify", "--man=no", unit],
                                 capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")
    rate = "systemd-analyze", "security", "--offline=true", "--threshold=15"
    rated = subprocess.run([*rate, UNIT], capture_output=True, text=True, check=False)
    assert rated.returncode == 0, rated.stdout[-300:]  # an exposure of at most 1.5 in 10
    given = settings(text)
    # It has no right that the agent's unit does not have, either.
    others = (ROOT / "server" / "units" / "dumpulse.service").read_text()
    agent = settings(others.partition("DynamicUser")[2])
    for name in agent.keys() - {"StateDirectory", "MemoryMax", "TasksMax", "OOMPolicy",
                                "RuntimeDirectory", "RuntimeDirectoryMode"}:
        assert given[name] == agent[name], name
    # It tells systemd, which starts it again, but not with a configuration that is wrong.
    assert given["Type"] == ["notify"] and given["RestartPreventExitStatus"] == ["2"]
    assert given["StartLimitIntervalSec"] == ["0"]
    (folder,) = given["StateDirectory"]
    (tmp_path / "fleet.toml").write_text("[[agents]]\naddress = 'localhost'\n")
    assert load(str(tmp_path / "fleet.toml")).state == f"/var/lib/{folder}"
    (start,) = given["ExecStart"]
    _, *words = start.replace("$DUMPULSE_FLEET_OPTIONS", "--web.listen-address :1").split()
    options = command.build_parser(words[0]).parse_args(words[1:])
    assert (options.config_file, options.listen) == (command.CONFIG_FILE, ("", 1))


def test_what_the_unit_hides_is_not_read() -> None:
    """ProcSubset=pid leaves of /proc only the processes."""
    assert settings(UNIT.read_text())["ProcSubset"] == ["pid"]
    for path in (ROOT / "dumpulse_fleet").rglob("*.py"):
        if not {"tests", "simulation"} & {*path.parts} and path.stem != "client":
            assert not re.search(r'"/proc/(?!self/)|"/sys/', path.read_text()), path
