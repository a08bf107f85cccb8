"""Tests of version 2: the vectors against wrong models, and the library against the model, in
simulators."""

import dataclasses
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
import unicorn

from bench.keyed import SOURCE
from spec import keyed
from spec.keyed import (BEGINNINGS, BEGUN, FULL, HEARTBEAT, LABELS, NAMES, READER_LABEL, REFUSED,
                        WRONG_TAG, Agent, Hearer, Keys, Number, Reader, Sent)
from spec.model import MAGIC, checksummed
from spec.tools import keyed_vectors
from tools.processors.machine import Keyed, Machine, Thumb, image_of, load
from tools.processors.targets import EVERY
from tools.programs import EXTRAS, KEYED, ROOT, run, vectors
from tools.tiers import tiered

FOLDER = ROOT / "spec"
GUARD = b"\xe7" * Machine.GUARD


# ---- The model.

def test_chaskey() -> None:
    rows = [line.split("\t") for line in (FOLDER / "chaskey12.tsv").read_text().splitlines()
            if line[0].isdecimal()]
    key = bytes.fromhex("33343d839f389f004fe6982339cf7a41")
    assert [keyed.chaskey12(key, bytes(range(int(length)))).hex() for length, _ in rows] == \
        [tag for _, tag in rows]
    assert [int(length) for length, _ in rows] == list(range(33))


# ---- The attacker. Each mutant takes back one thing that spec/keyed.md asks for, and
# that no change of one operator, constant or statement takes back: mutants-keyed makes those.

def takes_epoch(by: int, most: int) -> type:
    """An agent that also takes what was made in the epoch after its own one, or before."""
    def process(self: Agent, now: int, packet: bytes) -> tuple[int, Sent]:
        result, sent = Agent.process(self, now, packet)
        if result != WRONG_TAG or not 0x80 < packet[4] < most:
            return result, sent
        self.epoch += by
        try:
            return Agent.process(self, now, packet)
        finally:
            self.epoch -= by
    return type(f"TakesEpoch{by}", (Agent,), {"process": process})


class StoresTheBlockLate(Agent):
    def _begin_epoch(self) -> bool:
        late, self.stored = self.stored, Number()
        begun, self.stored = super()._begin_epoch(), late
        return begun

    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        block = self.epoch // keyed.BLOCK
        if self.stored.number != block:
            self.stored.store(block)
        return super().process(now, packet)


class ForgetsAllCountsAtOnce(Agent):
    """And not that of each label when it comes to the epoch."""

    def _begin_epoch(self) -> bool:
        begun = super()._begin_epoch()
        if begun:
            self.last = [0] * LABELS
        return begun


class CountsQuestions(Agent):
    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        result = super().process(now, packet)
        self.wrong = (self.wrong + (result[0] == keyed.ASKS)) % 256
        return result


class TakesVersion1OfAll(Agent):
    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        if len(packet) == 8 and packet[4] == MAGIC and packet[5] < 64 and \
                packet == checksummed(packet[4:]):
            return self._record(now, packet[5], packet), None
        return super().process(now, packet)


class TakesBothVersions(Agent):
    """Of the variables whose nodes send version 1."""

    def process(self, now: int, packet: bytes) -> tuple[int, Sent]:
        result = super().process(now, packet)
        listed, self.unkeyed = self.unkeyed, ()
        try:
            return super().process(now, packet) if result[0] == REFUSED else result
        finally:
            self.unkeyed = listed


class HearsItsNeighbour(Hearer):
    """As all nodes would with one key for all beacons."""

    def hear(self, packet: bytes) -> bool:
        mine, self.label = self.label, self.label ^ 1
        heard = super().hear(packet)
        self.label = mine
        return heard or super().hear(packet)


class BelievesWhatALaterBeaconOvertook(Reader):
    def check(self, report: bytes) -> bool:
        before = self.epoch
        if self.asked:
            self.epoch = self.asked[0]
        believed = super().check(report)
        self.epoch = before
        return believed


class AsksWithOneNonce(Reader):
    def request(self, nonce: bytes) -> Sent:
        return super().request(b"ab")


MUTANTS = (
    StoresTheBlockLate, ForgetsAllCountsAtOnce, takes_epoch(-1, 0xC0), takes_epoch(1, 0xC1),
    CountsQuestions, TakesVersion1OfAll, TakesBothVersions, HearsItsNeighbour, AsksWithOneNonce,
    BelievesWhatALaterBeaconOvertook,
)


