"""Budgets against hand sums, and the texts of what does not fit.

Sources of the expected numbers: hand sums beside each, CUDA C++ Programming Guide for 232448 bytes,
and register caps as ptxas reports them for sm_90a.
"""

from __future__ import annotations

import re

import pytest

from kgen.arch import SM_90A, launch_register_cap
from kgen.budget import budget, violations
from kgen.budget.fit import budget_of
from kgen.budget.ledger import Item, Ledger
from kgen.errors import BudgetError
from kgen.spec import parse_spec

SMEM = " bytes of shared memory"


def items(plan) -> dict[str, int]:
    return {item.name: item.amount for item in plan.budget.smem.items}


# --- shared memory --------------------------------------------------------------------------------


def test_v6_takes_230400_bytes(plan_of):
    plan = plan_of()
    assert items(plan) == {
        "A ring": 98304,  # 3 x 256 x 64 x 2
        "B ring": 98304,  # 3 x 256 x 64 x 2
        "D buffer": 32768,  # 64 x 256 x 2
        "mbarriers": 104,  # 3 full + 3 empty + 4 ready + 3 free, 8 bytes each
        "padding": 920,
    }
    assert plan.budget.smem.total == plan.smem_bytes == 230400
    assert plan.budget.smem.limit == 232448
    assert plan.budget.stage_bytes == 65536


def test_four_stages_are_over_by_63488(refusal):
    assert refusal({"stages: 3": "stages: 4"}, BudgetError) == (
        "v6.yaml:12:11: schedule.stages: 4 stages do not fit in sm_90a shared memory\n"
        "    12 |   stages: 4\n"
        "       |           ^\n"
        "    A ring      131072   4 stages x 256 x 64 x 2 B\n"
        "    B ring      131072   4 stages x 256 x 64 x 2 B\n"
        "    D buffer     32768   64 x 256 x 2 B (epilogue tma_turns)\n"
        "    mbarriers      120   15 x 8 B\n"
        "    padding        904   to a multiple of 1024\n"
        "    total       295936   of 232448 bytes: over by 63488\n"
        f"    fix: schedule.stages: 3                      230400{SMEM}, 90 registers\n"
        f"    fix: schedule.tile.m: 128 with consumers: 2  230400{SMEM}, 90 registers\n"
        f"    fix: schedule.tile.m: 64 with consumers: 1   197632{SMEM}, 90 registers"
    )


@pytest.mark.parametrize(
    ("changes", "total"),
    [
        # 4 x (16384 + 32768) + 32768 + (4 + 4 + 2 + 1) x 8 = 229464, padded to 1024
        ({"m: 256": "m: 128", "consumers: 4": "consumers: 2", "stages: 3": "stages: 4"}, 230400),
        # 6 x (16384 + 16384) + 16384 + (6 + 6 + 2 + 1) x 8 = 213112
        (
            {
                "m: 256": "m: 128",
                "n: 256, k": "n: 128, k",
                "consumers: 4": "consumers: 2",
                "stages: 3": "stages: 6",
            },
            214016,
        ),
        # 2 x 65536 + 2 x 32768 + (2 + 2 + 4 + 2) x 8 = 196688
        ({"stages: 3": "stages: 2", "store_buffers: 1": "store_buffers: 2"}, 197632),
    ],
)
def test_other_tiles_by_hand(plan_of, changes, total):
    assert plan_of(changes).smem_bytes == total


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        ({}, 3),
        ({"m: 256": "m: 128", "consumers: 4": "consumers: 2"}, 4),
        ({"m: 256": "m: 128", "consumers: 4": "consumers: 2", "n: 256, k": "n: 128, k"}, 6),
        ({"k: 64": "k: 32"}, 6),  # 6 x 32768 + 32768 = 229376
        ({"k: 64": "k: 128", "m: 256": "m: 64", "consumers: 4": "consumers: 1"}, 2),
        ({"producer: warp": "producer: warp\n  smem_limit: 200KiB"}, 2),
    ],
)
def test_auto_takes_the_most_stages_that_fit(plan_of, refusal, changes, stages):
    plan = plan_of({"stages: 3": "stages: auto", **changes})
    assert plan.budget.spec.schedule.stages == stages
    one_more = refusal({"stages: 3": f"stages: {stages + 1}", **changes}, BudgetError)
    assert f"schedule.stages: {stages + 1} stages do not fit" in one_more.split("\n")[0]


