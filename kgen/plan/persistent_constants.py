"""The constants of a wgmma_persistent kernel: tile, slabs, panels, scales and cluster."""

from __future__ import annotations

from kgen.budget import Budget, TmaBox
from kgen.budget.wgmma_persistent import WARP_ROWS, panel
from kgen.dtypes import dtype
from kgen.plan.constants import (
    accumulator_constants,
    ring_constants,
    smem_constant,
    tile_constants,
)
from kgen.plan.model import Constant
from kgen.spec import KernelSpec
from kgen.spec.hopper import WgmmaPersistent
from kgen.spec.rules.wgmma import SLAB_M, mma_axes, mma_n, slabs_of


def persistent_constants(spec: KernelSpec, b: Budget) -> tuple[Constant, ...]:
    """Every constant, in the order of the text. `b` is the accepted budget of `spec`."""
    s = spec.schedule_as(WgmmaPersistent)
    size, (rows, columns) = dtype(spec.gemm.d.dtype).bytes, panel(spec)
    along = {"n": "cluster tile columns", "m": "cluster tile rows"}[s.raster.along]
    slabs = slabs_of(s)
    in_slab = mma_n(s) // {"m": rows, "n": columns}[mma_axes(s)[1]]
    order = "consumers first, then the producer" if s.producer != "none" else "all consumers"
    found = [
        *tile_constants(spec),
        Constant("kConsumers", s.consumers, "warpgroups that multiply"),
        *_slab_constants(s, b),
        *ring_constants(spec, b),
        *accumulator_constants(spec, b),
        *_scale_constants(spec, b),
        *_panel_constants(s, rows, columns, size),
        Constant("kSlabPanels", in_slab, "panels of a warp in one slab"),
        Constant("kPanels", slabs * in_slab, "panels of a warp in a tile"),
        Constant("kPanelRegisters", rows * columns * size // 4 // 32, "of a thread in one panel"),
        Constant("kStoreBuffers", s.epilogue.store_buffers, "panel-sized staging buffers per warp"),
        Constant("kRasterGroup", s.raster.group, f"{along} that run side by side"),
        Constant("kWarpgroup", b.arch.warpgroup_threads, "threads that issue one wgmma"),
        Constant("kThreads", b.threads, order),
        smem_constant(b),
    ]
    if s.cluster.m * s.cluster.n > 1:
        found += _cluster_constants(s, b)
    return tuple(found)


def _slab_constants(s: WgmmaPersistent, b: Budget) -> tuple[Constant, ...]:
    """The slabs of a consumer: rows of D, or columns where operands are swapped."""
    slabs = slabs_of(s)
    name, side, what = "A", "M", "rows"
    if s.swap_operands:
        name, side, what = "B", "N", "columns of D as rows"
    between = rows_offset(s, b.box(name.lower()), slabs * SLAB_M)
    return (
        Constant(f"kSlab{side}", SLAB_M, f"{what} of one wgmma"),
        Constant("kSlabs", slabs, "of each consumer"),
        Constant(
            f"kConsumer{name}", between, f"elements of a stage of {name} between two consumers"
        ),
    )


def _panel_constants(
    s: WgmmaPersistent, rows: int, columns: int, size: int
) -> tuple[Constant, ...]:
    """What a warp stages at a time; size is of an element of D, in bytes."""
    if not s.swap_operands:
        return (
            Constant("kPanelM", rows, "rows of a slab that one warp holds"),
            Constant("kPanelN", columns, f"columns of one TMA store: {columns * size} bytes"),
        )
    width, unit = columns * size, 16 // size
    return (
        Constant("kPanelM", rows, "rows of one TMA store"),
        Constant("kPanelN", columns, f"columns of a slab that one warp holds: {width} bytes"),
        Constant("kUnit", unit, "elements of D in 16 bytes, which a swizzle moves as one"),
        Constant("kRowUnits", columns // unit, "units in a row of a panel"),
        Constant("kBankRows", 128 // width, "rows of a panel that fill all banks once"),
    )


def _scale_constants(spec: KernelSpec, b: Budget) -> list[Constant]:
    """What the promotion of sums adds."""
    s, scale = spec.schedule_as(WgmmaPersistent), spec.gemm.block_scale
    if scale is None:
        return []
    loads = -(-slabs_of(s) * WARP_ROWS // 32)
    rows = [
        Constant("kScaleN", scale.block, "columns of D that share a scale of B"),
        Constant("kScaleLoads", loads, "scales of A that one lane loads, two slabs apart"),
    ]
    if slabs_of(s) > 1:
        units = slab_units(s, b, "a")
        rows.append(Constant("kSlabUnits", units, "units of 16 bytes between two slabs of A"))
    return rows


def slab_units(s: WgmmaPersistent, b: Budget, operand: str) -> int:
    """Descriptor units from one slab of an operand to the next."""
    box = b.box(operand)
    return rows_offset(s, box, SLAB_M) * box.element_bytes // 16


def _cluster_constants(s: WgmmaPersistent, b: Budget) -> list[Constant]:
    m, n = s.cluster.m, s.cluster.n
    rows = [
        Constant("kClusterM", m, "CTAs along M"),
        Constant("kClusterN", n, "CTAs along N"),
        Constant("kClusterSize", m * n, "rank = m + kClusterM * n"),
        Constant("kPeers", m + n - 1, "CTAs that load into one ring, its own included"),
    ]
    if n > 1:
        part = s.tile.m // n
        rows += [
            Constant("kPartRowsA", part, "rows of A that a CTA loads for its cluster row"),
            Constant("kPartA", rows_offset(s, b.box("a"), part), "elements they take of a stage"),
            Constant("kRowMask", sum(1 << (j * m) for j in range(n)), "ranks of cluster row 0"),
        ]
    if m > 1:
        part = s.tile.n // m
        rows += [
            Constant("kPartRowsB", part, "rows of B that a CTA loads for its cluster column"),
            Constant("kPartB", rows_offset(s, b.box("b"), part), "elements they take of a stage"),
            Constant("kColumnMask", (1 << m) - 1, "ranks of cluster column 0"),
        ]
    return rows


def rows_offset(s: WgmmaPersistent, box: TmaBox, rows: int) -> int:
    """Elements of a stage from the start of an operand to its row `rows`."""
    return rows * (box.inner if box.inner_axis == "k" else s.tile.k)
