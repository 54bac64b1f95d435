"""The tables of models and recordings: `model = "lte"`, `model = { name = "wifi" }`, `trace = "a.csv"`.

Names, parameters, ranges and defaults of models come from the Rust module's table and are not repeated here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import BeforeValidator, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from anabranch.errors import did_you_mean, shown
from anabranch.plugins import listed
from anabranch.scenario import units
from anabranch.scenario._base import LimitedRate, Name, PositiveTime, Share, Size, Table, Time, quantity
from anabranch.traces._facts import Gaps, RateUnit, RecordingFacts, TimeUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

#: For each unit of a parameter, the notation in a scenario.
_MEASURED: dict[str, Any] = {
    "count": int,
    "decibels": Annotated[float, quantity(units.decibels)],
    "rate": LimitedRate,
    "share": Share,
    "time": Time,
    "width": Annotated[int, quantity(units.width_mhz)],
}
#: Quantities that need not be whole numbers.
_FRACTIONS = ("decibels", "share")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a model.

    Attributes
    ----------
    key, plan
        The parameter's key in a scenario (empty if the link's place sets it), and its key in a plan.
    form
        "way", "place", "shared" or "word", or its unit.
    words
        The permitted words; the first is the default.
    usual
        The default; None if the model chooses it.
    by
        For a default that depends on a word: the word's key, and the default for each word.
    least, most, below
        The range, and whether the maximum itself is excluded.
    meaning
        Its meaning.
    """

    key: str
    plan: str
    form: str
    words: Sequence[str]
    usual: float | None
    by: tuple[str, Sequence[tuple[str, float]]] | None
    least: float
    most: float
    below: bool
    meaning: str

    def number(self, value: float) -> float:
        """Return a number as a plan has it."""
        return float(value) if self.form in _FRACTIONS else int(value)

    def field(self) -> tuple[Any, Any]:
        """Return its type and its field in a table of a scenario."""
        default: Any = None
        kind: Any = Name
        if self.form == "word":
            kind, default = Literal[tuple(self.words)], self.words[0]
        elif self.form in _MEASURED:
            kind = PositiveTime if self.form == "time" and self.least > 0 else _MEASURED[self.form]
            kind = Annotated[kind, self._bounds()]
            default = None if self.usual is None else self.number(self.usual)
        return kind if default is not None else kind | None, Field(default=default, description=self.meaning)

    def _bounds(self) -> Any:  # noqa: ANN401 - pydantic's
        """Return the range of the parameter, for those that have one."""
        most = self.number(self.most) if math.isfinite(self.most) else None
        least = self.number(self.least) if self.least > 0 else None
        return Field(ge=least, lt=most if self.below else None, le=None if self.below else most)


class LinkModel(Table):
    """A model of a link, by name, with its parameters."""

    #: The model's name in reports.
    called: ClassVar[str] = ""
    #: Whether the model has delays.
    delays: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    name: str

    def plan(self, way: str, place: str) -> dict[str, Any]:
        """Return one direction's part of the plan; `place` names the path or link."""
        return {it.plan: self._planned(it, way, place) for it in self.parameters}

    def _planned(self, it: Parameter, way: str, place: str) -> Any:  # noqa: ANN401 - of many types
        if it.form in ("way", "place"):
            return way if it.form == "way" else place
        value = getattr(self, it.key)
        if it.form == "shared":
            return f"path {place}" if value is None else f"{it.key} {value}"
        if value is None and it.by is not None:
            word, numbers = it.by
            return it.number(dict(numbers)[getattr(self, word)])
        return value


def _classes() -> tuple[dict[str, type[LinkModel]], dict[str, dict[str, Any]]]:
    """Return the models by name, and the names that stand for a model with a parameter."""
    classes: dict[str, type[LinkModel]] = {}
    short: dict[str, dict[str, Any]] = {}
    fields = tuple(Parameter.__dataclass_fields__)
    for name, called, delays, aliases, rows in listed("link_models"):
        parameters = tuple(Parameter(**dict(zip(fields, row, strict=True))) for row in rows)
        own: Any = Literal[name]
        keys: dict[str, Any] = {"name": (own, ...)} | {it.key: it.field() for it in parameters if it.key}
        made = create_model(name.title(), __base__=LinkModel, **keys)
        made.called, made.delays, made.parameters = called, delays, parameters
        classes[name] = made
        short |= {alias: {"name": name, key: word} for alias, key, word in aliases}
    return classes, short | {name: {"name": name} for name in classes}


