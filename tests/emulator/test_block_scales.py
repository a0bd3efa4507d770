"""fp8 kernels with block scales in the emulator: exact as rendered, and planted faults found.

The variants of tests/variants.py run in test_kernels.py.
"""

from __future__ import annotations

import pytest
from variants import variant

from kgen.api import build, load_spec, lower, render
from kgen.build.compile import compile_source
from kgen.emu import emulate
from kgen.paths import data_folder
from kgen.plan import KernelPlan
from kgen.verify.emulator import expected, launch_of, scales_of, verify_in_emulator
from kgen.verify.problem import tile_of
from kgen.verify.shapes import Shape, shape

SHIPPED = data_folder("specs") / "hopper" / "fast" / "e4m3_scaled.yaml"
SMALL = "persistent_e4m3_e5m2_scaled_two_slabs"


def test_the_shipped_kernel_is_clean_and_exact() -> None:
    """Tails of M, N and K, cut tiles, and K = 0, where no scale is read."""
    plan = lower(load_spec(SHIPPED))
    ptx = build(plan, emit="ptx", line_info=True).data.decode()
    registers, tile = build(plan).resources[0].registers, tile_of(plan)
    shapes = [
        shape(tile, tile.m, tile.n, 0, "K = 0"),
        shape(tile, 3, 8, 16, "less than one block"),
        shape(tile, tile.m + 65, 2 * tile.n + 1, 5 * tile.k + 16, "cut in every direction"),
    ]
    cases, _ = verify_in_emulator(plan, ptx, shapes, ("early", "random:1"), registers)
    for case in cases:
        assert case.passed, f"{case.shape.label}: {case.report} {case.first_wrong}"


def _one_tile(plan: KernelPlan) -> Shape:
    tile = tile_of(plan)
    return shape(tile, tile.m - 1, tile.n - 1, 3 * tile.k, "three blocks")


def test_every_scale_of_the_emulated_launch_counts() -> None:
    """Blocks and rows have scales of their own, so that a mix-up shows in D."""
    plan = lower(variant(SMALL))
    scales = scales_of(plan, launch_of(plan, _one_tile(plan)))
    assert len({tuple(x) for x in scales.a}) == 3
    assert len(set(scales.a[0])) > 4
    assert len(set(scales.b[0])) == 3


FAULTS = {
    # a line of the rendered source, its replacement, and a finding, or "" for wrong values
    "one block's scales throughout": ("if (++k_block == problem.k_tiles) k_block = 0;", "", ""),
    "the scale of a row for the one 8 below": ("holder + 8)", "holder)", ""),
    "the first slab's scales for the second": ("slab % 2 * kPanelM", "0", ""),
    "scales of rows that are not there": ("if (row < problem.m) ", "", "global-bounds"),
    "sums read before they are there": (
        "ptx::wgmma_wait<0>();\n                ptx::wgmma_tie(block);",
        "ptx::wgmma_tie(block);",
        "accumulator-in-flight",
    ),
    "sums of the block before kept": ("(block, a, b, 0)", "(block, a, b, 1)", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    plan = lower(variant(SMALL))
    source, (line, replacement, kind) = render(plan).source, FAULTS[fault]
    assert source.count(line) == 1, line
    artifact = compile_source(
        source.replace(line, replacement),
        name=plan.name,
        target=plan.target,
        emit="ptx",
        line_info=True,
    )
    launch = launch_of(plan, _one_tile(plan))
    report = emulate(artifact.data.decode(), launch, ("early",))
    if kind:
        assert kind in {finding.kind for finding in report.findings}, str(report)
    else:
        assert report.verdict == "clean", str(report)
        assert (report.outputs["d"] != expected(plan, launch)).any()
