"""Budget of the wgmma_persistent schedule: every number by hand, every limit with its fixes."""

from __future__ import annotations

import pytest
from persistent import A_M, B_N, F16, NO_PRODUCER, WHOLE, cluster, findings, plan_of, refusal

from kgen.errors import BudgetError

SMEM = " bytes of shared memory"
AT_ONCE = {"deferred: true": "deferred: false"}
SMALL = {"n: 256, k": "n: 128, k"}


def role(plan, name):
    return plan.budget.role(name)


def items(plan) -> dict[str, int]:
    return {i.name: i.amount for i in plan.budget.smem.items}


def barrier(plan, name):
    return next(b for b in plan.budget.barriers if b.name == name)


# --- shared memory --------------------------------------------------------------------------------


def test_the_ledger_by_hand():
    plan = plan_of()
    assert items(plan) == {
        "A ring": 49152,  # 3 x 128 x 64 x 2
        "B ring": 98304,  # 3 x 256 x 64 x 2
        "D buffers": 65536,  # 8 warps x 4 x 16 x 64 x 2
        "share": 32,
        "mbarriers": 48,  # 3 full + 3 empty, 8 bytes each
        "padding": 944,
    }
    assert plan.budget.smem.total == plan.smem_bytes == 214016
    assert plan.budget.stage_bytes == 49152


def test_what_only_some_kernels_keep_in_shared_memory():
    assert "refill" not in items(plan_of())
    alone = {**NO_PRODUCER, **SMALL}
    assert items(plan_of(alone))["refill"] == 32
    whole = {"scheduler: wrap": "scheduler: round_robin"}
    assert "share" not in items(plan_of(whole))
    assert plan_of(whole).smem_bytes == 214016  # the padding takes it


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        # 227 KiB less 64 KiB of D buffers: 166912 bytes, and 49152 or 32768 or 24576 a stage
        ({}, 3),
        (SMALL, 5),
        ({"k: 64": "k: 32"}, 6),
        # 227 KiB less 16 KiB of D buffers: 216064
        ({"store_buffers: 4": "store_buffers: 1"}, 4),
        ({"pdl: false": "pdl: false\n  smem_limit: 150KiB"}, 1),  # 88064 less barriers
    ],
)
def test_auto_takes_the_most_stages_that_fit(changes, stages):
    changes = {"stages: 3": "stages: auto", **changes}
    assert plan_of(changes).budget.spec.schedule.stages == stages
    changes["stages: 3"] = f"stages: {stages + 1}"
    assert f"schedule.stages: {stages + 1} stages do not fit" in refusal(changes, BudgetError)


def test_auto_never_goes_below_what_a_late_release_needs():
    tight = {
        "stages: 3": "stages: auto",
        "release: same": "release: previous",
        "pdl: false": "pdl: false\n  smem_limit: 150KiB",
    }
    assert "schedule.stages: 2 stages do not fit" in refusal(
        tight | {"stages: 3": "stages: 2"}, BudgetError
    )
    assert "2 stages do not fit" in refusal(tight, BudgetError)


# --- barriers and boxes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "n", "peers"), [(1, 1, 1), (2, 1, 2), (1, 2, 2), (2, 2, 3), (4, 1, 4), (1, 4, 4)]
)
def test_a_stage_is_free_when_the_readers_of_all_that_share_it_have_left(m, n, peers):
    """m - 1 other CTAs hold the same B, n - 1 the same A; each has two consumers."""
    plan = plan_of(cluster(m, n))
    full, empty = barrier(plan, "full"), barrier(plan, "empty")
    assert (full.count, full.arrivals, full.tx_bytes) == (3, 1, 49152)
    assert (empty.count, empty.arrivals, empty.tx_bytes) == (3, 2 * peers, 0)
    assert ("of the cluster" in full.arriver) == (peers > 1)
    assert (f"of {peers} CTAs" in empty.arriver) == (peers > 1)


@pytest.mark.parametrize(("consumers", "tile"), [(1, 64), (3, 192), (4, 256)])
def test_every_consumer_arrives_once(consumers, tile):
    changes = {
        "consumers: 2": f"consumers: {consumers}",
        "m: 128": f"m: {tile}",
        **SMALL,
        **AT_ONCE,
    }
    changes["stages: 3"] = "stages: 2"
    assert barrier(plan_of(changes), "empty").arrivals == 2 * consumers


