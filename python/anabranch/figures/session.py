"""A session over time: the fate of each picture, above the data of the subflows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch import _extras
from anabranch.figures import _data, colours, look

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

    from anabranch.figures._data import Row
    from anabranch.metrics._rows import Tables

_WIDTH = 960
#: The width of a letter in a label, pixels.
_LETTER = 6
_FATES = ("displayed", "discarded", "flushed")
_WORDS = {"displayed": "shown", "discarded": "discarded", "flushed": "flushed"}


@dataclass(frozen=True, kw_only=True)
class Backdrop:
    """The background of every panel.

    Attributes
    ----------
    until_s
        The end of the time axis.
    stalls
        Times without media.
    changes
        Changes of the world.
    """

    until_s: float
    stalls: Sequence[Row]
    changes: Sequence[Row]


@look.unchecked
def session(tables: Tables, *, client: int = 0) -> alt.VConcatChart:
    """Return the figure of one client's session.

    Parameters
    ----------
    tables
        The trace.
    client
        Whose session.
    """
    import altair as alt

    backdrop = Backdrop(
        until_s=_data.duration_s(tables, client),
        stalls=_data.stalls(tables, client),
        changes=_data.changes(tables),
    )
    pictures, buffers = _data.fates(tables, client), _data.buffers(tables, client)
    colour = colours.of_paths([row["path"] for row in _rows(tables, client)])
    panels = [frame_timeline(pictures, backdrop)] if pictures else []
    ladder = _data.renditions(tables, client)
    if ladder:
        panels = [rendition_timeline(ladder, backdrop), player_buffer(buffers, backdrop)]
    panels += [
        congestion_windows(_data.windows(tables, client), backdrop, colour),
        throughput(_data.throughputs(tables, client), backdrop, colour),
    ]
    if buffers and not ladder:
        panels.append(player_buffer(buffers, backdrop))
    figure: alt.VConcatChart = alt.vconcat(*panels, spacing=14)
    figure.resolve = alt.Resolve(scale=alt.ScaleResolveMap(x="shared", color="independent"))
    legend = {"labelFontSize": 11, "symbolStrokeWidth": 3}
    return look.dressed(figure, labels=11, offset=8, aria=True, legend=legend)


def svg(chart: alt.VConcatChart | alt.ConcatChart) -> str:
    """Return a chart as SVG text that loads nothing."""
    _extras.need("vl_convert", for_="writing a figure")
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False), allowed_base_urls=[]))


def frame_timeline(rows: Sequence[Row], backdrop: Backdrop) -> alt.LayerChart:
    """Draw when pictures were shown, discarded or flushed; times without media are shaded."""
    import altair as alt

    kept = [{**row, "fate": _WORDS[row["fate"]]} for row in rows]
    names = [_WORDS[fate] for fate in _FATES]
    scale = alt.Scale(domain=names, range=[colours.FATES[fate] for fate in _FATES])
    bars = (
        alt.Chart(look.values(kept))
        .mark_bar(height={"band": 0.72}, strokeWidth=0.8)
        .encode(
            x=_time(backdrop, "from_s:Q"),
            x2="to_s:Q",
            y=alt.Y("fate:N", sort=names, scale=alt.Scale(domain=names), title=None),
            color=alt.Color("fate:N", scale=scale, legend=None),
            stroke=alt.Stroke("fate:N", scale=scale, legend=None),
        )
    )
    return _labelled("Pictures, when they were due", 84, bars, backdrop)


def rendition_timeline(rows: Sequence[Row], backdrop: Backdrop) -> alt.LayerChart:
    """Draw which rendition was on the screen, by its declared rate."""
    import altair as alt

    names = [row["name"] for row in sorted(rows, key=lambda row: row["mbps"])]
    order = list(dict.fromkeys(names))
    bars = (
        alt.Chart(look.values(rows))
        .mark_bar(color=colours.RENDITION, height={"band": 0.72})
        .encode(
            x=_time(backdrop, "from_s:Q"),
            x2="to_s:Q",
            y=alt.Y("name:N", sort=order[::-1], title=None),
        )
    )
    height = max(24 * len(order), 60)
    return _labelled("Rendition on the screen", height, bars, backdrop)


def _labelled(title: str, height: int, bars: alt.Chart, backdrop: Backdrop) -> alt.LayerChart:
    """Return the topmost panel, with the changes of the world in words above it."""
    import altair as alt

    lines = _label_lines(backdrop)
    labels = [
        alt.Chart(look.values([row for row, own in zip(backdrop.changes, lines, strict=True) if own == line]))
        .mark_text(align="left", dx=3, dy=-5 - 12 * line, fontSize=10, color=colours.EVENT, baseline="bottom")
        .encode(x=_time(backdrop, "t_s:Q"), y=alt.value(0), text="label:N")
        for line in sorted(set(lines))
    ]
    panel = _panel(title, height, [*_behind(backdrop), bars, *labels])
    panel.title = alt.TitleParams(text=title, offset=8 + 12 * max(lines, default=0))
    return panel


def _label_lines(backdrop: Backdrop) -> list[int]:
    """Return the line above the panel for each change's label, so that none covers another."""
    ends: list[float] = []
    lines = []
    for row in backdrop.changes:
        free = (line for line, end in enumerate(ends) if end <= row["t_s"])
        line = next(free, len(ends))
        ends[line : line + 1] = [row["t_s"] + len(row["label"]) * _LETTER * backdrop.until_s / _WIDTH]
        lines.append(line)
    return lines


