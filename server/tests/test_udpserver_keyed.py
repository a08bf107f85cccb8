"""Tests udpserver --key over real sockets, against the roles of spec/keyed.py.

DUMPULSE_SERVER names another command to test, as in test_udpserver.py."""

import errno
import functools
import os
import re
import signal
import socket
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from spec import keyed
from spec.keyed import Hearer, Keys, Reader, chaskey12, question
from spec.model import REQUEST, heartbeat
from tools.programs import PATIENCE, built, wait_until
from tools.servers import Namespace, Server, Talker, command, lasting

MASTER = bytes(range(16))
KEYS = Keys(MASTER)
READERS = keyed.READER_LABEL
ASK = keyed.question(READERS)


def write_key(path: Path, text: str | bytes = MASTER.hex() + "\n", mode: int = 0o600) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


# The fingerprint of the key begins with these digits.
NUMBERS = f"table.{chaskey12(MASTER, bytes((255,)) * 16)[:4].hex()}.numbers"
GENERATIONS_AT, SUM_AT, SIZE = 32, 97, 101


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    """A key and its first numbers."""
    options = ["--key", str(write_key(tmp_path / "key")), "--state", str(tmp_path / "table")]
    assert run(*options, "--key-is-new") == (
        0, [f"made {tmp_path}/{NUMBERS}: start the server without --key-is-new"])
    return options


def run(*arguments: str, program: list[str] | None = None,
        **environment: str) -> tuple[int, list[str]]:
    """Runs a server that must end by itself. Returns its status and what it says."""
    done = subprocess.run([*(program or command()), *arguments], capture_output=True, text=True,
                          timeout=PATIENCE, check=False, env={**os.environ, **environment})
    assert done.stdout == "" and MASTER.hex() not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("udpserver: ")]
    return done.returncode, [line.partition(": ")[2] for line in lines]


class Peer(Talker):
    """Asks for beacons and reports."""

    def beacon(self, label: int = READERS) -> bytes:
        self.send(question(label))
        beacon = self.answer()
        epoch_of(beacon, label)
        return beacon

    def new_node(self, variable: int) -> Hearer:
        """A node whose epoch has just begun, so that what it sends now comes before its end."""
        node = Hearer(KEYS, variable)
        node.hear(self.beacon(variable))
        while not node.hear(self.beacon(variable)):
            time.sleep(0.1)  # the server answers only some a second
        return node

    def report(self, reader: Reader, nonce: bytes = b"no") -> list[bytes]:
        """Returns the entries of a report. Beacons may come before it."""
        self.send(reader.request(nonce))
        report = self.answer()
        while len(report) == 8:
            report = self.answer()
        assert reader.check(report)
        return [report[at:at + 4] for at in range(8, 264, 4)]

    def is_silent(self) -> bool:
        """Has nothing come? The server has taken all that was sent before."""
        taken = self.server.stats()["packets"]
        with Peer(self.server) as other:
            other.send(b"")
            self.server.wait_for(lambda now: now["packets"] > taken, "an empty packet is taken")
        return not self.has_answer()


@pytest.fixture
def server(options: list[str]) -> Iterator[Server]:
    with Server(*lasting(options)) as server:
        yield server


@pytest.fixture
def peer(server: Server) -> Iterator[Peer]:
    with Peer(server) as peer:
        yield peer


def node(variable: int, beacon: bytes) -> Hearer:
    """Knows the epoch of this beacon, which is that of the readers, as if it were its own."""
    node = Hearer(KEYS, variable)
    assert node.hear(KEYS.beacon(variable, epoch_of(beacon)))
    return node


def reader(beacon: bytes) -> Reader:
    reader = Reader(KEYS)
    assert reader.hear(beacon)
    return reader


def epoch_of(beacon: bytes, label: int = READERS) -> int:
    epoch = int.from_bytes(beacon[4:], "big") & keyed.EPOCH_LAST
    assert beacon == KEYS.beacon(label, epoch)
    return epoch


def wrong_tag(number: int, kind: int = 0x80) -> bytes:
    """A packet that needs a tag, and has a wrong one."""
    return number.to_bytes(4, "big") + bytes((kind + number % 64 * (kind != 0xC0), 255, 1, 1))


def block_of(tmp_path: Path) -> int:
    """The block that is stored."""
    return int.from_bytes((tmp_path / NUMBERS).read_bytes()[16:20], "big")


# ---- Arguments and the file of the key ------------------------------------------------------

@pytest.mark.parametrize("arguments, mention", [
    (["--key"], "--key needs a value"), (["--key="], "--key must be the name of a file"),
    (["--key", "key"], "give --state FILE, too"),
    (["--also-unkeyed", "5"], "give --key FILE, too"), (["--key-is-new"], "give --key FILE, too"),
    (["--key-to-date"], "give --key FILE, too"),
    (["--key=/nonexistent/key", "--state=s"], "cannot read --key /nonexistent/key: No such file")])
def test_wrong_arguments(arguments: list[str], mention: str) -> None:
    status, (line,) = run(*arguments)
    assert status == 2 and mention in line


def with_lines(text: str) -> bytes:
    return MASTER.hex().encode() + b"\n" + text.encode()


