"""Takes the programs from the page about keys, compiles them, and hands their packets over.
SPDX-License-Identifier: MIT"""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

import client
from spec.keyed import question
from tests.support.programs import ROOT, built, library_file, run, wait_until
from tests.support.servers import Server

PAGE = (ROOT / "client" / "examples" / "keys" / "README.md").read_text()
SECTION = PAGE[PAGE.index("## In your own firmware\n"):PAGE.index("## Ten thousand nodes\n")]
NAMES = ["board.h", "node.c", "numbers.c", "agent.c"]  # in the order of the page
PARTS = "agent", "master", "mixed", "node", "reader", "report", "slots", "tag"
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]

# A board whose EEPROM is a file, and whose bus is this test. It does what each line says.
BOARD = r"""
#include <stdbool.h>
#include <stdio.h>
#include "board.h"
static FILE *memory;
static uint16_t seconds;
void each_second(void);
__attribute__((weak)) void received(const uint8_t *packet, size_t length) { (void)packet[length]; }
__attribute__((weak)) bool in_the_factory(void) { return false; }
void board_send(const uint8_t *packet, size_t length)
{
    while (length-- != 0)
        printf("%02x", *packet++);
    puts("");
}
uint16_t board_seconds(void) { return seconds; }
uint8_t board_volts(void) { return (uint8_t)(100 + seconds); }
void board_read(unsigned at, uint8_t *bytes, unsigned count)
{
    fseek(memory, (long)at, SEEK_SET);
    if (fread(bytes, 1, count, memory) != count)
        puts("outside of the EEPROM");
}
void board_write(unsigned at, const uint8_t *bytes, unsigned count)
{
    fseek(memory, (long)at, SEEK_SET);
    fwrite(bytes, 1, count, memory);
    fflush(memory);
}
int main(int count, char **arguments)
{
    char line[99];
    if (count == 2)
        memory = fopen(arguments[1], "r+");
    while (memory != NULL && fgets(line, sizeof line, stdin) != NULL) {
        uint8_t packet[9] = {0};
        for (unsigned i = 0, byte; i < 8 && sscanf(line + 2 * i, "%2x", &byte) == 1; i++)
            packet[i] = (uint8_t)byte;
        if (line[0] == 'S') {
            seconds++;
            each_second();
        } else if (line[0] == 'F') {
            puts(in_the_factory() ? "stored" : "failed");
        } else {
            received(packet, 8);
        }
        puts(".");
        fflush(stdout);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files, made and compiled by the page's commands."""
    to = tmp_path_factory.mktemp("page")
    blocks = re.findall(r"^```c\n(.*?)^```$", SECTION, re.S | re.M)
    for name, text in zip(NAMES, map(str, blocks), strict=True):
        (to / name).write_text(text)
    (to / "board.c").write_text(BOARD)
    for name in ("dumpulse.h", "dumpulse_keyed.h", *(f"dumpulse_{part}.c" for part in PARTS)):
        (to / name).symlink_to(library_file(name))
    (to / "dumpulse").symlink_to(ROOT / "client.py")
    (commands,) = re.findall(r"^    dumpulse key new.*\n(?:    .+\n)+", SECTION, re.M)
    script = re.sub(r"^    (dumpulse )", r"./\1", str(commands), flags=re.M)
    subprocess.run(["sh", "-euc", script.replace("cc $FLAGS", f"gcc {shlex.join(WARNINGS)} $FLAGS")
                    ], cwd=to, check=True, stdout=subprocess.PIPE)
    return to


