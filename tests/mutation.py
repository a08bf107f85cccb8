"""Makes small changes to a program, and finds out whether its tests notice each.

A mutant is a source file with one change: another operator or constant, a flag or a statement that
is gone, or a condition that is reversed. A mutant that passes all steps of a list survives.
tests/mutants.py says what is changed, and by which steps it is tested.

A step may take several times as long as without any change, on the processor and on the clock. If
it takes longer, that is not a failed test: it has a verdict of its own. If a compiler takes so
long, or fails without naming an error in the source, something is wrong with the machine, and
everything ends."""

import ast
import hashlib
import io
import keyword
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

KILLED, LATE, STILLBORN, SURVIVED = VERDICTS = ("killed", "timed out", "stillborn", "survived")
# A step may take SLACK times as long as without any change, and this many seconds more, on
# the processor and on the clock (others may use the machine, too).
SLACK = 10
PROCESSOR_FLOOR = 2
WALL_FLOOR = 60
LATE_STATUS = 99  # Exit status of a step that was too late.


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    before: str  # the line, without its indentation
    after: str
    text: str = field(repr=False)  # the whole file

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.before, self.after


Change = tuple[int, int, str]  # the begin and the end in the text, and the new text for this part


def mutants_of(file: str, text: str, changes: Iterable[Change]) -> list[Mutant]:
    """Returns a mutant for each change that makes a difference, in the order of the text."""
    lines = text.split("\n")
    found = []
    for start, end, new in sorted(set(changes)):
        if text[start:end] == new:
            continue
        changed = text[:start] + new + text[end:]
        number = text.count("\n", 0, start)
        after = changed[sum(len(line) + 1 for line in lines[:number]):].split("\n", 1)[0]
        found.append(Mutant(file, number + 1, lines[number].strip(), after.strip(), changed))
    return found


def other_number(value: int) -> int:
    """Returns a number that a test should notice: the next one, or twice as many."""
    return value ^ 1 if value < 256 else 2 * value


# ---- C ------------------------------------------------------------------------------------

# What each operator may become. Longer operators come first: `<<` is not two `<`.
OPERATORS = {
    "<<": (">>",), ">>": ("<<",), "++": ("--",), "--": ("++",),
    "+=": ("-=", "="), "-=": ("+=", "="), "&&": ("||",), "||": ("&&",),
    "==": ("!=",), "!=": ("==",), "<=": ("<", ">"), ">=": (">", "<"),
    "->": (), "<": ("<=", ">"), ">": (">=", "<"), "+": ("-",), "-": ("+",),
    "*": ("+",), "|": ("&",), "&": ("|",), "!": ("",), "=": (),
}
TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/)|(?P<directive>^[ \t]*#(?!define "
    r"DUMPULSE_[A-Z])[^\n]*)|(?P<text>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<assertion>\btypedef char [^;]*;)"  # no code; tests/test_targets.py tests that it fails
    r"|(?P<number>\b(?:0[xX][0-9A-Fa-f]+|\d+)(?P<suffix>[uUlL]*)\b)"
    r"|(?P<word>\b(?:true|false)\b)"
    r"|(?P<operator>"
    + "|".join(re.escape(operator) for operator in OPERATORS) + ")", re.S | re.M)
# An assignment, a call, a ++ or --, or a jump. It is no declaration: there a type comes first.
STATEMENT = re.compile(
    r"^ +(?:\(void\))?[*+-]*(?!(?:return|case|default|else|goto|if|while|for|do)\b)\w+"
    r"(?:\[[^\]\n]*\]|\.\w+|->\w+)*(?: [-+*/|&]?= |\+\+|--|\(|;)(?:\"[^\"\n]*\"|[^;{}\"])*;?$",
    re.M)
# Two kinds of numbers are changed only in the library. One is the size of a buffer, which may be
# more than enough. The other is a number in a comparison, if the change of an operator there does
# the same.
DECLARATION = re.compile(
    r"^ *(?:static |const )*(?:char|u?int\d+_t|size_t|struct \w+|union \w+) \**\w+\[.*$", re.M)
BRACKETS = re.compile(r"(?<=\w)\[[^\]\n]*\]|(?<=\])\[[^\]\n]*\]")
COMPARED = re.compile(r"[<>]=? \d\w*|[!=]= 0\b|\bsizeof [\w.]+\[0")
# The size of an array that is a parameter means nothing to a compiler.
PARAMETER = re.compile(r"\buint\d+_t \w+(\[[^\]\n]*\])+(?=[,)])")
CONDITION = re.compile(r"\b(?:if|while) (?=\()")
FLAG = re.compile(r"(?<=[(, ])[A-Z][A-Z0-9_]+ \| | \| [A-Z][A-Z0-9_]+\b")


