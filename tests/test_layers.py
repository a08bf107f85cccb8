"""Do imports go down? Are functions short? Where are numbers of the wire? Is a link dead?"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spec.model import MAGIC, heartbeat
from tests import layers
from tools.programs import ROOT, as_program, run


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
    assert len(names) > 40
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
    assert len(used) > 800
    assert [f"{line}: {name}" for line, name in used
            if defined[name] > sum(rule < line for rule in rules)] == []


@pytest.mark.slow
def test_every_import_goes_downwards() -> None:
    assert layers.faults() == []
    used = layers.python_uses()
    assert ("tests", "bench") in used and ("bench", "spec") in used and ("proof", "tools") in used
    assert ("udpserver.c server/canserver.c", "server") in layers.c_includes()


# The magic number; and the worked heartbeat of SPEC.md, written in one piece, in bytes or in C.
WORKED = " ?,? ?(?:0x)?".join(f"{byte:02x}" for byte in heartbeat(3, 76, 9)[:5])
NUMBERS = re.compile(rf"\b0x{MAGIC:x}u?\b|{WORKED}", re.I)
SUFFIXES = {".c", ".h", ".py", ".rs", ".lua", ".ino", ".cpp", ".8"}


def test_the_page_lists_each_file_that_has_the_magic_number() -> None:
    page = (ROOT / "spec/README.md").read_text().partition("## How to change the wire")[2]
    listed = {name for row in re.findall(r"^\| `.*", page, re.M)
              for name in re.findall(r"`([^`]+\.[a-z0-9]+)`", row)}
    files = map(Path, run(["git", "-C", ROOT, "ls-files"]).splitlines())
    found = {str(path) for path in files if path.suffix in SUFFIXES
             and not (path.parts[0] == "lab" and "c" in path.parts)  # which has keys and primes
             and not (ROOT / path).is_symlink()
             and NUMBERS.search((ROOT / path).read_text(errors="replace"))}
    assert len(found) > 15 and found - listed == set()
    assert [name for name in sorted(listed) if not (ROOT / name).exists()] == []


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
