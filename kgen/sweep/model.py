"""What a sweep file may say: pydantic models, frozen, unknown keys forbidden.

Whether an axis names a field, a constraint can be read, or a name can begin a kernel's, is decided
in `load`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from kgen.spec.base import Model

DIGEST_DIGITS = 8  # of the name that a kernel of a sweep gets
LONGEST_RANGE = 1000
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400), Strict(False)]
Dimension = Annotated[int, Field(ge=1, le=2**31 - 1)]
FigureName = Literal[
    "operand_bytes_per_flop", "ring_bytes", "registers", "smem_bytes", "threads", "tmem_columns"
]


def kernel_name(sweep: str, digest: str = "0" * DIGEST_DIGITS) -> str:
    """How a sweep calls a kernel; without a digest, a stand-in that follows the same rules."""
    return f"{sweep}_{digest}"


class Range(Model):
    """Numbers from `from` to `to`, both included, `step` apart or each `times` the one before."""

    first: int = Field(alias="from", description="The first value.")
    last: int = Field(alias="to", description="The last value, if a step meets it.")
    step: Count | None = Field(None, description="Distance of two values; default 1.")
    times: Annotated[int, Field(ge=2)] | None = Field(None, description="Ratio of two values.")

    @model_validator(mode="after")
    def _sound(self) -> Range:
        if self.step and self.times:
            raise PydanticCustomError("range_steps", "has a step or a factor, not both")
        if self.times and self.first < 1:
            raise PydanticCustomError("range_start", "a range with `times` starts at 1 or more")
        if len(self.values) > LONGEST_RANGE:
            raise PydanticCustomError(
                "range_long", "more than {n} values; a sweep tries every one", {"n": LONGEST_RANGE}
            )
        return self

    @property
    def values(self) -> list[int]:
        """Every value, in order; one more than LONGEST_RANGE of a range that is longer."""
        found, value = [], self.first
        while value <= self.last and len(found) <= LONGEST_RANGE:
            found.append(value)
            value = value * self.times if self.times else value + (self.step or 1)
        return found


class ProblemSize(Model):
    """One problem, in elements."""

    name: Annotated[str, Field(min_length=1, max_length=60)] | None = Field(
        None, description="How reports call it; default MxNxK."
    )
    m: Dimension
    n: Dimension
    k: Dimension


class Ranking(Model):
    """What makes one kernel better than another."""

    measured: Literal["ratio", "tflops"] = Field(
        "ratio", description="Where it was timed: speed over torch, or its own speed."
    )
    static: Annotated[tuple[FigureName, ...], Strict(False), Field(min_length=1)] = Field(
        ("operand_bytes_per_flop", "ring_bytes", "registers"),
        description="Where no GPU could time it: figures, the most important first.",
    )


class Budget(Model):
    """When to stop. What is not reached stays `pending`, and the next start goes on with it."""

    points: Count | None = Field(None, description="Points that are built, spread over the space.")
    minutes: Annotated[float, Field(gt=0), Strict(False)] | None = Field(
        None,
        description="Time of one start; no new work begins after it. It is the GPU's: a start that "
        "only compiles ends when all is compiled.",
    )
    finals_share: Annotated[float, Field(ge=0, lt=1), Strict(False)] = Field(
        0.4, description="Share of the minutes that the screen leaves to the finals."
    )


class Screen(Model):
    """The quick look: no rest between windows, the reference timed again every few kernels."""

    window: Count = Field(10, description="Launches in one timed window.")
    rounds: Annotated[int, Field(ge=3, le=100)] = Field(3, description="Windows of one kernel.")
    warmup: Annotated[int, Field(ge=0)] = Field(3, description="Launches before a window.")
    reference_every: Count = Field(4, description="Kernels between two timings of torch.")


class Finals(Model):
    """The full protocol of `kgen bench`, the best of a problem interleaved with each other."""

    keep: Annotated[int, Field(ge=0, le=32)] = Field(
        3, description="Kernels of a problem that are timed in full; 0 leaves the finals out."
    )
    window: Count = Field(30, description="Launches in one timed window.")
    rounds: Annotated[int, Field(ge=3, le=100)] = Field(5, description="Windows of one kernel.")
    warmup: Annotated[int, Field(ge=0)] = Field(5, description="Launches before a window.")
    cooldown_s: Annotated[float, Field(ge=0, le=600), Strict(False)] = Field(
        1.0, description="Rest before every window, in seconds."
    )


class Emulation(Model):
    """How a kernel is checked where no GPU is."""

    schedules: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...], Strict(False), Field(min_length=1)
    ] = Field(("late",), description="As `kgen verify --schedules` takes them.")


class Timeouts(Model):
    """Seconds after which one piece of work is stopped and called hung."""

    build_s: Seconds = Field(600.0, description="One compilation.")
    emulate_s: Seconds = Field(600.0, description="One kernel in the emulator, all shapes.")
    screen_s: Seconds = Field(60.0, description="One kernel on one problem: check and windows.")
    finals_s: Seconds = Field(900.0, description="All finalists of one problem.")


class SweepFile(Model):
    """A sweep: every point is the base spec with one value of each axis."""

    base: str | Annotated[tuple[str, ...], Strict(False), Field(min_length=1)] = Field(
        description="Spec file, relative to this one; several are one more axis."
    )
    name: str | None = Field(
        None, description="Kernels are called <name>_<digest>; default the stem of this file."
    )
    axes: dict[str, Range | list[Any]] = Field(
        default_factory=dict, description="Field path to its values: a list, or a range."
    )
    constraints: dict[str, str] = Field(
        default_factory=dict, description="Name to an expression over fields that must hold."
    )
    problems: str | Annotated[tuple[Any, ...], Strict(False), Field(min_length=1)] = Field(
        description="M, N, K lists or maps; or a CSV or JSON file of them."
    )
    rank: Ranking = Ranking()  # pyright: ignore[reportCallIssue]
    budget: Budget = Budget()  # pyright: ignore[reportCallIssue]
    screen: Screen = Screen()  # pyright: ignore[reportCallIssue]
    finals: Finals = Finals()  # pyright: ignore[reportCallIssue]
    emulator: Emulation = Emulation()  # pyright: ignore[reportCallIssue]
    timeouts: Timeouts = Timeouts()  # pyright: ignore[reportCallIssue]
