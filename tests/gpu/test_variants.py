"""Every variant of the schedule is right on the GPU, on integers, bit for bit."""

from __future__ import annotations

import pytest
from variants import VARIANTS, variant

from kgen.api import build, lower
from kgen.run import Kernel
from kgen.verify.device import run_case
from kgen.verify.inputs import random_kind
from kgen.verify.problem import numerics_of, tile_of
from kgen.verify.shapes import shape

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", VARIANTS)
def test_variant_is_exact(gpu: None, name: str) -> None:
    plan = lower(variant(name))
    kernel, tile = Kernel(plan, build(plan).path), tile_of(plan)
    ring = tile.k * tile.stages
    sizes = [
        (tile.m, tile.n, tile.k),
        (tile.m + 1, tile.n + 8, ring + 8),
        (2 * tile.m - 1, 3 * tile.n + 1, 2 * ring - 8),
        (5 * tile.m, 4 * tile.n, ring + tile.k),
    ]
    for m, n, k in sizes:
        for kind in ("exact", random_kind(numerics_of(plan))):
            case = run_case(plan, kernel, shape(tile, m, n, k, "variant"), kind)
            assert case.passed, f"{case.shape.label} {case.report}"
