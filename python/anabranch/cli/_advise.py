"""`anabranch advise`: which paths, which scheduler and which congestion control."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch import _progress
from anabranch.cli import _console
from anabranch.cli._console import guarded
from anabranch.cli._options import Json, Scenario, Seed, Set
from anabranch.errors import InputError

if TYPE_CHECKING:
    from anabranch.advice import Advice
    from anabranch.advice.make import Asked
    from anabranch.cli._commands import Given

Names = Annotated[str | None, typer.Option(metavar="A,B,C", help="Congestion controls to choose from.")]
Schedulers = Annotated[str | None, typer.Option(metavar="A,B,C", help="Path schedulers to choose from.")]
Paths = Annotated[str | None, typer.Option(metavar="A,B,C", help="Paths to choose from (default: all).")]
Outages = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="Rules for outages to choose from: kernel, cap, dsack (default: all if paths may fall silent).",
    ),
]
Trials = Annotated[
    int, typer.Option(min=2, max=1_000_000, help="Most runs of a candidate, on the same luck in each.")
]
Budget = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="RUNS", help="Most runs of all (default: a fifth of every candidate's every trial)."
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes (default: one a core).")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of results (default: results/NAME-advice).")
]


@dataclass(frozen=True, kw_only=True)
class How:
    """The choices, and how runs are made: the options of the command."""

    controllers: str | None
    schedulers: str | None
    paths: str | None
    outages: str | None
    trials: int
    budget: int | None
    workers: int | None
    out: Path | None
    report: Path | None
    as_json: bool


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("advise")(guarded(advise))


def advise(
    scenario: Scenario,
    controllers: Names = None,
    schedulers: Schedulers = None,
    paths: Paths = None,
    outages: Outages = None,
    trials: Trials = 30,
    budget: Budget = None,
    seed: Seed = None,
    set_: Set = None,
    workers: Workers = None,
    out: Out = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Say which paths, which scheduler and which congestion control to use, and print what carries it out.

    Candidates are run on the same luck, those that are hard to tell apart at the top more often: a fifth of
    the runs of trying everything. Films are ranked by waiting for the start, standstill and film not shown.
    Where a path may fall silent and return, rules for outages are ranked too. Printed are the ranking, a
    sentence for each path, the scenario, and the settings of the hosts' kernels. Finished runs are kept;
    repeat the command to go on. For example:

      anabranch advise two-paths
      anabranch advise wifi-lte --controllers cubic,bbr --schedulers linux,blest,'rtx-aware(min-rtt)'
      anabranch advise two-paths --set paths.lte.rtt=400ms --out results/far --report advice.html
    """
    from anabranch.cli import _commands

    given = _commands.Given(
        scenario=scenario, scheduler=None, congestion=None, seed=seed, set=tuple(set_ or ())
    )
    _advise(
        given,
        How(
            controllers=controllers,
            schedulers=schedulers,
            paths=paths,
            outages=outages,
            trials=trials,
            budget=budget,
            workers=workers,
            out=out,
            report=report,
            as_json=as_json,
        ),
    )


def _advise(given: Given, how: How) -> None:
    """Run an advice, print it, and write its report."""
    from anabranch.advice import make
    from anabranch.cli import _sweep
    from anabranch.results import summary

    what = _asked(given, how)
    folder = how.out or Path("results") / what.sweep.name
    workers = how.workers or os.cpu_count() or 1
    _console.note(_announced(what))
    try:
        with _console.progress(f"running {what.sweep.name}", unit="runs") as progress:

            def expected(seconds: float) -> None:
                with progress.paused():
                    _console.note(f"this takes about {_progress.duration(seconds)} with {workers} processes")

            found = make.run(what, folder, workers=workers, progress=progress, expected=expected)
    except KeyboardInterrupt:
        _console.note(f"interrupted; finished runs are in {folder}: repeat the command to go on")
        raise
    _sweep.left_out(folder, shown_by=f"anabranch results {folder} --earlier")
    _console.warn(summary.standstills(folder))
    _console.note(f"{found.runs} runs instead of {found.exhaustive}; results in {folder}")
    if how.as_json:
        _console.out(json.dumps(found.to_json(), indent=2))
    else:
        tell(found)
    if how.report is not None:
        found.report(how.report)
        _console.note(f"report: {how.report}")


def _asked(given: Given, how: How) -> Asked:
    """Return the question to answer; faults of it and of the report's file are raised together."""
    from anabranch.advice import candidates, make
    from anabranch.cli import _commands, _outputs

    fault = None if how.report is None else _outputs.unwritable(how.report, "--report")
    faults = [] if fault is None else [fault]
    try:
        loaded = given.load()
        _console.warn(loaded.warnings)
        if how.report is not None:
            faults += _outputs.over_inputs(
                [(how.report, "--report")], _outputs.inputs(loaded, given.scenario)
            )
        what = make.asked(
            loaded,
            given.scenario,
            given.overrides(),
            controllers=_names(how.controllers) or candidates.CONTROLLERS,
            schedulers=_names(how.schedulers) or candidates.SCHEDULERS,
            paths=_names(how.paths),
            outages=_names(how.outages),
            trials=how.trials,
            budget=how.budget,
            film=_commands.prepare_film,
        )
    except InputError as error:
        raise InputError([*error.faults, *faults]) from None
    if faults:
        raise InputError(faults)
    return what


def _names(text: str | None) -> tuple[str, ...]:
    """Return names between commas; those in brackets are of one name."""
    found, depth = [""], 0
    for letter in text or "":
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return tuple(name.strip() for name in found if name.strip())


def _announced(what: Asked) -> str:
    """Return what will be done."""
    count = len(what.candidates)
    names = {one.paths for one in what.candidates}
    sets = f"{len(names)} set{'s' if len(names) > 1 else ''} of paths"
    return (
        f"{count} candidates over {sets}: at most {what.budget:,} runs, instead of {what.exhaustive:,} for "
        f"{what.sweep.trials} trials of each"
    )


def tell(found: Advice) -> None:
    """Write an advice: ranking, sentences, scenario, settings."""
    from anabranch.advice.read import SHOWN

    head, lines = found.table()
    _console.heading(f"{found.scenario}: what to use")
    _console.table(head, lines[:SHOWN], left=found.left)
    hidden = len(lines) - SHOWN
    if hidden > 0:
        _console.note(f"{hidden} more candidates went out early; --json has them")
    _console.out()
    for sentence in found.sentences:
        _console.out(f"  {sentence}")
    _console.out(f"  score: {found.score.meaning}; ± is the 95 % interval")
    if found.choice.risk is not None:
        _console.out("  risk: share of trials in which the picture froze or the session did not end")
    _console.out(f"  {found.fidelity.sentence}")
    if found.known:
        _console.out(f"  {found.known}")
    for heading, text in found.steps():
        _console.out()
        _console.heading(heading)
        _console.out(text.rstrip("\n"))
    if found.kernel is None and not found.missing:
        _console.out()
        _console.out("no candidate can be carried out by a mainline kernel alone")
