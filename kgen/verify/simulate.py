"""Kernels simulated in array code, right ones and broken ones; they test the gates. Not a model of
any schedule.

The rounding model is the one that fits measurements: products and the sum inside one MMA
instruction are exact, the accumulator is rounded to nearest once per instruction. With f16
accumulation and K = 8192 it gives a relative error of 3.3e-3, the value measured on an H200 for
cuBLAS and for a hand-written kernel.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from kgen.verify.numbers import (
    Array,
    Numerics,
    array_module,
    from_float32,
    number_format,
    poisoned,
    round_trip,
    to_float32,
)
from kgen.verify.tiling import tile_slices

# Multiply-adds of one product in a simulation on the CPU: it stays in the cache, and BLAS keeps it
# on one thread, which is ten times faster here than two threads that wait for each other.
_BLOCK = 1 << 18


class Defect(Enum):
    """One mistake of a broken kernel; the value says what a reader would call it."""

    DROPPED_K_TILE = "one K tile is never added"
    SWAPPED_TILES = "two output tiles are stored in each other's place"
    ZERO_TILE = "one output tile is written as zeros"
    UNWRITTEN_TILE = "one output tile is never written"
    UNWRITTEN_SLAB = "one slab of one output tile is never written"
    REPEATED_SLAB = "one slab of one output tile holds its neighbour's values"


def _truncate(total: Array) -> Array:
    """float64 to float32 toward zero, then back: the harshest rounding a tensor core may use."""
    xp = array_module(total)
    near = total.astype("float32")
    too_far = xp.abs(near.astype("float64")) > xp.abs(total)
    return xp.where(too_far, xp.nextafter(near, xp.zeros_like(near)), near).astype("float64")


def accumulate(a: Array, b: Array, numerics: Numerics, *, truncate: bool = False) -> Array:
    """The accumulator after the last MMA of a right kernel, before conversion to the output format.

    Shapes  a (M, K), b (N, K) raw storage; result (M, N) float32
    truncate  round f32 toward zero instead of to nearest
    """
    xp = array_module(a)
    work = "float64" if truncate else number_format(numerics.accumulator).value
    total = xp.zeros((a.shape[0], b.shape[0]), dtype=work)
    step = max(1, _BLOCK // (b.shape[0] * numerics.mma_k or 1)) if xp is np else a.shape[0]
    right = to_float32(b, numerics.b).astype(work)
    for row in range(0, a.shape[0], step or 1):
        left = to_float32(a[row : row + step], numerics.a).astype(work)
        block = total[row : row + step]
        for start in range(0, a.shape[1], numerics.mma_k):
            k = slice(start, start + numerics.mma_k)
            with np.errstate(over="ignore", invalid="ignore"):
                block += left[:, k] @ right[:, k].T
                block[...] = (
                    _truncate(block) if truncate else round_trip(block, numerics.accumulator)
                )
    return total.astype(number_format(numerics.output).value)


def simulated_kernel(
    a: Array, b: Array, numerics: Numerics, defect: Defect | None = None, **options: Any
) -> Array:
    """Output of a kernel that makes at most one mistake, in tile (0, 0) or K tile 1 where there are
    several.

    Shapes  a (M, K), b (N, K) raw storage; result (M, N) storage of numerics.output
    """
    if defect is Defect.DROPPED_K_TILE:
        start = numerics.tile_k if a.shape[1] > numerics.tile_k else 0
        a = a.copy()
        a[:, start : start + numerics.tile_k] = 0
    out = from_float32(accumulate(a, b, numerics, **options), numerics.output)
    return with_defect(out, numerics, defect)


def with_defect(out: Array, numerics: Numerics, defect: Defect | None) -> Array:
    """A copy of a right output in which one tile carries `defect` (mistakes of the main loop leave
    it as it is).
    """
    out = out.copy()
    xp = array_module(out)
    first = tile_slices(0, 0, numerics)
    slab = (slice(0, numerics.slab_m), first[1])
    if defect is Defect.SWAPPED_TILES:
        other = tile_slices(0, 1, numerics)
        out[first], out[other] = out[other].copy(), out[first].copy()
    elif defect is Defect.ZERO_TILE:
        out[first] = 0
    elif defect is Defect.UNWRITTEN_TILE:
        out[first] = poisoned(out[first].shape, numerics.output, xp)
    elif defect is Defect.UNWRITTEN_SLAB:
        out[slab] = poisoned(out[slab].shape, numerics.output, xp)
    elif defect is Defect.REPEATED_SLAB:
        out[slab] = out[numerics.slab_m : 2 * numerics.slab_m, first[1]]
    return out
