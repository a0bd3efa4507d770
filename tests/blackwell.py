"""Specs of the tcgen05 schedules: variants that together use every field, and those shipped.

Each builds in about a second.
"""

from __future__ import annotations

import json
from typing import Any

from kgen.paths import data_folder
from kgen.spec import LoadedSpec, parse_spec

FOLDER = data_folder("specs")
SHIPPED = sorted([*(FOLDER / "blackwell").glob("*.yaml"), *(FOLDER / "rubin").glob("*.yaml")])

NVFP4: dict[str, Any] = {"block_scale": {"dtype": "ue4m3", "block": 16}}
MX: dict[str, Any] = {"block_scale": {"dtype": "ue8m0", "block": 32}}


def gemm(a: str, d: str = "bf16", b: str = "", **more: Any) -> dict[str, Any]:
    """The problem of one variant."""
    operands = {"a": {"dtype": a}, "b": {"dtype": b or a}, "d": {"dtype": d}}
    return {**operands, "accumulator": "f32", **more}


def schedule(
    tile: tuple[int, int, int],
    mma: tuple[int, int],
    k_bytes: int = 32,
    cluster: tuple[int, int] = (1, 1),
    kind: str = "tcgen05_ws",
    **more: Any,
) -> dict[str, Any]:
    """A schedule; an MMA runs on a pair where its M is 256."""
    m, n = mma
    group = 2 if m == 256 else 1
    return {
        "kind": kind,
        "tile": dict(zip("mnk", tile, strict=True)),
        "mma": {"m": m, "n": n, "k_bytes": k_bytes, "cta_group": group},
        "cluster": {"m": cluster[0], "n": cluster[1]},
        **more,
    }


