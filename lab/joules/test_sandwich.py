"""The power sandwich without hardware: the real driver, the real firmware, a simulated meter. Logs
that are damaged in every way: all is said, nothing crashes, no figure is wrong."""

import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import pytest
import unicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unicorn import arm_const

from lab.joules import board, sandwich, standins, tables
from lab.joules.board import Image
from lab.joules.standins import hear_ctrl_c
from lab.messages import counts, published
from tools.programs import ROOT

STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion",
          "-Wcast-align", "-Wcast-qual", "-Wshadow", "-Werror")
THREE = ("ECDH P-256, P256-Cortex-M4", "ECDSA P-256, P256-Cortex-M4", "X25519, Monocypher")
FLASH, RAM, STACK = 512 << 10, 128 << 10, 104 << 10  # bytes: those of board.ld
WATTS = Fraction(7688, 100_000)  # 100 samples of 7688 µJ in 10 s make this power.


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that are for hardware."""
    monkeypatch.setattr(sandwich, "PAUSE", 0.01)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the images of THREE."""
    folder = tmp_path_factory.mktemp("images")
    chosen = [scheme for scheme in board.all_schemes() if scheme.key in THREE]
    assert len(board.build_all(chosen, folder)) == 3
    return folder


@pytest.fixture
def flash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a st-flash that is ours, and of what it has written."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "st-flash"
    tool.write_text(standins.FLASH)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "flash"


Even = ["7688-06"] * 100


def played(name: str) -> tuple[list[str], dict[str, dict[str, int]]]:
    """A KEM of few bytes and round figures."""
    banner = ["SystemCoreClock         96000000", f"CRYPTO_ALGNAME          {name}",
              "CRYPTO_SECRETKEYBYTES   3", "CRYPTO_PUBLICKEYBYTES   2",
              "CRYPTO_CIPHERTEXTBYTES  4", "CRYPTO_BYTES            32"]
    each = {"k": {"KeyGen": 96_000}, "e": {"Encaps": 192_000}, "d": {"Decaps": 288_000}}
    return banner, each | {"a": {name: cycles for one in each.values()
                                 for name, cycles in one.items()} | {"Total": 576_000}}


class Sandwich:
    """Both stand-ins, and images that are only names."""

    def __init__(self, folder: Path, flash: Path, stack: ExitStack) -> None:
        self.board = stack.enter_context(standins.Played(flash, played))
        self.shield = stack.enter_context(standins.Shield(self.board, lambda: Even))
        self.logs, self.images = folder / "logs", folder / "images"
        self.images.mkdir()
        for name in ("one", "two"):
            (self.images / f"{name}.bin").write_text(name)

    def run(self, *words: str) -> int:
        return sandwich.command(["--meter", self.shield.path, "--target", self.board.path, "--logs",
                              str(self.logs), "--images", str(self.images), *words])


@pytest.fixture
def desk(tmp_path: Path, flash: Path) -> Iterator[Sandwich]:
    with ExitStack() as stack:
        yield Sandwich(tmp_path, flash, stack)


# ---------------------------------------------------------------- the real firmware

def test_the_firmware_has_no_warning() -> None:
    for kem in (0, 1):
        subprocess.run([board.BOARD.compiler, *board.BOARD.flags, *STRICT, f"-DBOARD_IS_KEM={kem}",
                        "-DBOARD_REFUSES=1", '-DBOARD_NAME="a"', "-Ilab/messages/c", "-c",
                        "lab/joules/board.c", "-o", os.devnull], cwd=ROOT, check=True)


def test_every_scheme_has_room_on_the_board() -> None:
    """The linker rejects an image that is too large; the stack is its own matter."""
    assert f"STACK = {STACK >> 10}K;" in (board.SOURCES / "board.ld").read_text()
    schemes = board.all_schemes()
    assert {"key", "sign", "encapsulate"} <= {step.name for one in schemes for step in one.steps}
    assert len({board.name_of(scheme) for scheme in schemes}) == len(schemes) > 8
    stacks = [count.stack for count in counts.read().values() if count.target == board.CORE
              and (count.scheme, count.by) in {(scheme.name, scheme.by) for scheme in schemes}]
    assert 0 < max(stacks) <= STACK - 1024


