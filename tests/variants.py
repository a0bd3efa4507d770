"""Specs that together use every field of every schedule at values the shipped ones do not.

Each is small enough to build in a second; CI builds all of them, `make gpu` runs all of them.
"""

from __future__ import annotations

import json
from typing import Any

from kgen.spec import LoadedSpec, parse_spec

BASE: dict[str, Any] = {
    "target": "sm_90a",
    "gemm": {
        "a": {"dtype": "f16"},
        "b": {"dtype": "f16"},
        "d": {"dtype": "f16"},
        "accumulator": "f32",
    },
}

TILE = {"m": 128, "n": 128, "k": 64}
SCHEDULES: dict[str, dict[str, Any]] = {
    "wgmma_ws": {"tile": TILE, "consumers": 2, "stages": 3},
    "wgmma_single": {"tile": TILE, "stages": 3},
    "mma_sync": {"tile": {**TILE, "k": 32}, "stages": 2},
    "wgmma_persistent": {"tile": {**TILE, "n": 64}, "consumers": 2, "stages": 3},
}
"""What a variant of a kind starts from; without a kind it is one of wgmma_ws."""


def operands(a: str, b: str, d: str, accumulator: str = "f32") -> dict[str, Any]:
    """A gemm of these element types."""
    return {"a": {"dtype": a}, "b": {"dtype": b}, "d": {"dtype": d}, "accumulator": accumulator}


SCALED = {"block_scale": {"dtype": "f32", "block": 128}}

DIRECT = {"epilogue": {"kind": "direct"}}

BUFFERS_2 = {"kind": "tma_turns", "store_buffers": 2}

BF16 = {"a": {"dtype": "bf16"}, "b": {"dtype": "bf16"}, "d": {"dtype": "bf16"}}

