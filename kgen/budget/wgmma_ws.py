"""Size arithmetic of the wgmma_ws schedule; the only place that multiplies its tile by anything."""

from __future__ import annotations

from kgen.arch import ARCHS, Arch, launch_register_cap
from kgen.budget import wgmma
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Barrier, Budget, Role, TmaBox
from kgen.dtypes import dtype
from kgen.spec import KernelSpec
from kgen.spec.hopper import WgmmaWs
from kgen.spec.rules.wgmma import MMA_K, SLAB_M, STORE_BOX_N

# Registers beyond the accumulators, as ptxas 13.5 reports them for these templates: the same for
# every tile of two stages or more. With one stage the addresses of all loads and the descriptors of
# all K steps are loop invariants, and ptxas keeps them in registers, the latter from the twelfth
# step on. Estimates: the ptxas gate has the last word on every build.
CONSUMER_OVERHEAD = {"f16": 26, "f32": 27}
ONE_STAGE_FREE_K_STEPS = 11
ONE_STAGE_REGISTERS_PER_K_STEP = 6
ONE_STAGE_PRODUCER_BASE = 24
PRODUCER_REGISTERS = 32


def wgmma_ws_budget(spec: KernelSpec) -> Budget:
    """The budget of `spec` with every `auto` resolved, whether it fits or not."""
    arch = ARCHS[spec.target]
    swizzle = wgmma.swizzle_of(spec, arch)
    threads = _threads(spec, arch)
    spec = wgmma.update(wgmma.with_stages(spec, arch, wgmma_ws_smem), swizzle_bytes=swizzle)
    spec = wgmma.with_registers(spec, arch, threads, _producer_registers(spec))
    roles = _roles(spec, arch, threads)
    return Budget(
        spec=spec,
        arch=arch,
        threads=threads,
        smem=wgmma_ws_smem(spec, arch),
        register_file=wgmma.register_file(roles, arch),
        launch_cap=launch_register_cap(arch, threads),
        register_pool=wgmma.register_pool(spec, arch, threads),
        roles=roles,
        barriers=_barriers(spec, arch),
        boxes=_boxes(spec, swizzle),
        swizzle_bytes=swizzle,
        stage_bytes=wgmma.a_stage_bytes(spec) + wgmma.b_stage_bytes(spec),
        operand_bytes_per_flop=wgmma.operand_bytes_per_flop(spec),
    )


def _ws(spec: KernelSpec) -> WgmmaWs:
    return spec.schedule_as(WgmmaWs)


def wgmma_ws_smem(spec: KernelSpec, arch: Arch) -> Ledger:
    """Shared memory of one CTA; the D buffers are (store_buffers, slab_m, tile.n)."""
    s, size = _ws(spec), dtype(spec.gemm.d.dtype).bytes
    how = f"{SLAB_M} x {s.tile.n} x {size} B"
    if s.epilogue.store_buffers > 1:
        how = f"{s.epilogue.store_buffers} buffers x {how}"
    amount = s.epilogue.store_buffers * SLAB_M * s.tile.n * size
    outputs = (Item("D buffer", amount, f"{how} (epilogue {s.epilogue.kind})"),)
    barriers = sum(b.count for b in _barriers(spec, arch))
    return wgmma.smem_ledger(spec, arch, outputs, barriers)


def _threads(spec: KernelSpec, arch: Arch) -> int:
    producer = 32 if _ws(spec).producer == "warp" else arch.warpgroup_threads
    return _ws(spec).consumers * arch.warpgroup_threads + producer


def _roles(spec: KernelSpec, arch: Arch, threads: int) -> tuple[Role, ...]:
    producer_cap, consumer_cap = wgmma.register_caps(spec, arch, threads)
    consumers = _ws(spec).consumers * arch.warpgroup_threads // 32
    accumulators = wgmma.slab_accumulators(spec, arch)
    overhead, producer = _consumer_overhead(spec), _producer_registers(spec)
    return (
        Role("consumer", consumers, 0, consumer_cap, accumulators, overhead),
        Role("producer", threads // 32 - consumers, consumers, producer_cap, 0, producer),
    )


def _producer_registers(spec: KernelSpec) -> int:
    if _ws(spec).stages != 1:
        return PRODUCER_REGISTERS
    a, b, _ = _boxes(spec, wgmma.swizzle_of(spec, ARCHS[spec.target]))
    return max(PRODUCER_REGISTERS, ONE_STAGE_PRODUCER_BASE + a.count + b.count)


def _consumer_overhead(spec: KernelSpec) -> int:
    overhead = CONSUMER_OVERHEAD[spec.gemm.accumulator]
    if _ws(spec).stages == 1:
        kept = max(0, _ws(spec).tile.k // MMA_K - ONE_STAGE_FREE_K_STEPS)
        overhead += ONE_STAGE_REGISTERS_PER_K_STEP * kept
    return overhead


def _barriers(spec: KernelSpec, arch: Arch) -> tuple[Barrier, ...]:
    """The mbarriers, with arrivals derived from who arrives."""
    s = _ws(spec)
    assert isinstance(s.stages, int)
    bytes_per_stage = wgmma.a_stage_bytes(spec) + wgmma.b_stage_bytes(spec)
    rows = [
        Barrier("full", s.stages, 1, bytes_per_stage, "the producer thread, then TMA", "consumers"),
        Barrier("empty", s.stages, s.consumers, 0, "one thread of each consumer", "producer"),
        Barrier(
            "d_ready",
            s.consumers,
            arch.warpgroup_threads,
            0,
            "every thread of consumer i",
            "producer",
        ),
    ]
    waits = s.consumers - s.epilogue.store_buffers
    if waits:
        rows.append(Barrier("d_free", waits, 1, 0, "the producer thread", "a later consumer"))
    return tuple(rows)


def _boxes(spec: KernelSpec, swizzle: int) -> tuple[TmaBox, ...]:
    """TMA requests: a box of A covers one slab, one of B the whole tile."""
    s, size = _ws(spec), dtype(spec.gemm.d.dtype).bytes
    count = s.tile.n // STORE_BOX_N * s.consumers
    width = STORE_BOX_N * size
    return (
        wgmma.operand_box(spec, "a", swizzle, SLAB_M, s.consumers),
        wgmma.operand_box(spec, "b", swizzle, s.tile.n, 1),
        TmaBox("d", "n", "m", STORE_BOX_N, SLAB_M, size, width, f"{count} per tile", count),
    )
