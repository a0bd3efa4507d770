"""Rules of the schedules of one role: wgmma_single and mma_sync."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.spec.locate import Violation
from kgen.spec.model import KernelSpec
from kgen.spec.rules.wgmma import (
    MMA_N,
    operand_rules,
    sixteen_bit_rules,
    swizzle_rules,
    tile_rules,
)
from kgen.spec.single_role import MmaSync, WgmmaSingle

MMA_SYNC_M = 16  # of mma.sync.m16n8k16
MMA_SYNC_K = 16
LDMATRIX_ROWS = 16  # rows of A or columns of B that one ldmatrix.x4 loads, 16 of K deep


def wgmma_single_rules(spec: KernelSpec) -> Iterator[Violation]:
    """Every rule of wgmma_single that `spec` breaks."""
    yield from sixteen_bit_rules(spec)
    yield from operand_rules(spec)
    yield from tile_rules(spec, spec.schedule_as(WgmmaSingle), MMA_N, "one wgmma")


def mma_sync_rules(spec: KernelSpec) -> Iterator[Violation]:
    """Every rule of mma_sync that `spec` breaks."""
    s = spec.schedule_as(MmaSync)
    yield from sixteen_bit_rules(spec)
    yield from operand_rules(spec)
    for operand in ("a", "b"):
        major = getattr(spec.gemm, operand).major
        if major != "k":
            yield Violation(
                ("gemm", operand, "major"),
                f"{major}; mma_sync loads fragments of K-major operands only; wgmma takes both",
            )
    for axis, warps in (("m", s.warps.m), ("n", s.warps.n)):
        extent = getattr(s.tile, axis)
        if extent % (warps * LDMATRIX_ROWS):
            yield Violation(
                ("schedule", "tile", axis),
                f"{extent} for {warps} warp{'s' if warps > 1 else ''} along {axis.upper()}; must "
                f"be a multiple of {warps * LDMATRIX_ROWS} ({LDMATRIX_ROWS} a warp, one ldmatrix)",
            )
    if s.tile.k % MMA_SYNC_K:
        yield Violation(
            ("schedule", "tile", "k"),
            f"{s.tile.k} elements; must be a multiple of {MMA_SYNC_K} (one mma.sync)",
        )
    yield from swizzle_rules(spec)
