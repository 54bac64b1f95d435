"""The pictures of the papers' pages: the numbers of each table as bars with the extremes of the trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.figures import colours, look, words
from anabranch.figures.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

#: Width of a bar, height of a panel, and the number of panels side by side.
_STEP, _HEIGHT, _COLUMNS = 13, 120, 3
#: The widest panel of which three fit beside each other.
_NARROW = 200


def draw(parts: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, str]]]]) -> Picture:
    """Return the picture of a figure.

    Parameters
    ----------
    parts
        For each table its description, with the keys `across` and `down`, and its rows of numbers.
    """
    import altair as alt

    panels = [panel for wanted, rows in parts for panel in _panels(wanted, rows)]
    widest = max(panel.width for panel in panels)
    columns = _COLUMNS if widest <= _NARROW else 2 if widest <= _NARROW * 3 // 2 else 1
    page: alt.ConcatChart = alt.concat(*panels, columns=columns)
    return Picture(chart=look.dressed(page.resolve_scale(color="independent"), labels=9))


def _panels(wanted: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> list[alt.LayerChart]:
    """Return a panel for each metric of a table."""
    across = wanted["across"]
    worlds = len({row["world"] for row in rows}) > 1
    down = [key for key in (*wanted["down"], *(["world"] if worlds else [])) if key != "metric"]
    by = "world" if across == "metric" else across
    down = [key for key in down if key != by]
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    metrics.sort(key=wanted.get("metric", metrics).index)
    return [_panel([row for row in rows if row["metric"] == metric], rows, down, by) for metric in metrics]


def _panel(
    rows: Sequence[Mapping[str, str]], table: Sequence[Mapping[str, str]], down: Sequence[str], by: str
) -> alt.LayerChart:
    """Return the bars of a metric, in groups of the keys `down`, with a colour for each value of `by`.

    `table` has the rows of all metrics. Those that differ only in their path have the same scale.
    """
    import altair as alt

    metric = rows[0]["metric"]
    data = [
        {
            "place": ", ".join(_plain(row[key]) for key in down if row[key]),
            "series": _plain(row[by]),
            **{name: float(row[name]) for name in ("mean", "least", "most")},
        }
        for row in rows
    ]
    series = list(dict.fromkeys(row["series"] for row in data))
    places = list(dict.fromkeys(row["place"] for row in data))
    path, _, name = metric.rpartition(".")
    same = [row for row in table if row["metric"].rpartition(".")[2] == name and "." in row["metric"]]
    top = max((max(float(row["most"]), float(row["mean"])) for row in (same if path else rows)), default=0)
    height = alt.Y("mean:Q", title=None, scale=alt.Scale(domain=[0, top or 1]), axis=alt.Axis(tickCount=4))
    base = alt.Chart(look.values(data))
    x = alt.X("place:N", sort=places, title=None, axis=alt.Axis(labelAngle=-30, labelLimit=150))
    inside = alt.XOffset("series:N", sort=series)
    shown = alt.Color(
        "series:N",
        sort=series,
        title=None,
        scale=alt.Scale(domain=series, range=list(colours.of_lines(series).values())),
        legend=alt.Legend(orient="bottom", columns=4) if len(series) > 1 else None,
    )
    bar = base.mark_bar().encode(x=x, xOffset=inside, y=height, color=shown)
    ends = base.mark_rule(color="#222222").encode(
        x=x, xOffset=inside, y=alt.Y("least:Q", title=None), y2="most:Q"
    )
    width = max(_STEP * len(places) * (len(series) + 1), 90)
    title = f"{path}: {words.metric(name)}" if path else words.metric(metric)
    return alt.layer(bar, ends).properties(title=title, width=width, height=_HEIGHT)


def _plain(value: str) -> str:
    """Return a value in words."""
    value = value.replace("multipath true", "MPTCP").replace("multipath false", "TCP")
    return value.replace("_", " ")
