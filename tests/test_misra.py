"""Does lint notice a new deviation from MISRA C, and one that is gone?
SPDX-License-Identifier: MIT"""

import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import misra
from tests.support.programs import library_file

UNDECLARED = "int dumpulse_twice(int n)\n{\n    return 2 * n;\n}\n"
RETURN = "    if (variable >= DUMPULSE_VARIABLES) {\n        return DUMPULSE_REFUSED;\n    }\n"


def library(folder: Path) -> Path:
    for files in misra.PARTS.values():
        for file in files:
            shutil.copy(library_file(file), folder)
    return folder


def faults(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the checker says of a library that it refuses."""
    monkeypatch.setattr(sys, "argv", ["misra", str(folder)])
    with pytest.raises(SystemExit) as ended:
        misra.main()
    return str(ended.value)


@pytest.mark.slow
@pytest.mark.parametrize("file, before, after, says", [
    ("dumpulse.c", "", UNDECLARED, "rule 8.4: 1 places deviate, and misra.tsv has 0"),
    ("dumpulse_watch.c", "", UNDECLARED, "rule watch 8.4: 1 places deviate, and misra.tsv has 0"),
    ("dumpulse.h", RETURN, RETURN + RETURN.replace(">=", "=="),
     "rule 15.5: 9 places deviate, and misra.tsv has 8")])
def test_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, before: str,
                       after: str, says: str) -> None:
    text = (library(tmp_path) / file).read_text()
    assert before == "" or text.count(before) == 1
    (tmp_path / file).write_text(text.replace(before, after) if before else text + after)
    assert f"misra: {says} for cppcheck " in faults(tmp_path, monkeypatch)


def test_a_place_that_is_gone_and_a_row_of_another_cppcheck(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misra, "deviations", lambda _: Counter({"2.4": 2}))
    monkeypatch.setattr(misra, "version", lambda: "1.0")
    said = faults(tmp_path, monkeypatch)
    assert "misra: rule 2.4: 2 places deviate, and misra.tsv has 0 for cppcheck 1.0" in said
    assert "misra: rule 15.5: 0 places deviate, and misra.tsv has 8 for cppcheck 1.0" in said
