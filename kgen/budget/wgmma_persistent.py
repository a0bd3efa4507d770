"""Size arithmetic of the wgmma_persistent schedule."""

from __future__ import annotations

from kgen.arch import ARCHS, Arch
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Barrier, Budget, Role, TmaBox
from kgen.budget.register_split import (
    register_caps,
    slab_accumulators,
    with_registers,
)
from kgen.budget.ring import (
    a_stage,
    b_stage,
    operand_box,
    ring_budget,
    ring_smem,
    ring_swizzle,
    update,
    with_stages,
)
from kgen.dtypes import dtype
from kgen.spec import KernelSpec
from kgen.spec.hopper import WgmmaPersistent
from kgen.spec.rules.wgmma import MMA_N, SLAB_M, slabs_of, store_box_n, swaps

WARP_ROWS = 16  # rows of a slab that one warp holds; wgmma accumulator layout
PATTERN_ROWS = 8  # of a K-major operand: one swizzle pattern; a box starts on a whole one
REFILL_BYTES = 32  # where producer: none keeps its place, outside the consumers' registers
SHARE_BYTES = 32  # a cluster's share of the K tiles, with scheduler: wrap

# Registers beyond the accumulators, as ptxas 13.5 reports them for these templates. Estimates: the
# ptxas gate has the last word on every build.
CONSUMER_OVERHEAD = 36
LOADING_OVERHEAD = 42  # of a thread that loads and multiplies, with release: same
LOADING_ONE_STAGE_OVERHEAD = 58  # of one that has one stage to load into
PARTS_OVERHEAD = 64  # of one that loads and cuts tiles of more than 128 sums a thread
PROMOTING_OVERHEAD = 40  # of a consumer that scales and adds up the sums of blocks
LOADING_PROMOTING_OVERHEAD = 66  # of one that loads, too; 64 spilled
SWAPPED_WORDS_OVERHEAD = 56  # of one that stages 32-bit values transposed
PRODUCER_REGISTERS = 38


def wgmma_persistent_budget(spec: KernelSpec) -> Budget:
    """The budget of `spec` with every `auto` resolved, whether it fits or not."""
    arch = ARCHS[spec.target]
    swizzle = ring_swizzle(spec, arch)
    threads = _threads(spec, arch)
    shallowest = 2 if _persistent(spec).release == "previous" else 1
    spec = update(
        with_stages(spec, shallowest, lambda x: persistent_smem(x, arch)), swizzle_bytes=swizzle
    )
    spec = with_registers(spec, arch, threads, PRODUCER_REGISTERS)
    roles = _roles(spec, arch, threads)
    return ring_budget(
        spec, arch, roles, persistent_smem(spec, arch), _barriers(spec), _boxes(spec, swizzle)
    )


def _persistent(spec: KernelSpec) -> WgmmaPersistent:
    return spec.schedule_as(WgmmaPersistent)


def panel(spec: KernelSpec) -> tuple[int, int]:
    """Rows and columns of D that a warp stages and stores at a time.

    Of the 16 rows of a slab that it holds, as many columns as one TMA store takes. Where operands
    are swapped these are 16 columns of D, and as many rows as divide the tile, up to a slab's.
    """
    if not swaps(_persistent(spec)):
        return WARP_ROWS, store_box_n(spec)
    rows = spec.schedule.tile.m
    return max(x for x in range(MMA_N, SLAB_M + 1, MMA_N) if rows % x == 0), WARP_ROWS


def _consumer_warps(spec: KernelSpec, arch: Arch) -> int:
    return _persistent(spec).consumers * arch.warpgroup_threads // 32


def persistent_smem(spec: KernelSpec, arch: Arch) -> Ledger:
    """Shared memory of one CTA; the D buffers are (warps, store_buffers, panel rows, columns)."""
    s, size = _persistent(spec), dtype(spec.gemm.d.dtype).bytes
    warps, buffers = _consumer_warps(spec, arch), s.epilogue.store_buffers
    rows, columns = panel(spec)
    outputs = [
        Item(
            "D buffers",
            warps * buffers * rows * columns * size,
            f"{warps} warps x {buffers} x {rows} x {columns} x {size} B",
        )
    ]
    if s.producer == "none":
        outputs.append(Item("refill", REFILL_BYTES, "place of the thread that loads"))
    if s.scheduler == "wrap":
        outputs.append(Item("share", SHARE_BYTES, "of the cluster in the K tiles"))
    barriers = sum(b.count for b in _barriers(spec))
    return ring_smem(spec, arch, barriers, tuple(outputs))


