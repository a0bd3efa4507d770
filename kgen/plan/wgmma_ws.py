"""Lowering of the wgmma_ws schedule: from a budget to the plan that its template prints.

The producer's side is in `wgmma_ring`, the consumers' in `wgmma_mma`.
"""

from __future__ import annotations

from kgen.budget import Budget
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
from kgen.plan.hopper import WgmmaWsPlan
from kgen.plan.model import BarrierInit, Constant, Field
from kgen.plan.ring import producer
from kgen.plan.wgmma_mma import consumer, layouts, mma, rows_constant
from kgen.spec import KernelSpec, LoadedSpec
from kgen.spec.hopper import TmaTurns, WgmmaWs
from kgen.spec.rules.wgmma import SLAB_M, consumer_m, slabs_of, store_box_n


def lower_wgmma_ws(loaded: LoadedSpec, budget: Budget) -> WgmmaWsPlan:
    """The plan of one wgmma_ws kernel. `budget` must have been accepted."""
    spec = budget.spec
    return WgmmaWsPlan(
        **common(loaded, budget, "wgmma_ws.cu.j2"),
        problem_fields=problem_fields(budget.spec, stores_by_tma=len(budget.boxes) > 2),
        structure=_structure(spec, budget),
        constants=_constants(spec, budget),
        layouts=layouts(budget),
        storage=_storage(spec, budget),
        barriers=_barriers(budget),
        slab_m=consumer_m(spec.schedule_as(WgmmaWs)),
        mma=mma(spec, budget),
        producer=producer(spec, budget),
        consumer=consumer(spec, budget),
    )


def _structure(spec: KernelSpec, b: Budget) -> tuple[str, ...]:
    s = spec.schedule_as(WgmmaWs)
    plural, each = ("s", " each") if s.consumers > 1 else ("", "")
    slab = slabs_sentence(s)
    producer = "1 producer warp" if s.producer == "warp" else "1 producer warpgroup"
    return (
        f"{b.threads // 32} warps: {s.consumers} consumer warpgroup{plural}, {slab}{each}, "
        f"and {producer}.",
        f"{grid_sentence(spec)}; one CTA per SM, no cluster.",
        "K is summed in one fixed order: equal inputs give equal bits.",
    )


def _constants(spec: KernelSpec, b: Budget) -> tuple[Constant, ...]:
    s = spec.schedule_as(WgmmaWs)
    return (
        *tile_constants(spec),
        Constant("kConsumers", s.consumers, consumers_note(s)),
        *slab_constants(spec),
        *ring_constants(spec, b),
        *accumulator_constants(spec, b),
        *_store_constants(spec),
        *raster_constants(spec),
        Constant("kWarpgroup", b.arch.warpgroup_threads, "threads that issue one wgmma"),
        Constant("kThreads", b.threads, "consumers first, then the producer"),
        smem_constant(b),
    )


def _store_constants(spec: KernelSpec) -> list[Constant]:
    s = spec.schedule_as(WgmmaWs)
    if not isinstance(s.epilogue, TmaTurns):
        return []
    size = dtype(spec.gemm.d.dtype).bytes
    pairs = SLAB_M * s.tile.n * size // 4 // 128
    columns = store_box_n(spec)
    width = f"columns of one TMA store: {columns * size} bytes"
    return [
        Constant("kOutRegisters", pairs, f"the same as pairs of {spec.gemm.d.dtype}"),
        Constant("kStoreBoxN", columns, width),
        Constant(
            "kStoreBoxes",
            s.tile.n // columns,
            f"TMA stores per {'slab' if slabs_of(s) == 1 else 'consumer'}",
        ),
        Constant(
            "kStoreBuffers",
            s.epilogue.store_buffers,
            "slab-sized staging buffers of D" if slabs_of(s) == 1 else "staging buffers of D",
        ),
    ]


_BARRIER_COUNTS = {
    "full": ("kStages", "1"),
    "empty": ("kStages", "kConsumers"),
    "d_ready": ("kConsumers", "kWarpgroup"),
    "d_free": ("kConsumers - kStoreBuffers", "1"),
}


def _barriers(b: Budget) -> tuple[BarrierInit, ...]:
    return barrier_inits(b, _BARRIER_COUNTS)


def _storage(spec: KernelSpec, b: Budget) -> tuple[Field, ...]:
    element = dtype(spec.gemm.a.dtype).storage
    own_rows = rows_constant(spec.schedule_as(WgmmaWs))
    d_element = dtype(spec.gemm.d.dtype).storage
    rows = [
        Field(element, "a", ("kStages", "kConsumers", f"{own_rows} * kTileK"), "ring of A slabs"),
        Field(element, "b", ("kStages", "kTileN * kTileK"), "ring of B"),
    ]
    if isinstance(spec.schedule_as(WgmmaWs).epilogue, TmaTurns):
        boxes = ("kStoreBuffers", "kStoreBoxes", f"{own_rows} * kStoreBoxN")
        rows.append(Field(d_element, "d", boxes, "staged for TMA"))
    notes = {
        "full": "the stage holds its K tile",
        "empty": "all consumers have read it",
        "d_ready": "consumer i has staged its slab",
        "d_free": "that slab has been read",
    }
    rows += [Field("uint64_t", x.name, (x.count,), notes[x.name]) for x in _barriers(b)]
    return tuple(rows)
