"""The first trial of each cell over time: sequence numbers, congestion windows, what was on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch import _extras
from anabranch.figures import _data, colours, look
from anabranch.figures.calibration import thinned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import altair as alt

    from anabranch.figures._data import Row
    from anabranch.metrics._rows import Tables


class Curve(NamedTuple):
    """A figure of each path: its name, the function that returns its points, their column, its title."""

    name: str
    points: Callable[[Tables, int], list[Row]]
    column: str
    title: str


CURVES = (
    Curve("sequence-numbers", _data.sequences, "acked_mb", "sequence number, MB"),
    Curve("congestion-windows", _data.windows, "cwnd_segments", "cwnd, segments"),
    Curve("round-trip-times", _data.round_trips, "srtt_ms", "smoothed RTT, ms"),
)
_WIDTH, _HEIGHT = 230, 140
#: A panel is flat if another one of its row is more than this number of times as high.
_FLAT = 8
#: The width of a panel of bands, and the height of a band.
_LONG, _BAND = 520, 18
_STILL = "stands still"


def curves(rows: Sequence[Row], column: str, title: str) -> alt.ConcatChart:
    """Return a quantity of each path over time with a panel for each cell, as PC16 draws sequence numbers.

    Parameters
    ----------
    rows
        Points: `series` (the name of the cell), `t_s`, `subflow`, `path` and the column. All of one row of
        the study, so that panels have the same axes. A panel that would be flat has a separate
        vertical axis, which its title names.
    column, title
        The column to draw, and the axis' title.
    """
    _extras.need("altair", for_="drawing a figure")
    import altair as alt

    paths = colours.of_paths([row["path"] for row in rows])
    tallest = max((row[column] for row in rows), default=0.0) or 1.0
    longest = max((row["t_s"] for row in rows), default=0.0) or 1.0
    panels = []
    for name in dict.fromkeys(row["series"] for row in rows):
        own = [row for row in rows if row["series"] == name]
        top = max((row[column] for row in own), default=0.0) or 1.0
        is_flat = top * _FLAT < tallest
        height = top if is_flat else tallest
        points = _thinned(own, column, _HEIGHT / height)
        chart = (
            alt.Chart(look.values(points))
            # With a mitred join, a peak would be drawn above its point, or below zero.
            .mark_line(strokeWidth=1.3, strokeJoin="round")
            .encode(
                x=_seconds("t_s:Q", longest),
                y=alt.Y(
                    f"{column}:Q",
                    title=title,
                    scale=alt.Scale(domain=[0, height], nice=True),
                    axis=alt.Axis(tickCount=5),
                ),
                color=alt.Color(
                    "path:N",
                    title="path",
                    scale=alt.Scale(domain=list(paths), range=list(paths.values())),
                ),
                detail="subflow:N",
            )
        )
        title_of = f"{name} (own vertical axis)" if is_flat else name
        panels.append(chart.properties(title=title_of, width=_WIDTH, height=_HEIGHT))
    page: alt.ConcatChart = alt.concat(*panels, columns=4)
    return look.dressed(page, labels=9)


def bands(rows: Sequence[Row]) -> alt.ConcatChart:
    """Return the resolution on the screen over time: a band for each cell, a panel for each row of the study.

    Parameters
    ----------
    rows
        Times with one resolution: `row`, `series`, `from_s`, `to_s`, `shown` and `lines` (its height; None
        while the picture stands still).
    """
    _extras.need("altair", for_="drawing a figure")
    import altair as alt

    order = sorted({(row["lines"], row["shown"]) for row in rows if row["lines"] is not None})
    palette = colours.of_steps([name for _, name in order])
    if any(row["lines"] is None for row in rows):
        palette[_STILL] = colours.STILL
    panels = []
    for name in dict.fromkeys(row["row"] for row in rows):
        own = [row for row in rows if row["row"] == name]
        chart = (
            alt.Chart(look.values(own))
            .mark_bar(height={"band": 0.8})
            .encode(
                x=_seconds("from_s:Q", max(row["to_s"] for row in own)),
                x2="to_s:Q",
                y=alt.Y("series:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
                color=alt.Color(
                    "shown:N",
                    title="on the screen",
                    scale=alt.Scale(domain=list(palette), range=list(palette.values())),
                ),
            )
        )
        panels.append(chart.properties(title=name, width=_LONG, height=alt.Step(_BAND)))
    page: alt.ConcatChart = alt.concat(*panels, columns=2)
    return look.dressed(page, labels=9)


def on_screen(renditions: Sequence[Row], stalls: Sequence[Row]) -> list[Row]:
    """Return the rows for `bands` of a session: `from_s`, `to_s`, `shown` and `lines`.

    Parameters
    ----------
    renditions, stalls
        The rendition on the screen, and the times without motion.
    """
    moving = [
        {"from_s": row["from_s"], "to_s": row["to_s"], "shown": f"{row['height']}p", "lines": row["height"]}
        for row in renditions
        if row["height"]
    ]
    still = [{"from_s": row["from_s"], "to_s": row["to_s"], "shown": _STILL, "lines": None} for row in stalls]
    return sorted(moving + still if moving else [], key=lambda row: (row["from_s"], row["to_s"]))


def _seconds(field: str, until_s: float) -> alt.X:
    """Return the time axis."""
    import altair as alt

    scale = alt.Scale(domain=[0, until_s], nice=False)
    return alt.X(field, title="time, s", scale=scale, axis=alt.Axis(tickCount=6))


def _thinned(rows: Sequence[Row], column: str, pixels: float) -> list[dict[str, Any]]:
    """Remove the points of a panel that do not change its shape."""
    lines: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault((row["path"], row["subflow"]), []).append((row["t_s"], row[column]))
    return [
        {"t_s": time, column: value, "path": path, "subflow": subflow}
        for (path, subflow), points in lines.items()
        for time, value in thinned(points, pixels)
    ]
