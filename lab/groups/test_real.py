"""Do the schemes of papers/ work on real groups, and are those groups right? Do benchmarks mislead,
and times time? SPDX-License-Identifier: MIT"""

import ctypes
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.groups import mislead, operations, real, timing
from lab.groups.opcount import Bilinear, Group
from lab.groups.operations import Meter
from lab.groups.papers import bls, ecdh, ecdsa, ps18, schnorr
from lab.groups.papers.groups import hashed, leftmost
from lab.groups.real import NotAnElement
from tests.support.programs import ROOT

A = -3  # of both curves
CURVES = sorted(real.MICRO_ECC)
Affine = tuple[int, int] | None


@contextmanager
def unmeasured(step: str) -> Iterator[None]:
    assert step
    yield


@pytest.mark.parametrize("scheme, world", [
    (scheme, world) for scheme in operations.SCHEMES
    for world in (["BLS12-381"] if scheme.pairing else CURVES)],
    ids=lambda value: str(getattr(value, "name", value)))
def test_a_scheme_accepts_and_refuses(scheme: operations.Scheme, world: str) -> None:
    """The same source as on the counting group. Its own checks end the program if not."""
    for seed in range(2):
        scheme.run(real.world(world), unmeasured, random.Random(seed), *scheme.more)


@pytest.mark.parametrize("name", ["G1", "G2"])
def test_the_schemes_of_curves_work_in_groups_of_pairings_too(name: str) -> None:
    group = getattr(real.world("BLS12-381"), name.lower())
    for run in (operations.run_ecdsa, operations.run_schnorr, operations.run_ecdh):
        run(group, unmeasured, random.Random(1))


# -- curves ----------------------------------------------------------------------------------------
def plain_add(p: int, a: Affine, b: Affine) -> Affine:
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % p == 0:
        return None
    slope = ((3 * a[0] ** 2 + A) * pow(2 * a[1], -1, p) if a == b
             else (b[1] - a[1]) * pow(b[0] - a[0], -1, p))
    x = (slope * slope - a[0] - b[0]) % p
    return x, (slope * (a[0] - x) - a[1]) % p


