"""Compiles loopbench in four ways, and shows the results side by side.

    make figures ONLY=loopbench

    python3 -m bench.loop [PACKETS]
SPDX-License-Identifier: MIT"""

import json
import subprocess
import sys

from bench import figures
from tests.support.programs import BUILD, ROOT, as_program, run

FLAGS = ("-Os", "-O2", "-O3", "-O2 -flto")


def main() -> None:
    results = []
    for flags in FLAGS:
        program = BUILD / f"loopbench{flags.replace(' ', '')}"
        run(["gcc", "-std=c99", *flags.split(), f'-DFLAGS="{flags}"', ROOT / "loopbench.c",
             ROOT / "dumpulse.c", "-o", program])
        done = subprocess.run([program, "--json", *sys.argv[1:]], stdout=subprocess.PIPE,
                              text=True, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)  # loopbench has printed why
        results.append(json.loads(done.stdout))
    print(figures.stamp())
    print(f"{results[0]['compiler']}; {results[0]['packets']} packets of each stream, "
          f"{results[0]['rounds']} rounds\n")
    print(f"{'ns a packet':<21}" + "".join(f"{one['flags']:>20}" for one in results))
    for rows in zip(*(one["streams"] for one in results), strict=True):
        print(f"{rows[0]['name']:<21}" + "".join(
            f"{row['median']:.2f} {row['least']:.1f}-{row['most']:.1f}".rjust(20) for row in rows))
    print("Each cell: the median of the rounds, then the least and the most. The time of an empty "
          "loop\nis subtracted.")


if __name__ == "__main__":
    as_program(main, r"(\d+)?")
