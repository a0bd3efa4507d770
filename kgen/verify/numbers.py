"""Number formats of operands and results: storage, conversion, rounding, poison. Knows no kernel
and no gate.

Arrays are raw storage on either side of the bus: numpy on the CPU, cupy on the GPU. bf16 has no
numpy type, so its storage is the uint16 bit pattern; every function therefore takes the format's
name along with the array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.errors import VerifyError

Array = Any  # numpy.ndarray or cupy.ndarray: both follow the same array interface


@dataclass(frozen=True)
class Format:
    """One number format. `significand_bits` counts the hidden bit, so 2**significand_bits is the
    last exact integer.
    """

    name: str
    storage: str  # numpy dtype of the raw storage
    significand_bits: int
    largest: float  # finite
    smallest: float  # positive, subnormal
    poison: int  # bits of a NaN whose payload no arithmetic produces

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest."""
        return 2.0**-self.significand_bits

    @property
    def exact_integer(self) -> int:
        """Every integer up to this magnitude is representable."""
        return 1 << self.significand_bits

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.storage).itemsize

    @property
    def bits(self) -> str:
        """numpy dtype that shows the storage as bit patterns."""
        return f"uint{8 * self.bytes}"


# Source: IEEE 754-2019 table 3.5 for f16 and f32; bf16 is the upper half of f32.
FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("f16", "float16", 11, 65504.0, 2.0**-24, 0xFEA5),
        Format("bf16", "uint16", 8, 3.3895313892515355e38, 2.0**-133, 0xFFE5),
        Format("f32", "float32", 24, 3.4028234663852886e38, 2.0**-149, 0xFFE5A5A5),
    )
}


def number_format(name: str) -> Format:
    """The format called `name`.

    Raises  VerifyError for a name without an entry
    """
    if name not in FORMATS:
        raise VerifyError(f"no number format {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[name]


@dataclass(frozen=True)
class Numerics:
    """What a right kernel does to its numbers, and how its output is cut into tiles.

    D[M,N] = A[M,K] @ B[N,K].T; the accumulator is rounded once per MMA instruction, `mma_k`
    elements of K. Units   tile_m, tile_n, tile_k, slab_m, mma_k in elements
    """

    a: str
    b: str
    accumulator: str
    output: str
    tile_m: int
    tile_n: int
    tile_k: int
    slab_m: int  # rows of a tile that one consumer owns
    mma_k: int = 16  # wgmma with 16-bit operands
    widening: float = 1.0  # declared factor on the bounds; never on exactness


def array_module(array: Array) -> Any:
    """numpy, or cupy for an array on the GPU. cupy is imported only if such an array exists."""
    if type(array).__module__.partition(".")[0] == "cupy":
        import cupy  # pyright: ignore[reportMissingImports]

        return cupy
    return np


def to_host(array: Array) -> np.ndarray:
    """The same values as a numpy array; numpy scalars stay what they are."""
    xp = array_module(array)
    return array if xp is np else xp.asnumpy(array)


def bit_patterns(array: Array, name: str) -> Array:
    """The same memory seen as unsigned integers."""
    return array.view(number_format(name).bits)


def _bf16_to_float32(array: Array) -> Array:
    return (array.astype("uint32") << 16).view("float32")


def _bf16_from_float32(array: Array) -> Array:
    """Round to nearest, ties to even: add just under half a unit and the bit that decides ties."""
    xp = array_module(array)
    bits = array.view("uint32")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    # The sum would carry a NaN with a full payload into the sign; keep it a quiet NaN instead.
    return xp.where(xp.isnan(array), (bits >> 16) | 0x40, rounded).astype("uint16")


_TO_FLOAT32: dict[str, Callable[[Array], Array]] = {
    "f16": lambda array: array.astype("float32"),
    "bf16": _bf16_to_float32,
    "f32": lambda array: array,
}
_FROM_FLOAT32: dict[str, Callable[[Array], Array]] = {
    "f16": lambda array: array.astype("float16"),
    "bf16": _bf16_from_float32,
    "f32": lambda array: array,
}


def to_float32(array: Array, name: str) -> Array:
    """Values of raw storage as float32; exact for every format here.

    Raises  VerifyError if the storage type is not the format's
    """
    storage = number_format(name).storage
    if array.dtype != np.dtype(storage):
        raise VerifyError(f"{name} is stored as {storage}, got an array of {array.dtype}")
    return _TO_FLOAT32[name](array)


def from_float32(array: Array, name: str) -> Array:
    """Raw storage of float32 values rounded to nearest even; beyond the largest value, infinity.

    Raises  VerifyError if `array` is not float32: going through a third type would round twice
    """
    number_format(name)
    if array.dtype != np.dtype("float32"):
        raise VerifyError(f"rounding to {name} starts from float32, got {array.dtype}")
    with np.errstate(over="ignore"):
        return _FROM_FLOAT32[name](array)


def round_trip(array: Array, name: str) -> Array:
    """float32 or float64 values as the format would hold them, in the type they came in."""
    with np.errstate(over="ignore"):
        single = array.astype("float32")
    return to_float32(from_float32(single, name), name).astype(array.dtype)


def poisoned(shape: tuple[int, ...], name: str, xp: Any = np) -> Array:
    """Storage filled with the format's poison, so that an element nobody wrote can be recognised
    bit for bit.
    """
    form = number_format(name)
    return xp.full(shape, form.poison, dtype=form.bits).view(form.storage)


def is_poison(array: Array, name: str) -> Array:
    """Where the storage still holds the poison."""
    return bit_patterns(array, name) == number_format(name).poison
