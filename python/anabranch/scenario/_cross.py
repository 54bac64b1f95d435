"""Checks that involve several keys of a scenario.

These checks read the raw tables, not the validated ones, so that their faults are reported together with all
others. Values of a wrong type are skipped here, because the model has already reported them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean
from anabranch.scenario import _link_faults, _plugins, _queue_faults, units
from anabranch.scenario.limits import LEAST_IPV6_MTU, MOST_FLOWS
from anabranch.scenario.models import CROSS_KINDS, cross_name
from anabranch.scenario.players import Player, player_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.plugins.load import Finder
    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath

_CHANGES = ("state", "rate", "rtt", "delay", "loss", "mtu")
#: The smallest IPv6 MTU minus the headers of IPv4 and TCP, for messages about `mss`, bytes.
_LEAST_IPV6_MSS = LEAST_IPV6_MTU - 40
_CROSS_EXAMPLES = {
    "rate": '"2 Mbit/s"',
    "gap": '"2 s"',
    "bytes": '"500 kB"',
    "on": '"1 s"',
    "off": '"3 s"',
}


def check(source: Source, finder: Finder) -> list[Fault]:
    """Return the faults between keys. `finder` finds the plug-ins that are written in Python."""
    return [
        *_duplicates(source, "paths"),
        *_duplicates(source, "links"),
        *_path_keys(source),
        *_link_faults.check(source),
        *_queue_faults.check(source),
        *_path_links(source),
        *_families(source),
        *_cross_traffic(source, finder),
        *_events(source),
        *_handoffs(source),
        *_plugins.check(source, finder),
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
            here, other = (key, index, "name"), (key, seen[name], "name")
            # The later of two equal names has the fault, unless only the earlier one was set on the command
            # line.
            if here not in source.origins and other in source.origins:
                here, other = other, here
            first = source.lines.get(other)
            hint = f"{'first' if other[1] == seen[name] else 'also'} used in line {first}" if first else ""
            yield source.fault(here, f"duplicate name in {key}: `{name}`", hint=hint)
        seen.setdefault(name, index)


def _path_keys(source: Source) -> Iterator[Fault]:
    """Check that a path has a delay and a rate, and has each only once."""
    for index, item in _tables(source, "paths"):
        down, up = _table(item, "down"), _table(item, "up")
        shares = any(key in item for key in ("links", "links_down", "links_up"))
        both_delays = ("delay" in down and "delay" in up) or _link_faults.brings_delay(item)
        both_rates = all("rate" in way or _link_faults.follows(way) for way in (down, up))
        if "rtt" not in item and not both_delays and not shares and "delay" not in item:
            hint = 'for example rtt = "50 ms"'
            yield source.fault(("paths", index, "rtt"), "missing key: `rtt`", hint=hint)
        if "rate" not in item and not both_rates and not shares and not _link_faults.follows(item):
            hint = 'for example rate = "5 Mbit/s", or rate = "unlimited"'
            yield source.fault(("paths", index, "rate"), "missing key: `rate`", hint=hint)
        if "links" in item and ("links_down" in item or "links_up" in item):
            message = "`links` is given together with `links_down` or `links_up`"
            yield source.fault(("paths", index, "links"), message)
    for kind, once in (("paths", "rtt"), ("links", "delay")):
        for index, item in _tables(source, kind):
            yield from _given_twice(source, kind, index, item, once)


def _given_twice(source: Source, kind: str, index: int, item: dict[str, Any], delay: str) -> Iterator[Fault]:
    """Check that a key for both directions is not overridden in both."""
    down, up = _table(item, "down"), _table(item, "up")
    for key, inner in (
        (delay, "delay"),
        ("rate", "rate"),
        ("queue", "queue"),
        ("jitter", "jitter"),
        ("mtu", "mtu"),
    ):
        if key in item and inner in down and inner in up:
            message = f"`{key}` is given for the whole and for each direction"
            yield source.fault((kind, index, key), message, hint="keep one of the two forms")
    for key in ("loss", "reorder", "duplicate", "corrupt"):
        if key in item and key in down:
            message = f"`{key}` is given twice for the server-to-client direction"
            yield source.fault((kind, index, key), message, hint=f"keep `{key}` or `down.{key}`")


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


def _families(source: Source) -> Iterator[Fault]:
    """Check that segments and paths have the minimum size for IPv6 (RFC 8200 section 5)."""
    paths = [(index, item) for index, item in _tables(source, "paths") if item.get("family") == "ipv6"]
    names = [item.get("name") for _, item in paths]
    sizes: list[tuple[KeyPath, dict[str, Any]]] = [(("paths", index, "mtu"), item) for index, item in paths]
    sizes += [
        (("paths", index, way, "mtu"), _table(item, way)) for index, item in paths for way in ("down", "up")
    ]
    events = _tables(source, "events")
    sizes += [(("events", index, "mtu"), event) for index, event in events if event.get("path") in names]
    for where, table in sizes:
        mtu = _bytes(table.get("mtu"))
        if mtu is not None and mtu < LEAST_IPV6_MTU:
            message = f"IPv6 needs an MTU of {LEAST_IPV6_MTU} bytes"
            yield source.fault(where, message, hint=f'mtu = "{LEAST_IPV6_MTU} B" at least')
    mss = _bytes(_table(source.raw, "transport").get("mss"))
    if mss is None or mss >= _LEAST_IPV6_MSS:
        return
    for kind in ("paths", "cross_traffic"):
        for index, item in _tables(source, kind):
            if item.get("family") == "ipv6":
                needed = f"IPv6 needs an MTU of {LEAST_IPV6_MTU} bytes"
                message = f"{needed}, and `transport.mss` makes one of {mss + 40}"
                hint = f'transport.mss = "{_LEAST_IPV6_MSS} B" at least'
                yield source.fault((kind, index, "family"), message, hint=hint)


def _bytes(size: object) -> int | None:
    """Return a size in bytes; None if it is missing or wrong, which is reported elsewhere."""
    try:
        return units.size_bytes(size)
    except (TypeError, ValueError):
        return None


def _cross_traffic(source: Source, finder: Finder) -> Iterator[Fault]:
    """Check that background flows have links, a rate and a congestion control."""
    taken = {name: kind for kind in ("paths", "links") for name in _names(source, kind)}
    flows = 0
    for index, item in _tables(source, "cross_traffic"):
        here = ("cross_traffic", index)
        yield from _crossed(source, here, item)
        name = cross_name(index, item.get("name"))
        if isinstance(name, str):
            if name in taken:
                message = f"duplicate name: `{name}` is one of the {taken[name]} already"
                yield source.fault((*here, "name"), message, hint="flows have a name of their own")
            taken.setdefault(name, "cross_traffic")
        yield from _cross_keys(source, here, item)
        yield from _plugins.faults(
            source, (*here, "congestion"), "congestion", item.get("congestion"), finder
        )
        count = item.get("count", 1)
        flows += count if isinstance(count, int) else 0
        if flows > MOST_FLOWS >= flows - count:
            message = f"more than {MOST_FLOWS:,} flows of cross traffic in all"
            yield source.fault((*here, "count"), message)


def _cross_keys(source: Source, here: tuple[str | int, ...], item: dict[str, Any]) -> Iterator[Fault]:
    """Check that background flows have the keys that their kind needs, and none of another kind's."""
    kind = item.get("kind", "bulk")
    if kind not in CROSS_KINDS:  # which the model has reported
        return
    needed, further = CROSS_KINDS[kind]
    for key in needed:
        if key not in item:
            message = f'cross traffic of kind "{kind}" needs `{key}`'
            yield source.fault((*here, key), message, hint=f"for example {key} = {_CROSS_EXAMPLES[key]}")
    own = {key for keys in CROSS_KINDS.values() for key in (*keys[0], *keys[1])}
    for key in sorted(own & item.keys() - {*needed, *further}):
        kinds = [other for other, keys in CROSS_KINDS.items() if key in (*keys[0], *keys[1])]
        message = f'cross traffic of kind "{kind}" has no `{key}`'
        hint = f"{_listed(kinds)} {'has' if len(kinds) == 1 else 'have'}"
        yield source.fault((*here, key), message, hint=hint)


