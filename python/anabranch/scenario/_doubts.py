"""Warnings about valid but doubtful scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.scenario import presets, units
from anabranch.scenario.linux_timeouts import MOST_RETRIES, RETRIES, RTO_MAX, lasting_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.errors import Fault
    from anabranch.scenario._faults import Source


def warnings(source: Source) -> list[Fault]:
    """Return a warning for each doubtful key."""
    given = source.raw.get("transport")
    if not isinstance(given, dict):
        return []
    preset = presets.preset(given.get("preset"))
    return [*_retries(source, given, preset), *_hidden(source, given, preset), *_delay(source, given)]


def _delay(source: Source, given: Mapping[str, Any]) -> list[Fault]:
    """Return a warning if the time between attempts is set although the client makes only one attempt."""
    if "attempt_delay" not in given or "first_path" in given:
        return []
    message = "has no effect without a race: each connection is opened over the first path"
    return [
        source.fault(("transport", "attempt_delay"), message, hint='set transport.first_path = "race" too')
    ]


def _retries(source: Source, given: Mapping[str, Any], preset: Mapping[str, Any]) -> list[Fault]:
    """Return a warning if only one of `rto_max` and `retries` is given."""
    longest = given.get("rto_max", preset.get("rto_max"))
    of_preset = source.origins.get(("transport", "rto_max"), "").startswith("--preset")
    bounded = "rto_max" in given and not of_preset
    if bounded == ("retries" in given):
        return []
    try:
        longest_s = units.time_ns(longest or RTO_MAX) / 1e9
        counted = int(given.get("retries", RETRIES))
    except (units.UnitError, TypeError, ValueError):
        return []
    lasts = f"{counted} retries last {lasting_s(counted, max(longest_s, 1.0)):.0f} s"
    if "retries" in given:
        message = f"given without rto_max: {lasts} of silence, then the connection ends"
        hint = "set transport.rto_max too, or leave retries out: then it lasts as long as Linux's, 925 s"
        return [source.fault(("transport", "retries"), message, hint=hint)]
    message = "given without retries, so a connection lasts as long as with 120 s"
    most = f"{MOST_RETRIES} at most, {lasting_s(MOST_RETRIES, max(longest_s, 1.0)):.0f} s"
    hint = (
        f"Linux counts retries: with this tcp_rto_max_ms its {lasts}. Raise tcp_retries2 there ({most}), "
        "and set transport.retries to the same number here"
    )
    return [source.fault(("transport", "rto_max"), message, hint=hint)]


def _hidden(source: Source, given: Mapping[str, Any], preset: Mapping[str, Any]) -> list[Fault]:
    """Return a warning if the command line sets a preset, but keys of the file override its values."""
    if ("transport", "preset") not in source.origins:
        return []
    kept = [key for key, value in preset.items() if key in given and not _same(given[key], value)]
    own = [key for key in kept if ("transport", key) not in source.origins]
    if not own:
        return []
    verb = "takes" if len(own) == 1 else "take"
    message = f"the scenario's own {' and '.join(own)} {verb} precedence over the preset's"
    hint = "with --preset the preset takes precedence"
    return [source.fault(("transport", "preset"), message, hint=hint)]


def _same(given: object, value: object) -> bool:
    """Return whether a key has the preset's value."""
    if isinstance(given, dict) and isinstance(value, dict):
        return value.items() <= given.items()
    return given == value