def test_three_schemes_go_through_the_whole_chain(tmp_path: Path, three: Path, flash: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    """Real driver, real firmware in QEMU, simulated meter. The firmware's counts are those that
    the lab has from another simulator, and D7 rises once for each measurement."""
    with standins.Qemu(flash) as qemu, standins.Shield(qemu, lambda: Even) as shield:
        status = sandwich.command(["--meter", shield.path, "--target", qemu.path, "--runs", "1",
                                   "--logs", str(tmp_path / "logs"), "--images", str(three)])
    assert status == 0, capsys.readouterr()
    assert shield.rises == 3 * 5
    logs = sorted((tmp_path / "logs").iterdir())
    assert [path.name for path in logs] == sorted(
        f"{path.stem}.run-1.log" for path in three.glob("*.bin"))
    found = [one for path in logs for one in tables.parse(path)[0]]
    assert not [complaint for path in logs for complaint in tables.parse(path)[1]]
    assert len(found) == 3 * 5
    for one in found:
        assert one.watts == WATTS and one.joules == WATTS * one.cycles / 96_000_000
    kept = counts.read()
    counted = {(board.name_of(scheme), operation): count.mean for scheme in board.all_schemes()
               for operation, step in published.STEPS.items() for count in kept.values()
               if (count.scheme, count.by, count.step, count.target) == (
                   scheme.name, scheme.by, step, board.CORE) and count.length < 1024}
    alone = [one for one in found if one.operation in published.STEPS]
    assert len(alone) == 9
    for one in alone:
        assert one.cycles == pytest.approx(counted[one.board.name, one.operation], rel=0.02), one
    assert tables.command([str(path) for path in logs]) == 0
    said = capsys.readouterr().out
    assert tables.SIMULATED in said and tables.MEASURED not in said
    heard = {entry.text for path in logs for entry in tables.read(path) if entry.who == "target"}
    page = (ROOT / "lab" / "joules" / "sandwich.md").read_text()
    console_of_page = page.partition("```text\n")[2].partition("```")[0]
    banner = [line for line in console_of_page.partition("[START]")[0].splitlines() if line]
    assert len(banner) == 10 and set(banner) <= heard
    assert " ".join(standins.QEMU).replace("-d unimp ", "") in " ".join(
        page.replace("\\\n", " ").split())


def test_a_full_stack_is_a_fault_and_is_said(tmp_path: Path) -> None:
    """It does not run into the variables."""
    step = ('#include "operation.h"\n#include <string.h>\n'
            'const uint32_t lab_sizes[3] = {1, 1, 1};\n'
            'void deep(int n) { volatile char more[4096]; memset((char *)more, n, sizeof more);'
            ' if (n) deep(n - 1); more[0]++; }\n' +
            "".join(f"void {name}_prepare(unsigned n) {{ (void)n; }}\n"
                    f"void {name}_run(void) {{ deep(40); }}\n"
                    f"bool {name}_right(void) {{ return true; }}\n"
                    for name in ("vectors", "key", "sign", "verify", "refuse")))
    source = tmp_path / "deep.c"
    source.write_text(step)
    objects = [tmp_path / "deep.o", tmp_path / "board.o"]
    for file, built in zip((source, board.SOURCES / "board.c"), objects, strict=True):
        board.BOARD.compile(file, built, '-DBOARD_NAME="deep"', "-DBOARD_IS_KEM=0",
                            "-DBOARD_REFUSES=0", "-O0")
    flash = tmp_path / "flash"
    board.BOARD.build(objects, flash)
    with standins.Qemu(flash) as qemu:
        qemu.power_cycle()
        bench = sandwich.Bench("/dev/ptmx", qemu.path)
        assert bench.asked(sandwich.AWAKE)
        bench.board.send("k")
        with pytest.raises(tables.Trouble, match="program has failed"):
            bench.asked(sandwich.MEASURING)
        bench.close()


class Chip:
    """The registers that the firmware's start-up needs, by RM0383, in Unicorn, which has the core
    alone. It keeps to the manual's order: what it forbids is an error."""

    RCC, PWR, FLASH, USART, DWT = 0x40023800, 0x40007000, 0x40023C00, 0x40004400, 0xE0001000

    def __init__(self, image: Path, *, hse: bool, pll: bool = True) -> None:
        self.has_hse, self.has_pll = hse, pll
        self.kept = {self.RCC: 0x83, self.RCC + 4: 0x24003010}  # HSI runs; the PLL as after a reset
        self.said, self.cycles = b"", 0
        engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        engine.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M4)
        engine.mem_map(0x08000000, FLASH)
        engine.mem_map(0x20000000, RAM)
        for base in (0x40000000, 0xE0000000):
            engine.mmio_map(base, 0x100000, self.read, base, self.write, base)
        engine.mem_write(0x08000000, image.read_bytes())
        stack, begin = struct.unpack("<II", image.read_bytes()[:8])
        engine.reg_write(arm_const.UC_ARM_REG_SP, stack)
        self.engine = engine
        engine.emu_start(begin, 0, timeout=60 * unicorn.UC_SECOND_SCALE)

    def hertz(self) -> int:
        """What the core runs at."""
        if self.kept.get(self.RCC + 8, 0) & 3 != 2:
            return 16_000_000
        plan = self.kept[self.RCC + 4]
        source = 8_000_000 if plan >> 22 & 1 else 16_000_000
        assert 1_000_000 <= source // (plan & 63) <= 2_000_000
        made = source // (plan & 63) * (plan >> 6 & 511)
        assert 100_000_000 <= made <= 432_000_000
        return made // (2 * (plan >> 16 & 3) + 2)

    def bus(self) -> int:
        """What USART 2 runs at."""
        divider = self.kept.get(self.RCC + 8, 0) >> 10 & 7
        return self.hertz() >> (divider - 3 if divider >= 4 else 0)

    def baud(self) -> float:
        return self.bus() / self.kept[self.USART + 8]

    def read(self, engine: unicorn.Uc, offset: int, size: int, base: int) -> int:
        address, value = base + offset, self.kept.get(base + offset, 0)
        if address == self.RCC:
            ready = bool(value & 1 << 16 and value & 1 << 18 and self.has_hse) << 17
            return value | ready | bool(value & 1 << 24 and self.has_pll) << 25
        if address == self.RCC + 8:
            return value | (value & 3) << 2
        if address == self.PWR + 4:
            return 1 << 14
        if address == self.USART and b"[INPUT]" in self.said and self.said.endswith(b"\n"):
            engine.emu_stop()  # it waits for a letter
        if address == self.DWT + 4 and self.kept.get(self.DWT, 0) & 1:
            self.cycles += 10
            return self.cycles
        return 0xC0 if address == self.USART else value

    def write(self, engine: unicorn.Uc, offset: int, size: int, value: int, base: int) -> None:
        address = base + offset
        if address == self.RCC + 4:
            assert not self.kept[self.RCC] & 1 << 24, "the PLL runs"
        self.kept[address] = value
        if address == self.RCC + 8 and value & 3 == 2:
            assert self.hertz() <= 100_000_000 and self.bus() <= 50_000_000
            assert self.kept[self.PWR] >> 14 & 3 == 3, "the voltage is for 84 MHz"
            assert self.kept[self.FLASH] & 15 >= 3, "the flash is too slow"
            assert self.kept[self.FLASH] >> 8 & 7 == 7, "no caches"
            assert self.kept[self.RCC + 0x40] & 1 << 28, "the power controller has no clock"
        if address == self.USART + 4:
            assert self.kept[self.USART + 0xC] & 0x2008 == 0x2008, "the USART is off"
            assert self.kept[self.RCC + 0x40] & 1 << 17 and self.kept[self.RCC + 0x30] & 1
            assert self.kept[0x40020000] & 0x300F0 == 0x100A0, "PA2, PA3 or PA8 is no such pin"
            assert self.kept[0x40020020] & 0xFF00 == 0x7700, "PA2 and PA3 are not the USART's"
            self.said += bytes([value & 0xFF])


