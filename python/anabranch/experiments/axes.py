"""The axes of a folder's figure: a numeric axis, small multiples, and the lines."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch._intervals import ends, half_width
from anabranch.figures import words
from anabranch.figures.picture import Picture
from anabranch.metrics.score import can_be_negative
from anabranch.results import worlds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from anabranch.figures.study import Row

#: An axis needs this many values to be drawn as a line.
_FEWEST = 3
#: If the largest value is at least this multiple of the smallest, the axis is logarithmic.
_LOG = 30.0
_SCHEDULER, _CONGESTION = "transport.scheduler", "transport.congestion"


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The axes of a figure with lines.

    Attributes
    ----------
    x
        The key on the horizontal axis.
    values
        Its values as numbers.
    unit
        Their unit.
    panel
        The key of the small multiples; None if there is one panel.
    colour
        The key that colours show; None if there is one line.
    others
        The keys that distinguish further lines.
    """

    x: str
    values: Mapping[object, float]
    unit: str
    panel: str | None
    colour: str | None
    others: tuple[str, ...]

    @property
    def is_log(self) -> bool:
        """Whether the horizontal axis is logarithmic."""
        known = sorted(self.values.values())
        return known[0] > 0 and known[-1] / known[0] >= _LOG


def of(rows: Sequence[Row], labels: Sequence[str]) -> Axes | None:
    """Return the axes of a figure with lines; None if no axis of the grid is numeric.

    The numeric axis with the most values is horizontal. Small multiples show a second axis, that with the
    fewest values, or a study's rows. Colours show the scheduler. If it does not vary, they show the
    congestion control or another key.

    Parameters
    ----------
    rows
        The runs.
    labels
        The keys of the grid.
    """
    # In a comparison, `paths` is a label, but in these rows it holds the retransmissions by path.
    plain = [name for name in labels if not isinstance(rows[0][name], dict)]
    several = [name for name in plain if len({row[name] for row in rows}) > 1]
    known: dict[str, tuple[dict[object, float], str]] = {}
    for name in several:
        texts = list(dict.fromkeys(row[name] for row in rows))
        found = words.numbers(texts)
        if found is not None:
            known[name] = (dict(zip(texts, found[0], strict=True)), found[1])
    wide = [name for name in known if len(known[name][0]) >= _FEWEST]
    if not wide:
        return None
    x = max(wide, key=lambda name: len(known[name][0]))
    left = [name for name in several if name != x]
    rest = [name for name in left if name in known]
    panel = "row" if len({row["row"] for row in rows}) > 1 else None
    if panel is None and rest:
        panel = min(rest, key=lambda name: len(known[name][0]))
    lines = [name for name in left if name != panel]
    colour = next((name for name in (_SCHEDULER, _CONGESTION) if name in lines), lines[0] if lines else None)
    return Axes(
        x=x,
        values=known[x][0],
        unit=known[x][1],
        panel=panel,
        colour=colour,
        others=tuple(name for name in lines if name != colour),
    )


def picture(
    rows: Sequence[Row],
    metrics: Sequence[str],
    axes: Axes,
    notes: Sequence[str] = (),
    exact: Collection[str] = (),
) -> Picture:
    """Return metrics as lines over a numeric axis, with 95 % bands.

    Parameters
    ----------
    rows
        The runs.
    metrics
        Columns that vary.
    axes
        The axes.
    notes
        Sentences about parts that are left out.
    exact
        The names of the cells without random draws.
    """
    from anabranch.figures import lines

    keys = [name for name in (axes.x, axes.panel, axes.colour, *axes.others) if name is not None]
    short = plugins.short(row[name] for row in rows for name in keys if isinstance(row.get(name), str))
    parts = {name: _points(rows, name, axes, short, exact) for name in metrics}
    colour = "" if axes.colour is None else words.key(axes.colour)
    panel = None if axes.panel is None else "" if axes.panel == "row" else words.key(axes.panel)
    chart = lines.lines(
        parts, across=words.key(axes.x, axes.unit), panel=panel, colour=colour, log=axes.is_log
    )
    data = [{"metric": name, **{key: row[key] for key in _KEPT}} for name in metrics for row in parts[name]]
    hidden = [sentence for name in metrics for sentence in _coinciding(name, parts[name])]
    return Picture(chart=chart, data=data, notes=(*notes, *hidden))


def _coinciding(metric: str, points: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each set of lines of which only the last is visible."""
    lines: dict[str, dict[tuple[str, float], float]] = defaultdict(dict)
    for row in points:
        lines[row["line"]][row["panel"], row["x"]] = row["mean"]
    same: dict[frozenset[tuple[tuple[str, float], float]], list[str]] = defaultdict(list)
    for line, means in lines.items():
        same[frozenset(means.items())].append(line)
    return [
        f"equal means everywhere, so the lines coincide: {', '.join(names)} ({words.metric(metric)})"
        for names in same.values()
        if len(names) > 1
    ]


#: The columns of a figure's numbers.
_KEPT = ("panel", "line", "x", "mean", "low", "high", "runs")


def _points(
    rows: Sequence[Row], metric: str, axes: Axes, short: Mapping[str, str], exact: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the mean of a metric at each value of the axis, with its interval."""
    groups: dict[tuple[str, str, str, float], list[Row]] = defaultdict(list)
    for row in rows:
        if row.get(metric) is None:
            continue
        colour = "all" if axes.colour is None else _said(row[axes.colour], short)
        line = ", ".join([colour, *(_said(row[name], short) for name in axes.others)])
        panel = "" if axes.panel is None else _said(row[axes.panel], short)
        groups[panel, line, colour, axes.values[row[axes.x]]].append(row)
    result = []
    for (panel, line, colour, x), own in groups.items():
        values = [float(row[metric]) for row in worlds.trials(own, (metric,))]
        mean = sum(values) / len(values)
        # A single run has no interval, unless nothing in its cell is random.
        is_known = len(values) > 1 or all(worlds.is_exact(row, exact) for row in own)
        half = half_width(values) or 0.0
        low, high = ends(mean, half, is_signed=can_be_negative(metric)) if is_known else (None, None)
        result.append(
            {
                "panel": panel,
                "line": line,
                "colour": colour,
                "x": x,
                "mean": mean,
                "low": low,
                "high": high,
                "runs": len(own),
            }
        )
    return sorted(result, key=lambda row: row["x"])


def _said(value: object, short: Mapping[str, str]) -> str:
    """Return the text of an axis value."""
    return str(value).lower() if isinstance(value, bool) else short.get(str(value), str(value))