def test_auto_that_fits_nowhere_is_refused_with_the_shallowest_ring(refusal):
    text = refusal({"stages: 3": "stages: auto", "k: 64": "k: 256"}, BudgetError)
    assert text.split("\n")[0] == (
        "v6.yaml:12:11: schedule.stages: 2 stages do not fit in sm_90a shared memory"
    )


def test_a_limit_of_the_spec_is_named(refusal):
    text = refusal({"producer: warp": "producer: warp\n  smem_limit: 200KiB"}, BudgetError)
    assert text.split("\n")[0] == (
        "v6.yaml:12:11: schedule.stages: 3 stages do not fit in schedule.smem_limit"
    )
    assert "    total       230400   of 204800 bytes: over by 25600" in text.split("\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"stages: 3": "stages: 4"},
        {"stages: 3": "stages: 40"},
        {"k: 64": "k: 128"},
        {"store_buffers: 1": "store_buffers: 4"},
        {"m: 256": "m: 512", "consumers: 4": "consumers: 8"},
        {"accumulator: f16": "accumulator: f32"},
        {"producer: warp": "producer: warpgroup\n  registers: {producer: 24, consumer: 200}"},
        {"producer: warp": "smem_limit: 64KiB\n  producer: warp"},
    ],
)
def test_every_fix_that_is_printed_fits(v6, changes):
    text = v6(changes)
    with pytest.raises(BudgetError) as caught:
        budget(parse_spec(text, "v6.yaml"))
    fixes = [fix for d in caught.value.diagnostics for fix in d.fixes]
    assert fixes
    for fix in fixes:
        change, promise = fix.split("  ", 1)
        applied = text
        if change == "no schedule.smem_limit":
            applied = "\n".join(x for x in text.split("\n") if "smem_limit" not in x)
        elif change == "schedule.registers: auto":
            applied = "\n".join(x for x in text.split("\n") if "registers:" not in x)
        else:
            for part in change.split(" with "):
                field, value = part.split(": ")
                applied = set_field(applied, field.split(".")[-1], value)
        after = budget(parse_spec(applied, "v6.yaml"))
        registers = after.role("consumer").registers
        assert promise.strip() == f"{after.smem.total}{SMEM}, {registers} registers"
        assert after.smem.total <= 232448


def set_field(text: str, field: str, value: str) -> str:
    changed, count = re.subn(rf"\b{field}: \w+", f"{field}: {value}", text, count=1)
    assert count == 1
    return changed


# --- registers and threads ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "cap"),
    [(128, 255), (256, 255), (288, 168), (384, 168), (512, 128), (544, 96), (640, 96), (1024, 64)],
)
def test_launch_caps_are_those_of_ptxas(threads, cap):
    assert launch_register_cap(SM_90A, threads) == cap


def test_f32_on_four_consumers_is_refused_with_the_arithmetic(refusal):
    assert refusal({"accumulator: f16": "accumulator: f32"}, BudgetError) == (
        "v6.yaml:7:16: gemm.accumulator: f32 accumulators of 4 consumers do not fit in the "
        "register file of sm_90a\n"
        "     7 |   accumulator: f32\n"
        "       |                ^\n"
        "    accumulators      128   64 x 256 / 128 threads\n"
        "    other              27   addresses, loop state, epilogue (as ptxas reports)\n"
        "    total             155   of 96 registers per thread: over by 59\n"
        "    all consumers: 512 threads x 128 accumulators = 65536 of 65536 registers per SM, "
        "0 left for everything else\n"
        f"    fix: gemm.accumulator: f16                   230400{SMEM}, 90 registers\n"
        f"    fix: schedule.tile.m: 128 with consumers: 2  181248{SMEM}, 155 registers\n"
        f"    fix: schedule.tile.m: 64 with consumers: 1   156672{SMEM}, 155 registers"
    )