class Device:
    """One of the programs. Killing it is a reset; its EEPROM remains."""

    def __init__(self, folder: Path, name: str, eeprom: Path) -> None:
        if not eeprom.exists():
            eeprom.write_bytes(b"\xff" * 1024)
        self._process = subprocess.Popen([folder / name, eeprom], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, bufsize=1)

    def _tell(self, line: str) -> list[str]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{line}\n")
        said = iter(self._process.stdout.readline().rstrip("\n") for _ in range(100))
        lines = list(iter(lambda: next(said, "."), "."))
        assert self._process.poll() is None and "" not in lines
        return lines

    def second(self) -> list[bytes]:
        return [bytes.fromhex(line) for line in self._tell("S")]

    def take(self, packet: bytes) -> list[bytes]:
        return [bytes.fromhex(line) for line in self._tell(packet.hex())]

    def in_the_factory(self) -> bool:
        return self._tell("F") == ["stored"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


class Bus:
    """The two devices on a bus that hands over every packet, and a reader."""

    def __init__(self, folder: Path, eeproms: Path) -> None:
        self._folder, self._eeproms = folder, eeproms
        self._on = ExitStack()
        self._reader = client.Keyed(client.KeyFile(str(folder / "for-7" / "agent-7-readers.key")))
        self.start()

    def start(self) -> None:
        self.agent, self.node = (
            self._on.enter_context(Device(self._folder, name, self._eeproms / name))
            for name in ("agent", "node"))

    def stop(self) -> None:
        self._on.close()

    def second(self) -> list[bytes]:
        """Returns what the node sent."""
        for packet in self.agent.second():
            assert self.node.take(packet) == []
        sent = self.node.second()
        for packet in sent:
            assert self.agent.take(packet) == []
        return sent

    def entries(self) -> client.Entries:
        """The report, which the client believes."""
        self._reader.begin()
        for _ in range(3):
            (answer,) = self.agent.take(self._reader.request())
            entries = self._reader.take(answer)
            if entries is not None:
                return entries
        raise AssertionError("no report")

    def value(self) -> int:
        return self.entries()[3].value


@pytest.fixture
def bus(folder: Path, tmp_path: Path) -> Iterator[Bus]:
    made = Bus(folder, tmp_path)
    assert made.agent.in_the_factory()
    yield made
    made.stop()


def test_the_programs_of_the_page_work_together(bus: Bus) -> None:
    sent = bus.second()
    assert bus.value() == 101  # already the first one is taken
    sent += [packet for _ in range(24) for packet in bus.second()]
    assert bus.value() == 125
    assert {entry.sender for entry in bus.entries()} == {0, 76}
    assert [packet[4] for packet in sent] == [0x83] * 25
    counts = [packet[5] for packet in sent]  # no question: beacons come by themselves
    assert counts == [1, *range(1, 10), *range(1, 11), *range(1, 6)]  # an epoch has 10 seconds


def test_what_is_forged_or_repeated_is_refused(bus: Bus) -> None:
    bus.second()
    before = bus.value()
    packet, *_ = bus.node.second()
    for bit in range(64):
        forged = bytearray(packet)
        forged[bit // 8] ^= 1 << bit % 8
        answers = bus.agent.take(bytes(forged))
        assert len(answers) == (forged[5] == 0)  # that is a question
    assert bus.value() == before
    assert bus.agent.take(packet) == []
    assert bus.value() == packet[7] != before
    later, *_ = bus.node.second()
    bus.agent.take(later)
    bus.agent.take(packet)
    assert bus.value() == later[7] == packet[7] + 1


def test_after_each_reset_nothing_old_is_taken(bus: Bus) -> None:
    sent = [packet for _ in range(12) for packet in bus.second()]
    for _ in range(3):
        bus.stop()
        bus.start()
        assert bus.agent.second() != []
        for packet in sent:
            assert bus.agent.take(packet) == []
        assert bus.value() == 0
        for _ in range(10):
            sent += bus.second()
        assert bus.value() == 110


def test_a_node_that_hears_no_beacon(bus: Bus) -> None:
    """It asks when the epoch should be over, and forgets the epoch after 30 of them. Then any
    beacon will do."""
    bus.second()
    asked: list[tuple[int, bytes]] = []
    beats: list[tuple[int, bytes]] = []
    for second in range(2, 301):
        for packet in bus.node.second():
            (beats if packet[5] else asked).append((second, packet))
    assert asked == [(second, question(3)) for second in range(11, 301)]
    assert len(beats) == 254  # and then it has to wait
    (beacon,) = bus.agent.take(question(3))
    bus.node.take(beacon)
    assert [packet[5] for packet in bus.node.second()] == [1]


def test_without_its_first_number_an_agent_sends_nothing(folder: Path, tmp_path: Path) -> None:
    with Device(folder, "agent", tmp_path / "agent") as agent:
        assert [agent.second() for _ in range(12)] == [[]] * 12


def test_the_programs_of_the_page_fit_a_microcontroller(folder: Path, tmp_path: Path) -> None:
    for name in ("node", "numbers", "agent"):
        run(["avr-gcc", "-mmcu=atmega328p", "-Os", *WARNINGS, "-c", folder / f"{name}.c",
             "-o", tmp_path / f"{name}.o"])


@pytest.mark.slow
def test_the_programs_of_the_page_have_the_form_of_all_others(folder: Path) -> None:
    (folder / ".clang-format").write_text((ROOT / "tests/tools/clang-format").read_text())
    run(["clang-format", "--dry-run", "-Werror", *[folder / name for name in NAMES]])


def test_the_tests_of_attacks_are_there() -> None:
    """In the files that the table names for them."""
    table = (ROOT / "spec" / "README.md").read_text().partition("\n## Attacks on ")[2]
    rows = re.findall(r"^\| .* \| (`.*) \|$", table.partition("\n## ")[0], re.M)
    for row in rows:
        for files, names in re.findall(r"((?:`[\w/.]+`(?:, )?)+): ((?:`\w+`(?:, )?)+)", row):
            for file in re.findall("`(.*?)`", files):
                text = (ROOT / file).read_text()
                for name in re.findall("`(.*?)`", names):
                    assert re.search(rf"^(def|static .*) {name}\(", text, re.M), (file, name)
    assert len(rows) == 20


def commands_of(heading: str) -> list[str]:
    """The blocks of commands in a section of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [re.sub("^    ", "", block, flags=re.M)
            for block in re.findall(r"(?:^    .+\n)+", section, re.M)]


def blocks_of(heading: str) -> list[str]:
    """The same of a part of a section."""
    part = PAGE.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    return [re.sub("^    ", "", block, flags=re.M)
            for block in re.findall(r"(?:^    .+\n)+", part, re.M)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of somebody who has the sources there, and has installed the commands."""
    (tmp_path / "dumpulse").symlink_to(ROOT)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dumpulse").symlink_to(ROOT / "client.py")
    (tmp_path / "bin" / "udpserver").symlink_to(built("build/udpserver"))
    return tmp_path


def shell(script: str, home: Path) -> str:
    path = f"{home}/bin:{os.environ['PATH']}"
    return subprocess.run(["bash", "-euc", script], cwd=home, check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "PATH": path, "HOME": str(home)}).stdout


def test_one_agent_on_linux(home: Path) -> None:
    first, second = commands_of("One agent on Linux")
    new, is_new, serve = first.splitlines()
    shell(f"{new}\n{is_new}", home)
    with Server(*shlex.split(serve)[1:], cwd=home) as server:
        script = second.replace("127.0.0.1", f"127.0.0.1:{server.port}")
        said = shell(script + script.splitlines()[1], home).splitlines()
        assert "report authentic; no earlier one is known here, 0 of 64" in said[1]
        assert "report authentic, 1 of 64" in said[2]
        assert said[-1].split()[:2] == ["3", "126"]
        assert server.stop()["beacons"] > 0


def test_nodes_that_cannot_receive(home: Path) -> None:
    """The agent accepts the listed variables in version 1 and no others, and the client marks them."""
    first, second = commands_of("One agent on Linux")
    (lists,) = commands_of("Nodes that cannot receive")
    shell("".join(first.splitlines(True)[:2]) + second.splitlines(True)[0], home)
    serve, get = lists.splitlines()
    with Server(*shlex.split(serve)[1:], cwd=home) as server:
        here = f"127.0.0.1:{server.port}"
        for variable, key in ((5, ""), (6, "--key keys/dumpulse-6.key"), (4, ""),
                              (3, "--key keys/dumpulse-3.key")):
            shell(f"dumpulse set {here} {variable} 99 {key} -t 500ms || true", home)
        said = shell(get.replace("127.0.0.1", here), home).splitlines()
    assert [line.split()[:2] for line in said[2:-1]] == [["3", "99"], ["5*", "99"]]
    assert said[-1].startswith("* not authenticated: ")


RELOAD = "pkill -HUP -x udpserver"  # there may be others on this machine


@pytest.mark.slow
def test_a_new_master_key(home: Path) -> None:
    """Both hold until the time that was given. A node that has its new key is refused under the old
    one; others are not."""
    first, second = commands_of("One agent on Linux")
    start, move = blocks_of("A new master key, without a gap")
    shell("".join(first.splitlines(True)[:2] + start.splitlines(True)[:2]), home)
    (until,) = re.findall("--key-until (.*)", start)
    soon = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(time.time() + 3600))
    serve = start.splitlines()[2].replace(until, soon)
    with Server(*shlex.split(serve)[1:], cwd=home) as server:
        here = f"127.0.0.1:{server.port}"
        shell(second.replace("127.0.0.1", here), home)
        shell(f"dumpulse set {here} 4 126 --key keys/dumpulse-4.key", home)
        script = move.replace("127.0.0.1", here)
        shell(script.replace(RELOAD, f"kill -HUP {server.process.pid}"), home)
        wait_until(lambda: any(line.endswith("all that was heard of variables: 4")
                               for line in server.stderr.lines), "it says who is missing")
        said = shell(f"dumpulse set {here} 3 99 --key keys/dumpulse-3.key -t 500ms || echo no\n"
                     f"dumpulse set {here} 4 99 --key keys/dumpulse-4.key\n"
                     f"dumpulse get {here} 3,4 --key new/new-readers.key", home).splitlines()
        assert [line.split()[:2] for line in said[-2:]] == [["3", "127"], ["4", "99"]]
        assert "no" in said and server.stop()["key_before"] == 1


