"""Where block scales lie in memory.

One scale belongs to `block` consecutive elements of K of one row. In memory the scales of 128 rows
and four neighbouring blocks of K form 512 bytes, in which

    byte(row, s) = row % 32 * 16 + row // 32 * 4 + s        0 <= row < 128, 0 <= s < 4

and such tiles follow each other along K first, then along the rows. That is the order in which
tcgen05.cp moves a tile to tensor memory. Rows are padded to 128 and K to four blocks. A kernel
never lets what stands in the padding reach D.
Source  PTX ISA, "tcgen05 scale factors" and "tcgen05.cp"; cuBLAS documentation, "1D block scaling"
"""

from __future__ import annotations

from dataclasses import dataclass

TILE_ROWS = 128
TILE_SCALES = 4  # along K
TILE_BYTES = TILE_ROWS * TILE_SCALES
LANES = 32


@dataclass(frozen=True)
class ScaleLayout:
    """Scales of a matrix (rows, k) with one scale per `block` elements of K. One byte a scale."""

    rows: int
    k: int
    block: int

    @property
    def scales(self) -> int:
        """Scales of one row, the last one possibly of a shorter block."""
        return -(-self.k // self.block)

    @property
    def row_tiles(self) -> int:
        """Tiles of 128 rows, rounded up."""
        return -(-self.rows // TILE_ROWS)

    @property
    def k_tiles(self) -> int:
        """Tiles of four scales, rounded up."""
        return -(-self.scales // TILE_SCALES)

    @property
    def bytes(self) -> int:
        """Size in memory, padding included."""
        return self.row_tiles * self.k_tiles * TILE_BYTES

    def offset(self, row: int, scale: int) -> int:
        """Byte of scale `scale` of row `row`."""
        row_tile, within = divmod(row, TILE_ROWS)
        k_tile, s = divmod(scale, TILE_SCALES)
        quarter, lane = divmod(within, LANES)
        tile = row_tile * self.k_tiles + k_tile
        return tile * TILE_BYTES + lane * 16 + quarter * TILE_SCALES + s
