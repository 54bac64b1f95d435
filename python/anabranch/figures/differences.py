"""Quality over the differences between paths, as UQ18 draws it: a panel and a correlation for each metric."""

from __future__ import annotations

from math import atanh, sqrt, tanh
from statistics import StatisticsError, correlation
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.figures import look, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from anabranch.figures.study import Row

#: The figures: name and the difference between a session's paths.
DIFFERENCES = {
    "quality-rtt-difference": "rtt_difference_ms",
    "quality-throughput-difference": "throughput_difference_mbps",
}
#: The metrics of quality, in the order of the panels.
QUALITY = (
    "throughput_mean_mbps",
    "resolution_mean",
    "top_share",
    "rebuffer_total_s",
    "startup_s",
    "resolution_changes",
)
#: The least number of points for an interval of a correlation: its standard error is 1 / sqrt(n - 3).
_LEAST = 4
#: The 97.5 % quantile of the normal distribution.
_NORMAL = 1.959964
_WIDTH, _HEIGHT = 230, 150


class Correlation(NamedTuple):
    """Pearson's coefficient, and its 95 % interval by Fisher's transformation; None where it is undefined."""

    value: float | None
    low: float | None
    high: float | None


def between(paths: Mapping[str, Mapping[str, float | None]]) -> Row:
    """Return the largest differences of RTT and throughput between the paths of a session.

    Parameters
    ----------
    paths
        For each path `srtt_ms` and `throughput_mbps`. UQ18 defines the difference of round-trip times as the
        largest mean less the smallest one. A session over one path has no difference.
    """
    found: Row = {}
    for name, column in zip(DIFFERENCES.values(), ("srtt_ms", "throughput_mbps"), strict=True):
        known = [value for path in paths.values() if (value := path.get(column)) is not None]
        found[name] = max(known) - min(known) if len(known) > 1 else None
    return found


def correlated(cells: Sequence[Row], across: str, up: str) -> Correlation:
    """Return the correlation of two columns over cells."""
    try:
        value = correlation([row[across] for row in cells], [row[up] for row in cells])
    except StatisticsError:
        return Correlation(None, None, None)
    if len(cells) < _LEAST or abs(value) >= 1:
        return Correlation(value, None, None)
    half = _NORMAL / sqrt(len(cells) - 3)
    return Correlation(value, tanh(atanh(value) - half), tanh(atanh(value) + half))


@look.unchecked
def chart(cells: Sequence[Row], across: str) -> alt.ConcatChart:
    """Return the metrics of quality over a difference, with a point for each cell.

    Parameters
    ----------
    cells
        Means of cells: `row`, `series`, the difference and the metrics.
    across
        The column with the difference.
    """
    import altair as alt

    panels = []
    for metric in QUALITY:
        own = [row for row in cells if row.get(metric) is not None]
        if not own:
            continue
        base = alt.Chart(look.values([_point(row, across, metric) for row in own]))
        x = alt.X("across:Q", title=words.metric(across), axis=alt.Axis(tickCount=5))
        y = alt.Y("up:Q", title=words.metric(metric), scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5))
        point = base.mark_point(filled=True, size=45, opacity=0.9)
        interval = base.mark_rule(color="#999999")
        layers = alt.layer(
            interval.encode(x=x, y=alt.Y("low:Q", title=""), y2="high:Q"),
            point.encode(x=x, y=y, color=alt.Color("cell:N", title="row", sort=None)),
        )
        panels.append(layers.properties(title=_title(own, across, metric), width=_WIDTH, height=_HEIGHT))
    page: alt.ConcatChart = alt.concat(*panels, columns=3).resolve_scale(x="independent", y="independent")
    return look.dressed(page, labels=9)


def _point(row: Row, across: str, metric: str) -> dict[str, Any]:
    """Return a point with the ends of its interval. No metric of quality can be negative."""
    half = row.get(f"{metric}_ci95") or 0.0
    value = row[metric]
    ends = {"low": max(value - half, 0.0), "high": value + half}
    return {"cell": f"{row['row']} {row['series']}", "across": row[across], "up": value, **ends}


def _title(cells: Sequence[Row], across: str, metric: str) -> str:
    """Return the correlation of a panel in words."""
    found = correlated(cells, across, metric)
    if found.value is None:
        return f"no correlation, {len(cells)} cells"
    ends = "" if found.low is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"r = {found.value:.2f}{ends}, {len(cells)} cells"
