"""Is there one version, and are archives the same each time?   SPDX-License-Identifier: MIT"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from packages import archive, project


@pytest.mark.parametrize(("text", "expected"), [
    ("1.2.3", {"semantic": "1.2.3", "python": "1.2.3", "debian": "1.2.3", "numbers": "1.2.3",
               "number": "10203"}),
    ("1.2.3-dev", {"semantic": "1.2.3-dev", "python": "1.2.3.dev0", "debian": "1.2.3~dev",
                   "numbers": "1.2.3", "number": "10203"}),
    ("0.10.2", {"semantic": "0.10.2", "python": "0.10.2", "debian": "0.10.2", "numbers": "0.10.2",
                "number": "1002"}),
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


def test_the_version_is_the_same_everywhere() -> None:
    assert project.behind() == {}, "run make version"
    assert re.search(rf"^## {re.escape(project.FORMS['numbers'](project.version()))}, ",
                     (project.ROOT / "CHANGELOG.md").read_text(), re.M)


def test_the_pages_name_no_file_of_one_version() -> None:
    """A reader has the files of another one."""
    of_one = re.compile(r"dumpulse[-_][\w~-]*\d+\.\d+\.\d+[\w.~-]*\.(?:tar|gz|zip|whl|crate|deb)\b")
    assert of_one.search("tar xzf dumpulse-espidf-1.0.0.tar.gz -C components")
    pages = [*project.ROOT.glob("packages/*/README.md"), project.ROOT / "README.md"]
    assert len(pages) > 11 and not [(page, of_one.findall(page.read_text())) for page in pages
                                    if of_one.search(page.read_text())]


@pytest.mark.parametrize("told", ["", "x", "1.5", "-1", "+1", " 1", "1_0", "4294967296", "9" * 99])
@pytest.mark.parametrize("write", [archive.write_zip, archive.write_tar])
def test_a_wrong_time_of_the_build_is_refused(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str,
        write: Callable[[Path, dict[str, Path]], Path]) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", told)
    with pytest.raises(SystemExit, match=re.escape(f"SOURCE_DATE_EPOCH is {told!r}: it must be")):
        write(tmp_path / "out", {})
    for told in ("0", "4294967295"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", told)
        write(tmp_path / "out", {"file": Path(__file__)})
