"""A second way to each figure of the pages: closed forms, other tools, other tables. The programs
print the pages' figures, which `make part ONLY=check-pages` compares."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from math import ceil, comb, exp, factorial
from pathlib import Path
from struct import pack
from zlib import adler32, crc32

import pytest

from bench import instructions, keyed, pages, reliability, summary, worst
from spec.keyed import Keys, chaskey12, label_key
from spec.model import MAGIC, REQUEST, checksummed, heartbeat
from spec.watch import Line
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
    return {int(row[0]): count(row[1]) for row in shown("performance.md", "bits")[2:-2]}


def test_shares_of_flips_and_bursts() -> None:
    for row in shown("performance.md", "bits")[2:-2]:
        ways = comb(BITS, int(row[0])) * HEARTBEATS
        assert rounds_to(row[2], count(row[1]) / ways), row
    for row in shown("performance.md", "bursts")[3:-2]:
        # The first and the last bit of a burst are flipped, and it begins at one of these places.
        ways = (BITS + 1 - int(row[0])) * 2**(int(row[0]) - 2) * HEARTBEATS
        assert all(rounds_to(row[at + 1], count(row[at]) / ways) for at in (1, 3)), row


@pytest.mark.parametrize("table", ["summary", "bits", "bursts", "channels"])
def test_programs_print_what_the_page_shows(table: str, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    """What the search finds, which takes long, is from the page: it must be what is counted."""
    found = {}
    for row in shown("performance.md", "bits")[2:6]:
        mistaken, six, eight = (count(row[at]) for at in (1, 5, 6))
        other = round(mistaken * int(row[3].rstrip("%-") or "0") / 100)
        found[int(row[0])] = [mistaken, mistaken - other, count(row[4]), 0, 0, six, eight]
    monkeypatch.setattr(reliability, "searched", lambda: found)
    (reliability.PRINTERS | {"summary": summary.main})[table]()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == \
        shown("performance.md", table)


def on_the_line(difference: int, order: str) -> int:
    """The same bits in the order of sending: the first one is the highest."""
    if order == "high":
        return difference
    line = bytes(int(f"{byte:08b}"[::-1], 2) for byte in difference.to_bytes(8, "big"))
    return int.from_bytes(line, "big")


@pytest.mark.slow
@pytest.mark.parametrize("widths", [(6, 1, 2), (1, 8, 0), (1, 0, 8), (3, 3, 3), (0, 0, 0)])
def test_pairs_by_plain_counting(widths: tuple[int, int, int]) -> None:
    """Counts all pairs of heartbeats whose fields have only a few bits, by zlib's Adler-32."""
    packets = [int.from_bytes(heartbeat(*fields), "big")
               for fields in product(*(range(2**width) for width in widths))]
    differences = [one ^ other for one, other in combinations(packets, 2)]
    rows = reliability.pairs_rows(*map(str, widths))
    counted = Counter(difference.bit_count() for difference in differences)
    assert reliability.by_flips(rows) == {count: 2 * counted[count] for count in range(1, BITS + 1)}
    for order in ("high", "low"):
        lengths = Counter[int]()
        for difference in differences:
            line = on_the_line(difference, order)
            lengths[line.bit_length() - (line & -line).bit_length() + 1] += 1
        assert reliability.by_burst(rows, order) == {
            length: 2 * lengths[length] for length in range(1, 33)}


@pytest.mark.slow
def test_crc_detects_nine_flips() -> None:
    """By zlib's CRC-32 of all masks with up to ten bits; each burst of 32 bits is known to be
    detected."""
    zero = crc32(bytes((MAGIC, 0, 0, 0)))
    assert min(mask.bit_count() + (crc32((MAGIC << 24 | mask).to_bytes(4, "big")) ^ zero)
               .bit_count() for mask in range(1, HEARTBEATS) if mask.bit_count() <= 10) == 10


def test_half_of_the_bits_flip() -> None:
    """Then any packet may come out: one in 2^42 is another heartbeat."""
    assert reliability.bare(0.5) == pytest.approx((HEARTBEATS - 1) / 2**64, abs=0)


