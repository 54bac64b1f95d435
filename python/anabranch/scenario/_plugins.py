"""What is wrong with the plug-ins that a scenario names: the tables themselves tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.errors import Fault, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath

#: How `anabranch list` calls each kind.
_LISTED: dict[plugins.Kind, str] = {
    "scheduler": "schedulers",
    "congestion": "congestion",
    "path_manager": "path-managers",
}
_UNKNOWN = re.compile(r"unknown (.+): `(.*)`")


def check(source: Source) -> Iterator[Fault]:
    """Yield the faults of the transport's plug-ins."""
    transport = source.raw.get("transport")
    for kind in _LISTED:
        if isinstance(transport, dict) and kind in transport:
            yield from faults(source, ("transport", kind), kind, transport[kind])


def faults(source: Source, path: KeyPath, kind: plugins.Kind, given: object) -> Iterator[Fault]:
    """Yield what is wrong with a plug-in's name and parameters, and those of what it builds on."""
    if not isinstance(given, str) and not (isinstance(given, dict) and isinstance(given.get("name"), str)):
        return
    try:
        found = plugins.check(kind, given)
    except (TypeError, ValueError):
        message = "a plug-in's parameters are numbers, strings, true or false, and `base`"
        yield source.fault(path, message)
        return
    for fault in found:
        place = (*path, *fault.path)
        unknown = _UNKNOWN.fullmatch(fault.message)
        hint = ""
        if unknown is not None:
            listed = f"`anabranch list {_LISTED[kind]}` shows all" if "parameter" not in unknown[1] else ""
            hint = did_you_mean(unknown[2], fault.known, otherwise=listed) if fault.known else "it has none"
        elif fault.known:
            hint = did_you_mean("", fault.known)
        yield source.fault(_name_key(source, place), fault.message, hint=hint)


def _name_key(source: Source, place: KeyPath) -> KeyPath:
    """Return where a plug-in's name stands: under `name` when it is a table."""
    node: Any = source.raw
    for step in place:
        inside = node.get(step) if isinstance(node, dict) else None
        node = node[step] if isinstance(node, list) and isinstance(step, int) else inside
    return (*place, "name") if isinstance(node, dict) else place
