"""The server and the client on a JVM, held against Python's libraries.
SPDX-License-Identifier: MIT"""

import hashlib
import json
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.joules import formats, jvm, results
from lab.joules.formats import Result
from lab.joules.jvm import JvmPair
from lab.joules.loopback import HOST
from lab.joules.measuring import Failed
from lab.messages.codecs import CODECS, LIST

# What reads each format, too; there is nobody else who reads Java's own.
OTHERS = {"jackson": "json", "gson": "json", "xml": "xml", "cbor": "cbor", "protobuf": "protobuf"}


@pytest.fixture(scope="module", params=["boot2", "boot3"])
def pair(request: pytest.FixtureRequest) -> Iterator[JvmPair]:
    started = JvmPair(request.param, 0)
    yield started
    started.end()


def answer(pair: JvmPair, name: str) -> bytes:
    with urllib.request.urlopen(f"http://{HOST}:{pair.port}/{name}") as sent:
        return bytes(sent.read())


@pytest.mark.slow
def test_the_server_sends_the_list_in_each_format(pair: JvmPair) -> None:
    for name in jvm.TITLES:
        wire = answer(pair, name)
        assert pair.fetch(name, 3).bytes == 3 * len(wire)
        if name in OTHERS:
            assert CODECS[OTHERS[name]].decode(wire) == LIST, name
    assert answer(pair, "protobuf") == CODECS["protobuf"].encode(LIST)
    assert json.loads(answer(pair, "gson")) == LIST
    assert answer(pair, "java")[:4] == bytes.fromhex("aced0005")  # as Java's specification has it


@pytest.mark.slow
def test_a_fault_of_the_server_ends_the_run(pair: JvmPair) -> None:
    with pytest.raises(Failed, match="^nothing: "):  # there is no such format
        pair.fetch("nothing", 1)
    assert pair.fetch("cbor", 1).bytes  # the client goes on


@pytest.mark.slow
def test_both_end_with_their_parent() -> None:
    alone = JvmPair("boot3-interpreted", 0)
    assert alone.fetch("cbor", 1).bytes
    for child in (alone.server, alone.client):
        assert b"-Xint" in Path(f"/proc/{child.process.pid}/cmdline").read_bytes().split(b"\0")
        assert child.process.stdin
        child.process.stdin.close()
        assert child.process.wait(60) == 0
    alone.end()


@pytest.mark.slow
def test_an_interpreted_message_has_its_instructions() -> None:
    """More than a thousand, as each byte of it is looked at by an interpreter."""
    assert jvm.instructions("boot3", "protobuf", jvm.Counted("", ("-Xint",), 1, 2)) > 10_000


@pytest.mark.parametrize("change, says", [
    (lambda folder: (folder / "gson-2.13.1.jar").write_bytes(b"another"), "gson-2.13.1.jar: "),
    (lambda folder: (folder / "more.jar").touch(), "more.jar: .* only in build/jvm"),
    (lambda folder: (folder / "gson-2.13.1.jar").unlink(), "gson.* only in libraries.txt"),
])
def test_another_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                    change: Callable[[Path], object], says: str) -> None:
    folder = tmp_path / "boot3" / "lib"
    folder.mkdir(parents=True)
    (folder / "gson-2.13.1.jar").write_bytes(b"gson")
    listed = tmp_path / "libraries.txt"
    monkeypatch.setattr(jvm, "BUILD", tmp_path)
    monkeypatch.setattr(jvm, "LIBRARIES", listed)
    sha256 = hashlib.sha256(b"gson").hexdigest()
    listed.write_text(f"# a comment\n{sha256} boot2,boot3 gson-2.13.1.jar\n0 boot2 other.jar\n")
    jvm.right("boot3")
    change(folder)
    with pytest.raises(Failed, match=says):
        jvm.right("boot3")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Failed, match="^mvn is not installed: .* needs Java 17 and Maven$"):
        jvm.run("mvn")


def test_a_run_says_how_much_faster_it_became() -> None:
    options = formats.parser().parse_args(["--on", "boot3", "--formats", "gson,xml", "--fetches",
                                           "250", "--seed", "1"])
    plan = replace(formats.planned(options, None), order=("xml", "gson"))
    assert plan.blocks() == [100, 100, 50] and plan.platform.anew and not plan.platform.warm
    done = [Result(name, results.now(), 300, 1.0, 2.0, seconds) for name, seconds in (
        ("xml", (0.9, 0.5, 0.05)), ("gson", (0.4, 0.3, 0.1)))]
    assert formats.warming(plan, done) == [
        "µs of a fetch: the first 100 of 250, the last 50, and how many times faster.",
        "JSON, Gson             4,000.0  2,000.0    2.0",
        "XML, Jackson           9,000.0  1,000.0    9.0", ""]
    assert not formats.warming(replace(plan, on="python"), done)
