"""Runs sweeps and studies from Python: the same runs, in the same folders, as the command line."""

from __future__ import annotations

import shutil
from numbers import Integral
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from anabranch import _progress
from anabranch.errors import Fault, InputError
from anabranch.experiments.read import Results
from anabranch.study import grid as grids
from anabranch.study import measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch._progress import Asked
    from anabranch.scenario._overrides import Override
    from anabranch.study.grid import Axis
    from anabranch.study.sweep import Sweep

#: Default number of runs of each cell of a sweep, as on the command line.
TRIALS = 30


def sweep(
    scenario: str | Path | Mapping[str, Any],
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    trials: int = TRIALS,
    seed: int | None = None,
    scheduler: str | type | Mapping[str, Any] | None = None,
    congestion: str | type | Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name that the command line has
    keep: Sequence[str] = (),
    keep_trace: bool = False,
    out: str | Path | None = None,
    workers: int | None = None,
    dask: str | None = None,
    progress: Asked = None,
) -> Results:
    """Run a scenario many times with every combination of the values of some keys.

    The runs are the same as those of `anabranch sweep`, byte for byte. Each can continue the other's folder.

    Parameters
    ----------
    scenario
        Path of a TOML file, name of a shipped scenario, or the scenario's tables as a dict.
    grid
        Keys by their dotted path, each with its values: `{"paths.wifi.rtt": ["50 ms", "100 ms"]}`.
    trials
        Runs of each cell, from 1. Run 0, 1, ... has the same random draws in every cell.
    seed, scheduler, congestion, set
        As of `anabranch.run`, for every cell.
    keep
        Tables of every run's trace to keep: `["samples"]`.
    keep_trace
        Keep every run's trace whole.
    out
        A folder that keeps the results. After an interrupt, a repeated call continues there, and with more
        trials it makes only the missing runs. If None, the results are deleted with the returned object.
    workers
        The number of processes on this machine; None for one per core.
    dask
        Address of a Dask scheduler that runs them instead.
    progress
        Called with the number of runs done, and of all runs. True shows a bar, False none; None shows one
        in a notebook or a terminal.

    Raises
    ------
    ScenarioError
        With every fault of the scenario and its cells.
    InputError
        If a key or table does not exist or is given twice, or the folder contains something else.
    MissingError
        When the disk is full, a worker is gone, or the cluster cannot be reached.

    Examples
    --------
    >>> import anabranch
    >>> found = anabranch.sweep("bulk-two-paths", grid={"clients": [1, 10]}, trials=5)  # doctest: +SKIP
    >>> found.means()  # doctest: +SKIP
    """
    from anabranch.scenario._overrides import by_name

    axes = _axes(grid or {}, keep, trials=trials)
    fixed = by_name(seed=seed, scheduler=scheduler, congestion=congestion, set=set)
    kept = measure.kept(keep, whole=keep_trace)
    what = sweep_of(scenario, axes, fixed, trials=trials, keep=kept)
    return _made(what, out, workers=workers, dask=dask, progress=progress)


def run_study(
    name: str | Path,
    *,
    trials: int | None = None,
    quick: bool = False,
    vary: str | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    only: Sequence[str] = (),
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name that the command line has
    assume: Sequence[str] = (),
    worlds: int | None = None,
    keep: Sequence[str] = (),
    keep_trace: bool = False,
    out: str | Path | None = None,
    workers: int | None = None,
    dask: str | None = None,
    progress: Asked = None,
) -> Results:
    """Run a paper's experiments, byte for byte as `anabranch study run` does.

    Parameters
    ----------
    name
        A study's name (`anabranch study list`), or its folder.
    trials, worlds
        The runs of each cell, and the drawn worlds of each row. None takes the study's own numbers.
    quick
        A quick test with few trials and short sessions.
    vary
        An assumption whose other values are run too.
    grid
        Keys by their dotted path, each with its values, instead of the study's own.
    only
        The rows to run, `*` and `?` allowed; empty is all.
    set
        Keys to set in every row, which replace those of assumptions; `paths.*` means every path.
    assume
        Other values of assumptions: `["kernel=linux-6.18"]`.
    keep, keep_trace, out, workers, dask, progress
        As of `anabranch.sweep`.

    Raises
    ------
    InputError
        When there is no such study, row, assumption or value, or the folder holds something else.
    MissingError
        When the disk is full or a worker or the cluster is gone.

    Examples
    --------
    >>> anabranch.run_study("SD18", quick=True).claims()  # doctest: +SKIP
    """
    from anabranch.scenario._overrides import by_name
    from anabranch.study import study as studies

    folder = studies.find(str(name))
    what = studies.sweep(
        folder,
        studies.read(folder),
        trials=trials,
        quick=quick,
        vary=vary,
        axes=_axes(grid or {}, keep, trials=trials, worlds=worlds),
        keep=measure.kept(keep, whole=keep_trace),
        only=only,
        sets=by_name(seed=None, scheduler=None, congestion=None, set=set),
        assume=assume,
        worlds=worlds,
    )
    return _made(what, out, workers=workers, dask=dask, progress=progress)


