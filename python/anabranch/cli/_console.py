"""Output for people: tables to stdout, notes and progress to stderr, faults as exit codes."""

from __future__ import annotations

import functools
import inspect
import os
import re
import shlex
import shutil
import sys
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TextIO, TypeVar

import typer

from anabranch.errors import DefectError, Fault, InputError, MissingError, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

P = ParamSpec("P")
R = TypeVar("R")

EXPECTATION_FAILED = 1
BAD_INPUT = 2
UNREACHED = 3
MISSING = 4
DEFECT = 70
INTERRUPTED = 130
UNREAD = 141

_EXAMPLE = re.compile(r"^  anabranch ", re.MULTILINE)
#: The variable that makes a defect of the program show its traceback.
_TRACEBACK = "ANABRANCH_TRACEBACK"


def out(text: str = "") -> None:
    """Write a line of data."""
    if sys.stdout is None:
        message = "cannot write the output: it is closed"
        raise MissingError(message, hint="leave stdout open")
    try:
        typer.echo(text)
    except BrokenPipeError:
        _drop(sys.stdout)
        raise typer.Exit(UNREAD) from None
    except OSError as error:
        _drop(sys.stdout)
        raise unwritten(error) from None


@contextmanager
def before_files(write: Callable[[], None]) -> Iterator[None]:
    """Write a command's files after its output, also when a pipe no longer reads the output."""
    try:
        yield
    except typer.Exit as stopped:
        if stopped.exit_code == UNREAD:
            write()
        raise
    write()


def note(text: str = "") -> None:
    """Write a line that is not data; a closed stderr is ignored."""
    try:
        typer.echo(text, err=True)
    except OSError:
        _drop(sys.stderr)


def warn(warnings: Iterable[Fault]) -> None:
    """Write warnings to stderr, each with its hint."""
    for warning in warnings:
        note(warning.shown("warning"))


def unwritten(error: OSError) -> MissingError:
    """Return the error of an output that cannot be written."""
    return MissingError(f"cannot write the output: {error.strerror or error}", hint="is the disk full?")


def settle() -> bool:
    """Flush the streams, and return False if stdout cannot take the data."""
    sound = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            sound = sound and stream is not sys.stdout
            _drop(stream)
    return sound