def role_of(mutant: type) -> type:
    return next(role for role in (Agent, Hearer, Reader) if issubclass(mutant, role))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_the_vectors_notice_each_role_that_is_wrong(mutant: type,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Or their script does, as a step does not come as far as the check that it is for."""
    right = iter([*keyed_vectors.steps()])
    monkeypatch.setattr(keyed_vectors, role_of(mutant).__name__, mutant)
    try:
        noticed = any(step != next(right) for step in keyed_vectors.steps())
    except AssertionError:
        noticed = True
    assert noticed


# ---- The C code on all targets.

def data(cell: str) -> bytes:
    return bytes.fromhex("" if cell == "-" else cell)


class Stepper:
    """Takes the steps of the vectors in a simulator, as tests/vectors_keyed.c does."""

    def __init__(self, machine: Machine, agent_fits: bool) -> None:
        self.machine, self.agent_fits = machine, agent_fits
        self.keyed = Keyed(machine)
        # The node and the reader lie where the agent does: small RAMs have no room for all.
        self.packet = machine.agent + (self.keyed.size + 32 if agent_fits else 300)
        self.state = b""

    def step(self, kind: str, cell: list[str]) -> bool:
        """Returns whether all is as it should be."""
        machine = self.machine
        if kind == "master":
            machine.keys, machine.stored = Keys(data(cell[0])), Number()
        elif kind == "key":
            return self.of_key(int(cell[0]), int(cell[1]), data(cell[2]))
        elif kind == "number":
            machine.stored.number = int(cell[0], 16)
        elif kind == "stored":
            return not self.agent_fits or machine.stored.number == int(cell[0], 16)
        elif kind == "fails":
            machine.stored.fails = cell[0] == "yes"
        elif kind in ("node", "hear", "beat", "question"):
            return self.of_node(kind, cell)
        elif kind in ("reader", "listen", "request", "check"):
            return self.of_reader(kind, cell)
        elif kind in ("slots", "slot"):
            return self.of_slots(kind, cell)
        else:
            return not self.agent_fits or self.of_agent(kind, cell)
        return True

    def of_key(self, label: int, generation: int, key: bytes) -> bool:
        self.machine.keys.generations[label] = generation - 1
        self.machine.keys.renew(label)
        self.machine.write(self.packet, self.machine.keys.master + GUARD[:8])
        self.machine.call("dumpulse_label_key", self.packet, label, generation)
        assert self.machine.keys.of(label) == key
        return self.machine.read(self.packet, 24) == key + GUARD[:8]

    def of_agent(self, kind: str, cell: list[str]) -> bool:
        machine, good, sent, packet = self.machine, True, b"", b""
        calls = []
        if kind == "agent":
            self.keyed = Keyed(machine, data(cell[0]))
            machine.write(machine.agent - len(GUARD), GUARD)
            machine.write(machine.agent + self.keyed.size, GUARD)
            self.keyed.clear()
            self.state, self.report = bytes(6 + LABELS), bytes(264)
        elif kind == "put":
            self.keyed.put(data(cell[0]))
            self.state = data(cell[0]) + self.state[6:]
        elif kind == "table":
            self.report = self.report[:8] + data(cell[0])
            machine.write(machine.agent + self.keyed.report + 8, data(cell[0]))
        elif kind == "begin":
            calls.append(self.keyed.begin())
            good = calls[0].result == BEGINNINGS.index(cell[0])
        elif kind == "next":
            calls.append(machine.call("dumpulse_keyed_next", machine.agent, 9))
            good, sent = calls[0].result == (cell[0] == "yes"), data(cell[1])
        elif kind == "nexts":
            good = all(machine.call("dumpulse_keyed_next", machine.agent, 9).result
                       for _ in range(int(cell[0])))
        elif kind == "beacon":
            calls.append(machine.call("dumpulse_keyed_beacon", machine.agent, int(cell[0]), 9))
            sent = data(cell[1])
        elif kind == "renew":
            machine.call("dumpulse_keyed_renew", machine.agent, int(cell[0]))
        elif kind == "guesses":
            good = all(self.keyed.process(0, data(cell[1]), 9).result == WRONG_TAG
                       for _ in range(int(cell[0])))
        else:
            now, packet, sent = int(cell[0]), data(cell[1]), data(cell[2])
            calls.append(self.keyed.process(now, packet, 9))
            good = calls[0].result == NAMES.index(kind)
            if kind == "heartbeat":
                at = 8 + 4 * (packet[5] if packet[4] == MAGIC else packet[4] - 0x80)
                self.report = self.report[:at] + now.to_bytes(2, "big") + packet[6:] + \
                    self.report[at + 4:]
            if kind == "report":
                self.report = sent[:8] + self.report[8:]
        if kind not in ("agent", "put", "table", "beacon"):
            self.state = data(cell[-1]) or self.state
        sends = b"".join(hook[4] for call in calls for hook in call.hooks  # type: ignore[misc]
                         if hook[0] == "send" and hook[1] == 9)
        before = machine.read(machine.agent - len(GUARD), len(GUARD))
        behind = self.keyed.unkeyed + GUARD
        return good and sends == sent and self.keyed.state() == self.state and \
            self.keyed.sent() == self.report and before == GUARD and \
            machine.read(machine.agent + self.keyed.size - len(self.keyed.unkeyed),
                         len(behind)) == behind

    def of_node(self, kind: str, cell: list[str]) -> bool:
        machine, packet, node = self.machine, self.packet, self.machine.agent
        if kind == "node":
            machine.write(node, bytes(12))
            return True
        if kind == "hear":
            return self.hears(node, int(cell[0]), *cell[1:])
        variable = int(cell[0])
        wanted = data(cell[-1])
        machine.write(packet, GUARD[:8])
        if kind == "question":
            machine.call("dumpulse_ask", packet, variable)
            return machine.read(packet, 8) == wanted
        for _ in range(int(cell[3])):
            call = machine.call("export_keyed_heartbeat", node, packet, variable,
                                int(cell[1]) * 256 + int(cell[2]))
        return (machine.read(packet, 8) if call.result else b"") == wanted

    def hears(self, node: int, label: int, answer: str, cell: str) -> bool:
        """A node or a reader."""
        machine, before = self.machine, self.machine.read(node, 5)
        machine.write(self.packet, data(cell))
        call = machine.call("dumpulse_hear", node, label, self.packet, len(data(cell)))
        after = machine.read(node, 5)
        if answer == "no":
            return not call.result and after == before
        return call.result == 1 and after[4] == 255

    def of_reader(self, kind: str, cell: list[str]) -> bool:
        """The report lies where the agent does, and the reader behind it."""
        machine, packet, reader = self.machine, self.packet, self.machine.agent + 272
        if kind == "reader":
            machine.write(reader, bytes(24))
            return True
        if kind == "listen":
            return self.hears(reader, READER_LABEL, *cell)
        if kind == "request":
            machine.write(packet + 8, data(cell[0]))
            call = machine.call("dumpulse_keyed_request", reader, packet, packet + 8)
            return (machine.read(packet, 8) if call.result else b"") == data(cell[1])
        report = data(cell[0])
        machine.write(machine.agent, report[:264])
        call = machine.call("dumpulse_keyed_check", reader, machine.agent, len(report))
        return call.result == (cell[1] == "yes") and \
            machine.read(machine.agent, len(report[:264])) == report[:264]

    def of_slots(self, kind: str, cell: list[str]) -> bool:
        machine, memory, room = self.machine, self.packet, self.packet + 16
        machine.write(memory, data(cell[0]))
        if kind == "slots":
            machine.call("export_slots_read", memory, room)
            return machine.read(room, 4) == b"\0" + data(cell[1])
        machine.write(room, b"\0" + data(cell[1]))
        call = machine.call("export_slots_write", memory, room + 4, room)
        return call.result == int(cell[2]) and machine.read(room + 4, 6) == data(cell[3])


def take_vectors(name: str) -> None:
    with closing(load(name, SOURCE)) as machine:
        # An ATtiny has 512 bytes of RAM. The agent and its stack need more.
        stepper = Stepper(machine, not name.startswith("ATtiny"))
        lines = vectors("vectors_keyed.tsv").read_text().splitlines()
        for number, line in enumerate(lines, 1):
            kind, *cell = line.split("\t")
            assert line.startswith("#") or stepper.step(kind, cell), f"line {number}: {line}"
    assert number > 1400


@pytest.mark.parametrize("name", tiered(EVERY, lambda name: EVERY[name].quick,
                                        lambda name: EVERY[name].is_of_its_kind))
def test_vectors_on_every_target(name: str) -> None:
    take_vectors(name)


def test_vectors_with_the_highest_byte_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PowerPC does that, but `make test` has no compiler for it. One for ARM can do it, too."""
    arm, mode = EVERY["Cortex-M3"], unicorn.UC_MODE_THUMB | unicorn.UC_MODE_ARMBE8
    big = dataclasses.replace(arm, name="big", flags=(*arm.flags, "-mbig-endian", "-Wl,--be8"))
    monkeypatch.setitem(EVERY, "big", big)
    monkeypatch.setattr(Thumb, "open", lambda _: unicorn.Uc(unicorn.UC_ARCH_ARM, mode))
    take_vectors("big")


def in_one_piece(*roles: str) -> str:
    """The library as one file in C. Each file has a constant of this name."""
    return "".join(f"#define FULL FULL_{role}\n#include \"dumpulse_{role}.c\"\n#undef FULL\n"
                   for role in roles)


# An agent in one piece with the library. The compiler tells how much it knows of what is sent.
AGENT = """
#include "dumpulse.h"
static size_t known;
inline __attribute__((always_inline)) void dumpulse_send_packet(
    void *context, const uint8_t *packet, size_t length)
{
    (void)context, (void)length;
    known = __builtin_object_size(packet, 1);
}
%s
void dumpulse_get_key(uint8_t key[16], uint8_t label)
{
    static const uint8_t master[16] = {1};
    for (int i = 0; i < 16; i++)
        key[i] = master[i];
    dumpulse_label_key(key, label, 0);
}
uint32_t dumpulse_load(void) { return 65; }
bool dumpulse_store(uint32_t number) { return number == 66; }
uint16_t dumpulse_get_timestamp(void) { return 0; }
int main(void)
{
    static dumpulse_keyed keyed;
    uint8_t request[8];
    if (dumpulse_keyed_begin(&keyed) != DUMPULSE_BEGUN)
        return 1;
    dumpulse_node reader = {keyed.epoch, 1};
    dumpulse_count_(&reader, request, DUMPULSE_READER_LABEL, 1, 2);
    return dumpulse_keyed_process(&keyed, request, 8, NULL) != DUMPULSE_REPORT ||
           known < DUMPULSE_KEYED_REPORT_SIZE;
}
"""


def test_a_report_is_sent_from_where_it_lies_and_not_from_its_first_part(tmp_path: Path) -> None:
    """A pointer to a part of the agent must not reach the next one: a compiler may say that it does
    not, and a hook with _FORTIFY_SOURCE ends the program."""
    roles = "tag", "master", "report", "node", "agent"
    (tmp_path / "agent.c").write_text(AGENT % in_one_piece(*roles))
    run(["gcc", "-O2", "-std=gnu11", f"-I{ROOT}", f"-I{EXTRAS}", tmp_path / "agent.c",
         "-o", tmp_path / "agent"])
    run([tmp_path / "agent"])


# A node whose label the compiler knows.
NODE = """
#include "dumpulse_keyed.h"
#ifdef __clang__
#define CALLED
#else
#define CALLED __attribute__((externally_visible))
#endif
CALLED void tag(uint8_t *packet, const uint8_t *number);
CALLED void tag(uint8_t *packet, const uint8_t *number)
{
    dumpulse_make_(packet, LABEL, dumpulse_read_(number));
}
"""
TOGETHER = {"apart": [], "-flto": ["-flto"], "in one piece": [],
            "-fwhole-program": ["-fwhole-program"]}


def node_image(name: str, how: str, label: int, folder: Path) -> Machine:
    """The node with the library in its simulator: compiled file by file, or as one."""
    library = ["dumpulse_tag.c"] * (how in ("apart", "-flto"))
    source = folder / "node.c"
    source.write_text(NODE + ("" if library else in_one_piece("tag")))
    files = [source, *(EXTRAS / file for file in library)]
    if EVERY[name].machine == "Avr":
        files.append(EXTRAS / "dumpulse_tag_avr.S")
    return image_of(name, files, ["tag"], [f"-DLABEL={label}", *TOGETHER[how]])


def labels_are_right(name: str, how: str, labels: Iterable[int], folder: Path) -> None:
    chance = random.Random(9)
    for label in labels:
        with closing(node_image(name, how, label, folder)) as machine:
            machine.keys = Keys(chance.randbytes(16))
            number, four = chance.randbytes(4), chance.randbytes(4)
            machine.write(machine.packet, bytes(4) + four + number)
            machine.call("tag", machine.packet, machine.packet + 8)
            packet = machine.keys.packet(label, int.from_bytes(number, "big"), four)
            assert machine.read(machine.packet, 8) == packet, label


@pytest.mark.parametrize("how", TOGETHER)
def test_a_label_that_the_compiler_knows(how: str, tmp_path: Path) -> None:
    """The tag is right for each, also where the compiler reuses a register that has this number.
    Here, some of them; below, all."""
    labels_are_right("ATmega328P", how, (0, 32, 64), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), tiered([
    (name, how) for name in EVERY if name.startswith(("ATmega328P", "Cortex-M0+"))
    for how in TOGETHER
    if not (how.startswith("-f") and EVERY[name].clang)],
    lambda case: case in {("ATmega328P", "in one piece"), ("Cortex-M0+", "-flto")},
    lambda _: False))
