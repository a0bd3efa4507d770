"""`kgen explain` of a persistent kernel: the text of one, and what changes with its fields."""

from __future__ import annotations

import pytest
from persistent import A_M, B_N, F16, NO_PRODUCER, cluster, plan_of

from kgen import explain
from kgen.paths import data_folder
from kgen.plan import lower
from kgen.spec import load_spec


def lines(changes=None) -> list[str]:
    return explain.text(plan_of(changes), "0123456789ab").split("\n")


def test_the_text_of_one_kernel():
    head, _, rest = explain.text(plan_of(), "0123456789ab").partition("\n\n")
    assert head.split("\n")[1:] == [
        "D[M,N] bf16 = A[M,K] bf16 @ B[N,K].T bf16, f32 accumulation. CTA tile 128 x 256 x 64.",
        "12 warps: 2 consumer warpgroups of 64 x 256, and 1 producer warpgroup.",
        "Resident clusters of 2 x 1 CTAs, one CTA per SM, take cluster tiles in turn, in groups of",
        "8 columns.",
        "Where that pays, some tiles are cut in two, so that all clusters end together.",
        "K is summed in one fixed order: equal inputs on the same device give equal bits.",
    ]
    assert (
        rest
        == """\
shared memory (sm_90a shared memory)
  A ring       49152   3 stages x 128 x 64 x 2 B
  B ring       98304   3 stages x 256 x 64 x 2 B
  D buffers    65536   8 warps x 4 x 16 x 64 x 2 B
  share           32   of the cluster in the K tiles
  mbarriers       48   6 x 8 B
  padding        944   to a multiple of 1024
  total       214016   of 232448 bytes

registers (168 per thread at launch of 384 threads: 168 x 384 of 65536)
  role        warps  accumulators  waiting  other  needs about   of
  consumer        8           128       64     36          228  232
  producer        4             0        0     38           38   40

mbarriers
  name      count  arrivals  tx bytes   arrives -> waits
  full          3         1     49152   the producer thread, then TMA of the cluster -> consumers
  empty         3         4         0   one thread of each consumer of 2 CTAs -> producer thread

TMA boxes (elements, innermost first)
     box               bytes  swizzle   count         stride rule
  A  k 64 x m 128      16384      128   1 per stage   lda a multiple of 8
  B  k 64 x n 128      16384      128   1 per stage   ldb a multiple of 8
  D  n 64 x m 16        2048      128   32 per tile   ldd a multiple of 8, else the consumers store

grid
  resident clusters of 2 x 1 CTAs, as many as the device holds; cluster tile 256 x 256
  raster groups of 8 cluster tiles along n; tiles are cut where that saves 32 K tiles
  512 x 512: 4 cluster tiles on at most 66 clusters = 0.06 turns
  8192 x 8192: 1024 cluster tiles on at most 66 clusters = 15.52 turns

pipeline
  global A, B --TMA--> [ stage 0 ][ stage 1 ][ stage 2 ]  each A 16384 + B 32768 = 49152 bytes
       B: each of 2 CTAs along M loads 1/2, multicast
       ^ producer warpgroup      | full: 49152 bytes landed
       |                         v                      ^ empty: 4 arrivals
  consumers 0..1 --wgmma m64n256k16 x4--> registers, release: same stage
       | each warp, during the next tile's first K tiles: stmatrix of 16 x 64 panels
       v
  4 buffers per warp --TMA store by the warp--> global D"""
    )


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        (
            cluster(2, 2),
            [
                "       A: each of 2 CTAs along N loads 1/2, multicast",
                "       B: each of 2 CTAs along M loads 1/2, multicast",
                "       |                         v                      ^ empty: 6 arrivals",
            ],
        ),
        (
            {"clusters: auto": "clusters: 20", "scheduler: wrap": "scheduler: round_robin"},
            [
                "  resident clusters of 2 x 1 CTAs, at most 20; cluster tile 256 x 256",
                "  raster groups of 8 cluster tiles along n; round robin",
                "K is summed in one fixed order: equal inputs give equal bits.",
            ],
        ),
        (
            {**NO_PRODUCER, "n: 256, k": "n: 128, k", "store_buffers: 4": "store_buffers: 1"},
            [
                "8 warps: 2 consumer warpgroups of 64 x 128, and no producer: a thread of the "
                "first consumer loads.",
                "  refill          32   place of the thread that loads",
                "       | each warp, at the end of a tile: stmatrix of 16 x 64 panels",
                "  1 buffer per warp --TMA store by the warp--> global D",
            ],
        ),
        (
            {**F16, "m: 128": "m: 256", "stages: 3": "stages: 2"},
            [
                "12 warps: 2 consumer warpgroups of 2 slabs of 64 x 256, and 1 producer warpgroup.",
                "  consumers 0..1 --wgmma m64n256k16 x8--> registers, release: same stage",
            ],
        ),
        (
            {"raster: {along: n, group: 8}": "raster: {along: m, group: 3}"},
            ["3 rows."],
        ),
        (
            {
                "raster: {along: n, group: 8}": "raster: {along: n, group: 8, snake: true}",
                "scheduler: wrap": "scheduler: round_robin",
            },
            [
                "8 columns, every second group backwards.",
                "  raster groups of 8 cluster tiles along n, every second one backwards; "
                "round robin",
            ],
        ),
    ],
)
def test_the_text_follows_the_fields(changes, shown):
    text = lines(changes)
    for line in shown:
        assert line in text


def test_block_scales_are_arguments_and_their_sums_are_promoted():
    plan = lower(load_spec(data_folder("specs") / "hopper" / "fast" / "e4m3_scaled.yaml"))
    text = explain.text(plan, "0123456789ab")
    assert (
        """
block scales (arguments of the launch; f32, row-major)
  sfa  [ceil(K / 128), M]              of A
  sfb  [ceil(N / 128), ceil(K / 128)]  of B
  512 x 512 x 256: sfa 2 x 512, sfb 4 x 2
  8192 x 8192 x 8192: sfa 64 x 8192, sfb 64 x 64

grid
"""
        in text
    )
    assert (
        """
  consumers 0..1 --wgmma m64n128k32 x8--> registers, release: same stage
       | promoted after each K tile: its sums x sfa x sfb, added up in f32 registers
"""
        in text
    )
    shapes = [x["shape"] for x in explain.data(plan, "0123456789ab")["scale_arrays"]]
    assert shapes == ["[ceil(K / 128), M]", "[ceil(N / 128), ceil(K / 128)]"]
    assert "scales" not in explain.text(plan_of(), "0123456789ab")


def test_one_cta_shares_nothing():
    assert not any("multicast" in line for line in lines(cluster(1, 1)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        cluster(4, 1),
        {**A_M, **B_N, **cluster(2, 2)},
        {**NO_PRODUCER, "n: 256, k": "n: 128, k", "clusters: auto": "clusters: 1024"},
        {"k: 64": "k: 16", "stages: 3": "stages: auto"},
    ],
)
def test_every_line_fits_100_columns(changes):
    for line in lines(changes):
        assert len(line) <= 100, line
        assert line == line.rstrip()
