"""The file of a gateway's limits (TOML). SIGHUP reads it again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, did_you_mean, shown
from anabranch.scenario import units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anabranch.live.gateway import Settings

_MOST_CONNECTIONS = (1 << 32) - 1
#: The smallest value of the memory limit. One connection may hold more than a third of it in its buffers.
_LEAST_MEMORY = 1 << 20


def _count(value: object) -> int:
    """Convert a value to a number of connections."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _MOST_CONNECTIONS:
        message = f"not a number of connections: {shown(value)}"
        raise units.UnitError(message, hint=f"a whole number from 1 to {_MOST_CONNECTIONS}")
    return value


def _backlog(value: object) -> int:
    """Convert a value to a number of handshakes, which may be 0."""
    return 0 if value == 0 and not isinstance(value, bool) else _count(value)


def _memory(value: object) -> int:
    """Convert a value to the bytes that all connections may hold."""
    found = units.size_bytes(value)
    if found < _LEAST_MEMORY:
        message = f"less than 1 MiB: {shown(value)}"
        raise units.UnitError(message, hint='for example "512 MiB"')
    return found


def _seconds(value: object) -> float:
    """Convert a value to a time in seconds."""
    return units.time_ns(value) / 1e9


def _positive_seconds(value: object) -> float:
    """Return a time above zero."""
    return units.positive_time_ns(value) / 1e9


#: The keys of the file: the setting that each one changes, and how its value is read. The options of the same
#: names are read in the same way.
KEYS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "connections": ("connections", _count),
    "per_source": ("per_source", _count),
    "per_site": ("per_site", _count),
    "memory": ("memory", _memory),
    "idle": ("idle_s", _positive_seconds),
    "grace": ("grace_s", _seconds),
}
#: Limits that exist only as options.
OPTIONS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "backlog": ("backlog", _backlog),
    "half_open": ("half_open_s", _positive_seconds),
    "connect_timeout": ("connect_s", _positive_seconds),
    "receive_buffer": ("receive_buffer", units.size_bytes),
    "send_buffer": ("send_buffer", units.size_bytes),
}


def given(options: Mapping[str, object]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the settings from the options, and the faults of invalid options.

    An invalid limit is replaced by its default. `per_site` may be None.
    """
    settings: dict[str, Any] = {}
    faults: list[Fault] = []
    for option, (name, read) in (KEYS | OPTIONS).items():
        value = options[option]
        if value is None:
            continue
        try:
            settings[name] = read(value)
        except units.UnitError as error:
            where = f"--{option.replace('_', '-')}"
            faults.append(Fault(message=str(error), where=where, hint=error.hint))
    return settings, faults


def applied(settings: Settings, path: Path) -> Settings:
    """Return settings with the limits of a file, which override those given as options.

    Raises
    ------
    InputError
        With all faults of the file.
    """
    # Imported late: most gateways have no limits file, and start twice as fast without the models.
    from anabranch.scenario import load

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
