"""Lowering of the wgmma_ws schedule: from a budget to the plan that its template prints.

The producer's side is in `wgmma_ring`, the consumers' in `wgmma_mma`.
"""

from __future__ import annotations

from kgen.budget import Budget
from kgen.dtypes import dtype
from kgen.plan.model import BarrierInit, Constant, Field, ProblemField, TensorMap, WgmmaWsPlan
from kgen.plan.status import statuses
from kgen.plan.wgmma_mma import consumer, layouts, mma
from kgen.plan.wgmma_ring import producer, tensor_maps
from kgen.spec import KernelSpec, LoadedSpec
from kgen.spec.hopper import WgmmaWs
from kgen.spec.rules.wgmma import SLAB_M, STORE_BOX_N


def lower_wgmma_ws(loaded: LoadedSpec, budget: Budget) -> WgmmaWsPlan:
    """The plan of one wgmma_ws kernel. `budget` must have been accepted."""
    spec = budget.spec
    s, gemm = spec.schedule_as(WgmmaWs), spec.gemm
    maps = tensor_maps(spec, budget)
    # Row and column indices up to one tile past the end must fit in 32 bits.
    extent_limit = 2**31 - 1 - 2 * max(s.tile.m, s.tile.n)
    return WgmmaWsPlan(
        name=spec.name,
        template="wgmma_ws.cu.j2",
        spec_label=loaded.label,
        spec_digest=loaded.digest,
        target=spec.target,
        arch_macro=budget.arch.feature_macro,
        devices=budget.arch.devices,
        compute_capability=budget.arch.compute_capability,
        minimum_cuda=budget.arch.minimum_cuda,
        problem=(
            f"D[M,N] {gemm.d.dtype} = A[M,K] {gemm.a.dtype} @ B[N,K].T {gemm.b.dtype}, "
            f"{gemm.accumulator} accumulation. CTA tile {s.tile.m} x {s.tile.n} x {s.tile.k}."
        ),
        interface=_interface(spec, maps, extent_limit),
        structure=_structure(spec, budget),
        budget=budget,
        constants=_constants(spec, budget),
        layouts=layouts(budget),
        problem_fields=_problem(spec),
        storage=_storage(spec, budget),
        barriers=_barriers(budget),
        maps=maps,
        statuses=statuses(maps[:2], maps[2], extent_limit),
        mma=mma(spec, budget),
        raster_along_n=s.raster.along == "n",
        producer=producer(spec, budget),
        consumer=consumer(spec, budget),
        extent_limit=extent_limit,
        max_tiles=budget.arch.grid_x,
        max_stride=budget.arch.tma_stride_limit,
        threads=budget.threads,
        smem_bytes=budget.smem.total,
        tile=(s.tile.m, s.tile.n, s.tile.k),
    )


def _interface(spec: KernelSpec, maps: tuple[TensorMap, ...], extent_limit: int) -> tuple[str, ...]:
    """What a caller must know; the header comment and the .h carry it."""
    a = "A[M,K]" if spec.gemm.a.major == "k" else "A as [K,M]"
    b = "B[N,K]" if spec.gemm.b.major == "k" else "B as [K,N]"
    rows = [
        f"{a}, {b}, D[M,N] row-major; D overlaps neither. Leading dimensions in elements.",
        f"M, N, K from 0 to {extent_limit}, at most 2^31 - 1 tiles.",
        f"a, b: 16-byte aligned; lda, ldb: multiples of {maps[0].multiple}, below 2^40 bytes.",
        "d: aligned to its element. Where d is 16-byte aligned and N and ldd are multiples of "
        f"{maps[2].multiple},",
        "TMA stores D; elsewhere the consumers store it element by element, which is slower.",
    ]
    if spec.gemm.accumulator == "f16":
        rows.append(
            "f16 accumulation: partial sums overflow at 65504 and lose increments below 1 "
            "from 2048 on."
        )
    return tuple(rows)


def _structure(spec: KernelSpec, b: Budget) -> tuple[str, ...]:
    s = spec.schedule_as(WgmmaWs)
    plural, each = ("s", " each") if s.consumers > 1 else ("", "")
    slab = f"{SLAB_M} x {s.tile.n} slab"
    producer = "1 producer warp" if s.producer == "warp" else "1 producer warpgroup"
    along = "tile columns" if s.raster.along == "n" else "tile rows"
    return (
        f"{b.threads // 32} warps: {s.consumers} consumer warpgroup{plural}, one {slab}{each}, "
        f"and {producer}.",
        f"One CTA per tile on grid.x, in groups of {s.raster.group} {along}; one CTA per SM, no "
        "cluster.",
        "K is summed in one fixed order: equal inputs give equal bits.",
    )


