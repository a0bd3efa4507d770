"""Puts a kernel and cuBLAS on the same GPU buffers, so that the protocol can time them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.bench.baselines import Baseline, baselines_of, computes
from kgen.bench.protocol import Bench, Contestant, Measurement, Reading, Settings, measure
from kgen.bench.sampler import nvml_sampler
from kgen.plan import KernelPlan
from kgen.run import Arguments, Kernel
from kgen.verify import inputs
from kgen.verify.buffers import PlacedMatrix, place_output
from kgen.verify.inputs import Operands
from kgen.verify.numbers import Numerics, number_format
from kgen.verify.problem import (
    PlacedOperands,
    arguments_of,
    numerics_of,
    operand_in_memory,
    scales_in_memory,
    tile_of,
)
from kgen.verify.shapes import Shape, shape

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


class BlockingKernel:
    """Blocks the stream while work is queued behind it, so that a window of short launches takes
    as long as the device needs for them, not as long as the host needs to launch them.

    It ends by itself after `_LONGEST_NS`: a full queue would otherwise block the host for ever.
    """

    _LONGEST_NS = 50_000_000
    _SOURCE = """
    extern "C" __global__ void block(const volatile unsigned* is_over, unsigned long long longest) {
        unsigned long long start, now;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
        do {
            asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        } while (*is_over == 0 && now - start < longest);
    }
    """

    def __init__(self) -> None:
        import cupy

        self._kernel = cupy.RawKernel(self._SOURCE, "block")
        self._memory = cupy.cuda.alloc_pinned_memory(4)
        self._is_over = np.frombuffer(self._memory, np.uint32, 1)

    def block(self) -> None:
        """Queue the kernel: what is queued next waits."""
        self._is_over[0] = 0
        arguments = (np.uint64(self._memory.ptr), np.uint64(self._LONGEST_NS))
        self._kernel((1,), (1,), arguments)

    def unblock(self) -> None:
        """Let what was queued run."""
        self._is_over[0] = 1


def device_bench() -> Bench:
    """Clock, pauses and sensors of the current GPU. Times are from events on its stream."""
    import time

    import cupy

    blocking = BlockingKernel()

    def elapsed(work: Callable[[], None]) -> float:
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        blocking.block()
        try:
            start.record()
            work()
            stop.record()
        finally:
            blocking.unblock()
        stop.synchronize()
        return cupy.cuda.get_elapsed_time(start, stop) / 1e3

    device = cupy.cuda.Device()
    bus = cupy.cuda.runtime.deviceGetPCIBusId(device.id)
    return Bench(elapsed, device.synchronize, time.sleep, nvml_sampler(bus))


@dataclass(frozen=True)
class BufferSet:
    """Operands and output of one launch."""

    a: PlacedMatrix
    b: PlacedMatrix
    d: PlacedMatrix
    left: Any  # A with rows along M, whatever its order in memory
    right: Any  # B with rows along N
    scales: tuple[PlacedMatrix, ...] = ()  # of blocks of A and of B

    def arguments(self, layout: Shape) -> Arguments:
        """Launch arguments on these buffers."""
        return arguments_of(layout, PlacedOperands(self.a, self.b, self.scales), self.d)


@dataclass(frozen=True)
class Buffers:
    """Buffer sets of random normal numbers for one problem, used in turn.

    Together they exceed L2 by L2_MULTIPLE, so that no launch finds the operands of the one before.
    """

    layout: Shape
    sets: tuple[BufferSet, ...]


def operand_layout(plan: KernelPlan) -> tuple[Any, ...]:
    """What of a plan decides its buffers: plans that agree here can be timed on the same ones."""
    gemm = plan.budget.spec.gemm
    return (gemm, *((row.operand, row.dtype.name, row.inner, row.ld) for row in plan.input_maps))


def buffers_for(plan: KernelPlan, problem: Problem, seed: int = 0) -> Buffers:
    """Fresh buffers on the current GPU. Raises KgenError where no baseline computes the product."""
    import cupy

    numerics = numerics_of(plan)
    baselines_of(numerics)  # refuses what nothing could be timed against
    device = cupy.cuda.Device()
    cache = cupy.cuda.runtime.getDeviceProperties(device.id)["l2CacheSize"]
    sets = max(MINIMUM_SETS, -(-L2_MULTIPLE * cache // _bytes(numerics, problem)))
    layout = shape(tile_of(plan), problem.m, problem.n, problem.k, "timed")
    make = inputs.GENERATORS[inputs.random_kind(numerics)]
    size = (problem.m, problem.n, problem.k)
    found = (make(*size, numerics, seed=seed + index, xp=cupy) for index in range(sets))
    return Buffers(layout, tuple(buffer_set(plan, x, layout) for x in found))


def buffer_set(plan: KernelPlan, x: Operands, layout: Shape) -> BufferSet:
    """Operands in memory as the plan's kernel reads them, and an output, on the current GPU."""
    import cupy

    a, b = (operand_in_memory(plan, m, o, layout) for m, o in ((x.a, "a"), (x.b, "b")))
    d = place_output(layout.m, layout.n, layout.ldd, numerics_of(plan).output, xp=cupy)
    # Libraries multiply the same memory, through transposed views where it is stored so.
    left, right = (_as_rows(plan, m, o) for m, o in ((a, "a"), (b, "b")))
    return BufferSet(a, b, d, left, right, scales_in_memory(x))


def candidate_on(plan: KernelPlan, kernel: Kernel, buffers: Buffers) -> Contestant:
    """The kernel on every buffer set. Raises LaunchError where a launch precondition fails."""
    launchers = [kernel.prepare(x.arguments(buffers.layout)) for x in buffers.sets]
    return Contestant(plan.name, tuple(launchers), computes(numerics_of(plan)))


def baselines_on(plan: KernelPlan, buffers: Buffers) -> list[Contestant]:
    """torch on the same sets, in every way that computes the same product."""
    return [
        _baseline_on(numerics_of(plan), way, buffers) for way in baselines_of(numerics_of(plan))
    ]


def _baseline_on(numerics: Numerics, way: Baseline, buffers: Buffers) -> Contestant:
    """One way of torch, into a buffer of its own where it writes another type than the kernel."""
    import cupy

    formats = (numerics.a, numerics.b, way.output)
    storage = number_format(way.output).storage
    launchers = []
    for x in buffers.sets:
        same = numerics.output == way.output
        out = x.d.view if same else cupy.empty((buffers.layout.m, buffers.layout.n), dtype=storage)
        scales = [scale.view for scale in x.scales]
        launchers.append(way.launcher(x.left, x.right, out, formats, *scales))
    return Contestant(way.name, tuple(launchers), way.note)


def contestants(
    plan: KernelPlan, kernel: Kernel, problem: Problem, seed: int = 0
) -> tuple[Contestant, list[Contestant]]:
    """The kernel and its baselines on shared buffers."""
    buffers = buffers_for(plan, problem, seed)
    return candidate_on(plan, kernel, buffers), baselines_on(plan, buffers)


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
