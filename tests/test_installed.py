"""Tests what `make install` installs for client.py: name, module, manual and examples."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import client
from tools.agents import GOOD, FakeAgent
from tools.programs import PATIENCE, ROOT

SYSTEM_PYTHON = "/usr/bin/python3"


def make(target: str, prefix: str | Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", "--no-print-directory", "-C", ROOT, target,
                           f"PREFIX={prefix}", *more],
                          check=False, capture_output=True, text=True, timeout=4 * PATIENCE)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("installed")
    done = make("install", folder)
    assert done.returncode == 0, done.stderr
    yield folder


def run(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "COLUMNS": "80", **environment})


# ---------------------------------------------------------------- its name

@pytest.mark.parametrize("command", ["", *client.COMMANDS])
def test_its_help_and_errors_have_the_name_that_was_typed(command: str, prefix: Path) -> None:
    called = prefix / "bin" / "dumpulse"
    shown = run(called, *command.split(), "--help").stdout
    assert shown.startswith(f"usage: dumpulse {command}".rstrip()) and "client.py" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert run(called, *command.split(), "--version").stdout.startswith(
        f"dumpulse {client.VERSION}, keys ")
    wrong = run(called, *command.split(), "--nonsense")
    output = wrong.stdout + wrong.stderr
    assert "see dumpulse" in output and "client.py" not in output


def test_other_errors_have_it_too(prefix: Path) -> None:
    called = prefix / "bin" / "dumpulse"
    with FakeAgent([GOOD]) as agent, open("/dev/full", "w", encoding="utf-8") as full:
        assert run(called, "get", agent.address, "64").stderr.startswith("dumpulse: variable 64 ")
        assert run(called, "localhost", "-n").stderr == \
            "dumpulse: unrecognized arguments: -n (see dumpulse --help)\n"
        result = subprocess.run([called, "get", agent.address], stdout=full, stderr=subprocess.PIPE,
                                text=True, check=False, timeout=PATIENCE)
        assert result.stderr.startswith("dumpulse: cannot write: ")


def test_a_name_that_a_terminal_would_obey(tmp_path: Path) -> None:
    link = tmp_path / "\x1b[31m"
    link.symlink_to(ROOT / "client.py")
    assert run(link, "--nonsense").stderr.startswith("client.py: ")


# ---------------------------------------------------------------- the module

@pytest.mark.parametrize("prefix", ["/usr", "/usr/local", "/usr/local/"])
def test_the_systems_python_looks_where_it_is_put(prefix: str, tmp_path: Path) -> None:
    """Others can read it, whatever the mask, and the folder may have a space."""
    there = tmp_path / "a b"
    before = os.umask(0o077)
    try:
        assert make("install", prefix, f"DESTDIR={there}").returncode == 0
    finally:
        os.umask(before)
    assert not [path for path in there.rglob("*") if path.stat().st_mode & 0o755 not in
                (0o755, 0o644)] and not (tmp_path / "a").exists()
    (module,) = there.rglob("dumpulse/__init__.py")
    searched = run(SYSTEM_PYTHON, "-I", "-c",
                   "import sys; print(*sys.path, sep='\\n')").stdout.splitlines()
    folder = "/" + str(module.parents[1].relative_to(there))
    assert folder in searched and folder.startswith(f"{prefix.rstrip('/')}/lib/")
    assert make("uninstall", prefix, f"DESTDIR={there}").returncode == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_another_place_for_the_module(tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    assert make("install", tmp_path / "x", f"PYTHONDIR={modules}").returncode == 0
    assert sorted(path.name for path in modules.rglob("*.*")) == ["__init__.py", "py.typed"]
    shown = run(SYSTEM_PYTHON, "-c", "import dumpulse; print(dumpulse.heartbeat(3, 76, 9).hex())",
                PYTHONPATH=str(modules), PYTHONDONTWRITEBYTECODE="")
    assert shown.stdout == "0472014af1034c09\n", shown.stderr
    assert len(list(modules.rglob("*.pyc"))) == 1
    assert make("uninstall", tmp_path / "x", f"PYTHONDIR={modules}").returncode == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not (tmp_path / "x" / "share" / "doc" / "dumpulse").exists()


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")
                  if path.is_file())


@pytest.mark.parametrize("version", [None, (2, 7, 18), (3, 8, 20)])
def test_without_a_python_for_the_client_all_else_is_installed(
        version: tuple[int, ...] | None, prefix: Path, tmp_path: Path) -> None:
    """The PATH has no other python3, either."""
    tools, to = tmp_path / "bin", tmp_path / "to"
    tools.mkdir()
    for name in ("ar", "awk", "basename", "cat", "cc", "chmod", "cmp", "cp", "date", "make",
                 "mkdir", "mv", "rm", "rmdir", "sed", "sh", "tr", "uname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    if version:  # -c runs, as if it were of this version
        (tools / "python3").write_text(
            f"#!/bin/sh\nshift; exec {SYSTEM_PYTHON} -c 'import sys; words = sys.argv[1:]\n"
            f"sys.version_info, sys.argv = {version}, words; exec(words[0])' \"$@\"\n")
        (tools / "python3").chmod(0o755)

    def run_make(target: str) -> str:
        return run("make", "-s", "--no-print-directory", "-C", ROOT, target, f"PREFIX={to}",
                   "PYTHON3=python3", PATH=str(tools)).stderr

    assert run_make("install") == \
        "the client is left out: 'python3' is no Python 3.9 or later\n"
    of_client = {"bin/dumpulse", "share/man/man1/dumpulse.1"}
    rest = [name for name in names(prefix) if name not in of_client
            and not re.search("/python|/examples/", name)]
    assert names(to) == rest and {"sbin/udpserver", "lib/libdumpulse.a"} < set(rest)
    assert run_make("uninstall") == "" and names(to) == []


@pytest.mark.parametrize("target", ["install", "uninstall"])
@pytest.mark.parametrize("variable", ["PREFIX", "LIBDIR", "PYTHONDIR"])
def test_a_space(target: str, variable: str, tmp_path: Path) -> None:
    half = tmp_path / "a"
    half.write_text("not of make\n")
    done = make(target, "/usr", f"{variable}={tmp_path}/a b", f"DESTDIR={tmp_path}/c")
    assert done.returncode == 2
    assert "PREFIX, LIBDIR and PYTHONDIR must have no spaces; DESTDIR may" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a"] and half.read_text()


# ---------------------------------------------------------------- the manual

@pytest.mark.slow
def test_the_manual_has_every_option_command_and_status(prefix: Path) -> None:
    shown = run("groff", "-man", "-Tascii", "-P-cbou",
                str(prefix / "share" / "man" / "man1" / "dumpulse.1"))
    assert shown.returncode == 0 and not shown.stderr
    text = shown.stdout
    described = re.findall(r"^ {7}(-.*)", text, re.M)
    named = {word for line in described for word in re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*",
                                                               line)}
    parsed = {word for command in ("", *client.COMMANDS)
              for option in client.build_parser(command)._actions for word in option.option_strings}
    assert named == parsed
    assert set(client.COMMANDS) <= set(re.findall(r"^ {7}(\w+)(?:$|  )", text, re.M))
    keys = re.findall(r"[\w-]+", " ".join(text.partition("FILE OF NAMES")[2].split()))
    assert {*client.GENERAL, *client.OF_A_VARIABLE} <= set(keys)


# ---------------------------------------------------------------- Nagios and Icinga

def checked(words: list[str]) -> tuple[client.Settings, str]:
    """What `check` reads from the command line of a monitor, from its third word on."""
    assert Path(words[0]).name == "dumpulse" and words[1] == "check"
    options = client.build_parser("check").parse_intermixed_args(words[2:])
    return client.make_settings(options), options.plugin_host


def test_the_commands_for_nagios(prefix: Path) -> None:
    text = (prefix / "share/doc/dumpulse/examples/nagios.cfg").read_text()
    objects = [(kind, dict(line.split(None, 1) for line in body.strip().splitlines()))
               for kind, body in re.findall(r"^define (\w+) \{\n(.*?)^\}", text, re.M | re.S)]
    lines = {keys["command_name"]: keys["command_line"] for kind, keys in objects
             if kind == "command"}
    services = [keys["check_command"].split("!") for kind, keys in objects if kind == "service"]
    assert {name for name, *_ in services} == set(lines)
    found = []
    for name, *arguments in services:
        line = lines[name].replace("$HOSTADDRESS$", "192.0.2.7").strip()
        for number, argument in enumerate(arguments, 1):
            assert f"$ARG{number}$" in line
            line = line.replace(f"$ARG{number}$", argument)
        assert "$" not in line and line.startswith(f"{prefix}/bin/dumpulse ")
        settings, host = checked(shlex.split(line))
        assert host == "192.0.2.7"
        found.append([variable.number for variable in settings.variables if variable.expected])
    assert found == [[*range(1, 9)]] * 2


def test_the_command_for_icinga(prefix: Path) -> None:
    text = (prefix / "share/doc/dumpulse/examples/icinga2.conf").read_text()
    assert f'command = [ "{prefix}/bin/dumpulse", "check" ]' in text
    sample = dict(re.findall(r'^    vars\.(\w+) = \[? ?"?([^"\]]+?)"?(?: \])?$', text, re.M))
    words = ["dumpulse", "check"]
    flags = re.findall(r'^        "(-\S+)" = \{\n            value = "\$(\w+)\$"$', text, re.M)
    assert len(flags) == text.count(" = {\n            value")
    for flag, variable in flags:
        value = sample.get(variable, {"dumpulse_names": str(ROOT / "examples/vehicle.ini"),
                                      "dumpulse_now_from": "0",
                                      "dumpulse_tick": "100ms"}.get(variable))
        assert value, variable
        words += [flag, value]
    settings, host = checked(words)
    assert host == "$address$" and (settings.tick_ms, settings.now_from) == (100, 0)
    assert (settings.variables[3].warn_low, settings.variables[3].high) == (110, 140)