@pytest.mark.slow
def test_a_lost_node(home: Path) -> None:
    """Its key is refused, and nobody else notices."""
    first, second = commands_of("One agent on Linux")
    (block,) = blocks_of("A lost node")
    shell("".join(first.splitlines(True)[:2]), home)
    with Server(*shlex.split(first.splitlines()[2])[1:], cwd=home) as server:
        here = f"127.0.0.1:{server.port}"
        shell(second.replace("127.0.0.1", here), home)
        script = block.replace("127.0.0.1", here)
        said = shell(script.replace(RELOAD, f"kill -HUP {server.process.pid}"), home)
        assert "'dumpulse.key': 3 key, generation 1, fingerprint " in said
        for name, right in (("keys/dumpulse-3", False), ("renewed/dumpulse-3", True),
                            ("keys/dumpulse-4", True)):
            number = name[-1]
            done = shell(f"dumpulse set {here} {number} 99 --key {name}.key -t 1s || echo no; "
                         f"dumpulse get {here} {number} --key keys/dumpulse-readers.key", home)
            assert ("\n" + done).count("\nno\n") == (not right)
            assert (done.splitlines()[-1].split()[1] == "99") == right or not right


def test_a_lost_agent(home: Path) -> None:
    first, second = commands_of("One agent on Linux")
    shell("".join(first.splitlines(True)[:2]), home)
    lines = blocks_of("A lost agent")[0].splitlines(True)
    shell("".join(lines[:3]), home)
    with Server(*shlex.split(lines[3])[1:], cwd=home) as server:
        here = f"127.0.0.1:{server.port}"
        said = shell(f"dumpulse set {here} 3 126 --key second/second-3.key\n"
                     f"dumpulse get {here} --key second/second-readers.key\n"
                     f"dumpulse get {here} --key dumpulse.key -t 500ms || echo refused", home)
        assert "report authentic" in said and said.endswith("refused\n")


