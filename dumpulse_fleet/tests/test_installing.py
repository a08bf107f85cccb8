"""The command line, the manual and the unit of systemd."""

import re
import subprocess
from pathlib import Path

import pytest

from dumpulse_fleet import client, command
from dumpulse_fleet.config.file import load
from dumpulse_fleet.model.version import VERSION
from dumpulse_fleet.tests.serving import COMMAND, ROOT
from tools import manual

PAGE = ROOT / "dumpulse_fleet" / "README.md"
MANUAL = ROOT / "dumpulse_fleet" / "dumpulse-fleet.1"
UNIT = ROOT / "dumpulse_fleet" / "dumpulse-fleet.service"


@pytest.fixture(autouse=True)
def set_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PROGRAM", "dumpulse-fleet")


def test_the_manual_has_all_options() -> None:
    wanted = manual.manual_options(lambda _: command.build_parser(), ["serve"])
    found = re.search(r'from here\n(.*)\n\.\\" to here', MANUAL.read_text(), re.S)
    assert found and found[1] == wanted, f"write this into it:\n{wanted}"


@pytest.mark.parametrize("words, part", [
    ([], "the following arguments are required: command (see dumpulse-fleet --help)"),
    (["sl"], "invalid choice: 'sl'"), (["serve", "x.toml"], "unrecognized arguments: x.toml"),
    (["serve", "--config.file", "none"], "cannot read 'none': No such file or directory: name"),
    (["serve", "--config.file", "/"], "cannot read '/': Is a directory: name your own with")])
def test_usage(capsys: pytest.CaptureFixture[str], words: list[str], part: str) -> None:
    assert command.run_command(words) == 2
    out, err = capsys.readouterr()
    assert part in err and err.count("\n") == 1 and err.startswith("dumpulse-fleet: ") and not out


def test_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        command.run_command(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5 and max(map(len, lines)) <= 80
    version = [*COMMAND, "--version"]
    assert subprocess.check_output(version, text=True, cwd=ROOT) == \
        f"dumpulse-fleet {VERSION} (experimental)\n"
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(version, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                              check=False)
    assert done.returncode == 1 and "cannot write" in done.stderr


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
    options = command.build_parser().parse_args(start.split()[1:])
    assert options.config_file == command.CONFIG_FILE


def test_what_the_unit_hides_is_not_read() -> None:
    """ProcSubset=pid leaves of /proc only the processes."""
    assert settings(UNIT.read_text())["ProcSubset"] == ["pid"]
    for path in (ROOT / "dumpulse_fleet").rglob("*.py"):
        if not {"tests", "simulation"} & {*path.parts} and path.stem != "client":
            assert not re.search(r'"/proc/(?!self/)|"/sys/', path.read_text()), path
