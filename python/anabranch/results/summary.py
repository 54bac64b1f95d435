"""The means of a sweep's cells as a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.results.read import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: What is shown of each cell where the runs have it, and under which heading.
_SHOWN = {
    "picture_discards": "discards",
    "buffer_underflows": "underflows",
    "recovery_time_s": "recovery_s",
    "startup_delay_s": "startup_s",
    "goodput_mbps": "goodput_mbps",
    "reinjected_bytes": "reinjected",
    "cost": "cost",
}


#: What the name of a mean has behind it where half the width of its 95 % interval is meant.
INTERVAL = "_ci95"


def means(folder: Path, by: Sequence[str]) -> str:
    """Return the query that gives the mean of each cell, with the half width of its 95 % interval.

    Parameters
    ----------
    folder
        The results.
    by
        The columns that make a cell.

    Raises
    ------
    InputError
        When a column does not exist.
    """
    columns = load(folder).columns
    unknown = [name for name in by if name not in columns]
    if unknown:
        raise InputError(
            Fault(message=f"no such column: `{name}`", where="--by", hint=did_you_mean(name, columns))
            for name in unknown
        )
    names = [_quoted(name) for name in by]
    chosen = [*names, "count(*) AS runs"]
    for name, heading in _SHOWN.items():
        if name in columns:
            column = f"{_quoted(name)}::DOUBLE"
            chosen.append(f"avg({column}) AS {_quoted(heading)}")
            # The normal quantile: with 30 trials Student's is 4 % wider.
            chosen.append(f"1.96 * stddev_samp({column}) / sqrt(count(*)) AS {_quoted(heading + INTERVAL)}")
    group = f" GROUP BY {', '.join(names)} ORDER BY min(rowid)" if names else ""
    return f"SELECT {', '.join(chosen)} FROM runs{group}"


def _quoted(name: str) -> str:
    """Return a column's name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
