"""Rules of the wgmma_ws schedule."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.dtypes import dtype
from kgen.spec.hopper import WgmmaWs
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec
from kgen.spec.rules.wgmma import MMA_K, SLAB_M, STORE_BOX_N, operand_rules


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
    yield from _swizzle(spec, s)


def _swizzle(spec: KernelSpec, s: WgmmaWs) -> Iterator[Violation]:
    swizzle = s.swizzle_bytes
    if swizzle == "auto":
        return
    row = s.tile.k * dtype(spec.gemm.a.dtype).bytes
    k_major = "k" in (spec.gemm.a.major, spec.gemm.b.major)
    if k_major and row % swizzle:
        yield Violation(
            ("schedule", "swizzle_bytes"),
            f"a row of tile.k has {row} bytes, not a multiple of the {swizzle}-byte swizzle",
        )


def _pipeline(s: WgmmaWs) -> Iterator[Violation]:
    if s.stages == 1 and s.release == "previous":
        yield Violation(
            ("schedule", "stages"),
            "one stage deadlocks with release: previous, which frees a stage one K tile late; "
            "use release: same or 2 stages",
        )
    if s.registers != "auto" and s.producer == "warp":
        yield Violation(
            ("schedule", "registers"),
            "setmaxnreg acts on whole warpgroups; needs producer: warpgroup",
        )
    if s.a_order != "auto" and sorted(s.a_order) != [*range(s.consumers)]:
        slabs = ", ".join(map(str, range(s.consumers)))
        yield Violation(("schedule", "a_order"), f"must name each slab once, in any order: {slabs}")
    if s.epilogue.store_buffers > s.consumers:
        yield Violation(
            ("schedule", "epilogue", "store_buffers"),
            f"{s.epilogue.store_buffers} buffers for {s.consumers} consumers; "
            "each consumer stores once, so more are never used",
        )
