"""Packed registers and floating-point ALU operations of PTX that numpy does not have.

A packed register holds its element 0 in the low bits.
Source of the operand order: PTX ISA, cvt and the f16x2 instructions.
"""

from __future__ import annotations

import numpy as np

from kgen.emu.numerics import (
    BF16,
    E4M3,
    E5M2,
    F16,
    FORMATS,
    FloatFormat,
    Rounding,
    canonical_nan,
    decode,
    encode,
)

_PACKED = {"f16x2": F16, "bf16x2": BF16, "e4m3x2": E4M3, "e5m2x2": E5M2}


def unpack(words: np.ndarray, element_bits: int) -> np.ndarray:
    """uint32 (..., lanes) -> unsigned elements (..., 32 / element_bits, lanes), element 0 first."""
    words = np.asarray(words, np.uint32)
    dtype = np.dtype(f"u{element_bits // 8}")
    shifts = np.arange(0, 32, element_bits, dtype=np.uint32)[:, None]
    return (words[..., None, :] >> shifts).astype(dtype)


def pack(elements: np.ndarray) -> np.ndarray:
    """Unsigned elements (..., 32 / element_bits, lanes) -> uint32 (..., lanes): unpack inverted."""
    bits = elements.dtype.itemsize * 8
    words = np.zeros(elements.shape[:-2] + elements.shape[-1:], np.uint32)
    for i in range(elements.shape[-2]):
        words |= elements[..., i, :].astype(np.uint32) << np.uint32(bits * i)
    return words


def cvt_pack(
    high: np.ndarray,
    low: np.ndarray,
    packed: str,
    rounding: Rounding = "rn",
    *,
    satfinite: bool = False,
    relu: bool = False,
) -> np.ndarray:
    """cvt to f16x2, bf16x2 (result uint32), e4m3x2 or e5m2x2 (result uint16).

    The first source operand of the instruction is `high`. The 8-bit forms always saturate.
    """
    fmt = _PACKED[packed]
    satfinite = satfinite or fmt.bits == 8
    hi = encode(high, fmt, rounding, satfinite=satfinite, relu=relu)
    lo = encode(low, fmt, rounding, satfinite=satfinite, relu=relu)
    dtype = np.uint32 if fmt.bits == 16 else np.uint16
    return (hi.astype(dtype) << dtype(fmt.bits)) | lo


def cvt_unpack(words: np.ndarray, packed: str) -> tuple[np.ndarray, np.ndarray]:
    """Packed pair -> (high, low) as float32, exactly."""
    fmt = _PACKED[packed]
    words = np.asarray(words, np.uint32)
    mask = np.uint32((1 << fmt.bits) - 1)
    low = (words & mask).astype(fmt.unsigned)
    high = ((words >> np.uint32(fmt.bits)) & mask).astype(fmt.unsigned)
    return decode(high, fmt), decode(low, fmt)


def cvt_fp8_to_f16x2(words: np.ndarray, packed: str, *, relu: bool = False) -> np.ndarray:
    """cvt.rn.f16x2.e4m3x2 / .e5m2x2: uint16 pair -> uint32 pair of f16, exact."""
    high, low = cvt_unpack(words, packed)
    return cvt_pack(high, low, "f16x2", relu=relu)


# ---------------------------------------------------------------- arithmetic rounded once


def _round_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b in float64, rounded to odd: one more rounding, to fewer than 52 bits, is correct."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    word = np.asarray(total).view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & (word & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, word + step, word).view(np.float64)


def fma(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    fmt: FloatFormat | str = "f32",
    rounding: Rounding = "rn",
) -> np.ndarray:
    """fma on float32 arrays whose values belong to fmt (f32, f16, bf16); float32 result.

    The product of two such values is exact in float64; the sum is rounded to odd first, which
    makes the second rounding the only one that counts.
    """
    fmt = FORMATS[fmt] if isinstance(fmt, str) else fmt
    with np.errstate(all="ignore"):
        product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
        wide = _round_to_odd(*np.broadcast_arrays(product, np.asarray(c, np.float64)))
    return round_to_format(wide, fmt, rounding)


def round_to_format(x: np.ndarray, fmt: FloatFormat | str, rounding: Rounding = "rn") -> np.ndarray:
    """Nearest value of fmt, as float32."""
    fmt = FORMATS[fmt] if isinstance(fmt, str) else fmt
    if fmt.name == "f32" and rounding == "rn":
        with np.errstate(all="ignore"):
            return canonical_nan(np.asarray(x).astype(np.float32))
    return decode(encode(x, fmt, rounding), fmt)


def half_op(op: str, fmt: FloatFormat | str, *bits: np.ndarray) -> np.ndarray:
    """add, sub, mul, fma, min, max, neg, abs of f16 or bf16 bit patterns (uint16 arrays), .rn.

    add, sub and mul go through float64, which has more than 2p + 2 bits, so that rounding twice
    equals rounding once; min and max are `minmax`.
    """
    fmt = FORMATS[fmt] if isinstance(fmt, str) else fmt
    first = np.asarray(bits[0], np.uint16)
    if op == "neg":
        return first ^ np.uint16(0x8000)
    if op == "abs":
        return first & np.uint16(0x7FFF)
    values = [decode(b, fmt) for b in bits]
    with np.errstate(all="ignore"):
        match op:
            case "add":
                result = values[0].astype(np.float64) + values[1]
            case "sub":
                result = values[0].astype(np.float64) - values[1]
            case "mul":
                result = values[0].astype(np.float64) * values[1]
            case "fma":
                result = fma(values[0], values[1], values[2], fmt)
            case "min" | "max":
                result = minmax(op, values[0], values[1])
            case _:
                raise ValueError(f"half operation {op!r}")
    return encode(result, fmt)


def minmax(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """PTX min / max of floats: a NaN operand loses, -0 is less than +0, two NaN give NaN.

    Source  PTX ISA, min and max
    """
    lower = op == "min"
    pick = np.fmin(a, b) if lower else np.fmax(a, b)
    zeros = (a == 0) & (b == 0)
    if np.any(zeros):
        sign = np.signbit(a) | np.signbit(b) if lower else np.signbit(a) & np.signbit(b)
        pick = np.where(zeros, np.where(sign, -0.0, 0.0).astype(pick.dtype), pick)
    return pick


def half2_op(op: str, fmt: FloatFormat | str, *words: np.ndarray) -> np.ndarray:
    """The packed forms (f16x2, bf16x2): uint32 words, both halves independently."""
    parts = [np.asarray(w, np.uint32) for w in words]
    low = half_op(op, fmt, *[(w & np.uint32(0xFFFF)).astype(np.uint16) for w in parts])
    high = half_op(op, fmt, *[(w >> np.uint32(16)).astype(np.uint16) for w in parts])
    return (high.astype(np.uint32) << np.uint32(16)) | low
