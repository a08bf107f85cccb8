"""Diffie and Hellman's key agreement, on a curve.  NIST SP 800-56A, section 5.7.1.2.

    key     a random, A = G^a
    agree   Z = B^a; refuse if Z is neutral"""

import random

from lab.groups.papers.groups import E, Group, exponent


def key(group: Group[E], rng: random.Random) -> tuple[int, bytes]:
    a = exponent(group.order, rng)
    return a, (group.generator ** a).serialize()


def agree(group: Group[E], a: int, theirs: bytes) -> bytes:
    """Parsing refuses bytes that are no element."""
    shared = group.parse(theirs) ** a
    if shared == group.neutral():
        raise ValueError("the other's key gives no secret")
    return shared.serialize()
