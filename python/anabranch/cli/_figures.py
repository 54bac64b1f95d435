"""`anabranch study figures` and `study why`: a study's results as figures with their numbers, and causes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from anabranch.cli import _console
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import altair as alt

    from anabranch.figures.study import Row

#: Pixels of a PNG for one of a screen.
_SCALE = 2
#: What a cell carries of bulk data.
_CARRIED = "goodput_mbps"


#: A figure, and the numbers that stand beside it.
Made = tuple["alt.ConcatChart", "Sequence[Row]"]


def figures(results: Path, out: Path, *, first: bool, budget: int | None, workers: int | None) -> None:
    """Write every figure that the results have the numbers for.

    Parameters
    ----------
    results, out
        The results, and the folder for figures.
    first
        Also the first trial of each cell over time: it is run again unless its trace was kept.
    budget
        Also what each cell carries of bulk data, by so many runs.
    workers
        Processes for the runs of the budget; None is one a core.
    """
    from anabranch.figures import study

    rows = _rows(results)
    made: dict[str, Made] = {}
    for metric in study.BARS:
        own = [row for row in rows if row.get(metric) is not None]
        if own:
            chart = study.bars(own, _cells(own, (metric,)), metric)
            made[metric.replace("_", "-")] = (chart, _plain(own, (metric,)))
    flows = [
        {**row, "path": path, "retransmissions": count}
        for row in rows
        for path, count in row["paths"].items()
    ]
    if flows:
        made["retransmissions-by-flow"] = (study.flows(flows), _plain(flows, ("path", "retransmissions")))
    for name, across, up, turned in study.CROSSES:
        cells = _cells([row for row in rows if None not in (row.get(across), row.get(up))], (across, up))
        if cells:
            made[name] = (study.cross(cells, across, up, turned=turned), cells)
    if first:
        made |= _first_trials(results, rows)
    if budget is not None:
        made["budget"] = _budget(results, trials=budget, workers=workers)
    if not made:
        message = "no figure has numbers in these results"
        raise InputError([Fault(message=message, where=str(results))])
    out.mkdir(parents=True, exist_ok=True)
    for name, (chart, table) in made.items():
        chart.save(str(out / f"{name}.svg"))
        chart.save(str(out / f"{name}.png"), scale_factor=_SCALE)
        _csv(out / f"{name}.csv", table)
    _console.note(f"{len(made)} figures, each as SVG, PNG and CSV, in {out}")


def _budget(results: Path, *, trials: int, workers: int | None) -> Made:
    """Run what is missing of the bulk runs; return their figure and its numbers."""
    from anabranch.cli import _sweep
    from anabranch.figures import study
    from anabranch.study import budget

    place = budget.place(results)
    _sweep.make(
        budget.sweep(results, trials=trials),
        _sweep.How(workers=workers, dask=None, shard=None, out=place),
    )
    rows, taken = _rows(place), budget.taken(results)
    cells = _cells(rows, (_CARRIED,))
    table = [
        {**cell, **{f"takes_{name}_mbps": rate for name, rate in taken[cell["row"]].items()}}
        for cell in cells
    ]
    return study.bars(rows, cells, _CARRIED, marks=taken), table


def _first_trials(results: Path, rows: Sequence[Row]) -> dict[str, Made]:
    """Return the figures of the first trial of each cell over time."""
    from anabranch.figures import _data, first_trials
    from anabranch.study.stored import open_run

    first = [row for row in rows if row["run"] == 0]
    drawn: dict[tuple[first_trials.Curve, str], list[Row]] = defaultdict(list)
    screens: list[Row] = []
    with _console.progress("opening first trials", unit="runs") as progress:
        for count, row in enumerate(first, start=1):
            tables = open_run(results, row["identity"]).tables
            name = {"row": row["row"], "series": row["series"]}
            for curve in first_trials.CURVES:
                drawn[curve, row["row"]] += [{**name, **one} for one in curve.points(tables, 0)]
            shown = first_trials.on_screen(_data.renditions(tables, 0), _data.stalls(tables, 0))
            screens += [{**name, **one} for one in shown]
            progress(count, len(first))
    made: dict[str, Made] = {
        f"{curve.name}-{row}": (first_trials.curves(own, curve.column, curve.title), own)
        for (curve, row), own in drawn.items()
        if own
    }
    if screens:
        made["resolution"] = (first_trials.bands(screens), screens)
    return made


def causes(results: Path, *, trials: int) -> None:
    """Find and print the causes of freezes, discards and steps down."""
    from anabranch.claims.page import shares
    from anabranch.why import stored

    with _console.progress("running again", unit="runs") as progress:
        stored.make(results, trials=trials, progress=progress)
    lines = [
        (row, control, str(group["runs"]), *(shares(group[name]) for name in stored.KINDS))
        for (row, control), group in stored.groups(results).items()
    ]
    if not lines:
        message = "no run plays a film: there are no freezes, discards or steps down to explain"
        raise InputError([Fault(message=message, where=str(results))])
    heads = ("row", "control", "runs", "frozen, s a run", "discards a run", "steps down a run")
    _console.table(heads, lines, left=6)


def _rows(results: Path) -> list[Row]:
    """Return the runs of a study as it stands, with what figures need of each."""
    from anabranch.results import load, store

    labels = [name for name in store.made(results).labels if name not in ("row", "varied")]
    if not labels and not store.made(results).labels:
        message = "the results have no rows or axes, as those of a study have"
        raise InputError([Fault(message=message, where=str(results))])
    paths: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    delays: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for flow in load(results, "subflows").iter_rows(named=True):
        key = (flow["cell"], flow["run"])
        paths[key][flow["path"]] += flow["retransmissions"]
        if flow["srtt_ms_mean"] is not None:
            delays[key].append((flow["bytes"], flow["srtt_ms_mean"]))
    frame = load(results)
    several = [name for name in labels if frame[name].n_unique() > 1]
    rows = []
    for row in frame.iter_rows(named=True):
        key = (row["cell"], row["run"])
        if row.get("varied") is None:
            rows.append(
                {
                    **row,
                    "row": row.get("row", row["scenario"]),
                    "series": " ".join(_said(name, row[name]) for name in several if row[name] is not None)
                    or row["congestion"],
                    "control": row["congestion"],
                    "scheduler": row["scheduler"],
                    "paths": dict(paths[key]),
                    "srtt_ms": _weighted(delays[key]),
                    "stalled_share": _stalled(row),
                }
            )
    return rows


def _said(name: str, value: object) -> str:
    """Return a value of an axis in short: of a flag with its name."""
    short = name.rpartition(".")[2]
    return f"{short} {str(value).lower()}" if isinstance(value, bool) else str(value)


def _weighted(delays: Sequence[tuple[float, float]]) -> float | None:
    """Return the mean RTT of what was sent: each path's by its bytes."""
    total = sum(count for count, _ in delays)
    return sum(count * delay for count, delay in delays) / total if total else None