def congestion_windows(rows: Sequence[Row], backdrop: Backdrop, colour: dict[str, str]) -> alt.LayerChart:
    """Draw each subflow's congestion window."""
    lines = _lines(rows, backdrop, colour, y="cwnd_segments", title="segments")
    return _panel("Congestion window of each subflow", 130, [*_behind(backdrop), lines])


def throughput(rows: Sequence[Row], backdrop: Backdrop, colour: dict[str, str]) -> alt.LayerChart:
    """Draw each subflow's acknowledged payload per second."""
    lines = _lines(rows, backdrop, colour, y="mbps", title="Mb/s")
    return _panel("Throughput of each subflow", 130, [*_behind(backdrop), lines])


def player_buffer(rows: Sequence[Row], backdrop: Backdrop) -> alt.LayerChart:
    """Draw how much media the player holds."""
    import altair as alt

    area = (
        alt.Chart(look.values(rows))
        .mark_area(color=colours.BUFFER, opacity=0.45, line={"color": colours.BUFFER, "strokeWidth": 1.2})
        .encode(x=_time(backdrop, "t_s:Q"), y=alt.Y("buffer_s:Q", title="seconds of film"))
    )
    return _panel("Player buffer", 110, [*_behind(backdrop), area])


def _lines(
    rows: Sequence[Row], backdrop: Backdrop, colour: dict[str, str], *, y: str, title: str
) -> alt.Chart:
    """Draw one line for each subflow."""
    import altair as alt

    scale = alt.Scale(domain=list(colour), range=list(colour.values()))
    # The legend is beside the panel's title, where it covers no line.
    room = sum(34 + 7 * min(len(path), 20) for path in colour)
    legend = alt.Legend(
        title=None,
        orient="none",
        direction="horizontal",
        legendX=max(_WIDTH - room, 250),
        legendY=-20,
        labelLimit=150,
    )
    lines: alt.Chart = (
        alt.Chart(look.values(rows))
        .mark_line(strokeWidth=1.3, interpolate="step-after" if y == "cwnd_segments" else "linear")
        .encode(
            x=_time(backdrop, "t_s:Q"),
            y=alt.Y(f"{y}:Q", title=title),
            color=alt.Color("path:N", scale=scale, legend=legend),
            # A path that was joined several times has several lines, so that no line spans the time between.
            detail="subflow:N",
        )
    )
    return lines


def _behind(backdrop: Backdrop) -> list[alt.Chart]:
    """Return the shaded underflows and the vertical lines of changes, if there are any."""
    import altair as alt

    layers = []
    if backdrop.stalls:
        shade = alt.Chart(look.values(backdrop.stalls)).mark_rect(color=colours.UNDERFLOW, opacity=0.75)
        layers.append(shade.encode(x=_time(backdrop, "from_s:Q"), x2="to_s:Q"))
    if backdrop.changes:
        rule = alt.Chart(look.values(backdrop.changes)).mark_rule(color=colours.EVENT, strokeDash=[3, 3])
        layers.append(rule.encode(x=_time(backdrop, "t_s:Q")))
    return layers


def _panel(title: str, height: int, layers: Sequence[alt.Chart]) -> alt.LayerChart:
    """Return layers as one panel of the figure."""
    import altair as alt

    kept = [look.kept(layer) for layer in layers]
    panel: alt.LayerChart = alt.LayerChart(layer=kept, width=_WIDTH, height=height, title=title)
    return panel


def _time(backdrop: Backdrop, field: str) -> alt.X:
    """Return the time axis that all panels share."""
    import altair as alt

    scale = alt.Scale(domain=[0, max(backdrop.until_s, 0.1)], nice=False)
    return alt.X(field, scale=scale, title=None, axis=alt.Axis(labelExpr="datum.label + ' s'", tickCount=12))


def _rows(tables: Tables, client: int) -> list[Row]:
    """Return the subflows of a client."""
    from anabranch.metrics._rows import rows

    return list(rows(tables["subflows"], client=client))
