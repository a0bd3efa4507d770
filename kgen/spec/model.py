"""What a spec file may say: pydantic models, frozen, unknown keys forbidden.

Only the shape of the text is decided here. Rules between fields are in `rules.py`, and whether a
spec fits the hardware is the budget's to say.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from kgen.arch import ARCHS
from kgen.spec.names import KernelName
from kgen.spec.units import ByteSize

Target = Literal["sm_90a"]
assert set(get_args(Target)) <= set(ARCHS), "every Target needs an architecture in arch.py"


def _whole(value: object) -> object:
    """Refuse what only equals a number: `false` is 0 and `128.0` is 128 to a Literal."""
    if isinstance(value, bool | float):
        raise PydanticCustomError("whole_number", "Input should be a whole number")
    return value


Whole = BeforeValidator(_whole)
Extent = Annotated[int, Field(ge=1, le=1024)]


class Model(BaseModel):
    """Base of all spec models."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class OperandA(Model):
    """A of D[M,N] = A[M,K] @ B[N,K].T."""

    dtype: Literal["f16", "bf16"] = Field(description="Element type.")
    major: Literal["k", "m"] = Field("k", description="Contiguous axis: k is [M,K], m is [K,M].")


class OperandB(Model):
    """B of D[M,N] = A[M,K] @ B[N,K].T."""

    dtype: Literal["f16", "bf16"] = Field(description="Element type.")
    major: Literal["k", "n"] = Field("k", description="Contiguous axis: k is [N,K], n is [K,N].")


class OutputD(Model):
    """D, row-major [M,N]."""

    dtype: Literal["f16", "bf16"] = Field(description="Element type.")
    major: Literal["n"] = Field("n", description="Contiguous axis.")


class Gemm(Model):
    """D[M,N] = A[M,K] @ B[N,K].T."""

    a: OperandA
    b: OperandB
    d: OutputD
    accumulator: Literal["f32", "f16"] = Field(description="Type that the tensor cores add up in.")


class Tile(Model):
    """What one CTA computes, in elements."""

    m: Extent = Field(description="Rows of D per CTA, in elements.")
    n: Extent = Field(description="Columns of D per CTA, in elements.")
    k: Extent = Field(description="K extent of one stage, in elements.")


class Registers(Model):
    """Registers per thread of each role, set by setmaxnreg."""

    producer: Annotated[int, Field(ge=24, le=256)] = Field(description="A multiple of 8.")
    consumer: Annotated[int, Field(ge=24, le=256)] = Field(description="A multiple of 8.")


class Raster(Model):
    """Order of the tiles over D."""

    group: Annotated[int, Field(ge=1, le=32)] = Field(
        8, description="Tiles side by side in a group."
    )
    along: Literal["m", "n"] = Field("n", description="Axis that the group lies along.")


class L2(Model):
    """How loads pass through L2."""

    promotion_bytes: Annotated[Literal[0, 64, 128, 256], Whole] = Field(
        128, description="L2 fetch granularity of the tensor maps; 0 is off."
    )


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


Dimension = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Tolerance(Model):
    """A declared widening of the error bounds."""

    factor: Annotated[float, Field(gt=1, le=100)] = Field(description="Multiplies the bounds.")
    reason: Annotated[str, Field(min_length=8, max_length=200)] = Field(
        description="Why this kernel may be less exact than the bounds."
    )


class Verify(Model):
    """What to check beyond the shapes that follow from the tile."""

    shapes: Annotated[
        tuple[Annotated[tuple[Dimension, Dimension, Dimension], Strict(False)], ...], Strict(False)
    ] = Field((), description="[M, N, K] in elements.")
    tolerance: Tolerance | None = Field(None, description="A wider bound, with its reason.")


class KernelSpec(Model):
    """One kernel."""

    name: KernelName
    target: Target = Field(description="Compilation target, suffix included.")
    gemm: Gemm
    schedule: WgmmaWs
    verify: Verify = Verify()  # pyright: ignore[reportCallIssue]
