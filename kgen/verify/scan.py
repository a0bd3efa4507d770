"""Per-tile maps of an output's errors, made one row of tiles at a time. Knows how to look, not what
is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.verify.numbers import (
    Array,
    Numerics,
    array_module,
    from_float32,
    number_format,
    to_float32,
    to_host,
)
from kgen.verify.outcome import TileFinding
from kgen.verify.tiling import pad_to_tiles, tile_blocks, tile_counts, tile_slices

Window = tuple[slice, slice]  # rows and columns of the output, ends inside it
SAMPLES = 48  # elements looked at closely when a cause is sought


def no_limit(window: Window) -> None:
    """The rule that allows no error at all."""
    return


@dataclass(frozen=True)
class Measure:
    """What is wrong with each element of a window and how much of it is allowed; both in float64,
    or None for zero.
    """

    error: Callable[[Window], Array]
    limit: Callable[[Window], Array | None] = no_limit

    def look(self, window: Window) -> tuple[Array, Array, Array]:
        """Error, its ratio to the limit (to 1 where the limit is 0), and whether it fails."""
        error = self.error(window).astype("float64")
        limit = self.limit(window)
        if limit is None:
            return error, error, error > 0
        return error, error / array_module(error).where(limit > 0, limit, 1.0), error > limit


@dataclass(frozen=True)
class TileMaps:
    """One number per output tile, on the host."""

    failed: np.ndarray
    ratio: np.ndarray  # largest
    error_max: np.ndarray
    error_squares: np.ndarray  # sum


def scan(shape: tuple[int, ...], numerics: Numerics, measure: Measure) -> TileMaps:
    """Look at every element of an output of `shape` (M, N)."""
    m, n = shape
    maps = TileMaps(
        *(
            np.zeros(tile_counts(m, n, numerics), t)
            for t in ("int64", "float64", "float64", "float64")
        )
    )
    for row, rows in tile_blocks(m, numerics.tile_m):
        if not n:
            break
        error, ratio, failed = (
            pad_to_tiles(part, numerics.tile_n) for part in measure.look((rows, slice(0, n)))
        )
        maps.failed[row] = to_host(failed.sum(axis=(0, 2)))
        maps.ratio[row] = to_host(ratio.max(axis=(0, 2)))
        maps.error_max[row] = to_host(error.max(axis=(0, 2)))
        maps.error_squares[row] = to_host((error * error).sum(axis=(0, 2)))
    return maps


@dataclass(frozen=True)
class Spot:
    """The worst tile of a scan and positions of elements in it, worst first; `limit` is that of the
    first.
    """

    tile: TileFinding
    rows: np.ndarray
    cols: np.ndarray
    limit: float


def worst_tile(maps: TileMaps) -> tuple[int, int]:
    """Among tiles with failures, else among all, the one with the largest ratio; among equals, the
    most failures.
    """
    ranking = np.where((maps.failed > 0) | ~maps.failed.any(), maps.ratio, -1.0)
    ties = np.argwhere(ranking == ranking.max()).tolist()
    row, col = max(ties, key=lambda place: maps.failed[place[0], place[1]])
    return row, col


def look_closely(
    shape: tuple[int, ...],
    numerics: Numerics,
    measure: Measure,
    maps: TileMaps,
    tile: tuple[int, int],
) -> Spot:
    """The worst elements of one tile."""
    rows, cols = tile_slices(*tile, numerics)
    window = (
        slice(rows.start, min(rows.stop, shape[0])),
        slice(cols.start, min(cols.stop, shape[1])),
    )
    _, ratio, failed = (to_host(part) for part in measure.look(window))
    key = np.where(failed | ~failed.any(), ratio, -1.0).ravel()
    # A cause must explain what failed; elements that passed would only blur it.
    count = min(SAMPLES, int(failed.sum()) or SAMPLES)
    order = np.argsort(-key, kind="stable")[:count]
    at_rows, at_cols = np.unravel_index(order, ratio.shape)
    limit = measure.limit(window)
    allowed = 0.0 if limit is None else float(limit[int(at_rows[0]), int(at_cols[0])])
    finding = TileFinding(*tile, int(maps.failed[tile]), float(maps.error_max[tile]), allowed)
    return Spot(finding, at_rows + window[0].start, at_cols + window[1].start, allowed)


def rounded(product: Array, name: str) -> Array:
    """The reference in the output format, in its value type; infinite beyond its largest value."""
    with np.errstate(over="ignore"):
        return to_float32(from_float32(product.astype(number_format(name).value), name), name)


def errors(got: Array, product: Array, name: str) -> Array:
    """|got - product| in float64; an infinity is right where the reference rounds to it, else NaN
    and infinity are inf.

    Shapes  got (rows, cols) storage of format `name`; product (rows, cols) float64 or float32
    """
    xp = array_module(got)
    value = to_float32(got, name)
    with np.errstate(invalid="ignore"):
        error = xp.abs(value.astype("float64") - product)
    right_infinity = xp.isinf(value) & (value == rounded(product, name))
    return xp.where(right_infinity, 0.0, xp.where(xp.isfinite(error), error, xp.inf))
