"""Rules of the wgmma_persistent schedule: every refusal, its place and its text."""

from __future__ import annotations

import pytest
from persistent import A_M, B_N, F16, cluster, findings, plan_of, refusal

NOT_DEFERRED = {"deferred: true": "deferred: false"}
WITHOUT_DEFERRED = {old: new for old, new in F16.items() if old not in NOT_DEFERRED}


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            {"a: {dtype: bf16": "a: {dtype: f16"},
            [
                "fast.yaml:5:14: gemm.b.dtype: A is f16, B is bf16: wgmma takes equal types, "
                "or e4m3 with e5m2"
            ],
        ),
        (
            {"accumulator: f32": "accumulator: f16", **NOT_DEFERRED},
            [
                "fast.yaml:6:14: gemm.d.dtype: an f16 accumulator is stored as it is, so D must be "
                "f16",
                "fast.yaml:7:16: gemm.accumulator: f16 accumulation is for f16 operands only, "
                "not bf16",
            ],
        ),
        (
            {"m: 128": "m: 96"},
            [
                "fast.yaml:10:13: schedule.tile.m: 96 rows for 2 consumers; each owns whole slabs "
                "of 64 rows, so tile.m must be a multiple of 128"
            ],
        ),
        (
            {"n: 256, k": "n: 96, k"},
            [
                "fast.yaml:10:21: schedule.tile.n: 96 columns; must be a multiple of 64 "
                "(one TMA store) up to 256 (one wgmma)"
            ],
        ),
        (
            {"k: 64": "k: 24"},
            ["fast.yaml:10:29: schedule.tile.k: 24 elements; must be a multiple of 16 (one wgmma)"],
        ),
        (
            {"swizzle_bytes: auto": "swizzle_bytes: 128", "k: 64": "k: 48"},
            [
                "fast.yaml:18:18: schedule.swizzle_bytes: a row of tile.k has 96 bytes, not a "
                "multiple of the 128-byte swizzle"
            ],
        ),
        (
            cluster(4, 4),
            [
                "fast.yaml:11:12: schedule.cluster: 4 x 4: 7 CTAs load into one ring, and each of "
                "the 4 warps of a consumer can free stages of one"
            ],
        ),
        (
            cluster(3, 1),
            [
                "fast.yaml:10:21: schedule.tile.n: 3 CTAs of the cluster share it and load 256/3 "
                "of it each; a part must be a multiple of 8"
            ],
        ),
        (
            {**A_M, **cluster(1, 4)},
            [
                "fast.yaml:10:13: schedule.tile.m: 4 CTAs of the cluster share it and load 128/4 "
                "of it each; a part must be a multiple of 64"
            ],
        ),
        (
            {**B_N, **cluster(4, 1), "n: 256, k": "n: 128, k"},
            [
                "fast.yaml:10:21: schedule.tile.n: 4 CTAs of the cluster share it and load 128/4 "
                "of it each; a part must be a multiple of 64"
            ],
        ),
        (
            {"stages: 3": "stages: 1", "release: same": "release: previous"},
            [
                "fast.yaml:16:11: schedule.stages: one stage deadlocks with release: previous, "
                "which frees a stage one K tile late; use release: same or 2 stages"
            ],
        ),
        (
            {
                "producer: warpgroup": "producer: warp\n  registers: {producer: 40, consumer: 200}",
                **NOT_DEFERRED,
            },
            [
                "fast.yaml:16:14: schedule.registers: setmaxnreg acts on whole warpgroups; needs "
                "producer: warpgroup"
            ],
        ),
        (
            WITHOUT_DEFERRED,
            [
                "fast.yaml:21:62: schedule.epilogue.deferred: f16 accumulators are stored as they "
                "are, so nothing can be rounded and set aside"
            ],
        ),
        (
            {"producer: warpgroup": "producer: none"},
            [
                "fast.yaml:21:62: schedule.epilogue.deferred: a tile that waits in registers needs "
                "those that a producer warpgroup gives up"
            ],
        ),
        (
            {"m: 128": "m: 192", "n: 256": "n: 64", "consumers: 2": "consumers: 1"},
            [
                "fast.yaml:21:62: schedule.epilogue.deferred: 3 slabs of a consumer wait in "
                "registers; more than 2 spill, as their stores are unrolled: take more consumers, "
                "or deferred: false"
            ],
        ),
    ],
)
def test_a_broken_rule_is_reported_where_it_was_set(change, lines):
    assert findings(refusal(change)) == lines


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"cluster: {m: 2, n: 1}": "cluster: {m: 5, n: 1}"},
            "fast.yaml:11:16: schedule.cluster.m: 5 should be less than or equal to 4",
        ),
        (
            {"clusters: auto": "clusters: 0"},
            "fast.yaml:13:13: schedule.clusters: 0 is not auto; or 0 should be greater than or "
            "equal to 1",
        ),
        (
            {"scheduler: wrap": "scheduler: stream"},
            "fast.yaml:12:14: schedule.scheduler: stream is not one of round_robin or wrap",
        ),
        (
            {"store_buffers: 4": "store_buffers: 9"},
            "fast.yaml:21:49: schedule.epilogue.store_buffers: 9 should be less than or equal to 8",
        ),
        (
            {"kind: tma_per_warp": "kind: direct"},
            "fast.yaml:21:20: schedule.epilogue.kind: direct is not tma_per_warp",
        ),
        ({"pdl: false": "pdl: 1"}, "fast.yaml:20:8: schedule.pdl: 1 should be a valid boolean"),
        (
            {"pdl: false": "registers: {producer: 40}"},
            "fast.yaml:20:14: schedule.registers.consumer: missing",
        ),
        (
            {"pdl: false": "registers: {producer: 40, consumer: 232, warps: 4}"},
            "fast.yaml:20:44: schedule.registers.warps: unknown key, known here: producer, "
            "consumer",
        ),
        (
            {"clusters: auto": "clusters: {m: 1, n: true}"},
            'fast.yaml:13:13: schedule.clusters: {"m": 1, "n": true} is not auto; or '
            '{"m": 1, "n": true} should be a valid integer',
        ),
    ],
)
def test_values_out_of_range_are_refused_where_they_stand(change, line):
    assert findings(refusal(change)) == [line]


def test_broken_rules_are_reported_together():
    text = refusal(
        {**cluster(3, 3), "stages: 3": "stages: 1", "release: same": "release: previous"}
    )
    assert [line.split(":")[1] for line in findings(text)] == ["10", "10", "11", "16"]


@pytest.mark.parametrize(
    "change",
    [
        cluster(1, 1),
        cluster(4, 1),
        cluster(1, 4),
        cluster(2, 2),
        {**cluster(3, 1), "n: 256, k": "n: 192, k"},
        {**A_M, **B_N, **cluster(2, 2)},
        {"stages: 3": "stages: 1"},
        {"clusters: auto": "clusters: 1024"},
        {"scheduler: wrap": "scheduler: round_robin", "pdl: false": "pdl: true"},
        {"group: 8}": "group: 8, snake: true}"},
        {"producer: warpgroup": "producer: warp", **NOT_DEFERRED},
        F16,
    ],
)
def test_what_the_rules_allow_is_lowered(change):
    assert plan_of(change).name == "sample"
