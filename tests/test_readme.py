"""Takes the programs from the pages, compiles them, and talks to them."""

import functools
import re
import shlex
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

import client
from firmware.simulators.boards import BOARDS, LiveLine
from spec.model import REQUEST, Agent, heartbeat
from tools.agents import FakeAgent
from tools.agents import run as ask
from tools.programs import BUILD, INCLUDES, ROOT, library_file, run, wait_until
from tools.servers import Server


def firmware_of_the_page() -> str:
    page = (ROOT / "firmware" / "README.md").read_text()
    (found,) = re.findall(r"^```c\n(.*?)^```$", page, re.S | re.M)
    return str(found)


def compiled(program: str, name: str) -> Path:
    folder = BUILD / "readme"
    folder.mkdir(parents=True, exist_ok=True)
    source, image = folder / f"{name}.c", folder / f"{name}.elf"
    source.write_text(program)
    run(["avr-gcc", "-mmcu=atmega328p", "-Os", "-Wall", "-Wextra", "-Werror", *INCLUDES,
         source, library_file("dumpulse.c"), "-o", image])
    return image


@functools.cache
def firmware_image() -> Path:
    return compiled(firmware_of_the_page(), "agent")


def run_firmware(*pauses_and_packets: float | bytes, image: Path | None = None,
                 baud: int = 115_200) -> bytes:
    """Returns the firmware's answers to packets, with pauses (numbers of seconds) between them."""
    board = replace(BOARDS["uart_atmega328p"], baud=baud, keyed_node=True)  # takes a script
    with LiveLine(board, b"\xff", image or firmware_image()) as line:
        return b"".join(line.do(send=step) if isinstance(step, bytes) else
                        line.do(f"wait {step * 1e6:.0f}") for step in (*pauses_and_packets, 0.05))


def test_no_tick_is_lost_while_reports_leave() -> None:
    """An ATtiny85 sends each bit by its timer. Its clock goes on meanwhile, for 20 reports."""
    board = replace(BOARDS["uart_attiny85"], keyed_node=True)  # takes a script
    with LiveLine(board, b"\xff") as line:
        answers = [line.do(send=REQUEST) + line.do("wait 143000") for _ in range(20)]
    assert entries_of(answers[-1])[0] == bytes((0, 5, 1, 0))  # after 5 ticks of 500 ms


# What README.md leaves to its reader, on an ATmega328P: a clock, and a serial line that is polled.
PLATFORM = """#include <avr/interrupt.h>
#include <avr/io.h>
#include <stddef.h>
enum { MY_ADDRESS = 5 };
static volatile uint8_t count;
ISR(TIMER1_COMPA_vect) { count++; }
static uint16_t seconds(void) { return count; }
static void send_to_reader(void *line, const uint8_t *packet, size_t length)
{
    for (; length != 0; length--) {
        loop_until_bit_is_set(UCSR0A, UDRE0);
        *(volatile uint8_t *)line = *packet++;
    }
}
%s
static void send_it(const uint8_t *packet, size_t length) { on_packet(NULL, packet, length); }
int main(void)
{
    uint8_t battery_volts = 126, request[8], length = 0;
    TCCR1B = _BV(WGM12) | _BV(CS12) | _BV(CS10); /* 16 MHz divided by 1024 */
    OCR1A = 15624;
    TIMSK1 = _BV(OCIE1A);
    sei();
%s
    UCSR0B = _BV(RXEN0) | _BV(TXEN0);
    for (;;) {
        loop_until_bit_is_set(UCSR0A, RXC0);
        request[length++] = UDR0;
        if (length == sizeof request)
            on_packet((void *)&UDR0, request, length);
    }
}
"""


def test_the_node_and_the_agent_of_the_readme() -> None:
    """Both run in one ATmega328P, and client.py polls the agent 2 s after the heartbeat. The second
    agent does not stamp variable 0: the client then shows no age."""
    page = (ROOT / "README.md").read_text()
    node, agent, _ = re.findall(r"^```c\n(.*?)^```$", page, re.S | re.M)
    (options,) = re.findall(r"`\./client\.py serial:/dev/ttyACM0 ([^`]*)`", page)
    silent = re.sub(r"^ *dumpulse_record.*\n", "", agent, flags=re.M)
    for name, program, age in (("ages", agent, "2 s ago"), ("no-ages", silent, "?")):
        image = compiled(PLATFORM % (program, node), name)
        with FakeAgent([run_firmware(2.0, REQUEST, image=image, baud=1_000_000)]) as simulated:
            shown = ask("get", simulated.address, *options.split())
        assert re.findall(r"^7 +126 +5  (.*)$", shown.stdout, re.M) == [age], shown
    assert (len(node.splitlines()), len(agent.splitlines())) == (3, 12)


# What README.md leaves to a reader. It prints how it judges the reports on its input.
READER = """#include "dumpulse.h"
#include <stdio.h>
static bool is_silent;
static void warn_of_battery(void) { is_silent = true; }
%s
int main(void)
{
    uint8_t report[DUMPULSE_REPORT_SIZE];
    for (; fread(report, sizeof report, 1, stdin) == 1; is_silent = false) {
        on_report(report, sizeof report);
        puts(is_silent ? "silent" : "alive");
    }
    return dumpulse_changed_variable(report) == DUMPULSE_VARIABLES;
}
"""


@pytest.mark.parametrize("compiler", [
    "gcc -std=c99", "avr-gcc -mmcu=atmega328p -std=c11",
    "arm-none-eabi-gcc -mcpu=cortex-m0plus -mthumb -std=c99"])
