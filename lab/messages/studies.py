"""Study 1's questions, answered by the lab's counts. Its mistakes are corrected.

    make figures ONLY=lab-studies

What one hash, signature and verification takes."""

from lab.messages import counts
from lab.messages.counts import Count
from lab.messages.energy import MODELS
from tools.programs import as_program

# What the study printed. Of its last run: microseconds of one operation, of which there were a
# million each; the sends over TCP are of another run. Its clock, in seconds. Then watt-hours: what
# the batteries had before and after the run, and what each battery gave in as long an idle time.
MICROSECONDS = {"SHA-256": 66, "sign": 398, "verify": 890, "TCP": 239}
CLOCK = 1360.0
RUN, IDLE = (22.56, 11.67), (9.00, 0.68)
# What ten idle minutes took by its lines, in watt-hours; and both results as it says them, in "J".
TEN_MINUTES, TEN_MINUTES_SECONDS = 2.68, 600.0
SAYS = {"net": 2530.0, "ten minutes": 3037.0}
NET = (RUN[0] - RUN[1] - sum(IDLE)) * 3600  # joules
WATTS = NET / CLOCK  # of an operation, more than when idle
# A figure that it cites, in joules, of a chip of the ATmega family, which takes about 8 mA at 3 V.
CITED, CITED_SECONDS, CITED_WATTS = 46e-6, 1.91, 0.008 * 3.0
MILLIWATT_HOUR = 3.6  # joules
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
    lines = [line("", ["published", "amd64", "M4", "model, mJ", "AVR", "model, mJ"])]
    for question, scheme, step, length, row in QUESTIONS:
        microseconds = MICROSECONDS.get(row, 0)
        cells = [f"{microseconds} µs, {microseconds * WATTS * 1e-3:.2f} mJ" if row else ""]
        for name in MACHINES:
            count = found(known, scheme, step, length, name)
            cells.append(f"{count.mean:,}" if count else "-")
            if name in MODELS:
                cells.append(millijoules(count) if count else "-")
        lines.append(line(question, cells))
    return [*lines, f"{'a message of 1 kB, TCP':<24}{MICROSECONDS['TCP']:>14} µs"
            "  (here: lab/run profile --operations tcp-send)"]


def mistakes() -> list[str]:
    """What the study has wrong, and what it should say."""
    return ["", "The study: a laptop in 2018, the JVM, secp160r2. Its joules are corrected here.",
            "Milliampere-hours times volts are milliwatt-hours, not joules. "
            f"Its joules lack a factor of {MILLIWATT_HOUR}.",
            "Its last baseline leaves out the second battery.",
            f"By the lines of both batteries, ten idle minutes took {TEN_MINUTES * 3600:,.0f} J, "
            f"or {TEN_MINUTES * 3600 / TEN_MINUTES_SECONDS:.1f} W. It says "
            f"{SAYS['ten minutes']:,.0f} J.",
            f"The last run took {RUN[0]:.2f} - {RUN[1]:.2f} = {RUN[0] - RUN[1]:.2f} Wh, and as "
            f"long an idle time {IDLE[0]:.2f} + {IDLE[1]:.2f} Wh.",
            f"So its net is {NET / 3600:.2f} Wh = {NET:,.0f} J, or {WATTS:.2f} W for "
            f"{CLOCK:,.0f} s. It says {SAYS['net']:,.0f} J.",
            f"It cites {CITED * 1e6:.0f} µJ for a signature of {CITED_SECONDS} s at 7.37 MHz. "
            f"At 8 mA and 3 V that is {CITED_SECONDS * CITED_WATTS * 1e3:.1f} mJ."]


def main() -> None:
    print("\n".join(rows()))
    print("\n".join(mistakes()))


if __name__ == "__main__":
    as_program(main)
