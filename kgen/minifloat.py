"""Floating-point types of at most 16 bits as numbers: tables, rounding, packing. Knows no kernel.

Everything follows from `FloatBits`; numpy only.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kgen.dtypes import DType, FloatBits, dtype


def _layout(kind: DType) -> FloatBits:
    bits = kind.float_bits
    if bits is None or kind.bits > 16:
        raise ValueError(f"{kind.name} is no floating-point type of at most 16 bits")
    return bits


@cache
def table(name: str) -> np.ndarray:
    """The value of every bit pattern of a type, float64 (2**bits,); read-only.

    Raises  ValueError for an integer type or one of more than 16 bits
    """
    kind = dtype(name)
    form = _layout(kind)
    patterns = np.arange(1 << kind.bits)
    fraction = patterns & ((1 << form.fraction) - 1)
    exponent = patterns >> form.fraction & ((1 << form.exponent) - 1)
    normal = (exponent > 0) | (not form.subnormals)
    significand = fraction / 2.0**form.fraction + normal
    power = np.where(normal, exponent, 1) - form.bias
    values = np.ldexp(significand, power)
    top = exponent == (1 << form.exponent) - 1
    if form.specials == "ieee":
        values[top] = np.where(fraction[top] == 0, np.inf, np.nan)
    if form.specials == "nan":
        values[top & (fraction == (1 << form.fraction) - 1)] = np.nan
    if form.signed:
        values = np.where(patterns >> (kind.bits - 1) & 1, -values, values)
    values.setflags(write=False)
    return values


@cache
def _numbers(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The finite values from 0 (or the smallest) up, and their bit patterns."""
    values = table(name)
    form = _layout(dtype(name))
    patterns = np.flatnonzero(np.isfinite(values))
    # Neither the negative ones nor, in ue4m3, those with the unused top bit set.
    patterns = patterns[patterns < 1 << (form.exponent + form.fraction)]
    return values[patterns], patterns


def encode(values: np.ndarray, name: str) -> np.ndarray:
    """Bit patterns of values rounded to nearest, ties to the even pattern, saturating.

    Shapes  any; the result has the same, uint8 or uint16, one pattern an element
    A magnitude beyond the largest finite value becomes that value, also an infinity; a value below
    the smallest one of a type without zero or sign becomes the smallest. NaN becomes a NaN.
    Raises  ValueError for a NaN in a type that has none
    """
    kind = dtype(name)
    form = _layout(kind)
    numbers, patterns = _numbers(name)
    wide = np.asarray(values, "float64")
    size = np.abs(wide) if form.signed else np.maximum(wide, 0.0)
    nan = np.isnan(wide)
    size = np.where(nan, 0.0, np.minimum(size, numbers[-1]))
    above = np.clip(np.searchsorted(numbers, size), 1, len(numbers) - 1)
    low, high = numbers[above - 1], numbers[above]
    # All types here have so few bits that the middle of two neighbours is exact in float64.
    middle = (low + high) / 2
    even_is_high = patterns[above] % 2 == 0
    up = (size > middle) | ((size == middle) & even_is_high)
    found = patterns[np.where(up, above, above - 1)]
    if form.signed:
        found = found | (np.signbit(wide) & ~nan).astype(found.dtype) << (kind.bits - 1)
    if nan.any():
        if form.specials == "none":
            raise ValueError(f"{name} has no NaN")
        found = np.where(nan, np.flatnonzero(np.isnan(table(name)))[0], found)
    return found.astype("uint8" if kind.bits <= 8 else "uint16")


def decode(patterns: np.ndarray, name: str) -> np.ndarray:
    """Values of bit patterns, float32, which holds every value of these types.

    Shapes  any; one pattern an element, so fp4 must be unpacked first
    """
    return table(name)[patterns].astype("float32")


def pack_pairs(patterns: np.ndarray) -> np.ndarray:
    """4-bit patterns (..., K) to bytes (..., K/2): the element of even K in the low half.

    Raises  ValueError if K is odd
    """
    if patterns.shape[-1] % 2:
        raise ValueError(f"{patterns.shape[-1]} elements of 4 bits end inside a byte")
    return (patterns[..., 0::2] | patterns[..., 1::2] << 4).astype("uint8")


def unpack_pairs(packed: np.ndarray) -> np.ndarray:
    """Bytes (..., K/2) to 4-bit patterns (..., K), the reverse of `pack_pairs`."""
    halves = np.stack([packed & 15, packed >> 4], axis=-1)
    return halves.reshape(*packed.shape[:-1], -1).astype("uint8")
