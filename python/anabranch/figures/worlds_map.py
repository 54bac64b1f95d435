"""The map of a study's random worlds: the mean number of claims that hold, by two assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.figures import look

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from anabranch.figures.picture import Picture

#: Width and height of a cell, pixels.
_WIDE, _HIGH = 170, 44
#: The share of the scale from which the ground is dark, so that its number is white.
_DARK = 0.6
#: Splits a label at the commas between its keys, so that it has several lines.
_WRAPPED = "split(datum.label, ', ')"


@look.unchecked
def chart(
    counts: Mapping[tuple[str, str], Sequence[int]], names: tuple[str, str], claims: int
) -> alt.ConcatChart:
    """Return the map as a table of coloured cells with their means and numbers of worlds.

    Parameters
    ----------
    counts
        By the value of the first and of the second assumption, the number of claims that hold in each world.
    names
        The two assumptions. The first one is down, the second one across.
    claims
        The number of claims, at which the scale of colours ends.
    """
    import altair as alt

    rows = [
        {
            "down": down,
            "across": across,
            "mean": round(sum(own) / len(own), 2),
            "text": f"{sum(own) / len(own):.1f} ({len(own)})",
        }
        for (down, across), own in sorted(counts.items())
        if own
    ]
    lines = alt.Axis(labelAngle=0, labelExpr=_WRAPPED, labelLimit=400, labelPadding=4)
    base = alt.Chart(look.values(rows)).encode(
        x=alt.X("across:N", title=names[1], axis=lines),
        y=alt.Y("down:N", title=names[0], axis=lines),
    )
    scale = alt.Scale(scheme="blues", domain=[0, claims])
    cell = base.mark_rect(stroke="white").encode(
        color=alt.Color(
            "mean:Q", title=["claims", "that hold"], scale=scale, legend=alt.Legend(titleFontWeight="normal")
        )
    )
    number = base.mark_text(fontSize=11).encode(
        text="text:N",
        color=alt.condition(f"datum.mean > {_DARK * claims:g}", alt.value("white"), alt.value("#222222")),
    )
    panel = alt.layer(cell, number).properties(width=alt.Step(_WIDE), height=alt.Step(_HIGH))
    page: alt.ConcatChart = alt.concat(panel)
    return look.dressed(page, labels=9)


def picture(counts: Mapping[tuple[str, str], Sequence[int]], names: tuple[str, str], claims: int) -> Picture:
    """Return the map with its data. The parameters are those of `chart`."""
    from anabranch.figures.picture import Picture

    data = [{names[0]: a, names[1]: b, "claims": n} for (a, b), own in counts.items() for n in own]
    return Picture(chart=chart(counts, names, claims), data=data)
