"""Converts panels to HTML with SVG that is readable at any width.

The plot of a panel is an SVG that is stretched; its units are seconds and the panel's own. All texts are
outside the SVG and are placed by shares of the width, so that they are not stretched. The script reads the
curves from their points, so no number is in the file twice.
"""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from anabranch._numbers import decimal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.report._panels import Band, Curve, Figure, Panel, Row

#: The approximate number of ticks of an axis.
_ACROSS, _UP = 8, 4
#: The width for which labels of changes are placed, and that of a letter, in pixels.
_WIDTH, _LETTER = 620, 6.0
#: The largest number of labels above a panel. If there are more, they are only in the list.
_LABELS = 12


def figure(made: Figure) -> Markup:
    """Return a figure as HTML."""
    panels = "".join(_panel(panel, made) for panel in made.panels)
    return Markup('<div class="plots" data-until="{}">{}</div>').format(_number(made.until_s), Markup(panels))


def _panel(panel: Panel, made: Figure) -> str:
    """Return a panel: heading, plot and axes."""
    legend = "".join(
        f'<li><i class="swatch {escape(kind)}"></i>{escape(word)}</li>' for kind, word in panel.legend
    )
    seen = set()
    for curve in panel.curves:
        if curve.name not in seen:
            seen.add(curve.name)
            legend += (
                f'<li data-of="{escape(curve.name)}"><i class="stroke {curve.colour} {curve.kind}"></i>'
                f"{escape(curve.name)}<b></b></li>"
            )
    unit = f", {panel.unit}" if panel.unit else ""
    labels, room = _labels(made) if panel.labelled else ("", 0)
    plot = _curves(panel.curves, made) if panel.curves or not panel.rows else _rows(panel.rows, made)
    note = f'<p class="key">{escape(panel.note)}</p>' if panel.note else ""
    return (
        f'<section class="panel" data-unit="{escape(panel.unit)}" aria-label="{escape(panel.title)}">'
        f'<header><h3>{escape(panel.title)}<small>{escape(unit)}</small></h3><ul class="legend">{legend}</ul>'
        f'</header><div class="frame" style="--labels:{room}">{labels}{plot}</div>{note}</section>'
    )


def _curves(curves: Sequence[Curve], made: Figure) -> str:
    """Return a plot of curves over a scale from nothing."""
    highest = max((value for curve in curves for _, value in curve.points), default=0.0) or 1.0
    step = nice(highest / _UP)
    # If the next tick is near, the axis extends to it. Otherwise a thin curve would lie on the frame.
    top = max(highest * 1.04, step)
    until = _number(made.until_s)
    ticks = [place * step for place in range(int(top / step + 1e-9) + 1)]
    lines = "".join(f'<path class="grid" d="M0 {_number(at)}H{until}"/>' for at in ticks)
    words = "".join(f'<span style="bottom:{100 * at / top:.2f}%">{tick(at, step)}</span>' for at in ticks)
    marks = "".join(_curve(curve) for curve in curves)
    return (
        f'<div class="y">{words}</div><div class="plot">'
        f'<svg viewBox="0 0 {until} {_number(top)}" preserveAspectRatio="none" aria-hidden="true">'
        f'<g transform="matrix(1 0 0 -1 0 {_number(top)})">{_behind(made, top)}{lines}{marks}</g></svg>'
        f"{_across(made.until_s)}</div>"
    )


def _curve(curve: Curve) -> str:
    """Return a curve."""
    points = [f"{_number(time)},{_number(value)}" for time, value in curve.points]
    if curve.kind == "area" and points:
        points = [f"{points[0].partition(',')[0]},0", *points, f"{points[-1].partition(',')[0]},0"]
    shape = "polygon" if curve.kind == "area" else "polyline"
    return (
        f'<{shape} class="{curve.kind} {curve.colour}" data-name="{escape(curve.name)}" '
        f'points="{" ".join(points)}"/>'
    )