def test_a_smaller_tile_k_is_offered_where_no_number_of_stages_fits(refusal):
    text = refusal({"k: 64": "k: 128"}, BudgetError)
    assert [line for line in text.split("\n") if "fix:" in line] == [
        f"    fix: schedule.tile.k: 64                     230400{SMEM}, 90 registers",
        f"    fix: schedule.tile.k: 32                     132096{SMEM}, 90 registers",
    ]


def test_roles_of_v6(plan_of):
    b = plan_of().budget
    consumer, producer = b.role("consumer"), b.role("producer")
    assert (consumer.warps, consumer.first_warp, consumer.accumulators) == (16, 0, 64)
    assert (consumer.registers, consumer.register_cap) == (90, 96)
    assert (producer.warps, producer.first_warp, producer.accumulators) == (1, 16, 0)
    assert (b.threads, b.launch_cap) == (544, 96)


def test_roles_of_two_f32_consumers(plan_of, f32):
    b = plan_of(f32).budget
    assert (b.role("consumer").accumulators, b.role("consumer").registers) == (128, 155)
    assert (b.threads, b.launch_cap) == (288, 168)


@pytest.mark.parametrize(
    ("consumers", "producer", "consumer"),
    [(1, 40, 240), (2, 40, 232), (3, 32, 160), (4, 32, 112)],
)
def test_auto_registers_split_the_launch_pool(plan_of, consumers, producer, consumer):
    changes = {
        "producer: warp": "producer: warpgroup",
        "m: 256": f"m: {64 * consumers}",
        "consumers: 4": f"consumers: {consumers}",
        "stages: 3": "stages: 2",
    }
    plan = plan_of(changes)
    assert (plan.producer.registers, plan.consumer.registers) == (producer, consumer)


def test_a_producer_warp_has_no_split(plan_of):
    plan = plan_of()
    assert (plan.producer.registers, plan.consumer.registers) == (None, None)


def test_a_split_beyond_the_pool_would_hang_and_is_refused(refusal):
    text = refusal(
        {"producer: warp": "producer: warpgroup\n  registers: {producer: 24, consumer: 120}"},
        BudgetError,
    )
    assert text == (
        "v6.yaml:14:14: schedule.registers: setmaxnreg would wait for ever: the split asks for "
        "more than the CTA was launched with\n"
        "    14 |   registers: {producer: 24, consumer: 120}\n"
        "       |              ^\n"
        "    asked    504   24 + 4 consumers x 120\n"
        "    pool     480   5 warpgroups x 96 at launch\n"
        f"    fix: schedule.registers: auto                230400{SMEM}, 90 registers\n"
        f"    fix: schedule.tile.m: 192 with consumers: 3  205824{SMEM}, 90 registers\n"
        f"    fix: schedule.tile.m: 128 with consumers: 2  181248{SMEM}, 90 registers"
    )


@pytest.mark.parametrize("value", [25, 41, 108])
def test_a_split_that_setmaxnreg_cannot_encode_is_refused(refusal, value):
    split = f"registers: {{producer: 24, consumer: {value}}}"
    text = refusal({"producer: warp": f"producer: warpgroup\n  {split}"}, BudgetError)
    assert (
        f"v6.yaml:14:39: schedule.registers.consumer: {value}; "
        "setmaxnreg takes multiples of 8 from 24 to 248"
    ) in text.split("\n")


