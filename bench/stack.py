"""A bound on the stack: what the compiler reports of each function, along the deepest chain of calls.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from sim.targets import run

Graph = dict[str, set[str]]
Code = dict[str, list[tuple[int, str, str]]]  # of each function: address, instruction, operands

# One that leads to the beginning of its own function is a loop, and no recursion.
JUMPS = {"rjmp", "jmp", "b", "b.n", "b.w", "j"}
# RISC-V's take an address, and go nowhere.
ADDRESSES = {"add", "addi"}


def frames(report: Path) -> dict[str, int]:
    """Each function's stack in bytes, as the compiler reports it."""
    found = {}
    for line in report.read_text().splitlines():
        where, size, kind = line.split("\t")
        if kind == "dynamic":
            raise SystemExit(f"{report}: no bound on the stack:\n{line}")
        found[where.rsplit(":", 1)[1]] = int(size)
    return found


def code(objdump: str, image: Path) -> Code:
    """What an image runs, function by function; "literals" is what Xtensa keeps before its first."""
    found: Code = {}
    name = "literals"
    for line in run([objdump, "-d", image]).splitlines():
        if head := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            name = head[1] if re.fullmatch(r"[\w.]+", head[1]) else "literals"
        elif at := re.match(r" *([0-9a-f]+):\t[^\t]*\t(\S+)\s*(.*)$", line):
            found.setdefault(name, []).append((int(at[1], 16), at[2], at[3]))
    return found


def calls(functions: Code, hooks: Mapping[int, str] | None = None) -> Graph:
    """Who calls or jumps to whom: by the addresses that instructions name. Hooks are elsewhere."""
    entries = {body[0][0]: name for name, body in functions.items()} | dict(hooks or {})
    graph: Graph = {name: set() for name in functions}
    for name, body in functions.items():
        for _, what, operands in body:
            goal = re.search(r"\b(?:0x)?([0-9a-f]+) <\S+>", operands)
            to = entries.get(int(goal[1], 16)) if goal and what not in ADDRESSES else None
            if to is not None and not (to == name and what in JUMPS):
                graph[name].add(to)
    return graph


def depth(name: str, graph: Graph, frame: Mapping[str, int], apart: Collection[str] = (),
          above: tuple[str, ...] = ()) -> int:
    """The most bytes that a function and all that it calls take, but for those that are apart. It must not
    call through a pointer, where an instruction would name no address."""
    if name in apart:
        return 0
    if name in above or name not in frame:
        raise SystemExit(f"no bound on the stack: {' calls '.join((*above, name))}")
    return frame[name] + max((depth(to, graph, frame, apart, (*above, name)) for to in graph[name]), default=0)
