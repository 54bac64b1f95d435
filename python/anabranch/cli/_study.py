"""`anabranch study`: the experiments of papers as studies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import _console, _groups
from anabranch.cli._console import guarded
from anabranch.cli._many import Dask, Keep, KeepTrace, ShardOption, StudyOut, Workers
from anabranch.cli._options import Json, JsonArray, rooted
from anabranch.errors import Fault, InputError

study = typer.Typer(
    cls=_groups.Group,
    help="Repeat experiments from papers, with every assumption named.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(study, name="study")


Quick = Annotated[
    bool,
    typer.Option("--quick", help="A quick test: few trials and short sessions, into results/NAME-quick."),
]
Assume = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=TEXT",
        help="Use another value of an assumption, given by a part of the value's text, or a joint "
        "assumption, given by its name; repeatable.",
    ),
]


Trials = Annotated[
    int | None, typer.Option(min=1, max=1_000_000, help="Runs of each cell (default: the study's).")
]
Rows = Annotated[
    list[str] | None, typer.Option(metavar="ROW", help="Run only this row, * and ? allowed; repeatable.")
]
Worlds = Annotated[
    int | None,
    typer.Option(min=1, max=100_000, help="Number of drawn worlds for each row (default: the study's)."),
]


OnlyClaims = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLAIM",
        help="Judge only this claim; repeatable. With --run, only the necessary runs are made, into a "
        "separate folder. With --docs, only the rows of these claims change in the page.",
    ),
]
Changed = Annotated[
    bool,
    typer.Option(
        "--changed",
        help="With --docs, judge only the papers whose build, plans or claims are not those of the page.",
    ),
]


@study.command("list")
@guarded
def list_studies(as_json: JsonArray = False) -> None:
    """List the studies in a folder `studies` here or in a parent folder, and the studies of the program.

    If a study cannot be read, the reason is printed and the other studies are still listed.

    For example:

      anabranch study list
    """
    from anabranch.study import study as studies

    rows = []
    for name, folder in studies.folders().items():
        try:
            found = studies.read(folder)
        except InputError as error:
            # One broken study must not hide the others.
            _console.note(str(error))
            continue
        rows.append({"name": name, "title": found.title, "source": found.source, "rows": found.rows()})
    if as_json:
        _console.out(json.dumps(rows, indent=2))
        return
    lines = [(str(row["name"]), f"{row['title']} ({row['source']})") for row in rows]
    _console.table(("name", ""), lines, left=2)


@study.command("show")
@guarded
def show_study(
    name: Annotated[str, typer.Argument(help="A study's name (`anabranch study list`), or its folder.")],
    world: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Print the scenario of the drawn world with this number."),
    ] = None,
    row: Annotated[
        str | None, typer.Option(metavar="ROW", help="The row of the world (default: the first row).")
    ] = None,
    arm: Annotated[
        str | None, typer.Option(metavar="ARM", help="Set the keys of this arm in the world's scenario.")
    ] = None,
) -> None:
    """Print what a study runs, or one of its drawn worlds as a scenario.

    For example:

      anabranch study show returning-paths
      anabranch study show returning-paths --world 7 --arm best-today
    """
    from anabranch.cli import _drawn

    _drawn.show(name, world=world, row=row, arm=arm)


@study.command("claims")
@guarded
def judge_claims(
    name: Annotated[
        str, typer.Argument(help="A study's name or folder, or `all` (all studies with claims).")
    ],
    results: Annotated[
        Path | None,
        typer.Argument(
            metavar="RESULTS",
            help="Folder of the study's results, or of all results (default: results).",
        ),
    ] = None,
    runs: Annotated[bool, typer.Option("--run", help="Make the missing runs first.")] = False,
    trials: Trials = None,
    around: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ASSUMPTION",
            help="Also run the other values of this assumption, or of `all`; repeatable.",
        ),
    ] = None,
    around_trials: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Runs of each such cell (default: 3).")
    ] = None,
    only: OnlyClaims = None,
    worlds: Worlds = None,
    docs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the verdicts as Markdown. An existing page keeps other papers."
        ),
    ] = None,
    changed: Changed = False,
    workers: Workers = None,
    dask: Dask = None,
    as_json: JsonArray = False,
) -> None:
    """Judge the claims of a paper on the results of its study.

    A claim is reproduced, not reproduced, undecided or not testable. If an assumption's other values were
    run, the result also states whether the means agree everywhere, here (with some of the values) or nowhere.

    With --run, finished runs are kept. To continue after an interrupt, repeat the command. For example:

      anabranch study claims LEO24 --run --trials 3
      anabranch study claims LEO24
      anabranch study claims all --run --docs docs/claims.md
      anabranch study claims LEO24 --only LEO24.7 --run --trials 1
    """
    from anabranch.cli import _claims, _sweep

    how = _sweep.How(workers=workers, dask=dask, shard=None, out=None)
    near = _claims.Around(names=around or (), trials=around_trials)
    _claims.claims(
        name,
        results,
        runs=runs,
        trials=trials,
        worlds=worlds,
        around=near,
        how=how,
        docs=docs,
        only=only or (),
        as_json=as_json,
        changed=changed,
    )


@study.command("pilot")
@guarded
def plan_trials(
    name: Annotated[
        str, typer.Argument(help="A study's name or folder; the folder must contain claims.toml.")
    ],
    trials: Annotated[int, typer.Option(min=3, max=1_000, help="Runs of each cell.")] = 8,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**63 - 1, help="Seed of the pilot. It must differ from the study's seed."),
    ] = 1001,
    workers: Workers = None,
    dask: Dask = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of results (default: results/NAME-pilot).")
    ] = None,
    as_json: JsonArray = False,
) -> None:
    """Estimate how many trials the claims of a paper need, from a few runs with another seed.

    For each claim, print the smallest number of trials that would decide it in four cases of five, if means
    and spreads are those of the pilot. Use that number for the study itself, which has another seed.

    Finished runs are kept. To continue after an interrupt, repeat the command. For example:

      anabranch study pilot LEO24 --trials 3
      anabranch study pilot SD18
    """
    from anabranch.cli import _pilot, _sweep

    how = _sweep.How(workers=workers, dask=dask, shard=None, out=out)
    _pilot.pilot(name, trials=trials, seed=seed, how=how, as_json=as_json)


@study.command("worlds")
@guarded
def draw_worlds(
    name: Annotated[
        str, typer.Argument(help="A study's name or folder; the folder must contain claims.toml.")
    ],
    worlds: Annotated[int, typer.Option(min=2, max=100_000, help="Number of random worlds.")] = 100,
    trials: Annotated[int, typer.Option(min=1, max=1_000, help="Runs of each cell in a world.")] = 2,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the draws.")] = 1,
    confirm: Annotated[
        int,
        typer.Option(
            min=0, max=1_000, help="Runs of each cell of the best world, on another seed (0: no such runs)."
        ),
    ] = 10,
    confirm_seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed of the runs of the best world.")
    ] = 1001,
    workers: Workers = None,
    dask: Dask = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of results (default: results/NAME-worlds).")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with the map of worlds.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a study in random worlds, each with a drawn value of every assumption.

    For each claim, print the share of worlds in which it holds by means, and the assumptions that decide it.
    Then leave out one claim at a time, and print whether the other claims choose worlds in which it holds.
    The best world is run again on another seed.

    Finished runs are kept. To continue after an interrupt, repeat the command. For example:

      anabranch study worlds LEO24 --worlds 40
      anabranch study worlds LEO24 --worlds 200 --docs worlds.md
    """
    from anabranch.cli import _sweep, _worlds

    wanted = _worlds.Wanted(
        worlds=worlds, trials=trials, seed=seed, confirm=confirm, confirm_seed=confirm_seed
    )
    how = _sweep.How(workers=workers, dask=dask, shard=None, out=out)
    _worlds.worlds(name, wanted, how, docs=docs, as_json=as_json)


