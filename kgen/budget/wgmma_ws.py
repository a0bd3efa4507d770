"""Size arithmetic of the wgmma_ws schedule; the only place that multiplies its tile by anything."""

from __future__ import annotations

from kgen.arch import ARCHS, Arch
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Barrier, Budget, Role, TmaBox
from kgen.budget.register_split import (
    register_caps,
    slab_accumulators,
    with_registers,
)
from kgen.budget.ring import (
    a_stage,
    b_stage,
    input_boxes,
    ring_budget,
    ring_smem,
    ring_swizzle,
    update,
    with_stages,
)
from kgen.dtypes import dtype
from kgen.spec import KernelSpec
from kgen.spec.hopper import TmaTurns, WgmmaWs
from kgen.spec.rules.wgmma import consumer_m, slabs_of, store_box_n

# Registers beyond the accumulators, as ptxas 13.5 reports them for these templates: the same for
# every tile. Estimates: the ptxas gate has the last word on every build.
CONSUMER_OVERHEAD = {"f16": 26, "f32": 27}
PRODUCER_REGISTERS = 24
FEW_LOADS = 12  # per stage; beyond, the producer keeps a coordinate for every other load


def wgmma_ws_budget(spec: KernelSpec) -> Budget:
    """The budget of `spec` with every `auto` resolved, whether it fits or not."""
    arch = ARCHS[spec.target]
    swizzle = ring_swizzle(spec, arch)
    threads = _threads(spec, arch)
    shallowest = 2 if _ws(spec).release == "previous" else 1
    spec = with_stages(spec, shallowest, lambda x: wgmma_smem(x, arch))
    spec = with_registers(spec, arch, threads, _producer_registers(spec))
    spec = update(spec, swizzle_bytes=swizzle)
    roles = _roles(spec, arch, threads)
    return ring_budget(
        spec, arch, roles, wgmma_smem(spec, arch), _barriers(spec, arch), _boxes(spec, swizzle)
    )


def _ws(spec: KernelSpec) -> WgmmaWs:
    return spec.schedule_as(WgmmaWs)


def wgmma_smem(spec: KernelSpec, arch: Arch) -> Ledger:
    """Shared memory of one CTA: the ring, then buffers of a slab each where D is staged."""
    s, barriers = _ws(spec), sum(b.count for b in _barriers(spec, arch))
    if not isinstance(s.epilogue, TmaTurns):
        return ring_smem(spec, arch, barriers)
    size = dtype(spec.gemm.d.dtype).bytes
    how = f"{consumer_m(s)} x {s.tile.n} x {size} B (epilogue {s.epilogue.kind})"
    if s.epilogue.store_buffers > 1:
        how = f"{s.epilogue.store_buffers} buffers x {how}"
    amount = s.epilogue.store_buffers * consumer_m(s) * s.tile.n * size
    return ring_smem(spec, arch, barriers, (Item("D buffer", amount, how),))


def _threads(spec: KernelSpec, arch: Arch) -> int:
    producer = 32 if _ws(spec).producer == "warp" else arch.warpgroup_threads
    return _ws(spec).consumers * arch.warpgroup_threads + producer


def _roles(spec: KernelSpec, arch: Arch, threads: int) -> tuple[Role, ...]:
    producer_cap, consumer_cap = register_caps(spec, arch, threads)
    consumers = _ws(spec).consumers * arch.warpgroup_threads // 32
    accumulators = slabs_of(_ws(spec)) * slab_accumulators(spec, arch)
    overhead, producer = CONSUMER_OVERHEAD[spec.gemm.accumulator], _producer_registers(spec)
    return (
        Role("consumer", consumers, 0, consumer_cap, accumulators, overhead),
        Role("producer", threads // 32 - consumers, consumers, producer_cap, 0, producer),
    )


def _producer_registers(spec: KernelSpec) -> int:
    a, b = input_boxes(spec, ring_swizzle(spec, ARCHS[spec.target]), _ws(spec).consumers)
    loads = a.count + b.count
    if _ws(spec).stages == 1:  # the addresses of all loads are loop invariants
        return PRODUCER_REGISTERS + loads
    return PRODUCER_REGISTERS + (loads // 2 if loads > FEW_LOADS else 0)


def _barriers(spec: KernelSpec, arch: Arch) -> tuple[Barrier, ...]:
    """The mbarriers, with arrivals derived from who arrives."""
    s = _ws(spec)
    assert isinstance(s.stages, int)
    bytes_per_stage = a_stage(spec) + b_stage(spec)
    rows = [
        Barrier("full", s.stages, 1, bytes_per_stage, "the producer thread, then TMA", "consumers"),
        Barrier("empty", s.stages, s.consumers, 0, "one thread of each consumer", "producer"),
    ]
    if not isinstance(s.epilogue, TmaTurns):
        return tuple(rows)
    threads = arch.warpgroup_threads
    rows.append(
        Barrier("d_ready", s.consumers, threads, 0, "every thread of consumer i", "producer")
    )
    waits = s.consumers - s.epilogue.store_buffers
    if waits:
        rows.append(Barrier("d_free", waits, 1, 0, "the producer thread", "a later consumer"))
    return tuple(rows)


def _boxes(spec: KernelSpec, swizzle: int) -> tuple[TmaBox, ...]:
    """TMA requests: the slabs of A, B, and D where it is staged."""
    s = _ws(spec)
    inputs = input_boxes(spec, swizzle, s.consumers)
    if not isinstance(s.epilogue, TmaTurns):
        return inputs
    size = dtype(spec.gemm.d.dtype).bytes
    columns = store_box_n(spec)
    count = s.tile.n // columns * s.consumers
    width = columns * size
    d = TmaBox("d", "n", "m", columns, consumer_m(s), size, width, f"{count} per tile", count)
    return (*inputs, d)
