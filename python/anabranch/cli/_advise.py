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
        help="Outage rules to choose from: kernel, cap, dsack (default: all, if a path may fall silent).",
    ),
]
Trials = Annotated[
    int,
    typer.Option(
        min=2,
        max=1_000_000,
        help="Largest number of runs of a candidate. Trial N has the same random draws for every candidate.",
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="RUNS",
        help=(
            "Largest number of all runs (default: a fifth of --trials runs of every candidate, but enough "
            "for three trials of each compared candidate)."
        ),
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes (default: one per core).")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of results (default: results/NAME-advice).")
]


@dataclass(frozen=True, kw_only=True)
class How:
    """The candidates to try, and how to run them: the options of the command."""

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
    """Recommend paths, a scheduler and a congestion control, with the commands to set them up.

    Every candidate gets runs with the same random draws. The best candidates that are still hard to
    distinguish get more runs. All this takes a fifth of the runs that every trial of every candidate would
    take. Films are ranked by startup delay, standstill and the part of the film that is not shown. If a path
    may fall silent and return, outage rules are ranked too. The output has the ranking, a sentence for each
    path, the scenario, and the kernel settings of the hosts. Finished runs are kept. To continue after an
    interrupt, repeat the command. For example:

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
    if what.warning:
        _console.note(f"warning: {what.warning}")
    try:
        with _console.progress(f"running {what.sweep.name}", unit="runs") as progress:

            def expected(seconds: float) -> None:
                with progress.paused():
                    _console.note(
                        f"this takes at least {_progress.duration(seconds)} with {workers} processes"
                    )

            found = make.run(what, folder, workers=workers, progress=progress, expected=expected)
    except KeyboardInterrupt:
        _console.note(f"interrupted; finished runs are in {folder}: repeat the command to go on")
        raise
    _sweep.left_out(folder, shown_by=f"anabranch results {folder} --earlier")
    _console.warn(summary.standstills(folder))
    _console.note(f"{found.runs} runs instead of {found.exhaustive}; results in {folder}")
    if how.report is not None:
        found.report(how.report)
        _console.note(f"report: {how.report}")
    if how.as_json:
        _console.out(json.dumps(found.to_json(), indent=2))
    else:
        tell(found)


def _asked(given: Given, how: How) -> Asked:
    """Return the question to answer. Faults in it and in the report's file name are raised together."""
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
    """Split a list of names at commas, except at commas inside brackets."""
    found, depth = [""], 0
    for letter in text or "":
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return tuple(name.strip() for name in found if name.strip())


def _announced(what: Asked) -> str:
    """Return a sentence that announces the runs."""
    count = len(what.candidates)
    names = {one.paths for one in what.candidates}
    sets = f"{len(names)} set{'s' if len(names) > 1 else ''} of paths"
    ranked = f"{count} candidate{'s' if count > 1 else ''}"
    return (
        f"{ranked} over {sets}: at most {what.budget:,} runs, instead of {what.exhaustive:,} for "
        f"{what.sweep.trials} trials of each"
    )


def tell(found: Advice) -> None:
    """Write an advice: ranking, sentences, scenario, settings."""
    head, lines = found.short_table()
    _console.heading(f"{found.scenario}: what to use")
    _console.table(head, lines, left=found.left)
    if len(found.ranked) > len(lines):
        _console.out(f"  {len(lines)} of {len(found.ranked)} candidates; --json has all")
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
        _console.out("a mainline kernel alone supports no candidate")
