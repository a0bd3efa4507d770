"""Likely causes of a failed gate, from the worst tile and a few dozen of its elements. Decides
nothing.

A cause is named only if it reproduces what was seen: a range limit by running the accumulator for
those elements, a lost K tile by its own contribution, a misplaced tile by the values of the other
tile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgen.verify.inputs import Operands
from kgen.verify.numbers import (
    Array,
    Numerics,
    array_module,
    is_poison,
    number_format,
    round_trip,
    to_float32,
    to_host,
)
from kgen.verify.outcome import TileFinding
from kgen.verify.reference import Reference
from kgen.verify.scan import Spot, errors, rounded
from kgen.verify.tiling import tile_slices

ACCUMULATOR_OVERFLOW = "accumulator overflow"
LOST_INCREMENTS = "lost increments"
OUTPUT_OVERFLOW = "output overflow"

_MODEL_ROUNDOFFS = (
    8.0  # how closely the modelled accumulator must meet the output, in unit round-offs
)
_EXPLAINED = 0.1  # part of an error that may stay unexplained by a lost K tile or a misplaced tile
_K_TILE_SAMPLES = 8  # fewer could fit one of a hundred K tiles by chance
_OTHER_TILES = 64  # compared with a tile that may be misplaced


@dataclass(frozen=True)
class Cause:
    """An explanation; `limit` is one of the names above if it is a documented range limit."""

    text: str = ""
    limit: str = ""


@dataclass(frozen=True)
class _Samples:
    """A few elements on the host: their operand rows (S, K) and values (S,), all float64."""

    a: np.ndarray
    b: np.ndarray
    got: np.ndarray
    want: np.ndarray


def _take(
    got: Array, reference: Reference, operands: Operands, numerics: Numerics, spot: Spot
) -> _Samples:
    rows, cols = spot.rows.tolist(), spot.cols.tolist()

    def values(array: Array, name: str) -> np.ndarray:
        return to_host(to_float32(array, name)).astype("float64")

    a, b = values(operands.a[rows], numerics.a), values(operands.b[cols], numerics.b)
    if operands.scales is not None:
        count, xp = a.shape[1], array_module(operands.a)
        a *= to_host(operands.scales.of_a(xp.asarray(rows), 0, count))
        b *= to_host(operands.scales.of_b(xp.asarray(cols), 0, count))
    return _Samples(
        a,
        b,
        values(got[rows, cols], numerics.output),
        to_host(reference.product[rows, cols]).astype("float64"),
    )


def _group_sums(samples: _Samples, length: int) -> np.ndarray:
    """Sums of products over consecutive stretches of K. Shapes (S, ceil(K / length))."""
    products = samples.a * samples.b
    k = products.shape[1]
    groups = -(-k // length)
    padded = np.pad(products, ((0, 0), (0, groups * length - k)))
    return padded.reshape(len(products), groups, length).sum(axis=2)


def _range_limit(samples: _Samples, numerics: Numerics) -> Cause:
    """The accumulator's own limit, if running it for these elements gives what the kernel gave."""
    form = number_format(numerics.accumulator)
    steps = _group_sums(samples, numerics.mma_k)
    total = np.zeros(len(steps))
    peak = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for step in steps.T:
            total = round_trip(total + step, numerics.accumulator)
            peak = max(peak, float(np.abs(total).max()))
        final = round_trip(total, numerics.output)
        tolerance = _MODEL_ROUNDOFFS * form.unit_roundoff * np.abs(final)
        near = np.abs(final - samples.got) <= tolerance
    overflowed = ~np.isfinite(total)
    exact = f"the exact result is {samples.want[0]:.9g}"
    mend = "fix: accumulate in f32, or scale the operands"
    if np.all(overflowed & ~np.isfinite(samples.got)):
        return Cause(
            f"a partial sum exceeds {form.largest:g}, the largest {form.name}: the {form.name} "
            f"accumulator overflows (declared limit); {exact}. {mend}",
            ACCUMULATOR_OVERFLOW,
        )
    # Only a match says something: the model meets the output where both are far from the product.
    far = np.abs(samples.want - samples.got) > 2 * tolerance
    if np.all(near & far) and peak >= form.exact_integer:
        return Cause(
            f"the {form.name} accumulator has reached {peak:g}; above {form.exact_integer} it "
            "rounds every increment, and small ones vanish (declared limit): a right kernel gives "
            f"the same, {samples.got[0]:.9g}; {exact}. {mend}",
            LOST_INCREMENTS,
        )
    right = round_trip(samples.want, numerics.output)
    if np.all(np.isinf(samples.got) & (right == samples.got)) and not overflowed.any():
        out = number_format(numerics.output)
        return Cause(
            f"{exact}, and {out.largest:g} is the largest {out.name}: the output overflows "
            "(declared limit). fix: use a bf16 or f32 output, or scale the operands",
            OUTPUT_OVERFLOW,
        )
    return Cause()


