"""Do the schemes of lab/papers work on real groups, and are those groups right?
SPDX-License-Identifier: MIT"""

import ctypes
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.groups import operations, real
from lab.groups.opcount import Bilinear, Group
from lab.groups.papers import bls, ecdh, ecdsa, ps18, schnorr
from lab.groups.papers.groups import hashed, leftmost
from lab.groups.real import NotAnElement

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
