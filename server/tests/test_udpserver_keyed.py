"""Tests udpserver --key over real sockets, against the roles of spec/keyed.py.

DUMPULSE_SERVER names another command to test, as in test_udpserver.py.
SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import copy
import os
import random
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
from spec.keyed import Agent, Hearer, Keys, Numbers, Reader, Sender
from spec.model import REQUEST, heartbeat
from tests.support.programs import INCLUDES, PATIENCE, ROOT, built, wait_until
from tests.support.servers import Server, Talker, command

MASTER = bytes(range(16))
KEYS = Keys(MASTER)
ASK = bytes(4) + b"\xc0\0\0\0"  # for a beacon
LONG = ("--epoch", "3600")


def write_key(path: Path, text: str | bytes = MASTER.hex() + "\n", mode: int = 0o600) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


# A tag of a label that the protocol does not have, in the order of its bytes.
NUMBERS = f"table.{KEYS.tag(255, 0, bytes(4))[:4].hex()}.numbers"


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

    def beacon(self) -> bytes:
        self.send(ASK)
        return self.answer()

    def wait_for_epoch(self) -> None:
        """Waits until an epoch has just begun, so that what is sent now comes before its end."""
        before = epoch_of(self.beacon())
        while epoch_of(self.beacon()) == before:
            time.sleep(0.1)  # the server answers only some a second

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
    with Server(*options, *LONG) as server:
        yield server


@pytest.fixture
def peer(server: Server) -> Iterator[Peer]:
    with Peer(server) as peer:
        yield peer


def node(variable: int, beacon: bytes) -> Hearer:
    node = Hearer(KEYS, variable)
    assert node.hear(beacon)
    return node


def reader(beacon: bytes) -> Reader:
    reader = Reader(KEYS)
    assert reader.hear(beacon)
    return reader


def epoch_of(beacon: bytes) -> int:
    assert beacon == KEYS.beacon(int.from_bytes(beacon[4:], "big"))
    return int.from_bytes(beacon[4:], "big")


def block_of(tmp_path: Path) -> int:
    """The block that is stored."""
    return int.from_bytes((tmp_path / NUMBERS).read_bytes()[16 + 3 * 65:][:3], "big")


# ---- Arguments and the file of the key ------------------------------------------------------

@pytest.mark.parametrize("arguments, mention", [
    (["--key"], "--key needs a value"), (["--key="], "--key wants the name of a file"),
    (["--key", "key"], "give --state FILE, too"),
    (["--epoch", "10"], "give --key FILE, too"), (["--keyed-only"], "give --key FILE, too"),
    (["--also-unkeyed"], "give --key FILE, too"), (["--key-is-new"], "give --key FILE, too"),
    (["--key=k", "--state=s", "--epoch", "0"], "--epoch must be a number from 1 to 3600"),
    (["--key=k", "--state=s", "--epoch", "3601"], "--epoch must be a number from 1 to 3600"),
    (["--key=k", "--state=s", "--keyed-only", "--also-unkeyed"], "give only one of them"),
    (["--key=k", "--state=s", "--xdp", "lo"], "--xdp cannot check tags: leave out --key"),
    (["--key=/nonexistent/key", "--state=s"], "cannot read --key /nonexistent/key: No such file")])
def test_wrong_arguments(arguments: list[str], mention: str) -> None:
    status, (line,) = run(*arguments)
    assert status == 2 and mention in line


def test_the_help_says_what_goes_with_a_key() -> None:
    """A newcomer sees there that a key also needs a state, and one run to make its numbers."""
    for program in ("udpserver", "canserver"):
        shown = subprocess.run([built(f"build/{program}"), "--help"], check=True,
                               capture_output=True, text=True).stdout
        about = {line.split()[0]: line[27:] for line in shown.splitlines() if line[:4] == "  --"}
        assert "needs --state" in about["--key"] and max(map(len, shown.splitlines())) < 80
        for name in ("--epoch", "--keyed-only", "--also-unkeyed"):
            assert about[name].startswith("with --key: ")
        assert about["--key-is-new"].startswith("once for each new --key")


@pytest.mark.parametrize("text", [
    b"", b"\n", MASTER.hex()[:-1].encode(), MASTER.hex()[:-1].encode() + b"\n",
    MASTER.hex().encode() + b"0", MASTER.hex().encode() + b"0\n", MASTER.hex().encode() + b"\r\n",
    MASTER.hex().encode() + b"\n\n", b" " + MASTER.hex().encode(), b"0x" + MASTER.hex().encode(),
    b"g" + MASTER.hex()[1:].encode(), MASTER.hex()[1:].encode() + b"/", bytes(32), MASTER * 2,
    b"0" * 100000, *(b"a" * at + bytes((wrong,)) + b"b" * (31 - at) + b"\n"
                     for at in (0, 15, 31) for wrong in b"/:@AFG`g\xff")])
def test_what_is_no_key(tmp_path: Path, text: bytes) -> None:
    key = write_key(tmp_path / "key", text)
    assert run(f"--key={key}", f"--state={tmp_path}/table") == (2, [
        f"cannot use --key {key}: it has no master key, which is one line of 32 digits 0-9a-f: "
        "dumpulse key show FILE says what it has"])
    assert os.listdir(tmp_path) == ["key"]


@pytest.mark.parametrize("text", [
    MASTER.hex(), MASTER.hex() + "\n"])
def test_with_and_without_a_newline(options: list[str], tmp_path: Path, text: str) -> None:
    write_key(tmp_path / "key", text, 0o400)
    with Server(*options) as server, Peer(server) as peer:
        assert epoch_of(peer.beacon()) > 0
        server.stop()


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o777])
def test_others_may_not_use_the_file(tmp_path: Path, mode: int) -> None:
    key = write_key(tmp_path / "key", mode=mode)
    status, (line,) = run(f"--key={key}", f"--state={tmp_path}/table")
    assert status == 2 and f"cannot use --key {key}: other users may use it" in line


@pytest.mark.parametrize("text", [MASTER.hex(), MASTER.hex().upper()])
def test_a_key_instead_of_its_file(text: str) -> None:
    """It must not get into the log. run() looks for that, too."""
    status, (line,) = run("--key", text, "--state", "table")
    assert status == 2 and text not in line and "give the name of its file" in line


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        status, (line,) = run(f"--key={path}", f"--state={tmp_path}/table")
        assert status == 2 and line == f"cannot use --key {path}: it is not a regular file"


def test_whose_file_it_may_be(tmp_path: Path) -> None:
    """Root's and the server's own. A test that is not root's can only try the second."""
    key = write_key(tmp_path / "key")
    arguments = [f"--key={key}", f"--state={tmp_path}/none/table"]
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
    arguments = [f"--key={key}", *options[2:], "--key-is-new"]
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
    # The first block is the date's: one for each 450 s since 2020.
    assert abs(block_of(tmp_path) - (time.time() - 1577836800) // 450) <= 1
    status, (line,) = run(*arguments, "--key-is-new")
    assert status == 1 and f"{NUMBERS} is there: leave out --key-is-new" in line
    assert (tmp_path / NUMBERS).read_bytes() == before


def test_numbers_that_are_cut_or_changed_anywhere(options: list[str], tmp_path: Path) -> None:
    """Cut off at each byte, and with another bit."""
    numbers = tmp_path / NUMBERS
    whole = numbers.read_bytes()
    assert len(whole) == 218 and zlib.crc32(whole[:-4]) == int.from_bytes(whole[-4:], "big")
    torn = [whole[:at] for at in range(len(whole))] + [whole + b"\0", bytes(218)] + [
        whole[:at] + bytes((whole[at] ^ 1 << at % 8,)) + whole[at + 1:]
        for at in range(0, len(whole), 7)]
    step = 1 if "DUMPULSE_SERVER" not in os.environ else 20  # a start in valgrind takes its time
    for content in torn[::step]:
        numbers.write_bytes(content)
        status, (line,) = run(*options, "0")
        assert status == 1 and ("numbers is damaged: " in line or
                                "somebody else's" in line), (content, line)
        assert numbers.read_bytes() == content
    numbers.write_bytes(torn[100])
    assert run(*options, "--key-is-new")[0] == 0
    assert (tmp_path / "table.retired").read_bytes() == torn[100]


def test_another_key_meanwhile(options: list[str], tmp_path: Path) -> None:
    """Key A, key B, and A again within seconds: nothing that A has taken is taken again, and the
    numbers of A are those that it had."""
    other = ["--key", str(write_key(tmp_path / "other", bytes(15).hex() + "01\n")), *options[2:]]
    alone = Sender(KEYS, 2, Numbers({2: 0x800000}))
    assert alone.begin()
    with Server(*options, *LONG) as server, Peer(server) as peer:
        first = peer.beacon()
        old = [packet or b"" for packet in (alone.announce(), alone.heartbeat(1, 2),
                                            node(3, first).heartbeat(3, 4))]
        peer.send(*old)
        server.wait_for(lambda now: now["heartbeats"] == 2, "both are taken")
        server.stop()
    numbers = (tmp_path / NUMBERS).read_bytes()
    status, (line,) = run(*other, "0")
    assert status == 1 and re.search(r"table\.[0-9a-f]{8}\.numbers is not there: ", line)
    assert run(*other, "--key-is-new")[0] == 0
    with Server(*other, *LONG) as server:
        server.stop()
    status, (line,) = run(*options, "--key-is-new")
    assert status == 1 and "leave out --key-is-new" in line
    assert (tmp_path / NUMBERS).read_bytes() == numbers
    with Server(*options, *LONG) as server, Peer(server) as peer:
        assert epoch_of(peer.beacon()) // 256 == epoch_of(first) // 256 + 1
        peer.send(*old)
        counters = server.wait_for(lambda now: now["old"] + now["tag"] == 3, "all are refused")
        assert counters["heartbeats"] == counters["announces"] == 0
        server.stop()


def test_numbers_under_the_name_of_another_key(options: list[str], tmp_path: Path) -> None:
    write_key(tmp_path / "key", bytes(15).hex() + "01\n")
    assert run(*options, "--key-is-new")[0] == 0
    made = next(path for path in tmp_path.glob("*.numbers") if path.name != NUMBERS)
    made.write_bytes((tmp_path / NUMBERS).read_bytes())
    assert f"{made.name} is damaged: " in run(*options, "0")[1][0]


def test_the_table_is_no_file_of_numbers(options: list[str], tmp_path: Path) -> None:
    with Server(*options) as server:
        server.stop()
    (tmp_path / NUMBERS).write_bytes((tmp_path / "table").read_bytes())
    assert f"{NUMBERS} is damaged" in run(*options, "0")[1][0]


def test_somebody_elses_file_stays(options: list[str], tmp_path: Path) -> None:
    for name in (NUMBERS, "table.new", "table.retired"):
        path = tmp_path / name
        before = path.read_bytes() if path.exists() else None
        path.write_text("my diary")
        if name == "table.retired":
            (tmp_path / NUMBERS).write_bytes(b"Dumpulse")
        status, lines = run(*options, "0" if name != "table.retired" else "--key-is-new")
        assert status == 1 and "somebody else's" in lines[-1] and path.read_text() == "my diary"
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
    alone = [Sender(KEYS, variable, Numbers({variable: 0x800000})) for variable in (2, 3)]
    assert alone[0].begin() and alone[1].begin()
    with Server(*options, *LONG) as first, Peer(first) as peer:
        peer.send(alone[0].announce())
        first.wait_for(lambda now: now["announces"] == 1, "an announce is stored")
        (tmp_path / "table.lock").unlink()
        with Server(*options, *LONG) as second:
            second.stop()
        later = (tmp_path / NUMBERS).read_bytes()
        peer.send(alone[1].announce())
        counters = first.wait_for(lambda now: now["tag"] == 1, "it cannot be stored")
        assert counters["announces"] == 1
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
    assert status == 1 and "somebody else's" in lines[-1]
    assert path.read_text() == "for root alone" and path.stat().st_uid == 0


# ---- Packets --------------------------------------------------------------------------------

def test_every_packet_has_the_outcome_that_the_model_has(options: list[str],
                                                         tmp_path: Path) -> None:
    """A stream of good, wrong, repeated and reordered packets of every kind. At most 60 need a tag
    to be refused, and none of these is an announce. At most 60 are answered with a beacon. More
    would meet the limits."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    agent = Agent(KEYS, Numbers({keyed.BEACON_LABEL: block_of(tmp_path)}))
    beacon = agent.begin()
    assert beacon is not None
    expected = dict.fromkeys(("heartbeats", "reports", "announces", "beacons", "magic", "old",
                              "tag"), 0)
    nodes = [node(variable, beacon) for variable in range(8)]
    alone = [Sender(KEYS, variable, Numbers({variable: 0x800000})) for variable in range(8, 16)]
    asking, sent, guesses = reader(beacon), [ASK], 60
    with Server(*options, *LONG) as server, Peer(server) as peer:
        assert peer.beacon() == beacon
        expected["beacons"] += 1
        for number in range(1500):
            sender = source.choice(alone)
            if sender.own == 0 or source.randrange(40) == 0:
                assert sender.begin()
                sent.append(sender.announce() or b"")
            packet = source.choice([
                *(one.heartbeat(number % 256, source.randrange(256)) for one in nodes[:2]),
                source.choice(nodes).heartbeat(1, 2), sender.heartbeat(7, number % 256),
                sender.announce(), asking.request(source.randbytes(2)) if number % 9 == 0 else None,
                source.choice(sent), source.choice(sent), sent[-1], heartbeat(1, 2, 3)]) or \
                source.choice(sent)
            sent.append(packet)
            if source.randrange(20) == 0:
                at = source.randrange(64)
                packet = packet[:at // 8] + bytes((packet[at // 8] ^ 1 << at % 8,)) + \
                    packet[at // 8 + 1:]
            before = copy.deepcopy(agent)
            outcome, answer = agent.process(0, packet)
            guessed, asks = outcome == keyed.WRONG_TAG, bool(answer) and outcome != keyed.REPORT
            if (guessed and (guesses == 0 or packet[4] >> 6 == 1)) or \
                    (asks and expected["beacons"] == 60):
                agent = before
                continue
            guesses -= guessed
            expected["beacons" if asks else
                     {keyed.REFUSED: "magic", keyed.OLD: "old", keyed.WRONG_TAG: "tag"}.get(
                         outcome, keyed.NAMES[outcome] + "s")] += 1
            peer.send(packet)
            if answer is not None:
                came = peer.answer()
                while came == beacon and outcome == keyed.REPORT:  # one that comes each second
                    came = peer.answer()
                assert len(came) == len(answer) and (len(came) == 264 or came == answer)
        total = sum(expected.values())
        counters = server.wait_for(lambda now: now["packets"] >= total, "all are counted")
        assert {name: counters[name] for name in expected} == expected
        assert counters["rate"] == 0 and all(expected.values()) and guesses < 45
        while asking.count <= agent.last[keyed.READER_LABEL]:
            asking.request(b"no")
        entries = peer.report(asking)
        assert [entry[2:] for entry in entries] == [entry[2:] for entry in agent.entries]
        assert server.stop()["failed_saves"] == 0
    stored = (tmp_path / NUMBERS).read_bytes()[16:-4]
    assert {label: int.from_bytes(stored[3 * label:][:3], "big") for label in range(66)} == {
        label: agent.numbers.load(label) for label in range(66)}


@pytest.mark.parametrize("packet", [b"", ASK[:7], ASK + b"\0", bytes(264), bytes(65507)])
def test_wrong_lengths(server: Server, peer: Peer, packet: bytes) -> None:
    peer.send(packet)
    assert peer.is_silent()
    assert server.stop()["length"] == 2


def test_version_1_is_refused(server: Server, peer: Peer) -> None:
    """With no answer. A keyed reader sees that nothing has changed."""
    peer.send(*(heartbeat(variable, 1, 2) for variable in range(64)), REQUEST)
    assert peer.is_silent()
    assert server.stats()["magic"] == 65
    assert peer.report(reader(peer.beacon())) == [bytes(4)] * 64
    server.stop()


def test_a_server_of_version_1_refuses_version_2() -> None:
    sender = Sender(KEYS, 1, Numbers({1: 0x800000}))
    assert sender.begin()
    beacon = KEYS.beacon(5)
    with Server() as server, Peer(server) as peer:
        peer.send(beacon, node(3, beacon).heartbeat(1, 2), sender.announce(),
                  sender.heartbeat(1, 2), reader(beacon).request(b"no"), ASK)
        assert peer.is_silent()
        counters = server.stop()
    assert counters["magic"] == 6 and "tag" not in counters


def test_both_versions_for_a_migration(options: list[str]) -> None:
    with Server(*options, *LONG, "--also-unkeyed", "--allow", "127.0.0.1",
                "--self", "0:7") as server, Peer(server) as peer, \
            Peer(server, source="127.0.0.9") as stranger:
        assert any("packets without a key are taken, too" in line for line in server.stderr.lines)
        wait_until(lambda: any("reports without a key to 127.0.0.1; " in line
                               for line in server.stderr.lines), "it says whom it answers")
        beacon = peer.beacon()
        peer.send(heartbeat(1, 10, 11), node(2, beacon).heartbeat(20, 21))
        entries = peer.report(reader(beacon))
        assert [entry[2:] for entry in entries[:4]] == [b"\7\0", b"\12\13", b"\24\25", bytes(2)]
        peer.send(REQUEST)
        report = peer.answer()
        assert len(report) == 260 and report[4:20] == b"".join(entries[:4])
        assert zlib.adler32(report[4:]) == int.from_bytes(report[:4], "big")
        stranger.send(REQUEST)
        assert stranger.is_silent()
        counters = server.stop()
    assert (counters["reports"], counters["not_allowed"]) == (2, 1)


def test_a_request_without_a_key_comes_at_its_own_time(options: list[str]) -> None:
    """Also after one with a key, which is answered at the same moment."""
    with Server(*options, *LONG, "--also-unkeyed", "--allow", "127.0.0.1", "--burst", "1",
                "--rate", "1") as server, Peer(server) as peer:
        beacon = peer.beacon()
        peer.send(REQUEST)
        assert len(peer.answer()) == 260
        time.sleep(1.5)
        server.process.send_signal(signal.SIGSTOP)
        peer.send(reader(beacon).request(b"no"), REQUEST)
        server.process.send_signal(signal.SIGCONT)
        assert {len(peer.answer()) for _ in range(2)} == {264, 260}
        server.stop()


def test_keyed_only_can_be_said(options: list[str]) -> None:
    with Server(*options, "--keyed-only") as server, Peer(server) as peer:
        assert any("packets without a key are refused" in line for line in server.stderr.lines)
        peer.send(heartbeat(1, 1, 1))
        assert peer.is_silent() and server.stop()["magic"] == 1


def test_who_may_ask_and_send(options: list[str]) -> None:
    """Everybody may ask for a beacon: nodes have to."""
    with Server(*options, *LONG, "--allow", "127.0.0.1",
                "--allow-heartbeats", "127.0.0.2") as server, \
            Peer(server) as asks, Peer(server, source="127.0.0.2") as sends:
        assert server.stderr.lines[-1] == "udpserver: reports to 127.0.0.1 with the readers' key"
        beacon = asks.beacon()
        assert sends.beacon() == beacon
        one, alone = node(1, beacon), Sender(KEYS, 2, Numbers({2: 0x800000}))
        assert alone.begin()
        asks.send(one.heartbeat(1, 1), alone.announce())
        sends.send(one.heartbeat(1, 2), alone.announce(), alone.heartbeat(3, 3))
        sends.send(reader(beacon).request(b"no"))
        server.wait_for(lambda now: now["not_allowed"] == 3, "three are refused")
        entries = asks.report(reader(beacon))
        assert [entry[2:] for entry in entries[1:3]] == [b"\1\2", b"\3\3"]
        server.stop()


def test_who_sends_is_named(options: list[str]) -> None:
    with Server(*options, "--log", "changes", *LONG) as server, Peer(server) as peer:
        beacon = peer.beacon()
        good = node(9, beacon).heartbeat(4, 5)
        alone = Sender(KEYS, 2, Numbers({2: 0x800000}))
        assert alone.begin() and good is not None
        peer.send(good, good, bytes(4) + b"\x80\1\1\1", alone.announce())
        server.wait_for(lambda now: now["announces"] == 1, "all are taken")
        server.stop()
    assert [line.partition("127.0.0.1: ")[2] for line in server.stderr.all()[3:8]] == [
        "first request that a beacon answers", "first heartbeat, variable 9 from sender 4",
        "refused: a count or number that is not larger than the last one",
        "refused: a wrong tag: another key, another epoch, or forged", "first announce"]


def test_other_options_go_with_a_key(options: list[str], tmp_path: Path) -> None:
    """The watch, the table over a restart, and the server's own variable."""
    names = tmp_path / "names.ini"
    names.write_text("[dumpulse]\nwarn = 10min\ncrit = 20min\n[3]\nname = battery\n")
    more = (*options, *LONG, "--watch", str(names), "--self", "5:9", "--tick", "100")
    with Server(*more) as server, Peer(server) as peer:
        beacon = peer.beacon()
        peer.send(node(3, beacon).heartbeat(1, 2))
        wait_until(lambda: any("variable 3 battery: alive, was waiting" in line
                               for line in server.stderr.lines), "it is alive")
        before = peer.report(reader(beacon))
        server.stop()
    with Server(*more) as server, Peer(server) as peer:
        after = peer.report(reader(peer.beacon()))
        assert after[3] == before[3] and after[5][2:] == b"\x09\0"
        now = int(time.time() * 10)
        assert (now - int.from_bytes(after[5][:2], "big")) % 65536 < 10 * PATIENCE
        server.stop()


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_beacons_leave_from_the_address_that_was_asked(options: list[str], wildcard: str) -> None:
    """Both those that answer, and those that follow a heartbeat: answer() takes no others."""
    with Server(*options, "--bind", wildcard) as server, Peer(server, "127.0.0.3") as peer:
        beacon = peer.beacon()
        peer.send(node(1, beacon).heartbeat(1, 1))
        assert epoch_of(peer.answer()) >= epoch_of(beacon)
        server.stop()


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_a_node_that_sends_to_everybody_gets_beacons(options: list[str], wildcard: str) -> None:
    """No beacon can leave from the address that it sends to."""
    with Server(*options, "--bind", wildcard, "--epoch", "1") as server, \
            Peer(server, "127.255.255.255") as peer:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        everybody, here = peer.there, ("127.0.0.1", server.port)
        peer.there = here
        one = node(1, peer.beacon())
        for _ in range(2):
            peer.there = everybody
            peer.send(one.heartbeat(1, 2))
            peer.there = here
            while not one.hear(peer.answer()):
                pass
        assert server.stop()["heartbeats"] >= 2


# ---- Epochs ---------------------------------------------------------------------------------

def test_a_node_follows_the_epochs_after_its_first_heartbeat(options: list[str]) -> None:
    """It asks once, and then gets beacons by itself: one a second, at the tick, too. Nobody else
    gets one. In each epoch, what was sent in the one before is refused."""
    with Server(*options, "--epoch", "1") as server, Peer(server) as peer, Peer(server) as other:
        other.wait_for_epoch()
        asked = server.stats()["beacons"]
        one, two = node(1, peer.beacon()), Hearer(KEYS, 2)
        assert two.hear(other.beacon())
        old = one.heartbeat(1, 1)
        for _ in range(3):
            peer.send(one.heartbeat(1, 2), one.heartbeat(1, 3))
            while not one.hear(peer.answer()):
                pass
            peer.send(one.heartbeat(1, 4), old)
            old = one.heartbeat(1, 5)
        assert other.is_silent()
        counters = server.stop()
        assert counters["beacons"] == asked + 2 and counters["heartbeats"] >= 6
        assert counters["tag"] + counters["old"] >= 3


def test_a_silent_node_is_forgotten(options: list[str]) -> None:
    """After 3 epochs, nobody sends beacons to where it was. Nodes that only send get none."""
    with Server(*options, "--epoch", "1") as server, Peer(server) as peer, Peer(server) as deaf:
        alone = Sender(KEYS, 2, Numbers({2: 0x800000}))
        assert alone.begin()
        deaf.send(alone.announce(), alone.heartbeat(1, 1))
        peer.wait_for_epoch()
        peer.send(node(1, peer.beacon()).heartbeat(1, 1))
        assert peer.answer()
        peer.socket.settimeout(1.5)  # beacons come each second
        with pytest.raises(TimeoutError):
            for _ in range(10):
                peer.answer()
        assert deaf.is_silent()
        server.stop()


def test_nothing_is_taken_again_after_kills(options: list[str], tmp_path: Path) -> None:
    """The server is killed at any moment, also while it starts. An attacker keeps every packet, and
    sends all of them again after each start. No epoch begins twice, and nothing is taken twice."""
    source = random.Random(27)
    kept: list[bytes] = []
    alone = Sender(KEYS, 2, Numbers({2: 0x800000}))
    epochs: list[int] = []
    for round in range(12):
        starting = subprocess.Popen([*command(), *options, "0"], stderr=subprocess.DEVNULL)
        time.sleep(source.random() / 100)
        starting.kill()
        starting.wait()
        with Server(*options, *LONG) as server, Peer(server) as peer:
            peer.send(*kept)
            server.wait_for(lambda now: now["packets"] >= len(kept), "all were refused")
            counters = server.stats()
            assert counters["heartbeats"] == counters["reports"] == counters["announces"] == 0
            while peer.has_answer():  # the requests got beacons
                peer.answer()
            beacon = peer.beacon()
            epochs.append(epoch_of(beacon))
            hears, asks = node(1, beacon), reader(beacon)
            assert alone.begin()
            packets = [hears.heartbeat(1, round), alone.announce(), alone.heartbeat(2, round)]
            if round % 3 == 0:
                packets += [alone.heartbeat(2, round), hears.heartbeat(1, round)]
            peer.send(*packets)
            entries = peer.report(asks)
            assert entries[1][2:] == bytes((1, round)) and entries[2][2:] == bytes((2, round))
            kept += [packet for packet in packets if packet is not None]
            kept += [asks.asked[1]] if asks.asked else []
            server.kill()
    assert epochs == sorted(set(epochs))
    assert all(later // 256 > earlier // 256 for earlier, later in zip(epochs, epochs[1:]))


def noted(options: list[str], *more: str, **environment: str) -> tuple[Server, dict[str, str]]:
    """A server that writes down its calls."""
    calls = {**os.environ, **environment}
    return Server(*options, *more, program=[built("build/udpserver-calls")], env=calls), calls


STORED = f"{NUMBERS}\ntable.new\nwrite-file\nfsync-file\nrename\n\nfsync-directory\n"


def test_a_number_is_on_the_disk_before_it_is_used(options: list[str], tmp_path: Path) -> None:
    """The new file, its name, and the folder. Only then the first beacon and an announce count."""
    calls = tmp_path / "calls"
    with noted(options, *LONG, CALLS=str(calls))[0] as server, Peer(server) as peer:
        peer.beacon()
        begun = calls.read_text()
        assert begun.endswith(STORED)
        alone = Sender(KEYS, 2, Numbers({2: 0x800000}))
        assert alone.begin()
        peer.send(alone.announce())
        server.wait_for(lambda now: now["announces"] == 1, "the announce is taken")
        assert calls.read_text()[len(begun):].replace("ppoll 0 0.000000000\n", "") == \
            STORED
        server.stop()


def test_a_disk_that_is_full(options: list[str], tmp_path: Path) -> None:
    """No number, no epoch: nothing is taken, and all goes on when there is room."""
    full = tmp_path / "full"
    full.touch()
    with noted(options, *LONG, FULL=str(full))[0] as server, Peer(server) as peer:
        wait_until(lambda: any("no new epoch can begin: until a number can be stored, it takes "
                               "nothing" in line for line in server.stderr.lines), "it says so")
        alone = Sender(KEYS, 2, Numbers({2: 0x800000}))
        assert alone.begin()
        peer.send(ASK, alone.announce(), alone.heartbeat(3, 4))
        counters = server.wait_for(lambda now: now["old"] == 3, "none of them is looked at")
        assert counters["beacons"] == counters["announces"] == counters["heartbeats"] == 0
        before = block_of(tmp_path)
        full.unlink()
        wait_until(lambda: any("a new epoch has begun" in line for line in server.stderr.lines),
                   "it goes on")
        beacon = peer.beacon()
        assert epoch_of(beacon) // 256 == before + 1 == block_of(tmp_path)
        full.touch()
        peer.send(alone.announce(), node(1, beacon).heartbeat(1, 1))
        counters = server.wait_for(lambda now: now["heartbeats"] == 1, "a heartbeat needs no disk")
        assert counters["announces"] == 0 and counters["failed_saves"] >= 3
        full.unlink()
        time.sleep(1.1)  # one wrong announce a second is looked at
        peer.send(alone.announce(), alone.heartbeat(5, 6))
        server.wait_for(lambda now: now["heartbeats"] == 2, "the node that only sends is heard")
        server.stop()


# ---- Limits ---------------------------------------------------------------------------------

def junk(number: int, kind: int = 0x80) -> bytes:
    """A packet that needs a tag, and has a wrong one."""
    return number.to_bytes(4, "big") + bytes((kind + number % 64 * (kind != 0xC0), 255, 1, 1))


def test_a_flood_from_one_source_leaves_the_others_alone(server: Server, peer: Peer) -> None:
    """64 wrong packets at once are looked at, and 20 a second. Real heartbeats from elsewhere are
    all taken, and one line says that there is a flood."""
    beacon = peer.beacon()
    nodes = [node(variable, beacon) for variable in range(64)]
    begun = time.monotonic()
    with Peer(server, source="127.0.0.2") as attacker:
        for number in range(40):
            attacker.send(*(junk(250 * number + one) for one in range(250)))
            peer.send(*(one.heartbeat(1, number) for one in nodes[:10]))
            time.sleep(0.01)  # so that no buffer is full
        counters = server.wait_for(lambda now: now["packets"] + now["drops"] >= 10401,
                                   "all are counted")
    passed = time.monotonic() - begun
    assert counters["drops"] == 0 and counters["heartbeats"] == 400
    assert 64 <= counters["tag"] <= 64 + 20 * passed + 1
    assert counters["rate"] == 10000 - counters["tag"]
    server.stop()
    lines = [line for line in server.stderr.all() if "too many packets are wrong" in line]
    assert len(lines) == 1


def test_a_flood_from_forged_sources_meets_the_limit_for_all(server: Server) -> None:
    """However many sources there are, 100 guesses at once are looked at, and 100 a second. Then
    nobody is heard: a false alarm, and no forgery."""
    begun = time.monotonic()
    for number in range(1, 41):
        with Peer(server, source=f"127.9.9.{number}") as attacker:
            attacker.send(*(junk(number * 50 + one) for one in range(50)))
    counters = server.wait_for(lambda now: now["packets"] >= 2000, "all are counted")
    assert 100 <= counters["tag"] <= 100 + 100 * (time.monotonic() - begun) + 1
    assert counters["heartbeats"] == 0
    with Peer(server) as peer:  # a second later, the sources that are right are heard again
        time.sleep(0.5)
        peer.send(node(1, peer.beacon()).heartbeat(1, 1))
        server.wait_for(lambda now: now["heartbeats"] == 1, "it is heard")
    server.stop()


def test_wrong_announces_are_looked_at_once_a_second(server: Server, peer: Peer) -> None:
    begun = time.monotonic()
    for number in range(10):
        peer.send(*(junk(number * 50 + one, 0x40) for one in range(50)))
    counters = server.wait_for(lambda now: now["packets"] >= 500, "all are counted")
    assert 1 <= counters["tag"] <= 1 + (time.monotonic() - begun)
    server.stop()


def test_announces_that_are_right_have_a_limit_too(server: Server, peer: Peer) -> None:
    """Each has to get to the disk: whoever has stolen one key must not keep the server busy with
    it."""
    begun = time.monotonic()
    alone = Sender(KEYS, 2, Numbers({2: 0x800000}))
    for _ in range(200):
        assert alone.begin()
        peer.send(alone.announce())
    counters = server.wait_for(lambda now: now["packets"] >= 200, "all are counted")
    assert 64 <= counters["announces"] <= 64 + 10 * (time.monotonic() - begun) + 1
    assert counters["rate"] == 200 - counters["announces"]
    server.stop()


@pytest.mark.parametrize("asked", [ASK, junk(1, 0xC0)])
def test_how_many_beacons_leave(server: Server, asked: bytes) -> None:
    """Also for requests whose tag is wrong, 8 bytes for 8."""
    begun = time.monotonic()
    answers = 0
    for number in range(1, 9):
        with Peer(server, source=f"127.0.0.{number}") as peer:
            peer.send(*[asked] * 100)
            server.wait_for(lambda now: now["packets"] + now["drops"] >= 100 * number, "counted")
            while peer.has_answer():
                assert len(peer.answer()) == 8
                answers += 1
    counters = server.stop()
    assert counters["beacons"] == answers
    assert 100 <= answers <= 100 + 100 * (time.monotonic() - begun) + 1
    assert counters["rate"] == 800 - answers


def test_refusals_count_with_the_beacons_that_were_asked_for(server: Server, peer: Peer) -> None:
    """A beacon that refuses a request is one of the 64 that a source gets at once."""
    begun = time.monotonic()
    peer.send(*(junk(number, 0xC0) for number in range(40)), *[ASK] * 40)
    counters = server.wait_for(lambda now: now["packets"] >= 80, "all are counted")
    assert 64 <= counters["beacons"] <= 64 + 20 * (time.monotonic() - begun) + 1
    server.stop()


def test_who_hears_beacons(options: list[str]) -> None:
    """Each node gets each beacon once, whatever the number of its variables. A wrong tag brings its
    sender none, and takes them from nobody."""
    with Server(*options, "--epoch", "3600") as server, Peer(server) as one, Peer(server) as two, \
            Peer(server) as forger:
        beacon = one.beacon()
        first, *others = (node(variable, beacon) for variable in range(1, 5))
        two.send(first.heartbeat(1, 1))
        one.send(*(each.heartbeat(1, 1) for each in others))
        for variable in (1, 2):
            forger.send(b"tag?" + bytes((0x80 + variable, 200, 9, 9)))
        server.wait_for(lambda now: now["heartbeats"] == 4 and now["tag"] == 2, "all have come")
        for _ in range(3):
            two.answer()
        heard = sum(1 for _ in iter(lambda: one.has_answer() and one.answer(), False))
        assert 2 <= heard <= 4 and not forger.has_answer()
        server.stop()


def test_sighup_does_not_change_the_key(options: list[str], tmp_path: Path) -> None:
    """The numbers belong to the old one."""
    with Server(*options, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
                ) as server, Peer(server) as peer:
        for text, said in ((MASTER.hex(), "has read its files again"),
                           (bytes(16).hex(), "has another key: for that, start the server anew"),
                           ("00" * 9, "it has no master key")):
            (tmp_path / "key").write_text(text)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: said in server.stderr.lines[-1], said)  # noqa: B023
            epoch_of(peer.beacon())
        server.stop()


def test_other_settings_cannot_be_linked(tmp_path: Path) -> None:
    """dumpulse_keyed.c has other structures without the settings of the server. Then the linker
    does not find what keys.c calls."""
    def symbols(kind: str, *arguments: str) -> set[str]:
        subprocess.run(["gcc", "-std=c99", *INCLUDES, *arguments, "-c", "-o",
                        tmp_path / "object"], cwd=ROOT, check=True)
        lines = subprocess.run(["nm", f"--{kind}-only", tmp_path / "object"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        return {line.split()[-1] for line in lines}

    wanted = symbols("undefined", "server/keys.c")
    begin = {name for name in wanted if name.startswith("dumpulse_keyed_begin")}
    assert len(begin) == 1
    assert begin <= symbols("defined", "-include", "server/settings.h",
                            "extras/dumpulse_keyed.c")
    for other in ([], ["-DDUMPULSE_ALONE=64"], ["-DDUMPULSE_ALONE=8"]):
        assert not begin & symbols("defined", *other, "extras/dumpulse_keyed.c")
