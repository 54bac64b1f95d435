"""The folder of results. Finished runs are not lost, even if the program is killed.

Each finished run is written to a journal at once. When all runs are finished, the journals become sorted
Parquet tables. Their bytes do not depend on the order of the runs or on the process that made them.

There are two kinds of locks, so that shards may start and end at the same time. The folder is locked while
its manifest or its tables are written, or while a journal is opened. Each journal is locked while it is
written.

A journal is a file of sealed lines, and not a database. Shards on several machines write to one folder over a
network file system, where SQLite's write-ahead log does not work.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from anabranch.errors import Fault, InputError, MissingError
from anabranch.results import manifest as manifests
from anabranch.results import sealed, selection
from anabranch.results import traces as kept
from anabranch.results.manifest import FORMAT, MANIFEST
from anabranch.results.manifest import read as manifest
from anabranch.results.read import made
from anabranch.results.tables import (
    EARLIER,
    HEAD,
    TABLES,
    Key,
    Row,
    Rows,
    Tables,
    arranged,
    distinct,
    journals,
    key,
    places,
    read_journals,
    without_strangers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import polars

    from anabranch.results.manifest import Table

#: The files that this process has locked, until they are closed.
_LOCKED: WeakSet[Any] = WeakSet()

__all__ = [
    "FORMAT",
    "HEAD",
    "MANIFEST",
    "TABLES",
    "Key",
    "Row",
    "Rows",
    "Store",
    "journals",
    "key",
    "made",
    "manifest",
]

_LOCK = ".lock"
#: The files of a folder of results, except its manifest.
_OWN = ("runs.parquet", "subflows.parquet", sealed.SUMS, _LOCK)
_OWN_TOO = ("traces", EARLIER, "cost.json", "causes.jsonl")


class Store:
    """A folder to which runs are written.

    Runs of earlier sources, other cells or another build stay in the folder. A damaged table counts as
    missing, and its runs are repeated.

    Parameters
    ----------
    folder
        The folder, which is made if necessary.
    manifest
        The description of the runs, with everything needed to repeat them.
    part
        The name of the journal to write. Shards that run at the same time write different journals.

    Attributes
    ----------
    folder
        The folder.
    notes
        Sentences about damaged files.

    Raises
    ------
    InputError
        If the folder cannot be used, or another process writes runs of other cells to it.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], *, part: str = "all") -> None:
        self.folder = folder
        self._journal = folder / f"journal-{part}.jsonl"
        _make(folder)
        with _locked(folder):
            before, told = _before(folder)
            if before is not None and before.get("format") != FORMAT:
                before = _upgraded(folder, before)
            files = Tables(folder, before)
            self.notes = (
                *told,
                *(f"{_where(fault)}: {fault.message}; {_lost(fault)}" for fault in files.damage()),
            )
            found = manifests.merged(before, manifest)
            self._selection = manifests.selection(found)
            if before is not None and manifests.selection(before) != self._selection:
                _refuse_other_writers(folder)
            found["tables"] = {file: sorted(sums) for file, sums in files.sums().items() if sums}
            sealed.whole(folder / MANIFEST, manifests.text(found))

    def tables(self) -> Tables:
        """Read the state of the folder's files as they are now."""
        return Tables(self.folder, manifests.read(self.folder))

    def done(self, keep: Collection[str] = ()) -> set[Key]:
        """Return the runs that are complete.

        Parameters
        ----------
        keep
            The tables that must be kept of a run's trace.
        """
        files = self.tables()
        frame = files.rows_of(TABLES[0])
        known = set() if frame is None else set(frame.select("cell", "identity").iter_rows())
        known -= files.partial(manifests.read(self.folder))
        return {one for one in known if not keep or kept.has(self.folder, one, keep)}

    @contextmanager
    def writing(self) -> Iterator[_Journal]:
        """Open the journal for as long as runs come in.

        Raises
        ------
        InputError
            When another process writes to it.
        """
        # If the disk is full, closing a journal fails like writing to it.
        with _writing(self.folder), ExitStack() as stack:
            with _locked(self.folder):
                file = stack.enter_context(self._journal.open("a+b"))
                is_mine = manifests.selection(manifests.read(self.folder)) == self._selection
                if not is_mine or not _try_lock(file):
                    raise _busy(self.folder)
                _mend(file)
            yield _Journal(self.folder, file)

    def finish(self) -> bool:
        """Convert the journals to tables; return False if another process still writes one."""
        with _locked(self.folder), _writing(self.folder), ExitStack() as stack:
            read = journals(self.folder)
            for journal in read:
                if not _try_lock(stack.enter_context(journal.open("rb"))):
                    return False
            found = manifests.read(self.folder)
            files = Tables(self.folder, found)
            made_for = manifests.selection(found)
            if not read and found.get("made_for") == made_for and not files.damage():
                return True  # the tables contain all runs
            _write(self.folder, {**found, "made_for": made_for}, files)
            for journal in read:
                journal.unlink()
        return True


