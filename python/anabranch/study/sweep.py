"""A sweep: scenarios, a grid over their keys, and trials; what is to be run, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, ScenarioError
from anabranch.results import identity
from anabranch.scenario._overrides import Override

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the grid.

    Attributes
    ----------
    scenario
        A file, or the name of a shipped scenario.
    settings
        What is set over it: dotted key, raw value, and how it was given.
    labels
        What the results call it: column and text.
    """

    scenario: str
    settings: tuple[tuple[str, Any, str], ...]
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Everything that is to be run.

    Attributes
    ----------
    name
        What it is called.
    cells
        The points of the grid.
    trials
        Runs of each cell: run 0, 1, ... under the scenario's seed, the same luck in every cell.
    keep
        Tables of the trace to keep of each run.
    notes
        Assumptions and whatever else belongs beside the results.
    """

    name: str
    cells: tuple[Cell, ...]
    trials: int
    keep: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    def jobs(self, cells: Sequence[str]) -> Iterator[Job]:
        """Yield every run, trial by trial, so that an unfinished sweep has something of each cell.

        Parameters
        ----------
        cells
            The hash of each cell's plan.
        """
        for run in range(self.trials):
            for place, cell in enumerate(self.cells):
                yield Job(
                    place=place * self.trials + run,
                    cell=cell,
                    run=run,
                    keep=self.keep,
                    identity=identity.of_run(cells[place], run),
                )


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run.

    Attributes
    ----------
    place
        Where its row stands in the results.
    cell
        What is run.
    run
        Number of the run under the scenario's seed.
    keep
        Tables of the trace to keep.
    identity
        What the run is called.
    """

    place: int
    cell: Cell
    run: int
    keep: tuple[str, ...]
    identity: str


def load(cell: Cell) -> Loaded:
    """Return a cell's scenario, validated.

    Raises
    ------
    ScenarioError
        With every fault found.
    """
    from anabranch.scenario.load import load as load_scenario

    overrides = [Override(key=key, value=value, origin=origin) for key, value, origin in cell.settings]
    return load_scenario(cell.scenario, overrides)


@lru_cache(maxsize=64)
def ready(cell: Cell) -> tuple[Loaded, Film | None]:
    """Return a cell's scenario and film, which its trials share."""
    from anabranch._run import film_of

    loaded = load(cell)
    return loaded, film_of(loaded)


def plan_hashes(sweep: Sweep) -> list[str]:
    """Return the hash of each cell's plan.

    Raises
    ------
    ScenarioError
        With every fault of every cell, each once.
    """
    from anabranch.scenario import plan as plans

    hashes = []
    faults: dict[Fault, None] = {}
    for cell in sweep.cells:
        try:
            loaded, film = ready(cell)
        except ScenarioError as error:
            faults.update(dict.fromkeys(error.faults))
            continue
        hashes.append(identity.of_cell(plans.build(loaded.scenario, film), {}))
    if faults:
        raise ScenarioError(faults)
    return hashes


def manifest(sweep: Sweep, *, folder: Path | None = None) -> dict[str, Any]:
    """Return everything needed to run a sweep again, as JSON can say it.

    Parameters
    ----------
    sweep
        What is run.
    folder
        Paths of scenario files are given relative to it.
    """
    _ = folder
    return {
        "name": sweep.name,
        "code": identity.code(),
        "trials": sweep.trials,
        "keep": list(sweep.keep),
        "notes": dict(sweep.notes),
        "cells": [
            {
                "scenario": cell.scenario,
                "settings": {key: value for key, value, _ in cell.settings},
                "labels": dict(cell.labels),
            }
            for cell in sweep.cells
        ],
    }
