"""Lowering of the wgmma_ws schedule: from a budget to the numbers that its template prints.

Descriptor fields: PTX ISA, "Matrix descriptor format" of wgmma. Values are checked on an H200 by the
conformance tests named in the facts that the tests cite.
"""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.model import (
    Constant,
    ConsumerPlan,
    Descriptor,
    Field,
    KernelPlan,
    KStep,
    Load,
    Mma,
    ProblemField,
    ProducerPlan,
    TensorMap,
)
from kgen.plan.status import statuses
from kgen.spec import KernelSpec, LoadedSpec
from kgen.spec.model import Registers
from kgen.spec.rules import MMA_K, SLAB_M, STORE_BOX_N

_SWIZZLE_CODE = {128: 1, 64: 2, 32: 3}  # descriptor bits 62-63
_ROWS_PER_PATTERN = 8
_DESCRIPTOR_UNIT = 16  # bytes


def lower_wgmma(loaded: LoadedSpec, budget: Budget) -> KernelPlan:
    """The plan of one wgmma_ws kernel. `budget` must have been accepted."""
    spec = budget.spec
    s, gemm = spec.schedule, spec.gemm
    maps = _maps(spec, budget)
    multiple = 16 // dtype(gemm.a.dtype).bytes
    # Row and column indices up to one tile past the end must fit in 32 bits.
    extent_limit = 2**31 - 1 - 2 * max(s.tile.m, s.tile.n)
    return KernelPlan(
        name=spec.name,
        template="wgmma_ws.cu.j2",
        spec_label=loaded.label,
        spec_digest=loaded.digest,
        target=spec.target,
        devices=budget.arch.devices,
        compute_capability=budget.arch.compute_capability,
        minimum_cuda=budget.arch.minimum_cuda,
        problem=(
            f"D[M,N] {gemm.d.dtype} = A[M,K] {gemm.a.dtype} @ B[N,K].T {gemm.b.dtype}, "
            f"{gemm.accumulator} accumulation. CTA tile {s.tile.m} x {s.tile.n} x {s.tile.k}."
        ),
        layout=_layout(spec),
        roles_line=_roles_line(spec, budget),
        restrictions=_restrictions(spec, multiple),
        budget=budget,
        constants=_constants(spec, budget),
        problem_fields=_problem(spec),
        storage=_storage(spec, budget),
        maps=maps,
        statuses=statuses(maps[:2], maps[2], extent_limit, multiple),
        producer=_producer(spec, budget),
        consumer=_consumer(spec, budget),
        raster_along_n=s.raster.along == "n",
        elements_per_16_bytes=multiple,
        extent_limit=extent_limit,
        max_tiles=budget.arch.grid_x,
        max_ld=budget.arch.tma_stride_limit // dtype(gemm.a.dtype).bytes,
        threads=budget.threads,
        smem_bytes=budget.smem.total,
        tile=(s.tile.m, s.tile.n, s.tile.k),
    )


def _layout(spec: KernelSpec) -> str:
    a = "A[M,K]" if spec.gemm.a.major == "k" else "A stored as [K,M]"
    b = "B[N,K]" if spec.gemm.b.major == "k" else "B stored as [K,N]"
    return f"{a}, {b} and D[M,N] row-major, leading dimensions in elements."


def _roles_line(spec: KernelSpec, b: Budget) -> str:
    count = spec.schedule.consumers
    who = f"{count} consumer warpgroup{'s' if count > 1 else ''}, one {SLAB_M} x {spec.schedule.tile.n} slab"
    each = " each" if count > 1 else ""
    producer = "1 producer warp" if spec.schedule.producer == "warp" else "1 producer warpgroup"
    return f"{b.threads // 32} warps: {who}{each}, and {producer}."


def _restrictions(spec: KernelSpec, multiple: int) -> tuple[str, ...]:
    rows = [
        f"Any M, N, K >= 0. a and b 16-byte aligned, lda and ldb multiples of {multiple}.",
        "D of any alignment is right; TMA stores it where its rows start and end on 16 bytes.",
    ]
    if spec.gemm.accumulator == "f16":
        rows.append(
            "f16 accumulation: partial sums overflow at 65504 and lose increments below 1 from 2048 on."
        )
    return tuple(rows)


