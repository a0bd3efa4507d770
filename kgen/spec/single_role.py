"""Hopper schedules of one role: every warp multiplies, and one thread also issues the loads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kgen.spec.base import L2, Model, Raster, Tile, Whole
from kgen.spec.units import ByteSize


class _SingleRole(Model):
    """A ring of stages that all threads wait for and thread 0 refills."""

    tile: Tile
    stages: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        "auto", description="Depth of the A/B ring; auto takes the most that fit."
    )
    swizzle_bytes: Annotated[Literal["auto", 32, 64, 128], Whole] = Field(
        "auto",
        description="Shared-memory swizzle of A and B; auto is the widest that divides a row.",
    )
    smem_limit: ByteSize | None = Field(
        None,
        description="Shared memory the CTA may use, with unit (200KiB); default the hardware's.",
    )
    raster: Raster = Raster()  # pyright: ignore[reportCallIssue]
    l2: L2 = L2()  # pyright: ignore[reportCallIssue]


class WgmmaSingle(_SingleRole):
    """Hopper: wgmma from shared memory, no producer."""

    kind: Literal["wgmma_single"] = Field(description="Picks the template and the fields beside.")
    consumers: Annotated[int, Field(ge=1, le=8)] = Field(
        1, description="Warpgroups that multiply; each owns tile.m / consumers rows."
    )


class Warps(Model):
    """How the warps divide the tile."""

    m: Annotated[int, Field(ge=1, le=16)] = Field(2, description="Warps along M.")
    n: Annotated[int, Field(ge=1, le=16)] = Field(2, description="Warps along N.")


class MmaSync(_SingleRole):
    """Hopper, the way of older GPUs: ldmatrix into registers, then mma.sync."""

    kind: Literal["mma_sync"] = Field(description="Picks the template and the fields beside.")
    warps: Warps = Warps()  # pyright: ignore[reportCallIssue]


SingleRole = WgmmaSingle | MmaSync
"""The schedules of one role."""
