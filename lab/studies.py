"""Study 1's questions, answered by the lab's counts, with its slips corrected.     make lab-studies

What one hash, signature, verification and message over TCP takes. SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from lab import counts, wire
from lab.counts import Count
from lab.energy import MODELS

# What the study printed for a million operations each: the watt-hours of its batteries are its
# own lines; the joules that it printed lack a factor of 3.6, and a battery.
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


def found(known: dict[tuple[str, ...], Count], scheme: str, step: str, length: int,
          target: str) -> Count | None:
    """The first implementation of the table, which is portable C."""
    wanted = scheme, step, length, target
    return next((count for count in known.values()
                 if (count.scheme, count.step, count.length, count.target) == wanted), None)


def millijoules(count: Count) -> str:
    model = MODELS.get(count.target)
    return f"{count.mean * model.nanojoules * 1e-6:,.4f}" if model else "-"


def rows() -> list[str]:
    known = counts.read()
    lines = [f"{'':<26}{'published':>18}{'amd64':>12}{'M4':>12}{'M4, mJ':>14}"
             f"{'AVR':>12}{'AVR, mJ':>14}"]
    for question, scheme, step, length, row in QUESTIONS:
        published = "{} µs, {} mJ".format(*MILLIONS[row]) if row else ""
        line = f"{question:<26}{published:>18}"
        for name in MACHINES:
            count = found(known, scheme, step, length, name)
            line += f"{count.mean:>12,}" if count else f"{'-':>12}"
            if name in MODELS:
                line += f"{millijoules(count) if count else '-':>14}"
        lines.append(line)
    sent = wire.parse(wire.FILE.read_text())
    for way in ("1 kB, TCP, with its connection", "1 kB, TCP, one more"):
        instructions = int(sent["lab-wire", way, "instructions"])
        trips = int(sent["lab-wire", way, "round trips"])
        calls = sent["lab-wire", way, "system calls"]
        lines.append(f"{way:<32}{'239 µs':>12}{instructions:>12,}  and {calls} system calls, "
                     f"{trips * 70} ms of round trips")
    return lines


def main() -> None:
    print("\n".join(rows()))
    print("\nThe study: a laptop in 2018, the JVM, secp160r2. Its joules are corrected: "
          "from its own energy_now lines the\n"
          f"last run took {CORRECTED_NET:,.0f} J net, where it says {PUBLISHED_NET:,.0f} J.")


if __name__ == "__main__":
    main()
