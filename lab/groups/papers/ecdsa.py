"""ECDSA.  FIPS 186-5, section 6: n is the order, G the generator, f takes the x coordinate.

    key     d random, Q = G^d
    sign    e = H(M); k random; r = f(G^k); s = k^-1 (e + r d)
    verify  u = e s^-1, v = r s^-1; accept if f(G^u Q^v) = r"""

import hashlib
import random

from lab.groups.papers.groups import E, Group, exponent, leftmost

Signature = tuple[int, int]


def key(group: Group[E], rng: random.Random) -> tuple[int, E]:
    d = exponent(group.order, rng)
    return d, (group.generator ** d).compute()


def sign(group: Group[E], d: int, message: bytes, rng: random.Random) -> Signature:
    n, e = group.order, leftmost(group.order, hashlib.sha256(message).digest())
    while True:
        k = exponent(n, rng)
        r = group.abscissa(group.generator ** k)
        s = pow(k, -1, n) * (e + r * d) % n
        if r and s:
            return r, s


def verify(group: Group[E], q: E, message: bytes, signature: Signature) -> bool:
    n, e, (r, s) = group.order, leftmost(group.order, hashlib.sha256(message).digest()), signature
    if not (0 < r < n and 0 < s < n):
        return False
    u, v = e * pow(s, -1, n) % n, r * pow(s, -1, n) % n
    point = group.generator ** u * q ** v
    return point != group.neutral() and group.abscissa(point) == r
