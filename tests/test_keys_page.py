"""Types the commands of the page about keys."""

import os
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from tools.programs import ROOT, built, wait_until
from tools.servers import Server

PAGE = (ROOT / "extras" / "keys.md").read_text()


def test_the_tests_of_attacks_are_there() -> None:
    """In the files that the table names for them."""
    table = (ROOT / "spec" / "README.md").read_text().partition("\n## Attacks on ")[2]
    rows = re.findall(r"^\| .* \| (`.*) \|$", table.partition("\n## ")[0], re.M)
    for row in rows:
        for files, names in re.findall(r"((?:`[\w/.]+`(?:, )?)+): ((?:`\w+`(?:, )?)+)", row):
            for file in re.findall("`(.*?)`", files):
                text = (ROOT / file).read_text()
                for name in re.findall("`(.*?)`", names):
                    begin = r"^(def |static .*|#define |TEST\()"
                    assert re.search(rf"{begin}{name}\b", text, re.M), name
    assert len(rows) == 24


def commands_of(heading: str, level: str = "##") -> list[str]:
    """The blocks of commands in a section of the page."""
    section = PAGE.partition(f"\n{level} {heading}\n")[2].partition(f"\n{level} ")[0]
    return [re.sub("^    ", "", block, flags=re.M)
            for block in re.findall(r"(?:^    .+\n)+", section, re.M)]