@pytest.mark.parametrize("hse, pll, hertz, source", [
    (True, True, 96_000_000, "HSE"), (False, True, 96_000_000, "HSI"),
    (True, False, 16_000_000, "HSI, as the PLL does not run")])
def test_the_clock_is_set_as_the_manual_wants_it(three: Path, hse: bool, pll: bool, hertz: int,
                                                 source: str) -> None:
    """What QEMU's board does not have: the settings are reckoned from the registers."""
    chip = Chip(three / "X25519-Monocypher.bin", hse=hse, pll=pll)
    said = chip.said.decode()
    assert f"SystemCoreClock         {hertz}\n" in said
    assert f"CLOCK_SOURCE            {source}\n" in said
    assert "COUNTED                 cycles\n" in said
    assert chip.hertz() == hertz
    assert chip.baud() == pytest.approx(115_200, rel=0.01)


# ---------------------------------------------------------------- the driver

def notes(path: Path) -> list[str]:
    return [entry.text for entry in tables.read(path) if entry.who == "note"]


def whole(paths: list[Path]) -> list[str]:
    """The operations of these logs, which must be without fault."""
    found = []
    for path in paths:
        ones, complaints = tables.parse(path)
        assert complaints == []
        found += [one.operation for one in ones]
    return found


OPERATIONS = ["Total", "KeyGen", "Encaps", "Decaps", "Idle"]


