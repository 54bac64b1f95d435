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
    """Decorate a function so that it makes a figure without altair's checks, which take most of the time.

    If the user changes such a figure, or writes it with altair's own functions, it is checked as usual.
    """

    @functools.wraps(build)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        _extras.need("altair", for_="drawing a figure")
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return build(*args, **kwargs)

    return wrapper


def values(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Return rows as a chart's data that copies share: altair copies a chart at each step."""
    return _shared()(values=list(rows))


@functools.cache
def _shared() -> type[alt.InlineData]:
    """Return the class of data that is not copied. It is made here because importing altair takes time."""
    import altair as alt

    class Shared(alt.InlineData):
        """Rows that are not changed."""

        def __deepcopy__(self, _: object) -> Shared:
            return self

    return Shared


def kept(chart: alt.Chart) -> alt.Chart:
    """Prevent altair from copying a chart's encoding with the chart. The encoding never changes."""
    encoding = chart.encoding
    # altair's own attributes are those of the figure.
    object.__setattr__(encoding, "__deepcopy__", lambda _: encoding)
    return chart


def dressed(
    chart: Chart,
    *,
    labels: int = 10,
    offset: int = 6,
    aria: bool = False,
    legend: Mapping[str, Any] | None = None,
) -> Chart:
    """Return a figure with the style of all figures.

    Parameters
    ----------
    chart
        The whole figure. The figure itself is changed, because a copy for each part of the style took most of
        the time.
    labels
        Size of the labels; titles of axes are one larger, those of panels two.
    offset
        Space between a panel and its title.
    aria
        Describe every mark to screen readers: half of the file where there are many ticks.
    legend
        The style of legends.
    """
    import altair as alt

    more: dict[str, Any] = {} if aria else {"aria": False}
    more["legend"] = alt.LegendConfig(**{"titleFontWeight": "normal", **(legend or {})})
    chart.config = alt.Config(
        font="Liberation Sans, Arial, sans-serif",
        background="white",
        view=alt.ViewConfig(stroke="#DDDDDD"),
        axis=alt.AxisConfig(
            gridColor="#EEEEEE",
            domainColor="#888888",
            tickColor="#888888",
            labelFontSize=labels,
            titleFontWeight="normal",
            titleFontSize=labels + 1,
            titleColor="#333333",
        ),
        title=alt.TitleConfig(
            anchor="start",
            frame="group",
            fontSize=labels + 2,
            fontWeight="normal",
            color="#222222",
            offset=offset,
        ),
        **more,
    )
    return chart
