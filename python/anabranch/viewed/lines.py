"""One session of each arm second by second: `live-lines.csv` in a study's folder."""

from __future__ import annotations

import csv
import io
from math import ceil
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.figures import _data
from anabranch.results import traces
from anabranch.results.tables import key
from anabranch.study.measure import RUN
from anabranch.study.stored import open_run
from anabranch.viewed import stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from anabranch.metrics._rows import Tables
    from anabranch.results.store import Row
    from anabranch.viewed.read import Case

#: The file.
FILE = "live-lines.csv"
#: The columns that identify the session, and the second.
_WHICH = ("row", "arm", "run", "t_s")
_PREFIX = "mbps_"

Line = dict[str, Any]


def of(tables: Tables) -> list[Line]:
    """Return a session second by second.

    `t_s` is the start of the second and `standing_s` the part of it without a new picture. `buffer_s` is the
    least media that the player held, and `mbps_PATH` what was acknowledged on each path.
    """
    stalls = _data.stalls(tables, 0)
    buffers = _data.buffers(tables, 0)
    carried = _data.throughputs(tables, 0)
    paths = sorted({one["path"] for one in carried})
    result = []
    for second in range(ceil(_data.duration_s(tables, 0))):
        standing = sum(_shared(one["from_s"], one["to_s"], second) for one in stalls)
        held = [one["buffer_s"] for one in buffers if int(one["t_s"]) == second]
        line: Line = {"t_s": second, "standing_s": round(standing, 3)}
        line["buffer_s"] = min(held) if held else None
        for path in paths:
            line[_PREFIX + path] = round(_mean_of(carried, path, second), 3)
        result.append(line)
    return result


def _shared(begin: float, end: float, second: int) -> float:
    """Return the part of an interval within a second."""
    return max(0.0, min(end, second + 1) - max(begin, second))


def _mean_of(carried: Sequence[Line], path: str, second: int) -> float:
    """Return a path's mean rate in a second: the sum over its subflows."""
    by_subflow: dict[int, list[float]] = {}
    for one in carried:
        if one["path"] == path and int(one["t_s"]) == second:
            by_subflow.setdefault(one["subflow"], []).append(one["mbps"])
    return sum(sum(values) / len(values) for values in by_subflow.values())


def read(folder: Path) -> list[dict[str, str]]:
    """Return the file's lines as texts; none if there is no file."""
    path = folder / FILE
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(folder: Path, cases: Sequence[Case], at: Path, there: Sequence[Row]) -> None:
    """Write the first trial of each case that a folder of results or the file has.

    Parameters
    ----------
    folder, cases
        The study's folder, and its cases.
    at, there
        The folder of results, and its runs.

    Raises
    ------
    MissingError
        If the file cannot be written.
    """
    known = read(folder)
    result: list[Line] = []
    for case in cases:
        first = stored.first(there, case)
        if first is None or not traces.has(at, key(first), (RUN,)):
            result += [one for one in known if (one["row"], one["arm"]) == (case.row, case.arm)]
        else:
            head = {"row": case.row, "arm": case.arm, "run": 0}
            result += [head | line for line in of(open_run(at, first["identity"]).tables)]
    _files.write(folder / FILE, _text(result), "the time lines")


def _text(lines: Iterable[Line]) -> str:
    """Return lines as CSV."""
    given = list(lines)
    paths = sorted({key for line in given for key in line if key.startswith(_PREFIX)})
    text = io.StringIO()
    writer = csv.DictWriter(text, (*_WHICH, "standing_s", "buffer_s", *paths), lineterminator="\n")
    writer.writeheader()
    writer.writerows(given)
    return text.getvalue()
