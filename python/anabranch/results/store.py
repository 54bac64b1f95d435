"""The folder of results: finished runs are never lost, whatever ends the program.

Each finished run becomes a line of a journal, written out at once. When all runs are finished, the
journals become sorted Parquet tables, whose bytes do not depend on who ran what, or when.

Three things are locked, so that shards may start and end together: the folder for as long as its
manifest, a journal's opening or the tables take, and each journal for as long as it is written.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, MissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import polars

#: The version of the folder's form; a folder of another one is refused.
FORMAT = 2
MANIFEST = "manifest.json"
#: The tables that every run has rows in; the first one has a single row a run.
TABLES = ("runs", "subflows")
#: The columns that every row begins with; the labels of its cell follow the second one.
HEAD = ("identity", "cell", "scenario", "scheduler", "congestion", "seed", "run")

_LOCK = ".lock"
#: The number of rows that become a frame at a time, so that memory does not grow with the number of runs.
_CHUNK = 5_000

Row = dict[str, Any]
#: What a run leaves: its rows by table.
Rows = dict[str, list[Row]]
#: A run of a cell.
Key = tuple[str, str]


class Store:
    """A folder that runs are written to.

    Parameters
    ----------
    folder
        Where; made when it is not there.
    manifest
        The description of the runs, with everything needed to repeat them. A folder with results of
        something else is refused; one with fewer or more trials is continued.
    part
        The name of the journal to write: shards that run at the same time have one each.

    Raises
    ------
    InputError
        When the folder cannot be used.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], *, part: str = "all") -> None:
        self.folder = folder
        self._journal = folder / f"journal-{part}.jsonl"
        self._cells = {cell["cell"]: place for place, cell in enumerate(manifest["cells"])}
        _make(folder)
        with _locked(folder):
            before = _agreed(folder, {"format": FORMAT, **manifest})
            trials = max(manifest["trials"], before.get("trials", 0))
            whole = {"format": FORMAT, **manifest, "trials": trials}
            _whole(folder / MANIFEST, (json.dumps(whole, indent=1) + "\n").encode())

    def done(self) -> set[Key]:
        """Return the runs that need not be run again."""
        return {key(row) for row in stored(self.folder, "runs")}

    @contextmanager
    def writing(self) -> Iterator[_Journal]:
        """Open the journal for as long as runs come in.

        Raises
        ------
        InputError
            When another process writes to it.
        """
        with ExitStack() as stack:
            with _locked(self.folder), _writing(self.folder):
                file = stack.enter_context(self._journal.open("a+b"))
                if not _try_lock(file):
                    message = "another process is writing to this folder"
                    hint = "wait for it, or end it"
                    raise InputError([Fault(message=message, where=str(self.folder), hint=hint)])
                _mend(file)
            with _writing(self.folder):
                yield _Journal(self.folder, file)

    def finish(self) -> bool:
        """Turn journals into tables; False when another process still writes one, and will do it."""
        with _locked(self.folder), _writing(self.folder), ExitStack() as stack:
            read = journals(self.folder)
            if not read:  # the tables have everything
                return True
            for journal in read:
                if not _try_lock(stack.enter_context(journal.open("rb"))):
                    return False
            for table in TABLES:
                frame = _frame(self.folder, table, self._cells)
                if frame is not None:
                    part = self.folder / f"{table}.parquet.{os.getpid()}.part"
                    frame.write_parquet(part, compression="zstd", statistics=True)
                    _settle(part)
                    part.replace(self.folder / f"{table}.parquet")
            for journal in read:
                journal.unlink()
        return True


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
            Its rows by table; each begins with `HEAD`.
        traces
            Parquet files by the table's name.
        """
        if traces:
            folder = trace_folder(self._folder, rows["runs"][0])
            folder.mkdir(parents=True, exist_ok=True)
            for table, content in traces.items():
                _whole(folder / f"{table}.parquet", content)
        line = json.dumps(rows, separators=(",", ":"), allow_nan=False) + "\n"
        self._file.write(line.encode())
        self._file.flush()
        os.fsync(self._file.fileno())


def key(row: Row) -> Key:
    """Return which run of which cell a row is of."""
    return row["cell"], row["identity"]


def trace_folder(folder: Path, row: Row) -> Path:
    """Return where the tables of a run's trace are kept."""
    return folder / "traces" / f"{row['identity']}-{row['cell']}"


def journals(folder: Path) -> list[Path]:
    """Return the journals of a folder, in a fixed order."""
    return sorted(folder.glob("journal-*.jsonl"))


