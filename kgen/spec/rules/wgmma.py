"""What every wgmma schedule asks of the operand types, and the extents of one instruction."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec

SLAB_M = 64  # rows of one wgmma; a consumer owns one slab
STORE_BOX_N = 64  # columns of one TMA store: one 128-byte swizzle row of a 16-bit type
MMA_K = 16  # K elements of one wgmma of 16-bit operands


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