def _k_tile(samples: _Samples, numerics: Numerics) -> Cause:
    """One K tile that was left out, or added twice."""
    missing = samples.want - samples.got
    k = samples.a.shape[1]
    if not np.all(np.isfinite(missing)) or len(missing) < _K_TILE_SAMPLES or k <= numerics.tile_k:
        return Cause()
    tiles = _group_sums(samples, numerics.tile_k)
    size = np.sqrt(np.mean(missing**2))
    for sign, what in ((1.0, "is missing from"), (-1.0, "was added twice to")):
        rest = np.sqrt(np.mean((missing[:, None] - sign * tiles) ** 2, axis=0))
        tile = int(rest.argmin())
        if rest[tile] <= _EXPLAINED * size:
            first = tile * numerics.tile_k
            last = min(k, first + numerics.tile_k) - 1
            return Cause(f"K tile {tile} (k {first} to {last}) {what} the sums")
    return Cause()


def _pattern(
    got: Array, reference: Reference, numerics: Numerics, tile: TileFinding, failed: np.ndarray
) -> Cause:
    """What the worst tile holds instead: zeros, another tile, or one wrong slab."""
    where = tile_slices(tile.row, tile.col, numerics)
    block = to_host(to_float32(got[where], numerics.output)).astype("float64")
    name = f"tile ({tile.row},{tile.col})"
    if not block.any():
        return Cause(f"{name} holds zeros")
    with np.errstate(invalid="ignore"):
        off = np.sqrt(np.mean((block - to_host(reference.product[where])) ** 2))
    others = np.argwhere(failed > 0)
    others = others[np.argsort(-failed[failed > 0], kind="stable")][:_OTHER_TILES]
    for row, col in others.tolist():
        there = tile_slices(row, col, numerics)
        other = to_host(reference.product[there]).astype("float64")
        if (row, col) == (tile.row, tile.col) or other.shape != block.shape or not other.any():
            continue
        with np.errstate(invalid="ignore"):
            rest = np.sqrt(np.mean((block - other) ** 2))
        if rest <= _EXPLAINED * off:
            return Cause(f"{name} holds the values of tile ({row},{col})")
    return Cause()


def _wrong_slab(wrong: Array, numerics: Numerics, tile: TileFinding) -> Cause:
    """A tile of which exactly one slab has wrong rows. Shapes wrong (rows of the tile,) bool."""
    slabs = sorted({int(row) // numerics.slab_m for row in np.flatnonzero(wrong)})
    if len(slabs) == 1 and len(wrong) > numerics.slab_m:
        first = slabs[0] * numerics.slab_m
        last = min(len(wrong), first + numerics.slab_m) - 1
        rows = f"rows {first} to {last}"
        return Cause(f"only slab {slabs[0]} ({rows}) of tile ({tile.row},{tile.col}) is wrong")
    return Cause()


def unwritten(got: Array, numerics: Numerics, tile: TileFinding, failed: int) -> str:
    """Words for elements that still hold the poison."""
    where = tile_slices(tile.row, tile.col, numerics)
    mask = to_host(is_poison(got[where], numerics.output))
    if mask.all():
        return f"tile ({tile.row},{tile.col}) was never written ({failed} elements in all)"
    slab = _wrong_slab(mask.any(axis=1), numerics, tile).text.replace("is wrong", "was not written")
    return slab or f"{failed} elements were never written, first in tile ({tile.row},{tile.col})"


def explain(
    got: Array,
    reference: Reference,
    operands: Operands,
    numerics: Numerics,
    spot: Spot,
    failed: np.ndarray,
) -> Cause:
    """The likeliest cause of a wrong tile; empty if none of the known ones reproduces it.

    Shapes  got (M, N); failed: failures per tile
    """
    tile = spot.tile
    where = tile_slices(tile.row, tile.col, numerics)
    samples = _take(got, reference, operands, numerics, spot)
    for cause in (
        _range_limit(samples, numerics),
        _pattern(got, reference, numerics, tile, failed),
        _k_tile(samples, numerics),
    ):
        if cause.text:
            return cause
    exact = rounded(reference.product[where], numerics.output).astype("float64")
    error = to_host(errors(got[where], exact, numerics.output))
    # Rounding differs a little everywhere; a wrong slab stands out against the rest of the tile.
    wrong_rows = np.max(error, axis=1) >= 0.25 * error.max()
    return _wrong_slab(wrong_rows, numerics, tile)
