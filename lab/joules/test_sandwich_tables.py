"""Logs that are damaged in every way: all is said, nothing crashes, no figure is wrong."""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.joules import board, sandwich, tables

CYCLES = {"KeyGen": 96_000, "Sign": 480_000, "Verify": 288_000}
LETTERS = {"a": CYCLES | {"Total": 960_000}, "k": {"KeyGen": 96_000}, "s": {"Sign": 480_000},
           "v": {"Verify": 288_000}, "z": {}}
JOULES = {"Total": Fraction(770), "KeyGen": Fraction(77), "Sign": Fraction(385),
          "Verify": Fraction(231)}  # µJ: 77 mW, 1 to 10 ms


def lines_of(name: str = "toy", run: int = 1, sample: str = "7700-06") -> list[str]:
    """A whole log."""
    said = [f"note: {tables.BEGINS}", f"note: scheme {name}", f"note: run {run}", "note: seed 7",
            "note: image 00ff", "to meter: status", "meter: PowerShield > ack status ok",
            "target: [RESET]", "target: SystemCoreClock         96000000",
            f"target: CRYPTO_ALGNAME          {name}", "target: CRYPTO_SECRETKEYBYTES   3",
            "target: CRYPTO_PUBLICKEYBYTES   2", "target: CRYPTO_BYTES            9",
            "target: [INPUT] a = all"]
    for letter, counts in LETTERS.items():
        said += [f"note: measure {letter}", "to meter: start", "meter: PowerShield > ack start",
                 f"to target: {letter}", "meter: TimeStamp: 000s 000ms, buff 00%",
                 *[f"meter: {sample}"] * 100, "meter: end", "meter: Acquisition time: 10000-03",
                 "meter: Number of samples: 100", "meter: PowerShield > Acquisition completed",
                 "target: [START] measure(10200,x)",
                 "target: [END] 10203 milliseconds, n=9 (0 errors)",
                 *(f"target: *** {operation:<8}{cycles:>11} {name}"
                   for operation, cycles in counts.items()),
                 "target: [INPUT] a = all", f"note: measured {letter}"]
    said += ["note: measure t", "target: [END] 5 milliseconds, n=3 (0 errors)",
             "note: measured t", f"note: {tables.COMPLETE}"]
    return [f"{number / 100:9.3f} {line}" for number, line in enumerate(said)]


WHOLE = lines_of()


def parse(folder: Path, lines: list[str] | bytes) -> tuple[dict[str, Fraction], list[str]]:
    """The µJ by operation, and the complaints without the name of the file."""
    path = folder / "a.log"
    path.write_bytes(lines if isinstance(lines, bytes) else
                     "".join(f"{line}\n" for line in lines).encode())
    found, complaints = tables.parse(path)
    assert all(complaint.startswith(f"{path}:") for complaint in complaints)
    return ({one.operation: one.joules * 10**6 for one in found if one.operation != "Idle"},
            [complaint.removeprefix(f"{path}:").strip() for complaint in complaints])


