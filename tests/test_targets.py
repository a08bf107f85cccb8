"""Tests the compiled library in simulators, on every target: every vector, and all that a firmware
relies on."""

import dataclasses
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from spec.model import HEARTBEAT, REFUSED, REPORT, REQUEST, heartbeat
from spec.watch import Line
from tools.processors.machine import Call, Machine, Watching, load
from tools.processors.targets import EVERY, strangers
from tools.programs import ROOT, vectors
from tools.tiers import tiered

CONTEXT = 0x1234
# The smallest AVR has 512 bytes of RAM. A packet of another length is never read, so not more than
# this of it has to be there.
PACKET_ROOM = 64


AVRS = [name for name in EVERY if EVERY[name].machine == "Avr"]
GUARDS = bytes(range(1, 1 + Machine.GUARD))


def is_quick(name: str) -> bool:
    return EVERY[name].quick


def is_of_its_kind(name: str) -> bool:
    return EVERY[name].is_of_its_kind


@pytest.fixture(scope="module", params=tiered(EVERY, is_quick, is_of_its_kind))
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    machine = load(request.param)
    yield machine
    machine.close()


def data(cell: str) -> bytes:
    return bytes.fromhex("" if cell == "-" else cell)


def process(machine: Machine, now: int, packet: bytes) -> Call:
    machine.now = now
    machine.write(machine.packet, packet[:PACKET_ROOM])
    return machine.call("dumpulse_process_packet", machine.agent, machine.packet,
                        len(packet), CONTEXT)


def test_vectors(machine: Machine) -> None:
    assert take(machine, vectors("vectors.tsv")) > 250


def take(machine: Machine, steps: Path) -> int:
    """Takes each step of the vectors; returns how many there are."""
    table, count = bytes(260), 0
    sent = ("send", CONTEXT, machine.agent, 260)
    before, behind = machine.agent - Machine.GUARD, machine.agent + 260
    machine.write(before, GUARDS)
    machine.write(behind, GUARDS)
    for number, line in enumerate(steps.read_text().splitlines(), 1):
        if line.startswith("#"):
            continue
        kind, *cell = line.split("\t")
        if kind == "table":
            table = data(cell[0])
            machine.write(machine.agent, table)
        elif kind == "refused":
            call = process(machine, int(cell[0]), data(cell[1]))
            assert (call.result, call.hooks) == (REFUSED, []), f"line {number}"
        elif kind == "heartbeat":
            call = process(machine, int(cell[0]), data(cell[1]))
            assert (call.result, call.hooks) == (HEARTBEAT, [("time",)]), f"line {number}"
            at = 4 + 4 * int(cell[2])
            table = table[:at] + data(cell[3]) + table[at + 4:]
        elif kind == "report":
            call = process(machine, int(cell[0]), data(cell[1]))
            table = data(cell[2])
            assert (call.result, call.hooks) == (REPORT, [(*sent, table)]), f"line {number}"
        elif kind == "record":
            machine.now, variable, sender, value = map(int, cell[:4])
            call = machine.call("export_record", machine.agent, variable, sender, value)
            entry = data(cell[4])
            expected = (HEARTBEAT, [("time",)]) if entry else (REFUSED, [])
            assert (call.result, call.hooks) == expected, f"line {number}"
            if entry:
                at = 4 + 4 * variable
                table = table[:at] + entry + table[at + 4:]
        elif kind == "make":
            machine.call("export_make_heartbeat", machine.packet, *map(int, cell[:3]))
            assert machine.read(machine.packet, 8) == data(cell[3]), f"line {number}"
        elif kind == "check":  # overwrites the agent: small RAMs have no room for a second report
            report = data(cell[0])
            machine.write(machine.agent, report[:260])
            call = machine.call("export_check_report", machine.agent, len(report))
            assert call.result == (cell[1] == "yes"), f"line {number}"
            machine.write(machine.agent, table)
        elif kind == "read":
            machine.call("export_read_entry", machine.agent, int(cell[0]), machine.packet)
            assert machine.read(machine.packet, 4) == data(cell[1]), f"line {number}"
        else:
            raise AssertionError(f"line {number}: unknown step {kind}")
        memory = machine.read(before, len(GUARDS) + 260 + len(GUARDS))
        assert memory == GUARDS + table + GUARDS, f"line {number}"
        if kind in ("refused", "heartbeat", "report"):
            packet = data(cell[1])[:PACKET_ROOM]
            assert machine.read(machine.packet, len(packet)) == packet, f"line {number}"
        count += 1
    return count


@pytest.mark.parametrize("name", tiered(EVERY, is_quick, is_of_its_kind))
def test_vectors_of_the_watch(name: str) -> None:
    assert watch(name, vectors("vectors_watch.tsv")) > 400


