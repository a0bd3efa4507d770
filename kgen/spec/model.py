"""What a spec file may say: pydantic models, frozen, unknown keys forbidden.

Only the shape of the text is decided here. Rules between fields are in `rules`, and whether a
spec fits the hardware is the budget's to say. The fields of `schedule` depend on its `kind`; the
models are in a module per family.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar, get_args

from pydantic import Field, Strict

from kgen.arch import ARCHS
from kgen.spec.base import Model, Whole
from kgen.spec.blackwell import Tcgen05Ws, Tcgen05WsSplit
from kgen.spec.hopper import WgmmaPersistent, WgmmaWs
from kgen.spec.names import KernelName
from kgen.spec.single_role import MmaSync, WgmmaSingle

Target = Literal["sm_90a", "sm_100a", "sm_103a", "sm_107a"]
assert set(get_args(Target)) == set(ARCHS), "Target must list every architecture of arch.py"

OperandType = Literal["f16", "bf16", "tf32", "e4m3", "e5m2", "e2m1", "s8"]


class OperandA(Model):
    """A of D[M,N] = A[M,K] @ B[N,K].T."""

    dtype: OperandType = Field(description="Element type.")
    major: Literal["k", "m"] = Field("k", description="Contiguous axis: k is [M,K], m is [K,M].")


class OperandB(Model):
    """B of D[M,N] = A[M,K] @ B[N,K].T."""

    dtype: OperandType = Field(description="Element type.")
    major: Literal["k", "n"] = Field("k", description="Contiguous axis: k is [N,K], n is [K,N].")


class OutputD(Model):
    """D, row-major [M,N]."""

    dtype: Literal["f16", "bf16", "f32", "s32"] = Field(description="Element type.")
    major: Literal["n"] = Field("n", description="Contiguous axis.")


class BlockScaling(Model):
    """One scale for every `block` consecutive elements of K, of A and of B.

    ue8m0 and ue4m3 are scales of the MMA (tcgen05), one per row and block. f32 scales are applied
    to the sums of a block on their way to f32 registers (wgmma): A has one per row and block of K,
    B one per block of `block` columns of D and block of K.
    """

    dtype: Literal["ue8m0", "ue4m3", "f32"] = Field(
        description="Type of a scale; f32 promotes the sums of every block of K to registers."
    )
    block: Annotated[Literal[16, 32, 128], Whole] = Field(
        description="Elements of K per scale; of f32 scales of B also columns of D."
    )


class Gemm(Model):
    """D[M,N] = A[M,K] @ B[N,K].T."""

    a: OperandA
    b: OperandB
    d: OutputD
    accumulator: Literal["f32", "f16", "s32"] = Field(
        description="Type that the tensor cores add up in."
    )
    block_scale: BlockScaling | None = Field(None, description="Scales of A and B along K.")
    global_scale: bool = Field(
        False, description="The launch takes one more factor of D: both global scales multiplied."
    )


Schedule = Annotated[
    WgmmaWs | WgmmaPersistent | WgmmaSingle | MmaSync | Tcgen05Ws | Tcgen05WsSplit,
    Field(discriminator="kind"),
]
"""The schedules, told apart by `kind`."""

Kind = TypeVar("Kind", bound=Model)

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
    schedule: Schedule = Field(description="How the kernel computes it; the fields of its kind.")
    verify: Verify = Verify()  # pyright: ignore[reportCallIssue]

    def schedule_as(self, kind: type[Kind]) -> Kind:
        """The schedule, which the caller knows to be of this kind."""
        assert isinstance(self.schedule, kind), f"{self.schedule.kind} is not {kind.__name__}"
        return self.schedule
