"""Weakens the contracts in spec.h, watch.h and keyed.h, and checks that a proof fails.

    python3 -m proof.weaker [--portion K/N]

Each smallest part of what a contract or a predicate states is taken out, each equivalence becomes
an implication in one direction and in the other, and each clause about what may change is left out.
Then the proof of users.c must fail, which is firmware that relies on the contracts, or else that of
the code, whose functions rely on those of others. One proof tells those apart that no function
relies on together."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from tools.programs import BUILD, ROOT, portion

FOLDER = BUILD / "proof" / "weaker"
# The parts of proof/prove that must notice, with a data model and the most steps of a prover for a
# goal. A function that needs more steps with the whole contracts is left out.
PARTS = {"spec.h": [("users", "amd64", 60_000), ("library", "amd64", 400_000),
                    ("library", "arm", 2_500_000)],
         "watch.h": [("watchers", "amd64", 300_000), ("watch", "amd64", 300_000)],
         "keyed.h": [(part, "amd64", 400_000) for part in (
             "keyers", "node", "reader", "agent", "process", "mixed")]}
CLAUSE = re.compile(r"\b(?P<kind>requires|ensures|assigns|exits|predicate)\b"
                    r"(?P<text>(?:\\(?:forall|exists)[^;]*;|[^;\\]|\\(?!forall|exists))*);")
# A contract with the name of its function, and the macros of keyed.h that have parts of contracts.
BLOCK = re.compile(r"/\*@ (?!ghost|lemma).*?\*/\n(?:(?!\n|/\*|#)[^;{]*?(?P<function>\w+)\([^;]*;)?"
                   r"|^#define PROCESSED.*?\n\n|^#define (?P<kind>KEPT|BUT_A_BEACON|"
                   r"BEACON_TO_READERS)\b[^\\\n]*(?P<formula>(?:\\\n[^\n]*?)+)\n", re.S | re.M)
FUNCTION = re.compile(r"^\w[^;{}/]*?\b(\w+)\([^;{}]*\)\n\{.*?^\}", re.M | re.S)
SPACE = re.compile(r"\A(?:\s|\\\n)*")  # Lines of a macro end with a backslash.
HEAD = re.compile(r"\s*(\w+)[({][^=]*\) =\s")  # The name and the arguments of a predicate.
SOURCES = {name: [ROOT / "proof" / "users.c", *ROOT.glob(
    "dumpulse.[ch]" if name == "spec.h" else "extras/*.[ch]")] for name in PARTS}
QUANTIFIER = re.compile(r"\\(?:forall|exists)[^;]*;")
# What these functions require, no proof can need: they are not proved with these contracts.
UNPROVED = {"keyed.h": {"dumpulse_record", "dumpulse_process_packet", "dumpulse_read_", "answer"}}


class Variant(NamedTuple):
    header: str
    shown: str  # One line: what is replaced, and by what.
    begin: int
    end: int
    text: str  # It replaces the part of the header from begin to end.
    functions: frozenset[str]  # Their proofs rely on that part.


def split(text: str, begin: int, end: int, operator: str) -> list[tuple[int, int]]:
    """Splits a formula at the operator, but not within parentheses or behind a quantifier."""
    spans, depth, first = [], 0, begin
    for index in range(begin, end):
        depth += (text[index] in "([{") - (text[index] in ")]}")
        if depth == 0 and QUANTIFIER.match(text, index):
            break
        if depth == 0 and text.startswith(operator, index):
            spans.append((first, index))
            first = index + len(operator)
    return [*spans, (first, end)]


def weaker(text: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Returns what to replace in a formula so that it states less: where, and by what."""
    end = begin + len(text[begin:end].rstrip(" \n\\"))
    begin = end - len(SPACE.sub("", text[begin:end]))
    if quantifier := QUANTIFIER.match(text, begin):
        yield from weaker(text, quantifier.end(), end)
    elif len(sides := split(text, begin, end, "<==>")) == 2:
        premise, conclusion = (text[slice(*side)].strip() for side in sides)
        yield begin, end, f"(({premise}) ==> ({conclusion}))"
        yield begin, end, f"(({conclusion}) ==> ({premise}))"
    elif len(sides := split(text, begin, end, "==>")) > 1:
        yield from weaker(text, sides[1][0], end)
    elif len(parts := split(text, begin, end, "||")) > 1 or (
            len(parts := split(text, begin, end, "&&")) > 1):
        for part in parts:
            yield from weaker(text, *part)
    elif text[begin] == "(" and split(text, begin, end, ")")[0][1] == end - 1:
        yield from weaker(text, begin + 1, end - 1)
    else:
        # In a macro, the preprocessor would expand the word true.
        yield begin, end, "0 == 0"