VARIANTS: dict[str, dict[str, Any]] = {
    "bf16_inputs_f16_output": {"gemm": {"a": {"dtype": "bf16"}, "b": {"dtype": "bf16"}}},
    "f16_inputs_bf16_output": {"gemm": {"d": {"dtype": "bf16"}}},
    "a_m_major": {"gemm": {"a": {"major": "m"}}},
    "b_n_major": {"gemm": {"b": {"major": "n"}}},
    "both_mn_major": {"gemm": {"a": {"major": "m"}, "b": {"major": "n"}}},
    "both_mn_major_swizzle_64": {
        "gemm": {"a": {"major": "m"}, "b": {"major": "n"}},
        "schedule": {"swizzle_bytes": 64},
    },
    "both_mn_major_swizzle_32": {
        "gemm": {
            **BF16,
            "a": {"dtype": "bf16", "major": "m"},
            "b": {"dtype": "bf16", "major": "n"},
        },
        "schedule": {"swizzle_bytes": 32, "tile": {"n": 64}},
    },
    "mn_major_f16_accumulation": {
        "gemm": {"a": {"major": "m"}, "b": {"major": "n"}, "accumulator": "f16"},
        "schedule": {"tile": {"n": 256}},
    },
    "swizzle_64_splits_boxes": {"schedule": {"swizzle_bytes": 64}},
    "swizzle_32_splits_boxes": {"gemm": BF16, "schedule": {"swizzle_bytes": 32}},
    "k_16": {"schedule": {"tile": {"k": 16}, "stages": 7}},
    "k_32": {"schedule": {"tile": {"k": 32}, "stages": 5}},
    "k_48": {"schedule": {"tile": {"k": 48}}},
    "k_128_two_panels": {"schedule": {"tile": {"k": 128}}},
    "one_consumer_n_64": {"schedule": {"consumers": 1, "tile": {"m": 64, "n": 64}}},
    "one_consumer_n_256": {"schedule": {"consumers": 1, "tile": {"m": 64, "n": 256}}},
    "three_consumers_n_192": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"consumers": 3, "tile": {"m": 192, "n": 192}},
    },
    "seven_consumers": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"consumers": 7, "tile": {"m": 448, "n": 64, "k": 32}, "stages": 2},
    },
    "stages_auto": {"schedule": {"stages": "auto"}},
    "two_stages": {"schedule": {"stages": 2}},
    "one_stage_release_same": {"schedule": {"stages": 1, "release": "same"}},
    "release_same": {"schedule": {"release": "same"}},
    "producer_warpgroup_1": {
        "schedule": {"producer": "warpgroup", "consumers": 1, "tile": {"m": 64, "n": 256}}
    },
    "producer_warpgroup_2": {"schedule": {"producer": "warpgroup", "tile": {"n": 256}}},
    "producer_warpgroup_4": {
        "gemm": {"accumulator": "f16"},
        "schedule": {
            "producer": "warpgroup",
            "consumers": 4,
            "tile": {"m": 256, "n": 256},
            "registers": {"producer": 32, "consumer": 112},
        },
    },
    "store_buffers_2_of_3": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"consumers": 3, "tile": {"m": 192}, "epilogue": BUFFERS_2},
    },
    "store_buffer_each": {"schedule": {"epilogue": BUFFERS_2}},
    "raster_along_m": {"schedule": {"raster": {"along": "m", "group": 3}}},
    "raster_1": {"schedule": {"raster": {"along": "n", "group": 1}}},
    "l2_promotion_off": {"schedule": {"l2": {"promotion_bytes": 0}}},
    "l2_promotion_256": {"schedule": {"l2": {"promotion_bytes": 256}}},
    "smem_limit": {"schedule": {"stages": "auto", "smem_limit": "128KiB"}},
    "two_slabs": {"schedule": {"consumers": 1, "stages": 2}},
    "two_slabs_m_major": {
        "gemm": {"a": {"major": "m"}, "b": {"major": "n"}},
        "schedule": {"consumers": 1, "swizzle_bytes": 64},
    },
    "two_slabs_take_turns": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"tile": {"m": 256, "n": 192}, "a_order": [1, 0]},
    },
    "four_slabs_two_panels": {
        "schedule": {"consumers": 1, "tile": {"m": 256, "n": 64, "k": 128}, "stages": 2},
    },
    "direct_39_loads_a_stage": {
        "gemm": {**BF16, "a": {"dtype": "bf16", "major": "m"}},
        "schedule": {
            **DIRECT,
            "consumers": 3,
            "tile": {"m": 576, "n": 8, "k": 48},
            "swizzle_bytes": 32,
            "producer": "warpgroup",
            "stages": "auto",
        },
    },
    "direct_f16_accumulation": {
        "gemm": {"accumulator": "f16"},
        "schedule": {**DIRECT, "tile": {"n": 256}},
    },
    "direct_bf16_m_major": {
        "gemm": {**BF16, "a": {"dtype": "bf16", "major": "m"}},
        "schedule": {**DIRECT, "consumers": 1, "release": "same", "stages": 1},
    },
    "direct_n_8": {"schedule": {**DIRECT, "consumers": 1, "tile": {"m": 64, "n": 8}}},
    "direct_n_104_warpgroup": {
        "schedule": {**DIRECT, "producer": "warpgroup", "tile": {"n": 104}, "raster": {"group": 1}}
    },
    "single_one_stage": {"schedule": {"kind": "wgmma_single", "stages": 1}},
    "single_auto_bf16_mn_major": {
        "gemm": {
            **BF16,
            "a": {"dtype": "bf16", "major": "m"},
            "b": {"dtype": "bf16", "major": "n"},
        },
        "schedule": {"kind": "wgmma_single", "stages": "auto", "smem_limit": "100KiB"},
    },
    "single_two_consumers_f16_accumulation": {
        "gemm": {"accumulator": "f16"},
        "schedule": {
            "kind": "wgmma_single",
            "consumers": 2,
            "tile": {"m": 256, "n": 72, "k": 48},
            "raster": {"along": "m", "group": 2},
        },
    },
    "single_swizzle_32": {
        "schedule": {
            "kind": "wgmma_single",
            "swizzle_bytes": 32,
            "tile": {"m": 64, "n": 16},
            "raster": {"along": "m", "group": 1},
            "l2": {"promotion_bytes": 0},
        }
    },
    "sync_one_stage_bf16": {"gemm": BF16, "schedule": {"kind": "mma_sync", "stages": 1}},
    "sync_f16_accumulation": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"kind": "mma_sync", "warps": {"m": 4, "n": 2}, "stages": "auto"},
    },
    "sync_two_panels": {
        "schedule": {"kind": "mma_sync", "tile": {"n": 64, "k": 128}, "warps": {"m": 4, "n": 1}}
    },
    "sync_four_panels_swizzle_32": {
        "schedule": {
            "kind": "mma_sync",
            "tile": {"m": 48, "n": 80, "k": 64},
            "warps": {"m": 3, "n": 5},
            "swizzle_bytes": 32,
            "raster": {"group": 1},
            "smem_limit": "40KiB",
        }
    },
    "sync_k_48": {
        "gemm": {"d": {"dtype": "bf16"}},
        "schedule": {
            "kind": "mma_sync",
            "tile": {"m": 32, "n": 32, "k": 48},
            "warps": {"m": 1, "n": 1},
            "l2": {"promotion_bytes": 256},
        },
    },
}

