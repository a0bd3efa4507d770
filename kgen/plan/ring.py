"""The loading side of the schedules that TMA feeds: tensor maps and the loads that fill a stage."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.hopper import ProducerPlan
from kgen.plan.model import Load, TensorMap
from kgen.plan.wgmma_mma import rows_constant
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import TmaTurns, WgmmaWs
from kgen.spec.rules.wgmma import consumer_m


def tensor_maps(spec: KernelSpec, b: Budget) -> tuple[TensorMap, ...]:
    """The tensor maps of A, B and, where TMA stores it, D, in that order."""
    promotion = spec.schedule.l2.promotion_bytes
    rows = []
    for box in b.boxes:
        operand = box.operand
        rows.append(
            TensorMap(
                operand=operand,
                pointer=operand,
                dtype=dtype(getattr(spec.gemm, operand).dtype),
                inner=box.inner_axis,
                outer=box.outer_axis,
                ld=f"ld{operand}",
                box=(box.inner, box.outer),
                swizzle_bytes=box.swizzle_bytes,
                promotion_bytes=promotion,
                promotion_name=f"L2_{promotion}B" if promotion else "NONE",
                max_ld=b.arch.tma_stride_limit // box.element_bytes,
            )
        )
    return tuple(rows)


def producer(spec: KernelSpec, b: Budget) -> ProducerPlan:
    """The warp that fills the ring and drains the D buffers."""
    s = spec.schedule_as(WgmmaWs)
    turns = s.epilogue if isinstance(s.epilogue, TmaTurns) else None
    order = range(s.consumers) if s.a_order == "auto" else s.a_order
    split = s.registers if isinstance(s.registers, Registers) else None
    return ProducerPlan(
        a_loads=tuple(load for slab in order for load in loads(spec, b, "a", consumer_m(s), slab)),
        b_loads=loads(spec, b, "b", s.tile.n, None),
        drains_buffers=turns is not None,
        rows=rows_constant(s),
        frees_buffers=turns is not None and turns.store_buffers < s.consumers,
        registers=split.producer if split else None,
    )


def loads(
    spec: KernelSpec, b: Budget, operand: str, rows: int, slab: int | None
) -> tuple[Load, ...]:
    """The boxes that fill one slab of A or a whole operand, in shared-memory order."""
    box = b.box(operand)
    k_is_inner = box.inner_axis == "k"
    step, total = (box.inner, spec.schedule.tile.k) if k_is_inner else (box.inner, rows)
    first = (slab or 0) * rows
    tile_first = {"a": "tile.row", "b": "tile.col"}[operand]
    found = []
    for index, start in enumerate(range(0, total, step)):
        offset = index * box.inner * box.outer
        mn, k = (first, start) if k_is_inner else (first + start, 0)
        found.append(Load(operand, tile_first, slab, offset, mn, k, k_is_inner))
    return tuple(found)
