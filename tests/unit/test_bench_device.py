"""What is put on the GPU for timing: the kernel and torch get the same memory and the same problem.

Runs on the strict stand-in for cupy; the kernel is replaced by one that records its arguments.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from strict_cupy import strict_cupy
from variants import variant

from kgen.bench.device import Problem, contestants
from kgen.plan import lower
from kgen.run import Arguments, status_of
from kgen.verify import inputs
from kgen.verify.numbers import from_float32, to_float32, to_host
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


NAMES = ["a_m_major", "b_n_major", "both_mn_major", "k_32", "f16_inputs_bf16_output"]


@pytest.mark.parametrize("name", NAMES)
def test_torch_multiplies_what_the_kernel_is_given(cupy: Any, monkeypatch, name: str) -> None:
    """The launch is one that the launcher accepts, and every baseline leaves the right product."""
    plan, kernel, outs = lower(variant(name)), Recorder(), []
    from kgen.bench import baselines, device

    def keep(a: Any, b: Any, d: Any, formats: Any, **options: Any) -> Any:
        outs.append(d)
        return baselines.torch_mm(a, b, d, formats, **options)

    monkeypatch.setattr(device, "torch_mm", keep)
    problem = Problem(72, 40, 100)
    candidate, others = contestants(plan, kernel, problem, seed=3)  # type: ignore[arg-type]
    assert {status_of(plan, x) for x in kernel.seen} == {"ok"}
    assert len({x.d for x in kernel.seen}) == len(candidate.launchers) >= 2
    numerics = numerics_of(plan)
    x = inputs.normal(72, 40, 100, numerics, seed=3, xp=cupy)
    a, b = (to_float32(to_host(m), numerics.a) for m in (x.a, x.b))
    others[0].launchers[0]()
    got = to_float32(np.ascontiguousarray(to_host(outs[0])), numerics.a)
    want = to_float32(from_float32((a @ b.T).astype("float32"), numerics.a), numerics.a)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2)
    assert others[0].note == f"f32 accumulation, {numerics.a} output"
