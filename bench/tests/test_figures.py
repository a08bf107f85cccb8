"""A second way to each figure of the pages: closed forms, other tools, other tables. The programs
print the pages' figures, which `make part ONLY=check-pages` compares."""

import re
from math import comb, exp, factorial
from pathlib import Path

import pytest

from bench import pages, summary
from tools.processors import budgets
from tools.processors.targets import TARGETS, strangers
from tools.programs import INCLUDES, ROOT, run

YEAR = 365.25 * 86400  # s
HEARTBEATS = 64 * 256 * 256
BITS = 64


def shown(page: str, target: str) -> list[list[str]]:
    """The words of each line that a command prints, from its block in a page."""
    (block,) = [match[0] for match in pages.BLOCK.finditer((ROOT / page).read_text())
                if match["target"] == target]
    return [line.split() for line in block.splitlines()[2:-1]]


def count(text: str) -> int:
    return int(text.replace(",", ""))


def rounds_to(text: str, value: float) -> bool:
    """Does the value have these digits, as 1.2e-3, 34.8 or 41,664?"""
    digits, _, exponent = text.replace(",", "").partition("e")
    unit = 10.0**(int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(text.replace(",", "")) - value) <= 0.5001 * unit


def flips() -> dict[int, int]:
    return {int(row[0]): count(row[1]) for row in shown("performance.md", "bits")
            if len(row) == 5 and row[0].isdigit()}


