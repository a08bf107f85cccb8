"""Do counts, times what one operation costs, predict what the whole costs?
SPDX-License-Identifier: MIT"""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench import callgrind
from bench.processors.targets import strangers
from lab.groups import predict
from lab.groups.bridges import BRIDGES, FIELD_OPERATIONS, Bridge, Whole, in_fields, sample
from lab.groups.predict import MUST
from lab.messages import counts, machines
from lab.messages.schemes import Step
from tests.support.programs import BUILD, ROOT

KEPT = predict.read()
KNOWN = predict.predictions(KEPT)


def lab(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lab.groups.predict", *map(str, words)], cwd=ROOT,
                          text=True, capture_output=True, check=False)


def bridge(name: str) -> Bridge:
    return next(one for one in BRIDGES if one.name == name)


# -- the musts -------------------------------------------------------------------------------------
def test_every_whole_is_predicted_on_every_machine() -> None:
    assert {(each.bridge, each.target, each.whole) for each in KNOWN} == {
        (one.name, target, whole.name) for one in BRIDGES for target in one.targets
        for whole in one.wholes if one.samples.get(target, 1)}
    assert {each.target for each in KNOWN} == set(machines.MACHINES)
    assert {each.whole for each in KNOWN} >= {"sign", "verify", "agree", "decompress"}


@pytest.mark.parametrize("each", KNOWN,
                         ids=lambda each: f"{each.bridge}, {each.whole}, {each.target}")
def test_a_prediction_is_as_near_as_it_must_be(each: predict.Prediction) -> None:
    assert each.misses() == []


def test_what_does_not_predict_is_farther_off() -> None:
    """Or it would be no news that the bridge holds."""
    worst = predict.worst(KNOWN)
    assert worst["group"] <= MUST["group"] and worst["field"] <= MUST["field"]
    assert min(error for way, error in worst.items() if way not in MUST) > 10


@pytest.mark.parametrize("way", MUST)
def test_a_prediction_that_misses_is_named(way: str) -> None:
    assert not replace(KNOWN[0], by={name: KNOWN[0].measured for name in MUST}).misses()
    for error in (1 + 1.01 * MUST[way] / 100, 1 - 1.01 * MUST[way] / 100):
        by = {name: KNOWN[0].measured * (error if name == way else 1) for name in MUST}
        missed, = replace(KNOWN[0], by=by).misses()
        assert predict.WAYS[way] in missed


@pytest.mark.slow
@pytest.mark.parametrize("name, target", [
    ("secp160r1, micro-ecc", "amd64"), ("P-256, micro-ecc, asm", "Cortex-M4"),
    ("secp160r1, micro-ecc, asm", "ATmega328P")])
def test_measured_again_it_is_the_same(name: str, target: str) -> None:
    if strangers():
        pytest.skip("these costs are of other compilers")
    assert predict.measure(bridge(name), target) == KEPT[name, target]


# -- the counts are those of the library -----------------------------------------------------------
CALLED = {  # by micro-ecc's names; in C it squares as it multiplies
    "uECC_vli_modMult_fast": ("field multiply", "field square"),
    "uECC_vli_modSquare_fast": ("field square",), "uECC_vli_modAdd": ("field add",),
    "uECC_vli_modSub": ("field subtract",),
    "uECC_vli_modInv": ("field invert", "scalar invert"), "uECC_vli_modMult": ("scalar multiply",),
    "XYcZ_add": ("ladder add",), "XYcZ_addC": ("ladder add subtract",),
    "double_jacobian_default": ("point double",), "apply_z": ("point scale",)}
CALLED_BLST = {
    "POINTonE1_add": ("G1 add",), "POINTonE1_dadd": ("G1 add or double",),
    "POINTonE1_double": ("G1 double",), "POINTonE1_gather_booth_w5": ("G1 look up",),
    "POINTonE2_add": ("G2 add",), "POINTonE2_dadd": ("G2 add or double",),
    "POINTonE2_double": ("G2 double",), "POINTonE2_gather_booth_w5": ("G2 look up",),
    "psi": ("G2 psi",), "POINTonE2_to_affine": ("G2 affine",), "miller_loop_n": ("Miller loop",),
    "final_exp": ("final power",), "sqr_fp12": ("Fp12 square",),
    "mul_by_xy00z0_fp12": ("Fp12 by line",), "cyclotomic_sqr_fp12": ("Fp12 cyclotomic",),
    "mul_fp12": ("Fp12 multiply",), "frobenius_map_fp12": ("Fp12 frobenius",),
    "conjugate_fp12": ("Fp12 conjugate",), "inverse_fp12": ("Fp12 invert",)}


def called(one: Bridge, tmp_path: Path) -> dict[str, Counter[str]]:
    """How often each whole calls each function on amd64, if the compiler inlines none."""
    flags = [flag for flag in one.scheme.flags if not flag.startswith("-DLAB_REPEAT")]
    scheme = replace(one.scheme, name=f"{one.scheme.name}, calls",
                     flags=(*flags, "-DLAB_REPEAT=1", "-fno-inline"))
    runs = len(one.operations) + len(one.wholes)
    image = counts.Builder(scheme, machines.MACHINES["amd64"], "amd64").image(
        Step("operations", runs, (0,)), 0)
    # Each run makes two files: what was done to prepare it, and the run.
    subprocess.run(callgrind.command(tmp_path / "out", "--dump-before=operations_run", image),
                   env=machines.ENVIRONMENT, check=True, capture_output=True, cwd=BUILD)
    return {whole.name: callgrind.parse(
        (tmp_path / f"out.{2 * (len(one.operations) + number)}").read_text()).calls
        for number, whole in enumerate(one.wholes, start=1)}