PERSISTENT: dict[str, dict[str, Any]] = {
    "plain": {},
    "auto_limits": {
        "stages": "auto",
        "smem_limit": "100KiB",
        "raster": {"along": "m", "group": 1},
        "l2": {"promotion_bytes": 0},
    },
    "1x1_wrap_one_cluster": {"scheduler": "wrap", "clusters": 1, "raster": {"group": 2}},
    "2x1_previous_pdl": {"cluster": {"m": 2}, "release": "previous", "pdl": True},
    "1x2_warp_wrap": {"cluster": {"n": 2}, "producer": "warp", "scheduler": "wrap"},
    "2x2_deferred_wrap": {
        "cluster": {"m": 2, "n": 2},
        "scheduler": "wrap",
        "epilogue": {"deferred": True, "store_buffers": 1},
    },
    "4x1_deferred_previous": {
        "cluster": {"m": 4},
        "release": "previous",
        "epilogue": {"deferred": True, "store_buffers": 3},
    },
    "1x4_one_stage": {"cluster": {"n": 4}, "stages": 1},
    "3x1_n_192": {
        "cluster": {"m": 3},
        "tile": {"n": 192},
        "producer": "warp",
        "release": "previous",
    },
    "deferred_warp": {"producer": "warp", "epilogue": {"deferred": True, "store_buffers": 8}},
    "deferred_two_slabs_wrap": {
        "consumers": 1,
        "tile": {"n": 128},
        "scheduler": "wrap",
        "epilogue": {"deferred": True},
    },
    "none": {"producer": "none"},
    "none_2x1_wrap_pdl": {
        "producer": "none",
        "cluster": {"m": 2},
        "scheduler": "wrap",
        "release": "previous",
        "pdl": True,
    },
    "none_2x2_same_wrap": {
        "producer": "none",
        "cluster": {"m": 2, "n": 2},
        "scheduler": "wrap",
    },
    "none_three_consumers": {
        "producer": "none",
        "consumers": 3,
        "tile": {"m": 192, "n": 256, "k": 32},
        "release": "previous",
        "epilogue": {"store_buffers": 1},
    },
    "registers": {"registers": {"producer": 56, "consumer": 152}},
    "k_128_two_panels": {"tile": {"k": 128}, "stages": 2, "cluster": {"m": 2, "n": 2}},
    "snake_m_none": {
        "clusters": 2,
        "cluster": {"m": 2},
        "producer": "none",
        "raster": {"along": "m", "group": 1, "snake": True},
    },
    "snake_wrap": {
        "clusters": 3,
        "raster": {"along": "n", "group": 2, "snake": True},
        "scheduler": "wrap",
    },
    "k_48_swizzle_32": {"tile": {"k": 48}, "swizzle_bytes": 32, "cluster": {"n": 2}},
}
"""Schedules of wgmma_persistent, over SCHEDULES; f16 in and out, f32 accumulation, K-major."""

