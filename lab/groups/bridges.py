"""How the libraries of the bridge work: which operations each whole is made of.

A count is of operations that bridge_*.c measures. It follows the library's own algorithm, step by
step; which branches it takes follows from the numbers, which are the same here and there.
SPDX-License-Identifier: MIT"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.groups.opcount import Group
from lab.groups.operations import ORDERS
from lab.groups.papers.groups import leftmost
from lab.messages import schemes
from lab.messages.schemes import Code, Scheme, Step

C = Path(__file__).with_name("c")
Count = Counter[str]

# Field operations of each group operation; bridge_ecc.c and bridge_blst.c say what they are.
FIELD_OPERATIONS: dict[str, Count] = {
    "ladder add": Counter({"field multiply": 4, "field square": 2, "field subtract": 7,
                           "field copy": 1}),
    "ladder add subtract": Counter({"field multiply": 5, "field square": 3, "field add": 2,
                                    "field subtract": 9, "field copy": 1}),
    "point double": Counter({"field multiply": 4, "field square": 4, "field add": 4,
                             "field subtract": 5, "field halve": 1, "field copy": 3}),
    "point scale": Counter({"field multiply": 3, "field square": 1}),
    "field power": Counter({"field multiply": 1, "field square": 1}),
    "G1 add": Counter({"Fp multiply": 11, "Fp square": 5, "Fp add": 3, "Fp subtract": 10,
                       "G1 select": 2}),
    "G1 add or double": Counter({"Fp multiply": 13, "Fp square": 5, "Fp add": 3, "Fp subtract": 5,
                                 "Fp triple": 1, "G1 select": 4}),
    "G1 double": Counter({"Fp multiply": 2, "Fp square": 5, "Fp add": 3, "Fp subtract": 6,
                          "Fp triple": 1, "Fp times 8": 1}),
    "G1 beta": Counter({"Fp multiply": 1, "Fp subtract": 1}),
    "G2 add": Counter({"Fp2 multiply": 11, "Fp2 square": 5, "Fp2 add": 3, "Fp2 subtract": 10,
                       "G2 select": 2}),
    "G2 add or double": Counter({"Fp2 multiply": 13, "Fp2 square": 5, "Fp2 add": 3,
                                 "Fp2 subtract": 5, "Fp2 triple": 1, "G2 select": 4}),
    "G2 double": Counter({"Fp2 multiply": 2, "Fp2 square": 5, "Fp2 add": 3, "Fp2 subtract": 6,
                          "Fp2 triple": 1, "Fp2 times 8": 1}),
    "G2 psi": Counter({"Fp2 multiply": 2, "Fp subtract": 3}),
}


def miller_loop() -> Count:
    """The loop's number has 64 bits, 6 of them ones: 63 doublings, 5 additions. The first doubling
    has nothing to square and to multiply. A line has two coordinates that are multiplied by P."""
    doublings, additions = 63, 5
    lines = doublings + additions
    return Counter({
        "Fp12 square": doublings - 1, "Fp12 by line": lines - 1, "Fp12 conjugate": 1,
        "Fp multiply": 4 * lines,
        "Fp2 multiply": 3 * doublings + 10 * additions,
        "Fp2 square": 8 * doublings + 4 * additions,
        "Fp2 add": 4 * doublings + 6 * additions,
        "Fp2 subtract": 13 * doublings + 11 * additions,
        "Fp2 triple": doublings, "Fp2 times 8": doublings, "Fp2 shift": doublings})


def final_power() -> Count:
    """An easy part; and in the hard part five powers of the same number as in the loop."""
    squarings, multiplications, powers = 63, 5, 5
    return Counter({
        "Fp12 invert": 1, "Fp12 frobenius": 4,
        "Fp12 conjugate": 5 + powers,
        "Fp12 cyclotomic": powers * squarings,  # the one that is halved has one less; and y0
        "Fp12 multiply": 10 + powers * multiplications})


FIELD_OPERATIONS |= {"Miller loop": miller_loop(), "final power": final_power()}
MULTIPLICATIONS = ("field multiply", "field square", "Fp multiply", "Fp square", "Fp2 multiply",
                   "Fp2 square", "Fp12 multiply", "Fp12 square", "Fp12 by line", "Fp12 cyclotomic")


def in_fields(count: Count) -> Count:
    found: Count = Counter()
    for name, number in count.items():
        for part, times in FIELD_OPERATIONS.get(name, Counter({name: 1})).items():
            found[part] += number * times
    return found


@dataclass(frozen=True)
class Whole:
    name: str
    counts: Callable[[int], Count]  # of a sample, in group operations


@dataclass(frozen=True)
class Bridge:
    """A library on a curve: what its image measures, and what is predicted of it."""

    name: str
    scheme: Scheme
    operations: tuple[str, ...]  # the first does nothing
    wholes: tuple[Whole, ...]
    targets: tuple[str, ...]
    on_amd64: str  # the same in C, or itself
    repeat: int = 16
    samples: Mapping[str, int] = field(default_factory=dict)  # of each whole, where not SAMPLES
    multiplication: str = "field multiply"
    textbook: Callable[[Whole, int], dict[str, Count]] = lambda whole, number: {}
    # What can be predicted: steps of a scheme, for a number of messages.
    schemes: Mapping[str, Callable[[int], tuple[Whole, ...]]] = field(default_factory=dict)

    def runs(self, target: str) -> int:
        return (len(self.operations) * self.repeat
                + len(self.wholes) * self.samples.get(target, SAMPLES))


SAMPLES = 4  # of each whole
LEVELS: dict[str, Callable[[Bridge, Count], Count]] = {
    "group": lambda bridge, count: count,
    "field": lambda bridge, count: in_fields(count),
    "multiplications": lambda bridge, count: Counter(
        {name: number for name, number in in_fields(count).items() if name in MULTIPLICATIONS}),
}


# -- the numbers of the samples, as operation.h makes them -----------------------------------------
def filled(length: int, number: int) -> bytes:
    """lab_fill()"""
    state, made = 0x9E3779B9 * (number + 1) & 0xFFFFFFFF, bytearray()
    for _ in range(length):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        made.append(state >> 24)
    return bytes(made)


# -- micro-ecc -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Curve:
    """y^2 = x^3 - 3 x + b, and a point whose order is n."""

    p: int
    n: int
    x: int
    y: int

    def add(self, one: tuple[int, int] | None, two: tuple[int, int]) -> tuple[int, int]:
        if one is None:
            return two
        if one == two:
            slope = 3 * (one[0] ** 2 - 1) * pow(2 * one[1], -1, self.p)
        else:
            slope = (two[1] - one[1]) * pow(two[0] - one[0], -1, self.p)
        x = (slope * slope - one[0] - two[0]) % self.p
        return x, (slope * (one[0] - x) - one[1]) % self.p

    def power(self, k: int) -> tuple[int, int]:
        """Of the generator; k is from 1 to n - 1."""
        result, twice = None, (self.x, self.y)
        for bit in bin(k)[:1:-1]:
            if bit == "1":
                result = self.add(result, twice)
            twice = self.add(twice, twice)
        assert result is not None
        return result


CURVES = {
    "secp160r1": Curve((1 << 160) - (1 << 31) - 1, ORDERS["secp160r1"],
                       0x4A96B5688EF573284664698968C38BB913CBFC82,
                       0x23A628553168947D59DCC912042351377AC5FB32),
    "P-256": Curve((1 << 256) - (1 << 224) + (1 << 192) + (1 << 96) - 1, ORDERS["P-256"],
                   0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
                   0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5),
}


@dataclass(frozen=True)
class Sample:
    secret: int
    nonce: int
    u: int  # verification works out G^u Q^v
    v: int
    odd: bool  # the y of the public key


@functools.cache
def sample(name: str, number: int) -> Sample:
    """make_inputs() of bridge_ecc.c, and what ECDSA makes of it."""
    curve = CURVES[name]
    size = (curve.n.bit_length() + 7) // 8
    secret, nonce, digest = (filled(length, 3 * number + which)
                             for which, length in enumerate((size, size, 32)))
    cut = size > (curve.p.bit_length() + 7) // 8
    d, k = (int.from_bytes(data[cut:], "big") for data in (secret, nonce))
    e = leftmost(curve.n, digest) % curve.n
    r = curve.power(k)[0] % curve.n
    s = pow(k, -1, curve.n) * (e + r * d) % curve.n
    w = pow(s, -1, curve.n)
    return Sample(d, k, e * w % curve.n, r * w % curve.n, bool(curve.power(d)[1] & 1))


def ladder(curve: Curve) -> Count:
    """EccPoint_mult(): co-Z, from the bit below the top one to bit 0 of an exponent to which the
    order was added once or twice, so that its length is always the same."""
    steps = curve.n.bit_length()
    return Counter({"ladder add subtract": steps, "ladder add": steps,
                    "point double": 1, "point scale": 3,  # at the beginning two, at the end one
                    "field subtract": 1, "field multiply": 4, "field invert": 1, "field copy": 7})


def signing(name: str, number: int) -> Count:
    """The inverse of the nonce is masked by a random number."""
    del number
    return ladder(CURVES[name]) + Counter({"scalar multiply": 4, "scalar invert": 1,
                                           "field add": 1, "field copy": 1, "field bytes": 5})


def verifying(name: str, number: int) -> Count:
    """Shamir's trick: bits of both exponents at once, with G, Q and G Q ready."""
    now = sample(name, number)
    both = now.u | now.v
    rest = both & ~(1 << (both.bit_length() - 1))  # below the top column
    doubles, adds = both.bit_length() - 1, rest.bit_count()
    return Counter({
        "scalar invert": 1, "scalar multiply": 2, "field invert": 2,
        "point double": doubles, "ladder add": adds + 1, "point scale": adds + 2,
        "field subtract": adds + 1, "field multiply": adds, "field copy": 2 * adds + 7,
        "field bytes": 5})


