"""Real groups for the schemes of papers/: P-256 and secp160r1 by micro-ecc, BLS12-381 by blst.

They prove that the schemes are right, which the counting group cannot: its logarithms are known.
For keys they are not: Python's numbers and these libraries' products take a time that tells of the
secret. SPDX-License-Identifier: MIT"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from pathlib import Path
from typing import Any

from lab import sources
from lab.groups.operations import ORDERS
from lab.messages import machines, schemes
from tests.support.programs import BUILD, run

SOURCE = Path(__file__).with_name("c") / "group.c"
FOLDER = BUILD / "lab" / "real"
MICRO_ECC = {"secp160r1": "secp160r1", "P-256": "secp256r1"}  # their names there


class NotAnElement(ValueError):
    """These bytes, or this point, do not belong to the group."""


@machines.once
def library(name: str, sources_of: Path, *words: object) -> ctypes.CDLL:
    """Compiled once for these sources and words."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-O2", "-w", "-fPIC", "-shared", *map(str, words)]
    state = [*command, *(f"{file} {file.stat().st_mtime_ns}"
                         for file in (*sorted(sources_of.rglob("*")), SOURCE))]
    made = FOLDER / f"{name}-{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}.so"
    if not made.exists():
        new = made.with_suffix(f".{os.getpid()}")  # another process may do the same
        run([*command, "-o", new])
        new.replace(made)
    return ctypes.CDLL(str(made))


# -- a curve by micro-ecc --------------------------------------------------------------------------
class Point:
    """Of a curve: x and y as bytes. The neutral element has none."""

    def __init__(self, curve: Curve, data: bytes = b"") -> None:
        self.curve, self.data = curve, data

    def __eq__(self, other: object) -> bool:
        return self.data == self.curve.owned(other).data

    def __mul__(self, other: Point) -> Point:
        return self.curve.add(self, self.curve.owned(other))

    def __pow__(self, exponent: int) -> Point:
        return self.curve.multiply(self, exponent % self.curve.order)

    def inv(self) -> Point:
        if not self.data:
            return self
        size = self.curve.field
        y = self.curve.p - int.from_bytes(self.data[size:], "big")
        return Point(self.curve, self.data[:size] + y.to_bytes(size, "big"))

    def compute(self) -> Point:
        return self

    def serialize(self) -> bytes:
        """SEC 1, without compression."""
        return b"\x04" + self.data if self.data else b"\0"


class Curve:
    """A group of papers/groups.py."""

    P = {"secp160r1": (1 << 160) - (1 << 31) - 1,
         "P-256": (1 << 256) - (1 << 224) + (1 << 192) + (1 << 96) - 1}

    def __init__(self, name: str) -> None:
        self.name, self.order, self.p = name, ORDERS[name], self.P[name]
        self.field = (self.p.bit_length() + 7) // 8  # bytes
        self.scalar = (self.order.bit_length() + 7) // 8
        known = MICRO_ECC[name]
        folder = sources.fetched(schemes.UECC.source) / "micro-ecc"
        self.code = library(
            f"micro-ecc-{known}", folder, SOURCE, "-I", machines.C, "-I", folder,
            f"-DLAB_{known.upper()}", "-DuECC_ENABLE_VLI_API=1", *schemes.IN_C["amd64"],
            *(f"-DuECC_SUPPORTS_{each}={int(each == known)}" for each in schemes.UECC_CURVES))
        self.generator = Point(self, self.called("generator"))

    def __repr__(self) -> str:
        return self.name

    def called(self, name: str, *words: bytes) -> bytes:
        out = ctypes.create_string_buffer(2 * self.field)
        getattr(self.code, f"group_{name}")(out, *words)
        return out.raw

    def owned(self, point: object) -> Point:
        if not isinstance(point, Point) or point.curve is not self:
            raise NotAnElement(f"{point!r} is no point of {self.name}")
        return point

    def neutral(self) -> Point:
        return Point(self)

    def add(self, one: Point, two: Point) -> Point:
        if not one.data or not two.data:
            return Point(self, one.data or two.data)
        if one == two:
            return Point(self, self.called("double", one.data))
        if one == two.inv():
            return self.neutral()
        return Point(self, self.called("add", one.data, two.data))

    def multiply(self, point: Point, exponent: int) -> Point:
        """Its ladder is wrong for the exponents 1, -1 and -2."""
        if 2 * exponent > self.order:
            return self.multiply(point.inv(), self.order - exponent)
        if not point.data or exponent == 0:
            return self.neutral()
        if exponent == 1:
            return point
        return Point(self, self.called("multiply", point.data,
                                       exponent.to_bytes(self.scalar, "big")))

    def abscissa(self, point: Point) -> int:
        return int.from_bytes(point.data[:self.field], "big") % self.order

    def parse(self, data: bytes) -> Point:
        """SEC 1, with compression or without. All points are of the order: the cofactor is 1."""
        if data == b"\0":
            return self.neutral()
        if len(data) == 1 + 2 * self.field and data[0] == 4:
            if self.code.group_is_point(data[1:]):
                return Point(self, data[1:])
        elif len(data) == 1 + self.field and data[0] in (2, 3):
            out = ctypes.create_string_buffer(2 * self.field)
            if self.code.group_decompress(out, data):
                return Point(self, out.raw)
        raise NotAnElement(f"{data.hex() or 'nothing'} is no point of {self.name}")

    def hash(self, data: bytes) -> Point:
        """Tries numbers until one is the x of a point: not for what must stay secret."""
        for attempt in range(256):
            x = hashlib.shake_256(bytes([attempt]) + data).digest(self.field)
            try:
                return self.parse(b"\x02" + x)
            except NotAnElement:
                continue
        raise NotAnElement("no hash is a point")  # once in 2^256


