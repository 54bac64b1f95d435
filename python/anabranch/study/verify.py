"""Running what was run again: the rows must come out the same, byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.results import identity, store
from anabranch.study import execute
from anabranch.study.sweep import Cell, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def verify(
    folder: Path,
    identities: Sequence[str] = (),
    *,
    sample: int | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> tuple[list[str], int]:
    """Return where runs differ from what is kept of them, and how many were run again.

    Parameters
    ----------
    folder
        The results.
    identities
        The runs, by the beginning of their identity; none is all.
    sample
        At most so many, evenly spread.
    progress
        Told the runs done, and how many there are.

    Raises
    ------
    InputError
        When the folder holds no results, those of another build, or not such a run.
    """
    found = store.manifest(folder)
    if found["code"] != identity.code():
        message = f"the results are of another build of this program: {found['code']}, not {identity.code()}"
        raise InputError([Fault(message=message, where=str(folder))])
    kept = _rows(folder)
    chosen = _chosen(kept, identities, folder)
    if sample is not None and sample < len(chosen):
        chosen = [chosen[place * len(chosen) // sample] for place in range(sample)]
    cells = [_cell(found, cell) for cell in found["cells"]]
    differences = []
    for count, name in enumerate(chosen, start=1):
        row = kept[name]["runs"][0]
        job = Job(place=0, cell=_of(cells, row), run=row["run"], keep=(), identity=name)
        rows, _ = execute.work(job, found["code"])
        for table in store.TABLES:
            differences += [f"{name} {table}: {what}" for what in _differ(kept[name][table], rows[table])]
        if progress is not None:
            progress(count, len(chosen))
    return differences, len(chosen)


def _rows(folder: Path) -> dict[str, dict[str, list[Any]]]:
    """Return the rows of each run by table."""
    result: dict[str, dict[str, list[Any]]] = {}
    for table in store.TABLES:
        for row in store.stored(folder, table):
            result.setdefault(row["identity"], {one: [] for one in store.TABLES})[table].append(row)
    return result


def _chosen(kept: dict[str, Any], identities: Sequence[str], folder: Path) -> list[str]:
    """Return the runs that are meant."""
    if not identities:
        return list(kept)
    result, faults = [], []
    for text in identities:
        matching = [name for name in kept if name.startswith(text)]
        if len(matching) == 1:
            result += matching
        else:
            what = "no run is called" if not matching else f"{len(matching)} runs begin with"
            faults.append(Fault(message=f"{what} `{text}`", where=str(folder)))
    if faults:
        raise InputError(faults)
    return result


def _cell(found: dict[str, Any], cell: dict[str, Any]) -> Cell:
    """Return a cell of the manifest."""
    settings = tuple((key, value, "the manifest") for key, value in cell["settings"].items())
    name = cell["scenario"]
    return Cell(
        scenario=name,
        raw=json.dumps(found["scenarios"][name]),
        folder=found["folders"][name],
        settings=settings,
        labels=tuple(cell["labels"].items()),
    )


def _of(cells: Sequence[Cell], row: dict[str, Any]) -> Cell:
    """Return the cell that a row is of."""
    return next(cell for cell in cells if all(row.get(key) == text for key, text in cell.labels))


def _differ(kept: list[Any], now: list[Any]) -> list[str]:
    """Return what differs between rows, column by column."""
    if len(kept) != len(now):
        return [f"{len(now)} rows, {len(kept)} are kept"]
    result = []
    for before, after in zip(kept, now, strict=True):
        known = {key: value for key, value in before.items() if value is not None}
        again = {key: value for key, value in json.loads(json.dumps(after)).items() if value is not None}
        result += [
            f"{key} is {again.get(key)}, {known.get(key)} is kept"
            for key in dict.fromkeys([*known, *again])
            if known.get(key) != again.get(key)
        ]
    return result
