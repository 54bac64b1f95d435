"""The base of every table of a scenario: quantities with units, and refused keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints
from pydantic_core import PydanticCustomError

from anabranch.scenario import units

if TYPE_CHECKING:
    from collections.abc import Callable


def quantity(parse: Callable[[object], Any]) -> BeforeValidator:
    """Return a pydantic validator for one of the parsers of `units`."""

    def validate(value: object) -> Any:  # noqa: ANN401 - what the parser returns
        try:
            return parse(value)
        except units.UnitError as error:
            context = {"message": str(error), "hint": error.hint}
            raise PydanticCustomError("quantity", "{message}", context) from None  # noqa: EM101

    return BeforeValidator(validate)


Time = Annotated[int, quantity(units.time_ns)]
PositiveTime = Annotated[int, quantity(units.positive_time_ns)]
Rate = Annotated[int | None, quantity(units.rate_bps)]
LimitedRate = Annotated[int, quantity(units.limited_rate_bps)]
Size = Annotated[int, quantity(units.size_bytes)]
Share = Annotated[float, quantity(units.fraction)]
Pictures = Annotated[float, quantity(units.pictures)]
Limit = Annotated[dict[str, int] | None, quantity(units.queue)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]+$")]


class Table(BaseModel):
    """A table of the file. It is immutable, and unknown keys are faults."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, strict=True)
