"""Signatures of Pointcheval and Sanders, on several messages at once.  Reassessing security of
randomizable signatures, CT-RSA 2018, section 4.2. (The scheme of 2016 has no m'.)

    key     x, y_1 … y_(r+1) random; g~ generates G2; X~ = g~^x, Y~_j = g~^(y_j)
    sign    m' random, h of G1 random and not neutral;
            σ = (m', h, h^(x + y_1 m_1 + … + y_r m_r + y_(r+1) m'))
    verify  accept if σ_1 is not neutral, and
            e(σ_1, X~ Y~_1^(m_1) … Y~_r^(m_r) Y~_(r+1)^(m')) = e(σ_2, g~)"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from lab.groups.papers.groups import E1, E2, ET, Bilinear, exponent


@dataclass(frozen=True)
class SecretKey:
    x: int
    y: tuple[int, ...]


@dataclass(frozen=True)
class PublicKey(Generic[E2]):
    g: E2
    x: E2
    y: tuple[E2, ...]


@dataclass(frozen=True)
class Signature(Generic[E1]):
    m: int
    sigma1: E1
    sigma2: E1


def key(pairing: Bilinear[E1, E2, ET], messages: int, rng: random.Random
        ) -> tuple[SecretKey, PublicKey[E2]]:
    x, *y = (exponent(pairing.order, rng) for _ in range(messages + 2))
    g = pairing.g2.generator
    return SecretKey(x, tuple(y)), PublicKey(g, (g ** x).compute(),
                                             tuple((g ** each).compute() for each in y))


def sign(pairing: Bilinear[E1, E2, ET], secret: SecretKey, messages: Sequence[int], h: E1,
         rng: random.Random) -> Signature[E1]:
    """`h` is the random element of G1. How to draw one is the group's affair: a power of the
    generator, or a hash."""
    if len(messages) + 1 != len(secret.y):
        raise ValueError(f"this key signs {len(secret.y) - 1} messages at once, not "
                         f"{len(messages)}")
    m = rng.randrange(pairing.order)
    power = secret.x + sum(y * each for y, each in zip(secret.y, (*messages, m), strict=True))
    return Signature(m, h, (h ** (power % pairing.order)).compute())


def verify(pairing: Bilinear[E1, E2, ET], public: PublicKey[E2], messages: Sequence[int],
           signature: Signature[E1]) -> bool:
    exponents = (*messages, signature.m)
    if len(exponents) != len(public.y) or signature.sigma1 == pairing.g1.neutral():
        return False
    product = public.x
    for y, each in zip(public.y, exponents, strict=True):
        product = product * y ** each
    return pairing.pair(signature.sigma1, product) == pairing.pair(signature.sigma2, public.g)
