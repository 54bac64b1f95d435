"""The commands for many runs, and their options: `compare`, `sweep`, `results`, `report`, `why`, `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import _console
from anabranch.cli._console import guarded
from anabranch.cli._options import Congestion, Json, JsonArray, Preset, Scenario, Scheduler, Seed, Set
from anabranch.cli._results_options import (
    By,
    Earlier,
    Figure,
    FontSize,
    Metrics,
    ReportFile,
    Sql,
    Table,
    Versus,
    Width,
)
from anabranch.errors import Fault, InputError

Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes (default: one per core).")]
Dask = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Run on a Dask cluster instead of in local processes.")
]
ShardOption = Annotated[
    str | None,
    typer.Option("--shard", metavar="N/M", help="Run only part N of M, to distribute runs over machines."),
]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of results (default: results/NAME).")]
#: Folder of results of a study.
StudyOut = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of results (default: results/NAME plus the choices, for example NAME-quick, or "
        "NAME-queue with --vary queue).",
    ),
]
Percent = Annotated[bool, typer.Option("--percent", help="With --versus: changes of the means in percent.")]
Trials = Annotated[
    int,
    typer.Option(
        min=1, max=1_000_000, help="Runs of each cell. Run N has the same random draws in every cell."
    ),
]
Keep = Annotated[
    list[str] | None, typer.Option(metavar="TABLE", help="Store a table of every run's trace, e.g. samples.")
]
KeepTrace = Annotated[
    bool, typer.Option("--keep-trace", help="Store the whole trace of every run, for `anabranch report`.")
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder of results.")]
RunId = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="ID", help="A run, given by the beginning of its identity (default: the first run)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (compare, sweep, results, report, why, verify):
        app.command(command.__name__)(guarded(command))


def compare(
    scenario: Scenario,
    scheduler: Scheduler = None,
    congestion: Congestion = None,
    preset: Preset = None,
    seed: Seed = None,
    set_: Set = None,
    trials: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Runs of each set of paths. Run N has the same random draws in every set.",
        ),
    ] = 10,
    workers: Workers = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of results (default: results/NAME-paths).")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Judge whether another path helps: run each path alone, every pair, and all together.

    Each set of paths is run equally often with the same random draws, so that differences are computed run by
    run. A single path is used over plain TCP. Finished runs are kept. To continue after an interrupt, repeat
    the command. For example:

      anabranch compare two-paths
      anabranch compare adaptive-two-paths --trials 20 --report report.html
      anabranch compare two-paths --set paths.lte.price_per_gb=3 --set paths.wifi.loss='2 %' --json
    """
    from anabranch.cli import _commands, _compare, _sweep

    given = _commands.Given(
        scenario=scenario,
        scheduler=scheduler,
        congestion=congestion,
        preset=preset,
        seed=seed,
        set=tuple(set_ or ()),
    )
    how = _sweep.How(workers=workers, dask=None, shard=None, out=out)
    _compare.compare(given, trials=trials, how=how, report=report, as_json=as_json)


def sweep(
    scenario: Scenario,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid", metavar="KEY=A,B,C", help="A key and its values, e.g. clients=1,10; repeatable."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key with one value in all runs; repeatable."),
    ] = None,
    trials: Trials = 30,
    workers: Workers = None,
    dask: Dask = None,
    shard: ShardOption = None,
    out: Out = None,
    keep: Keep = None,
    keep_trace: KeepTrace = False,
    as_json: JsonArray = False,
) -> None:
    """Run a scenario many times with every combination of the values of some keys.

    Finished runs are kept. To continue after an interrupt, repeat the command. With more --trials, more
    values or axes of the grid, or an edited scenario or plug-in, only missing runs are made. For example:

      anabranch sweep two-paths --grid transport.scheduler=min-rtt,linux --grid paths.wifi.rtt=50ms,100ms
      anabranch sweep bulk-two-paths --grid transport.congestion=cubic,reno --trials 100 --out results/mine
    """
    from anabranch.cli import _sweep

    how = _sweep.How(workers=workers, dask=dask, shard=shard, out=out)
    _sweep.sweep(
        scenario,
        grid or (),
        set_ or (),
        trials=trials,
        keep=keep or (),
        keep_trace=keep_trace,
        how=how,
        as_json=as_json,
    )