def other_side() -> Count:
    """x^3 - 3 x + b"""
    return Counter({"field square": 1, "field multiply": 1, "field subtract": 1, "field add": 1})


def agreeing(name: str, number: int) -> Count:
    """The point is checked; the ladder begins with a random Z."""
    del number
    return ladder(CURVES[name]) + other_side() + Counter({"field square": 1, "field bytes": 6})


def decompressing(name: str, number: int) -> Count:
    """A square root is a power to (p + 1) / 4. If the root has the wrong sign, it is negated."""
    power = (CURVES[name].p + 1) >> 2
    ones = power.bit_count()
    return other_side() + Counter({
        "field power": ones, "field square": power.bit_length() - ones, "field copy": 1,
        "field bytes": 3})


MICRO_ECC = ("nothing", "field multiply", "field square", "field add", "field subtract",
             "field copy", "field halve", "field bytes", "field invert", "field power",
             "scalar multiply", "scalar invert", "ladder add", "ladder add subtract",
             "point double", "point scale")


def by_the_book(name: str, whole: Whole, number: int) -> dict[str, Count]:
    """As counted in operations.py, with this library's operations: a wNAF of window 4, and
    squaring and multiplying bit by bit. Jacobian points are added as in Shamir's trick."""
    powers: dict[str, Callable[[Sample], list[int]]] = {
        "sign": lambda now: [now.nonce], "verify": lambda now: [now.u, now.v],
        "agree": lambda now: [now.nonce]}
    found: dict[str, Count] = {}
    for way, algorithm in (("wNAF", "wnaf"), ("bit by bit", "binary")):
        if whole.name not in powers:
            continue
        total: Count = Counter()
        for each in range(number):
            group = Group(ORDERS[name], power=algorithm, product=algorithm)
            product = group.neutral()
            for base, exponent in zip((1, 77), powers[whole.name](sample(name, each))):
                product = product * group.element(base) ** exponent
            product.compute()
            tally = group.counts().total
            total += Counter({"point double": tally.squarings, "ladder add": tally.operations,
                              "point scale": tally.operations + 1, "field invert": 1,
                              "field subtract": tally.operations,
                              "field multiply": tally.operations})
            if whole.name != "agree":
                total += Counter({"scalar invert": 1, "scalar multiply": 2})
        found[way] = total
    return found


