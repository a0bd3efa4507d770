"""Floating-point instructions: f32, f64, f16, bf16 and the packed pairs.

Source  PTX ISA 9.7.3 (floating point), 9.7.4 (half precision). Approximate forms are computed
        exactly.
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

import numpy as np

from kgen.emu import alu, numerics
from kgen.emu.operation import Function, Operation, Row, typed


def half_operation(root: str, options: list[str], kind: str) -> Operation | None:
    """An instruction on f16, bf16 or a packed pair of them."""
    counts = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "min": 2, "max": 2, "neg": 1, "abs": 1}
    relu = options == ["relu"] and root == "fma"
    if root not in counts or (options and not relu):
        return None
    packed = kind.endswith("x2")
    name = kind.removesuffix("x2")

    def run(*rows: Row) -> Row:
        if packed:
            words = alu.half2_op(root, name, *rows)
        else:
            halves = [row.astype(np.uint16) for row in rows]
            words = alu.half_op(root, name, *halves).astype(np.uint32)
        if root in ("neg", "abs"):
            return _canonical_nans(words, name)
        return _without_negatives(words, name) if relu else words

    return Operation(kind, (kind,) * counts[root], run)


def _canonical_nans(words: Row, name: str) -> Row:
    """neg and abs: NaN halves become the canonical NaN."""
    infinity = 0x7C00 if name == "f16" else 0x7F80
    result = words.copy()
    for shift in (0, 16):
        is_nan = ((words >> np.uint32(shift)) & np.uint32(0x7FFF)) > infinity
        cleared = (result & ~np.uint32(0xFFFF << shift)) | np.uint32(0x7FFF << shift)
        result = np.where(is_nan, cleared, result)
    return result


def _without_negatives(words: Row, name: str) -> Row:
    """.relu: negative halves become +0; NaN becomes the canonical NaN."""
    nan = 0x7FFF
    infinity = 0x7C00 if name == "f16" else 0x7F80
    result = words.copy()
    for shift in (0, 16):
        half = (words >> np.uint32(shift)) & np.uint32(0xFFFF)
        is_nan = (half & np.uint32(nan)) > infinity
        positive = np.where(half >> np.uint32(15), np.uint32(0), half)
        clamped = np.where(is_nan, np.uint32(nan), positive).astype(np.uint32)
        result = (result & ~np.uint32(0xFFFF << shift)) | (clamped << np.uint32(shift))
    return result


_FLOAT: dict[str, tuple[Function, int]] = {
    "add": (np.add, 2),
    "sub": (np.subtract, 2),
    "mul": (np.multiply, 2),
    "div": (np.divide, 2),
    "neg": (np.negative, 1),
    "abs": (np.abs, 1),
    "sqrt": (np.sqrt, 1),
    "rcp": (lambda a: 1 / a, 1),
    "rsqrt": (lambda a: 1 / np.sqrt(a), 1),
    "ex2": (np.exp2, 1),
    "lg2": (np.log2, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tanh": (np.tanh, 1),
}


def _fma(a: Row, b: Row, c: Row, rounding: numerics.Rounding) -> Row:
    """alu.fma, where rounding down makes an exact zero sum of different signs negative."""
    result = alu.fma(a, b, c, "f32", rounding)
    if rounding == "rm":
        product = a.astype(np.float64) * b
        negative = (product + c == 0) & (np.signbit(product) | np.signbit(c))
        result = np.where(negative, np.float32(-0.0), result)
    return result


def _rounded(root: str, rounding: numerics.Rounding) -> tuple[Function, int] | None:
    """add, sub, mul and fma of f32 under any rounding: one fma that is rounded once."""
    forms: dict[str, tuple[Function, int]] = {
        "add": (lambda a, b: _fma(a, np.ones_like(a), b, rounding), 2),
        "sub": (lambda a, b: _fma(a, np.ones_like(a), -b, rounding), 2),
        "mul": (lambda a, b: alu.fma(a, b, np.full_like(a, -0.0), "f32", rounding), 2),
        "fma": (lambda a, b, c: _fma(a, b, c, rounding), 3),
    }
    return forms.get(root)


def _fma_f64(a: Row, b: Row, c: Row) -> Row:
    """Rounded once, by exact rational arithmetic."""

    def one(x: float, y: float, z: float) -> float:
        if not all(map(isfinite, (x, y, z))) or x == 0 or y == 0:
            return x * y + z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        try:
            return float(exact) if exact else x * y + z
        except OverflowError:
            return float("inf") if exact > 0 else float("-inf")

    result = np.frompyfunc(one, 3, 1)(*np.broadcast_arrays(a, b, c))
    return np.asarray(result, object).astype(np.float64)


def saturate(values: Row) -> Row:
    """0..1; NaN and -0 become +0."""
    return np.clip(np.nan_to_num(values, nan=0.0), 0, 1) + np.float32(0)


def _saturated(function: Function) -> Function:
    """.sat: results are clamped to 0..1, NaN becomes 0."""
    return lambda *values: saturate(function(*values))


def _copy_sign(a: Row, b: Row) -> Row:
    """copysign d, a, b: b with the sign of a, NaN untouched."""
    sign = a.dtype.type(1 << (a.dtype.itemsize * 8 - 1))
    return (a & sign) | (b & ~sign)


def _minmax_nan(root: str, a: Row, b: Row) -> Row:
    """min.NaN, max.NaN: a NaN operand gives the canonical NaN."""
    canonical = np.array(0x7FFFFFFF, np.uint32).view(np.float32)
    return np.where(np.isnan(a) | np.isnan(b), canonical, alu.minmax(root, a, b))


def _flush(words: Row) -> Row:
    """Subnormal f32 bits become zeros of the same sign."""
    return np.where(words & np.uint32(0x7F800000), words, words & np.uint32(0x80000000))


def _flushed(plain: Operation) -> Operation:
    """.ftz: subnormal sources and results are flushed."""

    def run(*rows: Row) -> Row:
        flushed = [
            _flush(row) if kind == "f32" else row
            for row, kind in zip(rows, plain.sources, strict=True)
        ]
        return _flush(plain.run(*flushed))

    return Operation(plain.result, plain.sources, run)


def float_operation(root: str, options: list[str], kind: str) -> Operation | None:
    """An instruction on f32 or f64; `options` are the modifiers without .rn and .ftz."""
    if root == "copysign" and not options:
        raw = f"b{kind[1:]}"
        return typed(raw, (raw, raw), _copy_sign)
    if root in ("min", "max"):
        if options == ["NaN"] and kind == "f32":
            return typed(kind, (kind, kind), lambda a, b: _minmax_nan(root, a, b))
        return (
            typed(kind, (kind, kind), lambda a, b: alu.minmax(root, a, b)) if not options else None
        )
    saturates = "sat" in options
    if "ftz" in options:
        plain = float_operation(root, [o for o in options if o != "ftz"], kind)
        return None if plain is None else _flushed(plain)
    directed = next((o for o in options if o in ("rz", "rm", "rp")), None)
    others = [o for o in options if o not in ("sat", directed)]
    if root == "fma" and kind == "f64" and not options:
        return typed(kind, (kind,) * 3, _fma_f64)
    if directed is not None or root == "fma":
        found = _rounded(root, directed or "rn")  # type: ignore[arg-type]
        if kind != "f32" or others or found is None:
            return None
        function, count = found
    elif root in _FLOAT and all(option in ("approx", "full") for option in others):
        function, count = _FLOAT[root]
    else:
        return None
    return typed(kind, (kind,) * count, _saturated(function) if saturates else function)


FLOAT_ROOTS = (*_FLOAT, "fma", "min", "max", "copysign")
