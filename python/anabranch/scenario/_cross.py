"""What the keys of a scenario can get wrong together.

These checks read the raw tables, not the validated ones, so that they report beside every other
fault in one go. Anything of a wrong type is skipped here: the model has reported it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.errors import Fault, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.plugins.load import Finder
    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath

#: The plug-ins of the transport, and how `anabranch list` calls each kind.
_KINDS: dict[plugins.Kind, str] = {
    "scheduler": "schedulers",
    "congestion": "congestion",
    "path_manager": "path-managers",
}
_UNKNOWN = re.compile(r"unknown (.+): `(.*)`")
_CHANGES = ("state", "rate", "rtt", "delay", "loss")


def check(source: Source, finder: Finder) -> list[Fault]:
    """Return the faults between keys; `finder` takes in the plug-ins that are written in Python."""
    return [
        *_duplicates(source, "paths"),
        *_duplicates(source, "links"),
        *_path_keys(source),
        *_path_links(source),
        *_events(source),
        *_plugins(source, finder),
        *_application(source),
        *_expectations(source),
    ]


def _tables(source: Source, key: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the tables of an array, with their index."""
    value = source.raw.get(key)
    if not isinstance(value, list):
        return []
    return [(index, item) for index, item in enumerate(value) if isinstance(item, dict)]


