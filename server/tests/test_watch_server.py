"""Tests `udpserver --watch FILE --exec PROGRAM`.

tests/storm compares the states with the truth. Here the real server
runs, and the programs that it starts."""

import itertools
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from spec.model import heartbeat
from tools.agents import VEHICLE
from tools.programs import PATIENCE, ROOT, free_port, started, wait_until
from tools.servers import Server, command

TICK = 50  # ms
NAMES = """
[dumpulse]
tick = 50ms
warn = 1s
crit = 2s
[3]
name = engine
value = 10..120
"""
CHANGE = re.compile(r"udpserver: variable (\d+ ?.*): ([a-z-]+), was ([a-z-]+); number \d+")
# Writes what it was told, in one piece, so that lines of several programs do not mix.
TELLS = """
import os, sys
given = " ".join(sys.argv[1:])
known = " ".join(os.environ["DUMPULSE_" + key] for key in ("VARIABLE", "NAME", "WAS", "IS",
                                                           "NUMBER"))
assert given == known, (given, known)
os.write(os.open(os.path.dirname(os.path.abspath(__file__)) + "/told",
                 os.O_WRONLY | os.O_CREAT | os.O_APPEND),
         (" ".join(sys.argv[1:5]) + "\\n").encode())
"""


def run(*arguments: str | bytes) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), *arguments], capture_output=True, text=True,
                          timeout=PATIENCE)


class Watched:
    """A server that watches, in a folder with its file of names and its program."""

    def __init__(self, folder: Path, program: str = TELLS, names: str = NAMES,
                 more: tuple[str, ...] = ()) -> None:
        self.folder = folder
        (folder / "names.ini").write_text(names)
        (folder / "program").write_text(f"#!{sys.executable} -IS\n{program}")
        (folder / "program").chmod(0o755)
        self.server = Server("--tick", str(TICK), "--watch", str(folder / "names.ini"), "--exec",
                             str(folder / "program"), *more)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.server.kill()

    def beat(self, variable: int, value: int = 50) -> None:
        self.beaten = time.monotonic()
        self.socket.sendto(heartbeat(variable, 1, value), ("127.0.0.1", self.server.port))

    def beat_until(self, variable: int, value: int, condition: Callable[[], object]) -> None:
        """Beats again and again: a change of the state must not depend on how fast this runs."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.server.stderr.lines
            self.beat(variable, value)
            time.sleep(TICK / 1000)

    def logged(self) -> list[str]:
        """The changes that the server has logged, as the program gets them."""
        found = (CHANGE.fullmatch(line) for line in self.server.stderr.lines)
        return [f"{each[1]} {each[3]} {each[2]}" for each in found if each]

    def told(self) -> list[str]:
        path = self.folder / "told"
        return path.read_text().splitlines() if path.exists() else []

    def children(self) -> list[str]:
        """The states of the server's children, as the kernel has them. Z is a zombie."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = path.read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == self.server.process.pid:
                found.append(state)
        return found


MISSING = "[dumpulse]\nwarn=1s\ncrit=1s\n[3]\n"
IN_RANGE = "[dumpulse]\ntick = 50ms\nwarn = 100s\n[3]\nvalue = 0..9\n"


def watching(folder: Path, script: str, names: str) -> list[str]:
    """The options of a server that watches variable 3, and tells a shell's script."""
    (folder / "names.ini").write_text(names)
    (folder / "program").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "program").chmod(0o755)
    return ["--watch", str(folder / "names.ini"), "--exec", str(folder / "program")]


def check_chain(changes: list[str]) -> None:
    """Each change of a variable begins with the state that the one before ended with."""
    for before, after in itertools.pairwise(changes):
        assert after.split()[-2] == before.split()[-1], changes


def test_a_node_speaks_falls_silent_and_comes_back(tmp_path: Path) -> None:
    with Watched(tmp_path) as watched:
        watched.beat_until(3, 50, lambda: "3 engine waiting alive" in watched.told()
                           or "3 engine missing alive" in watched.told())
        wait_until(lambda: watched.told()[-1].endswith(" dead"), "it is dead")
        assert time.monotonic() - watched.beaten > 1.8  # crit, less two ticks
        dead = len(watched.told())
        watched.beat_until(3, 50, lambda: watched.told()[dead:] == ["3 engine dead alive"])
        watched.beat_until(3, 9, lambda: "3 engine alive out-of-range" in watched.told())
        watched.beat_until(3, 10, lambda: "3 engine out-of-range alive" in watched.told())
        wait_until(lambda: watched.told() == watched.logged(), "all changes were told")
        check_chain(watched.told())
        wait_until(lambda: watched.children() == [], "no child is left")
        watched.server.stop()
    assert "late" in "".join(watched.told())


