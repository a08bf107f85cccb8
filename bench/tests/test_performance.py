"""Does performance.md stay true? Bounds must hold, and loopbench must notice a wrong
library."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench import callgrind, cost, size, worst
from tools.processors.targets import TARGETS
from tools.programs import ROOT, library_file, run
from tools.tiers import tiered


def library_with(folder: Path, before: str, after: str) -> Path:
    """Makes a copy of the library with a changed line in dumpulse.c."""
    for name in ("dumpulse.c", "dumpulse.h", "dumpulse_watch.c", "dumpulse_watch.h"):
        shutil.copy(library_file(name), folder)
    text = (folder / "dumpulse.c").read_text()
    assert text.count(before) == 1
    (folder / "dumpulse.c").write_text(text.replace(before, after))
    return folder


CHECK = "    if (length != DUMPULSE_PACKET_SIZE) {\n"


@pytest.mark.parametrize(("kind", "turns"), [("heartbeat", (0, 5)), ("refused", (7, 0))])
def test_a_bound_that_packets_do_not_reach_is_noticed(kind: str, turns: tuple[int, int],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong limit of the turns of a loop makes one."""
    hook = worst.LIMITS[kind][0][1]
    monkeypatch.setitem(worst.LIMITS, kind, [(dict(zip((8, 256), turns, strict=True)), hook)])
    with pytest.raises(SystemExit, match="packets took .* instructions, where the bounds are"):
        worst.bounds("Cortex-M0+")


@pytest.mark.parametrize(("name", "pushed"), tiered([
    ("ATmega328P", 2), ("ATmega2560", 3), ("i386", 4), ("amd64", 8), ("rv32imc", 0)],
    lambda case: TARGETS[str(case[0])].quick))
def test_a_stack_deeper_than_the_bound_is_noticed(name: str, pushed: int) -> None:
    target = TARGETS[name]
    limit = size.measure(target)[2] + pushed
    cost.check_stack(target, limit)
    with pytest.raises(SystemExit, match=f"was {limit + 1} bytes deep, where the bound is {limit}"):
        cost.check_stack(target, limit + 1)


def test_a_loop_that_nobody_argued_about_is_noticed(tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    waits = '    for (size_t i = length; i != 0; i--)\n        __asm__ volatile("nop");\n'
    monkeypatch.setenv("DUMPULSE_SOURCE", str(library_with(tmp_path, CHECK, waits + CHECK)))
    with pytest.raises(SystemExit, match="loops that this program does not know"):
        worst.bounds("Cortex-M0+")


def test_counts_that_do_not_add_up_are_noticed() -> None:
    text = "fl=(1) /a/main.c\nfn=(1) main\n1 5\ncfi=(2) sum.h\ncfn=(2) sum\ncalls=3 1\n1 7\n" \
        "fl=(2)\nfn=(2)\n1 4\nfi=(1)\n1 3\nfn=(3) start\ncfn=(1)\ncalls=1 1\n1 12\nsummary: 12\n"
    counts = callgrind.parse(text)
    assert (counts.total, counts.main, counts.calls["sum"], counts.within["main", "sum"]) == \
        (12, 12, 3, 7)
    assert counts.files == {"main.c": 8, "sum.h": 4}
    for wrong in ("", text.replace("summary: 12", "summary: 13")):
        with pytest.raises(SystemExit, match="does not add up"):
            callgrind.parse(wrong)


def loopbench(folder: Path, source: Path = ROOT) -> Path:
    program = folder / "loopbench"
    run(["gcc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{source}", "-iquote", source,
         "-x", "c", ROOT / "loopbench.c", source / "dumpulse.c", "-o", program])
    return program


def test_loopbench(tmp_path: Path) -> None:
    program = loopbench(tmp_path)
    done = subprocess.run([program, "100000"], capture_output=True, text=True, timeout=60,
                          check=True)
    head, _, *lines = done.stdout.splitlines()
    assert "; 100000 packets of each stream, 9 rounds" in head and done.stderr == ""
    rows = {line[:22].rstrip(): [float(figure) for figure in re.findall(r"-?\d+\.\d\d", line[22:])]
            for line in lines}
    assert list(rows) == ["heartbeats, distinct", "nonsense", "reports"]
    assert all(least <= median <= most for median, least, most, _ in rows.values())
    for arguments in (["449"], ["1e9"], ["-5"], [""], ["5000 "], ["5000", "5000"], ["--json"],
                      ["9" * 30],
                      ["1000000000000001"]):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60,
                              check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), arguments
    said = run([program, "--help"])
    assert said.startswith("usage: loopbench") and max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(("before", "after"), [
    (CHECK, CHECK.replace("!=", "==")),
    ("               ((uint32_t)b << 16) + a;\n",
     "               ((uint32_t)b << 16) + a || b != 0;\n"),
    ("    dumpulse_write16_(agent->report, b);\n",
     "    dumpulse_write16_(agent->report, b + 1);\n"),
])
def test_loopbench_notices_a_wrong_library(tmp_path: Path, before: str, after: str) -> None:
    program = loopbench(tmp_path, library_with(tmp_path, before, after))
    done = subprocess.run([program, "10000"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 1 and "results are wrong" in done.stderr, done
