"""Rules of the wgmma_ws schedule."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.spec.hopper import TmaTurns, WgmmaWs
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec
from kgen.spec.rules.wgmma import (
    MMA_N,
    operand_rules,
    register_rules,
    sixteen_bit_rules,
    stage_rules,
    store_box_n,
    tile_rules,
)


def rules(spec: KernelSpec) -> Iterator[Violation]:
    """Every rule of the schedule that `spec` breaks."""
    s = spec.schedule_as(WgmmaWs)
    yield from sixteen_bit_rules(spec)
    yield from operand_rules(spec)
    if isinstance(s.epilogue, TmaTurns):
        yield from tile_rules(spec, s, store_box_n(spec), "one TMA store")
    else:
        yield from tile_rules(spec, s, MMA_N, "one wgmma")
    yield from _pipeline(s)


def _pipeline(s: WgmmaWs) -> Iterator[Violation]:
    yield from stage_rules(s)
    yield from register_rules(s)
    if s.a_order != "auto" and sorted(s.a_order) != [*range(s.consumers)]:
        slabs = ", ".join(map(str, range(s.consumers)))
        yield Violation(("schedule", "a_order"), f"must name each slab once, in any order: {slabs}")
    if isinstance(s.epilogue, TmaTurns) and s.epilogue.store_buffers > s.consumers:
        yield Violation(
            ("schedule", "epilogue", "store_buffers"),
            f"{s.epilogue.store_buffers} buffers for {s.consumers} consumers; "
            "each consumer stores once, so more are never used",
        )
