"""Size arithmetic of the wgmma_ws schedule; the only place that multiplies its tile by anything."""

from __future__ import annotations

from kgen.arch import ARCHS, Arch, launch_register_cap
from kgen.budget.ledger import Item, Ledger
from kgen.budget.model import Barrier, Budget, Role, TmaBox
from kgen.dtypes import dtype
from kgen.spec import KernelSpec
from kgen.spec.base import Registers
from kgen.spec.hopper import WgmmaWs
from kgen.spec.rules.wgmma import MMA_K, SLAB_M, STORE_BOX_N

MBARRIER_BYTES = 8

# Registers beyond the accumulators, as ptxas 13.5 reports them for these templates: the same for
# every tile of two stages or more. With one stage the addresses of all loads and the descriptors of
# all K steps are loop invariants, and ptxas keeps them in registers, the latter from the twelfth
# step on. Estimates: the ptxas gate has the last word on every build.
CONSUMER_OVERHEAD = {"f16": 26, "f32": 27}
ONE_STAGE_FREE_K_STEPS = 11
ONE_STAGE_REGISTERS_PER_K_STEP = 6
ONE_STAGE_PRODUCER_BASE = 24
PRODUCER_REGISTERS = 32

# A producer warpgroup keeps this many; 24 spilled in the fast kernels that were studied.
PRODUCER_SPLIT = {1: 40, 2: 40}
PRODUCER_SPLIT_MANY = 32


def wgmma_ws_budget(spec: KernelSpec) -> Budget:
    """The budget of `spec` with every `auto` resolved, whether it fits or not."""
    arch = ARCHS[spec.target]
    swizzle = _swizzle(spec, arch)
    threads = _threads(spec, arch)
    spec = _with_registers(_with_stages(spec, arch, swizzle), arch, threads)
    spec = _update(spec, swizzle_bytes=swizzle)
    roles = _roles(spec, arch, threads)
    tile = _ws(spec).tile
    operand_bytes = (
        tile.m * dtype(spec.gemm.a.dtype).bytes + tile.n * dtype(spec.gemm.b.dtype).bytes
    )
    return Budget(
        spec=spec,
        arch=arch,
        threads=threads,
        smem=wgmma_smem(spec, arch),
        register_file=_register_file(roles, arch, threads),
        launch_cap=launch_register_cap(arch, threads),
        register_pool=_register_pool(spec, arch, threads),
        roles=roles,
        barriers=_barriers(spec, arch),
        boxes=_boxes(spec, swizzle),
        swizzle_bytes=swizzle,
        stage_bytes=_a_stage(spec) + _b_stage(spec),
        operand_bytes_per_flop=operand_bytes / (2 * tile.m * tile.n),
    )


def _ws(spec: KernelSpec) -> WgmmaWs:
    return spec.schedule_as(WgmmaWs)


def _update(spec: KernelSpec, **fields: object) -> KernelSpec:
    return spec.model_copy(update={"schedule": spec.schedule.model_copy(update=fields)})


def _a_stage(spec: KernelSpec) -> int:
    return _ws(spec).tile.m * _ws(spec).tile.k * dtype(spec.gemm.a.dtype).bytes


def _b_stage(spec: KernelSpec) -> int:
    return _ws(spec).tile.n * _ws(spec).tile.k * dtype(spec.gemm.b.dtype).bytes


def _d_buffers(spec: KernelSpec) -> int:
    slab = SLAB_M * _ws(spec).tile.n * dtype(spec.gemm.d.dtype).bytes
    return _ws(spec).epilogue.store_buffers * slab


def smem_limit(spec: KernelSpec, arch: Arch) -> int:
    """Bytes the CTA may use: the hardware's, or less if the spec says so."""
    return min(arch.smem_per_cta, _ws(spec).smem_limit or arch.smem_per_cta)


def wgmma_smem(spec: KernelSpec, arch: Arch) -> Ledger:
    """Shared memory of one CTA, in layout order. `stages` must be a number.

    Shapes  A (stages, consumers, slab_m, tile.k); B (stages, tile.n, tile.k);
            D buffers (store_buffers, slab_m, tile.n); one mbarrier of 8 bytes each
    Units   bytes; each region starts on 1024 (the 128B swizzle pattern); the total is padded to
            1024, so that it equals sizeof(SharedStorage)
    Source  CUDA C++ Programming Guide, technical specifications per compute capability
    """
    s, gemm = _ws(spec), spec.gemm
    assert isinstance(s.stages, int)
    barriers = sum(b.count for b in _barriers(spec, arch))
    used = (
        s.stages * (_a_stage(spec) + _b_stage(spec)) + _d_buffers(spec) + barriers * MBARRIER_BYTES
    )
    d_how = f"{SLAB_M} x {s.tile.n} x {dtype(gemm.d.dtype).bytes} B"
    if s.epilogue.store_buffers > 1:
        d_how = f"{s.epilogue.store_buffers} buffers x {d_how}"
    items = (
        Item(
            "A ring",
            s.stages * _a_stage(spec),
            f"{s.stages} stages x {s.tile.m} x {s.tile.k} x {dtype(gemm.a.dtype).bytes} B",
        ),
        Item(
            "B ring",
            s.stages * _b_stage(spec),
            f"{s.stages} stages x {s.tile.n} x {s.tile.k} x {dtype(gemm.b.dtype).bytes} B",
        ),
        Item("D buffer", _d_buffers(spec), f"{d_how} (epilogue {s.epilogue.kind})"),
        Item("mbarriers", barriers * MBARRIER_BYTES, f"{barriers} x {MBARRIER_BYTES} B"),
        Item("padding", -used % arch.smem_alignment, f"to a multiple of {arch.smem_alignment}"),
    )
    name = "schedule.smem_limit" if s.smem_limit else f"{arch.target} shared memory"
    return Ledger("shared memory", "bytes", items, smem_limit(spec, arch), name)


