"""Lowering of the schedules of one role: wgmma_single and mma_sync."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.budget.mma_sync import warp_tile
from kgen.budget.ring import stages_of
from kgen.dtypes import dtype
from kgen.plan.common import barrier_inits, common, grid_sentence, problem_fields
from kgen.plan.constants import (
    accumulator_constants,
    consumers_note,
    raster_constants,
    ring_constants,
    slab_constants,
    slabs_sentence,
    smem_constant,
    tile_constants,
)
from kgen.plan.hopper import MmaSyncPlan, SyncMma, WgmmaSinglePlan
from kgen.plan.model import Constant, Field, Load
from kgen.plan.ring import loads
from kgen.plan.wgmma_mma import consumer, layouts, mma, rows_constant, store
from kgen.spec import KernelSpec, LoadedSpec
from kgen.spec.rules.single_role import MMA_SYNC_K, MMA_SYNC_M
from kgen.spec.rules.wgmma import consumer_m
from kgen.spec.single_role import MmaSync, WgmmaSingle

_BARRIERS = {"full": ("kStages", "1")}
_ORDER = "K is summed in one fixed order: equal inputs give equal bits."


def lower_wgmma_single(loaded: LoadedSpec, b: Budget) -> WgmmaSinglePlan:
    """The plan of one wgmma_single kernel. `b` must have been accepted."""
    spec = b.spec
    s = spec.schedule_as(WgmmaSingle)
    plural, each = ("s", " each") if s.consumers > 1 else ("", "")
    return WgmmaSinglePlan(
        **common(loaded, b, "wgmma_single.cu.j2"),
        problem_fields=problem_fields(b.spec, stores_by_tma=len(b.boxes) > 2),
        structure=(
            f"{b.threads // 32} warps: {s.consumers} warpgroup{plural}, "
            f"{slabs_sentence(s)}{each}; thread 0 also issues the loads.",
            f"{grid_sentence(spec)}; no cluster.",
            _ORDER,
        ),
        constants=(
            *tile_constants(spec),
            Constant("kConsumers", s.consumers, consumers_note(s)),
            *slab_constants(spec),
            *ring_constants(spec, b),
            *accumulator_constants(spec, b),
            *raster_constants(spec),
            Constant("kWarpgroup", b.arch.warpgroup_threads, "threads that issue one wgmma"),
            Constant("kThreads", b.threads, "every one of them multiplies"),
            smem_constant(b),
        ),
        layouts=layouts(b),
        storage=_storage(
            spec, ("kStages", "kConsumers", f"{rows_constant(s)} * kTileK"), "ring of A slabs"
        ),
        barriers=barrier_inits(b, _BARRIERS),
        slab_m=consumer_m(s),
        mma=mma(spec, b),
        consumer=consumer(spec, b),
        loads=(
            *(load for x in range(s.consumers) for load in loads(spec, b, "a", consumer_m(s), x)),
            *loads(spec, b, "b", s.tile.n, None),
        ),
        has_ring=stages_of(spec) > 1,
    )


def lower_mma_sync(loaded: LoadedSpec, b: Budget) -> MmaSyncPlan:
    """The plan of one mma_sync kernel. `b` must have been accepted."""
    spec = b.spec
    s = spec.schedule_as(MmaSync)
    rows, columns = warp_tile(s)
    return MmaSyncPlan(
        **common(loaded, b, "mma_sync.cu.j2"),
        problem_fields=problem_fields(b.spec, stores_by_tma=len(b.boxes) > 2),
        structure=(
            f"{b.threads // 32} warps, {s.warps.m} along M and {s.warps.n} along N, one {rows} x "
            f"{columns} part each; thread 0 also issues the loads.",
            f"{grid_sentence(spec)}; no cluster.",
            _ORDER,
        ),
        constants=_mma_sync_constants(spec, b),
        layouts=(),
        storage=_storage(spec, ("kStages", "kTileM * kTileK"), "ring of A"),
        barriers=barrier_inits(b, _BARRIERS),
        slab_m=rows,
        mma=_sync_mma(spec),
        loads=_whole_loads(spec, b),
        has_ring=stages_of(spec) > 1,
        several_panels=s.tile.k * dtype(spec.gemm.a.dtype).bytes > b.swizzle_bytes,
        store=store(spec, "kWarpN"),
    )


def _storage(spec: KernelSpec, a_dims: tuple[str, ...], a_note: str) -> tuple[Field, ...]:
    element = dtype(spec.gemm.a.dtype).storage
    return (
        Field(element, "a", a_dims, a_note),
        Field(element, "b", ("kStages", "kTileN * kTileK"), "ring of B"),
        Field("uint64_t", "full", ("kStages",), "the stage holds its K tile"),
    )


def _whole_loads(spec: KernelSpec, b: Budget) -> tuple[Load, ...]:
    tile = spec.schedule.tile
    return (*loads(spec, b, "a", tile.m, None), *loads(spec, b, "b", tile.n, None))


def _mma_sync_constants(spec: KernelSpec, b: Budget) -> tuple[Constant, ...]:
    s = spec.schedule_as(MmaSync)
    rows, columns = warp_tile(s)
    blocks = rows // MMA_SYNC_M
    registers = b.role("consumer").accumulators // blocks
    f32 = spec.gemm.accumulator == "f32"
    width, size = b.swizzle_bytes, dtype(spec.gemm.a.dtype).bytes
    return (
        *tile_constants(spec),
        Constant("kWarpsM", s.warps.m, "warps along M"),
        Constant("kWarpM", rows, "rows of D per warp"),
        Constant("kWarpN", columns, "columns of D per warp"),
        Constant("kBlocks", blocks, f"blocks of {MMA_SYNC_M} rows, the M of one mma.sync"),
        *ring_constants(spec, b),
        Constant("kMmaK", MMA_SYNC_K, "K of one mma.sync"),
        Constant("kMmaRegisters", 4 if f32 else 2, "accumulators of one mma.sync, per thread"),
        Constant("kAccRegisters", registers, f"{MMA_SYNC_M} x kWarpN {spec.gemm.accumulator}"),
        Constant("kSwizzleBytes", width, f"swizzle width: {width // size} elements of a row"),
        Constant("kSwizzleRows", 128 // width, "rows in 128 bytes; their chunks move together"),
        Constant("kSwizzleChunks", width // 16, "chunks of 16 bytes in the width"),
        *raster_constants(spec),
        Constant("kThreads", b.threads, "every one of them multiplies"),
        smem_constant(b),
    )


def _sync_mma(spec: KernelSpec) -> SyncMma:
    """mma.sync.m16n8k16 and its operands: accumulators first, then four of A and two of B."""
    gemm = spec.gemm
    f32 = gemm.accumulator == "f32"
    d, ab = gemm.accumulator, dtype(gemm.a.dtype).ptx
    registers = 4 if f32 else 2
    return SyncMma(
        instruction=f"mma.sync.aligned.m16n8k16.row.col.{d}.{ab}.{ab}.{d}",
        register_type="float" if f32 else "uint32_t",
        constraint="f" if f32 else "r",
        registers=tuple(range(registers)),
        a_operands=tuple(range(registers, registers + 4)),
        b_operands=(registers + 4, registers + 5),
    )
