"""Schnorr's signature, in its short form.  Schnorr, Efficient signature generation by smart cards,
Journal of Cryptology 4 (1991).

    key     x random, y = g^x
    sign    k random; c = H(g^k, M); s = k + c x
    verify  accept if c = H(g^s y^-c, M)

The key y is hashed, too, as is usual today."""

import random

from lab.groups.papers.groups import E, Group, exponent, hashed

Signature = tuple[int, int]


def key(group: Group[E], rng: random.Random) -> tuple[int, E]:
    x = exponent(group.order, rng)
    return x, (group.generator ** x).compute()


def sign(group: Group[E], x: int, y: bytes, message: bytes, rng: random.Random) -> Signature:
    """`y` is the public key as bytes: so a signer serialises it once, and not each time."""
    k = exponent(group.order, rng)
    c = hashed(group.order, (group.generator ** k).serialize(), y, message)
    return c, (k + c * x) % group.order


def verify(group: Group[E], y: E, message: bytes, signature: Signature) -> bool:
    c, s = signature
    if not 0 <= s < group.order:
        return False
    commitment = group.generator ** s * y ** -c
    return c == hashed(group.order, commitment.serialize(), y.serialize(), message)
