"""Pedersen's commitment.  Non-interactive and information-theoretic secure verifiable secret
sharing, CRYPTO '91, section 3.

    setup   g, h: nobody knows log_g h
    commit  r random; c = g^m h^r
    open    accept if c = g^m h^r"""

import random

from lab.groups.papers.groups import E, Group


def setup(group: Group[E]) -> E:
    return group.hash(b"Pedersen's second generator")


def commit(group: Group[E], h: E, m: int, rng: random.Random) -> tuple[E, int]:
    r = rng.randrange(group.order)
    return (group.generator ** m * h ** r).compute(), r


def opens(group: Group[E], h: E, c: E, m: int, r: int) -> bool:
    return c == group.generator ** m * h ** r
