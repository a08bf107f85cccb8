"""Asks Spin whether version 2 holds, and whether each of its rules is needed.

    make part ONLY=models

Spin tries all that an attacker can do in the models of proof/keyed, with short counts and few
resets. Each model lists properties that must hold, and rules to break: then a property must not
hold any more. README.md in this folder says what the models say.

    python3 -m proof.spin [MODEL...]      for example: python3 -m proof.spin hears"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tools.programs import ROOT, as_program, run

MODELS = Path(__file__).with_name("keyed")
OUT = ROOT / "build" / "models"
LINE = re.compile(r"^#define ([A-Z_0-9]+) (\d+) +// (?:(insider )?([A-Z_]+): )?(.*)$", re.M)
DEPTH = 1000000  # Limit of the search; no model needs a tenth of it.
HOLDS, BROKEN = "it holds", "it does not hold"


class Rule(NamedTuple):
    """A rule that can be broken, or a property."""
    name: str
    number: str
    insider: bool
    breaks: str
    text: str


def lines_of(model: Path) -> tuple[dict[str, Rule], list[Rule]]:
    """Returns the properties of a model, and its rules."""
    every = [Rule(name, number, bool(insider), breaks, text)
             for name, number, insider, breaks, text in LINE.findall(model.read_text())]
    properties = {rule.name: rule for rule in every if not rule.breaks}
    rules = [rule for rule in every if rule.breaks]
    for numbered in (list(properties.values()), rules):
        if sorted(int(rule.number) for rule in numbered) != list(range(1, len(numbered) + 1)):
            raise SystemExit(f"{model.name}: its properties or rules are not 1 to {len(numbered)}")
    for rule in rules:
        if rule.breaks not in properties:
            raise SystemExit(f"{model.name}: {rule.name} breaks {rule.breaks}, no property")
    return properties, rules


def compile_model(model: Path) -> Path:
    """Returns the program that Spin makes of a model."""
    folder = OUT / model.stem
    folder.mkdir(parents=True, exist_ok=True)
    output = run(["spin", "-a", model], cwd=folder)
    if re.search(r"\berror\b", output, re.I):
        raise SystemExit(f"{model.name}: {output}")
    run(["gcc", "-O1", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"], cwd=folder)
    return folder / "pan"


def search(program: Path, rule: str, checked: str, insider: bool) -> tuple[str, int]:
    """Returns HOLDS, BROKEN, or what else the search said; and the number of states."""
    settings = {"BROKEN": rule, "CHECKED": checked, "INSIDER": str(int(insider))}
    output = subprocess.run([program, f"-m{DEPTH}", "-w20"], cwd=program.parent, text=True,
                          capture_output=True, check=False, env={**os.environ, **settings}).stdout
    errors, states = (re.search(pattern, output) for pattern in (r"errors: (\d+)",
                                                                r"(\d+) states, stored"))
    if errors and states:
        ended = "Search not completed" not in output and "depth too small" not in output
        if errors[1] == "0" and ended:
            return HOLDS, int(states[1])
        if errors[1] == "1" and "assertion violated (violated==0)" in output:
            return BROKEN, int(states[1])
    return output, 0


def check(model: Path) -> int:
    """Checks a model, and returns how many searches were made."""
    properties, rules = lines_of(model)
    program = compile_model(model)
    attackers = sorted({False} | {rule.insider for rule in rules})
    for insider in attackers:
        answer, states = search(program, "0", "0", insider)
        name = f"{model.stem}, insider" if insider else model.stem
        if answer != HOLDS:
            raise SystemExit(f"{name}: a property does not hold:\n{answer}")
        print(f"{name}: all properties hold, in all {states} states")
    for rule in rules:
        answer, _ = search(program, rule.number, properties[rule.breaks].number, rule.insider)
        if answer != BROKEN:
            raise SystemExit(f"{model.stem}: {rule.name} does not break {rule.breaks}: "
                             f"{rule.text}\n{answer}")
    print(f"{model.stem}: {len(rules)} rules broken, and each was noticed")
    return len(attackers) + len(rules)


def main() -> None:
    models = [MODELS / f"{name}.pml" for name in sys.argv[1:]] or sorted(MODELS.glob("*.pml"))
    print(f"models: {sum(map(check, models))} passed, 0 failed")


if __name__ == "__main__":
    as_program(main, f"(({'|'.join(path.stem for path in MODELS.glob('*.pml'))}) ?)*")
