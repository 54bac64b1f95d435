"""Reads settings and trials from a folder of measurements, and reports unknown parts.

The layout is that of the laboratory (groundtruth/README.md). `handoff.csv` and `vlc.csv` have handovers and
players, and `film.csv` has runs from which a player's stalls were computed. Any other table has runs, which
are bulk or paced according to the column `pace`, and cut according to the column `how`. Rows describe their
own paths. For a row without such columns, the case is looked up in `cases.csv` first and then in the rows of
other tables. `kernel.toml` names the measured kernel.

A part that is not understood is refused, and the rest is read. A table with an unknown column is read without
that column, and a table without a required column is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch import _files
from anabranch.calibrate import _cells, _columns, films, kernels
from anabranch.calibrate._rows import Reader
from anabranch.calibrate.model import GroundTruth, Measured
from anabranch.errors import Fault, InputError, nearest
from anabranch.scenario.shipped import display

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.calibrate._cells import Row
    from anabranch.media.films import Film

#: The measurements of the installed program (in a checkout, a link to its `groundtruth` folder).
SHIPPED = Path(__file__).resolve().parent.parent / "_groundtruth"
#: The folders of the measurements that are judged by default; the empty name is the folder itself.
SHIPPED_FOLDERS = ("", "odd", "papers-kernel")

_NAMED = ("bulk.csv", "lossy.csv", "paced.csv", "film.csv", "handoff.csv", "vlc.csv", "cases.csv")
_FIRST_LEG = _columns.numbered(_columns.LEG, 1)
_REQUIRED = (*_columns.RUN, *_FIRST_LEG, *_columns.numbered(_columns.SUBFLOW, 1))


def shipped() -> GroundTruth:
    """Read the measurements that come with the program, folder by folder."""
    parts = [read(SHIPPED / name, name=name) for name in SHIPPED_FOLDERS]
    return GroundTruth(
        measured=tuple(one for part in parts for one in part.measured),
        films={name: film for part in parts for name, film in part.films.items()},
        refused=tuple(fault for part in parts for fault in part.refused),
    )


def read(folder: Path, *, name: str = "", kernel: str | None = None) -> GroundTruth:
    """Read a folder of measurements.

    Parameters
    ----------
    folder
        Where it is.
    name
        The prefix of its settings' names.
    kernel
        The measured kernel; None takes the folder's own statement.

    Raises
    ------
    InputError
        With every fault found, when nothing is left to judge.
    """
    if not _files.is_folder(folder):
        hint = "a folder with bulk.csv, lossy.csv, paced.csv, handoff.csv or vlc.csv"
        raise InputError([Fault(message=f"no such folder: `{folder}`", where="--against", hint=hint)])
    paths = sorted(path for path in folder.glob("*.csv") if not path.name.startswith("summary_"))
    tables = {path.name: path for path in paths}
    if not tables.keys() - {"cases.csv"}:
        hint = "bulk.csv, lossy.csv, paced.csv, handoff.csv and vlc.csv are looked for"
        raise InputError([Fault(message=f"no measurements in `{display(folder)}`", hint=hint)])
    faults: list[Fault] = []
    # A table that cannot be read is reported when its rows are read.
    columns = [column for path in tables.values() for column in _cells.header(path, display(path), [])]
    reader = Reader(name, kernel or kernels.of_folder(folder, columns, faults))

    def rows(table: str, required: Sequence[str], known: Sequence[str]) -> Iterator[Row]:
        if table in tables:
            where = display(tables[table])
            yield from _cells.rows(tables[table], where, required, faults, known=known)

    for row in rows("cases.csv", ("case", *_FIRST_LEG), _columns.OF_CASES):
        reader.case(row)
    # Films are read after the other runs.
    for table, path in sorted(tables.items(), key=lambda one: (one[0] == "film.csv", one[0])):
        if table not in ("cases.csv", "handoff.csv", "vlc.csv") and _is_of_runs(path, faults):
            film = table == "film.csv"
            for row in rows(table, _REQUIRED, _columns.OF_FILMS if film else _columns.OF_RUNS):
                reader.run(row, film=film)
    for row in rows("handoff.csv", _columns.HANDOFF, _columns.OF_HANDOFFS):
        reader.handoff(row)
    for row in rows("vlc.csv", _columns.VLC, _columns.OF_VLC):
        reader.vlc(row)
    streamed = _films(folder, reader, faults)
    measured = tuple(
        Measured(setting=setting, trials=tuple(sorted(trials, key=lambda trial: trial.number)), folder=folder)
        for setting, trials in reader.trials.items()
        if not setting.film or setting.film in streamed
    )
    if not measured:
        raise InputError(faults)
    return GroundTruth(measured=measured, films=streamed, refused=tuple(faults))


def _is_of_runs(path: Path, faults: list[Fault]) -> bool:
    """Return whether a table has runs, by its name or by most of the columns that such a table must have."""
    if path.name in _NAMED:
        return True
    before = len(faults)
    header = _cells.header(path, display(path), faults)
    if len(faults) > before:
        return False
    if 2 * sum(name in header for name in _REQUIRED) > len(_REQUIRED):
        return True
    close = nearest(path.name, _NAMED)
    hint = (
        f"is it `{close}`?" if close else "a table of runs has the columns that groundtruth/README.md tells"
    )
    faults.append(Fault(message=f"unknown table: `{path.name}`", where=display(path), line=1, hint=hint))
    return False


def _films(folder: Path, reader: Reader, faults: list[Fault]) -> dict[str, Film]:
    """Return the films that the players streamed."""
    found = {}
    for name, taken in reader.bytes_read.items():
        path = folder / f"{name}.frames.csv.gz"
        film = films.read(path, display(path), name, bytes_read=taken, faults=faults)
        if film is not None:
            found[name] = film
    return found
