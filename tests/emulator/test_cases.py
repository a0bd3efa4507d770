"""Emulated halves of bug reports about resident grids; each test names its row.

tests/gpu/test_persistent.py has the device halves, of the same kernels on larger shapes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import changed
from persistent import ON_DEVICE, on_device, plan_of

from kgen.api import build, load_spec, lower, render
from kgen.build.compile import compile_source
from kgen.emu import Launch, emulate
from kgen.emu.launch import File, bits_of
from kgen.paths import data_folder
from kgen.plan import KernelPlan
from kgen.verify.emulator import expected, launch_of
from kgen.verify.problem import tile_of
from kgen.verify.shapes import shape

M, N = 512, 504
"""Four cluster tiles of 256 x 256, the last columns of two of them beyond D."""
SCHEDULES = ("early", "latestore", "random:1")


def in_turn(name: str) -> KernelPlan:
    """A kernel of the GPU tests on one cluster, which takes all tiles one after another."""
    one = {"name: sample": f"name: {name}", "clusters: auto": "clusters: 1"}
    return plan_of(ON_DEVICE[name] | one)


def launch(plan: KernelPlan, m: int, n: int, k: int) -> Launch:
    registers = build(plan).resources[0].registers
    return launch_of(plan, shape(tile_of(plan), m, n, k, "of the row"), registers=registers)


def ptx_of(plan: KernelPlan, faults: dict[str, str] | None = None) -> str:
    """PTX of the rendered source with parts replaced."""
    source = changed(faults, render(plan).source)
    artifact = compile_source(
        source, name=plan.name, target=plan.target, emit="ptx", line_info=True
    )
    return artifact.data.decode()


class NormalOperands:
    """A and B of normal numbers, so that another order of additions shows in D."""

    def __init__(self, folder: Path, k: int) -> None:
        self.k = k
        self.fills = {name: File(str(folder / f"{name}.npy")) for name in "ab"}
        random = np.random.default_rng(k)
        for rows, fill in zip((M, N), self.fills.values(), strict=True):
            np.save(fill.path, bits_of(random.standard_normal((rows, k)), "bf16"))

    def given_to(self, plan: KernelPlan) -> Launch:
        """The launch of a plan, with these operands."""
        plain = launch(plan, M, N, self.k)
        arrays = (replace(a, fill=self.fills.get(a.name, a.fill)) for a in plain.arrays)
        return replace(plain, arrays=tuple(arrays))


@pytest.fixture(scope="module", params=[4, 5, 7], ids="{} K tiles".format)
def problem(request, tmp_path_factory) -> tuple[NormalOperands, np.ndarray]:
    """Operands of so many K tiles, and D of a kernel with a CTA for each tile."""
    operands = NormalOperands(tmp_path_factory.mktemp("operands"), 64 * request.param)
    plan = on_device()["a3_not_resident"]
    report = emulate(ptx_of(plan), operands.given_to(plan), ("early",))
    assert report.verdict == "clean", str(report)
    return operands, report.outputs["d"]


@pytest.mark.parametrize("name", ["a3_deferred", "a3_at_once"])
def test_a3_several_tiles_a_cta_are_those_of_one_tile_a_cta(name: str, problem) -> None:
    """Buffers of D are used again and again, three stages behind tiles of four, five or seven."""
    operands, want = problem
    plan = in_turn(name)
    given = operands.given_to(plan)
    assert plan.stages == 3 and given.grid == (2, 1, 1)
    report = emulate(ptx_of(plan), given, SCHEDULES)
    assert report.verdict == "clean", str(report)
    for run in report.runs:
        assert np.array_equal(run.outputs["d"], want), run.schedule


def test_a3_a_tile_that_does_not_wait_for_the_stores_of_the_one_before_is_found(problem) -> None:
    """Within a tile buffers are waited for as before."""
    operands, want = problem
    faults = {"if (panel == 0) ptx::tma_store_wait_read();": "if (panel == 0) ;"}
    plan = in_turn("a3_at_once")
    report = emulate(ptx_of(plan, faults), operands.given_to(plan), ("latestore",))
    assert "race" in {finding.kind for finding in report.findings}, str(report)
    assert not np.array_equal(report.outputs["d"], want)


@pytest.fixture
def decode() -> KernelPlan:
    """Operands swapped, as is made for few rows."""
    return lower(load_spec(data_folder("specs") / "hopper/fast/bf16_decode.yaml"))


@pytest.mark.parametrize(("n", "k"), [(8192, 512), (12288, 512), (1024, 2048)])
def test_a5_few_rows_and_many_columns(decode: KernelPlan, n: int, k: int) -> None:
    """The columns of the report; and a longer K, for fewer of them."""
    given = launch(decode, 8, n, k)
    report = emulate(ptx_of(decode), given, ("early",))
    assert report.verdict == "clean", str(report)
    assert np.array_equal(report.outputs["d"], expected(decode, given))


@pytest.mark.parametrize(("n", "right"), [(8192, True), (12288, False)])
def test_a5_too_short_a_column_is_found_at_more_columns(
    decode: KernelPlan, n: int, right: bool
) -> None:
    """B's coordinate cut to 13 bits: what was reported, right in silence for 8192 columns."""
    fault = {"tile.row, tile.col, k_tile);": "tile.row, tile.col & 0x1fff, k_tile);"}
    given = launch(decode, 8, n, decode.tile[2])
    report = emulate(ptx_of(decode, fault), given, ("early",))
    assert np.array_equal(report.outputs["d"], expected(decode, given)) == right
