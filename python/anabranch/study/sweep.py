"""A sweep: scenarios, a grid over their keys, and trials; what is to be run, as plain data."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import MissingError, ScenarioError
from anabranch.results import identity
from anabranch.results.manifest import tables_of
from anabranch.scenario._overrides import Override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anabranch.errors import Fault
    from anabranch.media.films import Film
    from anabranch.results.inputs import Input
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
        The keys set over it: dotted key, raw value, and origin.
    labels
        Its labels in the results: column and value.
    file
        The scenario's file, if it was read from one.
    warnings
        Warnings about its recordings and ladder.
    """

    scenario: str
    raw: str
    folder: str
    settings: tuple[tuple[str, Any, str], ...]
    labels: tuple[tuple[str, Label], ...]
    file: str = ""
    warnings: tuple[Fault, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The cell's unique name, also if another cell has the same plan."""
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
        Its name.
    cells
        The points of the grid.
    trials
        The runs of each cell: run 0, 1, ... under the scenario's seed, with the same random draws in every
        cell.
    keep
        Tables of the trace to keep of each run.
    notes
        Assumptions and other notes about the results.
    once
        Whether a cell without random draws is run only once, for any number of trials.
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
            The planned cells.
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
                        hash=planned[place].hash,
                    )


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Properties of a cell's plan that are known before it is run.

    Attributes
    ----------
    hash
        The part of the runs' identities that they share.
    exact
        Whether the cell has no random draws, so that all its runs are the same.
    alike
        The same text for cells that differ in nothing but their name: their runs of a number are the same.
    inputs
        The files that its runs depend on.
    """

    hash: str
    exact: bool
    alike: str
    inputs: tuple[Input, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run.

    Attributes
    ----------
    cell, name
        The cell, and its name.
    run
        Number of the run under the scenario's seed.
    keep
        Tables of the trace to keep.
    identity
        The identity of the run.
    alike
        The same text for cells that differ in nothing but their name.
    hash
        The hash of the cell's plan.
    """

    cell: Cell
    name: str
    run: int
    keep: tuple[str, ...]
    identity: str
    alike: str
    hash: str = ""

    def ready(self) -> tuple[Loaded, Film | None]:
        """Return the cell's scenario and film; see `ready`."""
        return ready(self.cell.text(), self.hash)


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
    where
        How messages name a scenario that is in no file.
    """

    path: Path
    settings: tuple[tuple[str, Any, str], ...]
    labels: tuple[tuple[str, Label], ...]
    tables: Mapping[str, Any] | None = None
    where: str = ""


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
            if point.tables is None:
                loaded = load(point.path, overrides)
            else:
                loaded = load(point.tables, overrides, folder=point.path.resolve().parent)
        except ScenarioError as error:
            faults.update(_told(error, point, faults))
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
                file=""
                if point.tables is not None or point.path == shipped.STDIN
                else str(point.path.resolve()),
                warnings=loaded.warnings,
            )
        )
    if faults:
        raise ScenarioError(faults)
    return tuple(result)


def _told(error: ScenarioError, point: Point, known: Iterable[Fault]) -> dict[Fault, None]:
    """Return the faults of a point; those of drawn worlds name the first world that has them."""
    if not point.where:
        return dict.fromkeys(error.faults)
    said = {(fault.message, fault.key) for fault in known}
    return {
        replace(fault, where=point.where if fault.where == "scenario" else fault.where): None
        for fault in error.faults
        if (fault.message, fault.key) not in said
    }


@lru_cache(maxsize=1024)
def _loaded(text: str) -> Loaded:
    """Return a cell's scenario. Its plug-ins may have changed since the sweep began."""
    from anabranch.scenario.load import load

    raw, folder, settings = json.loads(text)
    overrides = [Override(key=key, value=value, origin=origin) for key, value, origin in settings]
    return load(raw, overrides, folder=Path(folder))


#: Scenarios and films of cells by text and hash of the plan. A changed file changes the hash.
_READY: OrderedDict[tuple[str, str], tuple[Loaded, Film | None]] = OrderedDict()
_MOST_READY = 1024


def ready(text: str, hash: str) -> tuple[Loaded, Film | None]:  # noqa: A002 - as a cell's plan has it
    """Return a cell's scenario and film, which its trials share.

    Parameters
    ----------
    text
        The value of `Cell.text`.
    hash
        The hash of its plan. If it is empty, it is unknown and nothing is compared.

    Raises
    ------
    MissingError
        If its files are not those of the plan, because they were edited or differ on this machine.
    """
    found = _READY.get((text, hash))
    if found is None:
        from anabranch._cell import cell_of

        found = afresh(text)
        if hash and cell_of(*found) != hash:
            message = "a plug-in, film or recording is not what it was when the sweep began"
            hint = (
                "was it edited meanwhile? finished runs are kept: repeat the command to run what is missing"
            )
            raise MissingError(message, hint=hint)
        _remember(text, hash, found)
    return found


