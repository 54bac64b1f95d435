"""A link over time: its rate and its one-way delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch import _extras
from anabranch.figures import colours, look

if TYPE_CHECKING:
    import altair as alt

    from anabranch.traces import Trace

_WIDTH, _HEIGHT = 640, 110


def link(trace: Trace, *, title: str) -> alt.VConcatChart:
    """Return a recording of a link as two panels: rate, and one-way delay with the lossy steps marked.

    Parameters
    ----------
    trace
        The recording.
    title
        The text above it.
    """
    _extras.need("altair", for_="drawing a figure")
    import altair as alt

    rate, delay = list(colours.of_paths(["rate", "delay"]).values())
    ends_s = trace.length_ns / 1e9
    steps = [
        {
            "t": step.at_ns / 1e9,
            "rate": round(step.rate_bps / 1e6, 2),
            "delay": round(step.delay_ns / 1e6, 1),
            "loss": step.loss,
        }
        for step in trace.steps
    ]
    most = max(row["delay"] for row in steps) * 1.15
    lossy = [{"t": row["t"], "y": most, "loss": row["loss"]} for row in steps if row["loss"]]
    seconds = alt.X("t:Q", scale=alt.Scale(domain=[0, ends_s], nice=False), title=None)
    base = alt.Chart(look.values(steps)).properties(width=_WIDTH, height=_HEIGHT)
    line = base.mark_line(interpolate="step-after", strokeWidth=1.2)
    marks = alt.Chart(look.values(lossy)).mark_tick(thickness=1.5, color=colours.FATES["discarded"])
    upper = line.encode(
        x=seconds.axis(labels=False, ticks=False),
        y=alt.Y("rate:Q", title="Mb/s", axis=alt.Axis(tickCount=4)),
        color=alt.value(rate),
    ).properties(title=title)
    lower = alt.layer(
        line.encode(
            x=seconds.axis(labelExpr="datum.label + ' s'"),
            y=alt.Y(
                "delay:Q", title="ms one way", axis=alt.Axis(tickCount=4), scale=alt.Scale(domain=[0, most])
            ),
            color=alt.value(delay),
        ),
        marks.encode(x="t:Q", y="y:Q", size=alt.value(10)),
    )
    drawn: alt.VConcatChart = (
        alt.vconcat(upper, lower, spacing=6)
        .configure(font="Liberation Sans, Arial, sans-serif", background="white", aria=False)
        .configure_view(stroke="#DDDDDD")
        .configure_axis(
            gridColor="#EEEEEE", domainColor="#888888", tickColor="#888888", titleFontWeight="normal"
        )
        .configure_title(anchor="start", frame="group", fontSize=12, color="#222222", offset=6)
    )
    return drawn