def functions_of(block: re.Match[str]) -> set[str]:
    """Returns the functions that a contract, or a macro of contracts, is for."""
    if block[0].startswith("#"):
        return {"dumpulse_keyed_process", "dumpulse_mixed_process"}
    return {block["function"]} - {None}


def callers(name: str, names: set[str]) -> frozenset[str]:
    """Returns the functions that have one of these names or use it, and those that call a function
    whose contract uses one."""
    word = re.compile(rf"\b(?:{'|'.join(sorted(names))})[({{]")
    wider = set(names)
    for block in BLOCK.finditer((ROOT / "proof" / name).read_text()):
        if word.search(block[0]):
            wider |= functions_of(block) | {
                clause["text"].split("(")[0].split("{")[0].strip()
                for clause in CLAUSE.finditer(block[0])
                if clause["kind"] == "predicate" and word.search(clause[0])}
    if wider != names:
        return callers(name, wider)
    return frozenset(function[1] for source in SOURCES[name]
                     for function in FUNCTION.finditer(source.read_text())
                     if word.search(function[0]))


def variants(name: str) -> Iterator[Variant]:
    spec = (ROOT / "proof" / name).read_text()

    def changed(clause: re.Match[str], begin: int, end: int, text: str,
                functions: frozenset[str]) -> Variant:
        line = spec.count("\n", 0, begin) + 1
        part = f"{clause['kind']} {spec[begin:end]}" if text else clause[0]
        shown = " ".join(f"{part} -> {text or 'nothing'}".replace("\\\n", "").split())
        return Variant(name, f"{name}:{line}: {shown}", begin, end, text, functions)

    for block in BLOCK.finditer(spec):
        functions = callers(name, functions_of(block)) if functions_of(block) else frozenset()
        if block["kind"]:
            for part in weaker(spec, *block.span("formula")):
                yield changed(block, *part, functions)
        for clause in () if block["kind"] else CLAUSE.finditer(spec, *block.span()):
            if clause["kind"] == "requires" and block["function"] in UNPROVED.get(name, ()):
                continue
            if clause["kind"] in {"assigns", "exits"}:
                yield changed(clause, *clause.span(), "", functions)
                continue
            begin = clause.start("text")
            if head := HEAD.match(spec, begin):
                functions, begin = callers(name, {head[1]}), head.end()
            for part in weaker(spec, begin, clause.end("text")):
                yield changed(clause, *part, functions)


