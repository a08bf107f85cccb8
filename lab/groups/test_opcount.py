"""Does the counting group count what the original counted, and are its results right?"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.groups import programs
from lab.groups.opcount import ALGORITHMS, Bilinear, Counts, CountingError, Element, Group
from tools.programs import ROOT

PROGRAMS = list(programs.rows(programs.FILE))
PRIME = 1_000_003


# -- against the original ------------------------------------------------------------------------
def test_the_tables_of_the_original_are_whole() -> None:
    assert (len(PROGRAMS), sum(bool(row.corrected) for row in PROGRAMS)) == (48, 1)


@pytest.mark.parametrize("row", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_counts_as_in_the_original(row: programs.Row) -> None:
    assert row.counted(as_original=True) == ast.literal_eval(row.corrected or row.original)


@pytest.mark.parametrize("row", PROGRAMS, ids=range(len(PROGRAMS)))
def test_only_a_power_times_a_known_factor_is_counted_otherwise(row: programs.Row) -> None:
    """The same in total, and as much more work outside as there are more exponentiations."""
    theirs = programs.run(row.program, as_original=True)[1]
    ours = programs.run(row.program)[1]
    assert ours.total == theirs.total and ours.terms == theirs.terms
    more = ours.exponentiations - theirs.exponentiations
    outside = [tally.operations + tally.squarings for tally in (ours.outside, theirs.outside)]
    assert outside[0] - outside[1] == more >= 0


def test_a_power_times_a_known_factor() -> None:
    group = Group(PRIME)
    assert group.element(9) / group.element(7) == group.element(2)
    group.reset()
    (group.element(7) ** 5 * group.element(9)).compute()
    assert group.counts().row() == (9, 0, 1, 1, 0, 0, 1, [], 0)


def compared(file: Path, text: str) -> subprocess.CompletedProcess[str]:
    file.write_text(text)
    return subprocess.run([sys.executable, "-m", "lab.groups.programs", file], cwd=ROOT, text=True,
                          capture_output=True, check=False)


ELEVEN = "11 wnaf wnaf 1 8;W 3;"
KNOWN_FACTOR = "1000003 wnaf wnaf 4 8;W 7;W 9;P 0 5;O 2 1;C 3"
def test_the_command_prints_counts_of_the_original(tmp_path: Path) -> None:
    """If this counts otherwise, it says so."""
    file = tmp_path / "programs.tsv"
    said = compared(file, f"program\tcounts\n{ELEVEN}P 0 2;C 1\n{KNOWN_FACTOR}\n")
    assert said.stdout.splitlines()[:2] == [
        f"{ELEVEN}P 0 2;C 1\t(1, 0, 2, 0, 0, 0, 1, [], 0)",
        f"{KNOWN_FACTOR}\t(9, 0, 1, 0, 0, 0, 0, [], 0)\there (9, 0, 1, 1, 0, 0, 1, [], 0)"]
    again = compared(file, "\n".join(said.stdout.splitlines()[:2]))
    assert (again.returncode, again.stdout.splitlines()[0]) == (
        0, "2 of 2 lines with counts are right."), again


@pytest.mark.parametrize("text, complaint", [
    ("11 wnaf wnaf 4 8;C 0\n", "there is no result 0 yet"),
    ("program\tcounts\n", "has no program"),
    (f"{ELEVEN}I 0\nmore words\n", "'more words' is no program"),
    (f"{ELEVEN}I 0\t(0, 1\n", "'(0, 1' are no counts"),
])
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    said = compared(tmp_path / "programs.tsv", text)
    assert said.returncode == 2 and complaint in said.stderr, said
    assert "Traceback" not in said.stderr and said.stderr.count("\n") == 1


# -- against a plain interpreter, and against itself ---------------------------------------------
Step = tuple[str, int, int]
EXPONENTS = st.one_of(st.integers(-9, 9), st.integers(-PRIME, PRIME), st.integers(0, 2 ** 70),
                      st.builds(lambda bit, sign: sign << bit, st.integers(0, 40),
                                st.sampled_from((1, -1))))
STEPS = st.lists(st.tuples(st.sampled_from("WNOOOIPPPTCQ"), st.integers(0, 30), EXPONENTS),
                 max_size=25)
ORDERS = st.sampled_from((2, 3, 11, 1_000_000, PRIME, 2 ** 127 - 1))
SETTINGS = st.fixed_dictionaries({
    "power": st.sampled_from(list(ALGORITHMS)), "product": st.sampled_from(list(ALGORITHMS)),
    "window": st.integers(1, 6), "precomputed": st.integers(1, 9)})


def both(order: int, steps: list[Step], **changes: Any) -> tuple[Group, list[Element], list[int]]:
    """What the counting group makes of the steps, and what numbers do."""
    group = Group(order, **changes)
    made, plain = [group.element(1)], [1 % order]
    for name, number, power in steps:
        i, j = number % len(made), power % len(made)
        if name == "T":
            made[i].precompute(number % 8 + 1)
        elif name == "C":
            made[i].compute()
        elif name == "Q":
            assert int.from_bytes(made[i].serialize(), "big") == plain[i]
        else:
            results: dict[str, Callable[[], tuple[Element, int]]] = {
                "W": lambda: (group.element(power), power),
                "N": lambda: (group.neutral(), 0),
                "O": lambda: (made[i] * made[j], plain[i] + plain[j]),
                "I": lambda: (made[i].inv(), -plain[i]),
                "P": lambda: (made[i] ** power, plain[i] * power)}
            element, value = results[name]()
            made.append(element)
            plain.append(value % order)
    return group, made, plain


@settings(max_examples=200, deadline=None)
@given(order=ORDERS, steps=STEPS, changes=SETTINGS, lazy=st.booleans())
def test_values_are_those_of_plain_numbers(order: int, steps: list[Step], changes: dict[str, Any],
                                           lazy: bool) -> None:
    group, made, plain = both(order, steps, lazy=lazy, **changes)
    for element, value in zip(made, plain, strict=True):
        assert element == group.element(value)
        assert element.serialize() == group.element(value).serialize()


@settings(max_examples=200, deadline=None)
@given(order=ORDERS, steps=STEPS, changes=SETTINGS)
def test_laziness_changes_only_products_of_powers(order: int, steps: list[Step],
                                                  changes: dict[str, Any]) -> None:
    """Each result is used once, so that nothing is worked out twice: an operand of a product is
    new, and a result that was used is computed before. Then a term is an exponentiation."""
    counted = []
    for lazy in (True, False):
        group = Group(order, lazy=lazy, **changes)
        result = group.element(3)
        for name, number, power in steps:
            new = group.element(number)
            if name == "O":
                result = result * new ** power
            elif name == "I":
                result = result.inv()
            elif name == "P":
                result = result.compute() ** power
        result.compute()
        counted.append((result.serialize(), group.counts()))
    (lazy_value, ours), (value, eager) = counted
    assert lazy_value == value and eager.terms == []
    assert ours.exponentiations + sum(ours.terms) == eager.exponentiations
    assert ours.outside.inversions == eager.outside.inversions
    if not ours.terms and changes["power"] == changes["product"]:
        assert ours == eager


def test_a_long_product_does_not_end_at_a_limit() -> None:
    group = Group(PRIME)
    result = group.element(1)
    for number in range(20_000):
        result = (result * group.element(number)).inv()
    assert result == group.element(sum((-1) ** number * (20_000 - 1 - number) * -1
                                       for number in range(20_000)) + 1)


# -- counts by hand ------------------------------------------------------------------------------
@pytest.mark.parametrize("power, window, exponent, row", [
    # 11 is 1011: three squarings, and three operations, the first of them with the neutral element
    ("binary", 1, 11, (3, 0, 3)),
    # 11 = 16 - 4 - 1: digits 1 0 -1 0 -1, the table is the base, a square is made for it
    ("wnaf", 1, 11, (3, 2, 5)),
    # 11 = 8 + 3: digits 1 0 0 3, the table has 1 and 3
    ("wnaf", 2, 11, (3, 0, 4)),
    # 1 0 1 1: digits 1 and 3, found from the top: 10 and 11 become 1 . and 3
    ("sliding", 2, 11, (3, 0, 4)),
    # -15: digits 0 -3 0 -3, three squarings; the table has 1 and 3 of the inverse, and a square
    ("sliding", 2, -15, (3, 1, 4)),
    # -15 = -16 + 1: digits -1 0 0 0 1; the table of the positive sign, so -1 is an inversion
    ("wnaf", 2, -15, (3, 1, 5)),
])
def test_counts_by_hand(power: str, window: int, exponent: int, row: tuple[int, int, int]) -> None:
    group = Group(PRIME, power=power, window=window)
    (group.element(5) ** exponent).compute()
    total = group.counts().total
    assert (total.operations, total.inversions, total.squarings) == row


def test_precomputed_tables_stay_and_are_counted_once() -> None:
    group = Group(PRIME)
    g = group.element(5).precompute(3)
    first = group.counts()
    assert first.outside == first.total
    assert (first.total.operations, first.total.squarings, first.total.inversions) == (3, 2, 4)
    g.precompute(3)
    assert group.counts() == first
    group.reset()
    (g ** 0b1001001).compute()
    assert group.counts().total.operations < 8  # 7 for a table alone


# -- groups, pairings and counters ---------------------------------------------------------------
def test_pairings_of_each_type() -> None:
    for kind in (1, 2, 3):
        group = Bilinear(PRIME, kind)
        assert (group.g1 is group.g2) == (kind == 1)
        a, b = group.g1.element(6), group.g2.element(7)
        assert group.pair(a ** 5, b ** 3) == group.gt.element(6 * 5 * 7 * 3)
        assert group.counts().pairings == 1 and len(group.counts().groups) == min(kind + 1, 3)
        if kind == 2:
            assert group.homomorphism(b) == group.g1.element(7)
            assert "1 homomorphism." in group.counts().in_words()
        else:
            with pytest.raises(CountingError, match=f"type {kind} has no homomorphism"):
                group.homomorphism(b)
        group.reset()
        assert group.counts().pairings == group.counts().homomorphisms == 0


def test_counts_in_words() -> None:
    group = Group(PRIME, "G1")
    (group.hash(b"a") ** 2 * group.parse(group.generator.serialize()) ** 3).inv().compute()
    counts = group.counts()
    assert counts.in_words().splitlines()[1:] == [
        "    outside of exponentiations 0 operations, 1 inversion, 0 squarings;",
        "    0 exponentiations, 1 multi-exponentiation (terms: 2), 1 serialisation, 1 parsing, "
        "1 hashed to the group."]
    group.reset()
    assert group.counts() == Counts("G1")
    assert counts.terms == [2]  # a copy


# -- what is refused -----------------------------------------------------------------------------
GROUP, OTHER = Group(PRIME, "one"), Group(PRIME, "other")
PAIRS = Bilinear(PRIME)


@pytest.mark.parametrize("misuse, complaint", [
    (lambda: Group(1), "must be 2 or more, not 1"),
    (lambda: Group(2.5), "must be a whole number, not 2.5"),  # type: ignore[arg-type]
    (lambda: Group(7, window=17), "the window must be from 1 to 16 bits, not 17"),
    (lambda: Group(7, precomputed=99), "the window of precomputation must be from 1 to 16"),
    (lambda: Group(7, power="fast"), "no algorithm 'fast'; there are wnaf, sliding, binary"),
    (lambda: GROUP.generator.precompute(17), "precomputation must be from 1 to 16 bits, not 17"),
    (lambda: GROUP.generator * OTHER.generator, "of other of order .* mixed with one of one"),
    (lambda: GROUP.generator == OTHER.generator, "mixed"),
    (lambda: GROUP.generator == 1, "1 is no element"),
    (lambda: GROUP.generator * 2, "2 is no element"),  # type: ignore[operator]
    (lambda: GROUP.generator ** 0.5, "an exponent must be a whole number"),  # type: ignore
    (lambda: GROUP.element("1"), "a logarithm must be a whole number"),  # type: ignore[arg-type]
    (lambda: GROUP.parse(b""), "nothing is no element"),
    (lambda: GROUP.parse(b"\xff\xff\xff"), "ffffff is no element"),
    (lambda: PAIRS.pair(PAIRS.g2.generator, PAIRS.g2.generator), "of G2 .* mixed with one of G1"),
    (lambda: PAIRS.pair(PAIRS.g1.generator, PAIRS.g1.generator), "of G1 .* mixed with one of G2"),
    (lambda: Bilinear(PRIME, 4), "of type 1, 2 or 3, not 4"),
    (lambda: Bilinear(PRIME, True), "type of a pairing must be a whole number, not True"),
])
def test_misuse_is_refused(misuse: Any, complaint: str) -> None:
    with pytest.raises(CountingError, match=complaint):
        misuse()


def test_counters_are_not_read_before_all_is_computed() -> None:
    group = Group(PRIME)
    signature = group.element(5) ** 77
    for read in (group.counts, group.reset):
        with pytest.raises(CountingError, match=r"G: 1 result \(power in G, …\) was never comp"):
            read()
    assert group.counts(allow_pending=True) == Counts("G")
    product = signature * group.element(5)  # the product stands for it
    inverse = product.inv()
    with pytest.raises(CountingError, match=r"1 result \(inverse in G"):
        group.counts()
    inverse.compute()
    assert group.counts().exponentiations == 1


def test_a_pending_result_in_one_group_resets_none_of_three() -> None:
    group = Bilinear(PRIME)
    group.g1.generator.inv().compute()
    group.pair(group.g1.generator, group.g2.generator)
    with pytest.raises(CountingError, match="GT: 1 result"):
        group.reset()
    assert group.g1.counts().total.inversions == 1


# -- the page ------------------------------------------------------------------------------------
PAGE = (Path(__file__).with_name("README.md")).read_text()


@pytest.mark.parametrize("program, said", re.findall(
    r"^```python\n(.*?)^```.*?^```text\n(.*?)^```", PAGE, re.M | re.S))
def test_the_programs_of_the_page_print_what_the_page_says(program: str, said: str) -> None:
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, check=True,
                         capture_output=True)
    assert ran.stdout == said
