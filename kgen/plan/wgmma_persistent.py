"""Lowering of the wgmma_persistent schedule: from a budget to the plan that its template prints."""

from __future__ import annotations

from kgen.budget import Budget, TmaBox
from kgen.budget.ring import b_stage
from kgen.dtypes import dtype
from kgen.plan.common import barrier_inits, common, problem_fields
from kgen.plan.hopper import SlabStep, WgmmaPersistentPlan
from kgen.plan.maps import scale_arrays
from kgen.plan.model import BarrierInit, Field, Load, ProblemField, ResidentGrid
from kgen.plan.persistent_constants import persistent_constants, slab_units
from kgen.plan.wgmma_mma import advance, k_step_note, layouts, mma, store
from kgen.spec import KernelSpec, LoadedSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaPersistent
from kgen.spec.rules.wgmma import SLAB_M, mma_k, mma_n, slabs_of

# Cutting tiles costs a store, a load and a longer prologue per cluster, about 7 us on an H200, and
# some of what it saves goes into a lower clock: it pays where it saves this much multiplication in
# every CTA, 32 K tiles of 128 x 256 x 128 bytes or 19 us: the time of a K tile goes with its bytes.
LEAST_SAVING = 32 * 128 * 256 * 128
# With operands swapped, few rows are multiplied and the time of a K tile goes with its bytes of B.
# A guess between few points of an H200 (benchmarks/hopper_fast/cutting.json): for one row of tiles
# cutting gained 4 % where it saved 304 KiB of B in every CTA; for four it lost 13 % at 288 KiB.
LEAST_SAVING_SWAPPED = 256 * 1024

_SCALE_NOTES = ("scales of A: M of them for a block of K", "scales of B: a row for kScaleN columns")
_ADDS = {"f32": "add_f32", "f16": "add_f16x2", "s32": "add_s32"}


def lower_wgmma_persistent(loaded: LoadedSpec, budget: Budget) -> WgmmaPersistentPlan:
    """The plan of one wgmma_persistent kernel. `budget` must have been accepted."""
    spec = budget.spec
    s = spec.schedule_as(WgmmaPersistent)
    cluster, wraps = (s.cluster.m, s.cluster.n), s.scheduler == "wrap"
    split = s.registers if isinstance(s.registers, Registers) else None
    return WgmmaPersistentPlan(
        **common(loaded, budget, "wgmma_persistent.cu.j2", cluster=cluster, workspace=wraps),
        problem_fields=_problem(spec),
        structure=_structure(s, budget),
        constants=persistent_constants(spec, budget),
        layouts=layouts(budget),
        storage=_storage(spec, budget),
        barriers=_barriers(budget),
        slab_m=s.tile.m if s.swap_operands else SLAB_M,
        cluster=cluster,
        pdl=s.pdl,
        resident=_resident(spec, budget),
        mma=mma(spec, budget, overwrites=True),
        shares_a=s.cluster.n > 1,
        shares_b=s.cluster.m > 1,
        shares_both=s.cluster.m > 1 and s.cluster.n > 1,
        several_consumers=s.consumers > 1,
        swaps=s.swap_operands,
        snakes=s.raster.snake,
        wraps=wraps,
        refills=s.producer == "none",
        a_loads=_loads(s, budget.box("a"), s.tile.m, s.cluster.n),
        b_loads=_loads(s, budget.box("b"), s.tile.n, s.cluster.m),
        steps=_steps(spec, budget),
        k_step_note=k_step_note(budget),
        releases_previous=s.release == "previous",
        converts=store(spec, "kTileN").converts,
        stores_words=dtype(spec.gemm.d.dtype).bits == 32,
        takes_bits=spec.gemm.d.dtype == "f32",
        ties_sums=_ties_sums(spec),
        adds_part=_ADDS[spec.gemm.accumulator],
        deferred=s.epilogue.deferred,
        promotes=spec.gemm.block_scale is not None,
        several_slabs=slabs_of(s) > 1,
        producer_registers=split.producer if split else None,
        consumer_registers=split.consumer if split else None,
    )


def _ties_sums(spec: KernelSpec) -> bool:
    """Where ptxas takes what follows an added part for a stage of the wgmma pipeline (C7514)."""
    s = spec.schedule_as(WgmmaPersistent)
    stored = spec.gemm.d.dtype == spec.gemm.accumulator == "f32" and not s.swap_operands
    return stored and s.scheduler == "wrap" and s.release == "previous"


