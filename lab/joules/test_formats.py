"""lab/run formats and lab/run groups: real fetches between real processes, and JMH."""

import contextlib
import json
import re
import shlex
import subprocess
import sys
import urllib.request
from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.joules import formats, jvm, results
from lab.joules.formats import TITLES, Formats
from lab.joules.measuring import Failed, Measurement
from lab.joules.meters import Clock
from lab.joules.results import Turn
from lab.joules.standins import moving
from lab.joules.test_measuring import command, inside
from tools.programs import ROOT

JMH = "-f 1 -wi 0 -i 1 -r 1"


@pytest.mark.slow
def test_a_run_prints_each_format_with_its_bytes_and_is_resumed(tmp_path: Path) -> None:
    """The meter counts 20 W whatever is done, so no joules are seen."""
    words = ["formats", "--formats", "gson,java", "--records", 25, f"--harness={JMH}",
             "--rounds", 2, "--results", tmp_path / "kept", "--meter", "rapl"]
    with moving(tmp_path / "sys", 20.0) as sys:
        said = command(*words, "--at", sys)
        again = command(*words, "--at", sys)
    assert said.returncode == again.returncode == 0, said.stderr
    assert said.stderr.count("lab: round") == 4 and "lab: round" not in again.stderr
    assert said.stdout == again.stdout
    for name in ("gson", "java"):
        assert re.search(rf"^{re.escape(TITLES[name])} +[\d,.]+ .*\(meter\)$", said.stdout, re.M)
        _, turns, times = results.read(tmp_path / "kept" / f"{name}.jsonl")
        assert len(turns) == 4 and len(times) == 2 and times[0].least > 1000
    assert "rounds, by JMH. Joules: measured with rapl: package-0" in said.stdout
    other = command(*[20 if word == 25 else word for word in words])
    assert other.returncode == 2


def test_joules_of_a_fetch_are_net_watts_times_its_seconds(tmp_path: Path) -> None:
    """By hand: 14 W less 10 W, and 2 ms: 8 mJ."""
    options = formats_options("--results", tmp_path, "--formats", "gson")
    run = Formats(options, None)
    work, idle = (Turn(0, turn, joules, 5.0, 0.5, 2, 1, "") for turn, joules in
                  (("work", 70.0), ("idle", 50.0)))
    measured = Measurement(None, Clock(), tmp_path, [work, idle])  # type: ignore[arg-type]
    run.rows["gson"] = measured, [formats.times_of("gson", [0.001, 0.002, 0.009], "")], tmp_path
    net, = run.net("gson")
    assert net.value == pytest.approx(0.008) and net.bound == pytest.approx(0.0004)


def formats_options(*words: object) -> Namespace:
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", ["formats", *map(str, words)])
        return formats.arguments()


@pytest.mark.slow
def test_the_server_ends_with_its_parent() -> None:
    command = formats.server_command(formats_options(), "127.0.0.1", 0)
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                          ) as process:
        assert process.stdin and process.stdout and int(process.stdout.readline())
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("words, says", [
    (["--formats", "gson,yaml"], "some of these are wanted"),
    (["--formats", "gson,gson"], "some of these are wanted"),
    (["--records", "0"], "a number from 1 to"), (["--rounds", "0"], "a number from 1 to"),
    (["--meter", "nose"], "invalid choice"), (["--serve", "here"], "invalid literal"),
    (["--meter", "rapl", "--at", "/none"], "has no counter")])
def test_bad_arguments_are_rejected(words: list[str], says: str) -> None:
    said = inside(formats, *words)
    assert said.returncode == 2 and says in " ".join(said.stderr.split())


def test_the_commands_of_the_page_are_right() -> None:
    page = (ROOT / "lab" / "joules" / "formats.md").read_text()
    lines = re.findall(r"^lab/run formats.*", page, re.M)
    assert len(lines) > 5
    for line in lines:
        formats_options(*shlex.split(line, comments=True)[2:])
    assert all(title in page for title in TITLES.values())


# ---------------------------------------------------------------- on a JVM

def test_other_libraries_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "gson.jar").write_bytes(b"gson")
    monkeypatch.setattr(jvm, "BUILD", tmp_path)
    with pytest.raises(Failed, match=r"are not those that jvm.py names; they are:\n\w+  gson.jar"):
        jvm.check_libraries()


ITEM = jvm.SOURCE / "src/main/java/dumpulse/lab/Item.java"