@pytest.mark.parametrize("text", [
    b"", b"\n", MASTER.hex()[:-1].encode(), MASTER.hex()[:-1].encode() + b"\n",
    MASTER.hex().encode() + b"0", MASTER.hex().encode() + b"0\n", MASTER.hex().encode() + b"\r\n",
    b" " + MASTER.hex().encode(), b"0x" + MASTER.hex().encode(),
    b"g" + MASTER.hex()[1:].encode(), MASTER.hex()[1:].encode() + b"/", bytes(32), MASTER * 2,
    b"0" * 100000, *(b"a" * at + bytes((wrong,)) + b"b" * (31 - at) + b"\n"
                     for at in (0, 15, 31) for wrong in b"/:@AFG`g\xff")])
def test_what_is_no_key(tmp_path: Path, text: bytes) -> None:
    key = write_key(tmp_path / "key", text)
    assert run(f"--key={key}", f"--state={tmp_path}/table") == (2, [
        f"cannot use --key {key}: it has no master key, which is one line of 32 digits 0-9a-f: "
        "dumpulse key show FILE prints what it has"])
    assert os.listdir(tmp_path) == ["key"]


GENERATION = "after the key, each line has a variable from 0 to 63 or 'readers', once each, a " \
    "space, and the generation of its key from 0 to 255; or it is like 'epoch 10'"
SECONDS = "the line with epoch has its seconds from 1 to 3600, and comes once"


@pytest.mark.parametrize("text, why", [
    *((text, GENERATION) for text in (
        "\n", " ", "7\n", "7 \n", " 7 2\n", "7  2\n", "7 2", "7 2 \n", "7 2\n\n", "7 2\r\n",
        "7\t2\n", "07 2\n", "7 02\n", "64 1\n", "128 1\n", "7 256\n", "7 1000\n", "-1 1\n",
        "7 -1\n", "7 +1\n", "7 2\n7 2\n", "7 2\n8 1\n7 3\n", "7 2\n# lost\n", "7 2\0\n", "7:2\n",
        "readers 256\n", "readers 1\nreaders 2\n", "4294967303 1\n", "epoch\n", "epochs 10\n",
        " epoch 10\n", "".join(f"{variable} 255\n" for variable in range(64)) + "0")),
    *((text, SECONDS) for text in (
        "epoch 0\n", "epoch 3601\n", "epoch 010\n", "epoch 10 \n", "epoch 10\nepoch 10\n",
        "7 2\nepoch \n", "epoch 10"))])
def test_a_wrong_line_below_the_key(tmp_path: Path, text: str, why: str) -> None:
    """The last one."""
    key = write_key(tmp_path / "key", with_lines(text))
    line = 1 + len(text.splitlines())
    assert run(f"--key={key}", f"--state={tmp_path}/table") == (2, [
        f"cannot use --key {key}, line {line}: {why}"])


@pytest.mark.parametrize("text", [
    MASTER.hex(), MASTER.hex() + "\n", MASTER.hex() + "\n7 2\n0 0\nreaders 0\n63 255\n", with_lines(
        "".join(f"{variable} {255 - variable}\n" for variable in range(63, -1, -1))).decode()])
def test_what_is_a_key(options: list[str], tmp_path: Path, text: str) -> None:
    write_key(tmp_path / "key", text, 0o400)
    with Server(*options) as server, Peer(server) as peer:
        assert epoch_of(peer.beacon()) > 0
        server.stop()


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o777])
def test_others_may_not_use_the_file(tmp_path: Path, mode: int) -> None:
    key = write_key(tmp_path / "key", mode=mode)
    status, (line,) = run(f"--key={key}", f"--state={tmp_path}/table")
    assert status == 2 and f"cannot use --key {key}: other users may use it" in line


@pytest.mark.parametrize("before", [
    ["--key"], ["--key=none", "--key-before=none", "--key-until"], ["--self"],
    ["--watch"], ["--stats"], ["--bind"], [], ["--nothing"]])
def test_a_key_in_the_wrong_place(before: list[str]) -> None:
    """It must not get into the log."""
    for text in (MASTER.hex(), MASTER.hex().upper(), f"none/{MASTER.hex()}0"):
        status, (line,) = run("--state", "none/table", *before[:-1], *(
            [f"{before[-1]}={text}"] if before else [text]))
        assert status in (1, 2) and MASTER.hex()[:31] not in line.lower()
        assert before != ["--key"] or "give the name of its file" in line or "/" in text


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        status, (line,) = run(f"--key={path}", f"--state={tmp_path}/table")
        assert status == 2 and line == f"cannot use --key {path}: it is not a regular file"


def test_the_epoch_that_nodes_were_told(options: list[str], tmp_path: Path) -> None:
    """It is in the file of the key."""
    with Server(*options) as server:
        server.says("a new epoch each 10 s; packets")
    write_key(tmp_path / "key", with_lines("7 1\nepoch 3600\n"))
    with Server(*options) as server:
        server.says("a new epoch each 3600 s; packets")
        server.stop()


def test_whose_file_it_may_be(tmp_path: Path) -> None:
    """Root's and the server's own. A test that is not root's can only try the second."""
    key = write_key(tmp_path / "key")
    arguments = [f"--key={key}", f"--state={tmp_path}/none/table", "0"]
    assert "No such file" in run(*arguments)[1][0]  # the key is right, and the folder is not there
    if os.geteuid() == 0:
        os.chown(key, 65534, 65534)
        status, (line,) = run(*arguments)
        assert status == 2 and "it must belong to root, or to the user" in line


