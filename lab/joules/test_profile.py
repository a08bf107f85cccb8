"""lab/run profile: the times of single calls against a plain sum over them, and its limits."""

import array
import os
import re
import resource
import signal
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab.joules import profile, results
from lab.joules.measuring import Failed
from lab.joules.profile import OPERATIONS, Operation, program, report
from lab.joules.results import IDLE, WORK, Run, Times, Turn
from lab.joules.standins import hear_ctrl_c, moving
from tools.programs import ROOT, wait_until
from tools.tiers import tiered

RUN = Run("all", "J of all, net", "rapl: package-0", "here", "none", {}, "2020-01-01")


@pytest.mark.parametrize("name, calls", [("sha256", 2001), ("ecdsa-sign", 100),
                                         ("ecdsa-verify", 101), ("tcp-send", 300)])
def test_the_table_is_what_a_plain_sum_over_all_calls_gives(tmp_path: Path, name: str,
                                                            calls: int) -> None:
    operation = Operation(name, calls, "P-256", 7)
    try:
        operation.go()
        times = operation.times(tmp_path / "times")
    finally:
        operation.close()
    each = array.array("Q", (tmp_path / "times").read_bytes()).tolist()
    assert len(each) == times.calls == times.wanted == calls
    middle = statistics.median(each)
    assert (times.least, times.most, times.total) == (min(each), max(each), sum(each))
    assert times.median == pytest.approx(middle, abs=0.051)
    assert times.mad == pytest.approx(statistics.median(abs(one - middle) for one in each),
                                      abs=0.0051)
    assert times.mean == pytest.approx(statistics.fmean(each))
    assert times.total <= times.clock
    assert times.least > 100  # ns: nothing of this is done in less


def test_each_connection_is_closed() -> None:
    """With 16 descriptors at most there can be 1,000 messages."""
    said = subprocess.run([program(), "tcp-send", "1000", "prime256v1", "64"], input="\n\n",
                          capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))
    assert said.returncode == 0 and len(said.stdout.split()) == 1000 + 3, said


def test_a_descriptor_that_stays_open_is_a_fault(monkeypatch: pytest.MonkeyPatch,
                                                 tmp_path: Path) -> None:
    """The study's own fault, put in again."""
    text = profile.SOURCE.read_text()
    leaks = tmp_path / "profile.c"
    leaks.write_text(text.replace('recv(fd, &rest, 1, 0) == 0, "to be received");\n    close(fd);',
                                  'recv(fd, &rest, 1, 0) == 0, "to be received");'))
    assert leaks.read_text() != text
    monkeypatch.setattr(profile, "program", lambda: program(leaks, tmp_path))
    operation = Operation("tcp-send", 20, "P-256", 1)
    try:
        operation.go()
        with pytest.raises(Failed, match=r"had \d+ descriptors open before, and \d+ after"):
            operation.times()
    finally:
        operation.close()


def times(name: str, total: int, calls: int = 1000) -> Times:
    return Times(name, calls, calls, 1, 2.0, 0.5, 9, total, total + 50, "2020-01-01")


def turns(net: float, bound: float) -> list[Turn]:
    return [turn for pair in (0, 1) for turn in (
        Turn(pair, WORK, 100.0 + net / 2, 10.0, bound / 4, 1, 1000, ""),
        Turn(pair, IDLE, 100.0, 10.0, bound / 4, 1, 0, ""))]


def test_net_joules_are_shared_out_by_time() -> None:
    """8 J: three quarters of the time have 6 J, and 6 mJ a call."""
    said = report(RUN, turns(8.0, 1.0), [times("sha256", 10**9), times("ecdsa-sign", 3 * 10**9)])
    assert said[1].split()[-6:] == ["25.0%", "1.00", "2.000", "J", "2.000", "mJ"]
    assert said[2].split()[-6:] == ["75.0%", "3.00", "6.000", "J", "6.000", "mJ"]
    assert "Clock time 4.00 s, of which 4.00 s are accounted for (100.0%)." in said
    text = "\n".join(said)
    assert "measured with rapl: package-0: work 208.0 J, idle 200.0 J" in text
    assert "net 8.000 J in 20.0 s of work; the meter may be off by 1.000 J" in text
    assert "No interval: each operation was measured once." in text
    assert "Not measurable" not in text and max(map(len, said)) <= 100


def test_a_net_that_the_meter_cannot_see_is_said() -> None:
    both = [times("sha256", 10**9), times("ecdsa-sign", 3 * 10**9)]
    assert "Try 3.0 times the calls (16.00 J / 8.000 J x 1.5)" in report(
        RUN, turns(8.0, 16.0), both)[-1]
    assert report(RUN, turns(-8.0, 16.0), both)[-1].endswith("than the meter may be off.")


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "lab" / "run", "profile", *map(str, words)], capture_output=True,
                          text=True, check=False)


