"""Curves of kernel and simulator together: a column for each setting, a row for each quantity."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch import _extras
from anabranch.figures import colours, look

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt


#: A line: times and values.
Points = list[tuple[float, float]]

_WIDTH = 285
_HEIGHT = 92
_KERNEL, _SIMULATOR = "kernel, trial 1", "simulator, run 0"
_READ = "read"
_PIXELS = 1 / 3
_ROWS = (
    ("cwnd", "cwnd, segments"),
    ("srtt", "srtt, ms"),
    ("acked", "acknowledged, Mb/s"),
    ("goodput", "goodput, Mb/s"),
)

_UNUSED = re.compile(r' (?:class|role|aria-\w+|pointer-events|stroke-miterlimit)="[^"]*"')
_PATH = re.compile(r' d="M[^"]*"')
_DECIMALS = re.compile(r"(\.\d)\d+")


@dataclass(frozen=True, kw_only=True)
class Series:
    """The values of sender and receiver over time; times are seconds from accept() and connect().

    Attributes
    ----------
    cwnd, srtt, acked
        The values of each path, by number from 1: segments, milliseconds, and Mb/s of acknowledged payload.
    goodput
        Mb/s that the client read in order.
    """

    cwnd: dict[int, Points]
    srtt: dict[int, Points]
    acked: dict[int, Points]
    goodput: Points


@dataclass(frozen=True, kw_only=True)
class Edges:
    """The titles at the edges of a panel.

    Attributes
    ----------
    heading, left
        Title of its column and of its row; empty where another panel has it.
    bottom
        Whether the time is labelled.
    right_s, top
        The ends of the axes; both begin at 0.
    """

    heading: str
    left: str
    bottom: bool
    right_s: float
    top: float


def overlay(columns: Mapping[str, tuple[Series, Series]], *, until_s: float) -> alt.ConcatChart:
    """Return the figure of some settings.

    Parameters
    ----------
    columns
        Kernel's and simulator's series by the title of their column.
    until_s
        The end of the time axis.
    """
    _extras.need("altair", for_="drawing a figure")
    import altair as alt

    paths = sorted({path for pair in columns.values() for series in pair for path in series.cwnd})
    names = {path: f"path {path}" for path in paths}
    palette = colours.of_paths(list(names.values())) | {_READ: colours.EVENT}
    panels = []
    for place, (quantity, title) in enumerate(_ROWS):
        tallest = max((y for pair in columns.values() for y in _heights(pair, quantity)), default=1.0)
        for column, (heading, pair) in enumerate(columns.items()):
            edges = Edges(
                heading=heading if place == 0 else "",
                left=title if column == 0 else "",
                bottom=place == len(_ROWS) - 1,
                right_s=until_s,
                top=tallest or 1.0,
            )
            panels.append(_panel(_lines(pair, quantity, names, edges), palette, edges))
    whole = alt.concat(*panels, columns=len(columns), spacing=10)
    figure: alt.ConcatChart = (
        look.dressed(whole)
        .resolve_scale(color="shared", strokeWidth="shared", opacity="shared")
        .configure_legend(orient="top", direction="horizontal", labelFontSize=11, title=None, symbolSize=220)
    )
    return figure


def _named(series: Series, quantity: str, names: Mapping[int, str]) -> dict[str, Points]:
    """Return a quantity's lines by name."""
    found: Points | dict[int, Points] = getattr(series, quantity)
    return (
        {names[path]: points for path, points in found.items()} if isinstance(found, dict) else {_READ: found}
    )


def _heights(pair: tuple[Series, Series], quantity: str) -> list[float]:
    """Return every value of a quantity, to find the end of the axis that a row shares."""
    names = {path: str(path) for series in pair for path in series.cwnd}
    return [y for series in pair for points in _named(series, quantity, names).values() for _, y in points]


def _lines(
    pair: tuple[Series, Series], quantity: str, names: Mapping[int, str], edges: Edges
) -> list[dict[str, Any]]:
    """Return the points of one panel as rows: `t`, `y`, `line`, `who`."""
    return [
        {"t": round(time, 1), "y": float(f"{value:.4g}"), "line": line, "who": who}
        for who, series in zip((_KERNEL, _SIMULATOR), pair, strict=True)
        for line, points in _named(series, quantity, names).items()
        for time, value in thinned(points, _HEIGHT / edges.top)
    ]


def thinned(points: Points, pixels: float) -> Points:
    """Return a line without points that do not change its shape (Ramer 1972, Douglas and Peucker 1973).

    Parameters
    ----------
    points
        The line, by time.
    pixels
        Pixels per unit. Omitted points are vertically less than a third of a pixel from the line through the
        others.
    """
    kept = {0, len(points) - 1}
    spans = [(0, len(points) - 1)]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        (x0, y0), (x1, y1) = points[first], points[last]
        slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
        off = [abs(y - y0 - slope * (x - x0)) * pixels for x, y in points[first + 1 : last]]
        if max(off) > _PIXELS:
            far = first + 1 + off.index(max(off))
            kept.add(far)
            spans += [(first, far), (far, last)]
    return [points[place] for place in sorted(kept) if points]


def _panel(rows: Sequence[Mapping[str, Any]], palette: Mapping[str, str], edges: Edges) -> alt.Chart:
    """Draw one quantity of one setting: the kernel broad and pale, the simulator thin on top of it."""
    import altair as alt

    who = [_KERNEL, _SIMULATOR]
    seconds = alt.Axis(labelExpr="datum.label + ' s'", tickCount=6, labels=edges.bottom, ticks=edges.bottom)
    value = alt.Axis(tickCount=4, labels=bool(edges.left), ticks=bool(edges.left))
    panel: alt.Chart = (
        alt.Chart(look.values(rows))
        .mark_line(strokeJoin="round")
        .encode(
            x=alt.X("t:Q", scale=alt.Scale(domain=[0, edges.right_s], nice=False), title=None, axis=seconds),
            y=alt.Y("y:Q", title=edges.left or None, axis=value, scale=alt.Scale(domain=[0, edges.top])),
            color=alt.Color("line:N", scale=alt.Scale(domain=list(palette), range=list(palette.values()))),
            strokeWidth=alt.StrokeWidth("who:N", scale=alt.Scale(domain=who, range=[3.2, 1.0])),
            opacity=alt.Opacity("who:N", scale=alt.Scale(domain=who, range=[0.35, 1.0])),
            detail="who:N",
        )
        .properties(width=_WIDTH, height=_HEIGHT, **({"title": edges.heading} if edges.heading else {}))
    )
    return panel


def svg(chart: alt.ConcatChart) -> str:
    """Return the figure as small SVG text that loads nothing: lines to a tenth of a pixel, no class names."""
    from anabranch.figures.session import svg

    text = _UNUSED.sub("", svg(chart))
    return _PATH.sub(lambda path: _DECIMALS.sub(r"\1", path.group()), text) + "\n"