def test_what_is_flipped_in_reports() -> None:
    chance = random.Random(2)
    for _ in range(200):
        assert reliability.flips(chance, 6).bit_count() == 6
        damage = reliability.burst(chance, 24)
        assert damage // (damage & -damage) >> 23 == 1 and damage < 2**2080
        entries = reliability.sparse(chance)
        assert sum(map(bool, entries[2::4])) <= 8 and not any(entries[::4])
    one_half = reliability.accepted(chance, reliability.full, lambda _, bit: bit % 2, 1, 9)
    assert one_half == 0 and reliability.accepted(chance, reliability.full, lambda *_: 0, 1, 9) == 9


def test_intervals_of_samples() -> None:
    """Clopper and Pearson's: at each end, what was seen or more has a probability of 2.5 %."""
    trials = 400_000
    cells = [cell for row in (ROOT / "performance.md").read_text().splitlines()
             for cell in re.findall(r"(\d+): (?:below (\S+)|(\S+) to (\S+))", row)]
    assert len(cells) == 10
    for taken, below, low, high in cells:
        least, greatest = reliability.interval(int(taken), trials)
        assert [f"{end:.1e}" for end in (least, greatest)] == [low or "0.0e+00", high or below]
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
    (four,) = [row for row in shown("performance.md", "bits") if row[:1] == ["4"]]
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


@pytest.mark.slow
def test_sizes_by_other_flags(tmp_path: Path) -> None:
    if strangers():
        pytest.skip("figures of other compilers are not compared")
    sizes = []
    for flags in ((), ("-fno-asynchronous-unwind-tables", "-fPIC")):
        run(["gcc", "-Os", *flags, "-c", ROOT / "dumpulse.c", "-o", tmp_path / "part.o"])
        sizes.append(int(run(["size", tmp_path / "part.o"]).split()[6]))
    plain, shared = sizes
    page = " ".join((ROOT / "performance.md").read_text().split())
    assert f"shows {plain} bytes: {plain - shared} are a table" in page
    assert f"With `-fPIC`, the agent takes {shared} bytes there" in page


def named(page: str, target: str, columns: int) -> Iterator[tuple[str, list[str]]]:
    """The rows of a table by target and compiler, with so many figures in each."""
    for row in shown(page, target):
        if row[-columns - 2:-columns - 1] in (["gcc"], ["clang"]):
            *name, compiler, version = row[:-columns]
            yield (f"{' '.join(name)}, {compiler} {'.'.join(version.split('.')[:2])}",
                   [re.sub(r"^\d+-", "", figure) for figure in row[-columns:]])


def test_tables_have_the_budgets() -> None:
    allowed, of_keys = budgets.load(), budgets.load(keyed.FILE)
    parts = dict(named("performance.md", "size", 11))
    costs = dict(named("performance.md", "cost", 9))
    assert parts.keys() == costs.keys() == allowed.keys()
    for name, row in allowed.items():
        *sections, total, budget, record, stack, watch, deep = map(int, parts[name])
        assert [total, budget, record, stack, watch, deep] == [row[column] for column in (
            "bytes", "bytes", "record", "stack", "watch", "watch_stack")], name
        assert total == sum(sections), name
        heartbeat, report, *_, look = map(int, costs[name])
        assert [heartbeat, report, look] == [row[column] for column in (
            "heartbeat", "report", "look")], name
    for columns in (slice(6), slice(6, 15)):
        expected = {name: [*map(str, row.values())][columns] for name, row in of_keys.items()}
        assert dict(named("extras/keys.md", "keyed", len(expected["amd64, gcc 12.2"]))) == expected
    linux = {row[1]: row[3:] for row in shown("server/README.md", "instructions")
             if row[0] == "another"}
    for at, name in ((0, "amd64, gcc 12.2"), (2, "i386, gcc 12.2")):
        assert [*linux["heartbeat"][at:at + 2], linux["report"][at + 1]] == [
            str(allowed[name][column]) for column in ("udp_alone", "udp_heartbeat", "udp_report")]
    images = {name: list(map(str, row.values())) for name, row in budgets.load(
        ROOT / "firmware/costs/budgets.tsv").items()}
    assert {row[0]: row[1:] for row in shown("performance.md", "firmware-size")[1:-2]} == images