def _drop(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to `/dev/null`, with its buffered content."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal; a closed stream is not."""
    return stream is not None and not stream.closed and stream.isatty()


@functools.cache
def program() -> str:
    """Return the command that calls this program from the working folder: `anabranch` if that finds it."""
    here = Path(sys.argv[0])
    found = shutil.which("anabranch")
    if here.name != "anabranch" or (found is not None and Path(found).resolve() == here.resolve()):
        return "anabranch"
    return shlex.quote(sys.argv[0])


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the program's own errors into messages and exit codes, and put the program's name into examples.

    The only traceback shown is that of the user's own plug-in.
    """

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except typer.Exit:
            raise
        except KeyboardInterrupt as error:
            raise typer.Exit(interrupted(error)) from None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told in a sentence
            raise typer.Exit(failed(error)) from None

    if wrapper.__doc__ is not None:
        wrapper.__doc__ = pastable(inspect.cleandoc(wrapper.__doc__))
    return wrapper


def pastable(text: str) -> str:
    """Return a help text with the program's full name in its examples, whose lines are not rewrapped.

    Examples are the lines that are indented and begin with `anabranch`.
    """
    called = _EXAMPLE.sub(lambda _: f"  {program()} ", text)
    # Click does not rewrap a paragraph after this character (see "Preventing Rewrapping" in its
    # documentation).
    return re.sub(r"\n\n(?=  \S)", "\n\n\b\n", called)


def interrupted(error: KeyboardInterrupt) -> int:
    """Print what ended the program, and return its exit code."""
    number = getattr(error, "number", None)
    note("interrupted" if number is None else f"ended by {number.name}")
    return INTERRUPTED if number is None else 128 + int(number)


def failed(error: Exception) -> int:
    """Print the error, and return its exit code."""
    note(_said(error))
    if isinstance(error, InputError | PluginError):
        return BAD_INPUT
    return MISSING if isinstance(error, MissingError | OSError | MemoryError) else DEFECT


def _said(error: Exception) -> str:
    """Return the message for an error."""
    if isinstance(error, InputError | PluginError | MissingError | DefectError):
        return str(error)
    if os.environ.get(_TRACEBACK):
        return "".join(traceback.format_exception(error)).rstrip("\n")
    if isinstance(error, MemoryError):
        return str(Fault(message="out of memory"))
    if isinstance(error, OSError):
        where = str(error.filename) if error.filename is not None else ""
        return str(Fault(message=f"{error.strerror or error}", where=where))
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    return str(
        Fault(
            message=f"a defect of this program, not of what it was given: {what}",
            where=Path(last.filename).name,
            line=last.lineno,
            hint=f"please report it with the command and its files; {_TRACEBACK}=1 shows more",
        )
    )


def heading(text: str) -> None:
    """Write the heading of a table."""
    out(typer.style(text, bold=True) if is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") else text)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Write a table: drawn for a terminal, plain aligned columns elsewhere.

    A table with many columns that is wider than the terminal (or than `COLUMNS` elsewhere) is split into
    several. They are printed one below the other, and each repeats the columns of words.

    Parameters
    ----------
    headers
        Name of each column; all empty for a table without a head.
    rows
        Cells.
    left
        The number of leading columns with words. The others hold numbers, aligned to the right.
    """
    everything = [headers, *rows] if any(headers) else list(rows)
    widths = [max((len(row[column]) for row in everything), default=0) for column in range(len(headers))]
    for place, columns in enumerate(_parts(widths, left)):
        if place:
            out()
        write = _drawn if is_terminal(sys.stdout) else _plain
        write(
            [headers[column] for column in columns],
            [[row[column] for column in columns] for row in rows],
            [widths[column] for column in columns],
            left=sum(column < left for column in columns),
        )


def _width() -> int | None:
    """Return the largest number of characters of a line; None if there is no limit."""
    if is_terminal(sys.stdout) or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def _parts(widths: Sequence[int], left: int) -> list[list[int]]:
    """Return the columns of each of the tables into which a wide one is split."""
    words, numbers = list(range(min(left, len(widths)))), list(range(left, len(widths)))
    limit = _width()
    if limit is None or not numbers:
        return [[*words, *numbers]]
    parts: list[list[int]] = [[*words]]
    for column in numbers:
        wide = sum(widths[one] + 2 for one in (*parts[-1], column))
        if wide > limit and len(parts[-1]) > len(words):
            parts.append([*words])
        parts[-1].append(column)
    return parts


def _plain(
    headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], *, left: int
) -> None:
    """Write a table as aligned columns."""
    for row in [headers, *rows] if any(headers) else rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        out(("  " + "  ".join(cells)).rstrip())


def _drawn(
    headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], *, left: int
) -> None:
    """Write a table for a terminal."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, show_header=any(headers), pad_edge=False, padding=(0, 1))
    for column, (header, width) in enumerate(zip(headers, widths, strict=True)):
        words = column < left
        drawn.add_column(
            escape(header),
            justify="left" if words else "right",
            header_style="dim",
            # Words are wrapped if a line has no room for them. A number is never cut.
            min_width=None if words else width,
            no_wrap=not words,
        )
    for row in rows:
        drawn.add_row(*(escape(cell) for cell in row))
    console = Console(width=_width())
    with console.capture() as captured:
        console.print(drawn)
    out(captured.get().rstrip("\n"))


class Bar:
    """Reports progress. It is called with the finished and the total amount of work.

    Parameters
    ----------
    update
        Updates it.
    stop, start
        Remove the bar from the terminal, and draw it again.
    """

    def __init__(
        self,
        update: Callable[[float, float], None],
        stop: Callable[[], None] | None = None,
        start: Callable[[], None] | None = None,
    ) -> None:
        self._update, self._stop, self._start = update, stop, start

    def __call__(self, done: float, total: float) -> None:
        """Report progress."""
        self._update(done, total)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Release the terminal for other output inside the block."""
        if self._stop is None or self._start is None:
            yield
            return
        self._stop()
        try:
            yield
        finally:
            self._start()


@contextmanager
def progress(what: str, *, unit: str = "s") -> Iterator[Bar]:
    """Show a bar on stderr during some work; if stderr is not a terminal, print lines.

    Parameters
    ----------
    what
        Label of the work.
    unit
        The unit of the counts; the default is seconds of a session.

    Yields
    ------
    Bar
        Takes the finished and the total amount of work.
    """
    from anabranch import _progress

    if not is_terminal(sys.stderr):
        yield Bar(_progress.lines(what, unit, note))
        return
    from rich.console import Console

    with _progress.bar(Console(stderr=True), what, unit) as (drawn, update):
        yield Bar(update, drawn.stop, drawn.start)