PAIR = (2, 1)
MN_MAJOR = gemm("bf16") | {
    "a": {"dtype": "bf16", "major": "m"},
    "b": {"dtype": "bf16", "major": "n"},
}
Variant = tuple[str, dict[str, Any], dict[str, Any]]
VARIANTS: dict[str, Variant] = {
    "bf16": ("sm_100a", gemm("bf16"), schedule((128, 256, 64), (128, 256))),
    "f16_f32_output": ("sm_103a", gemm("f16", "f32"), schedule((128, 128, 128), (128, 128))),
    "f16_f16_output": ("sm_100a", gemm("f16", "f16"), schedule((128, 64, 64), (128, 64))),
    "tf32_cluster_2x2": (
        "sm_103a",
        gemm("tf32", "f32"),
        schedule((128, 128, 32), (128, 128), cluster=(2, 2)),
    ),
    "bf16_two_n_tiles": ("sm_100a", gemm("bf16"), schedule((128, 256, 64), (128, 128))),
    "bf16_1x8": ("sm_100a", gemm("bf16"), schedule((128, 128, 64), (128, 128), cluster=(1, 8))),
    "bf16_pair": ("sm_100a", gemm("bf16"), schedule((256, 256, 64), (256, 256), cluster=PAIR)),
    "bf16_pair_4x2_pdl": (
        "sm_100a",
        gemm("bf16"),
        schedule((256, 256, 64), (256, 256), cluster=(4, 2), pdl=True),
    ),
    "bf16_clc": (
        "sm_103a", gemm("bf16"), schedule((128, 128, 64), (128, 128), scheduler="clc")
    ),
    "bf16_pair_clc": (
        "sm_100a",
        gemm("bf16"),
        schedule((256, 256, 64), (256, 256), cluster=(4, 1), scheduler="clc", pdl=True),
    ),
    "bf16_pair_mn_major": (
        "sm_100a",
        MN_MAJOR,
        schedule((256, 256, 64), (256, 256), cluster=PAIR, raster={"along": "m", "group": 4}),
    ),
    "fp8_mn_major": (
        "sm_100a",
        {**gemm("e4m3", b="e5m2"), "b": {"dtype": "e5m2", "major": "n"}},
        schedule((128, 128, 128), (128, 128)),
    ),
    "fp8_pair_8x1": (
        "sm_100a",
        gemm("e4m3"),
        schedule((256, 256, 128), (256, 256), cluster=(8, 1)),
    ),
    "fp8_global": (
        "sm_100a", gemm("e4m3", global_scale=True), schedule((128, 128, 128), (128, 128))
    ),
    "mxfp8_one_cta": ("sm_100a", gemm("e4m3", **MX), schedule((128, 128, 128), (128, 128))),
    "mxfp8_pair": (
        "sm_103a",
        gemm("e5m2", **MX),
        schedule((256, 256, 128), (256, 256), cluster=PAIR),
    ),
    "nvfp4_one_cta": ("sm_100a", gemm("e2m1", **NVFP4), schedule((128, 128, 256), (128, 128))),
    "nvfp4_pair_global": (
        "sm_100a",
        gemm("e2m1", global_scale=True, **NVFP4),
        schedule((256, 256, 256), (256, 256), cluster=PAIR),
    ),
    "mxfp4_pair_4x1": (
        "sm_100a",
        gemm("e2m1", "f32", **MX),
        schedule((256, 128, 256), (256, 128), cluster=(4, 1), l2={"a": "evict_last"}),
    ),
    "rubin_bf16_b_reuse": (
        "sm_107a",
        gemm("bf16"),
        schedule((512, 256, 64), (256, 256), cluster=PAIR, collector="b_reuse"),
    ),
    "rubin_fp8_five_reads": (
        "sm_107a",
        gemm("e4m3"),
        schedule((512, 256, 128), (256, 128), 64, PAIR, collector="ab_five_reads"),
    ),
    "rubin_fp8_split_one_cta": (
        "sm_107a",
        gemm("e4m3"),
        schedule(
            (128, 256, 128), (128, 256), 64, (1, 1), "tcgen05_ws_split", a_stages=5, stages=3,
            pdl=True,
        ),
    ),
    "rubin_mxfp8": (
        "sm_107a",
        gemm("e4m3", **MX),
        schedule((512, 256, 128), (256, 256), 64, PAIR, collector="b_reuse"),
    ),
    "rubin_mxfp4": (
        "sm_107a",
        gemm("e2m1", **MX),
        schedule((512, 256, 256), (256, 256), 64, PAIR),
    ),
    "rubin_nvfp4": (
        "sm_107a",
        gemm("e2m1", global_scale=True, **NVFP4),
        schedule((512, 256, 256), (256, 256), 64, PAIR, collector="b_reuse"),
    ),
    "rubin_nvfp4_five_reads": (
        "sm_107a",
        gemm("e2m1", **NVFP4),
        schedule((512, 256, 256), (256, 128), 64, (2, 2), collector="ab_five_reads"),
    ),
    "rubin_nvfp4_split_4x2": (
        "sm_107a",
        gemm("e2m1", global_scale=True, **NVFP4),
        schedule(
            (512, 256, 256), (256, 256), 64, (4, 2), "tcgen05_ws_split", collector="b_reuse",
            l2={"a": "evict_last", "b": "evict_first", "promotion_bytes": 256},
        ),
    ),
    "rubin_nvfp4_split_clc": (
        "sm_107a",
        gemm("e2m1", **NVFP4),
        schedule(
            (512, 256, 256), (256, 256), 64, (2, 2), "tcgen05_ws_split", collector="b_reuse",
            scheduler="clc",
        ),
    ),
    "rubin_nvfp4_not_oversized": (
        "sm_107a",
        gemm("e2m1", **NVFP4),
        schedule(
            (256, 256, 256), (256, 256), 64, PAIR, smem={"oversized": False},
            epilogue={"store_buffers": 1},
        ),
    ),
}  # fmt: skip


def variant_text(name: str, **changes: Any) -> str:
    """The spec of one variant as text. changes replace parts of its schedule."""
    target, problem, plan = VARIANTS[name]
    data = {"name": "sample", "target": target, "gemm": problem, "schedule": plan | changes}
    return json.dumps(data, indent=1)


def variant(name: str, **changes: Any) -> LoadedSpec:
    """The spec of one variant. JSON is YAML, so it takes the way that a file takes."""
    return parse_spec(variant_text(name, **changes), f"{name}.yaml")
