#!/usr/bin/env python3
"""Prints the values of a variable for a plot, as they change.   SPDX-License-Identifier: MIT

    dumpulse-plot localhost 3 | feedgnuplot --lines --stream --timefmt %s --domain

After `make install`, write `import dumpulse`.
"""

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import client as dumpulse


async def main(address: str, variable: int) -> None:
    async for change in dumpulse.Agent(address).changes():
        if change.error:
            print(change.error, file=sys.stderr)
        for reading in change.readings:
            if reading.variable.number == variable:
                print(f"{time.time():.1f} {reading.entry.value}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