def test_a_run_is_in_the_order_of_the_study(desk: Sandwich) -> None:
    assert desk.run("--runs", "1", "--only", "one") == 0
    path = desk.logs / "one.run-1.log"
    assert whole([path]) == OPERATIONS
    said = [command for command in desk.shield.commands if not command.startswith("volt")]
    assert said[:3] == ["status", "status", "status"]  # twice it was busy
    assert said[3:8] == ["htc", "stop", "trigsrc sw", "temp degc", "targrst 1"]
    assert said[8] == "targrst 1"  # after the flash was written
    assert said[9:14] == ["output energy", "format ascii_dec", "freq 10", "acqtime 10",
                          "acqmode dyn"]
    rest = ["stop", "trigsrc sw"]
    assert said[14:19] == [*rest, "trigsrc d7", "trigsrc d7", "start"]  # once it was rejected
    assert said[19:] == [*rest, "trigsrc d7", "start"] * 4 + rest
    assert [command for command in desk.shield.commands if command.startswith("volt")] == [
        "volt get", "volt 3000m", "volt get"]
    assert notes(path)[-1] == "complete"


def test_a_meter_that_behaves_as_its_manual_says_is_understood_too(
        desk: Sandwich, monkeypatch: pytest.MonkeyPatch) -> None:
    """It wants a start for each acquisition, and is idle after it."""
    monkeypatch.setattr(sandwich, "START", 0.3)
    monkeypatch.setattr(sandwich, "SECONDS", 0)
    desk.shield.by_manual = True
    assert desk.run("--runs", "2", "--only", "one") == 0
    paths = sorted(desk.logs.iterdir())
    assert whole(paths) == OPERATIONS * 2
    assert not [note for path in paths for note in notes(path) if note.startswith("failed")]
    assert desk.shield.commands.count("start") == 2 * len(OPERATIONS)


