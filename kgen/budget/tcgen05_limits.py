"""Limits that a tcgen05 kernel may exceed, each with its sum, and what a person would change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kgen.budget.model import Budget
from kgen.budget.tcgen05 import Tcgen05Budget
from kgen.dtypes import dtype
from kgen.spec import KernelSpec, Violation
from kgen.spec.blackwell import Tcgen05WsSplit
from kgen.spec.rules.tcgen05 import ROW_BYTES, schedule_of


def tcgen05_limits(b: Budget) -> Iterator[Violation]:
    """Every limit of the hardware that a budget of a tcgen05 schedule exceeds."""
    assert isinstance(b, Tcgen05Budget)
    yield from _shared_memory(b)
    if b.tmem.over:
        yield Violation(
            _widest(b),
            f"the columns do not fit in {b.tmem.limit_name}",
            b.tmem.ledger().rows(),
        )
    for box in b.boxes:
        for axis, extent in ((box.inner_axis, box.inner), (box.outer_axis, box.outer)):
            if box.swizzle_bytes and extent > b.arch.tma_box_extent:
                yield Violation(
                    ("schedule", "tile", axis),
                    f"the TMA box of {box.operand.upper()} would be {extent} elements along "
                    f"{axis}; at most {b.arch.tma_box_extent}",
                )


def _widest(b: Tcgen05Budget) -> tuple[str, ...]:
    """The field that takes most columns: more sets of accumulators than one, or a double tile."""
    if schedule_of(b.spec).tmem.buffers == 2:
        return ("schedule", "tmem", "buffers")
    return ("schedule", "tile", "m" if b.shape.m_tiles == 2 else "n")


def _shared_memory(b: Tcgen05Budget) -> Iterator[Violation]:
    s = schedule_of(b.spec)
    if b.smem.over:
        depth = str(s.stages)
        if isinstance(s, Tcgen05WsSplit) and s.a_stages != s.stages:
            depth = f"{s.a_stages} and {s.stages}"
        yield Violation(
            ("schedule", "stages"),
            f"{depth} stage{'s do' if depth != '1' else ' does'} not fit in {b.smem.limit_name}",
            b.smem.rows(),
        )
    largest = max(b.arch.smem_per_cta, b.arch.smem_oversized_per_cta)
    if s.smem.limit and s.smem.limit > largest:
        yield Violation(
            ("schedule", "smem", "limit"),
            f"{s.smem.limit} bytes; {b.arch.target} gives a CTA at most {largest} "
            f"({largest // 1024}KiB)",
        )


def tcgen05_changes(
    spec: KernelSpec, broken: Violation, fits: Callable[[KernelSpec], bool]
) -> Iterator[tuple[str, KernelSpec]]:
    """Single changes as YAML, with the spec after each; not all of them help."""
    s = schedule_of(spec)

    def change(**fields: object) -> KernelSpec:
        return spec.model_copy(update={"schedule": s.model_copy(update=fields)})

    field = broken.path[-1]
    of_columns = broken.path[1] in ("tmem", "tile")
    if field == "stages" and isinstance(s.stages, int):
        depths = range(s.stages - 1, 0, -1)
        deepest = next((n for n in depths if fits(change(stages=n))), None)
        if deepest:
            yield f"schedule.stages: {deepest}", change(stages=deepest)
    if isinstance(s, Tcgen05WsSplit) and isinstance(s.a_stages, int) and field == "stages":
        yield "schedule.a_stages: auto", change(a_stages="auto")
    if of_columns and s.tmem.buffers == 2:
        one = s.tmem.model_copy(update={"buffers": 1})
        yield "schedule.tmem.buffers: 1", change(tmem=one)
    if s.tmem.exclusive is False and of_columns:
        auto = s.tmem.model_copy(update={"exclusive": "auto"})
        yield "schedule.tmem.exclusive: auto", change(tmem=auto)
    if s.smem.limit and not of_columns:
        free = s.smem.model_copy(update={"limit": None})
        yield "no schedule.smem.limit", change(smem=free)
    if s.smem.oversized is False and not of_columns:
        auto = s.smem.model_copy(update={"oversized": "auto"})
        yield "schedule.smem.oversized: auto", change(smem=auto)
    if s.epilogue.store_buffers > 1 and not of_columns:
        fewer = s.epilogue.model_copy(update={"store_buffers": 1})
        yield "schedule.epilogue.store_buffers: 1", change(epilogue=fewer)
    row = dtype(spec.gemm.a.dtype).elements_in(ROW_BYTES)
    if s.tile.k > row and not of_columns:
        yield f"schedule.tile.k: {row}", change(tile=s.tile.model_copy(update={"k": row}))
    for axis, one in (("m", s.mma.m), ("n", s.mma.n)):
        if getattr(s.tile, axis) == 2 * one:
            tile = s.tile.model_copy(update={axis: one})
            text = f"schedule.tile.{axis}: {one}"
            yield text, change(tile=tile)
            if s.collector != "none":
                yield f"{text} without collector", change(tile=tile, collector="none")
    for n in range(s.mma.n - 64, 0, -64):
        tile = s.tile.model_copy(update={"n": n})
        mma = s.mma.model_copy(update={"n": n})
        yield f"schedule.tile.n and mma.n: {n}", change(tile=tile, mma=mma)
