"""What verification must know of a plan: its number formats, its tile, its ring."""

from __future__ import annotations

from kgen.plan import KernelPlan
from kgen.verify.numbers import Numerics
from kgen.verify.shapes import Tile


def numerics_of(plan: KernelPlan) -> Numerics:
    """How a right kernel of this plan rounds, and how its output is cut."""
    spec = plan.budget.spec
    tolerance = spec.verify.tolerance
    return Numerics(
        a=spec.gemm.a.dtype,
        b=spec.gemm.b.dtype,
        accumulator=spec.gemm.accumulator,
        output=spec.gemm.d.dtype,
        tile_m=plan.tile[0],
        tile_n=plan.tile[1],
        tile_k=plan.tile[2],
        slab_m=plan.constant("kSlabM"),
        widening=tolerance.factor if tolerance else 1.0,
    )


def tile_of(plan: KernelPlan) -> Tile:
    """The tile and ring that shapes are derived from."""
    return Tile(*plan.tile, stages=plan.constant("kStages"))