def test_the_order_is_random_and_the_seed_repeats_it() -> None:
    images = [Image(f"scheme-{number}", Path()) for number in range(20)]
    jobs = sandwich.in_order(images, 4, 7)
    assert jobs == sandwich.in_order(images[::-1], 4, 7) != sandwich.in_order(images, 4, 8)
    orders = [[job.image.name for job in jobs if job.run == run] for run in (1, 2, 3, 4)]
    assert all(sorted(order) == sorted(image.name for image in images) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


def test_after_a_break_only_what_is_missing_is_measured(
        desk: Sandwich, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("--runs", "2", "--seed", "77") == 0
    capsys.readouterr()
    kept = {path: path.read_bytes() for path in desk.logs.iterdir()}
    assert len(kept) == 4
    missing = desk.logs / "two.run-1.log"
    half = missing.with_name(missing.name + ".part")
    half.write_bytes(kept.pop(missing)[:2000])
    missing.unlink()
    desk.shield.commands.clear()
    assert desk.run("--runs", "2", "--seed", "77") == 0
    said = capsys.readouterr().out
    assert "seed 77; 3 of 4 logs are there already" in said
    assert desk.shield.commands.count("start") == len(OPERATIONS)
    assert {path: path.read_bytes() for path in kept} == kept
    assert whole([missing]) == OPERATIONS and not half.exists()
    desk.shield.commands.clear()
    assert desk.run("--runs", "2") == 0 and "start" not in desk.shield.commands


def test_another_image_of_a_scheme_is_not_mixed_in(desk: Sandwich,
                                                   capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.run("--runs", "1", "--only", "one") == 0
    with (desk.images / "one.bin").open("a") as image:
        image.write("\n")
    assert desk.run("--runs", "1", "--only", "one") == 2
    assert "one.run-1.log was made with another image of one" in capsys.readouterr().err


@pytest.mark.parametrize("fault, says", [
    ("no trigger", 'no "Acquisition completed"'), ("no end", 'no "Acquisition completed"'),
    ("short", "it has 99 samples, and says 100"), ("cut", '"88-06" is as long as no other'),
    ("silent", ""), ("garbage", "")])
def test_a_fault_of_the_meter_is_noticed_and_the_measurement_made_again(
        desk: Sandwich, monkeypatch: pytest.MonkeyPatch, fault: str, says: str) -> None:
    monkeypatch.setattr(sandwich, "START", 0.3)
    monkeypatch.setattr(sandwich, "ANSWER", 0.3)
    monkeypatch.setattr(sandwich, "SECONDS", 0)
    desk.shield.faults.append(fault)
    assert desk.run("--runs", "1", "--only", "one") == 0
    path = desk.logs / "one.run-1.log"
    assert whole([path]) == OPERATIONS and desk.shield.faults == []
    failures = [note for note in notes(path) if note.startswith("failed")]
    if says:
        assert len(failures) == 1 and says in failures[0]
    else:
        assert failures == []  # The driver sends a command again.
    # Before and after the flash was written, and after a failure: the board begins anew.
    assert desk.shield.commands.count("targrst 1") == 2 + len(failures)


def test_a_board_that_makes_errors_is_left_out_and_the_others_are_not(
        desk: Sandwich, capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    figures = desk.board.figures

    def wrong(name: str) -> tuple[list[str], dict[str, dict[str, int]]]:
        banner, letters = figures(name)
        return banner, letters | ({"e": {"Encaps": 0}} if name == "one" else {})

    desk.board.figures = wrong
    assert desk.run("--runs", "1") == 1
    said = capsys.readouterr().out
    assert "one, run 1: the board has measured nothing; it is left out" in said
    assert [path.name for path in sorted(desk.logs.iterdir())] == ["one.run-1.log.part",
                                                                   "two.run-1.log"]
    assert notes(desk.logs / "one.run-1.log.part").count("measure e") == sandwich.ATTEMPTS
    desk.board.figures = figures
    assert desk.run("--runs", "1") == 0


@pytest.mark.parametrize("does, says", [
    ('printf two >"$(dirname "$0")/flash"', "the board runs two, not one: was it flashed?"),
    ("echo 'no \033[31mboard\033[0m'; exit 1",
     r"st-flash failed: no \x1b[31mboard\x1b[0m; it is left out")])
def test_a_flasher_that_fails_is_said(desk: Sandwich, flash: Path, does: str, says: str,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    (flash.parent / "st-flash").write_text(f"#!/bin/sh\n{does}\n")
    assert desk.run("--runs", "1", "--only", "one") == 1
    assert says in capsys.readouterr().out


def test_two_programs_do_not_share_a_line(desk: Sandwich,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    other = sandwich.Line(desk.shield.path, "another")
    assert desk.run() == 1
    assert "is in use by another program" in capsys.readouterr().err
    os.close(other.file)


def test_a_meter_that_is_unplugged_ends_it(desk: Sandwich, capsys: pytest.CaptureFixture[str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandwich, "START", 0.3)
    monkeypatch.setattr(sandwich, "SECONDS", 0)
    with standins.Shield(desk.board, lambda: Even) as shield:
        def unplug() -> list[str]:
            os.close(shield.slave)  # The line hangs up when both ends are closed.
            shield.slave = os.dup(1)
            held, shield.master = shield.master, os.dup(1)
            os.close(held)
            return []

        shield.samples = unplug
        status = desk.run("--meter", shield.path, "--runs", "1")
    said = capsys.readouterr()
    assert status == 1 and re.search(r"meter: /dev/pts/\d+ is gone", said.err), said
    assert [path.suffix for path in desk.logs.iterdir()] == [".part"]


def test_ctrl_c_keeps_what_is_there_and_the_same_command_goes_on(
        desk: Sandwich, capsys: pytest.CaptureFixture[str]) -> None:
    waits = threading.Event()

    def never() -> list[str]:
        desk.shield.faults.append("no trigger")
        waits.set()
        return Even

    desk.shield.samples = never
    words = ["--meter", desk.shield.path, "--target", desk.board.path, "--logs", str(desk.logs),
             "--images", str(desk.images), "--runs", "1"]
    process = subprocess.Popen([sys.executable, "-m", "lab.joules.sandwich", *words], cwd=ROOT,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=hear_ctrl_c)
    assert waits.wait(60)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors == ""
    assert said.endswith("sandwich: stopped; the same command goes on from here\n")
    assert desk.shield.commands[-2:] == ["stop", "trigsrc sw"]
    assert [path.suffix for path in desk.logs.iterdir()] == [".part"]
    desk.shield.samples = lambda: Even
    desk.shield.faults.clear()
    assert desk.run("--runs", "1") == 0
    assert whole(sorted(desk.logs.glob("*.log"))) == OPERATIONS * 2


# ---------------------------------------------------------------- damaged logs: tables

CYCLES = {"KeyGen": 96_000, "Sign": 480_000, "Verify": 288_000}
LETTERS = {"a": CYCLES | {"Total": 960_000}, "k": {"KeyGen": 96_000}, "s": {"Sign": 480_000},
           "v": {"Verify": 288_000}, "z": {}}
JOULES = {"Total": Fraction(770), "KeyGen": Fraction(77), "Sign": Fraction(385),
          "Verify": Fraction(231)}  # µJ: 77 mW, 1 to 10 ms


def lines_of(name: str = "toy", run: int = 1, sample: str = "7700-06") -> list[str]:
    """A whole log."""
    said = [f"note: {tables.BEGINS}", f"note: scheme {name}", f"note: run {run}", "note: seed 7",
            "note: image 00ff", "to meter: status", "meter: PowerShield > ack status ok",
            "target: [RESET]", "target: SystemCoreClock         96000000",
            f"target: CRYPTO_ALGNAME          {name}", "target: CRYPTO_SECRETKEYBYTES   3",
            "target: CRYPTO_PUBLICKEYBYTES   2", "target: CRYPTO_BYTES            9",
            "target: [INPUT] a = all"]
    for letter, counts in LETTERS.items():
        said += [f"note: measure {letter}", "to meter: start", "meter: PowerShield > ack start",
                 f"to target: {letter}", "meter: TimeStamp: 000s 000ms, buff 00%",
                 *[f"meter: {sample}"] * 100, "meter: end", "meter: Acquisition time: 10000-03",
                 "meter: Number of samples: 100", "meter: PowerShield > Acquisition completed",
                 "target: [START] measure(10200,x)",
                 "target: [END] 10203 milliseconds, n=9 (0 errors)",
                 *(f"target: *** {operation:<8}{cycles:>11} {name}"
                   for operation, cycles in counts.items()),
                 "target: [INPUT] a = all", f"note: measured {letter}"]
    said += ["note: measure t", "target: [END] 5 milliseconds, n=3 (0 errors)",
             "note: measured t", f"note: {tables.COMPLETE}"]
    return [f"{number / 100:9.3f} {line}" for number, line in enumerate(said)]


WHOLE = lines_of()


def parse(folder: Path, lines: list[str] | bytes) -> tuple[dict[str, Fraction], list[str]]:
    """The µJ by operation, and the complaints without the name of the file."""
    path = folder / "a.log"
    path.write_bytes(lines if isinstance(lines, bytes) else
                     "".join(f"{line}\n" for line in lines).encode())
    found, complaints = tables.parse(path)
    assert all(complaint.startswith(f"{path}:") for complaint in complaints)
    return ({one.operation: one.joules * 10**6 for one in found if one.operation != "Idle"},
            [complaint.removeprefix(f"{path}:").strip() for complaint in complaints])


def test_a_whole_log(tmp_path: Path) -> None:
    assert parse(tmp_path, WHOLE) == (JOULES, [])


def at(text: str, nth: int = 0) -> int:
    """The index of the nth line with this text."""
    return [index for index, line in enumerate(WHOLE) if text in line][nth]


VERIFY = at("note: measure v")
FIRST = at("meter: 7700-06", 300)  # the first sample of Verify
LAST = at("meter: 7700-06", 399)

Change = Callable[[list[str]], object]


def replaced(index: int, old: str, new: str) -> Change:
    def change(lines: list[str]) -> None:
        assert old in lines[index]
        lines[index] = lines[index].replace(old, new)
    return change


def without(first: int, last: int = 0) -> Change:
    return lambda lines: lines.__delitem__(slice(first, (last or first) + 1))


def samples(text: str) -> Change:
    """Of Verify, all."""
    def change(lines: list[str]) -> None:
        lines[FIRST:LAST + 1] = [line.replace("7700-06", text) for line in lines[FIRST:LAST + 1]]
    return change


@pytest.mark.parametrize("change, says", [
    # A board that the meter does not feed takes none.
    *((samples(text), "W, which no board takes: left out") for text in (
        "0000-06", "0001-99", "9999+99", "9999-03")),
    (without(FIRST), "it has 99 samples, and says 100: left out"),
    (replaced(FIRST, "7700-06", "700-06"), '"7700-06" is as long as no other sample'),
    (replaced(LAST, "7700-06", "nan"), '"nan" is no sample'),
    (without(LAST + 1, LAST + 4), "it breaks off after 100 samples"),
    (without(LAST + 2), "its summary lacks the time or the number of samples"),
    (replaced(LAST + 2, "10000-03", "0"), "its time is 0 s"),
    (without(FIRST - 1), "it has no TimeStamp: no trigger came"),
    (lambda lines: lines.insert(LAST, lines[FIRST - 1]), "a second TimeStamp"),
    (without(at("[END]", 3)), "the board says 0 ends of one measurement"),
    (replaced(at("[END]", 3), "(0 errors)", "(1 errors)"), "the board made 1 errors"),
    (replaced(at("*** Verify", 1), "288000", "0"), "the board has measured nothing"),
    (replaced(at("*** Verify", 1), "288000 toy", "288000 other"),
     "the board speaks of other, and is toy"),
    (lambda lines: lines.insert(at("*** Verify", 1), lines[at("*** Verify", 1)]),
     "the board says Verify twice"),
    (lambda lines: lines.insert(at("*** Verify", 1), lines[at("*** Sign", 1)]),
     "the board gives Sign, Verify, not Verify"),
    (without(at("note: measured v")), "it has no end: left out")])
def test_one_damaged_measurement_is_left_out_and_the_others_are_not(
        tmp_path: Path, change: Change, says: str) -> None:
    lines = list(WHOLE)
    change(lines)
    joules, complaints = parse(tmp_path, lines)
    assert joules == {name: value for name, value in JOULES.items() if name != "Verify"}
    assert complaints[0].startswith(f"{VERIFY + 1}: measurement v: ") and says in complaints[0]
    assert complaints[1:] == ["the run lacks v"]


def test_the_name_of_a_scheme_may_not_be_one_of_a_path(tmp_path: Path) -> None:
    joules, complaints = parse(tmp_path, [line.replace("toy", "../toy") for line in WHOLE])
    assert joules == {} and 'says "../toy" for CRYPTO_ALGNAME' in complaints[0]


def test_the_log_of_a_line_that_babbles_has_an_end(tmp_path: Path) -> None:
    written = sandwich.Log(tmp_path / "a.log")
    for _ in range(sandwich.MOST_BYTES // 1000 + 100):
        written.write("meter", "x" * 1000)
    written.file.close()
    assert written.part.stat().st_size <= sandwich.MOST_BYTES


def test_runs_are_averaged(tmp_path: Path) -> None:
    found = []
    for run, sample in ((1, "7700-06"), (2, "7800-06")):
        path = tmp_path / f"{run}.log"
        path.write_text("".join(f"{line}\n" for line in lines_of(run=run, sample=sample)))
        found += tables.parse(path)[0]
    averaged = tables.rows(found)["toy"]["Verify"]
    assert averaged.runs == 2 and averaged.joules == Fraction(775, 10_000) * Fraction(3, 1000)
    assert averaged.spread == Fraction(10, 775) and averaged.watts == Fraction(775, 10_000)


def test_what_failed_and_was_measured_again_is_no_fault(tmp_path: Path) -> None:
    lines = [*WHOLE[:LAST], "    1.000 note: failed v: it was cut", *WHOLE[VERIFY:]]
    assert parse(tmp_path, lines) == (JOULES, [])


@pytest.mark.parametrize("raw", [b"", b"hello\nthere\n", b"\0" * 1000,
                                 b"    1.000 meter: 7700-06\n"])
def test_what_is_no_log(tmp_path: Path, raw: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_bytes(raw)
    for name, status in (("a", 1), ("none", 2), (".", 1)):
        assert tables.command([str(tmp_path / name)]) == status
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("the logs hold no measurement") == 3


NO_TIME = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def damaged(data: st.DataObject, kinds: list[str]) -> list[bytes]:
    lines = [line.encode() for line in WHOLE]
    for _ in range(data.draw(st.integers(1, 6))):
        index = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(kinds)):
            case "drop":
                del lines[index]
            case "double":
                lines.insert(other, lines[index])
            case "swap":
                lines[index], lines[other] = lines[other], lines[index]
            case "nul":
                place = data.draw(st.integers(0, len(lines[index])))
                lines[index] = lines[index][:place] + b"\0" + lines[index][place:]
            case "put":
                lines.insert(index, data.draw(st.binary(max_size=60)))
            case "cut":
                lines[index] = lines[index][:data.draw(st.integers(0, 30))]
            case _:
                place = data.draw(st.integers(0, len(lines[index])))
                lines[index] = (lines[index][:place] + data.draw(st.binary(max_size=3)) +
                                lines[index][place + data.draw(st.integers(0, 2)):])
    return lines


@NO_TIME
@given(data=st.data())
def test_lines_that_are_lost_doubled_or_moved_change_no_figure(
        tmp_path: Path, data: st.DataObject) -> None:
    """What is not left out is right, and what is left out was said."""
    lines = damaged(data, ["drop", "double", "swap", "nul"])
    joules, complaints = parse(tmp_path, b"\n".join(lines) + b"\n")
    assert joules.items() <= JOULES.items()
    assert complaints or joules == JOULES


@NO_TIME
@given(data=st.data())
def test_no_damage_makes_it_crash(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\n".join(damaged(data, ["drop", "double", "swap", "put", "cut", "bytes"])))
    found, complaints = tables.parse(path)
    schemes = tables.rows(found)
    if schemes:
        tables.tables(schemes)
        tables.tsv(schemes)
    for complaint in complaints:
        assert complaint.startswith(str(path)) and complaint.isprintable()


def test_the_tables_of_one_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"{line}\n" for line in WHOLE))
    assert tables.command([str(path), "--tsv", str(tmp_path / "a.tsv")]) == 0
    assert (tmp_path / "a.tsv").read_text().splitlines()[4] == "\t".join((
        "toy", "sk=3, pk=2, sl=9", "Verify", "288000", "0.003", "0.077", "0.000231", "1",
        "0.000000", tables.MEASURED))
    assert "\tTOTAL\t" in (tmp_path / "a.tsv").read_text()
    said = capsys.readouterr()
    assert said.err == "" and "231.000 µJ" in said.out and "77.0 to 77.0 mW" in said.out


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="0123456789-+. eE", max_size=20))
def test_a_sample_is_exact_or_refused(text: str) -> None:
    """No text makes a huge number, or takes long."""
    value = tables.sample(text)
    if re.fullmatch(r"[0-9]{1,7}[+-][0-9]{1,2}", text):
        mantissa, sign, exponent = re.split(r"([+-])", text)
        assert value == Fraction(f"{mantissa}e{sign}{exponent}")
    else:
        assert value is None


@pytest.mark.parametrize("seconds", ["10000-03", "10", "10.000 s", "10000 ms", "10s"])
def test_a_time_may_be_written_in_several_ways(seconds: str) -> None:
    """The manual shows no example, so all that are likely are understood."""
    assert Fraction(10036, 10**7) == tables.watts_of(["TimeStamp: 0", "5017-06", "5019-06", "end",
                                    f"Acquisition time: {seconds}", "Number of samples: 2",
                                    "PowerShield > Acquisition completed"])


# ---------------------------------------------------------------- what is printed

def row_of(name: str, operation: str, joules: str, runs: int = 4, spread: str = "0.01",
        kem: bool = False) -> tables.Row:
    about = tables.Board(96_000_000, name, 1, 1, int(kem), 1)
    return tables.Row(about, operation, runs, Fraction(1000), Fraction(1), Fraction(joules),
                      Fraction(spread))


def test_tables_are_sorted_and_what_is_missing_comes_last() -> None:
    schemes = {
        "slow": {"Verify": row_of("slow", "Verify", "0.02"),
                 "Sign": row_of("slow", "Sign", "0.001")},
        "lost": {"Sign": row_of("lost", "Sign", "0.0001", 1)},
        "fast": {"Verify": row_of("fast", "Verify", "0.003", 2, "0.2"),
                 "Sign": row_of("fast", "Sign", "2")},
        "b": {name: row_of("b", name, "2", kem=True) for name in ("Total", "KeyGen")},
        "a": {name: row_of("a", name, joules, kem=True)
              for name, joules in (("Decaps", "4"), ("Total", "1"), ("KeyGen", "3"))}}
    said = tables.tables(schemes)
    order = [line.split()[0] for line in said if line.split()[:1] and line.split()[0] in schemes]
    assert order == ["fast", "slow", "lost", "a", "b"]
    fast, = (line for line in said if line.startswith("fast"))
    assert fast.split() == ["fast", "-", "2.000", "J", "3.000", "mJ", "-", "2-4", "20.0%"]
    lost, = (line for line in said if line.startswith("lost"))
    assert lost.split() == ["lost", "-", "100.000", "µJ", "-", "-", "1", "-"]
    a, = (line for line in said if line.startswith("a "))
    assert a.split() == ["a", "3.000", "J", "-", "4.000", "J", "1.000", "J", "4", "1.0%"]
    assert schemes["a"]["Total"].board.sizes == "sk=1, pk=1, ct=1, ss=1"
    assert any(tables.MEASURED in line for line in said)


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=100))
def test_what_is_shown_changes_no_terminal(raw: bytes) -> None:
    shown = tables.printable(raw)
    assert shown.isascii() and shown.isprintable()
