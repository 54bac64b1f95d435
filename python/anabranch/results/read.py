"""Reads results as polars frames, and with SQL over all tables through DuckDB.

By default, runs of earlier sources and of other cells are left out.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _extras
from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.results import manifest as manifests
from anabranch.results import selection as selecting
from anabranch.results import traces
from anabranch.results.selection import CURRENT, SOURCES, Selection
from anabranch.results.tables import EARLIER, TABLES, Tables, arranged, journals, without_strangers

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import polars

    from anabranch.results.manifest import Table


class LeftOutWarning(UserWarning):
    """A warning that a summary leaves out runs of earlier sources or of other cells."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """The part of a manifest that readers of results need, independent of the build that wrote it.

    Attributes
    ----------
    code
        The build that ran them; empty if it is not recorded.
    labels
        The columns that distinguish cells.
    notes
        Assumptions of the results.
    exact
        The cells without random draws. Each has one run, whatever the number of trials.
    """

    code: str
    labels: tuple[str, ...]
    notes: Mapping[str, str]
    exact: tuple[str, ...] = ()


class Reader:
    """A folder of results. Each file is read only once.

    Parameters
    ----------
    folder
        The results.

    Raises
    ------
    InputError
        If it is not a folder of results, has a later version, or its manifest is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = _found(folder)
        self.files = Tables(folder, self.found)

    @cached_property
    def selection(self) -> Selection:
        """The cells with their present inputs."""
        return selecting.select(self.found)

    @cached_property
    def _all(self) -> dict[str, polars.DataFrame]:
        """The tables that were read, with the rows of all runs."""
        return {}

    def all(self, table: str, *, earlier: bool = True) -> polars.DataFrame:
        """Return a table with the rows of all runs, from any sources.

        Raises
        ------
        InputError
            If it is damaged; for a damaged table of earlier runs only if these are requested.
        """
        import polars

        if table not in self._all:
            self.files.journal()
            own = self.files.frame(f"{table}.parquet")
            if own is None and table == TABLES[0] and not journals(self.folder) and self._has_runs():
                hint = "repeat the command that made the folder: it makes the table again"
                message = f"the table is missing: `{table}.parquet`"
                raise InputError([Fault(message=message, where=str(self.folder), hint=hint)])
            try:
                before = self.files.frame(f"{EARLIER}/{table}.parquet")
            except InputError:
                if earlier:
                    raise
                before = None
            self._all[table] = self.files.joined(table, [own, before])
        return self._all[table] if self._all[table].width else polars.DataFrame()

    def own(self) -> polars.DataFrame:
        """Return the runs in the folder's own table and journals, from any sources."""
        try:
            frame = self.files.frame(f"{TABLES[0]}.parquet")
        except InputError:
            frame = None
        return self.files.joined(TABLES[0], [frame])

    def _has_runs(self) -> bool:
        """Return whether the folder should have a table of runs."""
        return self.found["format"] != manifests.FORMAT or (self.folder / f"{TABLES[1]}.parquet").exists()

    def current(self, table: str, *, earlier: bool = False) -> polars.DataFrame:
        """Return the rows of a table of runs that have the present inputs.

        Parameters
        ----------
        table
            `runs` or `subflows`.
        earlier
            Return all rows, with the column `sources`.
        """
        import polars

        whole = self.all(table, earlier=earlier)
        if not whole.width:
            return whole
        of = polars.Series(SOURCES, self.selection.column(whole), dtype=polars.String)
        if earlier:
            named = arranged(whole, table, self.selection.cells).drop(SOURCES, strict=False)
            of = polars.Series(SOURCES, self.selection.column(named), dtype=polars.String)
            return named.insert_column(2, of)
        if (of == CURRENT).all():
            return arranged(whole, table, self.selection.cells)
        found = whole.filter(of == CURRENT)
        return arranged(without_strangers(found) if found.height else found, table, self.selection.cells)

    def left_out(self, shown_by: str = "--earlier") -> list[str]:
        """Return sentences about runs that are left out and files that are damaged.

        Parameters
        ----------
        shown_by
            The option or command that shows what is left out.
        """
        runs = self.all(TABLES[0], earlier=False)
        lines = list(selecting.sentences(self.selection, runs, shown_by)) if runs.width else []
        for fault in self.files.damage():
            place = fault.where if fault.line is None else f"{fault.where}, line {fault.line}"
            lines.append(f"{place}: {fault.message}: {fault.hint}")
        return lines

    def trace(self, table: str, *, earlier: bool = False) -> polars.DataFrame:
        """Return a table of the stored traces of the selected runs."""
        import polars

        parts = sorted((self.folder / traces.FOLDER).glob(f"*/{table}.parquet"))
        if not parts:
            known = {*TABLES, *(path.stem for path in (self.folder / traces.FOLDER).glob("*/*.parquet"))}
            hint = did_you_mean(table, known, otherwise="--keep TABLE keeps a table of the trace")
            raise InputError([Fault(message=f"no such table: `{table}`", where=str(self.folder), hint=hint)])
        runs = self.current(TABLES[0], earlier=earlier)
        names = ["identity", "cell", *([SOURCES] if earlier else [])]
        known_runs = (
            {f"{row[0]}-{row[1]}": row for row in runs.select(names).iter_rows()} if runs.width else {}
        )
        is_sealed = self.found["format"] == manifests.FORMAT
        frames = [
            traces.table(path, is_sealed=is_sealed).select(
                *(polars.lit(one).alias(name) for name, one in zip(names, row, strict=True)), polars.all()
            )
            for path in parts
            if (row := known_runs.get(path.parent.name)) is not None
        ]
        return polars.concat(frames, how="diagonal_relaxed") if frames else polars.DataFrame()


