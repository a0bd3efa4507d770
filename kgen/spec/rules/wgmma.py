"""What every wgmma schedule asks of types and tile, and the extents of one instruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kgen.arch import ARCHS
from kgen.dtypes import dtype
from kgen.spec.hopper import HopperSchedule, WgmmaPersistent, WgmmaSchedule, WgmmaWs
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec

SLAB_M = 64  # rows of one wgmma; a consumer owns one slab or more
STORE_ROW_BYTES = 128  # of one TMA store: one swizzle row
MMA_N = 8  # columns: every wgmma has a multiple
N_MAJOR_STEP = 64  # columns in a 128-byte row of 16-bit operands
WIDEST_N = 256  # columns of one wgmma

Axis = Literal["m", "n"]

SIXTEEN_BITS = ("f16", "bf16")
FP8 = ("e4m3", "e5m2")
WGMMA_TYPES = (*SIXTEEN_BITS, "tf32", *FP8, "s8")


def mma_k(spec: KernelSpec) -> int:
    """K elements of one wgmma."""
    return dtype(spec.gemm.a.dtype).elements_in(min(ARCHS[spec.target].mma_k_bytes))


def store_box_n(spec: KernelSpec) -> int:
    """Columns of D in one TMA store."""
    return dtype(spec.gemm.d.dtype).elements_in(STORE_ROW_BYTES)


def swaps(s: WgmmaSchedule) -> bool:
    """Whether D is multiplied as its transpose: its columns lie along the rows of a wgmma."""
    return isinstance(s, WgmmaPersistent) and s.swap_operands


def mma_axes(s: WgmmaSchedule) -> tuple[Axis, Axis]:
    """The axes of D that lie along the 64 rows and along the columns of a wgmma."""
    return ("n", "m") if swaps(s) else ("m", "n")


def mma_n(s: WgmmaSchedule) -> int:
    """Columns of one wgmma."""
    return getattr(s.tile, mma_axes(s)[1])


def consumer_m(s: WgmmaSchedule) -> int:
    """Rows of wgmmas that one consumer owns: rows of D, or columns where operands are swapped."""
    return getattr(s.tile, mma_axes(s)[0]) // s.consumers


def slabs_of(s: WgmmaSchedule) -> int:
    """Slabs that one consumer owns, each as high as one wgmma."""
    return consumer_m(s) // SLAB_M


def operand_rules(spec: KernelSpec) -> Iterator[Violation]:
    """Combinations of types that wgmma has. PTX ISA, wgmma.mma_async, table of shapes."""
    a, b = spec.gemm.a, spec.gemm.b
    for operand, name in ((a, "a"), (b, "b")):
        if operand.dtype not in WGMMA_TYPES:
            yield Violation(
                ("gemm", name, "dtype"),
                f"{operand.dtype}; wgmma takes {', '.join(WGMMA_TYPES)}",
            )
    if spec.gemm.global_scale:
        yield Violation(("gemm", "global_scale"), "a factor of D belongs to tcgen05; leave it out")
    if spec.gemm.block_scale and not isinstance(spec.schedule, WgmmaPersistent):
        yield Violation(
            ("gemm", "block_scale"),
            f"wgmma has no scales, and {spec.schedule.kind} does not apply them to sums; "
            "wgmma_persistent does",
        )
    if a.dtype != b.dtype and not (a.dtype in FP8 and b.dtype in FP8):
        yield Violation(
            ("gemm", "b", "dtype"),
            f"A is {a.dtype}, B is {b.dtype}: wgmma takes equal types, or e4m3 with e5m2",
        )
    for operand, name in ((a, "a"), (b, "b")):
        if operand.major != "k" and operand.dtype not in SIXTEEN_BITS:
            yield Violation(
                ("gemm", name, "major"),
                f"{operand.major}; wgmma reads {operand.dtype} along K only: it transposes "
                "operands of 16 bits and no others",
            )
    yield from _sum_rules(spec)


def _sum_rules(spec: KernelSpec) -> Iterator[Violation]:
    """What adds up what, and what D may be made of it."""
    operands, sums, d = spec.gemm.a.dtype, spec.gemm.accumulator, spec.gemm.d.dtype
    if (sums == "s32") != (operands == "s8"):
        why = "integers add up in s32" if operands == "s8" else "s32 adds up s8 operands only"
        yield Violation(("gemm", "accumulator"), f"{sums} for {operands} operands: {why}")
    elif sums == "f16" and operands != "f16":
        yield Violation(
            ("gemm", "accumulator"), f"f16 accumulation is for f16 operands only, not {operands}"
        )
    if sums == "f16" and d != "f16":
        yield Violation(
            ("gemm", "d", "dtype"), "an f16 accumulator is stored as it is, so D must be f16"
        )
    if (sums == "s32") != (d == "s32"):
        yield Violation(
            ("gemm", "d", "dtype"),
            f"{d} from {sums} sums: s32 sums are stored as they are, so D is s32 there and only "
            "there",
        )


def sixteen_bit_rules(spec: KernelSpec) -> Iterator[Violation]:
    """Schedules whose D leaves in pairs of 16-bit values, from operands as wide."""
    for name in ("a", "b", "d"):
        kind = getattr(spec.gemm, name).dtype
        if kind not in SIXTEEN_BITS:
            yield Violation(
                ("gemm", name, "dtype"),
                f"{kind}; {spec.schedule.kind} takes {' and '.join(SIXTEEN_BITS)}; "
                "wgmma_persistent takes other types too",
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
    yield from k_rules(spec, s)


def k_rules(spec: KernelSpec, s: WgmmaSchedule) -> Iterator[Violation]:
    """Whole wgmmas along K; whole rows of the swizzle."""
    tile = s.tile
    if tile.k % mma_k(spec):
        yield Violation(
            ("schedule", "tile", "k"),
            f"{tile.k} elements; must be a multiple of {mma_k(spec)} (one wgmma)",
        )
    yield from swizzle_rules(spec)


def swizzle_rules(spec: KernelSpec) -> Iterator[Violation]:
    """A K-major row of a stage holds whole rows of the swizzle."""
    assert isinstance(spec.schedule, HopperSchedule)
    swizzle = spec.schedule.swizzle_bytes
    if swizzle == "auto":
        return
    row = dtype(spec.gemm.a.dtype).bits * spec.schedule.tile.k // 8
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
