"""What the keys of a link's model can get wrong together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.scenario import units
from anabranch.scenario.link_models import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.errors import Fault
    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath

#: Widths in MHz and most spatial streams of each generation of 802.11.
_RADIOS = {
    "802.11a": ((20,), 1),
    "802.11g": ((20,), 1),
    "802.11n": ((20, 40), 4),
    "802.11ac": ((20, 40, 80, 160), 8),
}
#: Subcarriers that carry data, by width; the slowest code carries half a bit on each in 3.6 us.
_SUBCARRIERS = {20: 52, 40: 108, 80: 234, 160: 468}
_SLOWEST_LEGACY_BPS = 6_000_000


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
    if standard not in _RADIOS:
        return
    widths, most = _RADIOS[standard]
    width = _parsed(units.width_mhz, settings.get("width"), 80 if standard == "802.11ac" else 20)
    if width is not None and width not in widths:
        hint = "valid: " + ", ".join(f'"{width} MHz"' for width in widths)
        yield source.fault((*here, "width"), f"{standard} has no channels of {width} MHz", hint=hint)
    streams = settings.get("streams", 1)
    if isinstance(streams, int) and most < streams <= 8:
        message = f"{standard} has at most {most} streams: {streams}"
        yield source.fault((*here, "streams"), message)
    slowest = _SLOWEST_LEGACY_BPS
    if most > 1:
        count = streams if isinstance(streams, int) else 1
        slowest = round(_SUBCARRIERS.get(width or 20, 52) * count / 2 / 3.6e-6)
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