def prove(option: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs proof/prove with the contracts in FOLDER."""
    environment = {**os.environ, "SPECS": str(FOLDER), "OUT": str(FOLDER / "out"), **variables}
    return subprocess.run(["proof/prove", option], cwd=ROOT, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)


def failing(part: str, model: str, steps: int, functions: frozenset[str]) -> set[str] | None:
    """Returns which of these functions have a goal that fails with the contracts in FOLDER, or None
    if Frama-C rejects the contracts."""
    output = prove(model, PART=part, STEPS=str(steps), TIMEOUT="3600",
                   FUNCTION=",".join(functions)).stdout
    counts = re.findall(r"(\d+) (?:of|/) (\d+) goals proved|Proved goals: (\d+) / (\d+)", output)
    goals = re.findall(r"(?:\[Failed\] Goal |Goal (?=typed_\w+ : (?!Valid)))typed_(\w+)", output)
    # The name of a goal has one underscore behind that of its function, which may end with one.
    owners = {max((name for name in functions if goal.startswith(f"{name.rstrip('_')}_")), key=len)
              for goal in goals}
    if not counts:
        return None
    proved, total = (int(word) for word in counts[0] if word)
    if (proved != total) != bool(owners):
        raise SystemExit(f"{output}\nthe goals that fail and their count differ")
    return owners


def batches(waiting: list[Variant], defined: frozenset[str]) -> Iterator[list[Variant]]:
    """Puts together what no function relies on twice, so that one proof tells them apart."""
    waiting = [variant for variant in waiting if variant.functions & defined]
    while waiting:
        batch: list[Variant] = []
        for variant in waiting:
            if all(variant.functions & defined & earlier.functions == frozenset()
                   for earlier in batch):
                batch.append(variant)
        waiting = [variant for variant in waiting if variant not in batch]
        yield batch


def write(name: str, batch: list[Variant]) -> None:
    """Writes a header with all these variants."""
    text = (ROOT / "proof" / name).read_text()
    for variant in sorted(batch, key=lambda variant: -variant.begin):
        text = text[:variant.begin] + variant.text + text[variant.end:]
    (FOLDER / name).write_text(text)


def noticed(name: str, waiting: list[Variant]) -> Iterator[tuple[str, Variant]]:
    """Returns which part fails with each variant. At the end, smoke tests show whether what is left
    contradicts the rest."""
    users = frozenset(FUNCTION.findall((ROOT / "proof" / "users.c").read_text()))
    for part, model, steps in PARTS[name]:
        defined = frozenset().union(*(variant.functions for variant in waiting))
        defined = defined & users if part.endswith("ers") else defined - users
        if not defined:
            continue
        write(name, [])
        too_long = failing(part, model, steps, defined)
        if too_long is None:
            raise SystemExit(f"{part}: Frama-C rejects the whole contracts: make proof")
        defined -= too_long
        together = list(batches(waiting, defined))
        for batch in together:
            write(name, batch)
            relied = frozenset().union(*(variant.functions for variant in batch)) & defined
            failed = failing(part, model, steps, relied)
            if failed is None and len(batch) > 1:
                together += [[variant] for variant in batch]
                continue
            for variant in batch:
                if failed is None or variant.functions & failed:
                    waiting.remove(variant)
                    yield f"{part}, {model}", variant
    for variant in waiting:
        write(name, [variant])
        if prove("--smoke").returncode:
            yield "proof-smoke", variant


def main() -> None:
    parser = argparse.ArgumentParser(description="weakens the contracts: does a proof fail?")
    parser.add_argument("--portion", type=portion, default="1/1", metavar="K/N",
                        help="each N-th, from K on")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for header in (ROOT / "proof").glob("*.h"):
        (FOLDER / header.name).write_bytes(header.read_bytes())
    chosen = [variant for name in PARTS for variant in variants(name)][options.portion]
    # WP keeps what the provers answer, here and in `make proof`: later only goals that a weaker
    # contract changes are new.
    if (BUILD / "proof" / "answered").exists():
        shutil.copytree(BUILD / "proof" / "cache", FOLDER / "out" / "cache", dirs_exist_ok=True)
    missed = chosen[:]
    for name in PARTS:
        for part, variant in noticed(name, [row for row in chosen if row.header == name]):
            print(f"{part}: {variant.shown}", flush=True)
            missed.remove(variant)
    for variant in missed:
        print(f"NOT NOTICED: {variant.shown}")
    print(f"weaker contracts: {len(chosen) - len(missed)} passed, {len(missed)} failed")
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
