"""What every schedule takes that TMA feeds through a ring: shared memory, swizzle, boxes."""

from __future__ import annotations

from collections.abc import Callable

from kgen.arch import Arch, launch_register_cap
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Barrier, Budget, Role, TmaBox
from kgen.dtypes import dtype
from kgen.spec import KernelSpec
from kgen.spec.hopper import HopperSchedule

MBARRIER_BYTES = 8


def update(spec: KernelSpec, **fields: object) -> KernelSpec:
    """`spec` with fields of its schedule replaced."""
    return spec.model_copy(update={"schedule": spec.schedule.model_copy(update=fields)})


def hopper(spec: KernelSpec) -> HopperSchedule:
    """The schedule, which the caller knows to be one of Hopper's."""
    assert isinstance(spec.schedule, HopperSchedule)
    return spec.schedule


def stages_of(spec: KernelSpec) -> int:
    """The depth of the ring, which must be a number by now."""
    assert isinstance(spec.schedule.stages, int)
    return spec.schedule.stages


def a_stage(spec: KernelSpec) -> int:
    """Bytes of A in one stage."""
    return spec.schedule.tile.m * spec.schedule.tile.k * dtype(spec.gemm.a.dtype).bytes


def b_stage(spec: KernelSpec) -> int:
    """Bytes of B in one stage."""
    return spec.schedule.tile.n * spec.schedule.tile.k * dtype(spec.gemm.b.dtype).bytes


def operand_bytes_per_flop(spec: KernelSpec) -> float:
    """Bytes of A and B that a CTA loads for one multiplication or addition."""
    tile = spec.schedule.tile
    loaded = tile.m * dtype(spec.gemm.a.dtype).bytes + tile.n * dtype(spec.gemm.b.dtype).bytes
    return loaded / (2 * tile.m * tile.n)


def ring_smem(spec: KernelSpec, arch: Arch, barriers: int, staged: tuple[Item, ...] = ()) -> Ledger:
    """Shared memory of one CTA, in layout order. `stages` must be a number.

    Shapes  A (stages, tile.m, tile.k); B (stages, tile.n, tile.k); `staged`, what D takes;
            `barriers` mbarriers of 8 bytes each
    Units   bytes; each region starts on 1024 (the 128B swizzle pattern); the total is padded to
            1024, so that it equals sizeof(SharedStorage)
    Source  CUDA C++ Programming Guide, technical specifications per compute capability
    """
    s, gemm, depth = hopper(spec), spec.gemm, stages_of(spec)
    stages = f"{depth} stage{'s' if depth > 1 else ''}"
    items = (
        Item(
            "A ring",
            depth * a_stage(spec),
            f"{stages} x {s.tile.m} x {s.tile.k} x {dtype(gemm.a.dtype).bytes} B",
        ),
        Item(
            "B ring",
            depth * b_stage(spec),
            f"{stages} x {s.tile.n} x {s.tile.k} x {dtype(gemm.b.dtype).bytes} B",
        ),
        *staged,
        Item("mbarriers", barriers * MBARRIER_BYTES, f"{barriers} x {MBARRIER_BYTES} B"),
    )
    padding = -sum(item.amount for item in items) % arch.smem_alignment
    items = (*items, Item("padding", padding, f"to a multiple of {arch.smem_alignment}"))
    name = "schedule.smem_limit" if s.smem_limit else f"{arch.target} shared memory"
    limit = min(arch.smem_per_cta, s.smem_limit or arch.smem_per_cta)
    return Ledger("shared memory", "bytes", items, limit, name)


def with_stages(
    spec: KernelSpec, shallowest: int, smem: Callable[[KernelSpec], Ledger]
) -> KernelSpec:
    """`stages: auto` is the deepest ring that fits, or the shallowest legal one when none does."""
    if spec.schedule.stages != "auto":
        return spec
    stages = shallowest
    while not smem(update(spec, stages=stages + 1)).over:
        stages += 1
    return update(spec, stages=stages)


def ring_swizzle(spec: KernelSpec, arch: Arch) -> int:
    """Widest pattern that divides a K-major row of the stage; MN-major rows are wide enough."""
    asked = hopper(spec).swizzle_bytes
    if asked != "auto":
        return asked
    if "k" not in (spec.gemm.a.major, spec.gemm.b.major):
        return max(arch.swizzle_bytes)
    row = spec.schedule.tile.k * dtype(spec.gemm.a.dtype).bytes
    return max(w for w in arch.swizzle_bytes if row % w == 0)


def operand_box(spec: KernelSpec, name: str, swizzle: int, rows: int, parts: int) -> TmaBox:
    """The TMA request of A or B: as wide as the swizzle along the contiguous axis.

    rows  of the operand that one box, or one row of boxes, covers
    parts  how many such ranges of rows a CTA loads into a stage
    """
    operand, axis = getattr(spec.gemm, name), {"a": "m", "b": "n"}[name]
    size, tile_k = dtype(operand.dtype).bytes, spec.schedule.tile.k
    width = swizzle // size
    if operand.major == "k":
        count = tile_k // width * parts
        return TmaBox(name, "k", axis, width, rows, size, swizzle, f"{count} per stage", count)
    count = rows // width * parts
    return TmaBox(name, axis, "k", width, tile_k, size, swizzle, f"{count} per stage", count)


def input_boxes(spec: KernelSpec, swizzle: int, slabs: int) -> tuple[TmaBox, TmaBox]:
    """TMA requests of A, cut into `slabs` equal parts, and of B."""
    tile = spec.schedule.tile
    return (
        operand_box(spec, "a", swizzle, tile.m // slabs, slabs),
        operand_box(spec, "b", swizzle, tile.n, 1),
    )


def ring_filled_by_thread_0(spec: KernelSpec) -> Barrier:
    """The mbarriers of a ring that every thread waits for and thread 0 refills."""
    stage_bytes = a_stage(spec) + b_stage(spec)
    return Barrier("full", stages_of(spec), 1, stage_bytes, "thread 0, then TMA", "all threads")


def register_pool(arch: Arch, threads: int) -> int:
    """What setmaxnreg can deal out: registers per thread at launch, summed over warpgroups."""
    return launch_register_cap(arch, threads) * -(-threads // arch.warpgroup_threads)


def ring_budget(
    spec: KernelSpec,
    arch: Arch,
    roles: tuple[Role, ...],
    smem: Ledger,
    barriers: tuple[Barrier, ...],
    boxes: tuple[TmaBox, ...],
) -> Budget:
    """The budget of a CTA that `roles` make up. Every `auto` of `spec` must be resolved."""
    swizzle = hopper(spec).swizzle_bytes
    assert swizzle != "auto"
    threads = 32 * sum(role.warps for role in roles)
    return Budget(
        spec=spec,
        arch=arch,
        threads=threads,
        smem=smem,
        launch_cap=launch_register_cap(arch, threads),
        register_pool=register_pool(arch, threads),
        roles=roles,
        barriers=barriers,
        boxes=boxes,
        swizzle_bytes=swizzle,
        stage_bytes=a_stage(spec) + b_stage(spec),
        operand_bytes_per_flop=operand_bytes_per_flop(spec),
    )