def expected(whole: Whole, names: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Group operations, and the field operations of all of them."""
    count = whole.counts(0)
    groups = {name: number for name, number in count.items() if name in FIELD_OPERATIONS}
    both = {**in_fields(count), **groups}
    return {function: sum(both.get(operation, 0) for operation in operations)
            for function, operations in names.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name, names", [
    ("secp160r1, micro-ecc", CALLED), ("P-256, micro-ecc", CALLED),
    ("BLS12-381, blst, asm", CALLED_BLST)])
def test_the_library_calls_its_operations_as_often_as_is_counted(
        name: str, names: dict[str, tuple[str, ...]], tmp_path: Path) -> None:
    one = bridge(name)
    if names is CALLED_BLST:  # the calls of hashing to a curve are not counted one by one
        one = replace(one, wholes=one.wholes[:4])
    for whole, calls in called(one, tmp_path).items():
        wanted = expected(next(each for each in one.wholes if each.name == whole), names)
        assert {function: calls[function] for function in names} == wanted, whole


def test_samples_differ() -> None:
    """Or the counts of verification would be tried with one pair of exponents alone."""
    assert len({(sample(name, number).u, sample(name, number).v)
                for name in ("secp160r1", "P-256") for number in range(4)}) == 8


# -- commands --------------------------------------------------------------------------------------
def test_a_chip_on_which_only_the_operations_were_measured(tmp_path: Path) -> None:
    """Ten messages on the M4, without the wholes: as near to them as it must be."""
    costs = tmp_path / "mine.tsv"
    library = "BLS12-381, blst"
    operations = bridge(library).operations
    costs.write_text("library\twhat\tmy board\n" + "".join(
        f"{library}\t{name}\t{cost}\n" for name, cost in KEPT[library, "Cortex-M4"].items()
        if name in operations))
    said = lab("--scheme", "ps18", "--messages", 10, "--target", "my board", "--costs", costs)
    assert said.returncode == 0 and "measured" not in said.stdout, said
    lines = [line.split() for line in said.stdout.splitlines() if "by group operation" in line]
    sign, verify = (int(line[-1].replace(",", "")) for line in lines)
    known = KEPT[library, "Cortex-M4"]
    assert sign == pytest.approx(known["PS18-10 sign 0"], rel=0.01)
    assert verify == pytest.approx(known["PS18-10 verify 0"], rel=0.01)


@pytest.mark.parametrize("words", [("ps18", "--messages", 10), ("ecdsa",)])
def test_a_receipt_adds_up(words: tuple[object, ...]) -> None:
    said = lab("--target", "m4", "--scheme", *words).stdout
    assert "Cortex-M4:" in said
    for part in said.split("\n\n"):
        lines = part.splitlines()
        items = sum(int(line.split("=")[1].replace(",", "")) for line in lines if " = " in line)
        total = next(int(line.split()[-1].replace(",", "")) for line in lines
                     if "by group operation" in line)
        assert items == pytest.approx(total, abs=len(lines)) and "measured" in lines[-1]


@pytest.mark.parametrize("words, complaint", [
    (("--messages", "0", "--scheme", "ps18"), "1 to 1000 messages, not 0"),
    (("--scheme", "rsa"), "invalid choice"),
    (("--target", "Z80"), "nothing was measured on Z80"),
    (("--measure", "--only", "no such library"), "no library has"),
    (("--draw", "--target", "m4"), "goes without --target"),
    (("--draw", "--scheme", "ps18"), "--scheme goes without"),
    (("--draw", "--write"), "--draw goes without"),
    (("--measure", "--scheme", "ps18"), "--scheme goes without"),
    (("--messages", "10"), "goes with --scheme ps18"),
    (("--messages", "10", "--scheme", "bls"), "goes with --scheme ps18"),
    (("--costs", "mine.tsv"), "--costs goes with --scheme"),
    (("--only", "blst"), "--only goes with --measure"),
])
def test_options_that_cannot_be_obeyed_are_refused(words: tuple[str, ...], complaint: str) -> None:
    said = lab(*words)
    assert said.returncode == 2 and complaint in said.stderr, said
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("name", ["m4", "M4", "cortex-m4", "Cortex-M4"])
def test_a_target_may_be_in_small_letters(name: str) -> None:
    assert predict.known_target(name) == "Cortex-M4"


@pytest.mark.parametrize("text, complaint", [
    (None, "No such file"), ("one\ttwo\n", "is no line of costs"),
    ("one\n", "is no line of costs"), ("one\ttwo\t3\t4\n", "is no line of costs"),
    ("BLS12-381, blst\tG1 add\tmany\n", "is no line of costs"),
    ("BLS12-381, blst\tG1 add\t-1\n", "a cost must be more than 0"),
    ("BLS12-381, blst\tG1 add\tnan\n", "a cost must be more than 0"),
    ("BLS12-381, blst\tG1 add\t5\n", "there is no cost of: G1 add or double, G1 beta"),
    ("", "no operation of ps18 was measured"),
])
def test_costs_that_say_too_little_are_refused(tmp_path: Path, text: str | None,
                                               complaint: str) -> None:
    file = tmp_path / "costs.tsv"
    if text is not None:
        file.write_text(f"library\twhat\tm\n{text}")
    said = lab("--scheme", "ps18", "--costs", file)
    assert said.returncode == 1 and complaint in said.stderr, said
    assert "Traceback" not in said.stderr


def test_the_kept_file_and_the_picture_are_what_the_program_writes() -> None:
    assert predict.FILE.read_text() == predict.written(KEPT)
    assert predict.PICTURE.read_text() == predict.picture(KNOWN)
