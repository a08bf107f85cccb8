"""Counts what the schemes of papers/ need of a group. No chip changes that.

    make figures ONLY=lab-operations

Each scheme is run on the counting group, RUNS times with other keys and messages. Before each step
its elements are restored from bytes, as they come over a network: an element that was used before
has tables, and would cost less."""

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from lab.groups import programs
from lab.groups.opcount import ALGORITHMS, Bilinear, Counts, Group
from lab.groups.papers import bls, ecdh, ecdsa, groups, pedersen, ps18, schnorr
from lab.groups.papers.groups import E, E1, E2, ET
from tools.programs import as_program

ORDERS = {
    "P-256": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    "BLS12-381": 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001,
}
RUNS = 12  # as the study's
MANY = 10  # messages, and signatures that are aggregated

# Around each step of a scheme, with the step's name. On the counting group it reads the counters.
Meter = Callable[[str], AbstractContextManager[None]]


def expect(said: bool, what: str) -> None:
    if not said:
        raise SystemExit(f"lab: {what}")


def run_ecdsa(group: groups.Group[E], meter: Meter, rng: random.Random) -> None:
    with meter("key"):
        secret, public = ecdsa.key(group, rng)
    kept, message = public.serialize(), rng.randbytes(32)
    with meter("sign"):
        signature = ecdsa.sign(group, secret, message, rng)
    public = group.parse(kept)
    with meter("verify"):
        right = ecdsa.verify(group, public, message, signature)
    expect(right, "ECDSA: a right signature was refused")
    expect(not ecdsa.verify(group, public, message + b"!", signature), "ECDSA: a forgery passed")


def run_schnorr(group: groups.Group[E], meter: Meter, rng: random.Random) -> None:
    with meter("key"):
        secret, public = schnorr.key(group, rng)
    kept, message = public.serialize(), rng.randbytes(32)
    with meter("sign"):
        signature = schnorr.sign(group, secret, kept, message, rng)
    public = group.parse(kept)
    with meter("verify"):
        right = schnorr.verify(group, public, message, signature)
    expect(right, "Schnorr: a right signature was refused")
    expect(not schnorr.verify(group, public, message + b"!", signature),
           "Schnorr: a forgery passed")


def run_ecdh(group: groups.Group[E], meter: Meter, rng: random.Random) -> None:
    with meter("key"):
        ours, our_key = ecdh.key(group, rng)
    theirs, their_key = ecdh.key(group, rng)
    with meter("agree"):
        secret = ecdh.agree(group, ours, their_key)
    expect(secret == ecdh.agree(group, theirs, our_key), "ECDH: the two do not agree")
    expect(secret != ecdh.agree(group, theirs, their_key), "ECDH: a third agrees, too")


def run_pedersen(group: groups.Group[E], meter: Meter, rng: random.Random) -> None:
    kept, m = pedersen.setup(group).serialize(), rng.randrange(group.order)
    h = group.parse(kept)
    with meter("commit"):
        commitment, opening = pedersen.commit(group, h, m, rng)
    h = group.parse(kept)
    with meter("open"):
        right = pedersen.opens(group, h, commitment, m, opening)
    expect(right, "Pedersen: a right opening was refused")
    expect(not pedersen.opens(group, h, commitment, m + 1, opening),
           "Pedersen: a commitment was opened to another number")


def run_ps18(pairing: groups.Bilinear[E1, E2, ET], meter: Meter, rng: random.Random,
             count: int) -> None:
    with meter("key"):
        secret, public = ps18.key(pairing, count, rng)
    messages = [rng.randrange(pairing.order) for _ in range(count)]
    h = pairing.g1.hash(rng.randbytes(32))
    with meter("sign"):
        signed = ps18.sign(pairing, secret, messages, h, rng)
    one, two = signed.sigma1.serialize(), signed.sigma2.serialize()
    g, x, *y = (each.serialize() for each in (public.g, public.x, *public.y))
    parse1, parse2 = pairing.g1.parse, pairing.g2.parse
    signature = ps18.Signature(signed.m, parse1(one), parse1(two))
    public = ps18.PublicKey(parse2(g), parse2(x), tuple(map(parse2, y)))
    with meter("verify"):
        right = ps18.verify(pairing, public, messages, signature)
    expect(right, "PS18: a right signature was refused")
    other = [messages[0] + 1, *messages[1:]]
    expect(not ps18.verify(pairing, public, other, signature), "PS18: a forgery passed")


