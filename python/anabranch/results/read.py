"""Reading results: frames of polars, and SQL over all tables through DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.results import store

if TYPE_CHECKING:
    import duckdb
    import polars


def load(folder: str | Path, table: str = "runs") -> polars.DataFrame:
    """Return a table of a folder of results, finished or not.

    Parameters
    ----------
    folder
        What `anabranch sweep` or `anabranch study run` wrote.
    table
        `runs` (a row a run), `subflows` (a row a subflow), or a table of the trace that was kept
        (`--keep samples`), with the run's `identity` in front.

    Returns
    -------
    polars.DataFrame
        One row a run, subflow or row of the trace; the suffix of a column's name is its unit.

    Raises
    ------
    InputError
        When the folder holds no results, or does not have this table.

    Examples
    --------
    >>> import anabranch
    >>> anabranch.load("results/SD18").group_by("scheduler").mean()  # doctest: +SKIP
    """
    import polars

    folder = Path(folder)
    store.made(folder)
    if table in store.TABLES:
        if not store.journals(folder) and (folder / f"{table}.parquet").exists():
            return store.parquet(folder / f"{table}.parquet")
        if not store.journals(folder) and table == store.TABLES[0]:
            hint = "put it back, or repeat the command, which runs everything again"
            raise InputError(
                [Fault(message=f"the table is missing: `{table}.parquet`", where=str(folder), hint=hint)]
            )
        rows = list(store.stored(folder, table))
        return polars.from_dicts(rows, infer_schema_length=None) if rows else polars.DataFrame()
    parts = sorted((folder / "traces").glob(f"*/{table}.parquet"))
    if not parts:
        known = {*store.TABLES, *(path.stem for path in (folder / "traces").glob("*/*.parquet"))}
        hint = did_you_mean(table, known, otherwise="--keep TABLE keeps a table of the trace")
        raise InputError([Fault(message=f"no such table: `{table}`", where=str(folder), hint=hint)])
    frames = [
        store.parquet(path).select(
            polars.lit(path.parent.name.partition("-")[0]).alias("identity"),
            polars.lit(path.parent.name.partition("-")[2]).alias("cell"),
            polars.all(),
        )
        for path in parts
    ]
    return polars.concat(frames, how="diagonal_relaxed")


def query(folder: str | Path, sql: str) -> polars.DataFrame:
    """Return the answer to an SQL query over the tables of a folder of results (DuckDB's SQL).

    Parameters
    ----------
    folder
        What `anabranch sweep` or `anabranch study run` wrote.
    sql
        One query that reads: `SELECT`, `FROM`, `WITH`, `DESCRIBE` or `SUMMARIZE`, over the tables `runs`,
        `subflows` and those of the traces that were kept.

    Returns
    -------
    polars.DataFrame
        The rows of the answer.

    Raises
    ------
    InputError
        When the folder holds no results, the query would change something, or DuckDB refuses it.

    Examples
    --------
    >>> import anabranch
    >>> sql = "SELECT scheduler, avg(goodput_mbps) FROM runs GROUP BY scheduler"
    >>> anabranch.query("results/SD18", sql)  # doctest: +SKIP
    """
    import tempfile

    import duckdb
    import polars

    folder = Path(folder)
    kept = {path.stem for path in (folder / "traces").glob("*/*.parquet")} - {*store.TABLES}
    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as space:
        for table in (*store.TABLES, *sorted(kept)):
            frame = load(folder, table)
            if frame.width:
                file = Path(space) / f"{table}.parquet"
                frame.write_parquet(file)
                connection.read_parquet(str(file)).create(table)
        # A query reads what is here, and nothing else of the machine.
        connection.execute("SET enable_external_access = false")
        try:
            _refuse_changes(sql)
            answer: duckdb.DuckDBPyRelation | None = connection.sql(sql)
            if answer is not None:
                rows, columns = _plain(answer).fetchall(), _distinct(answer.columns)
                return polars.DataFrame(rows, schema=columns, orient="row", strict=False)
        except duckdb.Error as error:
            message = str(error).splitlines()[0]
            raise InputError([Fault(message=f"DuckDB: {message}", where=sql)]) from None
    raise _not_a_question(sql, "the query returns nothing")


def _plain(answer: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return an answer with times of a zone as text, for which DuckDB would want another library."""
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
    """Refuse anything but one reading query: changes would be made to a copy, and be lost."""
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
