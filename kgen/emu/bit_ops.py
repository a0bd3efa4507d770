"""Integer instructions that move bits and bytes: prmt, lop3, bmsk, szext, and the dot products.

Source  PTX ISA 9.7.1 (integer arithmetic), 9.7.8 (logic and shift), 9.7.9 (prmt)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Row = np.ndarray


def permute(a: Row, b: Row, selector: Row) -> Row:
    """prmt, default mode: four selected bytes of {b, a}; bit 3 of a selector replicates the byte's
    sign.
    """
    both = (b.astype(np.uint64) << np.uint64(32)) | a
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint32)
    for index in range(4):
        choice = (selector >> np.uint32(4 * index)) & np.uint32(15)
        byte = (both >> ((choice & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(
            0xFF
        )
        sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        byte = np.where(choice & np.uint32(8), sign, byte).astype(np.uint32)
        result |= byte << np.uint32(8 * index)
    return result


def lookup3(a: Row, b: Row, c: Row, table: Row) -> Row:
    """lop3: bit i of the result is table[4 a_i + 2 b_i + c_i]."""
    result = np.zeros_like(a | b | c)
    for index in range(8):
        term = (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
        chosen = (table >> np.uint32(index)) & np.uint32(1)
        result |= np.where(chosen != 0, term, np.uint32(0))
    return result


def _replicated(byte: Callable[[Row], list[Row]]) -> Callable[[Row, Row, Row], Row]:
    """A mode of prmt: `byte` turns the selector (0..3) into the four byte numbers of {b, a}."""

    def run(a: Row, b: Row, selector: Row) -> Row:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), np.uint32)
        for index, number in enumerate(byte(selector & np.uint32(3))):
            shift = (number & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            chosen = ((both >> shift) & np.uint64(0xFF)).astype(np.uint32)
            result |= chosen << np.uint32(8 * index)
        return result

    return run


def _clipped_edges(selector: Row, left: bool) -> list[Row]:
    """ecl repeats the byte at the selector to its right, ecr to its left."""
    bound = np.maximum if left else np.minimum
    return [bound(selector, np.uint32(index)) for index in range(4)]


PERMUTE_MODES: dict[str, Callable[[Row, Row, Row], Row]] = {
    "f4e": _replicated(lambda s: [s + np.uint32(i) for i in range(4)]),
    "b4e": _replicated(lambda s: [s - np.uint32(i) for i in range(4)]),
    "rc8": _replicated(lambda s: [s] * 4),
    "ecl": _replicated(lambda s: _clipped_edges(s, True)),
    "ecr": _replicated(lambda s: _clipped_edges(s, False)),
    "rc16": _replicated(
        lambda s: [(s & np.uint32(1)) * np.uint32(2) + np.uint32(i & 1) for i in range(4)]
    ),
}


def bit_mask(position: Row, length: Row, wrap: bool) -> Row:
    """bmsk: `length` ones from `position`; .clamp limits both to 32, .wrap takes them modulo 32."""
    if wrap:
        position, length = position & np.uint32(31), length & np.uint32(31)
    start = np.minimum(position, 32).astype(np.uint64)
    size = np.minimum(length, 32).astype(np.uint64)
    return ((((np.uint64(1) << size) - np.uint64(1)) << start) & np.uint64(0xFFFFFFFF)).astype(
        np.uint32
    )


def extend(a: Row, bits: Row, wrap: bool) -> Row:
    """szext: a as an integer of `bits` bits, sign- or zero-extended."""
    size = (bits & np.uint32(31)) if wrap else np.minimum(bits, 32)
    signed = a.dtype.kind == "i"

    def one(value: int, width: int) -> int:
        field = value & ((1 << width) - 1)
        return field - (1 << width) if signed and width and field >> (width - 1) else field

    result = np.frompyfunc(one, 2, 1)(a.astype(object), size.astype(object))
    return np.asarray(result, object).astype(a.dtype)


def dot_product(a_signed: bool, b_signed: bool, halves: int) -> Callable[[Row, Row, Row], Row]:
    """dp4a (halves = -1) and dp2a (halves 0: .lo, 1: .hi): c plus the sum of the products of packed
    elements.
    """

    def field(row: Row, index: int, bits: int, signed: bool) -> Row:
        value = (row >> np.uint32(index * bits)).astype(f"u{bits // 8}")
        return (value.view(f"i{bits // 8}") if signed else value).astype(np.int64)

    def run(a: Row, b: Row, c: Row) -> Row:
        total = c.astype(np.int64)
        count, width = (4, 8) if halves < 0 else (2, 16)
        for index in range(count):
            other = index if halves < 0 else index + 2 * halves
            total = total + field(a, index, width, a_signed) * field(b, other, 8, b_signed)
        return (total & 0xFFFFFFFF).astype(np.uint32)

    return run
