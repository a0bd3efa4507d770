"""What kernels of one operand layout share on one problem, in the process that owns a GPU.

It is made once and kept while memory lasts, so that a screen costs little more than its launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgen.bench.device import (
    Buffers,
    BufferSet,
    Problem,
    baselines_on,
    buffer_set,
    buffers_for,
    operand_layout,
)
from kgen.bench.protocol import Bench, Contestant
from kgen.bench.tuned import tuned_on
from kgen.plan import KernelPlan
from kgen.run import Kernel
from kgen.verify import inputs
from kgen.verify.check import make_reference
from kgen.verify.inputs import Operands
from kgen.verify.numbers import bit_patterns, from_float32, number_format
from kgen.verify.problem import numerics_of, tile_of
from kgen.verify.reference import Reference
from kgen.verify.shapes import Shape, shape

Size = tuple[int, int, int]
FREE_SHARE = 0.5  # of the memory, below which the benches of other problems are given up


@dataclass
class SharedBench:
    """Operands, their exact product, timed buffers and torch on them.

    exact  the operands placed as kernels read them, and the output that every kernel writes anew
    wanted  the bits of that output's buffer after a right kernel, guard bands included
    tuned  cuBLASLt's fastest, found when the first finals need it; why not, where there is none
    """

    layout: Shape
    operands: Operands
    product: Reference
    exact: BufferSet
    wanted: Any
    buffers: Buffers
    baselines: list[Contestant]
    tuned: Contestant | str | None = None


_benches: dict[tuple[Any, ...], SharedBench] = {}


def bench_for(plan: KernelPlan, size: Size) -> SharedBench:
    """The shared part of a problem, made when it is first needed."""
    key = (size, operand_layout(plan))
    if key not in _benches:
        make_room()
        _benches[key] = _bench(plan, size)
    return _benches[key]


def make_room() -> None:
    """Give up every bench if too little memory is left for another one."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    if free < FREE_SHARE * total:
        _benches.clear()
        cupy.get_default_memory_pool().free_all_blocks()


def _bench(plan: KernelPlan, size: Size) -> SharedBench:
    import cupy

    numerics, layout = numerics_of(plan), shape(tile_of(plan), *size, "swept")
    operands = inputs.exact(*size, numerics, xp=cupy)
    product = make_reference(operands, numerics)
    exact = buffer_set(plan, operands, layout)
    value = number_format(numerics.output).value
    exact.d.view[...] = from_float32(product.product.astype(value), numerics.output)
    wanted = bit_patterns(exact.d.buffer, numerics.output).copy()
    buffers = buffers_for(plan, Problem(*size))
    baselines = baselines_on(plan, buffers)
    return SharedBench(layout, operands, product, exact, wanted, buffers, baselines)


def with_tuned(bench: SharedBench, plan: KernelPlan, machine: Bench) -> list[Contestant]:
    """torch's baselines, then cuBLASLt's fastest candidate if it has one; see `bench.tuned`."""
    if bench.tuned is None:
        try:
            exact, product = bench.exact, bench.product.product
            bench.tuned = tuned_on(numerics_of(plan), bench.buffers, exact, product, machine)
        except Exception as error:  # whatever it is, no finalist is to blame
            bench.tuned = f"cuBLASLt's candidates were not timed: {type(error).__name__}: {error}"
    tuned = [bench.tuned] if isinstance(bench.tuned, Contestant) else []
    return [*bench.baselines, *tuned]


def is_exact(bench: SharedBench, kernel: Kernel) -> bool:
    """Whether the kernel leaves the very bits that a right one does. If not, gates say what is
    wrong; a zero of the other sign is nothing.
    """
    import cupy

    x, name = bench.exact, bench.exact.d.name
    bits = bit_patterns(x.d.buffer, name)
    bits[...] = number_format(name).poison
    kernel.prepare(x.arguments(bench.layout))()
    cupy.cuda.Device().synchronize()
    return bool((bits == bench.wanted).all())
