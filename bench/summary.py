"""Makes the first table of performance.md: what a packet costs, beside the first implementation.

    make figures ONLY=summary

The figures of this library are its budgets, which are exact."""

from tools.processors import budgets
from tools.programs import as_program

AVR, M0, M3, RV = ("ATmega328P, gcc 5.4", "Cortex-M0+, gcc 12.2", "Cortex-M3, gcc 12.2",
                   "rv32imc, gcc 12.2")
# What is compared, the first implementation's figure, and where to find ours. The figures of the
# first implementation were published or measured elsewhere, with the same compilers. No command
# here prints them.
ROWS = (
    ("ATmega328P", "agent, bytes", 323, (AVR, "bytes")),
    ("", "a heartbeat, cycles", 252, (AVR, "heartbeat")),
    ("", "a report, cycles", 5805, (AVR, "report")),
    ("Cortex-M0+", "agent, bytes", 225, (M0, "bytes")),
    ("", "a heartbeat, instructions", 89, (M0, "heartbeat")),
    ("", "a report, instructions", 2516, (M0, "report")),
    ("Cortex-M3", "agent, bytes", 205, (M3, "bytes")),
    ("", "a heartbeat, instructions", 72, (M3, "heartbeat")),
    ("RISC-V, rv32", "a heartbeat, instructions", 90, (RV, "heartbeat")),
    ("", "a report, instructions", 1955, (RV, "report")),
    ("UDP, amd64", "a heartbeat, instructions", 128, ("amd64, gcc 12.2", "udp_heartbeat")),
)


def main() -> None:
    now = budgets.load()
    print(f"{'':<14}{'':<28}{'first implementation':>20}{'this one':>10}{'ratio':>8}")
    for target, what, first, (name, column) in ROWS:
        ours = now[name][column]
        print(f"{target:<14}{what:<28}{first:>20,}{ours:>10,}{ours / first:>8.2f}")


if __name__ == "__main__":
    as_program(main)
