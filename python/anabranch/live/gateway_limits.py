"""The file of a gateway's limits (TOML). SIGHUP reads it again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, did_you_mean, shown
from anabranch.scenario import load, units

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anabranch.live.gateway import Settings

_MOST_CONNECTIONS = (1 << 32) - 1


def _count(value: object) -> int:
    """Convert a value to a number of connections."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST_CONNECTIONS:
        message = f"not a number of connections: {shown(value)}"
        raise units.UnitError(message, hint="a whole number from 1 on")
    return value


def _seconds(value: object) -> float:
    """Convert a value to a time in seconds."""
    return units.time_ns(value) / 1e9


def _positive_seconds(value: object) -> float:
    """Return a time above zero."""
    return units.positive_time_ns(value) / 1e9


#: The keys: the setting that each one changes, and how its value is read.
KEYS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "connections": ("connections", _count),
    "per_source": ("per_source", _count),
    "per_site": ("per_site", _count),
    "memory": ("memory", units.size_bytes),
    "idle": ("idle_s", _positive_seconds),
    "grace": ("grace_s", _seconds),
}


def applied(settings: Settings, path: Path) -> Settings:
    """Return settings with the limits of a file, which override those given as options.

    Raises
    ------
    InputError
        With all faults of the file.
    """
    tables, lines = load.read(path, str(path), what="limits")
    changes: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, value in tables.items():
        place: dict[str, Any] = {"where": str(path), "line": lines.get((key,)), "key": key}
        if key not in KEYS:
            hint = did_you_mean(key, KEYS)
            faults.append(Fault(message=f"no such limit: {shown(key)}", hint=hint, **place))
            continue
        name, read = KEYS[key]
        try:
            changes[name] = read(value)
        except units.UnitError as error:
            faults.append(Fault(message=str(error), hint=error.hint, **place))
    if faults:
        raise InputError(faults)
    return dataclasses.replace(settings, **changes)
