"""Rules between fields that need no hardware limit."""

from __future__ import annotations

import pytest


def findings(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("v6.yaml")]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            {"a: {dtype: f16": "a: {dtype: bf16"},
            [
                "v6.yaml:5:14: gemm.b.dtype: A is bf16, B is f16: wgmma takes equal types, "
                "or e4m3 with e5m2",
                "v6.yaml:7:16: gemm.accumulator: f16 accumulation is for f16 operands only, "
                "not bf16",
            ],
        ),
        (
            {"d: {dtype: f16": "d: {dtype: bf16"},
            ["v6.yaml:6:14: gemm.d.dtype: an f16 accumulator is stored as it is, so D must be f16"],
        ),
        (
            {"m: 256": "m: 128"},
            [
                "v6.yaml:10:13: schedule.tile.m: 128 rows for 4 consumers; each owns whole slabs "
                "of 64 rows, so tile.m must be a multiple of 256"
            ],
        ),
        (
            {"n: 256, k": "n: 512, k"},
            [
                "v6.yaml:10:21: schedule.tile.n: 512 columns; must be a multiple of 64 "
                "(one TMA store) up to 256 (one wgmma)"
            ],
        ),
        (
            {"n: 256, k": "n: 96, k"},
            [
                "v6.yaml:10:21: schedule.tile.n: 96 columns; must be a multiple of 64 "
                "(one TMA store) up to 256 (one wgmma)"
            ],
        ),
        (
            {"k: 64": "k: 24"},
            ["v6.yaml:10:29: schedule.tile.k: 24 elements; must be a multiple of 16 (one wgmma)"],
        ),
        (
            {"k: 64": "k: 48", "producer: warp": "swizzle_bytes: 128\n  producer: warp"},
            [
                "v6.yaml:13:18: schedule.swizzle_bytes: a row of tile.k has 96 bytes, "
                "not a multiple of the 128-byte swizzle"
            ],
        ),
        (
            {"stages: 3": "stages: 1"},
            [
                "v6.yaml:12:11: schedule.stages: one stage deadlocks with release: previous, "
                "which frees a stage one K tile late; use release: same or 2 stages"
            ],
        ),
        (
            {"producer: warp": "registers: {producer: 24, consumer: 112}"},
            [
                "v6.yaml:13:14: schedule.registers: setmaxnreg acts on whole warpgroups; "
                "needs producer: warpgroup"
            ],
        ),
        (
            {"store_buffers: 1": "store_buffers: 5"},
            [
                "v6.yaml:17:46: schedule.epilogue.store_buffers: 5 buffers for 4 consumers; "
                "each consumer stores once, so more are never used"
            ],
        ),
    ],
)
def test_a_broken_rule_is_reported_where_it_was_set(refusal, change, lines):
    assert findings(refusal(change)) == lines


def test_broken_rules_are_reported_together(refusal):
    text = refusal(
        {"d: {dtype: f16": "d: {dtype: bf16", "k: 64": "k: 24", "stages: 3": "stages: 1"}
    )
    assert [line.split(":")[1] for line in findings(text)] == ["6", "10", "12"]


@pytest.mark.parametrize(
    "change",
    [
        {"stages: 3": "stages: 1", "release: previous": "release: same"},
        {"k: 64": "k: 48"},
        {"k: 64": "k: 16", "stages: 3": "stages: auto"},
        {"producer: warp": "producer: warpgroup"},
        {"stages: 3": "stages: 2", "store_buffers: 1": "store_buffers: 2"},
        {"b: {dtype: f16, major: k": "b: {dtype: f16, major: n"},
        {"along: n": "along: m"},
    ],
)
def test_what_the_rules_allow_is_lowered(plan_of, change):
    assert plan_of(change).name == "sample"


def test_the_order_of_slabs_names_each_once(refusal):
    text = refusal({"producer: warp": "producer: warp\n  a_order: [0, 2, 2, 1]"})
    assert text.split("\n")[0] == (
        "v6.yaml:14:12: schedule.a_order: must name each slab once, in any order: 0, 1, 2, 3"
    )
