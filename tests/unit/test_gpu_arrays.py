"""The gates on arrays that do not mix with numpy's, as on a GPU: same verdicts, no implicit
copies.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from strict_cupy import strict_cupy

from kgen.verify import inputs
from kgen.verify.buffers import place_operand, place_output
from kgen.verify.check import check, make_reference
from kgen.verify.gates import guard_gate, repeat_gate
from kgen.verify.numbers import Numerics, from_float32
from kgen.verify.simulate import Defect, simulated_kernel

pytest.importorskip("torch", reason="torch is not installed: no reference for GPU arrays")


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch):
    """The strict stand-in under cupy's name."""
    module = strict_cupy()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_the_stand_in_is_strict(cupy) -> None:
    """Otherwise this file would prove nothing."""
    array = cupy.zeros((2, 2))
    host = np.ones((2, 2))
    for mix in (
        lambda: np.asarray(array),
        lambda: np.abs(array),
        lambda: array + host,
        lambda: host + array,
        lambda: cupy.abs(host),
        lambda: array[host > 0],
    ):
        with pytest.raises(TypeError):
            mix()


@pytest.mark.parametrize("kind", ["exact", "normal", "unit_variance"])
@pytest.mark.parametrize(
    ("name", "accumulator", "output"),
    [
        ("f16", "f16", "f16"),
        ("f16", "f32", "f16"),
        ("bf16", "f32", "bf16"),
        ("e4m3", "f32", "bf16"),
        ("e5m2", "f32", "f16"),
        ("tf32", "f32", "f32"),
        ("s8", "s32", "s32"),
    ],
)
@pytest.mark.parametrize("defect", [None, *Defect])
def test_verdicts_equal_those_on_numpy(
    cupy, kind: str, accumulator: str, name: str, output: str, defect: Defect | None
) -> None:
    """The same operands, the same defect: the same report, word for word."""
    numerics = Numerics(name, name, accumulator, output, 64, 32, 16, 32)
    if numerics.has_integers and kind == "unit_variance":
        return  # floats only
    kind = inputs.random_kind(numerics) if kind == "normal" else kind
    reports = []
    for options in ({}, {"xp": cupy}):
        operands = inputs.GENERATORS[kind](130, 72, 100, numerics, seed=2, **options)
        got = simulated_kernel(operands.a, operands.b, numerics, defect)
        reports.append(check(got, operands, numerics))
    assert str(reports[0]) == str(reports[1])
    assert reports[0].passed == (defect is None)


def test_buffers_and_repeats(cupy) -> None:
    """Guard bands, placed operands and repeats stay on the device too."""
    numerics = Numerics("bf16", "bf16", "f32", "bf16", 64, 32, 16, 32)
    operands = inputs.normal(70, 40, 64, numerics, xp=cupy)
    placed_a = place_operand(operands.a, 72, "bf16", offset=8)
    assert type(placed_a.view).__module__ == "cupy"
    out = place_output(70, 40, 48, "bf16", xp=cupy)
    out.view[...] = simulated_kernel(placed_a.view, operands.b, numerics)
    assert guard_gate(out).passed and check(out.view, operands, numerics).passed
    assert repeat_gate(out.view, [out.view.copy()], numerics).passed
    out.buffer[out.start + 40] = 0
    assert not guard_gate(out).passed


@pytest.mark.parametrize("kind", ["exact", "normal"])
def test_block_scales_are_judged_as_on_numpy(cupy, kind: str) -> None:
    """A right output, and one whose first block of B has another scale: the same reports."""
    numerics = Numerics("e4m3", "e4m3", "f32", "bf16", 64, 32, 128, 32, mma_k=32, block_k=128)
    reports = []
    for options in ({}, {"xp": cupy}):
        operands = inputs.GENERATORS[kind](130, 140, 300, numerics, seed=2, **options)
        ref = make_reference(operands, numerics)
        got = from_float32(ref.product.astype("float32"), "bf16")
        assert operands.scales is not None
        other = operands.scales.b.copy()
        other[:1] *= 2
        wrong = replace(operands, scales=replace(operands.scales, b=other))
        reports.append((check(got, operands, numerics), check(got, wrong, numerics)))
    assert str(reports[0]) == str(reports[1])
    assert [report.passed for report in reports[0]] == [True, False]
