"""Does `make figures ONLY=paths` notice a wrong agent and a wrong watch? Is each rule of the
models said of a line of C?"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from proof import spin
from proof.avr import agent, watch
from tools.processors import budgets
from tools.processors.targets import TARGETS
from tools.programs import ROOT, library_file


WATCH = "dumpulse_watch.c"
TELL = "dumpulse_changed(agent, variable, was, is);"
PARTS = {WATCH: watch, "dumpulse_watch.h": watch, "dumpulse.c": agent, "dumpulse.h": agent}


def break_source(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, before: str,
                 after: str) -> None:
    """Has the table `paths` take the library from this folder, where one thing is different."""
    for name in PARTS:
        shutil.copy(library_file(name), folder)
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))
    monkeypatch.setenv("DUMPULSE_SOURCE", str(folder))


@pytest.mark.slow
@pytest.mark.parametrize(("file", "before", "after", "complaint"), [
    ("dumpulse.c", "return differ == 0U", "return differ <= 1U", "need another result"),
    ("dumpulse.h", "entry[DUMPULSE_VALUE_AT_] = value",
     "entry[8] = entry[DUMPULSE_VALUE_AT_] = value", "write"),
    ("dumpulse.h", "entry[DUMPULSE_SENDER_AT_] = sender", "entry[DUMPULSE_SENDER_AT_] = value",
     "should be"),
    ("dumpulse.h",
     "    entry[DUMPULSE_VALUE_AT_] = value;\n    dumpulse_write16_(entry + DUMPULSE_TIME_AT_, "
     "dumpulse_get_timestamp());",
     "    dumpulse_write16_(entry + DUMPULSE_TIME_AT_, dumpulse_get_timestamp());\n    "
     "entry[DUMPULSE_VALUE_AT_] = value;", "when the clock is read"),
    ("dumpulse.h", "b += 15U", "b += 14U", "registers of the sums"),
    ("dumpulse.c", "dumpulse_write16_(agent->report + 2, a)",
     "dumpulse_write16_(agent->report + 2, b)", "not a step"),
    ("dumpulse.h", "a += *bytes++;", "a += *bytes++; if (last == 100 && bytes[-1] == 0x77) a += 1;",
     "reduces nothing"),
    ("dumpulse.c", "last = DUMPULSE_REPORT_LAST_;",
     "last = agent->report[77] == 0x55 ? 254 : DUMPULSE_REPORT_LAST_;", "depends on the table"),
    ("dumpulse.c", "a, context);", "a, agent);", "context"),
    ("dumpulse.c", "return DUMPULSE_REPORT;", "dumpulse_get_timestamp(); return DUMPULSE_REPORT;",
     "once"),
    (WATCH, "age > DUMPULSE_READ16_(line->dead)", "age >= DUMPULSE_READ16_(line->dead)",
     "RAM of the line"),
    ("dumpulse_watch.h", "pgm_read_byte(&(field))", "(field)", "outside of what is its own"),
    (WATCH, "seen->since[1] = low;", "seen->since[1] = low;\n    seen[1].since[0] = low;",
     "outside of what is its own"),
    (WATCH, TELL, TELL + TELL, "called twice"),
    (WATCH, TELL, "dumpulse_changed(agent, variable, is, was);", "told something else"),
    (WATCH, "        seen->state = is;\n        " + TELL, TELL + "seen->state = is;",
     "before the RAM"),
    (WATCH, "        " + TELL, "        if (variable != 9) { " + TELL + " }", "exactly when"),
    (WATCH, "left--;", 'left--; __asm__ volatile("clr r5");',
     r"the next one begins: registers \[5\]"),
    (WATCH, "left--;", "left -= 2;", "ends late"),
])
def test_a_wrong_part_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str,
                                 before: str, after: str, complaint: str) -> None:
    break_source(tmp_path, monkeypatch, file, before, after)
    with pytest.raises(SystemExit, match=complaint):
        PARTS[file].follow("ATmega328P")


@pytest.mark.slow
def test_the_bounds_of_the_watch_are_its_budgets() -> None:
    """For any line, entry, RAM and time: also for what `make figures ONLY=cost` does not try."""
    target = TARGETS["ATmega328P"]
    budget = budgets.load()[target.key]
    _, ((_, look), *_), stack = watch.follow(target.name)
    assert (look, stack) == (budget["look"], budget["watch_stack"] + target.return_address)


def test_each_rule_stands_in_a_line_of_c() -> None:
    """The table of README.md has each rule of each model once, and code that is there."""
    page = (ROOT / "proof" / "README.md").read_text().split("### Which lines of C")[1]
    page = page.split("\n## ")[0]
    said = Counter(f"{model}: {rule}" for model, rules in re.findall(
        r"\b(\w+):((?:\s[A-Z_0-9]+,?)+)", page)
        for rule in re.findall(r"[A-Z_0-9]+", rules))
    models = sorted(spin.MODELS.glob("*.pml"))
    assert said == Counter(f"{model.stem}: {rule.name}" for model in models
                           for rule in spin.lines_of(model)[1])
    rows = re.findall(r"^\| .* \| (\w+\.c) \| `(.*)` \|$", page, re.M)
    assert len(rows) == page.count("\n| ") - 1
    for file, code in rows:
        path = library_file(file)
        path = path if path.exists() else ROOT / "server" / file
        assert code in path.read_text(), (file, code)