def test_each_label_that_the_compiler_knows(name: str, how: str, tmp_path: Path) -> None:
    """clang does not know -fwhole-program, and what its -flto makes needs LLVM's linker, and not
    GNU's, which is used here."""
    labels_are_right(name, how, range(LABELS), tmp_path)


@pytest.mark.parametrize("name", tiered(EVERY, lambda name: EVERY[name].quick))
def test_time_does_not_depend_on_keys(name: str) -> None:
    """A heartbeat takes the same number of cycles or instructions for every key, packet and wrong
    tag: no compiler has made several comparisons of one."""
    chance = random.Random(8)
    with closing(load(name, SOURCE)) as machine:
        place, costs = Keyed(machine), {kind: Counter[int]() for kind in (HEARTBEAT, WRONG_TAG)}
        for _ in range(6):
            machine.keys = Keys(chance.randbytes(16))
            machine.stored = Number(chance.randrange(0x1FFF00))
            agent = Agent(machine.keys, Number(machine.stored.number))
            place.clear()
            assert place.begin().result == agent.begin() == BEGUN
            for variable in chance.sample(range(64), 5):
                good = machine.keys.counted(variable, agent.epoch, chance.randrange(1, FULL),
                                            *chance.randbytes(2))
                wrong = bytes(one ^ chance.randrange(1, 256) for one in good[:4])
                for tag in (wrong, wrong[:1] + good[1:4], good[:3] + wrong[3:], good[:4]):
                    call = place.process(1, tag + good[4:])
                    costs[call.result][call.cost] += 1
    assert sum(costs[HEARTBEAT].values()) == 30 and len(costs[HEARTBEAT]) == 1, costs
    assert sum(costs[WRONG_TAG].values()) == 90 and len(costs[WRONG_TAG]) == 1, costs