def stored(folder: Path, table: str) -> Iterator[Row]:
    """Yield the rows of a table, from the Parquet file and the journals.

    Raises
    ------
    InputError
        When a file is damaged.
    """
    path = folder / f"{table}.parquet"
    if path.exists():
        yield from parquet(path).iter_rows(named=True)
    for journal in journals(folder):
        with journal.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):  # else it was being written when the program ended
                    yield from _parsed(line, table, journal, number)


def _parsed(line: bytes, table: str, journal: Path, number: int) -> list[Row]:
    """Return the rows of a journal's line."""
    try:
        rows: list[Row] = json.loads(line)[table]
        if all(isinstance(row, dict) and all(name in row for name in HEAD) for row in rows):
            return rows
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    hint = "remove the line: its run is made again"
    raise InputError([Fault(message="not a line of a journal", where=str(journal), line=number, hint=hint)])


def parquet(path: Path) -> polars.DataFrame:
    """Return a Parquet file of a folder of results.

    Raises
    ------
    InputError
        When it is damaged.
    """
    import polars

    try:
        return polars.read_parquet(path)
    except PermissionError as error:
        message = f"cannot read the results: {error.strerror or 'Permission denied'}"
        raise InputError([Fault(message=message, where=str(path))]) from None
    except (polars.exceptions.PolarsError, OSError) as error:
        message = f"not a Parquet file: {str(error).splitlines()[0]}"
        hint = "remove it: the same command makes its runs again"
        raise InputError([Fault(message=message, where=str(path), hint=hint)]) from None


@dataclass(frozen=True, kw_only=True)
class Made:
    """The part of a manifest that readers of results need, whatever build wrote it.

    Attributes
    ----------
    code
        The build that made them; empty when it does not say.
    labels
        The columns that distinguish cells.
    notes
        Assumptions that they rest on.
    exact
        The cells that draw nothing: each has one run, whatever the number of trials.
    """

    code: str
    labels: tuple[str, ...]
    notes: Mapping[str, str]
    exact: tuple[str, ...] = ()


def made(folder: Path) -> Made:
    """Return how the results in a folder were made, also for those of other builds and earlier versions.

    Raises
    ------
    InputError
        When it is no folder of results, one of a later version, or its manifest is damaged.
    """
    found = _said(folder)
    if found["format"] == FORMAT:
        found = manifest(folder)
    said = found.get("cells")
    cells = [cell for cell in said if isinstance(cell, dict)] if isinstance(said, list) else []
    labels = [cell.get("labels") for cell in cells]
    notes = found.get("notes")
    return Made(
        code=str(found.get("code", "")),
        labels=tuple(dict.fromkeys(str(key) for one in labels if isinstance(one, dict) for key in one)),
        notes={str(name): str(note) for name, note in notes.items()} if isinstance(notes, dict) else {},
        exact=tuple(str(cell.get("cell")) for cell in cells if cell.get("exact") is True),
    )


def _said(folder: Path) -> dict[str, Any]:
    """Return what a manifest says, of whatever version it is."""
    file = folder / MANIFEST
    try:
        if not file.exists():
            hint = "`anabranch sweep` and `anabranch study run` make them"
            raise InputError([Fault(message=f"no folder of results: `{folder}`", hint=hint)])
        found = json.loads(file.read_text(encoding="utf-8"))
    except PermissionError as error:
        message = f"cannot read the results: {error.strerror}"
        raise InputError([Fault(message=message, where=str(file))]) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"no JSON: {str(error)[:1].lower()}{str(error)[1:]}"
        raise _unreadable(file, reason) from None
    if not isinstance(found, dict) or "format" not in found:
        raise _unreadable(file, "it says no `format`")
    form = found["format"]
    if isinstance(form, int) and form > FORMAT:
        message = f"results of a later version of this program: format {form}, this one reads up to {FORMAT}"
        raise InputError([Fault(message=message, where=str(file), hint="use that version")])
    return found


def _unreadable(file: Path, reason: str) -> InputError:
    """Return the error of a manifest that says nothing."""
    hint = "put it back, or run again into another folder"
    return InputError([Fault(message=f"cannot read the manifest: {reason}", where=str(file), hint=hint)])


def manifest(folder: Path) -> dict[str, Any]:
    """Return a folder's manifest.

    Raises
    ------
    InputError
        When it is no folder of results, or one of another version.
    """
    found = _said(folder)
    form = found["format"]
    if form != FORMAT:
        message = f"results of another version: format {form!r}, this program adds to {FORMAT}"
        hint = f"`anabranch results {folder}` shows them; run again into another folder"
        raise InputError([Fault(message=message, where=str(folder), hint=hint)])
    if not _sound(found):
        hint = "run again into another folder"
        raise InputError(
            [Fault(message="a manifest with parts missing", where=str(folder / MANIFEST), hint=hint)]
        )
    return found


