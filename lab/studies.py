"""Study 1's questions, answered by the lab's counts. Its mistakes are corrected.   make lab-studies

What one hash, signature, verification and message over TCP takes. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from lab import counts, wire
from lab.counts import Count
from lab.energy import MODELS

# The study printed these figures for a million operations each. Its watt-hours are right. The
# joules that it computed from them lack a factor of 3.6, and a battery.
PUBLISHED_NET, CORRECTED_NET = 2530.0, 4428.0  # joules
MILLIONS = {"SHA-256": (66, 0.21), "sign": (398, 1.3), "verify": (890, 2.9)}  # µs, mJ corrected
CURVE = "ECDSA secp160r1"
QUESTIONS = (  # the question, the scheme, its step, the bytes of the message, the study's row
    ("a hash of 8 bytes", "SHA-256", "hash", 8, "SHA-256"),
    ("a hash of 1 kB", "SHA-256", "hash", 1024, ""),
    ("a signature of 1 kB", CURVE, "sign", 1024, "sign"),
    ("a verification of 1 kB", CURVE, "verify", 1024, "verify"),
)
MACHINES = ("amd64", "Cortex-M4", "ATmega328P")
WIDTHS = (17, 12, 12, 10, 13, 12)  # of the columns after the question


def found(known: dict[tuple[str, ...], Count], scheme: str, step: str, length: int,
          target: str) -> Count | None:
    """The first implementation of the table, which is portable C."""
    wanted = scheme, step, length, target
    return next((count for count in known.values()
                 if (count.scheme, count.step, count.length, count.target) == wanted), None)


def millijoules(count: Count) -> str:
    model = MODELS.get(count.target)
    return f"{count.mean * model.nanojoules * 1e-6:,.4f}" if model else "-"


def line(question: str, cells: list[str]) -> str:
    return f"{question:<24}" + "".join(
        f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def rows() -> list[str]:
    known = counts.read()
    lines = [line("", ["published", "amd64", "M4", "M4, mJ", "AVR", "AVR, mJ"])]
    for question, scheme, step, length, row in QUESTIONS:
        cells = ["{} µs, {} mJ".format(*MILLIONS[row]) if row else ""]
        for name in MACHINES:
            count = found(known, scheme, step, length, name)
            cells.append(f"{count.mean:,}" if count else "-")
            if name in MODELS:
                cells.append(millijoules(count) if count else "-")
        lines.append(line(question, cells))
    sent = wire.parse(wire.FILE.read_text())
    for way in ("1 kB, TCP, with its connection", "1 kB, TCP, one more"):
        instructions, trips, calls = (int(sent["lab-wire", way, what]) for what in (
            "instructions", "round trips", "system calls"))
        lines.append(f"{way:<32}{'239 µs':>9}{instructions:>12,}  and {calls} system calls, "
                     f"{trips * 2 * wire.DELAY * 1000:.0f} ms of round trips")
    return lines


def main() -> None:
    print("\n".join(rows()))
    print("\nThe study used a laptop in 2018, the JVM and secp160r2. Its joules are corrected "
          f"here: it says\n{PUBLISHED_NET:,.0f} J net for the last run, but its own energy_now "
          f"lines give {CORRECTED_NET:,.0f} J.")


if __name__ == "__main__":
    main()
