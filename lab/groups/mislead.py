"""Benchmarks that mislead: each beside one that does not.     make figures ONLY=lab-mislead

lab/groups/README.md says what happens in each, and what the lab does against it."""

import random
from dataclasses import dataclass
from pathlib import Path

from lab.groups.opcount import Bilinear, Element
from lab.groups.operations import ORDERS
from lab.groups.papers import ps18
from lab.messages import counts, machines, schemes
from lab.messages.schemes import Code, Scheme, Step
from tools.programs import as_program

CASES = ("nothing", "first hash", "later hash", "first RSA verification",
         "second RSA verification", "parsing and verification", "verification", "parsing",
         "message 1", "message 1 again", "message 2", "message 3", "message 4",
         "sums that nobody reads", "sums")  # of mislead.c
C = Path(__file__).with_name("c")
SCHEME = Scheme(
    "mislead", "OpenSSL 3", "mislead", str(C / "mislead.c"), (Step("cases", len(CASES), (0,)),), 0,
    code=(Code("micro-ecc-sys", schemes.UECC.files, schemes.UECC.include),),
    flags=schemes.IN_C["amd64"], link={"amd64": ("-lcrypto",)}, targets=("amd64",))


@dataclass(frozen=True)
class Pair:
    """A figure that misleads, and the right one."""

    what: str
    wrong: str
    misleads: int
    right: str
    figure: int
    unit: str = "instructions on amd64"


def measured() -> dict[str, int]:
    """Instructions of each case on amd64."""
    builder = counts.Builder(SCHEME, machines.MACHINES["amd64"], "amd64")
    runs = builder.machine.runs(builder.image(SCHEME.steps[0], 0))
    nothing = runs[0].cost
    return {case: run.cost - nothing for case, run in zip(CASES, runs, strict=True)}


# -- on the counting group -------------------------------------------------------------------------
class Ps18:
    """A signature on one message; what verifying it costs, in group operations."""

    def __init__(self) -> None:
        self.rng = random.Random(1)
        self.group = Bilinear(ORDERS["BLS12-381"])
        self.secret, self.public = ps18.key(self.group, 1, self.rng)
        self.restore()

    def restore(self) -> None:
        """The key as it comes over a network: without the tables of earlier powers."""
        g, x, *y = (self.group.g2.parse(each.serialize())
                    for each in (self.public.g, self.public.x, *self.public.y))
        self.public = ps18.PublicKey(g, x, tuple(y))

    def verification(self, signature: ps18.Signature[Element]) -> int:
        self.group.reset(allow_pending=True)
        if not ps18.verify(self.group, self.public, [7], signature):
            raise SystemExit("lab: PS18: a right signature was refused")
        return sum(each.total.operations + each.total.squarings + each.total.inversions
                   for each in self.group.counts().groups)

    def sign(self) -> ps18.Signature[Element]:
        return ps18.sign(self.group, self.secret, [7], self.group.g1.hash(b"h"), self.rng)

    def sign_without_compute(self) -> ps18.Signature[Element]:
        done = self.sign()
        h = self.group.g1.hash(b"h")
        power = self.secret.x + self.secret.y[0] * 7 + self.secret.y[1] * done.m
        return ps18.Signature(done.m, h, h ** (power % self.group.order))


def on_the_counting_group() -> tuple[Pair, ...]:
    scheme = Ps18()
    signature = scheme.sign()
    first = scheme.verification(signature)
    second = scheme.verification(signature)
    for each in (scheme.public.x, *scheme.public.y):
        each.precompute()
    precomputed = scheme.verification(signature)
    scheme.restore()
    late = scheme.verification(scheme.sign_without_compute())
    unit = "group operations"
    return (
        Pair("lazy work that leaks from signing", "signed, not computed", late,
             "signed, computed", first, unit),
        Pair("an object that remembers, PS18", "the same key again", second, "a restored key",
             first, unit),
        Pair("precomputation", "a key with tables", precomputed, "a restored key", first, unit),
    )


def pairs() -> tuple[Pair, ...]:
    cost = measured()
    others = [cost[f"message {number}"] for number in (1, 2, 3, 4)]
    return (
        *on_the_counting_group(),
        Pair("an object that remembers, RSA-2048", "the second time",
             cost["second RSA verification"], "the first",
             cost["first RSA verification"]),
        Pair("restoring in the timed part, P-256", "parse and verify",
             cost["parsing and verification"], "verify", cost["verification"]),
        Pair("the first call of a library, SHA-256", "the first", cost["first hash"], "a later",
             cost["later hash"]),
        Pair("the same message again, ECDSA", "spread, one message",
             abs(cost["message 1 again"] - cost["message 1"]), "four messages",
             max(others) - min(others)),
        Pair("a result that nobody reads, Adler-32", "100 sums, unread",
             cost["sums that nobody reads"], "each read", cost["sums"]),
    )


def short(number: int) -> str:
    """Three digits: OpenSSL changes with each release of Debian."""
    digits = max(len(str(number)) - 3, 0)
    return f"{round(number, -digits):,}"


def main() -> None:
    unit = ""
    for pair in pairs():
        if pair.unit != unit:
            unit = pair.unit
            print(f"{f'In {unit}:':<40}{'this misleads':<33}this is right")
        print(f"  {pair.what:<38}{pair.wrong:<22}{short(pair.misleads):>9}  "
              f"{pair.right:<18}{short(pair.figure):>9}")


if __name__ == "__main__":
    as_program(main)
