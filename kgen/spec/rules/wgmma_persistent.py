"""Rules of the wgmma_persistent schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kgen.arch import ARCHS
from kgen.dtypes import dtype
from kgen.nearest import nearest_multiples
from kgen.spec.hopper import WgmmaPersistent
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec
from kgen.spec.rules.wgmma import (
    FP8,
    MMA_N,
    N_MAJOR_STEP,
    SLAB_M,
    WIDEST_N,
    k_rules,
    operand_rules,
    register_rules,
    slabs_of,
    stage_rules,
    store_box_n,
    tile_rules,
)

PROMOTED_K = 128  # elements of K per f32 scale; the sums of as many move to registers at a time
DEFERRED_SLABS = 2  # of a consumer; three were seen to spill, by ptxas 13.5
WARPS = 4  # of a consumer; each signals one of the CTAs that load into its ring


def rules(spec: KernelSpec) -> Iterator[Violation]:
    """Every rule of the schedule that `spec` breaks."""
    s = spec.schedule_as(WgmmaPersistent)
    yield from operand_rules(spec)
    if s.swap_operands:
        yield from _swapped_tile(spec, s)
    else:
        yield from tile_rules(spec, s, store_box_n(spec), "one TMA store")
    yield from _cluster(spec, s)
    yield from stage_rules(s)
    yield from register_rules(s)
    yield from _epilogue(spec, s)
    yield from _promotion(spec, s)


def _swapped_tile(spec: KernelSpec, s: WgmmaPersistent) -> Iterator[Violation]:
    """Whole wgmmas where columns of D lie along the rows of one."""
    tile, columns = s.tile, s.consumers * SLAB_M
    if tile.n % columns:
        consumers = f"{s.consumers} consumer{'s' if s.consumers > 1 else ''}"
        yield Violation(
            ("schedule", "tile", "n"),
            f"{tile.n} columns for {consumers}; with swap_operands each owns whole slabs of "
            f"{SLAB_M} columns, so tile.n must be a multiple of {columns}; "
            f"{nearest_multiples(tile.n, columns)}",
        )
    step, why = _row_step(spec, s)
    if tile.m % step or tile.m > WIDEST_N:
        yield Violation(
            ("schedule", "tile", "m"),
            f"{tile.m} rows; with swap_operands they must be a multiple of {step} ({why}) up to "
            f"{WIDEST_N} (one wgmma); {nearest_multiples(tile.m, step, WIDEST_N)}",
        )
    yield from k_rules(spec, s)


def _row_step(spec: KernelSpec, s: WgmmaPersistent) -> tuple[int, str]:
    """What tile.m must be a multiple of where rows of D lie along the columns of a wgmma, and why.

    Source  PTX ISA, wgmma.mma_async, table of shapes
    """
    gemm, row = spec.gemm, s.tile.k * dtype(spec.gemm.a.dtype).bytes
    start = ARCHS[spec.target].smem_alignment  # of B behind A: one pattern of the widest swizzle
    steps = [
        (MMA_N, "one wgmma"),
        (start // math.gcd(row, start), f"A of a stage fills whole {start} bytes"),
    ]
    if gemm.a.major != "k":
        steps.append((N_MAJOR_STEP, "one 128-byte row of an M-major A"))
    if gemm.accumulator == "s32" and s.tile.m > 32:
        steps.append((16, "one wgmma of integers with more than 32 columns"))
    if gemm.accumulator == "f16" and s.scheduler == "wrap":
        steps.append((16, "a part of a cut tile is left four registers at a time"))
    return max(steps, key=lambda x: x[0])  # all are powers of two, so the largest covers the others


def _cluster(spec: KernelSpec, s: WgmmaPersistent) -> Iterator[Violation]:
    cluster = s.cluster
    if cluster.m + cluster.n - 1 > WARPS:
        yield Violation(
            ("schedule", "cluster"),
            f"{cluster.m} x {cluster.n}: {cluster.m + cluster.n - 1} CTAs load into one ring, and "
            f"each of the {WARPS} warps of a consumer can free stages of one",
        )
    for operand, extent, parts, axis in (
        (spec.gemm.a, s.tile.m, cluster.n, "m"),
        (spec.gemm.b, s.tile.n, cluster.m, "n"),
    ):
        # A part is whole swizzle patterns of 8 rows, or whole boxes where it is not K-major.
        least = 8 if operand.major == "k" else 64
        if parts > 1 and extent % (parts * least):
            yield Violation(
                ("schedule", "tile", axis),
                f"{parts} CTAs of the cluster share it and load {extent}/{parts} of it each; "
                f"a part must be a multiple of {least}",
            )


def _epilogue(spec: KernelSpec, s: WgmmaPersistent) -> Iterator[Violation]:
    if not s.epilogue.deferred:
        return
    sums, d = spec.gemm.accumulator, spec.gemm.d.dtype
    if dtype(sums).bits == dtype(d).bits:
        yield Violation(
            ("schedule", "epilogue", "deferred"),
            f"{sums} accumulators are stored as they are, so nothing can be rounded and set aside",
        )
    if slabs_of(s) > DEFERRED_SLABS:
        yield Violation(
            ("schedule", "epilogue", "deferred"),
            f"{slabs_of(s)} slabs of a consumer wait in registers; more than {DEFERRED_SLABS} "
            "spill, as their stores are unrolled: take more consumers, or deferred: false",
        )
    if s.producer == "none":
        yield Violation(
            ("schedule", "epilogue", "deferred"),
            "a tile that waits in registers needs those that a producer warpgroup gives up",
        )


def _promotion(spec: KernelSpec, s: WgmmaPersistent) -> Iterator[Violation]:
    """Block scales: every K tile is a block, summed alone, then scaled and added in registers."""
    scale, block = spec.gemm.block_scale, PROMOTED_K
    if scale is None:
        return
    if (scale.dtype, scale.block) != ("f32", block):
        yield Violation(
            ("gemm", "block_scale"),
            f"{scale.dtype} per {scale.block}; wgmma has no scales, and its sums are multiplied by "
            f"f32 per {block}; write {{dtype: f32, block: {block}}}",
        )
        return
    for operand, name in ((spec.gemm.a, "a"), (spec.gemm.b, "b")):
        if operand.dtype not in FP8:
            yield Violation(
                ("gemm", name, "dtype"), f"{operand.dtype}; block scales are for e4m3 and e5m2"
            )
    if s.tile.k != block:
        yield Violation(
            ("schedule", "tile", "k"),
            f"{s.tile.k} elements; with block scales a K tile is one block, {block}",
        )
    if block % s.tile.n:
        box = store_box_n(spec)
        legal = " or ".join(str(n) for n in range(box, block + 1, box) if block % n == 0)
        yield Violation(
            ("schedule", "tile", "n"),
            f"{s.tile.n} columns; must divide {block}, so that a tile has one scale of B per "
            f"block: {legal}",
        )
    if s.swap_operands:
        yield Violation(
            ("schedule", "swap_operands"),
            "true gives a thread columns of A; block scales are read for rows of A",
        )
    if s.release == "previous":
        yield Violation(
            ("schedule", "release"),
            "previous keeps a wgmma group in flight; the sums of every block are waited for, so "
            "its stage is free: use release: same",
        )
