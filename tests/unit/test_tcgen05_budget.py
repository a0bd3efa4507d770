"""Budgets of the tcgen05 schedules against hand sums, published rings and real reports.

Source of the published rings: the ThunderKittens account of Vera Rubin (KiB per stage).
"""

from __future__ import annotations

import itertools

import pytest
from blackwell import variant, variant_text

from kgen.budget import budget
from kgen.budget.tcgen05 import Tcgen05Budget
from kgen.errors import BudgetError, SpecError
from kgen.explain.tcgen05 import published
from kgen.plan import lower
from kgen.render import render
from kgen.run.grid import grid_of
from kgen.spec import parse_spec


def budget_of(name: str, **changes) -> Tcgen05Budget:
    found = budget(variant(name, **changes))
    assert isinstance(found, Tcgen05Budget)
    return found


def refusal(name: str, error: type[Exception], **changes) -> str:
    with pytest.raises(error) as caught:
        budget(variant(name, **changes))
    return str(caught.value)


def items(b: Tcgen05Budget) -> dict[str, int]:
    return {item.name: item.amount for item in b.smem.items}


# --- shared memory --------------------------------------------------------------------------------


def test_the_blackwell_baseline_by_hand():
    """4 x (128 x 64 x 2 + 256 x 64 x 2) + 2 x 16384 + (4 + 4 + 2 + 2) x 8 + 4 = 229476."""
    b = budget_of("bf16")
    assert items(b) == {
        "A ring": 65536,
        "B ring": 131072,
        "D buffers": 32768,
        "mbarriers": 96,
        "TMEM address": 4,
        "padding": 924,
    }
    assert (b.smem.total, b.smem.limit, b.oversized) == (230400, 232448, False)


@pytest.mark.parametrize(
    ("name", "kib", "stages", "published_kib"),
    [
        ("rubin_nvfp4", 56, (3, 4, 5), (202, 258, 314)),
        ("rubin_fp8_five_reads", 48, (4, 5, 6), (209, 257, 305)),
    ],
)
def test_the_published_ring_slopes(name, kib, stages, published_kib):
    """Exact per stage; what is left over is staging and barriers, of unpublished split."""
    totals = [budget_of(name, stages=n) for n in stages]
    assert {b.stage_bytes for b in totals} == {kib * 1024}
    rings = [sum(v for k, v in items(b).items() if k.endswith(("ring", "scales"))) for b in totals]
    assert [b - a for a, b in itertools.pairwise(rings)] == [kib * 1024] * 2
    assert [b - a for a, b in itertools.pairwise(published_kib)] == [kib] * 2
    for b, theirs in zip(totals, published_kib, strict=True):
        text = "\n".join(published(b))
        assert f"{b.smem.total} bytes here" in text and f"{theirs} KiB there" in text


def test_nvfp4_2x1_takes_five_stages_and_all_columns():
    b = budget_of("rubin_nvfp4")
    assert b.spec.schedule.stages == 5
    assert b.smem.total == 320512  # 5 x 57344 + 32768 + 13 x 8 + 4, padded to 1024
    assert (b.tmem.used, b.tmem.allocated, b.tmem.exclusive) == (576, 576, True)
    assert (
        refusal("rubin_nvfp4", BudgetError, stages=6)
        .split("\n")[0]
        .endswith("schedule.stages: 6 stages do not fit in sm_107a shared memory, oversized")
    )


@pytest.mark.parametrize(("buffers", "stages"), [(1, 9), (2, 8)])
def test_the_deepest_ring_depends_on_the_staging(buffers, stages):
    """NVIDIA/cudnn-frontend#696: 335872 bytes asked where 334848 exist, for lack of padding.

    9 x 34304 + 16384 and 8 x 34304 + 32768, barriers and padding on top.
    """
    changes = {
        "tile": {"m": 256, "n": 256, "k": 128},
        "collector": "none",
        "epilogue": {"store_buffers": buffers},
    }
    b = budget_of("rubin_mxfp8", **changes)
    assert b.spec.schedule.stages == stages
    assert b.smem.total <= b.smem.limit == 334848
    text = refusal("rubin_mxfp8", BudgetError, **changes, stages=stages + 1)
    assert f"{stages + 1} stages do not fit in sm_107a shared memory, oversized" in text
    for row in ("A ring", "B ring", "D buffers", "A scales", "B scales", "mbarriers", "padding"):
        assert f"\n    {row} " in text
    assert f"fix: schedule.stages: {stages} " in text


