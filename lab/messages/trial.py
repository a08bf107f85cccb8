"""Figures of an earlier trial of the same schemes, beside the lab's counts.

    make figures ONLY=lab-trial

Where the two differ by more than a tenth, there is a reason. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.messages import counts
from lab.messages.counts import Count

FILE = Path(__file__).with_name("trial.tsv")
ALLOWED = (0.9, 1.1)  # of our count to the trial's figure
REASONS = {
    "a": "the trial built micro-ecc as it comes. The lab has it unroll its loops and use a\n"
         "   function of its own for squares.",
    "b": "on the Cortex-M4, the trial compiled this library for size (-Os), the lab for speed.",
    "c": "the trial used AVX2, which not every amd64 has. The lab does not.",
    "d": "the trial counted one signature, which was right at the first attempt. The lab has\n"
         "   the mean of 25; its least is like the trial's figure.",
    "e": "this part of the trial was its own program in C, which was not kept. The lab's is\n"
         "   another one: its checks take messages of any length.",
    "f": "the lab leaves out the first run, in which malloc asks for memory.",
}


@dataclass(frozen=True)
class Row:
    name: str
    target: str
    figure: int
    count: Count
    reason: str

    @property
    def ratio(self) -> float:
        return self.count.mean / self.figure

    @property
    def differs(self) -> bool:
        return not ALLOWED[0] <= self.ratio <= ALLOWED[1]


def rows() -> list[Row]:
    known = counts.read()
    found = []
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    head = lines.pop(0).split("\t")
    for line in lines:
        scheme, by, step, length, *cells = line.split("\t")
        for target, cell in zip(head[4:], cells, strict=True):
            if cell != "-":
                figure, *reason = cell.split()
                count = known[scheme, by, step, length, target]
                name = f"{scheme}, {by}".removesuffix(", ours").replace("assembly", "asm")
                found.append(Row(f"{name:<34}{step.replace('_heartbeat', '')}", target,
                                 int(figure), count, "".join(reason)))
    return found


def table(each: list[Row]) -> list[str]:
    differ = [row for row in each if row.differs]
    lines = [f"The lab meets {len(each) - len(differ)} of {len(each)} figures within 10 %. "
             "The others:", "",
             f"{'':<46}{'machine':<11}{'the trial':>12}{'the lab':>12}{'ratio':>7}"]
    lines += [f"{row.name:<46}{row.target:<11}{row.figure:>12,}{row.count.mean:>12,}"
              f"{row.ratio:>7.2f}  {row.reason or 'not explained'}" for row in differ]
    return [*lines, "", *(f"{letter}: {text}" for letter, text in REASONS.items())]


def main() -> None:
    print("\n".join(table(rows())))


if __name__ == "__main__":
    main()
