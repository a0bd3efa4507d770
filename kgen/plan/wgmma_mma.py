"""The consumers' side of the wgmma_ws schedule: the MMA, its descriptors and their advances.

Descriptor fields: PTX ISA, "Matrix descriptor format" of wgmma. Values are checked on an H200 by
the conformance tests named in the facts that the tests cite.
"""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.model import ConsumerPlan, Descriptor, KStep, Layout, Mma
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaWs
from kgen.spec.rules.wgmma import MMA_K, SLAB_M

_SWIZZLE_CODE = {128: 1, 64: 2, 32: 3}  # descriptor bits 62-63
_ROWS_PER_PATTERN = 8
_DESCRIPTOR_UNIT = 16  # bytes


def consumer(spec: KernelSpec, b: Budget) -> ConsumerPlan:
    """A warpgroup that multiplies one slab and stages it."""
    s, gemm = spec.schedule_as(WgmmaWs), spec.gemm
    split = s.registers if isinstance(s.registers, Registers) else None
    steps = range(0, s.tile.k, MMA_K)
    a_steps = [_advance(spec, b, "a", SLAB_M, k) for k in steps]
    b_steps = [_advance(spec, b, "b", s.tile.n, k) for k in steps]
    packs = {"f16": "pack_f16x2", "bf16": "pack_bf16x2"}
    return ConsumerPlan(
        k_steps=tuple(KStep(x, y) for x, y in zip(a_steps, b_steps, strict=True)),
        k_step_note=_k_step_note(b),
        releases_previous=s.release == "previous",
        takes_turns=s.epilogue.store_buffers < s.consumers,
        converts=packs[gemm.d.dtype] if gemm.accumulator == "f32" else None,
        out="out" if gemm.accumulator == "f32" else "acc",
        registers=split.consumer if split else None,
    )


def _k_step_note(b: Budget) -> str:
    """How far one MMA moves the descriptors, in words."""
    ways = {
        f"{MMA_K * b.box(x).element_bytes} bytes of a row"
        if b.box(x).inner_axis == "k"
        else f"{MMA_K} rows of {b.box(x).swizzle_bytes} bytes"
        for x in ("a", "b")
    }
    return f"Each wgmma takes {MMA_K} of K, {' or '.join(sorted(ways))}; offsets in 16-byte units."


def _advance(spec: KernelSpec, b: Budget, operand: str, rows: int, k: int) -> int:
    """Descriptor units from the start of a stage's operand to K element `k`."""
    box = b.box(operand)
    size = box.element_bytes
    if box.inner_axis == "k":
        panel, within = divmod(k, box.inner)
        return (panel * rows * box.inner + within) * size // _DESCRIPTOR_UNIT
    return k * box.swizzle_bytes // _DESCRIPTOR_UNIT


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


def mma(spec: KernelSpec, b: Budget) -> Mma:
    """The wgmma of one slab."""
    gemm, n = spec.gemm, spec.schedule_as(WgmmaWs).tile.n
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