def _constants(spec: KernelSpec, b: Budget) -> tuple[Constant, ...]:
    s = spec.schedule_as(WgmmaWs)
    assert isinstance(s.stages, int)
    a_bytes, b_bytes = b.smem["A ring"] // s.stages, b.smem["B ring"] // s.stages
    row_bytes = s.tile.k * dtype(spec.gemm.a.dtype).bytes
    size = dtype(spec.gemm.d.dtype).bytes
    along = {"n": "tile columns", "m": "tile rows"}[s.raster.along]
    registers = b.role("consumer").accumulators
    rows = [
        Constant("kTileM", s.tile.m, "rows of D per CTA"),
        Constant("kTileN", s.tile.n, "columns of D per CTA"),
        Constant(
            "kTileK", s.tile.k, f"K elements per stage: {row_bytes} bytes of {spec.gemm.a.dtype}"
        ),
        Constant("kConsumers", s.consumers, "warpgroups; each owns a slab of kSlabM rows"),
        Constant("kSlabM", SLAB_M, "rows per consumer, one wgmma M"),
        Constant("kStages", s.stages, "depth of the A/B ring"),
        Constant("kStageBytes", b.stage_bytes, f"A {a_bytes} + B {b_bytes}"),
        Constant(
            "kAccRegisters",
            registers,
            f"{SLAB_M} x {s.tile.n} {spec.gemm.accumulator} per warpgroup",
        ),
        Constant(
            "kOutRegisters",
            SLAB_M * s.tile.n * size // 4 // 128,
            f"the same as pairs of {spec.gemm.d.dtype}",
        ),
        Constant(
            "kStoreBoxN", STORE_BOX_N, f"columns of one TMA store: {STORE_BOX_N * size} bytes"
        ),
        Constant("kStoreBoxes", s.tile.n // STORE_BOX_N, "TMA stores per slab"),
        Constant("kStoreBuffers", s.epilogue.store_buffers, "slab-sized staging buffers of D"),
        Constant("kRasterGroup", s.raster.group, f"{along} that run side by side"),
        Constant("kWarpgroup", b.arch.warpgroup_threads, "threads that issue one wgmma"),
        Constant("kThreads", b.threads, "consumers first, then the producer"),
        Constant(
            "kSmemBytes", b.smem.total, f"{b.smem.total - b.smem['padding']} used, the rest padding"
        ),
    ]
    return tuple(rows)


_BARRIER_COUNTS = {
    "full": ("kStages", "1"),
    "empty": ("kStages", "kConsumers"),
    "d_ready": ("kConsumers", "kWarpgroup"),
    "d_free": ("kConsumers - kStoreBuffers", "1"),
}


def _barriers(b: Budget) -> tuple[BarrierInit, ...]:
    return tuple(
        BarrierInit(x.name, *_BARRIER_COUNTS[x.name], arriver=x.arriver) for x in b.barriers
    )


def _problem(spec: KernelSpec) -> tuple[ProblemField, ...]:
    pointer = f"{dtype(spec.gemm.d.dtype).storage}*"

    def count(name: str, value: str, note: str) -> ProblemField:
        return ProblemField("int", name, "i4", f"static_cast<int>({value})", note)

    return (
        ProblemField(pointer, "d", "u8", f"static_cast<{pointer}>(d)", "D, row-major"),
        ProblemField("int64_t", "ldd", "i8", "ldd", "elements from one row of D to the next"),
        count("m", "m", "rows of D"),
        count("n", "n", "columns of D"),
        count("k_tiles", "tiles(k, kTileK)", "K in tiles of kTileK, rounded up"),
        count("tiles_m", "tiles(m, kTileM)", "M in tiles of kTileM, rounded up"),
        count("tiles_n", "tiles(n, kTileN)", "N in tiles of kTileN, rounded up"),
        ProblemField(
            "int",
            "tma_store",
            "i4",
            "tma_store",
            "rows of D start and end on 16 bytes: TMA stores it",
        ),
    )


def _storage(spec: KernelSpec, b: Budget) -> tuple[Field, ...]:
    element = dtype(spec.gemm.a.dtype).storage
    d_element = dtype(spec.gemm.d.dtype).storage
    rows = [
        Field(element, "a", ("kStages", "kConsumers", "kSlabM * kTileK"), "ring of A slabs"),
        Field(element, "b", ("kStages", "kTileN * kTileK"), "ring of B"),
        Field(
            d_element,
            "d",
            ("kStoreBuffers", "kStoreBoxes", "kSlabM * kStoreBoxN"),
            "staged for TMA",
        ),
    ]
    notes = {
        "full": "the stage holds its K tile",
        "empty": "all consumers have read it",
        "d_ready": "consumer i has staged its slab",
        "d_free": "that slab has been read",
    }
    rows += [Field("uint64_t", x.name, (x.count,), notes[x.name]) for x in _barriers(b)]
    return tuple(rows)