def test_oversized_memory_is_used_only_where_needed_or_asked():
    plain = budget_of("rubin_nvfp4", stages=3)
    assert (plain.smem.total, plain.oversized) == (205824, False)
    assert budget_of("rubin_nvfp4", stages=3, smem={"oversized": True}).oversized
    assert budget_of("rubin_nvfp4_not_oversized").smem.limit == 232448
    for name in ("bf16", "mxfp8_pair"):
        assert "no oversized shared memory; sm_107a has" in refusal(
            name, SpecError, smem={"oversized": True}
        )


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        (328, "328 has no unit: 328B is 0.320312 KiB, 328KiB is 335872 bytes; write one of them"),
        (335872, "335872 has no unit: 335872B is 328 KiB, 335872KiB is 343932928 bytes"),
        ("328KiB", "335872 bytes; sm_107a gives a CTA at most 334848 (327KiB)"),
    ],
)
def test_units_of_the_shared_memory_limit(limit, what):
    """KiB tables against data sheets in bytes: an ambiguous number is refused."""
    assert what in refusal("rubin_nvfp4", (SpecError, BudgetError), smem={"limit": limit})  # type: ignore[arg-type]
    assert budget_of("rubin_nvfp4", smem={"limit": "327KiB"}).smem.limit == 334848


@pytest.mark.parametrize("name", ["rubin_fp8_five_reads", "rubin_nvfp4"])
def test_the_k_of_an_mma_carries_its_unit(name):
    text = variant_text(name, mma_k=64)
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert (
        "write the K of one MMA in bytes, as mma.k_bytes; 64 bytes are 64 elements of 8 bits and "
        "128 of 4, 64 elements are 64 bytes of 8 bits and 32 of 4" in str(caught.value)
    )


# --- barriers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "empty"),
    [((2, 1), 1), ((4, 1), 2), ((2, 2), 2), ((4, 2), 3), ((8, 1), 4), ((2, 4), 4)],
)
def test_expected_bytes_are_those_of_the_pair_whatever_the_cluster(cluster, empty):
    """tile-ai/tilelang#2644: the byte count was multiplied by the whole cluster.

    A pair's barrier sees the bytes of its two CTAs. The empty count is that of NVIDIA's kernels,
    n + m/2 - 1.
    """
    m, n = cluster
    b = budget_of("bf16_pair", cluster={"m": m, "n": n}, stages=4)
    rows = {x.name: x for x in b.barriers}
    assert rows["full"].tx_bytes == 2 * (128 * 64 * 2 + 128 * 64 * 2)
    assert (rows["full"].arrivals, rows["empty"].arrivals) == (1, empty)
    assert rows["empty"].arrivals == n + m // 2 - 1
    assert (rows["acc_full"].arrivals, rows["acc_empty"].arrivals) == (1, 8)


def test_one_cta_groups_count_themselves():
    """cta_group 1: n + m - 1 CTAs free a stage, four epilogue warps an accumulator."""
    rows = {x.name: x for x in budget_of("tf32_cluster_2x2").barriers}
    assert (rows["empty"].arrivals, rows["acc_empty"].arrivals) == (3, 4)


def test_split_rings_count_apart():
    """A is shared along N, B along M: 2 and 2 groups of a 4 x 2 cluster."""
    rows = {x.name: x for x in budget_of("rubin_nvfp4_split_4x2").barriers}
    assert (rows["a_full"].tx_bytes, rows["b_full"].tx_bytes) == (2 * 32768, 2 * (16384 + 8192))
    assert (rows["a_empty"].arrivals, rows["b_empty"].arrivals) == (2, 2)


@pytest.mark.parametrize(
    ("name", "readers", "arriver"),
    [
        ("bf16_clc", 7, "4 epilogue + 1 producer + 1 scheduler + 1 mma"),
        ("bf16_pair_clc", 26, "16 epilogue + 4 producer + 4 scheduler + 2 mma"),
        ("rubin_nvfp4_split_clc", 30, "16 epilogue + 8 producer + 4 scheduler + 2 mma"),
    ],
)
def test_an_answer_is_free_once_every_reader_of_the_cluster_has_it(name, readers, arriver):
    """Of a pair, one MMA warp reads. Each CTA expects the 16 bytes that land in it."""
    b = budget_of(name)
    rows = {x.name: x for x in b.barriers}
    assert (rows["tile_empty"].arrivals, rows["tile_empty"].arriver) == (readers, arriver)
    assert (rows["tile_full"].arrivals, rows["tile_full"].tx_bytes) == (1, 16)
    assert rows["tile_full"].count == rows["tile_empty"].count == 2
    assert items(b)["tiles"] == 32
    static = budget_of(name, scheduler="static")
    assert not {"tile_full", "tile_empty"} & {x.name for x in static.barriers}
    assert "tiles" not in items(static) and static.threads == b.threads - 32