PERSISTENT_TYPES: dict[str, dict[str, Any]] = {
    "bf16_mn_major_2x2": {
        "gemm": {
            **BF16,
            "a": {"dtype": "bf16", "major": "m"},
            "b": {"dtype": "bf16", "major": "n"},
        },
        "schedule": {"cluster": {"m": 2, "n": 2}, "tile": {"n": 128}},
    },
    "m_major_swizzle_64_wrap": {
        "gemm": {"a": {"major": "m"}},
        "schedule": {"swizzle_bytes": 64, "cluster": {"n": 2}, "scheduler": "wrap"},
    },
    "n_major_swizzle_32_none": {
        "gemm": {"b": {"major": "n"}, "d": {"dtype": "bf16"}},
        "schedule": {"swizzle_bytes": 32, "producer": "none"},
    },
    "f16_accumulation_two_slabs_wrap": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"tile": {"m": 256}, "scheduler": "wrap", "release": "previous"},
    },
    "bf16_f32_output_wrap_previous": {
        "gemm": {**BF16, "d": {"dtype": "f32"}},
        "schedule": {"scheduler": "wrap", "release": "previous"},
    },
    "f16_accumulation_none_mn_major_wrap": {
        "gemm": {"accumulator": "f16", "a": {"major": "m"}, "b": {"major": "n"}},
        "schedule": {"producer": "none", "scheduler": "wrap", "cluster": {"m": 2}}
        | {"tile": {"n": 128}},
    },
    "f16_accumulation_tall": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"consumers": 1, "tile": {"m": 320}, "stages": 2},
    },
    "e4m3_e5m2": {
        "gemm": operands("e4m3", "e5m2", "f16"),
        "schedule": {"tile": {"n": 128, "k": 128}, "epilogue": {"deferred": True}},
    },
    "e5m2_cluster_wrap": {
        "gemm": operands("e5m2", "e5m2", "bf16"),
        "schedule": {
            "tile": {"k": 128},
            "cluster": {"m": 2, "n": 1},
            "scheduler": "wrap",
            "release": "previous",
            "epilogue": {"deferred": True},
        },
    },
    "e4m3_k_32_f32_output": {
        "gemm": operands("e4m3", "e4m3", "f32"),
        "schedule": {
            "tile": {"m": 64, "n": 32, "k": 32},
            "consumers": 1,
            "stages": 4,
            "producer": "warp",
            "epilogue": {"store_buffers": 1},
        },
    },
    "e4m3_scaled_deferred_wrap": {
        "gemm": {**operands("e4m3", "e4m3", "bf16"), **SCALED},
        "schedule": {
            "tile": {"k": 128},
            "cluster": {"m": 2, "n": 2},
            "stages": 2,
            "scheduler": "wrap",
            "pdl": True,
            "epilogue": {"deferred": True},
        },
    },
    "e4m3_e5m2_scaled_two_slabs": {
        "gemm": {**operands("e4m3", "e5m2", "f16"), **SCALED},
        "schedule": {"tile": {"m": 256, "n": 128, "k": 128}, "stages": 4},
    },
    "e5m2_scaled_three_slabs_n_32_f32_output": {
        "gemm": {**operands("e5m2", "e5m2", "f32"), **SCALED},
        "schedule": {
            "consumers": 1,
            "tile": {"m": 192, "n": 32, "k": 128},
            "producer": "warp",
            "swizzle_bytes": 64,
        },
    },
    "e4m3_scaled_none_wrap": {
        "gemm": {**operands("e4m3", "e4m3", "bf16"), **SCALED},
        "schedule": {
            "tile": {"n": 128, "k": 128},
            "cluster": {"m": 2},
            "producer": "none",
            "scheduler": "wrap",
        },
    },
    "tf32_wrap": {
        "gemm": operands("tf32", "tf32", "f32"),
        "schedule": {"tile": {"k": 32}, "cluster": {"m": 1, "n": 2}, "scheduler": "wrap"},
    },
    "tf32_two_slabs_no_producer": {
        "gemm": operands("tf32", "tf32", "bf16"),
        "schedule": {"tile": {"m": 256, "k": 16}, "producer": "none", "stages": 4},
    },
    "s8": {
        "gemm": operands("s8", "s8", "s32", "s32"),
        "schedule": {"tile": {"n": 96, "k": 128}, "producer": "warp"},
    },
    "s8_cluster_wrap": {
        "gemm": operands("s8", "s8", "s32", "s32"),
        "schedule": {
            "cluster": {"m": 2, "n": 1},
            "scheduler": "wrap",
            "release": "previous",
            "raster": {"along": "m", "group": 2},
        },
    },
    "bf16_f32_output": {
        "gemm": {**BF16, "d": {"dtype": "f32"}},
        "schedule": {"tile": {"n": 160}},
    },
}

