"""Size arithmetic of the tcgen05 schedules: shared memory, tensor memory, barriers, TMA boxes."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.arch import ARCHS, Arch, launch_register_cap
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Budget, Role, TmaBox
from kgen.budget.tcgen05_barriers import (
    ANSWER_BYTES,
    EPILOGUE_WARPS,
    TILE_SLOTS,
    barriers,
    producers,
)
from kgen.budget.tcgen05_geometry import Geometry, geometry
from kgen.budget.tmem import TmemBuffer, TmemMap, plan_tmem
from kgen.scales import TILE_BYTES, TILE_ROWS, TILE_SCALES
from kgen.spec import KernelSpec
from kgen.spec.rules.tcgen05 import LANES, ROW_BYTES, schedule_of

MBARRIER_BYTES = 8
WORD_BYTES = 4  # where tcgen05.alloc leaves the first column
# Beyond the values of one box, as ptxas 13.5 reports for these templates; an estimate.
EPILOGUE_REGISTERS = 28
PRODUCER_REGISTERS = 40
MMA_REGISTERS = 40
SCHEDULER_REGISTERS = 40


@dataclass(frozen=True)
class Tcgen05Budget(Budget):
    """A budget with its tensor memory and the division of its tile."""

    tmem: TmemMap
    shape: Geometry
    oversized: bool  # needs the oversized shared-memory mode

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """Shared memory, and the columns of tensor memory."""
        return self.smem, self.tmem.ledger()


def tcgen05_budget(spec: KernelSpec) -> Tcgen05Budget:
    """The budget of `spec` with every `auto` resolved, whether it fits or not."""
    arch, g = ARCHS[spec.target], geometry(spec)
    spec = _with_buffers(spec, arch, g)
    spec = _with_stages(spec, arch, g)
    s = schedule_of(spec)
    smem = tcgen05_smem(spec, arch, g)
    tmem = _tmem(spec, arch, g, _buffers(spec))
    roles = _roles(spec, arch, g)
    threads = 32 * sum(r.warps for r in roles)
    cap = launch_register_cap(arch, threads)
    oversized = s.smem.oversized is True or (
        smem.total > arch.smem_per_cta and arch.smem_oversized_per_cta > 0
    )
    spec = _nested(spec, "smem", oversized=oversized)
    spec = _nested(spec, "tmem", exclusive=tmem.exclusive)
    operand_bits = (s.tile.m + s.tile.n) * g.operand.bits
    return Tcgen05Budget(
        spec=spec,
        arch=arch,
        threads=threads,
        smem=smem,
        launch_cap=cap,
        register_pool=cap * -(-threads // arch.warpgroup_threads),
        roles=roles,
        barriers=barriers(spec, g),
        boxes=_boxes(spec, g),
        swizzle_bytes=ROW_BYTES,
        stage_bytes=g.a_bytes + g.b_bytes + g.sfa_bytes + g.sfb_bytes,
        operand_bytes_per_flop=operand_bits / 8 / (2 * s.tile.m * s.tile.n),
        tmem=tmem,
        shape=g,
        oversized=oversized,
    )


def ring_depths(spec: KernelSpec) -> tuple[int, int]:
    """Stages of A's ring and of B's, which are the same ring unless the schedule splits them."""
    s = schedule_of(spec)
    a, b = getattr(s, "a_stages", s.stages), s.stages
    assert isinstance(a, int) and isinstance(b, int)
    return a, b


def _nested(spec: KernelSpec, name: str, **fields: object) -> KernelSpec:
    """A copy with fields of one part of the schedule changed."""
    part = getattr(spec.schedule, name).model_copy(update=fields)
    return _update(spec, **{name: part})


def _update(spec: KernelSpec, **fields: object) -> KernelSpec:
    return spec.model_copy(update={"schedule": spec.schedule.model_copy(update=fields)})


def smem_limit(spec: KernelSpec, arch: Arch) -> int:
    """Bytes the CTA may use: the hardware's, or less if the spec says so."""
    s = schedule_of(spec)
    plain = arch.smem_per_cta
    largest = plain if s.smem.oversized is False else max(plain, arch.smem_oversized_per_cta)
    return min(largest, s.smem.limit or largest)