def plain(point: real.Point) -> Affine:
    size = point.curve.field
    return (int.from_bytes(point.data[:size], "big"),
            int.from_bytes(point.data[size:], "big")) if point.data else None


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_adds_and_multiplies_as_plain_numbers_do(name: str) -> None:
    curve = real.world(name)
    rng = random.Random(1)
    least = [*range(9), *(curve.order - each for each in range(9)), curve.order // 2,
             curve.order // 2 + 1]
    for exponent in (*least, *(rng.randrange(curve.order) for _ in range(6))):
        sum_, power = None, plain(curve.generator)
        for bit in bin(exponent % curve.order)[:1:-1]:
            if bit == "1":
                sum_ = plain_add(curve.p, sum_, power)
            power = plain_add(curve.p, power, power)
        assert plain(curve.generator ** exponent) == sum_, exponent
    g = curve.generator
    assert g * g.inv() == g ** curve.order == curve.neutral() and g * curve.neutral() == g
    assert g * g == g ** 2 and (g * g * g) * (g * g * g) == g ** 6
    assert g ** -5 == (g ** 5).inv() and curve.neutral().inv() == curve.neutral()


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_parses_what_it_serialises_and_refuses_the_rest(name: str) -> None:
    curve = real.world(name)
    point = curve.generator ** 12345
    data = point.serialize()
    x, y = data[1:1 + curve.field], data[1 + curve.field:]
    assert curve.parse(data) == curve.parse(bytes([2 + y[-1] % 2]) + x) == point
    assert curve.parse(bytes([3 - y[-1] % 2]) + x) == point.inv()
    assert curve.parse(curve.neutral().serialize()) == curve.neutral()
    no_x = next(each for each in range(99)
                if pow(each ** 3 + A * each + curve_b(curve), (curve.p - 1) // 2, curve.p) != 1)
    for wrong in (b"", b"\1", data[:-1], data + b"\0", data[:-1] + bytes([data[-1] ^ 1]),
                  b"\5" + data[1:], b"\2" + curve.p.to_bytes(curve.field, "big"),
                  b"\4" + curve.p.to_bytes(curve.field, "big") + y,
                  b"\2" + no_x.to_bytes(curve.field, "big")):
        with pytest.raises(NotAnElement, match=f"is no point of {name}"):
            curve.parse(wrong)
    assert curve.hash(b"a") == curve.hash(b"a") != curve.hash(b"b")


def curve_b(curve: real.Curve) -> int:
    x, y = plain(curve.generator) or (0, 0)
    return (y * y - x ** 3 - A * x) % curve.p


def test_elements_of_other_groups_are_refused() -> None:
    one, two = (real.world(name).generator for name in CURVES)
    pairs = real.world("BLS12-381")
    mixed: list[Callable[[], object]] = [
        lambda: one * two, lambda: one == two, lambda: one == 1,
        lambda: pairs.pair(pairs.g2.generator, pairs.g1.generator),
        lambda: pairs.g1.generator * pairs.g2.generator,
        lambda: pairs.g1.generator == pairs.gt.neutral()]
    for mix in mixed:
        with pytest.raises(NotAnElement):
            mix()


def test_ecdsa_accepts_a_published_signature() -> None:
    """RFC 6979, A.2.5, P-256 with SHA-256, message "sample"."""
    curve = real.world("P-256")
    key = curve.generator ** 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
    signature = (0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
                 0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8)
    assert ecdsa.verify(curve, key, b"sample", signature)
    assert not ecdsa.verify(curve, key, b"Sample", signature)
    r, s = signature
    for wrong in ((0, s), (r, 0), (r, s + curve.order), (r + curve.order, s), (s, r), (r, -s),
                  (r - curve.order, s)):
        assert not ecdsa.verify(curve, key, b"sample", wrong), wrong
    assert not ecdsa.verify(curve, key.inv(), b"sample", signature)


def test_a_number_of_a_schnorr_signature_that_is_out_of_range_is_refused() -> None:
    curve, rng = real.world("P-256"), random.Random(3)
    secret, public = schnorr.key(curve, rng)
    c, s = schnorr.sign(curve, secret, public.serialize(), b"m", rng)
    assert schnorr.verify(curve, public, b"m", (c, s))
    for wrong in ((c, s + curve.order), (c, s - curve.order), (c + curve.order, s)):
        assert not schnorr.verify(curve, public, b"m", wrong)


@pytest.mark.parametrize("name", [*CURVES, "counting"])
def test_a_key_that_gives_no_secret_is_refused(name: str) -> None:
    group = Group(operations.ORDERS["P-256"]) if name == "counting" else real.world(name)
    secret, theirs = ecdh.key(group, random.Random(1))
    assert len(ecdh.agree(group, secret, theirs)) > 1
    with pytest.raises(ValueError, match="gives no secret"):
        ecdh.agree(group, secret, group.neutral().serialize())


def test_hashing_to_numbers() -> None:
    """The leftmost bits, as many as the order has; the parts do not run into one another."""
    assert leftmost(0x1FF, b"\xAB\xCD\xEF") == 0xABCDEF >> 15
    assert leftmost(1 << 40, b"\xAB\xCD") == 0xABCD
    assert hashed(1 << 200, b"a", b"bc") != hashed(1 << 200, b"ab", b"c")


# -- pairings --------------------------------------------------------------------------------------
def test_hashing_to_g1_is_that_of_the_rfc() -> None:
    """RFC 9380, J.9.1, the empty message."""
    hashed = real.world("BLS12-381").g1.hash(
        b"", b"QUUX-V01-CS02-with-BLS12381G1_XMD:SHA-256_SSWU_RO_")
    assert real.called("p1_serialize", 96, hashed.data).hex() == (
        "052926add2207b76ca4fa57a8734416c8dc95e24501772c814278700eed6d1e4"
        "e8cf62d9c09db0fac349612b759e79a108ba738453bfed09cb546dbb0783dbb3"
        "a5f1f566ed67bb6be0e8c67e2e81a4cc68ee29813bb7994998f3eae0c9c6a265")


def test_a_pairing_is_bilinear() -> None:
    pairs = real.world("BLS12-381")
    g, h = pairs.g1.generator, pairs.g2.generator
    once = pairs.pair(g, h)
    assert pairs.pair(g ** 6, h ** -7) == once ** -42 == (once ** 42).inv() != once
    assert once ** pairs.order == pairs.gt.neutral() == once * once.inv()
    assert pairs.pair(pairs.g1.neutral(), h) == pairs.gt.neutral()
    assert len(once.serialize()) == 576


def test_bls_signatures_are_those_of_the_library() -> None:
    pairs = real.world("BLS12-381")
    secret, public = bls.key(pairs, random.Random(1))
    signature = bls.sign(pairs, secret, b"message")
    theirs = real.called("sign_pk_in_g2", 144, pairs.g1.hash(b"message").data,
                         secret.to_bytes(32, "little"))
    assert signature == real.BlstElement(pairs.g1, theirs)
    for message in (b"message", b"massage"):
        refused = real.blst().blst_core_verify_pk_in_g2(
            pairs.g2.affine(public), pairs.g1.affine(signature), True, message,
            ctypes.c_size_t(7), real.DST, ctypes.c_size_t(len(real.DST)), None,
            ctypes.c_size_t(0))
        assert (refused == 0) == (message == b"message")
        assert bls.verify(pairs, public, message, signature) == (message == b"message")


@pytest.mark.parametrize("pairs", [real.world("BLS12-381"),
                                   Bilinear(operations.ORDERS["BLS12-381"])],
                         ids=lambda pairs: type(pairs).__name__)
def test_forgeries_that_only_a_check_refuses(pairs: Any) -> None:
    rng = random.Random(1)
    secret, public = ps18.key(pairs, 2, rng)
    one = pairs.g1.neutral()
    assert not ps18.verify(pairs, public, [3, 4], ps18.Signature(5, one, one))
    signature = ps18.sign(pairs, secret, [3, 4], pairs.g1.hash(b"h"), rng)
    assert ps18.verify(pairs, public, [3, 4], signature)
    for messages in ([3], [3, 4, 0], []):
        assert not ps18.verify(pairs, public, messages, signature)
        with pytest.raises(ValueError, match="signs 2 messages at once"):
            ps18.sign(pairs, secret, messages, pairs.g1.hash(b"h"), rng)
    keys = [bls.key(pairs, rng) for _ in range(2)]
    both = bls.aggregate([bls.sign(pairs, x, b"same") for x, _ in keys])
    assert not bls.verify_all(pairs, [v for _, v in keys], [b"same", b"same"], both)
    assert not bls.verify_all(pairs, [], [], one)
    assert not bls.verify_all(pairs, [keys[0][1]], [b"same", b"more"], both)


@pytest.mark.parametrize("name", ["g1", "g2"])
def test_a_group_parses_what_it_serialises_and_refuses_the_rest(name: str) -> None:
    group = getattr(real.world("BLS12-381"), name)
    data = (group.generator ** 77).serialize()
    assert group.parse(data) == group.generator ** 77
    assert group.parse(group.neutral().serialize()) == group.neutral()
    outside = 0
    for number in range(1, 30):
        x = bytearray(number.to_bytes(len(data), "big"))
        x[0] |= 0x80  # compressed
        with pytest.raises(NotAnElement):  # of the curve or not, none of these is of the group
            group.parse(bytes(x))
        affine = ctypes.create_string_buffer(len(data) * 2)
        outside += getattr(real.blst(), f"blst_{group.kind}_uncompress")(affine, bytes(x)) == 0
    assert outside > 5
    for wrong in (b"", data[:-1], data + b"\0", bytes(len(data)), b"\xff" * len(data)):
        with pytest.raises(NotAnElement, match="is no element of G"):
            group.parse(wrong)


# ---------------------------------------------------------------- benchmarks that mislead

PAIRS = {pair.what: pair for pair in mislead.pairs()}
TIMES = {  # what misleads, by what is right: from, to
    "lazy work that leaks from signing": (1.8, 2.2),
    "an object that remembers, PS18": (0.9, 0.98),
    "precomputation": (0.75, 0.9),
    "an object that remembers, RSA-2048": (0.7, 0.9),
    "restoring in the timed part, P-256": (1.1, 4),  # OpenSSL 3.5 reads a key faster than 3.0
    "the first call of a library, SHA-256": (5, 5000),
    "the same message again, ECDSA": (0, 0),
    "a result that nobody reads, Adler-32": (0, 0),
}


def test_there_is_a_pair_for_each() -> None:
    assert set(PAIRS) == set(TIMES)


@pytest.mark.parametrize("what", TIMES)
def test_it_misleads(what: str) -> None:
    pair, (least, most) = PAIRS[what], TIMES[what]
    assert pair.figure > 100 and least <= pair.misleads / pair.figure <= most, pair


@pytest.mark.slow
def test_parsing_explains_what_parsing_adds() -> None:
    cost = mislead.measured()
    both = cost["parsing"] + cost["verification"]
    assert both == pytest.approx(cost["parsing and verification"], rel=0.02)


def test_what_leaks_is_a_signature() -> None:
    """One power of G1: about 50 operations and 255 squarings."""
    pair = PAIRS["lazy work that leaks from signing"]
    assert 300 < pair.misleads - pair.figure < 350


def test_the_page_tells_each_pair() -> None:
    page = (ROOT / "lab/groups/README.md").read_text().partition("\n## Benchmarks that mis")[2]
    told = re.findall(r"^\*\*(.*?)\.\*\* ", page, re.M)
    assert all(any(pair.casefold().startswith(each.casefold()[:18]) for pair in PAIRS)
               for each in told)
    assert len(told) == len(PAIRS) - 1  # two of objects that remember


# ---------------------------------------------------------------- times, which gate nothing

def timed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lab.groups.timing", *words], cwd=ROOT, text=True,
                          capture_output=True, check=False)


@pytest.mark.parametrize("degrees, quantile", [
    (1, 636.619), (2, 31.599), (10, 4.587), (30, 3.646), (59, 3.463), (120, 3.373)])
def test_student(degrees: int, quantile: float) -> None:
    """Of published tables, for 99.9 % on both sides."""
    assert timing.student(0.999, degrees) == pytest.approx(quantile, rel=2e-4)


def test_the_error_is_that_of_the_mean() -> None:
    """By hand: a standard deviation of 1 with 4 calls, and t = 12.924 for 3 degrees."""
    scores = [10 - 1.2247449, 10.0, 10.0, 10 + 1.2247449]
    assert timing.error(scores) == pytest.approx(12.924 / 2, rel=1e-4)


def test_its_columns_and_its_json(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    said = timed("ps18-verify", "--messages", "1,2", "--processes", "2", "--warm-up", "1",
                 "--calls", "2", "--json", str(file))
    assert said.returncode == 0, said
    head, *rows = (line.split() for line in said.stdout.splitlines())
    assert head == ["benchmark", "messages", "mode", "count", "score", "error", "unit"]
    one, published, two = rows
    assert [row[:4] for row in (one, two)] == [["ps18-verify", number, "time", "4"]
                                               for number in "12"]
    assert published[:6] == ["published", "1", "time", "50", "5.263", "±0.641"]
    for row, kept in zip((one, two), json.loads(file.read_text()), strict=True):
        metric = kept["primaryMetric"]
        assert float(row[4]) == pytest.approx(metric["score"], abs=6e-4) and float(row[4]) > 0
        assert float(row[5][1:].replace(",", "")) == pytest.approx(metric["scoreError"], abs=6e-4)
        assert (row[6], metric["scoreUnit"], kept["mode"]) == ("ms/call", "ms/op", "avgt")
        assert [len(fork) for fork in metric["rawData"]] == [2, 2] and kept["forks"] == 2
        assert kept["params"] == {"numMessages": row[1]}


def test_only_its_step_is_timed_on_new_objects_and_after_a_warm_up(
        monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def run(world: object, meter: Meter, rng: random.Random) -> None:
        with meter("sign"):
            time.sleep(0.2)
        with meter("verify"):
            time.sleep(0.002)
        seen.append(rng.randrange(1 << 60))

    monkeypatch.setitem(timing.BENCHMARKS, "slow", timing.Benchmark("P-256", "verify", run))
    took = timing.in_this_process("slow", 1, 2, 3, 0)
    assert len(took) == 3 and 2e6 <= min(took) < 200e6
    timing.in_this_process("slow", 1, 2, 3, 1)
    assert len(set(seen)) == 2 * (2 + 3)  # other numbers in each call of each process


@pytest.mark.parametrize("name", timing.BENCHMARKS)
def test_every_benchmark_runs(name: str) -> None:
    assert len(timing.in_this_process(name, 2, 1, 1, 0)) == 1


@pytest.mark.parametrize("words, complaint", [
    (["rsa-sign"], "there is no benchmark 'rsa-sign'; there are ecdsa-sign"),
    (["ps18-sign", "--messages", "1,x"], "'x' is no number from 1"),
    (["ps18-sign", "--messages", ""], "is no number from 1"),
    (["ps18-sign", "--messages", "1,1001"], "1001 messages are more than 1000"),
    (["ecdsa-sign", "--messages", "10", "--calls", "1"], "ecdsa-sign takes no --messages"),
    (["ps18-sign", "--calls", "0"], "'0' is no number from 1"),
    (["ps18-sign", "--calls", "1", "--processes", "1"], "at least two calls"),
    (["ps18-sign", "--mode", "fast"], "invalid choice"),
])
def test_options_that_cannot_be_obeyed_are_refused(words: list[str], complaint: str) -> None:
    said = timed(*words)
    assert said.returncode == 2 and complaint in said.stderr and "Traceback" not in said.stderr
