"""The figures of a folder of results, each with the numbers that it shows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from anabranch._intervals import half_width
from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.figures.picture import Picture
from anabranch.results import worlds
from anabranch.results.worlds import WORLD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from anabranch.experiments.axes import Axes
    from anabranch.figures.study import Row

#: The columns that distinguish the cells of figures.
_CELL = ("row", "series", "control", "scheduler")
#: Figures of each path: name and column. All connections of a path count together.
BY_FLOW = {"retransmissions-by-flow": "retransmissions", "throughput-by-flow": "throughput_mbps"}
#: The words between a metric and the numeric axis in the name of a study's figure.
OVER = "-over-"
#: The column with a cell's goodput with bulk data.
CARRIED = "goodput_mbps"
#: Columns that only runs with a player have. Without them, goodput is drawn too.
_PLAYED = ("picture_discards", "resolution_mean")


def every(results: Path, *, dots: bool = True) -> dict[str, Picture]:
    """Return every figure of means for which the results have numbers, by name.

    Parameters
    ----------
    results
        The results.
    dots
        Whether bars have a dot for each trial.

    Raises
    ------
    InputError
        When the folder holds no results.
    """
    from anabranch.figures import study

    rows = runs(results)
    played = any(_has(rows, name) for name in _PLAYED)
    made = _means(results, rows, study.BARS if played else (CARRIED, *study.BARS), dots=dots)
    flows = [{**row, "path": path, **own} for row in rows for path, own in row["paths"].items()]
    for name, metric in BY_FLOW.items():
        known = [row for row in flows if row[metric] is not None]
        if known:
            known = _trials(known, (metric,), ("row", "series", "control", "scheduler", "path"))
            numbers = _plain(known, ("path", metric))
            made[name] = Picture(chart=study.flows(known, metric, dots=dots), data=numbers)
    for name, across, up, turned in study.CROSSES:
        own = cells([row for row in rows if None not in (row.get(across), row.get(up))], (across, up))
        # Against a metric that is zero in every cell, all marks would lie on one line.
        if own and all(any(cell[metric] for cell in own) for metric in (across, up)):
            made[name] = Picture(chart=study.cross(own, across, up, turned=turned), data=own)
    return made | _over_differences(rows)


def _means(results: Path, rows: Sequence[Row], metrics: Sequence[str], *, dots: bool) -> dict[str, Picture]:
    """Return a figure of each metric that is not zero in every run: lines over a numeric axis, or bars."""
    from anabranch.experiments import axes
    from anabranch.results import store

    labels, exact = store.made(results).labels, store.made(results).exact
    # A metric that is zero in every run would have an empty panel.
    shown = [name for name in metrics if _has(rows, name) and any(row.get(name) for row in rows)]
    made: dict[str, Picture] = {}
    for over, (own, found) in _by_axis(rows, labels).items():
        for name in shown:
            if not any(row.get(name) for row in own):
                continue
            title = name.replace("_", "-")
            if found is None:
                made[title] = bars(own, name, dots=dots)
            else:
                # A study has bars of its other rows under the metric's own name.
                title += OVER + over.replace(".", "--") if "row" in labels else ""
                made[title] = axes.picture(own, [name], found, exact=exact)
    return made


def _over_differences(rows: Sequence[Row]) -> dict[str, Picture]:
    """Return an adaptive player's quality over the differences between paths, if two cells have them."""
    from anabranch.figures import differences

    made = {}
    for name, across in differences.DIFFERENCES.items():
        known = [row for row in rows if row[across] is not None and row.get("resolution_mean") is not None]
        shown = [one for one in differences.QUALITY if _has(known, one)]
        own = cells([row for row in known if all(row[one] is not None for one in shown)], (across, *shown))
        if len(own) > 1:
            made[name] = Picture(chart=differences.chart(own, across), data=own)
    return made


def _by_axis(rows: Sequence[Row], labels: Sequence[str]) -> dict[str, tuple[list[Row], Axes | None]]:
    """Return the runs by the numeric axis over which they are drawn; under an empty name those without one.

    The rows of a study have different grids. If assumptions vary, all runs are drawn as bars.
    """
    from anabranch.experiments import axes

    grid = [name for name in labels if name not in ("row", "varied", WORLD)]
    varies = len({row.get("varied") for row in rows}) > 1
    groups: dict[str, list[Row]] = {"": []}
    for name in dict.fromkeys(row["row"] for row in rows):
        own = [row for row in rows if row["row"] == name]
        found = None if varies else axes.of(own, _known(own, grid))
        groups.setdefault("" if found is None else found.x, []).extend(own)
    return {
        name: (own, axes.of(own, _known(own, grid)) if name else None) for name, own in groups.items() if own
    }


