"""`anabranch why`: the causes of a stored run, of a scenario's run, or of the cells of a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.cli import _console, _sweep
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._run import Run
    from anabranch.why import Why


def folder_of(what: str, of_folder: Mapping[str, object], of_scenario: Mapping[str, object]) -> Path | None:
    """Return the folder of results that is named, or None if a scenario is.

    Parameters
    ----------
    what
        The folder or the scenario.
    of_folder, of_scenario
        The options that only folders and only scenarios have; None where not given.

    Raises
    ------
    InputError
        When an option of the other kind is given.
    """
    is_folder = Path(what).is_dir()
    kind, wrong = ("scenario", of_scenario) if is_folder else ("folder of results", of_folder)
    is_one = "a folder of results" if is_folder else "a scenario"
    faults = [
        Fault(message=f"needs a {kind}, and `{what}` is {is_one}", where=option)
        for option, value in wrong.items()
        if value is not None
    ]
    if faults:
        raise InputError(faults)
    return Path(what) if is_folder else None


def of_scenario(scenario: str, seed: int | None, keys: tuple[str, ...], *, as_json: bool) -> None:
    """Simulate a scenario, and print the causes of its freezes, and why it was not better."""
    from anabranch.cli import _commands

    given = _commands.Given(scenario=scenario, seed=seed, set=keys)
    loaded = given.load()
    _console.warn(loaded.warnings)
    film = _commands.prepare_film(loaded)
    _explain(_commands.simulate(loaded, film=film, run=0), as_json=as_json)


def why(folder: Path, run: str | None, *, as_json: bool) -> None:
    """Print the causes of the freezes, discards and steps down of a stored run, and why it was not better."""
    from anabranch.study import stored

    row, count = stored.find(folder, run)
    _sweep.left_out(folder, shown_by=f"anabranch results {folder} --earlier")
    if run is None and count > 1:
        _console.note(_sweep.first_of(folder, row, count))
    with _console.progress("running again") as progress:
        found = stored.open_run(folder, row["identity"], progress=progress)
    _explain(found, as_json=as_json)


def _explain(found: Run, *, as_json: bool) -> None:
    """Print the causes of a run's freezes, discards and steps down, and why it was not better."""
    from anabranch.why import why as attribute

    causes = attribute(found)
    if as_json:
        _console.out(json.dumps(causes.to_json(), indent=2))
        return
    if found.qoe is not None:
        _table(causes, is_adaptive="frames" not in found.qoe)
    for sentence in causes.sentences:
        _console.out(f"  {sentence}")
    if found.qoe is None and not causes.sentences:
        is_captured = found.summary["world"] == "captured"
        why = ": a capture does not show the rates of its paths" if is_captured else ""
        _console.out(f"  Nothing to explain{why}.")


def _table(causes: Why, *, is_adaptive: bool) -> None:
    """Print a player's causes."""
    from anabranch.why import CAUSES

    last, lost = ("steps down", causes.steps_down) if is_adaptive else ("discards", causes.discards)
    found = [cause for cause in CAUSES if cause in causes.frozen_s or cause in lost]
    # The worst first: by seconds, then by lost pictures or steps.
    found.sort(key=lambda cause: (-causes.frozen_s.get(cause, 0.0), -lost.get(cause, 0.0)))
    lines = [
        (
            cause,
            f"{causes.frozen_s.get(cause, 0.0):.2f} s",
            f"{lost.get(cause, 0.0):.1f}",
            causes.meaning(cause),
        )
        for cause in found
    ]
    _console.table(("cause", "frozen", last, ""), lines, left=1)
    steps = f", {len(causes.drops)} steps down" if is_adaptive else ""
    _console.note(f"{len(causes.freezes)} freezes{steps}; --json has each with its shares")


def cells(folder: Path, *, trials: int, as_json: bool) -> None:
    """Print the causes of each cell of a folder, over its first trials."""
    from anabranch.claims.page import shares
    from anabranch.why import stored

    _sweep.left_out(folder, shown_by=f"anabranch results {folder} --earlier")
    with _console.progress("running again", unit="runs") as progress:
        stored.make(folder, trials=trials, progress=progress)
    found = stored.cells(folder)
    if not found:
        message = "no run has a player: there are no freezes or renditions to explain"
        raise InputError([Fault(message=message, where=str(folder))])
    if as_json:
        rows = [{"cell": dict(cell), **group} for cell, group in found.items()]
        _console.out(json.dumps(rows, indent=2))
        return
    heads = {"frozen_s": "frozen, s a run"}
    if _has_ladder(folder):
        heads["below_s"] = "seconds of film below the top rendition"
    heads["unused_mbps"] = "unused rate, Mb/s"
    lines = [
        (
            ", ".join(f"{value}" for _, value in cell) or "all",
            str(group["runs"]),
            *(shares(group[kind]) for kind in heads),
        )
        for cell, group in found.items()
    ]
    _console.table(("cell", "runs", *heads.values()), lines, left=1)


def _has_ladder(folder: Path) -> bool:
    """Return whether a film of the folder's runs has several renditions."""
    from anabranch.results import read

    return "top_share" in read.all_runs(folder).columns