def _resident(spec: KernelSpec, b: Budget) -> ResidentGrid:
    s = spec.schedule_as(WgmmaPersistent)
    accumulators = b.role("consumer").accumulators
    k_tile, least = s.tile.m * b_stage(spec), LEAST_SAVING
    if s.swap_operands:
        k_tile, least = b_stage(spec), LEAST_SAVING_SWAPPED
    return ResidentGrid(
        most=None if s.clusters == "auto" else s.clusters,
        least_saving=-(-least // k_tile) if s.scheduler == "wrap" else None,
        part_bytes=s.consumers * b.arch.warpgroup_threads * accumulators * 4,
        flags=s.consumers,
    )


def _structure(s: WgmmaPersistent, b: Budget) -> tuple[str, ...]:
    slabs = slabs_of(s)
    slab = f"{SLAB_M} x {mma_n(s)}"
    each = f"{slabs} slabs of {slab}" if slabs > 1 else slab
    producer = {
        "none": "no producer: a thread of the first consumer loads",
        "warp": "1 producer warp",
        "warpgroup": "1 producer warpgroup",
    }[s.producer]
    swapped = (
        f"D^T = B A^T: {SLAB_M} columns of D lie along the rows of a wgmma, {s.tile.m} rows of D",
        "along its columns.",
    )
    consumers = f"{s.consumers} consumer warpgroup{'s' if s.consumers > 1 else ''}"
    along = "columns" if s.raster.along == "n" else "rows"
    cluster = f"{s.cluster.m} x {s.cluster.n} CTAs"
    cuts = (
        "Where that pays, some tiles are cut in two, so that all clusters end together.",
        "K is summed in one fixed order: equal inputs on the same device give equal bits.",
    )
    whole = ("K is summed in one fixed order: equal inputs give equal bits.",)
    overlaps = (
        "Launched with programmatic stream serialisation: its prologue overlaps the launch ahead;",
        "A, B and D are touched only after that has ended.",
    )
    return (
        f"{b.threads // 32} warps: {consumers} of {each}, and {producer}.",
        *(swapped if s.swap_operands else ()),
        f"Resident clusters of {cluster}, one CTA per SM, take cluster tiles in turn, in groups of",
        f"{s.raster.group} {along}{', every second group backwards' if s.raster.snake else ''}.",
        *(cuts if s.scheduler == "wrap" else whole),
        *(overlaps if s.pdl else ()),
    )


def _loads(s: WgmmaPersistent, box: TmaBox, extent: int, parts: int) -> tuple[Load, ...]:
    """The boxes of one CTA's part of an operand, in shared-memory order.

    extent  rows of the operand in the CTA's tile, of which the CTA loads 1 / parts
    """
    rows = extent // parts
    first = {"a": "row", "b": "col"}[box.operand] + (f"_{box.operand}" if parts > 1 else "")
    loads = []
    if box.inner_axis == "k":
        for k in range(0, s.tile.k, box.inner):
            for row in range(0, rows, box.outer):
                offset = k * extent + row * box.inner
                loads.append(Load(box.operand, first, None, offset, row, k, k_is_inner=True))
    else:
        for row in range(0, rows, box.inner):
            loads.append(Load(box.operand, first, None, row * s.tile.k, row, 0, k_is_inner=False))
    return tuple(loads)


def _steps(spec: KernelSpec, b: Budget) -> tuple[SlabStep, ...]:
    """The MMAs of one K tile, all slabs of a K step before the next.

    Where sums are promoted, those of one slab: each is a wgmma group of its own.
    """
    s = spec.schedule_as(WgmmaPersistent)
    divided = "b" if s.swap_operands else "a"
    between = slab_units(s, b, divided)
    slabs = 1 if spec.gemm.block_scale else slabs_of(s)

    def at(operand: str, rows: int, slab: int, k: int) -> int:
        first = slab * between if operand == divided else 0
        return first + advance(b, operand, rows, 0, k)

    return tuple(
        SlabStep(slab, at("a", s.tile.m, slab, k), at("b", s.tile.n, slab, k), first=k == 0)
        for k in range(0, s.tile.k, mma_k(spec))
        for slab in range(slabs)
    )


def _barriers(b: Budget) -> tuple[BarrierInit, ...]:
    s = b.spec.schedule_as(WgmmaPersistent)
    empty = "kConsumers * kPeers" if s.cluster.m * s.cluster.n > 1 else "kConsumers"
    return barrier_inits(b, {"full": ("kStages", "1"), "empty": ("kStages", empty)})


def _problem(spec: KernelSpec) -> tuple[ProblemField, ...]:
    fields = problem_fields(
        spec,
        stores_by_tma=True,
        tiles=("grid.tiles_m", "grid.tiles_n"),
        what=("cluster tiles", "cluster tiles"),
    )
    fields += tuple(
        ProblemField(
            "const float*", x.pointer, "u8", f"static_cast<const float*>({x.pointer})", note
        )
        for x, note in zip(scale_arrays(spec), _SCALE_NOTES, strict=False)
    )
    if spec.schedule_as(WgmmaPersistent).scheduler != "wrap":
        return fields
    share = "K tiles of a cluster; 0: no tile is cut"
    return (
        *fields,
        ProblemField("int", "share", "i4", "static_cast<int>(grid.share)", share),
        ProblemField("uint32_t*", "flags", "u8", "grid.flags(workspace)", "1: a part is there"),
        ProblemField("uint4*", "parts", "u8", "grid.parts(workspace)", "sums of cut tiles"),
    )


def _storage(spec: KernelSpec, b: Budget) -> tuple[Field, ...]:
    s = spec.schedule_as(WgmmaPersistent)
    element, d_element = dtype(spec.gemm.a.dtype).storage, dtype(spec.gemm.d.dtype).storage
    warps = b.role("consumer").warps
    rows = [
        Field(element, "a", ("kStages", "kTileM * kTileK"), "ring of A"),
        Field(element, "b", ("kStages", "kTileN * kTileK"), "ring of B"),
        Field(
            d_element, "d", (str(warps), "kStoreBuffers", "kPanelM * kPanelN"), "staged, per warp"
        ),
    ]
    if s.producer == "none":
        rows.append(Field("Refill", "refill", (), "place of the thread that loads"))
    if s.scheduler == "wrap":
        rows.append(Field("Share", "share", (), "of this cluster in the K tiles"))
    notes = {"full": "the stage holds its K tile", "empty": "all its readers have read it"}
    rows += [Field("uint64_t", x.name, ("kStages",), notes[x.name]) for x in b.barriers]
    return tuple(rows)