def run_bls(pairing: groups.Bilinear[E1, E2, ET], meter: Meter, rng: random.Random) -> None:
    with meter("key"):
        secret, public = bls.key(pairing, rng)
    kept, message = public.serialize(), rng.randbytes(32)
    with meter("sign"):
        signature = bls.sign(pairing, secret, message)
    fresh, key = pairing.g1.parse(signature.serialize()), pairing.g2.parse(kept)
    with meter("verify"):
        right = bls.verify(pairing, key, message, fresh)
    expect(right, "BLS: a right signature was refused")
    expect(not bls.verify(pairing, key, message + b"!", fresh), "BLS: a forgery passed")


def run_aggregate(pairing: groups.Bilinear[E1, E2, ET], meter: Meter, rng: random.Random,
                  count: int) -> None:
    pairs = [bls.key(pairing, rng) for _ in range(count)]
    messages = [rng.randbytes(32) for _ in pairs]
    signatures = [bls.sign(pairing, secret, message).serialize()
                  for (secret, _), message in zip(pairs, messages, strict=True)]
    keys = [pairing.g2.parse(public.serialize()) for _, public in pairs]
    parsed = [pairing.g1.parse(signature) for signature in signatures]
    with meter("aggregate"):
        signature = bls.aggregate(parsed)
    with meter("verify"):
        right = bls.verify_all(pairing, keys, messages, signature)
    expect(right, "BLS: a right aggregate was refused")
    expect(not bls.verify_all(pairing, keys, messages, parsed[0]), "BLS: a forgery passed")
    expect(not bls.verify_all(pairing, keys[::-1], messages, signature),
           "BLS: an aggregate was taken for that of others")


@dataclass(frozen=True)
class Scheme:
    name: str
    on: str  # of ORDERS
    run: Callable[..., None]
    more: tuple[Any, ...] = ()

    @property
    def pairing(self) -> bool:
        return self.on == "BLS12-381"


SCHEMES = (
    Scheme("ECDSA", "P-256", run_ecdsa),
    Scheme("Schnorr", "P-256", run_schnorr),
    Scheme("ECDH", "P-256", run_ecdh),
    Scheme("Pedersen", "P-256", run_pedersen),
    Scheme("PS18, 1 message", "BLS12-381", run_ps18, (1,)),
    Scheme(f"PS18, {MANY} messages", "BLS12-381", run_ps18, (MANY,)),
    Scheme("BLS", "BLS12-381", run_bls),
    Scheme(f"BLS, {MANY} signatures", "BLS12-381", run_aggregate, (MANY,)),
)


@dataclass
class Step:
    """What one step did, in one run."""

    name: str
    groups: list[Counts]
    pairings: int = 0


def counted(scheme: Scheme, *, precompute: bool = False, seed: int = 0, **settings: Any
            ) -> list[Step]:
    """`precompute`: the generator has its tables before each step."""
    world: Any = (Bilinear if scheme.pairing else Group)(ORDERS[scheme.on], **settings)
    each_group: tuple[Group, ...] = world.groups if scheme.pairing else (world,)
    steps: list[Step] = []

    @contextmanager
    def meter(name: str) -> Iterator[None]:
        for group in each_group:
            group.renew_generator()
            if precompute:
                group.generator.precompute()
        world.reset()
        yield
        counts = world.counts()
        steps.append(Step(name, counts.groups, counts.pairings) if scheme.pairing
                     else Step(name, [counts]))

    scheme.run(world, meter, random.Random(seed), *scheme.more)
    return steps


@functools.cache
def runs_of(scheme: Scheme, **settings: Any) -> list[list[Step]]:
    """By step: what it did in each run."""
    return [list(step) for step in zip(
        *(counted(scheme, seed=seed, **settings) for seed in range(RUNS)), strict=True)]


def mean(numbers: Sequence[float]) -> str:
    """Without a fraction, which random numbers of other runs would change."""
    return f"{fmean(numbers):,.0f}"


