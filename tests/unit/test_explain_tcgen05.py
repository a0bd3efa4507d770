"""What `kgen explain` says of the tcgen05 kernels."""

from __future__ import annotations

import pytest
from blackwell import FOLDER, SHIPPED, VARIANTS, variant

from kgen import explain
from kgen.errors import DeviceError
from kgen.plan import lower
from kgen.spec import load_spec
from kgen.verify.emulator import require_covered

DIGEST = "0" * 12
RUBIN = FOLDER / "rubin"
SPECS = {name: lambda name=name: variant(name) for name in VARIANTS} | {
    f"{path.parent.name}/{path.stem}": lambda path=path: load_spec(path) for path in SHIPPED
}


@pytest.mark.parametrize("name", SPECS)
def test_every_spec_fits_100_columns_and_draws_its_columns(name):
    plan = lower(SPECS[name]())
    lines = explain.text(plan, DIGEST).splitlines()
    assert max(map(len, lines)) <= 100
    drawing = [x for x in lines if x.strip().startswith(("0 |", "256 |", "512 |"))]
    letters = sum(len(x.split("|")[1]) for x in drawing)
    assert letters * 4 == plan.budget.tmem.allocated  # type: ignore[attr-defined]


def test_rubin_nvfp4_2x1_in_full():
    """Five stages and 576 columns; the sum of every barrier; KiB beside the published 314."""
    text = explain.text(lower(load_spec(RUBIN / "nvfp4_5_collector.yaml")), DIGEST)
    for line in (
        "  total          320512   of 334848 bytes",
        "  A ring         163840   5 stages x 256 x 256 x 4 bits",
        "  full          5         1    114688   the leading producer, then TMA of both -> mma",
        "  empty         5         1         0   the commit behind a stage -> producer",
        "  acc_full      1         1         0   the commit behind a tile -> epilogue",
        "  acc_empty     2         8         0   a thread of each epilogue warp, both CTAs -> mma",
        "  tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16, M 256 N 256 K 128 "
        "(64 bytes)",
        "  instruction descriptor 0x10400488; 2 along K per stage, tile of 2 x 1, collector "
        "b_reuse",
        "  total             576   of 576 columns",
        "  512 |aaaaaaaabbbbbbbb|",
        "  5 stages: 320512 bytes here (313 KiB), 314 KiB there; both grow by 56 KiB a stage",
        "  beyond the ring: here 33792 bytes, 32768 of D staging and 1024 of barriers and padding;",
        "  there 34816 bytes, whose split is not published",
        "as many clusters of 2 x 1 CTAs as the device holds, each takes every n-th of",
        "ceil(M / 512) x ceil(N / 256) cluster tiles; raster groups of 8 along n",
        "Built, not run on hardware.",
    ):
        assert line in text, line


def test_cluster_launch_control_in_full():
    """The grid, who asks, and the sum of an answer's readers."""
    text = explain.text(lower(load_spec(FOLDER / "blackwell/bf16_pair_clc.yaml")), DIGEST)
    for line in (
        "7 warps: 4 epilogue, 1 producer, 1 MMA, 1 scheduler. Clusters of 2 x 1 CTAs (M x N).",
        "One cluster for each tile, in groups of 8 tile columns; it takes others', two ahead;",
        "  tiles              32   2 answers x 16 B",
        "  tile_full      2         1        16   the scheduler, then the answer -> all roles",
        "  tile_empty     2        13         0   8 epilogue + 2 producer + 2 scheduler + 1 mma "
        "-> scheduler",
        "  one cluster of 2 x 1 CTAs for each of ceil(M / 256) x ceil(N / 256) cluster tiles,",
        "  grid.x = 2 times that; raster groups of 8 along n",
        "  scheduler --try_cancel--> 2 answers of 16 bytes, for all roles",
    ):
        assert line in text, line


def test_the_data_has_the_mma_and_the_columns():
    data = explain.data(lower(load_spec(RUBIN / "nvfp4_6_early_a.yaml")), DIGEST)
    assert data["mma"]["descriptor"] == "0x10400488" and data["mma"]["k"] == 128
    assert data["tensor_memory"]["used"] == data["tensor_memory"]["allocated"] == 576
    assert data["oversized_shared_memory"] is True
    assert {x["name"]: x["tx_bytes"] for x in data["barriers"] if x["tx_bytes"]} == {
        "a_full": 65536,
        "b_full": 49152,
    }


def test_the_ladder_changes_one_thing_a_step():
    """What each step is named for is what it adds, and nothing before it has that."""
    steps = [lower(load_spec(p)) for p in sorted(RUBIN.glob("nvfp4_[1-7]_*.yaml"))]
    facts = []
    for plan in steps:
        b, s = plan.budget, plan.budget.spec.schedule
        facts.append(
            (
                s.mma.k_bytes,  # type: ignore[union-attr]
                b.shape.m_tiles,  # type: ignore[attr-defined]
                b.oversized,  # type: ignore[attr-defined]
                s.collector,  # type: ignore[union-attr]
                s.kind,
                s.l2.a,  # type: ignore[union-attr]
            )
        )
    plain = (32, 1, False, "none", "tcgen05_ws", "normal")
    assert facts == [
        plain,
        (64, *plain[1:]),
        (64, 2, *plain[2:]),
        (64, 2, True, *plain[3:]),
        (64, 2, True, "b_reuse", *plain[4:]),
        (64, 2, True, "b_reuse", "tcgen05_ws_split", "normal"),
        (64, 2, True, "b_reuse", "tcgen05_ws_split", "evict_last"),
    ]


def test_what_cannot_be_checked_yet_is_said_with_its_exit_code():
    with pytest.raises(DeviceError, match="the emulator does not cover tcgen05 yet") as caught:
        require_covered(lower(variant("bf16")))
    assert caught.value.exit_code == 3
