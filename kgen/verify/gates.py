"""The gates that an output must pass, each able to fail alone. Written once for numpy and cupy
arrays.

Order of use: unwritten, finite, then by the operands: exact (integers), element bound (f32
accumulation) or statistical (f16 accumulation, and fp8 operands in f32). Guard bands and repeats
look at other memory and stand alone. Nothing here launches or times anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kgen.errors import VerifyError
from kgen.verify import causes
from kgen.verify.buffers import PlacedMatrix, touched_outside
from kgen.verify.inputs import Operands
from kgen.verify.numbers import (
    Array,
    Numerics,
    array_module,
    bit_patterns,
    is_poison,
    number_format,
    to_float32,
)
from kgen.verify.outcome import Element, GateResult
from kgen.verify.reference import Reference, tile_square_sums
from kgen.verify.scan import (
    Measure,
    Spot,
    TileMaps,
    Window,
    errors,
    look_closely,
    rounded,
    scan,
    worst_tile,
)
from kgen.verify.tiling import tile_blocks, tile_elements

# Element bound: c of |got - ref| <= u_out |ref| + c u_acc sqrt(K) |A||B|. Simulated accumulators
# that round once per 16 of K need at most 0.5 to nearest and 3.3 toward zero (all-positive
# operands, K = 16384; normal ones 0.3); a lost K tile of 64 stands at 60 in the median element
# (normal operands, K = 16384).
BOUND_FACTOR = 4.0
# Statistical: errors of f16 accumulation over s = u_acc sqrt(K / mma_k) rms(partial sums).
# Simulated for K = 64 to 16384 the root mean square is 0.41 to 0.43 s, and over n elements it
# strays by up to 7 / sqrt(n) of itself.
RMS_FACTOR = 0.5
RMS_SMALL_TILE = 8.0
# The largest error is 5.6 s in 2**18 simulated elements (K = 1024); published for 2**26 (K = 8192):
# 0.047, or 6.0 s.
MAX_FACTOR = 8.0
# The same for fp8 operands, whose sums are cut off, and so is every product of a sum at the sum's
# last bit. Simulated with the emulator's adder, which fits every bit seen on an H200, for normal
# operands and K = 32 to 8192: root mean square 0.5 to 2.8 s, largest of 4096 elements 28 s. A lost
# K tile of 128 stands at 180 s (K = 8192).
FP8_RMS_FACTOR = 4.0
FP8_MAX_FACTOR = 64.0
# And where those sums are of blocks of 128, scaled and added up in f32: 0.5 to 1.2 s and 14 s for
# K = 16 to 8192. One sum over all of K = 2048 stands at 7 s.
BLOCK_RMS_FACTOR = 2.0
BLOCK_MAX_FACTOR = 32.0

_EMPTY = "empty output: nothing to compare"


def unwritten_gate(got: Array, numerics: Numerics) -> GateResult:
    """No element may still hold the poison that filled the output before the launch."""
    measure = Measure(lambda window: is_poison(got[window], numerics.output))
    maps = scan(got.shape, numerics, measure)
    failed = int(maps.failed.sum())
    if not failed:
        return GateResult("unwritten", True, got.size, cause="" if got.size else _EMPTY)
    tile = look_closely(got.shape, numerics, measure, maps, worst_tile(maps)).tile
    cause = causes.unwritten(got, numerics, tile, failed)
    return GateResult("unwritten", False, got.size, failed, None, tile, cause)


def repeat_gate(first: Array, others: Iterable[Array], numerics: Numerics) -> GateResult:
    """Further runs on the same operands must give the same bits; a difference is a race.

    Shapes  all (M, N); `others` may be a generator that launches, so that only two outputs live at
        a time
    Raises  VerifyError without a further run
    """
    expected = bit_patterns(first, numerics.output)
    runs, differing, failed, tile = 0, 0, 0, None
    for out in others:
        bits = bit_patterns(out, numerics.output)
        measure = Measure(lambda window, bits=bits: bits[window] != expected[window])
        maps = scan(first.shape, numerics, measure)
        count = int(maps.failed.sum())
        if count > failed:
            tile = look_closely(first.shape, numerics, measure, maps, worst_tile(maps)).tile
        runs, differing, failed = runs + 1, differing + bool(count), max(failed, count)
    if not runs:
        raise VerifyError("repeats: no further run was given, so nothing was compared")
    cause = f"{differing} of {runs} runs differ from the first: a race" if differing else ""
    figures = {"runs": float(runs), "differing_runs": float(differing)}
    checked = first.size * runs
    return GateResult("repeats", not failed, checked, failed, None, tile, cause, figures=figures)


def guard_gate(placed: PlacedMatrix) -> GateResult:
    """Nothing around the output may be written: bands before and behind it, and padding between its
    rows.
    """
    positions = touched_outside(placed)
    checked = placed.buffer.size - placed.view.size
    if not positions.size:
        return GateResult("guard", True, checked)
    offset = int(positions[0]) - placed.start
    row, col = divmod(offset, max(placed.ld, 1))
    cause = (
        f"first stray write {offset} elements from D's base: "
        f"row {row}, column {col} with ldd {placed.ld}"
    )
    return GateResult("guard", False, checked, int(positions.size), cause=cause)


def _judge(
    gate: str,
    got: Array,
    ref: Reference,
    operands: Operands,
    numerics: Numerics,
    measure: Measure,
    maps: TileMaps,
) -> GateResult:
    """A result from a finished scan: worst tile, worst element and, after a failure, the cause."""
    if not got.size:
        return GateResult(gate, True, 0, cause=_EMPTY)
    spot = look_closely(got.shape, numerics, measure, maps, worst_tile(maps))
    failed = int(maps.failed.sum())
    cause = causes.Cause()
    if failed:
        cause = causes.explain(got, ref, operands, numerics, spot, maps.failed)
    return GateResult(
        gate,
        not failed,
        got.size,
        failed,
        _element(got, ref, numerics, spot),
        spot.tile,
        cause.text,
        cause.limit,
        {"worst_ratio": float(maps.ratio.max()), "max_error": float(maps.error_max.max())},
    )


def _element(got: Array, ref: Reference, numerics: Numerics, spot: Spot) -> Element:
    row, col = int(spot.rows[0]), int(spot.cols[0])
    value = float(to_float32(got[row : row + 1, col], numerics.output)[0])
    return Element(row, col, value, float(ref.product[row, col]), spot.limit)


def finite_gate(got: Array, ref: Reference, operands: Operands, numerics: Numerics) -> GateResult:
    """Every element is a finite number. Where the exact result leaves the output's range, the cause
    says so.
    """
    xp = array_module(got)
    measure = Measure(lambda window: ~xp.isfinite(to_float32(got[window], numerics.output)))
    maps = scan(got.shape, numerics, measure)
    result = _judge("finite", got, ref, operands, numerics, measure, maps)
    return (
        replace(result, figures={})
        if result.failed
        else GateResult("finite", True, got.size, cause=result.cause)
    )


def exact_gate(got: Array, ref: Reference, operands: Operands, numerics: Numerics) -> GateResult:
    """Equal to the reference bit for bit; only the sign of a zero may differ, which depends on the
    order of additions.

    Raises  VerifyError if the reference itself is not exact in the output format: the operands do
        not fit this gate
    """
    for _, rows in tile_blocks(got.shape[0], numerics.tile_m):
        product = ref.product[rows]
        want = rounded(product, numerics.output)
        inexact = (want != product) & array_module(got).isfinite(want)
        if inexact.any():
            raise VerifyError(
                f"the exact gate needs results that {numerics.output} can hold, and "
                f"{int(inexact.sum())} in rows {rows.start} to {rows.stop - 1} are not; "
                "fix: operands from inputs.exact with another seed"
            )
    measure = Measure(lambda window: errors(got[window], ref.product[window], numerics.output))
    maps = scan(got.shape, numerics, measure)
    return _judge("exact", got, ref, operands, numerics, measure, maps)


def bound_gate(got: Array, ref: Reference, operands: Operands, numerics: Numerics) -> GateResult:
    """Element bound for f32 accumulation: |got - ref| <= u_out |ref| + c u_acc sqrt(K) (|A||B|), c
    = BOUND_FACTOR.

    Raises  VerifyError if the reference was made without magnitudes
    """
    magnitude = ref.magnitude
    if magnitude is None:
        raise VerifyError("the element bound needs reference(..., magnitude=True)")
    out = number_format(numerics.output)
    k = operands.a.shape[1]
    factor = (
        numerics.widening
        * BOUND_FACTOR
        * number_format(numerics.accumulator).unit_roundoff
        * math.sqrt(k)
    )

    def limit(window: Window) -> Array:
        size = array_module(got).abs(ref.product[window]).astype("float64")
        return out.unit_roundoff * size + factor * magnitude[window] + out.smallest / 2

    measure = Measure(lambda w: errors(got[w], ref.product[w], numerics.output), limit)
    maps = scan(got.shape, numerics, measure)
    return _judge("element_bound", got, ref, operands, numerics, measure, maps)


def _mma_rms(operands: Operands, numerics: Numerics) -> float:
    """Root mean square of what one MMA adds to a sum, over all rows and columns."""
    squares = [
        _mean_square(to_float32(x, name).astype("float64")) if x.size else 0.0
        for x, name in ((operands.a, numerics.a), (operands.b, numerics.b))
    ]
    factor = operands.scales.mean_square() if operands.scales and operands.a.size else 1.0
    return math.sqrt(min(numerics.mma_k, operands.a.shape[1]) * squares[0] * squares[1] * factor)


def _mean_square(values: Array) -> float:
    return float((values * values).mean())


def statistical_gate(
    got: Array, ref: Reference, operands: Operands, numerics: Numerics
) -> GateResult:
    """Per-tile errors of short sums against s = u_acc sqrt(K / mma_k) rms(partial sums of that
    tile); see Numerics.has_short_sums.

    Root mean square <= min(MAX_FACTOR, RMS_FACTOR (1 + RMS_SMALL_TILE / sqrt(elements))) s, largest
    <= MAX_FACTOR s, each plus the rounding of the output where that is coarser than the sums'.
    Of fp8 operands, which have factors of their own, the sums count as no smaller than those of
    one MMA usually are: products are cut off, too, also where they cancel.
    """
    accumulator, out = number_format(numerics.accumulator), number_format(numerics.output)
    steps = -(-operands.a.shape[1] // numerics.mma_k)
    sums = ref.partial_rms
    rms_factor, max_factor = RMS_FACTOR, MAX_FACTOR
    if numerics.sums_fp8:
        sums = np.maximum(sums, _mma_rms(operands, numerics))
        rms_factor, max_factor = FP8_RMS_FACTOR, FP8_MAX_FACTOR
        if numerics.block_k:
            rms_factor, max_factor = BLOCK_RMS_FACTOR, BLOCK_MAX_FACTOR
    scale = numerics.widening * (
        math.sqrt(steps) * (numerics.sum_roundoff * sums + accumulator.smallest / 2)
    )
    coarser = out.unit_roundoff if out.unit_roundoff > numerics.sum_roundoff else 0.0
    xp = array_module(got)
    by_tile = xp.asarray(scale)

    def limit(window: Window) -> Array:
        rows, cols = (
            xp.arange(part.start, part.stop) // edge
            for part, edge in zip(window, (numerics.tile_m, numerics.tile_n), strict=True)
        )
        tiles = by_tile[rows[:, None], cols[None, :]]
        return max_factor * tiles + coarser * xp.abs(ref.product[window])

    measure = Measure(lambda w: errors(got[w], ref.product[w], numerics.output), limit)
    maps = scan(got.shape, numerics, measure)
    if not got.size:
        return GateResult("statistical", True, 0, cause=_EMPTY)
    elements = tile_elements(got.shape[0], got.shape[1], numerics)
    rms = np.sqrt(maps.error_squares / elements)
    allowed = scale * np.minimum(max_factor, rms_factor * (1 + RMS_SMALL_TILE / np.sqrt(elements)))
    allowed = allowed + coarser * np.sqrt(tile_square_sums(ref.product, numerics) / elements)
    # A tile whose mean is off counts as wholly failed unless single elements already show it.
    failed = np.where((rms > allowed) & (maps.failed == 0), elements, maps.failed)
    ratio = np.where(allowed > 0, rms / np.where(allowed > 0, allowed, 1.0), rms)
    ranked = replace(maps, failed=failed, ratio=np.maximum(ratio, maps.ratio))
    result = _judge("statistical", got, ref, operands, numerics, measure, ranked)
    place = worst_tile(ranked)
    assert result.tile is not None  # the output is not empty
    tile = replace(result.tile, value=float(rms[place]), limit=float(allowed[place]))
    safe = np.where(scale > 0, scale, 1.0)
    figures = {
        "worst_rms_over_scale": float((rms / safe).max()),
        "worst_max_over_scale": float((maps.error_max / safe).max()),
        "worst_rms_ratio": float(ratio.max()),
        "worst_max_ratio": float(maps.ratio.max()),
    }
    return replace(result, tile=tile, figures=figures)
