"""An agent, a vehicle of eight nodes, and a live table.   SPDX-License-Identifier: MIT

    python3 examples/demo.py build/udpserver

Everything runs on loopback, on a free port. In a terminal it runs until Ctrl-C. In a pipe
it ends after a few seconds and prints a report. The doors soon stop, the radio is late, and half
of the tank's heartbeats are damaged.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, NoReturn

EXAMPLES = Path(__file__).resolve().parent
sys.path.insert(0, str(EXAMPLES.parent))

from client import heartbeat, parse_udp

CLIENT = [sys.executable, str(EXAMPLES.parent / "client.py")]
NAMES = ["--names", str(EXAMPLES / "vehicle.ini")]
READING = [*NAMES, "--tick", "100ms"]  # the agent's, so that ages show tenths of a second
UPDATES = 7        # Seconds until it shows the report in a pipe.
TURN_S = 0.25
DOORS, TANK, RADIO = 5, 7, 8
PERIODS = {1: 1, 2: 1, 3: 2, 4: 1, DOORS: 2, 6: 2, TANK: 4, RADIO: 32}  # turns, by variable


def on_signal(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def start_agent(stack: contextlib.ExitStack, server: str,
                log: IO[str]) -> tuple[subprocess.Popen[str], str]:
    """The agent and its address, which is in its first line."""
    agent = subprocess.Popen([server, "--bind", "127.0.0.1", "--self", "0", "--tick", "100", "0"],
                             stdout=log, stderr=subprocess.PIPE, text=True)
    stack.callback(end, agent)
    assert agent.stderr is not None
    match = re.search(r"listening on (127\.0\.0\.1:[0-9]+)", agent.stderr.readline())
    if not match:
        raise SystemExit("demo: the agent does not start")
    return agent, match[1]


def beat(address: str, doors_stop_s: float, ended: threading.Event) -> None:
    """Sends the heartbeats of the eight nodes until the event is set."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        for turn in itertools.count():
            for variable, period in PERIODS.items():
                if turn % period or variable == DOORS and turn * TURN_S >= doors_stop_s:
                    continue
                value = random.randint(90, 100) + 20 * (variable != TANK)
                packet = bytearray(heartbeat(variable, 10 + variable, value))
                if variable == TANK and random.random() < 0.5:
                    packet[-1] ^= 1  # now its checksum is wrong
                link.sendto(packet, parse_udp(address))
            if ended.wait(TURN_S):
                return


def end(process: subprocess.Popen[Any], how: signal.Signals = signal.SIGTERM) -> None:
    """Ends a process. After Ctrl-C in a terminal, it has ended already."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> int:
    interactive = sys.stdout.isatty()
    interrupted: list[int] = []
    # Ctrl-C goes to the processes that this program starts, too. They end, and then it goes on.
    signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile("w+"))
        agent, address = start_agent(stack, sys.argv[1], log)
        ended = threading.Event()
        stack.callback(ended.set)
        threading.Thread(target=beat, args=(address, 8 if interactive else 1, ended)).start()
        watch = [*CLIENT, "watch", address, *READING]
        watcher = subprocess.Popen(watch) if interactive else subprocess.Popen(
            [*watch, "--count", str(UPDATES)], stdout=subprocess.DEVNULL)
        stack.callback(end, watcher)
        status = watcher.wait()
        if status != 0:
            return status  # nobody reads, or an error was printed
        if not interactive and not interrupted:
            print("The report:\n", flush=True)
            status = subprocess.run([*CLIENT, "get", address, *READING], check=False).returncode
            print()
        end(agent, signal.SIGINT)  # It prints its counters at the end.
        log.seek(0)
        print(log.read(), end="")
        return status


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 examples/demo.py UDPSERVER")
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"demo: {error}")
