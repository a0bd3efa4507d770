"""Size arithmetic of the wgmma_single schedule."""

from __future__ import annotations

from kgen.arch import ARCHS, launch_register_cap
from kgen.budget.model import Barrier, Budget, Role
from kgen.budget.ring import (
    a_stage,
    b_stage,
    input_boxes,
    operand_bytes_per_flop,
    register_file,
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
    roles = (Role("consumer", threads // 32, 0, cap, accumulators, OVERHEAD),)
    stage_bytes = a_stage(spec) + b_stage(spec)
    return Budget(
        spec=spec,
        arch=arch,
        threads=threads,
        smem=ring_smem(spec, arch, stages_of(spec)),
        register_file=register_file(roles, arch),
        launch_cap=cap,
        register_pool=cap * s.consumers,
        roles=roles,
        barriers=(
            Barrier("full", stages_of(spec), 1, stage_bytes, "thread 0, then TMA", "all threads"),
        ),
        boxes=input_boxes(spec, swizzle, s.consumers),
        swizzle_bytes=swizzle,
        stage_bytes=stage_bytes,
        operand_bytes_per_flop=operand_bytes_per_flop(spec),
    )