def _constants(spec: KernelSpec, b: Budget) -> tuple[Constant, ...]:
    s = spec.schedule
    assert isinstance(s.stages, int)
    a_bytes, b_bytes = b.smem["A ring"] // s.stages, b.smem["B ring"] // s.stages
    row_bytes = s.tile.k * dtype(spec.gemm.a.dtype).bytes
    size = dtype(spec.gemm.d.dtype).bytes
    along = {"n": "tile columns", "m": "tile rows"}[s.raster.along]
    registers = b.role("consumer").accumulators
    rows = [
        Constant("kTileM", s.tile.m, "rows of D per CTA"),
        Constant("kTileN", s.tile.n, "columns of D per CTA"),
        Constant(
            "kTileK", s.tile.k, f"K elements per stage: {row_bytes} bytes of {spec.gemm.a.dtype}"
        ),
        Constant("kConsumers", s.consumers, "warpgroups; each owns a slab of kSlabM rows"),
        Constant("kSlabM", SLAB_M, "rows per consumer, one wgmma M"),
        Constant("kStages", s.stages, "depth of the A/B ring"),
        Constant("kStageBytes", b.stage_bytes, f"A {a_bytes} + B {b_bytes}"),
        Constant(
            "kAccRegisters",
            registers,
            f"{SLAB_M} x {s.tile.n} {spec.gemm.accumulator} per warpgroup",
        ),
        Constant(
            "kOutRegisters",
            SLAB_M * s.tile.n * size // 4 // 128,
            f"the same as pairs of {spec.gemm.d.dtype}",
        ),
        Constant(
            "kStoreBoxN", STORE_BOX_N, f"columns of one TMA store: {STORE_BOX_N * size} bytes"
        ),
        Constant("kStoreBoxes", s.tile.n // STORE_BOX_N, "TMA stores per slab"),
        Constant("kStoreBuffers", s.epilogue.store_buffers, "slab-sized staging buffers of D"),
        Constant("kRasterGroup", s.raster.group, f"{along} that run side by side"),
        Constant("kThreads", b.threads, "consumers first, then the producer"),
        Constant(
            "kSmemBytes", b.smem.total, f"{b.smem.total - b.smem['padding']} used, the rest padding"
        ),
    ]
    return tuple(rows)


def _problem(spec: KernelSpec) -> tuple[ProblemField, ...]:
    return (
        ProblemField(f"{dtype(spec.gemm.d.dtype).storage}*", "d", "u8", "D, row-major"),
        ProblemField("int64_t", "ldd", "i8", "elements from one row of D to the next"),
        ProblemField("int", "m", "i4", "rows of D"),
        ProblemField("int", "n", "i4", "columns of D"),
        ProblemField("int", "k_tiles", "i4", "K in tiles of kTileK, rounded up"),
        ProblemField("int", "tiles_m", "i4", "M in tiles of kTileM, rounded up"),
        ProblemField("int", "tiles_n", "i4", "N in tiles of kTileN, rounded up"),
        ProblemField(
            "int", "tma_store", "i4", "rows of D start and end on 16 bytes: TMA stores it"
        ),
    )


def _storage(spec: KernelSpec, b: Budget) -> tuple[Field, ...]:
    element = dtype(spec.gemm.a.dtype).storage
    d_element = dtype(spec.gemm.d.dtype).storage
    rows = [
        Field(element, "a", ("kStages", "kConsumers", "kSlabM * kTileK"), "ring of A slabs"),
        Field(element, "b", ("kStages", "kTileN * kTileK"), "ring of B"),
        Field(
            d_element,
            "d",
            ("kStoreBuffers", "kStoreBoxes", "kSlabM * kStoreBoxN"),
            "staging for TMA stores",
        ),
        Field("uint64_t", "full", ("kStages",), "the stage holds its K tile"),
        Field("uint64_t", "empty", ("kStages",), "all consumers have read it"),
        Field("uint64_t", "d_ready", ("kConsumers",), "consumer i has staged its slab"),
    ]
    if any(barrier.name == "d_free" for barrier in b.barriers):
        rows.append(
            Field(
                "uint64_t",
                "d_free",
                ("kConsumers - kStoreBuffers",),
                "the slab of consumer i is drained",
            )
        )
    return tuple(rows)


def _maps(spec: KernelSpec, b: Budget) -> tuple[TensorMap, ...]:
    promotion = spec.schedule.l2.promotion_bytes
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
            )
        )
    return tuple(rows)


def slab_order(consumers: int, takes_turns: bool) -> tuple[int, ...]:
    """Order in which the A slabs of a stage are loaded.

    Consumer 1 is the first that must wait for the D buffer; its input comes last, so that it is least
    likely to be late for both. Two consumers have nothing to gain from it.
    """
    slabs = list(range(consumers))
    if takes_turns and consumers > 2:
        slabs.append(slabs.pop(1))
    return tuple(slabs)


