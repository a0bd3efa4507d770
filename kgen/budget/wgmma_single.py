"""Size arithmetic of the wgmma_single schedule."""

from __future__ import annotations

from kgen.arch import ARCHS, launch_register_cap
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
from kgen.spec import KernelSpec
from kgen.spec.rules.wgmma import consumer_m
from kgen.spec.single_role import WgmmaSingle

# Registers beyond the accumulators, as ptxas 13.5 reports them for this template; an estimate, the
# ptxas gate has the last word.
OVERHEAD = 26
FREE_LOADS = 36  # per stage, whose coordinates thread 0 need not keep in registers
MANY_LOADS_OVERHEAD = 44  # seen to spill with 52 loads and 40 registers


def wgmma_single_budget(spec: KernelSpec) -> Budget:
    """The budget of `spec` with every `auto` resolved, whether it fits or not."""
    arch = ARCHS[spec.target]
    swizzle = ring_swizzle(spec, arch)
    spec = with_stages(spec, 1, lambda x: ring_smem(x, arch, stages_of(x)))
    spec = update(spec, swizzle_bytes=swizzle)
    s = spec.schedule_as(WgmmaSingle)
    threads = s.consumers * arch.warpgroup_threads
    cap = launch_register_cap(arch, threads)
    bits = dtype(spec.gemm.accumulator).bits
    accumulators = consumer_m(s) * s.tile.n * bits // 32 // arch.warpgroup_threads
    boxes = input_boxes(spec, swizzle, s.consumers)
    overhead = OVERHEAD if sum(x.count for x in boxes) <= FREE_LOADS else MANY_LOADS_OVERHEAD
    roles = (Role("consumer", threads // 32, 0, cap, accumulators, overhead),)
    smem, full = ring_smem(spec, arch, stages_of(spec)), ring_filled_by_thread_0(spec)
    return ring_budget(spec, arch, roles, smem, (full,), boxes)