@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of somebody who has the sources there, and has installed the commands."""
    (tmp_path / "dumpulse").symlink_to(ROOT)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dumpulse").symlink_to(ROOT / "client.py")
    (tmp_path / "bin" / "udpserver").symlink_to(built("build/udpserver"))
    return tmp_path


def shell(script: str, home: Path) -> str:
    """Runs commands of the page. A busy machine may check later than 5 s after a heartbeat."""
    script = script.replace("dumpulse check ", "dumpulse check -w 1m -c 2m ")
    path = f"{home}/bin:{os.environ['PATH']}"
    return subprocess.run(["bash", "-euc", script], cwd=home, check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "PATH": path, "HOME": str(home)}).stdout


def test_try_it_on_linux(home: Path) -> None:
    first, second = commands_of("Try it on Linux")
    new, is_new, serve = first.splitlines()
    shell(f"{new}\n{is_new}", home)
    with Server(*shlex.split(serve)[1:], cwd=home) as server:
        script = second.replace("127.0.0.1", f"127.0.0.1:{server.port}")
        said = shell(script + script.splitlines()[1], home).splitlines()
        assert "report authentic; no earlier one is stored here, 0 of 64" in said[1]
        assert said[2].startswith("DUMPULSE OK - 1 alive") and "report authentic, 1" in said[3]
        assert said[-1].split()[:2] == ["3", "126"]
        assert server.stop()["beacons"] > 0


def test_headers_for_firmware(home: Path) -> None:
    (commands,) = commands_of("Your own firmware")
    shell(commands, home)
    assert {path.name for path in (home / "for-7").iterdir()} == {
        ".gitignore", "agent-7-3.h", "agent-7-agent.h", "agent-7-readers.key"}
    assert "`DUMPULSE_EPOCH_SECONDS`, in `for-7/agent-7-3.h`" in PAGE
    assert "DUMPULSE_EPOCH_SECONDS 10" in (home / "for-7/agent-7-3.h").read_text()


def test_nodes_that_cannot_receive(home: Path) -> None:
    """The agent accepts the listed variables alone in version 1, and the client marks them."""
    first, second = commands_of("Try it on Linux")
    (lists,) = commands_of("Nodes that cannot receive")
    shell("".join(first.splitlines(True)[:2]) + second.splitlines(True)[0], home)
    serve, get = lists.splitlines()
    with Server(*shlex.split(serve)[1:], cwd=home) as server:
        here = f"127.0.0.1:{server.port}"
        for variable, key in ((5, ""), (6, "--key keys/dumpulse-6.key"), (4, ""),
                              (3, "--key keys/dumpulse-3.key")):
            timeout = "9s" if variable == 3 else "500ms"  # The others get no answer.
            shell(f"dumpulse set {here} {variable} 99 {key} -t {timeout} || true", home)
        said = shell(get.replace("127.0.0.1", here), home).splitlines()
    assert [line.split()[:2] for line in said[2:-1]] == [["3", "99"], ["5*", "99"]]
    assert said[-1].startswith("* not authenticated: ")


RELOAD = "pkill -HUP -x udpserver"  # there may be others on this machine


@pytest.mark.slow
def test_a_new_master_key(home: Path) -> None:
    """Both hold until the time that was given. A node that has its new key is refused under the old
    one; others are not."""
    first, second = commands_of("Try it on Linux")
    start, move, *_ = commands_of("Replace a master key")
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
        wait_until(lambda: any(line.endswith("all that was received of variables: 4")
                               for line in server.stderr.lines), "it says who is missing")
        said = shell(f"dumpulse set {here} 3 99 --key keys/dumpulse-3.key -t 500ms || echo no\n"
                     f"dumpulse set {here} 4 99 --key keys/dumpulse-4.key\n"
                     f"dumpulse get {here} 3,4 --key new/new-readers.key", home).splitlines()
        assert [line.split()[:2] for line in said[-2:]] == [["3", "127"], ["4", "99"]]
        assert "no" in said and server.stop()["key_before"] == 1


@pytest.mark.slow
def test_renew_a_key(home: Path) -> None:
    """Its key is refused, and nobody else notices."""
    first, second = commands_of("Try it on Linux")
    (block,) = commands_of("Renew a key")
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
            done = shell(f"dumpulse set {here} {number} 99 --key {name}.key "
                         f"-t {9 if right else 1}s || echo no; "
                         f"dumpulse get {here} {number} --key keys/dumpulse-readers.key", home)
            assert ("\n" + done).count("\nno\n") == (not right)
            assert (done.splitlines()[-1].split()[1] == "99") == right or not right


def test_a_stolen_master_key(home: Path) -> None:
    first, second = commands_of("Try it on Linux")
    shell("".join(first.splitlines(True)[:2]), home)
    lines = commands_of("Replace a stolen master key", "###")[0].splitlines(True)
    shell("".join(lines[:3]), home)
    with Server(*shlex.split(lines[3])[1:], cwd=home) as server:
        here = f"127.0.0.1:{server.port}"
        said = shell(f"dumpulse set {here} 3 126 --key second/second-3.key\n"
                     f"dumpulse get {here} --key second/second-readers.key\n"
                     f"dumpulse get {here} --key dumpulse.key -t 500ms || echo refused", home)
        assert "report authentic" in said and said.endswith("refused\n")


def test_lost_files(home: Path) -> None:
    """With new numbers, nothing from before is taken."""
    first, second = commands_of("Try it on Linux")
    section = PAGE.partition("\n## Replace a device or a file\n")[2].partition("\n## ")[0]
    numbers, again = re.findall("`((?:udpserver|dumpulse) .*?)`", section)
    new, is_new, serve = first.splitlines()
    # The second server begins with the first one's epoch: a reader must not know a later one.
    shell(f"{new}\necho epoch 3600 >>dumpulse.key\n{is_new}", home)
    start = shlex.split(serve)[1:]
    with Server(*start, cwd=home) as server:
        shell(second.replace("127.0.0.1", f"127.0.0.1:{server.port}"), home)
    (lost,) = home.glob("table.*.numbers")
    lost.unlink()
    shell(f"{numbers}\n{again}", home)
    with Server(*start, cwd=home) as server:  # the client remembers an epoch of before
        script = second.partition("\n")[2].replace("127.0.0.1", f"127.0.0.1:{server.port}")
        assert "report authentic, " in shell(script.replace("keys/", "again/"), home)


def test_roll_keys_out(home: Path) -> None:
    """Only two vehicles. The list of nodes without a key becomes shorter."""
    make, serve, agents, nodes, shorter, check = commands_of("Roll keys out to 100 vehicles")
    eeprom = nodes.splitlines(True)[0]
    shell((make + agents + eeprom).replace("100", "002"), home)
    assert (home / "fingerprints.txt").read_text().count("master key, fingerprint ") == 2
    roles = ("agent", *map(str, range(8)))
    names = {path.name for path in (home / "keys").iterdir()}
    files = ["readers.key", *(f"{role}.eep" for role in roles)]
    assert names == {".gitignore", *(f"vehicle-00{n}-{file}" for n in (1, 2) for file in files)}
    for name in re.findall("keys/(vehicle-017-.*?)(?::i|`| )", PAGE):
        assert name.replace("017", "001") in names
    shell(serve.splitlines()[0].replace("017", "001"), home)
    for line, authentic in ((serve.splitlines()[1], False), (shorter, True)):
        with Server(*shlex.split(line.replace("017", "001"))[1:], cwd=home) as server:
            here = f"127.0.0.1:{server.port}"
            shell(f"dumpulse key split vehicle-001.key --out text{authentic} --text --variable 3\n"
                  f"dumpulse set {here} 2 98\n"
                  f"dumpulse set {here} 3 99 --key text{authentic}/vehicle-001-3.key "
                  + ("-t 9s" if authentic else "-t 500ms || true"), home)
            said = shell(check.replace("127.0.0.1", here).replace("017", "001"), home)
            assert re.findall(r"^(\d+\*?) +(\d+)", said, re.M) == \
                [("2*", "98"), ("3", "99")][:1 + authentic]
    (shred, *_) = re.findall("`(shred .*?)`", PAGE)
    shell(shred, home)
    assert {path.name for path in (home / "keys").iterdir()} == {
        ".gitignore", "vehicle-001-readers.key", "vehicle-002-readers.key"}
