"""Running what was run again: the rows must come out the same, byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.results import identity, store
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
    cells = [stored_cell(found, cell) for cell in found["cells"]]
    sweep = Sweep(
        name=found["name"],
        cells=tuple(cells),
        trials=found["trials"],
        keep=tuple(found["keep"]),
        once=any(cell.get("exact") for cell in found["cells"]),
    )
    expected = {(job.name, job.identity): job for job in sweep.jobs(planned(sweep))}
    differences: dict[str, list[str]] = {}
    for cell, name in kept.keys() - expected.keys():
        differences[name] = [f"no run of cell {cell} has this identity: its inputs have changed, or its name"]
    if not store.journals(folder):
        for cell, name in expected.keys() - kept.keys():
            differences[name] = [f"the run of cell {cell} is missing"]
    chosen = _chosen([key for key in expected if key in kept], [*kept], identities, folder)
    if sample is not None and sample < len(chosen):
        chosen = [chosen[place * len(chosen) // sample] for place in range(sample)]
    for count, key in enumerate(chosen, start=1):
        rows, traces = execute.work(expected[key], found["code"])
        what = [
            f"{table}: {line}" for table in store.TABLES for line in _differ(kept[key][table], rows[table])
        ]
        place = store.trace_folder(folder, rows["runs"][0])
        for table, content in traces.items():
            file = place / f"{table}.parquet"
            if not file.exists() or file.read_bytes() != content:
                what.append(f"{table}: the kept trace differs from the one that the run makes now")
        if what:
            differences[key[1]] = what
        if progress is not None:
            progress(count, len(chosen))
    return differences, len(chosen)


def _rows(folder: Path) -> dict[store.Key, dict[str, list[Any]]]:
    """Return the rows of each run by table."""
    result: dict[store.Key, dict[str, list[Any]]] = {}
    for table in store.TABLES:
        for row in store.stored(folder, table):
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