def _found(folder: Path) -> Table:
    """Return a manifest of any version in the present format."""
    found = manifests.parsed(folder)
    if found["format"] in (manifests.FORMAT, 2):
        return manifests.present(found, folder)
    said = found.get("cells")
    cells = [
        {
            "cell": str(cell.get("cell")),
            "scenario": "",
            "settings": {},
            "folder": "",
            "hash": "",
            "labels": own,
        }
        for cell in (said if isinstance(said, list) else [])
        if isinstance(cell, dict) and isinstance(own := cell.get("labels"), dict)
    ]
    notes = found.get("notes")
    return {
        "format": found["format"],
        "code": str(found.get("code", "")) or "unknown",
        "notes": notes if isinstance(notes, dict) else {},
        "cells": cells,
        "earlier": [],
    }


def made(folder: Path, *, earlier: bool = False) -> Made:
    """Return how the results in a folder were made, including those of other builds and earlier versions.

    Parameters
    ----------
    folder
        The results.
    earlier
        Include the labels of earlier cells, and that of the sources.

    Raises
    ------
    InputError
        If it is not a folder of results, has a later version, or its manifest is damaged.
    """
    found = _found(folder)
    notes: Mapping[str, Any] = found["notes"]
    cells = [*manifests.entries(found)] if earlier else found["cells"]
    return Made(
        code=found["code"],
        labels=(*manifests.labels(cells), *([SOURCES] if earlier else [])),
        notes={str(name): str(note) for name, note in notes.items()},
        exact=tuple(cell["cell"] for cell in manifests.entries(found) if cell.get("exact") is True),
    )


def rows(folder: Path, table: str = "runs", *, earlier: bool = False) -> polars.DataFrame:
    """Return the same as `load`, without warnings."""
    reader = Reader(folder)
    return reader.current(table, earlier=earlier) if table in TABLES else reader.trace(table, earlier=earlier)