# -- BLS12-381 by blst -----------------------------------------------------------------------------
DST = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"  # of the draft of the IRTF, signatures in G1
FP = 48  # bytes of a number of the base field
SIZES = {"p1": 3 * FP, "p1_affine": 2 * FP, "p2": 6 * FP, "p2_affine": 4 * FP, "fp12": 12 * FP}


@functools.cache
def blst() -> ctypes.CDLL:
    folder = sources.fetched("blst") / "blst"
    code = library("blst", folder, folder / "src" / "server.c", folder / "build" / "assembly.S")
    for kind in ("p1", "p2", "p1_affine", "p2_affine"):
        size: int = getattr(code, f"blst_{kind}_sizeof")()
        if size != SIZES[kind]:
            raise SystemExit(f"lab: a {kind} of blst has {size} bytes, not {SIZES[kind]}")
    for name in ("blst_p1_generator", "blst_p2_generator", "blst_fp12_one"):
        getattr(code, name).restype = ctypes.c_void_p
    return code


def called(name: str, size: int, *words: object) -> bytes:
    """What a function of blst writes into its first argument."""
    out = ctypes.create_string_buffer(size)
    getattr(blst(), f"blst_{name}")(out, *words)
    return out.raw


class BlstElement:
    """What the elements of the three groups share. `data` is blst's own form."""

    def __init__(self, group: BlstGroup, data: bytes) -> None:
        self.group, self.data = group, data

    def __eq__(self, other: object) -> bool:
        kind = self.group.kind
        return bool(getattr(blst(), f"blst_{kind}_is_equal")(
            self.data, self.group.owned(other).data) & 1)

    def __mul__(self, other: BlstElement) -> BlstElement:
        group = self.group
        return BlstElement(group, called(group.MULTIPLY, SIZES[group.kind], self.data,
                                         group.owned(other).data))

    def __pow__(self, exponent: int) -> BlstElement:
        return self.group.power(self, exponent % self.group.order)

    def inv(self) -> BlstElement:
        return self.group.inverse(self)

    def compute(self) -> BlstElement:
        return self

    def serialize(self) -> bytes:
        return self.group.bytes_of(self)


class BlstGroup:
    kind = MULTIPLY = ""
    order = ORDERS["BLS12-381"]
    generator: BlstElement

    def owned(self, element: object) -> BlstElement:
        if not isinstance(element, BlstElement) or element.group is not self:
            raise NotAnElement(f"{element!r} is no element of {self.kind}")
        return element

    def power(self, base: BlstElement, exponent: int) -> BlstElement:
        raise NotImplementedError

    def inverse(self, element: BlstElement) -> BlstElement:
        raise NotImplementedError

    def bytes_of(self, element: BlstElement) -> bytes:
        raise NotImplementedError


