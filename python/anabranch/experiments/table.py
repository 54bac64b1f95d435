"""Tables of the means of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._numbers import significant
from anabranch.results import summary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def table(folder: Path, by: Sequence[str]) -> tuple[list[str], list[list[str]], int]:
    """Return the headings, the rows, and the number of columns with words."""
    from anabranch import plugins

    rows = summary.means(folder, by)
    short = plugins.short(str(row[name]) for row in rows for name in by)
    names = [name for name in (rows[0] if rows else ()) if not name.endswith(summary.INTERVAL)]
    lines = [
        [
            ""
            if row[name] is None
            else short[str(row[name])]
            if name in by
            else _cell(row[name], row.get(name + summary.INTERVAL))
            for name in names
        ]
        for row in rows
    ]
    return names, lines, len(by)


def _cell(value: float | None, wide: float | None) -> str:
    """Return a mean with half the width of its interval."""
    if value is None:
        return "-"
    text = significant(value, 4)
    return text if wide is None else f"{text} ± {significant(wide, 2)}"
