"""From a set-up of the page to the tables of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.play import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: The plug-ins of the transport that may have parameters: `scheduler.beta` is one of a scheduler.
PLUGINS = ("scheduler", "congestion")


def tables(setup: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the scenario that a set-up stands for.

    Parameters
    ----------
    setup
        The values of the session's keys, and under `application`, `transport` and `paths` those of the
        others. Missing keys have their defaults. A path's `cuts` are pairs of seconds, its `cut` their kind.
    """
    paths = [_with_name(path, place) for place, path in enumerate(setup.get("paths", ({},)))]
    raw = _filled("session", setup)
    raw["application"] = _filled("application", setup.get("application", {}))
    raw["transport"] = transport(setup.get("transport", {}))
    raw["paths"] = [_filled("path", path) for path in paths]
    events = [event for path in paths for event in _events(path)]
    return raw | ({"events": events} if events else {})


def number(value: float) -> int | float:
    """Return a number as the page has it: whole if it can be."""
    return int(value) if float(value).is_integer() else float(value)


def _with_name(path: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return a path, named by its place if it has no name."""
    return {"name": keys.PATH_NAMES[place], **path}


def _filled(section: keys.Section, part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of one part of a set-up."""
    raw: dict[str, Any] = {}
    for key in keys.of(section):
        value = part.get(key.id, key.default)
        if not key.applies(part) or (key.omit and value == key.default):
            continue
        *steps, last = key.toml
        table = raw
        for step in steps:
            table = table.setdefault(step, {})
        table[last] = key.written(value)
    return raw


def transport(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of the transport; plug-ins with parameters are tables."""
    raw = _filled("transport", part)
    for plugin in PLUGINS:
        given = {name.partition(".")[2]: part[name] for name in part if name.startswith(f"{plugin}.")}
        if given:
            raw[plugin] = {"name": raw[plugin], **given}
    return raw


def _events(path: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a path's cuts."""
    for begin, end in cuts(path.get("cuts", ())):
        yield {"at": f"{begin} s", "path": path["name"], "state": path.get("cut", "down")}
        if end is not None:
            yield {"at": f"{end} s", "path": path["name"], "state": "up"}


def cuts(given: Iterable[Any]) -> list[tuple[float, float | None]]:
    """Return the cuts of a path in order of time; None is a cut without an end. Cuts that meet are one."""
    apart: list[tuple[float, float | None]] = []
    for begin, end in sorted(given, key=lambda cut: cut[0]):
        if apart and (apart[-1][1] is None or begin <= apart[-1][1]):
            first, last = apart.pop()
            begin, end = first, None if last is None or end is None else max(last, end)
        apart.append((number(begin), None if end is None else number(end)))
    return apart