def is_type(text: str, match: re.Match[str]) -> bool:
    """Does this `*` or `&` belong to a type, or take an address? Then it is not changed."""
    before, after = text[:match.start()].rstrip(), text[match.end():]
    if match["operator"] == "*":
        return not after[:1].isspace()
    if match["operator"] == "&":
        return before[-1:] in "(,=" or after[:1].isalpha()
    return False


def closing(text: str, at: int) -> int:
    """Returns where the parenthesis is closed that opens there."""
    depth = 0
    for match in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]').finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    raise ValueError(f"no parenthesis closes: {text[at:at + 40]}")


def c_changes(text: str, numbers: Callable[[int], Iterable[int]]) -> Iterator[Change]:
    for match in TOKEN.finditer(text):
        new: Iterable[str] = ()
        if match["number"]:
            digits = match["number"].rstrip("uUlL")
            is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
            value = int(digits, 8 if is_octal else 0)
            new = (f"{'0' if is_octal else ''}{other:{'o' if is_octal else 'd'}}{match['suffix']}"
                   for other in numbers(value) if other >= 0)
        elif match["word"]:
            new = ("false",) if match["word"] == "true" else ("true",)
        elif match["operator"] and not is_type(text, match):
            new = OPERATORS[match["operator"]]
        for one in new:
            yield match.start(), match.end(), one
    for match in STATEMENT.finditer(text):
        if match[0].endswith(";"):
            indentation = len(match[0]) - len(match[0].lstrip())
            yield match.start() + indentation, match.end(), ";" + "\n" * match[0].count("\n")


def more_c_changes(text: str) -> Iterator[Change]:
    """Reverses conditions, unless the change of an operator does that anyway, and removes flags."""
    for match in CONDITION.finditer(text):
        end = closing(text, match.end())
        if re.search(r"&&|\|\|", text[match.end():end]) or not re.search(r"[!=<>]=|[<>!]",
                                                                         text[match.end():end]):
            yield match.end(), end, "(!" + text[match.end():end] + ")"
    for match in FLAG.finditer(text):
        yield match.start(), match.end(), ""


def c_mutants(file: str, text: str, begin: int = 0, thorough: bool = False) -> list[Mutant]:
    """Mutants of the text from `begin` on. `thorough`: constants become one more and one less."""
    changes = set(c_changes(text, (lambda value: (value + 1, value - 1)) if thorough else
                            (lambda value: (other_number(value),))))
    alone = [match.span() for match in re.finditer(r"/\*.*?\*/", text, re.S)]
    alone += [match.span() for match in PARAMETER.finditer(text)]
    if not thorough:
        changes |= set(more_c_changes(text))
        for line in DECLARATION.finditer(text):
            alone += [match.span() for match in BRACKETS.finditer(text, *line.span())]
        alone += [(match.end() - 1, match.end()) for match in COMPARED.finditer(text)]
        changes = {change for change in changes
                   if not any(start < change[1] <= end for start, end in alone)}
    return mutants_of(file, text, (change for change in changes if change[0] >= begin and not any(
        start <= change[0] < end for start, end in alone)))


# ---- Python -------------------------------------------------------------------------------

PYTHON_OPERATORS = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+",
    "*": "+",
    "/": "*", "//": "*", "%": "+", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "&": "|",
    "and": "or", "or": "and", "True": "False", "False": "True",
}
# Arguments with texts for people, which no test reads completely.
FOR_READERS = {"help", "metavar", "description", "epilog", "usage", "prog"}