def _write(folder: Path, found: Table, files: Tables) -> None:
    """Write the tables of the last sweep and the earlier ones. No run is lost if this is interrupted."""
    import polars

    now = selection.recorded(found)
    old = files.sums()
    made: dict[str, bytes] = {}
    # If one of the two earlier tables is damaged, the rows of the other one are kept.
    half = {} if files.pair(EARLIER) else files.sound(EARLIER)
    for table in TABLES:
        whole = files.rows_of(table)
        # An earlier run stays in the earlier tables: an interrupt between two files loses no run.
        before = files.pair(EARLIER).get(table, half.get(table))
        others = [] if before is None else [before]
        if whole is not None:
            mine = polars.Series(now.column(whole)) == selection.CURRENT
            own = without_strangers(whole.filter(mine)) if not mine.all() else whole
            if own.height or table != TABLES[0]:
                made[f"{table}.parquet"] = _bytes(arranged(own, table, now.cells))
            others.insert(0, whole.filter(~mine))
        left = (
            distinct(polars.concat(others, how="diagonal_relaxed"), table) if others else polars.DataFrame()
        )
        if left.height:
            made[f"{EARLIER}/{table}.parquet"] = _bytes(arranged(left, table, now.cells))
    found = {**found, **_partial(found, files, half)}
    sums = {file: sealed.digest(content) for file, content in made.items()}
    either = {file: sorted({*old.get(file, ()), one}) for file, one in sums.items()}
    sealed.whole(folder / MANIFEST, manifests.text({**found, "tables": either}))
    for file in sorted(made, key=lambda file: not file.startswith(EARLIER)):
        (folder / file).parent.mkdir(exist_ok=True)
        sealed.whole(folder / file, made[file])
    for *_, file in places():
        if file not in made:
            (folder / file).unlink(missing_ok=True)
    sealed.write_sums(folder, sums)
    sealed.whole(
        folder / MANIFEST, manifests.text({**found, "tables": {file: [one] for file, one in sums.items()}})
    )


def _partial(found: Table, files: Tables, half: Mapping[str, polars.DataFrame]) -> Table:
    """Return the part of a manifest that lists earlier runs whose rows in a table are lost.

    Such a run is shown among the earlier runs, and is run again if a sweep wants it.
    """
    whole = files.rows_of(TABLES[0])
    sound = set() if whole is None else set(whole.select("cell", "identity").iter_rows())
    lost = {one for frame in half.values() for one in frame.select("cell", "identity").iter_rows()} - sound
    partial = sorted(files.partial(found) | lost)
    return {"partial": [list(one) for one in partial]} if partial or "partial" in found else {}


def _bytes(frame: polars.DataFrame) -> bytes:
    """Return the bytes of a table's Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=True)
    return buffer.getvalue()


class _Journal:
    """An open journal."""

    def __init__(self, folder: Path, file: Any) -> None:  # noqa: ANN401 - a binary file
        self._folder = folder
        self._file = file

    def add(self, rows: Rows, traces: Mapping[str, bytes]) -> None:
        """Store a run. Its traces are written first, so that every run in the journal has them.

        Parameters
        ----------
        rows
            Its rows by table; each begins with `HEAD`.
        traces
            Parquet files by the table's name.
        """
        if traces:
            kept.keep(self._folder, key(rows["runs"][0]), traces)
        self._file.write(sealed.line(json.dumps(rows, separators=(",", ":"), allow_nan=False).encode()))
        self._file.flush()
        os.fsync(self._file.fileno())


def _before(folder: Path) -> tuple[Table | None, tuple[str, ...]]:
    """Return the folder's manifest and its faults. Raises an error if the folder has other contents."""
    if not (folder / MANIFEST).exists():
        return None, ((f"{folder / MANIFEST}: missing, and written again",) if _has_results(folder) else ())
    try:
        found = manifests.parsed(folder)
        if found["format"] == FORMAT:
            found = manifests.read(folder)
        else:
            manifests.read(folder)
    except manifests.DamagedError as error:
        if not _has_results(folder):
            raise
        return None, tuple(f"{fault.where}: {fault.message}: written again" for fault in error.faults)
    return found, ()


