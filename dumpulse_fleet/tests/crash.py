"""A program that test_store.py kills: it stores events, and prints what is acknowledged.

    python3 -m dumpulse_fleet.tests.crash FILE

Each line of its input is a number. Then a child of it stores events, which count up from there,
until somebody kills it. Lines of the output: "child PID", "over" when it is dead, and numbers: the
last event that is on the disk, as a subscriber is told. Children start at once, because all modules
are loaded already.   SPDX-License-Identifier: MIT
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from dumpulse_fleet.model.agents import Event
from dumpulse_fleet.record.store import Store


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())


def store_events(path: str, value: int) -> NoReturn:
    store = Store(path, rows=10_000_000)

    def acknowledge(events: Sequence[Event]) -> None:
        if not store.trouble:
            say(events[-1].now)

    store.subscribe(acknowledge).result()
    while True:
        size = 1 + value % 37
        if store.publish([Event(time.time(), f"agent {each % 100}", each % 64, "state", "alive",
                                str(each), 1.0) for each in range(value, value + size)]):
            value += size
        time.sleep(0.001)  # some 10,000 events a second


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            store_events(sys.argv[1], int(line))
        say(f"child {child}")
        os.waitpid(child, 0)
        say("over")


if __name__ == "__main__":
    main()
