"""The consumers' side of the wgmma schedules: the MMA, its descriptors and their advances.

Descriptor fields: PTX ISA, "Matrix descriptor format" of wgmma. Values are checked on an H200 by
the conformance tests named in the facts that the tests cite.
"""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.hopper import ConsumerPlan, KStep, Mma, Slab, StorePlan
from kgen.plan.model import Descriptor, Layout
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import TmaTurns, WgmmaSchedule, WgmmaWs
from kgen.spec.model import OperandA, OperandB
from kgen.spec.rules.wgmma import (
    SIXTEEN_BITS,
    SLAB_M,
    consumer_m,
    mma_k,
    mma_n,
    slabs_of,
    swaps,
)

_SWIZZLE_CODE = {128: 1, 64: 2, 32: 3}  # descriptor bits 62-63
_ROWS_PER_PATTERN = 8
_DESCRIPTOR_UNIT = 16  # bytes


def consumer(spec: KernelSpec, b: Budget) -> ConsumerPlan:
    """A warpgroup that multiplies its slabs and stages or stores them."""
    s = schedule_of(spec)
    epilogue = s.epilogue if isinstance(s, WgmmaWs) else None
    turns = epilogue if isinstance(epilogue, TmaTurns) else None
    split = s.registers if isinstance(s, WgmmaWs) else None
    slabs = _slabs(spec, s)
    steps = [
        KStep(x.acc, advance(b, "a", consumer_m(s), x.row, k), advance(b, "b", s.tile.n, 0, k))
        for k in range(0, s.tile.k, mma_k(spec))
        for x in slabs
    ]
    return ConsumerPlan(
        slabs=slabs,
        several_slabs=len(slabs) > 1,
        rows=rows_constant(s),
        k_steps=tuple(steps),
        k_step_note=k_step_note(b),
        releases_previous=isinstance(s, WgmmaWs) and s.release == "previous",
        stores_directly=turns is None,
        takes_turns=turns is not None and turns.store_buffers < s.consumers,
        store=store(spec, "kTileN"),
        registers=split.consumer if isinstance(split, Registers) else None,
    )


def schedule_of(spec: KernelSpec) -> WgmmaSchedule:
    """The schedule, which the caller knows to multiply with wgmma."""
    assert isinstance(spec.schedule, WgmmaSchedule)
    return spec.schedule


def _slabs(spec: KernelSpec, s: WgmmaSchedule) -> tuple[Slab, ...]:
    """The slabs of one consumer."""
    rows = range(0, consumer_m(s), SLAB_M)
    index = [f"[{i}]" for i in range(len(rows))] if len(rows) > 1 else [""]
    out = "out" if spec.gemm.accumulator == "f32" else "acc"
    return tuple(Slab(f"acc{i}", f"{out}{i}", row) for i, row in zip(index, rows, strict=True))


def rows_constant(s: WgmmaSchedule) -> str:
    """The constant that holds the rows of one consumer."""
    return "kConsumerM" if consumer_m(s) > SLAB_M else "kSlabM"


def store(spec: KernelSpec, columns: str) -> StorePlan:
    """How accumulators become elements of D."""
    packs = {"f16": "pack_f16x2", "bf16": "pack_bf16x2"}
    f32 = spec.gemm.accumulator == "f32"
    return StorePlan(
        columns=columns,
        register_type="float" if f32 else "uint32_t",
        converts=packs.get(spec.gemm.d.dtype) if f32 else None,
    )


def k_step_note(b: Budget) -> str:
    """How far one MMA moves the descriptors, in words."""
    step = mma_k(b.spec)
    ways = {
        f"{step * b.box(x).element_bytes} bytes of a row"
        if b.box(x).inner_axis == "k"
        else f"{step} rows of {b.box(x).swizzle_bytes} bytes"
        for x in ("a", "b")
    }
    units = "offsets in 16-byte units" if len(ways) == 1 else "units of 16 bytes"
    return f"Each wgmma takes {step} of K, {' or '.join(sorted(ways))}; {units}."


