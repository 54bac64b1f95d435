"""The style that all figures share: fonts, lines and greys."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from anabranch import _extras

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import altair as alt

    Chart = TypeVar("Chart", alt.ConcatChart, alt.VConcatChart)

P = ParamSpec("P")
R = TypeVar("R")


def unchecked(build: Callable[P, R]) -> Callable[P, R]:
    """Let a function make a figure without altair's check of every part of it: most of the time that takes.

    A figure that the user changes, or writes with altair's own functions, is checked as usual.
    """

    @functools.wraps(build)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        _extras.need("altair", for_="drawing a figure")
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return build(*args, **kwargs)

    return wrapper


def values(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Return rows as a chart's data, which copies share: altair copies a chart at each step of its making."""
    return _shared()(values=list(rows))


@functools.cache
def _shared() -> type[alt.InlineData]:
    """Return the class of data that is not copied; altair is imported when a figure is made."""
    import altair as alt

    class Shared(alt.InlineData):
        """Rows that are not changed."""

        def __deepcopy__(self, _: object) -> Shared:
            return self

    return Shared


def dressed(chart: Chart, *, labels: int = 10, offset: int = 6, aria: bool = False) -> Chart:
    """Return a figure with the house's look; its legend is its own.

    Parameters
    ----------
    chart
        The whole figure.
    labels
        Size of the labels; titles of axes are one larger, those of panels two.
    offset
        Space between a panel and its title.
    aria
        Describe every mark to screen readers: half of the file where there are many ticks.
    """
    more: dict[str, Any] = {} if aria else {"aria": False}
    dressed: Chart = (
        chart.configure(font="Liberation Sans, Arial, sans-serif", background="white", **more)
        .configure_view(stroke="#DDDDDD")
        .configure_axis(
            gridColor="#EEEEEE",
            domainColor="#888888",
            tickColor="#888888",
            labelFontSize=labels,
            titleFontWeight="normal",
            titleFontSize=labels + 1,
            titleColor="#333333",
        )
        .configure_title(anchor="start", frame="group", fontSize=labels + 2, color="#222222", offset=offset)
    )
    return dressed
