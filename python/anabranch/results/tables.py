"""The files of a folder of results as rows: Parquet tables and journals. Each is checked before it is read.

`runs.parquet` and `subflows.parquet` have the runs of the last sweep. The same tables in the folder `earlier`
have runs of former sweeps that the last sweep does not use. A journal has runs that are not in a table yet.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.results import manifest as manifests
from anabranch.results import sealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import polars

#: The tables in which every run has rows. The first one has a single row for each run.
TABLES = ("runs", "subflows")
#: The columns at the start of every row. The labels of the row's cell follow the second one.
HEAD = ("identity", "cell", "scenario", "scheduler", "congestion", "seed", "run")
#: The folder with the tables of runs that the last sweep does not use.
EARLIER = "earlier"

#: The number of rows that are converted to a frame at a time, which bounds the memory in use.
_CHUNK = 5_000

Row = dict[str, Any]
#: The rows of a run by table.
Rows = dict[str, list[Row]]
#: A run: its cell and its identity.
Key = tuple[str, str]


def key(row: Row) -> Key:
    """Return the cell and the run that a row belongs to."""
    return row["cell"], row["identity"]


def places() -> Iterator[tuple[str, str, str]]:
    """Yield the subfolder, name and path of each table."""
    for table in TABLES:
        yield "", table, f"{table}.parquet"
        yield EARLIER, table, f"{EARLIER}/{table}.parquet"


def known_sums(folder: Path, found: Mapping[str, Any] | None) -> dict[str, set[str]]:
    """Return the checksums that each file may have; none for a file that was never written.

    The manifest has them, and `SHA256SUMS` has a second copy, so that one of the two may be damaged.

    Parameters
    ----------
    folder
        The results.
    found
        The manifest; None if it is damaged or missing.
    """
    kept = sealed.sums(folder)
    own = {} if found is None else found.get("tables", {})
    return {file: {*own.get(file, ()), *([kept[file]] if file in kept else [])} for *_, file in places()}


def _said(folder: Path) -> set[str]:
    """Return the checksums in a damaged manifest. A damaged table matches none of them."""
    try:
        return sealed.checksums_in((folder / manifests.MANIFEST).read_bytes())
    except OSError:
        return set()


class Tables:
    """The files of a folder of results, each read once.

    Parameters
    ----------
    folder
        The results.
    found
        The manifest; None if it is damaged or missing.
    """

    def __init__(self, folder: Path, found: Mapping[str, Any] | None) -> None:
        self.folder = folder
        self._sums = known_sums(folder, found)
        self._loose = _said(folder) if found is None else set()
        #: Folders of versions before 3 have no checksums.
        self._has_sums = found is None or found.get("format") == manifests.FORMAT
        self._frames: dict[str, polars.DataFrame | None] = {}
        self._found_sums: dict[str, set[str]] = {}
        self._faults: dict[str, InputError] = {}
        self._lines: tuple[list[Rows], list[Fault]] | None = None

    def frame(self, file: str) -> polars.DataFrame | None:
        """Return a Parquet table; None if it does not exist.

        Raises
        ------
        InputError
            If the table is damaged.
        """
        if file in self._faults:
            raise self._faults[file]
        if file not in self._frames:
            try:
                self._frames[file] = self._read(file)
            except InputError as error:
                self._faults[file] = error
                raise
        return self._frames[file]

    def _read(self, file: str) -> polars.DataFrame | None:
        """Read a Parquet table."""
        if not self._is_there(file):
            return None
        path = self.folder / file
        sums = self._sums[file] | self._loose if self._has_sums else None
        try:
            frame = parquet(path, sums)
        except InputError:
            if sums is None:
                raise
            # Another process may have written new tables since the manifest was read.
            try:
                found = manifests.read(self.folder)
            except InputError:
                found = None
            frame = parquet(path, sums | known_sums(self.folder, found)[file])
        self._found_sums[file] = {sealed.digest(path.read_bytes())}
        return frame

    def sums(self) -> dict[str, set[str]]:
        """Return the checksums of the undamaged tables by file."""
        self.damage()
        return dict(self._found_sums)

    def _is_there(self, file: str) -> bool:
        """Return whether a table exists or should exist. A missing table counts as damaged."""
        return (self.folder / file).exists() or bool(self._sums[file] and self._has_sums)

    def damage(self) -> list[Fault]:
        """Return the faults of damaged tables and journals."""
        for *_, file in places():
            try:
                self.frame(file)
            except InputError:
                continue
        faults = [fault for error in self._faults.values() for fault in error.faults]
        return [*faults, *self._journal()[1]]

    def pair(self, folder: str) -> dict[str, polars.DataFrame]:
        """Return the tables of the last sweep (`""`) or the earlier ones; empty if one of them is damaged.

        A run counts as complete only if its rows in every table are undamaged.
        """
        found = {}
        for where, table, file in places():
            if where == folder:
                try:
                    frame = self.frame(file)
                except InputError:
                    return {}
                if frame is not None:
                    found[table] = frame
        return found if TABLES[0] in found else {}

    def sound(self, folder: str) -> dict[str, polars.DataFrame]:
        """Return the undamaged tables of a pair."""
        self.damage()
        frames = {table: self._frames.get(file) for where, table, file in places() if where == folder}
        return {table: frame for table, frame in frames.items() if frame is not None}

    def partial(self, found: Mapping[str, Any]) -> set[Key]:
        """Return the earlier runs that lost their rows in a damaged table and were not run again.

        Parameters
        ----------
        found
            The manifest, which lists them.
        """
        again = {key(rows[TABLES[0]][0]) for rows in self.journal()}
        return {(cell, name) for cell, name in found.get("partial", ())} - again

    def journal(self) -> list[Rows]:
        """Return the undamaged records of the journals."""
        return self._journal()[0]

    def _journal(self) -> tuple[list[Rows], list[Fault]]:
        """Return the records of the journals, and the faults of damaged ones."""
        if self._lines is None:
            self._lines = read_journals(self.folder, is_sealed=self._has_sums)
        return self._lines

    def rows_of(self, table: str) -> polars.DataFrame | None:
        """Return the rows of a table from all undamaged files, each once; None if no rows are found."""
        # Read journals before tables: another process may be moving their records into tables.
        self.journal()
        frames = [pair.get(table) for pair in map(self.pair, ("", EARLIER))]
        if not self.journal() and all(frame is None for frame in frames):
            return None  # without polars, whose threads would forbid to fork workers
        found = self.joined(table, frames)
        return found if found.width else None

    def joined(self, table: str, frames: Sequence[polars.DataFrame | None]) -> polars.DataFrame:
        """Return the rows of some frames and of the journals, each row once."""
        import polars

        parts = [frame for frame in frames if frame is not None]
        parts += _frames(row for rows in self.journal() for row in rows.get(table, ()))
        return distinct(polars.concat(parts, how="diagonal_relaxed"), table) if parts else polars.DataFrame()


def distinct(frame: polars.DataFrame, table: str) -> polars.DataFrame:
    """Return a table with each row once."""
    names = ["cell", "identity", *(["subflow"] if table != TABLES[0] else [])]
    return frame.unique(subset=names, keep="first", maintain_order=True)


def _frames(rows: Iterable[Row]) -> list[polars.DataFrame]:
    """Convert rows to frames."""
    import polars

    frames: list[polars.DataFrame] = []
    chunk: list[Row] = []

    def close() -> None:
        if chunk:
            frames.append(polars.from_dicts(chunk, infer_schema_length=None))
            chunk.clear()

    for row in rows:
        chunk.append(row)
        if len(chunk) == _CHUNK:
            close()
    close()
    return frames


def arranged(frame: polars.DataFrame, table: str, cells: Sequence[str]) -> polars.DataFrame:
    """Return a table in the order of cells and runs, independently of the order in which they ran."""
    import polars

    place = {name: at for at, name in reversed(list(enumerate(cells)))}
    at = polars.col("cell").replace_strict(place, default=len(place), return_dtype=polars.Int64)
    more = ["subflow"] if table != TABLES[0] else []
    order = [at, *map(polars.col, ("run", *more))]
    return frame.sort(order, maintain_order=True).select(_columns(frame.columns)).rechunk()


def without_strangers(frame: polars.DataFrame) -> polars.DataFrame:
    """Drop the columns that are empty in all selected rows. Without rows, keep all columns."""
    import polars

    if not frame.height:
        return frame
    strange = [
        name
        for name, kind in frame.schema.items()
        if kind != polars.Null and name not in HEAD and frame[name].null_count() == frame.height
    ]
    return frame.drop(strange)


def _columns(names: Sequence[str]) -> list[str]:
    """Return columns in an order that does not depend on the first row."""
    first = [name for name in HEAD if name in names]
    labels = sorted(name for name in names if "." in name or name in ("row", "varied"))
    labels = [name for name in labels if not name.startswith("frames.")]
    last = ["digest"] if "digest" in names else []
    rest = sorted(set(names) - {*first, *labels, *last})
    return [*first[:2], *labels, *first[2:], *rest, *last]


def journals(folder: Path) -> list[Path]:
    """Return the journals of a folder, in a fixed order."""
    return sorted(folder.glob("journal-*.jsonl"))


def read_journals(
    folder: Path, *, is_sealed: bool, only: Path | None = None
) -> tuple[list[Rows], list[Fault]]:
    """Return the records of a folder's journals, and the faults of those that are damaged.

    Parameters
    ----------
    folder
        The results.
    is_sealed
        Whether each record has a checksum, as since version 3.
    only
        The only journal to read; None reads all.
    """
    found: list[Rows] = []
    faults: list[Fault] = []
    for journal in journals(folder) if only is None else [only]:
        try:
            # The last line is incomplete if the program ended while it was written.
            *lines, _ = journal.read_bytes().split(b"\n")
        except OSError:
            # Another process has just moved its records into tables.
            continue
        for number, line in enumerate(lines, start=1):
            rows = _record(sealed.opened(line + b"\n") if is_sealed else line)
            if rows is None:
                hint = "repeat the command that made the folder: it makes the record's run again"
                message = "a damaged record in a journal"
                faults.append(Fault(message=message, where=str(journal), line=number, hint=hint))
            else:
                found.append(rows)
    return found, faults


def _record(content: bytes | None) -> Rows | None:
    """Return the rows of a journal's record; None if it is not a valid record."""
    try:
        rows: Rows = json.loads(content or b"")
        runs, *_ = rows[TABLES[0]]
        if all(name in runs for name in HEAD) and all(isinstance(rows[table], list) for table in TABLES):
            return rows
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    return None


def parquet(path: Path, sums: set[str] | None) -> polars.DataFrame:
    """Read a Parquet file of a folder of results.

    Parameters
    ----------
    path
        The file.
    sums
        The checksums that the file may have; None if none is known.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    import polars

    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise _broken(path.parent, f"the table is missing: `{path.name}`") from None
    except OSError as error:
        message = f"cannot read the results: {error.strerror or error}"
        raise InputError([Fault(message=message, where=str(path))]) from None
    if sums is not None and sealed.digest(content) not in sums:
        raise _broken(path, "a damaged table: its checksum is another")
    try:
        return polars.read_parquet(io.BytesIO(content))
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - polars panics with an exception of its own kind
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise _broken(path, f"not a Parquet file: {reason}") from None


def _broken(place: Path, message: str) -> InputError:
    """Return the error of a damaged table: a sweep repeats its own runs."""
    hint = "repeat the command that made the folder: it makes the table again"
    if EARLIER in (place.name, place.parent.name):
        hint = "repeat the command that made the folder: it keeps the sound tables of earlier runs"
    return InputError([Fault(message=message, where=str(place), hint=hint)])
