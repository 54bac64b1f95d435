"""The table of a handoff, as validated (`handoff_events` translates it into events)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from anabranch.scenario._base import PositiveTime, Table, Time


def _moment(value: object) -> Any:  # noqa: ANN401 - what the parser returns
    """Read a moment: a time, or the first and the last of a range."""
    values = value if isinstance(value, list | tuple) else [value, value]
    if len(values) != 2:
        context = {"message": "a range is two times", "hint": 'for example at = ["20 s", "40 s"]'}
        raise PydanticCustomError("quantity", "{message}", context)  # noqa: EM101
    return tuple(values)


Moment = Annotated[tuple[Time, Time], Field(strict=False), BeforeValidator(_moment)]


class Handoff(Table):
    """A time at which clients lose a path, and perhaps get it back."""

    path: str = Field(description="the path that is lost")
    kind: Literal["silent", "link-down", "removed", "fade", "ping-pong"] = Field(
        default="silent", description="how it is lost"
    )
    at: Moment = Field(description="when, or the range that each run draws it from")
    lasting: PositiveTime | None = Field(default=None, description="when it is back, from its loss on")
    over: PositiveTime = Field(default=3 * 10**9, description="how long a fade takes, either way")
    to: str | None = Field(default=None, description="the other path of a ping-pong")
    every: PositiveTime = Field(
        default=10**10, description="time from one loss, or change of a ping-pong, to the next"
    )
    times: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=4, description="number of losses or changes"
    )
