"""Block scales in numpy: packing them for a kernel, and a quantiser that makes references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.dtypes import dtype
from kgen.minifloat import decode, encode, pack_pairs, unpack_pairs
from kgen.scales import LANES, TILE_ROWS, TILE_SCALES, ScaleLayout


def _tiled_shape(layout: ScaleLayout) -> tuple[int, ...]:
    return layout.row_tiles, TILE_ROWS // LANES, LANES, layout.k_tiles, TILE_SCALES


def pack_scales(
    layout: ScaleLayout, scales: np.ndarray, padding: int = 0, xp: Any = np
) -> np.ndarray:
    """Memory image of scales.

    Shapes  scales (rows, scales) uint8; result (bytes,) uint8
    xp  the library of the arrays: numpy or cupy
    Raises  ValueError if the shape is not that of the layout
    """
    if scales.shape != (layout.rows, layout.scales):
        raise ValueError(f"scales {scales.shape}, expected {(layout.rows, layout.scales)}")
    whole = xp.full(
        (layout.row_tiles * TILE_ROWS, layout.k_tiles * TILE_SCALES), padding, dtype="uint8"
    )
    whole[: layout.rows, : layout.scales] = scales
    return whole.reshape(_tiled_shape(layout)).transpose(0, 3, 2, 1, 4).reshape(-1)


def unpack_scales(layout: ScaleLayout, packed: np.ndarray) -> np.ndarray:
    """The reverse of `pack_scales`.

    Shapes  packed (bytes,) uint8; result (rows, scales) uint8
    """
    row_tiles, quarters, lanes, k_tiles, four = _tiled_shape(layout)
    tiles = packed.reshape(row_tiles, k_tiles, lanes, quarters, four).transpose(0, 3, 2, 1, 4)
    whole = tiles.reshape(row_tiles * TILE_ROWS, k_tiles * TILE_SCALES)
    return whole[: layout.rows, : layout.scales].copy()


@dataclass(frozen=True)
class Quantised:
    """A matrix (rows, K) in few bits: value = element x scale of its block x global_scale.

    elements  bit patterns, one an element, uint8 (rows, K)
    scales    bit patterns, uint8 (rows, ceil(K / block))
    """

    dtype: str
    scale_dtype: str
    block: int
    elements: np.ndarray
    scales: np.ndarray
    global_scale: float

    @property
    def layout(self) -> ScaleLayout:
        """How the scales lie in memory."""
        rows, k = self.elements.shape
        return ScaleLayout(rows, k, self.block)

    @property
    def storage(self) -> np.ndarray:
        """The elements as a kernel reads them: two to a byte where they have four bits."""
        return pack_pairs(self.elements) if dtype(self.dtype).bits == 4 else self.elements

    def values(self) -> np.ndarray:
        """What the bits mean, float32 (rows, K) without the global scale; exact."""
        k = self.elements.shape[1]
        scales = np.repeat(decode(self.scales, self.scale_dtype), self.block, axis=1)[:, :k]
        return decode(self.elements, self.dtype) * scales


def quantise(
    values: np.ndarray, name: str, scale: str, block: int, *, with_global: bool = False
) -> Quantised:
    """Quantise a matrix: the largest magnitude of a block becomes the largest value of the type.

    Shapes  values (rows, K) float
    A block's scale is its largest magnitude over the type's largest value, and scales and elements
    round to nearest even and saturate; so an element may saturate where its scale was rounded down.
    with_global  one more factor for the matrix, chosen so that the largest scale is the largest of
                 its own type: NVFP4 needs it, since ue4m3 spans few binary orders
    """
    wide = np.asarray(values, "float64")
    rows, k = wide.shape
    count = -(-k // block)
    padded = np.zeros((rows, count * block))
    padded[:, :k] = wide
    blocks = padded.reshape(rows, count, block)
    largest, top = np.abs(blocks).max(axis=2), dtype(name).largest
    factor = 1.0
    if with_global and largest.size and largest.max() > 0:
        factor = float(np.float32(largest.max() / (top * dtype(scale).largest)))
    scales = encode(largest / top / factor, scale)
    unit = decode(scales, scale).astype("float64")[:, :, None] * factor
    # A block whose scale is zero, or vanished in rounding, holds zeros.
    scaled = np.divide(blocks, unit, out=np.zeros_like(blocks), where=unit > 0)
    elements = encode(scaled, name).reshape(rows, -1)[:, :k]
    return Quantised(name, scale, block, elements, scales, factor)


def unpacked_elements(storage: np.ndarray, name: str) -> np.ndarray:
    """One pattern an element from what `Quantised.storage` gave."""
    return unpack_pairs(storage) if dtype(name).bits == 4 else storage