def _known(rows: Sequence[Row], labels: Sequence[str]) -> list[str]:
    """Return the keys of a grid that all runs have."""
    return [name for name in labels if all(row.get(name) is not None for row in rows)]


def bars(
    rows: Sequence[Row],
    metric: str,
    *,
    marks: Mapping[str, Mapping[str, float]] | None = None,
    dots: bool = True,
) -> Picture:
    """Return a metric as bars, of runs that have it; `marks` and `dots` are those of `figures.study.bars`."""
    from anabranch.figures import study

    own = [row for row in rows if row.get(metric) is not None]
    each = _trials(own, (metric,))
    chart = study.bars(each, cells(own, (metric,)), metric, marks=marks, dots=dots)
    return Picture(chart=chart, data=_plain(each, (metric,)))


def of_metrics(results: Path, metrics: Sequence[str] = ()) -> Picture:
    """Return metrics one below the other: lines over a numeric axis of the grid, else bars.

    Lines have 95 % bands. Bars have 95 % intervals, and a dot for each trial. A metric that is the same in
    every run is left out and named in the picture's `notes`.

    Parameters
    ----------
    results
        The results.
    metrics
        Columns of `runs`. If empty, the first column that the runs have, in order of importance.

    Raises
    ------
    InputError
        When a column does not exist, is not numeric, no run has it, or all are zero in every run.
    """
    from anabranch.experiments import axes
    from anabranch.figures import study
    from anabranch.results import store
    from anabranch.results.summary import SHOWN

    rows = runs(results)
    known = [name for name in dict.fromkeys(name for row in rows for name in row) if _has(rows, name)]
    faults = [
        Fault(
            message=f"no such column of numbers: `{name}`", where="--metric", hint=did_you_mean(name, known)
        )
        for name in metrics
        if name not in known
    ]
    if faults:
        raise InputError(faults)
    wanted = list(metrics) or [name for name in SHOWN if name in known]
    chosen, notes = _varying(rows, wanted)
    chosen = chosen if metrics else chosen[:1]
    if not chosen:
        message = "; ".join(notes) or "no figure has numbers in these results"
        raise InputError([Fault(message=message, where=str(results))])
    notes = notes if metrics else []
    labels = [name for name in store.made(results).labels if name not in ("row", "varied", WORLD)]
    found = axes.of(rows, [name for name in labels if name in rows[0]])
    if found is not None:
        return axes.picture(rows, chosen, found, notes, store.made(results).exact)
    if len(chosen) == 1:
        return replace(bars(rows, chosen[0]), notes=tuple(notes))
    parts = []
    for name in chosen:
        own = [row for row in rows if row.get(name) is not None]
        parts.append((_trials(own, (name,)), cells(own, (name,)), name))
    data = _plain(_trials(rows, chosen), chosen)
    return Picture(chart=study.stacked(parts), data=data, notes=tuple(notes))