def _producer(spec: KernelSpec, b: Budget) -> ProducerPlan:
    s = spec.schedule
    takes_turns = s.epilogue.store_buffers < s.consumers
    order = slab_order(s.consumers, takes_turns)
    reordered = order != tuple(range(s.consumers))
    split = s.registers if isinstance(s.registers, Registers) else None
    return ProducerPlan(
        a_loads=tuple(load for slab in order for load in _loads(spec, b, "a", SLAB_M, slab)),
        b_loads=_loads(spec, b, "b", s.tile.n, None),
        a_order_note=(
            "Slab 1 last: consumer 1 is the first to wait for the D buffer, keep its input latest."
            if reordered
            else ""
        ),
        frees_buffers=takes_turns,
        registers=split.producer if split else None,
    )


def _loads(
    spec: KernelSpec, b: Budget, operand: str, rows: int, slab: int | None
) -> tuple[Load, ...]:
    """The boxes that fill one slab of A or the B tile, in shared-memory order."""
    box = b.box(operand)
    k_is_inner = box.inner_axis == "k"
    step, total = (box.inner, spec.schedule.tile.k) if k_is_inner else (box.inner, rows)
    first = (slab or 0) * rows
    loads = []
    for index, start in enumerate(range(0, total, step)):
        offset = index * box.inner * box.outer
        mn, k = (first, start) if k_is_inner else (first + start, 0)
        loads.append(Load(operand, slab, offset, mn, k, k_is_inner))
    return tuple(loads)


def _consumer(spec: KernelSpec, b: Budget) -> ConsumerPlan:
    s, gemm = spec.schedule, spec.gemm
    split = s.registers if isinstance(s.registers, Registers) else None
    steps = range(0, s.tile.k, MMA_K)
    a_steps = [_advance(spec, b, "a", SLAB_M, k) for k in steps]
    b_steps = [_advance(spec, b, "b", s.tile.n, k) for k in steps]
    packs = {"f16": "pack_f16x2", "bf16": "pack_bf16x2"}
    return ConsumerPlan(
        mma=_mma(spec, b),
        k_steps=tuple(KStep(x, y) for x, y in zip(a_steps, b_steps, strict=True)),
        releases_previous=s.release == "previous",
        takes_turns=s.epilogue.store_buffers < s.consumers,
        converts=packs[gemm.d.dtype] if gemm.accumulator == "f32" else None,
        out="out" if gemm.accumulator == "f32" else "acc",
        registers=split.consumer if split else None,
        descriptor_a=_descriptor(spec, b, "a"),
        descriptor_b=_descriptor(spec, b, "b"),
    )


def _advance(spec: KernelSpec, b: Budget, operand: str, rows: int, k: int) -> int:
    """Descriptor units from the start of a stage's operand to K element `k`."""
    box = b.box(operand)
    size = box.element_bytes
    if box.inner_axis == "k":
        panel, within = divmod(k, box.inner)
        return (panel * rows * box.inner + within) * size // _DESCRIPTOR_UNIT
    return k * box.swizzle_bytes // _DESCRIPTOR_UNIT


def _descriptor(spec: KernelSpec, b: Budget, operand: str) -> Descriptor:
    """K-major: the leading offset is unused (1), the stride is 8 rows of the swizzle width.
    MN-major: the leading offset steps between neighbouring boxes, the stride between groups of 8 K rows.
    """
    box = b.box(operand)
    stride = _ROWS_PER_PATTERN * box.swizzle_bytes
    leading = _DESCRIPTOR_UNIT if box.inner_axis == "k" else box.bytes
    units = (leading // _DESCRIPTOR_UNIT) << 16 | (stride // _DESCRIPTOR_UNIT) << 32
    note = f"{box.swizzle_bytes}-byte swizzle, 8 rows are {stride} bytes"
    if box.inner_axis != "k":
        note += f", {box.inner_axis.upper()}-major boxes are {leading} bytes apart"
    return Descriptor(f"0x{units | _SWIZZLE_CODE[box.swizzle_bytes] << 62:016x}", note)


def _mma(spec: KernelSpec, b: Budget) -> Mma:
    gemm, n = spec.gemm, spec.schedule.tile.n
    registers = b.role("consumer").accumulators
    f32 = gemm.accumulator == "f32"
    operands = list(range(registers))
    ptx = dtype(gemm.a.dtype).ptx
    return Mma(
        instruction=(
            f"wgmma.mma_async.sync.aligned.m{SLAB_M}n{n}k{MMA_K}.{gemm.accumulator}.{ptx}.{ptx}"
        ),
        registers=registers,
        register_type="float" if f32 else "uint32_t",
        constraint="+f" if f32 else "+r",
        operand_rows=tuple(tuple(operands[i : i + 8]) for i in range(0, registers, 8)),
        register_rows=tuple(tuple(operands[i : i + 4]) for i in range(0, registers, 4)),
        a_operand=registers,
        b_operand=registers + 1,
        trans_a=int(gemm.a.major != "k"),
        trans_b=int(gemm.b.major != "k"),
    )
