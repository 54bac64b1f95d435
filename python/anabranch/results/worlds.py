"""Runs in drawn worlds: a world is a trial, whatever the number of its runs."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The column with the number of the drawn world.
WORLD = "world"
#: A run: the number of its world, if it is in a drawn one, and its own number.
Pair = tuple[int | None, int]


def pair_of(row: Mapping[str, Any]) -> Pair:
    """Return which run a row of `runs` is of."""
    world = row.get(WORLD)
    return (None if world is None else int(world), int(row["run"]))


def number(pair: Pair) -> int:
    """Return the number under which a run is compared with others: that of its world, or its own."""
    world, run = pair
    return run if world is None else world


def by_pair(values: Mapping[Pair, float]) -> dict[int, float]:
    """Return values by the number under which they are compared: of several runs in a world their mean."""
    found: dict[int, list[float]] = {}
    for pair, value in values.items():
        found.setdefault(number(pair), []).append(value)
    return {place: fmean(own) for place, own in found.items()}
