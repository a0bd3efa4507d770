"""`kgen explain`: the tables, the picture, and the same as data."""

from __future__ import annotations

import json

from kgen import explain
from kgen.render import render

A_M = {"a: {dtype: f16, major: k}": "a: {dtype: f16, major: m}"}


def test_the_text_of_v6(plan_of):
    text = explain.text(plan_of(), "0123456789ab")
    head, _, rest = text.partition("\n\n")
    first, *others = head.split("\n")
    assert first.startswith("sample   sm_90a (H100, H200)   spec ")
    assert first.endswith("   source 0123456789ab")
    assert others == [
        "D[M,N] f16 = A[M,K] f16 @ B[N,K].T f16, f16 accumulation. CTA tile 256 x 256 x 64.",
        "17 warps: 4 consumer warpgroups, one 64 x 256 slab each, and 1 producer warp.",
        "One CTA per tile on grid.x, in groups of 8 tile columns; one CTA per SM, no cluster.",
        "K is summed in one fixed order: equal inputs give equal bits.",
    ]
    assert (
        rest
        == """\
shared memory (sm_90a shared memory)
  A ring       98304   3 stages x 256 x 64 x 2 B
  B ring       98304   3 stages x 256 x 64 x 2 B
  D buffer     32768   64 x 256 x 2 B (epilogue tma_turns)
  mbarriers      104   13 x 8 B
  padding        920   to a multiple of 1024
  total       230400   of 232448 bytes

registers (96 per thread at launch of 544 threads: 96 x 640 of 65536)
  role        warps  accumulators  other  needs about   of
  consumer       16            64     26           90   96
  producer        1             0     24           24   96

mbarriers
  name      count  arrivals  tx bytes   arrives -> waits
  full          3         1     65536   the producer thread, then TMA -> consumers
  empty         3         4         0   one thread of each consumer -> producer
  d_ready       4       128         0   every thread of consumer i -> producer
  d_free        3         1         0   the producer thread -> a later consumer

TMA boxes (elements, innermost first)
     box               bytes  swizzle   count         stride rule
  A  k 64 x m 64        8192      128   4 per stage   lda a multiple of 8
  B  k 64 x n 256      32768      128   1 per stage   ldb a multiple of 8
  D  n 64 x m 64        8192      128   16 per tile   ldd a multiple of 8, else the consumers store

grid
  one CTA per tile, grid.x = ceil(M / 256) x ceil(N / 256); cluster 1; raster groups of 8 along n
  512 x 512: 4 tiles on 132 SMs = 0.03 waves, 3.0% filled
  8192 x 8192: 1024 tiles on 132 SMs = 7.76 waves, 97.0% filled

pipeline
  global A, B --TMA--> [ stage 0 ][ stage 1 ][ stage 2 ]  each A 32768 + B 32768 = 65536 bytes
       ^ producer      | full: 65536 bytes landed       ^ empty: 4 arrivals
       | (1 warp)           v                                   |
  consumers 0..3 --wgmma m64n256k16 x4--> registers, release: previous stage
       | stmatrix, d_ready (128 arrivals each)
       v                                      ^ d_free x3
  1 D buffer --TMA store by the producer--> global D"""
    )


def test_every_variant_fits_100_columns(plan_of, f32):
    for changes in (
        {},
        f32,
        {**f32, "producer: warp": "producer: warpgroup"},
        {"producer: warp": "producer: warp\n  swizzle_bytes: 32"},
        {"k: 64": "k: 16", "stages: 3": "stages: auto"},
        {**A_M, "store_buffers: 1": "store_buffers: 4", "stages: 3": "stages: 1",
         "release: previous": "release: same"},
        {"m: 256": "m: 64", "consumers: 4": "consumers: 1"},
    ):  # fmt: skip
        for line in explain.text(plan_of(changes), "0" * 12).split("\n"):
            assert len(line) <= 100, line
            assert line == line.rstrip()


def test_split_boxes_are_shown(plan_of):
    text = explain.text(plan_of({"producer: warp": "producer: warp\n  swizzle_bytes: 64"}), "0")
    assert "  A  k 32 x m 64        4096       64   8 per stage   lda a multiple of 8" in (
        text.split("\n")
    )
    assert "  B  k 32 x n 256      16384       64   2 per stage   ldb a multiple of 8" in (
        text.split("\n")
    )


def test_auto_is_written_back(plan_of):
    changes = {"stages: 3": "stages: auto", "producer: warp": "producer: warpgroup"}
    schedule = explain.data(plan_of(changes), "0")["resolved"]["schedule"]
    assert schedule["stages"] == 3
    assert schedule["registers"] == {"producer": 32, "consumer": 112}
    assert schedule["swizzle_bytes"] == 128


def test_the_data_of_v6(plan_of):
    plan = plan_of()
    data = json.loads(json.dumps(explain.data(plan, render(plan).digest)))
    assert data["shared_memory"]["total_bytes"] == 230400
    assert data["shared_memory"]["limit_bytes"] == 232448
    assert data["registers"]["launch_cap"] == 96
    assert data["stage_bytes"] == 65536
    assert data["ring_bytes"] == 196608
    assert [b["arrivals"] for b in data["barriers"]] == [1, 4, 128, 1]
    assert [b["bytes"] for b in data["tma"]] == [8192, 32768, 8192]
    assert data["waves"][1] == {
        "m": 8192,
        "n": 8192,
        "tiles": 1024,
        "waves": 1024 / 132,
        "fill": 1024 / 132 / 8,
    }


def test_empty_shapes_have_no_waves(plan_of):
    plan = plan_of({"[512, 512, 256]": "[0, 512, 256]"})
    assert explain.data(plan, "0")["waves"][0]["fill"] == 0.0


def test_long_rings_are_abbreviated(plan_of):
    plan = plan_of({"k: 64": "k: 16", "stages: 3": "stages: 12"})
    assert (
        "  global A, B --TMA--> [ stage 0 ][   ...   ][stage 11 ]"
        "  each A 8192 + B 8192 = 16384 bytes"
    ) in explain.text(plan, "0").split("\n")