def _sound(found: Mapping[str, Any]) -> bool:
    """Tell whether a manifest has what is read of it."""
    kinds = {"code": str, "trials": int, "keep": list, "notes": dict, "scenarios": dict, "folders": dict}
    cells = found.get("cells")
    return (
        all(isinstance(found.get(name), kind) for name, kind in kinds.items())
        and isinstance(cells, list)
        and all(
            isinstance(cell, dict)
            and isinstance(cell.get("labels"), dict)
            and isinstance(cell.get("settings"), dict)
            and isinstance(cell.get("cell"), str)
            and cell.get("scenario") in found["scenarios"]
            and cell.get("scenario") in found["folders"]
            for cell in cells
        )
    )


def _frame(folder: Path, table: str, cells: Mapping[str, int]) -> polars.DataFrame | None:
    """Return a table's rows, each run once, in the order of cells and runs."""
    import polars

    frames: list[polars.DataFrame] = []
    chunk: list[Row] = []
    seen: set[tuple[Any, ...]] = set()

    def close() -> None:
        if chunk:
            frames.append(polars.from_dicts(chunk, infer_schema_length=None))
            chunk.clear()

    for row in stored(folder, table):
        name = (*key(row), row.get("subflow"))
        if name not in seen and row["cell"] in cells:
            seen.add(name)
            chunk.append(row)
            if len(chunk) == _CHUNK:
                close()
    close()
    if not frames:
        return None
    whole = polars.concat(frames, how="diagonal_relaxed")
    place = polars.col("cell").replace_strict(cells, return_dtype=polars.Int64)
    order = [place.alias("_place"), *([polars.col("subflow").alias("_subflow")] if table != "runs" else [])]
    by = ["_place", "run", *(["_subflow"] if table != "runs" else [])]
    return whole.with_columns(order).sort(by, maintain_order=True).select(_columns(whole.columns))


def _columns(names: Sequence[str]) -> list[str]:
    """Return columns in an order that does not depend on which row came first."""
    first = [name for name in HEAD if name in names]
    labels = sorted(name for name in names if "." in name or name in ("row", "varied"))
    labels = [name for name in labels if not name.startswith("frames.")]
    last = ["digest"] if "digest" in names else []
    rest = sorted(set(names) - {*first, *labels, *last})
    return [*first[:2], *labels, *first[2:], *rest, *last]


def _make(folder: Path) -> None:
    """Make the folder, and refuse one with something else in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [path for path in folder.iterdir() if path.name != _LOCK and path.suffix != ".part"]
    except OSError as error:
        message = f"cannot make the folder: {error.strerror or error}"
        raise InputError([Fault(message=message, where=str(folder))]) from None
    if others and not (folder / MANIFEST).exists():
        message = "the folder holds something else than results"
        raise InputError([Fault(message=message, where=str(folder), hint="name another one with --out")])


def _agreed(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest that is there, and refuse a folder with the results of something else."""
    if not (folder / MANIFEST).exists():
        return {}
    before, now = manifest(folder), json.loads(json.dumps(wanted))
    differ = sorted(
        name for name in {*before, *now} - {"trials", "folders"} if before.get(name) != now.get(name)
    )
    if differ:
        message = f"the folder holds results of something else: {', '.join(differ)} differ"
        hint = "name another one with --out"
        if differ == ["code"]:
            message = "the folder holds results of another build of this program"
            hint += f", or remove it; `anabranch results {folder}` shows what is there"
        raise InputError([Fault(message=message, where=str(folder), hint=hint)])
    return before


def _whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    _settle(part)
    part.replace(path)


def _settle(path: Path) -> None:
    """Have a file on the disk before anything counts on it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Have the folder to ourselves for a moment."""
    import fcntl

    with _writing(folder), (folder / _LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _try_lock(file: Any) -> bool:  # noqa: ANN401 - a binary file
    """Keep other processes from a journal until it is closed; False when one has it."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _mend(file: Any) -> None:  # noqa: ANN401 - a binary file
    """Cut off a line that was being written when the program ended."""
    end = file.seek(0, os.SEEK_END)
    begin = end
    while begin > 0:
        begin = max(begin - 65_536, 0)
        file.seek(begin)
        newline = file.read(min(65_536, end - begin)).rfind(b"\n")
        if newline >= 0:
            file.truncate(begin + newline + 1)
            break
    else:
        file.truncate(0)
    file.seek(0, os.SEEK_END)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say in a sentence why the folder cannot be written to."""
    try:
        yield
    except OSError as error:
        message = f"cannot write to `{folder}`: {error.strerror or error}"
        raise MissingError(message, hint="finished runs are kept: repeat the command to go on") from None
