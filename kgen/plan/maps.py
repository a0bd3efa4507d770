"""What a plan says of operands in memory: tensor maps, and block scales that are read as f32."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.model import ScaleArray, TensorMap
from kgen.spec import KernelSpec


def tensor_maps(b: Budget) -> tuple[TensorMap, ...]:
    """The tensor maps of A, B and, where TMA stores it, D, in that order."""
    gemm, promotion = b.spec.gemm, b.spec.schedule.l2.promotion_bytes
    types = {"a": gemm.a.dtype, "b": gemm.b.dtype, "d": gemm.d.dtype}
    rows = []
    for box in b.boxes:
        if box.operand not in types:
            continue
        element = dtype(types[box.operand])
        rows.append(
            TensorMap(
                operand=box.operand,
                pointer=box.operand,
                dtype=element,
                inner=box.inner_axis,
                outer=box.outer_axis,
                ld=f"ld{box.operand}",
                box=(box.inner, box.outer),
                swizzle_bytes=box.swizzle_bytes,
                promotion_bytes=promotion,
                promotion_name=f"L2_{promotion}B" if promotion else "NONE",
                max_ld=element.elements_in(b.arch.tma_stride_limit),
            )
        )
    return tuple(rows)


def scale_arrays(spec: KernelSpec) -> tuple[ScaleArray, ...]:
    """The f32 scales of A and B, where block scales are not the MMA's own.

    The scales of neighbouring rows of A lie side by side, so that a warp reads them together.
    """
    scale = spec.gemm.block_scale
    if scale is None or scale.dtype != "f32":
        return ()
    return (
        ScaleArray("a", "sfa", rows=("k", scale.block), columns=("m", 1)),
        ScaleArray("b", "sfb", rows=("n", scale.block), columns=("k", scale.block)),
    )
