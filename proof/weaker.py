"""Weakens the contracts in spec.h, watch.h and keyed.h, and checks that a proof fails.

    python3 -m proof.weaker [--portion K/N] [--list]

Each conjunct of what a contract or a predicate says is taken out, each equivalence becomes an
implication in one direction and in the other, and each clause about what may change is left out.
Then the proof of users.c must fail, which is firmware that relies on the contracts, or else that of
the code, whose functions rely on those of others, or else the smoke tests."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterator

from tools.programs import BUILD, ROOT, portion

FOLDER = BUILD / "proof" / "weaker"
# The parts of proof/prove that must notice, with the most steps of a prover for a goal.
PARTS = {"spec.h": {"users": 400_000, "library": 2_500_000},
         "watch.h": {"watchers": 400_000, "watch": 800_000},
         "keyed.h": {"keyers": 800_000, "node": 800_000, "reader": 800_000, "agent": 800_000,
                     "process": 800_000, "mixed": 800_000}}
CLAUSE = re.compile(r"\b(?P<kind>requires|ensures|assigns|exits|predicate)\b"
                    r"(?P<text>(?:\\(?:forall|exists)[^;]*;|[^;\\]|\\(?!forall|exists))*);")
# No firmware and no code can notice these: the clock hook of a proof reads the first, and no real
# one. The others are asked for by functions that are defined in a header and not proved here, or
# are proved with more in spec.h.
UNNOTICED = ("requires \\valid_read(watched)", "requires \\valid_read(bytes",
             "requires \\valid(bytes", "requires \\valid(agent)", "requires packet[4] == 0xF1",
             "requires \\valid(keyed) && \\valid_read(packet + (0 .. 7))")


def pieces(text: str, operator: str) -> list[str]:
    """Splits a formula at the operator, but not within parentheses or behind a quantifier."""
    split, depth, begin = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and text.startswith("\\forall", index):
            break
        if depth == 0 and text.startswith(operator, index):
            split.append(text[begin:index])
            begin = index + len(operator)
    return [*split, text[begin:]]


def weaker(kind: str, text: str) -> Iterator[str]:
    if kind in {"assigns", "exits"}:
        yield ""
        return
    head, equals, formula = re.split("( =\\s)", text, maxsplit=1) if kind == "predicate" else (
        "", "", text)
    for number, piece in enumerate(parts := pieces(formula, "&&")):
        if len(pieces(piece, "==>")) == 1 or len(parts) == 1:
            # In a macro, the preprocessor would expand the word true.
            others = [*parts[:number], " 0 == 0 ", *parts[number + 1:]]
            yield f"{kind}{head}{equals}{'&&'.join(others)};"
    sides = pieces(formula, "<==>")
    if len(sides) == 2:
        yield f"{kind} ({sides[0]}) ==> ({sides[1]});"
        yield f"{kind} ({sides[1]}) ==> ({sides[0]});"


def variants(name: str) -> Iterator[tuple[str, str, str]]:
    """Returns the name of a header, what is weakened, in one line, and the whole text with it."""
    spec = (ROOT / "proof" / name).read_text()
    for comment in re.finditer(r"/\*@ (?!ghost|lemma).*?\*/|^#define PROCESSED.*?\n\n", spec,
                               re.S | re.M):
        for clause in CLAUSE.finditer(spec, *comment.span()):
            for text in weaker(clause["kind"], clause["text"]):
                line = spec.count("\n", 0, clause.start()) + 1
                shown = " ".join(f"{clause[0]} -> {text or 'nothing'}".split())
                yield (name, f"{name}:{line}: {shown}",
                       spec[:clause.start()] + text + spec[clause.end():])


def proof(part: str, steps: int, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["proof/prove", *options, "amd64"], cwd=ROOT, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "SPECS": str(FOLDER), "OUT": str(FOLDER / "out"),
                               "PART": part, "STEPS": str(steps), "TIMEOUT": "3600"})


def fails(part: str, steps: int) -> bool:
    """Does the proof of a part fail with the contracts in FOLDER?"""
    output = proof(part, steps).stdout
    counts = re.findall(r"(\d+) (?:of|/) (\d+) goals proved|Proved goals: (\d+) / (\d+)", output)
    if not counts:
        raise SystemExit(f"{output}\nFrama-C does not accept these contracts")
    proved, total = (int(word) for word in counts[0] if word)
    return proved != total


def noticed_by(name: str) -> str:
    """Returns the part that fails with the contracts in FOLDER, or nothing."""
    for part, steps in PARTS[name].items():
        if fails(part, steps):
            return part
    return "smoke" if "reach" in proof("", 100_000, "--smoke").stdout else ""


def main() -> None:
    parser = argparse.ArgumentParser(description="weakens the contracts: does a proof fail?")
    parser.add_argument("--portion", type=portion, default="1/1", metavar="K/N",
                        help="each N-th, from K on")
    parser.add_argument("--list", action="store_true", help="only print them")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for header in (ROOT / "proof").glob("*.h"):
        (FOLDER / header.name).write_bytes(header.read_bytes())
    chosen = [variant for name in PARTS for variant in variants(name)
              if not any(clause in variant[1] for clause in UNNOTICED)]
    chosen = chosen[options.portion]
    if options.list:
        print("\n".join(shown for _, shown, _ in chosen))
        return
    # WP keeps what the provers answer, here and in `make proof`: later only goals that a weaker
    # contract changes are new.
    if (BUILD / "proof" / "answered").exists():
        shutil.copytree(BUILD / "proof" / "cache", FOLDER / "out" / "cache", dirs_exist_ok=True)
    names = {name for name, *_ in chosen}
    if any([fails(part, 4 * steps) for name in names for part, steps in PARTS[name].items()]):
        raise SystemExit("the proof fails with the whole contracts: make proof")
    missed = []
    for name, shown, text in chosen:
        (FOLDER / name).write_text(text)
        part = noticed_by(name)
        (FOLDER / name).write_bytes((ROOT / "proof" / name).read_bytes())
        print(f"{part or 'NOT NOTICED'}: {shown}", flush=True)
        if not part:
            missed.append(shown)
    print(f"weaker contracts: {len(chosen) - len(missed)} passed, {len(missed)} failed")
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