SWAPPED: dict[str, dict[str, Any]] = {
    "8_rows": {"schedule": {"tile": {"m": 8, "n": 64}, "consumers": 1, "producer": "warp"}},
    "72_rows_two_slabs": {
        "gemm": {"d": {"dtype": "bf16"}},
        "schedule": {"tile": {"m": 72}, "consumers": 1, "release": "previous"},
    },
    "256_rows_deferred": {
        "schedule": {"tile": {"m": 256, "n": 64}, "consumers": 1, "epilogue": {"deferred": True}},
    },
    "deferred_wrap_2x1": {
        "gemm": BF16,
        "schedule": {
            "tile": {"m": 48},
            "scheduler": "wrap",
            "cluster": {"m": 2},
            "epilogue": {"deferred": True, "store_buffers": 1},
        },
    },
    "none_2x2_wrap": {
        "schedule": {
            "tile": {"m": 16},
            "producer": "none",
            "cluster": {"m": 2, "n": 2},
            "scheduler": "wrap",
        },
    },
    "n_major": {
        "gemm": {"b": {"major": "n"}},
        "schedule": {"tile": {"m": 24}, "consumers": 1, "pdl": True},
    },
    "both_mn_major_1x2": {
        "gemm": {**BF16, "a": {"dtype": "bf16", "major": "m"}}
        | {"b": {"dtype": "bf16", "major": "n"}},
        "schedule": {"tile": {"m": 128}, "cluster": {"n": 2}},
    },
    "m_major_swizzle_32": {
        "gemm": {"a": {"major": "m"}},
        "schedule": {"tile": {"m": 64, "k": 32}, "swizzle_bytes": 32, "release": "previous"},
    },
    "f16_accumulation_wrap": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"tile": {"m": 16, "k": 32}, "scheduler": "wrap", "clusters": 3},
    },
    "f16_accumulation_8_rows": {
        "gemm": {"accumulator": "f16"},
        "schedule": {"tile": {"m": 8, "n": 192}, "consumers": 3},
    },
    "k_48_swizzle_32": {"schedule": {"tile": {"m": 32, "k": 48}, "swizzle_bytes": 32}},
    "bf16_f32_output": {
        "gemm": {**BF16, "d": {"dtype": "f32"}},
        "schedule": {"tile": {"m": 40}, "epilogue": {"store_buffers": 3}},
    },
    "e4m3_wrap": {
        "gemm": operands("e4m3", "e5m2", "bf16"),
        "schedule": {"tile": {"m": 8, "k": 128}, "scheduler": "wrap"},
    },
    "tf32": {
        "gemm": operands("tf32", "tf32", "f32"),
        "schedule": {"tile": {"m": 16, "k": 32}, "scheduler": "wrap", "producer": "warp"},
    },
    "s8": {
        "gemm": operands("s8", "s8", "s32", "s32"),
        "schedule": {"tile": {"m": 24, "k": 128}, "producer": "warp"},
    },
}
"""Kernels of wgmma_persistent with swapped operands."""

VARIANTS |= {
    f"persistent_{name}": {"schedule": {"kind": "wgmma_persistent", **schedule}}
    for name, schedule in PERSISTENT.items()
}
VARIANTS |= {
    f"persistent_{name}": {
        "gemm": both["gemm"],
        "schedule": {"kind": "wgmma_persistent", **both["schedule"]},
    }
    for name, both in PERSISTENT_TYPES.items()
}
VARIANTS |= {
    f"swapped_{name}": {
        "gemm": both.get("gemm", {}),
        "schedule": {
            "kind": "wgmma_persistent",
            "swap_operands": True,
            **both["schedule"],
            "tile": {"m": 16, "n": 128, **both["schedule"]["tile"]},
        },
    }
    for name, both in SWAPPED.items()
}


def _merged(base: Any, over: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return base | {key: _merged(base.get(key), value) for key, value in over.items()}


def variant(name: str) -> LoadedSpec:
    """The spec of one variant. JSON is YAML, so it takes the way that a file takes."""
    kind = VARIANTS[name].get("schedule", {}).get("kind", "wgmma_ws")
    base = {**BASE, "schedule": {"kind": kind, **SCHEDULES[kind]}}
    text = json.dumps({"name": name, **_merged(base, VARIANTS[name])}, indent=1)
    return parse_spec(text, f"{name}.yaml")
