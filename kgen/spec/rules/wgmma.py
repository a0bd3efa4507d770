"""What every wgmma schedule asks of types and tile, and the extents of one instruction."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.dtypes import dtype
from kgen.spec.hopper import WgmmaPersistent, WgmmaSchedule, WgmmaWs
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec

SLAB_M = 64  # rows of one wgmma; a consumer owns one slab or more
STORE_BOX_N = 64  # columns of one TMA store: one 128-byte swizzle row of a 16-bit type
MMA_N = 8  # columns: every wgmma has a multiple
N_MAJOR_STEP = 64  # columns in a 128-byte row of 16-bit operands
MMA_K = 16  # K elements of one wgmma of 16-bit operands
WIDEST_N = 256  # columns of one wgmma


def consumer_m(s: WgmmaSchedule) -> int:
    """Rows that one consumer owns."""
    return s.tile.m // s.consumers


def slabs_of(s: WgmmaSchedule) -> int:
    """Slabs that one consumer owns, each as high as one wgmma."""
    return consumer_m(s) // SLAB_M


def operand_rules(spec: KernelSpec) -> Iterator[Violation]:
    """Combinations of types that wgmma has."""
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


def tile_rules(spec: KernelSpec, s: WgmmaSchedule, stored: int, why: str) -> Iterator[Violation]:
    """Whole wgmmas in every direction; whole rows of the swizzle.

    stored  columns that D is stored in at a time, and why
    """
    tile, rows = s.tile, s.consumers * SLAB_M
    if tile.m % rows:
        consumers = f"{s.consumers} consumer{'s' if s.consumers > 1 else ''}"
        yield Violation(
            ("schedule", "tile", "m"),
            f"{tile.m} rows for {consumers}; each owns whole slabs of {SLAB_M} rows, "
            f"so tile.m must be a multiple of {rows}",
        )
    if spec.gemm.b.major == "n" and stored < N_MAJOR_STEP:
        stored, why = N_MAJOR_STEP, "one 128-byte row of an N-major B"
    if tile.n % stored or tile.n > WIDEST_N:
        yield Violation(
            ("schedule", "tile", "n"),
            f"{tile.n} columns; must be a multiple of {stored} ({why}) "
            f"up to {WIDEST_N} (one wgmma)",
        )
    if tile.k % MMA_K:
        yield Violation(
            ("schedule", "tile", "k"),
            f"{tile.k} elements; must be a multiple of {MMA_K} (one wgmma)",
        )
    yield from swizzle_rules(spec)


def swizzle_rules(spec: KernelSpec) -> Iterator[Violation]:
    """A K-major row of a stage holds whole rows of the swizzle."""
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


def stage_rules(s: WgmmaWs | WgmmaPersistent) -> Iterator[Violation]:
    """A ring must have the stage that a late release keeps."""
    if s.stages == 1 and s.release == "previous":
        yield Violation(
            ("schedule", "stages"),
            "one stage deadlocks with release: previous, which frees a stage one K tile late; "
            "use release: same or 2 stages",
        )


def register_rules(s: WgmmaWs | WgmmaPersistent) -> Iterator[Violation]:
    """Who can move registers."""
    if s.registers != "auto" and s.producer != "warpgroup":
        yield Violation(
            ("schedule", "registers"),
            "setmaxnreg acts on whole warpgroups; needs producer: warpgroup",
        )
