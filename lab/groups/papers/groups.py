"""What a paper needs of a group, as the counting group has it."""

import random
from typing import Protocol, Self, TypeVar


class Element(Protocol):
    """Of a group that is written as a product. An exponent may be any whole number."""

    def __mul__(self, other: Self) -> Self: ...

    def __pow__(self, exponent: int) -> Self: ...

    def inv(self) -> Self: ...

    def compute(self) -> Self:
        """Works it out now. Without this, verifying would pay for a part of signing."""

    def serialize(self) -> bytes: ...


E = TypeVar("E", bound=Element)
E1 = TypeVar("E1", bound=Element)
E2 = TypeVar("E2", bound=Element)
ET = TypeVar("ET", bound=Element, covariant=True)


class Group(Protocol[E]):
    """A cyclic group of prime order."""

    order: int
    generator: E

    def neutral(self) -> E: ...

    def hash(self, data: bytes) -> E:
        """An element whose logarithm nobody knows."""

    def parse(self, data: bytes) -> E:
        """Reads what serialize() made. Raises ValueError if the bytes are no element."""


class Bilinear(Protocol[E1, E2, ET]):
    """A pairing e: G1 × G2 → GT, without a homomorphism between G1 and G2."""

    order: int

    @property
    def g1(self) -> Group[E1]: ...

    @property
    def g2(self) -> Group[E2]: ...

    def pair(self, first: E1, second: E2) -> ET: ...


def exponent(order: int, rng: random.Random) -> int:
    """From 1 to order - 1. A real key needs random.SystemRandom."""
    return rng.randrange(1, order)