def test_a_node_that_restarts_is_told(tmp_path: Path) -> None:
    """It is a change with a number. Its state stays. What the state file has is no restart."""
    options: dict[str, Any] = {"names": f"{NAMES}boots = 40\n",
                               "more": ("--state", f"{tmp_path / 'state'}")}

    def restarts(*expected: str) -> bool:
        said = "udpserver: variable 3 engine: restarted, was "
        lines = [line.removeprefix(said) for line in watched.server.stderr.lines if said in line]
        changes = watched.server.stats()["changes"]
        return changes >= len(lines) and lines == list(expected) and \
            watched.told()[-len(lines):] == [f"3 engine {line.split(';')[0]} restarted"
                                             for line in lines]

    with Watched(tmp_path, **options) as watched:
        lines = []
        for number in (1, 2):
            watched.beat(40, 4 * 32 + 5)
            lines.append(f"waiting; number {number}; watchdog, boot 5")
            wait_until(lambda: restarts(*lines), "each boot is logged and told")
            time.sleep(2 * TICK / 1000)
        assert watched.server.stop()["changes"] == 2
    with Watched(tmp_path, **options) as watched:
        watched.beat_until(3, 50, lambda: watched.logged()[-1:] == ["3 engine waiting alive"])
        watched.beat(40, 1 * 32)
        wait_until(lambda: restarts("alive; number 4; power-up, boot 0"), "the boot is told")
        watched.beat_until(3, 9, lambda: watched.logged()[-1:] == ["3 engine alive out-of-range"])
        watched.server.stop()


def test_the_program_of_the_manual(tmp_path: Path) -> None:
    """A name may begin with a hyphen, and a variable may have none."""
    manual = (ROOT / "server" / "udpserver.8").read_text()
    (script,) = re.findall(r"^(#!/bin/sh\n.*?)^\.EE$", manual, re.M | re.S)
    for name, content in (("program", script.replace("\\-", "-")),
                          ("logger", "#!/bin/sh\necho \"$@\"\n")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    for named, said in (("-x", "-x"), ("", "variable 3")):
        done = subprocess.run([tmp_path / "program", "3", named, "late", "dead"], text=True,
                              env={"PATH": f"{tmp_path}"}, capture_output=True, check=True)
        assert done.stdout == f"-p daemon.err -- {said} is dead\n"


def test_a_program_has_standard_error_where_the_server_has_none(tmp_path: Path) -> None:
    """Else the first file that the program opens would get its errors."""
    options = watching(tmp_path, 'readlink /proc/$$/fd/2 >"${0%/*}/found"', IN_RANGE)
    port, found = free_port(socket.SOCK_DGRAM), tmp_path / "found"
    with started("bash", "-c", 'exec "$@" 2>&-', "bash", *command(), port, "--tick", "50", *options,
                 stdout=subprocess.DEVNULL) as process, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        def told() -> bool:
            sender.sendto(heartbeat(3, 1, 5), ("127.0.0.1", port))
            return found.exists() and found.read_text() != ""

        wait_until(told, "the program has standard error")
        assert found.read_text() == "/dev/null\n"
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_what_a_program_leaves_running_holds_nobody_up(tmp_path: Path) -> None:
    left = tmp_path / "left"
    leaves = f"""
import os, time
if os.fork() == 0:
    for one in range(3):
        os.close(one)
    open({str(left)!r}, "a").write(f"{{os.getpid()}}\\n")
    time.sleep(1000)
"""
    with Watched(tmp_path, program=leaves + TELLS) as watched:
        watched.beat_until(3, 50, lambda: len(watched.told()) >= 1)
        watched.beat_until(3, 9, lambda: watched.told()[-1].endswith(" out-of-range"))
        wait_until(lambda: watched.children() == [], "the server has no children")
        check_chain(watched.told())
        assert watched.server.stop()["not_told"] == 0
        wait_until(left.exists, "a program has left a process")
        for pid in left.read_text().split():
            os.kill(int(pid), signal.SIGKILL)  # it still runs


def test_a_program_gets_nothing_of_the_server(tmp_path: Path) -> None:
    """No socket, no lock of the state, no blocked or ignored signal, no input. Both its outputs go
    to the log. No shell sees the arguments."""
    options = watching(tmp_path, "ls -l /proc/$$/fd\necho \"name: $2\"\n"
                       "grep 'Sig[BI]' /proc/self/status\necho end >&2",
                       f"{MISSING}name = a (b) ÄÖ")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2000, before[1]))  # now 1500 is a descriptor, too
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as left_open, \
            socket.socket(fileno=os.dup2(left_open.fileno(), 1500)), \
            Server(*options, "--state", str(tmp_path / "state"),
                   pass_fds=[left_open.fileno(), 1500]) as server:
        wait_until(lambda: "end" in server.stderr.lines, "the program runs")
        lines = server.stderr.lines
        assert "name: a (b) ÄÖ" in lines
        signals = [int(line.split()[1], 16) for line in lines if line.startswith("Sig")]
        # glibc itself leaves 32 and 33 ignored, which it keeps for threads.
        assert len(signals) == 2 and not any(each & ~(0b11 << 31) for each in signals), lines
        files = dict(re.findall(r" (\d+) -> (.*)", "\n".join(lines)))
        assert files.pop("0") == "/dev/null" and files.pop("1") == files.pop("2")
        assert set(files.values()) <= {options[-1]}  # The shell opens this itself.
        server.stop()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_program_gets_no_capabilities_of_the_server(tmp_path: Path) -> None:
    """A drop-in may give the server some, which its children would inherit."""
    options = watching(tmp_path, "grep Cap /proc/self/status\necho end", MISSING)
    # This root has no power of its own.
    some = ["setpriv", "--securebits=+noroot", "--inh-caps=-all,+net_admin",
            "--ambient-caps=-all,+net_admin"]
    with Server(*options, wrap=some) as server:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert re.findall(r"CapEff:\s*0+1000\n", status)  # the server keeps its own
        wait_until(lambda: "end" in server.stderr.lines, "the program runs")
        sets = dict(re.findall(r"(Cap\w+):\s*(\w+)", "\n".join(server.stderr.lines)))
        assert int(sets["CapEff"], 16) == int(sets["CapPrm"], 16) == int(sets["CapAmb"], 16) == 0
        server.stop()


