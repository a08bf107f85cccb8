"""The memory that a program takes: bytes of each kind of section, and a bound on the stack, which
is the sum of the functions' stacks along the deepest chain of calls."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tools.programs import run

Graph = dict[str, set[str]]
Code = dict[str, list[tuple[int, str, str]]]  # function: address, instruction, operands

# A jump to the beginning of its own function is a loop, not a recursion.
JUMPS = {"rjmp", "jmp", "b", "b.n", "b.w", "j"}
# These instructions of RISC-V name an address, but do not jump.
ADDRESSES = {"add", "addi"}
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
# Unwind tables, and the EEPROM of an AVR.
NO_MEMORY = (".eh_frame", ".note", ".ARM", ".eeprom")


def sections(file: Path) -> dict[str, int]:
    """Returns the bytes of each kind of section that takes memory."""
    sizes = dict.fromkeys(("code", "rodata", "data", "bss"), 0)
    with file.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            flags = section["sh_flags"]
            if not flags & SHF_ALLOC or section.name.startswith(NO_MEMORY):
                continue
            if section["sh_type"] == "SHT_NOBITS":
                kind = "bss"
            elif flags & SHF_WRITE:
                kind = "data"
            elif flags & SHF_EXECINSTR:
                kind = "code"
            else:
                kind = "rodata"
            sizes[kind] += section["sh_size"]
    return sizes


def unnumbered(name: str) -> str:
    """Without the number of a clone, which GCC 14 leaves out of its reports: process.isra.0. Two
    clones would have one name, and then there is no bound."""
    return re.sub(r"\.\d+$", "", name)


def frames(report: Path) -> dict[str, int]:
    """Each function's stack in bytes, as the compiler reports it."""
    stacks = {}
    for line in report.read_text().splitlines():
        where, size, kind = line.split("\t")
        if kind == "dynamic":
            raise SystemExit(f"{report}: no bound on the stack:\n{line}")
        name = unnumbered(where.rsplit(":", 1)[1])
        if name in stacks:
            raise SystemExit(f"{report}: no bound on the stack: two functions have the name {name}")
        stacks[name] = int(size)
    return stacks


def code(objdump: str, image: Path) -> Code:
    """The instructions of an image, by function. A label that begins with ".L" or has other
    characters than a name is within one."""
    functions: Code = {}
    name = ""
    for line in run([objdump, "-d", image]).splitlines():
        if head := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            if head[1].startswith(".L") or not re.fullmatch(r"[\w.]+", head[1]):
                continue
            name = unnumbered(head[1])
            if name in functions:
                raise SystemExit(
                    f"{image}: no bound on the stack: two functions have the name {name}")
        elif row := re.match(r" *([0-9a-f]+):\t[^\t]*\t(\S+)\s*(.*)$", line):
            functions.setdefault(name, []).append((int(row[1], 16), row[2], row[3]))
    return functions


def goal(operands: str) -> int | None:
    """The address that an instruction names."""
    place = re.search(r"\b(?:0x)?([0-9a-f]+) <\S+>", operands)
    return int(place[1], 16) if place else None


def calls(functions: Code, hooks: Mapping[int, str] | None = None) -> Graph:
    """Which function calls or jumps to which others, also into the middle of one. It follows the
    addresses that instructions name. The hooks are outside of the functions."""
    owner = {start: name for name, body in functions.items() for start, _, _ in body}
    owner |= dict(hooks or {})
    graph: Graph = {name: set() for name in functions}
    for name, body in functions.items():
        for _, what, operands in body:
            place = goal(operands)
            to = owner.get(place) if place is not None and what not in ADDRESSES else None
            if to is not None and not (to == name and (what in JUMPS or place != body[0][0])):
                graph[name].add(to)
    return graph


def reached(names: Iterable[str], graph: Graph) -> set[str]:
    """These functions, and all that they call, directly or not."""
    callees, open_ = set(names), list(names)
    while open_:
        open_ += (new := graph.get(open_.pop(), set()) - callees)
        callees |= new
    return callees


# Calls and jumps by a pointer on AVR; Cortex-M, also conditional ones; RISC-V; PowerPC.
# Returns are not among these.
BY_POINTER = re.compile(r"e?i(call|jmp)|bl?x([a-z]{2})?|(c\.)?(jalr|jr)"
                        r"|b\w*(ctrl?|lrl)[+-]?")


def by_pointer(what: str, operands: str) -> bool:
    """Does this instruction go to an address that it does not name?"""
    if what.startswith("bx") and operands == "lr" or what in ("jr", "jalr") and "<" in operands:
        return False
    if operands.startswith("pc,") or "*" in operands:  # Cortex-M, x86
        return not operands.startswith("pc, [sp], #4")  # that pops the return address
    return bool(BY_POINTER.fullmatch(what))


def refuse_pointers(image: Path, functions: Code, names: Iterable[str]) -> None:
    for name in names:
        if any(by_pointer(what, operands) for _, what, operands in functions[name]):
            raise SystemExit(f"{image}: no bound on the stack: {name} calls by a pointer")


def depth(name: str, graph: Graph, frame: Mapping[str, int], left_out: Collection[str] = (),
          above: tuple[str, ...] = ()) -> int:
    """The most bytes of stack of a function and all that it calls, without those in `left_out`.
    None of them may call by a pointer, because no instruction names the function that is called:
    see refuse_pointers."""
    if name in left_out:
        return 0
    if name in above or name not in frame:
        raise SystemExit(f"no bound on the stack: {' calls '.join((*above, name))}")
    return frame[name] + max(
        (depth(to, graph, frame, left_out, (*above, name)) for to in graph[name]), default=0)
