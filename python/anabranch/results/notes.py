"""Notes about a summary: cells with equal digests, and axes over which means are pooled."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch._numbers import argument
from anabranch.results import store
from anabranch.results.read import present_runs
from anabranch.results.worlds import of_cells, pair_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import polars

#: The most values of a pooled axis that a note names.
_NAMED = 4
#: The labels of a cell.
_Place = tuple[Any, ...]


def same_decisions(folder: Path) -> list[str]:
    """Return a sentence for each pair of values of an axis whose runs have equal digests.

    Parameters
    ----------
    folder
        The results.
    """
    return same(present_runs(folder), store.made(folder).labels)


def same(frame: polars.DataFrame, made: Sequence[str]) -> list[str]:
    """Return the sentences of `same_decisions`.

    Parameters
    ----------
    frame
        The runs.
    made
        The labels of the folder.
    """
    if "digest" not in frame.columns:
        return []
    labels = [name for name in of_cells(made) if name in frame.columns]
    digests: dict[_Place, dict[Any, str]] = defaultdict(dict)
    for row in frame.iter_rows(named=True):
        # A run over real packets has no digest.
        if not row["digest"]:
            continue
        digests[tuple(row[name] for name in labels)][pair_of(row)] = row["digest"]
    alike: dict[frozenset[tuple[Any, str]], list[_Place]] = defaultdict(list)
    for place, own in digests.items():
        alike[frozenset(own.items())].append(place)
    found: dict[tuple[int, str, str], int] = defaultdict(int)
    for places in alike.values():
        for at, one, other in _pairs(places):
            found[at, argument(one[at]), argument(other[at])] += 1
    short = plugins.short(name for _, one, other in found for name in (one, other))
    return [
        _sentence(
            labels[at], short.get(one, one), short.get(other, other), count, _both(digests, at, one, other)
        )
        for (at, one, other), count in found.items()
    ]


def _pairs(places: Sequence[_Place]) -> Iterator[tuple[int, _Place, _Place]]:
    """Yield a label's index, and each cell with the first earlier one that differs only in that label."""
    for at, other in enumerate(places):
        paired: set[int] = set()
        for one in places[:at]:
            differs = [axis for axis, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
            if len(differs) == 1 and differs[0] not in paired:
                paired.add(differs[0])
                yield differs[0], one, other


def _both(digests: Mapping[_Place, object], at: int, one: str, other: str) -> int:
    """Return the number of settings that have both values of an axis."""
    rest: dict[str, set[_Place]] = defaultdict(set)
    for place in digests:
        rest[argument(place[at])].add((*place[:at], *place[at + 1 :]))
    return len(rest[one] & rest[other])


def _sentence(label: str, one: str, other: str, count: int, of: int) -> str:
    """Return a sentence about two values with equal digests."""
    where = "" if of == 1 else f", in {count} of {of} settings"
    if label.startswith("transport.") or label == "application.abr":
        return f"{other} made the same decisions as {one}: all their runs have equal digests{where}"
    key = label.removeprefix("paths.")
    return f"{key} {other} changes nothing compared with {one}: all their runs have equal digests{where}"


def pooled(folder: Path, by: Sequence[str]) -> list[str]:
    """Return a sentence about each axis that differs within the cells of a summary.

    Parameters
    ----------
    folder
        The results.
    by
        The columns that make a cell.
    """
    frame = present_runs(folder)
    labels = [name for name in of_cells(store.made(folder).labels) if name in frame.columns]
    found = []
    for name in labels:
        if name in by or frame[name].n_unique() < 2:
            continue
        known = [one for one in by if one in frame.columns]
        groups = frame.group_by(known) if known else [((), frame)]
        if not any(own[name].n_unique() > 1 for _, own in groups):
            continue
        values = [argument(one) for one in frame[name].unique(maintain_order=True)]
        more = len(values) - _NAMED
        named = ", ".join(values[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        found.append(f"each mean pools cells that differ in {name} ({named}); add --by {name}")
    return found
