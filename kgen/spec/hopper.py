"""Schedules of Hopper's warpgroup MMA."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from kgen.spec.base import L2, Model, Raster, Registers, Tile, Whole
from kgen.spec.single_role import MmaSync, WgmmaSingle
from kgen.spec.units import ByteSize


class TmaTurns(Model):
    """Consumers take turns in slab-sized buffers; the producer drains each with TMA stores."""

    kind: Literal["tma_turns"] = Field(description="How D leaves the CTA.")
    store_buffers: Annotated[int, Field(ge=1, le=8)] = Field(
        1, description="Slab-sized staging buffers."
    )


class Direct(Model):
    """Every consumer stores its part of D from registers, masked at the edges."""

    kind: Literal["direct"] = Field(description="How D leaves the CTA.")


class WgmmaWs(Model):
    """Hopper: warp-specialised wgmma fed by TMA through a ring of stages."""

    kind: Literal["wgmma_ws"] = Field(description="Picks the template and the fields below.")
    tile: Tile
    stages: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        "auto", description="Depth of the A/B ring; auto takes the most that fit."
    )
    consumers: Annotated[int, Field(ge=1, le=8)] = Field(
        description="Warpgroups that multiply; each owns tile.m / consumers rows."
    )
    producer: Literal["warp", "warpgroup"] = Field(
        "warp",
        description="A warpgroup costs registers but lets setmaxnreg move them to the consumers.",
    )
    registers: Literal["auto"] | Registers = Field(
        "auto", description="setmaxnreg split; only with producer: warpgroup."
    )
    release: Literal["previous", "same"] = Field(
        "previous", description="Which stage a consumer frees after issuing a K tile."
    )
    a_order: (
        Literal["auto"] | Annotated[tuple[Annotated[int, Field(ge=0, le=7)], ...], Strict(False)]
    ) = Field("auto", description="Order in which the A slabs of a stage are loaded.")
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
    epilogue: TmaTurns | Direct = Field(
        TmaTurns(kind="tma_turns"),  # pyright: ignore[reportCallIssue]
        discriminator="kind",
        description="How D leaves the CTA, and what that takes.",
    )


class Cluster(Model):
    """CTAs that run together and share loads."""

    m: Annotated[int, Field(ge=1, le=4)] = Field(
        1, description="CTAs along M; each loads a part of the B that they share."
    )
    n: Annotated[int, Field(ge=1, le=4)] = Field(
        1, description="CTAs along N; each loads a part of the A that they share."
    )


class ClusterRaster(Raster):
    """Order of the cluster tiles over D."""

    snake: bool = Field(
        False,
        description="Walk every second group backwards: it begins with rows or columns in L2.",
    )


class TmaPerWarp(Model):
    """Every consumer warp stages panels of its own 16 rows and stores them itself."""

    kind: Literal["tma_per_warp"] = Field("tma_per_warp", description="How D leaves the CTA.")
    store_buffers: Annotated[int, Field(ge=1, le=8)] = Field(
        2, description="Panel-sized staging buffers of each warp."
    )
    deferred: bool = Field(
        False,
        description="Round the tile in registers, store it during the next tile's first K tiles.",
    )


class WgmmaPersistent(Model):
    """Hopper: clusters that stay resident and take one tile after another."""

    kind: Literal["wgmma_persistent"] = Field(
        description="Picks the template and the fields below."
    )
    tile: Tile
    cluster: Cluster = Cluster()  # pyright: ignore[reportCallIssue]
    scheduler: Literal["round_robin", "wrap"] = Field(
        "round_robin",
        description="wrap gives every cluster the same number of K tiles, by cutting some tiles in "
        "two, where that saves enough of them.",
    )
    clusters: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = Field(
        "auto", description="Most clusters that run at a time; auto is what the device holds."
    )
    stages: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        "auto", description="Depth of the A/B ring; auto takes the most that fit."
    )
    swap_operands: bool = Field(
        False,
        description="Multiply D^T = B A^T: columns of D lie along the 64 rows of a wgmma, rows of "
        "D along its 8 to 256 columns, so that few rows waste nothing. The tile stays that of D.",
    )
    consumers: Annotated[int, Field(ge=1, le=8)] = Field(
        description="Warpgroups that multiply; each owns tile.m / consumers rows, with "
        "swap_operands tile.n / consumers columns."
    )
    producer: Literal["warp", "warpgroup", "none"] = Field(
        "warpgroup",
        description="Who loads; none leaves it to a thread of the first consumer, which frees "
        "registers for a third one.",
    )
    registers: Literal["auto"] | Registers = Field(
        "auto", description="setmaxnreg split; only with producer: warpgroup."
    )
    release: Literal["previous", "same"] = Field(
        "same", description="Which stage a consumer frees after issuing a K tile."
    )
    swizzle_bytes: Annotated[Literal["auto", 32, 64, 128], Whole] = Field(
        "auto",
        description="Shared-memory swizzle of A and B; auto is the widest that divides a row.",
    )
    smem_limit: ByteSize | None = Field(
        None,
        description="Shared memory the CTA may use, with unit (200KiB); default the hardware's.",
    )
    raster: ClusterRaster = ClusterRaster()  # pyright: ignore[reportCallIssue]
    l2: L2 = L2(promotion_bytes=256)
    pdl: bool = Field(
        False,
        description="Programmatic dependent launch: the prologue overlaps the kernel before.",
    )
    epilogue: TmaPerWarp = TmaPerWarp()  # pyright: ignore[reportCallIssue]


WgmmaSchedule = WgmmaWs | WgmmaSingle | WgmmaPersistent
"""The schedules that multiply with wgmma."""

HopperSchedule = WgmmaSchedule | MmaSync
"""Every schedule of Hopper."""
