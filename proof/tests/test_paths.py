"""Does `make figures ONLY=paths` notice a wrong agent, with and without keys, and a wrong watch?

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench import budgets, worst
from bench.processors.targets import TARGETS
from proof.avr import agent, keyed, tags, watch
from tests.support.programs import library_file


KEYED, WATCH = "dumpulse_keyed.c", "dumpulse_watch.c"
TELL = "dumpulse_changed(agent, variable, was, is);"


def break_source(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, before: str,
                 after: str) -> None:
    """Has the table `paths` take the library from this folder, where one thing is different."""
    for name in ("dumpulse.c", "dumpulse.h", WATCH, "dumpulse_watch.h", KEYED, "dumpulse_keyed.h"):
        shutil.copy(library_file(name), folder)
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))
    monkeypatch.setenv("DUMPULSE_SOURCE", str(folder))


@pytest.mark.slow
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
    (WATCH, "65536U - DUMPULSE_AHEAD", "65535U - DUMPULSE_AHEAD", "RAM of the line"),
    (WATCH, "was / 2U | high", "was / 2U", "RAM of the line"),
    (WATCH, "entry[DUMPULSE_VALUE_AT_]", "entry[8]", "outside of what is its own"),
    (WATCH, "DUMPULSE_READ16_(line->dead)", "DUMPULSE_READ16_(line->late)", "RAM of the line"),
    (WATCH, "age > DUMPULSE_READ16_(line->dead)", "age >= DUMPULSE_READ16_(line->dead)",
     "RAM of the line"),
    ("dumpulse_watch.h", "pgm_read_byte(&(field))", "(field)", "outside of what is its own"),
    (WATCH, "        seen->state = is;\n", "", "RAM of the line"),
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
def test_a_wrong_agent_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str,
                                  before: str,
                                  after: str, complaint: str) -> None:
    break_source(tmp_path, monkeypatch, file, before, after)
    with pytest.raises(SystemExit, match=complaint):
        (watch if file.startswith("dumpulse_watch") else agent).follow("ATmega328P")


@pytest.mark.slow
def test_the_bounds_of_the_watch_are_its_budgets() -> None:
    """For any line, entry, RAM and time: also for what `make figures ONLY=cost` does not try."""
    target = TARGETS["ATmega328P"]
    budget = budgets.load()[target.key]
    _, ((_, look), *_), stack = watch.follow(target.name)
    assert (look, stack) == (budget["look"], budget["watch_stack"] + target.return_address)


@pytest.mark.slow
@pytest.mark.parametrize(("alone", "before", "after", "complaint"), [
    # Chaskey-12, in the assembler
    (0, r"sbrc r24, 0\n\tldi r25, 7", r"sbrc r24, 0\n\tldi r25, 6", "not half a round"),
    (0, r"eor r12, r8\n\t", "", "not half a round"),
    (0, r"clr r1\n\t", r"mov r6, r8\n\tclr r1\n\t", "changes more than its state"),
    (0, '"ldi r24, 24', '"ldi r24, 22', "no loop turns 24 times"),
    (0, "andi r25, 0x87", "andi r25, 0x86", "registers of the rounds"),
    (0, "adiw r26, 8", "adiw r26, 7", "a block of a tag of 17 is not"),
    (0, r"ld r0, Z\n\tldd r25, Z+32", r"ld r0, Z\n\tldd r25, Z+16", "a block of a tag of 1 is not"),
    (0, r"ldi r25, 5\n\tsbrc r24", r"sbrc r8, 0\n\tmov r0, r0\n\tldi r25, 5\n\tsbrc r24",
     "branch depends on what a tag is made of"),
    # tags
    (0, "byte[1] = number[2]", "byte[1] = number[1]", "a block of a tag of 1 is not"),
    (0, "(it + 8), label)", "(it + 8), 0)", "another key"),
    (0, "STORE(report + 4, it[1])", "STORE(report + 4, it[2])", "a tag is not"),
    (0, "    chaskey(it, report);",
     "    if (packet[7] == 9) { it[8] = 0; }\n    chaskey(it, report);",
     "branch depends on what a tag is made of"),
    # packets
    (0, "packet[5] <= keyed->last", "packet[5] < keyed->last", "should be refused before"),
    (0, "length != DUMPULSE_PACKET_SIZE", "length < DUMPULSE_PACKET_SIZE",
     "should be refused before"),
    (0, "if (!keyed->begun || number_of", "if (number_of", "should be refused before"),
    (32, "    if (!keyed->begun) {\n        return DUMPULSE_NOT_BEGUN;\n    }\n", "",
     "need another result"),
    (0, "    differ |= (uint8_t)(made >> 16) ^ packet[2];\n", "", "need another result"),
    (0, "uint8_t differ = (uint8_t)made ^ packet[0];",
     "uint8_t differ = 0;\n    if ((uint8_t)made != packet[0]) { return false; }",
     "time depends on a tag"),
    (0, "    keyed->last[label] = packet[5];\n", "", "agent has not become"),
    (0, "context, report, DUMPULSE_KEYED_REPORT_SIZE", "context, report, 260", "sends something"),
    (32, "!dumpulse_store(variable, packet + 5)",
     "!(own[0] = packet[5], dumpulse_store(variable, packet + 5))", "before its number is stored"),
    (32, "    own[1] = packet[6];\n", "", "agent has not become"),
    # ticks
    (0, "keyed->epoch[0] < EPOCH_LAST", "keyed->epoch[0] <= EPOCH_LAST", "another block|result"),
    (0, "keyed->epoch[0] = NO_EPOCH", "keyed->epoch[0] = 0x3E", "agent has not become"),
    (32, "if (label < DUMPULSE_ALONE && keyed->own[label][0] != 0) {\n            continue",
     "if (label < 31 && keyed->own[label][0] != 0) {\n            continue",
     "agent has not become"),
])
def test_a_wrong_agent_with_keys_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            alone: int, before: str, after: str,
                                            complaint: str) -> None:
    break_source(tmp_path, monkeypatch, KEYED, before, after)
    with pytest.raises(SystemExit, match=complaint):
        keyed.follow("ATmega328P", alone)


def test_a_wrong_definition_of_a_tag_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "doubled", lambda key: key)
    with pytest.raises(SystemExit, match=r"not that of spec/keyed\.py"):
        tags.check_definition()


def test_what_keys_may_cost_is_a_must() -> None:
    fine = dict.fromkeys(keyed.KINDS, (7000, 7000)) | {"report": (57877, 57877)}
    keyed.check_musts(fine, 170)
    for kind in ("heartbeat", "wrong", "refused", "beacon"):
        with pytest.raises(SystemExit, match="must be at most 7000"):
            keyed.check_musts(fine | {kind: (54, 7001)})
    with pytest.raises(SystemExit, match="must be at most 170"):
        keyed.check_musts(fine, 171)


@pytest.mark.slow
def test_a_bound_with_keys_that_no_packet_reaches_is_noticed() -> None:
    name = "ATmega328P"
    limits = keyed.bounds(name)
    worst.check_keyed(name, limits)
    for kind, (low, high) in (("heartbeat", (0, 1)), ("beacon", (0, 1)), ("tick", (1, 0)),
                              ("refused", (0, -1))):
        wrong = limits[kind][0] + low, limits[kind][1] + high
        with pytest.raises(SystemExit, match=f"a {kind} took"):
            worst.check_keyed(name, limits | {kind: wrong})
