"""Causes of a folder's runs, stored with them: each run is opened again once."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from anabranch.metrics._still import FREEZE_S
from anabranch.results import sealed
from anabranch.results.worlds import number, pair_of
from anabranch.why.attribute import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch._run import Run

#: The file in a folder of results, with a line for each run.
FILE = "causes.jsonl"
#: The quantities that have causes: seconds, pictures, steps.
KINDS = ("frozen_s", "discards", "steps_down")
#: The same, with the reasons why a run was not better: seconds of film, and Mb/s.
ALL = (*KINDS, "below_s", "unused_mbps")
#: The columns of a run that show whether it has any of these.
_TOLD = ("buffer_underflows", "picture_discards", "resolution_changes", "unreached_sessions")
#: The key of a group of runs: row and congestion control.
Group = tuple[str, str]
#: The key of a cell: its labels with their values.
Cell = tuple[tuple[str, object], ...]


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the known causes by a run's identity. Incomplete or damaged lines are ignored."""
    path = folder / FILE
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        content = sealed.opened(line + b"\n")
        if content is not None:
            one = json.loads(content)
            found[one["identity"]] = one
    return found


def make(
    folder: Path, *, trials: int, progress: Callable[[float, float], None] | None = None
) -> dict[str, dict[str, Any]]:
    """Find the causes of the first runs of each cell of the study as it stands, if they are not stored yet.

    A drawn world counts as a trial, so the runs are those in the first worlds.

    Parameters
    ----------
    folder
        The results.
    trials
        Runs of each cell, or drawn worlds of each row.
    progress
        Called with the number of runs done and the number of all runs.

    Raises
    ------
    InputError
        If a run does not come out as it did.
    """
    from anabranch.study.stored import open_run

    # Lines of builds before `below_s` are made again, except those of runs without anything to explain.
    known = {name: one for name, one in read(folder).items() if "below_s" in one}
    wanted = [row for row in _rows(folder) if is_among(row, trials) and row["identity"] not in known]
    path = folder / FILE
    is_cut_off = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("ab") as out:
        out.write(b"\n" if is_cut_off else b"")
        for count, row in enumerate(wanted, start=1):
            causes = {} if _is_quiet(row) else _of(open_run(folder, row["identity"]))
            kept = {name: causes.get(name, {}) for name in ALL}
            one = {"identity": row["identity"], **kept}
            known[row["identity"]] = one
            out.write(sealed.line(json.dumps(one).encode()))
            out.flush()
            if progress is not None:
                progress(count, len(wanted))
    return known


def groups(folder: Path) -> dict[Group, dict[str, Any]]:
    """Return the means of each row and congestion control: `runs`, and those of `KINDS` by cause."""
    known = read(folder)
    sums: dict[Group, dict[str, Any]] = {}
    for row in _rows(folder) if known else ():
        one = known.get(row["identity"])
        if one is not None:
            place = row.get("row", row["scenario"]), row["congestion"]
            group = sums.setdefault(place, {"runs": 0, **{name: defaultdict(float) for name in KINDS}})
            group["runs"] += 1
            for name in KINDS:
                # A line of an earlier version has no steps.
                for cause, amount in one.get(name, {}).items():
                    group[name][cause] += amount
    return {place: _means(group) for place, group in sums.items()}


def cells(folder: Path) -> dict[Cell, dict[str, Any]]:
    """Return the means of each cell with known causes: `runs`, and those of `ALL` by cause."""
    from anabranch.results import store
    from anabranch.results.worlds import of_cells

    known, labels = read(folder), of_cells(store.made(folder).labels)
    sums: dict[Cell, dict[str, Any]] = {}
    for row in _rows(folder) if known else ():
        one = known.get(row["identity"])
        if one is not None:
            place = tuple((name, row[name]) for name in labels if name in row)
            group = sums.setdefault(place, {"runs": 0, **{name: defaultdict(float) for name in ALL}})
            group["runs"] += 1
            # Runs without anything to explain have no unused rate; it is a mean over the others.
            group["rated"] = group.get("rated", 0) + bool(one.get("unused_mbps"))
            for name in ALL:
                for cause, amount in one.get(name, {}).items():
                    group[name][cause] += amount
    return {place: _means(group, ALL) for place, group in sums.items()}


def _of(run: Run) -> dict[str, Any]:
    """Return a run's causes, and its unused rate by cause as the mean over its clients."""
    found = why(run)
    unused: dict[str, float] = defaultdict(float)
    for rate in found.rates:
        for cause, parts in rate.unused.items():
            unused[cause] += sum(parts.values()) / len(found.rates)
    return {**found.to_json(), "unused_mbps": {name: round(one, 3) for name, one in unused.items()}}


def is_among(row: Mapping[str, Any], trials: int) -> bool:
    """Return whether a run is one of the first trials: by its own number, or by that of its drawn world."""
    return number(pair_of(row)) < trials


def _is_quiet(row: Mapping[str, Any]) -> bool:
    """Return whether a run has no causes to look for: no freeze, discard, other rendition or early end.

    Film that is not shown is no sign: the time of the start takes it away, if `application.duration` is
    shorter than the film.
    """
    is_at_top = (row.get("top_share") or 0.0) >= 1 or "top_share" not in row
    is_calm = not any(row.get(name) for name in _TOLD) and (row.get("still_longest_s") or 0.0) < FREEZE_S
    return is_calm and is_at_top


def _means(group: Mapping[str, Any], kinds: Sequence[str] = KINDS) -> dict[str, Any]:
    """Return sums as means over the runs; unused rates over the runs that have them."""
    counts = {"unused_mbps": group.get("rated", 0)}
    means = {
        name: {cause: amount / counts.get(name, group["runs"]) for cause, amount in group[name].items()}
        for name in kinds
    }
    return {"runs": group["runs"], **means}


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the runs of the study as it stands that have a player."""
    from anabranch.results.read import rows

    for row in rows(folder).iter_rows(named=True):
        if row.get("varied") is None and row.get("buffer_underflows") is not None:
            yield row