def _rows(rows: Sequence[Row], made: Figure) -> str:
    """Return a plot of rows of bands; each kind of a row is one path."""
    until, marks, numbers = _number(made.until_s), "", ""
    for place, row in enumerate(rows):
        for kind in dict.fromkeys(band.kind for band in row.bands):
            if kind == "frozen":
                continue
            own = "".join(_box(band, place) for band in row.bands if band.kind == kind)
            marks += f'<path class="band {kind}" data-name="{escape(row.name)}" d="{own}"/>'
        for band in row.bands:
            if band.kind == "frozen":
                name, says = escape(row.name), escape(band.says)
                marks += (
                    f'<path class="band frozen" data-name="{name}" data-says="{says}" '
                    f'd="{_box(band, place)}"><title>{says}</title></path>'
                )
            if band.number is not None:
                at = f"left:{_share(band.from_s, made)};top:{100 * (place + 0.5) / len(rows):.1f}%"
                begun = _number(band.from_s)
                numbers += f'<b class="mark" data-at="{begun}" style="{at}">{band.number}</b>'
    words = "".join(
        f'<span style="bottom:{100 * (len(rows) - place - 0.5) / len(rows):.1f}%" title="{escape(row.name)}">'
        f"{escape(row.name)}</span>"
        for place, row in enumerate(rows)
    )
    return (
        f'<div class="y names">{words}</div><div class="plot rows" style="--rows:{len(rows)}">'
        f'<svg viewBox="0 0 {until} {len(rows)}" preserveAspectRatio="none" aria-hidden="true">'
        f"{_behind(made, len(rows), stalls=not numbers)}{marks}</svg>{numbers}{_across(made.until_s)}</div>"
    )


def _box(band: Band, place: int) -> str:
    """Return a band as a piece of a path."""
    wide = max(band.to_s - band.from_s, 0.0)
    return f"M{_number(band.from_s)} {place + 0.12:g}h{_number(wide)}v.76h-{_number(wide)}z"


def _behind(made: Figure, top: float, *, stalls: bool = True) -> str:
    """Return the vertical lines of changes, and the shaded freezes unless the panel draws its own."""
    height = _number(top)
    shades = "".join(
        f"M{_number(one.from_s)} 0h{wide}v{height}h-{wide}z"
        for one, wide in ((one, _number(one.to_s - one.from_s)) for one in made.stalls)
    )
    rules = "".join(f"M{_number(at)} 0v{height}" for at in dict.fromkeys(row["t_s"] for row in made.changes))
    return (f'<path class="stall" d="{shades}"/>' if shades and stalls else "") + (
        f'<path class="change" d="{rules}"/>' if rules else ""
    )


def _across(until_s: float) -> str:
    """Return the axis of time: ticks with their words below."""
    step = nice(until_s / _ACROSS)
    ticks = [place * step for place in range(int(until_s / step + 1e-9) + 1)]
    words = "".join(
        f'<i style="left:{100 * at / until_s:.2f}%"><span>{tick(at, step)} s</span></i>' for at in ticks
    )
    return f'<div class="x" aria-hidden="true">{words}</div>'


def _labels(made: Figure) -> tuple[str, int]:
    """Return labels for the changes of the world, on as many lines as necessary to avoid overlaps."""
    if len(made.changes) > _LABELS:
        return "", 0
    ends: list[float] = []
    words = ""
    for row in made.changes:
        wide = len(row["label"]) * _LETTER
        at = _WIDTH * row["t_s"] / made.until_s
        turned = at + wide > _WIDTH
        begin = at - wide if turned else at
        line = next((line for line, end in enumerate(ends) if end <= begin), len(ends))
        ends[line : line + 1] = [begin + wide]
        side = ' class="turned"' if turned else ""
        words += (
            f'<span{side} data-at="{_number(row["t_s"])}" '
            f'style="left:{_share(row["t_s"], made)};bottom:{line * 1.2:g}em">{escape(row["label"])}</span>'
        )
    return f'<div class="labels" aria-hidden="true">{words}</div>' if words else "", len(ends)


def _share(at_s: float, made: Figure) -> str:
    """Return a moment as a share of the width."""
    return f"{100 * at_s / made.until_s:.2f}%"


def nice(least: float) -> float:
    """Return the smallest number of the series ..., 0.5, 1, 2, 5, 10, ... that is not below a value."""
    power = 10.0 ** floor(log10(least)) if least > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def tick(at: float, step: float) -> str:
    """Return a tick's number, with as many decimals as the step has."""
    decimals = max(0, -floor(log10(step) + 1e-9)) if step < 1 else 0
    return f"{at:,.{decimals}f}"


def _number(value: float) -> str:
    """Return a number with at most three decimal places; minus zero is zero."""
    return decimal(value, 3) if value else "0"