@study.command("figures")
@guarded
def draw_figures(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A study's folder of results.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the figures.")] = Path("figures"),
    first_trials: Annotated[
        bool,
        typer.Option(
            "--first-trials",
            help="Also draw each cell's first trial over time, and repeat it if its trace was not stored.",
        ),
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="TRIALS",
            help="Also draw how much bulk data each cell can carry, relative to the film's rate, with "
            "this number of bulk runs for each cell in RESULTS-budget.",
        ),
    ] = None,
    workers: Workers = None,
) -> None:
    """Draw a study's results: bars with single trials, flows, and the cost of quality.

    Each figure is written as SVG, PNG and the numbers as CSV. With --first-trials, the sequence numbers and
    congestion windows of each path, and the resolution on the screen, are drawn too. For example:

      anabranch study figures results/PC16 --out figures/PC16
      anabranch study figures results/UQ18 --first-trials
      anabranch study figures results/PC16 --budget 5
    """
    from anabranch.cli import _figures

    _figures.figures(results, out, first=first_trials, budget=budget, workers=workers)


@study.command("report")
@guarded
def write_report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A study's folder of results.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path("report.html"),
) -> None:
    """Write one page about a study: verdicts on its claims, means, figures, and every assumption.

    For example:

      anabranch study report results/SD18 --out SD18.html
    """
    from anabranch.cli import _figures

    _figures.check_files(None, out)
    _figures.write(results, None, out)


