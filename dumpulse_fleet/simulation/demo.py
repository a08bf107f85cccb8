"""Runs a fleet of 50 simulated agents and dumpulse-fleet, until Ctrl-C: `make fleet-demo`.

    python3 -m dumpulse_fleet.simulation.demo [--port N]

The agents are those of fake_fleet.c. Some die, reboot, lie and come back. Nothing is left when it
ends."""

import argparse
import contextlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NoReturn

from dumpulse_fleet.simulation.fake_fleet import FakeFleet
from tools.programs import as_program

ROOT = Path(__file__).resolve().parents[2]
NODES = range(1, 9)  # Variables of examples/vehicle.ini; 0 is the agent's own clock.
AGENTS = 50
SITES = ("harbour", "hill", "mill", "north field", "south field")
# What may happen to an agent or a variable of it, by the words of fake_fleet.c, what ends it, and
# for how many seconds.
TROUBLES = (("die", 0, "live", 45), ("stop", 1, "go", 40), ("stop", 5, "go", 40),
            ("reboot", 0, "live", 1), ("odd", 3, "odd", 25), ("lie", 0, "honest", 30))
FIRST_S, CALM_S = 12, 130  # s in which all is well; s between two troubles of an agent, on average
OUTAGE_S = 90  # s between two times that a whole site is silent, gateway and all


def site_of(number: int) -> int:
    """Agents of one site have numbers that follow each other."""
    return number * len(SITES) // AGENTS


def tell_story(fake: FakeFleet, ending: threading.Event) -> None:
    """Lets things happen to the agents, for a thread."""
    chance, begun, seconds = random.Random(), time.monotonic(), 0
    busy: dict[int, tuple[int, str]] = {}  # Agents in trouble: until when, and what ends it.
    while not ending.wait(max(0.0, begun + seconds - time.monotonic())):
        for number in [agent for agent, (end, _) in busy.items() if end <= seconds]:
            fake.tell(busy.pop(number)[1], number, number)
        site = chance.randrange(len(SITES)) if seconds % OUTAGE_S == OUTAGE_S - 1 else -1
        for number in range(AGENTS) if seconds >= FIRST_S else ():
            gone = site_of(number) == site
            if number not in busy and (gone or chance.random() < 1 / CALM_S):
                verb, variable, end, lasts = TROUBLES[0] if gone else chance.choice(TROUBLES)
                fake.tell(verb, number, number, variable)
                busy[number] = seconds + lasts, end
        seconds += 1


def names() -> str:
    """With a tick of a second and a beat each second, 1.5 s of silence are usual. The values are
    those of the fake fleet."""
    text = (ROOT / "examples" / "vehicle.ini").read_text()
    text = re.sub("(?m)^value = .*\n", "", text).replace("value-warn = 110..135",
                                                         "value-warn = 0..100")
    return text.replace("warn = 1500ms\ncrit = 3s", "warn = 3s\ncrit = 8s")


def configuration(fake: FakeFleet, port: int) -> str:
    text = ["[collector]", 'state = "state"', 'grace = "10s"', "[defaults]", 'period = "1s"',
            "misses = 5", 'names = "vehicle.ini"', "[web]", f'listen = "127.0.0.1:{port}"',
            'token_file = "token"']
    sizes = dict.fromkeys(SITES, 0)
    for number in range(AGENTS):
        site = SITES[site_of(number)]
        row, gateway = sizes[site], f"{site.replace(' ', '-')}-gateway"
        sizes[site] += 1
        name = gateway if row == 0 else f"{site.replace(' ', '-')}-{row:02}"
        text += ["[[agents]]", f'name = "{name}"', f'site = "{site}"',
                 f'address = "{fake.address(number)}"',
                 f'labels = {{ role = "{"vehicle" if row else "gateway"}" }}']
        text += [f'parent = "{gateway}"'] * (row > 0)
    return "\n".join(text) + "\n"


def end(*_: object) -> NoReturn:
    """Once: a second Ctrl-C does not disturb what tidies up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(prog="dumpulse_fleet.simulation.demo", description=(
        "Starts simulated agents and dumpulse-fleet. Ctrl-C ends both."))
    parser.add_argument("--port", type=int, default=9061, metavar="N", help="of the page (9061)")
    options = parser.parse_args()
    if not 1 <= options.port <= 65535:
        parser.error("--port is 1 to 65535")
    if sys.version_info < (3, 11):
        sys.exit("fleet-demo: this needs Python 3.11 or later")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        sys.exit(run(options))
    except KeyboardInterrupt:
        print("\nended")


def run(options: argparse.Namespace) -> int:
    """Until Ctrl-C, or until the fleet ends: its exit status."""
    with contextlib.ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="dumpulse-fleet-")))
        # In groups of their own, so that Ctrl-C does not reach them before we end them.
        fake = parts.enter_context(FakeFleet(AGENTS, variables=len(NODES)))
        ending = threading.Event()
        story = threading.Thread(target=tell_story, args=(fake, ending))
        story.start()
        parts.callback(story.join)
        parts.callback(ending.set)
        (folder / "vehicle.ini").write_text(names())
        (folder / "token").write_text("demo\n")
        (folder / "fleet.toml").write_text(configuration(fake, options.port))
        service = parts.enter_context(subprocess.Popen(
            [sys.executable, "-m", "dumpulse_fleet", "serve",
             "--config.file", str(folder / "fleet.toml")],
            cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True))
        parts.callback(service.terminate)
        assert service.stderr
        for line in service.stderr:
            if "the page is" in line:
                print(tell(options.port, folder), flush=True)
            else:
                print(line, end="", flush=True)
        return service.wait()


def tell(port: int, folder: Path) -> str:
    return f"""
{AGENTS} agents run here, and dumpulse-fleet polls each of them every second.
Open this page:  http://127.0.0.1:{port}/

Soon some agents will die, reboot, lie and come back. The token for changes is
in {folder}/token. Ctrl-C ends all of it.
"""


if __name__ == "__main__":
    as_program(main, ".*")