def _varying(rows: Sequence[Row], metrics: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the metrics that differ between runs, and notes about the others.

    If none differs, the metrics that are not zero are kept: bars of equal height are still a figure.
    """
    values = {name: {row[name] for row in rows if row.get(name) is not None} for name in metrics}
    varying = [name for name in metrics if len(values[name]) > 1]
    kept = varying or [name for name in metrics if values[name] != {0}]
    notes = [
        f"left out, {next(iter(values[name]))} in every run: {name}" for name in metrics if name not in kept
    ]
    return kept, notes


def _has(rows: Sequence[Row], name: str) -> bool:
    """Return whether a column is numeric and has a value in at least one run."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def first_trials(results: Path, progress: Callable[[float, float], None]) -> dict[str, Picture]:
    """Return figures over time of each cell's first trial, which is repeated unless its trace was stored.

    Parameters
    ----------
    results
        The results.
    progress
        Called with the number of trials done, and of all trials.
    """
    from anabranch.figures import _data
    from anabranch.figures import first_trials as trials
    from anabranch.study.stored import open_run

    first = [row for row in runs(results) if row["run"] == 0 and row.get(WORLD) in (None, "0")]
    drawn: dict[tuple[trials.Curve, str], list[Row]] = defaultdict(list)
    screens: list[Row] = []
    for count, row in enumerate(first, start=1):
        tables = open_run(results, row["identity"]).tables
        name = {"row": row["row"], "series": row["series"]}
        for curve in trials.CURVES:
            drawn[curve, row["row"]] += [{**name, **one} for one in curve.points(tables, 0)]
        shown = trials.on_screen(_data.renditions(tables, 0), _data.stalls(tables, 0))
        screens += [{**name, **one} for one in shown]
        progress(count, len(first))
    made: dict[str, Picture] = {
        f"{curve.name}-{row}": Picture(chart=trials.curves(own, curve.column, curve.title), data=own)
        for (curve, row), own in drawn.items()
        if own
    }
    if screens:
        made["resolution"] = Picture(chart=trials.bands(screens), data=screens)
    return made


def runs(results: Path, *, varied: str | None = None) -> list[Row]:
    """Return the runs of a folder, with the columns that figures need.

    Parameters
    ----------
    results
        The results.
    varied
        The varied assumption of the runs; None returns those without any.
    """
    from anabranch import plugins
    from anabranch.figures import differences
    from anabranch.results import store
    from anabranch.results.read import present_runs

    labels = [name for name in store.made(results).labels if name not in ("row", "varied", WORLD)]
    subflows: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for flow in present_runs(results, "subflows").iter_rows(named=True):
        subflows[flow["cell"], flow["run"]].append(flow)
    frame = present_runs(results)
    several = [name for name in labels if frame[name].n_unique() > 1]
    named = [frame[name].unique(maintain_order=True) for name in ("scheduler", "congestion", *labels)]
    short = plugins.short(value for column in named for value in column if isinstance(value, str))
    rows = []
    for row in frame.iter_rows(named=True):
        flows = subflows[row["cell"], row["run"]]
        if row.get("varied") == varied:
            paths = _paths(flows, row.get("duration_s"))
            rows.append(
                {
                    **row,
                    "row": row.get("row", row["scenario"]),
                    "series": " ".join(
                        _said(name, short.get(row[name], row[name]))
                        for name in several
                        if row[name] is not None
                    )
                    or short[row["congestion"]],
                    "control": short[row["congestion"]],
                    "scheduler": short[row["scheduler"]],
                    "paths": paths,
                    **differences.between(paths),
                    "srtt_ms": _weighted(flows),
                    "stalled_share": _stalled(row),
                }
            )
    return rows


def _paths(flows: Sequence[Row], duration_s: float | None) -> dict[str, Row]:
    """Return each path's retransmissions, throughput over the session, and mean RTT."""
    by_path: dict[str, list[Row]] = defaultdict(list)
    for flow in flows:
        by_path[flow["path"]].append(flow)
    return {
        path: {
            "retransmissions": sum(flow["retransmissions"] for flow in own),
            "throughput_mbps": sum(flow["bytes"] for flow in own) * 8 / 1e6 / duration_s
            if duration_s
            else None,
            "srtt_ms": _weighted(own),
        }
        for path, own in by_path.items()
    }


def _said(name: str, value: object) -> str:
    """Return the short text of an axis value; a flag is shown by its name."""
    short = name.rpartition(".")[2]
    return f"{short} {str(value).lower()}" if isinstance(value, bool) else str(value)


def _weighted(flows: Sequence[Row]) -> float | None:
    """Return the mean RTT of all bytes: the RTT of each subflow, weighted by its bytes."""
    known = [(flow["bytes"], flow["srtt_ms_mean"]) for flow in flows if flow["srtt_ms_mean"] is not None]
    total = sum(count for count, _ in known)
    return sum(count * delay for count, delay in known) / total if total else None


def _stalled(row: Row) -> float | None:
    """Return the share of an adaptive session without progress, in per cent."""
    stalled, whole = row.get("rebuffer_total_s"), row.get("total_s")
    return None if stalled is None or not whole else 100 * stalled / whole


def cells(rows: Sequence[Row], metrics: Sequence[str]) -> list[Row]:
    """Return the cells: means over runs or drawn worlds, with half their 95 % intervals by Student's t."""
    result = []
    for (name, series, control, scheduler), own in _grouped(rows, _CELL).items():
        each = worlds.trials(own, metrics)
        cell: Row = {
            "row": name,
            "series": series,
            "control": control,
            "scheduler": scheduler,
            "runs": len(own),
        }
        for metric in metrics:
            values = [float(row[metric]) for row in each]
            cell[metric] = fmean(values)
            cell[f"{metric}_ci95"] = half_width(values)
        result.append(cell)
    return result


def _grouped(rows: Sequence[Row], by: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """Return rows by some of their columns."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in by)].append(row)
    return groups


def _trials(rows: Sequence[Row], metrics: Sequence[str], by: Sequence[str] = _CELL) -> list[Row]:
    """Return a row for each trial of each cell, for dots and numbers."""
    if all(row.get(WORLD) is None for row in rows):
        return list(rows)
    return [row for own in _grouped(rows, by).values() for row in worlds.trials(own, metrics)]


def _plain(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Return the numbers of a figure: of each run, or of each drawn world."""
    return [
        {
            name: row.get(name)
            for name in ("row", "series", "run" if row.get(WORLD) is None else WORLD, *names)
        }
        for row in rows
    ]
