"""Puts a kernel and cuBLAS on the same GPU buffers, so that the protocol can time them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kgen.bench.baselines import baselines_of, computes
from kgen.bench.protocol import Bench, Contestant, Measurement, Reading, Settings, measure
from kgen.bench.sampler import nvml_sampler
from kgen.plan import KernelPlan
from kgen.run import Kernel
from kgen.verify import inputs
from kgen.verify.buffers import PlacedMatrix, place_output
from kgen.verify.device import arguments_of
from kgen.verify.numbers import Numerics, number_format
from kgen.verify.problem import numerics_of, operand_in_memory, tile_of
from kgen.verify.shapes import shape

L2_MULTIPLE = 3  # the buffer sets together are at least this many L2 caches
MINIMUM_SETS = 2


@dataclass(frozen=True)
class Problem:
    """M x N x K in elements."""

    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Multiply-adds count twice."""
        return 2 * self.m * self.n * self.k


def gpu_facts() -> dict[str, Any]:
    """What a result must say about the device that it was measured on."""
    import cupy

    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(cupy.cuda.Device().id)
    bus = runtime.deviceGetPCIBusId(cupy.cuda.Device().id)
    return {
        "name": properties["name"].decode(),
        "sm_count": properties["multiProcessorCount"],
        "l2_bytes": properties["l2CacheSize"],
        "pci_bus_id": bus,
        "driver": driver_version(),
        "cuda_driver_api": runtime.driverGetVersion(),
    }


def driver_version() -> str:
    """The display driver's version by NVML, or why it is not known."""
    try:
        import pynvml
    except ImportError:
        return "not read: nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError as error:
        return f"not read: {error}"
    return version.decode() if isinstance(version, bytes) else version


def device_bench() -> Bench:
    """Clock, pauses and sensors of the current GPU. Times are from events on its stream."""
    import time

    import cupy

    def elapsed(work: Callable[[], None]) -> float:
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        return cupy.cuda.get_elapsed_time(start, stop) / 1e3

    device = cupy.cuda.Device()
    bus = cupy.cuda.runtime.deviceGetPCIBusId(device.id)
    return Bench(elapsed, device.synchronize, time.sleep, nvml_sampler(bus))


def contestants(
    plan: KernelPlan, kernel: Kernel, problem: Problem, seed: int = 0
) -> tuple[Contestant, list[Contestant]]:
    """The kernel and its baselines on shared buffer sets of random numbers.

    The sets are used in turn and together exceed L2 by L2_MULTIPLE, so that no launch finds the
    operands of the one before.
    """
    import cupy

    numerics = numerics_of(plan)
    device = cupy.cuda.Device()
    cache = cupy.cuda.runtime.getDeviceProperties(device.id)["l2CacheSize"]
    sets = max(MINIMUM_SETS, -(-L2_MULTIPLE * cache // _bytes(numerics, problem)))
    layout = shape(tile_of(plan), problem.m, problem.n, problem.k, "timed")
    make = inputs.GENERATORS[inputs.random_kind(numerics)]
    baselines = baselines_of(numerics)
    own: list[Callable[[], None]] = []
    others: list[list[Callable[[], None]]] = [[] for _ in baselines]
    for index in range(sets):
        x = make(problem.m, problem.n, problem.k, numerics, seed=seed + index, xp=cupy)
        a, b = (operand_in_memory(plan, m, o, layout) for m, o in ((x.a, "a"), (x.b, "b")))
        d = place_output(problem.m, problem.n, layout.ldd, numerics.output, xp=cupy)
        own.append(kernel.prepare(arguments_of(layout, a, b, d)))
        # torch multiplies the same memory, through transposed views where it is stored so, into a
        # buffer of its own where it writes another type than the kernel.
        left, right = (_as_rows(plan, m, o) for m, o in ((a, "a"), (b, "b")))
        for baseline, launchers in zip(baselines, others, strict=True):
            same = numerics.output == baseline.output
            storage = number_format(baseline.output).storage
            out = d.view if same else cupy.empty((problem.m, problem.n), dtype=storage)
            formats = (numerics.a, numerics.b, baseline.output)
            launchers.append(baseline.launcher(left, right, out, formats))
    return Contestant(plan.name, tuple(own), computes(numerics)), [
        Contestant(baseline.name, tuple(launchers), baseline.note)
        for baseline, launchers in zip(baselines, others, strict=True)
    ]


def _bytes(numerics: Numerics, problem: Problem) -> int:
    """Of one set of A, B and D."""
    a, b, d = (number_format(x).bytes for x in (numerics.a, numerics.b, numerics.output))
    return a * problem.m * problem.k + b * problem.n * problem.k + d * problem.m * problem.n


def _as_rows(plan: KernelPlan, placed: PlacedMatrix, operand: str) -> Any:
    """The matrix with rows along M or N, whatever its order in memory."""
    row = next(r for r in plan.maps if r.operand == operand)
    return placed.view if row.inner == "k" else placed.view.T


def bench_on_gpu(
    plan: KernelPlan,
    kernel: Kernel,
    problem: Problem,
    settings: Settings,
    progress: Callable[[Reading], None] = lambda reading: None,
) -> tuple[Measurement, list[Contestant]]:
    """Time one problem against every baseline that computes the same product.

    Returns the readings, and the contestants with their like-for-like notes, candidate first.
    """
    candidate, baselines = contestants(plan, kernel, problem)
    measurement = measure(candidate, baselines, settings, device_bench(), progress)
    return measurement, [candidate, *baselines]