def _has_results(folder: Path) -> bool:
    """Return whether a folder has runs, or only files of results. With runs, other files are allowed."""
    names = {path.name for path in folder.iterdir() if path.suffix != ".part"} - {MANIFEST, _LOCK}
    runs = f"{TABLES[0]}.parquet"
    if runs in names or journals(folder) or runs in sealed.sums(folder):
        return True
    return bool(names) and names <= {*_OWN, *_OWN_TOO}


def _upgraded(folder: Path, before: Table) -> Table:
    """Add checksums to the files of a folder of version 2, and return its manifest in the present format."""
    for journal in journals(folder):
        lines, faults = read_journals(folder, is_sealed=False, only=journal)
        if faults and read_journals(folder, is_sealed=True, only=journal)[0]:
            continue  # its records have checksums already
        sealed.whole(journal, b"".join(sealed.line(json.dumps(rows).encode()) for rows in lines))
    for place in sorted((folder / "traces").glob("*/")):
        kept.add_sums(place)
    found = manifests.read(folder)
    files = Tables(folder, before)
    files.damage()
    return {**found, "format": FORMAT, "tables": {file: sorted(sums) for file, sums in files.sums().items()}}


def _lost(fault: Fault) -> str:
    """Return a sentence on how a sweep handles a damaged file."""
    is_earlier = fault.where is not None and EARLIER in Path(fault.where).parts[-2:]
    return "these rows of earlier runs are lost" if is_earlier else "its runs are made again"


def _where(fault: Fault) -> str:
    """Return the file of a fault, with its line."""
    return fault.where if fault.line is None else f"{fault.where}, line {fault.line}"


def _make(folder: Path) -> None:
    """Make the folder, or refuse an existing one with other contents."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [path for path in folder.iterdir() if path.name != _LOCK and path.suffix != ".part"]
    except OSError as error:
        message = f"cannot make the folder: {error.strerror or error}"
        raise InputError([Fault(message=message, where=str(folder))]) from None
    if others and not (folder / MANIFEST).exists() and not _has_results(folder):
        message = "the folder holds something else than results"
        raise InputError([Fault(message=message, where=str(folder), hint="name another one with --out")])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder for the block."""
    import fcntl

    with _writing(folder), (folder / _LOCK).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _try_lock(file: Any) -> bool:  # noqa: ANN401 - a binary file
    """Lock a journal until it is closed. Return False if another process has locked it."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    _LOCKED.add(file)
    return True


def _close_locked() -> None:
    """Close the locked files in a forked worker, which would otherwise hold the locks of a killed program.

    The descriptors stay valid. Buffered data is left to the program.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in _LOCKED:
        if not file.closed:
            os.dup2(nothing, file.fileno())
    os.close(nothing)


os.register_at_fork(after_in_child=_close_locked)


def _refuse_other_writers(folder: Path) -> None:
    """Refuse to replace the manifest while another sweep writes its runs.

    Shards of one sweep have one selection of cells, so they may start at any time.

    Raises
    ------
    InputError
        When another process writes a journal.
    """
    for journal in journals(folder):
        with journal.open("rb") as file:
            if not _try_lock(file):
                raise _busy(folder)


def _busy(folder: Path) -> InputError:
    """Return the error for a folder to which another sweep, or another process of this sweep, writes."""
    message = "another process is writing to this folder"
    return InputError([Fault(message=message, where=str(folder), hint="wait for it, or end it")])


def _mend(file: Any) -> None:  # noqa: ANN401 - a binary file
    """Cut off an incomplete last line, which a killed program left."""
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
    """Turn errors into a sentence with the reason why the folder cannot be written to."""
    try:
        yield
    except OSError as error:
        message = f"cannot write to `{folder}`: {error.strerror or error}"
        raise MissingError(message, hint="finished runs are kept: repeat the command to go on") from None