def micro_ecc(name: str, known: str, by_target: Mapping[str, tuple[str, ...]], kind: str,
              targets: tuple[str, ...]) -> Bridge:
    code = Code("micro-ecc-sys", (), ("micro-ecc",))
    flags = (f"-DLAB_{known.upper()}", "-DLAB_REPEAT=16",
             *(f"-DuECC_SUPPORTS_{each}={int(each == known)}" for each in schemes.UECC_CURVES))
    title = f"{name}, micro-ecc{kind}"
    scheme = Scheme(f"bridge {name}", f"micro-ecc{kind}", "bridge", str(C / "bridge_ecc.c"),
                    (Step("operations"),), 0, code=(code,), flags=flags, by_target=dict(by_target))
    wholes = tuple(Whole(whole, functools.partial(counted, name)) for whole, counted in (
        ("sign", signing), ("verify", verifying), ("agree", agreeing),
        ("decompress", decompressing)))
    return Bridge(title, scheme, MICRO_ECC, wholes, targets, f"{name}, micro-ecc",
                  samples={"ATmega328P": 1},
                  textbook=functools.partial(by_the_book, name),
                  schemes={"ecdsa": lambda messages: wholes[:2],
                           "ecdh": lambda messages: wholes[2:3],
                           "decompress": lambda messages: wholes[3:]})


