"""Integer instructions of PTX as numpy functions; arguments already have the numpy type of the
operand.

INTEGER maps a form, e.g. "mul.hi", to (function, number of sources, {operand index: its own PTX
type});
index -1 is the result. WIDE holds the forms whose result is twice as wide.
Source  PTX ISA chapter 9.7.1 (integer arithmetic), 9.7.2 (extended precision), 9.7.8 (logic and
        shift)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kgen.emu.bit_ops import bit_mask, extend, lookup3, permute

Row = np.ndarray


def _bits(a: Row) -> int:
    return a.dtype.itemsize * 8


def _unsigned(a: Row) -> Row:
    return a.view(f"u{a.dtype.itemsize}")


def _wider(a: Row) -> Row:
    return a.astype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")


def multiply_high(a: Row, b: Row) -> Row:
    """The upper half of the double-width product."""
    bits = _bits(a)
    if bits < 64:
        return (_wider(a) * _wider(b) >> bits).astype(a.dtype)
    product = a.astype(object) * b.astype(object)
    return (
        np.array([int(v) >> 64 for v in np.ravel(product)], object)
        .astype(a.dtype)
        .reshape(np.shape(product))
    )


def divide(a: Row, b: Row) -> Row:
    """Quotient rounded towards zero; division by zero gives all ones, as the hardware does."""
    zero = b == 0
    divisor = np.where(zero, b.dtype.type(1), b)
    quotient = a // divisor
    if a.dtype.kind == "i":
        inexact = quotient * divisor != a
        quotient = quotient + (inexact & ((a < 0) != (divisor < 0))).astype(a.dtype)
    ones = a.dtype.type(-1 if a.dtype.kind == "i" else np.iinfo(a.dtype).max)
    return np.where(zero, ones, quotient)


def remainder(a: Row, b: Row) -> Row:
    """a - b * (a / b), with the sign of a; the remainder of a division by zero is a."""
    return np.where(b == 0, a, a - divide(a, b) * b)


def shift_left(a: Row, count: Row) -> Row:
    """Counts above the width give zero."""
    bits = _bits(a)
    amount = np.minimum(count, bits - 1).astype(a.dtype)
    return np.where(count >= bits, a.dtype.type(0), a << amount)


def shift_right(a: Row, count: Row) -> Row:
    """Counts above the width give the sign (s types) or zero."""
    bits = _bits(a)
    amount = np.minimum(count, bits - 1).astype(a.dtype)
    shifted = a >> amount
    return shifted if a.dtype.kind == "i" else np.where(count >= bits, a.dtype.type(0), shifted)


def funnel_left(low: Row, high: Row, count: Row, wrap: bool) -> Row:
    """shf.l: the upper 32 bits of {high, low} << n."""
    n = (count & np.uint32(31)) if wrap else np.minimum(count, 32)
    both = (high.astype(np.uint64) << np.uint64(32)) | low
    return ((both << n.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)


def funnel_right(low: Row, high: Row, count: Row, wrap: bool) -> Row:
    """shf.r: the lower 32 bits of {high, low} >> n."""
    n = (count & np.uint32(31)) if wrap else np.minimum(count, 32)
    both = (high.astype(np.uint64) << np.uint64(32)) | low
    return (both >> n.astype(np.uint64)).astype(np.uint32)


def _low_mask(length: Row, bits: int) -> Row:
    """`length` ones, length already clamped to `bits`."""
    full = np.uint64((1 << bits) - 1)
    shift = np.minimum(length, 63).astype(np.uint64)
    return np.where(length >= bits, full, (np.uint64(1) << shift) - np.uint64(1))


def insert(a: Row, b: Row, position: Row, length: Row) -> Row:
    """bfi: b with `length` bits of a at `position`; both counts are taken modulo 256."""
    bits = _bits(a)
    start = (position & np.uint32(255)).astype(np.uint64)
    size = np.minimum(length & np.uint32(255), bits)
    mask = _low_mask(size, bits)
    inside = start < bits
    shift = np.minimum(start, np.uint64(bits - 1))
    field = (mask << shift) & np.uint64((1 << bits) - 1)
    result = (b & ~field) | ((a.astype(np.uint64) << shift) & field)
    return np.where(inside, result, b).astype(a.dtype)


def extract(a: Row, position: Row, length: Row) -> Row:
    """bfe: `length` bits of a from `position`, zero- or sign-extended."""
    bits = _bits(a)
    start = np.minimum(position & np.uint32(255), bits).astype(object)
    size = np.minimum(length & np.uint32(255), bits).astype(object)
    signed = a.dtype.kind == "i"

    def one(value: int, at: int, count: int) -> int:
        if count == 0:
            return 0
        top = min(at + count - 1, bits - 1)
        field = (value & ((1 << bits) - 1)) >> at & ((1 << (top - at + 1)) - 1) if at < bits else 0
        if signed and value >> top & 1:
            field |= -1 << max(top - at + 1, 0)
        return field if signed else field & ((1 << bits) - 1)

    result = np.frompyfunc(one, 3, 1)(a.astype(object), start, size)
    return np.asarray(result, object).astype(a.dtype)


def _per_value(function: Callable[[int, int], int]) -> Callable[[Row], Row]:
    """An elementwise function of (value as unsigned int, width) with a 32-bit result."""

    def run(a: Row) -> Row:
        bits = _bits(a)
        result = np.frompyfunc(lambda v: function(int(v), bits), 1, 1)(
            _unsigned(np.ascontiguousarray(a))
        )
        return np.asarray(result, object).astype(np.uint64)

    return run


def find_leading(a: Row) -> Row:
    """bfind: position of the highest bit that is not the sign; all ones if there is none."""
    value = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    result = np.frompyfunc(lambda v: (int(v).bit_length() - 1) & 0xFFFFFFFF, 1, 1)(value)
    return np.asarray(result, object).astype(np.uint64)


def add_saturated(a: Row, b: Row) -> Row:
    """add.sat.s32"""
    return np.clip(a.astype(np.int64) + b, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def subtract_saturated(a: Row, b: Row) -> Row:
    """sub.sat.s32"""
    return np.clip(a.astype(np.int64) - b, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def multiply_24(a: Row, b: Row, high: bool) -> Row:
    """mul24: the 48-bit product of the low 24 bits; .lo are its low 32 bits, .hi bits 16 to 47."""
    if a.dtype.kind == "i":
        a, b = (((v << 8) >> 8).astype(np.int64) for v in (a, b))
    else:
        a, b = ((v & np.uint32(0xFFFFFF)).astype(np.uint64) for v in (a, b))
    product = a * b
    return (product >> product.dtype.type(16) if high else product).astype(np.uint32)


def negate(a: Row) -> Row:
    return np.zeros_like(a) - a


_SHIFT = {1: "u32"}
_COUNT_RESULT = {-1: "u32"}

INTEGER: dict[str, tuple[Callable[..., Row], int, dict[int, str]]] = {
    "add": (np.add, 2, {}),
    "sub": (np.subtract, 2, {}),
    "mul.lo": (np.multiply, 2, {}),
    "mul.hi": (multiply_high, 2, {}),
    "mad.lo": (lambda a, b, c: a * b + c, 3, {}),
    "mad.hi": (lambda a, b, c: multiply_high(a, b) + c, 3, {}),
    "div": (divide, 2, {}),
    "rem": (remainder, 2, {}),
    "abs": (np.abs, 1, {}),
    "neg": (negate, 1, {}),
    "min": (np.minimum, 2, {}),
    "max": (np.maximum, 2, {}),
    "sad": (lambda a, b, c: c + (np.maximum(a, b) - np.minimum(a, b)), 3, {}),
    "and": (np.bitwise_and, 2, {}),
    "or": (np.bitwise_or, 2, {}),
    "xor": (np.bitwise_xor, 2, {}),
    "not": (np.invert, 1, {}),
    "cnot": (lambda a: (a == 0).astype(a.dtype), 1, {}),
    "shl": (shift_left, 2, _SHIFT),
    "shr": (shift_right, 2, _SHIFT),
    "shf.l.wrap": (lambda a, b, c: funnel_left(a, b, c, True), 3, {2: "u32"}),
    "shf.l.clamp": (lambda a, b, c: funnel_left(a, b, c, False), 3, {2: "u32"}),
    "shf.r.wrap": (lambda a, b, c: funnel_right(a, b, c, True), 3, {2: "u32"}),
    "shf.r.clamp": (lambda a, b, c: funnel_right(a, b, c, False), 3, {2: "u32"}),
    "bfi": (insert, 4, {2: "u32", 3: "u32"}),
    "bfe": (extract, 3, {1: "u32", 2: "u32"}),
    "brev": (_per_value(lambda v, bits: int(f"{v:0{bits}b}"[::-1], 2)), 1, {}),
    "popc": (_per_value(lambda v, bits: v.bit_count()), 1, _COUNT_RESULT),
    "clz": (_per_value(lambda v, bits: bits - v.bit_length()), 1, _COUNT_RESULT),
    "bfind": (find_leading, 1, _COUNT_RESULT),
    "prmt": (permute, 3, {}),
    "add.sat": (add_saturated, 2, {}),
    "sub.sat": (subtract_saturated, 2, {}),
    "mul24.lo": (lambda a, b: multiply_24(a, b, False), 2, {}),
    "mul24.hi": (lambda a, b: multiply_24(a, b, True), 2, {}),
    "bmsk.clamp": (lambda a, b: bit_mask(a, b, False), 2, {}),
    "bmsk.wrap": (lambda a, b: bit_mask(a, b, True), 2, {}),
    "szext.clamp": (lambda a, b: extend(a, b, False), 2, {1: "u32"}),
    "szext.wrap": (lambda a, b: extend(a, b, True), 2, {1: "u32"}),
    "lop3": (lookup3, 4, {3: "u32"}),
}

WIDE: dict[str, Callable[..., Row]] = {
    "mul": lambda a, b: _wider(a) * _wider(b),
    "mad": lambda a, b, c: _wider(a) * _wider(b) + c,
}