def _listed(names: list[str]) -> str:
    """Return names as an enumeration."""
    *most, last = [f'"{name}"' for name in names]
    return f"{', '.join(most)} and {last}" if most else last


def _crossed(source: Source, here: tuple[str | int, ...], item: dict[str, Any]) -> Iterator[Fault]:
    """Check that background flows cross either links or a path that exist."""
    paths, links = _names(source, "paths"), _names(source, "links")
    if ("links" in item) == ("path" in item):
        hint = 'links = ["backbone"] names [[links]], path = "wifi" one of [[paths]]'
        yield source.fault(here, "cross traffic names either `links` or a `path`", hint=hint)
    if item.get("links") == []:
        yield source.fault((*here, "links"), "`links` is empty: at least one is needed")
    names = item.get("links")
    for position, name in enumerate(names if isinstance(names, list) else []):
        if isinstance(name, str) and name not in links:
            hint = did_you_mean(name, links) if links else "there is no [[links]] table"
            hint = f'a path is crossed by: path = "{name}"' if name in paths else hint
            yield source.fault((*here, "links", position), f"unknown link: `{name}`", hint=hint)
    name = item.get("path")
    if isinstance(name, str) and name not in paths:
        hint = f'a link is crossed by: links = ["{name}"]' if name in links else did_you_mean(name, paths)
        yield source.fault((*here, "path"), f"unknown path: `{name}`", hint=hint)


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
                    message = (
                        f"`{item['state']}` applies to the client's interface of a path, in both directions"
                    )
                    yield source.fault((*here, key), message, hint='use `path`, or state = "down"')
        if "rtt" in item and "delay" in item:
            yield source.fault((*here, "rtt"), "both `rtt` and `delay` are given")
        if "rtt" in item and "link" in item:
            yield source.fault((*here, "rtt"), "a link has no `rtt`", hint="use `delay`")
        if "rtt" in item and "direction" in item:
            yield source.fault((*here, "rtt"), "`rtt` goes both ways", hint="use `delay` with a direction")