# -- blst ------------------------------------------------------------------------------------------
BLST = ("nothing", "Fp multiply", "Fp square", "Fp add", "Fp subtract", "Fp triple", "Fp times 8",
        "Fp2 multiply", "Fp2 square", "Fp2 add", "Fp2 subtract", "Fp2 triple", "Fp2 times 8",
        "Fp2 shift", "Fp12 multiply", "Fp12 square", "Fp12 by line", "Fp12 cyclotomic",
        "Fp12 frobenius", "Fp12 conjugate", "Fp12 invert", "scalar multiply and add", "G1 add",
        "G1 add or double", "G1 double", "G1 look up", "G1 select", "G1 beta", "G1 affine",
        "G1 hash", "G2 add", "G2 add or double", "G2 double", "G2 look up", "G2 select", "G2 psi",
        "G2 affine", "Miller loop", "final power")
BLST_WINDOW = 5
# It takes the same time for all numbers, so one sample will do. On the M0+ only operations are
# measured: the wholes are only predicted there.
SAMPLES_BLST = {"amd64": 1, "Cortex-M4": 1, "Cortex-M0+": 0}


def times(number: int, count: Count) -> Count:
    return Counter({name: number * each for name, each in count.items()})


def table(group: str) -> Count:
    """POINTon…_precompute_w5(): 1 to 16 times the point."""
    entries = 1 << (BLST_WINDOW - 1)
    return Counter({f"{group} double": entries // 2, f"{group} add": entries // 2 - 1})


def windows(group: str, exponents: int, bits: int) -> Count:
    """POINTon…s_mult_w5(): signed windows of all exponents, which share the doublings."""
    doublings = bits - bits % BLST_WINDOW
    look_ups = exponents * (doublings // BLST_WINDOW + 1)
    return Counter({f"{group} double": doublings, f"{group} look up": look_ups,
                    f"{group} add or double": look_ups - 1})


def power_in_g1() -> Count:
    """Gallant, Lambert and Vanstone: two exponents of 128 bits."""
    return table("G1") + Counter({"G1 beta": 16}) + windows("G1", 2, 128)


def power_in_g2() -> Count:
    """Galbraith, Lin and Scott: four exponents of 64 bits."""
    return table("G2") + Counter({"G2 psi": 48}) + windows("G2", 4, 64)


PAIRINGS: Count = Counter({"Miller loop": 2, "Fp12 conjugate": 1, "Fp12 multiply": 1,
                           "final power": 1})  # two of them, compared


def ps18_sign(messages: int, number: int = 0) -> Count:
    del number
    return power_in_g1() + Counter({"scalar multiply and add": messages + 1})


def ps18_verify(messages: int, number: int = 0) -> Count:
    del number
    return (times(messages + 1, power_in_g2() + Counter({"G2 add or double": 1}))
            + Counter({"G2 affine": 1}) + PAIRINGS)


def bls_sign(number: int) -> Count:
    del number
    return power_in_g1() + Counter({"G1 hash": 1})


def bls_verify(number: int) -> Count:
    del number
    return Counter({"G1 hash": 1, "G1 affine": 1, "G2 affine": 1}) + PAIRINGS


def ps18(messages: int) -> tuple[Whole, ...]:
    return (Whole(f"PS18-{messages} sign", functools.partial(ps18_sign, messages)),
            Whole(f"PS18-{messages} verify", functools.partial(ps18_verify, messages)))


def blst(*machines: str) -> Bridge:
    """In assembly on amd64, because blst has no C for words of 64 bits. On the others in C."""
    in_assembly = machines == ("amd64",)
    files = ("blst/build/assembly.S",) if in_assembly else ()
    code = Code("blst", files, ("blst/src",), ("-D__BLST_NO_CPUID__",))
    by = "blst, asm" if in_assembly else "blst"
    scheme = Scheme("bridge BLS12-381", by, "bridge", str(C / "bridge_blst.c"),
                    (Step("operations"),), 0, code=(code,), flags=("-DLAB_REPEAT=2",))
    bls = Whole("BLS sign", bls_sign), Whole("BLS verify", bls_verify)
    return Bridge(f"BLS12-381, {by}", scheme, BLST, (*ps18(1), *ps18(10), *bls), machines,
                  "BLS12-381, blst, asm", repeat=2, samples=SAMPLES_BLST,
                  multiplication="Fp multiply", schemes={"ps18": ps18, "bls": lambda number: bls})


BRIDGES: tuple[Bridge, ...] = (
    micro_ecc("secp160r1", "secp160r1", schemes.IN_C, "", schemes.EVERYWHERE),
    micro_ecc("secp160r1", "secp160r1", schemes.IN_ASSEMBLY_160, ", asm", schemes.BARE_CHIPS),
    micro_ecc("P-256", "secp256r1", schemes.IN_C, "", schemes.NOT_AVR),
    micro_ecc("P-256", "secp256r1", schemes.IN_ASSEMBLY, ", asm", schemes.BARE_CHIPS),
    blst("amd64"), blst("Cortex-M4", "Cortex-M0+"),
)