def test_a_credential_of_systemd(options: list[str], tmp_path: Path) -> None:
    """systemd shows the user's right to read as the group's. Elsewhere, that is the group's."""
    (tmp_path / "credentials").mkdir()
    key = write_key(tmp_path / "credentials" / "key", mode=0o440)
    folder = str(tmp_path / "credentials")
    arguments = [f"--key={key}", *options[2:], "--key-is-new", "0"]
    assert "is there: leave out" in run(*arguments, CREDENTIALS_DIRECTORY=folder)[1][0]
    for other in (folder[:-1], folder + "/key", str(tmp_path / "x"), ""):
        assert run(*arguments, CREDENTIALS_DIRECTORY=other)[0] == 2
    for mode in (0o460, 0o450, 0o444, 0o442, 0o441):
        key.chmod(mode)
        assert run(*arguments, CREDENTIALS_DIRECTORY=folder)[0] == 2


# ---- Numbers --------------------------------------------------------------------------------

def test_without_numbers_it_does_not_begin(tmp_path: Path) -> None:
    arguments = [f"--key={write_key(tmp_path / 'key')}", f"--state={tmp_path}/table"]
    for _ in range(2):
        status, (line,) = run(*arguments, "0")
        assert status == 1 and line.startswith(
            f"{tmp_path}/{NUMBERS} is not there: if this key was never used, run this once "
            "with --key-is-new; ")
    assert run(*arguments, "--key-is-new")[0] == 0
    before = (tmp_path / NUMBERS).read_bytes()
    # The first block is the date's: one for each 900 s since 2020.
    assert abs(block_of(tmp_path) - (time.time() - 1577836800) // 900) <= 1
    status, (line,) = run(*arguments, "--key-is-new")
    assert status == 1 and f"{NUMBERS} is there: leave out --key-is-new" in line
    assert (tmp_path / NUMBERS).read_bytes() == before


def test_numbers_that_are_cut_or_changed_anywhere(options: list[str], tmp_path: Path) -> None:
    """Cut off at each byte, and with another bit."""
    numbers = tmp_path / NUMBERS
    whole = numbers.read_bytes()
    assert len(whole) == SIZE and zlib.crc32(whole[:-4]) == int.from_bytes(whole[-4:], "big")
    torn = [whole[:at] for at in range(len(whole))] + [whole + b"\0", bytes(SIZE)] + [
        whole[:at] + bytes((whole[at] ^ 1 << at % 8,)) + whole[at + 1:]
        for at in range(len(whole))]
    step = 1 if "DUMPULSE_SERVER" not in os.environ else 20  # a start in valgrind takes its time
    for content in torn[::step]:
        numbers.write_bytes(content)
        status, (line,) = run(*options, "0")
        wrong = "of another version" if content[:11] == whole[:11] and \
            content[11:12] not in (b"", whole[11:12]) else "damaged"
        assert status == 1 and (f"numbers is {wrong}: " in line or
                                "another program" in line), (content, line)
        assert numbers.read_bytes() == content
    numbers.write_bytes(torn[50])
    assert run(*options, "--key-is-new")[0] == 0
    assert (tmp_path / "table.retired").read_bytes() == torn[50]


def test_another_key_meanwhile(options: list[str], tmp_path: Path) -> None:
    """Key A, key B, and A again within seconds: nothing that A has taken is taken again, and the
    numbers of A are those that it had."""
    other = ["--key", str(write_key(tmp_path / "other", bytes(15).hex() + "01\n")), *options[2:]]
    with Server(*lasting(options)) as server, Peer(server) as peer:
        first = peer.beacon()
        old = node(3, first).heartbeat(3, 4)
        peer.send(old)
        server.wait_for(lambda now: now["heartbeats"] == 1, "it is taken")
        server.stop()
    numbers = (tmp_path / NUMBERS).read_bytes()
    status, (line,) = run(*other, "0")
    assert status == 1 and re.search(r"table\.[0-9a-f]{8}\.numbers is not there: ", line)
    assert run(*other, "--key-is-new")[0] == 0
    with Server(*lasting(other)) as server:
        server.stop()
    status, (line,) = run(*options, "--key-is-new")
    assert status == 1 and "leave out --key-is-new" in line
    assert (tmp_path / NUMBERS).read_bytes() == numbers
    with Server(*lasting(options)) as server, Peer(server) as peer:
        assert epoch_of(peer.beacon()) // 256 == epoch_of(first) // 256 + 1
        peer.send(old)
        assert server.wait_for(lambda now: now["tag"] == 1, "it is refused")["heartbeats"] == 0
        server.stop()


def test_a_clock_that_is_too_far_ahead(options: list[str], tmp_path: Path) -> None:
    """A year. Nothing is skipped, until somebody says that the clock is right: a moment later, it
    may be a year ahead again."""
    clock = tmp_path / "clock"
    for year in (1, 2):
        clock.write_text(f"{year * 365 * 86400}")
        before = block_of(tmp_path)
        server = functools.partial(run, *options, program=[built("build/udpserver-calls")],
                                   CLOCK=str(clock))
        status, lines = server("0")
        assert status == 1 and re.fullmatch(
            rf"the clock is 36[45] days ahead of {tmp_path}/{NUMBERS}, and epochs of 1[45]\d days "
            "may be skipped now: set it; or if it is right, run this once with --key-to-date",
            lines[-1])
        assert block_of(tmp_path) == before
        assert server("--key-to-date") == (
            0, [f"{tmp_path}/{NUMBERS} is at the date: start the server without --key-to-date"])
        assert block_of(tmp_path) >= before + 364 * 96
        with noted(lasting(options), CLOCK=str(clock))[0] as running:
            running.stop()


def test_numbers_of_another_key_and_the_table_are_damaged_numbers(options: list[str],
                                                                  tmp_path: Path) -> None:
    with Server(*options) as server:
        server.stop()
    write_key(tmp_path / "key", bytes(15).hex() + "01\n")
    assert run(*options, "--key-is-new")[0] == 0
    (made,) = (path for path in tmp_path.glob("*.numbers") if path.name != NUMBERS)
    for name in (NUMBERS, "table"):
        made.write_bytes((tmp_path / name).read_bytes())
        assert f"{made.name} is damaged: " in run(*options, "0")[1][0]


def test_somebody_elses_file_stays(options: list[str], tmp_path: Path) -> None:
    for name in (NUMBERS, "table.new", "table.retired"):
        path = tmp_path / name
        before = path.read_bytes() if path.exists() else None
        path.write_text("my diary")
        if name == "table.retired":
            (tmp_path / NUMBERS).write_bytes(b"Dumpulse")
        status, lines = run(*options, "0" if name != "table.retired" else "--key-is-new")
        assert status == 1 and "another program" in lines[-1] and path.read_text() == "my diary"
        path.unlink()
        if before is not None:
            path.write_bytes(before)


def test_two_servers_cannot_share_the_numbers(options: list[str], server: Server) -> None:
    for more in ((), ("--key-is-new",)):
        status, (line,) = run(*options, *more, "0")
        assert status == 1 and re.search("another server uses it|is there: leave out", line)
    Path(options[3]).with_name(NUMBERS).unlink()
    status, (line,) = run(*options, "--key-is-new")
    assert status == 1 and "another server uses it" in line
    server.stop()


def test_numbers_of_a_later_server_stay(options: list[str], tmp_path: Path) -> None:
    """Somebody removes the lock, so that a second server can start and use larger numbers. The
    first one must not write its smaller ones over them."""
    with Server(*lasting(options)) as first:
        generations(first, tmp_path, "3 1\n", has_new_key(3, 1))
        first.process.send_signal(signal.SIGSTOP)  # If it ran, it would make the lock again.
        (tmp_path / "table.lock").unlink()
        with Server(*lasting(options)) as second:
            second.stop()
        later = (tmp_path / NUMBERS).read_bytes()
        first.process.send_signal(signal.SIGCONT)
        generations(first, tmp_path, "3 2\n", has_new_key(3, 2))
        first.says("cannot write state")
        assert (tmp_path / NUMBERS).read_bytes() == later
        first.stop()
    assert "cannot write state: " + str(tmp_path / NUMBERS) + ": another server has used " \
        "larger numbers: start this one again" in "\n".join(first.stderr.all())


def test_whose_files_root_makes(tmp_path: Path) -> None:
    """Those of the folder's owner, who runs the server. Else they are its user's anyway."""
    folder = tmp_path / "state"
    folder.mkdir()
    owner = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(folder, owner, -1)
    status, _ = run(f"--key={write_key(tmp_path / 'key')}", f"--state={folder}/table",
                    "--key-is-new")
    assert status == 0
    assert {path.name: path.stat().st_uid for path in folder.iterdir()} == {
        NUMBERS: owner, "table.lock": owner}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("suffix", [".lock", ".new"])
def test_root_gives_nobody_the_files_of_others(tmp_path: Path, suffix: str) -> None:
    """Whoever owns the folder may have put them there."""
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, 65534, -1)
    path = folder / f"table{suffix}"
    path.write_text("for root alone")
    path.chmod(0o600)
    status, lines = run(f"--key={write_key(tmp_path / 'key')}", f"--state={folder}/table",
                        "--key-is-new")
    assert status == 1 and "another program" in lines[-1]
    assert path.read_text() == "for root alone" and path.stat().st_uid == 0


