"""Running what was run again: the rows must come out the same, byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.results import identity, sealed, store, traces
from anabranch.results.manifest import entries
from anabranch.results.read import Reader
from anabranch.study import execute
from anabranch.study.sweep import Sweep, planned, stored_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def verify(
    folder: Path,
    identities: Sequence[str] = (),
    *,
    sample: int | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> tuple[dict[str, list[str]], int]:
    """Return what differs by the run's identity, and how many were run again.

    Parameters
    ----------
    folder
        The results.
    identities
        The runs, by the beginning of their identity; none is all.
    sample
        The most runs to repeat, evenly spread.
    progress
        Called with the number of runs done, and of all runs.

    Raises
    ------
    InputError
        If the folder has no results, has results over real packets, or does not have such a run.
    """
    found = store.manifest(folder)
    if not found["code"]:
        message = "runs over real packets cannot be repeated"
        raise InputError([Fault(message=message, where=str(folder))])
    reader = Reader(folder)
    differences: dict[str, list[str]] = _damaged(reader)
    kept = _rows(reader)
    cells = [stored_cell(found, cell) for cell in found["cells"]]
    sweep = Sweep(
        name=found["name"],
        cells=tuple(cells),
        trials=found["trials"],
        keep=tuple(found["keep"]),
        once=any(cell.get("exact") for cell in found["cells"]),
    )
    trials = {cell["cell"]: cell.get("trials", found["trials"]) for cell in found["cells"]}
    jobs = [job for job in sweep.jobs(planned(sweep)) if job.run < trials[job.name]]
    expected = {(job.name, job.identity): job for job in jobs}
    differences |= _foreign(reader, set(expected))
    if not store.journals(folder) and found["code"] == identity.code():
        for cell, name in expected.keys() - kept.keys():
            differences[name] = [f"the run of cell {cell} is missing"]
    chosen = _chosen([key for key in expected if key in kept], [*kept], identities, folder)
    if sample is not None and sample < len(chosen):
        chosen = [chosen[place * len(chosen) // sample] for place in range(sample)]
    for count, key in enumerate(chosen, start=1):
        rows, made = execute.work(expected[key], identity.code())
        what = [
            f"{table}: {line}" for table in store.TABLES for line in _differ(kept[key][table], rows[table])
        ]
        place = traces.of_row(folder, rows["runs"][0])
        for table, content in made.items():
            file = place / f"{table}.parquet"
            if not file.exists() or file.read_bytes() != content:
                what.append(f"{table}: the kept trace differs from the one that the run makes now")
        if what:
            differences[key[1]] = what
        if progress is not None:
            progress(count, len(chosen))
    return differences, len(chosen)


def _damaged(reader: Reader) -> dict[str, list[str]]:
    """Return the faults of damaged tables, journals and stored traces, by file."""
    found: dict[str, list[str]] = {}
    for fault in reader.files.damage():
        found.setdefault(fault.where, []).append(fault.message)
    if reader.found["format"] == store.FORMAT:
        for place in sorted((reader.folder / traces.FOLDER).glob("*/")):
            for file in sorted({*sealed.sums(place), *(path.name for path in place.glob("*.parquet"))}):
                try:
                    traces.table(place / file)
                except InputError as error:
                    found[str(place / file)] = [fault.message for fault in error.faults]
    return found


def _foreign(reader: Reader, expected: set[store.Key]) -> dict[str, list[str]]:
    """Return runs of the last sweep's tables that are foreign, and those that exist twice.

    The tables of earlier runs are not checked, because no summary uses them.
    """
    found: dict[str, list[str]] = {}
    names: dict[tuple[str, int], set[str]] = {}
    own = reader.own()
    for cell, name, run in own.select("cell", "identity", "run").iter_rows() if own.width else ():
        names.setdefault((cell, run), set()).add(name)
        if (cell, name) not in expected:
            found[name] = [f"foreign: no run of cell {cell} has this identity: {_why(reader, cell)}"]
    for (cell, run), several in names.items():
        for name in several if len(several) > 1 else ():
            found.setdefault(name, []).append(
                f"pooled: cell {cell} has {len(several)} runs with number {run}"
            )
    return found


def _why(reader: Reader, cell: str) -> str:
    """Return why a run does not have the present inputs."""
    code = next((one["code"] for one in entries(reader.found) if one["cell"] == cell), "")
    if code != identity.code():
        return f"it is of another build, {code or 'unknown'}"
    if reader.selection.changed:
        return f"changed since: {', '.join(reader.selection.changed)}"
    return "its inputs have changed, or its name"


def _rows(reader: Reader) -> dict[store.Key, dict[str, list[Any]]]:
    """Return the rows of each run by table."""
    result: dict[store.Key, dict[str, list[Any]]] = {}
    for table in store.TABLES:
        frame = reader.files.rows_of(table)
        for row in frame.iter_rows(named=True) if frame is not None else ():
            result.setdefault(store.key(row), {one: [] for one in store.TABLES})[table].append(row)
    return result


def _chosen(
    sound: Sequence[store.Key], kept: Sequence[store.Key], identities: Sequence[str], folder: Path
) -> list[store.Key]:
    """Return the runs that are meant: all that can be run again, or those that are named."""
    if not identities:
        return list(sound)
    result, faults = [], []
    for text in identities:
        named = [key for key in kept if key[1].startswith(text)]
        result += [key for key in named if key in sound]
        if not named:
            faults.append(Fault(message=f"no run is called `{text}`", where=str(folder)))
    if faults:
        raise InputError(faults)
    return result


def _differ(kept: list[Any], now: list[Any]) -> list[str]:
    """Return what differs between rows, column by column."""
    if len(kept) != len(now):
        return [f"{len(now)} rows, where {len(kept)} are kept"]
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
