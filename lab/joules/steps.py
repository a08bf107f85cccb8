"""Every operation of the lab's table, as a program that repeats it on this computer.

Here the processor runs all that it can, with its own instructions for SHA or AES. The counts of
lab/messages/counts.tsv are made without them, so the two do not belong into one column."""

import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.joules.measuring import Failed
from lab.messages.counts import Builder
from lab.messages.machines import MACHINES
from lab.messages.schemes import SCHEMES, Scheme, Step

HERE = "amd64"  # The only machine of the lab whose programs run here.
SHOWN = 8  # Limit of the similar names that an error lists.


@dataclass(frozen=True)
class Operation:
    scheme: Scheme
    step: Step
    length: int

    @property
    def name(self) -> str:
        words = f"{self.scheme.key} {self.step.name} {self.length or ''}"
        return re.sub(r"[^a-z0-9]+", "-", words.casefold()).strip("-")

    def program(self) -> Path:
        return Builder(self.scheme, MACHINES[HERE], HERE).image(self.step, self.length,
                                                               program="repeat.c")


def operations() -> dict[str, Operation]:
    every = [Operation(scheme, step, length) for scheme in SCHEMES if HERE in scheme.targets
             for step in scheme.steps for length in step.lengths]
    return {operation.name: operation for operation in every}


def of_folder(folder: str, step: str | None) -> list[Operation]:
    """The steps of a scheme that the lab does not have, as lab/joules/scheme.py builds it."""
    from lab.joules import scheme
    custom = scheme.scheme_of(scheme.looked_at(folder))
    matching = [Operation(custom, candidate, candidate.lengths[0]) for candidate in custom.steps
                if step in (None, candidate.name)]
    if not matching or HERE not in custom.targets:
        raise ValueError(f"{folder} has no step {step!r}" if not matching else
                         f"{folder} cannot be compiled for this computer")
    return matching


def like(name_or_words: str) -> list[str]:
    """Names that have all these words."""
    words = re.findall(r"[a-z0-9]+", name_or_words.casefold())
    return [name for name in operations() if all(word in name for word in words)]


def chosen(name_or_words: str) -> Operation:
    """By its name, or by words that only one has. Raises ValueError."""
    if platform.machine() != "x86_64":
        raise ValueError(f"the lab's operations are built for amd64; this is {platform.machine()}")
    names = [name_or_words] if name_or_words in operations() else like(name_or_words)
    if len(names) != 1:
        some = ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
        raise ValueError(f"{len(names)} operations are like {name_or_words!r}: {some}" if names else
                         f"no operation is like {name_or_words!r}; --list shows all")
    return operations()[names[0]]


def repeated(program: Path, how: str, much: float) -> int:
    """Runs it for so many seconds or calls, and returns how many calls there were."""
    done = subprocess.run([program, how, f"{much:.17g}"], capture_output=True, text=True,
                          check=False)
    match = re.fullmatch(r"calls (\d+)\nright 1\n", done.stdout)
    if done.returncode or not match:
        raise Failed(f"{program.name} did not do its work: status {done.returncode}, "
                     f"{(done.stdout + done.stderr).strip()!r}")
    return int(match[1])
