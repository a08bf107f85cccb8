"""The lab's own arithmetic, and that what it says of a program is true."""

import hashlib
import operator
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC

from lab import sources
from lab.messages import answer, counts, energy, machines, published, schemes
from lab.messages.schemes import SCHEMES, Scheme, Step
from tools.processors import budgets
from tools.processors.targets import TARGETS
from tools.programs import ROOT, run


def lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True,
                          check=False)


def image_of(source: Path, machine: machines.Machine, run: str, *, right: str = "true",
             beside: str = "", size: bool = False) -> Path:
    """A program whose only step does this; `beside` are its variables."""
    source.write_text('#include "operation.h"\nSTEP(one)\n'
                      'void one_prepare(unsigned n) { (void)n; }\n'
                      f'{beside}\nvoid one_run(void) {{ {run} }}\n'
                      f'bool one_right(void) {{ return {right}; }}\n')
    scheme = Scheme(source.stem, "a test", "null", str(source), (Step("one"),), 0)
    return counts.Builder(scheme, machine, machine.name).image(scheme.steps[0], 4, size=size)


def test_every_cell_was_counted_from_what_is_here() -> None:
    old = [f"{scheme.key} on {target}" for scheme, target in counts.stale(counts.parse(
        counts.FILE.read_text()))]
    assert not old, 'make figures ONLY=lab-counts ARGS="--stale --write"'


KEYED_CHASKEY = next(scheme for scheme in SCHEMES if scheme.key == "Chaskey-12, version 2's")


@pytest.mark.parametrize("target, file", [
    ("ATmega328P", "extras/dumpulse_tag.c"), ("ATmega328P", "lab/messages/hosts/avr.c"),
    ("Cortex-M4", "lab/messages/hosts/thumb.c"), ("amd64", "bench/callgrind.py"),
    *((target, f"{folder}/{name}") for target in schemes.EVERYWHERE for folder, name in (
        ("lab/messages/c", "chaskey.c"), ("lab/messages/c", "operation.h"),
        ("lab/messages/c", "marks.c"), ("extras", "dumpulse_keyed.h")))])
