"""Does proof/spin.py notice a model that does not hold, and a rule that nobody needs?
SPDX-License-Identifier: MIT"""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from proof import spin
from tests.support.programs import ROOT, library_file

# A number grows up to a limit.
MODEL = """\
#include "model.h"
#define BELOW 1 // the number is below 9
#define {rule} 1 // {breaks}: the limit is 9
byte number;
init {{
    read_settings();
    do
    :: number < (broken == 1 -> {broken} : {limit}) -> number++;
        must(BELOW, number < 9)
        {more}
    :: number == 8 -> break
    od
}}
"""
GOOD = {"rule": "LIMIT", "breaks": "BELOW", "broken": 9, "limit": 8, "more": ""}


def check(folder: Path, monkeypatch: pytest.MonkeyPatch, **changed: object) -> int:
    shutil.copy(spin.MODELS / "model.h", folder)
    model = folder / "model.pml"
    model.write_text(MODEL.format(**{**GOOD, **changed}))
    monkeypatch.setattr(spin, "OUT", folder)
    return spin.check(model)


@pytest.mark.slow
def test_a_model_that_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                            capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, monkeypatch) == 2
    assert capsys.readouterr().out.splitlines()[1] == "model: 1 rules broken, and each was noticed"


@pytest.mark.slow
@pytest.mark.parametrize(("changed", "said"), [
    ({"limit": 9}, "model: a property does not hold:\nit does not hold"),
    ({"broken": 8}, "model: LIMIT does not break BELOW: the limit is 9\nit holds"),
    ({"breaks": "HIGH"}, "model.pml: LIMIT breaks HIGH, no property"),
    ({"limit": 7}, "invalid end state"),
    ({"more": "; assert(number != 5)"}, "assertion violated (number!=5)"),
    ({"more": ";;; ("}, "syntax error"),
])
def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               changed: dict[str, object], said: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        check(tmp_path, monkeypatch, **changed)
    assert said in str(stopped.value)


def test_each_rule_stands_in_a_line_of_c() -> None:
    """The table of README.md has each rule of each model once, and code that is there."""
    page = (ROOT / "proof" / "README.md").read_text().split("### Which lines of C")[1]
    page = page.split("\n## ")[0]
    said = Counter(f"{model}: {rule}" for model, rules in re.findall(
        r"\b(hears|sends|reads|slots):((?:\s[A-Z_0-9]+,?)+)", page)
        for rule in re.findall(r"[A-Z_0-9]+", rules))
    models = sorted(spin.MODELS.glob("*.pml"))
    assert said == Counter(f"{model.stem}: {rule.name}" for model in models
                           for rule in spin.lines_of(model)[1])
    rows = re.findall(r"^\| .* \| (\w+\.c) \| `(.*)` \|$", page, re.M)
    assert len(rows) == page.count("\n| ") - 1
    for file, code in rows:
        assert code in library_file(file).read_text(), (file, code)