# ---- Packets --------------------------------------------------------------------------------

def test_version_1_is_refused(server: Server, peer: Peer) -> None:
    """With no answer, like packets of other lengths. A keyed reader sees that nothing has changed.
    """
    server.says("packets without a key are rejected")
    peer.send(*(heartbeat(variable, 1, 2) for variable in range(64)), REQUEST,
              b"", ASK[:7], ASK + b"\0", bytes(264), bytes(65507))
    assert peer.is_silent()
    counters = server.stats()
    assert (counters["magic"], counters["length"]) == (65, 6)  # one is of is_silent()
    assert peer.report(reader(peer.beacon())) == [bytes(4)] * 64
    counters = server.stop()
    assert (counters["beacons"], counters["reports"]) == (1, 1)


def test_variables_without_a_key(options: list[str], tmp_path: Path) -> None:
    """They are accepted in version 1 only, and all others in version 2 only. Their version 2 is
    refused without a look at its tag. The limits on heartbeats and the watch are as without."""
    (tmp_path / "names").write_text("[3]\nname = old\nauthenticated = no\n")
    with Server(*lasting(options), "--also-unkeyed", "3,7-12", "--self", "0:7", "--watch",
                f"{tmp_path}/names", "--allow-heartbeats", "127.0.0.1") as server, \
            Peer(server) as peer, Peer(server, source="127.0.0.9") as stranger:
        server.says("packets without a key are accepted, without authentication, of variables: "
                    "3,7-12")
        beacon = peer.beacon()
        peer.send(*(heartbeat(variable, 1, variable) for variable in range(64)),
                  *(node(variable, beacon).heartbeat(2, variable) for variable in range(64)))
        stranger.send(heartbeat(3, 9, 9))
        counters = server.wait_for(lambda now: now["packets"] == 130, "all are counted")
        assert (counters["heartbeats"], counters["magic"], counters["not_allowed"]) == (
            64, 57 + 7, 1)
        listed = (3, *range(7, 13))
        assert [entry[2:] for entry in peer.report(reader(beacon))] == [b"\x07\0"] + [
            bytes((1 if variable in listed else 2, variable)) for variable in range(1, 64)]
        server.says("variable 3 old: alive")
        peer.send(REQUEST, *(question(variable) for variable in listed), bytes(4) + b"\x83\1\1\1",
                  heartbeat(3, 1, 1)[:-1] + b"\0")
        assert peer.is_silent()
        counters = server.stop()
    assert (counters["magic"], counters["checksum"], counters["tag"]) == (64 + 9, 1, 0)


