"""Progress bars: in a terminal, in a notebook, or as lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import Progress

#: A function that receives the finished and the total amount of work.
Told = Callable[[float, float], None]
#: The caller's choice: a function, a bar (True), nothing (False), or a bar only in a terminal or notebook
#: (None).
Asked = Told | bool | None

#: Without a bar: seconds until the first message, and seconds between later ones.
_FIRST_S, _SILENT_S = 1.0, 5.0
#: The remaining time is estimated after 0.5 s, and after 5 % of the work or 8 units of it.
_KNOWN_S = 0.5
_KNOWN_UNITS, _KNOWN_SHARE = 8.0, 0.05


@contextmanager
def shown(asked: Asked, what: str, *, unit: str) -> Iterator[Told]:
    """Yield a function that reports progress in the way that the caller chose.

    Parameters
    ----------
    asked
        A function that receives the progress; True for a bar, or lines if none can be drawn; False for none;
        None for a bar in a notebook or a terminal only.
    what
        Label of the work.
    unit
        The unit of the counts.

    Yields
    ------
    callable
        Takes the finished and the total amount of work.
    """
    if callable(asked):
        yield asked
    elif asked is False or (asked is None and not _is_watched()):
        yield lambda _done, _total: None
    else:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_jupyter and not _has_widgets():
            # In this case rich would only print a warning.
            yield lines(what, unit, lambda text: console.print(text, markup=False))
        elif console.is_jupyter or console.is_terminal:
            with bar(console, what, unit) as (_, update):
                yield update
        else:
            yield lines(what, unit, lambda text: console.print(text, markup=False, soft_wrap=True))


def _is_watched() -> bool:
    """Return whether the output goes to a terminal or a notebook."""
    if sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty():
        return True
    # A notebook has loaded IPython. Importing rich to find out would take time.
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


def _has_widgets() -> bool:
    """Return whether a notebook can draw a bar."""
    from importlib.util import find_spec

    return find_spec("ipywidgets") is not None


@contextmanager
def bar(console: Console, what: str, unit: str) -> Iterator[tuple[Progress, Told]]:
    """Draw a bar that disappears at the end; yield it with the function that updates it.

    Parameters
    ----------
    console
        Where.
    what, unit
        Label of the work, and the unit of the counts.
    """
    from rich.markup import escape
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
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task(escape(what), total=1.0, visible=False)

        def update(done: float, total: float) -> None:
            drawn.update(task, completed=min(done, total), total=max(total, 1.0), visible=True)

        yield drawn, update


def lines(what: str, unit: str, say: Callable[[str], Any]) -> Told:
    """Return a function that prints progress and remaining time as lines. Short work prints nothing.

    Parameters
    ----------
    what, unit
        Label of the work, and the unit of the counts.
    say
        Writes a line.
    """
    due = time.monotonic() + _FIRST_S
    first: tuple[float, float] | None = None

    def update(done: float, total: float) -> None:
        nonlocal due, first
        now = time.monotonic()
        # The estimate ignores runs that an earlier session stored.
        first = first or (now, done)
        if now < due:
            return
        due = now + _SILENT_S
        text = f"{what}: {min(done, total):,.0f} of {max(total, 1.0):,.0f} {unit}"
        passed, new = now - first[0], done - first[1]
        # The first runs include the start of the workers.
        has_some = new >= min(_KNOWN_UNITS, _KNOWN_SHARE * (total - first[1]))
        if new > 0 and has_some and passed >= _KNOWN_S and done < total:
            text += f", about {duration(passed * (total - done) / new)} to go"
        say(text)

    return update


def duration(seconds: float) -> str:
    """Return a duration in round numbers."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
