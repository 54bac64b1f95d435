"""`--set key=value`: overrides of any key of a scenario by its dotted path.

A path goes through tables by key and through arrays by index or by the `name` of an element:
`paths.wifi.rtt`, `paths.0.rtt`. A value that is valid TOML is read as such, any other as a plain string, so
that neither `80ms` nor `5 Mbit/s` needs quotes.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.scenario._lines import KeyPath

#: A path whose parts are bare keys of TOML, as most paths are.
_BARE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
#: Keys whose value may be a plain name or a table with a name and parameters.
_NAMED_TABLES = {"scheduler", "congestion", "path_manager", "base", "abr", "model"}


@dataclass(frozen=True, kw_only=True)
class Override:
    """One override.

    Attributes
    ----------
    key
        Dotted path.
    value
        The value as TOML would return it.
    origin
        The override as the user wrote it, for messages: `--set paths.wifi.rtt=80ms`.
    """

    key: str
    value: Any
    origin: str


@dataclass
class Overridden:
    """A raw scenario with its overrides applied.

    Attributes
    ----------
    raw
        The tables.
    origins
        Key paths that an override set or created, and how it was given.
    faults
        The faults of overrides that do not fit the scenario.
    """

    raw: dict[str, Any]
    origins: dict[KeyPath, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def parse_assignment(text: str) -> Override | Fault:
    """Read one `key=value` of the command line."""
    key, equals, value = text.partition("=")
    origin = f"--set {text}"
    if not equals or not key.strip():
        return Fault(
            message=f"expected key=value: `{text}`",
            where=origin,
            hint="for example `--set paths.wifi.rtt=80ms`",
        )
    return Override(key=key.strip(), value=parse_value(value), origin=origin)


def parse_value(text: str) -> Any:  # noqa: ANN401 - whatever TOML can say
    """Return the value of a text: parsed if it is valid TOML, and otherwise the text itself."""
    try:
        ((_, value),) = tomllib.loads(f"value = {text}").items()
    except ValueError:  # no TOML, or more than one value
        return text.strip()
    if isinstance(value, float) and not math.isfinite(value):
        return text.strip()
    return value if isinstance(value, bool | int | float | str | list | dict) else text.strip()


def by_name(
    *,
    seed: int | None,
    scheduler: str | type | Mapping[str, Any] | None,
    congestion: str | type | Mapping[str, Any] | None,
    set: Mapping[str, Any] | None,  # noqa: A002 - the name that the command line has
) -> list[Override]:
    """Return the overrides for arguments of a Python call. None leaves the scenario's own value.

    Raises
    ------
    InputError, MissingError
        If a class cannot be loaded by its place.
    """
    from anabranch.plugins.cells import placed

    given = {"seed": seed, "transport.scheduler": scheduler, "transport.congestion": congestion}
    return [
        Override(key=key, value=placed(value), origin=f"{key}={value!r}")
        for key, value in {**given, **(set or {})}.items()
        if value is not None
    ]


def apply(raw: dict[str, Any], overrides: Sequence[Override]) -> Overridden:
    """Return the scenario with every override applied, in order."""
    result = Overridden(raw=copy.deepcopy(raw))
    for override in overrides:
        fault = _apply_one(result, override)
        if fault is not None:
            result.faults.append(fault)
    return result


def split_key(key: str) -> list[str]:
    """Return the parts of a dotted path; parts may be quoted as in TOML."""
    if _BARE.fullmatch(key):
        return key.split(".")
    try:
        value: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return key.split(".")
    parts = []
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return parts


def _apply_one(result: Overridden, override: Override) -> Fault | None:
    """Set one value, and return the fault of its path, if any."""
    parts = split_key(override.key)
    if not all(parts):
        return _misfit(override, f"empty part in a key: `{override.key}`", "")
    node: Any = result.raw
    path: KeyPath = ()
    for part, following in itertools.pairwise(parts):
        step = _step(node, part, override)
        if isinstance(step, Fault):
            return step
        path = (*path, step)
        if isinstance(node, list) and step == len(node):
            node.append({})
            result.origins[path] = override.origin
        elif isinstance(node, dict) and step not in node:
            # The array is missing in the file, and this is its first element.
            node[step] = [] if following == "0" else _new_table(path)
            result.origins[path] = override.origin
        elif isinstance(node[step], str) and part in _NAMED_TABLES:
            node[step] = {"name": node[step]}
        node = node[step]
    step = _step(node, parts[-1], override)
    if isinstance(step, Fault):
        return step
    if isinstance(node, list) and step == len(node):
        node.append(override.value)
    else:
        node[step] = override.value
    result.origins[*path, step] = override.origin
    return None


def _new_table(path: KeyPath) -> dict[str, Any]:
    """Return a new table for a first key. A plug-in that is given parameters keeps its default name."""
    from anabranch.scenario.models import Application, CrossTraffic, Plugin, Table, Transport

    models: dict[str, type[Table]] = {
        "application": Application,
        "transport": Transport,
        "cross_traffic": CrossTraffic,
    }
    model = models.get(str(path[0]))
    field = model.model_fields.get(str(path[-1])) if model is not None else None
    default = field.default if field is not None else None
    return {"name": default.name} if isinstance(default, Plugin) else {}


def _step(node: object, part: str, override: Override) -> str | int | Fault:
    """Return the key or index that `part` means in `node`."""
    if isinstance(node, dict):
        return part
    if not isinstance(node, list):
        return _misfit(override, f"`{part}` is a key of something that is not a table", "")
    if part.isdecimal():
        if int(part) <= len(node):
            return int(part)
        return _misfit(override, f"no element {part}: there are {len(node)}, counted from 0", "")
    names = [item.get("name") if isinstance(item, dict) else None for item in node]
    if part in names:
        return names.index(part)
    known = [str(name) for name in names if name is not None]
    return _misfit(override, f"no element is named `{part}`", did_you_mean(part, known) if known else "")


def _misfit(override: Override, message: str, hint: str) -> Fault:
    """Return the fault of an override whose path does not exist."""
    return Fault(message=message, where=override.origin, key=override.key, hint=hint)