def test_differences_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a server whose packets cost 147, 600 and 15, one of ten reports 601, each socket 1000."""
    def measure(_: str, __: bool, reports: int, heartbeats: int, sockets: int = 0,
                noise: int = 0) -> int:
        number = sockets or max(1, ceil((reports + heartbeats) / 250))
        return 5000 + 1000 * number + 147 * heartbeats + 600 * reports + reports // 10 + 15 * noise

    monkeypatch.setattr(instructions, "measure", measure)
    assert instructions.another("amd64", False) == {"heartbeat": 147, "report": 601, "noise": 15}
    for packets in ((0, 1), (1, 0), (1, 1000), (0, 1000)):
        assert instructions.more_than_none("amd64", True, *packets) == \
            600 * packets[0] + 147 * packets[1]
    assert instructions.name(1, 1000) == "1 report + 1000 heartbeats"


def test_costs_in_two_ways() -> None:
    """By a simulator, and by the control flow of the machine code."""
    allowed, bounds = budgets.load(), worst.bounds("Cortex-M0+")
    for *words, unit, refused, heartbeat, report in shown("proof/README.md", "worst")[1:-3]:
        name = " ".join(words)
        if name == "Cortex-M0+":
            assert [refused, heartbeat, report] == [*map(str, bounds[unit].values())]
        if (name, unit) != ("Cortex-M0+", "cycles"):
            own = allowed[TARGETS[name].key]
            assert [heartbeat, report] == [str(own["heartbeat"]), str(own["report"])]


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


# ---- What sentences say, computed from the model, and by hand.

def bits_on_can(data: int, head: int, stuffed: int) -> tuple[int, int]:
    """The bits of a frame of so many bytes, with the space after it: least, and most."""
    return head + 8 * data, head + 8 * data + (stuffed + 8 * data - 1) // 4


SHORT, LONG = (47, 34), (67, 54)  # identifiers of 11 and of 29 bits
WORKED = heartbeat(3, 76, 9)
TABLE = bytes(12) + bytes.fromhex("12344c09") + bytes(240)
BOOT = heartbeat(40, 76, 4 * 32 + 5)
KEYS = Keys(bytes(range(16)))
EPOCH, COUNT = 0x12345, bytes.fromhex("83014c09")
ASKED = KEYS.counted(64, EPOCH, 1, 0xBE, 0xEF)
BLOCKS, PER_BLOCK = 2**21, 256 * 10  # Blocks of epochs; seconds in each.


def spaced(packet: bytes) -> str:
    return f"{packet[:4].hex(' ')}  {packet[4:].hex(' ')}"


def halved(packet: bytes) -> str:
    return f"`{packet[:4].hex()} {packet[4:].hex()}`"


def on_a_line(identifier: int, packet: bytes) -> str:
    framed = bytes([0x80 + identifier % 128]) + packet
    return f"`{(framed + bytes([-sum(framed) % 256])).hex(' ')}`"


def milliseconds(form: tuple[int, int]) -> int:
    return ceil((32 * bits_on_can(8, *form)[1] + bits_on_can(4, *form)[1]) / 500)


def broken(*files: str) -> int:
    rows = (ROOT / "proof/mutants").read_text().partition("<<'LIST'\n")[2]
    return sum(row.split("\t")[1:2] != [] and row.split("\t")[1] in files
               for row in rows.splitlines())


def of_the_lab(*words: str) -> list[str]:
    (row,) = [row for row in shown("lab/messages/README.md", "lab-answer")
              if row[:len(words)] == [*words]]
    return row[len(words):]


def reports_to_heartbeats() -> list[str]:
    ratios = [row["report"] / row["heartbeat"] for row in budgets.load().values()]
    return [f"as long as {min(ratios):.0f} to {max(ratios):.0f} heartbeats"]


LINUX = budgets.load()["amd64, gcc 12.2"]
(OF_NOISE,) = [row[5] for row in shown("server/README.md", "instructions")
            if row[:3] == ["another", "of", "noise"]]
MAKING, SENDING, LASTS = of_the_lab("Dumpulse", "version", "1", "ours")[-5:-2]
(EXAMPLES, STEPS), _ = re.findall(r"max_examples=(\S+), stateful_step_count=(\d+)",
                                  (ROOT / "test_dumpulse.py").read_text())
A_SUM, B_SUM = 1 + 241 + 3 + 76 + 9, 4 + 4 * 241 + 3 * 3 + 2 * 76 + 9
SENTENCES = {
    "README.md": [
        f"takes {budgets.load()['ATmega328P, gcc 5.4']['bytes']} bytes of code on an ATmega328P by "
        "avr-gcc 5.4 or 7.3,", f"the size on {len(TARGETS)} targets and, on each of them, the"],
    "SPEC.md": [
        spaced(WORKED), REQUEST.hex(" "), f"9 = {A_SUM} = `{A_SUM:04x}`",
        f"9 = {B_SUM} = `{B_SUM:04x}`", f"*a* = 1 and *b* = {len(TABLE)}.",
        f"`{checksummed(TABLE)[:4].hex(' ')}`", "clock stood at 4660 (`1234`)",
        f"`{checksummed(bytes(256))[:4].hex(' ')}` and 256 zero", f"`{spaced(BOOT)}`",
        f"A report is {260 / 8} times", f"`683#{WORKED.hex().upper()}`",
        f"`6FF#{REQUEST.hex().upper()}`", f"`6C0#{checksummed(TABLE)[:8].hex().upper()}`",
        "`6C2#12344C0900000000`, 29 frames of zeros", f"frame *k* of {ceil(260 / 8)} is",
        f"need {1 + ceil((260 - 6) / 7)} frames, a flow", f"in {ceil(260 / 64)} frames.",
        f"takes at most {milliseconds(SHORT)} ms with identifiers of 11 bits, and "
        f"{milliseconds(LONG)} ms with 29"],
    "server/README.md": [f"less the {instructions.PUBLISHED[0, 0]:,} that it took"],
    "spec/security.md": [f"A report is {260 / 8} times"],
    "spec/keyed.md": [
        "`00000000 83000000`", halved(KEYS.beacon(3, EPOCH)), halved(KEYS.beacon(64, EPOCH)),
        halved(KEYS.packet(3, EPOCH, COUNT)), halved(ASKED),
        f"`{KEYS.report(TABLE, EPOCH, ASKED)[:8].hex()}`, 12 zeros, `12344c09`, 240 zeros",
        f"`03030303 03030303 {pack('<I', EPOCH).hex()} {COUNT.hex()}`",
        f"`{label_key(KEYS.master, 3).hex()}`, and its next one "
        f"`{label_key(KEYS.master, 3, 1).hex()}`",
        f"`683#{KEYS.packet(3, EPOCH, COUNT).hex().upper()}`",
        f"`6E1#{KEYS.beacon(3, EPOCH).hex().upper()}`", f"`6FF#{ASKED.hex().upper()}`",
        f"`6C0#{KEYS.report(TABLE, EPOCH, ASKED)[:8].hex().upper()}`",
        on_a_line(3, KEYS.packet(3, EPOCH, COUNT)), on_a_line(127, ASKED),
        f"there are {BLOCKS:,} blocks", f"a step each {10_000 / 65:.0f} ms",
        f"after {2**32 / 10 / YEAR:.1f} years with 10 a second, "
        f"{2**32 / 3900 / 86400:.1f} days with 3,900",
        f"{2**32 / 1e5 / 3600:.0f} hours with 100,000, and {2**32 / 1e6 / 60:.0f} minutes with 1,",
        f"until {int(2020 + BLOCKS * 900 / YEAR)}.", f"at most {3 * 31} in 65536",
        f"up to {2**16 * 10 / 86400:.1f} days ahead",
        # The date has 4 blocks an hour; epochs take one each 256 of them, and a reset 1.25.
        f"at most {4 / 1.25} − {ceil(36000 / 256 / 1.25) / 10}/*L* resets",
        f"({round((BLOCKS * 900 - 6.5 * YEAR) / 128 / 86400, -1):.0f} days in 2026)"],
    "extras/keys.md": [
        f"the EEPROM lasts {int(2 * 100_000 * PER_BLOCK / YEAR)} years",
        f"last {int(2 * 1024 // 8 * 10_000 * PER_BLOCK / YEAR)} years, or "
        f"{int(2 * 1024 // 8 * 10_000 / (3600 / PER_BLOCK + 2) * 3600 / YEAR)} with two resets",
        f"{2**32 / 1e6 / 60:.0f} minutes at a million",
        f"`{chaskey12(KEYS.master, 16 * bytes([255]))[:8].hex()}`",
        f"`readers {label_key(KEYS.master, 64).hex()}`"],
    "proof/README.md": [
        f"broken in {broken('dumpulse.c', 'dumpulse.h')} ways, the watch in "
        f"{broken('dumpulse_watch.c', 'dumpulse_watch.h')} and"],
    "performance.md": [
        f"{LINUX['udp_heartbeat']} instructions for a heartbeat, {OF_NOISE} for noise, and "
        f"{LINUX['udp_report']} for a report, as for "
        f"{LINUX['udp_report'] / LINUX['udp_heartbeat']:.0f} heartbeats", *reports_to_heartbeats(),
        f"{len(Line(*range(6)).packed('<'))} bytes of flash on AVR, "
        f"{len(Line(*range(6)).packed('<', 'x'))} elsewhere",
        f"silence of 2 and 3 misses, that is {(2 * 3 + 1) * 10} ms",
        f"{MAKING} µJ to make, and {SENDING} µJ to send", f"CR2032 lasts {LASTS} days",
        f"Python ([test_dumpulse.py](test_dumpulse.py)): {EXAMPLES} times, up to {STEPS} steps",
        f"15 of {comb(64, 3):,}; of random bytes",
        f"the {64} · {256} · {256} = 2²² heartbeats", f"every {2**32 / 4000 / 86400:.1f} days",
        f"right, too, every {2**40 / 4000 / YEAR:.1f} years, and the variable every "
        f"{2**42 / 4000 / YEAR:.1f} years", f"takes {9 * 2**42 / 4000 / YEAR:.1f} years, as",
        f"`{heartbeat(2, 2, 2)[:4].hex()} {heartbeat(2, 2, 2)[4:].hex()}` and "
        f"`{heartbeat(3, 0, 3)[:4].hex()} {heartbeat(3, 0, 3)[4:].hex()}`",
        f"A heartbeat takes {bits_on_can(8, *SHORT)[0]} bits on CAN,",
        f"and at most {bits_on_can(8, *SHORT)[1]} with stuffing",
        f"10 · {bits_on_can(8, *SHORT)[1]} / 500,000, which is "
        f"{64 * 10 * bits_on_can(8, *SHORT)[1] / 5000:.0f} %", f"UART, it has {8 * 10} bits"],
}


@pytest.mark.parametrize("page", SENTENCES)
def test_sentences_have_what_is_computed(page: str) -> None:
    text = " ".join((ROOT / page).read_text().split())
    assert [said for said in SENTENCES[page] if " ".join(said.split()) not in text] == []


# All figures, packets, options, numbers in words, comparisons, negations and symbols of these
# pages, but those that a command prints there, as a sum. If you change one, compare it with its
# source. Then write the new sum.
SUMS = {
    "README.md": "c454e8cd",
    "SPEC.md": "afa40afc",
    "performance.md": "b3eb98b8",
    "bench/README.md": "ff0c3c2c",
    "extras/keys.md": "6d601f00",
    "proof/README.md": "63498e4d",
    "server/README.md": "e1f1c87d",
    "spec/README.md": "b9de382a",
    "spec/keyed.md": "bc5671d1",
    "spec/security.md": "e5ff2d83",
}
FIGURE = re.compile(
    r"\bat (?:most|least)\b|\b(?:more|less|fewer|below|above|within)\b|"
    r"[^ |]*\d[^ |]*(?: %| [^\W\d]+(?:/s)?)?|\b(?!be)[a-f]{2}\b|--[a-z][a-z-]*|\b[A-Z]+=[\w-]+|"
    r"\b(?:larg|small|long|short|high|low|fast|slow|few|lat|earli)e(?:r|st)\b|"
    r"\b(?:[Nn]o|[Nn]ot|[Nn]one|[Nn]othing|[Nn]ever|[Aa]lways|first|last)\b|\*\w\*|"
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|half|hundred|thousand|million|"
    r"(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty)\b")


@pytest.mark.parametrize("page", SUMS)
def test_figures_stay_as_they_were_compared(page: str) -> None:
    text = " ".join(pages.BLOCK.sub("", (ROOT / page).read_text()).split())
    assert f"{adler32(' '.join(FIGURE.findall(text)).encode()):08x}" == SUMS[page]