class Positions:
    """Finds the parser's lines and columns in the text. The columns count bytes."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (self.at(node.lineno, node.col_offset),  # type: ignore[attr-defined]
                self.at(node.end_lineno, node.end_col_offset))  # type: ignore[attr-defined]


def annotation_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                yield getattr(node, name)


def token_changes(text: str, left_alone: Sequence[tuple[int, int]]) -> Iterator[Change]:
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, end = (starts[line - 1] + column for line, column in (token.start, token.end))
        new = None
        if token.type == tokenize.NUMBER and token.string.isdigit():
            new = str(other_number(int(token.string)))
        elif token.type == tokenize.NUMBER and re.fullmatch(r"[\d.]+", token.string):
            new = str(2 * float(token.string) or 1.0)
        elif token.string in PYTHON_OPERATORS and token.type in (tokenize.OP, tokenize.NAME):
            is_binary = before[-1:].isalnum() or before[-1:] in tuple(")]}_\"'")
            if is_binary and not keyword.iskeyword(before) or token.string[0] not in "+-*":
                new = PYTHON_OPERATORS[token.string]
        if new is not None and not any(first <= start < last for first, last in left_alone):
            yield start, end, new
        before = token.string


def node_changes(text: str, tree: ast.Module, positions: Positions) -> Iterator[Change]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp)) and not (
                isinstance(node.test, ast.Compare) and len(node.test.ops) == 1
                and not isinstance(node.test.ops[0],
                                   (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In))):
            if not isinstance(node.test, ast.Constant):
                start, end = positions.span(node.test)
                yield start, end, f"not ({text[start:end]})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield (*positions.span(node), text[slice(*positions.span(node.operand))])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            for side in (node.left, node.right):
                yield (*positions.span(node), text[slice(*positions.span(side))])
        if isinstance(node, ast.keyword) and node.arg is not None and node.arg not in FOR_READERS:
            start, end = positions.span(node)
            comma = re.compile(r",\s*").match(text, end)
            earlier = re.search(r",\s*$", text[:start])
            if comma is not None:
                yield start, comma.end(), ""
            elif earlier is not None:
                yield earlier.start(), end, ""
        if isinstance(node, (ast.Raise, ast.Delete, ast.Continue, ast.Break, ast.AugAssign)) \
                or isinstance(node, ast.Return) and node.value is None \
                or isinstance(node, ast.Expr) and not isinstance(node.value,
                                                                 (ast.Constant, ast.Yield)) \
                or isinstance(node, ast.Assign) and isinstance(node.targets[0],
                                                               (ast.Attribute, ast.Subscript)):
            yield (*positions.span(node), "pass")


def python_mutants(file: str, text: str) -> list[Mutant]:
    tree = ast.parse(text)
    positions = Positions(text)
    left_alone = [positions.span(node) for node in annotation_nodes(tree)]
    changes = [*token_changes(text, left_alone),
               *(change for change in node_changes(text, tree, positions)
                 if not any(first <= change[0] < last for first, last in left_alone))]
    return mutants_of(file, text, changes)


# ---- Steps --------------------------------------------------------------------------------

class Stillborn(Exception):
    """The mutant does not compile."""


def compiled(command: Sequence[object], seconds: float, cwd: Path | None = None) -> None:
    """Compiles. Raises Stillborn only if the compiler names an error in the source."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd, timeout=seconds,
                              capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"mutants: not compiled in {seconds:.0f} s: {command}") from None
    if done.returncode != 0:
        if not re.search(r"\berror:|undefined reference", done.stderr):
            raise SystemExit(f"mutants: the compiler failed: {command}\n{done.stderr}")
        raise Stillborn(done.stderr)


@dataclass
class Limits:
    """How long each step took without any change, in seconds of the processor and of the clock."""
    taken: dict[str, tuple[float, float]] = field(default_factory=dict)

    def of(self, step: str, learn: bool = False) -> tuple[int, float]:
        most = 10 if learn else 1
        processor, wall = self.taken.get(step, (PROCESSOR_FLOOR * 10.0 * most, WALL_FLOOR * most))
        return math.ceil(SLACK * processor) + PROCESSOR_FLOOR, SLACK * wall + WALL_FLOOR


def run_step(step: str, command: Sequence[object], limits: Limits, cwd: Path, *,
             learn: bool = False, no_verdict: Sequence[int] = (), **environment: str) -> str:
    """Runs a step. Returns SURVIVED, KILLED or LATE. `no_verdict`: the statuses which say that
    nothing was tested. `learn`: the program is unchanged, so its times are kept."""
    processor, wall = limits.of(step, learn)

    def limit() -> None:
        # It gets a group of its own, and no session: otherwise a terminal that a test opens would
        # become the session's terminal.
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (processor, processor + 5))

    begun = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], cwd=cwd, text=True,
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env={**os.environ, **environment}, preexec_fn=limit)
    try:
        said, _ = process.communicate(timeout=wall)
    except subprocess.TimeoutExpired:
        said = ""
    finally:  # ends all that the step has left running, too
        is_late = process.poll() is None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()
    status = process.returncode
    if is_late or status in (-signal.SIGXCPU, LATE_STATUS):
        return LATE
    if status == 0:
        if learn:
            # The processor time cannot be more than this, on one core or on two.
            limits.taken[step] = (time.monotonic() - begun,) * 2
        return SURVIVED
    if status in no_verdict:
        raise SystemExit(f"mutants: {step} could not be run: status {status}\n{said}")
    return KILLED


# ---- A campaign ---------------------------------------------------------------------------

Verdict = tuple[str, str]  # one of VERDICTS, and the step that gave it


def sample(every: Sequence[Mutant], seed: int, count: int | None) -> list[Mutant]:
    """Chooses `count` mutants by the seed. Changes elsewhere leave the choice the same."""
    def rank(numbered: tuple[int, Mutant]) -> bytes:
        earlier = sum(mutant.key == numbered[1].key for mutant in every[:numbered[0]])
        return hashlib.sha256(repr((seed, numbered[1].key, earlier)).encode()).digest()

    if count is None or count >= len(every):
        return list(every)
    chosen = sorted(enumerate(every), key=rank)[:count]
    return [mutant for _, mutant in sorted(chosen, key=lambda one: one[0])]


