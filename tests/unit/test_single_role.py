"""mma_sync, wgmma_single and slabs: rules, budgets against hand sums, plans, pictures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kgen import explain
from kgen.budget import budget
from kgen.errors import BudgetError, KgenError, SpecError
from kgen.plan import KernelPlan, lower
from kgen.plan.hopper import MmaSyncPlan, WgmmaSinglePlan, WgmmaWsPlan
from kgen.spec import LoadedSpec, parse_spec

TILES = {"mma_sync": (128, 128, 32), "wgmma_single": (128, 128, 64), "wgmma_ws": (128, 128, 64)}


def loaded(kind: str, gemm: dict[str, Any] | None = None, **schedule: Any) -> LoadedSpec:
    """A spec of one kind, f16 with f32 accumulation unless `gemm` says otherwise."""
    types = {"a": {"dtype": "f16"}, "b": {"dtype": "f16"}, "d": {"dtype": "f16"}}
    tile = dict(zip("mnk", TILES[kind], strict=True))
    spec = {
        "name": "sample",
        "target": "sm_90a",
        "gemm": {**types, "accumulator": "f32", **(gemm or {})},
        "schedule": {"kind": kind, "tile": {**tile, **schedule.pop("tile", {})}, **schedule},
    }
    return parse_spec(json.dumps(spec), "s.yaml")


def plan(kind: str, gemm: dict[str, Any] | None = None, **schedule: Any) -> KernelPlan:
    return lower(loaded(kind, gemm, **schedule))


def refused(error: type[KgenError], kind: str, gemm: Any = None, **schedule: Any) -> str:
    with pytest.raises(error) as caught:
        plan(kind, gemm, **schedule)
    return str(caught.value)


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "what"),
    [
        ({"tile": {"m": 80}}, "tile.m: 80 for 2 warps along M; must be a multiple of 32"),
        ({"tile": {"n": 40}}, "tile.n: 40 for 2 warps along N; must be a multiple of 32"),
        ({"warps": {"m": 1}, "tile": {"m": 24}}, "24 for 1 warp along M; must be a multiple of 16"),
        ({"tile": {"k": 40}}, "tile.k: 40 elements; must be a multiple of 16 (one mma.sync)"),
        ({"swizzle_bytes": 128}, "a row of tile.k has 64 bytes, not a multiple of the 128-byte"),
    ],
)
def test_mma_sync_wants_whole_instructions_for_every_warp(schedule, what):
    assert what in refused(SpecError, "mma_sync", **schedule)


def test_mma_sync_wants_k_major_operands():
    gemm = {"a": {"dtype": "f16", "major": "m"}, "b": {"dtype": "f16", "major": "n"}}
    text = refused(SpecError, "mma_sync", gemm)
    assert "gemm.a.major: m; mma_sync loads fragments of K-major operands only" in text
    assert "gemm.b.major: n; mma_sync loads fragments of K-major operands only" in text


@pytest.mark.parametrize(
    ("schedule", "what"),
    [
        ({"tile": {"m": 96}}, "96 rows for 1 consumer; each owns whole slabs of 64 rows"),
        ({"consumers": 3}, "128 rows for 3 consumers; each owns whole slabs of 64 rows"),
        ({"tile": {"n": 12}}, "12 columns; must be a multiple of 8 (one wgmma) up to 256"),
        ({"tile": {"n": 264}}, "264 columns; must be a multiple of 8 (one wgmma) up to 256"),
    ],
)
def test_wgmma_single_wants_whole_wgmmas(schedule, what):
    assert what in refused(SpecError, "wgmma_single", **schedule)


def test_an_n_major_b_wants_whole_rows_of_the_swizzle():
    gemm = {"b": {"dtype": "f16", "major": "n"}}
    text = refused(SpecError, "wgmma_single", gemm, tile={"n": 72})
    assert "72 columns; must be a multiple of 64 (one 128-byte row of an N-major B)" in text


def test_direct_stores_take_any_width_of_a_wgmma_and_tma_stores_do_not():
    direct = {"epilogue": {"kind": "direct"}, "consumers": 2, "stages": 2}
    assert plan("wgmma_ws", tile={"n": 104}, **direct).tile == (128, 104, 64)
    text = refused(SpecError, "wgmma_ws", tile={"n": 104}, consumers=2, stages=2)
    assert "104 columns; must be a multiple of 64 (one TMA store) up to 256 (one wgmma)" in text


# --- budgets --------------------------------------------------------------------------------------


def test_the_budget_of_one_stage_and_a_ring():
    b = budget(loaded("mma_sync", stages=1))
    assert (b.threads, b.launch_cap) == (128, 255)
    assert b.smem.total == 17408  # 128 x 32 x 2 B twice, one mbarrier, padded to 1024
    assert b.role("consumer").accumulators == 128  # 64 x 64 a warp / 32 threads
    assert [(x.name, x.count, x.arrivals, x.tx_bytes) for x in b.barriers] == [
        ("full", 1, 1, 16384)
    ]
    b = budget(loaded("wgmma_single", stages=3, consumers=2))
    assert b.threads == 256
    assert b.smem.total == 3 * 32768 + 1024
    assert b.role("consumer").accumulators == 64
    assert [(x.operand, x.inner, x.outer, x.count) for x in b.boxes] == [
        ("a", 64, 64, 2),
        ("b", 64, 128, 1),
    ]


@pytest.mark.parametrize(("kind", "most"), [("mma_sync", 14), ("wgmma_single", 7)])
def test_stages_auto_is_the_deepest_ring_that_fits(kind, most):
    b = budget(loaded(kind))
    assert b.spec.schedule.stages == most
    assert most * b.stage_bytes <= b.arch.smem_per_cta < (most + 1) * b.stage_bytes


def test_a_direct_epilogue_takes_no_shared_memory_and_no_barriers():
    b = budget(loaded("wgmma_ws", stages=4, consumers=1, epilogue={"kind": "direct"}))
    assert [item.name for item in b.smem.items] == ["A ring", "B ring", "mbarriers", "padding"]
    assert [x.name for x in b.barriers] == ["full", "empty"]
    assert [x.operand for x in b.boxes] == ["a", "b"]
    assert b.role("consumer").accumulators == 128  # two slabs of 64 x 128


def test_too_many_stages_are_refused_with_a_tested_fix():
    text = refused(BudgetError, "wgmma_single", stages=8)
    assert "8 stages do not fit in sm_90a shared memory" in text
    assert "fix: schedule.stages: 7 " in text
    assert "over by" in text


def test_accumulators_that_do_not_fit_are_refused_with_tested_fixes():
    text = refused(BudgetError, "wgmma_single", stages=2, tile={"m": 128, "n": 256})
    assert "f32 accumulators of 1 consumer do not fit in the register file" in text
    assert "fix: gemm.accumulator: f16 " in text
    assert "fix: schedule.tile.m: 64 " in text
    text = refused(BudgetError, "mma_sync", tile={"m": 256, "n": 128}, stages=2)
    assert "f32 accumulators of 2 x 2 warps do not fit in the register file" in text
    assert "fix: schedule.warps: {m: 2, n: 4} " in text


def test_more_warps_than_a_cta_has_threads_for_are_refused():
    text = refused(BudgetError, "mma_sync", warps={"m": 8, "n": 8}, tile={"m": 128, "n": 128})
    assert "schedule.warps: 8 x 8 warps are 2048 threads; a CTA has at most 1024" in text
    text = refused(BudgetError, "mma_sync", tile={"m": 512, "n": 32}, stages=1)
    assert "the TMA box of A would be 512 elements along m; at most 256" in text


# --- plans ----------------------------------------------------------------------------------------


def test_the_instruction_of_mma_sync():
    p = plan("mma_sync", stages=1)
    assert isinstance(p, MmaSyncPlan)
    assert p.mma.instruction == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    assert p.mma.registers == (0, 1, 2, 3)
    assert (p.mma.a_operands, p.mma.b_operands) == ((4, 5, 6, 7), (8, 9))
    assert not p.has_ring
    assert not p.several_panels
    halves = plan("mma_sync", {"accumulator": "f16"}, tile={"k": 64}, swizzle_bytes=64)
    assert isinstance(halves, MmaSyncPlan)
    assert halves.mma.registers == (0, 1)
    assert halves.several_panels
    assert halves.has_ring


def test_slabs_lie_below_each_other_in_a_stage():
    p = plan("wgmma_single", stages=1)
    assert isinstance(p, WgmmaSinglePlan)
    assert [slab.acc for slab in p.consumer.slabs] == ["acc[0]", "acc[1]"]
    # 64 rows of 128 bytes are 512 units of 16 bytes; 16 elements of K are 2.
    steps = [(step.acc, step.a, step.b) for step in p.consumer.k_steps]
    assert steps[:4] == [("acc[0]", 0, 0), ("acc[1]", 512, 0), ("acc[0]", 2, 2), ("acc[1]", 514, 2)]
    assert len(steps) == 8
    assert p.constant("kConsumerM") == 128
    assert p.slab_m == 128


def test_slabs_of_an_m_major_a_are_boxes_apart():
    p = plan("wgmma_single", {"a": {"dtype": "f16", "major": "m"}}, stages=1)
    assert isinstance(p, WgmmaSinglePlan)
    steps = [(step.acc, step.a) for step in p.consumer.k_steps]
    # One box is 64 of M x 64 of K x 2 bytes = 512 units; 16 rows of K are 128.
    assert steps[:4] == [("acc[0]", 0), ("acc[1]", 512), ("acc[0]", 128), ("acc[1]", 640)]
    assert [(x.offset, x.mn_offset) for x in p.loads[:2]] == [(0, 0), (4096, 64)]


def test_a_direct_kernel_has_no_map_of_d_and_stores_pairs():
    p = plan("wgmma_ws", stages=4, consumers=1, epilogue={"kind": "direct"})
    assert isinstance(p, WgmmaWsPlan)
    assert p.map_d is None
    assert p.consumer.stores_directly
    assert not p.producer.drains_buffers
    assert [f.name for f in p.problem_fields][-1] == "pair_store"
    assert p.d_type.name == "f16"


def test_one_tile_column_is_no_raster_group():
    grouped = plan("wgmma_single", raster={"group": 2})
    plain = plan("wgmma_single", raster={"group": 1})
    assert grouped.raster_grouped
    assert not plain.raster_grouped
    assert "kRasterGroup" not in [c.name for c in plain.constants]
    assert any("along M first" in line for line in plain.structure)


# --- explain --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("mma_sync", "ldmatrix --> registers --mma.sync m16n8k16--> 64 x 64 a warp, x2 along K"),
        ("wgmma_single", "wgmma m64n128k16 x8 a warpgroup, all of them waited for"),
    ],
)
def test_the_picture_of_one_role(kind, line):
    text = explain.text(plan(kind, stages=3), "0")
    assert line in text
    assert "[ stage 0 ][ stage 1 ][ stage 2 ]" in text
    assert "+-- refills ------+ CTA barrier: every warp has read the same stage" in text
    assert max(map(len, text.split("\n"))) <= 100


def test_the_picture_of_a_direct_epilogue():
    text = explain.text(plan("wgmma_ws", stages=2, consumers=1, epilogue={"kind": "direct"}), "0")
    assert "consumer 0 --wgmma m64n128k16 x8--> registers, release: previous stage" in text
    assert "| masked stores" in text
    assert "D buffer" not in text


def test_many_loads_of_a_stage_take_registers():
    """52 boxes of 32 bytes: their coordinates stay in registers beside 128 sums. Seen to spill."""
    spec = {
        "name": "many",
        "target": "sm_90a",
        "gemm": {
            "a": {"dtype": "bf16", "major": "m"},
            "b": {"dtype": "bf16", "major": "n"},
            "d": {"dtype": "bf16"},
            "accumulator": "f32",
        },
        "schedule": {
            "kind": "wgmma_single",
            "consumers": 3,
            "tile": {"m": 768, "n": 64, "k": 48},
            "swizzle_bytes": 32,
            "stages": "auto",
        },
    }
    with pytest.raises(BudgetError, match="total             172   of 168 registers"):
        lower(parse_spec(json.dumps(spec)))
