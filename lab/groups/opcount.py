"""Counts operations in groups whose elements only count: costs that no hardware changes.

    group = Group(order, "G1")
    g, h = group.generator, group.element(7)
    (g ** a * h ** b).compute()      # one multi-exponentiation of two terms
    print(group.counts().in_words())

An element of such a group is its logarithm to the base of the generator. So a scheme gives right
results, and its group operations cost nothing but a count. Two modes are counted at once: `total`
has all operations, `outside` those that are not inside of a power or of a product of powers.

Evaluation is lazy: nothing is worked out before compute(), serialize(), == or precompute() asks
for it. Before that, the counters would miss work: counts() then fails.

README.md is its page."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

WINDOWS = range(1, 17)  # bits; a table has 2^(window - 1) powers of its base
WINDOW, PRECOMPUTED = 4, 8  # the study's


class CountingError(ValueError):
    """What the caller did wrong, and what to do instead."""


@dataclass
class Tally:
    """Work on elements. An operation on two equal elements is a squaring, and no operation."""

    operations: int = 0
    inversions: int = 0
    squarings: int = 0


@dataclass
class Counts:
    """What a group has done."""

    name: str
    total: Tally = field(default_factory=Tally)
    outside: Tally = field(default_factory=Tally)
    exponentiations: int = 0
    terms: list[int] = field(default_factory=list)  # One number for each product of powers.
    serialisations: int = 0
    parsings: int = 0  # Elements that were read from the bytes of serialize().
    hashes: int = 0  # Elements that were derived from other bytes.

    def row(self) -> tuple[int, int, int, int, int, int, int, list[int], int]:
        """In the order of the study's counts."""
        total, outside = self.total, self.outside
        return (total.operations, total.inversions, total.squarings, outside.operations,
                outside.inversions, outside.squarings, self.exponentiations, list(self.terms),
                self.serialisations)

    def in_words(self) -> str:
        products = many(len(self.terms), "multi-exponentiation")
        if self.terms:
            products += f" (terms: {', '.join(map(str, self.terms))})"
        details = [many(self.exponentiations, "exponentiation"), products,
                   many(self.serialisations, "serialisation")]
        if self.parsings:
            details.append(many(self.parsings, "parsing"))
        if self.hashes:
            details.append(f"{self.hashes} hashed to the group")
        return (f"{self.name}: in total {tally_in_words(self.total)};\n"
                f"    outside of exponentiations {tally_in_words(self.outside)};\n"
                f"    {', '.join(details)}.")


def many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def tally_in_words(tally: Tally) -> str:
    return ", ".join(many(number, name[:-1]) for name, number in asdict(tally).items())


