"""Conversion of pydantic's errors to faults with file, line, key and nearest valid name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean, shown
from anabranch.scenario import _words, link_models, models, profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from anabranch.scenario._lines import KeyPath

#: The class of each table, by its path without array indexes.
_TABLES: dict[tuple[str, ...], type[models.Table]] = {
    (): models.Scenario,
    ("application",): models.Application,
    ("application", "player"): models.Player,
    ("application", "ladder"): models.Numbers,
    ("application", "ladder", "renditions"): models.Rung,
    ("paths",): models.Path,
    ("links",): models.Link,
    ("transport",): models.Transport,
    ("transport", "stack"): profiles.Stack,
    ("transport", "ecn"): models.Ecn,
    ("host",): models.Host,
    ("cost",): models.Cost,
    ("cross_traffic",): models.CrossTraffic,
    ("events",): models.Event,
    ("handoffs",): models.Handoff,
    **{(kind, way): models.Direction for kind in ("paths", "links") for way in ("down", "up")},
}

#: Pydantic's names of the members of a union, which are not keys of a scenario.
_TAGS = ("<share>", "<model>", "<limit>", "<queue>", "<word>", "<sides>", "<all>", "<kinds>", "float", "bool")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source of a scenario's keys.

    Attributes
    ----------
    where
        The file, as the user named it.
    raw
        The tables, overrides applied.
    lines
        Line of each key path in the file.
    origins
        Key paths that overrides set, and the text of each override.
    """

    where: str
    raw: dict[str, Any]
    lines: Mapping[KeyPath, int]
    origins: Mapping[KeyPath, str]

    def fault(self, path: KeyPath, message: str, *, hint: str = "") -> Fault:
        """Return a fault at a key path."""
        # If an override replaces a table of the file, keys in it have no line number.
        replaced = next((n for n in range(len(path) + 1) if path[:n] in self.origins), len(path) + 1)
        for length in range(len(path), -1, -1):
            prefix = path[:length]
            if prefix in self.origins:
                where, line = self.origins[prefix], None
                break
            if prefix in self.lines and length < replaced:
                where, line = self.where, self.lines[prefix]
                break
        else:
            where, line = self.where, (1 if self.lines else None)
        return Fault(message=message, where=where, line=line, key=self.show(path), hint=hint)

    def show(self, path: KeyPath) -> str:
        """Return a key path for messages, with elements of arrays by their name."""
        parts, node = [], self.raw
        for step in path:
            node = _child(node, step)
            named = isinstance(step, int) and isinstance(node, dict) and isinstance(node.get("name"), str)
            parts.append(node["name"] if named else str(step))
        return ".".join(parts)

    def order(self, fault: Fault) -> tuple[bool, int]:
        """Return a sort key for a fault: first the order of the file, then the overrides."""
        return (fault.line is None, fault.line or 0)


def without_misspelt(faults: Sequence[Fault]) -> list[Fault]:
    """Return faults without those of missing keys that another fault finds misspelt in the same table."""
    misspelt = {
        (fault.key.rpartition(".")[0], fault.hint.removeprefix("did you mean ").partition("?")[0])
        for fault in faults
        if fault.message.startswith("unknown key: ") and fault.hint.startswith("did you mean ")
    }
    return [
        fault
        for fault in faults
        if not fault.message.startswith("missing key: ")
        or (fault.key.rpartition(".")[0], fault.message.removeprefix("missing key: ")) not in misspelt
    ]