def _handoffs(source: Source) -> Iterator[Fault]:
    """Check that a handoff names existing paths, and has the keys that its kind needs."""
    known = _names(source, "paths")
    for index, item in _tables(source, "handoffs"):
        here = ("handoffs", index)
        for key in ("path", "to"):
            name = item.get(key)
            if isinstance(name, str) and name not in known:
                yield source.fault((*here, key), f"unknown path: `{name}`", hint=did_you_mean(name, known))
        kind = item.get("kind", "silent")
        if kind == "ping-pong" and ("to" not in item or item.get("to") == item.get("path")):
            yield source.fault((*here, "to"), "a ping-pong goes between two paths", hint='to = "lte"')
        for key, only in {"over": "fade", "to": "ping-pong"}.items():
            if key in item and kind != only:
                yield source.fault((*here, key), f"`{key}` belongs to a {only}", hint=f'kind = "{only}"')
        if kind == "ping-pong" and "lasting" in item:
            message = "a ping-pong has no `lasting`: it ends after `times` changes, one per `every`"
            yield source.fault((*here, "lasting"), message)
        if kind != "ping-pong" and {"every", "times"} & item.keys():
            yield from _repeated(source, here, item)
        at = item.get("at")
        if isinstance(at, list) and len(at) == 2 and _time(at[0]) > _time(at[1]):
            yield source.fault((*here, "at"), "the range ends before it begins")


def _repeated(source: Source, here: KeyPath, item: Mapping[str, Any]) -> Iterator[Fault]:
    """Check a loss that is repeated: it has a number and an interval, and ends before the next one begins."""
    example = {"every": 'every = "60 s"', "times": "times = 10", "lasting": 'lasting = "5 s"'}
    lacking = [key for key in example if key not in item]
    for key in lacking:
        yield source.fault((*here, key), f"a repeated loss needs `{key}`", hint=f"for example {example[key]}")
    fades = 2 * _time(item.get("over", "3 s")) if item.get("kind") == "fade" else 0
    if not lacking and 0 < _time(item["every"]) <= _time(item["lasting"]) + fades:
        message = "the path is lost again before it is back"
        yield source.fault((*here, "every"), message, hint="`every` is from one loss to the next")


def _time(value: object) -> int:
    """Return a time, or 0 for an invalid value, which the model has already reported."""
    try:
        return units.time_ns(value)
    except units.UnitError:
        return 0


def _application(source: Source) -> Iterator[Fault]:
    """Check that an application has the keys that its kind needs."""
    application = _table(source.raw, "application")
    if not isinstance(source.raw.get("application", {}), dict):  # which the model has reported
        return
    kind = application.get("kind", "progressive")
    film = "film" in application
    here = ("application",)
    if kind == "progressive" and not film:
        hint = 'film = "papers-film", film = "demo", or the path of a video file'
        yield source.fault((*here, "film"), "missing key: `film`", hint=hint)
    if kind == "adaptive" and "ladder" not in application:
        hint = 'ladder = "uq18-jp", or the path of a master playlist (.m3u8)'
        yield source.fault((*here, "ladder"), "missing key: `ladder`", hint=hint)
    yield from _players(source, application)
    if kind == "bulk" and not film and not {"duration", "bytes"} & application.keys():
        hint = 'for example duration = "60 s", or bytes = "10 MB"'
        yield source.fault((*here, "duration"), "a bulk application needs `duration` or `bytes`", hint=hint)
    if kind == "paced" and not film:
        for key, example in (("rate", "5 Mbit/s"), ("duration", "60 s")):
            if key not in application and not (key == "duration" and "bytes" in application):
                hint = f'for example {key} = "{example}"'
                yield source.fault((*here, key), f"a paced application needs `{key}`", hint=hint)


def _players(source: Source, application: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that an application has no key that belongs to another player."""
    adaptive = application.get("kind") == "adaptive"
    other, own = ("adaptive", "progressive") if not adaptive else ("progressive", "adaptive")
    if adaptive and "film" in application:
        hint = "an adaptive application plays a `ladder`"
        yield source.fault(("application", "film"), "not a key of an adaptive application: `film`", hint=hint)
    for key in ("ladder", "abr") if not adaptive else ():
        if key in application:
            message = f"a key of an adaptive application: `{key}`"
            yield source.fault(("application", key), message, hint='set kind = "adaptive"')
    known = player_keys(adaptive=adaptive)
    for key in _table(application, "player"):
        if key in Player.model_fields and key not in known:
            message = f"a key of the {other} player, not of the {own} one: `{key}`"
            yield source.fault(("application", "player", key), message, hint=did_you_mean(key, known))


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