def test_more_threads_than_a_cta_has_are_refused(refusal):
    text = refusal({"m: 256": "m: 512", "consumers: 4": "consumers: 8"}, BudgetError)
    assert [line for line in text.split("\n") if line.startswith("v6.yaml")] == [
        "v6.yaml:7:16: gemm.accumulator: f16 accumulators of 8 consumers do not fit in the "
        "register file of sm_90a",
        "v6.yaml:11:14: schedule.consumers: 8 consumer warpgroups and the producer are 1056 "
        "threads; a CTA has at most 1024",
        "v6.yaml:12:11: schedule.stages: 3 stages do not fit in sm_90a shared memory",
    ]


# --- barriers and boxes ---------------------------------------------------------------------------


def test_barriers_of_v6(plan_of):
    rows = [(b.name, b.count, b.arrivals, b.tx_bytes) for b in plan_of().budget.barriers]
    assert rows == [
        ("full", 3, 1, 65536),
        ("empty", 3, 4, 0),
        ("d_ready", 4, 128, 0),
        ("d_free", 3, 1, 0),
    ]


@pytest.mark.parametrize(("buffers", "free"), [(1, 3), (2, 2), (3, 1), (4, 0)])
def test_a_consumer_with_a_buffer_of_its_own_waits_for_none(plan_of, buffers, free):
    changes = {"stages: 3": "stages: 1", "release: previous": "release: same"}
    plan = plan_of({**changes, "store_buffers: 1": f"store_buffers: {buffers}"})
    counts = {b.name: b.count for b in plan.budget.barriers}
    assert counts.get("d_free", 0) == free
    assert plan.producer.frees_buffers == plan.consumer.takes_turns == (free > 0)


def boxes(plan) -> list[tuple[object, ...]]:
    return [
        (b.operand, b.inner_axis, b.inner, b.outer_axis, b.outer, b.swizzle_bytes, b.bytes, b.count)
        for b in plan.budget.boxes
    ]


def test_a_box_of_256_rows_is_legal(plan_of):
    assert boxes(plan_of()) == [
        ("a", "k", 64, "m", 64, 128, 8192, 4),
        ("b", "k", 64, "n", 256, 128, 32768, 1),
        ("d", "n", 64, "m", 64, 128, 8192, 16),
    ]


def test_a_row_wider_than_the_swizzle_is_split_into_boxes(plan_of):
    plan = plan_of({"producer: warp": "producer: warp\n  swizzle_bytes: 64"})
    assert boxes(plan) == [
        ("a", "k", 32, "m", 64, 64, 4096, 8),
        ("b", "k", 32, "n", 256, 64, 16384, 2),
        ("d", "n", 64, "m", 64, 128, 8192, 16),
    ]


def test_n_512_is_refused_before_any_box(refusal):
    assert refusal({"n: 256, k": "n: 512, k"}).split("\n")[0] == (
        "v6.yaml:10:21: schedule.tile.n: 512 columns; must be a multiple of 64 (one TMA store) "
        "up to 256 (one wgmma)"
    )


def test_a_box_beyond_256_elements_is_refused(v6):
    changes = {
        "a: {dtype: f16, major: k}": "a: {dtype: f16, major: m}",
        "k: 64": "k: 512",
        "m: 256": "m: 64",
        "n: 256, k": "n: 64, k",
        "consumers: 4": "consumers: 1",
        "stages: 3": "stages: 2",
    }
    found = violations(budget_of(parse_spec(v6(changes), "v6.yaml").spec))
    assert [(v.path, v.what) for v in found if "box" in v.what] == [
        (
            ("schedule", "tile", "k"),
            "the TMA box of A would be 512 elements along k; at most 256",
        )
    ]


@pytest.mark.parametrize(("k", "swizzle"), [(16, 32), (32, 64), (48, 32), (64, 128), (96, 64)])
def test_the_swizzle_is_the_widest_that_divides_a_row(plan_of, k, swizzle):
    assert plan_of({"k: 64": f"k: {k}", "stages: 3": "stages: 2"}).budget.swizzle_bytes == swizzle


def test_bytes_per_flop_of_v6(plan_of):
    # (256 + 256) x 2 bytes per k, 2 x 256 x 256 flop per k
    assert plan_of().budget.operand_bytes_per_flop == 0.0078125