def advance(b: Budget, operand: str, rows: int, row: int, k: int) -> int:
    """Descriptor units from the start of a stage's operand to element (row, k) of its `rows`."""
    box = b.box(operand)
    size = box.element_bytes
    if box.inner_axis == "k":
        panel, within = divmod(k, box.inner)
        return (panel * rows * box.inner + row * box.inner + within) * size // _DESCRIPTOR_UNIT
    return (row // box.inner * box.bytes + k * box.swizzle_bytes) // _DESCRIPTOR_UNIT


def layouts(b: Budget) -> tuple[Layout, ...]:
    """The descriptor constants of A and B."""
    return tuple(Layout(f"kLayout{x.upper()}", _descriptor(b, x)) for x in ("a", "b"))


def _descriptor(b: Budget, operand: str) -> Descriptor:
    """Layout bits of the shared-memory descriptor of one operand.

    K-major: the leading offset is unused (1), the stride is 8 rows of the swizzle width.
    MN-major: the leading offset steps between neighbouring boxes, the stride between groups of
    8 K rows.
    """
    box = b.box(operand)
    stride = _ROWS_PER_PATTERN * box.swizzle_bytes
    leading = _DESCRIPTOR_UNIT if box.inner_axis == "k" else box.bytes
    units = (leading // _DESCRIPTOR_UNIT) << 16 | (stride // _DESCRIPTOR_UNIT) << 32
    if box.inner_axis == "k":
        note = f"K-major, {box.swizzle_bytes}-byte swizzle, stride {stride} bytes (8 rows)"
    else:
        note = (
            f"{box.inner_axis.upper()}-major, {box.swizzle_bytes}-byte swizzle, stride {stride} "
            f"bytes (8 of K), leading {leading} bytes (next box)"
        )
    return Descriptor(f"0x{units | _SWIZZLE_CODE[box.swizzle_bytes] << 62:016x}", note)


def mma(spec: KernelSpec, b: Budget, *, overwrites: bool = False) -> Mma:
    """The wgmma of one slab.

    overwrites  whether the caller says by an argument if the accumulators' old values count
    """
    gemm, s = spec.gemm, schedule_of(spec)
    registers = b.role("consumer").accumulators // slabs_of(s)
    f32 = gemm.accumulator == "f32"
    operands = list(range(registers))
    types = [dtype(x.dtype).ptx for x in _operands(spec)]
    return Mma(
        instruction=(
            f"wgmma.mma_async.sync.aligned.m{SLAB_M}n{mma_n(s)}k{mma_k(spec)}"
            f".{gemm.accumulator}.{'.'.join(types)}"
        ),
        registers=registers,
        register_type="float" if f32 else "uint32_t",
        constraint="f" if f32 else "r",
        operand_rows=tuple(tuple(operands[i : i + 8]) for i in range(0, registers, 8)),
        register_rows=tuple(tuple(operands[i : i + 4]) for i in range(0, registers, 4)),
        a_operand=registers,
        b_operand=registers + 1,
        accumulate_operand=registers + 2 if overwrites else None,
        immediates=_immediates(spec),
        swapped=swaps(s),
    )


def _operands(spec: KernelSpec) -> tuple[OperandA | OperandB, OperandA | OperandB]:
    """The operands in the order in which a wgmma takes them."""
    a, b = spec.gemm.a, spec.gemm.b
    return (b, a) if swaps(schedule_of(spec)) else (a, b)


def _immediates(spec: KernelSpec) -> tuple[int, ...]:
    """What follows scale-d: factors of both operands that are floats, transpositions of 16 bits."""
    gemm = spec.gemm
    factors = () if gemm.accumulator == "s32" else (1, 1)
    if gemm.a.dtype not in SIXTEEN_BITS:
        return factors
    return (*factors, *(int(x.major != "k") for x in _operands(spec)))
