"""wgmma_persistent with swapped operands: what is refused, and every number that changes places."""

from __future__ import annotations

import pytest
from persistent import A_M, AT_ONCE, B_N, F16, SWAP, cluster, findings, plan_of, refusal

from kgen import explain
from kgen.errors import BudgetError

TILE = "tile: {m: 128, n: 256, k: 64}"
F32_D = {"d: {dtype: bf16": "d: {dtype: f32", "deferred: true": "deferred: false"}
S8 = {
    "a: {dtype: bf16": "a: {dtype: s8",
    "b: {dtype: bf16": "b: {dtype: s8",
    "d: {dtype: bf16": "d: {dtype: s32",
    "accumulator: f32": "accumulator: s32",
    "deferred: true": "deferred: false",
}
TWO_SLABS = {"consumers: 2": "consumers: 1"}


def swapped(m: int, n: int, k: int = 64, **changes: dict[str, str]) -> dict[str, str]:
    """The changes to a swapped kernel of this tile, and more of them."""
    found = {**SWAP, TILE: f"tile: {{m: {m}, n: {n}, k: {k}}}"}
    for more in changes.values():
        found |= more
    return found


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            swapped(16, 96),
            "fast.yaml:10:20: schedule.tile.n: 96 columns for 2 consumers; with swap_operands each "
            "owns whole slabs of 64 columns, so tile.n must be a multiple of 128; the "
            "nearest is 128",
        ),
        (
            swapped(12, 128),
            "fast.yaml:10:13: schedule.tile.m: 12 rows; with swap_operands they must be a multiple "
            "of 8 (one wgmma) up to 256 (one wgmma); the nearest are 8 and 16",
        ),
        (
            swapped(264, 128),
            "fast.yaml:10:13: schedule.tile.m: 264 rows; with swap_operands they must be a "
            "multiple of 8 (one wgmma) up to 256 (one wgmma); the nearest is 256",
        ),
        (
            swapped(16, 128, 16),
            "fast.yaml:10:13: schedule.tile.m: 16 rows; with swap_operands they must be a multiple "
            "of 32 (A of a stage fills whole 1024 bytes) up to 256 (one wgmma); the "
            "nearest is 32",
        ),
        (
            swapped(48, 128, a=A_M),
            "fast.yaml:10:13: schedule.tile.m: 48 rows; with swap_operands they must be a multiple "
            "of 64 (one 128-byte row of an M-major A) up to 256 (one wgmma); the "
            "nearest is 64",
        ),
        (
            swapped(40, 128, 128, types=S8),
            "fast.yaml:10:13: schedule.tile.m: 40 rows; with swap_operands they must be a multiple "
            "of 16 (one wgmma of integers with more than 32 columns) up to 256 (one wgmma); "
            "the nearest are 32 and 48",
        ),
        (
            swapped(8, 128, types=F16),
            "fast.yaml:10:13: schedule.tile.m: 8 rows; with swap_operands they must be a multiple "
            "of 16 (a part of a cut tile is left four registers at a time) up to 256 (one wgmma); "
            "the nearest is 16",
        ),
        (
            swapped(16, 128, 24),
            "fast.yaml:10:28: schedule.tile.k: 24 elements; must be a multiple of 16 (one wgmma)",
        ),
        (
            swapped(8, 128, c=cluster(1, 2)),
            "fast.yaml:10:13: schedule.tile.m: 2 CTAs of the cluster share it and load 8/2 of it "
            "each; a part must be a multiple of 8",
        ),
    ],
)
def test_a_tile_that_cannot_be_swapped_is_refused_with_one_that_can(changes, line):
    assert line in findings(refusal(changes))


def test_rows_that_no_cta_shares_are_one_error():
    """A has no parts where the cluster is one CTA wide."""
    (only,) = findings(refusal(swapped(4, 128)))
    assert "4 rows; with swap_operands they must be a multiple of 8" in only


@pytest.mark.parametrize(
    "changes",
    [
        swapped(8, 128),
        swapped(24, 128),
        swapped(32, 128, 16),
        swapped(64, 128, a=A_M, b=B_N),
        swapped(24, 128, 128, types=S8),
        swapped(48, 128, 128, types=S8),
        swapped(16, 128, types=F16),
        swapped(16, 256, c=cluster(2, 2)),
    ],
)
def test_a_tile_that_can_be_swapped_is_lowered(changes):
    assert plan_of(changes).swaps


@pytest.mark.parametrize("types", [F32_D, S8])
def test_slabs_of_words_that_are_stored_transposed_take_more_registers(types):
    """Seen to spill at 128 x 256; 16-bit values, which stmatrix transposes, do not."""
    warp = {"producer: warpgroup": "producer: warp"}
    text = refusal(swapped(128, 256, a=types, b=warp), BudgetError)
    assert "    other              56   addresses, loop state, epilogue (as ptxas reports)" in text
    plan = plan_of(swapped(128, 256, b=warp) | {"deferred: true": "deferred: false"})
    assert plan.budget.role("consumer").overhead == 36


def test_too_many_stages_are_answered_with_fewer_rows_and_columns():
    text = refusal(swapped(64, 256) | {"stages: 3": "stages: 6"}, BudgetError)
    assert "schedule.stages: 6 stages do not fit" in text
    assert "fix: schedule.stages: 4 " in text
    accumulators = refusal(swapped(256, 256), BudgetError)
    assert "gemm.accumulator" in accumulators
    assert "128 x 256 / 128 threads" in accumulators