def watch(name: str, steps: Path) -> int:
    """As take()."""
    with closing(load(name, "dumpulse_watch.c")) as machine:
        watching = Watching(machine)
        before = machine.agent - Machine.GUARD
        machine.write(before, GUARDS + bytes(260) + GUARDS)
        agent, seen, count = bytes(260), b"", 0

        def looked(call: Call, changes: str) -> bool:
            every = data(changes)
            return call.hooks == [("changed", machine.agent, *every[at:at + 3])
                                  for at in range(0, len(every), 3)]

        for number, text in enumerate(steps.read_text().splitlines(), 1):
            if text.startswith("#"):
                continue
            kind, *cell = text.split("\t")
            good = True
            if kind == "lines":
                agent, lines = bytes(260), [Line(*each) for each in
                                            struct.iter_unpack(">3B3H", data(cell[0]))]
                machine.write(machine.agent, agent)
                seen = bytes(3 * len(lines))
                watching.start(lines, seen + GUARDS)
            elif kind == "seen":
                seen = data(cell[0])
                machine.write(watching.seen, seen)
            elif kind == "entry":
                at = 4 + 4 * int(cell[0])
                agent = agent[:at] + data(cell[1]) + agent[at + 4:]
                machine.write(machine.agent, agent)
            elif kind == "begin":
                watching.ask("begin", int(cell[0]))
                seen = data(cell[1])
            elif kind == "look":
                good = looked(watching.look(int(cell[0]), "export_watch"), cell[1])
                seen = data(cell[2])
            elif kind == "part":
                now, first, lines_of_part = map(int, cell[:3])
                good = looked(watching.look(now, "export_watch_part",
                                            256 * first + lines_of_part), cell[3])
                seen = data(cell[4])
            elif kind == "make":  # AVR cannot
                good = machine.cost_unit == "cycles" or \
                    watching.made(*map(int, cell[:6])) == \
                    Line(*struct.unpack(">3B3H", data(cell[6])))
                machine.write(machine.agent, agent)
            else:
                good = watching.ask(kind, *map(int, cell[:-1])) == int(cell[-1])
            assert good, f"line {number}"
            assert watching.known() == seen + GUARDS, f"line {number}"
            assert machine.read(before, 260 + 2 * Machine.GUARD) == GUARDS + agent + GUARDS, \
                f"line {number}"
            count += 1
        return count


def test_length_is_not_cut(machine: Machine) -> None:
    """A length of 256 + 8 is not 8. 65536 + 8 is not, either, on targets with such lengths."""
    machine.write(machine.agent, bytes(260))
    machine.write(machine.packet, heartbeat(3, 76, 9))
    lengths = [256 + 8] if machine.cost_unit == "cycles" else [256 + 8, 65536 + 8, 2**32 - 8]
    for length in lengths:
        call = machine.call("dumpulse_process_packet", machine.agent, machine.packet, length, 0)
        assert (call.result, call.hooks) == (REFUSED, [])


@pytest.mark.parametrize("machine", tiered(AVRS, is_quick), indirect=True)
def test_stack_on_avr(machine: Machine) -> None:
    """At most 20 bytes with all return addresses, and without the hooks."""
    good = heartbeat(3, 76, 9)
    packets = [good, REQUEST, heartbeat(64, 0, 0), bytes(8), good[:3]]
    packets += [packet[:at] + b"!" + packet[at + 1:] for packet in (good, REQUEST)
                for at in range(8)]
    for packet in packets:
        assert process(machine, 1, packet).stack <= 20
    for variable in (0, 64):
        assert machine.call("export_record", machine.agent, variable, 1, 2).stack <= 20


@pytest.mark.slow
def test_what_link_time_optimisation_may_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """dumpulse.h says so: then the functions of tests/exports.c share the sum with the agent."""
    if strangers():
        pytest.skip("figures of other compilers are not compared")
    target = EVERY["ATmega328P"]
    whole = dataclasses.replace(target, flags=(*target.flags, "-flto", "-Os"))
    said = "224 cycles and 18 bytes of stack instead of 131 and 6."
    assert said in (ROOT / "dumpulse.h").read_text()
    for one, cost, stack in ((whole, 224, 18), (target, 131, 6)):
        monkeypatch.setitem(EVERY, target.name, one)
        with closing(load(target.name)) as machine:
            call = process(machine, 1, heartbeat(3, 76, 9))
            assert (call.result, call.cost, call.stack) == (HEARTBEAT, cost, stack)


def test_an_int_of_8_bits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="needs_an_int_of_16_bits_or_of_32_and_more"):
        EVERY["ATmega328P"].compile(ROOT / "dumpulse.c", tmp_path / "dumpulse.o", "-mint8")


@pytest.mark.slow
def test_the_request_lies_in_flash_whoever_compiles(tmp_path: Path) -> None:
    """clang reads it with lpm, from the flash. In a section for RAM it would not be found."""
    for name in AVRS:
        compiled = tmp_path / "dumpulse.o"
        EVERY[name].compile(ROOT / "dumpulse.c", compiled)
        with compiled.open("rb") as file:
            sections = {section.name for section in ELFFile(file).iter_sections()
                      if REQUEST in section.data()}
        assert sections == {".progmem.data"}, name
