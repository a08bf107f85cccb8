"""How the lab's commands take their options.   SPDX-License-Identifier: MIT"""

from __future__ import annotations

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Of `make COMMAND ARGS="…"`. An error is one line that names the help, and status 2."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(prog=f"make {command}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f'{self.prog}: {message} (see {self.prog} ARGS="--help")\n')
