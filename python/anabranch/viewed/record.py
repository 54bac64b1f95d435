"""The runs over real packets that are stored with a study: `live.csv` in its folder."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from anabranch import _files, _numbers
from anabranch.errors import Fault, InputError
from anabranch.scenario import shipped
from anabranch.viewed import lines, stored
from anabranch.viewed.compare import METRICS
from anabranch.viewed.read import sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from anabranch.results.store import Row
    from anabranch.study.sweep import Sweep
    from anabranch.viewed.read import LiveStudy

#: The file.
FILE = "live.csv"
#: The columns that identify the run: scenario, arm, number, and the hash of scenario and settings.
_WHICH = ("row", "arm", "run", "cell")
#: The emulator's lateness, and the number of attempts that it made void.
_LATE = ("late.p99_ms", "late.max_ms", "voids")
_TEXTS = ("row", "arm", "cell")
_WHOLE = ("run", "voids")


def read(folder: Path, what: Sweep) -> list[Row]:
    """Return the recorded runs of the cells of a study as it stands; none if there is no file.

    Parameters
    ----------
    folder
        The study's.
    what
        Its cells. Runs of other scenarios or settings are left out.

    Raises
    ------
    InputError
        If the file cannot be read, or a value is no number.
    """
    cells = {cell.name for cell in what.cells}
    return [one for one in _all(folder) if one["cell"] in cells and one["run"] < what.trials]


def _all(folder: Path) -> list[Row]:
    """Return all recorded runs; none if there is no file."""
    path = folder / FILE
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [_parsed(one, path, line) for line, one in enumerate(csv.DictReader(file), start=2)]


def _parsed(one: Mapping[str, str | None], path: Path, line: int) -> Row:
    """Return a line's values; an empty one is None."""
    row: dict[str, Any] = {"void": False}
    for key, text in one.items():
        try:
            row[key] = _value(key, text)
        except ValueError:
            message = f"no number: `{text}`"
            raise InputError(
                [Fault(message=message, where=shipped.display(path), line=line, key=key)]
            ) from None
    return row


def _value(key: str, text: str | None) -> str | float | None:
    """Return a value of a column."""
    if not text:
        return None
    if key in _TEXTS:
        return text
    return int(text) if key in _WHOLE else float(text)


def missing(recorded: Iterable[Row], there: Iterable[Row]) -> list[Row]:
    """Return the recorded runs that a folder's rows lack or have only as void runs."""
    counting = {(row["cell"], row["run"]) for row in there if not row["void"]}
    return [row for row in recorded if (row["cell"], row["run"]) not in counting]


def write(folder: Path, found: LiveStudy, at: Path) -> int:
    """Write the recorded runs and the valid runs of a folder of results; return their number.

    Runs of scenarios or settings that the study no longer has are dropped. The time lines of each case's
    first trial are written too.

    Parameters
    ----------
    folder, found
        The study, and its live part.
    at
        The folder of results.

    Raises
    ------
    MissingError
        If the file cannot be written.
    """
    there = stored.runs(at)
    counting = [*missing(_all(folder), there), *(row for row in there if not row["void"])]
    # All cells of the study are used, even if only some were run, so that the others' recorded runs stay.
    place = {cell.name: place for place, cell in enumerate(sweep(folder, found).cells)}
    kept = [row for row in counting if row["cell"] in place]
    kept.sort(key=lambda row: (place[row["cell"]], row["run"]))
    extra = {key for row in kept for key in row if key.startswith(("bytes_", "time_at."))}
    columns = (*_WHICH, *METRICS, *sorted(extra), *_LATE)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _short(row.get(key)) for key in columns} for row in kept)
    _files.write(folder / FILE, text.getvalue(), "the recorded runs")
    lines.write(folder, found.cases(), at, there)
    return len(kept)


def _short(value: object) -> object:
    """Return a value with at most four decimals."""
    return _numbers.decimal(value, 4) if isinstance(value, float) else value
