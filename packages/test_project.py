"""Is there one version, and are archives the same each time?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from packages import archive, project


@pytest.mark.parametrize(("text", "expected"), [
    ("1.2.3", {"semantic": "1.2.3", "python": "1.2.3", "debian": "1.2.3", "numbers": "1.2.3"}),
    ("1.2.3-dev", {"semantic": "1.2.3-dev", "python": "1.2.3.dev0", "debian": "1.2.3~dev",
                   "numbers": "1.2.3"}),
])
def test_each_world_has_its_form(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    (tmp_path / "dumpulse.h").write_text(f'#define DUMPULSE_VERSION "{text}" /* why */\n')
    found = project.version(tmp_path)
    assert {form: write(found) for form, write in project.FORMS.items()} == expected


@pytest.mark.parametrize("line", ["", '#define DUMPULSE_VERSION "1.2"\n',
                                  2 * '#define DUMPULSE_VERSION "1.2.3"\n'])
def test_a_header_without_one_version_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "dumpulse.h").write_text(line)
    with pytest.raises(SystemExit, match="must define DUMPULSE_VERSION once"):
        project.version(tmp_path)


@pytest.mark.parametrize("write", [archive.write_zip, archive.write_tar])
def test_an_archive_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          write: Callable[[Path, dict[str, Path]], Path]) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    written = []
    for turn, names in enumerate((["b", "a/c"], ["a/c", "b"])):
        folder = tmp_path / str(turn)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"the content of {name}")
            os.utime(folder / name, (turn, turn))
        written.append(write(tmp_path / f"{turn}.out", archive.files_of(folder, "top/")))
    assert written[0].read_bytes() == written[1].read_bytes()