def tallies(runs: Sequence[Counts], which: str) -> str:
    found = [getattr(counts, which) for counts in runs]
    return "".join(f"{mean([getattr(tally, name) for tally in found]):>{width}}"
                   for name, width in (("operations", 6), ("squarings", 7), ("inversions", 5)))


def idle(runs: Sequence[Counts]) -> bool:
    return not any(any(counts.row()) or counts.hashes for counts in runs)


def lines_of(scheme: Scheme, **settings: Any) -> Iterator[str]:
    title = scheme.name
    for runs in runs_of(scheme, **settings):
        step = runs[0].name
        for number, first in enumerate(runs[0].groups):
            counts = [run.groups[number] for run in runs]
            if idle(counts) and not (first.name == "GT" and runs[0].pairings):
                continue
            terms = "+".join(map(str, first.terms)) or "-"
            pairings = runs[0].pairings if first.name == "GT" else "-"
            yield (f"{title:<19}{step:<10}{first.name:<3}{tallies(counts, 'total')}  "
                   f"{tallies(counts, 'outside')}{first.exponentiations:>7}{terms:>6}"
                   f"{first.serialisations:>6}{first.hashes:>5}{pairings:>5}")
            title = step = ""


WINDOWS_SHOWN = (1, 2, 3, 4, 5, 6, 8)
COMPARED = ("ECDSA", "PS18, 1 message", f"PS18, {MANY} messages")


def cost(scheme: Scheme, step: str, **settings: Any) -> str:
    """Operations and squarings in all groups together."""
    runs, = (runs for runs in runs_of(scheme, **settings) if runs[0].name == step)
    return mean([sum(counts.total.operations + counts.total.squarings for counts in run.groups)
                 for run in runs])


def by_algorithm() -> Iterator[str]:
    columns = [(scheme, step) for scheme in SCHEMES if scheme.name in COMPARED
               for step in ("sign", "verify")]
    heads = "".join(f"{scheme.name.removesuffix('s').replace(' message', ''):>18}"
                    for scheme, step in columns if step == "sign")
    yield f"{'':<24}{heads}"
    yield f"{'algorithm':<16}{'window':>8}" + "".join(f"{step:>9}" for _, step in columns)
    for name in ALGORITHMS:
        for window in WINDOWS_SHOWN if name != "binary" else (1,):  # binary has none
            cells = [cost(scheme, step, power=name, product=name, window=window)
                     for scheme, step in columns]
            yield f"{name:<16}{window:>8}" + "".join(f"{cell:>9}" for cell in cells)
    cells = [cost(scheme, step, precompute=True) for scheme, step in columns]
    yield f"{'wnaf, precomp.':<16}{'4 (8)':>8}" + "".join(f"{cell:>9}" for cell in cells)


EXAMPLE = ("1000000 {power} {product} 4 8;W 7;W 11;W 13;W 17;P 0 10;P 1 10;P 2 10;P 3 10;"
           "O 4 5;O 8 6;O 9 7;C 10;P 0 10;C 11;O 0 0;O 12 1;I 13;C 14")


def example(power: str, product: str) -> Counts:
    """The study's: (a b c d)^10 as one product, then a^10, then (a a b)^-1."""
    return programs.run(EXAMPLE.format(power=power, product=product))[1]


def main() -> None:
    print("The study's example, with sliding windows for products, as it was:")
    print(example("wnaf", "sliding").in_words())
    print("With the algorithms that both have by default:")
    print(example("wnaf", "wnaf").in_words())
    print(f"\nEach step, wNAF with window 4, the mean of {RUNS} runs:\n")
    print(f"{'':<32}{'in total':>18}  {'outside of powers':>18}")
    head = f"{'op':>6}{'square':>7}{'inv':>5}"
    print(f"{'scheme':<19}{'step':<10}{'in':<3}{head}  {head}{'powers':>7}{'terms':>6}{'bytes':>6}"
          f"{'hash':>5}{'pair':>5}")
    for scheme in SCHEMES:
        print("\n".join(lines_of(scheme)))
    print("\npowers: those that are alone. terms: of each product of powers. bytes: elements that"
          "\nare serialised. hash: to an element. pair: pairings.")
    print("\nOperations and squarings together, in all groups, by algorithm and window. In the last"
          "\nline the generators have their tables of window 8 before.\n")
    print("\n".join(by_algorithm()))


if __name__ == "__main__":
    as_program(main)
