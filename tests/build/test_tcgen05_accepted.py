"""Whatever the budget of a tcgen05 spec accepts, ptxas must accept: random specs, built.

KGEN_BUILD_FUZZ sets how many; the seed is fixed, so that a failure is found again.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from blackwell import MX, NVFP4, gemm, schedule

from kgen.api import build, lower
from kgen.errors import BudgetError, SpecError
from kgen.plan import KernelPlan
from kgen.spec import parse_spec

COUNT = int(os.environ.get("KGEN_BUILD_FUZZ", "16")) // 2
TYPES: list[tuple[str, dict[str, Any], int]] = [
    ("bf16", {}, 64), ("f16", {}, 64), ("tf32", {}, 32),
    ("e4m3", {"global_scale": True}, 128), ("e5m2", MX, 128),
    ("e2m1", MX, 256), ("e2m1", NVFP4, 256), ("e2m1", {**NVFP4, "global_scale": True}, 256),
]  # fmt: skip


def random_spec(rng: random.Random) -> dict[str, Any]:
    """A spec that is well-formed, and legal more often than not."""
    target = rng.choice(["sm_100a", "sm_103a", "sm_107a", "sm_107a"])
    operand, scales, row = rng.choice(TYPES)
    wide = target == "sm_107a" and operand.startswith("e") and rng.random() < 0.6
    pair = rng.random() < 0.6
    mma_m, mma_n = (256 if pair else 128), rng.choice([64, 128, 192, 256])
    m_tiles, n_tiles = rng.choice([(1, 1), (1, 1), (2, 1), (2, 2), (1, 2)])
    plan = schedule(
        (mma_m * m_tiles, mma_n * n_tiles, row * rng.choice([1, 1, 2])),
        (mma_m, mma_n),
        64 if wide else 32,
        (rng.choice([1, 2, 4, 8]), rng.choice([1, 1, 2, 4])),
        rng.choice(["tcgen05_ws", "tcgen05_ws", "tcgen05_ws_split"]),
        collector=rng.choice(["none", "none", "b_reuse", "ab_five_reads"]),
        epilogue={"store_buffers": rng.randint(1, 4)},
        raster={"along": rng.choice("mn"), "group": rng.randint(1, 32)},
        l2={"a": rng.choice(["normal", "evict_last"]), "b": rng.choice(["normal", "evict_first"])},
        pdl=rng.random() < 0.3,
        scheduler=rng.choice(["static", "static", "clc"]),
    )
    if rng.random() < 0.3:
        plan["stages"] = rng.randint(1, 6)
    problem = gemm(operand, rng.choice(["bf16", "f16", "f32"]), **scales)
    if "block_scale" not in scales and operand not in ("tf32", "e2m1"):
        problem["a"] = {"dtype": operand, "major": rng.choice("kkm")}
        problem["b"] = {"dtype": operand, "major": rng.choice("kkn")}
    return {"name": "accepted", "target": target, "gemm": problem, "schedule": plan}


def accepted(count: int) -> list[tuple[str, KernelPlan]]:
    """Specs from the space that the spec layer and the budget accept."""
    rng, found = random.Random(577), []
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
    assert kernel.registers <= plan.budget.launch_cap, text
