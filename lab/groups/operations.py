"""Counts what PS18, of papers/, needs of its groups. No chip changes that.

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
from lab.groups.opcount import ALGORITHMS, Bilinear, Counts
from lab.groups.papers import groups, ps18
from lab.groups.papers.groups import E1, E2, ET
from tools.programs import as_program

BLS12_381 = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001  # the order
RUNS = 12  # as the study's
MANY = 10  # messages

# Around each step of a scheme, with the step's name. On the counting group it reads the counters.
Meter = Callable[[str], AbstractContextManager[None]]


def expect(said: bool, what: str) -> None:
    if not said:
        raise SystemExit(f"lab: {what}")


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


@dataclass(frozen=True)
class Scheme:
    name: str
    messages: int


SCHEMES = (Scheme("PS18, 1 message", 1), Scheme(f"PS18, {MANY} messages", MANY))


@dataclass
class Step:
    """What one step did, in one run."""

    name: str
    groups: list[Counts]
    pairings: int


def counted(scheme: Scheme, *, precompute: bool = False, seed: int = 0, **settings: Any
            ) -> list[Step]:
    """`precompute`: the generator has its tables before each step."""
    world = Bilinear(BLS12_381, **settings)
    steps: list[Step] = []

    @contextmanager
    def meter(name: str) -> Iterator[None]:
        for group in world.groups:
            group.renew_generator()
            if precompute:
                group.generator.precompute()
        world.reset()
        yield
        counts = world.counts()
        steps.append(Step(name, counts.groups, counts.pairings))

    run_ps18(world, meter, random.Random(seed), scheme.messages)
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


def cost(scheme: Scheme, step: str, **settings: Any) -> str:
    """Operations and squarings in all groups together."""
    runs, = (runs for runs in runs_of(scheme, **settings) if runs[0].name == step)
    return mean([sum(counts.total.operations + counts.total.squarings for counts in run.groups)
                 for run in runs])


def by_algorithm() -> Iterator[str]:
    columns = [(scheme, step) for scheme in SCHEMES for step in ("sign", "verify")]
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
