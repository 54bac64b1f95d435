"""The settings of an assumption's value: for every path, a pattern for an axis, or some values of one."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from anabranch.study import grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

#: The file that makes a folder a study, which its values come from.
FILE = "study.toml"


def is_pattern(value: object) -> bool:
    """Return whether a value is a pattern for the values of an axis."""
    return isinstance(value, str) and "{}" in value


def is_by_value(value: object) -> bool:
    """Return whether a value has another one for some of an axis' values: `{ spdx = "spdx(hold=1)" }`."""
    return isinstance(value, dict) and "name" not in value and of_other_key(value) is None


def of_other_key(value: object) -> str | None:
    """Return the key whose value a value takes, `{ as = "shared.queue" }`; None for other values."""
    return str(value["as"]) if isinstance(value, dict) and value.keys() == {"as"} else None


def of_axis(axis: grid.Axis, at: int, pattern: str | dict[str, Any] | None) -> tuple[str, Any, str]:
    """Return what an axis sets at one of its values."""
    if isinstance(pattern, dict):
        value = pattern.get(axis.texts[at], axis.values[at])
    else:
        value = axis.values[at] if pattern is None else pattern.replace("{}", axis.texts[at])
    return axis.key, value, axis.origin


def axis_of(key: str, values: Sequence[Any]) -> grid.Axis:
    """Return an axis of the study's file."""
    from anabranch.plugins import label

    texts = tuple(label(value) if isinstance(value, dict) else str(value) for value in values)
    return grid.Axis(key=key, values=tuple(values), texts=texts, origin=FILE)


def paths_of(path: Path) -> list[str]:
    """Return the names of a scenario's paths; a broken file is reported when it is loaded."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return []
    found = raw.get("paths", [])
    return [one["name"] for one in found if isinstance(one, dict) and isinstance(one.get("name"), str)]


def spread(fixed: Mapping[str, Any], paths: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield settings with `paths.*` replaced by every path."""
    for key, value in fixed.items():
        if key.startswith("paths.*."):
            for path in paths:
                yield f"paths.{path}.{key.removeprefix('paths.*.')}", value
        else:
            yield key, value