class SourceGroup(BlstGroup):
    """G1 or G2."""

    def __init__(self, number: int) -> None:
        self.kind, self.number = f"p{number}", number
        self.MULTIPLY = f"{self.kind}_add_or_double"
        at = getattr(blst(), f"blst_{self.kind}_generator")()
        self.generator = BlstElement(self, ctypes.string_at(at, SIZES[self.kind]))

    def __repr__(self) -> str:
        return f"G{self.number} of BLS12-381"

    def neutral(self) -> BlstElement:
        return BlstElement(self, bytes(SIZES[self.kind]))

    def power(self, base: BlstElement, exponent: int) -> BlstElement:
        scalar = exponent.to_bytes(32, "little")
        return BlstElement(self, called(f"{self.kind}_mult", SIZES[self.kind], base.data, scalar,
                                        ctypes.c_size_t(255)))

    def inverse(self, element: BlstElement) -> BlstElement:
        data = ctypes.create_string_buffer(element.data, SIZES[self.kind])
        getattr(blst(), f"blst_{self.kind}_cneg")(data, 1)
        return BlstElement(self, data.raw)

    def bytes_of(self, element: BlstElement) -> bytes:
        return called(f"{self.kind}_compress", self.number * FP, element.data)

    def affine(self, element: BlstElement) -> bytes:
        return called(f"{self.kind}_to_affine", SIZES[f"{self.kind}_affine"], element.data)

    def parse(self, data: bytes) -> BlstElement:
        """The curve has points that are not of this group. They are refused, too."""
        affine = ctypes.create_string_buffer(SIZES[f"{self.kind}_affine"])
        if (len(data) == self.number * FP
                and getattr(blst(), f"blst_{self.kind}_uncompress")(affine, data) == 0
                and getattr(blst(), f"blst_{self.kind}_affine_in_g{self.number}")(affine) & 1):
            return BlstElement(self, called(f"{self.kind}_from_affine", SIZES[self.kind], affine))
        raise NotAnElement(f"{data.hex() or 'nothing'} is no element of {self!r}")

    def hash(self, data: bytes, tag: bytes = DST) -> BlstElement:
        return BlstElement(self, called(
            f"hash_to_g{self.number}", SIZES[self.kind], data, ctypes.c_size_t(len(data)), tag,
            ctypes.c_size_t(len(tag)), None, ctypes.c_size_t(0)))

    def abscissa(self, element: BlstElement) -> int:
        return int.from_bytes(element.serialize(), "big") % self.order


class TargetGroup(BlstGroup):
    """GT."""

    kind, MULTIPLY = "fp12", "fp12_mul"

    def __repr__(self) -> str:
        return "GT of BLS12-381"

    def neutral(self) -> BlstElement:
        return BlstElement(self, ctypes.string_at(blst().blst_fp12_one(), SIZES["fp12"]))

    def power(self, base: BlstElement, exponent: int) -> BlstElement:
        result = self.neutral()
        for bit in bin(exponent)[2:]:
            result = result * result
            if bit == "1":
                result = result * base
        return result

    def inverse(self, element: BlstElement) -> BlstElement:
        return BlstElement(self, called("fp12_inverse", SIZES["fp12"], element.data))

    def bytes_of(self, element: BlstElement) -> bytes:
        return called("bendian_from_fp12", SIZES["fp12"], element.data)


class Bls12381:
    """A bilinear group of papers/groups.py."""

    order = ORDERS["BLS12-381"]

    def __init__(self) -> None:
        self.g1, self.g2, self.gt = SourceGroup(1), SourceGroup(2), TargetGroup()

    def pair(self, first: BlstElement, second: BlstElement) -> BlstElement:
        p, q = self.g1.owned(first), self.g2.owned(second)
        loop = called("miller_loop", SIZES["fp12"], self.g2.affine(q), self.g1.affine(p))
        return BlstElement(self.gt, called("final_exp", SIZES["fp12"], loop))


@functools.cache
def world(name: str) -> Any:
    """The real group or bilinear group of this name in ORDERS."""
    return Curve(name) if name in MICRO_ECC else Bls12381()
