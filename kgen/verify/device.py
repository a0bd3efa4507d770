"""Runs a kernel on the GPU over its shapes and lets the gates judge every output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kgen.plan import KernelPlan
from kgen.run import Kernel
from kgen.verify import inputs
from kgen.verify.buffers import PlacedMatrix, place_output
from kgen.verify.check import check, make_reference
from kgen.verify.gates import guard_gate, repeat_gate
from kgen.verify.inputs import Operands
from kgen.verify.mma_scales import make_operands
from kgen.verify.outcome import Report
from kgen.verify.problem import arguments_of, numerics_of, operands_in_memory, tile_of
from kgen.verify.reference import Reference
from kgen.verify.shapes import Shape, derived_shapes, shape

REPEATS = 20


@dataclass(frozen=True)
class Case:
    """One launch and what the gates say of it."""

    shape: Shape
    report: Report

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return self.report.passed


def shapes_of(plan: KernelPlan, sm_count: int) -> tuple[Shape, ...]:
    """The derived shapes, then those that the spec names."""
    tile = tile_of(plan)
    named = [shape(tile, *size, "named by the spec") for size in plan.budget.spec.verify.shapes]
    return (*derived_shapes(tile, sm_count), *named)


def kinds_of(plan: KernelPlan, one: Shape) -> tuple[str, ...]:
    """Operands to try: exact and random ones, unit variance where figures are published."""
    published = one.why.startswith("named") and plan.budget.spec.gemm.accumulator == "f16"
    kinds = ("exact", inputs.random_kind(numerics_of(plan)))
    return (*kinds, "unit_variance") if published else kinds


def verify_on_gpu(
    plan: KernelPlan,
    kernel: Kernel,
    shapes: Iterable[Shape],
    progress: Callable[[Case], None] = lambda case: None,
    seed: int = 0,
) -> list[Case]:
    """Every shape with every kind of operands, poisoned outputs between guard bands.

    The largest shape that is not named by the spec also runs REPEATS more times.
    """
    cases: list[Case] = []
    todo = list(shapes)
    derived = [s for s in todo if not s.why.startswith("named")] or todo
    repeated = max(derived, key=lambda s: s.m * s.n * s.k, default=None)
    for one in todo:
        for kind in kinds_of(plan, one):
            repeats = REPEATS if one is repeated and kind == kinds_of(plan, one)[1] else 0
            cases.append(run_case(plan, kernel, one, kind, seed, repeats))
            progress(cases[-1])
    return cases


def run_case(
    plan: KernelPlan, kernel: Kernel, one: Shape, kind: str, seed: int = 0, repeats: int = 0
) -> Case:
    """One shape, one kind of operands."""
    import cupy

    numerics = numerics_of(plan)
    operands = make_operands(kind, one.m, one.n, one.k, numerics, seed=seed, xp=cupy)
    return judge(plan, kernel, one, operands, repeats)


def judge(
    plan: KernelPlan,
    kernel: Kernel,
    one: Shape,
    operands: Operands,
    repeats: int = 0,
    ref: Reference | None = None,
) -> Case:
    """Launch on given operands and let every gate that applies judge the output.

    ref  from make_reference; pass it when several kernels share exact operands
    """
    import cupy

    numerics = numerics_of(plan)
    placed = operands_in_memory(plan, operands, one)

    def launch() -> PlacedMatrix:
        d = place_output(one.m, one.n, one.ldd, numerics.output, offset=one.offset_d, xp=cupy)
        kernel.prepare(arguments_of(one, placed, d))()
        cupy.cuda.Device().synchronize()
        return d

    d = launch()
    report = check(d.view, operands, numerics, ref or make_reference(operands, numerics))
    extra = [guard_gate(d)]
    if repeats:
        others: Iterator[Any] = (launch().view for _ in range(repeats))
        extra.append(repeat_gate(d.view, others, numerics))
    return Case(one, replace(report, results=(*report.results, *extra)))