class Recording(Table):
    """A recording in a file."""

    file: str = Field(description="its path, relative to the scenario file")
    repeat: bool = Field(default=True, description="begin again at its end; false: its last step holds")
    start: Literal["beginning", "random"] = Field(
        default="beginning", description="where a run begins in it: at a place drawn for each run, if random"
    )
    rate_unit: RateUnit | None = Field(
        default=None, description="the unit of the second of two columns without names"
    )
    time_unit: TimeUnit | None = Field(default=None, description="the unit of the first of them")
    gaps: Gaps = Field(
        default="hold", description="what a time without rows is: unchanged, an outage, or left out"
    )

    light: str | None = Field(default=None, description="a recording of the same link under light load")
    light_bytes: Size | None = Field(default=None, description="the first bytes of a burst, which it serves")
    light_after: Time | None = Field(
        default=None, description="the time without a packet in the queue after which a burst begins"
    )

    @property
    def facts(self) -> RecordingFacts:
        """The facts about the recording that its file does not state."""
        return RecordingFacts(rate_unit=self.rate_unit, time_unit=self.time_unit, gaps=self.gaps)

    @model_validator(mode="after")
    def _repeats(self) -> Self:
        """Refuse a start at the very end of a recording, after which nothing follows."""
        if self.start == "random" and not self.repeat:
            message = "a random start in a recording that does not repeat"
            raise _fault(message, 'leave `repeat = false` out, or `start = "random"`')
        return self

    @model_validator(mode="after")
    def _light(self) -> Self:
        """Refuse a recording under light load without its bytes, and its keys without that recording."""
        if self.light is not None and self.light_bytes is None:
            message = "a recording under light load without `light_bytes`"
            raise _fault(message, 'for example light_bytes = "15 kB"')
        if self.light is None and (self.light_bytes is not None or self.light_after is not None):
            message = "`light_bytes` and `light_after` belong to a recording under light load"
            raise _fault(message, 'for example light = "light.csv"')
        return self


#: The models by name, and names that stand for a model with a parameter.
MODELS, SHORT = _classes()


def expanded(value: object) -> dict[str, Any] | None:
    """Return a raw model as a table with the name of its class; None if it names no model."""
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str) or name not in SHORT:
        return None
    return {**(value if isinstance(value, dict) else {}), **SHORT[name]}


def model_class(value: object) -> type[LinkModel] | None:
    """Return the class of a raw model, if it names one."""
    table = expanded(value)
    return None if table is None else MODELS[table["name"]]


def _model(value: object) -> object:
    """Read a model: a name, or a table with a name and parameters."""
    if isinstance(value, Table):
        return value
    table = expanded(value)
    if table is not None:
        return table
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str):
        hint = 'for example model = "lte", or model = { name = "lte", mean = "20 Mbit/s" }'
        message = "a model is a name, or a table with a `name`"
        raise _fault(message, hint)
    message = f"unknown model: {shown(name)}"
    raise _fault(message, did_you_mean(name, SHORT))


def _fault(message: str, hint: str) -> PydanticCustomError:
    """Return a fault with a hint."""
    context = {"message": message, "hint": hint}
    return PydanticCustomError("quantity", "{message}", context)


def _trace(value: object) -> object:
    """Read a recording: a path, or a table."""
    return {"file": value} if isinstance(value, str) else value


if TYPE_CHECKING:
    Model = LinkModel
else:
    _Any = Union[tuple(MODELS.values())] if MODELS else LinkModel  # noqa: UP007 - made at run time
    Model = Annotated[
        Annotated[_Any, Field(discriminator="name")] if MODELS else _Any, BeforeValidator(_model)
    ]
TraceFile = Annotated[Recording, BeforeValidator(_trace)]
