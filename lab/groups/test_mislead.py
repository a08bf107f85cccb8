"""Do benchmarks mislead as the page says?   SPDX-License-Identifier: MIT"""

import re

import pytest

from lab.groups import mislead
from tests.support.programs import ROOT

PAIRS = {pair.what: pair for pair in mislead.pairs()}
TIMES = {  # what misleads, by what is right: from, to
    "lazy work that leaks from signing": (1.8, 2.2),
    "an object that remembers, PS18": (0.9, 0.98),
    "precomputation": (0.75, 0.9),
    "an object that remembers, RSA-2048": (0.7, 0.9),
    "restoring in the timed part, P-256": (1.1, 4),  # OpenSSL 3.5 reads a key faster than 3.0
    "the first call of a library, SHA-256": (5, 5000),
    "the same message again, ECDSA": (0, 0),
    "a result that nobody reads, Adler-32": (0, 0),
}


def test_there_is_a_pair_for_each() -> None:
    assert set(PAIRS) == set(TIMES)


@pytest.mark.parametrize("what", TIMES)
def test_it_misleads(what: str) -> None:
    pair, (least, most) = PAIRS[what], TIMES[what]
    assert pair.figure > 100 and least <= pair.misleads / pair.figure <= most, pair


@pytest.mark.slow
def test_parsing_explains_what_parsing_adds() -> None:
    cost = mislead.measured()
    both = cost["parsing"] + cost["verification"]
    assert both == pytest.approx(cost["parsing and verification"], rel=0.02)


def test_what_leaks_is_a_signature() -> None:
    """One power of G1: about 50 operations and 255 squarings."""
    pair = PAIRS["lazy work that leaks from signing"]
    assert 300 < pair.misleads - pair.figure < 350


def test_the_page_tells_each_pair() -> None:
    page = (ROOT / "lab/groups/README.md").read_text().partition("\n## Benchmarks that mis")[2]
    told = re.findall(r"^\*\*(.*?)\.\*\* ", page, re.M)
    assert all(any(pair.casefold().startswith(each.casefold()[:18]) for pair in PAIRS)
               for each in told)
    assert len(told) == len(PAIRS) - 1  # two of objects that remember
