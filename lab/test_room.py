"""What the three folders share: sources, of which only those with the right hash are used; tables.
"""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab import sources
from tools.programs import ROOT


def test_its_version_is_shown() -> None:
    shown = subprocess.run([ROOT / "lab" / "run", "--version"], capture_output=True, text=True)
    assert re.fullmatch(r"lab 0\.\d+\.\d+ \(experimental\)\n", shown.stdout) and not shown.stderr


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Of the only source, "any", which has one file."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "file.h").write_text("enum { RIGHT = 1 };\n")
    made = tmp_path / "any-1.crate"
    subprocess.run(["tar", "-czf", made, "-C", tmp_path, "inside"], check=True)
    source = sources.Source("crate", "any", "1", hashlib.sha256(made.read_bytes()).hexdigest(),
                            "MIT")
    monkeypatch.setattr(sources, "FOLDER", tmp_path / "sources")
    monkeypatch.setattr(sources, "table", lambda: {"any": source})
    monkeypatch.setattr(sources, "CLIENTS", {"crate": ("sh", lambda source, folder: made)})
    return made


def test_an_archive_is_not_unpacked_before_its_hash_is_right(archive: Path) -> None:
    right, good = sources.table()["any"], archive.read_bytes()
    archive.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    says = f"any-1.crate has the SHA-256 .*must have {right.sha256}"
    with pytest.raises(SystemExit, match=says):
        sources.fetched("any")
    assert not right.folder.exists()
    archive.write_bytes(good)
    assert (sources.fetched("any") / "file.h").read_text() == "enum { RIGHT = 1 };\n"
    archive.unlink()
    assert sources.fetched("any") == right.folder  # It is not fetched again.


def test_a_fetched_source_that_has_been_changed_is_not_used(archive: Path) -> None:
    folder = sources.fetched("any")
    header = folder / "file.h"
    for change in (lambda: header.write_text("enum { RIGHT = 2 };\n"),
                   lambda: header.rename(header.with_name("other.h")),
                   lambda: (folder / "more.h").write_text("")):
        sources.seen_contents.cache_clear()  # A new program's cache is empty.
        change()
        with pytest.raises(SystemExit, match="any is not as it was fetched: remove it"):
            sources.fetched("any")
        subprocess.run(["rm", "-r", folder], check=True)
        sources.seen_contents.cache_clear()
        assert (sources.fetched("any") / "file.h").read_text() == "enum { RIGHT = 1 };\n"


def test_what_cargo_keeps_is_compared_with_the_table(monkeypatch: pytest.MonkeyPatch,
                                                     tmp_path: Path) -> None:
    """cargo trusts what it has downloaded before; the lab does not."""
    kept = tmp_path / "registry" / "cache" / "a-registry" / "any-1.crate"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"tampered")
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    monkeypatch.setattr(sources, "run", lambda command, cwd: "")
    monkeypatch.setattr(sources, "FOLDER", tmp_path / "sources")
    wanted = sources.Source("crate", "any", "1", "0" * 64, "MIT")
    monkeypatch.setattr(sources, "table", lambda: {"any": wanted})
    monkeypatch.setattr("shutil.which", lambda client: client)
    with pytest.raises(SystemExit, match="any-1.crate has the SHA-256 "
                                         + hashlib.sha256(b"tampered").hexdigest()):
        sources.fetched("any")


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "FOLDER", tmp_path)
    monkeypatch.setattr("shutil.which", lambda client, path=None: None)
    with pytest.raises(SystemExit, match="is fetched by cargo, which is not installed"):
        sources.fetched("micro-ecc-sys")


PRINTED = re.findall(r"^TABLE_(lab-\w+) = \$\(PRINTER\) -m ([\w.]+)([^$#\t]*)",
                     (ROOT / "lab" / "room.mk").read_text(), re.M)


@pytest.mark.parametrize("name, module, words", PRINTED)
def test_what_is_kept_is_printed_without_packages_and_to_a_reader_who_leaves(
        name: str, module: str, words: str) -> None:
    """-S: Python's own modules alone. The reader has gone before the first line."""
    listed = subprocess.run(["make", "-ns", "--no-print-directory", "figures", f"ONLY={name}",
                             "READY=no-package-may-be-wanted"], cwd=ROOT, capture_output=True,
                            text=True, check=False)
    assert listed.returncode == 0, listed
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "wb") as gone:
        done = subprocess.run([sys.executable, "-S", "-m", module, *words.split()], cwd=ROOT,
                              stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")
