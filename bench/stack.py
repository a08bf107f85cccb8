"""A bound on the stack: what the compiler reports of each function, along the deepest chain of calls.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
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
        name = where.rsplit(":", 1)[1]
        if name in found:
            raise SystemExit(f"{report}: no bound on the stack: two functions have the name {name}")
        found[name] = int(size)
    return found


def code(objdump: str, image: Path) -> Code:
    """What an image runs, function by function; "literals" is what Xtensa keeps before its first."""
    found: Code = {}
    name = "literals"
    for line in run([objdump, "-d", image]).splitlines():
        if head := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            name = head[1] if re.fullmatch(r"[\w.]+", head[1]) else "literals"
            if name in found and name != "literals":
                raise SystemExit(f"{image}: no bound on the stack: two functions have the name {name}")
        elif at := re.match(r" *([0-9a-f]+):\t[^\t]*\t(\S+)\s*(.*)$", line):
            found.setdefault(name, []).append((int(at[1], 16), at[2], at[3]))
    return found


def goal(operands: str) -> int | None:
    """The address that an instruction names."""
    found = re.search(r"\b(?:0x)?([0-9a-f]+) <\S+>", operands)
    return int(found[1], 16) if found else None


def calls(functions: Code, hooks: Mapping[int, str] | None = None) -> Graph:
    """Who calls or jumps to whom, even to its midst: by the addresses that instructions name. Hooks are
    elsewhere."""
    owner = {at: name for name, body in functions.items() for at, _, _ in body} | dict(hooks or {})
    graph: Graph = {name: set() for name in functions}
    for name, body in functions.items():
        for _, what, operands in body:
            at = goal(operands)
            to = owner.get(at) if at is not None and what not in ADDRESSES else None
            if to is not None and not (to == name and (what in JUMPS or at != body[0][0])):
                graph[name].add(to)
    return graph


def reached(names: Iterable[str], graph: Graph) -> set[str]:
    """These and all that they call, and that those call."""
    found, open_ = set(names), list(names)
    while open_:
        open_ += (new := graph.get(open_.pop(), set()) - found)
        found |= new
    return found


# On AVR; Cortex-M, conditional ones too; RISC-V; Xtensa; PowerPC. Returns are none of these.
BY_POINTER = re.compile(r"e?i(call|jmp)|bl?x([a-z]{2})?|(c\.)?(jalr|jr)|callx\d+|jx|b\w*(ctrl?|lrl)[+-]?")


def by_pointer(what: str, operands: str) -> bool:
    """Does it go where no instruction says?"""
    if what.startswith("bx") and operands == "lr" or what in ("jr", "jalr") and "<" in operands:
        return False
    return bool(BY_POINTER.fullmatch(what)) or operands.startswith("pc,") or "*" in operands  # Cortex-M, x86


def refuse_pointers(image: Path, functions: Code, names: Iterable[str]) -> None:
    for name in names:
        if any(by_pointer(what, operands) for _, what, operands in functions[name]):
            raise SystemExit(f"{image}: no bound on the stack: {name} calls by a pointer")


def depth(name: str, graph: Graph, frame: Mapping[str, int], apart: Collection[str] = (),
          above: tuple[str, ...] = ()) -> int:
    """The most bytes that a function and all that it calls take, but for those that are apart. None of them
    may call by a pointer, where an instruction names no address: see refuse_pointers."""
    if name in apart:
        return 0
    if name in above or name not in frame:
        raise SystemExit(f"no bound on the stack: {' calls '.join((*above, name))}")
    return frame[name] + max((depth(to, graph, frame, apart, (*above, name)) for to in graph[name]), default=0)
