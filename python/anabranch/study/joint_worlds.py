"""Random worlds of a study: a value of every assumption at once, each drawn from its list.

The study's own value and each other value are equally likely; a range counts once. Seed and number determine
a world, so a larger number of worlds only adds worlds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.study import draws, ranges
from anabranch.study import study as studies
from anabranch.study.assume import said
from anabranch.study.sweep import Sweep, cells
from anabranch.study.values import FILE
from anabranch.study.variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from anabranch.study.models import Assumption, Study


@dataclass(frozen=True, kw_only=True)
class World:
    """A drawn value of each assumption.

    Attributes
    ----------
    number
        Its number.
    settings
        By assumption the drawn settings; without those that keep the study's own value.
    levels
        By assumption the value in words; of a range, the half that the value lies in.
    """

    number: int
    settings: Mapping[str, dict[str, Any]]
    levels: Mapping[str, str]

    @property
    def label(self) -> str:
        """Return how results call it."""
        return f"world {self.number}"


def world(study: Study, *, seed: int, number: int) -> World:
    """Return one random world."""
    chance = draws.chance(seed, number)
    settings: dict[str, dict[str, Any]] = {}
    levels: dict[str, str] = {}
    for name, one in study.assumptions.items():
        if not one.sweep:
            continue
        place = _place(study, name, one, chance)
        if place == 0:
            levels[name] = said(one.set)
            continue
        value = one.sweep[place - 1]
        settings[name] = ranges.drawn(value, lambda draw: chance(f"draw.{draw}"))
        levels[name] = _level(value, chance) if ranges.is_range(value) else said(value)
    return World(number=number, settings=settings, levels=levels)


def _place(study: Study, name: str, one: Assumption, chance: Callable[[str], float]) -> int:
    """Return the place of the drawn value, 0 for the study's own."""
    head = one.like or name
    place = int(chance(f"place.{head}") * (1 + len(study.assumptions[head].sweep)))
    return place if place <= len(one.sweep) else 0


def _level(value: Mapping[str, Any], chance: Callable[[str], float]) -> str:
    """Return the half of a range in which a value lies, by its first draw."""
    first = next(iter(value[ranges.DRAW]))
    upper = chance(f"draw.{first}") >= 0.5
    middle = said(ranges.drawn(value, lambda _: 0.5))
    low, high = (said(one) for one in (ranges.ends(value)[0], ranges.ends(value)[-1]))
    return f"{middle} to {high}" if upper else f"{low} to {middle}"


def factors(study: Study) -> dict[str, list[str]]:
    """Return the assumptions that are drawn, each with those that are drawn like it."""
    found = {name: [name] for name, one in study.assumptions.items() if one.sweep and one.like is None}
    for name, one in study.assumptions.items():
        if one.sweep and one.like is not None:
            found[one.like].append(name)
    return found


def sweep_of(
    folder: Path,
    study: Study,
    worlds: Collection[World],
    *,
    name: str,
    wanted: Callable[[Mapping[str, Any]], bool],
    trials: int,
    seed: int | None = None,
) -> Sweep:
    """Return the runs of random worlds.

    Parameters
    ----------
    folder, study
        The study.
    worlds
        The worlds.
    name
        The name of the sweep.
    wanted
        Returns whether a cell is wanted, given its labels.
    trials
        Runs of each cell.
    seed
        Another seed of the scenarios, with which the same worlds are run on other luck.
    """
    over = () if seed is None else (("seed", seed, FILE),)
    points = (
        studies.with_settings(point, over)
        for one in worlds
        for point in studies.cells_of_variant(
            folder, study, Variant(name="worlds", label=one.label, changes=one.settings, whole=True)
        )
        if wanted({key: value for key, value in point.labels if key != "varied"})
    )
    return Sweep(name=name, cells=cells(points), trials=trials, notes=studies.sentences(study), once=True)