def test_no_macro_changes_the_library() -> None:
    """A role is a set of files. Only what the compiler itself defines may make a difference."""
    known = {"defined", "DUMPULSE_KEYED_H", "__cplusplus", "__AVR__", "__GNUC__", "__BYTE_ORDER__",
             "__ORDER_LITTLE_ENDIAN__", "__AVR_HAVE_MOVW__", "__clang__", "__linux__"}
    for file in (*KEYED, "dumpulse_keyed.h", "dumpulse_tag_avr.S"):
        asked = re.findall(r"^ *# *(?:el)?if(?:n?def)? (.*)", (EXTRAS / file).read_text(), re.M)
        assert {*re.findall(r"[A-Za-z_]\w*", " ".join(asked))} <= known, file


@pytest.mark.parametrize("name", ["amd64", "ATmega328P", "Cortex-M0+"])
def test_all_roles_are_one_unit(name: str, tmp_path: Path) -> None:
    """Who includes the files of all roles in one, has no name twice."""
    unit = tmp_path / "unit.c"
    unit.write_text("".join(f'#include "{EXTRAS / file}"\n' for file in KEYED))
    EVERY[name].compile(unit, tmp_path / "unit.o", "-Wall", "-Wextra", "-Werror")


def test_a_program_for_linux_keeps_its_stack_from_being_executed(tmp_path: Path) -> None:
    """Also where a tool, as PlatformIO, compiles every file of the library: one is for AVR alone.
    A linker makes the stack executable if a single file does not say that it need not be."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    program = tmp_path / "program"
    run(["gcc", "-o", program, tmp_path / "main.c", EXTRAS / "dumpulse_tag_avr.S"])
    (flags,) = re.findall(r"GNU_STACK +(?:0x\S+ +){5}(R\w*)", run(["readelf", "-lW", program]))
    assert flags == "RW"


def test_the_assembly_is_refused_for_chips_that_cannot_run_it(tmp_path: Path) -> None:
    """The assembler makes movw for each of them."""
    for mcu, runs in (("attiny85", True), ("atmega2560", True), ("attiny26", False),
                      ("at90s8515", False), ("attiny10", False)):
        done = subprocess.run(["avr-gcc", f"-mmcu={mcu}", "-c", EXTRAS / "dumpulse_tag_avr.S",
                               "-o", tmp_path / "tag.o"], capture_output=True, text=True)
        assert (done.returncode == 0) == runs == ("chips with movw" not in done.stderr), mcu
