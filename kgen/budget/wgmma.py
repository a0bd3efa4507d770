"""Size arithmetic that every wgmma schedule shares: stages, swizzle, boxes, register split."""

from __future__ import annotations

from collections.abc import Callable

from kgen.arch import Arch, launch_register_cap
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Role, TmaBox
from kgen.dtypes import dtype
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaSchedule
from kgen.spec.rules.wgmma import SLAB_M

MBARRIER_BYTES = 8

# A producer warpgroup keeps this many; 24 spilled in the fast kernels that were studied.
PRODUCER_SPLIT = {1: 40, 2: 40}
PRODUCER_SPLIT_MANY = 32


def schedule_of(spec: KernelSpec) -> WgmmaSchedule:
    """The schedule of a wgmma kernel."""
    s = spec.schedule
    assert isinstance(s, WgmmaSchedule)
    return s


def update(spec: KernelSpec, **fields: object) -> KernelSpec:
    """The spec with other fields of its schedule."""
    return spec.model_copy(update={"schedule": spec.schedule.model_copy(update=fields)})


def slabs_of(spec: KernelSpec) -> int:
    """64-row slabs of one consumer."""
    s = schedule_of(spec)
    return s.tile.m // SLAB_M // s.consumers


def a_stage_bytes(spec: KernelSpec) -> int:
    """Bytes of A in one stage of one CTA."""
    tile = schedule_of(spec).tile
    return tile.m * tile.k * dtype(spec.gemm.a.dtype).bytes


def b_stage_bytes(spec: KernelSpec) -> int:
    """Bytes of B in one stage of one CTA."""
    tile = schedule_of(spec).tile
    return tile.n * tile.k * dtype(spec.gemm.b.dtype).bytes


def operand_bytes_per_flop(spec: KernelSpec) -> float:
    """Shared-memory bytes filled for every floating-point operation of a tile."""
    tile = schedule_of(spec).tile
    size = dtype(spec.gemm.a.dtype).bytes
    return (tile.m + tile.n) * size / (2 * tile.m * tile.n)


def smem_limit(spec: KernelSpec, arch: Arch) -> int:
    """Bytes the CTA may use: the hardware's, or less if the spec says so."""
    return min(arch.smem_per_cta, schedule_of(spec).smem_limit or arch.smem_per_cta)


def smem_ledger(spec: KernelSpec, arch: Arch, outputs: tuple[Item, ...], barriers: int) -> Ledger:
    """Shared memory of one CTA in layout order; `stages` must be a number.

    Shapes  A (stages, tile.m, tile.k); B (stages, tile.n, tile.k); outputs as given; one mbarrier
            of 8 bytes each
    Units   bytes; each region starts on 1024 (the 128B swizzle pattern); the total is padded to
            1024, so that it equals sizeof(SharedStorage)
    Source  CUDA C++ Programming Guide, technical specifications per compute capability
    """
    s, gemm = schedule_of(spec), spec.gemm
    assert isinstance(s.stages, int)
    items = (
        Item(
            "A ring",
            s.stages * a_stage_bytes(spec),
            f"{s.stages} stages x {s.tile.m} x {s.tile.k} x {dtype(gemm.a.dtype).bytes} B",
        ),
        Item(
            "B ring",
            s.stages * b_stage_bytes(spec),
            f"{s.stages} stages x {s.tile.n} x {s.tile.k} x {dtype(gemm.b.dtype).bytes} B",
        ),
        *outputs,
        Item("mbarriers", barriers * MBARRIER_BYTES, f"{barriers} x {MBARRIER_BYTES} B"),
    )
    used = sum(item.amount for item in items)
    padding = Item(
        "padding", -used % arch.smem_alignment, f"to a multiple of {arch.smem_alignment}"
    )
    name = "schedule.smem_limit" if s.smem_limit else f"{arch.target} shared memory"
    return Ledger("shared memory", "bytes", (*items, padding), smem_limit(spec, arch), name)


