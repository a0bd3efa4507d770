"""The kinds of tcgen05.mma: element types, scales, and the codes their descriptors use.

Sources: PTX ISA, "tcgen05.mma" kinds and "Instruction descriptor"; for sm_107a the CUTLASS 4
descriptor classes. Kinds with operands of 6 bits, and i8, are left out on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

FP8 = ("e4m3", "e5m2")


@dataclass(frozen=True)
class BlockScale:
    """One scale of type `dtype` for every `block` consecutive elements of K of a row."""

    dtype: str
    block: int


@dataclass(frozen=True)
class Kind:
    """One `.kind::` of tcgen05.mma.

    codes     operand type -> its code in the instruction descriptor
    scales    (scale type, elements per scale) -> the descriptor's scale type; empty without scales
    wide_bit  descriptor bit that doubles the K step on sm_107a; None where no such bit exists
    """

    name: str
    codes: dict[str, int]
    equal_operands: bool
    accumulators: tuple[str, ...]
    mn_major: bool  # an operand may be contiguous along M or N
    scales: dict[BlockScale, int]
    wide_bit: int | None

    @property
    def is_scaled(self) -> bool:
        """Every operand comes with a scale per block."""
        return bool(self.scales)


UE8M0_32 = BlockScale("ue8m0", 32)
UE8M0_16 = BlockScale("ue8m0", 16)
UE4M3_16 = BlockScale("ue4m3", 16)
UE5M3_16 = BlockScale("ue5m3", 16)  # sm_107a; known to the table, not offered by any spec

_FP8_CODES = {"e4m3": 0, "e5m2": 1}
_FP4_CODES = {"e2m1": 1}  # of the mxf4 kinds; f8f6f4 spells it 5

F16 = Kind("f16", {"f16": 0, "bf16": 1}, True, ("f32", "f16"), True, {}, None)
TF32 = Kind("tf32", {"tf32": 2}, True, ("f32",), False, {}, None)
F8F6F4 = Kind("f8f6f4", _FP8_CODES, False, ("f32", "f16"), True, {}, 29)
MXF8F6F4 = Kind("mxf8f6f4", _FP8_CODES, False, ("f32",), True, {UE8M0_32: 1}, 31)
MXF4 = Kind("mxf4", _FP4_CODES, True, ("f32",), False, {UE8M0_32: 1}, 3)
MXF4NVF4 = Kind(
    "mxf4nvf4",
    _FP4_CODES,
    True,
    ("f32",),
    False,
    {UE4M3_16: 0, UE8M0_16: 1, UE5M3_16: 2},
    3,
)

KINDS: dict[str, Kind] = {k.name: k for k in (F16, TF32, F8F6F4, MXF8F6F4, MXF4, MXF4NVF4)}


def kind_of(a: str, scale: BlockScale | None) -> Kind | None:
    """The kind that multiplies operands of type `a` scaled like this; None if there is none."""
    for kind in KINDS.values():
        matches = scale in kind.scales if kind.is_scaled else scale is None
        if a in kind.codes and matches:
            return kind
    return None
