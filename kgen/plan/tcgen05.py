"""Lowering of the tcgen05 schedules: from a budget to the plan that their templates print."""

from __future__ import annotations

from kgen.budget import Budget
from kgen.budget.tcgen05 import Tcgen05Budget, ring_depths
from kgen.plan.maps import tensor_maps
from kgen.plan.model import BarrierInit, Field, ProblemField, ResidentGrid
from kgen.plan.status import statuses
from kgen.plan.tcgen05_loads import a_loads, b_loads, load_forms, scale_maps
from kgen.plan.tcgen05_mma import copies, issues, layouts
from kgen.plan.tcgen05_model import Tcgen05Plan
from kgen.plan.tcgen05_text import constants, interface, problem, structure
from kgen.spec import LoadedSpec
from kgen.spec.blackwell import Tcgen05WsSplit
from kgen.spec.rules.tcgen05 import LANES, schedule_of

# Indices of tiles step by the whole grid past the last one, and stay below 2^31.
LARGEST_GRID = 1 << 16


def lower_tcgen05(loaded: LoadedSpec, budget: Budget) -> Tcgen05Plan:
    """The plan of one tcgen05 kernel. `budget` must have been accepted."""
    assert isinstance(budget, Tcgen05Budget)
    b = budget
    spec, g, arch = b.spec, b.shape, b.arch
    s = schedule_of(spec)
    takes_over = s.scheduler == "clc"
    maps, scales = tensor_maps(b), scale_maps(b)
    # Row and column indices up to one cluster past the end must fit in 32 bits.
    reach = max(g.tile_m * g.b_shares, g.tile_n * g.cluster_n)
    extent_limit = 2**31 - 1 - 2 * reach
    max_tiles = arch.grid_x // g.ctas if takes_over else 2**31 - 1 - LARGEST_GRID
    pack = {"f16": "pack_f16x2", "bf16": "pack_bf16x2", "f32": None}[spec.gemm.d.dtype]
    columns = range(g.box_n)
    return Tcgen05Plan(
        name=spec.name,
        template=f"{s.kind}.cu.j2",
        spec_label=loaded.label,
        spec_digest=loaded.digest,
        target=spec.target,
        arch_macro=arch.feature_macro,
        devices=arch.devices,
        compute_capability=arch.compute_capability,
        minimum_cuda=max(arch.minimum_cuda, arch.oversized_minimum_cuda),
        problem=problem(b),
        interface=interface(b, maps, scales, extent_limit, max_tiles),
        structure=structure(b),
        budget=b,
        constants=constants(b),
        layouts=layouts(b),
        problem_fields=_problem_fields(b),
        storage=_storage(b),
        barriers=_barriers(b),
        maps=maps,
        statuses=statuses(maps[:2], maps[2].dtype, extent_limit, scales),
        extent_limit=extent_limit,
        max_tiles=max_tiles,
        max_stride=arch.tma_stride_limit,
        threads=b.threads,
        smem_bytes=b.smem.total,
        tile=(g.tile_m, g.tile_n, g.tile_k),
        cluster=(g.cluster_m, g.cluster_n),
        pdl=s.pdl,
        resident=None if takes_over else ResidentGrid(None, None, 0, 0),
        takes_over=takes_over,
        scale_maps=scales,
        takes_global_scale=spec.gemm.global_scale,
        is_oversized=b.oversized,
        slab_m=LANES,
        stages=ring_depths(spec)[1],
        d_type=maps[2].dtype,
        raster_grouped=s.raster.group > 1,
        raster_along_n=s.raster.along == "n",
        is_pair=g.group == 2,
        a_shared=g.a_shares > 1,
        b_shared=g.b_shares > 1,
        sfb_shared=g.sfb_shared,
        multicasts_empty=g.ctas > 1,
        is_scaled=g.words > 0,
        two_rows=g.m_tiles == 2,
        is_exclusive=b.tmem.exclusive,
        mnemonic=g.form.mnemonic,
        idesc=f"0x{g.form.idesc:08x}",
        idesc_note=_idesc_note(b),
        cta_group=g.group,
        descriptor_mask=f"0x{(1 << arch.descriptor_address_bits) - 1:x}",
        a_loads=a_loads(b),
        b_loads=b_loads(b),
        forms=load_forms(b),
        copies=copies(b),
        issues=issues(b),
        packs=pack,
        load_columns=g.box_n,
        load_rows=tuple(tuple(columns[i : i + 8]) for i in range(0, g.box_n, 8)),
        value_rows=tuple(tuple(columns[i : i + 4]) for i in range(0, g.box_n, 4)),
    )


