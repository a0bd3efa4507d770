"""Constants of the generated file that several schedules have, in the order they stand there."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.budget.ring import a_stage, b_stage, stages_of
from kgen.dtypes import dtype
from kgen.plan.model import Constant
from kgen.plan.wgmma_mma import schedule_of
from kgen.spec import KernelSpec
from kgen.spec.rules.wgmma import MMA_M, slab_m


def tile_constants(spec: KernelSpec) -> list[Constant]:
    """Extents of the tile, in elements."""
    tile, a = spec.schedule.tile, dtype(spec.gemm.a.dtype)
    return [
        Constant("kTileM", tile.m, "rows of D per CTA"),
        Constant("kTileN", tile.n, "columns of D per CTA"),
        Constant("kTileK", tile.k, f"K elements per stage: {tile.k * a.bytes} bytes of {a.name}"),
    ]


def slab_constants(spec: KernelSpec) -> list[Constant]:
    """The slab of one consumer, and how many wgmmas are stacked in it."""
    rows = slab_m(schedule_of(spec))
    if rows == MMA_M:
        return [Constant("kSlabM", rows, "rows per consumer, one wgmma M")]
    return [
        Constant("kSlabM", rows, f"rows per consumer, {rows // MMA_M} times the M of a wgmma"),
        Constant("kBlocks", rows // MMA_M, f"blocks of {MMA_M} rows, each with its accumulators"),
    ]


def ring_constants(spec: KernelSpec, b: Budget) -> list[Constant]:
    """The ring of A and B."""
    stages = stages_of(spec)
    depth = "depth of the A/B ring" if stages > 1 else "A and B have one buffer each"
    return [
        Constant("kStages", stages, depth),
        Constant("kStageBytes", b.stage_bytes, f"A {a_stage(spec)} + B {b_stage(spec)}"),
    ]


def accumulator_constants(spec: KernelSpec, b: Budget) -> list[Constant]:
    """Registers that one wgmma accumulates in, per thread."""
    s = schedule_of(spec)
    registers = b.role("consumer").accumulators // (slab_m(s) // MMA_M)
    what = f"{MMA_M} x {s.tile.n} {spec.gemm.accumulator} per warpgroup"
    return [Constant("kAccRegisters", registers, what)]


def raster_constants(spec: KernelSpec) -> list[Constant]:
    """The width of a raster group, where there are groups."""
    raster = spec.schedule.raster
    along = {"n": "tile columns", "m": "tile rows"}[raster.along]
    if raster.group == 1:
        return []
    return [Constant("kRasterGroup", raster.group, f"{along} that run side by side")]


def smem_constant(b: Budget) -> Constant:
    """Bytes of shared memory."""
    used = b.smem.total - b.smem["padding"]
    return Constant("kSmemBytes", b.smem.total, f"{used} used, the rest padding")
