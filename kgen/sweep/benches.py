"""What kernels of one operand layout share on one problem, in the process that owns a GPU.

It is made once and kept while memory lasts, so that a screen costs little more than its launches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgen.bench.device import Buffers, Problem, baselines_on, buffers_for, operand_layout
from kgen.bench.protocol import Contestant
from kgen.plan import KernelPlan
from kgen.run import Kernel
from kgen.verify import inputs
from kgen.verify.buffers import PlacedMatrix, place_output
from kgen.verify.check import make_reference
from kgen.verify.device import arguments_of
from kgen.verify.inputs import Operands
from kgen.verify.numbers import bit_patterns, from_float32, number_format
from kgen.verify.problem import numerics_of, operand_in_memory, tile_of
from kgen.verify.reference import Reference
from kgen.verify.shapes import Shape, shape

Size = tuple[int, int, int]
FREE_SHARE = 0.5  # of the memory, below which the benches of other problems are given up


@dataclass
class SharedBench:
    """Operands, their exact product, timed buffers and torch on them.

    a, b, d  the operands placed as kernels read them, and the output that every kernel writes anew
    wanted  the bits of d's buffer after a right kernel, guard bands included
    """

    layout: Shape
    operands: Operands
    product: Reference
    a: PlacedMatrix
    b: PlacedMatrix
    d: PlacedMatrix
    wanted: Any
    buffers: Buffers
    baselines: list[Contestant]


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
    a, b = (operand_in_memory(plan, getattr(operands, x), x, layout) for x in ("a", "b"))
    d = place_output(layout.m, layout.n, layout.ldd, numerics.output, xp=cupy)
    value = number_format(numerics.output).value
    d.view[...] = from_float32(product.product.astype(value), numerics.output)
    wanted = bit_patterns(d.buffer, numerics.output).copy()
    buffers = buffers_for(plan, Problem(*size))
    baselines = baselines_on(plan, buffers)
    return SharedBench(layout, operands, product, a, b, d, wanted, buffers, baselines)


def is_exact(bench: SharedBench, kernel: Kernel) -> bool:
    """Whether the kernel leaves the very bits that a right one does. If not, gates say what is
    wrong; a zero of the other sign is nothing.
    """
    import cupy

    name = bench.d.name
    bits = bit_patterns(bench.d.buffer, name)
    bits[...] = number_format(name).poison
    kernel.prepare(arguments_of(bench.layout, bench.a, bench.b, bench.d))()
    cupy.cuda.Device().synchronize()
    return bool((bits == bench.wanted).all())
