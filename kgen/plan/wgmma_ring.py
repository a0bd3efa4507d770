"""The producer's side of the wgmma_ws schedule: tensor maps and the loads that fill a stage."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.model import Load, ProducerPlan, TensorMap
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaWs
from kgen.spec.rules.wgmma import SLAB_M


def tensor_maps(spec: KernelSpec, b: Budget) -> tuple[TensorMap, ...]:
    """The tensor maps of A, B and D, in that order."""
    promotion = spec.schedule_as(WgmmaWs).l2.promotion_bytes
    rows = []
    for operand in ("a", "b", "d"):
        box = b.box(operand)
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
    takes_turns = s.epilogue.store_buffers < s.consumers
    order = range(s.consumers) if s.a_order == "auto" else s.a_order
    split = s.registers if isinstance(s.registers, Registers) else None
    return ProducerPlan(
        a_loads=tuple(load for slab in order for load in _loads(spec, b, "a", SLAB_M, slab)),
        b_loads=_loads(spec, b, "b", s.tile.n, None),
        frees_buffers=takes_turns,
        registers=split.producer if split else None,
    )


def _loads(
    spec: KernelSpec, b: Budget, operand: str, rows: int, slab: int | None
) -> tuple[Load, ...]:
    """The boxes that fill one slab of A or the B tile, in shared-memory order."""
    box = b.box(operand)
    k_is_inner = box.inner_axis == "k"
    step, total = (box.inner, spec.schedule_as(WgmmaWs).tile.k) if k_is_inner else (box.inner, rows)
    first = (slab or 0) * rows
    loads = []
    for index, start in enumerate(range(0, total, step)):
        offset = index * box.inner * box.outer
        mn, k = (first, start) if k_is_inner else (first + start, 0)
        loads.append(Load(operand, slab, offset, mn, k, k_is_inner))
    return tuple(loads)
