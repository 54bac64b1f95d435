"""What all figures have in common: fonts, lines and greys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import altair as alt

    Chart = TypeVar("Chart", alt.ConcatChart, alt.VConcatChart)


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
