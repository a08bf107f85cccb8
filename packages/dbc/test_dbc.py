"""cantools reads frames of the model by the DBC file."""

import json
import subprocess
from pathlib import Path

import pytest

import client
from packages import project
from packages.dbc import make
from spec import model

TOOLS = project.ROOT / "build" / "venv-packages" / "bin" / "python"
# Decodes frames.
PROGRAM = """
import cantools, json, sys
path, frames = json.load(sys.stdin)
database = cantools.database.load_file(path, strict=True)
decoded = [[database.get_message_by_frame_id(number, force_extended_id=long).name,
            database.decode_message(number, bytes.fromhex(data), force_extended_id=long)]
           for number, long, data in frames]
print(json.dumps([decoded, [[message.senders, sorted(message.receivers)]
                            for message in database.messages]]))
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
    for frame in range(33):  # Frame k has bytes 8k to 8k + 7 (SPEC.md).
        content = report[8 * frame:8 * frame + 8]
        values = entry(2 * frame - 1, content) if frame else \
            {"Checksum": int.from_bytes(content[:4], "big")}
        if len(content) == 8:
            values |= entry(2 * frame, content[4:])
        found.append((64 + frame, content, f"Report_{frame}", values))
    return found + [(127, model.REQUEST, "Request",
                     {"AreYouOK": int.from_bytes(b"AreyouOK", "big")})]


@pytest.mark.long
@pytest.mark.parametrize("base", ["680", "000", "1fffff80", "00000680"])
def test_cantools_decodes_every_frame(tmp_path: Path, base: str) -> None:
    made, named = make.build(tmp_path)
    assert made.read_text().startswith(f'VERSION "{project.version()}"\n')
    for number, name in ((1, "engine"), (2, "brakes")):
        assert f"\nBO_ {0x680 + number} Heartbeat_{name}: " in named.read_text()
    if base != "680":
        made.write_text(client.format_dbc(base=client.parse_base(base)))
    frames = [(int(base, 16) + offset, len(base) == 8, content.hex())
              for offset, content, _, _ in traffic()]
    shown = json.loads(subprocess.run([TOOLS, "-c", PROGRAM], text=True, check=True,
                                      input=json.dumps([str(made), frames]),
                                      stdout=subprocess.PIPE).stdout)
    assert shown == [
        [[name, values] for _, _, name, values in traffic()],
        [[["Node"], ["Agent"]]] * 64 + [[["Agent"], ["Reader"]]] * 33 + [[["Reader"], ["Agent"]]]]
