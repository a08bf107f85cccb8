"""The first hour on hardware: flashes a board that is on a cable, tests its agent step by step, and
prints a table to send in.

    python3 -m firmware.hardware.first_hour BOARD PORT [--no-flash]
    make hour BOARD=uart_atmega328p PORT=/dev/ttyACM0

BOARD is an image, PORT a serial device or a CAN interface of Linux. The agent must be without keys.
Exits with status 1 if a step fails."""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import client
from firmware.simulators.boards import BOARDS, Board
from firmware.uf2 import uf2
from tools.programs import ROOT, as_program

BEATS, FLOOD = 100, 2000  # heartbeats
BEAT_S, SILENCE_S = 0.02, 5.0
LIVE, DEAD, SENDER = 3, 7, 76  # two variables, and who sends them
OPENOCD = {"f1": ("stlink", "stm32f1x"), "f4": ("stlink", "stm32f4x"),
           "nrf51": ("cmsis-dap", "nrf51")}  # keys are the ends of images' names


class Failed(Exception):
    """What happened instead of what a step expects."""


def flash_command(board: Board, port: str) -> list[str]:
    """How to flash it. Empty: the page of the image has the command."""
    image = board.image().relative_to(ROOT)
    if board.mcu == "atmega328p" and board.baud:
        return ["avrdude", "-p", "m328p", "-c", "arduino", "-P", port, "-b", "115200", "-D",
                "-U", f"flash:w:{image}:e"]
    if board.mcu:
        part = {"atmega328p": "m328p", "attiny85": "t85"}[board.mcu]
        return ["avrdude", "-p", part, "-c", "usbasp", "-U", f"flash:w:{image}:e"]
    if board.simulator == "rp2040js":
        file = image.with_suffix(".uf2")
        (ROOT / file).write_bytes(uf2(ROOT / image))
        return ["cp", str(file), "/media/RPI-RP2"]
    for end, (probe, target) in OPENOCD.items():
        if board.name.endswith(end):
            return ["openocd", "-f", f"interface/{probe}.cfg", "-f", f"target/{target}.cfg",
                    "-c", f"program {image} verify reset exit"]
    return []


def ask(question: str) -> str:
    print(question, end=" ", flush=True)
    return sys.stdin.readline().strip()


class Hour:
    def __init__(self, board: Board, port: str) -> None:
        self.board = board
        self.address = f"serial:{port}@{board.baud}" if board.baud else f"can:{port}"
        self.agent = client.Agent(self.address)

    def poll(self) -> client.Entries:
        try:
            return self.agent.ask(5)
        except client.Error as error:
            raise Failed(str(error)) from error

    @contextmanager
    def line(self) -> Iterator[Callable[[int, int], None]]:
        """Opens the line for many heartbeats."""
        parse, kind = client.TRANSPORTS[client.prefix_of(self.address)]
        with closing(kind(*parse(self.address))) as transport:
            transport.open(5)
            yield lambda variable, value: transport.send(
                client.heartbeat(variable, SENDER, value))

    def beat_once(self, value: int = 126) -> None:
        with self.line() as beat:
            beat(LIVE, value)
            time.sleep(0.2)
        entry = self.poll()[LIVE]
        if entry[1:] != (SENDER, value):
            raise Failed(f"variable {LIVE} has value {entry.value} of sender {entry.sender}")

    def count_losses(self) -> None:
        before = self.poll()[0].value
        with self.line() as beat:
            for count in range(BEATS):
                beat(LIVE + count % 50, count)
                time.sleep(BEAT_S)
        after = self.poll()
        arrived = sum(after[LIVE + count % 50][1:] == (SENDER, count)
                      for count in range(BEATS - 50, BEATS))
        if arrived != 50 or after[0].value != before:
            raise Failed(f"{arrived} of the last 50 arrived; variable 0: {after[0].value - before}")

    def cut_a_node(self) -> None:
        """Two nodes send, and then only one of them."""
        end = time.monotonic() + SILENCE_S
        with self.line() as beat:
            beat(DEAD, 1)
            while time.monotonic() < end:
                beat(LIVE, 1)
                time.sleep(0.2)
        entries = self.poll()
        now = entries[0].timestamp
        live, dead = (client.age(now, entries[variable].timestamp) for variable in (LIVE, DEAD))
        if not live + 2 < dead < 1000:
            raise Failed(f"ages of {dead} and {live} ticks")

    def flood(self) -> None:
        with self.line() as beat:
            for count in range(FLOOD):
                beat(DEAD, count % 256)
        time.sleep(1)
        self.beat_once(200)

    def reset(self) -> None:
        ask("Reset the board now, and press Enter after 2 seconds.")
        entry = self.poll()[LIVE]
        if not entry.never:
            raise Failed(f"variable {LIVE} still has value {entry.value}: no reset")

    STEPS: tuple[tuple[str, str, Callable[["Hour"], object]], ...] = (
        ("poll", "a verified report", poll),
        ("send a heartbeat", f"variable {LIVE} is 126", beat_once),
        (f"send {BEATS}, 50 a second", "none is lost", count_losses),
        ("cut a node for 5 s", "only it grows old", cut_a_node),
        (f"flood with {FLOOD}", "answers; the next counts", flood),
        ("reset by hand", "an empty table", reset))


def flash(board: Board, port: str) -> str:
    command = flash_command(board, port)
    if not command:
        return ask("Flash it as its page in firmware/ says, and press Enter.") or "by hand"
    print("$", *command)
    if ask("Run this? [y/N]") != "y":
        return "skipped"
    return "ok" if subprocess.run(command, cwd=ROOT).returncode == 0 else "FAILED"


def main() -> int:
    name, port, *options = sys.argv[1:]
    board = BOARDS.get(name)
    if board is None or board.keyed or board.keyed_node or board.only_sends:
        raise SystemExit(f"{name} is no agent without keys on a serial line or a CAN bus")
    if setup := subprocess.run([ROOT / "tools/setup", *board.needs]).returncode:
        return setup
    image = hashlib.sha256(board.image().read_bytes()).hexdigest()[:16]
    flashed = "skipped" if options else flash(board, port)
    hour, rows = Hour(board, port), [("flash", "ends without an error", flashed)]
    for step, expected, test in hour.STEPS:
        print(f"{step} …", flush=True)
        try:
            test(hour)
            rows.append((step, expected, "ok"))
        except (Failed, client.Error) as problem:
            rows.append((step, expected, f"FAILED: {problem}"))
    print(f"\n{time.strftime('%Y-%m-%d')}  {name}  image {image}")
    for step, expected, outcome in rows:
        print(f"{step:22.22} {expected:25.25} {outcome:.31}".rstrip())
    return any(outcome.startswith("FAILED") for _, _, outcome in rows)


if __name__ == "__main__":
    as_program(main, r"[^-]\S* [^-]\S*( --no-flash)?")
