"""A study's results as figures: bars with single trials, flows, and the cost of quality."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from anabranch import _intervals
from anabranch.figures import colours, look, words
from anabranch.metrics.score import can_be_negative

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

#: A run's columns, with `series` (its name in its row), `control` and `scheduler`.
Row = dict[str, Any]

#: The metrics that bars show, if the runs have them.
BARS = (
    "picture_discards",
    "buffer_underflows",
    "recovery_time_s",
    "retransmissions",
    "throughput_mean_mbps",
    "resolution_mean",
    "rebuffer_total_s",
    "startup_s",
)
#: Figures of two metrics: name, horizontal metric, vertical metric, and whether the horizontal axis is
#: reversed so that better is right.
CROSSES = (
    ("discards-retransmissions", "retransmissions", "picture_discards", False),
    ("throughput-delay", "srtt_ms", "goodput_mbps", True),
    ("stall-quality", "stalled_share", "resolution_mean", True),
)
#: The meanings of the marks on a bar, below the title of the vertical axis.
_INTERVAL = "black: 95 % interval"
_EXTREMES = "grey: least to most"
_DOTS = ", dots: trials"
#: The words on an axis that does not begin at zero.
_BROKEN = "(axis not from 0)"
#: The text below an axis that is reversed.
_TURNED = "\N{LEFTWARDS ARROW} more \N{MIDDLE DOT} less \N{RIGHTWARDS ARROW} (better is up and right)"
_WIDTH, _HEIGHT, _STEP = 190, 130, 15
#: The width of the bar of one of several paths, and the factor for a group with its gap.
_FLOW_STEP, _GAP = 8, 1.25
#: The width that panels side by side may have.
_PAGE_WIDTH = 1000


@look.unchecked
def bars(
    rows: Sequence[Row],
    cells: Sequence[Row],
    metric: str,
    *,
    marks: Mapping[str, Mapping[str, float]] | None = None,
    dots: bool = True,
) -> alt.ConcatChart:
    """Return a metric as bars with intervals, extremes and a dot for each trial, in a panel for each row.

    Parameters
    ----------
    rows
        The runs.
    cells
        Their means as `NAME` and half the width of their intervals as `NAME_ci95`.
    metric
        The column.
    marks
        Values by name for each row of the study: a dashed line across, with its name.
    dots
        Whether each trial is drawn. Thousands of trials make a large file.
    """
    series = {(row["row"], row["series"]) for row in rows if row.get(metric) is not None}
    most = max(Counter(row for row, _ in series).values(), default=0)
    return _page(_panels(rows, cells, metric, marks or {}, dots=dots), widest=_STEP * most)


@look.unchecked
def stacked(parts: Sequence[tuple[Sequence[Row], Sequence[Row], str]]) -> alt.VConcatChart:
    """Return several metrics as bars, one below the other.

    Parameters
    ----------
    parts
        For each the runs, the cells and the column, as `bars` takes them.
    """
    import altair as alt

    lines = [alt.concat(*_panels(rows, cells, metric, {}), columns=4) for rows, cells, metric in parts]
    page: alt.VConcatChart = alt.vconcat(*lines).resolve_scale(x="independent", y="independent")
    return look.dressed(page, labels=9)


def _panels(
    rows: Sequence[Row],
    cells: Sequence[Row],
    metric: str,
    marks: Mapping[str, Mapping[str, float]],
    *,
    dots: bool = True,
) -> list[alt.LayerChart | alt.FacetChart]:
    """Return a metric as bars, in a panel for each row of the study."""
    import altair as alt

    panels = []
    by = _coloured_by(rows)
    for name in dict.fromkeys(row["row"] for row in rows):
        own = [row for row in rows if row["row"] == name and row.get(metric) is not None]
        if own:
            base = alt.Chart(look.values(_kept(own, ("series", by, metric))))
            series = alt.X("series:N", sort=None, title=None, axis=alt.Axis(labelAngle=-60))
            has_interval = any(cell.get(f"{metric}_ci95") for cell in cells if cell["row"] == name)
            marked = [_INTERVAL, _EXTREMES + (_DOTS if dots else "")] if has_interval else []
            height = alt.Y(
                f"mean({metric}):Q",
                title=[words.metric(metric), *marked],
                scale=_from_zero([row[metric] for row in own]),
                axis=alt.Axis(tickCount=5),
            )
            bar = base.mark_bar(opacity=0.75).encode(x=series, y=height, color=_colour(own, by))
            ends = [_whiskers(cell, metric, metric) for cell in cells if cell["row"] == name]
            interval = (
                alt.Chart(look.values(ends))
                .mark_rule(color="#222222", strokeWidth=1.5)
                .encode(x=series, y=alt.Y("low:Q", title=""), y2="high:Q")
            )
            # The papers draw the smallest and the largest trial: light, left of the interval.
            extremes = base.mark_rule(color="#8a8a8a", xOffset=-_STEP / 4).encode(
                x=series, y=alt.Y(f"min({metric}):Q", title=""), y2=f"max({metric}):Q"
            )
            caps = [
                base.mark_tick(color="#8a8a8a", size=5, xOffset=-_STEP / 4).encode(
                    x=series, y=alt.Y(f"{end}({metric}):Q", title="")
                )
                for end in ("min", "max")
            ]
            # The dots are beside the interval, not on it.
            trials = base.mark_circle(size=9, color="#222222", opacity=0.55, xOffset=_STEP / 4).encode(
                x=series, y=alt.Y(f"{metric}:Q", title="")
            )
            lines = _across(marks.get(name, {}), len({row["series"] for row in own}))
            panels.append(
                alt.layer(bar, extremes, *caps, interval, *([trials] if dots else []), *lines).properties(
                    title=name, width=alt.Step(_STEP), height=_HEIGHT
                )
            )
    return panels


def _across(marks: Mapping[str, float], bars: int) -> list[alt.Chart]:
    """Return dashed lines across a panel of so many bars, each with its name behind the last bar."""
    import altair as alt

    if not marks:
        return []
    data = look.values([{"mark": name, "value": value} for name, value in marks.items()])
    y = alt.Y("value:Q", title="")
    line = alt.Chart(data).mark_rule(color=colours.EVENT, strokeDash=[4, 3], strokeWidth=1.2).encode(y=y)
    text = alt.Chart(data).mark_text(align="left", dx=3, fontSize=9, color=colours.EVENT)
    return [line, text.encode(y=y, x=alt.value(bars * _STEP), text="mark:N")]


def _from_zero(values: Sequence[float]) -> alt.Scale:
    """Return the scale of bars. If all values are zero, zero is at the bottom and not in the middle."""
    import altair as alt

    return alt.Scale(zero=True) if any(values) else alt.Scale(domain=[0, 1])


def _not_from_zero(title: str, domain: Sequence[float]) -> str:
    """Return an axis title that names a missing zero."""
    return f"{title} {_BROKEN}" if domain[0] > 0 else title


def _domain(lows: Sequence[float], highs: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis: those of the values, rounded outward to a multiple of 1, 2 or 5.

    The step is at least a tenth of the range. If all values are zero, the axis begins there, as for bars.
    """
    low, high = min(lows), max(highs)
    if not low and not high:
        return 0.0, 1.0
    tenth = (high - low or abs(high)) / 10
    power = 10.0 ** math.floor(math.log10(tenth))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= tenth)
    # Rounding removes the error of the division: 0.3 / 0.1 is below 3.
    below, above = math.floor(round(low / step, 9)), math.ceil(round(high / step, 9))
    if below == above:
        below, above = below - 1, above + 1
    return round(below * step, 12), round(above * step, 12)


