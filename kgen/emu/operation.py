"""The frame of an ALU instruction: operand types, and how register contents become values and back.

A row is a numpy array of unsigned register contents: uint32 for registers of up to 32 bits (narrow
ones are zero-extended), uint64 for 64-bit registers, bool for predicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.emu import numerics

Row = np.ndarray
CANONICAL_NAN = np.uint32(0x7FFFFFFF)  # what every f32 instruction makes of a NaN
Function = Callable[..., Row]


@dataclass(frozen=True)
class Operation:
    """`run(*source rows) -> result row`; types are PTX types such as s32, b64, pred, f16x2."""

    result: str
    sources: tuple[str, ...]
    run: Function


def bits_of(kind: str) -> int:
    """Width of a PTX type in bits; predicates count as 1."""
    if kind == "pred":
        return 1
    match = re.fullmatch(r"(?:[a-z]|bf|tf|e4m|e5m)(\d+)(x2)?", kind)
    if kind in ("e4m3x2", "e5m2x2"):
        return 16
    if kind == "tf32" or match is None:
        return 32
    return int(match.group(1)) * (2 if match.group(2) else 1)


def read(row: Row, kind: str) -> Row:
    """Register contents -> values of a numpy type (integers and floats), or raw bits (b types)."""
    if kind == "pred":
        return row
    bits = bits_of(kind)
    raw = row.astype(f"u{bits // 8}", copy=False)
    if kind[0] == "s":
        return raw.view(f"i{bits // 8}")
    if kind in ("f32", "f64"):
        return raw.view(f"f{bits // 8}")
    if kind in ("f16", "bf16"):
        return numerics.decode(raw, kind)
    return raw


def write(value: Row, kind: str) -> Row:
    """Values -> register contents."""
    if kind == "pred":
        return value
    if kind == "s8":  # registers have at least 16 bits: the sign is extended
        return np.asarray(value, np.int8).astype(np.int32).view(np.uint32)
    bits = bits_of(kind)
    if kind in ("f32", "f64"):
        raw = np.asarray(value, f"f{bits // 8}").view(f"u{bits // 8}")
        if kind == "f32" and np.isnan(value).any():
            raw = np.where(np.isnan(value), CANONICAL_NAN, raw)
    elif kind in ("f16", "bf16"):
        raw = numerics.encode(value, kind)
    else:
        raw = np.asarray(value).astype(f"u{bits // 8}", copy=False)
    return raw.astype(np.uint64 if bits == 64 else np.uint32, copy=False)


def typed(result: str, sources: tuple[str, ...], function: Function) -> Operation:
    def run(*rows: Row) -> Row:
        with np.errstate(all="ignore"):
            return write(
                function(*[read(row, kind) for row, kind in zip(rows, sources, strict=True)]),
                result,
            )

    return Operation(result, sources, run)


INTEGER_TYPE = re.compile(r"[busr](8|16|32|64)")
