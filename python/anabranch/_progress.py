"""Bars that tell of progress: in a terminal, in a notebook, or in lines."""

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

#: What is told: how much is done, and how much there is to do.
Told = Callable[[float, float], None]
#: What a caller asks for: a function, a bar (True), none (False), or a bar where somebody looks (None).
Asked = Told | bool | None

#: The interval of progress messages, in seconds, where there is no bar.
_SILENT_S = 5.0


@contextmanager
def shown(asked: Asked, what: str, *, unit: str) -> Iterator[Told]:
    """Give what tells of progress in the way that was asked for.

    Parameters
    ----------
    asked
        A function that is told; True for a bar, or lines where none can be drawn; False for none; None for a
        bar in a notebook or a terminal, and none elsewhere.
    what
        What goes on.
    unit
        What is counted.

    Yields
    ------
    callable
        To be told how much is done, and how much there is to do.
    """
    if callable(asked):
        yield asked
    elif asked is False or (asked is None and not _is_watched()):
        yield lambda _done, _total: None
    else:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_jupyter and not _has_widgets():
            # rich would only warn, and draw nothing.
            yield lines(what, unit, lambda text: console.print(text, markup=False))
        elif console.is_jupyter or console.is_terminal:
            with bar(console, what, unit) as (_, update):
                yield update
        else:
            yield lines(what, unit, lambda text: console.print(text, markup=False, soft_wrap=True))


def _is_watched() -> bool:
    """Tell whether somebody looks: a terminal, or a notebook."""
    if sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty():
        return True
    # Without IPython there is no notebook; rich, which knows how to tell one, takes time to import.
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


def _has_widgets() -> bool:
    """Tell whether a notebook can draw a bar."""
    from importlib.util import find_spec

    return find_spec("ipywidgets") is not None


@contextmanager
def bar(console: Console, what: str, unit: str) -> Iterator[tuple[Progress, Told]]:
    """Draw a bar that goes when all is done; give it, and what tells it.

    Parameters
    ----------
    console
        Where.
    what, unit
        What goes on, and what is counted.
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
    """Return what tells of progress in lines, of short work not at all.

    Parameters
    ----------
    what, unit
        What goes on, and what is counted.
    say
        Writes a line.
    """
    told = time.monotonic()

    def update(done: float, total: float) -> None:
        nonlocal told
        if time.monotonic() - told >= _SILENT_S:
            told = time.monotonic()
            say(f"{what}: {min(done, total):,.0f} of {max(total, 1.0):,.0f} {unit}")

    return update
