"""Cutting an output into its tiles. Knows sizes, not values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kgen.verify.numbers import Array, Numerics, array_module


def pad_to_tiles(block: Array, tile_n: int) -> Array:
    """(rows, N) -> (rows, ceil(N / tile_n), tile_n), the last tile filled with zeros."""
    xp = array_module(block)
    rows, n = block.shape
    tiles = -(-n // tile_n)
    if tiles * tile_n != n:
        block = xp.pad(block, ((0, 0), (0, tiles * tile_n - n)))
    return block.reshape(rows, tiles, tile_n)


def tile_blocks(m: int, tile_m: int) -> Iterator[tuple[int, slice]]:
    """Row of tiles, and the matrix rows it covers."""
    for row in range(-(-m // tile_m)):
        yield row, slice(row * tile_m, min(m, (row + 1) * tile_m))


def tile_counts(m: int, n: int, numerics: Numerics) -> tuple[int, int]:
    """Rows and columns of output tiles, cut ones included."""
    return -(-m // numerics.tile_m), -(-n // numerics.tile_n)


def tile_slices(row: int, col: int, numerics: Numerics) -> tuple[slice, slice]:
    """Rows and columns of output tile (row, col); their ends may lie beyond the output."""
    return (
        slice(row * numerics.tile_m, (row + 1) * numerics.tile_m),
        slice(col * numerics.tile_n, (col + 1) * numerics.tile_n),
    )


def tile_elements(m: int, n: int, numerics: Numerics) -> np.ndarray:
    """Elements of every output tile (ceil(M/tile_m), ceil(N/tile_n)); edge tiles hold fewer."""
    rows = np.minimum(numerics.tile_m, m - np.arange(0, m, numerics.tile_m))
    cols = np.minimum(numerics.tile_n, n - np.arange(0, n, numerics.tile_n))
    return np.outer(rows, cols)
