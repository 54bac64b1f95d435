"""Speaking to a person: tables to stdout, notes and progress to stderr, faults as exit codes."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer

from anabranch.errors import DefectError, InputError, MissingError, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

P = ParamSpec("P")
R = TypeVar("R")

EXPECTATION_FAILED = 1
BAD_INPUT = 2
MISSING = 4
DEFECT = 70
INTERRUPTED = 130


def out(text: str = "") -> None:
    """Write a line of data."""
    typer.echo(text)


def note(text: str = "") -> None:
    """Write a line that is not data."""
    typer.echo(text, err=True)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the program's own errors into messages and exit codes.

    Nobody is shown a traceback but that of their own plug-in.
    """

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (InputError, PluginError) as error:
            note(str(error))
            raise typer.Exit(BAD_INPUT) from None
        except MissingError as error:
            note(str(error))
            raise typer.Exit(MISSING) from None
        except DefectError as error:
            note(str(error))
            raise typer.Exit(DEFECT) from None
        except KeyboardInterrupt:
            note("interrupted")
            raise typer.Exit(INTERRUPTED) from None

    return wrapper


def heading(text: str) -> None:
    """Write the heading of a table."""
    out(typer.style(text, bold=True) if sys.stdout.isatty() else text)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Write a table: drawn for a terminal, plain aligned columns elsewhere.

    Parameters
    ----------
    headers
        Name of each column; all empty for a table without a head.
    rows
        Cells.
    left
        How many columns, from the first, hold words; the others hold numbers and go to the right.
    """
    if sys.stdout.isatty():
        _drawn(headers, rows, left=left)
        return
    everything = [headers, *rows] if any(headers) else list(rows)
    widths = [max(len(row[column]) for row in everything) for column in range(len(headers))]
    for row in everything:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        out(("  " + "  ".join(cells)).rstrip())


def _drawn(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> None:
    """Write a table for a terminal."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, show_header=any(headers), pad_edge=False, padding=(0, 1))
    for column, header in enumerate(headers):
        drawn.add_column(escape(header), justify="left" if column < left else "right", header_style="dim")
    for row in rows:
        drawn.add_row(*(escape(cell) for cell in row))
    Console().print(drawn)


@contextmanager
def progress(what: str, *, unit: str = "s") -> Iterator[Callable[[float, float], None] | None]:
    """Show a bar on stderr while something goes on; where stderr is no terminal, show nothing.

    Parameters
    ----------
    what
        What goes on.
    unit
        What is counted: seconds of a session, if nothing else.

    Yields
    ------
    callable or None
        To be told how much is done, and how much there is to do.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
        TimeElapsedColumn(),
        TextColumn("done,"),
        TimeRemainingColumn(),
        TextColumn("to go"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0, visible=False)

        def update(done: float, total: float) -> None:
            bar.update(task, completed=min(done, total), total=max(total, 1.0), visible=True)

        yield update