@pytest.mark.parametrize(("name", "size"), [("bf16_clc", 1), ("bf16_pair_clc", 4)])
def test_a_grid_of_cluster_launch_control_has_a_cluster_for_each_tile(name, size):
    """Whatever the device holds at a time. Rows of a cluster tile: two pairs of 256."""
    plan = lower(variant(name))
    rows, columns = (512, 256) if size == 4 else (128, 128)
    assert plan.resident is None and plan.cluster_tile == (rows, columns)
    grid = grid_of(plan, 3 * rows + 1, 2 * columns, 64)
    assert (grid.tiles_m, grid.tiles_n, grid.ctas) == (4, 2, 8 * size)
    assert plan.max_tiles * size <= 2**31 - 1 < (plan.max_tiles + 1) * size
    source = render(plan).source
    clusters = " * kClusterSize" if size > 1 else ""
    count = f"tiles(m, {rows}) * tiles(n, {columns})" if size > 1 else "tiles(m, kTileM)"
    assert f"const dim3 ctas(static_cast<unsigned>({count}" in source
    assert f"{clusters}));" in source and "resident" not in source


def test_a_depth_for_b_is_one_for_a_too_unless_given():
    both = budget_of("rubin_nvfp4_split_4x2", stages=4).spec.schedule
    assert (both.stages, both.a_stages) == (4, 4)  # type: ignore[union-attr]
    apart = budget_of("rubin_nvfp4_split_4x2", stages=4, a_stages=5).spec.schedule
    assert (apart.stages, apart.a_stages) == (4, 5)  # type: ignore[union-attr]


# --- tensor memory --------------------------------------------------------------------------------


def test_auto_takes_two_accumulators_where_they_fit():
    chosen = {
        name: budget_of(name).spec.schedule.tmem.buffers  # type: ignore[union-attr]
        for name in ("bf16", "mxfp8_pair", "rubin_nvfp4_not_oversized", "rubin_nvfp4")
    }
    assert chosen == {"bf16": 2, "mxfp8_pair": 1, "rubin_nvfp4_not_oversized": 2, "rubin_nvfp4": 1}
    assert budget_of("rubin_nvfp4_not_oversized").tmem.used == 560


def test_columns_that_do_not_fit_have_a_row_each_and_a_fix():
    text = " ".join(refusal("nvfp4_pair_global", BudgetError, tmem={"buffers": 2}).split())
    assert "the columns do not fit in sm_100a tensor memory" in text
    for row in ("accumulators 0 256 ", "accumulators 1 256 ", "A scales 16 ", "B scales 32 "):
        assert row in text
    assert "total 560 of 512 columns: over by 48" in text
    assert "fix: schedule.tmem.buffers: 1 " in text
    text = " ".join(refusal("rubin_nvfp4", BudgetError, tmem={"exclusive": False}).split())
    assert "total 576 of 512 columns: over by 64" in text
    assert "fix: schedule.tmem.exclusive: auto" in text