@pytest.mark.slow
def test_a_jvms_server_sends_the_list_in_each_format(tmp_path: Path) -> None:
    ten = [{"id": int(number), "name": json.loads(name), "amount": int(amount)} for
           number, name, amount in re.findall(r'new Item\((\d+)L?, (".*"), (-?\d+)\)',
                                              ITEM.read_text())]
    more = [{**record, "name": f"{record['name']} 1"} for record in ten[:2]]
    with formats.server(formats_options("--records", 12)) as address:
        wires = {}
        for name in TITLES:
            with urllib.request.urlopen(f"http://{address}/{name}") as answer:
                wires[name] = answer.read()
        assert json.loads(wires["jackson"]) == json.loads(wires["gson"]) == [*ten, *more]
        assert [record.attrib["name"] for record in ElementTree.fromstring(wires["xml"])] == [
            record["name"] for record in (*ten, *more)]
        # Bytes by the specifications: of a list in CBOR, the first record in Protobuf, Java's own.
        assert wires["cbor"][0] in (0x8C, 0x9F)
        assert wires["protobuf"].startswith(b"\x0a\x0d\x08\1\x12\6boiler\x18\xae\3")
        assert wires["java"][:4] == bytes.fromhex("aced0005")
        words = ["--formats", "java,cbor", f"--harness={JMH}", "--results", tmp_path / "a", "--at",
                 tmp_path, "--remote", address]
        said = inside(formats, *words, "--records", 12)
        assert said.returncode == 0 and "by JMH" in said.stdout, said
        other = formats_options(f"--harness={JMH}", "--records", 13)
        with pytest.raises(Failed, match="an answer in cbor is not the list"):
            formats.timed(other, address, "cbor")


@pytest.mark.slow
def test_a_scheme_of_ones_own_is_counted_in_both_modes_and_timed(tmp_path: Path) -> None:
    """The counts of the study: one product of 2 or 11 powers, and two pairings. Signing that was
    left to the verification adds a power; a key that remembers costs less."""
    own = tmp_path / "Own.java"
    own.write_text((jvm.SOURCE / "src/main/java/dumpulse/lab/Ps18.java").read_text()
                   .replace("package dumpulse.lab;", "import dumpulse.lab.Scheme;")
                   .replace("class Ps18", "class Own"))
    said = subprocess.run([ROOT / "lab" / "run", "groups", own, f"--jmh={JMH} -p messages=1"],
                          capture_output=True, text=True, check=True).stdout
    blocks = {name: text for name, text in re.findall(
        r"^== pitfall: (\w+, messages: \d+)\n(.*?)Number of pairings: 2 ", said, re.M | re.S)}
    assert len(blocks) == 6
    total = {}
    for name, text in blocks.items():
        terms = 11 if name.endswith("10") else 2
        assert re.findall(r"multi-exponentiation: \[(\d+)\]", text) == [str(terms)]
        assert ("exponentiations: 1\n" in text) == ("lazy" in name)
        total[name] = sum(int(number) for part in text.split("----- Group operation data")[::1]
                          for number in re.findall(r"Group (?:Op|Sq)\w+: (\d+)", part))
    for messages, least, most in ((1, 340, 370), (10, 780, 850)):
        right, lazy, again = (total[f"{name}, messages: {messages}"] for name in (
            "none", "lazySigning", "sameKeyAgain"))
        assert least <= right <= most and lazy > right + 270
        assert messages == 1 or again < right - 50
    assert len(re.findall(r"^Groups\.verify +1 +\w+ +Own +avgt", said, re.M)) == 3
    text = own.read_text()
    body = """GroupElement product = (GroupElement) key[0];
        for (int i = 1; i < 4; i++) {
            product = product.op((GroupElement) key[i]);
        }
        var in = (org.cryptimeleon.math.structures.groups.debug.DebugGroup) product.getStructure();
        in.setSelectedExpAlgorithm(
            org.cryptimeleon.math.structures.groups.exp.ExpAlgorithm.SLIDING);
        product.pow(10).compute();
        return true;
    }
}
"""
    own.write_text(text[:text.index("GroupElement first")] + body)
    said = subprocess.run([ROOT / "lab" / "run", "groups", own, "--counts"], capture_output=True,
                          text=True, check=True).stdout
    assert re.findall(r"Group (?:Op|Sq)\w+: (\d+)", said[said.index("messages: 10"):])[4:8] == [
        "11", "4", "3", "0"]  # (abcd)^10: in all, and outside of the power
    own.write_text("class Own { int")
    with pytest.raises(Failed, match="javac failed: .*error"):
        jvm.compiled(own, tmp_path)
