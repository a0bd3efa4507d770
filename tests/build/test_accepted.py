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
    consumers = rng.choice([1, 2, 2, 3, 4, 4, 5, 6, 7])
    operand = rng.choice(["f16", "bf16"])
    accumulator = rng.choice(["f32", "f16"]) if operand == "f16" else "f32"
    output = "f16" if accumulator == "f16" else rng.choice(["f16", "bf16"])
    schedule: dict[str, Any] = {
        "kind": "wgmma_ws",
        "tile": {
            "m": 64 * consumers,
            "n": rng.choice([64, 128, 192, 256]),
            "k": 16 * rng.choice([1, 2, 3, 4, 4, 5, 8, 12, 16, 24]),
        },
        "consumers": consumers,
        "stages": rng.choice(["auto", "auto", 1, 2, 3, 4]),
        "release": rng.choice(["previous", "same"]),
        "producer": rng.choice(["warp", "warpgroup"]),
        "swizzle_bytes": rng.choice(["auto", 32, 64, 128]),
        "raster": {"along": rng.choice("mn"), "group": rng.randint(1, 32)},
        "epilogue": {"kind": "tma_turns", "store_buffers": rng.randint(1, consumers)},
    }
    if schedule["producer"] == "warpgroup" and rng.random() < 0.5:
        schedule["registers"] = {
            "producer": 8 * rng.randint(3, 8),
            "consumer": 8 * rng.randint(8, 30),
        }
    return {
        "name": "accepted",
        "target": "sm_90a",
        "gemm": {
            "a": {"dtype": operand, "major": rng.choice("km")},
            "b": {"dtype": operand, "major": rng.choice("kn")},
            "d": {"dtype": output},
            "accumulator": accumulator,
        },
        "schedule": schedule,
    }


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
