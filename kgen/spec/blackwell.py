"""Schedules of the fifth-generation tensor cores: Blackwell and Vera Rubin."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kgen.spec.base import L2, Extent, Model, Raster, Whole
from kgen.spec.units import ByteSize

Depth = Literal["auto"] | Annotated[int, Field(ge=1, le=64)]
Eviction = Literal["normal", "evict_first", "evict_last"]


class GroupTile(Model):
    """What one CTA group computes, in elements: a CTA, or a pair with mma.cta_group 2."""

    m: Extent = Field(description="Rows of D per CTA group, in elements: one or two times mma.m.")
    n: Extent = Field(description="Columns of D per CTA group: one or two times mma.n.")
    k: Extent = Field(description="K extent of one stage, in elements.")


class MmaShape(Model):
    """One tcgen05.mma. Its K in elements follows from k_bytes and the operand type."""

    m: Annotated[Literal[64, 128, 256], Whole] = Field(
        description="Rows of one MMA, both CTAs of a pair together."
    )
    n: Annotated[int, Field(ge=8, le=256)] = Field(description="Columns of one MMA.")
    k_bytes: Annotated[Literal[32, 64], Whole] = Field(
        32, description="Bytes of K that one MMA takes of a row; 64 needs sm_107a."
    )
    cta_group: Annotated[Literal[1, 2], Whole] = Field(
        1, description="CTAs that share one MMA; 2 is a pair along M."
    )


class Cluster(Model):
    """CTAs that run together and share loads by multicast. A pair lies along m."""

    m: Annotated[Literal[1, 2, 4, 8], Whole] = Field(1, description="CTAs along M.")
    n: Annotated[Literal[1, 2, 4, 8], Whole] = Field(1, description="CTAs along N.")


class Tmem(Model):
    """Tensor memory."""

    buffers: Annotated[Literal["auto", 1, 2], Whole] = Field(
        "auto",
        description="Accumulator tiles; 2 overlap the epilogue with the next tile. auto: 2 if "
        "they fit.",
    )
    exclusive: Literal["auto"] | bool = Field(
        "auto", description="Take the whole tensor memory, 576 columns on sm_107a; auto: if needed."
    )


class Smem(Model):
    """Shared memory."""

    oversized: Literal["auto"] | bool = Field(
        "auto",
        description="Use the oversized mode of sm_107a; auto: if needed and limit allows it.",
    )
    limit: ByteSize | None = Field(
        None, description="Bytes the CTA may use, with unit (200KiB); default the hardware's."
    )


class EvictionL2(L2):
    """How loads pass through L2, and what L2 should keep."""

    a: Eviction = Field("normal", description="Eviction priority of A.")
    b: Eviction = Field("normal", description="Eviction priority of B.")


class TmaStaged(Model):
    """The epilogue warpgroup stages 128 bytes of every row and drains them with TMA stores."""

    kind: Literal["tma_staged"] = Field("tma_staged", description="How D leaves the CTA.")
    store_buffers: Annotated[int, Field(ge=1, le=4)] = Field(
        2, description="Staging buffers of 128 rows x 128 bytes."
    )


class _Tcgen05(Model):
    """What both schedules have."""

    tile: GroupTile
    mma: MmaShape
    cluster: Cluster = Cluster()  # pyright: ignore[reportCallIssue]
    scheduler: Literal["static", "clc"] = Field(
        "static",
        description="Who gives a cluster its next tile. static: resident clusters take every n-th. "
        "clc: a cluster for each tile, and those that run take over ones that have not started "
        "(cluster launch control).",
    )
    collector: Literal["none", "b_reuse", "ab_five_reads"] = Field(
        "none",
        description="b_reuse: two MMAs along M read B once. ab_five_reads: 2 x 2 MMAs read five "
        "operands, not eight. sm_107a.",
    )
    tmem: Tmem = Tmem()  # pyright: ignore[reportCallIssue]
    smem: Smem = Smem()  # pyright: ignore[reportCallIssue]
    raster: Raster = Raster()  # pyright: ignore[reportCallIssue]
    l2: EvictionL2 = EvictionL2()  # pyright: ignore[reportCallIssue]
    epilogue: TmaStaged = TmaStaged()  # pyright: ignore[reportCallIssue]
    pdl: bool = Field(False, description="Programmatic dependent launch.")


class Tcgen05Ws(_Tcgen05):
    """tcgen05 fed by TMA through one ring that holds A, B and scales."""

    kind: Literal["tcgen05_ws"] = Field(description="Picks the template and the fields below.")
    stages: Depth = Field("auto", description="Depth of the ring; auto takes the most that fit.")


class Tcgen05WsSplit(_Tcgen05):
    """tcgen05 with a ring for A, freed as soon as A has been read, and one for B and scales."""

    kind: Literal["tcgen05_ws_split"] = Field(
        description="Picks the template and the fields below."
    )
    stages: Depth = Field(
        "auto", description="Depth of the ring of B and scales; auto takes the most that fit."
    )
    a_stages: Depth = Field("auto", description="Depth of A's ring; auto is the same as stages.")


Tcgen05Schedule = Tcgen05Ws | Tcgen05WsSplit
"""The schedules that multiply with tcgen05.mma."""
