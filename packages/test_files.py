"""The files that users take as they are, read by the tools for which they are: DBC files by
cantools, the module by MicroPython for Linux, and images as simulators run them."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

import client
from firmware.simulators.boards import BOARDS
from packages import making, project
from packages.firmware import make as firmware
from spec import model
from tools.programs import PATIENCE, vectors

TOOLS = project.ROOT / "build" / "venv-packages" / "bin"

# ---------------------------------------------------------------- DBC files

# Decodes frames.
DECODES = """
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
    made, named = making.builder("dbc")(tmp_path)
    assert made.read_text().startswith(f'VERSION "{project.version()}"\n')
    for number, name in ((1, "engine"), (2, "brakes")):
        assert f"\nBO_ {0x680 + number} Heartbeat_{name}: " in named.read_text()
    if base != "680":
        made.write_text(client.format_dbc(base=client.parse_base(base)))
    frames = [(int(base, 16) + offset, len(base) == 8, content.hex())
              for offset, content, _, _ in traffic()]
    shown = json.loads(subprocess.run([TOOLS / "python", "-c", DECODES], text=True, check=True,
                                      input=json.dumps([str(made), frames]),
                                      stdout=subprocess.PIPE).stdout)
    assert shown == [
        [[name, values] for _, _, name, values in traffic()],
        [[["Node"], ["Agent"]]] * 64 + [[["Agent"], ["Reader"]]] * 33 + [[["Reader"], ["Agent"]]]]


# ---------------------------------------------------------------- the module for MicroPython

# Answers each line of the standard input: a heartbeat to make, or a packet to read.
ANSWERS = """
import dumpulse, json, sys
for line in sys.stdin:
    words = json.loads(line)
    try:
        if len(words) == 3:
            print(json.dumps(dumpulse.heartbeat(*words).hex()))
        else:
            found = dumpulse.entries(bytes.fromhex(words[0]))
            print(json.dumps([[at] + list(found[at]) for at in sorted(found)]))
    except ValueError:
        print("null")
print(dumpulse.__version__)
"""


def expected_entries(report: str) -> object:
    """By the model alone."""
    every = model.Agent.of_table(bytes.fromhex(report)).entries
    return [[variable, entry[0] * 256 + entry[1], entry[2], entry[3]]
            for variable, entry in enumerate(every) if any(entry)]


@pytest.mark.long
def test_it_makes_and_reads_what_the_model_does(tmp_path: Path) -> None:
    """What the vectors make and check."""
    asked: list[tuple[list[object], object]] = []
    for line in vectors("vectors.tsv").read_text().splitlines():
        kind, *rest = line.split("\t")
        if kind == "make":
            asked.append(([*map(int, rest[:3])], rest[3] if int(rest[0]) < 64 else None))
        elif kind == "report":
            asked.append(([rest[2]], expected_entries(rest[2])))
        elif kind == "check":
            wanted = expected_entries(rest[0]) if rest[1] == "yes" else None
            asked.append(([rest[0].strip("-")], wanted))
    lines = "".join(f"{json.dumps(each)}\n" for each, _ in asked)
    making.builder("micropython")(tmp_path)
    (tmp_path / "program.py").write_text(ANSWERS)
    done = subprocess.run([TOOLS / "micropython", "program.py"], cwd=tmp_path, text=True,
                          input=lines, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    *answers, version = done.stdout.splitlines()
    assert version == project.version() and len(answers) == len(asked) > 40
    assert [*map(json.loads, answers)] == [answer for _, answer in asked]


# ---------------------------------------------------------------- images


def flash_in(image: Path, folder: Path) -> bytes:
    """The bytes that a file has for the flash. Each block of a .uf2 file has 256 of them."""
    if image.suffix == ".uf2":
        blocks = image.read_bytes()
        return b"".join(blocks[at + 32:at + 288] for at in range(0, len(blocks), 512))
    tool = ["objcopy", "-I", "ihex"] if image.suffix == ".hex" else \
        firmware.objcopy(BOARDS[image.stem])
    subprocess.run([*tool, "-O", "binary", image, folder / "flash"], check=True)
    return (folder / "flash").read_bytes()


@pytest.mark.slow
def test_each_image_for_a_real_board_is_there_and_is_what_make_builds(tmp_path: Path) -> None:
    (packed_file,) = firmware.build(tmp_path)
    with zipfile.ZipFile(packed_file) as packed:
        packed.extractall(tmp_path)
    images = tmp_path / packed_file.stem
    made = {path.stem: path for path in images.glob("*.*") if path.suffix in (".hex", ".uf2")}
    assert {*made} == {*firmware.IMAGES} == {*BOARDS}
    for name, image in made.items():
        built = flash_in(project.ROOT / f"build/firmware/{name}.elf", images)
        there = flash_in(image, images)
        assert there[:len(built)] == built and not any(there[len(built):]) and len(built) > 100
