"""Number formats of PTX and their conversions.

Bits are numpy unsigned arrays, values are float32 (integers: int32). Everything is elementwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

Rounding = Literal["rn", "rna", "rz", "rm", "rp"]


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format narrower than or as wide as f32.

    max_finite and nan are bit patterns; a format without infinities overflows to nan.
    tf32 lives in the upper 19 bits of a 32-bit container; `container_shift` counts the bits below.
    Source  PTX ISA, alternate floating-point data formats; OCP 8-bit floating point (e4m3, e5m2)
    """

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    max_finite: int
    nan: int
    has_inf: bool = True
    container_shift: int = 0

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def unsigned(self) -> type[np.unsignedinteger]:
        """The container type of the bits."""
        return {8: np.uint8, 16: np.uint16, 32: np.uint32}[self.bits]


F32 = FloatFormat("f32", 32, 8, 23, 0x7F7FFFFF, 0x7FFFFFFF)
F16 = FloatFormat("f16", 16, 5, 10, 0x7BFF, 0x7FFF)
BF16 = FloatFormat("bf16", 16, 8, 7, 0x7F7F, 0x7FFF)
TF32 = FloatFormat("tf32", 32, 8, 10, 0x3FBFF, 0x3FFFF, container_shift=13)
E4M3 = FloatFormat("e4m3", 8, 4, 3, 0x7E, 0x7F, has_inf=False)
E5M2 = FloatFormat("e5m2", 8, 5, 2, 0x7B, 0x7F)
FORMATS = {f.name: f for f in (F32, F16, BF16, TF32, E4M3, E5M2)}


def _format(fmt: FloatFormat | str) -> FloatFormat:
    return FORMATS[fmt] if isinstance(fmt, str) else fmt


# ---------------------------------------------------------------- bits -> values


@cache
def _table8(name: str) -> np.ndarray:
    """float32 value of every byte of an 8-bit format."""
    fmt, byte = FORMATS[name], np.arange(256)
    exponent = (byte >> fmt.mantissa_bits) & ((1 << fmt.exponent_bits) - 1)
    mantissa = byte & ((1 << fmt.mantissa_bits) - 1)
    significand = np.where(exponent > 0, mantissa + (1 << fmt.mantissa_bits), mantissa)
    value = np.ldexp(significand, np.maximum(exponent, 1) - fmt.bias - fmt.mantissa_bits)
    magnitude = byte & 0x7F
    value[magnitude > fmt.max_finite] = np.nan
    if fmt.has_inf:
        value[magnitude == fmt.max_finite + 1] = np.inf
    return np.where(byte & 0x80, -value, value).astype(np.float32)


