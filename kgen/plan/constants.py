"""Constants of the generated file that several schedules have, in the order they stand there."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.budget.ring import a_stage, b_stage, stages_of
from kgen.dtypes import dtype
from kgen.plan.model import Constant
from kgen.plan.wgmma_mma import schedule_of
from kgen.spec import KernelSpec
from kgen.spec.hopper import WgmmaSchedule
from kgen.spec.rules.wgmma import SLAB_M, consumer_m, mma_n, slabs_of


def tile_constants(spec: KernelSpec) -> list[Constant]:
    """Extents of the tile, in elements."""
    tile, a = spec.schedule.tile, dtype(spec.gemm.a.dtype)
    return [
        Constant("kTileM", tile.m, "rows of D per CTA"),
        Constant("kTileN", tile.n, "columns of D per CTA"),
        Constant("kTileK", tile.k, f"K elements per stage: {tile.k * a.bytes} bytes of {a.name}"),
    ]


def slab_constants(spec: KernelSpec) -> list[Constant]:
    """The rows of one consumer, and how many slabs, each one wgmma high, they are."""
    s = schedule_of(spec)
    if slabs_of(s) == 1:
        return [Constant("kSlabM", SLAB_M, "rows per consumer, one wgmma M")]
    return [
        Constant("kConsumerM", consumer_m(s), "rows per consumer"),
        Constant("kSlabs", slabs_of(s), f"slabs of {SLAB_M} rows, one wgmma M, per consumer"),
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
    registers = b.role("consumer").accumulators // slabs_of(s)
    what = f"{SLAB_M} x {mma_n(s)} {spec.gemm.accumulator} per warpgroup"
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


def consumers_note(s: WgmmaSchedule) -> str:
    """What a consumer is and owns."""
    if slabs_of(s) == 1:
        return "warpgroups; each owns a slab of kSlabM rows"
    return "warpgroups; each owns kConsumerM rows"


def slabs_sentence(s: WgmmaSchedule) -> str:
    """The slabs of one consumer, for the header."""
    count = "one" if slabs_of(s) == 1 else str(slabs_of(s))
    return f"{count} {SLAB_M} x {s.tile.n} slab{'s' if slabs_of(s) > 1 else ''}"
