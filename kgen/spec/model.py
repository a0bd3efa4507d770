"""What a spec file may say: pydantic models, frozen, unknown keys forbidden.

Only the shape of the text is decided here. Rules between fields are in `rules`, and whether a
spec fits the hardware is the budget's to say. The fields of `schedule` depend on its `kind`; the
models are in a module per family.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, Strict

from kgen.arch import ARCHS
from kgen.spec.base import Model
from kgen.spec.hopper import WgmmaPersistent, WgmmaWs
from kgen.spec.names import KernelName
from kgen.spec.single_role import MmaSync, WgmmaSingle

Target = Literal["sm_90a"]
assert set(ARCHS) == {"sm_90a"}, "Target must list every architecture of arch.py"


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


Schedule = Annotated[WgmmaWs | WgmmaPersistent | WgmmaSingle | MmaSync, Field(discriminator="kind")]
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