def test_the_command_prints_every_operation(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    said = command("--calls", 50, "--inputs", 8, "--results", file, "--at", tmp_path)
    assert said.returncode == 0, said
    for name in OPERATIONS:
        assert re.search(rf"^{name} +50 ", said.stdout, re.M)
    assert "no joules" in said.stderr and max(map(len, said.stdout.splitlines())) <= 100
    run, turns, kept = results.read(file)
    assert [one.operation for one in kept] == list(OPERATIONS) and turns == []
    assert run.meter == "none"


def test_with_a_meter_each_operation_has_its_idle_time(tmp_path: Path) -> None:
    """In turns. The counter moves by 20 W whatever is done, so the net is small."""
    file = tmp_path / "kept.jsonl"
    with moving(tmp_path / "sys", 20.0) as sys:
        said = command("--operations", "tcp-send,sha256", "--calls", 5000, "--results", file,
                       "--meter", "rapl", "--at", sys)
    assert said.returncode == 0, said
    run, kept, every = results.read(file)
    assert [(turn.pair, turn.turn) for turn in kept] == [(0, WORK), (0, IDLE), (1, IDLE), (1, WORK)]
    assert [one.operation for one in every] == ["tcp-send", "sha256"]
    for turn, one in ((kept[0], every[0]), (kept[3], every[1])):
        assert turn.calls == 5000 and turn.seconds * 1e9 >= one.clock
    assert "Joules are measured with rapl: package-0: work " in said.stdout
    assert re.search(r"^tcp-send +5,000 .*[ mµn]J +-?\d\S* [mµn]?J$", said.stdout, re.M)


def test_ctrl_c_keeps_the_operations_that_are_done(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    words = ["--operations", "sha256,ecdsa-verify", "--calls", "60000", "--results", str(file),
             "--at", str(tmp_path)]
    with subprocess.Popen([ROOT / "lab" / "run", "profile", *words], text=True,
                          start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=hear_ctrl_c) as process:
        assert process.stderr
        for line in process.stderr:
            if "verify: inputs" in line:
                break
        wait_until(lambda: '"sha256"' in file.read_text(), "the first operation")
        os.killpg(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "goes on" in errors, errors
    assert re.search(r"^sha256 +60,000 ", said, re.M)
    # The same file goes on; that a whole run of it takes long, this is not waited for.
    assert results.read(file)[2][0].operation == "sha256"


def test_an_operation_that_the_file_has_is_not_done_again(tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    words = ["--operations", "sha256,tcp-send", "--calls", 50, "--results", file, "--at", tmp_path]
    first = command(*words)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2]))  # A run that was stopped after the first has these.
    again = command(*words)
    assert "sha256: inputs" in first.stderr and "sha256: inputs" not in again.stderr
    assert first.stdout.splitlines()[1].split()[:7] == again.stdout.splitlines()[1].split()[:7]
    assert len(results.read(file)[2]) == 2
    other = command(*words, "--curve", "secp256k1")
    assert other.returncode == 2 and "has another run" in other.stderr


@pytest.mark.parametrize("java", tiered([False, True], lambda java: not java))
def test_the_examples_speak_the_protocol(tmp_path: Path, java: bool) -> None:
    file = tmp_path / "kept.jsonl"
    example = f"java {profile.SOURCE.with_name('Profile.java')}" if java else program()
    said = command("--with", example, "--operations", "sha256,ecdsa-sign,ecdsa-verify",
                   "--calls", 40, "--inputs", 8, "--results", file, "--at", tmp_path)
    assert said.returncode == 0, said
    for name, one in zip(("sha256", "ecdsa-sign", "ecdsa-verify"), results.read(file)[2]):
        assert re.search(rf"^{name} +40 ", said.stdout, re.M)
        assert one.calls == 40 and 100 < one.least <= one.median <= one.most <= one.clock


def test_a_program_that_does_not_speak_it_is_reported(tmp_path: Path) -> None:
    begins = "sh -c 'echo ready; read x; echo over"
    for number, (words, says) in enumerate((
            ("echo", "came instead of 'ready'"), ("/no/such", "cannot be started"),
            (r"printf '\377\n'", "xff"), (begins + " 0'", "ended in the midst"),
            (begins + " 9; read x; echo 0'", "gave 1 times of 40 calls, 0 ns"),
            (begins + " 9; read x; seq 41'", "gave 41 times of 40 calls"),
            (begins + " 9; read x; echo -3'", "gave no times"))):
        said = command("--with", words, "--operations", "x", "--results", tmp_path / str(number),
                       "--at", tmp_path, "--calls", 40)
        assert said.returncode == 1 and says in said.stderr, said


def test_a_program_that_ctrl_c_ends_was_stopped_and_did_not_fail() -> None:
    operation = Operation("x", 5, "P-256", 1, ["sh", "-c", "echo ready; read go; exit 130"])
    operation.stopped = True
    try:
        with pytest.raises(KeyboardInterrupt):
            operation.go()
    finally:
        operation.close()


@pytest.mark.parametrize("words, says", [
    (["--operations", "md5"], "there is no operation 'md5'"),
    (["--operations", "sha256,sha256"], "named twice"), (["--calls", "0"], "a number from 1"),
    (["--calls", "2000001"], "at most 2,000,000"), (["--inputs", "65537"], "at most 65,536"),
    (["--curve", "P-1"], "invalid choice"), (["--times", "/no/such"], "is no folder"),
    (["--meter", "rapl", "--at", "/no/such"], "has no counter of a processor"), (["x"], "unrec")])
def test_bad_arguments_are_refused(words: list[str], says: str, monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["lab/run profile", *words])
    with pytest.raises(SystemExit) as end:
        profile.main()
    assert end.value.code == 2 and says in " ".join(capsys.readouterr().err.split())