def test_lost_files(home: Path) -> None:
    """With new numbers, nothing from before is taken."""
    first, second = commands_of("One agent on Linux")
    numbers, again = blocks_of("A lost file")
    shell("".join(first.splitlines(True)[:2]), home)
    start = shlex.split(first.splitlines()[2])[1:]
    with Server(*start, cwd=home) as server:
        shell(second.replace("127.0.0.1", f"127.0.0.1:{server.port}"), home)
    (lost,) = home.glob("table.*.numbers")
    lost.unlink()
    shell(numbers + again, home)
    with Server(*start, cwd=home) as server:  # the client remembers an epoch of before
        script = second.partition("\n")[2].replace("127.0.0.1", f"127.0.0.1:{server.port}")
        assert "report authentic, " in shell(script.replace("keys/", "again/"), home)


def test_ten_thousand_nodes(home: Path) -> None:
    """Only two agents, and two nodes of each."""
    blocks = commands_of("Ten thousand nodes")
    assert [block.split()[0] for block in blocks] == ["dumpulse"] * 3 + [
        "for", "avrdude", "tar", "gpg"]
    script = "".join(blocks[:4]).replace("160", "002")
    script = script.replace("{0..63}", "{7,8}")
    (shred, *_) = re.findall("`(shred .*?)`", PAGE)
    shell(script, home)
    assert (home / "fingerprints.txt").read_text().count("master key, fingerprint ") == 2
    names = {path.name for path in (home / "keys").iterdir()}
    assert len(names) == 1 + 2 * (64 + 1 + 1) + 2 * 3
    assert {f"agent-00{agent}-{role}.eep" for agent in (1, 2) for role in (7, 8, "agent")} < names
    for name in re.findall("keys/(agent-0.*?)(?::i|`)", PAGE):
        assert name.replace("017", "001").replace("-3.eep", "-7.eep") in names
    shell(shred, home)
    assert {path.name for path in (home / "keys").iterdir()} == {
        ".gitignore", "agent-001-readers.key", "agent-002-readers.key"}


@pytest.mark.slow
def test_an_inventory_in_one_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two agents. Nothing secret is in it for those who do not have the key of GnuPG."""
    new, show, *_, keep, take = commands_of("Ten thousand nodes")
    shell(new.replace("160", "002") + show, home)
    monkeypatch.setenv("GNUPGHOME", str(home / ".gnupg"))
    (home / ".gnupg").mkdir(mode=0o700)
    shell("gpg --batch --quiet --passphrase '' --quick-generate-key keys@example.org", home)
    try:
        fingerprints = (home / "fingerprints.txt").read_text()
        assert shell(keep, home) == fingerprints
        key = (home / "agent-002.key").read_bytes()
        shred_keys = re.findall("`(shred .*?)`", PAGE)[1]
        shell(f"{shred_keys}\n{take}", home)
        assert (home / "agent-002.key").read_bytes() == key
        assert (home / "agent-002.key").stat().st_mode & 0o777 == 0o600
        assert key.strip() not in (home / "keys.tar.gpg").read_bytes()
    finally:
        shell("gpgconf --kill gpg-agent", home)
