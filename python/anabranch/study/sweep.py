"""A sweep: scenarios, a grid over their keys, and trials; what is to be run, as plain data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import ScenarioError
from anabranch.results import identity
from anabranch.scenario._overrides import Override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anabranch.errors import Fault
    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded
    from anabranch.study.grid import Label


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the grid.

    Attributes
    ----------
    scenario
        Its name.
    raw
        Its tables as JSON: what is run does not hang on a file that may change or be elsewhere.
    folder
        Where films, ladders and plug-ins in Python are found that it names.
    settings
        What is set over it: dotted key, raw value, and how it was given.
    labels
        What the results call it: column and value.
    """

    scenario: str
    raw: str
    folder: str
    settings: tuple[tuple[str, Any, str], ...]
    labels: tuple[tuple[str, Label], ...]

    @property
    def name(self) -> str:
        """What tells it from other cells, also where two of them make the same plan."""
        text = json.dumps([json.loads(self.raw), [item[:2] for item in self.settings], self.labels])
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def text(self) -> str:
        """Return what makes it what it is, as text: equal cells have equal texts."""
        return json.dumps([json.loads(self.raw), self.folder, self.settings])


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
    once
        Whether a cell that draws nothing is run only once, whatever the number of trials.
    """

    name: str
    cells: tuple[Cell, ...]
    trials: int
    keep: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    once: bool = False

    def jobs(self, planned: Sequence[Planned]) -> Iterator[Job]:
        """Yield every run, trial by trial, so that an unfinished sweep has something of each cell.

        Parameters
        ----------
        planned
            What is known of each cell's plan.
        """
        names = [cell.name for cell in self.cells]
        for run in range(self.trials):
            for place, cell in enumerate(self.cells):
                if run == 0 or not (self.once and planned[place].exact):
                    yield Job(
                        cell=cell,
                        name=names[place],
                        run=run,
                        keep=self.keep,
                        identity=identity.of_run(planned[place].hash, run),
                        alike=planned[place].alike,
                    )


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What is known of a cell's plan before it is run.

    Attributes
    ----------
    hash
        The part of the runs' identities that they share.
    exact
        It draws nothing: all runs are the same.
    alike
        The same text for cells that differ in nothing but their name: their runs of a number are the same.
    """

    hash: str
    exact: bool
    alike: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run.

    Attributes
    ----------
    cell, name
        What is run, and what the cell is called.
    run
        Number of the run under the scenario's seed.
    keep
        Tables of the trace to keep.
    identity
        What the run is called.
    alike
        The same text for cells that differ in nothing but their name.
    """

    cell: Cell
    name: str
    run: int
    keep: tuple[str, ...]
    identity: str
    alike: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """A cell that is wanted: what is set over a scenario, and what results call it.

    Attributes
    ----------
    path
        The scenario's file; of one that is in no file, a name in the folder where its films are found.
    settings, labels
        As of a cell.
    tables
        The scenario's tables, where they are in no file.
    """

    path: Path
    settings: tuple[tuple[str, Any, str], ...]
    labels: tuple[tuple[str, Label], ...]
    tables: Mapping[str, Any] | None = None


def cells(points: Iterable[Point]) -> tuple[Cell, ...]:
    """Return cells, each validated.

    Raises
    ------
    ScenarioError
        With every fault of every scenario and its settings, each once.
    """
    from anabranch.scenario import shipped
    from anabranch.scenario.load import load, tables

    result = []
    faults: dict[Fault, None] = {}
    for point in points:
        overrides = [Override(key=key, value=value, origin=origin) for key, value, origin in point.settings]
        try:
            load(point.path if point.tables is None else point.tables, overrides)
        except ScenarioError as error:
            faults.update(dict.fromkeys(error.faults))
            continue
        raw = json.dumps(tables(point.path) if point.tables is None else point.tables, default=str)
        folder = str(point.path.resolve().parent)
        result.append(
            Cell(
                scenario="stdin" if point.path == shipped.STDIN else point.path.stem,
                raw=raw,
                folder=folder,
                settings=point.settings,
                labels=point.labels,
            )
        )
    if faults:
        raise ScenarioError(faults)
    return tuple(result)


@lru_cache(maxsize=1024)
def _loaded(text: str) -> Loaded:
    """Return a cell's scenario."""
    from anabranch.scenario.load import load

    raw, folder, settings = json.loads(text)
    overrides = [Override(key=key, value=value, origin=origin) for key, value, origin in settings]
    return load(raw, overrides, folder=Path(folder))


@lru_cache(maxsize=1024)
def ready(text: str) -> tuple[Loaded, Film | None]:
    """Return a cell's scenario and film, which its trials share.

    Parameters
    ----------
    text
        What `Cell.text` gives.
    """
    from anabranch._run import film_of

    loaded = _loaded(text)
    return loaded, film_of(loaded)


def planned(sweep: Sweep) -> list[Planned]:
    """Return what is known of each cell's plan."""
    return [_planned(one) for one in sweep.cells]


def _planned(cell: Cell) -> Planned:
    """Return what is known of a cell's plan."""
    from anabranch.scenario import plan as plans
    from anabranch.study import deterministic

    loaded, film = ready(cell.text())
    plan, again = (plans.build(loaded.scenario, film, run=run) for run in (0, 1))
    sources = loaded.sources()
    prices = {path.name: path.price_per_gb for path in loaded.scenario.paths}
    unnamed = {**plan, "scenario": None, "prices": prices}
    return Planned(
        hash=identity.of_cell(plan, sources),
        exact=deterministic.draws_nothing(plan, again, sources),
        alike=identity.of_cell(unnamed, sources),
    )


def make_films(sweep: Sweep, progress: Callable[[float, float], None]) -> None:
    """Make the films that have to be made.

    Parameters
    ----------
    sweep
        What is to be run.
    progress
        Told the seconds of a film made, and how many there will be.
    """
    from anabranch.media import films, ladders

    for one in sweep.cells:
        application = _loaded(one.text()).scenario.application
        if application.kind == "progressive":
            films.make(application.film, progress)
        elif application.kind == "adaptive":
            ladders.make(application.ladder, progress)


def manifest(sweep: Sweep, planned: Sequence[Planned] | None = None) -> dict[str, Any]:
    """Return everything needed to run a sweep again, as JSON can say it.

    Parameters
    ----------
    sweep
        What is to be run.
    planned
        What is known of each cell's plan; None when no cell is to be marked as drawing nothing.
    """
    exact = [one.exact and sweep.once for one in planned or ()] or [False] * len(sweep.cells)
    return {
        "name": sweep.name,
        "code": identity.code(),
        "trials": sweep.trials,
        "keep": list(sweep.keep),
        "notes": dict(sweep.notes),
        "folders": {one.scenario: one.folder for one in sweep.cells},
        "scenarios": {one.scenario: json.loads(one.raw) for one in sweep.cells},
        "cells": [
            {
                "cell": one.name,
                "scenario": one.scenario,
                "settings": {key: value for key, value, _ in one.settings},
                "labels": dict(one.labels),
                **({"exact": True} if is_exact else {}),
            }
            for one, is_exact in zip(sweep.cells, exact, strict=True)
        ],
    }


def stored_cell(found: Mapping[str, Any], cell: Mapping[str, Any]) -> Cell:
    """Return a cell of the manifest."""
    settings = tuple((key, value, "the manifest") for key, value in cell["settings"].items())
    name = cell["scenario"]
    return Cell(
        scenario=name,
        raw=json.dumps(found["scenarios"][name]),
        folder=found["folders"][name],
        settings=settings,
        labels=tuple(cell["labels"].items()),
    )
