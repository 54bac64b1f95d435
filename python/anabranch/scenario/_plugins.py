"""The faults of the plug-ins that a scenario names, found by the plug-ins' own tables."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch import plugins
    from anabranch.plugins.load import Finder
    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath

#: The word for each kind in `anabranch list`.
_LISTED: dict[plugins.Kind, str] = {
    "scheduler": "schedulers",
    "congestion": "congestion",
    "path_manager": "path-managers",
    "abr": "abr",
}
#: The largest number of plug-ins in a composition, which is also the simulator's.
_LEVELS = 16
_UNKNOWN = re.compile(r"unknown (.+): `(.*)`")


def check(source: Source, finder: Finder) -> Iterator[Fault]:
    """Yield the faults of the plug-ins of the transport and of the application.

    `finder` finds the plug-ins that are written in Python.
    """
    for kind in _LISTED:
        name = "application" if kind == "abr" else "transport"
        table = source.raw.get(name)
        if isinstance(table, dict) and kind in table:
            yield from faults(source, (name, kind), kind, table[kind], finder)


def faults(
    source: Source, path: KeyPath, kind: plugins.Kind, given: object, finder: Finder
) -> Iterator[Fault]:
    """Yield the faults of a plug-in's name and parameters, and those of its base."""
    if not isinstance(given, str) and not (isinstance(given, dict) and isinstance(given.get("name"), str)):
        return
    unfit = list(_unfit(given))
    if unfit:
        yield from (source.fault((*path, *below), message) for below, message in unfit)
        return
    try:
        typed = any(origin[: len(path)] == path for origin in source.origins)
        found = finder.check(kind, given, typed=typed)
    except (TypeError, ValueError):
        message = "a plug-in's parameters are numbers, strings, true or false, and `base`"
        yield source.fault(path, message)
        return
    for fault in found:
        place = (*path, *fault.path)
        told = source.fault(_name_key(source, place), fault.message, hint=fault.hint or _hint(fault, kind))
        # A fault in the plug-in's own file is reported with its place there.
        yield replace(told, where=fault.where, line=fault.line) if fault.where else told


def _unfit(given: str | dict[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield values that no plug-in accepts: tables nested too deeply, and numbers that are not finite."""
    tables: list[tuple[KeyPath, Any]] = [((), given)] if isinstance(given, dict) else []
    for _ in range(_LEVELS):
        for path, table in tables:
            for key, value in table.items():
                if isinstance(value, float) and not math.isfinite(value):
                    yield (*path, key), f"`{key}` of {table.get('name', given)} is finite, not `{value}`"
        tables = [
            ((*path, key), value)
            for path, table in tables
            for key, value in table.items()
            if isinstance(value, dict)
        ]
    if tables:
        yield (), f"plug-ins can be nested to at most {_LEVELS} levels"


def _hint(fault: plugins.PluginFault, kind: plugins.Kind) -> str:
    """Return the hint for an unknown name or key of a plug-in."""
    unknown = _UNKNOWN.fullmatch(fault.message)
    if unknown is None:
        return did_you_mean("", fault.known) if fault.known else ""
    listed = f"`anabranch list {_LISTED[kind]}` shows all" if "parameter" not in unknown[1] else ""
    return did_you_mean(unknown[2], fault.known, otherwise=listed) if fault.known else "it has none"


def _name_key(source: Source, place: KeyPath) -> KeyPath:
    """Return the key path of a plug-in's name: under `name` when it is a table."""
    node: Any = source.raw
    for step in place:
        inside = node.get(step) if isinstance(node, dict) else None
        node = node[step] if isinstance(node, list) and isinstance(step, int) else inside
    return (*place, "name") if isinstance(node, dict) else place
