"""Kinds of queue: `queue = { name = "codel", target = "5 ms" }`.

Names, parameters, ranges and defaults come from the Rust module's table and are not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Discriminator, Field, Tag

from anabranch.errors import shown
from anabranch.plugins import listed, module
from anabranch.scenario import units
from anabranch.scenario._base import Limit, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The name of the kind that a plain limit selects.
PLAIN = "drop-tail"
#: The default limit of a drop-tail queue.
USUAL_LIMIT: dict[str, int] = dict(
    limit for name, _, limit, _ in listed("queue_disciplines") if name == PLAIN
)


class Queue(Table):
    """A queue by name, with its own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    limit: Limit = Field(default=None, description="what it holds at most: packets or bytes")


def _kind_of_queue(value: object) -> str:
    """Distinguish a queue given as a table from a limit, before and after validation."""
    read = isinstance(value, dict) and value.keys() in ({"packets"}, {"bytes"})
    return "<queue>" if isinstance(value, dict | Queue) and not read else "<limit>"


AnyQueue = Annotated[
    Annotated[Limit, Tag("<limit>")] | Annotated[Queue, Tag("<queue>")], Discriminator(_kind_of_queue)
]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a kind of queue.

    Attributes
    ----------
    key
        Its key.
    unit
        Its unit: "count", "flag", "size" (bytes) or "time" (ns).
    default, least, most
        Its default, and the permitted range.
    meaning
        Its meaning.
    """

    key: str
    unit: str
    default: int
    least: int
    most: int
    meaning: str

    def parse(self, value: object) -> int:
        """Return a value in the plan's unit.

        Raises
        ------
        UnitError
            When it is not a queue, or out of range.
        """
        number = self._number(value)
        for bound, word, out in ((self.least, "least", -1), (self.most, "most", 1)):
            if (number - bound) * out > 0:
                message = f"must be at {word} {self.show(bound)}: {shown(value)}"
                raise units.UnitError(message)
        return number

    def _number(self, value: object) -> int:
        if self.unit == "time":
            return units.time_ns(value)
        if self.unit == "size":
            return units.size_bytes(value)
        kind, words = (bool, "true or false") if self.unit == "flag" else (int, "a whole number")
        if type(value) is not kind:
            message = f"expected {words}, got {shown(value)}"
            raise units.UnitError(message)
        return int(value)

    @property
    def allowed(self) -> str:
        """The permitted values, in words."""
        if self.unit == "flag":
            return "true or false"
        return f"{self.show(self.least)} to {self.show(self.most)}"

    def show(self, number: int) -> str:
        """Return a value as a person writes it."""
        if self.unit == "time":
            return units.show_time(number)
        if self.unit == "flag":
            return "true" if number else "false"
        return f"{number} B" if self.unit == "size" else str(number)


@dataclass(frozen=True, kw_only=True)
class Discipline:
    """A kind of queue: its summary, its default limit, its parameters by key."""

    name: str
    summary: str
    limit: Mapping[str, int] | None
    parameters: Mapping[str, Parameter]


def disciplines() -> Mapping[str, Discipline]:
    """Return the kinds of queue by name."""
    found: dict[str, Discipline] = {}
    for name, summary, limit, parameters in module().queue_disciplines():
        keys = ("key", "unit", "default", "least", "most", "meaning")
        own = {given[0]: Parameter(**dict(zip(keys, given, strict=True))) for given in parameters}
        plain = None if limit is None else {limit[0]: limit[1]}
        found[name] = Discipline(name=name, summary=summary, limit=plain, parameters=own)
    return found


def plan(queue: Mapping[str, int] | Queue | None) -> dict[str, Any]:
    """Return a queue for the plan: its limit, and its kind unless it is drop-tail."""
    if not isinstance(queue, Queue):
        return {"queue": queue}
    kind = disciplines()[queue.name]
    limit = queue.limit if "limit" in queue.model_fields_set else kind.limit
    if queue.name == PLAIN:
        return {"queue": limit}
    given = queue.model_extra or {}
    values = {
        key: parameter.parse(given[key]) if key in given else parameter.default
        for key, parameter in kind.parameters.items()
    }
    return {"queue": limit, "discipline": {"name": queue.name, "values": values}}
