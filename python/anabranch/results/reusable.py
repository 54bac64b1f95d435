"""Finds stored runs that another cell can use under its own name, so that they are not run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.results import identity
from anabranch.results import manifest as manifests
from anabranch.results import traces as kept
from anabranch.results.tables import HEAD, TABLES, Key, Rows, Tables, key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from anabranch.results.manifest import Table


def reusable_runs(
    files: Tables, wanted: Mapping[tuple[str, int], Any], keep: Collection[str]
) -> Iterator[tuple[tuple[str, int], Rows, Key]]:
    """Yield stored runs of this build that another cell needs.

    Parameters
    ----------
    files
        The files of the folder.
    wanted
        The runs by the hash of a plan without its scenario's name, and number.
    keep
        The tables that must be kept of the run's trace.
    """
    found = manifests.read(files.folder)
    texts = {text for text, _ in wanted}
    known: dict[str, list[Table]] = {}
    for entry in manifests.entries(found):
        if entry.get("alike") in texts and entry["code"] == identity.code():
            known.setdefault(entry["cell"], []).append(entry)
    frame = files.rows_of(TABLES[0]) if known else None
    if frame is None:
        return
    at: dict[Key, tuple[str, int]] = {}
    taken = set()
    partial = files.partial(found)
    for cell, name, run in frame.select("cell", "identity", "run").iter_rows():
        for entry in known.get(cell, ()):
            place = (entry["alike"], run)
            is_it = identity.of_run(entry["hash"], run) == name
            if (
                is_it
                and (cell, name) not in partial
                and place in wanted
                and place not in taken
                and (not keep or kept.has(files.folder, (cell, name), keep))
            ):
                taken.add(place)
                at[cell, name] = place
    # A label such as `seed` is a column of `HEAD` too, and every row has those.
    labels = set(manifests.labels(manifests.entries(found))) - set(HEAD)
    rows: dict[Key, Rows] = {one: {table: [] for table in TABLES} for one in at}
    for table in TABLES:
        whole = files.rows_of(table)
        for row in whole.iter_rows(named=True) if whole is not None else ():
            if key(row) in at:
                own = {name: value for name, value in row.items() if name not in labels}
                rows[key(row)][table].append(own)
    for one, place in at.items():
        yield place, rows[one], one
