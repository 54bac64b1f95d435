"""Tables of the means of cells, for a page and for a paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anabranch._numbers import argument, decimal, with_half
from anabranch.figures import words
from anabranch.metrics.score import can_be_negative
from anabranch.results import summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


#: The most decimal places of a table for a paper. A column of small means has as many as show this number of
#: significant digits of its largest mean.
_MOST_PLACES = 4


def table(folder: Path, by: Sequence[str]) -> tuple[list[str], list[list[str]], int]:
    """Return the headings, the rows, and the number of columns with words."""
    from anabranch import plugins

    rows = summary.means(folder, by)
    short = plugins.short(str(row[name]) for row in rows for name in by)
    names = [name for name in (rows[0] if rows else ()) if not name.endswith(summary.INTERVAL)]
    lines = [
        [
            "" if row[name] is None else short[str(row[name])] if name in by else _cell(row, name)
            for name in names
        ]
        for row in rows
    ]
    return names, lines, len(by)


def _cell(row: Mapping[str, Any], name: str) -> str:
    """Return a mean with half the width of its interval."""
    if row[name] is None:
        return "-"
    return with_half(row[name], row.get(name + summary.INTERVAL), is_signed=can_be_negative(name))


def printed(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], left: int
) -> tuple[list[str], list[list[str]]]:
    """Return a table for a paper: headings in words with units, and equal decimals in each column.

    Parameters
    ----------
    rows
        The cells, with half the width of an interval as `NAME_ci95`.
    names
        The columns to show.
    left
        The number of leading columns with the values of the grid's keys.
    """
    made = [label(rows, name) for name in names[:left]]
    made += [(words.metric(name), _measure(rows, name)) for name in names[left:]]
    lines = [list(line) for line in zip(*(cells for _, cells in made), strict=True)]
    return [head for head, _ in made], lines


def label(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[str, list[str]]:
    """Return the heading and the values of a key; a value with a unit becomes a number."""
    values = [row[name] for row in rows]
    found = words.numbers(values)
    if found is None:
        return words.key(name) if "." in name else name, [argument(value) for value in values]
    numbers, unit = found
    places = max(len(decimal(one, _MOST_PLACES).partition(".")[2]) for one in numbers)
    return words.key(name, unit) if "." in name else name, [f"{one:,.{places}f}" for one in numbers]


def differences(rows: Sequence[Mapping[str, Any]], name: str, most: Sequence[int]) -> list[str]:
    """Return a column of differences with their intervals, with equal decimals.

    Parameters
    ----------
    rows
        The differences, as returned by `anabranch.results.versus.differences`.
    name
        The column.
    most
        The number of pairs of each row. A difference of fewer pairs has their number.
    """
    from anabranch.results import versus

    ends = [(row[name + versus.LOW], row[name + versus.HIGH]) for row in rows]
    halves = [None if low is None or high is None else (high - low) / 2 for low, high in ends]
    places = _places([row[name] for row in rows], halves)

    def cell(row: Mapping[str, Any], low: float | None, high: float | None, pairs: int) -> str:
        value, count = row[name], row[name + versus.PAIRS]
        if value is None:
            return "-"
        if value == low == high == 0:
            return "no difference"
        text, *reach = (f"{one:+,.{places}f}" for one in (value, low, high) if one is not None)
        text += f" [{', '.join(reach)}]" if len(reach) == 2 else ""
        return text if count == pairs else f"{text}, {count} {'pair' if count == 1 else 'pairs'}"

    return [cell(row, *end, pairs) for row, end, pairs in zip(rows, ends, most, strict=True)]


def _measure(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Return a column of means with equal decimals.

    The median of the half widths has two significant digits; without intervals, the largest value has three.
    """
    values = [row.get(name) for row in rows]
    if any(isinstance(value, str | bool) for value in values):
        return ["-" if value is None else argument(value) for value in values]
    halves = [row.get(name + summary.INTERVAL) for row in rows]
    places = _places(values, halves)
    return [
        "-" if value is None else with_half(value, half, is_signed=can_be_negative(name), places=places)
        for value, half in zip(values, halves, strict=True)
    ]


def _places(values: Sequence[float | None], halves: Sequence[float | None]) -> int:
    """Return the decimal places of a column. NaN and infinity have none and are ignored."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    known = sorted(half for half in halves if half and math.isfinite(half))
    if not known and all(size.is_integer() for size in map(float, sizes)):
        return 0
    largest = math.floor(math.log10(max(sizes, default=1.0)))
    places = 1 - math.floor(math.log10(known[len(known) // 2])) if known else 2 - largest
    return min(max(places, 0), max(_MOST_PLACES, _MOST_PLACES - 1 - largest))
