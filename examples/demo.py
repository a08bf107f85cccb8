"""An agent, a vehicle of eight nodes, and somebody who watches.   SPDX-License-Identifier: MIT

    python3 examples/demo.py build/udpserver

All of it on loopback, on a port that is free. In a terminal it goes on until Ctrl-C or q;
otherwise it ends by itself after a few seconds, with a report. The doors fall silent soon,
the radio is late, and half of what the tank sends is damaged on its way.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, NoReturn

EXAMPLES = Path(__file__).resolve().parent
CLIENT = [sys.executable, str(EXAMPLES.parent / "client.py")]
NAMES = ["--names", str(EXAMPLES / "vehicle.ini")]
READING = [*NAMES, "--tick", "100ms"]  # the agent's, so that ages show tenths of a second
UPDATES = 7        # of the table, one a second, when nobody sits there to end it
LONGEST = "1h"     # the nodes end then, should this program be killed without a chance to end them


def ended(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def start_agent(stack: contextlib.ExitStack, server: str,
                said: IO[str]) -> tuple[subprocess.Popen[str], str]:
    """The agent, and where it listens: its first line says that."""
    agent = subprocess.Popen([server, "--bind", "127.0.0.1", "--self", "0", "--tick", "100", "0"],
                             stdout=said, stderr=subprocess.PIPE, text=True)
    stack.callback(end, agent)
    assert agent.stderr is not None
    found = re.search(r"listening on (127\.0\.0\.1:[0-9]+)", agent.stderr.readline())
    if not found:
        raise SystemExit("demo: the agent does not start")
    return agent, found[1]


def end(process: subprocess.Popen[Any], how: signal.Signals = signal.SIGTERM) -> None:
    """If it has not ended already, as after Ctrl-C in a terminal."""
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
    signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))  # those started here get it, too
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(tempfile.TemporaryFile("w+"))
        agent, address = start_agent(stack, sys.argv[1], said)
        nodes = subprocess.Popen(
            [*CLIENT, "simulate", address, *NAMES, "--late", "radio", "--corrupt", "tank",
             "--die", "doors@8s" if interactive else "doors@1s", "--seconds", LONGEST], stdout=said)
        stack.callback(end, nodes)
        watch = [*CLIENT, "watch", address, *READING]
        watcher = subprocess.Popen(watch if interactive else [*watch, "--count", str(UPDATES)])
        stack.callback(end, watcher)
        status = watcher.wait()
        if status != 0:
            return status  # nobody reads, or it has said what is wrong
        if not interactive and not interrupted:
            print("\nThe report:\n", flush=True)
            status = subprocess.run([*CLIENT, "get", address, *READING], check=False).returncode
            print()
        end(nodes, signal.SIGINT)  # after which they say what they have done
        end(agent, signal.SIGINT)
        said.seek(0)
        print(said.read(), end="")
        return status


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 examples/demo.py UDPSERVER")
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"demo: {error}")