def decode(bits: np.ndarray, fmt: FloatFormat | str) -> np.ndarray:
    """Bits (unsigned, container width of fmt) -> float32, exactly.

    tf32 ignores the 13 low bits of its container, as the tensor core does.
    """
    fmt = _format(fmt)
    if fmt is F16:
        return np.asarray(bits, np.uint16).view(np.float16).astype(np.float32)
    if fmt is BF16:
        return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)
    if fmt is TF32:
        return (np.asarray(bits, np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if fmt is F32:
        return np.asarray(bits, np.uint32).view(np.float32)
    return _table8(fmt.name)[bits]


def decode_tile(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Matrix elements as the tensor core reads them: float32 for every dtype, s8 and u8 too."""
    if dtype == "s8":
        return np.asarray(bits, np.uint8).view(np.int8).astype(np.float32)
    if dtype == "u8":
        return np.asarray(bits, np.uint8).astype(np.float32)
    return decode(bits, dtype)


def canonical_nan(x: np.ndarray) -> np.ndarray:
    """float32 values with every NaN replaced by 0x7fffffff, the NaN that PTX arithmetic makes."""
    nan = np.isnan(x)
    if not nan.any():
        return x
    return np.where(nan, np.uint32(F32.nan), x.view(np.uint32)).view(np.float32)


# ---------------------------------------------------------------- values -> bits


def round_to_integer(x: np.ndarray, rounding: str) -> np.ndarray:
    """Integral float64 values of x under a PTX rounding, spelled rn or rni, rz or rzi, ..."""
    x = np.asarray(x, np.float64)
    match rounding.removesuffix("i"):
        case "rn":
            return np.rint(x)
        case "rz":
            return np.trunc(x)
        case "rm":
            return np.floor(x)
        case "rp":
            return np.ceil(x)
        case "rna":
            whole = np.trunc(x)
            return whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0)
    raise ValueError(f"rounding {rounding!r}")


def encode(
    x: np.ndarray,
    fmt: FloatFormat | str,
    rounding: Rounding = "rn",
    *,
    satfinite: bool = False,
    relu: bool = False,
) -> np.ndarray:
    """float32 or float64 values -> bits in the container type of fmt, rounded once.

    rn ties to even, rna ties away, rz truncates, rm goes down, rp up. Overflow gives the infinity
    (rz: the largest finite value); satfinite clamps it, and infinities, to the largest finite
    value. NaN becomes the positive canonical NaN; rna, which only tf32 has, keeps its upper 19 bits
    instead. relu clamps negative results to +0. tf32 results leave the 13 low bits of the
    container zero.
    Source  PTX ISA, cvt; NaN as measured on an H200
    """
    fmt = _format(fmt)
    x = np.asarray(x)
    if rounding == "rn" and not (satfinite or relu) and x.dtype == np.float32:
        fast = _encode_rn(x, fmt)
        if fast is not None:
            return fast
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = x.astype(np.float64)
    nan, negative = np.isnan(wide), np.signbit(wide)
    infinite = np.isinf(wide)
    magnitude = np.where(nan | infinite, 0.0, np.abs(wide))
    exponent = np.where(magnitude == 0, 1 - fmt.bias, np.frexp(magnitude)[1] - 1)
    # quantum: the exponent of the last place, which stops shrinking in the subnormal range
    quantum = np.maximum(exponent, 1 - fmt.bias) - fmt.mantissa_bits
    scaled = np.ldexp(magnitude, -quantum)
    signed = np.where(negative, -scaled, scaled)
    places = np.abs(round_to_integer(signed, rounding)).astype(np.int64)
    # a carry out of the significand moves into the exponent field by itself
    biased = quantum + fmt.mantissa_bits + fmt.bias
    bits = (biased.astype(np.int64) << fmt.mantissa_bits) + places - (1 << fmt.mantissa_bits)
    infinity = fmt.max_finite + 1
    limit = fmt.max_finite if satfinite else infinity
    towards_zero = {"rz": np.ones_like(negative), "rm": ~negative, "rp": negative}
    beyond = np.where(towards_zero.get(rounding, False), fmt.max_finite, limit)
    bits = np.where(bits > fmt.max_finite, beyond, bits)
    bits = np.where(infinite, limit, bits)
    if relu:
        bits = np.where(negative, 0, bits)
    else:
        bits |= negative.astype(np.int64) << (fmt.bits - 1 - fmt.container_shift)
    bits <<= fmt.container_shift
    special: np.ndarray | int = fmt.nan << fmt.container_shift
    if rounding == "rna" and nan.any():
        special = np.asarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return np.where(nan, special, bits).astype(fmt.unsigned)


def _encode_rn(x: np.ndarray, fmt: FloatFormat) -> np.ndarray | None:
    """Short cuts for the common round-to-nearest-even conversions; None where there is none."""
    if fmt is F16:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            bits = x.astype(np.float16).view(np.uint16)
    elif fmt is BF16:
        word = x.view(np.uint32)
        bits = ((word + np.uint32(0x7FFF) + ((word >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    else:
        return None
    nan = np.isnan(x)
    return np.where(nan, np.uint16(fmt.nan), bits) if nan.any() else bits


def float_to_int(x: np.ndarray, bits: int, signed: bool, rounding: str = "rz") -> np.ndarray:
    """cvt.rni / .rzi / .rmi / .rpi to an integer of `bits` width: out-of-range values clamp.

    NaN gives 0 for f32 sources and results of 32 bits or fewer, else 1 << (bits - 1).
    Source  PTX ISA, cvt, float-to-integer conversion
    """
    x = np.asarray(x)
    lo, hi = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    nan_result = 0 if x.dtype.itemsize <= 4 and bits <= 32 else (lo if signed else 1 << (bits - 1))
    whole = round_to_integer(x, rounding)
    # float(2**63 - 1) is 2**63, which clamps as well
    below, above = whole <= float(lo), whole >= float(hi)
    safe = np.where(below | above | np.isnan(x), 0.0, whole)
    result = safe.astype(dtype)
    result = np.where(below, dtype.type(lo), np.where(above, dtype.type(hi), result))
    return np.where(np.isnan(x), dtype.type(nan_result), result)
