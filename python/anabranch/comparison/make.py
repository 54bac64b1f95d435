"""Runs a scenario over sets of its paths."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from anabranch import _files, _progress
from anabranch.comparison import paths
from anabranch.comparison.read import Comparison, read
from anabranch.study.sweep import Sweep
from anabranch.traces._facts import FILE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch._progress import Asked
    from anabranch.errors import Fault
    from anabranch.scenario._overrides import Override
    from anabranch.scenario.load import Loaded

#: The keys that name a file.
_FILES = ("trace", *FILE_KEYS, "film", "ladder")
_PLACE = re.compile(r"(?<![\w./-])[\w./-]+\.py(?=:)")
#: Default number of runs of each set.
TRIALS = 10


def compare(
    scenario: str | Path | Mapping[str, Any],
    *,
    trials: int = TRIALS,
    seed: int | None = None,
    scheduler: str | type | Mapping[str, Any] | None = None,
    congestion: str | type | Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the name that the command line has
    out: str | Path | None = None,
    workers: int | None = None,
    progress: Asked = None,
) -> Comparison:
    """Run a scenario with each of its paths alone, every pair, and all together.

    Parameters
    ----------
    scenario
        Path of a TOML file, name of a shipped scenario, or the tables themselves.
    trials
        The runs of each set of paths. Runs of the same number have the same random draws. A set without
        random draws is run once.
    seed, scheduler, congestion, set
        As of `anabranch.run`, for every set of paths.
    out
        The folder for the results, from which a repeated call continues. None stores nothing.
    workers
        The number of processes; None for one per core.
    progress
        Called with the number of finished runs and of all runs. True shows a bar and False none. None shows
        one in a notebook or a terminal.

    Raises
    ------
    ScenarioError
        With every fault of the scenario.
    InputError
        If the scenario has a single path, or the folder has results of something else.

    Examples
    --------
    >>> import anabranch
    >>> anabranch.compare("wifi-lte", trials=5).sentences  # doctest: +SKIP
    """
    from anabranch.scenario._overrides import by_name
    from anabranch.scenario.load import load
    from anabranch.study.drive import drive

    overrides = by_name(seed=seed, scheduler=scheduler, congestion=congestion, set=set)
    what = sweep_of(load(scenario, overrides), scenario, overrides, trials=trials)
    with TemporaryDirectory() as fallback:
        folder = Path(out or fallback)
        drive(
            what,
            folder,
            films=_progress.shown(progress, "making the film", unit="s"),
            runs=_progress.shown(progress, f"running {what.name}", unit="runs"),
            workers=workers,
        )
        return read(folder)


def sweep_of(
    loaded: Loaded,
    scenario: str | Path | Mapping[str, Any],
    overrides: Sequence[Override | Fault],
    *,
    trials: int,
) -> Sweep:
    """Return the sweep that makes the runs of a comparison.

    Parameters
    ----------
    loaded
        The scenario, validated.
    scenario, overrides
        The source of the scenario, without a fault.
    trials
        Runs of each set of paths.

    Raises
    ------
    InputError
        If it has a single path.
    """
    raw, folder = tables_of(scenario, overrides)
    name = f"{loaded.scenario.name}-paths"
    return Sweep(name=name, cells=paths.cells(raw, folder), trials=trials, once=True)


def tables_of(
    scenario: str | Path | Mapping[str, Any], overrides: Sequence[Override | Fault]
) -> tuple[dict[str, Any], Path]:
    """Return the tables of a valid scenario, and the folder that its file names are relative to.

    Each trial starts a recording at another random offset, unless the scenario sets one. If all trials used
    the same minute, they would be poor evidence about a path.

    Parameters
    ----------
    scenario, overrides
        The source of the scenario, without a fault.
    """
    from anabranch.scenario import _follow, _overrides, shipped
    from anabranch.scenario.load import tables

    if isinstance(scenario, str | Path):
        path = shipped.resolve(scenario)
        raw, folder = tables(path), path.resolve().parent
    else:
        raw, folder = dict(scenario), Path.cwd()
    given = [_here(one) for one in overrides if isinstance(one, _overrides.Override)]
    return _follow.random_starts(_overrides.apply(raw, given).raw), folder


def _here(one: Override) -> Override:
    """Make the file name in an override absolute if the file is in the working folder.

    Overrides become part of the scenario, whose file names are relative to the scenario's folder.
    """
    from anabranch.media import films, ladders

    if not isinstance(one.value, str) or one.value in films.NAMED or one.value in ladders.NAMED:
        return one
    here = Path.cwd()
    value = one.value
    if one.key.rpartition(".")[2] in _FILES and _files.is_file(here / value):
        value = str(here / value)
    # A class given by its file, alone or inside another scheduler: `rtx-aware(mine.py:Mine)`.
    value = _PLACE.sub(
        lambda found: str(here / found[0]) if _files.is_file(here / found[0]) else found[0], value
    )
    return dataclasses.replace(one, value=value)
