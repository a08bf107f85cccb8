"""Lists the layers of the project, from the imports of Python files and the includes of C files.

    python3 -m tests.layers    prints the list

A file belongs to the layer with the longest name that its path begins with. It uses only its own
layer and those below it, in the order of LAYERS. tests/test_layers.py checks every
import. SPDX-License-Identifier: MIT"""

import ast
import functools
import graphlib
import re
import textwrap
from collections import defaultdict
from pathlib import Path

from tests.support.programs import KEYED, ROOT, as_program

# From top to bottom: each may use those that come after it. `client.py` is a layer of its own.
LAYERS = {
    "lab/joules": "measures joules",
    "lab/groups": "counts group operations",
    "lab/messages": "counts what a verified message costs",
    "lab": "fetches code, and starts programs; no other room uses the lab",
    "tests/storm": "the whole system against the truth, from one seed",
    "packages": "makes packages for other tools; no other layer uses it",
    "dumpulse_fleet/tests": "check the fleet",
    "tests": "check the library, and what crosses rooms",
    "client/tests": "check the client",
    "server/tests": "check the servers, also in a virtual machine",
    "firmware/tests": "check the images for boards",
    "bench/tests": "check what measures",
    "proof/tests": "check what proves",
    "bench": "measures, and writes the figures into the pages",
    "bench/reliability": "counts the damage that the checksum does not see",
    "proof": "proves what the library does, and computes bounds",
    "firmware/simulators": "run the images on simulated boards",
    "firmware": "makes what an image is flashed from",
    "bench/processors": "the targets, and simulators that run their code",
    "dumpulse_fleet/trials": "simulated agents: the demo, benches, and what tests need",
    "tests/support": "what tests share: programs, servers, agents, lines",
    "spec": "the protocol as models, which write the vectors",
    "tests/tools": "set up a machine, and write the files that are made from the client",
    "dumpulse_fleet": "asks thousands of agents; it uses only the client",
    "dumpulse_fleet/web": "the wall, the JSON interface, and what Prometheus reads",
    "dumpulse_fleet/publish": "hands states and events on over MQTT",
    "dumpulse_fleet/alert": "tells people, once",
    "dumpulse_fleet/record": "keeps events on the disk, and the last hours in memory",
    "dumpulse_fleet/collect": "asks the agents, and judges what they say",
    "dumpulse_fleet/config": "reads and checks the configuration",
    "dumpulse_fleet/model": "what a fleet consists of, and what is known of it",
    "client/examples": "show how to begin",
    "client.py": "asks agents: one file, which uses no other",
}
# The same for C. A name without a .c file is only a header.
C_LAYERS = {
    "lab": "measures what a verified message costs; no other layer uses it",
    "udpserver.c server/canserver.c": "the parts that are only for UDP, and only for CAN",
    "server": "what both agents for Linux share",
    "firmware": "images for boards",
    "extras/dumpulse_keyed.h": "version 2, with keys, and a file for each role; optional",
    "extras/dumpulse_watch.c extras/dumpulse_watch.h": "notices silent nodes; optional",
    "dumpulse.c dumpulse.h": "the library, which uses no other file",
}
# A C file is linked, and not included. Only these include one: a proof, and the lab's programs with
# libraries of others.
INCLUDING = ("proof/eva.c", "lab/messages/c/", "lab/groups/c/")
WIDTH = 92  # columns


# These are roots: any layer of tests may use the helper that stands in one of them.
OF_ROOT = {"test_dumpulse.py": "tests"}


def layer_of(path: str) -> str:
    """Returns the layer of a file, or nothing."""
    found = [layer for layer in LAYERS if path == layer or path.startswith(f"{layer}/")]
    return OF_ROOT.get(path, max(found, key=len, default=""))


def file_of(module: str) -> str:
    """Returns the file of a module, or nothing if it is not the project's."""
    path = module.replace(".", "/")
    for name in (f"{path}.py", f"{path}/__init__.py"):
        if (ROOT / name).exists():
            return str((ROOT / name).resolve().relative_to(ROOT))  # of a link, where it leads
    return path if (ROOT / path).is_dir() and path else ""


@functools.cache
def imported(path: Path) -> set[str]:
    """Returns the files of the project that a Python file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in inside if file_of(name)}
            names |= modules | ({node.module} if modules != inside else set())
    return {file_of(name) for name in names} - {""}


def python_imports() -> dict[tuple[str, str], set[str]]:
    """Returns which layer uses which, and in which files."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    folders = sorted({layer.partition("/")[0] for layer in LAYERS})
    for path in [*ROOT.glob("*.py"), *(path for folder in folders
                                       for path in sorted((ROOT / folder).rglob("*.py")))]:
        name = str(path.relative_to(ROOT))
        own = layer_of(name)
        if own and not path.is_symlink():
            for used in imported(path):
                if layer_of(used) not in ("", own):
                    found[own, layer_of(used)].add(name)
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


def circle() -> list[str]:
    """Returns a line if C files use each other in a circle: x.c and x.h are one file."""
    used: dict[str, set[str]] = defaultdict(set)
    for pair in includes():
        own, other = (name.rpartition(".")[0].removesuffix("_internal") for name in pair)
        if own != other:
            used[own].add(other)
    try:
        graphlib.TopologicalSorter(used).prepare()
    except graphlib.CycleError as error:
        return [f"a circle: {' is used by '.join(error.args[1])}"]
    return []


def included_sources() -> list[str]:
    """Returns a line for each C file that includes another one's code."""
    folders = sorted({layer.partition("/")[0] for layer in LAYERS})
    return [f"{name}: it must be linked with {source}, and not include it"
            for path in sorted([*ROOT.glob("*.[ch]"), *(path for folder in folders for path in
                                                        (ROOT / folder).rglob("*.[ch]"))])
            if not (name := str(path.relative_to(ROOT))).startswith(INCLUDING)
            for source in re.findall(r'^#include ["<](\S+\.c)[">]', path.read_text(), re.M)]


def listed() -> str:
    """Returns two lists of layers. Each may use only those below it."""
    lines: list[str] = []
    for rows, used in ((LAYERS, python_imports()), (C_LAYERS, c_includes())):
        lines.append(("Python" if rows is LAYERS else "C") + ": a layer uses only layers below it:")
        for row, meaning in rows.items():
            uses = ", ".join(other for other in rows if (row, other) in used)
            lines += [f"  {row}: {meaning}", *textwrap.wrap(
                f"uses {uses or 'no other layer'}", WIDTH, initial_indent=6 * " ",
                subsequent_indent=8 * " ")]
    return "\n".join(lines)


def faults() -> list[str]:
    """Returns a line for each file without a layer, for each import or include that goes
    up; for a circle of C files; and for code that is included."""
    unknown = {str(path.relative_to(ROOT)) for path in ROOT.glob("*/*.py")
               if path.parent.name != "build" and not layer_of(str(path.relative_to(ROOT)))}
    return [f"{file}: it has no layer" for file in sorted(unknown)] + [
        f"{', '.join(sorted(files))}: {own} must not use {other}"
            for rows, used in ((LAYERS, python_imports()), (C_LAYERS, c_includes()))
            for (own, other), files in used.items()
            if list(rows).index(own) > list(rows).index(other)] + circle() + included_sources()


if __name__ == "__main__":
    as_program(lambda: print(listed()))
