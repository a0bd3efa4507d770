"""What verification must know of a plan: number formats, tile, ring, operands in memory."""

from __future__ import annotations

from typing import Any

from kgen.plan import KernelPlan, TensorMap
from kgen.spec.rules.wgmma import mma_k
from kgen.verify.buffers import PlacedMatrix, place_operand
from kgen.verify.inputs import Operands
from kgen.verify.numbers import Numerics
from kgen.verify.shapes import Shape, Tile


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
        slab_m=plan.slab_m,
        mma_k=mma_k(spec),
        block_k=spec.gemm.block_scale.block if spec.gemm.block_scale else 0,
        widening=tolerance.factor if tolerance else 1.0,
    )


def tile_of(plan: KernelPlan) -> Tile:
    """The tile and ring that shapes are derived from."""
    return Tile(
        *plan.tile,
        stages=plan.stages,
        operand_bytes=plan.map_a.dtype.bytes,
        output_bytes=plan.d_type.bytes,
        cluster_m=plan.cluster_tile[0] // plan.tile[0],
        cluster_n=plan.cluster_tile[1] // plan.tile[1],
        resident=plan.resident is not None,
        cuts=plan.resident is not None and plan.resident.least_saving is not None,
        store_steps=plan.constant("kPanels") if getattr(plan, "deferred", False) else 1,
    )


def leading_dimension(plan: KernelPlan, row: TensorMap, shape: Shape) -> int:
    """Elements from row to row of an operand as stored.

    Shapes give it for K-major operands; one that is not gets the same padding behind its own rows.
    """
    given = getattr(shape, row.ld)
    if row.operand == "d" or row.inner == "k":
        return given
    unit = row.multiple
    padding = given - max(1, -(-shape.k // unit)) * unit
    return max(1, -(-getattr(shape, row.inner) // unit)) * unit + padding


def operand_in_memory(plan: KernelPlan, matrix: Any, operand: str, shape: Shape) -> PlacedMatrix:
    """An operand as the kernel's map of it wants: rows along M or N, or rows of K.

    Shapes  matrix (M or N, K), numpy or cupy; the view of the result is its transpose for an
            operand that is not K-major
    """
    row = next(r for r in plan.maps if r.operand == operand)
    stored = matrix if row.inner == "k" else matrix.T
    ld = leading_dimension(plan, row, shape)
    offset = getattr(shape, f"offset_{operand}")
    return place_operand(stored, ld, row.dtype.name, offset=offset)


def scales_in_memory(operands: Operands) -> tuple[PlacedMatrix, ...]:
    """Block scales of A and of B, dense and with NaN around them; none where there are none."""
    if operands.scales is None:
        return ()
    both = (operands.scales.a, operands.scales.b)
    return tuple(place_operand(x, x.shape[1], "f32") for x in both)


def device_address(placed: PlacedMatrix) -> int:
    """Address of the matrix in a cupy buffer, also where it has no element."""
    return placed.buffer.data.ptr + placed.start * placed.buffer.itemsize
