"""Benchmarks that mislead: each beside one that does not.     make figures ONLY=lab-mislead

lab/groups/README.md says what happens in each, and what the lab does against it."""

import random
from dataclasses import dataclass

from lab.groups.opcount import Bilinear, Element
from lab.groups.operations import BLS12_381
from lab.groups.papers import ps18
from tools.programs import as_program


@dataclass(frozen=True)
class Pair:
    """A figure that misleads, and the right one."""

    what: str
    wrong: str
    misleads: int
    right: str
    figure: int


class Ps18:
    """A signature on one message; what verifying it costs, in group operations."""

    def __init__(self) -> None:
        self.rng = random.Random(1)
        self.group = Bilinear(BLS12_381)
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


def pairs() -> tuple[Pair, ...]:
    scheme = Ps18()
    signature = scheme.sign()
    first = scheme.verification(signature)
    second = scheme.verification(signature)
    for each in (scheme.public.x, *scheme.public.y):
        each.precompute()
    precomputed = scheme.verification(signature)
    scheme.restore()
    late = scheme.verification(scheme.sign_without_compute())
    return (
        Pair("lazy work that leaks from signing", "signed, not computed", late,
             "signed, computed", first),
        Pair("an object that remembers", "the same key again", second, "a restored key", first),
        Pair("precomputation", "a key with tables", precomputed, "a restored key", first),
    )


def main() -> None:
    print(f"{'In group operations:':<38}{'this misleads':<29}this is right")
    for pair in pairs():
        print(f"  {pair.what:<36}{pair.wrong:<22}{pair.misleads:>5}  "
              f"{pair.right:<18}{pair.figure:>5}")


if __name__ == "__main__":
    as_program(main)