def results(
    folder: Folder,
    by: By = None,
    metric: Metrics = None,
    sql: Sql = None,
    versus: Versus = None,
    percent: Percent = False,
    earlier: Earlier = False,
    figure: Figure = None,
    width: Width = None,
    font_size: FontSize = None,
    table: Table = None,
    report: ReportFile = None,
    as_json: JsonArray = False,
) -> None:
    """Print the means of a folder's cells, differences, or a query's result; draw reports.

    Only runs of the current inputs count: the cells of the last sweep, made by this build from the scenario,
    plug-ins, films and recordings as they are now. --earlier shows the other runs.

    For example:

      anabranch sweep bulk-two-paths --grid transport.scheduler=min-rtt,linux --trials 2
      anabranch results results/bulk-two-paths --by transport.scheduler
      anabranch results results/bulk-two-paths --metric goodput_mbps --figure goodput.svg --report report.html
      anabranch results results/bulk-two-paths --figure goodput.pdf --width ieee --table means.tex
      anabranch results results/bulk-two-paths --versus linux
      anabranch results results/bulk-two-paths --sql 'SELECT run, goodput_mbps FROM runs ORDER BY 2'
    """
    from anabranch.cli import _figures, _sweep

    size, wrong = _figures.size(figure, width, font_size)
    _figures.check_files(figure, report, table, wrong)
    if earlier and (versus is not None or figure is not None or report is not None):
        beside = "--versus" if versus is not None else "--figure" if figure is not None else "--report"
        message = f"`{beside}` uses only runs of the present inputs"
        raise InputError([Fault(message=message, where="--earlier", hint="leave one of them out")])
    if percent and versus is None:
        message = "changes in percent need a value to compare with"
        raise InputError([Fault(message=message, where="--percent", hint="add --versus VALUE")])
    with _console.before_files(
        lambda: _figures.write(folder, figure, report, metrics=metric or (), size=size)
    ):
        if versus is not None:
            _sweep.versus(
                folder,
                versus,
                by=by,
                metrics=metric or (),
                sql=sql,
                relative=percent,
                as_json=as_json,
                table=table,
            )
        else:
            _sweep.results(
                folder, by=by, metrics=metric or (), sql=sql, as_json=as_json, earlier=earlier, table=table
            )


def report(
    folder: Folder,
    run: RunId = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path("report.html"),
) -> None:
    """Write the HTML report of a run that was made by `sweep` or `study run`.

    If --keep-trace stored the run's trace, the report uses it. Otherwise the run is repeated, and its digest
    shows whether the result is the same. For example:

      anabranch sweep bulk-two-paths --set application.bytes=5MB --trials 2
      anabranch results results/bulk-two-paths --sql 'SELECT identity, run, goodput_mbps FROM runs'
      anabranch report results/bulk-two-paths
    """
    from anabranch.cli import _sweep

    _sweep.report(folder, run, out=out)


def why(
    what: Annotated[
        str,
        typer.Argument(
            metavar="DIR|SCENARIO",
            help="A folder of results, or a scenario as `anabranch run` takes it, which is simulated.",
        ),
    ],
    run: RunId = None,
    decision: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Instead: repeat the run with the other path for decision N of the scheduler, counted over "
            "decisions with a choice.",
        ),
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="Like --decision, for the first such decision from this time on."
        ),
    ] = None,
    by_cell: Annotated[
        bool, typer.Option("--by-cell", help="Instead: print the causes in each cell, over its first trials.")
    ] = False,
    trials: Annotated[int, typer.Option(min=1, help="With --by-cell: runs of each cell.")] = 1,
    seed: Seed = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Explain why the picture froze or lost pictures or resolution, and why a run was not better.

    Every freeze is divided among the causes of the missing data. A discarded picture has the causes of the
    nearest freeze. If an adaptive player steps down, the causes are those of the data that it lacked to keep
    the rendition. Sentences below the table explain why a higher rendition or a higher rate was not reached.
    The rate of a path is the scenario's. If the path follows a model, it is the highest rate that it had.
    --seed and --set are for a scenario, the other options for a folder. For example:

      anabranch why adaptive-two-paths
      anabranch why two-paths --set paths.lte.rate=1Mbit/s
      anabranch sweep adaptive-two-paths --trials 1
      anabranch why results/adaptive-two-paths --by-cell
      anabranch sweep two-paths --set transport.scheduler=min-rtt --out results/near --trials 1
      anabranch why results/near --at 1
    """
    from anabranch.cli import _sweep, _why

    of_folder = {"--run": run, "--decision": decision, "--at": at, "--by-cell": by_cell or None}
    folder = _why.folder_of(what, of_folder, {"--seed": seed, "--set": set_})
    if folder is None:
        _why.of_scenario(what, seed, tuple(set_ or ()), as_json=as_json)
    elif by_cell:
        _why.cells(folder, trials=trials, as_json=as_json)
    elif decision is not None or at is not None:
        _sweep.decision(folder, run, number=decision, at_s=at, as_json=as_json)
    else:
        _why.why(folder, run, as_json=as_json)


def verify(
    folder: Folder,
    identity: Annotated[
        list[str] | None,
        typer.Argument(help="Runs, given by the beginning of their identity (default: all)."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Verify only this many runs, evenly spaced.")
    ] = None,
) -> None:
    """Repeat stored runs, and compare every byte with the stored one.

    The exit code is 1 if something differs. For example:

      anabranch sweep bulk-two-paths --trials 3
      anabranch verify results/bulk-two-paths --sample 2
    """
    from anabranch.cli import _sweep

    _sweep.verify(folder, identity or (), sample=sample)