def with_stages(
    spec: KernelSpec, arch: Arch, smem: Callable[[KernelSpec, Arch], Ledger]
) -> KernelSpec:
    """`stages: auto` is the deepest ring that fits, or the shallowest legal one when none does."""
    if schedule_of(spec).stages != "auto":
        return spec
    stages = 2 if schedule_of(spec).release == "previous" else 1
    while not smem(update(spec, stages=stages + 1), arch).over:
        stages += 1
    return update(spec, stages=stages)


def swizzle_of(spec: KernelSpec, arch: Arch) -> int:
    """Widest pattern that divides a K-major row of the stage; MN-major rows are wide enough."""
    asked = schedule_of(spec).swizzle_bytes
    if asked != "auto":
        return asked
    if "k" not in (spec.gemm.a.major, spec.gemm.b.major):
        return max(arch.swizzle_bytes)
    row = schedule_of(spec).tile.k * dtype(spec.gemm.a.dtype).bytes
    return max(w for w in arch.swizzle_bytes if row % w == 0)


def register_pool(spec: KernelSpec, arch: Arch, threads: int) -> int:
    """What setmaxnreg can deal out: registers per thread at launch, summed over warpgroups."""
    return launch_register_cap(arch, threads) * -(-threads // arch.warpgroup_threads)


def with_registers(spec: KernelSpec, arch: Arch, threads: int, producer_needs: int) -> KernelSpec:
    """`registers: auto` gives the producer warpgroup little and shares the rest of the pool."""
    s = schedule_of(spec)
    if s.registers != "auto" or s.producer != "warpgroup":
        return spec
    least = -(-producer_needs // arch.register_step) * arch.register_step
    producer = max(least, PRODUCER_SPLIT.get(s.consumers, PRODUCER_SPLIT_MANY))
    pool = register_pool(spec, arch, threads)
    consumer = (pool - producer) // s.consumers // arch.register_step * arch.register_step
    largest = arch.registers_per_thread // arch.register_step * arch.register_step - 8
    split = Registers(producer=producer, consumer=max(24, min(consumer, largest)))
    return update(spec, registers=split)


def register_caps(spec: KernelSpec, arch: Arch, threads: int) -> tuple[int, int]:
    """What a thread of the producer and of a consumer may hold."""
    split = schedule_of(spec).registers
    if isinstance(split, Registers):
        return split.producer, split.consumer
    cap = launch_register_cap(arch, threads)
    return cap, cap


def slab_accumulators(spec: KernelSpec, arch: Arch) -> int:
    """Registers per thread that hold the sums of one 64-row slab."""
    bits = dtype(spec.gemm.accumulator).bits
    return SLAB_M * schedule_of(spec).tile.n * bits // 32 // arch.warpgroup_threads


def register_file(roles: tuple[Role, ...], arch: Arch) -> Ledger:
    """Registers of one SM: what the roles need, by estimate."""
    items = [
        Item(
            f"{role.name}s" if role.warps > 4 else role.name,
            role.warps * 32 * role.registers,
            f"{role.warps * 32} threads x ({role.accumulators} accumulators + {role.overhead})",
        )
        for role in roles
    ]
    return Ledger(
        "registers", "registers", tuple(items), arch.registers, f"{arch.target} register file"
    )


def operand_box(spec: KernelSpec, name: str, swizzle: int, rows: int, parts: int) -> TmaBox:
    """The TMA request of A or B: as wide as the swizzle along the contiguous axis.

    rows  of the operand that one box or one column of boxes covers
    parts  how many such row ranges a CTA loads into a stage
    """
    operand = getattr(spec.gemm, name)
    axis = {"a": "m", "b": "n"}[name]
    tile, size = schedule_of(spec).tile, dtype(operand.dtype).bytes
    width = swizzle // size
    inner, outer, extent = ("k", axis, rows) if operand.major == "k" else (axis, "k", tile.k)
    across = tile.k if operand.major == "k" else rows
    count = across // width * parts
    return TmaBox(name, inner, outer, width, extent, size, swizzle, f"{count} per stage", count)
