"""Rules of the wgmma_ws schedule."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.spec.hopper import WgmmaWs
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec
from kgen.spec.rules.wgmma import (
    MMA_K,
    SLAB_M,
    STORE_BOX_N,
    operand_rules,
    register_rules,
    stage_rules,
    swizzle_rules,
)


def rules(spec: KernelSpec) -> Iterator[Violation]:
    """Every rule of the schedule that `spec` breaks."""
    s = spec.schedule_as(WgmmaWs)
    yield from operand_rules(spec)
    yield from _tile(spec, s)
    yield from _pipeline(s)


def _tile(spec: KernelSpec, s: WgmmaWs) -> Iterator[Violation]:
    tile, consumers = s.tile, s.consumers
    if tile.m != consumers * SLAB_M:
        yield Violation(
            ("schedule", "tile", "m"),
            f"{tile.m} rows for {consumers} consumers; each owns one {SLAB_M}-row slab, "
            f"so {consumers} consumers make {consumers * SLAB_M} rows",
        )
    if tile.n % STORE_BOX_N or tile.n > 256:
        yield Violation(
            ("schedule", "tile", "n"),
            f"{tile.n} columns; must be a multiple of {STORE_BOX_N} (one TMA store) "
            "up to 256 (one wgmma)",
        )
    if tile.k % MMA_K:
        yield Violation(
            ("schedule", "tile", "k"),
            f"{tile.k} elements; must be a multiple of {MMA_K} (one wgmma)",
        )
    yield from swizzle_rules(spec, s)


def _pipeline(s: WgmmaWs) -> Iterator[Violation]:
    yield from stage_rules(s)
    yield from register_rules(s)
    if s.a_order != "auto" and sorted(s.a_order) != [*range(s.consumers)]:
        slabs = ", ".join(map(str, range(s.consumers)))
        yield Violation(("schedule", "a_order"), f"must name each slab once, in any order: {slabs}")
    if s.epilogue.store_buffers > s.consumers:
        yield Violation(
            ("schedule", "epilogue", "store_buffers"),
            f"{s.epilogue.store_buffers} buffers for {s.consumers} consumers; "
            "each consumer stores once, so more are never used",
        )
