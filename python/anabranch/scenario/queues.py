"""Kinds of queue: `queue = { name = "codel", target = "5 ms" }`.

Names, parameters, ranges and defaults are those of the Rust module's table, and stand nowhere else.
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

#: The kind of a queue that is only a limit.
PLAIN = "drop-tail"
#: The default limit of such a queue.
USUAL_LIMIT: dict[str, int] = dict(
    limit for name, _, limit, _ in listed("queue_disciplines") if name == PLAIN
)


class Queue(Table):
    """A queue by name, with its own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    limit: Limit = Field(default=None, description="what it holds at most: packets or bytes")


def _kind_of_queue(value: object) -> str:
    """Distinguish a queue given as a table from a limit, raw or read."""
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
        Its value when it is not given, and the range of those that may be.
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
        """Return a value as the plan has it.

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
    """Return a queue as the plan has it: its limit, and its kind where it is not plain."""
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