def test_the_reader_of_the_readme(compiler: str, tmp_path: Path) -> None:
    """It compiles for devices, and on this machine it reads reports: never, 0, 30 and 31 s, also
    over the wrap of the clock."""
    page = (ROOT / "README.md").read_text()
    *_, reader = re.findall(r"^```c\n(.*?)^```$", page, re.S | re.M)
    (tmp_path / "reader.c").write_text(READER % reader)
    options = ["-Os", "-Wall", "-Wextra", "-Wconversion", "-Werror", *INCLUDES]
    run([*compiler.split(), *options, "-c", tmp_path / "reader.c", "-o", tmp_path / "reader.o"])
    if compiler.startswith("gcc"):
        run(["gcc", tmp_path / "reader.o", "-o", tmp_path / "reader"])
        reports = []
        for heard, now in ((None, 5), (5, 5), (65530, 24), (65530, 25)):
            agent = Agent()
            if heard is not None:
                agent.process(heard, heartbeat(7, 1, 1))
            agent.process(now, heartbeat(0, 1, 1))
            agent.process(now, REQUEST)
            reports.append(agent.table())
        (tmp_path / "reports").write_bytes(b"".join(reports))
        shown = run(["sh", "-c", "./reader <reports"], cwd=tmp_path)
        assert shown.split() == ["silent", "alive", "alive", "silent"]


def entries_of(report: bytes) -> list[bytes]:
    assert len(report) == 260
    assert int.from_bytes(report[:4], "big") == zlib.adler32(report[4:])
    return [report[at:at + 4] for at in range(4, 260, 4)]


def test_the_firmware_of_the_readme_works() -> None:
    damaged = heartbeat(5, 6, 7)[:7] + b"\x08"
    entries = entries_of(run_firmware(
        heartbeat(3, 76, 9) + damaged, 2.0, heartbeat(63, 255, 128), 1.0, REQUEST))
    assert entries[3] == bytes((0, 0, 76, 9))  # The heartbeat came in the first second.
    assert entries[63] == bytes((0, 2, 255, 128))
    assert entries[0] == bytes((0, 3, 1, 0))  # the agent's own, stamped when it was asked
    assert all(entry == bytes(4) for number, entry in enumerate(entries)
               if number not in (0, 3, 63))


def test_it_finds_its_place_again() -> None:
    """It finds the next packet after a missing byte, an extra byte, and heartbeats that come while
    a report leaves."""
    for nuisance in (b"\x04", heartbeat(9, 9, 9)[:7], bytes(9), b"AreyouO"):
        answer = run_firmware(nuisance, heartbeat(3, 76, 9), REQUEST)
        assert entries_of(answer)[3][2:] == b"\x4c\x09"
    flood = b"".join(heartbeat(variable, 1, 1) for variable in range(40))
    answers = run_firmware(REQUEST, flood, 0.05, heartbeat(3, 76, 9), 0.05, REQUEST)
    assert len(answers) == 2 * 260
    assert entries_of(answers[260:])[3][2:] == b"\x4c\x09"


@pytest.mark.slow
def test_the_server_of_the_readme_runs_a_program_for_each_change(tmp_path: Path) -> None:
    text = (ROOT / "server" / "README.md").read_text()
    (options,) = re.findall(r"^    build/udpserver (.* --exec .*)$", text, re.M)
    (number, name, was, state, _), = map(str.split, re.findall(r"`\./alarm (.*)`", text))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "alarm").write_text('#!/bin/sh\necho "$@" >>told\n')
    (tmp_path / "alarm").chmod(0o755)
    told = tmp_path / "told"
    told.touch()
    with Server(*shlex.split(options), cwd=tmp_path) as server:
        client.Agent(f"127.0.0.1:{server.port}").beat(int(number), 12, 126)
        # A machine that is busy may miss the time when it is late.
        wait_until(lambda: {f"{number} {name} {was} {state}", f"{number} {name} alive {state}"}
                   & {line.rpartition(" ")[0] for line in told.read_text().splitlines()},
                   "the program learns that it is dead")


# A name of ours that an installer looks for in a registry: not a path or a file.
UNREGISTERED = re.compile(
    r"""\b(?:install|add)\s+(?:-\S+\s+)*dumpulse(?![\w-]*(?:[*/_]|\.\w))"""
    r"""|lib_deps *= *dumpulse|\bdumpulse(?:: *| = )["'{^\d]""")


def test_no_page_installs_what_nobody_has_registered() -> None:
    """Anyone could register these names, and then run their code on a reader's machine."""
    for command in ("pip install dumpulse", "pip install -U dumpulse-fleet[apprise]",
                    "cargo add\ndumpulse.", "apt-get -y install dumpulse", "lib_deps = dumpulse",
                    'dumpulse/dumpulse: "^1.0.0"', 'dumpulse = "1"'):
        assert UNREGISTERED.search(command), command
    for command in ("pip install ./dumpulse-*.whl", "cargo add --path ../dumpulse"):
        assert not UNREGISTERED.search(command), command
    shown = [ROOT / name for name in run(["git", "-C", ROOT, "ls-files", "*.md", "*.ino", "*.rs",
                                          "*.[1-8]", "*.[ch]"]).splitlines()]
    assert [page for page in shown if UNREGISTERED.search(page.read_text())] == []


def test_the_workflow_runs_the_commands_of_the_readme() -> None:
    shown = re.findall(r"(?:^    |`)(make [^`#\n]*[^`#\s])", (ROOT / "README.md").read_text(), re.M)
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    assert {*shown} - {"make fleet-demo"} == {*re.findall(r"^ {10}(make .*)", workflow, re.M)}
