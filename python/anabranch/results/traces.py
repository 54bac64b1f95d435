"""The stored tables of runs' traces. Each run has a folder with the checksums of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import Fault, InputError
from anabranch.results import sealed
from anabranch.results.tables import Key, Row, key, parquet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import polars

#: The folder that has one folder for each run.
FOLDER = "traces"

_HINT = "repeat the command that made the folder: it makes the run again"


def folder_of(folder: Path, one: Key) -> Path:
    """Return the folder of the tables of a run's trace."""
    cell, identity = one
    return folder / FOLDER / f"{identity}-{cell}"


def of_row(folder: Path, row: Row) -> Path:
    """Return the folder of the tables of the trace of a row's run."""
    return folder_of(folder, key(row))


def keep(folder: Path, one: Key, tables: Mapping[str, bytes]) -> None:
    """Store tables of a run's trace.

    Parameters
    ----------
    folder
        The results.
    one
        The run.
    tables
        Parquet files by table name.
    """
    place = folder_of(folder, one)
    place.mkdir(parents=True, exist_ok=True)
    for table, content in tables.items():
        sealed.whole(place / f"{table}.parquet", content)
    own = {f"{table}.parquet": sealed.digest(content) for table, content in tables.items()}
    # Tables that exist already and were not requested this time stay.
    sealed.write_sums(place, sealed.sums(place) | own)


def add_sums(place: Path) -> None:
    """Write the checksums of a folder that has none."""
    files = sorted(place.glob("*.parquet"))
    if files and not (place / sealed.SUMS).exists():
        sealed.write_sums(place, {file.name: sealed.digest(file.read_bytes()) for file in files})


def contents(folder: Path, one: Key, tables: Collection[str]) -> dict[str, bytes] | None:
    """Return the files of some tables of a run's trace; None if one is missing or damaged."""
    place = folder_of(folder, one)
    sums = sealed.sums(place)
    found = {}
    for table in tables:
        name = f"{table}.parquet"
        try:
            content = (place / name).read_bytes()
        except OSError:
            return None
        if sums.get(name) != sealed.digest(content):
            return None
        found[table] = content
    return found


def has(folder: Path, one: Key, tables: Collection[str]) -> bool:
    """Return whether some tables of a run's trace exist and are undamaged."""
    return contents(folder, one, tables) is not None


def table(path: Path, *, is_sealed: bool = True) -> polars.DataFrame:
    """Return a table of a run's trace.

    Parameters
    ----------
    path
        The file.
    is_sealed
        Whether the folder of results has checksums, as since version 3.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    if not is_sealed:
        return parquet(path, None)
    known = sealed.sums(path.parent).get(path.name)
    if known is None:
        message = f"a damaged trace: `{sealed.SUMS}` does not have this file"
        raise InputError([Fault(message=message, where=str(path), hint=_HINT)])
    return parquet(path, {known})
