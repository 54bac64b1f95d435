"""The means of cells as people read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.results import summary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def table(folder: Path, by: Sequence[str]) -> tuple[list[str], list[list[str]], int]:
    """Return the means of cells as people read them: headings, lines, and how many columns are words."""
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
    text = shown(value, 4)
    return text if wide is None else f"{text} ± {shown(wide, 2)}"


def shown(value: float, digits: int) -> str:
    """Return a number with so many significant digits, and never with a power of ten: 120, not 1.2e+02."""
    if not isinstance(value, float) or not math.isfinite(value) or value == 0:
        return str(value) if not isinstance(value, float) else f"{value:g}"
    behind = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, behind):.{max(behind, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