def present_runs(folder: Path, table: str = "runs") -> polars.DataFrame:
    """Return the same as `rows`, and require at least one run.

    Raises
    ------
    InputError
        If the folder has runs, but none with the present inputs.
    """
    reader = Reader(folder)
    found = reader.current(TABLES[0])
    if not found.height and (count := reader.all(TABLES[0]).height):
        shown = f"`anabranch results {folder} --earlier` shows what is there"
        message = f"no run of the present inputs, but {count} of earlier sources or other cells"
        hint = f"repeat the command that made the folder; {shown}"
        raise InputError([Fault(message=message, where=str(folder), hint=hint)])
    return found if table == TABLES[0] else reader.current(table)


def all_runs(folder: Path) -> polars.DataFrame:
    """Return the runs of a folder from any sources. Those with the present inputs come first."""
    import polars

    reader = Reader(folder)
    whole = reader.current(TABLES[0], earlier=True)
    if not whole.width:
        return whole
    return whole.sort(polars.col(SOURCES) != CURRENT, maintain_order=True).drop(SOURCES)


def left_out(folder: Path, shown_by: str = "--earlier") -> list[str]:
    """Return sentences about runs that a summary leaves out, and about damaged files."""
    return Reader(folder).left_out(shown_by)


def warn(reader: Reader, *, stacklevel: int = 2) -> None:
    """Warn about runs that a summary leaves out, and about damaged files."""
    if sentences := reader.left_out("earlier=True"):
        warnings.warn("\n".join(sentences), LeftOutWarning, stacklevel=stacklevel)


def load(folder: str | Path, table: str = "runs", *, earlier: bool = False) -> polars.DataFrame:
    """Return a table of a folder of results, finished or not.

    Runs of earlier sources, of another build or of cells outside the last sweep are left out, with a
    `LeftOutWarning`.

    Parameters
    ----------
    folder
        The folder that `anabranch sweep` or `anabranch study run` wrote.
    table
        `runs` (one row for each run), `subflows` (one row for each subflow, in the order of establishment),
        or a table of a stored trace (`--keep samples`), which begins with the run's `identity`.
    earlier
        Return all runs of the folder, with the column `sources`: `current`, or a few digits for each earlier
        state of a cell's inputs.

    Returns
    -------
    polars.DataFrame
        One row a run, subflow or row of the trace; the suffix of a column's name is its unit.

    Raises
    ------
    InputError
        If the folder has no results or lacks this table, or if the table is damaged.

    Examples
    --------
    >>> import anabranch
    >>> anabranch.load("results/SD18").group_by("scheduler").mean()  # doctest: +SKIP
    """
    reader = Reader(Path(folder))
    found = (
        reader.current(table, earlier=earlier) if table in TABLES else reader.trace(table, earlier=earlier)
    )
    if not earlier:
        warn(reader, stacklevel=3)
    return found


def query(folder: str | Path, sql: str, *, earlier: bool = False) -> polars.DataFrame:
    """Return the answer to an SQL query over the tables of a folder of results (DuckDB's SQL).

    Parameters
    ----------
    folder
        The folder that `anabranch sweep` or `anabranch study run` wrote.
    sql
        One query that reads: `SELECT`, `FROM`, `WITH`, `DESCRIBE` or `SUMMARIZE`, over the tables `runs`,
        `subflows` and those of the traces that were kept.
    earlier
        As in `load`.

    Returns
    -------
    polars.DataFrame
        The rows of the answer.

    Raises
    ------
    InputError
        When the folder holds no results, the query would change something, or DuckDB refuses it.
    MissingError
        When DuckDB, which the extra `sql` installs, is missing.

    Examples
    --------
    >>> import anabranch
    >>> sql = "SELECT scheduler, avg(goodput_mbps) FROM runs GROUP BY scheduler"
    >>> anabranch.query("results/SD18", sql)  # doctest: +SKIP
    """
    reader = Reader(Path(folder))
    if not earlier:
        warn(reader, stacklevel=3)
    return asked(reader, sql, earlier=earlier)


