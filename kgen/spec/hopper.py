"""Schedules of Hopper's warpgroup MMA."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from kgen.spec.base import L2, Model, Raster, Registers, Tile, Whole
from kgen.spec.units import ByteSize


class TmaTurns(Model):
    """Consumers take turns in slab-sized buffers; the producer drains each with TMA stores."""

    kind: Literal["tma_turns"] = Field("tma_turns", description="How D leaves the CTA.")
    store_buffers: Annotated[int, Field(ge=1, le=8)] = Field(
        1, description="Slab-sized staging buffers."
    )


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
    epilogue: TmaTurns = TmaTurns()  # pyright: ignore[reportCallIssue]


WgmmaSchedule = WgmmaWs
"""The schedules that multiply with wgmma."""