@pytest.mark.parametrize(
    ("m", "n", "a", "b"),
    [
        (1, 1, (64, 128, 1), (64, 256, 1)),
        (2, 1, (64, 128, 1), (64, 128, 1)),
        (1, 2, (64, 64, 1), (64, 256, 1)),
        (2, 2, (64, 64, 1), (64, 128, 1)),
        (4, 1, (64, 128, 1), (64, 64, 1)),
    ],
)
def test_a_cta_loads_its_part_of_what_the_cluster_shares(m, n, a, b):
    budget = plan_of(cluster(m, n)).budget
    boxes = {x.operand: (x.inner, x.outer, x.count) for x in budget.boxes}
    assert boxes == {"a": a, "b": b, "d": (64, 16, 32)}
    # What all CTAs of a row or column load together is one stage.
    assert budget.box("a").bytes * budget.box("a").count * n == 128 * 64 * 2
    assert budget.box("b").bytes * budget.box("b").count * m == 256 * 64 * 2


def test_operands_that_are_not_k_major_are_cut_into_swizzle_rows():
    budget = plan_of({**A_M, **B_N, **cluster(2, 1)}).budget
    boxes = {x.operand: (x.inner_axis, x.inner, x.outer, x.count) for x in budget.boxes}
    assert boxes == {"a": ("m", 64, 64, 2), "b": ("n", 64, 64, 2), "d": ("n", 64, 16, 32)}


@pytest.mark.parametrize(
    ("rows", "box", "count"), [(256, 256, 1), (320, 160, 2), (640, 160, 4), (704, 176, 4)]
)
def test_more_rows_than_a_box_has_are_loaded_in_equal_boxes(rows, box, count):
    """704 rows in three boxes would leave a row of each without its 8-row pattern."""
    tall = {
        **F16,
        **cluster(1, 1),
        "m: 128": f"m: {rows}",
        "n: 256, k": "n: 64, k",
        "consumers: 2": "consumers: 1",
        "stages: 3": "stages: 2",
    }
    found = plan_of(tall).budget.box("a")
    assert (found.outer, found.count) == (box, count)


# --- registers ------------------------------------------------------------------------------------


def test_the_register_split_by_hand():
    """384 threads are launched with 168 each: 3 x 168 = 504 = 40 + 2 x 232."""
    plan = plan_of()
    assert (plan.budget.launch_cap, plan.budget.register_pool) == (168, 504)
    assert (plan.producer_registers, plan.consumer_registers) == (40, 232)
    consumer, producer = role(plan, "consumer"), role(plan, "producer")
    assert (consumer.accumulators, consumer.waiting, consumer.register_cap) == (128, 64, 232)
    assert (producer.warps, producer.first_warp, producer.register_cap) == (4, 8, 40)


@pytest.mark.parametrize(
    ("changes", "threads", "launch", "split"),
    [
        # one consumer warpgroup: 65536 / 256 threads, at most 255; 255 x 2 = 510 = 40 + 470
        ({"consumers: 2": "consumers: 1", "m: 128": "m: 64"}, 256, 255, (40, 240)),
        # three: 65536 / 512 = 128; 4 x 128 = 512 = 40 + 3 x 152 + 16 left
        (
            {"consumers: 2": "consumers: 3", "m: 128": "m: 192", **SMALL, "stages: 3": "stages: 2"},
            512,
            128,
            (40, 152),
        ),
        ({**AT_ONCE, "producer: warpgroup": "producer: warp", **SMALL}, 288, 168, None),
        ({**NO_PRODUCER, **SMALL}, 256, 255, None),
    ],
)
def test_threads_and_registers_of_other_roles(changes, threads, launch, split):
    plan = plan_of(changes)
    found = plan.producer_registers, plan.consumer_registers
    assert plan.threads == threads
    assert plan.budget.launch_cap == launch
    assert found == (split or (None, None))
    assert [r.name for r in plan.budget.roles] == (
        ["consumer"] if "producer: warpgroup" in changes and threads % 128 == 0 else
        ["consumer", "producer"]
    )  # fmt: skip


def test_accumulators_of_all_slabs_and_of_half_as_many_bits():
    assert role(plan_of(F16), "consumer").accumulators == 64
    two = {**F16, "m: 128": "m: 256", "stages: 3": "stages: 2"}
    assert role(plan_of(two), "consumer").accumulators == 128


# --- limits and their fixes -----------------------------------------------------------------------


def test_four_stages_are_over_by_30720():
    text = refusal({"stages: 3": "stages: 4"}, BudgetError)
    assert text.split("\n")[0] == (
        "fast.yaml:16:11: schedule.stages: 4 stages do not fit in sm_90a shared memory"
    )
    assert text.split("\n")[3:10] == [
        "    A ring       65536   4 stages x 128 x 64 x 2 B",
        "    B ring      131072   4 stages x 256 x 64 x 2 B",
        "    D buffers    65536   8 warps x 4 x 16 x 64 x 2 B",
        "    share           32   of the cluster in the K tiles",
        "    mbarriers       64   8 x 8 B",
        "    padding        928   to a multiple of 1024",
        "    total       263168   of 232448 bytes: over by 30720",
    ]
    fixes = [line.split(SMEM)[0].strip() for line in text.split("\n")[10:]]
    assert fixes == [
        "fix: schedule.stages: 3                      214016",
        "fix: schedule.epilogue.store_buffers: 1      214016",
        "fix: schedule.tile.m: 64 with consumers: 1   197632",
    ]


