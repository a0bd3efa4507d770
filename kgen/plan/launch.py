"""What a launch needs: tensor maps, block scales, a grid, attributes; and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.dtypes import DType
from kgen.scales import TILE_SCALES


@dataclass(frozen=True)
class TensorMap:
    """One cuTensorMapEncodeTiled call. Both launchers, C and Python, are made from this row.

    inner and outer name the problem extents (`m`, `n`, `k`), ld the leading dimension in elements.
    box in elements, innermost first; swizzle and promotion in bytes (promotion 0 is off).
    """

    operand: str
    pointer: str
    dtype: DType
    inner: str
    outer: str
    ld: str
    box: tuple[int, int]
    swizzle_bytes: int
    promotion_bytes: int
    promotion_name: str  # enumerator behind CU_TENSOR_MAP_L2_PROMOTION_
    max_ld: int  # elements, exclusive: strides stay below 2^40 bytes

    @property
    def multiple(self) -> int:
        """Elements in 16 bytes, the unit of TMA's strides and base addresses."""
        return self.dtype.elements_in(16)


@dataclass(frozen=True)
class ScaleMap:
    """The tensor map of one operand's block scales: tiles of 512 bytes, K first.

    Seen as 16-bit elements (256, tiles along K, tiles of 128 rows); box in the same order. rows
    names the problem extent that the operand's rows run along, block is K elements per scale.
    """

    operand: str
    pointer: str
    rows: str
    block: int
    box: tuple[int, int, int]

    @property
    def whole(self) -> int:
        """K elements of one tile of scales; K must be a multiple, so that no padding takes part."""
        return TILE_SCALES * self.block


@dataclass(frozen=True)
class ScaleArray:
    """f32 scales of one operand that the kernel reads itself: row-major, without padding.

    rows, columns  the problem extent that runs along the axis, and its elements per scale
    """

    operand: str
    pointer: str
    rows: tuple[str, int]
    columns: tuple[str, int]

    def shape(self, **extents: int) -> tuple[int, int]:
        """Scales along rows and columns for the extents m, n and k of a problem."""
        rows, columns = (-(-extents[name] // per) for name, per in (self.rows, self.columns))
        return rows, columns

    @property
    def shape_text(self) -> str:
        """The same for any extents, such as `[ceil(K / 128), M]`."""
        rows, columns = (
            f"ceil({name.upper()} / {per})" if per > 1 else name.upper()
            for name, per in (self.rows, self.columns)
        )
        return f"[{rows}, {columns}]"


@dataclass(frozen=True)
class LaunchAttribute:
    """One member of cudaLaunchConfig_t::attrs, as C names."""

    index: int
    id: str
    field: str
    value: str


@dataclass(frozen=True)
class ResidentGrid:
    """A grid of resident clusters that take tiles in turn.

    most  clusters at a time, None for as many as the device holds
    least_saving  K tiles that cutting tiles must save; None: tiles are never cut
    part_bytes  what a CTA leaves of a cut tile
    flags  per cut and CTA, 4 bytes each
    """

    most: int | None
    least_saving: int | None
    part_bytes: int
    flags: int

    @property
    def cuts(self) -> bool:
        """Whether a tile may be cut in two, which takes a workspace."""
        return self.least_saving is not None


@dataclass(frozen=True)
class Status:
    """One answer of the launcher, in C and in Python."""

    value: int
    name: str
    text: str


_OVERLAP = (
    "cudaLaunchAttributeProgrammaticStreamSerialization",
    "programmaticStreamSerializationAllowed",
    "1",
)
_OVERSIZED = (
    "cudaLaunchAttributeSharedMemoryMode",
    "sharedMemoryMode",
    "cudaSharedMemoryModeAllowOversizedSharedMemory",
)


def launch_attributes(pdl: bool, oversized: bool) -> tuple[LaunchAttribute, ...]:
    """The attributes of a launch.

    pdl  it may start before the grid ahead of it has ended
    oversized  it needs the oversized shared-memory mode
    """
    rows = [_OVERLAP] * pdl + [_OVERSIZED] * oversized
    return tuple(LaunchAttribute(i, *row) for i, row in enumerate(rows))
