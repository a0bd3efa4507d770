"""What a tcgen05 kernel's header says about it, and the named constants of its file."""

from __future__ import annotations

from kgen.budget.tcgen05 import Tcgen05Budget, ring_depths
from kgen.budget.tcgen05_barriers import ANSWER_BYTES, TILE_SLOTS
from kgen.plan.common import TF32_NOTE
from kgen.plan.launch import ScaleMap
from kgen.plan.model import Constant, TensorMap
from kgen.spec.blackwell import Tcgen05WsSplit
from kgen.spec.rules.tcgen05 import LANES, ROW_BYTES, schedule_of


def problem(b: Tcgen05Budget) -> str:
    """The product in one line."""
    gemm, g = b.spec.gemm, b.shape
    who = "CTA pair" if g.group == 2 else "CTA"
    return (
        f"D[M,N] {gemm.d.dtype} = A[M,K] {gemm.a.dtype} @ B[N,K].T {gemm.b.dtype}, "
        f"{gemm.accumulator} accumulation. {who} tile {g.tile_m} x {g.tile_n} x {g.tile_k}."
    )


def interface(
    b: Tcgen05Budget,
    maps: tuple[TensorMap, ...],
    scales: tuple[ScaleMap, ...],
    extent_limit: int,
    max_tiles: int,
) -> tuple[str, ...]:
    """What a caller must know; the header comment and the .h carry it."""
    gemm = b.spec.gemm
    a = "A[M,K]" if gemm.a.major == "k" else "A as [K,M]"
    other = "B[N,K]" if gemm.b.major == "k" else "B as [K,N]"
    rows = [
        f"{a}, {other}, D[M,N] row-major; D overlaps neither. Leading dimensions in elements.",
        f"M, N, K from 0 to {extent_limit}, at most {max_tiles} tiles.",
        f"a, b: 16-byte aligned; lda, ldb: multiples of {maps[0].multiple}, below 2^40 bytes.",
        "d: aligned to its element. Where d is 16-byte aligned and N and ldd are multiples of "
        f"{maps[2].multiple},",
        "TMA stores D; elsewhere the epilogue stores it element by element, which is slower.",
    ]
    if maps[0].dtype.bits == 4:
        rows.append("Two elements a byte, the one with the even index along K in the low half.")
    if gemm.a.dtype == "tf32":
        rows.append(TF32_NOTE)
    if scales:
        scale = gemm.block_scale
        assert scale is not None
        rows += [
            f"sfa, sfb: 16-byte aligned; a {scale.dtype} scale for {scale.block} elements of K, "
            "ordered by pack_scales.",
            f"K is a multiple of {scales[0].whole}, so that no padding takes part.",
        ]
    if gemm.global_scale:
        rows.append("alpha: one factor of D, such as the product of global scales of A and B.")
    return tuple(rows)


def structure(b: Tcgen05Budget) -> tuple[str, ...]:
    """Warps, cluster, order of the sum."""
    s, g = schedule_of(b.spec), b.shape
    producers = 2 if isinstance(s, Tcgen05WsSplit) else 1
    scheduler = ", 1 scheduler" if s.scheduler == "clc" else ""
    cluster = (
        f"Clusters of {g.cluster_m} x {g.cluster_n} CTAs (M x N)"
        if g.ctas > 1
        else "One CTA per SM"
    )
    along = "tile columns" if s.raster.along == "n" else "tile rows"
    overlap = (
        "two sets of accumulators overlap the epilogue with the next tile"
        if s.tmem.buffers == 2
        else "the epilogue frees each accumulator as it has read it"
    )
    who = "cluster" if g.ctas > 1 else "CTA"
    groups = f"in groups of {s.raster.group} {along}"
    tiles = f"Persistent: a resident {who} takes every n-th tile, {groups};"
    if s.scheduler == "clc":
        tiles = f"One {who} for each tile, {groups}; it takes others', two ahead;"
    return (
        f"{b.threads // 32} warps: 4 epilogue, {producers} producer, 1 MMA{scheduler}. {cluster}.",
        tiles,
        f"{overlap}.",
        "K is summed in one fixed order: equal inputs give equal bits.",
        "Built, not run on hardware.",
    )


