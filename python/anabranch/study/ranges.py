"""Ranges of an assumption: other values with drawn numbers in them.

`{ draw = { packets = { log_uniform = [25, 250] } }, "paths.wired.queue" = "{packets:.0f} packets" }` is one
other value. Worlds around a study use its two ends; random worlds draw between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.study import draws, templates
from anabranch.study.draws import Draw
from anabranch.study.templates import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: The key of the draws in an other value.
DRAW = "draw"
#: The share of the way from the lower to the upper end, just below it: draws exclude their upper end.
_UPPER = 1 - 2.0**-53


def is_range(value: Mapping[str, Any]) -> bool:
    """Return whether another value of an assumption has drawn numbers."""
    return DRAW in value


def ends(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings at the lower and at the upper ends of all draws; a value without draws is itself.

    Raises
    ------
    TemplateError
        If a text has no value.
    """
    if not is_range(value):
        return [dict(value)]
    low, high = drawn(value, lambda _: 0.0), drawn(value, lambda _: _UPPER)
    return [low] if low == high else [low, high]


def drawn(value: Mapping[str, Any], chance: Callable[[str], float]) -> dict[str, Any]:
    """Return the settings with drawn values.

    Parameters
    ----------
    value
        Another value of an assumption.
    chance
        The random number of each name. Values with the same name are drawn once and shared, also between
        assumptions.
    """
    known: dict[str, Any] = {}
    for name, raw in value.get(DRAW, {}).items():
        found = draws.parse(raw)
        assert isinstance(found, Draw)
        known[name] = found.value(name, chance, known, ())
    settings = {key: one for key, one in value.items() if key != DRAW}
    return {key: _filled(one, known) for key, one in settings.items()} if known else settings


def faults(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the faults of another value: a message and a hint."""
    raw = value.get(DRAW, {})
    if not isinstance(raw, dict):
        yield f"expected a table of draws: `{DRAW}`", ""
        return
    sound = True
    for name, one in raw.items():
        found = draws.parse(one)
        if isinstance(found, list):
            sound = False
            yield from ((f"{DRAW}.{name}: {message}", hint) for _, message, hint in found)
        elif found.form == "path":
            sound = False
            yield f"{DRAW}.{name}: a range draws no paths", ""
    if sound and raw:
        try:
            ends(value)
        except TemplateError as error:
            yield str(error), ""
        except KeyError as error:
            yield f"no such draw: {error}", f"the value draws: {', '.join(raw)}"


def _filled(raw: Any, known: Mapping[str, Any]) -> Any:  # noqa: ANN401 - TOML
    """Return a value with the drawn numbers in its texts."""
    if isinstance(raw, str):
        return templates.parse(raw).value(known, {})
    if isinstance(raw, dict):
        return {key: _filled(one, known) for key, one in raw.items()}
    if isinstance(raw, list):
        return [_filled(one, known) for one in raw]
    return raw
