"""Puts the options of the parser of client.py into its manual, which `make install` installs.

    python3 -m tools.manual FOLDER"""

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import client

ROOT = Path(__file__).resolve().parents[1]
MANUAL = ROOT / "client" / "dumpulse.1"


def metavar(action: argparse.Action) -> str:
    """Returns the name of the option's value, or nothing if it has none."""
    return str(action.metavar) if action.nargs != 0 else ""


OPTIONS = '.\\" Here `make install` puts the options, from the parser of client.py.'


def roff(text: str) -> str:
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))


Parser = Callable[[str], argparse.ArgumentParser]


def manual_options(build_parser: Parser = client.build_parser,
                   commands: Iterable[str] = tuple(client.COMMANDS)) -> str:
    """Describes each option once, with the commands that have it."""
    commands_by_option: dict[tuple[str, str, str], list[str]] = {}
    for command in commands:
        for action in build_parser(command)._actions:
            if action.option_strings and action.dest not in ("help", "version"):
                key = ", ".join(action.option_strings), metavar(action), str(action.help)
                commands_by_option.setdefault(key, []).append(command)
    lines = []
    for (flags, value, meaning), having in commands_by_option.items():
        named = f'.BI "{roff(flags)}" " {roff(value)}"' if value else f'.B "{roff(flags)}"'
        sentence = roff(meaning[0].upper() + meaning[1:])
        about = textwrap.wrap(f"{sentence}. ({', '.join(having)})", 100, break_on_hyphens=False)
        lines += [".TP", named, *about]
    return "\n".join(lines)


def manual() -> str:
    before, marker, after = MANUAL.read_text().partition(OPTIONS)
    assert marker
    return f"{before}{manual_options()}{after}"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"dumpulse.1.{os.getpid()}"  # another `make install` may want it just now
    new.write_text(manual())
    new.replace(folder / "dumpulse.1")
