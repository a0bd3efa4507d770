"""What is put on the GPU for timing: the kernel and torch get the same memory and the same problem.

Runs on the strict stand-in for cupy; the kernel is replaced by one that records its arguments.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from strict_cupy import strict_cupy
from variants import variant

from kgen.bench.baselines import Baseline, baselines_of
from kgen.bench.device import Problem, contestants
from kgen.plan import lower
from kgen.run import Arguments, status_of
from kgen.verify import inputs
from kgen.verify.numbers import from_float32, number_format, to_float32, to_host
from kgen.verify.problem import numerics_of

torch = pytest.importorskip("torch", reason="torch is not installed: no baseline to run")


class Recorder:
    """Stands in for a loaded kernel."""

    def __init__(self) -> None:
        self.seen: list[Arguments] = []

    def prepare(self, x: Arguments) -> Any:
        self.seen.append(x)
        return lambda: None


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = strict_cupy()
    runtime = SimpleNamespace(getDeviceProperties=lambda device: {"l2CacheSize": 1})
    module.cuda = SimpleNamespace(Device=lambda: SimpleNamespace(id=0), runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


NOTES = {
    "persistent_e4m3_e5m2": "fast f32 accumulation, f16 output",
    "persistent_tf32_wrap": "f32 accumulation, f32 output",
    "persistent_s8": "s32 accumulation, s32 output",
}
NAMES = ["a_m_major", "b_n_major", "both_mn_major", "k_32", "f16_inputs_bf16_output", *NOTES]


@pytest.mark.parametrize("name", NAMES)
def test_torch_multiplies_what_the_kernel_is_given(cupy: Any, monkeypatch, name: str) -> None:
    """The launch is one that the launcher accepts, and every baseline leaves the right product."""
    plan, kernel, outs = lower(variant(name)), Recorder(), []
    from kgen.bench import device

    def keeping(one: Baseline) -> Baseline:
        def launcher(a: Any, b: Any, d: Any, formats: Any) -> Any:
            outs.append(d)
            return one.launcher(a, b, d, formats)

        return replace(one, launcher=launcher)

    kept = tuple(keeping(one) for one in baselines_of(numerics_of(plan)))
    monkeypatch.setattr(device, "baselines_of", lambda numerics: kept)
    problem = Problem(72, 48, 112)
    candidate, others = contestants(plan, kernel, problem, seed=3)  # type: ignore[arg-type]
    assert {status_of(plan, x) for x in kernel.seen} == {"ok"}
    assert len({x.d for x in kernel.seen}) == len(candidate.launchers) >= 2
    numerics = numerics_of(plan)
    generate = inputs.GENERATORS[inputs.random_kind(numerics)]
    x = generate(72, 48, 112, numerics, seed=3, xp=cupy)
    a, b = to_float32(to_host(x.a), numerics.a), to_float32(to_host(x.b), numerics.b)
    others[0].launchers[0]()
    output = kept[0].output
    got = to_float32(np.ascontiguousarray(to_host(outs[0])), output)
    product = (a.astype("float64") @ b.T).astype(number_format(output).value)
    want = to_float32(from_float32(product, output), output)
    near = 0.0 if numerics.has_integers else 2e-2
    np.testing.assert_allclose(got, want, rtol=near, atol=near)
    assert others[0].note == NOTES.get(name, f"f32 accumulation, {numerics.a} output")
    assert output == numerics.output or name == "f16_inputs_bf16_output"
