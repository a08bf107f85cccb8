"""Measures how many bytes the agent and its watch add to a firmware, on every target.  make size

For each row it compiles dumpulse.c with -Os (clang: -Oz) and links it as for a firmware. So the
total includes everything that the agent needs of libgcc. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from pathlib import Path

from elftools.elf.elffile import ELFFile

from bench import budgets, figures, stack
from sim.targets import EVERY, ROOT, Target, scratch, strangers

AGENT = "dumpulse_process_packet"
# An address that the shortest calls of RISC-V cannot reach, but those of an ATtiny85 can.
HOOKS = {0xF00: "dumpulse_get_timestamp", 0xF10: "dumpulse_send_packet"}
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4


def sections(file: Path) -> dict[str, int]:
    """Returns the bytes of each kind of section that takes memory, without unwind tables."""
    sizes = dict.fromkeys(("code", "rodata", "data", "bss"), 0)
    with file.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            flags = section["sh_flags"]
            if not flags & SHF_ALLOC or section.name.startswith((".eh_frame", ".note", ".ARM")):
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


def bound(target: Target, object_file: Path, image: Path) -> int:
    """Returns the bound on the agent's stack in bytes, without the hooks."""
    code = stack.code(target.objdump, image)
    graph = stack.calls(code, HOOKS)
    stack.refuse_pointers(image, code, stack.reached([AGENT], graph) & code.keys())
    if not set(HOOKS.values()) <= set().union(*graph.values()):
        raise SystemExit(f"{image}: the calls of the hooks were not found")
    # libgcc's functions on PowerPC: they use their caller's frame.
    restores = {name for name in graph if name.startswith("_restgpr_")}
    frames = stack.frames(object_file.with_suffix(".su"))
    if target.clang:  # gcc's reports include the return address that a call pushes, clang's do not
        frames = {name: frame + target.return_address for name, frame in frames.items()}
    return stack.depth(AGENT, graph, frames, restores | set(HOOKS.values()))


def record(target: Target) -> int:
    """Returns the bytes of a function that calls dumpulse_record once, and does nothing else."""
    with scratch() as folder:
        object_file = Path(folder) / "exports.o"
        target.compile(ROOT / "tests" / "exports.c", object_file)
        with object_file.open("rb") as stream:
            return int(ELFFile(stream).get_section_by_name(".text.export_record")["sh_size"])


def watch(target: Target) -> int:
    """Returns the bytes of dumpulse_watch.c when linked, without the hook."""
    with scratch() as folder:
        object_file, image = Path(folder) / "watch.o", Path(folder) / "watch.elf"
        target.compile(ROOT / "dumpulse_watch.c", object_file)
        target.link([object_file], image, "-Wl,-e,dumpulse_watch_lines_", "-Wl,-Ttext=0x0",
                    "-Wl,--defsym=dumpulse_changed=0xF00")
        parts, linked = sections(object_file), sum(sections(image).values())
    if parts["data"] or parts["bss"]:
        raise SystemExit(f"{target.key}: the watch must have no data and no bss")
    return linked


def measure(target: Target) -> tuple[dict[str, int], int, int]:
    """Returns the sections of the object file, the bytes when linked, and the bytes of stack."""
    with scratch() as folder:
        object_file, image = Path(folder) / "dumpulse.o", Path(folder) / "agent.elf"
        target.compile(ROOT / "dumpulse.c", object_file, "-fstack-usage")
        hooks = [f"-Wl,--defsym={hook}={at:#x}" for at, hook in HOOKS.items()]
        target.link([object_file], image, f"-Wl,-e,{AGENT}", "-Wl,-Ttext=0x0", *hooks)
        linked = sum(sections(image).values())
        return sections(object_file), linked, bound(target, object_file, image)


def main() -> None:
    allowed, not_compared = budgets.load(), strangers()
    measured: budgets.Budgets = {}
    row = "{:<13}{:<12}{:>4}{:>7}{:>5}{:>4}{:>5}{:>6}{:>7}{:>7}{:>6}{:>6}"
    print(row.format("target", "compiler", "code", "rodata", "data", "bss", "link",
                     "total", "budget", "record", "stack", "watch"))
    for target in EVERY.values():
        parts, total, depth = measure(target)
        measured[target.key] = {"bytes": total, "record": record(target), "stack": depth,
                                "watch": watch(target)}
        budget = "-" if target.key in not_compared else \
            allowed.get(target.key, {}).get("bytes", "-")
        print(row.format(target.name, target.version(), *parts.values(),
                         f"{total - sum(parts.values()):+d}", total, budget,
                         measured[target.key]["record"], depth, measured[target.key]["watch"]))
        if parts["data"] or parts["bss"]:
            raise SystemExit(f"{target.key}: the library must have no data and no bss")
    print("Bytes; gcc -Os, clang -Oz. link: what the linker adds from libgcc. It is negative where "
          "the\nlinker shortens calls. For clang on AVR it is start-up code, which most firmware "
          "has anyway.\nrecord: what a call of dumpulse_record adds. stack: a bound, without the "
          "hooks. The compiler\nreports the stack of each function; this is the sum along the "
          "deepest chain of calls. No\nfunction is recursive. watch: all of "
          "dumpulse_watch.c, without its hook.")
    figures.keep("size", measured)
    budgets.enforce(measured, ("bytes", "record", "stack", "watch"))


if __name__ == "__main__":
    main()