def constants(b: Tcgen05Budget) -> tuple[Constant, ...]:
    """The named numbers of the generated file, each of which it uses."""
    g, s, spec = b.shape, schedule_of(b.spec), b.spec
    who = "CTA pair" if g.group == 2 else "CTA"
    row = g.operand.bytes_of(g.tile_k)
    rows = [
        Constant("kTileM", g.tile_m, f"rows of D per {who}"),
        Constant("kTileN", g.tile_n, f"columns of D per {who}"),
        Constant("kTileK", g.tile_k, f"K elements per stage: {row} bytes of {spec.gemm.a.dtype}"),
        *_ring(b),
        Constant("kAccBuffers", int(s.tmem.buffers), "tiles whose accumulators exist at a time"),
        Constant("kAccumulators", g.m_tiles * g.n_tiles, "of one tile, one for each MMA"),
        Constant("kAccColumns", g.accumulator_columns, "of tensor memory, for one tile"),
        Constant("kMmaN", g.form.request.n, "columns of one MMA"),
        *_scale_columns(b),
        Constant("kTmemColumns", b.tmem.allocated, f"{b.tmem.used} used"),
        Constant("kStoreBoxN", g.box_n, f"columns of one TMA store: {ROW_BYTES} bytes"),
        Constant("kStoreBuffers", s.epilogue.store_buffers, "staging buffers of D"),
        Constant("kStoreBytes", g.buffer_bytes, f"{LANES} rows of {ROW_BYTES} bytes"),
        *_slots(b),
        Constant("kRasterGroup", s.raster.group, "tiles side by side that run together"),
        *_cluster(b),
        *_warps(b),
        Constant("kThreads", b.threads, "epilogue warps first"),
        Constant(
            "kSmemBytes", b.smem.total, f"{b.smem.total - b.smem['padding']} used, the rest padding"
        ),
    ]
    if g.m_tiles == 2:
        rows.append(Constant("kRowBoxes", g.tile_n // g.box_n, "TMA stores of one MMA's rows"))
    return tuple(rows)


def _scale_columns(b: Tcgen05Budget) -> list[Constant]:
    if not b.shape.words:
        return []
    return [
        Constant("kColumnSfa", b.tmem.first("A scales"), "first column of the scales of A"),
        Constant("kColumnSfb", b.tmem.first("B scales"), "first column of the scales of B"),
    ]


def _slots(b: Tcgen05Budget) -> list[Constant]:
    if schedule_of(b.spec).scheduler == "static":
        return []
    return [
        Constant("kTileSlots", TILE_SLOTS, "answers that are on their way or not read by all"),
        Constant("kAnswerBytes", ANSWER_BYTES, "of cluster launch control"),
    ]


def _warps(b: Tcgen05Budget) -> list[Constant]:
    names = {
        "producer": ("kProducerWarp", "one thread of it loads"),
        "A producer": ("kProducerWarpA", "one thread of it loads A"),
        "B producer": ("kProducerWarpB", "one thread of it loads B and scales"),
        "scheduler": ("kSchedulerWarp", "one thread of it asks for the next tile"),
        "mma": ("kMmaWarp", "one thread of it issues the MMAs; allocates tensor memory"),
    }
    return [
        Constant(names[r.name][0], r.first_warp, names[r.name][1])
        for r in b.roles
        if r.name in names
    ]


def _ring(b: Tcgen05Budget) -> list[Constant]:
    g = b.shape
    a_stages, b_stages = ring_depths(b.spec)
    of_pair = " of both CTAs" if g.group == 2 else ""
    with_b = g.b_bytes + g.sfa_bytes + g.sfb_bytes
    rows = [Constant("kBytesA", g.a_bytes, "A of one stage"), Constant("kBytesB", g.b_bytes, "B")]
    if g.words:
        rows += [
            Constant("kBytesSfa", g.sfa_bytes, "scales of A"),
            Constant("kBytesSfb", g.sfb_bytes, "scales of B"),
        ]
    if isinstance(b.spec.schedule, Tcgen05WsSplit):
        return [
            Constant("kStagesA", a_stages, "depth of A's ring"),
            Constant("kStagesB", b_stages, "depth of the ring of B and scales"),
            *rows,
            Constant("kFullBytesA", g.group * g.a_bytes, f"A of one stage{of_pair}"),
            Constant("kFullBytesB", g.group * with_b, f"B and scales of one stage{of_pair}"),
        ]
    total = g.group * (g.a_bytes + with_b)
    return [
        Constant("kStages", a_stages, "depth of the ring"),
        *rows,
        Constant("kFullBytes", total, f"all of one stage{of_pair}"),
    ]


def _cluster(b: Tcgen05Budget) -> list[Constant]:
    """Shape of the cluster, shares of its loads, and the CTAs that they and the commits reach."""
    g = b.shape
    if g.ctas == 1:
        return []
    of_m = range(0, g.cluster_m, g.group)  # leading CTAs along M, for n = 0
    of_n = range(0, g.ctas, g.cluster_m)
    pair = (1 << g.group) - 1
    rows = [
        Constant("kClusterM", g.cluster_m, "CTAs along M"),
        Constant("kClusterN", g.cluster_n, "CTAs along N"),
        Constant("kClusterGroups", len(of_m), "CTA groups along M"),
        Constant("kClusterSize", g.ctas, "CTAs of a cluster"),
    ]
    if g.group == 2:
        rows.append(Constant("kCtaRows", g.rows_a, "rows of A and D per CTA"))
    if g.a_shares > 1:
        rows += [
            Constant("kSliceRowsA", g.rows_a // g.a_shares, "rows of A that a CTA loads for all"),
            Constant("kMaskA", _mask(of_n), "CTAs with the rows of A of CTA 0"),
        ]
    if g.b_shares > 1:
        rows += [
            Constant("kSliceRowsB", g.rows_b // g.b_shares, "rows of B that a CTA loads for all"),
            Constant("kMaskB", _mask(of_m), "CTAs with the rows of B of CTA 0"),
        ]
    if g.group == 2:
        rows.append(Constant("kMaskPair", pair, "both CTAs of the first pair"))
        rows.append(Constant("kHalfN", g.rows_b, "rows of B that a CTA holds of one MMA"))
    rows.append(Constant("kMaskRow", pair * _mask(of_n), "CTAs that share A with the first group"))
    if len(of_m) > 1 or isinstance(b.spec.schedule, Tcgen05WsSplit):
        rows.append(Constant("kMaskColumn", (1 << g.cluster_m) - 1, "CTAs that share its B"))
    return rows


def _mask(ranks: range) -> int:
    return sum(1 << rank for rank in ranks)
