"""Does `make paths` notice a wrong agent, and a wrong watch?   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench import budgets
from proof.avr import follow, follow_watch
from sim.targets import ROOT, TARGETS


WATCH, TELL = "dumpulse_watch.c", "dumpulse_changed(agent, variable, was, is);"


@pytest.mark.parametrize(("file", "before", "after", "complaint"), [
    ("dumpulse.c", "length != DUMPULSE_PACKET_SIZE", "length < DUMPULSE_PACKET_SIZE",
     "need another result"),
    ("dumpulse.h", "DUMPULSE_MAGIC 0xF1U", "DUMPULSE_MAGIC 0xF3U", "need another result"),
    ("dumpulse.h", "variable >= DUMPULSE_VARIABLES", "variable > DUMPULSE_VARIABLES",
     "need another result"),
    ("dumpulse.c", "return differ == 0U", "return differ <= 1U", "need another result"),
    ("dumpulse.c", "return i == DUMPULSE_PACKET_SIZE", "return i >= 7", "need another result"),
    ("dumpulse.h", "entry[DUMPULSE_VALUE_AT_] = value",
     "entry[8] = entry[DUMPULSE_VALUE_AT_] = value", "write"),
    ("dumpulse.h", "entry[DUMPULSE_SENDER_AT_] = sender", "entry[DUMPULSE_SENDER_AT_] = value",
     "should be"),
    ("dumpulse.h",
     "    entry[DUMPULSE_VALUE_AT_] = value;\n    dumpulse_write16_(entry + DUMPULSE_TIME_AT_, "
     "dumpulse_get_timestamp());",
     "    dumpulse_write16_(entry + DUMPULSE_TIME_AT_, dumpulse_get_timestamp());\n    "
     "entry[DUMPULSE_VALUE_AT_] = value;",
     "when the clock is read"),
    ("dumpulse.h", "b += 15U", "b += 14U", "registers of the sums"),
    ("dumpulse.c", "dumpulse_write16_(agent->report + 2, a)",
     "dumpulse_write16_(agent->report + 2, b)",
     "not a step"),
    ("dumpulse.h", "a += *bytes++;", "a += *bytes++; if (last == 100 && bytes[-1] == 0x77) a += 1;",
     "reduces nothing"),
    ("dumpulse.c", "last = DUMPULSE_REPORT_LAST_;",
     "last = agent->report[77] == 0x55 ? 254 : DUMPULSE_REPORT_LAST_;", "depends on the table"),
    ("dumpulse.c", "a, context);", "a, agent);", "context"),
    ("dumpulse.c", "return DUMPULSE_REPORT;", "dumpulse_get_timestamp(); return DUMPULSE_REPORT;",
     "once"),
    (WATCH, "sbc %B0, %2", "sbc %B0, %1", "RAM of the line"),
    (WATCH, "or %2, %1", "or %2, %0", "RAM of the line"),
    (WATCH, "lpm %0, Z+", "lpm %0, Z", "RAM of the line"),
    (WATCH, "adiw r26, 4", "adiw r26, 5", "outside of what is its own"),
    (WATCH, "age > READ16(line, dead)", "age >= READ16(line, dead)", "RAM of the line"),
    (WATCH, "        seen->state = is;\n", "", "RAM of the line"),
    (WATCH, "    bytes[1] = time.low;", "    bytes[1] = time.low;\n    bytes[3] = time.low;",
     "outside of what is its own"),
    (WATCH, TELL, TELL + TELL, "called twice"),
    (WATCH, TELL, "dumpulse_changed(agent, variable, is, was);", "told something else"),
    (WATCH, "        seen->state = is;\n        " + TELL, TELL + "seen->state = is;",
     "before the RAM"),
    (WATCH, "        " + TELL, "        if (variable != 9) { " + TELL + " }", "exactly when"),
    (WATCH, "return NEXT(line);", '__asm__ volatile("clr r5"); return NEXT(line);',
     r"the next one begins: registers \[5\]"),
    (WATCH, "left--;", "left -= 2;", "ends late"),
])
def test_a_wrong_agent_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str,
                                  before: str,
                                  after: str, complaint: str) -> None:
    for name in ("dumpulse.c", "dumpulse.h", WATCH, "dumpulse_watch.h"):
        shutil.copy(ROOT / name, tmp_path)
    text = (tmp_path / file).read_text()
    assert before in text
    (tmp_path / file).write_text(text.replace(before, after))
    monkeypatch.setenv("DUMPULSE_SOURCE", str(tmp_path))
    with pytest.raises(SystemExit, match=complaint):
        (follow_watch if file == WATCH else follow)("ATmega328P")


def test_the_bounds_of_the_watch_are_its_budgets() -> None:
    """For any line, entry, RAM and time: also for what `make cost` does not try."""
    target = TARGETS["ATmega328P"]
    budget = budgets.load()[target.key]
    _, ((_, look), *_), stack = follow_watch(target.name)
    assert (look, stack) == (budget["look"], budget["watch_stack"] + target.return_address)
