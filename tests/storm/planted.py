"""Plants mistakes in the agent and the library, and counts how many stories of the storm it takes
until each is noticed. planted.tsv has the mistakes.

    python -m tests.storm.planted [--count N] [--portion K/N] [--write] [TEXT]

TEXT: only mistakes that have it. --portion: each N-th, from the K-th on, without the open debts.
--write: the last column of the table gets the counts. A mistake that no story shows is an open
debt: that column says what would show it."""

import argparse
import functools
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.programs import as_program, portion, wraps

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FLAGS = ["-std=c99", "-O2", "-w", "-I.", "-Iextras", "-pthread"]
LONGEST = 600  # s, of all stories of one mistake
PASSED = re.compile(r"storm: (\d+) stories from seed 1: \d+ passed, (\d) failed")
FAILING = re.compile(r"storm: (\d+) stories in each of which a call fails: (\d+) passed")


@dataclass(frozen=True)
class Planted:
    what: str
    file: str
    before: str
    after: str
    shown: str

    @property
    def is_open(self) -> bool:
        """Is it a debt?"""
        return self.shown.startswith("open: ")


def read_table() -> list[Planted]:
    """Returns the lines of the table. \\n stands for the end of a line."""
    lines = (HERE / "planted.tsv").read_text().splitlines()
    return [Planted(*line.replace("\\n", "\n").split("\t")) for line in lines
            if not line.startswith("#")]


NONE = Planted("nothing", "udpserver.c", "\nstruct udpserver udpserver;\n",
               "\nstruct udpserver udpserver;\n", "")


def plant(mistake: Planted) -> str:
    """Returns the text of the file with the mistake."""
    text = (ROOT / mistake.file).read_text()
    if text.count(mistake.before) != 1:
        raise ValueError(f"{mistake.file} does not have once: {mistake.before}")
    return text.replace(mistake.before, mistake.after)


def is_of_image(mistake: Planted) -> bool:
    return mistake.file.startswith("firmware/")


def build_image(mistake: Planted, folder: Path) -> list[str | Path]:
    """Compiles the image with it, as make does."""
    source = folder / Path(mistake.file).name
    image = "build/firmware/can_stm32-f4.elf"
    source.write_text(plant(mistake))
    commands = subprocess.run(["make", "-n", "-W", mistake.file, image], cwd=ROOT, check=True,
                              capture_output=True, text=True).stdout.splitlines()
    (command,) = (line for line in commands if line.endswith(f"-o {image}"))
    command = command.replace(f" {mistake.file} ", f" -w -Ifirmware {source} ").replace(image, "")
    subprocess.run([*shlex.split(command), folder / "image"], cwd=ROOT, check=True)
    return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.storm.images", "--image",
            folder / "image"]


def main_of(mistake: Planted) -> str:
    """Returns the agent that can show it."""
    return "server/canserver.c" if mistake.file.startswith("server/can") else "udpserver.c"


def sources(agent: str = "udpserver.c") -> list[str]:
    roots = [*ROOT.glob("extras/*.c"), *ROOT.glob("server/*.c"), *HERE.glob("*.c")]
    files = [str(path.relative_to(ROOT)) for path in roots if path.name != "canserver.c"]
    return ["dumpulse.c", agent, *sorted(files)]


def compile_file(source: str, target: Path, *more: str) -> None:
    subprocess.run(["gcc", *FLAGS, *more, "-c", source, "-o", target], cwd=ROOT, check=True)


OBJECTS = tempfile.TemporaryDirectory()


@functools.cache
def object_of(source: str) -> Path:
    """Compiles it once."""
    target = Path(OBJECTS.name, source.replace("/", "-") + ".o")
    compile_file(source, target)
    return target


def build(mistake: Planted, folder: Path) -> list[str | Path]:
    """Returns the storm with this mistake: a command, for the folder."""
    if is_of_image(mistake):
        return build_image(mistake, folder)
    changed, program = folder / Path(mistake.file).name, folder / "storm"
    changed.write_text(plant(mistake))
    compile_file(str(changed), folder / "changed.o", "-iquote", str(Path(mistake.file).parent))
    linked = [folder / "changed.o" if source == mistake.file else object_of(source)
              for source in sources(main_of(mistake))]
    subprocess.run(["gcc", "-pthread", *linked, *wraps("build/storm"), "-o", program], check=True)
    return [program]


def tell(command: list[str | Path], folder: str, pattern: re.Pattern[str]) -> list[str]:
    """Returns the two numbers of its last lines, or nothing if it crashes."""
    run = subprocess.run(command, cwd=folder, timeout=LONGEST, capture_output=True, text=True)
    found = pattern.search(run.stdout)
    return [*found.groups()] if found else []


def count_stories(mistake: Planted, most: int) -> str:
    """Returns after how many stories the mistake is noticed: those by chance, or those in which a
    call fails."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = build(mistake, Path(folder))
            told = tell([*program, "--from", "1", "--count", str(most)], folder, PASSED)
            if told[1:] == ["0"] and len(program) == 1:
                failing = tell([*program, "--fail-each", "1"], folder, FAILING)
                if not failing or failing[0] != failing[1]:
                    return f"call {failing[0]}" if failing else "it crashes"
    except subprocess.TimeoutExpired:
        return f"not in {LONGEST} s" if is_of_image(mistake) else "it hangs"
    if not told:
        return "it crashes"
    return told[0] if told[1] == "1" else f"not in {most}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--portion", type=portion, default=slice(None), metavar="K/N")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("text", nargs="?", default="")
    arguments = parser.parse_args()
    is_portion = arguments.portion.step is not None  # make full has the stories without a mistake
    control = "not planted" if is_portion else count_stories(NONE, arguments.count)
    if not control.startswith("not"):
        sys.exit(f"planted: without a mistake, story {control} fails")
    missed = 0
    for mistake in read_table()[arguments.portion]:
        if arguments.text not in mistake.what or is_portion and mistake.is_open:
            continue
        stories = count_stories(mistake, arguments.count)
        missed += stories.startswith("not") and not mistake.is_open
        print(f"{stories:>12}  {mistake.what}", flush=True)
        if mistake.is_open and stories.startswith("not"):
            continue
        if arguments.write:
            lines = (HERE / "planted.tsv").read_text().splitlines()
            lines = ["\t".join([*line.split("\t")[:4], stories])
                     if line.startswith(f"{mistake.what}\t") else line for line in lines]
            (HERE / "planted.tsv").write_text("\n".join(lines) + "\n")
    debts = sum(mistake.is_open for mistake in read_table())
    print(f"planted: {missed} not noticed, and {debts} open debts")
    return missed != 0


if __name__ == "__main__":
    as_program(main, ".*")
