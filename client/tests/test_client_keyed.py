"""client.py and agents with keys: against the model, its vectors, and agents and bystanders that do
wrong things on purpose."""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import client
from spec import keyed, model
from tools.agents import (GOOD, LADDER, MASTER, OTHER_MASTER, FakeAgent,
                          KeyedFake, ask_again_after, run)
from tools.lines import FakeBus, FakeLine, bus
from tools.programs import PATIENCE, ROOT, vectors, wait_until
from tools.servers import Server, command

KEYS = keyed.Keys(MASTER)
HELLO = bytes.fromhex("00000000c0000000")  # spec/keyed.md shows it.
NAMES = {**{str(number): number for number in range(64)}, "readers": 64}


def file_of(path: Path, keys: keyed.Keys = KEYS, names: str = "") -> str:
    """A file of keys, as extras/keys.md has them: with names, of these labels."""
    path.write_text("".join(f"{name} {keys.of(NAMES[name]).hex()}\n" for name in names.split())
                    or f"{keys.master.hex()}\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def key(tmp_path: Path) -> str:
    return file_of(tmp_path / "agent.key")


@pytest.fixture
def readers(tmp_path: Path) -> str:
    return file_of(tmp_path / "readers.key", names="readers")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def called(*words: str) -> tuple[int, str, str]:
        return (client.run_command(words), *capsys.readouterr())
    return called


Call = Callable[..., tuple[int, str, str]]


def asking(fake: KeyedFake, path: str) -> client.Agent:
    return client.Agent(fake.address, keys=client.KeyFile(path))


# ---------------------------------------------------------------- tags


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.binary(min_size=16, max_size=16), st.integers(1, 18), st.randoms(use_true_random=False))
def test_chaskey_is_the_models(key: bytes, blocks: int, chance: Any) -> None:
    message = chance.randbytes(16 * blocks)
    assert client.chaskey(key, message) == keyed.chaskey12(key, message)


def test_the_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of a reader and of a node that hears."""
    monkeypatch.setattr(client, "JUMP", keyed.EPOCH_LAST)
    path = tmp_path / "key"
    path.touch(0o600)
    done: dict[str, int] = {}
    reader: client.Keyed
    nodes: dict[int, client.Keyed] = {}  # The keys are variables.

    def heard(who: client.Keyed, packet: bytes) -> str:
        who._later = 0
        try:
            return "yes" if who.hear(packet) else "no"
        except client.BadReport:
            return "no"

    def node(label: str) -> client.Keyed:
        return nodes.setdefault(int(label), client.Keyed(keys, int(label)))

    for line in vectors("vectors_keyed.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        what, *fields = (field.replace("-", "") for field in line.split("\t"))
        if what == "master":
            path.write_text(f"{fields[0]}\n")
            keys = client.KeyFile(str(path))
        elif what == "key":
            path.write_text(f"{keys.master.hex()}\n")
            if fields[0] != "64":
                path.write_text(f"{keys.master.hex()}\n{fields[0]} {fields[1]}\n")
            assert client.KeyFile(str(path)).of(int(fields[0])).hex() == fields[2]
        elif what == "node":
            nodes = {}
        elif what == "reader":
            reader = client.Keyed(keys)
        elif what == "hear":
            assert heard(node(fields[0]), bytes.fromhex(fields[2])) == fields[1], line
        elif what == "listen":
            assert heard(reader, bytes.fromhex(fields[1])) == fields[0], line
        elif what == "question":
            assert client.make_question(int(fields[0])).hex() == fields[1]
        elif what == "beat" and int(fields[0]) < 64:
            made = ""
            for _ in range(int(fields[3])):
                try:
                    made = node(fields[0]).heartbeat(*map(int, fields[1:3])).hex()
                except client.NoAnswer:
                    made = ""
            assert made == fields[4], line
        elif what == "request":
            monkeypatch.setattr(os, "urandom", lambda count: bytes.fromhex(fields[0]))
            reader._repeat = False
            asked = reader.request()
            assert asked == (bytes.fromhex(fields[1]) or HELLO), line
        elif what == "check":
            try:
                answer = reader.take(bytes.fromhex(fields[0]))
                assert (answer is not None) == (fields[1] == "yes"), line
            except client.BadReport:
                assert fields[1] == "no"
        else:
            continue
        done[what] = done.get(what, 0) + 1
    assert done["key"] > 100 and done["check"] > 80 and done["request"] > 5 and \
        done["question"] == 5 and done["listen"] > 90 and done["beat"] > 10 and \
        done["hear"] > 90, done


# ---------------------------------------------------------------- asking


def test_an_agent_is_asked(key: str, readers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request has count 0, and its answer is the beacon. Later ones need no beacon."""
    ask_again_after(PATIENCE, monkeypatch)
    for path in (key, readers):
        with KeyedFake() as fake:
            agent = client.Agent(fake.address, keys=client.KeyFile(path), epochs=Nothing())
            assert agent.ask(PATIENCE)[3] == (0x1234, 76, 9)
            assert fake.heard[0] == HELLO and len(fake.heard) == 2
            for count in range(2, 6):
                assert agent.ask(PATIENCE)[3].value == 9
                assert fake.heard[-1][4:6] == bytes((0xC0, count))
            assert len({packet[6:] for packet in fake.requests}) > 3  # new nonces
            fake.tick()  # a request of the last epoch is refused, and the beacon says why
            assert agent.ask(PATIENCE)[3].value == 9
            assert fake.heard[-2][5] == 6 and fake.heard[-1][5] == 1


def silent(*_: bytes) -> list[bytes]:
    return []


def honest(packet: bytes, answer: bytes) -> list[bytes]:
    return [answer] * bool(answer)


