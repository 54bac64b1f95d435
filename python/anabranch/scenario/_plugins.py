"""What is wrong with the plug-ins that a scenario names: the tables themselves tell."""

from __future__ import annotations

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

#: How `anabranch list` calls each kind.
_LISTED: dict[plugins.Kind, str] = {
    "scheduler": "schedulers",
    "congestion": "congestion",
    "path_manager": "path-managers",
}
_UNKNOWN = re.compile(r"unknown (.+): `(.*)`")


def check(source: Source, finder: Finder) -> Iterator[Fault]:
    """Yield the faults of the transport's plug-ins; `finder` takes in those that are written in Python."""
    transport = source.raw.get("transport")
    for kind in _LISTED:
        if isinstance(transport, dict) and kind in transport:
            yield from faults(source, ("transport", kind), kind, transport[kind], finder)


def faults(
    source: Source, path: KeyPath, kind: plugins.Kind, given: object, finder: Finder
) -> Iterator[Fault]:
    """Yield what is wrong with a plug-in's name and parameters, and those of what it builds on."""
    if not isinstance(given, str) and not (isinstance(given, dict) and isinstance(given.get("name"), str)):
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
        # What is wrong in the plug-in's own file is told with its place there.
        yield replace(told, where=fault.where, line=fault.line) if fault.where else told


def _hint(fault: plugins.PluginFault, kind: plugins.Kind) -> str:
    """Return what a name or key that a plug-in has not got could have been."""
    unknown = _UNKNOWN.fullmatch(fault.message)
    if unknown is None:
        return did_you_mean("", fault.known) if fault.known else ""
    listed = f"`anabranch list {_LISTED[kind]}` shows all" if "parameter" not in unknown[1] else ""
    return did_you_mean(unknown[2], fault.known, otherwise=listed) if fault.known else "it has none"


def _name_key(source: Source, place: KeyPath) -> KeyPath:
    """Return where a plug-in's name stands: under `name` when it is a table."""
    node: Any = source.raw
    for step in place:
        inside = node.get(step) if isinstance(node, dict) else None
        node = node[step] if isinstance(node, list) and isinstance(step, int) else inside
    return (*place, "name") if isinstance(node, dict) else place
