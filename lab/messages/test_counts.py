"""What the lab's counting itself promises: nothing stale, nothing left out.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import sys

import pytest

from lab.messages import counts, machines, schemes
from lab.messages.schemes import SCHEMES


def test_what_make_test_counts_has_every_target_and_every_family() -> None:
    quick = [scheme for scheme in SCHEMES if scheme.key in counts.QUICK]
    assert {scheme.family for scheme in quick} == {scheme.family for scheme in SCHEMES}
    assert {target for scheme in quick for target in scheme.targets} == set(machines.MACHINES)
    assert {scheme.key for scheme in quick} == set(counts.QUICK)


def test_the_longest_work_begins_first() -> None:
    before = counts.read()
    work = [(scheme, target) for scheme in SCHEMES for target in scheme.targets]
    ordered = counts.longest_first(work, before)
    taken = [sum(count.mean for count in before.values()
                 if (count.scheme, count.by, count.target) == (scheme.name, scheme.by, target))
             for scheme, target in ordered]
    assert len(ordered) == len(work) and taken == sorted(taken, reverse=True) and taken[0] > 1e8
    new = (schemes.NOTHING, "amd64")
    assert counts.longest_first([*work, new], before)[0] == new


def test_a_failure_ends_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def failing(scheme: schemes.Scheme, target: str) -> list[counts.Count]:
        begun.append((scheme.key, target))
        raise SystemExit("not deterministic")

    monkeypatch.setattr(counts, "measure_scheme", failing)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(sys, "argv", ["counts", "--quick"])
    with pytest.raises(SystemExit, match="not deterministic"):
        counts.main()
    assert len(begun) < 10 < sum(len(one.targets) for one in SCHEMES if one.key in counts.QUICK)
