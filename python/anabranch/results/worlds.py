"""Runs in drawn worlds. A world counts as one trial, however many runs it has."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

#: The column with the number of the drawn world.
WORLD = "world"
#: A run: the number of its drawn world or None, and its own number.
Pair = tuple[int | None, int]


def pair_of(row: Mapping[str, Any]) -> Pair:
    """Return the run of a row of `runs`."""
    world = row.get(WORLD)
    return (None if world is None else int(world), int(row["run"]))


def is_exact(row: Mapping[str, Any], exact: Collection[str]) -> bool:
    """Return whether a row's cell has nothing random. The choice of a drawn world is random.

    Parameters
    ----------
    row
        A row of `runs`.
    exact
        The names of the cells without random draws.
    """
    return row.get("cell") in exact and row.get(WORLD) is None


def number(pair: Pair) -> int:
    """Return the number by which a run is paired with others: that of its world, or its own."""
    world, run = pair
    return run if world is None else world


def of_cells(labels: Iterable[str]) -> list[str]:
    """Return the labels that distinguish cells in summaries: all except the number of the drawn world."""
    return [name for name in labels if name != WORLD]


def trials(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each trial of a cell. Several runs in a drawn world give one row with their means.

    Parameters
    ----------
    rows
        Rows of `runs`; those outside drawn worlds are returned as they are.
    metrics
        The columns to average, each over the runs that have a value. Others are those of the first run.
    """
    found: dict[object, list[Mapping[str, Any]]] = {}
    for place, row in enumerate(rows):
        world = row.get(WORLD)
        found.setdefault(("run", place) if world is None else ("world", world), []).append(row)
    return [
        dict(own[0]) if len(own) == 1 else {**own[0], **_averaged(own, metrics)} for own in found.values()
    ]


def _averaged(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, float | None]:
    """Return the means of some columns."""
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in metrics}
    return {name: fmean(own) if own else None for name, own in values.items()}


def by_pair(values: Mapping[Pair, float]) -> dict[int, float]:
    """Return values by the number of their pair. Several runs in a world give their mean."""
    found: dict[int, list[float]] = {}
    for pair, value in values.items():
        found.setdefault(number(pair), []).append(value)
    return {place: fmean(own) for place, own in found.items()}
