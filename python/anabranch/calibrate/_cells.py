"""Reading tables of measurements cell by cell, with file, line and column of every fault."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.calibrate import _columns
from anabranch.errors import Fault, did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_NUMBER = re.compile(r"\d")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table.

    Attributes
    ----------
    where
        The file, as shown in messages.
    line
        Line in the file, from 1.
    cells
        Text by column.
    faults
        Receives the faults.
    """

    where: str
    line: int
    cells: dict[str, str]
    faults: list[Fault] = field(repr=False)

    def fault(self, column: str, message: str, hint: str = "") -> None:
        """Report a fault of a cell."""
        self.faults.append(Fault(message=message, where=self.where, line=self.line, key=column, hint=hint))

    def text(self, column: str) -> str:
        """Return a cell's text. A missing column counts as empty."""
        return self.cells.get(column, "")

    def word(self, column: str, known: Iterable[str], noun: str) -> str | None:
        """Return a cell that must be one of some names."""
        value, valid = self.text(column), list(known)
        if value in valid:
            return value
        self.fault(column, f"unknown {noun}: `{value}`", did_you_mean(value, valid))
        return None

    def has(self, column: str) -> bool:
        """Return whether a cell has text."""
        return bool(self.text(column).strip())

    def number_or(
        self, column: str, default: float, *, least: float = 0.0, below: float = math.inf
    ) -> float | None:
        """Return a cell as a number, or the default if the cell is empty."""
        return self.number(column, least=least, below=below) if self.has(column) else default

    def number(self, column: str, *, least: float = 0.0, below: float = math.inf) -> float | None:
        """Return a cell as a number from `least` up to but not including `below`."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            self.fault(column, f"not a number: `{text}`")
            return None
        if not (math.isfinite(value) and least <= value < below):
            bounds = f"at least {least:g}" + (f" and below {below:g}" if math.isfinite(below) else "")
            self.fault(column, f"out of range: `{text}`", bounds)
            return None
        return value


def header(path: Path, where: str, faults: list[Fault]) -> list[str]:
    """Return the columns of a CSV file.

    If the file cannot be read, return none and add the fault to `faults`.
    """
    text = _text(path, where, faults)
    try:
        return next(csv.reader(io.StringIO(text or "", newline=""), strict=True), [])
    except csv.Error as error:
        faults.append(Fault(message=f"not a CSV table: {error}", where=where, line=1))
        return []


def rows(
    path: Path,
    where: str,
    required: Sequence[str],
    faults: list[Fault],
    *,
    known: Sequence[str] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a CSV file, plain or gzipped. Faults are added to `faults`.

    A table without one of its required columns yields nothing: each row would only repeat the fault.

    Parameters
    ----------
    path, where
        The file, and its name for a person.
    required
        Columns that it must have.
    faults
        Receives the faults.
    known
        Columns that it may have, `#` for a path's number; None is any.
    """
    text = _text(path, where, faults)
    if text is None:
        return
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        header = list(reader.fieldnames or ())
        if not header:
            faults.append(Fault(message="an empty file", where=where))
            return
        if missing := [column for column in required if column not in header]:
            faults.extend(_missing(column, header, required, where) for column in missing)
            return
        if known is not None:
            faults.extend(_columns.unknown(header, known, where))
        found = 0
        for cells in reader:
            found += 1
            extra, short = cells.pop(None, None), [key for key, value in cells.items() if value is None]
            if extra is not None or short:
                count = len(header) - len(short) + len(extra or ())
                message = f"{count} cells in a table of {len(header)} columns"
                faults.append(Fault(message=message, where=where, line=reader.line_num))
                continue
            yield Row(where=where, line=reader.line_num, cells=cells, faults=faults)
        if not found:
            faults.append(Fault(message="a table without rows", where=where))
    except csv.Error as error:
        # The line number of the inner reader is used, because the outer reader counts a row only when it is
        # complete.
        line = reader.reader.line_num
        faults.append(Fault(message=f"not a CSV table: {error}", where=where, line=line))


def _text(path: Path, where: str, faults: list[Fault]) -> str | None:
    """Return a file's text, or None and the fault."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except FileNotFoundError:
        faults.append(Fault(message=f"no such file: `{where}`"))
    except UnicodeDecodeError:
        faults.append(Fault(message="not UTF-8 text", where=where))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        faults.append(Fault(message="not a whole gzip file", where=where))
    except OSError as error:
        faults.append(Fault(message=f"cannot read the table: {error.strerror or error}", where=where))
    return None


def _missing(column: str, header: Sequence[str], required: Sequence[str], where: str) -> Fault:
    """Return the fault of a missing column, with the nearest column that exists."""
    # A column of another path is not offered as the correct spelling.
    known = {_NUMBER.sub("#", name) for name in required}
    spare = nearest(column, [name for name in header if _NUMBER.sub("#", name) not in known])
    hint = f"is it the column `{spare}`?" if spare else ""
    return Fault(message=f"missing column: `{column}`", where=where, line=1, key=column, hint=hint)