def test_a_cell_whose_source_has_changed_is_counted_again_and_not_printed(
        target: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not counts.stale(counts.read())
    real = counts.hash_of_file
    monkeypatch.setattr(counts, "hash_of_file", lambda path: "" if path == ROOT / file
                        else real(path))
    assert (KEYED_CHASKEY, target) in counts.stale(counts.parse(counts.FILE.read_text()))
    with pytest.raises(SystemExit, match=f"version 2's on {re.escape(target)}"):
        answer.ways("ATmega328P")


def test_a_cell_stands_on_its_flags_compiler_package_and_third_party_code(
        monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = next(scheme for scheme in SCHEMES if scheme.key == "SHA-256, BearSSL")
    key, target = counts.hash_of, "Cortex-M4"
    before = key(scheme, target)
    seen = {before, key(replace(scheme, flags=("-DX",)), target),
            key(replace(scheme, steps=scheme.steps[:0]), target)}
    machine, by = machines.MACHINES[target], TARGETS[target]
    with monkeypatch.context() as changed:
        changed.setitem(machines.MACHINES, target, replace(machine, flags=(*machine.flags, "-O3")))
        seen.add(key(scheme, target))
    with monkeypatch.context() as changed:
        changed.setitem(TARGETS, target, replace(by, by="gcc 13.1"))
        seen.add(key(scheme, target))
    with monkeypatch.context() as changed:
        other = {"bearssl": replace(sources.table()["bearssl"], sha256="0")}
        changed.setattr(sources, "table", lambda: other)
        seen.add(key(scheme, target))
    assert len(seen) == 6 and key(scheme, target) == before


@pytest.mark.parametrize("target", machines.MACHINES)
def test_the_hash_covers_each_file_of_the_project_that_the_compiler_reads(target: str) -> None:
    machine = machines.MACHINES[target]
    for scheme in SCHEMES:
        if target not in scheme.targets or any(code.source for code in scheme.code):
            continue
        files, _ = counts.counted_from(scheme, target)
        begin = [machines.C / scheme.file, machines.C / "image.c", machines.C / "marks.c",
                 *(path for code in scheme.code for path in code.paths())]
        said = run([machine.compiler, *machine.flags, *scheme.options(target), "-DLAB_LENGTH=4",
                    "-DLAB_STEP=make", "-I", machines.C, "-MM", *begin])
        read = {Path(word).resolve() for word in re.findall(r"(?<=\s)/\S+", said)}
        assert len(read) > 3 and read <= files, scheme.key


def test_every_step_of_every_scheme_has_its_counts_and_nothing_else_has() -> None:
    expected = {(scheme.name, scheme.by, step.name, str(length), target) for scheme in SCHEMES
                for step in scheme.steps if step.kept for length in step.lengths
                for target in scheme.targets}
    assert set(counts.read()) == expected


def test_what_is_deterministic_has_one_cost() -> None:
    random = {(scheme.name, scheme.by, step.name) for scheme in SCHEMES for step in scheme.steps
              if step.random}
    for count in counts.read().values():
        assert 0 < count.least <= count.mean <= count.most
        assert count.least == count.most or count.key[:3] in random, count


def test_a_count_has_room_if_flash_and_ram_with_its_stack_fit() -> None:
    count, machine = next(iter(counts.read().values())), machines.MACHINES["ATmega328P"]
    full = replace(count, flash=32 << 10, ram=1 << 10, stack=1 << 10)
    assert answer.missing(full, machine) == ""
    assert answer.missing(replace(full, stack=1025), machine, flash=2) == "flash +2, RAM +1"
    assert answer.missing(full, machine, ram=7) == "RAM +7"


@pytest.mark.parametrize("target", machines.MACHINES)
def test_instructions_of_a_known_number_are_counted_exactly(target: str, tmp_path: Path) -> None:
    """Each takes one cycle on AVR. No compiler can change them."""
    cost = {}
    machine = machines.MACHINES[target]
    for number in (1000, 2000):
        first, second = machine.runs(image_of(
            tmp_path / "nops.c", machine, f'__asm__ volatile(".rept {number}\\nnop\\n.endr");'))
        assert first == second
        cost[number] = first.cost
    assert cost[2000] - cost[1000] == 1000


def test_a_step_that_does_not_do_its_work_ends_the_program(tmp_path: Path) -> None:
    for machine in machines.MACHINES.values():
        image = image_of(tmp_path / "wrong.c", machine, "", right="false")
        with pytest.raises(SystemExit, match="did not do its work"):
            machine.runs(image)


def test_a_stack_that_meets_the_variables_is_seen(tmp_path: Path) -> None:
    def deep(machine: machines.Machine) -> Path:
        return image_of(tmp_path / "deep.c", machine,
                        "volatile uint8_t more[900]; more[0] = own[0]; own[1] = more[899];",
                        beside="static volatile uint8_t own[1200];")

    machine = machines.MACHINES["ATmega328P"]
    with pytest.raises(machines.DoesNotFit):
        machine.runs(deep(machine))
    larger = machines.LARGER["ATmega328P"][0]
    run, _ = larger.runs(deep(larger))
    assert 900 <= run.stack < 910


def test_what_the_lab_adds_to_an_image_is_no_part_of_its_size(tmp_path: Path) -> None:
    def sizes(name: str) -> tuple[int, int]:
        found = machines.size(image_of(
            tmp_path / "size.c", machines.MACHINES["ATmega328P"], f"{name}[0] = 1;",
            beside=f"volatile uint8_t {name}[100];", size=True))
        return found.own_flash, found.own_ram

    flash, ram = sizes("lab_buffer")
    assert sizes("buffer") == (flash, ram + 100)


def test_a_moved_figure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = counts.FILE.read_text()
    key = ("CRC-16", "ours", "make", "4", "Cortex-M0+")
    count = counts.parse(text)[key]
    changed = tmp_path / "counts.tsv"
    costs = f"\t{count.least} {count.mean} {count.most}"
    changed.write_text(text.replace(f"{costs} {count.flash} ", f"{costs} {count.flash + 1} "))
    assert changed.read_text() != text
    monkeypatch.setattr(counts, "FILE", changed)
    monkeypatch.setattr(sys, "argv", ["counts", "--only", "CRC-16", "--target", "Cortex-M0+"])
    monkeypatch.setattr(counts, "strangers", dict)  # The test is for every compiler.
    says = rf"make 4 bytes, Cortex-M0\+: flash was {count.flash + 1} and is \d+"
    with pytest.raises(SystemExit, match=rf"CRC-16 \(ours\), {says}"):
        counts.main()


def test_years_of_a_battery() -> None:
    """225 mAh at 10 µA last 22,500 hours, if nothing else takes any."""
    lossless = energy.Battery("a test", 225, 3.0, 0.0, 10)
    assert energy.years(lossless, 0, 1, 10) == pytest.approx(22_500 / 24 / 365.25)
    assert energy.years(lossless, 30e-6, 1, 10) == pytest.approx(22_500 / 24 / 365.25 / 2)
    lossy = energy.Battery("a test", 225, 3.0, 0.5, 10)
    assert energy.years(lossy, 0, 1, 1e-9) == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize("medium, usual", [
    ("can", (0.015 + 1 / 60) * 3.3 * 135 / 500_000),
    ("uart", 8 * 10 / 115_200 * 1.28e-9 * 4e6),  # The clock is 4 MHz.
    ("nrf", 3 * (130e-6 * 0.008 + 137e-6 * 0.0113)),
    ("lora", 0.029 * 3.3 * 0.123904)])  # SF9: 12.25 + 18 symbols of 4.096 ms
def test_joules_of_sending_8_bytes_by_hand(medium: str, usual: float) -> None:
    model = energy.MODELS["ATmega328P"]
    sent, longer = (energy.MEDIA[medium].send(frames, 500_000, model) for frames in ([8], [8, 8]))
    assert sent.usual == pytest.approx(usual, rel=1e-6) and sent.least <= sent.usual <= sent.most
    assert longer.usual > sent.usual


def test_every_heartbeat_has_its_row() -> None:
    said = lab("lab.messages.answer", "--all")
    assert said.returncode == 0, said.stderr
    named = {f"{scheme.name:<19}{scheme.author:<17.16}" for scheme in SCHEMES
             if {"make", "sign", "send"} & {step.name for step in scheme.steps}
             and "ATmega328P" in scheme.targets}
    assert named <= {line[:36] for line in said.stdout.splitlines()}
    assert len(named) > 20


def test_the_first_screen_has_the_best_code_of_each_and_version_2() -> None:
    """On three machines; and the portable code beside it."""
    for target in energy.MODELS:
        rows = {line.way.name: line.way for _, lot in answer.setting_of(target).lots(False)
                for line in lot}
        known = counts.read()
        made = [count for count in known.values() if count.target == target
                and (count.scheme, count.step) == ("AES-128-CMAC", "make")]
        assert rows["AES-128-CMAC"].count == min(count.mean for count in made)
        assert rows["AES-128-CMAC"].portable == next(
            count.mean for count in made if count.by == "BearSSL")
        keyed = budgets.load(answer.KEYED)[answer.KEYED_TARGETS[target]]
        assert rows["Dumpulse version 2"].count == keyed["beat"] + keyed["hear"] // 10
        assert {"SecOC", "LoRaWAN 1.0", "MAVLink 2, signed", "CANopen Safety"} <= rows.keys()


@pytest.mark.parametrize("by, target, cycles, published", [
    ("ours, assembly", "ATmega328P", 1, 2111), ("ours, assembly, RAM", "ATmega328P", 1, 1951),
    ("ours, assembly", "Cortex-M0+", 1.4, 1624)])
def test_aes_is_within_a_tenth_of_the_best_that_is_published(
        by: str, target: str, cycles: float, published: int) -> None:
    """Without the call and its registers, which are counted here: AVR-AES-faster, with the S-box in
    flash and in RAM; cortexm-AES."""
    assert energy.MODELS[target].per_count == cycles
    made = counts.read()["AES-128-CMAC", by, "block", "16", target]
    assert made.mean * cycles <= 1.1 * published


def test_a_step_that_never_ends_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a scheme that tries keys for ever."""
    monkeypatch.setattr(machines, "PATIENCE", 0.1)
    with pytest.raises(SystemExit, match="keys did not end in 0 minutes"):
        machines.simulated(["sleep", "60"], Path("keys"))


def test_years_above_a_shelf_life_say_so() -> None:
    said = lab("lab.messages.answer", "--every", "1d", "--battery", "er14505", "--sleep", "1",
               "--over", "uart")
    rows = [line for line in said.stdout.splitlines() if line.startswith("Dumpulse version 2")]
    assert rows[0].split()[-5:] == [">10", "y", "+", "old,", "late"]
    assert ">10 y: the battery does not keep longer" in said.stdout


@pytest.mark.parametrize("words, says", [
    (["--every", "3x"], "it must be a time"), (["--every", "0s"], "it must be a time"),
    (["--target", "z80"], "have a model of their energy"),
    (["--every", "1e99s"], "it must be a time"), (["--sleep", "nan"], "a number from"),
    (["--sleep", "1e12"], "a number from"), (["--bitrate", "0.000001"], "a number from"),
    (["--ev", "1s"], "unrecognized"),
    (["--choices", "--all"], "takes no other option"),
    (["--every", f"0.{'0' * 322}1ms"], "it must be a time")], ids=range(10))
def test_bad_arguments_are_refused_in_one_line(
        words: list[str], says: str, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["answer", *words])
    with pytest.raises(SystemExit, match="2"):
        answer.main()
    said, made = capsys.readouterr(), "make figures ONLY=lab-answer"
    assert says in said.err and not said.out
    assert re.fullmatch(rf'{made}: .* \(see {made} ARGS="--help"\)\n', said.err)


def test_a_node_needs_the_stack_of_its_deepest_step() -> None:
    """AES makes its key's schedule on the stack, deeper than it checks a message."""
    known = counts.read()
    scheme = next(scheme for scheme in SCHEMES if scheme.key == "AES-128-CMAC, BearSSL")
    found = answer.of_heartbeat(scheme, "ATmega328P", ("accept",), known)
    stacks = {step: known[scheme.name, scheme.by, step, length, "ATmega328P"].stack
              for step, length in (("key", "0"), ("accept", "4"))}
    assert found and found.stack == stacks["key"] > stacks["accept"]


def test_a_transceiver_that_waits_empties_a_coin_cell_in_25_days_on_can() -> None:
    """By hand: 225 mAh at 0.37 mA are 608 hours; less for the controller and the sleeping chip."""
    standby = 225 / 0.37 / 24
    assert standby == pytest.approx(25.3, abs=0.1)
    for target in energy.MODELS:
        for every, least in ((1, 0.9), (10, 0.97), (3600, 0.97)):
            found = answer.cheapest(target, "can", every)
            for way in ("Dumpulse version 1", "Dumpulse version 2", "SecOC", "AES-128-CMAC"):
                days = found[way].years * 365.25
                assert least * standby < days < standby, (target, way)
    off = answer.setting_of("ATmega328P", waits=0.0).lots(False)
    assert min(line.years for line in off[0][1][:3]) > 1.5


def test_no_joules_are_predicted_for_a_cortex_m4_unless_a_model_is_close() -> None:
    """The same operations with both prices; a model must hold for schemes that it has not seen."""
    rows = published.counted()
    assert len(rows) == 12 and len(published.published()) == 189
    off = published.errors(rows)
    assert (published.TARGET in energy.MODELS) == (max(map(abs, off)) <= published.CLOSE)
    page = " ".join((ROOT / "lab/messages/README.md").read_text().split())
    assert "by 6.8 % for an instruction, and by 4.3 % for a cycle" in page
    for numbers, per in ((4.3, [one.joules / one.cycles for one, _ in rows]),
                         (6.8, [one.joules / count for one, count in rows])):
        assert 100 * published.variation(per) == pytest.approx(numbers, abs=0.05)


def test_what_the_page_for_designers_says() -> None:
    """Of three nodes on a CR2032, with a heartbeat every 10 s."""
    avr, m0 = (partial(answer.cheapest, name) for name in ("ATmega328P", "Cortex-M0+"))
    mine, *others = ("Dumpulse version 2", "SecOC", "AES-128-CMAC", "MAVLink 2, signed")
    can = avr("can")
    assert all(can[way].joules < can[way].sent.usual for way in (mine, *others))
    assert 2_900 < avr("lora")[mine].sent.usual / can[mine].joules < 3_100
    assert min(m0("nrf")[way].years for way in (mine, *others)) > 10
    assert m0("nrf", 900)["a signature"].years > 10 > m0("nrf", 600)["a signature"].years
    m4 = answer.counted("Cortex-M4")
    page = (ROOT / "lab/designing.md").read_text()
    assert f"{m4[mine].count} instructions, a signature {m4['a signature'].count:,}" in page
    eight, more = (energy.over_nrf([size], 0, energy.MODELS["Cortex-M0+"]).usual
                   for size in (8, 28))
    assert eight - 8 * (more - eight) / 20 == pytest.approx(more - eight, rel=0.05)


@pytest.mark.parametrize("module", ["answer", "published"])
def test_a_table_has_lines_of_at_most_100_columns(module: str) -> None:
    said = lab(f"lab.messages.{module}")
    assert said.returncode == 0 and max(map(len, said.stdout.splitlines())) <= 100, said


# ---------------------------------------------------------------- other protocols

def filled(length: int, number: int) -> bytes:
    """As lab_fill of operation.h makes it."""
    state, made = 0x9E3779B9 * (number + 1) & 0xFFFFFFFF, b""
    for _ in range(length):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        made += bytes([state >> 24])
    return made


def test_other_protocols_send_what_their_standards_say() -> None:
    """The bytes that protocol.c expects of itself, by Python's AES, CMAC and SHA-256."""
    key, data, count = filled(32, 1000), filled(4, 0), 0x20000
    low = count.to_bytes(8, "little")

    def cmac(text: bytes) -> bytes:
        made = CMAC(algorithms.AES(key[:16]))
        made.update(text)
        return made.finalize()

    def x25(text: bytes) -> int:
        sum_ = 0xFFFF
        for byte in text:
            sum_ ^= byte
            for _ in range(8):
                sum_ = sum_ >> 1 ^ (0x8408 if sum_ & 1 else 0)
        return sum_

    secoc = data + low[:1] + cmac(b"\x12\x34" + data + low[::-1])[:3]
    address, rest = bytes([4, 3, 2, 1]), low[:4] + b"\0"
    stream = Cipher(algorithms.AES(key[:16]), modes.ECB()).encryptor().update(
        bytes([1, 0, 0, 0, 0, 0]) + address + rest + b"\1")
    frame = b"\x40" + address + b"\0" + low[:2] + b"\1" + bytes(map(operator.xor, data, stream))
    lorawan = frame + cmac(bytes([0x49, 0, 0, 0, 0, 0]) + address + rest + bytes([len(frame)])
                           + frame)[:4]
    packet = bytes([0xFD, 4, 1, 0, 0, 7, 1, 0, 0, 0]) + data
    packet += x25(packet[1:] + bytes([50])).to_bytes(2, "little") + b"\0" + low[:6]
    mavlink = packet + hashlib.sha256(key + packet).digest()[:6]
    source = (machines.C / "protocol.c").read_text()
    expected = [bytes(int(byte, 16) for byte in re.findall("0x(..)", found)) for found in
                re.findall(r"lab_expected\[WIRE\] = {(.*?)}", source, re.S)]
    assert expected == [secoc, lorawan, mavlink, data + bytes(255 - byte for byte in data)]
