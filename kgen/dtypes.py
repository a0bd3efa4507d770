"""Element types: their width and their names in CUDA, PTX, the driver API and numpy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """One element type. `storage` is the unsigned CUDA type that generated code keeps it in."""

    name: str
    bits: int
    ptx: str
    storage: str
    tensor_map: str  # enumerator behind CU_TENSOR_MAP_DATA_TYPE_
    numpy: str  # numpy dtype of the raw storage
    largest: float  # finite
    exact_integer: int  # every integer up to this magnitude is representable

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return self.bits // 8


F16 = DType("f16", 16, "f16", "uint16_t", "FLOAT16", "float16", 65504.0, 2048)
BF16 = DType("bf16", 16, "bf16", "uint16_t", "BFLOAT16", "uint16", 3.3895313892515355e38, 256)
F32 = DType("f32", 32, "f32", "float", "FLOAT32", "float32", 3.4028234663852886e38, 1 << 24)

DTYPES: dict[str, DType] = {t.name: t for t in (F16, BF16, F32)}


def dtype(name: str) -> DType:
    """The type called `name`. Raises KeyError for a name that the spec layer let through."""
    return DTYPES[name]