def from_pydantic(
    source: Source, error: ErrorDetails, valid: Callable[[KeyPath], Iterable[str]] | None = None
) -> Fault | None:
    """Return the fault for one pydantic error; None if other errors repeat it.

    Parameters
    ----------
    source
        Where the keys came from.
    error
        pydantic's error.
    valid
        The keys of the table that contains an unknown key; by default those of a scenario's table.
    """
    path = _real_path(source.raw, error["loc"])
    kind, value = error["type"], error["input"]
    context = error.get("ctx", {})
    if kind == "quantity":
        return source.fault(path, str(context["message"]), hint=str(context["hint"]))
    if kind == "extra_forbidden":
        known = valid(path) if valid is not None else _keys(source, path)
        return source.fault(path, f"unknown key: `{path[-1]}`", hint=did_you_mean(str(path[-1]), known))
    if kind == "missing":
        example = _example(path) if valid is None else ""
        return source.fault(path, f"missing key: `{path[-1]}`", hint=example)
    if kind == "literal_error":
        return _unknown_word(source, path, value, str(context["expected"]))
    if kind == "too_short":
        if value and valid is None:  # elements there are, each with a fault of its own
            return None
        return source.fault(path, f"`{source.show(path)}` is empty: at least one is needed")
    if path[:1] == ("expect",) and path[-1] == "equals":
        # Pydantic tries it as a number first, and then as a flag.
        message = f"expected a number, or true or false, got {shown(value)}"
        return None if kind.startswith("bool") else source.fault(path, message)
    return source.fault(path, _words.message(kind, value, context))


def _unknown_word(source: Source, path: KeyPath, value: object, expected: str) -> Fault:
    """Return the fault of a value that is not among the words that a key accepts."""
    known = [part.strip("' ") for part in expected.replace(" or ", ", ").split(",")]
    if not isinstance(value, str):
        return source.fault(path, f"expected a string, got {shown(value)}", hint=did_you_mean("", known))
    hint = did_you_mean(value, known)
    return source.fault(path, f"unknown {path[-1]}: {shown(value)}", hint=hint)


def _keys(source: Source, path: KeyPath) -> list[str]:
    """Return the keys of the table of a scenario that a path is in."""
    table = tuple(step for step in path[:-1] if isinstance(step, str))
    model = _TABLES.get(table)
    if table == ("application", "ladder") and any(isinstance(step, int) for step in path[:-1]):
        model = models.Rung
    if table and table[-1] == "loss":
        model = models.GilbertElliott
    elif table and table[-1] == "reorder":
        model = models.Reorder
    elif table and table[-1] == "corrupt":
        model = models.Corrupt
    elif table and table[-1] == "model":
        model = link_models.model_class(_node(source.raw, path[:-1]))
    elif table and table[-1] == "trace":
        model = link_models.Recording
    elif table and table[0] == "expect":
        model = models.Bounds
    return list(model.model_fields) if model is not None else []


def _example(path: KeyPath) -> str:
    """Return an example of a missing key."""
    if path == ("paths",):
        return 'add a path: [[paths]] with name = "wifi", rtt = "50 ms", rate = "5 Mbit/s"'
    if path[-1] == "name" and (path[0] in ("transport", "application") or "congestion" in path):
        return "a plug-in's table has its name and its own parameters"
    if path[-1] == "name" and "queue" in path:
        return 'for example name = "codel"'
    examples = {"name": 'name = "wifi"', "at": 'at = "20 s"', "p": 'p = "1 %"', "r": 'r = "20 %"'}
    examples |= {"share": 'share = "1 %"', "delay": 'delay = "10 ms"'}
    if path == ("name",):
        return 'name = "my-scenario"'
    return examples.get(str(path[-1]), "")


def _real_path(raw: object, location: tuple[str | int, ...]) -> KeyPath:
    """Return a pydantic location without the tags, which are not part of the file."""
    path: list[str | int] = []
    node = raw
    for position, step in enumerate(location):
        last = position == len(location) - 1
        child = _child(node, step)
        if child is None and not (last and isinstance(node, dict) and step not in _TAGS):
            continue
        path.append(step)
        node = child
    return tuple(path)


def _node(raw: object, path: KeyPath) -> object:
    """Return the value at a key path, or None."""
    for step in path:
        raw = _child(raw, step)
    return raw


def _child(node: Any, step: str | int) -> Any:  # noqa: ANN401 - raw TOML
    """Return the value under a key or index, or None."""
    if isinstance(node, dict):
        return node.get(str(step)) if isinstance(step, str) else None
    if isinstance(node, list | tuple) and isinstance(step, int) and step < len(node):
        return node[step]
    return None