def _idesc_note(b: Tcgen05Budget) -> str:
    """The instruction descriptor in words."""
    r = b.shape.form.request
    types = f"{r.a} x {r.b}" if r.a != r.b else r.a
    scale = f", {r.scale.dtype} scale per {r.scale.block}" if r.scale else ""
    return f"M {r.m}, N {r.n}, K {b.shape.form.k} ({r.k_bytes} bytes), {types}{scale}"


def _barriers(b: Tcgen05Budget) -> tuple[BarrierInit, ...]:
    counts = {
        "full": "kStages",
        "empty": "kStages",
        "a_full": "kStagesA",
        "a_empty": "kStagesA",
        "b_full": "kStagesB",
        "b_empty": "kStagesB",
        "acc_full": "kAccBuffers",
        "acc_empty": "kAccBuffers * kAccumulators",
        "tile_full": "kTileSlots",
        "tile_empty": "kTileSlots",
    }
    return tuple(
        BarrierInit(x.name, counts[x.name], str(x.arrivals), x.arriver) for x in b.barriers
    )


_NOTES = {
    "full": "the stage holds its K tile",
    "empty": "the MMAs have read the stage",
    "a_full": "the stage holds its K tile of A",
    "a_empty": "the MMAs have read A",
    "b_full": "the stage holds its K tile of B and scales",
    "b_empty": "the MMAs are done with the stage",
    "acc_full": "the accumulators hold a tile",
    "acc_empty": "the epilogue has read the accumulator",
    "tile_full": "the slot holds an answer",
    "tile_empty": "all roles have read it; used in CTA 0",
}


def _storage(b: Tcgen05Budget) -> tuple[Field, ...]:
    split = isinstance(b.spec.schedule, Tcgen05WsSplit)
    a, other = ("kStagesA", "kStagesB") if split else ("kStages", "kStages")
    rows = [
        Field("uint8_t", "a", (a, "kBytesA"), "ring of A"),
        Field("uint8_t", "b", (other, "kBytesB"), "ring of B"),
        Field("uint8_t", "d", ("kStoreBuffers", "kStoreBytes"), "staged for TMA"),
    ]
    if b.shape.words:
        sfa_note = "scales of A, in the ring of B" if split else "scales of A"
        rows += [
            Field("uint8_t", "sfa", (other, "kBytesSfa"), sfa_note),
            Field("uint8_t", "sfb", (other, "kBytesSfb"), "scales of B"),
        ]
    if schedule_of(b.spec).scheduler == "clc":
        rows.append(Field("uint4", "tiles", ("kTileSlots",), "answers of cluster launch control"))
    rows += [Field("uint64_t", x.name, (x.count,), _NOTES[x.name]) for x in _barriers(b)]
    rows.append(Field("uint32_t", "tmem", (), "first column of tensor memory"))
    return tuple(rows)


def _problem_fields(b: Tcgen05Budget) -> tuple[ProblemField, ...]:
    pointer = f"{b.shape.store.storage}*"

    def count(name: str, value: str, note: str) -> ProblemField:
        return ProblemField("int", name, "i4", f"static_cast<int>({value})", note)

    unit = "cluster tiles" if b.shape.ctas > 1 else "tiles"
    tiles_m, tiles_n = "grid.tiles_m", "grid.tiles_n"
    if schedule_of(b.spec).scheduler == "clc":
        m, n = b.shape.cluster_tile
        tiles_m, tiles_n = f"tiles(m, {m})", f"tiles(n, {n})"
    rows = [
        ProblemField(pointer, "d", "u8", f"static_cast<{pointer}>(d)", "D, row-major"),
        ProblemField("int64_t", "ldd", "i8", "ldd", "elements from one row of D to the next"),
        count("m", "m", "rows of D"),
        count("n", "n", "columns of D"),
        count("k_tiles", "tiles(k, kTileK)", "K in tiles of kTileK, rounded up"),
        count("tiles_m", tiles_m, f"M in {unit}, rounded up"),
        count("tiles_n", tiles_n, f"N in {unit}, rounded up"),
        ProblemField("int", "tma_store", "i4", "tma_store", "rows of D start and end on 16 bytes"),
    ]
    if b.spec.gemm.global_scale:
        rows.append(ProblemField("float", "alpha", "f4", "alpha", "factor of D"))
    return tuple(rows)