@pytest.mark.parametrize("text", [
    "", ",", "5,", ",5", "5,,6", "64", "5-64", "-5", "5-", "7-3", "3-5-7", "5 6", " 5", "5, 6",
    "+5", "0x5", "5.", "none", "all", "3,-7", "18446744073709551621", "5\n", "--key"])
def test_what_is_no_list_of_variables(text: str) -> None:
    for arguments in ([f"--also-unkeyed={text}"], ["--also-unkeyed", text]):
        assert run("--key=k", "--state=s", *arguments) == (2, [
            "--also-unkeyed must be variables from 0 to 63, like 5,6 or 3,7-12, not "
            f"'{text}'".replace("\n", "?")])


@pytest.mark.parametrize("text, means", [
    ("0", "0"), ("63", "63"), ("5,6", "5-6"), ("0-63", "0-63"), ("6,5,5", "5-6"),
    ("3,7-12", "3,7-12"), ("62-63,0", "0,62-63"), ("1-1,9-9", "1,9"), ("0-62", "0-62")])
def test_a_list_of_variables(options: list[str], text: str, means: str) -> None:
    with Server(*options, "--also-unkeyed", text) as server:
        server.says(f"without authentication, of variables: {means}")
        assert sum(line.endswith(f": {means}") for line in server.stderr.lines) == 1
        server.stop()


def test_its_own_value_shows_what_is_wrong(options: list[str], tmp_path: Path) -> None:
    """Guesses in the last epoch, and a state that cannot be written: so `check` shows both."""
    write_key(tmp_path / "key", with_lines("epoch 2\n"))
    with Server(*options, "--self", "0", "--state-every", "1") as server, Peer(server) as peer:
        asking = reader(peer.beacon())

        def value() -> int:
            asking.hear(peer.beacon())
            time.sleep(0.05)  # an epoch has 255 requests
            peer.send(asking.request(b"no"))
            answer = peer.answer()
            return answer[11] if asking.check(answer) else -1  # another epoch has begun

        def wait_for(*values: int) -> None:
            wait_until(lambda: value() in values, f"the value is one of {values}")

        wait_for(0)
        peer.send(*(bytes(4) + bytes((0x80 + variable, 255, 1, 1))
                    for _ in range(10) for variable in range(1, 64)))
        server.says("packets had wrong tags in the last epoch: tags are being guessed, or a node")
        wait_for(9, 10)
        server.says("fewer than 256 packets had wrong tags in the last epoch")
        wait_for(0)
        (tmp_path / "table").write_bytes(b"somebody else's")
        wait_for(128)
        (tmp_path / "table").unlink()
        wait_for(0)
        counters = server.stop()
    assert (counters["tag"], counters["epoch_tags"]) == (630, 0)


