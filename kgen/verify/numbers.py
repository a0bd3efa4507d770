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

from kgen.arch import SM_90A
from kgen.dtypes import dtype
from kgen.errors import VerifyError
from kgen.verify.arrays import Array, array_module
from kgen.verify.small_floats import FP8, SMALL, to_numbers, to_patterns


@dataclass(frozen=True)
class Format:
    """One number format. `significand_bits` counts the hidden bit; integers spend theirs on the
    magnitude.
    """

    name: str
    storage: str  # numpy dtype of the raw storage
    significand_bits: int
    largest: float  # finite
    smallest: float  # positive, subnormal
    exact_integer: int  # every integer up to this magnitude is representable
    poison: int  # bits of a NaN whose payload no arithmetic produces; of integers, see FORMATS

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest."""
        return 2.0**-self.significand_bits

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.storage).itemsize

    @property
    def bits(self) -> str:
        """numpy dtype that shows the storage as bit patterns."""
        return f"uint{8 * self.bytes}"

    @property
    def value(self) -> str:
        """numpy type that holds every value: float32, but s32 needs float64."""
        return "float64" if self.significand_bits > 24 else "float32"


def _format(name: str, poison: int) -> Format:
    kind = dtype(name)
    bits = kind.float_bits
    significand = kind.bits - 1 if bits is None else bits.fraction + 1
    smallest = 1.0 if bits is None else 2.0 ** (1 - bits.bias - bits.fraction)
    return Format(name, kind.numpy, significand, kind.largest, smallest, kind.exact_integer, poison)


# Integers have no NaN. No operand made here is -128, and 0x80A5A55A is further from 0 than a sum
# of 132,000 products of s8. Nor has e2m1: two of its largest numbers fill a byte around operands.
FORMATS: dict[str, Format] = {
    name: _format(name, poison)
    for name, poison in (
        ("f16", 0xFEA5),
        ("bf16", 0xFFE5),
        ("f32", 0xFFE5A5A5),
        ("tf32", 0xFFE5A5A5),
        ("e4m3", 0xFF),
        ("e5m2", 0xFD),
        ("e2m1", 0x77),
        ("ue4m3", 0x7F),
        ("ue8m0", 0xFF),
        ("s8", 0x80),
        ("s32", 0x80A5A55A),
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
class MmaScaling:
    """Scales that the MMA applies: formats behind the values, K elements of a scale, a global one.

    Without block scales, scale is empty and block 0.
    """

    a: str
    b: str
    scale: str
    block: int
    takes_global: bool


@dataclass(frozen=True)
class Numerics:
    """What a right kernel does to its numbers, and how its output is cut into tiles.

    D[M,N] = A[M,K] @ B[N,K].T; the accumulator is rounded once per MMA instruction, `mma_k`
    elements of K. With scales a and b are f32, which holds every element x scale.
    Units   tile_m, tile_n, tile_k, slab_m, mma_k in elements
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
    block_k: int = 0  # K elements whose sums are scaled and added up in f32; 0: all are one sum
    widening: float = 1.0  # declared factor on the bounds; never on exactness
    family: str = "wgmma"  # of tensor cores
    scaling: MmaScaling | None = None

    @property
    def sums_fp8(self) -> bool:
        """Whether sums keep Hopper's fp8_sum_bits alone: fast accumulation."""
        return self.family == "wgmma" and self.a in FP8 and self.accumulator == "f32"

    @property
    def has_short_sums(self) -> bool:
        """Whether errors follow the size of the sums, far above the rounding of an f32."""
        return self.sums_fp8 or self.accumulator == "f16"

    @property
    def has_integers(self) -> bool:
        """Whether every result is exact."""
        return self.accumulator == "s32"

    @property
    def sum_roundoff(self) -> float:
        """Largest relative error of one rounding of a sum to nearest."""
        if self.sums_fp8:
            return 2.0**-SM_90A.fp8_sum_bits
        return number_format(self.accumulator).unit_roundoff

    @property
    def exact_sum(self) -> int:
        """Sums of integers are exact up to this magnitude, in any order."""
        if self.sums_fp8 and not self.block_k:
            return (1 << SM_90A.fp8_sum_bits) - 1
        return number_format(self.accumulator).exact_integer


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


def _tf32_from_float32(array: Array) -> Array:
    """Round to nearest, ties to even; the 13 bits that do not count become 0."""
    xp = array_module(array)
    bits = array.view("uint32")
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000
    return xp.where(xp.isfinite(array), rounded.astype("uint32").view("float32"), array)


def _integer_from_float(name: str) -> Callable[[Array], Array]:
    form = number_format(name)
    largest = int(form.largest)
    return lambda array: array.round().clip(-largest - 1, largest).astype(form.storage)


_TO_FLOAT32: dict[str, Callable[[Array], Array]] = {
    "f16": lambda array: array.astype("float32"),
    "bf16": _bf16_to_float32,
    "f32": lambda array: array,
    "tf32": _tf32_from_float32,
    **{name: to_numbers(name) for name in SMALL},
    "s8": lambda array: array.astype("float32"),
    "s32": lambda array: array.astype("float64"),
}
_FROM_FLOAT32: dict[str, Callable[[Array], Array]] = {
    "f16": lambda array: array.astype("float16"),
    "bf16": _bf16_from_float32,
    "f32": lambda array: array,
    "tf32": _tf32_from_float32,
    **{name: to_patterns(name) for name in SMALL},
    "s8": _integer_from_float("s8"),
    "s32": _integer_from_float("s32"),
}


def to_float32(array: Array, name: str) -> Array:
    """Values of raw storage as float32, s32 as float64; exact for every format here.

    tf32 is what TMA makes of the stored f32.
    Raises  VerifyError if the storage type is not the format's
    """
    storage = number_format(name).storage
    if array.dtype != np.dtype(storage):
        raise VerifyError(f"{name} is stored as {storage}, got an array of {array.dtype}")
    return _TO_FLOAT32[name](array)


def from_float32(array: Array, name: str) -> Array:
    """Raw storage of values rounded to nearest even. Beyond the largest value: infinity, but the
    largest value of fp8 and of integers.

    Raises  VerifyError if `array` is not float32 (s32: float64): going through a third type would
        round twice
    """
    value = number_format(name).value
    if array.dtype != np.dtype(value):
        raise VerifyError(f"rounding to {name} starts from {value}, got {array.dtype}")
    with np.errstate(over="ignore"):
        return _FROM_FLOAT32[name](array)


def round_trip(array: Array, name: str) -> Array:
    """float32 or float64 values as the format would hold them, in the type they came in."""
    with np.errstate(over="ignore"):
        single = array.astype(number_format(name).value)
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
