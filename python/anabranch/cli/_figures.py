"""`anabranch study figures` and `study why`: a study's results as figures with their numbers, and causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.cli import _console
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.figures.picture import Picture
    from anabranch.figures.sizes import Size


def figures(results: Path, out: Path, *, first: bool, budget: int | None, workers: int | None) -> None:
    """Draw every figure for which the results have numbers.

    Parameters
    ----------
    results, out
        The results, and the folder for figures.
    first
        Also the first trial of each cell over time: it is run again unless its trace was kept.
    budget
        Also what each cell carries of bulk data, by so many runs.
    workers
        The number of processes for these runs; None for one per core.
    """
    from anabranch import _extras
    from anabranch.cli import _sweep
    from anabranch.experiments import drawn

    _extras.figures()
    _sweep.left_out(results, shown_by=f"anabranch results {results} --earlier")
    made = drawn.every(results)
    if first:
        with _console.progress("opening first trials", unit="runs") as progress:
            made |= drawn.first_trials(results, progress)
    if budget is not None:
        made["budget"] = _budget(results, trials=budget, workers=workers)
    if not made:
        message = "no figure has numbers in these results"
        raise InputError([Fault(message=message, where=str(results))])
    out.mkdir(parents=True, exist_ok=True)
    for name, picture in made.items():
        picture.save_all(out / f"{name}.svg")
    _console.note(f"{len(made)} figures, each as SVG, PNG and CSV, in {out}")


def size(figure: Path | None, width: str | None, points: float | None) -> tuple[Size | None, list[Fault]]:
    """Return the size of a figure in a paper, None for that on a screen, and the faults of the options."""
    from anabranch.figures import sizes
    from anabranch.figures.picture import wrong_width

    given = [option for option, value in (("--width", width), ("--font-size", points)) if value is not None]
    if not given:
        return None, []
    faults = []
    if figure is None:
        faults.append(Fault(message="a size needs a figure", where=given[0], hint="add --figure FILE"))
    wide = sizes.parse(width or "ieee")
    if wide is None:
        faults.append(wrong_width(str(width), "--width"))
    return None if wide is None else sizes.Size(width_cm=wide, points=points or sizes.POINTS), faults


def check_files(
    figure: Path | None, report: Path | None, table: Path | None = None, more: Sequence[Fault] = ()
) -> None:
    """Refuse files that cannot be written, before any work is done for them.

    Raises
    ------
    InputError
        With every fault.
    MissingError
        If the packages that draw figures are missing.
    """
    from anabranch.cli import _outputs

    outputs = [] if report is None else [(report, "--report")]
    faults: list[Fault | None] = [*more]
    if table is not None:
        from anabranch.results import written

        faults.append(written.unfit(table, "--table"))
        outputs.append((table, "--table"))
    if figure is not None:
        from anabranch import _extras
        from anabranch.figures.picture import FORMS, unfit

        _extras.figures()
        faults.append(unfit(figure, "--figure"))
        usual = [form for form in FORMS if form != ".pdf" or figure.suffix == form]
        outputs += [(figure.with_suffix(form), "--figure") for form in usual]
    faults += [_outputs.unwritable(path, option) for path, option in outputs]
    found = list(dict.fromkeys(fault for fault in (*faults, *_outputs.twice(outputs)) if fault is not None))
    if found:
        raise InputError(found)


def write(
    results: Path,
    figure: Path | None,
    report: Path | None,
    *,
    metrics: Sequence[str] = (),
    size: Size | None = None,
) -> None:
    """Write a figure of some metrics, and the page of a folder of results.

    Parameters
    ----------
    results
        The results.
    figure, report
        The files; None is none.
    metrics
        The metrics to draw; if empty, the first that matters.
    size
        The size of the figure in a paper; None is that on a screen.
    """
    if figure is not None:
        from anabranch.experiments import drawn

        picture = drawn.of_metrics(results, metrics)
        for note in picture.notes:
            _console.note(f"figure: {note}")
        files = replace(picture, size=size).save_all(figure)
        _console.note(f"figure: {', '.join(map(str, files))}")
    if report is not None:
        from anabranch.experiments import page

        with _console.progress("writing the report"):
            page.write(report, results)
        _console.note(f"report: {report}")


def _budget(results: Path, *, trials: int, workers: int | None) -> Picture:
    """Run what is missing of the bulk runs; return their figure and its numbers."""
    from anabranch.cli import _sweep
    from anabranch.experiments import drawn
    from anabranch.figures.picture import Picture
    from anabranch.study import budget

    place = budget.place(results)
    _sweep.make(
        budget.sweep(results, trials=trials),
        _sweep.How(workers=workers, dask=None, shard=None, out=place),
    )
    rows, taken = drawn.runs(place), budget.taken(results)
    table = [
        {**cell, **{f"takes_{name}_mbps": rate for name, rate in taken[cell["row"]].items()}}
        for cell in drawn.cells(rows, (drawn.CARRIED,))
    ]
    return Picture(chart=drawn.bars(rows, drawn.CARRIED, marks=taken).chart, data=table)


def causes(results: Path, *, trials: int) -> None:
    """Find and print the causes of freezes, discards and steps down."""
    from anabranch.claims.page import shares
    from anabranch.cli import _sweep
    from anabranch.why import stored

    _sweep.left_out(results, shown_by=f"anabranch results {results} --earlier")
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
