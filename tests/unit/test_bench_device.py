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

from kgen.bench import device
from kgen.bench.baselines import Baseline, baselines_of
from kgen.bench.device import Problem, baselines_on, buffers_for, contestants
from kgen.errors import LaunchError
from kgen.plan import lower
from kgen.run import Arguments, status_of
from kgen.verify import inputs
from kgen.verify.numbers import from_float32, number_format, to_float32, to_host
from kgen.verify.problem import numerics_of
from kgen.verify.scaling import Scales

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


def test_torch_gets_the_block_scales_as_it_wants_them(cupy: Any, monkeypatch) -> None:
    """f32 scales by their definition, in the strides that torch asks for; no fast accumulation."""

    def by_definition(left, turned, *, scale_a, scale_b, out_dtype, use_fast_accum, out) -> None:
        (m, k), n = left.shape, turned.shape[1]
        assert scale_a.stride() == (1, m)
        assert scale_b.T.is_contiguous()
        assert (out_dtype, use_fast_accum) == (out.dtype, False)
        rows = scale_a.double().repeat_interleave(128, 1)[:, :k]
        blocks = scale_b.T.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:n, :k]
        out.copy_((left.double() * rows) @ (turned.T.double() * blocks).T)

    monkeypatch.setattr(torch, "_scaled_mm", by_definition)
    plan, kernel = lower(variant("persistent_e4m3_scaled_deferred_wrap")), Recorder()
    candidate, (baseline,) = contestants(plan, kernel, Problem(72, 144, 272), seed=3)  # type: ignore[arg-type]
    assert {status_of(plan, x) for x in kernel.seen} == {"ok"}
    assert len({x.sfa for x in kernel.seen} | {x.sfb for x in kernel.seen}) == 2 * len(kernel.seen)
    assert candidate.note == baseline.note == "f32 sums of scaled blocks of 128, bf16 output"
    assert baseline.name == "torch._scaled_mm, block scales"
    buffers = buffers_for(plan, Problem(72, 144, 272), seed=3)
    baselines_on(plan, buffers)[0].launchers[0]()
    numerics = numerics_of(plan)
    x = inputs.normal(72, 144, 272, numerics, seed=3, xp=cupy)
    assert x.scales is not None
    scales = Scales(to_host(x.scales.a), to_host(x.scales.b), 128)
    a, b = scales.applied(*(to_float32(to_host(y), "e4m3") for y in (x.a, x.b)))
    got = to_float32(np.ascontiguousarray(to_host(buffers.sets[0].d.view)), "bf16")
    np.testing.assert_allclose(got, a @ b.T, rtol=2**-8, atol=1e-3)


class Pinned(bytearray):
    """Memory that host and device share."""

    ptr = 0x1000


@pytest.mark.parametrize("fails", [False, True])
def test_a_window_is_queued_while_the_stream_is_blocked(cupy: Any, monkeypatch, fails) -> None:
    """From its first event to its last; what fails on the way leaves no blocked stream."""
    memory, order = Pinned(4), []

    def is_over() -> bool:
        return memory == b"\1\0\0\0"

    class Event:
        def record(self) -> None:
            order.append(("event", is_over()))

        def synchronize(self) -> None:
            order.append(("wait", is_over()))

    def kernel(source: str, name: str) -> Any:
        assert f"__global__ void {name}(" in source
        return lambda grid, block, arguments: order.append((name, is_over()))

    def work() -> None:
        order.append(("work", is_over()))
        if fails:
            raise LaunchError("refused")

    cupy.RawKernel = kernel
    cupy.cuda.alloc_pinned_memory = lambda size: memory
    cupy.cuda.Event, cupy.cuda.get_elapsed_time = Event, lambda start, stop: 2.0
    cupy.cuda.Device = lambda: SimpleNamespace(id=0, synchronize=None)
    cupy.cuda.runtime.deviceGetPCIBusId = str
    monkeypatch.setattr(device, "nvml_sampler", lambda bus: None)
    bench = device.device_bench()
    queued = [("block", False), ("event", False), ("work", False)]
    if fails:
        with pytest.raises(LaunchError):
            bench.elapsed(work)
        assert (order, is_over()) == (queued, True)
        return
    assert bench.elapsed(work) == 2e-3
    assert order == [*queued, ("event", False), ("wait", True)]
