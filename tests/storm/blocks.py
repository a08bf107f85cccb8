"""Tells stories of udpserver and canserver, and prints which blocks of their code ran.

    python -m tests.storm.blocks [--least PERCENT]

It tells stories of each, those of canserver from a seed on where a few have each fault, and some
in which a call fails. A block has one entry and one exit. For each file of the agents and of their
library, it prints how many of its blocks ran, and the lines of those that did not. With fewer than
--least, it fails."""

import argparse
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from tests.storm.planted import HERE, ROOT, compile_file, object_of, sources
from tools.programs import as_program, wraps

# The compiler calls this at the beginning of each block. What it notes is on the heap, because the
# storm resets all static data when the agent starts anew.
TRACER = r"""
#include <stdio.h>
#include <stdlib.h>
extern char __executable_start[], etext[];
static unsigned char *ran;
__attribute__((constructor)) static void begin(void)
{
    ran = calloc((size_t)(etext - __executable_start), 1);
}
void __sanitizer_cov_trace_pc(void)
{
    ran[(char *)__builtin_return_address(0) - __executable_start] = 1;
}
__attribute__((destructor)) static void end(void)
{
    FILE *const file = fopen("ran", "w");
    for (char *at = __executable_start; at < etext; at++)
        if (ran[at - __executable_start])
            (void)fprintf(file, "%lx\n", (unsigned long)at);
    (void)fclose(file);
}
"""
# What only nodes and devices run, and what the storm has in place of the agents' own.
NOT_OF_AGENTS = (*(f"extras/dumpulse_{name}.c" for name in ("node", "reader", "mixed", "slots")),
                 "server/endpoints.c", "server/log.c")
Block = tuple[str, int, int]  # a file, a line, and which of its blocks


def build(agent: str, folder: Path, traced: dict[str, Path]) -> Path:
    objects = []
    for source in sources(agent):
        if source.startswith(str(HERE.relative_to(ROOT))) or source in NOT_OF_AGENTS:
            objects.append(object_of(source))
            continue
        if source not in traced:
            traced[source] = folder / (source.replace("/", "-") + ".o")
            compile_file(source, traced[source], "-O1", "-g", "-fno-pie",
                         "-fsanitize-coverage=trace-pc")
        objects.append(traced[source])
    program = folder / Path(agent).stem
    subprocess.run(["gcc", "-no-pie", "-pthread", *objects, folder / "tracer.c",
                    *wraps("build/storm"), "-o", program], check=True)
    return program


def blocks_of(program: Path) -> dict[int, Block]:
    """Returns the address after each call of the tracer, and its block."""
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], check=True,
                          capture_output=True, text=True).stdout
    calls = re.findall(r"call +\w+ <__sanitizer_cov_trace_pc>\n +(\w+):", code)
    places = subprocess.run(["addr2line", "-e", program, *(f"{int(call, 16) - 1:x}"
                                                           for call in calls)],
                            check=True, capture_output=True, text=True).stdout.split("\n")
    blocks, count = {}, Counter[tuple[str, int]]()
    for call, place in zip(calls, places):
        file, line = place.split()[0].rsplit(":", 1)
        if file.startswith("/usr/"):
            continue
        key = file.removeprefix(f"{ROOT}/").removeprefix("./"), int(line)
        blocks[int(call, 16)] = (*key, count[key])
        count[key] += 1
    return blocks


def ranges(lines: set[int]) -> str:
    """Returns a list like 3-5,7."""
    text, ordered = [], sorted(lines)
    for first in (line for line in ordered if line - 1 not in lines):
        last = next(line for line in range(first, ordered[-1] + 1) if line + 1 not in lines)
        text.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(text)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--least", type=float, default=0)
    arguments = parser.parse_args()
    every, ran, failed, traced = set[Block](), set[Block](), False, dict[str, Path]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tracer.c").write_text(TRACER)
        for agent, seed, count, step in (("udpserver.c", "1", "600", "5"),
                                         ("server/canserver.c", "400", "130", "20")):
            program = build(agent, folder, traced)
            blocks = blocks_of(program)
            every |= set(blocks.values())
            for stories in (["--from", seed, "--count", count, "--counts"],
                            ["--fail-each", step]):
                failed |= subprocess.run([program, *stories], cwd=folder).returncode != 0
                ran |= {blocks[int(at, 16)] for at in (folder / "ran").read_text().split()
                        if int(at, 16) in blocks}
    files = defaultdict[str, list[Block]](list)
    for block in every:
        files[block[0]].append(block)
    for file, its in sorted(files.items()):
        missed = {line for _, line, _ in set(its) - ran}
        print(f"{len(set(its) & ran):5} of {len(its):4}  {file}  {ranges(missed)}")
    percent = 100 * len(ran) / len(every)
    print(f"storm: {len(ran)} of {len(every)} blocks of the agents ran, {percent:.1f} %")
    return failed or percent < arguments.least


if __name__ == "__main__":
    as_program(main, ".*")