# --- ledger ---------------------------------------------------------------------------------------


def test_a_ledger_prints_aligned_rows_and_one_sentence():
    ledger = Ledger(
        "t", "bytes", (Item("A", 1000, "10 x 100"), Item("longer", 24, "")), 1023, "limit"
    )
    assert (ledger.total, ledger.over, ledger["longer"]) == (1024, 1, 24)
    assert ledger.rows() == (
        "A          1000   10 x 100",
        "longer       24",
        "total      1024   of 1023 bytes: over by 1",
    )
    assert ledger.sentence() == "A 1000 + longer 24 = 1024 of 1023 bytes"


def test_a_producer_cannot_keep_more_registers_than_a_consumer(refusal):
    text = refusal(
        {"producer: warp": "producer: warpgroup\n  registers: {producer: 112, consumer: 96}"},
        BudgetError,
    )
    assert "v6.yaml:14:25: schedule.registers.producer: 112 for the producer and 96" in text
    assert "(ptxas C7406)" in text


def test_one_wgmma_must_fit_the_launch_allocation_whatever_setmaxnreg_adds(refusal):
    """ptxas: C7602, 154 registers for m64n256 with f32, 128 at launch of 512 threads."""
    text = refusal(
        {
            "accumulator: f16": "accumulator: f32",
            "m: 256": "m: 192",
            "consumers: 4": "consumers: 3",
            "producer: warp": "producer: warpgroup",
            "stages: 3": "stages: 2",
        },
        BudgetError,
    )
    assert "total             155   of 128 registers per thread: over by 27" in text


ONE_STAGE = {
    "stages: 3": "stages: 1",
    "release: previous": "release: same",
    "n: 256, k": "n: 64, k",
    "k: 64": "k: 128",
}


def test_one_stage_keeps_the_addresses_of_its_loads_in_registers(plan_of, refusal):
    narrow = {**ONE_STAGE, "producer: warp": "producer: warp\n  swizzle_bytes: 32"}
    producer = plan_of(narrow).budget.role("producer")
    assert producer.registers == 24 + 4 * 8 + 8  # loads of A and B
    split = "producer: warpgroup\n  registers: {producer: 40, consumer: 104}\n  swizzle_bytes: 32"
    text = refusal({**ONE_STAGE, "producer: warp": split}, BudgetError)
    assert "the producer needs about 64 registers and has 40" in text
    assert "coordinates of 40 loads per stage" in text


def test_a_producer_of_many_loads_gets_more_registers(plan_of):
    """50 loads a stage with 40 registers spilled, with 48 they did not."""
    many = {
        "a: {dtype: f16, major: k": "a: {dtype: f16, major: m",
        "m: 256": "m: 768",
        "n: 256, k: 64": "n: 64, k: 32",
        "consumers: 4": "consumers: 3",
        "producer: warp": "producer: warpgroup\n  swizzle_bytes: 32",
        "stages: 3": "stages: 2",
    }
    plan = plan_of(many)
    assert plan.budget.role("producer").registers == 24 + (48 + 2) // 2
    assert plan.budget.role("producer").register_cap == 56


def test_one_stage_takes_few_wgmmas(plan_of, refusal):
    """ptxas keeps their descriptors in registers: 12 of them were seen to need 64 more."""
    assert plan_of(ONE_STAGE).budget.role("consumer").overhead == 26  # 8 K steps
    text = refusal({**ONE_STAGE, "k: 64": "k: 256"}, BudgetError)
    assert "one stage with 16 wgmmas of a consumer (1 x 64 rows, 16 K steps)" in text
    assert "fix: schedule.tile.k: 128" in text
    two = {**ONE_STAGE, "m: 256": "m: 512", "k: 64": "k: 80"}
    assert "one stage with 10 wgmmas of a consumer (2 x 64 rows, 5 K steps)" in refusal(
        two, BudgetError
    )
