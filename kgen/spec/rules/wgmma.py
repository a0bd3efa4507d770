"""What every wgmma schedule asks of the operand types, and the extents of one instruction."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.dtypes import dtype
from kgen.spec.hopper import WgmmaSchedule
from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec

SLAB_M = 64  # rows of one wgmma; a consumer owns one slab
STORE_BOX_N = 64  # columns of one TMA store: one 128-byte swizzle row of a 16-bit type
SIXTEEN_BITS = ("f16", "bf16")
MMA_K = 16  # K elements of one wgmma of 16-bit operands


def operand_rules(spec: KernelSpec) -> Iterator[Violation]:
    """Combinations of types that the wgmma schedules have."""
    gemm = spec.gemm
    for operand, kind in (("a", gemm.a.dtype), ("b", gemm.b.dtype), ("d", gemm.d.dtype)):
        if kind not in SIXTEEN_BITS:
            yield Violation(
                ("gemm", operand, "dtype"),
                f"{kind}; the wgmma schedules take {' and '.join(SIXTEEN_BITS)}",
            )
    for field in ("block_scale", "global_scale"):
        if getattr(gemm, field):
            yield Violation(("gemm", field), "block scales belong to tcgen05; wgmma has none")
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


def swizzle_rules(spec: KernelSpec, s: WgmmaSchedule) -> Iterator[Violation]:
    """A K-major row of a stage is whole swizzle patterns."""
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


def stage_rules(s: WgmmaSchedule) -> Iterator[Violation]:
    """A ring must have the stage that a late release keeps."""
    if s.stages == 1 and s.release == "previous":
        yield Violation(
            ("schedule", "stages"),
            "one stage deadlocks with release: previous, which frees a stage one K tile late; "
            "use release: same or 2 stages",
        )


def register_rules(s: WgmmaSchedule) -> Iterator[Violation]:
    """Who can move registers."""
    if s.registers != "auto" and s.producer != "warpgroup":
        yield Violation(
            ("schedule", "registers"),
            "setmaxnreg acts on whole warpgroups; needs producer: warpgroup",
        )