def _table(node: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a table inside another, or an empty one."""
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def _names(source: Source, key: str) -> list[str]:
    """Return the names in an array of tables."""
    names = (item.get("name") for _, item in _tables(source, key))
    return [name for name in names if isinstance(name, str)]


def _duplicates(source: Source, key: str) -> Iterator[Fault]:
    """Check that names differ."""
    seen: dict[str, int] = {}
    for index, item in _tables(source, key):
        name = item.get("name")
        if not isinstance(name, str):
            continue
        if name in seen:
            first = source.lines.get((key, seen[name], "name"))
            hint = f"first used in line {first}" if first else ""
            yield source.fault((key, index, "name"), f"duplicate name in {key}: `{name}`", hint=hint)
        seen.setdefault(name, index)


def _path_keys(source: Source) -> Iterator[Fault]:
    """Check that a path says how long and how fast it is, and says it once."""
    for index, item in _tables(source, "paths"):
        down, up = _table(item, "down"), _table(item, "up")
        shares = any(key in item for key in ("links", "links_down", "links_up"))
        both_delays = "delay" in down and "delay" in up
        if "rtt" not in item and not both_delays and not shares and "delay" not in item:
            hint = 'for example rtt = "50 ms"'
            yield source.fault(("paths", index, "rtt"), "missing key: `rtt`", hint=hint)
        if "rate" not in item and not ("rate" in down and "rate" in up) and not shares:
            hint = 'for example rate = "5 Mbit/s", or rate = "unlimited"'
            yield source.fault(("paths", index, "rate"), "missing key: `rate`", hint=hint)
        if "links" in item and ("links_down" in item or "links_up" in item):
            message = "`links` is given beside `links_down` or `links_up`"
            yield source.fault(("paths", index, "links"), message)
    for kind, once in (("paths", "rtt"), ("links", "delay")):
        for index, item in _tables(source, kind):
            yield from _given_twice(source, kind, index, item, once)


def _given_twice(source: Source, kind: str, index: int, item: dict[str, Any], delay: str) -> Iterator[Fault]:
    """Check that a key given once for both directions is not overruled in both."""
    down, up = _table(item, "down"), _table(item, "up")
    for key, inner in ((delay, "delay"), ("rate", "rate"), ("queue", "queue"), ("jitter", "jitter")):
        if key in item and inner in down and inner in up:
            message = f"`{key}` is given for the whole and for each direction"
            yield source.fault((kind, index, key), message, hint="keep one of the two forms")
    if "loss" in item and "loss" in down:
        message = "`loss` is given twice for the server-to-client direction"
        yield source.fault((kind, index, "loss"), message, hint="keep `loss` or `down.loss`")


def _path_links(source: Source) -> Iterator[Fault]:
    """Check that the links that paths name exist."""
    known = _names(source, "links")
    for index, item in _tables(source, "paths"):
        for key in ("links", "links_down", "links_up"):
            names = item.get(key)
            if not isinstance(names, list):
                continue
            for position, name in enumerate(names):
                if isinstance(name, str) and name not in known:
                    hint = did_you_mean(name, known) if known else "there is no [[links]] table"
                    yield source.fault(("paths", index, key, position), f"unknown link: `{name}`", hint=hint)


def _events(source: Source) -> Iterator[Fault]:
    """Check that an event changes something of one path or link that exists."""
    for index, item in _tables(source, "events"):
        here = ("events", index)
        if ("path" in item) == ("link" in item):
            yield source.fault(here, "an event names either a path or a link")
        for key, kind in (("path", "paths"), ("link", "links")):
            name, known = item.get(key), _names(source, kind)
            if isinstance(name, str) and name not in known:
                hint = did_you_mean(name, known) if known else f"there is no [[{kind}]] table"
                yield source.fault((*here, key), f"unknown {key}: `{name}`", hint=hint)
        if not any(key in item for key in _CHANGES):
            hint = 'for example state = "down", or rate = "1 Mbit/s"'
            yield source.fault(here, "an event changes nothing", hint=hint)
        if item.get("state") in ("link-down", "removed"):
            for key in ("link", "direction"):
                if key in item:
                    message = f"`{item['state']}` is of a path's interface at the client, both ways"
                    yield source.fault((*here, key), message, hint='use `path`, or state = "down"')
        if "rtt" in item and "delay" in item:
            yield source.fault((*here, "rtt"), "`rtt` is given beside `delay`")
        if "rtt" in item and "link" in item:
            yield source.fault((*here, "rtt"), "a link has no `rtt`", hint="use `delay`")
        if "rtt" in item and "direction" in item:
            yield source.fault((*here, "rtt"), "`rtt` goes both ways", hint="use `delay` with a direction")


def _plugins(source: Source, finder: Finder) -> Iterator[Fault]:
    """Check the plug-ins of the transport."""
    transport = _table(source.raw, "transport")
    for kind, shown in _KINDS.items():
        if kind in transport:
            yield from plugin_faults(source, ("transport", kind), kind, transport[kind], finder)


def plugin_faults(
    source: Source, path: KeyPath, kind: plugins.Kind, given: object, finder: Finder
) -> Iterator[Fault]:
    """Check a plug-in's name and parameters, and those of what it builds on."""
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
        hint = fault.hint or _plugin_hint(fault, kind)
        told = source.fault(_name_key(source, place), fault.message, hint=hint)
        # What is wrong in the plug-in's own file is told with its place there.
        yield replace(told, where=fault.where, line=fault.line) if fault.where else told


def _plugin_hint(fault: plugins.PluginFault, kind: plugins.Kind) -> str:
    """Return what a name or key that a plug-in has not got could have been."""
    unknown = _UNKNOWN.fullmatch(fault.message)
    if unknown is None:
        return did_you_mean("", fault.known) if fault.known else ""
    listed = f"`anabranch list {_KINDS[kind]}` shows all" if "parameter" not in unknown[1] else ""
    return did_you_mean(unknown[2], fault.known, otherwise=listed) if fault.known else "it has none"


def _name_key(source: Source, place: KeyPath) -> KeyPath:
    """Return where a plug-in's name stands: under `name` when it is a table."""
    node: Any = source.raw
    for step in place:
        node = node.get(step) if isinstance(node, dict) else None
    return (*place, "name") if isinstance(node, dict) else place


def _application(source: Source) -> Iterator[Fault]:
    """Check that an application has the keys that its kind needs."""
    application = _table(source.raw, "application")
    kind = application.get("kind", "progressive")
    film = "film" in application
    here = ("application",)
    if kind == "progressive" and not film:
        hint = 'film = "papers-film", film = "demo", or the path of a video file'
        yield source.fault((*here, "film"), "missing key: `film`", hint=hint)
    if kind == "bulk" and not film and not {"duration", "bytes"} & application.keys():
        hint = 'for example duration = "60 s", or bytes = "10 MB"'
        yield source.fault((*here, "duration"), "a bulk application needs `duration` or `bytes`", hint=hint)
    if kind == "paced" and not film:
        for key, example in (("rate", "5 Mbit/s"), ("duration", "60 s")):
            if key not in application and not (key == "duration" and "bytes" in application):
                hint = f'for example {key} = "{example}"'
                yield source.fault((*here, key), f"a paced application needs `{key}`", hint=hint)


def _expectations(source: Source) -> Iterator[Fault]:
    """Check that expected metrics exist."""
    from anabranch.metrics import METRICS

    known = list(METRICS)
    paths = _names(source, "paths")
    for name in _table(source.raw, "expect"):
        first, *rest = name.split(".")
        if first == "subflows" and len(rest) == 2:
            if rest[0] not in paths:
                hint = did_you_mean(rest[0], paths)
                yield source.fault(("expect", name), f"unknown path: `{rest[0]}`", hint=hint)
            continue
        if name not in METRICS:
            yield source.fault(("expect", name), f"unknown metric: `{name}`", hint=did_you_mean(name, known))
