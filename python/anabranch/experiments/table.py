"""Tables of the means of cells, for a page and for a paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anabranch._numbers import argument, decimal, with_half
from anabranch.figures import words
from anabranch.metrics.score import RATE
from anabranch.results import summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


#: The most decimal places of a table for a paper.
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
    return with_half(row[name], row.get(name + summary.INTERVAL), least=-math.inf if name == RATE else 0.0)


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
    made = [_label(rows, name) for name in names[:left]]
    made += [(words.metric(name), _measure(rows, name)) for name in names[left:]]
    lines = [list(line) for line in zip(*(cells for _, cells in made), strict=True)]
    return [head for head, _ in made], lines


def _label(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[str, list[str]]:
    """Return the heading and the values of a key; a value with a unit becomes a number."""
    values = [row[name] for row in rows]
    found = words.numbers(values)
    if found is None:
        return words.key(name) if "." in name else name, [argument(value) for value in values]
    numbers, unit = found
    places = max(len(decimal(one, _MOST_PLACES).partition(".")[2]) for one in numbers)
    return words.key(name, unit) if "." in name else name, [f"{one:,.{places}f}" for one in numbers]


def _measure(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Return a column of means with equal decimals.

    The median of the half widths has two significant digits; without intervals, the largest value has three.
    """
    values = [row.get(name) for row in rows]
    if any(isinstance(value, str | bool) for value in values):
        return ["-" if value is None else argument(value) for value in values]
    wide = [row.get(name + summary.INTERVAL) for row in rows]
    known = sorted(one for one in wide if one)
    sizes = [abs(value) for value in values if value]
    if all(value is None or float(value).is_integer() for value in values) and not known:
        places = 0
    elif known:
        places = 1 - math.floor(math.log10(known[len(known) // 2]))
    else:
        places = 2 - math.floor(math.log10(max(sizes)))
    places = min(max(places, 0), _MOST_PLACES)

    least = -math.inf if name == RATE else 0.0

    def cell(value: float | None, half: float | None) -> str:
        if value is None:
            return "-"
        text = f"{value + 0.0:,.{places}f}"
        if half and value - half < 0 < value + half:
            return f"{text} ({max(value - half, least):,.{places}f} to {value + half:,.{places}f})"
        return f"{text} ± {half:,.{places}f}" if half else text

    return [cell(value, half) for value, half in zip(values, wide, strict=True)]
