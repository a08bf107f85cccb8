"""Each scheme's checks of itself notice when its work is not done, or is done wrongly.

A copy of lab/messages/c gets one fault. Its steps then run on this machine, as they are, without a
simulator: one of them must say that it was not right. SPDX-License-Identifier: MIT"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.messages import counts, machines, schemes
from lab.messages.schemes import Step

MACHINE = "amd64"
VECTORS = Step("vectors")
PATIENCE = 60.0  # seconds for a program that takes milliseconds

REAL = {scheme.key: scheme for scheme in schemes.SCHEMES}
SIGN, AGREE = "Ed25519, Monocypher", "ML-KEM-512, mlkem-native"
SIPHASH, SHA256, OWN = "SipHash-2-4, ours", "SHA-256, BearSSL", "Dumpulse, ours"
FAULTS = (
    # A tag: the file, what is there, what comes instead, the scheme.
    ("tag.h", "return differ == 0;", "return true;", SIPHASH),
    ("tag.h", "return differ == 0;", "return false;", SIPHASH),
    ("tag.h", "differ |= (uint8_t)(right[i] ^ tag[i]);",
     "differ = (uint8_t)(right[i] ^ tag[i]);", SIPHASH),  # only the last byte
    ("tag.h", "i < LAB_TAG; i++)\n        differ", "i < 1; i++)\n        differ", SIPHASH),
    ("tag.h", "void make_run(void)\n{", "void make_run(void)\n{ return;", SIPHASH),
    ("tag.h", "void key_run(void)\n{", "void key_run(void)\n{ return;", SIPHASH),
    ("tag.h", "void accept_run(void)\n{", "void accept_run(void)\n{ return;", SIPHASH),
    ("tag.h", "void refuse_run(void)\n{", "void refuse_run(void)\n{ return;", SIPHASH),
    # Our own checks and MACs: lengths, blocks, keys.
    ("siphash.c", "length >= BYTES;", "length > BYTES;", SIPHASH),
    ("siphash.c", "(word)(uint8_t)length << (BITS - 8)", "(word)15 << (BITS - 8)", SIPHASH),
    ("siphash.c", "key_high = read_word(key + BYTES);", "key_high = read_word(key);", SIPHASH),
    ("chaskey.c", "length > BLOCK;", "length >= BLOCK;", "Chaskey-12, ours"),
    ("chaskey.c", "length == BLOCK ? 1 : 2", "2", "Chaskey-12, ours"),
    ("chaskey.c", "in[3] >> 31 ? 0x87U : 0U", "0U", "Chaskey-12, ours"),
    ("ascon.c", "(uint8_t)(8 * length)", "32", "Ascon-PrfShort, ours"),
    ("ascon.c", "if (length > 0) {", "if (true) {", "Ascon-AEAD128, ours"),
    ("ascon.c", "length >= RATE;", "length > RATE;", "Ascon-AEAD128, ours"),
    ("adler.c", "(uint_fast8_t)(length - 1)", "8", "Adler-32, ours"),
    ("crc.c", "while (length-- > 0)\n        crc", "length = 9; while (length-- > 0)\n        crc",
     "CRC-32, bitwise, ours"),
    ("crc.c", "while (length-- > 0) {", "length = 9; while (length-- > 0) {", "CRC-16, ours"),
    ("crc.c", "0xBDBDF21C", "0xBDBDF21D", "CRC-32, 64 B table, ours"),
    ("crc.c", "BIT(n, 128, 0xEDB88320U", "BIT(n, 128, 0xEDB88321U", "CRC-32, 1 kB table, ours"),
    ("cmac.c", "length == BLOCK ? 0 : 1", "1", "AES-128-CMAC, BearSSL"),
    ("cmac.c", "length > BLOCK;", "length >= BLOCK;", "AES-128-CMAC, BearSSL"),
    ("aes.h", "constant & 0x80 ? 0x1B : 0", "0", "AES-128-CMAC, ours, tables"),
    ("blake2s.c", "length > BLOCK;", "length >= BLOCK;", "BLAKE2s, ours"),
    ("blake2s.c", "last ? UINT32_MAX : 0", "0", "BLAKE2s, ours"),
    ("protocol.c", "++counter;\n    protect", "counter;\n    protect", "SecOC, ours, tables"),
    ("protocol.c", "count += 0x100;", "return false;", "SecOC, ours, tables"),
    ("hmac.c", "key, 16)", "key, 15)", "HMAC-SHA-256, BearSSL"),
    # A hash.
    ("sha256.c", "void hash_run(void)\n{", "void hash_run(void)\n{ return;", SHA256),
    ("sha256.c", "update(&context, message, length)",
     "update(&context, message, length == 56 ? 55 : length)", SHA256),
    ("sha256.c", "update(&context, message, length)",
     "update(&context, message, length == 0 ? 1 : length)", SHA256),
    # A signature.
    ("sign.h", "void key_run(void)\n{", "void key_run(void)\n{ return;", SIGN),
    ("sign.h", "void sign_run(void)\n{", "void sign_run(void)\n{ return;", SIGN),
    ("sign.h", "void verify_run(void)\n{", "void verify_run(void)\n{ return;", SIGN),
    ("sign.h", "void refuse_run(void)\n{", "void refuse_run(void)\n{ return;", SIGN),
    # A key agreement.
    ("agree.h", "void key_run(void)\n{", "void key_run(void)\n{ return;", AGREE),
    ("agree.h", "void encapsulate_run(void)\n{", "void encapsulate_run(void)\n{ return;", AGREE),
    ("agree.h", "void decapsulate_run(void)\n{", "void decapsulate_run(void)\n{ return;", AGREE),
    ("agree.h", "void refuse_run(void)\n{", "void refuse_run(void)\n{ return;", AGREE),
    ("own.c", "!= DUMPULSE_HEARTBEAT)", "!= DUMPULSE_HEARTBEAT && false)", OWN),
    ("own.c", "!dumpulse_check_report(wire, length)", "false", OWN),
)
# Of each kind of scheme: no step may be right if the program leaves it out.
LEFT_OUT = "lab_begin();\n        JOINED(LAB_STEP, _run)();", "lab_begin();"
KINDS = SIPHASH, SHA256, OWN, SIGN, AGREE
# Whose vectors must compare something: all of the quick counts that run here. Formats have none.
WITH_VECTORS = [scheme.key for scheme in schemes.SCHEMES if scheme.key in counts.QUICK
                and MACHINE in scheme.targets and scheme.family != "format"]
NEVER_SAME = "if (a[i] != b[i])\n            return false;\n    return true;", "return false;"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of lab/messages/c, which the lab now takes for its own."""
    copy = tmp_path / "c"
    shutil.copytree(machines.C, copy)
    monkeypatch.setattr(machines, "C", copy)
    counts.builder.cache_clear()
    yield copy
    counts.builder.cache_clear()