@pytest.mark.parametrize("names, line, said", [
    ("name = x", 1, "a section comes first"), ("[3]\nname", 2, "neither a section"),
    ("[64]", 1, "a section is [dumpulse] or a variable"), ("[3", 1, "a section is"),
    ("[]", 1, "a section is"), ("[0000000003]", 1, "a section is"),
    ("[3]\n\n[0x3]", 3, "began in line 1"), ("[3]\nspeed = 1", 2, "key does not exist"),
    ("[dumpulse]\nname = x", 2, "use tick, now-from"), ("[3]\ntick = 1s", 2, "use name, warn"),
    ("[3]\nwarn = 5x", 2, "this is not a time"), ("[3]\nwarn = 0", 2, "is not a time"),
    ("[3]\nwarn = 1.s", 2, "is not a time"), ("[3]\nwarn = 0.4ms", 2, "is not a time"),
    ("[3]\nwarn = 1.0000000", 2, "is not a time"), ("[3]\nwarn = 0000000001", 2, "is not a time"),
    ("[3]\nwarn = 100001h", 2, "is not a time of at most 100000 h"),
    ("[dumpulse]\ntick = 2h", 2, "of at most 1 h"),
    ("[3]\nwarn = 5s\nwarn = 5s", 3, "warn is given twice"),
    ("[3]\nvalue = 9", 2, "a range"), ("[3]\nvalue = 9..8", 2, "a range"),
    ("[3]\nvalue = 0..256", 2, "a range"), ("[3]\nvalue = 0..0x1g", 2, "a range"),
    ("#\n[3]\nvalue = 1..9\nvalue-warn = 0..9", 2, "value-warn is not within value"),
    ("[3]\nvalue-warn = 5..5\nvalue = 6..9", 1, "value-warn is not within value"),
    ("[3]\nvalue-warn = 2..10\nvalue = 1..9", 1, "value-warn is not within value"),
    ("[3]\nexpect = maybe", 2, "neither yes nor no"),
    ("[3]\nname = a;b", 2, "a name has only"), ("[3]\nname = 33-4", 2, "needs a letter"),
    (f"[3]\nname = {'é' * 25}", 2, "at most 24"), ("[3]\nname =", 2, "needs a letter"),
    ("[3]\nname = a\u202eb", 2, "a byte of it"), ("[3]\nname = a\u0085b", 2, "a byte of it"),
    ("[3]\nname = $(reboot)", 2, "a name has only"), ('[3]\nname = "a"', 2, "a name has only"),
    ("\xff\xfe[3]".encode("latin-1").decode(errors="surrogateescape"), 1, "a byte of it"),
    ("[3]\nname = x\n[4]\nname = x", 4, "another variable has this name"),
    ("[3]\nname = x\n  y = 3", 3, "is indented"),
    ("[3]\nWARN = 65470.5", 1, "warn, 65470500 ms, is longer than crit, 65470000 ms"),
    ("\n[dumpulse]\nwarn = 60s\ncrit = 50s\n[3]", 2, "is longer than crit"),
    ("[3]\ncrit = 65471s", 1, "can never be seen: with this tick, ages end at 65471000 ms"),
    ("[3]\n[dumpulse]\ntick = 100ms", 3, "but --tick is 1000"),
    ("[dumpulse]\nnow-from = 64\n[3]", 2, "not a variable from 0 to 63"),
    ("[3]\nboots = 64", 2, "not a variable from 0 to 63"),
    ("[3]\nboots = 3", 1, "boots must be another"), ("[4]\n[3]\nboots = 4", 2, "boots must be"),
    ("[3]\nboots = 9\n[4]\nboots = 9", 1, "boots must be"),
    ("[3]\n# \0", 2, "a byte of it"), ("[3]\nname = a\n\x7f", 3, "a byte of it"),
])
def test_a_mistake_is_named_with_its_line(tmp_path: Path, names: str, line: int, said: str) -> None:
    path = tmp_path / "names.ini"
    path.write_bytes(names.encode(errors="surrogateescape"))
    done = run("--watch", str(path))
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert re.fullmatch(rf"udpserver: .*names.ini, line {line}: .*\n", done.stderr), done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("arguments, said", [
    (["--watch", "HERE"], "HERE: it has no section of a variable that is expected"),
    (["--watch", "/nowhere"], "cannot read /nowhere: No such file"),
    (["--watch", "/dev/null"], "it is not a regular file"), (["--watch", "/"], "not a regular"),
    (["--watch", "FIFO"], "it is not a regular file"), (["--watch", "LONG"], "than 65536 bytes"),
    (["--watch", ""], "must be the name of a file"), (["--watch"], "needs a value"),
    (["--exec", "/bin/true"], "give --watch FILE"),
    (["--watch", VEHICLE, "--exec", ""], "--exec must be the name of a file"),
    (["--watch", VEHICLE, "--exec", "/bin/true x"], "and no arguments"),
    (["--watch", VEHICLE, "--exec", "/"], "it is not a program"),
    (["--watch", VEHICLE, "--exec", VEHICLE], "Permission denied"),
])
def test_what_cannot_be_watched_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "HERE").write_text("[dumpulse]\n[3]\nexpect = no\n")
    (tmp_path / "LONG").write_text("[3]\n" + "#" * 65533)
    os.mkfifo(tmp_path / "FIFO")
    done = run(*(str(tmp_path / each) if each.isupper() else each for each in arguments))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert said.replace("HERE", str(tmp_path / "HERE")) in done.stderr, done.stderr