def _remember(text: str, hash: str, found: tuple[Loaded, Film | None]) -> None:  # noqa: A002
    """Store a cell's scenario and film for its trials."""
    _READY[text, hash] = found
    while len(_READY) > _MOST_READY:
        _READY.popitem(last=False)


def afresh(text: str) -> tuple[Loaded, Film | None]:
    """Return a cell's scenario and film from the present files.

    Parameters
    ----------
    text
        The result of `Cell.text`.
    """
    from anabranch.scenario.load import load
    from anabranch.scenario.streamed import film_of

    raw, folder, settings = json.loads(text)
    overrides = [Override(key=key, value=value, origin=origin) for key, value, origin in settings]
    loaded = load(raw, overrides, folder=Path(folder))
    return loaded, film_of(loaded)


def planned(sweep: Sweep) -> list[Planned]:
    """Return what is known of each cell's plan."""
    return [_planned(one) for one in sweep.cells]


def _planned(cell: Cell) -> Planned:
    """Return what is known of a cell's plan."""
    from anabranch.scenario import plan as plans
    from anabranch.study import deterministic, inputs

    loaded, film = afresh(cell.text())
    plan, again = (plans.build(loaded.scenario, film, run=run) for run in (0, 1))
    sources = loaded.sources()
    prices = {path.name: path.price_per_gb for path in loaded.scenario.paths}
    unnamed = {**plan, "scenario": None, "prices": prices}
    shared = identity.of_cell(plan, sources)
    _remember(cell.text(), shared, (loaded, film))
    return Planned(
        hash=shared,
        exact=deterministic.draws_nothing(plan, again, sources),
        alike=identity.of_cell(unnamed, sources),
        inputs=tuple(inputs.of(loaded, cell.file)),
    )


def make_films(sweep: Sweep, progress: Callable[[float, float], None], *, played: bool = False) -> None:
    """Make the ladders that have to be made, and the films if a program will play them.

    Parameters
    ----------
    sweep
        The sweep.
    progress
        Called with the seconds of film made so far, and of the whole film.
    played
        Whether a program plays the files.
    """
    from anabranch.media import films, ladders

    for one in sweep.cells:
        application = _loaded(one.text()).scenario.application
        if application.kind == "progressive" and played:
            films.make(application.film, progress)
        elif application.kind == "adaptive":
            ladders.make(application.ladder_name, progress)


def manifest(sweep: Sweep, planned: Sequence[Planned] | None = None) -> dict[str, Any]:
    """Return everything needed to run a sweep again, as an object for JSON.

    Parameters
    ----------
    sweep
        The sweep.
    planned
        The planned cells; None if no cell is to be marked as drawing nothing.
    """
    return {
        "name": sweep.name,
        "code": identity.code(),
        "trials": sweep.trials,
        "keep": list(sweep.keep),
        "notes": dict(sweep.notes),
        "scenarios": {_text_of(one): json.loads(one.raw) for one in sweep.cells},
        "cells": [
            {
                "cell": one.name,
                "scenario": one.scenario,
                "text": _text_of(one),
                "folder": one.folder,
                "file": one.file,
                "settings": {key: value for key, value, _ in one.settings},
                "labels": dict(one.labels),
                **({} if plan is None else _known(plan, once=sweep.once)),
            }
            for one, plan in zip_longest(sweep.cells, planned or ())
        ],
    }


def _text_of(cell: Cell) -> str:
    """Return the manifest's name for the tables of a cell's scenario."""
    return hashlib.sha256(cell.raw.encode()).hexdigest()[:12]


def _known(plan: Planned, *, once: bool) -> dict[str, Any]:
    """Return the manifest's entries about a cell's plan."""
    exact = {"exact": True} if once and plan.exact else {}
    return {**exact, "hash": plan.hash, "alike": plan.alike, "inputs": list(plan.inputs)}


def stored_cell(found: Mapping[str, Any], cell: Mapping[str, Any]) -> Cell:
    """Return a cell of the manifest."""
    settings = tuple((key, value, "the manifest") for key, value in cell["settings"].items())
    return Cell(
        scenario=cell["scenario"],
        raw=json.dumps(tables_of(found, cell)),
        folder=cell["folder"],
        settings=settings,
        labels=tuple(cell["labels"].items()),
        file=cell.get("file", ""),
    )