def put(file: Path, there: str, instead: str) -> None:
    text = file.read_text()
    assert text.count(there) == 1, there
    file.write_text(text.replace(there, instead))


def rights(name: str) -> Iterator[bool]:
    """Whether each step does its work, the vectors first."""
    scheme = replace(REAL[name], by="with a fault")
    builder = counts.Builder(scheme, machines.MACHINES[MACHINE], MACHINE)
    for step in (VECTORS, *scheme.steps):
        for length in step.lengths:
            done = subprocess.run([builder.image(step, length)], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
            yield not done.returncode and (
                done.stdout.count("right 1\n") == scheme.runs(step, MACHINE))


@pytest.mark.slow  # the first one to run fetches the code of its scheme
@pytest.mark.parametrize("name", KINDS)
def test_without_a_fault_all_is_right(name: str, code: Path) -> None:
    assert all(rights(name))


@pytest.mark.slow
@pytest.mark.parametrize("file, there, instead, name", FAULTS)
def test_a_fault_is_noticed(file: str, there: str, instead: str, name: str, code: Path) -> None:
    put(code / file, there, instead)
    assert not all(rights(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_each_step_that_is_left_out_is_noticed(name: str, code: Path) -> None:
    put(code / "image.c", *LEFT_OUT)
    assert not any(rights(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_VECTORS)
def test_vectors_compare_something(name: str, code: Path) -> None:
    put(code / "operation.h", *NEVER_SAME)
    assert not next(rights(name))


def test_the_vectors_of_a_tag_do_not_change_what_it_costs(code: Path) -> None:
    """gcc knows who calls a static function, and compiles it for size if it seems to run once."""
    def cost() -> int:
        machine, scheme = machines.MACHINES["Cortex-M4"], REAL[SIPHASH]
        image = counts.Builder(replace(scheme, by="with other vectors"), machine,
                               machine.name).image(Step("make"), schemes.HEARTBEAT)
        first, *_ = machine.runs(image)
        return first.cost

    before = cost()
    put(code / "siphash.c", "return AGREE(bytes, lab_vectors);",
        "uint8_t tag[LAB_TAG];\n    make_tag(tag, bytes, 15);\n    return tag[0] == 0xE5;")
    assert cost() == before


def test_nothing_is_counted_before_its_vectors_are_met(code: Path) -> None:
    put(code / "adler.c", "0xE6", "0xE7")
    with pytest.raises(SystemExit, match="vectors.* did not do its work"):
        counts.measure_scheme(REAL["Adler-32, ours"], "Cortex-M4")