@pytest.mark.parametrize(
    ("name", "changes", "blamed", "fix"),
    [
        ("mxfp4_pair_4x1", {"tile": (512, 256, 256), "mma": (256, 256)}, "tile.m", "tile.m: 256"),
        ("mxfp4_pair_4x1", {"tile": (256, 512, 256), "mma": (256, 256)}, "tile.n", "tile.n: 256"),
        ("tf32_cluster_2x2", {"tile": (128, 128, 1024)}, "stages", "tile.k: 32"),
    ],
)
def test_what_is_blamed_is_the_field_that_is_too_large(name, changes, blamed, fix):
    changed = {"tile": dict(zip("mnk", changes["tile"], strict=True))}
    if "mma" in changes:
        m, n = changes["mma"]
        changed["mma"] = {"m": m, "n": n, "cta_group": m // 128}
    text = refusal(name, BudgetError, **changed, tmem={"buffers": 1})
    assert f": schedule.{blamed}: " in text.split("\n")[0]
    assert f"fix: schedule.{fix} " in text
    assert "collector" not in text, "none is in use"


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "what"),
    [
        ("bf16", {"kind": "wgmma_ws"}, "schedule.mma: unknown key"),
        ("bf16", {"mma": {"m": 64, "n": 256}}, "of tensor memory: 128 rows"),
        ("bf16", {"tile": {"m": 384, "n": 256, "k": 64}}, "must be mma.m, 128, or twice that"),
        ("bf16", {"tile": {"m": 128, "n": 256, "k": 48}}, "must be a multiple of 64, 128 bytes"),
        ("bf16_pair", {"cluster": {"m": 1}}, "lies along M and needs an even number"),
        ("bf16", {"cluster": {"m": 4, "n": 4}}, "16 CTAs; a portable cluster has 8"),
        ("bf16", {"collector": "b_reuse"}, "sm_100a cannot keep B in its collector"),
        ("rubin_mxfp8", {"collector": "ab_five_reads"}, "needs a tile of 2 x 2 MMAs (M x N)"),
        ("bf16", {"kind": "tcgen05_ws_split"}, "sm_100a cannot tell when A alone has been read"),
        (
            "rubin_fp8_five_reads",
            {"kind": "tcgen05_ws_split"},
            "whether A's early release waits for such deferred reads is not documented",
        ),
        ("bf16", {"tmem": {"exclusive": True}}, "sm_100a gains no column by it"),
        ("bf16_pair_mn_major", {"cluster": {"m": 4, "n": 1}}, "from K-major operands only"),
        (
            "nvfp4_one_cta",
            {"mma": {"m": 128, "n": 64}, "tile": {"m": 128, "n": 64, "k": 256}},
            "with block scales a multiple of 128, the rows of B that share a block of scales, so "
            "that no tile starts inside one; the nearest is 128",
        ),
        (
            "nvfp4_one_cta",
            {"mma": {"m": 128, "n": 200}, "tile": {"m": 128, "n": 200, "k": 256}},
            "so that no tile starts inside one; the nearest are 128 and 256",
        ),
        (
            "bf16",
            {"mma": {"m": 128, "n": 200}, "tile": {"m": 128, "n": 200, "k": 64}},
            "200 columns; must be a multiple of 16 up to 256; the nearest are 192 and 208",
        ),
        (
            "bf16",
            {"mma": {"m": 128, "n": 96}, "tile": {"m": 128, "n": 96, "k": 64}},
            "must be a multiple of 64, 128 bytes of D; the nearest are 64 and 128",
        ),
        (
            "nvfp4_one_cta",
            {"tile": {"m": 128, "n": 128, "k": 320}},
            "320 elements; must be a multiple of 256, 128 bytes of e2m1; the nearest are 256 and "
            "512",
        ),
        ("bf16", {"mma": {"m": 128, "n": 256, "k_bytes": 64}}, "f16 has no 64-byte K step"),
    ],
)
def test_what_the_rules_refuse(name, changes, what):
    assert what in refusal(name, SpecError, **changes)


def test_a_k_whose_scales_are_padded_is_refused_before_anything_is_built():
    """Zeros of a tail times what stands in the padding could be NaN."""
    text = variant_text("nvfp4_one_cta")
    shapes = '"verify": {"shapes": [[64, 64, 2688], [64, 64, 100]]}'
    with pytest.raises(SpecError) as caught:
        parse_spec(text.replace('"schedule"', f'{shapes}, "schedule"', 1))
    assert (
        "verify.shapes[1][2]: K = 100; with a scale for 16 elements a multiple of 64, so that no "
        "padding of the scales takes part; the nearest are 64 and 128" in str(caught.value)
    )


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("sm_100a", "sm_100", "the nearest is sm_100a"),
        ("sm_100a", "sm_90a", "tcgen05 runs on sm_100a, sm_103a, sm_107a"),
        ('"f32"', '"f16"', "the tcgen05 schedules accumulate in f32"),
        (
            '"a": {\n   "dtype": "bf16"',
            '"a": {\n   "dtype": "s8"',
            "s8; the tcgen05 schedules take",
        ),
        ('"d": {\n   "dtype": "bf16"', '"d": {\n   "dtype": "s32"', "s32; f32 sums are stored as"),
        (
            '"a": {\n   "dtype": "bf16"',
            '"a": {\n   "dtype": "e2m1"',
            "e2m1 takes block scales of ue8m0 per 32, ue4m3 per 16 or ue8m0 per 16",
        ),
        (
            '"accumulator"',
            '"block_scale": {"dtype": "ue8m0", "block": 32},\n "accumulator"',
            "bf16 takes no block scales",
        ),
    ],
)
def test_targets_and_types_are_refused_with_what_would_do(old, new, what):
    """flashinfer-ai/flashinfer#3398: a target without its suffix gave zeros for some M."""
    text = variant_text("bf16")
    assert text.count(old) == 1, text
    with pytest.raises(SpecError) as caught:
        parse_spec(text.replace(old, new))
    assert what in str(caught.value)


def test_a_hopper_schedule_refuses_blackwell(v6):
    for target in ("sm_100a", "sm_103a", "sm_107a"):
        with pytest.raises(SpecError, match="has no wgmma, which wgmma_ws multiplies with"):
            parse_spec(v6({"target: sm_90a": f"target: {target}"}))
    for change, what in (
        ({"a: {dtype: f16": "a: {dtype: e4m3"}, "e4m3; wgmma_ws takes f16 and bf16"),
        (
            {"accumulator: f16": "global_scale: true\n  accumulator: f16"},
            "a factor of D belongs to tcgen05",
        ),
    ):
        with pytest.raises(SpecError) as caught:
            parse_spec(v6(change))
        assert what in str(caught.value)
