"""cantools reads frames of the model by the DBC file.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from packages import project
from packages.dbc import make
from spec import model

TOOLS = project.ROOT / "build" / "venv-packages" / "bin" / "python"
# Decodes frames, and tries to make one that the DBC file does not allow.
PROGRAM = """
import cantools, json, sys
found = []
for path, frames, wrong in json.load(sys.stdin):
    try:
        database = cantools.database.load_file(path, strict=True)
        decoded = [[database.get_message_by_frame_id(number, force_extended_id=long).name,
                    database.decode_message(number, bytes.fromhex(data), force_extended_id=long)]
                   for number, long, data in frames]
        refused = []
        for name, values in wrong:
            try:
                database.encode_message(name, values, strict=True)
                refused.append(False)
            except cantools.database.EncodeError:
                refused.append(True)
        found.append([decoded, refused, len(database.messages)])
    except Exception as error:
        found.append(repr(error))
print(json.dumps(found))
"""
Values = dict[str, int]


def entry(variable: int, content: bytes) -> Values:
    return {f"Timestamp_{variable}": content[0] * 256 + content[1],
            f"Sender_{variable}": content[2], f"Value_{variable}": content[3]}


def traffic() -> list[tuple[int, bytes, str, Values]]:
    """Frames: the offset, the bytes, and the name and the signals that they must have."""
    agent = model.Agent()
    found = []
    for variable in range(64):
        sender, value = 255 - variable, 255 - 2 * variable
        packet = model.heartbeat(variable, sender, value)
        agent.process(60000 + variable * 77, packet)
        found.append((variable, packet, f"Heartbeat_{variable}", {
            "Checksum": int.from_bytes(packet[:4], "big"), "Magic": model.MAGIC,
            "Variable": variable, "Sender": sender, "Value": value}))
    assert agent.process(0, model.REQUEST) == model.REPORT
    report = agent.table()
    for frame in range(33):  # as SPEC.md says: bytes 8k to 8k + 7
        content = report[8 * frame:8 * frame + 8]
        values = entry(2 * frame - 1, content) if frame else \
            {"Checksum": int.from_bytes(content[:4], "big")}
        if len(content) == 8:
            values |= entry(2 * frame, content[4:])
        found.append((64 + frame, content, f"Report_{frame}", values))
    return found + [(127, model.REQUEST, "Request",
                     {"AreYouOK": int.from_bytes(b"AreyouOK", "big")})]


GOOD: Values = {"Checksum": 0, "Magic": model.MAGIC, "Variable": 3, "Sender": 76, "Value": 9}
OUT_OF_RANGE: list[tuple[str, Values]] = [
    ("Heartbeat_3", {**GOOD, name: value}) for name, value in
    (("Magic", 0xF2), ("Variable", 4), ("Sender", 256), ("Value", -1), ("Checksum", 2**32))]


def faults(folder: Path, files: dict[str, tuple[int, bool]]) -> list[str]:
    """What is wrong with each text of a DBC file for a base: an empty line if nothing is."""
    asked = []
    for at, (text, (base, long)) in enumerate(files.items()):
        path = folder / f"{at}.dbc"
        path.write_text(text)
        asked.append((str(path), [(base + offset, long, content.hex())
                                  for offset, content, _, _ in traffic()],
                      [*OUT_OF_RANGE, ("Heartbeat_3", GOOD)]))
    if not TOOLS.exists():
        pytest.fail("cantools is not installed: run make packages-setup")
    shown = json.loads(subprocess.run([TOOLS, "-c", PROGRAM], input=json.dumps(asked), text=True,
                                      stdout=subprocess.PIPE, check=True).stdout)
    expected = [[[name, values] for _, _, name, values in traffic()],
                [True] * len(OUT_OF_RANGE) + [False], 64 + 33 + 1]
    return ["" if found == expected else str(found) for found in shown]


@pytest.mark.long
def test_cantools_decodes_every_frame(tmp_path: Path) -> None:
    (made,) = make.build(tmp_path)
    files = {made.read_text(): (0x680, False), make.text("000"): (0, False),
             make.text("1fffff80"): (0x1FFFFF80, True), make.text("00000680"): (0x680, True)}
    assert faults(tmp_path, files) == [""] * len(files)


@pytest.mark.long
def test_a_wrong_file_is_noticed(tmp_path: Path) -> None:
    text = make.text()
    mutants: dict[str, str] = {}
    for old, new in (
            (" SG_ Checksum : 7|32@0+", " SG_ Checksum : 7|32@1+"),  # the byte order
            (" SG_ Timestamp_63 : 7|16@0+", " SG_ Timestamp_63 : 0|16@1+"),
            (" SG_ Value_1 : 31|8@0+", " SG_ Value_1 : 39|8@0+"),  # the start
            (" SG_ Sender : 55|8@0+", " SG_ Sender : 54|8@0+"),
            (" SG_ Magic : 39|8@0+", " SG_ Magic : 39|9@0+"),  # the length
            (" SG_ Value : 63|8@0+ (1,0)", " SG_ Value : 63|8@0+ (2,0)"),  # the factor
            (" SG_ Value_0 : 63|8@0+", " SG_ Value_0 : 63|8@0-"),  # the sign
            ("[241|241]", "[0|255]"), ("[3|3]", "[0|63]"),  # the limits
            ("BO_ 1664 ", "BO_ 1663 "), ("BO_ 1760 Report_32: 4", "BO_ 1760 Report_32: 2"),
            ("BO_ 1791 Request", "BO_ 1790 Request")):
        assert old in text, old
        mutants[text.replace(old, new)] = old
    found = faults(tmp_path, dict.fromkeys(mutants, (0x680, False)))
    assert not [old for old, fault in zip(mutants.values(), found) if not fault]


def test_reports_that_begin_elsewhere() -> None:
    """Only heartbeats have the identifiers of the first base."""
    both = make.text("680", "700")
    numbers = [int(number) for number in re.findall(r"^BO_ (\d+) ", both, re.M)]
    assert numbers == [*range(0x680, 0x6C0), *range(0x740, 0x761), 0x77F]


@pytest.mark.parametrize("base", ["", "68", "0680", "681", "800", "20000000", "x80", "680 "])
def test_a_wrong_base_is_refused(base: str, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", [make.__file__, base])
    with pytest.raises(SystemExit) as ended:
        make.main()
    said = capsys.readouterr()
    assert f"python3 -m packages.dbc.make: error: {base!r} " in said.err and not said.out
    assert ended.value.code == 2


def test_it_says_which_version_and_has_every_identifier() -> None:
    lines = make.text().splitlines()
    assert lines[0] == f'VERSION "{project.version()}"'
    found = {int(line.split()[1]): line.split()[2:] for line in lines if line.startswith("BO_ ")}
    assert [*found] == [*range(0x680, 0x680 + 97), 0x6FF]
    assert found[0x683] == ["Heartbeat_3:", "8", "Node"]
    assert found[0x6C0] == ["Report_0:", "8", "Agent"]
    assert found[0x6FF] == ["Request:", "8", "Reader"]
    # The nodes that receive the signals of each frame.
    for block in "\n".join(lines).split("\nBO_ ")[1:]:
        to = "Reader" if " Report_" in block else "Agent"
        signals = re.findall(r'^ SG_ .* "" (.*)$', block, re.M)
        assert signals and set(signals) == {to}, block