def _threads(spec: KernelSpec, arch: Arch) -> int:
    producer = {"none": 0, "warp": 32, "warpgroup": arch.warpgroup_threads}
    s = _persistent(spec)
    return s.consumers * arch.warpgroup_threads + producer[s.producer]


def _roles(spec: KernelSpec, arch: Arch, threads: int) -> tuple[Role, ...]:
    producer_cap, consumer_cap = register_caps(spec, arch, threads)
    warps = _consumer_warps(spec, arch)
    slab = slab_accumulators(spec, arch)
    accumulators = slabs_of(_persistent(spec)) * slab
    # As pairs of 16-bit values.
    waiting = accumulators // 2 if _persistent(spec).epilogue.deferred else 0
    block_sums = slab if spec.gemm.block_scale else 0
    overhead = _overhead(spec)
    roles = [
        Role("consumer", warps, 0, consumer_cap, accumulators, overhead, waiting, block_sums),
    ]
    if threads > warps * 32:
        others = threads // 32 - warps
        roles.append(Role("producer", others, warps, producer_cap, 0, PRODUCER_REGISTERS))
    return tuple(roles)


def _overhead(spec: KernelSpec) -> int:
    """Registers of a consumer beside accumulators and the tile that waits."""
    s = _persistent(spec)
    if spec.gemm.block_scale:
        return LOADING_PROMOTING_OVERHEAD if s.producer == "none" else PROMOTING_OVERHEAD
    if s.producer == "none":
        many = slabs_of(s) * slab_accumulators(spec, ARCHS[spec.target]) > 128
        if many and s.scheduler == "wrap" and s.release == "previous":
            return PARTS_OVERHEAD
        if s.stages == 1:
            return LOADING_ONE_STAGE_OVERHEAD
        return LOADING_OVERHEAD if s.release == "same" else CONSUMER_OVERHEAD
    words = dtype(spec.gemm.d.dtype).bits == 32
    if s.swap_operands and words:
        return SWAPPED_WORDS_OVERHEAD
    return CONSUMER_OVERHEAD


def _barriers(spec: KernelSpec) -> tuple[Barrier, ...]:
    """The mbarriers, with arrivals derived from who arrives."""
    s = _persistent(spec)
    assert isinstance(s.stages, int)
    cluster = s.cluster.m * s.cluster.n
    stage = a_stage(spec) + b_stage(spec)
    peers = s.cluster.m + s.cluster.n - 1
    loader = "the producer thread" if s.producer != "none" else "the loading thread"
    filler = f"{loader}, then TMA" + (" of the cluster" if cluster > 1 else "")
    readers = "one thread of each consumer" + (f" of {peers} CTAs" if cluster > 1 else "")
    return (
        Barrier("full", s.stages, 1, stage, filler, "consumers"),
        Barrier("empty", s.stages, s.consumers * peers, 0, readers, loader.removeprefix("the ")),
    )


def _ranges(rows: int, arch: Arch) -> int:
    """Boxes one below the other that cover `rows` K-major rows: equal, of whole patterns."""
    return next(
        n
        for n in range(1, rows + 1)
        if rows % (n * PATTERN_ROWS) == 0 and rows // n <= arch.tma_box_extent
    )


def _boxes(spec: KernelSpec, swizzle: int) -> tuple[TmaBox, ...]:
    """TMA requests: a CTA loads its part of what the cluster shares, in boxes that fit."""
    s, size = _persistent(spec), dtype(spec.gemm.d.dtype).bytes
    arch = ARCHS[spec.target]
    boxes = []
    for name, extent, parts in (("a", s.tile.m, s.cluster.n), ("b", s.tile.n, s.cluster.m)):
        rows = extent // parts
        ranges = 1 if getattr(spec.gemm, name).major != "k" else _ranges(rows, arch)
        boxes.append(operand_box(spec, name, swizzle, rows // ranges, ranges))
    panel_rows, columns = panel(spec)
    count = s.tile.m * s.tile.n // (panel_rows * columns)
    width = columns * size
    d = TmaBox("d", "n", "m", columns, panel_rows, size, width, f"{count} per tile", count)
    return (*boxes, d)