@study.command("why")
@guarded
def tell_causes(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A study's folder of results.")],
    trials: Annotated[
        int, typer.Option(min=1, help="Runs of each cell, or drawn worlds of each row, counted from 0.")
    ] = 1,
) -> None:
    """Explain why pictures froze, were discarded or lost resolution, by row and congestion control.

    The runs are opened again. Their causes are stored beside the results, where `study claims --docs` finds
    them. For example:

      anabranch study why results/PC16 --trials 2
    """
    from anabranch.cli import _figures

    _figures.causes(results, trials=trials)


@study.command("run")
@guarded
def run_study(
    name: Annotated[str, typer.Argument(help="A study's name (`anabranch study list`), or its folder.")],
    trials: Trials = None,
    quick: Quick = False,
    vary: Annotated[
        str | None, typer.Option(metavar="ASSUMPTION", help="Also run the other values of this assumption.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", metavar="KEY=A,B,C", help="Values of a key that replace the study's own."),
    ] = None,
    only: Rows = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key in every row, over assumptions."),
    ] = None,
    assume: Assume = None,
    worlds: Worlds = None,
    workers: Workers = None,
    dask: Dask = None,
    shard: ShardOption = None,
    out: StudyOut = None,
    keep: Keep = None,
    keep_trace: KeepTrace = False,
    as_json: JsonArray = False,
) -> None:
    """Run a study, and print the means of its cells and all its assumptions.

    Finished runs are kept. To continue after an interrupt, repeat the command. For example:

      anabranch study run SD18 --quick
      anabranch study run PC16 --only 'diff*' --set 'paths.*.loss=0.2 %'
      anabranch study run PC16 --assume kernel=linux-6.18 --assume 'receive-buffer=64 KiB'
      anabranch study run SD18 --vary queue --grid transport.congestion=cubic --trials 10
      anabranch study run returning-paths --worlds 40
    """
    from anabranch.cli import _drawn, _sweep
    from anabranch.scenario._overrides import parse_assignment
    from anabranch.study import grid as grids
    from anabranch.study import measure
    from anabranch.study import study as studies

    axes = [grids.parse(text) for text in grid or ()]
    given = [parse_assignment(text) for text in set_ or ()]
    faults = [one for one in (*axes, *given) if isinstance(one, Fault)] + measure.unknown_tables(keep or ())
    found = [one for one in axes if not isinstance(one, Fault)]
    faults += grids.duplicates(found)
    if faults:
        raise InputError(faults)
    folder: Path = studies.find(name)
    found_study = studies.read(folder)
    what = studies.sweep(
        folder,
        found_study,
        trials=trials,
        quick=quick,
        vary=vary,
        axes=found,
        keep=measure.kept(keep or (), whole=keep_trace),
        only=only or (),
        sets=[one for one in given if not isinstance(one, Fault)],
        assume=assume or (),
        worlds=worlds,
    )
    _drawn.run(
        found_study, what, _sweep.How(workers=workers, dask=dask, shard=shard, out=out), as_json=as_json
    )


@study.command("live")
@guarded
@rooted
def run_live_study(
    name: Annotated[str, typer.Argument(help="A study's name or folder; the folder must contain live.toml.")],
    trials: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each arm (default: the study's).")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ARM", help="Run only this arm; repeatable.")
    ] = None,
    runs: Annotated[
        bool, typer.Option(" /--no-run", help="Make no runs; compare only the stored ones.")
    ] = True,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of runs in parallel (default: one per core).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of results (default: results/NAME-live).")
    ] = None,
    record: Annotated[
        bool,
        typer.Option("--record", help="Add finished runs to the study's live.csv; they are not run again."),
    ] = False,
    docs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write a page, and the report of each arm's first trial, into this folder."
        ),
    ] = None,
    as_json: JsonArray = False,
) -> None:
    """Run a study over real packets with a real player, and compare it with the simulator.

    The arms are in the study's live.toml. The arms take turns and run in real time. If the emulator was late
    by more than 1 ms at the 99th percentile, the run is void and repeated. This needs root, and everything
    that `anabranch doctor` lists for it. Finished runs are kept. To continue after an interrupt, repeat the
    command. Runs in the study's live.csv are not repeated. For example:

      anabranch study live HO20 --trials 1
      anabranch study live SD18 --workers 4 --docs docs/examples
    """
    from anabranch.cli import _live_study

    how = _live_study.How(trials=trials, only=tuple(only or ()), workers=workers, out=out, record=record)
    _live_study.live(name, how, runs=runs, docs=docs, as_json=as_json)
