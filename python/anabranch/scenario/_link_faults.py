"""Checks that involve several keys of a link's model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.plugins import module
from anabranch.scenario import units
from anabranch.scenario.link_models import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.errors import Fault
    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath

#: The widths in MHz and the most streams of any generation of 802.11; the Rust module knows those of each.
_WIDTHS = (20, 40, 80, 160)
_MOST_STREAMS = 8


def follows(table: dict[str, Any]) -> bool:
    """Tell whether a raw path, link or direction has a rate of its own in time."""
    return "model" in table or "trace" in table


def brings_delay(table: dict[str, Any]) -> bool:
    """Tell whether what a raw path follows may have delays of its own; those of a recording are read."""
    model = expanded(table.get("model")) or {}
    ways = [table.get(way) for way in ("down", "up")]
    return model.get("name") == "starlink" or any(
        "trace" in part for part in (table, *ways) if isinstance(part, dict)
    )


def check(source: Source) -> Iterator[Fault]:
    """Return the faults between the keys of models."""
    for kind in ("paths", "links"):
        tables = source.raw.get(kind)
        for index, table in enumerate(tables if isinstance(tables, list) else []):
            if isinstance(table, dict):
                yield from _table(source, (kind, index), table)


def _table(source: Source, here: KeyPath, table: dict[str, Any]) -> Iterator[Fault]:
    """Check one path or link."""
    given = table.get("model")
    ways = [way for way in ("down", "up") if isinstance(table.get(way), dict)]
    parts: list[tuple[KeyPath, dict[str, Any]]] = [(here, table)]
    parts += [((*here, way), table[way]) for way in ways]
    for place, part in parts:
        if given is not None and "trace" in part:
            message = "`trace` is given beside `model`"
            yield source.fault((*place, "trace"), message, hint="keep one of the two")
    if "trace" in table and all("trace" in table.get(way, {}) for way in ways) and len(ways) == 2:
        message = "`trace` is given for the whole and for each direction"
        yield source.fault((*here, "trace"), message, hint="keep one of the two forms")
    settings = expanded(given)
    if settings is not None and settings["name"] == "wifi":
        yield from _wifi(source, (*here, "model"), settings)


def _wifi(source: Source, here: KeyPath, settings: dict[str, Any]) -> Iterator[Fault]:
    """Check that a generation of 802.11 has the width, the streams and the rate."""
    standard = settings.get("standard", "802.11ac")
    rust = module()
    usual = rust.wifi_width(standard) if isinstance(standard, str) else None
    if usual is None:
        return
    widths = [width for width in _WIDTHS if rust.wifi_rates(standard, width, 1)]
    most = max(n for n in range(1, _MOST_STREAMS + 1) if rust.wifi_rates(standard, usual, n))
    width = _parsed(units.width_mhz, settings.get("width"), usual)
    if width is not None and width not in widths:
        hint = "valid: " + ", ".join(f'"{width} MHz"' for width in widths)
        yield source.fault((*here, "width"), f"{standard} has no channels of {width} MHz", hint=hint)
    streams = settings.get("streams", 1)
    if isinstance(streams, int) and most < streams <= _MOST_STREAMS:
        message = f"{standard} has at most {most} streams: {streams}"
        yield source.fault((*here, "streams"), message)
    count = streams if isinstance(streams, int) and 1 <= streams <= most else 1
    slowest = rust.wifi_rates(standard, width if width in widths else usual, count)[0]
    top = _parsed(units.limited_rate_bps, settings.get("phy_rate"), None)
    if top is not None and top < slowest:
        message = f"{standard} has no rate as low as this: `{settings['phy_rate']}`"
        hint = f"the lowest is {units.show_rate(slowest)}; `rate` caps what a path carries"
        yield source.fault((*here, "phy_rate"), message, hint=hint)


def _parsed(parse: Any, value: object, default: int | None) -> int | None:  # noqa: ANN401 - a parser of units
    """Return a quantity; None for one that has a fault of its own."""
    if value is None:
        return default
    try:
        return int(parse(value))
    except units.UnitError:
        return None
