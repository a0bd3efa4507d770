"""Whatever the budget accepts, ptxas must accept: random specs from the whole space, built.

KGEN_BUILD_FUZZ sets how many; the seed is fixed, so that a failure is found again.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from kgen.api import build, lower
from kgen.errors import BudgetError, SpecError
from kgen.plan import KernelPlan
from kgen.spec import parse_spec

COUNT = int(os.environ.get("KGEN_BUILD_FUZZ", "16"))


def random_spec(rng: random.Random) -> dict[str, Any]:
    """A spec that is well-formed, and near the limits more often than not."""
    kind = rng.choice(["wgmma_ws", "wgmma_ws", "wgmma_single", "mma_sync"])
    operand = rng.choice(["f16", "bf16"])
    accumulator = rng.choice(["f32", "f16"]) if operand == "f16" else "f32"
    output = "f16" if accumulator == "f16" else rng.choice(["f16", "bf16"])
    majors = ("k", "k") if kind == "mma_sync" else (rng.choice("km"), rng.choice("kn"))
    return {
        "name": "accepted",
        "target": "sm_90a",
        "gemm": {
            "a": {"dtype": operand, "major": majors[0]},
            "b": {"dtype": operand, "major": majors[1]},
            "d": {"dtype": output},
            "accumulator": accumulator,
        },
        "schedule": {
            "kind": kind,
            "stages": rng.choice(["auto", "auto", 1, 2, 3, 4]),
            "swizzle_bytes": rng.choice(["auto", 32, 64, 128]),
            "raster": {"along": rng.choice("mn"), "group": rng.choice([1, rng.randint(2, 32)])},
            **_FIELDS[kind](rng),
        },
    }


def _wgmma_fields(rng: random.Random) -> dict[str, Any]:
    consumers = rng.choice([1, 2, 2, 3, 4, 4, 5, 6, 7])
    tile = {
        "m": 64 * consumers * rng.choice([1, 1, 1, 2, 2, 3, 4]),
        "n": rng.choice([8, 64, 128, 192, 256, 8 * rng.randint(1, 32)]),
        "k": 16 * rng.choice([1, 2, 3, 4, 4, 5, 8, 12, 16, 24]),
    }
    return {"tile": tile, "consumers": consumers}


def _ws_fields(rng: random.Random) -> dict[str, Any]:
    fields = _wgmma_fields(rng)
    fields["release"] = rng.choice(["previous", "same"])
    fields["producer"] = rng.choice(["warp", "warpgroup"])
    buffers = rng.randint(1, fields["consumers"])
    turns = {"kind": "tma_turns", "store_buffers": buffers}
    fields["epilogue"] = rng.choice([turns, turns, {"kind": "direct"}])
    if fields["producer"] == "warpgroup" and rng.random() < 0.5:
        fields["registers"] = {
            "producer": 8 * rng.randint(3, 8),
            "consumer": 8 * rng.randint(8, 30),
        }
    return fields


def _mma_sync_fields(rng: random.Random) -> dict[str, Any]:
    m, n = rng.choice([(1, 1), (2, 2), (2, 2), (4, 2), (2, 4), (4, 4), (1, 8), (3, 3)])
    tile = {
        "m": m * 16 * rng.randint(1, 6),
        "n": n * 16 * rng.randint(1, 6),
        "k": 16 * rng.choice([1, 2, 3, 4, 6, 8]),
    }
    return {"tile": tile, "warps": {"m": m, "n": n}}


_FIELDS = {"wgmma_ws": _ws_fields, "wgmma_single": _wgmma_fields, "mma_sync": _mma_sync_fields}


def accepted(count: int) -> list[tuple[str, KernelPlan]]:
    """Specs from the space that the spec layer and the budget accept."""
    rng, found = random.Random(2718), []
    while len(found) < count:
        text = json.dumps(random_spec(rng))
        try:
            found.append((text, lower(parse_spec(text))))
        except (SpecError, BudgetError):
            continue
    return found


@pytest.mark.parametrize(("text", "plan"), accepted(COUNT), ids=map(str, range(COUNT)))
def test_an_accepted_spec_builds_clean(text: str, plan: KernelPlan) -> None:
    artifact = build(plan)
    kernel = next(r for r in artifact.resources if r.kernel == plan.name)
    assert kernel.stack_bytes == 0, text
