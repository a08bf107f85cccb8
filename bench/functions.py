"""Counts the instructions of each function of the library on amd64 and i386.

    make figures ONLY=functions

bench/driver.c, statically linked, calls each function once in callgrind.
SPDX-License-Identifier: MIT"""

from pathlib import Path

from bench import callgrind
from bench.processors.targets import BARE
from tests.support.programs import ROOT, as_program, run, scratch

COMPILERS = {"amd64": "x86_64-linux-gnu-gcc", "i386": "i686-linux-gnu-gcc"}
# The first two compile as for firmware; the last one as the Makefile compiles the servers, but
# without -flto.
LEVELS = {"-Os": ["-Os", *BARE], "-O2": ["-O2", *BARE],
          "server": ["-O2", "-funroll-loops", "-fpie"]}
AGENT, HOOKS = "dumpulse_process_packet", ("dumpulse_get_timestamp", "dumpulse_send_packet")


def run_cases(architecture: str, level: str) -> callgrind.Counts:
    """Compiles the driver and the library at that level, and counts them."""
    words = [COMPILERS[architecture], "-std=c99", *LEVELS[level], f"-I{ROOT}"]
    with scratch() as folder:
        driver, library, program = (Path(folder) / name
                                    for name in ("driver.o", "library.o", "program"))
        # These options keep each case a function of its own, which calls and does not jump.
        run([*words, "-fno-ipa-icf", "-fno-optimize-sibling-calls", "-c",
             ROOT / "bench" / "driver.c", "-o", driver])
        run([*words, "-c", ROOT / "dumpulse.c", "-o", library])
        run([words[0], "-static", driver, library, "-o", program])
        return callgrind.count(program)


def measure(architecture: str, level: str) -> dict[str, int]:
    """Returns the library's instructions for each case, without the hooks."""
    counts = run_cases(architecture, level)
    costs = {}
    for case in (name for name in counts.own if name.startswith("case_")):
        name = case.removeprefix("case_").replace("_", " ")
        if (case, AGENT) in counts.within:
            costs[name] = counts.within[case, AGENT]
        else:
            costs[name] = counts.own[case] + sum(
                cost for (caller, callee), cost in counts.within.items() if caller == case
                and callee not in HOOKS)
    hooks = {hook: counts.own[hook] // counts.calls[hook] for hook in HOOKS}
    costs["heartbeat"] -= hooks[HOOKS[0]]
    for name in ("report of zeros", "report of ff"):
        costs[name] -= hooks[HOOKS[1]]
    return costs


def main() -> None:
    table: dict[str, dict[str, int]] = {}
    for architecture in COMPILERS:
        for level in LEVELS:
            for name, cost in measure(architecture, level).items():
                table.setdefault(name, {})[f"{architecture} {level}"] = cost
    table = dict(sorted(table.items()))  # callgrind's own order is arbitrary
    columns = next(iter(table.values()))
    print(f"{'instructions':<18}" + "".join(f"{column:>13}" for column in columns))
    for name in table:
        print(f"{name:<18}" + "".join(f"{table[name][column]:>13}" for column in columns))
    print("Counted are dumpulse_process_packet, for each kind of packet, and the inline functions, "
          "each\nwith the return of a function around it. The hooks are not counted. -Os and -O2: "
          "as in make\ncost, so not position-independent. server: -O2 -funroll-loops -fpie, as for "
          "udpserver, but\nwithout -flto.")


if __name__ == "__main__":
    as_program(main)
