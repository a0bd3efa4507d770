"""What the models of all schedules share: strict, frozen, unknown keys forbidden."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


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