def rows(path: Path) -> dict[tuple[str, str, str], str]:
    """Reads a list of mutants: file, line, changed line, and why it survives or what notices it."""
    reasons = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != 4 or not fields[3].strip():
                raise SystemExit(
                    f"{path.name}:{number}: file, line, changed line and one more field, with "
                    "tabs between")
            if tuple(fields[:3]) in reasons:
                raise SystemExit(f"{path.name}:{number}: is there twice")
            reasons[fields[0], fields[1], fields[2]] = fields[3]
    return reasons


Key = tuple[str, str, str]


def contradictions(name: str, possible: set[Key], noticed: set[Key], survivors: set[Key],
                   reasons: dict[Key, str]) -> list[str]:
    """What of these results contradicts the list of survivors."""
    unexplained = len(survivors - reasons.keys())
    return [f"{name}: {unexplained} survivors above are not explained"] * (unexplained > 0) + [
        f"a listed survivor is noticed now: {' | '.join(key)}" for key in reasons
        if key in noticed] + [
        f"a listed survivor does not survive any more: {' | '.join(key)}" for key in reasons
        if key not in possible]


def campaign(name: str, every: Sequence[Mutant], chosen: Sequence[Mutant],
             reasons: dict[tuple[str, str, str], str], folders: Sequence[Path],
             verdict: Callable[[Mutant, Path, bool], Verdict], least: float = 0.0,
             is_strict: bool = True) -> list[str]:
    """Tests the chosen mutants, one at a time in each folder. Prints the results, and returns what
    is wrong with them. `every`: all mutants that could have been chosen. `least`: the share that
    must be killed. If `is_strict` is false, nothing else is a fault. If a result contradicts the
    list, the mutant is tested once more, with patience: verdict(mutant, folder, patient)."""
    free: SimpleQueue[Path] = SimpleQueue()
    for folder in folders:
        free.put(folder)

    def tested(mutant: Mutant) -> Verdict:
        folder = free.get()
        try:
            result = verdict(mutant, folder, False)
            if result[0] in (KILLED, LATE) and mutant.key in reasons:
                result = verdict(mutant, folder, True)
            return result
        finally:
            free.put(folder)

    results: list[tuple[Mutant, Verdict]] = []
    begun = shown = time.monotonic()
    with ThreadPoolExecutor(len(folders)) as pool:
        for mutant, result in zip(chosen, pool.map(tested, chosen)):
            results.append((mutant, result))
            if result[0] == SURVIVED and mutant.key not in reasons:
                print(f"{mutant.file}:{mutant.line}: no test notices\n    {mutant.before}\n    "
                      f"{mutant.after}", file=sys.stderr, flush=True)
            now = time.monotonic()
            if now - shown > (1 if sys.stderr.isatty() else 60) or len(results) == len(chosen):
                shown = now
                print(f"{name}: {len(results)} of {len(chosen)} in {now - begun:.0f} s, "
                      f"{sum(result == SURVIVED for _, (result, _) in results)} survived",
                      end="\r" if sys.stderr.isatty() and len(results) != len(chosen) else "\n",
                      file=sys.stderr, flush=True)

    survivors = {mutant.key for mutant, (result, _) in results if result == SURVIVED}
    faults = contradictions(name, {mutant.key for mutant in every}, {
        mutant.key for mutant in chosen} - survivors, survivors, reasons)
    if not is_strict:
        print("\n".join(faults), file=sys.stderr)
        faults = []

    total = Counter(result for _, (result, _) in results)
    for file in sorted({mutant.file for mutant in chosen}):
        of_file = Counter(result for mutant, (result, _) in results if mutant.file == file)
        live = sum(of_file.values()) - of_file[STILLBORN]
        print(f"  {file:20} {of_file[KILLED] + of_file[LATE]:4} of {live:4} noticed, "
              f"{of_file[LATE]} of them by a "
              f"time-out; {of_file[STILLBORN]} did not compile")
    steps = Counter(step.split("::")[0] for _, (result, step) in results
                    if result in (KILLED, LATE))
    live = len(results) - total[STILLBORN]
    share = (total[KILLED] + total[LATE]) / live if live else 0.0
    print(f"{name}: of {live} mutants {total[KILLED]} killed and {total[LATE]} timed out "
          f"({', '.join(f'{step} {count}' for step, count in steps.most_common())}); "
          f"{total[SURVIVED]} survived, "
          f"of which {len(survivors & reasons.keys())} are explained: {share:.1%} noticed; "
          f"{total[STILLBORN]} did not compile")
    if share < least:
        faults.append(f"{name}: {share:.1%} noticed, where {least:.0%} should be")
    return faults
