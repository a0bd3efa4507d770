"""The loading side of the schedules that TMA feeds: tensor maps and the loads that fill a stage."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.plan.hopper import ProducerPlan
from kgen.plan.model import Load
from kgen.plan.wgmma_mma import rows_constant
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import TmaTurns, WgmmaWs
from kgen.spec.rules.wgmma import consumer_m


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
