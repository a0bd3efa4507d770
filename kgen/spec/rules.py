"""Rules between fields that need no hardware limit: what may be combined, and whole multiples."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.dtypes import dtype
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec

SLAB_M = 64  # rows of one wgmma; a consumer owns one slab
STORE_BOX_N = 64  # columns of one TMA store: one 128-byte swizzle row of a 16-bit type
MMA_K = 16  # K elements of one wgmma of 16-bit operands


def violations(spec: KernelSpec) -> list[Violation]:
    """Every rule that `spec` breaks."""
    return [*_gemm(spec), *_tile(spec), *_pipeline(spec)]


def _gemm(spec: KernelSpec) -> Iterator[Violation]:
    gemm = spec.gemm
    if gemm.a.dtype != gemm.b.dtype:
        yield Violation(
            ("gemm", "b", "dtype"),
            f"A is {gemm.a.dtype}, B is {gemm.b.dtype}: wgmma takes equal 16-bit types",
        )
    if gemm.accumulator == "f16" and gemm.a.dtype != "f16":
        yield Violation(
            ("gemm", "accumulator"),
            f"f16 accumulation exists for f16 operands only, not {gemm.a.dtype}",
        )
    if gemm.accumulator == "f16" and gemm.d.dtype != "f16":
        yield Violation(
            ("gemm", "d", "dtype"), "an f16 accumulator is stored as it is, so D must be f16"
        )


def _tile(spec: KernelSpec) -> Iterator[Violation]:
    tile, consumers = spec.schedule.tile, spec.schedule.consumers
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
    yield from _swizzle(spec)


def _swizzle(spec: KernelSpec) -> Iterator[Violation]:
    swizzle = spec.schedule.swizzle_bytes
    if swizzle == "auto":
        return
    row = spec.schedule.tile.k * dtype(spec.gemm.a.dtype).bytes
    k_major = "k" in (spec.gemm.a.major, spec.gemm.b.major)
    if k_major and row % swizzle:
        yield Violation(
            ("schedule", "swizzle_bytes"),
            f"a row of tile.k has {row} bytes, not a multiple of the {swizzle}-byte swizzle",
        )


def _pipeline(spec: KernelSpec) -> Iterator[Violation]:
    schedule = spec.schedule
    if schedule.stages == 1 and schedule.release == "previous":
        yield Violation(
            ("schedule", "stages"),
            "one stage deadlocks with release: previous, which frees a stage one K tile late; "
            "use release: same or 2 stages",
        )
    if schedule.registers != "auto" and schedule.producer == "warp":
        yield Violation(
            ("schedule", "registers"),
            "setmaxnreg acts on whole warpgroups; needs producer: warpgroup",
        )
    if schedule.a_order != "auto" and sorted(schedule.a_order) != [*range(schedule.consumers)]:
        slabs = ", ".join(map(str, range(schedule.consumers)))
        yield Violation(("schedule", "a_order"), f"must name each slab once, in any order: {slabs}")
    if schedule.epilogue.store_buffers > schedule.consumers:
        yield Violation(
            ("schedule", "epilogue", "store_buffers"),
            f"{schedule.epilogue.store_buffers} buffers for {schedule.consumers} consumers; "
            "each consumer stores once, so more are never used",
        )