def tcgen05_smem(spec: KernelSpec, arch: Arch, g: Geometry) -> Ledger:
    """Shared memory of one CTA, in layout order. Depths of rings must be numbers.

    Shapes  A (a_stages, rows, tile.k); B (b_stages, n_tiles, rows, tile.k); D (store_buffers, 128
            rows, 128 bytes); scales (stages, blocks of 128 rows, words of four, 512 bytes)
    Units   bytes; A, B and D start on 1024 (the 128B swizzle pattern); the total is padded to
            1024, so that it equals sizeof(SharedStorage)
    Source  CUDA C++ Programming Guide, technical specifications per compute capability; the
            oversized mode from the CUDA 13.5 headers
    """
    s = schedule_of(spec)
    a_stages, b_stages = ring_depths(spec)
    size = f"{g.operand.bits} bits"
    n_tiles = f"{g.n_tiles} x " if g.n_tiles > 1 else ""
    count = sum(b.count for b in barriers(spec, g))
    items = [
        Item(
            "A ring",
            a_stages * g.a_bytes,
            f"{a_stages} stages x {g.rows_a} x {g.tile_k} x {size}",
        ),
        Item(
            "B ring",
            b_stages * g.b_bytes,
            f"{b_stages} stages x {n_tiles}{g.rows_b} x {g.tile_k} x {size}",
        ),
        Item(
            "D buffers",
            s.epilogue.store_buffers * g.buffer_bytes,
            f"{s.epilogue.store_buffers} x {LANES} rows x {ROW_BYTES} B ({s.epilogue.kind})",
        ),
    ]
    for name, blocks, scales in (
        ("A scales", g.sfa_blocks, g.sfa_bytes),
        ("B scales", g.sfb_blocks, g.sfb_bytes),
    ):
        if scales:
            how = f"{b_stages} stages x {blocks} x {g.words} blocks x {TILE_BYTES} B"
            items.append(Item(name, b_stages * scales, how))
    if s.scheduler == "clc":
        how = f"{TILE_SLOTS} answers x {ANSWER_BYTES} B"
        items.append(Item("tiles", TILE_SLOTS * ANSWER_BYTES, how))
    items += [
        Item("mbarriers", count * MBARRIER_BYTES, f"{count} x {MBARRIER_BYTES} B"),
        Item("TMEM address", WORD_BYTES, "where tcgen05.alloc leaves it"),
    ]
    used = sum(i.amount for i in items)
    padding = Item(
        "padding", -used % arch.smem_alignment, f"to a multiple of {arch.smem_alignment}"
    )
    limit = smem_limit(spec, arch)
    name = f"{arch.target} shared memory"
    if s.smem.limit:
        name = "schedule.smem.limit"
    elif limit > arch.smem_per_cta:
        name += ", oversized"
    return Ledger("shared memory", "bytes", (*items, padding), limit, name)


def _with_stages(spec: KernelSpec, arch: Arch, g: Geometry) -> KernelSpec:
    """`auto` is the deepest ring that fits, or one stage when none does."""
    s = schedule_of(spec)
    follows = getattr(s, "a_stages", None) == "auto"

    def deep(depth: int) -> KernelSpec:
        return _update(spec, stages=depth, **({"a_stages": depth} if follows else {}))

    if isinstance(s.stages, int):
        return deep(s.stages)
    depth = 1
    while not tcgen05_smem(deep(depth + 1), arch, g).over:
        depth += 1
    return deep(depth)


