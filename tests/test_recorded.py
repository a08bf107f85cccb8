"""Is a recorded part run again when what it reads has changed, and in one of five commits?"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from bench import pages
from tests import layers
from tools import recorded
from tools.programs import ROOT, run

INPUTS = ["dumpulse.c", "proof"]
# A package that is not installed makes its status 1.
DPKG_QUERY = """#!/bin/sh
case "$*" in
"-W -f "*" clang not-here") printf 'clang\\tclang-14 (>= 14~), libc6 | other\\n' ;;
"-W clang clang-14 not-here") cat version version-14 ;;
esac
exit 1
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recorded, "ROOT", tmp_path)
    monkeypatch.setattr(recorded, "FILE", tmp_path / "recorded.tsv")
    monkeypatch.setenv("COMMAND", "prove")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("proof/contract", "proof/model", "dumpulse.c", "server.c", "version",
                 "version-14", "build/flags"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "packages.txt").write_text("# compilers\nclang\nnot-here\n")
    (tmp_path / "dpkg-query").write_text(DPKG_QUERY)
    (tmp_path / "dpkg-query").chmod(0o755)
    (tmp_path / ".gitignore").write_text("*.o\n/build/\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


@pytest.mark.parametrize("file", ["dumpulse.c", "proof/contract", "proof/added", "version",
                                  "version-14", "build/flags"])
def test_an_input_has_changed(project: Path, file: str) -> None:
    before = recorded.inputs_hash(INPUTS)
    (project / file).write_text("changed")
    assert recorded.inputs_hash(INPUTS) != before


def test_versions_are_of_the_programs_themselves() -> None:
    """The package gcc only has the name of a compiler; gcc-12, for example, is the compiler."""
    assert {"clang", "cvc4", "frama-c-base", "gcc", "spin", "why3", "z3"} <= {
        *(ROOT / "tools" / "packages.txt").read_text().split()}
    assert re.search(r"^gcc\t.+\ngcc-\d+\t\d", recorded.versions(), re.M)


def test_other_changes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, a file that becomes a program, and one that is removed; and what is not read."""
    (project / "server.c").write_text("changed")
    (project / "proof/ignored.o").write_text("changed")
    hashes = [recorded.inputs_hash(INPUTS)]
    (project / "server.c").unlink()
    assert recorded.inputs_hash(INPUTS) == hashes[0]
    (project / "proof/contract").chmod(0o755)
    hashes.append(recorded.inputs_hash(INPUTS))
    (project / "proof/contract").unlink()
    hashes.append(recorded.inputs_hash(INPUTS))
    monkeypatch.setenv("COMMAND", "prove --all")
    assert len({*hashes, recorded.inputs_hash(INPUTS)}) == 4
    with pytest.raises(subprocess.CalledProcessError):  # a path without files
        recorded.inputs_hash([*INPUTS, "proof/contracts"])


def test_what_must_run(project: Path, monkeypatch: pytest.MonkeyPatch,
                       capsys: pytest.CaptureFixture[str]) -> None:
    """All that is not recorded with these inputs, and what has its turn."""
    (project / "recorded.tsv").write_text("# part\tinputs\nother\t12\n")
    monkeypatch.setattr("sys.argv", ["recorded", "due", "proof", *INPUTS])
    monkeypatch.setattr(recorded, "is_its_turn", lambda part, commits: commits == 5)
    counted = recorded.output_of
    monkeypatch.setattr(recorded, "output_of", lambda *command, **kept: "4" if "rev-list" in command
                        else counted(*command, **kept))
    recorded.main()
    now = capsys.readouterr().out.strip()
    assert now == recorded.inputs_hash(INPUTS)
    for result, began, row in (("passed", now, {"proof": now}), ("FAILED", now, {}),
                               ("passed", 64 * "0", {}), ("passed", now, {"proof": now})):
        monkeypatch.setattr("sys.argv", ["recorded", result, "proof", began, *INPUTS])
        recorded.main()
        assert recorded.records() == {"other": "12"} | row
    monkeypatch.setattr("sys.argv", ["recorded", "due", "proof", *INPUTS])
    recorded.main()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(recorded, "output_of", lambda *command, **kept: "5" if "rev-list" in command
                        else counted(*command, **kept))
    recorded.main()
    assert capsys.readouterr().out.strip() == now


@pytest.mark.slow
def test_what_a_part_imports_is_among_its_inputs() -> None:
    """Of files that it opens otherwise, only its author knows."""
    parts = set(re.findall(r"^READS_([a-z-]+) ", "".join(
        path.read_text() for path in ROOT.glob("*/room.mk")), re.M))
    assert len(parts) > 4
    for part in parts:
        recipe = run(["make", "-n", "-C", ROOT, f"part-{part}", f"NEEDS_{part}="])
        commands = [run(["make", "-n", "-C", ROOT, "part", f"ONLY={part}", f"NEEDS_{part}="])]
        if part == "check-pages":
            commands += [run(["make", "-n", "-C", ROOT, "figures", f"ONLY={table}"])
                         for tables in pages.PAGES.values() for table in tables]
        (paths,) = re.findall(r'reads="(.+?)"', recipe)
        read = set(run(["git", "ls-files", "--", *paths.split()], cwd=ROOT).splitlines())
        modules = re.findall(r"python -m (\S+)", "".join(commands))
        files = [name for name in read if name.startswith("lab/") and name.endswith(".py")] \
            if modules == ["pytest"] else [layers.file_of(module) for module in modules]
        files = [f"{name}/__main__.py" if (ROOT / name).is_dir() else name for name in files]
        for name in files:  # which grows
            files += {used for used in layers.imported(ROOT / name) if used.endswith(".py")
                      } - {*files}
        assert len(files) > 1 and {*files} - read == set(), part
        # The versions of what pip fetches: the proof needs none of it.
        assert part.startswith("proof") or "tools/toolchains.txt" in read, part