TRIED = {
    "schedule.stages: 3": {"stages: 4": "stages: 3"},
    "schedule.epilogue.store_buffers: 1": {"store_buffers: 4": "store_buffers: 1"},
    "schedule.tile.m: 64 with consumers: 1": {"m: 128": "m: 64", "consumers: 2": "consumers: 1"},
}


@pytest.mark.parametrize("fix", TRIED)
def test_every_fix_works(fix):
    changes = {"stages: 3": "stages: 4"}
    assert f"fix: {fix} " in refusal(changes, BudgetError)
    changes.update(TRIED[fix])
    if "stages: 4" in TRIED[fix]:
        changes = {}
    assert plan_of(changes).name == "sample"


def test_a_deferred_tile_that_does_not_fit_beside_the_accumulators():
    text = refusal({"producer: warpgroup": "producer: warp"}, BudgetError)
    assert "    waiting            64   the tile before, not yet stored" in text.split("\n")
    assert "fix: schedule.epilogue.deferred: false" in text


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ((40, 240), "setmaxnreg would wait for ever: the split asks for more than the CTA"),
        ((44, 228), "44; setmaxnreg takes multiples of 8 from 24 to 248"),
        ((240, 232), "240 for the producer and 232 for a consumer: setmaxnreg takes registers"),
    ],
)
def test_splits_that_setmaxnreg_cannot_make(split, message):
    asked = f"registers: {{producer: {split[0]}, consumer: {split[1]}}}"
    text = refusal({"producer: warpgroup": f"producer: warpgroup\n  {asked}"}, BudgetError)
    assert message in text
    assert "fix: schedule.registers: auto" in text


def test_too_many_threads():
    text = refusal({**F16, "m: 128": "m: 512", "consumers: 2": "consumers: 8"}, BudgetError)
    assert (
        "fast.yaml:14:14: schedule.consumers: 8 consumer warpgroups and the producer are 1152 "
        "threads; a CTA has at most 1024"
    ) in findings(text)


def test_more_shared_memory_than_the_hardware_has():
    text = refusal({"pdl: false": "pdl: false\n  smem_limit: 300KiB"}, BudgetError)
    assert findings(text) == [
        "fast.yaml:21:15: schedule.smem_limit: 307200 bytes; sm_90a gives a CTA at most 232448 "
        "(227KiB)"
    ]
    assert "fix: no schedule.smem_limit" in text


@pytest.mark.parametrize("shape", [cluster(1, 1), cluster(2, 1), cluster(1, 2)])
@pytest.mark.parametrize("scheduler", [{}, WHOLE])
def test_a_thread_that_loads_and_frees_at_once_needs_more(shape, scheduler):
    """192 x 256 by three consumers: 168 registers, of which 128 hold sums. Seen to spill."""
    changes = {**NO_PRODUCER, "m: 128": "m: 192", "consumers: 2": "consumers: 3"} | shape
    changes |= {"stages: 3": "stages: 2", "store_buffers: 4": "store_buffers: 1"} | scheduler
    text = refusal(changes, BudgetError)
    assert "    other              42   addresses, loop state, epilogue (as ptxas reports)" in text
    assert "    total             170   of 168 registers per thread: over by 2" in text
    fixed = changes | {"release: same": "release: previous"}
    assert role(plan_of(fixed), "consumer").registers == 164
    assert "fix: schedule.release: previous " in text


def test_a_thread_that_loads_and_leaves_many_sums_needs_more():
    """192 sums a thread, of 255 registers; seen to spill. Whole tiles and 128 sums are not."""
    alone = {**NO_PRODUCER, **cluster(1, 1), "release: same": "release: previous"}
    alone |= {"consumers: 2": "consumers: 1", "store_buffers: 4": "store_buffers: 1"}
    wide = alone | {"m: 128, n: 256": "m: 192, n: 128"}
    text = refusal(wide, BudgetError)
    assert "    other              64   addresses, loop state, epilogue (as ptxas reports)" in text
    assert role(plan_of(wide | WHOLE), "consumer").overhead == 36
    assert role(plan_of(alone | {"m: 128, n: 256": "m: 128, n: 128"}), "consumer").overhead == 36


def test_a_producer_of_cut_tiles_has_no_24_registers():
    split = {
        "producer: warpgroup": "producer: warpgroup\n  registers: {producer: 24, consumer: 240}"
    }
    assert "24; a producer of cut tiles needs about 38" in refusal(split, BudgetError)
    assert plan_of(split | WHOLE).producer_registers == 24
