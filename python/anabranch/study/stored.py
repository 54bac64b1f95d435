"""Opening one run of a folder of results: from its kept trace, or by repeating it and comparing digests."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.results import identity, sealed, store, traces
from anabranch.results.manifest import entries
from anabranch.results.read import all_runs, present_runs
from anabranch.study.measure import RUN, TRACE
from anabranch.study.sweep import afresh, stored_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anabranch._run import Run
    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded

#: The kind of a trace's column for each kind of a file's column.
_KINDS = {"Boolean": "bool", "Float64": "float", "Int64": "int", "String": "text"}


def find(folder: Path, run: str | None = None) -> tuple[store.Row, int]:
    """Return a run's row, and how many runs the folder holds.

    Parameters
    ----------
    folder
        The results.
    run
        The beginning of its identity; None is the first run.

    Raises
    ------
    InputError
        When the folder holds no results, or none or several runs with such an identity.
    """
    # A run that the user names may belong to earlier sources.
    frame = present_runs(folder) if run is None else all_runs(folder)
    places = {entry["cell"] for entry in entries(store.manifest(folder))}
    # A row whose cell is not in the manifest cannot be repeated, so it is ignored.
    rows = [row for row in frame.iter_rows(named=True) if row["cell"] in places]
    if not rows:
        raise _none(folder, "the folder holds no runs")
    named = [row for row in rows if row["identity"].startswith(run or "")]
    if run is not None and len({row["identity"] for row in named}) != 1:
        text = (
            f"{len(named)} runs have an identity that begins with this"
            if named
            else "no run has an identity that begins with this"
        )
        raise _none(folder, f"{text}: `{run}`")
    return named[0], len(rows)


def open_run(
    folder: str | Path, run: str | None = None, *, progress: Callable[[float, float], None] | None = None
) -> Run:
    """Return a run of a folder of results with its trace; `Run.open` is the same.

    Parameters
    ----------
    folder
        The results.
    run
        The beginning of its identity; None is the first run.
    progress
        Called with the seconds of the session done so far, and how many are expected, if it is run again.

    Raises
    ------
    InputError
        When there is no such run, or it does not come out as it did.
    """
    folder = Path(folder)
    row, _ = find(folder, run)
    kept = traces.of_row(folder, row)
    if (kept / f"{RUN}.parquet").exists():
        return _read(kept, row)
    return _again(folder, row, progress)


def _again(folder: Path, row: store.Row, progress: Callable[[float, float], None] | None) -> Run:
    """Repeat a stored run, and check by its digest that it is the same."""
    from anabranch._run import run_loaded

    loaded, film = scenario_of(folder, row)
    run = run_loaded(loaded, run=row["run"], film=film, progress=progress, may_stand=True)
    prove(folder, row, run)
    return dataclasses.replace(run, identity=row["identity"])


def scenario_of(folder: Path, row: store.Row) -> tuple[Loaded, Film | None]:
    """Return the scenario of a stored run, and its film."""
    found = store.manifest(folder)
    cell = next(cell for cell in entries(found) if cell["cell"] == row["cell"])
    return afresh(stored_cell(found, cell).text())


def prove(folder: Path, row: store.Row, run: Run) -> None:
    """Prove by its digest that a run is the same as a stored one.

    Raises
    ------
    InputError
        When it is not.
    """
    if run.digest == row["digest"]:
        return
    message = f"run {row['identity']} does not come out as it did: {_apart(run.digest, row)}"
    hint = "a film, a recording or a plug-in of its scenario has changed"
    made_by = next(one["code"] for one in entries(store.manifest(folder)) if one["cell"] == row["cell"])
    if made_by != identity.code():
        hint = f"it was made by another build: {made_by}, this is {identity.code()}"
    raise InputError([Fault(message=message, where=str(folder), hint=hint)])


def _apart(digest: str, row: store.Row) -> str:
    """Return the text for two digests that differ."""
    return f"its digest is {digest[:12]}, not {row['digest'][:12]}"


def _read(kept: Path, row: store.Row) -> Run:
    """Return a run from the tables that were kept of it.

    The metrics are functions of the tables, except those of a captured session, which are kept.
    """
    from anabranch import metrics
    from anabranch._expected import Broken
    from anabranch._run import Run

    # Another build may have had other tables. A missing one is reported when it is read.
    names = sorted({*sealed.sums(kept), *(path.name for path in kept.glob("*.parquet"))})
    files = {Path(name).stem: kept / name for name in names if name != f"{RUN}.parquet"}
    tables = {table: _table(files[table]) for table in dict.fromkeys((*TRACE, *files)) if table in files}
    (said,) = traces.table(kept / f"{RUN}.parquet", is_sealed=_is_sealed(kept)).to_dicts()
    summary = json.loads(said["summary"])
    if summary["digest"] != row["digest"]:
        message = f"the kept trace belongs to another run: {_apart(summary['digest'], row)}"
        raise InputError([Fault(message=message, where=str(kept), hint="remove it: the run is made again")])
    plan = json.loads(said["plan"])
    paths = [path["name"] for path in plan["paths"]]
    if "metrics" in said:
        found = json.loads(said["metrics"])
    else:
        clients = metrics.by_client(tables, paths=paths)
        found = {
            "qoe": metrics.qoe(tables, clients),
            "qos": metrics.qos(tables, clients, paths=paths),
            "clients": clients,
        }
    return Run(
        **{name: row[name] for name in ("scenario", "seed", "run", "scheduler", "congestion", "identity")},
        plan=plan,
        tables=tables,
        summary=summary,
        **found,
        plugins=json.loads(said["plugins"]),
        broken=tuple(Broken(**one) for one in json.loads(said["broken"])),
    )


def _table(path: Path) -> Any:  # noqa: ANN401 - the Rust module's own
    """Return a table as the simulator would have given it."""
    from anabranch import plugins

    rust, frame = plugins.module(), traces.table(path, is_sealed=_is_sealed(path.parent))
    wrong = [name for name, kind in frame.schema.items() if str(kind) not in _KINDS]
    if wrong:
        message = f"not a kind of column that a trace has: `{wrong[0]}`"
        raise InputError([Fault(message=message, where=str(path), hint="remove it: the run is made again")])
    columns: Sequence[tuple[str, Any]] = [
        (name, rust.Column(_KINDS[str(kind)], frame[name].to_list())) for name, kind in frame.schema.items()
    ]
    return rust.Table(columns)


def _is_sealed(kept: Path) -> bool:
    """Return whether the folder of results of a stored trace has checksums."""
    return bool(store.manifest(kept.parent.parent)["format"] == store.FORMAT)


def _none(folder: Path, message: str) -> InputError:
    """Return the error for a run that does not exist."""
    hint = f"`anabranch results {folder} --sql 'SELECT identity, cell, run FROM runs'` lists them"
    return InputError([Fault(message=message, where=str(folder), hint=hint)])
