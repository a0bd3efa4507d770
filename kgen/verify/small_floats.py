"""Floating-point types of at most 8 bits, on the CPU and the GPU; `kgen.minifloat` is for numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from kgen.dtypes import dtype
from kgen.minifloat import table
from kgen.verify.arrays import Array, array_module

FP8 = ("e4m3", "e5m2")
SCALES = ("ue4m3", "ue8m0")
SMALL = (*FP8, "e2m1", *SCALES)


def to_numbers(name: str) -> Callable[[Array], Array]:
    numbers = table(name).astype("float32")
    return lambda array: array_module(array).asarray(numbers).take(array.astype("int32"))


@cache
def _bounds(name: str) -> np.ndarray:
    """Largest float32 that rounds to each positive number but the last: ties go to even bits."""
    numbers = table(name)[: _magnitudes(name)]
    numbers = numbers[np.isfinite(numbers)].astype("float32")
    middle = (numbers[1:] + numbers[:-1]) / 2
    odd = np.arange(len(middle)) % 2 == 1
    return np.where(odd, np.nextafter(middle, np.float32(0)), middle)


def _magnitudes(name: str) -> int:
    """Bit patterns of a type of at most 8 bits, its sign left out."""
    bits = dtype(name).float_bits
    assert bits is not None
    return 1 << bits.exponent + bits.fraction


def to_patterns(name: str) -> Callable[[Array], Array]:
    def convert(array: Array) -> Array:
        """Round to nearest, ties to even; beyond the largest number, that number.

        A NaN has all bits of the magnitude set; in e2m1, which has none, that is the largest
        number. Scales have no sign, and it is lost.
        """
        xp = array_module(array)
        found = xp.searchsorted(xp.asarray(_bounds(name)), xp.abs(array))
        found = xp.where(xp.isnan(array), _magnitudes(name) - 1, found)
        if name not in SCALES:
            signs = xp.signbit(array) & ~xp.isnan(array)
            found = found | signs.astype("int64") << dtype(name).bits - 1
        return found.astype("uint8")

    return convert
