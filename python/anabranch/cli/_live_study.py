"""`anabranch study live`: a study over real packets, compared with the simulator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from anabranch.cli import _console

if TYPE_CHECKING:
    from collections.abc import Collection

    from anabranch.study.sweep import Sweep
    from anabranch.viewed.compare import Compared
    from anabranch.viewed.make import Done
    from anabranch.viewed.read import LiveStudy

#: Largest part of a run, in seconds, that is not playback: the start and the end.
_AROUND_S = 3.0


@dataclass(frozen=True, kw_only=True)
class How:
    """How runs are to be made.

    Attributes
    ----------
    trials
        Runs of each arm; None is the study's own number.
    only
        The arms; none is all.
    workers
        The number of runs at the same time; None for one per core.
    out
        The folder of results; None is `results/NAME-live`.
    record
        Whether finished runs are added to the study's `live.csv`.
    """

    trials: int | None
    only: tuple[str, ...]
    workers: int | None
    out: Path | None
    record: bool = False


def live(name: str, how: How, *, runs: bool, docs: Path | None, as_json: bool) -> None:
    """Make the missing runs, and print the values of simulator and real player side by side."""
    from anabranch.cli._films import making_film
    from anabranch.study import study as studies
    from anabranch.study.sweep import make_films
    from anabranch.viewed import make, read, record, stored
    from anabranch.viewed.compare import compare
    from anabranch.viewed.page import cells

    folder = studies.find(name)
    found = read.read(folder)
    what = read.sweep(folder, found, trials=how.trials, only=how.only)
    at = how.out or Path("results") / what.name
    workers = how.workers or make.at_once()
    with making_film() as making:
        make_films(what, making, played=True)
    recorded = record.read(folder, what)
    try:
        known = {(row["cell"], row["run"]) for row in recorded}
        done = _made(found, what, at, workers, known) if runs else None
    finally:
        if how.record:
            _console.note(f"recorded: {record.write(folder, found, at)} runs in {folder / record.FILE}")
    recorded = record.missing(recorded, stored.runs(at))
    with _console.progress("simulating", unit="runs") as progress:
        simulated = make.simulated(found, what, workers=make.at_once(), progress=progress)
    compared = compare(at, found, simulated, recorded)
    if as_json:
        _console.out(json.dumps(compared.to_json(), indent=2, allow_nan=False))
    else:
        rows = [cells(one) for one in compared.differences]
        _console.table(("arm", "", "viewer", "simulator", "apart", ""), rows, left=2)
    if docs is not None:
        _write(docs, folder.name, found, compared, at)
    if done is not None:
        _told(done, at, voids=sum(compared.voids.values()))


def _made(
    found: LiveStudy, what: Sweep, at: Path, workers: int, recorded: Collection[tuple[str, int]]
) -> Done:
    """Make the runs that are missing."""
    from anabranch.viewed import make

    _check(found, what)
    _announce(what, workers)
    with _console.progress(f"running {what.name}", unit="runs") as progress:
        try:
            return make.make(at, found, what, workers=workers, progress=progress, recorded=recorded)
        except KeyboardInterrupt:
            _console.note(f"interrupted; finished runs are in {at}: repeat the command to go on")
            raise


def _check(found: LiveStudy, what: Sweep) -> None:
    """Make sure that this host has all that the runs need."""
    from anabranch.live import viewers
    from anabranch.live.testbed import needed
    from anabranch.study.sweep import afresh

    needed()
    for cell in what.cells:
        viewers.check(found.case_of(dict(cell.labels)).viewer, afresh(cell.text())[0])


def _announce(what: Sweep, workers: int) -> None:
    """Print how long the runs will take."""
    from anabranch.scenario import plan as plans
    from anabranch.study.sweep import afresh

    whole = 0.0
    for cell in what.cells:
        loaded, film = afresh(cell.text())
        plan = plans.build(loaded.scenario, film)
        whole += (plans.expected_duration_s(plan, film) + _AROUND_S) * what.trials
    _console.note(
        f"real time: {whole / 60:.0f} minutes of playing, {workers} side by side: about "
        f"{whole / workers / 60:.0f} minutes if nothing is there yet"
    )


def _write(docs: Path, name: str, found: LiveStudy, compared: Compared, at: Path) -> None:
    """Write the page of a study, and next to it the report of each arm's first trial."""
    from anabranch import _files, report
    from anabranch.study.stored import open_run
    from anabranch.viewed import stored
    from anabranch.viewed.page import page

    what = "the page"
    try:
        docs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _files.unwritable(what, docs, error) from None
    reports = {}
    there = stored.runs(at)
    for place, case in enumerate(found.cases()):
        first = stored.first(there, case)
        if first is not None:
            file = f"{name}-{place + 1}.html"
            report.write(docs / file, open_run(at, first["identity"]))
            reports[case.name] = file
    _files.write(docs / f"{name}.md", page(name, found, compared, reports), what)
    _console.note(f"page: {docs / name}.md")


def _told(done: Done, at: Path, *, voids: int) -> None:
    """Print the number of runs, old and new, and the missing ones."""
    text = f"{done.now} runs, {done.before} were there already; results in {at}"
    if voids:
        text += f"; {voids} were void, as the emulator was late, and made again"
    _console.note(text)
    for error in dict.fromkeys(done.failed):
        _console.note(f"a run came to nothing: {error}")
    if done.failed:
        _console.note(f"{len(done.failed)} runs are missing: repeat the command to make them")
        raise typer.Exit(_console.MISSING)