def test_what_is_accepted() -> None:
    heartbeats, requests, chance, *rows, share = (
        row for row in shown("performance.md", "accepted") if row)
    assert heartbeats[2:] == [str(HEARTBEATS), "=", "2^22"] and requests[-1] == "1"
    assert rounds_to(chance[7].rstrip(","), (HEARTBEATS + 1) / 2**64)
    for row, of_frames, unit in zip(rows[1:], (2**32, 2**40, 2**42, 9 * 2**42),
                                    (86400, YEAR, YEAR, YEAR), strict=True):
        assert rounds_to(row[-2], of_frames / 4000 / unit), row
    assert share[8] == str(100 * (256 - 64) // 256)


def test_shares_of_flips_and_bursts() -> None:
    for row in shown("performance.md", "bits"):
        if len(row) == 5 and row[0].isdigit():
            for at in (1, 3):
                assert rounds_to(row[at + 1],
                                 count(row[at]) / (comb(BITS, int(row[0])) * HEARTBEATS)), row
    for row in shown("performance.md", "bursts")[3:-2]:
        # The first and the last bit of a burst are flipped, and it begins at one of these places.
        ways = (BITS + 1 - int(row[0])) * 2**(int(row[0]) - 2) * HEARTBEATS
        assert all(rounds_to(row[at + 1], count(row[at]) / ways) for at in (1, 3)), row
        assert row[5] == "0", "a CRC of n bits notices each burst of n bits"


def test_intervals_of_samples() -> None:
    """Clopper and Pearson's: at each end, what was seen or more has a probability of 2.5 %."""
    trials = 400_000
    cells = [cell for row in (ROOT / "performance.md").read_text().splitlines()
             for cell in re.findall(r"(\d+): (?:below (\S+)|(\S+) to (\S+))", row)]
    assert len(cells) == 36
    for taken, below, low, high in cells:
        if below:
            assert taken == "0" and rounds_to(below, 1 - 0.025**(1 / trials))
            continue
        for end, least in ((low, int(taken)), (high, int(taken) + 1)):
            # With so many trials, this is Poisson's distribution.
            mean = float(end) * trials
            fewer = sum(exp(-mean) * mean**i / factorial(i) for i in range(least))
            assert (1 - fewer if end == low else fewer) == pytest.approx(0.025, rel=0.15), end


def test_years_on_a_line() -> None:
    """The fewest flips that pass decide, where flips are seldom."""
    passing = {flipped: pairs / HEARTBEATS for flipped, pairs in flips().items()}
    (four,) = [row for row in shown("performance.md", "bits") if row[:1] == ["4"] and len(row) == 7]
    for row in shown("performance.md", "channels")[3:]:
        rate = float(row[0])
        bare = sum(pairs * rate**flipped * (1 - rate)**(BITS - flipped)
                   for flipped, pairs in passing.items())
        assert rounds_to(row[1], 1 / bare / 100 / YEAR), row
        # A bit of parity flips with each of three flips, and with two of most of four. Five and
        # six take six at least. One bit of UDP's sum flips with three.
        parity = (passing[3] + count(four[5]) / HEARTBEATS + passing[5] + passing[6]) * rate**6
        for cell, chance in ((row[2], parity), (row[3], passing[3] * rate**4)):
            assert float(cell) == pytest.approx(1 / chance / 100 / YEAR, rel=0.07), row


@pytest.mark.slow
@pytest.mark.parametrize(("name", "compiler"), [
    ("ATmega328P", "avr-gcc -mmcu=atmega328p"), ("amd64", "gcc -fno-asynchronous-unwind-tables"
                                                         " -fcf-protection=none -fno-pie"),
    ("Cortex-M0+", "arm-none-eabi-gcc -mthumb -mcpu=cortex-m0plus")])
def test_size_beside_binutils(name: str, compiler: str, tmp_path: Path) -> None:
    """text of `size` has the code and the constants."""
    if strangers():
        pytest.skip("figures of other compilers are not compared")
    for source, column in ((ROOT / "dumpulse.c", "bytes"),
                           (ROOT / "extras/dumpulse_watch.c", "watch")):
        run([*compiler.split(), "-std=c99", "-Os", "-ffreestanding", *INCLUDES, "-c", source, "-o",
             tmp_path / "part.o"])
        text, data, bss = map(int, run(["size", tmp_path / "part.o"]).split()[6:9])
        assert (text, data, bss) == (budgets.load()[TARGETS[name].key][column], 0, 0)


def test_costs_in_three_ways() -> None:
    """By a simulator, by the control flow of the machine code, and on AVR by all its paths."""
    allowed = budgets.load()
    for target, _, *cells in shown("proof/README.md", "paths")[1:5]:
        row = allowed[TARGETS[target].key]
        assert (cells[1], cells[2].split("-")[-1], int(cells[4])) == (
            str(row["heartbeat"]), str(row["report"]),
            row["stack"] + TARGETS[target].return_address), target
    for *words, unit, _, _, _, _, heartbeat, report in shown("proof/README.md", "worst")[2:-4]:
        name = " ".join(words)
        if (name, unit) != ("Cortex-M0+", "cycles"):
            own = allowed[TARGETS[name].key]
            assert [heartbeat, report.split("-")[-1]] == [str(own["heartbeat"]), str(own["report"])]


def test_the_summary_divides() -> None:
    rows = shown("performance.md", "summary")[1:]
    assert len(rows) == len(summary.ROWS)
    shown_target = ""
    for row, (name, what, first, (target, column)) in zip(rows, summary.ROWS, strict=True):
        shown_target = name.split(", ")[-1] or shown_target
        assert target.startswith(shown_target), "it is of another target"
        assert [word in what for word in ("bytes", "heartbeat", "report")] == [
            word in column for word in ("bytes", "heartbeat", "report")]
        ours = int(budgets.load()[target][column])
        assert [count(row[-3]), count(row[-2])] == [first, ours]
        assert rounds_to(row[-1], ours / first)


def test_the_purposes_add_up() -> None:
    rows = shown("server/README.md", "instructions")
    (one,) = [row for row in rows if row[:2] == ["another", "heartbeat"]]
    (report,) = [row for row in rows if row[:2] == ["another", "report"]]
    alone, queued, reports = (sum(int(row[at]) for row in rows[rows.index(report) + 2:])
                              for at in (-3, -2, -1))
    assert (alone, queued) == (int(one[3]), int(one[4]))
    assert abs(reports - int(report[3])) <= 6  # rounded for each purpose
