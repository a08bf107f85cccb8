"""How the lab's commands take their options."""

import argparse
import math
from collections.abc import Callable
from typing import NoReturn


def number(least: float, most: float, of: Callable[[str], float] = int) -> Callable[[str], float]:
    """For add_argument(type=…): says which numbers are possible."""
    def parsed(text: str) -> float:
        try:
            value = of(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text}: a number from {least:,g} to {most:,g} is wanted")
        return value
    return parsed


class Parser(argparse.ArgumentParser):
    """Of `make COMMAND ARGS="…"`. An error is one line that names the help, and status 2."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(prog=f"make figures ONLY={command}", description=description,
                         allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f'{self.prog}: {message} (see {self.prog} ARGS="--help")\n')
