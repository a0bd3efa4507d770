"""Element types: their width, their bits, and their names in CUDA, PTX, the driver API and numpy.

Sources: IEEE 754-2019 for f16 and f32; PTX ISA, "Fundamental types" and "Alternate floating-point
data formats", for the rest; Open Compute Project MX specification 1.0 for e2m1 and ue8m0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Specials = Literal["ieee", "nan", "none"]


@dataclass(frozen=True)
class FloatBits:
    """How a floating-point type spends its bits: sign, exponent, then fraction.

    specials  ieee: the largest exponent holds infinities and NaNs; nan: only the pattern of all
              ones behind the sign is a NaN, its neighbours are numbers; none: all are numbers
    subnormals  exponent 0 means 0 and subnormals; without them it is an exponent like the others
    """

    exponent: int
    fraction: int
    bias: int
    signed: bool = True
    specials: Specials = "ieee"
    subnormals: bool = True


@dataclass(frozen=True)
class DType:
    """One element type. `storage` is the unsigned CUDA type that generated code keeps it in.

    Types of less than a byte lie two in a byte, the first in the low half; `storage` and `numpy`
    are then those of the whole byte.
    """

    name: str
    bits: int
    ptx: str
    storage: str
    tensor_map: str  # enumerator behind CU_TENSOR_MAP_DATA_TYPE_
    numpy: str  # numpy dtype of the raw storage
    largest: float  # finite
    exact_integer: int  # every integer from 1 up to this magnitude is representable
    float_bits: FloatBits | None = None  # None: integers

    @property
    def bytes(self) -> int:
        """Bytes of one element. Raises ValueError for a type of less than a byte."""
        if self.bits % 8:
            raise ValueError(f"one {self.name} is {self.bits} bits, not whole bytes")
        return self.bits // 8

    @property
    def elements_per_byte(self) -> int:
        """How many elements share a byte; 1 for types of whole bytes."""
        return max(1, 8 // self.bits)

    @property
    def storage_bytes(self) -> int:
        """Bytes of the smallest run of elements that fills whole bytes."""
        return max(1, self.bits // 8)

    def bytes_of(self, elements: int) -> int:
        """Bytes of a run of elements. Raises ValueError if they end inside a byte."""
        if elements * self.bits % 8:
            raise ValueError(f"{elements} x {self.bits} bits of {self.name} end inside a byte")
        return elements * self.bits // 8

    def elements_in(self, size: int) -> int:
        """Elements that fill `size` bytes."""
        return size * 8 // self.bits


_BF16 = FloatBits(8, 7, 127)
_TF32 = FloatBits(8, 10, 127)
_E4M3 = FloatBits(4, 3, 7, specials="nan")
_UE4M3 = FloatBits(4, 3, 7, signed=False, specials="nan")
_UE8M0 = FloatBits(8, 0, 127, signed=False, specials="nan", subnormals=False)
_F32_LARGEST, _BF16_LARGEST = (2 - 2.0**-23) * 2.0**127, (2 - 2.0**-7) * 2.0**127
_TF32_LARGEST = (2 - 2.0**-10) * 2.0**127

F16 = DType("f16", 16, "f16", "uint16_t", "FLOAT16", "float16", 65504.0, 2048, FloatBits(5, 10, 15))
BF16 = DType("bf16", 16, "bf16", "uint16_t", "BFLOAT16", "uint16", _BF16_LARGEST, 256, _BF16)
F32 = DType(
    "f32", 32, "f32", "float", "FLOAT32", "float32", _F32_LARGEST, 1 << 24, FloatBits(8, 23, 127)
)
# A float whose last 13 fraction bits do not count. The TFLOAT32 map rounds on the way in; tensor
# cores fed through a FLOAT32 map cut the bits off, which is less exact.
TF32 = DType("tf32", 32, "tf32", "float", "TFLOAT32", "float32", _TF32_LARGEST, 2048, _TF32)
E4M3 = DType("e4m3", 8, "e4m3", "uint8_t", "UINT8", "uint8", 448.0, 16, _E4M3)
E5M2 = DType("e5m2", 8, "e5m2", "uint8_t", "UINT8", "uint8", 57344.0, 8, FloatBits(5, 2, 15))
S8 = DType("s8", 8, "s8", "uint8_t", "UINT8", "int8", 127, 127)
S32 = DType("s32", 32, "s32", "uint32_t", "INT32", "int32", 2**31 - 1, 2**31 - 1)
E2M1 = DType(
    "e2m1", 4, "e2m1", "uint8_t", "16U4_ALIGN8B", "uint8", 6.0, 4, FloatBits(2, 1, 1, True, "none")
)
# Block scales: positive only. ue8m0 is a power of two and has no zero.
UE8M0 = DType("ue8m0", 8, "ue8m0", "uint8_t", "UINT8", "uint8", 2.0**127, 2, _UE8M0)
UE4M3 = DType("ue4m3", 8, "ue4m3", "uint8_t", "UINT8", "uint8", 448.0, 16, _UE4M3)

DTYPES: dict[str, DType] = {
    t.name: t for t in (F16, BF16, F32, TF32, E4M3, E5M2, S8, S32, E2M1, UE8M0, UE4M3)
}


def dtype(name: str) -> DType:
    """The type called `name`. Raises KeyError for a name that the spec layer let through."""
    return DTYPES[name]