def test_who_may_ask_and_send(options: list[str]) -> None:
    """Everybody may ask for any beacon: nodes have to."""
    with Server(*lasting(options), "--allow", "127.0.0.1",
                "--allow-heartbeats", "127.0.0.2") as server, \
            Peer(server) as asks, Peer(server, source="127.0.0.2") as sends:
        assert server.stderr.lines[-1] == "udpserver: reports to 127.0.0.1 with the readers' key"
        beacon = asks.beacon()
        assert sends.beacon() == beacon and asks.beacon(63) == KEYS.beacon(63, epoch_of(beacon))
        one, two = node(1, beacon), node(2, beacon)
        asks.send(one.heartbeat(1, 1), two.heartbeat(1, 1))
        sends.send(one.heartbeat(1, 2), two.heartbeat(3, 3))
        sends.send(reader(beacon).request(b"no"))
        server.wait_for(lambda now: now["not_allowed"] == 3, "three are refused")
        entries = asks.report(reader(beacon))
        assert [entry[2:] for entry in entries[1:3]] == [b"\1\2", b"\3\3"]
        server.stop()


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_beacons_leave_from_the_address_that_was_asked(options: list[str], wildcard: str) -> None:
    """Both those that answer, and those that follow a heartbeat: answer() takes no others."""
    with Server(*lasting(options, 2), "--bind", wildcard) as server, \
            Peer(server, "127.0.0.3") as peer:
        one = peer.new_node(1)
        peer.send(one.heartbeat(1, 1))
        assert one.hear(peer.answer())
        server.stop()


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_a_node_that_sends_to_everybody_gets_beacons(options: list[str], wildcard: str) -> None:
    """No beacon can leave from the address that it sends to."""
    with Server(*lasting(options, 2), "--bind", wildcard) as server, \
            Peer(server, "127.255.255.255") as peer:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        everybody, here = peer.there, ("127.0.0.1", server.port)
        peer.there = here
        one = peer.new_node(1)
        for _ in range(2):
            peer.there = everybody
            peer.send(one.heartbeat(1, 2))
            peer.there = here
            assert one.hear(peer.answer())
        assert server.stop()["heartbeats"] == 2


# ---- Epochs ---------------------------------------------------------------------------------

def test_a_silent_node_is_forgotten(options: list[str]) -> None:
    """After 3 epochs, nobody sends beacons to where it was."""
    with Server(*lasting(options, 2)) as server, Peer(server) as peer:
        one = peer.new_node(1)
        peer.send(one.heartbeat(1, 1))
        assert one.hear(peer.answer())
        time.sleep(1.5)  # 3 epochs end between the third beacon and the fourth.
        peer.send(one.heartbeat(1, 2))
        peer.socket.settimeout(5)  # a beacon would come each 2 s
        with pytest.raises(TimeoutError):
            for _ in range(4):
                assert one.hear(peer.answer())
        server.stop()


def test_a_beacon_that_finds_no_room_does_not_leave_from_elsewhere(options: list[str]) -> None:
    """The next one comes from the address that the node knows."""
    with noted([*lasting(options, 2), "--bind", "0.0.0.0"], UNTOLD=f"{errno.EAGAIN}")[0] \
            as server, Peer(server, "127.0.0.2") as peer:
        one = peer.new_node(5)
        peer.send(one.heartbeat(1, 1))
        assert one.hear(peer.answer())


def noted(options: list[str], *more: str, **environment: str) -> tuple[Server, dict[str, str]]:
    """A server that writes down its calls."""
    calls = {**os.environ, **environment}
    return Server(*options, *more, program=[built("build/udpserver-calls")], env=calls), calls


