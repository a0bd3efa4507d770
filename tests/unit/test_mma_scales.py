"""Verification of tcgen05 kernels on a device: the formats in memory, and mistakes that it finds.

No such device is here. A kernel on the CPU reads the same memory through its launch arguments, and
arrays do not mix with numpy's, as on a GPU.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from blackwell import variant
from memory_kernel import MemoryKernel, Mistake
from strict_cupy import strict_cupy

from kgen.bench.baselines import baselines_of
from kgen.errors import KgenError, LaunchError
from kgen.plan import KernelPlan, lower
from kgen.verify.device import Case, run_case, verify_on_gpu
from kgen.verify.inputs import exact_plan
from kgen.verify.mma_scales import exact, normal
from kgen.verify.numbers import to_float32
from kgen.verify.problem import numerics_of, tile_of
from kgen.verify.shapes import derived_shapes, emulator_shapes, shape

pytest.importorskip("torch", reason="torch is not installed: no reference for GPU arrays")

SCALED = ["mxfp8_one_cta", "nvfp4_pair_global", "mxfp4_pair_4x1", "rubin_nvfp4", "rubin_mxfp8"]
DENSE = ["fp8_mn_major", "f16_f32_output", "fp8_global"]
CAN_MAKE = {
    "nvfp4_pair_global": set(Mistake),
    "rubin_mxfp8": set(Mistake) - {Mistake.NO_ALPHA, Mistake.SWAPPED_PAIRS},
    "fp8_global": {Mistake.NO_ALPHA, Mistake.LOST_BLOCK},
}


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch):
    """The strict stand-in under cupy's name."""
    module = strict_cupy()
    device = SimpleNamespace(synchronize=lambda: None)
    module.cuda = SimpleNamespace(Device=lambda: device)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def plan_of(name: str) -> KernelPlan:
    return lower(variant(name))


def case_of(plan: KernelPlan, size: tuple[int, int, int], kind: str, mistake=None) -> Case:
    kernel = MemoryKernel(plan, mistake)
    return run_case(plan, kernel, shape(tile_of(plan), *size, "here"), kind, seed=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*SCALED, *DENSE])
def test_a_right_kernel_passes_on_derived_shapes(name):
    """The dozen with least work: tails, cut tiles, odd ldd, padded rows, moved bases, K = 0."""
    plan = plan_of(name)
    whole = tile_of(plan).k_whole
    shapes = sorted(emulator_shapes(tile_of(plan)), key=lambda s: s.m * s.n * s.k)[:12]
    assert {s.k % whole for s in shapes} == {0}
    assert any(s.offset_a for s in shapes) and any(s.lda > s.k for s in shapes)
    small = next(s for s in shapes if s.k)
    cases = verify_on_gpu(plan, MemoryKernel(plan), [small])  # type: ignore[arg-type]
    assert any(r.gate == "repeats" for c in cases for r in c.report.results)
    for one in shapes:
        for kind in ("exact", "normal"):
            cases.append(run_case(plan, MemoryKernel(plan), one, kind))  # type: ignore[arg-type]
    wrong = [f"{c.shape.label}: {c.report}" for c in cases if not c.passed]
    assert not wrong, wrong[0]


@pytest.mark.parametrize("size", [(96, 1856, 2688), (192, 96, 2688), (1, 192, 64)])
def test_sizes_that_leave_scales_padded(size):
    """flashinfer-ai/flashinfer#4653: NVFP4 with 1856, 192 and 96 rows, K = 2688."""
    for kind in ("exact", "normal"):
        report = case_of(plan_of("nvfp4_pair_global"), size, kind).report
        assert report.passed, str(report)


@pytest.mark.parametrize("kind", ["exact", "normal"])
@pytest.mark.parametrize("mistake", Mistake)
@pytest.mark.parametrize("name", ["nvfp4_pair_global", "rubin_mxfp8", "fp8_global"])
def test_mistakes_are_found(name, mistake, kind):
    """mlc-ai/TIRx-kernels#5: the first of four packed scales used for all, unseen by a cosine."""
    plan = plan_of(name)
    if mistake not in CAN_MAKE[name]:
        assert case_of(plan, (300, 200, 1024), kind, mistake).passed  # it has no such thing
        return
    case = case_of(plan, (300, 200, 1024), kind, mistake)
    assert not case.passed, f"{mistake.value}: {case.report}"


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("k", [256, 8192])
def test_exact_operands_are_exact_and_have_scales_that_differ(cupy, name, k):
    """Values are integers within the plan; every scale occurs, and so does every sign."""
    numerics = numerics_of(plan_of(name))
    operands = exact(128, 64, k, numerics, seed=1)
    amplitude = exact_plan(k, numerics, 4).amplitude
    values = operands.a / operands.alpha
    assert np.array_equal(values, np.round(values))
    assert 2 < np.abs(values).max() <= amplitude and values.min() == -values.max()
    scales = to_float32(operands.mma_scales[0], numerics.scaling.scale)  # type: ignore[union-attr]
    assert set(np.unique(scales)) >= {1.0, 2.0}
    rows = np.repeat(scales, numerics.scaling.block, axis=1)  # type: ignore[union-attr]
    elements = to_float32(operands.elements[0], numerics.scaling.a)  # type: ignore[union-attr]
    assert np.array_equal(elements * rows, values)


def test_random_operands_use_the_whole_type_and_its_scales():
    """All 16 patterns of e2m1; scales of ue4m3 with fractions."""
    numerics = numerics_of(plan_of("rubin_nvfp4"))
    operands = normal(256, 64, 512, numerics, seed=1)
    assert set(np.unique(operands.elements[0])) == set(range(16))
    assert len(np.unique(operands.mma_scales[0])) > 20


def test_sums_of_fp8_are_held_to_f32_on_tcgen05():
    """14 bits are Hopper's; the documented accumulator of tcgen05 is f32."""
    numerics = numerics_of(plan_of("fp8_pair_8x1"))
    assert (numerics.family, numerics.a, numerics.sums_fp8) == ("tcgen05", "e4m3", False)
    assert numerics.mma_k == 32 and numerics_of(plan_of("rubin_fp8_five_reads")).mma_k == 64


def test_a_k_that_padding_would_reach_is_refused_as_the_launcher_does():
    with pytest.raises(LaunchError, match=r"k_not_whole_scales.*\(k = 100\)"):
        case_of(plan_of("nvfp4_pair_global"), (64, 64, 100), "exact")


def test_every_derived_shape_of_a_scaled_kernel_has_whole_scales():
    plan = plan_of("rubin_nvfp4")
    found = derived_shapes(tile_of(plan), 224)
    assert {s.k % 64 for s in found} == {0} and {s.lda % 32 for s in found} == {0}


def test_block_scales_are_not_timed_and_it_is_said():
    with pytest.raises(
        KgenError,
        match="scales of tcgen05 have no baseline to be timed against; kgen verify --on gpu",
    ):
        baselines_of(numerics_of(plan_of("rubin_nvfp4")))
