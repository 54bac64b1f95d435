"""The faults of the kinds of queue in a scenario, by the Rust module's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import did_you_mean, shown
from anabranch.scenario import units
from anabranch.scenario.queues import disciplines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.errors import Fault
    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath


def check(source: Source) -> Iterator[Fault]:
    """Return what is wrong with the names and parameters of queues."""
    for kind in ("paths", "links"):
        tables = source.raw.get(kind)
        for index, table in enumerate(tables if isinstance(tables, list) else []):
            ways = [(way, table.get(way)) for way in ("down", "up")] if isinstance(table, dict) else []
            places: list[tuple[KeyPath, Any]] = [((kind, index), table)]
            places += [((kind, index, way), part) for way, part in ways]
            for path, part in places:
                queue = part.get("queue") if isinstance(part, dict) else None
                if isinstance(queue, dict) and isinstance(queue.get("name"), str):
                    yield from _faults(source, (*path, "queue"), queue)


def _faults(source: Source, here: KeyPath, queue: Mapping[str, Any]) -> Iterator[Fault]:
    """Check one queue."""
    kind = disciplines().get(queue["name"])
    if kind is None:
        hint = did_you_mean(queue["name"], disciplines())
        yield source.fault((*here, "name"), f"unknown queue: {shown(queue['name'])}", hint=hint)
        return
    for key in queue.keys() - {"name", "limit"}:
        parameter = kind.parameters.get(key)
        if parameter is None:
            hint = did_you_mean(key, ["limit", *kind.parameters])
            yield source.fault((*here, key), f"unknown key: `{key}`", hint=hint)
            continue
        try:
            parameter.parse(queue[key])
        except units.UnitError as error:
            yield source.fault((*here, key), str(error), hint=error.hint)
