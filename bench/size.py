"""Measures how many bytes the agent and its watch add to a firmware, on every target.

    make figures ONLY=size
    python3 -m bench.size --quick    by the compilers that make test has

For each row it compiles dumpulse.c with -Os (clang: -Oz) and links it as for a firmware. So the
total includes everything that the agent needs of libgcc."""

import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tools.processors import budgets, memory
from tools.processors.targets import EVERY, Target, chosen, strangers
from tools.programs import ROOT, as_program, library_file, scratch

# Each part: its source, and the function with which it begins.
AGENT = "dumpulse.c", "dumpulse_process_packet"
WATCH = "dumpulse_watch.c", "dumpulse_watch_lines_"
HOOKS = {"dumpulse.c": {0xF00: "dumpulse_get_timestamp", 0xF10: "dumpulse_send_packet"},
         "dumpulse_watch.c": {0xF00: "dumpulse_changed"},
         "dumpulse_keyed.c": {0xF00: "dumpulse_get_timestamp", 0xF10: "dumpulse_send_packet",
                              0xF20: "dumpulse_get_key", 0xF30: "dumpulse_load",
                              0xF40: "dumpulse_store"}}
FAR = 0x8000  # where RISC-V has them: its shortest calls cannot reach that, as in a firmware


def hooks_of(target: Target, source: str) -> dict[int, str]:
    """The hooks by address."""
    far = FAR if target.machine == "Riscv" else 0
    return {far + address: hook for address, hook in HOOKS[source].items()}


def pushes(code: memory.Code, target: Target) -> dict[str, int]:
    """The stack of each function in assembly: AVR's pushes, and the return address."""
    return {name: target.return_address + sum(what == "push" for _, what, _ in body)
            for name, body in code.items()}


def bound(target: Target, objects: list[Path], image: Path, part: tuple[str, str],
          calls_all: bool = True) -> int:
    """Returns the bound on the stack of a part in bytes, without the hooks. If it calls all hooks
    of its source, this is checked."""
    source, begin = part
    code, hooks = memory.code(target.objdump, image), hooks_of(target, source)
    graph = memory.calls(code, hooks)
    memory.refuse_pointers(image, code, memory.reached([begin], graph) & code.keys())
    if calls_all and not set(hooks.values()) <= set().union(*graph.values()):
        raise SystemExit(f"{image}: the calls of the hooks were not found")
    # libgcc's functions on PowerPC: they use their caller's frame.
    restores = {name for name in graph if name.startswith(("_restgpr_", "_savegpr_"))}
    frames = dict(item for file in objects if file.with_suffix(".su").exists()
                  for item in memory.frames(file.with_suffix(".su")).items())
    if target.clang:  # gcc's reports include the return address that a call pushes, clang's do not
        frames = {name: frame + target.return_address for name, frame in frames.items()}
    if target.machine == "Avr":
        frames = {name: 0 for name in restores} | pushes(code, target) | frames
    return memory.depth(begin, graph, frames, restores | set(hooks.values()))


def record(target: Target) -> int:
    """Returns the bytes of a function that calls dumpulse_record once, and does nothing else."""
    with scratch() as folder:
        object_file = Path(folder) / "exports.o"
        target.compile(ROOT / "tests" / "exports.c", object_file)
        with object_file.open("rb") as stream:
            return int(ELFFile(stream).get_section_by_name(".text.export_record")["sh_size"])


def measure(target: Target, part: tuple[str, str] = AGENT) -> tuple[dict[str, int], int, int]:
    """Returns the sections of the object file, the bytes when linked, and the bytes of stack."""
    source, begin = part
    with scratch() as folder:
        object_file, image = Path(folder) / "part.o", Path(folder) / "part.elf"
        target.compile(library_file(source), object_file, "-fstack-usage")
        hooks = [f"-Wl,--defsym={hook}={address:#x}"
                 for address, hook in hooks_of(target, source).items()]
        target.link([object_file], image, f"-Wl,-e,{begin}", "-Wl,-Ttext=0x0", *hooks)
        parts, linked = memory.sections(object_file), sum(memory.sections(image).values())
        if parts["data"] or parts["bss"]:
            raise SystemExit(f"{target.key}: {source} must have no data and no bss")
        return parts, linked, bound(target, [object_file], image, part)


def main() -> None:
    measures = chosen(sys.argv[1:])
    made_by = {target.key: target for target in measures.values()}
    allowed, not_compared = budgets.load(), strangers(made_by)
    measured: budgets.Budgets = {}
    row = "{:<13}{:<12}{:>4}{:>7}{:>5}{:>4}{:>5}{:>6}{:>7}{:>7}{:>6}{:>6}{:>6}"
    print(row.format("target", "compiler", "code", "rodata", "data", "bss", "link",
                     "total", "budget", "record", "stack", "watch", "deep"))
    for target in measures.values():
        parts, total, depth = measure(target)
        _, watch, watch_depth = measure(target, WATCH)
        measured[target.key] = {"bytes": total, "record": record(target), "stack": depth,
                                "watch": watch, "watch_stack": watch_depth}
        budget = "-" if target.key in not_compared else \
            allowed.get(target.key, {}).get("bytes", "-")
        print(row.format(target.name, target.version(), *parts.values(),
                         f"{total - sum(parts.values()):+d}", total, budget,
                         measured[target.key]["record"], depth, watch, watch_depth))
    print("Bytes; gcc -Os, clang -Oz. link: what the linker adds from libgcc. It is negative where "
          "the\nlinker shortens calls. For clang on AVR it is start-up code, which most firmware "
          "has anyway.\nrecord: what a call of dumpulse_record adds. stack: a bound, without the "
          "hooks. The compiler\nreports the stack of each function; this is the sum along the "
          "deepest chain of calls. No\nfunction is recursive. watch: all of "
          "dumpulse_watch.c, without its hook. deep: a bound on\nthe stack of the watch, as stack.")
    budgets.enforce(measured, ("bytes", "record", "stack", "watch", "watch_stack"),
                    made_by=made_by, partly=measures != EVERY)


if __name__ == "__main__":
    as_program(main, "(--quick)?")
