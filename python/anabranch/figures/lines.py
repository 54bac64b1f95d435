"""A metric over a numeric axis: lines with 95 % bands, a colour for each scheduler, small multiples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.figures import colours, look, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

_WIDTH, _HEIGHT = 230, 160
#: The meaning of the band, below the title of the vertical axis.
BAND = "band: 95 % interval"
#: The most panels in a row.
_COLUMNS = 3


@look.unchecked
def lines(
    parts: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    across: str,
    panel: str | None,
    colour: str,
    log: bool,
) -> alt.VConcatChart:
    """Return metrics over a numeric axis, one metric below the other.

    Parameters
    ----------
    parts
        The points by metric: `x`, `mean`, `low`, `high`, `line` (the name of the line), `colour` (what its
        colour shows) and, with small multiples, `panel`.
    across
        The title of the axis.
    panel
        The title of the small multiples; None draws one panel.
    colour
        The title of the colours.
    log
        Whether the axis is logarithmic.
    """
    import altair as alt

    rows = [_metric(name, points, across, panel, colour, log=log) for name, points in parts.items()]
    page: alt.VConcatChart = alt.vconcat(*rows).resolve_scale(y="independent")
    return look.dressed(page, labels=9)


def _metric(
    name: str,
    points: Sequence[Mapping[str, Any]],
    across: str,
    panel: str | None,
    colour: str,
    *,
    log: bool,
) -> alt.LayerChart | alt.FacetChart:
    """Return one metric."""
    import altair as alt

    found = colours.of_lines([str(row["colour"]) for row in points])
    scale = alt.Scale(domain=list(found), range=list(found.values()))
    x_scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=False, padding=6)
    # Narrow panels have no room for a title each: the title of small multiples is below all of them.
    x = alt.X(
        "x:Q", title=across if panel is None else None, scale=x_scale, axis=alt.Axis(tickCount=6, grid=False)
    )
    base = alt.Chart(look.values(points))
    legend = None if not colour else alt.Legend(symbolOpacity=1, titleFontWeight="normal")
    shown = alt.Color("colour:N", title=colour, scale=scale, sort=None, legend=legend)
    # Rates, counts and times begin at zero.
    y = alt.Y("mean:Q", title=_titles(name, points), scale=alt.Scale(zero=True, nice=True))
    # Marks and dashes distinguish lines in a grey print. They follow the colour unless lines need more.
    several = len({row["line"] for row in points}) > len(found)
    marks = colours.of_schedulers(list(found))
    dashed = (
        alt.StrokeDash("line:N", title=None, sort=None)
        if several
        else alt.StrokeDash(
            "colour:N",
            title=colour,
            scale=alt.Scale(domain=list(found), range=[list(one) for one in colours.of_dashes(found)]),
            sort=None,
            # The marks of the legend would have dashed borders.
            legend=None,
        )
    )
    shape = alt.Shape(
        "colour:N",
        title=colour,
        scale=alt.Scale(domain=list(marks), range=list(marks.values())),
        sort=None,
        legend=legend,
    )
    band = base.mark_area(opacity=0.18).encode(
        x=x, y=alt.Y("low:Q", title=""), y2="high:Q", color=shown, detail="line:N"
    )
    line = base.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=shown, detail="line:N", strokeDash=dashed)
    dots = base.mark_point(filled=True, size=38, opacity=1).encode(
        x=x, y=y, color=shown, shape=shape, detail="line:N"
    )
    chart = alt.layer(band, line, dots).properties(width=_WIDTH, height=_HEIGHT)
    if panel is None:
        return chart
    head = alt.Facet(
        "panel:N",
        title=panel,
        sort=_panels(points),
        header=alt.Header(labelFontSize=10, titleFontWeight="normal", labelPadding=4, titlePadding=4),
    )
    below = alt.TitleParams(across, orient="bottom", fontWeight="normal", color="#333333")
    return chart.facet(head, columns=_COLUMNS).properties(title=below)


def _titles(name: str, points: Sequence[Mapping[str, Any]]) -> str | list[str]:
    """Return the title of the vertical axis, with the meaning of the band if there is one."""
    has_band = any(row["low"] is not None and row["low"] < row["high"] for row in points)
    title = words.metric(name)
    return [title, BAND] if has_band else title


def _panels(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the small multiples in their order: that of their numbers, if they have numbers."""
    names = list(dict.fromkeys(str(row["panel"]) for row in points))
    found = words.numbers(names)
    if found is None:
        return names
    return [name for _, name in sorted(zip(found[0], names, strict=True))]
