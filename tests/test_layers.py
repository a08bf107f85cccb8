"""Do imports go down? Are functions short? Is a link dead?

A room uses only rooms below it, in the order of CONTRIBUTING.md; its tests may also use `tools` and
`spec`. No other file imports a test. Within a room, neither files nor folders import each other in
a circle."""

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tools.programs import KEYED, ROOT, as_program, run

# From top to bottom: each room may use those that come after it.
ROOMS = re.findall(r"^\| \[(\w+)/\]", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
# The same for C. A name without a .c file is only a header.
C_LAYERS = {
    "lab": "measures what a verified message costs; no other layer uses it",
    "udpserver.c server/canserver.c": "the parts that are only for UDP, and only for CAN",
    "server": "what both agents for Linux share",
    "firmware": "images for boards",
    "extras/dumpulse_keyed.h": "version 2, with keys, and a file for each role; optional",
    "extras/dumpulse_serial.h": "finds packets in the bytes of a serial line; optional",
    "extras/dumpulse_watch.c extras/dumpulse_watch.h": "notices silent nodes; optional",
    "dumpulse.c dumpulse.h": "the library, which uses no other file",
}
# A C file is linked, and not included. Only these include one: a proof, and the lab's programs with
# libraries of others.
INCLUDING = ("proof/eva.c", "lab/messages/c/")
# The files in the root that belong to a room.
OF_ROOT = {"client.py": "client", "test_dumpulse.py": "tests"}


def room_of(path: str) -> str:
    """Returns the room of a file, or nothing."""
    first = path.partition("/")[0]
    return OF_ROOT.get(path, first if first in ROOMS else "")


def is_test(path: str) -> bool:
    return "tests" in path.split("/")[:-1] or Path(path).name.startswith(("test_", "conftest"))


def file_of(module: str) -> str:
    """Returns the file of a module, or nothing if it is not the project's."""
    path = module.replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py"):
        if (ROOT / name).exists():
            return str((ROOT / name).resolve().relative_to(ROOT))  # A link counts for its target.
    return path if (ROOT / path).is_dir() and path else ""


@functools.cache
def imported(path: Path) -> set[str]:
    """Returns the files of the project that a Python file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[:-node.level] if node.level else ()
            module = ".".join(filter(None, [*above, node.module]))
            inside = {f"{module}.{alias.name}" for alias in node.names}
            modules = {name for name in inside if file_of(name)}
            names |= modules | ({module} if modules != inside else set())
    return {file_of(name) for name in names} - {""}


def python_imports() -> list[tuple[str, str]]:
    """Returns each Python file of a room with each file of a room that it imports."""
    paths = [*ROOT.glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
    return sorted((str(path.relative_to(ROOT)), used) for path in paths if not path.is_symlink()
                  for used in imported(path) if room_of(used))


def is_allowed_to_tests(name: str, used: str) -> bool:
    return is_test(name) and room_of(name) != "tests" and room_of(used) in ("tools", "spec")


def python_faults() -> list[str]:
    """Returns a line for each import that goes up, and for each file that imports a test."""
    found: list[str] = []
    for name, used in python_imports():
        own, other = room_of(name), room_of(used)
        if is_test(used) and not is_test(name):
            found.append(f"{name}: it must not import a test, {used}")
        elif own and ROOMS.index(own) > ROOMS.index(other) and not is_allowed_to_tests(name, used):
            found.append(f"{name}: {own} must not use {other}")
    return found


def c_layer_of(path: str) -> str:
    """Returns the row of C_LAYERS that a file belongs to, or nothing."""
    if path.removeprefix("extras/") in KEYED:
        return "extras/dumpulse_keyed.h"
    for row in C_LAYERS:
        if path in row.split() or path.startswith(f"{row}/"):
            return row
    return ""


def includes() -> list[tuple[str, str]]:
    """Returns each C file of the products with each file of the project that it includes."""
    found = []
    for path in sorted(path for folder in (".", "extras", "server", "firmware")
                       for path in (ROOT / folder).glob("*.[ch]")):
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
            places = [folder / included for folder in (path.parent, ROOT, ROOT / "extras")]
            target = next((place for place in places if place.exists()), places[1]).resolve()
            found.append((str(path.relative_to(ROOT)), str(target.relative_to(ROOT))))
    return found


def c_includes() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, target in includes():
        own, other = c_layer_of(name), c_layer_of(target)
        if own and other and own != other:
            found[own, other].add(name)
    return found


def circles() -> list[str]:
    """Returns a line for each kind of file that has a circle. x.c and x.h are one file."""
    stem = re.compile(r"(_internal)?\.[^./]*$")
    code = [pair for pair in python_imports() if not is_test(pair[0])]
    pairs = {
        "C files": [(stem.sub("", own), stem.sub("", used)) for own, used in includes()],
        "Python files": code,
        "folders": [(str(Path(own).parent), str(Path(used).parent)) for own, used in code
                    if "/" in own and "/" in used]}
    found = []
    for kind, uses in pairs.items():
        graph: dict[str, set[str]] = defaultdict(set)
        for own, used in uses:
            if own != used:
                graph[own].add(used)
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            found.append(f"a circle of {kind}: {' is used by '.join(error.args[1])}")
    return found


def included_sources() -> list[str]:
    """Returns a line for each C file that includes another one's code."""
    return [f"{name}: it must be linked with {source}, and not include it"
            for path in sorted([*ROOT.glob("*.[ch]"), *(path for room in ROOMS for path in
                                                        (ROOT / room).rglob("*.[ch]"))])
            if not (name := str(path.relative_to(ROOT))).startswith(INCLUDING)
            for source in re.findall(r'^#include ["<](\S+\.c)[">]', path.read_text(), re.M)]


def faults() -> list[str]:
    """Returns a line for each file without a room, for each import or include that goes up, for
    circles, and for code that is included."""
    unknown = {name for path in ROOT.glob("*/*.py") if path.parent.name != "build"
               and not room_of(name := str(path.relative_to(ROOT)))}
    order = list(C_LAYERS)
    return [f"{file}: it has no room" for file in sorted(unknown)] + python_faults() + [
        f"{', '.join(sorted(files))}: {own} must not use {other}"
        for (own, other), files in c_includes().items()
        if order.index(own) > order.index(other)] + circles() + included_sources()


def test_an_argument_of_two_lines_reaches_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in: lab/run measure -- sh -c 'two lines'."""
    monkeypatch.setattr(sys, "argv", ["lab/run", "--", "one\ntwo"])
    with pytest.raises(SystemExit, match="came"):
        as_program(lambda: sys.exit("came"), ".*")


@pytest.mark.slow
def test_every_program_refuses_words_that_it_does_not_know() -> None:
    """Before it does anything, with usage and status 2. Those with a parser may name its --help."""
    started = re.compile(r'^if __name__ == "__main__":\n    as_program\(', re.M)
    names = [name.removesuffix(".py").replace("/", ".").removesuffix(".__main__")
             for name in run(["git", "-C", ROOT, "ls-files", "*.py"]).split()
             if started.search((ROOT / name).read_text())
             and name != "packages/sbom.py"]  # which has packages of its own
    assert len(names) > 30
    faults = []
    for name in names:
        done = subprocess.run([sys.executable, "-m", name, "--no-such-word"], cwd=ROOT, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)
        if (done.returncode, done.stdout) != (2, "") or not re.search("^usage|--help", done.stderr):
            faults.append((name, done.returncode, done.stdout, done.stderr))
    assert faults == []


@pytest.mark.slow
def test_no_python_function_has_more_than_70_lines() -> None:
    """tools/clang-tidy has the same limit for C."""
    listed = run(["git", "-C", ROOT, "ls-files", "*.py"]).splitlines()
    files = [ROOT / name for name in listed if not (ROOT / name).is_symlink()]
    long = [f"{path}: {node.name}"
            for path in files for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and (node.end_lineno or 0) - node.lineno >= 70]
    assert len(files) > 100 and long == []


def test_each_part_of_the_client_uses_only_parts_above_it() -> None:
    """A part begins with a rule, and a comment on what it is for."""
    text = (ROOT / "client.py").read_text()
    rules = [number for number, line in enumerate(text.splitlines()) if line.startswith("# -----")]
    assert len(rules) > 20 and all(text.splitlines()[rule + 1].startswith("# ") for rule in rules)
    defined: dict[str, int] = {}
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [each.id for target in targets if target for each in ast.walk(target)
                 if isinstance(each, ast.Name)]
        for name in [*names, *filter(None, [getattr(node, "name", None)])]:
            defined[name] = sum(rule < node.lineno for rule in rules)
    used = [(node.lineno, node.id) for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in defined]
    assert len(used) > 600
    assert [f"{line}: {name}" for line, name in used
            if defined[name] > sum(rule < line for rule in rules)] == []


@pytest.mark.slow
def test_every_import_goes_downwards() -> None:
    assert faults() == []
    used = python_imports()
    assert ("proof/spin.py", "tools/programs.py") in used and len(used) > 500
    assert ("udpserver.c server/canserver.c", "server") in c_includes()


def anchor(heading: str) -> str:
    """How the forges call a heading in an address."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def dead_links(page: Path) -> list[str]:
    text = page.read_text()
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        if "://" not in link and not (target.exists() and (not heading or heading in map(
                anchor, re.findall(r"^#+ (.*)", target.read_text(), re.M)))):
            dead.append(f"{page}: {link}")
    return dead


def test_no_link_is_dead() -> None:
    pages = run(["git", "-C", ROOT, "ls-files", "*.md"]).splitlines()
    assert len(pages) > 20 and [link for page in pages for link in dead_links(ROOT / page)] == []
