"""Draws the layers of the project, from the imports of Python files and the includes of C files.

    python3 -m tests.layers    prints the picture

A folder uses only folders below it, in the order of LAYERS. tests/test_layers.py checks every
import. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from pathlib import Path

from sim.targets import ROOT

# From top to bottom: each may use those that come after it. `client` is client.py.
LAYERS = {
    "fleet": "asks thousands of agents; but for its tests, it uses only the client",
    "packages": "makes packages for other tools; no other layer uses it",
    "lab": "measures what a verified message costs; no other layer uses it",
    "tests": "check that all of it is right",
    "bench": "measures, and writes the figures into the pages",
    "reliability": "counts the damage that the checksum does not see",
    "proof": "proves what the library does, and computes bounds",
    "sim": "the targets, simulators that run their code, and a model of the protocol",
    "tools": "set up a machine, and write the files that are made from the client",
    "client": "asks agents: one file, which uses no other",
    "examples": "show how to begin",
}
# The same for C. A name without a .c file is only a header.
C_LAYERS = {
    "lab": "measures what a verified message costs; no other layer uses it",
    "udpserver.c canserver.c": "the parts that are only for UDP, and only for CAN",
    "agent": "what both agents for Linux share",
    "firmware": "images for boards",
    "dumpulse_keyed.c dumpulse_keyed.h": "version 2, with keys; who wants it adds it",
    "dumpulse_watch.c dumpulse_watch.h": "notices nodes that fell silent; who wants it adds it",
    "dumpulse.c dumpulse.h": "the library, which uses no other file",
}
WIDTH = 92  # columns of the picture


def layer_of(module: str) -> str:
    """Returns the folder of a module. A test in the root folder belongs to the tests."""
    first = module.partition(".")[0]
    return "tests" if first == "test_dumpulse" else first


def python_imports() -> dict[tuple[str, str], set[str]]:
    """Returns which layer uses which, and in which files."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in sorted([*ROOT.glob("*.py"), *ROOT.glob("*/*.py"), *ROOT.glob("lab/*/*.py"),
                        *ROOT.glob("packages/*/*.py"), *ROOT.glob("fleet/*/*.py")]):
        name = str(path.relative_to(ROOT))
        own = layer_of(path.stem if path.parent == ROOT else name.partition("/")[0])
        if own not in LAYERS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for module in names:
                if layer_of(module) in LAYERS and layer_of(module) != own:
                    found[own, layer_of(module)].add(name)
    return found


def c_layer_of(path: str) -> str:
    """Returns the row of C_LAYERS that a file belongs to, or nothing."""
    for row in C_LAYERS:
        if path in row.split() or path.startswith(f"{row}/"):
            return row
    return ""


def c_includes() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in sorted([*ROOT.glob("*.[ch]"), *ROOT.glob("agent/*.[ch]"),
                        *ROOT.glob("firmware/*.[ch]")]):
        name = str(path.relative_to(ROOT))
        for included in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
            beside = path.parent / included
            target = str((beside if beside.exists()
                          else ROOT / included).resolve().relative_to(ROOT))
            own, other = c_layer_of(name), c_layer_of(target)
            if own and other and own != other:
                found[own, other].add(name)
    return found


def modules(layer: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / layer).glob("*.py")
                  if path.stem not in ("__init__", "conftest")
                  and not path.stem.startswith("test_"))


def box(name: str, meaning: str, more: str, uses: list[str]) -> list[str]:
    below = f"uses: {', '.join(uses)}" if uses else "uses no other layer"
    lines = [f"{name}: {meaning}", *(line for text in (more, below) for line in textwrap.wrap(
        text, WIDTH - 8, initial_indent="  ", subsequent_indent="  "))]
    assert all(len(line) <= WIDTH - 4 for line in lines), lines
    return [f"│ {line:{WIDTH - 4}} │" for line in lines]


def picture() -> str:
    """Returns two stacks of boxes. A box may use only the boxes below it."""
    lines: list[str] = []
    for rows, used in ((LAYERS, python_imports()), (C_LAYERS, c_includes())):
        lines.append(("Python" if rows is LAYERS else "C") + ": a layer uses only layers below it:")
        lines.append(f"┌{'─' * (WIDTH - 2)}┐")
        for at, (row, meaning) in enumerate(rows.items()):
            if at:
                lines.append(f"├{'─' * (WIDTH - 2)}┤")
            names = ""
            if (ROOT / row).is_dir():
                names = " ".join(modules(row) if rows is LAYERS else
                                 sorted(path.name for path in (ROOT / row).glob("*.h")))
            lines += box(row, meaning, names, [other for other in rows if (row, other) in used])
        lines += [f"└{'─' * (WIDTH - 2)}┘", ""]
    return "\n".join(lines[:-1])


def faults() -> list[str]:
    """Returns a line for each folder without a layer, and for each import or include that goes
    up."""
    unknown = {path.parent.name for path in ROOT.glob("*/*.py")} - {*LAYERS, "build"}
    return [f"{folder}: it has no layer" for folder in sorted(unknown)] + [
        f"{file}: fleet must not use {other}: only its tests may"
            for (own, other), files in python_imports().items()
            if own == "fleet" and other != "client"
            for file in sorted(files) if not file.startswith("fleet/tests/")] + [
        f"{', '.join(sorted(files))}: {own} must not use {other}"
            for rows, used in ((LAYERS, python_imports()), (C_LAYERS, c_includes()))
            for (own, other), files in used.items()
            if list(rows).index(own) > list(rows).index(other)]


if __name__ == "__main__":
    print(picture())