def _tmem(spec: KernelSpec, arch: Arch, g: Geometry, buffers: int) -> TmemMap:
    """Columns of accumulators and scales.

    Source  columns of a scale block, and of a row of blocks: PTX ISA, "tcgen05.cp" and the scale
            factor layouts of "tcgen05.mma"
    """
    rows = [
        TmemBuffer(
            f"accumulators {i}" if buffers > 1 else "accumulators",
            g.accumulator_columns,
            f"{g.m_tiles} x {g.tile_n} f32",
            str(i),
        )
        for i in range(buffers)
    ]
    for name, blocks, mark in (("A scales", g.sfa_blocks, "a"), ("B scales", g.sfb_blocks, "b")):
        if blocks:
            columns = TILE_SCALES * blocks * g.words
            rows.append(
                TmemBuffer(
                    name, columns, f"{TILE_SCALES} x {blocks} row blocks x {g.words} words", mark
                )
            )
    return plan_tmem(tuple(rows), arch, schedule_of(spec).tmem.exclusive)


def _buffers(spec: KernelSpec) -> int:
    buffers = schedule_of(spec).tmem.buffers
    assert isinstance(buffers, int)
    return buffers


def _with_buffers(spec: KernelSpec, arch: Arch, g: Geometry) -> KernelSpec:
    """`auto` takes two sets of accumulators where they fit."""
    if schedule_of(spec).tmem.buffers != "auto":
        return spec
    buffers = 1 if _tmem(spec, arch, g, 2).over else 2
    return _nested(spec, "tmem", buffers=buffers)


def _roles(spec: KernelSpec, arch: Arch, g: Geometry) -> tuple[Role, ...]:
    single = [(name, PRODUCER_REGISTERS) for name in producers(spec)]
    single.append(("mma", MMA_REGISTERS))
    if schedule_of(spec).scheduler == "clc":
        single.append(("scheduler", SCHEDULER_REGISTERS))
    cap = launch_register_cap(arch, 32 * (EPILOGUE_WARPS + len(single)))
    rows = [Role("epilogue", EPILOGUE_WARPS, 0, cap, g.box_n, EPILOGUE_REGISTERS)]
    for warp, (name, registers) in enumerate(single, EPILOGUE_WARPS):
        rows.append(Role(name, 1, warp, cap, 0, registers))
    return tuple(rows)


def _boxes(spec: KernelSpec, g: Geometry) -> tuple[TmaBox, ...]:
    """TMA requests: a box of A or B is 128 bytes wide along the contiguous axis."""
    gemm = spec.gemm
    width = g.row_elements

    def operand(name: str, major: str, axis: str, rows: int, of: int) -> TmaBox:
        if major == "k":
            count = g.tile_k // width * of
            inner, outer, axes = width, rows, ("k", axis)
        else:
            count = rows // width * of
            inner, outer, axes = width, g.tile_k, (axis, "k")
        text = f"{count} per stage"
        size, per_byte = g.operand.storage_bytes, g.operand.elements_per_byte
        return TmaBox(name, *axes, inner, outer, size, ROW_BYTES, text, count, per_byte)

    def scales(name: str, axis: str, blocks: int) -> TmaBox:
        inner, outer = TILE_SCALES * g.words, TILE_ROWS * blocks
        return TmaBox(name, "k", axis, inner, outer, 1, 0, "1 per stage", 1)

    rows = [
        operand("a", gemm.a.major, "m", g.rows_a // g.a_shares, 1),
        operand("b", gemm.b.major, "n", g.rows_b // g.b_shares, g.n_tiles),
    ]
    if g.words:
        halves = 2 if g.sfb_shared else 1
        rows += [scales("sfa", "m", g.sfa_blocks), scales("sfb", "n", g.sfb_blocks // halves)]
    stores = g.m_tiles * g.tile_n // g.box_n
    rows.append(
        TmaBox(
            "d", "n", "m", g.box_n, LANES, g.store.bytes, ROW_BYTES, f"{stores} per tile", stores
        )
    )
    return tuple(rows)