def sweep_of(
    scenario: str | Path | Mapping[str, Any],
    axes: Sequence[Axis],
    fixed: Sequence[Override],
    *,
    trials: int,
    keep: tuple[str, ...],
) -> Sweep:
    """Return the sweep of a scenario over a grid.

    Parameters
    ----------
    scenario
        Path of a TOML file, name of a shipped scenario, or the scenario's tables.
    axes
        The axes of the grid.
    fixed
        Keys with one value in all cells.
    trials
        Runs of each cell.
    keep
        Tables of every run's trace to keep.

    Raises
    ------
    ScenarioError
        With every fault of the scenario and its cells.
    """
    from anabranch.scenario import shipped
    from anabranch.study import sweep as sweeps

    tables = None if isinstance(scenario, str | Path) else dict(scenario)
    if isinstance(scenario, str | Path):
        path = shipped.resolve(scenario)
        name = shipped.display(path) if path == shipped.STDIN else path.stem
    else:
        name = str(scenario.get("name", "scenario"))
        path = Path.cwd() / name.replace("/", "-")
    settings = tuple((one.key, one.value, one.origin) for one in fixed)
    points = (
        sweeps.Point(
            path=path,
            tables=tables,
            settings=(*settings, *((axis.key, axis.values[place], axis.origin) for axis, place in point)),
            labels=tuple((axis.key, axis.labels[place]) for axis, place in point),
        )
        for point in grids.points(axes)
    )
    return sweeps.Sweep(name=name, cells=sweeps.cells(points), trials=trials, keep=keep)


def _axes(grid: Mapping[str, Sequence[Any]], keep: Sequence[str], **counts: object) -> list[Axis]:
    """Return the axes of a grid; the faults of all arguments are reported together."""
    found = [grids.given(key, values) for key, values in grid.items()]
    faults = [one for one in found if isinstance(one, Fault)] + measure.unknown_tables(keep)
    faults += [
        Fault(message=f"expected 1 or more: {count}", where=f"{name}={count}")
        for name, count in counts.items()
        if count is not None and (not isinstance(count, Integral) or count < 1)
    ]
    if faults:
        raise InputError(faults)
    return [one for one in found if not isinstance(one, Fault)]


def _made(
    what: Sweep, out: str | Path | None, *, workers: int | None, dask: str | None, progress: Asked
) -> Results:
    """Make the missing runs, and return the results."""
    from anabranch.results import summary
    from anabranch.study.drive import drive

    space = None if out is not None else Path(mkdtemp(prefix="anabranch-"))
    folder = Path(out or "") if space is None else space / "results"
    try:
        drive(
            what,
            folder,
            films=_progress.shown(progress, "making the film", unit="s"),
            runs=_progress.shown(progress, f"running {what.name}", unit="runs"),
            workers=workers,
            dask=dask,
        )
    except BaseException:
        if space is not None:
            shutil.rmtree(space, ignore_errors=True)
        raise
    # The warning names the caller of `sweep` or `run_study`.
    summary.warn_standstills(folder, stacklevel=4)
    return Results(folder, goes=space)
