"""Bytes and flags of which z3 knows more than we do, and what can be true of them."""

from typing import TypeAlias

import z3

Byte: TypeAlias = "int | z3.BitVecRef"
Flag: TypeAlias = "bool | z3.BoolRef"
Bytes: TypeAlias = "list[Byte]"


def vector(value: Byte) -> z3.BitVecRef:
    return z3.BitVecVal(value, 8) if isinstance(value, int) else value


def join(pair: Bytes) -> z3.BitVecRef:
    return z3.Concat(vector(pair[1]), vector(pair[0]))


def halve(word: z3.BitVecRef) -> Bytes:
    return [z3.Extract(7, 0, word), z3.Extract(15, 8, word)]


def split(number: int) -> Bytes:
    return [number & 0xFF, number >> 8]


def unknown(prefix: str, count: int) -> Bytes:
    return [z3.BitVec(f"{prefix}{n}", 8) for n in range(count)]


def add(a: Byte, b: Byte, carry: Flag = False) -> tuple[Byte, Flag]:
    if isinstance(a, int) and isinstance(b, int) and isinstance(carry, bool):
        return (a + b + carry) & 0xFF, a + b + carry > 0xFF
    one = z3.If(carry, z3.BitVecVal(1, 9), z3.BitVecVal(0, 9))
    total = z3.ZeroExt(1, vector(a)) + z3.ZeroExt(1, vector(b)) + one
    return z3.Extract(7, 0, total), z3.Extract(8, 8, total) == 1


def subtract(a: Byte, b: Byte, borrow: Flag = False) -> tuple[Byte, Flag]:
    if isinstance(a, int) and isinstance(b, int) and isinstance(borrow, bool):
        return (a - b - borrow) & 0xFF, a - b - borrow < 0
    one = z3.If(borrow, z3.BitVecVal(1, 9), z3.BitVecVal(0, 9))
    total = z3.ZeroExt(1, vector(a)) - z3.ZeroExt(1, vector(b)) - one
    return z3.Extract(7, 0, total), z3.Extract(8, 8, total) == 1


def bit(a: Byte, number: int) -> Flag:
    return bool(a >> number & 1) if isinstance(a, int) else z3.Extract(number, number, a) == 1


def is_zero(a: Byte) -> Flag:
    return a == 0


def both(a: Flag, b: Flag) -> Flag:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return z3.And(a, b)


def negate(a: Flag) -> Flag:
    return not a if isinstance(a, bool) else z3.Not(a)


def choose(when: z3.BoolRef, a: Byte, b: Byte) -> Byte:
    same = a == b if isinstance(a, int) and isinstance(b, int) else a is b
    return a if same else z3.If(when, vector(a), vector(b))


def equal(some: Bytes, others: Bytes) -> z3.BoolRef:
    return z3.And(*(vector(a) == vector(b) for a, b in zip(some, others, strict=True)))


def widen(byte: Byte) -> z3.BitVecRef:
    return z3.ZeroExt(24, vector(byte))


def must(true: bool, message: str) -> None:
    if not true:
        raise SystemExit(f"paths: {message}")


ANSWERS: dict[tuple[int, ...], tuple[bool, tuple[Flag, ...]]] = {}


def feasible(*conditions: Flag) -> bool:
    """Can all of them be true? The turns of a loop ask the same again and again, so answers are
    kept. As long as an expression is in use, z3 has one copy of it: its number identifies it."""
    key = tuple(c if isinstance(c, bool) else c.get_id() for c in conditions)
    if key not in ANSWERS:
        solver = z3.SolverFor("QF_BV")
        solver.add(*conditions)
        answer = solver.check()
        must(answer != z3.unknown, f"z3 cannot say: {solver.reason_unknown()}")
        ANSWERS[key] = bool(answer == z3.sat), conditions
    return ANSWERS[key][0]