def test_a_long_path_is_said_to_its_end(tmp_path: Path) -> None:
    """A line feed in it breaks no line."""
    folder = tmp_path / ("long\n" * 30)
    folder.mkdir()
    (folder / "names.ini").write_text("[3")
    said = run("--watch", str(folder / "names.ini")).stderr
    assert said.count("\n") == 1 and "long?/names.ini, line 1: a section is" in said
    said = run("--watch", VEHICLE, "--exec", str(folder / "lamp")).stderr
    assert said.count("\n") == 1 and "long?/lamp: No such file" in said


def test_the_longest_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "names.ini").write_text("\ufeff[3]\r\n" + "#" * (65536 - 8))
    assert (tmp_path / "names.ini").stat().st_size == 65536
    with Server("--watch", str(tmp_path / "names.ini")) as server:
        server.stop()


def test_the_servers_own_variable_is_not_watched(tmp_path: Path) -> None:
    """It is recorded before a report, so it would be dead as soon as nobody asks."""
    with Watched(tmp_path, names=f"{NAMES}[4]\n", more=("--self", "4")) as watched:
        wait_until(lambda: watched.told() == ["3 engine waiting missing"], "the other one is told")
        assert "watching 1 variable of" in watched.server.stderr.lines[0]
        assert watched.server.stop()["changes"] == 1


@pytest.mark.parametrize("journal", [True, False])
def test_severities_in_the_journal_and_time_in_a_file(tmp_path: Path, journal: bool) -> None:
    (tmp_path / "names.ini").write_text("[3]\nwarn = 1s\ncrit = 1s\n")
    log = tmp_path / "log"
    with log.open("w") as opened:
        about = os.fstat(opened.fileno())
        stream = f"{about.st_dev}:{about.st_ino if journal else 1}"
        with started(*command(), "--watch", str(tmp_path / "names.ini"), "0", stderr=opened,
                     stdout=subprocess.DEVNULL, env={**os.environ, "JOURNAL_STREAM": stream}):
            wait_until(lambda: "missing, was" in log.read_text(), "an alarm is logged")
    time_of = "" if journal else time.strftime("%Y-%m-%dT[0-9:]{8}Z ", time.gmtime())
    for severity, word, text in ((6, "info", "watching"), (4, "warning", "variable 3: missing")):
        begin = f"<{severity}>" if journal else f"{time_of}{word}: "
        assert re.search(f"^{begin}udpserver: {text}", log.read_text(), re.M), log.read_text()
