"""Signatures of Boneh, Lynn and Shacham, and their aggregation.  Short signatures from the Weil
pairing, ASIACRYPT 2001; Aggregate and verifiably encrypted signatures, EUROCRYPT 2003.
Signatures are in G1, keys in G2.

    key        x random, v = g~^x
    sign       σ = H(M)^x
    verify     accept if e(σ, g~) = e(H(M), v)
    aggregate  σ = σ_1 … σ_n
    verify     accept if the messages are distinct, and e(σ, g~) = e(H(M_1), v_1) … e(H(M_n), v_n)
"""

import functools
import operator
import random
from collections.abc import Sequence

from lab.groups.papers.groups import E1, E2, ET, Bilinear, exponent


def key(pairing: Bilinear[E1, E2, ET], rng: random.Random) -> tuple[int, E2]:
    x = exponent(pairing.order, rng)
    return x, (pairing.g2.generator ** x).compute()


def sign(pairing: Bilinear[E1, E2, ET], x: int, message: bytes) -> E1:
    return (pairing.g1.hash(message) ** x).compute()


def verify(pairing: Bilinear[E1, E2, ET], v: E2, message: bytes, signature: E1) -> bool:
    return verify_all(pairing, [v], [message], signature)


def aggregate(signatures: Sequence[E1]) -> E1:
    return functools.reduce(operator.mul, signatures).compute()


def verify_all(pairing: Bilinear[E1, E2, ET], keys: Sequence[E2], messages: Sequence[bytes],
               signature: E1) -> bool:
    if not keys or len(keys) != len(messages) or len(set(messages)) != len(messages):
        return False
    right = functools.reduce(operator.mul, (pairing.pair(pairing.g1.hash(message), v)
                                            for v, message in zip(keys, messages, strict=True)))
    return pairing.pair(signature, pairing.g2.generator) == right
