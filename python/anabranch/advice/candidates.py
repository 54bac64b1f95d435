"""The candidates: every congestion control, scheduler and rules for outages over every set of paths."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.advice import outages
from anabranch.comparison import paths
from anabranch.errors import Fault, InputError, ScenarioError, did_you_mean
from anabranch.study.sweep import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch.scenario.models import Transport

#: The default congestion controls: three of mainline Linux, and a coupled one.
CONTROLLERS = ("cubic", "bbr", "reno", "balia")
#: The default schedulers: mainline Linux's, the papers' default, two that avoid slow paths, and `redundant`.
SCHEDULERS = ("linux", "min-rtt", "blest", "ecf", "redundant")

#: Plug-ins that mainline Linux has, with their names there.
KERNEL_CONTROLLERS = {"cubic": "cubic", "bbr": "bbr", "reno": "reno"}
KERNEL_SCHEDULERS = {"linux": "default"}
#: The scheduler and the congestion control of a mainline kernel without settings.
KERNEL_DEFAULTS = ("linux", "cubic")

_SCHEDULER, _CONGESTION = "transport.scheduler", "transport.congestion"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A set of paths with a scheduler, a congestion control and rules for outages.

    Attributes
    ----------
    paths
        The paths that are used. A single path carries plain TCP.
    scheduler
        The path scheduler; None for a single path.
    congestion
        The congestion control of every subflow.
    outages
        The rules for paths that stop carrying packets and return.
    short
        Short names of scheduler and congestion control, where they differ from the full names.
    """

    paths: tuple[str, ...]
    scheduler: str | None
    congestion: str
    outages: outages.Rules = outages.KERNEL
    short: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The candidate's name: `wifi + lte, blest, cubic, rto_max 1 s`."""
        return ", ".join(word for word in self.words if word is not None)

    @property
    def words(self) -> tuple[str, str | None, str, str | None]:
        """The paths, the scheduler, the congestion control and the rules for outages, in words."""
        scheduler = None if self.scheduler is None else self.short.get(self.scheduler, self.scheduler)
        congestion = self.short.get(self.congestion, self.congestion)
        return paths.label(self.paths), scheduler, congestion, self.outages.word

    @property
    def in_kernel(self) -> bool:
        """Whether mainline Linux can carry out this candidate."""
        known = self.scheduler is None or self.scheduler in KERNEL_SCHEDULERS
        return known and self.congestion in KERNEL_CONTROLLERS and self.outages.in_kernel

    @property
    def changes(self) -> tuple[bool, int]:
        """How much of the host has to change: whether it needs more than a mainline kernel, and the settings.

        Each path after the first counts as one, and so does everything that is not the kernel's default.
        """
        own = (self.scheduler not in (None, *KERNEL_DEFAULTS), self.congestion not in KERNEL_DEFAULTS)
        return not self.in_kernel, len(self.paths) - 1 + sum(own) + bool(self.outages.keys)

    def settings(self) -> tuple[tuple[str, Any, str], ...]:
        """Return the settings that replace those of the scenario."""
        chosen = [(f"transport.{key}", value, "--outages") for key, value in self.outages.keys]
        chosen.append((_CONGESTION, self.congestion, "--controllers"))
        if self.scheduler is not None:
            chosen.append((_SCHEDULER, self.scheduler, "--schedulers"))
        return tuple(chosen)


def candidates(
    sets: Sequence[tuple[str, ...]],
    controllers: Sequence[str],
    schedulers: Sequence[str],
    rules: Mapping[tuple[str, ...], Sequence[outages.Rules]] | None = None,
) -> list[Candidate]:
    """Return every combination, small sets of paths first.

    Parameters
    ----------
    sets
        The sets of paths.
    controllers, schedulers
        Their names. Schedulers are combined only with sets of several paths.
    rules
        The rules for outages to try with each set of paths; None tries only the kernel's.
    """
    short = plugins.short([*schedulers, *controllers])
    return [
        Candidate(paths=names, scheduler=scheduler, congestion=controller, outages=one, short=short)
        for names in sets
        for scheduler in (schedulers if len(names) > 1 else [None])
        for controller in controllers
        for one in (rules or {}).get(names, (outages.KERNEL,))
    ]


def own(found: Sequence[Candidate], transport: Transport) -> dict[frozenset[str], int]:
    """Return the candidates with a scenario's own scheduler and congestion control, by their paths.

    Parameters
    ----------
    found
        The candidates.
    transport
        The scenario's transport. Plug-ins whose parameters are set are not candidates.
    """
    plugged = (transport.scheduler, transport.congestion)
    if any(one.model_extra for one in plugged):
        return {}
    scheduler, congestion = (one.name for one in plugged)
    places: dict[frozenset[str], int] = {}
    for place, one in enumerate(found):
        # The first rules for outages are the kernel's or the scenario's.
        if one.congestion == congestion and one.scheduler in (None, scheduler):
            places.setdefault(frozenset(one.paths), place)
    return places


def sets(names: Sequence[str], only: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sets of paths to rank, the smallest first.

    Parameters
    ----------
    names
        The scenario's paths.
    only
        The paths to choose from; empty for all.

    Raises
    ------
    InputError
        If the scenario lacks one of them.
    """
    faults = [
        Fault(message=f"no such path: `{name}`", where=f"--paths {name}", hint=did_you_mean(name, names))
        for name in only
        if name not in names
    ]
    if faults:
        raise InputError(faults)
    chosen = [name for name in names if not only or name in only]
    return paths.sets(chosen) if len(chosen) > 1 else [tuple(chosen)]


def validated(
    raw: Mapping[str, Any], folder: Path, controllers: Sequence[str], schedulers: Sequence[str]
) -> None:
    """Check that every scheduler and congestion control is valid in the scenario.

    Raises
    ------
    ScenarioError
        With the faults of all of them.
    """
    from anabranch.scenario._overrides import Override
    from anabranch.scenario.load import load

    faults: dict[Fault, None] = {}
    asked = [(_CONGESTION, one, "--controllers") for one in controllers]
    asked += [(_SCHEDULER, one, "--schedulers") for one in schedulers]
    for key, value, option in asked:
        try:
            load(raw, [Override(key=key, value=value, origin=f"{option} {value}")], folder=folder)
        except ScenarioError as error:
            faults.update(dict.fromkeys(error.faults))
    if faults:
        raise ScenarioError(faults)


def cells(found: Sequence[Candidate], raw: Mapping[str, Any], folder: Path) -> tuple[Cell, ...]:
    """Return a cell for each candidate.

    Parameters
    ----------
    found
        The candidates.
    raw
        The tables of a valid scenario.
    folder
        The folder of the films, ladders and plug-ins that the scenario names.
    """
    # Without rules for outages, the results have no column for them.
    has_rules = any(one.outages.keys for one in found)
    left = {names: json.dumps(paths.only(raw, names), default=str) for names in {one.paths for one in found}}
    return tuple(
        Cell(
            # Each set of paths is stored under a separate name.
            scenario=paths.label(one.paths),
            raw=left[one.paths],
            folder=str(folder.resolve()),
            settings=one.settings(),
            labels=(
                (paths.COLUMN, paths.label(one.paths)),
                (_SCHEDULER, one.scheduler or "-"),
                (_CONGESTION, one.congestion),
                *(((outages.COLUMN, one.outages.name),) if has_rules else ()),
            ),
        )
        for one in found
    )
