"""Study 3's question, answered by counts.tsv: which format is best, and is it best everywhere?

    python -m lab.messages.ranking

For each message and machine, this prints the formats by the cost of making and reading the message
together, the cheapest first. Then it prints the pairs whose order differs on a microcontroller.
SPDX-License-Identifier: MIT"""

from dataclasses import dataclass
from itertools import combinations

from lab.messages import counts
from lab.messages.counts import Count
from lab.messages.schemes import BARE_CHIPS, EVERYWHERE, SCHEMES
from tests.support.programs import as_program

MESSAGES = ("heartbeat", "report", "list")
COMPUTER = "amd64"


@dataclass(frozen=True)
class Cost:
    """What one message in one format costs on one machine, to make and to read."""

    format: str
    bytes: int
    make: int
    read: int
    refuse: int
    chip: str

    @property
    def both(self) -> int:
        return self.make + self.read


def costs(found: dict[tuple[str, ...], Count], message: str, target: str) -> list[Cost]:
    """The cheapest first."""
    each = []
    for scheme in SCHEMES:
        if scheme.family == "format":
            mine = {count.step: count for count in found.values()
                    if (count.scheme, count.by, count.target) == (scheme.name, scheme.by, target)}
            if (make := mine.get(f"make_{message}")) is not None:
                read, refuse = mine[f"read_{message}"], mine[f"refuse_{message}"]
                each.append(Cost(scheme.key, make.length, make.mean, read.mean, refuse.mean,
                                 read.chip))
    return sorted(each, key=lambda cost: cost.both)


def turned(found: dict[tuple[str, ...], Count], message: str, target: str) -> list[tuple[str, str]]:
    """Pairs of formats. The first is better on a computer, the second on the target."""
    order = [cost.format for cost in costs(found, message, target)]
    here = [cost.format for cost in costs(found, message, COMPUTER) if cost.format in order]
    return [(a, b) for a, b in combinations(here, 2) if order.index(b) < order.index(a)]


def page(found: dict[tuple[str, ...], Count]) -> list[str]:
    row = "  {:<24}{:>7}{:>11}{:>11}{:>11}{:>11}{:>8}"
    lines = []
    for message in MESSAGES:
        for target in EVERYWHERE:
            each = costs(found, message, target)
            unit = "cycles" if target.startswith("ATmega") else "instructions"
            lines += ["", f"One {message} on {target}, {unit}:",
                      row.format("", "bytes", "make", "read", "both", "refuse", "times")]
            for cost in each:
                cells = [f"{number:,}" for number in (cost.make, cost.read, cost.both, cost.refuse)]
                times = f"{cost.both / each[0].both:.1f}"
                lines.append(row.format(cost.format, f"{cost.bytes:,}", *cells, times)
                             + ("" if cost.chip == target else f" on {cost.chip}"))
    lines += ["", f"Where the order on a microcontroller is not that on {COMPUTER}:"]
    for message in MESSAGES:
        for target in BARE_CHIPS:
            pairs = [f"{b} before {a}" for a, b in turned(found, message, target)]
            lines.append(f"  {message} on {target}: {'; '.join(pairs) or 'nowhere'}")
    return lines[1:]


def main() -> None:
    print("\n".join(page(counts.read())))


if __name__ == "__main__":
    as_program(main)