# --- budget ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "accumulators", "box", "buffers"),
    [
        (swapped(8, 128), 4, (16, 8, 32), 8 * 4 * 8 * 16 * 2),
        (swapped(24, 128), 12, (16, 24, 32), 8 * 4 * 24 * 16 * 2),
        (swapped(72, 128), 36, (16, 24, 32), 8 * 4 * 24 * 16 * 2),
        (swapped(128, 128), 64, (16, 64, 32), 8 * 4 * 64 * 16 * 2),
        (swapped(16, 128, d=F32_D), 8, (16, 16, 64), 8 * 4 * 16 * 16 * 4),
        (swapped(16, 128, s=TWO_SLABS), 16, (16, 16, 32), 4 * 4 * 16 * 16 * 2),
    ],
)
def test_sums_and_panels_by_hand(changes, accumulators, box, buffers):
    """box  columns, rows and swizzle bytes of one store of D; buffers in bytes"""
    b = plan_of(changes).budget
    assert b.role("consumer").accumulators == accumulators
    d = b.box("d")
    assert (d.inner, d.outer, d.swizzle_bytes) == box
    assert b.smem["D buffers"] == buffers
    assert d.count * d.inner * d.outer == b.spec.schedule.tile.m * b.spec.schedule.tile.n


def test_every_region_starts_on_a_whole_swizzle_pattern():
    for changes in (swapped(8, 128), swapped(32, 128, 16), swapped(24, 128, d=F32_D)):
        b = plan_of(changes).budget
        assert b.smem["A ring"] % 1024 == 0
        assert b.smem["B ring"] % 1024 == 0
        assert b.box("d").bytes % (8 * 32) == 0


# --- plan -----------------------------------------------------------------------------------------


def constants(changes) -> dict[str, int]:
    return {c.name: c.value for c in plan_of(changes).constants}


def test_the_wgmma_takes_b_first():
    plain = plan_of(swapped(16, 128)).mma
    assert plain.instruction == "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"
    assert plan_of(swapped(16, 128, b=B_N)).mma.immediates == (1, 1, 1, 0)
    assert plan_of(swapped(64, 128, a=A_M)).mma.immediates == (1, 1, 0, 1)
    mixed = swapped(16, 128, 128, types={"a: {dtype: bf16": "a: {dtype: e4m3"})
    mixed |= {"b: {dtype: bf16": "b: {dtype: e5m2"}
    assert plan_of(mixed).mma.instruction.endswith("m64n16k32.f32.e5m2.e4m3")


def test_constants_by_hand():
    found = constants(swapped(72, 256, s=TWO_SLABS | AT_ONCE, c=cluster(1, 3)))
    expected = {
        "kSlabN": 64,
        "kSlabs": 4,
        "kConsumerB": 256 * 64,
        "kAccRegisters": 36,
        "kPanelM": 24,
        "kPanelN": 16,
        "kUnit": 8,
        "kRowUnits": 2,
        "kBankRows": 4,
        "kSlabPanels": 3,
        "kPanels": 12,
        "kPanelRegisters": 6,
        "kPartRowsA": 24,
    }
    assert {name: found[name] for name in expected} == expected
    assert not {"kSlabM", "kConsumerA"} & set(found)


def test_a_word_of_d_is_a_quarter_of_a_swizzle_unit():
    found = constants(swapped(16, 128, d=F32_D))
    assert (found["kUnit"], found["kRowUnits"], found["kBankRows"]) == (4, 4, 2)


def test_only_b_is_divided_into_slabs():
    """A slab is 64 rows of 128 bytes: 512 units of 16; 16 of K are 2 units."""
    steps = plan_of(swapped(16, 128, s=TWO_SLABS)).steps
    assert [(s.slab, s.a, s.b, s.first) for s in steps] == [
        (slab, 2 * i, 512 * slab + 2 * i, i == 0) for i in range(4) for slab in range(2)
    ]


def test_the_caller_sees_no_difference():
    """Maps of A, B and D name the same extents and leading dimensions as ever."""
    plan = plan_of(swapped(16, 128))
    assert [(m.operand, m.inner, m.outer, m.ld) for m in plan.maps] == [
        ("a", "k", "m", "lda"),
        ("b", "k", "n", "ldb"),
        ("d", "n", "m", "ldd"),
    ]
    assert [m.box for m in plan.maps] == [(64, 16), (64, 128), (16, 16)]
    assert plan.problem_fields == plan_of().problem_fields


def test_what_cutting_a_tile_must_save():
    """256 KiB of B: 16 stages of 128 x 64 x 2 bytes, whatever the rows."""
    for m in (8, 64):
        resident = plan_of(swapped(m, 128)).resident
        assert resident is not None
        assert resident.least_saving == 16
        assert resident.part_bytes == m * 128 * 4


def test_explain_says_how_d_leaves():
    text = explain.text(plan_of(swapped(16, 128)), "0123456789ab")
    assert "D^T = B A^T: 64 columns of D lie along the rows of a wgmma, 16 rows of D" in text
    assert "--wgmma m64n16k16 x4--> registers" in text
    assert "stmatrix of 16 x 16 panels, transposed" in text