def _with_stages(spec: KernelSpec, arch: Arch, swizzle: int) -> KernelSpec:
    """`stages: auto` is the deepest ring that fits, or the shallowest legal one when none does."""
    if _ws(spec).stages != "auto":
        return spec
    shallowest = 2 if _ws(spec).release == "previous" else 1
    stages = shallowest
    while not wgmma_smem(_update(spec, stages=stages + 1), arch).over:
        stages += 1
    return _update(spec, stages=stages)


def _swizzle(spec: KernelSpec, arch: Arch) -> int:
    """Widest pattern that divides a K-major row of the stage; MN-major rows are wide enough."""
    asked = _ws(spec).swizzle_bytes
    if asked != "auto":
        return asked
    if "k" not in (spec.gemm.a.major, spec.gemm.b.major):
        return max(arch.swizzle_bytes)
    row = _ws(spec).tile.k * dtype(spec.gemm.a.dtype).bytes
    return max(w for w in arch.swizzle_bytes if row % w == 0)


def _threads(spec: KernelSpec, arch: Arch) -> int:
    producer = 32 if _ws(spec).producer == "warp" else arch.warpgroup_threads
    return _ws(spec).consumers * arch.warpgroup_threads + producer


def _with_registers(spec: KernelSpec, arch: Arch, threads: int) -> KernelSpec:
    """`registers: auto` gives the producer warpgroup little and shares the rest of the pool."""
    s = _ws(spec)
    if s.registers != "auto" or s.producer == "warp":
        return spec
    least = -(-_producer_registers(spec) // arch.register_step) * arch.register_step
    producer = max(least, PRODUCER_SPLIT.get(s.consumers, PRODUCER_SPLIT_MANY))
    pool = _register_pool(spec, arch, threads)
    consumer = (pool - producer) // s.consumers // arch.register_step * arch.register_step
    largest = arch.registers_per_thread // arch.register_step * arch.register_step - 8
    split = Registers(producer=producer, consumer=max(24, min(consumer, largest)))
    return _update(spec, registers=split)


def _register_pool(spec: KernelSpec, arch: Arch, threads: int) -> int:
    """What setmaxnreg can deal out: registers per thread at launch, summed over warpgroups."""
    return launch_register_cap(arch, threads) * (_ws(spec).consumers + 1)


def _roles(spec: KernelSpec, arch: Arch, threads: int) -> tuple[Role, ...]:
    s = _ws(spec)
    cap = launch_register_cap(arch, threads)
    producer_cap, consumer_cap = cap, cap
    if isinstance(s.registers, Registers):
        producer_cap, consumer_cap = s.registers.producer, s.registers.consumer
    bits = dtype(spec.gemm.accumulator).bits
    accumulators = SLAB_M * s.tile.n * bits // 32 // arch.warpgroup_threads
    warps = arch.warpgroup_threads // 32
    consumers = s.consumers * warps
    return (
        Role(
            "consumer",
            consumers,
            0,
            consumer_cap,
            accumulators,
            _consumer_overhead(spec),
        ),
        Role(
            "producer",
            threads // 32 - consumers,
            consumers,
            producer_cap,
            0,
            _producer_registers(spec),
        ),
    )


def _producer_registers(spec: KernelSpec) -> int:
    if _ws(spec).stages != 1:
        return PRODUCER_REGISTERS
    a, b, _ = _boxes(spec, _swizzle(spec, ARCHS[spec.target]))
    return max(PRODUCER_REGISTERS, ONE_STAGE_PRODUCER_BASE + a.count + b.count)


def _consumer_overhead(spec: KernelSpec) -> int:
    overhead = CONSUMER_OVERHEAD[spec.gemm.accumulator]
    if _ws(spec).stages == 1:
        kept = max(0, _ws(spec).tile.k // MMA_K - ONE_STAGE_FREE_K_STEPS)
        overhead += ONE_STAGE_REGISTERS_PER_K_STEP * kept
    return overhead


def _register_file(roles: tuple[Role, ...], arch: Arch, threads: int) -> Ledger:
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


def _barriers(spec: KernelSpec, arch: Arch) -> tuple[Barrier, ...]:
    """The mbarriers, with arrivals derived from who arrives."""
    s = _ws(spec)
    assert isinstance(s.stages, int)
    bytes_per_stage = _a_stage(spec) + _b_stage(spec)
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
    """TMA requests: one box is as wide as the swizzle along the contiguous axis."""
    s, gemm = _ws(spec), spec.gemm

    def operand(name: str, major: str, axis: str, rows: int, boxes_of: int) -> TmaBox:
        size = dtype(gemm.a.dtype).bytes
        width = swizzle // size
        if major == "k":
            count = s.tile.k // width * boxes_of
            return TmaBox(name, "k", axis, width, rows, size, swizzle, f"{count} per stage", count)
        count = rows // width * boxes_of
        return TmaBox(name, axis, "k", width, s.tile.k, size, swizzle, f"{count} per stage", count)

    d_size = dtype(gemm.d.dtype).bytes
    d_count = s.tile.n // STORE_BOX_N * s.consumers
    return (
        operand("a", gemm.a.major, "m", SLAB_M, s.consumers),
        operand("b", gemm.b.major, "n", s.tile.n, 1),
        TmaBox(
            "d",
            "n",
            "m",
            STORE_BOX_N,
            SLAB_M,
            d_size,
            STORE_BOX_N * d_size,
            f"{d_count} per tile",
            d_count,
        ),
    )
