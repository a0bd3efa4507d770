"""What verification must know of a plan: number formats, tile, ring, operands in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgen.blockscale import pack_scales
from kgen.budget.tcgen05 import Tcgen05Budget
from kgen.dtypes import dtype
from kgen.errors import LaunchError
from kgen.minifloat import pack_pairs
from kgen.plan import KernelPlan, TensorMap
from kgen.run import Arguments
from kgen.scales import ScaleLayout
from kgen.spec.rules.wgmma import mma_k
from kgen.verify.arrays import array_module
from kgen.verify.buffers import PlacedMatrix, place_operand
from kgen.verify.inputs import Operands
from kgen.verify.mma_scales import ScaledOperands
from kgen.verify.numbers import MmaScaling, Numerics, number_format
from kgen.verify.shapes import Shape, Tile


def numerics_of(plan: KernelPlan) -> Numerics:
    """How a right kernel of this plan rounds, and how its output is cut."""
    b, spec = plan.budget, plan.budget.spec
    tolerance = spec.verify.tolerance
    scaling = _scaling_of(plan)
    return Numerics(
        a="f32" if scaling else spec.gemm.a.dtype,
        b="f32" if scaling else spec.gemm.b.dtype,
        accumulator=spec.gemm.accumulator,
        output=spec.gemm.d.dtype,
        tile_m=plan.tile[0],
        tile_n=plan.tile[1],
        tile_k=plan.tile[2],
        slab_m=plan.slab_m,
        mma_k=b.shape.form.k if isinstance(b, Tcgen05Budget) else mma_k(spec),
        block_k=spec.gemm.block_scale.block if plan.scale_arrays and spec.gemm.block_scale else 0,
        widening=tolerance.factor if tolerance else 1.0,
        family=b.arch.family,
        scaling=scaling,
    )


def _scaling_of(plan: KernelPlan) -> MmaScaling | None:
    gemm = plan.budget.spec.gemm
    scale = gemm.block_scale
    if plan.scale_arrays or not (scale or gemm.global_scale):
        return None
    blocks = (scale.dtype, scale.block) if scale else ("", 0)
    return MmaScaling(gemm.a.dtype, gemm.b.dtype, *blocks, gemm.global_scale)


def tile_of(plan: KernelPlan) -> Tile:
    """The tile and ring that shapes are derived from."""
    return Tile(
        *plan.tile,
        stages=plan.stages,
        operand_bits=plan.map_a.dtype.bits,
        output_bytes=plan.d_type.bytes,
        cluster_m=plan.cluster_tile[0] // plan.tile[0],
        cluster_n=plan.cluster_tile[1] // plan.tile[1],
        resident=plan.resident is not None,
        cuts=plan.resident is not None and plan.resident.least_saving is not None,
        k_whole=plan.scale_maps[0].whole if plan.scale_maps else 1,
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
            operand that is not K-major, and has a byte for two elements of four bits
    """
    row = next(r for r in plan.maps if r.operand == operand)
    stored = matrix if row.inner == "k" else matrix.T
    ld = leading_dimension(plan, row, shape)
    offset, share = getattr(shape, f"offset_{operand}"), row.dtype.elements_per_byte
    if share > 1:
        stored = pack_pairs(stored)
    return place_operand(stored, ld // share, row.dtype.name, offset=offset // share)


@dataclass(frozen=True)
class PlacedOperands:
    """What a launch reads: operands, and their block scales where the kernel has them."""

    a: PlacedMatrix
    b: PlacedMatrix
    scales: tuple[PlacedMatrix, ...] = ()
    alpha: float = 1.0


def operands_in_memory(plan: KernelPlan, operands: Operands, shape: Shape) -> PlacedOperands:
    """Operands as a launch wants them; scales in the kernel's layout, padded with NaN.

    Raises  LaunchError for a K that would let padding take part, as the launcher does
    """
    for row in plan.scale_maps:
        if shape.k % row.whole:
            text = next(s.text for s in plan.statuses if s.name == "k_not_whole_scales")
            what = f"{plan.name}: k_not_whole_scales: {text} (k = {shape.k})"
            raise LaunchError(what, "k_not_whole_scales")
    a, b = (operand_in_memory(plan, operands.stored(x), x, shape) for x in "ab")
    if not isinstance(operands, ScaledOperands):
        return PlacedOperands(a, b, scales_in_memory(operands))
    scaling = _scaling_of(plan)
    assert scaling is not None
    scales = []
    for matrix in operands.mma_scales:
        layout = ScaleLayout(matrix.shape[0], shape.k, scaling.block)
        nan = number_format(scaling.scale).poison
        packed = pack_scales(layout, matrix, nan, array_module(matrix)).reshape(1, -1)
        scales.append(place_operand(packed, layout.bytes, scaling.scale))
    return PlacedOperands(a, b, tuple(scales), operands.alpha)


def arguments_of(shape: Shape, x: PlacedOperands, d: PlacedMatrix) -> Arguments:
    """Launch arguments of placed matrices."""
    a, b, out, *scales = (device_address(matrix) for matrix in (x.a, x.b, d, *x.scales))
    lda, ldb = (m.ld * dtype(m.name).elements_per_byte for m in (x.a, x.b))
    sfa, sfb = scales or (0, 0)
    sizes = (shape.m, shape.n, shape.k)
    return Arguments(a, b, out, *sizes, lda, ldb, d.ld, sfa=sfa, sfb=sfb, alpha=x.alpha)


def scales_in_memory(operands: Operands) -> tuple[PlacedMatrix, ...]:
    """Block scales of A and of B, dense and with NaN around them; none where there are none."""
    if operands.scales is None:
        return ()
    both = (operands.scales.a, operands.scales.b)
    return tuple(place_operand(x, x.shape[1], "f32") for x in both)


def device_address(placed: PlacedMatrix) -> int:
    """Address of the matrix in a cupy buffer, also where it has no element."""
    return placed.buffer.data.ptr + placed.start * placed.buffer.itemsize
