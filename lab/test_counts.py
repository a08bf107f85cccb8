"""What the lab's counting itself promises: nothing stale, nothing left out.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab import counts, schemes, sources, targets, wire
from lab.schemes import SCHEMES


def test_a_fetched_source_that_has_been_changed_is_not_used(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "file.h").write_text("enum { RIGHT = 1 };\n")
    archive = tmp_path / "any-1.crate"
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path, "inside"], check=True)
    sha256 = subprocess.run(["sha256sum", archive], check=True, capture_output=True, text=True)
    source = sources.Source("crate", "any", "1", sha256.stdout.split()[0], "MIT")
    monkeypatch.setattr(sources, "FOLDER", tmp_path / "sources")
    monkeypatch.setattr(sources, "table", lambda: {"any": source})
    monkeypatch.setattr(sources, "CLIENTS", {"crate": ("pip", lambda source, folder: archive)})
    header = sources.fetched("any") / "file.h"
    assert sources.fetched("any") == source.folder
    for change in (lambda: header.write_text("enum { RIGHT = 2 };\n"),
                   lambda: header.rename(header.with_name("other.h")),
                   lambda: (source.folder / "more.h").write_text("")):
        sources.seen_contents.cache_clear()  # as a new program would
        change()
        with pytest.raises(SystemExit, match="any is not as it was fetched: remove it"):
            sources.fetched("any")
        subprocess.run(["rm", "-r", source.folder], check=True)
        sources.seen_contents.cache_clear()
        assert (sources.fetched("any") / "file.h").read_text() == "enum { RIGHT = 1 };\n"


def test_what_make_test_counts_has_every_target_and_every_family() -> None:
    quick = [scheme for scheme in SCHEMES if scheme.key in counts.QUICK]
    assert {scheme.family for scheme in quick} == {scheme.family for scheme in SCHEMES}
    assert {target for scheme in quick for target in scheme.targets} == set(targets.MACHINES)
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


def packet(protocol: int, flags: int) -> bytes:
    return bytes([0x45, *bytes(8), protocol, *bytes(10)]) + bytes([*bytes(12), 0x80, flags,
                                                                    *bytes(18)])


@pytest.mark.parametrize("protocol, flags, last", [
    (6, 0x11, True), (6, 0x19, True), (6, 0x10, False), (6, 0x12, False), (17, 0x11, False)])
def test_the_end_of_a_connection_is_seen(protocol: int, flags: int, last: bool) -> None:
    assert wire.is_last(packet(protocol, flags)) == last