@pytest.mark.parametrize("lost", range(4))
def test_lost_packets(lost: int, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was not answered is sent again as it was. If only its report got lost, the
    agent refuses it, and the next one has another count."""
    ask_again_after(1.0, monkeypatch)
    with KeyedFake(*[honest] * lost, silent, honest) as fake:
        agent = asking(fake, key)
        for _ in range(3):
            assert agent.ask(PATIENCE)[3].value == 9
    counts = [packet[5] for packet in fake.heard]
    assert counts == [[0, 0, 1, 2, 3], [0, 1, 1, 2, 3, 4], [0, 1, 2, 2, 3, 4],
                      [0, 1, 2, 3, 3, 4]][lost]
    assert len(set(fake.heard)) == len(counts) - 1  # the one that was repeated


@pytest.mark.parametrize("used", [1, 2, 7, 8, 9, 100, 254])
def test_other_readers_have_used_counts(used: int, key: str,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """After each 2 refusals, it leaves out one more."""
    ask_again_after(PATIENCE, monkeypatch)
    counts = [0, *(count for count in LADDER if count <= used)]
    counts.append(LADDER[len(counts) - 1])
    with KeyedFake() as fake:
        fake.agent.last[64] = used
        begun = time.monotonic()
        agent = asking(fake, key)
        assert agent.ask(PATIENCE)[3].value == 9
        assert time.monotonic() - begun < PATIENCE / 2
        assert [packet[5] for packet in fake.heard] == counts
        if used < 100:  # a report was believed: no count is left out any more
            agent.ask(PATIENCE)
            assert fake.heard[-1][5] == counts[-1] + 1


def test_many_readers_that_ask_once_in_an_epoch(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_again_after(PATIENCE, monkeypatch)
    with KeyedFake() as fake:
        for _ in range(len(LADDER)):  # on as many machines
            agent = client.Agent(fake.address, keys=client.KeyFile(key), epochs=Nothing())
            assert agent.ask(PATIENCE)[3].value == 9
    assert len(LADDER) == 31 and [packet[5] for packet in fake.requests][-31:] == LADDER


def test_all_counts_are_used_until_the_next_epoch(key: str) -> None:
    with KeyedFake() as fake:
        fake.agent.last[64] = 255
        agent = asking(fake, key)
        with pytest.raises(client.BadReport, match="have used the counts of this epoch") as caught:
            agent.ask(1.0)
        # It does not suspect the key: who knows the beacon's has that of requests.
        assert caught.value.cause == "full" and "key" not in str(caught.value)
        assert len(fake.heard) < 45  # it waits, and does not ask again at once
        threading.Timer(0.3, fake.tick).start()
        assert agent.ask(PATIENCE)[3].value == 9
        assert fake.requests[-1][5] == 1  # none is left out in a new one


def other(label: int, number: int, four: bytes) -> bytes:
    return keyed.Keys(OTHER_MASTER).packet(label, number, four)


FORGED = other(64, 300, (300).to_bytes(4, "big"))
LIES: dict[str, tuple[str, Callable[[bytes, bytes], list[bytes]]]] = {
    "length": (r"it is \d+ bytes long, not 264",
               lambda packet, answer: [b"", answer[:-1], answer + b"\0", b"x" * 8]),
    "tag": ("its tag is wrong: for another request, or forged",
            lambda packet, answer: [answer] if len(answer) == 8 else
            [answer[:8] + bytes((answer[8] ^ 1,)) + answer[9:],
             bytes((answer[0] ^ 1,)) + answer[1:],
             answer[:7] + bytes((answer[7] ^ 128,)) + answer[8:], bytes(264)]),
    "beacon": ("its beacon is not authentic for the readers: is '.*agent.key' the key of this",
               lambda packet, answer: [FORGED, KEYS.beacon(3, 300)]),
    "refused": ("it rejects requests: other readers have used the counts of this epoch, so try "
                "again later$",
                lambda packet, answer: [KEYS.beacon(64, 300)]),
    "old": ("its beacon is of epoch 299, older than 300: it is replayed, or the agent has "
            "lost its numbers, or an epoch was forged with this key: replace it$",
            lambda packet, answer: [KEYS.beacon(64, 300), KEYS.beacon(64, 299)]),
}


@pytest.mark.parametrize("cause", LIES)
def test_why_a_report_is_not_believed(cause: str, key: str, call: Call) -> None:
    text, lie = LIES[cause]
    with KeyedFake(lie) as fake:
        with pytest.raises(client.BadReport, match=f"bad report from {fake.address}: {text}"
                           ) as caught:
            asking(fake, key).ask(0.5)
        assert caught.value.cause in (cause, "full" if cause == "refused" else cause)
        status, out, err = call("get", fake.address, "--key", key, "-t", "500ms")
        assert (status, out) == (4, "") and re.search(text, err) and err.count("\n") == 1, err
    # Whatever else comes, the true answer counts.
    beacon = KEYS.beacon(64, 300)
    with KeyedFake(lambda packet, answer: [
            *(each for each in lie(packet, answer) if each != beacon), answer]) as fake:
        if cause != "old":
            assert asking(fake, key).ask(PATIENCE)[3].value == 9


def test_a_keyed_agent_without_its_key(call: Call) -> None:
    """Version 2 answers nothing of version 1."""
    with KeyedFake() as fake:
        status, _, said = call("get", fake.address, "-t", "300ms")
        assert status == 3 and said.endswith("; it may have a key: give --key\n")
        assert set(fake.heard) == {model.REQUEST} and not any(fake.answered)


def test_who_has_kept_many_reports(key: str) -> None:
    """He shows one old beacon after the other, until a request has the nonce of a report that he
    has kept. An ask goes by two beacons: so he has two guesses, and not thousands."""
    epochs = iter(range(1, 10**6))
    with KeyedFake(lambda packet, answer: [KEYS.beacon(64, next(epochs))]) as fake:
        for turn in (1, 2):
            with pytest.raises(client.BadReport, match="more than 2 epochs") as caught:
                asking(fake, key).ask(0.5)
            assert caught.value.cause == "old" and len(set(fake.requests)) == 2 * turn


def test_who_has_kept_a_report_for_each_count(key: str) -> None:
    """He shows the beacon of one epoch until all counts are used up, and then a later one. So
    he has 31 guesses in each of two epochs. SPEC allows a reader three."""
    epoch = [7]

    def repeat(packet: bytes, _: bytes) -> list[bytes]:
        epoch[0] += packet[5] == 255
        return [KEYS.beacon(64, epoch[0])]
    with KeyedFake(repeat) as fake:
        with pytest.raises(client.BadReport, match="more than 2 epochs"):
            asking(fake, key).ask(3.0)
        assert len(set(fake.requests)) == 2 * 31


def test_a_report_that_a_later_beacon_overtook(key: str) -> None:
    reader = client.Keyed(client.KeyFile(key))
    assert reader.hear(KEYS.beacon(64, 7))
    report = KEYS.report(bytes(256), 7, reader.request())
    assert reader.hear(KEYS.beacon(64, 8))
    with pytest.raises(client.BadReport, match="its tag is wrong"):
        reader.take(report)


def test_old_reports_are_not_believed(key: str) -> None:
    """Of the same epoch and count, of another nonce; of an earlier epoch; of another reader; and
    the same one twice."""
    with KeyedFake() as fake:
        agent = asking(fake, key)
        agent.ask(PATIENCE)
        recorded = [answer for answer in fake.answered if len(answer) == 264]
        for _ in range(2):
            fake.tick()
            agent.ask(PATIENCE)
            recorded += [answer for answer in fake.answered if len(answer) == 264]
        fake.hooks = [lambda packet, answer: recorded if len(answer) == 264 else [answer]]
        for attempt in (agent, asking(fake, key)):
            with pytest.raises(client.BadReport):
                attempt.ask(0.3)
        # The same report twice: the second one is for nobody.
        fake.hooks = [lambda packet, answer: [answer, answer]]
        fake.tick()
        assert agent.ask(PATIENCE)[3].value == 9
        report = next(answer for answer in reversed(fake.answered) if len(answer) == 264)
        with pytest.raises(client.BadReport, match="its tag is wrong"):
            agent._keyed(64).take(report)


def test_old_beacons_are_not_believed(key: str) -> None:
    """A reader that knows an epoch never goes back, and finds the true one behind an old one."""
    with KeyedFake(epoch=512) as fake:
        old = [KEYS.beacon(64, epoch) for epoch in range(756, 768)]
        agent = asking(fake, key)
        agent.ask(PATIENCE)
        assert agent._keyed(64).epoch == 768
        fake.tick()
        fake.hooks = [lambda packet, answer: [*old, answer]]
        agent.ask(PATIENCE)
        assert agent._keyed(64).epoch == 769
        fake.hooks = [lambda packet, answer: [old[0], answer]]
        fresh = client.Agent(fake.address, keys=client.KeyFile(key), epochs=Nothing())
        with pytest.raises(client.BadReport, match="of epoch 0, older"):
            fresh._keyed(64).hear(KEYS.beacon(64, 0))
        fresh.ask(PATIENCE)  # this one believes it, and then the true one
        assert fresh._keyed(64).epoch == 769


def test_whoever_has_the_readers_key_makes_up_an_epoch(key: str, call: Call) -> None:
    """With a report that is right. It is rejected if it is far ahead of the last one. If it is not,
    it locks this reader out of the true agent until the key is renewed."""
    with KeyedFake() as fake, KeyedFake(epoch=66_304) as insider, KeyedFake(epoch=65_000) as other:
        words = "get", fake.address, "--key", key, "-t", "300ms"
        assert call(*words)[0] == 0
        status, _, err = call("get", insider.address, *words[2:])
        assert status == 4 and "of epoch 66560, too far ahead of 256: its clock" in err
        assert call(*words)[0] == call("get", other.address, *words[2:])[0] == 0
        status, _, err = call(*words)
        assert status == 4 and "forged with this key: replace it" in err


def test_how_far_an_epoch_may_be(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """65,536 epochs and two each second, however many reports led there, and over a restart. So an
    agent with the shortest epochs, which is restarted each hour, is never too far ahead."""
    now = [1e9]
    monkeypatch.setattr(time, "time", lambda: now[0])
    reader = client.Keyed(client.KeyFile(key), 64, client.Epochs())

    def believe(epoch: int) -> None:
        reader.begin()
        assert reader.hear(KEYS.beacon(64, epoch))
        assert reader.take(KEYS.report(bytes(256), epoch, reader.request()))

    def check_last(last: int) -> None:
        reader.begin()
        with pytest.raises(client.BadReport, match="too far ahead") as far:
            reader.hear(KEYS.beacon(64, last + 1))
        assert far.value.cause == "old"
        believe(last)

    believe(0x1000000)  # there is nothing to compare it with
    believe(0x1008000)
    check_last(0x1010000)
    now[0] += 7
    reader = client.Keyed(client.KeyFile(key), 64, client.Epochs())
    check_last(0x101000E)
    now[0] += 1e6
    believe(0x101000F)
    check_last(0x102000F)  # no more are saved up
    with pytest.raises(client.BadReport, match="too far ahead"):
        reader.hear(KEYS.beacon(64, 0x1020010))  # Now none is saved up.
    now[0] -= 1e8  # somebody has set it back
    check_last(0x103000F)
    for hour in range(1, 400):
        now[0] += 3600
        believe(0x103000F + hour * (3600 + 511))


def test_a_beacon_of_a_far_epoch_is_forgotten(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has guessed its tag, or stolen the key. After 5 minutes without a report, the reader
    goes back to the epoch of the last report."""
    with KeyedFake() as fake:
        agent = asking(fake, key)
        agent.ask(PATIENCE)
        reader = agent._keyed(64)
        assert reader.hear(KEYS.beacon(64, 60_000))
        with pytest.raises(client.BadReport, match="of epoch 256, older than 60000"):
            agent.ask(0.3)
        later = client.uptime() + 299
        monkeypatch.setattr(client, "uptime", lambda: later)
        with pytest.raises(client.BadReport):
            agent.ask(0.1)
        monkeypatch.setattr(client, "uptime", lambda: later + 2)
        assert agent.ask(PATIENCE)[3].value == 9 and reader.epoch == 256
        # Reports make an old beacon good. A reader that hears one epoch for long forgets nothing.
        fake.hooks = [silent, honest]
        for seconds in (200, 200, 400):
            later += seconds
            assert agent.ask(PATIENCE)[3].value == 9
            with pytest.raises(client.BadReport, match="old"):
                reader.hear(KEYS.beacon(64, 255))  # the next report makes it good
        assert fake.heard.count(HELLO) == 2
        later += 400
        node = asking(fake, key)
        for count in range(1, 4):  # an epoch that lasts long
            node.beat(3, 76, 9, PATIENCE)
            assert fake.agent.last[3] == count
            later += 400


# ---------------------------------------------------------------- what is remembered


class Nothing(client.Epochs):
    """Remembers nothing."""

    def load(self, key: bytes) -> tuple[int, int, int]:
        return 0, 0, 0

    def save(self, key: bytes, epoch: int, count: int, since: int) -> None:
        pass


def state_of(label: int) -> Path:
    """Where the client remembers what it knows under the key of a label."""
    fingerprint = keyed.chaskey12(KEYS.of(label), b"\xff" * 16)[:8].hex()
    return Path(os.environ["XDG_STATE_HOME"]) / "dumpulse" / f"{fingerprint}.epoch"


FIRST = "; no earlier one is stored here"


def test_another_run_believes_nothing_from_before(key: str, readers: str, call: Call) -> None:
    """Whoever keeps thousands of beacons and reports of the past shows them in vain, whichever file
    has the readers' key. Without what is remembered, it is said that nobody can know."""
    with KeyedFake(epoch=512) as fake:
        assert f"report authentic{FIRST}, 1 of 64" in call(
            "get", fake.address, "--key", key, "--now-from", "3")[1]
        assert state_of(64).read_text().startswith("768 1 ")
        assert stat.S_IMODE(state_of(64).stat().st_mode) == 0o600
        assert stat.S_IMODE(state_of(64).parent.stat().st_mode) == 0o700
        fake.tick()
        words = "get", fake.address, "--key", readers, "--now-from", "3"
        out = call(*words)[1]
        assert "report authentic, 1 of 64" in out and state_of(64).read_text().startswith("769 1 ")
        assert call(*words)[0] == 0  # The epoch is the same.
        assert [packet[5] for packet in fake.requests] == [1, 1, 2]
    reader = client.Keyed(client.KeyFile(readers), 64, client.Epochs())
    assert (reader.epoch, reader.request()) == (769, HELLO)
    assert reader.take(KEYS.beacon(64, 769)) is None  # it is no refusal
    past = keyed.Agent(KEYS, keyed.Number(2))
    past.begin()
    with KeyedFake(lambda packet, answer: [past.process(5, packet)[1] or b""]) as fake:
        status, _, err = call("get", fake.address, "--key", readers, "-t", "300ms")
        assert status == 4 and "its beacon is of epoch 768, older than 769" in err
        assert not fake.requests
        state_of(64).unlink()
        assert FIRST in call("get", fake.address, "--key", readers)[1]
    with KeyedFake() as fake:
        status, out, _ = call("check", fake.address, "--key", readers, "-t", "300ms", "--expect",
                              "3", "--now-from", "3")
        assert status == 2 and "older than 768" in out


@pytest.mark.parametrize("content, text", [
    (None, "cannot read '.*epoch': Is a directory"), (b"", "'.*epoch' is damaged"),
    (b"1 2", "'.*epoch' is damaged"), (b"-1 2\n", "'.*epoch' is damaged"),
    (b"9" * 100, "'.*epoch' is damaged")])
def test_what_cannot_be_remembered(content: Optional[bytes], text: str, key: str, call: Call
                                   ) -> None:
    """The report is shown, with the reason why nobody knows whether it is new."""
    path = state_of(64)
    path.parent.mkdir(parents=True)
    path.mkdir() if content is None else path.write_bytes(content)
    with KeyedFake() as fake:
        for words in (["get", fake.address], ["check", fake.address, "--expect", "3",
                                              "--now-from", "3"]):
            status, out, _ = call(*words, "--key", key)
            assert status == 0
            if content is None or words[0] == "get":
                assert re.search(f"no earlier one is stored here; {text}", out), out
            else:  # it was mended
                assert "no earlier" not in out


def test_where_nothing_can_be_written(tmp_path: Path, key: str, call: Call,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with KeyedFake() as fake:
        status, out, _ = call("get", fake.address, "--key", key)
        assert status == 0 and re.search(f"{FIRST}; cannot (read|write) '.*epoch': Not a dir", out)
        status, _, err = call("set", fake.address, "3", "4", "--key", key)
        assert status == 2 and re.search("no count can be stored in '.*epoch' [(]XDG_"
                                         "STATE_HOME names another folder[)]: Not a dir", err)
        assert not any(packet[5] for packet in fake.heard if packet[4] == 0x83)
    for wrong in ("", "relative"):  # the standard says what counts then
        monkeypatch.setenv("XDG_STATE_HOME", wrong)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert client.Epochs.name(MASTER).startswith(f"{tmp_path}/.local/state/dumpulse/")


# ---------------------------------------------------------------- variables without a key


def test_variables_that_are_not_authenticated(key: str, tmp_path: Path, call: Call) -> None:
    """Each output marks those of --also-unkeyed and of the file of names. Without them, or without
    a key, nothing changes."""
    names = tmp_path / "names.ini"
    names.write_text("[3]\nname = engine\nauthenticated = no\n[4]\nauthenticated = yes\n"
                     "expect = no\n[5]\nauthenticated = no\nexpect = no\n")
    explained = "* not authenticated: the agent accepts it without a key, so anyone can forge it"
    with KeyedFake() as fake:
        usual = ("--key", key, "--now-from", "3")
        for more, marked in ((("--names", str(names)), {3, 5}), ((), set[int]()),
                             (("--also-unkeyed", "4-5"), {4, 5}),
                             (("--names", str(names), "--also-unkeyed", "engine,4"), {3, 4, 5})):
            words = (fake.address, *usual, *more)
            status, out, _ = call("get", *words, "3,4,5")
            found = re.findall(r"^([345])([ *])", out, re.M)
            assert status == 0 and dict(found).keys() == {"3", "4", "5"}, out
            assert {int(number) for number, mark in found if mark == "*"} == marked
            assert out.endswith(f"{explained}\n") == bool(marked)
            assert all(len(line) <= 80 for line in out.splitlines()[1:])
            told = {one["variable"]: one["authenticated"] for one in json.loads(
                call("get", *words, "3-5", "--json")[1])["variables"]}
            assert told == {number: number not in marked for number in (3, 4, 5)}
            status, out, _ = call("check", *words, "--expect", "3")
            label = "3 engine" if "--names" in more else "3"
            assert status == 0 and (f"; not authenticated: {label} |" in out) == (3 in marked)
            assert ("not authenticated" in out) == (3 in marked)
        status, _, err = call("get", fake.address, "--also-unkeyed", "3")
        assert status == 2 and "--also-unkeyed is for agents with keys: give --key" in err
        status, _, err = call("get", fake.address, *usual, "--also-unkeyed", "64")
        assert status == 2 and "variable 64 is out of range" in err
    with FakeAgent([GOOD]) as old:
        for words in (("get", old.address), ("watch", old.address, "--count", "1"),
                      ("check", old.address, "--expect", "3")):
            for form in ("--names", str(names)), ("--names", str(names), "--json"):
                assert "authenticated" not in call(*words, *form)[1]


def test_a_screen_with_variables_that_are_not_authenticated() -> None:
    options = argparse.Namespace(key=True, also_unkeyed="2,60", expect="0-63")
    watched = client.Watched(client.make_settings(options), [], "localhost:9060")
    watched.take((client.Entry(7, 200, 100),) * 64, 100.0)
    lines = client.draw_screen(watched, 80, 90)
    assert lines[-1] == "Ctrl-C ends; * not authenticated"
    assert re.findall(r"^(\d+)\*", "\n".join(lines), re.M) == ["2", "60"]


def test_a_program_learns_which_variables_are_authenticated(key: str, tmp_path: Path) -> None:
    names = tmp_path / "names.ini"
    names.write_text("[3]\nauthenticated = no\n[4]\n")

    async def first_change(agent: client.Agent) -> client.Change:
        return await anext(agent.changes(names=str(names), timeout=PATIENCE))
    with KeyedFake() as fake:
        change = asyncio.run(first_change(asking(fake, key)))
        assert [one.variable.authenticated for one in change.readings] == [False, True]
    with FakeAgent([GOOD]) as old:
        change = asyncio.run(first_change(client.Agent(old.address)))
        assert {one.variable.authenticated for one in change.readings} == {None}


# ---------------------------------------------------------------- heartbeats


def test_a_heartbeat(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beacon is heard first, after a question for it. A program that runs again within the
    epoch goes on counting, however often that is."""
    ask_again_after(PATIENCE, monkeypatch)
    node = file_of(tmp_path / "node.key", names="7")
    with KeyedFake() as fake:
        for value, path in ((230, key), (231, node), (232, key)):
            client.Agent(fake.address, keys=client.KeyFile(path)).beat(7, 76, value)
            wait_until(lambda: fake.agent.entries[7][2:] == bytes((76, value)), "it is taken")
        assert [packet[4:6] for packet in fake.heard] == [
            bytes((0x87, count)) for count in (0, 1, 0, 2, 0, 3)]
        assert state_of(7).read_text() == "000000256 003\n"
        agent = client.Agent(fake.address, keys=client.KeyFile(node))
        for _ in range(4):
            agent.beat(7, 76, 1)
        assert [packet[5] for packet in fake.heard[6:8]] == [0, 4]
        assert fake.heard[6:].count(keyed.question(7)) == 1  # for a second, the epoch is known
        fake.tick()
        client.Agent(fake.address, keys=client.KeyFile(node)).beat(7, 76, 1)
        assert state_of(7).read_text() == "000000257 001\n"


def test_the_lock_is_kept_until_a_heartbeat_is_sent(key: str, monkeypatch: pytest.MonkeyPatch
                                                    ) -> None:
    """Otherwise a later count might overtake it. While the client listens for a refusal, the next
    program may send."""
    kept: list[bool] = []
    send, receiving = client.Udp.send, client.Udp.receiving

    def note() -> None:
        with state_of(7).open("rb") as file:
            kept.append(True)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                kept[-1] = False

    def sending(self: client.Udp, packet: bytes) -> None:
        if packet[5]:
            note()
        send(self, packet)

    def listening(self: client.Udp, end: float) -> client.Steps[Optional[bytes]]:
        if kept:
            note()
        return receiving(self, end)
    monkeypatch.setattr(client.Udp, "send", sending)
    monkeypatch.setattr(client.Udp, "receiving", listening)
    with KeyedFake() as fake:
        asking(fake, key).beat(7, 1, 1)
    assert kept[:2] == [True, False]


def test_who_keeps_the_lock(key: str, call: Call) -> None:
    """Whoever waits for too long sends nothing. The lock of a killed program does not stay."""
    holder = f"""if True:
        import client, sys, time
        with client.Epochs().locked(client.KeyFile({key!r}).of(7), time.monotonic() + 9):
            print("locked", flush=True)
            sys.stdin.read()"""
    with KeyedFake() as fake, subprocess.Popen(
            [sys.executable, "-c", holder], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE) as program:
        assert program.stdout and program.stdout.readline() == b"locked\n"
        status, _, err = call("set", fake.address, "7", "1", "--key", key, "-t", "300ms")
        assert status == 3 and re.search("nothing is sent: another program locks '.*epoch'\n", err)
        assert not any(packet[5] for packet in fake.heard)
        program.kill()
        program.wait(PATIENCE)
        assert call("set", fake.address, "7", "1", "--key", key)[0] == 0
        assert fake.heard[-1][5] == 1


def test_a_count_is_stored_before_it_is_sent(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the disk, with the name of a new file. If that fails, nothing is sent."""
    synced: list[tuple[int, str]] = []
    failing = False

    def sync(descriptor: int) -> None:
        if failing:
            raise OSError(5, "Input/output error")
        assert not any(packet[5] for packet in fake.heard)
        synced.append((os.fstat(descriptor).st_ino, state_of(7).read_text()))
    monkeypatch.setattr(os, "fsync", sync)
    with KeyedFake() as fake:
        asking(fake, key).beat(7, 1, 1)
        wait_until(lambda: fake.heard[-1][5] == 1, "it comes")
        assert synced == [(state_of(7).parent.stat().st_ino, ""),
                          (state_of(7).stat().st_ino, "000000256 001\n")]
        failing = True
        with pytest.raises(client.Error, match="nothing is sent: no .*: Input/output error"):
            asking(fake, key).beat(7, 1, 1)
        assert fake.heard[-1] == keyed.question(7)


def test_a_disk_without_room_for_counts(key: str) -> None:
    def limited(size: int) -> subprocess.CompletedProcess[str]:
        return run("set", fake.address, "7", "1", "--key", key, preexec_fn=lambda: (
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))))
    with KeyedFake() as fake:
        for size, why in ((0, "File too large"), (5, "No space left on device"),
                          (14, "it is damaged: remove it, and wait for the next epoch")):
            done = limited(size)
            assert done.returncode == 2 and done.stderr.endswith(f": {why}\n"), done.stderr
        assert not any(packet[5] for packet in fake.heard)
        state_of(7).unlink()
        assert limited(14).returncode == 0 and fake.heard[-1][5] == 1


def test_others_have_heard_a_later_epoch(key: str, call: Call) -> None:
    """Then the beacon that came is not good enough, and an agent that has no other is too old."""
    state_of(7).parent.mkdir(parents=True)
    state_of(7).write_text("257 3\n")
    with KeyedFake(lambda *_: [KEYS.beacon(7, 256)], honest, epoch=0) as fake:
        fake.tick()
        assert call("set", fake.address, "7", "1", "--key", key)[0] == 0
        assert [packet[5] for packet in fake.heard] == [0, 0, 4]
        assert fake.agent.last[7] == 4
    with KeyedFake() as fake:
        status, _, err = call("set", fake.address, "7", "1", "--key", key, "-t", "300ms")
        assert status == 4 and "its beacon is of epoch 256, older than 257" in err
        state_of(7).write_text("256 255\n")
        status, _, err = call("set", fake.address, "7", "1", "--key", key)
        assert status == 3 and err.endswith("this epoch: the next one begins within 10 s\n")
        assert not any(packet[5] for packet in fake.heard)


def test_counts_of_heartbeats(key: str) -> None:
    """After 255 there is an error, until the next epoch."""
    node = client.Keyed(client.KeyFile(key), 3)
    with pytest.raises(client.NoAnswer):
        node.heartbeat(76, 9)
    with pytest.raises(client.BadReport, match="of epoch 0, older"):
        node.hear(KEYS.beacon(3, 0))
    for epoch in (5, 6):
        assert node.hear(KEYS.beacon(3, epoch))
        for count in range(1, 256):
            assert node.heartbeat(76, 9) == KEYS.counted(3, epoch, count, 76, 9)
        with pytest.raises(client.NoAnswer, match="variable 3 has sent all 255 heartbeats"):
            node.heartbeat(76, 9)
        assert not node.hear(KEYS.beacon(3, epoch))
    with pytest.raises(ValueError, match="a variable is 0 to 63"):
        client.Agent("localhost", keys=client.KeyFile(key)).beat(64, 1, 1)


def test_set(key: str, tmp_path: Path, call: Call) -> None:
    with KeyedFake() as fake:
        assert call("set", fake.address, "7", "230", "--key", key) == (0, "", "")
        assert fake.agent.entries[7][2:] == bytes((1, 230))
        status, out, _ = call("get", fake.address, "7", "--key", key, "--tick", "1s")
        assert status == 0
        assert out.startswith(f"{fake.address}: report authentic; ") and "2 of 64 variables" in out
        node = file_of(tmp_path / "node.key", names="7")
        for words, whose in (["set", fake.address, "8", "1"], "variable 8"), (
                ["get", fake.address], "the readers"):
            status, _, err = call(*words, "--key", node)
            assert status == 2 and f"has no key of {whose}" in err
    with KeyedFake(silent) as fake:
        status, _, err = call("set", fake.address, "7", "230", "--key", key, "-t", "300ms")
        assert status == 3 and not any(packet[5] for packet in fake.heard)


def test_set_of_a_variable_without_a_key(key: str, tmp_path: Path, call: Call) -> None:
    """The agent accepts it in version 1 alone. Its reports are of version 2."""
    options = ["--key", key, "--state", str(tmp_path / "table")]
    (tmp_path / "names.ini").write_text("[5]\nauthenticated = no\n")
    subprocess.run([*command(), *options, "--key-is-new"], check=True, capture_output=True)
    with Server(*options, "--also-unkeyed", "5") as server:
        words = "set", f"127.0.0.1:{server.port}", "5"
        names = "--key", key, "--names", str(tmp_path / "names.ini")
        for more, value in (names, 1), ((), 2):
            assert call(*words, str(value), *more, "--timeout", f"{PATIENCE}s")[0] == 0
            assert client.Agent(words[1], client.KeyFile(key)).ask(PATIENCE)[5].value == value
        assert call(*words, "3", "--key", key, "-t", "300ms")[0] == 3


# ---------------------------------------------------------------- a serial line


def framed(number: int, data: bytes) -> bytes:
    """A frame of spec/keyed.md."""
    frame = bytes((0x80 | number,)) + data
    return frame + bytes((-sum(frame) & 255,))


class KeyedLine(FakeLine):
    """With the model at its other end. `before` comes before each answer, and `mend` makes the
    frames of an answer to what is written."""

    def __init__(self, before: bytes = b"",
                 mend: Callable[[list[bytes]], list[bytes]] = lambda frames: frames) -> None:
        self.agent = keyed.Agent(KEYS, keyed.Number())
        assert self.agent.begin() == keyed.BEGUN
        self.agent.entries[3] = bytes.fromhex("12344c09")
        self.before, self.mend = before, mend
        self.frames: list[bytes] = []
        self._waiting = b""
        super().__init__()

    def take(self, fresh: bytes) -> None:
        self._waiting += fresh
        while len(frame := self._waiting[:10]) == 10:
            if sum(frame) % 256 or frame[0] < 0x80:
                self._waiting = self._waiting[1:]
                continue
            self.frames.append(frame)
            answer = self.agent.process(7, frame[1:9])[1] or b""
            self._waiting = self._waiting[10:]
            frames = [framed(97, answer)] * (len(answer) == 8) or [
                framed(64 + at // 8, answer[at:at + 8]) for at in range(0, len(answer), 8)]
            os.write(self.end, self.before + b"".join(self.mend(frames)))


BEACON = framed(97, KEYS.beacon(64, 256))


class Once:
    """Puts a beacon into the first report."""

    def __call__(self, frames: list[bytes]) -> list[bytes]:
        self.extra, extra = ([], self.extra) if len(frames) > 1 else (self.extra, [])
        return [*frames[:5], *extra, *frames[5:]]

    extra = [BEACON]


@pytest.mark.parametrize("before, mend", [
    (b"", lambda frames: frames),
    (b"\xff\x00 booting...\r\n" + bytes(20) + framed(64, bytes(8))[:-1] + b"\xe1", None),
    (framed(127, HELLO) + framed(3, KEYS.counted(3, 256, 1, 2, 3)), None),  # Packets of others.
    (b"", Once()),  # a beacon that nobody has asked for
    (b"".join(framed(97, KEYS.beacon(label, 256)) for label in range(64)), None),  # Not its own.
    (BEACON * 3, None),
    (framed(70, bytes(8)), None),  # The rest of another reader's report.
    (b"", lambda frames: [b"\r\n".join(frames)])])
def test_a_serial_line(before: bytes, mend: Any, key: str) -> None:
    with KeyedLine(before, mend or (lambda frames: frames)) as line:
        agent = client.Agent(line.address, keys=client.KeyFile(key))
        for _ in range(3):
            assert agent.ask(PATIENCE)[3] == (0x1234, 76, 9)
        agent.beat(3, 76, 10, 0.5)
        assert agent.ask(PATIENCE)[3].value == 10
        assert {frame[0] for frame in line.frames} == {0xFF, 0x83}


@pytest.mark.parametrize("mend, text", [
    (lambda frames: frames[:20] + frames[21:], "its frame 21 of 33 is missing"),
    (lambda frames: [GOOD], "[0-9]+ bytes without a frame of version 2")])
def test_a_line_that_loses_a_frame_or_speaks_otherwise(mend: Any, text: str, key: str) -> None:
    with KeyedLine(mend=mend) as line, pytest.raises(client.BadReport, match=text):
        client.Agent(line.address, keys=client.KeyFile(key)).ask(0.6)


# ---------------------------------------------------------------- CAN


@pytest.mark.parametrize("address, base, reader", [
    ("can:can0", 0x680, 0x6FF), ("can:can0:680:6E2", 0x680, 0x6E2),
    ("can:can0:00000680:00000700", 0x80000680, 0)])
def test_can(address: str, base: int, reader: int, bus: FakeBus, key: str) -> None:
    """The beacon has an identifier of its own. A beacon that nobody has asked for may come between
    the frames of a report."""
    if not reader:
        with pytest.raises(client.BadUsage, match="must be 6E2 to 6FF"):
            client.Agent(address)
        return
    asking = client.Agent(address, keys=client.KeyFile(key))
    assert asking.name == address
    bus.ours.setblocking(True)
    agent = keyed.Agent(KEYS, keyed.Number())
    assert agent.begin() == keyed.BEGUN
    agent.entries[3] = bytes.fromhex("12344c09")

    def answer() -> None:
        for _ in range(4):
            number, length, packet = bus.heard()
            seen.append((number, length))
            found = agent.process(5, packet)[1]
            if found and len(found) == 264:
                bus.report(found, base, range(10))
                for label in (63, 64, 0):
                    bus.send(base + 97, agent.beacon(label) or b"")
                bus.report(found, base, range(10, 33))
            elif found:
                bus.send(base + 97, found)
    seen: list[tuple[int, int]] = []
    thread = threading.Thread(target=answer)
    thread.start()
    assert asking.ask(PATIENCE)[3] == (0x1234, 76, 9)
    asking.beat(3, 76, 10, 0.2)
    thread.join(PATIENCE)
    assert seen == [(reader, 8), (reader, 8), (base + 3, 8), (base + 3, 8)]
    assert agent.entries[3] == bytes((0, 5, 76, 10))


@pytest.mark.parametrize("own", ["6E1", "700", "67F", "", "x", "6E2:6E3", "-1", "0x6E2"])
def test_identifiers_of_readers(own: str) -> None:
    with pytest.raises(client.BadUsage, match="cannot be the identifier of this reader"):
        client.parse_can(f"can:can0:680:{own}")
    assert client.parse_can("can:can0:680:6e2") == ("can0", 0x680, 98)
    assert client.Can("can0", 0x680, 98).name == "can:can0:680:6E2"
    assert client.Can("can0", 1 << 31 | 0x80, 98).name == "can:can0:00000080:000000E2"


# ---------------------------------------------------------------- files of keys


def test_the_forms_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content, labels in ((f"{MASTER.hex()}\n", range(65)), (MASTER.hex(), range(65)),
                            (f"{MASTER.hex()}\nreaders 3\nepoch 3600\n7 2\n0 255\n3 0", range(65)),
                            (f"readers {MASTER.hex()}\n3 {bytes(16).hex()}\n", (64, 3)),
                            (f"0 {MASTER.hex()}\n63 {MASTER.hex()}", (0, 63))):
        path.write_text(content)
        path.chmod(0o600)
        keys = client.KeyFile(str(path))
        right_keys = keyed.Keys(
            MASTER, generations={7: 2, 0: 255, 64: 3} if "7 2" in content else {})
        for label in range(65):
            if label in labels:
                right = right_keys.of(label) if len(labels) == 65 else \
                    bytes(16) if label == 3 else MASTER
                assert keys.of(label) == right
            else:
                with pytest.raises(client.BadUsage, match="has no key of (variable|the)"):
                    keys.of(label)


ZEROS = "00" * 16


@pytest.mark.parametrize("content, wrong", [
    *((content, "") for content in (
        "00" * 15, f"{ZEROS}00\n", "0G" * 16, "AB" * 16, f" {ZEROS}", f"{ZEROS}\r\n",
        f"{ZEROS}\n\n", f"{ZEROS} \n", f"{ZEROS}\n{ZEROS}\n", f"64 {ZEROS}", f"readers  {ZEROS}",
        f"Readers {ZEROS}", f"00 {ZEROS}", f"readers {ZEROS}\x0b", "readers\n", "\udcff\udcfe\0\0",
        f"readers {ZEROS}\nreaders {MASTER.hex()}", f"٣ {ZEROS}", f"{ZEROS}\n٣ 1", "x" * 70_000,
        f"readers {ZEROS}\n\n3 {MASTER.hex()}", f"{ZEROS}\n3 deadbeef", f"{ZEROS}\ndeadbeef\n",
        f"# my key\n{ZEROS}", f"readers {ZEROS[2:]}deadbeef\n")),
    ("", "line 1: no key; "),
    (f"1 {MASTER.hex()}\n2 {MASTER.hex()}\n3 x\n", "line 3: no key; the file must have one line"),
    (f"readers {MASTER.hex()}\n3 {MASTER.hex()}\r\n", "line 2: no key; "),
    *[(f"{key}\n", "line 1: no key; ") for key in (
        MASTER.hex().upper(), f"{MASTER.hex()}0", f"3 {MASTER.hex()[1:]}")],
    ("\n", "line 1: no key; "),
    (f"3 {MASTER.hex()}\n{MASTER.hex()}\n", "line 2: no key; "),
    (f"reader {MASTER.hex()}\n", "line 1: its name must be readers, or 0 to 63, once each"),
    (f"3 {MASTER.hex()}\n3 {MASTER.hex()}\n", "line 2: its name must be readers, or 0 to 63"),
    (f"beacons {MASTER.hex()}\n", "line 1: its name must be readers, or 0 to 63, once each"),
    *[(f"{MASTER.hex()}\n7 1\n{line}\n", "line 3: after a master key, a line is like '7 2'")
      for line in ("7 2", "64 1", "readers 256 1", "07 1", "8 01", "8  1", "8 1 ", "8 1\r", "8 -1",
                   "8 10000", "", MASTER.hex(), f"8 {MASTER.hex()}")],
    (f"{MASTER.hex()}\n7 256\n", "line 2: a generation is 0 to 255; "),
    (f"readers  {MASTER.hex()}\n", "line 1: no key; "), ("\ufeff\n", "line 1: no key; ")])
def test_what_is_wrong_with_a_line(content: str, wrong: str, tmp_path: Path, call: Call) -> None:
    """One line, which shows nothing of it."""
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(content.encode(errors="surrogateescape"))
    status, out, err = call("key", "show", str(path))
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert f"{str(path)!r}, {wrong or 'line '}" in err
    assert "32 digits 0-9a-f, or lines like 'readers 00112233...'" in err or "line is like" in err \
        or "a generation is" in err
    assert not any(secret in err for secret in ("deadbeef", ZEROS[:8], MASTER.hex()[:8]))


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700, 0o640, 0o604, 0o620, 0o602, 0o610, 0o644,
                                  0o660, 0o606, 0o777])
def test_modes(mode: int, key: str, call: Call) -> None:
    os.chmod(key, mode)
    if not mode & 0o77:
        client.KeyFile(key)
        return
    status, out, err = call("get", "127.0.0.1:9", "--key", key)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert f"cannot use '{key}': other users may read it: chmod 600 it" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("owner, us, mode, text", [
    (0, 12345, 0o440, ""), (0, 12345, 0o640, ""), (0, 12345, 0o604, "other users may read it: ch"),
    (0, 12345, 0o601, "other users may read it"), *[
        (12345, 0, mode, "it must belong to you or to root") for mode in (0o400, 0o600, 0o640)]])
def test_whose_file_it_may_be(owner: int, us: int, mode: int, text: str, key: str, call: Call,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    """The group may read it if it is root's, as with a service's credentials. Root can read all
    files, but one of somebody else may have another key by now: udpserver refuses it, too."""
    os.chown(key, owner, -1)
    os.chmod(key, mode)
    monkeypatch.setattr(os, "geteuid", lambda: us)
    status, _, err = call("key", "show", key)
    assert (status, err.count("\n")) == ((2, 1) if text else (0, 0))
    assert not text or f"cannot use '{key}': {text}" in err


def test_what_cannot_be_read(tmp_path: Path, key: str, call: Call) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "link").symlink_to(key)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    client.KeyFile(str(tmp_path / "link"))
    begun = time.monotonic()
    for name, text in ((str(tmp_path), "Is a directory|no ordinary file"),
                       (str(tmp_path / "pipe"), "it is not a regular file"),
                       ("/dev/null", "it is not a regular file"),
                       (str(tmp_path / "none"), "No such file or directory"),
                       (str(tmp_path / "loop"), "symbolic links"), ("a\0b", "null "),
                       ("", "No such file or directory")):
        status, _, err = call("get", "127.0.0.1:9", "--key", name)
        assert status == 2 and re.search(text, err) and err.count("\n") == 1, err
    assert time.monotonic() - begun < 5


def test_a_key_instead_of_its_file(call: Call) -> None:
    """If a user types the key itself, an error says so, and does not show the key again."""
    for words in (["get", "127.0.0.1", "--key", MASTER.hex()],
                  ["key", "show", MASTER.hex().upper()],
                  ["key", "split", MASTER.hex(), "--out", "x", "--readers"]):
        status, out, err = call(*words)
        assert status == 2 and "this is a key, not a file: it may have been seen" in err
        assert MASTER.hex() not in (out + err).lower()


# ---------------------------------------------------------------- key new, show and split


def test_new(tmp_path: Path, call: Call) -> None:
    paths = [str(tmp_path / f"{number}.key") for number in range(3)]
    before = os.umask(0o777)  # the mode does not depend on it
    try:
        status, out, err = call("key", "new", *paths)
    finally:
        os.umask(before)
    assert (status, err) == (0, "")
    contents = [Path(path).read_text() for path in paths]
    assert len(set(contents)) == 3
    for path, content, line in zip(paths, contents, out.splitlines(), strict=True):
        assert re.fullmatch("[0-9a-f]{32}\n", content)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        right = keyed.chaskey12(bytes.fromhex(content), b"\xff" * 16)[:8].hex()
        assert line == f"'{path}': master key, fingerprint {right}"
        assert content.strip() not in out
    assert call("key", "show", *paths) == (0, out, "")


def test_nothing_is_overwritten(tmp_path: Path, key: str, call: Call,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a link to nowhere is followed, nor a file that is named twice made. No other file
    of the command stays."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = Path(key).read_bytes()
    fresh = str(tmp_path / "fresh")
    for taken in (key, str(tmp_path / "link"), str(tmp_path), "fresh", "./fresh", fresh):
        status, out, err = call("key", "new", "fresh", taken)
        assert (status, out) == (2, "") and err.count("\n") == 1
        assert f"cannot make '{taken}': File exists" in err
    assert Path(key).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.key", "link"]
    status, _, err = call("key", "new", str(tmp_path / "no" / "x"))
    assert status == 2 and "No such file or directory" in err
    status, _, err = call("key", "new", "a\0b")
    assert status == 2 and "null " in err


FULL_DISK, CTRL_C = OSError(28, "No space left on device"), KeyboardInterrupt("Ctrl-C")


@pytest.mark.parametrize("at, error, text", [
    *((at, FULL_DISK, f"cannot make {what}: No space left on device")
      for at, what in ((1, "'.*/x'"), (2, "'.*/y'"), (3, "files in '.*'"))), (2, CTRL_C, "Ctrl-C")])
def test_a_full_disk(at: int, error: BaseException, text: str, tmp_path: Path,
                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a key does not stay, and no other file of this command does."""
    calls = iter(range(1, 9))

    def full(_: int) -> None:
        if next(calls) == at:
            raise error
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((client.Error, KeyboardInterrupt), match=text):
        client.write_all([(str(tmp_path / "x"), "content"), (str(tmp_path / "y"), "")])
    assert not list(tmp_path.iterdir())


def test_a_new_key_survives_a_power_failure(tmp_path: Path, call: Call,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is written to the disk after it, whatever the folder is called."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_ino))
    assert call("key", "new", "a", "other/b", str(tmp_path / "c"))[0] == 0
    inodes = [path.stat().st_ino for path in map(Path, ("a", "other/b", "c", "other", "."))]
    assert synced[:3] == inodes[:3] and {*synced[3:]} == {*inodes[3:]}


def test_split_for_readers_and_programs(tmp_path: Path, key: str, call: Call) -> None:
    out = tmp_path / "out"
    before = os.umask(0)
    try:
        assert call("key", "split", key, "--out", str(out), "--readers", "--variable",
                    "3,7-8,5", "--text") == (0, f"5 files in '{out}'\n", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert (out / ".gitignore").read_text().splitlines()[-1] == "*"
    found = {path.name: path.read_text() for path in out.glob("agent*")}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in out.iterdir())
    assert found == {f"agent-{name}.key": f"{name} {KEYS.of(NAMES[name]).hex()}\n"
                     for name in ("readers", "3", "5", "7", "8")}
    status, shown, _ = call("key", "show", str(out / "agent-3.key"))
    assert status == 0 and re.sub("fingerprint [0-9a-f]{16}$", "*", shown, flags=re.M) == \
        f"'{out}/agent-3.key': 3 key, *\n"
    with KeyedFake() as fake:
        assert call("get", fake.address, "--key", str(out / "agent-readers.key"))[0] == 0
        assert call("set", fake.address, "3", "4", "--key", str(out / "agent-3.key"))[0] == 0


def test_headers_for_firmware(tmp_path: Path, key: str, call: Call) -> None:
    """Of an agent and of its nodes, one with a key of a later generation. The tests of images
    compile them."""
    Path(key).write_text(f"{MASTER.hex()}\nepoch 600\n3 2\n")
    out, keys = tmp_path / "out", keyed.Keys(MASTER, generations={3: 2})
    assert call("key", "split", key, "--out", str(out), "--variable", "3,5", "--agent") == (
        0, f"3 files in '{out}'\n", "")
    about = "/* SECRET. `dumpulse key split` made it, of the key " \
        f"{client.compute_fingerprint(MASTER)}. */\n"

    def defined(name: str, secret: bytes) -> str:
        return f"#define {name} \\\n    {{{', '.join(f'0x{byte:02x}' for byte in secret)}}}\n"
    for label in (3, 5):
        assert (out / f"agent-{label}.h").read_text() == \
            f"{about}#define DUMPULSE_KEY_VARIABLE {label}\n" + \
            defined("DUMPULSE_KEY_OWN", keys.of(label)) + \
            "#define DUMPULSE_EPOCH_SECONDS 600 /* as the agent has it */\n"
    generations = ",".join("2" if label == 3 else "0" for label in range(65))
    assert (out / "agent-agent.h").read_text() == \
        about + defined("DUMPULSE_KEY_MASTER", MASTER) + \
        f"#define DUMPULSE_KEY_GENERATIONS {{{generations}}} /* of labels 0 to 64 */\n"
    header = (out / "agent-5.h").read_text()
    hostile = tmp_path / "*" / "x\n#error"
    hostile.mkdir(parents=True)
    os.rename(key, hostile / "*\\")
    assert call("key", "split", str(hostile / "*\\"), "--out", str(out), "--variable", "5")[0] == 0
    assert (out / "*\\-5.h").read_text() == header  # nothing of the file's name is in it


def test_the_epoch_of_nodes_is_the_agents(tmp_path: Path, key: str, call: Call) -> None:
    """It is in the file of the master key, which the agent reads."""
    Path(key).write_text(f"{MASTER.hex()}\nepoch 30\n")
    out = tmp_path / "out"
    assert ": master key, epoch 30 s, fingerprint " in call("key", "show", key)[1]
    assert call("key", "split", key, "--out", str(out), "--variable", "3")[0] == 0
    assert "#define DUMPULSE_EPOCH_SECONDS 30 " in (out / "agent-3.h").read_text()
    for wrong in ("epoch 0", "epoch 3601", "epoch 030", "epoch", "epoch 1 2", "epoch 9\nepoch 9"):
        Path(key).write_text(f"{MASTER.hex()}\n{wrong}\n")
        status, _, err = call("key", "show", key)
        assert status == 2 and "or 'epoch 10': 1 to 3600 seconds" in err


def test_a_later_generation(tmp_path: Path, key: str, call: Call) -> None:
    """One node gets a new key, and its old one is refused. All other keys stay."""
    old, of_8 = (file_of(tmp_path / f"{name}.key", names=name) for name in ("7", "8"))
    Path(key).write_text(f"{MASTER.hex()}\n7 2\n9 1\n")
    with KeyedFake() as fake:
        fake.agent.keys = keyed.Keys(MASTER, generations={7: 2, 9: 1})
        status, _, err = call("set", fake.address, "7", "1", "--key", old, "-t", "300ms")
        assert status == 4 and "its beacon is not authentic for variable 7" in err
        out = str(tmp_path / "out")
        assert call("key", "split", key, "--out", out, "--variable", "7", "--text")[0] == 0
        for variable, path in (("7", f"{out}/agent-7.key"), ("8", of_8), ("9", key)):
            assert call("set", fake.address, variable, "5", "--key", path, "-t", "300ms")[0] == 0
            assert fake.agent.entries[int(variable)][3] == 5


def test_show(key: str, readers: str, call: Call) -> None:
    """Fingerprints of the keys that the file names."""
    Path(key).write_text(f"{MASTER.hex()}\n7 1\nreaders 1\n")
    keys, show = keyed.Keys(MASTER, generations={7: 1, 64: 1}), client.compute_fingerprint
    assert call("key", "show", key, readers)[1].splitlines() == [
        f"'{key}': master key, fingerprint {show(MASTER)}",
        *(f"'{key}': {name} key, generation 1, fingerprint {show(keys.of(NAMES[name]))}"
          for name in ("7", "readers")),
        f"'{readers}': readers key, fingerprint {show(KEYS.of(64))}"]


def content_of(path: Path) -> tuple[int, bytes]:
    """The first address of a file in Intel HEX, and its bytes."""
    rows = [bytes.fromhex(row[1:]) for row in path.read_text().splitlines()]
    assert all(sum(row) % 256 == 0 and row[0] == len(row) - 5 for row in rows)
    assert rows[0][3:6] == b"\4" + rows[0][4:6] and rows[-1][3] == 1
    start = int.from_bytes(rows[0][4:6] + rows[1][1:3], "big")
    content = b""
    for row in rows[1:-1]:
        assert row[3] == 0 and int.from_bytes(row[1:3], "big") == start % 65536 + len(content)
        content += row[4:-1]
    return start, content


def test_eeprom(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """What images with keys need: an agent has a number from the date."""
    path, out, now = tmp_path / "a.key", tmp_path / "out", [client.SINCE_2020 + 0x12345 * 900.0]
    path.touch(0o600)
    path.write_text(f"{MASTER.hex()}\nepoch 600\n7 2\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(time, "time", lambda: now[0])
    keys = keyed.Keys(MASTER, generations={7: 2})
    turns = bytes(2 * (label == 7) for label in range(65))

    def eeprom(image: str, *words: str) -> tuple[int, str, str]:
        return call("key", "eeprom", str(path), "--image", image, "--out", str(out), *words)

    assert eeprom("keyed_atmega328p") == (0, f"1 file in {str(out)!r}\n", "")
    assert content_of(out / "a-agent.eep") == (
        0, MASTER + bytes.fromhex("012345fedcba") + bytes(6) + turns)
    assert (out / "a-agent.eep").stat().st_mode & 0o777 == 0o600
    now[0] += 900
    assert eeprom("keyed_stm32")[0] == 0
    assert content_of(out / "a-agent.hex") == (0x0800F400, (MASTER + turns).ljust(
        1024, b"\0") + bytes.fromhex("00012346fffedcb9"))
    for image in ("keyed_attiny85", "node_stm32"):
        assert eeprom(image, "--variable", "7,9")[1] == f"2 files in {str(out)!r}\n"
    assert content_of(out / "a-7.eep") == (0, b"\7" + keys.of(7) + b"\x58\2")
    assert content_of(out / "a-9.hex") == (
        0x0800F400, (keys.of(9) + b"\x09").ljust(82, b"\0") + b"\x58\2")
    now[0] += 900
    assert "File exists" in eeprom("keyed_stm32")[2]
    monkeypatch.setenv("XDG_STATE_HOME", str(path))
    assert "cannot store the time of this file in " in eeprom("keyed_stm32")[2]
    for now[0] in (client.SINCE_2020 - 1, client.SINCE_2020 + 0x1FFFFF * 900):
        assert "set the clock of this machine" in eeprom("keyed_stm32")[2]


def test_no_number_comes_again(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device may have used the numbers of the first file. That file may be gone, the key may be a
    copy, and another key may have been between them. A node's file has no number."""
    now, refused = [client.SINCE_2020 + 0x12345 * 900.0], "a file with this master key was made "
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(time, "time", lambda: now[0])
    for name, key in (("a", MASTER), ("copy", MASTER), ("other", bytes(16))):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(f"{key.hex()}\n")

    def eeprom(name: str, image: str = "keyed_stm32", *words: str) -> tuple[int, str, str]:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return call("key", "eeprom", str(tmp_path / name), "--image", image, "--out",
                    str(tmp_path / "out"), *words)

    assert eeprom("a")[0] == eeprom("other")[0] == 0
    for later, wait in ((0, 900), (899, 1)):
        now[0] += later
        for image in ("keyed_stm32", "keyed_atmega328p", "can_avr-keyed"):
            assert eeprom("copy", image) == (
                2, "", f"client.py: {refused}just now: flash that, or wait {wait} s\n")
        assert eeprom("a", "node_stm32", "--variable", "7")[0] == 0
    now[0] += 1
    assert eeprom("copy")[0] == 0


@pytest.mark.parametrize("words, text", [
    (["new"], "the following arguments are required: FILE"),
    (["old", "x"], "invalid choice: 'old'"),
    (["new", ""], "the name of the file is empty"),
    (["new", "x", "--readers"], "--readers is not an option of key new"),
    (["show", "KEY", "--readers"], "--readers is not an option of key show"),
    (["split", "KEY", "--image", "node_stm32"], "--image is not an option of key split"),
    (["split", "KEY", "--readers"], "name a folder for the keys with --out"),
    (["split", "KEY", "--out", "x"], "name the keys with --variable, --readers or --agent"),
    (["split", "KEY", "--out", "x", "--variable", "64"], "variable 64 is out of range"),
    (["split", "KEY", "--out", "x", "--variable", "engine"], "'engine' is not a variable"),
    (["split", "PART", "--out", "x", "--readers"], "has no master key, which this needs"),
    (["eeprom", "KEY", "--image", "keyed_stm32"], "name a folder for the keys with --out"),
    (["eeprom", "KEY", "--out", "x"], "name the image with --image: can_avr-keyed, keyed_"),
    (["eeprom", "KEY", "--out", "x", "--image", "can_avr"], "invalid choice: 'can_avr'"),
    (["eeprom", "KEY", "--out", "x", "--image", "node_stm32"], "is a node: name its variable"),
    (["eeprom", "KEY", "--out", "x", "--image", "keyed_stm32", "--variable", "3"],
     "keyed_stm32 is an agent: leave out --variable"),
    (["split", "KEY", "--out", "KEY", "--readers"], "or a folder of yours with mode 700"),
    (["split", "KEY", "--out", "LINK", "--readers"], "or a folder of yours with mode 700"),
    (["split", "KEY", "--out", "OPEN", "--readers"], "or a folder of yours with mode 700"),
    (["split", "KEY", "--out", "none/x", "--readers"], "No such file or directory"),
    (["split", "KEY", "--out", "a\0b", "--readers"], "null ")])
def test_wrong_words(words: list[str], text: str, tmp_path: Path, key: str, readers: str,
                     call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o750)
    (tmp_path / "closed").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "closed")
    places = {"KEY": key, "PART": readers, "LINK": str(tmp_path / "link"),
              "OPEN": str(tmp_path / "open")}
    status, out, err = call("key", *(places.get(word, word) for word in words))
    assert (status, out) == (2, "") and text in err and err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_git_does_not_see_keys(tmp_path: Path, key: str, call: Call,
                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a new folder, nor in one that is empty. A folder that somebody uses for other files,
    too, is left as it is."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name, is_there, seen in (("new", False, False), ("empty", True, False),
                                 ("used", True, True)):
        out = tmp_path / name
        if is_there:
            out.mkdir(mode=0o700)
        if seen:
            (out / "other").touch()
        for role in ("--agent", "--readers"):
            assert call("key", "split", key, "--out", str(out), role) == (
                0, f"1 file in '{out}'\n", "")
        status = subprocess.run(["git", "status", "--porcelain", "--untracked-files=all", name],
                                cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        assert status == seen * "".join(
            f"?? used/{file}\n" for file in ("agent-agent.h", "agent-readers.key", "other"))
    monkeypatch.setattr(client, "user", lambda: os.geteuid() + 1)  # a folder of somebody else
    with pytest.raises(client.Error, match="or a folder of yours"):
        client.make_private_folder(str(tmp_path / "new"))


def test_the_pages(tmp_path: Path) -> None:
    """The commands of the page work one after the other, and the files and the fingerprint are
    those of extras/keys.md."""
    page = (ROOT / "client" / "README.md").read_text()
    lines = re.findall(r"^    \./client\.py (key [^#\n]+)", page, re.M)
    assert [line.split()[1] for line in lines] == ["new", "split"]
    for line in lines:
        done = run(*line.split(), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "keys").glob("agent*"))) == 9
    assert "`--key keys/agent-readers.key`" in page
    manual = (ROOT / "extras/keys.md").read_text()
    assert f"`readers {KEYS.of(64).hex()}`" in manual
    assert f"`{client.compute_fingerprint(MASTER)}`" in manual

