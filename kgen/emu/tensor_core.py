"""Products of the tensor core: D = A x B + D of one wgmma or mma.sync instruction, to the bit.

NVIDIA does not document this arithmetic. The model is the one published for Hopper in "MMA-Sim:
Bit-Accurate Reference Model of Tensor Cores and Matrix Cores" (arXiv 2511.10909). The study cases
of the micro-tests, captured on an H200, agree with it in every bit; they settle the alignment of
fp8 sums and the rounding of tf32 and f16 results, and leave open whether other types keep 23, 24
or 25 bits. For mma.sync no rounding was captured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kgen.emu.numerics import FORMATS, canonical_nan

Accumulator = Literal["f32", "f16", "s32", "s32.satfinite"]

_ZERO_EXPONENT = -126


@dataclass(frozen=True)
class Adder:
    """How wide the floating-point sums of an instruction are.

    aligned   fraction bits that every term keeps below the largest exponent of its sum
    result    fraction bits of an f32 result
    """

    aligned: int
    result: int


ADDER = Adder(25, 23)
FP8_ADDER = Adder(13, 13)  # wgmma on e4m3 and e5m2; mma.sync has the wide one


def accumulate(
    d: np.ndarray | None,
    a: np.ndarray,
    b: np.ndarray,
    kind: Accumulator,
    types: tuple[str, str],
    adder: Adder = ADDER,
) -> np.ndarray:
    """D = A x B^T + D of one wgmma or mma.sync instruction.

    Shapes  a (M, K) and b (N, K), values of `decode_tile`; d (M, N) or None for D = A x B^T
    Types   d and the result are float32 for f32 and f16 (there: f16 values), int32 for s32;
            `types` names those of a and b
    Model   floats: all products of a row and a column, and d, are aligned to the largest exponent
            among them, cut off below adder.aligned bits, and added exactly. The sum is rounded
            once: towards zero to f32, to nearest even to f16. Integers below 2^24 (fp8: 2^14)
            therefore are exact.
            s32: exact, and wraps; s32.satfinite clamps once, after the sum.
    """
    with np.errstate(invalid="ignore"):  # signalling NaN, infinity times zero
        product = np.matmul(a.astype(np.float64), b.astype(np.float64).T)
    if kind not in ("f32", "f16") or is_exact(d, a, b, adder):
        return round_sum(d, product, kind, adder)
    with np.errstate(invalid="ignore", over="ignore"):
        total = product if d is None else product + d
        aligned = _aligned_sum(d, a, b, kind, types, adder)
    return round_sum(None, np.where(np.isfinite(total), aligned, total), kind, adder)


def is_exact(d: np.ndarray | None, a: np.ndarray, b: np.ndarray, adder: Adder) -> bool:
    """Whether alignment cuts off nothing: all values are integers, and none is too large."""
    largest = float(np.abs(a).max()) * float(np.abs(b).max())
    whole = [a, b]
    if d is not None:
        largest = max(largest, float(np.abs(d).max()))
        whole.append(d)
    if not largest < 2.0 ** (adder.aligned + 1):  # a NaN is not
        return False
    return all(bool((x == np.rint(x)).all()) for x in whole)


def _aligned_sum(
    d: np.ndarray | None,
    a: np.ndarray,
    b: np.ndarray,
    kind: Accumulator,
    types: tuple[str, str],
    adder: Adder,
) -> np.ndarray:
    """The exact sum of the terms that alignment leaves, in float64; infinities make nonsense."""
    a_exponents, b_exponents = _exponents(a, types[0]), _exponents(b, types[1])
    start = np.zeros((a.shape[0], b.shape[0])) if d is None else d.astype(np.float64)
    largest = _exponents(start, kind)
    for k in range(a.shape[1]):
        product_exponents = a_exponents[:, k, None] + b_exponents[None, :, k]
        np.maximum(largest, product_exponents, out=largest)
    scale = np.ldexp(1.0, adder.aligned - largest)
    total = np.trunc(start * scale)
    for k in range(a.shape[1]):
        total += np.trunc(a[:, k, None].astype(np.float64) * b[None, :, k] * scale)
    return total / scale


def _exponents(x: np.ndarray, dtype: str) -> np.ndarray:
    """Of the leading bit; subnormal numbers have the exponent of the smallest normal one."""
    smallest = 1 - FORMATS[dtype].bias
    return np.where(x == 0, _ZERO_EXPONENT, np.maximum(np.frexp(x)[1] - 1, smallest))


def round_sum(
    d: np.ndarray | None, product: np.ndarray, kind: Accumulator, adder: Adder = ADDER
) -> np.ndarray:
    """The last step of `accumulate`: float64 products + d, rounded once. Elementwise."""
    if kind in ("f32", "f16"):
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            total = product + (0.0 if d is None else d)  # + 0: sums start from +0
            if kind == "f16":
                return canonical_nan(total.astype(np.float16).astype(np.float32))
            cut = np.where(np.isnan(total), total, _truncate(total, adder.result))
            return canonical_nan(cut.astype(np.float32))
    whole = product.astype(np.int64)
    if d is not None:
        whole = whole + d
    if kind == "s32.satfinite":
        whole = np.clip(whole, -(1 << 31), (1 << 31) - 1)
    return whole.astype(np.int32)


def _truncate(x: np.ndarray, fraction_bits: int) -> np.ndarray:
    """float64 towards zero, to a significand of that many bits behind the leading one."""
    mask = np.int64(-1 << (52 - fraction_bits))
    return (np.ascontiguousarray(x).view(np.int64) & mask).view(np.float64)