def whole(number: object, what: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise CountingError(f"{what} must be a whole number, not {number!r}")
    return number


def window_in_range(window: object, what: str) -> int:
    if whole(window, what) not in WINDOWS:
        raise CountingError(f"{what} must be from {WINDOWS[0]} to {WINDOWS[-1]} bits, not {window}")
    return whole(window, what)


# -- how powers are worked out -------------------------------------------------------------------
class Arithmetic:
    """Operations on plain values, counted in these tallies."""

    def __init__(self, order: int, *tallies: Tally) -> None:
        self.order, self.tallies = order, tallies

    def multiply(self, a: int, b: int) -> int:
        for tally in self.tallies:
            if a == b:
                tally.squarings += 1
            else:
                tally.operations += 1
        return (a + b) % self.order

    def invert(self, a: int) -> int:
        for tally in self.tallies:
            tally.inversions += 1
        return -a % self.order


class Table:
    """Odd powers of a base (sign 1), and of its inverse (sign -1). They stay with the base."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.powers: dict[int, list[int]] = {1: [], -1: []}
        self.window = {1: 0, -1: 0}

    @property
    def widest(self) -> int:
        return max(self.window.values())

    def grow(self, work: Arithmetic, window: int, sign: int) -> None:
        """What the other sign has is inverted; the rest is multiplied."""
        if self.window[sign] >= window:
            return
        self.window[sign] = window
        powers = self.powers[sign]
        first = self.base if sign == 1 else work.invert(self.base)
        if not powers:
            powers.append(first)
        powers += [work.invert(power) for power in self.powers[-sign][len(powers):]]
        square = work.multiply(first, first)
        while len(powers) < 1 << (window - 1):
            powers.append(work.multiply(powers[-1], square))

    def power(self, work: Arithmetic, digit: int) -> int:
        sign, index = (1, digit // 2) if digit > 0 else (-1, -digit // 2)
        if index < len(self.powers[sign]):
            return self.powers[sign][index]
        return work.invert(self.powers[-sign][index])


@dataclass(frozen=True)
class Term:
    """A base with its table, and an exponent, which may be negative and larger than the order."""

    table: Table
    exponent: int

    @property
    def sign(self) -> int:
        return -1 if self.exponent < 0 else 1


def wnaf_digits(exponent: int, window: int) -> list[int]:
    """Least first: 0 or odd, between -2^window and 2^window, with `window` zeros after each."""
    rest, sign = abs(exponent), -1 if exponent < 0 else 1
    digits = []
    while rest:
        digit = 0
        if rest & 1:
            digit = rest & ((2 << window) - 1)
            if digit >> window:
                digit -= 2 << window
            rest -= digit
        digits.append(sign * digit)
        rest >>= 1
    return digits


def sliding_digits(exponent: int, window: int) -> list[int]:
    """Least first: from the top, the longest odd piece of at most `window` bits is a digit."""
    rest, sign = abs(exponent), -1 if exponent < 0 else 1
    digits = [0] * rest.bit_length()
    while rest:
        low = max(rest.bit_length() - window, 0)
        piece = rest >> low
        while not piece & 1:
            piece >>= 1
            low += 1
        digits[low] = sign * piece
        rest -= piece << low
    return digits


def interleaved(work: Arithmetic, digits: list[list[int]], tables: list[Table]) -> int:
    """All terms share one chain of squarings, which begins with the neutral element. What is done
    with it counts, too."""
    result, top = 0, max(map(len, digits)) - 1
    for place in range(top, -1, -1):
        if place < top:
            result = work.multiply(result, result)
        for row, table in zip(digits, tables, strict=True):
            if place < len(row) and row[place]:
                result = work.multiply(result, table.power(work, row[place]))
    return result


def wnaf(work: Arithmetic, terms: list[Term], window: int) -> int:
    """Windowed non-adjacent form. A table of one sign is enough: each digit of the other sign
    costs an inversion. If all tables are wider than the window, so is the window."""
    tables = [term.table for term in terms]
    window = max(window, min(table.widest for table in tables))
    for table in tables:
        if table.widest < window:
            sign = -1 if table.window[-1] > table.window[1] else 1
            table.grow(work, window, sign)
    return interleaved(work, [wnaf_digits(term.exponent, window) for term in terms], tables)


def sliding(work: Arithmetic, terms: list[Term], window: int) -> int:
    """Sliding windows. All digits of an exponent have its sign."""
    window = max(window, min(term.table.window[term.sign] for term in terms))
    for term in terms:
        term.table.grow(work, window, term.sign)
    return interleaved(work, [sliding_digits(term.exponent, window) for term in terms],
                       [term.table for term in terms])


def binary(work: Arithmetic, terms: list[Term], window: int) -> int:
    """Square and multiply, bit by bit, without tables. It has no window."""
    del window
    bases = [term.table.base if term.sign == 1 else work.invert(term.table.base) for term in terms]
    result, top = 0, max(term.exponent.bit_length() for term in terms) - 1
    for place in range(top, -1, -1):
        if place < top:
            result = work.multiply(result, result)
        for term, base in zip(terms, bases, strict=True):
            if abs(term.exponent) >> place & 1:
                result = work.multiply(result, base)
    return result


ALGORITHMS: dict[str, Callable[[Arithmetic, list[Term], int], int]] = {
    "wnaf": wnaf, "sliding": sliding, "binary": binary}


@dataclass(frozen=True)
class Settings:
    """How a group works out powers."""

    power: str = "wnaf"
    product: str = "wnaf"  # Its powers are interleaved.
    window: int = WINDOW
    precomputed: int = PRECOMPUTED  # window of precompute() without one
    lazy: bool = True
    # Cryptimeleon counts g**a * h as nothing outside. That is wrong; only comparisons need it.
    as_original: bool = False

    def __post_init__(self) -> None:
        for name in (self.power, self.product):
            if name not in ALGORITHMS:
                raise CountingError(f"there is no algorithm {name!r}; there are "
                                    f"{', '.join(ALGORITHMS)}")
        window_in_range(self.window, "the window")
        window_in_range(self.precomputed, "the window of precomputation")


# -- groups --------------------------------------------------------------------------------------
class Counter:
    """The counters of one group."""

    def __init__(self, name: str) -> None:
        self.now = Counts(name)
        self.pending: dict[int, Element] = {}  # Each id's result, which nothing else will compute.

    def refuse_pending(self, what: str) -> None:
        if self.pending:
            first = next(iter(self.pending.values()))
            raise CountingError(
                f"{self.now.name}: {many(len(self.pending), 'result')} ({first!r}, …) "
                f"{'was' if len(self.pending) == 1 else 'were'} never computed, so {what} would "
                "be wrong: call compute() on each, or pass allow_pending=True")

    def reset(self) -> None:
        for tally in (self.now.total, self.now.outside):
            tally.operations = tally.inversions = tally.squarings = 0
        self.now.exponentiations = self.now.serialisations = 0
        self.now.parsings = self.now.hashes = 0
        self.now.terms.clear()


class Group:
    """A cyclic group of any order, whose elements are their own logarithms."""

    def __init__(self, order: int, name: str = "G", *, settings: Settings | None = None,
                 **changes: Any) -> None:
        if whole(order, "the order of a group") < 2:
            raise CountingError(f"the order of a group must be 2 or more, not {order}")
        self.order, self.name = order, name
        self.settings = replace(settings or Settings(), **changes)
        self._counter = Counter(name)
        now = self._counter.now
        self._everywhere = Arithmetic(order, now.total, now.outside)
        self._inside = Arithmetic(order, now.total)
        self._outside = Arithmetic(order, now.outside)
        self._size = (order.bit_length() + 7) // 8  # bytes of an element
        self.generator = self.element(1)

    def __repr__(self) -> str:
        return f"{self.name} of order {self.order}"

    def element(self, logarithm: int) -> Element:
        return Element(self, whole(logarithm, "a logarithm") % self.order)

    def neutral(self) -> Element:
        return self.element(0)

    def parse(self, data: bytes) -> Element:
        """A new object, which has no tables, from what serialize() made."""
        value = int.from_bytes(data, "big")
        if len(data) != self._size or value >= self.order:
            raise CountingError(f"{data.hex() or 'nothing'} is no element of {self!r}")
        self._counter.now.parsings += 1
        return self.element(value)

    def hash(self, data: bytes) -> Element:
        """An element that depends on all of the data."""
        self._counter.now.hashes += 1
        return self.element(number_of(data, self.order))

    def owned(self, element: object) -> Element:
        if not isinstance(element, Element):
            raise CountingError(f"{element!r} is no element of a group")
        if element.group is not self:
            raise CountingError(
                f"an element of {element.group!r} was mixed with one of {self!r}"
                + ("; they share their name and not their elements"
                   if element.group.name == self.name else ""))
        return element

    def counts(self, *, allow_pending: bool = False) -> Counts:
        """A copy of the counters as they are now."""
        if not allow_pending:
            self._counter.refuse_pending("these counts")
        now = self._counter.now
        return replace(now, total=replace(now.total), outside=replace(now.outside),
                       terms=list(now.terms))

    def reset(self, *, allow_pending: bool = False) -> None:
        """Sets all counters to 0. Tables stay with their elements."""
        if not allow_pending:
            self._counter.refuse_pending("the next counts")
        self._counter.reset()

    def _alone(self, term: Term) -> int:
        self._counter.now.exponentiations += 1
        return ALGORITHMS[self.settings.power](self._inside, [term], self.settings.window)

    def _together(self, terms: list[Term], constant: int | None) -> int:
        """A product of powers and at most one known factor."""
        powers = ALGORITHMS[self.settings.product](self._inside, terms, self.settings.window)
        if len(terms) > 1:  # the known factor is a part of a multi-exponentiation
            self._counter.now.terms.append(len(terms))
            return powers if constant is None else self._inside.multiply(powers, constant)
        assert constant is not None  # a product has two factors
        if self.settings.as_original:
            return self._inside.multiply(powers, constant)
        self._counter.now.exponentiations += 1
        return self._everywhere.multiply(powers, constant)


def number_of(data: bytes, order: int) -> int:
    """128 bits more than the order has, so that no number is likelier than another."""
    size = order.bit_length() // 8 + 17
    return int.from_bytes(hashlib.shake_256(data).digest(size), "big") % order


# Work is done by generators: each yields the work that it waits for. So a chain of any length can
# be worked out; functions that call each other would end at Python's limit.
Work = Generator[Any, Any, Any]


def done(work: Work) -> Any:
    waiting, result = [work], None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as end:
            waiting.pop()
            result = end.value
    return result


class Element:
    """An element of a group: known, or (in the classes below) to be worked out when needed."""

    def __init__(self, group: Group, value: int | None = None, *parts: Element) -> None:
        self.group, self._value, self._parts = group, value, parts
        self._tables: tuple[Table, Table] | None = None  # One for `total`, one for `outside`.
        for part in parts:
            part._is_taken()
        if value is None:
            group._counter.pending[id(self)] = self
            if not group.settings.lazy:
                self.compute()

    def __repr__(self) -> str:
        state = "" if self._value is None else f" {self._value}"
        return f"{type(self).__name__.lower()}{state} in {self.group.name}"

    def __mul__(self, other: Element) -> Element:
        return Product(self.group, None, self, self.group.owned(other))

    def __truediv__(self, other: Element) -> Element:
        return self * self.group.owned(other).inv()

    def __pow__(self, exponent: int) -> Element:
        return Power(self, whole(exponent, "an exponent"))

    def inv(self) -> Element:
        return Inverse(self.group, None, self)

    def __eq__(self, other: object) -> bool:
        return self._known() == self.group.owned(other)._known()

    def compute(self) -> Element:
        self._known()
        return self

    def serialize(self) -> bytes:
        value = self._known()
        self.group._counter.now.serialisations += 1
        return value.to_bytes(self.group._size, "big")

    def precompute(self, window: int | None = None) -> Element:
        """Odd powers of this element and of its inverse, which later powers of it use."""
        window = window_in_range(self.group.settings.precomputed if window is None else window,
                                 "the window of precomputation")
        self._known()
        total, outside = self._both_tables()
        for table, work in ((total, self.group._inside), (outside, self.group._outside)):
            for sign in (1, -1):
                table.grow(work, window, sign)
        return self

    def _is_taken(self) -> None:
        """Something else will work it out, or already has."""
        self.group._counter.pending.pop(id(self), None)

    def _known(self) -> int:
        value: int = done(self._wanted())
        return value

    def _wanted(self) -> Work:
        if self._value is None:
            self._value = yield self._work()
            self._is_taken()
        return self._value

    def _work(self) -> Work:
        raise NotImplementedError

    def _factors(self) -> Work:
        """As factors of a product: terms, and one known factor or none."""
        return [], (yield self._wanted())

    def _both_tables(self) -> tuple[Table, Table]:
        if self._tables is None:
            assert self._value is not None
            self._tables = Table(self._value), Table(self._value)
        return self._tables


class Inverse(Element):
    def _work(self) -> Work:
        return self.group._everywhere.invert((yield self._parts[0]._wanted()))


class Power(Element):
    def __init__(self, base: Element, exponent: int) -> None:
        self.exponent = exponent
        super().__init__(base.group, None, base)

    def _term(self) -> Work:
        base, = self._parts
        yield base._wanted()
        return Term(base._both_tables()[0], self.exponent)

    def _work(self) -> Work:
        return self.group._alone((yield self._term()))

    def _factors(self) -> Work:
        if self._value is not None:
            return [], self._value
        return [(yield self._term())], None


class Product(Element):
    def __init__(self, group: Group, value: int | None, *parts: Element) -> None:
        self._found: tuple[list[Term], int | None] | None = None  # known factors joined once
        super().__init__(group, value, *parts)

    def _work(self) -> Work:
        terms, constant = yield self._factors()
        return self.group._together(terms, constant) if terms else constant

    def _factors(self) -> Work:
        if self._value is not None:
            return [], self._value
        if self._found is None:
            left_terms, left_factor = yield self._parts[0]._factors()
            right_terms, right_factor = yield self._parts[1]._factors()
            if left_factor is not None and right_factor is not None:
                left_factor = self.group._everywhere.multiply(left_factor, right_factor)
            elif left_factor is None:
                left_factor = right_factor
            self._found = left_terms + right_terms, left_factor
        return self._found


# -- pairings ------------------------------------------------------------------------------------
@dataclass
class BilinearCounts:
    """Of both source groups (one, if the type is 1), of the target group, and of the map."""

    groups: list[Counts]
    pairings: int
    homomorphisms: int  # Elements of G2 mapped to G1, which only type 2 allows.

    def in_words(self) -> str:
        lines = [counts.in_words() for counts in self.groups]
        suffix = f", {many(self.homomorphisms, 'homomorphism')}" if self.homomorphisms else ""
        return "\n".join([*lines, f"{many(self.pairings, 'pairing')}{suffix}."])


class Bilinear:
    """Three groups and a pairing. Type 1: G1 is G2. Type 2: a homomorphism leads from G2 to G1.
    Type 3: none does."""

    def __init__(self, order: int, kind: int = 3, *, settings: Settings | None = None,
                 **changes: Any) -> None:
        if whole(kind, "the type of a pairing") not in (1, 2, 3):
            raise CountingError(f"a pairing is of type 1, 2 or 3, not {kind}")
        self.kind, self.order = kind, order

        def group(name: str) -> Group:
            return Group(order, name, settings=settings, **changes)

        self.g1 = group("G1")
        self.g2 = self.g1 if kind == 1 else group("G2")
        self.gt = group("GT")
        self._pairings = self._homomorphisms = 0

    @property
    def groups(self) -> tuple[Group, ...]:
        return (self.g1, self.gt) if self.kind == 1 else (self.g1, self.g2, self.gt)

    def pair(self, first: Element, second: Element) -> Element:
        return Pairing(self, self.g1.owned(first), self.g2.owned(second))

    def homomorphism(self, element: Element) -> Element:
        """From G2 to G1."""
        if self.kind != 2:
            raise CountingError(f"a pairing of type {self.kind} has no homomorphism from G2 to G1")
        return Homomorphism(self, self.g2.owned(element))

    def counts(self, *, allow_pending: bool = False) -> BilinearCounts:
        return BilinearCounts([group.counts(allow_pending=allow_pending) for group in self.groups],
                              self._pairings, self._homomorphisms)

    def reset(self, *, allow_pending: bool = False) -> None:
        self.counts(allow_pending=allow_pending)  # This fails before any group is reset.
        for group in self.groups:
            group.reset(allow_pending=True)
        self._pairings = self._homomorphisms = 0


class Pairing(Element):
    def __init__(self, bilinear: Bilinear, first: Element, second: Element) -> None:
        self.bilinear = bilinear
        super().__init__(bilinear.gt, None, first, second)

    def _work(self) -> Work:
        first, second = (yield self._parts[0]._wanted()), (yield self._parts[1]._wanted())
        self.bilinear._pairings += 1
        return first * second % self.bilinear.order


class Homomorphism(Element):
    def __init__(self, bilinear: Bilinear, element: Element) -> None:
        self.bilinear = bilinear
        super().__init__(bilinear.g1, None, element)

    def _work(self) -> Work:
        value = yield self._parts[0]._wanted()
        self.bilinear._homomorphisms += 1
        return value
