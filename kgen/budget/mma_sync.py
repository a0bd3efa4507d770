"""Size arithmetic, limits and repairs of the mma_sync schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kgen.arch import ARCHS, launch_register_cap
from kgen.budget.limits import accumulator_limit, box_limit, smem_limit, thread_limit
from kgen.budget.model import Budget, Role
from kgen.budget.ring import (
    input_boxes,
    ring_budget,
    ring_filled_by_thread_0,
    ring_smem,
    ring_swizzle,
    stages_of,
    update,
    with_stages,
)
from kgen.dtypes import dtype
from kgen.spec import KernelSpec, Violation
from kgen.spec.single_role import MmaSync

# Registers of addresses, loop state and epilogue beside accumulators and fragments. An estimate:
# with registers to spare ptxas loads fragments of later K steps early, and takes up to 30 more.
OVERHEAD = 24


def warp_tile(s: MmaSync) -> tuple[int, int]:
    """Rows and columns of D that one warp computes."""
    return s.tile.m // s.warps.m, s.tile.n // s.warps.n


def mma_sync_budget(spec: KernelSpec) -> Budget:
    """The budget of `spec` with every `auto` resolved, whether it fits or not."""
    arch = ARCHS[spec.target]
    swizzle = ring_swizzle(spec, arch)
    spec = with_stages(spec, 1, lambda x: ring_smem(x, arch, stages_of(x)))
    spec = update(spec, swizzle_bytes=swizzle)
    s = spec.schedule_as(MmaSync)
    threads = 32 * s.warps.m * s.warps.n
    cap = launch_register_cap(arch, threads)
    rows, columns = warp_tile(s)
    accumulators = rows * columns * dtype(spec.gemm.accumulator).bits // 32 // 32
    # Fragments of one K step: four registers for 16 rows of A, as many for 16 columns of B.
    fragments = rows // 4 + columns // 4
    roles = (Role("consumer", threads // 32, 0, cap, accumulators, OVERHEAD + fragments),)
    smem, full = ring_smem(spec, arch, stages_of(spec)), ring_filled_by_thread_0(spec)
    return ring_budget(spec, arch, roles, smem, (full,), input_boxes(spec, swizzle, 1))


def mma_sync_limits(b: Budget) -> Iterator[Violation]:
    """Every limit of the hardware that a budget of mma_sync exceeds."""
    s = b.spec.schedule_as(MmaSync)
    rows, columns = warp_tile(s)
    yield from thread_limit(b, ("schedule", "warps"), f"{s.warps.m} x {s.warps.n} warps")
    yield from smem_limit(b)
    per_register = " / 2 per register" if b.spec.gemm.accumulator == "f16" else ""
    how = f"{rows} x {columns}{per_register} / 32 threads"
    whose = f"{s.warps.m} x {s.warps.n} warps"
    yield from accumulator_limit(b, ("schedule", "warps"), whose, how)
    yield from box_limit(b)


def mma_sync_changes(
    spec: KernelSpec, broken: Violation, fits: Callable[[KernelSpec], bool]
) -> Iterator[tuple[str, KernelSpec]]:
    """Single changes as YAML, in the order a person would try them; not all of them help."""
    s = spec.schedule_as(MmaSync)
    if broken.path[-1] == "warps":
        for m, n in ((s.warps.m, s.warps.n * 2), (s.warps.m * 2, s.warps.n), (2, 2), (2, 4)):
            warps = s.warps.model_copy(update={"m": m, "n": n})
            yield f"schedule.warps: {{m: {m}, n: {n}}}", update(spec, warps=warps)
    if broken.path[-1] == "stages" and isinstance(s.stages, int):
        deepest = next(
            (n for n in range(s.stages - 1, 0, -1) if fits(update(spec, stages=n))), None
        )
        if deepest:
            yield f"schedule.stages: {deepest}", update(spec, stages=deepest)
    if s.smem_limit and broken.path[-1] in ("smem_limit", "stages"):
        yield "no schedule.smem_limit", update(spec, smem_limit=None)
    for axis in ("n", "m", "k"):
        half = getattr(s.tile, axis) // 2
        if half:
            tile = s.tile.model_copy(update={axis: half})
            yield f"schedule.tile.{axis}: {half}", update(spec, tile=tile)
