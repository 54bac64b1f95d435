"""The folder of results: what is done stays done, whatever ends the program.

While runs go on each one that is done is a line of a journal, written out at once; when all are done
the journal becomes Parquet tables, sorted, so that they are the same bytes whoever ran what when.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, MissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

#: The form of the folder; another one is refused.
FORMAT = 1
MANIFEST = "manifest.json"
#: The tables that every run has rows in; the first one has a single row a run.
TABLES = ("runs", "subflows")

Row = dict[str, Any]
#: What a run leaves: its rows by table.
Rows = dict[str, list[Row]]


class Store:
    """A folder that runs are written to.

    Parameters
    ----------
    folder
        Where; made when it is not there.
    manifest
        What is run, with everything needed to run it again. A folder that holds the results of
        something else is refused.
    part
        Which journal to write: shards that run at one time have one each.

    Raises
    ------
    InputError
        When the folder cannot be used.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], *, part: str = "all") -> None:
        self.folder = folder
        self._journal = folder / f"journal-{part}.jsonl"
        _make(folder)
        text = json.dumps({"format": FORMAT, **manifest}, indent=1) + "\n"
        _agree(folder, text)
        with _writing(folder):
            _whole(folder / MANIFEST, text.encode())

    def done(self) -> set[str]:
        """Return the identities of the runs that need not be run again."""
        return {row["identity"] for row in stored(self.folder, "runs")}

    @contextmanager
    def writing(self) -> Iterator[_Journal]:
        """Open the journal for as long as runs come in.

        Raises
        ------
        InputError
            When another process writes to it.
        """
        with _writing(self.folder), self._journal.open("a+b") as file:
            _lock(file, self.folder)
            _mend(file)
            yield _Journal(self.folder, file)

    def finish(self, order: Mapping[str, int]) -> None:
        """Turn journals into tables.

        Parameters
        ----------
        order
            The place of each run by identity; what has none is of no interest any more.
        """
        import polars

        with _writing(self.folder):
            for table in TABLES:
                rows = [row for row in stored(self.folder, table) if row["identity"] in order]
                unique = _unique(rows, table)
                unique.sort(key=lambda row: order[row["identity"]])
                frame = polars.from_dicts(_even(unique), infer_schema_length=None) if unique else None
                if frame is not None:
                    part = self.folder / f"{table}.parquet.part"
                    frame.write_parquet(part, compression="zstd", statistics=True)
                    part.replace(self.folder / f"{table}.parquet")
            for journal in journals(self.folder):
                journal.unlink()


class _Journal:
    """An open journal."""

    def __init__(self, folder: Path, file: Any) -> None:  # noqa: ANN401 - a binary file
        self._folder = folder
        self._file = file

    def add(self, rows: Rows, traces: Mapping[str, bytes]) -> None:
        """Keep a run: its traces first, so that a run that counts as done has them.

        Parameters
        ----------
        rows
            Its rows by table; each has the run's `identity`.
        traces
            Parquet files by the table's name.
        """
        identity = rows["runs"][0]["identity"]
        if traces:
            folder = self._folder / "traces" / identity
            folder.mkdir(parents=True, exist_ok=True)
            for table, content in traces.items():
                _whole(folder / f"{table}.parquet", content)
        line = json.dumps(rows, separators=(",", ":"), allow_nan=False) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())


def journals(folder: Path) -> list[Path]:
    """Return the journals of a folder, in a fixed order."""
    return sorted(folder.glob("journal-*.jsonl"))


def stored(folder: Path, table: str) -> Iterator[Row]:
    """Yield the rows of a table, from the Parquet file and the journals."""
    import polars

    path = folder / f"{table}.parquet"
    if path.exists():
        yield from polars.read_parquet(path).iter_rows(named=True)
    for journal in journals(folder):
        with journal.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):  # else it was being written when the program ended
                    yield from json.loads(line)[table]


def manifest(folder: Path) -> dict[str, Any]:
    """Return a folder's manifest.

    Raises
    ------
    InputError
        When it is no folder of results, or one of another version.
    """
    try:
        found: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        form = found.get("format")
    except (OSError, ValueError, AttributeError):
        hint = "`anabranch sweep` and `anabranch study run` make them"
        raise InputError([Fault(message=f"no folder of results: `{folder}`", hint=hint)]) from None
    if form != FORMAT:
        message = f"results of another version: format {form}, this program reads {FORMAT}"
        raise InputError([Fault(message=message, where=str(folder), hint="run it anew into another folder")])
    return found


def _make(folder: Path) -> None:
    """Make the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder: {error.strerror or error}"
        raise InputError([Fault(message=message, where=str(folder))]) from None
    if any(folder.iterdir()) and not (folder / MANIFEST).exists():
        message = "the folder holds something else than results"
        raise InputError([Fault(message=message, where=str(folder), hint="name another one with --out")])


def _agree(folder: Path, text: str) -> None:
    """Refuse a folder with the results of something else."""
    if not (folder / MANIFEST).exists():
        return
    before, now = manifest(folder), json.loads(text)
    differ = sorted(key for key in {*before, *now} - {"trials", "folders"} if before.get(key) != now.get(key))
    if differ:
        message = f"the folder holds results of something else: {', '.join(differ)} differ"
        hint = "name another one with --out"
        if differ == ["code"]:
            message = "the folder holds results of another build of this program"
            hint += ", or remove it"
        raise InputError([Fault(message=message, where=str(folder), hint=hint)])


def _unique(rows: Sequence[Row], table: str) -> list[Row]:
    """Return rows without those that two shards both have."""
    if table == "runs":
        return list({row["identity"]: row for row in rows}.values())
    seen: dict[tuple[str, Any], Row] = {}
    for row in rows:
        seen[row["identity"], row.get("subflow")] = row
    return list(seen.values())


def _even(rows: Sequence[Row]) -> list[Row]:
    """Return rows that all have the same columns, in the order in which they first appear."""
    columns = dict.fromkeys(key for row in rows for key in row)
    floats = {key for row in rows for key, value in row.items() if isinstance(value, float)}
    return [
        {
            key: float(row[key]) if key in floats and row.get(key) is not None else row.get(key)
            for key in columns
        }
        for row in rows
    ]


def _whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


def _lock(file: Any, folder: Path) -> None:  # noqa: ANN401 - a binary file
    """Keep other processes from the journal until it is closed."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = "another process is writing to this folder"
        raise InputError([Fault(message=message, where=str(folder), hint="wait for it, or end it")]) from None


def _mend(file: Any) -> None:  # noqa: ANN401 - a binary file
    """Cut off a line that was being written when the program ended."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    whole = file.read().rfind(b"\n") + 1 if end else 0
    file.truncate(whole)
    file.seek(0, os.SEEK_END)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say in a sentence why the folder cannot be written to."""
    try:
        yield
    except OSError as error:
        message = f"cannot write to `{folder}`: {error.strerror or error}"
        raise MissingError(message, hint="what was done is kept: the same command goes on") from None
