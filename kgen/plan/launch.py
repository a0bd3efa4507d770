"""What some launches need beyond two operands, an output and a grid: block scales, attributes."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.blockscale import TILE_SCALES


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
class LaunchAttribute:
    """One member of cudaLaunchConfig_t::attrs, as C names."""

    index: int
    id: str
    field: str
    value: str


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
