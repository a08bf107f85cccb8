"""Is a recorded part run again when what it reads has changed, and in one of five commits?"""

import subprocess
from pathlib import Path

import pytest

from tools import recorded

PARTS = "proof|dumpulse.c proof deb:frama-c|prove {}\npages|README.md|print\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project whose two parts are recorded."""
    monkeypatch.setattr(recorded, "ROOT", tmp_path)
    monkeypatch.setattr(recorded, "FILE", tmp_path / "recorded.tsv")
    monkeypatch.setenv("RECORDED", PARTS)
    (tmp_path / "proof").mkdir()
    (tmp_path / "build").mkdir()
    for name in "dumpulse.c", "proof/contract", "README.md", "server.c":
        (tmp_path / name).write_text(name)
    (tmp_path / "dpkg-query").write_text("#!/bin/sh\necho $2 $(cat version 2>/dev/null)\n")
    (tmp_path / "dpkg-query").chmod(0o755)
    (tmp_path / ".gitignore").write_text("*.o\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for part in "proof", "pages":
        recorded.write(part)
    return tmp_path


def due() -> list[str]:
    return recorded.due(recorded.parts(), recorded.records(), commits=2)


@pytest.mark.parametrize("file", ["dumpulse.c", "proof/contract", "proof/added", "version"])
def test_an_input_has_changed(project: Path, file: str) -> None:
    assert due() == []
    (project / file).write_text("changed")
    assert due() == ["proof"]
    recorded.write("proof")
    assert due() == []


def test_a_command_has_changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDED", PARTS.replace("{}", "--all"))
    assert due() == ["proof"]


def test_a_file_is_removed_or_becomes_a_program(project: Path) -> None:
    (project / "proof/contract").chmod(0o755)
    assert due() == ["proof"]
    (project / "proof/contract").unlink()
    recorded.write("pages")
    assert due() == ["proof"]


def test_what_no_part_reads(project: Path) -> None:
    (project / "server.c").write_text("changed")
    (project / "proof/ignored.o").write_text("changed")
    assert due() == []


def test_nothing_is_recorded(project: Path) -> None:
    (project / "recorded.tsv").unlink()
    assert due() == ["pages", "proof"]


def test_each_part_has_its_turn(project: Path) -> None:
    turns = [recorded.due(recorded.parts(), recorded.records(), commits) for commits in range(5)]
    assert sorted(part for turn in turns for part in turn) == ["pages", "proof"]