def asked(reader: Reader, sql: str, *, earlier: bool = False) -> polars.DataFrame:
    """Return the answer to an SQL query without warnings; see `query`."""
    import tempfile

    _extras.need("duckdb", for_="SQL over results")
    import duckdb
    import polars

    kept = {path.stem for path in (reader.folder / traces.FOLDER).glob("*/*.parquet")} - {*TABLES}
    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as space:
        for table in (*TABLES, *sorted(kept)):
            frame = _wanted(reader, table, sql, earlier=earlier)
            if frame is not None and frame.width:
                file = Path(space) / f"{table}.parquet"
                frame.write_parquet(file)
                connection.read_parquet(str(file)).create(table)
        # A query can read the tables of the folder, but no other files.
        connection.execute("SET enable_external_access = false")
        try:
            _refuse_changes(sql)
            answer: duckdb.DuckDBPyRelation | None = connection.sql(sql)
            if answer is not None:
                rows, columns = _plain(answer).fetchall(), _distinct(answer.columns)
                return polars.DataFrame(rows, schema=columns, orient="row", strict=False)
        except duckdb.Error as error:
            raise InputError([_refused(error, connection, sql)]) from None
    raise _not_a_question(sql, "the query returns nothing")


def _refused(error: duckdb.Error, connection: duckdb.DuckDBPyConnection, sql: str) -> Fault:
    """Return DuckDB's error; if a column or a table does not exist, with those that do."""
    message = str(error).splitlines()[0]
    column = re.search(r'(?:Referenced column "([^"]+)" not found|column named "([^"]+)")', message)
    if column is None:
        return Fault(message=f"DuckDB: {message}", where=sql)
    name = column[1] or column[2]
    tables = [table for (table,) in connection.execute("SHOW TABLES").fetchall()]
    named = [table for table in tables if re.search(rf"\b{re.escape(table)}\b", sql)] or tables
    known = [row[0] for table in named for row in connection.execute(f'DESCRIBE "{table}"').fetchall()]
    hint = did_you_mean(name, sorted({*known}))
    return Fault(message=f"no such column: `{name}` in {' or '.join(named)}", where=sql, hint=hint)


def _wanted(reader: Reader, table: str, sql: str, *, earlier: bool) -> polars.DataFrame | None:
    """Return a table for a query; None if it is damaged and the query does not name it."""
    try:
        if table in TABLES:
            return reader.current(table, earlier=earlier)
        return reader.trace(table, earlier=earlier)
    except InputError:
        if table.lower() in sql.lower():
            raise
        return None


def _plain(answer: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return an answer with zoned times as text, because DuckDB needs another library for them."""
    zoned = ["WITH TIME ZONE" in str(kind) for kind in answer.types]
    if not any(zoned):
        return answer
    columns = (f"#{place}::VARCHAR" if zone else f"#{place}" for place, zone in enumerate(zoned, start=1))
    return answer.project(", ".join(columns))


def _distinct(names: list[str]) -> list[str]:
    """Return column names without duplicates, numbered as DuckDB does where needed."""
    found: list[str] = []
    for name in names:
        number = 0
        while (f"{name}_{number}" if number else name) in found:
            number += 1
        found.append(f"{name}_{number}" if number else name)
    return found


def _refuse_changes(sql: str) -> None:
    """Refuse everything except one reading query. Changes would be made to a copy and lost."""
    import duckdb

    asked = [statement.type for statement in duckdb.extract_statements(sql)]
    kinds = duckdb.StatementType
    # PIVOT becomes several statements.
    if len(asked) != 1 or asked[0] not in (kinds.SELECT, kinds.EXPLAIN, kinds.MULTI):
        found = ", ".join(one.name for one in asked) or "nothing"
        raise _not_a_question(sql, f"not one query that reads: {found}")


def _not_a_question(sql: str, message: str) -> InputError:
    """Return the error of a statement that is not a reading query."""
    hint = "results are only read: it should begin with SELECT, FROM, WITH, DESCRIBE or SUMMARIZE"
    return InputError([Fault(message=message, where=f"--sql {sql}".strip(), hint=hint)])