def _scale(domain: Sequence[float], *, reverse: bool = False) -> alt.Scale:
    """Return the scale of points with exactly these ends, so that its title can name a missing zero."""
    import altair as alt

    return alt.Scale(domain=list(domain), nice=False, zero=False, reverse=reverse)


@look.unchecked
def flows(rows: Sequence[Row], metric: str = "retransmissions", *, dots: bool = True) -> alt.ConcatChart:
    """Return a metric of each path as bars with 95 % intervals, in a panel for each row of the study.

    Parameters
    ----------
    rows
        A row for each path of a run: the run's columns, with `path` and the path's metric.
    metric
        The column.
    dots
        Whether each trial is drawn.
    """
    import altair as alt

    widest = 0.0
    # The same for every panel: they have one legend.
    paths = colours.of_paths([row["path"] for row in rows])
    panels = []
    for name in dict.fromkeys(row["row"] for row in rows):
        own = [row for row in rows if row["row"] == name]
        here = [path for path in paths if any(row["path"] == path for row in own)]
        base = alt.Chart(look.values(_kept(own, ("series", "path", metric))))
        series = alt.X("series:N", sort=None, title=None, axis=alt.Axis(labelAngle=-60))
        beside = alt.XOffset("path:N", sort=here)
        bar = base.mark_bar(opacity=0.75).encode(
            x=series,
            xOffset=beside,
            y=alt.Y(
                f"mean({metric}):Q",
                title=words.metric(metric),
                scale=_from_zero([row[metric] for row in own]),
                axis=alt.Axis(tickCount=5),
            ),
            color=alt.Color(
                "path:N", title="path", scale=alt.Scale(domain=list(paths), range=list(paths.values()))
            ),
        )
        interval = (
            alt.Chart(look.values(_of_flows(own, metric)))
            .mark_rule(color="#222222", strokeWidth=1.5)
            .encode(x=series, xOffset=beside, y=alt.Y("low:Q", title=""), y2="high:Q")
        )
        # The dots are light, because they are drawn on the interval.
        trials = base.mark_point(size=8, fill="white", stroke="#222222", strokeWidth=0.6).encode(
            x=series, xOffset=beside, y=alt.Y(f"{metric}:Q", title="")
        )
        chart = alt.layer(bar, interval, *([trials] if dots else [])).resolve_scale(xOffset="independent")
        step = _STEP if len(here) == 1 else _FLOW_STEP
        widest = max(widest, step * len(here) * _GAP * len({row["series"] for row in own}))
        panels.append(chart.properties(title=name, width=alt.Step(step), height=_HEIGHT))
    return _page(panels, widest=widest)