@pytest.mark.parametrize("sample", ["0000-06", "0001-99", "9999+99", "9999-03"])
def test_watts_that_no_board_takes_are_left_out(
        tmp_path: Path, sample: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A board that the meter does not feed takes none."""
    logs: list[Path] = []
    for scheme in board.all_schemes()[:3]:
        logs.append(tmp_path / f"{len(logs)}.log")
        logs[-1].write_text("\n".join(lines_of(board.name_of(scheme), 1, sample)) + "\n")
    assert tables.command([*map(str, logs)]) == 1
    assert capsys.readouterr().err.count("which no board takes: left out") == 3 * len(LETTERS)


def test_a_whole_log(tmp_path: Path) -> None:
    assert parse(tmp_path, WHOLE) == (JOULES, [])


def at(text: str, nth: int = 0) -> int:
    """The index of the nth line with this text."""
    return [index for index, line in enumerate(WHOLE) if text in line][nth]


VERIFY = at("note: measure v")
FIRST = at("meter: 7700-06", 300)  # the first sample of Verify
LAST = at("meter: 7700-06", 399)

Change = Callable[[list[str]], object]


def replaced(index: int, old: str, new: str) -> Change:
    def change(lines: list[str]) -> None:
        assert old in lines[index]
        lines[index] = lines[index].replace(old, new)
    return change


def without(first: int, last: int = 0) -> Change:
    return lambda lines: lines.__delitem__(slice(first, (last or first) + 1))


@pytest.mark.parametrize("change, says", [
    (without(FIRST), "it has 99 samples, and says 100: left out"),
    (replaced(FIRST, "7700-06", "700-06"), '"7700-06" is as long as no other sample'),
    (replaced(LAST, "7700-06", "nan"), '"nan" is no sample'),
    (without(LAST + 1, LAST + 4), "it breaks off after 100 samples"),
    (without(LAST + 2), "its summary lacks the time or the number of samples"),
    (replaced(LAST + 2, "10000-03", "0"), "its time is 0 s"),
    (without(FIRST - 1), "it has no TimeStamp: no trigger came"),
    (lambda lines: lines.insert(LAST, lines[FIRST - 1]), "a second TimeStamp"),
    (without(at("[END]", 3)), "the board says 0 ends of one measurement"),
    (replaced(at("[END]", 3), "(0 errors)", "(1 errors)"), "the board made 1 errors"),
    (replaced(at("*** Verify", 1), "288000", "0"), "the board has measured nothing"),
    (replaced(at("*** Verify", 1), "288000 toy", "288000 other"),
     "the board speaks of other, and is toy"),
    (lambda lines: lines.insert(at("*** Verify", 1), lines[at("*** Verify", 1)]),
     "the board says Verify twice"),
    (lambda lines: lines.insert(at("*** Verify", 1), lines[at("*** Sign", 1)]),
     "the board gives Sign, Verify, not Verify"),
    (without(at("note: measured v")), "it has no end: left out")])
def test_one_damaged_measurement_is_left_out_and_the_others_are_not(
        tmp_path: Path, change: Change, says: str) -> None:
    lines = list(WHOLE)
    change(lines)
    joules, complaints = parse(tmp_path, lines)
    assert joules == {name: value for name, value in JOULES.items() if name != "Verify"}
    assert complaints[0].startswith(f"{VERIFY + 1}: measurement v: ") and says in complaints[0]
    assert complaints[1:] == ["the run lacks v"]


def test_the_name_of_a_scheme_may_not_be_one_of_a_path(tmp_path: Path) -> None:
    joules, complaints = parse(tmp_path, [line.replace("toy", "../toy") for line in WHOLE])
    assert joules == {} and 'says "../toy" for CRYPTO_ALGNAME' in complaints[0]


def test_the_log_of_a_line_that_babbles_has_an_end(tmp_path: Path) -> None:
    written = sandwich.Log(tmp_path / "a.log")
    for _ in range(sandwich.MOST_BYTES // 1000 + 100):
        written.write("meter", "x" * 1000)
    written.file.close()
    assert written.part.stat().st_size <= sandwich.MOST_BYTES


def test_runs_are_averaged(tmp_path: Path) -> None:
    found = []
    for run, sample in ((1, "7700-06"), (2, "7800-06")):
        path = tmp_path / f"{run}.log"
        path.write_text("".join(f"{line}\n" for line in lines_of(run=run, sample=sample)))
        found += tables.parse(path)[0]
    row = tables.rows(found)["toy"]["Verify"]
    assert row.runs == 2 and row.joules == Fraction(775, 10_000) * Fraction(3, 1000)
    assert row.spread == Fraction(10, 775) and row.watts == Fraction(775, 10_000)


def test_what_failed_and_was_measured_again_is_no_fault(tmp_path: Path) -> None:
    lines = [*WHOLE[:LAST], "    1.000 note: failed v: it was cut", *WHOLE[VERIFY:]]
    assert parse(tmp_path, lines) == (JOULES, [])


@pytest.mark.parametrize("raw", [b"", b"hello\nthere\n", b"\0" * 1000,
                                 b"    1.000 meter: 7700-06\n"])
def test_what_is_no_log(tmp_path: Path, raw: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_bytes(raw)
    for name, status in (("a", 1), ("none", 2), (".", 1)):
        assert tables.command([str(tmp_path / name)]) == status
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("the logs hold no measurement") == 3


NO_TIME = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def damaged(data: st.DataObject, kinds: list[str]) -> list[bytes]:
    lines = [line.encode() for line in WHOLE]
    for _ in range(data.draw(st.integers(1, 6))):
        index = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(kinds)):
            case "drop":
                del lines[index]
            case "double":
                lines.insert(other, lines[index])
            case "swap":
                lines[index], lines[other] = lines[other], lines[index]
            case "nul":
                place = data.draw(st.integers(0, len(lines[index])))
                lines[index] = lines[index][:place] + b"\0" + lines[index][place:]
            case "put":
                lines.insert(index, data.draw(st.binary(max_size=60)))
            case "cut":
                lines[index] = lines[index][:data.draw(st.integers(0, 30))]
            case _:
                place = data.draw(st.integers(0, len(lines[index])))
                lines[index] = (lines[index][:place] + data.draw(st.binary(max_size=3)) +
                                lines[index][place + data.draw(st.integers(0, 2)):])
    return lines


@NO_TIME
@given(data=st.data())
def test_lines_that_are_lost_doubled_or_moved_change_no_figure(
        tmp_path: Path, data: st.DataObject) -> None:
    """What is not left out is right, and what is left out was said."""
    lines = damaged(data, ["drop", "double", "swap", "nul"])
    joules, complaints = parse(tmp_path, b"\n".join(lines) + b"\n")
    assert joules.items() <= JOULES.items()
    assert complaints or joules == JOULES


@NO_TIME
@given(data=st.data())
def test_no_damage_makes_it_crash(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\n".join(damaged(data, ["drop", "double", "swap", "put", "cut", "bytes"])))
    found, complaints = tables.parse(path)
    schemes = tables.rows(found)
    if schemes:
        tables.tables(schemes)
        tables.tsv(schemes)
    for complaint in complaints:
        assert complaint.startswith(str(path)) and complaint.isprintable()


def test_the_tables_of_one_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"{line}\n" for line in WHOLE))
    assert tables.command([str(path), "--tsv", str(tmp_path / "a.tsv")]) == 0
    assert (tmp_path / "a.tsv").read_text().splitlines()[4] == "\t".join((
        "toy", "sk=3, pk=2, sl=9", "Verify", "288000", "0.003", "0.077", "0.000231", "1",
        "0.000000", tables.MEASURED))
    assert "\tTOTAL\t" in (tmp_path / "a.tsv").read_text()
    said = capsys.readouterr()
    assert said.err == "" and "231.000 µJ" in said.out and "77.0 to 77.0 mW" in said.out


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="0123456789-+. eE", max_size=20))
def test_a_sample_is_exact_or_refused(text: str) -> None:
    """No text makes a huge number, or takes long."""
    value = tables.sample(text)
    if re.fullmatch(r"[0-9]{1,7}[+-][0-9]{1,2}", text):
        mantissa, sign, exponent = re.split(r"([+-])", text)
        assert value == Fraction(f"{mantissa}e{sign}{exponent}")
    else:
        assert value is None


@pytest.mark.parametrize("seconds", ["10000-03", "10", "10.000 s", "10000 ms", "10s"])
def test_a_time_may_be_written_in_several_ways(seconds: str) -> None:
    """The manual shows no example, so all that are likely are understood."""
    assert Fraction(10036, 10**7) == tables.watts_of(["TimeStamp: 0", "5017-06", "5019-06", "end",
                                    f"Acquisition time: {seconds}", "Number of samples: 2",
                                    "PowerShield > Acquisition completed"])


# ---------------------------------------------------------------- what is printed

def row(name: str, operation: str, joules: str, runs: int = 4, spread: str = "0.01",
        kem: bool = False) -> tables.Row:
    about = tables.Board(96_000_000, name, 1, 1, int(kem), 1)
    return tables.Row(about, operation, runs, Fraction(1000), Fraction(1), Fraction(joules),
                      Fraction(spread))


def test_tables_are_sorted_and_what_is_missing_comes_last() -> None:
    schemes = {
        "slow": {"Verify": row("slow", "Verify", "0.02"), "Sign": row("slow", "Sign", "0.001")},
        "lost": {"Sign": row("lost", "Sign", "0.0001", 1)},
        "fast": {"Verify": row("fast", "Verify", "0.003", 2, "0.2"),
                 "Sign": row("fast", "Sign", "2")},
        "b": {name: row("b", name, "2", kem=True) for name in ("Total", "KeyGen")},
        "a": {name: row("a", name, joules, kem=True)
              for name, joules in (("Decaps", "4"), ("Total", "1"), ("KeyGen", "3"))}}
    said = tables.tables(schemes)
    order = [line.split()[0] for line in said if line.split()[:1] and line.split()[0] in schemes]
    assert order == ["fast", "slow", "lost", "a", "b"]
    fast, = (line for line in said if line.startswith("fast"))
    assert fast.split() == ["fast", "-", "2.000", "J", "3.000", "mJ", "-", "2-4", "20.0%"]
    lost, = (line for line in said if line.startswith("lost"))
    assert lost.split() == ["lost", "-", "100.000", "µJ", "-", "-", "1", "-"]
    a, = (line for line in said if line.startswith("a "))
    assert a.split() == ["a", "3.000", "J", "-", "4.000", "J", "1.000", "J", "4", "1.0%"]
    assert schemes["a"]["Total"].board.sizes == "sk=1, pk=1, ct=1, ss=1"
    assert any(tables.MEASURED in line for line in said)


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=100))
def test_what_is_shown_changes_no_terminal(raw: bytes) -> None:
    shown = tables.printable(raw)
    assert shown.isascii() and shown.isprintable()
