"""Does `make figures ONLY=paths` notice a wrong agent, a wrong watch and a wrong tag? Is each rule
of the models said of a line of C?"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from proof import spin
from proof.avr import agent, keyed, tags, watch
from tools.processors import budgets
from tools.processors.targets import TARGETS
from tools.programs import KEYED, ROOT, library_file


WATCH, TAG, ASSEMBLER = "dumpulse_watch.c", "dumpulse_tag.c", "dumpulse_tag_avr.S"
MIX = "ldd r25, Z+32\n    eor r0, r25\n    st Z+, r0\n    dec LEFT\n    brne .Lmix_"
TELL = "dumpulse_changed(agent, variable, was, is);"
AGENT, MIXED, NODE = "dumpulse_agent.c", "dumpulse_mixed.c", "dumpulse_node.c"
PARTS = {WATCH: watch, "dumpulse_watch.h": watch, "dumpulse.c": agent, "dumpulse.h": agent}
ROLES = {AGENT: (keyed.PROCESS, keyed.NEXT), MIXED: (keyed.MIXED,), NODE: (keyed.HEAR, keyed.BEAT)}


def break_source(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, before: str,
                 after: str) -> None:
    """Has the table `paths` take the library from this folder, where one thing is different."""
    for name in ("dumpulse.c", "dumpulse.h", WATCH, "dumpulse_watch.h", "dumpulse_keyed.h",
                 ASSEMBLER, *KEYED):
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
    # the rounds
    (ASSEMBLER, "    eor r17, r13\n", "", "not half a round"),
    (ASSEMBLER, "    clr r1\n", "    mov r6, r8\n    clr r1\n", "changes more than its state"),
    (ASSEMBLER, "ldi HALVES, 24", "ldi HALVES, 22", "no loop turns 24 times"),
    (ASSEMBLER, "    std Z+9, r21\n", "", "a block|a tag is not"),
    (ASSEMBLER, "    lsl r24\n", "    sbrc r24, 0\n    mov r0, r0\n    lsl r24\n",
     "branch depends on what a tag is made of"),
    # the last block, and the double of the key
    (ASSEMBLER, MIX + "key", MIX.replace("32", "16") + "key", "a block of a tag of 1 is not"),
    (ASSEMBLER, MIX + "double", MIX.replace("32", "16") + "double", "a tag is not"),
    (ASSEMBLER, "    pop r13\n    pop r12\n    ret", "    pop r12\n    pop r13\n    ret",
     "is not kept|depends on what|not read"),
    # what a tag is made of
    (TAG, "it[2] = number", "it[2] = number ^ label", "a block of a tag of 1 is not"),
    (TAG, "left = 8;", "left = 7;", "must not read"),
    (TAG, "(it + 4), label)", "(it + 4), 0)", "another key"),
    (TAG, "    dumpulse_last_(it);\n    return",
     "    if (packet[7] == 9) { it[0] = 0; }\n    dumpulse_last_(it);\n    return",
     "branch depends on what a tag is made of"),
    (TAG, "packet[3] = (uint8_t)(made / 16777216U)", "packet[3] = (uint8_t)(made / 65536U)",
     "a packet gets another tag"),
    # how it is compared
    (TAG, "    differ |= (uint8_t)(made >> 16) ^ packet[2];\n", "", "not compared"),
    (TAG, "uint8_t differ = (uint8_t)made ^ packet[0];",
     "uint8_t differ = 0;\n    if ((uint8_t)made != packet[0]) { return false; }",
     "depends on a tag"),
    # reports and keys
    ("dumpulse_report.c", "i != 8;", "i != 7;", "leaves bytes out"),
    ("dumpulse_report.c", "DUMPULSE_READER_LABEL, number", "63, number",
     "a block of a tag of 17 is not"),
    ("dumpulse_master.c", "*byte = generation", "*byte = 0", "a block of a tag of 1 is not"),
    (AGENT, "packet[5] <= keyed->last", "packet[5] < keyed->last", "calls"),
    (AGENT, "            keyed->last[label] = packet[5];\n", "", "something else"),
    (AGENT, "keyed->last[label] = packet[5]",
     'keyed->last[label] = packet[5]; __asm__ volatile("clr r5" ::: "memory")', "is not kept"),
    (AGENT, "keyed->epoch / BLOCK + 1", "keyed->epoch / BLOCK", "something else"),
    (MIXED, "variable < DUMPULSE_VARIABLES", "variable <= DUMPULSE_VARIABLES", "must not read"),
    (MIXED, "return is_version_1", "keyed->wrong = 0;\n            return is_version_1",
     "something else"),
    (NODE, "if (epoch == node->epoch) {", "if (false) {", "something else"),
])
def test_a_wrong_part_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str,
                                 before: str, after: str, complaint: str) -> None:
    break_source(tmp_path, monkeypatch, file, before, after)
    with pytest.raises(SystemExit, match=complaint):
        if file in ROLES:
            costs = dict.fromkeys((*keyed.TAGS, tags.LABEL_KEY), (0, 0))
            keyed.follow("ATmega328P", costs, ROLES[file])
        else:
            PARTS.get(file, tags).follow("ATmega328P")


@pytest.mark.slow
def test_the_bounds_of_the_watch_are_its_budgets() -> None:
    """For any line, entry, RAM and time: also for what `make figures ONLY=cost` does not try."""
    target = TARGETS["ATmega328P"]
    budget = budgets.load()[target.key]
    _, ((_, look), *_), stack = watch.follow(target.name)
    assert (look, stack) == (budget["look"], budget["watch_stack"] + target.return_address)


def test_a_wrong_definition_of_a_tag_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "doubled", lambda key: key)
    with pytest.raises(SystemExit, match=r"not that of spec/keyed\.py"):
        tags.check_definition()


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