def test_one_file_is_saved_after_the_other(options: list[str], tmp_path: Path) -> None:
    """A number is to be stored while a thread saves the table to a slow disk, and so it is at the
    end: both wait for the thread."""
    calls = tmp_path / "calls"
    server = noted(lasting(options), CALLS=str(calls), SLOW="700")[0]
    with server, Peer(server) as peer:
        one = node(1, peer.beacon())

        def change(value: int) -> None:
            def saves() -> int:
                return calls.read_text().count("table.new\n")
            before = saves()
            peer.send(one.heartbeat(1, value))
            wait_until(lambda: saves() > before, "the thread saves the table")

        change(1)
        generations(server, tmp_path, "7 1\n", "has read its files again")  # It has stored this.
        change(2)
        server.stop()
    order = re.findall(r"^(table\.new|rename)\n", calls.read_text(), re.M)
    assert order == ["table.new", "rename"] * (len(order) // 2)


@pytest.mark.slow
def test_with_the_readers_key_one_may_ask_from_anywhere(options: list[str]) -> None:
    """Also from an address that is not of this machine's loopback. It needs root."""
    with Namespace() as network:
        network.run("ip address add 10.77.0.1 dev lo")
        with network.entered(), Server(*lasting(options), "--bind", "10.77.0.1") as server, \
                Peer(server, "10.77.0.1") as peer:
            assert len(peer.report(reader(peer.beacon()))) == 64


# ---- Limits ---------------------------------------------------------------------------------

def test_a_machine_that_slept(options: list[str], tmp_path: Path) -> None:
    """For longer than an epoch, or the server was stopped: what was made before is refused. It
    notices that by itself, or when a packet comes."""
    slept, said = tmp_path / "slept", re.compile("stood still for 3[67][0-9]{2} s: all epochs beg")
    with noted(lasting(options), SLEPT=str(slept))[0] as server, Peer(server) as peer:
        beats = node(63, peer.beacon())
        late, later = beats.heartbeat(1, 1), beats.heartbeat(1, 2)
        slept.write_text("3000")
        peer.send(late)
        server.wait_for(lambda now: now["heartbeats"] == 1, "it is of this epoch")
        slept.write_text("6700")
        peer.send(later)
        counters = server.wait_for(lambda now: now["packets"] == 3, "it is counted")
        assert counters["heartbeats"] == counters["tag"] == 1
        assert peer.beacon(63) == KEYS.beacon(63, beats.epoch + 1)
        assert any(said.search(line) for line in server.stderr.lines)
        server.stop()
    slept.unlink()
    with noted(lasting(options, 65), SLEPT=str(slept))[0] as server:
        server.stats()
        slept.write_text("3700")
        wait_until(lambda: any(said.search(line) for line in server.stderr.lines), "it notices")
        server.stop()


def test_a_machine_that_sleeps_again_and_again(options: list[str]) -> None:
    """For less than an epoch each time, and between them it runs too shortly to go on by more than
    a label. What was made before is refused after three epochs at the latest."""
    with Server(*lasting(options, 2)) as server, Peer(server) as peer:
        held = peer.new_node(63).heartbeat(1, 1)
        for _ in range(4):
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(2)
            server.process.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        peer.send(held)
        assert server.wait_for(lambda now: now["tag"] == 1, "it is refused")["heartbeats"] == 0
        server.stop()


@pytest.mark.parametrize("host, source", [("127.0.0.1", "127.0.0.2"), ("::1", "")])
def test_wrong_tags_stop_nobody(options: list[str], host: str, source: str) -> None:
    """Each is looked at, and each right heartbeat is recorded meanwhile."""
    with Server(*lasting(options), "--bind", host) as server, Peer(server, host) as peer, \
            Peer(server, host, source=source) as attacker:
        nodes = [node(variable, peer.beacon()) for variable in range(10)]
        for number in range(40):
            attacker.send(*(wrong_tag(250 * number + one) for one in range(250)))
            for one in nodes:
                peer.send(one.heartbeat(1, number))
            server.wait_for(lambda now: now["packets"] + now["drops"] == 10 + 260 * (number + 1),
                            "all are counted")  # No buffer is full.
        counters = server.stats()
        assert counters["drops"] == counters["rate"] == 0 and counters["tag"] == 10000
        assert counters["heartbeats"] == 400
        beacon = peer.beacon()
        assert [entry[2:] for entry in peer.report(reader(beacon))[:10]] == [b"\x01\x27"] * 10
        server.stop()


@pytest.mark.parametrize("asked", [ASK, question(5), wrong_tag(1, 0xC0), b""])
def test_nobody_uses_up_the_answers_of_another(server: Server, asked: bytes) -> None:
    """Somebody sends 1000 questions or wrong requests with the address of a reader. Each gets 8
    bytes for 8, and the reader all of its 8 reports."""
    answers = 0
    with Peer(server, source="127.0.0.99") as peer, Peer(server, source="127.0.0.99") as forger:
        one = reader(peer.beacon())
        if not asked:
            peer.report(one)
            asked = KEYS.counted(READERS, one.epoch, 1, *b"no")
        before = server.stats()["beacons"]
        for number in range(1, 9):
            forger.send(*[asked] * 125)
            peer.report(one)
            while forger.has_answer():
                assert len(forger.answer()) == 8
                answers += 1
    counters = server.stop()
    assert counters["drops"] == 0 and counters["rate"] == 0
    assert answers == counters["beacons"] - before == 1000


@pytest.mark.parametrize("text, why", [
    (bytes(16).hex() + "\n7 2\n", "has another key: for that, start the server anew"),
    (MASTER.hex() + "\n7 2\nepoch 9\n", "sets an epoch of 9 s, but the epoch here is 10 s"),
    (MASTER.hex() + "\n7 1\n", "key: generation 1 of variable 7 there, which has had 2: an old")])
def test_a_reload_that_only_the_server_rejects(options: list[str], tmp_path: Path, text: str,
                                               why: str) -> None:
    """Its numbers belong to the key that it has. systemctl reload fails then, too."""
    names = tmp_path / "names"
    names.write_text("[3]")
    write_key(tmp_path / "key", with_lines("7 2\n"))
    options += ["--watch", f"{names}", "--stats", f"{tmp_path}/stats"]
    with Server(*options) as server, Peer(server) as peer:
        write_key(tmp_path / "key", text)
        names.write_text("[3]\n[4]")
        assert run(*options, "--check") == (0, [])
        assert run(*options, "--reload") == (1, [
            f"cannot use --stats {tmp_path}/stats: the server there has not read its files: its "
            "log has why"])
        server.says("; nothing has changed")
        assert why in server.stderr.lines[-1]
        epoch_of(peer.beacon())
        write_key(tmp_path / "key", with_lines("7 2\n"))
        assert run(*options, "--reload") == (0, [])
        assert server.stop()["reloads"] == 1


def test_all_mistakes_in_files_of_keys(options: list[str], tmp_path: Path) -> None:
    """--check prints them in one run. At the start and at SIGHUP, the first one is logged."""
    write_key(tmp_path / "key", with_lines("7 2\n7 3\nepoch 0\nepoch 9\n64 1\n"))
    write_key(tmp_path / "old", f"{bytes(16).hex()}\nreaders x\n")
    options += ["--key-before", f"{tmp_path}/old", "--key-until", "2099-01-01T00:00Z"]
    places = [re.findall(r"(--key[a-z-]*) \S*, line (\d+): ", line)
              for line in run(*options, "--check")[1]]
    assert places == [[("--key", line)] for line in "346"] + [[("--key-before", "2")]]
    status, (line,) = run(*options)
    assert status == 2 and "line 3: " in line


# ---- Generations ----------------------------------------------------------------------------

def generations(server: Server, tmp_path: Path, lines: str, said: str) -> None:
    """Gives keys these generations by SIGHUP."""
    write_key(tmp_path / "key", with_lines(f"{lines}epoch 3600\n"))
    server.process.send_signal(signal.SIGHUP)
    server.says(said)


def has_new_key(variable: int, generation: int) -> str:
    return f"variable {variable}: the key has generation {generation} from now on, and no older " \
        "one is accepted"


def test_no_key_is_new_if_another_file_is_wrong(options: list[str], tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("[3]\n")
    with Server(*lasting(options), "--watch", f"{names}") as server:
        names.write_text("x\n")
        generations(server, tmp_path, "7 1\n", "; nothing has changed")
        server.stop()
        assert not any("has generation" in line for line in server.stderr.all())


def test_one_node_gets_a_new_key(server: Server, peer: Peer, tmp_path: Path) -> None:
    """The old one is refused at once, and the other 63 nodes beat without a gap."""
    beacon = peer.beacon()
    others = [node(variable, beacon) for variable in range(64)]
    stolen = others.pop(7)
    renewed = Hearer(Keys(MASTER, generations={7: 1}), 7)
    peer.send(*(one.heartbeat(1, 1) for one in (stolen, *others)), *(
        stolen.heartbeat(1, 2) for _ in range(200)))
    generations(server, tmp_path, "7 1\n", has_new_key(7, 1))
    peer.send(question(7))
    assert renewed.hear(peer.answer()) and renewed.epoch == stolen.epoch
    for value in range(3):
        peer.send(*(one.heartbeat(2, value) for one in others), stolen.heartbeat(9, 9),
                  renewed.heartbeat(3, value))
    entries = peer.report(reader(beacon))
    assert [entry[2:] for entry in entries] == [b"\2\2"] * 7 + [b"\3\2"] + [b"\2\2"] * 56
    counters = server.stop()
    assert counters["heartbeats"] == 64 + 200 + 3 * 64 and counters["tag"] == 3


def test_readers_get_a_new_key(server: Server, peer: Peer, tmp_path: Path) -> None:
    """Whoever stole the old one gets no report, and the nodes go on."""
    old = reader(peer.beacon())
    peer.report(old)
    beats = node(7, KEYS.beacon(READERS, old.epoch))
    generations(server, tmp_path, "readers 1\n", "readers: the key has generation 1 from now on")
    peer.send(old.request(b"no"))
    renewed = Reader(Keys(MASTER, generations={READERS: 1}))
    assert renewed.hear(peer.answer())
    peer.send(beats.heartbeat(1, 5))
    assert peer.report(renewed)[7][3] == 5
    assert server.stop()["reports"] == 2


def test_no_generation_comes_back(options: list[str], tmp_path: Path) -> None:
    """Neither while the server runs nor at its start: an old copy of the file has keys that were
    stolen since."""
    write_key(tmp_path / "key", with_lines("7 2\n"))
    with Server(*lasting(options)) as server, Peer(server) as peer:
        server.says(has_new_key(7, 2))  # changed meanwhile
        for lines, has in (("7 1\n", 1), ("", 0), ("8 1\n", 0)):
            generations(server, tmp_path, lines, f"key: generation {has} of variable 7 there, "
                        "which has had 2: an old key must not be accepted again; nothing has "
                        "changed")
        hears = Hearer(Keys(MASTER, generations={7: 2}), 7)
        peer.send(question(7))
        assert hears.hear(peer.answer()) and peer.beacon(8)
        server.stop()
    stored = (tmp_path / NUMBERS).read_bytes()[GENERATIONS_AT:SUM_AT]
    assert stored == bytes(7) + b"\2" + bytes(57)
    status, (line,) = run(*options, "0")
    assert status == 1 and "generation 0 of variable 7 there, which has had 2: an old" in line


def test_generations_when_the_disk_is_full(options: list[str], tmp_path: Path) -> None:
    """The new key holds at once, and after a crash it is as new as it was. The log and the server's
    own value show that numbers cannot be stored."""
    full = tmp_path / "full"
    with noted([*lasting(options), "--self", "0"], FULL=str(full))[0] as server, \
            Peer(server) as peer:
        asking = reader(peer.beacon())
        old = node(9, peer.beacon())
        peer.send(old.heartbeat(1, 1))
        assert peer.report(asking)[0][3] == 0
        full.touch()
        generations(server, tmp_path, "9 1\n", has_new_key(9, 1))
        server.says("numbers cannot be stored: if that lasts for ")
        assert peer.report(asking)[0][3] == 128
        hears = Hearer(Keys(MASTER, generations={9: 1}), 9)
        peer.send(question(9))
        assert hears.hear(peer.answer())
        peer.send(hears.heartbeat(1, 1), old.heartbeat(1, 1))
        counters = server.wait_for(lambda now: now["tag"] == 1, "the old key is refused")
        assert counters["heartbeats"] == 2
        begun, failed = time.monotonic(), counters["failed_saves"]
        server.wait_for(lambda now: now["failed_saves"] >= failed + 6, "it tries again")
        assert time.monotonic() - begun > 1  # once a second
        server.kill()
    full.unlink()
    with Server(*lasting(options)) as server:
        server.says(has_new_key(9, 1))
        server.stop()