def _stalled(row: Row) -> float | None:
    """Return the share of an adaptive session in which nothing moved, in per cent."""
    stalled, whole = row.get("rebuffer_total_s"), row.get("total_s")
    return None if stalled is None or not whole else 100 * stalled / whole


def _cells(rows: Sequence[Row], metrics: Sequence[str]) -> list[Row]:
    """Return the cells: means with half the width of their 95 % intervals by Student's t."""
    import numpy as np
    from scipy.stats import t

    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["row"], row["series"], row["control"], row["scheduler"]].append(row)
    result = []
    for (name, series, control, scheduler), own in groups.items():
        cell: Row = {
            "row": name,
            "series": series,
            "control": control,
            "scheduler": scheduler,
            "runs": len(own),
        }
        for metric in metrics:
            values = np.array([row[metric] for row in own], dtype=float)
            cell[metric] = float(values.mean())
            spread = float(values.std(ddof=1)) if values.size > 1 else None
            wide = (
                None if spread is None else float(t.ppf(0.975, values.size - 1)) * spread / values.size**0.5
            )
            cell[f"{metric}_ci95"] = wide
        result.append(cell)
    return result


def _plain(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Return what stands beside a figure."""
    return [{name: row[name] for name in ("row", "series", "run", *names)} for row in rows]


def _csv(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows."""
    import csv

    with file.open("w", encoding="utf-8", newline="") as out:
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(out, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