def _of_flows(rows: Sequence[Row], metric: str) -> list[Row]:
    """Return the ends of the 95 % interval of each path of each series. A single run has no interval."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        values.setdefault((row["series"], row["path"]), []).append(row[metric])
    found = []
    for (series, path), own in values.items():
        low, high = _ends(fmean(own), _intervals.half_width(own), metric)
        found.append({"series": series, "path": path, "low": low, "high": high})
    return found


@look.unchecked
def cross(rows: Sequence[Row], across: str, up: str, *, turned: bool = False) -> alt.ConcatChart:
    """Return one metric over another: a mark for each cell at its means, with both intervals.

    Parameters
    ----------
    rows
        The cells: means as `NAME` and half the width of their intervals as `NAME_ci95`.
    across, up
        The metrics.
    turned
        Whether the horizontal axis is reversed, so that better is right.
    """
    import altair as alt

    panels = []
    told = {(row["row"], row["control"], row["scheduler"]) for row in rows}
    # If congestion controls and schedulers do not distinguish the cells, the rest of their names must.
    by = "scheduler" if len(told) == len(rows) else "series"
    marks = colours.of_schedulers([row[by] for row in rows])
    colour = _colour(rows, _coloured_by(rows))
    for name in dict.fromkeys(row["row"] for row in rows):
        own = [_whiskers(row, across, up) for row in rows if row["row"] == name]
        flat_ends, tall_ends = (
            _domain([row[low] for row in own], [row[high] for row in own])
            for low, high in (("left", "right"), ("low", "high"))
        )
        base = alt.Chart(look.values(own))
        x = alt.X(
            "across:Q",
            title=[_not_from_zero(words.metric(across), flat_ends), *([_TURNED] if turned else [])],
            scale=_scale(flat_ends, reverse=turned),
            # A label that is moved inside at the end of an axis would overlap the next one.
            axis=alt.Axis(tickCount=4, labelFlush=False),
        )
        title = _not_from_zero(words.metric(up), tall_ends)
        y = alt.Y("up:Q", title=title, scale=_scale(tall_ends), axis=alt.Axis(tickCount=5))
        flat = base.mark_rule(color="#999999").encode(x=alt.X("left:Q", title=""), x2="right:Q", y=y)
        tall = base.mark_rule(color="#999999").encode(y=alt.Y("low:Q", title=""), y2="high:Q", x=x)
        shape = alt.Shape(
            f"{by}:N",
            title="scheduler" if by == "scheduler" else "settings",
            scale=alt.Scale(domain=list(marks), range=list(marks.values())),
        )
        point = base.mark_point(filled=True, size=45, opacity=0.9).encode(x=x, y=y, color=colour, shape=shape)
        panels.append(alt.layer(flat, tall, point).properties(title=name, width=_WIDTH, height=_HEIGHT))
    return _page(panels)


def _whiskers(row: Row, across: str, up: str) -> Row:
    """Return a cell's means and the ends of their intervals."""
    left, right = _ends(row[across], row.get(f"{across}_ci95"), across)
    low, high = _ends(row[up], row.get(f"{up}_ci95"), up)
    reach = {"left": left, "right": right, "low": low, "high": high}
    return {
        **_kept([row], ("series", "control", "scheduler"))[0],
        "across": row[across],
        "up": row[up],
        **reach,
    }


def _ends(mean: float, half_width: float | None, metric: str) -> tuple[float, float]:
    """Return the ends of an interval of a metric; both are the mean without an interval."""
    return _intervals.ends(mean, half_width or 0.0, is_signed=can_be_negative(metric))


def _coloured_by(rows: Sequence[Row]) -> str:
    """Return the column that colours show: the congestion control, or the scheduler if only that varies."""
    controls, schedulers = ({row.get(name) for row in rows} for name in ("control", "scheduler"))
    return "scheduler" if len(controls) == 1 and len(schedulers) > 1 else "control"


def _colour(rows: Sequence[Row], by: str) -> alt.Color:
    """Return the colours of the congestion controls or of the schedulers."""
    import altair as alt

    names = [row[by] for row in rows]
    found = colours.of_controls(names) if by == "control" else colours.of_lines(names)
    scale = alt.Scale(domain=list(found), range=list(found.values()))
    title = "congestion" if by == "control" else by
    return alt.Color(f"{by}:N", title=title, scale=scale)


def _kept(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Row]:
    """Return only some columns, so that the file is small."""
    return [{name: row[name] for name in names} for row in rows]


def _page(panels: Sequence[Any], *, widest: float = _WIDTH) -> alt.ConcatChart:
    """Return panels side by side, as many in a row as fit when all have the width of the widest."""
    import altair as alt

    columns = next((count for count in (4, 2) if count * widest <= _PAGE_WIDTH), 1)
    page: alt.ConcatChart = alt.concat(*panels, columns=columns)
    page = page.resolve_scale(x="independent", y="independent", xOffset="independent")
    return look.dressed(page, labels=9)
